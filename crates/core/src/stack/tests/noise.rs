//! Whatever comes in, and in whatever order the calls come, nothing panics and nothing leaks.
use super::world::{World, v4};
use crate::base::{DeviceId, Duration, Instant, Rng, SocketId};
use crate::device::{DeviceCaps, Submit};
use crate::packet::{Csum, GsoKind, Offload, Owner, Packet};
use crate::stack::{Decision, Event, ListenAddr, ListenOptions, RequestId, Stack};
use crate::tcp::{How, SendFlags, SocketOptions};
use bytes::Bytes;
use core::net::SocketAddr;

/// Runs of the scramble.
const SEEDS: u64 = 200;

/// One host of the scramble with what it holds.
struct Host {
    sockets: Vec<SocketId>,
    requests: Vec<RequestId>,
}

/// Two stacks, random calls, and a wire that changes what it carries.
struct Scramble {
    rng: Rng,
    now: Instant,
    stacks: [Stack; 2],
    devs: [DeviceId; 2],
    hosts: [Host; 2],
    wire: [Vec<Packet>; 2],
    owed: [Vec<Owner>; 2],
    damage_ppm: u32,
}

impl Scramble {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let kinds = [DeviceCaps::plain(1_500), DeviceCaps::offloading(1_500), DeviceCaps::plain(576)];
        let caps = kinds[rng.below(3) as usize];
        let World { mut stacks, devs, .. } = World::new([caps, caps]);
        for (stack, dev) in stacks.iter_mut().zip(devs) {
            stack.set_any_address(dev, rng.below(2) == 0).expect("a device");
            stack.set_sysctl("tcp_max_syn_backlog", "16").expect("a sysctl");
            stack.set_sysctl("tcp_max_tw_buckets", "16").expect("a sysctl");
            stack.set_sysctl("tcp_max_orphans", "16").expect("a sysctl");
        }
        let damage_ppm = [0, 20_000, 300_000][rng.below(3) as usize];
        let host = || Host { sockets: Vec::new(), requests: Vec::new() };
        Self {
            rng,
            now: Instant::from_millis(1),
            stacks,
            devs,
            hosts: [host(), host()],
            wire: Default::default(),
            owed: Default::default(),
            damage_ppm,
        }
    }

    fn below(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }

    fn socket(&mut self, side: usize) -> SocketId {
        let (n, stale) = (self.hosts[side].sockets.len(), self.below(50) == 0);
        let at = self.below(n.max(1));
        if stale {
            SocketId::default()
        } else {
            self.hosts[side].sockets.get(at).copied().unwrap_or_default()
        }
    }

    fn addr(&mut self) -> SocketAddr {
        let ip = [v4(1), v4(2), v4(9), "127.0.0.1".parse().expect("valid")][self.below(4)];
        SocketAddr::new(ip, 80 + self.below(3) as u16)
    }

    /// A call of an application.
    fn call(&mut self, side: usize) {
        let (now, id, addr, dice) = (self.now, self.socket(side), self.addr(), self.below(20));
        let len = self.below(20_000);
        let stack = &mut self.stacks[side];
        let options = SocketOptions::new(stack.sysctl());
        let new = match dice {
            0 | 1 => stack.tcp_connect(now, addr, None, &options).ok(),
            2 => stack.tcp_connect(now, addr, Some(addr), &options).ok(),
            3 => {
                let options = ListenOptions { backlog: 2, ask: len.is_multiple_of(2), options };
                stack.tcp_listen(now, ListenAddr { ip: None, port: Some(addr.port()) }, options).ok()
            }
            4 => stack.udp_bind(now, SocketAddr::new(addr.ip(), 0)).ok(),
            5 | 6 => stack.tcp_accept(now, id).map(|(id, _)| id).ok(),
            7 => {
                let how = [How::Read, How::Write, How::Both][len % 3];
                let _ = stack.shutdown(now, id, how);
                None
            }
            8 if len.is_multiple_of(4) => {
                let _ = if len.is_multiple_of(8) { stack.close(now, id) } else { stack.abort(now, id) };
                None
            }
            9 => {
                let _ = stack.udp_connect(now, id, addr);
                let _ = stack.udp_send_to(now, id, Bytes::from(vec![1; len]), addr);
                None
            }
            10 => {
                let _ = (stack.udp_recv_from(now, id), stack.take_error(id), stack.poll(now, id));
                None
            }
            11 => {
                let request = self.hosts[side].requests.pop().unwrap_or_default();
                let decision = [Decision::Accept, Decision::Refuse, Decision::Drop][len % 3];
                let _ = stack.tcp_decide(now, request, decision);
                None
            }
            12..=15 => {
                let _ = stack.tcp_send(
                    now,
                    id,
                    &vec![3; len],
                    SendFlags {
                        more: len.is_multiple_of(3),
                        oob: len.is_multiple_of(7),
                        ..SendFlags::default()
                    },
                );
                None
            }
            16..=18 => {
                let _ = stack.tcp_recv(now, id, &mut vec![0; len], len.is_multiple_of(5));
                None
            }
            _ => {
                let nodelay =
                    SocketOptions { nodelay: len.is_multiple_of(2), cork: len.is_multiple_of(3), ..options };
                let _ = (stack.set_options(now, id, nodelay), stack.tcp_info(now, id), stack.report(now));
                None
            }
        };
        self.hosts[side].sockets.extend(new);
    }

    fn damaged(&mut self, packet: &Packet) -> Packet {
        let mut bytes = packet.to_bytes().to_vec();
        let at = self.below(bytes.len().min(80));
        let mut offload = packet.offload;
        match self.below(6) {
            0 => bytes[at] ^= 1 << self.below(8),
            1 => bytes.truncate(at),
            2 => bytes.extend(vec![0; at]),
            3 => offload.csum = Csum::Valid,
            4 => offload.gso_size = at as u16,
            _ => offload.gso = GsoKind::Tcp6,
        }
        if self.below(2) == 0 {
            // Believed, so that the change reaches the transports.
            offload.csum = Csum::Valid;
        }
        Packet::received(Bytes::from(bytes), offload, self.now)
    }

    fn carry(&mut self, side: usize) {
        for _ in 0..self.below(20) {
            let n = self.wire[side].len();
            if n == 0 {
                return;
            }
            let at = if self.damage_ppm > 0 && self.below(10) == 0 { self.below(n) } else { 0 };
            let mut packet = self.wire[side].remove(at);
            packet.at = self.now;
            if self.rng.chance_ppm(self.damage_ppm) {
                packet = self.damaged(&packet);
            }
            self.stacks[1 - side].receive(self.now, self.devs[1 - side], packet);
        }
    }

    fn transmit(&mut self, side: usize) {
        let (budget, room) = (self.below(10), self.below(10));
        let (wire, owed, mut taken) = (&mut self.wire[side], &mut self.owed[side], 0);
        let mut device = |_, mut packet: Packet| {
            taken += 1;
            match taken {
                n if n > room => return Submit::NotNow(packet),
                5 => return Submit::Dropped,
                _ => {}
            }
            let owner = packet.owner.take();
            wire.push(packet);
            if taken == 3 {
                return Submit::Completed;
            }
            owed.extend(owner);
            if taken == room { Submit::Filled } else { Submit::Sent }
        };
        self.stacks[side].transmit(self.now, self.devs[side], budget, &mut device);
    }

    fn step(&mut self) {
        let side = self.below(2);
        match self.below(8) {
            0 | 1 => self.call(side),
            2 | 3 => self.transmit(side),
            4 => self.carry(side),
            5 => {
                for owner in core::mem::take(&mut self.owed[side]) {
                    self.stacks[side].complete(self.now, self.devs[side], owner);
                }
                self.stacks[side].device_ready(self.now, self.devs[side]);
            }
            6 => self.stacks[side].handle_timeout(self.now),
            _ => {
                let jump = [10_000, 1_000_000, 250_000_000, 3_000_000_000][self.below(4)];
                self.now = self.now.plus_nanos(self.rng.below(jump));
            }
        }
        while let Some(event) = self.stacks[side].next_event() {
            match event {
                Event::Incoming { request, .. } => self.hosts[side].requests.push(request),
                Event::Gone(id) => self.hosts[side].sockets.retain(|s| *s != id),
                _ => {}
            }
        }
    }

    /// Closes everything and lets time pass: nothing may be left.
    fn end(&mut self) {
        for side in 0..2 {
            for id in core::mem::take(&mut self.hosts[side].sockets) {
                let _ = self.stacks[side].close(self.now, id);
            }
        }
        for _ in 0..400 {
            self.now += Duration::from_secs(2);
            for side in 0..2 {
                self.wire[side].clear();
                self.stacks[side].device_ready(self.now, self.devs[side]);
                let mut sink = |_, _| Submit::Completed;
                self.stacks[side].handle_timeout(self.now);
                self.stacks[side].transmit(self.now, self.devs[side], 1_000, &mut sink);
                for owner in core::mem::take(&mut self.owed[side]) {
                    self.stacks[side].complete(self.now, self.devs[side], owner);
                }
                while let Some(event) = self.stacks[side].next_event() {
                    assert!(!matches!(event, Event::Readable(_)), "nobody holds a socket");
                }
            }
        }
        for stack in &mut self.stacks {
            let left = stack.report(Instant::ZERO);
            assert_eq!((stack.open_sockets(), stack.small_objects()), (0, (0, 0, 0)), "{:?}", left.sockets);
            assert!(stack.wheel.is_empty());
        }
    }
}

#[test]
fn scrambled_calls_and_packets_do_no_harm() {
    let mut opened = 0;
    for seed in 0..SEEDS {
        let outcome = std::panic::catch_unwind(|| {
            let mut scramble = Scramble::new(seed);
            for _ in 0..3_000 {
                scramble.step();
            }
            scramble.end();
            scramble.stacks.iter().map(|s| s.counters().tcp.passive_opens).sum::<u64>()
        });
        opened += outcome.unwrap_or_else(|_| panic!("seed {seed}"));
    }
    assert!(opened > SEEDS, "only {opened} connections in {SEEDS} runs");
}

#[test]
fn headers_of_pure_noise_are_dropped() {
    let mut rng = Rng::new(99);
    let mut w = World::plain();
    for _ in 0..20_000 {
        let len = rng.below(120) as usize;
        let mut bytes: Vec<u8> = (0..len).map(|_| rng.next_u32() as u8).collect();
        if let Some(first) = bytes.first_mut() {
            *first = if rng.below(2) == 0 { 0x45 } else { 0x60 };
        }
        let packet = Packet::received(Bytes::from(bytes), Offload::default(), w.now);
        w.stacks[1].receive(w.now, w.devs[1], packet);
    }
    w.run(Duration::from_secs(60));
    assert_eq!(w.stacks[1].open_sockets(), 0);
}
