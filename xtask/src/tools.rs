//! Chores that hand their arguments on to another program of the workspace.
use crate::command::{Outcome, become_it, cargo, run};
use std::process::Command;

/// The tests of the workspace.
pub(crate) fn test(rest: &[String]) -> Outcome {
    run(&mut cargo(&with(&["test", "--workspace"], rest)))
}

/// The simulator, as a stage of CI.
pub(crate) fn sim(rest: &[String]) -> Outcome {
    run(&mut simulator(rest))
}

/// The simulator in place of this program, so that it ends with what the simulator says: 130 after Ctrl-C.
pub(crate) fn sim_itself(rest: &[String]) -> Outcome {
    become_it(&mut simulator(rest))
}

/// Optimised but with every assertion on.
fn simulator(rest: &[String]) -> Command {
    cargo(&with(&["run", "--quiet", "--profile", "sim", "-p", "lowwater-sim", "--"], rest))
}

/// The fuzzer, in the simulator's profile.
pub(crate) fn fuzz(rest: &[String]) -> Outcome {
    run(&mut cargo(&with(&["run", "--quiet", "--profile", "sim", "-p", "lowwater-fuzz", "--"], rest)))
}

/// The benchmarks.
pub(crate) fn bench(rest: &[String]) -> Outcome {
    for program in ["pair", "tun"] {
        run(&mut cargo(&with(
            &["run", "--release", "--quiet", "-p", "lowwater-bench", "--bin", program, "--"],
            rest,
        )))?;
    }
    Ok(())
}

fn with(first: &[&str], rest: &[String]) -> Vec<String> {
    first.iter().map(|w| (*w).to_owned()).chain(rest.iter().cloned()).collect()
}
