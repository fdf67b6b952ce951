//! The laws of the module's header, run over every discipline: one line per implementor.
use super::look::Size;
use super::*;
use crate::base::sysctl::QdiscKind;
use crate::base::testing::World;
use crate::base::{FlowId, Rng, SocketId};
use crate::packet::{Csum, Head, Offload, Owner};
use bytes::Bytes;
use lowwater_wire::{ipv4, protocol, tcp};
use std::collections::BTreeMap;

/// A TCP packet of `flow` with a number in its sequence field; `at` is its departure time.
pub(crate) fn packet(flow: u16, number: u32, len: usize, at: Instant) -> Packet {
    let mut head = Head::new();
    let repr = tcp::TcpRepr {
        src_port: 1_000,
        dst_port: flow,
        seq: number,
        ack: 0,
        flags: tcp::TcpFlags::ACK,
        window: 0,
        urgent: 0,
        options: tcp::TcpOptions::EMPTY,
    };
    repr.emit(head.prepend(repr.buffer_len()));
    let ip = ipv4::Ipv4Repr {
        tos: 2,
        ident: 1,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: protocol::TCP,
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
        payload_len: (head.len() + len) as u16,
    };
    ip.emit(head.prepend(ipv4::HEADER_LEN));
    let owner = Some(Owner { flow: flow_id(flow), charge: number + 1 });
    let offload = Offload { csum: Csum::None, ..Offload::default() };
    Packet { head, payload: Bytes::from(vec![7; len]), offload, owner, at }
}

fn flow_id(flow: u16) -> FlowId {
    FlowId::of(SocketId::from(slotmap::KeyData::from_ffi(1 << 32 | (u64::from(flow) + 1))))
}

/// Port and number of a packet made by [`packet`].
pub(crate) fn label(packet: &Packet) -> (u16, u32) {
    let head = packet.head.as_slice();
    (u16::from_be_bytes([head[22], head[23]]), u32::from_be_bytes([head[24], head[25], head[26], head[27]]))
}

/// What the laws expect of one discipline beyond what all do.
#[derive(Clone, Copy, Default)]
pub(super) struct Kind {
    /// Most packets that may wait; 0 where only the bytes are bounded.
    pub(super) packets: u64,
    /// Most bytes that may wait; 0 where only the packets are bounded.
    pub(super) bytes: u64,
    /// Packets of one flow may overtake each other, come twice, and leave without their owner.
    pub(super) emulates: bool,
}

/// Everything that went in and out.
#[derive(Default)]
struct Ledger {
    /// Charges that have not come back, by the packet's number.
    credit: BTreeMap<u32, Owner>,
    /// The number of each flow's last packet that left.
    last: BTreeMap<u16, u32>,
    enqueued: (u64, u64),
    dequeued: (u64, u64, u64),
    gone: (u64, u64),
    refused: u64,
}

impl Ledger {
    fn back(&mut self, owner: Owner) {
        assert_eq!(self.credit.remove(&(owner.charge - 1)), Some(owner), "law 6: once");
    }

    fn gone(&mut self, gone: &mut Gone) {
        for owner in gone.released.drain(..) {
            self.back(owner);
        }
        for (packet, fate) in gone.packets.drain(..) {
            let size = Size::of(&packet);
            self.gone.0 += 1;
            self.gone.1 += u64::from(size.len);
            self.refused += u64::from(fate == Fate::Refused);
            match packet.owner {
                Some(owner) => self.back(owner),
                None => assert!(fate == Fate::Lost || !self.credit.contains_key(&label(&packet).1), "law 6"),
            }
        }
    }

    fn left(&mut self, kind: &Kind, packet: &Packet, now: Instant, honours: bool) {
        let (size, (flow, number)) = (Size::of(packet), label(packet));
        self.dequeued.0 += 1;
        self.dequeued.1 += u64::from(size.len);
        self.dequeued.2 += u64::from(size.segs);
        if let Some(owner) = packet.owner {
            self.back(owner);
        }
        if !kind.emulates {
            let last = self.last.insert(flow, number);
            assert!(last.is_none_or(|last| last < number), "law 2: {number} of {flow} after {last:?}");
        }
        assert!(!honours || packet.at <= now, "law 5: not before its time");
    }

    fn adds_up(&self, q: &dyn Qdisc, kind: &Kind) {
        let (stats, mut queued) = (q.stats(), (0, 0));
        q.each(&mut |p| {
            queued.0 += 1;
            queued.1 += u64::from(Size::of(p).len);
        });
        assert_eq!((stats.qlen, stats.backlog), queued, "law 7: what waits");
        assert_eq!((stats.bytes, stats.packets), (self.dequeued.1, self.dequeued.2), "law 7: what left");
        assert_eq!(stats.drops, self.gone.0, "law 7: what was given up");
        if !kind.emulates {
            assert_eq!(self.enqueued.0, self.dequeued.0 + self.gone.0 + queued.0, "law 1: packets");
            assert_eq!(self.enqueued.1, self.dequeued.1 + self.gone.1 + queued.1, "law 1: bytes");
        }
        assert!(kind.packets == 0 || stats.qlen <= kind.packets, "law 3: {} packets", stats.qlen);
        assert!(kind.bytes == 0 || stats.backlog <= kind.bytes, "law 3: {} bytes", stats.backlog);
        assert_eq!(q.is_empty(), queued.0 == 0);
    }
}

struct Run {
    world: World,
    rng: Rng,
    q: Any,
    kind: Kind,
    ledger: Ledger,
    gone: Gone,
    now: Instant,
    number: u32,
    /// Last departure time of each flow.
    stamps: [Instant; 8],
}

impl Run {
    fn new(spec: &str, kind: Kind, seed: u64) -> Self {
        let mut world = World::new();
        world.rng = Rng::new(seed);
        let mut q: Any = spec.parse().expect(spec);
        q.attach(&mut world.cx(Instant::from_millis(1)), &LinkFacts::ip(1_500));
        Self {
            world,
            rng: Rng::new(seed ^ 99),
            q,
            kind,
            ledger: Ledger::default(),
            gone: Gone::default(),
            now: Instant::from_millis(1),
            number: 0,
            stamps: [Instant::ZERO; 8],
        }
    }

    fn enqueue(&mut self) {
        let flow = self.rng.below(8) as u16;
        self.number += 1;
        // Departure times of a flow never run backwards, as a transport makes them.
        let ahead = if flow < 4 { 0 } else { self.rng.below(400_000) };
        let at = self.now.plus_nanos(ahead).max(self.stamps[usize::from(flow)]);
        self.stamps[usize::from(flow)] = at;
        let mut packet = packet(flow, self.number, self.rng.below(1_400) as usize, at);
        if flow == 7 && self.number.is_multiple_of(3) {
            packet.owner = None;
        }
        if let Some(owner) = packet.owner {
            self.ledger.credit.insert(self.number, owner);
        }
        self.ledger.enqueued.0 += 1;
        self.ledger.enqueued.1 += u64::from(Size::of(&packet).len);
        self.q.enqueue(&mut self.world.cx(self.now), packet, &mut self.gone);
        self.settle();
    }

    fn settle(&mut self) {
        self.ledger.gone(&mut self.gone);
        self.ledger.adds_up(&self.q, &self.kind);
    }

    /// True when a packet left or the time has moved on.
    fn dequeue(&mut self, wait: bool) -> bool {
        let next = self.q.dequeue(&mut self.world.cx(self.now), &mut self.gone);
        if let Dequeued::Packet(packet) = &next {
            self.ledger.left(&self.kind, packet, self.now, self.q.honours_departure());
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

    fn all(&mut self) {
        for step in 0..3_000 {
            let burst = if step % 1_000 < 500 { 3 } else { 1 };
            for _ in 0..self.rng.below(burst + 1) {
                self.enqueue();
            }
            for _ in 0..self.rng.below(3) {
                self.dequeue(false);
            }
            self.now = self.now.plus_nanos(self.rng.below(300_000));
        }
        let mut steps = 0;
        while self.dequeue(true) {
            steps += 1;
            assert!(steps < 100_000, "law 4: it drains");
        }
        assert!(self.ledger.credit.is_empty(), "law 6: every one: {:?}", self.ledger.credit);
        assert!(self.ledger.dequeued.0 > 100, "the run shows something");
    }

    /// Another discipline takes over in the midst.
    fn replaced(&mut self) {
        for _ in 0..200 {
            self.enqueue();
        }
        let (waiting, backlog) = (self.q.stats().qlen, self.q.stats().backlog);
        let (mut taken, mut bytes, mut last) = (0, 0, BTreeMap::new());
        while let Some(packet) = self.q.take() {
            taken += 1;
            bytes += u64::from(Size::of(&packet).len);
            if let Some(owner) = packet.owner {
                self.ledger.back(owner);
            }
            let (flow, number) = label(&packet);
            let before = last.insert(flow, number);
            assert!(self.kind.emulates || before.is_none_or(|b| b < number), "law 2, taken");
        }
        assert_eq!((taken, bytes), (waiting, backlog), "law 1, taken");
        assert_eq!((self.q.stats().qlen, self.q.stats().backlog), (0, 0), "law 7, taken");
        assert!(self.ledger.credit.is_empty(), "law 6, taken");
    }
}

fn obeys(spec: &str, kind: Kind) {
    for seed in 0..6 {
        Run::new(spec, kind, seed).all();
        Run::new(spec, kind, seed).replaced();
    }
}

#[test]
fn fifos_obey() {
    obeys("pfifo limit 30", Kind { packets: 30, ..Kind::default() });
    obeys("bfifo limit 20kb", Kind { bytes: 20 << 10, ..Kind::default() });
}

#[test]
fn fq_obeys() {
    obeys("fq limit 40 flow_limit 10", Kind { packets: 40, ..Kind::default() });
    obeys("fq maxrate 4mbit limit 40", Kind { packets: 40, ..Kind::default() });
    obeys("fq maxrate 300kbit limit 40", Kind { packets: 40, ..Kind::default() });
    obeys("fq maxrate 80mbit nopacing", Kind { packets: 10_000, ..Kind::default() });
    obeys("fq horizon 10us horizon_cap ce_threshold 1ms", Kind { packets: 10_000, ..Kind::default() });
    obeys("fq horizon 10us horizon_drop", Kind { packets: 10_000, ..Kind::default() });
}

#[test]
fn those_that_refuse_at_the_door_obey() {
    obeys("noqueue", Kind { packets: 256, ..Kind::default() });
    obeys("pfifo_fast", Kind { packets: 1_000, ..Kind::default() });
    obeys("mq queues 3", Kind { packets: 3_000, ..Kind::default() });
    obeys("tbf rate 5mbit burst 5kb limit 30kb", Kind { bytes: 30 << 10, ..Kind::default() });
    obeys(
        "tbf rate 5mbit burst 9kb latency 20ms peakrate 8mbit mtu 1500",
        Kind { bytes: 22_000, ..Kind::default() },
    );
    for kind in QdiscKind::ALL {
        let most = if kind == QdiscKind::Noqueue { 256 } else { 0 };
        obeys(kind.name(), Kind { packets: most, emulates: kind == QdiscKind::Netem, ..Kind::default() });
    }
    for child in
        ["pfifo limit 20", "fq limit 20", "pfifo_fast", "tbf rate 4mbit burst 3kb limit 10kb child fq_codel"]
    {
        obeys(&format!("tbf rate 5mbit burst 5kb child {child}"), Kind::default());
    }
}

#[test]
fn those_that_judge_what_they_have_taken_obey() {
    let most = |packets| Kind { packets, ..Kind::default() };
    obeys("codel limit 50 target 100us interval 2ms", most(50));
    obeys("codel limit 50 target 100us interval 2ms ecn ce_threshold 300us", most(50));
    obeys("fq_codel limit 50 target 100us interval 2ms noecn", most(50));
    obeys("fq_codel flows 2 limit 50 drop_batch 5 quantum 300", most(50));
    obeys("fq_codel memory_limit 30kb", Kind { bytes: 30 << 10, ..Kind::default() });
}

#[test]
fn netem_obeys() {
    let kind = Kind { packets: 1_000, emulates: true, ..Kind::default() };
    for spec in [
        "netem",
        "netem delay 2ms",
        "netem delay 2ms 1ms 25% distribution normal loss 10% 25%",
        "netem delay 1ms 500us distribution pareto duplicate 10% corrupt 10%",
        "netem delay 1ms reorder 25% 50% gap 5",
        "netem rate 20mbit 20 48 5 loss gemodel 5% 20% 80% 1%",
        "netem loss state 5% 50% 10% 50% 1% ecn",
        "netem slot 1ms 3ms packets 4",
        "netem delay 2ms reorder 20% duplicate 5% child fq_codel",
        "netem delay 2ms 1ms child tbf rate 5mbit burst 5kb limit 9kb",
        "netem delay 1ms slot distribution normal 1ms 300us bytes 5000",
    ] {
        obeys(spec, kind);
    }
    obeys("netem limit 20 rate 10mbit", Kind { packets: 20, ..kind });
}
