//! One direction of a link: a chain of small sans-IO stages that packets pass through, with an exact account of each.
pub mod delay;
pub mod discipline;
pub mod loss;
pub mod mangle;
pub mod mtu;
pub mod nic;
pub mod queue;
pub mod spec;

pub use nic::{Completion, Nic, Submitted};
pub use spec::PipeSpec;

use lowwater_core::base::Instant;
use lowwater_core::packet::Packet;

/// What happened to packets in a pipe. In every state `accepted + split + duplicated = delivered + dropped() + held`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PipeCounts {
    /// Packets that entered.
    pub accepted: u64,
    /// Packets that segmentation added.
    pub split: u64,
    /// Packets that the network duplicated.
    pub duplicated: u64,
    /// Packets that came out at the far end.
    pub delivered: u64,
    /// Lost at random, in a burst or in a blackout.
    pub lost: u64,
    /// Dropped because a queue was full, or by a queue on purpose.
    pub queue_full: u64,
    /// Dropped because they were too big for the next hop.
    pub too_big: u64,
    /// Delivered with flipped bits.
    pub corrupted: u64,
    /// Sent after a later packet.
    pub reordered: u64,
    /// Marked "congestion experienced".
    pub marked: u64,
    /// ICMP errors that went back.
    pub told: u64,
}

impl PipeCounts {
    /// All packets that vanished.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.lost + self.queue_full + self.too_big
    }
}

/// What a stage may cause beside passing packets on.
#[derive(Debug, Default)]
pub struct Effects {
    /// The pipe's account.
    pub counts: PipeCounts,
    /// ICMP errors for the sender.
    pub back: Vec<Packet>,
}

/// One box of a link. It never knows its neighbours: the pipe moves packets.
pub trait Stage: Send {
    /// Takes a packet.
    fn accept(&mut self, now: Instant, packet: Packet, effects: &mut Effects);
    /// The next packet that leaves at or before `now`.
    fn release(&mut self, now: Instant, effects: &mut Effects) -> Option<Packet>;
    /// When the next packet leaves.
    fn deadline(&self) -> Option<Instant>;
    /// Packets inside.
    fn held(&self) -> u64;
    /// Stops random faults; what is inside still leaves.
    fn heal(&mut self) {}
    /// IP bytes that wait here, where this is a queue.
    fn backlog_bytes(&self) -> Option<u64> {
        None
    }
}

/// One direction of a link.
pub struct Pipe {
    /// The sending host's device, where a host is at this end.
    pub nic: Option<Nic>,
    stages: Vec<Box<dyn Stage>>,
    effects: Effects,
    out: Vec<Packet>,
}

impl Pipe {
    /// A pipe of the given stages.
    #[must_use]
    pub fn new(nic: Option<Nic>, stages: Vec<Box<dyn Stage>>) -> Self {
        Self { nic, stages, effects: Effects::default(), out: Vec::new() }
    }

    /// A packet enters from another pipe.
    pub fn accept(&mut self, now: Instant, packet: Packet) {
        self.effects.counts.accepted += 1;
        match self.stages.first_mut() {
            Some(first) => first.accept(now, packet, &mut self.effects),
            None => self.deliver(packet),
        }
    }

    /// The sending host hands a packet to its device.
    ///
    /// # Panics
    /// When no device is at this end: a bug of the world.
    pub fn submit(&mut self, now: Instant, packet: Packet) -> Submitted {
        self.nic.as_mut().expect("a host is at this end").submit(now, packet, &mut self.effects.counts)
    }

    /// Moves everything that is due at `now`; completions are appended to `completions`.
    pub fn advance(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        if let Some(nic) = &mut self.nic {
            while let Some(packet) = nic.release(now, completions) {
                match self.stages.first_mut() {
                    Some(first) => first.accept(now, packet, &mut self.effects),
                    None => {
                        self.effects.counts.delivered += 1;
                        self.out.push(packet);
                    }
                }
            }
            nic.tell(now, completions);
        }
        for i in 0..self.stages.len() {
            while let Some(packet) = self.stages[i].release(now, &mut self.effects) {
                match self.stages.get_mut(i + 1) {
                    Some(next) => next.accept(now, packet, &mut self.effects),
                    None => self.deliver(packet),
                }
            }
        }
    }

    fn deliver(&mut self, packet: Packet) {
        self.effects.counts.delivered += 1;
        self.out.push(packet);
    }

    /// Takes what came out at the far end, in order.
    pub fn take_delivered(&mut self) -> Vec<Packet> {
        std::mem::take(&mut self.out)
    }

    /// Takes ICMP errors for the sending side.
    pub fn take_back(&mut self) -> Vec<Packet> {
        std::mem::take(&mut self.effects.back)
    }

    /// When something moves next.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let nic = self.nic.as_ref().and_then(Nic::deadline);
        self.stages.iter().filter_map(|s| s.deadline()).chain(nic).min()
    }

    /// Packets inside.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.stages.iter().map(|s| s.held()).sum::<u64>() + self.nic.as_ref().map_or(0, Nic::held)
    }

    /// The account so far.
    #[must_use]
    pub fn counts(&self) -> &PipeCounts {
        &self.effects.counts
    }

    /// IP bytes that wait in the device (0) or in the n-th queue behind it.
    #[must_use]
    pub fn backlog_bytes(&self, queue: usize) -> u64 {
        let nic = self.nic.as_ref().map(Nic::backlog_bytes);
        nic.into_iter().chain(self.stages.iter().filter_map(|s| s.backlog_bytes())).nth(queue).unwrap_or(0)
    }

    /// Stops all random faults.
    pub fn heal(&mut self) {
        if let Some(nic) = &mut self.nic {
            nic.heal();
        }
        for stage in &mut self.stages {
            stage.heal();
        }
    }
}

/// A hand-over point for stages that hold nothing back: what they let through at once.
#[derive(Debug, Default)]
pub(crate) struct Through {
    packets: std::collections::VecDeque<(Instant, Packet)>,
}

impl Through {
    pub(crate) fn push(&mut self, now: Instant, packet: Packet) {
        self.packets.push_back((now, packet));
    }
    pub(crate) fn pop(&mut self) -> Option<Packet> {
        self.packets.pop_front().map(|(_, p)| p)
    }
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.packets.front().map(|(at, _)| *at)
    }
    pub(crate) fn held(&self) -> u64 {
        self.packets.len() as u64
    }
}

/// Nanoseconds that `bytes` take at `bits_per_s`; nothing at an unlimited rate (0).
#[must_use]
pub(crate) fn serialisation_ns(bytes: u64, bits_per_s: u64) -> u64 {
    if bits_per_s == 0 {
        return 0;
    }
    (u128::from(bytes) * 8 * 1_000_000_000 / u128::from(bits_per_s)) as u64
}

#[cfg(test)]
mod tests;
