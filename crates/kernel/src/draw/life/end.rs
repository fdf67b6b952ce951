//! Both ends of a drawn life: the application's calls, the peer's packets, and what can be seen of the socket.
use super::super::pace::{Paced, Timed};
use super::super::packet::{self, Ip, PORTS, letters};
use super::super::stack::Place;
use super::peer::Peer;
use super::program::{Act, Offer, PEERS, Program, Segment, level};
use core::fmt;
use core::net::SocketAddr;
use lowwater_core::base::{Duration, Instant};
use lowwater_drill::Target;
use lowwater_posix::{
    Call, CallId, EpollEvent, Name, Optval, Piece, PollFd, RecvKind, Reply, Room, SendKind, Started, abi,
};
use lowwater_wire::protocol;
use lowwater_wire::tcp::{FastOpenCookie, TcpFlags, TcpRepr, TcpView};

/// The controller: what is compared here is not congestion control.
const CONGESTION: &str = "reno";
/// Send buffers do not grow: by how much they would depends on how the kernel is built, beyond what it reserves for headers.
pub(super) const WMEM: &str = "4096 262144 262144";
/// A SYN cookie's timestamp says in its last six bits what was agreed on, and so is up to 64 ms old (`cookie_init_timestamp`): the first round trip
/// follows the clock.
const COOKIE_CLOCK: Duration = Duration::from_millis(64);
/// The TTL of what is sent, where nobody says otherwise.
pub(super) const TTL: u8 = 64;
/// What poll(2) is asked for.
pub(super) const EVENTS: i16 = (abi::POLLIN | abi::POLLOUT | abi::POLLPRI | abi::POLLRDHUP) as i16;
/// Bytes of TCP_INFO.
const INFO_LEN: i32 = 280;
/// What a call came to that waits.
pub(super) const BLOCKS: &str = "blocks";
/// Bytes that a pipe holds.
pub(super) const PIPE: usize = 65_536;
/// Bytes of SO_MEMINFO.
const MEMINFO_LEN: i32 = 36;

/// A segment that was sent, its numbers counted from the SYN; without its timestamp, but with what it echoes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Out {
    /// Microseconds since the beginning.
    pub(super) at: u64,
    pub(super) repr: TcpRepr,
    pub(super) len: u32,
    /// TOS and TTL of its IP header.
    pub(super) header: (u8, u8),
    /// [`Timed::waited`].
    pub(super) waited: Option<u64>,
}

impl Out {
    /// One past its last number.
    pub(super) fn end(&self) -> u32 {
        let flags = self.repr.flags;
        self.repr.seq.wrapping_add(self.len + u32::from(flags.fin()) + u32::from(flags.syn()))
    }

    /// Nothing but an acknowledgement.
    pub(super) fn is_bare(&self) -> bool {
        self.repr.flags == TcpFlags::ACK && self.len == 0
    }

    /// Alike but for the time, and for PSH, which shows where packets were cut below TCP.
    pub(super) fn same(&self, other: &Self) -> bool {
        let facts = |out: &Self| {
            let mut repr = out.repr;
            repr.flags.insert(TcpFlags::PSH);
            (repr, out.len, out.header)
        };
        facts(self) == facts(other)
    }
}

impl fmt::Display for Out {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let r = &self.repr;
        let (tos, ttl) = self.header;
        if (tos, ttl) != (0, TTL) {
            write!(f, "[tos {tos:#x}, ttl {ttl}] ")?;
        }
        write!(f, "{} {}:{}({})", letters(r.flags), r.seq, r.seq.wrapping_add(self.len), self.len)?;
        if r.flags.ack() {
            write!(f, " ack {}", r.ack)?;
        }
        write!(f, " win {}", r.window)?;
        if r.flags.contains(TcpFlags::URG) {
            write!(f, " urg {}", r.urgent)?;
        }
        let o = &r.options;
        let mut words = Vec::new();
        words.extend(o.mss.map(|mss| format!("mss {mss}")));
        words.extend(o.sack_permitted.then(|| "sackOK".to_owned()));
        words.extend(o.timestamps.map(|stamp| format!("ecr {}", stamp.echo)));
        words.extend(o.window_scale.map(|scale| format!("wscale {scale}")));
        words.extend(o.sack.iter().map(|(a, b)| format!("sack {a}:{b}")));
        words.extend(o.fastopen.is_some().then(|| "FO".to_owned()));
        if words.is_empty() { Ok(()) } else { write!(f, " <{}>", words.join(",")) }
    }
}

/// What is seen of the sockets at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// revents of the listener and of the connection.
    pub(super) ready: Vec<i16>,
    /// What epoll_wait tells of the connection.
    pub(super) edges: Vec<u32>,
    /// TCP_INFO of the connection, where there is one, and of the listener.
    pub(super) info: Option<Vec<u8>>,
    pub(super) listener: Option<Vec<u8>>,
    /// SO_MEMINFO of it.
    pub(super) memory: Vec<u8>,
}

/// What was sent to one peer: our first number, and our last timestamp.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    isn: u32,
    stamp: u32,
}

/// Both ends.
pub(super) struct End<'a, T: Target> {
    pub(super) target: &'a mut T,
    place: Place,
    pub(super) base: Instant,
    /// The first socket, which listens or connects.
    pub(super) first: Option<i32>,
    /// The connection, which may be the first socket.
    pub(super) conn: Option<i32>,
    epoll: Option<i32>,
    /// Both ends of the pipe that is spliced from, and what the last write to it came to.
    pipe: Option<(i32, i32)>,
    piped: String,
    blocking: bool,
    /// What was sent to each peer, and whose turn it is.
    sides: [Side; PEERS],
    turn: usize,
    /// The call that has not come back, and what it is.
    blocked: Option<(CallId, Act)>,
}

impl<'a, T: Target> End<'a, T> {
    pub(super) fn open(target: &'a mut T, program: &Program) -> Result<Self, String> {
        for (name, value) in &program.sysctls {
            target.set_sysctl(&format!("net.ipv4.{name}"), &value.to_string())?;
        }
        target.set_sysctl("net.ipv4.tcp_congestion_control", CONGESTION)?;
        target.set_sysctl("net.ipv4.tcp_wmem", WMEM)?;
        let base = target.now();
        let mut end = Self {
            target,
            place: program.place,
            base,
            first: None,
            conn: None,
            epoll: None,
            pipe: None,
            piped: String::new(),
            blocking: program.blocking,
            sides: [Side::default(); PEERS],
            turn: 0,
            blocked: None,
        };
        end.socket()?;
        if program.epoll {
            end.epoll = Some(end.must(Call::EpollCreate { size: 1, flags: 0 })?.ret as i32);
        }
        end.target.align(COOKIE_CLOCK);
        end.base = end.target.now();
        Ok(end)
    }

    /// The first socket, bound to its port.
    fn socket(&mut self) -> Result<(), String> {
        let ty = abi::SOCK_STREAM | self.waits();
        let domain = if self.place.v6 { abi::AF_INET6 } else { abi::AF_INET };
        let fd = self.must(Call::Socket { domain, ty, protocol: abi::IPPROTO_TCP })?.ret as i32;
        self.first = Some(fd);
        let (level, name) = (abi::SOL_SOCKET, abi::SO_REUSEADDR);
        self.must(Call::Setsockopt { fd, level, name, value: Optval::int(1) })?;
        let addr = Name::Inet(SocketAddr::from((self.place.ends().0, PORTS.0)));
        self.must(Call::Bind { fd, addr }).map(|_| ())
    }

    /// SOCK_NONBLOCK for calls that make sockets, unless those block.
    const fn waits(&self) -> i32 {
        if self.blocking { 0 } else { abi::SOCK_NONBLOCK }
    }

    fn must(&mut self, call: Call) -> Result<Reply, String> {
        let what = format!("{call:?}");
        match self.target.call(call) {
            Started::Done(reply) if reply.ret >= 0 => Ok(reply),
            Started::Done(reply) => Err(format!("{what}: {:?}", reply.errno)),
            Started::Blocked(_) => Err(format!("{what}: it blocks")),
        }
    }

    /// Microseconds since the beginning.
    pub(super) fn at(&self, t: Instant) -> u64 {
        t.nanos_since(self.base) / 1_000
    }

    /// The instant that is so many microseconds after the beginning.
    pub(super) fn instant(&self, at: u64) -> Instant {
        self.base + Duration::from_micros(at)
    }

    /// A call of the application is still waiting.
    pub(super) const fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// A step of the program; what its call came to.
    pub(super) fn act(&mut self, act: &Act) -> String {
        if *act == Act::Socket {
            return self.anew();
        }
        let Some(call) = self.call_of(act) else { return String::new() };
        let reply = match self.target.call(call) {
            Started::Done(reply) => reply,
            Started::Blocked(id) => {
                self.blocked = Some((id, act.clone()));
                self.forget(act);
                return match act {
                    Act::Splice(..) => format!("{}, {BLOCKS}", self.piped),
                    _ => BLOCKS.to_owned(),
                };
            }
        };
        self.forget(act);
        self.told(act, &reply)
    }

    /// A new socket in the place of the first.
    fn anew(&mut self) -> String {
        if let Some(fd) = self.first.take() {
            self.quiet(Call::Close { fd });
        }
        self.conn = None;
        self.socket().map_or_else(|why| why, |()| "fd".to_owned())
    }

    /// What the call of a step came to.
    fn told(&mut self, act: &Act, reply: &Reply) -> String {
        if matches!(act, Act::Splice(..)) {
            return format!("{}, {}", self.piped, plain(reply));
        }
        if reply.errno.is_some() {
            return plain(reply);
        }
        match act {
            Act::Accept => {
                self.watch(reply.ret as i32);
                let port = reply.addr.map_or(0, |addr| addr.port().wrapping_sub(PORTS.1));
                format!("fd of {port}")
            }
            Act::Error | Act::Ioctl(_) | Act::Get(_) => {
                reply.int().map_or_else(String::new, |value| value.to_string())
            }
            _ => plain(reply),
        }
    }

    /// Descriptors that are gone, and the connection that a connect begins.
    fn forget(&mut self, act: &Act) {
        match act {
            Act::Close if self.conn == self.first => (self.conn, self.first) = (None, None),
            Act::Close => self.conn = None,
            Act::CloseListener => self.first = None,
            Act::Connect | Act::Fast(..) => {
                if let Some(fd) = self.first {
                    self.watch(fd);
                }
            }
            _ => {}
        }
    }

    fn watch(&mut self, fd: i32) {
        if self.conn.replace(fd) == Some(fd) {
            return;
        }
        if let Some(epfd) = self.epoll {
            let all = abi::EPOLLIN | abi::EPOLLOUT | abi::EPOLLPRI | abi::EPOLLRDHUP | abi::EPOLLET;
            let event = Some(EpollEvent { events: all, data: 0 });
            let call = Call::EpollCtl { epfd, op: abi::EPOLL_CTL_ADD, fd, event };
            // A socket that cannot be watched tells nothing, which the other side would not do.
            let _ = self.target.call(call);
        }
    }

    /// The call of a step; a packet is sent at once.
    fn call_of(&mut self, act: &Act) -> Option<Call> {
        let fd = self.conn.or(self.first).unwrap_or(-1);
        let first = self.first.unwrap_or(-1);
        Some(match act {
            Act::Packet(segment) => {
                self.inject(segment);
                return None;
            }
            Act::Icmp(kind, code, mtu, seq) => {
                let seq = self.side().isn.wrapping_add(*seq);
                let ports = (PORTS.0, self.port());
                self.target.inject(packet::icmp(self.place.v6, (*kind, *code, *mtu), ports, seq));
                return None;
            }
            Act::Disconnect => Call::Connect { fd, addr: Name::UNSPEC },
            Act::Get(name) => {
                let (level, number) = option(name);
                Call::Getsockopt { fd, level, name: number, len: 4 }
            }
            Act::Socket => return None,
            Act::Turn(peer) => {
                self.turn = usize::from(*peer).min(PEERS - 1);
                return None;
            }
            Act::Listen(backlog) => Call::Listen { fd: first, backlog: *backlog },
            Act::Connect => Call::Connect { fd: first, addr: self.remote() },
            Act::Accept => Call::Accept { fd: first, flags: self.waits() },
            Act::Set(name, value) => {
                let (level, number) = option(name);
                Call::Setsockopt { fd, level, name: number, value: value_of(name, *value) }
            }
            Act::Splice(len, flags) => {
                let fd_in = self.fill_pipe(*len)?;
                let (off_in, off_out) = (None, None);
                Call::Splice { fd_in, off_in, fd_out: fd, off_out, len: PIPE, flags: *flags }
            }
            Act::Shutdown(how) => Call::Shutdown { fd, how: *how },
            Act::Close => Call::Close { fd },
            Act::CloseListener => Call::Close { fd: first },
            Act::Error => Call::Getsockopt { fd, level: abi::SOL_SOCKET, name: abi::SO_ERROR, len: 4 },
            Act::Ioctl(name) => Call::Ioctl { fd, request: number(name) as u64, arg: Some(0) },
            Act::Fast(len, flags) => send(first, SendKind::Sendto, &[*len], *flags, Some(self.remote())),
            Act::Write(len, flags) => send(fd, SendKind::Send, &[*len], *flags, None),
            Act::Gather(lens, 0) => send(fd, SendKind::Writev, lens, 0, None),
            Act::Gather(lens, flags) => send(fd, SendKind::Sendmsg, lens, *flags, None),
            Act::Read(len, flags) => recv(fd, RecvKind::Recv, &[*len], *flags),
            Act::Scatter(lens, 0) => recv(fd, RecvKind::Readv, lens, 0),
            Act::Scatter(lens, flags) => recv(fd, RecvKind::Recvmsg, lens, *flags),
        })
    }

    /// Puts so many bytes into the pipe, as far as there is room, and tells where they come out.
    fn fill_pipe(&mut self, len: usize) -> Option<i32> {
        if self.pipe.is_none() {
            self.pipe = self.quiet(Call::Pipe { flags: abi::O_NONBLOCK }).pipe;
        }
        let (from, into) = self.pipe?;
        let written = self.quiet(send(into, SendKind::Write, &[len], 0, None));
        self.piped = plain(&written);
        Some(from)
    }

    /// The peer's address.
    fn remote(&self) -> Name {
        Name::Inet(SocketAddr::from((self.place.ends().1, PORTS.1)))
    }

    /// Whose turn it is.
    fn side(&self) -> Side {
        self.sides.get(self.turn).copied().unwrap_or_default()
    }

    /// Its port.
    const fn port(&self) -> u16 {
        PORTS.1 + self.turn as u16
    }

    fn inject(&mut self, s: &Segment) {
        let Side { isn, stamp } = self.side();
        let options = s.options(isn, stamp);
        let ack = if s.flags.ack() { isn.wrapping_add(s.ack) } else { 0 };
        let (src_port, dst_port) = (self.port(), PORTS.0);
        let (seq, flags, window, urgent) = (s.seq, s.flags, s.window, s.urgent);
        let repr = TcpRepr { src_port, dst_port, seq, ack, flags, window, urgent, options };
        self.target.inject(packet::build(self.place.v6, &repr, s.tos, s.len.into()));
    }

    /// The call that waited has come back: when, and with what.
    pub(super) fn woken(&mut self) -> Option<(Instant, String)> {
        let (id, act) = self.blocked.take()?;
        let Some((at, reply)) = self.target.take(id) else {
            self.blocked = Some((id, act));
            return None;
        };
        Some((at, self.told(&act, &reply)))
    }

    /// Looks at the sockets.
    pub(super) fn look(&mut self) -> Look {
        let both = [self.first.filter(|_| self.first != self.conn), self.conn];
        let fds: Vec<PollFd> = both.into_iter().flatten().map(|fd| PollFd { fd, events: EVENTS }).collect();
        let ready = match fds.is_empty() {
            true => Vec::new(),
            false => self.quiet(Call::Poll { fds, timeout_ms: 0 }).revents,
        };
        let edges = match self.epoll {
            None => Vec::new(),
            Some(epfd) => {
                let wait = Call::EpollWait { epfd, max_events: 4, timeout_ms: 0 };
                self.quiet(wait).events.iter().map(|event| event.events).collect()
            }
        };
        let (level, name, len) = (abi::SOL_TCP, abi::TCP_INFO, INFO_LEN);
        let mut info = |fd| self.quiet(Call::Getsockopt { fd, level, name, len }).value.to_vec();
        let listener = both[0].map(&mut info);
        let conn = both[1].map(info);
        let (level, name, len) = (abi::SOL_SOCKET, abi::SO_MEMINFO, MEMINFO_LEN);
        let memory = self.conn.map(|fd| self.quiet(Call::Getsockopt { fd, level, name, len }).value.to_vec());
        Look { ready, edges, info: conn, listener, memory: memory.unwrap_or_default() }
    }

    fn quiet(&mut self, call: Call) -> Reply {
        match self.target.call(call) {
            Started::Done(reply) => reply,
            Started::Blocked(_) => Reply::default(),
        }
    }
}

/// How large the send buffer of a connection is by default whose peer's SYN has this MSS, as SO_SNDBUF tells it.
pub(in super::super) fn sndbuf<T: Target>(target: &mut T, mss: u16) -> Result<String, String> {
    let place = Place::default();
    let (sysctls, steps) = (Vec::new(), Vec::new());
    let program = Program { place, sysctls, epoll: false, blocking: false, crowd: false, steps, end: 0 };
    let mut end = End::open(target, &program)?;
    end.target.set_sysctl("net.ipv4.tcp_wmem", "4096 4608 4194304")?;
    let offer = Offer { mss: Some(mss), scale: None, sack: false, cookie: None };
    let peer = Peer::new(offer, false, u16::MAX);
    let ack = Segment { seq: 1, ack: 1, ..peer.ack(0) };
    let acts = [Act::Socket, Act::Listen(1), Act::Packet(peer.syn(0, false)), Act::Packet(ack), Act::Accept];
    for act in acts {
        end.act(&act);
        end.collect();
    }
    match end.act(&Act::Get("SO_SNDBUF")) {
        told if told.parse().is_ok_and(|bytes: u32| bytes > 0) && end.conn.is_some() => Ok(told),
        told => Err(format!("a connection has no send buffer: {told}")),
    }
}

/// What a call came to that tells a number.
fn plain(reply: &Reply) -> String {
    reply.errno.map_or_else(|| reply.ret.to_string(), |errno| format!("-1 {errno}"))
}

fn send(fd: i32, kind: SendKind, lens: &[usize], flags: i32, to: Option<Name>) -> Call {
    let data = lens.iter().map(|len| Piece::zeros(*len)).collect();
    Call::Send { fd, kind, data, flags, to, control: vec![] }
}

fn recv(fd: i32, kind: RecvKind, lens: &[usize], flags: i32) -> Call {
    let rooms = lens.iter().map(|len| Room::new(*len)).collect();
    Call::Recv { fd, kind, rooms, flags, control_len: 0 }
}

/// Level and number of an option.
fn option(name: &str) -> (i32, i32) {
    (level(name).0, number(name) as i32)
}

fn number(name: &str) -> i64 {
    abi::NAMES.iter().find(|(known, _)| *known == name).map_or(0, |(_, number)| *number)
}

/// Milliseconds as the two numbers of a struct timeval.
pub(super) fn timeval(ms: i32) -> (i64, i64) {
    let ms = i64::from(ms);
    (ms / 1_000, ms % 1_000 * 1_000)
}

fn value_of(name: &str, value: i32) -> Optval {
    match name {
        "SO_RCVTIMEO" | "SO_SNDTIMEO" => {
            let (seconds, micros) = timeval(value);
            Optval::Bytes([seconds.to_ne_bytes(), micros.to_ne_bytes()].concat().into())
        }
        "SO_LINGER" => {
            let (on, time) = (i32::from(value >= 0), value.max(0));
            Optval::Bytes([on.to_ne_bytes(), time.to_ne_bytes()].concat().into())
        }
        _ => Optval::int(value),
    }
}

impl<T: Target> Paced for End<'_, T> {
    type Out = Out;

    fn parts(&mut self) -> (&mut dyn Target, &mut Instant) {
        (self.target, &mut self.base)
    }

    fn next_until(&mut self, limit: Instant) -> Option<Out> {
        while let Some(sent) = self.target.next_packet(limit) {
            let ip = Ip::parse(&sent.bytes).filter(|ip| ip.protocol == protocol::TCP);
            let Some(tcp) = ip.as_ref().and_then(|ip| TcpView::parse(ip.payload).ok()) else { continue };
            let mut repr = TcpRepr::parse(&tcp);
            let peer = usize::from(repr.dst_port.wrapping_sub(PORTS.1));
            let Some(side) = self.sides.get_mut(peer) else { continue };
            if repr.flags.syn() {
                side.isn = repr.seq;
            }
            // A reset without a connection begins at 0.
            if repr.seq != 0 || !repr.flags.rst() {
                repr.seq = repr.seq.wrapping_sub(side.isn);
            }
            if let Some(stamp) = &mut repr.options.timestamps {
                side.stamp = stamp.value;
                stamp.value = 0;
            }
            // Cookies of ours are drawn from keys of each.
            if let Some(cookie) = repr.options.fastopen.as_mut().filter(|_| repr.flags.ack()) {
                *cookie = FastOpenCookie::REQUEST;
            }
            let (at, len) = (self.at(sent.at), tcp.payload().len() as u32);
            let header = ip.as_ref().map_or((0, TTL), |ip| (ip.tos, ip.ttl));
            return Some(Out { at, repr, len, header, waited: None });
        }
        None
    }
}

impl Timed for Out {
    fn at(&self) -> u64 {
        self.at
    }

    fn waited(&self) -> Option<u64> {
        self.waited
    }

    fn note(&mut self, waited: Option<u64>) {
        self.waited = waited;
    }
}
