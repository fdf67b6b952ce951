//! Handshakes with a peer made by hand, which says what no honest one would, and says it in any order (RFC 9260 section 5).
use crate::world::*;
use lowwater_core::base::limits::SCTP_PATHS_MAX;
use lowwater_core::base::{Duration, SocketId};
use lowwater_core::sctp::AssocChange;
use lowwater_core::sctp::{
    Notification, PathState, Received, Reliability, SctpOptions, SendInfo, State, Subscriptions,
};
use lowwater_wire::sctp::{
    Cause, Chunk, Chunks, DataFlags, DataRepr, Init, Param, Sack, Tlvs, cause_kind, chunk_kind as kind,
};
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

fn params(list: &[Param<'_>]) -> Vec<u8> {
    let mut all = Vec::new();
    for param in list {
        let at = all.len();
        all.resize(at + param.stated_len().next_multiple_of(4), 0);
        param.emit(&mut all[at..]);
    }
    all
}

fn v4(ip: IpAddr) -> Param<'static> {
    let IpAddr::V4(ip) = ip else { unreachable!("these worlds are IPv4") };
    Param::Ipv4(ip)
}

/// What an INIT or INIT ACK of the peer says, with this tag and this first TSN.
fn hello(tag: u32, tsn: u32, params: &[u8]) -> Init<'_> {
    Init {
        initiate_tag: tag,
        a_rwnd: 100_000,
        outbound_streams: 10,
        inbound_streams: 10,
        initial_tsn: tsn,
        params: Tlvs::new(params),
    }
}

fn init_ack(tag: u32, addresses: &[IpAddr]) -> Vec<u8> {
    let mut list: Vec<Param<'_>> = addresses.iter().map(|ip| v4(*ip)).collect();
    list.push(Param::StateCookie(b"cook"));
    bytes(&[Chunk::InitAck(hello(tag, 500, &params(&list)))])
}

fn data(tsn: u32, ssn: u16) -> DataRepr {
    DataRepr { flags: DataFlags::WHOLE, tsn, sid: 0, ssn, ppid: 0 }
}

type Tap = Rc<RefCell<Vec<Vec<u8>>>>;

/// The chunks of each packet of `host` from now on. None arrives.
fn tap(w: &mut World, host: usize) -> Tap {
    let seen: Tap = Rc::default();
    let log = seen.clone();
    w.rule = Box::new(move |c| {
        if c.from == host {
            log.borrow_mut().push(c.chunks.to_vec());
        }
        Fate::Lose
    });
    seen
}

/// The numbers of DATA that were seen.
fn tsns(seen: &Tap) -> Vec<u32> {
    let mut all = Vec::new();
    for packet in seen.borrow().iter() {
        for raw in Chunks::new(packet) {
            if let Ok(Chunk::Data(header, _)) = Chunk::parse(&raw.unwrap()) {
                all.push(header.tsn);
            }
        }
    }
    all
}

/// Tag and cookie of the INIT ACK that was seen last.
fn cookie(seen: &Tap) -> (u32, Vec<u8>) {
    let all = seen.borrow();
    let mut acks = all.iter().filter_map(|packet| {
        let raw = Chunks::new(packet).next()?.ok()?;
        let Ok(Chunk::InitAck(ack)) = Chunk::parse(&raw) else { return None };
        let mut params = ack.params.map(|tlv| tlv.unwrap());
        let cookie = params.find_map(|tlv| match Param::parse(&tlv) {
            Ok(Param::StateCookie(cookie)) => Some(cookie.to_vec()),
            _ => None,
        });
        Some((ack.initiate_tag, cookie?))
    });
    acks.next_back().expect("an INIT ACK")
}

fn stale() -> Vec<u8> {
    let cause = Cause::StaleCookie(1_000);
    let mut causes = vec![0; cause.stated_len()];
    cause.emit(&mut causes);
    bytes(&[Chunk::Error(Tlvs::new(&causes))])
}

/// The number that a path has may change when a second INIT ACK names fewer addresses: what went out with the first cookie is sent
/// again, and no path of old is asked for.
#[test]
fn a_stale_cookie_and_an_init_ack_with_fewer_addresses_lose_nothing() {
    let mut w = World::with(2, &Default::default(), 1);
    let options = w.options();
    let (a, ports, ours) = opens_to(&mut w, 2, options);
    let (seen, from) = (tap(&mut w, A), ip(1, B));
    w.send(A, a, &[7; 5_000], SendInfo::default());
    w.pass(ms(1));
    for named in [&[ip(0, B), ip(1, B)][..], &[ip(1, B)]] {
        w.inject_from(from, A, ports, ours, &init_ack(9, named));
        w.pass(ms(1));
        assert_eq!(w.info(A, a).state, State::CookieEchoed);
        if named.len() > 1 {
            assert!(!tsns(&seen).is_empty(), "DATA goes with the cookie");
            w.inject_from(from, A, ports, ours, &stale());
            w.pass(ms(1));
            assert_eq!(w.info(A, a).state, State::CookieWait);
            assert!(w.info(A, a).paths.iter().all(|p| p.flight == 0), "nothing of it counts as under way");
        }
    }
    w.inject_from(from, A, ports, ours, &bytes(&[Chunk::CookieAck]));
    for _ in 0..10 {
        w.pass(ms(50));
        let cum_tsn = *tsns(&seen).iter().max().unwrap();
        let sack = Sack { cum_tsn, a_rwnd: 100_000, gaps: &[], dups: &[] };
        w.inject_from(from, A, ports, ours, &bytes(&[Chunk::Sack(sack)]));
    }
    let info = w.info(A, a);
    assert_eq!((info.state, info.paths.len()), (State::Established, 1));
    assert_eq!((info.unacked, info.unsent_bytes, info.paths[0].flight), (0, 0, 0));
    // All of it once before the cookie was stale or not at all, and once after.
    let all = tsns(&seen);
    assert!(all.iter().all(|tsn| all.iter().filter(|t| *t == tsn).count() <= 2), "{all:?}");
}

/// A begins to open an association with the first `links` addresses of B; the ports of what comes to it, and its tag.
fn opens_to(w: &mut World, links: usize, options: SctpOptions) -> (SocketId, (u16, u16), u32) {
    let now = w.now;
    let remotes: Vec<_> = (0..links).map(|link| SocketAddr::new(ip(link, B), 5_000)).collect();
    let a = w.stacks[A].sctp_connect(now, &remotes, &[], options).unwrap();
    w.pass(ms(1));
    let (port, ours) = (w.stacks[A].local_addr(a).unwrap().port(), w.info(A, a).tags.0);
    (a, (5_000, port), ours)
}

/// The links that the ABORTs of A have taken.
fn aborts(w: &World) -> Vec<usize> {
    w.log.iter().filter(|l| l.from == A && l.kinds.contains(&kind::ABORT)).map(|l| l.link).collect()
}

/// What was heard on one of the paths that the first INIT ACK named says nothing of those that the second one names.
#[test]
fn an_abort_behind_a_second_init_ack_goes_to_where_that_came_from() {
    for by_peer in [false, true] {
        let mut w = World::with(4, &Default::default(), 1);
        let options = w.options();
        let (a, ports, ours) = opens_to(&mut w, 3, options);
        let _lost = tap(&mut w, A);
        let all = [0, 1, 2].map(|link| ip(link, B));
        w.inject_from(ip(2, B), A, ports, ours, &init_ack(9, &all));
        w.pass(ms(1));
        w.inject_from(ip(2, B), A, ports, ours, &stale());
        w.pass(ms(1));
        w.inject_from(ip(0, B), A, ports, ours, &init_ack(10, &[ip(0, B), ip(3, B)]));
        w.pass(ms(1));
        assert_eq!((w.info(A, a).state, w.info(A, a).paths.len()), (State::CookieEchoed, 2));
        if by_peer {
            // From an address that nobody has confirmed: a chunk that is too short to be one.
            let chunks =
                [&bytes(&[Chunk::Heartbeat(Tlvs::new(&[0, 1, 0, 4]))])[..], &[0x7f, 0, 0, 3]].concat();
            w.inject_from(ip(3, B), A, ports, ours, &chunks);
        } else {
            let now = w.now;
            w.stacks[A].sctp_abort(now, a, b"x").unwrap();
        }
        w.pass(ms(1));
        assert_eq!((w.info(A, a).state, aborts(&w)), (State::Closed, vec![0]));
    }
}

/// Section 6.4: the peer is where it was heard, not where the first INIT went.
#[test]
fn an_abort_of_the_opener_goes_to_where_the_init_ack_came_from() {
    for refused in [false, true] {
        let mut w = World::with(2, &Default::default(), 1);
        let options = w.options();
        let (a, ports, ours) = opens_to(&mut w, 2, options);
        let _lost = tap(&mut w, A);
        let list = params(&[Param::StateCookie(b"cook")]);
        let inbound_streams = if refused { 0 } else { 10 };
        let ack = bytes(&[Chunk::InitAck(Init { inbound_streams, ..hello(9, 500, &list) })]);
        w.inject_from(ip(1, B), A, ports, ours, &ack);
        w.pass(ms(1));
        if !refused {
            let now = w.now;
            w.stacks[A].sctp_abort(now, a, b"x").unwrap();
            w.pass(ms(1));
        }
        assert_eq!((w.info(A, a).state, aborts(&w)), (State::Closed, vec![1]));
    }
}

/// Whoever has no tag of the peer's sends one ABORT, with the peer's own, and tells its owner the same cause; a tag that went with a
/// cookie in vain is none.
#[test]
fn an_init_ack_without_a_tag_is_refused_once_and_told_with_its_cause() {
    for late in [false, true] {
        let mut w = World::new();
        let options = SctpOptions { events: Subscriptions::ASSOC, ..w.options() };
        let (a, ports, ours) = opens_to(&mut w, 1, options);
        let _lost = tap(&mut w, A);
        if late {
            w.inject(A, ports, ours, &init_ack(9, &[]));
            w.pass(ms(1));
            w.inject(A, ports, ours, &stale());
            w.pass(ms(1));
        }
        w.inject(A, ports, ours, &init_ack(0, &[]));
        w.pass(ms(1));
        let told = w.read(A, a);
        let cause = told.iter().find_map(|item| match item {
            Received::Notification(Notification::Assoc { cause, .. }) => Some(*cause),
            _ => None,
        });
        assert_eq!((cause, aborts(&w).len()), (Some(cause_kind::INVALID_MANDATORY), 1));
    }
}

/// An association, the ports of A's packets, and what B has sent from now on, of which nothing arrives.
fn ready() -> (World, SocketId, (u16, u16), Tap) {
    let mut w = World::new();
    let options = SctpOptions { events: Subscriptions::ASSOC, ..w.options() };
    let (a, b) = w.associated(options.clone(), options);
    let ports = (w.stacks[A].local_addr(a).unwrap().port(), 5_000);
    w.read(B, b);
    let seen = tap(&mut w, B);
    (w, b, ports, seen)
}

fn restarts(w: &mut World, b: SocketId) -> usize {
    let restart = |item: &Received| {
        matches!(item, Received::Notification(Notification::Assoc { change: AssocChange::Restart, .. }))
    };
    w.read(B, b).iter().filter(|item| restart(item)).count()
}

/// The last word of an association may still wait for its turn when the next packet is read.
#[test]
fn a_cookie_does_not_revive_an_association_that_is_over() {
    let (mut w, b, ports, seen) = ready();
    w.inject(B, ports, 0, &bytes(&[Chunk::Init(hello(7, 1, &[]))]));
    w.pass(ms(1));
    let ((tag, cookie), old) = (cookie(&seen), w.info(B, b).tags.0);
    seen.borrow_mut().clear();
    w.inject(B, ports, old, &bytes(&[Chunk::Data(data(1, 0), b"")]));
    w.inject(B, ports, tag, &bytes(&[Chunk::CookieEcho(&cookie)]));
    w.pass(ms(1));
    assert_eq!(w.info(B, b).state, State::Closed);
    let kinds: Vec<u8> = seen.borrow().iter().map(|packet| packet[0]).collect();
    assert!(kinds.contains(&kind::ABORT) && kinds.contains(&kind::COOKIE_ACK), "{kinds:?}");
    assert_eq!(restarts(&mut w, b), 0);
    // It is a cookie like any other: whoever brings it gets an association of his own.
    let count = &w.stacks[B].counters().sctp;
    assert_eq!((count.curr_estab, count.passive_estabs, count.aborteds), (1, 2, 1));
    assert_eq!(w.stacks[B].open_sockets(), 3);
}

/// Tie-tags are those of the moment (section 5.2.4): a cookie from before a restart names an association that is no more.
#[test]
fn a_cookie_from_before_a_restart_is_worth_nothing_after_it() {
    let (mut w, b, ports, seen) = ready();
    let mut cookies = Vec::new();
    for peer in [7, 8] {
        w.inject(B, ports, 0, &bytes(&[Chunk::Init(hello(peer, 1, &[]))]));
        w.pass(ms(1));
        let (tag, cookie) = cookie(&seen);
        cookies.push((tag, bytes(&[Chunk::CookieEcho(&cookie)])));
    }
    // Two cookies for one association as it is now: the first is taken, and the other is too old then.
    for (tag, echo) in &cookies {
        w.inject(B, ports, *tag, echo);
        w.pass(ms(1));
        assert_eq!(w.info(B, b).tags, (cookies[0].0, 7));
    }
    assert_eq!(restarts(&mut w, b), 1);
    // So is a duplicate of the first behind another restart.
    w.inject(B, ports, 0, &bytes(&[Chunk::Init(hello(9, 1, &[]))]));
    w.pass(ms(1));
    let (tag, cookie) = cookie(&seen);
    w.inject(B, ports, tag, &bytes(&[Chunk::CookieEcho(&cookie)]));
    w.inject(B, ports, cookies[0].0, &cookies[0].1);
    w.pass(ms(1));
    assert_eq!((w.info(B, b).tags, restarts(&mut w, b)), ((tag, 9), 1));
}

/// A begins to open an association with a port of B that nobody has.
fn opens(w: &mut World) -> SocketId {
    let (local, remote) = (SocketAddr::new(ip(0, A), 6_000), SocketAddr::new(ip(0, B), 5_000));
    let (now, options) = (w.now, w.options());
    w.stacks[A].sctp_connect(now, &[remote], &[local], options).unwrap()
}

/// Ports of what comes to [`opens`].
const TO_OPENER: (u16, u16) = (5_000, 6_000);

/// A peer that starts anew while INITs cross: the cookies of its two instances, with tags 7 and 8 and these first TSNs. That of the first
/// has come back, with DATA.
fn two_instances(w: &mut World, a: SocketId, seen: &Tap, tsns: [u32; 2]) -> [Vec<u8>; 2] {
    let ours = w.info(A, a).tags.0;
    let echoes = [(7, tsns[0]), (8, tsns[1])].map(|(tag, tsn)| {
        w.inject(A, TO_OPENER, 0, &bytes(&[Chunk::Init(hello(tag, tsn, &[]))]));
        w.pass(ms(1));
        let (tag, cookie) = cookie(seen);
        assert_eq!(tag, ours, "our INIT stands");
        cookie
    });
    w.inject(A, TO_OPENER, ours, &bytes(&[Chunk::CookieEcho(&echoes[0])]));
    w.inject(A, TO_OPENER, ours, &bytes(&[Chunk::Data(data(tsns[0], 0), b"old")]));
    w.pass(ms(1));
    echoes
}

/// A peer that starts anew between two INITs of ours which cross his own: the second cookie is of another instance, with numbers of
/// its own (section 5.2.4 B; Linux `sctp_assoc_update`).
#[test]
fn a_collision_after_the_handshake_begins_the_numbers_anew() {
    let mut w = World::new();
    let a = opens(&mut w);
    let seen = tap(&mut w, A);
    w.pass(ms(1));
    let (ports, ours) = (TO_OPENER, w.info(A, a).tags.0);
    let echoes = two_instances(&mut w, a, &seen, [1_000, 0x8000_0000]);
    assert_eq!((w.info(A, a).state, w.info(A, a).tags.1), (State::Established, 7));
    w.inject(A, ports, ours, &bytes(&[Chunk::CookieEcho(&echoes[1])]));
    w.inject(A, ports, ours, &bytes(&[Chunk::Data(data(0x8000_0000, 0), b"new")]));
    w.pass(ms(1));
    assert_eq!((w.info(A, a).tags, w.info(A, a).cum_tsn), ((ours, 8), 0x8000_0000));
    assert_eq!(w.messages(A, a), [b"old", b"new"]);
}

/// COOKIE ACK may be lost: what comes behind it is worth as much (Linux takes both in COOKIE-ECHOED).
#[test]
fn a_heartbeat_and_a_sack_count_before_cookie_ack() {
    let mut w = World::new();
    let a = w.connect(w.options());
    let seen = tap(&mut w, A);
    w.send(A, a, &[7; 100], SendInfo::default());
    w.pass(ms(1));
    let (ports, ours) = ((5_000, w.stacks[A].local_addr(a).unwrap().port()), w.info(A, a).tags.0);
    w.inject(A, ports, ours, &init_ack(9, &[]));
    w.pass(ms(1));
    let (state, sent) = (w.info(A, a).state, tsns(&seen));
    assert_eq!((state, sent.len()), (State::CookieEchoed, 1));
    let sack = Sack { cum_tsn: sent[0], a_rwnd: 100_000, gaps: &[], dups: &[] };
    w.inject(A, ports, ours, &bytes(&[Chunk::Sack(sack), Chunk::Heartbeat(Tlvs::new(&[0, 1, 0, 4]))]));
    w.pass(ms(1));
    assert_eq!((w.info(A, a).unacked, w.info(A, a).state), (0, State::CookieEchoed));
    assert_eq!(seen.borrow().last().map(|packet| packet[0]), Some(kind::HEARTBEAT_ACK));
    w.pass(Duration::from_secs(10));
    assert_eq!(tsns(&seen).len(), 1, "what was acknowledged does not go again");
}

/// Section 5.4: no data to an address that nobody has answered from, also when a message names it; nor to one that has failed.
#[test]
fn a_message_for_an_address_that_does_not_answer_takes_the_usual_way() {
    for failed in [false, true] {
        let mut w = World::with(2, &Default::default(), 1);
        let dark = |c: &Crossing<'_>| if c.link == 1 { Fate::Lose } else { Fate::Deliver(ms(10)) };
        if !failed {
            w.rule = Box::new(dark);
        }
        let options = SctpOptions { nodelay: true, ..w.options() };
        let (a, b) = w.associated(options.clone(), options);
        w.pass(Duration::from_secs(2));
        if failed {
            w.rule = Box::new(dark);
            w.pass(Duration::from_secs(400));
        }
        let state = w.info(A, a).paths[1].state;
        assert_eq!(state, if failed { PathState::Inactive } else { PathState::Unconfirmed });
        let from = w.log.len();
        w.send(A, a, &[1; 5_000], SendInfo { to: Some(ip(1, B)), ..SendInfo::default() });
        w.pass(ms(500));
        assert!(w.log[from..].iter().all(|l| l.link == 0 || !l.kinds.contains(&kind::DATA)));
        assert_eq!(w.messages(B, b).len(), 1);
    }
}

/// Who restarts again and again, and whose owner does not read, takes one place for all of that.
#[test]
fn restarts_that_nobody_reads_of_are_one() {
    let (mut w, b, ports, seen) = ready();
    for peer in 10..210 {
        w.inject(B, ports, 0, &bytes(&[Chunk::Init(hello(peer, 1, &[]))]));
        w.pass(ms(1));
        let (tag, cookie) = cookie(&seen);
        w.inject(B, ports, tag, &bytes(&[Chunk::CookieEcho(&cookie)]));
        w.pass(ms(1));
        assert_eq!(w.info(B, b).tags, (tag, peer));
    }
    assert_eq!(restarts(&mut w, b), 1);
}

/// Both hosts have an address of a network of their own, and the same one: HEARTBEATs to it would come back to their sender.
#[test]
fn an_address_that_both_sides_have_is_no_path() {
    let mut w = World::new();
    let common = IpAddr::from([172, 17, 0, 1]);
    for host in [A, B] {
        w.stacks[host].add_address(lowwater_core::base::DeviceId(1), common, 16).unwrap();
    }
    let (a, b) = w.pair();
    w.pass(Duration::from_secs(60));
    for (host, id) in [(A, a), (B, b)] {
        let info = w.info(host, id);
        assert_eq!((info.state, w.sent(host, kind::ABORT)), (State::Established, 0), "host {host}");
        assert_eq!((info.paths[1].remote, info.paths[1].local), (common, None));
    }
    w.send(A, a, b"x", SendInfo::default());
    w.pass(ms(500));
    assert_eq!(w.messages(B, b), [b"x"]);
    assert_eq!(w.stacks[A].counters().sctp.out_of_blues + w.stacks[B].counters().sctp.out_of_blues, 0);
}

/// FORWARD TSN on another path overtakes COOKIE ECHO, and would find nobody.
#[test]
fn forward_tsn_waits_for_cookie_ack() {
    let mut w = World::with(2, &Default::default(), 1);
    w.listen(w.options());
    let now = w.now;
    let remotes = [0, 1].map(|link| SocketAddr::new(ip(link, B), 5_000));
    let a = w.stacks[A].sctp_connect(now, &remotes, &[], w.options()).unwrap();
    let mut first = true;
    w.rule = Box::new(move |c| {
        let echo = c.kinds().contains(&kind::COOKIE_ECHO) && core::mem::take(&mut first);
        if echo { Fate::Lose } else { Fate::Deliver(ms(if c.link == 0 { 10 } else { 80 })) }
    });
    w.send(A, a, b"x", SendInfo { reliability: Reliability::Lifetime(ms(500)), ..SendInfo::default() });
    w.pass(Duration::from_secs(5));
    assert_eq!(w.info(A, a).state, State::Established);
    assert_eq!((w.stacks[A].counters().own.sctp_abandoned, w.info(A, a).unacked), (1, 0));
    let skip = w.log.iter().position(|l| l.kinds.contains(&kind::FORWARD_TSN)).expect("it is skipped");
    let ack = w.log.iter().position(|l| l.kinds.contains(&kind::COOKIE_ACK)).expect("the handshake ends");
    assert!(skip > ack);
}

/// T1 doubles by itself; the DATA that goes with the cookie has T3, which doubles the timeout of its path.
#[test]
fn a_cookie_with_data_that_is_lost_waits_twice_as_long_and_no_longer() {
    let mut w = World::new();
    w.listen(w.options());
    let a = w.connect(w.options());
    let mut lost = 0;
    w.rule = Box::new(move |c| {
        lost += usize::from(c.kinds().contains(&kind::COOKIE_ECHO));
        let lose = c.kinds().contains(&kind::COOKIE_ECHO) && lost < 4;
        if lose { Fate::Lose } else { Fate::Deliver(ms(10)) }
    });
    w.send(A, a, b"x", SendInfo::default());
    w.pass(Duration::from_secs(30));
    assert_eq!(w.info(A, a).state, State::Established);
    let echoes: Vec<_> =
        w.log.iter().filter(|l| l.kinds.contains(&kind::COOKIE_ECHO)).map(|l| l.at).collect();
    let gaps: Vec<_> = echoes.windows(2).map(|pair| pair[1].since(pair[0]).as_millis()).collect();
    assert_eq!(gaps, [1_000, 2_000, 4_000]);
}

/// A cookie of another instance is taken while we close too (section 5.2.4 B): the numbers are that one's then, and the shutdown goes on.
#[test]
fn a_collision_while_closing_goes_on_with_the_shutdown() {
    let mut w = World::new();
    let a = opens(&mut w);
    let seen = tap(&mut w, A);
    w.pass(ms(1));
    let (ports, ours) = (TO_OPENER, w.info(A, a).tags.0);
    let echoes = two_instances(&mut w, a, &seen, [1_000, 1_001]);
    let now = w.now;
    w.stacks[A].sctp_shutdown(now, a).unwrap();
    w.pass(ms(1));
    assert_eq!(w.info(A, a).state, State::ShutdownSent);
    let behind = [Chunk::CookieEcho(&echoes[1]), Chunk::Data(data(1_001, 0), b"new")];
    w.inject(A, ports, ours, &bytes(&behind));
    w.pass(ms(1));
    let info = w.info(A, a);
    assert_eq!((info.state, info.tags, info.cum_tsn), (State::ShutdownSent, (ours, 8), 1_001));
    assert_eq!(w.messages(A, a), [b"old", b"new"]);
    let last = seen.borrow().last().map(|packet| (packet[0], packet[4]));
    assert_eq!(last, Some((kind::COOKIE_ACK, kind::SHUTDOWN)));
}

/// Section 5.4: a peer may name anybody. What it sends in the name of an address that never answered is acknowledged, but elsewhere.
#[test]
fn nothing_but_heartbeats_goes_to_an_address_that_was_only_named() {
    let mut w = World::with(2, &Default::default(), 1);
    w.listen(w.options());
    let (seen, ports, stranger) = (tap(&mut w, B), (6_000, 5_000), ip(1, A));
    w.inject(B, ports, 0, &bytes(&[Chunk::Init(hello(7, 1_000, &params(&[v4(stranger)])))]));
    w.pass(ms(1));
    let (tag, cookie) = cookie(&seen);
    w.inject(B, ports, tag, &bytes(&[Chunk::CookieEcho(&cookie)]));
    w.pass(ms(1));
    let from = w.log.len();
    for n in 1..=50 {
        // Each one makes a hole, and an ERROR due.
        let mut chunks = bytes(&[Chunk::Data(data(1_000 + 2 * n, 0), b"x")]);
        chunks.extend([0x7f, 0, 0, 4]);
        w.inject_from(stranger, B, ports, tag, &chunks);
        w.pass(ms(1));
    }
    w.inject_from(stranger, B, ports, tag, &bytes(&[Chunk::Heartbeat(Tlvs::new(&[0, 1, 0, 4]))]));
    w.pass(ms(1));
    let by = |link, kind| w.log[from..].iter().filter(|l| l.link == link && l.kinds.contains(&kind)).count();
    assert_eq!([kind::SACK, kind::ERROR].map(|kind| by(1, kind)), [0, 0]);
    assert!(by(0, kind::SACK) >= 50 && by(0, kind::ERROR) >= 50);
    assert_eq!(by(1, kind::HEARTBEAT_ACK), 1);
}

/// The guard of a shutdown against a closed window is stopped by the first data that is acknowledged, however slowly the rest goes (Linux
/// `sctp_check_transmitted`), and SHUTDOWN has one of its own, whole.
#[test]
fn a_reader_that_goes_on_slowly_outlives_the_guard() {
    for peer_closes in [false, true] {
        let mut w = World::new();
        let options =
            SctpOptions { association_max_retrans: 2, nodelay: true, sndbuf: 1 << 20, ..w.options() };
        let (a, ports, ours) = opens_to(&mut w, 1, options);
        let seen = tap(&mut w, A);
        for chunks in [init_ack(9, &[]), bytes(&[Chunk::CookieAck])] {
            w.inject(A, ports, ours, &chunks);
            w.pass(ms(1));
        }
        for _ in 0..400 {
            w.send(A, a, &[7; 100], SendInfo::default());
        }
        let now = w.now;
        w.stacks[A].sctp_shutdown(now, a).unwrap();
        w.pass(ms(100));
        let ack = |w: &mut World, a_rwnd: u32| {
            let cum_tsn = *tsns(&seen).iter().max().unwrap();
            let sack = Sack { cum_tsn, a_rwnd, gaps: &[], dups: &[] };
            w.inject(A, ports, ours, &bytes(&[Chunk::Sack(sack)]));
        };
        ack(&mut w, 0);
        // The errors are spent, which is no end as long as the guard runs.
        w.pass(Duration::from_secs(100));
        assert_eq!(w.info(A, a).state, State::ShutdownPending);
        if peer_closes {
            let cum = tsns(&seen)[0].wrapping_sub(1);
            w.inject(A, ports, ours, &bytes(&[Chunk::Shutdown(cum)]));
        }
        // A chunk in a second.
        for _ in 0..310 {
            w.pass(Duration::from_secs(1));
            ack(&mut w, 150);
        }
        let state = if peer_closes { State::ShutdownReceived } else { State::ShutdownPending };
        assert_eq!(w.info(A, a).state, state);
        while w.info(A, a).unsent_bytes > 0 {
            ack(&mut w, 100_000);
            w.pass(ms(10));
        }
        ack(&mut w, 100_000);
        let state = if peer_closes { State::ShutdownAckSent } else { State::ShutdownSent };
        assert_eq!(w.info(A, a).state, state);
    }
}

/// What is given up is dry too: SHUTDOWN begins a guard of its own (Linux `sctp_sf_do_9_2_start_shutdown`).
#[test]
fn a_shutdown_after_its_data_was_given_up_has_the_whole_guard() {
    let mut w = World::new();
    let options = SctpOptions { association_max_retrans: 2, ..w.options() };
    let (a, ports, ours) = opens_to(&mut w, 1, options);
    let seen = tap(&mut w, A);
    let list = params(&[Param::ForwardTsnSupported, Param::StateCookie(b"cook")]);
    for chunks in [bytes(&[Chunk::InitAck(hello(9, 500, &list))]), bytes(&[Chunk::CookieAck])] {
        w.inject(A, ports, ours, &chunks);
        w.pass(ms(1));
    }
    let reliability = Reliability::Lifetime(Duration::from_secs(250));
    for _ in 0..2 {
        w.send(A, a, &[7; 1_000], SendInfo { reliability, ..SendInfo::default() });
    }
    let now = w.now;
    w.stacks[A].sctp_shutdown(now, a).unwrap();
    w.pass(ms(1));
    let cum_tsn = tsns(&seen)[0].wrapping_sub(1);
    let sack = Sack { cum_tsn, a_rwnd: 0, gaps: &[], dups: &[] };
    w.inject(A, ports, ours, &bytes(&[Chunk::Sack(sack)]));
    w.pass(Duration::from_secs(240));
    assert_eq!(w.info(A, a).state, State::ShutdownPending);
    w.pass(Duration::from_secs(20));
    let cum_tsn = *tsns(&seen).iter().max().unwrap();
    for cum_tsn in [cum_tsn, cum_tsn.wrapping_add(1)] {
        if w.info(A, a).state == State::ShutdownPending {
            let sack = Sack { cum_tsn, a_rwnd: 0, gaps: &[], dups: &[] };
            w.inject(A, ports, ours, &bytes(&[Chunk::Sack(sack)]));
            w.pass(ms(1));
        }
    }
    assert_eq!(w.info(A, a).state, State::ShutdownSent);
    // The peer says something all the time, so that nothing but the guard ends it.
    for second in 0..290 {
        w.pass(Duration::from_secs(1));
        w.inject(A, ports, ours, &bytes(&[Chunk::Heartbeat(Tlvs::new(&[0, 1, 0, 4]))]));
        assert_eq!(w.info(A, a).state, State::ShutdownSent, "{second}");
    }
}

/// Section 5.2.1: an answer to an INIT that crosses ours goes to an address that the application has named and that INIT reports.
#[test]
fn the_answer_to_an_init_that_crosses_ours_goes_to_where_both_sides_know() {
    for named_too in [false, true] {
        let mut w = World::with(3, &Default::default(), 1);
        let options = w.options();
        let (a, ports, ours) = opens_to(&mut w, 2, options);
        let _lost = tap(&mut w, A);
        if named_too {
            // The peer has named that address, with a cookie in vain: it was not confirmed by that.
            let all = [0, 1, 2].map(|link| ip(link, B));
            for (from, chunks) in [(ip(0, B), init_ack(9, &all)), (ip(0, B), stale())] {
                w.inject_from(from, A, ports, ours, &chunks);
                w.pass(ms(1));
            }
        }
        assert_eq!(w.info(A, a).state, State::CookieWait);
        let init = bytes(&[Chunk::Init(hello(7, 1, &params(&[v4(ip(1, B))])))]);
        w.inject_from(ip(2, B), A, ports, 0, &init);
        w.pass(ms(1));
        let answers = w.log.iter().filter(|l| l.from == A && l.kinds.contains(&kind::INIT_ACK));
        assert_eq!(answers.map(|l| l.link).collect::<Vec<_>>(), [1], "{named_too}");
    }
}

/// It leaves from the address that the INIT came to, and IPv4 does not lead to an address of IPv6.
#[test]
fn the_answer_to_an_init_that_crosses_ours_stays_within_its_family() {
    let mut w = World::with(3, &Default::default(), 1);
    let (now, options, six) = (w.now, w.options(), ip6(1, B));
    let remotes = [ip(0, B), six].map(|ip| SocketAddr::new(ip, 5_000));
    let a = w.stacks[A].sctp_connect(now, &remotes, &[], options).unwrap();
    w.pass(ms(1));
    let ports = (5_000, w.stacks[A].local_addr(a).unwrap().port());
    let _lost = tap(&mut w, A);
    let IpAddr::V6(six) = six else { unreachable!("an address of IPv6") };
    let init = bytes(&[Chunk::Init(hello(7, 1, &params(&[Param::Ipv6(six), v4(ip(0, B))])))]);
    w.inject_from(ip(2, B), A, ports, 0, &init);
    w.pass(ms(1));
    let answers = w.log.iter().filter(|l| l.from == A && l.kinds.contains(&kind::INIT_ACK));
    assert_eq!(answers.map(|l| l.link).collect::<Vec<_>>(), [0]);
}

/// However many addresses there may be, and the peer names: the one that an INIT ACK came from is among them, and gets the cookie.
#[test]
fn an_init_ack_from_one_address_more_than_there_may_be_is_answered_there() {
    let far = |n: u8| IpAddr::from([10, 0, 0, 100 + n]);
    for names_all in [true, false] {
        let mut w = World::new();
        let (now, options) = (w.now, w.options());
        let mut known: Vec<IpAddr> = (1..SCTP_PATHS_MAX as u8).map(far).collect();
        known.insert(0, ip(0, B));
        let remotes: Vec<_> = known.iter().map(|ip| SocketAddr::new(*ip, 5_000)).collect();
        let a = w.stacks[A].sctp_connect(now, &remotes, &[], options).unwrap();
        w.pass(ms(1));
        let (ports, ours) = ((5_000, w.stacks[A].local_addr(a).unwrap().port()), w.info(A, a).tags.0);
        let named = if names_all { &known[..] } else { &known[3..5] };
        w.inject_from(far(0), A, ports, ours, &init_ack(9, named));
        w.pass(ms(1));
        let info = w.info(A, a);
        let primary: Vec<_> = info.paths.iter().filter(|p| p.primary).map(|p| p.remote).collect();
        assert_eq!((info.state, primary), (State::CookieEchoed, vec![far(0)]), "{names_all}");
        assert_eq!(info.paths.len(), if names_all { SCTP_PATHS_MAX } else { 3 });
        assert!(info.paths.iter().all(|p| p.remote == far(0) || named.contains(&p.remote)), "{names_all}");
    }
}

/// Supported Address Types (section 5.1.2): who has a stack of one family is told of no addresses of the other.
#[test]
fn an_init_ack_names_addresses_of_families_that_the_peer_takes() {
    let types = |kinds: &[u16]| {
        let mut param = vec![0, 12, 0, 4 + 2 * kinds.len() as u8];
        param.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
        param.resize(param.len().next_multiple_of(4), 0);
        param
    };
    for (said, six) in [(vec![], true), (types(&[5]), false), (types(&[6]), true), (types(&[5, 6]), true)] {
        let mut w = World::new();
        let both = [ip(0, B), ip6(0, B)].map(|ip| SocketAddr::new(ip, 5_000));
        let (now, options) = (w.now, w.options());
        w.stacks[B].sctp_listen(now, &both, 5, options).unwrap();
        let seen = tap(&mut w, B);
        w.inject(B, (6_000, 5_000), 0, &bytes(&[Chunk::Init(hello(7, 1_000, &said))]));
        w.pass(ms(1));
        let packet = seen.borrow().first().cloned().expect("an answer");
        let raw = Chunks::new(&packet).next().expect("a chunk").expect("well formed");
        let Ok(Chunk::InitAck(init)) = Chunk::parse(&raw) else { panic!("no INIT ACK: {packet:?}") };
        let named = lowwater_core::sctp::handshake::init::named_addresses(&init).any(|ip| ip.is_ipv6());
        assert_eq!(named, six, "{said:?}");
    }
}
