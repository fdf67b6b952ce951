//! Builds SCTP packets from nothing: chunks of every type in any order, parameters and causes, with true lengths or false ones.
use lowwater_core::base::Rng;
use lowwater_wire::sctp::{CHUNK_HEADER_LEN, fill_checksum};

/// Chunks that are known, with the length of what every one of their type has.
const CHUNKS: &[(u8, usize)] = &[
    (0, 12),
    (1, 16),
    (2, 16),
    (3, 12),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 4),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 0),
    (12, 4),
    (13, 4),
    (14, 0),
    (15, 4),
    (64, 16),
    (128, 4),
    (130, 0),
    (132, 0),
    (192, 4),
    (193, 4),
    (194, 4),
];
/// Parameters and causes, whose numbers overlap.
const PARAMS: &[u16] = &[
    1, 2, 3, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 0x8000, 0x8001, 0x8002, 0x8003, 0x8004, 0x8005,
    0x8008, 0xc000, 0xc001, 0xc002, 0xc003, 0xc004, 0xc005, 0xc006,
];
/// Lengths at which readers stumble.
const EDGES: &[u16] = &[0, 1, 3, 4, 5, 8, 0x7fff, 0xfffe, 0xffff];

/// A packet between these ports, with a checksum that is right most of the time.
pub(crate) fn packet(ports: (u16, u16), rng: &mut Rng) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(ports.0.to_be_bytes());
    out.extend(ports.1.to_be_bytes());
    let tag = [0, 1, rng.next_u32()][rng.below(3) as usize];
    out.extend(tag.to_be_bytes());
    out.extend([0; 4]);
    for _ in 0..rng.below(5) {
        chunk(&mut out, rng);
    }
    match rng.below(16) {
        0 => out.truncate(rng.below(out.len() as u64 + 1) as usize),
        1 => {}
        _ => fill_checksum(&mut out, &[]),
    }
    out
}

/// A chunk of any type with contents of any kind.
pub(crate) fn chunk(out: &mut Vec<u8>, rng: &mut Rng) {
    let (kind, fixed) = match rng.below(10) {
        0 => (rng.next_u32() as u8, 0),
        _ => CHUNKS[rng.below(CHUNKS.len() as u64) as usize],
    };
    let from = out.len();
    let flags = if rng.below(4) == 0 { rng.next_u32() as u8 } else { rng.below(4) as u8 };
    out.extend([kind, flags, 0, 0]);
    out.extend((0..fixed).map(|_| small(rng)));
    match rng.below(3) {
        0 => (0..rng.below(5)).for_each(|_| tlv(out, rng)),
        1 => out.extend((0..rng.below(40)).map(|_| small(rng))),
        _ => {}
    }
    seal(out, from, rng);
}

/// A parameter or a cause of any type.
pub(crate) fn tlv(out: &mut Vec<u8>, rng: &mut Rng) {
    let from = out.len();
    let kind = if rng.below(10) == 0 {
        rng.next_u32() as u16
    } else {
        PARAMS[rng.below(PARAMS.len() as u64) as usize]
    };
    out.extend(kind.to_be_bytes());
    out.extend([0; CHUNK_HEADER_LEN - 2]);
    let len = [0, 4, 16, rng.below(24)][rng.below(4) as usize];
    out.extend((0..len).map(|_| small(rng)));
    seal(out, from, rng);
}

/// Bytes that make small numbers and large ones.
fn small(rng: &mut Rng) -> u8 {
    if rng.below(2) == 0 { 0 } else { rng.next_u32() as u8 }
}

/// Writes the length of what begins at `from`, and pads it.
pub(crate) fn seal(out: &mut Vec<u8>, from: usize, rng: &mut Rng) {
    let len = match rng.below(12) {
        0 => EDGES[rng.below(EDGES.len() as u64) as usize],
        1 => rng.below(64) as u16,
        _ => (out.len() - from) as u16,
    };
    out[from + 2..from + 4].copy_from_slice(&len.to_be_bytes());
    if rng.below(16) > 0 {
        out.resize(out.len().next_multiple_of(4), 0);
    }
}
