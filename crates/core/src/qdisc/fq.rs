//! `fq`: a queue per flow, served round robin, that holds packets back until their departure time: the pacing queue.
//!
//! Rules, defaults and statistics as Linux 6.1's `sch_fq` has them; the structures are ours. A packet costs the same whether
//! there is one flow or ten thousand: a table finds its queue, and flows that must wait stand in a heap by their time.
mod config;
mod flows;
mod throttled;

pub use config::FqConfig;

use super::look::{LinkFacts, PRIO_CONTROL, Reader, Size};
use super::spec::QUANTUM_MIN;
use super::stats::{Field, Stats, Value};
use super::store::{Chain, Store, Waiting};
use super::{Dequeued, Gone, Qdisc};
use crate::base::{Cx, Instant};
use crate::packet::Packet;
use config::NO_RATE;
use flows::{Flows, Index, List};
use throttled::Throttled;

/// A packet never makes its flow wait longer.
const GAP_MAX_NS: u64 = 1_000_000_000;
const NS_PER_S: u64 = 1_000_000_000;

/// Counts of `fq`'s own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FqStats {
    /// Flows that were forgotten.
    pub gc: u64,
    /// Packets of the highest priority, which pass by all flows.
    pub highprio: u64,
    /// Times that a flow had to wait.
    pub throttled: u64,
    /// Packets that found their flow's queue full.
    pub flows_plimit: u64,
    /// Packets that would have made their flow wait for more than a second.
    pub pkts_too_long: u64,
    /// Packets that were late and marked where their transport can hear it; the others count too, as in Linux.
    pub ce_mark: u64,
    /// Packets beyond the horizon that were dropped.
    pub horizon_drops: u64,
    /// Packets beyond the horizon whose time was cut.
    pub horizon_caps: u64,
    /// How late waiting flows were let go, in nanoseconds: a moving average.
    pub latency: u64,
}

/// The discipline.
#[derive(Debug)]
pub struct Fq {
    config: FqConfig,
    reader: Reader,
    store: Store,
    /// What passes by all flows.
    internal: Chain,
    flows: Flows,
    new: List,
    old: List,
    throttled: Throttled,
    stats: Stats,
    own: FqStats,
}

impl Default for Fq {
    fn default() -> Self {
        Self::new(FqConfig::default())
    }
}

impl Fq {
    /// A queue with these parameters.
    #[must_use]
    pub fn new(config: FqConfig) -> Self {
        Self {
            reader: Reader::default(),
            store: Store::default(),
            internal: Chain::default(),
            flows: Flows::new(config.buckets),
            new: List::default(),
            old: List::default(),
            throttled: Throttled::default(),
            stats: Stats::default(),
            own: FqStats::default(),
            config,
        }
    }

    /// The queue of this packet's flow.
    fn classify(&mut self, now: Instant, packet: &Packet) -> Index {
        let key = self.reader.flow(packet);
        // A socket's hash has all its bits; those of nobody fill the places below.
        let key = match key.socket {
            true => key.hash | 1 << 63,
            false => key.hash & u64::from(self.config.orphan_mask),
        };
        let (index, forgotten) = self.flows.of(key, now, i64::from(self.config.initial_quantum.unwrap_or(0)));
        self.own.gc += forgotten;
        index
    }

    /// When the packet may go, or `None` beyond the horizon.
    fn time_to_send(&mut self, now: Instant, at: Instant) -> Option<Instant> {
        if at.nanos_since(now) <= self.config.horizon {
            return Some(at.max(now));
        }
        if self.config.horizon_drop {
            self.own.horizon_drops += 1;
            return None;
        }
        self.own.horizon_caps += 1;
        Some(now.plus_nanos(self.config.horizon))
    }

    /// Flows whose time has come go behind the old ones.
    fn check_throttled(&mut self, now: Instant) {
        let Some(first) = self.throttled.first(&mut self.flows).filter(|first| *first <= now) else { return };
        let (late, average) = (now.nanos_since(first), self.own.latency);
        self.own.latency = average - (average >> 3) + (late >> 3);
        while self.throttled.first(&mut self.flows).is_some_and(|at| at <= now)
            && let Some(index) = self.throttled.pop(&mut self.flows)
        {
            self.flows.append(&mut self.old, index);
        }
    }

    fn throttle(&mut self, index: Index, until: Instant) {
        self.own.throttled += 1;
        self.throttled.add(&mut self.flows, index, until);
    }

    /// What TCP sends without data, for a flow that waits, need not wait for the data behind it, unless by the flow's rate. Others name their
    /// times themselves, and are taken by Linux's word.
    fn hasten(&mut self, index: Index) {
        let flow = self.flows.get_mut(index);
        let Some(front) = self.store.front(&flow.queue).filter(|_| flow.waits > 0) else { return };
        let time = front.at.max(flow.paced);
        if time < flow.next {
            flow.next = time;
            self.throttled.add(&mut self.flows, index, time);
        }
    }

    /// The next flow with credit, from the new ones first; an old flow's turn gives it credit.
    fn next_flow(&mut self) -> Option<(Index, bool)> {
        loop {
            let new = !self.new.is_empty();
            let list = if new { &mut self.new } else { &mut self.old };
            let index = list.first()?;
            let flow = self.flows.get_mut(index);
            if flow.credit > 0 {
                return Some((index, new));
            }
            flow.credit += i64::from(self.config.quantum);
            self.flows.advance(list);
            self.flows.append(&mut self.old, index);
        }
    }

    /// What the flow's rate makes of a packet that leaves now: when the next one may.
    fn charge(&mut self, now: Instant, index: Index, waiting: &Waiting) {
        let (config, flow) = (&self.config, self.flows.get_mut(index));
        let mut bytes = waiting.size.len;
        flow.credit -= i64::from(bytes);
        if !config.pacing || config.maxrate == NO_RATE {
            return;
        }
        // What has a departure time of its own is charged by itself, without a burst.
        if !self.reader.has_departure(&waiting.packet) {
            if config.maxrate <= config.low_rate_threshold {
                flow.credit = 0;
            } else {
                bytes = bytes.max(config.quantum);
                if flow.credit > 0 {
                    return;
                }
            }
        }
        let gap = u128::from(bytes) * u128::from(NS_PER_S) / u128::from(config.maxrate.max(1));
        let mut gap = u64::try_from(gap).unwrap_or(u64::MAX);
        if gap > GAP_MAX_NS {
            gap = GAP_MAX_NS;
            self.own.pkts_too_long += 1;
        }
        // A late wake-up is made good, up to half of the gap.
        if flow.next > Instant::ZERO {
            gap -= (gap / 2).min(now.nanos_since(flow.next));
        }
        flow.next = now.plus_nanos(gap);
        flow.paced = flow.next;
    }

    /// The front packet of the flow whose turn it is; `None` when all must wait.
    fn dequeue_flow(&mut self, now: Instant) -> Option<Waiting> {
        self.check_throttled(now);
        loop {
            let (index, new) = self.next_flow()?;
            let flow = self.flows.get_mut(index);
            let Some(front) = self.store.front(&flow.queue) else {
                self.retire(now, index, new);
                continue;
            };
            let time = front.at.max(flow.next);
            if time > now {
                flow.next = time;
                self.flows.advance(if new { &mut self.new } else { &mut self.old });
                self.throttle(index, time);
                continue;
            }
            let mut waiting = self.store.pop_front(&mut flow.queue)?;
            if now.nanos_since(time) > self.config.ce_threshold {
                self.reader.mark(&mut waiting.packet);
                self.own.ce_mark += 1;
            }
            self.charge(now, index, &waiting);
            return Some(waiting);
        }
    }

    /// An empty flow that was new goes once more round with the old ones, lest a flow of single packets starve them.
    fn retire(&mut self, now: Instant, index: Index, new: bool) {
        self.flows.advance(if new { &mut self.new } else { &mut self.old });
        if new && !self.old.is_empty() {
            self.flows.append(&mut self.old, index);
        } else {
            self.flows.detach(index, now);
        }
    }
}

impl Qdisc for Fq {
    fn name(&self) -> &'static str {
        "fq"
    }

    fn attach(&mut self, cx: &mut Cx<'_>, link: &LinkFacts) {
        self.reader = Reader::new(link, &mut cx.rng.fork("fq"));
        let frame = link.frame();
        if self.config.quantum == 0 {
            self.config.quantum = frame.saturating_mul(2);
        }
        self.config.quantum = self.config.quantum.max(QUANTUM_MIN);
        self.config.initial_quantum.get_or_insert(frame.saturating_mul(10));
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, mut packet: Packet, gone: &mut Gone) {
        let size = Size::of(&packet);
        let refuse = |stats: &mut Stats, packet, gone: &mut Gone| {
            stats.drops += 1;
            gone.refuse(packet);
        };
        if self.stats.qlen >= u64::from(self.config.limit) {
            return refuse(&mut self.stats, packet, gone);
        }
        let Some(at) = self.time_to_send(cx.now, packet.at) else {
            return refuse(&mut self.stats, packet, gone);
        };
        packet.at = at;
        if self.reader.priority(&packet) == PRIO_CONTROL {
            self.own.highprio += 1;
            self.stats.enter(size);
            return self.store.push_back(&mut self.internal, Waiting { packet, size, at });
        }
        let index = self.classify(cx.now, &packet);
        let flow = self.flows.get_mut(index);
        if flow.queue.len() >= self.config.flow_limit {
            self.own.flows_plimit += 1;
            return refuse(&mut self.stats, packet, gone);
        }
        self.stats.enter(size);
        let of_tcp = self.reader.has_departure(&packet);
        self.store.push_by_time(&mut flow.queue, Waiting { packet, size, at });
        if of_tcp {
            self.hasten(index);
        }
        if let Some(idle) = self.flows.wake(index, cx.now) {
            let flow = self.flows.get_mut(index);
            if idle >= self.config.refill_delay {
                flow.credit = flow.credit.max(i64::from(self.config.quantum));
            }
            self.flows.append(&mut self.new, index);
        }
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, _gone: &mut Gone) -> Dequeued {
        // A flow that has just sent its last packet stands in its list until the next one of anybody's is looked for.
        if self.stats.qlen == 0 {
            return Dequeued::Empty;
        }
        let next = self.store.pop_front(&mut self.internal).or_else(|| self.dequeue_flow(cx.now));
        match next {
            Some(waiting) => {
                self.stats.leave(waiting.size);
                Dequeued::Packet(waiting.packet)
            }
            None => self.throttled.first(&mut self.flows).map_or(Dequeued::Empty, Dequeued::NotBefore),
        }
    }

    fn take(&mut self) -> Option<Packet> {
        let waiting = match self.store.pop_front(&mut self.internal) {
            Some(waiting) => waiting,
            None => loop {
                let new = !self.new.is_empty();
                let list = if new { &mut self.new } else { &mut self.old };
                let index = match list.first() {
                    Some(index) => {
                        self.flows.advance(list);
                        index
                    }
                    None => self.throttled.pop(&mut self.flows)?,
                };
                let flow = self.flows.get_mut(index);
                match self.store.pop_front(&mut flow.queue) {
                    Some(waiting) => {
                        self.flows.append(&mut self.old, index);
                        break waiting;
                    }
                    None => self.flows.detach(index, Instant::ZERO),
                }
            },
        };
        self.stats.remove(waiting.size);
        Some(waiting.packet)
    }

    fn each(&self, f: &mut dyn FnMut(&Packet)) {
        self.store.each(f);
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

    fn details(&self, out: &mut Vec<Field>) {
        let (own, flows) = (&self.own, &self.flows);
        out.extend([
            Field::line("flows", Value::Count(flows.len() as u64)),
            Field::new("inactive", Value::Count(flows.inactive())),
            Field::new("throttled", Value::Count(self.throttled.len())),
            Field::line("gc", Value::Count(own.gc)),
            Field::new("highprio", Value::Count(own.highprio)),
            Field::new("throttled_pkts", Value::Count(own.throttled)).shown("throttled"),
        ]);
        if own.latency > 0 {
            out.push(Field::new("latency", Value::Time(own.latency)));
        }
        let rare = [
            ("ce_mark", own.ce_mark),
            ("flows_plimit", own.flows_plimit),
            ("pkts_too_long", own.pkts_too_long),
            ("horizon_drops", own.horizon_drops),
            ("horizon_caps", own.horizon_caps),
        ];
        out.extend(rare.into_iter().filter(|r| r.1 > 0).map(|(name, n)| Field::new(name, Value::Count(n))));
    }

    fn honours_departure(&self) -> bool {
        self.config.pacing
    }
}

#[cfg(test)]
mod tests;
