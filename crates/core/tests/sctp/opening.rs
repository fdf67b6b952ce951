//! Opening and closing: the four-way handshake, a message each way, the graceful and the abortive end.
use crate::world::*;
use lowwater_core::base::{Duration, Error, Sysctl};
use lowwater_core::sctp::{
    AssocChange, Notification, PathState, Received, SctpOptions, SendInfo, State, Subscriptions,
};
use lowwater_core::stack::Event;
use lowwater_wire::sctp::chunk_kind as kind;
use std::net::SocketAddr;

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

/// Linux sends what is too long for the path in fragments of IP; nobody is left without a word.
#[test]
fn a_reason_longer_than_a_packet_arrives_whole() {
    let mut w = World::new();
    let options = SctpOptions { events: Subscriptions::ASSOC, ..w.options() };
    let (a, b) = w.associated(options.clone(), options);
    w.read(B, b);
    let (now, reason) = (w.now, vec![7; 3_000]);
    w.stacks[A].sctp_abort(now, a, &reason).unwrap();
    w.pass(ms(100));
    let items = w.read(B, b);
    let [Received::Notification(Notification::Assoc { change, info, .. })] = &items[..] else {
        panic!("{items:?}")
    };
    assert_eq!((*change, info.len(), &info[4..]), (AssocChange::Lost, 3_004, &reason[..]));
    // What no packet can hold is cut.
    let mut w = World::new();
    let (a, b) = w.pair();
    let now = w.now;
    w.stacks[A].sctp_abort(now, a, &vec![7; 100_000]).unwrap();
    w.pass(ms(100));
    assert_eq!((w.info(B, b).state, w.stacks[B].take_error(b)), (State::Closed, Some(Error::Reset)));
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

#[test]
fn over_ipv6_and_with_addresses_of_both_families() {
    let mut w = World::with(2, &Default::default(), 1);
    let options = w.options();
    let now = w.now;
    let at = |ip| SocketAddr::new(ip, 5_000);
    let listener = w.stacks[B].sctp_listen(now, &[at(ip6(0, B)), at(ip(1, B))], 5, options.clone()).unwrap();
    let mine = [SocketAddr::new(ip6(0, A), 0), SocketAddr::new(ip(1, A), 0)];
    let a = w.stacks[A].sctp_connect(now, &[at(ip6(0, B))], &mine, options).unwrap();
    w.pass(Duration::from_secs(1));
    let now = w.now;
    let (b, peer) = w.stacks[B].sctp_accept(now, listener).unwrap();
    assert_eq!(peer.ip(), ip6(0, A));
    for (host, id) in [(A, a), (B, b)] {
        let info = w.info(host, id);
        let paths: Vec<_> = info.paths.iter().map(|p| (p.remote, p.local, p.state)).collect();
        let other = 1 - host;
        let active = PathState::Active;
        let expected =
            [(ip6(0, other), Some(ip6(0, host)), active), (ip(1, other), Some(ip(1, host)), active)];
        assert_eq!(paths, expected, "host {host}");
        // The smaller header of IPv4 does not help: a message must fit every path.
        assert_eq!(info.fragment_point, 1_500 - 40 - 12 - 16);
    }
    w.send(A, a, &[1; 3_000], SendInfo::default());
    w.pass(ms(500));
    assert_eq!(w.messages(B, b), [vec![1; 3_000]]);
}

#[test]
fn within_one_stack_by_its_loopback_device() {
    let mut w = World::new();
    let options = w.options();
    let listener = w.stacks[B].sctp_listen(w.now, &[], 5, options.clone()).unwrap();
    let (mine, _) = w.stacks[B].sctp_addrs(listener).unwrap();
    assert!(mine.is_empty());
    let port = w.stacks[B].local_addr(listener).unwrap().port();
    let now = w.now;
    let remote = SocketAddr::from(([127, 0, 0, 1], port));
    let a = w.stacks[B].sctp_connect(now, &[remote], &[], options).unwrap();
    w.pass(ms(10));
    let now = w.now;
    let (b, _) = w.stacks[B].sctp_accept(now, listener).unwrap();
    w.send(B, a, &[7; 100_000], SendInfo::default());
    let mut got = Vec::new();
    w.run(Duration::from_secs(5), |w| {
        got.extend(w.messages(B, b).concat());
        got.len() == 100_000
    });
    assert_eq!(got.len(), 100_000);
    let now = w.now;
    w.stacks[B].close(now, a).unwrap();
    w.pass(Duration::from_secs(1));
    assert_eq!(w.info(B, b).state, State::Closed);
}

#[test]
fn a_backlog_that_is_full_refuses() {
    let mut w = World::new();
    let options = w.options();
    let now = w.now;
    let any = SocketAddr::from(([0, 0, 0, 0], 5_000));
    w.stacks[B].sctp_listen(now, &[any], 1, options.clone()).unwrap();
    let ids: Vec<_> = (0..4).map(|_| w.connect(options.clone())).collect();
    w.pass(ms(500));
    let up = ids.iter().filter(|id| w.info(A, **id).state == State::Established).count();
    assert_eq!(up, 2, "a backlog of one holds two, as Linux's");
    // Why is said, by all means (RFC 9260 section 3.3.10.4).
    let last = ids.iter().filter(|id| w.info(A, **id).state == State::Closed).count();
    assert_eq!((last, w.sent(B, kind::ABORT)), (2, 2));
    let now = w.now;
    let second = w.stacks[B].sctp_listen(now, &[any], 1, options);
    assert_eq!(second, Err(Error::AddressInUse));
}

/// The guard of a shutdown ends what the peer lets hang.
#[test]
fn a_shutdown_that_nobody_completes_ends_by_its_guard() {
    let mut w = World::new();
    let (a, _) = w.pair();
    let never = [kind::SHUTDOWN_ACK, kind::ABORT];
    w.rule = Box::new(move |c| {
        if c.kinds().iter().any(|k| never.contains(k)) { Fate::Lose } else { Fate::Deliver(ms(10)) }
    });
    let start = w.now;
    w.stacks[A].sctp_shutdown(start, a).unwrap();
    assert!(w.run(Duration::from_secs(2_000), |w| w.info(A, a).state == State::Closed));
    // Five times RTO.Max (section 9.2).
    assert_eq!((w.now.since(start), w.sent(A, kind::ABORT)), (Duration::from_secs(300), 1));
    assert!(w.stacks[A].next_deadline().is_none());
    assert_eq!(w.stacks[A].counters().sctp.t5_shutdown_guard_expireds, 1);
}

#[test]
fn a_free_port_is_nobodys_whoever_knows_of_it() {
    let sysctl = Sysctl { ip_local_port_range: (40_000, 40_003), ..Sysctl::default() };
    let mut w = World::with(1, &sysctl, 1);
    let (now, options) = (w.now, w.options());
    // A listener has one, and the caller knows of two.
    let taken = w.stacks[B].sctp_free_port(&[], |_| false).unwrap();
    w.stacks[B].sctp_listen(now, &[SocketAddr::new(ip(0, B), taken)], 1, options).unwrap();
    let mut left: Vec<u16> = (40_000..=40_003).filter(|port| *port != taken).collect();
    let free = left.pop().unwrap();
    for _ in 0..20 {
        assert_eq!(w.stacks[B].sctp_free_port(&[], |port| left.contains(&port)), Ok(free));
    }
    assert_eq!(w.stacks[B].sctp_free_port(&[], |_| true), Err(Error::AddressInUse));
}

/// The side that is called measures a round trip by its cookie, if that cannot have gone twice (section 6.3.1, C5).
#[test]
fn the_first_data_of_who_was_called_waits_as_long_as_the_handshake_says() {
    for (delay, timeout) in [(10, 1_000), (400, 2_400), (600, 3_000)] {
        let mut w = World::new();
        w.rule = Box::new(move |_| Fate::Deliver(ms(delay)));
        let (_, b) = w.pair();
        w.rule = Box::new(|_| Fate::Lose);
        w.send(B, b, b"x", SendInfo::default());
        w.pass(Duration::from_secs(4));
        let at: Vec<_> =
            w.log.iter().filter(|l| l.from == B && l.kinds.contains(&kind::DATA)).map(|l| l.at).collect();
        assert_eq!(at[1].since(at[0]), ms(timeout), "{delay} ms");
    }
}

/// A COOKIE ECHO that comes twice, the second time when its association is over: it opens none that the peer knows nothing of, and the
/// message behind it is not delivered once more.
#[test]
fn a_copy_of_a_cookie_opens_no_second_association() {
    for aborted in [false, true] {
        let mut w = World::new();
        w.rule = Box::new(|c| {
            let echo = c.kinds().contains(&kind::COOKIE_ECHO);
            if echo { Fate::Twice(ms(10), ms(2_000)) } else { Fate::Deliver(ms(10)) }
        });
        let options = w.options();
        let listener = w.listen(options.clone());
        let a = w.connect(options);
        w.send(A, a, b"once", SendInfo::default());
        let mut server = None;
        w.run(Duration::from_secs(1), |w| {
            let now = w.now;
            server = server.or_else(|| w.stacks[B].sctp_accept(now, listener).ok().map(|(id, _)| id));
            server.is_some()
        });
        let b = server.expect("accepted");
        w.pass(ms(300));
        assert_eq!(w.messages(B, b), [b"once"]);
        let now = w.now;
        if aborted {
            w.stacks[B].abort(now, b).unwrap();
        } else {
            w.stacks[B].sctp_shutdown(now, b).unwrap();
        }
        w.pass(ms(300));
        assert_eq!(w.info(A, a).state, State::Closed);
        let now = w.now;
        let _ = w.stacks[B].close(now, b);
        let _ = w.stacks[A].close(now, a);
        assert_eq!(w.sent(A, kind::COOKIE_ECHO), 1);
        w.pass(Duration::from_secs(2));
        let now = w.now;
        assert_eq!(w.stacks[B].sctp_accept(now, listener).err(), Some(Error::WouldBlock));
        assert_eq!(w.stacks[B].counters().sctp.curr_estab, 0);
        // It is told that nothing comes of it, in case somebody waits for that.
        assert_eq!(w.sent(B, kind::ABORT), 1 + usize::from(aborted));
        // The next association is none of that business.
        let (a, b) = (w.connect(w.options()), listener);
        w.pass(ms(500));
        assert_eq!(w.info(A, a).state, State::Established);
        assert!(w.stacks[B].sctp_accept(w.now, b).is_ok());
    }
}

/// The server took the cookie and aborted, and nothing of that arrived: who sends it again hears that it is over, as soon as that arrives.
#[test]
fn a_cookie_that_comes_again_after_an_abort_is_refused() {
    let mut w = World::new();
    w.rule = Box::new(|c| {
        let lost = c.from == B && !c.kinds().contains(&kind::INIT_ACK);
        if lost { Fate::Lose } else { Fate::Deliver(ms(10)) }
    });
    let options = w.options();
    let listener = w.listen(options.clone());
    let a = w.connect(options);
    w.pass(ms(100));
    let now = w.now;
    let (b, _) = w.stacks[B].sctp_accept(now, listener).unwrap();
    w.stacks[B].abort(now, b).unwrap();
    w.pass(ms(100));
    w.rule = Box::new(|_| Fate::Deliver(ms(10)));
    assert_eq!(w.info(A, a).state, State::CookieEchoed);
    w.pass(Duration::from_secs(4));
    let now = w.now;
    assert_eq!((w.info(A, a).state, w.stacks[A].take_error(a)), (State::Closed, Some(Error::Refused)));
    assert_eq!(w.stacks[B].sctp_accept(now, listener).err(), Some(Error::WouldBlock));
}
