//! Two stacks on a link, the sockets that were ever opened on them, and packets to learn from.
use crate::device::{Mood, Nic};
use crate::judge::Before;
use crate::shrink::Reach;
use crate::{assoc, judge, meter, steps};
use bytes::Bytes;
use lowwater_core::base::{DeviceId, DropWhy, Duration, Instant, Rng, SocketId, Sysctl};
use lowwater_core::device::DeviceCaps;
use lowwater_core::packet::{Owner, Packet};
use lowwater_core::socket::RequestId;
use lowwater_core::stack::{Config, Stack};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Sockets on one stack before no more are opened.
pub(crate) const SOCKETS_MAX: usize = 24;
/// Packets of the conversation that are kept to be changed and sent again.
const SAMPLES: usize = 48;
/// 292 years: as much again remains for the deadlines that were set.
const HALF_OF_TIME: Instant = Instant::from_nanos(u64::MAX / 2);
/// Rounds in which a stack must come to rest when nothing new happens.
const ROUNDS_TO_REST: u32 = 4_000;
/// Rounds and virtual time in which everything must be gone after everything was closed.
const ROUNDS_TO_END: u32 = 50_000;
/// More than the longest of all settings, `tcp_fin_timeout`, which bounds how long the last small object may stay.
const TIME_TO_END: Duration = Duration::from_secs(8_589_934 + 30 * 24 * 3_600);

/// One stack with what the fuzzer knows of it.
pub(crate) struct Side {
    pub(crate) stack: Stack,
    pub(crate) dev: DeviceId,
    pub(crate) caps: DeviceCaps,
    /// Sockets, the closed ones too.
    pub(crate) ids: Vec<SocketId>,
    /// Requests that asked for a decision, the old ones too.
    pub(crate) requests: Vec<RequestId>,
    /// Credits that the device holds.
    pub(crate) held: Vec<Owner>,
    /// Packets on their way to this side.
    pub(crate) inbox: VecDeque<Packet>,
    /// Packets that came to this side earlier, as bytes.
    pub(crate) samples: VecDeque<Vec<u8>>,
}

/// Everything of one case.
pub(crate) struct World {
    pub(crate) sides: [Side; 2],
    pub(crate) now: Instant,
    /// How far time goes in this case: mostly half of the clock, so that all that waits has time to come to its end.
    pub(crate) horizon: Instant,
    /// Steps of the whole case.
    pub(crate) steps: u32,
    pub(crate) trace: bool,
    /// The sides have associations, too.
    pub(crate) sctp: bool,
    root: Rng,
    base: usize,
}

/// Addresses of side `n`.
pub(crate) fn v4(n: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1 + n as u8))
}

/// Addresses of side `n`.
pub(crate) fn v6(n: usize) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1 + n as u16))
}

/// Numbers of a setting that decide how many bytes a case may hold stay below this.
const BYTES_MAX: u64 = 262_144;

/// A value that `name` takes: mostly an end of its range or next to one, else anywhere. `None` for what takes no numbers.
pub(crate) fn value_of(name: &str, rng: &mut Rng) -> Option<String> {
    let (lo, hi) = Sysctl::range(name)?;
    let bytes = ["mem", "thresh"].iter().any(|part| name.contains(part));
    let hi = if bytes { hi.min(BYTES_MAX as i64) } else { hi };
    let mut one = || match rng.below(8) {
        0 => lo,
        1 => hi,
        2 => (lo + 1).min(hi),
        3 => (hi - 1).max(lo),
        4 => lo.max(2).min(hi),
        // Small numbers as often as large ones.
        _ => (lo + (rng.below((hi - lo) as u64 + 1) >> rng.below(33)) as i64).clamp(lo, hi),
    };
    let mut numbers: Vec<i64> = match name {
        "tcp_rmem" | "tcp_wmem" | "tcp_mem" => vec![one(), one(), one()],
        "ip_local_port_range" => vec![one(), one()],
        _ => vec![one()],
    };
    numbers.sort_unstable();
    Some(numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
}

/// Settings of a case: Linux's in some, small buffers and short times in others, anything that is allowed in the rest.
fn sysctl(rng: &mut Rng) -> Sysctl {
    let mut s = Sysctl::default();
    let small = "4096 16384 262144";
    // Of the two that hold each other in order, one that contradicts the other is refused, and stays as it was.
    let mut set = |name: &str, value: &str| match s.set(name, value) {
        Err(_) if matches!(name, "sctp.rto_min" | "sctp.rto_max") => {}
        told => told.expect("a setting of ours"),
    };
    set("tcp_rmem", small);
    set("tcp_wmem", small);
    set("ipfrag_high_thresh", "262144");
    if rng.below(3) == 0 {
        // Half of the settings, or a few.
        let every = [2, 16][rng.below(2) as usize];
        for (name, _) in Sysctl::NAMES {
            if rng.below(every) == 0
                && let Some(value) = value_of(name, rng)
            {
                set(name, &value);
            }
        }
        return s;
    }
    if rng.below(2) == 0 {
        set("tcp_timestamps", "0");
    }
    if rng.below(3) == 0 {
        set("tcp_sack", "0");
    }
    if rng.below(2) == 0 {
        set("tcp_ecn", "1");
    }
    if rng.below(3) == 0 {
        set("tcp_congestion_control", "reno");
    }
    if rng.below(3) == 0 {
        set("hystart", "2");
    }
    if rng.below(3) == 0 {
        set("tcp_max_syn_backlog", "4");
        set("tcp_max_tw_buckets", "2");
        set("tcp_max_orphans", "2");
    }
    s
}

fn caps(rng: &mut Rng, n: usize, ethernet: bool) -> DeviceCaps {
    let mtu = [68, 576, 1280, 1500, 1500, 9000, 65_535][rng.below(7) as usize];
    let mut caps =
        if rng.below(2) == 0 { DeviceCaps::plain(mtu) } else { DeviceCaps::offloading(mtu).repeating_cwr() };
    caps.ethernet = ethernet.then_some([2, 0, 0, 0, 0, n as u8 + 1]);
    caps
}

impl World {
    /// The world of a seed.
    pub(crate) fn new(seed: u64, trace: bool) -> Self {
        let root = Rng::new(seed);
        let mut rng = root.fork("world");
        let base = meter::live_bytes();
        let now = Instant::from_millis(rng.below(10_000));
        let ethernet = rng.below(4) == 0;
        let mut sides = [0, 1].map(|n| Side::new(&mut rng, n, ethernet, now));
        // From a stream of its own: the worlds of other seeds stay what they are.
        let mut rng_sctp = root.fork("sctp");
        let sctp = rng_sctp.below(3) == 0;
        if sctp {
            assoc::begin(&mut sides, now, &mut rng_sctp);
        }
        let steps = [60, 250, 1_000, 3_000][rng.below(4) as usize];
        let horizon = if rng.below(8) == 0 { Instant::LAST } else { HALF_OF_TIME };
        Self { sides, now, horizon, steps, trace, sctp, root, base }
    }

    /// Step number `n`, which draws from a stream of its own.
    pub(crate) fn step(&mut self, n: u32) -> Result<(), String> {
        let mut rng = self.root.fork(&format!("step {n}"));
        let before = Before::new(self.nows());
        steps::run(self, &mut rng, n)?;
        before.check(self.nows(), self.base)?;
        self.sides.iter().try_for_each(judge::credit)
    }

    /// What this case has exercised.
    pub(crate) fn reach(&self, steps: usize) -> Reach {
        let mut reach = Reach { steps: steps as u64, ..Reach::default() };
        for side in &self.sides {
            let c = side.stack.counters();
            reach.segments += c.tcp.in_segs;
            reach.connections += c.tcp.passive_opens;
            reach.datagrams += c.udp.in_datagrams;
            reach.associations += c.sctp.passive_estabs + c.sctp.active_estabs;
            reach.chunks += c.sctp.in_ctrl_chunks + c.sctp.in_order_chunks + c.sctp.in_unorder_chunks;
            reach.blue += c.sctp.out_of_blues;
            reach.drops += DropWhy::ALL.iter().map(|&why| c.drops(why)).sum::<u64>();
        }
        reach
    }

    fn nows(&self) -> [Instant; 2] {
        [self.sides[0].stack.now(), self.sides[1].stack.now()]
    }

    /// Lets one side send.
    pub(crate) fn transmit(
        &mut self,
        n: usize,
        rng: &mut Rng,
        mood: Mood,
        budget: usize,
    ) -> Result<bool, String> {
        let now = self.now;
        let [a, b] = &mut self.sides;
        let (side, other) = if n == 0 { (a, b) } else { (b, a) };
        let mut nic = Nic { rng, mood, wire: &mut other.inbox, held: &mut side.held, taken: 0 };
        let sent = side.stack.transmit(now, side.dev, budget, &mut nic);
        // What the device refuses for good uses up the budget as well.
        if sent.packets + sent.dropped != nic.taken || nic.taken > budget {
            let taken = nic.taken;
            return Err(format!(
                "budget of {budget}: the device answered {taken} times, the stack says {} and {} dropped",
                sent.packets, sent.dropped
            ));
        }
        Ok(sent.more)
    }

    /// With a willing device and no news, a stack comes to rest at this instant.
    pub(crate) fn rest(&mut self, n: usize, rng: &mut Rng) -> Result<(), String> {
        let now = self.now;
        for _ in 0..ROUNDS_TO_REST {
            let side = &mut self.sides[n];
            side.stack.device_ready(now, side.dev);
            for owner in std::mem::take(&mut side.held) {
                side.stack.complete(now, side.dev, owner);
            }
            side.stack.handle_timeout(now);
            let more = self.transmit(n, rng, Mood::Willing, 64)?;
            let side = &self.sides[n];
            let due = side.stack.next_deadline().is_some_and(|at| at <= now);
            if !more && !due && !side.stack.needs_transmit(side.dev) {
                return Ok(());
            }
        }
        let side = &mut self.sides[n];
        let sockets = side.stack.report(side.stack.now()).sockets;
        let sockets: Vec<_> = sockets.iter().filter(|s| s.remote.is_some()).collect();
        Err(format!(
            "side {n} finds no rest: deadline {:?} at {now:?}, needs transmit {}, sockets {:?}",
            side.stack.next_deadline(),
            side.stack.needs_transmit(side.dev),
            sockets.iter().map(|s| (s.state, s.local, s.remote)).collect::<Vec<_>>()
        ))
    }

    /// Closes everything and lets time pass: nothing may remain.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        let mut rng = self.root.fork("end");
        for n in 0..2 {
            self.finish_side(n, &mut rng)?;
        }
        Ok(())
    }

    fn finish_side(&mut self, n: usize, rng: &mut Rng) -> Result<(), String> {
        let now = self.now;
        let side = &mut self.sides[n];
        for id in std::mem::take(&mut side.ids) {
            let _ = side.stack.abort(now, id); // most are stale
        }
        side.stack.abort_orphans(now);
        let end = now + TIME_TO_END;
        for _ in 0..ROUNDS_TO_END {
            self.rest(n, rng)?;
            self.sides[1 - n].inbox.clear();
            let side = &mut self.sides[n];
            while side.stack.next_event().is_some() {}
            if side.stack.open_sockets() == 0 && side.stack.small_objects() == (0, 0, 0) {
                return Ok(());
            }
            match side.stack.next_deadline() {
                // At the end of the clock what is due later never comes ([`Instant::LAST`]); all other laws hold.
                _ if end >= Instant::LAST => return Ok(()),
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => break,
            }
        }
        let side = &mut self.sides[n];
        Err(format!(
            "side {n} keeps {} sockets and {:?} small objects, next deadline {:?} at {:?}; {:?}",
            side.stack.open_sockets(),
            side.stack.small_objects(),
            side.stack.next_deadline(),
            self.now,
            side.stack.report(side.stack.now()).sockets.first()
        ))
    }
}

impl Side {
    fn new(rng: &mut Rng, n: usize, ethernet: bool, now: Instant) -> Self {
        let mut stack = Stack::new(Config { sysctl: sysctl(rng), seed: rng.next_u64() }, now);
        let caps = caps(rng, n, ethernet);
        let dev = stack.add_device(caps);
        // An MTU below 1280 has no IPv6; then it stays without an address.
        let _ = stack.add_address(dev, v4(n), 24);
        let _ = stack.add_address(dev, v6(n), 64);
        if rng.below(4) == 0 {
            let _ = stack.set_any_address(dev, true);
        }
        Self {
            stack,
            dev,
            caps,
            ids: Vec::new(),
            requests: Vec::new(),
            held: Vec::new(),
            inbox: VecDeque::new(),
            samples: VecDeque::new(),
        }
    }

    /// Hands a packet to the stack and remembers its bytes.
    pub(crate) fn deliver(&mut self, now: Instant, packet: Packet) {
        if self.samples.len() >= SAMPLES {
            self.samples.pop_front();
        }
        let mut bytes = packet.to_bytes().to_vec();
        bytes.truncate(2_048);
        self.samples.push_back(bytes);
        self.stack.receive(now, self.dev, packet);
    }

    /// A packet of these bytes as the device would give it.
    pub(crate) fn packet(bytes: Vec<u8>, now: Instant) -> Packet {
        Packet::received(Bytes::from(bytes), lowwater_core::packet::Offload::default(), now)
    }
}
