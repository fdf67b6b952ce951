//! Everything that CI runs, stage by stage, with the time of each and a truthful last line.
use crate::bound::within;
use crate::command::{Outcome, cargo, cargo_name, heard, program, run, run_watched};
use crate::{rules, tidy, tools};
use std::panic::resume_unwind;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Seeds of the simulator in CI; more by `cargo xtask sim --minutes N`.
const SEEDS: &str = "0..1000";
/// Seconds of fuzzing in CI.
const FUZZ_SECONDS: &str = "60";

/// All scripts, in all of packetdrill's modes, take less than this together; a twentieth of it is usual.
const SCRIPTS_MAX: Duration = Duration::from_secs(10);

/// Test programs that run beside the others, which sleep for a third of their time.
const BESIDE: [Beside; 1] = [
    // No neighbour changes what they count: they have what the others leave of the processors.
    Beside { program: "instructions", nice: "19" },
];

/// Test programs of one name.
struct Beside {
    program: &'static str,
    nice: &'static str,
}

impl Beside {
    /// Lists their tests. By the same packages as what is built before, so that nothing is built again.
    fn list(&self) -> Result<String, String> {
        let words = ["test", "--quiet", "--workspace", "--test", self.program, "--", "--list"];
        let (list, known) = heard(&mut cargo(&words));
        known.map(|()| list)
    }

    fn run(&self) -> (String, Outcome) {
        let cargo = cargo_name();
        let words =
            ["-n", self.nice, &cargo, "test", "--workspace", "--no-fail-fast", "--test", self.program];
        heard(&mut program("nice", &words))
    }
}

/// What later stages build, by the same features, so that they find it built. Tests sleep for a part of their time: that is used here, at the lowest priority.
const AHEAD: [Ahead; 3] = [
    Ahead { stages: &["build", "lab", "drill"], words: &RELEASE },
    Ahead { stages: &["seeds"], words: &["build", "--quiet", "--profile", "sim", "-p", "lowwater-sim"] },
    Ahead { stages: &["fuzz"], words: &["build", "--quiet", "--profile", "sim", "-p", "lowwater-fuzz"] },
];
/// The README's first command.
const RELEASE: [&str; 5] = ["run", "--release", "--quiet", "--", "--version"];

/// A build for later stages.
struct Ahead {
    stages: &'static [&'static str],
    /// For cargo.
    words: &'static [&'static str],
}

impl Ahead {
    /// Builds what these stages need, a crate at a time, so that no more memory is taken beside the tests; no more of it once `failed`.
    /// What fails fails again in its stage, and is told there.
    fn build_for(chosen: &[&str], failed: &AtomicBool) {
        for ahead in AHEAD.iter().filter(|ahead| ahead.stages.iter().any(|stage| chosen.contains(stage))) {
            if failed.load(Ordering::Relaxed) {
                return;
            }
            let begin = Instant::now();
            let cargo = cargo_name();
            let (verb, words) = ahead.words.split_at(1);
            let words = [&["-n", "19", &cargo], verb, &["-j1"], words].concat();
            let outcome = run(program("nice", &words).stdout(Stdio::null()).stderr(Stdio::null()));
            let word = if outcome.is_ok() { "built" } else { "not built" };
            println!("=== for {}: {word} after {:.1} s", ahead.stages[0], begin.elapsed().as_secs_f64());
            // What was killed is not begun again.
            if outcome.is_err() {
                return;
            }
        }
    }
}

/// Linux in user mode, and what forbids to skip what needs it.
const LINUX: &str = "linux.uml";
const REQUIRE_NET: &str = "LOWWATER_REQUIRE_NET";

/// One stage.
struct Stage {
    name: &'static str,
    what: &'static str,
    /// Minutes that it may take: several times what it needs on two cores that begin with nothing built. Whoever takes longer hangs.
    minutes: u64,
    run: fn(&mut Run) -> Outcome,
}

/// What stages know of one another.
#[derive(Default)]
struct Run {
    tests: Tests,
    /// The names of all stages of this run.
    chosen: Vec<&'static str>,
}

impl Stage {
    const fn new(name: &'static str, what: &'static str, minutes: u64, run: fn(&mut Run) -> Outcome) -> Self {
        Self { name, what, minutes, run }
    }
}

/// Stages in the order in which they run: what fails fast and often comes first.
const STAGES: &[Stage] = &[
    Stage::new("fmt", "cargo fmt --all --check", 1, |_| run(&mut cargo(&["fmt", "--all", "--check"]))),
    Stage::new("tidy", "cargo xtask tidy", 1, |_| tidy::run()),
    Stage::new("rules", "every rule of docs/rules.md has a script, or names a test", 1, |_| rules::run()),
    Stage::new("clippy", "cargo clippy --workspace --all-targets -- -D warnings", 8, |_| clippy()),
    Stage::new("docs", "cargo doc --workspace --no-deps, warnings refused", 4, |_| docs()),
    Stage::new("test", "cargo test --workspace, namespaces included", 40, test),
    Stage::new("build", "cargo run --release builds, for the stages that follow", 8, |_| build()),
    Stage::new("lab", "all experiments; small-queues and tso-autosize beside Linux", 9, |_| lab()),
    Stage::new("drill", "all scripts in all modes, in less than 10 s", 6, |_| drill()),
    Stage::new("seeds", "1,000 seeds of the simulator", 6, seeds),
    Stage::new("fuzz", "the structured fuzzer for 60 s", 5, fuzz),
];

/// What test programs said at their ends, added up.
#[derive(Default)]
struct Tests {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// What a name on the command line left out.
    filtered_out: u64,
    /// What a test says that it leaves out, and passes all the same.
    skipped: Vec<String>,
}

impl Tests {
    /// Reads `test result: ok. 12 passed; 0 failed; 1 ignored; ...` and `skipped: needs ...`.
    fn watch(&mut self, line: &str) {
        if let Some((_, what)) = line.split_once("skipped: ") {
            self.skipped.push(what.to_owned());
        }
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
                "filtered" => self.filtered_out += n,
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

/// All of them, so that one run names everything that fails; some beside the others, and so is what later stages build.
fn test(Run { tests, chosen }: &mut Run) -> Outcome {
    run(&mut cargo(&["test", "--workspace", "--no-run"]))?;
    let lists = BESIDE.iter().map(Beside::list).collect::<Result<Vec<_>, _>>()?;
    let skipped: Vec<&str> = lists.iter().flat_map(|list| listed(list)).collect();
    let mut rest = cargo(&["test", "--workspace", "--no-fail-fast", "--", "--exact"]);
    rest.args(skipped.iter().flat_map(|name| ["--skip", name]));
    let failed = AtomicBool::new(false);
    thread::scope(|s| {
        // One after the other: two at a time would be more neighbours, and be done no sooner.
        let beside = s.spawn(|| {
            let ended = BESIDE.each_ref().map(Beside::run);
            if ended.iter().all(|(_, outcome)| outcome.is_ok()) {
                Ahead::build_for(chosen, &failed);
            }
            ended
        });
        let mut outcomes = vec![run_watched(&mut rest, &mut |line| tests.watch(line))];
        failed.store(outcomes.iter().any(Result::is_err), Ordering::Relaxed);
        outcomes.push(only_those(skipped.len() as u64, tests.filtered_out));
        for (said, outcome) in beside.join().unwrap_or_else(|panic| resume_unwind(panic)) {
            println!("{said}");
            said.lines().for_each(|line| tests.watch(line));
            outcomes.push(outcome);
        }
        let failures: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
        if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
    })
}

/// A test elsewhere that has the name of one that runs beside the others would be left out.
fn only_those(beside: u64, filtered_out: u64) -> Outcome {
    if beside == filtered_out {
        return Ok(());
    }
    Err(format!(
        "{beside} tests run beside the others, which left out {filtered_out}: a name is there twice, or one of them did not run"
    ))
}

/// The tests that a program lists as `NAME: test`.
fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_suffix(": test"))
}

/// The README's first command; then the experiments that also run on Linux in user mode, with both columns in the table.
/// By the very command that the stages behind it use: another one may choose other features, and build again.
fn build() -> Outcome {
    run(&mut cargo(&RELEASE))
}

fn lab() -> Outcome {
    run(&mut cargo(&["run", "--release", "--quiet", "--", "lab", "--json"]))?;
    if !on_path(LINUX) && std::env::var_os(REQUIRE_NET).is_none_or(|v| v != "1") {
        println!("skipped: needs {LINUX} (apt-get install user-mode-linux)");
        return Ok(());
    }
    let beside = ["small-queues", "tso-autosize", "--uml", "--set", "warmup_s=1", "--set", "measure_s=2"];
    run(cargo(&["run", "--release", "--quiet", "--", "lab", "run"]).args(beside))?;
    // A scenario of one's own is followed there too.
    let own =
        ["notsent-lowat", "--variant", "cubic-262144", "--uml", "--set", "flows=3", "--set", "rate_mbps=20"];
    let times = ["--set", "rtt_ms=20", "--set", "warmup_s=1", "--set", "measure_s=2", "--alone"];
    run(cargo(&["run", "--release", "--quiet", "--", "lab", "run"]).args(own).args(times))
}

fn drill() -> Outcome {
    // Where it runs alone, building is not what is timed.
    build()?;
    let scripts = ["run", "--release", "--quiet", "--", "drill", "--modes", "all", "tests/drill"];
    within(SCRIPTS_MAX, || run(&mut cargo(&scripts)))
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn seeds(_: &mut Run) -> Outcome {
    tools::sim(&["--seeds".to_owned(), SEEDS.to_owned()])
}

fn fuzz(_: &mut Run) -> Outcome {
    tools::fuzz(&["--seconds".to_owned(), FUZZ_SECONDS.to_owned()])
}

/// Names the stages.
pub(crate) fn list() -> Outcome {
    for stage in STAGES {
        println!("{:<10} {} (at most {} min)", stage.name, stage.what, stage.minutes);
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
    let mut this = Run { chosen: chosen.iter().map(|stage| stage.name).collect(), ..Run::default() };
    let mut done: Vec<(&Stage, Duration, Outcome)> = Vec::new();
    for stage in &chosen {
        println!("\n=== {}: {}", stage.name, stage.what);
        let start = Instant::now();
        let outcome = within(Duration::from_secs(stage.minutes * 60), || (stage.run)(&mut this));
        let took = start.elapsed();
        let word = if outcome.is_ok() { "passed" } else { "FAILED" };
        println!("=== {}: {word} after {:.1} s", stage.name, took.as_secs_f64());
        let failed = outcome.is_err();
        done.push((stage, took, outcome));
        if failed {
            break;
        }
    }
    summary(&chosen, &done, &this.tests, begin.elapsed())
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
    for what in &tests.skipped {
        println!("skipped: {what}");
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_stages_together_are_bounded() {
        assert!(STAGES.iter().map(|stage| stage.minutes).sum::<u64>() <= 90);
    }

    #[test]
    fn what_is_built_ahead_is_built_for_stages_that_there_are() {
        let all: Vec<&str> = AHEAD.iter().flat_map(|ahead| ahead.stages).copied().collect();
        assert!(all.iter().all(|name| STAGES.iter().any(|stage| stage.name == *name)), "{all:?}");
    }

    #[test]
    fn what_runs_beside_the_others_is_what_its_program_lists() {
        let text = "a_count: test\nb::c: test\nd: benchmark\n\n2 tests, 1 benchmark\n";
        assert_eq!(listed(text).collect::<Vec<_>>(), ["a_count", "b::c"]);
    }

    #[test]
    fn a_namesake_of_what_runs_beside_the_others_is_told() {
        assert_eq!(only_those(3, 3), Ok(()));
        assert!(only_those(3, 4).is_err() && only_those(3, 2).is_err());
    }

    #[test]
    fn what_test_programs_say_is_added_up() {
        let mut tests = Tests::default();
        for line in [
            "test a ... ok",
            "test result: ok. 12 passed; 1 failed; 2 ignored; 0 measured; 4 filtered out; finished in 1.25s",
            "skipped: needs a",
            "test b ... skipped: needs b",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured",
        ] {
            tests.watch(line);
        }
        assert_eq!((tests.passed, tests.failed, tests.ignored), (15, 1, 2));
        assert_eq!(tests.filtered_out, 4);
        assert_eq!(tests.skipped, ["needs a", "needs b"]);
    }
}
