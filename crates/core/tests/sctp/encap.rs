//! SCTP over UDP (RFC 6951): the port that a peer's packets show, path MTU, checksums, ICMP.
use crate::world::*;
use lowwater_core::base::{Duration, Error, SocketId, Sysctl};
use lowwater_core::sctp::{SendInfo, State};
use lowwater_wire::checksum;
use lowwater_wire::sctp::chunk_kind as kind;
use std::net::SocketAddr;

const PORT: u16 = 9_899;

/// Both hosts take SCTP at UDP's port 9899.
fn world(links: usize) -> World {
    World::with(links, &Sysctl { sctp_udp_port: PORT.into(), ..Sysctl::default() }, 1)
}

/// An association that A opens over UDP.
fn over_udp(w: &mut World) -> (SocketId, SocketId) {
    let mut a = w.options();
    let b = a.clone();
    a.encap_port = PORT;
    w.associated(a, b)
}

/// The UDP checksum of an IPv4 packet without options is made anew.
fn fix_udp(all: &mut [u8]) {
    all[26..28].fill(0);
    let v4 = |at: usize| std::net::Ipv4Addr::new(all[at], all[at + 1], all[at + 2], all[at + 3]);
    let pseudo = checksum::pseudo_v4(v4(12), v4(16), 17, all.len() - 20);
    let sum = checksum::finish(u64::from(checksum::fold(pseudo)) + checksum::sum(&all[20..]));
    all[26..28].copy_from_slice(&sum.to_be_bytes());
}

/// Two messages of this many bytes each way.
fn exchange(w: &mut World, a: SocketId, b: SocketId, len: usize) {
    for (from, id, to, peer) in [(A, a, B, b), (B, b, A, a)] {
        let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
        w.send(from, id, &data, SendInfo::default());
        w.send(from, id, &data, SendInfo { unordered: true, ..SendInfo::default() });
        w.pass(Duration::from_secs(2));
        assert_eq!(w.messages(to, peer), [data.clone(), data]);
    }
}

#[test]
fn an_association_over_udp_stays_there_and_its_packets_leave_room_for_the_header() {
    let mut w = world(1);
    let (a, b) = over_udp(&mut w);
    exchange(&mut w, a, b, 10_000);
    assert!(w.log.iter().all(|l| l.udp == Some((PORT, PORT))), "{:?}", w.log);
    assert_eq!(
        w.log.iter().map(|l| l.bytes).max(),
        Some(1_500),
        "full packets fit the path with their UDP header"
    );
    for (host, id) in [(A, a), (B, b)] {
        let info = w.info(host, id);
        assert_eq!((info.paths[0].encap_port, info.fragment_point), (PORT, 1_500 - 20 - 8 - 12 - 16));
    }
    assert_eq!(w.stacks[B].counters().udp.no_ports, 0);
}

#[test]
fn over_ipv6_and_on_two_paths() {
    let mut w = world(2);
    let mut options = w.options();
    options.encap_port = PORT;
    let now = w.now;
    let any = SocketAddr::new(ip6(0, B), 5_000);
    let both = [any, SocketAddr::new(ip6(1, B), 5_000)];
    let listener = w.stacks[B].sctp_listen(now, &both, 1, w.options()).unwrap();
    let a = w.stacks[A].sctp_connect(now, &[any], &[], options).unwrap();
    w.pass(Duration::from_secs(1));
    let now = w.now;
    let (b, _) = w.stacks[B].sctp_accept(now, listener).unwrap();
    exchange(&mut w, a, b, 5_000);
    let paths = w.info(A, a).paths;
    assert_eq!(paths.iter().map(|p| p.encap_port).collect::<Vec<_>>(), [PORT, PORT]);
    assert!(w.log.iter().all(|l| l.udp.is_some()) && w.log.iter().any(|l| l.link == 1), "{:?}", w.log);
    assert_eq!(w.log.iter().map(|l| l.bytes).max(), Some(1_500));
}

#[test]
fn without_a_port_of_ours_nothing_is_put_into_udp() {
    let mut w = World::new();
    let (a, b) = over_udp(&mut w);
    exchange(&mut w, a, b, 3_000);
    assert!(w.log.iter().all(|l| l.udp.is_none()));
    assert_eq!(w.info(A, a).paths[0].encap_port, 0);
}

/// A translator between the two changes A's port, and once more in the middle of it.
#[test]
fn the_port_that_packets_come_from_is_where_answers_go() {
    let mut w = world(1);
    let port = std::rc::Rc::new(std::cell::Cell::new(40_000u16));
    let outside = port.clone();
    w.rewrite = Some(Box::new(move |from, all| {
        let (at, new) = if from == A { (20, outside.get()) } else { (22, PORT) };
        assert!(from == A || half(all, 22) == outside.get(), "B answers to the port that it sees");
        all[at..at + 2].copy_from_slice(&new.to_be_bytes());
        fix_udp(all);
    }));
    let (a, b) = over_udp(&mut w);
    exchange(&mut w, a, b, 3_000);
    assert_eq!(w.info(B, b).paths[0].encap_port, 40_000);
    port.set(50_000);
    let now = w.now;
    w.stacks[A].sctp_heartbeat(now, a, ip(0, B)).unwrap();
    exchange(&mut w, a, b, 3_000);
    assert_eq!(w.info(B, b).paths[0].encap_port, 50_000);
    assert_eq!(w.info(A, a).paths[0].encap_port, PORT);
}

#[test]
fn a_wrong_tag_moves_nothing_and_packets_without_udp_end_it() {
    let mut w = world(1);
    let (a, b) = over_udp(&mut w);
    let ports = w.stacks[B].sctp_addrs(b).map(|(ours, theirs)| (theirs[0].port(), ours[0].port())).unwrap();
    let tag = w.info(B, b).tags.0;
    // A HEARTBEAT without UDP.
    let heartbeat = [4, 0, 0, 8, 0, 1, 0, 4];
    w.inject(B, ports, tag ^ 1, &heartbeat);
    assert_eq!(w.info(B, b).paths[0].encap_port, PORT, "its tag is nobody's");
    w.inject(B, ports, tag, &heartbeat);
    assert_eq!(w.info(B, b).paths[0].encap_port, 0, "RFC 6951 section 4.4");
    w.pass(ms(5));
    assert_eq!(w.log.last().map(|l| (l.from, l.udp)), Some((B, None)));
    exchange(&mut w, a, b, 3_000);
}

#[test]
fn an_init_from_another_port_cannot_move_an_association() {
    let mut w = world(1);
    let (a, b) = over_udp(&mut w);
    let port = w.stacks[A].local_addr(a).unwrap().port();
    // A's restart reaches B through another port than before.
    w.start_anew(port);
    w.pass(ms(100));
    assert_eq!((w.sent(B, kind::ABORT), w.sent(B, kind::INIT_ACK)), (1, 1));
    let answer = w.log.iter().rfind(|l| l.kinds == [kind::ABORT]).unwrap();
    assert_eq!((answer.bytes, answer.udp), (20 + 12 + 4 + 8, None), "with the cause that names both ports");
    assert_eq!(w.info(B, b).state, State::Established);
}

#[test]
fn a_checksum_may_be_left_out_over_ipv4_but_not_be_wrong() {
    for (value, arrives) in [(0u16, true), (0x1234, false)] {
        let mut w = world(1);
        let (a, b) = over_udp(&mut w);
        w.rewrite = Some(Box::new(move |_, all| all[26..28].copy_from_slice(&value.to_be_bytes())));
        w.send(A, a, b"x", SendInfo::default());
        w.pass(ms(50));
        assert_eq!(!w.messages(B, b).is_empty(), arrives, "{value:x}");
        assert_eq!(w.stacks[B].counters().udp.in_csum_errors > 0, !arrives);
    }
}

#[test]
fn the_crc_is_checked_whatever_udp_says() {
    let mut w = world(1);
    let (a, b) = over_udp(&mut w);
    w.rewrite = Some(Box::new(|_, all| {
        *all.last_mut().unwrap() ^= 1;
        fix_udp(all);
    }));
    w.send(A, a, b"x", SendInfo::default());
    w.pass(ms(50));
    assert!(w.messages(B, b).is_empty());
    assert_eq!(w.stacks[B].counters().sctp.checksum_errors, 1);
}

/// What a router quotes of A's packets over UDP.
fn quote(ports: (u16, u16), vtag: u32) -> Vec<u8> {
    let udp = [PORT.to_be_bytes(), PORT.to_be_bytes(), [5, 200], [0, 0]].concat();
    [&udp[..], &ports.0.to_be_bytes(), &ports.1.to_be_bytes(), &vtag.to_be_bytes()].concat()
}

#[test]
fn icmp_errors_count_by_the_tag_behind_the_quoted_udp_header() {
    let mut w = world(1);
    let (a, b) = over_udp(&mut w);
    let port = w.stacks[A].local_addr(a).unwrap().port();
    let tag = w.info(A, a).tags.1;
    let whole = quote((port, 5_000), tag);
    w.unreachable(A, (4, 1_300), 17, &whole[..8]);
    w.unreachable(A, (4, 1_300), 17, &quote((port, 5_000), tag ^ 1));
    assert_eq!(w.info(A, a).paths[0].mtu, 1_500, "nobody says whose it was");
    w.unreachable(A, (4, 1_300), 17, &whole);
    assert_eq!((w.info(A, a).paths[0].mtu, w.info(A, a).fragment_point), (1_300, 1_300 - 20 - 8 - 12 - 16));
    exchange(&mut w, a, b, 10_000);
    // Nobody has that UDP port: as good as a host without SCTP.
    w.unreachable(A, (3, 0), 17, &whole);
    assert_eq!(w.info(A, a).state, State::Closed);
    assert_eq!(w.stacks[A].take_error(a), Some(Error::ProtocolUnreachable));
}

#[test]
fn nobody_listens_and_the_answer_goes_back_by_udp() {
    let mut w = world(1);
    let mut options = w.options();
    options.encap_port = PORT;
    let a = w.connect(options);
    w.pass(ms(100));
    assert_eq!(w.stacks[A].take_error(a), Some(Error::Refused));
    assert!(w.log.iter().all(|l| l.udp == Some((PORT, PORT))));
}

#[test]
fn the_port_is_a_socket_option_of_each_path() {
    let mut w = world(1);
    let (a, b) = w.pair();
    assert_eq!(w.info(A, a).paths[0].encap_port, 0);
    let now = w.now;
    w.stacks[A].sctp_set_encap_port(now, a, Some(ip(0, B)), PORT).unwrap();
    assert_eq!(w.stacks[A].sctp_set_encap_port(now, a, Some(ip(5, B)), PORT), Err(Error::Invalid));
    exchange(&mut w, a, b, 3_000);
    assert_eq!(w.info(B, b).paths[0].encap_port, PORT, "B has seen it");
}

#[test]
fn a_setting_opens_all_associations_over_udp() {
    let settings = Sysctl { sctp_udp_port: PORT.into(), sctp_encap_port: PORT.into(), ..Sysctl::default() };
    let mut w = World::with(1, &settings, 1);
    let (a, b) = w.pair();
    exchange(&mut w, a, b, 3_000);
    assert!(w.log.iter().all(|l| l.udp == Some((PORT, PORT))));
}

#[test]
fn sctps_port_is_no_other_sockets() {
    let mut w = world(1);
    let now = w.now;
    assert_eq!(w.stacks[A].udp_bind(now, SocketAddr::new(ip(0, A), PORT)), Err(Error::AddressInUse));
}
