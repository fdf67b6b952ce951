//! The other end of a drawn connection, and the calls of the application on this end.
use super::pace::Paced;
use super::packet::{self, PORTS, Seen};
use super::program::{Act, Answer, Setup, Step};
use super::stack::{LOCAL, Stack};
use core::net::SocketAddr;
use lowwater_core::base::{Duration, Instant};
use lowwater_drill::Target;
use lowwater_posix::{Call, Name, Optval, Piece, Reply, SendKind, Started, abi};
use lowwater_wire::tcp::{TcpFlags, TcpOptions, TcpRepr, Timestamps};

/// The peer's scale, and the window of its SYN.
pub(super) const SCALE: u8 = 7;
pub(super) const SYN_WINDOW: u16 = 65_535;
/// How long the SYN-ACK is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// The peer's clock at the SYN, in milliseconds. It goes by the times of the program, so that what is echoed of it can be compared.
const CLOCK: u64 = 100_000;
/// Send buffer, so that writes never block.
const SNDBUF: i32 = 1 << 20;
const AF_INET: i32 = 2;
const SOCK_STREAM: i32 = 1;
const TCP: i32 = 6;

/// The peer, with what it has seen.
pub(super) struct Peer<'a, T: Target> {
    pub(super) target: &'a mut T,
    /// When the SYN left.
    pub(super) base: Instant,
    fd: i32,
    isn: u32,
    /// The peer's next byte.
    next: u32,
    setup: Setup,
    /// The timestamp of the SYN-ACK.
    first_stamp: u32,
    /// By how much the end of the handshake was late.
    pub(super) late: Duration,
    seen: Vec<Seen>,
    /// The time of the program, in microseconds.
    now: u64,
}

impl<'a, T: Target> Peer<'a, T> {
    /// Opens the connection of a program: the application listens, the peer connects.
    pub(super) fn open(target: &'a mut T, setup: &Setup) -> Result<Self, String> {
        for (name, value) in &setup.sysctls {
            target.set_sysctl(&format!("net.ipv4.{name}"), &value.to_string())?;
        }
        target.set_sysctl("net.ipv4.tcp_congestion_control", setup.congestion)?;
        let base = target.now();
        let (setup, late, seen) = (setup.clone(), Duration::ZERO, Vec::new());
        let mut peer =
            Self { target, base, fd: -1, isn: 0, next: 1, setup, first_stamp: 0, late, seen, now: 0 };
        peer.handshake()?;
        peer.options()?;
        peer.collect();
        Ok(peer)
    }

    fn handshake(&mut self) -> Result<(), String> {
        let fd = self.call(Call::Socket { domain: AF_INET, ty: SOCK_STREAM, protocol: TCP })?.ret as i32;
        self.call(Call::Bind { fd, addr: Name::Inet(SocketAddr::from((LOCAL, PORTS.0))) })?;
        self.call(Call::Listen { fd, backlog: 5 })?;
        self.base = self.target.now();
        self.syn();
        let limit = self.target.now() + PATIENCE;
        let answer =
            core::iter::from_fn(|| self.target.next_packet(limit)).find_map(|p| Seen::parse(&p.bytes));
        let answer = answer.ok_or("the SYN is not answered")?;
        (self.isn, self.first_stamp) = (answer.seq, answer.stamp.unwrap_or(0));
        let at = self.base + Duration::from_micros(self.setup.rtt + self.setup.late);
        self.target.advance_until(at);
        self.late = self.target.now().since(at);
        self.now = self.setup.rtt;
        let first = Answer { ack: 1, sacks: vec![], echo: (0, 0), len: 0, ece: false, window: None };
        self.answer(&first);
        self.fd = self.call(Call::Accept { fd, flags: abi::SOCK_NONBLOCK })?.ret as i32;
        Ok(())
    }

    fn options(&mut self) -> Result<(), String> {
        let fd = self.fd;
        let mut set = |level, name, value| {
            self.call(Call::Setsockopt { fd, level, name, value: Optval::int(value) }).map(|_| ())
        };
        set(abi::SOL_SOCKET, abi::SO_SNDBUF, SNDBUF)?;
        let (nodelay, thin) = (self.setup.nodelay, self.setup.thin);
        let mut set =
            |name| self.call(Call::Setsockopt { fd, level: TCP, name, value: Optval::int(1) }).map(|_| ());
        if nodelay {
            set(abi::TCP_NODELAY)?;
        }
        if thin {
            set(abi::TCP_THIN_LINEAR_TIMEOUTS)?;
        }
        Ok(())
    }

    /// A call that must not fail.
    fn call(&mut self, call: Call) -> Result<Reply, String> {
        let what = format!("{call:?}");
        match self.target.call(call) {
            Started::Done(reply) if reply.ret >= 0 => Ok(reply),
            Started::Done(reply) => Err(format!("{what}: {:?}", reply.errno)),
            Started::Blocked(_) => Err(format!("{what}: it blocks")),
        }
    }

    /// Microseconds since the SYN.
    fn at(&self, t: Instant) -> u64 {
        t.nanos_since(self.base) / 1_000
    }

    const fn clock(&self) -> u32 {
        (CLOCK + self.now / 1_000) as u32
    }

    fn repr(&self, flags: TcpFlags, options: TcpOptions) -> TcpRepr {
        let (src_port, dst_port) = (PORTS.1, PORTS.0);
        TcpRepr { src_port, dst_port, seq: 0, ack: 0, flags, window: SYN_WINDOW, urgent: 0, options }
    }

    fn syn(&mut self) {
        let options = TcpOptions {
            mss: Some(self.setup.mss),
            window_scale: Some(SCALE),
            sack_permitted: self.setup.sack,
            timestamps: self.setup.timestamps.then(|| Timestamps { value: self.clock(), echo: 0 }),
            ..TcpOptions::default()
        };
        let mut flags = TcpFlags::SYN;
        if self.setup.ecn {
            flags.insert(TcpFlags::ECE);
            flags.insert(TcpFlags::CWR);
        }
        let packet = packet::build(false, &self.repr(flags, options), 0, 0);
        self.target.inject(packet);
    }

    fn answer(&mut self, answer: &Answer) {
        let mut options = TcpOptions::default();
        if self.setup.timestamps {
            options.timestamps = Some(Timestamps { value: self.clock(), echo: self.echo(answer.echo) });
        }
        let room = if self.setup.timestamps { 3 } else { 4 };
        for (from, to) in answer.sacks.iter().take(room) {
            options.sack.push(self.isn.wrapping_add(*from), self.isn.wrapping_add(*to));
        }
        let mut flags = TcpFlags::ACK;
        if answer.ece {
            flags.insert(TcpFlags::ECE);
        }
        if answer.len > 0 {
            flags.insert(TcpFlags::PSH);
        }
        let (seq, ack) = (self.next, self.isn.wrapping_add(answer.ack));
        let window = answer.window.unwrap_or(self.setup.window);
        let repr = TcpRepr { seq, ack, window, ..self.repr(flags, options) };
        self.next += u32::from(answer.len);
        let packet = packet::build(false, &repr, 0, answer.len.into());
        self.target.inject(packet);
    }

    /// The timestamp of a transmission; where there was none, of what was sent last.
    fn echo(&self, (byte, nth): (u32, usize)) -> u32 {
        let of: Vec<&Seen> =
            self.seen.iter().filter(|s| s.len > 0 && s.seq <= byte && byte < s.seq + s.len).collect();
        let found = of.get(nth.min(of.len().saturating_sub(1))).and_then(|seen| seen.stamp);
        found.or_else(|| self.seen.last().and_then(|seen| seen.stamp)).unwrap_or(self.first_stamp)
    }

    /// A step of the program; the result of its call.
    pub(super) fn act(&mut self, step: &Step) -> i64 {
        self.now = step.at;
        let call = match &step.act {
            Act::Answer(answer) => {
                self.answer(answer);
                return 0;
            }
            Act::Write(len) => Call::Send {
                fd: self.fd,
                kind: SendKind::Write,
                data: vec![Piece::zeros(*len)],
                flags: 0,
                to: None,
                control: vec![],
            },
            Act::Shutdown => Call::Shutdown { fd: self.fd, how: abi::SHUT_WR },
        };
        self.call(call).map_or(-1, |reply| reply.ret)
    }

    /// TCP_INFO as bytes; short where there is none.
    pub(super) fn info(&mut self) -> Vec<u8> {
        let (fd, level, name, len) = (self.fd, TCP, abi::TCP_INFO, 280);
        self.call(Call::Getsockopt { fd, level, name, len }).map_or(Vec::new(), |reply| reply.value.to_vec())
    }
}

impl Peer<'_, Stack> {
    /// How many packets of data the last event made leave, and how many of them went again before the first new ones; `nxt` is what comes after
    /// all that had left.
    pub(super) fn parts(&mut self, nxt: &mut u32) -> (usize, usize) {
        let outs: Vec<_> =
            self.target.outs().iter().map(|(seq, len)| (seq.wrapping_sub(self.isn), *len)).collect();
        let again = outs.iter().take_while(|(seq, _)| seq < nxt).count();
        *nxt = outs.iter().map(|(seq, len)| seq.wrapping_add(*len)).fold(*nxt, u32::max);
        (outs.len(), again)
    }
}

impl<T: Target> Paced for Peer<'_, T> {
    type Out = Seen;

    fn parts(&mut self) -> (&mut dyn Target, &mut Instant) {
        (self.target, &mut self.base)
    }

    fn next_until(&mut self, limit: Instant) -> Option<Seen> {
        while let Some(packet) = self.target.next_packet(limit) {
            if let Some(seen) = Seen::parse(&packet.bytes) {
                let seen = seen.number(self.isn, self.at(packet.at));
                self.seen.push(seen.clone());
                return Some(seen);
            }
        }
        None
    }
}
