//! small-queues (E2): figures of Linux 6.1 and of the commit. The commit's are bounds: "below 1 ms" stands as 1.
use super::{Bound, Column, Experiment, GOODPUT, Grid, Pair, Shown, Variant};
use crate::lab::picture::{Of, Picture};
use lowwater_sim::scenario::SmallQueues;

/// Queues are counted in units of 1024 bytes.
const KIB: f64 = 1_024.0;
/// A queue with a delay, however short, takes packets from their owners on entry.
const ORPHANED: (&str, &str) = ("qdisc", "netem delay 1us limit 1000");
const SLOW: (&str, &str) = ("rate_mbps", "100");
/// The scenario's own, which names say.
const FAST: (&str, &str) = ("rate_mbps", "1000");
const SEED_CAP: (&str, &str) = ("tcp_limit_output_bytes", "131072");
const SEGMENTS: (&str, &str) = ("gso_max_segs", "1");
/// The bottleneck as Linux had it: a bucket that lets 46 segments pass at once, and cuts what is larger. 1 Gbit/s of Ethernet's frames are
/// 990.753 Mbit/s of IP's.
const BUCKET: [(&str, &str); 2] =
    [("rate_mbps", "40000"), ("qdisc", "tbf rate 990753kbit burst 67371 limit 100mb child pfifo limit 1000")];
const SLOW_BUCKET: (&str, &str) =
    ("qdisc", "tbf rate 99075kbit burst 67371 limit 100mb child pfifo limit 1000");

/// Both generations of the cap, 1 MiB for flows that are not paced (6.1) and 4 MiB for all (6.16), each part by itself; CUBIC is paced above
/// `fq` alone, BBR above either.
const CAPS: &[Grid] = &[
    Grid { key: "qdisc", values: &["pfifo_fast", "fq"], unit: "" },
    Grid { key: "tcp_congestion_control", values: &["cubic", "bbr"], unit: "" },
    Grid { key: "tcp_limit_output_bytes", values: &["1048576", "4194304"], unit: "b" },
    Grid { key: "tcp_limit_output_all", values: &["0", "1"], unit: "all" },
];

/// Mean backlog and mean time of a probe.
macro_rules! measured {
    ($kb:literal, $ms:literal) => {
        &[("backlog_bytes_mean", $kb * KIB), ("probe_rtt_ms_mean", $ms)]
    };
}

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "small-queues",
    about: "what a bulk flow leaves standing before its own host's line, and what a datagram waits behind it",
    make: || Box::new(SmallQueues::default()),
    variants: &[
        Variant {
            name: "tsq-1gbit",
            about: "{line}, Linux's defaults",
            sets: &[FAST],
            linux: measured!(347.0, 3.9),
            ..Variant::PLAIN
        },
        Variant {
            name: "tsq-131072-1gbit",
            about: "the same, tcp_limit_output_bytes {tcp_limit_output_bytes} as in the commit",
            sets: &[FAST, SEED_CAP],
            linux: measured!(119.0, 0.8),
            seed: &[("probe_rtt_ms_mean", 1.0)],
            ..Variant::PLAIN
        },
        Variant {
            name: "tsq-tbf-1gbit",
            about: "1 Gbit/s, Linux's defaults, behind the token bucket that Linux had",
            sets: &BUCKET,
            still: measured!(158.0, 1.3),
            quick: false,
            ..Variant::PLAIN
        },
        Variant {
            name: "off-1gbit",
            about: "{line} without small queues: packets lose their owner on entry",
            sets: &[FAST, ORPHANED],
            linux: measured!(3_558.0, 30.0),
            seed: &[("probe_rtt_ms_mean", 50.0)],
            ..Variant::PLAIN
        },
        Variant {
            name: "off-segments-1gbit",
            about: "the same with packets of one segment",
            sets: &[FAST, ORPHANED, SEGMENTS],
            linux: measured!(617.0, 7.0),
            ..Variant::PLAIN
        },
        Variant {
            name: "tsq-100mbit",
            about: "{line}, Linux's defaults",
            sets: &[SLOW],
            linux: measured!(134.0, 8.2),
            ..Variant::PLAIN
        },
        Variant {
            name: "tsq-131072-100mbit",
            about: "the same, tcp_limit_output_bytes {tcp_limit_output_bytes}",
            sets: &[SLOW, SEED_CAP],
            linux: measured!(134.0, 8.2),
            seed: &[("probe_rtt_ms_mean", 8.0)],
            ..Variant::PLAIN
        },
        Variant {
            name: "tsq-tbf-100mbit",
            about: "100 Mbit/s, Linux's defaults, behind the token bucket that Linux had",
            sets: &[BUCKET[0], SLOW_BUCKET],
            still: measured!(110.0, 7.2),
            ..Variant::PLAIN
        },
        Variant {
            name: "off-100mbit",
            about: "{line} without small queues",
            sets: &[SLOW, ORPHANED],
            linux: measured!(3_258.0, 259.0),
            seed: &[("probe_rtt_ms_mean", 132.0)],
            full: true,
            ..Variant::PLAIN
        },
        Variant {
            name: "off-segments-100mbit",
            about: "the same with packets of one segment",
            sets: &[SLOW, ORPHANED, SEGMENTS],
            linux: measured!(1_270.0, 110.0),
            full: true,
            ..Variant::PLAIN
        },
        Variant {
            name: "caps",
            about: "{line} above pfifo_fast and fq: the cap of small queues by its size, and for which flows it is",
            sets: &[("rate_mbps", "40000"), ("hystart", "0"), ("warmup_s", "0.5"), ("measure_s", "0.5")],
            grid: CAPS,
            asked: true,
            ..Variant::PLAIN
        },
    ],
    grid: None,
    columns: &[
        Column {
            figure: "backlog_bytes_mean",
            head: "queue\nKiB mean",
            unit: KIB,
            means: "queue: IP bytes before the line and on it, seen every 1.037 ms; p95: in 95 of 100 looks so much or less",
        },
        Column { figure: "backlog_bytes_p95", head: "queue\nKiB p95", unit: KIB, means: "" },
        Column { figure: "backlog_bytes_max", head: "queue\nKiB max", unit: KIB, means: "" },
        Column {
            figure: "probe_rtt_ms_min",
            head: "probe\nms min",
            unit: 1.0,
            means: "probe: a datagram of 8 bytes through the same queue and back, every 50 ms",
        },
        Column { figure: "probe_rtt_ms_mean", head: "probe\nms mean", unit: 1.0, means: "" },
        Column { figure: "probe_rtt_ms_max", head: "probe\nms max", unit: 1.0, means: "" },
        Column {
            figure: "srtt_ms",
            head: "srtt ms\nmean",
            unit: 1.0,
            means: "srtt: the sender's smoothed round trip, mean",
        },
        Column {
            figure: "capped_per_s",
            head: "capped\nper s",
            unit: 1.0,
            means: "capped: how often a second the flow waited because of small queues (tcp_limit_output_bytes)",
        },
        GOODPUT,
    ],
    shows: &[
        Shown { figure: "backlog_bytes_mean", bound: Bound::AtMost(1.1) },
        Shown { figure: "probe_rtt_ms_mean", bound: Bound::AtMost(1.1) },
    ],
    pairs: &[
        Pair {
            what: "small queues, {line}: ms of a probe",
            figure: ("probe_rtt_ms_mean", 1.0),
            before: "off-1gbit",
            after: "tsq-1gbit",
        },
        Pair {
            what: "small queues, {line}: ms of a probe",
            figure: ("probe_rtt_ms_mean", 1.0),
            before: "off-100mbit",
            after: "tsq-100mbit",
        },
        Pair {
            what: "small queues, {line}: Mbit/s",
            figure: ("goodput_mbps", 1.0),
            before: "off-1gbit",
            after: "tsq-1gbit",
        },
    ],
    pictures: &[
        Picture {
            title: "The queue before a line of {line}",
            of: Of::OverTime(|p| p.backlog_bytes as f64),
            unit: "KiB",
            per: KIB,
            log: true,
            variants: &["tsq-1gbit", "tsq-131072-1gbit", "tsq-tbf-1gbit", "off-1gbit", "off-segments-1gbit"],
        },
        Picture {
            title: "The queue before a line of {line}",
            of: Of::OverTime(|p| p.backlog_bytes as f64),
            unit: "KiB",
            per: KIB,
            log: true,
            variants: &[
                "tsq-100mbit",
                "tsq-131072-100mbit",
                "tsq-tbf-100mbit",
                "off-100mbit",
                "off-segments-100mbit",
            ],
        },
        Picture {
            title: "What a small datagram waits",
            of: Of::Bars { figure: "probe_rtt_ms_mean", beside: None },
            unit: "ms",
            log: true,
            ..Picture::PLAIN
        },
    ],
    short: &[("warmup_s", "1"), ("measure_s", "2")],
};
