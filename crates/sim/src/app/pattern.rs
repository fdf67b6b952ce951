//! Keyed bytes: a stream's first sixteen bytes say its key and length, every later byte follows from key and offset.

/// Length of the header: key and total length, both big-endian.
pub const HEADER: usize = 16;

const fn word(key: u64, index: u64) -> u64 {
    // SplitMix64: neighbouring offsets and keys give unrelated words, so that a shifted or foreign stream never matches.
    let mut z = key.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The header of a stream of `total` bytes, itself included.
#[must_use]
pub fn header(key: u64, total: u64) -> [u8; HEADER] {
    let mut h = [0; HEADER];
    h[..8].copy_from_slice(&key.to_be_bytes());
    h[8..].copy_from_slice(&total.to_be_bytes());
    h
}

/// Key and length from a header.
#[must_use]
pub fn parse(header: &[u8; HEADER]) -> (u64, u64) {
    let n = |i: usize| u64::from_be_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|k| header[i + k]));
    (n(0), n(8))
}

/// Fills `buffer` with the bytes of stream `key` from `offset` on.
pub fn fill(key: u64, offset: u64, buffer: &mut [u8]) {
    let lead = ((8 - offset % 8) % 8) as usize;
    let lead = lead.min(buffer.len());
    let (first, rest) = buffer.split_at_mut(lead);
    if !first.is_empty() {
        let w = word(key, offset / 8).to_le_bytes();
        let from = (offset % 8) as usize;
        first.copy_from_slice(&w[from..from + lead]);
    }
    let words = (offset + lead as u64) / 8;
    for (index, chunk) in (words..).zip(rest.chunks_mut(8)) {
        let w = word(key, index).to_le_bytes();
        chunk.copy_from_slice(&w[..chunk.len()]);
    }
}

/// Fills `buffer` with bytes of a stream that begins with its header.
pub fn fill_with_header(key: u64, total: u64, offset: u64, buffer: &mut [u8]) {
    fill(key, offset, buffer);
    if offset < HEADER as u64 {
        let from = offset as usize;
        let n = (HEADER - from).min(buffer.len());
        buffer[..n].copy_from_slice(&header(key, total)[from..from + n]);
    }
}

/// Index of the first byte of `data` that is not the stream's byte at `offset` + index; headers are not judged.
#[must_use]
pub fn mismatch(key: u64, offset: u64, data: &[u8]) -> Option<usize> {
    let mut want = [0u8; 4096];
    let mut done = 0;
    for chunk in data.chunks(want.len()) {
        let want = &mut want[..chunk.len()];
        fill(key, offset + done as u64, want);
        if want != chunk {
            return chunk.iter().zip(want.iter()).position(|(a, b)| a != b).map(|i| done + i);
        }
        done += chunk.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_piece_equals_the_same_piece_of_the_whole() {
        let mut whole = vec![0; 5000];
        fill(42, 0, &mut whole);
        for (from, len) in [(0, 1), (3, 4), (7, 1), (7, 2), (8, 8), (1234, 3000), (4999, 1)] {
            let mut piece = vec![0; len];
            fill(42, from as u64, &mut piece);
            assert_eq!(piece, whole[from..from + len], "{from}+{len}");
            assert_eq!(mismatch(42, from as u64, &piece), None);
        }
        whole[4500] ^= 1;
        assert_eq!(mismatch(42, 0, &whole), Some(4500));
    }
}
