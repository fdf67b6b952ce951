//! Who has closed stays so, and a shutdown ends: whatever restarts, expires or keeps its window closed.
use crate::world::*;
use lowwater_core::base::Duration;
use lowwater_core::sctp::{SctpOptions, SendInfo, State};
use lowwater_wire::sctp::chunk_kind as kind;
use std::net::SocketAddr;

#[test]
fn a_peer_that_starts_anew_does_not_open_again_what_was_closed() {
    for released in [false, true] {
        let mut w = World::new();
        let (a, b) = w.pair();
        let port = w.stacks[A].local_addr(a).unwrap().port();
        w.rule = Box::new(|c| if c.from == B { Fate::Lose } else { Fate::Deliver(ms(10)) });
        w.send(B, b, b"never seen", SendInfo::default());
        let now = w.now;
        if released {
            w.stacks[B].close(now, b).unwrap();
        } else {
            w.stacks[B].sctp_shutdown(now, b).unwrap();
        }
        w.pass(ms(500));
        w.rule = Box::new(|_| Fate::Deliver(ms(10)));
        let a = w.start_anew(port);
        w.pass(Duration::from_secs(5));
        assert_eq!(w.sent(B, kind::SHUTDOWN), 1, "released {released}");
        assert_eq!(w.info(A, a).state, State::Closed);
        // The listener, and the socket while it has an owner.
        assert_eq!(w.stacks[B].open_sockets(), 1 + usize::from(!released));
        assert_eq!((w.stacks[B].counters().sctp.curr_estab, w.stacks[B].counters().sctp.aborteds), (0, 0));
    }
}

#[test]
fn who_has_closed_before_a_collision_is_over_stays_closed() {
    let mut w = World::new();
    let (options, now) = (w.options(), w.now);
    let (a_addr, b_addr) = (SocketAddr::new(ip(0, A), 7_000), SocketAddr::new(ip(0, B), 7_000));
    let a = w.stacks[A].sctp_connect(now, &[b_addr], &[a_addr], options.clone()).unwrap();
    let b = w.stacks[B].sctp_connect(now, &[a_addr], &[b_addr], options).unwrap();
    // A's own cookies are lost: B's completes the handshake.
    w.rule = Box::new(|c| {
        let lost = c.from == A && c.kinds().contains(&kind::COOKIE_ECHO);
        if lost { Fate::Lose } else { Fate::Deliver(ms(10)) }
    });
    w.send(A, a, b"last words", SendInfo::default());
    w.stacks[A].close(now, a).unwrap();
    w.pass(Duration::from_secs(20));
    assert_eq!(w.messages(B, b), [b"last words"]);
    assert_eq!(w.info(B, b).state, State::Closed);
    assert_eq!(w.stacks[A].open_sockets(), 0);
    assert_eq!(w.stacks[A].counters().sctp.aborteds, 0);
}

#[test]
fn a_shutdown_goes_on_when_the_last_message_it_waits_for_expires() {
    let mut w = World::new();
    let (a, b) = w.pair();
    w.rule = Box::new(|c| Fate::Deliver(ms(if c.from == B { 900 } else { 10 })));
    for _ in 0..10 {
        w.send(A, a, &[1; 1_000], SendInfo { lifetime: Some(ms(700)), ..SendInfo::default() });
    }
    let now = w.now;
    w.stacks[A].sctp_shutdown(now, a).unwrap();
    // All that was sent is acknowledged when what still waits is too old.
    w.pass(Duration::from_secs(30));
    let got = w.messages(B, b).len();
    assert!((1..10).contains(&got), "{got}");
    assert_eq!((w.info(A, a).state, w.info(B, b).state), (State::Closed, State::Closed));
}

#[test]
fn a_peer_whose_window_stays_closed_does_not_keep_an_association_that_nobody_owns() {
    let mut w = World::new();
    let options = SctpOptions { rcvbuf: 4_000, ..w.options() };
    let (a, _b) = w.associated(w.options(), options);
    for _ in 0..20 {
        w.send(A, a, &[1; 1_000], SendInfo::default());
    }
    w.pass(Duration::from_secs(1_500));
    assert_eq!(w.info(A, a).state, State::Established, "an owner may wait as long as he likes");
    let (now, sacks) = (w.now, w.sent(B, kind::SACK));
    w.stacks[A].close(now, a).unwrap();
    // Eleven timeouts of a minute, and the guard: five more.
    w.pass(Duration::from_secs(1_200));
    assert!(w.sent(B, kind::SACK) > sacks + 5, "it lives and says so");
    assert_eq!(w.stacks[A].open_sockets(), 0);
    assert_eq!(w.stacks[A].counters().sctp.aborteds, 1);
}
