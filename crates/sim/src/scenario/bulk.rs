//! Bulk transfers from A over a router to B: the delay on the way of the acknowledgements, the bottleneck where it is wanted.
use super::duo::{A, B, FAST, PORT, mean, seconds};
use super::knobs::{Knob, NO_QDISC, from_ms, from_secs, knob, ms, secs};
use super::params::{Params, has_common};
use super::{Common, Figures, Point};
use crate::app::{Bulk, BulkSpec, Pace, Sink};
use crate::check::Broken;
use crate::host::HostSpec;
use crate::link::PipeSpec;
use crate::link::spec::{Carry, DelaySpec, LossSpec, NicSpec, QdiscSpec, QueueSpec};
use crate::world::{Recording, To, World};
use lowwater_core::base::time::nanos;
use lowwater_core::base::{Duration, Instant, Rng};
use lowwater_core::device::DeviceCaps;
use lowwater_core::socket::ListenOptions;
use lowwater_core::tcp::{SocketOptions, State};
use std::net::SocketAddr;

/// Where the slowest line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Bottleneck {
    /// Behind the router, out of the sender's sight.
    #[default]
    Router,
    /// The sender's own device.
    Sender,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct BulkParams {
    /// Round-trip time of the empty path.
    pub rtt: Duration,
    /// Bottleneck in bits per second.
    pub rate: u64,
    /// Where it is.
    pub bottleneck: Bottleneck,
    /// Random loss of segments towards B, in 10^-6.
    pub loss_ppm: u32,
    /// The bottleneck's queue in bytes; 0 is unlimited.
    pub queue_bytes: u64,
    /// Bytes per flow.
    pub bytes: u64,
    /// Flows, started 10 ms apart.
    pub flows: usize,
    /// Bytes per write.
    pub write: usize,
    /// SO_SNDBUF as read back; `None` autotunes.
    pub sndbuf: Option<u32>,
    /// MTU of the devices.
    pub mtu: u16,
    /// Whether the receiver sees super-packets whole.
    pub carry: Carry,

    /// Time between samples.
    pub sample_every: Duration,
    /// Virtual time after which the run ends, complete or not.
    pub limit: Duration,
    /// What all scenarios have.
    pub common: Common,
}

impl Default for BulkParams {
    fn default() -> Self {
        Self {
            rtt: Duration::from_millis(100),
            rate: 100_000_000,
            bottleneck: Bottleneck::Router,
            loss_ppm: 0,
            queue_bytes: 1_250_000,
            bytes: 20_000_000,
            flows: 1,
            write: 262_144,
            sndbuf: None,
            mtu: 1500,
            carry: Carry::Whole,
            common: Common::default(),
            sample_every: Duration::from_millis(10),
            limit: Duration::from_secs(600),
        }
    }
}

const KNOBS: &[Knob<BulkParams>] = &[
    knob!("rtt_ms", "round-trip time of the empty path", real 0, 60_000,
        |p| ms(p.rtt), |p, v| p.rtt = from_ms(v)),
    knob!("rate_mbps", "10^6 bit/s of the bottleneck", real 0.001, 400_000,
        |p| p.rate as f64 / 1e6, |p, v| p.rate = (v * 1e6) as u64),
    knob!("loss_percent", "random loss of data segments", real 0, 100,
        |p| f64::from(p.loss_ppm) / 1e4, |p, v| p.loss_ppm = (v * 1e4).round() as u32),
    knob!("queue_bytes", "queue of the bottleneck, 0 without a limit", whole 0, u32::MAX,
        |p| p.queue_bytes as f64, |p, v| p.queue_bytes = v as u64),
    knob!("bytes", "size of each transfer", whole 1_000, 100_000_000_000u64,
        |p| p.bytes as f64, |p, v| p.bytes = v as u64),
    knob!("flows", "transfers at the same time", whole 1, 10_000,
        |p| p.flows as f64, |p, v| p.flows = v as usize),
    knob!("write_bytes", "size of the application's writes", whole 1, 64 << 20,
        |p| p.write as f64, |p, v| p.write = v as usize),
    knob!("mtu", "MTU of all devices", whole 576, 65_535, |p| f64::from(p.mtu), |p, v| p.mtu = v as u16),
    knob!("limit_s", "virtual seconds after which a run ends in any case", real 0.001, 1e6,
        |p| secs(p.limit), |p, v| p.limit = from_secs(v)),
];

impl Params for BulkParams {
    const KNOBS: &'static [Knob<Self>] = KNOBS;
    const QDISC: &'static str = "queueing discipline of the bottleneck, instead of queue_bytes";
    const TIMED: bool = false;

    has_common!();

    fn play(&self, on_progress: &mut dyn FnMut(f64) -> bool) -> Result<Figures, Broken> {
        bulk_with(self, on_progress)
    }
}

/// Runs bulk transfers.
///
/// # Errors
/// A broken promise: wrong bytes, failed connections, a world that stands still.
pub fn bulk(params: &BulkParams) -> Result<Figures, Broken> {
    bulk_with(params, &mut |_| true)
}

/// Runs bulk transfers, telling the completed part (0 to 1) at each sample; answering false ends the run.
///
/// # Errors
/// As [`bulk`].
pub fn bulk_with(params: &BulkParams, on_progress: &mut dyn FnMut(f64) -> bool) -> Result<Figures, Broken> {
    let mut world = build(params);
    world.start();
    let end = Instant::ZERO + params.limit;
    let mut seen = Seen { ends: vec![None; params.flows], ..Seen::default() };
    let total = params.bytes * params.flows as u64;
    loop {
        let next = (world.now() + params.sample_every.max(Duration::from_micros(10))).min(end);
        let complete = world.run_while(next, |w| !w.host_is_done(0))?;
        seen.sample(&mut world, params);
        let fraction = world.ledger.bytes.total_received() as f64 / total as f64;
        if complete || world.now() >= end || !on_progress(fraction) {
            let mut figures = figures(&mut world, params, &seen.series);
            figures.series = seen.all();
            return Ok(figures);
        }
        world.run_until(next)?;
    }
}

fn build(params: &BulkParams) -> World {
    let mut world = World::new(params.common.seed, Recording::default());
    let host = |ip| HostSpec {
        sysctl: params.common.sysctl.clone(),
        caps: DeviceCaps::offloading(params.mtu),
        ..HostSpec::new(ip)
    };
    let own = params.bottleneck == Bottleneck::Sender;
    let words = (params.common.qdisc != NO_QDISC).then(|| params.common.qdisc.clone());
    let sender = HostSpec { qdisc: words.clone().filter(|_| own).unwrap_or_default(), ..host(A) };
    let (a, b) = (world.add_host(sender), world.add_host(host(B)));
    // What a line loses is a segment, not what offloads have left whole.
    let carry = if params.loss_ppm > 0 { Carry::Segments } else { params.carry };
    let nic = |rate, bytes| Some(NicSpec { rate, bytes, carry, ..NicSpec::default() });
    let queue = QueueSpec { rate: params.rate, bytes: params.queue_bytes, ..QueueSpec::default() };
    let forward = PipeSpec {
        nic: if own { nic(params.rate, params.queue_bytes) } else { nic(FAST, 0) },
        queue: (!own).then_some(queue),
        qdisc: words.filter(|_| !own).map(|words| QdiscSpec { words, rate: params.rate, mtu: params.mtu }),
        loss: LossSpec { random_ppm: params.loss_ppm, ..LossSpec::default() },
        ..PipeSpec::default()
    };
    let delay = DelaySpec { delay_ns: nanos(params.rtt), ..DelaySpec::default() };
    let back = PipeSpec { nic: nic(FAST, 0), delay, ..PipeSpec::default() };
    world.add_pipe(Some(a), &forward, To::Host(b));
    world.add_pipe(Some(b), &back, To::Host(a));
    let listen = ListenOptions::new(SocketOptions::new(&params.common.sysctl));
    world.add_app(b, Box::new(Sink::new(PORT, listen, Pace::Eager, params.flows)));
    let keys = Rng::new(params.common.seed).fork("keys");
    for flow in 0..params.flows {
        let mut options = SocketOptions::new(&params.common.sysctl);
        options.sndbuf = params.sndbuf;
        let spec = BulkSpec {
            remote: SocketAddr::new(B, PORT),
            key: keys.fork(&flow.to_string()).next_u64(),
            bytes: params.bytes,
            write: params.write,
            owned: false,
            start: Instant::from_millis(10 * flow as u64),
            options,
            more: 0,
            urgent: 0,
            gives_up: true,
        };
        world.add_app(a, Box::new(Bulk::new(spec)));
    }
    world
}

fn backlog(world: &World, params: &BulkParams) -> u64 {
    let queue = usize::from(params.bottleneck == Bottleneck::Router);
    world.pipes().next().map_or(0, |p| p.backlog_bytes(queue))
}

/// What was seen of the flows.
#[derive(Default)]
struct Seen {
    /// Samples of flows that have a socket.
    series: Vec<Point>,
    /// The end of each flow that has come to it.
    ends: Vec<Option<Point>>,
}

impl Seen {
    fn sample(&mut self, world: &mut World, params: &BulkParams) {
        let (at_s, backlog_bytes) = (seconds(world.now()), backlog(world, params));
        let sockets: Vec<_> =
            world.hosts()[0].apps().map(|a| (a.done(), a.sockets().first().copied())).collect();
        for (flow, (done, id)) in sockets.into_iter().enumerate() {
            if let Some(info) = id.and_then(|id| world.host_mut(0).core_mut().tcp_info(id)) {
                // A flow that was given up holds nothing any more: it is counted, not averaged.
                if info.state != State::Close as u8 {
                    self.series.push(Point::of(at_s, flow, &info, backlog_bytes));
                }
            } else if done && self.ends[flow].is_none() {
                let last = self.series.iter().rfind(|p| p.flow == flow).copied().unwrap_or_default();
                let (in_flight_bytes, unsent_bytes, acked_bytes) = (0, 0, params.bytes);
                let end =
                    Point { at_s, flow, backlog_bytes, in_flight_bytes, unsent_bytes, acked_bytes, ..last };
                self.ends[flow] = Some(end);
            }
        }
    }

    /// All of it in the order of time.
    fn all(self) -> Vec<Point> {
        let mut all = self.series;
        all.extend(self.ends.into_iter().flatten());
        all.sort_by(|a, b| a.at_s.total_cmp(&b.at_s).then(a.flow.cmp(&b.flow)));
        all
    }
}

fn figures(world: &mut World, params: &BulkParams, series: &[Point]) -> Figures {
    let bytes = world.ledger.bytes.total_received();
    let first = world.ledger.bytes.streams().filter_map(|(_, s)| s.first_sent).min().unwrap_or_default();
    let last = world.ledger.bytes.streams().filter_map(|(_, s)| s.last_received).max();
    // Of what never came there is no time: less than none would be the best of all.
    let elapsed_s = last.map_or(Figures::NONE, |last| seconds(last) - seconds(first));
    let mb = bytes as f64 / 1e6;
    let per_mb = |n: f64| if mb > 0.0 { n / mb } else { 0.0 };
    let count = world.hosts()[0].core().stack().counters();
    // Once for each instant, whichever flows are under way then.
    let instants = series.chunk_by(|a, b| a.at_s.total_cmp(&b.at_s).is_eq());
    let mut backlogs: Vec<u64> = instants.map(|at| at[0].backlog_bytes).collect();
    backlogs.sort_unstable();
    let p95 = backlogs.get(backlogs.len().saturating_sub(1) * 95 / 100).copied().unwrap_or(0);
    let acks = world.pipes().nth(1).map_or(0, |p| p.counts().accepted);
    let mut figures = Figures {
        complete: world.all_done() && bytes == params.bytes * params.flows as u64,
        virtual_s: seconds(world.now()),
        events: world.events(),
        ..Figures::default()
    };
    let goodput = if elapsed_s > 0.0 { bytes as f64 * 8.0 / elapsed_s / 1e6 } else { 0.0 };
    let of_flows = |value: fn(&Point) -> u64| mean(series.iter().map(|p| value(p) as f64));
    let named = [
        ("goodput_mbps", goodput),
        ("elapsed_s", elapsed_s),
        ("queued_bytes_per_flow", of_flows(|p| p.in_flight_bytes + p.unsent_bytes)),
        ("unsent_bytes_per_flow", of_flows(|p| p.unsent_bytes)),
        ("in_flight_bytes_per_flow", of_flows(|p| p.in_flight_bytes)),
        ("writable_events_per_mb", per_mb(world.ledger.writable_events as f64)),
        ("acks_per_mb", per_mb(acks as f64)),
        ("backlog_bytes_mean", mean(backlogs.iter().map(|b| *b as f64))),
        ("backlog_bytes_p95", p95 as f64),
        ("backlog_bytes_max", backlogs.last().copied().unwrap_or(0) as f64),
        ("srtt_ms", Figures::srtt_ms(series)),
        ("ip_out_requests", count.ip.out_requests as f64),
        ("ip_in_receives", count.ip.in_receives as f64),
        ("tcp_out_segs", count.tcp.out_segs as f64),
        ("retrans_segs", count.tcp.retrans_segs as f64),
        ("connected_flows", world.ledger.connected as f64),
        ("aborted_flows", world.ledger.given_up.len() as f64),
        (
            "segs_per_packet",
            (count.tcp.out_segs + count.tcp.retrans_segs) as f64 / count.ip.out_requests.max(1) as f64,
        ),
        ("dropped_packets", world.pipes().map(|p| p.counts().dropped()).sum::<u64>() as f64),
    ];
    for (name, value) in named {
        figures.put(name, value);
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_counts_for_as_long_as_any_flow_is_under_way() {
        let params = BulkParams { flows: 2, ..BulkParams::default() };
        let at = |at_s, flow, backlog_bytes| Point { at_s, flow, backlog_bytes, ..Point::default() };
        let series = [at(0.0, 0, 10), at(0.0, 1, 10), at(1.0, 1, 30)];
        let figures = figures(&mut build(&params), &params, &series);
        let of = |name: &str| figures.get(name);
        assert_eq!((of("backlog_bytes_mean"), of("backlog_bytes_max")), (Some(20.0), Some(30.0)));
    }
}
