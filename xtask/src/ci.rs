//! Everything that CI runs, stage by stage, with the time of each and a truthful last line.
use crate::command::{Outcome, cargo, run, run_watched};
use crate::{rules, tidy, tools};
use std::time::{Duration, Instant};

/// Seeds of the simulator in CI; more by `cargo xtask sim --minutes N`.
const SEEDS: &str = "0..1000";
/// Seconds of fuzzing in CI.
const FUZZ_SECONDS: &str = "60";

/// All scripts, in all of packetdrill's modes, take less than this together; a twentieth of it is usual.
const SCRIPTS_MAX: Duration = Duration::from_secs(10);

/// Linux in user mode, and what forbids to skip what needs it.
const LINUX: &str = "linux.uml";
const REQUIRE_NET: &str = "LOWWATER_REQUIRE_NET";

/// One stage.
struct Stage {
    name: &'static str,
    what: &'static str,
    run: fn(&mut Tests) -> Outcome,
}

/// Stages in the order in which they run: what fails fast and often comes first.
const STAGES: &[Stage] = &[
    Stage {
        name: "fmt",
        what: "cargo fmt --all --check",
        run: |_| run(&mut cargo(&["fmt", "--all", "--check"])),
    },
    Stage { name: "tidy", what: "cargo xtask tidy", run: |_| tidy::run() },
    Stage { name: "rules", what: "every rule of docs/rules.md has a script", run: |_| rules::run() },
    Stage {
        name: "clippy",
        what: "cargo clippy --workspace --all-targets -- -D warnings",
        run: |_| clippy(),
    },
    Stage { name: "docs", what: "cargo doc --workspace --no-deps, warnings refused", run: |_| docs() },
    Stage { name: "test", what: "cargo test --workspace, namespaces included", run: test },
    Stage {
        name: "lab",
        what: "all experiments; small-queues and tso-autosize beside Linux",
        run: |_| lab(),
    },
    Stage { name: "drill", what: "all scripts in all modes, in less than 10 s", run: |_| drill() },
    Stage { name: "seeds", what: "1,000 seeds of the simulator", run: seeds },
    Stage { name: "fuzz", what: "the structured fuzzer for 60 s", run: fuzz },
];

/// What test programs said at their ends, added up.
#[derive(Default)]
struct Tests {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Tests {
    /// Reads `test result: ok. 12 passed; 0 failed; 1 ignored; ...`.
    fn watch(&mut self, line: &str) {
        let Some((_, rest)) = line.split_once("test result: ") else { return };
        for part in rest.split(['.', ';']) {
            let mut words = part.split_whitespace();
            let (Some(Ok(n)), Some(what)) = (words.next().map(str::parse::<u64>), words.next()) else {
                continue;
            };
            match what {
                "passed" => self.passed += n,
                "failed" => self.failed += n,
                "ignored" => self.ignored += n,
                _ => {}
            }
        }
    }
}

fn clippy() -> Outcome {
    run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn docs() -> Outcome {
    run(cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}

/// All of them, so that one run names everything that fails.
fn test(tests: &mut Tests) -> Outcome {
    run_watched(&mut cargo(&["test", "--workspace", "--no-fail-fast"]), &mut |line| tests.watch(line))
}

/// The README's first command; then the experiments that also run on Linux in user mode, with both columns in the table.
fn lab() -> Outcome {
    run(&mut cargo(&["run", "--release", "--quiet", "--", "lab", "--json"]))?;
    if !on_path(LINUX) && std::env::var_os(REQUIRE_NET).is_none_or(|v| v != "1") {
        println!("skipped: needs {LINUX} (apt-get install user-mode-linux)");
        return Ok(());
    }
    let beside = ["small-queues", "tso-autosize", "--uml", "--set", "warmup_s=1", "--set", "measure_s=2"];
    run(cargo(&["run", "--release", "--quiet", "--", "lab", "run"]).args(beside))
}

fn drill() -> Outcome {
    // Built by the very command that is timed: another one may choose other features, and build again.
    run(&mut cargo(&["run", "--release", "--quiet", "--", "--version"]))?;
    let begin = Instant::now();
    run(&mut cargo(&["run", "--release", "--quiet", "--", "drill", "--modes", "all", "tests/drill"]))?;
    match begin.elapsed() {
        took if took > SCRIPTS_MAX => Err(format!("the scripts took {:.1} s", took.as_secs_f64())),
        _ => Ok(()),
    }
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn seeds(_: &mut Tests) -> Outcome {
    tools::sim(&["--seeds".to_owned(), SEEDS.to_owned()])
}

fn fuzz(_: &mut Tests) -> Outcome {
    tools::fuzz(&["--seconds".to_owned(), FUZZ_SECONDS.to_owned()])
}

/// Names the stages.
pub(crate) fn list() -> Outcome {
    for stage in STAGES {
        println!("{:<10} {}", stage.name, stage.what);
    }
    Ok(())
}

/// Runs the stages of these names, or all of them.
pub(crate) fn run_stages(only: &[String]) -> Outcome {
    if let Some(unknown) = only.iter().find(|n| !STAGES.iter().any(|s| s.name == n.as_str())) {
        return Err(format!("there is no stage '{unknown}'; `cargo xtask ci --list` names them"));
    }
    let chosen: Vec<&Stage> =
        STAGES.iter().filter(|s| only.is_empty() || only.iter().any(|n| n == s.name)).collect();
    let begin = Instant::now();
    let mut tests = Tests::default();
    let mut done: Vec<(&Stage, Duration, Outcome)> = Vec::new();
    for stage in &chosen {
        println!("\n=== {}: {}", stage.name, stage.what);
        let start = Instant::now();
        let outcome = (stage.run)(&mut tests);
        let took = start.elapsed();
        let word = if outcome.is_ok() { "passed" } else { "FAILED" };
        println!("=== {}: {word} after {:.1} s", stage.name, took.as_secs_f64());
        let failed = outcome.is_err();
        done.push((stage, took, outcome));
        if failed {
            break;
        }
    }
    summary(&chosen, &done, &tests, begin.elapsed())
}

fn summary(chosen: &[&Stage], done: &[(&Stage, Duration, Outcome)], tests: &Tests, all: Duration) -> Outcome {
    println!("\nstage          seconds  result");
    for (stage, took, outcome) in done {
        let word = if outcome.is_ok() { "passed" } else { "FAILED" };
        println!("{:<12} {:>9.1}  {word}", stage.name, took.as_secs_f64());
    }
    for stage in &chosen[done.len()..] {
        println!("{:<12} {:>9}  not run", stage.name, "-");
    }
    let failed = done.iter().filter(|(_, _, o)| o.is_err()).count();
    println!("tests: {} passed, {} failed, {} ignored", tests.passed, tests.failed, tests.ignored);
    println!(
        "stages: {} passed, {failed} failed, {} not run, in {:.0} s",
        done.len() - failed,
        chosen.len() - done.len(),
        all.as_secs_f64()
    );
    match done.iter().find_map(|(stage, _, o)| o.as_ref().err().map(|why| (stage, why))) {
        Some((stage, why)) => Err(format!("stage '{}' failed: {why}", stage.name)),
        None => Ok(()),
    }
}
