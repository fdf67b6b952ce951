//! An allocator that counts what is live and how often it was asked.
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Install with `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

static LIVE: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);

/// Bytes allocated and not freed.
#[must_use]
pub fn live_bytes() -> u64 {
    LIVE.load(Relaxed)
}

/// Allocations so far.
#[must_use]
pub fn calls() -> u64 {
    CALLS.load(Relaxed)
}

// SAFETY: every call is handed to the system's allocator unchanged; the counters have no influence on it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as u64, Relaxed);
        CALLS.fetch_add(1, Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.dealloc(at, layout) }
    }
}
