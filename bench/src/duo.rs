//! Two stacks in one process and one thread, joined by the in-process link, driven as fast as they go.
use lowwater_core::base::{DeviceId, Instant, SocketId, Sysctl};
use lowwater_core::device::pair::{Pair, Side};
use lowwater_core::device::{DeviceCaps, QueueLimit};
use lowwater_core::packet::Owner;
use lowwater_core::sctp::SctpOptions;
use lowwater_core::stack::{Config, ListenAddr, ListenOptions, Stack};
use lowwater_core::tcp::SocketOptions;
use std::net::SocketAddr;

/// Packets that one turn of a stack may hand down.
const BUDGET: usize = 64;

/// The world of the benchmark.
#[derive(Debug)]
pub struct Duo {
    /// Both stacks: the first connects, the second listens.
    pub stacks: [Stack; 2],
    /// Their device.
    pub dev: DeviceId,
    /// The time of the stacks.
    pub now: Instant,
    pair: Pair,
    owners: Vec<Owner>,
    /// Of associations.
    listener: Option<SocketId>,
}

impl Duo {
    /// Two stacks with these settings and this MTU.
    ///
    /// # Panics
    /// Never with a link of their own.
    #[must_use]
    pub fn new(mtu: u16, sysctl: &Sysctl) -> Self {
        Self::over(DeviceCaps::offloading(mtu).keeping_nothing().taking_sctp(), sysctl)
    }

    /// The same over a device that says this of itself.
    ///
    /// # Panics
    /// As [`Duo::new`].
    #[must_use]
    pub fn over(caps: DeviceCaps, sysctl: &Sysctl) -> Self {
        let pair = Pair::with_caps(caps, QueueLimit { packets: 1_024, bytes: 64 << 20 });
        let now = Instant::from_millis(1_000);
        let mut dev = DeviceId(0);
        let stacks = [1u8, 2].map(|host| {
            let mut stack = Stack::new(Config { sysctl: sysctl.clone(), seed: u64::from(host) }, now);
            dev = stack.add_device(pair.caps());
            stack.add_address(dev, [10, 0, 0, host].into(), 24).expect("a fresh stack takes an address");
            stack
        });
        Self { stacks, dev, now, pair, owners: Vec::new(), listener: None }
    }

    /// Carries packets until nothing moves; `at` is the time to tell the stacks.
    pub fn turn(&mut self, at: Instant) -> usize {
        self.now = at;
        let mut moved = 0;
        for (i, side) in [Side::A, Side::B].into_iter().enumerate() {
            while self.stacks[i].needs_transmit(self.dev) {
                let done = self.stacks[i].transmit(at, self.dev, BUDGET, &mut self.pair.end(side));
                if done.packets == 0 {
                    break;
                }
                moved += done.packets;
            }
            while let Some(packet) = self.pair.take(side.other(), at) {
                self.stacks[1 - i].receive(at, self.dev, packet);
            }
            self.pair.completions(side, &mut self.owners);
            for owner in self.owners.drain(..) {
                self.stacks[i].complete(at, self.dev, owner);
            }
            if self.pair.became_ready(side) {
                self.stacks[i].device_ready(at, self.dev);
            }
            self.stacks[i].handle_timeout(at);
            while self.stacks[i].next_event().is_some() {}
        }
        moved
    }

    /// Opens `n` connections to port 80 and returns both ends of each.
    ///
    /// # Panics
    /// When a connection cannot be opened, which would make the benchmark meaningless.
    pub fn connect(&mut self, n: usize) -> Vec<(SocketId, SocketId)> {
        self.connect_to(80, n)
    }

    /// Opens `n` connections to a port on which nothing listens yet, and returns both ends of each.
    ///
    /// # Panics
    /// As [`Duo::connect`].
    pub fn connect_to(&mut self, port: u16, n: usize) -> Vec<(SocketId, SocketId)> {
        let options = SocketOptions::new(self.stacks[0].sysctl());
        let listen = ListenOptions { backlog: 4_096, ask: false, options: options.clone() };
        let at = self.now;
        let addr = ListenAddr { ip: None, port: Some(port) };
        let listener = self.stacks[1].tcp_listen(at, addr, listen).expect("the port is free");
        let remote = SocketAddr::from(([10, 0, 0, 2], port));
        let mut ends = Vec::with_capacity(n);
        for _ in 0..n {
            let client = self.stacks[0].tcp_connect(self.now, remote, None, &options).expect("a free port");
            let server = loop {
                let at = self.now.plus_nanos(1_000);
                self.turn(at);
                if let Ok((server, _)) = self.stacks[1].tcp_accept(at, listener) {
                    break server;
                }
            };
            ends.push((client, server));
        }
        ends
    }

    /// Opens an association with these options on both sides and returns both ends of it.
    ///
    /// # Panics
    /// As [`Duo::connect`].
    pub fn associate(&mut self, options: &SctpOptions) -> (SocketId, SocketId) {
        let [here, there] = [1, 2].map(|host| SocketAddr::from(([10, 0, 0, host], 5_001)));
        let at = self.now;
        let listener = match self.stacks[1].sctp_listen(at, &[there], 1, options.clone()) {
            Ok(listener) => self.listener.insert(listener),
            // There is one from the association before.
            Err(_) => self.listener.as_mut().expect("the port is free"),
        };
        let listener = *listener;
        let any = SocketAddr::new(here.ip(), 0);
        let client = self.stacks[0].sctp_connect(at, &[there], &[any], options.clone()).expect("a free port");
        loop {
            let at = self.now.plus_nanos(1_000);
            self.turn(at);
            if let Ok((server, _)) = self.stacks[1].sctp_accept(at, listener) {
                return (client, server);
            }
        }
    }
}
