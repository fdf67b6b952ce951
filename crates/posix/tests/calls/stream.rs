//! The life of a TCP socket between two hosts: what each call gives, what blocks, what goes on when.
use crate::support::*;
use bytes::Bytes;
use core::net::SocketAddr;
use lowwater_core::base::Duration;
use lowwater_posix::abi::*;
use lowwater_posix::{
    Call, Errno, Fd, Host, Name, Optval, Piece, RecvKind, Room, SendKind, Settings, Started,
};

const MS: fn(u64) -> Duration = Duration::from_millis;

#[test]
fn a_connection_carries_bytes_and_ends() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    assert_eq!(ok(&mut net.a, write(a, b"hello")), 5);
    let id = blocks(&mut net.b, read(b, 100));
    net.run(MS(50));
    assert_eq!(finished(&mut net.b, id).data, "hello");
    ok(&mut net.a, Call::Shutdown { fd: a, how: SHUT_WR });
    net.run(MS(50));
    assert_eq!(ok(&mut net.b, read(b, 100)), 0, "the end of the stream");
    ok(&mut net.b, Call::Close { fd: b });
    net.run(MS(50));
    assert_eq!(ok(&mut net.a, read(a, 100)), 0);
    ok(&mut net.a, Call::Close { fd: a });
    assert_eq!(fails(&mut net.a, read(a, 1)), Errno::EBADF);
}

#[test]
fn accept_tells_the_peer_in_the_family_of_the_listener() {
    let mut net = Net::new();
    let listener = stream6(&mut net.b);
    ok(&mut net.b, bind(listener, "::", 80));
    ok(&mut net.b, Call::Listen { fd: listener, backlog: 1 });
    let accept = blocks(&mut net.b, Call::Accept { fd: listener, flags: 0 });
    let a = stream(&mut net.a);
    ok(&mut net.a, bind(a, A, 1_234));
    blocks(&mut net.a, connect(a, B, 80));
    net.run(MS(100));
    let reply = finished(&mut net.b, accept);
    assert_eq!(reply.addr, Some(at("::ffff:10.0.0.1", 1_234)));
    let name = done(&mut net.b, Call::Getsockname { fd: reply.ret as i32 }).addr;
    assert_eq!(name, Some(at("::ffff:10.0.0.2", 80)));
    let a6 = stream6(&mut net.a);
    blocks(&mut net.a, connect(a6, B6, 80));
    net.run(MS(100));
    let second = done(&mut net.b, Call::Accept { fd: listener, flags: SOCK_NONBLOCK });
    assert_eq!(second.addr.map(|a| a.ip()), Some(A6.parse().expect("an address")));
    assert_eq!(
        ok(&mut net.b, Call::Fcntl { fd: second.ret as i32, cmd: F_GETFL, arg: 0 }),
        O_RDWR | O_NONBLOCK
    );
}

/// One writer is told of room and may take all of it: whoever waits beside it waits for more, and is told of that (`sk_stream_wait_memory`).
#[test]
fn of_two_blocked_writers_both_go_on() {
    for len in (500..60_000).step_by(750) {
        let mut net = Net::new();
        let (a, _) = net.connected();
        ok(&mut net.a, setint(a, SOL_SOCKET, SO_SNDBUF, 5_000));
        ok(&mut net.a, write(a, &[7; 5_000]));
        let data = vec![7; len];
        let both = [&data[..], &data[..len / 2 + 1]].map(|data| match net.a.call(write(a, data)) {
            Started::Blocked(id) => Some(id),
            Started::Done(reply) => {
                assert!(reply.ret > 0, "{len}: {reply:?}");
                None
            }
        });
        net.run(Duration::from_secs(5));
        let stuck = both.into_iter().flatten().filter(|id| net.a.is_blocked(*id)).count();
        assert_eq!(stuck, 0, "writes of {len} bytes");
    }
}

#[test]
fn a_blocked_writer_goes_on_at_the_instant_of_the_acknowledgement() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    ok(&mut net.a, setint(a, SOL_SOCKET, SO_SNDBUF, 10_000));
    let id = blocks(&mut net.a, write(a, &[7; 200_000]));
    let begun = net.a.now();
    let mut got = 0;
    while net.a.is_blocked(id) {
        net.run(MS(1));
        let reply = done(&mut net.b, recv(b, 1 << 20, MSG_DONTWAIT));
        got += reply.data.len();
        assert!(net.a.now().since(begun) < Duration::from_secs(100), "it gets through");
    }
    let (when, reply) = net.a.take(id).expect("it is over");
    assert_eq!(reply.ret, 200_000);
    assert!(when > begun + MS(40) && when <= net.a.now());
    net.run(Duration::from_secs(5));
    got += done(&mut net.b, recv(b, 1 << 20, MSG_DONTWAIT)).data.len();
    assert_eq!(got, 200_000);
}

#[test]
fn timeouts_end_calls_with_what_they_have() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    let half_second = [0_i64.to_ne_bytes(), 500_000_i64.to_ne_bytes()].concat();
    for (host, fd, name) in [(&mut net.b, b, SO_RCVTIMEO), (&mut net.a, a, SO_SNDTIMEO)] {
        let value = lowwater_posix::Optval::Bytes(Bytes::from(half_second.clone()));
        ok(host, Call::Setsockopt { fd, level: SOL_SOCKET, name, value });
    }
    let nothing = blocks(&mut net.b, read(b, 100));
    let begun = net.b.now();
    net.run(MS(600));
    let (when, reply) = net.b.take(nothing).expect("its time is over");
    assert_eq!((when, reply.errno), (begun + MS(500), Some(Errno::EAGAIN)));
    // With something, the something is the result.
    let id = blocks(&mut net.b, recv(b, 10, MSG_WAITALL));
    ok(&mut net.a, write(a, b"abc"));
    net.run(MS(600));
    assert_eq!(finished(&mut net.b, id).data, "abc");
    ok(&mut net.a, setint(a, SOL_SOCKET, SO_SNDBUF, 5_000));
    let id = blocks(&mut net.a, write(a, &[0; 1_000_000]));
    net.run(Duration::from_secs(2));
    let sent = finished(&mut net.a, id).ret;
    assert!((1..1_000_000).contains(&sent), "{sent}");
}

#[test]
fn waitall_waits_for_all_and_peek_takes_nothing() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    let id = blocks(&mut net.b, recv(b, 6, MSG_WAITALL));
    ok(&mut net.a, write(a, b"abc"));
    net.run(MS(50));
    assert!(net.b.is_blocked(id));
    ok(&mut net.a, write(a, b"defgh"));
    net.run(MS(50));
    assert_eq!(finished(&mut net.b, id).data, "abcdef");
    assert_eq!(done(&mut net.b, recv(b, 10, MSG_PEEK)).data, "gh");
    assert_eq!(done(&mut net.b, recv(b, 1, MSG_TRUNC)).ret, 1);
    assert_eq!(done(&mut net.b, recv(b, 10, 0)).data, "h");
    assert_eq!(fails(&mut net.b, recv(b, 10, MSG_DONTWAIT)), Errno::EAGAIN);
}

#[test]
fn trunc_throws_data_away_and_needs_no_buffer() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    ok(&mut net.a, write(a, b"abcdef"));
    net.run(MS(50));
    let bad = |len, flags| Call::Recv {
        fd: b,
        kind: RecvKind::Recv,
        rooms: vec![Room::bad(len)],
        flags,
        control_len: 0,
    };
    assert_eq!(fails(&mut net.b, bad(3, 0)), Errno::EFAULT);
    let reply = done(&mut net.b, bad(3, MSG_TRUNC));
    assert_eq!((reply.ret, reply.data.len()), (3, 0));
    assert_eq!(done(&mut net.b, read(b, 10)).data, "def");
}

#[test]
fn connect_without_blocking_tells_how_far_it_is() {
    let mut net = Net::new();
    let listening = listener(&mut net.b, 80);
    let a = nonblocking(&mut net.a);
    assert_eq!(fails(&mut net.a, connect(a, B, 80)), Errno::EINPROGRESS);
    assert_eq!(fails(&mut net.a, connect(a, B, 80)), Errno::EALREADY);
    assert_eq!(revents(&mut net.a, a), 0);
    assert_eq!(fails(&mut net.a, write(a, b"x")), Errno::EAGAIN);
    net.run(MS(100));
    assert_eq!(revents(&mut net.a, a), POLLOUT | POLLWRNORM);
    assert_eq!(ok(&mut net.a, connect(a, B, 80)), 0, "the first one that asks is told");
    assert_eq!(fails(&mut net.a, connect(a, B, 80)), Errno::EISCONN);
    ok(&mut net.b, Call::Close { fd: listening });
}

#[test]
fn a_refused_connection_can_be_tried_again() {
    let mut net = Net::new();
    let a = stream(&mut net.a);
    let id = blocks(&mut net.a, connect(a, B, 80));
    net.run(MS(100));
    assert_eq!(finished(&mut net.a, id).errno, Some(Errno::ECONNREFUSED));
    listener(&mut net.b, 80);
    let id = blocks(&mut net.a, connect(a, B, 80));
    net.run(MS(100));
    assert_eq!(finished(&mut net.a, id).ret, 0);
    // Without blocking: SO_ERROR takes the reason away, connect() says that there was one.
    let c = nonblocking(&mut net.a);
    assert_eq!(fails(&mut net.a, connect(c, B, 81)), Errno::EINPROGRESS);
    net.run(MS(100));
    let all = POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDNORM | POLLWRNORM | POLLRDHUP;
    assert_eq!(revents(&mut net.a, c), all);
    assert_eq!(done(&mut net.a, get(c, SOL_SOCKET, SO_ERROR, 4)).int(), Some(Errno::ECONNREFUSED.number()));
    assert_eq!(done(&mut net.a, get(c, SOL_SOCKET, SO_ERROR, 4)).int(), Some(0));
    assert_eq!(fails(&mut net.a, connect(c, B, 81)), Errno::ECONNABORTED);
    assert_eq!(fails(&mut net.a, connect(c, B, 81)), Errno::EINPROGRESS);
}

#[test]
fn unspec_dissolves_a_connection() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    ok(&mut net.a, Call::Connect { fd: a, addr: Name::UNSPEC });
    net.run(MS(50));
    assert_eq!(fails(&mut net.b, read(b, 1)), Errno::ECONNRESET);
    assert_eq!(done(&mut net.a, get(a, SOL_SOCKET, SO_ERROR, 4)).int(), Some(Errno::ECONNRESET.number()));
    assert_eq!(fails(&mut net.a, read(a, 1)), Errno::ENOTCONN);
    listener(&mut net.b, 80);
    let id = blocks(&mut net.a, connect(a, B, 80));
    net.run(MS(100));
    assert_eq!(finished(&mut net.a, id).ret, 0);
}

#[test]
fn a_linger_waits_for_the_acknowledgement() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    let value =
        lowwater_posix::Optval::Bytes(Bytes::from([1_i32.to_ne_bytes(), 5_i32.to_ne_bytes()].concat()));
    ok(&mut net.a, Call::Setsockopt { fd: a, level: SOL_SOCKET, name: SO_LINGER, value });
    ok(&mut net.a, write(a, b"bye"));
    let begun = net.a.now();
    let id = blocks(&mut net.a, Call::Close { fd: a });
    assert_eq!(fails(&mut net.a, read(a, 1)), Errno::EBADF, "the descriptor is gone at once");
    net.run(MS(500));
    let (when, reply) = net.a.take(id).expect("the FIN is acknowledged");
    assert_eq!(reply.ret, 0);
    assert!(when.since(begun) >= 2 * DELAY && when.since(begun) < MS(500), "{:?}", when.since(begun));
    assert_eq!(done(&mut net.b, read(b, 10)).data, "bye");
}

#[test]
fn a_write_with_a_bad_pointer_sends_nothing() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    let data = vec![Piece::Data(Bytes::from_static(b"abc")), Piece::Bad(5)];
    let call = Call::Send { fd: a, kind: SendKind::Writev, data, flags: 0, to: None, control: Vec::new() };
    assert_eq!(fails(&mut net.a, call), Errno::EFAULT);
    net.run(MS(50));
    assert_eq!(fails(&mut net.b, recv(b, 10, MSG_DONTWAIT)), Errno::EAGAIN);
}

#[test]
fn tcp_info_is_linuxs_struct() {
    let mut net = Net::new();
    let (a, _) = net.connected();
    let reply = done(&mut net.a, get(a, SOL_TCP, TCP_INFO, 500));
    assert_eq!(reply.value.len(), 280);
    assert_eq!(i32::from(reply.value[0]), TCP_ESTABLISHED);
    assert_eq!(done(&mut net.a, get(a, SOL_TCP, TCP_INFO, 100)).value.len(), 100);
    assert_eq!(done(&mut net.a, get(a, SOL_SOCKET, SO_MEMINFO, 100)).value.len(), 36);
    assert_eq!(done(&mut net.a, get(a, SOL_TCP, TCP_CC_INFO, 100)).value.len(), 0);
    assert_eq!(done(&mut net.a, get(a, SOL_TCP, TCP_CONGESTION, 4)).value, "cubi");
}

#[test]
fn tcp_cc_info_is_bbrs_struct_where_bbr_is_at_work() {
    let mut net = Net::new();
    let (a, _) = net.connected();
    let value = Optval::text("bbr");
    ok(&mut net.a, Call::Setsockopt { fd: a, level: SOL_TCP, name: TCP_CONGESTION, value });
    assert_eq!(done(&mut net.a, get(a, SOL_TCP, TCP_CONGESTION, 16)).value[..4], *b"bbr\0");
    let info = done(&mut net.a, get(a, SOL_TCP, TCP_CC_INFO, 100)).value;
    assert_eq!((info.len(), &info[..8]), (20, &[0; 8][..]), "no sample of the bandwidth yet");
    assert_ne!(info[8..12], [0xff; 4], "the handshake gave a round trip");
    assert_eq!(done(&mut net.a, get(a, SOL_TCP, TCP_CC_INFO, 8)).value.len(), 8);
}

#[test]
fn urgent_data_comes_out_of_band_or_in_line() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    ok(&mut net.a, send(a, b"abX", MSG_OOB));
    ok(&mut net.a, send(a, b"cd", 0));
    net.run(MS(50));
    let bits = POLLIN | POLLPRI | POLLOUT | POLLRDNORM | POLLWRNORM;
    assert_eq!(revents(&mut net.b, b), bits);
    let inq = |net: &mut Net, request| done(&mut net.b, Call::Ioctl { fd: b, request, arg: Some(0) }).int();
    assert_eq!(inq(&mut net, 0x541b), Some(2), "up to the mark");
    assert_eq!(done(&mut net.b, recv(b, 10, 0)).data, "ab", "one read ends at the mark");
    assert_eq!(inq(&mut net, 0x8905), Some(1), "SIOCATMARK");
    let urgent = done(&mut net.b, recvmsg(b, 10, MSG_OOB, 0));
    assert_eq!((urgent.data.as_ref(), urgent.msg_flags), (b"X".as_ref(), MSG_OOB));
    assert_eq!(fails(&mut net.b, recv(b, 1, MSG_OOB)), Errno::EINVAL, "it was read");
    assert_eq!(done(&mut net.b, recv(b, 10, 0)).data, "cd");
    ok(&mut net.b, setint(b, SOL_SOCKET, SO_OOBINLINE, 1));
    ok(&mut net.a, send(a, b"eY", MSG_OOB));
    net.run(MS(50));
    assert_eq!(done(&mut net.b, recv(b, 10, 0)).data, "e");
    assert_eq!(done(&mut net.b, recv(b, 10, 0)).data, "Y");
}

#[test]
fn tcp_inq_tells_how_much_is_left_and_of_the_end() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    ok(&mut net.b, setint(b, SOL_TCP, TCP_INQ, 1));
    ok(&mut net.a, write(a, b"abcdef"));
    net.run(MS(50));
    let left = |net: &mut Net, len, room| {
        let reply = done(&mut net.b, recvmsg(b, len, 0, room));
        (reply.control.first().map(|c| (c.level, c.ty, c.data.to_vec())), reply.msg_flags)
    };
    let told = |n: i32| Some((SOL_TCP, TCP_CM_INQ, n.to_ne_bytes().to_vec()));
    assert_eq!(left(&mut net, 2, 100), (told(4), 0));
    assert_eq!(left(&mut net, 1, 10), (None, MSG_CTRUNC), "no room for a header");
    assert_eq!(left(&mut net, 1, 18).1, MSG_CTRUNC, "room for half of it");
    ok(&mut net.a, Call::Shutdown { fd: a, how: SHUT_WR });
    net.run(MS(50));
    assert_eq!(left(&mut net, 10, 100), (told(1), 0), "the end is something to read");
    assert_eq!(done(&mut net.b, recv(b, 10, 0)).control, [], "recv has no control messages");
}

#[test]
fn a_listener_of_one_family_hears_no_other() {
    let mut net = Net::new();
    let (v4, v6) = (stream(&mut net.b), stream6(&mut net.b));
    ok(&mut net.b, setint(v6, SOL_IPV6, IPV6_V6ONLY, 1));
    ok(&mut net.b, bind(v4, "0.0.0.0", 80));
    ok(&mut net.b, bind(v6, "::", 80));
    for fd in [v4, v6] {
        ok(&mut net.b, Call::Listen { fd, backlog: 1 });
    }
    let (a4, a6) = (stream(&mut net.a), stream6(&mut net.a));
    let (id4, id6) = (blocks(&mut net.a, connect(a4, B, 80)), blocks(&mut net.a, connect(a6, B6, 80)));
    net.run(MS(100));
    assert_eq!((finished(&mut net.a, id4).ret, finished(&mut net.a, id6).ret), (0, 0));
    let mut peer =
        |fd| done(&mut net.b, Call::Accept { fd, flags: 0 }).addr.map(|addr| addr.ip().to_string());
    assert_eq!((peer(v4).as_deref(), peer(v6).as_deref()), (Some(A), Some(A6)));
    ok(&mut net.b, Call::Close { fd: v6 });
    let a6 = stream6(&mut net.a);
    let id = blocks(&mut net.a, connect(a6, B6, 80));
    net.run(MS(100));
    assert_eq!(finished(&mut net.a, id).errno, Some(Errno::ECONNREFUSED), "IPv4's listener is none for IPv6");
}

#[test]
fn a_timeout_below_zero_does_not_wait() {
    let mut net = Net::new();
    let (_, b) = net.connected();
    let value = Bytes::from([(-1_i64).to_ne_bytes(), 0_i64.to_ne_bytes()].concat());
    let value = lowwater_posix::Optval::Bytes(value);
    ok(&mut net.b, Call::Setsockopt { fd: b, level: SOL_SOCKET, name: SO_RCVTIMEO, value });
    assert_eq!(fails(&mut net.b, read(b, 1)), Errno::EAGAIN);
    assert_eq!(fails(&mut net.b, recv(b, 5, MSG_WAITALL)), Errno::EAGAIN);
}

#[test]
fn rcvlowat_keeps_readers_waiting_and_poll_silent() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    ok(&mut net.b, setint(b, SOL_SOCKET, SO_RCVLOWAT, 5));
    let id = blocks(&mut net.b, read(b, 100));
    ok(&mut net.a, write(a, b"abc"));
    net.run(MS(50));
    assert!(net.b.is_blocked(id));
    assert_eq!(revents(&mut net.b, b), POLLOUT | POLLWRNORM);
    ok(&mut net.a, write(a, b"de"));
    net.run(MS(50));
    assert_eq!(finished(&mut net.b, id).data, "abcde");
    ok(&mut net.a, write(a, b"f"));
    net.run(MS(50));
    assert_eq!(
        done(&mut net.b, recv(b, 100, MSG_DONTWAIT)).data,
        "f",
        "who does not wait takes what there is"
    );
}

#[test]
fn tcp_info_of_what_is_not_connected_is_the_kernels() {
    let mut host = host(A, A6);
    let fd = stream(&mut host);
    let words = |host: &mut lowwater_posix::Host, fd| {
        let info = done(host, get(fd, SOL_TCP, TCP_INFO, 280)).value;
        let word = |n: usize| u32::from_le_bytes(info[8 + 4 * n..12 + 4 * n].try_into().expect("four bytes"));
        (info[0], info[7], [word(0), word(2), word(4), word(5), word(16), word(17), word(18), word(20)])
    };
    let fresh = [1_000_000, 536, 0, 0, 250_000, i32::MAX as u32, 10, 3];
    assert_eq!(words(&mut host, fd), (7, 1, fresh));
    ok(&mut host, Call::Listen { fd, backlog: 7 });
    assert_eq!(words(&mut host, fd), (10, 0, [0, 0, 0, 7, 0, 0, 10, 3]));
}

#[test]
fn control_messages_of_a_write_are_looked_at() {
    let mut net = Net::new();
    let (a, _) = net.connected();
    let message = |ty, data: &'static [u8]| {
        let control = vec![lowwater_posix::Control { level: SOL_SOCKET, ty, data: Bytes::from_static(data) }];
        Call::Send {
            fd: a,
            kind: SendKind::Sendmsg,
            data: vec![Piece::zeros(1)],
            flags: 0,
            to: None,
            control,
        }
    };
    assert_eq!(ok(&mut net.a, message(SO_MARK, &[0; 4])), 1);
    assert_eq!(ok(&mut net.a, message(SCM_RIGHTS, &[0; 4])), 1);
    assert_eq!(fails(&mut net.a, message(SO_MARK, &[0; 3])), Errno::EINVAL);
    assert_eq!(
        fails(&mut net.a, message(SO_TIMESTAMPING, &[0x10, 0, 0, 0])),
        Errno::EINVAL,
        "no time of a call"
    );
    assert_eq!(fails(&mut net.a, message(SO_TIMESTAMPING, &[2; 3])), Errno::EINVAL, "no flags");
    assert_eq!(fails(&mut net.a, message(99, &[])), Errno::EINVAL);
}

#[test]
fn a_port_in_time_wait_is_bound_by_who_shares_it() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    ok(&mut net.b, Call::Close { fd: b });
    net.run(MS(50));
    ok(&mut net.a, Call::Close { fd: a });
    net.run(MS(50));
    let again = stream(&mut net.b);
    assert_eq!(fails(&mut net.b, bind(again, B, 80)), Errno::EADDRINUSE);
    ok(&mut net.b, bind(again, B, 81));
    let sharing = stream(&mut net.b);
    ok(&mut net.b, setint(sharing, SOL_SOCKET, SO_REUSEADDR, 1));
    ok(&mut net.b, bind(sharing, B, 80));
    let other = stream(&mut net.b);
    net.run(Duration::from_secs(61));
    ok(&mut net.b, Call::Close { fd: sharing });
    ok(&mut net.b, bind(other, B, 80));
}

#[test]
fn without_a_descriptor_accept_leaves_the_connection_where_it_is() {
    let mut net = Net::new();
    let listener = listener(&mut net.b, 80);
    let a = stream(&mut net.a);
    let id = blocks(&mut net.a, connect(a, B, 80));
    net.run(Duration::from_millis(100));
    assert_eq!(finished(&mut net.a, id).ret, 0);
    let socket = Call::Socket { domain: 2, ty: 1, protocol: 0 };
    let last = std::iter::from_fn(|| Some(done(&mut net.b, socket.clone())).filter(|r| r.ret >= 0)).last();
    let accept = Call::Accept { fd: listener, flags: 0 };
    assert_eq!(done(&mut net.b, accept.clone()).errno, Some(Errno::EMFILE));
    // That comes before what the descriptor is, and behind the flags.
    let other = last.as_ref().map_or(-1, |reply| reply.ret as Fd);
    assert_eq!(fails(&mut net.b, Call::Accept { fd: other, flags: 0 }), Errno::EMFILE);
    assert_eq!(fails(&mut net.b, Call::Accept { fd: other, flags: 1 }), Errno::EINVAL);
    ok(&mut net.b, Call::Close { fd: last.expect("sockets until then").ret as Fd });
    assert!(done(&mut net.b, accept).ret >= 0, "it still waits");
}

#[test]
fn a_bind_that_finds_no_such_address_keeps_the_one_of_before() {
    let mut host = host(A, A6);
    let foreign = Name::Inet("10.0.0.99:80".parse().expect("an address"));
    let own = Name::Inet(SocketAddr::new(A.parse().expect("an address"), 0));
    for ty in [SOCK_STREAM, SOCK_DGRAM] {
        let fd = ok(&mut host, Call::Socket { domain: AF_INET, ty, protocol: 0 });
        let value = Optval::int(1);
        ok(&mut host, Call::Setsockopt { fd, level: SOL_IP, name: IP_BIND_ADDRESS_NO_PORT, value });
        // Without a port it may be bound again (`inet_num`).
        ok(&mut host, Call::Bind { fd, addr: own });
        assert_eq!(done(&mut host, Call::Bind { fd, addr: foreign }).errno, Some(Errno::EADDRNOTAVAIL));
        assert_eq!(done(&mut host, Call::Getsockname { fd }).addr, own.inet());
    }
    // Of IPv6 the port is asked for first.
    let fd = ok(&mut host, Call::Socket { domain: AF_INET6, ty: SOCK_STREAM, protocol: 0 });
    ok(&mut host, Call::Bind { fd, addr: Name::Inet("[::]:81".parse().expect("an address")) });
    let foreign = Name::Inet("[2001:db8::99]:80".parse().expect("an address"));
    assert_eq!(done(&mut host, Call::Bind { fd, addr: foreign }).errno, Some(Errno::EINVAL));
}

#[test]
fn this_host_is_reached_at_all_of_127_from_127_0_0_1() {
    let mut host = host(A, A6);
    for ty in [SOCK_STREAM, SOCK_DGRAM] {
        let fd = ok(&mut host, Call::Socket { domain: AF_INET, ty: ty | SOCK_NONBLOCK, protocol: 0 });
        let addr = Name::Inet("127.9.9.9:9".parse().expect("an address"));
        done(&mut host, Call::Connect { fd, addr });
        let told = done(&mut host, Call::Getsockname { fd }).addr.map(|told| told.ip());
        assert_eq!(told, Some("127.0.0.1".parse().expect("an address")));
    }
}

#[test]
fn what_nothing_leads_to_says_so_before_whose_the_address_is() {
    // A world of IPv6 alone.
    let (addresses, routes) = (vec![(A6.parse().expect("an address"), 64)], Vec::new());
    let mut host = Host::new(Settings { addresses, routes, ..Settings::default() }).expect("a host");
    let (from, to) =
        ("127.0.0.1:0".parse().expect("an address"), "192.0.2.1:80".parse().expect("an address"));
    for ty in [SOCK_STREAM, SOCK_DGRAM] {
        let fd = ok(&mut host, Call::Socket { domain: AF_INET, ty, protocol: 0 });
        ok(&mut host, Call::Bind { fd, addr: Name::Inet(from) });
        assert_eq!(
            done(&mut host, Call::Connect { fd, addr: Name::Inet(to) }).errno,
            Some(Errno::ENETUNREACH)
        );
    }
}

/// IPV6_FREEBIND is IP_FREEBIND by another name (`do_ipv6_setsockopt`): either lets bind() take what is no address of the host's.
#[test]
fn a_flag_of_both_families_acts_by_either_name() {
    let mut host = host(A, A6);
    let elsewhere = |fd| bind(fd, "fd99::9", 7);
    for (level, name) in [(SOL_IP, IP_FREEBIND), (SOL_IPV6, IPV6_FREEBIND)] {
        let fd = stream6(&mut host);
        assert_eq!(fails(&mut host, elsewhere(fd)), Errno::EADDRNOTAVAIL);
        ok(&mut host, setint(fd, level, name, 1));
        ok(&mut host, elsewhere(fd));
        ok(&mut host, Call::Close { fd });
    }
    let fd = stream6(&mut host);
    ok(&mut host, setint(fd, SOL_IP, IP_FREEBIND, 1));
    ok(&mut host, setint(fd, SOL_IPV6, IPV6_FREEBIND, 0));
    assert_eq!(fails(&mut host, elsewhere(fd)), Errno::EADDRNOTAVAIL);
}
