//! Reads what the stack sends; a packet that no stack may send fails the script.
use super::{Body, Handed, Icmp, Ip, Quote, Sctp, Tcp, Udp, Wire};
use crate::options;
use crate::sctp::{self, Crc};
use core::net::{IpAddr, SocketAddr};
use lowwater_core::base::Instant;
use lowwater_wire::sctp::{Checksum, SctpView};
use lowwater_wire::tcp::TcpView;
use lowwater_wire::udp::UdpView;
use lowwater_wire::{checksum, icmp4, icmp6, ipv4, ipv6, protocol};

/// What is wrong with a part of a packet.
const FRAGMENT: &str = "the stack sent a fragment, which no script can describe";

/// Reads an IP packet; `None` for what no script speaks of (neighbour discovery, other protocols), `Err` for what is wrong. Where a
/// socket has asked for it datagrams over IPv4 may be `unchecked` (RFC 768).
pub(crate) fn read(
    bytes: &[u8],
    at: Instant,
    handed: Handed,
    unchecked: bool,
) -> Result<Option<Wire>, String> {
    let broken = |what: &str| format!("the stack sent {what}");
    let (ip, proto, l4) = header(bytes)?;
    let pseudo = || pseudo(ip.src, ip.dst, proto, l4.len());
    let body = match proto {
        protocol::TCP => {
            let tcp = TcpView::parse(l4).map_err(|e| broken(&format!("a bad TCP header: {e:?}")))?;
            if !tcp.checksum_ok(pseudo()) {
                return Err(broken("a wrong TCP checksum"));
            }
            // Between the header's length and the flags; the last of the four is a flag now (AE).
            if l4.get(12).is_some_and(|byte| byte & 0x0e != 0) {
                return Err(broken("reserved bits of a TCP header"));
            }
            Body::Tcp(segment(&tcp))
        }
        protocol::UDP => {
            let udp = UdpView::parse(l4).map_err(|e| broken(&format!("a bad UDP header: {e:?}")))?;
            let may_lack = unchecked && udp.checksum() == 0 && ip.src.is_ipv4();
            if !(may_lack || udp.checksum_ok(pseudo())) {
                return Err(broken("a wrong UDP checksum"));
            }
            let ports = Some((udp.src_port(), udp.dst_port()));
            // What has the CRC32c of an SCTP packet is one (RFC 6951).
            let inner = SctpView::parse(udp.payload()).is_ok_and(|inner| inner.verify() == Checksum::Good);
            let len = udp.payload().len() as u16;
            if inner {
                Body::Sctp(association(udp.payload(), ports)?)
            } else {
                Body::Udp(Udp { src_port: udp.src_port(), dst_port: udp.dst_port(), len })
            }
        }
        protocol::SCTP => Body::Sctp(association(l4, None)?),
        protocol::ICMP | protocol::ICMPV6 => match message(&ip, proto, l4)? {
            Some(icmp) => Body::Icmp(icmp),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    let segs = match &body {
        Body::Tcp(tcp) if handed.gso > 0 => tcp.len.div_ceil(u32::from(handed.gso)),
        _ => 1,
    };
    Ok(Some(Wire { at, ip, body, handed: Handed { segs, ..handed } }))
}

/// The IP header, the protocol and what it carries.
fn header(bytes: &[u8]) -> Result<(Ip, u8, &[u8]), String> {
    if bytes.first().is_some_and(|b| b >> 4 == 4) {
        let ip =
            ipv4::Ipv4View::parse(bytes).map_err(|e| format!("the stack sent a bad IPv4 header: {e:?}"))?;
        if !ip.checksum_ok() {
            return Err("the stack sent a wrong IPv4 checksum".to_owned());
        }
        if ip.is_fragment() {
            return Err(FRAGMENT.to_owned());
        }
        let head =
            Ip { src: ip.src().into(), dst: ip.dst().into(), tos: ip.tos(), ttl: ip.ttl(), flow_label: 0 };
        return Ok((head, ip.protocol(), ip.payload()));
    }
    let ip = ipv6::Ipv6View::parse(bytes).map_err(|e| format!("the stack sent a bad IPv6 header: {e:?}"))?;
    if ip.next_header() == protocol::FRAGMENT {
        return Err(FRAGMENT.to_owned());
    }
    let head = Ip {
        src: ip.src().into(),
        dst: ip.dst().into(),
        tos: ip.traffic_class(),
        ttl: ip.hop_limit(),
        flow_label: ip.flow_label(),
    };
    Ok((head, ip.next_header(), ip.payload()))
}

fn segment(tcp: &TcpView<'_>) -> Tcp {
    Tcp {
        src_port: tcp.src_port(),
        dst_port: tcp.dst_port(),
        seq: tcp.seq(),
        ack: tcp.ack(),
        flags: tcp.flags(),
        window: tcp.window(),
        urgent: tcp.urgent(),
        options: options::decode(tcp.option_bytes()),
        len: tcp.payload().len() as u32,
    }
}

fn association(l4: &[u8], udp: Option<(u16, u16)>) -> Result<Sctp, String> {
    let view = SctpView::parse(l4).map_err(|e| format!("the stack sent a bad SCTP header: {e:?}"))?;
    let crc = match view.verify() {
        Checksum::Good => Crc::Good,
        Checksum::Zero => Crc::Zero,
        Checksum::Bad => return Err("the stack sent a wrong CRC32c".to_owned()),
    };
    Ok(Sctp {
        src_port: view.src_port(),
        dst_port: view.dst_port(),
        vtag: view.vtag(),
        udp,
        crc,
        chunks: sctp::decode(view.payload())?,
        raw: None,
    })
}

fn message(ip: &Ip, proto: u8, l4: &[u8]) -> Result<Option<Icmp>, String> {
    let broken = |what: &str| format!("the stack sent {what}");
    let (kind, code, rest, error, data) = match (ip.src, ip.dst) {
        (IpAddr::V6(src), IpAddr::V6(dst)) if proto == protocol::ICMPV6 => {
            let icmp = icmp6::Icmp6View::parse(l4).map_err(|e| broken(&format!("bad ICMPv6: {e:?}")))?;
            if !icmp.checksum_ok(src, dst) {
                return Err(broken("a wrong ICMPv6 checksum"));
            }
            if (icmp6::ROUTER_SOLICIT..=137).contains(&icmp.kind()) {
                return Ok(None);
            }
            (icmp.kind(), icmp.code(), icmp.rest_of_header(), icmp.is_error(), icmp.data())
        }
        (IpAddr::V4(_), IpAddr::V4(_)) if proto == protocol::ICMP => {
            let icmp = icmp4::Icmp4View::parse(l4).map_err(|e| broken(&format!("bad ICMP: {e:?}")))?;
            if !icmp.checksum_ok() {
                return Err(broken("a wrong ICMP checksum"));
            }
            let error = matches!(icmp.kind(), 3..=5 | 11 | 12);
            (icmp.kind(), icmp.code(), icmp.rest_of_header(), error, icmp.data())
        }
        _ => return Err(broken("ICMP over the wrong version of IP")),
    };
    let quoted = if error { quote(data) } else { None };
    Ok(Some(Icmp { kind, code, rest: u32::from_be_bytes(rest), quoted, len: l4.len() as u32 }))
}

/// The beginning of a packet that an error quotes.
fn quote(data: &[u8]) -> Option<Quote> {
    let (src, dst, protocol, head, total): (IpAddr, IpAddr, u8, usize, usize) =
        if data.first().is_some_and(|b| b >> 4 == 4) {
            let ip = ipv4::Ipv4View::parse_quoted(data).ok()?;
            (ip.src().into(), ip.dst().into(), ip.protocol(), ip.header_len(), usize::from(ip.total_len()))
        } else {
            let ip = ipv6::Ipv6View::parse_quoted(data).ok()?;
            (ip.src().into(), ip.dst().into(), ip.next_header(), ipv6::HEADER_LEN, ip.total_len())
        };
    let l4 = data.get(head..)?;
    let word = |at: usize| Some(u32::from_be_bytes(l4.get(at..at + 4)?.try_into().ok()?));
    let ports = word(0)?;
    let tcp = protocol == protocol::TCP;
    let numbered = tcp || protocol == protocol::SCTP;
    let offset = l4.get(12).map_or(20, |b| usize::from(b >> 4) * 4);
    let l4_head = match protocol {
        protocol::TCP => offset,
        protocol::SCTP => 12,
        _ => 8,
    };
    Some(Quote {
        src: SocketAddr::new(src, (ports >> 16) as u16),
        dst: SocketAddr::new(dst, ports as u16),
        protocol,
        seq: if numbered { word(4)? } else { 0 },
        len: total.saturating_sub(head + l4_head) as u32,
        kept: l4.len() as u32,
    })
}

pub(super) fn pseudo(src: IpAddr, dst: IpAddr, proto: u8, len: usize) -> u64 {
    match (src, dst) {
        (IpAddr::V4(s), IpAddr::V4(d)) => checksum::pseudo_v4(s, d, proto, len),
        (IpAddr::V6(s), IpAddr::V6(d)) => checksum::pseudo_v6(s, d, proto, len),
        _ => 0,
    }
}
