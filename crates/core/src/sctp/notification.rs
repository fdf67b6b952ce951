//! What an association tells its application beside data (RFC 6458 section 6.1), as values.
use super::outstanding::Chunk;
use super::stream::send::Message;
use crate::base::Error;
use bytes::Bytes;
use core::net::IpAddr;

/// What became of an association (SCTP_ASSOC_CHANGE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssocChange {
    /// SCTP_COMM_UP: the handshake is complete.
    Up,
    /// SCTP_COMM_LOST: it failed or was aborted.
    Lost,
    /// SCTP_RESTART: the peer has started anew.
    Restart,
    /// SCTP_SHUTDOWN_COMP: it was closed in good order.
    ShutdownComplete,
    /// SCTP_CANT_STR_ASSOC: the handshake failed.
    CannotStart,
}

/// What became of a path (SCTP_PEER_ADDR_CHANGE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathChange {
    /// SCTP_ADDR_AVAILABLE: it answers again.
    Available,
    /// SCTP_ADDR_UNREACHABLE: it has failed.
    Unreachable,
    /// SCTP_ADDR_CONFIRMED: a heartbeat was answered for the first time.
    Confirmed,
    /// SCTP_ADDR_MADE_PRIM: it is the primary path now.
    MadePrimary,
    /// SCTP_ADDR_POTENTIALLY_FAILED (RFC 7829).
    PotentiallyFailed,
}

/// Who said why an association changes.
#[derive(Clone, Debug)]
pub(super) enum Why {
    /// Nobody.
    Unsaid,
    /// We, by this error cause.
    We(u16),
    /// The peer, by these error causes.
    Peer(Bytes),
}

impl Why {
    /// What our ABORT says, which has these causes.
    pub(super) fn we(causes: &[u8]) -> Self {
        Self::We(first_cause(causes))
    }

    /// The first cause, and those of the peer.
    pub(super) fn told(self) -> (u16, Bytes) {
        match self {
            Self::Unsaid => (0, Bytes::new()),
            Self::We(cause) => (cause, Bytes::new()),
            Self::Peer(causes) => (first_cause(&causes), causes),
        }
    }
}

/// The code of the first of these error causes; 0 for none.
fn first_cause(causes: &[u8]) -> u16 {
    causes.first_chunk().map_or(0, |code| u16::from_be_bytes(*code))
}

/// A message, or a fragment of one, that was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendFailed {
    /// It was sent.
    pub sent: bool,
    /// Code of the error cause that ended the association; 0 where it goes on, or nobody said why.
    pub cause: u16,
    /// The stream.
    pub stream: u16,
    /// Flags of its DATA chunk (RFC 9260 section 3.3.1): which fragment of its message it is.
    pub flags: u8,
    /// The payload protocol identifier.
    pub ppid: u32,
    /// The application's own number of it.
    pub context: u32,
    /// What was not acknowledged.
    pub data: Bytes,
}

impl SendFailed {
    /// A chunk that was sent.
    pub(super) fn sent(chunk: &Chunk, cause: u16) -> Self {
        let (stream, ppid, context) = (chunk.stream, chunk.ppid, chunk.context);
        Self { sent: true, cause, stream, flags: chunk.flags.bits(), ppid, context, data: chunk.data.clone() }
    }

    /// What of a message was not sent.
    pub(super) fn unsent(message: &Message, cause: u16) -> Self {
        let (info, data) = (*message.info(), message.data().clone());
        let (stream, ppid, context) = (info.stream, info.ppid, info.context);
        Self { sent: false, cause, stream, flags: message.flags().bits(), ppid, context, data }
    }
}

/// What became of a request to reconfigure streams (RFC 6525 section 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out.
    Done,
    /// The peer does not allow it.
    Denied,
    /// The peer could not do it.
    Failed,
}

/// Which streams begin anew, and who wanted that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetWhat {
    /// Those that we send on, as we have asked: the next message of each has number 0.
    Outgoing,
    /// Those that we send on, as the peer wants: it has been asked for that now.
    OutgoingWanted,
    /// Those that the peer sends on, as it wanted.
    Incoming,
    /// Those that the peer sends on, as we have asked.
    IncomingAsked,
}

/// A notification; it is read in order with the messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// The association as a whole.
    Assoc {
        /// What happened.
        change: AssocChange,
        /// Why, where it failed.
        error: Option<Error>,
        /// Streams that we may send on.
        outbound_streams: u16,
        /// Streams that the peer may send on.
        inbound_streams: u16,
        /// Code of the first error cause of the ABORT that ended it, ours or the peer's; 0 where there was none, or where nobody had
        /// answered for too long.
        cause: u16,
        /// The peer's ABORT chunk, where one came (its error causes).
        info: Bytes,
    },
    /// A path.
    Path {
        /// The peer's address.
        address: IpAddr,
        /// What happened.
        change: PathChange,
    },
    /// The peer sent an ERROR chunk (SCTP_REMOTE_ERROR), one for each of its causes.
    RemoteError {
        /// Its code.
        cause: u16,
        /// All of it as it came, with its padding.
        causes: Bytes,
    },
    /// A message could not be delivered (SCTP_SEND_FAILED_EVENT).
    SendFailed(SendFailed),
    /// The peer sends nothing more (SCTP_SHUTDOWN_EVENT).
    Shutdown,
    /// The peer's adaptation layer (SCTP_ADAPTATION_INDICATION).
    Adaptation(u32),
    /// A message that was handed over in part will not be completed (SCTP_PARTIAL_DELIVERY_EVENT).
    PartialDeliveryAborted {
        /// The stream.
        stream: u16,
    },
    /// Everything was sent and acknowledged (SCTP_SENDER_DRY_EVENT).
    SenderDry,
    /// Streams begin anew, or were to (SCTP_STREAM_RESET_EVENT).
    StreamReset {
        /// Which, and who wanted it.
        what: ResetWhat,
        /// What became of it.
        outcome: Outcome,
        /// The streams; none for all of them.
        streams: Vec<u16>,
    },
    /// All numbers begin anew, or were to (SCTP_ASSOC_RESET_EVENT).
    AssocReset {
        /// What became of it.
        outcome: Outcome,
        /// The next TSN of the peer's.
        local_tsn: u32,
        /// Our next TSN.
        remote_tsn: u32,
    },
    /// There are more streams, or there were to be (SCTP_STREAM_CHANGE_EVENT).
    StreamChange {
        /// What became of it.
        outcome: Outcome,
        /// So many more that the peer sends on.
        incoming: u16,
        /// So many more that we send on.
        outgoing: u16,
    },
}

/// Which notifications an application wants (SCTP_EVENT, SCTP_EVENTS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Subscriptions(pub u16);

impl Subscriptions {
    /// None, as a new socket has it.
    pub const NONE: Self = Self(0);
    /// [`Notification::Assoc`].
    pub const ASSOC: Self = Self(1);
    /// [`Notification::Path`].
    pub const PATH: Self = Self(2);
    /// [`Notification::RemoteError`].
    pub const REMOTE_ERROR: Self = Self(4);
    /// [`Notification::SendFailed`].
    pub const SEND_FAILED: Self = Self(8);
    /// [`Notification::Shutdown`].
    pub const SHUTDOWN: Self = Self(16);
    /// [`Notification::Adaptation`].
    pub const ADAPTATION: Self = Self(32);
    /// [`Notification::PartialDeliveryAborted`].
    pub const PARTIAL_DELIVERY: Self = Self(64);
    /// [`Notification::SenderDry`].
    pub const SENDER_DRY: Self = Self(128);
    /// [`Notification::StreamReset`].
    pub const STREAM_RESET: Self = Self(256);
    /// [`Notification::AssocReset`].
    pub const ASSOC_RESET: Self = Self(512);
    /// [`Notification::StreamChange`].
    pub const STREAM_CHANGE: Self = Self(1_024);
    /// All of them.
    pub const ALL: Self = Self(2_047);

    /// All of `other`'s are wanted.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These and `other`'s.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Notification {
    /// The peer has started anew.
    #[must_use]
    pub const fn is_restart(&self) -> bool {
        matches!(self, Self::Assoc { change: AssocChange::Restart, .. })
    }

    /// The subscription that it belongs to.
    #[must_use]
    pub const fn kind(&self) -> Subscriptions {
        match self {
            Self::Assoc { .. } => Subscriptions::ASSOC,
            Self::Path { .. } => Subscriptions::PATH,
            Self::RemoteError { .. } => Subscriptions::REMOTE_ERROR,
            Self::SendFailed(_) => Subscriptions::SEND_FAILED,
            Self::Shutdown => Subscriptions::SHUTDOWN,
            Self::Adaptation(_) => Subscriptions::ADAPTATION,
            Self::PartialDeliveryAborted { .. } => Subscriptions::PARTIAL_DELIVERY,
            Self::SenderDry => Subscriptions::SENDER_DRY,
            Self::StreamReset { .. } => Subscriptions::STREAM_RESET,
            Self::AssocReset { .. } => Subscriptions::ASSOC_RESET,
            Self::StreamChange { .. } => Subscriptions::STREAM_CHANGE,
        }
    }
}
