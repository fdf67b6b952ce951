//! When ACKs go out: each rule with its numbers.
use super::*;
use crate::base::trace::Trace;
use crate::base::{Counters, Rng, Sysctl};

struct World {
    sysctl: Sysctl,
    count: Counters,
    rng: Rng,
    trace: Trace,
    ack: AckPolicy,
    now: Instant,
    unacked: u32,
    hole: bool,
}

const RTT: PathFacts = PathFacts {
    srtt: Duration::from_millis(50),
    rto: Duration::from_millis(250),
    rto_min_us: 200_000,
    quickack: false,
};

impl World {
    fn new() -> Self {
        Self {
            sysctl: Sysctl::default(),
            count: Counters::default(),
            rng: Rng::new(1),
            trace: Trace::default(),
            ack: AckPolicy::new(536),
            now: Instant::from_millis(1_000),
            unacked: 0,
            hole: false,
        }
    }

    /// Past the quick start, with rcv_mss 1448.
    fn steady() -> Self {
        let mut w = Self::new();
        w.data(1_448, 1);
        w.ack.stop_quick();
        w.sent();
        w
    }

    fn with<R>(&mut self, f: impl FnOnce(&mut AckPolicy, &mut Cx<'_>) -> R) -> R {
        let mut cx = Cx {
            now: self.now,
            rng: &mut self.rng,
            sysctl: &self.sysctl,
            count: &mut self.count,
            trace: &mut self.trace,
            pool: &mut crate::base::Pool::default(),
            pressure: crate::base::Pressure::Low,
            share: u64::MAX,
            orphans: 0,
            socket: None,
        };
        f(&mut self.ack, &mut cx)
    }

    fn sent(&mut self) {
        self.unacked = 0;
        self.with(|a, cx| a.on_ack_sent(cx));
    }

    /// Data went out `ms` after now; the clock stays.
    fn answer(&mut self, ms: u64) {
        self.with(|a, cx| {
            cx.now = cx.now.plus_nanos(ms * 1_000_000);
            let answer = a.would_answer(cx.now);
            a.on_data_sent(cx, answer);
        });
    }

    /// A segment after `ms`; true when an ACK is due.
    fn data(&mut self, len: u32, ms: u64) -> bool {
        self.now = self.now.plus_nanos(ms * 1_000_000);
        self.unacked += len;
        let seg = SegmentFacts {
            payload_bytes: len,
            gso_size: 0,
            header_bytes: 32,
            truesize: 2_304,
            remnant: len < 1_448,
            push: false,
            marked: false,
        };
        self.ack.schedule();
        self.ack.measure_rcv_mss(&seg, 1_460, 32);
        self.ack.on_data(self.now, RTT, 64_240);
        self.check()
    }

    fn check(&mut self) -> bool {
        let facts = AckFacts {
            unacked_bytes: self.unacked,
            rcv_nxt: Seq(self.unacked),
            window_moves: true,
            hole: self.hole,
            sack: true,
            rcv_rtt: Duration::from_millis(10),
        };
        self.with(|a, cx| a.check(cx, RTT, &facts));
        self.ack.due()
    }
}

#[test]
fn the_first_sixteen_segments_are_acknowledged_one_by_one_then_every_second() {
    let mut w = World::new();
    for i in 0..16 {
        assert!(w.data(1_448, 1), "segment {i}");
        w.sent();
    }
    assert!(!w.data(1_448, 1));
    assert!(w.data(1_448, 1));
    w.sent();
    assert!(!w.data(1_448, 1));
}

#[test]
fn a_lone_segment_is_acknowledged_after_the_estimated_delay() {
    let mut w = World::steady();
    assert!(!w.data(1_448, 1));
    assert_eq!(w.ack.deadline(), Some(w.now + ATO_MIN));
    w.with(|a, cx| a.on_deadline(cx, RTT.rto));
    assert!(!w.ack.due());
    w.now += ATO_MIN;
    w.with(|a, cx| a.on_deadline(cx, RTT.rto));
    assert!(w.ack.due() && w.count.tcp_ext.delayed_acks == 1);
    // Missed without pingpong: the estimate doubles.
    assert_eq!(w.ack.ato(), 2 * ATO_MIN);
    w.sent();
    assert_eq!(w.ack.deadline(), None);
}

#[test]
fn a_second_small_segment_never_postpones_the_ack() {
    let mut w = World::steady();
    assert!(!w.data(100, 1));
    let first = w.ack.deadline().expect("delayed");
    assert!(!w.data(100, 10));
    assert_eq!(w.ack.deadline(), Some(first));
    // Within a quarter of the delay of its end it goes at once.
    assert!(w.data(100, 21));
}

#[test]
fn long_estimates_are_bounded_by_the_round_trip_and_the_sysctl() {
    let mut w = World::steady();
    w.ack.ato = 400_000_000;
    assert!(!w.data(1_448, 100));
    assert_eq!(w.ack.deadline(), Some(w.now + Duration::from_millis(50)));
    w.sent();
    w.ack.stop_quick();
    w.ack.ato = 400_000_000;
    w.now = w.now.plus_nanos(30_000_000);
    let facts = AckFacts {
        unacked_bytes: 1,
        rcv_nxt: Seq(0),
        window_moves: true,
        hole: false,
        sack: true,
        rcv_rtt: Duration::ZERO,
    };
    w.ack.schedule();
    let unknown = |rto_min_us| PathFacts { rto_min_us, ..PathFacts::default() };
    w.with(|a, cx| a.check(cx, unknown(200_000), &facts));
    let longest = Duration::from_millis(199);
    assert_eq!(w.ack.deadline(), Some(w.now + longest), "shorter than the smallest timeout");
    w.sent();
    w.ack.stop_quick();
    w.ack.schedule();
    w.with(|a, cx| a.check(cx, unknown(5_000), &facts));
    assert_eq!(w.ack.deadline(), Some(w.now + Duration::from_millis(4)), "which may be set");
}

#[test]
fn an_answer_within_the_delay_makes_the_flow_interactive_until_an_ack_is_missed() {
    let mut w = World::steady();
    w.answer(5);
    assert!(w.ack.pingpong());
    // A long silence gives a quick budget, which pingpong keeps from acting.
    assert!(!w.data(200, 300));
    assert!(w.ack.quick() > 0);
    w.now += Duration::from_millis(200);
    w.with(|a, cx| a.on_deadline(cx, RTT.rto));
    assert!(w.ack.due() && !w.ack.pingpong());
    assert_eq!(w.ack.ato(), ATO_MIN);
}

#[test]
fn two_segments_wait_for_the_reader_when_the_window_would_not_move() {
    let mut w = World::steady();
    w.unacked = 4_000;
    w.ack.schedule();
    let facts = AckFacts {
        unacked_bytes: 4_000,
        rcv_nxt: Seq(0),
        window_moves: false,
        hole: false,
        sack: true,
        rcv_rtt: Duration::ZERO,
    };
    w.with(|a, cx| a.check(cx, RTT, &facts));
    assert!(!w.ack.due());
    assert!(w.ack.wants_ack_after_read(4_000, false, false));
}

#[test]
fn three_duplicates_go_at_once_and_the_rest_together() {
    let mut w = World::steady();
    w.hole = true;
    for _ in 0..3 {
        w.ack.schedule();
        assert!(w.check());
        w.ack.stands();
        w.sent();
    }
    for _ in 0..5 {
        w.ack.schedule();
        assert!(!w.check());
    }
    // A twentieth of the receiver's 10 ms.
    assert_eq!(w.ack.deadline(), Some(w.now.plus_nanos(500_000)));
    w.now = w.now.plus_nanos(500_000);
    w.with(|a, cx| a.on_deadline(cx, RTT.rto));
    assert!(w.ack.due());
    w.sent();
    assert_eq!((w.count.tcp_ext.tcp_ack_compressed, w.ack.deadline()), (4, None));
}

#[test]
fn a_duplicate_that_data_carries_at_once_is_none_of_the_three() {
    let mut w = World::steady();
    w.hole = true;
    for _ in 0..9 {
        w.ack.schedule();
        assert!(w.check());
        // What came let data go.
        w.sent();
    }
    for _ in 0..3 {
        w.ack.schedule();
        assert!(w.check());
        w.ack.stands();
        w.sent();
    }
    // One is held, the next goes with data, and that counts the first.
    for compressed in [0, 1] {
        w.ack.schedule();
        assert!(!w.check());
        match compressed {
            0 => w.ack.stands(),
            _ => w.sent(),
        }
        assert_eq!(w.count.tcp_ext.tcp_ack_compressed, compressed);
    }
}

#[test]
fn the_peers_mss_is_found_despite_sack_options() {
    let mut w = World::new();
    let facts = |payload, header| SegmentFacts {
        payload_bytes: payload,
        gso_size: 0,
        header_bytes: header,
        truesize: 2_304,
        remnant: false,
        push: false,
        marked: false,
    };
    assert!(w.ack.measure_rcv_mss(&facts(1_448, 32), 1_460, 32), "larger than the guess");
    assert_eq!(w.ack.rcv_mss(), 1_448);
    // The peer's path shrank: 1000 bytes, once with a SACK block; twice the same total makes it the estimate.
    assert!(!w.ack.measure_rcv_mss(&facts(1_000, 32), 1_460, 32));
    assert_eq!(w.ack.rcv_mss(), 1_448);
    assert!(!w.ack.measure_rcv_mss(&facts(988, 44), 1_460, 32));
    assert_eq!(w.ack.rcv_mss(), 1_000);
    // A coalesced packet counts by its segments, and nothing exceeds what we offered.
    let gso =
        SegmentFacts { payload_bytes: 60_000, gso_size: 9_000, remnant: true, push: true, ..facts(0, 32) };
    assert!(w.ack.measure_rcv_mss(&gso, 1_460, 32));
    assert_eq!(w.ack.rcv_mss(), 1_460);
    assert_eq!(initial_rcv_mss(1_460, 1_448, 64_240), 536);
    assert_eq!(initial_rcv_mss(1_460, 1_448, 100), 88);
}

#[test]
fn a_small_tail_is_acknowledged_when_it_is_read() {
    let mut w = World::steady();
    assert!(!w.data(100, 1));
    assert!(!w.ack.wants_ack_after_read(100, true, false));
    assert!(w.ack.wants_ack_after_read(100, true, true));
    w.ack.set_pingpong(true);
    assert!(!w.ack.wants_ack_after_read(100, true, true));
    w.data(100, 1);
    assert!(w.ack.wants_ack_after_read(200, true, true));
}

#[test]
fn the_sysctl_sets_how_many_answers_make_a_flow_interactive() {
    let mut w = World::steady();
    w.sysctl.tcp_pingpong_thresh = 3;
    w.answer(5);
    w.answer(6);
    assert!(!w.ack.pingpong());
    // One that comes late does not count.
    w.answer(500);
    assert!(!w.ack.pingpong());
    w.answer(7);
    assert!(w.ack.pingpong());
    w.ack.set_pingpong(false);
    w.answer(8);
    assert!(!w.ack.pingpong(), "they are counted anew");
}
