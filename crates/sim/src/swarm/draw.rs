//! The options of a swarm world and how they are drawn: each feature is present or absent by a toss of its own.
use super::sctp::SctpDraw;
use super::seldom::SeldomDraw;
use crate::link::nic::Telling;
use crate::link::spec::Carry;
use lowwater_core::base::{Instant, Rng};

/// Faults of one direction; chances in 10^-6 per packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Independent loss.
    pub loss_ppm: u32,
    /// Burst loss: to bad, to good, loss when bad.
    pub burst_ppm: (u32, u32, u32),
    /// Blackouts, in milliseconds from start to end.
    pub blackouts_ms: Vec<(u64, u64)>,
    /// Jitter that keeps order, in nanoseconds.
    pub jitter_ns: u64,
    /// Reordering, and how far a packet falls back at most.
    pub reorder: (u32, u64),
    /// Duplication.
    pub duplicate_ppm: u32,
    /// Flipped bits.
    pub corrupt_ppm: u32,
}

/// One program of a client, with its server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the programs' specs")]
pub enum AppDraw {
    Bulk { bytes: u64, write: usize, owned: bool, reader: u8, start_ms: u64 },
    Rr { rounds: u32, size: usize, think_ms: u64, start_ms: u64 },
    Churn { rounds: u32, pause_ms: u64, start_ms: u64 },
    Udp { count: u32, size: usize, every_ms: u64, start_ms: u64 },
}

/// Headers of a fragment over IPv6, and what rounds its length.
const IP_FRAGMENT_HEADERS: usize = 40 + 8 + 7;

/// A failure on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Canary {
    /// None.
    #[default]
    None,
    /// A checker says no at the end.
    Checker,
    /// The world panics.
    Panic,
}

/// TCP_WINDOW_CLAMP in bytes, where these bits of a side's options are set.
pub(super) const CLAMP: u32 = 20_000;
pub(super) const CLAMPED: u32 = 0b111 << 18;

/// Everything that distinguishes one world from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldSpec {
    /// The seed, from which the world's chance comes too.
    pub seed: u64,
    /// Client hosts behind a router; one is joined to the server directly.
    pub clients: usize,
    /// IPv6 instead of IPv4.
    pub v6: bool,
    /// Bottleneck in bits per second.
    pub rate: u64,
    /// Its queue in packets.
    pub queue_packets: usize,
    /// ECN marks above this many bytes in it; 0 never.
    pub mark_bytes: u64,
    /// One-way delay.
    pub delay_ns: u64,
    /// MTU of the devices.
    pub mtu: u16,
    /// A smaller MTU in the middle; 0 for none.
    pub hop_mtu: u16,
    /// Devices take super-packets.
    pub gso: bool,
    /// Devices complete checksums.
    pub checksum_offload: bool,
    /// How super-packets cross.
    pub carry: Carry,
    /// Size of the devices' transmit queues in packets.
    pub nic_packets: usize,
    /// Random "not now" of the devices.
    pub not_now_ppm: u32,
    /// When the devices tell that packets have left.
    pub telling: Telling,
    /// Interrupt coalescing.
    pub rx_coalesce_ns: u64,
    /// Budget of a transmit call.
    pub budget: usize,
    /// Settings of the clients.
    pub client_sysctl: Vec<(&'static str, String)>,
    /// Settings of the server.
    pub server_sysctl: Vec<(&'static str, String)>,
    /// Queueing disciplines of the clients and of the server in the words of `tc`; empty for the default.
    pub qdiscs: [String; 2],
    /// SO_SNDBUF of the senders; 0 autotunes.
    pub sndbuf: u32,
    /// SO_RCVBUF of the receivers; 0 autotunes.
    pub rcvbuf: u32,
    /// Other socket options of clients and server, as bits that `build` reads; 0 for the defaults.
    pub options: [u32; 2],
    /// Faults towards the server and towards the clients.
    pub faults: [Faults; 2],
    /// When the faults stop.
    pub faults_end: Instant,
    /// Programs.
    pub apps: Vec<AppDraw>,
    /// Associations, and what they need.
    pub sctp: SctpDraw,
    /// What few programs and networks do.
    pub seldom: SeldomDraw,
    /// Something fails although nothing is wrong, to prove that failures are reported.
    pub canary: Canary,
}

pub(super) fn toss(rng: &mut Rng, percent: u64) -> bool {
    rng.below(100) < percent
}

pub(super) fn between(rng: &mut Rng, low: u64, high: u64) -> u64 {
    low + rng.below(high - low + 1)
}

/// Uniform in the exponent, so that small and large values are equally likely.
pub(super) fn log_between(rng: &mut Rng, low: u64, high: u64) -> u64 {
    let (mut lo, mut hi) = (low.max(1), low.max(1));
    let doublings = u64::from((high / lo).max(1).ilog2());
    let pick = rng.below(doublings + 1);
    for _ in 0..pick {
        lo *= 2;
    }
    hi = (lo * 2).min(high).max(hi);
    between(rng, lo.min(high), hi.max(lo.min(high)))
}

pub(super) fn pick<T: Clone>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize].clone()
}

impl Faults {
    pub(super) fn draw(rng: &mut Rng, carry: Carry) -> Self {
        let mut f = Self::default();
        if toss(rng, 45) {
            f.loss_ppm = log_between(rng, 100, 100_000) as u32;
        }
        if toss(rng, 20) {
            f.burst_ppm = (
                log_between(rng, 100, 10_000) as u32,
                between(rng, 50_000, 500_000) as u32,
                between(rng, 300_000, 1_000_000) as u32,
            );
        }
        if toss(rng, 15) {
            for _ in 0..between(rng, 1, 2) {
                let from = between(rng, 0, 10_000);
                f.blackouts_ms.push((from, from + log_between(rng, 20, 4_000)));
            }
        }
        if toss(rng, 25) {
            f.jitter_ns = log_between(rng, 1_000, 20_000_000);
        }
        if toss(rng, 25) {
            f.reorder = (log_between(rng, 500, 100_000) as u32, log_between(rng, 10_000, 30_000_000));
        }
        if toss(rng, 20) {
            f.duplicate_ppm = log_between(rng, 500, 100_000) as u32;
        }
        if carry == Carry::Segments && toss(rng, 30) {
            f.corrupt_ppm = log_between(rng, 100, 30_000) as u32;
        }
        f
    }
}

/// Most devices tell at once, the others late or of several packets together.
fn telling(rng: &mut Rng) -> Telling {
    let late_ns = if toss(rng, 30) { log_between(rng, 1_000, 5_000_000) } else { 0 };
    let batch = if toss(rng, 30) { log_between(rng, 2, 16) as usize } else { 0 };
    let batch_ns = if batch > 0 { log_between(rng, 1_000, 5_000_000) } else { 0 };
    Telling { late_ns, batch, batch_ns }
}

fn sysctls(rng: &mut Rng) -> Vec<(&'static str, String)> {
    let mut set: Vec<(&'static str, String)> = Vec::new();
    let choices: [(&'static str, u64, &[&str]); 17] = [
        ("tcp_sack", 20, &["0"]),
        ("tcp_dsack", 15, &["0"]),
        ("tcp_timestamps", 30, &["0", "2"]),
        ("tcp_window_scaling", 10, &["0"]),
        ("tcp_ecn", 40, &["1", "3", "3", "0"]),
        ("tcp_congestion_control", 40, &["reno", "bbr"]),
        ("hystart", 40, &["0", "2"]),
        ("tcp_recovery", 25, &["0", "3", "5", "7"]),
        ("tcp_early_retrans", 20, &["0"]),
        ("tcp_frto", 20, &["0"]),
        ("tcp_min_tso_segs", 20, &["1", "4", "16"]),
        ("tcp_tso_win_divisor", 20, &["0", "1", "8"]),
        ("tcp_notsent_lowat", 20, &["16384", "131072"]),
        ("tcp_limit_output_bytes", 20, &["8192", "131072"]),
        ("tcp_moderate_rcvbuf", 15, &["0"]),
        ("clock_resolution_ns", 15, &["1000000", "4000000"]),
        ("tcp_limit_output_all", 20, &["1"]),
    ];
    for (name, percent, values) in choices {
        if toss(rng, percent) {
            set.push((name, pick(rng, values).to_owned()));
        }
    }
    if toss(rng, 20) {
        set.push((
            "tcp_rmem",
            pick(rng, &["4096 4096 16384", "4096 16384 65536", "4096 131072 33554432"]).to_owned(),
        ));
    }
    if toss(rng, 20) {
        set.push((
            "tcp_wmem",
            pick(rng, &["4096 4096 8192", "4096 16384 65536", "4096 262144 33554432"]).to_owned(),
        ));
    }
    if toss(rng, 40) {
        set.push(("tcp_queue_aware", "1".to_owned()));
    }
    set
}

/// A discipline in front of a device whose bottleneck has `rate`. What it loses it loses for its limits: no chance that would
/// have to end with the faults.
fn qdisc(rng: &mut Rng, rate: u64) -> String {
    if !toss(rng, 40) {
        return String::new();
    }
    let limit = log_between(rng, 8, 10_000);
    match rng.below(9) {
        0 | 1 => format!("fq limit {limit}"),
        2 => format!("fq maxrate {} flow_limit {}", 2 * rate, log_between(rng, 8, 200)),
        3 => format!("fq_codel limit {limit} target {}", log_between(rng, 500, 50_000)),
        4 => format!("codel limit {limit} interval {} ecn", log_between(rng, 10_000, 200_000)),
        5 => format!("tbf rate {rate} burst {} limit {}", log_between(rng, 10_000, 100_000), limit * 1_500),
        6 => format!("netem delay {} {} limit 10000", rng.below(20_000) + 1, rng.below(5_000)),
        7 => format!("netem rate {rate} limit {limit}"),
        _ => pick(rng, &["pfifo_fast", "mq queues 4", "noqueue", "bfifo"]).to_owned(),
    }
}

impl AppDraw {
    fn draw(rng: &mut Rng, rate: u64, share: u64) -> Self {
        let start_ms = if toss(rng, 50) { 0 } else { rng.below(2_000) };
        match rng.below(10) {
            0..=5 => {
                // As much as the bottleneck carries in about eight seconds, and no more than some megabytes.
                let most = (rate / share).clamp(20_000, 24_000_000 / share);
                let bytes = if toss(rng, 50) { log_between(rng, 16, most) } else { between(rng, 16, most) };
                let write = log_between(rng, 1_000, 262_144).min(bytes.max(2_048)) as usize;
                Self::Bulk { bytes, write, owned: toss(rng, 40), reader: rng.below(4) as u8, start_ms }
            }
            6 | 7 => Self::Rr {
                rounds: log_between(rng, 1, 300) as u32,
                size: log_between(rng, 1, 40_000) as usize,
                think_ms: if toss(rng, 60) { 0 } else { log_between(rng, 1, 400) },
                start_ms,
            },
            8 => Self::Churn { rounds: log_between(rng, 2, 200) as u32, pause_ms: rng.below(100), start_ms },
            _ => Self::Udp {
                count: log_between(rng, 5, 100) as u32,
                size: log_between(rng, 8, 9_000) as usize,
                every_ms: log_between(rng, 1, 100),
                start_ms,
            },
        }
    }
}

impl WorldSpec {
    /// The options of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let root = Rng::new(seed);
        let (mut links, mut hosts, mut apps) = (root.fork("links"), root.fork("hosts"), root.fork("apps"));
        let rate = log_between(&mut links, 500_000, 2_000_000_000);
        let carry = if toss(&mut links, 55) { Carry::Segments } else { Carry::Whole };
        let mtu = pick(&mut links, &[1500, 1500, 1500, 9000, 1280, 2000]);
        let queue_packets = log_between(&mut links, 4, 1_000) as usize;
        let count = if toss(&mut apps, 50) { 1 } else { between(&mut apps, 2, 10) };
        let mut draw = Self {
            seed,
            clients: if toss(&mut hosts, 70) { 1 } else { between(&mut hosts, 2, 4) as usize },
            v6: toss(&mut hosts, 40),
            rate,
            queue_packets,
            mark_bytes: if toss(&mut links, 30) { log_between(&mut links, 3_000, 100_000) } else { 0 },
            delay_ns: log_between(&mut links, 10_000, 150_000_000),
            mtu,
            hop_mtu: if mtu > 1280 && toss(&mut links, 20) {
                pick(&mut links, &[1280, 1400, 1499])
            } else {
                0
            },
            gso: toss(&mut hosts, 60),
            checksum_offload: toss(&mut hosts, 70),
            carry,
            nic_packets: log_between(&mut links, 1, 1_000) as usize,
            not_now_ppm: if toss(&mut links, 25) {
                log_between(&mut links, 1_000, 500_000) as u32
            } else {
                0
            },
            telling: telling(&mut root.fork("telling")),
            rx_coalesce_ns: if toss(&mut hosts, 40) { log_between(&mut hosts, 1_000, 500_000) } else { 0 },
            budget: log_between(&mut hosts, 1, 256) as usize,
            client_sysctl: sysctls(&mut root.fork("client sysctls")),
            server_sysctl: sysctls(&mut root.fork("server sysctls")),
            qdiscs: [
                qdisc(&mut root.fork("client qdisc"), rate),
                qdisc(&mut root.fork("server qdisc"), rate),
            ],
            sndbuf: if toss(&mut hosts, 20) { log_between(&mut hosts, 4_608, 1_000_000) as u32 } else { 0 },
            rcvbuf: if toss(&mut hosts, 20) { log_between(&mut hosts, 2_304, 1_000_000) as u32 } else { 0 },
            options: ["client options", "server options"].map(|side| {
                let rng = &mut root.fork(side);
                if toss(rng, 60) { rng.next_u32() } else { 0 }
            }),
            faults: [
                Faults::draw(&mut root.fork("faults out"), carry),
                Faults::draw(&mut root.fork("faults back"), carry),
            ],
            faults_end: Instant::from_millis(between(&mut links, 1_000, 20_000)),
            apps: (0..count).map(|_| AppDraw::draw(&mut apps, rate, count)).collect(),
            sctp: SctpDraw::draw(&root, rate, carry),
            seldom: SeldomDraw::default(),
            canary: Canary::None,
        };
        // Half of the worlds with associations have nothing else.
        if !draw.sctp.talks.is_empty() && toss(&mut root.fork("sctp alone"), 50) {
            draw.apps.clear();
        }
        draw.seldom = SeldomDraw::draw(&root, draw.hop_mtu != 0, !draw.sctp.talks.is_empty());
        draw.bound_queue();
        draw.bound_bytes();
        draw
    }

    /// A chunk of SCTP keeps the length that it has got. Where the path turns out to be narrower it goes in fragments of IP, all at once, and a queue
    /// that is shorter never lets it pass.
    fn bound_queue(&mut self) {
        if self.hop_mtu != 0 && !self.sctp.talks.is_empty() {
            let fragments = usize::from(self.mtu).div_ceil(usize::from(self.hop_mtu) - IP_FRAGMENT_HEADERS);
            self.queue_packets = self.queue_packets.max(fragments + 1);
        }
    }

    /// Small buffers on long paths carry one window per round trip: as many bytes as that moves in a minute.
    fn bound_bytes(&mut self) {
        let largest = |set: &[(&'static str, String)], name: &str| {
            let value = set.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_str());
            value.and_then(|v| v.rsplit(' ').next()?.parse::<u64>().ok()).unwrap_or(u64::MAX)
        };
        let fixed = |bytes: u32| if bytes == 0 { u64::MAX } else { u64::from(bytes) };
        let window = [
            largest(&self.server_sysctl, "tcp_rmem").max(131_072 * u64::from(self.rcvbuf != 0)),
            largest(&self.client_sysctl, "tcp_wmem"),
            fixed(self.sndbuf),
            fixed(self.rcvbuf),
            fixed(if self.options.iter().any(|bits| bits & CLAMPED == CLAMPED) { 2 * CLAMP } else { 0 }),
            // A short queue in front of a long line loses every larger burst.
            self.queue_packets as u64 * 1_500,
        ];
        let window = window.into_iter().min().unwrap_or(u64::MAX) / 2;
        let round_ms = 300 + 2 * self.delay_ns / 1_000_000;
        let most = window.saturating_mul(60_000 / round_ms).max(20_000);
        for app in &mut self.apps {
            match app {
                AppDraw::Bulk { bytes, .. } => *bytes = (*bytes).min(most),
                AppDraw::Rr { rounds, size, .. } => {
                    *rounds = (*rounds).min((most / *size as u64).max(1) as u32);
                }
                AppDraw::Churn { .. } | AppDraw::Udp { .. } => {}
            }
        }
    }
}
