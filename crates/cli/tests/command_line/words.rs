//! Help and mistakes: what is said, and the exit code.
use super::*;

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
        (&["lab", "--set", "initcwnd=40"], "`ip route replace default dev tun0 initcwnd ...`"),
        (&["lab", "run", "bulk", "--set", "delay=5"], "near it: rtt_ms ("),
        (&["lab", "run", "bulk", "--set", "rate=5"], "near it: rate_mbps ("),
        (&["lab", "run", "bulk", "--set", "rate_mbps=fast"], "a number of Mbit/s from 0.001"),
        (
            &["lab", "run", "bulk", "--variant", "reno/0%", "--set", "loss_percent=2"],
            "there is no variant reno/0%; with loss_percent=2 it is reno/2%",
        ),
        (&["lab", "run", "bulk", "--variant", "reno/2%"], "reno/2%; reno has reno/0%, reno/0.1%, reno/1%"),
        (
            &["lab", "--set", "loss_percent=0.5", "--set", "loss_percent=1"],
            "loss_percent is set twice, to 0.5 and to 1",
        ),
        (
            &["lab", "--set", "tcp_sack=0", "--set", "net.ipv4.tcp_sack=1"],
            "tcp_sack is set twice, to 0 and to 1",
        ),
        (
            &["lab", "run", "queue-aware", "--set", "completions=exact", "--set", "late_us=100"],
            "completions=exact says how late the device tells, and late_us=100 says it otherwise",
        ),
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
        (
            &["get", "--tun", "lw0", "--addr", "10.9.0.2/24", "ftp://10.9.0.1/"],
            "ftp://10.9.0.1/: ftp is not there; it takes http://",
        ),
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
    ("net.ipv4.tcp_wmem", "1 2 3 4", "'1 2 3 4' is not allowed", "three"),
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
