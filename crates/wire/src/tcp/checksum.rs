//! The checksum of an outgoing TCP segment: computed here, or left to the device.
use super::CHECKSUM_OFFSET;
use crate::checksum::{finish, fold, sum, sum_parts};

/// Completes the checksum of `header`, the whole TCP header with its options, over the pseudo-header sum and the payload's
/// pieces.
///
/// # Panics
/// When `header` is shorter than a TCP header.
pub fn fill_checksum(header: &mut [u8], pseudo: u64, payload: &[&[u8]]) {
    header[CHECKSUM_OFFSET..][..2].fill(0);
    // A header is a multiple of four bytes, so the payload's words are in step.
    let field = finish(fold(pseudo) as u64 + sum(header) + sum_parts(payload));
    header[CHECKSUM_OFFSET..][..2].copy_from_slice(&field.to_be_bytes());
}

/// Leaves the checksum of `header` to the device: stores the folded pseudo-header sum (VIRTIO_NET_HDR_F_NEEDS_CSUM).
///
/// # Panics
/// When `header` is shorter than a TCP header.
pub fn fill_checksum_partial(header: &mut [u8], pseudo: u64) {
    header[CHECKSUM_OFFSET..][..2].copy_from_slice(&fold(pseudo).to_be_bytes());
}
