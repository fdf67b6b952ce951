//! Tests: states, retries, bounds.
use super::super::testing::World;
use super::*;
use crate::packet::Offload;
use bytes::Bytes;

const MAC: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 9]);
const OTHER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 8]);

fn key(n: u32) -> Key {
    (DeviceId(0), IpAddr::from((0x0a00_0000 + n).to_be_bytes()))
}

fn packet(n: u8) -> Packet {
    Packet::received(Bytes::copy_from_slice(&[n]), Offload::default(), Instant::ZERO)
}

const ANSWER: Advert = Advert { mac: Some(MAC), solicited: true, override_cached: true };

struct Table {
    n: Neighbours,
    w: World,
    dropped: Vec<(Packet, DropWhy)>,
}

impl Table {
    fn new() -> Self {
        Self { n: Neighbours::default(), w: World::new(5), dropped: Vec::new() }
    }
    fn resolve(&mut self, key: Key, p: Packet) -> Resolve {
        self.n.resolve(self.w.now, key, p, &mut self.dropped)
    }
    fn due(&mut self) -> Option<Due> {
        let due = self.n.on_timeout(&mut self.w.cx());
        self.consistent();
        due
    }
    fn consistent(&self) {
        let order = &self.n.order;
        assert_eq!(order.deadlines.len(), self.n.entries.len(), "one deadline per entry");
        let worths = self.n.entries.iter().map(|(&key, e)| (e.worth(), e.deadline, key)).collect();
        assert_eq!(order.worths, worths);
    }
    fn state(&self, key: Key) -> Option<State> {
        self.n.get(key.0, key.1).map(|(state, _)| state)
    }
}

#[test]
fn packets_wait_in_order_until_the_answer() {
    let mut t = Table::new();
    assert!(matches!(t.resolve(key(1), packet(0)), Resolve::Queued(true)));
    assert!(matches!(t.resolve(key(1), packet(1)), Resolve::Queued(false)));
    let waiting = t.n.on_advert(&mut t.w.cx(), key(1), ANSWER);
    assert_eq!(waiting.iter().map(|p| p.payload[0]).collect::<Vec<_>>(), [0, 1]);
    assert!(matches!(t.resolve(key(1), packet(2)), Resolve::Ready(MAC, _)));
}

#[test]
fn three_questions_a_second_apart_then_failure() {
    let mut t = Table::new();
    let _ = t.resolve(key(1), packet(7));
    for _ in 0..2 {
        assert!(t.due().is_none());
        t.w.sleep(1_000);
        assert!(matches!(t.due(), Some(Due::Solicit { unicast: None, .. })));
    }
    t.w.sleep(1_000);
    let Some(Due::Failed { queue }) = t.due() else { panic!("failure expected") };
    assert_eq!((queue.len(), t.state(key(1)), t.n.next_deadline()), (1, None, None));
}

#[test]
fn a_neighbour_grows_stale_and_is_probed_only_when_used() {
    let mut t = Table::new();
    let _ = t.resolve(key(1), packet(0));
    t.n.on_advert(&mut t.w.cx(), key(1), ANSWER);
    t.w.sleep(45_000);
    // Confirmed a moment ago: stays.
    t.n.confirm(&mut t.w.cx(), key(1));
    assert!(t.due().is_none());
    assert_eq!(t.state(key(1)), Some(State::Reachable));
    t.w.sleep(46_000);
    assert!(t.due().is_none());
    assert_eq!(t.state(key(1)), Some(State::Stale));
    assert!(matches!(t.resolve(key(1), packet(0)), Resolve::Ready(MAC, _)));
    assert_eq!(t.state(key(1)), Some(State::Delay));
    t.w.sleep(5_000);
    assert!(matches!(t.due(), Some(Due::Solicit { unicast: Some(MAC), .. })));
    t.n.confirm(&mut t.w.cx(), key(1));
    assert_eq!(t.state(key(1)), Some(State::Reachable));
    t.w.sleep(46_000);
    assert!(t.due().is_none());
    t.w.sleep(60_000);
    assert!(t.due().is_none());
    assert_eq!(t.state(key(1)), None, "nobody used it");
}

#[test]
fn what_nobody_asked_for_teaches_nothing_new() {
    let mut t = Table::new();
    t.n.on_advert(&mut t.w.cx(), key(1), ANSWER);
    assert_eq!(t.state(key(1)), None);
    let _ = t.resolve(key(1), packet(0));
    t.n.on_advert(&mut t.w.cx(), key(1), ANSWER);
    // Another address without override: doubt, but no change (RFC 4861 section 7.2.5).
    let claim = Advert { mac: Some(OTHER), solicited: true, override_cached: false };
    t.n.on_advert(&mut t.w.cx(), key(1), claim);
    assert_eq!(t.n.get(key(1).0, key(1).1), Some((State::Stale, MAC)));
    let moved = Advert { mac: Some(OTHER), solicited: false, override_cached: true };
    t.n.on_advert(&mut t.w.cx(), key(1), moved);
    assert_eq!(t.n.get(key(1).0, key(1).1), Some((State::Stale, OTHER)));
}

#[test]
fn queue_and_table_are_bounded() {
    let mut t = Table::new();
    for n in 0..=NEIGHBOUR_QUEUE_PACKETS {
        let _ = t.resolve(key(1), packet(n as u8));
    }
    assert!(matches!(&t.dropped[..], [(p, DropWhy::NeighbourQueue)] if p.payload[0] == 0), "the oldest goes");
    t.n.on_advert(&mut t.w.cx(), key(1), ANSWER);
    for n in 2..3 * NEIGHBOURS_MAX as u32 {
        let _ = t.resolve(key(n), packet(0));
        assert!(t.n.entries.len() <= NEIGHBOURS_MAX);
    }
    t.consistent();
    assert_eq!(
        t.state(key(1)),
        Some(State::Reachable),
        "a scan of addresses pushes out what it has asked for"
    );
    assert!(t.dropped.iter().skip(1).all(|(_, why)| *why == DropWhy::NeighbourTable));
    t.n.remove_device(DeviceId(0), &mut t.dropped);
    assert_eq!((t.n.entries.len(), t.n.next_deadline()), (0, None));
    assert_eq!(t.dropped.len(), 1 + 3 * NEIGHBOURS_MAX - 2);
}

#[test]
fn who_only_asks_pushes_out_nobody_in_use() {
    let mut t = Table::new();
    for n in 1..=3 {
        let _ = t.resolve(key(n), packet(0));
        t.n.on_advert(&mut t.w.cx(), key(n), ANSWER);
    }
    t.w.sleep(44_000);
    t.n.confirm(&mut t.w.cx(), key(1));
    t.w.sleep(2_000);
    assert!(t.due().is_none());
    // One that is stale, one that has just been used again, one that is asked for: each has a nearer deadline than who asks.
    let _ = (t.resolve(key(2), packet(0)), t.resolve(key(4), packet(0)));
    let before: Vec<_> = (1..=4).map(|n| t.state(key(n))).collect();
    assert_eq!(before[1..], [Some(State::Delay), Some(State::Stale), Some(State::Incomplete)]);
    let asked = |t: &mut Table, n| {
        t.n.on_solicit(&mut t.w.cx(), key(n), OTHER, &mut t.dropped);
        // Nor does who claims to have been asked: nothing was sent to it.
        t.n.on_advert(&mut t.w.cx(), key(n), ANSWER);
        assert!(t.n.entries.len() <= NEIGHBOURS_MAX);
    };
    t.consistent();
    for n in 10..3 * NEIGHBOURS_MAX as u32 {
        asked(&mut t, n);
    }
    assert_eq!((1..=4).map(|n| t.state(key(n))).collect::<Vec<_>>(), before);
    assert!(t.state(key(3 * NEIGHBOURS_MAX as u32 - 1)).is_some(), "the newest");
    // Of a table that is in use all over, nothing goes for who only asks.
    for n in 10..3 * NEIGHBOURS_MAX as u32 {
        let _ = t.resolve(key(n), packet(0));
        t.n.on_advert(&mut t.w.cx(), key(n), ANSWER);
    }
    let all = |t: &Table| t.n.iter().map(|(_, addr, ..)| addr).collect::<Vec<_>>();
    let before = all(&t);
    asked(&mut t, 9);
    assert_eq!((before.len(), all(&t)), (NEIGHBOURS_MAX, before));
    t.consistent();
}
