//! One contiguous piece of received payload and what it costs in memory.
use bytes::{Buf as _, Bytes};
use smallvec::SmallVec;

/// Charge of a chunk beside its bytes: its slot in a queue or a half-full tree node, its range, the shared header of `Bytes`.
pub const CHUNK_OVERHEAD: u32 = 160;
/// A copy is made only when it frees at least this many bytes: below it the allocation costs more than it saves.
const COPYBREAK_GAIN: usize = 256;

/// Most that one chunk is charged, so that a wrong hint cannot overflow the sum.
const PINNED_MAX: usize = 1 << 24;

/// The payload of one segment: one piece from a device, several when frames were coalesced without copying.
pub type Pieces = SmallVec<[Chunk; 1]>;

/// A piece of payload with its charge.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    bytes: Bytes,
    charge: u32,
}

impl Chunk {
    /// Payload that pins `frame_len` bytes (`truesize`): the length of the buffer it is a slice of, or 0 for its own length.
    /// A small slice of a large buffer is copied so that it does not pin it, and its bytes are added to `copied`.
    #[must_use]
    pub fn admit(bytes: Bytes, frame_len: usize, copied: &mut u64) -> Self {
        let pinned = frame_len.max(bytes.len());
        let mut chunk = Self { bytes, charge: charge_of(pinned) };
        if chunk.copybreak() {
            *copied += chunk.len() as u64;
        }
        chunk
    }

    /// Payload bytes left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True when no byte is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Memory pinned, metadata included, in bytes.
    #[must_use]
    pub const fn charge(&self) -> u32 {
        self.charge
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) const fn bytes_mut(&mut self) -> &mut Bytes {
        &mut self.bytes
    }

    /// Drops `n` bytes from the front.
    pub(super) fn trim_front(&mut self, n: usize) {
        if n > 0 {
            self.bytes.advance(n);
            self.copybreak();
        }
    }

    /// Splits off the first `n` bytes; what is left keeps the charge of the buffer, which it still pins.
    fn split_front(&mut self, n: usize) -> Self {
        let mut front = Self { bytes: self.bytes.split_to(n), charge: self.charge };
        front.copybreak();
        front.charge = front.charge.min(charge_of(n));
        front
    }

    fn copybreak(&mut self) -> bool {
        let len = self.bytes.len();
        let pinned = (self.charge - CHUNK_OVERHEAD.min(self.charge)) as usize;
        if pinned >= 2 * len + COPYBREAK_GAIN {
            self.bytes = Bytes::copy_from_slice(&self.bytes);
            self.charge = charge_of(len);
            return true;
        }
        false
    }
}

fn charge_of(pinned: usize) -> u32 {
    pinned.min(PINNED_MAX) as u32 + CHUNK_OVERHEAD
}

/// A segment's chunks, cut along rising offsets.
pub(super) struct Feed {
    rest: smallvec::IntoIter<[Chunk; 1]>,
    current: Chunk,
    at: u64,
}

impl Feed {
    pub(super) fn new(offset: u64, chunks: Pieces) -> Self {
        Self { rest: chunks.into_iter(), current: Chunk::default(), at: offset }
    }

    /// The next piece inside `from..to`, with its offset. Ranges of successive calls must not go back.
    pub(super) fn next_piece(&mut self, from: u64, to: u64) -> Option<(u64, Chunk)> {
        loop {
            let end = self.at + self.current.len() as u64;
            if self.current.is_empty() || end <= from {
                self.at = end;
                self.current = self.rest.next()?;
                continue;
            }
            if from > self.at {
                self.current.trim_front((from - self.at) as usize);
                self.at = from;
            }
            if self.at >= to {
                return None;
            }
            let start = self.at;
            self.at = end.min(to);
            if self.at == end {
                return Some((start, core::mem::take(&mut self.current)));
            }
            return Some((start, self.current.split_front((self.at - start) as usize)));
        }
    }
}
