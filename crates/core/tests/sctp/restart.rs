//! Two handshakes that meet: collisions, restarts, duplicates, late cookies (RFC 9260 section 5.2).
use crate::world::*;
use bytes::Bytes;
use lowwater_core::base::{DeviceId, Duration, Instant, Sysctl};
use lowwater_core::sctp::{
    AssocChange, Notification, PathOptions, PathState, Received, SctpOptions, SendFailed, SendInfo, State,
    Subscriptions,
};
use lowwater_core::stack::{Config, Event, Stack};
use lowwater_wire::sctp::chunk_kind as kind;
use std::net::SocketAddr;

#[test]
fn both_open_at_once_and_get_one_association() {
    let mut w = World::new();
    let options = w.options();
    let now = w.now;
    let (a_addr, b_addr) = (SocketAddr::new(ip(0, A), 7_000), SocketAddr::new(ip(0, B), 7_000));
    let a = w.stacks[A].sctp_connect(now, &[b_addr], &[a_addr], options.clone()).unwrap();
    let b = w.stacks[B].sctp_connect(now, &[a_addr], &[b_addr], options).unwrap();
    w.pass(Duration::from_secs(10));
    assert_eq!((w.info(A, a).state, w.info(B, b).state), (State::Established, State::Established));
    let (ours, theirs) = (w.info(A, a).tags, w.info(B, b).tags);
    assert_eq!(ours, (theirs.1, theirs.0));
    w.send(A, a, b"x", SendInfo::default());
    w.send(B, b, b"y", SendInfo::default());
    w.pass(Duration::from_secs(1));
    assert_eq!((w.messages(A, a), w.messages(B, b)), (vec![b"y".to_vec()], vec![b"x".to_vec()]));
    for host in [A, B] {
        assert_eq!(w.stacks[host].counters().sctp.curr_estab, 1);
        assert_eq!(w.stacks[host].counters().sctp.aborteds, 0);
    }
}

#[test]
fn a_peer_that_starts_anew_takes_its_old_place() {
    let mut w = World::new();
    let options = SctpOptions { events: Subscriptions::ASSOC, ..w.options() };
    let listener = w.listen(options.clone());
    let (local, remote) = (SocketAddr::new(ip(0, A), 6_000), SocketAddr::new(ip(0, B), 5_000));
    let now = w.now;
    let a = w.stacks[A].sctp_connect(now, &[remote], &[local], options.clone()).unwrap();
    w.pass(ms(100));
    let now = w.now;
    let (b, _) = w.stacks[B].sctp_accept(now, listener).unwrap();
    w.send(A, a, b"before", SendInfo::default());
    w.pass(ms(300));
    assert_eq!(w.messages(B, b), [b"before"]);
    let old = w.info(B, b).tags;

    // A forgets everything, as a host that was switched off.
    let mut fresh = Stack::new(Config { seed: 99, ..Config::default() }, w.now);
    let dev = fresh.add_device(w.caps());
    assert_eq!(dev, DeviceId(1));
    fresh.add_address(dev, ip(0, A), 24).unwrap();
    w.stacks[A] = fresh;
    w.events[A].clear();
    let now = w.now;
    let a = w.stacks[A].sctp_connect(now, &[remote], &[local], options).unwrap();
    w.pass(ms(200));
    assert_eq!(w.info(A, a).state, State::Established);
    let new = w.info(B, b).tags;
    assert!(new.0 != old.0 && new.1 != old.1, "{old:?} {new:?}");
    let restarted = w.read(B, b).into_iter().any(|item| {
        matches!(item, Received::Notification(Notification::Assoc { change: AssocChange::Restart, .. }))
    });
    assert!(restarted);
    w.send(A, a, b"after", SendInfo::default());
    w.send(B, b, b"answer", SendInfo::default());
    w.pass(Duration::from_secs(1));
    assert_eq!((w.messages(B, b), w.messages(A, a)), (vec![b"after".to_vec()], vec![b"answer".to_vec()]));
    let now = w.now;
    assert!(w.stacks[B].sctp_accept(now, listener).is_err(), "no second socket");
}

#[test]
fn a_restart_wakes_the_writer_and_gives_back_what_was_not_acknowledged() {
    let mut w = World::new();
    let theirs = SctpOptions { sndbuf: 10_000, events: Subscriptions::SEND_FAILED, ..w.options() };
    let (a, b) = w.associated(w.options(), theirs);
    let port = w.stacks[A].local_addr(a).unwrap().port();
    w.rule = Box::new(|c| if c.from == B { Fate::Lose } else { Fate::Deliver(ms(10)) });
    let mut sent = 0;
    let now = w.now;
    while w.stacks[B].sctp_send(now, b, Bytes::from_static(&[7; 1_000]), SendInfo::default()).is_ok() {
        sent += 1;
    }
    w.pass(ms(500));
    w.events[B].clear();
    w.rule = Box::new(|_| Fate::Deliver(ms(10)));
    w.start_anew(port);
    w.pass(Duration::from_secs(1));
    assert!(w.events[B].contains(&Event::Writable(b)), "{:?}", w.events[B]);
    let failed = w.read(B, b).into_iter().filter(|item| {
        matches!(item, Received::Notification(Notification::SendFailed(SendFailed { data, .. })) if data.len() == 1_000)
    });
    assert_eq!(failed.count(), sent);
}

#[test]
fn a_cookie_that_comes_too_late_is_refused_and_the_next_lives_longer() {
    let mut w = World::new();
    let short = SctpOptions { cookie_life_ms: 100, ..w.options() };
    w.listen(short);
    let options = w.options();
    let mut slow = 1;
    w.rule = Box::new(move |c| {
        let late = c.kinds().contains(&kind::COOKIE_ECHO) && slow > 0;
        slow -= i32::from(late);
        Fate::Deliver(if late { ms(400) } else { ms(10) })
    });
    let a = w.connect(options);
    w.pass(Duration::from_secs(2));
    assert_eq!(w.info(A, a).state, State::Established);
    assert_eq!((w.sent(A, kind::INIT), w.sent(B, kind::ERROR)), (2, 1));
}

#[test]
fn cookies_live_as_long_as_the_sysctl_says_and_longer_on_request_unless_that_is_off() {
    for preserve in [true, false] {
        let sysctl = Sysctl {
            sctp_valid_cookie_life: 100,
            sctp_cookie_preserve_enable: preserve,
            ..Sysctl::default()
        };
        let mut w = World::with(1, &sysctl, 1);
        let options = w.options();
        w.listen(options.clone());
        w.rule = Box::new(|c| {
            Fate::Deliver(if c.kinds().contains(&kind::COOKIE_ECHO) { ms(400) } else { ms(10) })
        });
        let a = w.connect(options);
        w.pass(Duration::from_secs(60));
        let state = if preserve { State::Established } else { State::Closed };
        assert_eq!(w.info(A, a).state, state);
    }
}

#[test]
fn a_cookie_is_good_for_its_own_flow_alone_and_a_changed_one_for_none() {
    let mut w = World::new();
    let options = w.options();
    w.listen(options.clone());
    w.connect(options);
    w.rule =
        Box::new(|c| if c.kinds().contains(&kind::COOKIE_ECHO) { Fate::Lose } else { Fate::Deliver(ms(10)) });
    w.pass(ms(100));
    assert_eq!(w.stacks[B].counters().sctp.passive_estabs, 0);
    assert_eq!(w.stacks[B].open_sockets(), 1, "the listener keeps nothing of the handshake");
}

#[test]
fn a_duplicate_of_the_handshake_changes_nothing() {
    let mut w = World::new();
    w.rule = Box::new(|_| Fate::Twice(ms(10), ms(300)));
    let (a, b) = w.pair();
    let tags = w.info(B, b).tags;
    w.send(A, a, b"x", SendInfo::default());
    w.pass(Duration::from_secs(5));
    assert_eq!(w.info(B, b).tags, tags);
    assert_eq!(w.messages(B, b), [b"x"]);
    assert_eq!(w.stacks[B].counters().sctp.passive_estabs, 1);
    assert!(w.stacks[A].counters().sctp.aborteds + w.stacks[B].counters().sctp.aborteds == 0);
}

#[test]
fn a_message_after_the_end_is_out_of_the_blue_and_aborts_the_one_who_sent_it() {
    let mut w = World::new();
    let (a, b) = w.pair();
    // B's end never hears of A's, and A is gone.
    w.rule = Box::new(|_| Fate::Lose);
    let now = w.now;
    w.stacks[A].abort(now, a).unwrap();
    w.pass(ms(100));
    assert!(w.events[A].contains(&Event::Gone(a)));
    w.rule = Box::new(|_| Fate::Deliver(ms(10)));
    w.send(B, b, b"are you there?", SendInfo::default());
    w.pass(ms(100));
    assert_eq!(w.info(B, b).state, State::Closed);
    assert_eq!(w.stacks[A].counters().sctp.out_of_blues, 1);
    let now: Instant = w.now;
    let send = w.stacks[B].sctp_send(now, b, Bytes::from_static(b"x"), SendInfo::default());
    assert!(send.is_err());
}

#[test]
fn both_close_at_once() {
    let mut w = World::new();
    let (a, b) = w.pair();
    let now = w.now;
    w.stacks[A].sctp_shutdown(now, a).unwrap();
    w.stacks[B].sctp_shutdown(now, b).unwrap();
    w.pass(ms(200));
    assert_eq!((w.info(A, a).state, w.info(B, b).state), (State::Closed, State::Closed));
    assert_eq!((w.stacks[A].counters().sctp.aborteds, w.stacks[B].counters().sctp.aborteds), (0, 0));
}

#[test]
fn a_shutdown_waits_for_data_and_survives_loss() {
    for lost in [kind::SHUTDOWN, kind::SHUTDOWN_ACK, kind::SHUTDOWN_COMPLETE] {
        let mut w = World::new();
        let (a, b) = w.pair();
        let mut first = true;
        w.rule = Box::new(move |c| {
            let hit = c.kinds().contains(&lost) && core::mem::take(&mut first);
            if hit { Fate::Lose } else { Fate::Deliver(ms(10)) }
        });
        for n in 0..50 {
            w.send(A, a, &[n; 1_000], SendInfo::default());
        }
        let now = w.now;
        w.stacks[A].sctp_shutdown(now, a).unwrap();
        w.pass(Duration::from_secs(20));
        assert_eq!(w.messages(B, b).len(), 50);
        assert_eq!((w.info(A, a).state, w.info(B, b).state), (State::Closed, State::Closed), "chunk {lost}");
    }
}

/// What a path has missed was the old peer's: the one by which the new one has come is well, and the others are asked at once.
#[test]
fn a_peer_that_starts_anew_is_looked_for_where_the_old_one_was_not() {
    for dark in [0, 1] {
        let mut w = World::with(2, &Sysctl::default(), 1);
        let path = PathOptions { max_retrans: 1, ..w.options().path };
        let options = SctpOptions { events: Subscriptions::SENDER_DRY, path, ..w.options() };
        let (a, b) = w.associated(w.options(), options);
        let port = w.stacks[A].local_addr(a).unwrap().port();
        w.pass(Duration::from_secs(1));
        w.rule = Box::new(move |c| if c.link == dark { Fate::Lose } else { Fate::Deliver(ms(10)) });
        w.pass(Duration::from_secs(600));
        let states = |w: &World| w.info(B, b).paths.iter().map(|p| p.state).collect::<Vec<_>>();
        assert_eq!(states(&w)[dark], PathState::Inactive);
        w.send(B, b, b"for nobody", SendInfo::default());
        w.rule =
            Box::new(|c| if c.kinds().contains(&kind::DATA) { Fate::Lose } else { Fate::Deliver(ms(10)) });
        let mut fresh = Stack::new(Config { seed: 99, ..Config::default() }, w.now);
        for link in [0, 1] {
            let dev = fresh.add_device(w.caps());
            fresh.add_address(dev, ip(link, A), 24).unwrap();
        }
        w.stacks[A] = fresh;
        let now = w.now;
        let locals = [0, 1].map(|link| SocketAddr::new(ip(link, A), port));
        let remote = SocketAddr::new(ip(0, B), 5_000);
        w.read(B, b);
        w.stacks[A].sctp_connect(now, &[remote], &locals, w.options()).unwrap();
        w.pass(ms(500));
        assert_eq!(states(&w), [PathState::Active; 2]);
        let told = w.read(B, b);
        let dry = told.iter().filter(|item| matches!(item, Received::Notification(Notification::SenderDry)));
        assert_eq!(dry.count(), 1, "{told:?}");
    }
}
