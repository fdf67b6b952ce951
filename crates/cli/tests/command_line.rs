//! What needs no root: help, mistakes, exit codes, and the lab.
mod support;

use rustix::process::{Signal, geteuid};
use serde_json::Value;
use std::fs::Permissions;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use support::{Dir, Ended, Proc, eventually, lowwater, run};

const SOON: Duration = Duration::from_secs(20);
/// For a kernel that boots and works.
const GUEST: Duration = Duration::from_secs(300);

fn say(args: &[&str]) -> Ended {
    run(&mut lowwater(args), SOON)
}

/// The runs without what may differ.
fn runs(ended: &Ended) -> Vec<Value> {
    let parse = |line: &str| {
        let mut run: Value = serde_json::from_str(line).expect("a JSON object per line");
        assert!(run["wall_s"].as_f64().is_some_and(|s| s >= 0.0), "{run}");
        run["wall_s"] = Value::Null;
        run
    };
    ended.stdout.lines().map(parse).collect()
}

#[test]
fn help_teaches_by_examples() {
    for (args, wanted) in [
        (&["--help"][..], "lowwater lab"),
        (&["lab", "--help"], "lab run bulk"),
        (&["drill", "--help"], "passive.pkt"),
        (&["serve", "--help"], "curl http://10.9.0.2/"),
        (&["get", "--help"], "python3 -m http.server --bind ::"),
    ] {
        let ended = say(args).ok();
        assert!(ended.stdout.contains("Examples:") && ended.stdout.contains(wanted), "{}", ended.stdout);
        assert!(!ended.stdout.contains("not-now"), "what is for tests is hidden");
    }
    assert!(say(&["--version"]).ok().stdout.starts_with("lowwater "));
}

#[test]
fn mistakes_end_with_2_and_say_what_is_allowed() {
    for (args, wanted) in [
        (&[][..], "Usage"),
        (&["labs"], "lab"),
        (&["lab", "run"], "NAME"),
        (&["lab", "run", "bulky"], "bulk"),
        (&["lab", "--variant", "vegas"], "none near it (`lowwater lab list` has all)"),
        (&["lab", "run", "bulk", "--variant", "vegas"], "cubic-no-sack"),
        (&["lab", "--variant", "cubic-no-sak"], "near it: cubic-no-sack"),
        (&["lab", "--seed", "-1"], "a seed is a whole number"),
        (&["sctp-send", "--tun", "a", "--addr", "10.0.0.1/24", "10.0.0.2"], "with a port, as"),
        (&["lab", "--set", "tcp_sakc=1"], "tcp_sack"),
        (&["lab", "--set", "mtu=5"], "576"),
        (&["lab", "--set", "mtu"], "KEY=VALUE"),
        (&["lab", "--set", "=5"], "no name before the ="),
        (
            &["lab", "run", "notsent-lowat", "--set", "TCP_NOTSENT_LOWAT=1"],
            "near it: tcp_notsent_lowat, lowat (",
        ),
        (&["lab", "run", "bulk", "--set", "delay=5"], "near it: rtt_ms ("),
        (&["lab", "run", "bulk", "--set", "rate=5"], "near it: rate_mbps ("),
        (&["lab", "run", "bulk", "--set", "rate_mbps=fast"], "a number of Mbit/s from 0.001"),
        (&["lab", "--seed", "x"], "a seed is a whole number from 0"),
        (&["drill", "--kernel", "--draw", "3..3"], "there is no seed in 3..3"),
        (&["get", "--tun", "lw0", "--addr", "10.9.0.2/24", "--json", "http://10.9.0.1/"], "--output"),
        (&["serve", "--tun", "lw0"], "--addr"),
        (
            &["serve", "--tun", "lw0", "--addr", "10.9.0.2/24", "--qdisc", "fq maxrate 0"],
            "maxrate cannot be \"0\"; allowed: a rate",
        ),
        (
            &["get", "--tun", "lw0", "--addr", "10.9.0.2/24", "--qdisc", "sfq", "http://x/"],
            "allowed: noqueue, pfifo",
        ),
        (&["serve", "--tun", "lw0", "--addr", "10.9.0.2.1"], "10.0.0.1/24"),
        (&["serve", "--tun", "lw0", "--addr", "10.9.0.2"], "--host-addr"),
        (
            &["serve", "--tun", "lw0", "--addr", "10.9.0.2/24", "--host-addr", "10.8.0.1/24"],
            "does not contain",
        ),
        (&["serve", "--tun", "lw0", "--addr", "10.9.0.2/24", "--set", "tcp_sack=256"], "from 0 to 255"),
        (&["serve", "--tun", "lw0", "--addr", "10.9.0.2/24", "--addr6", "10.8.0.2/24"], "other family"),
        (&["serve", "--tun", "lw0", "--addr", "10.9.0.2/24", "--addr", "10.9.0.2/24"], "given twice"),
        (&["serve", "--tun", "lw0", "--addr", "10.9.0.2/24", "--sctp", "65534"], "1..=65533"),
        (
            &["serve", "--tun", "lw0", "--addr", "10.9.0.2/24", "--sctp", "7", "--congestion", "reno"],
            "none of rfc9260, cubic, bbr",
        ),
        (&["sctp-send", "--tun", "lw0", "--addr", "10.9.0.2/24"], "ADDR:PORT"),
        (&["sctp-send", "--tun", "lw0", "--addr", "10.9.0.2/24", "10.9.0.1:0"], "from 1 to 65535"),
        (
            &["sctp-send", "--tun", "lw0", "--addr", "10.9.0.2/24", "--duration", "0", "10.9.0.1:9"],
            "number of seconds",
        ),
        (&["drill", "--kernel", "--draw", "18446744073709551615"], "the largest is 18446744073709551614"),
        (&["serve", "--tun", "sixteen-letters.", "--addr", "10.9.0.2/24"], "15 bytes"),
        (&["get", "--tun", "lw0", "--addr", "10.9.0.2/24", "https://10.9.0.1/"], "http://"),
    ] {
        let ended = say(args);
        assert_eq!(ended.code(), Some(2), "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(wanted), "{args:?} does not speak of {wanted}: {}", ended.stderr);
    }
}

/// Words, where the mistake is, and what would be allowed: one sentence, wherever they are given.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("sfq", "there is none called \"sfq\"", "noqueue, pfifo"),
    ("pfifo limit 0", "limit cannot be \"0\"", "1 to 4294967295 packets"),
    ("fq maxrate 0", "maxrate cannot be \"0\"", "a rate of 8bit and more"),
    ("fq flow_limit many", "flow_limit cannot be \"many\"", "1 to 4294967295 packets"),
    ("fq_codel target soon", "target cannot be \"soon\"", "a time, as 5ms"),
    ("fq_codel flows 0", "flows cannot be \"0\"", "1 to 65536"),
    ("tbf rate 0 burst 5kb limit 5kb", "rate cannot be \"0\"", "a rate of 8bit and more"),
    ("tbf rate 1mbit burst 5kb", "it needs limit, latency or child", "bytes, as 32kb"),
    ("netem rate 0", "rate cannot be \"0\"", "a rate of 8bit and more"),
    ("netem loss 120%", "loss cannot be \"120%\"", "0% to 100%"),
    ("netem delay 5ms child tbf rate 0", "rate cannot be \"0\"", "a rate of 8bit and more"),
];

/// Settings with a value: how the sentence begins, and what it allows.
const SETTINGS: &[(&str, &str, &str, &str)] = &[
    ("net.ipv4.tcp_sakc", "1", "tcp_sakc", "tcp_sack"),
    ("net.ipv4.tcp_sack", "maybe", "'maybe' is not allowed", "from 0 to 255"),
    ("net.core.default_qdisc", "sfq", "'sfq' is not allowed", "pfifo_fast"),
    ("net.ipv4.tcp_wmem", "1 2", "'1 2' is not allowed", "three"),
];

/// One line of what was said has the whole of it.
fn one_sentence(ended: &Ended, parts: &[&str]) {
    let said = format!("{}{}", ended.stdout, ended.stderr);
    let lines = said.lines().filter(|line| parts.iter().all(|part| line.contains(part))).count();
    assert_eq!(lines, 1, "{parts:?}: {said}");
    assert!(ended.code().is_some_and(|code| code > 0), "{ended:?}");
}

#[test]
fn a_mistake_is_told_in_one_sentence_wherever_it_is_made() {
    let dir = Dir::new();
    let script = |line: &str| {
        let path = dir.join("mistake.pkt");
        std::fs::write(&path, format!("+0 `{line}`\n")).unwrap();
        run(lowwater(["drill"]).arg(path), SOON)
    };
    for (words, place, allowed) in MISTAKES {
        let parts = ["queueing discipline", place, allowed];
        one_sentence(&say(&["serve", "--tun", "lw0", "--addr", "10.9.0.2/24", "--qdisc", words]), &parts);
        for experiment in ["notsent-lowat", "small-queues", "tso-autosize", "pacing", "queue-aware", "bulk"] {
            let set = format!("qdisc={words}");
            one_sentence(&say(&["lab", "run", experiment, "--set", &set]), &parts);
        }
        one_sentence(&say(&["lab", "run", "pacing", "--set", &format!("switch=fq;{words}")]), &parts);
        one_sentence(&script(&format!("tc qdisc replace dev tun0 root {words}")), &parts);
    }
    for (key, value, place, allowed) in SETTINGS {
        let set = format!("{key}={value}");
        one_sentence(
            &say(&["serve", "--tun", "lw0", "--addr", "10.9.0.2/24", "--set", &set]),
            &[place, allowed],
        );
        one_sentence(&say(&["lab", "run", "bulk", "--set", &set]), &[place, allowed]);
        one_sentence(&script(&format!("sysctl -q {key}='{value}'")), &[place, allowed]);
    }
    for (experiment, set) in
        [("small-queues", "rate_mbps=0"), ("bulk", "rate_mbps=-1"), ("pacing", "pacing_mbps=x")]
    {
        one_sentence(
            &say(&["lab", "run", experiment, "--set", set]),
            &["_mbps: '", "is not allowed", "from 0"],
        );
    }
}

#[test]
fn a_setting_that_no_experiment_knows_is_told_once() {
    let ended = say(&["lab", "--set", "foo=1"]);
    assert_eq!((ended.code(), ended.stderr.matches("foo").count()), (Some(2), 1), "{}", ended.stderr);
    assert!(ended.stderr.contains("loss_percent"), "{}", ended.stderr);
}

#[test]
fn other_failures_end_with_1_and_name_the_place() {
    let ended = say(&["serve", "--tun", "lw0", "--addr", "10.9.0.2/24", "--root", "/nonexistent"]);
    assert_eq!(ended.code(), Some(1));
    assert!(ended.stderr.contains("/nonexistent"), "{}", ended.stderr);
}

#[test]
fn without_privileges_the_exit_code_is_77() {
    let args = ["serve", "--tun", "lw0", "--addr", "10.9.0.2/24"];
    let mut command = lowwater(args);
    // Nobody may not read the build directory of root: a copy elsewhere.
    let dir = Dir::within(&std::env::temp_dir());
    if geteuid().is_root() {
        // In a namespace with a single user there is nobody else to be.
        if !std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.contains("4294967295")) {
            assert!(
                std::env::var_os("LOWWATER_REQUIRE_NET").is_none_or(|v| v != "1"),
                "needs a second user id"
            );
            eprintln!("skipped: needs a second user id");
            return;
        }
        let copy = dir.join("lowwater");
        std::fs::copy(env!("CARGO_BIN_EXE_lowwater"), &copy).unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        command = Command::new(copy);
        command.args(args).current_dir("/").uid(65_534).gid(65_534);
    }
    let ended = run(&mut command, SOON);
    assert_eq!(ended.code(), Some(77), "{ended:?}");
    let tells = ["CAP_NET_ADMIN", "/dev/net/tun"];
    assert!(tells.iter().any(|t| ended.stderr.contains(t)), "{}", ended.stderr);
}

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
}

#[test]
fn all_experiments_run_in_time_and_print_a_table() {
    let began = Instant::now();
    let dir = Dir::new();
    let ended = run(lowwater(["lab"]).current_dir(dir.path()), Duration::from_secs(60)).ok();
    assert!(began.elapsed() < Duration::from_secs(60));
    let rows = |of: &str| ended.stdout.lines().filter(|l| l.starts_with(&format!("│ {of}"))).count();
    assert_eq!((rows("cubic"), rows("reno")), (12 + 3 + 3, 3), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("Linux full 725") && ended.stdout.contains("commit 232"),
        "{}",
        ended.stdout
    );
    let said: Vec<_> = ended.stderr.lines().collect();
    assert_eq!(
        said,
        ["lowwater: tables and pictures for a browser: report.html"],
        "no bar without a terminal"
    );
    let (data, _) = report(&std::fs::read_to_string(dir.join("report.html")).expect("it was written"));
    assert!(data["experiments"].as_array().is_some_and(|all| all.iter().all(has_pictures)), "{data}");
}

#[test]
fn json_has_one_object_per_run_and_the_same_seed_gives_the_same_figures() {
    let args = ["lab", "run", "bulk", "--json", "--set", "bytes=3000000", "--seed", "7"];
    let (first, second) = (runs(&say(&args).ok()), runs(&say(&args).ok()));
    assert_eq!(first.len(), 15);
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
fn a_probe_that_never_comes_back_has_no_time() {
    // A packet takes 0.6 s, and it is looked for 0.1 s.
    let run = |more: &[&str]| {
        let asked = ["lab", "run", "small-queues", "--variant", "tsq-100mbit"];
        say(&[&asked[..], &["--set", "rate_mbps=0.02", "--set", "measure_s=0.1"], more].concat()).ok()
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

/// Words after `lab run`, shortened.
fn shortened(words: &[&str]) -> Ended {
    let times = ["--set", "warmup_s=0.5", "--set", "measure_s=0.5"];
    say(&[&["lab", "run"], words, &times].concat()).ok()
}

#[test]
fn what_was_changed_stands_in_the_heading_and_pictures_have_what_was_asked_for() {
    let dir = Dir::new();
    let file = dir.join("page.html").display().to_string();
    let asked = ["notsent-lowat", "--variant", "cubic-unset", "--variant", "cubic-16384"];
    let set = ["--set", "flows=8", "--set", "rate_mbps=50", "--set", "rtt_ms=80", "--report", &file];
    let ended = shortened(&[&asked[..], &set].concat());
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
         --set rtt_ms=80 --set warmup_s=0.5 --set measure_s=0.5"
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
        (&pictures[1]["rows"][0]["values"][0]["value"], &section["rows"][0]["cells"][0]["value"]);
    assert_eq!(
        (pictures[1]["unit"].as_str(), section["heads"][0].as_str()),
        (Some("KiB"), Some("queued KiB/flow"))
    );
    assert_eq!(
        bar.as_f64().map(f64::round),
        cell.as_str().and_then(|text| text.parse().ok()),
        "{bar} {cell}"
    );
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
    let bulk = ["lab", "run", "bulk", "--set", "tcp_sack=0", "--set", "bytes=100000", "--json"];
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
fn what_set_does_not_do_is_said() {
    let asked = ["notsent-lowat", "--variant", "cubic-unset", "--variant", "cubic-262144"];
    let ended = shortened(&[&asked[..], &["--set", "tcp_notsent_lowat=16384"]].concat());
    assert!(ended.stderr.contains("TCP_NOTSENT_LOWAT themselves (lowat): cubic-262144\n"), "{ended:?}");
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
fn report(page: &str) -> (serde_json::Value, String) {
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
fn a_report_that_cannot_be_written_is_said_before_the_runs() {
    let ended = say(&["lab", "run", "bulk", "--report", "/nowhere/page.html"]);
    assert_eq!(ended.code(), Some(1));
    assert!(ended.stderr.contains("/nowhere/page.html") && ended.stdout.is_empty(), "{ended:?}");
}

/// "lowwater must show" of the experiments, as far as it is a comparison of figures.
#[test]
fn the_experiments_come_out_as_on_linux() {
    let e3 = runs(&say(&["lab", "run", "tso-autosize", "--json"]).ok());
    for run in e3.iter().filter(|run| run["linux"].is_object()) {
        let of = |whose: &str, figure: &str| run[whose][figure].as_f64().expect("a number");
        let near = |figure, part: f64| {
            let (ours, linux) = (of("figures", figure), of("linux", figure));
            assert!((ours / linux - 1.0).abs() <= part, "{figure}: {ours} against {linux}: {run}");
        };
        near("ip_out_requests", 0.1);
        near("tcp_out_segs", 0.01);
        near("elapsed_s", 0.02);
    }
    let e1 =
        ["lab", "run", "notsent-lowat", "--json", "--variant", "cubic-unset", "--variant", "cubic-262144"];
    let e1 = runs(&say(&[&e1[..], &["--set", "warmup_s=3", "--set", "measure_s=4"]].concat()).ok());
    let of = |run: usize, whose: &str, figure: &str| e1[run][whose][figure].as_f64().expect("a number");
    for run in 0..2 {
        let queued =
            of(run, "figures", "queued_bytes_per_flow") / of(run, "linux_full", "queued_bytes_per_flow");
        assert!(queued <= 1.1, "{e1:?}");
    }
    assert!(of(1, "figures", "queued_over_bound_max") <= 1.15, "{e1:?}");
    assert!(of(1, "figures", "goodput_mbps") >= 0.99 * of(0, "figures", "goodput_mbps"), "{e1:?}");
}

/// As above, for pacing: gaps and bursts of 80 flows, by the transport's timers and by fq.
#[test]
fn paced_flows_come_out_as_on_linux() {
    let e4 = runs(
        &say(&["lab", "run", "pacing", "--json", "--variant", "80-internal", "--variant", "80-fq"]).ok(),
    );
    assert_eq!(e4.len(), 2, "{e4:?}");
    for run in &e4 {
        let of = |whose: &str, figure: &str| run[whose][figure].as_f64().expect("a number");
        let near = |value: f64, wanted: f64, part: f64| (value / wanted - 1.0).abs() <= part;
        assert!(near(of("figures", "goodput_mbps"), of("figures", "asked_mbps"), 0.005), "{run}");
        assert!(near(of("figures", "gap_us_p50"), of("linux", "gap_us_p50"), 0.03), "{run}");
        let width = |whose| of(whose, "gap_us_p95") - of(whose, "gap_us_p5");
        assert!(width("figures") <= width("linux"), "{run}");
        assert!(of("figures", "burst_packets_max") == 1.0, "{run}");
        assert!(of("figures", "first_burst_packets_max") == 1.0, "{run}");
        assert!(of("figures", "burst_bytes_max") <= of("linux", "burst_bytes_max"), "{run}");
    }
}

/// BBR through a token bucket that counts as Linux's does: packets of seven segments and their gaps are Linux's.
#[test]
fn bbr_paces_as_on_linux() {
    let asked =
        ["lab", "run", "pacing", "--json", "--variant", "bbr-tbf-internal", "--variant", "bbr-tbf-fq"];
    let e4 = runs(&say(&asked).ok());
    assert_eq!(e4.len(), 2, "{e4:?}");
    // Linux by a still clock: the host's clock moves its packets from seven segments to eight.
    for run in &e4 {
        let of = |whose: &str, figure: &str| run[whose][figure].as_f64().expect("a number");
        for (figure, part) in [("gap_us_p50", 0.03), ("goodput_mbps", 0.01), ("packets_per_s", 0.03)] {
            let (ours, linux) = (of("figures", figure), of("linux_still", figure));
            assert!((ours / linux - 1.0).abs() <= part, "{figure}: {ours} against {linux}: {run}");
        }
        for figure in ["gap_us_width", "burst_bytes_max"] {
            assert!(of("figures", figure) <= of("linux_still", figure), "{figure}: {run}");
        }
    }
}

/// The discipline changes twice while flows run: who paces changes, and nothing else shows it.
#[test]
fn a_new_discipline_costs_no_burst_no_loss_and_no_silence() {
    let switched = say(&["lab", "run", "pacing", "--json", "--variant", "20-switched"]);
    let run = &runs(&switched.ok())[0];
    let of = |figure: &str| run["figures"][figure].as_f64().expect("a number");
    assert!((of("goodput_mbps") / of("asked_mbps") - 1.0).abs() <= 0.005, "{run}");
    for (figure, wanted) in [("burst_packets_max", 1.0), ("retrans_segs", 0.0), ("dropped_packets", 0.0)] {
        assert_eq!(of(figure), wanted, "{figure}: {run}");
    }
    assert!(of("gap_us_max") < 10_000.0, "{run}");
}

/// Small queues: what stands is no more than Linux leaves, the line stays full, and without them the queue is back.
#[test]
fn small_queues_are_no_longer_than_on_linux() {
    // In the order of the catalog.
    let names =
        ["tsq-1gbit", "tsq-131072-1gbit", "off-1gbit", "tsq-100mbit", "tsq-131072-100mbit", "off-100mbit"];
    let mut asked =
        vec!["lab", "run", "small-queues", "--json", "--set", "warmup_s=2", "--set", "measure_s=2"];
    asked.extend(names.iter().flat_map(|name| ["--variant", name]));
    let e2 = runs(&say(&asked).ok());
    let of = |run: usize, whose: &str, figure: &str| e2[run][whose][figure].as_f64().expect("a number");
    for (run, name) in names.iter().enumerate() {
        assert_eq!(e2[run]["variant"], *name);
        let rate = if run < 3 { 1e3 } else { 100.0 };
        // 52 bytes of headers in 1,500 leave 96.5 % of the rate for payload.
        assert!(of(run, "figures", "goodput_mbps") > 0.96 * rate, "{}", e2[run]);
    }
    for run in [0, 1, 3, 4] {
        for figure in ["backlog_bytes_mean", "probe_rtt_ms_mean"] {
            // A tenth above Linux's, which are means of a guest with timers of its own.
            assert!(
                of(run, "figures", figure) <= 1.1 * of(run, "linux_full", figure),
                "{figure}: {}",
                e2[run]
            );
        }
        // A probe waits for no more than stands before it: a packet that nobody counted would show here.
        let rate = if run < 3 { 1e9 } else { 1e8 };
        let waited = of(run, "figures", "probe_rtt_ms_mean") / 1e3 * rate / 8.0;
        assert!(of(run, "figures", "backlog_bytes_mean") >= waited, "{waited}: {}", e2[run]);
    }
    for (tsq, off) in [(0, 2), (3, 5)] {
        // Twelve times as much waits on Linux at the least (3,558 kB against 347); half of that shows that the switch switches.
        let times = of(off, "figures", "backlog_bytes_mean") / of(tsq, "figures", "backlog_bytes_mean");
        assert!(times > 6.0, "{times}: {e2:?}");
    }
    // Behind Linux's own bucket, which cuts what is larger, beside Linux by a still clock.
    let mut asked =
        vec!["lab", "run", "small-queues", "--json", "--set", "warmup_s=1", "--set", "measure_s=1"];
    asked.extend(["--variant", "tsq-tbf-1gbit", "--variant", "tsq-tbf-100mbit"]);
    for run in runs(&say(&asked).ok()) {
        for figure in ["backlog_bytes_mean", "probe_rtt_ms_mean"] {
            let of = |whose: &str| run[whose][figure].as_f64().expect("a number");
            assert!(of("figures") <= 1.1 * of("linux_still_full"), "{figure}: {run}");
        }
        let rate = if run["variant"] == "tsq-tbf-1gbit" { 1e3 } else { 100.0 };
        assert!(run["figures"]["goodput_mbps"].as_f64() > Some(0.95 * rate), "{run}");
    }
    // The commit's own claims: below 1 ms at 1 Gbit/s and below 8 ms at 100 Mbit/s.
    assert!(
        of(1, "figures", "probe_rtt_ms_mean") < 1.0 && of(4, "figures", "probe_rtt_ms_mean") < 8.0,
        "{e2:?}"
    );
}

/// The queue-aware limit: its claim holds in the sample of the matrix, and Linux's rule leaves more standing where the line is slow.
#[test]
fn the_queue_aware_limit_holds() {
    let cells = [
        "matrix/2mbit/pfifo/1/20ms/bbr/exact",
        "matrix/5mbit/tbf/4/1ms/cubic/late",
        "matrix/100mbit/fq_codel/4/20ms/bbr/batches",
        // Rates at which a batch of completions and a segment take about as long.
        "matrix/20mbit/pfifo/1/1ms/cubic/batches",
        "matrix/30mbit/fq/1/1ms/cubic/batches",
        "matrix/45mbit/fq_codel/1/20ms/cubic/batches",
        "matrix/300mbit/pfifo/4/20ms/bbr/batches",
        "matrix/3000mbit/pfifo/4/1ms/cubic/batches",
    ];
    let mut asked = vec!["lab", "run", "queue-aware", "--json"];
    asked.extend(cells.iter().flat_map(|name| ["--variant", name]));
    let mut all = runs(&say(&["lab", "run", "queue-aware", "--json"]).ok());
    all.extend(runs(&say(&asked).ok()));
    assert_eq!(all.len(), 13 + cells.len(), "the sample, without the matrix, and some cells of it");
    for run in &all {
        let of = |figure: &str| run["figures"][figure].as_f64().expect("a number");
        assert!(of("queue_over_bound") <= 1.0 && of("queue_p99_over_bound") <= 1.0, "{run}");
        assert!(of("idle_percent") <= 1.0 && of("holds") == 1.0, "{run}");
        // Nothing is paid for in rate: within a hundredth, and what one packet more or less makes of a short run. One of ten segments more
        // than went through can make it look like more than a line takes.
        let line = run["params"]["rate_mbps"].as_f64().expect("a rate") * 1448.0 / 1500.0;
        assert!(of("goodput_mbps") > 0.98 * of("linux_goodput_mbps").min(line), "{run}");
    }
    let near = &all[0]["figures"];
    assert_eq!(all[0]["variant"], "1mbit");
    let queue = |of: &str| near[of].as_f64().expect("a number");
    // 44 kB at the time of writing: a queue of two segments, and one of Linux's packets for near peers.
    assert!(queue("linux_queue_bytes_mean") > 5.0 * queue("queue_bytes_mean"), "{near}");
}

/// Heartbeats of SCTP: none on a busy path, in time on an idle one, a new interval at once, and no timer operation per packet.
#[test]
fn heartbeats_come_out_as_on_linux_and_cost_nothing() {
    let all = runs(&say(&["lab", "run", "sctp-heartbeat", "--json"]).ok());
    let named = |name: &str| all.iter().find(|r| r["variant"] == name).expect("it ran");
    let of = |name: &str, figure: &str| named(name)["figures"][figure].as_f64().expect("a number");
    for run in &all {
        let of = |figure: &str| run["figures"][figure].as_f64().expect("a number");
        for figure in ["heartbeats_busy", "messages_lost", "messages_duplicated"] {
            assert_eq!(of(figure), 0.0, "{figure}: {run}");
        }
        assert!(of("messages") > 1_000.0, "{run}");
    }
    for name in ["5ms", "20ms"] {
        let linux = named(name)["linux"]["heartbeats_idle"].as_f64().expect("a number");
        // Intervals are drawn: over 20 s from 10 to 20 of them fit.
        assert!((of(name, "heartbeats_idle") - linux).abs() <= 3.0, "{}", named(name));
        assert!(of(name, "idle_gap_over_bound") <= 1.0, "{}", named(name));
    }
    assert!(of("5ms", "idle_gap_s_min") >= 1.0 && of("20ms", "idle_gap_s_min") >= 30.5, "{all:?}");
    assert!(of("changed", "changed_over_bound") <= 1.0, "{}", named("changed"));
    for (lazy, eager) in [("bulk", "bulk-eager"), ("seed", "seed-eager"), ("5ms", "5ms-eager")] {
        assert!(of(eager, "timer_ops_per_packet") > 0.95, "{}", named(eager));
        assert!(of(lazy, "timer_ops_per_packet") < 0.05, "{}", named(lazy));
        assert_eq!(of(eager, "goodput_mbps").round(), of(lazy, "goodput_mbps").round());
    }
    assert!(of("bulk", "goodput_mbps") > 90.0, "{}", named("bulk"));
}

/// Failover is no slower than Linux's, whose figures the catalog has; settings act as they are named.
#[test]
fn failover_is_no_slower_than_on_linux() {
    let all = runs(&say(&["lab", "run", "sctp-failover", "--json"]).ok());
    let named = |name: &str| all.iter().find(|r| r["variant"] == name).expect("it ran");
    let of = |name: &str, figure: &str| named(name)["figures"][figure].as_f64().expect("a number");
    for run in &all {
        for figure in ["messages_lost", "messages_duplicated"] {
            assert_eq!(run["figures"][figure], 0, "{figure}: {run}");
        }
        for (figure, linux) in run["linux"].as_object().into_iter().flatten() {
            let (ours, linux) = (run["figures"][figure].as_f64(), linux.as_f64());
            assert!(ours.is_some_and(|ours| linux.is_some_and(|linux| ours <= linux)), "{figure}: {run}");
        }
    }
    // One timeout, then the other path; without potentially failed paths as many as path_max_retrans and one more.
    for (name, timeouts) in
        [("default", 1.0), ("pf-off", 6.0), ("pf-retrans-2", 3.0), ("pf-off-max-retrans-1", 2.0)]
    {
        assert_eq!(of(name, "t3_rtx_expireds"), timeouts, "{}", named(name));
    }
    assert!(of("rto-min-200ms", "restored_s") < 0.5 * of("default", "restored_s"), "{all:?}");
}

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
    let words: Vec<&str> = asked.into_iter().chain(set).chain(["--uml", "--json"]).collect();
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
    let times = ["--set", "measure_s=0.1", "--uml", "--json"];
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

#[test]
fn what_stands_before_the_device_is_checked_at_once() {
    for (option, value, wanted) in [
        (
            "--qdisc",
            "fq maxrate 0",
            "\"fq maxrate 0\": maxrate cannot be \"0\"; allowed: a rate of 8bit and more",
        ),
        ("--qdisc", "fq_code", "there is none called \"fq_code\"; allowed: noqueue, pfifo,"),
        ("--qdisc", "fq_code", "netem, mq; near it: fq_codel"),
        ("--qdisc", "fq maxrat 1mbit", "; near it: maxrate"),
        (
            "--qdisc",
            "tbf rate 1mbit burst 5kb child fifo",
            "there is none called \"fifo\"; allowed: noqueue,",
        ),
        ("--set", "default_qdisc=tbf", "'tbf' is not allowed; it takes pfifo_fast, pfifo, bfifo,"),
        ("--set", "default_qdisk=fq", "there is no sysctl default_qdisk; near it: default_qdisc"),
    ] {
        let ended = say(&["serve", "--tun", "lw0", "--addr", "10.9.0.2/24", option, value]);
        assert_eq!(ended.code(), Some(2), "{ended:?}");
        assert!(ended.stderr.contains(wanted), "{ended:?}");
    }
}

#[test]
fn tc_shows_what_serve_has_written() {
    let dir = Dir::new();
    let file = dir.join("stats.json");
    let name = file.display().to_string();
    let q = r#"{"kind": "fq", "options": {"limit": 3}, "bytes": 5, "details": {"gc": 7}, "text": "qdisc fq root limit 3p\n Sent 5 bytes"}"#;
    std::fs::write(&file, format!("{{\"Tcp\": {{}}, \"Qdisc\": {q}}}")).expect("writable");
    assert_eq!(say(&["tc", &name]).ok().stdout, "qdisc fq root limit 3p\n");
    assert_eq!(say(&["tc", "-s", &name]).ok().stdout, "qdisc fq root limit 3p\n Sent 5 bytes\n");
    let ended = say(&["tc", "-s", "--json", &name]).ok();
    let list: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!((&list[0]["root"], &list[0]["gc"], &list[0]["bytes"]), (&true.into(), &7.into(), &5.into()));
    std::fs::write(&file, "{}").expect("writable");
    let ended = say(&["tc", &name]);
    assert!(
        ended.code() == Some(1) && ended.stderr.contains("has no Qdisc: is it from serve --stats?"),
        "{ended:?}"
    );
}

#[test]
fn ss_shows_what_serve_has_written() {
    let dir = Dir::new();
    let file = dir.join("stats.json");
    let name = file.display().to_string();
    let socket = |local: &str| {
        format!(
            r#"{{"local": "{local}", "remote": "10.9.0.1:999", "state": "Established", "recv_queue_bytes": 0, "send_queue_bytes": 3,
            "below_bytes": 2, "waits_for": null}}"#
        )
    };
    let (tcp, sctp) = (socket("10.9.0.2:80"), socket("10.9.0.2:7"));
    std::fs::write(&file, format!(r#"{{"Connections": [{tcp}], "Associations": [{sctp}], "NotListed": 7}}"#))
        .expect("writable");
    let ended = say(&["ss", &name]).ok();
    assert!(ended.stderr.contains("7 more are not in"), "{ended:?}");
    let all = ended.stdout;
    assert_eq!(all.lines().count(), 3, "{all}");
    assert!(all.contains("tcp    Established") && all.contains("sctp   Established"), "{all}");
    assert!(!say(&["ss", "--tcp", &name]).ok().stdout.contains("sctp"));
    let one: Value =
        serde_json::from_str(&say(&["ss", "--sctp", "--json", &name]).ok().stdout).expect("JSON");
    assert_eq!((&one["netid"], &one["local"]), (&"sctp".into(), &"10.9.0.2:7".into()));
    std::fs::write(&file, "{}").expect("writable");
    let ended = say(&["ss", &name]);
    assert!(
        ended.code() == Some(1) && ended.stderr.contains("has no Connections: is it from serve --stats?"),
        "{ended:?}"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let dir = Dir::new();
    let file = dir.join("stats.json");
    let socket = r#"{"local": "10.9.0.2:80", "remote": "10.9.0.1:999", "state": "Established"}"#;
    // More than a pipe holds.
    let (many, text) = (vec![socket; 3_000].join(","), "qdisc fq\\n".repeat(30_000));
    let q = format!(r#"{{"kind": "fq", "options": {{}}, "text": "{text}"}}"#);
    let all = format!(r#"{{"Connections": [{many}], "Associations": [], "Qdisc": {q}}}"#);
    std::fs::write(&file, all).expect("writable");
    let name = file.display().to_string();
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/drill/tcp");
    let asked: [&[&str]; 5] = [
        &["ss", &name],
        &["ss", "--json", &name],
        &["tc", &name],
        &["lab", "list"],
        &["drill", "--json", scripts],
    ];
    for args in asked {
        let mut told = Proc::piped(&mut lowwater(args));
        drop(told.stdout());
        let ended = told.wait(SOON);
        assert!(ended.stderr.is_empty() && matches!(ended.code(), Some(0 | 1)), "{args:?}: {ended:?}");
    }
}

#[test]
fn a_file_nobody_writes_any_more_and_one_that_is_not_there_are_told() {
    let dir = Dir::new();
    let file = dir.join("stats.json");
    std::fs::write(&file, r#"{"Connections": [], "Associations": [], "Qdisc": {"text": "qdisc fq"}}"#)
        .expect("writable");
    let name = file.display().to_string();
    assert_eq!(say(&["ss", &name]).ok().stderr, "");
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(100);
    let open = std::fs::File::options().write(true).open(&file).expect("it is there");
    open.set_modified(long_ago).expect("a time");
    for command in ["ss", "tc"] {
        let ended = say(&[command, &name]).ok();
        assert!(ended.stderr.contains("was written 100 s ago: does serve still run?"), "{ended:?}");
        let ended = say(&[command, &dir.join("gone").display().to_string()]);
        assert!(
            ended.code() == Some(1) && ended.stderr.contains("is not there: it takes the file"),
            "{ended:?}"
        );
    }
    let ended = say(&["tc", &name, "replace", "fq"]);
    assert!(ended.code() == Some(2) && ended.stderr.contains("is no socket"), "{ended:?}");
}

#[test]
fn ctrl_c_ends_the_lab_and_the_table_is_said_to_be_partial() {
    let lab = Proc::start(&mut lowwater(["lab", "--set", "bytes=10000000000", "--variant", "cubic"]));
    std::thread::sleep(Duration::from_millis(700));
    lab.signal(Signal::INT);
    let ended = lab.wait(SOON);
    assert_eq!(ended.code(), Some(130), "{ended:?}");
    assert!(ended.stderr.contains("partial, 0 of 3 runs"), "{ended:?}");
    assert!(ended.stdout.contains("experiment"), "{ended:?}");
}

/// As `timeout` does, which signals the program and then its group.
#[test]
fn a_signal_that_comes_twice_is_one() {
    let lab = Proc::start(&mut lowwater(["lab", "--set", "bytes=10000000000", "--variant", "cubic"]));
    std::thread::sleep(Duration::from_millis(700));
    lab.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(5));
    lab.signal(Signal::INT);
    let ended = lab.wait(SOON);
    assert!(ended.code() == Some(130) && ended.stderr.contains("partial, 0 of 3 runs"), "{ended:?}");
}

#[test]
fn ctrl_c_ends_linux_beside_the_lab_and_leaves_nothing() {
    if !lowwater_uml::present() {
        return;
    }
    let tmp = Dir::new();
    let lab = Proc::start(
        lowwater(["lab", "run", "sctp-failover", "--variant", "pf-off", "--uml"]).env("TMPDIR", tmp.path()),
    );
    // The guest's folder stands on its kernel's command line.
    let folders = || std::fs::read_dir(tmp.path()).expect("a folder").count();
    let kernels = || {
        let mine = tmp.path().display().to_string();
        let command = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("cmdline")).ok();
        let all = std::fs::read_dir("/proc").expect("proc").filter_map(|entry| command(entry.ok()?));
        all.filter(|words| words.starts_with("linux.uml") && words.contains(&mine)).count()
    };
    assert!(eventually(SOON, || folders() == 1 && kernels() > 0), "no guest");
    lab.signal(Signal::INT);
    let ended = lab.wait(SOON);
    assert_eq!(ended.code(), Some(130), "{ended:?}");
    assert!(ended.stderr.contains("partial, 0 of 1 runs"), "{ended:?}");
    assert_eq!((folders(), kernels()), (0, 0));
}

#[test]
fn ctrl_c_ends_a_drill_and_says_how_far_it_came() {
    let dir = Dir::new();
    let script = dir.join("one.pkt");
    std::fs::write(&script, "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n").expect("writable");
    let script = script.display().to_string();
    // More than can be done before the signal: whoever reads the first line knows that it is armed.
    let all = std::iter::repeat_n(script.as_str(), 20_000);
    let mut drill = Proc::piped(&mut lowwater(["drill", "--json"].into_iter().chain(all)));
    let mut lines = BufReader::new(drill.stdout());
    lines.read_line(&mut String::new()).expect("a line per script");
    drill.signal(Signal::INT);
    drill.gather_rest(lines);
    let ended = drill.wait(SOON);
    assert_eq!(ended.code(), Some(130), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("stopped: ") && ended.stderr.contains(" of 20000 scripts"),
        "{}",
        ended.stderr
    );
}

/// A script with one socket and a snippet.
fn snippet(dir: &Dir, name: &str, text: &str) -> String {
    let script = dir.join(name);
    let text = format!("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 %{{ {text} }}%\n");
    std::fs::write(&script, text).expect("writable");
    script.display().to_string()
}

/// There is a Python to read snippets.
fn has_python() -> bool {
    let has = Command::new("python3").arg("--version").output().is_ok();
    if !has {
        eprintln!("skipped: needs python3");
        assert!(std::env::var_os("LOWWATER_REQUIRE_NET").is_none_or(|v| v != "1"));
    }
    has
}

#[test]
fn ctrl_c_ends_what_a_snippet_waits_for_and_counts_no_failure() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        if signal == Signal::HUP && hangups_are_ignored() {
            eprintln!("skipped: needs SIGHUP, which who started this test ignores (nohup)");
            continue;
        }
        ends_what_a_snippet_waits_for(signal);
    }
}

/// What nohup sets, and every program that it starts keeps.
fn hangups_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("readable");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask");
    u64::from_str_radix(mask.trim(), 16).expect("hexadecimal") & 1 != 0
}

fn ends_what_a_snippet_waits_for(signal: Signal) {
    if !has_python() {
        return;
    }
    let dir = Dir::new();
    let begun = dir.join("begun");
    let text = format!(
        "import os, signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); \
         open('{0}.x', 'w').write(str(os.getpid())); os.rename('{0}.x', '{0}'); time.sleep(9999)",
        begun.display()
    );
    let script = snippet(&dir, "waits.pkt", &text);
    let drill = Proc::start(&mut lowwater(["drill", &script]));
    // A Python that never comes so far fails here.
    let mut looks = (0..3_000).map(|_| std::thread::sleep(Duration::from_millis(10)));
    assert!(looks.any(|()| begun.exists()), "the snippet has not begun");
    drill.signal(signal);
    let ended = drill.wait(SOON);
    assert_eq!((ended.code(), ended.stdout.as_str()), (Some(130), ""), "{ended:?}");
    assert!(ended.stderr.contains("stopped: 0 of 1 scripts, 0 failed"), "{ended:?}");
    let pid = std::fs::read_to_string(&begun).expect("readable");
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "Python was waited for");
}

#[test]
fn what_lies_where_drill_is_started_is_no_module_of_its_own() {
    if !has_python() {
        return;
    }
    let dir = Dir::new();
    for module in ["re", "signal", "traceback", "reprlib"] {
        std::fs::write(dir.join(format!("{module}.py")), "raise SystemExit(5)\n").expect("writable");
    }
    let script = snippet(&dir, "x.pkt", "import re; assert re.sub('a', 'b', 'a') == 'b'");
    run(lowwater(["drill", &script]).current_dir(dir.path()), SOON).ok();
    // And what Python says when it cannot even begin is told, however long the snippets are.
    let long = format!("import re; x = '{}'", "x".repeat(100_000));
    let script = snippet(&dir, "y.pkt", &long);
    let ended = run(lowwater(["drill", &script]).env("PYTHONHOME", "/nonexistent"), SOON);
    assert!(ended.code() == Some(1) && ended.stdout.contains("No module named"), "{ended:?}");
}

#[test]
fn drill_says_which_line_failed() {
    let dir = Dir::new();
    let good = dir.join("good.pkt");
    let bad = dir.join("bad.pkt");
    std::fs::write(&good, "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n").expect("writable");
    std::fs::write(&bad, "// bad\n0 close(3) = 0\n").expect("writable");
    let ended = say(&["drill", &good.display().to_string()]).ok();
    assert!(
        ended.stdout.contains("1 of 1 scripts passed in ") && ended.stdout.ends_with(" a second\n"),
        "{}",
        ended.stdout
    );
    let ended = say(&["drill", "--json", &dir.path().display().to_string()]);
    assert_eq!(ended.code(), Some(1), "{}", ended.stdout);
    let first = ended.stdout.lines().next().expect("a line per script");
    let failed: Value = serde_json::from_str(first).expect("JSON");
    assert_eq!(
        (&failed["ok"], &failed["line"], &failed["actual"]),
        (&false.into(), &2.into(), &"-1 EBADF".into())
    );
    let ended = say(&["drill", "--modes", "all", &bad.display().to_string()]);
    let told: Vec<_> = ended.stdout.lines().filter(|line| line.starts_with("FAILED ")).collect();
    assert!(told.len() == 3 && ended.stdout.matches("EBADF").count() == 1, "{}", ended.stdout);
    assert!(told[2].ends_with("bad.pkt:2 as ipv6: in the same way"), "{}", ended.stdout);
}

#[test]
fn drill_takes_packetdrills_options() {
    let dir = Dir::new();
    let script = dir.join("x.pkt").display().to_string();
    let text = "--define=RESULT=5\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n\
                +0 setsockopt(3, SOL_TCP, NAME, [1], 4) = RESULT\n\
                +0 bind(3, {sa_family = AF_INET, sin_port = htons(80), sin_addr = inet_addr(\"10.0.0.1\")}, ...) = 0\n";
    std::fs::write(&script, text).expect("writable");
    let defined = ["drill", "-D", "NAME=TCP_NODELAY", "--define=RESULT=0", "--strict_segments"];
    say(&[defined.as_slice(), &["--local_ip=10.0.0.1", &script]].concat()).ok();
    let ended = say(&[defined.as_slice(), &["--local_ip=10.0.0.2", &script]].concat());
    assert_eq!(ended.code(), Some(1));
    let alone = "drill --define=NAME=TCP_NODELAY --define=RESULT=0 --local_ip=10.0.0.2 --strict_segments ";
    assert!(ended.stdout.contains(alone), "{}", ended.stdout);
    // Those of its runner, and what has no effect, are taken too.
    let other = ["drill", "--send_omit_free", "-v", "--mss=1000", "--code_format=python"];
    say(&[other.as_slice(), &["-DNAME=TCP_NODELAY", "-DRESULT=0", "--local_ip=10.0.0.1", &script]].concat())
        .ok();
    say(&["drill", "--dry_run", "--is_anyip", "-DNAME=TCP_NODELAY", "-DRESULT=7", &script]).ok();
    let fails = dir.join("fails.pkt").display().to_string();
    std::fs::write(&fails, "// fails: a reason\n0 close(3) = 0\n").expect("writable");
    say(&["drill", "--dry_run", &fails]).ok();
    // What the command line says stands in no line of the script.
    let ended = say(&["drill", "--init_scripts=gone.sh", "-DNAME=TCP_NODELAY", &script]);
    assert!(
        ended.stdout.contains("x.pkt: --init_scripts: ")
            && ended.stdout.contains("gone.sh: No such file")
            && !ended.stdout.contains("line:"),
        "{}",
        ended.stdout
    );
    // What fits no script is told before any runs.
    for (wrong, why) in [
        (["drill", "--bind_port=0"].as_slice(), "--bind_port=0: it takes a number"),
        (&["drill", "-D", "X"], "--define=X: it takes NAME=value"),
        (&["drill", "--ip_version=ipv6", "--mtu=1000"], "--mtu=1000: it takes a number from 1280"),
    ] {
        let ended = say(&[wrong, &[&script]].concat());
        assert_eq!((ended.code(), ended.stdout.as_str()), (Some(2), ""), "{wrong:?}");
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
    }
}

#[test]
fn drill_names_what_cannot_be_had_and_goes_on() {
    let dir = Dir::new();
    let folder = dir.path().display().to_string();
    let ended = say(&["drill", &folder]);
    assert_eq!((ended.code(), ended.stdout.as_str()), (Some(2), ""));
    assert!(ended.stderr.contains(&folder), "{}", ended.stderr);
    let gone = dir.join("gone.pkt").display().to_string();
    let ended = say(&["drill", &gone]);
    assert_eq!(ended.code(), Some(1));
    assert!(ended.stderr.contains(&gone), "{}", ended.stderr);
    std::fs::write(dir.join("a.pkt"), [0xff, 0xfe]).expect("writable");
    std::fs::write(dir.join("b.pkt"), "// nothing happens here\n").expect("writable");
    std::fs::write(dir.join("c.pkt"), "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n").expect("writable");
    let ended = say(&["drill", &folder]);
    assert_eq!(ended.code(), Some(1));
    for part in ["a.pkt: this is no text", "b.pkt:2: the script has no event", "c.pkt\n1 of 3 scripts passed"]
    {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    // What is not there keeps nobody from running.
    let c = dir.join("c.pkt").display().to_string();
    let ended = say(&["drill", &c, &gone, &c]);
    assert_eq!(ended.code(), Some(1));
    assert!(ended.stdout.contains("gone.pkt: there is no such file or directory\n"), "{}", ended.stdout);
    assert!(ended.stdout.contains("2 of 3 scripts passed"), "{}", ended.stdout);
    let other = dir.join("other").display().to_string();
    let ended = say(&["drill", &gone, &other]);
    assert!(ended.code() == Some(1) && ended.stdout.is_empty(), "{ended:?}");
    assert!(ended.stderr.contains(&gone) && ended.stderr.contains(&other), "{ended:?}");
}
