//! Transmission sequence numbers, widened to 64 bits once at the door so that nothing inside has to mind wrapping.
//!
//! RFC 9260 section 1.6 compares TSNs by serial arithmetic. Here the first TSN of an association becomes 2^32 plus its value, and
//! every later one is placed next to a number that is known; inside they are plain, ordered numbers.

/// A TSN whose low 32 bits are those of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tsn(pub u64);

impl Tsn {
    /// The initial TSN of an INIT or INIT ACK.
    #[must_use]
    pub const fn initial(wire: u32) -> Self {
        Self((1 << 32) + wire as u64)
    }

    /// The number on the wire.
    #[must_use]
    pub const fn wire(self) -> u32 {
        self.0 as u32
    }

    /// The TSN with these bits that is nearest to this one.
    #[must_use]
    pub const fn near(self, wire: u32) -> Self {
        let offset = wire.wrapping_sub(self.0 as u32) as i32;
        Self(self.0.wrapping_add_signed(offset as i64))
    }

    /// The lowest TSN with these bits that is greater than this one.
    #[must_use]
    pub const fn after(self, wire: u32) -> Self {
        Self(self.0 + 1 + wire.wrapping_sub(self.0 as u32).wrapping_sub(1) as u64)
    }

    /// The one behind.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The one before.
    #[must_use]
    pub const fn prev(self) -> Self {
        Self(self.0 - 1)
    }

    /// The one `n` further.
    #[must_use]
    pub const fn plus(self, n: u64) -> Self {
        Self(self.0 + n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_on_the_wire_and_not_inside() {
        let first = Tsn::initial(u32::MAX);
        assert_eq!(first.wire(), u32::MAX);
        assert_eq!(first.next().wire(), 0);
        assert!(first.next() > first);
        assert_eq!(first.near(0), first.next());
        for wire in [0, 1, u32::MAX - 1, u32::MAX, 1 << 31] {
            let after = first.after(wire);
            assert!(after > first && after.0 - first.0 <= 1 << 32 && after.wire() == wire);
        }
        assert_eq!(first.after(0), first.next());
        assert_eq!(first.near(5), first.plus(6));
        assert_eq!(first.next().near(u32::MAX), first);
        assert_eq!(Tsn::initial(0).near(u32::MAX), Tsn::initial(0).prev());
    }
}
