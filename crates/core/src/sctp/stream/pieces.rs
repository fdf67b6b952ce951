//! The user data of a message as it came: one piece as a rule, which costs nothing beside itself; more where it was cut.
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

/// Pieces in their order. None is empty, for DATA carries something.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// Empty when there is no piece at all.
    first: Bytes,
    rest: VecDeque<Bytes>,
}

impl Pieces {
    /// One piece.
    pub(super) const fn one(first: Bytes) -> Self {
        Self { first, rest: VecDeque::new() }
    }

    /// Number of pieces.
    pub(super) fn len(&self) -> usize {
        usize::from(!self.first.is_empty()) + self.rest.len()
    }

    /// Length of the first one.
    pub(super) const fn first_len(&self) -> usize {
        self.first.len()
    }

    fn pop_front(&mut self) -> Bytes {
        core::mem::replace(&mut self.first, self.rest.pop_front().unwrap_or_default())
    }

    fn push_front(&mut self, piece: Bytes) {
        let second = core::mem::replace(&mut self.first, piece);
        if !second.is_empty() {
            self.rest.push_front(second);
        }
    }

    /// These pieces and then others; the fewer ones move.
    pub(super) fn join(mut self, mut right: Self) -> Self {
        if self.len() >= right.len() {
            self.rest.push_back(right.first);
            self.rest.append(&mut right.rest);
            return self;
        }
        while let Some(piece) = self.rest.pop_back() {
            right.push_front(piece);
        }
        right.push_front(self.first);
        right
    }

    /// The first `want` bytes, copied together unless they lie in one piece; how many pieces are used up.
    pub(super) fn take(&mut self, want: usize) -> (Bytes, usize) {
        if want < self.first.len() {
            return (self.first.split_to(want), 0);
        }
        if want == self.first.len() {
            return (self.pop_front(), 1);
        }
        let (mut all, mut gone) = (BytesMut::with_capacity(want), 0);
        while !self.first.is_empty() {
            let left = want - all.len();
            if left < self.first.len() {
                all.extend_from_slice(&self.first.split_to(left));
                break;
            }
            all.extend_from_slice(&self.pop_front());
            gone += 1;
        }
        (all.freeze(), gone)
    }

    /// Copies the last piece where it would pin far more than it is charged for; how many bytes.
    pub(super) fn spare(&mut self, frame_len: usize, overhead: usize) -> usize {
        let piece = self.rest.back_mut().unwrap_or(&mut self.first);
        if PIN_MAX * (piece.len() + overhead) >= frame_len {
            return 0;
        }
        *piece = Bytes::copy_from_slice(piece);
        piece.len()
    }
}

/// A piece may pin so many times what it is charged for.
pub(super) const PIN_MAX: usize = 8;
