//! Flows of `fq` that wait for their time.
use super::flows::{Flows, Index};
use crate::base::Instant;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Entries that may be passed over before anybody clears them away.
const SPARE: u64 = 64;

/// By time, and then in the order in which they began to wait. A heap, since its places serve again where a tree's do not. A flow whose time
/// changes gets another entry, and the one before is passed over; there are at most twice as many entries as flows that wait, and [`SPARE`].
#[derive(Debug, Default)]
pub(super) struct Throttled {
    heap: BinaryHeap<Reverse<(Instant, u64, Index)>>,
    number: u64,
    len: u64,
}

impl Throttled {
    /// Flows that wait.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// The flow waits until then, instead of what it waited for before.
    pub(super) fn add(&mut self, flows: &mut Flows, index: Index, until: Instant) {
        self.number += 1;
        let flow = flows.get_mut(index);
        self.len += u64::from(flow.waits == 0);
        flow.waits = self.number;
        self.heap.push(Reverse((until, self.number, index)));
        if self.heap.len() as u64 > 2 * self.len + SPARE {
            // As many are cleared away as came since the last time.
            self.heap.retain(|&Reverse((_, number, index))| flows.get_mut(index).waits == number);
        }
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.heap.len()
    }

    /// When the first one may go on.
    pub(super) fn first(&mut self, flows: &mut Flows) -> Option<Instant> {
        while let Some(&Reverse((at, number, index))) = self.heap.peek() {
            if flows.get_mut(index).waits == number {
                return Some(at);
            }
            self.heap.pop();
        }
        None
    }

    /// That flow, which waits no more.
    pub(super) fn pop(&mut self, flows: &mut Flows) -> Option<Index> {
        self.first(flows)?;
        let Reverse((_, _, index)) = self.heap.pop()?;
        flows.get_mut(index).waits = 0;
        self.len -= 1;
        Some(index)
    }
}
