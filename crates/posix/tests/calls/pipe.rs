//! Pipes, and splice between pipes and sockets.
use crate::support::*;
use lowwater_core::base::Duration;
use lowwater_posix::abi::*;
use lowwater_posix::{Call, Errno, Fd, Host};

const MS: fn(u64) -> Duration = Duration::from_millis;

fn pipe(host: &mut Host, flags: i32) -> (Fd, Fd) {
    done(host, Call::Pipe { flags }).pipe.expect("two ends")
}

fn splice(fd_in: Fd, fd_out: Fd, len: usize) -> Call {
    Call::Splice { fd_in, off_in: None, fd_out, off_out: None, len, flags: 0 }
}

#[test]
fn a_pipe_blocks_when_it_is_empty_or_full() {
    let mut host = host(A, A6);
    let (r, w) = pipe(&mut host, 0);
    let reader = blocks(&mut host, read(r, 10));
    ok(&mut host, write(w, b"abc"));
    assert_eq!(finished(&mut host, reader).data, "abc");
    assert_eq!(ok(&mut host, write(w, &[1; 65_000])), 65_000);
    let writer = blocks(&mut host, write(w, &[2; 1_000]));
    assert_eq!(
        done(&mut host, Call::Ioctl { fd: r, request: 0x541b, arg: Some(0) }).int(),
        Some(65_000),
        "all or nothing"
    );
    ok(&mut host, read(r, 4_096));
    assert_eq!(finished(&mut host, writer).ret, 1_000);
    let writer = blocks(&mut host, write(w, &[3; 5_000]));
    ok(&mut host, read(r, 70_000));
    assert_eq!(finished(&mut host, writer).ret, 5_000, "long ones go in pieces");
    ok(&mut host, read(r, 70_000));
    let reader = blocks(&mut host, read(r, 10));
    ok(&mut host, Call::Close { fd: w });
    assert_eq!(finished(&mut host, reader).ret, 0);
}

/// A pipe has place for 16 pieces of a page (`pipe_write`, `splice_pipe_to_pipe`).
#[test]
fn a_piece_of_a_pipe_keeps_its_place_until_all_of_it_is_read() {
    let mut host = host(A, A6);
    let (r, w) = pipe(&mut host, O_NONBLOCK);
    for _ in 0..3 {
        ok(&mut host, write(w, &[1; 3_000]));
    }
    assert_eq!(ok(&mut host, write(w, &[2; 65_536])), 13 * 4_096);
    ok(&mut host, read(r, 2_999));
    assert_eq!(fails(&mut host, write(w, b"x")), Errno::EAGAIN);
    ok(&mut host, read(r, 1));
    assert_eq!(ok(&mut host, write(w, b"abc")), 3);
    assert_eq!(ok(&mut host, write(w, &[3; 4_093])), 4_093, "the last page has room");
    assert_eq!(fails(&mut host, write(w, b"x")), Errno::EAGAIN);
    // Between pipes pieces move, and of one that is split no part is written to.
    let (r2, w2) = pipe(&mut host, O_NONBLOCK);
    assert_eq!(ok(&mut host, splice(r, w2, 3_500)), 3_500);
    for _ in 2..16 {
        ok(&mut host, write(w2, &[4; 4_096]));
    }
    assert_eq!(fails(&mut host, write(w2, b"x")), Errno::EAGAIN);
    assert_eq!(fails(&mut host, splice(r, w2, 1)), Errno::EAGAIN);
    ok(&mut host, read(r2, 3_000));
    assert_eq!(ok(&mut host, splice(r, w2, 65_536)), 2_500, "one place");
    // What comes back in front has places of its own.
    let rest = done(&mut host, read(r2, 500)).data;
    host.unread(r2, &rest);
    assert_eq!(fails(&mut host, write(w2, &[5; 1_097])), Errno::EAGAIN);
    assert_eq!(ok(&mut host, write(w2, &[5; 1_096])), 1_096, "a piece that moved whole has the room it had");
    assert_eq!(ok(&mut host, read(r2, 70_000)), 500 + 14 * 4_096 + 2_500 + 1_096);
}

#[test]
fn a_writer_without_a_reader_gets_a_signal() {
    let mut host = host(A, A6);
    let (r, w) = pipe(&mut host, O_NONBLOCK);
    assert_eq!(fails(&mut host, read(r, 1)), Errno::EAGAIN);
    ok(&mut host, Call::Close { fd: r });
    let reply = done(&mut host, write(w, b"x"));
    assert_eq!((reply.errno, reply.sigpipe), (Some(Errno::EPIPE), true));
    let (r, w) = pipe(&mut host, 0);
    let writer = blocks(&mut host, write(w, &[1; 100_000]));
    ok(&mut host, Call::Close { fd: r });
    let reply = finished(&mut host, writer);
    assert_eq!((reply.ret, reply.sigpipe), (65_536, true), "for what it could not write");
    assert_eq!(fails(&mut host, Call::Pipe { flags: 1 }), Errno::EINVAL);
}

/// Whom a writer wakes may make room before it waits itself.
#[test]
fn a_long_write_goes_on_with_each_reader_that_waits() {
    let mut host = host(A, A6);
    let (r, w) = pipe(&mut host, 0);
    let readers = [65_536, 20_000].map(|len| blocks(&mut host, read(r, len)));
    assert_eq!(done(&mut host, write(w, &[1; 85_536])).ret, 85_536);
    assert_eq!(readers.map(|id| finished(&mut host, id).data.len()), [65_536, 20_000]);
    // One that does not wait leaves when it is full, whoever reads then.
    let reader = blocks(&mut host, read(r, 65_536));
    ok(&mut host, Call::Fcntl { fd: w, cmd: F_SETFL, arg: O_NONBLOCK.into() });
    assert_eq!(done(&mut host, write(w, &[2; 85_536])).ret, 65_536);
    assert_eq!(finished(&mut host, reader).ret, 65_536);
}

/// `splice_to_socket` ends when it has emptied the pipe: who waits for room there writes for the next one.
#[test]
fn a_splice_that_empties_a_pipe_does_not_wait_for_more() {
    let mut net = Net::new();
    let (a, _) = net.connected();
    let (r, w) = pipe(&mut net.a, 0);
    let writer = blocks(&mut net.a, write(w, &[1; 100_000]));
    assert_eq!(done(&mut net.a, splice(r, a, 100_000)).ret, 65_536);
    assert_eq!(finished(&mut net.a, writer).ret, 100_000);
}

#[test]
fn splice_moves_messages_of_sctp() {
    let mut net = Net::new();
    let socket = || Call::Socket { domain: AF_INET, ty: SOCK_STREAM, protocol: IPPROTO_SCTP };
    let listener = ok(&mut net.b, socket());
    ok(&mut net.b, bind(listener, B, 80));
    ok(&mut net.b, Call::Listen { fd: listener, backlog: 5 });
    let a = ok(&mut net.a, socket());
    let connecting = blocks(&mut net.a, connect(a, B, 80));
    net.run(MS(100));
    assert_eq!(finished(&mut net.a, connecting).ret, 0);
    let b = ok(&mut net.b, Call::Accept { fd: listener, flags: 0 });
    let (r, w) = pipe(&mut net.a, 0);
    ok(&mut net.a, write(w, b"abc"));
    assert_eq!(done(&mut net.a, splice(r, a, 10)).ret, 3);
    let (r, w) = pipe(&mut net.b, 0);
    let reader = blocks(&mut net.b, splice(b, w, 10));
    net.run(MS(100));
    assert_eq!(finished(&mut net.b, reader).ret, 3);
    assert_eq!(done(&mut net.b, read(r, 10)).data, "abc");
}

#[test]
fn splice_moves_bytes_from_a_socket_to_a_socket() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    let (r, w) = pipe(&mut net.b, 0);
    let into = blocks(&mut net.b, splice(b, w, 100));
    ok(&mut net.a, write(a, b"hello, world"));
    net.run(MS(50));
    assert_eq!(finished(&mut net.b, into).ret, 12);
    assert_eq!(ok(&mut net.b, splice(r, b, 5)), 5);
    assert_eq!(ok(&mut net.b, splice(r, b, 100)), 7);
    net.run(MS(50));
    assert_eq!(done(&mut net.a, recv(a, 100, 0)).data, "hello, world");
    ok(&mut net.a, Call::Shutdown { fd: a, how: SHUT_WR });
    net.run(MS(50));
    assert_eq!(ok(&mut net.b, splice(b, w, 100)), 0, "the end of the stream");
}

#[test]
fn splice_refuses_what_linux_refuses() {
    let mut net = Net::new();
    let (_, b) = net.connected();
    let host = &mut net.b;
    let (r, w) = pipe(host, O_NONBLOCK);
    let (r2, w2) = pipe(host, O_NONBLOCK);
    let other = stream(host);
    let table = [
        (splice(b, other, 1), Errno::EINVAL),
        (splice(r, w, 1), Errno::EINVAL),
        (splice(w, b, 1), Errno::EBADF),
        (splice(b, r, 1), Errno::EBADF),
        (splice(99, w, 1), Errno::EBADF),
        (splice(other, w, 1), Errno::ENOTCONN),
        (
            Call::Splice { fd_in: r, off_in: Some(0), fd_out: b, off_out: None, len: 1, flags: 0 },
            Errno::ESPIPE,
        ),
        (
            Call::Splice { fd_in: b, off_in: None, fd_out: w, off_out: Some(0), len: 1, flags: 0 },
            Errno::ESPIPE,
        ),
        (Call::Splice { fd_in: b, off_in: None, fd_out: w, off_out: None, len: 1, flags: 64 }, Errno::EINVAL),
        (Call::Splice { fd_in: r, off_in: None, fd_out: w2, off_out: None, len: 1, flags: 2 }, Errno::EAGAIN),
    ];
    for (call, errno) in table {
        let shown = format!("{call:?}");
        assert_eq!(fails(host, call), errno, "{shown}");
    }
    ok(host, write(w, b"abc"));
    assert_eq!(ok(host, splice(r, w2, 2)), 2);
    assert_eq!(done(host, read(r2, 9)).data, "ab");
    assert_eq!(ok(host, splice(r, w2, 0)), 0);
}

/// `do_vfs_ioctl`, as Linux 6.18 answers.
#[test]
fn every_file_has_flags_by_ioctl() {
    let mut host = host(A, A6);
    let (r, w) = pipe(&mut host, 0);
    let set = ok(&mut host, Call::EpollCreate { size: 1, flags: 0 });
    let socket = stream(&mut host);
    for (fd, mode) in [(socket, O_RDWR), (r, O_RDONLY), (w, O_WRONLY), (set, O_RDWR)] {
        let mut ask = |request: i32, arg| {
            let told = done(&mut host, Call::Ioctl { fd, request: request as u64 | 7 << 32, arg }).errno;
            (told, ok(&mut host, Call::Fcntl { fd, cmd: F_GETFL, arg: 0 }) & !mode)
        };
        for (request, flag) in [(FIONBIO, O_NONBLOCK), (FIOASYNC, O_ASYNC)] {
            let lacks = flag == O_ASYNC && fd == set;
            let (on, with) = if lacks { (Some(Errno::ENOTTY), 0) } else { (None, flag) };
            assert_eq!(ask(request, Some(1)), (on, with));
            assert_eq!(ask(request, None), (Some(Errno::EFAULT), with));
            assert_eq!(ask(request, Some(0)), (None, 0));
        }
        for (request, on) in [(FIOCLEX, FD_CLOEXEC), (FIONCLEX, 0)] {
            ok(&mut host, Call::Ioctl { fd, request: request as u64, arg: None });
            assert_eq!(ok(&mut host, Call::Fcntl { fd, cmd: F_GETFD, arg: 0 }), on);
        }
    }
}
