//! The laws of the module's header, held against every discipline; `cases.rs` has one line per implementor.
//!
//! What is conserved is what will be on the wire: the segments of each packet, however it is cut on the way.
mod cases;
mod packets;

pub(crate) use packets::{label, packet};

use super::look::Size;
use super::*;
use crate::base::testing::World;
use crate::base::{Duration, Rng};
use crate::packet::Owner;
use packets::{Maker, part};
use std::collections::{BTreeMap, VecDeque};

/// What the laws expect of one discipline beyond what all do.
#[derive(Clone, Copy)]
struct Kind {
    /// Most packets that may wait; 0 where only the bytes are bounded.
    packets: u64,
    /// Most bytes that may wait; 0 where only the packets are bounded.
    bytes: u64,
    /// Most of what `memory_used` says; 0 where nothing does.
    memory: u64,
    /// Packets of one flow may overtake each other.
    disorders: bool,
    /// Bits are flipped.
    corrupts: bool,
    /// How often a segment may come out; it must once. (A cut super-packet's segments are doubled like packets, and so was the whole.)
    copies: u64,
    /// No packet leaves earlier than this after it came, what is sent ahead excepted.
    delay: Duration,
    /// Bytes per second that leave at most, and bytes beyond that; 0 for any.
    rate: (u64, u64),
    /// So many packets leave in this time at most; 0 for any.
    slot: (usize, Duration),
}

impl Kind {
    const ANY: Self = Self {
        packets: 0,
        bytes: 0,
        memory: 0,
        disorders: false,
        corrupts: false,
        copies: 1,
        delay: Duration::ZERO,
        rate: (0, 0),
        slot: (0, Duration::ZERO),
    };

    const fn packets(packets: u64) -> Self {
        Self { packets, ..Self::ANY }
    }

    const fn bytes(bytes: u64) -> Self {
        Self { bytes, ..Self::ANY }
    }

    /// So many bytes per second, and a bucket.
    const fn rate(self, rate: u64, burst: u64) -> Self {
        Self { rate: (rate, burst), ..self }
    }
}

/// Packets of a queue that is looked through after every step.
const LONG: u64 = 64;

/// Segments and bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    packets: u64,
    segs: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, packet: &Packet) {
        let size = Size::of(packet);
        self.packets += 1;
        self.segs += u64::from(size.segs);
        self.bytes += u64::from(size.len);
    }
}

/// What was enqueued under one number.
struct Made {
    flow: u16,
    came: Instant,
    /// Its credit, until that comes back.
    owner: Option<Owner>,
    /// How often each segment has come out or was given up, by where it begins.
    ends: BTreeMap<u32, u64>,
    /// The same in bytes, over all segments.
    ended: u64,
    size: Size,
}

/// Everything that went in and out.
#[derive(Default)]
struct Ledger {
    made: Vec<Made>,
    /// Packets of which not all credit has come back, and all credit that has not.
    outstanding: u64,
    charge: u64,
    /// The last segment of each flow that left.
    last: BTreeMap<u16, (u32, u32)>,
    enqueued: Sum,
    dequeued: Sum,
    gone: Sum,
    /// When packets left: as many as may in one slot.
    slot: VecDeque<Instant>,
    looks: u64,
}

impl Ledger {
    fn enqueue(&mut self, flow: u16, packet: &Packet, now: Instant) {
        let (number, _) = part(packet);
        assert_eq!(number as usize, self.made.len());
        self.enqueued.add(packet);
        self.outstanding += u64::from(packet.owner.is_some());
        self.charge += packet.owner.map_or(0, |owner| u64::from(owner.charge));
        let (owner, size) = (packet.owner, Size::of(packet));
        self.made.push(Made { flow, came: now, owner, ends: BTreeMap::new(), ended: 0, size });
    }

    fn back(&mut self, owner: Owner) {
        let left = self.charge.checked_sub(u64::from(owner.charge));
        self.charge = left.expect("law 6: no more than was charged");
        // The pieces of a packet have its number no more, but for the last.
        if owner.is_end() {
            let paid = self.made[owner.whole as usize - 1].owner.take();
            assert_eq!(paid.map(|o| (o.flow, o.whole)), Some((owner.flow, owner.whole)), "law 6: once");
            self.outstanding -= 1;
        }
    }

    /// All segments of `packet` have come to an end.
    fn end(&mut self, kind: &Kind, packet: &Packet) {
        let ((number, from), size) = (part(packet), Size::of(packet));
        let made = &mut self.made[number as usize];
        made.ended += u64::from(size.len);
        for segment in 0..size.segs {
            let place = if kind.corrupts { 0 } else { from + segment * u32::from(packet.offload.gso_size) };
            *made.ends.entry(place).or_default() += 1;
        }
    }

    fn gone(&mut self, kind: &Kind, gone: &mut Gone) {
        self.charge += gone.grown.drain(..).map(|(_, more)| u64::from(more)).sum::<u64>();
        for owner in gone.released.drain(..).chain(gone.parts.drain(..)) {
            self.back(owner);
        }
        let mut unsent = Vec::new();
        for (packet, fate) in gone.packets.drain(..) {
            self.gone.add(&packet);
            self.end(kind, &packet);
            packet.owner.into_iter().for_each(|owner| self.back(owner));
            unsent.extend((fate == Fate::Refused && packet.owner.is_some()).then(|| part(&packet).0));
        }
        for number in unsent {
            let made = &self.made[number as usize];
            let ends: u64 = made.ends.values().sum();
            assert!(ends >= u64::from(made.size.segs), "law 6: its flow hears that {number} was not sent");
        }
    }

    fn left(&mut self, kind: &Kind, packet: &Packet, now: Instant, honours: bool) {
        self.dequeued.add(packet);
        self.end(kind, packet);
        packet.owner.into_iter().for_each(|owner| self.back(owner));
        self.in_slot(kind.slot, now);
        let (number, from) = part(packet);
        let made = &self.made[number as usize];
        if !kind.disorders {
            let last = self.last.insert(made.flow, (number, from));
            assert!(last.is_none_or(|last| last < (number, from)), "law 2: {number}+{from} after {last:?}");
        }
        assert!(!honours || packet.at <= now, "law 5: not before its time");
        assert!(made.came + kind.delay <= now, "law 5: {} after it came", now.nanos_since(made.came));
    }

    fn in_slot(&mut self, (packets, time): (usize, Duration), now: Instant) {
        if packets == 0 {
            return;
        }
        if self.slot.len() == packets {
            let first = self.slot.pop_front();
            assert!(first.is_none_or(|first| first + time <= now), "law 5: more than a slot takes");
        }
        self.slot.push_back(now);
    }

    fn adds_up(&mut self, q: &dyn Qdisc, kind: &Kind) {
        self.looks += 1;
        // A long queue is not walked through for every packet.
        if q.stats().qlen > LONG && !self.looks.is_multiple_of(16) {
            return;
        }
        let (stats, mut queued, mut owners) = (q.stats(), Sum::default(), (0, 0));
        q.each(&mut |p| {
            queued.add(p);
            let Some(owner) = p.owner else { return };
            owners = (owners.0 + u64::from(owner.is_end()), owners.1 + u64::from(owner.charge));
            let out = !owner.is_end() || self.made[owner.whole as usize - 1].owner.is_some();
            assert!(out, "law 6: credit that has come back");
        });
        let owed = (self.outstanding, self.charge);
        assert_eq!(owners, owed, "law 6: what waits holds what has not come back");
        assert_eq!((stats.qlen, stats.backlog), (queued.packets, queued.bytes), "law 7: what waits");
        assert_eq!(
            (stats.bytes, stats.packets),
            (self.dequeued.bytes, self.dequeued.segs),
            "law 7: what left"
        );
        assert_eq!(stats.drops, self.gone.packets, "law 7: what was given up");
        let (came, went) = (self.enqueued, [self.dequeued, self.gone, queued]);
        let (segs, bytes) = (went.map(|w| w.segs).iter().sum(), went.map(|w| w.bytes).iter().sum());
        assert!((came.segs..=kind.copies * came.segs).contains(&segs), "law 1: {segs} segments of {came:?}");
        assert!((came.bytes..=kind.copies * came.bytes).contains(&bytes), "law 1: {bytes} bytes of {came:?}");
        assert!(kind.packets == 0 || stats.qlen <= kind.packets, "law 3: {} packets", stats.qlen);
        assert!(kind.bytes == 0 || stats.backlog <= kind.bytes, "law 3: {} bytes", stats.backlog);
        assert_eq!(q.is_empty(), queued.packets == 0);
    }

    /// Nothing is left anywhere.
    fn closed(&self, kind: &Kind) {
        assert_eq!((self.outstanding, self.charge), (0, 0), "law 6: every one");
        for (number, made) in self.made.iter().enumerate() {
            let (segs, bytes) = (u64::from(made.size.segs), u64::from(made.size.len));
            let ends: u64 = made.ends.values().sum();
            assert!((segs..=kind.copies * segs).contains(&ends), "law 1: {ends} of {number}'s {segs}");
            assert!(kind.corrupts || made.ends.len() as u64 == segs, "law 1: each segment of {number}");
            assert!(kind.corrupts || made.ends.values().all(|n| *n <= kind.copies), "law 1: {:?}", made.ends);
            assert!((bytes..=kind.copies * bytes).contains(&made.ended), "law 1: bytes of {number}");
        }
    }
}

/// What is inside adds up to what stands outside.
fn nested(report: &Report) {
    let (outer, children) = (&report.stats, &report.children);
    children.iter().for_each(nested);
    let sum = |f: fn(&Stats) -> u64| children.iter().map(|c| f(&c.stats)).sum::<u64>();
    let all: [fn(&Stats) -> u64; 6] =
        [|s| s.bytes, |s| s.packets, |s| s.drops, |s| s.overlimits, |s| s.backlog, |s| s.qlen];
    match report.kind {
        "mq" => assert!(all.iter().all(|f| f(outer) == sum(*f)), "law 7: {report}"),
        "tbf" if !children.is_empty() => {
            let same: [fn(&Stats) -> u64; 2] = [|s| s.backlog, |s| s.qlen];
            assert!(same.iter().all(|f| f(outer) == sum(*f)), "law 7: {report}");
            // What it is looking at has left the one inside.
            assert!(
                outer.packets <= sum(|s| s.packets) && outer.drops >= sum(|s| s.drops),
                "law 7: {report}"
            );
        }
        _ => {
            assert!(outer.qlen >= sum(|s| s.qlen) && outer.backlog >= sum(|s| s.backlog), "law 7: {report}");
            assert!(outer.drops >= sum(|s| s.drops), "law 7: {report}");
        }
    }
}

struct Run {
    world: World,
    rng: Rng,
    maker: Maker,
    q: Any,
    kind: Kind,
    ledger: Ledger,
    gone: Gone,
    start: Instant,
    now: Instant,
    /// Last departure time of each flow.
    stamps: [Instant; 8],
}

impl Run {
    fn new(q: Any, world: World, kind: Kind, (seed, gso): (u64, bool)) -> Self {
        let start = Instant::from_millis(1);
        let mut run = Self {
            world,
            rng: Rng::new(seed ^ 99),
            maker: Maker::new(seed, gso),
            q,
            kind,
            ledger: Ledger::default(),
            gone: Gone::default(),
            start,
            now: start,
            stamps: [Instant::ZERO; 8],
        };
        run.world.rng = Rng::new(seed);
        run.q.attach(&mut run.world.cx(start), &LinkFacts::ip(1_500));
        run
    }

    fn enqueue(&mut self) {
        let (flow, number) = (self.rng.below(8) as u16, self.ledger.made.len() as u32);
        // Departure times of a flow never run backwards, as a transport makes them.
        let ahead = if flow < 4 { 0 } else { self.rng.below(400_000) };
        let at = self.now.plus_nanos(ahead).max(self.stamps[usize::from(flow)]);
        self.stamps[usize::from(flow)] = at;
        let mut packet = self.maker.make(flow, number, at);
        // Acknowledgements.
        if flow >= 6 && number.is_multiple_of(3) {
            packet.owner = None;
        }
        self.ledger.enqueue(flow, &packet, self.now);
        self.q.enqueue(&mut self.world.cx(self.now), packet, &mut self.gone);
        self.settle();
    }

    fn settle(&mut self) {
        self.ledger.gone(&self.kind, &mut self.gone);
        self.ledger.adds_up(&self.q, &self.kind);
    }

    /// True when a packet left or the time has moved on.
    fn dequeue(&mut self, wait: bool) -> bool {
        let next = self.q.dequeue(&mut self.world.cx(self.now), &mut self.gone);
        if let Dequeued::Packet(packet) = &next {
            self.ledger.left(&self.kind, packet, self.now, self.q.honours_departure());
            let (rate, burst) = self.kind.rate;
            let most = u128::from(rate) * u128::from(self.now.nanos_since(self.start)) / 1_000_000_000;
            let (most, left) = (most + u128::from(burst), u128::from(self.ledger.dequeued.bytes));
            assert!(rate == 0 || left <= most, "law 5: {left} bytes where {most} may have left");
        }
        self.settle();
        match next {
            Dequeued::Packet(_) => true,
            Dequeued::NotBefore(at) => {
                assert!(at > self.now, "law 5: a time that has come is none");
                assert!(!self.q.is_empty(), "law 5: there must be something to wait for");
                if wait && at > self.now.plus_nanos(1) {
                    let early = self.now.plus_nanos(at.nanos_since(self.now) - 1);
                    let next = self.q.dequeue(&mut self.world.cx(early), &mut self.gone);
                    assert!(matches!(next, Dequeued::NotBefore(t) if t <= at), "law 5: {next:?} before {at}");
                    self.settle();
                }
                if wait {
                    self.now = at;
                }
                wait
            }
            Dequeued::Empty => {
                assert!(self.q.is_empty(), "law 4: it is not empty");
                false
            }
        }
    }

    fn all(mut self) -> Sum {
        for step in 0..3_000 {
            let burst = if step % 1_000 < 500 { 3 } else { 1 };
            for _ in 0..self.rng.below(burst + 1) {
                self.enqueue();
            }
            for _ in 0..self.rng.below(3) {
                self.dequeue(false);
            }
            self.now = self.now.plus_nanos(self.rng.below(300_000));
            if step % 100 == 0 {
                let report = self.q.report();
                nested(&report);
                let used = report.details.iter().find(|d| d.name == "memory_used").map(|d| d.value.clone());
                let most = if self.kind.memory > 0 { self.kind.memory } else { u64::MAX };
                assert!(used.is_none_or(|used| used <= Value::Count(most)), "law 3: {report}");
            }
        }
        let mut steps = 0;
        while self.dequeue(true) {
            steps += 1;
            assert!(steps < 200_000, "law 4: it drains");
        }
        nested(&self.q.report());
        self.ledger.closed(&self.kind);
        assert!(self.ledger.dequeued.segs > 100, "the run shows something");
        self.ledger.dequeued
    }

    /// Another discipline takes over in the midst.
    fn replaced(mut self) {
        for _ in 0..200 {
            self.enqueue();
        }
        let (waiting, backlog) = (self.q.stats().qlen, self.q.stats().backlog);
        let (mut taken, mut last) = (Sum::default(), BTreeMap::new());
        while let Some(packet) = self.q.take() {
            taken.add(&packet);
            self.ledger.end(&self.kind, &packet);
            packet.owner.into_iter().for_each(|owner| self.ledger.back(owner));
            let (number, from) = part(&packet);
            let before = last.insert(self.ledger.made[number as usize].flow, (number, from));
            let in_order = before.is_none_or(|before| before < (number, from));
            assert!(self.kind.disorders || in_order, "law 2, taken");
        }
        assert_eq!((taken.packets, taken.bytes), (waiting, backlog), "law 1, taken");
        assert_eq!((self.q.stats().qlen, self.q.stats().backlog), (0, 0), "law 7, taken");
        self.ledger.closed(&self.kind);
    }
}

/// Packets and super-packets; what each has passed on.
fn obeys(spec: &str, kind: Kind) -> Sum {
    obeys_in(&|| (spec.parse().expect(spec), World::new()), kind)
}

fn obeys_in(make: &dyn Fn() -> (Any, World), kind: Kind) -> Sum {
    let mut left = Sum::default();
    for run in (0..12).map(|i| (i / 2, i % 2 == 1)) {
        let (q, world) = make();
        let one = Run::new(q, world, kind, run).all();
        (left.packets, left.segs) = (left.packets + one.packets, left.segs + one.segs);
        let (q, world) = make();
        Run::new(q, world, kind, run).replaced();
    }
    left
}
