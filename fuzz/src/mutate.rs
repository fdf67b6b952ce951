//! Changes a real packet: bits, lengths, fields of TCP near their true values; and what a device says about it.
use lowwater_core::base::Rng;
use lowwater_core::packet::{Csum, GsoKind, Packet};
use lowwater_wire::checksum;

/// Values at the edges of 16-bit fields.
const EDGES: &[u16] = &[0, 1, 4, 7, 8, 20, 0x7fff, 0x8000, 0xfffe, 0xffff];

/// One to three changes of the packet that begins after `link` bytes; checksums of IPv4 are repaired most of the time.
pub(crate) fn any(bytes: &mut Vec<u8>, link: usize, rng: &mut Rng) {
    for _ in 0..=rng.below(3) {
        if bytes.len() <= link {
            return;
        }
        match rng.below(10) {
            0 => flip(bytes, rng),
            1 => bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize),
            2 => bytes.extend((0..rng.below(64)).map(|_| 0xa5)),
            3 => edge(bytes, link, rng),
            4 => swap_addresses(&mut bytes[link..]),
            _ => tcp(&mut bytes[link..], rng),
        }
    }
    if rng.below(8) > 0 && bytes.len() > link {
        repair_v4(&mut bytes[link..]);
    }
}

fn flip(bytes: &mut [u8], rng: &mut Rng) {
    for _ in 0..=rng.below(4) {
        let reach = if rng.below(2) == 0 { bytes.len().min(80) } else { bytes.len() };
        let at = rng.below(reach as u64) as usize;
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << rng.below(8);
        }
    }
}

fn edge(bytes: &mut [u8], link: usize, rng: &mut Rng) {
    let at = link + 2 * rng.below(40) as usize;
    let value = EDGES[rng.below(EDGES.len() as u64) as usize];
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

/// A packet of a host to itself, or back to where it came from.
fn swap_addresses(ip: &mut [u8]) {
    match ip.first().map(|b| b >> 4) {
        Some(4) if ip.len() >= 20 => {
            let (a, b) = ip.split_at_mut(16);
            a[12..16].swap_with_slice(&mut b[..4]);
        }
        Some(6) if ip.len() >= 40 => {
            let (a, b) = ip.split_at_mut(24);
            a[8..24].swap_with_slice(&mut b[..16]);
        }
        _ => {}
    }
}

/// Where TCP begins, if this is a TCP packet.
fn tcp_at(ip: &[u8]) -> Option<usize> {
    match ip.first()? >> 4 {
        4 if *ip.get(9)? == 6 => Some(usize::from(ip[0] & 15) * 4),
        6 if *ip.get(6)? == 6 => Some(40),
        _ => None,
    }
}

/// Moves a sequence number by an amount that matters, or anywhere.
fn shift(field: &mut [u8], rng: &mut Rng) {
    let delta = match rng.below(8) {
        0 => 1,
        1 => u32::MAX,
        2 => rng.below(3_000) as u32,
        3 => (rng.below(3_000) as u32).wrapping_neg(),
        4 => rng.below(1 << 20) as u32,
        5 => (rng.below(1 << 20) as u32).wrapping_neg(),
        6 => 0x8000_0000,
        _ => rng.next_u32(),
    };
    let old = u32::from_be_bytes([field[0], field[1], field[2], field[3]]);
    field.copy_from_slice(&old.wrapping_add(delta).to_be_bytes());
}

fn tcp(ip: &mut [u8], rng: &mut Rng) {
    let Some(at) = tcp_at(ip) else { return };
    let Some(tcp) = ip.get_mut(at..).filter(|t| t.len() >= 20) else { return };
    match rng.below(8) {
        0 => shift(&mut tcp[4..8], rng),
        1 => shift(&mut tcp[8..12], rng),
        2 => tcp[13] = rng.next_u32() as u8,
        3 => tcp[13] ^= 1 << rng.below(8),
        4 => tcp[14..16].copy_from_slice(&EDGES[rng.below(10) as usize].to_be_bytes()),
        5 => tcp[12] = (rng.below(16) << 4) as u8 | (tcp[12] & 15),
        6 => tcp[18..20].copy_from_slice(&(rng.next_u32() as u16).to_be_bytes()),
        _ => options(tcp, rng),
    }
}

/// Changes inside of the options: a kind, a length, or a 32-bit value (timestamps, SACK edges).
fn options(tcp: &mut [u8], rng: &mut Rng) {
    let end = (usize::from(tcp[12] >> 4) * 4).min(tcp.len());
    if end <= 20 {
        return;
    }
    let at = 20 + rng.below((end - 20) as u64) as usize;
    match tcp.get_mut(at..at + 4) {
        Some(value) if rng.below(2) == 0 => shift(value, rng),
        _ => tcp[at] = [0, 1, 2, 3, 4, 5, 8, 10, 30, 34, 254][rng.below(11) as usize],
    }
}

/// Makes length and checksum of an IPv4 header true.
pub(crate) fn repair_v4(ip: &mut [u8]) {
    if ip.len() < 20 || ip[0] >> 4 != 4 {
        return;
    }
    let header = usize::from(ip[0] & 15) * 4;
    if header < 20 || header > ip.len() {
        return;
    }
    let len = ip.len().min(65_535) as u16;
    ip[2..4].copy_from_slice(&len.to_be_bytes());
    ip[10..12].fill(0);
    let sum = checksum::checksum(&ip[..header]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// What the device says: mostly that the checksum is fine, sometimes nonsense.
pub(crate) fn lie(packet: &mut Packet, rng: &mut Rng) {
    match rng.below(8) {
        0 => {}
        1 => {
            packet.offload.gso = [GsoKind::None, GsoKind::Tcp4, GsoKind::Tcp6][rng.below(3) as usize];
            packet.offload.gso_size = [0, 1, 100, 1_448, 65_535][rng.below(5) as usize];
            packet.offload.csum = Csum::Valid;
        }
        2 => {
            let start = [0, 14, 20, 40, 60, 65_535][rng.below(6) as usize];
            let offset = [0, 6, 16, 18, 65_535][rng.below(5) as usize];
            packet.offload.csum = Csum::Partial { start, offset };
        }
        _ => packet.offload.csum = Csum::Valid,
    }
}
