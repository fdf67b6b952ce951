//! The user data of a message as it came: one piece as a rule, which costs nothing beside itself; more where it was cut.
use bytes::Bytes;
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

    /// Takes out the first one.
    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let first = core::mem::replace(&mut self.first, self.rest.pop_front().unwrap_or_default());
        (!first.is_empty()).then_some(first)
    }

    fn push_front(&mut self, piece: Bytes) {
        let second = core::mem::replace(&mut self.first, piece);
        if !second.is_empty() {
            self.rest.push_front(second);
        }
    }

    /// These pieces and then others; the fewer ones move.
    pub(super) fn join(mut self, mut right: Self) -> Self {
        if self.first.is_empty() || right.first.is_empty() {
            return if self.first.is_empty() { right } else { self };
        }
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

    /// Copies the last piece where it would pin far more than it is charged for; how many bytes.
    pub(super) fn spare(&mut self, frame_len: usize, overhead: usize) -> usize {
        spare(self.rest.back_mut().unwrap_or(&mut self.first), frame_len, overhead)
    }
}

/// A piece may pin so many times what it is charged for.
pub(super) const PIN_MAX: usize = 8;

/// Copies a piece where it would pin far more than it is charged for; how many bytes.
pub(super) fn spare(piece: &mut Bytes, frame_len: usize, overhead: usize) -> usize {
    if PIN_MAX * (piece.len() + overhead) >= frame_len {
        return 0;
    }
    *piece = Bytes::copy_from_slice(piece);
    piece.len()
}
