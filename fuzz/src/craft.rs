//! Builds packets from nothing, byte by byte and not by the code under test: headers, options, fragments, ICMP, ARP.
use crate::world::{World, v4, v6};
use crate::{mutate, sctp};
use lowwater_core::base::Rng;
use lowwater_core::device::DeviceCaps;
use std::net::IpAddr;

/// Ports on which things happen.
pub(crate) const PORTS: &[u16] = &[7, 80, 1_000, 40_000];

/// One or more IP packets for side `n`.
pub(crate) fn any(world: &World, n: usize, rng: &mut Rng) -> Vec<Vec<u8>> {
    let (src, dst) = addresses(n, rng);
    match rng.below(9) {
        0 => vec![noise(rng, 120)],
        1 => vec![ip(src, dst, rng.next_u32() as u8, &noise(rng, 64), rng)],
        2 => vec![ip(src, dst, 17, &udp(rng), rng)],
        3 => vec![icmp(src, dst, rng)],
        8 => vec![ip(src, dst, 132, &sctp::packet((port(rng), port(rng)), rng), rng)],
        4 => (0..rng.below(40)).map(|_| ip(src, dst, 6, &tcp(world, n, rng, Some(2)), rng)).collect(),
        _ => vec![ip(src, dst, 6, &tcp(world, n, rng, None), rng)],
    }
}

/// Mostly the neighbour and us, sometimes what no packet may carry.
fn addresses(n: usize, rng: &mut Rng) -> (IpAddr, IpAddr) {
    let six = rng.below(2) == 1;
    let (src, dst) = if six { (v6(1 - n), v6(n)) } else { (v4(1 - n), v4(n)) };
    let odd: &[&str] = if six {
        &["::", "::1", "ff02::1", "ff02::1:ff00:1", "fe80::1", "::ffff:10.0.0.1", "fd00::99"]
    } else {
        &["0.0.0.0", "127.0.0.1", "255.255.255.255", "224.0.0.1", "10.0.0.255", "10.0.0.77", "240.0.0.1"]
    };
    let mut strange = || odd[rng.below(odd.len() as u64) as usize].parse().expect("an address");
    let (a, b) = (strange(), strange());
    match rng.below(12) {
        0 => (a, dst),
        1 => (src, b),
        2 => (dst, dst),
        _ => (src, dst),
    }
}

fn noise(rng: &mut Rng, max: u64) -> Vec<u8> {
    (0..rng.below(max + 1)).map(|_| rng.next_u32() as u8).collect()
}

/// An IP packet around `payload`, sometimes with options or extension headers.
pub(crate) fn ip(src: IpAddr, dst: IpAddr, protocol: u8, payload: &[u8], rng: &mut Rng) -> Vec<u8> {
    match (src, dst) {
        (IpAddr::V4(s), IpAddr::V4(d)) => {
            let options = if rng.below(8) == 0 { 4 * rng.below(11) as usize } else { 0 };
            let mut out = vec![0; 20 + options];
            out[0] = 0x40 | (5 + options / 4) as u8;
            out[1] = if rng.below(4) == 0 { rng.next_u32() as u8 } else { 0 };
            out[4..6].copy_from_slice(&(rng.next_u32() as u16).to_be_bytes());
            out[8] = [64, 64, 64, 1, 0][rng.below(5) as usize];
            out[9] = protocol;
            out[12..16].copy_from_slice(&s.octets());
            out[16..20].copy_from_slice(&d.octets());
            for byte in &mut out[20..] {
                *byte = rng.next_u32() as u8;
            }
            out.extend_from_slice(payload);
            mutate::repair_v4(&mut out);
            out
        }
        (s, d) => {
            let (mut next, mut inner) = (protocol, payload.to_vec());
            for _ in 0..if rng.below(3) == 0 { rng.below(6) } else { 0 } {
                (next, inner) = extension(next, &inner, rng);
            }
            let mut out = vec![0x60, 0, 0, 0];
            out.extend_from_slice(&(inner.len() as u16).to_be_bytes());
            out.extend_from_slice(&[next, [64, 255, 1, 0][rng.below(4) as usize]]);
            out.extend_from_slice(&six(s));
            out.extend_from_slice(&six(d));
            out.extend_from_slice(&inner);
            out
        }
    }
}

fn six(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V6(ip) => ip.octets(),
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
    }
}

/// Puts an IPv6 extension header in front.
fn extension(next: u8, inner: &[u8], rng: &mut Rng) -> (u8, Vec<u8>) {
    let kind = [0, 43, 44, 51, 60, 59, 135][rng.below(7) as usize];
    let units = rng.below(3) as usize;
    let mut header = vec![0; if kind == 44 { 8 } else { 8 + 8 * units }];
    for byte in &mut header[2..] {
        *byte = if rng.below(2) == 0 { 0 } else { rng.next_u32() as u8 };
    }
    header[0] = next;
    header[1] = match (kind, rng.below(8)) {
        (_, 0) => rng.next_u32() as u8,
        (44, _) => 0,
        (51, _) => (units * 2) as u8,
        _ => units as u8,
    };
    header.extend_from_slice(inner);
    (kind, header)
}

fn port(rng: &mut Rng) -> u16 {
    if rng.below(8) == 0 { rng.next_u32() as u16 } else { PORTS[rng.below(PORTS.len() as u64) as usize] }
}

/// A TCP segment; with fixed `flags`, part of a flood.
fn tcp(world: &World, n: usize, rng: &mut Rng, flags: Option<u8>) -> Vec<u8> {
    let mut options = tcp_options(rng);
    options.resize(options.len().next_multiple_of(4).min(40), 0);
    let mut out = Vec::with_capacity(64);
    let (from, to) = flow(world, n, rng).unwrap_or((port(rng), port(rng)));
    let from = if flags.is_some() { rng.next_u32() as u16 } else { from };
    out.extend_from_slice(&from.to_be_bytes());
    out.extend_from_slice(&to.to_be_bytes());
    out.extend_from_slice(&rng.next_u32().to_be_bytes());
    out.extend_from_slice(&rng.next_u32().to_be_bytes());
    let usual = [0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0x14, 0xc2, 0x00, 0xff];
    let flags = flags.unwrap_or_else(|| usual[rng.below(10) as usize]);
    out.extend_from_slice(&[((5 + options.len() / 4) << 4) as u8, flags]);
    out.extend_from_slice(&(rng.next_u32() as u16).to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&options);
    out.extend(noise(rng, 32));
    out
}

/// Ports of a connection that is known on this side: remote, local.
fn flow(world: &World, n: usize, rng: &mut Rng) -> Option<(u16, u16)> {
    let side = &world.sides[n];
    let id = *side.ids.get(rng.below(side.ids.len() as u64) as usize)?;
    Some((side.stack.peer_addr(id).ok()?.port(), side.stack.local_addr(id).ok()?.port()))
}

/// Options with true lengths or false ones, at most 40 bytes.
fn tcp_options(rng: &mut Rng) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..rng.below(5) {
        let (kind, len) = [
            (0, 1),
            (1, 1),
            (2, 4),
            (3, 3),
            (4, 2),
            (5, 10),
            (5, 18),
            (8, 10),
            (34, 2),
            (34, 10),
            (19, 18),
            (254, 4),
        ][rng.below(12) as usize];
        if out.len() + len > 40 {
            break;
        }
        let from = out.len();
        out.push(kind);
        if len > 1 {
            out.push(if rng.below(6) == 0 { rng.next_u32() as u8 } else { len as u8 });
            out.extend((2..len).map(|_| rng.next_u32() as u8));
        }
        out.truncate(from + len);
    }
    out
}

fn udp(rng: &mut Rng) -> Vec<u8> {
    let data = noise(rng, 64);
    let len = if rng.below(4) == 0 { rng.next_u32() as u16 } else { 8 + data.len() as u16 };
    let mut out = Vec::new();
    for word in [port(rng), port(rng), len, 0] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out.extend_from_slice(&data);
    out
}

/// Finishes an ICMP message with its checksum.
fn icmp_packet(src: IpAddr, dst: IpAddr, mut message: Vec<u8>, rng: &mut Rng) -> Vec<u8> {
    use lowwater_wire::checksum::{checksum, pseudo_v6, sum};
    match (src, dst) {
        (IpAddr::V6(s), IpAddr::V6(d)) => {
            let total = pseudo_v6(s, d, 58, message.len()) + sum(&message);
            let folded = checksum(&total.to_be_bytes());
            message[2..4].copy_from_slice(&folded.to_be_bytes());
            ip(src, dst, 58, &message, rng)
        }
        _ => {
            let folded = checksum(&message);
            message[2..4].copy_from_slice(&folded.to_be_bytes());
            ip(src, dst, 1, &message, rng)
        }
    }
}

/// An ICMP message of any type, echo and neighbour discovery the most likely.
fn icmp(src: IpAddr, dst: IpAddr, rng: &mut Rng) -> Vec<u8> {
    let usual: &[u8] =
        if src.is_ipv6() { &[128, 129, 133, 134, 135, 136, 137, 1, 2] } else { &[8, 0, 13, 17, 3, 5] };
    let kind =
        if rng.below(6) == 0 { rng.next_u32() as u8 } else { usual[rng.below(usual.len() as u64) as usize] };
    let mut message = vec![kind, if rng.below(4) == 0 { 1 } else { 0 }, 0, 0];
    message.extend_from_slice(&rng.next_u32().to_be_bytes());
    if (133..138).contains(&kind) {
        message.extend_from_slice(&six(dst));
        message.extend_from_slice(&[1 + rng.below(2) as u8, 1, 2, 0, 0, 0, 0, 9]);
    }
    message.extend(noise(rng, 48));
    icmp_packet(src, dst, message, rng)
}

/// An ICMP error for side `n` that quotes the beginning of `quoted`.
pub(crate) fn icmp_error(n: usize, mut quoted: Vec<u8>, rng: &mut Rng) -> Vec<u8> {
    let is_six = quoted.first().is_some_and(|b| b >> 4 == 6);
    quoted.truncate([0, 20, 28, 40, 48, 64, 600][rng.below(7) as usize]);
    if rng.below(8) == 0 {
        let at = rng.below(quoted.len() as u64 + 1) as usize;
        if let Some(byte) = quoted.get_mut(at) {
            *byte = rng.next_u32() as u8;
        }
    }
    let (kind, code) = if is_six {
        [(1, 0), (1, 3), (1, 4), (2, 0), (2, 0), (3, 0), (4, 1)][rng.below(7) as usize]
    } else {
        [(3, 0), (3, 1), (3, 2), (3, 3), (3, 4), (3, 4), (3, 13), (11, 0), (12, 0), (4, 0), (5, 1)]
            [rng.below(11) as usize]
    };
    let mtu = [0, 1, 68, 296, 552, 1_279, 1_280, 1_400, 65_535, 0xffff_ffff][rng.below(10) as usize];
    let mut message = vec![kind, code, 0, 0];
    message.extend_from_slice(&u32::to_be_bytes(mtu));
    message.extend_from_slice(&quoted);
    let (src, dst) = if is_six { (v6(1 - n), v6(n)) } else { (v4(1 - n), v4(n)) };
    icmp_packet(src, dst, message, rng)
}

/// Cuts a packet into fragments that may overlap, miss, repeat or come in any order.
pub(crate) fn fragments(whole: &[u8], rng: &mut Rng) -> Vec<Vec<u8>> {
    let id = rng.below(4) as u16;
    let mut out = Vec::new();
    let head = match whole.first().map(|b| b >> 4) {
        Some(4) if whole.len() > 20 => 20,
        Some(6) if whole.len() > 40 => 40,
        _ => return vec![whole.to_vec()],
    };
    let body = &whole[head..];
    for _ in 0..=rng.below(6) {
        let at = 8 * rng.below(body.len() as u64 / 8 + 2) as usize;
        let len = if rng.below(3) == 0 { body.len() } else { 8 * (1 + rng.below(8) as usize) };
        let piece = &body[at.min(body.len())..(at + len).min(body.len())];
        let more = u16::from(at + len < body.len() || rng.below(8) == 0);
        let offset = if rng.below(16) == 0 { 0xfff8 } else { at as u16 };
        let mut packet = whole[..head].to_vec();
        if head == 20 {
            packet[0] = 0x45;
            packet[4..6].copy_from_slice(&id.to_be_bytes());
            packet[6..8].copy_from_slice(&((offset >> 3) | (more << 13)).to_be_bytes());
        } else {
            let next = std::mem::replace(&mut packet[6], 44);
            packet[4..6].copy_from_slice(&(piece.len() as u16 + 8).to_be_bytes());
            packet.extend_from_slice(&[next, 0]);
            packet.extend_from_slice(&(offset | more).to_be_bytes());
            packet.extend_from_slice(&u32::from(id).to_be_bytes());
        }
        packet.extend_from_slice(piece);
        mutate::repair_v4(&mut packet);
        out.push(packet);
    }
    out
}

/// A link header where the device has one: ours, everybody's or a stranger's, sometimes ARP instead of IP.
pub(crate) fn frame(caps: &DeviceCaps, ip: Vec<u8>, rng: &mut Rng) -> Vec<u8> {
    let Some(mac) = caps.ethernet else { return ip };
    let to = [mac, mac, mac, [0xff; 6], [0x33, 0x33, 0, 0, 0, 1], [2, 9, 9, 9, 9, 9]][rng.below(6) as usize];
    let mut out = to.to_vec();
    out.extend_from_slice(&[2, 0, 0, 0, 0, 1 + rng.below(4) as u8]);
    if rng.below(6) == 0 {
        out.extend_from_slice(&[0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1 + rng.below(3) as u8]);
        out.extend_from_slice(&[2, 0, 0, 0, 0, rng.below(4) as u8, 10, 0, 0, rng.below(4) as u8]);
        out.extend_from_slice(&[0, 0, 0, 0, 0, 0, 10, 0, 0, rng.below(4) as u8]);
        out.truncate(out.len() - rng.below(4) as usize * rng.below(8) as usize);
        return out;
    }
    let six = ip.first().is_some_and(|b| b >> 4 == 6);
    out.extend_from_slice(if rng.below(12) == 0 {
        &[0x88, 0xcc]
    } else if six {
        &[0x86, 0xdd]
    } else {
        &[0x08, 0x00]
    });
    out.extend_from_slice(&ip);
    out
}
