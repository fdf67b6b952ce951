//! tso-autosize (E3): figures of Linux 6.1 (median of 7 runs) and of the commit.
use super::{Bound, Column, Experiment, GOODPUT, Pair, SEGS_PER_PACKET, Shown, Variant};
use crate::lab::picture::{Of, Picture};
use lowwater_sim::scenario::TsoAutosize;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tso-autosize",
    about: "packets handed to IP for one write of {bytes} bytes over {rtt_ms} ms, handshake and close included",
    make: || Box::new(TsoAutosize::default()),
    variants: &[
        Variant {
            name: "default",
            about: "packets sized when they are sent: Linux's defaults",
            linux: &[
                ("ip_out_requests", 176.0),
                ("ip_in_receives", 79.0),
                ("tcp_out_segs", 1_385.0),
                ("elapsed_s", 0.322),
            ],
            ..Variant::PLAIN
        },
        Variant {
            name: "2-mss",
            about: "two segments in each packet, which is \"before\"",
            sets: &[("gso_max_segs", "2")],
            linux: &[
                ("ip_out_requests", 694.0),
                ("ip_in_receives", 198.0),
                ("tcp_out_segs", 1_385.0),
                ("elapsed_s", 0.323),
            ],
            ..Variant::PLAIN
        },
        Variant {
            name: "fq",
            about: "fq in front of the sender's device",
            sets: &[("qdisc", "fq")],
            linux: &[
                ("ip_out_requests", 200.0),
                ("ip_in_receives", 199.0),
                ("tcp_out_segs", 1_385.0),
                ("elapsed_s", 0.326),
            ],
            ..Variant::PLAIN
        },
        Variant {
            name: "bbr",
            about: "BBR, which paces",
            sets: &[("tcp_congestion_control", "bbr")],
            linux: &[
                ("ip_out_requests", 248.0),
                ("ip_in_receives", 246.0),
                ("tcp_out_segs", 1_385.0),
                ("elapsed_s", 0.345),
            ],
            ..Variant::PLAIN
        },
        Variant {
            name: "seed",
            about: "the commit's own settings: SO_SNDBUF {sndbuf} and no bonus for near peers",
            sets: &[("sndbuf", "1000000"), ("tcp_tso_rtt_log", "0")],
            seed: &[
                ("ip_out_requests", 232.0),
                ("ip_in_receives", 221.0),
                ("tcp_out_segs", 1_397.0),
                ("elapsed_s", 0.36),
            ],
            ..Variant::PLAIN
        },
        Variant {
            name: "seed-2-mss",
            about: "the same with two segments in each packet; the commit's \"before\" grew with the rate at the time of the write",
            sets: &[("sndbuf", "1000000"), ("tcp_tso_rtt_log", "0"), ("gso_max_segs", "2")],
            seed: &[
                ("ip_out_requests", 599.0),
                ("ip_in_receives", 600.0),
                ("tcp_out_segs", 1_397.0),
                ("elapsed_s", 0.36),
            ],
            ..Variant::PLAIN
        },
    ],
    grid: None,
    columns: &[
        Column {
            figure: "ip_out_requests",
            head: "IpOutRequests",
            unit: 1.0,
            means: "IpOutRequests: packets that the sender handed to IP; IpInReceives: packets that came; TcpOutSegs: segments in those that left",
        },
        Column { figure: "ip_in_receives", head: "IpInReceives", unit: 1.0, means: "" },
        Column { figure: "tcp_out_segs", head: "TcpOutSegs", unit: 1.0, means: "" },
        SEGS_PER_PACKET,
        Column {
            figure: "elapsed_s",
            head: "seconds",
            unit: 1.0,
            means: "seconds: from the first data to the peer's FIN",
        },
        GOODPUT,
    ],
    shows: &[
        Shown { figure: "ip_out_requests", bound: Bound::Near(0.1) },
        Shown { figure: "tcp_out_segs", bound: Bound::Near(0.01) },
        Shown { figure: "elapsed_s", bound: Bound::AtMost(1.02) },
    ],
    pairs: &[
        Pair {
            what: "autosizing: packets handed to IP",
            figure: ("ip_out_requests", 1.0),
            before: "2-mss",
            after: "default",
        },
        Pair {
            what: "the same with the commit's settings",
            figure: ("ip_out_requests", 1.0),
            before: "seed-2-mss",
            after: "seed",
        },
    ],
    pictures: &[
        Picture {
            title: "Size of each packet",
            of: Of::PacketSizes,
            unit: "segments",
            variants: &["default", "2-mss", "fq", "bbr"],
            ..Picture::PLAIN
        },
        Picture {
            title: "Packets handed to IP",
            of: Of::Bars { figure: "ip_out_requests", beside: None },
            unit: "packets",
            ..Picture::PLAIN
        },
    ],
    short: &[],
};
