//! `fq`: fairness, departure times, rates, horizon, and what is remembered of idle flows.
use super::super::law::{label, packet};
use super::super::{Any, LinkFacts};
use super::*;
use crate::base::testing::World;
use lowwater_wire::protocol;

struct Rig {
    world: World,
    q: Fq,
    gone: Gone,
    now: Instant,
}

const START: Instant = Instant::from_millis(10);

impl Rig {
    fn new(spec: &str) -> Self {
        let Ok(Any::Fq(mut q)) = spec.parse() else { panic!("{spec} is fq") };
        let mut world = World::new();
        q.attach(&mut world.cx(START), &LinkFacts::ip(1_500));
        Self { world, q, gone: Gone::default(), now: START }
    }

    fn add(&mut self, flow: u16, number: u32, at: Instant) {
        let packet = packet(flow, number, 1_460, at);
        self.q.enqueue(&mut self.world.cx(self.now), packet, &mut self.gone);
    }

    fn next(&mut self) -> Dequeued {
        self.q.dequeue(&mut self.world.cx(self.now), &mut self.gone)
    }

    /// When each packet leaves, if the driver wakes when told.
    fn drain(&mut self) -> Vec<(u64, u16, u32)> {
        let mut left = Vec::new();
        loop {
            match self.next() {
                Dequeued::Packet(p) => {
                    left.push((self.now.nanos_since(START) / 1_000, label(&p).0, label(&p).1));
                }
                Dequeued::NotBefore(at) => self.now = at,
                Dequeued::Empty => return left,
            }
        }
    }
}

#[test]
fn flows_take_turns_of_a_quantum_and_new_ones_have_ten_frames() {
    let mut rig = Rig::new("fq");
    for number in 0..20 {
        rig.add(1, number, START);
        rig.add(2, number, START);
    }
    let flows: Vec<u16> = rig.drain().iter().map(|l| l.1).collect();
    assert_eq!(flows[..10], [1; 10], "15000 bytes are ten packets of 1500");
    assert_eq!(flows[10..20], [2; 10]);
    assert_eq!(flows[20..], [1, 1, 2, 2].repeat(5), "then two frames each");
}

#[test]
fn a_sparse_flow_does_not_wait_behind_a_backlog() {
    let mut rig = Rig::new("fq");
    for number in 0..60 {
        rig.add(1, number, START);
    }
    for _ in 0..20 {
        rig.next();
    }
    rig.add(2, 0, START);
    assert!(matches!(rig.next(), Dequeued::Packet(p) if label(&p).0 == 2));
}

#[test]
fn departure_times_are_honoured_and_an_earlier_one_goes_first() {
    let mut rig = Rig::new("fq");
    let at = |us: u64| START.plus_nanos(us * 1_000);
    rig.add(1, 0, at(300));
    rig.add(1, 1, at(500));
    rig.add(1, 2, at(100));
    rig.add(2, 3, at(0));
    assert_eq!(rig.drain(), [(0, 2, 3), (100, 1, 2), (300, 1, 0), (500, 1, 1)]);
    assert_eq!(rig.q.own.throttled, 3);
}

#[test]
fn the_horizon_drops_or_cuts() {
    for (spec, left, gone) in [("fq horizon 1ms", 0, 1), ("fq horizon 1ms horizon_cap", 1, 0)] {
        let mut rig = Rig::new(spec);
        rig.add(1, 0, START.plus_nanos(5_000_000));
        assert_eq!((rig.gone.packets.len(), rig.drain().len()), (gone, left));
        assert_eq!((rig.q.own.horizon_drops, rig.q.own.horizon_caps), (gone as u64, left as u64));
        assert_eq!(rig.now, START.plus_nanos(left as u64 * 1_000_000));
    }
}

#[test]
fn a_flow_keeps_its_rate_and_late_wake_ups_are_made_good() {
    let mut rig = Rig::new("fq maxrate 12mbit initial_quantum 1500 quantum 1500");
    for number in 0..51 {
        rig.add(1, number, START);
    }
    let left = rig.drain();
    assert_eq!(left.last().map(|l| l.0), Some(50_000), "a packet of 1500 bytes each millisecond: {left:?}");
    // The driver is 200 us late every time.
    let mut rig = Rig::new("fq maxrate 12mbit initial_quantum 1500 quantum 1500");
    for number in 0..51 {
        rig.add(1, number, START);
    }
    loop {
        match rig.next() {
            Dequeued::Packet(_) => {}
            Dequeued::NotBefore(at) => rig.now = at.plus_nanos(200_000),
            Dequeued::Empty => break,
        }
    }
    let late = rig.now.nanos_since(START) / 1_000;
    assert!((50_000..50_500).contains(&late), "{late} us");
    assert!(rig.q.own.latency > 100_000, "and it shows: {} ns", rig.q.own.latency);
}

#[test]
fn a_rate_spaces_what_has_a_departure_time_and_lets_the_rest_go_by_turns() {
    let times = |protocol: u8| {
        let mut rig = Rig::new("fq maxrate 12mbit initial_quantum 6000 quantum 3000");
        for number in 0..8 {
            let mut packet = packet(1, number, 1_460, START);
            packet.head.as_mut_slice()[9] = protocol;
            rig.q.enqueue(&mut rig.world.cx(START), packet, &mut rig.gone);
        }
        rig.drain().iter().map(|l| l.0 / 1_000).collect::<Vec<_>>()
    };
    assert_eq!(times(protocol::TCP), [0, 1, 2, 3, 4, 5, 6, 7], "as each would leave by the rate alone");
    assert_eq!(
        times(protocol::UDP),
        [0, 0, 0, 0, 2, 2, 4, 4],
        "each turn uses up its credit, then waits for it"
    );
}

#[test]
fn a_turn_has_no_fewer_bytes_than_a_loop_can_bear() {
    for spec in ["fq quantum 1", "fq_codel quantum 1"] {
        let report = spec.parse::<Any>().expect(spec).report();
        let quantum = report.options.iter().find(|f| f.name == "quantum").map(ToString::to_string);
        assert!(quantum.is_some_and(|q| q.starts_with("quantum 256")), "{spec}");
    }
    for spec in ["fq quantum 0", "fq_codel quantum 2000000"] {
        assert!(spec.parse::<Any>().is_err_and(|e| e.contains("1 to 1048576 bytes")), "{spec}");
    }
}

#[test]
fn rates_hold_from_slow_to_fast() {
    for (spec, mbit) in
        [("100kbit", 0.1), ("1mbit", 1.0), ("48mbit", 48.0), ("1gbit", 1_000.0), ("40gbit", 40_000.0)]
    {
        let mut rig = Rig::new(&format!("fq maxrate {spec} flow_limit 10000"));
        for number in 0..2_000 {
            rig.add(1, number, START);
        }
        // The first turn is the initial quantum's.
        let left: Vec<_> = rig.drain().into_iter().filter(|l| l.2 >= 11).collect();
        let us = left[left.len() - 1].0 - left[0].0;
        let rate = (left.len() - 1) as f64 * 1_500.0 * 8.0 / us as f64;
        assert!((rate / mbit - 1.0).abs() < 0.005, "{rate} for {mbit}");
    }
}

#[test]
fn a_full_flow_leaves_room_for_others_and_priority_passes_by() {
    let mut rig = Rig::new("fq flow_limit 5 limit 8");
    for number in 0..7 {
        rig.add(1, number, START);
    }
    assert_eq!((rig.gone.packets.len(), rig.q.own.flows_plimit), (2, 2));
    for number in 0..5 {
        rig.add(2, number, START);
    }
    assert_eq!((rig.gone.packets.len(), rig.q.stats.qlen), (4, 8), "the limit of all");
    assert!(rig.gone.packets.iter().all(|(_, fate)| *fate == super::super::Fate::Refused));
}

#[test]
fn late_packets_are_marked() {
    let mut rig = Rig::new("fq ce_threshold 1ms");
    rig.add(1, 0, START);
    rig.add(1, 1, START);
    rig.now = START.plus_nanos(1_000_000);
    assert!(matches!(rig.next(), Dequeued::Packet(p) if p.head.as_slice()[1] == 2), "not later than that");
    rig.now = START.plus_nanos(1_000_001);
    assert!(matches!(rig.next(), Dequeued::Packet(p) if p.head.as_slice()[1] == 3));
    assert_eq!(rig.q.own.ce_mark, 1);
}

#[test]
fn idle_flows_are_forgotten_eight_at_a_time() {
    let mut rig = Rig::new("fq limit 100000 buckets 32");
    for flow in 0..100 {
        rig.add(flow, 0, START);
    }
    assert_eq!(rig.drain().len(), 100);
    assert_eq!((rig.q.flows.len(), rig.q.flows.inactive()), (100, 99), "the last one still has its turn");
    rig.now = START.plus_nanos(2_900_000_000);
    rig.add(200, 0, rig.now);
    assert_eq!(rig.q.own.gc, 0, "not yet");
    rig.now = START.plus_nanos(3_100_000_000);
    rig.add(201, 0, rig.now);
    rig.add(202, 0, rig.now);
    assert_eq!((rig.q.own.gc, rig.q.flows.len()), (16, 87));
    for flow in 300..400 {
        rig.add(flow, 0, rig.now);
    }
    assert!(rig.q.flows.slots() <= 203, "places serve again");
}

#[test]
fn nobodys_packets_share_queues_but_an_acknowledgement_stays_with_its_flow() {
    let mut rig = Rig::new("fq orphan_mask 0 initial_quantum 100000");
    let mut pure = packet(1, 7, 0, START);
    pure.owner = None;
    rig.add(1, 6, START);
    rig.q.enqueue(&mut rig.world.cx(START), pure, &mut rig.gone);
    assert_eq!(rig.q.flows.len(), 1);
    for flow in 1..50 {
        let mut reset = packet(flow, 1, 0, START);
        reset.owner = None;
        reset.head.as_mut_slice()[33] = 4;
        rig.q.enqueue(&mut rig.world.cx(START), reset, &mut rig.gone);
    }
    assert_eq!(rig.q.flows.len(), 2, "all resets in one queue");
}

#[test]
fn what_is_late_counts_also_where_nobody_can_hear_the_mark() {
    let mut rig = Rig::new("fq ce_threshold 1ms");
    let mut deaf = packet(1, 0, 1_460, START);
    deaf.head.as_mut_slice()[1] = 0;
    rig.q.enqueue(&mut rig.world.cx(START), deaf, &mut rig.gone);
    rig.now = START.plus_nanos(1_000_001);
    assert!(matches!(rig.next(), Dequeued::Packet(p) if p.head.as_slice()[1] == 0), "as it came");
    assert_eq!(rig.q.own.ce_mark, 1);
}

#[test]
fn zeros_that_linux_takes_mean_what_they_mean_there() {
    // No bytes to begin with: a new flow waits for its first turn. No threshold: every rate goes by turns.
    let mut rig = Rig::new("fq initial_quantum 0 low_rate_threshold 0 quantum 1500 maxrate 80kbit");
    (0..2).for_each(|number| rig.add(1, number, START));
    assert_eq!(rig.drain().iter().map(|l| l.2).collect::<Vec<_>>(), [0, 1]);
    let shown: Vec<String> = rig.q.report().options.iter().map(ToString::to_string).collect();
    assert!(shown.contains(&"initial_quantum 0b".to_owned()), "{shown:?}");
    assert!(shown.contains(&"buckets 1024".to_owned()), "{shown:?}");
    let odd: Any = "fq buckets 1000".parse().expect("a number");
    assert!(
        odd.report().options.iter().any(|f| f.to_string() == "buckets 1024"),
        "a power of two, as tc makes it"
    );
}

/// A peer that has us acknowledge while data waits for its time makes no more entries than there are flows.
#[test]
fn what_passes_by_a_packet_that_waits_leaves_nothing_behind() {
    let mut rig = Rig::new("fq");
    let far = START.plus_nanos(9_000_000_000);
    rig.add(1, 0, far);
    assert!(matches!(rig.next(), Dequeued::NotBefore(at) if at == far));
    for number in 1..10_000 {
        rig.now = rig.now.plus_nanos(100_000);
        rig.add(1, number, rig.now);
        let Dequeued::Packet(passes) = rig.next() else { panic!("it is due") };
        assert_eq!(label(&passes).1, number);
        assert!(matches!(rig.next(), Dequeued::NotBefore(at) if at == far));
        assert!(rig.q.throttled.entries() <= 66, "{}", rig.q.throttled.entries());
    }
    assert_eq!(rig.drain().len(), 1);
    assert_eq!((rig.q.throttled.len(), rig.q.throttled.entries()), (0, 0));
}
