//! Tests of frames in and out, over a pair of sockets instead of a device: no privileges needed.
use super::*;
use bytes::Bytes;
use lowwater_core::base::{FlowId, Instant, SocketId};
use lowwater_core::device::{Device as _, Submit};
use lowwater_core::packet::{Csum, GsoKind, Offload, Owner};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::sync::{Arc, Mutex};

/// A queue whose device is the other socket.
fn pair(vnet: bool) -> (Tun, OwnedFd) {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    (Tun::over(a, "pair".into(), Layer::Ip, vnet, 1_500), b)
}

fn give(device: &OwnedFd, header: &[u8], frame: &[u8]) {
    rustix::io::write(device, &[header, frame].concat()).unwrap();
}

fn v4(len: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..len).map(|i| i as u8).collect();
    frame[0] = 0x45;
    frame
}

const PLAIN: [u8; 12] = [0; 12];

#[test]
fn small_frames_are_copied_and_large_ones_are_not() {
    let (mut tun, device) = pair(true);
    for (len, copied) in [(40, 1), (2_048, 2), (32_000, 3), (33_000, 3), (65_535, 3)] {
        let frame = v4(len);
        give(&device, &PLAIN, &frame);
        let at = Instant::from_millis(7);
        let packet = tun.recv(at).unwrap().unwrap();
        assert_eq!((packet.payload.as_ref(), packet.at, packet.head.len()), (&frame[..], at, 0));
        assert_eq!((packet.offload, packet.owner), (Offload::default(), None));
        assert_eq!(tun.counters().copied, copied, "{len} bytes");
    }
    assert!(tun.recv(Instant::ZERO).unwrap().is_none());
    assert_eq!(tun.counters().frames_in, 5);
}

#[test]
fn frames_that_are_still_held_stay_intact() {
    let (mut tun, device) = pair(true);
    let held: Vec<(u8, Bytes)> = (0..40)
        .map(|n| {
            let mut frame = v4(60_000);
            frame[1..].fill(n);
            give(&device, &PLAIN, &frame);
            (n, tun.recv(Instant::ZERO).unwrap().unwrap().payload)
        })
        .collect();
    for (n, frame) in &held {
        assert!(frame[1..].iter().all(|b| b == n), "frame {n}");
    }
}

#[test]
fn malformed_headers_are_counted_and_passed_over() {
    let (mut tun, device) = pair(true);
    let mut beyond_the_end = PLAIN;
    beyond_the_end[0] = 1;
    beyond_the_end[6..8].copy_from_slice(&500u16.to_le_bytes());
    give(&device, &beyond_the_end, &v4(100));
    give(&device, &[], &[1, 2, 3]);
    give(&device, &PLAIN, &[]);
    give(&device, &PLAIN, &v4(50));
    let packet = tun.recv(Instant::ZERO).unwrap().unwrap();
    assert_eq!((packet.len(), tun.counters().malformed), (50, 3));

    give(&device, &beyond_the_end, &v4(100));
    give(&device, &PLAIN, &v4(51));
    let mut batch = Vec::new();
    assert!(!tun.recv_batch(Instant::ZERO, 8, usize::MAX, &mut batch).unwrap());
    assert_eq!((batch.len(), batch[0].len()), (1, 51));
}

#[test]
fn batches_end_at_their_bounds() {
    let (mut tun, device) = pair(false);
    for n in 0..6 {
        give(&device, &[], &v4(20 + n));
    }
    let (at, mut batch) = (Instant::from_millis(3), Vec::new());
    assert!(tun.recv_batch(at, 2, usize::MAX, &mut batch).unwrap());
    assert!(tun.recv_batch(at, 64, 40, &mut batch).unwrap(), "more than 40 bytes end it");
    assert!(!tun.recv_batch(at, 64, usize::MAX, &mut batch).unwrap());
    assert_eq!(batch.iter().map(Packet::len).collect::<Vec<_>>(), [20, 21, 22, 23, 24, 25]);
    assert!(batch.iter().all(|packet| packet.at == at));
}

#[test]
fn single_frames_are_taken_without_looking_for_a_second_and_a_second_is_found_soon() {
    let (mut tun, device) = pair(false);
    let mut batch = Vec::new();
    let mut recv = |tun: &mut Tun| {
        let more = tun.recv_batch(Instant::ZERO, 64, usize::MAX, &mut batch).unwrap();
        (std::mem::take(&mut batch).len(), more)
    };
    give(&device, &[], &v4(20));
    assert_eq!(recv(&mut tun), (1, false), "a second is looked for");
    for _ in 0..100 {
        give(&device, &[], &v4(20));
    }
    let (mut batches, mut frames) = (0, 0);
    while frames < 100 {
        let (n, more) = recv(&mut tun);
        assert!(n > 0, "a descriptor that is readable gives a frame");
        frames += n;
        batches += 1 + usize::from(more);
    }
    assert!(batches <= 18, "{batches} batches");
    assert_eq!(recv(&mut tun), (0, false));
}

/// Who looks for an answer meets nothing many times before it comes.
#[test]
fn looks_in_vain_leave_single_frames_single() {
    let (mut tun, device) = pair(false);
    let mut batch = Vec::new();
    let mut recv = |tun: &mut Tun| {
        tun.recv_batch(Instant::ZERO, 64, usize::MAX, &mut batch).unwrap();
        std::mem::take(&mut batch).len()
    };
    give(&device, &[], &v4(20));
    assert_eq!((recv(&mut tun), recv(&mut tun), recv(&mut tun)), (1, 0, 0));
    give(&device, &[], &v4(20));
    give(&device, &[], &v4(20));
    assert_eq!((recv(&mut tun), recv(&mut tun)), (1, 1), "the second was not looked for");
}

#[test]
fn not_now_returns_the_packet_untouched() {
    let (mut tun, device) = pair(true);
    let payload = Bytes::from(v4(30_000));
    let mut packet = Packet::received(payload.clone(), Offload::default(), Instant::from_micros(5));
    packet.head.prepend(20).fill(0x45);
    packet.owner = Some(Owner::new(FlowId::of(SocketId::default()), 30_100));
    packet.offload = Offload {
        gso: GsoKind::Tcp4,
        gso_size: 1_400,
        csum: Csum::Partial { start: 20, offset: 16 },
        ..Offload::default()
    };
    let back = loop {
        match tun.submit(Instant::ZERO, packet.clone()) {
            Submit::Completed => {}
            Submit::NotNow(back) => break back,
            Submit::Sent | Submit::Filled | Submit::Dropped => panic!("a full device is no loss"),
        }
    };
    assert_eq!(
        (back.to_bytes(), back.owner, back.offload),
        (packet.to_bytes(), packet.owner, packet.offload)
    );
    assert_eq!(back.payload.as_ptr(), payload.as_ptr());
    assert_eq!(tun.counters().not_now, 1);
    let mut bytes = vec![0; 70_000];
    let (len, _) = rustix::io::read(&device, &mut bytes).map(|n| (n, ())).unwrap();
    assert_eq!(bytes[12..len], packet.to_bytes()[..]);
    while rustix::io::read(&device, &mut bytes).is_ok() {}
    assert!(matches!(tun.submit(Instant::ZERO, back), Submit::Completed));
}

#[test]
fn a_device_that_is_gone_drops() {
    let (mut tun, device) = pair(false);
    drop(device);
    let packet = || Packet::received(v4(40).into(), Offload::default(), Instant::ZERO);
    // What another test starts at this moment holds a copy of the descriptor until its exec().
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !matches!(tun.submit(Instant::ZERO, packet()), Submit::Dropped) {
        assert!(std::time::Instant::now() < until, "a device that is gone still takes packets");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(tun.counters().dropped, 1);
}

#[test]
fn the_observer_sees_what_passes_and_nothing_else() {
    let (mut tun, device) = pair(true);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    tun.observe(Some(Box::new(move |way, packet| log.lock().unwrap().push((way, packet.len())))));
    give(&device, &PLAIN, &v4(77));
    give(&device, &[1; 12], &v4(20));
    let packet = tun.recv(Instant::ZERO).unwrap().unwrap();
    assert!(tun.recv(Instant::ZERO).unwrap().is_none());
    assert!(matches!(tun.submit(Instant::ZERO, packet), Submit::Completed));
    assert_eq!(*seen.lock().unwrap(), [(Direction::In, 77), (Direction::Out, 77)]);
}

#[test]
fn names_are_checked_before_the_kernel_sees_them() {
    for name in ["a/b", "with space", "a:b", ".", "..", "0123456789abcdef", "nul\0"] {
        let e = Tun::open(&TunOptions::new(name)).unwrap_err();
        assert!(matches!(e, SetupError::BadName { .. }), "{name:?}: {e}");
    }
    let none = Tun::open_queues(&TunOptions::new("x"), 0).unwrap_err();
    assert!(none.to_string().contains("1 to 256"), "{none}");
}

#[test]
fn a_socket_is_no_device() {
    let (a, _b) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::empty(), None).unwrap();
    assert!(Tun::from_fd(a, 1_500).is_err());
}

#[test]
fn handles_may_move_between_threads() {
    fn send<T: Send>() {}
    fn shared<T: Send + Sync>() {}
    send::<Tun>();
    send::<crate::Link>();
    send::<crate::Poller>();
    shared::<crate::Waker>();
    shared::<crate::netns::NetNs>();
}
