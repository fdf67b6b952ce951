//! Tests of the UDP header.
use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn parse_undoes_emit(src_port: u16, dst_port: u16, payload in prop::collection::vec(any::<u8>(), 0..80), pseudo in 0u64..1 << 34, cut in any::<prop::sample::Index>()) {
        let repr = UdpRepr { src_port, dst_port, payload_len: payload.len() as u16 };
        let mut bytes = std::vec![0xaa; HEADER_LEN];
        repr.emit(&mut bytes);
        let (head, tail) = payload.split_at(cut.index(payload.len() + 1));
        fill_checksum(&mut bytes, pseudo, &[head, tail]);
        bytes.extend_from_slice(&payload);
        bytes.push(0xaa);
        let view = UdpView::parse(&bytes).unwrap();
        prop_assert_eq!(UdpRepr::parse(&view), repr);
        prop_assert_eq!(view.payload(), &payload[..]);
        prop_assert!(view.checksum_ok(pseudo));
        prop_assert!(view.checksum() != 0);
    }

    #[test]
    fn emit_of_parse_is_a_fixed_point(mut bytes in prop::collection::vec(any::<u8>(), 8..80)) {
        let len = bytes.len() as u16;
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
        let repr = UdpRepr::parse(&UdpView::parse(&bytes).unwrap());
        repr.emit(&mut bytes);
        prop_assert_eq!(UdpRepr::parse(&UdpView::parse(&bytes).unwrap()), repr);
    }
}

#[test]
fn a_sum_of_zero_is_sent_as_ones() {
    let mut bytes = [0; HEADER_LEN];
    UdpRepr { src_port: 0, dst_port: 0, payload_len: 0 }.emit(&mut bytes);
    fill_checksum(&mut bytes, 0xfff7, &[]);
    assert_eq!(bytes[CHECKSUM_OFFSET..], [0xff, 0xff]);
}

#[test]
fn impossible_lengths_are_refused_with_the_reason() {
    let refused = |len: u8| UdpView::parse(&[0, 1, 0, 2, 0, len, 0, 0, 9]).err();
    assert_eq!(refused(7), Some(Malformed::TotalLength));
    assert_eq!(refused(8), None);
    assert_eq!(refused(9), None);
    assert_eq!(refused(10), Some(Malformed::Truncated));
}
