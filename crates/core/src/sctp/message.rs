//! Messages at the application's side: how to send one, and what comes back.
use super::notification::Notification;
use crate::base::time::Duration;
use bytes::Bytes;
use core::net::IpAddr;

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
    /// Given up when it was not sent within this time; `None` for never.
    pub lifetime: Option<Duration>,
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
