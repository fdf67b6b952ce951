//! What is written is read back, and wrong bytes are told.
use super::{Body, Handed, Icmp, Ip, Line, Quote, Tcp, Udp, Wire, read};
use crate::options::TcpOption;
use core::net::SocketAddr;
use lowwater_core::base::Instant;
use lowwater_wire::{protocol, tcp::TcpFlags};

fn wire(v6: bool, body: Body) -> Wire {
    let ip = |text: &str| text.parse().expect("an address");
    let (src, dst) = if v6 { ("fd00::1", "fd00::2") } else { ("192.0.2.1", "192.168.0.1") };
    let ip = Ip { src: ip(src), dst: ip(dst), tos: 0x2a, ttl: 9, flow_label: if v6 { 0x12345 } else { 0 } };
    Wire { at: Instant::ZERO, ip, body, handed: Handed::default() }
}

fn quote(v6: bool, protocol: u8) -> Quote {
    let addr = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let (src, dst) = if v6 { ("[fd00::2]:80", "[fd00::1]:90") } else { ("192.168.0.1:80", "192.0.2.1:90") };
    let seq = if protocol == protocol::TCP { 1_461 } else { 0 };
    Quote { src: addr(src), dst: addr(dst), protocol, seq, len: 1_000, kept: 8 }
}

#[test]
fn a_checksum_is_left_out_over_ipv4_alone_and_where_a_socket_wants_it_so() {
    for (v6, unchecked) in [(false, false), (false, true), (true, false), (true, true)] {
        let wire = wire(v6, Body::Udp(Udp { src_port: 8, dst_port: 9, len: 10 }));
        let mut bytes = wire.write().to_vec();
        let at = if v6 { 46 } else { 26 };
        bytes[at..at + 2].fill(0);
        let read = read(&bytes, Instant::ZERO, Handed::default(), unchecked);
        assert_eq!(read.is_ok(), !v6 && unchecked, "{read:?}");
    }
}

#[test]
fn packets_are_read_as_they_were_written() {
    let options = vec![
        TcpOption::Mss(1_460),
        TcpOption::Other(34, vec![1, 2]),
        TcpOption::Other(30, vec![]),
        TcpOption::Eol,
        TcpOption::Eol,
    ];
    let tcp = Tcp {
        src_port: 1,
        dst_port: 2,
        seq: 3,
        ack: 4,
        flags: TcpFlags::from_bits_truncate(0x1f3),
        window: 5,
        urgent: 6,
        options,
        len: 7,
    };
    for v6 in [false, true] {
        let icmp = |kind, quoted, len| Body::Icmp(Icmp { kind, code: 0, rest: 1_000, quoted, len });
        let (error, head, icmp_error) = if v6 { (1, 40, 48) } else { (3, 20, 28) };
        for body in [
            Body::Tcp(tcp.clone()),
            Body::Udp(Udp { src_port: 8, dst_port: 9, len: 10 }),
            icmp(error, Some(quote(v6, protocol::TCP)), head + 16),
            icmp(error, Some(quote(v6, protocol::UDP)), head + 16),
            icmp(if v6 { 128 } else { 8 }, None, 100),
        ] {
            let wire = wire(v6, body);
            let bytes = wire.write();
            let back =
                read(&bytes, Instant::ZERO, Handed::default(), false).expect("no mistake").expect("a packet");
            assert_eq!((back.ip, &back.body), (wire.ip, &wire.body));
            let mut wrong = bytes.to_vec();
            let last = wrong.len() - 1;
            wrong[last] ^= 1;
            assert!(read(&wrong, Instant::ZERO, Handed::default(), false).is_err(), "{wire:?}");
            assert!(bytes.len() > icmp_error);
        }
    }
}

#[test]
fn reserved_bits_of_a_segment_are_told() {
    let (flags, options) = (TcpFlags::ACK, Vec::new());
    let tcp = Tcp { src_port: 1, dst_port: 2, seq: 3, ack: 4, flags, window: 5, urgent: 6, options, len: 7 };
    let mut bytes = wire(false, Body::Tcp(tcp)).write().to_vec();
    let sum = u16::from_be_bytes([bytes[36], bytes[37]]);
    let (sum, borrow) = sum.overflowing_sub(0x0200);
    bytes[32] |= 2;
    bytes[36..38].copy_from_slice(&(sum - u16::from(borrow)).to_be_bytes());
    let told = read(&bytes, Instant::ZERO, Handed::default(), false).expect_err("a reserved bit");
    assert_eq!(told, "the stack sent reserved bits of a TCP header");
}

#[test]
fn packets_are_shown_as_scripts_write_them() {
    let q = Some(quote(false, protocol::TCP));
    let icmp = Body::Icmp(Icmp { kind: 3, code: 4, rest: 1_000, quoted: q, len: 36 });
    let shown = Line(&wire(false, icmp), super::Shown::default()).to_string();
    assert_eq!(shown, "icmp unreachable frag_needed mtu 1000 [1461:2461(1000)]");
    let udp = wire(true, Body::Udp(Udp { src_port: 8, dst_port: 9, len: 10 }));
    let all = super::Shown { tos: true, ttl: true, flow_label: true, ports: true, ..super::Shown::default() };
    let shown = Line(&udp, all).to_string();
    assert_eq!(shown, "[tos 0x2a, ttl 9, flowlabel 0x12345] [fd00::1]:8 > [fd00::2]:9: udp (10)");
}
