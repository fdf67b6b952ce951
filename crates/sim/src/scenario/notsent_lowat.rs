//! notsent-lowat (E1): how much memory long flows hold for the same goodput, and how often their writers are woken for it.
//!
//! Source: Linux commit "tcp: reduce POLLOUT events caused by TCP_NOTSENT_LOWAT". Edge-triggered writers behind a router's queue,
//! started 10 ms apart; figures are taken after a warm-up.
use super::duo::{B, Duo, PORT, fast_line, mean, seconds, senders, watch};
use super::knobs::{Knob, NO_QDISC, from_ms, knob, ms};
use super::params::{Params, Words, has_common, router_words};
use super::{Common, Figures, Point};
use crate::app::{Discard, Flood, FloodSpec};
use crate::check::Broken;
use crate::link::spec::QueueSpec;
use crate::world::World;
use lowwater_core::base::limits::{GSO_MAX_SEGS, GSO_MAX_SIZE};
use lowwater_core::base::{Duration, Instant, Sysctl, sysctl::Triple};
use lowwater_core::device::DeviceCaps;
use lowwater_core::socket::ListenOptions;
use lowwater_core::tcp::{SocketOptions, State, TcpInfo};
use std::net::SocketAddr;

/// Time between the starts of two flows.
const STAGGER: Duration = Duration::from_millis(10);
/// Samples in the measured time.
const SAMPLES: u32 = 200;

/// Parameters.
#[derive(Clone, Debug)]
pub struct NotsentLowat {
    /// Flows.
    pub flows: usize,
    /// TCP_NOTSENT_LOWAT in bytes; 0 leaves it unset.
    pub lowat: u32,
    /// What is asked for by SO_SNDBUF; 0 autotunes.
    pub sndbuf: u32,
    /// Bytes per write.
    pub write: usize,
    /// Writers hand over buffers instead of copying, so that gigabytes of queue fit into memory.
    pub owned: bool,
    /// Most segments that the sender's device takes in one packet.
    pub gso_max_segs: u16,
    /// Bits per second of the router's line.
    pub rate: u64,
    /// Its queue in bytes.
    pub queue_bytes: u64,
    /// The router's queueing discipline in the words of `tc`, instead of a line of `rate` with a queue; "none" for that.
    pub router: String,
    /// Round-trip time of the empty path.
    pub rtt: Duration,
    /// What all scenarios have.
    pub common: Common,
}

impl Default for NotsentLowat {
    fn default() -> Self {
        // Memory is what is measured, so nothing else may bound it.
        let pages = 4_000_000;
        let sysctl = Sysctl {
            tcp_wmem: Triple { min: 4_096, default: 262_144, max: 64_000_000 },
            tcp_mem: Triple { min: pages, default: pages, max: pages },
            ..Sysctl::default()
        };
        Self {
            flows: 10,
            lowat: 0,
            sndbuf: 4_000_000,
            write: 262_144,
            owned: false,
            gso_max_segs: GSO_MAX_SEGS,
            rate: 200_000_000,
            queue_bytes: 2_500_000,
            router: NO_QDISC.into(),
            rtt: Duration::from_millis(100),
            common: Common {
                times: (Duration::from_secs(5), Duration::from_secs(8)),
                sysctl,
                ..Common::default()
            },
        }
    }
}

const KNOBS: &[Knob<NotsentLowat>] = &[
    knob!("flows", "flows, started 10 ms apart", whole 1, 10_000,
        |p| p.flows as f64, |p, v| p.flows = v as usize),
    knob!("lowat", "TCP_NOTSENT_LOWAT, 0 leaves it unset", whole 0, u32::MAX,
        |p| f64::from(p.lowat), |p, v| p.lowat = v as u32),
    knob!("sndbuf", "SO_SNDBUF, 0 autotunes", whole 0, 1e9,
        |p| f64::from(p.sndbuf), |p, v| p.sndbuf = v as u32),
    knob!("write_bytes", "size of the application's writes", whole 1, 64 << 20,
        |p| p.write as f64, |p, v| p.write = v as usize),
    knob!("owned", "1: writers hand over buffers instead of copying", whole 0, 1,
        |p| f64::from(u8::from(p.owned)), |p, v| p.owned = v != 0.0),
    knob!("gso_max_segs", "most segments in a packet of the sender's device", whole 1, 65_535,
        |p| f64::from(p.gso_max_segs), |p, v| p.gso_max_segs = v as u16),
    knob!("rate_mbps", "10^6 bit/s of the router's line", real 0.001, 400_000,
        |p| p.rate as f64 / 1e6, |p, v| p.rate = (v * 1e6) as u64),
    knob!("queue_bytes", "the router's queue, 0 without a limit", whole 0, u32::MAX,
        |p| p.queue_bytes as f64, |p, v| p.queue_bytes = v as u64),
    knob!("rtt_ms", "round-trip time of the empty path", real 0.01, 60_000,
        |p| ms(p.rtt), |p, v| p.rtt = from_ms(v)),
];

impl Params for NotsentLowat {
    const KNOBS: &'static [Knob<Self>] = KNOBS;
    const WORDS: &'static [Words<Self>] = &[router_words!()];
    const TIMED: bool = true;

    has_common!();

    fn play(&self, on_progress: &mut dyn FnMut(f64) -> bool) -> Result<Figures, Broken> {
        let mut world = self.build();
        world.start();
        let step = (self.common.times.1 / SAMPLES).max(Duration::from_millis(1));
        let (mut before, mut measured) = (None, Measured::default());
        watch(&mut world, self.common.times, step, on_progress, &mut |world| {
            before.get_or_insert_with(|| Totals::of(world));
            measured.sample(world, self);
        })?;
        let after = Totals::of(&mut world);
        Ok(self.figures(&world, before.unwrap_or_default(), after, measured))
    }
}

/// What grows while the world runs.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    at_s: f64,
    acked: u64,
    wakes: u64,
    acks: u64,
    retrans: u64,
    packets: u64,
    segs: u64,
}

impl Totals {
    fn of(world: &mut World) -> Self {
        let acked = senders(world).iter().map(|(_, info, _)| info.bytes_acked).sum();
        let count = world.hosts()[0].core().stack().counters();
        Self {
            at_s: seconds(world.now()),
            acked,
            wakes: world.ledger.writable_events,
            acks: count.tcp.in_segs,
            retrans: count.tcp.retrans_segs,
            packets: count.ip.out_requests,
            segs: count.tcp.out_segs + count.tcp.retrans_segs,
        }
    }
}

/// What is sampled.
#[derive(Clone, Debug, Default)]
struct Measured {
    series: Vec<Point>,
    /// `sk_wmem_queued` of each sample, and the memory that really was held.
    queued: Vec<f64>,
    held: Vec<f64>,
    /// Most that was held in a sample over what it may be, and beyond what was in flight and unsent.
    over: f64,
    beyond: u64,
}

impl Measured {
    fn sample(&mut self, world: &mut World, params: &NotsentLowat) {
        let at_s = seconds(world.now());
        let backlog = world.pipes().next().map_or(0, |p| p.backlog_bytes(1));
        // A flow that was given up holds nothing any more: it is counted, not averaged.
        let alive = |(_, info, _): &(usize, TcpInfo, _)| info.state != State::Close as u8;
        for (flow, info, memory) in senders(world).into_iter().filter(alive) {
            let point = Point::of(at_s, flow, &info, backlog);
            let bound = point.in_flight_bytes + u64::from(params.lowat) + GSO_MAX_SIZE as u64;
            if params.lowat > 0 {
                self.over = self.over.max(f64::from(memory.held) / bound as f64);
            }
            let stream = point.in_flight_bytes + point.unsent_bytes;
            self.beyond = self.beyond.max(u64::from(memory.held).saturating_sub(stream));
            self.queued.push(f64::from(memory.queued));
            self.held.push(f64::from(memory.held));
            self.series.push(point);
        }
    }
}

impl NotsentLowat {
    fn build(&self) -> World {
        let queue = QueueSpec { rate: self.rate, bytes: self.queue_bytes, ..QueueSpec::default() };
        let caps = DeviceCaps { gso_max_segs: self.gso_max_segs, ..DeviceCaps::offloading(1_500) };
        let duo = Duo {
            seed: self.common.seed,
            sysctl: &self.common.sysctl,
            caps,
            qdisc: &self.common.qdisc,
            queue: Some(queue),
            router: &self.router,
            rtt: self.rtt,
            line: fast_line(),
        };
        let mut world = duo.build();
        let mut options = SocketOptions::new(&self.common.sysctl);
        world.add_app(1, Box::new(Discard::new(PORT, ListenOptions::new(options.clone()))));
        // SO_SNDBUF n means 2n of charge.
        options.sndbuf = (self.sndbuf > 0).then_some(self.sndbuf.saturating_mul(2));
        options.notsent_lowat = self.lowat;
        for flow in 0..self.flows {
            let spec = FloodSpec {
                every_ns: 0,
                remote: SocketAddr::new(B, PORT),
                write: self.write,
                owned: self.owned,
                start: Instant::ZERO + STAGGER * flow as u32,
                options: options.clone(),
            };
            world.add_app(0, Box::new(Flood::new(spec)));
        }
        world
    }

    fn figures(&self, world: &World, before: Totals, after: Totals, measured: Measured) -> Figures {
        let elapsed_s = after.at_s - before.at_s;
        let mb = (after.acked - before.acked) as f64 / 1e6;
        let per_mb = |from: u64, to: u64| if mb > 0.0 { (to - from) as f64 / mb } else { 0.0 };
        let of_flows = |value: fn(&Point) -> u64| mean(measured.series.iter().map(|p| value(p) as f64));
        let packets = (after.packets - before.packets).max(1) as f64;
        let mut figures = Figures {
            complete: after.at_s >= (self.common.times.0 + self.common.times.1).as_secs_f64(),
            virtual_s: after.at_s,
            events: world.events(),
            ..Figures::default()
        };
        let named = [
            ("goodput_mbps", mb * 8.0 / elapsed_s.max(1e-9)),
            ("elapsed_s", elapsed_s),
            ("queued_bytes_per_flow", mean(measured.queued.iter().copied())),
            ("held_bytes_per_flow", mean(measured.held.iter().copied())),
            ("unsent_bytes_per_flow", of_flows(|p| p.unsent_bytes)),
            ("in_flight_bytes_per_flow", of_flows(|p| p.in_flight_bytes)),
            ("queued_over_bound_max", measured.over),
            ("held_beyond_bytes_max", measured.beyond as f64),
            ("writable_events_per_mb", per_mb(before.wakes, after.wakes)),
            ("acks_per_mb", per_mb(before.acks, after.acks)),
            ("backlog_bytes_mean", of_flows(|p| p.backlog_bytes)),
            ("srtt_ms", Figures::srtt_ms(&measured.series)),
            ("retrans_segs", (after.retrans - before.retrans) as f64),
            ("connected_flows", world.ledger.connected as f64),
            ("aborted_flows", world.ledger.given_up.len() as f64),
            ("segs_per_packet", (after.segs - before.segs) as f64 / packets),
        ];
        for (name, value) in named {
            figures.put(name, value);
        }
        figures.series = measured.series;
        figures
    }
}
