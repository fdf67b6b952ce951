//! `netem`: a network in a queue: delay with jitter, loss, duplication, reordering, corruption, a rate, slots.
//!
//! Rules, parameters and their order as in Linux's `sch_netem`. What is delayed has left this host as far as its flow knows:
//! its owner is released on entry. What is lost is lost without a word.
mod config;
mod dist;
mod loss;

pub use config::NetemConfig;

use super::inner::{Idle, Inner};
use super::line::Line;
use super::look::{LinkFacts, Reader, Size};
use super::spec::Words;
use super::stats::{Field, Report, Stats};
use super::store::Waiting;
use super::{Dequeued, Gone, Qdisc};
use crate::base::{Cx, Instant, Rng};
use crate::offload;
use crate::packet::{Csum, Packet};
use bytes::BytesMut;
use config::Slot;

/// When packets may leave, and how many more in this slot.
#[derive(Debug, Default)]
struct Slots {
    next: Instant,
    packets_left: i64,
    bytes_left: i64,
}

impl Slots {
    /// The first slot lasts until a packet comes that it began before.
    fn open(&mut self, now: Instant, slot: &Slot) {
        self.next = now;
        let or = |limit: u32| if limit == 0 { i64::MAX } else { i64::from(limit) };
        (self.packets_left, self.bytes_left) = (or(slot.packets), or(slot.bytes));
    }

    fn begin(&mut self, now: Instant, slot: &Slot, rng: &mut Rng) {
        let delay = match slot.dist {
            Some(dist) => dist.value(slot.min, slot.max, rng.next_u32()),
            None => slot.min + rng.below((slot.max - slot.min).saturating_add(1)),
        };
        self.open(now.plus_nanos(delay), slot);
    }

    /// When a packet that is due `at` may leave (`netem_dequeue`): in the first slot that does not begin before.
    fn admit(&mut self, now: Instant, at: Instant, slot: &Slot, rng: &mut Rng) -> Instant {
        if self.next < at {
            self.begin(now, slot, rng);
        }
        // Linux asks again when the packet is due.
        if self.next < at {
            self.begin(at, slot, rng);
        }
        at.max(self.next)
    }

    fn spend(&mut self, now: Instant, len: u32, slot: &Slot, rng: &mut Rng) {
        self.packets_left -= 1;
        self.bytes_left -= i64::from(len);
        if self.packets_left <= 0 || self.bytes_left <= 0 {
            self.begin(now, slot, rng);
        }
    }
}

/// The discipline.
#[derive(Debug)]
pub struct Netem {
    config: NetemConfig,
    rng: Rng,
    reader: Reader,
    /// What was sent ahead, the latest first: it leaves at once, before all others.
    ahead: Vec<Waiting>,
    line: Line,
    /// Where packets go when their time has come, if anywhere.
    inner: Option<Inner>,
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
            ahead: Vec::new(),
            line: Line::default(),
            inner: None,
            slots: Slots::default(),
            counter: 0,
            stats: Stats::default(),
        }
    }

    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        let (config, inner) = NetemConfig::parse(words)?;
        Ok(Self { inner, ..Self::new(config) })
    }

    /// What is under way in `old` arrives when it would have: its delay is behind it (`netem_change` keeps the queue).
    pub(crate) fn take_over(&mut self, now: Instant, old: &mut Self) {
        while let Some(packet) = old.take() {
            let size = Size::of(&packet);
            let at = packet.at.max(now);
            self.stats.enter(size);
            self.line.insert(Waiting { packet, size, at });
        }
    }

    /// No fault strikes any more; delay, jitter and rate stay. For worlds that must come to an end.
    pub fn heal(&mut self) {
        let NetemConfig { limit, delay, rate, .. } = self.config.clone();
        self.config = NetemConfig { limit, delay, rate, ..NetemConfig::default() };
    }

    /// Copies of this packet that go on: none if it is lost, two if it is duplicated.
    fn copies(&mut self, packet: &mut Packet, may_double: bool) -> u32 {
        let c = &mut self.config;
        let twice = may_double && c.duplicate.chance.strikes(&mut self.rng, c.duplicate.share);
        let mut lost = c.loss.next(&mut self.rng);
        if lost && c.ecn && self.reader.mark(packet) {
            // Congestion is told instead.
            lost = false;
        }
        1 + u32::from(twice) - u32::from(lost)
    }

    /// A packet comes in; its twin comes in before it, with all that may befall a packet but a twin of its own (`netem_enqueue`).
    fn arrive(&mut self, now: Instant, mut packet: Packet, gone: &mut Gone, may_double: bool) {
        let copies = self.copies(&mut packet, may_double);
        if copies == 0 {
            self.stats.drops += 1;
            return gone.lose(packet);
        }
        let twin = (copies > 1).then(|| Packet { owner: None, ..packet.clone() });
        let c = &mut self.config;
        let struck = c.corrupt.chance.strikes(&mut self.rng, c.corrupt.share);
        if self.stats.qlen >= u64::from(c.limit) {
            self.stats.drops += 1;
            return gone.refuse(packet);
        }
        let mut others = None;
        if struck {
            // One segment of a super-packet is struck, not all.
            let mut segments = offload::segment(packet, self.reader.link.link_len, false);
            let Some(first) = segments.next() else { return };
            packet = self.corrupt(first);
            others = Some(segments);
        }
        if let Some(twin) = twin {
            self.arrive(now, twin, gone, false);
        }
        self.depart(now, packet, gone);
        let from = gone.packets.len();
        for other in others.into_iter().flatten() {
            self.arrive(now, other, gone, may_double);
        }
        gone.release_refused(from);
    }

    /// One packet begins its way.
    fn depart(&mut self, now: Instant, mut packet: Packet, gone: &mut Gone) {
        if self.config.delays() {
            gone.release(&mut packet);
        }
        let size = Size::of(&packet);
        self.stats.enter(size);
        let c = &mut self.config;
        let stays = c.gap == 0
            || self.counter < c.gap - 1
            || !c.reorder.chance.strikes(&mut self.rng, c.reorder.share);
        if stays {
            self.counter = self.counter.saturating_add(1);
            let at = self.time_to_send(now, size);
            self.line.insert(Waiting { packet, size, at });
        } else {
            self.counter = 0;
            self.stats.requeues += 1;
            self.ahead.push(Waiting { packet, size, at: now });
        }
    }

    /// When a packet arrives at the other end.
    fn time_to_send(&mut self, now: Instant, size: Size) -> Instant {
        let c = &mut self.config;
        let d = &mut c.delay;
        let draw = if d.jitter > 0 { d.chance.draw(&mut self.rng) } else { 0 };
        let mut delay = d.dist.value(d.mean, d.jitter, draw);
        let mut from = now;
        if c.rate.rate > 0 {
            let last = self.line.last().max(self.ahead.first().map(|w| w.at));
            if let Some(last) = last {
                // The packet before is the point of reference: its wait counts against this one's delay.
                delay = delay.saturating_sub(last.nanos_since(now));
                from = last.max(now);
            }
            delay = delay.saturating_add(c.rate.time(size.len));
        }
        from.plus_nanos(delay)
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

    fn leave(&mut self, waiting: Waiting) -> Dequeued {
        self.stats.leave(waiting.size);
        Dequeued::Packet(waiting.packet)
    }

    /// The next packet of the line, if it may leave now; otherwise when that will be.
    fn next_of_line(&mut self, now: Instant) -> Result<Waiting, Idle> {
        let Some(due) = self.line.first() else { return Err(Idle::Empty) };
        let at = match &self.config.slot {
            Some(slot) => self.slots.admit(now, due, slot, &mut self.rng),
            None => due,
        };
        if at > now {
            return Err(Idle::Until(at));
        }
        let Some(waiting) = self.line.pop() else { return Err(Idle::Empty) };
        if let Some(slot) = &self.config.slot {
            self.slots.spend(now, waiting.size.len, slot, &mut self.rng);
        }
        Ok(waiting)
    }

    /// The packet whose turn it is in the discipline inside; `otherwise` where that has none.
    fn next_inside(&mut self, cx: &mut Cx<'_>, gone: &mut Gone, otherwise: Idle) -> Dequeued {
        let Some(inner) = &mut self.inner else { return otherwise.into() };
        match (inner.dequeue(cx, gone, &mut self.stats), otherwise) {
            (Ok(packet), _) => {
                self.stats.sent(Size::of(&packet));
                Dequeued::Packet(packet)
            }
            (Err(Idle::Until(a)), Idle::Until(b)) => Dequeued::NotBefore(a.min(b)),
            (Err(Idle::Until(at)), Idle::Empty) => Dequeued::NotBefore(at),
            (Err(Idle::Empty), otherwise) => otherwise.into(),
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
        self.config.begin(&mut self.rng);
        if let Some(slot) = &self.config.slot {
            self.slots.open(cx.now, slot);
        }
        if let Some(inner) = &mut self.inner {
            inner.attach(cx, link);
        }
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet, gone: &mut Gone) {
        self.arrive(cx.now, packet, gone, true);
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, gone: &mut Gone) -> Dequeued {
        if let Some(waiting) = self.ahead.pop() {
            return self.leave(waiting);
        }
        loop {
            let waiting = match self.next_of_line(cx.now) {
                Ok(waiting) => waiting,
                Err(idle) => return self.next_inside(cx, gone, idle),
            };
            let Some(inner) = &mut self.inner else { return self.leave(waiting) };
            self.stats.remove(waiting.size);
            inner.enqueue(cx, waiting.packet, gone, &mut self.stats);
        }
    }

    fn take(&mut self) -> Option<Packet> {
        let inner = &mut self.inner;
        if self.ahead.is_empty()
            && let Some(packet) = inner.as_mut().and_then(|inner| inner.take(&mut self.stats))
        {
            return Some(packet);
        }
        let waiting = self.ahead.pop().or_else(|| self.line.pop())?;
        self.stats.remove(waiting.size);
        // Whatever comes next keeps it for the rest of its way.
        Some(Packet { at: waiting.at, ..waiting.packet })
    }

    fn each(&self, f: &mut dyn FnMut(&Packet)) {
        self.ahead.iter().for_each(|w| f(&w.packet));
        self.line.each(f);
        self.inner.iter().for_each(|inner| inner.each(f));
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn stats_mut(&mut self) -> Option<&mut Stats> {
        Some(&mut self.stats)
    }

    fn options(&self, out: &mut Vec<Field>) {
        self.config.show(out);
    }

    fn children(&self) -> Vec<Report> {
        self.inner.iter().flat_map(Inner::reports).collect()
    }

    fn honours_departure(&self) -> bool {
        self.inner.as_ref().is_some_and(Inner::honours_departure)
    }
}

#[cfg(test)]
mod tests;
