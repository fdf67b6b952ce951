//! Sequence numbers: a newtype with serial arithmetic (RFC 9293 section 3.4).
use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A TCP sequence number. Comparisons are circular, so there is no `Ord`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq(pub u32);

impl Seq {
    /// `self < other` on the circle.
    #[must_use]
    pub const fn before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// `self > other` on the circle.
    #[must_use]
    pub const fn after(self, other: Self) -> bool {
        other.before(self)
    }

    /// `self <= other` on the circle.
    #[must_use]
    pub const fn at_or_before(self, other: Self) -> bool {
        !other.before(self)
    }

    /// `self >= other` on the circle.
    #[must_use]
    pub const fn at_or_after(self, other: Self) -> bool {
        !self.before(other)
    }

    /// `low <= self <= high` on the circle.
    #[must_use]
    pub const fn between(self, low: Self, high: Self) -> bool {
        high.0.wrapping_sub(low.0) >= self.0.wrapping_sub(low.0)
    }

    /// Bytes from `earlier` to `self`, modulo 2^32.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// The later of the two.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.before(other) { other } else { self }
    }

    /// The earlier of the two.
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if self.before(other) { self } else { other }
    }
}

impl Add<u32> for Seq {
    type Output = Self;
    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for Seq {
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl Sub<u32> for Seq {
    type Output = Self;
    fn sub(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
