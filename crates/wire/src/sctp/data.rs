//! DATA (RFC 9260 section 3.3.1) and I-DATA (RFC 8260 section 2.1): the headers in front of user data.
use super::{CHUNK_HEADER_LEN, chunk_kind};
use crate::Malformed;
use core::fmt;
use core::ops::BitOr;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of a DATA chunk's header in bytes.
pub const DATA_HEADER_LEN: usize = 16;
/// Length of an I-DATA chunk's header in bytes.
pub const I_DATA_HEADER_LEN: usize = 20;

/// The flags of DATA and I-DATA.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DataFlags(u8);

impl DataFlags {
    /// None: a middle fragment of an ordered message.
    pub const EMPTY: Self = Self(0);
    /// E: the last fragment of a message.
    pub const END: Self = Self(1);
    /// B: the first fragment of a message.
    pub const BEGIN: Self = Self(2);
    /// U: the message is unordered.
    pub const UNORDERED: Self = Self(4);
    /// I: to be acknowledged without delay (RFC 7053).
    pub const IMMEDIATE: Self = Self(8);
    /// A message that is not fragmented.
    pub const WHOLE: Self = Self(3);

    /// The set with these bits; reserved ones are ignored.
    #[must_use]
    pub const fn from_bits_truncate(bits: u8) -> Self {
        Self(bits & 0x0f)
    }

    /// The bits as they lie in the chunk.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// True if all of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// B.
    #[must_use]
    pub const fn begin(self) -> bool {
        self.contains(Self::BEGIN)
    }

    /// E.
    #[must_use]
    pub const fn end(self) -> bool {
        self.contains(Self::END)
    }

    /// U.
    #[must_use]
    pub const fn unordered(self) -> bool {
        self.contains(Self::UNORDERED)
    }

    /// I.
    #[must_use]
    pub const fn immediate(self) -> bool {
        self.contains(Self::IMMEDIATE)
    }
}

impl BitOr for DataFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for DataFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [(Self::IMMEDIATE, 'I'), (Self::UNORDERED, 'U'), (Self::BEGIN, 'B'), (Self::END, 'E')];
        letters.iter().filter(|(flag, _)| self.contains(*flag)).try_for_each(|(_, l)| write!(f, "{l}"))?;
        if self.0 == 0 { f.write_str("-") } else { Ok(()) }
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    kind: u8,
    flags: u8,
    len: U16,
    tsn: U32,
    sid: U16,
    ssn: U16,
    ppid: U32,
}

/// The header of a DATA chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataRepr {
    /// Flags.
    pub flags: DataFlags,
    /// Transmission sequence number.
    pub tsn: u32,
    /// Stream identifier.
    pub sid: u16,
    /// Stream sequence number, without meaning in unordered messages.
    pub ssn: u16,
    /// Payload protocol identifier, as the number that lies on the wire in network order.
    pub ppid: u32,
}

impl DataRepr {
    /// Reads a whole chunk: its header and the user data, which may be empty, though nobody may send that.
    pub(super) fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (raw, payload) = Raw::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        let header = Self {
            flags: DataFlags::from_bits_truncate(raw.flags),
            tsn: raw.tsn.get(),
            sid: raw.sid.get(),
            ssn: raw.ssn.get(),
            ppid: raw.ppid.get(),
        };
        Ok((header, payload))
    }

    /// Writes the chunk's header for so many bytes of user data to the front of `buffer`. The data and its padding to a multiple
    /// of four, which the header does not count, follow.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`DATA_HEADER_LEN`].
    pub fn emit(&self, payload_len: usize, buffer: &mut [u8]) {
        let raw = Raw {
            kind: chunk_kind::DATA,
            flags: self.flags.bits(),
            len: U16::new((DATA_HEADER_LEN + payload_len) as u16),
            tsn: self.tsn.into(),
            sid: self.sid.into(),
            ssn: self.ssn.into(),
            ppid: self.ppid.into(),
        };
        buffer[..DATA_HEADER_LEN].copy_from_slice(raw.as_bytes());
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawI {
    tsn: U32,
    sid: U16,
    reserved: U16,
    mid: U32,
    ppid_fsn: U32,
}

/// The header of an I-DATA chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IDataRepr {
    /// Flags.
    pub flags: DataFlags,
    /// Transmission sequence number.
    pub tsn: u32,
    /// Stream identifier.
    pub sid: u16,
    /// Message identifier.
    pub mid: u32,
    /// Payload protocol identifier with B, else fragment sequence number.
    pub ppid_fsn: u32,
}

impl IDataRepr {
    /// Reads a whole chunk.
    pub(super) fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (head, rest) = bytes.split_at_checked(CHUNK_HEADER_LEN).ok_or(Malformed::Truncated)?;
        let (raw, payload) = RawI::ref_from_prefix(rest).map_err(|_| Malformed::Truncated)?;
        let header = Self {
            flags: DataFlags::from_bits_truncate(head[1]),
            tsn: raw.tsn.get(),
            sid: raw.sid.get(),
            mid: raw.mid.get(),
            ppid_fsn: raw.ppid_fsn.get(),
        };
        Ok((header, payload))
    }

    /// Writes the chunk's header for so many bytes of user data to the front of `buffer`.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`I_DATA_HEADER_LEN`].
    pub fn emit(&self, payload_len: usize, buffer: &mut [u8]) {
        let [a, b] = ((I_DATA_HEADER_LEN + payload_len) as u16).to_be_bytes();
        buffer[..CHUNK_HEADER_LEN].copy_from_slice(&[chunk_kind::I_DATA, self.flags.bits(), a, b]);
        let raw = RawI {
            tsn: self.tsn.into(),
            sid: self.sid.into(),
            reserved: U16::ZERO,
            mid: self.mid.into(),
            ppid_fsn: self.ppid_fsn.into(),
        };
        buffer[CHUNK_HEADER_LEN..I_DATA_HEADER_LEN].copy_from_slice(raw.as_bytes());
    }
}
