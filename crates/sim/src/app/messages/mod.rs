//! Associations: a client and a server that write messages to each other in many ways, read them in many ways, and end in many ways.
mod client;
mod server;
mod side;
mod whim;

pub use client::Talk;
pub use server::Hear;

use lowwater_core::base::Instant;
use lowwater_core::sctp::SctpOptions;
use std::net::SocketAddr;

/// How one side writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    /// Messages.
    pub count: u32,
    /// Bytes of the longest.
    pub longest: usize,
    /// Streams that it uses.
    pub streams: u16,
    /// Messages out of order, in a hundred.
    pub unordered: u8,
    /// Messages that may be given up, in a hundred.
    pub limited: u8,
    /// Messages that name a path, in a hundred.
    pub addressed: u8,
    /// How many it writes in a row before it waits; 0 for as many as there is room for.
    pub burst: u32,
    /// How long it waits then, in nanoseconds.
    pub pause_ns: u64,
    /// Calls that change something, in a thousand messages.
    pub whims: u16,
}

/// How one side reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// Whole messages, or what there is of them.
    #[default]
    Messages,
    /// Pieces as they came.
    Pieces,
    /// Where they lie.
    InPlace,
    /// So many bytes at so many nanoseconds.
    Slowly(usize, u64),
}

/// How an association ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// The client shuts it down when it has written everything.
    #[default]
    Client,
    /// The server does.
    Server,
    /// Both do.
    Both,
    /// The client gives its socket up when it has written everything; the server writes nothing.
    Release,
    /// The client aborts it after so many messages.
    ClientAborts(u32),
    /// The server aborts it after so many messages.
    ServerAborts(u32),
    /// Nobody does anything: the client closes it when it has been idle for as long as its options say.
    Idle,
}

impl End {
    /// Everything that was taken must arrive.
    #[must_use]
    pub const fn is_good(self) -> bool {
        !matches!(self, Self::ClientAborts(_) | Self::ServerAborts(_))
    }

    /// A side (0 the client, 1 the server) ends the association as soon as it has written everything.
    #[must_use]
    pub const fn shuts(self, side: u8) -> bool {
        match self {
            Self::Client | Self::Release => side == 0,
            Self::Server => side == 1,
            Self::Both => true,
            Self::ClientAborts(_) | Self::ServerAborts(_) | Self::Idle => false,
        }
    }

    /// Something lets a message go that says that more follows (MSG_MORE): the next one, or the shutdown right behind the last. What nothing lets go may
    /// be what the peer's request waits for.
    #[must_use]
    pub const fn lets_go(self, side: u8, last: bool) -> bool {
        !last || self.shuts(side)
    }
}

/// One association.
#[derive(Clone, Debug)]
pub struct TalkSpec {
    /// Its number in the world; the client's port follows from it.
    pub number: u8,
    /// When the client opens it.
    pub start: Instant,
    /// Addresses of the server that the client knows.
    pub remotes: Vec<SocketAddr>,
    /// Addresses that the client tells; none for all.
    pub locals: Vec<SocketAddr>,
    /// Socket options of the client and of what the server accepts.
    pub options: [SctpOptions; 2],
    /// What client and server write.
    pub writes: [Writes; 2],
    /// How they read.
    pub reads: [Reads; 2],
    /// How it ends.
    pub end: End,
    /// It may fail for want of answers: its settings give it up early.
    pub may_fail: bool,
}

/// The first port of clients.
const PORT: u16 = 40_000;

impl TalkSpec {
    /// The client's port.
    #[must_use]
    pub const fn port(number: u8) -> u16 {
        PORT + number as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_message_says_that_more_follows_only_where_a_shutdown_is_next() {
        let ends = [End::Client, End::Server, End::Both, End::Release, End::ClientAborts(1), End::Idle];
        let last = ends.map(|end| [0, 1].map(|side| end.lets_go(side, true)));
        let (neither, client, both) = ([false; 2], [true, false], [true; 2]);
        assert_eq!(last, [client, [false, true], both, client, neither, neither]);
        assert!(ends.iter().all(|end| end.lets_go(0, false) && end.lets_go(1, false)));
    }
}
