//! Work per acknowledgement does not grow with the window: instruction counts, which no neighbour on the machine disturbs.
use std::process::Command;

/// Instructions that callgrind counts in the function `within` of a program, per repetition; `None` where valgrind is missing.
fn instructions(program: &str, args: &[&str], within: &str, times: u64) -> Option<u64> {
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
    assert!(std::env::var_os("LOWWATER_REQUIRE_NET").is_none_or(|v| v != "1"), "valgrind is missing");
    println!("skipped: needs valgrind");
}

fn within_a_factor_of_two(mode: &str, acks_small: u64, acks_large: u64) {
    let program = env!("CARGO_BIN_EXE_ack_cost");
    let Some(small) = instructions(program, &["100", mode], "acknowledge", acks_small) else {
        return skipped();
    };
    let large = instructions(program, &["100000", mode], "acknowledge", acks_large)
        .expect("valgrind was there a moment ago");
    println!("{mode}: {small} instructions per ACK at a window of 100 segments, {large} at 100,000");
    assert!(small > 0 && large <= 2 * small && small <= 2 * large);
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
fn a_block_that_grows_costs_the_same_at_any_window() {
    within_a_factor_of_two("grow", 99, 2_000);
}

#[test]
fn a_round_trip_costs_the_same_beside_any_number_of_connections() {
    let rounds = 1_000;
    let cost = |connections| {
        instructions(env!("CARGO_BIN_EXE_ask_cost"), &[connections, "1000"], "measured", rounds)
    };
    let Some(alone) = cost("1") else { return skipped() };
    let crowd = cost("10000").expect("valgrind was there a moment ago");
    println!("ask: {alone} instructions per round trip of two stacks, {crowd} beside 10,000 connections");
    assert!(crowd <= 2 * alone && alone <= 2 * crowd);
}

#[test]
fn a_connection_costs_the_same_after_any_number_of_them() {
    let cost =
        |before: &str| instructions(env!("CARGO_BIN_EXE_connect_cost"), &[before, "500"], "measured", 500);
    let Some(first) = cost("100") else { return skipped() };
    let late = cost("10000").expect("valgrind was there a moment ago");
    println!("connect: {first} instructions per connection of two stacks, {late} after 10,000 of them");
    assert!(late <= 2 * first && first <= 2 * late);
}

/// `bulk_cost` per megabyte: 10,000 writes of 14,480 bytes.
fn per_megabyte(flows: &str, idle: &str, at_once: &str) -> Option<u64> {
    let megabytes = 10_000 * 14_480 / 1_000_000;
    instructions(env!("CARGO_BIN_EXE_bulk_cost"), &[flows, idle, at_once], "measured", megabytes)
}

#[test]
fn a_megabyte_costs_the_same_over_any_number_of_flows() {
    let Some(one) = per_megabyte("1", "0", "1") else { return skipped() };
    let cost = |flows, at_once| per_megabyte(flows, "0", at_once).expect("valgrind was there a moment ago");
    let (hundred, many) = (cost("100", "1"), cost("10000", "1"));
    println!("bulk: {one} instructions per MB of two stacks by one flow, {hundred} by 100, {many} by 10,000");
    let (hundred_at_once, many_at_once) = (cost("100", "64"), cost("10000", "64"));
    println!("the same with 64 flows ready at once: {hundred_at_once} by 100, {many_at_once} by 10,000");
    for (few, more) in [(one, hundred), (one, many), (hundred_at_once, many_at_once)] {
        assert!(2 * more <= 3 * few && 2 * few <= 3 * more, "more than one and a half times");
    }
}

#[test]
fn idle_connections_cost_nothing_per_packet() {
    let Some(alone) = per_megabyte("1", "0", "1") else { return skipped() };
    let crowd = per_megabyte("1", "100000", "1").expect("valgrind was there a moment ago");
    println!(
        "bulk: {alone} instructions per MB of two stacks alone, {crowd} beside 100,000 idle connections"
    );
    assert!(100 * crowd <= 102 * alone, "idle connections cost something");
}

/// Nobody asks how late completions are: a device that tells of each packet costs a count, and one in which nothing waits not even that.
#[test]
fn the_queue_aware_limit_costs_nothing_while_it_is_off() {
    let per_packet = |word: &[&str]| {
        let args = [&["1", "0", "1"], word].concat();
        instructions(env!("CARGO_BIN_EXE_bulk_cost"), &args, "measured", 10_000)
    };
    let Some(nothing) = per_packet(&[]) else { return skipped() };
    let cost = |word| per_packet(&[word]).expect("valgrind was there a moment ago");
    let (off, on) = (cost("keeps"), cost("aware"));
    println!(
        "{nothing} instructions per packet of two stacks and its ACK where nothing waits in the device, {off} where packets do, {on} with the limit"
    );
    assert!(off <= nothing + 40, "somebody pays for what nobody asks");
    assert!(on > off, "the setting is on");
}

/// `qdisc_cost` per packet.
fn per_packet(flows: &str, words: &str) -> Option<u64> {
    instructions(env!("CARGO_BIN_EXE_qdisc_cost"), &[flows, words], "measured", 20_000)
}

#[test]
fn a_packet_costs_a_queueing_discipline_the_same_with_any_number_of_flows() {
    for words in ["fq limit 20000", "fq_codel limit 20000 target 1s"] {
        let Some(one) = per_packet("1", words) else { return skipped() };
        let cost = |flows| per_packet(flows, words).expect("valgrind was there a moment ago");
        let (hundred, many) = (cost("100"), cost("10000"));
        println!(
            "{words}: {one} instructions per packet with 1 flow, {hundred} with 100, {many} with 10,000"
        );
        assert!(one > 100, "something was counted");
        for more in [hundred, many] {
            assert!(2 * more <= 3 * one && 2 * one <= 3 * more, "more than one and a half times");
        }
    }
}

/// The payload that `paced_cost` sends in the time that it measures is what the rate allows, within 2 %. 800 flows are the commit's.
#[test]
fn a_paced_megabyte_costs_about_the_same_by_either_pacer_and_for_any_number_of_flows() {
    let program = env!("CARGO_BIN_EXE_paced_cost");
    let mut all = Vec::new();
    for (flows, ms) in [("1", "100"), ("100", "100"), ("800", "75")] {
        let megabytes = |qdisc: &str| {
            let said = Command::new(program).args([flows, qdisc, ms]).output().expect("it runs").stdout;
            let bytes: f64 = String::from_utf8_lossy(&said).trim().parse().expect("bytes");
            let number = |text: &str| text.parse::<f64>().expect("a number");
            let allowed = number(flows) * number(ms) * 6_000.0;
            assert!((bytes / allowed - 1.0).abs() < 0.02, "{bytes} bytes of {allowed} above {qdisc}");
            bytes / 1e6
        };
        let cost = |qdisc: &str| {
            let all = instructions(program, &[flows, qdisc, ms], "measured", 1)?;
            Some((all as f64 / megabytes(qdisc)) as u64)
        };
        let (Some(internal), Some(fq)) = (cost("pfifo_fast"), cost("fq")) else { return skipped() };
        println!(
            "{flows} flows of 48 Mbit/s: {internal} instructions per MB of two stacks by timers, {fq} by fq"
        );
        all.extend([internal, fq]);
    }
    let (least, most) = (all.iter().min().copied(), all.iter().max().copied());
    assert!(2 * most.unwrap_or(0) <= 3 * least.unwrap_or(0), "more than one and a half times: {all:?}");
}

/// `sctp_cost` per message of 1,636 bytes; the number of messages is what it says.
fn per_message(mtu: &str, mode: &str) -> Option<f64> {
    let (program, args) = (env!("CARGO_BIN_EXE_sctp_cost"), [mtu, "1636", mode]);
    let said = Command::new(program).args(args).output().expect("it runs").stdout;
    let messages: f64 = String::from_utf8_lossy(&said).trim().parse().expect("a number of messages");
    assert!(messages > 1_000.0, "{messages} messages");
    Some(instructions(program, &args, "measured", 1)? as f64 / messages)
}

/// The commit's own path, and the usual one: a heartbeat timer that each packet arms costs something, and nothing else differs.
#[test]
fn a_lazy_heartbeat_saves_instructions_per_message() {
    for mtu in ["65535", "1500"] {
        let Some(eager) = per_message(mtu, "eager") else { return skipped() };
        let lazy = per_message(mtu, "lazy").expect("valgrind was there a moment ago");
        let saved = 100.0 * (eager / lazy - 1.0);
        println!(
            "sctp, MTU {mtu}: {lazy:.0} instructions per message of two stacks, {eager:.0} with an eager timer: {saved:.2} %"
        );
        assert!(lazy < eager && eager < 1.2 * lazy, "{lazy} and {eager}");
    }
}
