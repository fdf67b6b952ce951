//! Work per acknowledgement does not grow with the window: instruction counts, which no neighbour on the machine disturbs.
use std::process::Command;

/// Instructions that callgrind counts in the function `within` of a program, per repetition; `None` where valgrind is missing.
fn instructions(program: &str, args: [&str; 2], within: &str, times: u64) -> Option<u64> {
    let out =
        std::env::temp_dir().join(format!("lowwater-{}-{within}-{}", std::process::id(), args.join("-")));
    let run = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(format!("--toggle-collect=*{within}*"))
        .arg(program)
        .args(args)
        .output()
        .ok()?;
    let _ = std::fs::remove_file(out);
    let text = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{text}");
    let total = text.lines().find_map(|l| l.split("Collected :").nth(1)).expect("callgrind's last line");
    Some(total.trim().parse::<u64>().expect("a number") / times)
}

/// Says so; where a missing valgrind is no excuse, fails.
fn skipped() {
    assert!(std::env::var_os("LOWWATER_REQUIRE_NET").is_none(), "valgrind is missing");
    println!("skipped: needs valgrind");
}

fn within_a_factor_of_two(mode: &str, acks_small: u64, acks_large: u64) {
    let program = env!("CARGO_BIN_EXE_ack_cost");
    let Some(small) = instructions(program, ["100", mode], "acknowledge", acks_small) else {
        return skipped();
    };
    let large = instructions(program, ["100000", mode], "acknowledge", acks_large)
        .expect("valgrind was there a moment ago");
    println!("{mode}: {small} instructions per ACK at a window of 100 segments, {large} at 100,000");
    assert!(large <= 2 * small && small <= 2 * large);
}

#[test]
fn a_cumulative_ack_costs_the_same_at_any_window() {
    within_a_factor_of_two("ack", 2_000, 2_000);
}

#[test]
fn a_sack_block_costs_the_same_at_any_window() {
    // 49 blocks fit a window of 100, each filled later.
    within_a_factor_of_two("sack", 98, 4_000);
}

#[test]
fn a_round_trip_costs_the_same_beside_any_number_of_connections() {
    let rounds = 1_000;
    let cost =
        |connections| instructions(env!("CARGO_BIN_EXE_ask_cost"), [connections, "1000"], "measured", rounds);
    let Some(alone) = cost("1") else { return skipped() };
    let crowd = cost("10000").expect("valgrind was there a moment ago");
    println!("ask: {alone} instructions per round trip of two stacks, {crowd} beside 10,000 connections");
    assert!(crowd <= 2 * alone && alone <= 2 * crowd);
}
