//! CoDel: it leaves short queues alone, ends standing ones, and marks where it can.
use super::super::law::packet;
use super::super::{Any, Fate};
use super::*;
use crate::base::testing::World;

struct Rig {
    world: World,
    q: Codel,
    gone: Gone,
    now: Instant,
    number: u32,
}

impl Rig {
    fn new(spec: &str) -> Self {
        let Ok(Any::Codel(mut q)) = spec.parse() else { panic!("{spec} is codel") };
        let (mut world, now) = (World::new(), Instant::from_millis(10));
        q.attach(&mut world.cx(now), &LinkFacts::ip(1_500));
        Self { world, q, gone: Gone::default(), now, number: 0 }
    }

    fn add(&mut self) {
        self.number += 1;
        let packet = packet(1, self.number, 1_000, self.now);
        self.q.enqueue(&mut self.world.cx(self.now), packet, &mut self.gone);
    }

    fn next(&mut self) -> Option<Packet> {
        match self.q.dequeue(&mut self.world.cx(self.now), &mut self.gone) {
            Dequeued::Packet(packet) => Some(packet),
            _ => None,
        }
    }

    /// `ms` milliseconds in which one packet comes and one leaves, `behind` of them waiting all the time.
    fn steady(&mut self, ms: u64, behind: u32) -> u64 {
        while self.q.stats.qlen < u64::from(behind) {
            self.add();
        }
        let drops = self.q.stats.drops;
        for _ in 0..ms {
            self.now = self.now.plus_nanos(1_000_000);
            self.next();
            while self.q.stats.qlen < u64::from(behind) {
                self.add();
            }
        }
        self.q.stats.drops - drops
    }
}

#[test]
fn a_queue_within_the_target_is_left_alone() {
    let mut rig = Rig::new("codel");
    assert_eq!(rig.steady(2_000, 4), 0, "4 ms of waiting");
    assert_eq!(rig.steady(99, 50), 0, "a burst shorter than the interval");
}

#[test]
fn a_standing_queue_loses_one_packet_then_more_and_more() {
    let mut rig = Rig::new("codel");
    let first = rig.steady(160, 50);
    assert_eq!(first, 1, "the first one an interval after the target was passed");
    // The gaps come nearer to interval / sqrt(n) with each: 100, 50, 56, 49 ms.
    assert_eq!(rig.steady(60, 50), 1);
    assert_eq!(rig.steady(51, 50), 1);
    assert_eq!(rig.steady(57, 50), 1);
    let (slow, fast) = (rig.steady(500, 50), rig.steady(500, 50));
    assert!(slow > 8 && fast > slow + 5, "{slow} {fast}");
    assert!(rig.gone.packets.iter().all(|(_, fate)| *fate == Fate::Dropped));
    assert!(rig.q.control.dropping);
    rig.steady(80, 1);
    assert!(!rig.q.control.dropping, "it ends with the queue");
    let count = rig.q.control.count;
    rig.steady(160, 50);
    assert!(rig.q.control.count > count / 2, "soon after, it resumes where it was");
}

#[test]
fn what_can_hear_is_marked_instead() {
    let mut rig = Rig::new("codel ecn");
    assert_eq!(rig.steady(1_000, 50), 0);
    assert!(rig.q.counts.ecn_mark > 10);
    let mut rig = Rig::new("codel ce_threshold 3ms");
    rig.steady(100, 4);
    assert!(rig.q.counts.ce_mark > 90 && rig.q.counts.ecn_mark == 0);
}

#[test]
fn a_full_queue_refuses() {
    let mut rig = Rig::new("codel limit 3");
    (0..5).for_each(|_| rig.add());
    assert_eq!((rig.q.stats.qlen, rig.q.counts.drop_overlimit), (3, 2));
    assert!(rig.gone.packets.iter().all(|(_, fate)| *fate == Fate::Refused));
}

/// Whatever the count was and becomes, and however often it jumps (`drop_batch` of fq_codel), drops are spaced by about the root (RFC 8289 section 3.3).
#[test]
fn the_law_comes_back_from_any_jump() {
    let exact = |count: u32| ((1_u64 << 32) / u64::from(count)).isqrt().min(65_535);
    for from in (1..400).chain([5_000, 1 << 20, 1 << 30, u32::MAX]) {
        for to in (from..400).chain([from.saturating_mul(3), from.saturating_mul(7), 1, 2, 10]) {
            let root = exact(from) as u16;
            let mut control = Control { count: to, root, ..Control::default() };
            control.step();
            let after = u64::from(control.root);
            assert!(2 * after + 2 >= exact(to).min(2 * u64::from(root)), "{from} to {to}: {after}");
            for _ in 0..40 {
                control.step();
            }
            let (got, want) = (u64::from(control.root), exact(to));
            assert!(got.abs_diff(want) <= 2 + want / 1_000, "{from} to {to}: {got}, not {want}");
        }
    }
}

#[test]
fn what_fq_codel_made_room_for_is_no_episode() {
    let params = Params::new(false);
    let mut control = Control { count: 50, ..Control::default() };
    control.begin(Instant::from_millis(10), &params);
    assert_eq!((control.count, control.root), (1, u16::MAX), "nothing was ever dropped by the law");
}
