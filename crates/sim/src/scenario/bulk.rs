//! Bulk transfers from A over a router to B: the delay on the way of the acknowledgements, the bottleneck where it is wanted.
use super::{Figures, Point};
use crate::app::{Bulk, BulkSpec, Pace, Sink};
use crate::check::Broken;
use crate::host::HostSpec;
use crate::link::PipeSpec;
use crate::link::spec::{Carry, DelaySpec, LossSpec, NicSpec, QueueSpec};
use crate::world::{Recording, To, World};
use lowwater_core::base::time::nanos;
use lowwater_core::base::{Duration, Instant, Rng, Sysctl};
use lowwater_core::device::DeviceCaps;
use lowwater_core::socket::ListenOptions;
use lowwater_core::tcp::SocketOptions;
use std::net::{IpAddr, SocketAddr};

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
    /// Random loss of packets towards B, in 10^-6.
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
    /// Settings of both hosts.
    pub sysctl: Sysctl,
    /// MTU of the devices.
    pub mtu: u16,
    /// Whether the receiver sees super-packets whole.
    pub carry: Carry,
    /// All chance.
    pub seed: u64,
    /// Time between samples.
    pub sample_every: Duration,
    /// Virtual time after which the run ends, complete or not.
    pub limit: Duration,
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
            sysctl: Sysctl::default(),
            mtu: 1500,
            carry: Carry::Whole,
            seed: 1,
            sample_every: Duration::from_millis(10),
            limit: Duration::from_secs(600),
        }
    }
}

const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
const PORT: u16 = 5_001;
/// Rate of devices that are not the bottleneck.
const FAST: u64 = 40_000_000_000;

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
    let mut series = Vec::new();
    let total = params.bytes * params.flows as u64;
    loop {
        let next = (world.now() + params.sample_every.max(Duration::from_micros(10))).min(end);
        let complete = world.run_while(next, |w| !w.all_done())?;
        sample(&mut world, params, &mut series);
        let fraction = world.ledger.bytes.total_received() as f64 / total as f64;
        if complete || world.now() >= end || !on_progress(fraction) {
            return Ok(figures(&mut world, params, series));
        }
        world.run_until(next)?;
    }
}

fn build(params: &BulkParams) -> World {
    let mut world = World::new(params.seed, Recording::default());
    let host = |ip| HostSpec {
        sysctl: params.sysctl.clone(),
        caps: DeviceCaps::offloading(params.mtu),
        ..HostSpec::new(ip)
    };
    let (a, b) = (world.add_host(host(A)), world.add_host(host(B)));
    let own = params.bottleneck == Bottleneck::Sender;
    let nic = |rate, bytes| Some(NicSpec { rate, bytes, carry: params.carry, ..NicSpec::default() });
    let queue = QueueSpec { rate: params.rate, bytes: params.queue_bytes, ..QueueSpec::default() };
    let forward = PipeSpec {
        nic: if own { nic(params.rate, params.queue_bytes) } else { nic(FAST, 0) },
        queue: (!own).then_some(queue),
        loss: LossSpec { random_ppm: params.loss_ppm, ..LossSpec::default() },
        ..PipeSpec::default()
    };
    let delay = DelaySpec { delay_ns: nanos(params.rtt), ..DelaySpec::default() };
    let back = PipeSpec { nic: nic(FAST, 0), delay, ..PipeSpec::default() };
    world.add_pipe(Some(a), &forward, To::Host(b));
    world.add_pipe(Some(b), &back, To::Host(a));
    let listen = ListenOptions::new(SocketOptions::new(&params.sysctl));
    world.add_app(b, Box::new(Sink::new(PORT, listen, Pace::Eager, params.flows)));
    let keys = Rng::new(params.seed).fork("keys");
    for flow in 0..params.flows {
        let mut options = SocketOptions::new(&params.sysctl);
        options.sndbuf = params.sndbuf;
        let spec = BulkSpec {
            remote: SocketAddr::new(B, PORT),
            key: keys.fork(&flow.to_string()).next_u64(),
            bytes: params.bytes,
            write: params.write,
            owned: false,
            start: Instant::from_millis(10 * flow as u64),
            options,
        };
        world.add_app(a, Box::new(Bulk::new(spec)));
    }
    world
}

fn backlog(world: &World, params: &BulkParams) -> u64 {
    let queue = usize::from(params.bottleneck == Bottleneck::Router);
    world.pipes().next().map_or(0, |p| p.backlog_bytes(queue))
}

fn sample(world: &mut World, params: &BulkParams, series: &mut Vec<Point>) {
    let (at_s, backlog_bytes) = (seconds(world.now()), backlog(world, params));
    let sockets: Vec<_> = world.hosts()[0].apps().map(|a| a.sockets().first().copied()).collect();
    for (flow, id) in sockets.into_iter().enumerate() {
        let Some(info) = id.and_then(|id| world.host_mut(0).core_mut().tcp_info(id)) else { continue };
        series.push(Point {
            at_s,
            flow,
            cwnd: info.snd_cwnd,
            ssthresh: info.snd_ssthresh,
            in_flight_bytes: u64::from(info.unacked) * u64::from(info.snd_mss),
            unsent_bytes: u64::from(info.notsent_bytes),
            srtt_ms: f64::from(info.rtt) / 1e3,
            backlog_bytes,
            acked_bytes: info.bytes_acked,
            retrans: info.total_retrans,
        });
    }
}

fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0u64), |(s, n), v| (s + v, n + 1));
    if n == 0 { 0.0 } else { sum / n as f64 }
}

fn figures(world: &mut World, params: &BulkParams, series: Vec<Point>) -> Figures {
    let bytes = world.ledger.bytes.total_received();
    let first = world.ledger.bytes.streams().filter_map(|(_, s)| s.first_sent).min().unwrap_or_default();
    let last = world.ledger.bytes.streams().filter_map(|(_, s)| s.last_received).max().unwrap_or_default();
    let elapsed_s = seconds(last) - seconds(first);
    let mb = bytes as f64 / 1e6;
    let per_mb = |n: f64| if mb > 0.0 { n / mb } else { 0.0 };
    let count = world.hosts()[0].core().stack().counters();
    let mut backlogs: Vec<u64> = series.iter().filter(|p| p.flow == 0).map(|p| p.backlog_bytes).collect();
    backlogs.sort_unstable();
    let p95 = backlogs.get(backlogs.len().saturating_sub(1) * 95 / 100).copied().unwrap_or(0);
    let acks = world.pipes().nth(1).map_or(0, |p| p.counts().accepted);
    Figures {
        complete: world.all_done() && bytes == params.bytes * params.flows as u64,
        bytes,
        elapsed_s,
        virtual_s: seconds(world.now()),
        events: world.events(),
        goodput_mbps: if elapsed_s > 0.0 { bytes as f64 * 8.0 / elapsed_s / 1e6 } else { 0.0 },
        queued_bytes_per_flow: mean(series.iter().map(|p| (p.in_flight_bytes + p.unsent_bytes) as f64)),
        unsent_bytes_per_flow: mean(series.iter().map(|p| p.unsent_bytes as f64)),
        in_flight_bytes_per_flow: mean(series.iter().map(|p| p.in_flight_bytes as f64)),
        writable_events_per_mb: per_mb(world.ledger.writable_events as f64),
        acks_per_mb: per_mb(acks as f64),
        backlog_bytes_mean: mean(backlogs.iter().map(|b| *b as f64)),
        backlog_bytes_p95: p95 as f64,
        backlog_bytes_max: backlogs.last().copied().unwrap_or(0) as f64,
        srtt_ms: mean(series.iter().map(|p| p.srtt_ms)),
        ip_out_requests: count.ip.out_requests,
        ip_in_receives: count.ip.in_receives,
        tcp_out_segs: count.tcp.out_segs,
        retrans_segs: count.tcp.retrans_segs,
        segs_per_packet: count.tcp.out_segs as f64 / count.ip.out_requests.max(1) as f64,
        dropped_packets: world.pipes().map(|p| p.counts().dropped()).sum(),
        series,
    }
}
