//! Tests of the IPv6 header and of the chain of extension headers.
use super::*;
use crate::protocol::{
    AH, DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ICMPV6, NO_NEXT_HEADER, ROUTING, TCP, UDP,
};
use proptest::prelude::*;
use std::vec::Vec;

prop_compose! {
    fn repr()(src: Ipv6Addr, dst: Ipv6Addr, next_header: u8, hop_limit: u8, traffic_class: u8, flow_label in 0u32..1 << 20, payload_len in 0u16..200) -> Ipv6Repr {
        Ipv6Repr { src, dst, next_header, hop_limit, traffic_class, flow_label, payload_len }
    }
}

proptest! {
    #[test]
    fn parse_undoes_emit(repr in repr()) {
        let mut bytes = std::vec![0xaa; HEADER_LEN + usize::from(repr.payload_len) + 3];
        repr.emit(&mut bytes);
        let view = Ipv6View::parse(&bytes).unwrap();
        prop_assert_eq!(Ipv6Repr::parse(&view), repr);
        prop_assert_eq!(view.payload().len(), usize::from(repr.payload_len));
        let mut again = bytes.clone();
        Ipv6Repr::parse(&view).emit(&mut again);
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn fragment_header_round_trip(next_header: u8, offset in 0u16..0x2000, more: bool, ident: u32) {
        let header = FragmentHeader { next_header, offset: offset * 8, more, ident };
        let mut bytes = [0xaa; FRAGMENT_HEADER_LEN];
        header.emit(&mut bytes);
        prop_assert_eq!(FragmentHeader::parse(&bytes), Ok(header));
    }

    #[test]
    fn a_chain_never_leads_outside(next_header in prop::sample::select(&[HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION_OPTIONS, TCP][..]), bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(44), Just(60), any::<u8>()], 0..120)) {
        if let Ok(chain) = walk(next_header, &bytes) {
            prop_assert!(chain.offset <= bytes.len());
            prop_assert!(chain.protocol_at < HEADER_LEN + bytes.len().max(1));
            prop_assert!(chain.fragment.is_none() || chain.offset >= FRAGMENT_HEADER_LEN);
        }
    }
}

#[test]
fn impossible_headers_are_refused_with_the_reason() {
    let mut bytes = [0; HEADER_LEN + 4];
    bytes[0] = 0x60;
    bytes[5] = 4;
    assert!(Ipv6View::parse(&bytes).is_ok());
    bytes[5] = 5;
    assert_eq!(Ipv6View::parse(&bytes).err(), Some(Malformed::Truncated));
    assert_eq!(Ipv6View::parse_quoted(&bytes).map(|view| view.payload().len()), Ok(4));
    bytes[0] = 0x45;
    assert_eq!(Ipv6View::parse(&bytes).err(), Some(Malformed::Version));
    assert_eq!(Ipv6View::parse(&bytes[..39]).err(), Some(Malformed::Truncated));
}

/// An options header of 8 bytes with `data` as its options.
fn options(next_header: u8, data: [u8; 6]) -> Vec<u8> {
    let mut header = std::vec![next_header, 0];
    header.extend(data);
    header
}

const PADDED: [u8; 6] = [1, 4, 0, 0, 0, 0];

fn fragment(next_header: u8, offset: u16, more: bool) -> Vec<u8> {
    let mut header = std::vec![0; FRAGMENT_HEADER_LEN];
    FragmentHeader { next_header, offset, more, ident: 7 }.emit(&mut header);
    header
}

fn problem(code: u8, pointer: u32) -> Result<Chain, ExtError> {
    Err(ExtError::ParameterProblem { code, pointer, unless_multicast: false })
}

#[test]
fn without_extension_headers_the_chain_is_the_fixed_header() {
    let chain = walk(TCP, &[0; 20]).unwrap();
    assert_eq!((chain.protocol, chain.offset, chain.protocol_at), (TCP, 0, 6));
    assert_eq!(walk(NO_NEXT_HEADER, &[]).unwrap().protocol, NO_NEXT_HEADER);
}

#[test]
fn all_headers_in_the_recommended_order() {
    let bytes = [
        options(DESTINATION_OPTIONS, [5, 2, 0, 0, 0, 0]),
        options(ROUTING, PADDED),
        std::vec![FRAGMENT, 0, 99, 0, 0, 0, 0, 0],
        fragment(DESTINATION_OPTIONS, 0, false),
        options(UDP, PADDED),
        std::vec![0; 8],
    ];
    let chain = walk(HOP_BY_HOP, &bytes.concat()).unwrap();
    assert_eq!((chain.protocol, chain.offset, chain.protocol_at), (UDP, 40, 40 + 32));
    assert!(chain.router_alert);
    assert_eq!(chain.fragment, None, "an atomic fragment is a whole packet");
}

#[test]
fn a_fragment_ends_the_chain() {
    let bytes = [options(FRAGMENT, PADDED), fragment(TCP, 1_448, true), std::vec![0; 16]].concat();
    let chain = walk(DESTINATION_OPTIONS, &bytes).unwrap();
    let header = FragmentHeader { next_header: TCP, offset: 1_448, more: true, ident: 7 };
    assert_eq!(chain.fragment, Some(header));
    assert_eq!((chain.protocol, chain.offset, chain.protocol_at, chain.fragment_at), (TCP, 16, 48, 40));
}

#[test]
fn invalid_fragments_are_answered() {
    let odd = [fragment(TCP, 8, true), std::vec![0; 15]].concat();
    assert_eq!(walk(FRAGMENT, &odd), problem(0, 4));
    let beyond = [fragment(TCP, 65_528, false), std::vec![0; 8]].concat();
    assert_eq!(walk(FRAGMENT, &beyond), problem(0, 42));
    let headless = [fragment(TCP, 0, true), std::vec![0; 16]].concat();
    assert_eq!(walk(FRAGMENT, &headless), problem(3, 0));
    let hidden = [fragment(DESTINATION_OPTIONS, 0, true), options(TCP, PADDED), std::vec![0; 24]].concat();
    assert!(walk(FRAGMENT, &hidden).is_ok());
    assert_eq!(walk(FRAGMENT, &hidden[..24]), problem(3, 0));
}

#[test]
fn hop_by_hop_options_come_first_or_not_at_all() {
    let bytes = [options(HOP_BY_HOP, PADDED), options(TCP, PADDED)].concat();
    assert_eq!(walk(DESTINATION_OPTIONS, &bytes), problem(1, 40));
}

#[test]
fn unknown_options_do_what_their_type_says() {
    let with = |kind| walk(DESTINATION_OPTIONS, &options(TCP, [1, 0, kind, 2, 0, 0]));
    assert!(with(0x1e).is_ok());
    assert_eq!(with(0x5e), Err(ExtError::Discard));
    assert_eq!(with(0x9e), problem(2, 44));
    let silent = ExtError::ParameterProblem { code: 2, pointer: 44, unless_multicast: true };
    assert_eq!(with(0xde), Err(silent));
}

#[test]
fn options_that_run_out_are_malformed() {
    let run_out = [1, 5, 0, 0, 0, 0];
    assert_eq!(walk(DESTINATION_OPTIONS, &options(TCP, run_out)), Err(Malformed::Option.into()));
    let no_length = [1, 3, 0, 0, 0, 5];
    assert_eq!(walk(DESTINATION_OPTIONS, &options(TCP, no_length)), Err(Malformed::Option.into()));
    assert_eq!(walk(DESTINATION_OPTIONS, &options(TCP, PADDED)[..7]), Err(Malformed::Truncated.into()));
    assert_eq!(walk(DESTINATION_OPTIONS, &[TCP, 1, 1, 4, 0, 0, 0, 0]), Err(Malformed::Truncated.into()));
    let secret = [1, 4, 0, 0, 0, 1];
    assert_eq!(walk(DESTINATION_OPTIONS, &options(TCP, secret)), Err(ExtError::Discard));
}

#[test]
fn routing_headers_are_not_followed() {
    for kind in [0, 2, 3, 4, 253] {
        assert_eq!(walk(ROUTING, &[TCP, 0, kind, 1, 0, 0, 0, 0]), problem(0, 42));
        assert_eq!(walk(ROUTING, &[TCP, 0, kind, 0, 0, 0, 0, 0]).map(|chain| chain.offset), Ok(8));
    }
}

#[test]
fn the_chain_and_its_options_are_bounded() {
    let link = options(DESTINATION_OPTIONS, PADDED);
    let mut longest = link.repeat(MAX_EXTENSION_HEADERS - 1);
    longest.extend(options(TCP, PADDED));
    assert_eq!(walk(DESTINATION_OPTIONS, &longest).map(|chain| chain.protocol), Ok(TCP));
    let too_long = [link, longest].concat();
    assert_eq!(walk(DESTINATION_OPTIONS, &too_long), Err(ExtError::Discard));

    let mut many = std::vec![TCP, 2];
    many.extend([0x1e, 0].repeat(11));
    assert_eq!(walk(DESTINATION_OPTIONS, &many), Err(ExtError::Discard));
    let mut padded = std::vec![TCP, 1];
    padded.extend([0; 14]);
    assert_eq!(walk(DESTINATION_OPTIONS, &padded), Err(ExtError::Discard));
}

#[test]
fn a_router_marks_what_can_be_marked() {
    for class in 0..=255 {
        let repr = Ipv6Repr {
            src: Ipv6Addr::LOCALHOST,
            dst: Ipv6Addr::LOCALHOST,
            next_header: TCP,
            hop_limit: 9,
            traffic_class: class,
            flow_label: 0xf_ffff,
            payload_len: 0,
        };
        let mut bytes = [0; HEADER_LEN];
        repr.emit(&mut bytes);
        assert_eq!(set_ce(&mut bytes), class & 3 != 0);
        let marked = Ipv6Repr { traffic_class: if class & 3 == 0 { class } else { class | 3 }, ..repr };
        assert_eq!(Ipv6Repr::parse(&Ipv6View::parse(&bytes).unwrap()), marked);
    }
    assert!(!set_ce(&mut [0x60; 10]));
}

#[test]
fn headers_are_skipped_by_their_lengths_alone() {
    let (options, unknown) = ([58, 0, 0xfe, 4, 0, 0, 0, 0], [60, 0, 9, 9, 9, 9, 9, 9]);
    assert_eq!(skip(ICMPV6, &[]), Some((ICMPV6, 0)));
    assert_eq!(skip(HOP_BY_HOP, &[unknown, options].concat()), Some((ICMPV6, 16)));
    assert_eq!(skip(AH, &[TCP, 4].repeat(12)), Some((TCP, 24)));
    let fragment = |offset: u8| [DESTINATION_OPTIONS, 0, 0, offset | 1, 0, 0, 0, 7];
    assert_eq!(skip(FRAGMENT, &[fragment(0), options].concat()), Some((ICMPV6, 16)));
    assert_eq!(skip(FRAGMENT, &fragment(8)), Some((FRAGMENT, 0)), "not the first");
    assert_eq!(skip(DESTINATION_OPTIONS, &[58]), None, "cut off");
    assert_eq!(skip(DESTINATION_OPTIONS, &[58, 1, 0, 0, 0, 0, 0, 0]), None);
    assert_eq!(skip(NO_NEXT_HEADER, &[0; 8]), None);
}
