//! A device that says "not now" holds back its own paths, and no others of the same association.
use crate::world::*;
use lowwater_core::base::{Duration, SocketId, Sysctl, Wait};
use lowwater_core::sctp::{PathState, Received, Reliability, SctpOptions, SendInfo};
use lowwater_core::stack::Event;
use lowwater_wire::sctp::chunk_kind as kind;
use std::net::SocketAddr;

/// Two hosts with two links, both paths confirmed.
fn two(sysctl: &Sysctl) -> (World, SocketId, SocketId) {
    let mut w = World::with(2, sysctl, 1);
    let options = SctpOptions { nodelay: true, sndbuf: 1 << 20, rcvbuf: 1 << 20, ..w.options() };
    let (a, b) = w.associated(options.clone(), options);
    w.pass(ms(200));
    assert_eq!(states(&w, a), [PathState::Active; 2]);
    (w, a, b)
}

fn states(w: &World, a: SocketId) -> [PathState; 2] {
    let paths = w.info(A, a).paths;
    [paths[0].state, paths[1].state]
}

fn to(link: usize, stream: u16) -> SendInfo {
    SendInfo { stream, to: Some(ip(link, B)), ..SendInfo::default() }
}

/// Sends each 10 ms for ten seconds while the primary path's device is ill; the longest time between two deliveries.
fn failover(ill: Ill, sysctl: &Sysctl) -> (Duration, World, SocketId, SocketId) {
    let (mut w, a, b) = two(sysctl);
    for _ in 0..100 {
        w.send(A, a, &[0; 160], SendInfo::default());
        w.pass(ms(10));
        w.read(B, b);
    }
    w.pass(ms(100));
    w.read(B, b);
    w.ill.insert(0, ill);
    let longest = w.longest_silence(a, b);
    (longest, w, a, b)
}

#[test]
fn the_primary_paths_own_device_fails_and_its_timer_takes_the_other_path() {
    for ill in [Ill::Full, Ill::Mute] {
        let (gap, mut w, a, b) = failover(ill, &Sysctl::default());
        assert!((ms(900)..ms(1_600)).contains(&gap), "{ill:?}: {gap:?}");
        assert_eq!(states(&w, a)[1], PathState::Active);
        assert_ne!(states(&w, a)[0], PathState::Active);
        let own = &w.stacks[A].counters().own;
        assert!(own.sctp_t3_in_host > 0, "{ill:?}: the reason is known");
        assert_eq!(w.info(A, a).errors, 0, "{ill:?}: the association is well");
        // It is well again: what had waited leaves, and is nobody's any more.
        w.ill.clear();
        w.pass(Duration::from_secs(120));
        assert_eq!(states(&w, a), [PathState::Active; 2]);
        assert_eq!(w.stacks[A].credits(), [], "{ill:?}");
        w.log.clear();
        w.send(A, a, b"home", SendInfo::default());
        w.pass(ms(500));
        assert_eq!(w.messages(B, b), [b"home"]);
        assert!(w.log.iter().any(|l| l.from == A && l.link == 0 && l.kinds.contains(&kind::DATA)), "{ill:?}");
    }
}

#[test]
fn answers_and_heartbeats_of_the_other_path_do_not_wait_for_a_full_device() {
    let (mut w, a, _) = two(&Sysctl::default());
    w.ill.insert(0, Ill::Full);
    let beats = |w: &World, from, kind| {
        w.log.iter().filter(|l| l.from == from && l.link == 1 && l.kinds.contains(&kind)).count()
    };
    w.pass(Duration::from_secs(400));
    assert!(beats(&w, A, kind::HEARTBEAT) >= 8, "{}", beats(&w, A, kind::HEARTBEAT));
    assert_eq!(beats(&w, A, kind::HEARTBEAT_ACK), beats(&w, B, kind::HEARTBEAT));
    assert_eq!(states(&w, a), [PathState::Inactive, PathState::Active]);
}

#[test]
fn another_primary_path_is_taken_at_once() {
    let (mut w, a, b) = two(&Sysctl::default());
    w.ill.insert(0, Ill::Full);
    let now = w.now;
    w.stacks[A].sctp_set_primary(now, a, ip(1, B)).unwrap();
    w.send(A, a, b"x", SendInfo::default());
    w.pass(ms(50));
    assert_eq!(w.messages(B, b), [b"x"]);
    let now = w.now;
    w.stacks[A].sctp_shutdown(now, a).unwrap();
    w.pass(ms(500));
    assert!(w.events[A].contains(&Event::Closed(a)), "the shutdown takes the other path too");
}

#[test]
fn an_association_opens_by_the_second_address_when_the_device_of_the_first_is_full() {
    let mut w = World::with(2, &Sysctl::default(), 1);
    w.ill.insert(0, Ill::Full);
    let (options, now) = (w.options(), w.now);
    w.listen(options.clone());
    let remotes = [0, 1].map(|link| SocketAddr::new(ip(link, B), 5_000));
    let a = w.stacks[A].sctp_connect(now, &remotes, &[], options).unwrap();
    let up = w.run(Duration::from_secs(10), |w| w.events[A].contains(&Event::Connected(a)));
    assert!(up, "{:?}", w.log);
}

#[test]
fn credit_that_one_path_does_not_get_back_is_not_missed_by_another() {
    let (mut w, a, b) = two(&Sysctl::default());
    w.ill.insert(0, Ill::Mute);
    // All of these are below the transport, and nothing waits before what follows.
    for _ in 0..3 {
        w.send(A, a, &[0; 1_400], to(0, 0));
        w.pass(ms(1));
    }
    assert_eq!(w.info(A, a).unsent_bytes, 0);
    assert!(w.stacks[A].credits()[0].below > 4_000);
    w.send(A, a, b"by the other", to(1, 1));
    w.pass(ms(50));
    assert_eq!(w.messages(B, b), [b"by the other"]);
    assert_eq!(w.stacks[A].counters().sctp.t3_rtx_expireds, 0, "no timer was needed");
}

#[test]
fn a_message_for_another_path_overtakes_those_that_wait_for_a_full_one() {
    let (mut w, a, b) = two(&Sysctl::default());
    w.ill.insert(0, Ill::Mute);
    for n in 0..40 {
        w.send(A, a, &[n; 1_400], to(0, 0));
    }
    w.send(A, a, &[40; 1_400], to(1, 0));
    for n in 0..20 {
        w.send(A, a, &[n; 1_400], to(1, 1));
    }
    let mut got: [Vec<u8>; 2] = Default::default();
    let mut read = |w: &mut World| {
        for item in w.read(B, b) {
            let Received::Data { data, info, eor: true } = item else { panic!("{item:?}") };
            got[usize::from(info.stream)].push(data[0]);
        }
        got.each_ref().map(Vec::len)
    };
    w.pass(ms(500));
    // Those that the device has taken are lost, and so is the order behind them, until the timer says so.
    let [first, second] = read(&mut w);
    assert_eq!(first, 0);
    assert_eq!(second, 20);
    assert!(w.stacks[A].counters().waits(Wait::Credit) > 0);
    // The rest follows by the path that is left.
    w.pass(Duration::from_secs(20));
    assert_eq!(read(&mut w), [41, 20]);
    assert!(got[0].iter().copied().eq(0..41) && got[1].iter().copied().eq(0..20), "{got:?}");
}

/// Nothing is in flight, so that no timer would run but the one that guards what waits for the device.
#[test]
fn data_that_waits_for_a_device_alone_takes_the_other_path_in_time() {
    let sysctl = Sysctl { sctp_pf_enable: false, sctp_path_max_retrans: 2, ..Sysctl::default() };
    let (mut w, a, b) = two(&sysctl);
    w.ill.insert(0, Ill::Mute);
    for _ in 0..20 {
        w.send(A, a, &[0; 1_400], SendInfo::default());
    }
    // One timeout sends what was out the other way, the next ones find nothing but what waits.
    let done =
        w.run(Duration::from_secs(15), |w| w.info(A, a).unsent_bytes == 0 && w.info(A, a).unacked == 0);
    assert!(done, "{:?}", w.info(A, a));
    assert_eq!(w.messages(B, b).len(), 20);
    assert_eq!(states(&w, a), [PathState::Inactive, PathState::Active]);
}

fn by(w: &World, link: usize, kind: u8) -> usize {
    w.log.iter().filter(|l| l.from == A && l.link == link && l.kinds.contains(&kind)).count()
}

/// That more waits for a device than is good is the usual state of a bulk flow, and no reason to leave by the other path: what SACKs
/// miss goes the same way again (section 7.2.4).
#[test]
fn a_busy_device_keeps_its_retransmissions() {
    let mut w = World::with(2, &Sysctl::default(), 1);
    let options =
        SctpOptions { sndbuf: 4_000_000, rcvbuf: 8_000_000, pacing: false, max_burst: 0, ..w.options() };
    let (a, b) = w.associated(options.clone(), options);
    w.pass(ms(200));
    w.slow = Some(ms(1));
    let mut sent = 0;
    w.rule = Box::new(move |c| {
        sent += usize::from(c.kinds().contains(&kind::DATA));
        if sent % 500 == 499 {
            sent += 1;
            return Fate::Lose;
        }
        Fate::Deliver(ms(10))
    });
    w.run(Duration::from_secs(10), |w| {
        let now = w.now;
        while w.stacks[A].sctp_send(now, a, vec![0; 1_400].into(), SendInfo::default()).is_ok() {}
        w.read(B, b);
        false
    });
    let sctp = &w.stacks[A].counters().sctp;
    assert!(w.stacks[A].counters().waits(Wait::Credit) > 100);
    assert!(sctp.fast_retransmits > 5 && sctp.t3_rtx_expireds == 0, "{sctp:?}");
    assert_eq!(by(&w, 1, kind::DATA), 0);
}

/// Three paths, the first with something lost that its device does not take again, the second stuck too.
#[test]
fn lost_data_that_waits_for_a_full_device_holds_back_no_other_path() {
    let mut w = World::with(3, &Sysctl::default(), 1);
    let options =
        SctpOptions { nodelay: true, sndbuf: 1 << 20, rcvbuf: 1 << 20, max_burst: 0, ..w.options() };
    let (a, b) = w.associated(options.clone(), options);
    w.pass(ms(200));
    for n in 0..200_u8 {
        w.send(A, a, &[n; 1_400], to(0, 0));
    }
    w.pass(ms(700));
    assert_eq!(w.messages(B, b).len(), 200);
    // Of these the first ones are lost, and the device takes nothing from when they are missed on.
    let mut sent = 0;
    w.rule = Box::new(move |c| {
        sent += usize::from(c.from == A && c.link == 0 && c.kinds().contains(&kind::DATA));
        if c.from == A && sent <= 30 { Fate::Lose } else { Fate::Deliver(ms(10)) }
    });
    for n in 0..60 {
        w.send(A, a, &[n; 1_400], to(0, 0));
    }
    w.pass(ms(15));
    assert_eq!(w.info(A, a).unsent_bytes, 0);
    w.ill = [(0, Ill::Mute), (1, Ill::Mute)].into();
    for n in 0..10 {
        w.send(A, a, &[n; 1_400], to(1, 1));
    }
    w.pass(ms(15));
    w.send(A, a, b"by the third", to(2, 2));
    w.pass(ms(50));
    let third = |item: &Received| matches!(item, Received::Data { info, .. } if info.stream == 2);
    assert!(w.read(B, b).iter().any(third), "it waits for nobody's device");
    assert!(w.stacks[A].counters().waits(Wait::Credit) > 0);
    assert_eq!(w.stacks[A].counters().sctp.t3_rtx_expireds, 0);
    // The third's own message, and nothing that SACKs miss.
    assert_eq!(by(&w, 2, kind::DATA), 1);
    // When their timers run out all of it goes by the device that is left.
    w.log.clear();
    w.pass(Duration::from_secs(3));
    assert!(by(&w, 2, kind::DATA) > 30);
    assert_eq!(by(&w, 0, kind::DATA) + by(&w, 1, kind::DATA), 0);
    assert_eq!((w.info(A, a).unacked, w.info(A, a).unsent_bytes), (0, 0));
}

/// A timer that finds nothing but what waits for its device says nothing of the losses of others: one window is halved once.
#[test]
fn the_timer_of_a_stuck_path_does_not_end_the_fast_recovery_of_another() {
    let sysctl = Sysctl { sctp_pf_enable: false, sctp_path_max_retrans: 8, ..Sysctl::default() };
    let (mut w, a, b) = two(&sysctl);
    for n in 0..300_u16 {
        w.send(A, a, &[n as u8; 1_400], to(1, 1));
    }
    w.rule = Box::new(|_| Fate::Deliver(ms(100)));
    w.pass(Duration::from_secs(5));
    w.read(B, b);
    w.ill.insert(0, Ill::Mute);
    for n in 0..40 {
        w.send(A, a, &[n; 1_400], to(0, 0));
    }
    // The first timeout finds something in flight, the second one nothing but what waits.
    let timeouts = |w: &World| w.stacks[A].counters().sctp.t3_rtx_expireds;
    assert!(w.run(Duration::from_secs(20), |w| timeouts(w) == 1));
    let due = w.now + w.info(A, a).paths[0].rto;
    while w.now + ms(290) < due {
        w.send(A, a, &[0; 1_400], to(1, 1));
        w.pass(ms(5));
        w.read(B, b);
    }
    // Of each path 1's packets from now on the first and the thirtieth are lost.
    let mut sent = 0;
    w.rule = Box::new(move |c| {
        sent += usize::from(c.from == A && c.link == 1 && c.kinds().contains(&kind::DATA));
        let lose = c.from == A && (sent == 1 || sent == 30);
        sent += usize::from(lose);
        if lose { Fate::Lose } else { Fate::Deliver(ms(100)) }
    });
    let (before, fast) = (w.info(A, a).paths[1].cwnd, w.stacks[A].counters().sctp.fast_retransmits);
    let mut least = before;
    let mut at_timeout = 0;
    for _ in 0..120 {
        w.send(A, a, &[0; 1_400], to(1, 1));
        let until = w.now + ms(5);
        w.run(ms(5), |w| {
            least = least.min(w.info(A, a).paths[1].cwnd);
            if timeouts(w) == 2 && at_timeout == 0 {
                at_timeout = w.stacks[A].counters().sctp.fast_retransmits - fast;
            }
            w.now >= until
        });
    }
    assert_eq!((timeouts(&w), at_timeout), (2, 1), "the timeout falls between the two losses");
    assert_eq!(w.stacks[A].counters().sctp.fast_retransmits - fast, 2);
    assert!(before > 40_000 && least >= before / 2, "{before}, then {least}");
}

/// A message that overtakes others has waited as they have: what has outlived its lifetime stays here (RFC 9260 section 11.1.5).
#[test]
fn what_has_expired_overtakes_nothing() {
    let (mut w, a, b) = two(&Sysctl::default());
    w.ill.insert(0, Ill::Mute);
    for n in 0..30 {
        w.send(A, a, &[n; 1_400], to(0, 0));
    }
    // These fill the window of the other path, and those behind them wait for an answer.
    for n in 0..8 {
        w.send(A, a, &[n; 1_400], to(1, 1));
    }
    w.send(A, a, b"short", SendInfo { reliability: Reliability::Lifetime(ms(5)), ..to(1, 2) });
    w.send(A, a, b"long", SendInfo { reliability: Reliability::Lifetime(ms(500)), ..to(1, 3) });
    let mut got = [0; 4];
    w.run(Duration::from_secs(20), |w| {
        for item in w.read(B, b) {
            if let Received::Data { info, .. } = item {
                got[usize::from(info.stream)] += 1;
            }
        }
        false
    });
    assert_eq!(got, [30, 8, 0, 1]);
}

/// What overtakes others goes in packets as full as if it had nothing to overtake.
#[test]
fn small_messages_that_overtake_share_their_packets() {
    let (mut w, a, b) = two(&Sysctl::default());
    w.ill.insert(0, Ill::Mute);
    for n in 0..20 {
        w.send(A, a, &[n; 1_400], to(0, 0));
    }
    w.pass(ms(1));
    for n in 0..30 {
        w.send(A, a, &[n; 100], to(1, 1));
    }
    w.pass(ms(100));
    assert_eq!(w.messages(B, b).len(), 30);
    assert!(by(&w, 1, kind::DATA) <= 5, "{} packets", by(&w, 1, kind::DATA));
}
