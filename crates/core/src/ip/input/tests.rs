//! Tests: what is taken in, what is not, and that nothing can panic.
use super::super::testing::{DEV, World, cidr, host, ip, send_udp};
use super::super::{FrameInput, Iface, Input, Ip, Link, Outbox, Unreachable};
use crate::base::{DeviceId, DropWhy, Duration, Instant};
use crate::packet::{Csum, Head, Offload, Packet};
use bytes::Bytes;
use core::net::IpAddr;
use lowwater_wire::ether::{EtherAddr, EtherRepr};
use lowwater_wire::{checksum, ipv4, ipv6, protocol};
use proptest::prelude::*;

/// A packet with an empty transport payload of 8 bytes, as a device delivers it.
fn v4(src: &str, dst: &str, patch: impl Fn(&mut Vec<u8>)) -> Packet {
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (ip(src), ip(dst)) else { panic!("IPv4") };
    let repr = ipv4::Ipv4Repr {
        src,
        dst,
        protocol: protocol::TCP,
        ttl: 64,
        tos: 0,
        ident: 1,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: 8,
    };
    let mut bytes = vec![0; 28];
    repr.emit(&mut bytes);
    patch(&mut bytes);
    let len = usize::from(bytes[0] & 15) * 4;
    if (20..=bytes.len()).contains(&len) {
        bytes[10..12].fill(0);
        let sum = checksum::checksum(&bytes[..len]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    Packet::received(Bytes::from(bytes), Offload::default(), Instant::ZERO)
}

fn v6(src: &str, dst: &str, next_header: u8, payload: &[u8]) -> Packet {
    let (IpAddr::V6(src), IpAddr::V6(dst)) = (ip(src), ip(dst)) else { panic!("IPv6") };
    let payload_len = payload.len() as u16;
    let repr =
        ipv6::Ipv6Repr { src, dst, next_header, hop_limit: 64, traffic_class: 0, flow_label: 0, payload_len };
    let mut bytes = vec![0; 40];
    repr.emit(&mut bytes);
    bytes.extend_from_slice(payload);
    Packet::received(Bytes::from(bytes), Offload::default(), Instant::ZERO)
}

struct Host {
    w: World,
    ip: Ip,
    out: Outbox,
}

impl Host {
    fn new(link: Link) -> Self {
        let mut w = World::new(9);
        let ip = host(&mut w, 2, link);
        Self { w, ip, out: Outbox::default() }
    }
    fn take(&mut self, packet: Packet) -> Input {
        self.ip.input(&mut self.w.cx(), DEV, packet, &mut self.out)
    }
    fn why(&mut self, packet: Packet) -> Option<DropWhy> {
        match self.take(packet) {
            Input::Drop(why) => Some(why),
            Input::Deliver(_) => None,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn only_honest_headers_pass() {
    let mut h = Host::new(Link::Ip);
    let plain = |_: &mut Vec<u8>| {};
    assert_eq!(h.why(v4("10.0.0.1", "10.0.0.2", plain)), None);
    let mut bad = v4("10.0.0.1", "10.0.0.2", plain).payload.to_vec();
    bad[8] = 1;
    let bad = Packet { payload: Bytes::from(bad), ..v4("10.0.0.1", "10.0.0.2", plain) };
    assert_eq!(h.why(bad), Some(DropWhy::Checksum));
    for (at, value) in [(0, 0x44), (0, 0x4f), (0, 0x75), (3, 19), (3, 29)] {
        let p = v4("10.0.0.1", "10.0.0.2", |b| b[at] = value);
        assert_eq!(h.why(p), Some(DropWhy::Malformed), "{at} {value}");
    }
    for kind in [131, 137] {
        let p = v4("10.0.0.1", "10.0.0.2", |b| {
            b[0] = 0x47;
            b[20..28].copy_from_slice(&[1, kind, 7, 4, 10, 0, 0, 9]);
        });
        assert_eq!(h.why(p), Some(DropWhy::BadSource), "a source route");
    }
    let padded = v4("10.0.0.1", "10.0.0.2", |b| b.extend_from_slice(&[9; 18]));
    let Input::Deliver(i) = h.take(padded) else { panic!("delivered") };
    assert_eq!((i.packet.len(), i.l4_len(), i.l4_offset), (28, 8, 20));
}

#[test]
fn options_of_ipv4_have_lengths_that_can_be() {
    let with = |options: [u8; 4]| {
        v4("10.0.0.1", "10.0.0.2", move |b| {
            b[0] = 0x46;
            b[20..24].copy_from_slice(&options);
            b.extend_from_slice(&[9; 18]);
        })
    };
    let mut h = Host::new(Link::Ip);
    for good in [[1, 1, 1, 1], [0, 9, 9, 9], [148, 4, 0, 0], [1, 222, 3, 0]] {
        assert_eq!(h.why(with(good)), None, "{good:?}");
    }
    for (bad, pointer) in [([1, 148, 4, 0], 21), ([148, 1, 0, 0], 20), ([1, 1, 1, 222], 23)] {
        assert_eq!(h.why(with(bad)), Some(DropWhy::Malformed), "{bad:?}");
        let (_, sent) = h.out.frames.pop().expect("a parameter problem");
        let bytes = sent.to_bytes();
        assert_eq!((&bytes[20..22], bytes[24]), (&[12, 0][..], pointer), "{bad:?}");
        assert_eq!(bytes.len(), 28 + 28, "without what the link has added");
    }
    // Of a datagram in fragments the first one tells (RFC 1122 section 3.2.2).
    let bad = [1, 148, 4, 0];
    for (offset, answers) in [(0, 1), (9, 0)] {
        let fragment = v4("10.0.0.1", "10.0.0.2", |b| {
            (b[0], b[6], b[7]) = (0x46, 0x20, offset);
            b[20..24].copy_from_slice(&bad);
        });
        assert_eq!(h.why(fragment), Some(DropWhy::Malformed));
        assert_eq!(h.out.frames.drain(..).count(), answers, "at {offset}");
    }
}

#[test]
fn an_error_of_icmpv6_is_not_answered_whatever_stands_before_it() {
    // An option that asks for an answer, between the headers and the message.
    let options = [protocol::ICMPV6, 0, 0x9e, 4, 0, 0, 0, 0];
    let fragment = [60, 0, 0, 1, 0, 0, 0, 7];
    for (kind, answers) in [(1, 0), (127, 0), (128, 1), (136, 1)] {
        let message = [&options[..], &[kind, 0, 0, 0, 0, 0, 0, 0]].concat();
        let mut h = Host::new(Link::Ip);
        assert_eq!(h.why(v6("fd00::1", "fd00::2", 60, &message)), Some(DropWhy::ExtensionHeader));
        assert_eq!(h.out.frames.len(), answers, "type {kind}");
        // The same as a first fragment, whose length is wrong.
        let message = [&fragment[..], &message, &[0; 4]].concat();
        let mut h = Host::new(Link::Ip);
        assert_eq!(h.why(v6("fd00::1", "fd00::2", 44, &message)), Some(DropWhy::ExtensionHeader));
        assert_eq!(h.out.frames.len(), answers, "type {kind} in a fragment");
    }
    let cut_off = [&options[..], &[]].concat();
    let mut h = Host::new(Link::Ip);
    assert_eq!(h.why(v6("fd00::1", "fd00::2", 60, &cut_off)), Some(DropWhy::ExtensionHeader));
    assert!(h.out.is_empty(), "who knows");
}

#[test]
fn no_next_header_is_nothing_to_complain_about() {
    let mut h = Host::new(Link::Ip);
    for (next_header, payload) in [(59, &[][..]), (59, &[1, 2, 3, 4]), (60, &[59, 0, 1, 4, 0, 0, 0, 0])] {
        assert_eq!(h.why(v6("fd00::1", "fd00::2", next_header, payload)), Some(DropWhy::Protocol));
    }
    assert!(h.out.is_empty());
}

#[test]
fn neighbours_are_not_discovered_in_fragments() {
    let target = ip("fd00::2");
    let IpAddr::V6(target) = target else { panic!("IPv6") };
    let question = icmp6(135, &[&[0; 4], &target.octets()[..], &[1, 1, 2, 0, 0, 0, 0, 9]].concat());
    let packet = |bytes: Vec<u8>| Packet::received(Bytes::from(bytes), Offload::default(), Instant::ZERO);
    let mut h = Host::new(Link::Ethernet([2, 0, 0, 0, 0, 2]));
    assert!(matches!(h.take(packet(question.clone())), Input::Consumed));
    assert_eq!(h.out.frames.len(), 1, "an answer");
    // An atomic fragment.
    let mut atomic = question.clone();
    atomic[6] = protocol::FRAGMENT;
    atomic.splice(40..40, [protocol::ICMPV6, 0, 0, 0, 0, 0, 0, 1]);
    atomic[5] += 8;
    let mut h = Host::new(Link::Ethernet([2, 0, 0, 0, 0, 2]));
    assert_eq!(h.why(packet(atomic.clone())), Some(DropWhy::BadFragment));
    // And in two.
    let piece = |from: usize, to: usize, more: u8| {
        let mut bytes = atomic[..48].to_vec();
        (bytes[5], bytes[43]) = (8 + (to - from) as u8, from as u8 | more);
        bytes.extend_from_slice(&question[40 + from..40 + to]);
        packet(bytes)
    };
    assert!(matches!(h.take(piece(0, 16, 1)), Input::Consumed));
    assert_eq!(h.why(piece(16, 32, 0)), Some(DropWhy::BadFragment));
    assert_eq!((h.out.frames.len(), h.ip.neighbours().iter().count()), (0, 0));
}

#[test]
fn what_is_sent_within_a_subnet_has_its_first_address_of_ipv4_and_its_last_of_ipv6() {
    let mut h = Host::new(Link::Ip);
    let src = |h: &Host, to: &str| h.ip.lookup(None, ip(to), h.w.now).map(|dst| dst.src);
    for (more, to) in [("10.0.0.9/24", "10.0.0.7"), ("fd00::9/64", "fd00::7")] {
        h.ip.add_address(DEV, cidr(more)).expect("free");
        let (first, last) = if to.contains(':') { ("fd00::2", "fd00::9") } else { ("10.0.0.2", "10.0.0.9") };
        let (used, other) = if to.contains(':') { (last, first) } else { (first, last) };
        assert_eq!(src(&h, to), Ok(ip(used)));
        assert!(h.ip.remove_address(DEV, ip(used)));
        assert_eq!(src(&h, to), Ok(ip(other)), "the one that is left");
    }
}

#[test]
fn who_has_no_address_asks_everybody() {
    let mut h = Host::new(Link::Ip);
    let Input::Deliver(i) = h.take(v4("0.0.0.0", "255.255.255.255", |_| {})) else { panic!("delivered") };
    assert!(i.to_group);
    assert_eq!(h.why(v4("0.0.0.0", "10.0.0.255", |_| {})), Some(DropWhy::BadSource));
}

#[test]
fn addresses_are_judged() {
    let mut h = Host::new(Link::Ip);
    for src in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "10.0.0.255", "240.0.0.1", "10.0.0.2"]
    {
        assert_eq!(h.why(v4(src, "10.0.0.2", |_| {})), Some(DropWhy::BadSource), "{src}");
    }
    for dst in ["10.0.0.3", "127.0.0.1", "0.0.0.0", "8.8.8.8", "224.0.0.9"] {
        assert_eq!(h.why(v4("10.0.0.1", dst, |_| {})), Some(DropWhy::NotForUs), "{dst}");
    }
    for group in ["224.0.0.1", "10.0.0.255", "255.255.255.255"] {
        let Input::Deliver(i) = h.take(v4("10.0.0.1", group, |_| {})) else { panic!("{group}") };
        assert!(i.to_group);
    }
    for src in ["ff02::1", "::1", "::ffff:10.0.0.1", "fd00::2", "::"] {
        assert_eq!(h.why(v6(src, "fd00::2", protocol::TCP, &[])), Some(DropWhy::BadSource), "{src}");
    }
    h.ip.set_any_address(DEV, true).expect("a device");
    assert_eq!(h.why(v4("10.0.0.1", "8.8.8.8", |_| {})), None);
    assert_eq!(h.why(v6("fd00::1", "2001:db8::7", protocol::UDP, &[])), None);
    assert_eq!(h.why(v4("10.0.0.1", "127.0.0.1", |_| {})), Some(DropWhy::NotForUs), "not even then");
    assert_eq!(h.why(v4("10.0.0.1", "224.0.0.9", |_| {})), Some(DropWhy::NotForUs));
}

#[test]
fn the_broadcast_address_of_any_of_our_subnets_is_nobodys_source() {
    let mut h = Host::new(Link::Ip);
    let other = DeviceId(1);
    h.ip.add_device(other, Iface::new(Link::Ip, 1_500)).expect("room");
    h.ip.add_address(other, cidr("192.168.7.1/24")).expect("free");
    h.ip.add_address(other, cidr("192.168.7.2/24")).expect("free");
    let from = || v4("192.168.7.255", "10.0.0.2", |_| {});
    assert_eq!(h.why(from()), Some(DropWhy::BadSource));
    for any in [false, true] {
        h.ip.set_any_address(DEV, any).expect("a device");
        let Input::Deliver(i) = h.take(v4("10.0.0.1", "192.168.7.255", |_| {})) else {
            panic!("a broadcast")
        };
        assert!(i.to_group, "any address: {any}");
    }
    h.ip.set_any_address(DEV, false).expect("a device");
    assert!(h.ip.remove_address(other, ip("192.168.7.1")));
    assert_eq!(h.why(from()), Some(DropWhy::BadSource), "the other address still has it");
    assert!(h.ip.remove_address(other, ip("192.168.7.2")));
    assert_eq!(h.why(from()), None);
    h.ip.add_address(other, cidr("192.168.7.1/24")).expect("free");
    h.ip.remove_device(other, &mut h.out);
    assert_eq!(h.why(from()), None);
}

#[test]
fn loopback_takes_our_own_addresses() {
    let mut h = Host::new(Link::Ip);
    let lo = DeviceId(7);
    h.ip.add_device(lo, Iface::new(Link::Loopback, 65_535)).expect("room");
    h.ip.add_address(lo, cidr("127.0.0.1/8")).expect("free");
    let dst = h.ip.lookup(None, ip("10.0.0.2"), h.w.now).expect("local");
    assert_eq!((dst.device, dst.src, dst.local), (lo, ip("10.0.0.2"), true));
    let p = v4("10.0.0.2", "10.0.0.2", |_| {});
    assert!(matches!(h.ip.input(&mut h.w.cx(), lo, p, &mut h.out), Input::Deliver(_)));
    let p = v4("127.0.0.1", "127.0.0.9", |_| {});
    assert!(matches!(h.ip.input(&mut h.w.cx(), lo, p, &mut h.out), Input::Deliver(_)));
    h.ip.add_address(DEV, cidr("169.254.1.1/16")).expect("free");
    let p = v4("169.254.1.1", "169.254.1.1", |_| {});
    assert!(matches!(h.ip.input(&mut h.w.cx(), lo, p, &mut h.out), Input::Deliver(_)), "of our own link");
}

#[test]
fn extension_headers_are_obeyed() {
    let mut h = Host::new(Link::Ip);
    // Destination options with an unknown option of each action (RFC 8200 section 4.2), then TCP.
    let with = |kind: u8| [protocol::TCP, 0, kind, 4, 0, 0, 0, 0, 1, 2, 3, 4];
    let Input::Deliver(i) = h.take(v6("fd00::1", "fd00::2", 60, &with(0x1e))) else { panic!("skipped") };
    assert_eq!((i.protocol, i.l4_offset, i.l4()), (protocol::TCP, 48, &[1, 2, 3, 4][..]));
    assert_eq!(h.why(v6("fd00::1", "fd00::2", 60, &with(0x5e))), Some(DropWhy::ExtensionHeader));
    assert!(h.out.is_empty());
    for kind in [0x9e, 0xde] {
        assert_eq!(h.why(v6("fd00::1", "fd00::2", 60, &with(kind))), Some(DropWhy::ExtensionHeader));
        let (_, sent) = h.out.frames.pop().expect("a parameter problem");
        let bytes = sent.to_bytes();
        assert_eq!(bytes[40..42], [4, 2]);
        assert_eq!(bytes[44..48], [0, 0, 0, 42], "the pointer");
        assert_eq!(&bytes[8..24], &bytes[48 + 24..48 + 40], "from the address that was asked");
    }
    assert_eq!(h.why(v6("fd00::1", "ff02::1", 60, &with(0xde))), Some(DropWhy::ExtensionHeader));
    assert!(h.out.is_empty(), "not about a multicast with this action");
    assert_eq!(h.why(v6("fd00::1", "ff02::1", 60, &with(0x9e))), Some(DropWhy::ExtensionHeader));
    assert_eq!(h.out.frames.len(), 1, "with that action even about a multicast");
}

#[test]
fn a_packet_from_a_link_in_memory_needs_no_copy() {
    let mut w = World::new(1);
    let mut a = host(&mut w, 1, Link::Ip);
    let mut sent = send_udp(&mut w, &mut a, "10.0.0.1", "10.0.0.2", 700);
    let mut h = Host::new(Link::Ip);
    let (_, packet) = sent.frames.pop().expect("one");
    let at = packet.payload.as_ptr();
    let Input::Deliver(i) = h.take(packet) else { panic!("delivered") };
    assert_eq!((i.payload(8).as_ptr(), i.payload(8).len(), i.l4().len()), (at, 700, 8));
    assert!(i.checksum_ok(), "left to the device, and it never passed one");
}

fn word() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn no_bytes_can_panic_it(list in prop::collection::vec((0u8..8, any::<bool>(), word(), 0u64..20_000), 1..12), any_address: bool) {
        let mac = [2, 0, 0, 0, 0, 2];
        let mut h = Host::new(Link::Ethernet(mac));
        h.w.sysctl.ipfrag_high_thresh = 20_000;
        h.ip.set_any_address(DEV, any_address).expect("a device");
        for (kind, split, noise, sleep) in list {
            // Mostly right headers before the noise, so that it gets deep.
            let inner = match kind {
                0 => noise.clone(),
                1 => v4("10.0.0.9", "10.0.0.2", |b| { b[9] = noise.first().map_or(1, |n| n % 20); b.extend_from_slice(&noise); let n = b.len() as u16; b[2..4].copy_from_slice(&n.to_be_bytes()); }).payload.to_vec(),
                2 => v4("10.0.0.9", "10.0.0.2", |b| { b[6..8].copy_from_slice(&[noise.first().map_or(0x20, |n| n & 0x23), noise.len() as u8]); b.extend_from_slice(&noise); let n = b.len() as u16; b[2..4].copy_from_slice(&n.to_be_bytes()); }).payload.to_vec(),
                3 => v6("fd00::9", "fd00::2", noise.first().map_or(0, |n| n % 64), &noise).payload.to_vec(),
                4 => v6("fd00::9", "fd00::2", 44, &noise).payload.to_vec(),
                5 | 6 => icmp6(if kind == 5 { 135 } else { 1 + noise.len() as u8 % 4 }, &noise),
                _ => { let mut b = vec![0, 1, 8, 0, 6, 4, 0, 1 + noise.len() as u8 % 2]; b.extend_from_slice(&noise); b }
            };
            let ethertype = match kind { 7 => 0x0806, 3..=6 => 0x86dd, _ => 0x0800 };
            let mut bytes = vec![0; 14];
            EtherRepr { dst: EtherAddr(mac), src: EtherAddr([2, 0, 0, 0, 0, 9]), ethertype }.emit(&mut bytes);
            bytes.extend_from_slice(&inner);
            let mut packet = Packet::received(Bytes::from(bytes), Offload::default(), h.w.now);
            if split {
                let at = packet.payload.len().min(14 + noise.len() % 60);
                let front = packet.payload.split_to(at);
                packet.head = Head::new();
                packet.head.prepend(at).copy_from_slice(&front);
                packet.offload.csum = Csum::Valid;
            }
            let (mut cx, out) = (h.w.cx(), &mut h.out);
            let input = match h.ip.input_frame(&mut cx, DEV, packet, out) {
                FrameInput::Packet(p) if any_address => h.ip.input_to_group(&mut cx, DEV, p, out),
                FrameInput::Packet(p) | FrameInput::ToGroup(p) => h.ip.input(&mut cx, DEV, p, out),
                FrameInput::Consumed | FrameInput::Drop(_) => Input::Consumed,
            };
            if let Input::Deliver(i) = input {
                prop_assert!(usize::from(i.l4_offset) <= i.packet.len());
                let _ = (i.l4(), i.payload(20), i.checksum_ok(), i.pseudo());
                h.ip.unreachable(&mut cx, &i, Unreachable::Port, out);
            }
            h.w.now += Duration::from_millis(sleep);
            h.ip.on_timeout(&mut h.w.cx(), &mut h.out);
            prop_assert!(h.ip.next_deadline().is_none_or(|at| at > h.w.now));
            prop_assert!(h.out.frames.len() < 200);
        }
    }
}

fn icmp6(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0];
    message.extend_from_slice(body);
    let (IpAddr::V6(src), IpAddr::V6(dst)) = (ip("fd00::9"), ip("fd00::2")) else { panic!("IPv6") };
    let pseudo = checksum::pseudo_v6(src, dst, protocol::ICMPV6, message.len());
    let sum = checksum::finish(pseudo + checksum::sum(&message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut bytes = v6("fd00::9", "fd00::2", protocol::ICMPV6, &message).payload.to_vec();
    bytes[7] = 255;
    bytes
}
