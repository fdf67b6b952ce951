//! When chunks of a path left that are still out, with the snapshot for the delivery rate that belongs to it.
//!
//! What leaves at one instant has one snapshot: a packet is stamped once, however many chunks it has, and a chunk finds its own by the
//! time that it was sent at. The records are those of what left since the oldest such chunk did: they go
//! from the front.
use crate::base::Instant;
use crate::path::rate::{Rate, Snapshot};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Departure {
    at: Instant,
    snapshot: Snapshot,
    /// Chunks that left then and were neither acknowledged nor sent again.
    chunks: u32,
}

/// Departures, oldest first.
#[derive(Debug, Default)]
pub(super) struct Departures(VecDeque<Departure>);

impl Departures {
    /// A chunk leaves. `idle`: nothing else is out.
    pub(super) fn on_sent(&mut self, rate: &mut Rate, now: Instant, idle: bool) {
        match self.0.back_mut() {
            Some(last) if last.at == now => last.chunks += 1,
            last => {
                // What was out before the controller came has no records.
                let idle = idle || last.is_none();
                self.0.push_back(Departure { at: now, snapshot: rate.on_sent(now, idle), chunks: 1 });
            }
        }
    }

    /// A chunk that left `at` that time is out no more; the snapshot of then, if it is known.
    pub(super) fn take(&mut self, at: Instant) -> Option<Snapshot> {
        let oldest = self.0.front()?.at;
        let n = if oldest == at { 0 } else { self.0.binary_search_by_key(&at, |d| d.at).ok()? };
        let departure = self.0.get_mut(n)?;
        departure.chunks = departure.chunks.saturating_sub(1);
        let snapshot = departure.snapshot;
        while self.0.front().is_some_and(|d| d.chunks == 0) {
            self.0.pop_front();
        }
        Some(snapshot)
    }

    /// Gives back the memory of the busiest time, when there is nothing in it.
    pub(super) fn shrink(&mut self) {
        if self.0.is_empty() {
            self.0 = VecDeque::new();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
