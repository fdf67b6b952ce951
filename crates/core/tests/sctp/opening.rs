//! Opening and closing: the four-way handshake, a message each way, the graceful and the abortive end.
use crate::world::*;
use lowwater_core::base::{Duration, Error};
use lowwater_core::sctp::{Received, SendInfo, State};
use lowwater_core::stack::Event;
use lowwater_wire::sctp::chunk_kind as kind;

#[test]
fn a_handshake_a_message_each_way_and_a_graceful_end() {
    let mut w = World::new();
    let (a, b) = w.pair();
    assert_eq!(w.info(A, a).state, State::Established);
    assert_eq!(w.info(B, b).state, State::Established);
    let kinds: Vec<Vec<u8>> = w.log.iter().map(|l| l.kinds.clone()).collect();
    assert_eq!(
        kinds,
        [vec![kind::INIT], vec![kind::INIT_ACK], vec![kind::COOKIE_ECHO], vec![kind::COOKIE_ACK]]
    );
    w.send(A, a, b"ping", SendInfo { stream: 3, ppid: 7, ..SendInfo::default() });
    w.pass(ms(100));
    let [Received::Data { data, info, eor }] = &w.read(B, b)[..] else { panic!("one message") };
    assert_eq!(
        (&data[..], info.stream, info.ssn, info.ppid, info.unordered, *eor),
        (&b"ping"[..], 3, 0, 7, false, true)
    );
    w.send(B, b, b"pong", SendInfo::default());
    w.pass(ms(500));
    assert_eq!(w.messages(A, a), [b"pong"]);
    assert_eq!((w.info(A, a).unacked, w.info(B, b).unacked), (0, 0));

    let now = w.now;
    w.stacks[A].sctp_shutdown(now, a).unwrap();
    w.pass(ms(100));
    assert_eq!((w.info(A, a).state, w.info(B, b).state), (State::Closed, State::Closed));
    assert_eq!(
        (w.sent(A, kind::SHUTDOWN), w.sent(B, kind::SHUTDOWN_ACK), w.sent(A, kind::SHUTDOWN_COMPLETE)),
        (1, 1, 1)
    );
    let now = w.now;
    assert_eq!(w.stacks[B].sctp_recv(now, b, 10), Ok(None));
    for (host, id) in [(A, a), (B, b)] {
        let now = w.now;
        w.stacks[host].close(now, id).unwrap();
        w.pass(ms(1));
        assert!(w.events[host].contains(&Event::Gone(id)), "{:?}", w.events[host]);
        let sctp = &w.stacks[host].counters().sctp;
        assert_eq!((sctp.curr_estab, sctp.shutdowns, sctp.aborteds), (0, 1, 0));
    }
    assert!(w.stacks[A].next_deadline().is_none(), "no timer is left");
}

#[test]
fn an_abort_ends_both_sides_and_tells_why() {
    let mut w = World::new();
    let (a, b) = w.pair();
    let now = w.now;
    w.stacks[A].sctp_abort(now, a, b"enough").unwrap();
    w.pass(ms(100));
    assert_eq!(w.info(B, b).state, State::Closed);
    let now = w.now;
    assert_eq!(w.stacks[B].sctp_recv(now, b, 10), Err(Error::Reset));
    assert_eq!((w.sent(A, kind::ABORT), w.sent(B, kind::ABORT)), (1, 0));
    assert_eq!(w.stacks[B].counters().sctp.aborteds, 1);
}

#[test]
fn nobody_listens_and_the_init_is_aborted() {
    let mut w = World::new();
    let options = w.options();
    let a = w.connect(options);
    w.pass(ms(100));
    assert_eq!(w.stacks[A].take_error(a), Some(Error::Refused));
    assert_eq!(w.stacks[B].counters().sctp.out_of_blues, 1);
    assert!(w.events[A].contains(&Event::Closed(a)));
}

#[test]
fn nobody_answers_and_the_open_fails_after_the_last_init() {
    let mut w = World::new();
    w.rule = Box::new(|_| Fate::Lose);
    let options = w.options();
    let a = w.connect(options);
    assert!(w.run(Duration::from_secs(1_000), |w| w.info(A, a).state == State::Closed));
    assert_eq!(w.stacks[A].take_error(a), Some(Error::TimedOut));
    // Max.Init.Retransmits is 8; the timeouts are 3, 6, 12, 24, 48 and then 60 seconds.
    assert_eq!(w.sent(A, kind::INIT), 9);
    assert_eq!(w.now.as_millis(), 1_000 + 1_000 * (3 + 6 + 12 + 24 + 48 + 60 * 4));
}

#[test]
fn every_packet_of_a_handshake_may_be_lost_or_come_twice() {
    for kind in [kind::INIT, kind::INIT_ACK, kind::COOKIE_ECHO, kind::COOKIE_ACK] {
        for lose in [true, false] {
            let mut w = World::new();
            let mut hits = 0;
            w.rule = Box::new(move |c| {
                let hit = c.kinds().contains(&kind) && hits < 1;
                hits += u32::from(hit);
                match (hit, lose) {
                    (true, true) => Fate::Lose,
                    (true, false) => Fate::Twice(ms(10), ms(15)),
                    (false, _) => Fate::Deliver(ms(10)),
                }
            });
            let (a, b) = w.pair();
            w.send(A, a, b"x", SendInfo::default());
            w.pass(Duration::from_secs(20));
            assert_eq!(w.messages(B, b), [b"x"], "chunk {kind}, lost {lose}");
            assert_eq!(w.stacks[B].counters().sctp.passive_estabs, 1);
            assert_eq!(w.stacks[A].counters().sctp.active_estabs, 1);
        }
    }
}
