//! The laws of the module's header, run over every device: one line per implementor.
use super::*;
use crate::base::id::{FlowId, SocketId};
use crate::base::{Instant, Rng};
use crate::packet::{Csum, GsoKind, Offload, Owner};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};

/// A device with its far side, which takes packets away.
trait Link {
    fn submit(&mut self, packet: Packet) -> Submit;
    fn completions(&mut self, into: &mut Vec<Owner>);
    /// The next packet leaves.
    fn leave(&mut self) -> Option<Packet>;
    /// It has told of room since the last question.
    fn told_room(&mut self) -> bool;
    /// It says "not now" only when it is full.
    fn is_steady(&self) -> bool {
        true
    }
}

struct PairLink(Pair);

impl Link for PairLink {
    fn submit(&mut self, packet: Packet) -> Submit {
        self.0.end(Side::A).submit(Instant::ZERO, packet)
    }
    fn completions(&mut self, into: &mut Vec<Owner>) {
        self.0.completions(Side::A, into);
    }
    fn leave(&mut self) -> Option<Packet> {
        self.0.take(Side::B, Instant::ZERO)
    }
    fn told_room(&mut self) -> bool {
        self.0.became_ready(Side::A)
    }
}

struct Owned(OwnedLink, bool);

impl Link for Owned {
    fn submit(&mut self, packet: Packet) -> Submit {
        self.0.submit(Instant::ZERO, packet)
    }
    fn completions(&mut self, into: &mut Vec<Owner>) {
        self.0.completions(into);
    }
    fn leave(&mut self) -> Option<Packet> {
        let (packet, credit) = self.0.pop_parts()?;
        self.1 |= self.0.complete(credit);
        Some(packet)
    }
    fn told_room(&mut self) -> bool {
        core::mem::take(&mut self.1)
    }
}

/// Refuses half the time and counts what an observer sees.
struct Wrapped {
    inner: Pair,
    rng: Rng,
    seen: u64,
}

impl Link for Wrapped {
    fn submit(&mut self, packet: Packet) -> Submit {
        let seen = &mut self.seen;
        let balky = Balky::half(self.inner.end(Side::A), Rng::new(self.rng.next_u64()));
        Observed::new(balky, |way, _: &Packet| *seen += u64::from(way == Direction::Out))
            .submit(Instant::ZERO, packet)
    }
    fn completions(&mut self, into: &mut Vec<Owner>) {
        self.inner.completions(Side::A, into);
    }
    fn leave(&mut self) -> Option<Packet> {
        self.inner.take(Side::B, Instant::ZERO)
    }
    fn told_room(&mut self) -> bool {
        self.inner.became_ready(Side::A)
    }
    fn is_steady(&self) -> bool {
        false
    }
}

fn flow(n: u64) -> FlowId {
    FlowId::of(SocketId::from(slotmap::KeyData::from_ffi(1 << 32 | n)))
}

/// A packet with a number in its head, whose owner is charged that number.
fn packet(n: u32, len: usize, owned: bool) -> Packet {
    let mut packet = Packet::received(Bytes::from(vec![n as u8; len]), Offload::default(), Instant::ZERO);
    packet.head.prepend(40)[..4].copy_from_slice(&n.to_be_bytes());
    packet.offload.csum = Csum::Partial { start: 20, offset: 16 };
    packet.owner = owned.then(|| Owner::new(flow(1), n));
    packet
}

fn number(packet: &Packet) -> u32 {
    u32::from_be_bytes(packet.head.as_slice()[..4].try_into().expect("four bytes"))
}

/// What was accepted and what has come of it.
#[derive(Default)]
struct Ledger {
    accepted: VecDeque<(u32, *const u8, Offload)>,
    /// Charges of packets that have left and are not completed.
    left: BTreeMap<u32, u32>,
    completed: u64,
    owned: u64,
}

impl Ledger {
    fn leave(&mut self, link: &mut dyn Link) -> bool {
        let Some(packet) = link.leave() else { return false };
        let (n, payload, offload) = self.accepted.pop_front().expect("law 3: only what was accepted leaves");
        assert_eq!(
            (number(&packet), packet.payload.as_ptr()),
            (n, payload),
            "law 4: in order, payload shared"
        );
        assert_eq!(packet.offload, offload, "law 4: offload state untouched");
        assert!(packet.owner.is_none(), "an owner means nothing on the far side");
        if n % 3 != 0 {
            *self.left.entry(n).or_default() += 1;
        }
        true
    }

    fn completions(&mut self, link: &mut dyn Link) {
        let mut done = Vec::new();
        link.completions(&mut done);
        for owner in done {
            assert_eq!(self.left.remove(&owner.charge), Some(1), "law 2: once, after it left");
            self.completed += 1;
        }
    }
}

fn obeys_the_laws(link: &mut dyn Link, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut ledger = Ledger::default();
    let (mut full, mut filled) = (false, 0);
    for n in 1..3_000_u32 {
        let owned = n % 3 != 0;
        let sent = packet(n, rng.below(1_400) as usize, owned);
        let (payload, offload, len) = (sent.payload.as_ptr(), sent.offload, sent.len());
        full &= !link.told_room();
        let answer = link.submit(sent);
        match (full, link.is_steady()) {
            (true, _) => assert!(matches!(answer, Submit::NotNow(_)), "law 6: it has not told of room"),
            (_, true) => assert!(!matches!(answer, Submit::NotNow(_)), "law 6: it said that there was room"),
            _ => {}
        }
        full |= matches!(answer, Submit::Filled);
        filled += u32::from(matches!(answer, Submit::Filled));
        match answer {
            Submit::Sent | Submit::Filled => {
                ledger.accepted.push_back((n, payload, offload));
                ledger.owned += u64::from(owned);
            }
            Submit::NotNow(back) => {
                assert_eq!((number(&back), back.payload.as_ptr(), back.len()), (n, payload, len), "law 1");
                assert_eq!(
                    (back.owner.map(|o| o.charge), back.offload),
                    (owned.then_some(n), offload),
                    "law 1"
                );
            }
            Submit::Completed => panic!("a queue in memory completes later"),
            Submit::Dropped => panic!("dropped a packet that fits"),
        }
        assert!(ledger.accepted.len() <= QueueLimit::default().packets, "law 5");
        if rng.below(4) == 0 {
            for _ in 0..rng.below(8) {
                ledger.leave(link);
            }
        }
        if rng.below(4) == 0 {
            ledger.completions(link);
        }
    }
    assert!(filled > 10 || !link.is_steady(), "{filled}");
    while ledger.leave(link) {}
    ledger.completions(link);
    assert!(ledger.accepted.is_empty() && ledger.left.is_empty());
    assert_eq!(ledger.completed, ledger.owned, "law 2: every one");
    assert!(
        (0..64).any(|_| matches!(link.submit(packet(1, 100, false)), Submit::Sent | Submit::Filled)),
        "law 1: a device that refused accepts again"
    );
    let big = link.submit(packet(1, 70_000, true));
    assert!(matches!(big, Submit::Dropped | Submit::NotNow(_)));
    while let Some(packet) = link.leave() {
        assert!(packet.len() < 70_000, "law 3");
    }
    let mut done = Vec::new();
    link.completions(&mut done);
    assert_eq!(done, [], "law 3");
}

fn limits() -> QueueLimit {
    QueueLimit { packets: 32, bytes: 16_000 }
}

#[test]
fn pair_obeys() {
    for seed in 0..20 {
        obeys_the_laws(&mut PairLink(Pair::new(1_500, limits())), seed);
    }
}

#[test]
fn owned_obeys() {
    for seed in 0..20 {
        obeys_the_laws(&mut Owned(OwnedLink::new(1_500, limits()), false), seed);
    }
}

#[test]
fn wrappers_obey() {
    for seed in 0..20 {
        let mut link = Wrapped { inner: Pair::new(1_500, limits()), rng: Rng::new(seed), seen: 0 };
        obeys_the_laws(&mut link, seed);
        assert!(link.seen > 100);
    }
}

#[test]
fn a_popped_packet_counts_until_its_credit_comes_back() {
    let mut link = OwnedLink::new(1_500, QueueLimit { packets: 1, bytes: 1 });
    assert!(
        matches!(link.submit(Instant::ZERO, packet(7, 1_000, true)), Submit::Filled),
        "one packet always fits"
    );
    let OwnedPacket { bytes, credit, .. } = link.pop().expect("a packet");
    assert_eq!((bytes.len(), link.waiting(), link.outstanding()), (1_040, 0, (1, 1_040)));
    let mut done = Vec::new();
    link.completions(&mut done);
    assert_eq!(done, []);
    let Submit::NotNow(second) = link.submit(Instant::ZERO, packet(8, 10, true)) else {
        panic!("no credit, no room")
    };
    assert!(link.complete(credit), "the link was full, and the stack must hear of the room");
    link.completions(&mut done);
    assert_eq!(done, [Owner::new(flow(1), 7)]);
    assert!(matches!(link.submit(Instant::ZERO, second), Submit::Filled));
}

#[test]
fn super_packets_pass_only_where_the_device_takes_them() {
    let caps = DeviceCaps { ethernet: Some([2; 6]), ..DeviceCaps::offloading(1_500) };
    let mut large = packet(1, 60_000, false);
    assert!(!caps.carries(&large));
    (large.offload.gso, large.offload.gso_size) = (GsoKind::Tcp4, 1_448);
    assert!(caps.carries(&large));
    assert!(!DeviceCaps::plain(1_500).carries(&large));
    // The link header does not count: 1514 bytes of frame are 1500 of IP.
    assert!(caps.carries(&packet(1, 1_474, false)));
    assert!(!caps.carries(&packet(1, 1_475, false)));
}

#[test]
fn a_pair_tells_once_that_there_is_room_again() {
    let mut pair = Pair::new(1_500, QueueLimit { packets: 1, bytes: 10_000 });
    assert!(matches!(pair.end(Side::A).submit(Instant::ZERO, packet(1, 10, false)), Submit::Filled));
    assert!(matches!(pair.end(Side::A).submit(Instant::ZERO, packet(2, 10, false)), Submit::NotNow(_)));
    assert!(!pair.became_ready(Side::A));
    let at = Instant::from_millis(7);
    assert_eq!(pair.take(Side::B, at).map(|p| (number(&p), p.at)), Some((1, at)));
    assert!(pair.became_ready(Side::A) && !pair.became_ready(Side::A));
    assert_eq!(pair.take(Side::A, at).map(|p| number(&p)), None);
}
