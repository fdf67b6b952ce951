//! pacing (E4): figures of Linux 6.1 and of the commit.
use super::{Bound, Column, Experiment, GOODPUT, Measured, Pair, SEGS_PER_PACKET, Settings, Shown, Variant};
use crate::lab::picture::{Of, Picture};
use lowwater_sim::scenario::Pacing;

/// 800 flows of 48 Mbit/s. 1.6 million segments fit into half a second.
const SEED: Settings =
    &[("flows", "800"), ("pacing_mbps", "48"), ("owned", "1"), ("warmup_s", "0.6"), ("measure_s", "0.5")];
const SEED_FQ: Settings = &[
    ("flows", "800"),
    ("pacing_mbps", "48"),
    ("owned", "1"),
    ("warmup_s", "0.6"),
    ("measure_s", "0.5"),
    ("qdisc", "fq"),
];

const LINUX_INTERNAL: Measured = &[
    ("goodput_mbps", 191.5),
    ("packets_per_s", 8_300.0),
    ("segs_per_packet", 1.98),
    ("gap_us_p5", 6_007.0),
    ("gap_us_p50", 9_652.0),
    ("gap_us_p95", 11_067.0),
    ("gap_us_width", 5_060.0),
    ("burst_bytes_max", 2_896.0),
];
const LINUX_FQ: Measured = &[
    ("goodput_mbps", 191.5),
    ("packets_per_s", 8_400.0),
    ("segs_per_packet", 1.96),
    ("gap_us_p5", 6_266.0),
    ("gap_us_p50", 9_652.0),
    ("gap_us_p95", 9_738.0),
    ("gap_us_width", 3_472.0),
    ("burst_bytes_max", 2_896.0),
];
const LINUX_BBR: Measured = &[
    ("goodput_mbps", 89.4),
    ("packets_per_s", 1_043.0),
    ("segs_per_packet", 7.4),
    ("gap_us_p5", 486.0),
    ("gap_us_p50", 921.0),
    ("gap_us_p95", 981.0),
    ("gap_us_width", 495.0),
    ("burst_bytes_max", 15_900.0),
];
const LINUX_BBR_FQ: Measured = &[
    ("goodput_mbps", 91.9),
    ("packets_per_s", 1_114.0),
    ("segs_per_packet", 7.2),
    ("gap_us_p5", 363.0),
    ("gap_us_p50", 935.0),
    ("gap_us_p95", 977.0),
    ("gap_us_width", 614.0),
    ("burst_bytes_max", 43_000.0),
];
/// By a still clock (`--uml`), the mean of two runs.
const STILL_BBR_PLAIN: Measured = &[
    ("goodput_mbps", 96.5),
    ("packets_per_s", 1_113.0),
    ("segs_per_packet", 7.45),
    ("gap_us_p5", 599.0),
    ("gap_us_p50", 969.2),
    ("gap_us_p95", 970.2),
    ("gap_us_width", 372.0),
    ("burst_bytes_max", 16_652.0),
];
const STILL_BBR_PLAIN_FQ: Measured = &[
    ("goodput_mbps", 96.5),
    ("packets_per_s", 1_117.0),
    ("segs_per_packet", 7.44),
    ("gap_us_p5", 525.0),
    ("gap_us_p50", 969.5),
    ("gap_us_p95", 970.0),
    ("gap_us_width", 445.0),
    ("burst_bytes_max", 15_928.0),
];
/// Behind Linux's own line, by a still clock. That of the host gave packets of seven segments and, where noise raised the rate by two thousandths, of eight.
const STILL_BBR: Measured = &[
    ("goodput_mbps", 95.6),
    ("packets_per_s", 1_209.0),
    ("segs_per_packet", 6.79),
    ("gap_us_p5", 367.1),
    ("gap_us_p50", 856.3),
    ("gap_us_p95", 971.5),
    ("gap_us_width", 604.4),
    ("burst_bytes_max", 15_928.0),
];
const STILL_BBR_FQ: Measured = &[
    ("goodput_mbps", 95.6),
    ("packets_per_s", 1_212.0),
    ("segs_per_packet", 6.82),
    ("gap_us_p5", 367.1),
    ("gap_us_p50", 856.6),
    ("gap_us_p95", 974.1),
    ("gap_us_width", 607.0),
    ("burst_bytes_max", 17_376.0),
];
/// The bottleneck as Linux had it: 100 Mbit/s of Ethernet's frames are 99.075 of IP's, the bucket and the queue are as many packets, and what
/// ends with its element is a packet.
const LINE: [(&str, &str); 2] =
    [("router", "tbf rate 99075kbit burst 67371 limit 495376"), ("tcp_grow_packet", "0")];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "pacing",
    about: "gaps and bursts of flows held to a rate by SO_MAX_PACING_RATE or BBR, by the transport's timers and by fq",
    make: || Box::new(Pacing::default()),
    variants: &[
        Variant {
            name: "80-internal",
            about: "{flows} flows of {pacing_mbps} Mbit/s by {tcp_congestion_control} above pfifo_fast: the transport paces",
            linux: LINUX_INTERNAL,
            ..Variant::PLAIN
        },
        Variant {
            name: "80-fq",
            about: "the same above fq, which paces",
            sets: &[("qdisc", "fq")],
            linux: LINUX_FQ,
            ..Variant::PLAIN
        },
        Variant {
            name: "80-unpaced",
            about: "the same without a rate, through a line of {line} instead",
            sets: &[("pacing_mbps", "0"), ("rate_mbps", "200")],
            linux: &[("gaps_under_100us_percent", 41.0), ("burst_bytes_max", 485_000.0)],
            ..Variant::PLAIN
        },
        Variant {
            name: "20-switched",
            about: "{flows} flows of {pacing_mbps} Mbit/s above pfifo_fast, then fq, then pfifo_fast again",
            sets: &[("flows", "20"), ("pacing_mbps", "24"), ("switch", "fq;pfifo_fast")],
            ..Variant::PLAIN
        },
        Variant {
            name: "bbr-internal",
            about: "flows by {tcp_congestion_control} ({flows}) through {line} with a queue of {queue_bytes} bytes, above pfifo_fast",
            sets: &[
                ("flows", "1"),
                ("pacing_mbps", "0"),
                ("tcp_congestion_control", "bbr"),
                ("rate_mbps", "100"),
            ],
            linux: LINUX_BBR,
            still: STILL_BBR_PLAIN,
            ..Variant::PLAIN
        },
        Variant {
            name: "bbr-fq",
            about: "the same above fq",
            sets: &[
                ("flows", "1"),
                ("pacing_mbps", "0"),
                ("tcp_congestion_control", "bbr"),
                ("rate_mbps", "100"),
                ("qdisc", "fq"),
            ],
            linux: LINUX_BBR_FQ,
            still: STILL_BBR_PLAIN_FQ,
            ..Variant::PLAIN
        },
        Variant {
            name: "bbr-tbf-internal",
            about: "the same through a token bucket that counts as Linux's does, above pfifo_fast",
            sets: &[
                ("flows", "1"),
                ("pacing_mbps", "0"),
                ("tcp_congestion_control", "bbr"),
                LINE[0],
                LINE[1],
            ],
            still: STILL_BBR,
            ..Variant::PLAIN
        },
        Variant {
            name: "bbr-tbf-fq",
            about: "the same above fq",
            sets: &[
                ("flows", "1"),
                ("pacing_mbps", "0"),
                ("tcp_congestion_control", "bbr"),
                ("qdisc", "fq"),
                LINE[0],
                LINE[1],
            ],
            still: STILL_BBR_FQ,
            ..Variant::PLAIN
        },
        Variant {
            name: "seed-800-internal",
            about: "the commit's size: {flows} flows of {pacing_mbps} Mbit/s through a device of 40 Gbit/s, above pfifo_fast",
            sets: SEED,
            seed: &[("goodput_mbps", 34_700.0)],
            quick: false,
            ..Variant::PLAIN
        },
        Variant {
            name: "seed-800-fq",
            about: "the same above fq",
            sets: SEED_FQ,
            seed: &[("goodput_mbps", 32_200.0)],
            quick: false,
            ..Variant::PLAIN
        },
    ],
    grid: None,
    columns: &[
        GOODPUT,
        Column {
            figure: "packets_per_s",
            head: "packets/s",
            unit: 1.0,
            means: "packets/s: packets of data that the device took per second",
        },
        SEGS_PER_PACKET,
        Column {
            figure: "gap_us_p5",
            head: "gap us\np5",
            unit: 1.0,
            means: "gap: time between two packets of a flow; p5: 5 of 100 gaps are so long or shorter",
        },
        Column { figure: "gap_us_p50", head: "gap us\np50", unit: 1.0, means: "" },
        Column { figure: "gap_us_p95", head: "gap us\np95", unit: 1.0, means: "" },
        Column { figure: "gap_us_p99", head: "gap us\np99", unit: 1.0, means: "" },
        Column { figure: "gap_us_max", head: "gap us\nmax", unit: 1.0, means: "" },
        Column {
            figure: "gaps_under_100us_percent",
            head: "gaps under\n100 us %",
            unit: 1.0,
            means: "gaps under 100 us: of packets that left back to back",
        },
        Column {
            figure: "burst_bytes_max",
            head: "largest\nburst B",
            unit: 1.0,
            means: "largest burst: bytes of a flow's packets that are less than 100 us apart",
        },
    ],
    shows: &[
        Shown { figure: "goodput_mbps", bound: Bound::AtLeast(0.98) },
        Shown { figure: "packets_per_s", bound: Bound::Near(0.1) },
        Shown { figure: "gap_us_p50", bound: Bound::Near(0.03) },
        Shown { figure: "gap_us_width", bound: Bound::AtMost(1.0) },
        Shown { figure: "burst_bytes_max", bound: Bound::AtMost(1.0) },
    ],
    pairs: &[
        Pair {
            what: "pacing: largest burst in bytes",
            figure: ("burst_bytes_max", 1.0),
            before: "80-unpaced",
            after: "80-internal",
        },
        Pair {
            what: "fq against the transport's timers, the commit's size: Mbit/s",
            figure: ("goodput_mbps", 1.0),
            before: "seed-800-fq",
            after: "seed-800-internal",
        },
    ],
    pictures: &[
        Picture {
            title: "Flows held to a rate: payload that leaves in each millisecond",
            of: Of::Leaving,
            unit: "bytes",
            variants: &["80-internal", "80-fq", "80-unpaced"],
            ..Picture::PLAIN
        },
        Picture {
            title: "One flow of BBR: payload that leaves in each millisecond",
            of: Of::Leaving,
            unit: "bytes",
            variants: &["bbr-internal", "bbr-fq", "bbr-tbf-internal"],
            ..Picture::PLAIN
        },
        Picture {
            title: "Gaps between packets of a flow: how many are at most so long",
            of: Of::Gaps,
            unit: "%",
            ..Picture::PLAIN
        },
        Picture {
            title: "The largest burst",
            of: Of::Bars { figure: "burst_bytes_max", beside: None },
            unit: "bytes",
            log: true,
            ..Picture::PLAIN
        },
    ],
    short: &[("measure_s", "2")],
};
