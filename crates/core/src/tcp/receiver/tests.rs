//! The receiving half as a whole: a peer that sends at random, an application that reads at random.
use super::super::window::initial_window;
use super::*;
use crate::base::trace::Trace;
use crate::base::{Counters, Rng};
use bytes::Bytes;
use smallvec::smallvec;

struct World {
    sysctl: Sysctl,
    count: Counters,
    rng: Rng,
    trace: Trace,
    rx: Receiver,
    now: Instant,
    pressure: Pressure,
}

const IRS: Seq = Seq(u32::MAX - 20_000);
const RTT: PathFacts = PathFacts {
    srtt: Duration::from_millis(20),
    rto: Duration::from_millis(220),
    rto_min_us: 200_000,
    quickack: false,
};

impl World {
    fn new(seed: u64, rcvbuf: u32, scaling: bool, sack: bool) -> Self {
        let sysctl = Sysctl::default();
        let buf = RcvBuf { bytes: rcvbuf, clamp: 0, locked: seed % 2 == 1, ratio: 0 };
        let mut rx = Receiver::new(initial_window(&sysctl, buf, 1_460, scaling), buf, 1_460);
        rx.synchronize(IRS);
        let mut w = Self {
            sysctl,
            count: Counters::default(),
            rng: Rng::new(seed),
            trace: Trace::default(),
            rx,
            now: Instant::from_millis(1),
            pressure: Pressure::Low,
        };
        let with = Negotiated { sack, wscale: scaling, header_bytes: 32, mss: 1_448, fast: false };
        w.with(|rx, cx| rx.establish(cx, with));
        w
    }

    fn with<R>(&mut self, f: impl FnOnce(&mut Receiver, &mut Cx<'_>) -> R) -> R {
        let mut cx = Cx {
            now: self.now,
            rng: &mut self.rng,
            sysctl: &self.sysctl,
            count: &mut self.count,
            trace: &mut self.trace,
            pool: &mut crate::base::Pool::default(),
            pressure: self.pressure,
            share: u64::MAX,
            orphans: 0,
            socket: None,
        };
        f(&mut self.rx, &mut cx)
    }

    /// Bytes `at..at + len` of the stream arrive.
    fn data(&mut self, at: u32, len: u32, fin: bool) -> Received {
        self.merged(at, len, fin, 0)
    }

    /// The same in segments of `gso_size` bytes that came as one.
    fn merged(&mut self, at: u32, len: u32, fin: bool, gso_size: u32) -> Received {
        let bytes: Vec<u8> = (at..at + len).map(|i| (i % 251) as u8).collect();
        let arrival = Arrival {
            seq: IRS + 1 + at,
            chunks: smallvec![Bytes::from(bytes)],
            pinned_bytes: 0,
            fin,
            remnant: fin,
            push: false,
            gso_size,
            header_bytes: 32,
            ip_header_bytes: 20,
            predicted: false,
            sending: 0,
            marked: false,
        };
        self.with(|rx, cx| {
            let r = rx.on_data(cx, arrival, RTT);
            rx.check_ack(cx, RTT);
            r
        })
    }

    fn ack(&mut self) -> (u16, Vec<(u32, u32)>) {
        self.with(|rx, cx| {
            let field = rx.select_window(cx);
            let rel = |s: Seq| s.since(IRS + 1);
            let blocks = rx.sack_blocks(3).iter().map(|&(a, b)| (rel(a), rel(b))).collect();
            rx.ack.count_duplicate();
            rx.on_ack_sent(cx);
            (field, blocks)
        })
    }
}

#[test]
fn small_when_idle() {
    assert!(size_of::<Receiver>() <= 350, "{}", size_of::<Receiver>());
}

#[test]
fn a_hole_a_duplicate_and_its_filling() {
    let mut w = World::new(0, 131_072, true, true);
    assert_eq!(w.data(0, 1_000, false).advanced, 1_000);
    assert!(w.rx.ack_due(), "quick start");
    assert_eq!(w.ack().1, []);
    assert!(w.data(2_000, 1_000, false).out_of_order);
    assert_eq!(w.ack().1, [(2_000, 3_000)]);
    w.data(4_000, 1_000, false);
    assert_eq!(w.ack().1, [(4_000, 5_000), (2_000, 3_000)]);
    // Twice: D-SACK first, once (RFC 2883 section 4.1).
    w.data(2_500, 500, false);
    assert_eq!(w.ack().1, [(2_500, 3_000), (2_000, 3_000), (4_000, 5_000)]);
    assert_eq!(w.ack().1, [(2_000, 3_000), (4_000, 5_000)]);
    // Old data.
    assert!(w.data(0, 500, false).dropped);
    assert_eq!(w.ack().1, [(0, 500), (2_000, 3_000), (4_000, 5_000)]);
    assert_eq!(w.data(1_000, 1_000, false).advanced, 2_000);
    w.ack();
    assert_eq!(w.data(3_000, 1_000, false).advanced, 2_000);
    assert!(w.rx.ack_due() && !w.rx.has_hole());
    let c = &w.count.tcp_ext;
    assert_eq!((c.tcp_dsack_old_sent, c.tcp_dsack_ofo_sent, c.tcp_ofo_queue), (1, 1, 3));
    assert_eq!((c.tcp_ofo_merge, c.delayed_ack_lost), (1, 1));
}

#[test]
fn buffers_that_a_held_segment_makes_needless_are_counted() {
    let mut w = World::new(0, 131_072, true, true);
    let mut merged = |at, len| {
        w.data(at, len, false);
        w.count.tcp_ext.tcp_ofo_merge
    };
    merged(2_000, 1_000);
    assert_eq!(merged(2_000, 1_000), 1, "all of it was there");
    assert_eq!(merged(2_500, 1_000), 1, "each has something of its own");
    assert_eq!(merged(1_500, 2_500), 3, "it has both");
    assert_eq!(merged(4_000, 1_000), 3, "one behind the other");
    assert_eq!(merged(0, 1_600), 3, "what is in order takes nothing away");
}

#[test]
fn a_fin_that_comes_again_beyond_a_hole_is_needless_too() {
    let mut w = World::new(0, 131_072, true, true);
    let mut merged = |at, len, fin| {
        w.data(at, len, fin);
        w.count.tcp_ext.tcp_ofo_merge
    };
    merged(2_000, 1_000, false);
    assert_eq!(merged(3_000, 0, true), 0, "it stands in the buffer before it");
    assert_eq!(merged(3_000, 0, true), 1);
}

#[test]
fn a_window_that_memory_shuts_is_not_one_that_was_full() {
    let mut w = World::new(0, 131_072, true, true);
    (0..3).for_each(|n| {
        w.data(1_000 * n, 1_000, false);
    });
    w.rx.set_rcvbuf(2_304);
    w.data(3_000, 1_000, false);
    assert_eq!(w.count.tcp_ext.tcp_rcv_q_drop, 1);
    assert!(w.rx.window().wnd() > 0);
    assert_eq!((w.ack().0, w.rx.window().wnd()), (0, 0));
    assert_eq!(w.count.tcp_ext.tcp_to_zero_window_adv, 0);
    let mut buf = [0; 4_096];
    w.with(|rx, cx| rx.recv(cx, &mut buf));
    assert!(w.ack().0 > 0);
    assert_eq!(w.count.tcp_ext.tcp_from_zero_window_adv, 1);
}

#[test]
fn without_sack_every_segment_beyond_a_hole_is_told() {
    for (sack, acks) in [(false, 5), (true, 1)] {
        let mut w = World::new(0, 131_072, true, sack);
        // Three segments that came as one, and two more, before there was a turn to answer.
        w.merged(1_000, 2_500, false, 1_000);
        w.data(4_000, 1_000, false);
        w.data(5_000, 1_000, false);
        for _ in 0..acks {
            assert!(w.rx.ack_due());
            w.ack();
        }
        assert!(!w.rx.ack_due());
        // What is no duplicate any more is told once.
        w.merged(7_000, 2_500, false, 1_000);
        w.data(0, 1_000, false);
        assert!(w.rx.ack_due());
        w.ack();
        assert!(!w.rx.ack_due());
    }
}

#[test]
fn the_end_of_the_stream() {
    let mut w = World::new(0, 131_072, true, true);
    assert!(w.data(100, 100, true).out_of_order);
    assert_eq!(w.ack().1, [(100, 201)]);
    let r = w.data(0, 100, false);
    assert!(r.fin && r.readable && r.advanced == 201);
    assert_eq!(w.rx.nxt(), IRS + 202);
    assert_eq!(w.rx.copied_seq(), IRS + 1);
    assert!(!w.rx.at_eof());
    // The FIN comes again because its ACK was lost; data behind it is ignored.
    w.ack();
    assert!(w.data(100, 100, true).dropped && w.rx.ack_due());
    w.ack();
    assert!(w.data(202, 10, false).dropped && !w.rx.ack_due());
    let mut buf = [0; 300];
    assert_eq!(w.with(|rx, cx| rx.recv(cx, &mut buf)), 200);
    assert!(w.rx.at_eof());
}

#[test]
fn a_closed_window_drops_probes_but_answers_them() {
    let mut w = World::new(1, 8_192, true, true);
    let mut at = 0;
    while w.rx.open_window() > 0 {
        let len = w.rx.open_window().min(1_000);
        w.data(at, len, false);
        at += len;
        w.ack();
    }
    assert!(w.data(at, 1, false).dropped && w.rx.ack_due());
    assert_eq!(w.count.tcp_ext.tcp_zero_window_drop, 1);
    assert_eq!(w.ack().0, 0);
    // Reading everything reopens it, and says so.
    let mut buf = [0; 8_192];
    w.with(|rx, cx| rx.recv(cx, &mut buf));
    assert!(w.rx.ack_due() && w.ack().0 > 0);
}

#[test]
fn where_memory_is_short_no_mark_keeps_a_reader_waiting() {
    let mut w = World::new(0, 131_072, true, true);
    w.with(|rx, cx| rx.set_lowat(cx.sysctl, 10_000));
    assert!(!w.data(0, 100, false).readable);
    w.pressure = Pressure::Moderate;
    assert!(!w.data(100, 100, false).readable);
    w.pressure = Pressure::Pressed;
    assert!(w.data(200, 100, false).readable && w.rx.is_readable(w.pressure));
    assert!(!w.rx.is_readable(Pressure::Moderate));
    let mut buf = [0; 300];
    w.with(|rx, cx| rx.recv(cx, &mut buf));
    assert!(!w.rx.is_readable(w.pressure), "nothing waits");
}

#[test]
fn reading_a_bulk_transfer_grows_the_buffer() {
    let mut w = World::new(0, 131_072, true, true);
    let mut at = 0;
    let mut buf = vec![0; 1 << 20];
    for _ in 0..12 {
        let edge = w.rx.open_window();
        let mut sent = 0;
        while sent + 1_448 <= edge {
            w.data(at, 1_448, false);
            (at, sent) = (at + 1_448, sent + 1_448);
            if w.rx.ack_due() {
                w.ack();
            }
            w.with(|rx, cx| rx.recv(cx, &mut buf));
        }
        w.now += Duration::from_millis(20);
        w.ack();
    }
    assert_eq!(w.rx.window().buf().bytes, 6_291_456);
    assert!(w.rx.open_window() > 2_000_000, "{}", w.rx.open_window());
}

/// One random connection: what the peer may send never shrinks, SACK never lies, every byte arrives once.
fn run(seed: u64) {
    let mut pick = Rng::new(seed).fork("peer");
    let rcvbuf = 4_096 << pick.below(6);
    let (scaling, sack) = (pick.below(3) > 0, pick.below(4) > 0);
    let mut w = World::new(seed, rcvbuf, scaling, sack);
    let len = 200_000;
    let (mut read, mut edge) = (0_u32, w.rx.window().right_edge());
    let (mut rounds, mut refused) = (0, 0);
    while !w.rx.at_eof() {
        rounds += 1;
        assert!(rounds < 200_000, "seed {seed}: stuck at {read}");
        w.now = w.now.plus_nanos(pick.below(3_000_000));
        let una = w.rx.nxt().since(IRS + 1).min(len);
        match pick.below(8) {
            0..5 => {
                let open = w.rx.open_window();
                let at = if pick.below(3) > 0 {
                    una
                } else {
                    (una + pick.below(u64::from(open) + 1) as u32).saturating_sub(700)
                };
                let at = at.min(len);
                let most = [1, 100, 1_448, 10_000][pick.below(4) as usize];
                let size = (1 + pick.below(most) as u32).min(len - at);
                let size = size.min((una + open.max(1)).saturating_sub(at));
                w.data(at, size, at + size == len);
            }
            5 => {
                let mut buf = vec![0; 1 + pick.below(20_000) as usize];
                let n = w.with(|rx, cx| rx.recv(cx, &mut buf));
                assert!(buf[..n].iter().enumerate().all(|(i, b)| *b == ((read + i as u32) % 251) as u8));
                read += n as u32;
            }
            6 => w.with(|rx, cx| rx.on_deadline(cx, RTT.rto)),
            _ => {}
        }
        if w.rx.ack_due() || pick.below(10) == 0 {
            let held: Vec<_> =
                w.rx.intake
                    .queue
                    .ranges()
                    .map(|r| (w.rx.intake.seq(r.start), w.rx.intake.seq(r.end)))
                    .collect();
            let dsack = w.rx.sacks.dsack().is_some();
            let blocks = w.rx.sack_blocks(4);
            assert!(sack || blocks.is_empty());
            // A block may be a part of what is held: what a forgotten one had is not shown again.
            let shown = |b: &(Seq, Seq)| held.iter().any(|h| h.0.at_or_before(b.0) && b.1.at_or_before(h.1));
            assert!(blocks.iter().skip(usize::from(dsack)).all(shown), "{blocks:?} {held:?}");
            w.ack();
            let new = w.rx.window().right_edge();
            // It moves left only to tell that something was just refused.
            let drops = w.count.tcp_ext.tcp_rcv_q_drop;
            let shut = core::mem::replace(&mut refused, drops) != drops && w.rx.window().wnd() == 0;
            assert!(new.at_or_after(edge) || shut, "seed {seed}: the right edge moved left");
            edge = new;
        }
        assert!(w.rx.charge() <= w.rx.window().buf().bytes + 20_000, "seed {seed}: over the limit");
    }
    assert_eq!((read, w.rx.charge()), (len, 0));
}

#[test]
fn random_connections_keep_their_promises() {
    for seed in 0..300 {
        run(seed);
    }
}
