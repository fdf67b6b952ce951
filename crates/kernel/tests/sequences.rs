//! Drawn sequences of calls on sockets that speak to one another over loopback: the stack answers as the kernel does.
//!
//! Calls that need time (timers, long transfers) are left out; every socket is non-blocking, so each call has its answer at once. A failure
//! prints the shortest part of its sequence that still shows a difference. `SEQUENCES=FROM..TO` draws others.
#![cfg(target_os = "linux")]
use core::net::SocketAddr;
use lowwater_core::base::Rng;
use lowwater_drill::{Target as _, World};
use lowwater_kernel::Kernel;
use lowwater_posix::abi::*;
use lowwater_posix::{
    Call, EpollEvent, Fd, Host, Name, Optval, Piece, PollFd, RecvKind, Reply, Room, SendKind, Settings,
    Started,
};
use std::collections::BTreeMap;
use std::thread;

/// Sequences of one run, and calls in each.
const SEEDS: std::ops::Range<u64> = 0..300;
const CALLS: usize = 40;
/// Where both differ, and why.
const DIFFERENT: [(u64, &str); 4] = [
    (260, "a connection that was accepted and dissolved connects to its own listener"),
    (740, "a socket that was shut down connects to itself"),
    (1_187, "the same"),
    (1_302, "the same"),
];
/// A descriptor that nobody has.
const NOBODY: Fd = 1_000_000;
/// Ports from here on are the system's choice and differ.
const CHOSEN: u16 = 32_768;

/// A call whose descriptors are the indices of the calls that made them.
#[derive(Clone, Debug)]
struct Op(usize, Call);

struct Chance {
    rng: Rng,
    /// Indices of calls that make a descriptor: of a stream (s), a datagram socket (d, D with AF_INET6), an epoll set (e).
    made: Vec<(usize, char)>,
}

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        (self.rng.next_u64() % n.max(1) as u64) as usize
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        let at = self.below(of.len());
        of[at].clone()
    }

    fn fd(&mut self, kinds: &str) -> Fd {
        let fit: Vec<usize> = self.made.iter().filter(|(_, k)| kinds.contains(*k)).map(|(i, _)| *i).collect();
        if fit.is_empty() { NOBODY } else { self.one(&fit) as Fd }
    }

    fn name(&mut self) -> Name {
        let ip =
            self.one(&["127.0.0.1", "127.0.0.1", "127.0.0.1", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1"]);
        let port = self.one(&[0, 80, 80, 80, 81]);
        let inet = Name::Inet(SocketAddr::new(ip.parse().unwrap(), port));
        match self.below(16) {
            0 => self.one(&[Name::UNSPEC, Name::Bad, Name::Short(2, 15), Name::Other(1, 28)]),
            _ => inet,
        }
    }

    fn data(&mut self) -> Call {
        let fd = self.fd("sdD");
        let len = self.one(&[0, 1, 10, 300]);
        let flags = self.one(&[0, 0, MSG_DONTWAIT, MSG_MORE]);
        match self.below(4) {
            0 | 1 => {
                let flags = self.one(&[0, 0, 0, MSG_PEEK, MSG_TRUNC, MSG_PEEK | MSG_TRUNC, MSG_WAITALL]);
                let kind = self.one(&[RecvKind::Recv, RecvKind::Recvfrom, RecvKind::Recvmsg]);
                Call::Recv { fd, kind, rooms: vec![Room::new(len)], flags, control_len: 0 }
            }
            2 => Call::Send {
                fd,
                kind: SendKind::Send,
                data: vec![Piece::zeros(len)],
                flags: flags & !MSG_MORE,
                to: None,
                control: Vec::new(),
            },
            _ => {
                let (to, data) = (Some(self.name()), vec![Piece::zeros(len)]);
                Call::Send { fd, kind: SendKind::Sendto, data, flags: 0, to, control: Vec::new() }
            }
        }
    }

    fn option(&mut self) -> Call {
        let fd = self.fd("sdD");
        let (level, name) = self.one(&[
            (SOL_SOCKET, SO_REUSEADDR),
            (SOL_SOCKET, SO_REUSEADDR),
            (SOL_SOCKET, SO_REUSEPORT),
            (SOL_IPV6, IPV6_V6ONLY),
            (SOL_IP, IP_FREEBIND),
        ]);
        match self.below(6) {
            0 => {
                let (level, name) =
                    self.one(&[(SOL_SOCKET, SO_ACCEPTCONN), (SOL_SOCKET, SO_DOMAIN), (level, name)]);
                Call::Getsockopt { fd, level, name, len: 4 }
            }
            1 => {
                let value = Optval::Bytes([1_i32.to_ne_bytes(), 0_i32.to_ne_bytes()].concat().into());
                Call::Setsockopt { fd, level: SOL_SOCKET, name: SO_LINGER, value }
            }
            2 => Call::Getsockopt { fd, level: SOL_SOCKET, name: SO_ERROR, len: 4 },
            _ => Call::Setsockopt { fd, level, name, value: Optval::int(self.one(&[1, 1, 0])) },
        }
    }

    fn watch(&mut self, index: usize) -> Call {
        match self.below(4) {
            0 => {
                self.made.push((index, 'e'));
                Call::EpollCreate { size: 1, flags: 0 }
            }
            1 | 2 => {
                let events = self.one(&[
                    EPOLLIN,
                    EPOLLOUT | EPOLLIN,
                    EPOLLOUT | EPOLLET,
                    EPOLLIN | EPOLLONESHOT,
                    EPOLLRDHUP,
                ]);
                let fd = self.fd("sdDe");
                let event = Some(EpollEvent { events, data: fd as u64 });
                Call::EpollCtl { epfd: self.fd("e"), op: self.one(&[1, 1, 1, 2, 3]), fd, event }
            }
            _ => Call::EpollWait { epfd: self.fd("e"), max_events: 8, timeout_ms: 0 },
        }
    }

    fn call(&mut self, index: usize) -> Call {
        match self.below(24) {
            0..=3 => {
                let domain = self.one(&[AF_INET, AF_INET, AF_INET6]);
                let datagram = if domain == AF_INET { 'd' } else { 'D' };
                let (ty, kind) = self.one(&[(SOCK_STREAM, 's'), (SOCK_STREAM, 's'), (SOCK_DGRAM, datagram)]);
                self.made.push((index, kind));
                Call::Socket { domain, ty: ty | SOCK_NONBLOCK, protocol: 0 }
            }
            4 | 5 => Call::Bind { fd: self.fd("sdD"), addr: self.name() },
            6 => Call::Listen { fd: self.fd("sdD"), backlog: 5 },
            7 | 8 => {
                let fd = self.fd("s");
                self.made.push((index, 's'));
                Call::Accept { fd, flags: SOCK_NONBLOCK }
            }
            9..=11 => {
                let addr = self.name();
                let fd = self.fd("sdD");
                let six = self.made.iter().any(|(index, kind)| (*index as Fd, *kind) == (fd, 'D'));
                let addr = match addr {
                    // Nobody can be reached at port 0: the stack says so of streams at once, and datagram sockets hear nobody then.
                    Name::Inet(addr) if addr.port() == 0 => Name::UNSPEC,
                    // A datagram socket of both families keeps the family of its first peer.
                    Name::Inet(_) if six => Name::Inet("[::1]:80".parse().unwrap()),
                    addr => addr,
                };
                Call::Connect { fd, addr }
            }
            12..=14 => self.data(),
            15 => Call::Shutdown { fd: self.fd("sdD"), how: self.one(&[0, 1, 2]) },
            16 => Call::Close { fd: self.fd("sdDe") },
            17 => Call::Getsockname { fd: self.fd("sdD") },
            18 => Call::Getpeername { fd: self.fd("sdD") },
            19 => {
                let fds = vec![PollFd { fd: self.fd("sdDe"), events: 0x7fff }];
                Call::Poll { fds, timeout_ms: 0 }
            }
            20 => Call::Ioctl { fd: self.fd("sdD"), request: 0x541b, arg: Some(0) },
            21 => self.option(),
            _ => self.watch(index),
        }
    }
}

fn draw(seed: u64) -> Vec<Op> {
    let mut chance = Chance { rng: Rng::new(seed), made: Vec::new() };
    (0..CALLS).map(|index| Op(index, chance.call(index))).collect()
}

/// The descriptors of one side by the index of the call that made them.
type Fds = BTreeMap<Fd, Fd>;

fn numbered(call: &Call, fds: &Fds) -> Call {
    let mut call = call.clone();
    call.for_each_fd(|fd| *fd = fds.get(fd).copied().unwrap_or(NOBODY));
    call
}

/// What can be compared of a reply, as text.
fn shown(op: &Op, reply: &Reply) -> String {
    let makes = matches!(op.1, Call::Socket { .. } | Call::Accept { .. } | Call::EpollCreate { .. });
    let ret = if makes { reply.ret.min(0) } else { reply.ret };
    let errno = reply.errno.map(|e| e.to_string()).unwrap_or_default();
    let addr = reply.addr.map(|a| {
        // Of a port that went back Linux still tells the number, and the stack keeps that of a datagram socket.
        let port = if a.port() >= CHOSEN { 0 } else { a.port() };
        SocketAddr::new(a.ip(), port).to_string()
    });
    // A peer of a stream is told by accept() alone, and of failures nothing is written.
    let told = matches!(op.1, Call::Accept { .. } | Call::Getsockname { .. } | Call::Getpeername { .. });
    let addr = addr.filter(|_| told && reply.ret >= 0).unwrap_or_default();
    let value = if reply.ret >= 0 { format!("{:?}", reply.int()) } else { String::new() };
    let flags = if matches!(op.1, Call::Recv { kind: RecvKind::Recvmsg, .. }) { reply.msg_flags } else { 0 };
    let data = if flags_of(op) & MSG_TRUNC == 0 { reply.data.len() } else { 0 };
    format!("{ret} {errno} {addr} {value} {flags:#x} {data} {:x?} {:x?}", reply.revents, reply.events)
}

const fn flags_of(op: &Op) -> i32 {
    match op.1 {
        Call::Recv { flags, .. } => flags,
        _ => 0,
    }
}

/// What became of a sequence: the first difference, and all calls with their answers up to there.
fn run(ops: &[Op]) -> Option<Vec<String>> {
    thread::scope(|s| s.spawn(|| run_here(ops)).join().unwrap())
}

fn run_here(ops: &[Op]) -> Option<Vec<String>> {
    let (local, remote) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
    let world = World { local, prefix: 24, remote, mtu: 1_500, joined: 0, special_device: false };
    let mut kernel = Kernel::new(&world).expect("a namespace");
    let routes = vec![("0.0.0.0".parse().unwrap(), 0, None)];
    let mut host =
        Host::new(Settings { addresses: vec![(local, 24)], routes, ..Settings::default() }).unwrap();
    let (mut ours, mut theirs) = (Fds::new(), Fds::new());
    let mut lines = Vec::new();
    for op in ops {
        let [stack, linux] = [
            (host.call(numbered(&op.1, &ours)), &mut ours),
            (kernel.call(numbered(&op.1, &theirs)), &mut theirs),
        ]
        .map(|(started, fds)| match started {
            Started::Done(reply) => {
                match (&op.1, reply.ret) {
                    (Call::Close { fd }, _) => drop(fds.remove(fd)),
                    (Call::Socket { .. } | Call::Accept { .. } | Call::EpollCreate { .. }, fd @ 0..) => {
                        fds.insert(op.0 as Fd, fd as Fd);
                    }
                    _ => {}
                }
                shown(op, &reply)
            }
            Started::Blocked(_) => "blocks".to_owned(),
        });
        if stack != linux {
            lines.push(format!("{}: {:?}\n    stack:  {stack}\n    kernel: {linux}", op.0, op.1));
            return Some(lines);
        }
        lines.push(format!("{}: {:?}\n    {stack}", op.0, op.1));
    }
    None
}

/// Leaves out whatever can be left out.
fn shrink(mut ops: Vec<Op>, found: Vec<String>) -> Vec<String> {
    let mut worst = found;
    ops.truncate(worst.len());
    let mut at = ops.len();
    while at > 0 {
        at -= 1;
        let mut fewer = ops.clone();
        fewer.remove(at);
        if let Some(lines) = run(&fewer) {
            fewer.truncate(lines.len());
            (ops, worst) = (fewer, lines);
            at = at.min(ops.len());
        }
    }
    worst
}

#[test]
fn sequences_of_calls_have_the_kernels_answers() {
    if !lowwater_os::netns::net_admin() {
        return;
    }
    let seeds = match std::env::var("SEQUENCES") {
        Ok(text) => {
            let (from, to) = text.split_once("..").expect("FROM..TO");
            from.parse().unwrap()..to.parse().unwrap()
        }
        Err(_) => SEEDS,
    };
    let mut failed = Vec::new();
    for seed in seeds.filter(|seed| DIFFERENT.iter().all(|(known, _)| known != seed)) {
        let ops = draw(seed);
        if let Some(found) = run(&ops) {
            failed.push(format!("seed {seed}:\n{}\n", shrink(ops, found).join("\n")));
        }
    }
    assert!(failed.is_empty(), "{}\n{} sequences differ", failed.join("\n"), failed.len());
}
