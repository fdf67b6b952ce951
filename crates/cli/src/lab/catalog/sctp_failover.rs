//! sctp-failover (E5): how long Linux 6.1 took to deliver again after its primary path went dark. Of its ranges the upper end stands
//! here; `--uml` measures it beside ours.
use super::{Column, Experiment, Pair, Variant};
use crate::lab::picture::{Of, Picture};
use lowwater_sim::scenario::SctpFailover;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "sctp-failover",
    about: "the primary one of two paths goes dark under a message of 160 bytes every 10 ms: SCTP, round trips of 20 ms",
    make: || Box::new(SctpFailover::default()),
    variants: &[
        Variant {
            name: "default",
            about: "Linux's defaults: rto_min 1 s, a path is potentially failed after one timeout",
            linux: &[("restored_s", 1.6), ("message_delay_s_max", 1.25)],
            ..Variant::PLAIN
        },
        Variant {
            name: "rto-min-200ms",
            about: "rto_min 0.2 s",
            sets: &[("sctp.rto_min", "200")],
            linux: &[("restored_s", 1.0)],
            ..Variant::PLAIN
        },
        Variant {
            name: "pf-off",
            about: "no potentially failed paths (pf_enable 0): data stays on the path until it is inactive",
            sets: &[("sctp.pf_enable", "0")],
            ..Variant::PLAIN
        },
        Variant {
            name: "pf-retrans-2",
            about: "potentially failed after three timeouts (pf_retrans 2)",
            sets: &[("sctp.pf_retrans", "2")],
            ..Variant::PLAIN
        },
        Variant {
            name: "pf-off-max-retrans-1",
            about: "without potentially failed paths, inactive after two timeouts (path_max_retrans 1)",
            sets: &[("sctp.pf_enable", "0"), ("sctp.path_max_retrans", "1")],
            ..Variant::PLAIN
        },
        Variant {
            name: "pf-off-max-retrans-1-rto-min-200ms",
            about: "the same with rto_min 0.2 s",
            sets: &[("sctp.pf_enable", "0"), ("sctp.path_max_retrans", "1"), ("sctp.rto_min", "200")],
            ..Variant::PLAIN
        },
    ],
    grid: None,
    columns: &[
        Column {
            figure: "delivery_gap_s_max",
            head: "silence\ns max",
            unit: 1.0,
            means: "silence: the longest in which nothing came, from when the path went dark",
        },
        Column {
            figure: "message_delay_s_max",
            head: "delay\ns max",
            unit: 1.0,
            means: "delay: the longest that a message took",
        },
        Column {
            figure: "restored_s",
            head: "restored\nafter s",
            unit: 1.0,
            means: "restored: when the last message came that took longer than two round trips, counted from when the path went dark",
        },
        Column {
            figure: "t3_rtx_expireds",
            head: "timeouts",
            unit: 1.0,
            means: "timeouts: retransmission timers of the sender that ran out (T3-rtx)",
        },
        Column {
            figure: "chunks_again",
            head: "chunks\nagain",
            unit: 1.0,
            means: "chunks again: DATA chunks that the sender sent again",
        },
        Column {
            figure: "messages",
            head: "messages\nsent",
            unit: 1.0,
            means: "lost: messages that never came; twice: messages that came twice",
        },
        Column { figure: "messages_lost", head: "messages\nlost", unit: 1.0, means: "" },
        Column { figure: "messages_duplicated", head: "messages\ntwice", unit: 1.0, means: "" },
    ],
    shows: &[],
    pairs: &[
        Pair {
            what: "potentially failed paths (RFC 7829): seconds of silence",
            figure: ("delivery_gap_s_max", 1.0),
            before: "pf-off",
            after: "default",
        },
        Pair {
            what: "the same: seconds until delivery is restored",
            figure: ("restored_s", 1.0),
            before: "pf-off",
            after: "default",
        },
    ],
    pictures: &[
        Picture {
            title: "Delivery is restored after",
            of: Of::Bars { figure: "restored_s", beside: None },
            unit: "s",
            log: true,
            ..Picture::PLAIN
        },
        Picture {
            title: "Longest silence at the receiver",
            of: Of::Bars { figure: "delivery_gap_s_max", beside: None },
            unit: "s",
            log: true,
            ..Picture::PLAIN
        },
    ],
    short: &[],
};
