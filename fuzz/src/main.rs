//! Throws packets, calls, times and devices of every kind at two stacks, from seeds, and says how to do it again.
//!
//! A case is a seed and a number of steps. Every step draws from a stream of its own, so that steps can be left out without
//! changing the others: that is how a failing case is made small.
#![forbid(unsafe_code)]
mod assoc;
mod calls;
mod craft;
mod device;
mod judge;
mod meter;
mod mutate;
mod sctp;
mod shrink;
mod steps;
mod world;

use clap::Parser;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Structured fuzzer over the whole input path of lowwater.
#[derive(Parser)]
#[command(name = "lowwater-fuzz")]
struct Cli {
    /// Stop after so many seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The first seed; the others follow it
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Begin at a seed that the clock gives; the last line names it
    #[arg(long, conflicts_with_all = ["from", "seed"])]
    new: bool,
    /// Run this seed alone
    #[arg(long)]
    seed: Option<u64>,
    /// Run the seed with these of its steps alone, e.g. 3,17,200
    #[arg(long, requires = "seed", value_delimiter = ',')]
    only: Option<Vec<u32>>,
    /// Go on after a failure, and report each kind of failure once
    #[arg(long)]
    keep_going: bool,
    /// Say what each step does
    #[arg(long, requires = "seed")]
    trace: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    shrink::quiet_panics(cli.trace);
    shrink::watch_for_hangs();
    if let Some(seed) = cli.seed {
        let case = shrink::Case { seed, only: cli.only, trace: cli.trace };
        return report(shrink::attempt(&case).map(|r| println!("seed {seed}: passed, {r:?}")), &case);
    }
    many(&cli)
}

/// Seed after seed until the time is up.
fn many(cli: &Cli) -> ExitCode {
    let (start, limit) = (Instant::now(), Duration::from_secs(cli.seconds));
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // Far from one another, so that runs one after the other have no seeds in common.
    let from = if cli.new { since.map_or(1, |since| since.as_secs() << 20) } else { cli.from };
    let (mut seed, mut reach) = (from, shrink::Reach::default());
    let mut kinds: Vec<(shrink::Failure, u32)> = Vec::new();
    while start.elapsed() < limit {
        let case = shrink::Case { seed, only: None, trace: false };
        seed += 1;
        match shrink::attempt(&case) {
            Ok(r) => reach += r,
            Err(failure) => match kinds.iter_mut().find(|(f, _)| shrink::alike(&f.what, &failure.what)) {
                Some((_, times)) => *times += 1,
                None => {
                    report(Err(failure.clone()), &case);
                    kinds.push((failure, 1));
                }
            },
        }
        if !kinds.is_empty() && !cli.keep_going {
            break;
        }
    }
    for (failure, times) in &kinds {
        println!("fuzz: {times} times: {}", failure.what);
    }
    let failed: u32 = kinds.iter().map(|(_, times)| times).sum();
    let passed = seed - from - u64::from(failed);
    println!(
        "fuzz: {} steps, {} connections accepted, {} segments and {} datagrams in, {} packets dropped",
        reach.steps, reach.connections, reach.segments, reach.datagrams, reach.drops
    );
    println!(
        "fuzz: {} associations begun or accepted, {} chunks in, {} packets out of the blue",
        reach.associations, reach.chunks, reach.blue
    );
    println!("fuzz: {passed} cases passed, {failed} failed, seeds {from}..{seed}");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Says what failed, makes the case small and prints how to see it again.
fn report(outcome: Result<(), shrink::Failure>, case: &shrink::Case) -> ExitCode {
    let Err(failure) = outcome else { return ExitCode::SUCCESS };
    println!("fuzz: FAILED at seed {}, step {}: {}", case.seed, failure.step, failure.what);
    if case.only.is_none() {
        let (only, last) = shrink::shrink(case, &failure);
        let list: Vec<String> = only.iter().map(ToString::to_string).collect();
        println!("fuzz: {} steps are enough: {}", only.len(), last.what);
        println!("replay: cargo xtask fuzz --seed {} --trace --only {}", case.seed, list.join(","));
    }
    ExitCode::FAILURE
}
