//! Two hosts with two links between them in virtual time. A link is a line that takes one packet at a time, a delay, and a switch that
//! makes it dark in both directions.
use crate::check::Broken;
use lowwater_core::base::{DeviceId, Duration, Instant, Sysctl};
use lowwater_core::device::{DeviceCaps, Submit};
use lowwater_core::packet::{Owner, Packet};
use lowwater_core::qdisc::Any;
use lowwater_core::stack::{Config, Stack};
use lowwater_wire::protocol;
use lowwater_wire::sctp::{Chunks, HEADER_LEN, chunk_kind};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The sender.
pub(super) const A: usize = 0;
/// The receiver.
pub(super) const B: usize = 1;
/// Links, each with an address on both hosts.
pub(super) const LINKS: usize = 2;
/// Packets of one turn of a host.
const BUDGET: usize = 64;
/// Events at one instant beyond which a world stands still.
const STUCK: u32 = 1_000_000;
/// Where the protocol stands in an IPv4 header.
const PROTOCOL_OFFSET: usize = 9;

/// Host `host` on link `link`.
pub(super) fn address(link: usize, host: usize) -> IpAddr {
    IpAddr::from([10, 0, link as u8, host as u8 + 1])
}

/// What the links are like, and the hosts.
pub(super) struct Spec<'a> {
    pub(super) seed: u64,
    pub(super) sysctl: &'a Sysctl,
    /// The discipline of the sender's devices, where it is not the default.
    pub(super) qdisc: Option<&'a str>,
    pub(super) mtu: u16,
    /// Bits per second.
    pub(super) rate: u64,
    pub(super) rtt: Duration,
}

enum Step {
    /// A packet has left the line.
    Left(usize, usize, Option<Owner>),
    Arrive(usize, usize, Packet),
}

/// What is on its way, in the order of arrival.
#[derive(Default)]
struct Flying {
    steps: BTreeMap<(Instant, u64), Step>,
    number: u64,
}

impl Flying {
    fn push(&mut self, at: Instant, step: Step) {
        self.number += 1;
        self.steps.insert((at, self.number), step);
    }
}

/// Two hosts and their links.
pub(super) struct Net {
    pub(super) now: Instant,
    pub(super) stacks: [Stack; 2],
    /// This link carries nothing.
    pub(super) dark: Option<usize>,
    /// When the sender sent HEARTBEATs, by link.
    pub(super) heartbeats: [Vec<Instant>; LINKS],
    /// Events so far.
    pub(super) events: u64,
    flying: Flying,
    /// The line of this host and link carries a packet.
    busy: [[bool; LINKS]; 2],
    rate: u64,
    delay: Duration,
    /// Events since time has moved.
    still: u32,
}

impl Net {
    pub(super) fn new(spec: &Spec<'_>) -> Self {
        let now = Instant::from_millis(1_000);
        let caps = DeviceCaps::offloading(spec.mtu);
        let stacks = [A, B].map(|host| {
            let config = Config { sysctl: spec.sysctl.clone(), seed: 2 * spec.seed + host as u64 };
            let mut stack = Stack::new(config, now);
            for link in 0..LINKS {
                let dev = stack.add_device(caps);
                stack.add_address(dev, address(link, host), 24).expect("a fresh stack takes an address");
                if let Some(Ok(qdisc)) = spec.qdisc.filter(|_| host == A).map(str::parse::<Any>) {
                    stack.set_qdisc(dev, qdisc).expect("the device is there");
                }
            }
            stack
        });
        Self {
            now,
            stacks,
            dark: None,
            heartbeats: Default::default(),
            events: 0,
            flying: Flying::default(),
            busy: [[false; LINKS]; 2],
            rate: spec.rate.max(1),
            delay: spec.rtt / 2,
            still: 0,
        }
    }

    /// Lets both hosts send what they want to, as far as their lines are free.
    pub(super) fn settle(&mut self) {
        for host in [A, B] {
            for link in 0..LINKS {
                let dev = DeviceId(link as u16 + 1);
                while self.stacks[host].needs_transmit(dev) && self.transmit(host, link) > 0 {}
            }
            while self.stacks[host].next_event().is_some() {}
        }
    }

    fn transmit(&mut self, host: usize, link: usize) -> usize {
        let Self { now, stacks, dark, heartbeats, flying, busy, rate, delay, .. } = self;
        let (busy, dark) = (&mut busy[host][link], *dark == Some(link));
        let mut line = |at: Instant, mut packet: Packet| {
            if *busy {
                return Submit::NotNow(packet);
            }
            *busy = true;
            if host == A && asks(&packet) {
                heartbeats[link].push(at);
            }
            let left = at.plus_nanos(packet.len() as u64 * 8_000_000_000 / *rate);
            flying.push(left, Step::Left(host, link, packet.owner.take()));
            if !dark {
                flying.push(left + *delay, Step::Arrive(1 - host, link, packet));
            }
            Submit::Filled
        };
        stacks[host].transmit(*now, DeviceId(link as u16 + 1), BUDGET, &mut line).packets
    }

    /// When something happens next.
    pub(super) fn next(&self) -> Option<Instant> {
        let flying = self.flying.steps.first_key_value().map(|(key, _)| key.0);
        let deadlines = self.stacks.iter().map(Stack::next_deadline);
        deadlines.chain([flying]).flatten().min()
    }

    /// Goes to `at` and does what happens then.
    ///
    /// # Errors
    /// When time stands still.
    pub(super) fn advance(&mut self, at: Instant) -> Result<(), Broken> {
        self.events += 1;
        self.still = if at > self.now { 0 } else { self.still + 1 };
        if self.still > STUCK {
            let message = format!("{STUCK} events and no time has passed");
            return Err(Broken { checker: "liveness", at, message });
        }
        self.now = self.now.max(at);
        let now = self.now;
        while let Some(entry) = self.flying.steps.first_entry().filter(|e| e.key().0 <= now) {
            match entry.remove() {
                Step::Left(host, link, owner) => {
                    let dev = DeviceId(link as u16 + 1);
                    self.busy[host][link] = false;
                    if let Some(owner) = owner {
                        self.stacks[host].complete(now, dev, owner);
                    }
                    self.stacks[host].device_ready(now, dev);
                }
                Step::Arrive(host, link, mut packet) if self.dark != Some(link) => {
                    packet.at = now;
                    self.stacks[host].receive(now, DeviceId(link as u16 + 1), packet);
                }
                Step::Arrive(..) => {}
            }
        }
        for stack in &mut self.stacks {
            stack.handle_timeout(now);
        }
        Ok(())
    }
}

/// There is a HEARTBEAT in this packet. One that goes alone has its headers apart from its chunks; several that go as one have not.
fn asks(packet: &Packet) -> bool {
    let asks = |chunks| Chunks::new(chunks).flatten().any(|chunk| chunk.kind() == chunk_kind::HEARTBEAT);
    let sctp = packet.head.as_slice().get(PROTOCOL_OFFSET) == Some(&protocol::SCTP);
    sctp && match usize::from(packet.offload.gso_size) {
        0 => asks(&packet.payload),
        size => packet.payload.chunks(size).any(|packet| asks(&packet[HEADER_LEN..])),
    }
}
