//! sctp-heartbeat (E5): heartbeats that Linux 6.1 sent, and the commit's rate before and after.
use super::{Column, Experiment, Pair, Variant};
use crate::lab::picture::{Of, Picture};
use lowwater_sim::scenario::SctpHeartbeat;

/// A timer that is drawn and armed anew with every packet: "before".
const EAGER: (&str, &str) = ("sctp.hb_eager", "1");
const HALF_SECOND: (&str, &str) = ("sctp.hb_interval", "500");
/// As many messages as fit, as long as the commit's.
const BULK: (&str, &str) = ("every_ms", "0");
const LONG: (&str, &str) = ("message_bytes", "1636");
/// Neither windows nor Linux's missing pacer hold the sender back.
const OPEN: (&str, &str) = ("buffer", "4000000");
const UNPACED: (&str, &str) = ("sctp.pacing", "0");
const SOME_SECONDS: (&str, &str) = ("measure_s", "4");
/// The commit's path: a loopback device.
const WIDE: (&str, &str) = ("mtu", "65535");
const FAST: (&str, &str) = ("rate_mbps", "10000");
const NEAR: (&str, &str) = ("rtt_ms", "0.1");
const SHORT: (&str, &str) = ("measure_s", "0.3");

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "sctp-heartbeat",
    about: "what heartbeats cost a path that is busy, and when an idle one has them: SCTP over two paths of 20 ms",
    make: || Box::new(SctpHeartbeat::default()),
    variants: &[
        Variant {
            name: "5ms",
            about: "interval 0.5 s, a message every 5 ms, 20 s",
            sets: &[HALF_SECOND],
            linux: &[
                ("heartbeats_busy", 0.0),
                ("heartbeats_idle", 13.0),
                ("idle_gap_s_min", 1.0),
                ("idle_gap_s_max", 2.1),
            ],
            ..Variant::PLAIN
        },
        Variant {
            name: "5ms-eager",
            about: "the same with a timer that each packet arms anew: \"before\"",
            sets: &[HALF_SECOND, EAGER],
            ..Variant::PLAIN
        },
        Variant {
            name: "20ms",
            about: "interval 30 s, a message every 20 ms, 130 s",
            sets: &[("every_ms", "20"), ("measure_s", "130")],
            linux: &[
                ("heartbeats_busy", 0.0),
                ("heartbeats_idle", 4.0),
                ("idle_gap_s_min", 30.7),
                ("idle_gap_s_max", 32.0),
            ],
            ..Variant::PLAIN
        },
        Variant {
            name: "changed",
            about: "interval 30 s that becomes 0.5 s after 20 s",
            sets: &[("every_ms", "20"), ("measure_s", "40"), ("becomes_ms", "500")],
            ..Variant::PLAIN
        },
        Variant {
            name: "bulk",
            about: "interval 0.5 s, messages of 1,636 bytes as many as fit into 100 Mbit/s, not paced, as in Linux",
            sets: &[HALF_SECOND, BULK, LONG, OPEN, UNPACED, SOME_SECONDS],
            linux: &[("heartbeats_busy", 0.0)],
            ..Variant::PLAIN
        },
        Variant {
            name: "bulk-eager",
            about: "the same with a timer that each packet arms anew",
            sets: &[HALF_SECOND, BULK, LONG, OPEN, UNPACED, SOME_SECONDS, EAGER],
            ..Variant::PLAIN
        },
        Variant {
            name: "bulk-paced",
            about: "the same, lazy, paced by the transport, which is the default: the pacer's own timer counts too",
            sets: &[HALF_SECOND, BULK, LONG, OPEN, SOME_SECONDS],
            linux: &[("heartbeats_busy", 0.0)],
            ..Variant::PLAIN
        },
        Variant {
            name: "seed",
            about: "the commit's: MTU 65,535, messages of 1,636 bytes. Processing takes no time here, so that the rate is the line's",
            sets: &[BULK, LONG, OPEN, WIDE, FAST, NEAR, SHORT, UNPACED],
            seed: &[("goodput_mbps", 7_050.0)],
            ..Variant::PLAIN
        },
        Variant {
            name: "seed-eager",
            about: "the same before the commit",
            sets: &[BULK, LONG, OPEN, WIDE, FAST, NEAR, SHORT, UNPACED, EAGER],
            seed: &[("goodput_mbps", 6_800.0)],
            ..Variant::PLAIN
        },
    ],
    grid: None,
    columns: &[
        Column {
            figure: "heartbeats_busy",
            head: "beats\nbusy path",
            unit: 1.0,
            means: "beats: HEARTBEATs that the sender sent, on the path with data (busy) and on the other one (idle)",
        },
        Column { figure: "heartbeats_idle", head: "beats\nidle path", unit: 1.0, means: "" },
        Column {
            figure: "idle_gap_s_min",
            head: "idle gap\ns min",
            unit: 1.0,
            means: "idle gap: time between two HEARTBEATs of the idle path",
        },
        Column { figure: "idle_gap_s_max", head: "idle gap\ns max", unit: 1.0, means: "" },
        Column {
            figure: "idle_gap_over_bound",
            head: "idle gap/\nbound",
            unit: 1.0,
            means: "idle gap/bound: the longest over the interval and one and a half timeouts, which is the longest that may be",
        },
        Column {
            figure: "changed_after_s",
            head: "changed\nafter s",
            unit: 1.0,
            means: "changed: from a new interval to the next HEARTBEAT of the idle path",
        },
        Column {
            figure: "timer_ops_per_packet",
            head: "timer ops/\npacket",
            unit: 1.0,
            means: "timer ops/packet: entries made in the sender's timer wheel, per packet sent",
        },
        Column {
            figure: "hb_drawn_per_packet",
            head: "draws/\npacket",
            unit: 1.0,
            means: "draws/packet: jitters of heartbeats that were drawn, per packet sent",
        },
        Column {
            figure: "messages_lost",
            head: "messages\nlost",
            unit: 1.0,
            means: "lost: messages that never came; twice: messages that came twice",
        },
        Column { figure: "messages_duplicated", head: "messages\ntwice", unit: 1.0, means: "" },
        Column {
            figure: "goodput_mbps",
            head: "Mbit/s",
            unit: 1.0,
            means: "Mbit/s: payload of messages that came, per second",
        },
    ],
    shows: &[],
    pairs: &[
        Pair {
            what: "lazy heartbeats in bulk: timer operations per packet",
            figure: ("timer_ops_per_packet", 1.0),
            before: "bulk-eager",
            after: "bulk",
        },
        Pair {
            what: "the same over the commit's path",
            figure: ("timer_ops_per_packet", 1.0),
            before: "seed-eager",
            after: "seed",
        },
        Pair {
            what: "a message every 5 ms: timer operations per packet",
            figure: ("timer_ops_per_packet", 1.0),
            before: "5ms-eager",
            after: "5ms",
        },
    ],
    pictures: &[
        Picture {
            title: "Timer operations per packet",
            of: Of::Bars { figure: "timer_ops_per_packet", beside: None },
            unit: "per packet",
            ..Picture::PLAIN
        },
        Picture {
            title: "HEARTBEATs of the idle path",
            of: Of::Bars { figure: "heartbeats_idle", beside: None },
            unit: "in the run",
            variants: &["5ms", "5ms-eager", "20ms"],
            ..Picture::PLAIN
        },
    ],
    short: &[],
};
