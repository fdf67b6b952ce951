//! Settings that change nothing: which, in which runs, and why. They are told, and Linux's figures stay beside those runs.
use super::runs::Plan;
use lowwater_core::base::Sysctl;
use lowwater_sim::scenario::{Scenario, SettingValue};

/// Sysctls named `tcp_` that SCTP reads too, or what it shares with TCP: memory, buffers, small queues, round trips, pacing.
const SHARED: [&str; 7] = [
    "tcp_limit_output_bytes",
    "tcp_mem",
    "tcp_min_rtt_wlen",
    "tcp_pacing_ca_ratio",
    "tcp_pacing_ss_ratio",
    "tcp_rmem",
    "tcp_wmem",
];

/// Others that TCP alone reads, whatever they are named.
const OF_TCP: [&str; 3] = ["clock_resolution_ns", "max_tcp_header", "rmem_max"];
/// Others that SCTP and UDP alone read.
const OF_SOCKETS: [&str; 2] = ["rmem_default", "wmem_default"];
/// The experiment with a ping by UDP.
const WITH_UDP: &str = "small-queues";

/// What no experiment does, with the sysctls that are read for it alone.
const NEVER_DONE: [(&str, &[&str]); 7] = [
    (
        "that send no ICMP messages",
        &["icmp_ratelimit", "icmp_ratemask", "icmp_msgs_per_sec", "icmp_msgs_burst", "ipv6.icmp.ratelimit"],
    ),
    ("that send no fragments", &["ipfrag_high_thresh", "ipfrag_time", "ipv6.ip6frag_time"]),
    ("without Fast Open", &["tcp_fastopen", "tcp_fastopen_key", "tcp_fastopen_blackhole_timeout_sec"]),
    ("that keep no connection alive", &["tcp_keepalive_time", "tcp_keepalive_intvl", "tcp_keepalive_probes"]),
    ("without urgent data", &["tcp_stdurg"]),
    ("in which nobody meets a TIME-WAIT", &["tcp_rfc1337", "tcp_tw_reuse", "tcp_tw_reuse_delay"]),
    ("whose programs set no buffer by a system call", &["wmem_max"]),
];

/// Why the sysctl `key` changes nothing in this run.
fn why_sysctl(experiment: &str, scenario: &dyn Scenario, key: &str) -> Option<&'static str> {
    let (sctp, tcp) = (experiment.starts_with("sctp-"), key.starts_with("tcp_") || OF_TCP.contains(&key));
    let asleep = NEVER_DONE.iter().find(|(_, keys)| keys.contains(&key)).map(|(why, _)| *why);
    match key {
        "tcp_notsent_lowat" if number(scenario, "lowat") > 0.0 => {
            Some("whose sockets set TCP_NOTSENT_LOWAT themselves (lowat)")
        }
        _ if sctp && tcp && !SHARED.contains(&key) => Some("of SCTP, which does not read it"),
        _ if !sctp && key.starts_with("sctp.") => Some("of TCP, which does not read it"),
        _ if !sctp && experiment != WITH_UDP && OF_SOCKETS.contains(&key) => {
            Some("of TCP, which does not read it")
        }
        _ => asleep,
    }
}

/// Why `key` changes nothing in this run of `experiment`: in variants of which this holds. `None` where it may.
pub(super) fn why(experiment: &str, scenario: &dyn Scenario, key: &str) -> Option<&'static str> {
    if Sysctl::knows(key) {
        return why_sysctl(experiment, scenario, key);
    }
    match key {
        "queue_bytes" if experiment == "bulk" && words(scenario, "qdisc") => {
            Some("whose bottleneck has a queueing discipline instead (qdisc)")
        }
        "rate_mbps" | "queue_bytes" if words(scenario, "router") => {
            Some("whose router has a queueing discipline instead of a line and a queue (router)")
        }
        "queue_bytes" if experiment == "pacing" && number(scenario, "rate_mbps") == 0.0 => {
            Some("that have no bottleneck (rate_mbps)")
        }
        "batch" if number(scenario, "batch_us") == 0.0 => {
            Some("that wait for no second completion (batch_us)")
        }
        "batch_us" if number(scenario, "batch") <= 1.0 => Some("that tell each completion by itself (batch)"),
        _ => None,
    }
}

/// A parameter's number, 0 where there is none.
fn number(scenario: &dyn Scenario, key: &str) -> f64 {
    match scenario.settings().into_iter().find(|s| s.name == key).map(|s| s.value) {
        Some(SettingValue::Number(n)) => n,
        _ => 0.0,
    }
}

/// A parameter says a discipline.
fn words(scenario: &dyn Scenario, key: &str) -> bool {
    let value = scenario.settings().into_iter().find(|s| s.name == key).map(|s| s.value);
    matches!(value, Some(SettingValue::Words(words)) if words != "none")
}

/// A sentence about each setting that changes nothing in some of an experiment's runs.
pub(super) fn told(plans: &[&Plan]) -> Vec<String> {
    let Some(first) = plans.first() else { return Vec::new() };
    let mut all: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for (key, _) in &first.asked.set {
        for plan in plans {
            let Some(why) = why(plan.experiment.name, &*plan.scenario, key) else { continue };
            match all.iter_mut().find(|(k, w, _)| (*k, *w) == (key, why)) {
                Some((.., names)) => names.push(&plan.name),
                None => all.push((key, why, vec![&plan.name])),
            }
        }
    }
    let name = first.experiment.name;
    let tell = |(key, why, names): (&str, &str, Vec<&str>)| {
        format!("{name}: {key} does nothing in variants {why}: {}", names.join(", "))
    };
    all.into_iter().map(tell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::catalog::EXPERIMENTS;
    use lowwater_sim::scenario::{Figures, SctpHeartbeat};
    use std::path::Path;

    /// The sysctls that an experiment does not read.
    fn unread(experiment: &str) -> impl Iterator<Item = &'static str> {
        let make = EXPERIMENTS.iter().find(|e| e.name == experiment).expect("it is there").make;
        let names = Sysctl::NAMES.iter().map(|(name, _)| *name);
        names.filter(move |name| why(experiment, &*make(), name).is_some())
    }

    /// Runs it with another value of a sysctl: the first that is one.
    fn with(scenario: &dyn Scenario, name: &str) -> Figures {
        let mut scenario = scenario.boxed();
        let usual = scenario.sysctl().get(name).expect("a sysctl");
        let ends = Sysctl::range(name).map(|(low, high)| [low.to_string(), high.to_string()]);
        let words = ["bbr", "reno", "1 2 3", "1-2-3-4"].map(str::to_owned);
        let mut values = ends.into_iter().flatten().chain(words).filter(|value| *value != usual);
        assert!(values.any(|value| scenario.sysctl().set(name, &value).is_ok()), "{name}");
        scenario.run(&mut |_| true).expect("no promise is broken")
    }

    #[test]
    fn what_a_run_does_not_read_changes_nothing() {
        let mut sctp: Box<dyn Scenario> = Box::new(SctpHeartbeat::default());
        for (key, value) in [("every_ms", "0"), ("rtt_ms", "5"), ("warmup_s", "0.1"), ("measure_s", "0.1")] {
            assert_eq!(sctp.set(key, value), Some(Ok(())));
        }
        let mut tcp = (EXPERIMENTS.iter().find(|e| e.name == "bulk").expect("it is there").make)();
        for (key, value) in [("bytes", "300000"), ("loss_percent", "1")] {
            assert_eq!(tcp.set(key, value), Some(Ok(())));
        }
        // TCP's controllers read more than SCTP's own.
        let by = |kind: &str| {
            let mut scenario = sctp.boxed();
            assert_eq!(scenario.sysctl().set("sctp.congestion_control", kind), Ok(()));
            ("sctp-heartbeat", scenario)
        };
        for (experiment, scenario) in [by("rfc9260"), by("cubic"), by("bbr"), ("bulk", tcp)] {
            let usual = scenario.run(&mut |_| true).expect("no promise is broken");
            let mut seen = 0;
            for name in unread(experiment) {
                assert!(with(&*scenario, name).named() == usual.named(), "{experiment} reads {name}");
                seen += 1;
            }
            assert!(seen > 15, "{experiment} {seen}");
        }
    }

    /// Files of the core, with what is not there for tests.
    fn sources(dir: &Path, all: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
            match entry.path() {
                path if path.is_dir() => sources(&path, all),
                path => {
                    let text = std::fs::read_to_string(&path).expect("a source");
                    let text =
                        text.split("#[cfg(test)]\nmod tests {").next().expect("its beginning").to_owned();
                    all.push((path.display().to_string(), text));
                }
            }
        }
    }

    /// The files of the core in which a sysctl is read, below src.
    fn readers() -> impl Fn(&str) -> Vec<String> {
        let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src");
        let (mut all, root) = (Vec::new(), format!("{}/", core.display()));
        sources(&core, &mut all);
        let for_tests =
            |path: &str| path.contains("tests") || path.ends_with("hostile.rs") || path.contains("/law");
        all.retain(|(path, _)| !for_tests(path) && !path.ends_with("base/sysctl.rs"));
        move |name| {
            let field = match name {
                "ip_default_ttl" => "default_ttl(",
                "ip_local_port_range" | "ip_local_reserved_ports" => "ports_of(",
                "ipv6.icmp.ratelimit" => "icmp6_ratelimit",
                "ipv6.ip6frag_time" => "ip6frag_time",
                "tcp_invalid_ratelimit" => "answers_out_of_place(",
                name => &*name.replace('.', "_"),
            };
            let word = if field.ends_with('(') { field.to_owned() } else { format!(".{field}") };
            let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
            let names = |text: &str| {
                let mut all = text.match_indices(&word).map(|(at, found)| &text[at + found.len()..]);
                all.any(|rest| field.ends_with('(') || !goes_on(rest))
            };
            let found = all.iter().filter(|(_, text)| names(text));
            found.map(|(path, _)| path.trim_start_matches(&root).to_owned()).collect()
        }
    }

    /// What is told to do nothing is read nowhere but where no run comes, and what is read nowhere else is told.
    #[test]
    fn what_no_run_reads_is_told_and_nothing_else() {
        let readers = readers();
        assert!(readers("tcp_wmem").contains(&"sctp/calls.rs".to_owned()), "it is where it is looked for");
        // Where neither comes: folders and files, and of files that it comes to what is not for it.
        let neither = |file: &str, name: &str| {
            ["ip/limiter.rs", "ip/reasm.rs", "tcp/fastopen/", "stack/fastopen.rs", "tcp/receiver/urgent.rs"]
                .iter()
                .any(|place| file.starts_with(place))
                || file == "tcp/timewait.rs"
                || file == "tcp/timers.rs" && name.starts_with("tcp_keepalive_")
                || file == "socket/listener.rs" && name == "tcp_fastopen"
        };
        let tcp = |file: &str, name: &str| {
            let sctp = file.starts_with("sctp/") || file.starts_with("stack/sctp/");
            sctp || file.starts_with("udp/") || file == "stack/udp.rs" || neither(file, name)
        };
        let with_udp = |file: &str, name: &str| !file.starts_with("udp/") && tcp(file, name);
        let sctp = |file: &str, name: &str| {
            let of_tcp =
                ["tcp/", "stack/tcp.rs", "stack/handshake.rs", "stack/settle.rs", "stack/syncookie.rs"];
            let of_tcp = of_tcp.iter().any(|place| file.starts_with(place));
            let of_path = ["path/rtt.rs", "path/plpmtud.rs", "path/mod.rs"].contains(&file)
                && name != "tcp_min_rtt_wlen";
            let turned_on =
                name == "tcp_queue_aware" || file == "path/pacing.rs" && name == "tcp_tso_rtt_log";
            let is = of_tcp || of_path || turned_on || file.starts_with("udp/") || file == "stack/udp.rs";
            is || neither(file, name)
        };
        type Unread<'a> = &'a dyn Fn(&str, &str) -> bool;
        let of: [(&str, Unread<'_>); 4] =
            [("bulk", &tcp), ("pacing", &tcp), ("small-queues", &with_udp), ("sctp-failover", &sctp)];
        for (experiment, never) in of {
            let told: Vec<&str> = unread(experiment).collect();
            for (name, _) in Sysctl::NAMES {
                let read: Vec<String> = readers(name).into_iter().filter(|file| !never(file, name)).collect();
                assert_eq!(told.contains(name), read.is_empty(), "{experiment}: {name} is read in {read:?}");
            }
            assert!(told.len() > 40, "{told:?}");
        }
    }
}
