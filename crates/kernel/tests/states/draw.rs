//! Drawn calls, and what a peer does between them.
use crate::life::{Drawn, Family};
use crate::pair::{Act, LOCAL, REMOTE, Step};
use bytes::Bytes;
use lowwater_posix::abi::*;
use lowwater_posix::{Call, Control, EpollEvent, Fd, Name, Optval, Piece, PollFd, RecvKind, Room, SendKind};

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
impl Drawn {
    pub(crate) fn options_drawn(&mut self) -> (i32, i32) {
        let all = self.options();
        self.dice.one(&all)
    }

    pub(crate) fn flags(&mut self, of: &[i32]) -> i32 {
        let one = self.dice.one(of);
        if self.dice.odd(3) { one | self.dice.one(of) } else { one }
    }

    pub(crate) fn recv(&mut self, fd: Fd) {
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

    pub(crate) fn send(&mut self, fd: Fd) {
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

    pub(crate) fn to(&mut self) -> Name {
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

    pub(crate) fn option(&mut self, fd: Fd) {
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

    pub(crate) fn epolls(&mut self, fd: Fd) {
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

    pub(crate) fn splices(&mut self, fd: Fd) {
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

    /// Looks at what has come, from a place on that moves with each look.
    fn peeks(&mut self, fd: Fd) {
        if self.stream {
            let from = self.dice.one(&[-1, 0, 0, 1, 150, 600]);
            self.set(fd, SOL_SOCKET, SO_PEEK_OFF, from);
        }
        for _ in 0..2 + self.dice.below(3) {
            let rooms = vec![Room::new(self.dice.one(&[1, 60, 300, 2_000]))];
            let peek = if self.dice.odd(3) { 0 } else { MSG_PEEK };
            let flags = peek | self.dice.one(&[0, 0, MSG_TRUNC, MSG_WAITALL]);
            self.push(Call::Recv { fd, kind: RecvKind::Recv, rooms, flags, control_len: 0 });
        }
        if self.stream && self.dice.odd(2) {
            self.push(Call::Getsockopt { fd, level: SOL_SOCKET, name: SO_PEEK_OFF, len: 4 });
        }
    }

    /// Sends without a copy, lets the peer acknowledge it, and hears that the buffer is free.
    fn zerocopies(&mut self, fd: Fd) {
        if !self.stream {
            return self.send(fd);
        }
        self.set(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
        for _ in 0..1 + self.dice.below(2) {
            let data = vec![Piece::zeros(self.dice.one(&[1, 100, 1_460, 3_000]))];
            let flags = MSG_ZEROCOPY | self.dice.one(&[0, 0, MSG_MORE]);
            self.push(Call::Send { fd, kind: SendKind::Send, data, flags, to: None, control: vec![] });
        }
        if fd == self.main && self.dice.odd(2) {
            self.act(Act::Ack(60_000));
        }
        let (rooms, control_len) = (vec![Room::new(10)], self.dice.one(&[0, 20, 200]));
        self.push(Call::Recv { fd, kind: RecvKind::Recvmsg, rooms, flags: MSG_ERRQUEUE, control_len });
    }

    /// A timer of the socket may fire.
    fn waits(&mut self, fd: Fd) {
        if self.stream && self.dice.odd(2) {
            self.set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
            self.set(fd, SOL_TCP, TCP_KEEPINTVL, 1);
            self.set(fd, SOL_TCP, TCP_KEEPCNT, 1);
            self.set(fd, SOL_TCP, TCP_KEEPIDLE, 1);
            self.steps.push(Step::Wait(1_120));
            return;
        }
        if self.stream {
            let ms = self.dice.one(&[0, 10, 100]);
            self.set(fd, SOL_TCP, TCP_USER_TIMEOUT, ms);
        }
        self.steps.push(Step::Wait(450));
    }

    /// Marks of room, and what is written and read about them.
    fn lowats(&mut self, fd: Fd) {
        if !self.stream {
            return self.recv(fd);
        }
        match self.dice.below(3) {
            0 => {
                let mark = self.dice.one(&[1, 100, 1_000, 100_000]);
                self.set(fd, SOL_SOCKET, SO_RCVLOWAT, mark);
                if fd == self.main {
                    self.act(Act::Data(400));
                }
            }
            1 => {
                let mark = self.dice.one(&[1, 1_000, 5_000]);
                self.set(fd, SOL_TCP, TCP_NOTSENT_LOWAT, mark);
                let len = self.dice.one(&[100, 3_000, 20_000]);
                self.write(fd, len);
                if fd == self.main {
                    self.act(Act::Ack(60_000));
                }
            }
            _ => {
                self.set(fd, SOL_TCP, TCP_INQ, 1);
                let rooms = vec![Room::new(self.dice.one(&[1, 100, 1_000]))];
                self.push(Call::Recv { fd, kind: RecvKind::Recvmsg, rooms, flags: 0, control_len: 40 });
            }
        }
        self.epolls(fd);
    }

    pub(crate) fn call(&mut self) {
        let mut all = vec![self.main; 6];
        all.extend(&self.others);
        let fd = self.dice.one(&all);
        match self.dice.below(36) {
            30 => self.peeks(fd),
            31 => self.zerocopies(fd),
            32 => self.waits(fd),
            33 => self.lowats(fd),
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

    pub(crate) fn peer(&mut self) {
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

pub(crate) fn draw(seed: u64, state: &str) -> Vec<Step> {
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
    // Of what is dissolved something waits for ever in Linux, as a mark of what is unsent shows, and who sends without a copy is charged for whole
    // pages, as a small buffer does (linux-differences.md).
    let connects = drawn.steps.iter().filter(|step| matches!(step, Step::Call(Call::Connect { .. }))).count();
    if connects > 1 || drawn.steps.iter().any(ends) {
        take_out(&mut drawn.steps, (SOL_TCP, TCP_NOTSENT_LOWAT));
    }
    if drawn.steps.iter().any(|step| sets(step, SO_SNDBUF) || sets(step, SO_SNDBUFFORCE)) {
        take_out(&mut drawn.steps, (SOL_SOCKET, SO_ZEROCOPY));
    }
    drawn.steps
}

/// A socket may be dissolved by it, as by a second connect() that tells why the first failed, which MSG_FASTOPEN may be too.
fn ends(step: &Step) -> bool {
    match step {
        Step::Call(Call::Connect { addr: Name::Unspec(..), .. } | Call::Shutdown { .. }) => true,
        Step::Call(Call::Send { flags, .. }) => flags & MSG_FASTOPEN != 0,
        _ => false,
    }
}

fn sets(step: &Step, option: i32) -> bool {
    matches!(step, Step::Call(Call::Setsockopt { level: SOL_SOCKET, name, .. }) if *name == option)
}

/// The calls that set this option do nothing; the others keep their places.
fn take_out(steps: &mut [Step], option: (i32, i32)) {
    for step in steps {
        if matches!(step, Step::Call(Call::Setsockopt { level, name, .. }) if (*level, *name) == option) {
            *step = Step::Wait(0);
        }
    }
}
