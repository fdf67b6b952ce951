//! Bytes as segments, stamps of what is out, and who is asked.
use super::controller::Controller;
use super::departures::Departures;
use super::on_path::Sacked;
use super::*;
use crate::base::sysctl::CongestionKind;
use crate::base::testing::World;
use crate::path::congestion::CaState;
use crate::path::pacing::Pacing;
use crate::path::rate::{Rate, Snapshot as Stamp};

const PMDCS: u32 = 1_468;

fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

#[test]
fn what_leaves_at_one_instant_has_one_stamp_and_goes_with_its_last_chunk() {
    let (mut rate, mut departures) = (Rate::new(), Departures::default());
    for (at, idle) in [(1, true), (1, false), (2, false), (3, false), (3, false), (3, false)] {
        departures.on_sent(&mut rate, ms(at), idle);
    }
    assert_eq!(departures.len(), 3);
    // Out of order: the middle one is acknowledged by a gap block, and stays until what is older is gone.
    assert!(departures.take(ms(2)).is_some());
    assert_eq!(departures.len(), 3);
    assert!(departures.take(ms(1)).is_some() && departures.take(ms(1)).is_some());
    assert_eq!(departures.len(), 1);
    assert_eq!(departures.take(ms(1)), None::<Stamp>);
    for _ in 0..3 {
        assert!(departures.take(ms(3)).is_some());
    }
    assert_eq!(departures.len(), 0);
    departures.shrink();
    assert_eq!(departures.take(ms(3)), None::<Stamp>);
}

#[test]
fn a_window_keeps_its_bytes_when_packets_change_their_size() {
    let mut world = World::new();
    let flow = Flow { mss: PMDCS, nxt: 1 << 32, ..Flow::default() };
    let window = (20 * PMDCS, 10 * PMDCS);
    let mut it = Controller::new(&mut world.cx(ms(1)), CongestionKind::Cubic, window, &flow);
    assert_eq!(it.window_bytes(), window);
    it.set_unit(PMDCS / 2);
    assert_eq!(it.window_bytes(), (40 * 734, 20 * 734));
    it.set_unit(1_400);
    assert_eq!(it.window_bytes(), (20 * 1_400, 10 * 1_400));
    it.set_unit(PMDCS);
    assert_eq!(it.window_bytes().0, 20 * PMDCS);
    // By four bytes, as often as there are four.
    for unit in (500..PMDCS).rev().step_by(4) {
        it.set_unit(unit);
        assert!(it.window_bytes().0 <= 20 * PMDCS);
    }
    assert!(it.window_bytes().0 > 20 * PMDCS - 500);
    // Before any congestion there is no threshold, whatever the size.
    let mut it = Controller::new(&mut world.cx(ms(1)), CongestionKind::Cubic, (4_404, u32::MAX), &flow);
    it.set_unit(1_000);
    assert_eq!(it.window_bytes(), (4_000, u32::MAX));
    // Nor is the first window more than section 7.2.1 has it.
    let flow = Flow { mss: PMDCS - 8, ..flow };
    let it = Controller::new(&mut world.cx(ms(1)), CongestionKind::Cubic, (4_404, u32::MAX), &flow);
    assert_eq!(it.window_bytes(), (3 * (PMDCS - 8), u32::MAX));
}

#[test]
fn the_load_of_a_chunk_is_what_it_takes_of_a_packet() {
    assert_eq!([0, 1, 4, 5, 1_452].map(load), [0, 20, 20, 24, 1_468]);
    let mut cwnd = Cwnd::new(SctpCongestionKind::Cubic, PMDCS, false);
    (0..10).for_each(|_| cwnd.add(100));
    // The load counts, with a controller and without.
    assert_eq!((cwnd.flight(), cwnd.in_flight()), (1_000, 1_160));
    let flow = Flow { mss: PMDCS, nxt: 1 << 32, ..Flow::default() };
    let mut world = World::new();
    let it = Controller::new(&mut world.cx(ms(1)), CongestionKind::Cubic, (cwnd.cwnd, u32::MAX), &flow);
    cwnd.controller = Some(Box::new(it));
    assert_eq!((cwnd.flight(), cwnd.in_flight()), (1_000, 1_160));
    cwnd.remove(100);
    assert_eq!((cwnd.flight(), cwnd.in_flight()), (900, 1_044));
    assert_eq!((cwnd.remove_all(), cwnd.flight(), cwnd.in_flight()), (1_044, 0, 0));
}

/// Messages that are no whole packets: what is begun of a packet is rounded up where segments are counted (RFC 9260 section 6.1 rule B lets a
/// packet begin below the window), and would let two chunks go for each that comes.
#[test]
fn recovery_by_bbr_lets_as_many_bytes_go_as_come() {
    for chunk in [1_016_u32, 700, 200] {
        let mut world = World::new();
        let flow = Flow { mss: PMDCS, nxt: 1 << 32, ..Flow::default() };
        let first = 20 * chunk;
        let mut it = Controller::new(&mut world.cx(ms(1)), CongestionKind::Bbr, (first, u32::MAX), &flow);
        let marks = |n| Marks { cum: Tsn(n), next: Tsn(1_000) };
        it.on_congestion(&mut world.cx(ms(2)), &flow, CaState::Recovery, marks(0));
        let (mut load, mut went) = (first, 0);
        for n in 1..50 {
            let before = load;
            load -= chunk;
            it.begin_sack();
            let sacked = Sacked { delivered: chunk, before, load, grows: true, marks: marks(n) };
            it.on_sack(&mut world.cx(ms(2 + n)), &flow, &sacked, &Pacing::default());
            while load < it.window_bytes().0 {
                (load, went) = (load + chunk, went + chunk);
            }
            assert!(load < first + chunk, "{load} of {first} after {n} chunks of {chunk}");
        }
        // What is below a packet waits for the rest of it.
        let came = 49 * chunk;
        assert!(went <= came && went + PMDCS + chunk > came, "{went} of {came}, chunks of {chunk}");
    }
}
