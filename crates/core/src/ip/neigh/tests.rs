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
        assert_eq!(self.n.deadlines.len(), self.n.entries.len(), "one deadline per entry");
        due
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
        assert_eq!(t.n.deadlines.len(), t.n.entries.len());
    }
    assert_eq!(t.state(key(1)), Some(State::Reachable), "a scan pushes out no neighbour in use");
    t.n.remove_device(DeviceId(0), &mut t.dropped);
    assert_eq!((t.n.entries.len(), t.n.next_deadline()), (0, None));
    assert_eq!(t.dropped.len(), 1 + 3 * NEIGHBOURS_MAX - 2);
}
