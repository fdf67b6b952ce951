//! What is sent through which discipline.
use super::Frame;

/// One comparison.
#[derive(Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// The discipline in our words, which are `tc`'s but for "child".
    pub words: &'static str,
    /// What is sent.
    pub load: fn() -> Vec<Frame>,
    /// What of the counts must be the same, by the depth of the discipline and its name there.
    pub counts: &'static [(usize, &'static str)],
    /// Drops and marks follow from times: the discipline inside is asked when the guest's bucket let a frame go, and they may be some
    /// frames apart.
    pub timed: bool,
    /// Which bit is struck is chance: only lengths are compared.
    pub lengths: bool,
}

/// The case of that name.
#[must_use]
pub fn case(name: &str) -> Option<&'static Case> {
    CASES.iter().find(|case| case.name == name)
}

const FRAME: Frame = Frame { at_us: 0, flow: 1, number: 0, len: 1_000, tos: 0, gso: 0, depart_us: 0 };

/// So many frames of one flow at once.
fn burst(n: u16) -> Vec<Frame> {
    (1..=n).map(|number| Frame { number, ..FRAME }).collect()
}

/// Three flows at once: one frame of each in turn, of different lengths.
fn three_flows() -> Vec<Frame> {
    let one = |number: u16| {
        let flow = number % 3 + 1;
        Frame { number, flow, len: 400 * flow, ..FRAME }
    };
    (0..36).map(one).collect()
}

/// One flow with a backlog, then sparse ones.
fn fat_and_thin() -> Vec<Frame> {
    let mut load = burst(40);
    load.extend((41..49).map(|number| Frame { number, flow: number, len: 100, at_us: 30_000, ..FRAME }));
    load
}

/// A queue that stands for about two seconds: a frame leaves every five milliseconds and one comes.
fn standing(tos: u8) -> Vec<Frame> {
    let one = |number: u16| {
        let at_us = u64::from(number.saturating_sub(40)) * 5_000;
        Frame { number, at_us, tos, len: 1_458, ..FRAME }
    };
    (1..300).map(one).collect()
}

fn standing_plain() -> Vec<Frame> {
    standing(0)
}

fn standing_ect() -> Vec<Frame> {
    standing(2)
}

/// A hundred frames at once, of which each waits five milliseconds longer.
fn ramp_ect() -> Vec<Frame> {
    (1..=100).map(|number| Frame { number, tos: 2, len: 1_458, ..FRAME }).collect()
}

/// Frames of one flow with departure times out of order, one of them beyond a second.
fn departures() -> Vec<Frame> {
    [30_000, 10_000, 20_000, 2_000_000, 40_000, 40_000, 5_000]
        .iter()
        .zip(1..)
        .map(|(&depart_us, number)| Frame { number, depart_us, ..FRAME })
        .collect()
}

/// Super-packets of ten segments, of one, and plain frames between.
fn supers() -> Vec<Frame> {
    let big = |number, len| Frame { number, len, gso: 1_000, ..FRAME };
    vec![big(100, 10_000), Frame { number: 200, ..FRAME }, big(300, 2_500), big(400, 20_000)]
}

fn one_super() -> Vec<Frame> {
    vec![Frame { number: 100, len: 10_000, gso: 1_000, ..FRAME }]
}

/// Types of service that mean each of the bands.
fn services() -> Vec<Frame> {
    let tos = [0x00, 0x08, 0x10, 0x18, 0x04, 0x02, 0x0a, 0x14];
    (0..24).map(|number| Frame { number, tos: tos[usize::from(number) % tos.len()], ..FRAME }).collect()
}

/// Ten frames, and ten more when the first are under way.
fn two_bursts() -> Vec<Frame> {
    let mut load = burst(10);
    load.extend((11..=20).map(|number| Frame { number, at_us: 30_000, ..FRAME }));
    load
}

/// What every discipline counts.
const ALL: &[(usize, &str)] =
    &[(0, "bytes"), (0, "packets"), (0, "drops"), (0, "requeues"), (0, "qlen"), (0, "backlog")];
/// The same of one inside too.
const BOTH: &[(usize, &str)] =
    &[(0, "bytes"), (0, "packets"), (0, "drops"), (0, "qlen"), (1, "drops"), (1, "qlen")];

const fn same(name: &'static str, words: &'static str, load: fn() -> Vec<Frame>) -> Case {
    Case { name, words, load, counts: ALL, timed: false, lengths: false }
}

const fn inside(name: &'static str, words: &'static str, load: fn() -> Vec<Frame>) -> Case {
    Case { counts: BOTH, ..same(name, words, load) }
}

/// All of them. A bucket that one frame empties stands for a slow device.
pub const CASES: &[Case] = &[
    inside("pfifo", "tbf rate 500kbit burst 1600 limit 1mb child pfifo limit 10", || burst(30)),
    inside("bfifo", "tbf rate 500kbit burst 1600 limit 1mb child bfifo limit 9000", || burst(30)),
    inside("pfifo_fast", "tbf rate 500kbit burst 1600 limit 1mb child pfifo_fast", services),
    inside(
        "fq-turns",
        "tbf rate 500kbit burst 1600 limit 1mb child fq orphan_mask 1048575 quantum 1500 initial_quantum 3000",
        three_flows,
    ),
    inside("fq-new", "tbf rate 500kbit burst 1600 limit 1mb child fq orphan_mask 1048575", fat_and_thin),
    inside(
        "fq-limit",
        "tbf rate 500kbit burst 1600 limit 1mb child fq orphan_mask 1048575 limit 12",
        three_flows,
    ),
    Case {
        counts: &[
            (0, "drops"),
            (1, "drops"),
            (1, "flows_plimit"),
            (1, "throttled"),
            (1, "gc"),
            (1, "highprio"),
        ],
        ..inside(
            "fq-flow-limit",
            "tbf rate 500kbit burst 1600 limit 1mb child fq orphan_mask 1048575 flow_limit 5",
            three_flows,
        )
    },
    Case {
        counts: &[
            (0, "drops"),
            (0, "packets"),
            (0, "horizon_drops"),
            (0, "overlimits"),
            (0, "flows"),
            (0, "inactive"),
        ],
        ..same("fq-departures", "fq horizon 1s", departures)
    },
    Case {
        counts: &[(0, "drops"), (0, "packets"), (0, "horizon_caps"), (0, "overlimits")],
        ..same("fq-horizon-cap", "fq horizon 100ms horizon_cap", departures)
    },
    Case {
        counts: &[(0, "drops"), (0, "packets"), (0, "throttled"), (0, "overlimits"), (0, "pkts_too_long")],
        ..same("fq-maxrate", "fq maxrate 800kbit initial_quantum 3000 quantum 2000", || burst(12))
    },
    Case {
        counts: &[(0, "packets"), (0, "throttled"), (0, "pkts_too_long")],
        ..same("fq-too-long", "fq maxrate 4kbit initial_quantum 1100 quantum 1000", || burst(2))
    },
    inside(
        "fq_codel-turns",
        "tbf rate 500kbit burst 1600 limit 1mb child fq_codel flows 65535 quantum 700 target 10s",
        three_flows,
    ),
    inside(
        "fq_codel-new",
        "tbf rate 500kbit burst 1600 limit 1mb child fq_codel flows 65535 target 10s",
        fat_and_thin,
    ),
    Case {
        counts: &[
            (0, "drops"),
            (1, "drops"),
            (1, "drop_overlimit"),
            (1, "new_flow_count"),
            (1, "maxpacket"),
            (1, "ecn_mark"),
        ],
        ..inside(
            "fq_codel-limit",
            "tbf rate 500kbit burst 1600 limit 1mb child fq_codel flows 65535 limit 16 drop_batch 3 target 10s",
            three_flows,
        )
    },
    Case {
        counts: &[(0, "drops"), (1, "drops"), (1, "drop_overmemory"), (1, "drop_overlimit")],
        ..inside(
            "fq_codel-memory",
            "tbf rate 500kbit burst 1600 limit 1mb child fq_codel flows 65535 memory_limit 30kb drop_batch 3 target 10s",
            || burst(30),
        )
    },
    Case {
        timed: true,
        ..inside("codel", "tbf rate 2400kbit burst 15000 limit 1mb child codel", standing_plain)
    },
    Case {
        timed: true,
        ..inside("codel-ecn", "tbf rate 2400kbit burst 15000 limit 1mb child codel ecn", standing_ect)
    },
    Case {
        timed: true,
        ..inside(
            "codel-threshold",
            "tbf rate 2400kbit burst 15000 limit 1mb child codel target 10s ce_threshold 202ms",
            ramp_ect,
        )
    },
    Case {
        timed: true,
        ..inside("fq_codel", "tbf rate 2400kbit burst 15000 limit 1mb child fq_codel noecn", standing_plain)
    },
    same("tbf", "tbf rate 800kbit burst 5000 limit 20000", || burst(30)),
    same("tbf-peak", "tbf rate 800kbit burst 5000 limit 30000 peakrate 1600kbit mtu 1600", || burst(20)),
    // A packet socket does not say how many segments its super-packets have, so Linux counts none.
    Case {
        counts: &[(0, "bytes"), (0, "drops")],
        ..same("tbf-cuts", "tbf rate 2mbit burst 5000 limit 100000", supers)
    },
    same("tbf-cuts-some", "tbf rate 2mbit burst 5000 limit 8000", one_super),
    same("tbf-cannot-cut", "tbf rate 2mbit burst 1000 limit 100000", one_super),
    same("netem", "netem delay 20ms", two_bursts),
    same("netem-limit", "netem delay 20ms limit 5", two_bursts),
    same("netem-loss", "netem loss 100%", || burst(5)),
    same("netem-loss-twin", "netem loss 100% duplicate 100%", || burst(5)),
    // Chances of nothing and of all make the models of loss exact: from state to state with each frame.
    same("netem-gilbert", "netem loss gemodel 100% 100%", || burst(10)),
    same("netem-gilbert-stays", "netem loss gemodel 100% 0%", || burst(10)),
    same("netem-gilbert-elliott", "netem loss gemodel 100% 100% 0% 100%", || burst(10)),
    same("netem-loss-states", "netem loss state 100% 100%", || burst(10)),
    same("netem-loss-states-burst", "netem loss state 100% 0% 100% 100%", || burst(10)),
    same("netem-loss-states-single", "netem loss state 0% 100% 0% 0% 100%", || burst(10)),
    same("netem-duplicate", "netem delay 20ms duplicate 100%", || burst(5)),
    same("netem-duplicate-limit", "netem delay 20ms duplicate 100% limit 5", || burst(5)),
    same("netem-reorder", "netem delay 50ms reorder 100% gap 4", two_bursts),
    same("netem-twins-reorder", "netem delay 20ms duplicate 100% reorder 100% gap 3", || burst(7)),
    same("netem-rate", "netem rate 800kbit delay 20ms", two_bursts),
    same("netem-rate-reorder", "netem rate 800kbit delay 20ms reorder 100% gap 5", two_bursts),
    Case { lengths: true, ..same("netem-corrupt", "netem delay 20ms corrupt 100%", || burst(5)) },
    Case { lengths: true, ..same("netem-corrupt-super", "netem delay 20ms corrupt 100%", one_super) },
    Case {
        lengths: true,
        ..same("netem-corrupt-twin-super", "netem delay 20ms corrupt 100% duplicate 100%", one_super)
    },
    same("netem-slot", "netem slot 50ms packets 3", two_bursts),
    same("netem-slot-bytes", "netem delay 10ms slot 40ms bytes 2500", two_bursts),
    same("netem-slot-reorder", "netem delay 10ms slot 40ms packets 2 reorder 100% gap 4", two_bursts),
    inside("netem-child", "netem delay 10ms slot 40ms child pfifo limit 4", || burst(10)),
    inside(
        "netem-child-rate",
        "netem delay 10ms slot 40ms child tbf rate 800kbit burst 1600 limit 6000",
        || burst(10),
    ),
];
