//! Tests of the IPv4 header.
use super::*;
use proptest::prelude::*;

prop_compose! {
    fn repr()(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, ttl: u8, tos: u8, ident: u16, dont_fragment: bool,
              more_fragments: bool, offset in 0u16..0x2000, payload_len in 0u16..=65_515) -> Ipv4Repr {
        Ipv4Repr { src, dst, protocol, ttl, tos, ident, dont_fragment, more_fragments, fragment_offset: offset * 8, payload_len }
    }
}

proptest! {
    #[test]
    fn parse_undoes_emit(repr in repr()) {
        let mut bytes = std::vec![0xaa; HEADER_LEN + usize::from(repr.payload_len) + 3];
        repr.emit(&mut bytes);
        let view = Ipv4View::parse(&bytes).unwrap();
        prop_assert_eq!(Ipv4Repr::parse(&view), repr);
        prop_assert!(view.checksum_ok());
        prop_assert_eq!(view.payload().len(), usize::from(repr.payload_len));
        prop_assert_eq!(view.options(), &[] as &[u8]);
    }

    #[test]
    fn emit_of_parse_is_a_fixed_point(mut bytes in prop::collection::vec(any::<u8>(), 20..120)) {
        bytes[0] = 0x40 | (bytes[0] & 0x07);
        let len = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        if let Ok(view) = Ipv4View::parse(&bytes) {
            let repr = Ipv4Repr::parse(&view);
            let mut again = std::vec![0xaa; repr.buffer_len() + usize::from(repr.payload_len)];
            repr.emit(&mut again);
            prop_assert_eq!(Ipv4Repr::parse(&Ipv4View::parse(&again).unwrap()), repr);
        }
    }

    #[test]
    fn spending_a_hop_keeps_the_checksum(repr in repr()) {
        let mut bytes = [0; HEADER_LEN];
        repr.emit(&mut bytes);
        let spent = decrement_ttl(&mut bytes);
        let view = Ipv4View::parse_quoted(&bytes).unwrap();
        prop_assert!(view.checksum_ok());
        prop_assert_eq!(spent, repr.ttl.checked_sub(1).filter(|ttl| *ttl > 0));
        prop_assert_eq!(view.ttl(), spent.map_or(repr.ttl, |ttl| ttl));
    }
}

const HEADER: Ipv4Repr = Ipv4Repr {
    src: Ipv4Addr::new(192, 0, 2, 1),
    dst: Ipv4Addr::new(192, 0, 2, 2),
    protocol: 6,
    ttl: 64,
    tos: 0,
    ident: 1,
    dont_fragment: true,
    more_fragments: false,
    fragment_offset: 0,
    payload_len: 0,
};

fn refused(change: impl FnOnce(&mut [u8; 24])) -> Option<Malformed> {
    let mut bytes = [0; 24];
    HEADER.emit(&mut bytes);
    change(&mut bytes);
    Ipv4View::parse(&bytes).err()
}

#[test]
fn impossible_headers_are_refused_with_the_reason() {
    assert_eq!(refused(|_| {}), None);
    assert_eq!(refused(|bytes| bytes[0] = 0x65), Some(Malformed::Version));
    assert_eq!(refused(|bytes| bytes[0] = 0x44), Some(Malformed::HeaderLength));
    assert_eq!(refused(|bytes| bytes[0] = 0x46), Some(Malformed::TotalLength));
    assert_eq!(refused(|bytes| bytes[3] = 19), Some(Malformed::TotalLength));
    assert_eq!(refused(|bytes| bytes[3] = 25), Some(Malformed::Truncated));
    assert_eq!(Ipv4View::parse(&[0x45; 19]).err(), Some(Malformed::Truncated));
}

#[test]
fn a_quoted_packet_may_be_cut_short_but_not_its_header() {
    let mut bytes = [0; 28];
    Ipv4Repr { payload_len: 1_000, ..HEADER }.emit(&mut bytes);
    let view = Ipv4View::parse_quoted(&bytes).unwrap();
    assert_eq!((view.total_len(), view.payload().len()), (1_020, 8));
    bytes[0] = 0x48;
    assert_eq!(Ipv4View::parse_quoted(&bytes).err(), Some(Malformed::Truncated));
}

proptest! {
    #[test]
    fn a_router_marks_what_can_be_marked_and_the_checksum_stays_right(tos: u8, ident: u16) {
        let mut bytes = [0; HEADER_LEN];
        Ipv4Repr { tos, ident, ..HEADER }.emit(&mut bytes);
        prop_assert_eq!(set_ce(&mut bytes), tos & 3 != 0);
        let view = Ipv4View::parse_quoted(&bytes).unwrap();
        prop_assert!(view.checksum_ok());
        prop_assert_eq!(view.tos(), if tos & 3 == 0 { tos } else { tos | 3 });
        prop_assert!(!set_ce(&mut bytes[..10]));
    }
}
