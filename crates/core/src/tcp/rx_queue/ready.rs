//! Chunks in order. The first lies in the queue itself: who reads as fast as the peer sends never touches the heap.
use super::Chunk;
use std::collections::VecDeque;

/// Chunks behind the first that a usual burst leaves.
const BURST: usize = 8;

/// The in-order queue. It owns no heap memory while it is empty, whatever it held before.
#[derive(Debug, Default)]
pub(super) struct Ready {
    first: Option<Chunk>,
    /// What follows `first`; nothing when that is `None`.
    rest: Option<Box<Rest>>,
}

#[derive(Debug)]
struct Rest(VecDeque<Chunk>);

impl Ready {
    pub(super) const fn new() -> Self {
        Self { first: None, rest: None }
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.as_ref().map_or(0, |rest| rest.0.len())
    }

    pub(super) const fn front_mut(&mut self) -> Option<&mut Chunk> {
        self.first.as_mut()
    }

    pub(super) fn push_back(&mut self, chunk: Chunk) {
        if self.first.is_none() {
            self.first = Some(chunk);
        } else {
            let rest = self.rest.get_or_insert_with(|| Box::new(Rest(VecDeque::with_capacity(BURST))));
            rest.0.push_back(chunk);
        }
    }

    pub(super) fn back_mut(&mut self) -> Option<&mut Chunk> {
        match &mut self.rest {
            Some(rest) => rest.0.back_mut().or(self.first.as_mut()),
            None => self.first.as_mut(),
        }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Chunk> + '_ {
        self.first.iter_mut().chain(self.rest.iter_mut().flat_map(|rest| &mut rest.0))
    }

    pub(super) fn pop_front(&mut self) -> Option<Chunk> {
        let next = self.rest.as_mut().and_then(|rest| rest.0.pop_front());
        if next.is_none() {
            self.rest = None;
        }
        core::mem::replace(&mut self.first, next)
    }

    /// For tests.
    #[cfg(test)]
    pub(super) const fn has_no_heap(&self) -> bool {
        self.first.is_none() && self.rest.is_none()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Chunk> + '_ {
        self.first.iter().chain(self.rest.iter().flat_map(|rest| &rest.0))
    }
}
