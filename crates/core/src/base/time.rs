//! The stack's time: nanoseconds since an origin that the driver chooses; it never runs backwards.
use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, AddAssign, Sub};
pub use core::time::Duration;

/// A point in time, in nanoseconds since the driver's origin.
///
/// The core never reads a clock: drivers pass `Instant`s in, and the simulator invents them. Inside, one more than the number is
/// kept: a deadline that may be missing takes no more room than one that is there, and a connection has twenty of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(NonZeroU64);

impl Default for Instant {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Instant {
    /// The origin.
    pub const ZERO: Self = Self::from_nanos(0);
    /// A point that never comes: a deadline there is none.
    pub const FAR_FUTURE: Self = Self::from_nanos(u64::MAX);
    /// The last point that comes, after 584 years: the clock of a stack ends here, and what is due later stays for ever.
    pub const LAST: Self = Self::from_nanos(u64::MAX - 2);

    /// The instant `ns` nanoseconds after the origin; the last one, after 584 years, is [`Instant::FAR_FUTURE`].
    #[must_use]
    pub const fn from_nanos(ns: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(ns))
    }

    /// The instant `us` microseconds after the origin.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self::from_nanos(us.saturating_mul(1_000))
    }

    /// The instant `ms` milliseconds after the origin.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self::from_nanos(ms.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// Whole microseconds since the origin.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.as_nanos() / 1_000
    }

    /// Whole milliseconds since the origin.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.as_nanos() / 1_000_000
    }

    /// Time from `earlier` to `self`; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// Nanoseconds from `earlier` to `self`; zero when `earlier` is later.
    #[must_use]
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.get().saturating_sub(earlier.0.get())
    }

    /// The earlier of two deadlines, either of which may be missing.
    #[must_use]
    pub fn earlier(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// `self` moved by `ns` nanoseconds, saturating.
    #[must_use]
    pub const fn plus_nanos(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

/// Nanoseconds of a duration, saturating at `u64::MAX` (584 years).
#[must_use]
pub const fn nanos(d: Duration) -> u64 {
    d.as_secs().saturating_mul(1_000_000_000).saturating_add(d.subsec_nanos() as u64)
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, delay: Duration) -> Self {
        self.plus_nanos(nanos(delay))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, delay: Duration) {
        *self = *self + delay;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, delay: Duration) -> Self {
        Self::from_nanos(self.as_nanos().saturating_sub(nanos(delay)))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.as_nanos() / 1_000_000_000, self.as_nanos() % 1_000_000_000)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_deadline_costs_nothing() {
        assert_eq!(size_of::<Option<Instant>>(), 8);
    }

    #[test]
    fn both_ends_of_time_hold() {
        assert_eq!(Instant::ZERO.as_nanos(), 0);
        assert_eq!(Instant::FAR_FUTURE.plus_nanos(1), Instant::FAR_FUTURE);
        assert_eq!(Instant::from_nanos(u64::MAX), Instant::FAR_FUTURE);
        assert_eq!(Instant::ZERO - Duration::from_secs(1), Instant::ZERO);
        assert_eq!(Instant::from_micros(7).nanos_since(Instant::from_nanos(1)), 6_999);
    }
}
