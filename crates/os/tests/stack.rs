//! The core's stack behind a TUN and a TAP, talking UDP and ICMP with the kernel.
use lowwater_core::base::{DeviceId, Duration, Instant, Rng, SocketId, Sysctl};
use lowwater_core::device::Balky;
use lowwater_core::stack::{Config, Stack};
use lowwater_os::netns::{NetNs, net_admin};
use lowwater_os::{Clock, Interest, KernelWork, Layer, Poller, Tun, TunOptions, Waker, entropy, poll};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recv, sendto};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const PATIENCE: Duration = Duration::from_secs(10);
/// Frames and packets handled between looks at the other work.
const BUDGET: usize = 64;

fn ip(s: &str) -> IpAddr {
    s.parse().unwrap()
}

/// Moves packets between stack and device, and echoes datagrams, until `stop`.
struct Driver {
    clock: Clock,
    poller: Poller,
    stack: Stack,
    dev: DeviceId,
    tun: Balky<Tun>,
    echo: SocketId,
}

impl Driver {
    fn new(options: &TunOptions, not_now_ppm: u32) -> Self {
        let (clock, poller, tun) = (Clock::start(), Poller::new().unwrap(), Tun::open(options).unwrap());
        poller.add(&tun, 0, Interest::Read).unwrap();
        let config = Config { sysctl: Sysctl::default(), seed: entropy::number().unwrap() };
        let mut stack = Stack::new(config, clock.now());
        let dev = stack.add_device(tun.caps());
        stack.add_address(dev, ip("10.77.0.2"), 24).unwrap();
        stack.add_address(dev, ip("fd77::2"), 64).unwrap();
        let link = tun.link().unwrap();
        link.up().unwrap();
        link.add_address(ip("10.77.0.1"), 24).unwrap();
        link.add_address(ip("fd77::1"), 64).unwrap();
        let echo = stack.udp_bind(clock.now(), "[::]:7".parse().unwrap()).unwrap();
        let tun = Balky::new(tun, Rng::new(1), not_now_ppm);
        Self { clock, poller, stack, dev, tun, echo }
    }

    fn run(mut self, stop: &AtomicBool) {
        poll::precise_timers().unwrap();
        let (mut events, mut frames) = (Vec::new(), Vec::new());
        while !stop.load(Ordering::Acquire) {
            let full =
                self.tun.device().recv_batch(self.clock.now(), BUDGET, usize::MAX, &mut frames).unwrap();
            for frame in frames.drain(..) {
                self.stack.receive(self.clock.now(), self.dev, frame);
            }
            let now = self.clock.now();
            self.stack.flush(now);
            if !full {
                self.stack.handle_timeout(now);
            }
            while self.stack.next_event().is_some() {}
            while let Ok((data, from)) = self.stack.udp_recv_from(now, self.echo) {
                let _ = self.stack.udp_send_to(now, self.echo, data, from);
            }
            let done = self.stack.transmit(self.clock.now(), self.dev, BUDGET, &mut self.tun);
            if done.stopped {
                self.stack.device_ready(self.clock.now(), self.dev);
            }
            let more = full || done.more || done.stopped;
            let deadline = if more { Some(Instant::ZERO) } else { self.stack.next_deadline() };
            self.poller.wait(&self.clock, deadline, &mut events).unwrap();
        }
    }
}

/// Stops the driver, also when the test fails.
struct Stop<'a>(&'a AtomicBool, Waker);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        self.1.wake();
    }
}

/// Runs `kernel` against a stack behind each kind of device.
fn with_each_device(kernel: fn()) {
    if !net_admin() {
        return;
    }
    for (layer, offload, mtu, work, not_now_ppm) in [
        (Layer::Ip, true, 1_500, KernelWork::Inline, 0),
        (Layer::Ip, true, 1_500, KernelWork::Inline, 500_000),
        (Layer::Ip, false, 1_500, KernelWork::Spread, 0),
        (Layer::Ip, true, 1_500, KernelWork::Thread, 0),
        (Layer::Ethernet, true, 9_000, KernelWork::Spread, 0),
        (Layer::Ethernet, false, 1_500, KernelWork::Thread, 500_000),
    ] {
        NetNs::new().unwrap().run(|| {
            println!("{layer:?}, offload {offload}, MTU {mtu}, {work:?}, not now {not_now_ppm} ppm");
            let options = TunOptions { layer, offload, mtu, work, ..TunOptions::new("") };
            let driver = Driver::new(&options, not_now_ppm);
            let stop = AtomicBool::new(false);
            let guard = Stop(&stop, driver.poller.waker());
            thread::scope(|s| {
                s.spawn(|| driver.run(&stop));
                let guard = guard;
                kernel();
                drop(guard);
            });
        });
    }
}

fn patient(local: &str) -> UdpSocket {
    let socket = UdpSocket::bind((ip(local), 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

#[test]
fn datagrams_are_echoed_whole_and_in_fragments() {
    with_each_device(|| {
        for (kernel, stack) in [("10.77.0.1", "10.77.0.2"), ("fd77::1", "fd77::2")] {
            let socket = patient(kernel);
            for len in [0, 1, 1_400, 8_000, 40_000] {
                let sent: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
                socket.send_to(&sent, (ip(stack), 7)).unwrap();
                let mut got = vec![0; 65_536];
                let (n, from) =
                    socket.recv_from(&mut got).unwrap_or_else(|e| panic!("{len} bytes to {stack}: {e}"));
                assert_eq!((n, from), (len as usize, SocketAddr::from((ip(stack), 7))));
                assert!(got[..n] == sent, "other bytes came back");
            }
        }
    });
}

#[test]
fn a_closed_port_refuses() {
    with_each_device(|| {
        for (kernel, stack) in [("10.77.0.1", "10.77.0.2"), ("fd77::1", "fd77::2")] {
            let socket = patient(kernel);
            socket.connect((ip(stack), 4_000)).unwrap();
            socket.send(b"anybody?").unwrap();
            let refused = socket.recv(&mut [0; 16]).unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused, "{stack}");
        }
    });
}

#[test]
fn pings_are_answered() {
    with_each_device(|| {
        let raw = |family, protocol| {
            let socket =
                rustix::net::socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, Some(protocol))
                    .unwrap();
            rustix::net::sockopt::set_socket_timeout(
                &socket,
                rustix::net::sockopt::Timeout::Recv,
                Some(PATIENCE),
            )
            .unwrap();
            socket
        };
        let mut buffer = [0; 256];
        // Type 8, identifier 1, sequence number 1; the sum of the rest is folded by hand.
        let socket = raw(AddressFamily::INET, ipproto::ICMP);
        sendto(
            &socket,
            &[8, 0, 0xf7, 0xfd, 0, 1, 0, 1],
            SendFlags::empty(),
            &SocketAddr::from((ip("10.77.0.2"), 0)),
        )
        .unwrap();
        let (n, _) = recv(&socket, &mut buffer, RecvFlags::empty()).expect("an echo reply");
        assert_eq!(buffer[20..n], [0, 0, 0xff, 0xfd, 0, 1, 0, 1]);

        // The kernel fills in the checksum of ICMPv6.
        let socket = raw(AddressFamily::INET6, ipproto::ICMPV6);
        sendto(
            &socket,
            &[128, 0, 0, 0, 0, 1, 0, 1],
            SendFlags::empty(),
            &SocketAddr::from((ip("fd77::2"), 0)),
        )
        .unwrap();
        loop {
            let (n, _) = recv(&socket, &mut buffer, RecvFlags::empty()).expect("an echo reply");
            if buffer[0] == 129 {
                assert_eq!(buffer[4..n], [0, 1, 0, 1]);
                break;
            }
        }
    });
}
