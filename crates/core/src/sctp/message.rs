//! Messages at the application's side: how to send one, and what comes back.
use super::notification::Notification;
use crate::base::time::Duration;
use bytes::Bytes;
use core::net::IpAddr;

/// When a message is given up (SCTP_PRINFO; RFC 3758 and RFC 7496). What was sent already is only where both sides offer FORWARD TSN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reliability {
    /// Never.
    #[default]
    Full,
    /// When this time is over (SCTP_PR_SCTP_TTL).
    Lifetime(Duration),
    /// When a fragment of it would have to go again more often than this; 0 sends it once (SCTP_PR_SCTP_RTX). From 255 on never.
    Retransmissions(u32),
    /// When the send buffer has no room for a message that matters more (SCTP_PR_SCTP_PRIO): one of a lower number, or of another
    /// policy, which counts as 0.
    Priority(u32),
}

impl Reliability {
    /// The number by which it takes room of others.
    #[must_use]
    pub(super) const fn rank(self) -> u32 {
        if let Self::Priority(rank) = self { rank } else { 0 }
    }

    /// It makes room for a message of this number.
    #[must_use]
    pub(super) const fn gives_way_to(self, rank: u32) -> bool {
        matches!(self, Self::Priority(own) if own > rank)
    }

    /// Its lifetime, if that limits it.
    #[must_use]
    pub const fn lifetime(self) -> Option<Duration> {
        if let Self::Lifetime(lifetime) = self { Some(lifetime) } else { None }
    }
}

/// How a message is sent (SCTP_SNDINFO).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendInfo {
    /// The stream.
    pub stream: u16,
    /// Payload protocol identifier, as the number that lies on the wire in network order.
    pub ppid: u32,
    /// Delivered as it comes, without a place in its stream (SCTP_UNORDERED).
    pub unordered: bool,
    /// The peer acknowledges at once (SCTP_SACK_IMMEDIATELY, RFC 7053).
    pub immediate: bool,
    /// When it is given up.
    pub reliability: Reliability,
    /// The application's own number of it, told when it fails.
    pub context: u32,
    /// The path to take instead of the primary one (SCTP_ADDR_OVER).
    pub to: Option<IpAddr>,
    /// More follows at once: what does not fill a packet waits for a message without this (MSG_MORE).
    pub more: bool,
}

/// What came with a message (SCTP_RCVINFO).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecvInfo {
    /// The stream.
    pub stream: u16,
    /// Its number in the stream; 0 for unordered messages.
    pub ssn: u16,
    /// Payload protocol identifier.
    pub ppid: u32,
    /// TSN of its first fragment.
    pub tsn: u32,
    /// It had no place in its stream.
    pub unordered: bool,
}

/// What a reader gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message or the next part of one.
    Data {
        /// The bytes.
        data: Bytes,
        /// What came with them.
        info: RecvInfo,
        /// The message ends here (MSG_EOR).
        eor: bool,
    },
    /// Something that the application wanted to know.
    Notification(Notification),
}
