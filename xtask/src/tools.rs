//! Chores that hand their arguments on to another program of the workspace.
use crate::command::{Outcome, cargo, root, run};

/// The tests of the workspace.
pub(crate) fn test(rest: &[String]) -> Outcome {
    run(&mut cargo(&with(&["test", "--workspace"], rest)))
}

/// The simulator, optimised but with every assertion on.
pub(crate) fn sim(rest: &[String]) -> Outcome {
    if !has_simulator() {
        return Err("the simulator's program (crates/sim) is not built yet".to_owned());
    }
    run(&mut cargo(&with(&["run", "--quiet", "--profile", "sim", "-p", "lowwater-sim", "--"], rest)))
}

/// True when the simulator has a program to run.
pub(crate) fn has_simulator() -> bool {
    root().join("crates/sim/src/main.rs").exists() || root().join("crates/sim/src/bin").exists()
}

/// The fuzzer, in the simulator's profile.
pub(crate) fn fuzz(rest: &[String]) -> Outcome {
    run(&mut cargo(&with(&["run", "--quiet", "--profile", "sim", "-p", "lowwater-fuzz", "--"], rest)))
}

/// The benchmarks.
pub(crate) fn bench(rest: &[String]) -> Outcome {
    run(&mut cargo(&with(&["bench", "--workspace"], rest)))
}

fn with(first: &[&str], rest: &[String]) -> Vec<String> {
    first.iter().map(|w| (*w).to_owned()).chain(rest.iter().cloned()).collect()
}
