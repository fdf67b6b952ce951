//! queue-aware (3b): what stands below flows whose own line is their bottleneck, by Linux's rule and by the queue-aware limit, and the price.
//!
//! Two worlds that differ in `tcp_queue_aware` alone. What stands is counted where packets go down and completions come back, not by
//! the estimate that the rule itself makes; samples are taken at random times, so that no period hides between them.
use super::duo::{B, Duo, PORT, seconds};
use super::knobs::{Knob, NO_QDISC, from_ms, from_secs, knob, ms, secs};
use super::params::{Params, Words, has_common};
use super::{Common, Figures};
use crate::app::{Discard, Flood, FloodSpec};
use crate::check::Broken;
use crate::link::nic::Telling;
use crate::link::spec::{Carry, NicSpec};
use crate::world::World;
use lowwater_core::base::{Duration, Instant, Rng, SocketId, Sysctl, Wait};
use lowwater_core::device::DeviceCaps;
use lowwater_core::socket::ListenOptions;
use lowwater_core::tcp::SocketOptions;
use std::net::SocketAddr;

/// IP bytes of a full segment.
const SEGMENT: f64 = 1_500.0;
/// Samples of each world.
const SAMPLES: u64 = 2_000;
/// The claim's times in seconds: of a packet, and of all that stands.
const PACKET_S: f64 = 0.000_5;
const QUEUE_S: f64 = 0.001;
/// Round trips that the claim leaves out.
const ROUNDS: u32 = 10;
/// The shaper's words, which need the line's rate.
const SHAPER: &str = "tbf";
/// Part of the time in which a flow could send that its line may stand idle.
const IDLE_PERCENT: f64 = 1.0;

/// Parameters.
#[derive(Clone, Debug)]
pub struct QueueAware {
    /// Bits per second of the sender's line.
    pub rate: u64,
    /// Flows that start together.
    pub flows: usize,
    /// Part of the line that the application writes, in per cent, in bursts of 10 ms; 0 for as much as it can.
    pub app_percent: f64,
    /// SO_MAX_PACING_RATE of each flow in bits per second; 0 for none.
    pub rate_max: u64,
    /// Delay of the acknowledgements.
    pub rtt: Duration,
    /// When the device tells that packets have left.
    pub telling: Telling,
    /// Packets that the device takes from the discipline.
    pub ring: usize,
    /// They wait in it, as it says of itself; else nothing does, however late it tells.
    pub keeps: bool,
    /// Measured time; zero for as long as the line and the flows need.
    pub measure: Duration,
    /// What all scenarios have; a discipline `tbf` alone shapes to `rate`, before a device ten times as fast.
    pub common: Common,
}

impl Default for QueueAware {
    fn default() -> Self {
        let most = i32::MAX as u32;
        let mut sysctl = Sysctl { tcp_queue_aware: true, ..Sysctl::default() };
        // Windows are not what limits a flow here.
        (sysctl.tcp_rmem.max, sysctl.tcp_wmem.max) = (most, most);
        (sysctl.tcp_mem.min, sysctl.tcp_mem.default, sysctl.tcp_mem.max) = (most, most, most);
        Self {
            rate: 100_000_000,
            flows: 1,
            app_percent: 0.0,
            rate_max: 0,
            rtt: Duration::from_millis(20),
            telling: Telling::default(),
            ring: 2,
            keeps: true,
            measure: Duration::ZERO,
            common: Common { qdisc: "pfifo".into(), sysctl, ..Common::default() },
        }
    }
}

const KNOBS: &[Knob<QueueAware>] = &[
    knob!("rate_mbps", "10^6 bit/s of the sender's line", real 0.1, 400_000,
        |p| p.rate as f64 / 1e6, |p, v| p.rate = (v * 1e6) as u64),
    knob!("flows", "flows", whole 1, 10_000, |p| p.flows as f64, |p, v| p.flows = v as usize),
    knob!("app_percent", "part of the line that the application writes, every 10 ms; 0 for all it can", real 0, 100,
        |p| p.app_percent, |p, v| p.app_percent = v),
    knob!("rate_max_mbps", "10^6 bit/s by SO_MAX_PACING_RATE, 0 for none", real 0, 400_000,
        |p| p.rate_max as f64 / 1e6, |p, v| p.rate_max = (v * 1e6) as u64),
    knob!("rtt_ms", "round-trip time of the empty path", real 0.01, 60_000, |p| ms(p.rtt), |p, v| p.rtt = from_ms(v)),
    knob!("late_us", "completions come so much later than packets leave", real 0, 1e6,
        |p| p.telling.late_ns as f64 / 1e3, |p, v| p.telling.late_ns = (v * 1e3) as u64),
    knob!("batch", "completions come together, so many", whole 0, 1_024,
        |p| p.telling.batch as f64, |p, v| p.telling.batch = v as usize),
    knob!("batch_us", "or so much later than the first", real 0, 1e6,
        |p| p.telling.batch_ns as f64 / 1e3, |p, v| p.telling.batch_ns = (v * 1e3) as u64),
    knob!("ring", "packets that the device takes from the discipline, 0 without a limit", whole 0, 65_535,
        |p| p.ring as f64, |p, v| p.ring = v as usize),
    knob!("keeps", "1: the device says that packets wait in it; 0: that nothing does", whole 0, 1,
        |p| f64::from(u8::from(p.keeps)), |p, v| p.keeps = v > 0.0),
    knob!("measure_s", "virtual seconds that are measured, 0 for as long as it needs", real 0, 1e4,
        |p| secs(p.measure), |p, v| p.measure = from_secs(v)),
];

/// The parameter `completions`: how the device tells, in one word.
const COMPLETIONS: [(&str, Telling); 3] = [
    ("exact", Telling { late_ns: 0, batch: 0, batch_ns: 0 }),
    ("late", Telling { late_ns: 100_000, batch: 0, batch_ns: 0 }),
    ("batches", Telling { late_ns: 0, batch: 8, batch_ns: 1_000_000 }),
];

const WORDS: &[Words<QueueAware>] = &[Words {
    texts: [
        "completions",
        "how the device tells that packets have left: each at once, 100 us late, or eight together (a millisecond late at most)",
        "one word; allowed: exact, late, batches, other (late_us, batch, batch_us)",
    ],
    get: |p| COMPLETIONS.iter().find(|(_, telling)| *telling == p.telling).map_or("other", |(word, _)| word),
    put: |p, value| match COMPLETIONS.iter().find(|(word, _)| *word == value) {
        Some((_, telling)) => {
            p.telling = *telling;
            Ok(())
        }
        None if value == "other" => Ok(()),
        None => Err(format!("'{value}' is none; allowed: exact, late, batches, other")),
    },
}];

impl Params for QueueAware {
    const KNOBS: &'static [Knob<Self>] = KNOBS;
    const WORDS: &'static [Words<Self>] = WORDS;
    const QDISC: &'static str =
        "queueing discipline of the sender's device; tbf alone shapes to the line's rate";
    const BARE: Option<&'static str> = Some(SHAPER);
    const TIMED: bool = false;

    has_common!();

    fn play(&self, on_progress: &mut dyn FnMut(f64) -> bool) -> Result<Figures, Broken> {
        let ours = self.measure(&self.common.sysctl, &mut |part| on_progress(part / 2.0))?;
        let sysctl = Sysctl { tcp_queue_aware: false, ..self.common.sysctl.clone() };
        let linux = self.measure(&sysctl, &mut |part| on_progress(0.5 + part / 2.0))?;
        Ok(figures(&ours, &linux))
    }
}

/// One flow's samples.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// IP bytes below, while it had something below or to send.
    below: Vec<u64>,
    /// Payload acknowledged when measuring began, and at the end.
    acked: (u64, u64),
    /// IP bytes that had left when measuring began, and at the end.
    left: (u64, u64),
    /// Estimates of its queue's rate.
    rates: Vec<u64>,
}

/// What one world showed.
#[derive(Clone, Debug, Default)]
struct Measured {
    complete: bool,
    seconds: f64,
    virtual_s: f64,
    events: u64,
    flows: Vec<Seen>,
    /// Samples in which a flow could have sent, and those of them in which the line stood idle.
    able: (u64, u64),
    /// What completions are late by in seconds: as the device knows, and as the stack has learnt.
    late_s: (f64, f64),
    /// Packets handed to IP and calls of the stack, while measured.
    packets: u64,
    calls: u64,
    segs: u64,
    retrans: u64,
    /// Flows that connected, and those that were given up.
    connected_aborted: (u64, u64),
}

/// What the claim says of one flow.
#[derive(Clone, Copy, Debug, Default)]
struct Verdict {
    mean: f64,
    p99: f64,
    /// What its queue passed on while it was not empty, IP bytes a second.
    rate: f64,
    bound: f64,
}

impl Verdict {
    fn of(seen: &Seen, m: &Measured) -> Option<Self> {
        let busy = seen.below.iter().filter(|&&q| q > 0).count();
        if seen.below.is_empty() || busy == 0 {
            return None;
        }
        let mut sorted = seen.below.clone();
        sorted.sort_unstable();
        let mean = sorted.iter().sum::<u64>() as f64 / sorted.len() as f64;
        let p99 = sorted[(sorted.len() * 99 / 100).min(sorted.len() - 1)] as f64;
        let bytes = (seen.left.1 - seen.left.0) as f64;
        let rate = bytes / (m.seconds * busy as f64 / SAMPLES as f64);
        Some(Self { mean, p99, rate, bound: (rate * (QUEUE_S + m.late_s.0)).max(2.0 * SEGMENT) })
    }

    /// The mean over its bound, and the 99th percentile over the bound and a packet.
    fn over(&self) -> (f64, f64) {
        let packet = (self.rate * PACKET_S).max(SEGMENT);
        (self.mean / self.bound, self.p99 / (self.bound + packet))
    }
}

impl QueueAware {
    /// As long as a hundred segments of each flow take, five round trips, or a quarter of a second.
    fn needed(&self) -> Duration {
        let segment = SEGMENT * 8.0 / self.rate as f64;
        let needed = (segment * 100.0 * self.flows as f64).max(5.0 * self.rtt.as_secs_f64()).max(0.25);
        if self.measure.is_zero() { from_secs(needed) } else { self.measure }
    }

    /// Ten round trips, as long as the slowest flow's are while it makes them, and 100 ms.
    fn warm_up(&self, world: &mut World) -> Result<(), Broken> {
        for _ in 0..ROUNDS {
            let core = world.host_mut(0).core_mut();
            let ids: Vec<_> = core.stack().credits().iter().map(|c| c.socket).collect();
            let us = ids.into_iter().filter_map(|id| core.tcp_info(id)).map(|info| info.rtt).max();
            let round = Duration::from_micros(u64::from(us.unwrap_or(0)));
            let segment = from_secs(SEGMENT * 80.0 * self.flows as f64 / self.rate as f64);
            world.run_until(world.now() + round.max(self.rtt + segment))?;
        }
        world.run_until(world.now() + Duration::from_millis(100))
    }

    fn build(&self, sysctl: &Sysctl) -> World {
        let shaped = self.common.qdisc == SHAPER;
        // A bucket that takes the largest packet: of one that was cut only the last segment knows its owner.
        let burst = (self.rate / 8 / 4_000).max(70_000);
        let words = if shaped {
            format!("tbf rate {}bit burst {burst} limit 1000000000", self.rate)
        } else {
            self.common.qdisc.clone()
        };
        let line = NicSpec {
            rate: if shaped { 10 * self.rate } else { self.rate },
            packets: self.ring,
            carry: Carry::Whole,
            telling: self.telling,
            ..NicSpec::default()
        };
        let duo = Duo {
            seed: self.common.seed,
            sysctl,
            caps: DeviceCaps { keeps: self.keeps, ..DeviceCaps::offloading(1_500) },
            qdisc: if words.is_empty() { NO_QDISC } else { &words },
            queue: None,
            router: NO_QDISC,
            rtt: self.rtt,
            line,
        };
        let mut world = duo.build();
        let mut options = SocketOptions::new(sysctl);
        if self.rate_max > 0 {
            options.max_pacing_rate = self.rate_max / 8;
        }
        let remote = SocketAddr::new(B, PORT);
        world.add_app(1, Box::new(Discard::new(PORT, ListenOptions::new(options.clone()))));
        let every = Duration::from_millis(10);
        let burst = (self.rate as f64 / 8.0 * self.app_percent / 100.0 * every.as_secs_f64()) as usize;
        for _ in 0..self.flows {
            let limited = self.app_percent > 0.0;
            let flood = FloodSpec {
                remote,
                write: if limited { burst.max(1) } else { 262_144 },
                owned: true,
                every_ns: if limited { every.as_nanos() as u64 } else { 0 },
                start: Instant::ZERO,
                options: options.clone(),
            };
            world.add_app(0, Box::new(Flood::new(flood)));
        }
        world
    }

    fn measure(&self, sysctl: &Sysctl, on_progress: &mut dyn FnMut(f64) -> bool) -> Result<Measured, Broken> {
        let mut world = self.build(sysctl);
        world.start();
        let measure = self.needed();
        self.warm_up(&mut world)?;
        let mut m = Measured { flows: vec![Seen::default(); self.flows], ..Measured::default() };
        let before = counted(&world);
        let mut chance = Rng::new(self.common.seed).fork("samples");
        let (begin, mut taken) = (world.now(), 0);
        for (seen, id) in m.flows.iter_mut().zip(sockets(&world)) {
            seen.left.0 = world.hosts()[0].left(id);
            seen.acked.0 = acked(&mut world, id);
        }
        for i in 0..SAMPLES {
            // One at a random time of each part.
            let part = measure.as_nanos() as u64 / SAMPLES;
            world.run_until(begin.plus_nanos(part * i + chance.below(part.max(1))))?;
            sample(&mut world, &mut m);
            taken += 1;
            if !on_progress(taken as f64 / SAMPLES as f64) {
                break;
            }
        }
        for (seen, id) in m.flows.iter_mut().zip(sockets(&world)) {
            seen.left.1 = world.hosts()[0].left(id);
            seen.acked.1 = acked(&mut world, id);
        }
        let after = counted(&world);
        m.seconds = seconds(world.now()) - seconds(begin);
        [m.packets, m.calls, m.segs, m.retrans] = std::array::from_fn(|i| after[i] - before[i]);
        m.complete = taken == SAMPLES;
        m.connected_aborted = (world.ledger.connected, world.ledger.given_up.len() as u64);
        (m.virtual_s, m.events) = (seconds(world.now()), world.events());
        let device = world.pipes().next().and_then(|p| p.nic.as_ref()).map_or(0, |nic| nic.lateness_ns());
        let learnt = world.hosts()[0].core().lateness();
        m.late_s = (device as f64 / 1e9, learnt.as_secs_f64());
        Ok(m)
    }
}

fn sockets(world: &World) -> Vec<SocketId> {
    world.hosts()[0].apps().filter_map(|a| a.sockets().first().copied()).collect()
}

fn acked(world: &mut World, id: SocketId) -> u64 {
    world.host_mut(0).core_mut().tcp_info(id).map_or(0, |info| info.bytes_acked)
}

/// Packets to IP, calls of the stack, segments, segments sent again.
fn counted(world: &World) -> [u64; 4] {
    let count = world.hosts()[0].core().stack().counters();
    let segs = count.tcp.out_segs + count.tcp.retrans_segs;
    [count.ip.out_requests, count.own.events, segs, count.tcp.retrans_segs]
}

fn sample(world: &mut World, m: &mut Measured) {
    let below = world.hosts()[0].below();
    let on_line = world.pipes().next().and_then(|p| p.nic.as_ref()).map_or(0, |nic| nic.held());
    let idle = on_line == 0 && world.hosts()[0].core().qdisc_backlog() == 0;
    let (ids, mut able) = (sockets(world), false);
    let core = world.host_mut(0).core_mut();
    for (seen, id) in m.flows.iter_mut().zip(ids) {
        let Some(info) = core.tcp_info(id) else { continue };
        let q = below.get(&id).copied().unwrap_or(0);
        if q > 0 || info.notsent_bytes > 0 {
            seen.below.push(q);
        }
        seen.rates.extend(core.stack().own_queue(core.stack().now(), id).and_then(|queue| queue.rate));
        let why = core.stack().wait_report(core.stack().now(), id).and_then(|report| report.why);
        able |= info.notsent_bytes >= info.snd_mss && !why.is_some_and(waits_elsewhere);
    }
    m.able.0 += u64::from(able);
    m.able.1 += u64::from(able && idle);
}

/// Reasons that are none of the queue's: the windows, which a packet that could soon be larger waits for as well, the pace, Nagle.
const fn waits_elsewhere(why: Wait) -> bool {
    use Wait::{Cork, Cwnd, Defer, Handshake, MtuProbe, Nagle, NoPath, Pacing, RecvWindow};
    matches!(why, Cwnd | RecvWindow | Defer | Pacing | Nagle | Cork | Handshake | MtuProbe | NoPath)
}

fn percent(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 * 100.0 / of as f64 }
}

/// The worst flow by its mean over its bound, the worst 99th percentile over its own.
fn worst(m: &Measured) -> (Verdict, f64, f64) {
    let verdicts: Vec<Verdict> = m.flows.iter().filter_map(|seen| Verdict::of(seen, m)).collect();
    let by_mean =
        verdicts.iter().max_by(|a, b| a.over().0.total_cmp(&b.over().0)).copied().unwrap_or_default();
    let most = |of: fn(&Verdict) -> f64| verdicts.iter().map(of).fold(0.0, f64::max);
    (by_mean, most(|v| v.over().0), most(|v| v.over().1))
}

/// Jain's index of what the flows got: 1 when all got the same.
fn fairness(m: &Measured) -> f64 {
    let got: Vec<f64> = m.flows.iter().map(|seen| (seen.acked.1 - seen.acked.0) as f64).collect();
    let (sum, squares) = got.iter().fold((0.0, 0.0), |(s, q), v| (s + v, q + v * v));
    if squares == 0.0 { 0.0 } else { sum * sum / squares / got.len() as f64 }
}

fn figures(ours: &Measured, linux: &Measured) -> Figures {
    let mut figures = Figures {
        complete: ours.complete && linux.complete,
        virtual_s: ours.virtual_s + linux.virtual_s,
        events: ours.events + linux.events,
        ..Figures::default()
    };
    let (verdict, mean, p99) = worst(ours);
    let idle = percent(ours.able.1, ours.able.0);
    let mut rates: Vec<u64> = ours.flows.iter().flat_map(|seen| seen.rates.iter().copied()).collect();
    rates.sort_unstable();
    let estimate = rates.get(rates.len() / 2).copied().unwrap_or(0) as f64;
    let holds = mean <= 1.0 && p99 <= 1.0 && idle <= IDLE_PERCENT;
    let busy: usize = ours.flows.iter().map(|seen| seen.below.len()).sum();
    figures.put("holds", f64::from(u8::from(holds)));
    figures.put("queue_bytes_mean", verdict.mean);
    figures.put("queue_bytes_bound", verdict.bound);
    figures.put("queue_over_bound", mean);
    figures.put("queue_p99_over_bound", p99);
    figures.put("idle_percent", idle);
    figures.put("estimate_mbps", estimate * 8.0 / 1e6);
    figures.put("estimated_percent", percent(rates.len() as u64, busy as u64));
    figures.put("connected_flows", ours.connected_aborted.0.min(linux.connected_aborted.0) as f64);
    figures.put("aborted_flows", (ours.connected_aborted.1 + linux.connected_aborted.1) as f64);
    figures.put("fairness", fairness(ours));
    figures.put("linux_fairness", fairness(linux));
    figures.put("late_us", ours.late_s.0 * 1e6);
    figures.put("late_us_learnt", ours.late_s.1 * 1e6);
    let (verdict, mean, _) = worst(linux);
    figures.put("linux_queue_bytes_mean", verdict.mean);
    figures.put("linux_queue_over_bound", mean);
    figures.put("linux_idle_percent", percent(linux.able.1, linux.able.0));
    let price: [(&Measured, [&'static str; 5]); 2] = [
        (ours, ["goodput_mbps", "segs_per_packet", "packets_per_mb", "calls_per_mb", "retrans_segs"]),
        (
            linux,
            [
                "linux_goodput_mbps",
                "linux_segs_per_packet",
                "linux_packets_per_mb",
                "linux_calls_per_mb",
                "linux_retrans_segs",
            ],
        ),
    ];
    for (m, names) in price {
        let bytes: u64 = m.flows.iter().map(|seen| seen.acked.1 - seen.acked.0).sum();
        let mb = (bytes as f64 / 1e6).max(1e-9);
        let values = [
            bytes as f64 * 8.0 / m.seconds.max(1e-9) / 1e6,
            m.segs as f64 / m.packets.max(1) as f64,
            m.packets as f64 / mb,
            m.calls as f64 / mb,
            m.retrans as f64,
        ];
        for (name, value) in names.into_iter().zip(values) {
            figures.put(name, value);
        }
    }
    figures
}
