//! `tbf`: rate, bucket, peak, and super-packets larger than the bucket.
use super::super::Any;
use super::super::law::{label, packet};
use super::*;
use crate::base::testing::World;
use crate::packet::GsoKind;

struct Rig {
    world: World,
    q: Tbf,
    gone: Gone,
    now: Instant,
}

const START: Instant = Instant::from_millis(10);

impl Rig {
    fn new(spec: &str) -> Self {
        let Ok(Any::Tbf(mut q)) = spec.parse() else { panic!("{spec} is tbf") };
        let mut world = World::new();
        q.attach(&mut world.cx(START), &LinkFacts::ip(1_500));
        Self { world, q, gone: Gone::default(), now: START }
    }

    fn add(&mut self, number: u32, len: usize) {
        let packet = packet(1, number, len, START);
        self.q.enqueue(&mut self.world.cx(self.now), packet, &mut self.gone);
    }

    /// When each packet leaves, in microseconds, and its length.
    fn drain(&mut self) -> Vec<(u64, usize)> {
        let mut left = Vec::new();
        loop {
            match self.q.dequeue(&mut self.world.cx(self.now), &mut self.gone) {
                Dequeued::Packet(p) => left.push((self.now.nanos_since(START) / 1_000, p.len())),
                Dequeued::NotBefore(at) => self.now = at,
                Dequeued::Empty => return left,
            }
        }
    }
}

#[test]
fn the_bucket_goes_at_once_and_the_rest_at_the_rate() {
    let mut rig = Rig::new("tbf rate 12mbit burst 4500 limit 100kb");
    (0..13).for_each(|number| rig.add(number, 1_460));
    let left: Vec<u64> = rig.drain().iter().map(|l| l.0).collect();
    assert_eq!(left, [0, 0, 0, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000, 9_000, 10_000]);
    // What is not used is saved up, as far as the bucket goes.
    rig.now = START.plus_nanos(1_000_000_000);
    (0..5).for_each(|number| rig.add(number, 1_460));
    let left: Vec<u64> = rig.drain().iter().map(|l| l.0).collect();
    assert_eq!(left, [1_000_000, 1_000_000, 1_000_000, 1_001_000, 1_002_000]);
    assert!(rig.q.stats.overlimits >= 10);
}

#[test]
fn the_peak_spreads_the_bucket() {
    let mut rig = Rig::new("tbf rate 12mbit burst 4500 limit 100kb peakrate 24mbit mtu 1500");
    (0..6).for_each(|number| rig.add(number, 1_460));
    let left: Vec<u64> = rig.drain().iter().map(|l| l.0).collect();
    assert_eq!(left, [0, 500, 1_000, 1_500, 2_000, 3_000]);
}

#[test]
fn a_super_packet_larger_than_the_bucket_is_cut_and_one_that_cannot_be_is_refused() {
    let mut rig = Rig::new("tbf rate 12mbit burst 4500 limit 100kb");
    let mut big = packet(1, 0, 10_000, START);
    (big.offload.gso, big.offload.gso_size) = (GsoKind::Tcp4, 1_460);
    let owner = big.owner.expect("one");
    rig.q.enqueue(&mut rig.world.cx(START), big, &mut rig.gone);
    let mut owners = Vec::new();
    rig.q.each(&mut |p| owners.extend(p.owner));
    assert_eq!(owners, owner.cut(7, 6 * PACKET_CHARGE).collect::<Vec<_>>(), "each has its share");
    assert_eq!(core::mem::take(&mut rig.gone.grown), [(owner, 6 * PACKET_CHARGE)]);
    assert_eq!(rig.drain().len(), 7);
    let mut fits = packet(1, 0, 4_000, START);
    (fits.offload.gso, fits.offload.gso_size) = (GsoKind::Tcp4, 1_460);
    rig.q.enqueue(&mut rig.world.cx(rig.now), fits, &mut rig.gone);
    assert_eq!(rig.q.stats.qlen, 1, "one that fits stays whole");
    rig.add(1, 5_000);
    assert_eq!(rig.gone.packets.len(), 1);
    // Cutting it would not help: one packet is given up, not each segment.
    let mut rig = Rig::new("tbf rate 12mbit burst 1000 limit 100kb");
    let mut big = packet(1, 0, 10_000, START);
    (big.offload.gso, big.offload.gso_size) = (GsoKind::Tcp4, 1_460);
    rig.q.enqueue(&mut rig.world.cx(START), big, &mut rig.gone);
    assert_eq!((rig.gone.packets.len(), rig.q.stats.drops), (1, 1));
}

#[test]
fn a_discipline_inside_decides_who_goes_and_who_must_go() {
    let mut rig = Rig::new("tbf rate 12mbit burst 1500 child fq quantum 1500 initial_quantum 1500 limit 4");
    for (flow, number) in [(1, 0), (1, 1), (1, 2), (2, 3), (2, 4)] {
        let packet = packet(flow, number, 1_460, START);
        rig.q.enqueue(&mut rig.world.cx(START), packet, &mut rig.gone);
    }
    assert_eq!((rig.gone.packets.len(), rig.q.stats.drops, rig.q.stats.qlen), (1, 1, 4));
    assert!(rig.q.honours_departure(), "fq keeps departure times in there too");
    let mut order = Vec::new();
    loop {
        match rig.q.dequeue(&mut rig.world.cx(rig.now), &mut rig.gone) {
            Dequeued::Packet(p) => order.push((rig.now.nanos_since(START) / 1_000, label(&p).1)),
            Dequeued::NotBefore(at) => rig.now = at,
            Dequeued::Empty => break,
        }
    }
    assert_eq!(order, [(0, 0), (1_000, 3), (2_000, 1), (3_000, 2)]);
    let report = rig.q.report();
    assert_eq!((report.children[0].kind, report.children[0].stats.drops), ("fq", 1));
    assert_eq!((report.stats.packets, report.stats.qlen, report.stats.backlog), (4, 0, 0));
}

#[test]
fn latency_says_how_much_may_wait() {
    let mut rig = Rig::new("tbf rate 12mbit burst 3000 latency 10ms");
    (0..30).for_each(|number| rig.add(number, 1_460));
    let last = rig.drain().last().map(|l| l.0);
    assert_eq!((last, rig.gone.packets.len()), (Some(10_000), 18), "15000 bytes at the rate, and the bucket");
}

#[test]
fn the_peak_rate_shortens_the_queue_for_a_latency() {
    let mut rig = Rig::new("tbf rate 1mbit burst 100kb latency 10ms peakrate 2mbit mtu 1540");
    // 2,500 bytes in 10 ms at the peak rate, and the 1,540 of its bucket; the rate alone would allow a hundred thousand.
    (0..10).for_each(|number| rig.add(number, 960));
    assert_eq!((rig.q.stats.qlen, rig.gone.packets.len()), (4, 6));
    let shown: Vec<String> = rig.q.report().options.iter().map(ToString::to_string).collect();
    assert_eq!(shown[2..], ["peakrate 2Mbit", "minburst 1540b", "lat 10ms"]);
}
