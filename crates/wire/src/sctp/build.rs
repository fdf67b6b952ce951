//! Builds a packet chunk by chunk, as long as they fit.
use super::{
    CHUNK_HEADER_LEN, Cause, Chunk, HEADER_LEN, Param, SctpRepr, fill_checksum, padded, zero_checksum,
};

/// A packet in the making, in a buffer that is as long as the packet may get.
///
/// ```
/// use lowwater_wire::sctp::{Builder, Chunk, SctpRepr, SctpView, Tlvs, Cause};
/// let mut buffer = [0; 64];
/// let mut packet = Builder::new(&mut buffer, &SctpRepr { src_port: 1, dst_port: 2, vtag: 3 });
/// assert!(packet.chunk(&Chunk::Abort(false, Tlvs::EMPTY)));
/// assert!(packet.cause(&Cause::UserAbort(b"enough")));
/// let bytes = packet.finish();
/// assert_eq!(SctpView::parse(bytes).unwrap().chunks().count(), 1);
/// ```
#[derive(Debug)]
pub struct Builder<'a> {
    buffer: &'a mut [u8],
    /// Bytes that are there, a multiple of four.
    len: usize,
    /// Where the last chunk begins; 0 if there is none.
    last: usize,
}

impl<'a> Builder<'a> {
    /// A packet without chunks.
    ///
    /// # Panics
    /// When `buffer` is shorter than the common header.
    #[must_use]
    pub fn new(buffer: &'a mut [u8], header: &SctpRepr) -> Self {
        header.emit(buffer);
        Self { buffer, len: HEADER_LEN, last: 0 }
    }

    /// Bytes so far, the common header included.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if there is no chunk.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.last == 0
    }

    /// Bytes that are left.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.buffer.len() - self.len
    }

    /// Appends a chunk; false, and nothing is changed, if it does not fit.
    pub fn chunk(&mut self, chunk: &Chunk<'_>) -> bool {
        let len = chunk.buffer_len();
        let Some(out) = self.buffer[self.len..].get_mut(..len) else { return false };
        chunk.emit(out);
        self.last = self.len;
        self.len += len;
        true
    }

    /// Appends a parameter to the last chunk; false, and nothing is changed, if it does not fit or there is no chunk.
    pub fn param(&mut self, param: &Param<'_>) -> bool {
        self.inside(param.stated_len(), |out| param.emit(out))
    }

    /// Appends an error cause to the last chunk; false, and nothing is changed, if it does not fit or there is no chunk.
    pub fn cause(&mut self, cause: &Cause<'_>) -> bool {
        self.inside(cause.stated_len(), |out| cause.emit(out))
    }

    /// Lengthens the last chunk. Its length counts the padding within it, but not that at its end (RFC 9260 section 3.2).
    fn inside(&mut self, len: usize, emit: impl FnOnce(&mut [u8])) -> bool {
        let chunk_len = u16::try_from(self.len - self.last + len);
        let (false, Ok(chunk_len)) = (self.is_empty(), chunk_len) else { return false };
        let Some(out) = self.buffer[self.len..].get_mut(..padded(len)) else { return false };
        emit(out);
        self.len += padded(len);
        self.buffer[self.last + 2..][..2].copy_from_slice(&chunk_len.to_be_bytes());
        debug_assert!(usize::from(chunk_len) > CHUNK_HEADER_LEN, "a chunk has a header");
        true
    }

    /// The packet with its CRC32c.
    #[must_use]
    pub fn finish(self) -> &'a mut [u8] {
        let packet = &mut self.buffer[..self.len];
        fill_checksum(packet, &[]);
        packet
    }

    /// The packet with zero for a checksum (RFC 9653).
    #[must_use]
    pub fn finish_zero(self) -> &'a mut [u8] {
        let packet = &mut self.buffer[..self.len];
        zero_checksum(packet);
        packet
    }
}
