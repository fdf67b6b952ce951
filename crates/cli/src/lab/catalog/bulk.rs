//! bulk: transfers by several controllers over a path with and without loss.
use super::{CUBIC, Column, Experiment, Grid, Note, Numbers, SEGS_PER_PACKET, Variant};
use crate::lab::picture::{Of, Picture};
use lowwater_core::base::Duration;
use lowwater_sim::scenario::BulkParams;

/// Time between samples.
const SAMPLE_EVERY: Duration = Duration::from_millis(20);

/// A send buffer of 4 MiB keeps BBR in STARTUP for good, whose window, 2.9 times what the path holds, asks for more than the 2.7 MB at which
/// the buffer is full (docs/congestion.md), and each round loses again what the queue has no room for. The numbers are measured, with this buffer
/// and a larger one: a flow of less than 16 times what the path holds has about as many retransmissions with both, since STARTUP takes as long
/// in any case; no more than 3.7 MB are on their way with the buffer; and a short queue drops as much behind STARTUP.
fn fills_its_buffer(of: Numbers<'_>) -> bool {
    const FULL: f64 = 2.74e6;
    const ON_THEIR_WAY: f64 = 3.7e6;
    let path_bytes = of("rate_mbps") * of("rtt_ms") * 1e3 / 8.0 / of("flows");
    let (startup, queue_bytes) = (2.9 * path_bytes, of("queue_bytes"));
    startup > FULL
        && of("bytes") > 16.0 * path_bytes
        && path_bytes + queue_bytes / of("flows") < startup.min(ON_THEIR_WAY)
        && queue_bytes > 5e5
}

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "bulk",
    about: "a bulk transfer over a path of {line} and {rtt_ms} ms, with and without random loss",
    make: || Box::new(BulkParams { sample_every: SAMPLE_EVERY, bytes: 50_000_000, ..BulkParams::default() }),
    variants: &[
        Variant {
            name: "cubic",
            about: "CUBIC with HyStart and SACK: Linux's defaults",
            sets: &[CUBIC, ("hystart", "1"), ("tcp_sack", "1")],
            ..Variant::PLAIN
        },
        Variant {
            name: "cubic-hystart++",
            about: "the slow-start exit of RFC 9406",
            sets: &[CUBIC, ("hystart", "2")],
            ..Variant::PLAIN
        },
        Variant {
            name: "cubic-no-hystart",
            about: "slow start ends by loss alone",
            sets: &[CUBIC, ("hystart", "0")],
            ..Variant::PLAIN
        },
        Variant {
            name: "cubic-no-sack",
            about: "recovery without selective acknowledgements",
            sets: &[CUBIC, ("tcp_sack", "0")],
            ..Variant::PLAIN
        },
        Variant {
            name: "reno",
            about: "RFC 5681's congestion control",
            sets: &[("tcp_congestion_control", "reno")],
            ..Variant::PLAIN
        },
        Variant {
            name: "bbr",
            about: "BBR, whose rate is what arrives and not what is lost",
            sets: &[("tcp_congestion_control", "bbr")],
            note: Some(Note {
                key: "tcp_wmem",
                matters: fills_its_buffer,
                told: "the 4 MiB of tcp_wmem are too few to leave STARTUP, in Linux as here, which makes a good part of its retransmissions; \
                 --set \"tcp_wmem=4096 262144 64000000\" shows how much (docs/congestion.md#bbr)",
            }),
            ..Variant::PLAIN
        },
    ],
    grid: Some(Grid { key: "loss_percent", values: &["0", "0.1", "1"], unit: "%" }),
    columns: &[
        Column {
            figure: "goodput_mbps",
            head: "Mbit/s",
            unit: 1.0,
            means: "Mbit/s: payload received per second",
        },
        Column {
            figure: "elapsed_s",
            head: "seconds",
            unit: 1.0,
            means: "seconds: from the first write to the last byte received; the path's delay is on the way back, so that what fits into the first window does not wait for it",
        },
        Column {
            figure: "retrans_segs",
            head: "retrans",
            unit: 1.0,
            means: "retrans: segments sent again (dropped_packets of --json counts packets, which have many segments where loss_percent is 0)",
        },
        Column {
            figure: "srtt_ms",
            head: "srtt ms\nmean",
            unit: 1.0,
            means: "srtt: the sender's smoothed round trip, mean",
        },
        Column {
            figure: "backlog_bytes_mean",
            head: "queue\nkB mean",
            unit: 1e3,
            means: "queue: bytes in the bottleneck's queue, all flows together",
        },
        Column { figure: "backlog_bytes_max", head: "queue\nkB max", unit: 1e3, means: "" },
        SEGS_PER_PACKET,
    ],
    shows: &[],
    pairs: &[],
    pictures: &[
        Picture {
            title: "Congestion window, {loss_percent} % lost",
            of: Of::OverTime(|p| f64::from(p.cwnd)),
            unit: "segments",
            log: true,
            ..Picture::PLAIN
        },
        Picture {
            title: "Acknowledged, {loss_percent} % lost",
            of: Of::Together(|p| p.acked_bytes as f64),
            unit: "MB",
            per: 1e6,
            ..Picture::PLAIN
        },
    ],
    short: &[],
};
