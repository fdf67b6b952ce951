//! The controllers that TCP has too, on the paths of an association: CUBIC beside TCP's, BBR's short queue, failover, marks, idleness.
use crate::world::*;
use bytes::Bytes;
use lowwater_core::base::sysctl::{SctpCongestionKind as Kind, Triple};
use lowwater_core::base::{Duration, Error, Instant, SocketId, Sysctl};
use lowwater_core::device::DeviceCaps;
use lowwater_core::sctp::{PathInfo, SctpOptions, SendInfo};
use lowwater_core::stack::{ListenAddr, ListenOptions};
use lowwater_core::tcp::{SendFlags, SocketOptions};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

/// User data of a full packet, and its chunk.
const FULL: usize = 1_452;
const PMDCS: u32 = 1_468;
/// What is longer carries data.
const DATA_MIN: usize = 100;
const BUFFER: u32 = 8 << 20;

/// A line behind the sender: so many bytes a second behind a buffer, then a delay.
#[derive(Default)]
struct Bottleneck {
    rate: u64,
    buffer: u64,
    delay: Duration,
    /// Packets with data, counted from 0, that are lost on the way.
    lose: Vec<u64>,
    free: Instant,
    packets: u64,
    dropped: u64,
    /// Time that each packet waited, in nanoseconds, and when it came.
    waits: Vec<(Instant, u64)>,
    /// Most packets that came at one instant since the last look.
    burst: (Instant, u64, u64),
}

impl Bottleneck {
    fn of(rate: u64, buffer: u64, delay: Duration) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self { rate, buffer, delay, ..Self::default() }))
    }

    fn carry(&mut self, now: Instant, bytes: usize) -> Fate {
        let (at, n, most) = self.burst;
        let n = if at == now { n + 1 } else { 1 };
        self.burst = (now, n, most.max(n));
        let number = self.packets;
        self.packets += 1;
        if self.lose.contains(&number) {
            return Fate::Lose;
        }
        let wait = self.free.nanos_since(now);
        if wait * self.rate / 1_000_000_000 > self.buffer {
            self.dropped += 1;
            return Fate::Lose;
        }
        self.waits.push((now, wait));
        self.free = self.free.max(now).plus_nanos(bytes as u64 * 1_000_000_000 / self.rate);
        Fate::Deliver(self.free.since(now) + self.delay)
    }

    /// Mean time in the buffer since `from`, in milliseconds.
    fn mean_wait_ms(&self, from: Instant) -> f64 {
        let waits: Vec<f64> = self.waits.iter().filter(|w| w.0 >= from).map(|w| w.1 as f64 / 1e6).collect();
        waits.iter().sum::<f64>() / waits.len().max(1) as f64
    }
}

/// Packets of host A with data cross `line`, everything else is only delayed. Other links have no line.
fn through(w: &mut World, line: &Rc<RefCell<Bottleneck>>) {
    let line = Rc::clone(line);
    w.rule = Box::new(move |c| {
        let bytes = c.chunks.len() + 32;
        if c.from == A && c.link == 0 && bytes > DATA_MIN {
            line.borrow_mut().carry(c.now, bytes)
        } else {
            Fate::Deliver(line.borrow().delay)
        }
    });
}

fn large() -> Sysctl {
    let triple = Triple { min: 4_096, default: BUFFER, max: BUFFER };
    Sysctl { hystart: 0, tcp_rmem: triple, tcp_wmem: triple, ..Sysctl::default() }
}

fn world(links: usize, sysctl: &Sysctl) -> World {
    World::of(&vec![DeviceCaps::plain(1_500); links], sysctl, 1)
}

fn wide(w: &World, congestion: Kind) -> SctpOptions {
    SctpOptions { congestion, sndbuf: BUFFER, rcvbuf: 2 * BUFFER, ..w.options() }
}

fn fill(w: &mut World, a: SocketId, len: usize) {
    const ZEROS: &[u8] = &[0; FULL];
    let now = w.now;
    loop {
        match w.stacks[A].sctp_send(now, a, Bytes::from_static(&ZEROS[..len]), SendInfo::default()) {
            Ok(_) => {}
            Err(Error::WouldBlock) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Sends messages of `len` bytes for `time`, as many as go; what has come.
fn bulk(w: &mut World, (a, b): (SocketId, SocketId), len: usize, time: Duration) -> usize {
    let until = w.now + time;
    let mut bytes = 0;
    w.run(time, |w| {
        fill(w, a, len);
        bytes += w.messages(B, b).iter().map(Vec::len).sum::<usize>();
        w.now >= until
    });
    bytes
}

fn path(w: &World, a: SocketId, n: usize) -> PathInfo {
    w.info(A, a).paths[n].clone()
}

/// Windows in packets of a bulk flow with these losses: after each one those of every 500 ms from 500 ms on.
fn windows(time: Duration, lose: &[u64], tcp: bool) -> Vec<Vec<u32>> {
    let sysctl = large();
    let mut w = world(1, &sysctl);
    let line = Bottleneck::of(1 << 40, 1 << 40, ms(50));
    line.borrow_mut().lose = lose.to_vec();
    through(&mut w, &line);
    let (mut all, mut next): (Vec<Vec<u32>>, Instant) = (Vec::new(), w.now);
    let mut sample = |now: Instant, cwnd: u32| {
        let lost = lose.iter().filter(|n| line.borrow().packets > **n).count();
        if all.len() < lost {
            all.push(Vec::new());
            next = now + ms(500);
        } else if now >= next && lost > 0 {
            all[lost - 1].push(cwnd);
            next += ms(500);
        }
    };
    if tcp {
        let now = w.now;
        let addr = ListenAddr { ip: None, port: Some(80) };
        let options = SocketOptions::new(&sysctl);
        let listener = w.stacks[B].tcp_listen(now, addr, ListenOptions::new(options.clone())).unwrap();
        let a = w.stacks[A].tcp_connect(now, SocketAddr::new(ip(0, B), 80), None, &options).unwrap();
        let mut b = None;
        w.run(time, |w| {
            let now = w.now;
            b = b.or_else(|| w.stacks[B].tcp_accept(now, listener).ok().map(|(id, _)| id));
            while w.stacks[A].tcp_send(now, a, &[0; 65_536], SendFlags::default()).is_ok_and(|n| n > 0) {}
            if let Some(b) = b {
                while w.stacks[B].tcp_recv(now, b, &mut [0; 65_536], false).is_ok_and(|n| n > 0) {}
            }
            sample(now, w.stacks[A].tcp_info(Instant::ZERO, a).unwrap().snd_cwnd);
            false
        });
    } else {
        let options = wide(&w, Kind::Cubic);
        let (a, b) = w.associated(options.clone(), options);
        w.run(time, |w| {
            fill(w, a, FULL);
            w.read(B, b);
            sample(w.now, path(w, a, 0).cwnd / PMDCS);
            false
        });
    }
    all
}

#[test]
fn cubic_on_a_path_grows_as_tcps_does_and_as_rfc_9438_has_it() {
    let time = Duration::from_secs(14);
    let lose = [300, 12_000];
    let (ours, tcp) = (windows(time, &lose, false), windows(time, &lose, true));
    assert_eq!((ours.len(), tcp.len()), (2, 2), "{ours:?} {tcp:?}");
    for (ours, tcp) in ours.iter().zip(&tcp) {
        let both = ours.len().min(tcp.len());
        assert!(both >= 6, "{ours:?} {tcp:?}");
        for (ours, tcp) in ours.iter().zip(tcp) {
            assert!(ours.abs_diff(*tcp) * 100 <= 6 * tcp, "{ours} packets, TCP {tcp}");
        }
    }
    // W_cubic(t) = C (t - K)^3 + W_max; the cut came a round trip after the loss, with 302 packets in the window.
    let (before, beta, c) = (302.0, 0.7, 0.4);
    let k = f64::cbrt(before * (1.0 - beta) / c);
    for (n, window) in ours[0].iter().enumerate() {
        let t = 0.5 * (n + 1) as f64 - 0.1;
        let want = c * (t - k).powi(3) + before;
        assert!(
            (f64::from(*window) - want).abs() < 0.04 * want,
            "{t} s: {window} packets, {want} by the RFC"
        );
    }
}

/// What one path waits for is no reason for another's window: it grows by what its own SACKs newly acknowledge.
#[test]
fn cubics_window_grows_while_another_path_holds_the_cumulative_tsn_back() {
    let mut w = world(2, &large());
    let options = wide(&w, Kind::Cubic);
    let (a, b) = w.associated(options.clone(), options);
    w.pass(ms(500));
    w.rule = Box::new(|c| match (c.link, c.from) {
        (1, A) => Fate::Lose,
        _ => Fate::Deliver(ms(20)),
    });
    let now = w.now;
    let there = SendInfo { to: Some(ip(1, B)), ..SendInfo::default() };
    w.stacks[A].sctp_send(now, a, Bytes::from_static(&[1; FULL]), there).unwrap();
    w.pass(ms(1));
    let before = path(&w, a, 0).cwnd;
    for _ in 0..40 {
        w.send(A, a, &[2; FULL], SendInfo { unordered: true, ..SendInfo::default() });
    }
    let held = w.info(B, b).cum_tsn;
    // Less than the timeout of the path that loses.
    w.pass(ms(400));
    assert_eq!(w.info(B, b).cum_tsn, held, "the first is missing");
    let after = path(&w, a, 0);
    assert!(after.cwnd >= before + 10 * PMDCS, "{before} and then {}", after.cwnd);
    assert_eq!(path(&w, a, 1).flight, FULL as u32);
}

/// A line of 20 Mbit/s and 40 ms of round trip with a buffer of 400 ms, filled by messages of `len` bytes: the share of the line that
/// was used from the fifth second on, and the mean time in the buffer in milliseconds.
fn queue(congestion: Kind, len: usize) -> (f64, f64, PathInfo) {
    const RATE: u64 = 2_500_000;
    let mut w = world(1, &large());
    let line = Bottleneck::of(RATE, 1_000_000, ms(20));
    through(&mut w, &line);
    let options = SctpOptions { pacing: congestion != Kind::Bbr, ..wide(&w, congestion) };
    let pair = w.associated(options.clone(), options);
    bulk(&mut w, pair, len, Duration::from_secs(5));
    let from = w.now;
    let got = bulk(&mut w, pair, len, Duration::from_secs(10));
    let wire = FULL / len * (16 + len.next_multiple_of(4)) + 32;
    let payload = (FULL / len * len) as f64 / wire as f64;
    let used = got as f64 / 10.0 / (RATE as f64 * payload);
    let wait = line.borrow().mean_wait_ms(from);
    println!(
        "{}, messages of {len} bytes: {used:.3} of the line, {wait:.1} ms in its buffer",
        congestion.name()
    );
    (used, wait, path(&w, pair.0, 0))
}

#[test]
fn bbr_keeps_the_queue_of_the_bottleneck_short_and_the_line_full() {
    let (used, wait, info) = queue(Kind::Rfc9260, FULL);
    assert!(used > 0.95 && wait > 150.0, "{used} of the line, {wait} ms in its buffer");
    assert_eq!((info.congestion, info.controller), (Kind::Rfc9260, None));
    // With messages of a tenth of a packet too, whose headers take a seventh of it.
    for len in [FULL, 104] {
        let (used, wait, info) = queue(Kind::Bbr, len);
        assert!(used > 0.93 && wait < 15.0, "{len} bytes: {used} of the line, {wait} ms in its buffer");
        let bbr = info.controller.and_then(|c| c.bbr).expect("it is BBR's");
        assert!((2_200_000..=2_700_000).contains(&bbr.bw), "{bbr:?}");
        assert!((40_000..45_000).contains(&bbr.min_rtt), "{bbr:?}");
    }
}

#[test]
fn cubic_uses_the_line_and_comes_back_from_what_the_buffer_drops() {
    let (used, wait, info) = queue(Kind::Cubic, FULL);
    assert!(used > 0.95 && wait > 100.0, "{used} of the line, {wait} ms in its buffer");
    assert!(info.controller.is_some_and(|c| c.delivery_rate.is_some_and(|r| r > 2_300_000)), "{info:?}");
}

#[test]
fn each_path_has_a_controller_of_its_own() {
    let mut w = world(2, &large());
    let lines =
        [(2_500_000, ms(20)), (500_000, ms(5))].map(|(rate, delay)| Bottleneck::of(rate, 300_000, delay));
    let dark = Rc::new(RefCell::new(false));
    let off = Rc::clone(&dark);
    w.rule = Box::new(move |c| {
        let mut line = lines[c.link].borrow_mut();
        match (c.link, c.from, c.chunks.len() + 32) {
            (0, ..) if *off.borrow() => Fate::Lose,
            (_, A, bytes) if bytes > DATA_MIN => line.carry(c.now, bytes),
            _ => Fate::Deliver(line.delay),
        }
    });
    let options = wide(&w, Kind::Bbr);
    let pair = w.associated(options.clone(), options);
    w.pass(ms(500));
    bulk(&mut w, pair, FULL, Duration::from_secs(6));
    let bw = |w: &World, n| path(w, pair.0, n).controller.and_then(|c| c.bbr).map(|b| (b.bw, b.min_rtt));
    let first = bw(&w, 0).expect("in use");
    assert!((2_200_000..2_700_000).contains(&first.0), "{first:?}");
    assert_eq!(bw(&w, 1), None, "a path without data has none");
    *dark.borrow_mut() = true;
    bulk(&mut w, pair, FULL, Duration::from_secs(8));
    assert!(path(&w, pair.0, 1).active);
    let second = bw(&w, 1).expect("in use");
    assert!((430_000..540_000).contains(&second.0) && (10_000..16_000).contains(&second.1), "{second:?}");
    assert_eq!(bw(&w, 0).map(|b| b.1), Some(first.1), "what the other one knew is as it was");
    assert_eq!(path(&w, pair.0, 0).flight, 0);
    *dark.borrow_mut() = false;
    bulk(&mut w, pair, FULL, Duration::from_secs(30));
    assert!(path(&w, pair.0, 0).active);
    let again = bw(&w, 0).expect("in use");
    assert!((2_200_000..2_700_000).contains(&again.0), "{again:?}");
    let quiet = bw(&w, 1).map(|b| b.0);
    assert!(quiet.is_some_and(|bw| (430_000..540_000).contains(&bw)), "{quiet:?}");
}

#[test]
fn bbr_is_paced_whatever_the_option_says_and_begins_again_at_its_rate() {
    let mut w = world(1, &large());
    let line = Bottleneck::of(2_500_000, 1_000_000, ms(20));
    through(&mut w, &line);
    let options = SctpOptions { pacing: false, ..wide(&w, Kind::Bbr) };
    let pair = w.associated(options.clone(), options);
    bulk(&mut w, pair, FULL, Duration::from_secs(4));
    w.pass(Duration::from_secs(5));
    w.read(B, pair.1);
    assert_eq!(path(&w, pair.0, 0).flight, 0);
    let (dropped, before) = (line.borrow().dropped, path(&w, pair.0, 0));
    line.borrow_mut().burst = (Instant::ZERO, 0, 0);
    let from = w.now;
    let got = bulk(&mut w, pair, FULL, Duration::from_secs(1));
    // A millisecond of the rate at a time, at the rate that was known: neither a burst nor a slow start.
    let most = line.borrow().burst.2;
    assert!(most <= 4, "{most} packets at once");
    assert!(got as f64 > 0.9 * 2_500_000.0 * 0.96, "{got} bytes in the first second");
    assert!(line.borrow().mean_wait_ms(from) < 15.0);
    assert_eq!(line.borrow().dropped, dropped);
    assert!(before.cwnd > 40 * PMDCS, "an idle window of a controller that governs stays: {before:?}");
}

/// Where the owner wants no pacing, what BBR has sent still keeps back the first packet behind another switch to it.
#[test]
fn who_comes_back_to_bbr_asks_the_pace_with_the_first_packet() {
    let next = |switches: &[Kind]| {
        let mut w = world(1, &large());
        let line = Bottleneck::of(125_000, 100_000, ms(20));
        through(&mut w, &line);
        let options = SctpOptions { pacing: false, ..wide(&w, Kind::Bbr) };
        let pair = w.associated(options.clone(), options.clone());
        bulk(&mut w, pair, FULL, Duration::from_secs(3));
        // One leaves that the next has to wait behind, and what is acknowledged leaves room for a write.
        w.run(ms(50), |_| false);
        let sent = line.borrow().packets;
        w.run(ms(100), |_| line.borrow().packets > sent);
        let (from, sent) = (w.now, line.borrow().packets);
        for kind in switches {
            let options = SctpOptions { congestion: *kind, ..options.clone() };
            w.stacks[A].sctp_set_options(from, pair.0, options).unwrap();
        }
        // A write has it look for what may go.
        fill(&mut w, pair.0, FULL);
        w.run(ms(100), |_| line.borrow().packets > sent);
        w.now.since(from)
    };
    let paced = next(&[]);
    assert!((ms(1)..ms(20)).contains(&paced), "{paced:?}");
    assert_eq!(next(&[Kind::Cubic, Kind::Bbr]), paced);
    assert!(next(&[Kind::Cubic]) < paced, "it has nobody to ask");
}

#[test]
fn an_idle_window_of_cubic_halves_with_every_timeout_and_does_not_jump() {
    let mut w = world(1, &large());
    let line = Bottleneck::of(1 << 40, 1 << 40, ms(20));
    line.borrow_mut().lose = vec![400];
    through(&mut w, &line);
    let mut options = wide(&w, Kind::Cubic);
    options.path.hb_enable = false;
    let pair = w.associated(options.clone(), options);
    bulk(&mut w, pair, FULL, Duration::from_secs(3));
    let drain = |w: &mut World| {
        assert!(w.run(Duration::from_secs(60), |w| {
            w.read(B, pair.1);
            w.info(A, pair.0).unacked == 0 && w.info(A, pair.0).unsent_bytes == 0
        }));
    };
    let send = |w: &mut World, n: usize| {
        for _ in 0..n {
            w.send(A, pair.0, &[0; FULL], SendInfo::default());
        }
    };
    drain(&mut w);
    let before = path(&w, pair.0, 0);
    assert_eq!((before.flight, before.rto), (0, ms(1_000)));
    // Two timeouts and a half.
    w.pass(ms(2_460));
    send(&mut w, 1);
    w.pass(ms(1));
    let after = path(&w, pair.0, 0);
    assert_eq!(after.cwnd / PMDCS, before.cwnd / PMDCS / 4, "{before:?} {after:?}");
    assert!(after.ssthresh >= before.cwnd / 4 * 3 - PMDCS, "{before:?} {after:?}");
    // A minute of nothing leaves four packets, and what comes then grows by slow start, not by the time that has passed.
    drain(&mut w);
    w.pass(Duration::from_secs(60));
    send(&mut w, 20);
    w.pass(ms(1));
    assert_eq!(path(&w, pair.0, 0).cwnd, 4 * PMDCS);
    w.pass(ms(45));
    let grown = path(&w, pair.0, 0).cwnd / PMDCS;
    assert!((5..=8).contains(&grown), "{grown} packets after a round trip");
}

/// The window of an hour ago says nothing, whoever has moved it since and however long the timeout is (section 7.2.1).
#[test]
fn no_window_outlives_an_hour_of_nothing() {
    for (before, after, rto) in [
        (Kind::Rfc9260, Kind::Cubic, 1_000),
        (Kind::Cubic, Kind::Cubic, 1_000),
        (Kind::Cubic, Kind::Cubic, 60_000),
        (Kind::Cubic, Kind::Rfc9260, 60_000),
    ] {
        let mut w = world(1, &large());
        let line = Bottleneck::of(1 << 40, 1 << 40, ms(20));
        through(&mut w, &line);
        let mut options = wide(&w, before);
        options.rto.min_ms = rto;
        let (a, b) = w.associated(options.clone(), options.clone());
        bulk(&mut w, (a, b), FULL, ms(500));
        assert!(path(&w, a, 0).cwnd > 100 * PMDCS);
        w.run(Duration::from_secs(60), |w| {
            w.read(B, b);
            w.info(A, a).unacked == 0 && w.info(A, a).unsent_bytes == 0
        });
        w.pass(Duration::from_secs(3_600));
        let now = w.now;
        w.stacks[A].sctp_set_options(now, a, SctpOptions { congestion: after, ..options }).unwrap();
        w.send(A, a, &[0; FULL], SendInfo::default());
        w.pass(ms(1));
        let cwnd = path(&w, a, 0).cwnd;
        assert!(cwnd <= 4 * PMDCS, "{before:?}, {after:?}, {rto} ms: {} packets", cwnd / PMDCS);
    }
}

/// So it is after ten seconds where the timeout is longer than that.
#[test]
fn a_path_that_rests_keeps_four_packets_and_remembers_where_slow_start_ended() {
    let mut w = world(1, &large());
    let line = Bottleneck::of(1 << 40, 1 << 40, ms(20));
    line.borrow_mut().lose = vec![400];
    through(&mut w, &line);
    let mut options = wide(&w, Kind::Cubic);
    options.rto.min_ms = 60_000;
    let (a, b) = w.associated(options.clone(), options);
    bulk(&mut w, (a, b), FULL, Duration::from_secs(3));
    w.run(Duration::from_secs(60), |w| {
        w.read(B, b);
        w.info(A, a).unacked == 0 && w.info(A, a).unsent_bytes == 0
    });
    let before = path(&w, a, 0);
    // Its heartbeat is due in two minutes at the latest.
    w.pass(Duration::from_secs(125));
    let after = path(&w, a, 0);
    assert_eq!(after.cwnd, 4 * PMDCS, "{before:?} {after:?}");
    assert!(after.ssthresh >= before.cwnd / 4 * 3 - PMDCS, "{before:?} {after:?}");
}

#[test]
fn an_application_that_sends_little_proves_nothing() {
    for kind in [Kind::Cubic, Kind::Bbr] {
        let mut w = world(1, &large());
        let line = Bottleneck::of(2_500_000, 1_000_000, ms(20));
        line.borrow_mut().lose = vec![100];
        through(&mut w, &line);
        let options = SctpOptions { nodelay: true, ..wide(&w, kind) };
        let pair = w.associated(options.clone(), options);
        bulk(&mut w, pair, FULL, Duration::from_secs(4));
        assert!(w.run(Duration::from_secs(60), |w| {
            w.read(B, pair.1);
            w.info(A, pair.0).unacked == 0 && w.info(A, pair.0).unsent_bytes == 0
        }));
        let before = path(&w, pair.0, 0);
        // A seventh of what the line carries, for more than a hundred round trips.
        for _ in 0..250 {
            for _ in 0..5 {
                w.send(A, pair.0, &[0; FULL], SendInfo::default());
            }
            w.pass(ms(20));
            w.read(B, pair.1);
        }
        let after = path(&w, pair.0, 0);
        if kind == Kind::Cubic {
            assert!(after.cwnd <= before.cwnd + PMDCS && after.cwnd > 20 * PMDCS, "{before:?} {after:?}");
        } else {
            let bw = |p: &PathInfo| p.controller.and_then(|c| c.bbr).expect("it is BBR's").bw;
            assert!(bw(&after) * 10 >= bw(&before) * 9, "{} before, {} after", bw(&before), bw(&after));
        }
    }
}

#[test]
fn a_path_forgets_what_it_knew_when_its_heartbeat_is_due_after_ten_seconds_of_nothing() {
    for kind in [Kind::Cubic, Kind::Bbr] {
        let mut w = world(1, &large());
        let line = Bottleneck::of(2_500_000, 1_000_000, ms(20));
        through(&mut w, &line);
        let mut options = wide(&w, kind);
        options.path.hb_interval_ms = 2_000;
        let pair = w.associated(options.clone(), options);
        bulk(&mut w, pair, FULL, Duration::from_secs(3));
        assert!(w.run(Duration::from_secs(60), |w| {
            w.read(B, pair.1);
            w.info(A, pair.0).unacked == 0 && w.info(A, pair.0).unsent_bytes == 0
        }));
        // Some heartbeats leave it alone.
        w.pass(Duration::from_secs(8));
        assert!(path(&w, pair.0, 0).controller.is_some(), "{kind:?}");
        w.pass(Duration::from_secs(8));
        let rested = path(&w, pair.0, 0);
        assert_eq!((rested.controller, rested.cwnd), (None, 4 * PMDCS), "{kind:?}");
        // From there on it learns anew.
        bulk(&mut w, pair, FULL, Duration::from_secs(3));
        let from = w.now;
        let got = bulk(&mut w, pair, FULL, Duration::from_secs(3));
        assert!(got > 6_500_000, "{kind:?}: {got} bytes");
        assert!(kind == Kind::Cubic || line.borrow().mean_wait_ms(from) < 15.0);
    }
}

#[test]
fn a_timeout_leaves_one_packet_and_the_window_comes_back() {
    for kind in [Kind::Cubic, Kind::Bbr] {
        let mut w = world(1, &large());
        let line = Bottleneck::of(2_500_000, 1_000_000, ms(20));
        through(&mut w, &line);
        let mut options = wide(&w, kind);
        options.path.hb_enable = false;
        let pair = w.associated(options.clone(), options);
        bulk(&mut w, pair, FULL, Duration::from_secs(2));
        let rule = std::mem::replace(&mut w.rule, Box::new(|_| Fate::Lose));
        assert!(w.run(Duration::from_secs(5), |w| w.stacks[A].counters().sctp.t3_rtx_expireds == 1));
        assert_eq!(path(&w, pair.0, 0).cwnd, PMDCS, "{kind:?}");
        w.rule = rule;
        let got = bulk(&mut w, pair, FULL, Duration::from_secs(8));
        assert!(got > 10_000_000, "{kind:?}: {got} bytes");
        let after = path(&w, pair.0, 0);
        assert!(after.cwnd > 50 * PMDCS && after.errors == 0, "{kind:?} {after:?}");
    }
}

#[test]
fn a_mark_cuts_cubics_window_once_and_leaves_bbrs() {
    for kind in [Kind::Cubic, Kind::Bbr] {
        let mut w = world(1, &large());
        let line = Bottleneck::of(2_500_000, 1_000_000, ms(20));
        // Out of slow start with as much in flight as the path holds, so that the window is the same a round trip later.
        line.borrow_mut().lose = vec![100];
        through(&mut w, &line);
        let options = wide(&w, kind);
        let pair = w.associated(options.clone(), options);
        bulk(&mut w, pair, FULL, ms(1_500));
        let before = path(&w, pair.0, 0).cwnd / PMDCS;
        w.mark = 3;
        bulk(&mut w, pair, FULL, ms(150));
        let after = path(&w, pair.0, 0).cwnd / PMDCS;
        if kind == Kind::Cubic {
            assert!(after * 100 > before * 65 && after * 100 < before * 80, "{before} before, {after} after");
        } else {
            assert!(after * 10 > before * 6, "{before} before, {after} after");
        }
    }
}

#[test]
fn one_controller_takes_over_from_another_while_data_flows() {
    let mut w = world(1, &large());
    let line = Bottleneck::of(2_500_000, 1_000_000, ms(20));
    through(&mut w, &line);
    let options = wide(&w, Kind::Rfc9260);
    let pair = w.associated(options.clone(), options.clone());
    bulk(&mut w, pair, FULL, Duration::from_secs(5));
    let before = path(&w, pair.0, 0).cwnd;
    let now = w.now;
    for kind in [Kind::Bbr, Kind::Cubic, Kind::Rfc9260, Kind::Cubic, Kind::Bbr] {
        w.stacks[A]
            .sctp_set_options(now, pair.0, SctpOptions { congestion: kind, ..options.clone() })
            .unwrap();
        let cwnd = path(&w, pair.0, 0).cwnd;
        assert!(cwnd.abs_diff(before) <= 5 * PMDCS, "{kind:?}: the window stays, {cwnd} of {before}");
    }
    bulk(&mut w, pair, FULL, Duration::from_secs(10));
    let from = w.now;
    let got = bulk(&mut w, pair, FULL, Duration::from_secs(5));
    assert!(got > 11_000_000, "{got} bytes");
    assert!(line.borrow().mean_wait_ms(from) < 15.0, "{} ms", line.borrow().mean_wait_ms(from));
    assert!(path(&w, pair.0, 0).controller.is_some_and(|c| c.bbr.is_some()));
}

#[test]
fn the_sysctl_names_what_moves_the_windows() {
    let mut sysctl = Sysctl::default();
    sysctl.set("net.sctp.congestion_control", "bbr").unwrap();
    let mut w = world(1, &sysctl);
    let (a, b) = w.pair();
    for (host, id) in [(A, a), (B, b)] {
        assert_eq!(w.info(host, id).paths[0].congestion, Kind::Bbr);
    }
    assert!(sysctl.set("sctp.congestion_control", "reno").unwrap_err().contains("rfc9260, cubic or bbr"));
}
