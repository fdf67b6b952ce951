//! Calls of every kind in every state of a TCP connection and of a datagram socket, drawn, with a peer's packets between them: the stack
//! answers and sends what the kernel does.
//!
//! A failure prints the shortest part of its sequence that still shows a difference. `SEQUENCES=FROM..TO` draws others, `STATE=NAME` in one
//! state alone.
#![cfg(target_os = "linux")]
mod pair;

use bytes::Bytes;
use lowwater_posix::abi::*;
use lowwater_posix::{Call, Control, EpollEvent, Fd, Name, Optval, Piece, PollFd, RecvKind, Room, SendKind};
use pair::{Act, Dice, LOCAL, NOBODY, Pair, REMOTE, Step, seeds};
use std::net::{IpAddr, SocketAddr};

/// How the sockets and the packets are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Family {
    V4,
    Mapped,
    V6,
}

const STATES: [&str; 47] = [
    "fresh",
    "bound",
    "listening",
    "pending",
    "request",
    "connecting",
    "crossed",
    "active",
    "child",
    "data_in",
    "data_out",
    "both",
    "urgent_in",
    "zero_window",
    "fin_wait_1",
    "fin_wait_2",
    "fin_wait_2_data",
    "close_wait",
    "close_wait_data",
    "last_ack",
    "closing",
    "time_wait",
    "over",
    "reset",
    "reset_data",
    "refused",
    "refused_told",
    "soft_error",
    "unreachable",
    "shut_read",
    "shut_both",
    "dissolved",
    "dissolved_data",
    "listener_shut",
    "listener_dissolved",
    "again",
    "fast_deferred",
    "udp_fresh",
    "udp_bound",
    "udp_connected",
    "udp_data",
    "udp_error",
    "udp_recverr",
    "udp_shut",
    "udp_dissolved",
    "udp_wild",
    "timed_out",
];

struct Drawn {
    dice: Dice,
    steps: Vec<Step>,
    family: Family,
    /// The socket in question, and what was made beside it: its listener, its child, an epoll set, a pipe.
    main: Fd,
    others: Vec<Fd>,
    epoll: Option<Fd>,
    pipe: Option<Fd>,
    stream: bool,
    /// The peer sends urgent data.
    urgent: bool,
}

impl Drawn {
    fn new(seed: u64, state: &str) -> Self {
        let mut dice = Dice::new(seed);
        let family = dice.one(&[Family::V4, Family::V4, Family::Mapped, Family::V6]);
        let stream = !state.starts_with("udp");
        let urgent = dice.odd(4);
        Self {
            urgent,
            dice,
            steps: Vec::new(),
            family,
            main: NOBODY,
            others: Vec::new(),
            epoll: None,
            pipe: None,
            stream,
        }
    }

    fn push(&mut self, call: Call) -> Fd {
        self.steps.push(Step::Call(call));
        self.steps.len() as Fd - 1
    }

    fn act(&mut self, act: Act) {
        self.steps.push(Step::Peer(1, self.family == Family::V6, act));
    }

    fn addr(&self, of: [&str; 2], port: u16) -> Name {
        let ip: IpAddr = of[usize::from(self.family == Family::V6)].parse().unwrap();
        let ip = match (self.family, ip) {
            (Family::Mapped, IpAddr::V4(ip)) => ip.to_ipv6_mapped().into(),
            (_, ip) => ip,
        };
        Name::Inet(SocketAddr::new(ip, port))
    }

    fn socket(&mut self) -> Fd {
        let domain = if self.family == Family::V4 { AF_INET } else { AF_INET6 };
        let ty = if self.stream { SOCK_STREAM } else { SOCK_DGRAM };
        self.push(Call::Socket { domain, ty: ty | SOCK_NONBLOCK, protocol: 0 })
    }

    fn bind(&mut self, fd: Fd) {
        let addr = self.addr(LOCAL, 1);
        self.push(Call::Bind { fd, addr });
    }

    fn connect(&mut self, fd: Fd) {
        let addr = self.addr(REMOTE, 1);
        self.push(Call::Connect { fd, addr });
    }

    fn set(&mut self, fd: Fd, level: i32, name: i32, value: i32) {
        self.push(Call::Setsockopt { fd, level, name, value: Optval::int(value) });
    }

    /// An epoll set that watches for edges, sometimes.
    fn watch(&mut self, fd: Fd) {
        if self.dice.odd(2) {
            let epfd = self.push(Call::EpollCreate { size: 1, flags: 0 });
            let events = self.dice.one(&[
                0x7fff | EPOLLET,
                EPOLLIN | EPOLLOUT | EPOLLET,
                EPOLLIN | EPOLLRDHUP | EPOLLOUT,
            ]);
            let event = Some(EpollEvent { events, data: 7 });
            self.push(Call::EpollCtl { epfd, op: EPOLL_CTL_ADD, fd, event });
            self.epoll = Some(epfd);
        }
    }

    fn write(&mut self, fd: Fd, len: usize) {
        self.push(Call::Send {
            fd,
            kind: SendKind::Write,
            data: vec![Piece::zeros(len)],
            flags: 0,
            to: None,
            control: vec![],
        });
    }

    fn shutdown(&mut self, fd: Fd, how: i32) {
        self.push(Call::Shutdown { fd, how });
    }

    fn listener(&mut self) -> Fd {
        let fd = self.socket();
        self.bind(fd);
        if self.dice.odd(6) {
            let option = self.dice.one(&[
                (SOL_TCP, TCP_DEFER_ACCEPT),
                (SOL_TCP, TCP_FASTOPEN),
                (SOL_TCP, TCP_SAVE_SYN),
                (SOL_SOCKET, SO_KEEPALIVE),
            ]);
            self.set(fd, option.0, option.1, 1);
        }
        self.push(Call::Listen { fd, backlog: 5 });
        fd
    }

    fn option_before(&mut self, fd: Fd) {
        if self.dice.odd(3) {
            let (level, name, value) = self.dice.one(&[
                (SOL_SOCKET, SO_OOBINLINE, 1),
                (SOL_TCP, TCP_NODELAY, 1),
                (SOL_TCP, TCP_CORK, 1),
                (SOL_IP, IP_RECVERR, 1),
                (SOL_IPV6, IPV6_RECVERR, 1),
                (SOL_SOCKET, SO_RCVLOWAT, 200),
                (SOL_SOCKET, SO_SNDBUF, 5_000),
                (SOL_SOCKET, SO_RCVBUF, 3_000),
                (SOL_TCP, TCP_INQ, 1),
                (SOL_TCP, TCP_LINGER2, -1),
                (SOL_SOCKET, SO_PEEK_OFF, 0),
                (SOL_SOCKET, SO_ZEROCOPY, 1),
                (SOL_SOCKET, SO_KEEPALIVE, 1),
                (SOL_TCP, TCP_QUICKACK, 0),
            ]);
            if self.stream || !NOT_OF_DATAGRAMS.contains(&(level, name)) {
                self.set(fd, level, name, value);
            }
        }
    }

    /// An established connection, passive or active.
    fn established(&mut self) {
        if self.dice.odd(2) {
            let listener = self.listener();
            self.act(Act::Syn(1));
            self.act(Act::Ack(60_000));
            self.main = self.push(Call::Accept { fd: listener, flags: SOCK_NONBLOCK });
            self.others.push(listener);
        } else {
            self.main = self.socket();
            if self.dice.odd(3) {
                self.bind(self.main);
            }
            self.connect(self.main);
            self.act(Act::SynAck);
        }
        self.option_before(self.main);
        self.watch(self.main);
    }

    fn begun(&mut self) {
        self.main = self.socket();
        if self.dice.odd(3) {
            self.bind(self.main);
        }
        self.option_before(self.main);
        self.watch(self.main);
    }

    fn state(&mut self, state: &str) {
        match state {
            "fresh" | "udp_fresh" => self.begun(),
            "bound" | "udp_bound" | "udp_wild" => {
                self.main = self.socket();
                if state == "udp_wild" {
                    let any = if self.family == Family::V4 { "0.0.0.0" } else { "::" };
                    self.push(Call::Bind {
                        fd: self.main,
                        addr: Name::Inet((any.parse::<IpAddr>().unwrap(), 1).into()),
                    });
                } else {
                    self.bind(self.main);
                }
                self.option_before(self.main);
                self.watch(self.main);
            }
            "listening" | "pending" | "request" => {
                self.main = self.listener();
                self.watch(self.main);
                if state != "listening" {
                    self.act(Act::Syn(1));
                }
                if state == "pending" {
                    self.act(Act::Ack(60_000));
                }
            }
            "listener_shut" | "listener_dissolved" => {
                self.main = self.listener();
                self.watch(self.main);
                if state == "listener_shut" {
                    let how = self.dice.one(&[0, 2]);
                    self.shutdown(self.main, how);
                } else {
                    self.push(Call::Connect { fd: self.main, addr: Name::UNSPEC });
                }
            }
            "connecting" | "crossed" | "refused" | "refused_told" | "soft_error" | "unreachable" => {
                self.opening(state);
            }
            "fast_deferred" => {
                self.main = self.socket();
                self.set(self.main, SOL_TCP, TCP_FASTOPEN_CONNECT, 1);
                self.watch(self.main);
                self.connect(self.main);
            }
            _ if state.starts_with("udp") => self.datagrams(state),
            _ => {
                self.established();
                self.living(state);
            }
        }
    }

    fn opening(&mut self, state: &str) {
        self.begun();
        self.connect(self.main);
        match state {
            "crossed" => self.act(Act::Crossed),
            "refused" => self.act(Act::Rst),
            "refused_told" => {
                self.act(Act::Rst);
                match self.dice.below(3) {
                    0 => drop(self.push(Call::Getsockopt {
                        fd: self.main,
                        level: SOL_SOCKET,
                        name: SO_ERROR,
                        len: 4,
                    })),
                    1 => self.connect(self.main),
                    _ => self.write(self.main, 10),
                }
            }
            "soft_error" => self.icmp(),
            "unreachable" => {
                let (kind, code) = if self.family == Family::V6 { (1, 4) } else { (3, 3) };
                self.act(Act::Icmp(kind, code));
            }
            _ => {}
        }
    }

    fn icmp(&mut self) {
        let v4 =
            [(3, 0), (3, 1), (3, 2), (3, 3), (3, 5), (3, 10), (3, 13), (11, 0), (11, 1), (12, 0), (4, 0)];
        let v6 = [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (3, 0), (4, 0), (4, 1)];
        let (kind, code) = if self.family == Family::V6 { self.dice.one(&v6) } else { self.dice.one(&v4) };
        self.act(Act::Icmp(kind, code));
    }

    fn living(&mut self, state: &str) {
        let fd = self.main;
        match state {
            "data_in" => self.act(Act::Data(500)),
            "data_out" => self.write(fd, 3_000),
            "both" => {
                self.act(Act::Data(500));
                self.write(fd, 3_000);
            }
            "urgent_in" => {
                self.urgent = true;
                let n = self.dice.one(&[1, 1, 300]);
                if self.dice.odd(2) {
                    self.act(Act::Data(100));
                }
                self.act(Act::Urgent(n));
                if self.dice.odd(2) {
                    self.act(Act::Data(100));
                }
            }
            "zero_window" => {
                self.act(Act::Ack(0));
                self.write(fd, 2_000);
            }
            "reset" => self.act(Act::Rst),
            "reset_data" => {
                self.act(Act::Data(300));
                if self.dice.odd(2) {
                    self.write(fd, 3_000);
                }
                self.act(Act::Rst);
            }
            "shut_read" => {
                if self.dice.odd(2) {
                    self.act(Act::Data(300));
                }
                self.shutdown(fd, 0);
            }
            "shut_both" => {
                if self.dice.odd(2) {
                    self.act(Act::Data(300));
                }
                self.shutdown(fd, 2);
            }
            _ => self.ending(state),
        }
    }

    /// The states of an end, and what comes after.
    fn ending(&mut self, state: &str) {
        let fd = self.main;
        match state {
            "fin_wait_1" | "closing" => {
                if self.dice.odd(2) {
                    self.write(fd, 1_500);
                }
                self.shutdown(fd, 1);
                if state == "closing" {
                    self.act(Act::FinAlone);
                }
            }
            "fin_wait_2" | "time_wait" | "fin_wait_2_data" => {
                self.shutdown(fd, 1);
                self.act(Act::Ack(60_000));
                match state {
                    "time_wait" => {
                        let n = self.dice.one(&[0, 0, 100]);
                        self.act(Act::Fin(n));
                    }
                    "fin_wait_2_data" => self.act(Act::Data(300)),
                    _ => {}
                }
            }
            "close_wait" => self.act(Act::Fin(0)),
            "close_wait_data" => self.act(Act::Fin(300)),
            "last_ack" | "over" => {
                let n = self.dice.one(&[0, 0, 100]);
                self.act(Act::Fin(n));
                self.shutdown(fd, 1);
                if state == "over" {
                    self.act(Act::Ack(60_000));
                }
            }
            "dissolved" | "dissolved_data" | "again" => {
                if state == "dissolved_data" {
                    self.act(Act::Data(300));
                    self.write(fd, 3_000);
                }
                self.push(Call::Connect { fd, addr: Name::UNSPEC });
                if state == "again" {
                    let addr = self.addr(REMOTE, 2);
                    self.push(Call::Connect { fd, addr });
                    if self.dice.odd(2) {
                        self.steps.push(Step::Peer(2, self.family == Family::V6, Act::SynAck));
                    }
                }
            }
            "timed_out" => {
                let fin = self.dice.odd(3);
                self.set(fd, SOL_TCP, TCP_USER_TIMEOUT, 10);
                self.write(fd, 100);
                if fin {
                    self.shutdown(fd, 1);
                }
                self.steps.push(Step::Wait(450));
            }
            _ => {}
        }
    }

    fn datagrams(&mut self, state: &str) {
        self.begun();
        let fd = self.main;
        self.connect(fd);
        match state {
            "udp_data" => {
                self.write(fd, 10);
                for len in [100, 0, 300] {
                    self.act(Act::Datagram(None, len));
                }
            }
            "udp_error" | "udp_recverr" => {
                if state == "udp_recverr" {
                    let (level, name) = if self.family == Family::V6 {
                        (SOL_IPV6, IPV6_RECVERR)
                    } else {
                        (SOL_IP, IP_RECVERR)
                    };
                    self.set(fd, level, name, 1);
                }
                self.write(fd, 10);
                self.icmp();
                if self.dice.odd(2) {
                    self.act(Act::Datagram(None, 30));
                }
            }
            "udp_shut" => {
                let how = self.dice.one(&[0, 1, 2]);
                self.shutdown(fd, how);
            }
            "udp_dissolved" => {
                if self.dice.odd(2) {
                    self.write(fd, 10);
                    self.act(Act::Datagram(None, 30));
                }
                self.push(Call::Connect { fd, addr: Name::UNSPEC });
            }
            _ => {}
        }
    }
}

const RECV_FLAGS: [i32; 11] = [
    0,
    MSG_PEEK,
    MSG_TRUNC,
    MSG_WAITALL,
    MSG_OOB,
    MSG_DONTWAIT,
    MSG_ERRQUEUE,
    MSG_CMSG_CLOEXEC,
    MSG_PEEK | MSG_TRUNC,
    MSG_OOB | MSG_PEEK,
    MSG_WAITFORONE,
];
const SEND_FLAGS: [i32; 12] = [
    0,
    MSG_MORE,
    MSG_EOR,
    MSG_OOB,
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    MSG_FASTOPEN,
    MSG_ZEROCOPY,
    MSG_CONFIRM,
    MSG_DONTROUTE,
    MSG_ERRQUEUE,
    MSG_FIN,
];
/// Options that differ on purpose: level, name (`options_matrix`, linux-differences.md).
const LEFT_OUT: &[(i32, i32)] = &[
    (SOL_SOCKET, SO_ATTACH_BPF),
    (SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF),
    (SOL_SOCKET, SO_BINDTOIFINDEX),
    (SOL_IP, IP_OPTIONS),
    (SOL_IP, IP_LOCAL_PORT_RANGE),
    (SOL_TCP, TCP_MD5SIG),
    (SOL_TCP, TCP_MD5SIG_EXT),
    (SOL_TCP, TCP_REPAIR),
    (SOL_TCP, TCP_TX_DELAY),
    (SOL_IP, IP_MULTICAST_IF),
    (SOL_IP, IP_MULTICAST_TTL),
    (SOL_SOCKET, SO_BINDTODEVICE),
    (SOL_IPV6, IPV6_ADDRFORM),
    (SOL_SOCKET, SO_ATTACH_FILTER),
    (SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF),
    (SOL_IP, IP_PASSSEC),
    (SOL_IP, IP_MULTICAST_ALL),
    (SOL_IPV6, IPV6_MULTICAST_IF),
    (SOL_IPV6, IPV6_MULTICAST_HOPS),
    (SOL_TCP, TCP_REPAIR_OPTIONS),
    (SOL_TCP, TCP_REPAIR_WINDOW),
    (SOL_TCP, TCP_REPAIR_QUEUE),
    (SOL_TCP, TCP_AO_ADD_KEY),
    (SOL_TCP, TCP_AO_DEL_KEY),
    (SOL_TCP, TCP_AO_INFO),
    (SOL_TCP, TCP_AO_GET_KEYS),
    (SOL_TCP, TCP_NOTSENT_LOWAT),
    (SOL_TCP, TCP_AO_REPAIR),
    (SOL_SOCKET, SO_RESERVE_MEM),
    (SOL_SOCKET, SO_PEERPIDFD),
    (SOL_TCP, TCP_ZEROCOPY_RECEIVE),
    (SOL_TCP, TCP_RTO_MAX_MS),
    (SOL_TCP, TCP_RTO_MIN_US),
    (SOL_TCP, TCP_DELACK_MAX_US),
    (SOL_IP, IP_PROTOCOL),
    (SOL_IPV6, IPV6_HOPOPTS),
    (SOL_IPV6, IPV6_RTHDRDSTOPTS),
    (SOL_IPV6, IPV6_RTHDR),
    (SOL_IPV6, IPV6_DSTOPTS),
    (SOL_IPV6, IPV6_2292PKTOPTIONS),
];
/// Options of datagrams that are remembered only: no control message tells of one.
const NOT_OF_DATAGRAMS: &[(i32, i32)] = &[
    (SOL_SOCKET, SO_PEEK_OFF),
    (SOL_IPV6, IPV6_MTU),
    (SOL_SOCKET, SO_ZEROCOPY),
    (SOL_SOCKET, SO_TIMESTAMP),
    (SOL_SOCKET, SO_TIMESTAMPNS),
    (SOL_SOCKET, SO_TIMESTAMPING),
    (SOL_SOCKET, SO_TIMESTAMP_NEW),
    (SOL_SOCKET, SO_TIMESTAMPNS_NEW),
    (SOL_SOCKET, SO_TIMESTAMPING_NEW),
    (SOL_SOCKET, SO_RXQ_OVFL),
    (SOL_SOCKET, SO_RCVMARK),
    (SOL_SOCKET, SO_RCVPRIORITY),
    (SOL_SOCKET, SO_WIFI_STATUS),
    (SOL_IP, IP_PKTINFO),
    (SOL_IP, IP_RECVTTL),
    (SOL_IP, IP_RECVTOS),
    (SOL_IP, IP_RECVOPTS),
    (SOL_IP, IP_RETOPTS),
    (SOL_IP, IP_RECVORIGDSTADDR),
    (SOL_IP, IP_CHECKSUM),
    (SOL_IP, IP_RECVFRAGSIZE),
    (SOL_IPV6, IPV6_RECVPKTINFO),
    (SOL_IPV6, IPV6_RECVHOPLIMIT),
    (SOL_IPV6, IPV6_RECVTCLASS),
    (SOL_IPV6, IPV6_FLOWINFO),
    (SOL_IPV6, IPV6_2292PKTINFO),
    (SOL_IPV6, IPV6_2292HOPLIMIT),
    (SOL_IPV6, IPV6_RECVORIGDSTADDR),
    (SOL_IPV6, IPV6_RECVFRAGSIZE),
    (SOL_IPV6, IPV6_JOIN_ANYCAST),
    (SOL_IPV6, IPV6_LEAVE_ANYCAST),
    (SOL_IPV6, IPV6_ADD_MEMBERSHIP),
    (SOL_IPV6, IPV6_DROP_MEMBERSHIP),
    (SOL_IPV6, MCAST_JOIN_GROUP),
    (SOL_IPV6, MCAST_LEAVE_GROUP),
    (SOL_IPV6, MCAST_BLOCK_SOURCE),
    (SOL_IPV6, MCAST_UNBLOCK_SOURCE),
    (SOL_IPV6, MCAST_JOIN_SOURCE_GROUP),
    (SOL_IPV6, MCAST_LEAVE_SOURCE_GROUP),
    (SOL_IPV6, MCAST_MSFILTER),
];
const IP_PASSSEC: i32 = 18;
const IP_MULTICAST_ALL: i32 = 49;

impl Drawn {
    fn options(&self) -> Vec<(i32, i32)> {
        let level = |name: &str| match name {
            _ if name.starts_with("SO_EE") || name.starts_with("SOF_") => None,
            _ if name.starts_with("SO_") => Some(SOL_SOCKET),
            _ if name.starts_with("IP_PMTUDISC") => None,
            _ if name.starts_with("IP_") => Some(SOL_IP),
            _ if name.starts_with("IPV6_") || name.starts_with("MCAST_") => Some(SOL_IPV6),
            _ if name.starts_with("TCP_CA_") => None,
            _ if name.starts_with("TCP_") => Some(SOL_TCP),
            _ => None,
        };
        let mut all: Vec<(i32, i32)> = NAMES
            .iter()
            .filter(|(name, _)| !NO_OPTIONS.contains(name))
            .filter_map(|(name, value)| Some((level(name)?, *value as i32)))
            .filter(|option| {
                !LEFT_OUT.contains(option) && (self.stream || !NOT_OF_DATAGRAMS.contains(option))
            })
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn options_drawn(&mut self) -> (i32, i32) {
        let all = self.options();
        self.dice.one(&all)
    }

    fn flags(&mut self, of: &[i32]) -> i32 {
        let one = self.dice.one(of);
        if self.dice.odd(3) { one | self.dice.one(of) } else { one }
    }

    fn recv(&mut self, fd: Fd) {
        let kind = self.dice.one(&[
            RecvKind::Read,
            RecvKind::Readv,
            RecvKind::Recv,
            RecvKind::Recvfrom,
            RecvKind::Recvmsg,
            RecvKind::Recvmsg,
        ]);
        let len = self.dice.one(&[0, 1, 10, 100, 300, 1_000, 100_000]);
        let mut rooms = vec![Room::new(len)];
        if matches!(kind, RecvKind::Readv | RecvKind::Recvmsg) && self.dice.odd(2) {
            rooms.push(Room::new(self.dice.one(&[0, 5, 2_000])));
        }
        // At the urgent byte that is another matter.
        if self.dice.odd(12) && !self.urgent {
            rooms = vec![Room::bad(len)];
        }
        let flags =
            if matches!(kind, RecvKind::Read | RecvKind::Readv) { 0 } else { self.flags(&RECV_FLAGS) };
        let control_len = if kind == RecvKind::Recvmsg { self.dice.one(&[0, 0, 10, 20, 40, 200]) } else { 0 };
        self.push(Call::Recv { fd, kind, rooms, flags, control_len });
    }

    fn send(&mut self, fd: Fd) {
        let kind = self.dice.one(&[
            SendKind::Write,
            SendKind::Writev,
            SendKind::Send,
            SendKind::Sendto,
            SendKind::Sendmsg,
        ]);
        let len = self.dice.one(&[0, 1, 100, 1_000, 1_460, 5_000]);
        let mut data = vec![Piece::zeros(len)];
        if matches!(kind, SendKind::Writev | SendKind::Sendmsg) && self.dice.odd(2) {
            data.push(Piece::zeros(self.dice.one(&[0, 5, 2_000])));
        }
        if self.dice.odd(12) {
            data = vec![Piece::Bad(len)];
        }
        let plain = matches!(kind, SendKind::Write | SendKind::Writev);
        let mut flags = if plain { 0 } else { self.flags(&SEND_FLAGS) };
        // Each write is a datagram here.
        if !self.stream {
            flags &= !MSG_MORE;
        }
        let to = match kind {
            SendKind::Sendto | SendKind::Sendmsg if self.dice.odd(2) => Some(self.to()),
            _ => None,
        };
        let mut control = vec![];
        if self.stream && kind == SendKind::Sendmsg && self.dice.odd(4) {
            control.push(self.dice.one(&[
                Control::int(SOL_SOCKET, SO_MARK, 0),
                Control::int(SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_TX_SOFTWARE),
                Control::int(SOL_SOCKET, SO_TIMESTAMPING, -1),
                Control::int(SOL_SOCKET, 99, 0),
                Control::int(SOL_SOCKET, SCM_RIGHTS, 0),
                Control::int(SOL_TCP, 99, 0),
                Control { level: SOL_SOCKET, ty: SO_TXTIME, data: Bytes::from(vec![0; 8]) },
                Control { level: SOL_SOCKET, ty: SO_MARK, data: Bytes::from(vec![0; 2]) },
            ]));
        }
        self.push(Call::Send { fd, kind, data, flags, to, control });
    }

    fn to(&mut self) -> Name {
        match self.dice.below(10) {
            0 => Name::UNSPEC,
            1 => Name::Bad,
            2 => self.dice.one(&[Name::Short(2, 15), Name::Other(1, 28), Name::Other(99, 28)]),
            3 => self.addr(REMOTE, 2),
            4 => self.addr(LOCAL, 2),
            5 => Name::Inet("10.0.0.2:1".parse().unwrap()),
            6 => Name::Inet("[fd00::2]:1".parse().unwrap()),
            _ => self.addr(REMOTE, 1),
        }
    }

    fn option(&mut self, fd: Fd) {
        let (level, name) = self.options_drawn();
        if self.dice.odd(2) {
            let len = self.dice.one(&[0, 1, 2, 3, 4, 4, 4, 4, 5, 8, 8, 16, 64, 300]);
            self.push(Call::Getsockopt { fd, level, name, len });
            return;
        }
        let value = match self.dice.below(12) {
            0 => Optval::Bad(self.dice.one(&[-1, 0, 3, 4, 8])),
            1 => Optval::Bytes(Bytes::from(vec![1; self.dice.one(&[0, 1, 2, 3])])),
            2 => Optval::Bytes(Bytes::from(vec![0; self.dice.one(&[5, 8, 16, 32])])),
            3 => Optval::text(self.dice.one(&["reno", "cubic", "nobody", ""])),
            4 => {
                let on = self.dice.one(&[0, 1, -1]);
                let n = self.dice.one(&[0, 1, 5]);
                Optval::Bytes(Bytes::from([i32::to_ne_bytes(on), i32::to_ne_bytes(n)].concat()))
            }
            _ => Optval::int(self.dice.one(&[
                -1,
                0,
                1,
                1,
                2,
                3,
                88,
                100,
                255,
                256,
                1_000,
                32_767,
                32_768,
                65_535,
                100_000,
                i32::MAX,
                i32::MIN,
            ])),
        };
        // Blocking sockets are another matter, and who closes lingers.
        let lingers = (level, name) == (SOL_SOCKET, SO_LINGER);
        self.push(Call::Setsockopt { fd, level, name, value });
        if !lingers && self.dice.odd(2) {
            self.push(Call::Getsockopt { fd, level, name, len: 4 });
        }
    }

    fn epolls(&mut self, fd: Fd) {
        let Some(epfd) = self.epoll else { return self.watch(fd) };
        let op = self.dice.one(&[EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_MOD, EPOLL_CTL_DEL]);
        let events = self.dice.one(&[
            EPOLLIN,
            EPOLLOUT,
            EPOLLIN | EPOLLOUT | EPOLLET,
            EPOLLRDHUP | EPOLLET,
            0,
            EPOLLPRI | EPOLLONESHOT,
            0x7fff | EPOLLET,
            EPOLLIN | EPOLLEXCLUSIVE,
        ]);
        let event = Some(EpollEvent { events, data: 7 });
        self.push(Call::EpollCtl { epfd, op, fd, event });
    }

    fn splices(&mut self, fd: Fd) {
        let pipe = match self.pipe {
            Some(pipe) => pipe,
            None => {
                let pipe = self.push(Call::Pipe { flags: O_NONBLOCK });
                self.pipe = Some(pipe);
                pipe
            }
        };
        let more = if self.stream && self.dice.odd(3) { SPLICE_F_MORE as u32 } else { 0 };
        let flags = SPLICE_F_NONBLOCK as u32 | more;
        let len = self.dice.one(&[1, 100, 5_000]);
        if self.dice.odd(2) {
            self.push(Call::Splice {
                fd_in: fd,
                off_in: None,
                fd_out: pipe + 1_000,
                off_out: None,
                len,
                flags,
            });
        } else {
            self.write(pipe + 1_000, 200);
            self.push(Call::Splice { fd_in: pipe, off_in: None, fd_out: fd, off_out: None, len, flags });
        }
    }

    fn call(&mut self) {
        let mut all = vec![self.main; 6];
        all.extend(&self.others);
        let fd = self.dice.one(&all);
        match self.dice.below(30) {
            0..=4 => self.recv(fd),
            5..=8 => self.send(fd),
            9..=13 => self.option(fd),
            14 => {
                let how = self.dice.one(&[0, 1, 2, 2, 3, -1]);
                self.shutdown(fd, how);
            }
            15 => {
                let request = self.dice.one(&[SIOCINQ, SIOCATMARK]) as u64;
                let arg = self.dice.one(&[Some(0), Some(0), None]);
                self.push(Call::Ioctl { fd, request, arg });
            }
            16 => {
                let events =
                    self.dice.one(&[0, 1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x100, 0x200, 0x2000, -1]);
                self.push(Call::Poll {
                    fds: vec![PollFd { fd, events }, PollFd { fd: -1, events }],
                    timeout_ms: 0,
                });
            }
            17 => self.epolls(fd),
            18 => {
                let flags = self.dice.one(&[SOCK_NONBLOCK, SOCK_NONBLOCK, SOCK_NONBLOCK | SOCK_CLOEXEC, 1]);
                let new = self.push(Call::Accept { fd, flags });
                self.others.push(new);
            }
            19 => {
                let backlog = self.dice.one(&[0, 1, 5, -1]);
                self.push(Call::Listen { fd, backlog });
            }
            20..=22 => {
                let mut addr = if self.dice.odd(3) { Name::UNSPEC } else { self.to() };
                // A socket that has had a peer of IPv6 is not fit for one of IPv4.
                let four = |addr: Name| addr.inet().is_some_and(|a| a.ip().to_canonical().is_ipv4());
                while self.family != Family::V4
                    && four(addr) != (self.family == Family::Mapped)
                    && addr.inet().is_some()
                {
                    addr = self.to();
                }
                self.push(Call::Connect { fd, addr });
            }
            23 => {
                let addr = match self.dice.below(4) {
                    0 => self.to(),
                    1 => self.addr(["0.0.0.0", "::"], 2),
                    _ => self.addr(LOCAL, self.steps.len() as u16 % 3),
                };
                self.push(Call::Bind { fd, addr });
            }
            24 => {
                let (cmd, arg) = self.dice.one(&[
                    (F_GETFL, 0),
                    (F_SETFL, O_NONBLOCK | O_APPEND),
                    (F_GETFD, 0),
                    (F_SETFD, 1),
                    (F_SETFL, O_NONBLOCK | O_DIRECT),
                ]);
                self.push(Call::Fcntl { fd, cmd, arg: i64::from(arg) });
            }
            25 => self.splices(fd),
            26 if self.dice.odd(2) => drop(self.push(Call::Close { fd })),
            _ => drop(self.push(Call::Getsockopt { fd, level: SOL_SOCKET, name: SO_ERROR, len: 4 })),
        }
    }

    fn peer(&mut self) {
        if !self.stream {
            if self.dice.odd(3) {
                return self.icmp();
            }
            let to = self.dice.one(&[None, Some(1)]);
            let len = self.dice.one(&[0, 1, 100, 1_400]);
            let port = self.dice.one(&[1, 1, 1, 2]);
            let act = Act::Datagram(if port == 2 { Some(1) } else { to }, len);
            self.steps.push(Step::Peer(port, self.family == Family::V6, act));
            return;
        }
        let n = self.dice.one(&[1, 100, 100, 900]);
        let act = match self.dice.below(14) {
            0..=2 => Act::Data(n),
            3 | 4 => Act::Ack(self.dice.one(&[60_000, 60_000, 0, 500])),
            5 => Act::Fin(self.dice.one(&[0, 0, n])),
            6 => Act::Rst,
            7 if self.urgent => Act::Urgent(n),
            8 => Act::Old,
            9 => Act::SynAck,
            10 => Act::Beyond(100, n),
            11 => return self.icmp(),
            12 => Act::FinAlone,
            _ => Act::Syn(1),
        };
        self.act(act);
    }
}

/// Names that begin as those of TCP's options do: of states, and of a control message.
const NO_OPTIONS: [&str; 12] = [
    "TCP_ESTABLISHED",
    "TCP_SYN_SENT",
    "TCP_SYN_RECV",
    "TCP_FIN_WAIT1",
    "TCP_FIN_WAIT2",
    "TCP_TIME_WAIT",
    "TCP_CLOSE",
    "TCP_CLOSE_WAIT",
    "TCP_LAST_ACK",
    "TCP_LISTEN",
    "TCP_CLOSING",
    "TCP_CM_INQ",
];

fn draw(seed: u64, state: &str) -> Vec<Step> {
    let mut drawn = Drawn::new(seed, state);
    drawn.state(state);
    let calls = 3 + drawn.dice.below(4);
    for _ in 0..calls {
        if drawn.dice.odd(4) {
            drawn.peer();
        } else {
            drawn.call();
        }
    }
    drawn.steps
}

#[test]
fn calls_in_every_state_answer_as_the_kernels() {
    if !lowwater_os::netns::net_admin() {
        return;
    }
    let only = std::env::var("STATE").ok();
    let mut failed = Vec::new();
    let mut pair = Pair::new([true, true]);
    for seed in seeds(0..15) {
        for (at, state) in STATES.iter().enumerate() {
            if only.as_ref().is_some_and(|only| only != state) {
                continue;
            }
            let steps = draw(seed * 1_000 + at as u64, state);
            if let Some(found) = pair.find(&steps) {
                println!("seed {seed} {state}:\n{}\n", found.join("\n"));
                failed.push((seed, *state));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:?}: {} sequences differ", failed.len());
}
