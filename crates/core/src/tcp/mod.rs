//! TCP (RFC 9293): one file per job. Knows nothing of sockets, IP, queues below or devices.
mod accecn;
mod ack;
pub mod ack_policy;
mod below;
mod calls;
mod chrono;
mod close;
pub mod conn;
pub mod fastopen;
mod icmp;
pub mod info;
mod input;
pub mod isn;
mod label;
mod lowat;
mod moments;
pub mod negotiated;
pub mod options;
mod output;
mod pending;
mod progress;
pub mod rcv_space;
pub mod ready;
pub mod receiver;
pub mod recovery;
pub mod request;
pub mod reset;
pub mod rx_queue;
pub mod sack_out;
pub mod scoreboard;
pub mod segment;
mod send_window;
pub mod sender;
pub mod seq;
pub mod state;
pub mod syncookie;
mod timers;
pub mod timewait;
pub mod tx_queue;
mod usage;
mod waits;
pub mod window;

pub use calls::Inq;
pub use conn::Conn;
pub use icmp::Heard;
pub use info::{Bounds, Memory, Pace, SentPacket, TcpInfo};
pub use moments::Moments;
pub use options::SocketOptions;
pub use output::OwnQueue;
pub use progress::{Piece, Progress};
pub use ready::{Fate, How, Notice, Ready, SendFlags};
pub use receiver::{Arrival, Received, Receiver};
pub use request::{Crowd, Request, RequestTimeout, RequestVerdict};
pub use reset::reset_for;
pub use segment::{Chunks, Ecn, Handed, Layout, Outgoing, Segment};
pub use sender::Attempt;
pub use seq::Seq;
pub use state::State;
pub use timewait::{Reusable, TimeWait, TimeWaitVerdict};
pub use waits::{WaitCounts, WaitReport};

use crate::base::{DropWhy, Duration, Error, Tuple};
use std::sync::Arc;

/// Facts that a new connection or request needs from the layers around it.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The flow.
    pub tuple: Tuple,
    /// MTU of the path.
    pub mtu: u16,
    /// Initial sequence number ([`isn::Secrets::isn`]).
    pub isn: Seq,
    /// Offset of the timestamp clock ([`isn::Secrets::ts_offset`]).
    pub ts_offset: u32,
    /// Options of the socket.
    pub options: Arc<SocketOptions>,
    /// Headers of the SYN that began it, where somebody wants them (TCP_SAVE_SYN).
    pub saved_syn: Option<Box<[u8]>>,
}

/// What the device below can take; asked anew for every output call, since routes change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathCaps {
    /// Largest super-packet in bytes, headers included; 0 for none.
    pub gso_max_size: u32,
    /// Most segments in one super-packet.
    pub gso_max_segs: u16,
    /// The queue below honours departure times.
    pub fq: bool,
    /// What completions of the device are late by.
    pub lateness: Duration,
    /// What waits for the device has to wait for others.
    pub backlog: bool,
    /// There is a route: without one nothing that could wait is sent.
    pub reachable: bool,
}

/// What became of a segment.
#[derive(Clone, Debug)]
pub enum Disposition {
    /// Processed; what it caused shows in the connection's state and notices.
    Done,
    /// Answer with this reset.
    Reset(Outgoing),
    /// The same once the connection has sent what the segment's acknowledgement lets go ([`Conn::output_before_end`]) and has ended with
    /// [`Conn::end_by_data`].
    ResetBehind {
        /// The answer.
        reset: Outgoing,
        /// What the application hears of.
        error: Option<Error>,
    },
    /// Dropped.
    Drop(DropWhy),
    /// The connection is in TIME-WAIT, and the segment is a SYN for its listener, which should use this ISN: call
    /// [`Conn::yield_flow`] first. Where nobody listens, answer with [`Conn::last_ack`] instead.
    Reopen {
        /// First ISN that cannot be taken for the old connection's.
        isn: Seq,
    },
}
