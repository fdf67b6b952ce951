//! UDP sockets: datagrams whole and cut, peeking, errors of ICMP, addresses of both families.
use crate::support::*;
use bytes::Bytes;
use core::net::{SocketAddrV4, SocketAddrV6};
use lowwater_core::base::Duration;
use lowwater_posix::abi::*;
use lowwater_posix::{Call, Errno, Fd, Host, Name, Piece, RecvKind, Room, SendKind};

const MS: fn(u64) -> Duration = Duration::from_millis;

fn udp(host: &mut Host, domain: i32) -> Fd {
    ok(host, Call::Socket { domain, ty: SOCK_DGRAM, protocol: IPPROTO_UDP })
}

fn sendto(fd: Fd, data: &'static [u8], ip: &str, port: u16) -> Call {
    let to = Some(Name::Inet(at(ip, port)));
    let data = vec![Piece::Data(Bytes::from_static(data))];
    Call::Send { fd, kind: SendKind::Sendto, data, flags: 0, to, control: Vec::new() }
}

#[test]
fn datagrams_keep_their_borders_and_tell_their_sender() {
    let mut net = Net::new();
    let (a, b) = (udp(&mut net.a, AF_INET), udp(&mut net.b, AF_INET6));
    ok(&mut net.a, bind(a, A, 1_000));
    ok(&mut net.b, bind(b, "::", 2_000));
    let id = blocks(&mut net.b, recvmsg(b, 4, 0, 0));
    for data in [&b"abcdef"[..], b"", b"gh"] {
        ok(&mut net.a, sendto(a, data, B, 2_000));
    }
    net.run(MS(50));
    let first = finished(&mut net.b, id);
    assert_eq!((first.data.as_ref(), first.ret, first.msg_flags), (&b"abcd"[..], 4, MSG_TRUNC));
    assert_eq!(first.addr, Some(at("::ffff:10.0.0.1", 1_000)));
    assert_eq!(done(&mut net.b, recv(b, 9, 0)).ret, 0, "an empty datagram is one");
    assert_eq!(done(&mut net.b, recv(b, 1, MSG_PEEK | MSG_TRUNC)).ret, 2);
    assert_eq!(done(&mut net.b, Call::Ioctl { fd: b, request: 0x541b, arg: Some(0) }).int(), Some(2));
    assert_eq!(done(&mut net.b, recv(b, 9, 0)).data, "gh");
    assert_eq!(fails(&mut net.b, recv(b, 9, MSG_DONTWAIT)), Errno::EAGAIN);
}

#[test]
fn a_connected_socket_hears_its_peer_alone_until_it_is_dissolved() {
    let mut net = Net::new();
    let (a, other, b) = (udp(&mut net.a, AF_INET), udp(&mut net.a, AF_INET), udp(&mut net.b, AF_INET));
    ok(&mut net.a, bind(a, A, 1_000));
    ok(&mut net.b, bind(b, B, 2_000));
    ok(&mut net.b, connect(b, A, 1_000));
    ok(&mut net.a, sendto(other, b"stranger", B, 2_000));
    ok(&mut net.a, sendto(a, b"peer", B, 2_000));
    net.run(MS(50));
    assert_eq!(done(&mut net.b, recv(b, 9, 0)).data, "peer");
    assert_eq!(fails(&mut net.b, recv(b, 9, MSG_DONTWAIT)), Errno::EAGAIN);
    ok(&mut net.b, Call::Connect { fd: b, addr: Name::UNSPEC });
    assert_eq!(fails(&mut net.b, send(b, b"x", 0)), Errno::EDESTADDRREQ);
    ok(&mut net.a, sendto(other, b"stranger", B, 2_000));
    net.run(MS(50));
    assert_eq!(done(&mut net.b, recv(b, 9, 0)).data, "stranger");
}

#[test]
fn ports_collide_unless_both_want_to_share() {
    let mut host = host(A, A6);
    let (x, y) = (udp(&mut host, AF_INET), udp(&mut host, AF_INET));
    ok(&mut host, bind(x, A, 53));
    assert_eq!(fails(&mut host, bind(y, A, 53)), Errno::EADDRINUSE);
    assert_eq!(fails(&mut host, bind(y, "0.0.0.0", 53)), Errno::EADDRINUSE);
    let s = stream(&mut host);
    ok(&mut host, bind(s, A, 53));
    let (s4, s6) = (stream(&mut host), stream6(&mut host));
    assert_eq!(fails(&mut host, bind(s6, "::", 53)), Errno::EADDRINUSE, "it would take IPv4 too");
    ok(&mut host, setint(s6, SOL_IPV6, IPV6_V6ONLY, 1));
    ok(&mut host, bind(s6, "::", 53));
    ok(&mut host, setint(s4, SOL_SOCKET, SO_REUSEADDR, 1));
    assert_eq!(fails(&mut host, bind(s4, A, 53)), Errno::EADDRINUSE, "the other does not want to");
    ok(&mut host, setint(s, SOL_SOCKET, SO_REUSEADDR, 1));
    ok(&mut host, bind(s4, A, 53));
    ok(&mut host, Call::Listen { fd: s, backlog: 1 });
    assert_eq!(fails(&mut host, Call::Listen { fd: s4, backlog: 1 }), Errno::EADDRINUSE);
}

#[test]
fn a_datagram_too_long_for_the_path_is_refused_where_it_must_not_be_cut() {
    let mut host = host(A, A6);
    let s = udp(&mut host, AF_INET);
    assert_eq!(ok(&mut host, sendto(s, &[0; 3_000], B, 9)), 3_000);
    ok(&mut host, setint(s, SOL_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO));
    assert_eq!(fails(&mut host, sendto(s, &[0; 3_000], B, 9)), Errno::EMSGSIZE);
    ok(&mut host, connect(s, B, 9));
    assert_eq!(done(&mut host, get(s, SOL_IP, IP_MTU, 4)).int(), Some(1_500));
}

#[test]
fn datagrams_carry_the_type_of_service_and_the_hops_of_their_socket() {
    let mut host = host(A, A6);
    let (s, s6) = (udp(&mut host, AF_INET), udp(&mut host, AF_INET6));
    let packet = |host: &mut Host, call| {
        ok(host, call);
        let now = host.now();
        host.next_packet(now).expect("a datagram").bytes
    };
    let plain = packet(&mut host, sendto(s, b"x", B, 9));
    assert_eq!((plain[1], plain[8]), (0, 64));
    ok(&mut host, setint(s, SOL_IP, IP_TOS, 0x2e));
    ok(&mut host, setint(s, SOL_IP, IP_TTL, 7));
    let marked = packet(&mut host, sendto(s, b"x", B, 9));
    assert_eq!((marked[1], marked[8]), (0x2e, 7));
    ok(&mut host, setint(s6, SOL_IPV6, IPV6_TCLASS, 0x2e));
    ok(&mut host, setint(s6, SOL_IPV6, IPV6_UNICAST_HOPS, 9));
    ok(&mut host, sendto(s6, b"x", B6, 9));
}

/// As `udp_send_skb` does it; seen on Linux 6.18.
#[test]
fn datagrams_have_no_checksum_while_their_socket_wants_none() {
    let checksum = |host: &mut Host, call| {
        ok(host, call);
        let now = host.now();
        let bytes = host.next_packet(now).expect("a datagram").bytes;
        let udp = if bytes[0] >> 4 == 4 { 20 } else { 40 };
        [bytes[udp + 6], bytes[udp + 7]]
    };
    let no_check = |fd, value| setint(fd, SOL_SOCKET, SO_NO_CHECK, value);
    let mut host = host(A, A6);
    // Set before the socket has a port, on one that is bound, and on one that is connected.
    let early = udp(&mut host, AF_INET);
    ok(&mut host, no_check(early, 1));
    let (bound, connected) = (udp(&mut host, AF_INET), udp(&mut host, AF_INET));
    ok(&mut host, bind(bound, A, 7));
    ok(&mut host, connect(connected, B, 9));
    for fd in [early, bound, connected] {
        let one = |fd| if fd == connected { send(fd, b"x", 0) } else { sendto(fd, b"x", B, 9) };
        if fd != early {
            assert_ne!(checksum(&mut host, one(fd)), [0; 2]);
            ok(&mut host, no_check(fd, 1));
        }
        assert_eq!(checksum(&mut host, one(fd)), [0; 2]);
        ok(&mut host, no_check(fd, 0));
        assert_ne!(checksum(&mut host, one(fd)), [0; 2]);
    }
    // Also by way of AF_INET6, where the peer speaks IPv4.
    let mapped = udp(&mut host, AF_INET6);
    ok(&mut host, no_check(mapped, 1));
    assert_eq!(checksum(&mut host, sendto(mapped, b"x", "::ffff:10.0.0.2", 9)), [0; 2]);
}

/// What names a device counts for the addresses after it, and a group of a link needs one as well (seen on Linux 6.18).
#[test]
fn an_address_of_a_link_needs_its_device_once() {
    let scoped = |ip: &str| Name::Inet(SocketAddrV6::new(ip.parse().expect("IPv6"), 7, 0, 2).into());
    let mut host = host(A, "fe80::5");
    for group in ["fe80::1", "ff02::1", "ff01::1"] {
        let fd = udp(&mut host, AF_INET6);
        assert_eq!(fails(&mut host, connect(fd, group, 7)), Errno::EINVAL, "{group}");
    }
    let bound = udp(&mut host, AF_INET6);
    ok(&mut host, Call::Bind { fd: bound, addr: scoped("fe80::5") });
    ok(&mut host, connect(bound, "fe80::1", 7));
    let fd = udp(&mut host, AF_INET6);
    ok(&mut host, Call::Connect { fd, addr: scoped("fe80::1") });
    ok(&mut host, connect(fd, "fe80::2", 7));
    ok(&mut host, Call::Connect { fd, addr: Name::UNSPEC });
    assert_eq!(fails(&mut host, connect(fd, "fe80::1", 7)), Errno::EINVAL, "forgotten with the peer");
}

/// An old way to write a sockaddr_in, which an AF_INET socket binds and sends to (`__inet_bind`, `udp_sendmsg`; as on Linux 6.18).
#[test]
fn an_address_without_a_family_is_one_of_af_inet() {
    let old = |ip: [u8; 4], port| Name::Unspec(Some(SocketAddrV4::new(ip.into(), port)), 28);
    let mut host = host(A, A6);
    for (ty, port) in [(SOCK_STREAM, 80), (SOCK_DGRAM, 81)] {
        let mut bound = |family, addr| {
            let fd = ok(&mut host, Call::Socket { domain: family, ty, protocol: 0 });
            let errno = done(&mut host, Call::Bind { fd, addr }).errno;
            errno.map_or_else(|| Ok(done(&mut host, Call::Getsockname { fd }).addr), Err)
        };
        assert_eq!(bound(AF_INET, old([0; 4], port)), Ok(Some(at("0.0.0.0", port))));
        assert_eq!(bound(AF_INET, old([10, 0, 0, 1], port)), Err(Errno::EAFNOSUPPORT));
        assert_eq!(bound(AF_INET, Name::Unspec(None, 2)), Err(Errno::EINVAL));
        assert_eq!(bound(AF_INET6, Name::Unspec(None, 2)), Err(Errno::EINVAL));
        assert_eq!(bound(AF_INET6, old([0; 4], port)), Err(Errno::EAFNOSUPPORT));
    }
    let to = |fd, name| {
        let Call::Send { kind, data, flags, control, .. } = send(fd, b"abc", 0) else { unreachable!() };
        Call::Send { fd, kind, data, flags, to: Some(name), control }
    };
    let fd = udp(&mut host, AF_INET);
    assert_eq!(ok(&mut host, to(fd, old([10, 0, 0, 2], 9))), 3);
    assert_eq!(fails(&mut host, to(fd, Name::UNSPEC)), Errno::EINVAL, "port 0");
    assert_eq!(fails(&mut host, to(fd, Name::Unspec(None, 2))), Errno::EINVAL);
    let six = udp(&mut host, AF_INET6);
    for name in [Name::UNSPEC, Name::Unspec(None, 2)] {
        assert_eq!(fails(&mut host, to(six, name)), Errno::EDESTADDRREQ, "it is none");
    }
}

/// How long a message is, or a buffer, is asked before anything is read or written.
#[test]
fn lengths_come_before_pointers() {
    let mut host = host(A, A6);
    let fd = udp(&mut host, AF_INET);
    ok(&mut host, connect(fd, B, 9));
    let bad = |len| {
        let data = vec![Piece::Data(b"abc"[..].into()), Piece::Bad(len)];
        Call::Send { fd, kind: SendKind::Writev, data, flags: 0, to: None, control: Vec::new() }
    };
    assert_eq!(fails(&mut host, bad(100_000)), Errno::EMSGSIZE);
    assert_eq!(fails(&mut host, bad(65_510)), Errno::EMSGSIZE);
    assert_eq!(fails(&mut host, bad(100)), Errno::EFAULT);
    let into = |kind, rooms| Call::Recv { fd, kind, rooms, flags: MSG_DONTWAIT, control_len: 0 };
    for kind in [RecvKind::Readv, RecvKind::Recvmsg] {
        let rooms = vec![Room::new(1), Room::new(usize::MAX)];
        assert_eq!(fails(&mut host, into(kind, rooms)), Errno::EINVAL, "below zero");
    }
    let recv = into(RecvKind::Recv, vec![Room::new(usize::MAX)]);
    assert_eq!(fails(&mut host, recv), Errno::EAGAIN, "cut to what a call may have");
}

#[test]
fn a_socket_in_the_place_of_another_has_a_cookie_of_its_own() {
    let mut host = host(A, A6);
    let mut cookie = || {
        let fd = udp(&mut host, AF_INET);
        let cookie = done(&mut host, get(fd, SOL_SOCKET, SO_COOKIE, 8)).value;
        assert_eq!(cookie, done(&mut host, get(fd, SOL_SOCKET, SO_COOKIE, 8)).value, "it stays");
        ok(&mut host, Call::Close { fd });
        (fd, cookie)
    };
    let (one, other) = (cookie(), cookie());
    assert_eq!(one.0, other.0);
    assert_ne!(one.1, other.1);
}
