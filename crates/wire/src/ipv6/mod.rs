//! The IPv6 fixed header (RFC 8200 section 3).
use crate::Malformed;
use core::net::Ipv6Addr;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

mod ext;
mod fragment;
pub use ext::{Chain, ExtError, MAX_EXTENSION_HEADERS, MAX_OPTIONS, skip, walk};
pub use fragment::{FRAGMENT_HEADER_LEN, FragmentHeader};

/// Length of the fixed header.
pub const HEADER_LEN: usize = 40;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    version_class_flow: U32,
    payload_len: U16,
    next_header: u8,
    hop_limit: u8,
    src: [u8; 16],
    dst: [u8; 16],
}

/// An IPv6 packet whose version and length have been checked. Jumbograms (RFC 2675) are not supported.
#[derive(Clone, Copy)]
pub struct Ipv6View<'a> {
    header: &'a Header,
    payload: &'a [u8],
}

impl<'a> Ipv6View<'a> {
    /// Checks version and length. Bytes past the payload length are link padding and are left out.
    ///
    /// # Errors
    /// When header or payload are cut short, or the version is not 6.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let view = Self::parse_quoted(bytes)?;
        if view.payload.len() < usize::from(view.payload_len()) {
            Err(Malformed::Truncated)
        } else {
            Ok(view)
        }
    }

    /// As [`Self::parse`] for the packet that an ICMP error quotes, of which only the beginning need be there.
    ///
    /// # Errors
    /// When the header is cut short or the version is not 6.
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, payload) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        if header.version_class_flow.get() >> 28 != 6 {
            return Err(Malformed::Version);
        }
        let stated = usize::from(header.payload_len.get());
        Ok(Self { header, payload: &payload[..stated.min(payload.len())] })
    }

    /// Length of what follows the fixed header as the header states it, in bytes.
    #[must_use]
    pub fn payload_len(&self) -> u16 {
        self.header.payload_len.get()
    }

    /// Length of fixed header and payload as the header states it, in bytes.
    #[must_use]
    pub fn total_len(&self) -> usize {
        HEADER_LEN + usize::from(self.payload_len())
    }

    /// Traffic class: DSCP and ECN.
    #[must_use]
    pub fn traffic_class(&self) -> u8 {
        (self.header.version_class_flow.get() >> 20) as u8
    }

    /// Flow label, 20 bits (RFC 6437).
    #[must_use]
    pub fn flow_label(&self) -> u32 {
        self.header.version_class_flow.get() & 0x000f_ffff
    }

    /// What the payload starts with: an extension header or a protocol.
    #[must_use]
    pub fn next_header(&self) -> u8 {
        self.header.next_header
    }

    /// Hop limit.
    #[must_use]
    pub fn hop_limit(&self) -> u8 {
        self.header.hop_limit
    }

    /// Source address.
    #[must_use]
    pub fn src(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.header.src)
    }

    /// Destination address.
    #[must_use]
    pub fn dst(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.header.dst)
    }

    /// What follows the fixed header, extension headers first; shorter than stated only for a quoted packet.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Follows the extension headers: [`walk`] over this packet.
    ///
    /// # Errors
    /// As [`walk`].
    pub fn walk(&self) -> Result<Chain, ExtError> {
        walk(self.next_header(), self.payload)
    }

    /// As [`Self::walk`] for a packet of which only the beginning need be there ([`Self::parse_quoted`]): a fragment is as long as the fixed header
    /// says, and what was cut off is not missing.
    ///
    /// # Errors
    /// As [`walk`].
    pub fn walk_quoted(&self) -> Result<Chain, ExtError> {
        ext::walk_stated(self.next_header(), self.payload, self.payload_len().into())
    }
}

/// An IPv6 fixed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Repr {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// What the payload starts with ([`crate::protocol`]).
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label; bits above the low 20 are not sent.
    pub flow_label: u32,
    /// Length of what follows the fixed header in bytes, extension headers included.
    pub payload_len: u16,
}

impl Ipv6Repr {
    /// The header's fields.
    #[must_use]
    pub fn parse(view: &Ipv6View<'_>) -> Self {
        Self {
            src: view.src(),
            dst: view.dst(),
            next_header: view.next_header(),
            hop_limit: view.hop_limit(),
            traffic_class: view.traffic_class(),
            flow_label: view.flow_label(),
            payload_len: view.payload_len(),
        }
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
        let class = u32::from(self.traffic_class) << 20;
        let header = Header {
            version_class_flow: (6 << 28 | class | (self.flow_label & 0x000f_ffff)).into(),
            payload_len: self.payload_len.into(),
            next_header: self.next_header,
            hop_limit: self.hop_limit,
            src: self.src.octets(),
            dst: self.dst.octets(),
        };
        buffer[..HEADER_LEN].copy_from_slice(header.as_bytes());
    }
}

/// Marks the header in `packet` "congestion experienced" (RFC 3168 section 5). False, without a change, when its transport
/// cannot hear it (Not-ECT) or `packet` is no header; true when it is marked.
pub fn set_ce(packet: &mut [u8]) -> bool {
    let Ok((header, _)) = Header::mut_from_prefix(packet) else { return false };
    let word = header.version_class_flow.get();
    if (word >> 20) & 3 == 0 {
        return false;
    }
    header.version_class_flow = (word | 3 << 20).into();
    true
}

#[cfg(test)]
mod tests;
