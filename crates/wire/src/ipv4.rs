//! The IPv4 header (RFC 791) with its checksum.
use crate::{Malformed, checksum};
use core::net::Ipv4Addr;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of a header without options.
pub const HEADER_LEN: usize = 20;
/// Longest header: the length field counts 15 words.
pub const MAX_HEADER_LEN: usize = 60;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    version_ihl: u8,
    tos: u8,
    total_len: U16,
    ident: U16,
    flags_offset: U16,
    ttl: u8,
    protocol: u8,
    checksum: U16,
    src: [u8; 4],
    dst: [u8; 4],
}

/// An IPv4 packet whose version and lengths have been checked; its header checksum has not.
#[derive(Clone, Copy)]
pub struct Ipv4View<'a> {
    header: &'a Header,
    header_bytes: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Ipv4View<'a> {
    /// Checks version and lengths. Bytes past the total length are link padding and are left out.
    ///
    /// # Errors
    /// When header or packet are cut short, or a length or the version is impossible.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let view = Self::parse_quoted(bytes)?;
        if bytes.len() < usize::from(view.total_len()) { Err(Malformed::Truncated) } else { Ok(view) }
    }

    /// As [`Self::parse`] for the packet that an ICMP error quotes, of which only the beginning need be there.
    ///
    /// # Errors
    /// When the header is cut short, or a length or the version is impossible.
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, _) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        if header.version_ihl >> 4 != 4 {
            return Err(Malformed::Version);
        }
        let header_len = usize::from(header.version_ihl & 0x0f) * 4;
        if header_len < HEADER_LEN {
            return Err(Malformed::HeaderLength);
        }
        let total_len = usize::from(header.total_len.get());
        if total_len < header_len {
            return Err(Malformed::TotalLength);
        }
        let packet = &bytes[..total_len.min(bytes.len())];
        let (header_bytes, payload) = packet.split_at_checked(header_len).ok_or(Malformed::Truncated)?;
        Ok(Self { header, header_bytes, payload })
    }

    /// Header length in bytes, options included.
    #[must_use]
    pub fn header_len(&self) -> usize {
        self.header_bytes.len()
    }

    /// Length of header and payload as the header states it, in bytes.
    #[must_use]
    pub fn total_len(&self) -> u16 {
        self.header.total_len.get()
    }

    /// Type of service: DSCP and ECN (RFC 2474, RFC 3168).
    #[must_use]
    pub fn tos(&self) -> u8 {
        self.header.tos
    }

    /// Identification.
    #[must_use]
    pub fn ident(&self) -> u16 {
        self.header.ident.get()
    }

    /// The DF bit.
    #[must_use]
    pub fn dont_fragment(&self) -> bool {
        self.header.flags_offset.get() & DONT_FRAGMENT != 0
    }

    /// The MF bit.
    #[must_use]
    pub fn more_fragments(&self) -> bool {
        self.header.flags_offset.get() & MORE_FRAGMENTS != 0
    }

    /// Fragment offset in bytes.
    #[must_use]
    pub fn fragment_offset(&self) -> u16 {
        (self.header.flags_offset.get() & OFFSET_MASK) * 8
    }

    /// True if this is a part of a packet, which must be reassembled first.
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        self.header.flags_offset.get() & (MORE_FRAGMENTS | OFFSET_MASK) != 0
    }

    /// Time to live.
    #[must_use]
    pub fn ttl(&self) -> u8 {
        self.header.ttl
    }

    /// Protocol of the payload.
    #[must_use]
    pub fn protocol(&self) -> u8 {
        self.header.protocol
    }

    /// Source address.
    #[must_use]
    pub fn src(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.header.src)
    }

    /// Destination address.
    #[must_use]
    pub fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.header.dst)
    }

    /// The raw options, padding included.
    #[must_use]
    pub fn options(&self) -> &'a [u8] {
        &self.header_bytes[HEADER_LEN..]
    }

    /// What follows the header; shorter than stated only for a quoted packet.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// True if the header checksum adds up.
    #[must_use]
    pub fn checksum_ok(&self) -> bool {
        checksum::verify(0, self.header_bytes)
    }
}

/// An IPv4 header without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Repr {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Protocol of the payload ([`crate::protocol`]).
    pub protocol: u8,
    /// Time to live.
    pub ttl: u8,
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// Identification.
    pub ident: u16,
    /// The DF bit.
    pub dont_fragment: bool,
    /// The MF bit.
    pub more_fragments: bool,
    /// Fragment offset in bytes, a multiple of 8 (the rest is cut off).
    pub fragment_offset: u16,
    /// Length of the payload in bytes, at most 65515 (more is cut off).
    pub payload_len: u16,
}

impl Ipv4Repr {
    /// The header's fields; options are left out.
    #[must_use]
    pub fn parse(view: &Ipv4View<'_>) -> Self {
        Self {
            src: view.src(),
            dst: view.dst(),
            protocol: view.protocol(),
            ttl: view.ttl(),
            tos: view.tos(),
            ident: view.ident(),
            dont_fragment: view.dont_fragment(),
            more_fragments: view.more_fragments(),
            fragment_offset: view.fragment_offset(),
            payload_len: view.total_len() - view.header_len() as u16,
        }
    }

    /// Bytes that [`Self::emit`] writes.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header with its checksum to the front of `buffer`.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Self::buffer_len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let mut flags_offset = self.fragment_offset / 8;
        if self.dont_fragment {
            flags_offset |= DONT_FRAGMENT;
        }
        if self.more_fragments {
            flags_offset |= MORE_FRAGMENTS;
        }
        let total_len = self.payload_len.saturating_add(HEADER_LEN as u16);
        // Summed from the fields: reading back bytes that were just written one by one would stall.
        let words = [0x4500 | u16::from(self.tos), total_len, self.ident, flags_offset]
            .into_iter()
            .fold(u64::from(u16::from_be_bytes([self.ttl, self.protocol])), |sum, word| {
                sum + u64::from(word)
            });
        let addresses = u64::from(self.src.to_bits()) + u64::from(self.dst.to_bits());
        let header = Header {
            version_ihl: 0x45,
            tos: self.tos,
            total_len: total_len.into(),
            ident: self.ident.into(),
            flags_offset: flags_offset.into(),
            ttl: self.ttl,
            protocol: self.protocol,
            checksum: checksum::finish(words + addresses).into(),
            src: self.src.octets(),
            dst: self.dst.octets(),
        };
        buffer[..HEADER_LEN].copy_from_slice(header.as_bytes());
    }
}

/// Takes one off the time to live of the header in `packet` and updates its checksum (RFC 1624), as a router does. Returns
/// the new value, or `None` without a change when it is spent or `packet` is no header.
pub fn decrement_ttl(packet: &mut [u8]) -> Option<u8> {
    let (header, _) = Header::mut_from_prefix(packet).ok()?;
    let old = u16::from_be_bytes([header.ttl, header.protocol]);
    header.ttl = header.ttl.checked_sub(1).filter(|ttl| *ttl > 0)?;
    let new = u16::from_be_bytes([header.ttl, header.protocol]);
    header.checksum = checksum::update(header.checksum.get(), old, new).into();
    Some(header.ttl)
}

/// Marks the header in `packet` "congestion experienced" and updates its checksum, as a router does (RFC 3168 section 5).
/// False, without a change, when its transport cannot hear it (Not-ECT) or `packet` is no header; true when it is marked.
pub fn set_ce(packet: &mut [u8]) -> bool {
    let Ok((header, _)) = Header::mut_from_prefix(packet) else { return false };
    if header.tos & 3 == 0 {
        return false;
    }
    let old = u16::from_be_bytes([header.version_ihl, header.tos]);
    header.tos |= 3;
    let new = u16::from_be_bytes([header.version_ihl, header.tos]);
    header.checksum = checksum::update(header.checksum.get(), old, new).into();
    true
}

#[cfg(test)]
mod tests;
