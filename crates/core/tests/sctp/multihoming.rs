//! Two paths: addresses in INIT, confirmation, failure and return of a path, the primary and its change.
use crate::world::*;
use lowwater_core::base::{DeviceId, Duration, SocketId, Sysctl};
use lowwater_core::sctp::{
    Notification, PathChange, PathOptions, PathState, Received, SctpOptions, SendInfo, State, Subscriptions,
};
use lowwater_wire::sctp::{Chunk, Tlvs, chunk_kind as kind};
use std::net::{IpAddr, SocketAddr};

fn two(sysctl: &Sysctl) -> (World, SocketId, SocketId) {
    let mut w = World::with(2, sysctl, 1);
    let options = SctpOptions { nodelay: true, events: Subscriptions::PATH, ..w.options() };
    let (a, b) = w.associated(options.clone(), options);
    w.pass(ms(200));
    (w, a, b)
}

fn states(w: &World, host: usize, id: SocketId) -> Vec<PathState> {
    w.info(host, id).paths.iter().map(|p| p.state).collect()
}

#[test]
fn addresses_of_the_init_become_paths_that_a_heartbeat_confirms() {
    let (mut w, a, b) = two(&Sysctl::default());
    for (host, id) in [(A, a), (B, b)] {
        let info = w.info(host, id);
        assert_eq!(info.paths.len(), 2);
        assert_eq!(states(&w, host, id), [PathState::Active; 2], "host {host}");
        assert_eq!((info.paths[0].remote, info.paths[1].remote), (ip(0, 1 - host), ip(1, 1 - host)));
        assert_eq!((info.paths[0].local, info.paths[1].local), (Some(ip(0, host)), Some(ip(1, host))));
        let confirmed = w.read(host, id);
        let note = Notification::Path { address: ip(1, 1 - host), change: PathChange::Confirmed };
        assert_eq!(confirmed, [Received::Notification(note)]);
    }
    w.send(A, a, b"x", SendInfo::default());
    w.pass(ms(500));
    assert!(w.log.iter().all(|l| l.link == 0 || !l.kinds.contains(&kind::DATA)));
    let (local, remote) = w.stacks[A].sctp_addrs(a).unwrap();
    assert_eq!((local.len(), remote.len()), (2, 2));
}

/// A listener at any address tells those of the family by which the INIT came. To the peer another one would be a stranger's, whose HEARTBEATs it
/// answers with ABORT (RFC 9260 sections 5.1.2 and 8.4).
#[test]
fn nothing_leaves_from_an_address_that_the_peer_was_not_told_of() {
    let mut w = World::new();
    let (now, options) = (w.now, w.options());
    let listener = w.listen(options.clone());
    let locals = [ip(0, A), ip6(0, A)].map(|ip| SocketAddr::new(ip, 6_000));
    let a = w.stacks[A].sctp_connect(now, &[SocketAddr::new(ip(0, B), 5_000)], &locals, options).unwrap();
    w.pass(Duration::from_secs(90));
    let (b, _) = w.stacks[B].sctp_accept(w.now, listener).unwrap();
    let (mine, theirs) = (w.info(A, a), w.info(B, b));
    assert_eq!((mine.state, theirs.state), (State::Established, State::Established));
    let ways: Vec<_> = theirs.paths.iter().map(|p| (p.remote, p.local, p.state)).collect();
    let (four, six) = (ip(0, A), ip6(0, A));
    assert_eq!(ways[0], (four, Some(ip(0, B)), PathState::Active));
    assert_eq!((ways[1].0, ways[1].1, ways.len()), (six, None, 2));
    assert_ne!(ways[1].2, PathState::Active);
    let strange = [A, B].map(|host| w.stacks[host].counters().sctp.out_of_blues);
    assert_eq!(strange, [0, 0]);
    // Nobody waits for the way that there is none.
    w.send(B, b, b"x", SendInfo::default());
    w.pass(Duration::from_secs(1));
    assert_eq!(w.messages(A, a), [b"x"]);
}

#[test]
fn nothing_is_sent_to_an_address_that_was_not_confirmed() {
    let mut w = World::with(2, &Sysctl::default(), 1);
    w.rule = Box::new(|c| if c.link == 1 { Fate::Lose } else { Fate::Deliver(ms(10)) });
    let (a, b) = w.pair();
    w.pass(Duration::from_secs(5));
    assert_eq!(states(&w, A, a)[1], PathState::Unconfirmed);
    w.rule = Box::new(|_| Fate::Lose);
    w.send(A, a, b"x", SendInfo::default());
    w.pass(Duration::from_secs(20));
    assert!(w.log.iter().all(|l| l.link == 0 || !l.kinds.contains(&kind::DATA)));
    w.rule = Box::new(|_| Fate::Deliver(ms(10)));
    w.pass(Duration::from_secs(60));
    assert_eq!(w.messages(B, b), [b"x"]);
}

/// Sends every 10 ms for a while with the primary path dark; the longest time between two deliveries.
fn failover(sysctl: &Sysctl) -> (Duration, World) {
    let (mut w, a, b) = two(sysctl);
    for _ in 0..100 {
        w.send(A, a, &[0; 160], SendInfo::default());
        w.pass(ms(10));
        w.read(B, b);
    }
    w.rule = Box::new(|c| if c.link == 0 { Fate::Lose } else { Fate::Deliver(ms(10)) });
    let longest = w.longest_silence(a, b);
    (longest, w)
}

#[test]
fn data_goes_on_over_the_other_path_after_one_timeout() {
    let (gap, w) = failover(&Sysctl::default());
    // Linux 6.1 at these settings: 1.3 to 1.6 s.
    assert!((ms(900)..ms(1_600)).contains(&gap), "{gap:?}");
    assert!(w.log.iter().any(|l| l.from == A && l.link == 1 && l.kinds.contains(&kind::DATA)));
    let (gap, _) = failover(&Sysctl { sctp_rto_min: 200, ..Sysctl::default() });
    assert!(gap < ms(1_000), "{gap:?}");
}

#[test]
fn without_potentially_failed_the_path_is_tried_until_it_is_inactive() {
    let sysctl = Sysctl { sctp_pf_enable: false, sctp_path_max_retrans: 1, ..Sysctl::default() };
    let (_, w) = failover(&sysctl);
    let timeouts = w.stacks[A].counters().sctp.t3_rtx_expireds;
    assert!(timeouts >= 2, "{timeouts}");
}

#[test]
fn a_dark_path_fails_is_probed_and_comes_back_as_the_primary() {
    let (mut w, a, b) = two(&Sysctl::default());
    w.read(A, a);
    w.rule = Box::new(|c| if c.link == 0 { Fate::Lose } else { Fate::Deliver(ms(10)) });
    for _ in 0..2_000 {
        w.send(A, a, &[1; 100], SendInfo::default());
        w.pass(ms(100));
        w.read(B, b);
    }
    assert_eq!(states(&w, A, a), [PathState::Inactive, PathState::Active]);
    assert_eq!(w.info(A, a).errors, 0, "the association is well");
    w.rule = Box::new(|_| Fate::Deliver(ms(10)));
    w.pass(Duration::from_secs(120));
    assert_eq!(states(&w, A, a), [PathState::Active; 2]);
    let changes: Vec<_> = w
        .read(A, a)
        .into_iter()
        .filter_map(|item| match item {
            Received::Notification(Notification::Path { change, .. }) => Some(change),
            _ => None,
        })
        .collect();
    assert_eq!(changes, [PathChange::PotentiallyFailed, PathChange::Unreachable, PathChange::Available]);
    let before = w.log.len();
    w.send(A, a, b"home", SendInfo::default());
    w.pass(ms(50));
    assert!(w.log[before..].iter().any(|l| l.link == 0 && l.kinds.contains(&kind::DATA)));
}

#[test]
fn the_primary_path_can_be_changed_and_overridden() {
    let (mut w, a, b) = two(&Sysctl::default());
    let now = w.now;
    w.stacks[A].sctp_set_primary(now, a, ip(1, B)).unwrap();
    let before = w.log.len();
    w.send(A, a, b"1", SendInfo::default());
    w.pass(ms(300));
    w.send(A, a, b"2", SendInfo { to: Some(ip(0, B)), ..SendInfo::default() });
    w.pass(ms(300));
    let links: Vec<usize> =
        w.log[before..].iter().filter(|l| l.kinds.contains(&kind::DATA)).map(|l| l.link).collect();
    assert_eq!(links, [1, 0]);
    assert_eq!(w.messages(B, b).len(), 2);
    // Each SACK goes back to where its data came from.
    let sacks: Vec<usize> =
        w.log[before..].iter().filter(|l| l.kinds == [kind::SACK]).map(|l| l.link).collect();
    assert_eq!(sacks, [1, 0]);
}

#[test]
fn the_idle_path_is_asked_while_the_other_is_busy() {
    let (mut w, a, b) = two(&Sysctl { sctp_hb_interval: 500, ..Sysctl::default() });
    let from = w.log.len();
    for _ in 0..4_000 {
        w.send(A, a, &[1; 100], SendInfo::default());
        w.pass(ms(5));
        w.read(B, b);
    }
    let beats = |link| {
        w.log[from..]
            .iter()
            .filter(|l| l.from == A && l.link == link && l.kinds.contains(&kind::HEARTBEAT))
            .count()
    };
    assert_eq!(beats(0), 0);
    // Linux 6.1: 13 in 20 s.
    assert!((10..=20).contains(&beats(1)), "{}", beats(1));
}

#[test]
fn an_idle_path_that_is_dark_is_no_error_of_the_association() {
    let (mut w, a, _) = two(&Sysctl { sctp_hb_interval: 500, ..Sysctl::default() });
    let quiet = PathOptions { hb_enable: false, ..PathOptions::new(w.stacks[A].sysctl()) };
    let now = w.now;
    // Nothing on the path in use proves that the peer lives.
    w.stacks[A].sctp_set_path(now, a, ip(0, B), quiet).unwrap();
    w.rule = Box::new(|c| if c.link == 1 { Fate::Lose } else { Fate::Deliver(ms(10)) });
    w.pass(Duration::from_secs(2_000));
    assert_eq!(states(&w, A, a), [PathState::Active, PathState::Inactive]);
    assert_eq!((w.info(A, a).errors, w.info(A, a).state), (0, State::Established));
}

/// A message each 5 ms, the second half of them by the other path.
fn change_path_on_the_way(w: &mut World, a: SocketId, b: SocketId) {
    let mut got = 0;
    for n in 0..100 {
        if n == 50 {
            let now = w.now;
            w.stacks[A].sctp_set_primary(now, a, ip(1, B)).unwrap();
        }
        w.send(A, a, &[1; 1_400], SendInfo::default());
        w.pass(ms(5));
        got += w.messages(B, b).len();
    }
    w.pass(Duration::from_secs(5));
    assert_eq!(got + w.messages(B, b).len(), 100);
}

/// What is still under way on the old path is not missing: only what went the same way says so (as Linux's `sctp_cacc_skip` has it).
#[test]
fn a_change_to_a_faster_path_sends_nothing_again() {
    let (mut w, a, b) = two(&Sysctl::default());
    w.rule = Box::new(|c| Fate::Deliver(Duration::from_micros(if c.link == 0 { 100_000 } else { 2_500 })));
    change_path_on_the_way(&mut w, a, b);
    let sctp = &w.stacks[A].counters().sctp;
    assert_eq!((sctp.fast_retransmits, sctp.t3_rtx_expireds), (0, 0));
    assert!(w.log.iter().any(|l| l.link == 1 && l.from == A && l.kinds.contains(&kind::DATA)));
}

/// Section 7.2.4 (4): T3-rtx begins anew with the lowest TSN "sent to that address", whatever waits elsewhere.
#[test]
fn a_fast_retransmission_restarts_the_timer_of_its_own_path() {
    let (mut w, a, b) = two(&Sysctl::default());
    // The first path is slow, and known to be.
    w.rule = Box::new(|c| Fate::Deliver(ms(if c.link == 0 { 2_000 } else { 150 })));
    for _ in 0..2 {
        let now = w.now;
        w.stacks[A].sctp_heartbeat(now, a, ip(0, B)).unwrap();
        w.pass(Duration::from_secs(5));
    }
    assert!(w.info(A, a).paths[0].rto > Duration::from_secs(4));
    let by = |link| SendInfo { to: Some(ip(link, B)), ..SendInfo::default() };
    w.send(A, a, b"slow", by(0));
    w.pass(ms(1));
    let slow = |c: &Crossing<'_>| Fate::Deliver(ms(if c.link == 0 { 2_000 } else { 150 }));
    w.rule = Box::new(move |c| if c.link == 1 { Fate::Lose } else { slow(c) });
    w.send(A, a, b"lost", by(1));
    w.pass(ms(1));
    w.rule = Box::new(slow);
    w.pass(ms(500));
    for text in [b"one", b"two", b"six"] {
        w.send(A, a, text, by(1));
        w.pass(ms(50));
    }
    // Something of that path is still under way when the third SACK comes.
    w.pass(ms(150));
    w.send(A, a, b"end", by(1));
    w.pass(Duration::from_secs(5));
    assert_eq!(w.messages(B, b).len(), 6);
    let sctp = &w.stacks[A].counters().sctp;
    // The third SACK that misses it comes 100 ms before the timer would run out.
    assert_eq!((sctp.fast_retransmits, sctp.t3_rtx_expireds), (1, 0));
}

/// Nor is it when something is lost on the new path: fast recovery counts misses by path as well (as Linux, whose `sctp_mark_missing`
/// asks `sctp_cacc_skip` then too).
#[test]
fn a_loss_on_the_new_path_sends_nothing_of_the_old_one_again() {
    let (mut w, a, b) = two(&Sysctl::default());
    // The old path has a window for all that is under way there.
    for _ in 0..30 {
        for _ in 0..20 {
            w.send(A, a, &[1; 1_400], SendInfo::default());
        }
        w.pass(ms(50));
        w.read(B, b);
    }
    let mut by_new = 0;
    w.rule = Box::new(move |c| {
        by_new += usize::from(c.from == A && c.link == 1 && c.kinds().contains(&kind::DATA));
        if c.from == A && c.link == 1 && by_new == 3 {
            by_new += 1;
            return Fate::Lose;
        }
        Fate::Deliver(Duration::from_micros(if c.link == 0 { 100_000 } else { 2_500 }))
    });
    change_path_on_the_way(&mut w, a, b);
    let sctp = &w.stacks[A].counters().sctp;
    assert_eq!((sctp.fast_retransmits, sctp.t3_rtx_expireds), (1, 0));
}

/// T2 counts for the path that SHUTDOWN took, whatever came by another since, and leaves it (sections 6.4.1, 8.2).
#[test]
fn a_shutdown_that_is_not_answered_takes_the_other_path() {
    let (mut w, a, _) = two(&Sysctl::default());
    w.rule = Box::new(|_| Fate::Lose);
    let (now, from) = (w.now, w.log.len());
    w.stacks[A].sctp_shutdown(now, a).unwrap();
    w.pass(ms(500));
    let (ports, tag) = ((5_000, w.stacks[A].local_addr(a).unwrap().port()), w.info(A, a).tags.0);
    w.inject_from(ip(1, B), A, ports, tag, &bytes(&[Chunk::Heartbeat(Tlvs::new(&[0, 1, 0, 4]))]));
    w.pass(ms(1_100));
    let shutdowns = w.log[from..].iter().filter(|l| l.kinds.contains(&kind::SHUTDOWN));
    assert_eq!(shutdowns.map(|l| l.link).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(states(&w, A, a), [PathState::PotentiallyFailed, PathState::Active]);
}

/// What was learnt of a way says nothing of another, nor of another treatment on it (section 7.2.5); a way that was gone for a moment is
/// the same one.
#[test]
fn another_dscp_or_route_begins_the_window_anew() {
    let net = IpAddr::from([10, 0, 0, 0]);
    let lose = |w: &mut World| assert!(w.stacks[A].remove_route(net, 24, None, DeviceId(1)));
    let find = |w: &mut World| w.stacks[A].add_route(net, 24, None, DeviceId(1)).unwrap();
    let move_on = |w: &mut World| w.stacks[A].add_route(ip(0, B), 32, Some(ip(1, B)), DeviceId(2)).unwrap();
    type Step<'a> = &'a dyn Fn(&mut World);
    type Case<'a> = (&'a str, bool, &'a [Step<'a>], (u8, u8));
    let mark = |w: &mut World, a, tos, tclass| {
        let (now, options) =
            (w.now, SctpOptions { tos, tclass, ..w.stacks[A].sctp_options(a).unwrap().clone() });
        w.stacks[A].sctp_set_options(now, a, options).unwrap();
    };
    let cases: [Case<'_>; 5] = [
        ("a mark", true, &[], (0x28, 0)),
        ("a mark of the other family", false, &[], (0, 0x28)),
        ("another way", true, &[&move_on], (0, 0)),
        ("another way after none", true, &[&lose, &move_on], (0, 0)),
        ("the same way after none", false, &[&lose, &find], (0, 0)),
    ];
    for (what, anew, steps, (tos, tclass)) in cases {
        let (mut w, a, b) = two(&Sysctl::default());
        for _ in 0..40 {
            w.send(A, a, &[7; 1_452], SendInfo::default());
        }
        w.pass(ms(500));
        assert_eq!(w.messages(B, b).len(), 40);
        let before = w.info(A, a).paths[0].cwnd;
        assert!(before > 10_000);
        mark(&mut w, a, tos, tclass);
        for step in steps {
            step(&mut w);
            w.send(A, a, b"x", SendInfo::default());
            w.pass(ms(1));
        }
        let path = &w.info(A, a).paths[0];
        assert!(path.local.is_some());
        assert_eq!((path.cwnd, path.ssthresh), (if anew { 4_404 } else { before }, u32::MAX), "{what}");
    }
}
