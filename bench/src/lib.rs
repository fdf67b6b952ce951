//! What the benchmarks share: a counting allocator and two stacks in one process.
pub mod counting;
pub mod duo;
