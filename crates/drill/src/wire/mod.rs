//! Packets between the script's world and the stack's: what a packet says, without the numbers that only bytes have.
mod read;
mod show;
mod write;

pub(crate) use read::read;
pub(crate) use show::{Line, Shown};

use crate::options::TcpOption;
use crate::sctp::{Crc, Item};
use core::net::{IpAddr, SocketAddr};
use lowwater_core::base::Instant;
use lowwater_wire::tcp::TcpFlags;

/// A packet as it was on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub(crate) at: Instant,
    pub(crate) ip: Ip,
    pub(crate) body: Body,
    pub(crate) handed: Handed,
}

/// Its IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ip {
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) flow_label: u32,
}

/// What it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Tcp(Tcp),
    Udp(Udp),
    Icmp(Icmp),
    Sctp(Sctp),
}

/// A TCP segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tcp {
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: TcpFlags,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    pub(crate) options: Vec<TcpOption>,
    pub(crate) len: u32,
}

/// A UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Udp {
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
    pub(crate) len: u16,
}

/// An SCTP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sctp {
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
    pub(crate) vtag: u32,
    /// Ports of the UDP that it travels in, source first.
    pub(crate) udp: Option<(u16, u16)>,
    pub(crate) crc: Crc,
    pub(crate) chunks: Vec<Item>,
    /// What follows the common header instead of chunks, in packets of the peer.
    pub(crate) raw: Option<Vec<u8>>,
}

/// An ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Icmp {
    pub(crate) kind: u8,
    pub(crate) code: u8,
    /// The second half of its header: an MTU, an identifier, a pointer.
    pub(crate) rest: u32,
    /// The packet that it quotes.
    pub(crate) quoted: Option<Quote>,
    /// The whole message, header included.
    pub(crate) len: u32,
}

/// A packet within an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quote {
    pub(crate) src: SocketAddr,
    pub(crate) dst: SocketAddr,
    pub(crate) protocol: u8,
    /// TCP's sequence number, SCTP's verification tag.
    pub(crate) seq: u32,
    /// Payload of the packet when it was whole.
    pub(crate) len: u32,
    /// Bytes of it behind the IP header that the message really has.
    pub(crate) kept: u32,
}

/// How a packet of the stack came to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Handed {
    /// Segments in this one packet.
    pub(crate) segs: u32,
    /// Payload per segment; 0 for an ordinary packet.
    pub(crate) gso: u16,
    /// Nanoseconds from handing over to the earliest departure.
    pub(crate) wait_ns: u64,
    /// Bytes and packets in the device, this one included.
    pub(crate) queued: u64,
    pub(crate) packets: u64,
}

impl Wire {
    /// Where it comes from and goes to, with ports where it has them.
    pub(crate) fn ends(&self) -> (SocketAddr, SocketAddr) {
        let (src, dst) = match &self.body {
            Body::Tcp(t) => (t.src_port, t.dst_port),
            Body::Udp(u) => (u.src_port, u.dst_port),
            Body::Sctp(s) => (s.src_port, s.dst_port),
            Body::Icmp(_) => (0, 0),
        };
        (SocketAddr::new(self.ip.src, src), SocketAddr::new(self.ip.dst, dst))
    }

    /// The segment, if it is one.
    pub(crate) const fn tcp(&self) -> Option<&Tcp> {
        match &self.body {
            Body::Tcp(tcp) => Some(tcp),
            _ => None,
        }
    }

    /// The SCTP packet, if it is one.
    pub(crate) const fn sctp(&self) -> Option<&Sctp> {
        match &self.body {
            Body::Sctp(sctp) => Some(sctp),
            _ => None,
        }
    }

    /// The segment, if it is one.
    pub(crate) const fn tcp_mut(&mut self) -> Option<&mut Tcp> {
        match &mut self.body {
            Body::Tcp(tcp) => Some(tcp),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
