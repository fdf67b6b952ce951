//! The virtio-net header that travels in front of each packet of an offloading device (VIRTIO 1.2 section 5.1.6,
//! Linux's `struct virtio_net_hdr` and `virtio_net_hdr_mrg_rxbuf`), in little-endian form.
use crate::Malformed;
use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of the short form, without `num_buffers` (the default of TUN and of packet sockets).
pub const LEN: usize = 10;
/// Length of the long form (`TUNSETVNETHDRSZ` 12, VIRTIO 1.0 devices).
pub const LEN_MERGEABLE: usize = 12;

/// Flag: sum from `csum_start` on and store at `csum_start + csum_offset`.
pub const F_NEEDS_CSUM: u8 = 1;
/// Flag: the checksum has been verified.
pub const F_DATA_VALID: u8 = 2;
/// Flag: segments were coalesced by the device; `csum_start` and `csum_offset` count them.
pub const F_RSC_INFO: u8 = 4;

/// Not a super-packet.
pub const GSO_NONE: u8 = 0;
/// TCP over IPv4.
pub const GSO_TCPV4: u8 = 1;
/// UDP to be fragmented by IP.
pub const GSO_UDP: u8 = 3;
/// TCP over IPv6.
pub const GSO_TCPV6: u8 = 4;
/// UDP to be cut into datagrams.
pub const GSO_UDP_L4: u8 = 5;
/// Or-ed to the type: CWR is set, and belongs to the first segment only.
pub const GSO_ECN: u8 = 0x80;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    flags: u8,
    gso_type: u8,
    hdr_len: U16,
    gso_size: U16,
    csum_start: U16,
    csum_offset: U16,
}

/// A virtio-net header. Its fields are the device's claims: [`Self::check`] them before use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct VnetHdr {
    /// `F_…` flags.
    pub flags: u8,
    /// `GSO_…` type, possibly with [`GSO_ECN`].
    pub gso_type: u8,
    /// Length of all headers in bytes, a hint.
    pub hdr_len: u16,
    /// Payload bytes per segment.
    pub gso_size: u16,
    /// Offset in the frame where summing starts.
    pub csum_start: u16,
    /// Where the checksum belongs, relative to `csum_start`.
    pub csum_offset: u16,
    /// Buffers that the packet spans; long form only, else 0.
    pub num_buffers: u16,
}

impl VnetHdr {
    /// Reads the short form at the front of `bytes`.
    ///
    /// # Errors
    /// When it is cut short.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (raw, _) = Raw::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        Ok(Self {
            flags: raw.flags,
            gso_type: raw.gso_type,
            hdr_len: raw.hdr_len.get(),
            gso_size: raw.gso_size.get(),
            csum_start: raw.csum_start.get(),
            csum_offset: raw.csum_offset.get(),
            num_buffers: 0,
        })
    }

    /// Reads the long form at the front of `bytes`.
    ///
    /// # Errors
    /// When it is cut short.
    pub fn parse_mergeable(bytes: &[u8]) -> Result<Self, Malformed> {
        let &[a, b] = bytes
            .get(LEN..LEN_MERGEABLE)
            .and_then(|field| field.first_chunk())
            .ok_or(Malformed::Truncated)?;
        Ok(Self { num_buffers: u16::from_le_bytes([a, b]), ..Self::parse(bytes)? })
    }

    /// Checks the header against the frame of `frame_len` bytes that follows it.
    ///
    /// # Errors
    /// When the checksum would lie outside the frame, the type of super-packet is unknown, or its segments are empty.
    pub fn check(&self, frame_len: usize) -> Result<(), Malformed> {
        if self.needs_csum() {
            let end = usize::from(self.csum_start) + usize::from(self.csum_offset) + 2;
            if end > frame_len {
                return Err(Malformed::Truncated);
            }
        }
        match self.gso_kind() {
            GSO_NONE => Ok(()),
            GSO_TCPV4 | GSO_TCPV6 | GSO_UDP | GSO_UDP_L4 if self.gso_size != 0 => Ok(()),
            _ => Err(Malformed::Field),
        }
    }

    /// True if the checksum is still to be completed.
    #[must_use]
    pub const fn needs_csum(&self) -> bool {
        self.flags & F_NEEDS_CSUM != 0
    }

    /// True if the checksum has been verified.
    #[must_use]
    pub const fn data_valid(&self) -> bool {
        self.flags & F_DATA_VALID != 0
    }

    /// The type of super-packet without [`GSO_ECN`].
    #[must_use]
    pub const fn gso_kind(&self) -> u8 {
        self.gso_type & !GSO_ECN
    }

    /// Writes the short form to the front of `buffer`, without `num_buffers`.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`LEN`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let raw = Raw {
            flags: self.flags,
            gso_type: self.gso_type,
            hdr_len: self.hdr_len.into(),
            gso_size: self.gso_size.into(),
            csum_start: self.csum_start.into(),
            csum_offset: self.csum_offset.into(),
        };
        buffer[..LEN].copy_from_slice(raw.as_bytes());
    }

    /// Writes the long form to the front of `buffer`.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`LEN_MERGEABLE`].
    pub fn emit_mergeable(&self, buffer: &mut [u8]) {
        self.emit(buffer);
        buffer[LEN..LEN_MERGEABLE].copy_from_slice(&self.num_buffers.to_le_bytes());
    }
}

#[cfg(test)]
mod tests;
