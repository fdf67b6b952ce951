//! Runs seeds on all cores, catches whatever goes wrong, and tells how to see it again.
use crate::check::Broken;
use crate::swarm::{self, Draw, Summary};
use crate::world::{Recording, World};
use std::any::Any;
use std::fmt::Write as _;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

/// Records of the flight recorders in a report.
const RECORDS: usize = 40;

/// What went wrong with one seed, complete enough to be mailed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The first broken promise; a panic is one of checker `panic`.
    pub broken: Broken,
    /// The text for people: options, records, file, command.
    pub text: String,
    /// The capture, where it could be written.
    pub capture: Option<PathBuf>,
}

/// The outcome of one seed.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What it did, or what went wrong.
    pub outcome: Result<Summary, Box<Failure>>,
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without text")
        .to_owned()
}

/// Runs a world; a panic inside counts as a broken promise.
fn guarded(world: &mut World, draw: &Draw) -> Result<Summary, Broken> {
    match panic::catch_unwind(AssertUnwindSafe(|| swarm::run(world, draw))) {
        Ok(outcome) => outcome,
        Err(payload) => Err(Broken { checker: "panic", at: world.now(), message: panic_text(&*payload) }),
    }
}

/// Runs the world of `seed`. When it breaks a promise it is run again with every recorder on, which changes nothing else.
#[must_use]
pub fn run_seed(seed: u64, out: &Path) -> Report {
    run_draw(&Draw::new(seed), out)
}

/// Runs the world of the given options.
#[must_use]
pub fn run_draw(draw: &Draw, out: &Path) -> Report {
    let first = guarded(&mut swarm::build(draw, Recording::default()), draw);
    let seed = draw.seed;
    match first {
        Ok(summary) => Report { seed, outcome: Ok(summary) },
        Err(broken) => Report { seed, outcome: Err(Box::new(explain(draw, broken, out))) },
    }
}

/// A smaller world that fails under the same checker; the draw itself when it does not fail at all.
#[must_use]
pub fn shrink_draw(draw: &Draw) -> Draw {
    let outcome = |d: &Draw| guarded(&mut swarm::build(d, Recording::default()), d).err().map(|b| b.checker);
    let Some(checker) = outcome(draw) else { return draw.clone() };
    swarm::shrink(draw, &mut |d| outcome(d) == Some(checker))
}

fn explain(draw: &Draw, broken: Broken, out: &Path) -> Failure {
    let mut world = swarm::build(draw, Recording { capture: true, trace: true, journal: false });
    let again = guarded(&mut world, draw);
    let mut text = String::new();
    let _ = writeln!(text, "FAILED: sim swarm, seed {}", draw.seed);
    let _ = writeln!(text, "commit: {}", commit());
    let _ = writeln!(text, "options: {draw:#?}");
    let _ = writeln!(text, "broken: {broken}");
    if again.as_ref().err() != Some(&broken) {
        let _ = writeln!(
            text,
            "NOT REPRODUCED: the second run gave {again:?}; something in the world is not deterministic"
        );
    }
    let _ = writeln!(text, "last records:");
    for (host, r) in world.last_records(RECORDS) {
        let _ = writeln!(text, "  {} host{host} {:?} {:?}", r.at, r.socket, r.event);
    }
    let capture = write_capture(&mut world, draw.seed, out);
    match &capture {
        Ok(path) => {
            let _ = writeln!(text, "capture: {}", path.display());
        }
        Err(e) => {
            let _ = writeln!(text, "capture: could not be written to {}: {e}", out.display());
        }
    }
    let _ = writeln!(text, "replay: cargo xtask sim --seed {}", draw.seed);
    Failure { broken, text, capture: capture.ok() }
}

fn write_capture(world: &mut World, seed: u64, out: &Path) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(out)?;
    let path = out.join(format!("seed-{seed}.pcapng"));
    std::fs::write(&path, world.take_capture().unwrap_or_default())?;
    Ok(path)
}

fn commit() -> String {
    let output = std::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    output
        .ok()
        .filter(|o| o.status.success())
        .map_or_else(|| String::from("unknown"), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
}

/// Runs seeds from `first` on until `end` (exclusive) or until `stop` is set, on `threads` threads; `on_report` sees each
/// report as it comes. After a failure no new seed is begun unless `keep_going`.
pub fn run_seeds(
    first: u64,
    end: u64,
    out: &Path,
    (threads, keep_going): (usize, bool),
    stop: &AtomicBool,
    on_report: &mut dyn FnMut(Report),
) {
    let next = AtomicU64::new(first);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || sender.send(run_seed(seed, out)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for report in receiver {
            if report.outcome.is_err() && !keep_going {
                stop.store(true, Ordering::Relaxed);
            }
            on_report(report);
        }
    });
}

#[cfg(test)]
mod tests;
