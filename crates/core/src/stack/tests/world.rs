//! The world of these tests: two stacks, a wire with a delay between them, and a clock that jumps.
use crate::base::{DeviceId, Duration, Instant};
use crate::device::{DeviceCaps, Submit};
use crate::packet::{Offload, Owner, Packet};
use crate::stack::{Config, Event, Stack};
use bytes::Bytes;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use lowwater_wire::{checksum, ipv4, protocol};
use std::collections::VecDeque;

/// One way of the wire.
#[derive(Default)]
struct Wire {
    flying: VecDeque<(Instant, Packet)>,
    owners: VecDeque<Owner>,
}

/// Two stacks and what is between them.
pub(super) struct World {
    pub(super) now: Instant,
    pub(super) stacks: [Stack; 2],
    pub(super) devs: [DeviceId; 2],
    pub(super) events: [Vec<Event>; 2],
    /// One-way delay.
    pub(super) delay: Duration,
    /// Packets that crossed, per sender.
    pub(super) crossed: [u64; 2],
    /// The device takes this many packets between two completions; then it says "not now", or says with the last that it is full.
    pub(super) ring: usize,
    pub(super) says_full: bool,
    /// Drops every n-th packet of the first sender.
    pub(super) lose_every: u64,
    /// Marks every n-th packet of the first sender, of IPv6, that may be marked, and how many it was.
    pub(super) mark_every: u64,
    pub(super) marked: u32,
    /// The same of whatever the second one sends, while this is set.
    pub(super) mark_back: bool,
    /// The first sender's device refuses every n-th packet for good.
    pub(super) refuse_every: u64,
    /// A router behind the first sender answers larger packets with "fragmentation needed".
    pub(super) path_mtu: Option<u16>,
    /// The first sender's frames go to all of the link.
    pub(super) to_all: bool,
    /// When the first sender's packets went to its device, and their lengths; `None` to note nothing.
    pub(super) sent: Option<Vec<(Instant, usize)>>,
    /// Super-packets of IPv6 that the first sender's device was handed, with CWR and without; `None` to count nothing.
    pub(super) wholes: Option<[u32; 2]>,
    submitted: u64,
    wires: [Wire; 2],
}

pub(super) fn v4(host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, host))
}

pub(super) fn v6(host: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host))
}

pub(super) fn at(ip: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(ip, port)
}

impl World {
    /// Two stacks with 10.0.0.1 and 10.0.0.2, fd00::1 and fd00::2.
    pub(super) fn new(caps: [DeviceCaps; 2]) -> Self {
        let mut hosts = 1..;
        let mut devs = [DeviceId(0); 2];
        let stacks = caps.map(|caps| {
            let host: u8 = hosts.next().expect("endless");
            let config = Config { seed: u64::from(host), ..Config::default() };
            let mut stack = Stack::new(config, Instant::ZERO);
            let dev = stack.add_device(caps);
            stack.add_address(dev, v4(host), 24).expect("free");
            stack.add_address(dev, v6(u16::from(host)), 64).expect("free");
            devs[usize::from(host) - 1] = dev;
            stack
        });
        Self {
            now: Instant::from_millis(1),
            stacks,
            devs,
            events: Default::default(),
            delay: Duration::from_millis(5),
            crossed: [0; 2],
            ring: 64,
            says_full: true,
            lose_every: 0,
            mark_every: 0,
            marked: 0,
            mark_back: false,
            refuse_every: 0,
            path_mtu: None,
            to_all: false,
            sent: None,
            wholes: None,
            submitted: 0,
            wires: Default::default(),
        }
    }

    pub(super) fn plain() -> Self {
        Self::new([DeviceCaps::plain(1_500); 2])
    }

    /// Lets both stacks send until they have nothing to say; true when anything moved.
    pub(super) fn transmit(&mut self) -> bool {
        let mut moved = false;
        for side in 0..2 {
            while self.stacks[side].needs_transmit(self.devs[side]) {
                let (wire, ring, due) = (&mut self.wires[side], self.ring, self.now + self.delay);
                let says_full = self.says_full;
                let (submitted, refuse) = (&mut self.submitted, self.refuse_every);
                let mut wholes = self.wholes.as_mut().filter(|_| side == 0);
                let mut taken = 0;
                let (now, mut log) = (self.now, self.sent.as_mut().filter(|_| side == 0));
                let mut device = |_, mut packet: Packet| {
                    if taken == ring {
                        return Submit::NotNow(packet);
                    }
                    taken += 1;
                    *submitted += 1;
                    if side == 0 && refuse > 0 && submitted.is_multiple_of(refuse) {
                        return Submit::Dropped;
                    }
                    if let Some(log) = &mut log {
                        log.push((now, packet.len()));
                    }
                    if let Some(wholes) = &mut wholes
                        && packet.offload.gso_size > 0
                    {
                        let plain = packet.head.as_slice()[40 + 13] & 0x80 == 0;
                        wholes[usize::from(plain)] += 1;
                    }
                    wire.owners.extend(packet.owner.take());
                    wire.flying.push_back((due, packet));
                    if taken == ring && says_full { Submit::Filled } else { Submit::Sent }
                };
                let done = self.stacks[side].transmit(self.now, self.devs[side], 8, &mut device);
                moved |= done.packets > 0;
                for owner in core::mem::take(&mut self.wires[side].owners) {
                    self.stacks[side].complete(self.now, self.devs[side], owner);
                }
                if done.stopped {
                    self.stacks[side].device_ready(self.now, self.devs[side]);
                }
            }
        }
        moved
    }

    fn deliver(&mut self) {
        for side in 0..2 {
            while self.wires[side].flying.front().is_some_and(|(due, _)| *due <= self.now) {
                let (_, mut packet) = self.wires[side].flying.pop_front().expect("just seen");
                packet.at = self.now;
                self.crossed[side] += 1;
                if side == 0 && self.to_all {
                    packet.head.as_mut_slice()[..6].fill(0xff);
                }
                if side == 0 && self.lose_every > 0 && self.crossed[0].is_multiple_of(self.lose_every) {
                    continue;
                }
                if side == 0 && self.mark_every > 0 && self.crossed[0].is_multiple_of(self.mark_every) {
                    self.marked += u32::from(mark(&mut packet));
                }
                if side == 1 && self.mark_back {
                    mark(&mut packet);
                }
                if let Some(mtu) = self.path_mtu.filter(|&mtu| side == 0 && packet.len() > usize::from(mtu)) {
                    let error = too_big(&packet, mtu, self.now);
                    self.stacks[0].receive(self.now, self.devs[0], error);
                    continue;
                }
                self.stacks[1 - side].receive(self.now, self.devs[1 - side], packet);
            }
        }
    }

    /// One step: send, then move time to whatever comes next. False when nothing ever will.
    pub(super) fn step(&mut self) -> bool {
        let moved = self.step_without_events(Instant::FAR_FUTURE);
        self.take_events();
        moved
    }

    /// The same up to `end`, by a driver that takes no events.
    pub(super) fn step_without_events(&mut self, end: Instant) -> bool {
        self.transmit();
        let flying = self.wires.iter().filter_map(|w| w.flying.front().map(|(due, _)| *due));
        let timers = self.stacks.iter().filter_map(Stack::next_deadline);
        let Some(next) = flying.chain(timers).min().filter(|next| *next <= end) else { return false };
        self.now = self.now.max(next);
        self.deliver();
        for stack in &mut self.stacks {
            stack.handle_timeout(self.now);
        }
        true
    }

    fn take_events(&mut self) {
        for (stack, events) in self.stacks.iter_mut().zip(&mut self.events) {
            events.extend(core::iter::from_fn(|| stack.next_event()));
        }
    }

    /// Runs for `time`, or until nothing happens any more.
    /// How the headers begin of what the first sender has handed to its device and nobody has received.
    pub(super) fn heads_in_flight(&mut self) -> Vec<[u8; 8]> {
        let headers = self.headers_in_flight();
        headers.iter().map(|header| header[..8].try_into().expect("a header of IP")).collect()
    }

    /// All headers of each packet on its way from the first stack.
    pub(super) fn headers_in_flight(&mut self) -> Vec<Vec<u8>> {
        self.transmit();
        self.wires[0].flying.iter().map(|(_, packet)| packet.head.as_slice().to_vec()).collect()
    }

    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..1_000_000 {
            self.transmit();
            let flying = self.wires.iter().filter_map(|w| w.flying.front().map(|(due, _)| *due));
            let timers = self.stacks.iter().filter_map(Stack::next_deadline);
            if flying.chain(timers).min().is_none_or(|next| next > end) {
                self.take_events();
                self.now = end;
                return;
            }
            self.step();
        }
        panic!("a million steps without an end");
    }

    /// Steps until `done` says so.
    pub(super) fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        for _ in 0..1_000_000 {
            if done(self) {
                return;
            }
            assert!(self.step(), "nothing happens any more, waiting for: {what}");
        }
        panic!("a million steps, waiting for: {what}");
    }

    /// True when this event came on `side`; it is taken.
    pub(super) fn saw(&mut self, side: usize, event: Event) -> bool {
        let at = self.events[side].iter().position(|e| *e == event);
        at.map(|at| self.events[side].remove(at)).is_some()
    }
}

/// Says that the packet met congestion, where its sender lets routers say so (RFC 3168 section 5).
fn mark(packet: &mut Packet) -> bool {
    const CE: u8 = 0x30;
    let class = &mut packet.head.as_mut_slice()[1];
    let capable = *class & CE != 0;
    *class |= if capable { CE } else { 0 };
    capable
}

/// ICMP "fragmentation needed" from 10.0.0.254 about `packet`.
pub(super) fn too_big(packet: &Packet, mtu: u16, now: Instant) -> Packet {
    let quote = packet.to_bytes().slice(..28.min(packet.len()));
    let mut icmp = vec![3, 4, 0, 0, 0, 0];
    icmp.extend(mtu.to_be_bytes());
    icmp.extend_from_slice(&quote);
    let sum = checksum::checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    ipv4_packet([10, 0, 0, 254], [10, 0, 0, 1], protocol::ICMP, &icmp, now)
}

/// A packet as it comes from a device.
pub(super) fn ipv4_packet(src: [u8; 4], dst: [u8; 4], protocol: u8, l4: &[u8], now: Instant) -> Packet {
    let repr = ipv4::Ipv4Repr {
        src: src.into(),
        dst: dst.into(),
        protocol,
        ttl: 64,
        tos: 0,
        ident: 7,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: l4.len() as u16,
    };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut bytes);
    bytes.extend_from_slice(l4);
    Packet::received(Bytes::from(bytes), Offload::default(), now)
}
