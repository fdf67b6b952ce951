//! small-queues (E2): how much of a bulk flow waits in its own host, before a line that is its bottleneck, and what that costs others.
//!
//! Source: Linux commit "tcp: TCP Small Queues". One flow, no delay but that of the line; a datagram every 50 ms goes through the same
//! queue and back. Figures are taken after a warm-up.
use super::duo::{A, B, Duo, PORT, mean, seconds, senders, watch};
use super::knobs::{Knob, NO_QDISC, knob, secs};
use super::params::{Params, has_common};
use super::{Common, Figures, Point};
use crate::app::{Discard, Flood, FloodSpec, UdpEcho, UdpPing, UdpPingSpec};
use crate::check::Broken;
use crate::link::spec::{Carry, NicSpec};
use crate::world::World;
use lowwater_core::base::limits::GSO_MAX_SEGS;
use lowwater_core::base::time::nanos;
use lowwater_core::base::{Duration, Instant, Rng};
use lowwater_core::device::DeviceCaps;
use lowwater_core::socket::ListenOptions;
use lowwater_core::tcp::SocketOptions;
use std::net::SocketAddr;

/// Time between probes.
const PROBE: Duration = Duration::from_millis(50);
/// Bytes of a probe.
const PROBE_BYTES: usize = 8;
/// Time between samples: no multiple or part of a packet's time, nor of the probes'.
const SAMPLE: Duration = Duration::from_micros(1_037);

/// Parameters.
#[derive(Clone, Debug)]
pub struct SmallQueues {
    /// Bits per second of the sender's device.
    pub rate: u64,
    /// Packets that the device itself takes; what waits beyond waits in the queueing discipline.
    pub ring: usize,
    /// Most segments that the device takes in one packet.
    pub gso_max_segs: u16,
    /// Bytes per write.
    pub write: usize,
    /// What all scenarios have.
    pub common: Common,
}

impl Default for SmallQueues {
    fn default() -> Self {
        Self {
            rate: 1_000_000_000,
            ring: 1,
            gso_max_segs: GSO_MAX_SEGS,
            write: 262_144,
            common: Common {
                // One that delays lets go of its packets' owners on entry, so that small queues see nothing below: "before".
                qdisc: "pfifo limit 1000".into(),
                times: (Duration::from_secs(3), Duration::from_secs(6)),
                ..Common::default()
            },
        }
    }
}

const KNOBS: &[Knob<SmallQueues>] = &[
    knob!("rate_mbps", "10^6 bit/s of the sender's device", real 0.001, 400_000,
        |p| p.rate as f64 / 1e6, |p, v| p.rate = (v * 1e6) as u64),
    knob!("ring", "packets that the device takes from the queueing discipline, 0 without a limit", whole 0, 65_535,
        |p| p.ring as f64, |p, v| p.ring = v as usize),
    knob!("gso_max_segs", "most segments in a packet of the sender's device", whole 1, 65_535,
        |p| f64::from(p.gso_max_segs), |p, v| p.gso_max_segs = v as u16),
    knob!("write_bytes", "size of the application's writes", whole 1, 64 << 20,
        |p| p.write as f64, |p, v| p.write = v as usize),
];

impl Params for SmallQueues {
    const KNOBS: &'static [Knob<Self>] = KNOBS;
    const TIMED: bool = true;

    has_common!();

    fn play(&self, on_progress: &mut dyn FnMut(f64) -> bool) -> Result<Figures, Broken> {
        let mut world = self.build();
        world.ledger.round_trips = Some(Vec::new());
        world.start();
        let (mut before, mut series) = (None, Vec::new());
        watch(&mut world, self.common.times, SAMPLE, on_progress, &mut |world| {
            before.get_or_insert_with(|| acked(world));
            let (at_s, backlog) = (seconds(world.now()), self.backlog(world));
            for (flow, info, _) in senders(world) {
                series.push(Point::of(at_s, flow, &info, backlog));
            }
        })?;
        Ok(self.figures(&mut world, before.unwrap_or_default(), series))
    }
}

/// Bytes that the receiver has acknowledged.
fn acked(world: &mut World) -> u64 {
    senders(world).iter().map(|(_, info, _)| info.bytes_acked).sum()
}

impl SmallQueues {
    fn build(&self) -> World {
        let caps = DeviceCaps { gso_max_segs: self.gso_max_segs, ..DeviceCaps::offloading(1_500) };
        let line = NicSpec { rate: self.rate, packets: self.ring, carry: Carry::Whole, ..NicSpec::default() };
        let duo = Duo {
            seed: self.common.seed,
            sysctl: &self.common.sysctl,
            caps,
            qdisc: &self.common.qdisc,
            queue: None,
            router: NO_QDISC,
            rtt: Duration::ZERO,
            line,
        };
        let mut world = duo.build();
        let options = SocketOptions::new(&self.common.sysctl);
        let remote = SocketAddr::new(B, PORT);
        world.add_app(1, Box::new(Discard::new(PORT, ListenOptions::new(options.clone()))));
        world.add_app(1, Box::new(UdpEcho::new(remote)));
        let flood =
            FloodSpec { remote, write: self.write, owned: false, every_ns: 0, start: Instant::ZERO, options };
        world.add_app(0, Box::new(Flood::new(flood)));
        let ping = UdpPingSpec {
            local: SocketAddr::new(A, 0),
            remote,
            key: Rng::new(self.common.seed).fork("probe").next_u64(),
            count: u32::MAX,
            size: PROBE_BYTES,
            every_ns: nanos(PROBE),
            start: Instant::ZERO,
        };
        world.add_app(0, Box::new(UdpPing::new(ping)));
        world
    }

    /// IP bytes that wait before the line or are on their way out of it.
    fn backlog(&self, world: &World) -> u64 {
        let above = world.hosts()[0].core().qdisc_backlog();
        above + world.pipes().next().map_or(0, |p| p.backlog_bytes(0))
    }

    fn figures(&self, world: &mut World, before: u64, series: Vec<Point>) -> Figures {
        let elapsed_s = seconds(world.now()) - self.common.times.0.as_secs_f64();
        let bits = (acked(world) - before) as f64 * 8.0;
        let warm = Instant::ZERO + self.common.times.0;
        let round_trips = world.ledger.round_trips.take().unwrap_or_default();
        let mut probes: Vec<f64> =
            round_trips.iter().filter(|(sent, _)| *sent >= warm).map(|(_, took)| secs(*took) * 1e3).collect();
        let mut backlogs: Vec<f64> = series.iter().map(|p| p.backlog_bytes as f64).collect();
        probes.sort_by(f64::total_cmp);
        backlogs.sort_by(f64::total_cmp);
        let at = |of: &[f64], place: usize| of.get(place).copied().unwrap_or(0.0);
        let last = |of: &[f64]| at(of, of.len().saturating_sub(1));
        // Of probes that never came back there is no time.
        let of_probes = |value: f64| if probes.is_empty() { Figures::NONE } else { value };
        let count = world.hosts()[0].core().stack().counters();
        let mut figures = Figures {
            complete: elapsed_s >= self.common.times.1.as_secs_f64(),
            virtual_s: seconds(world.now()),
            events: world.events(),
            ..Figures::default()
        };
        let named = [
            ("goodput_mbps", bits / elapsed_s.max(1e-9) / 1e6),
            ("elapsed_s", elapsed_s),
            ("backlog_bytes_mean", mean(backlogs.iter().copied())),
            ("backlog_bytes_p95", at(&backlogs, backlogs.len() * 95 / 100)),
            ("backlog_bytes_max", last(&backlogs)),
            ("probe_rtt_ms_min", of_probes(at(&probes, 0))),
            ("probe_rtt_ms_mean", of_probes(mean(probes.iter().copied()))),
            ("probe_rtt_ms_max", of_probes(last(&probes))),
            ("srtt_ms", Figures::srtt_ms(&series)),
            ("retrans_segs", count.tcp.retrans_segs as f64),
            ("capped_per_s", count.own.credit_capped as f64 / seconds(world.now())),
            ("connected_flows", world.ledger.connected as f64),
            ("aborted_flows", world.ledger.given_up.len() as f64),
            (
                "segs_per_packet",
                (count.tcp.out_segs + count.tcp.retrans_segs) as f64 / count.ip.out_requests.max(1) as f64,
            ),
        ];
        for (name, value) in named {
            figures.put(name, value);
        }
        figures.series = series;
        figures
    }
}
