//! SCTP between two stacks in virtual time, one file per subject.
#![allow(dead_code, unreachable_pub, reason = "each test uses its own part of the world")]
mod opening;
mod world;
