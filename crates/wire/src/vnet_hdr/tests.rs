//! Tests of the virtio-net header.
use super::*;
use proptest::prelude::*;

prop_compose! {
    fn header()(flags: u8, gso_type: u8, hdr_len: u16, gso_size: u16, csum_start: u16, csum_offset: u16, num_buffers: u16) -> VnetHdr {
        VnetHdr { flags, gso_type, hdr_len, gso_size, csum_start, csum_offset, num_buffers }
    }
}

proptest! {
    #[test]
    fn parse_undoes_emit(header in header()) {
        let mut bytes = [0xaa; LEN_MERGEABLE];
        header.emit(&mut bytes);
        prop_assert_eq!(&bytes[LEN..], &[0xaa; 2]);
        prop_assert_eq!(VnetHdr::parse(&bytes), Ok(VnetHdr { num_buffers: 0, ..header }));
        header.emit_mergeable(&mut bytes);
        prop_assert_eq!(VnetHdr::parse_mergeable(&bytes), Ok(header));
        prop_assert_eq!(VnetHdr::parse_mergeable(&bytes[..11]), Err(Malformed::Truncated));
        prop_assert_eq!(VnetHdr::parse(&bytes[..9]), Err(Malformed::Truncated));
    }

    #[test]
    fn a_header_that_passes_keeps_the_checksum_in_the_frame(header in header(), frame_len in 0usize..70_000) {
        if header.check(frame_len).is_ok() && header.needs_csum() {
            prop_assert!(usize::from(header.csum_start) + usize::from(header.csum_offset) + 2 <= frame_len);
        }
    }
}

#[test]
fn bytes_are_little_endian() {
    let header = VnetHdr {
        flags: F_NEEDS_CSUM,
        gso_type: GSO_TCPV4,
        hdr_len: 54,
        gso_size: 1_448,
        csum_start: 34,
        csum_offset: 16,
        num_buffers: 1,
    };
    let mut bytes = [0; LEN_MERGEABLE];
    header.emit_mergeable(&mut bytes);
    assert_eq!(bytes, [1, 1, 54, 0, 0xa8, 5, 34, 0, 16, 0, 1, 0]);
}

#[test]
fn nonsense_is_refused() {
    let header = VnetHdr { flags: F_NEEDS_CSUM, csum_start: 34, csum_offset: 16, ..VnetHdr::default() };
    assert_eq!(header.check(52), Ok(()));
    assert_eq!(header.check(51), Err(Malformed::Truncated));
    let gso = |gso_type, gso_size| VnetHdr { gso_type, gso_size, ..VnetHdr::default() }.check(100);
    assert_eq!(gso(GSO_TCPV6 | GSO_ECN, 1), Ok(()));
    assert_eq!(gso(GSO_TCPV6, 0), Err(Malformed::Field));
    assert_eq!(gso(2, 1), Err(Malformed::Field));
}
