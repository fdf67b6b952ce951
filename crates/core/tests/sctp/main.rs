//! SCTP between two stacks in virtual time, one file per subject.
#![allow(dead_code, unreachable_pub, reason = "each test uses its own part of the world")]
mod bookkeeping;
mod byhand;
mod closing;
mod congestion;
mod datagram;
mod encap;
mod extensions;
mod full_device;
mod heartbeat;
mod hostile;
mod multihoming;
mod opening;
mod queues;
mod reconfig;
mod recovery;
mod restart;
mod strangers;
mod told;
mod trains;
mod transfer;
mod world;
