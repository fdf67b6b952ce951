//! Devices whose MTU changes under a transfer: an administrator does that, or a tunnel whose path has changed. Those of the kernel stand in network
//! namespaces that each test makes.
use lowwater::blocking::{TcpListener, TcpStream};
use lowwater::core::base::{Instant as At, Rng};
use lowwater::core::device::{Device as _, Submit};
use lowwater::core::packet::{Offload, Packet};
use lowwater::link::{self, Link, QueueLimit};
use lowwater::port::{NotNow, Port as _};
use lowwater::shard;
use lowwater::{Direction, Observer, PacketOptions, Stack, TunOptions};
use lowwater_os::netns::{NetNs, net_admin};
use lowwater_os::{Layer, Link as KernelLink, Tun};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Headers of a segment over IPv4 with timestamps.
const HEADERS: usize = 52;
const ETHERNET: usize = 14;
/// A transfer that stands still for so long has failed, and ends.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(10));

fn command(line: &str) {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

fn at(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), port)
}

/// Payload of the segments that have left, those of a super-packet once.
#[derive(Clone, Default)]
struct Segments(Arc<Mutex<Vec<usize>>>);

impl Segments {
    fn observer(&self, link_len: usize) -> Observer {
        let segments = self.0.clone();
        Box::new(move |_, direction, packet| {
            if direction == Direction::Out {
                segments.lock().unwrap().extend(payload(packet, link_len));
            }
        })
    }

    /// Waits until the last hundred segments that were full are those of this MTU.
    fn reach(&self, mtu: usize) {
        let (full, end) = (mtu - HEADERS, Instant::now() + Duration::from_secs(20));
        let reached = |all: &[usize]| {
            let large: Vec<usize> = all.iter().copied().filter(|len| *len >= 500).collect();
            let last = large.last_chunk::<100>();
            last.is_some_and(|last| {
                last.iter().all(|len| *len <= full) && last.iter().filter(|len| **len == full).count() > 10
            })
        };
        self.0.lock().unwrap().clear();
        while !reached(&self.0.lock().unwrap()) {
            let last = || self.0.lock().unwrap().last().copied();
            assert!(Instant::now() < end, "an MTU of {mtu}: the last segment has {:?} bytes", last());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Bytes of data of a segment of TCP over IPv4.
fn payload(packet: &Packet, link_len: usize) -> Option<usize> {
    if packet.offload.gso_size > 0 {
        return Some(packet.offload.gso_size.into());
    }
    let bytes = packet.to_bytes();
    let ip = &bytes[link_len..];
    let tcp = ip.get(20..).filter(|_| ip[0] == 0x45 && ip[9] == 6)?;
    Some(tcp.len() - usize::from(tcp[12] >> 4) * 4)
}

/// Bytes that only their place decides.
fn pattern(from: u64, len: usize) -> Vec<u8> {
    (from..).take(len).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Sends until it is told to stop, and says how much it was.
fn send(mut to: impl Write, stop: &AtomicBool) -> u64 {
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        to.write_all(&pattern(sent, 16_384)).unwrap();
        sent += 16_384;
    }
    sent
}

/// Reads to the end, and says how much it was; all of it is what was sent.
fn receive(mut from: impl Read) -> u64 {
    let (mut got, mut block) = (0, vec![0; 65_536]);
    loop {
        let n = from.read(&mut block).unwrap();
        if n == 0 {
            return got;
        }
        assert!(block[..n] == pattern(got, n), "changed on the way, {got} bytes from the beginning");
        got += n as u64;
    }
}

/// A transfer over a device of 1,500 bytes, which has 1,200 after a while and 1,400 then.
fn transfer(client: &TcpStream, server: impl Read + Send, segments: &Segments, set_mtu: impl Fn(usize)) {
    let stop = AtomicBool::new(false);
    client.set_write_timeout(PATIENCE).unwrap();
    thread::scope(|scope| {
        let sender = scope.spawn(|| send(client, &stop));
        let receiver = scope.spawn(|| receive(server));
        // Whatever fails below: the sender ends.
        let _stop = Stop(&stop);
        segments.reach(1_500);
        set_mtu(1_200);
        segments.reach(1_200);
        set_mtu(1_400);
        segments.reach(1_400);
        stop.store(true, Ordering::Relaxed);
        let sent = sender.join().unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(receiver.join().unwrap(), sent);
    });
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The same with the kernel's TCP as receiver, of which `far` makes the listener.
fn to_the_kernel(stack: &Stack, listener: &std::net::TcpListener, segments: &Segments, set: impl Fn(usize)) {
    let client = TcpStream::connect(stack, listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    server.set_read_timeout(PATIENCE).unwrap();
    transfer(&client, server, segments, set);
}

#[test]
fn a_transfer_over_a_tun_or_a_tap_follows_its_mtu() {
    if !net_admin() {
        return;
    }
    for (layer, link_len, offload) in
        [(Layer::Ip, 0, true), (Layer::Ip, 0, false), (Layer::Ethernet, ETHERNET, true)]
    {
        NetNs::new().unwrap().run(|| {
            let segments = Segments::default();
            let stack = Stack::builder()
                .tun_with(TunOptions { layer, offload, ..TunOptions::new("lw0") })
                .address("10.77.0.2/24")
                .host_address("10.77.0.1/24")
                .observe(segments.observer(link_len))
                .build()
                .unwrap();
            let listener = std::net::TcpListener::bind(at("10.77.0.1", 0)).unwrap();
            to_the_kernel(&stack, &listener, &segments, |mtu| {
                command(&format!("ip link set lw0 mtu {mtu}"));
            });
        });
    }
}

#[test]
fn a_transfer_over_a_network_interface_follows_its_mtu() {
    if !net_admin() {
        return;
    }
    for offload in [true, false] {
        let (near, far) = (NetNs::new().unwrap(), NetNs::new().unwrap());
        let place = format!("/proc/{}/fd/{}", std::process::id(), far.as_fd().as_raw_fd());
        near.run(|| {
            command(&format!("ip link add va type veth peer name vb netns {place}"));
            command("ip link set va up");
        });
        far.run(|| {
            command("ip addr add 10.78.0.1/24 dev vb");
            command("ip link set vb up");
        });
        let segments = Segments::default();
        let builder = Stack::builder()
            .packet_with(PacketOptions { offload, ..PacketOptions::new("va") })
            .address("10.78.0.2/24")
            .observe(segments.observer(ETHERNET));
        let stack = near.run(|| builder.build().unwrap());
        let listener = far.run(|| std::net::TcpListener::bind(at("10.78.0.1", 0))).unwrap();
        to_the_kernel(&stack, &listener, &segments, |mtu| {
            near.run(|| command(&format!("ip link set va mtu {mtu}")));
        });
    }
}

/// Two changes at once, of which the second comes sooner than the stack would look by itself. That a sleeping one is told of each is another test's
/// (`a_device_whose_descriptor_tells_of_news_is_asked_for_them`): nothing here shows whether it slept.
#[test]
fn changes_that_follow_one_another_end_with_the_last() {
    if !net_admin() {
        return;
    }
    NetNs::new().unwrap().run(|| {
        let stack = Stack::builder()
            .tun_with(TunOptions::new("lw0"))
            .address("10.77.0.2/24")
            .host_address("10.77.0.1/24")
            .build()
            .unwrap();
        let listener = std::net::TcpListener::bind(at("10.77.0.1", 0)).unwrap();
        let mut client = TcpStream::connect(&stack, listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let lw0 = KernelLink::by_name("lw0").unwrap();
        let mut cross = || {
            client.write_all(&pattern(0, 4_000)).unwrap();
            let mut got = vec![0; 4_000];
            server.read_exact(&mut got).unwrap();
            assert!(got == pattern(0, 4_000));
            client.info().unwrap().snd_mss as usize + HEADERS
        };
        assert_eq!(cross(), 1_500);
        for (first, then) in [(1_300, 1_100), (1_200, 1_400)] {
            for mtu in [first, then] {
                lw0.set_mtu(mtu).unwrap();
            }
            let until = Instant::now() + Duration::from_secs(20);
            while cross() != then as usize {
                assert!(Instant::now() < until, "an MTU of {then}: segments of one of {}", cross());
                thread::sleep(Duration::from_millis(5));
            }
        }
    });
}

/// What somebody with more privileges has attached is followed where that is asked for.
#[test]
fn a_descriptor_that_was_handed_over_keeps_the_mtu_that_was_said() {
    if !net_admin() {
        return;
    }
    NetNs::new().unwrap().run(|| {
        let made = Tun::open(&TunOptions::new("lw0")).unwrap();
        let fd = made.as_fd().try_clone_to_owned().unwrap();
        let mut tun = Tun::from_fd(fd, 1_500).unwrap();
        let lw0 = KernelLink::by_name("lw0").unwrap();
        lw0.set_mtu(1_400).unwrap();
        assert_eq!((tun.new_mtu(), tun.mtu()), (None, 1_500));
        tun.follow().unwrap();
        assert_eq!((tun.new_mtu(), tun.new_mtu(), tun.mtu()), (Some(1_400), None, 1_400));
        assert_eq!(tun.caps().mtu, 1_400);
    });
}

/// Packets from one link to the other, until one of them ends.
fn carry(from: &Link, to: &Link) {
    while let Some(packet) = from.recv_blocking() {
        if to.send_blocking(&packet.bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn a_transfer_over_a_link_of_the_program_follows_its_mtu() {
    let limit = QueueLimit::default();
    let ((port_a, a), (port_b, b)) = (link::owned(1_500, limit), link::owned(1_500, limit));
    for (from, to) in [(a.clone(), b.clone()), (b, a.clone())] {
        thread::spawn(move || carry(&from, &to));
    }
    let segments = Segments::default();
    let builder = Stack::builder().device(port_a).address("10.0.0.1/24");
    let client = builder.observe(segments.observer(0)).build().unwrap();
    let server = Stack::builder().device(port_b).address("10.0.0.2/24").build().unwrap();
    let listener = TcpListener::bind(&server, at("10.0.0.2", 80)).unwrap();
    let client = TcpStream::connect(&client, at("10.0.0.2", 80)).unwrap();
    let (server, _) = listener.accept().unwrap();
    server.set_read_timeout(PATIENCE).unwrap();
    transfer(&client, server, &segments, |mtu| a.set_mtu(mtu as u16).unwrap());
    assert!(a.set_mtu(67).is_err());
}

/// Whoever has lowered a link need not expect what is longer, and hears that nobody follows any more.
#[test]
fn a_link_takes_nothing_longer_from_the_moment_its_mtu_is_lowered() {
    let (mut port, link) = link::owned(1_500, QueueLimit::default());
    let packet = |len: usize| {
        let bytes = vec![0x45; len].into();
        Packet::received(bytes, Offload::default(), At::ZERO)
    };
    let takes = |port: &mut link::OwnedPort, len| matches!(port.submit(At::ZERO, packet(len)), Submit::Sent);
    assert!(takes(&mut port, 1_500));
    link.set_mtu(1_400).unwrap();
    assert!(!takes(&mut port, 1_401) && takes(&mut port, 1_400));
    assert_eq!((port.new_mtu(false), port.new_mtu(false)), (Some(1_400), None));
    link.set_mtu(1_450).unwrap();
    assert_eq!(port.new_mtu(false), Some(1_450));
    assert!(takes(&mut port, 1_450));
    // There and back between two looks.
    link.set_mtu(1_300).unwrap();
    link.set_mtu(1_450).unwrap();
    assert_eq!(port.new_mtu(false), None);
    assert!(takes(&mut port, 1_450));
    // Above its first one: once the stack has heard of it.
    link.set_mtu(9_000).unwrap();
    assert!(!takes(&mut port, 1_451));
    assert_eq!(port.new_mtu(false), Some(9_000));
    assert!(takes(&mut port, 9_000) && !takes(&mut port, 9_001));
    drop(port);
    assert!(link.set_mtu(1_400).is_err());
}

/// What stands between a stack and its device passes on how its MTU has changed.
#[test]
fn a_port_inside_of_another_tells_of_its_mtu() {
    let (port, link) = link::owned(1_500, QueueLimit::default());
    let not_now = NotNow::new(port, Rng::new(1), 0);
    let mut shards = shard::shards(vec![not_now], (1, 2));
    let (port, _) = &mut shards[0];
    for mtu in [1_400, 9_000] {
        link.set_mtu(mtu).unwrap();
        assert_eq!((port.new_mtu(false), port.new_mtu(false)), (Some(mtu), None));
        let packet = |len| Packet::received(vec![0x45; len].into(), Offload::default(), At::ZERO);
        let mtu = usize::from(mtu);
        assert!(matches!(port.submit(At::ZERO, packet(mtu)), Submit::Sent));
        assert!(!matches!(port.submit(At::ZERO, packet(mtu + 1)), Submit::Sent));
    }
}
