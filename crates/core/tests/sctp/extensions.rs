//! Extensions that both sides must offer: ECN (RFC 4960 appendix A) and partial reliability (RFC 3758).
use crate::world::*;
use lowwater_core::base::{Duration, Error, Instant, SocketId, Sysctl};
use lowwater_core::sctp::{
    AbandonedCounts, Notification, Received, Reliability, SctpOptions, SendFailed, SendInfo, State,
    Subscriptions,
};
use lowwater_wire::sctp::{Chunk, ForwardStream, GapBlock, Sack, chunk_kind as kind};

fn pair(sysctl: &Sysctl) -> (World, SocketId, SocketId) {
    let mut w = World::with(1, sysctl, 1);
    let options = SctpOptions {
        nodelay: true,
        events: Subscriptions::SEND_FAILED.with(Subscriptions::PARTIAL_DELIVERY),
        ..w.options()
    };
    let (a, b) = w.associated(options.clone(), options);
    (w, a, b)
}

fn lived(ms_: u64) -> SendInfo {
    SendInfo { reliability: Reliability::Lifetime(ms(ms_)), ..SendInfo::default() }
}

/// Messages that were given up, in order: whether they were sent, and their length.
fn failed(w: &mut World, a: SocketId) -> Vec<(bool, usize)> {
    let items = w.read(A, a).into_iter();
    items
        .filter_map(|item| match item {
            Received::Notification(Notification::SendFailed(SendFailed { sent, data, .. })) => {
                Some((sent, data.len()))
            }
            _ => None,
        })
        .collect()
}

/// Sends until the window has room for more than a dozen packets.
fn grow(w: &mut World, a: SocketId, b: SocketId) -> u32 {
    for _ in 0..60 {
        w.send(A, a, &[7; 1_400], SendInfo::default());
    }
    let mut got = 0;
    w.run(Duration::from_secs(5), |w| {
        got += w.messages(B, b).len();
        got == 60 && w.info(A, a).unacked == 0
    });
    assert_eq!(got, 60);
    w.info(A, a).paths[0].cwnd
}

#[test]
fn a_mark_is_echoed_until_it_is_answered_and_slows_the_path_down_once_in_a_window() {
    let (mut w, a, b) = pair(&Sysctl::default());
    let before = grow(&mut w, a, b);
    assert!(before > 14_000, "{before}");
    w.mark = 3;
    for _ in 0..8 {
        w.send(A, a, &[7; 1_400], SendInfo::default());
    }
    w.pass(Duration::from_secs(1));
    assert_eq!(w.mark, 0, "data may be marked");
    let path = w.info(A, a).paths[0].clone();
    assert_eq!((path.ssthresh, path.cwnd), (before / 2, before / 2));
    assert!(w.sent(A, kind::CWR) > 0);
    assert_eq!(w.messages(B, b).len(), 8);
    // What was answered is not said again.
    let echoes = w.sent(B, kind::ECNE);
    assert!(echoes > 0);
    for _ in 0..8 {
        w.send(A, a, &[7; 1_400], SendInfo::default());
    }
    w.pass(Duration::from_secs(1));
    assert_eq!(w.sent(B, kind::ECNE), echoes);
}

#[test]
fn who_does_not_offer_ecn_is_not_marked() {
    let (mut w, a, b) = pair(&Sysctl { sctp_ecn_enable: false, ..Sysctl::default() });
    w.mark = 1;
    grow(&mut w, a, b);
    assert_eq!((w.mark, w.sent(B, kind::ECNE)), (1, 0));
}

#[test]
fn a_message_that_was_lost_and_has_outlived_its_lifetime_is_skipped() {
    let (mut w, a, b) = pair(&Sysctl::default());
    w.rule = Box::new(|_| Fate::Lose);
    w.send(A, a, &[1; 100], lived(100));
    w.pass(ms(1));
    w.rule = Box::new(|_| Fate::Deliver(ms(10)));
    w.send(A, a, &[2; 100], SendInfo::default());
    w.pass(ms(500));
    // Nothing has told us that it was lost.
    assert_eq!((failed(&mut w, a), w.messages(B, b)), (vec![], Vec::<Vec<u8>>::new()));
    w.pass(Duration::from_secs(1));
    assert_eq!((failed(&mut w, a), w.messages(B, b)), (vec![(true, 100)], vec![vec![2; 100]]));
    assert_eq!((w.sent(A, kind::FORWARD_TSN), w.info(A, a).unacked), (1, 0));
    assert_eq!(w.stacks[A].counters().own.sctp_abandoned, 1);
    // The stream goes on.
    w.send(A, a, &[3; 100], SendInfo::default());
    w.pass(ms(500));
    assert_eq!(w.messages(B, b), [[3; 100]]);
}

/// Without FORWARD TSN on both sides what was sent stays to be sent.
/// What a WebRTC data channel asks for: order, and no more than so many retransmissions.
#[test]
fn a_message_goes_again_as_often_as_it_may_and_is_skipped_then() {
    for (most, sends) in [(0, 1), (1, 2), (2, 3)] {
        let (mut w, a, b) = pair(&Sysctl::default());
        w.rule = Box::new(|log| if log.from == A { Fate::Lose } else { Fate::Deliver(ms(10)) });
        let (from, info) = (
            w.log.len(),
            SendInfo { reliability: Reliability::Retransmissions(most), ..SendInfo::default() },
        );
        w.send(A, a, &[1; 100], info);
        w.pass(Duration::from_secs(20));
        let data = w.log[from..].iter().filter(|l| l.from == A && l.kinds.contains(&kind::DATA)).count();
        assert_eq!((data, failed(&mut w, a)), (sends, vec![(true, 100)]), "{most}");
        let counts = w.stacks[A].sctp_abandoned(a, None).unwrap();
        assert_eq!((counts.retransmissions.sent, counts.lifetime.sent), (1, 0));
        assert_eq!(w.stacks[A].sctp_abandoned(a, Some(1)).unwrap(), AbandonedCounts::default());
        w.rule = Box::new(|_| Fate::Deliver(ms(10)));
        w.send(A, a, &[2; 100], info);
        w.pass(Duration::from_secs(60));
        assert_eq!(w.messages(B, b), [[2; 100]], "the stream goes on");
    }
}

/// Loss by misses, in the middle of a message of many fragments, with what was not sent of it.
#[test]
fn of_messages_that_go_once_those_arrive_that_lost_nothing() {
    let (mut w, a, b) = pair(&Sysctl::default());
    let cwnd = grow(&mut w, a, b) as usize;
    let mut n = 0;
    w.rule = Box::new(move |log| {
        n += usize::from(log.from == A && log.kinds().contains(&kind::DATA));
        if n == 3 && log.from == A {
            n += 1;
            Fate::Lose
        } else {
            Fate::Deliver(ms(10))
        }
    });
    let once = SendInfo { reliability: Reliability::Retransmissions(0), ..SendInfo::default() };
    w.send(A, a, &vec![1; 2 * cwnd], once);
    w.send(A, a, &[2; 100], SendInfo::default());
    w.pass(Duration::from_secs(5));
    assert_eq!(w.messages(B, b), [[2; 100]]);
    let (count, info) = (w.stacks[A].counters().clone(), w.info(A, a));
    assert_eq!((count.own.sctp_abandoned, count.own.sctp_chunks_again), (1, 0));
    assert_eq!((info.unacked, info.unsent_bytes), (0, 0));
    assert!(info.paths[0].ssthresh < cwnd as u32, "the path was slowed down");
}

/// Whoever matters less makes room: the lost first, then what is under way, then what waits.
#[test]
fn a_full_buffer_takes_what_matters_more() {
    let (mut w, a, b) = pair(&Sysctl::default());
    let sndbuf = 4 * (1_000 + 128);
    let options = SctpOptions { sndbuf, ..w.stacks[A].sctp_options(a).unwrap().clone() };
    let now = w.now;
    w.stacks[A].sctp_set_options(now, a, options).unwrap();
    w.rule = Box::new(|log| if log.from == A { Fate::Lose } else { Fate::Deliver(ms(10)) });
    let ranked =
        |rank, stream| SendInfo { reliability: Reliability::Priority(rank), stream, ..SendInfo::default() };
    for n in 0..4 {
        w.send(A, a, &[n; 1_000], ranked(5 + u32::from(n), n.into()));
    }
    let refused = |w: &mut World, info| w.stacks[A].sctp_send(w.now, a, vec![9; 1_000].into(), info);
    assert_eq!(refused(&mut w, ranked(8, 0)), Err(Error::WouldBlock), "nobody matters less");
    assert_eq!(w.stacks[A].sctp_abandoned(a, None).unwrap(), AbandonedCounts::default());
    assert_eq!(refused(&mut w, ranked(7, 4)), Ok(1_000));
    assert_eq!(refused(&mut w, SendInfo::default()), Ok(1_000));
    let counts = w.stacks[A].sctp_abandoned(a, None).unwrap().priority;
    assert_eq!(counts.unsent + counts.sent, 2);
    assert_eq!(
        w.stacks[A].sctp_abandoned(a, Some(3)).unwrap().priority.unsent
            + w.stacks[A].sctp_abandoned(a, Some(3)).unwrap().priority.sent,
        1
    );
    w.rule = Box::new(|_| Fate::Deliver(ms(10)));
    w.pass(Duration::from_secs(20));
    let got: Vec<u8> = w.messages(B, b).iter().map(|m| m[0]).collect();
    assert_eq!((got.len(), w.info(A, a).unacked), (4, 0), "{got:?}");
    assert!(!got.contains(&3), "{got:?}");
}

#[test]
fn without_an_offer_a_lifetime_ends_only_what_was_not_sent() {
    let (mut w, a, b) = pair(&Sysctl { sctp_prsctp_enable: false, ..Sysctl::default() });
    w.rule = Box::new(|_| Fate::Lose);
    w.send(A, a, &[1; 100], lived(100));
    w.pass(ms(1));
    w.rule = Box::new(|_| Fate::Deliver(ms(10)));
    w.pass(Duration::from_secs(3));
    assert_eq!((failed(&mut w, a), w.messages(B, b)), (vec![], vec![vec![1; 100]]));
    assert_eq!(w.sent(A, kind::FORWARD_TSN), 0);
}

/// RFC 6458 section 5.3.1: what is given up need not be the message whose turn it is.
#[test]
fn a_lifetime_that_ends_behind_a_message_without_one_is_kept() {
    let (mut w, a, b) = pair(&Sysctl::default());
    w.pass(ms(100));
    w.rule = Box::new(|_| Fate::Lose);
    // The window is full, so that what follows waits.
    for _ in 0..4 {
        w.send(A, a, &[7; 1_400], SendInfo::default());
    }
    w.send(A, a, &[8; 10], SendInfo::default());
    w.send(A, a, &[9; 20], lived(300));
    w.send(A, a, &[8; 30], SendInfo::default());
    w.pass(ms(250));
    assert_eq!(failed(&mut w, a), []);
    w.pass(ms(100));
    assert_eq!(failed(&mut w, a), [(false, 20)]);
    w.rule = Box::new(|_| Fate::Deliver(ms(10)));
    let mut got = Vec::new();
    w.run(Duration::from_secs(20), |w| {
        got.extend(w.messages(B, b).iter().map(|m| m.len()));
        false
    });
    assert_eq!(got, [1_400, 1_400, 1_400, 1_400, 10, 30]);
}

#[test]
fn a_forward_tsn_that_is_lost_goes_again_and_a_shutdown_waits_for_it() {
    let (mut w, a, b) = pair(&Sysctl::default());
    let mut lost = 0;
    w.rule = Box::new(move |c| {
        let skip = c.kinds().contains(&kind::FORWARD_TSN) && lost < 2;
        lost += usize::from(skip);
        let data = c.from == A && c.kinds().contains(&kind::DATA);
        if skip || data { Fate::Lose } else { Fate::Deliver(ms(10)) }
    });
    w.send(A, a, &[1; 100], lived(100));
    let now = w.now;
    w.stacks[A].sctp_shutdown(now, a).unwrap();
    w.pass(Duration::from_secs(5));
    assert_eq!(w.info(A, a).state, State::ShutdownPending);
    w.pass(Duration::from_secs(20));
    assert_eq!((w.info(A, a).state, w.info(B, b).state), (State::Closed, State::Closed));
    assert_eq!((w.sent(A, kind::FORWARD_TSN), w.stacks[B].counters().sctp.aborteds), (3, 0));
}

/// SHUTDOWN acknowledges as a SACK does: what was given up behind it is skipped then (Linux `SCTP_CMD_PROCESS_CTSN`).
#[test]
fn a_shutdown_that_acknowledges_what_is_before_an_abandoned_message_makes_it_skipped() {
    let (mut w, a, b) = pair(&Sysctl::default());
    let no_sacks = |c: &Crossing<'_>| {
        let sack = c.from == B && c.kinds() == [kind::SACK];
        if sack { Fate::Lose } else { Fate::Deliver(ms(10)) }
    };
    w.rule = Box::new(no_sacks);
    w.send(A, a, &[1; 100], SendInfo::default());
    w.pass(ms(1));
    w.rule = Box::new(|_| Fate::Lose);
    w.send(A, a, &[2; 100], lived(100));
    w.pass(ms(1));
    w.rule = Box::new(no_sacks);
    w.pass(ms(1_200));
    assert_eq!((w.stacks[A].counters().own.sctp_abandoned, w.sent(A, kind::FORWARD_TSN)), (1, 0));
    let now = w.now;
    w.stacks[B].sctp_shutdown(now, b).unwrap();
    w.pass(Duration::from_secs(5));
    assert_eq!((w.info(A, a).state, w.info(B, b).state), (State::Closed, State::Closed));
    assert_eq!((w.stacks[A].counters().sctp.aborteds, w.stacks[B].counters().sctp.aborteds), (0, 0));
    assert_eq!(w.messages(B, b), [[1; 100]]);
}

/// A long message of which some was sent: lost, or even acknowledged. The rest gets one number, to be skipped.
#[test]
fn the_rest_of_a_message_goes_with_what_was_sent_of_it() {
    for arrives in [false, true] {
        let (mut w, a, b) = pair(&Sysctl::default());
        if !arrives {
            w.rule = Box::new(|_| Fate::Lose);
        }
        w.send(A, a, &[1; 40_000], lived(100));
        w.pass(ms(if arrives { 25 } else { 1 }));
        assert!(w.info(A, a).unsent_bytes > 10_000);
        w.rule = Box::new(|c| {
            let data = c.from == A && c.kinds().contains(&kind::DATA);
            if data { Fate::Lose } else { Fate::Deliver(ms(10)) }
        });
        w.pass(Duration::from_secs(3));
        w.rule = Box::new(|_| Fate::Deliver(ms(10)));
        let all = failed(&mut w, a);
        assert!(all.iter().map(|(_, len)| len).sum::<usize>() <= 40_000);
        assert_eq!(all.last().map(|(sent, _)| *sent), Some(false), "{all:?}");
        w.send(A, a, &[2; 100], SendInfo::default());
        w.pass(Duration::from_secs(5));
        assert_eq!(w.messages(B, b), [[2; 100]], "the first fragments have arrived: {arrives}");
        assert_eq!((w.info(A, a).unacked, w.info(B, b).state), (0, State::Established));
    }
}

/// Reads messages; the part of one whose rest was given up is dropped with the notification that says so.
fn collect(w: &mut World, b: SocketId, (got, open): &mut (Vec<Vec<u8>>, Vec<u8>)) {
    for item in w.read(B, b) {
        match item {
            Received::Data { data, eor, .. } => {
                open.extend_from_slice(&data);
                if eor {
                    got.push(core::mem::take(open));
                }
            }
            Received::Notification(Notification::PartialDeliveryAborted { .. }) => open.clear(),
            Received::Notification(_) => {}
        }
    }
}

/// What arrives of many messages with short lives is whole and in order, and nothing is left behind, whatever is lost.
#[test]
fn short_lives_over_a_network_that_loses() {
    for seed in 1..20 {
        let mut w = World::with(1, &Sysctl::default(), seed);
        let events = Subscriptions::PARTIAL_DELIVERY;
        let options = SctpOptions { nodelay: seed % 2 == 0, events, ..w.options() };
        let (a, b) = w.associated(options.clone(), options);
        let mut rng = lowwater_core::base::Rng::new(seed);
        w.rule = Box::new(move |_| match rng.below(8) {
            0 => Fate::Lose,
            1 => Fate::Deliver(ms(40)),
            _ => Fate::Deliver(ms(10)),
        });
        let (mut reader, mut lasting) = ((Vec::new(), Vec::new()), 0);
        for n in 0..300u32 {
            let len = 4 + (n as usize * 131) % 3_000;
            let data = [&n.to_be_bytes()[..], &vec![n as u8; len]].concat();
            let info = SendInfo {
                stream: (n % 3) as u16,
                unordered: n % 7 == 0,
                reliability: match n % 6 {
                    0 => Reliability::Lifetime(ms(u64::from(n % 5) * 60)),
                    2 => Reliability::Retransmissions(n % 4),
                    4 => Reliability::Priority(n % 7),
                    _ => Reliability::Full,
                },
                ..SendInfo::default()
            };
            let now = w.now;
            let taken = w.stacks[A].sctp_send(now, a, data.into(), info).is_ok();
            lasting += usize::from(taken && info.reliability == Reliability::Full);
            w.pass(ms(4));
            collect(&mut w, b, &mut reader);
        }
        // The timeouts of what is lost last have doubled often.
        for _ in 0..60 {
            w.pass(Duration::from_secs(2));
            collect(&mut w, b, &mut reader);
        }
        w.rule = Box::new(|_| Fate::Deliver(ms(10)));
        w.pass(Duration::from_secs(120));
        collect(&mut w, b, &mut reader);
        let (ours, theirs) = (w.info(A, a), w.info(B, b));
        assert_eq!((ours.unacked, ours.unsent_bytes, ours.paths[0].flight), (0, 0, 0), "seed {seed}");
        assert_eq!((ours.state, theirs.state), (State::Established, State::Established), "seed {seed}");
        let mut last = [0u32; 3];
        let mut steady = 0;
        for message in &reader.0 {
            let n = u32::from_be_bytes(message[..4].try_into().unwrap());
            assert_eq!(message.len(), 8 + (n as usize * 131) % 3_000, "seed {seed}");
            assert!(message[4..].iter().all(|byte| *byte == n as u8), "seed {seed}");
            if n % 7 != 0 {
                assert!(n >= last[n as usize % 3], "seed {seed}: in order");
                last[n as usize % 3] = n;
            }
            steady += usize::from(n % 2 == 1);
        }
        assert_eq!(steady, lasting, "seed {seed}: what has no lifetime arrives");
        assert!(w.stacks[A].counters().own.sctp_abandoned > 0, "seed {seed}");
    }
}

/// A line of 5 Mbit/s after 10 ms, with a queue of `queue` before it from host A on; nothing holds back what host B says.
fn bottleneck(queue: Duration) -> Box<dyn FnMut(&Crossing<'_>) -> Fate> {
    let mut free = Instant::ZERO;
    Box::new(move |c| {
        if c.from == B {
            return Fate::Deliver(ms(10));
        }
        let wait = free.max(c.now).since(c.now);
        if wait > queue {
            return Fate::Lose;
        }
        let takes = Duration::from_micros((c.chunks.len() as u64 + 32) * 8 / 5);
        free = c.now + wait + takes;
        Fate::Deliver(wait + takes + ms(10))
    })
}

/// Offers messages that live for 100 ms for three seconds; how many were taken and how many have come.
fn offer_all_the_time(w: &mut World, (a, b): (SocketId, SocketId), size: usize) -> (u64, u64) {
    let (end, mut taken, mut reader) = (w.now + Duration::from_secs(3), 0, (Vec::new(), Vec::new()));
    while w.now < end {
        let now = w.now;
        while w.info(A, a).unsent_bytes < 128 << 10
            && w.stacks[A].sctp_send(now, a, vec![1; size].into(), lived(100)).is_ok()
        {
            taken += 1;
        }
        w.pass(ms(1));
        collect(w, b, &mut reader);
    }
    w.pass(Duration::from_secs(10));
    collect(w, b, &mut reader);
    assert_eq!((w.info(A, a).unacked, w.info(A, a).unsent_bytes), (0, 0));
    (taken, reader.0.len() as u64)
}

/// A message is on its way for longer than it lives, and arrives: only one that is lost is given up (RFC 3758 TR4). What was given up and what
/// came are all there was.
#[test]
fn what_arrives_was_not_given_up() {
    for (size, queue) in
        [(1_000, ms(50)), (1_000, ms(200)), (1_000, Duration::from_secs(2)), (4_000, ms(200))]
    {
        let (mut w, a, b) = pair(&Sysctl::default());
        w.rule = bottleneck(queue);
        let (taken, came) = offer_all_the_time(&mut w, (a, b), size);
        let counts = w.stacks[A].sctp_abandoned(a, None).unwrap().lifetime;
        assert!(counts.unsent > 0 && came > 100, "{counts:?}, {came} came");
        assert_eq!(taken - came, counts.unsent + counts.sent, "{counts:?} of {taken}, {came} came");
    }
}

/// However short a message lives, the path slows down for its loss (RFC 3758 section 3.5 F5).
#[test]
fn a_loss_slows_down_though_the_message_has_outlived_its_time() {
    let (mut w, a, b) = pair(&Sysctl::default());
    w.rule = Box::new(|_| Fate::Deliver(ms(100)));
    grow(&mut w, a, b);
    let before = w.info(A, a).paths[0].cwnd;
    let mut n = 0;
    w.rule = Box::new(move |c| {
        n += usize::from(c.from == A && c.kinds().contains(&kind::DATA));
        if c.from == A && n == 2 { Fate::Lose } else { Fate::Deliver(ms(100)) }
    });
    for _ in 0..8 {
        w.send(A, a, &[1; 1_000], lived(50));
    }
    w.pass(Duration::from_secs(2));
    let path = w.info(A, a).paths[0].clone();
    assert!(path.ssthresh <= before / 2 + 1_500, "{before} {path:?}");
    assert_eq!((w.messages(B, b).len(), w.stacks[A].sctp_abandoned(a, None).unwrap().lifetime.sent), (7, 1));
}

/// A peer cannot skip what cannot be out, nor streams that do not exist; what is old is acknowledged and changes nothing.
#[test]
fn a_forward_tsn_that_cannot_be_is_dropped() {
    for (ahead, stream, moves) in [(5, 0, true), (5, 9_999, false), (1 << 20, 0, false), (-3, 0, false)] {
        let mut w = World::new();
        let (a, b) = w.pair();
        let theirs = SctpOptions { max_instreams: 100, ..w.options() };
        let now = w.now;
        w.stacks[B].sctp_set_options(now, b, theirs).unwrap();
        let (tag, cum) = (w.info(B, b).tags.0, w.info(B, b).cum_tsn);
        let ports = (w.stacks[A].local_addr(a).unwrap().port(), 5_000);
        w.rule = Box::new(|_| Fate::Lose);
        let streams = [ForwardStream::new(stream, 3)];
        let chunk = Chunk::ForwardTsn(cum.wrapping_add_signed(ahead), &streams);
        let mut all = vec![0; chunk.buffer_len()];
        chunk.emit(&mut all);
        w.inject(B, ports, tag, &all);
        w.pass(ms(1));
        let expected = if moves { cum.wrapping_add_signed(ahead) } else { cum };
        assert_eq!(
            (w.info(B, b).cum_tsn, w.info(B, b).state),
            (expected, State::Established),
            "{ahead} {stream}"
        );
        assert_eq!(w.sent(B, kind::SACK), 1, "the first packet of an association is acknowledged at once");
    }
}

/// What has a number keeps its length. Where the search has not seen so much pass it goes again in fragments that do, with the first timeout.
#[test]
fn what_was_sent_before_a_search_found_a_black_hole_goes_again_in_fragments() {
    let (mut w, a, b) = pair(&Sysctl { sctp_plpmtud_probe_interval: 5_000, ..Sysctl::default() });
    // A fragment of IP has no chunks here, and is not longer than the path is known to carry.
    w.rule = Box::new(|c| if c.chunks.len() + 32 > 1_300 { Fate::Lose } else { Fate::Deliver(ms(10)) });
    for _ in 0..4 {
        w.send(A, a, &[7; 5_000], SendInfo::default());
    }
    w.pass(Duration::from_secs(5));
    assert_eq!((w.messages(B, b).len(), w.info(A, a).unacked), (4, 0));
    let longest = w.log.iter().filter(|l| l.kinds.is_empty()).map(|l| l.bytes).max();
    assert!(longest.is_some_and(|longest| longest <= 1_300), "{longest:?}");
}

/// A black hole has a path fail with each timeout of what is too long for it, and live again with each HEARTBEAT. The search goes on though it is
/// not active whenever the time for a probe comes.
#[test]
fn a_path_that_fails_and_lives_in_turn_is_searched() {
    for offset in (0..500).step_by(50) {
        let mut sysctl = Sysctl { sctp_plpmtud_probe_interval: 5_000, ..Sysctl::default() };
        for (name, value) in [("rto_initial", 500), ("rto_min", 500), ("rto_max", 500), ("pf_retrans", 0)] {
            sysctl.set(&format!("sctp.{name}"), &value.to_string()).unwrap();
        }
        sysctl.set("sctp.association_max_retrans", "1000").unwrap();
        let (mut w, a, b) = pair(&sysctl);
        w.pass(Duration::from_secs(60) + ms(offset));
        assert_eq!(w.info(A, a).paths[0].mtu, 1_500);
        w.rule = Box::new(|c| if c.chunks.len() + 32 > 1_300 { Fate::Lose } else { Fate::Deliver(ms(10)) });
        w.send(A, a, &[7; 5_000], SendInfo::default());
        w.pass(Duration::from_secs(100));
        assert_eq!((w.messages(B, b).len(), w.info(A, a).unacked), (1, 0), "{offset}");
    }
}

/// The answer to the first probe is lost, and what is too long for the path has it fail before the next one.
#[test]
fn what_is_sent_before_anything_has_passed_is_no_longer_than_the_base_after_a_timeout() {
    let mut sysctl = Sysctl { sctp_plpmtud_probe_interval: 5_000, ..Sysctl::default() };
    sysctl.set("sctp.pf_retrans", "0").unwrap();
    let mut w = World::with(1, &sysctl, 1);
    w.rule = Box::new(|c| {
        let probe = c.kinds().contains(&kind::PAD);
        if probe || c.chunks.len() + 32 > 1_300 { Fate::Lose } else { Fate::Deliver(ms(10)) }
    });
    let options = w.options();
    let (a, b) = w.associated(options.clone(), options);
    w.send(A, a, &[7; 5_000], SendInfo::default());
    w.pass(Duration::from_secs(5));
    assert_eq!((w.messages(B, b).len(), w.info(A, a).unacked), (1, 0));
}

/// The HEARTBEAT of a path that has failed is due when T3-rtx runs out. It does not leave with what goes again and is too long for the path.
#[test]
fn what_is_too_long_takes_no_heartbeat_of_a_failed_path_with_it() {
    let mut sysctl = Sysctl { sctp_plpmtud_probe_interval: 5_000, ..Sysctl::default() };
    for name in ["rto_initial", "rto_min", "rto_max"] {
        sysctl.set(&format!("sctp.{name}"), "1000").unwrap();
    }
    let long = [("hb_interval", "500"), ("path_max_retrans", "1"), ("association_max_retrans", "1000")];
    for (name, value) in long {
        sysctl.set(&format!("sctp.{name}"), value).unwrap();
    }
    let (mut w, a, b) = pair(&sysctl);
    w.pass(Duration::from_secs(60));
    assert_eq!(w.info(A, a).paths[0].mtu, 1_500);
    w.rule = Box::new(|_| Fate::Lose);
    // So short that a HEARTBEAT fits in beside them.
    for _ in 0..200 {
        w.send(A, a, &[7; 20], SendInfo::default());
    }
    w.pass(Duration::from_secs(30));
    w.rule = Box::new(|c| if c.chunks.len() + 32 > 1_300 { Fate::Lose } else { Fate::Deliver(ms(10)) });
    w.pass(Duration::from_secs(200));
    assert_eq!((w.messages(B, b).len(), w.info(A, a).unacked), (200, 0));
}

/// Links that drop what is longer than 1,300 bytes and say nothing: the search finds that to a few bytes, and messages pass.
#[test]
fn probes_find_the_mtu_of_a_path_whose_routers_are_silent() {
    for (width, least) in [(1_300, 1_296), (1_500, 1_500)] {
        let (mut w, a, b) = pair(&Sysctl { sctp_plpmtud_probe_interval: 5_000, ..Sysctl::default() });
        let narrow = move |c: &Crossing<'_>| c.chunks.len() + 32 > width;
        w.rule = Box::new(move |c| if narrow(c) { Fate::Lose } else { Fate::Deliver(ms(10)) });
        w.pass(Duration::from_secs(150));
        let path = w.info(A, a).paths[0].clone();
        assert!((least..=width).contains(&usize::from(path.mtu)), "{}", path.mtu);
        assert_eq!(path.errors, 0, "a probe that is lost is no error");
        for _ in 0..10 {
            w.send(A, a, &[7; 5_000], SendInfo::default());
        }
        w.pass(Duration::from_secs(5));
        assert_eq!(w.messages(B, b).len(), 10);
        let probes = w.sent(A, kind::PAD);
        assert!((2..60).contains(&probes), "{probes}");
        // The path becomes narrower still: a black hole, and the search begins anew.
        w.rule = Box::new(|c| if c.chunks.len() + 32 > 1_250 { Fate::Lose } else { Fate::Deliver(ms(10)) });
        w.pass(Duration::from_secs(200));
        let mtu = w.info(A, a).paths[0].mtu;
        assert!((1_246..=1_250).contains(&mtu), "{mtu}");
    }
}

/// A size is confirmed at each interval as long as the association lives.
#[test]
fn a_path_that_is_found_may_be_confirmed_for_hours() {
    let (mut w, a, _) = pair(&Sysctl { sctp_plpmtud_probe_interval: 5_000, ..Sysctl::default() });
    w.pass(Duration::from_secs(1_800));
    assert!(w.sent(A, kind::PAD) > 300);
    assert_eq!((w.info(A, a).paths[0].mtu, w.info(A, a).state), (1_500, State::Established));
}

/// What a peer's old place could carry says nothing of his new one.
#[test]
fn the_search_after_a_restart_knows_no_bound_but_the_routes() {
    let (mut w, a, b) = pair(&Sysctl { sctp_plpmtud_probe_interval: 5_000, ..Sysctl::default() });
    let port = w.stacks[A].local_addr(a).unwrap().port();
    w.rule = Box::new(|c| if c.chunks.len() + 32 > 1_300 { Fate::Lose } else { Fate::Deliver(ms(10)) });
    w.pass(Duration::from_secs(150));
    assert!(w.info(B, b).paths[0].mtu <= 1_300);
    w.rule = Box::new(|_| Fate::Deliver(ms(10)));
    w.start_anew(port);
    w.pass(Duration::from_secs(60));
    assert_eq!((w.info(B, b).paths[0].mtu, w.info(B, b).state), (1_500, State::Established));
}

#[test]
fn without_an_interval_nothing_is_probed() {
    let (mut w, _, _) = pair(&Sysctl::default());
    w.pass(Duration::from_secs(100));
    assert_eq!(w.sent(A, kind::PAD), 0);
}

/// FORWARD TSN is due by one SACK and needless by the next, which comes with it, and what waits goes by another path.
#[test]
fn a_skip_that_was_overtaken_holds_back_no_data() {
    let mut w = World::with(2, &Sysctl::default(), 1);
    let options = SctpOptions { nodelay: true, sndbuf: 1 << 20, ..w.options() };
    let (a, b) = w.associated(options.clone(), options);
    w.pass(ms(200));
    w.rule = Box::new(|c| if c.from == A { Fate::Lose } else { Fate::Deliver(ms(10)) });
    let second = |reliability| SendInfo { reliability, to: Some(ip(1, B)), ..SendInfo::default() };
    w.send(A, a, &[0; 1_400], second(Reliability::Lifetime(ms(1))));
    for _ in 0..20 {
        w.send(A, a, &[0; 1_400], second(Reliability::Full));
    }
    w.pass(ms(5));
    let (cum, out) = (w.info(B, b).cum_tsn, w.info(A, a).unacked);
    assert!(out > 3 && w.info(A, a).unsent_bytes > 0);
    let port = w.stacks[A].local_addr(a).unwrap().port();
    let from = w.log.len();
    let tag = w.info(A, a).tags.0;
    // The first is missed three times.
    let gaps = [2, 3, 4].map(|last| [GapBlock::new(2, last)]);
    let sack = |cum_tsn, gaps| Chunk::Sack(Sack { cum_tsn, a_rwnd: 1 << 20, gaps, dups: &[] });
    let missed = gaps.iter().map(|gaps| sack(cum, gaps));
    let all: Vec<_> = missed.chain([sack(cum.wrapping_add(out as u32), &[])]).collect();
    w.inject(A, (5_000, port), tag, &bytes(&all));
    w.pass(ms(100));
    assert_eq!(w.stacks[A].counters().own.sctp_abandoned, 1);
    assert!(
        w.log[from..].iter().any(|l| l.link == 1 && l.kinds.contains(&kind::DATA)),
        "{:?}",
        &w.log[from..]
    );
}
