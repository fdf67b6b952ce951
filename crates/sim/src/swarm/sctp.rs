//! The associations of a swarm world: how they are drawn, the second network that they may have, and how both become a world.
use super::draw::{Faults, between, log_between, pick, toss};
use crate::app::messages::{End, Hear, Reads, Talk, TalkSpec, Writes};
use crate::check::chunks::Habits;
use crate::link::spec::Carry;
use crate::world::World;
use lowwater_core::base::{Instant, Rng, Sysctl};
use lowwater_core::sctp::{Reconfigurable, SctpOptions, Subscriptions};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Port of the server.
const PORT: u16 = 5_100;
/// Associations of a world.
const TALKS_MAX: u64 = 6;
/// Where packets of SCTP over UDP go, in worlds that have them.
const UDP_PORT: &str = "9899";

/// One association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TalkDraw {
    /// When the client opens it, in milliseconds.
    pub start_ms: u64,
    /// The client knows both addresses of the server from the beginning.
    pub knows_both: bool,
    /// The client tells all of its addresses, whatever their family; else those of the family that it sends from.
    pub tells_both: bool,
    /// What client and server write.
    pub writes: [Writes; 2],
    /// How they read.
    pub reads: [Reads; 2],
    /// How it ends.
    pub end: End,
    /// SO_SNDBUF and SO_RCVBUF of client and server; 0 for the default.
    pub buffers: [(u32, u32); 2],
    /// Other options of client and server, as bits that `options` reads.
    pub options: [u32; 2],
}

/// A network beside the first one: each host has an address there too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondDraw {
    /// Its addresses are of IPv6.
    pub v6: bool,
    /// Bottleneck in bits per second.
    pub rate: u64,
    /// One-way delay.
    pub delay_ns: u64,
    /// Faults towards the server and towards the clients.
    pub faults: [Faults; 2],
    /// When each of the two networks is dark in both directions, from and to, in milliseconds.
    pub dark_ms: [(u64, u64); 2],
}

/// All of SCTP in a world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SctpDraw {
    /// Associations, one for each client in turn.
    pub talks: Vec<TalkDraw>,
    /// A second network.
    pub second: Option<SecondDraw>,
    /// The server listens at its addresses, whatever their family; else at any.
    pub bound: bool,
    /// Devices take packets of SCTP that go the same way as one.
    pub trains: bool,
    /// Settings of clients and server beside the others.
    pub sysctl: [Vec<(&'static str, String)>; 2],
    /// Associations are given up after some timeouts, as by default; else after very many.
    pub may_fail: bool,
}

impl SctpDraw {
    /// The options of a world whose first network has this rate; most worlds have no associations.
    pub(super) fn draw(root: &Rng, rate: u64, carry: Carry) -> Self {
        let rng = &mut root.fork("sctp");
        if !toss(rng, 30) {
            return Self::default();
        }
        let count = if toss(rng, 60) { 1 } else { between(rng, 2, TALKS_MAX) };
        let may_fail = toss(rng, 30);
        let both = both_sides(rng, may_fail);
        let side = |name| {
            let mut set = both.clone();
            set.extend(one_side(&mut root.fork(name)));
            set
        };
        let sysctl = [side("sctp client"), side("sctp server")];
        let window = 60_000 * (rate / 8_000).max(50) / 10;
        let talks = (0..count).map(|_| TalkDraw::draw(rng, (window / count).min(2_000_000))).collect();
        let second = toss(rng, 45).then(|| SecondDraw::draw(&mut root.fork("sctp second"), rate, carry));
        Self { talks, second, bound: toss(rng, 60), trains: toss(rng, 60), sysctl, may_fail }
    }

    pub(super) fn settings(&self, server: bool) -> &[(&'static str, String)] {
        &self.sysctl[usize::from(server)]
    }

    /// What the programs of a side do. A whim may take any controller.
    pub(super) fn habits(&self, server: bool) -> Habits {
        let writes = || self.talks.iter().map(|talk| talk.writes[usize::from(server)]);
        let drawn = ("sctp.congestion_control", "bbr");
        let bbr = self.settings(server).iter().any(|(name, value)| (*name, &value[..]) == drawn);
        Habits { limited: writes().any(|w| w.limited > 0), bbr: bbr || writes().any(|w| w.whims > 0) }
    }
}

/// What only works where both sides have it, and how long they try.
fn both_sides(rng: &mut Rng, may_fail: bool) -> Vec<(&'static str, String)> {
    let mut set = Vec::new();
    if !may_fail {
        set.push(("sctp.association_max_retrans", "1000".to_owned()));
        set.push(("sctp.max_init_retransmits", "1000".to_owned()));
    } else if toss(rng, 50) {
        set.push(("sctp.association_max_retrans", between(rng, 2, 12).to_string()));
    }
    // A shutdown has five times this (T5).
    if may_fail && toss(rng, 40) {
        set.push(("sctp.rto_max", pick(rng, &["2000", "10000"]).to_owned()));
    }
    if toss(rng, 70) {
        set.push(("sctp.reconf_enable", "1".to_owned()));
    }
    if toss(rng, 15) {
        set.push(("sctp.udp_port", UDP_PORT.to_owned()));
        set.push(("sctp.encap_port", UDP_PORT.to_owned()));
    }
    set
}

fn one_side(rng: &mut Rng) -> Vec<(&'static str, String)> {
    let choices: [(&'static str, u64, &[&str]); 15] = [
        ("sctp.rto_initial", 40, &["100", "500", "1000"]),
        ("sctp.rto_min", 50, &["10", "50", "200"]),
        ("sctp.hb_interval", 60, &["50", "500", "5000"]),
        ("sctp.path_max_retrans", 40, &["1", "2", "10"]),
        ("sctp.pf_retrans", 30, &["1", "3"]),
        ("sctp.pf_enable", 10, &["0"]),
        ("sctp.sack_timeout", 30, &["1", "50", "500"]),
        ("sctp.max_burst", 20, &["0", "1", "16"]),
        ("sctp.pacing", 25, &["0"]),
        ("sctp.congestion_control", 50, &["cubic", "bbr"]),
        ("sctp.ecn_enable", 20, &["0"]),
        ("sctp.prsctp_enable", 20, &["0"]),
        ("sctp.plpmtud_probe_interval", 30, &["5000", "30000"]),
        ("sctp.hb_eager", 10, &["1"]),
        ("sctp.rwnd_update_shift", 15, &["1", "10"]),
    ];
    let mut set = Vec::new();
    for (name, percent, values) in choices {
        if toss(rng, percent) {
            set.push((name, pick(rng, values).to_owned()));
        }
    }
    // Only where nothing else has drawn it: the last one counts.
    if toss(rng, 5) {
        set.push(("tcp_mem", pick(rng, &["8 12 16", "32 48 64"]).to_owned()));
    }
    set
}

impl Writes {
    /// Messages of about `bytes` in all.
    fn draw(rng: &mut Rng, bytes: u64, longest: u64) -> Self {
        let longest = log_between(rng, 1, longest.max(1)) as usize;
        // The sizes are uniform in the exponent: the mean is about a fifth of the longest.
        let most = (bytes / (longest as u64 / 5).max(1)).clamp(1, 4_000);
        Self {
            count: log_between(rng, 1, most) as u32,
            longest,
            streams: if toss(rng, 30) { 1 } else { log_between(rng, 1, 10) as u16 },
            unordered: pick(rng, &[0, 0, 10, 50, 100]),
            limited: pick(rng, &[0, 0, 0, 20, 100]),
            addressed: pick(rng, &[0, 0, 0, 10, 50]),
            burst: if toss(rng, 50) { 0 } else { log_between(rng, 1, 100) as u32 },
            pause_ns: log_between(rng, 10_000, 300_000_000),
            whims: pick(rng, &[0, 0, 5, 20, 100]),
        }
    }
}

fn reads(rng: &mut Rng) -> Reads {
    match rng.below(8) {
        0..3 => Reads::Messages,
        3 | 4 => Reads::Pieces,
        5 => Reads::InPlace,
        _ => Reads::Slowly(log_between(rng, 1_000, 65_536) as usize, log_between(rng, 100_000, 20_000_000)),
    }
}

impl TalkDraw {
    fn draw(rng: &mut Rng, bytes: u64) -> Self {
        let mut buffer = |least| if toss(rng, 40) { log_between(rng, least, 1_000_000) as u32 } else { 0 };
        let buffers = [(buffer(2_304), buffer(2_304)), (buffer(2_304), buffer(2_304))];
        let longest = |rng: &mut Rng| pick(rng, &[100, 1_400, 10_000, 100_000]);
        let mut writes = [0; 2].map(|_| {
            let longest = longest(rng);
            Writes::draw(rng, bytes, longest)
        });
        let after = rng.below(u64::from(writes[0].count.max(writes[1].count)) + 1) as u32;
        let end = match rng.below(16) {
            0..5 => End::Client,
            5..8 => End::Server,
            8..10 => End::Both,
            10 | 11 => End::Release,
            12 => End::ClientAborts(after),
            13 => End::ServerAborts(after),
            _ => End::Idle,
        };
        if end == End::Release || toss(rng, 35) {
            writes[1].count = 0;
        }
        let mut talk = Self {
            start_ms: if toss(rng, 60) { 0 } else { rng.below(2_000) },
            knows_both: toss(rng, 50),
            tells_both: toss(rng, 60),
            writes,
            reads: [reads(rng), reads(rng)],
            end,
            buffers,
            options: [rng.next_u32(), rng.next_u32()],
        };
        talk.bound();
        talk
    }

    /// A slow reader, and a small buffer on a long path, read and carry what they can in half a minute.
    fn bound(&mut self) {
        for n in [0, 1] {
            let (writes, reads) = (&mut self.writes[n], &mut self.reads[1 - n]);
            let mean = (writes.longest as u64 / 5).max(1);
            let window = match (self.buffers[n].0, self.buffers[1 - n].1) {
                (0, 0) => u64::MAX,
                (0, r) => u64::from(r) / 2,
                (s, 0) => u64::from(s),
                (s, r) => u64::from(s.min(r / 2)),
            };
            let mut most = window.saturating_mul(60);
            if let Reads::Slowly(bytes, every) = reads {
                most = most.min(*bytes as u64 * 30_000_000_000 / *every);
                // Each read gives one message at the most.
                writes.count = writes.count.min((30_000_000_000 / *every) as u32);
            }
            writes.count = writes.count.min((most / mean).max(1) as u32);
            // Each chunk costs a small buffer more than its bytes, which its window does not say: what goes beyond it waits for timers.
            if self.buffers[1 - n].1 != 0 {
                writes.count =
                    writes.count.min((4 * u64::from(self.buffers[1 - n].1) / (mean + 128)).max(1) as u32);
            }
            let bursts = u64::from(writes.count.checked_div(writes.burst).unwrap_or(0)).max(1);
            writes.pause_ns = writes.pause_ns.min(20_000_000_000 / bursts);
        }
    }
}

impl SecondDraw {
    fn draw(rng: &mut Rng, rate: u64, carry: Carry) -> Self {
        let mut dark = || {
            if !toss(rng, 60) {
                return (0, 0);
            }
            let from = between(rng, 0, 5_000);
            (from, from + log_between(rng, 100, 15_000))
        };
        let dark_ms = [dark(), dark()];
        Self {
            v6: toss(rng, 50),
            rate: if toss(rng, 50) { rate } else { log_between(rng, 500_000, 2_000_000_000) },
            delay_ns: log_between(rng, 10_000, 150_000_000),
            faults: [Faults::draw(rng, carry), Faults::draw(rng, carry)],
            dark_ms,
        }
    }
}

/// The options of one side: the sysctls, and what the bits say.
fn options(sysctl: &Sysctl, talk: &TalkDraw, side: usize) -> SctpOptions {
    let mut o = SctpOptions::new(sysctl);
    let (sndbuf, rcvbuf) = talk.buffers[side];
    if sndbuf != 0 {
        o.sndbuf = sndbuf;
    }
    if rcvbuf != 0 {
        o.rcvbuf = rcvbuf;
    }
    let bits = talk.options[side];
    let one_in = |shift: u32, n: u32| (bits >> shift & 31).is_multiple_of(n);
    o.nodelay = one_in(0, 2);
    o.counts = one_in(1, 4);
    o.arrivals = one_in(2, 4);
    o.reconfigurable = Reconfigurable::ALL;
    if one_in(3, 3) {
        o.events = Subscriptions::ALL;
    } else if talk.writes.iter().any(|writes| writes.whims > 0) {
        // What a request of either side costs a writer is to hear.
        let requests = Subscriptions::STREAM_RESET.with(Subscriptions::ASSOC_RESET);
        o.events = requests.with(Subscriptions::STREAM_CHANGE).with(Subscriptions::SEND_FAILED);
    }
    if one_in(5, 6) {
        o.pd_point = 1_000;
    }
    if one_in(7, 6) {
        o.notsent_lowat = 16_384;
    }
    if one_in(9, 6) {
        o.stream_lowat = 4_096;
    }
    if one_in(11, 6) {
        o.maxseg = 500;
    }
    if one_in(13, 8) {
        o.sack_freq = 1 + (bits >> 18 & 3);
    }
    if one_in(15, 8) {
        o.max_instreams = 3;
    }
    if talk.end == End::Idle && side == 0 {
        o.autoclose_secs = 2;
    }
    o
}

/// Adds the programs; `addresses` are those of a host, the first network's first.
pub(super) fn add_programs(
    world: &mut World,
    draw: &SctpDraw,
    clients: &[usize],
    sysctl: [&Sysctl; 2],
    addresses: impl Fn(usize) -> Vec<IpAddr>,
) {
    let server = addresses(0);
    let specs = draw.talks.iter().zip(0..).map(|(talk, number)| {
        let client = clients[usize::from(number) % clients.len()];
        let (port, mine) = (TalkSpec::port(number), addresses(client));
        let any: IpAddr =
            if mine[0].is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let known = if talk.knows_both { server.len() } else { 1 };
        let told = if talk.tells_both { mine } else { vec![any] };
        TalkSpec {
            number,
            start: Instant::from_millis(talk.start_ms),
            remotes: server[..known].iter().map(|ip| SocketAddr::new(*ip, PORT)).collect(),
            locals: told.into_iter().map(|ip| SocketAddr::new(ip, port)).collect(),
            options: [options(sysctl[0], talk, 0), options(sysctl[1], talk, 1)],
            writes: talk.writes,
            reads: talk.reads,
            end: talk.end,
            may_fail: draw.may_fail,
        }
    });
    let specs: Vec<TalkSpec> = specs.collect();
    let Some(first) = specs.first() else { return };
    let at = if draw.bound { server.clone() } else { Vec::new() };
    let at = at.into_iter().map(|ip| SocketAddr::new(ip, PORT)).collect();
    // What an association inherits before it is accepted; the rest it is told then.
    let inherited = first.options[1].clone();
    world.add_app(0, Box::new(Hear::new(at, PORT, inherited, specs.clone())));
    for (n, spec) in specs.into_iter().enumerate() {
        world.add_app(clients[n % clients.len()], Box::new(Talk::new(spec)));
    }
}
