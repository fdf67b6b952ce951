//! The states of a connection and of a datagram socket, and how a socket comes there.
use crate::pair::{Act, Dice, LOCAL, NOBODY, REMOTE, Step};
use lowwater_posix::abi::*;
use lowwater_posix::{Call, EpollEvent, Fd, Name, Optval, Piece, SendKind};
use std::net::{IpAddr, SocketAddr};

use crate::options::NOT_OF_DATAGRAMS;

/// How the sockets and the packets are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Family {
    V4,
    Mapped,
    V6,
}

pub(crate) const STATES: [&str; 47] = [
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

pub(crate) struct Drawn {
    pub(crate) dice: Dice,
    pub(crate) steps: Vec<Step>,
    pub(crate) family: Family,
    /// The socket in question, and what was made beside it: its listener, its child, an epoll set, a pipe.
    pub(crate) main: Fd,
    pub(crate) others: Vec<Fd>,
    pub(crate) epoll: Option<Fd>,
    pub(crate) pipe: Option<Fd>,
    pub(crate) stream: bool,
    /// The peer sends urgent data.
    pub(crate) urgent: bool,
}

impl Drawn {
    pub(crate) fn new(seed: u64, state: &str) -> Self {
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

    pub(crate) fn push(&mut self, call: Call) -> Fd {
        self.steps.push(Step::Call(call));
        self.steps.len() as Fd - 1
    }

    pub(crate) fn act(&mut self, act: Act) {
        self.steps.push(Step::Peer(1, self.family == Family::V6, act));
    }

    pub(crate) fn addr(&self, of: [&str; 2], port: u16) -> Name {
        let ip: IpAddr = of[usize::from(self.family == Family::V6)].parse().unwrap();
        let ip = match (self.family, ip) {
            (Family::Mapped, IpAddr::V4(ip)) => ip.to_ipv6_mapped().into(),
            (_, ip) => ip,
        };
        Name::Inet(SocketAddr::new(ip, port))
    }

    pub(crate) fn socket(&mut self) -> Fd {
        let domain = if self.family == Family::V4 { AF_INET } else { AF_INET6 };
        let ty = if self.stream { SOCK_STREAM } else { SOCK_DGRAM };
        self.push(Call::Socket { domain, ty: ty | SOCK_NONBLOCK, protocol: 0 })
    }

    pub(crate) fn bind(&mut self, fd: Fd) {
        let addr = self.addr(LOCAL, 1);
        self.push(Call::Bind { fd, addr });
    }

    pub(crate) fn connect(&mut self, fd: Fd) {
        let addr = self.addr(REMOTE, 1);
        self.push(Call::Connect { fd, addr });
    }

    pub(crate) fn set(&mut self, fd: Fd, level: i32, name: i32, value: i32) {
        self.push(Call::Setsockopt { fd, level, name, value: Optval::int(value) });
    }

    /// An epoll set that watches for edges, sometimes.
    pub(crate) fn watch(&mut self, fd: Fd) {
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

    pub(crate) fn write(&mut self, fd: Fd, len: usize) {
        self.push(Call::Send {
            fd,
            kind: SendKind::Write,
            data: vec![Piece::zeros(len)],
            flags: 0,
            to: None,
            control: vec![],
        });
    }

    pub(crate) fn shutdown(&mut self, fd: Fd, how: i32) {
        self.push(Call::Shutdown { fd, how });
    }

    pub(crate) fn listener(&mut self) -> Fd {
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

    pub(crate) fn option_before(&mut self, fd: Fd) {
        if self.dice.odd(3) {
            let (level, name, value) = self.dice.one(&[
                (SOL_SOCKET, SO_OOBINLINE, 1),
                (SOL_TCP, TCP_NODELAY, 1),
                (SOL_TCP, TCP_CORK, 1),
                (SOL_IP, IP_RECVERR, 1),
                (SOL_IPV6, IPV6_RECVERR, 1),
                (SOL_SOCKET, SO_RCVLOWAT, 200),
                (SOL_SOCKET, SO_RCVLOWAT, 1_000),
                (SOL_TCP, TCP_NOTSENT_LOWAT, 1),
                (SOL_TCP, TCP_NOTSENT_LOWAT, 2_000),
                (SOL_TCP, TCP_USER_TIMEOUT, 400),
                (SOL_SOCKET, SO_SNDBUF, 5_000),
                (SOL_SOCKET, SO_RCVBUF, 3_000),
                (SOL_TCP, TCP_INQ, 1),
                (SOL_TCP, TCP_LINGER2, -1),
                (SOL_SOCKET, SO_PEEK_OFF, 0),
                (SOL_SOCKET, SO_PEEK_OFF, 150),
                (SOL_SOCKET, SO_ZEROCOPY, 1),
                (SOL_SOCKET, SO_KEEPALIVE, 1),
                (SOL_TCP, TCP_QUICKACK, 0),
            ]);
            if self.stream || !NOT_OF_DATAGRAMS.contains(&(level, name)) {
                self.set(fd, level, name, value);
            }
        }
    }

    /// Another controller, which paces, or none of the usual.
    fn controller(&mut self, fd: Fd) {
        if self.dice.odd(6) {
            let value = Optval::text(self.dice.one(&["bbr", "bbr", "reno"]));
            self.push(Call::Setsockopt { fd, level: SOL_TCP, name: TCP_CONGESTION, value });
        }
    }

    /// An established connection, passive or active.
    pub(crate) fn established(&mut self) {
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
        self.controller(self.main);
        self.option_before(self.main);
        self.watch(self.main);
    }

    pub(crate) fn begun(&mut self) {
        self.main = self.socket();
        if self.dice.odd(3) {
            self.bind(self.main);
        }
        self.option_before(self.main);
        self.watch(self.main);
    }

    pub(crate) fn state(&mut self, state: &str) {
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

    pub(crate) fn opening(&mut self, state: &str) {
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

    pub(crate) fn icmp(&mut self) {
        let v4 =
            [(3, 0), (3, 1), (3, 2), (3, 3), (3, 5), (3, 10), (3, 13), (11, 0), (11, 1), (12, 0), (4, 0)];
        let v6 = [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (3, 0), (4, 0), (4, 1)];
        let (kind, code) = if self.family == Family::V6 { self.dice.one(&v6) } else { self.dice.one(&v4) };
        self.act(Act::Icmp(kind, code));
    }

    pub(crate) fn living(&mut self, state: &str) {
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
    pub(crate) fn ending(&mut self, state: &str) {
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

    pub(crate) fn datagrams(&mut self, state: &str) {
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
