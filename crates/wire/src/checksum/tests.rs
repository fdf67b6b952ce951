//! Tests of the checksum against its definition, word by word.
use super::*;
use proptest::prelude::*;
use std::vec::Vec;

/// RFC 1071 section 1, as slowly as it reads.
fn definition(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[test]
fn example_of_rfc_1071() {
    assert_eq!(fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
}

#[test]
fn nothing_sums_to_zero_and_something_never() {
    assert_eq!(sum(&[]), 0);
    assert_eq!(sum(&[0; 4096]), 0);
    assert_eq!(fold(sum(&[0xff; 4096])), 0xffff);
    assert_eq!(fold(u64::MAX), 0xffff);
}

#[test]
fn the_longest_packet_of_ones_does_not_overflow() {
    for len in [65_534, 65_535, 1 << 20] {
        let bytes = std::vec![0xff; len];
        assert_eq!(fold(sum(&bytes)), definition(&bytes));
    }
}

proptest! {
    #[test]
    fn sum_is_the_definition(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert_eq!(fold(sum(&bytes)), definition(&bytes));
    }

    #[test]
    fn combining_parts_is_summing_the_whole(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..90), 0..6)) {
        let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        prop_assert_eq!(fold(sum_parts(&slices)), definition(&parts.concat()));
    }

    #[test]
    fn update_is_computing_anew(mut bytes in prop::collection::vec(any::<u8>(), 8..64), at in any::<prop::sample::Index>(), new: u16, wide: u32) {
        let at = at.index(bytes.len() / 4 - 1) * 4;
        // Over all-zero data the two zeros of one's complement differ; a header with a version in it is never that.
        bytes[at + 6] |= 1;
        let before = checksum(&bytes);
        let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
        let after = update(before, old, new);
        prop_assert_eq!(after, checksum(&bytes));
        let old = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        bytes[at..at + 4].copy_from_slice(&wide.to_be_bytes());
        prop_assert_eq!(update_u32(after, old, wide), checksum(&bytes));
    }

    #[test]
    fn verify_accepts_what_was_filled_in_and_nothing_else(mut bytes in prop::collection::vec(any::<u8>(), 4..100), pseudo in 0u64..1 << 34, bit in 0usize..32) {
        bytes[2..4].fill(0);
        let field = finish(pseudo + sum(&bytes));
        bytes[2..4].copy_from_slice(&field.to_be_bytes());
        prop_assert!(verify(pseudo, &bytes));
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!verify(pseudo, &bytes));
    }
}
