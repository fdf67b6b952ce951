//! Two hosts joined by some links in virtual time, each with a delay and a rule of its own.
use bytes::Bytes;
use lowwater_core::base::{DeviceId, Duration, Instant, SocketId, Sysctl};
use lowwater_core::device::pair::{Pair, Side};
use lowwater_core::device::{DeviceCaps, QueueLimit};
use lowwater_core::packet::{Offload, Packet};
use lowwater_core::sctp::{AssocInfo, Received, SctpOptions, SendInfo};
use lowwater_core::stack::{Config, Event, Stack};
use lowwater_wire::icmp4::Icmp4Repr;
use lowwater_wire::sctp::{Chunk, Chunks, SctpRepr, fill_checksum};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

const SIDES: [Side; 2] = [Side::A, Side::B];

/// What the network does with a packet.
pub enum Fate {
    Deliver(Duration),
    Twice(Duration, Duration),
    Lose,
}

/// A packet as it crosses: who sent it, on which link, with these chunks.
pub struct Crossing<'a> {
    pub from: usize,
    pub link: usize,
    pub now: Instant,
    pub chunks: &'a [u8],
}

impl Crossing<'_> {
    /// Types of its chunks.
    pub fn kinds(&self) -> Vec<u8> {
        Chunks::new(self.chunks).map(|raw| raw.expect("well formed").kind()).collect()
    }

    /// The TSNs of its DATA.
    pub fn tsns(&self) -> Vec<u32> {
        let raws = Chunks::new(self.chunks).map(|raw| raw.expect("well formed"));
        raws.filter_map(|raw| match Chunk::parse(&raw) {
            Ok(Chunk::Data(header, _)) => Some(header.tsn),
            _ => None,
        })
        .collect()
    }
}

const ROOM: QueueLimit = QueueLimit { packets: 100_000, bytes: 1 << 30 };

/// What is wrong with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ill {
    /// It takes packets, which never leave.
    Mute,
    /// It has said "not now", and a driver does not ask again before it calls.
    Full,
}

type Rule = Box<dyn FnMut(&Crossing<'_>) -> Fate>;

/// A line of the log.
#[derive(Clone, Debug)]
pub struct Line {
    pub at: Instant,
    pub from: usize,
    pub link: usize,
    pub kinds: Vec<u8>,
    pub bytes: usize,
    /// UDP ports in front, source first.
    pub udp: Option<(u16, u16)>,
}

pub struct World {
    pub now: Instant,
    pub stacks: [Stack; 2],
    pairs: Vec<Pair>,
    pub rule: Rule,
    pub events: [VecDeque<Event>; 2],
    pub log: Vec<Line>,
    flying: BTreeMap<(Instant, u64), (usize, usize, Packet)>,
    number: u64,
    /// The links take one packet of host A in this time; `None` for as many as there are.
    pub slow: Option<Duration>,
    next_packet: Instant,
    /// Of host A's next packets with DATA so many are marked by a router (ECN), if they say that they may be.
    pub mark: usize,
    /// Devices of host A that are not well, by link.
    pub ill: BTreeMap<usize, Ill>,
    /// The socket that `associated` has made to listen.
    pub listener: Option<SocketId>,
    /// Changes packets after their log line; the checksum is made right again.
    pub mutate: Option<Mutate>,
    /// Changes whole packets: the sending host, and the bytes from the IP header on.
    pub rewrite: Option<Rewrite>,
}

pub type Rewrite = Box<dyn FnMut(usize, &mut Vec<u8>)>;

pub type Mutate = Box<dyn FnMut(&mut Vec<u8>)>;

pub const A: usize = 0;
pub const B: usize = 1;

/// Host `host` on link `link`.
pub fn ip(link: usize, host: usize) -> IpAddr {
    IpAddr::from([10, link as u8, 0, host as u8 + 1])
}

/// The same over IPv6.
pub fn ip6(link: usize, host: usize) -> IpAddr {
    IpAddr::from([0xfd00, link as u16, 0, 0, 0, 0, 0, host as u16 + 1])
}

/// Chunks one behind the other.
pub fn bytes(chunks: &[Chunk<'_>]) -> Vec<u8> {
    let mut all = Vec::new();
    for chunk in chunks {
        let at = all.len();
        all.resize(at + chunk.buffer_len(), 0);
        chunk.emit(&mut all[at..]);
    }
    all
}

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The number at this place of a packet.
pub fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

const DELAY: Duration = Duration::from_millis(10);

impl World {
    pub fn new() -> Self {
        Self::with(1, &Sysctl::default(), 1)
    }

    /// `links` links, each with a device and an address on both hosts.
    pub fn with(links: usize, sysctl: &Sysctl, seed: u64) -> Self {
        Self::of(&vec![Pair::new(1_500, ROOM).caps(); links], sysctl, seed)
    }

    /// The same with devices of these capabilities.
    pub fn of(links: &[DeviceCaps], sysctl: &Sysctl, seed: u64) -> Self {
        let now = Instant::from_millis(1_000);
        let pairs: Vec<Pair> = links.iter().map(|caps| Pair::with_caps(*caps, ROOM)).collect();
        let stacks = [A, B].map(|host| {
            let config = Config { sysctl: sysctl.clone(), seed: seed * 2 + host as u64 };
            let mut stack = Stack::new(config, now);
            for (link, pair) in pairs.iter().enumerate() {
                let dev = stack.add_device(pair.caps());
                stack.add_address(dev, ip(link, host), 24).unwrap();
                stack.add_address(dev, ip6(link, host), 64).unwrap();
            }
            stack
        });
        Self {
            now,
            stacks,
            pairs,
            rule: Box::new(|_| Fate::Deliver(DELAY)),
            events: Default::default(),
            log: Vec::new(),
            flying: BTreeMap::new(),
            number: 0,
            mark: 0,
            listener: None,
            mutate: None,
            rewrite: None,
            slow: None,
            ill: BTreeMap::new(),
            next_packet: now,
        }
    }

    /// The first device of a host is one of these capabilities.
    pub fn replace(&mut self, host: usize, caps: DeviceCaps) {
        let mut stack = Stack::new(Config { seed: 77, ..Config::default() }, self.now);
        let dev = stack.add_device(caps);
        stack.add_address(dev, ip(0, host), 24).unwrap();
        self.stacks[host] = stack;
    }

    fn exchange(&mut self) {
        loop {
            let mut moved = false;
            for host in [A, B] {
                for link in 0..self.pairs.len() {
                    moved |= self.exchange_one(host, link);
                }
                while let Some(event) = self.stacks[host].next_event() {
                    self.events[host].push_back(event);
                }
            }
            if !moved {
                return;
            }
        }
    }

    fn exchange_one(&mut self, host: usize, link: usize) -> bool {
        let (now, dev, side) = (self.now, DeviceId(link as u16 + 1), SIDES[host]);
        let mut moved = false;
        let ill = self.ill.get(&link).copied().filter(|_| host == A);
        if ill == Some(Ill::Full) {
            return false;
        }
        while self.stacks[host].needs_transmit(dev) {
            let done = self.stacks[host].transmit(now, dev, 64, &mut self.pairs[link].end(side));
            if done.packets == 0 && !done.more {
                break;
            }
        }
        if ill.is_some() {
            return false;
        }
        while let Some(packet) = self.take(host, link) {
            moved = true;
            self.cross(host, link, &packet);
        }
        let mut owners = Vec::new();
        self.pairs[link].completions(side, &mut owners);
        for owner in owners {
            self.stacks[host].complete(now, dev, owner);
            moved = true;
        }
        moved
    }

    /// The next packet that has left the device of `host`.
    fn take(&mut self, host: usize, link: usize) -> Option<Packet> {
        let slow = self.slow.filter(|_| host == A);
        if slow.is_some() && self.next_packet > self.now {
            return None;
        }
        let packet = self.pairs[link].take(SIDES[1 - host], self.now)?;
        if let Some(time) = slow {
            self.next_packet = self.now + time;
        }
        Some(packet)
    }

    fn cross(&mut self, from: usize, link: usize, packet: &Packet) {
        let all = packet.to_bytes();
        let (header, protocol) = if all[0] >> 4 == 6 { (40, all[6]) } else { (20, all[9]) };
        // Fragments of IP are logged without chunks: only the whole has any.
        let fragment = header == 20 && (all[6] & 0x3f, all[7]) != (0, 0);
        let udp = (protocol == 17 && !fragment).then(|| (half(&all, header), half(&all, header + 2)));
        let before = header + if udp.is_some() { 20 } else { 12 };
        let chunks = all.get(before..).filter(|_| !fragment).unwrap_or_default();
        let crossing = Crossing { from, link, now: self.now, chunks };
        if protocol == 132 || udp.is_some() {
            let kinds = crossing.kinds();
            self.log.push(Line { at: self.now, from, link, kinds, bytes: all.len(), udp });
        }
        let mut packet = packet.clone();
        if let Some(rewrite) = &mut self.rewrite {
            let mut all = all.to_vec();
            rewrite(from, &mut all);
            packet = Packet::received(Bytes::from(all), Offload::default(), self.now);
        }
        if let Some(mutate) = &mut self.mutate
            && header == 20
            && protocol == 132
        {
            let mut chunks = chunks.to_vec();
            mutate(&mut chunks);
            packet = self.craft(&all[..20], &all[20..32], &chunks);
        }
        let ect = from == A && header == 20 && all[1] & 3 == 2 && crossing.kinds().contains(&0);
        if ect && self.mark > 0 {
            self.mark -= 1;
            let mut ip = all[..20].to_vec();
            ip[1] |= 3;
            packet = self.craft(&ip, &all[20..32], chunks);
        }
        let mut fly = |delay| {
            self.number += 1;
            self.flying.insert((self.now + delay, self.number), (1 - from, link, packet.clone()));
        };
        match (self.rule)(&crossing) {
            Fate::Deliver(delay) => fly(delay),
            Fate::Twice(one, two) => {
                fly(one);
                fly(two);
            }
            Fate::Lose => {}
        }
    }

    /// A packet of these headers and chunks.
    fn craft(&self, ip: &[u8], common: &[u8], chunks: &[u8]) -> Packet {
        let mut all = [ip, common, chunks].concat();
        let len = all.len() as u16;
        all[2..4].copy_from_slice(&len.to_be_bytes());
        all[10..12].fill(0);
        let sum = !lowwater_wire::checksum::fold(lowwater_wire::checksum::sum(&all[..20]));
        all[10..12].copy_from_slice(&sum.to_be_bytes());
        fill_checksum(&mut all[20..], &[]);
        Packet::received(Bytes::from(all), Offload::default(), self.now)
    }

    /// Hands host `to` a packet from the other one with this tag and these chunks.
    pub fn inject(&mut self, to: usize, ports: (u16, u16), vtag: u32, chunks: &[u8]) {
        self.inject_from(ip(0, 1 - to), to, ports, vtag, chunks);
    }

    /// Hands host `to` a packet from this address.
    pub fn inject_from(&mut self, from: IpAddr, to: usize, ports: (u16, u16), vtag: u32, chunks: &[u8]) {
        let addresses = [from, ip(0, to)].map(|ip| match ip {
            IpAddr::V4(ip) => ip.octets(),
            IpAddr::V6(_) => unreachable!("these worlds are IPv4"),
        });
        let mut header = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 132, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        header[12..16].copy_from_slice(&addresses[0]);
        header[16..20].copy_from_slice(&addresses[1]);
        let mut common = [0; 12];
        SctpRepr { src_port: ports.0, dst_port: ports.1, vtag }.emit(&mut common);
        let packet = self.craft(&header, &common, chunks);
        let now = self.now;
        self.stacks[to].receive(now, DeviceId(1), packet);
        self.stacks[to].flush(now);
    }

    /// A router says to host `to` that its packets of this flow and tag are wider than `mtu`.
    pub fn too_big(&mut self, to: usize, ports: (u16, u16), vtag: u32, mtu: u16) {
        let common = [&ports.0.to_be_bytes()[..], &ports.1.to_be_bytes(), &vtag.to_be_bytes()].concat();
        self.unreachable(to, (4, mtu), 132, &common);
    }

    /// A router says "unreachable" with this code to host `to`, and quotes so much of its packet.
    pub fn unreachable(&mut self, to: usize, (code, mtu): (u8, u16), protocol: u8, l4: &[u8]) {
        let [IpAddr::V4(src), IpAddr::V4(dst)] = [ip(0, to), ip(0, 1 - to)] else { unreachable!("IPv4") };
        let mut quoted = vec![0x45, 0, 5, 220, 0, 0, 0x40, 0, 64, protocol, 0, 0];
        quoted.extend([src.octets(), dst.octets()].concat());
        quoted.extend(l4);
        let repr = Icmp4Repr::Unreachable { code, mtu, quoted: &quoted };
        let len = repr.buffer_len();
        let mut all = vec![0x45, 0, 0, 20 + len as u8, 0, 0, 0x40, 0, 64, 1, 0, 0];
        all.extend([dst.octets(), src.octets()].concat());
        let sum = !lowwater_wire::checksum::fold(lowwater_wire::checksum::sum(&all));
        all[10..12].copy_from_slice(&sum.to_be_bytes());
        all.resize(20 + len, 0);
        repr.emit(&mut all[20..]);
        let now = self.now;
        let packet = Packet::received(Bytes::from(all), Offload::default(), now);
        self.stacks[to].receive(now, DeviceId(1), packet);
        self.stacks[to].flush(now);
    }

    /// One step to the next instant at which something happens; false when nothing does until `until`.
    pub fn step(&mut self, until: Instant) -> bool {
        self.exchange();
        let arrival = self.flying.first_key_value().map(|(key, _)| key.0);
        let freed = self.slow.map(|_| self.next_packet).filter(|&at| at > self.now);
        let next = [arrival, freed, self.stacks[A].next_deadline(), self.stacks[B].next_deadline()];
        let Some(next) = next.into_iter().flatten().min().filter(|&at| at <= until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(next);
        while let Some(entry) = self.flying.first_entry().filter(|e| e.key().0 <= self.now) {
            let (to, link, mut packet) = entry.remove();
            packet.at = self.now;
            packet.owner = None;
            self.stacks[to].receive(self.now, DeviceId(link as u16 + 1), packet);
        }
        for stack in &mut self.stacks {
            stack.handle_timeout(self.now);
        }
        self.exchange();
        true
    }

    /// Runs until `done`, or until `limit` has passed: then false.
    pub fn run(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let until = self.now + limit;
        for _ in 0..500_000u64 {
            if done(self) {
                return true;
            }
            if !self.step(until) {
                return done(self);
            }
        }
        panic!("no end after half a million steps");
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: Duration) {
        self.run(time, |_| false);
    }

    /// The capabilities of link 0, for a host that is made anew.
    pub fn caps(&self) -> lowwater_core::device::DeviceCaps {
        self.pairs[0].caps()
    }

    pub fn options(&self) -> SctpOptions {
        SctpOptions::new(self.stacks[A].sysctl())
    }

    pub fn listen(&mut self, options: SctpOptions) -> SocketId {
        let now = self.now;
        let any = SocketAddr::from(([0, 0, 0, 0], 5_000));
        self.stacks[B].sctp_listen(now, &[any], 16, options).unwrap()
    }

    pub fn connect(&mut self, options: SctpOptions) -> SocketId {
        let now = self.now;
        let remote = SocketAddr::new(ip(0, B), 5_000);
        self.stacks[A].sctp_connect(now, &[remote], &[], options).unwrap()
    }

    /// An association from A to B: its sockets.
    pub fn associated(&mut self, a: SctpOptions, b: SctpOptions) -> (SocketId, SocketId) {
        let listener = self.listen(b);
        self.listener = Some(listener);
        let client = self.connect(a);
        let mut server = None;
        let done = self.run(Duration::from_secs(60), |w| {
            let now = w.now;
            server = server.or_else(|| w.stacks[B].sctp_accept(now, listener).ok().map(|(id, _)| id));
            server.is_some() && w.events[A].contains(&Event::Connected(client))
        });
        assert!(done, "no association; {:?}", self.log);
        (client, server.expect("accepted"))
    }

    pub fn pair(&mut self) -> (SocketId, SocketId) {
        let options = self.options();
        self.associated(options.clone(), options)
    }

    pub fn send(&mut self, host: usize, id: SocketId, data: &[u8], info: SendInfo) -> usize {
        let now = self.now;
        self.stacks[host].sctp_send(now, id, Bytes::copy_from_slice(data), info).unwrap()
    }

    /// Host A is switched off and on, and opens again from the port that it had.
    pub fn start_anew(&mut self, port: u16) -> SocketId {
        let mut fresh = Stack::new(Config { seed: 99, ..Config::default() }, self.now);
        for (link, pair) in self.pairs.iter().enumerate() {
            let dev = fresh.add_device(pair.caps());
            fresh.add_address(dev, ip(link, A), 24).unwrap();
        }
        self.stacks[A] = fresh;
        self.events[A].clear();
        let (now, options) = (self.now, self.options());
        let (local, remote) = (SocketAddr::new(ip(0, A), port), SocketAddr::new(ip(0, B), 5_000));
        self.stacks[A].sctp_connect(now, &[remote], &[local], options).unwrap()
    }

    /// What can be read now, item by item.
    pub fn read(&mut self, host: usize, id: SocketId) -> Vec<Received> {
        let (now, mut all) = (self.now, Vec::new());
        while let Ok(Some(item)) = self.stacks[host].sctp_recv(now, id, 1 << 20) {
            all.push(item);
        }
        all
    }

    /// The messages that can be read now, their data alone.
    pub fn messages(&mut self, host: usize, id: SocketId) -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> = Vec::new();
        let mut open = false;
        for item in self.read(host, id) {
            let Received::Data { data, eor, .. } = item else { continue };
            if open {
                all.last_mut().expect("open").extend_from_slice(&data);
            } else {
                all.push(data.to_vec());
            }
            open = !eor;
        }
        all
    }

    /// A message each 10 ms for ten seconds, all of which arrive; the longest time between two of them.
    pub fn longest_silence(&mut self, a: SocketId, b: SocketId) -> Duration {
        let (mut last, mut longest, mut got): (Instant, Duration, usize) = (self.now, Duration::ZERO, 0);
        for _ in 0..1_000 {
            self.send(A, a, &[1; 160], SendInfo::default());
            let until = self.now + ms(10);
            self.run(ms(10), |w| {
                let n = w.messages(B, b).len();
                if n > 0 {
                    longest = longest.max(w.now.since(last));
                    last = w.now;
                    got += n;
                }
                w.now >= until
            });
        }
        self.pass(Duration::from_secs(5));
        got += self.messages(B, b).len();
        assert_eq!(got, 1_000, "nothing is lost or doubled");
        longest
    }

    pub fn info(&self, host: usize, id: SocketId) -> AssocInfo {
        self.stacks[host].sctp_info(id).unwrap()
    }

    /// How many packets with this kind of chunk `from` has sent.
    pub fn sent(&self, from: usize, kind: u8) -> usize {
        self.log.iter().filter(|l| l.from == from && l.kinds.contains(&kind)).count()
    }
}
