//! A packet in the making: chunks one after another while they fit (RFC 9260 section 6.10).
use bytes::{Bytes, BytesMut};
use lowwater_wire::sctp::{Chunk, DATA_HEADER_LEN, DataRepr, HEADER_LEN, padded};

/// Chunks of one packet behind room for the common header, at the end of a page that other packets may begin.
#[derive(Debug)]
pub(crate) struct Bundle {
    page: BytesMut,
    /// Where the chunks begin.
    start: usize,
    room: usize,
}

impl Bundle {
    /// No chunks yet, `room` bytes at the most; they are written behind what is in `page`.
    #[must_use]
    pub(crate) fn new(room: usize, mut page: BytesMut) -> Self {
        page.extend_from_slice(&[0; HEADER_LEN]);
        Self { start: page.len(), page, room }
    }

    /// Nothing in it.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of chunks so far.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.page.len() - self.start
    }

    /// Bytes that are left; none behind a chunk that is longer than the path is wide.
    #[must_use]
    pub(crate) fn room(&self) -> usize {
        self.room.saturating_sub(self.len())
    }

    /// User data that fits one more DATA chunk.
    #[must_use]
    pub(crate) fn room_for_data(&self) -> usize {
        self.room().saturating_sub(DATA_HEADER_LEN) & !3
    }

    /// Appends a chunk; false, and nothing is changed, if it does not fit.
    pub(crate) fn chunk(&mut self, chunk: &Chunk<'_>) -> bool {
        let len = chunk.buffer_len();
        if len > self.room() {
            return false;
        }
        let at = self.page.len();
        self.page.resize(at + len, 0);
        chunk.emit(&mut self.page[at..]);
        true
    }

    /// Appends a chunk even where it does not fit: IP will fragment it. For what cannot be cut, such as a cookie.
    pub(crate) fn chunk_whole(&mut self, chunk: &Chunk<'_>) {
        self.room = self.room.max(self.len() + chunk.buffer_len());
        self.chunk(chunk);
    }

    /// Appends a DATA chunk, which the caller knows to fit, or to be alone and left to IP to fragment.
    pub(crate) fn data(&mut self, header: &DataRepr, data: &[u8]) {
        let mut head = [0; DATA_HEADER_LEN];
        header.emit(data.len(), &mut head);
        self.page.extend_from_slice(&head);
        self.page.extend_from_slice(data);
        let padding = padded(data.len()) - data.len();
        if padding > 0 {
            self.page.extend_from_slice(&[0; 3][..padding]);
        }
    }

    /// The page with the packet at its end, its common header still to be written.
    ///
    /// # Errors
    /// The page as it was, if there are no chunks.
    pub(crate) fn finish(mut self) -> Result<BytesMut, BytesMut> {
        if self.is_empty() {
            self.page.truncate(self.start - HEADER_LEN);
            return Err(self.page);
        }
        Ok(self.page)
    }
}

/// Parameters or error causes in the making: each but the last is padded.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlvList {
    bytes: Vec<u8>,
    /// Without the padding of the last one.
    len: usize,
}

impl TlvList {
    /// Appends what `emit` writes: `len` bytes and their padding.
    pub(crate) fn push(&mut self, len: usize, emit: impl FnOnce(&mut [u8])) {
        let at = self.bytes.len();
        self.bytes.resize(at + padded(len), 0);
        emit(&mut self.bytes[at..]);
        self.len = at + len;
    }

    /// The bytes, without padding at the end.
    #[must_use]
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Nothing in it.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes, without padding at the end.
    #[must_use]
    pub(crate) fn into_bytes(mut self) -> Bytes {
        self.bytes.truncate(self.len);
        Bytes::from(self.bytes)
    }
}
