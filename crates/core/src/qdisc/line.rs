//! Packets in the order of their times: a heap over places that serve again, so that none that comes or goes allocates.
use super::store::Waiting;
use crate::base::Instant;
use crate::packet::Packet;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Packets under way; equal times keep the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Line {
    order: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    places: Vec<Option<Waiting>>,
    free: Vec<u32>,
    number: u64,
    /// Latest time of any; it leaves last.
    last: Instant,
}

impl Line {
    pub(super) fn insert(&mut self, waiting: Waiting) {
        self.number += 1;
        self.last = if self.order.is_empty() { waiting.at } else { self.last.max(waiting.at) };
        let (at, place) = (waiting.at, self.free.pop().unwrap_or(self.places.len() as u32));
        match self.places.get_mut(place as usize) {
            Some(free) => *free = Some(waiting),
            None => self.places.push(Some(waiting)),
        }
        self.order.push(Reverse((at, self.number, place)));
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Time of the one that leaves first.
    pub(super) fn first(&self) -> Option<Instant> {
        self.order.peek().map(|Reverse((at, ..))| *at)
    }

    /// Time of the one that leaves last.
    pub(super) fn last(&self) -> Option<Instant> {
        (!self.order.is_empty()).then_some(self.last)
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let Reverse((_, _, place)) = self.order.pop()?;
        self.free.push(place);
        self.places.get_mut(place as usize)?.take()
    }

    /// Shows every packet, in the order of the places.
    pub(super) fn each(&self, f: &mut dyn FnMut(&Packet)) {
        self.places.iter().flatten().for_each(|w| f(&w.packet));
    }
}
