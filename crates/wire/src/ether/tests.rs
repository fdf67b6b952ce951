//! Tests of the Ethernet header and of link addresses.
use super::*;
use proptest::prelude::*;
use std::string::ToString;

proptest! {
    #[test]
    fn parse_undoes_emit(dst: [u8; 6], src: [u8; 6], ethertype: u16) {
        let repr = EtherRepr { dst: EtherAddr(dst), src: EtherAddr(src), ethertype };
        let mut bytes = [0xaa; HEADER_LEN + 1];
        repr.emit(&mut bytes);
        let view = EtherView::parse(&bytes).unwrap();
        prop_assert_eq!(EtherRepr::parse(&view), repr);
        prop_assert_eq!(view.payload(), &[0xaa]);
    }

    #[test]
    fn emit_of_parse_is_the_same_header(bytes: [u8; HEADER_LEN]) {
        let mut again = [0; HEADER_LEN];
        EtherRepr::parse(&EtherView::parse(&bytes).unwrap()).emit(&mut again);
        prop_assert_eq!(again, bytes);
    }
}

#[test]
fn groups_map_to_link_groups() {
    let v4 = EtherAddr::multicast_v4(Ipv4Addr::new(239, 129, 2, 3));
    assert_eq!(v4.to_string(), "01:00:5e:01:02:03");
    let v6 = EtherAddr::multicast_v6("ff02::1:ff12:3456".parse().unwrap());
    assert_eq!(v6.to_string(), "33:33:ff:12:34:56");
    assert!(v4.is_multicast() && v6.is_multicast() && EtherAddr::BROADCAST.is_multicast());
    assert!(!EtherAddr::ZERO.is_unicast() && EtherAddr([2, 0, 0, 0, 0, 1]).is_unicast());
}

#[test]
fn a_short_frame_is_refused() {
    assert_eq!(EtherView::parse(&[0; 13]).err(), Some(Malformed::Truncated));
}
