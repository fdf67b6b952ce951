//! What SCTP packets travel in on a link.

/// What is around an SCTP packet on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carrier {
    /// IP packets, with UDP or without.
    #[default]
    Ip,
    /// Datagrams without an IP header, one packet in each (RFC 8261): neither side has a second address, and nobody cuts a packet.
    Datagrams,
    /// The same within DTLS, which finds every changed bit: the CRC32c may be left out (RFC 9653 section 4).
    Dtls,
}

impl Carrier {
    /// Addresses mean something to the peer.
    #[must_use]
    pub const fn has_addresses(self) -> bool {
        matches!(self, Self::Ip)
    }

    /// It finds errors at least as well as the CRC32c.
    #[must_use]
    pub const fn detects_errors(self) -> bool {
        matches!(self, Self::Dtls)
    }
}
