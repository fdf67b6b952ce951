//! Software segmentation: the packets that a super-packet stands for, headers made anew, payload shared. Those of SCTP are complete
//! but for their IP headers.
use super::csum;
use crate::base::Instant;
use crate::base::limits::HEAD_BYTES;
use crate::packet::{Csum, GsoKind, Head, Offload, Owner, Packet};
use bytes::Bytes;
use lowwater_wire::{checksum, ipv4, ipv6, protocol, tcp};

/// Bits that only the first segment carries: CWR (RFC 3168 section 6.1.2), where it is no bit of an ACE field.
const FIRST_ONLY: u8 = 0x80;
/// Bits that only the last segment carries: FIN and PSH.
const LAST_ONLY: u8 = 0x09;

/// Where the headers of a TCP packet lie, or the IP header of one of SCTP.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Start of the IP header.
    l3: usize,
    /// Start of the TCP header.
    l4: usize,
    /// Start of the payload: with SCTP where the common header begins.
    end: usize,
    v6: bool,
}

impl Layout {
    fn of(bytes: &[u8], l3: usize, gso: GsoKind) -> Option<Self> {
        let wanted = if gso == GsoKind::Sctp { protocol::SCTP } else { protocol::TCP };
        let packet = bytes.get(l3..)?;
        let (v6, l3_len) = match packet.first()? >> 4 {
            4 => {
                let view = ipv4::Ipv4View::parse_quoted(packet).ok()?;
                (false, (view.protocol() == wanted).then_some(view.header_len())?)
            }
            _ => {
                let view = ipv6::Ipv6View::parse_quoted(packet).ok()?;
                let chain = ipv6::walk(view.next_header(), view.payload()).ok()?;
                let plain = chain.protocol == wanted && chain.fragment.is_none();
                (true, plain.then_some(ipv6::HEADER_LEN + chain.offset)?)
            }
        };
        let l4 = l3 + l3_len;
        if gso == GsoKind::Sctp {
            return Some(Self { l3, l4, end: l4, v6 });
        }
        let header_len = tcp::TcpView::parse(bytes.get(l4..)?).ok()?.header_len();
        Some(Self { l3, l4, end: l4 + header_len, v6 })
    }

    /// The transport's headers are part of the payload.
    const fn is_sctp(&self) -> bool {
        self.l4 == self.end
    }

    /// Partial sum over the pseudo-header of a segment with `len` bytes of payload.
    fn pseudo(&self, head: &[u8], len: usize) -> u64 {
        let addresses = if self.v6 { self.l3 + 8..self.l3 + 40 } else { self.l3 + 12..self.l3 + 20 };
        checksum::sum(&head[addresses]) + u64::from(protocol::TCP) + (self.end - self.l4 + len) as u64
    }
}

/// The packets that `packet` stands for, `link_len` bytes of link header in front of each. With `fill_csum` their checksums
/// are complete; without, partial as in the super-packet. An ordinary packet gives itself; so does one whose headers cannot
/// be read.
///
/// IPv4 IDs are consecutive; CWR stays on the first packet, unless [`Offload::repeats_cwr`] is set, FIN and PSH on the last; all carry the same TCP
/// timestamps and the same departure time. The owner's charge travels with the last one: the credit comes back when all have left.
#[must_use]
pub fn segment(mut packet: Packet, link_len: usize, fill_csum: bool) -> Segments {
    let size = usize::from(packet.offload.gso_size);
    let super_packet = packet.offload.gso != GsoKind::None && size > 0;
    let layout = if super_packet { headers_into_head(&mut packet, link_len) } else { None };
    let Some(layout) = layout.filter(|_| packet.payload.len() > size) else {
        if layout.is_some() {
            packet.offload = Offload { csum: packet.offload.csum, ..Offload::default() };
        }
        if fill_csum {
            csum::fill(&mut packet, link_len);
        }
        return Segments { whole: Some(packet), split: None };
    };
    let bytes = packet.head.as_slice();
    let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let (seq, flags) = if layout.is_sctp() {
        (0, 0)
    } else {
        (u32::from(word(layout.l4 + 4)) << 16 | u32::from(word(layout.l4 + 6)), bytes[layout.l4 + 13])
    };
    let split = Split {
        ident: if layout.v6 { 0 } else { word(layout.l3 + 4) },
        seq,
        flags: [flags, if packet.offload.repeats_cwr { flags } else { flags & !FIRST_ONLY }],
        layout,
        head: packet.head,
        payload: packet.payload,
        size,
        sent: 0,
        fill_csum,
        owner: packet.owner,
        at: packet.at,
        priority: packet.priority,
    };
    Segments { whole: None, split: Some(split) }
}

/// Finds the headers, and moves them from the payload into the head where a device has left them there.
fn headers_into_head(packet: &mut Packet, link_len: usize) -> Option<Layout> {
    if !packet.head.is_empty() {
        return Layout::of(packet.head.as_slice(), link_len, packet.offload.gso)
            .filter(|l| l.end == packet.head.len());
    }
    let layout = Layout::of(&packet.payload, link_len, packet.offload.gso).filter(|l| l.end <= HEAD_BYTES)?;
    let headers = packet.payload.split_to(layout.end);
    packet.head.prepend(layout.end).copy_from_slice(&headers);
    Some(layout)
}

#[derive(Debug)]
struct Split {
    layout: Layout,
    head: Head,
    payload: Bytes,
    size: usize,
    /// Payload bytes that have become packets.
    sent: usize,
    ident: u16,
    seq: u32,
    /// Those of the first packet, and of the others.
    flags: [u8; 2],
    fill_csum: bool,
    owner: Option<Owner>,
    at: Instant,
    priority: Option<u8>,
}

impl Split {
    fn next(&mut self) -> Option<Packet> {
        let left = self.payload.len() - self.sent;
        if left == 0 {
            return None;
        }
        let (first, last) = (self.sent == 0, left <= self.size);
        let payload = self.payload.slice(self.sent..self.sent + left.min(self.size));
        let mut head = self.head.clone();
        self.patch(head.as_mut_slice(), payload.len(), first, last);
        let csum = self.checksum(head.as_mut_slice(), &payload);
        self.sent += payload.len();
        self.ident = self.ident.wrapping_add(1);
        Some(Packet {
            head,
            payload,
            offload: Offload { csum, ..Offload::default() },
            owner: self.owner.filter(|_| last),
            at: self.at,
            priority: self.priority,
        })
    }

    fn patch(&self, head: &mut [u8], len: usize, first: bool, last: bool) {
        let Layout { l3, l4, end, v6 } = self.layout;
        let mut put = |at: usize, value: u16| head[at..at + 2].copy_from_slice(&value.to_be_bytes());
        if v6 {
            put(l3 + 4, (end - l3 - ipv6::HEADER_LEN + len) as u16);
        } else {
            put(l3 + 2, (end - l3 + len) as u16);
            put(l3 + 4, self.ident);
            put(l3 + 10, 0);
            let sum = checksum::checksum(&head[l3..l4]);
            head[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
        }
        if self.layout.is_sctp() {
            return;
        }
        let seq = self.seq.wrapping_add(self.sent as u32);
        head[l4 + 4..l4 + 8].copy_from_slice(&seq.to_be_bytes());
        head[l4 + 13] = self.flags[usize::from(!first)] & if last { u8::MAX } else { !LAST_ONLY };
    }

    fn checksum(&self, head: &mut [u8], payload: &[u8]) -> Csum {
        if self.layout.is_sctp() {
            return Csum::None;
        }
        let pseudo = self.layout.pseudo(head, payload.len());
        let header = &mut head[self.layout.l4..];
        if self.fill_csum {
            tcp::fill_checksum(header, pseudo, &[payload]);
            return Csum::None;
        }
        tcp::fill_checksum_partial(header, pseudo);
        let start = (self.layout.l4 - self.layout.l3) as u16;
        Csum::Partial { start, offset: tcp::CHECKSUM_OFFSET as u16 }
    }
}

/// Iterator over the packets of a super-packet.
#[derive(Debug)]
pub struct Segments {
    whole: Option<Packet>,
    split: Option<Split>,
}

impl Iterator for Segments {
    type Item = Packet;

    fn next(&mut self) -> Option<Packet> {
        self.whole.take().or_else(|| self.split.as_mut()?.next())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let split = self.split.as_ref().map_or(0, |s| (s.payload.len() - s.sent).div_ceil(s.size));
        let len = usize::from(self.whole.is_some()) + split;
        (len, Some(len))
    }
}

impl ExactSizeIterator for Segments {}

#[cfg(test)]
mod tests;
