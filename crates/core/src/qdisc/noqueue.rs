//! `noqueue`: no queue. What a batch of input makes the stack say passes through in the same round, in order.
use super::look::Size;
use super::stats::Stats;
use super::{Dequeued, Gone, Qdisc};
use crate::base::Cx;
use crate::packet::Packet;
use std::collections::VecDeque;

/// Packets between two calls of the driver, who empties it each time unless the device is full: more would be a queue.
const BATCH_MAX: usize = 256;

/// The discipline.
#[derive(Debug, Default)]
pub struct Noqueue {
    batch: VecDeque<(Packet, Size)>,
    stats: Stats,
}

impl Qdisc for Noqueue {
    fn name(&self) -> &'static str {
        "noqueue"
    }

    fn enqueue(&mut self, _cx: &mut Cx<'_>, packet: Packet, gone: &mut Gone) {
        if self.batch.len() >= BATCH_MAX {
            self.stats.drops += 1;
            return gone.refuse(packet);
        }
        let size = Size::of(&packet);
        self.stats.enter(size);
        self.batch.push_back((packet, size));
    }

    fn dequeue(&mut self, _cx: &mut Cx<'_>, _gone: &mut Gone) -> Dequeued {
        let Some((packet, size)) = self.batch.pop_front() else { return Dequeued::Empty };
        self.stats.leave(size);
        Dequeued::Packet(packet)
    }

    fn take(&mut self) -> Option<Packet> {
        let (packet, size) = self.batch.pop_front()?;
        self.stats.remove(size);
        Some(packet)
    }

    fn each(&self, f: &mut dyn FnMut(&Packet)) {
        self.batch.iter().for_each(|(packet, _)| f(packet));
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn stats_mut(&mut self) -> Option<&mut Stats> {
        Some(&mut self.stats)
    }
}
