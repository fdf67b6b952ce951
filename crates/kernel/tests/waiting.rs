//! One call waits, another is made on its socket or its pipe: what both come to is what the kernel of this host answers (root). Each of these
//! calls that wait meets each of those that might end its wait.
use core::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use lowwater_core::base::Duration;
use lowwater_drill::{Target as _, World};
use lowwater_kernel::Kernel;
use lowwater_posix::abi::*;
use lowwater_posix::{
    Call, CallId, Fd, Host, Name, Optval, Piece, PollFd, RecvKind, Reply, Room, SendKind, Settings, Started,
};
use std::thread;

const LOCAL: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// Nobody answers there.
const SILENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// More than any buffer takes.
const MUCH: usize = 30_000_000;

const WORLD: World = World {
    local: IpAddr::V4(LOCAL),
    prefix: 24,
    remote: IpAddr::V4(SILENT),
    mtu: 1_500,
    joined: 0,
    special_device: false,
};

/// The stack or the kernel.
trait Side {
    fn call(&mut self, call: Call) -> Started;
    fn take(&mut self, id: CallId) -> Option<Reply>;
    /// What is under way arrives.
    fn pass(&mut self);

    fn done(&mut self, call: Call) -> Reply {
        let id = match self.call(call) {
            Started::Done(reply) => return reply,
            Started::Blocked(id) => id,
        };
        self.pass();
        self.take(id).expect("nothing keeps this call waiting")
    }

    fn fd(&mut self, call: Call) -> Fd {
        self.done(call).ret as Fd
    }

    fn socket(&mut self, ty: i32) -> Fd {
        self.fd(Call::Socket { domain: AF_INET, ty, protocol: 0 })
    }

    fn bound(&mut self, ty: i32, port: u16) -> Fd {
        let fd = self.socket(ty);
        self.done(Call::Bind { fd, addr: at(LOCAL, port) });
        fd
    }

    fn listener(&mut self, port: u16) -> Fd {
        let fd = self.bound(SOCK_STREAM, port);
        self.done(Call::Listen { fd, backlog: 5 });
        fd
    }

    fn connected(&mut self, port: u16) -> (Fd, Fd) {
        let (listener, fd) = (self.listener(port), self.socket(SOCK_STREAM));
        self.done(Call::Connect { fd, addr: at(LOCAL, port) });
        self.pass();
        (fd, self.fd(Call::Accept { fd: listener, flags: 0 }))
    }
}

impl Side for Host {
    fn call(&mut self, call: Call) -> Started {
        Self::call(self, call)
    }

    fn take(&mut self, id: CallId) -> Option<Reply> {
        Self::take(self, id).map(|(_, reply)| reply)
    }

    fn pass(&mut self) {
        self.advance_until(self.now() + Duration::from_millis(20));
        while self.next_packet(self.now()).is_some() {}
    }
}

impl Side for Kernel {
    fn call(&mut self, call: Call) -> Started {
        lowwater_drill::Target::call(self, call)
    }

    fn take(&mut self, id: CallId) -> Option<Reply> {
        lowwater_drill::Target::take(self, id).map(|(_, reply)| reply)
    }

    fn pass(&mut self) {
        self.advance_until(self.now() + Duration::from_millis(20));
    }
}

fn at(ip: Ipv4Addr, port: u16) -> Name {
    Name::Inet(SocketAddr::V4(SocketAddrV4::new(ip, port)))
}

fn recv(fd: Fd, flags: i32) -> Call {
    Call::Recv { fd, kind: RecvKind::Recv, rooms: vec![Room::new(10)], flags, control_len: 0 }
}

fn read(fd: Fd, len: usize) -> Call {
    Call::Recv { fd, kind: RecvKind::Read, rooms: vec![Room::new(len)], flags: 0, control_len: 0 }
}

fn send(fd: Fd, len: usize) -> Call {
    let data = vec![Piece::zeros(len)];
    Call::Send { fd, kind: SendKind::Send, data, flags: MSG_NOSIGNAL, to: None, control: Vec::new() }
}

fn write(fd: Fd, len: usize) -> Call {
    Call::Send {
        fd,
        kind: SendKind::Write,
        data: vec![Piece::zeros(len)],
        flags: 0,
        to: None,
        control: Vec::new(),
    }
}

fn poll(fd: Fd, events: i32) -> Call {
    Call::Poll { fds: vec![PollFd { fd, events: events as i16 }], timeout_ms: -1 }
}

fn dissolve(fd: Fd) -> Call {
    Call::Connect { fd, addr: Name::UNSPEC }
}

fn shutdown(fd: Fd, how: i32) -> Call {
    Call::Shutdown { fd, how }
}

/// Who waits: a name, and what makes the socket or the end of a pipe, its other end, and the call.
type Waits = (&'static str, fn(&mut dyn Side, u16) -> (Fd, Fd, Call));

const TCP: &[Waits] = &[
    ("recv", |s, port| {
        let (a, b) = s.connected(port);
        (a, b, recv(a, 0))
    }),
    ("recv of a part", |s, port| {
        let (a, b) = s.connected(port);
        s.done(send(b, 3));
        s.pass();
        (a, b, recv(a, MSG_WAITALL))
    }),
    ("peek at a part", |s, port| {
        let (a, b) = s.connected(port);
        s.done(send(b, 3));
        s.pass();
        (a, b, recv(a, MSG_WAITALL | MSG_PEEK))
    }),
    ("recv of less than the low-water mark", |s, port| {
        let (a, b) = s.connected(port);
        s.done(low_water(a, 10));
        s.done(send(b, 3));
        s.pass();
        (a, b, recv(a, 0))
    }),
    ("send of a part", |s, port| {
        let (a, b) = s.connected(port);
        (a, b, send(a, MUCH))
    }),
    ("poll", |s, port| {
        let (a, b) = s.connected(port);
        (a, b, poll(a, POLLIN))
    }),
    ("splice from a socket", |s, port| {
        let ((a, b), (_, w)) = (s.connected(port), pipe(s));
        (a, b, splice(a, w, 10))
    }),
    ("splice from a socket to a full pipe", |s, port| {
        let ((a, b), (_, w)) = (s.connected(port), pipe(s));
        s.done(write(w, 65_536));
        (a, b, splice(a, w, 10))
    }),
    ("splice from an empty pipe to a socket", |s, port| {
        let ((a, b), (r, _)) = (s.connected(port), pipe(s));
        (a, b, splice(r, a, 10))
    }),
];

const OPENING: &[Waits] = &[
    ("connect", |s, port| {
        let fd = s.socket(SOCK_STREAM);
        (fd, -1, Call::Connect { fd, addr: at(SILENT, port) })
    }),
    ("recv before the handshake", |s, port| {
        let fd = opening(s, port);
        (fd, -1, recv(fd, 0))
    }),
    ("send before the handshake", |s, port| {
        let fd = opening(s, port);
        (fd, -1, send(fd, 3))
    }),
    ("splice before the handshake", |s, port| {
        let (fd, (_, w)) = (opening(s, port), pipe(s));
        (fd, -1, splice(fd, w, 10))
    }),
    ("splice to before the handshake", |s, port| {
        let (fd, (r, w)) = (opening(s, port), pipe(s));
        s.done(write(w, 10));
        (fd, -1, splice(r, fd, 10))
    }),
    ("connect beside another", |s, port| {
        let fd = opening(s, port);
        (fd, -1, Call::Connect { fd, addr: at(SILENT, port) })
    }),
];

const LISTENERS: &[Waits] = &[
    ("accept", |s, port| {
        let fd = s.listener(port);
        (fd, s.socket(SOCK_STREAM | SOCK_NONBLOCK), Call::Accept { fd, flags: 0 })
    }),
    ("poll of a listener", |s, port| {
        let fd = s.listener(port);
        (fd, s.socket(SOCK_STREAM | SOCK_NONBLOCK), poll(fd, POLLIN))
    }),
];

const DATAGRAMS: &[Waits] = &[
    ("recv", |s, port| {
        let fd = s.bound(SOCK_DGRAM, port);
        (fd, s.socket(SOCK_DGRAM), recv(fd, 0))
    }),
    ("recv from a peer", |s, port| {
        let fd = s.bound(SOCK_DGRAM, port);
        s.done(Call::Connect { fd, addr: at(LOCAL, port + 1) });
        (fd, s.bound(SOCK_DGRAM, port + 1), recv(fd, 0))
    }),
    ("recv without a port", |s, _| {
        let fd = s.socket(SOCK_DGRAM);
        (fd, s.socket(SOCK_DGRAM), recv(fd, 0))
    }),
    ("poll", |s, port| {
        let fd = s.bound(SOCK_DGRAM, port);
        (fd, s.socket(SOCK_DGRAM), poll(fd, POLLIN))
    }),
];

const PIPES: &[Waits] = &[
    ("read", |s, _| {
        let (r, w) = s.done(Call::Pipe { flags: 0 }).pipe.expect("two ends");
        (r, w, read(r, 100_000))
    }),
    ("write of more than fits", |s, _| {
        let (r, w) = s.done(Call::Pipe { flags: 0 }).pipe.expect("two ends");
        (w, r, write(w, 100_000))
    }),
    ("poll of a full one", |s, _| {
        let (r, w) = s.done(Call::Pipe { flags: 0 }).pipe.expect("two ends");
        s.done(write(w, 65_536));
        (w, r, poll(w, POLLOUT))
    }),
];

/// The ends of a pipe, to read and to write.
fn pipe(s: &mut dyn Side) -> (Fd, Fd) {
    s.done(Call::Pipe { flags: 0 }).pipe.expect("two ends")
}

/// From a socket into a pipe, or the other way round.
const fn splice(fd_in: Fd, fd_out: Fd, len: usize) -> Call {
    Call::Splice { fd_in, off_in: None, fd_out, off_out: None, len, flags: 0 }
}

/// A socket that must wait, with a connect() under way.
fn opening(s: &mut dyn Side, port: u16) -> Fd {
    let fd = s.socket(SOCK_STREAM | SOCK_NONBLOCK);
    s.done(Call::Connect { fd, addr: at(SILENT, port) });
    s.done(Call::Fcntl { fd, cmd: F_SETFL, arg: 0 });
    fd
}

/// What else is called: a name, and the call on the socket, its other end and the port.
type Acts = (&'static str, fn(Fd, Fd, u16) -> Call);

const SOCKETS: &[Acts] = &[
    ("dissolve", |fd, _, _| dissolve(fd)),
    ("shutdown for reading", |fd, _, _| shutdown(fd, SHUT_RD)),
    ("shutdown for writing", |fd, _, _| shutdown(fd, SHUT_WR)),
    ("shutdown", |fd, _, _| shutdown(fd, SHUT_RDWR)),
    ("SO_ERROR", |fd, _, _| Call::Getsockopt { fd, level: SOL_SOCKET, name: SO_ERROR, len: 4 }),
    ("more room", |fd, _, _| Call::Setsockopt {
        fd,
        level: SOL_SOCKET,
        name: SO_SNDBUF,
        value: Optval::int(9_000),
    }),
];

const PEERS: &[Acts] = &[
    ("the peer sends", |_, peer, _| send(peer, 2)),
    ("the peer sends all", |_, peer, _| send(peer, 10)),
    ("the peer shuts down", |_, peer, _| shutdown(peer, SHUT_WR)),
    ("the peer closes", |_, fd, _| Call::Close { fd }),
    ("the peer dissolves", |_, peer, _| dissolve(peer)),
];

const NEWCOMERS: &[Acts] =
    &[("somebody connects", |_, fd, port| Call::Connect { fd, addr: at(LOCAL, port) })];

const SENDERS: &[Acts] = &[("somebody sends", |_, fd, port| {
    let Call::Send { kind, data, flags, control, .. } = send(fd, 3) else { unreachable!() };
    Call::Send { fd, kind, data, flags, to: Some(at(LOCAL, port)), control }
})];

const OTHER_ENDS: &[Acts] = &[
    ("the other end closes", |_, fd, _| Call::Close { fd }),
    ("a little is read", |_, fd, _| read(fd, 10)),
    ("all is read", |_, fd, _| read(fd, 100_000)),
    ("a little is written", |_, fd, _| write(fd, 10)),
    ("much is written", |_, fd, _| write(fd, 200_000)),
];

/// What may have been called before that, while the call waits already: it is about calls to come.
const BEFORE: &[Acts] = &[
    ("O_NONBLOCK", |fd, _, _| Call::Fcntl { fd, cmd: F_SETFL, arg: O_NONBLOCK.into() }),
    ("a lower mark", |fd, _, _| low_water(fd, 1)),
    ("no time to read", |fd, _, _| hurried(fd, SO_RCVTIMEO)),
    ("no time to write", |fd, _, _| hurried(fd, SO_SNDTIMEO)),
];

fn low_water(fd: Fd, bytes: i32) -> Call {
    Call::Setsockopt { fd, level: SOL_SOCKET, name: SO_RCVLOWAT, value: Optval::int(bytes) }
}

/// A timeout below zero.
fn hurried(fd: Fd, name: i32) -> Call {
    let value = Optval::Bytes([-1_i64, 0].map(i64::to_ne_bytes).concat().into());
    Call::Setsockopt { fd, level: SOL_SOCKET, name, value }
}

/// Which waits meet which acts, and what may come before.
type Scene = (&'static str, &'static [Waits], &'static [&'static [Acts]], &'static [Acts]);

const SCENES: &[Scene] = &[
    ("TCP", TCP, &[SOCKETS, PEERS], BEFORE),
    ("TCP", OPENING, &[SOCKETS], BEFORE),
    ("TCP", LISTENERS, &[SOCKETS, NEWCOMERS], BEFORE),
    ("UDP", DATAGRAMS, &[SOCKETS, SENDERS], BEFORE),
    ("pipe", PIPES, &[OTHER_ENDS], &[]),
];

/// What is compared of a reply: how much of `MUCH` fits, and the number of a descriptor, is each side's own.
fn shown(reply: &Reply, accepts: bool) -> String {
    let own = reply.ret > 200_000 || (accepts && reply.ret > 0);
    let ret = if own { "some".to_owned() } else { reply.ret.to_string() };
    format!("{ret} {:?} {} bytes {:?} {:?}", reply.errno, reply.data.len(), reply.value, reply.revents)
}

/// What both calls came to, and what SO_ERROR tells then.
fn play(side: &mut dyn Side, (_, wait): Waits, before: Option<Acts>, (_, act): Acts, port: u16) -> String {
    let (fd, other, call) = wait(side, port);
    let accepts = matches!(call, Call::Accept { .. });
    let Started::Blocked(id) = side.call(call) else { return "does not wait".to_owned() };
    if let Some((_, before)) = before {
        side.done(before(fd, other, port));
    }
    let acted = match side.call(act(fd, other, port)) {
        Started::Done(reply) => shown(&reply, accepts),
        Started::Blocked(id) => {
            side.pass();
            side.take(id).map_or_else(|| "waits, too".to_owned(), |reply| shown(&reply, accepts))
        }
    };
    side.pass();
    let waited = side.take(id).map_or_else(|| "waits".to_owned(), |reply| shown(&reply, accepts));
    let error = side.call(Call::Getsockopt { fd, level: SOL_SOCKET, name: SO_ERROR, len: 4 });
    let Started::Done(error) = error else { unreachable!("getsockopt() never waits") };
    format!("{acted} | {waited} | {}", shown(&error, false))
}

fn host() -> Host {
    let routes = vec![(Ipv4Addr::UNSPECIFIED.into(), 0, None)];
    Host::new(Settings { addresses: vec![(LOCAL.into(), 24)], routes, ..Settings::default() })
        .expect("a host")
}

#[test]
fn who_waits_hears_of_what_others_do() {
    if !lowwater_os::netns::net_admin() {
        return;
    }
    let differ = || {
        let mut kernel = Kernel::new(&WORLD).expect("a namespace");
        let (mut port, mut differ, mut waited) = (1_000, Vec::new(), 0);
        for (what, waits, acts, before) in SCENES {
            let before = || std::iter::once(None).chain(before.iter().copied().map(Some));
            let each =
                waits.iter().flat_map(|wait| acts.iter().copied().flatten().map(move |act| (wait, act)));
            for ((wait, act), before) in each.flat_map(|each| before().map(move |before| (each, before))) {
                port += 2;
                let stack = play(&mut host(), *wait, before, *act, port);
                let linux = play(&mut kernel, *wait, before, *act, port);
                waited += usize::from(linux.contains("waits"));
                if stack != linux {
                    let before = before.map_or(String::new(), |before| format!("{}, ", before.0));
                    let scene = format!("{what}: {}, {before}{}", wait.0, act.0);
                    differ.push(format!("{scene}\n  stack:  {stack}\n  kernel: {linux}"));
                }
            }
        }
        (differ, waited)
    };
    let (differ, waited) = thread::scope(|s| s.spawn(differ).join()).expect("no panic");
    assert!(differ.is_empty(), "{}\n{} differ", differ.join("\n"), differ.len());
    assert!(waited > 20, "{waited} go on waiting");
}

/// What shows that a call blocks takes longer: four looks of half a millisecond.
const AT_ONCE: Duration = Duration::from_micros(1_500);

#[test]
fn what_a_call_sends_that_waits_has_its_own_time() {
    if !lowwater_os::netns::net_admin() {
        return;
    }
    // A busy machine may make each of a few late.
    let late = || {
        let mut kernel = Kernel::new(&WORLD).expect("a namespace");
        let mut syn = |_| {
            let fd = kernel.socket(SOCK_STREAM);
            let begun = kernel.now();
            let Started::Blocked(_) = Side::call(&mut kernel, Call::Connect { fd, addr: at(SILENT, 80) })
            else {
                unreachable!("nobody answers");
            };
            // The device speaks of itself by IPv6.
            let mut sent = std::iter::from_fn(|| kernel.next_packet(kernel.now()));
            let sent = sent.find(|sent| sent.bytes.first() == Some(&0x45)).expect("a SYN");
            Duration::from_nanos(sent.at.nanos_since(begun))
        };
        (0..5).map(&mut syn).min()
    };
    let least = thread::scope(|s| s.spawn(late).join()).expect("no panic").expect("a few");
    assert!(least < AT_ONCE, "the SYN came {least:?} after connect()");
}
