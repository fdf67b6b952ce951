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

/// Why `key` changes nothing in this run of `experiment`: in variants of which this holds. `None` where it may.
pub(super) fn why(experiment: &str, scenario: &dyn Scenario, key: &str) -> Option<&'static str> {
    if Sysctl::knows(key) {
        let (sctp, shared) = (experiment.starts_with("sctp-"), SHARED.contains(&key));
        return match key {
            "tcp_notsent_lowat" if number(scenario, "lowat") > 0.0 => {
                Some("whose sockets set TCP_NOTSENT_LOWAT themselves (lowat)")
            }
            _ if sctp && key.starts_with("tcp_") && !shared => Some("of SCTP, which does not read it"),
            _ if !sctp && key.starts_with("sctp.") => Some("of TCP, which does not read it"),
            _ => None,
        };
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
    fn what_a_protocol_does_not_read_changes_nothing() {
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

    /// Where its code does not name them, no other run reads them either.
    #[test]
    fn sctp_s_code_names_nothing_that_it_does_not_read() {
        fn sources(dir: &Path, all: &mut String) {
            for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
                match entry.path() {
                    path if path.is_dir() => sources(&path, all),
                    path => *all += &std::fs::read_to_string(path).expect("a source"),
                }
            }
        }
        let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src");
        let mut code = String::new();
        ["sctp", "stack/sctp"].iter().for_each(|dir| sources(&core.join(dir), &mut code));
        for name in unread("sctp-failover") {
            assert!(!code.contains(&format!("sysctl.{name}")), "{name}");
        }
        assert!(code.contains("sysctl.tcp_wmem"), "it is where it is looked for");
    }
}
