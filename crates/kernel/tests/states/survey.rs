//! One call in every state: each call of the socket family with each of its flags and with arguments of every kind that are none, alone.
//!
//! All of them take an hour: a run asks for a part, another one in each state. `SURVEY=all` asks for everything, `SURVEY=N/M` for one of M parts,
//! `STATE=NAME` in one state alone.
use crate::life::{Drawn, Family, STATES};
use crate::pair::{Act, NOBODY, Pair, REMOTE, Step};
use bytes::Bytes;
use lowwater_posix::abi::*;
use lowwater_posix::{Call, Control, EpollEvent, Name, Optval, Piece, PollFd, RecvKind, Room, SendKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

/// One in so many is asked for.
const PART: usize = 797;

/// Addresses of every kind.
fn names() -> Vec<Name> {
    let inet = |text: &str| Name::Inet(text.parse::<SocketAddr>().unwrap());
    let texts = [
        "10.0.0.1:1",
        "10.0.0.1:0",
        "10.0.0.2:1",
        "10.0.0.2:2",
        "10.0.0.2:0",
        "10.0.0.9:1",
        "0.0.0.0:1",
        "0.0.0.0:0",
        "255.255.255.255:1",
        "10.0.0.255:1",
        "224.0.0.1:1",
        "127.0.0.1:1",
        "127.0.0.2:0",
        "192.0.2.1:1",
        "240.0.0.1:1",
        "[fd00::1]:1",
        "[fd00::1]:0",
        "[fd00::2]:1",
        "[fd00::2]:2",
        "[fd00::2]:0",
        "[::]:1",
        "[::]:0",
        "[::1]:1",
        "[ff02::1]:1",
        "[ff05::1]:1",
        "[fe80::1]:1",
        "[2001:db8::1]:1",
        "[::ffff:10.0.0.1]:1",
        "[::ffff:10.0.0.1]:0",
        "[::ffff:10.0.0.2]:1",
        "[::ffff:10.0.0.2]:0",
        "[::ffff:0.0.0.0]:1",
        "[::ffff:127.0.0.1]:1",
        "[::ffff:224.0.0.1]:1",
        "[::ffff:255.255.255.255]:1",
        "[::10.0.0.1]:1",
    ];
    let v4 = |ip: Ipv4Addr, port| SocketAddrV4::new(ip, port);
    let (any, local, remote) =
        (Ipv4Addr::UNSPECIFIED, Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let mut all: Vec<Name> = texts.into_iter().map(inet).collect();
    all.extend([Name::Padded(v4(local, 1)), Name::Padded(v4(remote, 1)), Name::Padded(v4(any, 0))]);
    for len in [2, 15, 16, 23, 24, 28, 128] {
        all.extend([Name::Other(1, len), Name::Other(99, len)]);
        let addr = (len >= 16).then_some(v4(any, 0));
        all.push(Name::Unspec(addr, len));
    }
    all.extend([Name::Unspec(Some(v4(remote, 20_000)), 16), Name::Unspec(Some(v4(local, 2_000)), 28)]);
    all.extend([Name::Short(0, 0), Name::Short(0, 1), Name::Short(2, 2), Name::Short(2, 15)]);
    all.extend([2, 15, 16, 23].map(|len| Name::Short(10, len)));
    all.extend([Name::Strange, Name::Bad]);
    all
}

fn bits() -> Vec<i32> {
    let one = (0..32).map(|bit| (1_u32 << bit) as i32);
    [0, -1].into_iter().chain(one).collect()
}

impl Drawn {
    fn receiving(&self, all: &mut Vec<Call>) {
        let fd = self.main;
        let recv = |kind, rooms, flags, control_len| Call::Recv { fd, kind, rooms, flags, control_len };
        let plain = [RecvKind::Read, RecvKind::Readv, RecvKind::Recv, RecvKind::Recvfrom, RecvKind::Recvmsg];
        for kind in plain {
            for rooms in [
                vec![],
                vec![Room::new(0)],
                vec![Room::new(10)],
                vec![Room::new(3), Room::new(100_000)],
                vec![Room::bad(0)],
                vec![Room::bad(10)],
            ] {
                if rooms.len() == 1 || matches!(kind, RecvKind::Readv | RecvKind::Recvmsg) {
                    all.push(recv(kind, rooms, 0, 0));
                }
            }
        }
        for kind in [RecvKind::Recv, RecvKind::Recvmsg] {
            for flags in bits() {
                for with in [0, MSG_PEEK, MSG_OOB, MSG_ERRQUEUE, MSG_TRUNC | MSG_PEEK] {
                    all.push(recv(kind, vec![Room::new(50)], flags | with, 64));
                }
                all.push(recv(kind, vec![Room::new(0)], flags, 0));
                all.push(recv(kind, vec![Room::bad(10)], flags, 0));
            }
        }
        all.extend(
            [0, 1, 15, 16, 19, 20, 23, 24, 40]
                .map(|room| recv(RecvKind::Recvmsg, vec![Room::new(10)], MSG_ERRQUEUE, room)),
        );
    }

    fn sending(&self, all: &mut Vec<Call>) {
        let fd = self.main;
        let send = |kind, data, flags, to, control| Call::Send { fd, kind, data, flags, to, control };
        for kind in [SendKind::Write, SendKind::Writev, SendKind::Send, SendKind::Sendto, SendKind::Sendmsg] {
            for data in [
                vec![],
                vec![Piece::zeros(0)],
                vec![Piece::zeros(10)],
                vec![Piece::zeros(3), Piece::zeros(70_000)],
                vec![Piece::Bad(0)],
                vec![Piece::Bad(10)],
                vec![Piece::zeros(5), Piece::Bad(10)],
            ] {
                if data.len() == 1 || matches!(kind, SendKind::Writev | SendKind::Sendmsg) {
                    all.push(send(kind, data, 0, None, vec![]));
                }
            }
        }
        for flags in bits() {
            for len in [0, 10, 70_000] {
                all.push(send(SendKind::Send, vec![Piece::zeros(len)], flags, None, vec![]));
            }
            all.push(send(
                SendKind::Sendto,
                vec![Piece::zeros(10)],
                flags,
                Some(self.addr(REMOTE, 1)),
                vec![],
            ));
            all.push(send(SendKind::Sendto, vec![Piece::Bad(10)], flags, Some(self.addr(REMOTE, 1)), vec![]));
        }
        for name in names() {
            for flags in [0, MSG_FASTOPEN, MSG_OOB, MSG_PROBE] {
                all.push(send(SendKind::Sendto, vec![Piece::zeros(10)], flags, Some(name), vec![]));
            }
            // What is too long is cut there, by whoever reads the message.
            if name != Name::Strange {
                all.push(send(SendKind::Sendmsg, vec![Piece::zeros(10)], 0, Some(name), vec![]));
            }
            all.push(send(SendKind::Sendto, vec![Piece::zeros(0)], 0, Some(name), vec![]));
            all.push(send(SendKind::Sendto, vec![Piece::Bad(10)], 0, Some(name), vec![]));
        }
        for level in [SOL_SOCKET, SOL_IP, SOL_IPV6, SOL_TCP, SOL_UDP, 99, -1] {
            for ty in [0, 1, 2, 5, 8, 11, 20, 21, 24, 37, 41, 50, 52, 54, 57, 61, 67, 78, 99] {
                for len in [0, 1, 2, 4, 8, 12, 20] {
                    let control = Control { level, ty, data: Bytes::from(vec![0; len]) };
                    all.push(send(SendKind::Sendmsg, vec![Piece::zeros(10)], 0, None, vec![control]));
                }
            }
        }
    }

    fn living_and_ending(&self, all: &mut Vec<Call>) {
        let fd = self.main;
        for addr in names() {
            all.extend([Call::Bind { fd, addr }, Call::Connect { fd, addr }]);
        }
        all.extend([0, 1, -1, i32::MAX, i32::MIN].map(|backlog| Call::Listen { fd, backlog }));
        all.extend(
            [SOCK_NONBLOCK, SOCK_NONBLOCK | SOCK_CLOEXEC, 1, -1].map(|flags| Call::Accept { fd, flags }),
        );
        all.extend([-1, 0, 1, 2, 3, i32::MAX].map(|how| Call::Shutdown { fd, how }));
        all.extend([Call::Close { fd }, Call::Getsockname { fd }, Call::Getpeername { fd }]);
        for (cmd, args) in
            [(F_GETFD, vec![0]), (F_SETFD, vec![0, 1, 2, 3, -1]), (F_GETFL, vec![0]), (F_GETPIPE_SZ, vec![0])]
        {
            all.extend(args.into_iter().map(|arg| Call::Fcntl { fd, cmd, arg }));
        }
        // Never without O_NONBLOCK: whoever reads next would wait.
        for flag in bits().into_iter().filter(|flag| *flag != -1) {
            all.push(Call::Fcntl { fd, cmd: F_SETFL, arg: i64::from(flag | O_NONBLOCK) });
        }
        for request in [SIOCINQ, SIOCATMARK, FIOCLEX, FIONCLEX, FIOASYNC, FIONBIO] {
            for arg in [Some(0), Some(1), None] {
                if request != FIONBIO || arg != Some(0) {
                    all.push(Call::Ioctl { fd, request: request as u64, arg });
                }
            }
        }
    }

    fn watching(&self, all: &mut Vec<Call>) {
        let fd = self.main;
        for events in bits().into_iter().map(|bits| bits as i16) {
            all.push(Call::Poll {
                fds: vec![PollFd { fd, events }, PollFd { fd, events: 0 }, PollFd { fd: NOBODY, events }],
                timeout_ms: 0,
            });
        }
        for epfd in [fd, NOBODY].into_iter().chain(self.epoll) {
            for target in [fd, NOBODY].into_iter().chain(self.epoll) {
                for op in [0, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, 4] {
                    for events in [
                        0,
                        EPOLLIN,
                        EPOLLOUT | EPOLLET,
                        EPOLLIN | EPOLLEXCLUSIVE,
                        EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT,
                        u32::MAX,
                    ] {
                        let event = Some(EpollEvent { events, data: 7 });
                        all.push(Call::EpollCtl { epfd, op, fd: target, event });
                    }
                    all.push(Call::EpollCtl { epfd, op, fd: target, event: None });
                }
            }
            all.extend([-1, 0, 1, 8].map(|max_events| Call::EpollWait { epfd, max_events, timeout_ms: 0 }));
        }
    }

    /// Every option, read into rooms and set to values of many kinds.
    fn asking(&self, all: &mut Vec<Call>) {
        let fd = self.main;
        for (level, name) in self.options() {
            all.extend([0, 1, 2, 3, 4, 5, 8, 300].map(|len| Call::Getsockopt { fd, level, name, len }));
            let ints =
                [-1, 0, 1, 2, 3, 5, 64, 255, 256, 1_000, 65_535, 65_536, 1_000_000, i32::MAX, i32::MIN];
            let mut values: Vec<Optval> = ints.into_iter().map(Optval::int).collect();
            values.extend([-1, 0, 1, 4, 8, 16].map(Optval::Bad));
            values.extend([0, 1, 2, 3, 5, 8, 12, 16, 20, 32].map(|len| Optval::Bytes(vec![1; len].into())));
            values.extend([8, 12, 16, 20, 32].map(|len| Optval::Bytes(vec![0; len].into())));
            all.extend(values.into_iter().map(|value| Call::Setsockopt { fd, level, name, value }));
        }
        for level in [SOL_UDP, SOL_SCTP, 263] {
            all.extend([
                Call::Getsockopt { fd, level, name: 1, len: 4 },
                Call::Setsockopt { fd, level, name: 1, value: Optval::int(1) },
            ]);
        }
    }

    /// All calls, one for each time the state is made.
    fn survey(&self) -> Vec<Call> {
        let mut all = Vec::new();
        self.receiving(&mut all);
        self.sending(&mut all);
        self.living_and_ending(&mut all);
        self.watching(&mut all);
        self.asking(&mut all);
        all
    }
}

/// Where both are meant to differ (linux-differences.md).
fn is_meant(drawn: &Drawn, call: &Call) -> bool {
    let name = match call {
        Call::Bind { addr, .. } | Call::Connect { addr, .. } => Some(*addr),
        Call::Send { to, .. } => *to,
        _ => None,
    };
    let at = name.and_then(Name::inet).map(|at| SocketAddr::new(at.ip().to_canonical(), at.port()));
    let broadcast = |ip: IpAddr| ip == Ipv4Addr::BROADCAST || ip == Ipv4Addr::new(10, 0, 0, 255);
    // No groups, and nobody is kept from broadcasts.
    let several = at.is_some_and(|at| at.ip().is_multicast() || broadcast(at.ip()));
    let nobody = drawn.stream && !matches!(call, Call::Bind { .. }) && at.is_some_and(|at| at.port() == 0);
    let more = match call {
        Call::Send { flags, control, .. } => {
            // Each write is a datagram; whoever asks for headers here has the right in the kernel.
            !drawn.stream
                && (flags & MSG_MORE != 0
                    || control.iter().any(|c| c.level == SOL_IPV6 && c.ty == IPV6_HOPOPTS))
        }
        _ => false,
    };
    // A datagram socket that has had a peer of IPv6 is not fit for one of IPv4, and an error that the call has told is not queued.
    let did = |what: &dyn Fn(&Call) -> bool| {
        drawn.steps.iter().any(|step| matches!(step, Step::Call(call) if what(call)))
    };
    let six = |name: &Name| name.inet().is_some_and(|at| at.ip().to_canonical().is_ipv6());
    let was_six = || did(&|call| matches!(call, Call::Connect { addr, .. } if six(addr)));
    let queues = || did(&|call| matches!(call, Call::Setsockopt { level: SOL_IPV6, name: IPV6_RECVERR, .. }));
    let four = at.is_some_and(|at| at.is_ipv4()) && matches!(call, Call::Connect { .. });
    let long = matches!(call, Call::Send { data, .. } if data.iter().map(Piece::len).sum::<usize>() > 65_000);
    let of_datagrams = !drawn.stream && (four && was_six() || long && queues());
    // A read that fails steps over no urgent byte.
    let bad = matches!(call, Call::Recv { rooms, .. } if rooms.iter().any(|room| room.bad && room.len > 0));
    let at_mark = bad && drawn.steps.iter().any(|step| matches!(step, Step::Peer(.., Act::Urgent(_))));
    several || nobody || more || of_datagrams || at_mark
}

/// What a run asks for: by `SURVEY=N/M` each Mth call from the Nth on, by `SURVEY=all` all of them.
fn part() -> impl Fn(usize, usize) -> bool {
    let asked = std::env::var("SURVEY").ok();
    let two = asked
        .as_ref()
        .and_then(|text| text.split_once('/'))
        .map(|(n, m)| (n.parse::<usize>().unwrap(), m.parse::<usize>().unwrap()));
    move |index, world| match two {
        Some((n, m)) => index % m == n,
        None if asked.is_some() => true,
        None => index % PART == (world * 131) % PART,
    }
}

#[test]
fn each_call_alone_in_every_state_answers_as_the_kernels() {
    if !lowwater_os::netns::net_admin() {
        return;
    }
    let (only, part) = (std::env::var("STATE").ok(), part());
    let mut pair = Pair::new([true, true]);
    let (mut failed, mut ran) = (Vec::new(), 0);
    for (at, state) in
        STATES.iter().enumerate().filter(|(_, state)| only.as_deref().is_none_or(|only| only == **state))
    {
        for (nth, family) in [Family::V4, Family::Mapped, Family::V6].into_iter().enumerate() {
            let world = at * 3 + nth;
            let make = || {
                let mut drawn = Drawn::new(world as u64, state);
                drawn.family = family;
                drawn.state(state);
                drawn
            };
            for (index, call) in
                make().survey().into_iter().enumerate().filter(|(index, _)| part(*index, world))
            {
                let drawn = make();
                if is_meant(&drawn, &call) {
                    continue;
                }
                let mut steps = drawn.steps;
                steps.push(Step::Call(call));
                ran += 1;
                let Some(found) = (0..3).try_fold(Vec::new(), |_, _| pair.run(&steps)) else { continue };
                println!("{state} {family:?} {index}:\n{}\n", found.last().cloned().unwrap_or_default());
                failed.push((*state, family, index));
            }
        }
    }
    assert!(ran > 0 || only.is_some());
    assert!(failed.is_empty(), "{failed:?}: {} of {ran} calls differ", failed.len());
}
