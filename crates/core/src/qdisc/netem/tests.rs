//! `netem`: delays, rates, order, ownership, corruption.
use super::super::law::{label, packet};
use super::super::{Any, Fate};
use super::*;
use crate::base::testing::World;
use crate::packet::GsoKind;
use lowwater_wire::ipv4;

struct Rig {
    world: World,
    q: Netem,
    gone: Gone,
    now: Instant,
}

const START: Instant = Instant::from_millis(10);

impl Rig {
    fn new(spec: &str) -> Self {
        let Ok(Any::Netem(mut q)) = spec.parse() else { panic!("{spec} is netem") };
        let mut world = World::new();
        q.attach(&mut world.cx(START), &LinkFacts::ip(1_500));
        Self { world, q, gone: Gone::default(), now: START }
    }

    fn add(&mut self, numbers: core::ops::Range<u32>) {
        for number in numbers {
            let packet = packet(1, number, 1_460, self.now);
            self.q.enqueue(&mut self.world.cx(self.now), packet, &mut self.gone);
        }
    }

    /// When each packet leaves, in microseconds, and its number.
    fn drain(&mut self) -> Vec<(u64, u32)> {
        let mut left = Vec::new();
        loop {
            match self.q.dequeue(&mut self.world.cx(self.now), &mut self.gone) {
                Dequeued::Packet(p) => left.push((self.now.nanos_since(START) / 1_000, label(&p).1)),
                Dequeued::NotBefore(at) => self.now = at,
                Dequeued::Empty => return left,
            }
        }
    }
}

#[test]
fn what_is_delayed_has_left_its_owner_and_what_is_not_keeps_it() {
    for (spec, released) in
        [("netem delay 3ms", 4), ("netem rate 12mbit", 4), ("netem loss 0.1%", 0), ("netem", 0)]
    {
        let mut rig = Rig::new(spec);
        rig.add(0..4);
        assert_eq!(rig.gone.released.len(), released, "{spec}");
        assert_eq!(rig.drain().len(), 4);
    }
}

#[test]
fn loss_is_silent() {
    let mut rig = Rig::new("netem loss 100%");
    rig.add(0..3);
    assert_eq!((rig.gone.released.len(), rig.gone.packets.len(), rig.q.stats.drops), (3, 3, 3));
    assert!(rig.gone.packets.iter().all(|(p, fate)| *fate == Fate::Lost && p.owner.is_none()));
    let mut rig = Rig::new("netem loss 100% ecn");
    rig.add(0..3);
    assert_eq!(rig.drain().len(), 3, "those that hear marks get them instead");
}

#[test]
fn delay_keeps_the_spacing_and_a_rate_makes_it() {
    let mut rig = Rig::new("netem delay 5ms");
    rig.add(0..2);
    rig.now = START.plus_nanos(1_000_000);
    rig.add(2..3);
    assert_eq!(rig.drain(), [(5_000, 0), (5_000, 1), (6_000, 2)]);
    let mut rig = Rig::new("netem delay 5ms rate 12mbit");
    rig.add(0..3);
    assert_eq!(
        rig.drain(),
        [(6_000, 0), (7_000, 1), (8_000, 2)],
        "the delay is not added again for those behind"
    );
    // 1500 bytes in cells of 48 with 5 more each are 32 cells of 53.
    let mut rig = Rig::new("netem rate 13.568mbit 0 48 5");
    rig.add(0..2);
    assert_eq!(rig.drain(), [(1_000, 0), (2_000, 1)]);
}

#[test]
fn every_fifth_overtakes_the_others() {
    let mut rig = Rig::new("netem delay 5ms reorder 100% gap 5");
    rig.add(0..10);
    let order: Vec<u32> = rig.drain().iter().map(|l| l.1).collect();
    assert_eq!(order, [9, 4, 0, 1, 2, 3, 5, 6, 7, 8]);
    assert_eq!(rig.q.stats.requeues, 2);
}

#[test]
fn what_was_sent_ahead_leaves_first_the_latest_of_it_before() {
    let mut rig = Rig::new("netem delay 5ms reorder 100% gap 3");
    rig.add(0..3);
    // By now the first two are due, and still they are overtaken.
    rig.now = START.plus_nanos(6_000_000);
    rig.add(3..6);
    let order: Vec<u32> = rig.drain().iter().map(|l| l.1).collect();
    assert_eq!(order, [5, 2, 0, 1, 3, 4]);
    // Not even a slot holds them back.
    let mut rig = Rig::new("netem delay 5ms reorder 100% gap 2 slot 90ms packets 1");
    rig.add(0..2);
    assert_eq!(rig.drain(), [(0, 1), (90_000, 0)]);
}

#[test]
fn a_twin_comes_first_and_may_be_sent_ahead_itself() {
    let mut rig = Rig::new("netem delay 5ms duplicate 100% reorder 100% gap 2");
    rig.add(0..2);
    let mut owners = Vec::new();
    while let Dequeued::Packet(p) = rig.q.dequeue(&mut rig.world.cx(rig.now), &mut rig.gone) {
        owners.push(label(&p).1);
    }
    assert_eq!(owners, [1, 0], "each twin begins a gap that its packet ends");
    assert_eq!(rig.drain().iter().map(|l| l.1).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_twin_can_be_lost_like_any_packet() {
    let mut rig = Rig::new("netem loss 50% duplicate 100% limit 5000");
    rig.add(0..1_000);
    let (left, drops) = (rig.drain().len(), rig.q.stats.drops);
    // A twin stands in for its packet where that is lost, and meets the same chance where it is not.
    assert!((1_150..1_350).contains(&left) && (200..300).contains(&drops), "{left} {drops}");
}

#[test]
fn packets_that_arrive_go_to_the_discipline_inside() {
    let Ok(q) = "netem delay 5ms child pfifo limit 2".parse() else { panic!("it is one") };
    let Any::Netem(mut q) = q else { panic!("netem") };
    let (mut world, mut gone) = (World::new(), Gone::default());
    q.attach(&mut world.cx(START), &LinkFacts::ip(1_500));
    for number in 0..4 {
        q.enqueue(&mut world.cx(START), packet(1, number, 10, START), &mut gone);
    }
    assert!(matches!(q.dequeue(&mut world.cx(START), &mut gone), Dequeued::NotBefore(_)));
    let then = START.plus_nanos(5_000_000);
    assert!(matches!(q.dequeue(&mut world.cx(then), &mut gone), Dequeued::Packet(_)));
    assert_eq!((gone.packets.len(), q.stats.drops, q.stats.qlen), (2, 2, 1), "there was no room for two");
    let report = q.report();
    assert_eq!((report.children.len(), report.children[0].stats.drops), (1, 2));
}

#[test]
fn a_duplicate_comes_twice_with_one_owner() {
    let mut rig = Rig::new("netem duplicate 100%");
    rig.add(0..2);
    let mut owners = 0;
    rig.q.each(&mut |p| owners += usize::from(p.owner.is_some()));
    assert_eq!((owners, rig.drain().len()), (2, 4));
}

/// Linux asks for room before the twin goes in (`netem_enqueue`), so that one more than the limit may wait: 6.1.176 sends six of these too
/// (`LOWWATER_CASE=netem-duplicate-limit cargo test -p lowwater-uml --test qdisc`).
#[test]
fn a_twin_takes_the_last_place_and_its_packet_one_more() {
    let mut rig = Rig::new("netem delay 20ms duplicate 100% limit 5");
    rig.add(0..5);
    assert_eq!((rig.q.stats.qlen, rig.q.stats.drops), (6, 2));
}

/// Where some segments of a super-packet have gone in, its flow must not hear that the whole was refused.
#[test]
fn a_packet_of_which_a_part_was_taken_is_not_refused() {
    let mut rig = Rig::new("netem corrupt 100% limit 3");
    let mut big = packet(1, 1, 10_000, START);
    (big.offload.gso, big.offload.gso_size) = (GsoKind::Tcp4, 1_460);
    let owner = big.owner;
    rig.q.enqueue(&mut rig.world.cx(START), big, &mut rig.gone);
    assert!(owner.is_some() && rig.gone.packets.len() == 4, "{:?}", rig.gone.packets);
    assert!(rig.gone.packets.iter().all(|(p, fate)| p.owner.is_none() && *fate == Fate::Refused));
    assert_eq!((rig.gone.parts.as_slice(), rig.gone.released.len()), (owner.as_slice(), 0));
}

#[test]
fn one_bit_of_one_segment_is_flipped() {
    let mut rig = Rig::new("netem corrupt 100%");
    let whole = packet(1, 1, 1_460, START);
    let (head, payload) = (whole.head.as_slice().to_vec(), whole.payload.to_vec());
    rig.q.enqueue(&mut rig.world.cx(START), whole, &mut rig.gone);
    let mut bits = 0;
    rig.q.each(&mut |p| {
        let got = p.head.as_slice().iter().chain(&p.payload[..]);
        bits = head.iter().chain(&payload).zip(got).map(|(a, b)| (a ^ b).count_ones()).sum();
    });
    assert_eq!(bits, 1);
    let mut rig = Rig::new("netem corrupt 30%");
    for number in 0..20 {
        let mut big = packet(1, number, 10_000, START);
        (big.offload.gso, big.offload.gso_size) = (GsoKind::Tcp4, 1_460);
        rig.q.enqueue(&mut rig.world.cx(START), big, &mut rig.gone);
    }
    let (mut intact, mut cut) = (0, 0);
    rig.q.each(&mut |p| {
        let view = ipv4::Ipv4View::parse_quoted(p.head.as_slice());
        let whole = view.is_ok_and(|v| v.checksum_ok()) && p.payload.iter().all(|b| *b == 7);
        if p.offload.gso_size == 0 {
            (intact, cut) = (intact + u32::from(whole), cut + 1);
        }
    });
    // Those of the same super-packet arrive by themselves, and may be struck too.
    assert!(cut > 0 && cut % 7 == 0 && intact > cut / 3 && intact <= cut / 7 * 6, "{intact} of {cut}");
}

#[test]
fn slots_let_so_many_go_at_once() {
    let mut rig = Rig::new("netem slot 2ms packets 3");
    rig.now = START.plus_nanos(1_000_000);
    rig.add(0..7);
    let times: Vec<u64> = rig.drain().iter().map(|l| l.0).collect();
    assert_eq!(times, [3_000, 3_000, 3_000, 5_000, 5_000, 5_000, 7_000]);
    // A delay within the slot is part of it; a longer one has a slot of its own.
    for (spec, at) in [("netem delay 1ms slot 3ms", 4_000), ("netem delay 5ms slot 3ms", 9_000)] {
        let mut rig = Rig::new(spec);
        rig.now = START.plus_nanos(1_000_000);
        rig.add(0..1);
        assert_eq!(rig.drain(), [(at, 0)], "{spec}");
    }
}

#[test]
fn a_full_line_refuses_with_the_owner() {
    let mut rig = Rig::new("netem limit 2 delay 1ms");
    rig.add(0..3);
    assert!(matches!(&rig.gone.packets[..], [(p, Fate::Refused)] if p.owner.is_some()));
}

#[test]
fn slots_may_be_as_long_as_time_is() {
    let mut rig = Rig::new("netem slot 0ns 18446744073.709551615s");
    rig.now = START.plus_nanos(1);
    rig.add(0..2);
    assert!(matches!(rig.q.dequeue(&mut rig.world.cx(rig.now), &mut rig.gone), Dequeued::NotBefore(_)));
    assert!(rig.q.slots.next > START);
    assert_eq!(rig.q.stats().qlen, 2);
}
