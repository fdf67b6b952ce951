//! What FORWARD TSN (RFC 3758 section 3.2) and I-FORWARD-TSN (RFC 8260 section 2.3.1) say about each stream.
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The last message of a stream that is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ForwardStream {
    sid: U16,
    ssn: U16,
}

impl ForwardStream {
    /// Stream and stream sequence number.
    #[must_use]
    pub const fn new(sid: u16, ssn: u16) -> Self {
        Self { sid: U16::new(sid), ssn: U16::new(ssn) }
    }

    /// Stream identifier.
    #[must_use]
    pub const fn sid(&self) -> u16 {
        self.sid.get()
    }

    /// Largest stream sequence number that is skipped.
    #[must_use]
    pub const fn ssn(&self) -> u16 {
        self.ssn.get()
    }
}

/// The last interleaved message of a stream that is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct IForwardStream {
    sid: U16,
    flags: U16,
    mid: U32,
}

impl IForwardStream {
    /// Stream, whether its unordered messages are meant, and message identifier.
    #[must_use]
    pub const fn new(sid: u16, unordered: bool, mid: u32) -> Self {
        Self { sid: U16::new(sid), flags: U16::new(unordered as u16), mid: U32::new(mid) }
    }

    /// Stream identifier.
    #[must_use]
    pub const fn sid(&self) -> u16 {
        self.sid.get()
    }

    /// U: about unordered messages.
    #[must_use]
    pub const fn unordered(&self) -> bool {
        self.flags.get() & 1 != 0
    }

    /// Largest message identifier that is skipped.
    #[must_use]
    pub const fn mid(&self) -> u32 {
        self.mid.get()
    }
}
