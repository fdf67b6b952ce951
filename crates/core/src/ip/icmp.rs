//! ICMP errors as values: what happened, and about which packet of ours.
use crate::base::Error;
use crate::base::sysctl::HOP_LIMIT;
use crate::packet::Packet;
use bytes::Bytes;
use core::net::IpAddr;
use lowwater_wire::ipv4::Ipv4View;
use lowwater_wire::ipv6::{self, Ipv6View};
use lowwater_wire::{protocol, sctp, tcp, udp};

/// What could not be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The network, or there is no route.
    Net,
    /// The host.
    Host,
    /// The transport protocol.
    Protocol,
    /// The port.
    Port,
    /// Forbidden by an administrator.
    Admin,
    /// Any other reason, as what a socket reports it (`icmp_err_convert`, `icmpv6_err_convert`).
    Other(Error),
}

/// Kind of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpKind {
    /// Destination unreachable.
    Unreachable(Unreachable),
    /// Too big for a link of this MTU in bytes of IP packet, which may be below the family's floor.
    TooBig(u16),
    /// TTL or reassembly time ran out.
    TimeExceeded,
    /// A header field was not understood.
    ParamProblem,
    /// An error of ICMPv6 of a type that nobody has defined yet: the transport hears of it all the same (RFC 4443 section 2.4 a).
    Unknown,
}

/// Whose packet an ICMP error is about: the beginning of what we sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// Our address.
    pub src: IpAddr,
    /// Where the packet went.
    pub dst: IpAddr,
    /// Its transport protocol.
    pub protocol: u8,
    /// Our port; 0 for protocols without ports.
    pub src_port: u16,
    /// The other port.
    pub dst_port: u16,
    /// TCP's sequence number, which the transport must find in its window (RFC 5927 section 4.1); of SCTP its verification tag.
    pub seq: Option<u32>,
    /// The beginning of an SCTP packet, which may stand behind a UDP header (RFC 6951).
    pub sctp: Option<sctp::Quoted>,
    /// Where its transport header begins in what was quoted.
    pub l4_offset: usize,
}

impl Embedded {
    /// Reads the quoted beginning of a packet; `None` when it does not reach the ports, or is a later fragment.
    pub(super) fn parse(quoted: &[u8]) -> Option<Self> {
        let whole = quoted.len();
        let (src, dst, protocol, l4) = if quoted.first()? >> 4 == 4 {
            let view = Ipv4View::parse_quoted(quoted).ok().filter(|view| view.fragment_offset() == 0)?;
            (view.src().into(), view.dst().into(), view.protocol(), view.payload())
        } else {
            let view = Ipv6View::parse_quoted(quoted).ok()?;
            let chain = ipv6::walk(view.next_header(), view.payload()).ok()?;
            if chain.fragment.is_some_and(|fragment| fragment.offset != 0) {
                return None;
            }
            (view.src().into(), view.dst().into(), chain.protocol, view.payload().get(chain.offset..)?)
        };
        let l4_offset = whole.saturating_sub(l4.len());
        // UDP and SCTP have their ports in the same place as TCP.
        let has_ports = matches!(protocol, protocol::TCP | protocol::UDP | protocol::SCTP);
        let quoted = if has_ports { Some(tcp::quoted(l4).ok()?) } else { None };
        let behind = match protocol {
            protocol::SCTP => Some(l4),
            protocol::UDP => l4.get(udp::HEADER_LEN..),
            _ => None,
        };
        Some(Self {
            src,
            dst,
            protocol,
            src_port: quoted.map_or(0, |q| q.src_port),
            dst_port: quoted.map_or(0, |q| q.dst_port),
            seq: quoted.filter(|_| matches!(protocol, protocol::TCP | protocol::SCTP)).map(|q| q.seq),
            sctp: behind.and_then(|l4| sctp::quoted(l4).ok()),
            l4_offset,
        })
    }
}

/// The message that an ICMP error came in, for who wants it as it was (IP_RECVERR).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IcmpMessage {
    /// Its type.
    pub ty: u8,
    /// Its code.
    pub code: u8,
    /// The four bytes behind the checksum.
    pub rest: u32,
    /// The packet that it quotes, and extensions behind that (RFC 4884), shared with the message.
    pub quoted: Bytes,
}

/// An ICMP error as the flow it concerns sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// What happened.
    pub kind: IcmpKind,
    /// Who says so.
    pub from: IpAddr,
    /// About which packet.
    pub embedded: Embedded,
    /// What IP_MINTTL and IPV6_MINHOPCOUNT look at: what the quoted packet has left over IPv4, what the message has over IPv6
    /// (`tcp_v4_err`, `tcp_v6_err`).
    pub ttl: u8,
    /// As it came; empty where nobody sent one.
    pub message: IcmpMessage,
}

/// TTL of a packet of IPv4.
pub(super) fn quoted_ttl(packet: &[u8]) -> Option<u8> {
    Ipv4View::parse_quoted(packet).ok().map(|view| view.ttl())
}

impl IcmpError {
    /// The error that the loss of our own `packet` below the transport amounts to; it starts with an IP header, or with
    /// `link_len` bytes in front of it.
    #[must_use]
    pub fn local(packet: &Packet, link_len: usize, kind: IcmpKind) -> Option<Self> {
        let bytes = if packet.head.is_empty() { &packet.payload } else { packet.head.as_slice() };
        let bytes = bytes.get(link_len..)?;
        let embedded = Embedded::parse(bytes)?;
        let ttl = quoted_ttl(bytes).unwrap_or(HOP_LIMIT);
        Some(Self { kind, from: embedded.src, embedded, ttl, message: IcmpMessage::default() })
    }
}
