//! UDP end to end.
use super::world::{World, at, ipv4_packet, too_big, v4, v6};
use crate::base::limits::{UDP_RECENT_MAX, UDP_RECENT_TIME};
use crate::base::{DropWhy, Duration, Error, SocketId};
use crate::device::DeviceCaps;
use crate::stack::Event;
use crate::udp::{BindManner, Marks, MtuDiscovery};
use bytes::Bytes;
use core::net::SocketAddr;
use lowwater_wire::{checksum, protocol};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_datagram_is_echoed_over_both_families() {
    for (a, b) in [(v4(1), v4(2)), (v6(1), v6(2))] {
        let mut w = World::plain();
        let client = w.stacks[0].udp_bind(w.now, at(a, 0)).expect("free");
        let server = w.stacks[1].udp_bind(w.now, "[::]:7".parse().expect("valid")).expect("free");
        let hello = Bytes::from_static(b"hello");
        assert_eq!(w.stacks[0].udp_send_to(w.now, client, hello.clone(), at(b, 7)), Ok(5));
        w.run(SECOND);
        assert!(w.saw(1, Event::Readable(server)));
        let (data, from) = w.stacks[1].udp_recv_from(w.now, server).expect("arrived");
        assert_eq!((&data, from), (&hello, w.stacks[0].local_addr(client).expect("bound")));
        w.stacks[1].udp_send_to(w.now, server, data, from).expect("room");
        w.run(SECOND);
        assert_eq!(w.stacks[0].udp_recv_from(w.now, client), Ok((hello, at(b, 7))));
        assert_eq!(w.stacks[0].udp_recv_from(w.now, client), Err(Error::WouldBlock));
        let udp = &w.stacks[1].counters().udp;
        assert_eq!((udp.in_datagrams, udp.out_datagrams), (1, 1));
    }
}

#[test]
fn datagrams_of_ipv6_have_the_label_of_their_two_ends() {
    let mut w = World::plain();
    let client = w.stacks[0].udp_bind(w.now, at(v6(1), 0)).expect("free");
    for port in [7, 7, 9] {
        w.stacks[0].udp_send_to(w.now, client, Bytes::from_static(b"x"), at(v6(2), port)).expect("room");
    }
    let heads = w.heads_in_flight();
    let labels: Vec<u32> = heads.iter().map(|h| u32::from_be_bytes([0, h[1] & 0xf, h[2], h[3]])).collect();
    assert_eq!(labels.len(), 3);
    assert!(labels[0] != 0 && labels[0] == labels[1] && labels[1] != labels[2], "{labels:x?}");
}

/// RFC 768 and RFC 8200 section 8.1.
#[test]
fn a_checksum_may_be_left_out_over_ipv4_alone() {
    for (a, b, header) in [(v4(1), v4(2), 20), (v6(1), v6(2), 40)] {
        for unchecked in [false, true] {
            let mut w = World::plain();
            let client = w.stacks[0].udp_bind(w.now, at(a, 0)).expect("free");
            let marks = Marks { tos: 0, ttl: None, group_ttl: 1, priority: None, unchecked };
            w.stacks[0].udp_set_marks(client, [marks; 2]).expect("a socket");
            w.stacks[0].udp_send_to(w.now, client, Bytes::from_static(b"x"), at(b, 7)).expect("room");
            let headers = w.headers_in_flight();
            let left_out = headers[0][header + 6..header + 8] == [0, 0];
            assert_eq!(left_out, unchecked && a.is_ipv4(), "{a}, {unchecked}");
        }
    }
}

/// Don't Fragment, and how long a datagram may be, for each value of IP_MTU_DISCOVER, on a path of 1,000 bytes behind a device of 1,500.
#[test]
fn datagrams_are_as_long_as_their_socket_lets_them_be() {
    use MtuDiscovery::{Do, Dont, Interface, Omit, Probe, Want};
    let fragments = |discovery, len| {
        let mut w = World::plain();
        let client = w.stacks[0].udp_bind(w.now, at(v4(1), 0)).expect("free");
        w.stacks[0].ip.lower_path_mtu(v4(2), 1_000, w.now);
        w.stacks[0].udp_set_mtu_discovery(client, [discovery; 2]).expect("a socket");
        w.stacks[0].udp_send_to(w.now, client, vec![0; len].into(), at(v4(2), 7)).ok()?;
        let df = w.heads_in_flight().iter().map(|head| head[6] & 0x40 != 0).collect::<Vec<_>>();
        Some((df.len(), df.contains(&true)))
    };
    let (whole, apart) = ((1, true), (1, false));
    for (discovery, fits_path, fits_device, fits_none) in [
        (Dont, Some(apart), Some((2, false)), Some((2, false))),
        (Want, Some(whole), Some((2, false)), Some((2, false))),
        (Do, Some(whole), None, None),
        (Probe, Some(whole), Some(whole), None),
        (Interface, Some(apart), Some(apart), None),
        (Omit, Some(apart), Some(apart), Some((2, false))),
    ] {
        let got = [900, 1_400, 1_600].map(|len| fragments(discovery, len));
        assert_eq!(got, [fits_path, fits_device, fits_none], "{discovery:?}");
    }
}

#[test]
fn large_datagrams_are_fragmented_and_reassembled_unless_forbidden() {
    for (a, b) in [(v4(1), v4(2)), (v6(1), v6(2))] {
        let mut w = World::plain();
        let client = w.stacks[0].udp_bind(w.now, at(a, 0)).expect("free");
        let server = w.stacks[1].udp_bind(w.now, at(b, 9)).expect("free");
        let big: Bytes = (0..60_000u32).map(|n| n as u8).collect();
        w.stacks[0].udp_send_to(w.now, client, big.clone(), at(b, 9)).expect("room");
        w.run(SECOND);
        assert_eq!(w.stacks[1].udp_recv_from(w.now, server).map(|(d, _)| d), Ok(big.clone()));
        w.stacks[0].udp_set_mtu_discovery(client, [MtuDiscovery::Do; 2]).expect("a socket");
        assert_eq!(w.stacks[0].udp_send_to(w.now, client, big, at(b, 9)), Err(Error::MessageTooLong));
        w.stacks[0].udp_set_mtu_discovery(client, [MtuDiscovery::Want; 2]).expect("a socket");
        // The length of an IPv4 packet counts its header, that of IPv6 does not.
        let largest = Bytes::from(vec![7; if a.is_ipv4() { 65_507 } else { 65_527 }]);
        w.stacks[0].udp_send_to(w.now, client, largest.clone(), at(b, 9)).expect("room");
        w.run(SECOND);
        assert_eq!(w.stacks[1].udp_recv_from(w.now, server).map(|(d, _)| d), Ok(largest));
        let huge = Bytes::from(vec![0; 65_530]);
        assert_eq!(w.stacks[0].udp_send_to(w.now, client, huge, at(b, 9)), Err(Error::MessageTooLong));
        w.stacks[0].close(w.now, client).expect("open");
        w.run(SECOND);
        assert_eq!(w.stacks[0].open_sockets(), 0);
    }
}

#[test]
fn a_closed_port_refuses_a_connected_socket_only() {
    for (a, b) in [(v4(1), v4(2)), (v6(1), v6(2))] {
        let mut w = World::plain();
        let loose = w.stacks[0].udp_bind(w.now, at(a, 0)).expect("free");
        let client = w.stacks[0].udp_bind(w.now, at(a, 0)).expect("free");
        w.stacks[0].udp_connect(w.now, client, at(b, 99)).expect("a route");
        w.stacks[0].udp_send_to(w.now, loose, Bytes::from_static(b"x"), at(b, 98)).expect("room");
        w.stacks[0].udp_send(w.now, client, Bytes::from_static(b"x")).expect("room");
        w.run(SECOND);
        assert_eq!(w.stacks[0].udp_recv_from(w.now, loose), Err(Error::WouldBlock));
        assert!(w.saw(0, Event::Readable(client)));
        assert_eq!(w.stacks[0].udp_recv_from(w.now, client), Err(Error::Refused));
        assert_eq!(w.stacks[1].counters().udp.no_ports, 2);
    }
}

#[test]
fn without_its_peer_a_socket_has_the_address_that_it_was_bound_to() {
    let mut w = World::plain();
    let any: SocketAddr = "[::]:7".parse().expect("valid");
    let server = w.stacks[1].udp_bind(w.now, any).expect("free");
    let client = w.stacks[0].udp_bind(w.now, at(v6(1), 0)).expect("free");
    w.stacks[1].udp_connect(w.now, server, at(v4(1), 9)).expect("a route");
    assert_eq!(w.stacks[1].local_addr(server), Ok(at(v4(2), 7)));
    w.stacks[1].udp_connect(w.now, server, any).expect("an end");
    assert_eq!(w.stacks[1].local_addr(server), Ok(any));
    w.stacks[0].udp_send_to(w.now, client, Bytes::from_static(b"x"), at(v6(2), 7)).expect("room");
    w.run(SECOND);
    assert!(w.stacks[1].udp_recv_from(w.now, server).is_ok(), "from any address again");
    // A peer of one family does not keep it from datagrams to the other.
    w.stacks[1].udp_connect(w.now, server, at(v4(1), 9)).expect("a route");
    let to = w.stacks[0].local_addr(client).expect("bound");
    assert_eq!(w.stacks[1].udp_send_to(w.now, server, Bytes::from_static(b"y"), to), Ok(1));
    w.run(SECOND);
    assert_eq!(w.stacks[0].udp_recv_from(w.now, client), Ok((Bytes::from_static(b"y"), at(v6(2), 7))));
    assert_eq!(
        w.stacks[0].udp_send_to(w.now, client, Bytes::new(), at(v4(2), 7)),
        Err(Error::NoRoute),
        "an address that was asked for does"
    );
    // Whoever has taken the place meanwhile keeps it.
    w.stacks[1].udp_connect(w.now, server, at(v4(1), 9)).expect("a route");
    let other = w.stacks[1].udp_bind(w.now, at(v6(2), 7)).expect("free");
    w.stacks[1].udp_connect(w.now, server, any).expect("an end");
    assert_eq!(w.stacks[1].local_addr(server), Ok(at(v4(2), 7)));
    w.stacks[1].close(w.now, server).expect("open");
    assert_eq!(w.stacks[1].udp_bind(w.now, at(v6(2), 7)), Err(Error::AddressInUse), "{other:?} has it");
}

#[test]
fn any_address_of_ipv4_is_none_of_ipv6() {
    let mut w = World::plain();
    let four = w.stacks[1].udp_bind(w.now, "0.0.0.0:7".parse().expect("valid")).expect("free");
    let client = w.stacks[0].udp_bind(w.now, "[::]:9".parse().expect("valid")).expect("free");
    w.stacks[0].udp_send_to(w.now, client, Bytes::from_static(b"6"), at(v6(2), 7)).expect("room");
    w.run(SECOND);
    assert_eq!(w.stacks[1].counters().udp.no_ports, 1);
    assert_eq!(w.stacks[1].udp_bind(w.now, "[::]:7".parse().expect("valid")), Err(Error::AddressInUse));
    let six = w.stacks[1].udp_bind(w.now, at(v6(2), 7)).expect("another family");
    for (to, server) in [(v4(2), four), (v6(2), six)] {
        w.stacks[0].udp_send_to(w.now, client, Bytes::from_static(b"x"), at(to, 7)).expect("room");
        w.run(SECOND);
        assert!(w.stacks[1].udp_recv_from(w.now, server).is_ok());
    }
}

#[test]
fn ports_are_taken_once_and_given_back() {
    let mut w = World::plain();
    let s = &mut w.stacks[0];
    let any = "0.0.0.0:53".parse().expect("valid");
    let first = s.udp_bind(w.now, any).expect("free");
    assert_eq!(s.udp_bind(w.now, at(v4(1), 53)), Err(Error::AddressInUse));
    assert_eq!(s.udp_bind(w.now, any), Err(Error::AddressInUse));
    assert_eq!(s.udp_bind(w.now, at(v4(9), 53)), Err(Error::AddressNotAvailable));
    s.close(w.now, first).expect("open");
    assert_eq!(s.next_event(), Some(Event::Gone(first)));
    let second = s.udp_bind(w.now, at(v4(1), 53)).expect("free again");
    assert_eq!(s.udp_bind(w.now, any), Err(Error::AddressInUse));
    assert_ne!(first, second);
    assert_eq!(s.udp_recv_from(w.now, first), Err(Error::NoSuchSocket));
}

#[test]
fn the_receive_buffer_is_bounded_and_the_send_buffer_pushes_back() {
    let mut w = World::new([DeviceCaps::offloading(9_000); 2]);
    w.ring = 4;
    let client = w.stacks[0].udp_bind(w.now, at(v4(1), 0)).expect("free");
    let server = w.stacks[1].udp_bind(w.now, at(v4(2), 9)).expect("free");
    let data = Bytes::from(vec![7; 8_000]);
    let mut sent = 0u64;
    while w.stacks[0].udp_send_to(w.now, client, data.clone(), at(v4(2), 9)).is_ok() {
        sent += 1;
        assert!(sent < 100);
    }
    assert_eq!(sent, u64::from(w.stacks[0].sysctl().wmem_default) / (8_000 + 512));
    w.run(SECOND);
    assert!(w.saw(0, Event::Writable(client)));
    for _ in 0..20 {
        w.stacks[0].udp_send_to(w.now, client, data.clone(), at(v4(2), 9)).expect("room again");
    }
    w.run(SECOND);
    let udp = &w.stacks[1].counters().udp;
    assert!(udp.rcvbuf_errors > 0 && udp.in_datagrams + udp.rcvbuf_errors == sent + 20);
    let queued = core::iter::from_fn(|| w.stacks[1].udp_recv_from(w.now, server).ok()).count() as u64;
    assert_eq!(queued, w.stacks[1].counters().udp.in_datagrams);
}

#[test]
fn a_stack_talks_to_itself() {
    let mut w = World::plain();
    for ip in [v4(1), v6(1), "127.0.0.1".parse().expect("valid"), "::1".parse().expect("valid")] {
        let server = w.stacks[0].udp_bind(w.now, at(ip, 5_000)).expect("free");
        let client = w.stacks[0].udp_bind(w.now, at(ip, 0)).expect("free");
        w.stacks[0].udp_send_to(w.now, client, Bytes::from_static(b"me"), at(ip, 5_000)).expect("room");
        w.run(SECOND);
        let (data, from) = w.stacks[0].udp_recv_from(w.now, server).expect("arrived");
        assert_eq!((&data[..], from.ip()), (&b"me"[..], ip));
        w.stacks[0].close(w.now, server).expect("open");
    }
    assert_eq!(w.crossed, [0, 0]);
}

#[test]
fn errors_within_a_stack_are_not_limited() {
    let mut w = World::plain();
    let lo = "127.0.0.1".parse().expect("valid");
    for _ in 0..100 {
        let client = w.stacks[0].udp_bind(w.now, at(lo, 0)).expect("free");
        w.stacks[0].udp_connect(w.now, client, at(lo, 99)).expect("a route");
        w.stacks[0].udp_send(w.now, client, Bytes::from_static(b"x")).expect("room");
        w.run(Duration::from_millis(1));
        assert_eq!(w.stacks[0].udp_recv_from(w.now, client), Err(Error::Refused));
        w.stacks[0].close(w.now, client).expect("open");
    }
}

#[test]
fn what_lies_behind_a_datagram_is_no_part_of_it() {
    let mut w = World::plain();
    let server = w.stacks[1].udp_bind(w.now, at(v4(2), 7)).expect("free");
    let mut datagram = vec![0, 9, 0, 7, 0, 11, 0, 0, b'w', b'a', b'y'];
    let (src, dst) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let pseudo = checksum::pseudo_v4(src.into(), dst.into(), protocol::UDP, datagram.len());
    let sum = checksum::finish(pseudo + checksum::sum(&datagram));
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    datagram.extend_from_slice(b"beyond");
    let packet = ipv4_packet(src, dst, protocol::UDP, &datagram, w.now);
    w.stacks[1].receive(w.now, w.devs[1], packet);
    let got = w.stacks[1].udp_recv_from(w.now, server).map(|(data, _)| data);
    assert_eq!(got, Ok(Bytes::from_static(b"way")));
}

#[test]
fn a_broadcast_is_for_all_who_listen() {
    let mut w = World::plain();
    let shared = BindManner { shared: true, ..BindManner::default() };
    let any: SocketAddr = "0.0.0.0:7".parse().expect("valid");
    let group = at([10, 0, 0, 255].into(), 7);
    let client = w.stacks[0].udp_bind(w.now, at(v4(1), 9)).expect("free");
    let send = |w: &mut World| {
        w.stacks[0].udp_send_to(w.now, client, Bytes::from_static(b"x"), group).expect("room");
        w.run(SECOND);
    };
    send(&mut w);
    assert_eq!(w.stacks[1].counters().udp.ignored_multi, 1, "nobody is told of it");
    let mut bind = |place| w.stacks[1].udp_bind_with(w.now, place, shared).expect("shared");
    let sockets = [any, any, at(v4(2), 7), at(v4(2), 8)].map(&mut bind);
    send(&mut w);
    let now = w.now;
    let got = sockets.map(|id| w.stacks[1].udp_recv_from(now, id).is_ok());
    assert_eq!(got, [true, true, false, false]);
}

/// Who has read something of what `from` has sent to port 7, in the order of `sockets`.
fn readers(w: &mut World, from: SocketId, sockets: &[SocketId]) -> Vec<usize> {
    w.stacks[0].udp_send_to(w.now, from, Bytes::from_static(b"x"), at(v4(2), 7)).expect("room");
    w.run(SECOND);
    let now = w.now;
    (0..sockets.len()).filter(|i| w.stacks[1].udp_recv_from(now, sockets[*i]).is_ok()).collect()
}

#[test]
fn of_sockets_that_share_a_place_the_last_one_bound_without_a_peer_is_asked() {
    let mut w = World::plain();
    let shared = BindManner { shared: true, ..BindManner::default() };
    let from = [0, 1].map(|_| w.stacks[0].udp_bind(w.now, at(v4(1), 0)).expect("free"));
    let peer = w.stacks[0].local_addr(from[0]).expect("bound");
    let place = at(v4(2), 7);
    let sockets = [0, 1, 2].map(|_| w.stacks[1].udp_bind_with(w.now, place, shared).expect("shared"));
    assert_eq!(w.stacks[1].udp_bind(w.now, place), Err(Error::AddressInUse), "not by who does not share");
    assert_eq!(readers(&mut w, from[0], &sockets), [2]);
    w.stacks[1].udp_connect(w.now, sockets[2], peer).expect("a route");
    assert_eq!(readers(&mut w, from[0], &sockets), [2], "its peer");
    assert_eq!(readers(&mut w, from[1], &sockets), [1], "somebody else");
    w.stacks[1].udp_connect(w.now, sockets[1], peer).expect("a route");
    assert_eq!(readers(&mut w, from[0], &sockets), [1], "the last one connected");
    w.stacks[1].close(w.now, sockets[0]).expect("open");
    assert!(readers(&mut w, from[1], &sockets[1..]).is_empty(), "nobody without a peer is left");
    for id in &sockets[1..] {
        assert_eq!(w.stacks[1].udp_bind(w.now, place), Err(Error::AddressInUse));
        w.stacks[1].close(w.now, *id).expect("open");
    }
    assert!(w.stacks[1].udp_bind(w.now, place).is_ok(), "the place is free again");
}

#[test]
fn a_socket_that_was_detached_sends_nothing_until_it_has_a_place() {
    let mut w = World::plain();
    let client = w.stacks[0].udp_bind(w.now, at(v4(1), 9)).expect("free");
    w.stacks[0].udp_connect(w.now, client, at(v4(2), 7)).expect("a route");
    let again = |w: &mut World| w.stacks[0].udp_attach(client, at(v4(1), 10), BindManner::default());
    assert_eq!(again(&mut w), Err(Error::Invalid), "it has one");
    w.stacks[0].udp_detach(w.now, client).expect("a socket");
    let data = Bytes::from_static(b"x");
    assert_eq!(w.stacks[0].udp_send_to(w.now, client, data.clone(), at(v4(2), 7)), Err(Error::Invalid));
    assert_eq!(w.stacks[0].udp_connect(w.now, client, at(v4(2), 7)), Err(Error::Invalid));
    assert!(w.stacks[0].udp_bind(w.now, at(v4(1), 9)).is_ok(), "its port is free");
    assert_eq!(again(&mut w), Ok(()));
    assert_eq!(w.stacks[0].udp_send_to(w.now, client, data, at(v4(2), 7)), Ok(1));
}

#[test]
fn a_path_mtu_is_believed_of_where_datagrams_went_lately() {
    let mut w = World::plain();
    let any = w.stacks[0].udp_bind(w.now, "0.0.0.0:7".parse().expect("valid")).expect("free");
    // What a router says of a datagram from this port to port 9; the path MTU behind it.
    let heard = |w: &mut World, port: u8, host: u8| {
        let datagram =
            ipv4_packet([10, 0, 0, 1], [10, 0, 0, host], protocol::UDP, &[0, port, 0, 9, 0, 8, 0, 0], w.now);
        w.stacks[0].receive(w.now, w.devs[0], too_big(&datagram, 600, w.now));
        w.stacks[0].ip.lookup(None, v4(host), w.now).expect("on the link").mtu
    };
    let send = |w: &mut World, host: u8| {
        w.stacks[0].udp_send_to(w.now, any, Bytes::from_static(b"way"), at(v4(host), 9)).expect("room");
        w.transmit();
    };
    assert_eq!(heard(&mut w, 7, 2), 1_500, "nothing was sent there");
    assert_eq!(w.stacks[0].counters().drops(DropWhy::IcmpForeign), 1);
    send(&mut w, 2);
    assert_eq!((heard(&mut w, 7, 3), heard(&mut w, 7, 2)), (1_500, 600));
    send(&mut w, 3);
    w.run(UDP_RECENT_TIME);
    assert_eq!(heard(&mut w, 7, 3), 1_500, "not lately");
    send(&mut w, 4);
    for n in 0..3 * UDP_RECENT_MAX {
        send(&mut w, 5 + (n % 2) as u8);
    }
    assert_eq!(heard(&mut w, 7, 4), 600, "busy peers push out nobody");
    // Whoever shares the port may have sent.
    let shares = BindManner { shared: true, ..BindManner::default() };
    let [first, _last] =
        [(); 2].map(|()| w.stacks[0].udp_bind_with(w.now, at(v4(1), 6), shares).expect("shared"));
    let hello = Bytes::from_static(b"way");
    w.stacks[0].udp_send_to(w.now, first, hello, at(v4(11), 9)).expect("room");
    w.transmit();
    assert_eq!((heard(&mut w, 6, 12), heard(&mut w, 6, 11)), (1_500, 600));
    // Who is connected sends there and nowhere else.
    let tied = w.stacks[0].udp_bind(w.now, at(v4(1), 8)).expect("free");
    w.stacks[0].udp_connect(w.now, tied, at(v4(9), 9)).expect("a route");
    assert_eq!((heard(&mut w, 8, 10), heard(&mut w, 8, 9)), (1_500, 600));
    // No router is on the way to ourselves.
    let before = w.stacks[0].ip.lookup(None, v4(1), w.now).expect("ours").mtu;
    send(&mut w, 1);
    assert_eq!(heard(&mut w, 7, 1), before);
}
