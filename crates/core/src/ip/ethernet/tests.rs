//! Who asks for a link address.
use crate::base::DeviceId;
use crate::ip::testing::{DEV, World, cidr, host, ip, send_udp};
use crate::ip::{Iface, Ip, Link, Outbox, Route};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const OTHER: DeviceId = DeviceId(1);

/// 10.0.0.2/24 and then 10.0.5.2/24 on one wire, 192.0.2.7/24 on another.
fn two_wires(w: &mut World) -> Ip {
    let mut host = host(w, 2, Link::Ethernet(MAC));
    host.add_address(DEV, cidr("10.0.5.2/24")).expect("free");
    host.add_device(OTHER, Iface::new(Link::Ethernet([2, 0, 0, 0, 0, 3]), 1_500)).expect("room");
    host.add_address(OTHER, cidr("192.0.2.7/24")).expect("free");
    host.add_address(OTHER, cidr("fd01::7/64")).expect("free");
    host
}

/// Who asks in each of the frames, of which every one is a question.
fn askers(out: &Outbox) -> Vec<IpAddr> {
    let asker = |bytes: &[u8]| match bytes[12..14] {
        [8, 6] => {
            assert_eq!(bytes[20..22], [0, 1], "a request");
            IpAddr::from(*bytes[28..].first_chunk::<4>().expect("ARP"))
        }
        _ => {
            assert_eq!(bytes[14 + 40], 135, "a neighbour solicitation");
            IpAddr::from(*bytes[14 + 8..].first_chunk::<16>().expect("IPv6"))
        }
    };
    out.frames.iter().map(|(_, frame)| asker(&frame.to_bytes())).collect()
}

/// `arp_solicit` with arp_announce 0.
#[test]
fn the_source_of_the_packet_that_waits_asks_where_it_is_ours() {
    for (src, dst, asks) in [
        ("10.0.0.2", "10.0.5.9", "10.0.0.2"),
        ("10.0.5.2", "10.0.0.9", "10.0.5.2"),
        ("192.0.2.7", "10.0.0.9", "192.0.2.7"),
        // Not ours: the device's address of the target's subnet, else its first.
        ("203.0.113.9", "10.0.5.9", "10.0.5.2"),
        ("203.0.113.9", "10.0.0.9", "10.0.0.2"),
        ("203.0.113.9", "172.16.0.1", "10.0.0.2"),
    ] {
        let mut w = World::new(4);
        let mut host = two_wires(&mut w);
        host.add_route(Route::on_link(cidr("172.16.0.0/16"), DEV)).expect("room");
        let out = send_udp(&mut w, &mut host, src, dst, 10);
        assert_eq!(askers(&out), [ip(asks)], "{src} to {dst}");
    }
}

#[test]
fn the_last_packet_that_waits_says_who_asks_again() {
    let mut w = World::new(4);
    let mut host = two_wires(&mut w);
    assert_eq!(askers(&send_udp(&mut w, &mut host, "10.0.0.2", "10.0.0.9", 10)), [ip("10.0.0.2")]);
    assert_eq!(askers(&send_udp(&mut w, &mut host, "192.0.2.7", "10.0.0.9", 10)), Vec::<IpAddr>::new());
    w.sleep(1_000);
    let mut out = Outbox::default();
    host.on_timeout(&mut w.cx(), &mut out);
    assert_eq!(askers(&out), [ip("192.0.2.7")]);
}

#[test]
fn without_an_address_on_the_wire_another_device_lends_one() {
    let mut w = World::new(4);
    let mut host = two_wires(&mut w);
    let from_abroad = |w: &mut World, host: &mut Ip, dst| askers(&send_udp(w, host, "203.0.113.9", dst, 10));
    host.add_route(Route::on_link(cidr("172.16.0.0/16"), OTHER)).expect("room");
    assert!(host.remove_address(OTHER, ip("192.0.2.7")));
    assert_eq!(from_abroad(&mut w, &mut host, "172.16.0.1"), [ip("10.0.0.2")]);
    for addr in ["10.0.0.2", "10.0.5.2"] {
        assert!(host.remove_address(DEV, ip(addr)));
    }
    // A probe, as of one who has no address yet (RFC 5227).
    assert_eq!(from_abroad(&mut w, &mut host, "172.16.0.2"), [IpAddr::V4(Ipv4Addr::UNSPECIFIED)]);
}

/// `ndisc_solicit`.
#[test]
fn over_ipv6_the_device_must_have_the_source_or_its_link_local_address_asks() {
    let link_local = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 2));
    for (src, asks) in [("fd00::2", ip("fd00::2")), ("fd01::7", link_local), ("2001:db8::1", link_local)] {
        let mut w = World::new(4);
        let mut host = two_wires(&mut w);
        assert_eq!(askers(&send_udp(&mut w, &mut host, src, "fd00::9", 10)), [asks], "{src}");
    }
    // Who took that away asks by what there is.
    let mut w = World::new(4);
    let mut host = two_wires(&mut w);
    assert!(host.remove_address(DEV, link_local));
    assert_eq!(askers(&send_udp(&mut w, &mut host, "fd01::7", "fd00::9", 10)), [ip("fd00::2")]);
}
