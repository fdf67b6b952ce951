//! One UDP socket: datagrams received and not yet read, datagrams written and not yet sent.
use super::recent::Recent;
use crate::base::truesize::Truesize;
use crate::base::{Error, Instant, Sysctl};
use bytes::Bytes;
use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

/// Largest payload over IPv4: 65,535 less the IP and UDP headers.
const MAX_PAYLOAD_V4: usize = 65_535 - 20 - 8;
/// Largest payload over IPv6 without a jumbogram: the payload length counts the UDP header.
const MAX_PAYLOAD_V6: usize = 65_535 - 8;
/// What a datagram costs beside its bytes until it has left, so that empty ones are bounded too.
const OVERHEAD: u32 = 512;
/// Bytes of a packet in front of the payload, over IPv4 and IPv6.
const HEADERS: [u32; 2] = [20 + 8, 40 + 8];

/// A datagram with the other end's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Payload.
    pub data: Bytes,
    /// Where it came from, or where it goes.
    pub peer: SocketAddr,
    /// Our address in it: the destination of what came in; for what goes out, unspecified lets the route choose.
    pub local: SocketAddr,
}

impl Datagram {
    /// What it is charged to the send buffer.
    #[must_use]
    pub fn charge(&self) -> u32 {
        OVERHEAD + self.data.len() as u32
    }

    /// What it is charged to the receive buffer: as Linux charges the packet that it came in.
    fn truesize(&self) -> u32 {
        let headers = HEADERS[usize::from(self.peer.is_ipv6())];
        Truesize::of_packet(headers + self.data.len() as u32).bytes()
    }
}

/// What the headers of a family get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// IP_TOS or IPV6_TCLASS.
    pub tos: u8,
    /// IP_TTL or IPV6_UNICAST_HOPS; `None` takes the default.
    pub ttl: Option<u8>,
    /// IP_MULTICAST_TTL or IPV6_MULTICAST_HOPS, of what goes to a group: 1 keeps it on the link (RFC 1112 section 6.1).
    pub group_ttl: u8,
    /// What the socket asks of queues (SO_PRIORITY, its last four bits); `None` leaves it to the type of service.
    pub priority: Option<u8>,
    /// The UDP checksum is left out (SO_NO_CHECK; RFC 768). Over IPv6 it must be there (RFC 8200 section 8.1).
    pub unchecked: bool,
}

/// What went wrong with a socket's datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errors {
    /// SO_ERROR.
    pub pending: Option<Error>,
    /// IP_RECVERR and IPV6_RECVERR.
    pub asked: [bool; 2],
    /// How many have been told so far, modulo 2^32: one that comes while another is pending is news, too.
    pub told: u32,
    /// Bytes of charge of the error queue that the owner keeps: no room for data.
    pub queued: u32,
}

/// IP_MTU_DISCOVER of a datagram socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MtuDiscovery {
    /// Routers may fragment, and what they say of sizes is no error (IP_PMTUDISC_DONT).
    Dont,
    /// Datagrams beyond the path MTU are fragmented here, and a smaller one is told as an error (IP_PMTUDISC_WANT).
    #[default]
    Want,
    /// They are refused (IP_PMTUDISC_DO).
    Do,
    /// What is beyond the device's MTU is refused, whatever the path carries (IP_PMTUDISC_PROBE).
    Probe,
    /// The same, and what routers say of sizes is not believed, and they may fragment (IP_PMTUDISC_INTERFACE).
    Interface,
    /// The same, and what is beyond the device's MTU is fragmented here (IP_PMTUDISC_OMIT).
    Omit,
    /// What is beyond the path MTU is refused, and what routers say of sizes is no error that lasts (IPV6_PMTUDISC_DONT with IPV6_DONTFRAG).
    Refuse,
}

impl MtuDiscovery {
    /// What is longer than may be is refused, and not fragmented (the contrary of `ip_sk_ignore_df`).
    #[must_use]
    pub const fn refuses(self) -> bool {
        matches!(self, Self::Do | Self::Probe | Self::Interface | Self::Refuse)
    }

    /// Packets are as long as the path carries, and else as the device does (`ip_sk_use_pmtu`).
    #[must_use]
    pub const fn goes_by_path(self) -> bool {
        matches!(self, Self::Dont | Self::Want | Self::Do | Self::Refuse)
    }

    /// Routers that say what they carry are believed (`ip_sk_accept_pmtu`).
    #[must_use]
    pub const fn believes(self) -> bool {
        !matches!(self, Self::Interface | Self::Omit)
    }

    /// Routers may not fragment a packet: `fits` the path as we know it, which lets them (`locked`) or not (`__ip_make_skb`).
    #[must_use]
    pub const fn sets_df(self, fits: bool, locked: bool) -> bool {
        match self {
            Self::Do | Self::Probe => true,
            Self::Want => fits && !locked,
            Self::Dont | Self::Interface | Self::Omit | Self::Refuse => false,
        }
    }
}

/// How a socket has its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BindManner {
    /// Others may have it, too: whoever binds has seen to it that all of them want that (SO_REUSEADDR, SO_REUSEPORT). The last one bound gets
    /// what comes.
    pub shared: bool,
    /// Bound to `::` it takes datagrams of IPv6 alone (IPV6_V6ONLY).
    pub v6_only: bool,
    /// The address need not be one of ours (IP_FREEBIND).
    pub free: bool,
    /// The address that connecting has fixed stays without the peer.
    pub stays: bool,
}

/// What a socket was bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The address, which is valid again without a peer.
    pub ip: IpAddr,
    /// How it has it.
    pub manner: BindManner,
}

/// A UDP socket.
#[derive(Debug)]
pub struct UdpSocket {
    /// Where datagrams are taken and sent from: where it was bound, or what connecting made of that; unspecified for any.
    pub local: SocketAddr,
    /// What it was bound to.
    pub bound: Bound,
    /// Connected peer.
    pub remote: Option<SocketAddr>,
    /// How it learns what size a path of IPv4 takes, and one of IPv6.
    pub discovery: [MtuDiscovery; 2],
    /// What the headers of IPv4 and those of IPv6 get.
    pub marks: [Marks; 2],
    /// What went wrong.
    pub errors: Errors,
    /// SO_RCVBUF and SO_SNDBUF in bytes of charge.
    pub buffers: (u32, u32),
    received: VecDeque<Datagram>,
    received_charge: u32,
    unsent: VecDeque<Datagram>,
    sent: Sent,
}

/// What was sent, and what found no room.
#[derive(Debug)]
struct Sent {
    /// Bytes of charge that have not come back.
    charge: u32,
    /// A writer waits for room.
    no_space: bool,
    /// Where it went without a peer.
    recent: Recent,
}

impl UdpSocket {
    /// A socket bound to `local`.
    #[must_use]
    pub const fn new(local: SocketAddr, manner: BindManner, sysctl: &Sysctl) -> Self {
        Self {
            local,
            bound: Bound { ip: local.ip(), manner },
            remote: None,
            discovery: [MtuDiscovery::Want; 2],
            marks: [Marks { tos: 0, ttl: None, group_ttl: 1, priority: None, unchecked: false }; 2],
            errors: Errors { pending: None, asked: [false; 2], told: 0, queued: 0 },
            buffers: (sysctl.rmem_default, sysctl.wmem_default),
            received: VecDeque::new(),
            received_charge: 0,
            unsent: VecDeque::new(),
            sent: Sent { charge: 0, no_space: false, recent: Recent::new() },
        }
    }

    /// Takes in a datagram; false when the receive buffer is full and the datagram is dropped. (`RcvbufErrors`)
    pub fn deliver(&mut self, datagram: Datagram) -> bool {
        // Linux's rule: one datagram of any size fits an empty buffer (`__udp_enqueue_schedule_skb`).
        let held = self.received_charge.saturating_add(self.errors.queued);
        if held > 0 && held.saturating_add(datagram.truesize()) > self.buffers.0 {
            return false;
        }
        self.received_charge = self.received_charge.saturating_add(datagram.truesize());
        self.received.push_back(datagram);
        true
    }

    /// The length of the oldest datagram.
    #[must_use]
    pub fn first_len(&self) -> Option<usize> {
        self.received.front().map(|d| d.data.len())
    }

    /// What the datagrams that wait are charged.
    #[must_use]
    pub const fn received_charge(&self) -> u32 {
        self.received_charge
    }

    /// The oldest datagram, which stays (MSG_PEEK).
    ///
    /// # Errors
    /// As [`UdpSocket::recv`].
    pub fn peek(&mut self) -> Result<Datagram, Error> {
        match self.errors.pending.take() {
            Some(error) => Err(error),
            None => self.received.front().cloned().ok_or(Error::WouldBlock),
        }
    }

    /// The oldest datagram.
    ///
    /// # Errors
    /// A pending error, once; else `WouldBlock`.
    pub fn recv(&mut self) -> Result<Datagram, Error> {
        if let Some(error) = self.errors.pending.take() {
            return Err(error);
        }
        let datagram = self.received.pop_front().ok_or(Error::WouldBlock)?;
        self.received_charge -= datagram.truesize();
        Ok(datagram)
    }

    /// Queues a datagram for sending.
    ///
    /// # Errors
    /// `MessageTooLong` for what no IP packet can carry, `WouldBlock` when the send buffer is full, or a pending error.
    pub fn send(&mut self, datagram: Datagram) -> Result<usize, Error> {
        if let Some(error) = self.errors.pending.take() {
            return Err(error);
        }
        let max = if datagram.peer.is_ipv4() { MAX_PAYLOAD_V4 } else { MAX_PAYLOAD_V6 };
        if datagram.data.len() > max {
            return Err(Error::MessageTooLong);
        }
        if self.sent.charge > 0 && self.sent.charge + datagram.charge() > self.buffers.1 {
            self.sent.no_space = true;
            return Err(Error::WouldBlock);
        }
        self.sent.charge += datagram.charge();
        let len = datagram.data.len();
        self.unsent.push_back(datagram);
        Ok(len)
    }

    /// The next datagram to put on the wire. Its charge stays until [`UdpSocket::on_complete`].
    pub fn next_unsent(&mut self) -> Option<Datagram> {
        self.unsent.pop_front()
    }

    /// A datagram leaves for `peer`. What a peer fixes need not be remembered.
    pub fn leaves(&mut self, now: Instant, peer: IpAddr) {
        if self.remote.is_none() {
            self.sent.recent.note(now, peer);
        }
    }

    /// It is not connected any more: to whom it was. A router may have seen what went there.
    pub fn part(&mut self, now: Instant) -> Option<SocketAddr> {
        let peer = self.remote.take()?;
        self.sent.recent.note(now, peer.ip());
        Some(peer)
    }

    /// A router may have seen a datagram of ours to `peer`: it is the one that the socket is connected to, or one was sent lately.
    #[must_use]
    pub fn sends_to(&self, now: Instant, peer: IpAddr) -> bool {
        self.remote.is_some_and(|remote| remote.ip() == peer) || self.sent.recent.has(now, peer)
    }

    /// True when a datagram waits to be sent.
    #[must_use]
    pub fn wants_output(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Nothing is on the way out.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.sent.charge == 0
    }

    /// Credit comes back; true when a writer that had seen "full" may go on.
    pub fn on_complete(&mut self, charge: u32) -> bool {
        debug_assert!(charge <= self.sent.charge, "credit comes back once");
        self.sent.charge = self.sent.charge.saturating_sub(charge);
        let wake = self.sent.no_space && self.writable();
        self.sent.no_space &= !wake;
        wake
    }

    /// Bytes of charge that were handed down and have not come back.
    #[must_use]
    pub fn charge_below(&self) -> u64 {
        let above: u64 = self.unsent.iter().map(|d| u64::from(d.charge())).sum();
        u64::from(self.sent.charge).saturating_sub(above)
    }

    /// How long datagrams to `peer` may be.
    #[must_use]
    pub fn discovery_to(&self, peer: IpAddr) -> MtuDiscovery {
        self.discovery[usize::from(peer.is_ipv6())]
    }

    /// An ICMP error about this socket's flow, of this family; true when the application must be told. Without IP_RECVERR that is only
    /// who is connected, of errors that last (`hard`; `__udp4_lib_err`).
    pub fn on_icmp(&mut self, error: Error, hard: bool, v6: bool) -> bool {
        let told = self.errors.asked[usize::from(v6)] || (hard && self.remote.is_some());
        if told {
            self.errors.pending = Some(error);
            self.errors.told = self.errors.told.wrapping_add(1);
        }
        told
    }

    /// Bytes of payload that wait to be read, and bytes of charge that are on the way out.
    #[must_use]
    pub fn queues(&self) -> (u64, u64) {
        (self.received.iter().map(|d| d.data.len() as u64).sum(), u64::from(self.sent.charge))
    }

    /// A reader would find a datagram or an error.
    #[must_use]
    pub fn readable(&self) -> bool {
        !self.received.is_empty() || self.errors.pending.is_some()
    }

    /// A writer would find room for half a buffer; when not, the socket remembers that a writer waits.
    #[must_use]
    pub const fn poll_writable(&mut self) -> bool {
        let writable = self.writable();
        self.sent.no_space |= !writable;
        writable
    }

    const fn writable(&self) -> bool {
        self.sent.charge < self.buffers.1 / 2
    }
}
