//! TCP Fast Open (RFC 7413): data in the SYN, for clients and servers, with Linux's caution about paths that eat it.
//!
//! | file | job |
//! |---|---|
//! | `cookie` | the cookie of an address |
//! | `server` | what a listener answers to a SYN |
//! | `queue` | how many connections may live before their handshake is complete |
//! | `child` | such a connection |
//! | `cache` | what clients remember of servers, and of paths that cannot carry it |
//! | `client` | the SYN of an active open and its answer |
pub mod cache;
mod child;
mod client;
pub mod cookie;
pub mod queue;
pub mod server;

pub use cache::{Cache, Learnt, SynPlan};
pub use queue::Queue;
pub use server::Grant;

use super::request::Request;
use crate::base::{Instant, SocketId};
use bytes::Bytes;
use lowwater_wire::tcp::FastOpenCookie;

/// Bits of `tcp_fastopen`.
pub mod mode {
    /// Clients may send data in SYNs.
    pub const CLIENT: u32 = 1;
    /// Listeners with TCP_FASTOPEN accept it.
    pub const SERVER: u32 = 2;
    /// Clients do so without a cookie.
    pub const CLIENT_NO_COOKIE: u32 = 4;
    /// Listeners ask for no cookie.
    pub const SERVER_NO_COOKIE: u32 = 0x200;
    /// All listeners accept it.
    pub const ALL_LISTENERS: u32 = 0x400;
}

/// Why an active Fast Open failed (`tcpi_fastopen_client_fail`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum ClientFail {
    /// It did not, or there was none.
    #[default]
    None = 0,
    /// There was no cookie.
    CookieUnavailable = 1,
    /// The SYN-ACK did not acknowledge the data.
    DataNotAcked = 2,
    /// The SYN had to be sent again.
    SynRetransmitted = 3,
}

/// What happened in the life of a connection with Fast Open.
pub(super) mod fact {
    /// Our SYN carried the option (`syn_fastopen`).
    pub(crate) const OPTION: u16 = 1;
    /// ... in its experimental form (`syn_fastopen_exp`).
    pub(crate) const EXPERIMENTAL: u16 = 2;
    /// Our SYN carried data (`syn_data`).
    pub(crate) const DATA: u16 = 4;
    /// Data in a SYN was acknowledged, ours or the peer's (`syn_data_acked`).
    pub(crate) const DATA_ACKED: u16 = 8;
    /// The application waits with more to write than went with the SYN (`sk_write_pending`).
    pub(crate) const MORE: u16 = 32;
    /// We sent the first SYN, with Fast Open or without.
    pub(crate) const ACTIVE: u16 = 64;
    /// Fast Open was off for a while: this connection finds out whether it works again (`syn_fastopen_ch`).
    pub(crate) const TRIAL: u16 = 16;
    /// The connection was accepted with its SYN (`syn_fastopen_child`).
    pub(crate) const CHILD: u16 = 128;
    /// A congestion mark or a capable packet came without ECN being agreed on (`TCP_ECN_SEEN`).
    pub(crate) const MARKED: u16 = 256;
    /// The peer's SYN came: what is agreed on is known.
    pub(crate) const HANDSHAKE: u16 = 512;
    /// Our first SYN offered timestamps: until the answer segments are counted on to have them.
    pub(crate) const STAMPED: u16 = 1_024;
    /// The size of segments goes by the window of the peer's SYN taken for a scaled one, which RFC 7323 section 2.2 forbids
    /// (`tcp_create_openreq_child`).
    pub(crate) const SCALED: u16 = 2_048;
}

/// What a connection remembers of Fast Open for as long as it lives.
#[derive(Clone, Debug, Default)]
pub(super) struct FastOpen {
    /// Bits of [`fact`].
    pub(super) facts: u16,
    pub(super) fail: ClientFail,
}

impl FastOpen {
    pub(super) const fn has(&self, facts: u16) -> bool {
        self.facts & facts != 0
    }
}

/// What a connection holds until its handshake is complete, or until the stack has heard how it went.
#[derive(Debug)]
pub(super) enum Open {
    /// An active open that has not sent its SYN.
    Syn(Syn),
    /// A connection that was accepted with its SYN: the request repeats the SYN-ACK and looks at what comes.
    Child(Box<Child>),
    /// Something for the stack.
    News(News),
}

/// What the first SYN will carry.
#[derive(Debug)]
pub(super) struct Syn {
    /// The option.
    pub(super) option: Option<FastOpenCookie>,
    /// Bytes of the largest segment that the server is thought to take, TCP_MAXSEG aside; 0 where no data may go with it.
    pub(super) mss: u16,
    /// MSS that the server announced last; 0 when unknown.
    pub(super) remembered: u16,
    /// The SYN waits for the application's first write (TCP_FASTOPEN_CONNECT).
    pub(super) deferred: bool,
    /// What goes with it.
    pub(super) data: Bytes,
}

/// The request of a connection that began with data.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) request: Request,
    pub(super) listener: SocketId,
}

/// What the stack has to hear of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The answer to a SYN with the option.
    Learnt(Learnt),
    /// The path seems to swallow Fast Open connections.
    Blackhole,
    /// A connection that tried after such a suspicion got data.
    Proven,
    /// The handshake of a connection that was accepted with its SYN is over.
    Released {
        /// Whose it was.
        listener: SocketId,
        /// The peer reset it.
        reset: bool,
    },
}

/// How long a reset connection still counts against its listener's limit: cookies that were used from a forged address cost
/// the victim a reset, and the server its Fast Open (RFC 7413 section 5.1).
const RESET_PENALTY_NS: u64 = 60 * 1_000_000_000;

/// When a reset at `now` is forgiven.
const fn forgiven(now: Instant) -> Instant {
    now.plus_nanos(RESET_PENALTY_NS)
}
