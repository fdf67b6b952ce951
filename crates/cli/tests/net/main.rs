//! `serve`, `get` and `sctp-send` against the kernel and each other, each test in a network namespace of its own.
mod capture;
mod client;
mod crowd;
mod cut_short;
mod running;
mod sctp;
mod served;
#[path = "../support/mod.rs"]
mod support;
mod transfers;
