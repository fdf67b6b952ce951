//! A drawn connection as a value.
use core::fmt;

/// What may be asked of drawn connections, and what each means.
pub const FLAVOURS: &[(&str, &str)] = &[
    ("sysctl", "settings of recovery are drawn, too"),
    ("ecn", "ECN is negotiated and congestion is echoed, in most"),
    ("sack", "the peer always selectively acknowledges"),
    ("nosack", "the peer never selectively acknowledges"),
    ("cubic", "CUBIC instead of Reno"),
    ("defer", "super-packets may be deferred"),
    ("even", "all segments are of 1,000 bytes"),
    ("smallwin", "small windows of the peer"),
    ("data", "some acknowledgements carry data"),
    ("spike", "a delay that makes timeouts spurious, always"),
    ("weird", "some acknowledgements say what no receiver would"),
    ("append", "writes during recovery"),
    ("long", "longer programs"),
];
/// Flavours of drawn lives, which do not go with those above.
pub const LIVES: &[(&str, &str)] = &[
    ("life", "nothing in particular, from the handshake to the end"),
    ("close", "FIN, RST, shutdown, close and SO_LINGER of both ends in any order"),
    ("buffers", "small SO_SNDBUF and SO_RCVBUF, windows that shut"),
    ("scale0", "windows without a scale, or a scale of 0"),
    ("keepalive", "keepalive, with silence"),
    ("cork", "TCP_CORK, MSG_MORE"),
    ("urgent", "urgent data both ways"),
    ("usertimeout", "TCP_USER_TIMEOUT, with silence"),
    ("nodelay", "TCP_NODELAY and TCP_QUICKACK that change"),
    ("poll", "readiness by an edge-triggered epoll set, too, and what it waits for"),
    ("disorder", "data of the peer out of order, overlapping and again"),
    ("outside", "segments outside of the window, resets, SYNs and flags that nobody should send"),
    ("paws", "timestamps that are old or missing"),
    ("options", "SYNs with all kinds of options, or without"),
    ("simultaneous", "both ends open, and close, at once"),
    ("listen", "passive opens that are disturbed, TCP_DEFER_ACCEPT, Fast Open, SYN cookies"),
    ("settings", "sysctls that change what is compared"),
    ("icmp", "what routers and hosts say of our segments"),
    ("marks", "ECN of both ends, and congestion marks"),
    ("calls", "rarer flags and options, and connect to nobody"),
    ("blocks", "SACK blocks and D-SACKs of the peer"),
    ("ipv6", "IPv6, and ICMPv6"),
    ("mtu", "devices of other MTUs, and an MSS of the peer to match"),
    ("vectors", "readv, writev, recvmsg and sendmsg with several pieces, splice from a pipe"),
    ("header", "IP_TOS, IP_TTL and a peer's TOS that may be reflected"),
    ("fastopen", "Fast Open of clients: cookies, data with the SYN, and what answers it"),
    ("blocking", "sockets that block, with timeouts"),
    ("crowd", "several connections of one listener, its backlog, and the order of accept"),
];

/// What is asked of drawn connections: words of [`FLAVOURS`], or of [`LIVES`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flavours(Vec<&'static str>);

impl Flavours {
    /// Reads words that commas separate.
    ///
    /// # Errors
    /// The wrong word and all right ones.
    pub fn parse(text: &str) -> Result<Self, String> {
        let names = || FLAVOURS.iter().chain(LIVES).map(|(name, _)| *name);
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        let found: Result<_, _> = words.map(|word| names().find(|name| *name == word).ok_or(word)).collect();
        let found = found.map(Self).map_err(|word| {
            let names: Vec<_> = names().collect();
            format!("there is no '{word}'; it takes {}", names.join(", "))
        })?;
        let lives = found.0.iter().filter(|word| LIVES.iter().any(|(name, _)| name == *word)).count();
        if lives != 0 && lives != found.0.len() {
            let names: Vec<_> = LIVES.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "'{text}' mixes two kinds of connections: {} are the second",
                names.join(", ")
            ));
        }
        Ok(found)
    }

    /// True for the words of [`LIVES`].
    pub(super) fn is_life(&self) -> bool {
        self.0.first().is_some_and(|word| LIVES.iter().any(|(name, _)| name == word))
    }

    /// True when `word` is among them.
    pub(super) fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }
}

impl fmt::Display for Flavours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

/// What is agreed on before the first step. Times are microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setup {
    pub(super) congestion: &'static str,
    /// Names behind `net.ipv4.`, with values.
    pub(super) sysctls: Vec<(&'static str, u64)>,
    pub(super) sack: bool,
    pub(super) timestamps: bool,
    pub(super) ecn: bool,
    /// The peer's MSS.
    pub(super) mss: u16,
    /// The peer's window field, scaled by 2^7.
    pub(super) window: u16,
    pub(super) rtt: u64,
    /// By how much the end of the handshake is later than that.
    pub(super) late: u64,
    pub(super) nodelay: bool,
    pub(super) thin: bool,
    /// What the kernel reserves for headers.
    pub(super) headers: u32,
}

/// An acknowledgement of the peer. Numbers count from the first byte, which is 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) ack: u32,
    pub(super) sacks: Vec<(u32, u32)>,
    /// The transmission whose timestamp it echoes: a byte of it, and how often that had left before.
    pub(super) echo: (u32, usize),
    /// Bytes of data.
    pub(super) len: u16,
    pub(super) ece: bool,
    /// The window field, where it is another than the setup's.
    pub(super) window: Option<u16>,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Write(usize),
    Shutdown,
    Answer(Answer),
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(len) => write!(f, "write {len}"),
            Self::Shutdown => f.write_str("shutdown"),
            Self::Answer(a) => {
                write!(f, "ack {}", a.ack)?;
                a.sacks.iter().try_for_each(|(from, to)| write!(f, " sack {from}:{to}"))
            }
        }
    }
}

/// A step, its time counted from the SYN.
pub(super) type Step = super::pace::Step<Act>;

/// A drawn connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) setup: Setup,
    pub(super) steps: Vec<Step>,
    /// When it is over.
    pub(super) end: u64,
}
