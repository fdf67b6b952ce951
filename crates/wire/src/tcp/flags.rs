//! The control bits of a TCP segment.
use core::ops::{BitAnd, BitOr, BitOrAssign, Sub};

/// A set of control bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TcpFlags(u16);

impl TcpFlags {
    /// No bit at all.
    pub const EMPTY: Self = Self(0);
    /// No more data from the sender.
    pub const FIN: Self = Self(0x001);
    /// Synchronize sequence numbers.
    pub const SYN: Self = Self(0x002);
    /// Reset the connection.
    pub const RST: Self = Self(0x004);
    /// Push.
    pub const PSH: Self = Self(0x008);
    /// The acknowledgment field is significant.
    pub const ACK: Self = Self(0x010);
    /// The urgent pointer is significant.
    pub const URG: Self = Self(0x020);
    /// Echo of congestion experienced (RFC 3168).
    pub const ECE: Self = Self(0x040);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x080);
    /// Accurate ECN, once NS (RFC 9768).
    pub const AE: Self = Self(0x100);

    const NAMES: [(Self, &'static str); 9] = [
        (Self::FIN, "FIN"),
        (Self::SYN, "SYN"),
        (Self::RST, "RST"),
        (Self::PSH, "PSH"),
        (Self::ACK, "ACK"),
        (Self::URG, "URG"),
        (Self::ECE, "ECE"),
        (Self::CWR, "CWR"),
        (Self::AE, "AE"),
    ];

    /// The set with these bits; reserved ones are ignored (RFC 9293 section 3.1).
    #[must_use]
    pub const fn from_bits_truncate(bits: u16) -> Self {
        Self(bits & 0x1ff)
    }

    /// The bits as they lie in the header.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// True if all of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if any of `other` is set.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if no bit is set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Sets `other`.
    pub const fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Clears `other`.
    pub const fn remove(&mut self, other: Self) {
        self.0 &= !other.0;
    }

    /// FIN.
    #[must_use]
    pub const fn fin(self) -> bool {
        self.contains(Self::FIN)
    }

    /// SYN.
    #[must_use]
    pub const fn syn(self) -> bool {
        self.contains(Self::SYN)
    }

    /// RST.
    #[must_use]
    pub const fn rst(self) -> bool {
        self.contains(Self::RST)
    }

    /// ACK.
    #[must_use]
    pub const fn ack(self) -> bool {
        self.contains(Self::ACK)
    }
}

impl BitOr for TcpFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for TcpFlags {
    fn bitor_assign(&mut self, other: Self) {
        self.insert(other);
    }
}

impl BitAnd for TcpFlags {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Sub for TcpFlags {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl core::fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let set = Self::NAMES.iter().filter(|(flag, _)| self.contains(*flag));
        for (i, (_, name)) in set.enumerate() {
            f.write_str(if i == 0 { "" } else { "|" })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}
