//! `netem`: a network in a queue: delay with jitter, loss, duplication, reordering, corruption, a rate, slots.
//!
//! Rules, parameters and their order as in Linux's `sch_netem`. What is delayed has left this host as far as its flow knows:
//! its owner is released on entry. What is lost is lost without a word.
mod config;
mod dist;
mod loss;

pub use config::NetemConfig;

use super::look::{LinkFacts, Reader, Size};
use super::stats::{Field, Stats};
use super::store::Waiting;
use super::{Dequeued, Gone, Qdisc};
use crate::base::{Cx, Instant, Rng};
use crate::offload;
use crate::packet::{Csum, Packet};
use bytes::BytesMut;
use config::Slot;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Packets under way: a heap of times over places that serve again.
#[derive(Debug, Default)]
struct Line {
    order: BinaryHeap<Reverse<(Instant, i64, u32)>>,
    places: Vec<Option<Waiting>>,
    free: Vec<u32>,
    number: i64,
    /// Packets that went to the front.
    fronts: i64,
    /// Latest time of any that is under way.
    last: Instant,
}

impl Line {
    fn insert(&mut self, waiting: Waiting, front: bool) {
        self.number += 1;
        self.fronts += i64::from(front);
        let rank = if front { -self.fronts } else { self.number };
        self.last = if self.order.is_empty() { waiting.at } else { self.last.max(waiting.at) };
        let (at, place) = (waiting.at, self.free.pop().unwrap_or(self.places.len() as u32));
        match self.places.get_mut(place as usize) {
            Some(free) => *free = Some(waiting),
            None => self.places.push(Some(waiting)),
        }
        self.order.push(Reverse((at, rank, place)));
    }

    fn first(&self) -> Option<Instant> {
        self.order.peek().map(|Reverse((at, ..))| *at)
    }

    fn pop(&mut self) -> Option<Waiting> {
        let Reverse((_, _, place)) = self.order.pop()?;
        self.free.push(place);
        self.places.get_mut(place as usize)?.take()
    }
}

/// When packets may leave, and how many more in this slot.
#[derive(Debug, Default)]
struct Slots {
    next: Instant,
    packets_left: i64,
    bytes_left: i64,
}

impl Slots {
    fn begin(&mut self, now: Instant, slot: &Slot, rng: &mut Rng) {
        let delay = match slot.dist {
            Some(dist) => dist.value(slot.min, slot.max, rng.next_u32()),
            None => slot.min + rng.below((slot.max - slot.min).saturating_add(1)),
        };
        self.next = now.plus_nanos(delay);
        let or = |limit: u32| if limit == 0 { i64::MAX } else { i64::from(limit) };
        (self.packets_left, self.bytes_left) = (or(slot.packets), or(slot.bytes));
    }
}

/// The discipline.
#[derive(Debug)]
pub struct Netem {
    config: NetemConfig,
    rng: Rng,
    reader: Reader,
    line: Line,
    slots: Slots,
    /// Packets since the last one that was sent ahead.
    counter: u32,
    stats: Stats,
}

impl Default for Netem {
    fn default() -> Self {
        Self::new(NetemConfig::default())
    }
}

impl Netem {
    /// A network as described.
    #[must_use]
    pub fn new(config: NetemConfig) -> Self {
        Self {
            config,
            rng: Rng::new(0),
            reader: Reader::default(),
            line: Line::default(),
            slots: Slots::default(),
            counter: 0,
            stats: Stats::default(),
        }
    }

    /// No fault strikes any more; delay, jitter and rate stay. For worlds that must come to an end.
    pub fn heal(&mut self) {
        let NetemConfig { limit, delay, rate, .. } = self.config.clone();
        self.config = NetemConfig { limit, delay, rate, ..NetemConfig::default() };
    }

    /// Copies of this packet that go on: none if it is lost, two if it is duplicated.
    fn copies(&mut self, packet: &mut Packet) -> u32 {
        let c = &mut self.config;
        let twice = c.duplicate.chance.strikes(&mut self.rng, c.duplicate.share);
        let mut lost = c.loss.next(&mut self.rng);
        if lost && c.ecn && self.reader.mark(packet) {
            // Congestion is told instead.
            lost = false;
        }
        1 + u32::from(twice) - u32::from(lost)
    }

    /// One packet begins its way.
    fn depart(&mut self, now: Instant, mut packet: Packet, gone: &mut Gone) {
        let size = Size::of(&packet);
        if self.stats.qlen >= u64::from(self.config.limit) {
            self.stats.drops += 1;
            return gone.refuse(packet);
        }
        if self.config.delays() {
            gone.release(&mut packet);
        }
        let (front, at) = self.time_to_send(now, size);
        self.stats.enter(size);
        self.line.insert(Waiting { packet, size, at }, front);
    }

    /// When a packet arrives at the other end; true when it overtakes all others.
    fn time_to_send(&mut self, now: Instant, size: Size) -> (bool, Instant) {
        let c = &mut self.config;
        let stays = c.gap == 0
            || self.counter < c.gap - 1
            || !c.reorder.chance.strikes(&mut self.rng, c.reorder.share);
        if !stays {
            self.counter = 0;
            self.stats.requeues += 1;
            return (true, now);
        }
        self.counter = self.counter.saturating_add(1);
        let d = &mut c.delay;
        let draw = if d.jitter > 0 { d.chance.draw(&mut self.rng) } else { 0 };
        let mut delay = d.dist.value(d.mean, d.jitter, draw);
        let mut from = now;
        if c.rate.rate > 0 {
            if !self.line.order.is_empty() {
                // The packet before is the point of reference: its wait counts against this one's delay.
                delay = delay.saturating_sub(self.line.last.nanos_since(now));
                from = self.line.last.max(now);
            }
            delay = delay.saturating_add(c.rate.time(size.len));
        }
        (false, from.plus_nanos(delay))
    }

    /// Flips one bit in what was to arrive whole. The checksum that the device would have made is made before.
    fn corrupt(&mut self, mut packet: Packet) -> Packet {
        let link_len = self.reader.link.link_len;
        offload::csum::fill(&mut packet, link_len);
        packet.offload.csum = Csum::None;
        let len = packet.len().saturating_sub(link_len);
        if len == 0 {
            return packet;
        }
        let at = link_len + self.rng.below(len as u64) as usize;
        let bit = 1 << self.rng.below(8);
        let head = packet.head.as_mut_slice();
        match head.get_mut(at) {
            Some(byte) => *byte ^= bit,
            None => {
                let at = at - head.len();
                let mut payload = BytesMut::from(&packet.payload[..]);
                payload[at] ^= bit;
                packet.payload = payload.freeze();
            }
        }
        packet
    }

    fn send(&mut self, now: Instant, packet: Packet, gone: &mut Gone) {
        let c = &mut self.config;
        if !c.corrupt.chance.strikes(&mut self.rng, c.corrupt.share) {
            return self.depart(now, packet, gone);
        }
        // One segment of a super-packet is struck, not all.
        let segments = offload::segment(packet, self.reader.link.link_len, false);
        for (i, segment) in segments.enumerate() {
            let segment = if i == 0 { self.corrupt(segment) } else { segment };
            self.depart(now, segment, gone);
        }
    }
}

impl Qdisc for Netem {
    fn name(&self) -> &'static str {
        "netem"
    }

    fn attach(&mut self, cx: &mut Cx<'_>, link: &LinkFacts) {
        // A stream of its own, another for each one that is attached.
        self.rng = Rng::new(cx.rng.next_u64());
        self.reader = Reader::new(link, &mut self.rng.fork("netem"));
        if let Some(slot) = &self.config.slot {
            self.slots.begin(cx.now, slot, &mut self.rng);
        }
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, mut packet: Packet, gone: &mut Gone) {
        match self.copies(&mut packet) {
            0 => {
                self.stats.drops += 1;
                gone.lose(packet);
            }
            1 => self.send(cx.now, packet, gone),
            _ => {
                let twin = Packet { owner: None, ..packet.clone() };
                self.send(cx.now, twin, gone);
                self.send(cx.now, packet, gone);
            }
        }
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, _gone: &mut Gone) -> Dequeued {
        let Some(mut at) = self.line.first() else { return Dequeued::Empty };
        if let Some(slot) = &self.config.slot {
            // A packet that came after the slot had begun waits for another one.
            if at <= cx.now && self.slots.next < at {
                self.slots.begin(cx.now, slot, &mut self.rng);
            }
            at = at.max(self.slots.next);
        }
        if at > cx.now {
            self.stats.overlimits += 1;
            return Dequeued::NotBefore(at);
        }
        let Some(waiting) = self.line.pop() else { return Dequeued::Empty };
        if let Some(slot) = &self.config.slot {
            self.slots.packets_left -= 1;
            self.slots.bytes_left -= i64::from(waiting.size.len);
            if self.slots.packets_left <= 0 || self.slots.bytes_left <= 0 {
                self.slots.begin(cx.now, slot, &mut self.rng);
            }
        }
        self.stats.leave(waiting.size);
        Dequeued::Packet(waiting.packet)
    }

    fn take(&mut self) -> Option<Packet> {
        let waiting = self.line.pop()?;
        self.stats.remove(waiting.size);
        Some(waiting.packet)
    }

    fn each(&self, f: &mut dyn FnMut(&Packet)) {
        self.line.places.iter().flatten().for_each(|w| f(&w.packet));
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn options(&self, out: &mut Vec<Field>) {
        self.config.show(out);
    }
}

#[cfg(test)]
mod tests;
