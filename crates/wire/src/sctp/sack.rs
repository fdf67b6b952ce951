//! SACK (RFC 9260 section 3.3.4), with its lists where they lie.
use crate::Malformed;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A gap acknowledgement block: TSNs that have arrived, as offsets from the cumulative TSN. Nothing says that `start` is not after
/// `end`, nor that blocks are in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct GapBlock {
    start: U16,
    end: U16,
}

impl GapBlock {
    /// A block from one offset to another, both inclusive.
    #[must_use]
    pub const fn new(start: u16, end: u16) -> Self {
        Self { start: U16::new(start), end: U16::new(end) }
    }

    /// Offset of the first TSN.
    #[must_use]
    pub const fn start(&self) -> u16 {
        self.start.get()
    }

    /// Offset of the last TSN.
    #[must_use]
    pub const fn end(&self) -> u16 {
        self.end.get()
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    cum_tsn: U32,
    a_rwnd: U32,
    gaps: U16,
    dups: U16,
}

/// What follows the chunk's header in a SACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sack<'a> {
    /// Cumulative TSN acknowledgement.
    pub cum_tsn: u32,
    /// Advertised receiver window credit in bytes.
    pub a_rwnd: u32,
    /// Gap acknowledgement blocks.
    pub gaps: &'a [GapBlock],
    /// TSNs that came more than once.
    pub dups: &'a [U32],
}

const FIXED_LEN: usize = size_of::<Raw>();

impl<'a> Sack<'a> {
    /// Reads what follows the header; bytes behind the lists are ignored.
    pub(super) fn parse(value: &'a [u8]) -> Result<Self, Malformed> {
        let (raw, rest) = Raw::ref_from_prefix(value).map_err(|_| Malformed::Truncated)?;
        let (gaps, rest) = <[GapBlock]>::ref_from_prefix_with_elems(rest, raw.gaps.get().into())
            .map_err(|_| Malformed::Truncated)?;
        let (dups, _) = <[U32]>::ref_from_prefix_with_elems(rest, raw.dups.get().into())
            .map_err(|_| Malformed::Truncated)?;
        Ok(Self { cum_tsn: raw.cum_tsn.get(), a_rwnd: raw.a_rwnd.get(), gaps, dups })
    }

    pub(super) const fn value_len(&self) -> usize {
        FIXED_LEN + size_of_val(self.gaps) + size_of_val(self.dups)
    }

    pub(super) fn emit(&self, out: &mut [u8]) {
        let raw = Raw {
            cum_tsn: self.cum_tsn.into(),
            a_rwnd: self.a_rwnd.into(),
            gaps: U16::new(self.gaps.len() as u16),
            dups: U16::new(self.dups.len() as u16),
        };
        let (fixed, lists) = out.split_at_mut(FIXED_LEN);
        fixed.copy_from_slice(raw.as_bytes());
        let (gaps, dups) = lists.split_at_mut(size_of_val(self.gaps));
        gaps.copy_from_slice(self.gaps.as_bytes());
        dups.copy_from_slice(self.dups.as_bytes());
    }
}
