//! Calls that wait while another one changes or ends what they wait for. What they come to was tried with threads on Linux 6.18.
use crate::support::*;
use lowwater_core::base::Duration;
use lowwater_posix::abi::*;
use lowwater_posix::{Call, Errno, Fd, Host, Name, Optval, RecvKind, Reply, Room, Started};

const MS: fn(u64) -> Duration = Duration::from_millis;
/// More than fits into any buffer.
const MUCH: &[u8] = &[1; 30_000_000];

fn dissolve(fd: Fd) -> Call {
    Call::Connect { fd, addr: Name::UNSPEC }
}

fn shutdown(fd: Fd, how: i32) -> Call {
    Call::Shutdown { fd, how }
}

fn so_error(host: &mut Host, fd: Fd) -> Option<i32> {
    done(host, get(fd, SOL_SOCKET, SO_ERROR, 4)).int()
}

fn datagrams(host: &mut Host) -> Fd {
    let fd = ok(host, Call::Socket { domain: AF_INET, ty: SOCK_DGRAM, protocol: 0 });
    ok(host, bind(fd, A, 9));
    fd
}

/// What a call came to: its result, its errno, how much it has read.
fn came_to(reply: &Reply) -> (i64, Option<Errno>, usize) {
    (reply.ret, reply.errno, reply.data.len())
}

#[test]
fn a_connect_that_waits_is_over_when_its_socket_is_dissolved() {
    let reset = Errno::ECONNRESET;
    let ends = [
        (None, Errno::EPIPE, reset.number()),
        (Some(SHUT_RD), reset, 0),
        (Some(SHUT_WR), reset, 0),
        (Some(SHUT_RDWR), reset, 0),
    ];
    for (how, told, left) in ends {
        let mut host = host(A, A6);
        let fd = stream(&mut host);
        let waiting = blocks(&mut host, connect(fd, B, 80));
        assert!(host.next_packet(host.now()).is_some(), "its SYN");
        ok(&mut host, how.map_or_else(|| dissolve(fd), |how| shutdown(fd, how)));
        let reply = finished(&mut host, waiting);
        assert_eq!(came_to(&reply), (-1, Some(told), 0), "{how:?}");
        assert_eq!(so_error(&mut host, fd), Some(left), "{how:?}");
        host.advance_until(host.now() + MS(5_000));
        assert_eq!(host.next_packet(host.now()), None, "nobody connects any more");
        assert!(matches!(host.call(connect(fd, B, 80)), Started::Blocked(_)), "it may be tried again");
    }
}

#[test]
fn a_write_that_connects_is_over_when_its_socket_is_dissolved() {
    for end in [dissolve, |fd| shutdown(fd, SHUT_RDWR)] {
        let mut host = host(A, A6);
        host.set_sysctl("net.ipv4.tcp_fastopen", "1").expect("a number");
        let fd = stream(&mut host);
        let to = Some(Name::Inet(at(B, 80)));
        let Call::Send { kind, data, control, .. } = send(fd, b"abc", 0) else { unreachable!() };
        let waiting = blocks(&mut host, Call::Send { fd, kind, data, flags: MSG_FASTOPEN, to, control });
        ok(&mut host, end(fd));
        assert_eq!(came_to(&finished(&mut host, waiting)), (-1, Some(Errno::ECONNRESET), 0));
        assert_eq!(so_error(&mut host, fd), Some(0));
    }
}

/// A call on a socket, and its result.
type Told = (fn(Fd) -> Call, i64);

/// Whoever waits for a handshake is told how it ended, whoever began it and whoever is told first (`__inet_stream_connect`).
#[test]
fn all_who_wait_for_a_handshake_are_told_of_its_end() {
    let fast = |fd| {
        let Call::Send { kind, data, control, .. } = send(fd, b"abc", 0) else { unreachable!() };
        let to = Some(Name::Inet(at(B, 80)));
        Call::Send { fd, kind, data, flags: MSG_FASTOPEN, to, control }
    };
    let opens = |fd| connect(fd, B, 80);
    // Of two with MSG_FASTOPEN the second does not wait (`fastopen::another_request_is_refused_until_the_first_is_over`).
    let plain = |fd| send(fd, b"abc", 0);
    let calls: [[Told; 2]; 4] =
        [[(opens, 0), (opens, 0)], [(opens, 0), (fast, 3)], [(fast, 3), (opens, 0)], [(fast, 3), (plain, 3)]];
    for (round, [first, second]) in calls.into_iter().enumerate() {
        let mut net = Net::new();
        net.a.set_sysctl("net.ipv4.tcp_fastopen", "1").expect("a number");
        listener(&mut net.b, 80);
        let fd = stream(&mut net.a);
        let waiting = [first, second].map(|(call, told)| (blocks(&mut net.a, call(fd)), told));
        net.run(MS(100));
        for (id, told) in waiting {
            assert_eq!(came_to(&finished(&mut net.a, id)), (told, None, 0), "{round}");
        }
        assert_eq!(fails(&mut net.a, connect(fd, B, 80)), Errno::EISCONN, "who comes now is told");
    }
}

#[test]
fn who_waits_for_a_connection_that_is_dissolved_has_what_it_has() {
    let reset = Some(Errno::ECONNRESET.number());
    let mut net = Net::new();
    let (a, b) = net.connected();
    let reader = blocks(&mut net.a, recv(a, 10, 0));
    ok(&mut net.a, dissolve(a));
    assert_eq!(came_to(&finished(&mut net.a, reader)), (-1, Some(Errno::EPIPE), 0));
    assert_eq!(so_error(&mut net.a, a), reset, "nobody has been told");
    ok(&mut net.b, Call::Close { fd: b });

    for (flags, some) in [(MSG_WAITALL, 3), (MSG_WAITALL | MSG_TRUNC, 0), (MSG_WAITALL | MSG_PEEK, 3)] {
        let mut net = Net::new();
        let (a, b) = net.connected();
        ok(&mut net.b, send(b, b"abc", 0));
        net.run(MS(100));
        let reader = blocks(&mut net.a, recv(a, 10, flags));
        ok(&mut net.a, dissolve(a));
        assert_eq!(came_to(&finished(&mut net.a, reader)), (3, None, some));
        assert_eq!(so_error(&mut net.a, a), reset);
    }

    let mut net = Net::new();
    let (a, _) = net.connected();
    let writer = blocks(&mut net.a, send(a, MUCH, 0));
    ok(&mut net.a, dissolve(a));
    let reply = finished(&mut net.a, writer);
    assert!(reply.errno.is_none() && (1..MUCH.len() as i64).contains(&reply.ret), "{:?}", came_to(&reply));
    assert_eq!(so_error(&mut net.a, a), reset);
}

#[test]
fn shutdown_reaches_who_waits() {
    // A datagram socket's reader, connected or not: who only sends no more reads on.
    for (connected, how) in [(true, SHUT_RD), (false, SHUT_RD), (true, SHUT_RDWR), (false, SHUT_WR)] {
        let mut host = host(A, A6);
        let fd = datagrams(&mut host);
        if connected {
            ok(&mut host, connect(fd, B, 9));
        }
        let reader = blocks(&mut host, recv(fd, 10, 0));
        assert_eq!(done(&mut host, shutdown(fd, how)).errno.is_none(), connected);
        let told = host.take(reader).map(|(_, reply)| came_to(&reply));
        assert_eq!(told, (how != SHUT_WR).then_some((0, None, 0)), "{how}");
    }
    // A writer of a peer that says nothing.
    let mut net = Net::new();
    let (a, _) = net.connected();
    let writer = blocks(&mut net.a, send(a, MUCH, 0));
    net.lose();
    ok(&mut net.a, shutdown(a, SHUT_WR));
    let reply = finished(&mut net.a, writer);
    assert!(reply.errno.is_none() && reply.ret > 0, "{:?}", came_to(&reply));
}

/// A datagram socket whose small buffer is full of what a busy device does not take, and its sender that waits.
fn full(host: &mut Host) -> (Fd, lowwater_posix::CallId) {
    let fd = datagrams(host);
    ok(host, setint(fd, SOL_SOCKET, SO_SNDBUF, 5_000));
    ok(host, connect(fd, B, 9));
    host.set_busy(true);
    for _ in 0..100 {
        if let Started::Blocked(id) = host.call(send(fd, &[1; 1_000], 0)) {
            return (fd, id);
        }
    }
    panic!("the buffer is full some time");
}

#[test]
fn a_sender_of_datagrams_hears_of_room_and_of_the_end() {
    let mut bigger = host(A, A6);
    let (fd, sender) = full(&mut bigger);
    ok(&mut bigger, setint(fd, SOL_SOCKET, SO_SNDBUF, 500_000));
    assert_eq!(finished(&mut bigger, sender).ret, 1_000);

    let mut over = host(A, A6);
    let (fd, sender) = full(&mut over);
    ok(&mut over, shutdown(fd, SHUT_WR));
    assert_eq!(finished(&mut over, sender).errno, Some(Errno::EPIPE));
}

/// `tcp_recvmsg_locked` ends where it cannot copy, with what it has copied.
#[test]
fn a_reader_does_not_wait_for_more_than_it_has_room_for() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    let rooms = vec![Room::new(3), Room::bad(7)];
    let call = Call::Recv { fd: a, kind: RecvKind::Recvmsg, rooms, flags: MSG_WAITALL, control_len: 0 };
    let reader = blocks(&mut net.a, call);
    ok(&mut net.b, send(b, b"abc", 0));
    net.run(MS(100));
    assert!(net.a.is_blocked(reader));
    ok(&mut net.b, send(b, b"defghij", 0));
    net.run(MS(100));
    assert_eq!(finished(&mut net.a, reader).data, "abc");
    assert_eq!(done(&mut net.a, recv(a, 10, 0)).data, "defghij");
}

/// One of two writers gives up on the handshake, and what the other waits to write still carries the last ACK of it (`sk_write_pending`).
#[test]
fn who_gives_up_on_a_handshake_speaks_for_nobody_else() {
    let mut net = Net::new();
    listener(&mut net.b, 80);
    let fd = stream(&mut net.a);
    let timeout = |us: u64| Optval::Bytes([0, us].map(u64::to_ne_bytes).concat().into());
    let set = |us| Call::Setsockopt { fd, level: SOL_SOCKET, name: SO_SNDTIMEO, value: timeout(us) };
    ok(&mut net.a, set(60_000));
    let Call::Send { kind, data, control, .. } = send(fd, b"abc", 0) else { unreachable!() };
    let fast = Call::Send { fd, kind, data, flags: MSG_FASTOPEN, to: Some(Name::Inet(at(B, 80))), control };
    let first = blocks(&mut net.a, fast);
    net.lose();
    ok(&mut net.a, set(0));
    let other = blocks(&mut net.a, send(fd, b"abc", 0));
    net.run(MS(100));
    assert_eq!(finished(&mut net.a, first).errno, Some(Errno::EINPROGRESS));
    // The SYN goes again after a second.
    net.run(MS(900) + DELAY * 2 + DELAY / 2);
    assert_eq!(finished(&mut net.a, other).ret, 3);
    assert_eq!(net.under_way(), 1, "the data, and no acknowledgement before it");
}

#[test]
fn who_sleeps_too_long_finds_timeouts_over() {
    let mut host = host(A, A6);
    let fd = datagrams(&mut host);
    let second = Optval::Bytes([1_u64, 0].map(u64::to_ne_bytes).concat().into());
    ok(&mut host, Call::Setsockopt { fd, level: SOL_SOCKET, name: SO_RCVTIMEO, value: second });
    let reader = blocks(&mut host, recv(fd, 10, 0));
    host.oversleep(host.now() + MS(999));
    assert!(host.is_blocked(reader));
    host.oversleep(host.now() + MS(2_000));
    assert_eq!(finished(&mut host, reader).errno, Some(Errno::EAGAIN));
}

/// What a call that may not wait has taken is not lost, and replies that nobody takes are waited for, too.
#[test]
fn calls_that_find_too_many_waiting_have_what_they_have() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    ok(&mut net.b, send(b, b"abc", 0));
    net.run(MS(100));
    let fd = datagrams(&mut net.a);
    let waiting: Vec<_> = (0..1_024).map(|_| blocks(&mut net.a, recv(fd, 10, 0))).collect();
    assert_eq!(fails(&mut net.a, recv(fd, 10, 0)), Errno::ENOMEM);
    assert_eq!(done(&mut net.a, recv(a, 10, MSG_WAITALL)).data, "abc");
    assert_eq!(fails(&mut net.a, recv(a, 10, MSG_WAITALL)), Errno::ENOMEM);
    let written = done(&mut net.a, send(a, MUCH, 0));
    assert!(written.errno.is_none() && written.ret > 0, "{:?}", came_to(&written));
    net.a.interrupt(waiting[0]);
    assert_eq!(fails(&mut net.a, recv(fd, 10, 0)), Errno::ENOMEM, "its reply is still here");
    assert_eq!(finished(&mut net.a, waiting[0]).errno, Some(Errno::EINTR));
    blocks(&mut net.a, recv(fd, 10, 0));
}

#[test]
fn who_waits_for_what_is_closed_does_not_wait_for_an_event() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    let (r, w) = done(&mut net.a, Call::Pipe { flags: 0 }).pipe.expect("two ends");
    let set = ok(&mut net.a, Call::EpollCreate { size: 1, flags: 0 });
    let closed = [
        (a, recv(a, 10, 0)),
        (set, Call::EpollWait { epfd: set, max_events: 1, timeout_ms: -1 }),
        (r, read(r, 10)),
    ];
    for (fd, call) in closed {
        let waiting = blocks(&mut net.a, call);
        ok(&mut net.a, Call::Close { fd });
        assert_eq!(finished(&mut net.a, waiting).errno, Some(Errno::EBADF), "{fd}");
    }
    // Others wait on.
    let waiting = blocks(&mut net.b, recv(b, 10, 0));
    let other = stream(&mut net.b);
    ok(&mut net.b, Call::Close { fd: other });
    assert!(net.b.is_blocked(waiting));
    ok(&mut net.a, Call::Close { fd: w });
}
