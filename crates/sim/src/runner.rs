//! Runs seeds on all cores, catches whatever goes wrong, and tells how to see it again.
use crate::check::Broken;
use crate::swarm::{self, Canary, Summary, WorldSpec};
use crate::world::{Recording, World};
use lowwater_core::base::Instant;
use lowwater_core::base::trace::Record;
use std::any::Any;
use std::fmt::Write as _;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant as WallInstant};

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
fn guarded(world: &mut World, draw: &WorldSpec) -> Result<Summary, Broken> {
    match panic::catch_unwind(AssertUnwindSafe(|| swarm::run(world, draw))) {
        Ok(outcome) => outcome,
        Err(payload) => Err(Broken { checker: "panic", at: world.now(), message: panic_text(&*payload) }),
    }
}

/// Runs the world of `seed`. When it breaks a promise it is run again with every recorder on, which changes nothing else.
#[must_use]
pub fn run_seed(seed: u64, out: &Path) -> Report {
    run_draw(&WorldSpec::new(seed), out)
}

/// Runs the world of the given options.
#[must_use]
pub fn run_draw(draw: &WorldSpec, out: &Path) -> Report {
    let first = guarded(&mut swarm::build(draw, Recording::default()), draw);
    let seed = draw.seed;
    match first {
        Ok(summary) => Report { seed, outcome: Ok(summary) },
        Err(broken) => Report { seed, outcome: Err(Box::new(explain(draw, broken, out))) },
    }
}

/// A smaller world that fails under the same checker; the draw itself when it does not fail at all.
#[must_use]
pub fn shrink_draw(draw: &WorldSpec) -> WorldSpec {
    let outcome =
        |d: &WorldSpec| guarded(&mut swarm::build(d, Recording::default()), d).err().map(|b| b.checker);
    let Some(checker) = outcome(draw) else { return draw.clone() };
    swarm::shrink(draw, &mut |d| outcome(d) == Some(checker))
}

fn explain(draw: &WorldSpec, broken: Broken, out: &Path) -> Failure {
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
    for (host, record) in world.last_records(RECORDS) {
        let _ = writeln!(text, "  {}", record_line(host, &record));
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
    let _ = writeln!(text, "replay: {}", replay(draw));
    Failure { broken, text, capture: capture.ok() }
}

/// The command that makes the same world again.
fn replay(draw: &WorldSpec) -> String {
    let whole = WorldSpec { canary: draw.canary, ..WorldSpec::new(draw.seed) };
    let canary = if draw.canary == Canary::None { "" } else { " --canary" };
    let shrink = if *draw == whole { "" } else { " --shrink" };
    format!("cargo xtask sim --seed {}{canary}{shrink}", draw.seed)
}

/// What the lines of [`record_line`] mean.
pub const RECORD_LINES: &str = "\
virtual seconds, host, socket; > sent, < received; of a segment its flags (S SYN, F FIN, R RST, P PSH, U URG, E ECE, W CWR, . ACK), the
first sequence number : the next one (bytes); of a chunk its type, its TSN and the place of its path; else what changed";

/// A record of the flight recorder of this host for people; segments are written as in scripts.
#[must_use]
pub fn record_line(host: usize, record: &Record) -> String {
    // The stack's own name of a socket, which is all that is left of one that is gone.
    let name = record.socket.map(|id| format!("{id:?}"));
    let name = name.as_deref().map_or("-", |name| name.trim_start_matches("SocketId(").trim_end_matches(')'));
    format!("{} host{host} {name:6} {}", record.at, record.event)
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

/// Wall time after which a seed counts as hanging, inside one call where the world's own guard cannot see it. A seed takes some hundredths of a
/// second, and in a slow profile on a busy machine some seconds.
pub const HANG: Duration = Duration::from_secs(120);

/// What threads tell.
enum Note {
    Begun(usize, u64),
    Done(Box<Report>),
}

/// What each thread is at and since when, in wall time.
struct Watch {
    begun: Vec<Option<(u64, WallInstant)>>,
}

#[allow(
    clippy::disallowed_methods,
    reason = "the watchdog measures wall time on purpose; worlds never see it"
)]
impl Watch {
    fn begin(&mut self, thread: usize, seed: u64) {
        self.begun[thread] = Some((seed, WallInstant::now()));
    }

    fn done(&mut self, seed: u64) {
        for slot in &mut self.begun {
            slot.take_if(|(s, _)| *s == seed);
        }
    }

    fn hanging(&mut self, limit: Duration) -> Option<u64> {
        let slot = self.begun.iter_mut().find(|b| b.is_some_and(|(_, at)| at.elapsed() >= limit))?;
        slot.take().map(|(seed, _)| seed)
    }
}

fn hang_report(seed: u64) -> Report {
    let message = format!(
        "it has not ended in {} s of wall time: an endless loop inside one verb, or a machine that has no time for it",
        HANG.as_secs()
    );
    let broken = Broken { checker: "hang", at: Instant::ZERO, message };
    let text = format!(
        "FAILED: sim swarm, seed {seed}\ncommit: {}\noptions: {:#?}\nbroken: {broken}\nreplay: cargo xtask sim --seed {seed}\n",
        commit(),
        WorldSpec::new(seed)
    );
    Report { seed, outcome: Err(Box::new(Failure { broken, text, capture: None })) }
}

/// The next seed that has ended, or that hangs: looked for whatever the others tell. `None` when no thread is left.
fn next_report(receiver: &mpsc::Receiver<Note>, watch: &mut Watch, limit: Duration) -> Option<Report> {
    loop {
        if let Some(seed) = watch.hanging(limit) {
            return Some(hang_report(seed));
        }
        match receiver.recv_timeout(Duration::from_secs(1)) {
            Ok(Note::Done(report)) => return Some(*report),
            Ok(Note::Begun(thread, seed)) => watch.begin(thread, seed),
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Runs seeds from `first` on until `end` (exclusive) or until `stop` is set, on `threads` threads; `on_report` sees each
/// report as it comes. After a failure no new seed is begun unless `keep_going`.
///
/// A seed that hangs cannot be stopped: its report has the checker `hang`, and `on_report` should end the process.
pub fn run_seeds(
    first: u64,
    end: u64,
    out: &Path,
    (threads, keep_going): (usize, bool),
    stop: &AtomicBool,
    on_report: &mut dyn FnMut(Report),
) {
    let next = AtomicU64::new(first);
    let threads = threads.max(1);
    let mut watch = Watch { begun: vec![None; threads] };
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || sender.send(Note::Begun(thread, seed)).is_err() {
                        return;
                    }
                    let report = Box::new(run_seed(seed, out));
                    if sender.send(Note::Done(report)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        while let Some(report) = next_report(&receiver, &mut watch, HANG) {
            watch.done(report.seed);
            if report.outcome.is_err() && !keep_going {
                stop.store(true, Ordering::Relaxed);
            }
            on_report(report);
        }
    });
}

#[cfg(test)]
mod tests;
