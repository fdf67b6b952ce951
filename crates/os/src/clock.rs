//! The monotonic clock of the operating system as the core's `Instant`.
use lowwater_core::base::Instant;
use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC in nanoseconds since an origin; a copy reads the same clock, so that shards can share one.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: u64,
}

impl Clock {
    /// A clock whose origin is now.
    #[must_use]
    pub fn start() -> Self {
        Self { origin: monotonic() }
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::from_nanos(monotonic().saturating_sub(self.origin))
    }

    /// `at` in nanoseconds of CLOCK_MONOTONIC, for timers of the operating system.
    #[must_use]
    pub fn monotonic_nanos(&self, at: Instant) -> u64 {
        self.origin.saturating_add(at.as_nanos())
    }
}

fn monotonic() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    // Neither field is negative: the clock counts from boot.
    (t.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(t.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_forward_from_zero() {
        let clock = Clock::start();
        let a = clock.now();
        std::thread::sleep(core::time::Duration::from_millis(2));
        let b = clock.now();
        assert!(a.as_millis() < 1_000);
        assert!(b.since(a) >= core::time::Duration::from_millis(2));
        assert_eq!(clock.monotonic_nanos(b) - clock.monotonic_nanos(a), b.nanos_since(a));
    }
}
