//! One contiguous piece of received payload and what it costs in memory.
use crate::base::truesize::Truesize;
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
    /// What Linux would charge for it; 0 where it shares the buffer of the chunk behind it.
    pub(super) truesize: Truesize,
}

impl Chunk {
    /// Payload that pins `frame_len` bytes: the length of the buffer it is a slice of, or 0 for its own length. `headers` is the
    /// length of what stood before it in its packet. A small slice of a large buffer is copied so that it does not pin it, and its
    /// bytes are added to `copied`.
    #[must_use]
    pub fn admit(bytes: Bytes, frame_len: usize, headers: u32, copied: &mut u64) -> Self {
        let pinned = frame_len.max(bytes.len());
        let truesize = Truesize::of_packet(bytes.len().min(PINNED_MAX) as u32 + headers);
        let mut chunk = Self { bytes, charge: charge_of(pinned), truesize };
        if chunk.copybreak() {
            *copied += chunk.len() as u64;
        }
        chunk
    }

    /// No payload, but `headers` and the FIN among them.
    #[must_use]
    pub fn bare(headers: u32) -> Self {
        Self { truesize: Truesize::of_packet(headers), ..Self::default() }
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

    /// What Linux would charge for it (`skb->truesize`), in bytes.
    #[must_use]
    pub const fn truesize(&self) -> u32 {
        self.truesize.bytes()
    }

    /// Copies that were gathered from chunks that Linux charges `truesize` for.
    pub(super) fn gathered(bytes: Bytes, truesize: Truesize) -> Self {
        let charge = charge_of(bytes.len());
        Self { bytes, charge, truesize }
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Where `next`, which follows, fits behind this chunk in its buffer, that becomes the buffer of both; freed when `next` is.
    /// Returns what `next` is charged less for that.
    pub(super) fn lend_buffer(&mut self, next: &mut Self) -> u32 {
        let len = u32::try_from(next.len()).unwrap_or(u32::MAX);
        let Some(shared) = self.truesize.with_tail(len) else { return 0 };
        let own = next.truesize();
        (self.truesize, next.truesize) = (Truesize::NONE, shared);
        own
    }

    pub(super) const fn bytes_mut(&mut self) -> &mut Bytes {
        &mut self.bytes
    }

    /// Drops `n` bytes from the front.
    pub(super) fn trim_front(&mut self, n: usize) {
        if n > 0 {
            self.bytes.advance(n);
            self.truesize = self.truesize.cut();
            self.copybreak();
        }
    }

    /// Splits off the first `n` bytes; what is left keeps the charge of the buffer, which it still pins.
    fn split_front(&mut self, n: usize) -> Self {
        let truesize = core::mem::take(&mut self.truesize);
        let mut front = Self { bytes: self.bytes.split_to(n), charge: self.charge, truesize };
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

    /// Length of the first piece, while none was taken.
    pub(super) fn len(&self) -> usize {
        self.rest.as_slice().first().map_or(0, Chunk::len)
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
