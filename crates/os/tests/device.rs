//! TUN and TAP against the kernel, each test in a network namespace of its own.
mod craft;

use bytes::Bytes;
use craft::{ACK, Peer, RST, SYN, complete, ipv4, parse};
use lowwater_core::base::{Duration, Instant};
use lowwater_core::device::{Device as _, Submit};
use lowwater_core::packet::{Csum, GsoKind, Head, Offload, Packet};
use lowwater_os::netns::{NetNs, net_admin};
use lowwater_os::{Clock, Interest, Layer, Link, Poller, SetupError, Tun, TunOptions};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const STACK: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// A device that is up, with the kernel's address on it.
fn ready(options: &TunOptions) -> Tun {
    let tun = Tun::open(options).unwrap();
    bring_up(&tun);
    tun
}

fn bring_up(tun: &Tun) {
    let link = tun.link().unwrap();
    link.up().unwrap();
    link.add_address(KERNEL.into(), 24).unwrap();
}

/// Reads until `wanted` says yes; fails after five seconds. The kernel's own chatter (MLD, router solicitations) passes.
fn until<T>(tun: &mut Tun, mut wanted: impl FnMut(&Packet) -> Option<T>) -> T {
    let (clock, mut poller, mut events) = (Clock::start(), Poller::new().unwrap(), Vec::new());
    poller.add(&*tun, 1, Interest::Read).unwrap();
    let deadline = Instant::ZERO + Duration::from_secs(5);
    loop {
        while let Some(packet) = tun.recv(clock.now()).unwrap() {
            if let Some(found) = wanted(&packet) {
                return found;
            }
        }
        assert!(clock.now() < deadline, "the packet never came");
        poller.wait(&clock, Some(deadline), &mut events).unwrap();
    }
}

fn sent(tun: &mut Tun, packet: Packet) {
    assert!(matches!(tun.submit(Instant::ZERO, packet), Submit::Completed));
}

#[test]
fn datagrams_pass_in_both_directions() {
    if !net_admin() {
        return;
    }
    for offload in [true, false] {
        NetNs::new().unwrap().run(|| {
            let mut tun = ready(&TunOptions { offload, ..TunOptions::new("lw0") });
            assert_eq!((tun.name(), tun.offload(), tun.layer()), ("lw0", offload, Layer::Ip));
            let socket = UdpSocket::bind((KERNEL, 0)).unwrap();
            socket.send_to(b"to the stack", (STACK, 9)).unwrap();
            let (packet, port) = until(&mut tun, |p| {
                let b = &p.payload;
                (b[0] == 0x45 && b[9] == 17).then(|| (p.clone(), u16::from_be_bytes([b[20], b[21]])))
            });
            assert_eq!(&packet.payload[28..], b"to the stack");
            let unfinished = Csum::Partial { start: 20, offset: 6 };
            assert_eq!(packet.offload.csum, if offload { unfinished } else { Csum::None });

            let mut answer = ipv4(STACK, KERNEL, 17, 8 + 4).to_vec();
            answer.extend_from_slice(&9u16.to_be_bytes());
            answer.extend_from_slice(&port.to_be_bytes());
            answer.extend_from_slice(&[0, 12, 0, 0]);
            answer.extend_from_slice(b"back");
            sent(&mut tun, Packet::received(answer.into(), Offload::default(), Instant::ZERO));
            let mut buffer = [0; 64];
            let (len, from) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..len], from), (&b"back"[..], SocketAddr::from((STACK, 9))));
        });
    }
}

/// Short frames are put together before they are written, longer ones are not: the kernel must not see where.
#[test]
fn a_frame_arrives_whole_at_every_length() {
    if !net_admin() {
        return;
    }
    for offload in [true, false] {
        NetNs::new().unwrap().run(|| {
            let mut tun = ready(&TunOptions { offload, ..TunOptions::new("") });
            let socket = UdpSocket::bind((KERNEL, 9)).unwrap();
            for len in 0..600 {
                let data: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
                let mut head = Head::new();
                let udp = head.prepend(8);
                udp[..4].copy_from_slice(&[0, 9, 0, 9]);
                udp[4..6].copy_from_slice(&(8 + len as u16).to_be_bytes());
                head.prepend(20).copy_from_slice(&ipv4(STACK, KERNEL, 17, 8 + len));
                let payload = Bytes::from(data.clone());
                let (offload, at) = (Offload::default(), Instant::ZERO);
                sent(&mut tun, Packet { head, payload, offload, owner: None, at, priority: None });
                let mut buffer = [0; 1_000];
                let (got, _) = socket.recv_from(&mut buffer).unwrap();
                assert_eq!(buffer[..got], data);
            }
        });
    }
}

/// A kernel connection into the device, established.
fn connect(tun: &mut Tun) -> (TcpStream, Peer) {
    let client = std::thread::spawn(|| TcpStream::connect((STACK, 80)).unwrap());
    let syn = until(tun, |p| parse(p).filter(|s| s.flags == SYN));
    let mut peer = Peer::accept(STACK, KERNEL, &syn);
    let answer = peer.segment(SYN | ACK, Bytes::new());
    sent(tun, if tun.offload() { answer } else { complete(answer) });
    (client.join().unwrap(), peer)
}

#[test]
fn without_offload_no_super_packet_and_no_unfinished_checksum_comes() {
    if !net_admin() {
        return;
    }
    NetNs::new().unwrap().run(|| {
        let mut tun = ready(&TunOptions { offload: false, ..TunOptions::new("") });
        let (mut client, mut peer) = connect(&mut tun);
        client.write_all(&[7; 10_000]).unwrap();
        let mut received = 0;
        while received < 10_000 {
            let (segment, offload) =
                until(&mut tun, |p| parse(p).filter(|s| s.len > 0).map(|s| (s, p.offload)));
            assert!(segment.len <= 1_460 && offload == Offload::default(), "{segment:?}");
            received += segment.len;
        }
        sent(&mut tun, complete(peer.segment(ACK | RST, Bytes::new())));
        let reset = client.read(&mut [0; 1]).unwrap_err();
        assert_eq!(reset.kind(), std::io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn super_packets_cross_in_one_call_each_way() {
    if !net_admin() {
        return;
    }
    NetNs::new().unwrap().run(|| {
        let mut tun = ready(&TunOptions::new(""));
        let (mut client, mut peer) = connect(&mut tun);

        let payload: Vec<u8> = (0..60_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
        let written = tun.counters().frames_out;
        let packet = peer.segment(ACK, payload.clone().into());
        assert_eq!((packet.offload.gso, packet.len()), (GsoKind::Tcp4, 60_040));
        sent(&mut tun, packet);
        let mut got = vec![0; payload.len()];
        client.read_exact(&mut got).unwrap();
        assert!(got == payload, "the kernel received other bytes");
        assert_eq!(tun.counters().frames_out, written + 1);

        let total = 4_000_000;
        let writer = std::thread::spawn(move || client.write_all(&vec![7; total]).map(|()| client));
        let (mut received, mut largest, start) = (0, 0, peer.rcv_nxt);
        while received < total {
            let segment = until(&mut tun, |p| {
                let segment = parse(p).filter(|s| s.len > 0)?;
                if segment.len > 1_460 {
                    assert_eq!((p.offload.gso, p.offload.gso_size), (GsoKind::Tcp4, 1_460));
                    assert_eq!(p.offload.csum, Csum::Partial { start: 20, offset: 16 });
                }
                Some(segment)
            });
            largest = largest.max(segment.len);
            peer.take(&segment);
            received = peer.rcv_nxt.wrapping_sub(start) as usize;
            let ack = peer.segment(ACK, Bytes::new());
            sent(&mut tun, ack);
        }
        writer.join().unwrap().unwrap();
        assert!(largest > 40_000, "the largest frame had only {largest} bytes");
        assert!(tun.counters().frames_in > tun.counters().copied, "large frames are not copied");
    });
}

#[test]
fn a_device_ends_with_its_last_descriptor() {
    if !net_admin() {
        return;
    }
    NetNs::new().unwrap().run(|| {
        let mut tun = ready(&TunOptions::new("lwgone%d"));
        assert_eq!(tun.name(), "lwgone0");
        let again = Tun::open(&TunOptions::new("lwgone0")).unwrap_err();
        assert!(matches!(again, SetupError::Busy { .. }), "{again}");
        // The loopback device can never be a TUN, and a name that nobody has is none of another kind.
        let other = Tun::open(&TunOptions::new("lo")).unwrap_err();
        assert!(matches!(other, SetupError::OtherKind { .. }), "{other}");
        assert!(Tun::open(&TunOptions::new("lw9")).is_ok());
        let name = tun.name().to_owned();
        tun.link().unwrap().delete().unwrap();
        assert!(tun.recv(Instant::ZERO).is_err(), "a deleted device says so");
        drop(tun);
        let tun = ready(&TunOptions::new(&*name));
        drop(tun);
        assert!(matches!(Link::by_name(&name), Err(SetupError::NoSuchLink { .. })));
    });
}

#[test]
fn a_device_that_is_down_drops() {
    if !net_admin() {
        return;
    }
    NetNs::new().unwrap().run(|| {
        let mut tun = ready(&TunOptions::new(""));
        tun.link().unwrap().down().unwrap();
        let packet = Packet::received(
            Bytes::copy_from_slice(&ipv4(STACK, KERNEL, 17, 0)),
            Offload::default(),
            Instant::ZERO,
        );
        assert!(matches!(tun.submit(Instant::ZERO, packet), Submit::Dropped));
    });
}

#[test]
fn taps_speak_ethernet() {
    if !net_admin() {
        return;
    }
    NetNs::new().unwrap().run(|| {
        let mut tap = ready(&TunOptions { layer: Layer::Ethernet, ..TunOptions::new("lwtap") });
        assert_eq!(tap.caps().link_len(), 14);
        UdpSocket::bind((KERNEL, 0)).unwrap().send_to(b"x", (STACK, 9)).unwrap();
        let arp = until(&mut tap, |p| (p.payload[12..14] == [8, 6]).then(|| p.clone()));
        assert_eq!((&arp.payload[..6], &arp.payload[38..42]), (&[0xff; 6][..], &STACK.octets()[..]));

        // Answer it, and the datagram comes: its checksum starts behind the Ethernet header.
        let mut answer = arp.payload[6..12].to_vec();
        answer.extend_from_slice(&[2, 0, 0, 0, 0, 2, 8, 6, 0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 2]);
        answer.extend_from_slice(&STACK.octets());
        answer.extend_from_slice(&arp.payload[22..32]);
        sent(&mut tap, Packet::received(answer.into(), Offload::default(), Instant::ZERO));
        let udp = until(&mut tap, |p| (p.payload[12..14] == [8, 0]).then(|| p.clone()));
        assert_eq!(udp.offload.csum, Csum::Partial { start: 20, offset: 6 });
        assert_eq!(udp.payload[..6], [2, 0, 0, 0, 0, 2]);
    });
}

#[test]
fn ipv6_addresses_work_at_once() {
    if !net_admin() {
        return;
    }
    NetNs::new().unwrap().run(|| {
        let mut tun = ready(&TunOptions { mtu: 9_000, ..TunOptions::new("") });
        let (kernel, stack): (IpAddr, IpAddr) = ("fd77::1".parse().unwrap(), "fd77::2".parse().unwrap());
        tun.link().unwrap().add_address(kernel, 64).unwrap();
        let socket = UdpSocket::bind((kernel, 0)).unwrap();
        socket.send_to(&[5; 8_000], (stack, 9)).unwrap();
        let packet = until(&mut tun, |p| (p.payload[0] >> 4 == 6 && p.payload[6] == 17).then(|| p.clone()));
        assert_eq!((packet.len(), packet.offload.csum), (8_048, Csum::Partial { start: 40, offset: 6 }));
    });
}

#[test]
fn queues_follow_the_flow_that_the_stack_sends_on() {
    if !net_admin() {
        return;
    }
    NetNs::new().unwrap().run(|| {
        let mut queues = Tun::open_queues(&TunOptions::new("lwmq"), 2).unwrap();
        bring_up(&queues[0]);
        assert_eq!(queues[1].name(), "lwmq");
        let mut used = HashSet::new();
        for round in 0..16 {
            let via = round % 2;
            let client = std::thread::spawn(|| TcpStream::connect((STACK, 80)).unwrap());
            let mut syn = None;
            while syn.is_none() {
                for (at, queue) in queues.iter_mut().enumerate() {
                    while let Some(p) = queue.recv(Instant::ZERO).unwrap() {
                        if let Some(segment) = parse(&p).filter(|s| s.flags == SYN) {
                            used.insert(at);
                            syn = Some(segment);
                        }
                    }
                }
            }
            let mut peer = Peer::accept(STACK, KERNEL, &syn.unwrap());
            let answer = peer.segment(SYN | ACK, Bytes::new());
            sent(&mut queues[via], answer);
            let mut client = client.join().unwrap();
            client.write_all(b"follow me").unwrap();
            let ports = (peer.them.1, peer.me.1);
            until(&mut queues[via], |p| parse(p).filter(|s| s.ports == ports && s.len == 9));
        }
        assert_eq!(used.len(), 2, "new flows are spread over the queues");
    });
}

#[test]
fn missing_privileges_are_said_plainly() {
    if !net_admin() {
        return;
    }
    NetNs::new().unwrap().run(|| {
        let made = Tun::open_queues(&TunOptions { mtu: 9_000, ..TunOptions::new("lw0") }, 1).unwrap();
        // The capabilities belong to this thread alone, which ends with the closure.
        let mut caps = rustix::thread::capabilities(None).unwrap();
        caps.effective = rustix::thread::CapabilitySet::empty();
        rustix::thread::set_capabilities(None, caps).unwrap();
        let e = Tun::open(&TunOptions::new("lw1")).unwrap_err();
        assert!(e.is_environment());
        assert_eq!(
            e.to_string(),
            "creating a TUN device needs CAP_NET_ADMIN: run as root or inside `unshare -rn`"
        );
        let e = Link::by_name("lo").unwrap().set_mtu(1_400).unwrap_err();
        assert!(e.is_environment(), "{e}");
        let joined = Tun::open_queues(&TunOptions::new("lw0"), 1).unwrap();
        assert_eq!((joined[0].mtu(), made[0].mtu()), (9_000, 9_000), "an existing device keeps its MTU");
    });
}
