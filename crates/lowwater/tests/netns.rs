//! The kernel's TCP and ours over a TUN or TAP, each test in a network namespace that it makes.
use lowwater::blocking::{TcpListener, TcpStream, UdpSocket};
use lowwater::core::base::{Rng, Tuple, Wait};
use lowwater::shard::Home;
use lowwater::{ConnectOptions, Layer, Stack, TunOptions};
use lowwater_os::netns::{NetNs, net_admin};
use lowwater_os::{Tun, entropy};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use sha2::{Digest, Sha256};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const KERNEL4: &str = "10.77.0.1";
const STACK4: &str = "10.77.0.2";
const KERNEL6: &str = "fd77::1";
const STACK6: &str = "fd77::2";
const MIB: usize = 1 << 20;

fn at(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), port)
}

/// A stack on a device that the kernel sees too; to be called inside the namespace.
fn stack(options: TunOptions) -> Stack {
    let stack = Stack::builder()
        .tun_with(options)
        .address("10.77.0.2/24")
        .address("fd77::2/64")
        .host_address("10.77.0.1/24")
        .host_address("fd77::1/64")
        .build()
        .unwrap();
    // Until duplicate address detection is over the kernel's IPv6 address is tentative and cannot be bound to.
    const TENTATIVE: u8 = 0x40;
    let flags = |line: &str| u8::from_str_radix(line.split_whitespace().nth(4)?, 16).ok();
    let tentative = || {
        let table = std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap();
        table.lines().any(|line| flags(line).is_some_and(|f| f & TENTATIVE != 0))
    };
    while tentative() {
        thread::sleep(Duration::from_millis(20));
    }
    stack
}

/// The next connection of a listener that does not block.
fn next_of<T>(mut accept: impl FnMut() -> io::Result<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match accept() {
            Err(e) if e.kind() == ErrorKind::WouldBlock && Instant::now() < end => {
                thread::sleep(Duration::from_millis(1));
            }
            other => return other.unwrap(),
        }
    }
}

/// Sends `len` bytes that only their place decides, then FIN; returns their hash.
fn send(mut to: impl Write, len: usize) -> Vec<u8> {
    let (mut hash, mut rng, mut left) = (Sha256::new(), Rng::new(len as u64), len);
    let mut block = vec![0; 256 << 10];
    while left > 0 {
        let n = block.len().min(left);
        block[..n].chunks_mut(8).for_each(|c| c.copy_from_slice(&rng.next_u64().to_le_bytes()[..c.len()]));
        hash.update(&block[..n]);
        to.write_all(&block[..n]).unwrap();
        left -= n;
    }
    hash.finalize().to_vec()
}

fn receive(mut from: impl Read) -> (usize, Vec<u8>) {
    let (mut hash, mut len, mut block) = (Sha256::new(), 0, vec![0; 256 << 10]);
    loop {
        let n = from.read(&mut block).unwrap();
        if n == 0 {
            return (len, hash.finalize().to_vec());
        }
        hash.update(&block[..n]);
        len += n;
    }
}

/// `len` bytes from the first to the second, then as many back.
macro_rules! both_ways {
    ($a:expr, $b:expr, $len:expr) => {{
        let (a, b, len): (_, _, usize) = ($a, $b, $len);
        thread::scope(|s| {
            let there = s.spawn(|| receive(&b));
            let sent = send(&a, len);
            a.shutdown(Shutdown::Write).unwrap();
            assert_eq!(there.join().unwrap(), (len, sent));
            let back = s.spawn(|| receive(&a));
            let sent = send(&b, len);
            b.shutdown(Shutdown::Write).unwrap();
            assert_eq!(back.join().unwrap(), (len, sent));
        });
    }};
}

fn kernel_to_us(stack: &Stack, ip: &str, len: usize) {
    let listener = TcpListener::bind(stack, at(ip, 80)).unwrap();
    let client = std::net::TcpStream::connect(at(ip, 80)).unwrap();
    let (server, peer) = listener.accept().unwrap();
    assert_eq!(peer, client.local_addr().unwrap());
    both_ways!(client, server, len);
}

fn us_to_kernel(stack: &Stack, ip: &str, len: usize) {
    let listener = std::net::TcpListener::bind(at(ip, 0)).unwrap();
    let client = TcpStream::connect(stack, listener.local_addr().unwrap()).unwrap();
    let (server, peer) = listener.accept().unwrap();
    assert_eq!(peer, client.local_addr().unwrap());
    both_ways!(client, server, len);
}

fn in_namespace(f: impl FnOnce() + Send) {
    if net_admin() {
        NetNs::new().unwrap().run(f);
    }
}

fn options() -> TunOptions {
    TunOptions::new("lw0")
}

#[test]
fn kernel_clients_v4() {
    in_namespace(|| kernel_to_us(&stack(options()), STACK4, 64 * MIB));
}

#[test]
fn kernel_clients_v6() {
    in_namespace(|| kernel_to_us(&stack(options()), STACK6, 64 * MIB));
}

#[test]
fn kernel_servers_v4() {
    in_namespace(|| us_to_kernel(&stack(options()), KERNEL4, 64 * MIB));
}

#[test]
fn kernel_servers_v6() {
    in_namespace(|| us_to_kernel(&stack(options()), KERNEL6, 64 * MIB));
}

#[test]
fn without_offload_and_with_large_packets() {
    for (offload, mtu) in [(false, 1_500), (false, 9_000), (true, 9_000)] {
        in_namespace(move || {
            let stack = stack(TunOptions { offload, mtu, ..options() });
            kernel_to_us(&stack, STACK4, 16 * MIB);
            us_to_kernel(&stack, KERNEL6, 16 * MIB);
        });
    }
}

#[test]
fn over_ethernet() {
    in_namespace(|| {
        let stack = stack(TunOptions { layer: Layer::Ethernet, ..options() });
        kernel_to_us(&stack, STACK4, 16 * MIB);
        us_to_kernel(&stack, KERNEL6, 16 * MIB);
    });
}

/// As an administrator makes one for a user.
#[test]
fn a_device_that_was_made_for_this_user_takes_no_privileges() {
    in_namespace(|| {
        for line in [
            "ip tuntap add lw0 mode tun vnet_hdr user 0",
            &format!("ip addr add {KERNEL4}/24 dev lw0"),
            "ip link set lw0 mtu 1400 up",
        ] {
            let mut words = line.split_whitespace();
            assert!(Command::new(words.next().unwrap()).args(words).status().unwrap().success(), "{line}");
        }
        // Of this thread alone, which ends.
        let mut sets = capabilities(None).unwrap();
        sets.effective.remove(CapabilitySet::NET_ADMIN);
        set_capabilities(None, sets).unwrap();
        let builder = Stack::builder().tun("lw0").host_address(&format!("{KERNEL4}/24"));
        let stack = builder.address(&format!("{STACK4}/24")).build().unwrap();
        us_to_kernel(&stack, KERNEL4, MIB);
    });
}

#[test]
fn a_device_that_says_not_now_half_the_time() {
    in_namespace(|| {
        let tun = Tun::open(&options()).unwrap();
        let link = tun.link().unwrap();
        link.up().unwrap();
        link.add_address(KERNEL4.parse().unwrap(), 24).unwrap();
        let port = lowwater::port::NotNow::new(tun, Rng::new(7), 500_000);
        let stack = Stack::builder().device(port).address("10.77.0.2/24").build().unwrap();
        kernel_to_us(&stack, STACK4, 8 * MIB);
        us_to_kernel(&stack, KERNEL4, 8 * MIB);
    });
}

/// Nothing waits in a TUN: the queue-aware limit has nothing to act on, and packets are as large as without it.
#[test]
fn the_queue_aware_limit_does_not_act_on_what_is_written_at_once() {
    in_namespace(|| {
        let stack = stack(options());
        stack.set_sysctl("tcp_queue_aware", "1").unwrap();
        us_to_kernel(&stack, KERNEL4, 64 * MIB);
        kernel_to_us(&stack, STACK6, 64 * MIB);
        assert_eq!(stack.counters().waits(Wait::QueueAware), 0);
    });
}

/// How often a thread of this process has gone to sleep or been put off its processor so far, and whether it sleeps.
fn turns_of(thread: &str) -> (u64, bool) {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
    let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    let count = |name| value(name).parse::<u64>().unwrap();
    let turns = count("voluntary_ctxt_switches:") + count("nonvoluntary_ctxt_switches:");
    (turns, value("State:").starts_with('S'))
}

/// The descriptor of a TUN that is deleted has an error for good: who waits for it would never sleep again. A thread that sleeps throughout takes
/// no turn at all, however busy the machine is; one that spins does not sleep, be it running or waiting for a processor.
#[test]
fn a_stack_whose_device_was_deleted_sleeps() {
    in_namespace(|| {
        let builder =
            Stack::builder().tun_with(options()).address("10.77.0.2/24").host_address("10.77.0.1/24");
        let (stack, driver) = builder.build_driver().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            tell.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
            driver.run();
        });
        let id = told.recv().unwrap();
        let id = id.file_name().unwrap().to_str().unwrap();
        lowwater_os::netlink::Link::by_name("lw0").unwrap().delete().unwrap();
        let gone_by = Instant::now() + Duration::from_secs(60);
        while stack.failure().is_none() {
            assert!(Instant::now() < gone_by, "nobody says that the device is gone");
            thread::sleep(Duration::from_millis(5));
        }
        // What it has to do after that may take its time: a tenth of a second without any turn is asked for, some time.
        let sleeps = || {
            let (before, _) = turns_of(id);
            thread::sleep(Duration::from_millis(100));
            turns_of(id) == (before, true)
        };
        assert!((0..50).any(|_| sleeps()), "the thread goes on while nothing can happen");
        drop(stack);
        thread.join().unwrap();
    });
}

#[test]
fn datagrams_and_refusals() {
    in_namespace(|| {
        let stack = stack(options());
        for (ours, kernels) in [(STACK4, KERNEL4), (STACK6, KERNEL6)] {
            let us = UdpSocket::bind(&stack, at(ours, 0)).unwrap();
            let kernel = std::net::UdpSocket::bind(at(kernels, 0)).unwrap();
            let large = vec![3; 20_000];
            us.send_to(&large, kernel.local_addr().unwrap()).unwrap();
            let mut buf = vec![0; 65_536];
            kernel.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let (len, from) = kernel.recv_from(&mut buf).unwrap();
            assert_eq!((len, from), (large.len(), us.local_addr().unwrap()), "fragments are put together");
            kernel.send_to(&large, from).unwrap();
            us.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            assert_eq!(us.recv_from(&mut buf).unwrap().0, large.len());

            let refused = std::io::ErrorKind::ConnectionRefused;
            assert_eq!(std::net::TcpStream::connect(at(ours, 4)).unwrap_err().kind(), refused);
            assert_eq!(TcpStream::connect(&stack, at(kernels, 4)).unwrap_err().kind(), refused);
            us.connect(at(kernels, 4)).unwrap();
            us.send(b"nobody there").unwrap();
            assert_eq!(us.recv(&mut buf).unwrap_err().kind(), refused);
        }
    });
}

#[test]
fn a_thousand_kernel_connections_at_once() {
    in_namespace(|| {
        let stack = stack(options());
        let listener = TcpListener::bind(&stack, at(STACK4, 80)).unwrap();
        let accepting =
            thread::spawn(move || (0..1_000).map(|_| listener.accept().unwrap().0).collect::<Vec<_>>());
        let mut clients: Vec<_> =
            (0..1_000).map(|_| std::net::TcpStream::connect(at(STACK4, 80)).unwrap()).collect();
        let servers = accepting.join().unwrap();
        for (n, client) in (0u32..).zip(&mut clients) {
            client.write_all(&n.to_be_bytes()).unwrap();
        }
        for mut server in &servers {
            let mut word = [0; 4];
            server.read_exact(&mut word).unwrap();
            server.write_all(&word).unwrap();
        }
        for (n, client) in (0u32..).zip(&mut clients) {
            let mut word = [0; 4];
            client.read_exact(&mut word).unwrap();
            assert_eq!(u32::from_be_bytes(word), n);
        }
        drop(clients);
        drop(servers);
        let drained = stack.shutdown_blocking(Duration::from_secs(20));
        assert_eq!(drained.aborted, 0);
    });
}

#[test]
fn two_shards_behind_one_device() {
    in_namespace(|| {
        let queues = Tun::open_queues(&options(), 2).unwrap();
        let link = queues[0].link().unwrap();
        link.up().unwrap();
        link.add_address(KERNEL4.parse().unwrap(), 24).unwrap();
        let key = (entropy::number().unwrap(), entropy::number().unwrap());
        let mut homes = Vec::new();
        let stacks: Vec<Stack> = lowwater::shard::shards(queues, key)
            .into_iter()
            .map(|(port, home)| {
                homes.push(home);
                Stack::builder().device(port).address("10.77.0.2/24").build().unwrap()
            })
            .collect();

        // Listeners are replicated: whichever shard a flow belongs to answers, wherever its packets were read.
        let servers: Vec<_> = stacks.iter().map(|s| TcpListener::bind(s, at(STACK4, 80)).unwrap()).collect();
        servers.iter().for_each(|server| server.set_nonblocking(true).unwrap());
        let clients: Vec<_> =
            (0..64).map(|_| std::net::TcpStream::connect(at(STACK4, 80)).unwrap()).collect();
        let mut accepted = [0, 0];
        for mut client in clients {
            let tuple = Tuple::new(at(STACK4, 80), client.local_addr().unwrap());
            let shard = usize::from(!homes[0].owns(&tuple));
            let (mut server, peer) = next_of(|| servers[shard].accept());
            accepted[shard] += 1;
            assert!(homes[shard].owns(&Tuple::new(at(STACK4, 80), peer)), "{peer} is on the wrong shard");
            client.write_all(b"ping").unwrap();
            server.write_all(b"pong").unwrap();
            drop((client, server));
        }
        assert_eq!(accepted[0] + accepted[1], 64);
        assert!(accepted.iter().all(|&n| n > 8), "flows spread: {accepted:?}");

        // A stack that connects takes a port that steers home.
        let listener = std::net::TcpListener::bind(at(KERNEL4, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let remote = listener.local_addr().unwrap();
        for (stack, home) in stacks.iter().zip(&homes) {
            let port = (40_000..).find(|&p| home.owns(&Tuple::new(at(STACK4, p), remote))).unwrap();
            let local = ConnectOptions { local: Some(at(STACK4, port)), options: None };
            let client = TcpStream::connect_with(stack, remote, &local).unwrap();
            let (server, _) = next_of(|| listener.accept());
            both_ways!(client, server, 4 * MIB);
        }
        let forwarded: u64 = homes.iter().map(lowwater::shard::Home::forwarded).sum();
        eprintln!("{accepted:?} connections per shard, {forwarded} packets handed over");
    });
}

/// Answers about neighbours belong to no flow, and every stack has its own table.
#[test]
fn shards_behind_an_ethernet_device_all_find_their_neighbours() {
    in_namespace(|| {
        let queues = Tun::open_queues(&TunOptions { layer: Layer::Ethernet, ..options() }, 3).unwrap();
        let link = queues[0].link().unwrap();
        link.up().unwrap();
        link.add_address(KERNEL4.parse().unwrap(), 24).unwrap();
        link.add_address(KERNEL6.parse().unwrap(), 64).unwrap();
        let address = |stack: &str, prefix| format!("{stack}/{prefix}");
        let stacks: Vec<(Stack, Home)> = lowwater::shard::shards(queues, (1, 2))
            .into_iter()
            .map(|(port, home)| {
                let builder = Stack::builder().device(port).address(&address(STACK4, 24));
                (builder.address(&address(STACK6, 64)).build().unwrap(), home)
            })
            .collect();
        for (theirs, ours) in [(KERNEL4, STACK4), (KERNEL6, STACK6)] {
            let listener = std::net::TcpListener::bind(at(theirs, 0)).unwrap();
            listener.set_nonblocking(true).unwrap();
            let remote = listener.local_addr().unwrap();
            for (stack, home) in &stacks {
                let port = (40_000..).find(|&p| home.owns(&Tuple::new(at(ours, p), remote))).unwrap();
                let local = ConnectOptions { local: Some(at(ours, port)), options: None };
                let client = TcpStream::connect_with(stack, remote, &local).unwrap();
                let (server, _) = next_of(|| listener.accept());
                both_ways!(client, server, MIB);
            }
        }
    });
}
