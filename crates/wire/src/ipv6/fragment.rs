//! The IPv6 fragment header (RFC 8200 section 4.5).
use crate::Malformed;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of a fragment header.
pub const FRAGMENT_HEADER_LEN: usize = 8;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    next_header: u8,
    reserved: u8,
    offset_more: U16,
    ident: U32,
}

/// A fragment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentHeader {
    /// First header of the fragmentable part ([`crate::protocol`]).
    pub next_header: u8,
    /// Offset of this fragment in the fragmentable part in bytes, a multiple of 8 (the rest is cut off).
    pub offset: u16,
    /// More fragments follow.
    pub more: bool,
    /// Identification.
    pub ident: u32,
}

impl FragmentHeader {
    /// Reads the header at the front of `bytes`.
    ///
    /// # Errors
    /// When it is cut short.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (header, _) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        let offset_more = header.offset_more.get();
        Ok(Self {
            next_header: header.next_header,
            offset: offset_more & !7,
            more: offset_more & 1 != 0,
            ident: header.ident.get(),
        })
    }

    /// True if the fragment is the whole packet, which needs no reassembly (RFC 6946).
    #[must_use]
    pub const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }

    /// Bytes that [`Self::emit`] writes.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        FRAGMENT_HEADER_LEN
    }

    /// Writes the header to the front of `buffer`.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Self::buffer_len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let header = Header {
            next_header: self.next_header,
            reserved: 0,
            offset_more: ((self.offset & !7) | u16::from(self.more)).into(),
            ident: self.ident.into(),
        };
        buffer[..FRAGMENT_HEADER_LEN].copy_from_slice(header.as_bytes());
    }
}
