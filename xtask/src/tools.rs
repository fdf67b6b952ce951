//! Chores that hand their arguments on to another program of the workspace.
use crate::command::{Outcome, cargo, run};

/// The tests of the workspace.
pub(crate) fn test(rest: &[String]) -> Outcome {
    run(&mut cargo(&with(&["test", "--workspace"], rest)))
}

/// The simulator, optimised but with every assertion on.
pub(crate) fn sim(rest: &[String]) -> Outcome {
    run(&mut cargo(&with(&["run", "--quiet", "--profile", "sim", "-p", "lowwater-sim", "--"], rest)))
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
