//! The lab: what runs, what is printed and written.
use super::*;

#[test]
fn the_lab_lists_what_it_can_do() {
    let text = say(&["lab", "list"]).ok().stdout;
    for wanted in
        ["bulk", "cubic-hystart++", "reno", "rtt_ms", "loss_percent", "notsent-lowat", "tso-autosize"]
    {
        assert!(text.contains(wanted), "{text}");
    }
    let json = say(&["lab", "list", "--json"]).ok().stdout;
    let listed: Vec<Value> = json.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let names: Vec<_> = listed.iter().map(|e| e["experiment"].as_str().unwrap_or_default()).collect();
    let all = [
        "notsent-lowat",
        "small-queues",
        "tso-autosize",
        "pacing",
        "queue-aware",
        "sctp-heartbeat",
        "sctp-failover",
        "bulk",
    ];
    assert_eq!(names, all);
    // As much as the text says.
    let variant = |experiment: usize, name: &str| {
        let variants = listed[experiment]["variants"].as_array().expect("a list");
        variants.iter().find(|v| v["name"] == name).expect("a variant").clone()
    };
    let reno = variant(7, "reno");
    assert_eq!((&reno["in_run"], &reno["in_lab"]), (&true.into(), &true.into()));
    assert_eq!(reno["each_with"]["loss_percent"], serde_json::json!(["0", "0.1", "1"]));
    let (point, caps) = (variant(0, "cubic-16384"), variant(1, "caps"));
    assert_eq!((&point["in_run"], &point["in_lab"]), (&true.into(), &false.into()));
    assert_eq!((&caps["in_run"], &caps["in_lab"]), (&false.into(), &false.into()));
    assert_eq!(caps["each_with"]["qdisc"], serde_json::json!(["pfifo_fast", "fq"]));
}

#[test]
fn the_lab_lists_one_experiment_by_its_name() {
    let whole = say(&["lab", "list"]).ok().stdout;
    let text = say(&["lab", "list", "bulk"]).ok().stdout;
    assert!(text.starts_with("bulk: ") && whole.ends_with(&text) && text.len() < whole.len(), "{text}");
    assert_eq!(say(&["lab", "list", "bulk", "bulk"]).ok().stdout, text);
    let json = say(&["lab", "list", "bulk", "pacing", "--json"]).ok().stdout;
    let names: Vec<Value> = json.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let names: Vec<_> = names.iter().map(|e| e["experiment"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["bulk", "pacing"]);
    let ended = say(&["lab", "list", "bulky"]);
    assert!(ended.code() == Some(2) && ended.stderr.contains("there is no experiment bulky"), "{ended:?}");
}

/// Events of the simulator in all runs of `lowwater lab`. That is all that its time depends on, but for what an event costs (tests/instructions.rs) and for
/// the machine. The same seed has the same events on every machine.
const EVENTS_MAX: u64 = 10_000_000;

/// Together they take less than a minute on two cores, as docs/cli.md says: counted is the work, since a busy machine takes longer.
#[test]
fn all_experiments_are_no_more_work_than_said_and_print_a_table() {
    let dir = Dir::new();
    let ended = say(&["lab", "--out", &dir.path().display().to_string()]).ok();
    let all = std::fs::read_to_string(dir.join("runs.jsonl")).expect("it was written");
    let events = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["events"].as_u64();
    let events: Vec<u64> = all.lines().map(|line| events(line).expect("a number")).collect();
    assert!(events.iter().all(|n| *n > 0), "each run has its share: {events:?}");
    let sum: u64 = events.iter().sum();
    println!("{} runs, {sum} events", events.len());
    assert!(sum <= EVENTS_MAX, "{sum} events");
    let rows = |of: &str| ended.stdout.lines().filter(|l| l.starts_with(&format!("│ {of}"))).count();
    assert_eq!((rows("cubic"), rows("reno")), (12 + 3 + 3, 3), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("not compared: Linux's figures") && ended.stdout.contains("commit 232"),
        "{}",
        ended.stdout
    );
    // What may not be compared does not stand beside what it would be compared with; JSON has it by its name.
    assert!(!ended.stdout.contains(" full "), "{}", ended.stdout);
    assert!(all.contains("\"linux_full\""), "{all}");
    let said: Vec<_> = ended.stderr.lines().collect();
    let page = dir.join("report.html");
    let told = format!("lowwater: tables and pictures for a browser: {}", page.display());
    assert_eq!(said, [told], "no bar without a terminal");
    let (data, _) = report(&std::fs::read_to_string(page).expect("it was written"));
    assert!(data["experiments"].as_array().is_some_and(|all| all.iter().all(has_pictures)), "{data}");
    assert!(!data.to_string().contains("Linux full"), "{data}");
    // Some of these run in full and begin to measure later: all lines begin together.
    let queue = &data["experiments"][1]["pictures"][1];
    let begins = |line: &Value| line["x"][0].as_f64().is_some_and(|at_s| (0.0..0.1).contains(&at_s));
    assert_eq!((&queue["x"], queue["kind"].as_str()), (&"s of the measured time".into(), Some("lines")));
    assert!(
        queue["lines"].as_array().is_some_and(|lines| lines.len() == 5 && lines.iter().all(begins)),
        "{queue}"
    );
}

#[test]
fn json_has_one_object_per_run_and_the_same_seed_gives_the_same_figures() {
    let args = ["lab", "run", "bulk", "--json", "--set", "bytes=3000000", "--seed", "7"];
    let (first, second) = (runs(&say(&args).ok()), runs(&say(&args).ok()));
    assert_eq!(first.len(), 18);
    assert_eq!(first, second);
    for run in &first {
        assert_eq!(
            (&run["experiment"], &run["seed"], &run["complete"]),
            (&"bulk".into(), &7.into(), &true.into())
        );
        assert_eq!(run["params"]["bytes"], 3_000_000);
        assert!(run["virtual_s"].as_f64() > Some(0.2), "{run}");
        for figure in
            ["goodput_mbps", "retrans_segs", "srtt_ms", "backlog_bytes_max", "segs_per_packet", "elapsed_s"]
        {
            assert!(run["figures"][figure].is_number(), "{figure}: {run}");
        }
    }
    let other = runs(&say(&[&args[..7], &["8"]].concat()).ok());
    let lossy = |runs: &[Value]| {
        runs.iter().filter(|r| r["params"]["loss_percent"] != 0.0).cloned().collect::<Vec<_>>()
    };
    assert_ne!(lossy(&first)[0]["figures"], lossy(&other)[0]["figures"]);
}

#[test]
fn variants_and_settings_act() {
    let ended = say(&[
        "lab",
        "run",
        "bulk",
        "--json",
        "--variant",
        "cubic",
        "--variant",
        "cubic-no-sack",
        "--set",
        "loss_percent=0.5",
        "--set",
        "bytes=3000000",
    ]);
    let runs = runs(&ended.ok());
    let names: Vec<_> = runs.iter().map(|r| r["variant"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["cubic", "cubic-no-sack"]);
    assert_eq!(runs[1]["params"]["tcp_sack"], "0");
    assert!(runs[0]["params"].get("tcp_sack").is_none(), "only what differs from the defaults is listed");
    assert_ne!(runs[0]["figures"], runs[1]["figures"]);
}

#[test]
fn several_seeds_are_a_row_of_medians_and_an_object_each() {
    let words = ["lab", "run", "bulk", "--variant", "reno/1%", "--set", "bytes=3000000", "--seed", "4"];
    let asked = |more: &[&str]| say(&[&words[..], &["--seeds", "3"], more].concat()).ok();
    let all = runs(&asked(&["--json"]));
    assert_eq!(all.iter().map(|run| &run["seed"]).collect::<Vec<_>>(), [4, 5, 6]);
    // Each is the run that its seed alone is.
    let alone = runs(&say(&[&words[..8], &["5", "--json"]].concat()).ok());
    assert_eq!(all[1]["figures"], alone[0]["figures"]);
    let mut retrans: Vec<_> =
        all.iter().map(|run| run["figures"]["retrans_segs"].as_f64().expect("a number")).collect();
    retrans.sort_by(f64::total_cmp);
    let [least, middle, most] = retrans[..] else { panic!("{retrans:?}") };
    assert!(least < most, "chance acts: {retrans:?}");
    let dir = Dir::new();
    let table = asked(&["--out", &dir.path().display().to_string()]).stdout;
    assert!(table.contains("medians of 3 seeds, 4 to 6"), "{table}");
    let row = table.lines().find(|line| line.contains("reno/1%")).expect("a row");
    assert!(row.split_whitespace().any(|cell| cell == middle.to_string()), "{middle}: {table}");
    assert!(table.contains(&format!(" {least} to {most} ")), "{table}");
    for seed in ["4", "5", "6"] {
        let samples = std::fs::read_to_string(dir.path().join(format!("bulk-reno-1pct-seed{seed}.csv")));
        assert!(samples.expect("it was written").lines().count() > 10, "each has its samples");
    }
}

#[test]
fn a_probe_that_never_comes_back_has_no_time() {
    // A packet takes 0.6 s, and it is looked for 0.1 s.
    let run = |more: &[&str]| {
        let asked = ["lab", "run", "small-queues", "--variant", "tsq-100mbit"];
        let set = ["--alone", "--set", "rate_mbps=0.02", "--set", "measure_s=0.1"];
        say(&[&asked[..], &set, more].concat()).ok()
    };
    let object = &runs(&run(&["--json"]))[0];
    for figure in ["probe_rtt_ms_min", "probe_rtt_ms_mean", "probe_rtt_ms_max"] {
        assert_eq!(object["figures"].get(figure), Some(&Value::Null), "{object}");
    }
    let table = run(&[]).stdout;
    let row = table.lines().find(|line| line.contains("tsq-100mbit  ")).expect("a row");
    assert_eq!(row.split_whitespace().filter(|cell| *cell == "-").count(), 3, "{table}");
}

#[test]
fn a_flow_that_linux_would_give_up_is_a_figure_in_every_experiment() {
    let dark = "qdisc=netem loss 100%";
    let cases: [&[&str]; 5] = [
        &["bulk", "--variant", "cubic", "--set", "loss_percent=30", "--set", "tcp_retries2=3"],
        &["bulk", "--variant", "cubic", "--set", "loss_percent=100"],
        &["bulk", "--variant", "cubic/0%", "--set", dark, "--alone"],
        &["tso-autosize", "--variant", "default", "--set", dark, "--set", "limit_s=200", "--alone"],
        &["notsent-lowat", "--variant", "cubic-unset", "--set", dark, "--set", "measure_s=130", "--alone"],
    ];
    for case in cases {
        let words = [&["lab", "run"], case].concat();
        let table = say(&words).ok().stdout;
        assert!(table.contains("ended with ETIMEDOUT") && !table.contains(": 1 flows"), "{case:?}: {table}");
        let all = runs(&say(&[&words[..], &["--json"]].concat()).ok());
        let object = all.last().expect("a run");
        assert!(object["figures"]["aborted_flows"].as_f64() >= Some(1.0), "{object}");
    }
}

#[test]
fn a_run_in_which_nothing_came_says_so_and_has_no_time() {
    let dark = ["lab", "run", "notsent-lowat", "--variant", "cubic-unset", "--alone"];
    let table = say(&[&dark[..], &["--set", "router=netem loss 100%"]].concat()).ok().stdout;
    let said = "nothing came: cubic-unset: no flow connected in 13.0 s, so its figures measure nothing";
    assert!(table.contains(said), "{table}");
    let mute = ["lab", "run", "bulk", "--variant", "cubic/0%", "--alone", "--set", "tcp_rmem=1 1 1"];
    let table = say(&mute).ok().stdout;
    assert!(table.contains("nothing came: cubic/0%: flows connected, and no payload"), "{table}");
    let row = table.lines().find(|line| line.contains("cubic/0%")).expect("a row");
    assert!(row.contains(" - ") && !row.contains("-0."), "{table}");
    let object = &runs(&say(&[&mute[..], &["--json"]].concat()).ok())[0];
    assert_eq!(object["figures"].get("elapsed_s"), Some(&Value::Null), "{object}");
    let dir = Dir::new();
    let file = dir.join("page.html").display().to_string();
    say(&[&mute[..], &["--report", &file]].concat()).ok();
    let (data, _) = report(&std::fs::read_to_string(&file).expect("it was written"));
    assert!(data["experiments"][0]["verdicts"].to_string().contains("nothing came: "), "{data}");
}

#[test]
fn what_a_default_decides_of_bbr_is_said_where_it_does_until_it_is_set() {
    let run = |case: &[&str], more: &[&str]| {
        let asked = ["lab", "run", "bulk", "--variant", "bbr/0%", "--alone"];
        let set = case.iter().flat_map(|set| ["--set", set]).collect::<Vec<_>>();
        say(&[&asked[..], &set, more].concat()).ok()
    };
    let again = |case: &[&str]| runs(&run(case, &["--json"]))[0]["figures"]["retrans_segs"].as_f64();
    let note = "bbr: the 4 MiB of tcp_wmem are too few to leave STARTUP";
    let (long, larger) = ("bytes=21000000", "tcp_wmem=4096 262144 64000000");
    for (case, told) in [
        (&[long][..], true),
        (&["bytes=16000000", "rtt_ms=76"], true),
        // STARTUP is over, or nothing is lost.
        (&["bytes=10000000"], false),
        (&["bytes=3000000"], false),
        (&[long, "queue_bytes=3000000"], false),
        // The buffer holds all that STARTUP asks for, or so little that the queue keeps it.
        (&[long, "rtt_ms=75"], false),
        (&[long, "rtt_ms=40"], false),
        (&["bytes=43000000", "rtt_ms=210"], false),
    ] {
        let (with, without) = (again(case).expect("a number"), again(&[case, &[larger]].concat()));
        let without = without.expect("a number");
        assert_eq!(without < 0.8 * with, told, "{case:?}: {with} and {without}");
        assert_eq!(run(case, &[]).stdout.matches(note).count(), usize::from(told), "{case:?}");
    }
    assert!(!run(&[long, larger], &[]).stdout.contains(note));
    assert!(!run(&[long, "tcp_congestion_control=reno"], &[]).stdout.contains(note));
    assert!(!run(&[long, "flows=2"], &[]).stdout.contains(note));
}

/// What the page tells of it: with the larger buffer most retransmissions are gone.
#[test]
fn a_larger_send_buffer_lets_bbr_leave_startup() {
    let asked = ["lab", "run", "bulk", "--variant", "bbr/0%", "--json"];
    let told = runs(&say(&[&asked[..], &["--set", "tcp_wmem=4096 262144 64000000"]].concat()).ok());
    let times = told[1]["times"]["retrans_segs"].as_f64().expect("a number");
    assert!(times < 0.5, "{told:?}");
    let of = |figure: &str| told[0]["figures"][figure].as_f64().expect("a number");
    assert!(of("dropped_packets") * 10.0 < of("retrans_segs"), "super-packets: {told:?}");
}

#[test]
fn a_parameter_of_another_experiment_is_told_whose_it_is() {
    let ended = say(&["lab", "run", "bulk", "--set", "lowat=1"]);
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("no parameter of bulk: notsent-lowat has it"), "{ended:?}");
}

#[test]
fn files_have_the_runs_and_the_samples() {
    let dir = Dir::new();
    let mut command = lowwater(["lab", "--variant", "reno/0%", "--set", "bytes=1000000", "--out"]);
    run(command.arg(dir.path()), SOON).ok();
    let lines = std::fs::read_to_string(dir.join("runs.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 1);
    let csv = std::fs::read_to_string(dir.join(Path::new("bulk-reno-0pct.csv"))).unwrap();
    assert!(csv.starts_with("at_s,flow,cwnd") && csv.lines().count() > 10, "{csv}");
}

#[test]
fn files_go_into_a_directory() {
    let dir = Dir::new();
    let file = dir.join("file");
    std::fs::write(&file, "KEEP").expect("a file");
    let ended = run(lowwater(["lab", "run", "bulk", "--out"]).arg(&file), SOON);
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(
        ended.stderr.contains("--out takes a directory, and ") && ended.stderr.ends_with("file is none\n"),
        "{ended:?}"
    );
}

/// Words after `lab run`, shortened.
pub(super) fn shortened(words: &[&str]) -> Ended {
    let times = ["--set", "warmup_s=0.5", "--set", "measure_s=0.5"];
    say(&[&["lab", "run"], words, &times].concat()).ok()
}

#[test]
fn what_was_changed_stands_in_the_heading_and_pictures_have_what_was_asked_for() {
    let dir = Dir::new();
    let file = dir.join("page.html").display().to_string();
    let asked = ["notsent-lowat", "--variant", "cubic-unset", "--variant", "cubic-16384"];
    let set = ["--set", "flows=8", "--set", "rate_mbps=50", "--set", "rtt_ms=80", "--report", &file];
    let ended = shortened(&[&asked[..], &set, &["--alone"]].concat());
    let changed = "changed by --set: flows=8, rate_mbps=50, rtt_ms=80, warmup_s=0.5, measure_s=0.5";
    let heading: Vec<_> = ended.stdout.lines().take(2).collect();
    assert!(
        heading[0].ends_with("TCP_NOTSENT_LOWAT, 50 Mbit/s and 80 ms") && heading[1] == changed,
        "{heading:?}"
    );
    let (data, _) = report(&std::fs::read_to_string(&file).expect("it was written"));
    let section = &data["experiments"][0];
    assert_eq!(section["changed"], changed);
    assert_eq!(
        section["command"],
        "lowwater lab run notsent-lowat --variant cubic-unset --variant cubic-16384 --set flows=8 --set rate_mbps=50 \
         --set rtt_ms=80 --set warmup_s=0.5 --set measure_s=0.5 --alone"
    );
    assert_eq!(section["rows"][0]["about"], "8 flows by cubic, SO_SNDBUF 4,000,000, limit none");
    let pictures = section["pictures"].as_array().expect("a list");
    for of in pictures {
        let drawn = of["lines"].as_array().or(of["rows"].as_array()).expect("a list");
        let names: Vec<_> = drawn.iter().map(|l| l["name"].as_str().unwrap_or_default()).collect();
        assert_eq!(names, ["cubic-unset", "cubic-16384"], "{}", of["title"]);
    }
    // One unit: what the table says the picture says too.
    let (bar, cell) =
        (&pictures[1]["rows"][0]["values"][0]["text"], &section["rows"][0]["cells"][0]["value"]);
    assert_eq!(
        (pictures[1]["unit"].as_str(), section["heads"][0].as_str()),
        (Some("KiB"), Some("queued KiB/flow"))
    );
    assert!(bar.is_string() && bar == cell, "{bar} {cell}");
    let words = section["words"].to_string();
    assert!(
        words.contains("wakes/MB: how often") && words.contains("unsent may be more than the limit"),
        "{words}"
    );
    assert!(
        ended.stdout.contains("wakes/MB: how often") && !ended.stdout.contains("Linux still:"),
        "{ended:?}"
    );
}

#[test]
fn variants_that_set_makes_equal_run_once_and_are_named() {
    let ended = shortened(&[
        "notsent-lowat",
        "--variant",
        "cubic-unset",
        "--variant",
        "cubic-262144",
        "--set",
        "lowat=262144",
        "--alone",
    ]);
    assert!(
        ended
            .stderr
            .contains("the same experiment as cubic-262144, which runs once for all of them: cubic-unset"),
        "{ended:?}"
    );
    assert!(
        !ended.stdout.contains("before and after") && !ended.stdout.contains("│ cubic-unset"),
        "{ended:?}"
    );
    // What is left but has another name than it should is said too.
    let ended = shortened(&["notsent-lowat", "--variant", "cubic-262144", "--set", "lowat=16384"]);
    assert!(
        ended.stderr.contains(
            "lowat=16384 takes the place of what these variants set themselves: cubic-262144 (262144)"
        ),
        "{ended:?}"
    );
    let bulk = ["lab", "run", "bulk", "--alone", "--set", "tcp_sack=0", "--set", "bytes=100000", "--json"];
    let ended = say(&[&bulk[..], &["--variant", "cubic", "--variant", "cubic-no-sack"]].concat()).ok();
    let names: Vec<_> =
        runs(&ended).iter().map(|r| r["run"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(
        names,
        ["cubic/0%", "cubic-no-sack/0.1%", "cubic-no-sack/1%"].map(|n| n.replace("cubic/", "cubic-no-sack/"))
    );
    assert_eq!(ended.stderr.matches("the same experiment as").count(), 3, "{ended:?}");
}

#[test]
fn a_name_that_no_longer_fits_says_what_was_set() {
    let dir = Dir::new();
    let file = dir.join("page.html").display().to_string();
    let bulk = ["lab", "run", "bulk", "--variant", "cubic/0%", "--set", "bytes=100000"];
    let bulk = [&bulk[..], &["--set", "tcp_congestion_control=bbr", "--alone"]].concat();
    let ended = say(&[&bulk[..], &["--report", &file]].concat()).ok();
    let own =
        "tcp_congestion_control=bbr takes the place of what these variants set themselves: cubic/0% (cubic)";
    assert!(ended.stderr.contains(own), "{ended:?}");
    assert!(ended.stdout.contains("│ with tcp_congestion_control=bbr "), "{ended:?}");
    let (data, _) = report(&std::fs::read_to_string(&file).expect("it was written"));
    let name = "cubic/0% with tcp_congestion_control=bbr";
    let section = &data["experiments"][0];
    assert_eq!(
        (&section["rows"][0]["name"], &section["pictures"][0]["lines"][0]["name"]),
        (&name.into(), &name.into())
    );
    let about = "as cubic, but with tcp_congestion_control=bbr";
    assert_eq!(section["rows"][0]["about"], about);
    let told = runs(&say(&[&bulk[..], &["--json"]].concat()).ok());
    assert_eq!((&told[0]["run"], &told[0]["about"]), (&"cubic/0%".into(), &about.into()));
    let ended =
        shortened(&["notsent-lowat", "--variant", "cubic-unset", "--set", "tcp_congestion_control=bbr"]);
    assert!(ended.stderr.contains("variants set themselves: cubic-unset (cubic)"), "{ended:?}");
}

#[test]
fn defaults_that_are_none_any_more_are_told_behind_the_name() {
    for (words, set) in [
        (["small-queues", "tsq-100mbit"], "tcp_limit_output_bytes=131072"),
        (["small-queues", "tsq-100mbit"], "rate_mbps=50"),
        (["sctp-failover", "default"], "sctp.rto_min=5000"),
        (["notsent-lowat", "cubic-unset"], "tcp_notsent_lowat=262144"),
        (["notsent-lowat", "cubic-unset"], "lowat=262144"),
    ] {
        let [experiment, variant] = words;
        let ended = shortened(&[experiment, "--variant", variant, "--set", set, "--json"]);
        let about = runs(&ended)[1]["about"].as_str().unwrap_or_default().to_owned();
        assert!(about.ends_with(&format!(" with {set}")), "{about}");
    }
    let same =
        ["small-queues", "--variant", "tsq-100mbit", "--set", "tcp_limit_output_bytes=1048576", "--json"];
    assert_eq!(runs(&shortened(&same))[0]["about"], "100 Mbit/s, Linux's defaults");
    // What changes something that the name says by another parameter.
    let late = [
        "queue-aware",
        "--variant",
        "100mbit-late",
        "--set",
        "late_us=50",
        "--set",
        "measure_s=0.1",
        "--json",
    ];
    let about = runs(&say(&[&["lab", "run"], &late[..]].concat()).ok())[1]["about"].clone();
    assert!(about.as_str().is_some_and(|a| a.ends_with(" with completions=other")), "{about}");
}

#[test]
fn the_heading_has_the_rate_that_holds() {
    let heading = |words: &[&str]| {
        shortened(&[words, &["--alone"]].concat()).stdout.lines().next().unwrap_or_default().to_owned()
    };
    let router = "router=tbf rate 100mbit burst 68000 limit 500000";
    let told =
        heading(&["notsent-lowat", "--variant", "cubic-262144", "--set", router, "--set", "rate_mbps=50"]);
    assert!(told.ends_with("TCP_NOTSENT_LOWAT, 100 Mbit/s and 100 ms"), "{told}");
    let qdisc = "qdisc=tbf rate 10mbit burst 10kb latency 50ms";
    let set = ["--alone", "--set", qdisc, "--set", "bytes=100000"];
    let ended = say(&[&["lab", "run", "bulk", "--variant", "reno/0%"], &set[..]].concat()).ok();
    assert!(
        ended.stdout.starts_with("bulk: a bulk transfer over a path of 10 Mbit/s and 100 ms"),
        "{ended:?}"
    );
}

#[test]
fn what_was_asked_for_twice_or_has_no_such_variant_is_said() {
    let reno = ["--variant", "reno/0%", "--set", "bytes=100000", "--json"];
    let ended = say(&[&["lab", "run", "bulk", "bulk"], &reno[..]].concat()).ok();
    assert_eq!(
        (runs(&ended).len(), &*ended.stderr),
        (1, "lowwater: bulk is named more than once, and is taken once\n")
    );
    let ended = say(&[&["lab", "run", "bulk", "tso-autosize"], &reno[..]].concat()).ok();
    assert_eq!(ended.stderr, "lowwater: tso-autosize does not run: it has no variant reno/0%\n");
}

#[test]
fn what_set_does_not_do_is_said() {
    let asked = ["notsent-lowat", "--variant", "cubic-unset", "--variant", "cubic-262144"];
    let ended = shortened(&[&asked[..], &["--set", "tcp_notsent_lowat=16384"]].concat());
    assert!(ended.stderr.contains("TCP_NOTSENT_LOWAT themselves (lowat): cubic-262144\n"), "{ended:?}");
    for (experiment, variant, set, wanted) in [
        (
            "sctp-failover",
            "default",
            "net.ipv4.tcp_sack=0",
            "tcp_sack does nothing in variants of SCTP, which",
        ),
        (
            "sctp-heartbeat",
            "5ms",
            "tcp_congestion_control=bbr",
            "tcp_congestion_control does nothing in variants of",
        ),
        (
            "small-queues",
            "tsq-1gbit",
            "sctp.rto_min=100",
            "sctp.rto_min does nothing in variants of TCP, which",
        ),
        (
            "pacing",
            "80-internal",
            "net.ipv4.icmp_ratelimit=5",
            "icmp_ratelimit does nothing in variants that send no ICMP messages: 80",
        ),
        (
            "pacing",
            "80-internal",
            "queue_bytes=10000",
            "nothing in variants that have no bottleneck (rate_mbps): 80",
        ),
        (
            "pacing",
            "bbr-tbf-fq",
            "queue_bytes=10000",
            "whose router has a queueing discipline instead of a line",
        ),
    ] {
        let ended = shortened(&[experiment, "--variant", variant, "--set", set]);
        assert!(ended.stderr.contains(wanted), "{ended:?}");
        // Linux's figures are of the same all the same, but for the time.
        assert!(ended.stdout.contains("not compared: Linux's figures are of a run"), "{ended:?}");
    }
    let queue = ["--set", "qdisc=fq_codel", "--set", "queue_bytes=10000", "--set", "bytes=100000"];
    let ended = say(&[&["lab", "run", "bulk", "--variant", "reno/0%"], &queue[..]].concat()).ok();
    assert!(ended.stderr.contains("queue_bytes does nothing in variants whose bottleneck has"), "{ended:?}");
    let batch = ["queue-aware", "--variant", "100mbit", "--set", "batch=8", "--set", "measure_s=0.1"];
    let ended = say(&[&["lab", "run"], &batch[..]].concat()).ok();
    assert!(ended.stderr.contains("batch does nothing in variants that wait for no second"), "{ended:?}");
    let ended = shortened(&["notsent-lowat", "--variant", "cubic-unset", "--set", "qdisc=fq maxrate 48"]);
    assert!(ended.stderr.contains("qdisc: maxrate 48 is 48 bit/s"), "{ended:?}");
}

#[test]
fn a_narrow_terminal_has_two_tables_and_a_pipe_one() {
    let asked = [
        "lab",
        "run",
        "pacing",
        "--variant",
        "80-internal",
        "--set",
        "warmup_s=0.2",
        "--set",
        "measure_s=0.2",
    ];
    let tables = |command: &mut Command| {
        let text = run(command, SOON).ok().stdout;
        let drawn = text.lines().filter(|line| line.starts_with(['│', '┌', '╞', '└']));
        (text.matches('┌').count(), drawn.map(|line| line.chars().count()).max().unwrap_or(0))
    };
    let (count, widest) = tables(lowwater(asked).env("COLUMNS", "80"));
    assert!(count >= 2 && widest <= 80, "{count} {widest}");
    let (count, widest) = tables(lowwater(asked).env_remove("COLUMNS"));
    assert!(count == 1 && widest > 80, "{count} {widest}");
}

/// The data of a report, and the page around it.
pub(super) fn report(page: &str) -> (serde_json::Value, String) {
    let (before, rest) = page.split_once(r#"<script type="application/json" id="data">"#).expect("data");
    let (data, after) = rest.split_once("</script>").expect("its end");
    (serde_json::from_str(data).expect("JSON"), format!("{before}{after}"))
}

fn has_pictures(section: &serde_json::Value) -> bool {
    section["pictures"].as_array().is_some_and(|pictures| !pictures.is_empty())
}

#[test]
fn the_report_is_one_page_with_every_run() {
    let dir = Dir::new();
    let file = dir.join("page.html");
    let write = || {
        let mut command = lowwater(["lab", "run", "tso-autosize", "sctp-failover", "--report"]);
        run(command.arg(&file), SOON).ok();
        std::fs::read_to_string(&file).expect("it was written")
    };
    let page = write();
    let (data, around) = report(&page);
    let sections = data["experiments"].as_array().expect("a list");
    let names: Vec<_> = sections.iter().map(|s| s["name"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["tso-autosize", "sctp-failover"]);
    assert_eq!(sections[0]["rows"].as_array().map(Vec::len), Some(6));
    let sizes = &sections[0]["pictures"][0]["lines"];
    assert_eq!(sizes[1]["name"], "2-mss");
    let segments = sizes[1]["y"].as_array().expect("a list");
    assert!(segments.len() > 600 && segments.iter().all(|y| y.as_f64() <= Some(2.0)), "{sizes}");
    assert!(sections[1]["pictures"].as_array().is_some_and(|p| p.iter().all(|p| p["rows"].is_array())));
    // It asks nobody for anything: the only addresses are those in the library's own comment.
    let asks = ["src=", "href=\"http", "@import", "url(", "fetch("];
    assert!(asks.iter().all(|ask| !around.contains(ask)), "the page wants something from outside");
    assert!(["page.css */", "page.js */", "uplot.js */", "data */"].iter().all(|p| !around.contains(p)));
    assert_eq!(page, write(), "the same command, the same page");
}

#[test]
fn what_flows_have_acknowledged_is_a_sum_that_never_falls() {
    let dir = Dir::new();
    let file = dir.join("page.html").display().to_string();
    let set = ["flows=3", "bytes=2000000"].map(|set| ["--set", set]).concat();
    let asked = ["lab", "run", "bulk", "--variant", "cubic/0%", "--alone", "--report", &file];
    say(&[&asked, &set[..]].concat()).ok();
    let (data, _) = report(&std::fs::read_to_string(&file).expect("it was written"));
    let [window, acked] = ["Congestion window", "Acknowledged"].map(|title| {
        let pictures = data["experiments"][0]["pictures"].as_array().expect("a list");
        let is = |p: &&Value| p["title"].as_str().is_some_and(|t| t.starts_with(title));
        pictures.iter().find(is).expect("a picture").clone()
    });
    assert_eq!(window["title"], "Congestion window, 0 % lost; mean of the flows under way");
    assert_eq!(acked["title"], "Acknowledged, 0 % lost; all flows together");
    let mb: Vec<_> =
        acked["lines"][0]["y"].as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
    assert!(mb.is_sorted() && mb.last() == Some(&6.0), "{mb:?}");
}

#[test]
fn a_report_that_cannot_be_written_is_said_before_the_runs() {
    let ended = say(&["lab", "run", "bulk", "--report", "/nowhere/page.html"]);
    assert_eq!(ended.code(), Some(1));
    assert!(ended.stderr.contains("/nowhere/page.html") && ended.stdout.is_empty(), "{ended:?}");
}

#[test]
fn the_usual_report_that_cannot_be_written_is_a_failure_behind_the_tables() {
    let dir = Dir::new();
    std::fs::create_dir(dir.join("report.html")).expect("a directory stands there");
    let set = ["warmup_s=0.1", "measure_s=0.1", "bytes=10000"].map(|set| ["--set", set]).concat();
    let lab = || run(lowwater([&["lab"], &set[..]].concat()).current_dir(dir.path()), SOON);
    let ended = lab();
    assert_eq!(ended.code(), Some(1));
    assert!(
        ended.stderr.contains("no report: writing to report.html: ") && ended.stdout.contains("│ tsq-1gbit"),
        "{ended:?}"
    );
    std::fs::remove_dir(dir.join("report.html")).expect("it is empty");
    let ended = lab().ok();
    assert!(
        ended.stderr.ends_with("lowwater: tables and pictures for a browser: report.html\n"),
        "{ended:?}"
    );
    report(&std::fs::read_to_string(dir.join("report.html")).expect("it was written"));
}
