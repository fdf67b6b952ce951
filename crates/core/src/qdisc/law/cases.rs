//! Every discipline and what the laws expect of it, with packets and with super-packets that it cuts or does not.
use super::*;
use crate::base::sysctl::QdiscKind;

/// Bytes per second of so many 10^6 bits.
const fn mbit(rate: u64) -> u64 {
    rate * 125_000
}

/// Bytes by which packets leave too early together, since each takes whole nanoseconds.
const ROUNDED: u64 = 64;

#[test]
fn fifos_obey() {
    let left = obeys("pfifo limit 30", Kind::packets(30));
    assert!(4 * left.segs > 5 * left.packets, "super-packets pass whole: {left:?}");
    obeys("bfifo limit 200kb", Kind::bytes(200 << 10));
    obeys("bfifo limit 20kb", Kind::bytes(20 << 10));
}

#[test]
fn fq_obeys() {
    obeys("fq limit 40 flow_limit 10", Kind::packets(40));
    obeys("fq maxrate 4mbit limit 40", Kind::packets(40));
    obeys("fq maxrate 300kbit limit 40", Kind::packets(40));
    obeys("fq maxrate 80mbit nopacing", Kind::packets(10_000));
    obeys("fq horizon 10us horizon_cap ce_threshold 1ms", Kind::packets(10_000));
    obeys("fq horizon 10us horizon_drop", Kind::packets(10_000));
}

#[test]
fn those_that_refuse_at_the_door_obey() {
    obeys("noqueue", Kind::packets(256));
    obeys("pfifo_fast", Kind::packets(1_000));
    for kind in QdiscKind::ALL {
        let most = if kind == QdiscKind::Noqueue { 256 } else { 0 };
        obeys(kind.name(), Kind::packets(most));
    }
}

#[test]
fn mq_obeys_whatever_is_in_its_queues() {
    obeys("mq queues 3", Kind::packets(3_000));
    for kind in QdiscKind::ALL {
        let make = || {
            let mut world = World::new();
            world.sysctl.default_qdisc = kind;
            ("mq queues 5".parse().expect("mq"), world)
        };
        obeys_in(&make, Kind::packets(if kind == QdiscKind::Noqueue { 5 * 256 } else { 0 }));
    }
}

/// Super-packets larger than the bucket are cut; those whose segments are (here of 4,000 bytes) are refused whole.
#[test]
fn tbf_obeys_whether_it_cuts_or_not() {
    let cut = obeys("tbf rate 5mbit burst 3kb limit 30kb", Kind::bytes(30 << 10).rate(mbit(5), 3 << 10));
    assert!(10 * cut.segs < 11 * cut.packets, "what does not fit the bucket was cut: {cut:?}");
    let whole =
        obeys("tbf rate 50mbit burst 70kb limit 300kb", Kind::bytes(300 << 10).rate(mbit(50), 70 << 10));
    assert!(4 * whole.segs > 5 * whole.packets, "what fits passes whole: {whole:?}");
    obeys("tbf rate 5mbit burst 5kb limit 30kb", Kind::bytes(30 << 10).rate(mbit(5), 5 << 10));
    let both = "tbf rate 5mbit burst 9kb latency 20ms peakrate 8mbit mtu 1500";
    obeys(both, Kind::bytes(22_000).rate(mbit(8), 1_500));
    obeys(both, Kind::ANY.rate(mbit(5), 9 << 10));
    for child in [
        "pfifo limit 20",
        "bfifo limit 20kb",
        "fq limit 20",
        "fq maxrate 1mbit limit 20",
        "pfifo_fast",
        "codel limit 30 target 1ms interval 10ms",
        "fq_codel limit 30 target 1ms interval 10ms",
        "fq_codel memory_limit 30kb",
        "tbf rate 4mbit burst 3kb limit 10kb child fq_codel",
    ] {
        obeys(&format!("tbf rate 5mbit burst 5kb child {child}"), Kind::ANY.rate(mbit(5), 5 << 10));
    }
    for child in ["netem delay 2ms", "netem loss 5%", "netem limit 20 rate 3mbit"] {
        let least = if child == "netem delay 2ms" { Duration::from_millis(2) } else { Duration::ZERO };
        let kind = Kind { delay: least, ..Kind::ANY.rate(mbit(5), 5 << 10) };
        obeys(&format!("tbf rate 5mbit burst 5kb child {child}"), kind);
    }
    let kind = Kind { disorders: true, corrupts: true, copies: 3, ..Kind::ANY.rate(mbit(50), 70 << 10) };
    obeys("tbf rate 50mbit burst 70kb child netem delay 1ms 1ms duplicate 10% corrupt 10%", kind);
}

#[test]
fn those_that_judge_what_they_have_taken_obey() {
    obeys("codel limit 50 target 100us interval 2ms", Kind::packets(50));
    obeys("codel limit 50 target 100us interval 2ms ecn ce_threshold 300us", Kind::packets(50));
    obeys("fq_codel limit 50 target 100us interval 2ms noecn", Kind::packets(50));
    obeys("fq_codel flows 2 limit 50 drop_batch 5 quantum 300", Kind::packets(50));
    obeys("fq_codel memory_limit 30kb", Kind { memory: 30 << 10, ..Kind::ANY });
    obeys("fq_codel memory_limit 300kb noecn", Kind { memory: 300 << 10, ..Kind::ANY });
}

/// Without jitter, twins and what is sent ahead, packets keep their order, and nothing comes too early or too fast.
#[test]
fn netem_keeps_order_where_nothing_disturbs_it() {
    let most = Kind::packets(1_000);
    let late = |us| Kind { delay: Duration::from_micros(us), ..most };
    obeys("netem", most);
    obeys("netem delay 2ms", late(2_000));
    obeys("netem loss 10% 25%", most);
    obeys("netem delay 1ms loss gemodel 5% 20% 80% 1%", late(1_000));
    obeys("netem loss state 5% 50% 10% 50% 1% ecn", most);
    obeys("netem rate 20mbit", most.rate(mbit(20), ROUNDED));
    obeys("netem delay 3ms rate 5mbit limit 50", Kind { packets: 50, ..late(3_000) }.rate(mbit(5), ROUNDED));
    obeys("netem rate 20mbit 20 48 5 loss gemodel 5% 20% 80% 1%", most.rate(mbit(20), ROUNDED));
    obeys("netem limit 20 rate 10mbit", Kind::packets(20).rate(mbit(10), ROUNDED));
    obeys("netem slot 1ms 3ms packets 4", Kind { slot: (4, Duration::from_millis(1)), ..most });
    obeys("netem delay 1ms slot 2ms packets 1", Kind { slot: (1, Duration::from_millis(2)), ..late(1_000) });
    obeys("netem delay 1ms slot distribution normal 1ms 300us bytes 5000", late(1_000));
    obeys("netem delay 1ms child pfifo limit 20", late(1_000));
    obeys("netem delay 2ms child tbf rate 5mbit burst 5kb limit 30kb", late(2_000).rate(mbit(5), 5 << 10));
    obeys("netem delay 1ms child fq_codel limit 20", late(1_000));
}

#[test]
fn netem_loses_doubles_strikes_and_disorders_by_the_laws() {
    let disorders = Kind { disorders: true, ..Kind::packets(1_000) };
    // As in Linux, whoever finds a place comes in with its twin.
    let twice = Kind { copies: 2, packets: 1_001, ..disorders };
    let struck = Kind { corrupts: true, ..disorders };
    let thrice = Kind { copies: 3, packets: 1_001, ..struck };
    obeys("netem delay 2ms 1ms 25% distribution normal loss 10% 25%", disorders);
    obeys("netem delay 1ms reorder 25% 50% gap 5", disorders);
    obeys("netem duplicate 20%", twice);
    obeys("netem duplicate 20% limit 30", Kind { packets: 31, ..twice });
    obeys("netem delay 2ms reorder 20% duplicate 5% child fq_codel", twice);
    obeys("netem corrupt 30%", struck);
    obeys("netem corrupt 30% limit 30", Kind { packets: 30, ..struck });
    obeys("netem corrupt 20% loss 20% 10% ecn slot 1ms packets 8", struck);
    obeys("netem delay 1ms 500us distribution pareto duplicate 10% corrupt 10%", thrice);
    obeys("netem rate 30mbit duplicate 10% corrupt 10% loss 5%", thrice.rate(mbit(30), ROUNDED));
    obeys("netem delay 2ms 1ms child tbf rate 5mbit burst 5kb limit 9kb", disorders.rate(mbit(5), 5 << 10));
    let all = "netem limit 60 delay 2ms 1ms 10% distribution normal loss gemodel 2% 30% 70% 1% duplicate 5% 10% \
               corrupt 5% 10% reorder 10% 20% gap 3 rate 40mbit 10 53 2 slot 500us 2ms packets 9 bytes 30000";
    obeys(all, Kind { packets: 61, ..thrice });
}
