//! Packet sockets over a pair of interfaces: frames cross, and slots come back when they have left.
use super::*;
use crate::netns::{NetNs, net_admin};
use crate::{Interest, Poller};
use bytes::Bytes;
use core::time::Duration;
use lowwater_core::base::{FlowId, SocketId};
use lowwater_core::device::{Device as _, Submit};
use lowwater_core::packet::{Csum, GsoKind, Offload, Packet};
use rustix::fd::AsRawFd as _;
use std::process::Command;

fn command(line: &str) {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A namespace with a pair of interfaces, both up.
fn with_pair(f: impl FnOnce() + Send) {
    if !net_admin() {
        return;
    }
    NetNs::new().unwrap().run(|| {
        command("ip link add va type veth peer name vb");
        command("ip link set va up");
        command("ip link set vb up");
        f();
    });
}

/// A frame of an EtherType for experiments (IEEE 802), `len` bytes of payload.
fn frame(to: [u8; 6], len: usize, owner: Option<Owner>) -> Packet {
    let mut bytes = to.to_vec();
    bytes.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    bytes.resize(14 + len, 7);
    Packet { owner, ..Packet::received(Bytes::from(bytes), Offload::default(), Instant::ZERO) }
}

fn owner(charge: u32) -> Owner {
    Owner::new(FlowId::of(SocketId::default()), charge)
}

#[test]
fn frames_cross_and_their_slots_come_back() {
    with_pair(|| {
        let (mut a, mut b) = (open("va"), open("vb"));
        let to = b.caps().ethernet.unwrap();
        let mut back = Vec::new();
        for i in 0..300 {
            assert!(matches!(
                a.submit(Instant::ZERO, frame(to, 46 + i as usize, Some(owner(i)))),
                Submit::Sent
            ));
            a.flush();
            a.completions(&mut back);
        }
        assert_eq!(back.iter().map(|o| o.charge).collect::<Vec<_>>(), (0..300).collect::<Vec<_>>());
        assert_eq!((a.in_flight(), a.counters().frames_out, a.counters().completions), (0, 300, 300));
        let mut frames = Vec::new();
        while b.recv_batch(Instant::ZERO, 64, 1 << 20, &mut frames).unwrap() {}
        let ours: Vec<_> = frames.iter().filter(|p| p.payload[12..14] == [0x88, 0xb5]).collect();
        assert_eq!(ours.len(), 300);
        assert_eq!(ours[299].len(), 14 + 46 + 299);
    });
}

/// Pairs take 65,535 bytes and so does `lo`, a slot does not; and `lo` takes less than any packet of IPv4 has.
#[test]
fn the_mtu_is_one_that_a_slot_takes_and_ipv4_as_well() {
    with_pair(|| {
        let mut a = open("va");
        Link::by_name("va").unwrap().set_mtu(65_535).unwrap();
        let told = a.new_mtu(true).unwrap();
        assert_eq!((told, a.caps().mtu, open("va").caps().mtu), (65_480, 65_480, 65_480));
        let mut full = |len| a.submit(Instant::ZERO, frame([2, 0, 0, 0, 0, 9], len, None));
        assert!(matches!(full(told.into()), Submit::Sent));
        assert!(matches!(full(usize::from(told) + 1), Submit::Dropped));
        let lo = Link::by_name("lo").unwrap();
        lo.up().unwrap();
        let mut lower = open("lo");
        lo.set_mtu(60).unwrap();
        assert_eq!((lower.new_mtu(true), lower.caps().mtu), (Some(68), 68));
    });
}

#[test]
fn what_the_kernel_would_drop_without_a_word_is_dropped_and_counted() {
    with_pair(|| {
        let mut a = open("va");
        let to = [2, 0, 0, 0, 0, 9];
        assert!(matches!(a.submit(Instant::ZERO, frame(to, 1_501, Some(owner(1)))), Submit::Dropped));
        let short = Packet::received(Bytes::from_static(&[0; 13]), Offload::default(), Instant::ZERO);
        assert!(matches!(a.submit(Instant::ZERO, short), Submit::Dropped));
        assert!(matches!(a.submit(Instant::ZERO, frame(to, 1_500, None)), Submit::Sent));
        assert_eq!((a.counters().dropped, a.counters().frames_out, a.in_flight()), (2, 1, 1));
    });
}

#[test]
fn the_owners_of_an_interface_that_is_gone_come_back() {
    with_pair(|| {
        command("tc qdisc add dev va root tbf rate 8kbit burst 200 limit 100000");
        let mut a = open("va");
        for i in 0..10 {
            assert!(matches!(
                a.submit(Instant::ZERO, frame([2, 0, 0, 0, 0, 9], 100, Some(owner(i)))),
                Submit::Sent
            ));
        }
        a.flush();
        let mut back = Vec::new();
        a.completions(&mut back);
        assert!(back.len() < 10);
        a.abandon(&mut back);
        a.abandon(&mut back);
        assert_eq!(back.iter().map(|o| o.charge).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    });
}

/// Both begin with ENETDOWN, and what had come before is read.
#[test]
fn an_interface_that_is_deleted_is_an_error_and_one_that_is_down_is_not() {
    with_pair(|| {
        let (mut a, mut b) = (open("va"), open("vb"));
        let to = a.caps().ethernet.unwrap();
        assert!(matches!(b.submit(Instant::ZERO, frame(to, 46, None)), Submit::Sent));
        b.flush();
        let mut frames = Vec::new();
        let mut ours = |a: &mut PacketDevice| {
            let read = a.recv_batch(Instant::ZERO, 64, 1 << 20, &mut frames);
            read.map(|_| frames.iter().filter(|p| p.payload[12..14] == [0x88, 0xb5]).count())
        };
        command("ip link set va down");
        for _ in 0..3 {
            assert_eq!(ours(&mut a).unwrap(), 1);
        }
        command("ip link del va");
        let end = ours(&mut a).unwrap_err();
        assert!(
            end.kind() == std::io::ErrorKind::NotFound && end.to_string().contains("va is gone"),
            "{end}"
        );
    });
}

/// Whatever its fate is: down, under another name, up again, in another namespace.
#[test]
fn an_interface_that_was_down_is_asked_for_when_there_is_news() {
    with_pair(|| {
        let mut a = open("va");
        let mut read = |after: &str| {
            command(after);
            let mut all = || -> std::io::Result<()> {
                for _ in 0..100 {
                    while a.recv_batch(Instant::ZERO, 64, 1 << 20, &mut Vec::new())? {}
                }
                Ok(())
            };
            (all().map_err(|e| e.kind()), a.input.asked)
        };
        assert_eq!(read("ip link set vb up"), (Ok(()), 0));
        assert_eq!(read("ip link set va down"), (Ok(()), 1));
        assert_eq!(read("ip link set va name vc"), (Ok(()), 1));
        assert_eq!(read("ip link set vc up"), (Ok(()), 1));
        assert_eq!(read("ip link set vc down"), (Ok(()), 2));
        let other = NetNs::new().unwrap();
        let place = format!("/proc/{}/fd/{}", std::process::id(), other.as_fd().as_raw_fd());
        let moved = read(&format!("ip link set vc netns {place}"));
        assert_eq!(moved, (Err(std::io::ErrorKind::NotFound), 3));
    });
}

/// A bridge calls a port that it loses deleted, too. Whatever came to the watch in vain would wake somebody.
#[test]
fn an_interface_that_leaves_a_bridge_is_not_gone() {
    with_pair(|| {
        let mut a = open("va");
        let mut poller = Poller::new().unwrap();
        poller.add(a.watch_fd(), 7, Interest::News).unwrap();
        let mut told = || {
            let mut ready = Vec::new();
            poller.wait_for(Some(Duration::ZERO), &mut ready).unwrap();
            ready.len()
        };
        command("ip link add br0 type bridge");
        for _ in 0..2 {
            command("ip link set va master br0");
            command("ip link set va nomaster");
            assert_eq!(told(), 0);
            while a.recv_batch(Instant::ZERO, 64, 1 << 20, &mut Vec::new()).unwrap() {}
        }
        command("ip link del va");
        assert_eq!(told(), 1);
        let end = a.recv_batch(Instant::ZERO, 64, 1 << 20, &mut Vec::new()).unwrap_err();
        assert_eq!(end.kind(), std::io::ErrorKind::NotFound);
    });
}

#[test]
fn frames_of_virtual_lans_are_not_taken_for_the_interfaces_own() {
    with_pair(|| {
        let (mut a, mut b) = (open("va"), open("vb"));
        let to = b.caps().ethernet.unwrap();
        // VLAN 5, priority 7 without a VLAN, and no tag.
        for tag in [&[0x81, 0, 0, 5][..], &[0x81, 0, 0xe0, 0], &[]] {
            let mut bytes = frame(to, 60, None).payload.to_vec();
            bytes.splice(12..12, tag.iter().copied());
            let packet = Packet::received(Bytes::from(bytes), Offload::default(), Instant::ZERO);
            assert!(matches!(a.submit(Instant::ZERO, packet), Submit::Sent));
        }
        a.flush();
        let mut frames = Vec::new();
        while b.recv_batch(Instant::ZERO, 64, 1 << 20, &mut frames).unwrap() {}
        assert_eq!(frames.iter().filter(|p| p.payload[12..14] == [0x88, 0xb5]).count(), 2);
    });
}

fn open(name: &str) -> PacketDevice {
    PacketDevice::open(&PacketOptions { bql: false, ..PacketOptions::new(name) }).unwrap()
}

/// Pairs of interfaces filter nothing, cards do: by what the kernel tells them.
#[test]
fn frames_to_all_groups_are_asked_for_as_long_as_it_is_open() {
    with_pair(|| {
        let says = |word: &str| {
            let output = Command::new("ip").args(["-d", "link", "show", "va"]).output().unwrap();
            String::from_utf8(output.stdout).unwrap().contains(word)
        };
        let asks = || says("allmulti 1");
        if !says("allmulti 0") {
            eprintln!("skipped: this ip does not tell of \"allmulti\"");
            return;
        }
        let a = open("va");
        assert!(asks());
        drop(a);
        // What another test starts at this moment holds a copy of the descriptor until its exec().
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while asks() {
            assert!(std::time::Instant::now() < until, "still asked for, long after the end");
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

#[test]
fn what_waits_in_the_kernels_queue_keeps_its_slot() {
    with_pair(|| {
        // A token bucket that lets one small frame pass and then almost nothing.
        command("tc qdisc add dev va root tbf rate 8kbit burst 200 limit 100000");
        let mut a =
            PacketDevice::open(&PacketOptions { slots: 16, bql: false, ..PacketOptions::new("va") }).unwrap();
        let to = [2, 0, 0, 0, 0, 9];
        for i in 0..16 {
            let answer = a.submit(Instant::ZERO, frame(to, 100, Some(owner(i))));
            assert_eq!(matches!(answer, Submit::Filled), i == 15, "the last slot fills it");
            assert!(matches!(answer, Submit::Sent | Submit::Filled));
        }
        a.flush();
        let mut back = Vec::new();
        a.completions(&mut back);
        assert!(back.len() < 4, "{back:?}");
        // The ring is full but for those: not now, and the frame comes back whole.
        let mut more = 0;
        let refused = loop {
            match a.submit(Instant::ZERO, frame(to, 100, None)) {
                Submit::NotNow(packet) => break packet,
                _ => more += 1,
            }
        };
        assert_eq!((more, refused.len(), a.counters().not_now), (back.len(), 114, 1));
        assert_eq!(a.in_flight(), 16);
        // With the queue its frames go, and each slot and each owner comes back, once.
        command("tc qdisc del dev va root");
        a.flush();
        a.completions(&mut back);
        back.sort_by_key(|o| o.charge);
        assert_eq!(back.iter().map(|o| o.charge).collect::<Vec<_>>(), (0..16).collect::<Vec<_>>());
        assert_eq!(a.in_flight(), 0);
    });
}

/// Who may have no larger send buffer than the host allows (CAP_NET_ADMIN may): the kernel takes what fits, and says that all is well.
#[test]
fn what_the_send_buffer_had_no_room_for_is_started_again() {
    with_pair(|| {
        // Super-packets pass uncut, one at first.
        command("tc qdisc add dev va root tbf rate 8kbit burst 70000 limit 100000000");
        let options = PacketOptions { slots: 256, bql: false, ..PacketOptions::new("va") };
        let mut a = PacketDevice::open(&options).unwrap();
        // The kernel doubles it.
        option(&a.output, libc::SOL_SOCKET, libc::SO_SNDBUF, 100_000).unwrap();
        let mut bytes = vec![0; 14 + 60_000];
        bytes[12..14].copy_from_slice(&[8, 0]);
        (bytes[14], bytes[14 + 9], bytes[14 + 20 + 12]) = (0x45, 6, 5 << 4);
        bytes[14 + 2..14 + 4].copy_from_slice(&60_000_u16.to_be_bytes());
        let csum = Csum::Partial { start: 20, offset: 16 };
        let offload = Offload { gso: GsoKind::Tcp4, gso_size: 1_000, csum, ..Offload::default() };
        let packet = Packet::received(bytes.into(), offload, Instant::ZERO);
        for _ in 0..255 {
            assert!(matches!(a.submit(Instant::ZERO, packet.clone()), Submit::Sent));
        }
        a.flush();
        assert!(a.needs_flush(), "15 MB fit no buffer of 200 kB");
        command("tc qdisc del dev va root");
        let end = std::time::Instant::now() + Duration::from_secs(10);
        let mut left = (true, 255);
        while left != (false, 0) && std::time::Instant::now() < end {
            a.flush();
            a.completions(&mut Vec::new());
            left = (a.needs_flush(), a.in_flight());
        }
        assert_eq!(left, (false, 0));
    });
}

#[test]
fn byte_queue_limits_hold_the_ring_short() {
    with_pair(|| {
        command("tc qdisc add dev va root tbf rate 8kbit burst 200 limit 100000");
        let mut a = PacketDevice::open(&PacketOptions::new("va")).unwrap();
        let mut submit = || a.submit(Instant::ZERO, frame([2, 0, 0, 0, 0, 9], 1_000, None));
        assert!(matches!(submit(), Submit::Filled), "one packet before anything is known");
        assert!(matches!(submit(), Submit::NotNow(_)));
        assert_eq!(a.bql_limit(), Some(0));
    });
}

#[test]
fn what_cannot_be_opened_is_said() {
    with_pair(|| {
        let open = |options: PacketOptions| PacketDevice::open(&options).map(drop).unwrap_err();
        assert!(matches!(open(PacketOptions::new("vx")), SetupError::NoSuchLink { .. }));
        assert!(
            open(PacketOptions { slots: 7, ..PacketOptions::new("va") }).to_string().contains("8 to 4096")
        );
        command("ip link set va down");
        assert!(open(PacketOptions::new("va")).to_string().contains("on va"));
    });
}
