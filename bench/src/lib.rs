//! What the benchmarks share: a counting allocator and two stacks in one process.
#![forbid(unsafe_code)]
pub mod args;
pub mod counting;
pub mod datagrams;
pub mod duo;
pub mod hash;
pub mod messages;
pub mod paced;
pub mod pattern;
pub mod rounds;
pub mod single;
