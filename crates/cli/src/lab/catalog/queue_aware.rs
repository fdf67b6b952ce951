//! queue-aware (3b): a sample of the matrix, and the matrix.
use super::{Column, Experiment, GOODPUT, Grid, Variant};
use crate::lab::picture::{Of, Picture};
use lowwater_sim::scenario::QueueAware;

/// Between the powers of ten those at which a segment's time and that of a batch of completions do not fit.
const RATES: &[&str] =
    &["1", "2", "5", "10", "13", "20", "30", "45", "100", "300", "1000", "3000", "10000", "40000"];
const MATRIX: &[Grid] = &[
    Grid { key: "rate_mbps", values: RATES, unit: "mbit" },
    Grid { key: "qdisc", values: &["pfifo", "fq", "fq_codel", "tbf"], unit: "" },
    Grid { key: "flows", values: &["1", "4", "64"], unit: "" },
    Grid { key: "rtt_ms", values: &["1", "20", "100"], unit: "ms" },
    Grid { key: "tcp_congestion_control", values: &["cubic", "bbr"], unit: "" },
    Grid { key: "completions", values: &["exact", "late", "batches"], unit: "" },
];
/// One flow whose application writes half of what the line takes.
const MATRIX_APP: &[Grid] = &[
    Grid { key: "rate_mbps", values: RATES, unit: "mbit" },
    Grid { key: "qdisc", values: &["pfifo", "fq", "fq_codel", "tbf"], unit: "" },
    Grid { key: "rtt_ms", values: &["1", "20", "100"], unit: "ms" },
    Grid { key: "tcp_congestion_control", values: &["cubic", "bbr"], unit: "" },
    Grid { key: "completions", values: &["exact", "late", "batches"], unit: "" },
];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "queue-aware",
    about: "what stands below flows whose own line is their bottleneck, by the queue-aware limit and by Linux's rule, and its price",
    make: || Box::new(QueueAware::default()),
    variants: &[
        Variant {
            name: "1mbit",
            about: "{line}, a FIFO, one flow of CUBIC, {rtt_ms} ms",
            sets: &[("rate_mbps", "1"), ("rtt_ms", "1")],
            full: true,
            ..Variant::PLAIN
        },
        Variant {
            name: "10mbit",
            about: "{line}, {rtt_ms} ms",
            sets: &[("rate_mbps", "10")],
            ..Variant::PLAIN
        },
        Variant {
            name: "10mbit-bbr",
            about: "the same with BBR",
            sets: &[("rate_mbps", "10"), ("tcp_congestion_control", "bbr")],
            ..Variant::PLAIN
        },
        Variant {
            name: "10mbit-4-fq-codel",
            about: "{line}, four flows above fq_codel",
            sets: &[("rate_mbps", "10"), ("flows", "4"), ("qdisc", "fq_codel")],
            ..Variant::PLAIN
        },
        Variant {
            name: "100mbit",
            about: "{line}, {rtt_ms} ms: near peers have large packets",
            sets: &[("rate_mbps", "100"), ("rtt_ms", "1")],
            ..Variant::PLAIN
        },
        Variant {
            name: "100mbit-tbf",
            about: "{line} by a shaper, {rtt_ms} ms",
            sets: &[("rate_mbps", "100"), ("qdisc", "tbf")],
            ..Variant::PLAIN
        },
        Variant {
            name: "100mbit-fq",
            about: "{line} above fq, {rtt_ms} ms",
            sets: &[("rate_mbps", "100"), ("qdisc", "fq")],
            ..Variant::PLAIN
        },
        Variant {
            name: "100mbit-late",
            about: "{line}, {rtt_ms} ms, completions 100 us late",
            sets: &[("rate_mbps", "100"), ("rtt_ms", "1"), ("completions", "late")],
            ..Variant::PLAIN
        },
        Variant {
            name: "100mbit-batches",
            about: "{line}, {rtt_ms} ms, eight completions together, a millisecond late at most",
            sets: &[("rate_mbps", "100"), ("rtt_ms", "1"), ("completions", "batches")],
            ..Variant::PLAIN
        },
        Variant {
            name: "100mbit-64",
            about: "{line}, {flows} flows",
            sets: &[("rate_mbps", "100"), ("flows", "64")],
            ..Variant::PLAIN
        },
        Variant {
            name: "100mbit-app",
            about: "{line}, an application that writes half of that, every 10 ms",
            sets: &[("rate_mbps", "100"), ("app_percent", "50")],
            ..Variant::PLAIN
        },
        Variant {
            name: "1gbit",
            about: "{line}, {rtt_ms} ms",
            sets: &[("rate_mbps", "1000"), ("rtt_ms", "1")],
            ..Variant::PLAIN
        },
        Variant {
            name: "10gbit-batches",
            about: "{line}, four flows, {rtt_ms} ms, eight completions together",
            sets: &[("rate_mbps", "10000"), ("flows", "4"), ("rtt_ms", "1"), ("completions", "batches")],
            ..Variant::PLAIN
        },
        Variant { name: "matrix", about: "every cell", grid: MATRIX, asked: true, ..Variant::PLAIN },
        Variant {
            name: "matrix-app",
            about: "every cell of one flow whose application writes half of what the line takes",
            sets: &[("app_percent", "50")],
            grid: MATRIX_APP,
            asked: true,
            ..Variant::PLAIN
        },
    ],
    grid: None,
    columns: &[
        Column {
            figure: "holds",
            head: "holds",
            unit: 1.0,
            means: "holds: 1 where mean and 99th percentile are within their bounds and the line idles for 1 % at most while a flow has something to send",
        },
        Column {
            figure: "queue_bytes_mean",
            head: "queue B\nmean",
            unit: 1.0,
            means: "queue: bytes of the worst flow that stand below the transport; bound: the most that docs/queue-aware.md allows its mean; Linux's: by Linux's rule in the same world",
        },
        Column { figure: "queue_bytes_bound", head: "queue B\nbound", unit: 1.0, means: "" },
        Column { figure: "linux_queue_bytes_mean", head: "Linux's\nqueue B", unit: 1.0, means: "" },
        Column {
            figure: "queue_over_bound",
            head: "mean/\nbound",
            unit: 1.0,
            means: "mean/bound, p99/bound: mean and 99th percentile of the queue over their bounds",
        },
        Column { figure: "queue_p99_over_bound", head: "p99/\nbound", unit: 1.0, means: "" },
        Column { figure: "linux_queue_over_bound", head: "Linux's\nmean/bound", unit: 1.0, means: "" },
        Column {
            figure: "idle_percent",
            head: "idle %",
            unit: 1.0,
            means: "idle: time in which the line was idle though a flow could have sent",
        },
        Column {
            figure: "estimated_percent",
            head: "estimated\n%",
            unit: 1.0,
            means: "estimated: looks at which a flow knew its queue's speed",
        },
        GOODPUT,
        Column { figure: "linux_goodput_mbps", head: "Linux's\nMbit/s", unit: 1.0, means: "" },
        Column {
            figure: "packets_per_mb",
            head: "packets/\nMB",
            unit: 1.0,
            means: "packets/MB, calls/MB: packets handed to IP and calls of the stack, per 10^6 bytes",
        },
        Column { figure: "linux_packets_per_mb", head: "Linux's\npackets/MB", unit: 1.0, means: "" },
        Column { figure: "calls_per_mb", head: "calls/\nMB", unit: 1.0, means: "" },
        Column { figure: "linux_calls_per_mb", head: "Linux's\ncalls/MB", unit: 1.0, means: "" },
    ],
    shows: &[],
    pairs: &[],
    pictures: &[Picture {
        title: "Bytes of a flow below the transport, mean",
        of: Of::Bars { figure: "queue_bytes_mean", beside: Some(("Linux's rule", "linux_queue_bytes_mean")) },
        unit: "bytes",
        log: true,
        ..Picture::PLAIN
    }],
    short: &[("measure_s", "0.25")],
};
