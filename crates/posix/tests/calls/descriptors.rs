//! Numbers of descriptors that calls take before there is a file, and lengths that calls tell although they fail.
use crate::support::*;
use lowwater_core::base::Duration;
use lowwater_posix::abi::*;
use lowwater_posix::{Call, CallId, Errno, Fd, Host, Name, Optval};

const MS: Duration = Duration::from_millis(1);

/// A room that is too small for the headers of the SYN is told how many bytes they have, and they stay (`do_tcp_getsockopt`; as on
/// Linux 6.18).
#[test]
fn a_room_too_small_for_the_saved_syn_is_told_what_it_lacks() {
    let mut net = Net::new();
    let listener = listener(&mut net.b, 80);
    ok(&mut net.b, setint(listener, SOL_TCP, TCP_SAVE_SYN, 1));
    let fd = nonblocking(&mut net.a);
    assert_eq!(fails(&mut net.a, connect(fd, B, 80)), Errno::EINPROGRESS);
    net.run(100 * MS);
    let child = ok(&mut net.b, Call::Accept { fd: listener, flags: 0 });
    let mut ask = |len| done(&mut net.b, get(child, SOL_TCP, TCP_SAVED_SYN, len));
    for len in [0, 1, 59] {
        let reply = ask(len);
        assert_eq!((reply.errno, reply.optlen), (Some(Errno::EINVAL), Some(60)), "{len}");
    }
    let reply = ask(60);
    assert_eq!((reply.errno, reply.optlen, reply.value.len()), (None, None, 60));
    let reply = ask(0);
    assert_eq!((reply.errno, reply.optlen, reply.value.len()), (None, None, 0), "once");
}

/// A listener with nobody in its queue, on which a call waits.
fn accepting(host: &mut Host, ty: i32, protocol: i32) -> (Fd, CallId) {
    let fd = ok(host, Call::Socket { domain: AF_INET, ty, protocol });
    ok(host, bind(fd, B, 80));
    ok(host, Call::Listen { fd, backlog: 5 });
    (fd, blocks(host, Call::Accept { fd, flags: SOCK_CLOEXEC }))
}

/// The number is taken when an accept() begins, and free again when that fails (`__sys_accept4_file`; as on Linux 6.18).
#[test]
fn a_waiting_accept_has_its_descriptor_already() {
    for (ty, protocol) in [(SOCK_STREAM, 0), (SOCK_STREAM, IPPROTO_SCTP)] {
        let mut net = Net::new();
        let (listener, id) = accepting(&mut net.b, ty, protocol);
        let taken = listener + 1;
        assert_eq!(stream(&mut net.b), taken + 1);
        for call in [Call::Close { fd: taken }, Call::Getsockname { fd: taken }] {
            assert_eq!(fails(&mut net.b, call), Errno::EBADF, "there is no file yet");
        }
        let client = ok(&mut net.a, Call::Socket { domain: AF_INET, ty: ty | SOCK_NONBLOCK, protocol });
        assert_eq!(fails(&mut net.a, connect(client, B, 80)), Errno::EINPROGRESS);
        net.run(200 * MS);
        assert_eq!(finished(&mut net.b, id).ret, i64::from(taken));
        assert_eq!(ok(&mut net.b, Call::Fcntl { fd: taken, cmd: F_GETFD, arg: 0 }), FD_CLOEXEC);
        ok(&mut net.b, Call::Close { fd: taken });
        assert_eq!(stream(&mut net.b), taken, "free as any other");
    }
}

/// A name, what the call comes to, and what ends its wait.
type Ending<'a> = (&'a str, Errno, &'a dyn Fn(&mut Net, Fd, CallId));

#[test]
fn an_accept_that_fails_gives_its_descriptor_back() {
    let timeout = Optval::Bytes([0_i64.to_ne_bytes(), 50_000_i64.to_ne_bytes()].concat().into());
    let ends: [Ending<'_>; 4] = [
        ("interrupted", Errno::EINTR, &|net, _, id| net.b.interrupt(id)),
        ("shut down", Errno::EINVAL, &|net, fd, _| {
            ok(&mut net.b, Call::Shutdown { fd, how: SHUT_RD });
        }),
        ("closed", Errno::EBADF, &|net, fd, _| {
            ok(&mut net.b, Call::Close { fd });
        }),
        ("timed out", Errno::EAGAIN, &|net, _, _| net.run(60 * MS)),
    ];
    for (name, errno, end) in ends {
        let mut net = Net::new();
        let fd = stream(&mut net.b);
        let value = timeout.clone();
        ok(&mut net.b, Call::Setsockopt { fd, level: SOL_SOCKET, name: SO_RCVTIMEO, value });
        ok(&mut net.b, bind(fd, B, 80));
        ok(&mut net.b, Call::Listen { fd, backlog: 5 });
        let id = blocks(&mut net.b, Call::Accept { fd, flags: 0 });
        end(&mut net, fd, id);
        assert_eq!(finished(&mut net.b, id).errno, Some(errno), "{name}");
        let lowest = if name == "closed" { fd } else { fd + 1 };
        assert_eq!(stream(&mut net.b), lowest, "{name}");
        assert_eq!(stream(&mut net.b), if name == "closed" { fd + 1 } else { fd + 2 }, "{name}");
    }
}

/// Whether there is a descriptor is decided when accept() begins: who comes later finds none, and the waiting one has its own.
#[test]
fn the_last_descriptor_is_that_of_the_accept_that_waits() {
    let mut net = Net::new();
    let (listener, id) = accepting(&mut net.b, SOCK_STREAM, 0);
    let socket = Call::Socket { domain: AF_INET, ty: SOCK_STREAM, protocol: 0 };
    let opened =
        (0..2_000).map_while(|_| done(&mut net.b, socket.clone()).errno.is_none().then_some(())).count();
    assert_eq!(opened, 1_024 - 2, "a listener and what it waits for");
    assert_eq!(fails(&mut net.b, socket), Errno::EMFILE);
    assert_eq!(fails(&mut net.b, Call::Accept { fd: listener, flags: 0 }), Errno::EMFILE);
    let client = nonblocking(&mut net.a);
    assert_eq!(fails(&mut net.a, connect(client, B, 80)), Errno::EINPROGRESS);
    net.run(200 * MS);
    assert_eq!(finished(&mut net.b, id).ret, i64::from(listener) + 1);
}

/// The address is copied before anybody asks what kind of file it is for (`__sys_connect`), of bind() after that (`__sys_bind`).
#[test]
fn a_bad_address_is_looked_at_where_linux_does() {
    let mut host = host(A, A6);
    let (read, _) = done(&mut host, Call::Pipe { flags: 0 }).pipe.expect("a pipe");
    for (addr, errno) in [(Name::Bad, Errno::EFAULT), (Name::Strange, Errno::EINVAL)] {
        assert_eq!(fails(&mut host, Call::Connect { fd: read, addr }), errno);
        assert_eq!(fails(&mut host, Call::Bind { fd: read, addr }), Errno::ENOTSOCK);
        assert_eq!(fails(&mut host, Call::Connect { fd: 99, addr }), Errno::EBADF);
    }
}
