//! What an event of the lab's simulator costs, in instructions: with the number of events (`command_line lab`) all that the lab's time depends on, but for
//! the machine.
#[path = "support/mod.rs"]
mod support;

use serde_json::Value;
use std::process::Command;
use support::{Dir, PATIENCE, run};

/// The dearest run of some experiments, for a moment, and the most instructions per event in the test profile. That is half more than they take:
/// compilers differ by less. (The whole lab would take half an hour below valgrind.)
const RUNS: [(&str, u64); 5] = [
    ("small-queues --variant off-segments-1gbit --set warmup_s=0.1 --set measure_s=0.1", 27_000),
    ("pacing --variant 80-fq --set warmup_s=0.2 --set measure_s=0.2", 105_000),
    ("queue-aware --variant 1gbit --set measure_s=0.1", 15_000),
    ("sctp-heartbeat --variant bulk-eager --set measure_s=0.1", 30_000),
    ("bulk --variant reno --set bytes=1000000", 23_000),
];

/// Events and instructions of one run of the lab; `None` where valgrind is missing.
fn counted(words: &str) -> Option<(u64, u64)> {
    Command::new("valgrind").arg("--version").output().ok()?;
    let dir = Dir::new();
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", dir.join("callgrind").display()));
    command.arg(env!("CARGO_BIN_EXE_lowwater")).args(["lab", "run", "--json"]).args(words.split(' '));
    let ended = run(&mut command, 10 * PATIENCE).ok();
    let all = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let events: u64 = all.map(|run| run["events"].as_u64().expect("a number")).sum();
    let total = ended.stderr.lines().find_map(|line| line.split("Collected :").nth(1));
    Some((events, total.and_then(|total| total.trim().parse().ok()).expect("callgrind's last line")))
}

#[test]
fn an_event_of_the_lab_costs_no_more_instructions_than_said() {
    let mut dear = Vec::new();
    for (words, most) in RUNS {
        let Some((events, total)) = counted(words) else {
            assert!(std::env::var_os("LOWWATER_REQUIRE_NET").is_none_or(|v| v != "1"), "valgrind is missing");
            return println!("skipped: needs valgrind");
        };
        let each = total / events;
        println!("{each} instructions for each of {events} events: {words}");
        if each > most {
            dear.push(format!("{each} instead of {most}: {words}"));
        }
    }
    assert!(dear.is_empty(), "{}", dear.join("; "));
}
