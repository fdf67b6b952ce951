//! The Internet checksum (RFC 1071): partial sums, pseudo-headers, and incremental update (RFC 1624).
//!
//! A *partial sum* is any `u64` that is congruent, modulo 0xffff, to the sum of the 16-bit big-endian words seen so far, and
//! is 0 only if all of them are 0. Partial sums of even-length pieces are added with `+`; 2^48 of them fit.
use core::net::{Ipv4Addr, Ipv6Addr};

/// Bytes per round of the main loop: wide enough that the compiler keeps all lanes in vector registers.
const BLOCK: usize = 64;
const LANES: usize = BLOCK / 8;

/// Partial sum over `bytes`; an odd last byte counts as the high half of a word.
///
/// Adds 32-bit halves into 64-bit lanes in little-endian order and swaps once at the end (RFC 1071 section 2B), which the
/// compiler turns into vector code without any target feature.
#[must_use]
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let mut total = if blocks.is_empty() { 0 } else { sum_blocks(blocks) };
    let (words, tail) = rest.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word);
        total += (word & 0xffff_ffff) + (word >> 32);
    }
    // Not by copying into a zeroed word: a call of memcpy would cost more than a header's whole sum.
    let (halves, tail) = tail.as_chunks::<4>();
    for half in halves {
        total += u64::from(u32::from_le_bytes(*half));
    }
    let (pairs, tail) = tail.as_chunks::<2>();
    for pair in pairs {
        total += u64::from(u16::from_le_bytes(*pair));
    }
    if let [last] = tail {
        total += u64::from(*last);
    }
    u64::from(fold(total).swap_bytes())
}

fn sum_blocks(blocks: &[[u8; BLOCK]]) -> u64 {
    let mut low = [0u64; LANES];
    let mut high = [0u64; LANES];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for lane in 0..LANES {
            let word = u64::from_le_bytes(words[lane]);
            low[lane] += word & 0xffff_ffff;
            high[lane] += word >> 32;
        }
    }
    // At most 2^26 blocks per 4 GiB: lanes stay below 2^58, so their sum needs the fold in between.
    (0..LANES).map(|lane| fold_to_u32(low[lane]) + fold_to_u32(high[lane])).sum()
}

/// Partial sum over the concatenation of `parts`, whatever their lengths.
#[must_use]
pub fn sum_parts(parts: &[&[u8]]) -> u64 {
    let mut total = 0;
    let mut len = 0usize;
    for part in parts {
        total = combine(total, len, sum(part));
        len += part.len();
    }
    total
}

const fn fold_to_u32(sum: u64) -> u64 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    (sum & 0xffff_ffff) + (sum >> 32)
}

/// Folds a partial sum to 16 bits, not complemented. This is what a header holds when the device is to complete it.
#[must_use]
pub const fn fold(sum: u64) -> u16 {
    let sum = fold_to_u32(sum);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// The checksum that a partial sum stands for: its folded one's complement.
#[must_use]
pub const fn finish(sum: u64) -> u16 {
    !fold(sum)
}

/// The checksum over `bytes`.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    finish(sum(bytes))
}

/// Partial sum of a concatenation: `a` over the first `len_a` bytes, `b` over the rest. After an odd number of bytes the
/// words of the rest are out of step by one byte, which a swap sets right (RFC 1071 section 2B).
#[must_use]
pub const fn combine(a: u64, len_a: usize, b: u64) -> u64 {
    let b = fold(b);
    let b = if len_a % 2 == 1 { b.swap_bytes() } else { b };
    fold(a) as u64 + b as u64
}

/// True if `bytes`, their checksum field included, and the partial sum `pseudo` (0 without a pseudo-header) add up.
#[must_use]
pub fn verify(pseudo: u64, bytes: &[u8]) -> bool {
    fold(fold(pseudo) as u64 + sum(bytes)) == 0xffff
}

/// Partial sum over the IPv4 pseudo-header (RFC 9293 section 3.1): addresses, protocol, and length of the transport's header
/// and payload in bytes.
#[must_use]
pub fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: usize) -> u64 {
    let (src, dst) = (u64::from(src.to_bits()), u64::from(dst.to_bits()));
    src + dst + u64::from(protocol) + len as u64
}

/// Partial sum over the IPv6 pseudo-header (RFC 8200 section 8.1): addresses, upper-layer protocol, and length of the
/// transport's header and payload in bytes.
#[must_use]
pub fn pseudo_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, len: usize) -> u64 {
    words(src.to_bits()) + words(dst.to_bits()) + u64::from(protocol) + len as u64
}

const fn words(address: u128) -> u64 {
    let (high, low) = ((address >> 64) as u64, address as u64);
    (high >> 32) + (high & 0xffff_ffff) + (low >> 32) + (low & 0xffff_ffff)
}

/// The checksum after a covered 16-bit field changed from `old` to `new` (RFC 1624 equation 3).
#[must_use]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    finish(!checksum as u64 + !old as u64 + new as u64)
}

/// The checksum after a covered 32-bit field at an even offset changed from `old` to `new`.
#[must_use]
pub const fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    finish(!checksum as u64 + !old as u64 + new as u64)
}

#[cfg(test)]
mod tests;
