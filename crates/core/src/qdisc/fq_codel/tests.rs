//! `fq_codel`: shares, sparse flows, and who pays when the queue is too full.
use super::super::law::{label, packet};
use super::super::{Any, Fate};
use super::*;
use crate::base::testing::World;

struct Rig {
    world: World,
    q: FqCodel,
    gone: Gone,
}

const NOW: Instant = Instant::from_millis(10);

impl Rig {
    fn new(spec: &str) -> Self {
        let Ok(Any::FqCodel(mut q)) = spec.parse() else { panic!("{spec} is fq_codel") };
        let mut world = World::new();
        q.attach(&mut world.cx(NOW), &LinkFacts::ip(1_500));
        Self { world, q, gone: Gone::default() }
    }

    fn add(&mut self, flow: u16, number: u32, len: usize) {
        let packet = packet(flow, number, len, NOW);
        self.q.enqueue(&mut self.world.cx(NOW), packet, &mut self.gone);
    }

    fn next(&mut self) -> Option<(u16, u32)> {
        match self.q.dequeue(&mut self.world.cx(NOW), &mut self.gone) {
            Dequeued::Packet(packet) => Some(label(&packet)),
            _ => None,
        }
    }
}

#[test]
fn flows_share_by_bytes_and_sparse_ones_go_first() {
    let mut rig = Rig::new("fq_codel quantum 1500");
    for number in 0..60 {
        rig.add(1, number, 1_460);
        (0..5).for_each(|i| rig.add(2, number * 5 + i, 260));
    }
    let mut bytes = [0_i32; 3];
    for _ in 0..120 {
        let (flow, _) = rig.next().expect("both have a backlog");
        bytes[usize::from(flow)] += if flow == 1 { 1_500 } else { 300 };
    }
    assert!((bytes[1] - bytes[2]).abs() <= 1_500, "{bytes:?}");
    rig.add(3, 9, 100);
    assert_eq!(rig.next(), Some((3, 9)));
}

#[test]
fn the_fattest_flow_pays_with_its_oldest() {
    let mut rig = Rig::new("fq_codel limit 100");
    (0..10).for_each(|number| rig.add(1, number, 1_000));
    (0..90).for_each(|number| rig.add(2, number, 1_000));
    rig.add(1, 10, 1_000);
    assert_eq!(rig.gone.packets.len(), 45, "half of what it has");
    assert!(rig.gone.packets.iter().all(|(p, fate)| label(p).0 == 2 && *fate == Fate::Dropped));
    assert_eq!(label(&rig.gone.packets[0].0).1, 0);
    let mut rig = Rig::new("fq_codel limit 1000 drop_batch 8");
    (0..1_001).for_each(|number| rig.add(2, number, 1_000));
    assert_eq!(rig.gone.packets.len(), 8, "no more than a batch");
}

/// Drops that make room raise the controller's count before its first episode: it must not give up the whole queue then.
#[test]
fn room_made_in_the_first_second_does_not_make_the_controller_drop_everything() {
    let mut rig = Rig::new("fq_codel limit 100 noecn");
    (0..101).for_each(|number| rig.add(2, number, 1_000));
    assert_eq!(rig.gone.packets.len(), 51, "half of what it has");
    for ms in [120, 121, 230, 231, 232, 233] {
        let now = Instant::from_millis(ms);
        let next = rig.q.dequeue(&mut rig.world.cx(now), &mut rig.gone);
        assert!(matches!(next, Dequeued::Packet(_)), "{next:?} at {ms} ms");
    }
    assert_eq!(rig.gone.packets.len(), 52, "the first of an episode");
}

#[test]
fn the_fattest_is_found_among_thousands_whatever_comes_and_goes() {
    let mut rig = Rig::new("fq_codel flows 5000 limit 1000000 memory_limit 1gb");
    for number in 0..20_000_u32 {
        rig.add((number.wrapping_mul(2_654_435_761) >> 20) as u16, number, 100 + (number % 900) as usize);
        if number % 3 == 0 {
            rig.next();
        }
        let most = || rig.q.flows.iter().map(|f| f.queue.bytes()).max();
        if number % 500 == 499 {
            let fattest = rig.q.fattest.fattest().map(|i| rig.q.flows[i as usize].queue.bytes());
            assert!(fattest.is_some_and(|f| f * 5 >= most().expect("flows") * 4), "{fattest:?} {:?}", most());
        }
    }
    while rig.next().is_some() {}
    assert_eq!((rig.q.memory, rig.q.fattest.fattest(), rig.q.stats.qlen), (0, None, 0));
}

#[test]
fn the_limit_of_memory_is_in_bytes_that_linux_charges() {
    let mut rig = Rig::new("fq_codel memory_limit 20000");
    // TCP's payload and 832 bytes for the rest.
    (0..10).for_each(|number| rig.add(1, number, 1_168));
    assert_eq!((rig.q.memory, rig.gone.packets.len()), (20_000, 0));
    rig.add(1, 10, 1_168);
    assert!(rig.q.drop_overmemory > 0 && rig.q.memory <= 20_000);
    // Other packets lie in one buffer each: a datagram of 1,000 bytes, and an acknowledgement.
    let other = |len| {
        let mut packet = packet(1, 0, len, NOW);
        packet.head.as_mut_slice()[9] = 17;
        memory(&rig.q.reader, &packet)
    };
    assert_eq!([other(988), other(12)], [2_304, 768]);
    let report = rig.q.report();
    assert!(report.details.iter().any(|f| f.name == "memory_used" && f.value == Value::Count(rig.q.memory)));
    while rig.next().is_some() {}
    assert_eq!(rig.q.memory, 0);
}

#[test]
fn a_threshold_may_be_for_some_types_of_service() {
    for (words, marked) in [("0x2/0x3", 1), ("2/3", 1), ("1/3", 0)] {
        let mut rig = Rig::new(&format!("fq_codel ce_threshold 1ms ce_threshold_selector {words}"));
        rig.add(1, 0, 1_000);
        let later = NOW.plus_nanos(1_000_001);
        assert!(matches!(rig.q.dequeue(&mut rig.world.cx(later), &mut rig.gone), Dequeued::Packet(_)));
        assert_eq!(rig.q.counts.ce_mark, marked, "{words}");
    }
}
