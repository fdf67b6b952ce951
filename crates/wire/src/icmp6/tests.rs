//! Tests of ICMP for IPv6 and of neighbour discovery.
use super::*;
use crate::ether::EtherAddr;
use proptest::prelude::*;
use std::vec::Vec;

const SRC: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const DST: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

fn emitted(repr: &Icmp6Repr<'_>) -> Vec<u8> {
    let mut bytes = std::vec![0xaa; repr.buffer_len()];
    repr.emit(SRC, DST, &mut bytes);
    bytes
}

fn message(which: u8, code: u8, word: u32, data: &[u8]) -> Icmp6Repr<'_> {
    let (ident, seq) = ((word >> 16) as u16, word as u16);
    match which {
        0 => Icmp6Repr::Unreachable { code, quoted: data },
        1 => Icmp6Repr::PacketTooBig { mtu: word, quoted: data },
        2 => Icmp6Repr::TimeExceeded { code, quoted: data },
        3 => Icmp6Repr::ParameterProblem { code, pointer: word, quoted: data },
        4 => Icmp6Repr::EchoRequest { ident, seq, data },
        _ => Icmp6Repr::EchoReply { ident, seq, data },
    }
}

fn link() -> impl Strategy<Value = Option<EtherAddr>> {
    prop::option::of(any::<[u8; 6]>().prop_map(EtherAddr))
}

prop_compose! {
    fn prefix()(prefix: Ipv6Addr, prefix_len in 0u8..=128, on_link: bool, autonomous: bool, valid_lifetime: u32, preferred_lifetime: u32) -> PrefixInfo {
        PrefixInfo { prefix, prefix_len, on_link, autonomous, valid_lifetime, preferred_lifetime }
    }
}

prop_compose! {
    fn advert()(bits: [bool; 2], hop_limit: u8, router_lifetime: u16, times: (u32, u32), source_link in link(), mtu: Option<u32>, prefix in prop::option::of(prefix())) -> NdRepr {
        NdRepr::RouterAdvert(RouterAdvert {
            hop_limit,
            managed: bits[0],
            other_config: bits[1],
            router_lifetime,
            reachable_time: times.0,
            retrans_timer: times.1,
            source_link,
            mtu,
            prefix,
        })
    }
}

fn unicast() -> impl Strategy<Value = Ipv6Addr> {
    any::<Ipv6Addr>().prop_filter("a target is not a group", |target| !target.is_multicast())
}

fn nd() -> impl Strategy<Value = NdRepr> {
    prop_oneof![
        link().prop_map(|source_link| NdRepr::RouterSolicit { source_link }),
        advert(),
        (unicast(), link())
            .prop_map(|(target, source_link)| NdRepr::NeighbourSolicit { target, source_link }),
        (any::<[bool; 3]>(), unicast(), link()).prop_map(
            |([router, solicited, override_cached], target, target_link)| {
                NdRepr::NeighbourAdvert { router, solicited, override_cached, target, target_link }
            }
        ),
    ]
}

proptest! {
    #[test]
    fn parse_undoes_emit(which in 0u8..6, code in 0u8..8, word: u32, data in prop::collection::vec(any::<u8>(), 0..90)) {
        let repr = message(which, code, word, &data);
        let bytes = emitted(&repr);
        let view = Icmp6View::parse(&bytes).unwrap();
        prop_assert!(view.checksum_ok(SRC, DST));
        prop_assert_eq!(Icmp6Repr::parse(&view), Ok(repr));
    }

    #[test]
    fn parse_undoes_emit_of_neighbour_discovery(nd in nd()) {
        let repr = Icmp6Repr::Nd(nd);
        let bytes = emitted(&repr);
        let view = Icmp6View::parse(&bytes).unwrap();
        prop_assert!(view.checksum_ok(SRC, DST));
        prop_assert_eq!(Icmp6Repr::parse(&view), Ok(repr));
    }

    #[test]
    fn emit_of_parse_is_a_fixed_point(kind in prop::sample::select(&[1u8, 2, 3, 4, 128, 129, 133, 134, 135, 136][..]), code in 0u8..3, rest in prop::collection::vec(0u8..4, 6..90)) {
        let mut bytes = std::vec![kind, code];
        bytes.extend_from_slice(&rest);
        if let Ok(repr) = Icmp6Repr::parse(&Icmp6View::parse(&bytes).unwrap()) {
            let again = emitted(&repr);
            prop_assert_eq!(Icmp6Repr::parse(&Icmp6View::parse(&again).unwrap()), Ok(repr));
        }
    }
}

fn solicit(change: impl FnOnce(&mut Vec<u8>)) -> Result<Icmp6Repr<'static>, Malformed> {
    let nd = NdRepr::NeighbourSolicit { target: SRC, source_link: Some(EtherAddr([2, 0, 0, 0, 0, 1])) };
    let mut bytes = emitted(&Icmp6Repr::Nd(nd));
    change(&mut bytes);
    match Icmp6Repr::parse(&Icmp6View::parse(&bytes).unwrap()) {
        Ok(Icmp6Repr::Nd(nd)) => Ok(Icmp6Repr::Nd(nd)),
        Ok(other) => panic!("became {other:?}"),
        Err(malformed) => Err(malformed),
    }
}

#[test]
fn invalid_neighbour_discovery_is_refused() {
    assert!(solicit(|_| {}).is_ok());
    assert_eq!(solicit(|bytes| bytes[1] = 1), Err(Malformed::Field), "code");
    assert_eq!(solicit(|bytes| bytes[8] = 0xff), Err(Malformed::Field), "multicast target");
    assert_eq!(solicit(|bytes| bytes[25] = 0), Err(Malformed::Option), "option of length zero");
    assert_eq!(solicit(|bytes| bytes[25] = 2), Err(Malformed::Option), "option past the end");
    assert_eq!(solicit(|bytes| bytes.truncate(23)), Err(Malformed::Truncated), "no target");
    let unknown = solicit(|bytes| bytes.extend([200, 1, 0, 0, 0, 0, 0, 0]));
    assert_eq!(unknown, solicit(|_| {}), "unknown options are ignored");
}
