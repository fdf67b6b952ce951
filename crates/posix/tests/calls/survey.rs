//! What asking the kernel for each call alone in every state has found (`cargo test -p lowwater-kernel --test states`): each as on Linux 6.18.
use crate::support::*;
use bytes::Bytes;
use lowwater_core::base::Duration;
use lowwater_posix::abi::*;
use lowwater_posix::{
    Call, Control, EpollEvent, Errno, Fd, Host, Name, Optval, Piece, RecvKind, Room, SendKind,
};

const MS: Duration = Duration::from_millis(1);
/// MSG_CMSG_COMPAT: only the kernel gives it itself.
const COMPAT: i32 = i32::MIN;

fn udp(host: &mut Host, domain: i32) -> Fd {
    ok(host, Call::Socket { domain, ty: SOCK_DGRAM | SOCK_NONBLOCK, protocol: 0 })
}

fn sending(fd: Fd, kind: SendKind, len: usize, flags: i32, to: Option<Name>) -> Call {
    Call::Send { fd, kind, data: vec![Piece::zeros(len)], flags, to, control: Vec::new() }
}

fn edges(host: &mut Host, fd: Fd) -> Fd {
    let epfd = ok(host, Call::EpollCreate { size: 1, flags: 0 });
    let event = Some(EpollEvent { events: EPOLLIN | EPOLLOUT | EPOLLET, data: 7 });
    ok(host, Call::EpollCtl { epfd, op: EPOLL_CTL_ADD, fd, event });
    epfd
}

fn events(host: &mut Host, epfd: Fd) -> Vec<u32> {
    let reply = done(host, Call::EpollWait { epfd, max_events: 8, timeout_ms: 0 });
    reply.events.into_iter().map(|event| event.events).collect()
}

#[test]
fn a_flag_of_the_kernels_own_is_refused_of_messages_alone() {
    let mut net = Net::new();
    let (a, _) = net.connected();
    ok(&mut net.a, Call::Fcntl { fd: a, cmd: F_SETFL, arg: O_NONBLOCK.into() });
    let recv = |fd, kind| Call::Recv { fd, kind, rooms: vec![Room::new(9)], flags: COMPAT, control_len: 0 };
    for fd in [a, 99] {
        assert_eq!(fails(&mut net.a, recv(fd, RecvKind::Recvmsg)), Errno::EINVAL, "before the descriptor");
        assert_eq!(fails(&mut net.a, sending(fd, SendKind::Sendmsg, 1, COMPAT, None)), Errno::EINVAL);
    }
    assert_eq!(fails(&mut net.a, recv(a, RecvKind::Recv)), Errno::EAGAIN);
    assert_eq!(ok(&mut net.a, sending(a, SendKind::Send, 1, COMPAT, None)), 1);
}

#[test]
fn whether_there_is_such_a_set_comes_before_how_much_is_asked_of_it() {
    let mut host = host(A, A6);
    let fd = udp(&mut host, AF_INET);
    let wait = |epfd, max_events| Call::EpollWait { epfd, max_events, timeout_ms: 0 };
    for max_events in [-1, 0] {
        assert_eq!(fails(&mut host, wait(99, max_events)), Errno::EBADF);
        assert_eq!(fails(&mut host, wait(fd, max_events)), Errno::EINVAL);
    }
}

#[test]
fn a_send_buffer_is_room_for_a_listener_too_and_a_lock_is_none() {
    let mut net = Net::new();
    let (listener, client) = (listener(&mut net.b, 80), nonblocking(&mut net.a));
    assert_eq!(fails(&mut net.a, connect(client, B, 80)), Errno::EINPROGRESS);
    net.run(100 * MS);
    let set = edges(&mut net.b, listener);
    assert_eq!(events(&mut net.b, set), [EPOLLIN]);
    assert_eq!(events(&mut net.b, set), []);
    ok(&mut net.b, setint(listener, SOL_SOCKET, SO_SNDBUF, 50_000));
    assert_eq!(events(&mut net.b, set), [EPOLLIN], "looked at again");
    let set = edges(&mut net.a, client);
    assert_eq!(events(&mut net.a, set), [EPOLLOUT]);
    ok(&mut net.a, setint(client, SOL_SOCKET, SO_BUF_LOCK, 3));
    assert_eq!(events(&mut net.a, set), []);
    ok(&mut net.a, setint(client, SOL_SOCKET, SO_SNDBUF, 50_000));
    assert_eq!(events(&mut net.a, set), [EPOLLOUT]);
}

#[test]
fn a_peer_at_port_0_is_none() {
    let mut host = host(A, A6);
    let fd = udp(&mut host, AF_INET);
    ok(&mut host, connect(fd, B, 0));
    assert_eq!(fails(&mut host, Call::Getpeername { fd }), Errno::ENOTCONN);
    assert_eq!(done(&mut host, Call::Getsockname { fd }).addr.map(|at| at.ip()), A.parse().ok());
}

/// `udpv6_sendmsg` looks at the length when it makes the packet, `udp_sendmsg` before all else.
#[test]
fn whom_a_datagram_is_for_comes_before_its_length_over_ipv6() {
    let mut host = host(A, A6);
    let six = udp(&mut host, AF_INET6);
    let long = |fd, to| sending(fd, SendKind::Sendto, 70_000, 0, to);
    assert_eq!(fails(&mut host, long(six, None)), Errno::EDESTADDRREQ);
    for ip in ["fd00::2", "::ffff:10.0.0.2"] {
        assert_eq!(fails(&mut host, long(six, Some(Name::Inet(at(ip, 9))))), Errno::EMSGSIZE);
    }
    let four = udp(&mut host, AF_INET);
    assert_eq!(fails(&mut host, long(four, None)), Errno::EMSGSIZE);
}

#[test]
fn control_messages_that_no_datagram_takes_are_refused() {
    let mut host = host(A, A6);
    let fd = udp(&mut host, AF_INET);
    ok(&mut host, connect(fd, A, 9));
    let with = |level, ty, data: &[u8]| Call::Send {
        fd,
        kind: SendKind::Sendmsg,
        data: vec![Piece::zeros(3)],
        flags: 0,
        to: None,
        control: vec![Control { level, ty, data: Bytes::copy_from_slice(data) }],
    };
    assert_eq!(fails(&mut host, with(SOL_IP, IP_TTL, &[64])), Errno::EINVAL);
    assert_eq!(fails(&mut host, with(SOL_UDP, 1, &[])), Errno::EINVAL);
    assert_eq!(ok(&mut host, with(SOL_IP, IP_TTL, &64_i32.to_ne_bytes())), 3);
}

/// An error that waits is urgent for who asks for that, in the error queue or not (`datagram_poll`).
#[test]
fn an_error_of_datagrams_is_urgent_for_who_asks() {
    let mut net = Net::new();
    let fd = udp(&mut net.a, AF_INET);
    ok(&mut net.a, connect(fd, B, 9));
    ok(&mut net.a, setint(fd, SOL_SOCKET, SO_SELECT_ERR_QUEUE, 1));
    assert_eq!(revents(&mut net.a, fd) & (POLLPRI | POLLERR), 0);
    ok(&mut net.a, send(fd, b"nobody listens", 0));
    net.run(100 * MS);
    assert_eq!(revents(&mut net.a, fd) & (POLLPRI | POLLERR), POLLPRI | POLLERR);
}

#[test]
fn an_address_too_short_for_a_family_opens_nothing_fast() {
    let mut net = Net::new();
    net.a.set_sysctl("net.ipv4.tcp_fastopen", "1").expect("bits");
    let (a, _) = net.connected();
    let fresh = nonblocking(&mut net.a);
    for fd in [a, fresh] {
        let short = sending(fd, SendKind::Sendto, 1, MSG_FASTOPEN, Some(Name::Short(0, 1)));
        assert_eq!(fails(&mut net.a, short), Errno::EINVAL);
    }
    assert_eq!(
        fails(&mut net.a, sending(a, SendKind::Sendto, 1, MSG_FASTOPEN, Some(Name::Inet(at(B, 80))))),
        Errno::EISCONN
    );
}

#[test]
fn options_of_ipv6_that_name_a_device_look_for_it() {
    let mut host = host(A, A6);
    let fd = stream6(&mut host);
    let bytes = |len: usize| Optval::Bytes(vec![1; len].into());
    let set = |name, len| Call::Setsockopt { fd, level: SOL_IPV6, name, value: bytes(len) };
    assert_eq!(fails(&mut host, set(IPV6_JOIN_ANYCAST, 20)), Errno::ENODEV);
    let none = Call::Setsockopt {
        fd,
        level: SOL_IPV6,
        name: IPV6_JOIN_ANYCAST,
        value: Optval::Bytes(vec![0; 20].into()),
    };
    assert_eq!(fails(&mut host, none), Errno::EADDRNOTAVAIL);
    ok(&mut host, set(IPV6_PKTINFO, 20));
    assert_eq!(fails(&mut host, get(fd, SOL_IPV6, MCAST_MSFILTER, 143)), Errno::EINVAL);
    assert_eq!(fails(&mut host, get(fd, SOL_IPV6, MCAST_MSFILTER, 144)), Errno::EADDRNOTAVAIL);
}
