//! Calls that nobody should make, in orders that nobody should choose: no panic, no spinning, nothing that hangs for ever.
use crate::support::*;
use bytes::Bytes;
use lowwater_core::base::{Duration, Rng};
use lowwater_posix::abi::*;
use lowwater_posix::sctp::layout::{LAYOUTS, SOCKADDR_STORAGE, layout, sockaddr_bytes};
use lowwater_posix::{
    Call, CallId, Control, EpollEvent, Fd, Host, Name, Optval, Piece, PollFd, RecvKind, Room, SendKind,
    Started,
};

/// Worlds, and calls in each.
const WORLDS: u64 = 1_000;
const CALLS: usize = 250;

/// Chance, and the descriptors that are open.
struct Chance(Rng, Vec<Fd>);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n.max(1) as u64) as usize
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn fd(&mut self) -> Fd {
        // Most are open; some are not, and one is no descriptor at all.
        match self.below(60) {
            0 => -1,
            1 => 99,
            _ if self.1.is_empty() => 3,
            _ => {
                let index = self.below(self.1.len());
                self.1[index]
            }
        }
    }

    fn int(&mut self) -> i32 {
        let any = self.0.next_u64() as i32;
        self.one(&[0, 1, 2, -1, 3, 5, 100, 1_000, 4_096, 65_536, i32::MAX, i32::MIN, any])
    }

    fn name(&mut self) -> Name {
        let ip = self.one(&[
            A,
            B,
            B,
            B,
            A6,
            B6,
            "0.0.0.0",
            "::",
            "::ffff:10.0.0.2",
            "127.0.0.1",
            "224.0.0.1",
            "192.0.2.9",
        ]);
        let port = self.one(&[0, 80, 80, 80, 81, 53]);
        let inet = Name::Inet(at(ip, port));
        self.one(&[
            inet,
            inet,
            inet,
            inet,
            inet,
            inet,
            Name::UNSPEC,
            Name::Other(1, 28),
            Name::Short(2, 15),
            Name::Bad,
        ])
    }

    fn flags(&mut self) -> i32 {
        let more = self.one(&[
            0,
            0,
            0,
            MSG_PEEK,
            MSG_WAITALL,
            MSG_TRUNC,
            MSG_OOB,
            MSG_EOR,
            MSG_MORE,
            MSG_FASTOPEN,
            MSG_ERRQUEUE,
            MSG_ZEROCOPY,
        ]);
        let dont_wait = self.one(&[0, MSG_DONTWAIT]);
        more | dont_wait | self.one(&[0, 0, 0, MSG_PEEK, MSG_NOSIGNAL])
    }

    fn len(&mut self) -> usize {
        self.one(&[0, 1, 10, 1_000, 5_000, 100_000])
    }

    /// An option of SCTP: a structure of any kind, with an address or noise, long enough or not.
    fn sctp_option(&mut self, fd: Fd) -> Call {
        let (level, name) = (SOL_SCTP, self.below(134) as i32);
        let of = &LAYOUTS[self.below(LAYOUTS.len())];
        let mut bytes = vec![0; of.size];
        for (field, ..) in of.fields {
            let small = self.below(2) == 0;
            let number = if small { self.below(4) as u64 } else { self.int() as u64 };
            of.put(&mut bytes, field, number);
        }
        let (host, port) = (self.one(&[A, B, "0.0.0.0"]), self.one(&[0, 80]));
        for (field, _, size) in of.fields {
            if *size == SOCKADDR_STORAGE && self.below(3) > 0 {
                of.put_address(&mut bytes, field, at(host, port));
            }
        }
        if self.below(5) == 0 {
            bytes = sockaddr_bytes(at(host, port));
        }
        bytes.resize(self.one(&[bytes.len(), bytes.len(), bytes.len(), 4, 8, 152, 0]), 0);
        match self.below(3) {
            0 => Call::GetsockoptIn { fd, level, name, value: bytes.into() },
            _ => Call::Setsockopt { fd, level, name, value: Optval::Bytes(bytes.into()) },
        }
    }

    /// What an SCTP message is sent with.
    fn sctp_control(&mut self) -> Vec<Control> {
        let (ty, name) = self.one(&[
            (SCTP_SNDRCV, "sctp_sndrcvinfo"),
            (SCTP_SNDINFO, "sctp_sndinfo"),
            (SCTP_PRINFO, "sctp_prinfo"),
            (SCTP_INIT, "sctp_initmsg"),
            // An address without a port is as long.
            (SCTP_DSTADDRV4, "sctp_setadaptation"),
        ]);
        let of = layout(name).expect("a structure");
        let mut bytes = vec![0; of.size];
        for (field, ..) in of.fields {
            let any = self.0.next_u64();
            let number = self.one(&[0, 0, 1, 3, 4, 0x200, any]);
            of.put(&mut bytes, field, number);
        }
        bytes.truncate(self.one(&[bytes.len(), bytes.len(), bytes.len(), 4]));
        vec![Control { level: IPPROTO_SCTP, ty, data: bytes.into() }]
    }

    /// An option by which the error queue fills.
    fn errqueue_option(&mut self, fd: Fd) -> Call {
        let flags = self.one(&[0x392, 0x392, 0xb92, 0x1b92, 0x1_0392, 0x18, 0, 0x10]);
        let on = self.one(&[1, 1, 1, 0]);
        let (level, name, int) = self.one(&[
            (SOL_SOCKET, SO_ZEROCOPY, on),
            (SOL_SOCKET, SO_TIMESTAMPING, flags),
            (SOL_SOCKET, SO_TIMESTAMPING_NEW, flags),
            (SOL_SOCKET, SO_TIMESTAMPNS, on),
            (SOL_IP, IP_RECVERR, on),
            (SOL_IPV6, IPV6_RECVERR, on),
        ]);
        Call::Setsockopt { fd, level, name, value: Optval::int(int) }
    }

    fn sockopt(&mut self, fd: Fd) -> Call {
        if self.below(4) == 0 {
            return self.errqueue_option(fd);
        }
        if self.below(4) == 0 {
            return self.sctp_option(fd);
        }
        let (level, top) =
            self.one(&[(SOL_SOCKET, 83), (SOL_IP, 53), (SOL_TCP, 47), (SOL_IPV6, 80), (77, 3)]);
        let name = self.below(top) as i32;
        let int = self.int();
        let bytes =
            [int.to_ne_bytes(), self.int().to_ne_bytes(), int.to_ne_bytes(), self.int().to_ne_bytes()]
                .concat();
        let len = self.one(&[0, 1, 3, 4, 4, 4, 4, 8, 16]);
        let value = Optval::Bytes(Bytes::copy_from_slice(&bytes[..len]));
        match self.below(8) {
            0 | 1 => Call::Getsockopt { fd, level, name, len: self.one(&[-1, 0, 1, 4, 8, 16, 300]) },
            2 => Call::Setsockopt { fd, level, name, value: Optval::Bad(self.one(&[-1, 0, 4])) },
            _ => Call::Setsockopt { fd, level, name, value },
        }
    }

    fn transfer(&mut self, fd: Fd) -> Call {
        let flags = self.flags();
        let lens = [self.len(), self.len()];
        let count = self.below(3);
        if self.below(2) == 0 {
            let kind = self.one(&[
                RecvKind::Read,
                RecvKind::Readv,
                RecvKind::Recv,
                RecvKind::Recvfrom,
                RecvKind::Recvmsg,
            ]);
            let bad = self.below(20) == 0;
            let rooms = lens[..count].iter().map(|&len| Room { len, bad }).collect();
            return Call::Recv { fd, kind, rooms, flags, control_len: self.one(&[0, 10, 18, 100]) };
        }
        let kind = self.one(&[
            SendKind::Write,
            SendKind::Writev,
            SendKind::Send,
            SendKind::Sendto,
            SendKind::Sendmsg,
        ]);
        let bad = self.below(20) == 0;
        let data =
            lens[..count].iter().map(|&len| if bad { Piece::Bad(len) } else { Piece::zeros(len) }).collect();
        let to = if self.below(3) == 0 { Some(self.name()) } else { None };
        let control = if self.below(5) == 0 {
            self.sctp_control()
        } else if self.below(5) == 0 {
            vec![Control::int(self.one(&[0, 1, 6]), self.int(), 1)]
        } else {
            Vec::new()
        };
        Call::Send { fd, kind, data, flags, to, control }
    }

    fn call(&mut self) -> Call {
        let fd = self.fd();
        match self.below(20) {
            0 | 1 => Call::Socket {
                domain: self.one(&[AF_INET, AF_INET, AF_INET, AF_INET6, AF_INET6, 99]),
                ty: self.one(&[
                    SOCK_STREAM,
                    SOCK_STREAM,
                    SOCK_STREAM,
                    SOCK_STREAM,
                    SOCK_DGRAM,
                    SOCK_SEQPACKET,
                    3,
                ]) | self.one(&[0, SOCK_NONBLOCK]),
                protocol: self.one(&[
                    0,
                    0,
                    0,
                    0,
                    IPPROTO_TCP,
                    IPPROTO_UDP,
                    IPPROTO_SCTP,
                    IPPROTO_SCTP,
                    IPPROTO_SCTP,
                    -1,
                ]),
            },
            2 => Call::Bind { fd, addr: self.name() },
            3 => Call::Listen { fd, backlog: self.int() },
            4 => Call::Accept { fd, flags: self.one(&[0, 0, SOCK_NONBLOCK, 1]) },
            5 | 6 => Call::Connect { fd, addr: self.name() },
            7..=11 => self.transfer(fd),
            12 => Call::Shutdown { fd, how: self.one(&[0, 1, 2, 3]) },
            13 => Call::Close { fd },
            14 => match self.below(4) {
                0 => Call::Fcntl {
                    fd,
                    cmd: self.one(&[F_GETFL, F_SETFL, F_GETFD, 99]),
                    arg: self.int().into(),
                },
                1 => Call::Ioctl {
                    fd,
                    request: self.one(&[0x541b, 0x5411, 0x894b, 0x8905, 0x5421, 1]),
                    arg: Some(1),
                },
                2 => Call::Getsockname { fd },
                _ => Call::Getpeername { fd },
            },
            15 | 16 => self.sockopt(fd),
            17 => {
                let fds =
                    (0..self.below(5)).map(|_| PollFd { fd: self.fd(), events: self.int() as i16 }).collect();
                Call::Poll { fds, timeout_ms: self.one(&[0, 1, 500, -1]) }
            }
            18 => match self.below(3) {
                0 => Call::EpollCreate { size: 1, flags: 0 },
                1 => {
                    let events = self.one(&[EPOLLIN, EPOLLOUT | EPOLLET, EPOLLIN | EPOLLONESHOT, u32::MAX]);
                    let event = Some(EpollEvent { events, data: 7 });
                    Call::EpollCtl { epfd: self.fd(), op: self.one(&[1, 1, 1, 2, 3, 4]), fd, event }
                }
                _ => Call::EpollWait {
                    epfd: fd,
                    max_events: self.int(),
                    timeout_ms: self.one(&[0, 1, 500, -1]),
                },
            },
            _ => match self.below(2) {
                0 => Call::Pipe { flags: self.one(&[0, O_NONBLOCK, 1]) },
                _ => {
                    let off = self.one(&[None, None, None, Some(0)]);
                    let (fd_out, len) = (self.fd(), self.len());
                    Call::Splice {
                        fd_in: fd,
                        off_in: off,
                        fd_out,
                        off_out: None,
                        len,
                        flags: self.one(&[0, 2, 4, 99]),
                    }
                }
            },
        }
    }
}

/// A socket of SCTP at B that listens, and one at A that has an association with it.
fn associated(net: &mut Net, ty: i32, port: u16) {
    let open = |ty| Call::Socket { domain: AF_INET, ty, protocol: IPPROTO_SCTP };
    let port = if ty == SOCK_STREAM { port } else { port + 1 };
    let addr = Name::Inet(at(B, port));
    let listening = ok(&mut net.b, open(SOCK_SEQPACKET)) as Fd;
    ok(&mut net.b, Call::Bind { fd: listening, addr });
    ok(&mut net.b, Call::Listen { fd: listening, backlog: 5 });
    let fd = ok(&mut net.a, open(ty)) as Fd;
    let started = net.a.call(Call::Connect { fd, addr });
    net.run(Duration::from_millis(100));
    if let Started::Blocked(id) = started {
        assert_eq!(net.a.take(id).map(|(_, reply)| reply.ret), Some(0), "an association");
    }
}

fn world(seed: u64) -> usize {
    let mut chance = Chance(Rng::new(seed), Vec::new());
    let mut net = Net::new();
    let mut blocked: [Vec<CallId>; 2] = [Vec::new(), Vec::new()];
    for host in [&mut net.a, &mut net.b] {
        host.set_sysctl("tcp_fastopen", "3").expect("client and server");
    }
    // Something that works is what can go wrong.
    let connections = chance.below(4);
    for _ in 0..connections {
        net.connected();
    }
    let listening = listener(&mut net.b, 80);
    ok(&mut net.b, setint(listening, SOL_TCP, TCP_FASTOPEN, 5));
    for ty in [SOCK_STREAM, SOCK_SEQPACKET] {
        associated(&mut net, ty, 80 + connections as u16);
    }
    for _ in 0..CALLS {
        let which = chance.below(2);
        let host: &mut Host = if which == 0 { &mut net.a } else { &mut net.b };
        chance.1 = host.open_fds().collect();
        let call = chance.call();
        if let Started::Blocked(id) = host.call(call) {
            blocked[which].push(id);
        }
        if chance.below(3) == 0 {
            net.run(Duration::from_millis(chance.one(&[1, 15, 100, 3_000])));
        }
    }
    // When all descriptors are closed and signals came, nobody waits.
    for (which, ids) in blocked.iter().enumerate() {
        let host = if which == 0 { &mut net.a } else { &mut net.b };
        let open: Vec<Fd> = host.open_fds().collect();
        for fd in open {
            if let Started::Blocked(id) = host.call(Call::Close { fd }) {
                host.interrupt(id);
            }
        }
        for id in ids {
            if host.is_blocked(*id) {
                host.interrupt(*id);
            }
            assert!(!host.is_blocked(*id), "seed {seed}: {id:?} still blocks");
            assert!(host.take(*id).is_some(), "seed {seed}: {id:?} has a reply");
        }
        assert_eq!(host.open_fds().count(), 0);
    }
    // What closes in the background is over at some time: somebody may have asked for 65,535 INITs.
    net.run(Duration::from_secs(40_000_000));
    for host in [&mut net.a, &mut net.b] {
        assert_eq!(host.stack().open_sockets(), 0, "seed {seed}");
        assert_eq!(host.next_deadline(), None, "seed {seed}: nothing is left to do");
    }
    blocked.iter().map(Vec::len).sum()
}

#[test]
fn no_call_panics_and_nothing_waits_for_ever() {
    let blocked: usize = (0..WORLDS).map(world).sum();
    assert!(blocked > 100, "the worlds are busy: {blocked} calls blocked");
}
