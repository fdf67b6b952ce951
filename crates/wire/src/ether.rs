//! The Ethernet II header and link addresses (RFC 894, IEEE 802.3).
use crate::Malformed;
use core::net::{Ipv4Addr, Ipv6Addr};
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of a header without VLAN tag.
pub const HEADER_LEN: usize = 14;
/// Ethertype of IPv4.
pub const TYPE_IPV4: u16 = 0x0800;
/// Ethertype of ARP.
pub const TYPE_ARP: u16 = 0x0806;
/// Ethertype of IPv6.
pub const TYPE_IPV6: u16 = 0x86dd;

/// A 48-bit link address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EtherAddr(pub [u8; 6]);

impl EtherAddr {
    /// All stations.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// The unknown address, as in an ARP request.
    pub const ZERO: Self = Self([0; 6]);

    /// True for groups of stations, broadcast included.
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// True for all stations.
    #[must_use]
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }

    /// True for an address that one station may own.
    #[must_use]
    pub fn is_unicast(self) -> bool {
        !self.is_multicast() && self != Self::ZERO
    }

    /// The group that an IPv4 multicast address maps to (RFC 1112 section 6.4).
    #[must_use]
    pub const fn multicast_v4(group: Ipv4Addr) -> Self {
        let [_, b, c, d] = group.octets();
        Self([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// The group that an IPv6 multicast address maps to (RFC 2464 section 7).
    #[must_use]
    pub const fn multicast_v6(group: Ipv6Addr) -> Self {
        let [.., a, b, c, d] = group.octets();
        Self([0x33, 0x33, a, b, c, d])
    }
}

impl core::fmt::Display for EtherAddr {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl core::fmt::Debug for EtherAddr {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    dst: [u8; 6],
    src: [u8; 6],
    ethertype: U16,
}

/// An Ethernet frame without its check sequence.
#[derive(Clone, Copy)]
pub struct EtherView<'a> {
    header: &'a Header,
    payload: &'a [u8],
}

impl<'a> EtherView<'a> {
    /// Checks the length.
    ///
    /// # Errors
    /// When the header is cut short.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, payload) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        Ok(Self { header, payload })
    }

    /// Destination address.
    #[must_use]
    pub fn dst(&self) -> EtherAddr {
        EtherAddr(self.header.dst)
    }

    /// Source address.
    #[must_use]
    pub fn src(&self) -> EtherAddr {
        EtherAddr(self.header.src)
    }

    /// What the payload is.
    #[must_use]
    pub fn ethertype(&self) -> u16 {
        self.header.ethertype.get()
    }

    /// What follows the header, link padding included.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// An Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtherRepr {
    /// Destination address.
    pub dst: EtherAddr,
    /// Source address.
    pub src: EtherAddr,
    /// What the payload is.
    pub ethertype: u16,
}

impl EtherRepr {
    /// The header's fields.
    #[must_use]
    pub fn parse(view: &EtherView<'_>) -> Self {
        Self { dst: view.dst(), src: view.src(), ethertype: view.ethertype() }
    }

    /// Bytes that [`Self::emit`] writes.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header to the front of `buffer`.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Self::buffer_len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let header = Header { dst: self.dst.0, src: self.src.0, ethertype: self.ethertype.into() };
        buffer[..HEADER_LEN].copy_from_slice(header.as_bytes());
    }
}

#[cfg(test)]
mod tests;
