//! Fragmentation of a packet that is too big for its path: IPv4 (RFC 791) and IPv6 at the source (RFC 8200 section 4.5).
use crate::packet::{Csum, Head, Packet};
use core::iter;
use lowwater_wire::ipv4::{Ipv4Repr, Ipv4View};
use lowwater_wire::ipv6::{FRAGMENT_HEADER_LEN, FragmentHeader, Ipv6Repr, Ipv6View};
use lowwater_wire::{checksum, ipv4, ipv6, protocol};

/// The header that each fragment gets, with the fields that differ left to be filled in.
#[derive(Clone, Copy, Debug)]
enum Template {
    V4(Ipv4Repr),
    V6(Ipv6Repr, FragmentHeader),
}

impl Template {
    fn prepend(&mut self, head: &mut Head, offset: usize, len: usize, more: bool) {
        match self {
            Self::V4(ip) => {
                (ip.fragment_offset, ip.payload_len, ip.more_fragments) = (offset as u16, len as u16, more);
                ip.emit(head.prepend(ip.buffer_len()));
            }
            Self::V6(ip, fragment) => {
                (fragment.offset, fragment.more) = (offset as u16, more);
                ip.payload_len = (FRAGMENT_HEADER_LEN + len) as u16;
                fragment.emit(head.prepend(FRAGMENT_HEADER_LEN));
                ip.emit(head.prepend(ip.buffer_len()));
            }
        }
    }
}

/// Bytes of data that fit in one fragment, a multiple of 8; 0 when `mtu` leaves no room.
pub(super) const fn room(v4: bool, mtu: usize) -> usize {
    let header_len = if v4 { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN + FRAGMENT_HEADER_LEN };
    mtu.saturating_sub(header_len) & !7
}

/// The fragments of `packet`, which starts with an IP header of our own making, with at most `room` bytes of data each.
/// `ident` is the IPv6 identification; IPv4 keeps its own. Payload is shared; the owner's charge travels with the last one.
pub(super) fn split(packet: Packet, room: usize, ident: u32) -> impl Iterator<Item = Packet> {
    let template = template(packet.head.as_slice(), ident);
    let Packet { head, mut payload, offload, owner, at, priority } = complete(packet);
    // What the transport put in the head goes with the first fragment.
    let mut l4_head = head;
    l4_head.strip(match template {
        Some(Template::V6(..)) => ipv6::HEADER_LEN,
        _ => ipv4::HEADER_LEN,
    });
    if l4_head.len() > room {
        payload = [l4_head.as_slice(), &payload].concat().into();
        l4_head = Head::new();
    }
    let total = l4_head.len() + payload.len();
    let mut offset = 0;
    iter::from_fn(move || {
        let mut template = template.filter(|_| offset < total)?;
        let len = room.min(total - offset);
        let more = offset + len < total;
        let mut head = core::mem::take(&mut l4_head);
        let data = payload.split_to(len - head.len());
        template.prepend(&mut head, offset, len, more);
        offset += len;
        Some(Packet { head, payload: data, offload, owner: owner.filter(|_| !more), at, priority })
    })
}

fn template(head: &[u8], ident: u32) -> Option<Template> {
    if head.first()? >> 4 == 4 {
        let view = Ipv4View::parse_quoted(head).ok()?;
        return Some(Template::V4(Ipv4Repr::parse(&view)));
    }
    let ip = Ipv6Repr::parse(&Ipv6View::parse_quoted(head).ok()?);
    let fragment = FragmentHeader { next_header: ip.next_header, offset: 0, more: false, ident };
    Some(Template::V6(Ipv6Repr { next_header: protocol::FRAGMENT, ..ip }, fragment))
}

/// Completes a partial checksum: no device can do that over fragments.
fn complete(mut packet: Packet) -> Packet {
    let Csum::Partial { start, offset } = packet.offload.csum else { return packet };
    let (start, field) = (usize::from(start), usize::from(start) + usize::from(offset));
    packet.offload.csum = Csum::None;
    let head = packet.head.as_mut_slice();
    if field + 2 <= head.len() {
        let sum = checksum::sum_parts(&[&head[start..], &packet.payload]);
        // Zero means "none" for UDP, and all ones is the same number.
        let value = match checksum::finish(sum) {
            0 => 0xffff,
            value => value,
        };
        head[field..field + 2].copy_from_slice(&value.to_be_bytes());
    }
    packet
}

#[cfg(test)]
mod tests;
