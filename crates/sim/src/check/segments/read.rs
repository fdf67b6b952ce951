//! A segment of TCP out of a packet: what its headers say.
use crate::edit::{addresses, header_len, peek, wire_size};
use lowwater_core::packet::{Csum, Packet};
use lowwater_wire::checksum::{pseudo_v4, pseudo_v6};
use lowwater_wire::ipv4::Ipv4View;
use lowwater_wire::protocol;
use lowwater_wire::tcp::{TcpFlags, TcpOptions, TcpView};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Bytes that hold both headers with all of their options.
const HEADERS: usize = 128;
/// Bytes of an ICMP error before what it quotes.
const ICMP_HEADER: usize = 8;

/// What a segment says.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: TcpFlags,
    pub(super) window: u16,
    pub(super) options: TcpOptions,
    pub(super) option_bytes: u32,
    /// Bytes of payload, of the largest part of a super-packet, and how many parts there are.
    pub(super) len: u32,
    pub(super) part: u32,
    pub(super) parts: u32,
}

/// Where the payload of IP begins, and its protocol; fragments have none.
fn payload(b: &[u8]) -> Option<(usize, u8)> {
    match b.first()? >> 4 {
        4 if (b.get(6)? & 0x3f, *b.get(7)?) == (0, 0) => Some((usize::from(b[0] & 15) * 4, *b.get(9)?)),
        6 => Some((40, *b.get(6)?)),
        _ => None,
    }
}

/// Where TCP begins.
fn transport(b: &[u8]) -> Option<usize> {
    payload(b).filter(|(_, protocol)| *protocol == protocol::TCP).map(|(at, _)| at)
}

/// Of an ICMP or ICMPv6 error for a segment of TCP: where that came from, and where it was to go.
pub(super) fn quoted(packet: &Packet) -> Option<(SocketAddr, SocketAddr)> {
    let mut b = [0; HEADERS];
    let n = peek(packet, &mut b);
    let b = &b[..n];
    let (at, protocol) = payload(b)?;
    // Errors of ICMP that quote: unreachable, time exceeded, parameter problem (RFC 792); of ICMPv6 those below 128 (RFC 4443 section 2.1).
    let quotes = match (protocol, *b.get(at)?) {
        (protocol::ICMP, kind) => matches!(kind, 3 | 11 | 12),
        (protocol::ICMPV6, kind) => kind < 128,
        _ => false,
    };
    let quote = b.get(at + ICMP_HEADER..).filter(|_| quotes)?;
    let ports = quote.get(transport(quote)?..)?;
    let port = |n: usize| Some(u16::from_be_bytes([*ports.get(n)?, *ports.get(n + 1)?]));
    let (src, dst) = if quote[0] >> 4 == 4 {
        let ip = |n: usize| Some(IpAddr::from(*quote.get(n..)?.first_chunk::<4>()?));
        (ip(12)?, ip(16)?)
    } else {
        let ip = |n: usize| Some(IpAddr::from(*quote.get(n..)?.first_chunk::<16>()?));
        (ip(8)?, ip(24)?)
    };
    Some((SocketAddr::new(src, port(0)?), SocketAddr::new(dst, port(2)?)))
}

impl Segment {
    /// The segment in a packet, where there is one.
    pub(super) fn read(packet: &Packet) -> Option<Self> {
        let mut b = [0; HEADERS];
        let n = peek(packet, &mut b);
        let b = &b[..n];
        let tcp = TcpView::parse(b.get(transport(b)?..)?).ok()?;
        let (src, dst) = addresses(packet)?;
        let len = packet.len().checked_sub(header_len(packet))? as u32;
        let part = match packet.offload.gso_size {
            0 => len,
            size => len.min(size.into()),
        };
        Some(Self {
            from: SocketAddr::new(src, tcp.src_port()),
            to: SocketAddr::new(dst, tcp.dst_port()),
            seq: tcp.seq(),
            ack: tcp.ack(),
            flags: tcp.flags(),
            window: tcp.window(),
            options: tcp.options(),
            option_bytes: tcp.option_bytes().len() as u32,
            len,
            part,
            parts: wire_size(packet).0,
        })
    }

    /// Behind its last number.
    pub(super) fn end(&self) -> u32 {
        let flags = u32::from(self.flags.syn()) + u32::from(self.flags.fin());
        self.seq.wrapping_add(self.len).wrapping_add(flags)
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, seq, ack, flags, window, len, .. } = self;
        write!(f, "{from} > {to} {flags:?} {seq}+{len} ack {ack} win {window}")
    }
}

/// Its checksums hold, as far as somebody has to look at them.
pub(super) fn is_intact(packet: &Packet) -> bool {
    if packet.offload.csum != Csum::None {
        return true;
    }
    let bytes = packet.to_bytes();
    let segment = |at: usize| bytes.get(at..).unwrap_or_default();
    let Some((at, (src, dst))) = transport(&bytes).zip(addresses(packet)) else { return false };
    let len = segment(at).len();
    let (pseudo, header) = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let header = Ipv4View::parse(&bytes).is_ok_and(|ip| ip.checksum_ok());
            (pseudo_v4(src, dst, protocol::TCP, len), header)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => (pseudo_v6(src, dst, protocol::TCP, len), true),
        _ => return false,
    };
    header && TcpView::parse(segment(at)).is_ok_and(|tcp| tcp.checksum_ok(pseudo))
}
