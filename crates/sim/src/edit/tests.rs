//! Tests of packet edits against hand-made packets.
use super::*;
use lowwater_core::packet::{GsoKind, Head};

/// A UDP datagram over IPv4 with its headers in the head and the checksum left to the device.
fn udp4(payload: &'static [u8], tos: u8) -> Packet {
    let mut head = Head::new();
    let udp_len = 8 + payload.len();
    let h = head.prepend(28);
    h[0] = 0x45;
    h[1] = tos;
    h[2..4].copy_from_slice(&((20 + udp_len) as u16).to_be_bytes());
    h[6] = 0x40;
    h[8] = 64;
    h[9] = 17;
    h[12..16].copy_from_slice(&[10, 0, 0, 1]);
    h[16..20].copy_from_slice(&[10, 0, 0, 2]);
    refresh_v4_checksum(h);
    h[20..24].copy_from_slice(&[0x10, 0x00, 0x20, 0x00]);
    h[24..26].copy_from_slice(&(udp_len as u16).to_be_bytes());
    let pseudo = fold(sum(&h[12..20]) + 17 + udp_len as u64);
    h[26..28].copy_from_slice(&pseudo.to_be_bytes());
    Packet {
        head,
        payload: Bytes::from_static(payload),
        offload: Offload {
            gso: GsoKind::None,
            gso_size: 0,
            csum: Csum::Partial { start: 20, offset: 6 },
            ..Offload::default()
        },
        owner: None,
        at: Instant::ZERO,
        priority: None,
    }
}

fn udp_sum(b: &[u8]) -> u16 {
    fold(sum(&b[12..20]) + 17 + (b.len() - 20) as u64 + sum(&b[20..]))
}

#[test]
fn a_partial_checksum_is_completed_to_one_that_verifies() {
    let b = wire_bytes(&udp4(b"hello, world", 0));
    assert_eq!(udp_sum(&b), 0xffff);
    assert_eq!(fold(sum(&b[..20])), 0xffff);
}

#[test]
fn any_burst_of_bits_breaks_a_checksum() {
    let p = udp4(b"payload of some length", 0);
    for position in 0..p.len() as u64 {
        for pattern in [1u8, 0x80, 0xff, 0x5a] {
            let b = flip_bits(&p, position, pattern, Instant::ZERO).to_bytes();
            let ip_ok = b[0] == 0x45 && fold(sum(&b[..20])) == 0xffff;
            assert!(!ip_ok || udp_sum(&b) != 0xffff, "byte {position} pattern {pattern:#x}");
        }
    }
}

#[test]
fn only_capable_packets_are_marked_and_the_header_sum_follows() {
    let mut p = udp4(b"x", 2);
    assert!(mark_ce(&mut p));
    assert_eq!(ecn(&p), 3);
    assert_eq!(fold(sum(&p.head.as_slice()[..20])), 0xffff);
    let mut p = udp4(b"x", 0);
    assert!(!mark_ce(&mut p));
    assert_eq!(ecn(&p), 0);
}

#[test]
fn a_router_quotes_the_packet_that_was_too_big() {
    let p = udp4(b"quoted", 0);
    assert!(dont_fragment(&p));
    let icmp = too_big(&p, 1400, Instant::ZERO).expect("an IP packet").to_bytes();
    assert_eq!(&icmp[16..20], &[10, 0, 0, 1]);
    assert_eq!(fold(sum(&icmp[20..])), 0xffff);
    assert_eq!(&icmp[26..28], &1400u16.to_be_bytes());
    assert_eq!(&icmp[28..], &wire_bytes(&p)[..]);
}

#[test]
fn a_super_packet_takes_the_wire_as_long_as_its_segments() {
    let mut p = udp4(b"0123456789", 0);
    p.offload.gso_size = 4;
    // Three segments behind an IP header of 20 bytes each (no TCP header here).
    p.head.strip(28);
    p.payload = Bytes::from_static(&[0x45; 30]);
    assert_eq!(wire_size(&p), (3, 30 + 2 * 20));
}
