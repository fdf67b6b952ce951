//! A drawn life of a connection as a value.
use super::super::pace;
use super::super::packet::letters;
use super::super::program::Flavours;
use super::super::stack::Place;
use core::fmt;
use lowwater_posix::abi;
use lowwater_wire::tcp::{FastOpenCookie, HEADER_LEN, TcpFlags, TcpOptions, Timestamps};

/// What the peer's SYN offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) mss: Option<u16>,
    pub(super) scale: Option<u8>,
    pub(super) sack: bool,
    pub(super) cookie: Option<Cookie>,
}

/// The Fast Open option of a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cookie {
    Request,
    /// Eight bytes that nobody gave.
    Wrong,
    /// So many bytes that the peer gives.
    Given(u8),
}

impl Cookie {
    /// The option.
    pub(super) fn option(self) -> Option<FastOpenCookie> {
        match self {
            Self::Request => Some(FastOpenCookie::REQUEST),
            Self::Wrong => FastOpenCookie::new(&[1, 2, 3, 4, 5, 6, 7, 8]),
            Self::Given(len) => FastOpenCookie::new(&vec![GIVEN; len.into()]),
        }
    }
}

/// What a cookie of the peer consists of.
const GIVEN: u8 = 0xab;

/// A segment of the peer. Its own numbers begin at 0, those of the stack at its SYN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) flags: TcpFlags,
    pub(super) seq: u32,
    pub(super) len: u16,
    pub(super) ack: u32,
    pub(super) window: u16,
    pub(super) urgent: u16,
    /// The TOS of its IP header, with the two bits of ECN.
    pub(super) tos: u8,
    /// The timestamp, and how many milliseconds before the last one that it saw the one it echoes is.
    pub(super) stamp: Option<(u32, u32)>,
    pub(super) sacks: Vec<(u32, u32)>,
    /// With SYN.
    pub(super) offer: Option<Offer>,
}

impl Segment {
    /// Its options, beside a stack whose numbers begin at `isn` and whose last timestamp was `stamp`.
    pub(super) fn options(&self, isn: u32, stamp: u32) -> TcpOptions {
        let echo = |back: u32| if self.flags.ack() { stamp.wrapping_sub(back) } else { 0 };
        let mut options = TcpOptions {
            timestamps: self.stamp.map(|(value, back)| Timestamps { value, echo: echo(back) }),
            ..TcpOptions::default()
        };
        for (from, to) in &self.sacks {
            options.sack.push(isn.wrapping_add(*from), isn.wrapping_add(*to));
        }
        if let Some(Offer { mss, scale, sack, cookie }) = self.offer {
            (options.mss, options.window_scale, options.sack_permitted) = (mss, scale, sack);
            options.fastopen = cookie.and_then(Cookie::option);
        }
        options
    }

    /// Bytes of its header.
    pub(super) fn header_len(&self) -> u32 {
        (HEADER_LEN + self.options(0, 0).buffer_len()) as u32
    }
}

/// Peers of a crowd.
pub(super) const PEERS: usize = 5;

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// A new socket in the place of the first, which is closed.
    Socket,
    /// With a backlog.
    Listen(i32),
    /// Another peer has its turn: what comes is its own from now on.
    Turn(u8),
    Connect,
    Accept,
    /// An option by its name, and its value. SO_LINGER's is its time, and below 0 it is off.
    Set(&'static str, i32),
    Write(usize, i32),
    /// sendto with MSG_FASTOPEN, to the peer.
    Fast(usize, i32),
    Read(usize, i32),
    /// writev, or with flags sendmsg, of pieces; readv, or with flags recvmsg, into rooms.
    Gather(Vec<usize>, i32),
    Scatter(Vec<usize>, i32),
    /// So many bytes come into a pipe, and splice() moves all that it holds into the socket, with flags; sendfile() consists of that.
    Splice(usize, u32),
    Shutdown(i32),
    Close,
    CloseListener,
    /// SO_ERROR is read, which clears it.
    Error,
    Ioctl(&'static str),
    /// The value of an option.
    Get(&'static str),
    /// connect to AF_UNSPEC.
    Disconnect,
    Packet(Segment),
    /// Type, code and MTU of a message, and the number of the segment that it quotes.
    Icmp(u8, u8, u16, u32),
}

/// Number and name of the level of an option.
pub(super) fn level(option: &str) -> (i32, &'static str) {
    match option {
        name if name.starts_with("TCP_") => (abi::SOL_TCP, "SOL_TCP"),
        name if name.starts_with("IPV6_") => (abi::SOL_IPV6, "SOL_IPV6"),
        name if name.starts_with("IP_") => (abi::SOL_IP, "SOL_IP"),
        _ => (abi::SOL_SOCKET, "SOL_SOCKET"),
    }
}

/// What an option of IPv4 is called over the IP that is asked for.
pub(super) fn named(words: &Flavours, name: &'static str) -> &'static str {
    const NAMES: [(&str, &str); 4] = [
        ("IP_TOS", "IPV6_TCLASS"),
        ("IP_TTL", "IPV6_UNICAST_HOPS"),
        ("IP_RECVERR", "IPV6_RECVERR"),
        ("IP_MTU_DISCOVER", "IPV6_MTU_DISCOVER"),
    ];
    let other = NAMES.iter().find(|(known, _)| words.has("ipv6") && *known == name);
    other.map_or(name, |(_, other)| other)
}

/// Flags of the calls that send and receive, as scripts name them.
pub(super) fn msg_flags(flags: i32) -> String {
    const NAMES: [(i32, &str); 8] = [
        (abi::MSG_FASTOPEN, "MSG_FASTOPEN"),
        (abi::MSG_EOR, "MSG_EOR"),
        (abi::MSG_DONTWAIT, "MSG_DONTWAIT"),
        (abi::MSG_WAITALL, "MSG_WAITALL"),
        (abi::MSG_OOB, "MSG_OOB"),
        (abi::MSG_PEEK, "MSG_PEEK"),
        (abi::MSG_MORE, "MSG_MORE"),
        (abi::MSG_TRUNC, "MSG_TRUNC"),
    ];
    let names: Vec<&str> =
        NAMES.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, name)| *name).collect();
    if names.is_empty() { "0".to_owned() } else { names.join("|") }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket => f.write_str("socket"),
            Self::Listen(backlog) => write!(f, "listen {backlog}"),
            Self::Turn(peer) => write!(f, "peer {peer}"),
            Self::Connect => f.write_str("connect"),
            Self::Accept => f.write_str("accept"),
            Self::Set(name, value) => write!(f, "{name} {value}"),
            Self::Write(len, flags) | Self::Fast(len, flags) => {
                write!(f, "write {len} {}", msg_flags(*flags))
            }
            Self::Read(len, flags) => write!(f, "read {len} {}", msg_flags(*flags)),
            Self::Gather(lens, flags) => write!(f, "write {lens:?} {}", msg_flags(*flags)),
            Self::Splice(len, flags) => write!(f, "splice {len} {flags}"),
            Self::Scatter(lens, flags) => write!(f, "read {lens:?} {}", msg_flags(*flags)),
            Self::Shutdown(how) => write!(f, "shutdown {how}"),
            Self::Close => f.write_str("close"),
            Self::CloseListener => f.write_str("close the listener"),
            Self::Error => f.write_str("SO_ERROR"),
            Self::Ioctl(name) | Self::Get(name) => f.write_str(name),
            Self::Disconnect => f.write_str("disconnect"),
            Self::Icmp(kind, code, mtu, seq) => write!(f, "< icmp {kind} {code} mtu {mtu} [{seq}]"),
            Self::Packet(s) => write!(
                f,
                "< {} {}:{}({}) ack {} win {}",
                letters(s.flags),
                s.seq,
                s.seq.wrapping_add(s.len.into()),
                s.len,
                s.ack,
                s.window
            ),
        }
    }
}

/// A step.
pub(super) type Step = pace::Step<Act>;

/// A drawn life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) place: Place,
    /// Names behind `net.ipv4.`, with values.
    pub(super) sysctls: Vec<(&'static str, u64)>,
    /// Readiness is also asked of an edge-triggered epoll set.
    pub(super) epoll: bool,
    /// Sockets block.
    pub(super) blocking: bool,
    /// There are several peers.
    pub(super) crowd: bool,
    pub(super) steps: Vec<Step>,
    /// When it is over.
    pub(super) end: u64,
}

impl Program {
    /// The same with a step and all behind it earlier or later by so many microseconds, but not before the step in front of it.
    pub(super) fn moved(&self, step: usize, by: i64) -> Self {
        let mut moved = self.clone();
        let first =
            step.checked_sub(1).and_then(|before| self.steps.get(before)).map_or(0, |before| before.at);
        for step in moved.steps.iter_mut().skip(step) {
            step.at = step.at.saturating_add_signed(by).max(first);
        }
        moved.end = moved.end.saturating_add_signed(by);
        moved
    }
}
