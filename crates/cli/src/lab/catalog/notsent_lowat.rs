//! notsent-lowat (E1): figures of Linux 6.1 and of the commit. By a still clock: the mean of two runs (`--uml`).
use super::{Assigned, Bound, CUBIC, Column, Experiment, GOODPUT, Pair, Shown, Variant};
use crate::lab::picture::{Of, Picture};
use lowwater_sim::scenario::NotsentLowat;

/// Charged memory is counted in units of 1024 bytes.
const KIB: f64 = 1_024.0;

/// No limit: Linux's default, which the names say.
const UNSET: [Assigned; 2] = [("lowat", "0"), ("tcp_notsent_lowat", "4294967295")];

/// A point of the curve over the limit, by CUBIC.
macro_rules! curve {
    ($name:literal, $lowat:literal) => {
        Variant {
            name: $name,
            about: "a point of the curve over the limit: {lowat}",
            sets: &[CUBIC, ("lowat", $lowat)],
            quick: false,
            ..Variant::PLAIN
        }
    };
}

/// 100 flows of BBR whose buffers tune themselves, by the measure of a kernel that is built as the guest's.
macro_rules! hundred {
    ($name:literal, $about:literal, $linux:expr, [$($set:expr),*]) => {
        Variant {
            name: $name,
            about: $about,
            sets: &[
                ("tcp_congestion_control", "bbr"),
                ("queue_bytes", "10000000"),
                ("flows", "100"),
                ("sndbuf", "0"),
                ("max_tcp_header", "256"),
                $($set),*
            ],
            linux: $linux,
            quick: false,
            ..Variant::PLAIN
        }
    };
}

/// `tcp_mem` as Linux sets it by itself in a guest of 512 MiB.
const SHORT: (&str, &str) = ("tcp_mem", "5700 7601 11400");

/// The axis of the curve.
const LIMIT: &str = "limit in bytes, logarithmic";
/// Ten flows, with and without a limit.
const LONG: &[&str] =
    &["cubic-unset", "cubic-262144", "cubic-262144-whole", "bbr-unset", "bbr-262144", "bbr-262144-whole"];
/// The curve over the limit.
const LIMITS: &[&str] = &[
    "cubic-16384",
    "cubic-32768",
    "cubic-65536",
    "cubic-131072",
    "cubic-262144",
    "cubic-524288",
    "cubic-1048576",
    "cubic-2097152",
    "cubic-4194304",
];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "notsent-lowat",
    about: "memory of long flows and wake-ups of their writers by TCP_NOTSENT_LOWAT, {line} and {rtt_ms} ms",
    make: || Box::new(NotsentLowat::default()),
    variants: &[
        Variant {
            name: "cubic-unset",
            about: "{flows} flows by {tcp_congestion_control}, SO_SNDBUF {sndbuf}, limit {lowat}",
            sets: &[CUBIC, UNSET[0], UNSET[1]],
            linux: &[
                ("queued_bytes_per_flow", 6_563.0 * KIB),
                ("writable_events_per_mb", 0.37),
                ("goodput_mbps", 182.0),
            ],
            still: &[
                ("queued_bytes_per_flow", 6_540.0 * KIB),
                ("writable_events_per_mb", 0.372),
                ("goodput_mbps", 191.0),
            ],
            ..Variant::PLAIN
        },
        Variant {
            name: "cubic-262144",
            about: "the same, limit {lowat}",
            sets: &[CUBIC, ("lowat", "262144")],
            linux: &[
                ("queued_bytes_per_flow", 725.0 * KIB),
                ("writable_events_per_mb", 5.0),
                ("goodput_mbps", 183.0),
            ],
            still: &[
                ("queued_bytes_per_flow", 835.0 * KIB),
                ("writable_events_per_mb", 5.15),
                ("goodput_mbps", 189.9),
            ],
            ..Variant::PLAIN
        },
        Variant {
            name: "cubic-262144-whole",
            about: "the same, writers woken under the whole limit instead of half of it",
            sets: &[CUBIC, ("lowat", "262144"), ("notsent_lowat_half", "0")],
            linux: &[("writable_events_per_mb", 14.1)],
            ..Variant::PLAIN
        },
        Variant {
            name: "bbr-unset",
            about: "{flows} flows by {tcp_congestion_control} and a queue of {queue_bytes} bytes, limit {lowat}",
            sets: &[("tcp_congestion_control", "bbr"), ("queue_bytes", "10000000"), UNSET[0], UNSET[1]],
            linux: &[
                ("queued_bytes_per_flow", 6_445.0 * KIB),
                ("writable_events_per_mb", 0.37),
                ("goodput_mbps", 180.0),
            ],
            still: &[
                ("queued_bytes_per_flow", 6_534.0 * KIB),
                ("writable_events_per_mb", 0.374),
                ("goodput_mbps", 183.0),
            ],
            ..Variant::PLAIN
        },
        Variant {
            name: "bbr-262144",
            about: "the same, limit {lowat}",
            sets: &[("tcp_congestion_control", "bbr"), ("queue_bytes", "10000000"), ("lowat", "262144")],
            linux: &[
                ("queued_bytes_per_flow", 824.0 * KIB),
                ("writable_events_per_mb", 5.0),
                ("goodput_mbps", 167.0),
            ],
            still: &[
                ("queued_bytes_per_flow", 911.0 * KIB),
                ("writable_events_per_mb", 5.11),
                ("goodput_mbps", 183.1),
            ],
            ..Variant::PLAIN
        },
        Variant {
            name: "bbr-262144-whole",
            about: "the same, writers woken under the whole limit",
            sets: &[
                ("tcp_congestion_control", "bbr"),
                ("queue_bytes", "10000000"),
                ("lowat", "262144"),
                ("notsent_lowat_half", "0"),
            ],
            linux: &[("writable_events_per_mb", 14.7)],
            ..Variant::PLAIN
        },
        hundred!(
            "bbr-100-unset",
            "{flows} flows by {tcp_congestion_control}, buffers that tune themselves, limit {lowat}",
            &[],
            [UNSET[0], UNSET[1]]
        ),
        hundred!("bbr-100-131072", "the same, limit {lowat}", &[], [("lowat", "131072")]),
        hundred!(
            "bbr-100-131072-whole",
            "the same, writers woken under the whole limit",
            &[("writable_events_per_mb", 15.4)],
            [("lowat", "131072"), ("notsent_lowat_half", "0")]
        ),
        hundred!(
            "bbr-100-unset-512mib",
            "{flows} flows by {tcp_congestion_control} with as little memory as Linux allows itself in 512 MiB, limit {lowat}",
            &[("queued_bytes_per_flow", 401.0 * KIB)],
            [UNSET[0], UNSET[1], SHORT]
        ),
        hundred!(
            "bbr-100-131072-512mib",
            "the same, limit {lowat}",
            &[("queued_bytes_per_flow", 224.0 * KIB), ("writable_events_per_mb", 7.7)],
            [SHORT, ("lowat", "131072")]
        ),
        curve!("cubic-16384", "16384"),
        curve!("cubic-32768", "32768"),
        curve!("cubic-65536", "65536"),
        curve!("cubic-131072", "131072"),
        curve!("cubic-524288", "524288"),
        curve!("cubic-1048576", "1048576"),
        curve!("cubic-2097152", "2097152"),
        curve!("cubic-4194304", "4194304"),
        Variant {
            name: "seed-unset",
            about: "the commit's size: {flows} flows, SO_SNDBUF {sndbuf}, {line}, limit {lowat}",
            sets: SEED_UNSET,
            seed: &[("queued_bytes_per_flow", 54e6)],
            quick: false,
            ..Variant::PLAIN
        },
        Variant {
            name: "seed-2097152",
            about: "the same, limit {lowat}",
            sets: SEED_LIMIT,
            seed: &[("queued_bytes_per_flow", 3.5e6)],
            quick: false,
            ..Variant::PLAIN
        },
        Variant {
            name: "seed-2097152-whole",
            about: "the same, writers woken under the whole limit",
            sets: SEED_WHOLE,
            quick: false,
            ..Variant::PLAIN
        },
    ],
    grid: None,
    columns: &[
        Column {
            figure: "queued_bytes_per_flow",
            head: "queued\nKiB/flow",
            unit: KIB,
            means: "queued: what a flow's send queue is charged with (sk_wmem_queued), metadata included; mean over flows and time, as the next two",
        },
        Column {
            figure: "in_flight_bytes_per_flow",
            head: "in flight\nKiB/flow",
            unit: KIB,
            means: "in flight: sent and not acknowledged; unsent: written and not sent",
        },
        Column { figure: "unsent_bytes_per_flow", head: "unsent\nKiB/flow", unit: KIB, means: "" },
        Column {
            figure: "writable_events_per_mb",
            head: "wakes/MB",
            unit: 1.0,
            means: "wakes/MB: how often a writer was told that it may go on, per 10^6 bytes acknowledged",
        },
        Column {
            figure: "acks_per_mb",
            head: "ACKs/MB",
            unit: 1.0,
            means: "ACKs/MB: acknowledgements that came, per 10^6 bytes acknowledged",
        },
        GOODPUT,
    ],
    shows: &[
        Shown { figure: "queued_bytes_per_flow", bound: Bound::AtMost(1.1) },
        // Figures of two digits.
        Shown { figure: "writable_events_per_mb", bound: Bound::AtMost(1.01) },
        Shown { figure: "goodput_mbps", bound: Bound::AtLeast(0.98) },
    ],
    pairs: &[
        Pair {
            what: "the limit: queued KiB per flow",
            figure: ("queued_bytes_per_flow", KIB),
            before: "cubic-unset",
            after: "cubic-262144",
        },
        Pair {
            what: "the limit: Mbit/s",
            figure: ("goodput_mbps", 1.0),
            before: "cubic-unset",
            after: "cubic-262144",
        },
        Pair {
            what: "the half rule: wakes per MB",
            figure: ("writable_events_per_mb", 1.0),
            before: "cubic-262144-whole",
            after: "cubic-262144",
        },
        Pair {
            what: "the commit's size: queued KiB per flow",
            figure: ("queued_bytes_per_flow", KIB),
            before: "seed-unset",
            after: "seed-2097152",
        },
        Pair {
            what: "the same: wakes per MB by the half rule",
            figure: ("writable_events_per_mb", 1.0),
            before: "seed-2097152-whole",
            after: "seed-2097152",
        },
    ],
    pictures: &[
        Picture {
            title: "Written and not sent, by flow",
            of: Of::OverTime(|p| p.unsent_bytes as f64),
            unit: "KiB",
            per: KIB,
            log: true,
            variants: LONG,
        },
        Picture {
            title: "Memory of a flow",
            of: Of::Bars { figure: "queued_bytes_per_flow", beside: None },
            unit: "KiB",
            per: KIB,
            variants: LONG,
            ..Picture::PLAIN
        },
        Picture {
            title: "Wake-ups of a writer",
            of: Of::Bars { figure: "writable_events_per_mb", beside: None },
            unit: "per MB",
            variants: LONG,
            ..Picture::PLAIN
        },
        Picture {
            title: "Memory of a flow by limit",
            of: Of::Curve { key: "lowat", figure: "queued_bytes_per_flow", axis: LIMIT },
            unit: "KiB",
            per: KIB,
            variants: LIMITS,
            ..Picture::PLAIN
        },
        Picture {
            title: "Wake-ups by limit",
            of: Of::Curve { key: "lowat", figure: "writable_events_per_mb", axis: LIMIT },
            unit: "per MB",
            variants: LIMITS,
            ..Picture::PLAIN
        },
    ],
    // After 3 s the last holes of slow start are not filled: what they hold back is acknowledged in the measured time, 201 Mbit/s of a line of 200.
    short: &[("warmup_s", "4"), ("measure_s", "3")],
};

const SEED_UNSET: super::Settings = &[
    UNSET[0],
    UNSET[1],
    ("flows", "100"),
    ("rate_mbps", "10000"),
    ("queue_bytes", "125000000"),
    ("sndbuf", "27000000"),
    ("owned", "1"),
];
const SEED_LIMIT: super::Settings = &[
    ("flows", "100"),
    ("rate_mbps", "10000"),
    ("queue_bytes", "125000000"),
    ("sndbuf", "27000000"),
    ("owned", "1"),
    ("lowat", "2097152"),
];
const SEED_WHOLE: super::Settings = &[
    ("flows", "100"),
    ("rate_mbps", "10000"),
    ("queue_bytes", "125000000"),
    ("sndbuf", "27000000"),
    ("owned", "1"),
    ("lowat", "2097152"),
    ("notsent_lowat_half", "0"),
];
