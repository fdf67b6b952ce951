//! A peer made by hand: a stack with one device, into which a script injects segments and from which it takes what leaves,
//! each at an exact instant of virtual time.
mod app;
mod icmp;

use super::text::{Seg, flags_text};
use bytes::Bytes;
use lowwater_core::base::{DeviceId, Duration, Error, Instant, SocketId, Sysctl};
use lowwater_core::device::{DeviceCaps, Submit};
use lowwater_core::packet::{Offload, Owner, Packet};
use lowwater_core::stack::{Config, Event, ListenAddr, ListenOptions, Stack};
use lowwater_core::tcp::SocketOptions;
use lowwater_wire::ipv4::{Ipv4Repr, Ipv4View};
use lowwater_wire::tcp::{TcpFlags, TcpOptions, TcpRepr, TcpView, Timestamps, fill_checksum};
use lowwater_wire::{checksum, protocol};
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};

pub const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The peer's ISN: near the end of the number space, so that everything wraps.
const PEER_ISN: u32 = 0xffff_ff00;

/// Byte `offset` of a pattern that no shift of itself matches.
pub fn pattern(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// How a connection is made.
#[derive(Clone)]
pub struct Shape {
    pub sysctl: Sysctl,
    /// Changes the options of the stack's socket.
    pub options: fn(&mut SocketOptions),
    /// What the peer's SYN says.
    pub syn: &'static str,
    /// Round trip of the handshake.
    pub rtt_ms: u64,
    /// Window field of the peer's segments when the script does not say.
    pub win: u16,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            sysctl: Sysctl::default(),
            options: |_| {},
            syn: "win 65535 mss 1460 sackOK",
            rtt_ms: 100,
            win: 65_535,
        }
    }
}

/// The world of a script.
pub struct Peer {
    pub stack: Stack,
    pub sock: SocketId,
    pub listener: SocketId,
    pub events: Vec<Event>,
    /// Window field of the peer's segments when the script does not say.
    pub win: u16,
    dev: DeviceId,
    now: Instant,
    zero: Instant,
    out: VecDeque<(Instant, Seg)>,
    iss: Option<u32>,
    iss_of: BTreeMap<u16, u32>,
    ts_base: Option<u32>,
    last_tsval: u32,
    ts_auto: bool,
    ports: (u16, u16),
    last_packet: Bytes,
    journal: Vec<String>,
    written: u64,
    read: u64,
    shape: Shape,
    /// Packets that the device has not completed, where it is slow.
    below: Option<Vec<Owner>>,
    /// Type of service of what the peer sends, ECN aside.
    pub tos: u8,
    /// The wish of the last packet that left, for queues (SO_PRIORITY).
    pub last_priority: Option<u8>,
    /// The device has no room, so that nobody asks for packets.
    stalled: bool,
    /// Packets that the driver still asks for in this turn.
    turn: usize,
    /// The device says "not now" to all that it is offered.
    refuses: bool,
    /// How far the timestamps of data are from the milliseconds of its departure, by ports.
    stamps: BTreeMap<(u16, u16), u32>,
}

impl Peer {
    pub fn new(shape: Shape) -> Self {
        let now = Instant::from_millis(1_000_000);
        let mut stack = Stack::new(Config { sysctl: shape.sysctl.clone(), seed: 7 }, now);
        let dev = stack.add_device(DeviceCaps::plain(1_500));
        stack.add_address(dev, US.into(), 24).unwrap();
        Self {
            stack,
            sock: SocketId::default(),
            listener: SocketId::default(),
            events: Vec::new(),
            win: shape.win,
            dev,
            now,
            zero: now,
            out: VecDeque::new(),
            iss: None,
            iss_of: BTreeMap::new(),
            ts_base: None,
            last_tsval: 0,
            ts_auto: false,
            ports: (80, 5_000),
            last_packet: Bytes::new(),
            journal: Vec::new(),
            written: 0,
            read: 0,
            shape,
            below: None,
            tos: 0,
            last_priority: None,
            stalled: false,
            turn: usize::MAX,
            refuses: false,
            stamps: BTreeMap::new(),
        }
    }

    /// From now on the device keeps what it was given until [`Self::complete`].
    pub fn slow_device(&mut self) {
        self.below.get_or_insert_default();
    }

    /// It is done with all that it was given, and with what it will be as soon as it has it.
    pub fn quick_device(&mut self) {
        for owner in self.below.take().unwrap_or_default() {
            self.stack.complete(self.now, self.dev, owner);
        }
        self.pump();
    }

    /// The device has no room from now on, or has some again.
    pub fn stall(&mut self, on: bool) {
        self.stalled = on;
        self.pump();
    }

    /// The driver asks for so many packets and for no more until it is told again.
    pub fn turn(&mut self, packets: usize) {
        self.turn = packets;
        self.pump();
    }

    /// The device refuses all from now on, or has room again.
    pub fn refuse(&mut self, on: bool) {
        self.refuses = on;
        if !on {
            self.stack.device_ready(self.now, self.dev);
        }
        self.pump();
    }

    pub fn set_qdisc(&mut self, words: &str) {
        let qdisc: lowwater_core::qdisc::Any = words.parse().expect("the words of a discipline");
        self.stack.set_qdisc(self.dev, qdisc).expect("the device is there");
    }

    /// The device is done with the oldest `n` packets.
    pub fn complete(&mut self, n: usize) {
        for owner in self.below.as_mut().expect("a slow device").drain(..n) {
            self.stack.complete(self.now, self.dev, owner);
        }
        self.pump();
    }

    /// The device drops the oldest packet.
    pub fn drop_below(&mut self) {
        let owner = self.below.as_mut().expect("a slow device").remove(0);
        self.stack.dropped(self.now, self.dev, Some(owner));
        self.pump();
    }

    /// A listener of the stack; the peer's next SYN opens a connection to it.
    pub fn listening(shape: Shape, backlog: u32) -> Self {
        let mut p = Self::new(shape);
        let options = p.socket_options();
        let addr = ListenAddr { ip: None, port: Some(80) };
        let listen = ListenOptions { backlog, ask: false, options };
        p.listener = p.stack.tcp_listen(p.now, addr, listen).unwrap();
        p
    }

    /// The stack has sent its SYN, which still waits to be expected.
    pub fn connecting(shape: Shape) -> Self {
        let mut p = Self::new(shape);
        p.connect();
        p
    }

    pub fn connect(&mut self) {
        let options = self.socket_options();
        let remote = SocketAddr::new(PEER.into(), 80);
        self.sock = self.stack.tcp_connect(self.now, remote, None, &options).unwrap();
        self.ports = (self.stack.local_addr(self.sock).unwrap().port(), 80);
        self.pump();
    }

    /// An active open between these ports; numbers go on from the old connection's.
    pub fn connect_from(&mut self, ours: u16, theirs: u16) -> Result<(), Error> {
        let options = self.socket_options();
        let local = SocketAddr::new(US.into(), ours);
        let remote = SocketAddr::new(PEER.into(), theirs);
        self.sock = self.stack.tcp_connect(self.now, remote, Some(local), &options)?;
        self.ports = (ours, theirs);
        self.pump();
        Ok(())
    }

    /// An active open to port 80 that may fail.
    pub fn try_connect(&mut self) -> Result<(), Error> {
        let options = self.socket_options();
        let remote = SocketAddr::new(PEER.into(), 80);
        self.sock = self.stack.tcp_connect(self.now, remote, None, &options)?;
        self.ports = (self.stack.local_addr(self.sock).unwrap().port(), 80);
        self.pump();
        Ok(())
    }

    /// The listener is gone.
    pub fn close_listener(&mut self) {
        self.stack.close(self.now, self.listener).unwrap();
    }

    /// As `connect`, with `n` bytes for the SYN; how many of them went along.
    pub fn connect_with_data(&mut self, n: usize) -> usize {
        let options = self.socket_options();
        let data: Vec<u8> = (0..n as u64).map(pattern).collect();
        let remote = SocketAddr::new(PEER.into(), 80);
        let (sock, taken) =
            self.stack.tcp_connect_with_data(self.now, remote, None, &options, &data).unwrap();
        (self.sock, self.written) = (sock, taken as u64);
        self.ports = (self.stack.local_addr(self.sock).unwrap().port(), 80);
        self.pump();
        taken
    }

    /// The next connection is a new one: numbers and data begin anew.
    pub fn next_connection(&mut self) {
        self.forget_iss();
        (self.written, self.read) = (0, 0);
    }

    /// A connection that the peer opened; time zero is when it was accepted.
    pub fn server(shape: Shape) -> Self {
        let (syn, rtt) = (shape.syn, shape.rtt_ms);
        let mut p = Self::listening(shape, 128);
        p.inject(&format!("S 0 {syn}"));
        p.drain();
        p.ts_auto = p.ts_base.is_some();
        p.at(rtt);
        p.inject(". 1 ack 1");
        p.accept();
        p.zero = p.now;
        p
    }

    /// A connection that the stack opened; time zero is when it was established.
    pub fn client(shape: Shape) -> Self {
        let (syn, rtt) = (shape.syn, shape.rtt_ms);
        let mut p = Self::connecting(shape);
        p.drain();
        p.at(rtt);
        p.ts_auto = syn.contains("ts ");
        p.inject(&format!("S. 0 ack 1 {syn}"));
        p.expect(". 1 ack 1");
        p.zero = p.now;
        p
    }

    pub fn accept(&mut self) {
        self.sock = self.stack.tcp_accept(self.now, self.listener).expect("a connection to accept").0;
    }

    fn socket_options(&self) -> SocketOptions {
        let mut options = SocketOptions::new(self.stack.sysctl());
        (self.shape.options)(&mut options);
        options
    }

    pub fn set(&mut self, change: fn(&mut SocketOptions)) {
        let mut options = self.stack.options(self.sock).unwrap().clone();
        change(&mut options);
        self.stack.set_options(self.now, self.sock, options).unwrap();
        self.pump();
    }

    /// From now on the peer is somebody else: another port, and sequence numbers from zero.
    pub fn other_peer(&mut self, port: u16) {
        (self.iss, self.ts_base, self.ports.1) = (None, None, port);
    }

    /// Speaks as another peer, whose flow began before; returns what [`Self::swap_peer_back`] wants.
    pub fn swap_peer(&mut self, port: u16) -> Option<u32> {
        let iss = self.iss;
        self.iss = self.iss_of.get(&port).copied();
        self.ports.1 = port;
        iss
    }

    pub fn swap_peer_back(&mut self, port: u16, iss: Option<u32>) {
        (self.iss, self.ports.1) = (iss, port);
    }

    /// The next SYN of the stack begins a new numbering.
    pub fn forget_iss(&mut self) -> Option<u32> {
        self.ts_base = None;
        self.iss.take()
    }

    /// Numbers count from the beginning of an earlier connection.
    pub fn set_iss(&mut self, iss: u32) {
        self.iss = Some(iss);
    }

    pub fn iss(&self) -> u32 {
        self.iss.expect("the stack has sent something")
    }

    /// The peer's timestamps: none, or by its clock.
    pub fn auto_timestamps(&mut self, on: bool) {
        self.ts_auto = on;
    }

    pub fn ms(&self) -> u64 {
        self.now.since(self.zero).as_millis() as u64
    }

    pub fn now(&self) -> Instant {
        self.now
    }

    pub fn set_zero(&mut self) {
        self.zero = self.now;
    }

    // ----- time -----

    fn advance(&mut self, to: Instant) {
        self.pump();
        for _ in 0..1_000_000 {
            match self.stack.next_deadline().filter(|&at| at <= to) {
                // What is due below stays so while nobody asks for it: the driver looks at its timers again.
                Some(at) if at <= self.now && self.is_held() => {
                    if self.now >= to {
                        return;
                    }
                    self.now = (self.now + Duration::from_millis(1)).min(to);
                }
                Some(at) => self.now = self.now.max(at),
                None => {
                    self.now = self.now.max(to);
                    return;
                }
            }
            self.stack.handle_timeout(self.now);
            self.pump();
        }
        panic!("the stack's deadlines never end\n{}", self.log());
    }

    /// Goes to `ms` after time zero; nothing may leave on the way.
    pub fn at(&mut self, ms: u64) {
        self.at_us(ms * 1_000);
    }

    pub fn at_us(&mut self, us: u64) {
        self.quiet();
        let to = self.zero + Duration::from_micros(us);
        assert!(to >= self.now, "the script goes back in time to {us} us\n{}", self.log());
        self.advance(to);
        self.quiet();
    }

    /// Goes to `ms` and returns what left on the way, with times.
    pub fn run_to(&mut self, ms: u64) -> Vec<(u64, Seg)> {
        self.advance(self.zero + Duration::from_millis(ms));
        let zero = self.zero;
        self.out.drain(..).map(|(at, seg)| (at.since(zero).as_millis() as u64, seg)).collect()
    }

    // ----- what leaves -----

    const fn is_held(&self) -> bool {
        self.stalled || self.refuses || self.turn == 0
    }

    /// Tail loss probes that have left, where recovery has no use for any.
    fn probes_in_recovery(&mut self) -> Option<u64> {
        let recovers = self.stack.tcp_info(self.now, self.sock).is_ok_and(|info| info.ca_state >= 3);
        recovers.then(|| self.stack.counters().tcp_ext.tcp_loss_probes)
    }

    fn pump(&mut self) {
        loop {
            let (now, dev) = (self.now, self.dev);
            let probes = self.probes_in_recovery();
            let mut got = Vec::new();
            let (below, priority, refuses) = (&mut self.below, &mut self.last_priority, self.refuses);
            let mut device = |_: Instant, packet: Packet| {
                if refuses {
                    return Submit::NotNow(packet);
                }
                *priority = packet.priority;
                got.push((packet.at, packet.to_bytes()));
                match below {
                    Some(below) => {
                        below.extend(packet.owner);
                        Submit::Sent
                    }
                    None => Submit::Completed,
                }
            };
            if !self.stalled && self.turn > 0 {
                self.stack.transmit(now, dev, self.turn.min(64), &mut device);
            }
            if self.turn < usize::MAX {
                self.turn = self.turn.saturating_sub(got.len());
            }
            if let Some(probes) = probes {
                let after = self.stack.counters().tcp_ext.tcp_loss_probes;
                assert_eq!(after, probes, "a probe in recovery\n{}", self.log());
            }
            let any = !got.is_empty();
            for (at, bytes) in got {
                self.capture(at, &bytes);
            }
            while let Some(event) = self.stack.next_event() {
                self.events.push(event);
            }
            if !any {
                return;
            }
        }
    }

    fn capture(&mut self, departure: Instant, bytes: &Bytes) {
        let ip = Ipv4View::parse(bytes).expect("an IPv4 packet");
        assert!(ip.checksum_ok() && ip.src() == US && ip.dst() == PEER);
        assert!(bytes.len() <= 1_500, "a packet above the MTU");
        assert_eq!(ip.protocol(), protocol::TCP);
        let tcp = TcpView::parse(ip.payload()).expect("a TCP segment");
        let pseudo = checksum::pseudo_v4(US, PEER, protocol::TCP, ip.payload().len());
        assert!(tcp.checksum_ok(pseudo), "TCP checksum");
        assert_eq!((tcp.src_port(), tcp.dst_port()), self.ports, "ports");
        let (flags, options) = (tcp.flags(), tcp.options());
        if flags.contains(TcpFlags::SYN) && self.iss.is_none() {
            self.iss = Some(tcp.seq());
            self.iss_of.insert(self.ports.1, tcp.seq());
        }
        let iss = self.iss.unwrap_or(0);
        let syn = u32::from(flags.contains(TcpFlags::SYN));
        let data_at = tcp.seq().wrapping_sub(iss).wrapping_sub(1).wrapping_add(syn);
        for (i, &byte) in tcp.payload().iter().enumerate() {
            assert_eq!(byte, pattern(u64::from(data_at) + i as u64), "payload at {}", data_at as usize + i);
        }
        let base = options.timestamps.map(|ts| *self.ts_base.get_or_insert(ts.value));
        if let Some(ts) = options.timestamps {
            self.last_tsval = ts.value;
            if !tcp.payload().is_empty() {
                // Of data the sender remembers when it left: an echo that is older would be another transmission's.
                let ahead = ts.value.wrapping_sub(departure.as_millis() as u32);
                let first = *self.stamps.entry(self.ports).or_insert(ahead);
                assert_eq!(ahead, first, "a timestamp that is not of the departure\n{}", self.log());
            }
        }
        let extra = u32::from(flags.contains(TcpFlags::SYN)) + u32::from(flags.contains(TcpFlags::FIN));
        let seg = Seg {
            flags: flags_text(flags),
            seq: Some(tcp.seq().wrapping_sub(iss)),
            len: if extra > 0 && tcp.payload().is_empty() { 0 } else { tcp.payload().len() as u32 },
            ack: flags.contains(TcpFlags::ACK).then(|| tcp.ack().wrapping_sub(PEER_ISN)),
            win: Some(tcp.window().into()),
            urg: flags.contains(TcpFlags::URG).then(|| tcp.urgent()),
            mss: options.mss,
            ws: options.window_scale,
            sack_ok: options.sack_permitted,
            ts: options.timestamps.map(|ts| (ts.value.wrapping_sub(base.unwrap_or(0)), ts.echo)),
            sack: options
                .sack
                .iter()
                .map(|(a, b)| (a.wrapping_sub(PEER_ISN), b.wrapping_sub(PEER_ISN)))
                .collect(),
            ecn: Some(ip.tos() & 3),
            fastopen: options.fastopen,
            all_options: false,
        };
        self.journal.push(format!("{:>12} > {seg}", self.stamp()));
        self.out.push_back((self.now, seg));
        self.last_packet = bytes.clone();
    }

    /// Type of service and time to live of the last packet that left.
    pub fn last_tos_ttl(&self) -> (u8, u8) {
        let ip = Ipv4View::parse(&self.last_packet).expect("an IPv4 packet");
        (ip.tos(), ip.ttl())
    }

    /// Whether routers may not fragment the last packet that left.
    pub fn last_dont_fragment(&self) -> bool {
        Ipv4View::parse(&self.last_packet).expect("an IPv4 packet").dont_fragment()
    }

    pub fn our_port(&self) -> u16 {
        self.ports.0
    }

    fn stamp(&self) -> String {
        let us = self.now.since(self.zero).as_micros();
        if self.now < self.zero { "before".into() } else { format!("{}.{:03}", us / 1_000, us % 1_000) }
    }

    fn log(&self) -> String {
        let from = self.journal.len().saturating_sub(60);
        format!("--- at {} ms; so far:\n{}", self.stamp(), self.journal[from..].join("\n"))
    }

    /// Nothing has left that the script does not know of.
    #[track_caller]
    pub fn quiet(&mut self) {
        self.pump();
        if let Some((_, seg)) = self.out.front() {
            panic!("not expected: {seg}\n{}", self.log());
        }
    }

    /// The next segment leaves at this very instant and fits `text`.
    #[track_caller]
    pub fn expect(&mut self, text: &str) -> Seg {
        self.pump();
        let Some((at, seg)) = self.out.pop_front() else {
            panic!("nothing left, but expected: {text}\n{}", self.log());
        };
        assert!(seg.fits(&Seg::parse(text)), "expected: {text}\n     got: {seg}\n{}", self.log());
        assert_eq!(at, self.now, "it left at another time: {seg}\n{}", self.log());
        seg
    }

    /// The next segment leaves `ms` after time zero, not before and not after.
    #[track_caller]
    pub fn expect_at(&mut self, ms: u64, text: &str) -> Seg {
        self.expect_at_us(ms * 1_000, text)
    }

    #[track_caller]
    pub fn expect_at_us(&mut self, us: u64, text: &str) -> Seg {
        let to = self.zero + Duration::from_micros(us);
        self.advance(to);
        if let Some(&(at, ref seg)) = self.out.front() {
            let got = at.since(self.zero).as_micros();
            assert_eq!(got, u128::from(us), "{seg} left at another time, in us\n{}", self.log());
        }
        self.expect(text)
    }

    /// Several segments, all at this instant.
    #[track_caller]
    pub fn expect_all(&mut self, texts: &[&str]) {
        for text in texts {
            self.expect(text);
        }
        self.quiet();
    }

    /// Data segments of `mss` bytes from `from` to `to`, all at this instant; the last may be shorter.
    #[track_caller]
    pub fn expect_data(&mut self, from: u32, to: u32, mss: u32) {
        let mut at = from;
        while at < to {
            let end = (at + mss).min(to);
            self.expect(&format!(". {at}:{end}"));
            at = end;
        }
    }

    /// Takes what has left.
    pub fn drain(&mut self) -> Vec<Seg> {
        self.pump();
        self.out.drain(..).map(|(_, seg)| seg).collect()
    }

    // ----- what comes -----

    /// A segment of the peer arrives. Everything that left before must have been expected.
    #[track_caller]
    pub fn inject(&mut self, text: &str) {
        self.quiet();
        self.inject_more(text);
    }

    /// The same without looking at what has left.
    pub fn inject_more(&mut self, text: &str) {
        self.inject_together(&[text]);
    }

    /// Several at once, before anything that they lead to leaves.
    pub fn inject_together(&mut self, texts: &[&str]) {
        for text in texts {
            let seg = Seg::parse(text);
            self.journal.push(format!("{:>12} < {text}", self.stamp()));
            let packet = self.build(&seg);
            let packet = Packet::received(packet, Offload::default(), self.now);
            self.stack.receive(self.now, self.dev, packet);
        }
        self.pump();
    }

    /// A segment with a signature (RFC 2385) that nobody has a key for arrives, for any port.
    pub fn inject_signed(&mut self, text: &str, port: u16) {
        let seg = Seg::parse(text);
        let flags = seg.tcp_flags();
        let repr = TcpRepr {
            src_port: self.ports.1,
            dst_port: port,
            seq: seg.seq.expect("a sequence number").wrapping_add(PEER_ISN),
            ack: seg.ack.map_or(0, |ack| ack.wrapping_add(self.iss.unwrap_or(0))),
            flags,
            window: self.win,
            urgent: 0,
            options: TcpOptions::default(),
        };
        let mut tcp = vec![0; repr.buffer_len()];
        repr.emit(&mut tcp);
        tcp.extend_from_slice(&[1, 1, 19, 18]);
        tcp.resize(tcp.len() + 16, 7);
        tcp[12] += 5 << 4;
        let len = tcp.len();
        fill_checksum(&mut tcp, checksum::pseudo_v4(PEER, US, protocol::TCP, len), &[]);
        let packet = Packet::received(self.ip(protocol::TCP, self.tos, &tcp), Offload::default(), self.now);
        self.stack.receive(self.now, self.dev, packet);
        self.pump();
    }

    fn build(&self, seg: &Seg) -> Bytes {
        let (iss, flags) = (self.iss.unwrap_or(0), seg.tcp_flags());
        let mut options = TcpOptions {
            mss: seg.mss,
            window_scale: seg.ws,
            sack_permitted: seg.sack_ok,
            fastopen: seg.fastopen,
            ..TcpOptions::default()
        };
        for &(a, b) in &seg.sack {
            options.sack.push(a.wrapping_add(iss), b.wrapping_add(iss));
        }
        let base = self.ts_base.unwrap_or(0);
        if let Some((value, echo)) = seg.ts {
            let echo = if flags.contains(TcpFlags::ACK) { echo.wrapping_add(base) } else { echo };
            options.timestamps = Some(Timestamps { value, echo });
        } else if self.ts_auto {
            options.timestamps = Some(Timestamps { value: self.peer_clock(), echo: self.last_tsval });
        }
        assert_eq!(flags.contains(TcpFlags::ACK), seg.ack.is_some(), "ack goes with the dot");
        let seq = seg.seq.expect("a sequence number");
        let repr = TcpRepr {
            src_port: self.ports.1,
            dst_port: self.ports.0,
            seq: seq.wrapping_add(PEER_ISN),
            ack: seg.ack.map_or(0, |ack| ack.wrapping_add(iss)),
            flags,
            window: seg.win.map_or(self.win, |w| w as u16),
            urgent: seg.urg.unwrap_or(0),
            options,
        };
        let from = if flags.contains(TcpFlags::SYN) { seq } else { seq.wrapping_sub(1) };
        let payload: Vec<u8> = (0..seg.len).map(|i| pattern(u64::from(from.wrapping_add(i)))).collect();
        let mut tcp = vec![0; repr.buffer_len()];
        repr.emit(&mut tcp);
        let len = tcp.len() + payload.len();
        fill_checksum(&mut tcp, checksum::pseudo_v4(PEER, US, protocol::TCP, len), &[&payload]);
        tcp.extend_from_slice(&payload);
        self.ip(protocol::TCP, self.tos | seg.ecn.unwrap_or(0), &tcp)
    }

    /// The peer's timestamp clock: 1 ms per tick, 500,000 at the beginning of the world.
    pub fn peer_clock(&self) -> u32 {
        (self.now.as_millis() - 500_000) as u32
    }

    fn ip(&self, protocol: u8, tos: u8, payload: &[u8]) -> Bytes {
        let repr = Ipv4Repr {
            src: PEER,
            dst: US,
            protocol,
            ttl: 64,
            tos,
            ident: 1,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            payload_len: payload.len() as u16,
        };
        let mut packet = vec![0; repr.buffer_len()];
        repr.emit(&mut packet);
        packet.extend_from_slice(payload);
        packet.into()
    }
}
