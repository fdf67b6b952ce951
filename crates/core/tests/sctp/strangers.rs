//! Whose an address is, and who may say so: restarts with other addresses, addresses that a peer only names, tags and the T bit,
//! errors of routers (RFC 9260 sections 5.2.2, 5.4, 8.5.1, 10; RFC 5062).
use crate::world::*;
use lowwater_core::base::{DropWhy, Duration, SocketId};
use lowwater_core::sctp::{PathState, SendInfo, State};
use lowwater_wire::sctp::{Chunk, Init, Param, Tlvs, chunk_kind as kind};
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// An INIT that names these addresses.
fn init(addresses: &[IpAddr]) -> Vec<u8> {
    let mut params = Vec::new();
    for ip in addresses {
        let IpAddr::V4(ip) = ip else { unreachable!("these worlds are IPv4") };
        let param = Param::Ipv4(*ip);
        let at = params.len();
        params.resize(at + param.stated_len(), 0);
        param.emit(&mut params[at..]);
    }
    let init = Init {
        initiate_tag: 7,
        a_rwnd: 100_000,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: 1,
        params: Tlvs::new(&params),
    };
    bytes(&[Chunk::Init(init)])
}

fn ports(w: &World, a: SocketId) -> (u16, u16) {
    (w.stacks[A].local_addr(a).unwrap().port(), 5_000)
}

/// What B has sent since, chunk bytes of each packet.
fn tap(w: &mut World) -> Rc<RefCell<Vec<Vec<u8>>>> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let tap = seen.clone();
    w.rule = Box::new(move |c| {
        if c.from == B {
            tap.borrow_mut().push(c.chunks.to_vec());
        }
        Fate::Lose
    });
    seen
}

#[test]
fn a_restart_keeps_the_addresses_that_it_names_and_frees_the_others() {
    let mut w = World::with(2, &Default::default(), 1);
    let (a, b) = w.pair();
    w.pass(ms(500));
    assert_eq!(w.info(B, b).paths.len(), 2);
    let port = ports(&w, a).0;
    let a = w.start_anew(port);
    w.pass(ms(500));
    assert_eq!((w.info(A, a).state, w.info(B, b).state), (State::Established, State::Established));
    let remotes: Vec<IpAddr> = w.info(B, b).paths.iter().map(|p| p.remote).collect();
    assert_eq!(remotes, [ip(0, A)]);
    w.send(A, a, b"after", SendInfo::default());
    w.send(B, b, b"answer", SendInfo::default());
    w.pass(Duration::from_secs(1));
    assert_eq!((w.messages(A, a), w.messages(B, b)), (vec![b"answer".to_vec()], vec![b"after".to_vec()]));
    // What was freed belongs to whoever comes from there.
    let (now, options) = (w.now, w.options());
    let (local, remote) = (SocketAddr::new(ip(1, A), port), SocketAddr::new(ip(1, B), 5_000));
    let second = w.stacks[A].sctp_connect(now, &[remote], &[local], options).unwrap();
    w.pass(ms(500));
    assert_eq!(w.info(A, second).state, State::Established);
    assert_eq!(w.stacks[B].counters().sctp.passive_estabs, 2);
}

/// Section 5.2.2: nobody adds himself to an association by an INIT, neither from an address of it nor from another.
#[test]
fn an_init_that_adds_an_address_is_refused() {
    let stranger = IpAddr::from([10, 0, 0, 77]);
    for (from, named) in [(ip(0, A), [ip(0, A), stranger]), (stranger, [stranger, ip(0, A)])] {
        let mut w = World::new();
        let (a, b) = w.pair();
        let (ports, tags) = (ports(&w, a), w.info(B, b).tags);
        let seen = tap(&mut w);
        w.inject_from(from, B, ports, 0, &init(&named));
        w.pass(ms(1));
        // ABORT, cause 11 "Restart of an Association with New Addresses", with that address.
        let expected = [&[6, 0, 0, 16, 0, 11, 0, 12, 0, 5, 0, 8][..], &[10, 0, 0, 77]].concat();
        assert_eq!(*seen.borrow(), [expected], "from {from}");
        assert_eq!((w.info(B, b).state, w.info(B, b).tags), (State::Established, tags));
    }
}

/// RFC 5062 section 2: who names a stranger's address in his INIT does not keep the stranger out.
#[test]
fn an_address_that_a_peer_only_names_captures_nobodys_init() {
    camp(ms(100));
}

/// Nor does he with time: that it has answered none of many HEARTBEATs does not make an address his.
#[test]
fn an_address_that_was_asked_in_vain_for_long_captures_nobodys_init() {
    camp(Duration::from_secs(1_000));
}

/// A peer names a stranger's address, and the stranger comes so much later.
fn camp(later: Duration) {
    let mut w = World::new();
    let listener = w.listen(w.options());
    w.stacks[A].add_address(lowwater_core::base::DeviceId(1), IpAddr::from([10, 0, 0, 77]), 24).unwrap();
    w.rule = Box::new(|c| {
        // The second path's: its number is behind the one that nobody can guess.
        let asked = c.from == B && c.kinds() == [kind::HEARTBEAT] && c.chunks[16] == 1;
        if asked { Fate::Lose } else { Fate::Deliver(ms(10)) }
    });
    let camper = w.connect(w.options());
    w.pass(later);
    let now = w.now;
    let (first, _) = w.stacks[B].sctp_accept(now, listener).unwrap();
    let paths = w.info(B, first).paths;
    let victim = paths[1].remote;
    assert_eq!((paths[0].state, paths[1].state), (PathState::Active, PathState::Unconfirmed));

    let ports = ports(&w, camper);
    let seen = tap(&mut w);
    w.inject_from(victim, B, ports, 0, &init(&[]));
    w.pass(ms(1));
    let (tag, cookie) = {
        let all = seen.borrow();
        let raw = lowwater_wire::sctp::Chunks::new(all.first().expect("an answer")).next().unwrap().unwrap();
        let Ok(Chunk::InitAck(ack)) = Chunk::parse(&raw) else { panic!("no INIT ACK: {all:?}") };
        let mut params = ack.params.map(|tlv| tlv.unwrap());
        let cookie = params.find_map(|tlv| match Param::parse(&tlv) {
            Ok(Param::StateCookie(cookie)) => Some(cookie.to_vec()),
            _ => None,
        });
        (ack.initiate_tag, cookie.expect("a cookie"))
    };
    w.inject_from(victim, B, ports, tag, &bytes(&[Chunk::CookieEcho(&cookie)]));
    w.pass(ms(1));
    let now = w.now;
    let (second, peer) = w.stacks[B].sctp_accept(now, listener).expect("the victim's own association");
    assert_eq!((peer.ip(), w.info(B, second).state), (victim, State::Established));
    // The camper keeps what is his, and no more.
    let paths = w.info(B, first).paths;
    assert_eq!((paths[0].local, paths[1].local), (Some(ip(0, B)), None));
    w.rule = Box::new(|_| Fate::Deliver(ms(10)));
    w.send(B, first, b"x", SendInfo::default());
    w.pass(ms(500));
    assert_eq!(w.messages(A, camper), [b"x"]);
}

#[test]
fn two_associations_differ_by_our_address_alone() {
    let mut w = World::with(2, &Default::default(), 1);
    w.listen(w.options());
    let remote = SocketAddr::new(ip(0, B), 5_000);
    let mut both = Vec::new();
    for link in [0, 1] {
        let (now, options) = (w.now, w.options());
        let local = SocketAddr::new(ip(link, A), 6_000);
        both.push(w.stacks[A].sctp_connect(now, &[remote], &[local], options.clone()).unwrap());
        let again = w.stacks[A].sctp_connect(now, &[remote], &[local], options);
        assert_eq!(again, Err(lowwater_core::base::Error::AddressInUse));
        w.pass(ms(500));
    }
    for id in both {
        assert_eq!(w.info(A, id).state, State::Established);
    }
    assert_eq!(w.stacks[B].counters().sctp.passive_estabs, 2);
}

/// With the T bit the tag must be the peer's, without it ours; in the middle of a packet too.
#[test]
fn the_t_bit_says_whose_tag_a_packet_has() {
    let heartbeat = Chunk::Heartbeat(Tlvs::new(&[0, 1, 0, 4]));
    let abort = |t| Chunk::Abort(t, Tlvs::EMPTY);
    for (ours, chunks, ends) in [
        (true, vec![abort(true)], false),
        (true, vec![heartbeat, abort(true)], false),
        (true, vec![heartbeat, abort(false)], true),
        (true, vec![abort(false)], true),
        (false, vec![abort(false)], false),
        (false, vec![abort(true)], true),
        (false, vec![Chunk::ShutdownComplete(true), abort(false)], false),
        (false, vec![Chunk::ShutdownComplete(true), Chunk::Shutdown(0), heartbeat], false),
    ] {
        let mut w = World::new();
        let (a, b) = w.pair();
        let (ports, tags) = (ports(&w, a), w.info(B, b).tags);
        let seen = tap(&mut w);
        w.inject(B, ports, if ours { tags.0 } else { tags.1 }, &bytes(&chunks));
        w.pass(ms(1));
        let state = if ends { State::Closed } else { State::Established };
        assert_eq!(w.info(B, b).state, state, "our tag: {ours}, {chunks:?}");
        if !ours {
            assert!(seen.borrow().is_empty(), "{chunks:?}: a tag that is not ours is good for one chunk");
        }
    }
}

#[test]
fn the_end_of_a_shutdown_needs_the_right_tag_too() {
    for (ours, reflected, ends) in
        [(true, false, true), (true, true, false), (false, true, true), (false, false, false)]
    {
        let mut w = World::new();
        let (a, b) = w.pair();
        let (ports, tags, cum) = (ports(&w, a), w.info(B, b).tags, w.info(A, a).cum_tsn);
        w.rule = Box::new(|_| Fate::Lose);
        w.inject(B, ports, tags.0, &bytes(&[Chunk::Shutdown(cum)]));
        w.pass(ms(1));
        assert_eq!(w.info(B, b).state, State::ShutdownAckSent);
        let complete = bytes(&[Chunk::ShutdownComplete(reflected)]);
        w.inject(B, ports, if ours { tags.0 } else { tags.1 }, &complete);
        let state = if ends { State::Closed } else { State::ShutdownAckSent };
        assert_eq!(w.info(B, b).state, state, "our tag: {ours}, T: {reflected}");
        assert_eq!(w.stacks[B].counters().drops(DropWhy::SctpTag), u64::from(!ends));
    }
}

/// An INIT has no tag, so that a router must quote the one inside.
#[test]
fn a_router_that_does_not_quote_our_init_ends_nothing() {
    for (quoted, ends) in [(None, false), (Some(1), false), (Some(0), true)] {
        let mut w = World::new();
        w.rule = Box::new(|_| Fate::Lose);
        let a = w.connect(w.options());
        w.pass(ms(1));
        let (ports, tag) = (ports(&w, a), w.info(A, a).tags.0);
        let mut packet = [ports.0.to_be_bytes(), ports.1.to_be_bytes(), [0; 2], [0; 2]].concat();
        if let Some(wrong) = quoted {
            packet.extend([0, 0, 0, 0, kind::INIT, 0, 0, 20]);
            packet.extend((tag ^ wrong).to_be_bytes());
        }
        w.unreachable(A, (2, 0), 132, &packet);
        let state = if ends { State::Closed } else { State::CookieWait };
        assert_eq!(w.info(A, a).state, state, "{quoted:?}");
    }
}

#[test]
fn a_cookie_goes_only_to_addresses_that_the_peer_has_shown_to_be_his() {
    let mut w = World::with(2, &Default::default(), 1);
    w.listen(w.options());
    w.rule = Box::new(|c| {
        let echo = c.kinds().contains(&kind::COOKIE_ECHO);
        if echo { Fate::Lose } else { Fate::Deliver(ms(10)) }
    });
    let a = w.connect(w.options());
    w.pass(Duration::from_secs(30));
    assert_eq!((w.info(A, a).state, w.info(A, a).paths.len()), (State::CookieEchoed, 2));
    let echoes: Vec<usize> =
        w.log.iter().filter(|l| l.kinds.contains(&kind::COOKIE_ECHO)).map(|l| l.link).collect();
    assert!(echoes.len() > 3);
    assert!(echoes.iter().all(|link| *link == 0), "{echoes:?}");
}

/// HB.Max.Burst: one HEARTBEAT in a round-trip time to addresses that a peer has named.
#[test]
fn strangers_are_asked_one_in_a_round_trip() {
    let mut w = World::with(5, &Default::default(), 1);
    let (_, b) = w.pair();
    w.pass(Duration::from_secs(3));
    assert!(w.info(B, b).paths.iter().all(|p| p.state == PathState::Active), "{:?}", w.info(B, b).paths);
    let asked: Vec<_> = w.log.iter().filter(|l| l.from == B && l.kinds.contains(&kind::HEARTBEAT)).collect();
    assert_eq!(asked.len(), 4);
    for pair in asked.windows(2) {
        assert!(pair[1].at.since(pair[0].at) >= ms(20), "{asked:?}");
    }
}

/// Who is closing when a peer that has started anew brings its cookie says so first (section 5.2.4, A), and gets the answer of section
/// 8.5.1 E; then the handshake goes on.
#[test]
fn a_cookie_that_comes_while_shutting_down_is_answered_by_shutdown_ack_then_error() {
    let mut w = World::new();
    let (a, b) = w.pair();
    let (ports, tags, cum) = (ports(&w, a), w.info(B, b).tags, w.info(A, a).cum_tsn);
    let mut first = true;
    w.rule = Box::new(move |c| {
        let lose = c.kinds().contains(&kind::COOKIE_ECHO) && core::mem::take(&mut first);
        if lose { Fate::Lose } else { Fate::Deliver(ms(10)) }
    });
    let fresh = w.start_anew(ports.0);
    w.pass(ms(100));
    assert_eq!(w.info(A, fresh).state, State::CookieEchoed);
    let mut once = true;
    w.rule = Box::new(move |c| {
        let ack = c.from == B && c.kinds() == [kind::SHUTDOWN_ACK] && core::mem::take(&mut once);
        if ack { Fate::Lose } else { Fate::Deliver(ms(10)) }
    });
    w.inject(B, ports, tags.0, &bytes(&[Chunk::Shutdown(cum)]));
    w.pass(Duration::from_secs(10));
    let both = w.log.iter().find(|l| l.from == B && l.kinds.contains(&kind::ERROR)).expect("an ERROR");
    assert_eq!(both.kinds, [kind::SHUTDOWN_ACK, kind::ERROR]);
    assert_eq!(w.info(B, b).state, State::Closed);
    assert_eq!(w.info(A, fresh).state, State::Established);
}
