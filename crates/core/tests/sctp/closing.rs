//! Who has closed stays so, and a shutdown ends: whatever restarts, expires or keeps its window closed.
use crate::world::*;
use bytes::Bytes;
use lowwater_core::base::{Duration, Error};
use lowwater_core::sctp::{Reliability, SctpOptions, SendInfo, State};
use lowwater_core::stack::Event;
use lowwater_core::tcp::Ready;
use lowwater_wire::sctp::{Chunk, Tlvs, chunk_kind as kind};
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
        w.send(
            A,
            a,
            &[1; 1_000],
            SendInfo { reliability: Reliability::Lifetime(ms(700)), ..SendInfo::default() },
        );
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

/// Who reads a part of an answer and closes must not keep the peer at a closed window.
#[test]
fn what_comes_after_a_close_is_forgotten_and_the_peer_ends_in_good_order() {
    let mut w = World::new();
    let options = SctpOptions { rcvbuf: 20_000, sndbuf: 1 << 20, ..w.options() };
    let (a, b) = w.associated(options.clone(), options);
    for _ in 0..200 {
        w.send(B, b, &[1; 1_000], SendInfo::default());
    }
    let now = w.now;
    w.stacks[B].sctp_shutdown(now, b).unwrap();
    assert!(w.run(Duration::from_secs(5), |w| !w.messages(A, a).is_empty()));
    let now = w.now;
    w.stacks[A].close(now, a).unwrap();
    let done = w.run(Duration::from_secs(10), |w| w.info(B, b).state == State::Closed);
    assert!(done, "{:?}", w.info(B, b));
    let now = w.now;
    assert_eq!(w.stacks[B].take_error(b), None);
    assert_eq!(w.stacks[B].sctp_recv(now, b, 1), Ok(None));
    w.pass(Duration::from_secs(1));
    assert_eq!(w.stacks[A].open_sockets(), 0);
    assert!(w.stacks[A].counters().own.sctp_data_unread > 100, "{:?}", w.stacks[A].counters().own);
    assert_eq!((w.sent(A, kind::ABORT), w.sent(B, kind::ABORT)), (0, 0));
}

#[test]
fn a_message_that_waits_for_another_was_not_read_either() {
    for len in [100, 3_000] {
        let mut w = World::new();
        let options = SctpOptions { nodelay: true, ..w.options() };
        let (a, b) = w.associated(options.clone(), options);
        w.pass(ms(500));
        // The first packet is lost: what follows is acknowledged and cannot be read.
        let mut first = true;
        w.rule = Box::new(move |c| {
            let lost = c.from == A && c.kinds().contains(&kind::DATA) && core::mem::take(&mut first);
            if lost { Fate::Lose } else { Fate::Deliver(ms(10)) }
        });
        w.send(A, a, &[0; 1_400], SendInfo::default());
        w.pass(ms(1));
        w.send(A, a, &vec![1; len], SendInfo::default());
        w.pass(ms(15));
        let now = w.now;
        assert_eq!(w.stacks[B].sctp_recv(now, b, 1), Err(Error::WouldBlock));
        w.stacks[B].close(now, b).unwrap();
        w.pass(ms(100));
        assert!(w.sent(B, kind::ABORT) > 0 && w.sent(B, kind::SHUTDOWN) == 0, "{len} bytes");
        assert_eq!(w.stacks[B].counters().sctp.aborteds, 1);
        assert_eq!(w.stacks[A].take_error(a), Some(Error::Reset));
    }
}

#[test]
fn a_writer_who_waits_hears_at_once_that_nothing_can_be_sent_any_more() {
    for who in ["peer", "self", "autoclose"] {
        let mut w = World::new();
        let (reader, writer) = (SctpOptions { rcvbuf: 4_000, ..w.options() }, w.options());
        let (a, b) = w.associated(SctpOptions { sndbuf: 20_000, ..writer }, reader);
        let now = w.now;
        while w.stacks[A].sctp_send(now, a, Bytes::from_static(&[1; 1_000]), SendInfo::default()).is_ok() {}
        w.pass(Duration::from_secs(2));
        let (now, out) = (w.now, |w: &mut World| {
            let now = w.now;
            w.stacks[A].poll(now, a).0 & Ready::OUT.0 != 0
        });
        assert!(!out(&mut w), "the window is closed");
        w.events[A].clear();
        match who {
            "peer" => w.stacks[B].sctp_shutdown(now, b).unwrap(),
            "self" => w.stacks[A].sctp_shutdown(now, a).unwrap(),
            _ => {
                let options =
                    SctpOptions { autoclose_secs: 1, ..w.stacks[A].sctp_options(a).unwrap().clone() };
                w.stacks[A].sctp_set_options(now, a, options).unwrap();
                // Changed options are an edge of their own.
                w.pass(ms(10));
                w.events[A].clear();
            }
        }
        let told = w.run(Duration::from_secs(3), |w| w.events[A].contains(&Event::Writable(a)));
        assert!(told && out(&mut w), "{who}: {:?}", w.events[A]);
        let now = w.now;
        let sent = w.stacks[A].sctp_send(now, a, Bytes::from_static(b"x"), SendInfo::default());
        assert_eq!(sent, Err(Error::BrokenPipe), "{who}");
    }
}

#[test]
fn who_stops_reading_reads_what_is_there_and_no_more() {
    let mut w = World::new();
    let options = SctpOptions { rcvbuf: 20_000, ..w.options() };
    let (a, b) = w.associated(w.options(), options);
    w.send(A, a, b"seen", SendInfo::default());
    w.pass(ms(100));
    let now = w.now;
    w.stacks[B].sctp_stop_reading(now, b).unwrap();
    for _ in 0..50 {
        w.send(A, a, &[1; 1_000], SendInfo::default());
    }
    w.pass(Duration::from_secs(5));
    assert_eq!(w.info(A, a).unacked, 0, "all of it is acknowledged");
    assert_eq!(w.messages(B, b), [b"seen"]);
    let now = w.now;
    assert_eq!(w.stacks[B].sctp_recv(now, b, 1), Ok(None));
    let ready = w.stacks[B].poll(now, b).0;
    assert_eq!(ready & (Ready::IN.0 | Ready::RDHUP.0 | Ready::HUP.0), Ready::IN.0 | Ready::RDHUP.0);
    w.send(B, b, b"the other way", SendInfo::default());
    w.pass(ms(500));
    assert_eq!(w.messages(A, a), [b"the other way"]);
}

#[test]
fn an_association_that_sends_is_not_idle_whenever_its_owner_called_last() {
    let mut w = World::new();
    let options = SctpOptions { sndbuf: 1 << 20, pacing: false, ..w.options() };
    let (a, b) = w.associated(SctpOptions { autoclose_secs: 2, ..options.clone() }, options);
    // A packet in 100 ms: the queue takes ten seconds.
    w.slow = Some(ms(100));
    for _ in 0..100 {
        w.send(A, a, &[1; 1_400], SendInfo::default());
    }
    let mut got = 0;
    let done = w.run(Duration::from_secs(60), |w| {
        got += w.messages(B, b).len();
        assert!(got == 100 || w.info(A, a).state == State::Established, "after {got}");
        got == 100
    });
    assert!(done);
    w.pass(ms(1_500));
    assert_eq!(w.info(A, a).state, State::Established);
    w.pass(Duration::from_secs(2));
    assert_eq!(w.info(A, a).state, State::Closed);
    assert_eq!(w.stacks[A].counters().sctp.autoclose_expireds, 1);
}

/// The same without a word about the window: that a peer answers HEARTBEATs is not enough either.
#[test]
fn a_peer_that_acknowledges_nothing_does_not_keep_an_association_by_heartbeats() {
    for passive in [false, true] {
        let mut w = World::new();
        let (a, b) = w.pair();
        w.mutate = Some(Box::new(|chunks| acknowledge_nothing(chunks)));
        w.send(A, a, &[1; 1_000], SendInfo::default());
        w.pass(ms(100));
        let now = w.now;
        if passive {
            w.stacks[B].sctp_shutdown(now, b).unwrap();
            w.pass(ms(100));
            assert_eq!(w.info(A, a).state, State::ShutdownReceived);
        }
        let now = w.now;
        w.stacks[A].close(now, a).unwrap();
        w.pass(Duration::from_secs(1_500));
        assert!(w.sent(B, kind::HEARTBEAT_ACK) > 2, "it lives and says so");
        assert_eq!(w.stacks[A].open_sockets(), 0, "passive {passive}");
    }
}

/// Makes SACKs chunks that nobody knows, and SHUTDOWN one that acknowledges a chunk less.
fn acknowledge_nothing(chunks: &mut [u8]) {
    let mut at = 0;
    while at + 8 <= chunks.len() {
        match chunks[at] {
            kind::SACK => chunks[at] = 0xbf,
            kind::SHUTDOWN => {
                let cum = u32::from_be_bytes(chunks[at + 4..at + 8].try_into().unwrap());
                chunks[at + 4..at + 8].copy_from_slice(&cum.wrapping_sub(1).to_be_bytes());
            }
            _ => {}
        }
        at += usize::from(half(chunks, at + 2)).next_multiple_of(4);
    }
}

/// A HEARTBEAT that was late is answered when its sender has ended the association, who says so by an ABORT that overtakes his SHUTDOWN COMPLETE:
/// both say the same, and nothing was lost.
#[test]
fn an_abort_of_who_has_ended_the_association_completes_a_shutdown() {
    for reflected in [true, false] {
        let mut w = World::new();
        let (a, b) = w.pair();
        w.rule = Box::new(|c| {
            let complete = c.from == A && c.kinds().contains(&kind::SHUTDOWN_COMPLETE);
            if complete { Fate::Lose } else { Fate::Deliver(ms(10)) }
        });
        let (ports, tags) = ((w.stacks[A].local_addr(a).unwrap().port(), 5_000), w.info(B, b).tags);
        let now = w.now;
        w.stacks[A].sctp_shutdown(now, a).unwrap();
        w.pass(ms(50));
        assert_eq!(w.info(B, b).state, State::ShutdownAckSent);
        // With the tag of whoever knows the association no more, or of one who still has it.
        let tag = if reflected { tags.1 } else { tags.0 };
        w.inject(B, ports, tag, &bytes(&[Chunk::Abort(reflected, Tlvs::new(&[]))]));
        w.pass(ms(1));
        let now = w.now;
        let error = (!reflected).then_some(Error::Reset);
        assert_eq!((w.info(B, b).state, w.stacks[B].take_error(b)), (State::Closed, error));
        let ended = w.stacks[B].sctp_recv(now, b, 10);
        assert!(!reflected || ended == Ok(None), "{ended:?}");
        let sctp = &w.stacks[B].counters().sctp;
        assert_eq!((sctp.shutdowns, sctp.aborteds), if reflected { (1, 0) } else { (0, 1) });
    }
}
