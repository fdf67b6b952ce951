//! pacing (E4): gaps and bursts of flows held to a rate, by the transport's own timers and by `fq`.
//!
//! Source: Linux commit "tcp: internal implementation for pacing". Writers that never stop, SO_MAX_PACING_RATE on each; packets are
//! seen where they are handed to the device, below the queueing discipline.
use super::duo::{B, Duo, FAST, PORT, fast_line, seconds, senders, watch};
use super::knobs::{Knob, NO_QDISC, from_ms, knob, ms};
use super::params::{Params, Words, has_common, router_words};
use super::{Common, Figures, Point};
use crate::app::{Discard, Flood, FloodSpec};
use crate::check::{Broken, Departure};
use crate::link::spec::QueueSpec;
use crate::world::World;
use lowwater_core::base::{DropWhy, Duration, Instant, SocketId, Sysctl, sysctl::Triple};
use lowwater_core::device::DeviceCaps;
use lowwater_core::qdisc::Any;
use lowwater_core::socket::ListenOptions;
use lowwater_core::tcp::SocketOptions;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// Samples in the whole time.
const SAMPLES: u32 = 50;
/// Bytes per write.
const WRITE: usize = 262_144;
/// The first segments of a flow are not paced (Linux paces from the eleventh on).
const UNPACED_SEGS: u32 = 10;
/// Packets of a flow that are closer than this left back to back; paced gaps of all variants are many times as long.
const BACK_TO_BACK: Duration = Duration::from_micros(100);

/// Parameters.
#[derive(Clone, Debug)]
pub struct Pacing {
    /// Flows.
    pub flows: usize,
    /// SO_MAX_PACING_RATE of each in bits per second; 0 leaves it unset.
    pub pacing: u64,
    /// Writers hand over buffers instead of copying, so that the queues of many fast flows fit into memory.
    pub owned: bool,
    /// Bits per second of the router's line; 0 without a bottleneck.
    pub rate: u64,
    /// Its queue in bytes.
    pub queue_bytes: u64,
    /// Round-trip time of the empty path.
    pub rtt: Duration,
    /// Time over which the starts are spread.
    pub spread: Duration,
    /// The router's queueing discipline in the words of `tc`, instead of a line of `rate` with a queue; "none" for that.
    pub router: String,
    /// Disciplines that follow the first one, in equal parts of the measured time, with ';' between; "none" for no change.
    pub switch: String,
    /// What all scenarios have.
    pub common: Common,
}

impl Default for Pacing {
    fn default() -> Self {
        // The sizing of the seed's time: no bonus for near peers.
        // Memory, which on Linux depends on the machine, bounds nothing: 800 flows at the seed's rate need more than the default.
        let pages = 4_000_000;
        let tcp_mem = Triple { min: pages, default: pages, max: pages };
        let sysctl = Sysctl { tcp_tso_rtt_log: 0, tcp_mem, ..Sysctl::default() };
        Self {
            flows: 80,
            pacing: 2_400_000,
            owned: false,
            rate: 0,
            queue_bytes: 500_000,
            rtt: Duration::from_millis(40),
            spread: Duration::from_millis(200),
            router: NO_QDISC.into(),
            switch: NO_QDISC.into(),
            common: Common {
                qdisc: "pfifo_fast".into(),
                times: (Duration::from_secs(1), Duration::from_secs(5)),
                sysctl,
                ..Common::default()
            },
        }
    }
}

const KNOBS: &[Knob<Pacing>] = &[
    knob!("flows", "flows", whole 1, 10_000, |p| p.flows as f64, |p, v| p.flows = v as usize),
    knob!("pacing_mbps", "SO_MAX_PACING_RATE of each flow in 10^6 bit/s of payload, 0 leaves it unset", real 0, 400_000,
        |p| p.pacing as f64 / 1e6, |p, v| p.pacing = (v * 1e6).round() as u64),
    knob!("owned", "1: writers hand over buffers instead of copying", whole 0, 1,
        |p| f64::from(u8::from(p.owned)), |p, v| p.owned = v != 0.0),
    knob!("rate_mbps", "10^6 bit/s of the router's line, 0 without a bottleneck", real 0, 400_000,
        |p| p.rate as f64 / 1e6, |p, v| p.rate = (v * 1e6).round() as u64),
    knob!("queue_bytes", "the router's queue, 0 without a limit", whole 0, u32::MAX,
        |p| p.queue_bytes as f64, |p, v| p.queue_bytes = v as u64),
    knob!("rtt_ms", "round-trip time of the empty path", real 0.01, 60_000,
        |p| ms(p.rtt), |p, v| p.rtt = from_ms(v)),
    knob!("spread_ms", "time over which the starts of the flows are spread", real 0, 60_000,
        |p| ms(p.spread), |p, v| p.spread = from_ms(v)),
];

impl Params for Pacing {
    const KNOBS: &'static [Knob<Self>] = KNOBS;
    const WORDS: &'static [Words<Self>] = &[
        Words {
            texts: [
                "switch",
                "disciplines that follow, in equal parts of the measured time",
                "the words of tc with ';' between, as 'fq;pfifo_fast'; none",
            ],
            get: |p| &p.switch,
            put: |p, value| {
                if value != NO_QDISC {
                    value.split(';').try_for_each(|words| words.parse::<Any>().map(drop))?;
                }
                value.clone_into(&mut p.switch);
                Ok(())
            },
        },
        router_words!(),
    ];
    const TIMED: bool = true;

    has_common!();

    fn play(&self, on_progress: &mut dyn FnMut(f64) -> bool) -> Result<Figures, Broken> {
        let mut world = self.build();
        world.ledger.departures = Some(Vec::new());
        world.start();
        let step = ((self.common.times.0 + self.common.times.1) / SAMPLES).max(Duration::from_millis(1));
        let (mut before, mut series, mut switch) = (None, Vec::new(), self.switches());
        watch(&mut world, self.common.times, step, on_progress, &mut |world| {
            before.get_or_insert_with(|| Totals::of(world));
            while let Some((_, words)) = switch.pop_front_if(|(at, _)| *at <= world.now()) {
                // They were read when they were set.
                world.set_qdisc(0, words).unwrap_or_default();
            }
            let backlog = world.pipes().next().map_or(0, |p| p.backlog_bytes(1));
            for (flow, info, _) in senders(world) {
                series.push(Point::of(seconds(world.now()), flow, &info, backlog));
            }
        })?;
        let mut figures = self.figures(&mut world, before.unwrap_or_default());
        figures.put("srtt_ms", Figures::srtt_ms(&series));
        figures.series = series;
        Ok(figures)
    }
}

/// What grows while the world runs.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    at: Instant,
    acked: u64,
    retrans: u64,
    /// By the sender's own disciplines.
    dropped: u64,
}

impl Totals {
    fn of(world: &mut World) -> Self {
        let acked = senders(world).iter().map(|(_, info, _)| info.bytes_acked).sum();
        let count = world.hosts()[0].core().stack().counters();
        let dropped = [DropWhy::QueueFull, DropWhy::Aqm].into_iter().map(|why| count.drops(why)).sum();
        Self { at: world.now(), acked, retrans: count.tcp.retrans_segs, dropped }
    }
}

/// One flow's packets as they come by.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    segs: u32,
    /// The packet before, if it was not one of the first segments.
    last: Option<Instant>,
    run_bytes: u64,
    run_packets: u64,
}

/// What the packets say.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Nanoseconds, within the measured time.
    gaps: Vec<u64>,
    packets: u64,
    segs: u64,
    burst_bytes: u64,
    burst_packets: u64,
    /// Most packets of a burst before.
    first_packets: u64,
}

impl Seen {
    fn of(departures: &[Departure], warm: Instant) -> Self {
        let (mut seen, mut flows) = (Self::default(), BTreeMap::<SocketId, Flow>::new());
        for departure in departures.iter().filter(|d| d.host == 0 && d.bytes > 0) {
            if let Some(id) = departure.flow {
                seen.packet(flows.entry(id).or_default(), departure, warm);
            }
        }
        seen.gaps.sort_unstable();
        seen
    }

    /// All counts from the end of the warm-up, as in Linux's figures, but for bursts from a flow's first paced packet on.
    fn packet(&mut self, flow: &mut Flow, departure: &Departure, warm: Instant) {
        let measured = departure.at >= warm;
        if measured {
            self.packets += 1;
            self.segs += u64::from(departure.segs);
        }
        let first = flow.segs < UNPACED_SEGS;
        flow.segs = flow.segs.saturating_add(departure.segs);
        if first {
            return;
        }
        let gap = flow.last.map(|last| departure.at.nanos_since(last));
        if gap.is_none_or(|gap| Duration::from_nanos(gap) >= BACK_TO_BACK) {
            (flow.run_bytes, flow.run_packets) = (0, 0);
        }
        flow.run_bytes += u64::from(departure.bytes);
        flow.run_packets += 1;
        if measured {
            self.burst_bytes = self.burst_bytes.max(flow.run_bytes);
            self.burst_packets = self.burst_packets.max(flow.run_packets);
        } else {
            self.first_packets = self.first_packets.max(flow.run_packets);
        }
        self.gaps.extend(gap.filter(|_| measured));
        flow.last = Some(departure.at);
    }

    /// A percentile of the gaps in microseconds, by the nearest rank.
    fn gap_us(&self, percent: usize) -> f64 {
        let rank = (self.gaps.len() * percent).div_ceil(100).max(1) - 1;
        self.gaps.get(rank).map_or(0.0, |gap| *gap as f64 / 1e3)
    }

    fn close_percent(&self) -> f64 {
        let close = self.gaps.partition_point(|gap| Duration::from_nanos(*gap) < BACK_TO_BACK);
        100.0 * close as f64 / self.gaps.len().max(1) as f64
    }
}

impl Pacing {
    /// When which discipline takes over.
    fn switches(&self) -> VecDeque<(Instant, &str)> {
        let words: Vec<&str> = self.switch.split(';').filter(|words| *words != NO_QDISC).collect();
        let (warmup, measured) = self.common.times;
        let part = measured / (words.len() as u32 + 1);
        let at = |n: usize| Instant::ZERO + warmup + part * (n as u32 + 1);
        words.into_iter().enumerate().map(|(n, words)| (at(n), words)).collect()
    }

    fn build(&self) -> World {
        let line = QueueSpec { rate: self.rate, bytes: self.queue_bytes, ..QueueSpec::default() };
        let duo = Duo {
            seed: self.common.seed,
            sysctl: &self.common.sysctl,
            caps: DeviceCaps::offloading(1_500),
            qdisc: &self.common.qdisc,
            queue: (self.rate > 0 && self.rate < FAST).then_some(line),
            router: &self.router,
            rtt: self.rtt,
            line: fast_line(),
        };
        let mut world = duo.build();
        let mut options = SocketOptions::new(&self.common.sysctl);
        world.add_app(1, Box::new(Discard::new(PORT, ListenOptions::new(options.clone()))));
        if self.pacing > 0 {
            options.max_pacing_rate = (self.pacing / 8).max(1);
        }
        for flow in 0..self.flows {
            let spec = FloodSpec {
                every_ns: 0,
                remote: SocketAddr::new(B, PORT),
                write: WRITE,
                owned: self.owned,
                start: Instant::ZERO + self.spread * flow as u32 / self.flows as u32,
                options: options.clone(),
            };
            world.add_app(0, Box::new(Flood::new(spec)));
        }
        world
    }

    fn figures(&self, world: &mut World, before: Totals) -> Figures {
        let after = Totals::of(world);
        let departures = world.ledger.departures.take().unwrap_or_default();
        let seen = Seen::of(&departures, before.at);
        let elapsed_s = seconds(after.at) - seconds(before.at);
        let mut figures = Figures {
            complete: after.at >= Instant::ZERO + self.common.times.0 + self.common.times.1,
            virtual_s: seconds(after.at),
            events: world.events(),
            departures,
            ..Figures::default()
        };
        let asked = self.flows as f64 * self.pacing as f64 / 1e6;
        let goodput = (after.acked - before.acked) as f64 * 8.0 / 1e6 / elapsed_s.max(1e-9);
        let named = [
            ("goodput_mbps", goodput),
            ("asked_mbps", asked),
            ("packets_per_s", seen.packets as f64 / elapsed_s.max(1e-9)),
            ("segs_per_packet", seen.segs as f64 / seen.packets.max(1) as f64),
            ("gap_us_p5", seen.gap_us(5)),
            ("gap_us_p50", seen.gap_us(50)),
            ("gap_us_p95", seen.gap_us(95)),
            ("gap_us_width", seen.gap_us(95) - seen.gap_us(5)),
            ("gap_us_p99", seen.gap_us(99)),
            ("gaps_under_100us_percent", seen.close_percent()),
            ("burst_bytes_max", seen.burst_bytes as f64),
            ("burst_packets_max", seen.burst_packets as f64),
            ("first_burst_packets_max", seen.first_packets as f64),
            ("gap_us_max", seen.gap_us(100)),
            ("dropped_packets", (after.dropped - before.dropped) as f64),
            ("retrans_segs", (after.retrans - before.retrans) as f64),
            ("connected_flows", world.ledger.connected as f64),
            ("aborted_flows", world.ledger.given_up.len() as f64),
            ("elapsed_s", elapsed_s),
        ];
        for (name, value) in named {
            figures.put(name, value);
        }
        figures
    }
}
