//! Tests of ARP.
use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn parse_undoes_emit(request: bool, sender: [u8; 6], sender_ip: Ipv4Addr, target: [u8; 6], target_ip: Ipv4Addr) {
        let operation = if request { ArpOperation::Request } else { ArpOperation::Reply };
        let repr = ArpRepr { operation, sender_mac: EtherAddr(sender), sender_ip, target_mac: EtherAddr(target), target_ip };
        let mut bytes = [0xaa; MESSAGE_LEN + 18];
        repr.emit(&mut bytes);
        prop_assert_eq!(ArpRepr::parse(&ArpView::parse(&bytes).unwrap()), Ok(repr));
        let mut again = bytes;
        again[..MESSAGE_LEN].fill(0);
        repr.emit(&mut again);
        prop_assert_eq!(again, bytes);
    }
}

#[test]
fn other_kinds_are_refused() {
    let zero = ArpRepr {
        operation: ArpOperation::Request,
        sender_mac: EtherAddr::ZERO,
        sender_ip: Ipv4Addr::UNSPECIFIED,
        target_mac: EtherAddr::ZERO,
        target_ip: Ipv4Addr::UNSPECIFIED,
    };
    let mut bytes = [0; MESSAGE_LEN];
    zero.emit(&mut bytes);
    for (at, value) in [(1, 6), (2, 0x86), (4, 8), (5, 16)] {
        let mut other = bytes;
        other[at] = value;
        assert_eq!(ArpView::parse(&other).err(), Some(Malformed::Unsupported), "byte {at}");
    }
    bytes[7] = 3;
    assert_eq!(ArpRepr::parse(&ArpView::parse(&bytes).unwrap()), Err(Malformed::Unsupported));
    assert_eq!(ArpView::parse(&bytes[..27]).err(), Some(Malformed::Truncated));
}
