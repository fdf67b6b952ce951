//! The laws that hold after every step, whatever was thrown at the stacks.
use crate::meter;
use crate::world::Side;
use lowwater_core::base::Instant;

/// Bytes that one case may have allocated: two stacks with at most [`crate::world::SOCKETS_MAX`] sockets each, whose buffers
/// are bounded by the settings of the case, and what the fuzzer itself keeps.
const LIVE_BYTES: usize = 192 << 20;
/// Allocations in one step: the largest step hands a burst of packets over.
const ALLOCATIONS: usize = 60_000;

/// What was true before a step.
pub(crate) struct Before {
    now: [Instant; 2],
    allocations: usize,
}

impl Before {
    /// Remembers.
    pub(crate) fn new(now: [Instant; 2]) -> Self {
        Self { now, allocations: meter::allocations() }
    }

    /// Compares.
    pub(crate) fn check(&self, now: [Instant; 2], base: usize) -> Result<(), String> {
        if now[0] < self.now[0] || now[1] < self.now[1] {
            return Err(format!("time ran backwards: {:?} after {:?}", now, self.now));
        }
        let live = meter::live_bytes().saturating_sub(base);
        if live > LIVE_BYTES {
            return Err(format!("memory is not bounded: {live} bytes are allocated"));
        }
        let work = meter::allocations() - self.allocations;
        if work > ALLOCATIONS {
            return Err(format!("work is not bounded: {work} allocations in one step"));
        }
        Ok(())
    }
}

/// What a flow has below it is in the stack or at the device, byte by byte.
pub(crate) fn credit(side: &Side) -> Result<(), String> {
    for flow in side.stack.credits() {
        let ours = side.held.iter().filter(|owner| owner.flow.socket == flow.socket);
        let owed: i64 = ours.map(|owner| i64::from(owner.charge)).sum();
        if flow.at_device() != owed {
            return Err(format!("credit is not conserved: {flow:?}, {owed} at the device"));
        }
    }
    Ok(())
}
