//! Every call in every state of a file answers what the kernel answers: tests/matrix/kernel.txt, which kernel.py beside it prints.
use crate::support::*;
use bytes::Bytes;
use core::net::SocketAddr;
use lowwater_core::base::Duration;
use lowwater_posix::abi::*;
use lowwater_posix::{Call, EpollEvent, Fd, Host, Name, Optval, Piece, RecvKind, Reply, Room, SendKind};

/// Linux 6.18's answers.
const KERNEL: &str = include_str!("../matrix/kernel.txt");
const PORT: u16 = 8_080;

/// Where we differ and mean to: state (or `*`), call, our answer, why.
const DIFFERENT: &[(&str, &str, &str, &str)] = &[
    (
        "dissolved",
        "outq",
        "0 0",
        "the kernel tells what is left of the sequence numbers of a connection that is no more",
    ),
    ("dissolved", "outqnsd", "0 0", "the same"),
    ("listen_shut", "outq", "0 0", "the same of a listener"),
    ("listen_shut", "outqnsd", "0 0", "the same of a listener"),
];

/// A file in some state: the network it lives in, and its descriptor at a.
fn state(name: &str) -> (Net, Fd) {
    let mut net = Net::new();
    let fd = if name.starts_with("udp") { udp_state(&mut net, name) } else { other_state(&mut net, name) };
    (net, fd)
}

fn pause(net: &mut Net) {
    net.run(Duration::from_millis(100));
}

fn shut(host: &mut Host, fd: Fd, how: i32) {
    done(host, Call::Shutdown { fd, how });
}

/// b resets the connection.
fn reset(net: &mut Net, b: Fd) {
    let value = Optval::Bytes(Bytes::from([1_i32.to_ne_bytes(), 0_i32.to_ne_bytes()].concat()));
    ok(&mut net.b, Call::Setsockopt { fd: b, level: SOL_SOCKET, name: SO_LINGER, value });
    ok(&mut net.b, Call::Close { fd: b });
    pause(net);
}

fn tcp_pair(net: &mut Net) -> (Fd, Fd) {
    let (a, b) = net.connected();
    ok(&mut net.a, Call::Fcntl { fd: a, cmd: F_SETFL, arg: O_NONBLOCK.into() });
    (a, b)
}

fn other_state(net: &mut Net, name: &str) -> Fd {
    match name {
        "fresh" | "bound" | "listen" | "connecting" | "refused" | "refused_told" | "listen_shut"
        | "fresh_shut" => fresh_state(net, name),
        "pipe_r" | "pipe_w" | "pipe_data" | "pipe_r_alone" | "pipe_w_alone" => pipe_state(&mut net.a, name),
        "epoll" => ok(&mut net.a, Call::EpollCreate { size: 1, flags: 0 }),
        "bad" => 999,
        _ => connected_state(net, name),
    }
}

fn fresh_state(net: &mut Net, name: &str) -> Fd {
    let fd = nonblocking(&mut net.a);
    match name {
        "bound" => _ = ok(&mut net.a, bind(fd, A, PORT)),
        "listen" | "listen_shut" => {
            ok(&mut net.a, bind(fd, A, PORT));
            ok(&mut net.a, Call::Listen { fd, backlog: 5 });
            if name == "listen_shut" {
                shut(&mut net.a, fd, SHUT_RD);
            }
        }
        "connecting" => _ = done(&mut net.a, connect(fd, "10.0.0.9", PORT)),
        "refused" | "refused_told" => {
            done(&mut net.a, connect(fd, B, PORT));
            pause(net);
            if name == "refused_told" {
                ok(&mut net.a, get(fd, SOL_SOCKET, SO_ERROR, 4));
            }
        }
        "fresh_shut" => shut(&mut net.a, fd, SHUT_RDWR),
        _ => {}
    }
    fd
}

fn connected_state(net: &mut Net, name: &str) -> Fd {
    let (a, b) = tcp_pair(net);
    if matches!(name, "data" | "data_fin" | "data_reset") {
        ok(&mut net.b, write(b, b"abc"));
        pause(net);
    }
    if matches!(name, "peer_fin" | "data_fin" | "last_ack" | "fin_reset") {
        shut(&mut net.b, b, SHUT_WR);
        pause(net);
    }
    match name {
        "shut_rd" => shut(&mut net.a, a, SHUT_RD),
        "shut_wr" | "last_ack" => shut(&mut net.a, a, SHUT_WR),
        "shut_rdwr" => shut(&mut net.a, a, SHUT_RDWR),
        "time_wait" => {
            shut(&mut net.a, a, SHUT_WR);
            pause(net);
            ok(&mut net.b, Call::Close { fd: b });
        }
        "reset" | "fin_reset" | "data_reset" => reset(net, b),
        "reset_told" => {
            reset(net, b);
            done(&mut net.a, recv(a, 1, 0));
        }
        "dissolved" => _ = ok(&mut net.a, Call::Connect { fd: a, addr: Name::UNSPEC }),
        "connected" | "data" | "peer_fin" | "data_fin" => {}
        _ => panic!("no state {name}"),
    }
    pause(net);
    a
}

fn udp_state(net: &mut Net, name: &str) -> Fd {
    let socket = Call::Socket { domain: AF_INET, ty: SOCK_DGRAM | SOCK_NONBLOCK, protocol: 0 };
    let fd = ok(&mut net.a, socket.clone());
    match name {
        "udp" => return fd,
        "udp_bound" => {
            ok(&mut net.a, bind(fd, A, PORT));
            return fd;
        }
        _ => {}
    }
    let peer = ok(&mut net.b, socket);
    if name != "udp_refused" {
        ok(&mut net.b, bind(peer, B, PORT));
    }
    ok(&mut net.a, connect(fd, B, PORT));
    match name {
        "udp_data" => {
            ok(&mut net.a, write(fd, b"x"));
            pause(net);
            let from = done(&mut net.b, recv(peer, 9, 0)).addr.expect("a datagram has a sender");
            ok(&mut net.b, sendto(peer, b"abc", from.into()));
            pause(net);
        }
        "udp_refused" => {
            ok(&mut net.a, write(fd, b"x"));
            pause(net);
        }
        "udp_shut" => shut(&mut net.a, fd, SHUT_RDWR),
        _ => {}
    }
    fd
}

fn pipe_state(host: &mut Host, name: &str) -> Fd {
    let (r, w) = done(host, Call::Pipe { flags: O_NONBLOCK }).pipe.expect("two ends");
    match name {
        "pipe_data" => _ = ok(host, write(w, b"abc")),
        "pipe_r_alone" => _ = ok(host, Call::Close { fd: w }),
        "pipe_w_alone" => _ = ok(host, Call::Close { fd: r }),
        _ => {}
    }
    if name.starts_with("pipe_w") { w } else { r }
}

fn sendto(fd: Fd, data: &'static [u8], to: Name) -> Call {
    let data = vec![Piece::Data(Bytes::from_static(data))];
    Call::Send { fd, kind: SendKind::Sendto, data, flags: 0, to: Some(to), control: Vec::new() }
}

/// What a reply says, as kernel.py prints it.
fn told(reply: &Reply) -> String {
    let result = reply.errno.map_or_else(|| reply.ret.to_string(), |e| e.name().to_owned());
    if reply.sigpipe { format!("{result} SIGPIPE") } else { result }
}

fn with_int(reply: &Reply) -> String {
    if reply.ret < 0 { told(reply) } else { format!("{} {}", reply.ret, reply.int().unwrap_or(-1)) }
}

fn option(host: &mut Host, fd: Fd, level: i32, name: i32, len: i32) -> String {
    let reply = done(host, get(fd, level, name, len));
    if reply.ret < 0 {
        return told(&reply);
    }
    let mut word = [0; 4];
    for (to, from) in word.iter_mut().zip(&reply.value) {
        *to = *from;
    }
    format!("0 len {} {}", reply.value.len(), i32::from_le_bytes(word))
}

fn reading(name: &str, fd: Fd) -> Option<Call> {
    let (kind, room, flags) = match name {
        "read" => (RecvKind::Read, Room::new(2), 0),
        "read_0" => (RecvKind::Read, Room::new(0), 0),
        "read_null" => (RecvKind::Read, Room::bad(2), 0),
        "readv_0" => (RecvKind::Readv, Room::new(0), 0),
        "recv" => (RecvKind::Recv, Room::new(2), 0),
        "recv_0" => (RecvKind::Recv, Room::new(0), 0),
        "recv_peek" => (RecvKind::Recv, Room::new(2), MSG_PEEK),
        "recv_peek_trunc" => (RecvKind::Recv, Room::new(2), MSG_PEEK | MSG_TRUNC),
        "recv_all" => (RecvKind::Recv, Room::new(9), MSG_WAITALL),
        "recv_oob" => (RecvKind::Recv, Room::new(1), MSG_OOB),
        "recv_errqueue" => (RecvKind::Recv, Room::new(1), MSG_ERRQUEUE),
        "recv_trunc_null" => (RecvKind::Recv, Room::bad(2), MSG_TRUNC),
        "recvmsg" => (RecvKind::Recvmsg, Room::new(2), 0),
        _ => return None,
    };
    let rooms = if name == "readv_0" { Vec::new() } else { vec![room] };
    Some(Call::Recv { fd, kind, rooms, flags, control_len: 0 })
}

fn writing(name: &str, fd: Fd) -> Option<Call> {
    let here: Name = at(B, PORT).into();
    let (kind, data, flags, to) = match name {
        "write" => (SendKind::Write, Piece::zeros(2), 0, None),
        "write_0" => (SendKind::Write, Piece::zeros(0), 0, None),
        "write_null" => (SendKind::Write, Piece::Bad(2), 0, None),
        "send" => (SendKind::Send, Piece::zeros(2), 0, None),
        "send_nosignal" => (SendKind::Send, Piece::zeros(2), MSG_NOSIGNAL, None),
        "send_more" => (SendKind::Send, Piece::zeros(2), MSG_MORE, None),
        "sendto" => (SendKind::Sendto, Piece::zeros(2), 0, Some(here)),
        "sendto_port_0" => (SendKind::Sendto, Piece::zeros(2), 0, Some(at(B, 0).into())),
        "sendto_short" => (SendKind::Sendto, Piece::zeros(2), 0, Some(Name::Short(2, 15))),
        "sendto_family" => (SendKind::Sendto, Piece::zeros(2), 0, Some(Name::Other(1, 28))),
        _ => return None,
    };
    Some(Call::Send { fd, kind, data: vec![data], flags, to, control: Vec::new() })
}

fn plain(name: &str, fd: Fd) -> Option<Call> {
    let addr = |ip: &str, port| Name::Inet(SocketAddr::new(ip.parse().expect("an address"), port));
    Some(match name {
        "bind" => Call::Bind { fd, addr: addr(A, 0) },
        "bind_short" => Call::Bind { fd, addr: Name::Short(2, 15) },
        "bind_family" => Call::Bind { fd, addr: Name::Other(1, 28) },
        "bind_far" => Call::Bind { fd, addr: addr("192.0.2.1", 0) },
        "listen" => Call::Listen { fd, backlog: 3 },
        "accept" => Call::Accept { fd, flags: 0 },
        "accept_flags" => Call::Accept { fd, flags: 5 },
        "connect" => Call::Connect { fd, addr: addr(B, 9) },
        "connect_short" => Call::Connect { fd, addr: Name::Short(2, 15) },
        "connect_family" => Call::Connect { fd, addr: Name::Other(1, 28) },
        "connect_unspec" => Call::Connect { fd, addr: Name::UNSPEC },
        "shutdown_rd" => Call::Shutdown { fd, how: SHUT_RD },
        "shutdown_wr" => Call::Shutdown { fd, how: SHUT_WR },
        "shutdown_rdwr" => Call::Shutdown { fd, how: SHUT_RDWR },
        "shutdown_bad" => Call::Shutdown { fd, how: 3 },
        "getsockname" => Call::Getsockname { fd },
        "getpeername" => Call::Getpeername { fd },
        "getfl" => Call::Fcntl { fd, cmd: F_GETFL, arg: 0 },
        "setfl" => Call::Fcntl { fd, cmd: F_SETFL, arg: (O_RDWR | O_NONBLOCK).into() },
        "fcntl_bad" => Call::Fcntl { fd, cmd: 12_345, arg: 0 },
        "fionbio_null" => Call::Ioctl { fd, request: FIONBIO as u64, arg: None },
        "set_short" => {
            Call::Setsockopt { fd, level: 6, name: 1, value: Optval::Bytes(Bytes::from_static(&[1, 0, 0])) }
        }
        "set_null" => Call::Setsockopt { fd, level: 1, name: 2, value: Optval::Bad(4) },
        "set_neg" => Call::Setsockopt { fd, level: 1, name: 2, value: Optval::Bad(-1) },
        "set_nodelay" => setint(fd, 6, 1, 1),
        "set_maxseg" => setint(fd, 6, 2, 1),
        "set_clamp_0" => setint(fd, 6, 10, 0),
        "set_v6only" => setint(fd, 41, 26, 1),
        "set_reno" => Call::Setsockopt { fd, level: 6, name: 13, value: Optval::text("reno") },
        "set_what" => Call::Setsockopt { fd, level: 6, name: 13, value: Optval::text("what") },
        "close" => Call::Close { fd },
        _ => return reading(name, fd).or_else(|| writing(name, fd)),
    })
}

fn answer(host: &mut Host, name: &str, fd: Fd) -> String {
    if let Some(call) = plain(name, fd) {
        let reply = done(host, call);
        return match name {
            "accept" if reply.ret >= 0 => "0".into(),
            "recvmsg" if reply.ret >= 0 => format!("{} flags {:#x}", reply.ret, reply.msg_flags),
            _ => told(&reply),
        };
    }
    let ioctl = |host: &mut Host, request| with_int(&done(host, Call::Ioctl { fd, request, arg: Some(0) }));
    match name {
        "fionread" => ioctl(host, 0x541b),
        "outq" => ioctl(host, 0x5411),
        "outqnsd" => ioctl(host, 0x894b),
        "atmark" => ioctl(host, 0x8905),
        "ioctl_bad" => ioctl(host, 0x1234),
        "poll" => format!("{:#x}", i32::from(done(host, pollfd(fd, 0x3fff, 0)).revents[0])),
        "epoll" => {
            let set = ok(host, Call::EpollCreate { size: 1, flags: 0 });
            let event = Some(EpollEvent { events: 5, data: 7 });
            let reply = done(host, Call::EpollCtl { epfd: set, op: EPOLL_CTL_ADD, fd, event });
            let wait = Call::EpollWait { epfd: set, max_events: 9, timeout_ms: 0 };
            let events = done(host, wait).events.first().map_or(0, |e| e.events);
            if reply.ret < 0 { told(&reply) } else { format!("0 {events:#x}") }
        }
        "splice_in" | "splice_out" => {
            let (r, w) = done(host, Call::Pipe { flags: O_NONBLOCK }).pipe.expect("two ends");
            let (fd_in, fd_out) = if name == "splice_in" { (fd, w) } else { (r, fd) };
            if name == "splice_out" {
                ok(host, write(w, b"xy"));
            }
            let flags = SPLICE_F_NONBLOCK as u32;
            told(&done(host, Call::Splice { fd_in, off_in: None, fd_out, off_out: None, len: 2, flags }))
        }
        "so_error" => option(host, fd, 1, 4, 4),
        "so_type" => option(host, fd, 1, 3, 4),
        "so_acceptconn" => option(host, fd, 1, 30, 4),
        "so_domain_2" => option(host, fd, 1, 39, 2),
        "tcp_info_1" => option(host, fd, 6, 11, 1),
        "tcp_info_len" => option(host, fd, 6, 11, 400)
            .split(' ')
            .nth(2)
            .map_or_else(|| option(host, fd, 6, 11, 400), str::to_owned),
        "opt_neg" => option(host, fd, 1, 3, -1),
        "opt_bad" => option(host, fd, 1, 9_999, 4),
        "level_bad" => option(host, fd, 77, 1, 4),
        "ip_mtu" => option(host, fd, 0, 14, 4).split(" len").next().unwrap_or_default().to_owned(),
        "ipv6_v6only" => option(host, fd, 41, 26, 4),
        _ => panic!("no call {name}"),
    }
}

#[test]
fn every_call_in_every_state_answers_as_the_kernel() {
    let mut wrong = Vec::new();
    for line in KERNEL.lines() {
        let mut words = line.splitn(3, ' ');
        let (Some(file), Some(call), Some(kernel)) = (words.next(), words.next(), words.next()) else {
            panic!("'{line}' has three parts");
        };
        let (mut net, fd) = state(file);
        let ours = answer(&mut net.a, call, fd);
        let meant = DIFFERENT.iter().find(|(s, c, ..)| (*s == file || *s == "*") && *c == call);
        let expected = meant.map_or(kernel, |(_, _, ours, _)| ours);
        if ours != expected {
            wrong.push(format!("{file} {call}: {ours}, the kernel says {kernel}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
