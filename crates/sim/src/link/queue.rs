//! A router's output queue: finite, drop-tail, serving at a rate, marking ECN-capable packets above a threshold.
use super::{Effects, Stage, serialisation_ns};
use crate::edit::{mark_ce, wire_size};
use lowwater_core::base::Instant;
use lowwater_core::packet::Packet;
use std::collections::VecDeque;

/// A finite queue in front of a line of finite rate.
pub struct Queue {
    rate: u64,
    max_packets: usize,
    max_bytes: u64,
    mark_bytes: u64,
    waiting: VecDeque<(Instant, Packet, u32)>,
    bytes: u64,
    free_at: Instant,
}

impl Queue {
    /// `rate` in bits per second (0 unlimited), bounds in packets and bytes (0 unlimited), ECN threshold in bytes (0 off).
    #[must_use]
    pub fn new(rate: u64, max_packets: usize, max_bytes: u64, mark_bytes: u64) -> Self {
        Self {
            rate,
            max_packets,
            max_bytes,
            mark_bytes,
            waiting: VecDeque::new(),
            bytes: 0,
            free_at: Instant::ZERO,
        }
    }
}

impl Stage for Queue {
    fn accept(&mut self, now: Instant, mut packet: Packet, effects: &mut Effects) {
        let (_, wire) = wire_size(&packet);
        let full = (self.max_packets != 0 && self.waiting.len() >= self.max_packets)
            || (self.max_bytes != 0 && self.bytes != 0 && self.bytes + u64::from(wire) > self.max_bytes);
        if full {
            effects.counts.queue_full += 1;
            return;
        }
        if self.mark_bytes != 0 && self.bytes > self.mark_bytes && mark_ce(&mut packet) {
            effects.counts.marked += 1;
        }
        self.bytes += u64::from(wire);
        self.free_at = self.free_at.max(now).plus_nanos(serialisation_ns(u64::from(wire), self.rate));
        self.waiting.push_back((self.free_at, packet, wire));
    }

    fn release(&mut self, now: Instant, _effects: &mut Effects) -> Option<Packet> {
        if self.waiting.front()?.0 > now {
            return None;
        }
        let (_, packet, wire) = self.waiting.pop_front()?;
        self.bytes -= u64::from(wire);
        Some(packet)
    }

    fn deadline(&self) -> Option<Instant> {
        self.waiting.front().map(|w| w.0)
    }

    fn held(&self) -> u64 {
        self.waiting.len() as u64
    }

    fn backlog_bytes(&self) -> Option<u64> {
        Some(self.bytes)
    }
}
