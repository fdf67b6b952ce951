//! Loss: three SACKs or the timer bring it back, windows shrink as RFC 9260 has it, reneging is survived.
use crate::world::*;
use lowwater_core::base::{Duration, Error, SocketId};
use lowwater_core::sctp::{SctpOptions, SendInfo, State};
use lowwater_wire::sctp::chunk_kind as kind;
use std::cell::RefCell;
use std::rc::Rc;

fn prompt(w: &World) -> SctpOptions {
    SctpOptions { nodelay: true, pacing: false, ..w.options() }
}

/// Loses the first transmission of the `n`-th TSN that is sent from now on.
fn lose_nth(w: &mut World, n: u32) -> Rc<RefCell<Vec<u32>>> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&seen);
    w.rule = Box::new(move |c| {
        let mut lose = false;
        for tsn in c.tsns() {
            let mut seen = log.borrow_mut();
            lose |= !seen.contains(&tsn) && seen.len() as u32 == n;
            seen.push(tsn);
        }
        if lose { Fate::Lose } else { Fate::Deliver(ms(10)) }
    });
    seen
}

fn warm_up(w: &mut World, a: SocketId, b: SocketId) {
    for _ in 0..40 {
        w.send(A, a, &[1; 1_400], SendInfo::default());
    }
    w.pass(Duration::from_secs(5));
    assert_eq!(w.messages(B, b).len(), 40);
    assert_eq!(w.info(A, a).unacked, 0);
}

#[test]
fn three_sacks_that_miss_a_chunk_send_it_again_at_once() {
    let mut w = World::new();
    let options = prompt(&w);
    let (a, b) = w.associated(options.clone(), options);
    warm_up(&mut w, a, b);
    let before = w.info(A, a).paths[0].clone();
    let seen = lose_nth(&mut w, 0);
    let start = w.now;
    for _ in 0..5 {
        w.send(A, a, &[2; 1_400], SendInfo::default());
    }
    w.pass(ms(1));
    let mut got = 0;
    assert!(w.run(Duration::from_secs(10), |w| {
        got += w.messages(B, b).len();
        got == 5
    }));
    let sctp = &w.stacks[A].counters().sctp;
    assert_eq!((sctp.fast_retransmits, sctp.t3_rtx_expireds), (1, 0));
    assert!(w.now.since(start) < ms(100), "{:?}", w.now.since(start));
    let first = seen.borrow()[0];
    assert_eq!(seen.borrow().iter().filter(|t| **t == first).count(), 2);
    let after = w.info(A, a).paths[0].clone();
    let halved = (before.cwnd / 2).max(4 * 1_468);
    assert_eq!(after.ssthresh, halved);
}

#[test]
fn the_last_chunk_comes_back_by_the_timer_and_the_window_is_one_packet() {
    let mut w = World::new();
    let mut options = prompt(&w);
    // A HEARTBEAT to the path that is potentially failed would give a sample.
    options.path.hb_enable = false;
    let (a, b) = w.associated(options.clone(), options);
    warm_up(&mut w, a, b);
    lose_nth(&mut w, 2);
    let start = w.now;
    for _ in 0..3 {
        w.send(A, a, &[3; 1_400], SendInfo::default());
    }
    assert!(w.run(Duration::from_secs(10), |w| w.stacks[A].counters().sctp.t3_rtx_expireds == 1));
    // RTO.Min is a second, T3 runs from the SACK that acknowledged the one before.
    let waited = w.now.since(start);
    assert!((ms(1_000)..ms(1_300)).contains(&waited), "{waited:?}");
    assert_eq!(w.info(A, a).paths[0].cwnd, 1_468);
    assert_eq!(w.info(A, a).paths[0].rto, Duration::from_secs(2));
    w.pass(ms(50));
    assert_eq!(w.messages(B, b).len(), 3);
    w.pass(ms(500));
    // A chunk that was sent twice gives no sample, and the backoff stays until one does (Karn).
    assert_eq!(w.info(A, a).paths[0].rto, Duration::from_secs(2));
    assert_eq!(w.info(A, a).errors, 0);
}

#[test]
fn a_peer_that_is_gone_ends_the_association_after_association_max_retrans() {
    let mut w = World::new();
    let (a, _) = w.pair();
    w.rule = Box::new(|_| Fate::Lose);
    w.send(A, a, b"anybody there?", SendInfo::default());
    assert!(w.run(Duration::from_secs(3_000), |w| w.info(A, a).state == State::Closed));
    let sctp = &w.stacks[A].counters().sctp;
    // The tenth error in a row is survived, the eleventh is not; heartbeats may be among them.
    assert_eq!(sctp.aborteds, 1);
    assert!(sctp.t3_rtx_expireds <= 11, "{sctp:?}");
    assert!(w.stacks[A].counters().sctp.curr_estab == 0);
    assert_eq!(w.stacks[A].take_error(a), Some(Error::TimedOut));
}

/// Who gives up says so (Linux `sctp_cmd_assoc_failed`): a peer that still hears us does not wait for its own HEARTBEATs.
#[test]
fn the_end_by_association_max_retrans_is_told() {
    let mut w = World::new();
    let (a, b) = w.pair();
    w.rule = Box::new(|c| if c.from == B { Fate::Lose } else { Fate::Deliver(ms(10)) });
    w.send(A, a, b"anybody there?", SendInfo::default());
    assert!(w.run(Duration::from_secs(3_000), |w| w.info(A, a).state == State::Closed));
    w.pass(ms(20));
    let last = w.log.iter().rev().find(|l| l.from == A).expect("it spoke");
    assert_eq!(last.kinds, [kind::ABORT]);
    assert_eq!((w.info(B, b).state, w.stacks[B].take_error(b)), (State::Closed, Some(Error::Reset)));
}

#[test]
fn a_sack_is_delayed_for_the_second_packet_or_the_timeout_and_the_i_bit_asks_for_it() {
    let mut w = World::new();
    let options = prompt(&w);
    let (a, _b) = w.associated(options.clone(), options);
    // The first packet of all is acknowledged at once.
    w.send(A, a, b"0", SendInfo::default());
    w.pass(ms(100));
    assert_eq!(w.sent(B, kind::SACK), 1);
    let start = w.now;
    w.send(A, a, b"1", SendInfo::default());
    w.pass(ms(500));
    let sack = w.log.iter().rev().find(|l| l.kinds.contains(&kind::SACK)).expect("sent");
    assert_eq!(sack.at.since(start), ms(210));
    assert_eq!(w.stacks[B].counters().sctp.delay_sack_expireds, 1);
    w.send(A, a, b"2", SendInfo::default());
    w.send(A, a, b"3", SendInfo { stream: 1, ..SendInfo::default() });
    w.pass(ms(1));
    w.send(A, a, b"4", SendInfo::default());
    w.pass(ms(40));
    assert_eq!(w.sent(B, kind::SACK), 3, "the second packet");
    w.pass(ms(300));
    let before = w.sent(B, kind::SACK);
    w.send(A, a, b"5", SendInfo { immediate: true, ..SendInfo::default() });
    w.pass(ms(30));
    assert_eq!(w.sent(B, kind::SACK), before + 1, "the I bit");
}

#[test]
fn max_burst_holds_what_nobody_paces_and_pacing_spreads_the_rest() {
    for pacing in [false, true] {
        let mut w = World::new();
        let options = SctpOptions { pacing, ..prompt(&w) };
        let (a, b) = w.associated(options.clone(), options);
        warm_up(&mut w, a, b);
        for _ in 0..40 {
            w.send(A, a, &[1; 1_400], SendInfo::default());
        }
        w.pass(Duration::from_secs(3));
        let (mut most, mut run, mut last) = (0, 0, None);
        let data = w.log.iter().filter(|l| l.from == A && l.kinds.contains(&kind::DATA)).skip(40);
        for line in data {
            run = if last == Some(line.at) { run + 1 } else { 1 };
            most = most.max(run);
            last = Some(line.at);
        }
        assert!(most <= if pacing { 2 } else { 4 }, "pacing {pacing}: {most} packets at once");
        assert!(pacing || most == 4, "pacing {pacing}: {most} packets at once");
    }
}

#[test]
fn chunks_that_a_path_has_become_too_narrow_for_go_alone() {
    let mut w = World::new();
    let options = prompt(&w);
    let (a, b) = w.associated(options.clone(), options);
    let port = w.stacks[A].local_addr(a).unwrap().port();
    let tag = w.info(A, a).tags.1;
    w.rule = Box::new(|_| Fate::Lose);
    for n in 0..2 {
        w.send(A, a, &[n; 1_452], SendInfo::default());
    }
    w.send(A, a, b"small", SendInfo::default());
    w.pass(ms(1));
    w.rule = Box::new(|_| Fate::Deliver(ms(10)));
    w.log.clear();
    w.too_big(A, (port, 5_000), tag, 1_400);
    w.pass(Duration::from_secs(5));
    assert_eq!(w.info(A, a).paths[0].mtu, 1_400);
    let got: Vec<usize> = w.messages(B, b).iter().map(Vec::len).collect();
    assert_eq!(got, [1_452, 1_452, 5]);
    // Two fragments of each, and nothing that is wider than the path.
    assert_eq!(w.log.iter().filter(|l| l.from == A && l.kinds.is_empty()).count(), 4, "{:?}", w.log);
    assert!(w.log.iter().all(|l| l.bytes <= 1_400), "{:?}", w.log);
    // The small one behind them had been lost, too.
    let count = w.stacks[A].counters();
    let occasions = (count.sctp.pmtud_retransmits, count.sctp.t3_retransmits);
    assert_eq!((occasions, count.own.sctp_chunks_again), ((1, 1), 3));
}

#[test]
fn after_a_timeout_one_packet_goes_until_something_is_acknowledged() {
    let mut w = World::new();
    let options = prompt(&w);
    let (a, b) = w.associated(options.clone(), options);
    warm_up(&mut w, a, b);
    let lossy = w.now + ms(500);
    w.rule = Box::new(move |c| match c.from {
        _ if c.now < lossy => Fate::Lose,
        A => Fate::Deliver(ms(10)),
        _ => Fate::Deliver(ms(90)),
    });
    // Two do not fit one packet, and one leaves room in the window of a packet.
    for _ in 0..6 {
        w.send(A, a, &[3; 1_000], SendInfo::default());
    }
    assert!(w.run(Duration::from_secs(10), |w| w.stacks[A].counters().sctp.t3_rtx_expireds == 1));
    let timeout = w.now;
    w.pass(ms(80));
    let again = w.log.iter().filter(|l| l.from == A && l.at >= timeout && l.kinds.contains(&kind::DATA));
    assert_eq!(again.count(), 1, "{:?}", w.log);
    w.pass(Duration::from_secs(10));
    assert_eq!(w.messages(B, b).len(), 6);
}

/// A router that has less room than is believed may cut the packets, also those that were as short as that before.
#[test]
fn packets_of_a_path_at_the_floor_may_be_cut_where_there_is_less_room() {
    let mut w = World::new();
    let (a, b) = w.pair();
    let now = w.now;
    let mut options = w.stacks[A].sctp_options(a).unwrap().clone();
    options.path.pmtu = 552;
    w.stacks[A].sctp_set_options(now, a, options).unwrap();
    let (port, tag) = (w.stacks[A].local_addr(a).unwrap().port(), w.info(A, a).tags.1);
    let whole: Rc<RefCell<Vec<bool>>> = Rc::default();
    let seen = whole.clone();
    w.rewrite = Some(Box::new(move |from, ip| {
        if from == A {
            seen.borrow_mut().push(ip[6] & 0x40 != 0);
        }
    }));
    for less in [false, true] {
        if less {
            w.too_big(A, (port, 5_000), tag, 400);
        }
        whole.borrow_mut().clear();
        w.send(A, a, &[7; 480], SendInfo::default());
        w.pass(ms(100));
        assert_eq!(w.messages(B, b).len(), 1);
        assert!(!whole.borrow().is_empty() && whole.borrow().iter().all(|df| *df != less), "{whole:?}");
    }
}
