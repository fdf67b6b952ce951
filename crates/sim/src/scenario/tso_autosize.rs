//! tso-autosize (E3): how many packets are handed to IP for one write of two megabytes, when they are sized at the moment of sending.
//!
//! Source: Linux commit "tcp: refine TSO autosizing"; a path of 40 ms without a bottleneck, then shutdown and the peer's FIN. The
//! counters are the sender's, handshake and close included.
use super::duo::{B, Duo, PORT, fast_line, seconds, senders};
use super::knobs::{Knob, NO_QDISC, from_ms, from_secs, knob, ms, secs};
use super::params::{Params, has_common};
use super::{Common, Figures, Point};
use crate::app::{Bulk, BulkSpec, Pace, Sink};
use crate::check::{Broken, Departure};
use crate::world::World;
use lowwater_core::base::limits::GSO_MAX_SEGS;
use lowwater_core::base::{Duration, Instant, Rng, Sysctl};
use lowwater_core::device::DeviceCaps;
use lowwater_core::socket::ListenOptions;
use lowwater_core::tcp::SocketOptions;
use std::net::SocketAddr;

/// Parameters.
#[derive(Clone, Debug)]
pub struct TsoAutosize {
    /// Round-trip time, all of it on the way of the acknowledgements.
    pub rtt: Duration,
    /// Bytes, in one write.
    pub bytes: u64,
    /// What is asked for by SO_SNDBUF; 0 autotunes.
    pub sndbuf: u32,
    /// Most segments that the sender's device takes in one packet: 2 stands for "before".
    pub gso_max_segs: u16,
    /// MTU of both devices.
    pub mtu: u16,

    /// Virtual time after which the run ends, complete or not.
    pub limit: Duration,
    /// What all scenarios have.
    pub common: Common,
}

impl Default for TsoAutosize {
    fn default() -> Self {
        Self {
            rtt: Duration::from_millis(40),
            bytes: 2_000_000,
            sndbuf: 0,
            gso_max_segs: GSO_MAX_SEGS,
            mtu: 1_500,
            // The figures to compare with are Linux 6.1's.
            common: Common {
                sysctl: Sysctl { tcp_grow_packet: false, ..Sysctl::default() },
                ..Common::default()
            },
            limit: Duration::from_secs(60),
        }
    }
}

const KNOBS: &[Knob<TsoAutosize>] = &[
    knob!("rtt_ms", "round-trip time", real 0.01, 60_000, |p| ms(p.rtt), |p, v| p.rtt = from_ms(v)),
    knob!("bytes", "size of the one write", whole 1_000, 4e9, |p| p.bytes as f64, |p, v| p.bytes = v as u64),
    knob!("sndbuf", "SO_SNDBUF, 0 autotunes", whole 0, 1e9,
        |p| f64::from(p.sndbuf), |p, v| p.sndbuf = v as u32),
    knob!("gso_max_segs", "most segments in a packet of the sender's device", whole 1, 65_535,
        |p| f64::from(p.gso_max_segs), |p, v| p.gso_max_segs = v as u16),
    knob!("mtu", "MTU of both devices", whole 576, 65_535, |p| f64::from(p.mtu), |p, v| p.mtu = v as u16),
    knob!("limit_s", "virtual seconds after which a run ends in any case", real 0.001, 1e6,
        |p| secs(p.limit), |p, v| p.limit = from_secs(v)),
];

impl Params for TsoAutosize {
    const KNOBS: &'static [Knob<Self>] = KNOBS;
    const TIMED: bool = false;

    has_common!();

    fn play(&self, on_progress: &mut dyn FnMut(f64) -> bool) -> Result<Figures, Broken> {
        let mut world = self.build();
        world.ledger.departures = Some(Vec::new());
        world.start();
        let end = Instant::ZERO + self.limit;
        let mut series = Vec::new();
        loop {
            // A sample in the middle of each of ten parts of a round trip.
            let next = (world.now() + (self.rtt / 10).max(Duration::from_micros(100))).min(end);
            let complete = world.run_while(next, |w| !w.host_is_done(0))?;
            for (flow, info, _) in senders(&mut world) {
                series.push(Point::of(seconds(world.now()), flow, &info, 0));
            }
            let fraction = world.ledger.bytes.total_received() as f64 / self.bytes as f64;
            if complete || world.now() >= end || !on_progress(fraction) {
                return Ok(self.figures(&mut world, series));
            }
            world.run_until(next)?;
        }
    }
}

impl TsoAutosize {
    fn build(&self) -> World {
        let caps = DeviceCaps { gso_max_segs: self.gso_max_segs, ..DeviceCaps::offloading(self.mtu) };
        let duo = Duo {
            seed: self.common.seed,
            sysctl: &self.common.sysctl,
            caps,
            qdisc: &self.common.qdisc,
            queue: None,
            router: NO_QDISC,
            rtt: self.rtt,
            line: fast_line(),
        };
        let mut world = duo.build();
        let listen = ListenOptions::new(SocketOptions::new(&self.common.sysctl));
        world.add_app(1, Box::new(Sink::new(PORT, listen, Pace::Eager, 1)));
        let mut options = SocketOptions::new(&self.common.sysctl);
        // SO_SNDBUF n means 2n of charge.
        options.sndbuf = (self.sndbuf > 0).then_some(self.sndbuf.saturating_mul(2));
        let bulk = BulkSpec {
            remote: SocketAddr::new(B, PORT),
            key: Rng::new(self.common.seed).fork("key").next_u64(),
            bytes: self.bytes,
            write: self.bytes as usize,
            owned: false,
            start: Instant::ZERO,
            options,
            more: 0,
            urgent: 0,
            gives_up: true,
        };
        world.add_app(0, Box::new(Bulk::new(bulk)));
        world
    }

    fn figures(&self, world: &mut World, series: Vec<Point>) -> Figures {
        let bytes = world.ledger.bytes.total_received();
        let first = world.ledger.bytes.streams().find_map(|(_, s)| s.first_sent).unwrap_or_default();
        // From the end of the handshake to the peer's FIN, which takes one more way than the last byte.
        let last = world.ledger.bytes.streams().find_map(|(_, s)| s.last_received);
        let elapsed_s =
            last.map_or(Figures::NONE, |last| seconds(last) - seconds(first) + self.rtt.as_secs_f64());
        let departures = world.ledger.departures.take().unwrap_or_default();
        let rounds = self.rounds(first, &departures);
        let count = world.hosts()[0].core().stack().counters();
        let data: (u64, u64) =
            rounds.iter().fold((0, 0), |(p, s), r| (p + u64::from(r.0), s + u64::from(r.1)));
        let mut figures = Figures {
            complete: world.all_done() && bytes == self.bytes,
            virtual_s: seconds(world.now()),
            events: world.events(),
            series,
            rounds,
            ..Figures::default()
        };
        figures.put("goodput_mbps", if bytes > 0 { bytes as f64 * 8.0 / elapsed_s / 1e6 } else { 0.0 });
        figures.put("elapsed_s", elapsed_s);
        figures.put("ip_out_requests", count.ip.out_requests as f64);
        figures.put("ip_in_receives", count.ip.in_receives as f64);
        figures.put("tcp_out_segs", count.tcp.out_segs as f64);
        figures.put("retrans_segs", count.tcp.retrans_segs as f64);
        figures.put("connected_flows", world.ledger.connected as f64);
        figures.put("aborted_flows", world.ledger.given_up.len() as f64);
        figures.put("segs_per_packet", data.1 as f64 / data.0.max(1) as f64);
        figures.put("acks_per_mb", count.tcp.in_segs as f64 / (bytes.max(1) as f64 / 1e6));
        figures.departures = departures;
        figures
    }

    /// Packets and segments of data by round trip.
    fn rounds(&self, first: Instant, departures: &[Departure]) -> Vec<(u32, u32)> {
        let mut rounds = Vec::new();
        for departure in departures.iter().filter(|d| d.host == 0 && d.bytes > 0 && d.at >= first) {
            let round = (departure.at.nanos_since(first) as f64 / ms(self.rtt) / 1e6) as usize;
            if rounds.len() <= round {
                rounds.resize(round + 1, (0, 0));
            }
            rounds[round].0 += 1;
            rounds[round].1 += departure.segs;
        }
        rounds
    }
}
