//! What is allocated, and how often: read from the counting allocator that a benchmark installs.
pub use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
pub use std::alloc::System;

/// Bytes allocated and not freed.
#[must_use]
pub fn live_bytes() -> u64 {
    let s = INSTRUMENTED_SYSTEM.stats();
    (s.bytes_allocated - s.bytes_deallocated) as u64
}

/// Allocations so far.
#[must_use]
pub fn calls() -> u64 {
    INSTRUMENTED_SYSTEM.stats().allocations as u64
}
