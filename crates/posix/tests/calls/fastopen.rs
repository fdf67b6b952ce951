//! TCP Fast Open as programs see it: MSG_FASTOPEN, TCP_FASTOPEN_CONNECT, and the options of a listener.
use crate::support::*;
use lowwater_core::base::Duration;
use lowwater_posix::abi::*;
use lowwater_posix::{Call, CallId, Errno, Fd, Host, Name, Optval, Piece, Reply, SendKind};

const MS: fn(u64) -> Duration = Duration::from_millis;

fn fast(fd: Fd, data: &[u8], flags: i32) -> Call {
    let to = Some(Name::Inet(at(B, 80)));
    let data = vec![Piece::Data(bytes::Bytes::copy_from_slice(data))];
    Call::Send { fd, kind: SendKind::Sendto, data, flags: flags | MSG_FASTOPEN, to, control: Vec::new() }
}

/// Two hosts that have Fast Open, a listener at b, and a cookie at a, as a first connection leaves it.
fn net_with_cookie() -> (Net, Fd) {
    let mut net = Net::new();
    for host in [&mut net.a, &mut net.b] {
        host.set_sysctl("tcp_fastopen", "3").expect("client and server");
    }
    let listener = listener(&mut net.b, 80);
    ok(&mut net.b, setint(listener, SOL_TCP, TCP_FASTOPEN, 5));
    let a = nonblocking(&mut net.a);
    assert_eq!(
        fails(&mut net.a, fast(a, b"abc", 0)),
        Errno::EINPROGRESS,
        "the SYN asks for a cookie and takes nothing"
    );
    net.run(MS(100));
    let b = done(&mut net.b, Call::Accept { fd: listener, flags: SOCK_NONBLOCK }).ret as Fd;
    assert_eq!(fails(&mut net.b, recv(b, 10, 0)), Errno::EAGAIN);
    assert_eq!(ok(&mut net.a, fast(a, b"abc", 0)), 3, "it has become connected: a write like any other");
    assert_eq!(fails(&mut net.a, fast(a, b"abc", 0)), Errno::EISCONN);
    net.run(MS(100));
    assert_eq!(done(&mut net.b, recv(b, 10, 0)).data, "abc");
    for (host, fd) in [(&mut net.a, a), (&mut net.b, b)] {
        ok(host, Call::Close { fd });
    }
    net.run(MS(100));
    (net, listener)
}

fn accepted(net: &mut Net, listener: Fd) -> Fd {
    done(&mut net.b, Call::Accept { fd: listener, flags: SOCK_NONBLOCK }).ret as Fd
}

fn finish(host: &mut Host, id: CallId) -> Reply {
    finished(host, id)
}

#[test]
fn data_goes_with_the_syn_once_there_is_a_cookie() {
    let (mut net, listener) = net_with_cookie();
    let a = nonblocking(&mut net.a);
    assert_eq!(ok(&mut net.a, fast(a, b"hello", 0)), 5);
    assert_eq!(fails(&mut net.a, fast(a, b"x", 0)), Errno::EALREADY);
    net.run(MS(11));
    let b = accepted(&mut net, listener);
    assert_eq!(done(&mut net.b, recv(b, 10, 0)).data, "hello", "after half a round trip");
    assert_eq!(ok(&mut net.b, write(b, b"there")), 5, "before the last segment of the handshake");
    net.run(MS(10));
    assert_eq!(done(&mut net.a, recv(a, 10, 0)).data, "there");
}

#[test]
fn a_blocking_write_comes_back_when_the_connection_is_there() {
    let (mut net, listener) = net_with_cookie();
    let a = stream(&mut net.a);
    let begun = net.a.now();
    let data = vec![7; 5_000];
    let id = blocks(&mut net.a, fast(a, &data, 0));
    net.run(MS(200));
    let (when, reply) = net.a.take(id).expect("it is over");
    assert_eq!((reply.ret, when), (5_000, begun + 2 * DELAY));
    let b = accepted(&mut net, listener);
    assert_eq!(done(&mut net.b, recv(b, 10_000, 0)).data, data);
}

#[test]
fn connect_leaves_the_syn_to_the_first_write() {
    let (mut net, listener) = net_with_cookie();
    let a = nonblocking(&mut net.a);
    ok(&mut net.a, setint(a, SOL_TCP, TCP_FASTOPEN_CONNECT, 1));
    assert_eq!(ok(&mut net.a, connect(a, B, 80)), 0);
    assert_eq!(fails(&mut net.a, connect(a, B, 80)), Errno::EISCONN);
    assert_eq!(revents(&mut net.a, a) & POLLOUT, POLLOUT, "so that who waits for it writes");
    net.run(MS(100));
    assert_eq!(fails(&mut net.b, Call::Accept { fd: listener, flags: SOCK_NONBLOCK | 1 }), Errno::EINVAL);
    assert_eq!(ok(&mut net.a, write(a, b"hello")), 5);
    net.run(MS(11));
    let b = accepted(&mut net, listener);
    assert_eq!(done(&mut net.b, recv(b, 10, 0)).data, "hello");
}

/// A host whose peer is silent, with a write on a socket that blocks in its handshake: the first behind a deferred connect(), or one with
/// MSG_FASTOPEN.
fn blocked_write(deferred: bool) -> (Host, Fd, CallId) {
    let mut host = host(A, A6);
    host.set_sysctl("tcp_fastopen", "5").expect("without a cookie");
    let fd = stream(&mut host);
    if deferred {
        ok(&mut host, setint(fd, SOL_TCP, TCP_FASTOPEN_CONNECT, 1));
        assert_eq!(ok(&mut host, connect(fd, B, 80)), 0);
    }
    let id = blocks(&mut host, if deferred { write(fd, b"abc") } else { fast(fd, b"abc", 0) });
    (host, fd, id)
}

#[test]
fn another_request_is_refused_until_the_first_is_over() {
    for deferred in [true, false] {
        let (mut host, fd, id) = blocked_write(deferred);
        for flags in [0, MSG_DONTWAIT] {
            assert_eq!(fails(&mut host, fast(fd, b"x", flags)), Errno::EALREADY);
        }
        let plain = if deferred { Errno::EALREADY } else { Errno::EAGAIN };
        assert_eq!(fails(&mut host, send(fd, b"x", MSG_DONTWAIT)), plain);
        assert_eq!(revents(&mut host, fd) & POLLOUT, if deferred { POLLOUT } else { 0 });
        host.interrupt(id);
        assert_eq!(finish(&mut host, id).errno, Some(Errno::EINTR));

        assert_eq!(fails(&mut host, send(fd, b"x", MSG_DONTWAIT)), Errno::EAGAIN);
        assert_eq!(revents(&mut host, fd) & POLLOUT, 0);
        // The next one finds an attempt under way, and has its request noted as it waits for that.
        blocks(&mut host, fast(fd, b"x", 0));
        assert_eq!(fails(&mut host, fast(fd, b"x", 0)), Errno::EALREADY);
        assert_eq!(revents(&mut host, fd) & POLLOUT, 0);
    }
}

#[test]
fn a_socket_that_is_dissolved_has_nothing_noted() {
    let unspec = |fd| Call::Connect { fd, addr: Name::UNSPEC };
    for end in [unspec, |fd| Call::Shutdown { fd, how: SHUT_RD }] {
        for deferred in [true, false] {
            let (mut host, fd, id) = blocked_write(deferred);
            ok(&mut host, end(fd));
            assert_eq!(finish(&mut host, id).errno, Some(Errno::ECONNRESET));
            assert_eq!(revents(&mut host, fd) & (POLLIN | POLLOUT | POLLHUP), POLLOUT | POLLHUP);
            assert_eq!(ok(&mut host, fast(fd, b"again", MSG_DONTWAIT)), 5);
            assert_eq!(revents(&mut host, fd) & POLLOUT, 0);
        }
    }
}

/// A splice() that has waited for its pipe waits for the handshake by SO_SNDTIMEO from then on, and not at all with O_NONBLOCK.
#[test]
fn a_splice_that_opens_the_connection_has_a_time_of_its_own() {
    for nonblocking in [false, true] {
        let mut host = host(A, A6);
        host.set_sysctl("tcp_fastopen", "5").expect("without a cookie");
        let (out, into) = done(&mut host, Call::Pipe { flags: 0 }).pipe.expect("two ends");
        let fd = stream(&mut host);
        ok(&mut host, setint(fd, SOL_TCP, TCP_FASTOPEN_CONNECT, 1));
        let value = Optval::Bytes([0, 60_000_u64].map(u64::to_ne_bytes).concat().into());
        ok(&mut host, Call::Setsockopt { fd, level: SOL_SOCKET, name: SO_SNDTIMEO, value });
        assert_eq!(ok(&mut host, connect(fd, B, 80)), 0);
        if nonblocking {
            ok(&mut host, Call::Fcntl { fd, cmd: F_SETFL, arg: O_NONBLOCK.into() });
        }
        let splice = Call::Splice { fd_in: out, off_in: None, fd_out: fd, off_out: None, len: 100, flags: 0 };
        let id = blocks(&mut host, splice);
        host.advance_until(host.now() + MS(500));
        let begun = host.now();
        assert_eq!(ok(&mut host, write(into, b"abc")), 3);
        host.advance_until(begun + MS(500));
        let (when, reply) = host.take(id).expect("it is over");
        assert_eq!((reply.ret, when), (3, begun + if nonblocking { MS(0) } else { MS(60) }));
    }
}

#[test]
fn without_the_sysctl_or_an_address_nothing_is_fast() {
    let mut host = host(A, A6);
    let a = nonblocking(&mut host);
    let unspec = Call::Send {
        fd: a,
        kind: SendKind::Sendto,
        data: vec![Piece::zeros(1)],
        flags: MSG_FASTOPEN,
        to: Some(Name::UNSPEC),
        control: Vec::new(),
    };
    assert_eq!(fails(&mut host, unspec), Errno::EOPNOTSUPP);
    assert_eq!(fails(&mut host, send(a, b"x", MSG_FASTOPEN)), Errno::EINVAL);
    host.set_sysctl("tcp_fastopen", "0").expect("off");
    assert_eq!(fails(&mut host, fast(a, b"x", 0)), Errno::EOPNOTSUPP);
    assert_eq!(fails(&mut host, setint(a, SOL_TCP, TCP_FASTOPEN_CONNECT, 1)), Errno::EOPNOTSUPP);
}

#[test]
fn a_listener_tells_its_own_keys_and_not_the_system_s() {
    let mut host = host(A, A6);
    host.set_sysctl("tcp_fastopen_key", "a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4").expect("a key");
    let fd = listener(&mut host, 80);
    assert_eq!(done(&mut host, get(fd, SOL_TCP, TCP_FASTOPEN_KEY, 32)).value, "");
    let value = Optval::Bytes(bytes::Bytes::from_static(b"0123456789abcdef"));
    ok(&mut host, Call::Setsockopt { fd, level: SOL_TCP, name: TCP_FASTOPEN_KEY, value });
    assert_eq!(done(&mut host, get(fd, SOL_TCP, TCP_FASTOPEN_KEY, 32)).value, "0123456789abcdef");
}

/// The key is of the listener's queue (`inet_csk_clone_lock` clears it), as the bound is.
#[test]
fn what_a_listener_says_about_fast_open_is_not_its_childs() {
    let mut net = Net::new();
    let listener = listener(&mut net.b, 80);
    let value = Optval::Bytes(bytes::Bytes::from_static(b"0123456789abcdef"));
    ok(&mut net.b, Call::Setsockopt { fd: listener, level: SOL_TCP, name: TCP_FASTOPEN_KEY, value });
    ok(&mut net.b, setint(listener, SOL_TCP, TCP_FASTOPEN, 5));
    let a = nonblocking(&mut net.a);
    assert_eq!(fails(&mut net.a, connect(a, B, 80)), Errno::EINPROGRESS);
    net.run(MS(100));
    let b = accepted(&mut net, listener);
    assert_eq!(done(&mut net.b, get(b, SOL_TCP, TCP_FASTOPEN_KEY, 32)).value, "");
    assert_eq!(done(&mut net.b, get(b, SOL_TCP, TCP_FASTOPEN, 4)).int(), Some(0));
    assert_eq!(done(&mut net.b, get(listener, SOL_TCP, TCP_FASTOPEN_KEY, 32)).value, "0123456789abcdef");
}

#[test]
fn a_refusal_is_told_to_the_writer_who_waits() {
    let (mut net, listener) = net_with_cookie();
    ok(&mut net.b, Call::Close { fd: listener });
    let a = stream(&mut net.a);
    let id = blocks(&mut net.a, fast(a, b"abc", 0));
    net.run(MS(100));
    assert_eq!(finish(&mut net.a, id).errno, Some(Errno::ECONNREFUSED));
    assert_eq!(done(&mut net.a, get(a, SOL_SOCKET, SO_ERROR, 4)).int(), Some(0));
}
