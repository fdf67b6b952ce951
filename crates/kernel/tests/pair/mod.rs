//! The stack and the kernel side by side: calls on sockets and packets of a peer, and what both answer and send.
#![allow(dead_code, reason = "each test uses its part")]
use bytes::Bytes;
use core::fmt::Write as _;
use core::net::{IpAddr, SocketAddr};
use lowwater_core::base::Rng;
use lowwater_drill::{Target as _, World};
use lowwater_kernel::Kernel;
use lowwater_posix::abi::*;
use lowwater_posix::{Call, Fd, Host, Name, PollFd, RecvKind, Reply, Settings, Started};
use lowwater_wire::ipv4::{Ipv4Repr, Ipv4View};
use lowwater_wire::ipv6::{Ipv6Repr, Ipv6View};
use lowwater_wire::tcp::{TcpFlags, TcpOptions, TcpRepr, TcpView, fill_checksum};
use lowwater_wire::udp::{self, UdpRepr, UdpView};
use lowwater_wire::{checksum, protocol};
use std::collections::BTreeMap;
use std::process::Command;

pub(crate) const LOCAL: [&str; 2] = ["10.0.0.1", "fd00::1"];
pub(crate) const REMOTE: [&str; 2] = ["10.0.0.2", "fd00::2"];
/// A descriptor that nobody has.
pub(crate) const NOBODY: Fd = 1_000_000;
/// Ports from here on are the system's choice and differ.
const CHOSEN: u16 = 32_768;
/// Ports below are names: each run has its own.
const NAMED: u16 = 8;
const LOCAL_BASE: u16 = 2_000;
const REMOTE_BASE: u16 = 20_000;
/// Runs in one namespace.
const RUNS_MAX: u16 = 1_500;
const PEER_ISN: u32 = 7_000_000;

/// One segment or message of the peer, from one of its named ports.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Act {
    /// A SYN to a named port of the stack.
    Syn(u16),
    SynAck,
    /// The SYN of one who opens at the same time.
    Crossed,
    /// Everything is acknowledged, with this window.
    Ack(u16),
    /// An acknowledgement of nothing new.
    Old,
    Data(usize),
    /// The last byte is urgent.
    Urgent(usize),
    /// Data with a FIN behind it.
    Fin(usize),
    /// A FIN that acknowledges nothing new.
    FinAlone,
    Rst,
    /// Data beyond a hole of so many bytes.
    Beyond(u32, usize),
    /// ICMP's type and code, quoting the last packet that was sent.
    Icmp(u8, u8),
    /// A datagram to a named port of the stack, or to whoever sent one before.
    Datagram(Option<u16>, usize),
}

/// A call whose descriptors are the indices of the calls that made them, or something that the peer does.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Call(Call),
    /// From a named port of the peer, over IPv6 or not.
    Peer(u16, bool, Act),
    /// So many milliseconds pass.
    Wait(u64),
}

/// What the peer knows of one of its ports.
#[derive(Clone, Debug, Default)]
struct Flow {
    /// The stack's port.
    port: u16,
    isn: u32,
    next: u32,
    /// What the peer has acknowledged.
    acked: u32,
    /// The peer's own next number.
    mine: u32,
    last: Bytes,
}

pub(crate) trait Machine {
    fn ask(&mut self, call: Call) -> Started;
    fn give(&mut self, packet: Bytes);
    fn sent(&mut self) -> Option<Bytes>;
    /// A tick or two of the kernel's clock.
    fn tick(&mut self) {}
    /// So many nanoseconds pass.
    fn pass(&mut self, ns: u64);
}

impl Machine for Host {
    fn ask(&mut self, call: Call) -> Started {
        self.advance_until(self.now().plus_nanos(1));
        self.call(call)
    }
    fn give(&mut self, packet: Bytes) {
        self.advance_until(self.now().plus_nanos(1));
        self.inject(packet);
    }
    fn sent(&mut self) -> Option<Bytes> {
        self.next_packet(self.now()).map(|sent| sent.bytes)
    }
    fn pass(&mut self, ns: u64) {
        self.advance_until(self.now().plus_nanos(ns));
    }
}

impl Machine for Kernel {
    fn ask(&mut self, call: Call) -> Started {
        self.call(call)
    }
    fn give(&mut self, packet: Bytes) {
        self.inject(packet);
    }
    fn tick(&mut self) {
        self.pass(9_000_000);
    }
    fn sent(&mut self) -> Option<Bytes> {
        let now = self.now();
        self.next_packet(now).map(|sent| sent.bytes)
    }
    fn pass(&mut self, ns: u64) {
        if ns > 0 {
            let at = self.now().plus_nanos(ns);
            self.advance_until(at);
        }
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Which addresses there are: IPv4's, IPv6's.
pub(crate) fn host(families: [bool; 2]) -> Host {
    let mut settings = Settings::default();
    for (at, (prefix, any)) in [(24, "0.0.0.0"), (64, "::")].into_iter().enumerate() {
        if families[at] {
            settings.addresses.push((ip(LOCAL[at]), prefix));
            settings.routes.push((ip(any), 0, None));
        }
    }
    Host::new(settings).unwrap()
}

/// The same of the kernel; the calling thread moves into its namespace.
pub(crate) fn kernel(families: [bool; 2]) -> Kernel {
    let at = usize::from(!families[0]);
    let (local, remote) = (ip(LOCAL[at]), ip(REMOTE[at]));
    let prefix = if at == 0 { 24 } else { 64 };
    let kernel =
        Kernel::new(&World { local, prefix, remote, mtu: 1_500, joined: 0, special_device: false }).unwrap();
    if families == [true, true] {
        for words in [
            ["addr", "add", "fd00::1/64", "dev", "tun0", "nodad"],
            ["route", "add", "::/0", "dev", "tun0", "metric"],
        ] {
            let words: Vec<&str> = if words[5] == "metric" { words[..5].to_vec() } else { words.to_vec() };
            let done = Command::new("ip").arg("-6").args(&words).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
    }
    kernel
}

/// One side with its descriptors and the peer's knowledge.
struct Side<'a> {
    machine: &'a mut dyn Machine,
    fds: BTreeMap<Fd, Fd>,
    flows: BTreeMap<u16, Flow>,
    /// Which of the runs on this machine this is.
    run: u16,
}

fn header(v6: bool, proto: u8, len: usize) -> Vec<u8> {
    if v6 {
        let (IpAddr::V6(src), IpAddr::V6(dst)) = (ip(REMOTE[1]), ip(LOCAL[1])) else { unreachable!() };
        let repr = Ipv6Repr {
            src,
            dst,
            next_header: proto,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
            payload_len: len as u16,
        };
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut bytes);
        return bytes;
    }
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (ip(REMOTE[0]), ip(LOCAL[0])) else { unreachable!() };
    let repr = Ipv4Repr {
        src,
        dst,
        protocol: proto,
        ttl: 64,
        tos: 0,
        ident: 0,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: len as u16,
    };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut bytes);
    bytes
}

fn pseudo(v6: bool, proto: u8, len: usize) -> u64 {
    match (v6, ip(REMOTE[usize::from(v6)]), ip(LOCAL[usize::from(v6)])) {
        (_, IpAddr::V6(src), IpAddr::V6(dst)) => checksum::pseudo_v6(src, dst, proto, len),
        (_, IpAddr::V4(src), IpAddr::V4(dst)) => checksum::pseudo_v4(src, dst, proto, len),
        _ => unreachable!(),
    }
}

fn wrap(v6: bool, proto: u8, payload: &[u8]) -> Bytes {
    let mut bytes = header(v6, proto, payload.len());
    bytes.extend_from_slice(payload);
    bytes.into()
}

fn tcp(v6: bool, repr: &TcpRepr, len: usize) -> Bytes {
    let head = repr.buffer_len();
    let mut segment = vec![0; head + len];
    let sum = pseudo(v6, protocol::TCP, segment.len());
    let (front, payload) = segment.split_at_mut(head);
    repr.emit(front);
    fill_checksum(front, sum, &[payload]);
    wrap(v6, protocol::TCP, &segment)
}

fn datagram(v6: bool, src_port: u16, dst_port: u16, len: usize) -> Bytes {
    let repr = UdpRepr { src_port, dst_port, payload_len: len as u16 };
    let mut bytes = vec![0; repr.buffer_len() + len];
    let sum = pseudo(v6, protocol::UDP, bytes.len());
    let (front, payload) = bytes.split_at_mut(repr.buffer_len());
    repr.emit(front);
    udp::fill_checksum(front, sum, &[payload]);
    wrap(v6, protocol::UDP, &bytes)
}

fn icmp(v6: bool, kind: u8, code: u8, quoted: &[u8]) -> Bytes {
    let mut bytes = vec![kind, code, 0, 0, 0, 0, 0, 0];
    if v6 && kind == 2 {
        bytes[4..8].copy_from_slice(&1_400_u32.to_be_bytes());
    } else if !v6 && kind == 3 && code == 4 {
        bytes[6..8].copy_from_slice(&1_400_u16.to_be_bytes());
    }
    bytes.extend_from_slice(&quoted[..quoted.len().min(548)]);
    let proto = if v6 { protocol::ICMPV6 } else { protocol::ICMP };
    let sum = if v6 { pseudo(v6, proto, bytes.len()) } else { 0 };
    let sum = checksum::finish(sum + checksum::sum(&bytes));
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    wrap(v6, proto, &bytes)
}

impl Side<'_> {
    fn named(&self, ip: IpAddr, port: u16) -> u16 {
        if port == 0 || port >= NAMED {
            return port;
        }
        let theirs = REMOTE.iter().any(|r| self::ip(r) == ip.to_canonical());
        port + 8 * self.run + if theirs { REMOTE_BASE } else { LOCAL_BASE }
    }

    fn unnamed(&self, port: u16) -> u16 {
        let bases = [LOCAL_BASE + 8 * self.run, REMOTE_BASE + 8 * self.run];
        match bases.iter().find(|base| (**base..**base + NAMED).contains(&port)) {
            Some(base) => port - base,
            None if port >= CHOSEN => 0,
            None => port,
        }
    }

    fn remote(&self, port: u16) -> u16 {
        REMOTE_BASE + 8 * self.run + port
    }

    fn name(&self, name: &mut Name) {
        if let Name::Inet(addr) = name {
            let port = self.named(addr.ip(), addr.port());
            addr.set_port(port);
        }
        if let Name::Padded(addr) = name {
            addr.set_port(self.named((*addr.ip()).into(), addr.port()));
        }
    }

    fn numbered(&self, call: &Call) -> Call {
        let mut call = call.clone();
        call.for_each_fd(|fd| *fd = self.fds.get(fd).copied().unwrap_or(NOBODY));
        match &mut call {
            Call::Bind { addr, .. } | Call::Connect { addr, .. } => self.name(addr),
            Call::Send { to, .. } => to.iter_mut().for_each(|to| self.name(to)),
            _ => {}
        }
        call
    }

    fn peer(&mut self, port: u16, v6: bool, act: &Act) {
        let (from, run) = (self.remote(port), self.run);
        let flow = self.flows.entry(port).or_default();
        let mut flags = TcpFlags::ACK;
        let (mut len, mut window, mut urgent, mut skip) = (0, 60_000, 0, 0);
        let mut ack = flow.next;
        let mut options = TcpOptions::EMPTY;
        let (mut advance, mut to) = (0, flow.port);
        match act {
            Act::Syn(port) => {
                (flags, ack, options.mss) = (TcpFlags::SYN, 0, Some(1_000));
                if flow.isn == 0 {
                    (flow.mine, advance) = (0, 1);
                    to = LOCAL_BASE + 8 * run + port;
                    flow.port = to;
                }
            }
            Act::Crossed => (flags, ack, options.mss, advance) = (TcpFlags::SYN, 0, Some(1_000), 1),
            Act::SynAck => {
                flow.mine = 0;
                (flags, options.mss, advance) = (TcpFlags::SYN | TcpFlags::ACK, Some(1_000), 1);
            }
            Act::Ack(w) => window = *w,
            Act::Old => ack = flow.acked.max(1),
            Act::Data(n) => (len, advance) = (*n, *n as u32),
            Act::Urgent(n) => {
                (len, advance, urgent, flags) = (*n, *n as u32, *n as u16, TcpFlags::ACK | TcpFlags::URG);
            }
            Act::Fin(n) => (len, advance, flags) = (*n, *n as u32 + 1, TcpFlags::ACK | TcpFlags::FIN),
            Act::FinAlone => (ack, advance, flags) = (flow.acked.max(1), 1, TcpFlags::ACK | TcpFlags::FIN),
            Act::Rst => flags = TcpFlags::ACK | TcpFlags::RST,
            Act::Beyond(hole, n) => (skip, len) = (*hole, *n),
            Act::Icmp(kind, code) => {
                let packet = icmp(v6, *kind, *code, &flow.last.clone());
                return self.machine.give(packet);
            }
            Act::Datagram(to, n) => {
                let to = to.map_or(flow.port, |to| LOCAL_BASE + 8 * run + to);
                if to == 0 {
                    return;
                }
                return self.machine.give(datagram(v6, from, to, *n));
            }
        }
        if to == 0 {
            return;
        }
        let repr = TcpRepr {
            src_port: from,
            dst_port: to,
            seq: PEER_ISN.wrapping_add(flow.mine).wrapping_add(skip),
            ack: if flags.ack() { flow.isn.wrapping_add(ack) } else { 0 },
            flags,
            window,
            urgent,
            options,
        };
        flow.mine += advance;
        if flags.ack() {
            flow.acked = flow.acked.max(ack);
        }
        self.machine.give(tcp(v6, &repr, len));
        if flags.fin() {
            // Its acknowledgement comes with the next tick.
            self.machine.tick();
        }
    }

    /// Everything that was sent, as text; what goes again is left out.
    fn gather(&mut self) -> String {
        let mut out = String::new();
        while let Some(packet) = self.machine.sent() {
            let (proto, payload) = if let Ok(ip) = Ipv4View::parse(&packet) {
                (ip.protocol(), ip.payload().to_vec())
            } else if let Ok(ip) = Ipv6View::parse(&packet) {
                (ip.next_header(), ip.payload().to_vec())
            } else {
                continue;
            };
            match proto {
                protocol::TCP => self.segment(&packet, &payload, &mut out),
                protocol::UDP => {
                    let Ok(udp) = UdpView::parse(&payload) else { continue };
                    let Some(port) = self.port_of(udp.dst_port()) else { continue };
                    let flow = self.flows.entry(port).or_default();
                    (flow.port, flow.last) = (udp.src_port(), packet.clone());
                    let _ = write!(out, " udp({})", udp.payload().len());
                }
                _ => {}
            }
        }
        out
    }

    fn port_of(&self, port: u16) -> Option<u16> {
        let base = REMOTE_BASE + 8 * self.run;
        (base..base + NAMED).contains(&port).then(|| port - base)
    }

    fn segment(&mut self, packet: &Bytes, payload: &[u8], out: &mut String) {
        let Ok(seg) = TcpView::parse(payload) else { return };
        let Some(port) = self.port_of(seg.dst_port()) else { return };
        let flow = self.flows.entry(port).or_default();
        let flags = seg.flags();
        if flags.syn() {
            let again = flow.port == seg.src_port() && flow.isn == seg.seq();
            (flow.isn, flow.port) = (seg.seq(), seg.src_port());
            if again && flow.next >= 1 && !flags.ack() {
                return;
            }
            flow.next = if again { flow.next.max(1) } else { 1 };
            if !again {
                flow.acked = 0;
            }
        }
        flow.last = packet.clone();
        let seq = seg.seq().wrapping_sub(flow.isn);
        let end = seq + seg.payload().len() as u32 + u32::from(flags.fin());
        if end > seq && !flags.syn() && !flags.rst() {
            if end <= flow.next {
                return;
            }
            flow.next = end;
        }
        let shown: String = [
            (TcpFlags::FIN, 'F'),
            (TcpFlags::SYN, 'S'),
            (TcpFlags::RST, 'R'),
            (TcpFlags::URG, 'U'),
            (TcpFlags::ACK, '.'),
        ]
        .into_iter()
        .filter(|(flag, _)| flags.contains(*flag))
        .map(|(_, letter)| letter)
        .collect();
        let ack = if flags.ack() { seg.ack().wrapping_sub(PEER_ISN) } else { 0 };
        let seq = if flags.rst() && (seg.seq() == 0 || flow.isn == 0) { 0 } else { seq };
        let _ = write!(out, " {shown} {seq}({}) ack {ack}", seg.payload().len());
    }

    fn call(&mut self, index: usize, call: &Call) -> String {
        let numbered = self.numbered(call);
        match self.machine.ask(numbered) {
            Started::Done(reply) => {
                match (call, reply.ret) {
                    (Call::Close { fd }, _) => drop(self.fds.remove(fd)),
                    (Call::Socket { .. } | Call::Accept { .. } | Call::EpollCreate { .. }, fd @ 0..) => {
                        self.fds.insert(index as Fd, fd as Fd);
                    }
                    (Call::Pipe { .. }, 0) => {
                        let (read, write) = reply.pipe.unwrap();
                        self.fds.insert(index as Fd, read);
                        self.fds.insert(index as Fd + 1_000, write);
                    }
                    _ => {}
                }
                self.shown(call, &reply)
            }
            Started::Blocked(_) => "blocks".to_owned(),
        }
    }

    /// What can be compared of a reply, as text.
    fn shown(&self, call: &Call, reply: &Reply) -> String {
        let makes = matches!(call, Call::Socket { .. } | Call::Accept { .. } | Call::EpollCreate { .. });
        let ret = if makes { reply.ret.min(0) } else { reply.ret };
        let mut out = ret.to_string();
        if let Some(errno) = reply.errno {
            let _ = write!(out, " {errno}");
            if let Some(len) = reply.optlen {
                let _ = write!(out, " asks for {len}");
            }
            return out;
        }
        let told = match call {
            Call::Accept { .. } | Call::Getsockname { .. } | Call::Getpeername { .. } => true,
            Call::Recv { kind, .. } => matches!(kind, RecvKind::Recvfrom | RecvKind::Recvmsg),
            _ => false,
        };
        if let Some(addr) = reply.addr.filter(|_| told) {
            let _ = write!(out, " {}", SocketAddr::new(addr.ip(), self.unnamed(addr.port())));
        }
        match call {
            Call::Getsockopt { level, name, .. } if by_chance(*level, *name) => {
                let _ = write!(out, " {} bytes", reply.value.len());
            }
            // What the caller gave is what stays there.
            Call::Ioctl { request, .. }
                if ![SIOCINQ, SIOCOUTQ, SIOCOUTQNSD, SIOCATMARK].map(|r| r as u64).contains(request) => {}
            Call::Getsockopt { .. } | Call::Ioctl { .. } => {
                let value: Vec<u8> = reply.value.to_vec();
                let port = reply.int().and_then(|n| u16::try_from(n).ok()).filter(|n| {
                    *n >= LOCAL_BASE
                        && matches!(call, Call::Getsockopt { level: SOL_IP, name: IP_PROTOCOL, .. })
                });
                let _ = match (port, reply.int()) {
                    (Some(port), _) => write!(out, " port {}", self.unnamed(port)),
                    (_, Some(int)) => write!(out, " {int}"),
                    _ => write!(out, " {value:?}"),
                };
            }
            Call::Recv { kind, flags, .. } => {
                if flags & MSG_TRUNC == 0 {
                    let _ = write!(out, " data {}", reply.data.len());
                }
                if *kind == RecvKind::Recvmsg {
                    let _ = write!(out, " flags {:#x}", reply.msg_flags);
                    for c in &reply.control {
                        let _ = write!(out, " cmsg {} {} {}", c.level, c.ty, c.data.len());
                        if [SCM_TIMESTAMP, SCM_TIMESTAMPNS, SCM_TIMESTAMPING].contains(&c.ty)
                            && c.level == SOL_SOCKET
                        {
                            continue;
                        }
                        let _ = write!(out, " {:?}", &c.data[..c.data.len().min(18)]);
                    }
                }
            }
            _ => {}
        }
        for revents in &reply.revents {
            let _ = write!(out, " revents {revents:#x}");
        }
        for event in &reply.events {
            let _ = write!(out, " event {:#x}", event.events);
        }
        out
    }

    /// What can be asked of every descriptor and changes nothing.
    fn looked(&mut self, steps: &[Step]) -> String {
        let mut out = String::new();
        for (slot, fd) in self.fds.clone() {
            let made = steps.get((slot % 1_000) as usize);
            let fds = vec![PollFd { fd, events: 0x7fff }];
            if let Started::Done(reply) = self.machine.ask(Call::Poll { fds, timeout_ms: 0 }) {
                let _ = write!(out, " [{slot}: poll {:x?}", reply.revents);
            }
            if matches!(made, Some(Step::Call(Call::Socket { .. } | Call::Accept { .. }))) {
                for call in [Call::Getsockname { fd }, Call::Getpeername { fd }] {
                    if let Started::Done(reply) = self.machine.ask(call) {
                        match reply.addr.filter(|_| reply.ret == 0) {
                            Some(addr) => {
                                let _ =
                                    write!(out, " {}", SocketAddr::new(addr.ip(), self.unnamed(addr.port())));
                            }
                            None => out.push_str(" -"),
                        }
                    }
                }
                let state =
                    match self.machine.ask(Call::Getsockopt { fd, level: SOL_TCP, name: TCP_INFO, len: 1 }) {
                        Started::Done(reply) => reply.value.first().copied(),
                        Started::Blocked(_) => None,
                    };
                let _ = write!(out, " s{}", state.unwrap_or(0));
                let requests: &[i32] = match state {
                    Some(7 | 10) => &[SIOCINQ, SIOCATMARK],
                    Some(_) => &[SIOCINQ, SIOCOUTQ, SIOCOUTQNSD, SIOCATMARK],
                    None => &[SIOCINQ, SIOCOUTQ],
                };
                for &request in requests {
                    if let Started::Done(reply) =
                        self.machine.ask(Call::Ioctl { fd, request: request as u64, arg: Some(0) })
                    {
                        let _ =
                            write!(out, " {}", if reply.ret < 0 { -1 } else { reply.int().unwrap_or(-2) });
                    }
                }
            }
            if matches!(made, Some(Step::Call(Call::EpollCreate { .. })))
                && let Started::Done(reply) =
                    self.machine.ask(Call::EpollWait { epfd: fd, max_events: 8, timeout_ms: 0 })
            {
                let events: Vec<_> = reply.events.iter().map(|e| (e.data, e.events)).collect();
                let _ = write!(out, " events {events:x?}");
            }
            out.push(']');
        }
        out
    }

    /// Time passes after what is done: as long as the other side took, in nanoseconds.
    fn step(&mut self, index: usize, steps: &[Step], took: u64) -> String {
        let answer = match &steps[index] {
            Step::Call(call) => self.call(index, call),
            Step::Peer(port, v6, act) => {
                self.peer(*port, *v6, act);
                String::new()
            }
            Step::Wait(ms) => {
                self.machine.pass(if took > 0 { 0 } else { *ms * 1_000_000 });
                String::new()
            }
        };
        self.machine.pass(took);
        let sent = self.gather();
        format!("{answer} |{sent} |{}", self.looked(steps))
    }

    /// Nothing of this run stays.
    fn end(&mut self) {
        let reset =
            lowwater_posix::Optval::Bytes(Bytes::from([1_i32.to_ne_bytes(), 0_i32.to_ne_bytes()].concat()));
        for (_, fd) in core::mem::take(&mut self.fds) {
            let value = reset.clone();
            let _ = self.machine.ask(Call::Setsockopt { fd, level: SOL_SOCKET, name: SO_LINGER, value });
            let _ = self.machine.ask(Call::Close { fd });
        }
        let _ = self.gather();
        for (port, flow) in self.flows.clone() {
            for v6 in [false, true] {
                if flow.port != 0 {
                    self.peer(port, v6, &Act::Rst);
                }
            }
        }
        let _ = self.gather();
    }
}

/// A step, its zeros left out.
fn told(step: &Step) -> String {
    let mut text = format!("{step:?}");
    while let Some(at) = text.find("\\0\\0\\0\\0\\0") {
        let end = at + text[at..].find('"').unwrap_or(0);
        let zeros = (end - at) / 2;
        text.replace_range(at..end, &format!("{zeros} zeros"));
    }
    text
}

/// Options whose value is by chance or has a clock in it.
fn by_chance(level: i32, name: i32) -> bool {
    [(1, 49), (1, 55), (1, 56), (1, 57), (1, 71), (6, 24), (6, 26), (6, 11)].contains(&(level, name))
}

/// A kernel that runs one sequence after the other.
pub(crate) struct Pair {
    families: [bool; 2],
    kernel: Kernel,
    runs: u16,
}

impl Pair {
    pub(crate) fn new(families: [bool; 2]) -> Self {
        Self { families, kernel: kernel(families), runs: 0 }
    }

    /// The first difference, and all steps with their answers up to there.
    pub(crate) fn run(&mut self, steps: &[Step]) -> Option<Vec<String>> {
        if self.runs >= RUNS_MAX {
            (self.kernel, self.runs) = (kernel(self.families), 0);
        }
        self.runs += 1;
        let mut host = host(self.families);
        let mut stack =
            Side { machine: &mut host, fds: BTreeMap::new(), flows: BTreeMap::new(), run: self.runs };
        let mut linux =
            Side { machine: &mut self.kernel, fds: BTreeMap::new(), flows: BTreeMap::new(), run: self.runs };
        let mut lines = Vec::new();
        let mut found = false;
        for (index, step) in steps.iter().enumerate() {
            let before = std::time::Instant::now();
            let theirs = linux.step(index, steps, 0);
            let took = before.elapsed();
            let ours = stack.step(index, steps, took.as_nanos() as u64);
            if ours != theirs {
                lines.push(format!(
                    "{index}: {}\n    stack:  {ours}\n    kernel: {theirs} (after {took:?})",
                    told(step)
                ));
                found = true;
                break;
            }
            lines.push(format!("{index}: {}\n    {ours} (after {took:?})", told(step)));
        }
        linux.end();
        found.then_some(lines)
    }

    /// A difference that shows three times, with whatever can be left out left out; `keep` says which steps must stay.
    pub(crate) fn find(&mut self, steps: &[Step]) -> Option<Vec<String>> {
        let mut worst = self.run(steps)?;
        for _ in 0..2 {
            worst = self.run(steps)?;
        }
        let mut left: Vec<Option<Step>> = steps.iter().cloned().map(Some).collect();
        left.truncate(worst.len());
        let mut at = left.len();
        while at > 0 {
            at -= 1;
            let Some(gone) = left[at].take() else { continue };
            // A step that is left out stays as one that does nothing, so that indices stay.
            let fewer: Vec<Step> = left.iter().map(|s| s.clone().unwrap_or(Step::Wait(0))).collect();
            match self.run(&fewer).filter(|_| self.run(&fewer).is_some()) {
                Some(lines) => {
                    left.truncate(lines.len());
                    worst = lines;
                    at = at.min(left.len());
                }
                None => left[at] = Some(gone),
            }
        }
        worst.retain(|line| !line.contains("Wait(0)"));
        Some(worst)
    }
}

/// Chance by name.
pub(crate) struct Dice(Rng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rng::new(seed))
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0.below(n.max(1) as u64) as usize
    }

    pub(crate) fn one<T: Clone>(&mut self, of: &[T]) -> T {
        let at = self.below(of.len());
        of[at].clone()
    }

    /// One in `n`.
    pub(crate) fn odd(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// What `SEQUENCES=FROM..TO` says.
pub(crate) fn seeds(usual: std::ops::Range<u64>) -> std::ops::Range<u64> {
    match std::env::var("SEQUENCES") {
        Ok(text) => {
            let (from, to) = text.split_once("..").expect("FROM..TO");
            from.parse().unwrap()..to.parse().unwrap()
        }
        Err(_) => usual,
    }
}
