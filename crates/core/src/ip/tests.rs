//! Tests of the whole layer: two hosts that talk, ICMP both ways, path MTU, neighbours on a wire.
use super::testing::{DEV, World, cidr, flat, host, ip, send_udp};
use super::*;
use crate::base::limits::{MIN_PMTU_V4, MIN_PMTU_V6};
use crate::base::{Error, RouteMetrics};
use crate::packet::Offload;
use bytes::Bytes;
use core::net::IpAddr;
use lowwater_wire::icmp4::{self, Icmp4Repr};
use lowwater_wire::icmp6::{self, Icmp6Repr};
use lowwater_wire::protocol;

const MACS: [Mac; 3] = [[2, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

/// Hands every frame to the other host until there are none; returns what reached a transport or a flow.
fn talk(w: &mut World, hosts: &mut [Ip; 2], first: Outbox) -> Vec<(usize, Input)> {
    let mut queue: Vec<(usize, Packet)> = first.frames.into_iter().map(|(_, p)| (1, p)).collect();
    let mut got = Vec::new();
    for _ in 0..1_000 {
        if queue.is_empty() {
            return got;
        }
        let (to, frame) = queue.remove(0);
        let mut out = Outbox::default();
        let cx = &mut w.cx();
        let input = match hosts[to].input_frame(cx, DEV, flat(&frame), &mut out) {
            FrameInput::Packet(p) => hosts[to].input(cx, DEV, p, &mut out),
            FrameInput::ToGroup(p) => hosts[to].input_to_group(cx, DEV, p, &mut out),
            FrameInput::Consumed | FrameInput::Drop(_) => Input::Consumed,
        };
        if !matches!(input, Input::Consumed) {
            got.push((to, input));
        }
        queue.extend(out.frames.into_iter().map(|(_, p)| (1 - to, p)));
    }
    panic!("the hosts never fall silent");
}

#[test]
fn the_longest_prefix_says_what_connections_are_asked_for() {
    let mut w = World::new(7);
    let mut host = host(&mut w, 2, Link::Ip);
    let of = |host: &Ip, to| host.metrics(None, ip(to));
    assert_eq!(of(&host, "192.0.2.1"), RouteMetrics::NONE);
    let metrics = RouteMetrics { mtu: 1_300, initcwnd: 20, ..RouteMetrics::NONE };
    let mut route = Route { metrics, ..Route::on_link(cidr("192.0.2.0/24"), DEV) };
    host.add_route(route).expect("room");
    assert_eq!((of(&host, "192.0.2.1"), of(&host, "192.0.3.1")), (metrics, RouteMetrics::NONE));
    assert_eq!(host.lookup(None, ip("192.0.2.1"), w.now).map(|dst| dst.mtu), Ok(1_300));
    // Of a device that carries less the device's counts; and the route can be taken back.
    route.metrics.mtu = 9_000;
    host.add_route(route).expect("room");
    assert_eq!(host.lookup(None, ip("192.0.2.1"), w.now).map(|dst| dst.mtu), Ok(1_500));
    assert!(host.remove_route(&route));
    assert_eq!(of(&host, "192.0.2.1"), RouteMetrics::NONE);
}

/// `fib_sync_mtu`, `rt6_mtu_change`.
#[test]
fn ways_follow_the_mtu_of_their_device_down_and_up() {
    let mut w = World::new(7);
    let mut host = host(&mut w, 2, Link::Ip);
    let other = DeviceId(1);
    host.add_device(other, Iface::new(Link::Ip, 1_500)).expect("room");
    let metrics = RouteMetrics { mtu: 1_400, ..RouteMetrics::NONE };
    for (to, device) in [("192.0.2.0/24", DEV), ("2001:db8::/64", DEV), ("2001:db8:1::/64", other)] {
        host.add_route(Route { metrics, ..Route::on_link(cidr(to), device) }).expect("room");
    }
    assert!(host.lower_path_mtu(ip("10.0.0.7"), 1_450, w.now));
    let seen = |host: &mut Ip, mtu| {
        let before = host.generation();
        host.set_mtu(DEV, mtu).expect("a device");
        assert!(host.generation() > before, "flows must hear of it");
        let of = |to| host.lookup(None, ip(to), w.now).map_or(0, |dst| dst.mtu);
        ["10.0.0.9", "10.0.0.7", "192.0.2.1", "2001:db8::1"].map(of)
    };
    assert_eq!(seen(&mut host, 1_420), [1_420, 1_420, 1_400, 1_400]);
    assert_eq!(seen(&mut host, 1_300), [1_300, 1_300, 1_300, 1_300]);
    assert_eq!(seen(&mut host, 1_500), [1_500, 1_500, 1_400, 1_500]);
    assert_eq!(host.metrics(None, ip("2001:db8:1::1")).mtu, 1_400, "another device's");
    assert_eq!((host.set_mtu(DEV, 67), host.device_mtu(DEV)), (Err(Error::Invalid), 1_500));
}

fn ethernet_pair(w: &mut World) -> [Ip; 2] {
    [host(w, 1, Link::Ethernet(MACS[1])), host(w, 2, Link::Ethernet(MACS[2]))]
}

#[test]
fn neighbours_find_each_other_and_lose_nothing() {
    for (src, dst) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        let mut w = World::new(4);
        let mut hosts = ethernet_pair(&mut w);
        let mut first = send_udp(&mut w, &mut hosts[0], src, dst, 10);
        let more = send_udp(&mut w, &mut hosts[0], src, dst, 20);
        assert_eq!((first.frames.len(), more.frames.len()), (1, 0), "one question; both packets wait");
        first.frames.extend(more.frames);
        let got = talk(&mut w, &mut hosts, first);
        let lens: Vec<usize> =
            got.iter().map(|(_, i)| if let Input::Deliver(i) = i { i.l4_len() } else { 0 }).collect();
        assert_eq!(lens, [18, 28], "in order");
        // The one that was asked has learnt who asked: its answer needs no question.
        let back = send_udp(&mut w, &mut hosts[1], dst, src, 5);
        assert!(matches!(
            hosts[0].input_frame(&mut w.cx(), DEV, flat(&back.frames[0].1), &mut Outbox::default()),
            FrameInput::Packet(_)
        ));
        let way = hosts[0].lookup(None, ip(dst), w.now).expect("a route");
        hosts[0].confirm_neighbour(&mut w.cx(), &way);
        assert_eq!(hosts[0].neighbours().get(DEV, ip(dst)).map(|n| n.0), Some(neigh::State::Reachable));
    }
}

#[test]
fn an_absent_neighbour_costs_three_questions_and_is_reported() {
    let mut w = World::new(4);
    let mut a = host(&mut w, 1, Link::Ethernet(MACS[1]));
    let mut questions = send_udp(&mut w, &mut a, "10.0.0.1", "10.0.0.77", 10).frames.len();
    let mut out = Outbox::default();
    for _ in 0..10 {
        w.sleep(1_000);
        a.on_timeout(&mut w.cx(), &mut out);
        questions += core::mem::take(&mut out.frames).len();
    }
    assert_eq!(questions, 3);
    let (packet, why) = out.dropped.pop().expect("given up");
    assert_eq!(why, DropWhy::Neighbour);
    let error = IcmpError::local(&packet, 0, IcmpKind::Unreachable(Unreachable::Host)).expect("readable");
    assert_eq!((error.embedded.src_port, error.embedded.dst_port), (1000, 2000));
    assert_eq!(error.embedded.dst, ip("10.0.0.77"));
}

#[test]
fn frames_for_others_and_lies_about_us_are_dropped() {
    let mut w = World::new(4);
    let mut hosts = ethernet_pair(&mut w);
    let arp = send_udp(&mut w, &mut hosts[0], "10.0.0.1", "10.0.0.2", 10).frames.remove(0).1;
    let frame = |patch: &dyn Fn(&mut [u8])| {
        let mut bytes = arp.to_bytes().to_vec();
        patch(&mut bytes);
        Packet::received(Bytes::from(bytes), Offload::default(), Instant::ZERO)
    };
    let mut out = Outbox::default();
    let mut input = |p| match hosts[1].input_frame(&mut w.cx(), DEV, p, &mut out) {
        FrameInput::Drop(why) => Some(why),
        _ => None,
    };
    assert_eq!(input(frame(&|b| b[..6].copy_from_slice(&MACS[0]))), Some(DropWhy::NotForUs));
    assert_eq!(input(frame(&|b| b[12] = 0x88)), Some(DropWhy::EtherType));
    assert_eq!(input(frame(&|b| b[14 + 17] = 2)), Some(DropWhy::BadSource), "our own address as sender");
    assert_eq!(input(frame(&|b| b[14 + 8] |= 1)), Some(DropWhy::BadSource), "a group's link address");
    assert_eq!(
        input(Packet::received(Bytes::from_static(&[0; 13]), Offload::default(), Instant::ZERO)),
        Some(DropWhy::Malformed)
    );
    // A duplicate address probe is answered, but teaches nothing (RFC 5227).
    assert_eq!(input(frame(&|b| b[14 + 14..14 + 18].fill(0))), None);
    assert_eq!((out.frames.len(), hosts[1].neighbours().iter().count()), (1, 0));
}

fn ping(w: &mut World, from: &mut Ip, src: &str, dst: &str, len: usize) -> Outbox {
    let data = vec![5; len];
    let (src, dst) = (ip(src), ip(dst));
    let (proto, bytes) = match (src, dst) {
        (IpAddr::V6(s), IpAddr::V6(d)) => {
            let repr = Icmp6Repr::EchoRequest { ident: 1, seq: 2, data: &data };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(s, d, &mut bytes);
            (protocol::ICMPV6, bytes)
        }
        _ => {
            let repr = Icmp4Repr::EchoRequest { ident: 1, seq: 2, data: &data };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut bytes);
            (protocol::ICMP, bytes)
        }
    };
    let packet = Packet::received(Bytes::from(bytes), Offload::default(), w.now);
    let mut out = Outbox::default();
    from.send(&mut w.cx(), &OutputParams::new(src, dst, proto), packet, &mut out).expect("a route");
    out
}

#[test]
fn echo_is_answered_whatever_its_size() {
    for (src, dst) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2"), ("fd00::1", "ff02::1")] {
        for len in [0, 56, 1_400, 9_000] {
            let mut w = World::new(4);
            let mut hosts = [host(&mut w, 1, Link::Ip), host(&mut w, 2, Link::Ip)];
            // A link-local destination has no route on its own.
            hosts[0].add_route(Route::on_link(cidr("ff00::/8"), DEV)).expect("room");
            let first = ping(&mut w, &mut hosts[0], src, dst, len);
            assert!(talk(&mut w, &mut hosts, first).is_empty());
            assert_eq!((w.count.icmp.in_echos, w.count.icmp.in_echo_reps), (1, 1), "{dst} {len}");
        }
    }
    let mut w = World::new(4);
    let mut hosts = [host(&mut w, 1, Link::Ip), host(&mut w, 2, Link::Ip)];
    let first = ping(&mut w, &mut hosts[0], "10.0.0.1", "10.0.0.255", 8);
    assert!(
        matches!(talk(&mut w, &mut hosts, first)[..], [(1, Input::Drop(DropWhy::IcmpIgnored))]),
        "no amplification"
    );
}

#[test]
fn the_default_ttl_is_that_of_answers_and_errors_over_ipv4_alone() {
    for (src, dst, ttl_at, want) in [("10.0.0.1", "10.0.0.2", 8, 100), ("fd00::1", "fd00::2", 7, 64)] {
        let mut w = World::new(4);
        w.sysctl.ip_default_ttl = 100;
        let mut hosts = [host(&mut w, 1, Link::Ip), host(&mut w, 2, Link::Ip)];
        let mut out = Outbox::default();
        let (_, request) = ping(&mut w, &mut hosts[0], src, dst, 8).frames.remove(0);
        assert!(matches!(hosts[1].input(&mut w.cx(), DEV, flat(&request), &mut out), Input::Consumed));
        let (_, reply) = out.frames.pop().expect("an answer");
        assert_eq!(reply.to_bytes()[ttl_at], want, "echo reply to {src}");
        let (_, datagram) = send_udp(&mut w, &mut hosts[0], src, dst, 8).frames.remove(0);
        let Input::Deliver(i) = hosts[1].input(&mut w.cx(), DEV, flat(&datagram), &mut out) else {
            panic!("a datagram for us");
        };
        hosts[1].unreachable(&mut w.cx(), &i, Unreachable::Port, &mut out);
        let (_, error) = out.frames.pop().expect("an error");
        assert_eq!(error.to_bytes()[ttl_at], want, "error to {src}");
    }
}

/// Sends a datagram, has the receiver say "unreachable", and returns what the sender hears.
fn unreachable(
    w: &mut World,
    hosts: &mut [Ip; 2],
    src: &str,
    dst: &str,
    what: Unreachable,
) -> Option<IcmpError> {
    let sent = send_udp(w, &mut hosts[0], src, dst, 100);
    let got = talk(w, hosts, sent);
    let [(1, Input::Deliver(i))] = &got[..] else { panic!("{got:?}") };
    let mut out = Outbox::default();
    hosts[1].unreachable(&mut w.cx(), i, what, &mut out);
    let (_, frame) = out.frames.pop()?;
    match hosts[0].input(&mut w.cx(), DEV, flat(&frame), &mut out) {
        Input::Error(error) => Some(error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_reach_the_flow_that_caused_them_and_are_limited() {
    for (src, dst) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        let mut w = World::new(4);
        let mut hosts = [host(&mut w, 1, Link::Ip), host(&mut w, 2, Link::Ip)];
        for what in [Unreachable::Port, Unreachable::Protocol, Unreachable::Admin] {
            let error = unreachable(&mut w, &mut hosts, src, dst, what).expect("within the burst");
            assert_eq!((error.kind, error.from), (IcmpKind::Unreachable(what), ip(dst)));
            let e = error.embedded;
            assert_eq!((e.src, e.dst, e.protocol), (ip(src), ip(dst), protocol::UDP));
            assert_eq!((e.src_port, e.dst_port, e.seq), (1000, 2000, None));
        }
        let more = (0..20)
            .filter(|_| unreachable(&mut w, &mut hosts, src, dst, Unreachable::Port).is_some())
            .count();
        assert_eq!(more, 3, "six at once");
        assert_eq!(w.count.icmp.out_rate_limit_host, 17);
        let ms = if src.contains(':') { w.sysctl.icmp6_ratelimit } else { w.sysctl.icmp_ratelimit };
        w.sleep(u64::from(ms) - 1);
        assert!(unreachable(&mut w, &mut hosts, src, dst, Unreachable::Port).is_none(), "not yet");
        w.sleep(1);
        assert!(unreachable(&mut w, &mut hosts, src, dst, Unreachable::Port).is_some(), "then one by one");
    }
}

#[test]
fn nothing_is_said_about_errors_or_groups() {
    let mut w = World::new(4);
    let mut hosts = [host(&mut w, 1, Link::Ip), host(&mut w, 2, Link::Ip)];
    let sent = send_udp(&mut w, &mut hosts[0], "10.0.0.1", "10.0.0.255", 100);
    let got = talk(&mut w, &mut hosts, sent);
    let [(1, Input::Deliver(i))] = &got[..] else { panic!("{got:?}") };
    let mut out = Outbox::default();
    hosts[1].unreachable(&mut w.cx(), i, Unreachable::Port, &mut out);
    assert!(out.is_empty(), "a broadcast");
    let mut error = Ingress { dst: ip("10.0.0.2"), to_group: false, ..i.clone() };
    let mut bytes = error.packet.payload.to_vec();
    (bytes[9], bytes[20]) = (protocol::ICMP, icmp4::UNREACHABLE);
    error.packet.payload = Bytes::from(bytes);
    hosts[1].unreachable(&mut w.cx(), &error, Unreachable::Protocol, &mut out);
    assert!(out.is_empty(), "an error");
}

#[test]
fn an_error_that_was_sent_to_a_group_is_not_believed() {
    let mut w = World::new(4);
    let mut sender = host(&mut w, 1, Link::Ip);
    let sent = send_udp(&mut w, &mut sender, "10.0.0.1", "10.0.0.99", 100).frames.remove(0).1;
    for (to, believed) in [("10.0.0.1", true), ("10.0.0.255", false), ("224.0.0.1", false)] {
        let mut error = too_big(&mut w, &sent, 1_000).to_bytes().to_vec();
        let IpAddr::V4(to) = ip(to) else { panic!("IPv4") };
        error[16..20].copy_from_slice(&to.octets());
        error[10..12].fill(0);
        let sum = lowwater_wire::checksum::checksum(&error[..20]);
        error[10..12].copy_from_slice(&sum.to_be_bytes());
        let packet = Packet::received(Bytes::from(error), Offload::default(), w.now);
        let got = sender.input(&mut w.cx(), DEV, packet, &mut Outbox::default());
        assert_eq!(matches!(got, Input::Error(_)), believed, "{to}: {got:?}");
    }
}

/// An ICMP "too big" about `sent`, from a router.
fn too_big(w: &mut World, sent: &Packet, mtu: u32) -> Packet {
    let quoted = &sent.to_bytes()[..48];
    let v6 = quoted[0] >> 4 == 6;
    let (proto, bytes, params) = if v6 {
        let (IpAddr::V6(s), IpAddr::V6(d)) = (ip("fd00::99"), ip("fd00::1")) else { panic!("IPv6") };
        let repr = Icmp6Repr::PacketTooBig { mtu, quoted };
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(s, d, &mut bytes);
        (protocol::ICMPV6, bytes, (IpAddr::V6(s), IpAddr::V6(d)))
    } else {
        let repr = Icmp4Repr::Unreachable { code: icmp4::FRAGMENTATION_NEEDED, mtu: mtu as u16, quoted };
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut bytes);
        (protocol::ICMP, bytes, (ip("10.0.0.99"), ip("10.0.0.1")))
    };
    let mut router = host(w, 99, Link::Ip);
    let packet = Packet::received(Bytes::from(bytes), Offload::default(), w.now);
    let mut out = Outbox::default();
    router
        .send(&mut w.cx(), &OutputParams::new(params.0, params.1, proto), packet, &mut out)
        .expect("a route");
    flat(&out.frames[0].1)
}

#[test]
fn path_mtus_are_learnt_clamped_and_forgotten() {
    for (src, dst, floor) in [("10.0.0.1", "8.8.8.8", MIN_PMTU_V4), ("fd00::1", "2001:db8::8", MIN_PMTU_V6)] {
        let mut w = World::new(4);
        let mut a = host(&mut w, 1, Link::Ip);
        let sent = send_udp(&mut w, &mut a, src, dst, 1_400).frames.remove(0).1;
        let hear = |w: &mut World, a: &mut Ip, mtu| {
            let p = too_big(w, &sent, mtu);
            match a.input(&mut w.cx(), DEV, p, &mut Outbox::default()) {
                Input::Error(IcmpError { kind: IcmpKind::TooBig(mtu), .. }) => mtu,
                _ => panic!("no error for who sent it"),
            }
        };
        assert_eq!(hear(&mut w, &mut a, 1_400), 1_400);
        assert_eq!(hear(&mut w, &mut a, 60), 60, "told to who sent it, though no link of IPv6 is so small");
        let before = a.generation();
        let way = a.lookup(None, ip(dst), w.now).expect("a route");
        assert_eq!(way.mtu, 1_500);
        assert!(!a.lower_path_mtu(ip(dst), 1_500, w.now), "no lower than the link's own");
        assert!(a.lower_path_mtu(ip(dst), 1_400, w.now));
        assert!(!a.lower_path_mtu(ip(dst), 1_450, w.now) && !a.lower_path_mtu(ip(dst), 9_000, w.now));
        assert_ne!(a.generation(), before, "flows ask again");
        assert_eq!(a.lookup(None, ip(dst), w.now).expect("a route").mtu, 1_400);
        assert_eq!(a.lower_path_mtu(ip(dst), 60, w.now), ip(src).is_ipv4());
        let way = a.lookup(None, ip(dst), w.now).expect("a route");
        if ip(src).is_ipv4() {
            assert_eq!((way.mtu, way.mtu_locked), (floor, true), "an attacker cannot make packets tiny");
            assert!(!a.lower_path_mtu(ip(dst), 0, w.now) && !a.lower_path_mtu(ip(dst), 560, w.now), "locked");
        } else {
            assert_eq!((way.mtu, way.mtu_locked), (1_400, false));
        }
        w.sleep(600_000);
        assert_eq!(a.next_deadline(), Some(w.now));
        a.on_timeout(&mut w.cx(), &mut Outbox::default());
        assert_eq!(a.lookup(None, ip(dst), w.now).expect("a route").mtu, 1_500);
    }
}

#[test]
fn errors_about_strangers_are_foreign() {
    let mut w = World::new(4);
    let mut other = host(&mut w, 3, Link::Ip);
    let sent = send_udp(&mut w, &mut other, "10.0.0.3", "8.8.8.8", 100).frames.remove(0).1;
    let mut a = host(&mut w, 1, Link::Ip);
    let p = too_big(&mut w, &sent, 1_400);
    assert!(matches!(
        a.input(&mut w.cx(), DEV, p, &mut Outbox::default()),
        Input::Drop(DropWhy::IcmpForeign)
    ));
}

#[test]
fn a_datagram_never_completed_is_reported_if_its_head_came() {
    for (src, dst) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        for keep in [0, 1] {
            let mut w = World::new(4);
            let mut hosts = [host(&mut w, 1, Link::Ip), host(&mut w, 2, Link::Ip)];
            let sent = send_udp(&mut w, &mut hosts[0], src, dst, 2_000);
            assert_eq!(sent.frames.len(), 2);
            let mut out = Outbox::default();
            assert!(matches!(
                hosts[1].input(&mut w.cx(), DEV, flat(&sent.frames[keep].1), &mut out),
                Input::Consumed
            ));
            w.sleep(if ip(src).is_ipv4() { 30_000 } else { 60_000 });
            assert_eq!(hosts[1].next_deadline(), Some(w.now));
            hosts[1].on_timeout(&mut w.cx(), &mut out);
            assert_eq!(w.count.ip.reasm_timeout, 1);
            let Some((_, report)) = out.frames.pop() else {
                assert_eq!(keep, 1, "no head, no report");
                continue;
            };
            assert_eq!(keep, 0);
            let code = report.to_bytes()[if ip(src).is_ipv4() { 20 } else { 40 }..][..2].to_vec();
            let want = if ip(src).is_ipv4() { [icmp4::TIME_EXCEEDED, 1] } else { [icmp6::TIME_EXCEEDED, 1] };
            assert_eq!(code, want);
            let heard = hosts[0].input(&mut w.cx(), DEV, flat(&report), &mut out);
            // Over IPv4 that says nothing of the way, as in Linux.
            let told = matches!(heard, Input::Error(IcmpError { kind: IcmpKind::TimeExceeded, .. }));
            let ignored = matches!(heard, Input::Drop(DropWhy::IcmpIgnored));
            assert!(if ip(src).is_ipv4() { ignored } else { told }, "{heard:?}");
        }
    }
}

#[test]
fn routes_sources_and_generations_follow_the_configuration() {
    let mut w = World::new(4);
    let mut a = host(&mut w, 1, Link::Ip);
    let second = DeviceId(1);
    a.add_device(second, Iface::new(Link::Ethernet(MACS[1]), 9_000)).expect("room");
    let g = a.generation();
    a.add_address(second, cidr("192.168.0.5/24")).expect("free");
    assert_ne!(a.generation(), g);
    let way = a.lookup(None, ip("192.168.0.9"), w.now).expect("on link");
    assert_eq!(
        (way.device, way.next_hop, way.src, way.mtu),
        (second, ip("192.168.0.9"), ip("192.168.0.5"), 9_000)
    );
    let way = a.lookup(None, ip("1.2.3.4"), w.now).expect("by the gateway");
    assert_eq!((way.device, way.next_hop, way.src), (DEV, ip("10.0.0.1"), ip("10.0.0.1")));
    let local = ip("fe80::ff:fe00:1");
    let way = a.lookup(Some(local), ip("fe80::7"), w.now).expect("the source's link");
    assert_eq!((way.device, way.next_hop), (second, ip("fe80::7")));
    assert!(a.remove_address(second, ip("192.168.0.5")) && !a.remove_address(second, ip("192.168.0.5")));
    assert_eq!(a.lookup(None, ip("192.168.0.9"), w.now).expect("by the gateway").device, DEV);
    let mut out = Outbox::default();
    a.remove_device(DEV, &mut out);
    assert_eq!(a.lookup(None, ip("1.2.3.4"), w.now), Err(Error::NoRoute));
}

#[test]
fn damaged_messages_are_not_believed() {
    for (src, dst) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        let mut w = World::new(4);
        let (mut a, mut b) = (host(&mut w, 1, Link::Ip), host(&mut w, 2, Link::Ip));
        let ping = ping(&mut w, &mut a, src, dst, 9).frames.remove(0).1;
        let mut bytes = ping.to_bytes().to_vec();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        let damaged = Packet::received(Bytes::from(bytes), Offload::default(), w.now);
        let got = b.input(&mut w.cx(), DEV, damaged, &mut Outbox::default());
        assert!(matches!(got, Input::Drop(DropWhy::Checksum)), "{got:?}");
        assert_eq!(w.count.icmp.in_csum_errors, 1);
    }
}

#[test]
fn what_partly_came_to_all_of_a_link_is_answered_by_nobody() {
    for (src, dst) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        for group in [None, Some(0), Some(1)] {
            let mut w = World::new(4);
            let mut hosts = [host(&mut w, 1, Link::Ip), host(&mut w, 2, Link::Ip)];
            let take = |w: &mut World, host: &mut Ip, p: &Packet, group: bool, out: &mut Outbox| {
                let (p, cx) = (flat(p), &mut w.cx());
                if group { host.input_to_group(cx, DEV, p, out) } else { host.input(cx, DEV, p, out) }
            };
            let mut out = Outbox::default();
            let request = ping(&mut w, &mut hosts[0], src, dst, 2_000);
            for (n, (_, fragment)) in request.frames.iter().enumerate() {
                take(&mut w, &mut hosts[1], fragment, group == Some(n), &mut out);
            }
            assert_eq!(out.frames.is_empty(), group.is_some(), "{src}: echo, {group:?}");
            out.frames.clear();
            let sent = send_udp(&mut w, &mut hosts[0], src, dst, 2_000);
            take(&mut w, &mut hosts[1], &sent.frames[0].1, group == Some(0), &mut out);
            w.sleep(if ip(src).is_ipv4() { 30_000 } else { 60_000 });
            hosts[1].on_timeout(&mut w.cx(), &mut out);
            assert_eq!(out.frames.is_empty(), group == Some(0), "{src}: time exceeded, {group:?}");
        }
    }
}

#[test]
fn only_a_neighbour_can_solicit() {
    let mut w = World::new(4);
    let mut hosts = ethernet_pair(&mut w);
    let solicit = send_udp(&mut w, &mut hosts[0], "fd00::1", "fd00::2", 10).frames.remove(0).1;
    for (hop_limit, answers) in [(254, 0), (255, 1)] {
        let mut bytes = solicit.to_bytes().to_vec();
        assert_eq!(bytes[14 + 7], 255);
        bytes[14 + 7] = hop_limit;
        let frame = Packet::received(Bytes::from(bytes), Offload::default(), w.now);
        let mut out = Outbox::default();
        let FrameInput::ToGroup(p) = hosts[1].input_frame(&mut w.cx(), DEV, frame, &mut out) else {
            panic!("to our group")
        };
        let _ = hosts[1].input_to_group(&mut w.cx(), DEV, p, &mut out);
        assert_eq!(out.frames.len(), answers, "hop limit {hop_limit}");
    }
}

#[test]
fn who_asks_from_elsewhere_is_answered_and_not_remembered() {
    let mut w = World::new(4);
    let mut host = host(&mut w, 2, Link::Ethernet(MACS[2]));
    // A gateway outside of our subnets is a neighbour all the same.
    host.add_route(Route::via(cidr("198.51.100.0/24"), ip("198.51.100.1"), DEV)).expect("room");
    // So is one that somebody waits for, although another gateway leads to its address.
    host.add_route(Route::via(cidr("203.0.113.0/24"), ip("10.0.0.1"), DEV)).expect("room");
    host.add_route(Route::via(cidr("203.0.114.0/24"), ip("203.0.113.1"), DEV)).expect("room");
    assert_eq!(send_udp(&mut w, &mut host, "10.0.0.2", "203.0.114.9", 9).frames.len(), 1, "a question");
    for (sender, known) in [
        ([10, 0, 0, 9], true),
        ([203, 0, 113, 2], false),
        ([192, 0, 2, 1], false),
        ([198, 51, 100, 1], true),
        ([198, 51, 100, 2], false),
        ([169, 254, 3, 4], true),
    ] {
        let mut out = Outbox::default();
        let arp = arp_request(sender, [10, 0, 0, 2]);
        assert!(matches!(host.input_frame(&mut w.cx(), DEV, arp, &mut out), FrameInput::Consumed));
        assert_eq!(out.frames.len(), 1, "answered");
        assert_eq!(host.neighbours().get(DEV, sender.into()).is_some(), known, "{sender:?}");
    }
    let mut out = Outbox::default();
    host.input_frame(&mut w.cx(), DEV, arp_request([203, 0, 113, 1], [10, 0, 0, 2]), &mut out);
    assert_eq!(out.frames.len(), 2, "what waited, and the answer");
    for (sender, known) in [("fd00::9", true), ("2001:db8::1", false), ("fe80::ff:fe00:1", true)] {
        let mut out = Outbox::default();
        let mut asker = Ip::new(&mut w.rng);
        asker.add_device(DEV, Iface::new(Link::Ethernet(MACS[1]), 1_500)).expect("room");
        if !asker.ifaces().is_configured(ip(sender)) {
            asker.add_address(DEV, cidr(&format!("{sender}/128"))).expect("free");
        }
        asker.add_route(Route::on_link(cidr("fd00::2/128"), DEV)).expect("room");
        let (_, solicit) = send_udp(&mut w, &mut asker, sender, "fd00::2", 9).frames.remove(0);
        let FrameInput::ToGroup(p) = host.input_frame(&mut w.cx(), DEV, flat(&solicit), &mut out) else {
            panic!("to our group")
        };
        assert!(matches!(host.input_to_group(&mut w.cx(), DEV, p, &mut out), Input::Consumed));
        assert_eq!(out.frames.len(), 1, "answered");
        assert_eq!(out.frames[0].1.to_bytes()[..6], MACS[1], "{sender}: who asked is not asked back");
        let state = host.neighbours().get(DEV, ip(sender)).map(|(state, _)| state);
        // An answer is no use that the neighbour would have to be probed for.
        assert_eq!(state, known.then_some(neigh::State::Stale), "{sender}");
    }
}

/// A broadcast question of a host with the second address.
fn arp_request(sender: [u8; 4], target: [u8; 4]) -> Packet {
    let mut bytes = vec![0xff; 6];
    bytes.extend_from_slice(&MACS[1]);
    bytes.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    bytes.extend_from_slice(&MACS[1]);
    bytes.extend(sender);
    bytes.extend([0; 6]);
    bytes.extend(target);
    Packet::received(Bytes::from(bytes), Offload::default(), Instant::ZERO)
}

#[test]
fn loopback_is_not_for_the_wire() {
    let mut w = World::new(4);
    let mut host = host(&mut w, 2, Link::Ethernet(MACS[2]));
    let lo = DeviceId(7);
    host.add_device(lo, Iface::new(Link::Loopback, 65_535)).expect("room");
    host.add_address(lo, cidr("127.0.0.1/8")).expect("free");
    for target in [[127, 0, 0, 1], [127, 9, 9, 9]] {
        let mut out = Outbox::default();
        let arp = arp_request([10, 0, 0, 1], target);
        let got = host.input_frame(&mut w.cx(), DEV, arp, &mut out);
        assert!(matches!(got, FrameInput::Drop(DropWhy::NotForUs)), "{got:?}");
        assert!(out.is_empty() && host.neighbours().iter().next().is_none());
    }
    let mut out = Outbox::default();
    let arp = arp_request([127, 0, 0, 9], [10, 0, 0, 2]);
    let got = host.input_frame(&mut w.cx(), DEV, arp, &mut out);
    assert!(matches!(got, FrameInput::Drop(DropWhy::BadSource)) && out.is_empty(), "{got:?}");
    // Nothing from 127.0.0.0/8 has ever left by a wire, whatever somebody quotes.
    let (_, sent) = send_udp(&mut w, &mut host, "127.0.0.1", "127.0.0.1", 100).frames.remove(0);
    let mut quoted = sent.to_bytes().to_vec();
    quoted[16..20].copy_from_slice(&[8, 8, 8, 8]);
    let sent = Packet::received(Bytes::from(quoted), Offload::default(), w.now);
    let mut error = too_big(&mut w, &sent, 600).payload.to_vec();
    error[19] = 2;
    error[10..12].fill(0);
    let sum = lowwater_wire::checksum::checksum(&error[..20]);
    error[10..12].copy_from_slice(&sum.to_be_bytes());
    let error = || Packet::received(Bytes::copy_from_slice(&error), Offload::default(), w.now);
    let (from_wire, from_lo) = (error(), error());
    host.set_any_address(DEV, true).expect("a device");
    let got = host.input(&mut w.cx(), DEV, from_wire, &mut out);
    assert!(matches!(got, Input::Drop(DropWhy::IcmpForeign)), "{got:?}");
    let got = host.input(&mut w.cx(), lo, from_lo, &mut out);
    assert!(matches!(got, Input::Error(_)), "{got:?}");
}

#[test]
fn an_answer_to_a_link_local_source_stays_on_its_link() {
    let mut w = World::new(4);
    let mut host = host(&mut w, 2, Link::Ethernet(MACS[2]));
    let second = DeviceId(1);
    host.add_device(second, Iface::new(Link::Ethernet(MACS[1]), 1_500)).expect("room");
    host.add_address(second, cidr("fd01::2/64")).expect("free");
    let mut asker = Ip::new(&mut w.rng);
    asker.add_device(DEV, Iface::new(Link::Ip, 1_500)).expect("room");
    asker.add_route(Route::on_link(cidr("::/0"), DEV)).expect("room");
    for (to, why) in [("fd00::2", None), ("fd01::2", Some(DropWhy::BadSource))] {
        let (_, request) = ping(&mut w, &mut asker, "fe80::9", to, 8).frames.remove(0);
        let mut out = Outbox::default();
        let got = match host.input(&mut w.cx(), DEV, flat(&request), &mut out) {
            Input::Consumed => None,
            Input::Drop(why) => Some(why),
            other => panic!("{other:?}"),
        };
        assert!(out.frames.iter().all(|(device, _)| *device == DEV), "{to}: not by another device");
        assert_eq!((got, out.frames.len()), (why, usize::from(why.is_none())), "{to}");
    }
}
