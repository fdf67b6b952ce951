//! Tests of ICMP for IPv4.
use super::*;
use proptest::prelude::*;
use std::vec::Vec;

fn message(which: u8, code: u8, a: u16, b: u16, data: &[u8]) -> Icmp4Repr<'_> {
    match which {
        0 => Icmp4Repr::EchoRequest { ident: a, seq: b, data },
        1 => Icmp4Repr::EchoReply { ident: a, seq: b, data },
        2 => Icmp4Repr::Unreachable {
            code,
            mtu: if code == FRAGMENTATION_NEEDED { a } else { 0 },
            quoted: data,
        },
        3 => Icmp4Repr::TimeExceeded { code, quoted: data },
        _ => Icmp4Repr::ParameterProblem { code, pointer: a as u8, quoted: data },
    }
}

fn emitted(repr: &Icmp4Repr<'_>) -> Vec<u8> {
    let mut bytes = std::vec![0xaa; repr.buffer_len()];
    repr.emit(&mut bytes);
    bytes
}

proptest! {
    #[test]
    fn parse_undoes_emit(which in 0u8..5, code in 0u8..16, a: u16, b: u16, data in prop::collection::vec(any::<u8>(), 0..90)) {
        let repr = message(which, code, a, b, &data);
        let bytes = emitted(&repr);
        let view = Icmp4View::parse(&bytes).unwrap();
        prop_assert!(view.checksum_ok());
        prop_assert_eq!(Icmp4Repr::parse(&view), Ok(repr));
    }

    #[test]
    fn emit_of_parse_is_a_fixed_point(kind in prop::sample::select(&[0u8, 3, 8, 11, 12][..]), rest in prop::collection::vec(any::<u8>(), 7..90)) {
        let mut bytes = rest;
        bytes.insert(0, kind);
        if let Ok(repr) = Icmp4Repr::parse(&Icmp4View::parse(&bytes).unwrap()) {
            let again = emitted(&repr);
            prop_assert_eq!(Icmp4Repr::parse(&Icmp4View::parse(&again).unwrap()), Ok(repr));
        }
    }
}

#[test]
fn extensions_are_not_part_of_the_quoted_packet() {
    let mut bytes = [0u8; HEADER_LEN + 128 + 12];
    bytes[0] = TIME_EXCEEDED;
    bytes[5] = 32;
    assert_eq!(Icmp4View::parse(&bytes).unwrap().quoted().len(), 128);
    for lie in [255, 1, 5, 31] {
        bytes[5] = lie;
        assert_eq!(Icmp4View::parse(&bytes).unwrap().quoted().len(), 140, "{lie} words are ignored");
    }
}
