//! Figures of scenarios: repeatable, complete, and as physics demands.
use super::*;
use lowwater_core::base::Duration;

/// Every scenario, small enough for a test.
fn all() -> Vec<Box<dyn Scenario>> {
    let second = Duration::from_secs(1);
    let common = || Common { times: (second, second), ..Common::default() };
    vec![
        Box::new(BulkParams { bytes: 500_000, loss_ppm: 5_000, ..BulkParams::default() }),
        Box::new(TsoAutosize::default()),
        Box::new(SmallQueues { rate: 20_000_000, common: common(), ..SmallQueues::default() }),
        Box::new(NotsentLowat {
            flows: 2,
            rate: 20_000_000,
            lowat: 131_072,
            common: common(),
            ..NotsentLowat::default()
        }),
        Box::new(QueueAware { rate: 10_000_000, flows: 2, ..QueueAware::default() }),
        Box::new(SctpHeartbeat {
            every: Duration::ZERO,
            becomes_ms: 400,
            common: common(),
            ..SctpHeartbeat::default()
        }),
        Box::new(SctpFailover { common: common(), ..SctpFailover::default() }),
        Box::new(Pacing { flows: 2, switch: "fq;pfifo_fast".into(), common: common(), ..Pacing::default() }),
    ]
}

fn run(scenario: &dyn Scenario) -> Figures {
    scenario.run(&mut |_| true).expect("no promise is broken")
}

#[test]
fn each_parameter_takes_its_own_value_and_refuses_what_is_none() {
    for mut scenario in all() {
        for setting in scenario.settings() {
            let own = setting.value.to_string();
            assert_eq!(scenario.set(setting.name, &own), Some(Ok(())), "{setting:?}");
            let refused =
                scenario.set(setting.name, "-1").expect("it is known").expect_err("nothing takes it");
            assert!(
                refused.contains(setting.name)
                    && (refused.contains(" from ") || refused.contains("; allowed: ")),
                "{refused}"
            );
            assert!(scenario.settings().contains(&setting));
        }
        assert_eq!(scenario.set("no such parameter", "1"), None);
    }
}

#[test]
fn the_same_parameters_give_the_same_figures() {
    for scenario in all() {
        let figures = run(&*scenario);
        assert!(figures == run(&*scenario.boxed()) && figures.complete, "{scenario:?}");
    }
}

#[test]
fn a_clean_path_is_filled_and_a_lossy_one_recovers() {
    let clean = BulkParams { rtt: Duration::from_millis(20), bytes: 10_000_000, ..BulkParams::default() };
    let f = bulk(&clean).expect("no promise is broken");
    let of = |f: &Figures, name| f.get(name).expect("a figure");
    assert!(f.complete && of(&f, "retrans_segs") == 0.0, "{:?}", f.named());
    assert!((70.0..100.0).contains(&of(&f, "goodput_mbps")), "{:?}", f.named());
    assert!(f.series.iter().any(|p| p.cwnd > 100));
    let lossy = BulkParams { loss_ppm: 10_000, bytes: 2_000_000, ..clean };
    let f = bulk(&lossy).expect("no promise is broken");
    assert!(f.complete && of(&f, "retrans_segs") > 0.0, "{:?}", f.named());
    // One in a hundred of some 1,400 segments, whatever packets they left the host in.
    assert!((7.0..28.0).contains(&of(&f, "dropped_packets")), "{:?}", f.named());
}

#[test]
fn a_round_trip_that_nobody_measured_is_no_round_trip_of_0() {
    let short = BulkParams { bytes: 100_000, ..BulkParams::default() };
    let f = bulk(&short).expect("no promise is broken");
    let mean = f.get("srtt_ms").expect("it was measured");
    assert!((100.0..110.0).contains(&mean) && f.series[0].srtt_ms.is_none(), "{mean}");
    let cut = bulk(&BulkParams { limit: Duration::from_millis(50), ..short }).expect("no promise is broken");
    assert!(cut.lacks("srtt_ms") && !cut.series.is_empty(), "{:?}", cut.named());
}

/// Nothing is dequeued before the device has room, so that a datagram above `fq` waits for the packet on the line and for no other.
#[test]
fn above_fq_a_probe_waits_for_one_packet() {
    let of = |qdisc: &str| {
        let times = (Duration::from_secs(1), Duration::from_secs(2));
        let common = Common { qdisc: qdisc.into(), times, ..Common::default() };
        let figures = run(&SmallQueues { rate: 100_000_000, common, ..SmallQueues::default() });
        // A packet's time on the line in ms, headers included.
        let packet = figures.get("segs_per_packet").expect("a figure") * 1_500.0 * 8.0 / 1e5;
        figures.get("probe_rtt_ms_max").expect("a figure") / packet
    };
    let (fq, fifo) = (of("fq"), of("pfifo"));
    assert!(fq < 1.2 && fifo > 1.8, "{fq} {fifo}");
}

#[test]
fn the_queue_aware_limit_holds_before_a_shaper() {
    let of = |rate: u64, flows, rtt_ms, completions| {
        let mut p = QueueAware { rate, flows, rtt: Duration::from_millis(rtt_ms), ..QueueAware::default() };
        for (key, value) in [("qdisc", "tbf"), ("completions", completions)] {
            assert_eq!(p.set(key, value), Some(Ok(())));
        }
        run(&p)
    };
    for figures in [of(100_000_000, 1, 20, "exact"), of(5_000_000, 4, 1, "late")] {
        assert_eq!(figures.get("holds"), Some(1.0), "{:?}", figures.named());
    }
}

/// A TUN as the driver of this project serves it: nothing waits there, and completions are told a turn later.
#[test]
fn before_a_device_that_keeps_nothing_packets_are_linux_s() {
    let of = |keeps| {
        let mut p = QueueAware { rate: 40_000_000_000, ring: 0, keeps, ..QueueAware::default() };
        for (key, value) in [("completions", "late"), ("rtt_ms", "1"), ("measure_s", "0.05")] {
            assert_eq!(p.set(key, value), Some(Ok(())));
        }
        let figures = run(&p);
        ["packets_per_mb", "linux_packets_per_mb", "estimated_percent"].map(|name| figures.get(name))
    };
    let [ours, linux, estimated] = of(false);
    assert_eq!((ours, estimated), (linux, Some(0.0)));
    let [_, _, estimated] = of(true);
    assert!(estimated > Some(0.0), "where packets wait late news is a queue");
    // A shaper above such a device is a queue of the flow's own.
    let mut p = QueueAware { keeps: false, ..QueueAware::default() };
    for (key, value) in [("qdisc", "tbf"), ("completions", "late")] {
        assert_eq!(p.set(key, value), Some(Ok(())));
    }
    let figures = run(&p);
    assert_eq!(figures.get("holds"), Some(1.0), "{:?}", figures.named());
    assert!(figures.get("estimated_percent") > Some(90.0), "{:?}", figures.named());
}

/// A flow that is paced to a tenth of its line: `fq` holds its packets until their time, which is no queue.
#[test]
fn a_paced_flow_above_fq_has_linux_s_packets() {
    let mut p = QueueAware { rate: 1_000_000_000, rate_max: 100_000_000, ..QueueAware::default() };
    for (key, value) in [("qdisc", "fq"), ("rtt_ms", "1"), ("measure_s", "1")] {
        assert_eq!(p.set(key, value), Some(Ok(())));
    }
    let figures = run(&p);
    assert_eq!(figures.get("packets_per_mb"), figures.get("linux_packets_per_mb"));
    assert_eq!(figures.get("estimated_percent"), Some(0.0), "{:?}", figures.named());
    // Where the pace is more than the line takes there is a queue.
    p.rate_max = 2_000_000_000;
    assert!(run(&p).get("estimated_percent") > Some(90.0));
}

/// What a flow gets of a FIFO follows what it lets stand there: the limit must pull the flows together, and not keep what chance gave them.
#[test]
fn flows_before_one_fifo_get_the_same() {
    let mut p = QueueAware { rate: 10_000_000_000, flows: 64, ..QueueAware::default() };
    for (key, value) in [("rtt_ms", "1"), ("measure_s", "0.1")] {
        assert_eq!(p.set(key, value), Some(Ok(())));
    }
    let figures = run(&p);
    assert!(figures.get("fairness") > Some(0.93), "{:?}", figures.named());
    assert_eq!(figures.get("holds"), Some(1.0), "{:?}", figures.named());
}

/// An application that writes now and then: what its queue passes on is known from the times before.
#[test]
fn pauses_do_not_make_a_queue_forgotten() {
    for (rate_mbps, rtt_ms) in [("5", "1"), ("100", "1"), ("1000", "20")] {
        let mut p = QueueAware::default();
        let knobs = [("rate_mbps", rate_mbps), ("rtt_ms", rtt_ms), ("app_percent", "50"), ("qdisc", "fq")];
        knobs.into_iter().for_each(|(key, value)| assert_eq!(p.set(key, value), Some(Ok(()))));
        let figures = run(&p);
        assert_eq!(figures.get("holds"), Some(1.0), "{rate_mbps} {:?}", figures.named());
        assert!(figures.get("linux_queue_over_bound") > Some(1.0), "Linux's rule lets more stand");
    }
}

/// Many flows before a queue of their own that holds two packets: Linux gives a part of them up after some seconds too (TCPAbortOnTimeout), which is a
/// figure and no broken promise.
#[test]
fn flows_that_are_given_up_are_counted() {
    let mut p = NotsentLowat::default();
    let knobs = [
        ("flows", "100"),
        ("rtt_ms", "5"),
        ("sndbuf", "200000"),
        ("qdisc", "tbf rate 1486kbit burst 69353 limit 148613"),
        ("rate_mbps", "10000"),
        ("queue_bytes", "0"),
        ("measure_s", "4"),
    ];
    knobs.into_iter().for_each(|(key, value)| assert_eq!(p.set(key, value), Some(Ok(()))));
    let figures = run(&p);
    assert!(
        (1.0..100.0).contains(&figures.get("aborted_flows").unwrap_or_default()),
        "{:?}",
        figures.named()
    );
    assert!(figures.complete && figures.get("goodput_mbps") > Some(1.0), "{:?}", figures.named());
}

#[test]
fn a_refused_value_is_told_the_unit() {
    let mut p = NotsentLowat::default();
    let cases = [
        ("rate_mbps", "a number of Mbit/s from"),
        ("rtt_ms", "a number of milliseconds from"),
        ("warmup_s", "a number of seconds from"),
        ("queue_bytes", "a whole number of bytes from"),
        ("flows", "a whole number from"),
    ];
    for (key, wanted) in cases {
        let refused = p.set(key, "x").expect("it is known").expect_err("no number");
        assert!(refused.contains(wanted), "{refused}");
    }
}
