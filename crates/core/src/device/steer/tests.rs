//! Steering: both directions, errors about a flow and its fragments meet where they must.
use super::*;
use crate::base::Instant;
use crate::packet::Offload;
use bytes::Bytes;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

fn steering(shards: u16) -> Steering {
    Steering::new(KeyedState::new(1, 2), shards)
}

fn v4(src: Ipv4Addr, dst: Ipv4Addr, proto: u8, more: bool, l4: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 20 + l4.len()];
    out[0] = 0x45;
    out[2..4].copy_from_slice(&((20 + l4.len()) as u16).to_be_bytes());
    out[4..6].copy_from_slice(&[0x12, 0x34]);
    out[6] = u8::from(more) << 5;
    (out[8], out[9]) = (64, proto);
    out[12..16].copy_from_slice(&src.octets());
    out[16..20].copy_from_slice(&dst.octets());
    out[20..].copy_from_slice(l4);
    out
}

fn v6(src: Ipv6Addr, dst: Ipv6Addr, next: u8, l4: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 40 + l4.len()];
    out[0] = 0x60;
    out[4..6].copy_from_slice(&(l4.len() as u16).to_be_bytes());
    (out[6], out[7]) = (next, 64);
    out[8..24].copy_from_slice(&src.octets());
    out[24..40].copy_from_slice(&dst.octets());
    out[40..].copy_from_slice(l4);
    out
}

fn ports(src: u16, dst: u16) -> Vec<u8> {
    let mut out = vec![0; 20];
    out[..2].copy_from_slice(&src.to_be_bytes());
    out[2..4].copy_from_slice(&dst.to_be_bytes());
    out[12] = 5 << 4;
    out
}

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 9, 9, 9);
const A6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

#[test]
fn both_directions_and_icmp_errors_meet() {
    let s = steering(16);
    for port in 1_000..1_200 {
        let home = s.flow(&Tuple::new(SocketAddr::from((A, port)), SocketAddr::from((B, 80))));
        let out = v4(A, B, protocol::TCP, false, &ports(port, 80));
        assert_eq!(s.bytes(&out), home);
        assert_eq!(s.bytes(&v4(B, A, protocol::TCP, false, &ports(80, port))), home);
        let error = [&[3, 4, 0, 0, 0, 0, 5, 0], &out[..28]].concat();
        assert_eq!(s.bytes(&v4(ROUTER, A, protocol::ICMP, false, &error)), home);

        let home = s.flow(&Tuple::new(SocketAddr::from((A6, port)), SocketAddr::from((B6, 80))));
        let out = v6(A6, B6, protocol::TCP, &ports(port, 80));
        assert_eq!(s.bytes(&out), home);
        let error = [&[2, 0, 0, 0, 0, 0, 5, 0], &out[..48]].concat();
        assert_eq!(s.bytes(&v6(B6, A6, protocol::ICMPV6, &error)), home);
    }
}

#[test]
fn shards_share_the_flows_evenly() {
    let s = steering(4);
    let mut counts = [0; 4];
    for port in 0..8_000 {
        let tuple = Tuple::new(SocketAddr::from((A, port)), SocketAddr::from((B, 80)));
        counts[usize::from(s.flow(&tuple).0)] += 1;
    }
    assert!(counts.iter().all(|&n| (1_800..2_200).contains(&n)), "{counts:?}");
}

#[test]
fn fragments_of_one_datagram_meet_and_sctp_goes_by_ports() {
    let s = steering(16);
    let first = v4(A, B, protocol::UDP, true, &ports(1, 2));
    let mut last = v4(A, B, protocol::UDP, false, &[0xaa; 100]);
    last[7] = 3;
    assert_eq!(s.bytes(&first), s.bytes(&last));
    let one = v4(A, B, protocol::SCTP, false, &ports(5_000, 36_412));
    let other = v6(A6, B6, protocol::SCTP, &ports(36_412, 5_000));
    assert_eq!(s.bytes(&one), s.bytes(&other));
}

#[test]
fn the_first_fragment_tells_the_flow_of_all() {
    let s = steering(16);
    let place =
        |bytes: Vec<u8>| s.place(&Packet::received(Bytes::from(bytes), Offload::default(), Instant::ZERO), 0);
    for port in 1_000..1_100 {
        let home = s.flow(&Tuple::new(SocketAddr::from((A, 80)), SocketAddr::from((B, port))));
        let first = place(v4(A, B, protocol::UDP, true, &ports(80, port)));
        let mut last = v4(A, B, protocol::UDP, false, &[0xaa; 100]);
        last[7] = 3;
        let last = place(last);
        assert_eq!(first.shard, last.shard);
        let (first, last) = (first.fragment.unwrap(), last.fragment.unwrap());
        assert_eq!(first.flow, Some(home));
        assert_eq!(last.flow, None);
        assert_eq!(first.named, last.named);
        // What an error quotes of one is of its flow.
        let out = v4(A, B, protocol::UDP, true, &ports(80, port));
        let error = [&[3, 4, 0, 0, 0, 0, 5, 0], &out[..28]].concat();
        assert_eq!(s.bytes(&v4(ROUTER, A, protocol::ICMP, false, &error)), home);

        let home = s.flow(&Tuple::new(SocketAddr::from((A6, 80)), SocketAddr::from((B6, port))));
        let head = |offset: u16, more: bool| {
            let [a, b] = (offset | u16::from(more)).to_be_bytes();
            [protocol::UDP, 0, a, b, 0, 0, 0, 9]
        };
        let first = place(v6(A6, B6, 44, &[&head(0, true)[..], &ports(80, port), &[0; 4]].concat()));
        let last = place(v6(A6, B6, 44, &[&head(24, false)[..], &[0xaa; 100]].concat()));
        assert_eq!(first.shard, last.shard);
        let (first, last) = (first.fragment.unwrap(), last.fragment.unwrap());
        assert_eq!(first.flow, Some(home));
        assert_eq!(last.flow, None);
        assert_eq!(first.named, last.named);
    }
}

#[test]
fn an_error_quotes_of_a_fragment_as_much_as_it_likes() {
    let s = steering(16);
    let home = |ports| s.flow(&Tuple::new(SocketAddr::from((A6, 80)), SocketAddr::from((B6, ports))));
    for port in 1_000..1_050 {
        for proto in [protocol::TCP, protocol::UDP] {
            let piece = [&ports(80, port)[..], &[0xaa; 300]].concat();
            let first = v6(A6, B6, 44, &[&[proto, 0, 0, 1, 0, 0, 0, 9], &piece[..]].concat());
            let later = v6(A6, B6, 44, &[&[proto, 0, 1, 65, 0, 0, 0, 9], &[0xaa; 320][..]].concat());
            let error = |quoted: &[u8]| {
                s.bytes(&v6(B6, A6, protocol::ICMPV6, &[&[2, 0, 0, 0, 0, 0, 5, 0], quoted].concat()))
            };
            // 4 bytes of the ports at the least, odd cuts, and all of it.
            for cut in [52, 53, 56, 61, 68, 100, 155, first.len()] {
                assert_eq!(error(&first[..cut]), home(port), "{cut} bytes");
            }
            for cut in [48, 51, 99, later.len()] {
                assert_eq!(error(&later[..cut]), s.bytes(&later), "{cut} bytes, where its fragments meet");
            }
        }
    }
    // What says itself that its length is odd has no flow that is known.
    let odd = v6(A6, B6, 44, &[&[protocol::UDP, 0, 0, 1, 0, 0, 0, 9], &ports(80, 1_000)[..]].concat());
    assert_eq!(s.bytes(&odd), ShardId(0));
}

#[test]
fn headers_apart_or_behind_a_link_header_steer_alike() {
    let s = steering(16);
    let whole = v4(A, B, protocol::TCP, false, &ports(1_234, 80));
    let home = s.bytes(&whole);
    let framed = [vec![0; 14], whole.clone()].concat();
    let packet = Packet::received(Bytes::from(framed), Offload::default(), Instant::ZERO);
    assert_eq!(s.packet(&packet, 14), home);
    let mut apart = Packet::received(Bytes::copy_from_slice(&whole[20..]), Offload::default(), Instant::ZERO);
    apart.head.prepend(20).copy_from_slice(&whole[..20]);
    assert_eq!(s.packet(&apart, 0), home);
    assert_eq!(steering(1).packet(&apart, 0), ShardId(0));
}

#[test]
fn no_bytes_make_it_panic() {
    let s = steering(3);
    let mut rng = crate::base::Rng::new(5);
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..rng.below(120)).map(|_| rng.next_u32() as u8).collect();
        if let Some(first) = bytes.first_mut() {
            *first = if rng.below(2) == 0 { 0x45 } else { 0x60 };
        }
        assert!(s.bytes(&bytes).0 < 3);
    }
}
