//! What is allocated, read from the counting allocator that a benchmark installs, and what is copied, read from the stack's counters.
use lowwater_core::base::Counters;
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

/// Payload bytes that a stack copied: from writers, to readers, and between its own buffers.
#[must_use]
pub const fn copied_bytes(count: &Counters) -> u64 {
    let own = &count.own;
    own.payload_copied_in + own.payload_copied_out + own.payload_copied_inside
}
