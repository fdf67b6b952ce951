//! First in, first out, bounded in packets: `pfifo_fast` with one band.
use super::{Dequeued, Qdisc};
use crate::base::Cx;
use crate::packet::Packet;
use std::collections::VecDeque;

/// A bounded FIFO that refuses what comes when it is full.
#[derive(Debug)]
pub struct Pfifo {
    queue: VecDeque<Packet>,
    bytes: u64,
    limit: usize,
}

impl Pfifo {
    /// Packets of the default queue (`txqueuelen` of an Ethernet device).
    pub const DEFAULT_LIMIT: usize = 1_000;

    /// A queue of at most `limit` packets.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { queue: VecDeque::new(), bytes: 0, limit }
    }
}

impl Default for Pfifo {
    fn default() -> Self {
        Self::new(Self::DEFAULT_LIMIT)
    }
}

impl Qdisc for Pfifo {
    fn name(&self) -> &'static str {
        "pfifo"
    }

    fn enqueue(&mut self, _cx: &mut Cx<'_>, packet: Packet) -> Result<(), Packet> {
        if self.queue.len() >= self.limit {
            return Err(packet);
        }
        self.bytes += packet.len() as u64;
        self.queue.push_back(packet);
        Ok(())
    }

    fn dequeue(&mut self, _cx: &mut Cx<'_>) -> Dequeued {
        match self.queue.pop_front() {
            Some(packet) => {
                self.bytes -= packet.len() as u64;
                Dequeued::Packet(packet)
            }
            None => Dequeued::Empty,
        }
    }

    fn each(&self, f: &mut dyn FnMut(&Packet)) {
        self.queue.iter().for_each(f);
    }

    fn len(&self) -> usize {
        self.queue.len()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn honours_departure(&self) -> bool {
        false
    }
}
