//! Edits that links make to packets in flight: completing checksums, marking congestion, quoting in ICMP errors.
use bytes::{Bytes, BytesMut};
use lowwater_core::base::Instant;
use lowwater_core::packet::{Csum, Offload, Packet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const PROTO_ICMP: u8 = 1;
const PROTO_ICMP6: u8 = 58;

/// Ones' complement sum of 16-bit words (RFC 1071), not folded.
fn sum(bytes: &[u8]) -> u64 {
    let mut total = 0u64;
    let (words, rest) = bytes.as_chunks::<2>();
    for w in words {
        total += u64::from(u16::from_be_bytes(*w));
    }
    if let [last] = rest {
        total += u64::from(*last) << 8;
    }
    total
}

fn fold(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// Fills in a checksum that was left to the hardware. `bytes` begins with the IP header.
pub fn complete_checksum(bytes: &mut [u8], start: u16, offset: u16) {
    let (start, at) = (usize::from(start), usize::from(start) + usize::from(offset));
    if at + 2 > bytes.len() {
        return;
    }
    let value = !fold(sum(&bytes[start..]));
    // A UDP checksum of zero means "none" (RFC 768), and 0xffff is equal to it in ones' complement.
    let udp = transport_protocol(bytes) == Some(17);
    let value = if value == 0 && udp { 0xffff } else { value };
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// The packet's bytes as they appear on a wire that has no offloads; a super-packet stays whole.
#[must_use]
pub fn wire_bytes(packet: &Packet) -> Bytes {
    let Csum::Partial { start, offset } = packet.offload.csum else { return packet.to_bytes() };
    let mut all = BytesMut::with_capacity(packet.len());
    all.extend_from_slice(packet.head.as_slice());
    all.extend_from_slice(&packet.payload);
    complete_checksum(&mut all, start, offset);
    all.freeze()
}

/// The first bytes of the packet: its headers, copied to `buffer`; returns how many there are.
pub fn peek(packet: &Packet, buffer: &mut [u8]) -> usize {
    let head = packet.head.as_slice();
    let from_head = head.len().min(buffer.len());
    buffer[..from_head].copy_from_slice(&head[..from_head]);
    let rest = (buffer.len() - from_head).min(packet.payload.len());
    buffer[from_head..from_head + rest].copy_from_slice(&packet.payload[..rest]);
    from_head + rest
}

fn transport_protocol(bytes: &[u8]) -> Option<u8> {
    match bytes.first()? >> 4 {
        4 => bytes.get(9).copied(),
        6 => bytes.get(6).copied(),
        _ => None,
    }
}

/// Length of IP and transport headers of a TCP packet, or of the IP header of anything else; 0 when it is no IP packet.
#[must_use]
pub fn header_len(packet: &Packet) -> usize {
    let mut b = [0u8; 128];
    let n = peek(packet, &mut b);
    let ip = match b[0] >> 4 {
        4 if n >= 20 => usize::from(b[0] & 15) * 4,
        6 if n >= 40 => 40,
        _ => return 0,
    };
    match transport_protocol(&b[..n]) {
        Some(6) if n > ip + 12 => ip + usize::from(b[ip + 12] >> 4) * 4,
        _ => ip,
    }
}

/// Number of segments and bytes on the wire, repeated headers included.
#[must_use]
pub fn wire_size(packet: &Packet) -> (u32, u32) {
    let len = packet.len();
    let size = usize::from(packet.offload.gso_size);
    if size == 0 {
        return (1, len as u32);
    }
    let head = header_len(packet);
    let segs = len.saturating_sub(head).div_ceil(size).max(1);
    (segs as u32, (len + (segs - 1) * head) as u32)
}

/// Source and destination address.
#[must_use]
pub fn addresses(packet: &Packet) -> Option<(IpAddr, IpAddr)> {
    let mut b = [0u8; 40];
    let n = peek(packet, &mut b);
    match b[0] >> 4 {
        4 if n >= 20 => {
            let at = |i: usize| IpAddr::V4(Ipv4Addr::new(b[i], b[i + 1], b[i + 2], b[i + 3]));
            Some((at(12), at(16)))
        }
        6 if n >= 40 => {
            let at = |i: usize| -> Option<IpAddr> {
                Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&b[i..i + 16]).ok()?)))
            };
            Some((at(8)?, at(24)?))
        }
        _ => None,
    }
}

/// The leading bytes of the IP header made writable in place (head) or by a copy (payload only).
fn with_ip_header(packet: &mut Packet, edit: impl FnOnce(&mut [u8])) {
    if packet.head.is_empty() {
        let mut copy = BytesMut::from(&packet.payload[..]);
        edit(&mut copy);
        packet.payload = copy.freeze();
    } else {
        edit(packet.head.as_mut_slice());
    }
}

fn refresh_v4_checksum(h: &mut [u8]) {
    let len = usize::from(h[0] & 15) * 4;
    if len < 20 || len > h.len() {
        return;
    }
    h[10..12].fill(0);
    let value = !fold(sum(&h[..len]));
    h[10..12].copy_from_slice(&value.to_be_bytes());
}

/// The ECN codepoint (RFC 3168 section 5): 0 not capable, 1 ECT(1), 2 ECT(0), 3 CE.
#[must_use]
pub fn ecn(packet: &Packet) -> u8 {
    let mut b = [0u8; 2];
    if peek(packet, &mut b) < 2 {
        return 0;
    }
    match b[0] >> 4 {
        4 => b[1] & 3,
        6 => (b[1] >> 4) & 3,
        _ => 0,
    }
}

/// Sets "congestion experienced"; does nothing to a packet that is not ECN-capable. True when the packet carries CE now.
pub fn mark_ce(packet: &mut Packet) -> bool {
    if ecn(packet) == 0 {
        return false;
    }
    with_ip_header(packet, |h| match h[0] >> 4 {
        4 => {
            h[1] |= 3;
            refresh_v4_checksum(h);
        }
        6 => h[1] |= 0x30,
        _ => {}
    });
    true
}

/// True when no router may fragment the packet: always for IPv6 (RFC 8200 section 5).
#[must_use]
pub fn dont_fragment(packet: &Packet) -> bool {
    let mut b = [0u8; 8];
    let n = peek(packet, &mut b);
    n < 8 || b[0] >> 4 != 4 || b[6] & 0x40 != 0
}

/// Router addresses that ICMP errors come from: documentation and link-local prefixes that no host here has.
const ROUTER_V4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const ROUTER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1);

/// "Fragmentation needed" (RFC 1191 section 4) or "packet too big" (RFC 4443 section 3.2) from a router, for `packet`.
#[must_use]
pub fn too_big(packet: &Packet, mtu: u16, now: Instant) -> Option<Packet> {
    let (source, dest) = addresses(packet)?;
    let quoted = wire_bytes(packet);
    let frame = match source {
        IpAddr::V4(to) => icmp4_too_big(to, &quoted, mtu),
        IpAddr::V6(to) => icmp6_too_big(to, &quoted, mtu),
    };
    let _ = dest;
    Some(Packet::received(frame, Offload::default(), now))
}

fn icmp4_too_big(to: Ipv4Addr, quoted: &[u8], mtu: u16) -> Bytes {
    let quote = &quoted[..quoted.len().min(548)];
    let total = 20 + 8 + quote.len();
    let mut b = BytesMut::with_capacity(total);
    b.extend_from_slice(&[0x45, 0xc0]);
    b.extend_from_slice(&(total as u16).to_be_bytes());
    b.extend_from_slice(&[0, 0, 0, 0, 64, PROTO_ICMP, 0, 0]);
    b.extend_from_slice(&ROUTER_V4.octets());
    b.extend_from_slice(&to.octets());
    refresh_v4_checksum(&mut b);
    b.extend_from_slice(&[3, 4, 0, 0, 0, 0]);
    b.extend_from_slice(&mtu.to_be_bytes());
    b.extend_from_slice(quote);
    let value = !fold(sum(&b[20..]));
    b[22..24].copy_from_slice(&value.to_be_bytes());
    b.freeze()
}

fn icmp6_too_big(to: Ipv6Addr, quoted: &[u8], mtu: u16) -> Bytes {
    let quote = &quoted[..quoted.len().min(1280 - 48)];
    let len = 8 + quote.len();
    let mut b = BytesMut::with_capacity(40 + len);
    b.extend_from_slice(&[0x60, 0, 0, 0]);
    b.extend_from_slice(&(len as u16).to_be_bytes());
    b.extend_from_slice(&[PROTO_ICMP6, 64]);
    b.extend_from_slice(&ROUTER_V6.octets());
    b.extend_from_slice(&to.octets());
    b.extend_from_slice(&[2, 0, 0, 0]);
    b.extend_from_slice(&u32::from(mtu).to_be_bytes());
    b.extend_from_slice(quote);
    let pseudo = sum(&b[8..40]) + len as u64 + u64::from(PROTO_ICMP6);
    let value = !fold(pseudo + sum(&b[40..]));
    b[42..44].copy_from_slice(&value.to_be_bytes());
    b.freeze()
}

/// Flips a burst of at most eight neighbouring bits, which every ones' complement checksum detects (RFC 1071).
#[must_use]
pub fn flip_bits(packet: &Packet, position: u64, pattern: u8, now: Instant) -> Packet {
    let mut bytes = BytesMut::from(&wire_bytes(packet)[..]);
    if !bytes.is_empty() {
        let at = (position % bytes.len() as u64) as usize;
        bytes[at] ^= pattern.max(1);
    }
    Packet::received(bytes.freeze(), Offload::default(), now)
}

#[cfg(test)]
mod tests;
