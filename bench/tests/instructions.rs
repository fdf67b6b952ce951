//! Work per acknowledgement does not grow with the window: instruction counts, which no neighbour on the machine disturbs.
use std::process::Command;

/// Instructions that callgrind counts in `acknowledge`, per acknowledgement; `None` where valgrind is missing.
fn instructions(window: u32, mode: &str, acks: u64) -> Option<u64> {
    let out = std::env::temp_dir().join(format!("lowwater-ack-{}-{window}-{mode}", std::process::id()));
    let run = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg("--toggle-collect=*acknowledge*")
        .args([env!("CARGO_BIN_EXE_ack_cost"), &window.to_string(), mode])
        .output()
        .ok()?;
    let _ = std::fs::remove_file(out);
    let text = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{text}");
    let total = text.lines().find_map(|l| l.split("Collected :").nth(1)).expect("callgrind's last line");
    Some(total.trim().parse::<u64>().expect("a number") / acks)
}

fn within_a_factor_of_two(mode: &str, acks_small: u64, acks_large: u64) {
    let Some(small) = instructions(100, mode, acks_small) else {
        assert!(std::env::var_os("LOWWATER_REQUIRE_NET").is_none(), "valgrind is missing");
        println!("skipped: needs valgrind");
        return;
    };
    let large = instructions(100_000, mode, acks_large).expect("valgrind was there a moment ago");
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
