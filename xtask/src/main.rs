//! The one door to everything a contributor runs: `cargo xtask` lists it.
#![forbid(unsafe_code)]
mod bound;
mod census;
mod ci;
mod command;
mod properties;
mod rules;
mod tidy;
mod tools;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Chores of lowwater. Each works from any directory of the workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// All that CI runs, stage by stage, with the time of each; stops at the first stage that fails
    Ci {
        /// Run only these stages, by name
        #[arg(long = "stage", value_name = "NAME")]
        stages: Vec<String>,
        /// Say which stages there are and run none
        #[arg(long)]
        list: bool,
    },
    /// House rules that the compiler does not know: import ranks, walls, words, tables in the docs
    Tidy,
    /// The tests of the workspace (`cargo test --workspace`)
    Test {
        /// Handed on to `cargo test`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// The simulator: some seeds, one seed, or as many as fit into some minutes
    Sim {
        /// Handed on to the simulator: `--seed N`, `--seeds A..B`, `--minutes M`, ...
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// The property tests with new cases; `cargo test` draws the same ones each time
    Properties {
        /// The first seed, as a failure names it; without it one that the clock gives
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
        /// How often, with the seeds that follow
        #[arg(long, value_name = "N", default_value_t = 1)]
        rounds: u64,
    },
    /// The structured fuzzer over the whole input path
    Fuzz {
        /// Handed on to the fuzzer: `--seconds N`, `--new` (else it begins at seed 0), `--seed N`, `--keep-going`, ...
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// The benchmarks of bench/README.md: two stacks in one process, then the kernel's peer over TUN (root, iperf3)
    Bench {
        /// Handed on to both programs
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Which rules of docs/rules.md neither a script below tests/drill nor a test shows, and which a test alone
    Rules,
    /// Counts `unsafe` by file, so that a review sees the number move
    UnsafeCensus,
}

fn main() -> ExitCode {
    let done = match Cli::parse().chore {
        Chore::Ci { list: true, .. } => ci::list(),
        Chore::Ci { stages, list: false } => ci::run_stages(&stages),
        Chore::Tidy => tidy::run(),
        Chore::Test { rest } => tools::test(&rest),
        Chore::Sim { rest } => tools::sim_itself(&rest),
        Chore::Properties { seed, rounds } => properties::run_all(seed, rounds),
        Chore::Fuzz { rest } => tools::fuzz(&rest),
        Chore::Bench { rest } => tools::bench(&rest),
        Chore::Rules => rules::run(),
        Chore::UnsafeCensus => census::run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}
