//! Chunks by their headers alone.
use super::{CHUNK_HEADER_LEN, Unknown, padded};
use crate::Malformed;

/// A chunk of any type, whose length has been checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawChunk<'a> {
    bytes: &'a [u8],
}

impl<'a> RawChunk<'a> {
    /// Type.
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.bytes[0]
    }

    /// The eight flags, whose meaning is the type's.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.bytes[1]
    }

    /// What follows the header, without padding.
    #[must_use]
    pub fn value(&self) -> &'a [u8] {
        &self.bytes[CHUNK_HEADER_LEN..]
    }

    /// The whole chunk, without padding: what an error reports.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What to do with it if its type is not known.
    #[must_use]
    pub fn unknown(&self) -> Unknown {
        Unknown::chunk(self.kind())
    }
}

/// The chunks of a packet in order; ends after the first whose length is impossible. Up to three bytes behind the last one are
/// ignored, and its padding may be missing, as Linux has it (`sctp_inq_pop`).
#[derive(Clone, Copy, Debug)]
pub struct Chunks<'a> {
    bytes: &'a [u8],
}

impl<'a> Chunks<'a> {
    /// The chunks in `bytes`, which follow the common header.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// What has not been read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    fn read(&mut self) -> Result<RawChunk<'a>, Malformed> {
        let &[_, _, a, b, ..] = self.bytes else { return Err(Malformed::Truncated) };
        let len = usize::from(u16::from_be_bytes([a, b]));
        if len < CHUNK_HEADER_LEN {
            return Err(Malformed::HeaderLength);
        }
        let bytes = self.bytes.get(..len).ok_or(Malformed::Truncated)?;
        self.bytes = self.bytes.get(padded(len)..).unwrap_or_default();
        Ok(RawChunk { bytes })
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<RawChunk<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.len() < CHUNK_HEADER_LEN {
            return None;
        }
        let chunk = self.read();
        if chunk.is_err() {
            self.bytes = &[];
        }
        Some(chunk)
    }
}
