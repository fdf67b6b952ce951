//! Two stacks joined by an in-process link in virtual time: the smallest world in which whole connections live.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
use lowwater_core::base::{DeviceId, Duration, Instant, SocketId, Sysctl};
use lowwater_core::device::QueueLimit;
use lowwater_core::device::pair::{Pair, Side};
use lowwater_core::packet::Packet;
use lowwater_core::stack::{Config, Event, ListenAddr, ListenOptions, Stack};
use lowwater_core::tcp::SocketOptions;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};

pub const SIDES: [Side; 2] = [Side::A, Side::B];

/// What the network does with a packet.
pub enum Fate {
    Deliver(Duration),
    Lose,
}

type Rule = Box<dyn FnMut(Side, &Packet, u64) -> Fate>;

/// A world of two hosts.
pub struct World {
    pub now: Instant,
    pub stacks: [Stack; 2],
    pub dev: DeviceId,
    pub pair: Pair,
    pub rule: Rule,
    pub events: [VecDeque<Event>; 2],
    flying: BinaryHeap<std::cmp::Reverse<(Instant, u64, usize, Carried)>>,
    pub packets: u64,
}

struct Carried(Packet);
impl PartialEq for Carried {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Carried {}
impl PartialOrd for Carried {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Carried {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

pub fn ip(side: Side) -> IpAddr {
    match side {
        Side::A => [10, 0, 0, 1].into(),
        Side::B => [10, 0, 0, 2].into(),
    }
}

impl World {
    pub fn new(delay: Duration) -> Self {
        Self::with_sysctl(delay, &Sysctl::default())
    }

    pub fn with_sysctl(delay: Duration, sysctl: &Sysctl) -> Self {
        let pair = Pair::new(1500, QueueLimit { packets: 100_000, bytes: 1 << 30 });
        let mut dev = DeviceId(0);
        let mut make = |side: Side, seed| {
            let config = Config { sysctl: sysctl.clone(), seed };
            let mut stack = Stack::new(config, Instant::from_millis(1_000));
            dev = stack.add_device(pair.caps());
            stack.add_address(dev, ip(side), 24).unwrap();
            stack
        };
        let stacks = [make(Side::A, 1), make(Side::B, 2)];
        Self {
            now: Instant::from_millis(1_000),
            stacks,
            dev,
            pair,
            rule: Box::new(move |_, _, _| Fate::Deliver(delay)),
            events: Default::default(),
            flying: BinaryHeap::new(),
            packets: 0,
        }
    }

    pub fn a(&mut self) -> &mut Stack {
        &mut self.stacks[0]
    }

    pub fn b(&mut self) -> &mut Stack {
        &mut self.stacks[1]
    }

    /// Lets both stacks send what they want at this instant.
    fn exchange(&mut self) {
        loop {
            let mut moved = false;
            for (i, side) in SIDES.into_iter().enumerate() {
                let (now, dev) = (self.now, self.dev);
                while self.stacks[i].needs_transmit(dev) {
                    let done = self.stacks[i].transmit(now, dev, 64, &mut self.pair.end(side));
                    if done.packets == 0 {
                        break;
                    }
                }
                while let Some(packet) = self.pair.take(side.other(), now) {
                    self.packets += 1;
                    moved = true;
                    if let Fate::Deliver(delay) = (self.rule)(side, &packet, self.packets) {
                        let to = 1 - i;
                        self.flying.push(std::cmp::Reverse((now + delay, self.packets, to, Carried(packet))));
                    }
                }
                let mut owners = Vec::new();
                self.pair.completions(side, &mut owners);
                for owner in owners {
                    self.stacks[i].complete(now, dev, owner);
                    moved = true;
                }
                while let Some(event) = self.stacks[i].next_event() {
                    self.events[i].push_back(event);
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// One step to the next instant at which something happens; false when nothing ever will before `until`.
    pub fn step(&mut self, until: Instant) -> bool {
        self.exchange();
        let arrival = self.flying.peek().map(|r| r.0.0);
        let next = [arrival, self.stacks[0].next_deadline(), self.stacks[1].next_deadline()];
        let Some(next) = next.into_iter().flatten().min().filter(|&at| at <= until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(next);
        while self.flying.peek().is_some_and(|r| r.0.0 <= self.now) {
            let (_, _, to, Carried(mut packet)) = self.flying.pop().unwrap().0;
            packet.at = self.now;
            self.stacks[to].receive(self.now, self.dev, packet);
        }
        for stack in &mut self.stacks {
            stack.handle_timeout(self.now);
        }
        self.exchange();
        true
    }

    /// Runs until `done` or until `limit` has passed.
    pub fn run(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let until = self.now + limit;
        for _ in 0..20_000_000u64 {
            if done(self) {
                return true;
            }
            if !self.step(until) {
                return done(self);
            }
        }
        panic!("no end after 20 million steps");
    }

    pub fn listen(&mut self, port: u16) -> SocketId {
        let options = SocketOptions::new(self.b().sysctl());
        let (now, addr) = (self.now, ListenAddr { ip: None, port: Some(port) });
        self.b().tcp_listen(now, addr, ListenOptions { backlog: 128, ask: false, options }).unwrap()
    }

    pub fn connect(&mut self, port: u16) -> SocketId {
        let options = SocketOptions::new(self.a().sysctl());
        let now = self.now;
        self.a().tcp_connect(now, SocketAddr::new(ip(Side::B), port), None, &options).unwrap()
    }

    /// A connection from A to B.
    pub fn connected(&mut self) -> (SocketId, SocketId) {
        let listener = self.listen(80);
        let client = self.connect(80);
        let mut server = None;
        self.run(Duration::from_secs(10), |w| {
            let now = w.now;
            server = w.b().tcp_accept(now, listener).ok().map(|(id, _)| id);
            server.is_some()
        });
        (client, server.expect("accepted"))
    }
}

/// Byte `offset` of a pattern that no shift of itself matches.
pub fn pattern(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}
