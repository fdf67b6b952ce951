//! Two hosts joined in virtual time, and short ways to make calls.
pub(crate) mod sctp;

use bytes::Bytes;
use core::net::SocketAddr;
use lowwater_core::base::{Duration, Instant};
use lowwater_posix::abi::{AF_INET, AF_INET6, IPPROTO_TCP, SOCK_NONBLOCK, SOCK_STREAM};
use lowwater_posix::{
    Call, CallId, Errno, Fd, Host, Name, Optval, Piece, PollFd, RecvKind, Reply, Room, SendKind, Settings,
    Started,
};

/// One way between the hosts.
pub(crate) const DELAY: Duration = Duration::from_millis(10);
pub(crate) const A: &str = "10.0.0.1";
pub(crate) const B: &str = "10.0.0.2";
pub(crate) const A6: &str = "fd00::1";
pub(crate) const B6: &str = "fd00::2";

pub(crate) fn host(v4: &str, v6: &str) -> Host {
    let ip = |text: &str| text.parse().expect("an address");
    let addresses = vec![(ip(v4), 24), (ip(v6), 64)];
    let routes = vec![(ip("0.0.0.0"), 0, None)];
    Host::new(Settings { addresses, routes, ..Settings::default() }).expect("addresses that no other has")
}

/// Two hosts and the packets under way between them.
pub(crate) struct Net {
    pub(crate) a: Host,
    pub(crate) b: Host,
    /// When, to which (0 for a), what.
    wire: Vec<(Instant, usize, Bytes)>,
}

impl Net {
    pub(crate) fn new() -> Self {
        Self { a: host(A, A6), b: host(B, B6), wire: Vec::new() }
    }

    /// One host with nine addresses of loopback, which has all of 127.0.0.0/8 in Linux.
    pub(crate) fn loopbacks() -> Self {
        let more = (2..10).map(|last| ([127, 0, 0, last].into(), 32));
        let addresses = [(A.parse().expect("an address"), 24)].into_iter().chain(more).collect();
        let a =
            Host::new(Settings { addresses, ..Settings::default() }).expect("addresses that no other has");
        Self { a, ..Self::new() }
    }

    fn host(&mut self, index: usize) -> &mut Host {
        if index == 0 { &mut self.a } else { &mut self.b }
    }

    fn gather(&mut self) {
        for from in 0..2 {
            let host = self.host(from);
            let now = host.now();
            let mut new = Vec::new();
            while host.sent().is_some() {
                let Some(sent) = host.next_packet(now) else { break };
                new.push((sent.at + DELAY, 1 - from, sent.bytes));
            }
            self.wire.extend(new);
        }
    }

    /// Lets time pass, packets included.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.a.now().max(self.b.now()) + time;
        loop {
            self.gather();
            let packet = self.wire.iter().map(|(at, ..)| *at).min();
            let timers = [self.a.next_deadline(), self.b.next_deadline()];
            let next = timers.into_iter().flatten().chain(packet).min().filter(|next| *next <= end);
            let Some(next) = next else { break };
            self.a.advance_until(next);
            self.b.advance_until(next);
            self.gather();
            let due: Vec<_> = self.wire.iter().filter(|(at, ..)| *at <= next).cloned().collect();
            self.wire.retain(|(at, ..)| *at > next);
            for (_, to, bytes) in due {
                self.host(to).inject(bytes);
            }
        }
        self.a.advance_until(end);
        self.b.advance_until(end);
    }

    /// Packets that are under way.
    pub(crate) fn under_way(&mut self) -> usize {
        self.gather();
        self.wire.len()
    }

    /// What is under way is lost.
    pub(crate) fn lose(&mut self) {
        self.gather();
        self.wire.clear();
    }

    /// A connection: the descriptors at a, which connects, and at b, which listens.
    pub(crate) fn connected(&mut self) -> (Fd, Fd) {
        let listener = listener(&mut self.b, 80);
        let a = stream(&mut self.a);
        let id = blocks(&mut self.a, connect(a, B, 80));
        self.run(Duration::from_millis(100));
        assert_eq!(finished(&mut self.a, id).ret, 0);
        let accepted = done(&mut self.b, Call::Accept { fd: listener, flags: 0 });
        ok(&mut self.b, Call::Close { fd: listener });
        (a, accepted.ret as Fd)
    }
}

pub(crate) fn at(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().expect("an address"), port)
}

pub(crate) fn stream(host: &mut Host) -> Fd {
    ok(host, Call::Socket { domain: AF_INET, ty: SOCK_STREAM, protocol: IPPROTO_TCP })
}

pub(crate) fn stream6(host: &mut Host) -> Fd {
    ok(host, Call::Socket { domain: AF_INET6, ty: SOCK_STREAM, protocol: IPPROTO_TCP })
}

pub(crate) fn nonblocking(host: &mut Host) -> Fd {
    ok(host, Call::Socket { domain: AF_INET, ty: SOCK_STREAM | SOCK_NONBLOCK, protocol: IPPROTO_TCP })
}

pub(crate) fn listener(host: &mut Host, port: u16) -> Fd {
    let fd = stream(host);
    ok(host, setint(fd, 1, 2, 1));
    ok(host, bind(fd, "0.0.0.0", port));
    ok(host, Call::Listen { fd, backlog: 5 });
    fd
}

pub(crate) fn bind(fd: Fd, ip: &str, port: u16) -> Call {
    Call::Bind { fd, addr: Name::Inet(at(ip, port)) }
}

pub(crate) fn connect(fd: Fd, ip: &str, port: u16) -> Call {
    Call::Connect { fd, addr: Name::Inet(at(ip, port)) }
}

pub(crate) fn recv(fd: Fd, len: usize, flags: i32) -> Call {
    Call::Recv { fd, kind: RecvKind::Recv, rooms: vec![Room::new(len)], flags, control_len: 0 }
}

pub(crate) fn recvmsg(fd: Fd, len: usize, flags: i32, control_len: usize) -> Call {
    Call::Recv { fd, kind: RecvKind::Recvmsg, rooms: vec![Room::new(len)], flags, control_len }
}

pub(crate) fn read(fd: Fd, len: usize) -> Call {
    Call::Recv { fd, kind: RecvKind::Read, rooms: vec![Room::new(len)], flags: 0, control_len: 0 }
}

pub(crate) fn send(fd: Fd, data: &[u8], flags: i32) -> Call {
    let data = vec![Piece::Data(Bytes::copy_from_slice(data))];
    Call::Send { fd, kind: SendKind::Send, data, flags, to: None, control: Vec::new() }
}

pub(crate) fn write(fd: Fd, data: &[u8]) -> Call {
    let data = vec![Piece::Data(Bytes::copy_from_slice(data))];
    Call::Send { fd, kind: SendKind::Write, data, flags: 0, to: None, control: Vec::new() }
}

pub(crate) fn setint(fd: Fd, level: i32, name: i32, value: i32) -> Call {
    Call::Setsockopt { fd, level, name, value: Optval::int(value) }
}

pub(crate) fn get(fd: Fd, level: i32, name: i32, len: i32) -> Call {
    Call::Getsockopt { fd, level, name, len }
}

pub(crate) fn pollfd(fd: Fd, events: i32, timeout_ms: i32) -> Call {
    Call::Poll { fds: vec![PollFd { fd, events: events as i16 }], timeout_ms }
}

/// The reply of a call that must not block.
#[track_caller]
pub(crate) fn done(host: &mut Host, call: Call) -> Reply {
    let shown = format!("{call:?}");
    match host.call(call) {
        Started::Done(reply) => reply,
        Started::Blocked(_) => panic!("{shown} blocks"),
    }
}

/// The name of a call that must block.
#[track_caller]
pub(crate) fn blocks(host: &mut Host, call: Call) -> CallId {
    let shown = format!("{call:?}");
    match host.call(call) {
        Started::Done(reply) => panic!("{shown} does not block: {reply:?}"),
        Started::Blocked(id) => id,
    }
}

/// The reply of a call that blocked and must be over.
#[track_caller]
pub(crate) fn finished(host: &mut Host, id: CallId) -> Reply {
    host.take(id).expect("the call is over").1
}

/// The result of a call that must not fail.
#[track_caller]
pub(crate) fn ok(host: &mut Host, call: Call) -> Fd {
    let shown = format!("{call:?}");
    let reply = done(host, call);
    assert_eq!(reply.errno, None, "{shown}");
    reply.ret as Fd
}

/// The error of a call that must fail.
#[track_caller]
pub(crate) fn fails(host: &mut Host, call: Call) -> Errno {
    let shown = format!("{call:?}");
    let reply = done(host, call);
    assert_eq!(reply.ret, -1, "{shown}: {reply:?}");
    reply.errno.expect("a failure has a reason")
}

/// revents of one descriptor, now.
#[track_caller]
pub(crate) fn revents(host: &mut Host, fd: Fd) -> i32 {
    i32::from(done(host, pollfd(fd, 0x7fff, 0)).revents[0]) & 0xffff
}
