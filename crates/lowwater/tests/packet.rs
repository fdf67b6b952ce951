//! The stack on a network interface of the kernel (AF_PACKET), against the kernel's TCP behind a pair of interfaces, each test
//! in namespaces that it makes.
use lowwater::blocking::{SctpListener, TcpListener, TcpStream, UdpSocket};
use lowwater::core::device::{Device as _, Submit};
use lowwater::core::packet::{Csum, Offload, Packet};
use lowwater::{PacketOptions, Stack};
use lowwater_os::netns::{NetNs, net_admin};
use lowwater_os::socket::setsockopt;
use lowwater_os::{Link, PacketDevice};
use lowwater_wire::checksum::checksum;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const STACK: &str = "10.78.0.2";
const KERNEL: &str = "10.78.0.1";
const MIB: usize = 1 << 20;

fn command(line: &str) -> String {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The stack's side with interface `va` and no address of the kernel's, and the kernel's side.
struct World {
    near: NetNs,
    far: NetNs,
}

impl World {
    fn new() -> Self {
        let world = Self { near: NetNs::new().unwrap(), far: NetNs::new().unwrap() };
        let place = format!("/proc/{}/fd/{}", std::process::id(), world.far.as_fd().as_raw_fd());
        world.near.run(|| {
            command(&format!("ip link add va type veth peer name vb netns {place}"));
            command("ip link set va up");
        });
        world.far.run(|| {
            command(&format!("ip addr add {KERNEL}/24 dev vb"));
            command("ip link set vb up");
        });
        world
    }

    fn stack(&self, options: PacketOptions) -> Stack {
        self.stack_with(options, &[])
    }

    fn stack_with(&self, options: PacketOptions, sysctls: &[(&str, &str)]) -> Stack {
        let builder = Stack::builder().packet_with(options).address(&format!("{STACK}/24"));
        let builder = sysctls.iter().fold(builder, |builder, (name, value)| builder.sysctl(name, value));
        self.near.run(|| builder.build().unwrap())
    }
}

fn at(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), port)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn bytes_cross_both_ways() {
    if !net_admin() {
        return;
    }
    let world = World::new();
    // The neighbour's checksums are unfinished in any case.
    for offload in [true, false] {
        cross(&world, PacketOptions { offload, ..PacketOptions::new("va") });
    }
}

fn cross(world: &World, options: PacketOptions) {
    let stack = world.stack(options);
    let data = pattern(16 * MIB);
    let listener = world.far.run(|| std::net::TcpListener::bind(at(KERNEL, 0))).unwrap();
    let there = listener.local_addr().unwrap();
    let kernel = thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let mut got = Vec::new();
        peer.read_to_end(&mut got).unwrap();
        peer.write_all(&got).unwrap();
    });
    let mut ours = TcpStream::connect(&stack, there).unwrap();
    ours.write_all(&data).unwrap();
    ours.shutdown(Shutdown::Write).unwrap();
    let mut echoed = Vec::new();
    ours.read_to_end(&mut echoed).unwrap();
    kernel.join().unwrap();
    assert!(echoed == data, "{} bytes came back changed", echoed.len());
}

#[test]
fn the_kernel_connects_to_us() {
    if !net_admin() {
        return;
    }
    let world = World::new();
    let stack = world.stack(PacketOptions::new("va"));
    let listener = TcpListener::bind(&stack, at(STACK, 7)).unwrap();
    let server = thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let mut text = String::new();
        peer.read_to_string(&mut text).unwrap();
        writeln!(text, ", answered").unwrap();
        peer.write_all(text.as_bytes()).unwrap();
    });
    let mut client = world.far.run(|| std::net::TcpStream::connect(at(STACK, 7))).unwrap();
    client.write_all(b"asked").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    server.join().unwrap();
    assert_eq!(text, "asked, answered\n");
}

/// A program of the kernel's hands over many datagrams in one call (UDP_SEGMENT), as those of QUIC do: a pair of interfaces passes them on uncut.
#[test]
fn datagrams_that_were_sent_at_once_arrive_one_by_one() {
    const UDP_SEGMENT: i32 = 103;
    if !net_admin() {
        return;
    }
    let world = World::new();
    world.far.run(|| command("ip addr add fd78::1/64 dev vb nodad"));
    let builder = Stack::builder().packet("va").address(&format!("{STACK}/24")).address("fd78::2/64");
    let stack = world.near.run(|| builder.build().unwrap());
    for (theirs, ours) in [(at(KERNEL, 0), at(STACK, 7)), (at("fd78::1", 0), at("fd78::2", 7))] {
        let socket = UdpSocket::bind(&stack, ours).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let sender = world.far.run(|| std::net::UdpSocket::bind(theirs)).unwrap();
        sender.connect(ours).unwrap();
        let size = 1_000_i32.to_ne_bytes();
        setsockopt(Some(sender.as_fd()), 17, UDP_SEGMENT, Some(&size), 4).unwrap();
        let data = pattern(5_500);
        assert_eq!(sender.send(&data).unwrap(), 5_500);
        for part in data.chunks(1_000) {
            let mut buffer = [0; 9_000];
            let n = socket.recv_from(&mut buffer).unwrap().0;
            assert!(buffer[..n] == *part, "{n} bytes of {}", part.len());
        }
    }
}

/// The kernel's SCTP leaves its CRC32c to a pair of interfaces, which leaves it to nobody. Here a packet socket does as that SCTP: not every kernel has it.
#[test]
fn a_crc_that_was_left_unfinished_on_this_host_is_good() {
    if !net_admin() {
        return;
    }
    let world = World::new();
    let stack = world.stack(PacketOptions::new("va"));
    let _listener = SctpListener::bind(&stack, at(STACK, 7)).unwrap();
    let mut peer = world.far.run(|| PacketDevice::open(&PacketOptions::new("vb"))).unwrap();
    let mut ip = [0x45, 0, 0, 52, 0, 0, 0x40, 0, 64, 132, 0, 0, 10, 78, 0, 1, 10, 78, 0, 2];
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    // Ports 9 and 7, no tag, no CRC32c, and INIT: a tag, a window, one stream each way, a first TSN.
    let init =
        [0, 9, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 20, 1, 2, 3, 4, 0, 1, 0, 0, 0, 1, 0, 1, 5, 6, 7, 8];
    let to = world.near.run(|| Link::by_name("va").unwrap().ethernet().unwrap().unwrap());
    let frame = [&to[..], &peer.caps().ethernet.unwrap(), &[8, 0], &ip, &init].concat();
    let csum = Csum::Partial { start: 20, offset: 8 };
    let packet = Packet::received(frame.into(), Offload { csum, ..Offload::default() }, Default::default());
    assert!(matches!(peer.submit(Default::default(), packet), Submit::Sent | Submit::Filled));
    peer.flush();
    let begun = Instant::now();
    while stack.counters().sctp.in_sctp_packs == 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "it never came");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(stack.counters().sctp.checksum_errors, 0);
}

/// A connection to the kernel, and what its reader hears once nothing more comes.
fn reader(world: &World, stack: &Stack) -> (std::net::TcpStream, thread::JoinHandle<std::io::Result<usize>>) {
    let listener = world.far.run(|| std::net::TcpListener::bind(at(KERNEL, 0))).unwrap();
    let mut ours = TcpStream::connect(stack, listener.local_addr().unwrap()).unwrap();
    let (theirs, _) = listener.accept().unwrap();
    (theirs, thread::spawn(move || ours.read(&mut [0; 16])))
}

/// The kernel says that the interface is down, and of its end nothing: it is asked, and connections need not wait for a timeout.
#[test]
fn an_interface_that_is_deleted_takes_its_connections_along() {
    if !net_admin() {
        return;
    }
    // Another namespace is as far as none.
    let elsewhere = NetNs::new().unwrap();
    let place = format!("/proc/{}/fd/{}", std::process::id(), elsewhere.as_fd().as_raw_fd());
    for words in ["ip link del va", &format!("ip link set va netns {place}")] {
        let world = World::new();
        let stack = world.stack(PacketOptions::new("va"));
        let (_theirs, heard) = reader(&world, &stack);
        world.near.run(|| command(words));
        let begun = Instant::now();
        let end = heard.join().unwrap().unwrap_err();
        assert_eq!(end.kind(), std::io::ErrorKind::NetworkUnreachable, "{words}: {end}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{words}: {:?}", begun.elapsed());
        let why = stack.failure().unwrap();
        assert!(why.contains("the interface va is gone"), "{words}: {why}");
        let next = TcpStream::connect(&stack, at(KERNEL, 9)).unwrap_err();
        assert_eq!(next.kind(), std::io::ErrorKind::NetworkUnreachable, "{words}: {next}");
    }
}

/// An interface that is down is none that is gone, however often that happens, and its end is seen after that, too.
#[test]
fn an_interface_that_goes_down_may_come_back() {
    if !net_admin() {
        return;
    }
    let world = World::new();
    let stack = world.stack(PacketOptions::new("va"));
    for _ in 0..3 {
        let (mut theirs, heard) = reader(&world, &stack);
        world.near.run(|| command("ip link set va down"));
        thread::sleep(Duration::from_millis(100));
        assert_eq!(stack.failure(), None);
        world.near.run(|| command("ip link set va up"));
        theirs.write_all(b"there again").unwrap();
        assert_eq!(heard.join().unwrap().unwrap(), 11);
    }
    let (_theirs, heard) = reader(&world, &stack);
    world.near.run(|| command("ip link del va"));
    assert_eq!(heard.join().unwrap().unwrap_err().kind(), std::io::ErrorKind::NetworkUnreachable);
}

/// A flow that sends through the kernel's queue below the stack.
struct Shaped {
    options: PacketOptions,
    sysctls: &'static [(&'static str, &'static str)],
    mbit: u32,
    /// Before looking, and until the end.
    ms: [u64; 2],
}

/// Backlog in bytes of the kernel's queue after the warm-up: the median of what `tc` shows, and the most.
fn backlog(shaped: Shaped) -> (u64, u64) {
    let Shaped { options, sysctls, mbit, ms } = shaped;
    let world = World::new();
    world.near.run(|| {
        command(&format!(
            "tc qdisc add dev va root handle 1: tbf rate {mbit}mbit burst 70000 limit 100000000"
        ));
        command("tc qdisc add dev va parent 1:1 handle 2: pfifo limit 1000");
    });
    let stack = world.stack_with(options, sysctls);
    let listener = world.far.run(|| std::net::TcpListener::bind(at(KERNEL, 5_001))).unwrap();
    thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let mut buffer = vec![0; MIB];
        while peer.read(&mut buffer).is_ok_and(|n| n > 0) {}
    });
    let mut ours = TcpStream::connect(&stack, at(KERNEL, 5_001)).unwrap();
    let (begun, [warm_up, end]) = (Instant::now(), ms.map(Duration::from_millis));
    let witness = thread::scope(|s| {
        let witness = s.spawn(|| {
            let mut seen = Vec::new();
            while begun.elapsed() < end {
                let text = world.near.run(|| command("tc -s -j qdisc show dev va"));
                let bytes = text.split("\"backlog\":").nth(1).unwrap();
                let bytes: u64 = bytes[..bytes.find(',').unwrap()].parse().unwrap();
                if begun.elapsed() > warm_up {
                    seen.push(bytes);
                }
                thread::sleep(Duration::from_millis(10));
            }
            seen.sort_unstable();
            (seen[seen.len() / 2], seen[seen.len() - 1])
        });
        let block = pattern(256 << 10);
        while begun.elapsed() < end {
            ours.write_all(&block).unwrap();
        }
        witness.join().unwrap()
    });
    stack.shutdown_blocking(Duration::ZERO);
    witness
}

/// A super-packet as the kernel's queueing disciplines count it: with the headers that each of its segments will have.
const COUNTED: u64 = 65_536 + 44 * 66;

/// The kernel's own `tc -s qdisc` is the witness: with small queues no more than two super-packets wait, and the one whose admission
/// exceeded the limit; without them the congestion window does.
#[test]
fn small_queues_hold_the_kernels_queue_short() {
    if !net_admin() {
        return;
    }
    let fast = |options| backlog(Shaped { options, sysctls: &[], mbit: 100, ms: [700, 1_500] }).1;
    let with = fast(PacketOptions::new("va"));
    let without = fast(PacketOptions { orphan: true, slots: 512, bql: false, ..PacketOptions::new("va") });
    assert!((1..=3 * COUNTED).contains(&with), "{with} bytes waited with small queues");
    assert!(without > 3 * with, "{with} bytes waited with small queues, {without} without");
}

/// The kernel's queue with nothing that keeps it short, and with each of the three alone: credit until a frame has left, byte queue
/// limits on the ring, few slots.
#[test]
fn each_of_the_three_alone_holds_the_kernels_queue_shorter() {
    if !net_admin() {
        return;
    }
    let none = PacketOptions { orphan: true, slots: 512, bql: false, ..PacketOptions::new("va") };
    let waits = |name: &str, options| {
        let (median, most) = backlog(Shaped { options, sysctls: &[], mbit: 100, ms: [700, 1_500] });
        println!("{name}: {median} bytes waited, {most} at most");
        (median, most)
    };
    let (before, _) = waits("none", none.clone());
    let (credit, _) = waits("credit", PacketOptions { orphan: false, ..none.clone() });
    let (bql, most) = waits("byte queue limits", PacketOptions { bql: true, ..none.clone() });
    let (slots, _) = waits("slots", PacketOptions { slots: 8, ..none });
    assert!(most > 0 && 3 * bql < before, "{bql} bytes waited with byte queue limits, {before} without");
    assert!(3 * credit < before, "{credit} bytes waited with credit, {before} without");
    // The eight that are in the ring: how much more it is without follows the congestion window.
    assert!(
        slots <= 8 * COUNTED && slots < before,
        "{slots} bytes waited with eight slots, {before} with 512"
    );
}

/// Bytes of a millisecond of the line and the ten that completions are believed to be late by at the most, and the packet that exceeds
/// it: a millisecond again, or a frame.
const fn aware(mbit: u32) -> u64 {
    11 * 125 * mbit as u64 + 2 * 1_514
}

/// The same witness before slow lines: the queue-aware limit holds what waits to what the line takes in milliseconds, where Linux's
/// rule leaves packets that are large because the peer is near.
#[test]
fn the_queue_aware_limit_holds_the_kernels_queue_shorter_before_a_slow_line() {
    if !net_admin() {
        return;
    }
    for (mbit, ms) in [(10, [2_000, 3_000]), (100, [1_000, 2_000])] {
        let slow = |sysctls| backlog(Shaped { options: PacketOptions::new("va"), sysctls, mbit, ms });
        let (with, most) = slow(&[("tcp_queue_aware", "1")]);
        let (without, linux) = slow(&[]);
        println!(
            "{mbit} Mbit/s: {with} bytes waited with the queue-aware limit, {without} without; {most} and {linux} at most"
        );
        assert!(
            most > 0 && with <= aware(mbit),
            "{with} bytes waited with the queue-aware limit at {mbit} Mbit/s"
        );
        assert!(
            without > 2 * with,
            "{with} bytes waited with the queue-aware limit, {without} by Linux's rule"
        );
    }
}
