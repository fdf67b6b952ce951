//! One element of the unsent stream, which Linux would keep in one buffer: packets are cut from it, and end with it where they must.
use super::flag;
use bytes::{Buf, Bytes, BytesMut};
use core::{fmt, mem};

/// Bytes that belong together, and what goes along with the last of them.
#[derive(Debug)]
pub(super) struct Element {
    pub(super) data: Data,
    pub(super) flags: u16,
}

pub(super) enum Data {
    /// Copied from what the application wrote; more may be copied behind it.
    Open(Open),
    /// The application's own buffer, or a packet that nothing joins.
    Sealed(Bytes),
}

/// What was copied, in one buffer, or in two where there was no room left: `front` is the rest of a buffer whose beginning is in flight.
/// Moving that rest would copy bytes again and pin two buffers for them; only the packet that reaches over the seam is copied together.
pub(super) struct Open {
    front: Bytes,
    tail: BytesMut,
}

/// What was taken off the front of an element.
pub(super) struct Taken {
    pub(super) payload: Bytes,
    /// It reached over a seam, and is a copy.
    pub(super) seam: Option<Seam>,
}

/// Where a packet reached from one buffer to the next.
pub(super) struct Seam {
    /// Its bytes in the first.
    pub(super) front: usize,
    /// Room of the second, of which nothing is left; 0 when something is.
    pub(super) freed: usize,
}

impl Element {
    pub(super) fn len(&self) -> usize {
        match &self.data {
            Data::Open(open) => open.len(),
            Data::Sealed(bytes) => bytes.len(),
        }
    }

    /// Takes the first `len` bytes off. The rest shares the buffer with them, or has one whose front is used up.
    pub(super) fn split_to(&mut self, len: usize) -> Taken {
        match &mut self.data {
            Data::Open(open) => {
                if len > open.front.len() {
                    self.flags |= flag::SHARED;
                }
                open.split_to(len)
            }
            Data::Sealed(bytes) => {
                self.flags |= flag::SHARED;
                Taken { payload: bytes.split_to(len), seam: None }
            }
        }
    }

    /// The same, copied behind what `into` holds.
    pub(super) fn move_to(&mut self, into: &mut BytesMut, len: usize) {
        match &mut self.data {
            Data::Open(open) => {
                if len > open.front.len() {
                    self.flags |= flag::SHARED;
                }
                open.move_to(into, len);
            }
            Data::Sealed(bytes) => {
                self.flags |= flag::SHARED;
                into.extend_from_slice(&bytes[..len]);
                bytes.advance(len);
            }
        }
    }
}

impl Data {
    /// All of it as one packet.
    pub(super) fn into_taken(self) -> Taken {
        match self {
            Self::Open(mut open) if !open.front.is_empty() => {
                let (len, freed) = (open.len(), open.capacity());
                let taken = open.split_to(len);
                Taken { seam: taken.seam.map(|seam| Seam { freed, ..seam }), ..taken }
            }
            Self::Open(open) => Taken { payload: open.tail.freeze(), seam: None },
            Self::Sealed(payload) => Taken { payload, seam: None },
        }
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(open) => write!(f, "Open({} + {})", open.front.len(), open.tail.len()),
            Self::Sealed(bytes) => write!(f, "Sealed({})", bytes.len()),
        }
    }
}

impl Open {
    pub(super) const fn new(tail: BytesMut) -> Self {
        Self { front: Bytes::new(), tail }
    }

    pub(super) fn len(&self) -> usize {
        self.front.len() + self.tail.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes before the seam; 0 when all is in one buffer.
    pub(super) const fn front_len(&self) -> usize {
        self.front.len()
    }

    /// Room of the buffer that takes more, what it holds included.
    pub(super) fn capacity(&self) -> usize {
        self.tail.capacity()
    }

    /// Bytes that may follow without another buffer.
    pub(super) fn spare(&self) -> usize {
        self.tail.capacity() - self.tail.len()
    }

    /// Copies `data`, for which there is room, behind what is there.
    pub(super) fn append(&mut self, data: &[u8]) {
        debug_assert!(data.len() <= self.spare());
        self.tail.extend_from_slice(data);
    }

    /// What follows goes to `buffer`. All that is here must be in one.
    pub(super) fn begin_tail(&mut self, buffer: BytesMut) {
        debug_assert!(self.front.is_empty());
        self.front = mem::replace(&mut self.tail, buffer).freeze();
    }

    /// The buffer that takes more moves to one of exactly `capacity` bytes, since growing in place would take up to twice that.
    pub(super) fn grow_tail(&mut self, capacity: usize) {
        let mut larger = BytesMut::with_capacity(capacity);
        larger.extend_from_slice(&self.tail);
        self.tail = larger;
    }

    /// Copies all of it together, with room for `spare` bytes more.
    pub(super) fn gather(&mut self, spare: usize) {
        let mut own = BytesMut::with_capacity(self.len() + spare);
        own.extend_from_slice(&self.front);
        own.extend_from_slice(&self.tail);
        *self = Self::new(own);
    }

    fn split_to(&mut self, len: usize) -> Taken {
        let front = self.front.len();
        if len <= front {
            return Taken { payload: self.front.split_to(len), seam: None };
        }
        if front == 0 {
            return Taken { payload: self.tail.split_to(len).freeze(), seam: None };
        }
        let mut whole = BytesMut::with_capacity(len);
        self.move_to(&mut whole, len);
        Taken { payload: whole.freeze(), seam: Some(Seam { front, freed: 0 }) }
    }

    fn move_to(&mut self, into: &mut BytesMut, len: usize) {
        let before = len.min(self.front.len());
        into.extend_from_slice(&self.front[..before]);
        into.extend_from_slice(&self.tail[..len - before]);
        self.advance(len);
    }

    /// Moves the first `len` bytes, for which there is room, behind what `to` holds.
    pub(super) fn give(&mut self, to: &mut Self, len: usize) {
        self.move_to(&mut to.tail, len);
    }

    fn advance(&mut self, len: usize) {
        let before = len.min(self.front.len());
        // A front of which nothing is left must not hold its buffer.
        drop(self.front.split_to(before));
        self.tail.advance(len - before);
    }

    /// The first `len` bytes as an element's data of their own, which has no room for more; true when they reach
    /// into the buffer that takes more.
    pub(super) fn cut(&mut self, len: usize) -> (Self, bool) {
        let before = len.min(self.front.len());
        let front = self.front.split_to(before);
        if len == before {
            return (Self { front, tail: BytesMut::new() }, false);
        }
        (Self { front, tail: self.tail.split_to(len - before) }, true)
    }
}
