//! The UDP header (RFC 768) and its checksum.
use crate::{Malformed, checksum};
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of a header.
pub const HEADER_LEN: usize = 8;
/// Offset of the checksum in the header.
pub const CHECKSUM_OFFSET: usize = 6;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    src_port: U16,
    dst_port: U16,
    len: U16,
    checksum: U16,
}

/// A UDP datagram whose lengths have been checked; its checksum has not.
#[derive(Clone, Copy)]
pub struct UdpView<'a> {
    header: &'a Header,
    bytes: &'a [u8],
}

impl<'a> UdpView<'a> {
    /// Checks lengths. Bytes past the stated length are left out.
    ///
    /// # Errors
    /// When header or payload are cut short, or the length is below the header's.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, _) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        let len = usize::from(header.len.get());
        if len < HEADER_LEN {
            return Err(Malformed::TotalLength);
        }
        let bytes = bytes.get(..len).ok_or(Malformed::Truncated)?;
        Ok(Self { header, bytes })
    }

    /// Source port; 0 if the sender expects no answer.
    #[must_use]
    pub fn src_port(&self) -> u16 {
        self.header.src_port.get()
    }

    /// Destination port.
    #[must_use]
    pub fn dst_port(&self) -> u16 {
        self.header.dst_port.get()
    }

    /// The checksum as sent; 0 if the sender computed none.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        self.header.checksum.get()
    }

    /// The payload.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..]
    }

    /// Length of header and payload in bytes, for the pseudo-header.
    #[must_use]
    pub fn total_len(&self) -> usize {
        self.bytes.len()
    }

    /// True if the checksum over the pseudo-header sum `pseudo` and the datagram adds up. An absent one (0) counts as wrong:
    /// over IPv4 the caller lets [`Self::checksum`] `== 0` pass, over IPv6 it must not (RFC 8200 section 8.1).
    #[must_use]
    pub fn checksum_ok(&self, pseudo: u64) -> bool {
        self.checksum() != 0 && checksum::verify(pseudo, self.bytes)
    }
}

/// A UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpRepr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Length of the payload in bytes, at most 65527 (more is cut off).
    pub payload_len: u16,
}

impl UdpRepr {
    /// The header's fields.
    #[must_use]
    pub fn parse(view: &UdpView<'_>) -> Self {
        Self {
            src_port: view.src_port(),
            dst_port: view.dst_port(),
            payload_len: view.payload().len() as u16,
        }
    }

    /// Bytes that [`Self::emit`] writes: the header.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header to the front of `buffer`, with checksum 0: follow with [`fill_checksum`] or
    /// [`fill_checksum_partial`].
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Self::buffer_len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let header = Header {
            src_port: self.src_port.into(),
            dst_port: self.dst_port.into(),
            len: self.payload_len.saturating_add(HEADER_LEN as u16).into(),
            checksum: U16::ZERO,
        };
        buffer[..HEADER_LEN].copy_from_slice(header.as_bytes());
    }
}

/// Completes the checksum of `header` over the pseudo-header sum and the payload's pieces; a result of 0 is sent as its other
/// spelling, since 0 means "none".
///
/// # Panics
/// When `header` is shorter than a UDP header.
pub fn fill_checksum(header: &mut [u8], pseudo: u64, payload: &[&[u8]]) {
    header[CHECKSUM_OFFSET..][..2].fill(0);
    let sum =
        checksum::fold(pseudo) as u64 + checksum::sum(&header[..HEADER_LEN]) + checksum::sum_parts(payload);
    let field = match checksum::finish(sum) {
        0 => 0xffff,
        other => other,
    };
    header[CHECKSUM_OFFSET..][..2].copy_from_slice(&field.to_be_bytes());
}

/// Leaves the checksum of `header` to the device: stores the folded pseudo-header sum (VIRTIO_NET_HDR_F_NEEDS_CSUM).
///
/// # Panics
/// When `header` is shorter than a UDP header.
pub fn fill_checksum_partial(header: &mut [u8], pseudo: u64) {
    header[CHECKSUM_OFFSET..][..2].copy_from_slice(&checksum::fold(pseudo).to_be_bytes());
}

#[cfg(test)]
mod tests;
