//! `pfifo` and `bfifo`: first in, first out, bounded in packets or in bytes.
use super::look::{LinkFacts, Size};
use super::stats::{Field, Stats, Value};
use super::{Dequeued, Gone, Qdisc};
use crate::base::Cx;
use crate::packet::Packet;
use std::collections::VecDeque;

/// What a FIFO's limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Packets,
    Bytes,
}

/// A bounded FIFO that refuses what comes when it is full.
#[derive(Debug)]
pub struct Fifo {
    queue: VecDeque<(Packet, Size)>,
    unit: Unit,
    /// 0 until the device says it.
    limit: u64,
    stats: Stats,
}

impl Fifo {
    /// A queue of at most `limit` packets; 0 is as many as the device's `txqueuelen`.
    #[must_use]
    pub fn packets(limit: u32) -> Self {
        Self::new(Unit::Packets, limit)
    }

    /// A queue of at most `limit` bytes; 0 is as many as `txqueuelen` frames have.
    #[must_use]
    pub fn bytes(limit: u32) -> Self {
        Self::new(Unit::Bytes, limit)
    }

    fn new(unit: Unit, limit: u32) -> Self {
        Self { queue: VecDeque::new(), unit, limit: limit.into(), stats: Stats::default() }
    }

    /// Size of the packet whose turn is next.
    pub(super) fn front(&self) -> Option<Size> {
        self.queue.front().map(|(_, size)| *size)
    }
}

impl Default for Fifo {
    fn default() -> Self {
        Self::packets(LinkFacts::TX_QUEUE_LEN)
    }
}

impl Qdisc for Fifo {
    fn name(&self) -> &'static str {
        match self.unit {
            Unit::Packets => "pfifo",
            Unit::Bytes => "bfifo",
        }
    }

    fn attach(&mut self, _cx: &mut Cx<'_>, link: &LinkFacts) {
        if self.limit == 0 {
            let packets = u64::from(link.tx_queue_len.max(1));
            self.limit = match self.unit {
                Unit::Packets => packets,
                Unit::Bytes => packets * u64::from(link.frame()),
            };
        }
    }

    fn enqueue(&mut self, _cx: &mut Cx<'_>, packet: Packet, gone: &mut Gone) {
        let size = Size::of(&packet);
        let fits = match self.unit {
            Unit::Packets => self.stats.qlen < self.limit,
            Unit::Bytes => self.stats.backlog + u64::from(size.len) <= self.limit,
        };
        if !fits {
            self.stats.drops += 1;
            return gone.refuse(packet);
        }
        self.stats.enter(size);
        self.queue.push_back((packet, size));
    }

    fn dequeue(&mut self, _cx: &mut Cx<'_>, _gone: &mut Gone) -> Dequeued {
        let Some((packet, size)) = self.queue.pop_front() else { return Dequeued::Empty };
        self.stats.leave(size);
        Dequeued::Packet(packet)
    }

    fn take(&mut self) -> Option<Packet> {
        let (packet, size) = self.queue.pop_front()?;
        self.stats.remove(size);
        Some(packet)
    }

    fn each(&self, f: &mut dyn FnMut(&Packet)) {
        self.queue.iter().for_each(|(packet, _)| f(packet));
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn stats_mut(&mut self) -> Option<&mut Stats> {
        Some(&mut self.stats)
    }

    fn options(&self, out: &mut Vec<Field>) {
        out.push(Field::new(
            "limit",
            match self.unit {
                Unit::Packets => Value::Packets(self.limit),
                Unit::Bytes => Value::Bytes(self.limit),
            },
        ));
    }
}
