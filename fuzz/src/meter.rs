//! Counts what is allocated, to see memory and work stay bounded.
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that are allocated now.
pub(crate) fn live_bytes() -> usize {
    let s = GLOBAL.stats();
    s.bytes_allocated.saturating_sub(s.bytes_deallocated)
}

/// Allocations so far.
pub(crate) fn allocations() -> usize {
    let s = GLOBAL.stats();
    s.allocations + s.reallocations
}
