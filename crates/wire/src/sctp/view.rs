//! The common header: borrowed view and value.
use super::{Checksum, Chunks, HEADER_LEN, checksum};
use crate::Malformed;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The common header as it lies on the wire.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    src_port: U16,
    dst_port: U16,
    vtag: U32,
    checksum: [u8; 4],
}

/// An SCTP packet whose common header is complete; neither its checksum nor its chunks have been looked at.
#[derive(Clone, Copy)]
pub struct SctpView<'a> {
    header: &'a Header,
    bytes: &'a [u8],
}

impl<'a> SctpView<'a> {
    /// Checks the length; `bytes` is the packet to its last byte.
    ///
    /// # Errors
    /// When the common header is cut short.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, _) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        Ok(Self { header, bytes })
    }

    /// Source port.
    #[must_use]
    pub fn src_port(&self) -> u16 {
        self.header.src_port.get()
    }

    /// Destination port.
    #[must_use]
    pub fn dst_port(&self) -> u16 {
        self.header.dst_port.get()
    }

    /// Verification tag.
    #[must_use]
    pub fn vtag(&self) -> u32 {
        self.header.vtag.get()
    }

    /// The checksum field, as the number that a CRC32c computes to.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        u32::from_le_bytes(self.header.checksum)
    }

    /// Computes the checksum and compares the field with it. Looks at every byte.
    #[must_use]
    pub fn verify(&self) -> Checksum {
        match self.checksum() {
            field if field == checksum::crc(self.bytes, &[]) => Checksum::Good,
            0 => Checksum::Zero,
            _ => Checksum::Bad,
        }
    }

    /// The chunks in order.
    #[must_use]
    pub fn chunks(&self) -> Chunks<'a> {
        Chunks::new(self.payload())
    }

    /// What follows the common header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..]
    }

    /// The whole packet.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// The common header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SctpRepr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Verification tag: the receiver's, or with the T bit of some chunks the sender's (RFC 9260 section 8.5.1).
    pub vtag: u32,
}

impl SctpRepr {
    /// The header's fields.
    #[must_use]
    pub fn parse(view: &SctpView<'_>) -> Self {
        Self { src_port: view.src_port(), dst_port: view.dst_port(), vtag: view.vtag() }
    }

    /// Bytes that [`Self::emit`] writes: the common header.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the common header to the front of `buffer`, with checksum 0: follow with [`super::fill_checksum`], or leave it so
    /// where zero is agreed on.
    ///
    /// # Panics
    /// When `buffer` is shorter than the header.
    pub fn emit(&self, buffer: &mut [u8]) {
        let header = Header {
            src_port: self.src_port.into(),
            dst_port: self.dst_port.into(),
            vtag: self.vtag.into(),
            checksum: [0; 4],
        };
        buffer[..HEADER_LEN].copy_from_slice(header.as_bytes());
    }
}

/// The beginning of an SCTP packet as an ICMP error quotes it (RFC 9260 section 10): ports, tag, and the initiate tag where the quote
/// is long enough and the packet was an INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Source port: ours.
    pub src_port: u16,
    /// Destination port: the peer's.
    pub dst_port: u16,
    /// Verification tag; 0 in an INIT.
    pub vtag: u32,
    /// Initiate tag of the INIT that is quoted, if its first 20 bytes are there.
    pub initiate_tag: Option<u32>,
}

/// Reads the quoted beginning of a packet.
///
/// # Errors
/// When fewer than 8 bytes are there.
pub fn quoted(bytes: &[u8]) -> Result<Quoted, Malformed> {
    let &[a, b, c, d, e, f, g, h, ref rest @ ..] = bytes else { return Err(Malformed::Truncated) };
    let initiate_tag = match *rest {
        [_, _, _, _, super::chunk_kind::INIT, _, _, _, a, b, c, d, ..] => {
            Some(u32::from_be_bytes([a, b, c, d]))
        }
        _ => None,
    };
    Ok(Quoted {
        src_port: u16::from_be_bytes([a, b]),
        dst_port: u16::from_be_bytes([c, d]),
        vtag: u32::from_be_bytes([e, f, g, h]),
        initiate_tag,
    })
}
