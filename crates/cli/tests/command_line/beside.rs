//! Linux in user mode beside the lab.
use super::*;

/// Counts of a guest whose processor others use vary, but for what the settings alone decide.
#[test]
fn the_lab_measures_linux_beside_itself() {
    if !lowwater_uml::present() {
        return;
    }
    let asked =
        ["lab", "run", "tso-autosize", "--variant", "default", "--variant", "2-mss", "--uml", "--json"];
    let ended = run(&mut lowwater(asked), GUEST).ok();
    let runs = runs(&ended);
    let of = |run: usize, whose: &str, figure: &str| runs[run][whose][figure].as_f64().expect("a number");
    for run in 0..2 {
        let (ours, linux) = (of(run, "figures", "tcp_out_segs"), of(run, "linux_now", "tcp_out_segs"));
        assert!((ours / linux - 1.0).abs() < 0.01, "{ours} segments here, {linux} there");
    }
    let packets = |run| of(run, "linux_now", "ip_out_requests");
    assert!((packets(1) - 694.0).abs() < 7.0 && packets(0) < packets(1) / 2.0, "{runs:?}");
}

/// The same for small queues: two packets of 64 kB are what they leave standing before a slow line; without them the queue fills.
#[test]
fn linux_beside_itself_has_small_queues_too() {
    if !lowwater_uml::present() {
        return;
    }
    let asked =
        ["lab", "run", "small-queues", "--variant", "tsq-100mbit", "--variant", "off-100mbit", "--uml"];
    let times = ["--json", "--set", "warmup_s=1", "--set", "measure_s=2"];
    let runs = runs(&run(&mut lowwater([&asked[..], &times].concat()), GUEST).ok());
    let of = |run: usize, whose: &str, figure: &str| runs[run][whose][figure].as_f64().expect("a number");
    let (most, mean) = ("backlog_bytes_max", "backlog_bytes_mean");
    assert!(of(0, "linux_now", most) < 150_000.0 && of(0, "figures", most) < 150_000.0, "{runs:?}");
    for whose in ["linux_now", "figures"] {
        assert!(of(1, whose, mean) > 4.0 * of(0, whose, mean), "{runs:?}");
    }
}

/// What `--set` makes another experiment is the same one there, and a sentence says where that cannot be.
#[test]
fn linux_beside_itself_follows_what_is_set() {
    if !lowwater_uml::present() {
        return;
    }
    let asked =
        ["lab", "run", "notsent-lowat", "--variant", "cubic-262144", "--variant", "cubic-262144-whole"];
    let set = [
        "flows=2",
        "rate_mbps=20",
        "rtt_ms=20",
        "queue_bytes=100000",
        "lowat=65536",
        "warmup_s=1",
        "measure_s=2",
    ];
    let set = set.iter().flat_map(|words| ["--set", words]);
    let words: Vec<&str> = asked.into_iter().chain(set).chain(["--uml", "--json", "--alone"]).collect();
    let ended = run(&mut lowwater(words), GUEST).ok();
    assert!(
        ended.stderr.contains(
            "notsent-lowat cubic-262144-whole runs without Linux: Linux 6.1 has no notsent_lowat_half"
        ),
        "{ended:?}"
    );
    let runs = runs(&ended);
    assert!(runs[1]["linux_now"].is_null(), "{runs:?}");
    let of = |whose: &str, figure: &str| runs[0][whose][figure].as_f64().expect("a number");
    // Rate, round trip and limit are the given ones: at 200 Mbit/s, 100 ms or 262,144 bytes all figures are others.
    for whose in ["figures", "linux_now"] {
        let (mbps, unsent) = (of(whose, "goodput_mbps"), of(whose, "unsent_bytes_per_flow"));
        assert!((17.0..20.0).contains(&mbps), "{whose}: {mbps} of 20 Mbit/s");
        assert!((20_000.0..131_072.0).contains(&unsent), "{whose}: {unsent} bytes unsent");
        assert!((20.0..90.0).contains(&of(whose, "srtt_ms")), "{runs:?}");
    }
}

/// What fails in the guest is said, in JSON too; what else was to be run is run, there and here.
#[test]
fn what_fails_beside_itself_ends_nothing_else() {
    if !lowwater_uml::present() {
        return;
    }
    // Longer than what tc can say.
    let asked = ["lab", "run", "notsent-lowat", "tso-autosize", "--set", "router=netem delay 5000s"];
    let others = ["--variant", "cubic-262144", "--variant", "2-mss", "--set", "warmup_s=0.1"];
    let times = ["--set", "measure_s=0.1", "--alone", "--uml", "--json"];
    let ended = run(&mut lowwater([&asked[..], &others, &times].concat()), GUEST);
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(
        ended.stderr.contains("lowwater: notsent-lowat cubic-262144 failed on Linux in user mode: tc qdisc ")
            && ended.stderr.ends_with("lowwater: failed on Linux in user mode: notsent-lowat cubic-262144\n"),
        "{ended:?}"
    );
    let runs = runs(&ended);
    assert!(runs[0]["linux_failed"].as_str().is_some_and(|why| why.contains("5000s")), "{runs:?}");
    assert!(runs[0]["linux_now"].is_null() && runs[0]["figures"].is_object(), "{runs:?}");
    assert!(runs[1]["linux_failed"].is_null() && runs[1]["linux_now"].is_object(), "{runs:?}");
}

/// The same for BBR's pace: the median gap is Linux's, whatever this machine does meanwhile.
#[test]
fn linux_beside_itself_paces_too() {
    if !lowwater_uml::present() {
        return;
    }
    if !lowwater_uml::can_stand_still() {
        return assert!(std::env::var_os("LOWWATER_REQUIRE_NET").is_none_or(|v| v != "1"), "needs cc");
    }
    let asked = ["lab", "run", "pacing", "--variant", "bbr-tbf-internal", "--uml", "--json"];
    let times = ["--set", "warmup_s=1", "--set", "measure_s=2"];
    let runs = runs(&run(&mut lowwater([&asked[..], &times].concat()), GUEST).ok());
    let of = |whose: &str, figure: &str| runs[0][whose][figure].as_f64().expect("a number");
    for (figure, part) in [("gap_us_p50", 0.03), ("goodput_mbps", 0.02), ("packets_per_s", 0.1)] {
        let (ours, linux) = (of("figures", figure), of("linux_now", figure));
        assert!((ours / linux - 1.0).abs() <= part, "{figure}: {ours} here, {linux} there");
    }
}

/// The same for a path that goes dark: nothing is lost or comes twice, and no timeout is shorter than its least.
#[test]
fn linux_beside_itself_finds_its_other_path_too() {
    if !lowwater_uml::present() {
        return;
    }
    let asked = ["lab", "run", "sctp-failover", "--variant", "rto-min-200ms", "--uml", "--json"];
    let times = ["--set", "warmup_s=1", "--set", "measure_s=2"];
    let runs = runs(&run(&mut lowwater([&asked[..], &times].concat()), GUEST).ok());
    let of = |whose: &str, figure: &str| runs[0][whose][figure].as_f64().expect("a number");
    for whose in ["linux_now", "figures"] {
        assert_eq!((of(whose, "messages_lost"), of(whose, "messages_duplicated")), (0.0, 0.0), "{runs:?}");
        // What was sent in the last round trip before the dark began waits the shortest.
        assert!(of(whose, "restored_s") > 0.15 && of(whose, "t3_rtx_expireds") >= 1.0, "{runs:?}");
    }
}
