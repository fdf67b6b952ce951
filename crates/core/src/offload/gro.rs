//! Receive coalescing: consecutive TCP segments of one flow in one batch of input become one.
use super::csum;
use crate::base::limits::MAX_PACKET_BYTES;
use crate::packet::{Csum, GsoKind, Head, Offload, Packet};
use bytes::{Bytes, BytesMut};
use core::net::IpAddr;
use lowwater_wire::tcp::{TcpFlags, TcpView};
use lowwater_wire::{checksum, ipv4, ipv6, protocol, tcp};
use smallvec::SmallVec;

/// Flows that are coalesced at a time (Linux: `MAX_GRO_SKBS`).
pub const GRO_FLOWS_MAX: usize = 8;
/// Segments in one coalesced packet, so that tiny segments make no long lists.
pub const GRO_SEGMENTS_MAX: usize = 64;

/// One packet, or several consecutive ones of a flow merged.
#[derive(Clone, Debug)]
pub struct Coalesced {
    /// The first packet as it came: IP takes it in as it is. Its checksum is marked valid if it was verified here.
    pub packet: Packet,
    /// Payloads of the segments after the first, in order. TCP takes them as more of the first one's payload.
    pub more: SmallVec<[Bytes; 1]>,
    /// The last segment carried PSH.
    pub push: bool,
    /// All segments have the same IPv4 ID instead of consecutive ones (DF packets may: RFC 6864).
    pub fixed_id: bool,
}

impl Coalesced {
    pub(crate) fn single(packet: Packet) -> Self {
        Self { packet, more: SmallVec::new(), push: false, fixed_id: false }
    }

    /// Number of segments.
    #[must_use]
    pub fn segments(&self) -> usize {
        1 + self.more.len()
    }

    /// Bytes of payload in the segments after the first.
    #[must_use]
    pub fn more_len(&self) -> usize {
        self.more.iter().map(Bytes::len).sum()
    }

    /// The same as one super-packet with contiguous payload (a copy), for whoever passes it on or records it.
    #[must_use]
    pub fn into_packet(self) -> Packet {
        if self.more.is_empty() {
            return self.packet;
        }
        let more_len = self.more_len();
        let Some(one) = Parsed::of(&self.packet) else { return self.packet };
        let mut bytes = BytesMut::with_capacity(self.packet.len() + more_len);
        bytes.extend_from_slice(self.packet.head.as_slice());
        bytes.extend_from_slice(&self.packet.payload);
        for chunk in &self.more {
            bytes.extend_from_slice(chunk);
        }
        let total = bytes.len();
        if one.v6 {
            bytes[4..6].copy_from_slice(&((total - ipv6::HEADER_LEN) as u16).to_be_bytes());
        } else {
            bytes[2..4].copy_from_slice(&(total as u16).to_be_bytes());
            bytes[10..12].fill(0);
            let sum = checksum::checksum(&bytes[..one.l4]);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        if self.push {
            bytes[one.l4 + 13] |= TcpFlags::PSH.bits() as u8;
        }
        tcp::fill_checksum_partial(&mut bytes[one.l4..], one.pseudo(total - one.l4));
        let csum = Csum::Partial { start: one.l4 as u16, offset: tcp::CHECKSUM_OFFSET as u16 };
        let gso = if one.v6 { GsoKind::Tcp6 } else { GsoKind::Tcp4 };
        let offload =
            Offload { gso, gso_size: one.len as u16, csum, repeats_cwr: one.flags.contains(TcpFlags::CWR) };
        Packet { head: Head::new(), payload: bytes.freeze(), offload, ..self.packet }
    }
}

/// What coalescing looks at in a TCP packet.
#[derive(Clone, Copy, Debug)]
struct Parsed {
    src: IpAddr,
    dst: IpAddr,
    ports: (u16, u16),
    v6: bool,
    /// Offset of the TCP header.
    l4: usize,
    /// Offset of the payload.
    end: usize,
    /// Length of the payload.
    len: usize,
    ident: u16,
    seq: u32,
    flags: TcpFlags,
    /// No IP options or extension headers, no fragment, no link padding, IP header checksum right.
    plain: bool,
}

impl Parsed {
    /// `None` for anything but TCP over IP.
    fn of(packet: &Packet) -> Option<Self> {
        let bytes = headers(packet);
        if bytes.first()? >> 4 == 4 {
            let ip = ipv4::Ipv4View::parse_quoted(bytes).ok()?;
            let l4 = ip.header_len();
            if ip.protocol() != protocol::TCP || ip.fragment_offset() != 0 {
                return None;
            }
            let plain = l4 == ipv4::HEADER_LEN
                && !ip.is_fragment()
                && usize::from(ip.total_len()) == packet.len()
                && ip.checksum_ok();
            return Self::tcp(packet, (ip.src().into(), ip.dst().into()), l4, ip.ident(), plain);
        }
        let ip = ipv6::Ipv6View::parse_quoted(bytes).ok()?;
        // Extension headers are rare enough on TCP to be left to the IP layer.
        if ip.next_header() != protocol::TCP {
            return None;
        }
        let plain = ip.total_len() == packet.len();
        Self::tcp(packet, (ip.src().into(), ip.dst().into()), ipv6::HEADER_LEN, 0, plain)
    }

    fn tcp(
        packet: &Packet,
        (src, dst): (IpAddr, IpAddr),
        l4: usize,
        ident: u16,
        plain: bool,
    ) -> Option<Self> {
        let view = TcpView::parse(headers(packet).get(l4..)?).ok()?;
        let end = l4 + view.header_len();
        // In a packet from a link in memory the headers must end where the head ends.
        let plain = plain && (packet.head.is_empty() || packet.head.len() == end);
        Some(Self {
            src,
            dst,
            ports: (view.src_port(), view.dst_port()),
            v6: src.is_ipv6(),
            l4,
            end,
            len: packet.len().checked_sub(end)?,
            ident,
            seq: view.seq(),
            flags: view.flags(),
            plain,
        })
    }

    fn pseudo(&self, len: usize) -> u64 {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => checksum::pseudo_v4(src, dst, protocol::TCP, len),
            (IpAddr::V6(src), IpAddr::V6(dst)) => checksum::pseudo_v6(src, dst, protocol::TCP, len),
            _ => 0,
        }
    }

    fn same_flow(&self, other: &Self) -> bool {
        self.ports == other.ports && self.src == other.src && self.dst == other.dst
    }

    /// True for a segment that may be merged at all: plain data, so that pure ACKs, SYN, FIN, RST and URG keep their
    /// own identity and are never delayed. The bits of the ACE field are as those of the segments before ([`Held::accepts`]).
    fn mergeable(&self, packet: &Packet) -> bool {
        let allowed = TcpFlags::ACK | TcpFlags::PSH | TcpFlags::ECE | TcpFlags::CWR | TcpFlags::AE;
        self.plain
            && self.len > 0
            && self.flags.ack()
            && !self.flags.intersects(TcpFlags::from_bits_truncate(!allowed.bits()))
            && packet.offload.gso == GsoKind::None
            && csum::verify(packet, self.l4, self.pseudo(packet.len() - self.l4))
    }
}

/// The contiguous bytes in which the headers lie.
fn headers(packet: &Packet) -> &[u8] {
    if packet.head.is_empty() { &packet.payload } else { packet.head.as_slice() }
}

/// TCP without data, or with PSH, behind an IP header without options, whatever else is right or wrong about it: nothing ever waits behind it.
fn ends_at_once(bytes: &[u8]) -> bool {
    let (l4, stated) = match bytes {
        [0x45, _, high, low, _, _, _, _, _, protocol::TCP, ..] => {
            (ipv4::HEADER_LEN, usize::from(u16::from_be_bytes([*high, *low])))
        }
        [0x60..=0x6f, _, _, _, high, low, protocol::TCP, ..] => {
            (ipv6::HEADER_LEN, ipv6::HEADER_LEN + usize::from(u16::from_be_bytes([*high, *low])))
        }
        _ => return false,
    };
    let Some(&[words, flags]) = bytes.get(l4 + 12..l4 + 14) else { return false };
    flags & TcpFlags::PSH.bits() as u8 != 0 || stated == l4 + 4 * usize::from(words >> 4)
}

/// A flow's packet that may still grow.
#[derive(Debug)]
struct Held {
    merged: Coalesced,
    first: Parsed,
    total: usize,
    next_seq: u32,
    last_ident: u16,
}

impl Held {
    fn new(packet: Packet, first: Parsed) -> Self {
        let (total, next_seq) = (packet.len(), first.seq.wrapping_add(first.len as u32));
        let last_ident = first.ident;
        Self { merged: Coalesced::single(packet), first, total, next_seq, last_ident }
    }

    /// True when `packet` continues this one so that segmenting the whole would give both back.
    fn accepts(&self, packet: &Packet, next: &Parsed) -> bool {
        let (a, b) = (headers(&self.merged.packet), headers(packet));
        let first = &self.first;
        if next.seq != self.next_seq
            || next.end != first.end
            || next.len > first.len
            || self.total + next.len > MAX_PACKET_BYTES
            || self.merged.segments() >= GRO_SEGMENTS_MAX
        {
            return false;
        }
        let same_ip = if first.v6 {
            // Traffic class and flow label; hop limit.
            a[..4] == b[..4] && a[7] == b[7]
        } else {
            // Type of service; DF; TTL.
            a[1] == b[1] && a[6..9] == b[6..9] && self.accepts_ident(next.ident, a[6] & 0x40 != 0)
        };
        let (a, b) = (&a[first.l4..first.end], &b[first.l4..first.end]);
        let push = TcpFlags::PSH.bits() as u8;
        // Acknowledgment; length, reserved bits and flags but PSH; window; urgent pointer and options, timestamps included.
        same_ip
            && a[8..13] == b[8..13]
            && (a[13] ^ b[13]) & !push == 0
            && a[14..16] == b[14..16]
            && a[18..] == b[18..]
    }

    fn accepts_ident(&self, ident: u16, dont_fragment: bool) -> bool {
        let next = self.last_ident.wrapping_add(1);
        if self.merged.more.is_empty() {
            return ident == next || (dont_fragment && ident == self.last_ident);
        }
        ident == if self.merged.fixed_id { self.last_ident } else { next }
    }

    fn merge(&mut self, packet: &Packet, next: &Parsed) {
        self.merged.fixed_id = !self.first.v6 && next.ident == self.last_ident;
        self.last_ident = next.ident;
        self.next_seq = self.next_seq.wrapping_add(next.len as u32);
        self.total += next.len;
        self.merged.push = next.flags.contains(TcpFlags::PSH);
        self.merged.more.push(packet.payload.slice(packet.payload.len() - next.len..));
    }

    /// A short segment or PSH ends a super-packet: nothing may follow it.
    const fn complete(&self, last: &Parsed) -> bool {
        last.len < self.first.len || last.flags.contains(TcpFlags::PSH)
    }
}

/// The table of flows being coalesced. Call [`Gro::flush`] at the end of each batch: nothing is held longer.
#[derive(Debug, Default)]
pub struct Gro {
    /// Oldest first.
    held: Vec<Held>,
}

impl Gro {
    /// Takes in one packet that starts with its IP header; what is ready goes to `out`, in order within each flow.
    ///
    /// Only data segments with a right checksum are ever held, and each held flow leaves before anything that follows it.
    pub fn receive(&mut self, mut packet: Packet, out: &mut Vec<Coalesced>) {
        let Some(parsed) = Parsed::of(&packet) else {
            out.push(Coalesced::single(packet));
            return;
        };
        let at = self.held.iter().position(|held| held.first.same_flow(&parsed));
        if !parsed.mergeable(&packet) {
            out.extend(at.map(|at| self.held.remove(at).merged));
            out.push(Coalesced::single(packet));
            return;
        }
        if packet.offload.csum == Csum::None {
            packet.offload.csum = Csum::Valid;
        }
        if let Some(at) = at {
            let held = &mut self.held[at];
            if held.accepts(&packet, &parsed) {
                held.merge(&packet, &parsed);
                if held.complete(&parsed) {
                    out.push(self.held.remove(at).merged);
                }
                return;
            }
            out.push(self.held.remove(at).merged);
        }
        self.hold(packet, parsed, out);
    }

    /// Nothing waits for more, and neither would this packet: [`Self::receive`] would give it back at once. Most of what is no part of a train of
    /// data is told from it by a few bytes here, before any sum is taken.
    #[must_use]
    pub fn passes_by(&self, packet: &Packet) -> bool {
        self.held.is_empty() && (packet.offload.gso != GsoKind::None || ends_at_once(headers(packet)))
    }

    fn hold(&mut self, packet: Packet, parsed: Parsed, out: &mut Vec<Coalesced>) {
        if parsed.flags.contains(TcpFlags::PSH) {
            out.push(Coalesced::single(packet));
            return;
        }
        if self.held.len() >= GRO_FLOWS_MAX {
            out.push(self.held.remove(0).merged);
        }
        self.held.push(Held::new(packet, parsed));
    }

    /// Hands over everything held, oldest first.
    pub fn flush(&mut self, out: &mut Vec<Coalesced>) {
        out.extend(self.held.drain(..).map(|held| held.merged));
    }
}

#[cfg(test)]
mod tests;
