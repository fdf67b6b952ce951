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

/// Where TCP begins, and the protocol there; fragments have none.
fn transport(b: &[u8]) -> Option<usize> {
    let (at, protocol) = match b.first()? >> 4 {
        4 if (b.get(6)? & 0x3f, *b.get(7)?) == (0, 0) => (usize::from(b[0] & 15) * 4, *b.get(9)?),
        6 => (40, *b.get(6)?),
        _ => return None,
    };
    (protocol == protocol::TCP).then_some(at)
}

/// The packet is one of ICMP or ICMPv6.
pub(super) fn is_icmp(packet: &Packet) -> bool {
    let mut b = [0; HEADERS];
    let n = peek(packet, &mut b);
    match b[..n] {
        [first, ref rest @ ..] if first >> 4 == 4 => rest.get(8) == Some(&protocol::ICMP),
        [_, ref rest @ ..] => rest.get(5) == Some(&protocol::ICMPV6),
        [] => false,
    }
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
