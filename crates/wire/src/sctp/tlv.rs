//! What parameters and error causes have in common: a type, a length and a value.
use super::{Unknown, padded};
use crate::Malformed;

/// Length of type and length in bytes.
pub(super) const TLV_HEADER_LEN: usize = 4;

/// A parameter or an error cause of any type, whose length has been checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tlv<'a> {
    bytes: &'a [u8],
}

impl<'a> Tlv<'a> {
    /// Type of the parameter, code of the cause.
    #[must_use]
    pub fn kind(&self) -> u16 {
        u16::from_be_bytes([self.bytes[0], self.bytes[1]])
    }

    /// What follows type and length, without padding.
    #[must_use]
    pub fn value(&self) -> &'a [u8] {
        &self.bytes[TLV_HEADER_LEN..]
    }

    /// The whole of it, without padding: what an error reports.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What to do with a parameter if its type is not known. Of no meaning for causes.
    #[must_use]
    pub fn unknown(&self) -> Unknown {
        Unknown::param(self.kind())
    }
}

/// Parameters or error causes in a run of bytes, in order; ends after the first whose length is impossible. Up to three bytes
/// behind the last one are ignored, and its padding may be missing: the length of a chunk does not count it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tlvs<'a> {
    bytes: &'a [u8],
}

impl<'a> Tlvs<'a> {
    /// None at all.
    pub const EMPTY: Self = Self { bytes: &[] };

    /// Those in `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// What has not been read yet, as bytes.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn read(&mut self) -> Result<Tlv<'a>, Malformed> {
        let &[_, _, a, b, ..] = self.bytes else { return Err(Malformed::Option) };
        let len = usize::from(u16::from_be_bytes([a, b]));
        if len < TLV_HEADER_LEN {
            return Err(Malformed::Option);
        }
        let bytes = self.bytes.get(..len).ok_or(Malformed::Option)?;
        self.bytes = self.bytes.get(padded(len)..).unwrap_or_default();
        Ok(Tlv { bytes })
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<Tlv<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.len() < TLV_HEADER_LEN {
            return None;
        }
        let tlv = self.read();
        if tlv.is_err() {
            self.bytes = &[];
        }
        Some(tlv)
    }
}

/// Writes type, length and `parts`, and zeros to the end of `out`.
///
/// # Panics
/// When `out` is too short.
pub(super) fn emit(out: &mut [u8], kind: u16, parts: &[&[u8]]) {
    let len = TLV_HEADER_LEN + parts.iter().map(|part| part.len()).sum::<usize>();
    out[..2].copy_from_slice(&kind.to_be_bytes());
    out[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    let mut at = TLV_HEADER_LEN;
    for part in parts {
        out[at..][..part.len()].copy_from_slice(part);
        at += part.len();
    }
    out[at..].fill(0);
}

/// Bytes as a number, if there are exactly four.
pub(super) fn word(bytes: &[u8]) -> Result<u32, Malformed> {
    bytes.try_into().map(u32::from_be_bytes).map_err(|_| Malformed::Option)
}
