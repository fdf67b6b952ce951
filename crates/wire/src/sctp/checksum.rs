//! The CRC32c of an SCTP packet (RFC 9260 section 6.8), and the zero in its place (RFC 9653).
use super::{CHECKSUM_OFFSET, HEADER_LEN};
use crc_fast::{CrcAlgorithm::Crc32Iscsi, Digest, crc32_iscsi};
use crc32c::{crc32c, crc32c_append};

/// From so many bytes on carry-less multiplication is faster than the processor's CRC instruction, once its tables are at hand.
const WIDE: usize = 512;

/// What a packet's checksum field says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Checksum {
    /// The CRC32c of the packet.
    Good,
    /// Zero, which is not its CRC32c: only for those who have agreed on it (RFC 9653 section 5.3).
    Zero,
    /// Neither: drop it.
    Bad,
}

/// The CRC32c over a packet whose common header is at the front of `head`, with the field taken as zero.
pub(super) fn crc(head: &[u8], rest: &[&[u8]]) -> u32 {
    let mut header = [0; HEADER_LEN];
    header[..CHECKSUM_OFFSET].copy_from_slice(&head[..CHECKSUM_OFFSET]);
    let sum = append(crc32c(&header), &head[HEADER_LEN..]);
    rest.iter().fold(sum, |sum, part| append(sum, part))
}

/// The CRC32c `sum`, gone on with over `part`.
fn append(sum: u32, part: &[u8]) -> u32 {
    if part.is_empty() {
        return sum;
    }
    if part.len() < WIDE {
        return crc32c_append(sum, part);
    }
    // What stands inside is the complement of what is told.
    let mut digest = Digest::new_with_init_state(Crc32Iscsi, u64::from(!sum));
    digest.update(part);
    digest.finalize() as u32
}

/// Writes the CRC32c over `head`, which begins with the common header, and the parts that follow it into the field.
///
/// # Panics
/// When `head` is shorter than the common header.
pub fn fill_checksum(head: &mut [u8], rest: &[&[u8]]) {
    // With zero at its place the header needs no treatment of its own.
    head[CHECKSUM_OFFSET..HEADER_LEN].fill(0);
    let sum = rest.iter().fold(crc32_iscsi(head), |sum, part| append(sum, part));
    // Little-endian: the CRC's bits travel in reflected order (RFC 9260 appendix B).
    head[CHECKSUM_OFFSET..HEADER_LEN].copy_from_slice(&sum.to_le_bytes());
}

/// Writes zero into the field, for a path below which something better protects the packet (RFC 9653 section 5.2). The packets in
/// which that is forbidden are the caller's to know.
///
/// # Panics
/// When `head` is shorter than the common header.
pub fn zero_checksum(head: &mut [u8]) {
    head[CHECKSUM_OFFSET..HEADER_LEN].fill(0);
}
