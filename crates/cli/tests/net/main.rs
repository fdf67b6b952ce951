//! `serve` and `get` against the kernel, each test in a network namespace of its own.
mod capture;
mod client;
mod crowd;
mod served;
#[path = "../support/mod.rs"]
mod support;
mod transfers;
