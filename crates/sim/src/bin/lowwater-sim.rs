//! Runs worlds from seeds until one breaks a promise: what `cargo xtask sim` starts.
#![forbid(unsafe_code)]
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use lowwater_sim::runner::{RECORD_LINES, Report, record_line, run_draw, run_seeds, shrink_draw};
use lowwater_sim::swarm::{self, Canary, Summary, WorldSpec};
use lowwater_sim::world::Recording;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Exit code after Ctrl-C, as shells have it: 128 + SIGINT.
const INTERRUPTED: u8 = 130;

/// Runs the stack in virtual time, in worlds drawn from seeds: links with faults, programs, and checkers that judge them.
///
/// Without options: seeds 0 to 999. Exit code 1 and a report with the line to replay it when a world breaks a promise, 130 after Ctrl-C.
#[derive(Debug, Parser)]
#[command(name = "lowwater-sim")]
struct Arguments {
    /// One seed.
    #[arg(long, conflicts_with_all = ["seeds", "minutes"])]
    seed: Option<u64>,
    /// A range of seeds, its end excluded: A..B
    #[arg(long, value_parser = range, conflicts_with = "minutes")]
    seeds: Option<(u64, u64)>,
    /// New seeds for that many minutes, from a start that depends on the clock.
    #[arg(long)]
    minutes: Option<u64>,
    /// With --seed: print the options and the last 256 records of each host's flight recorder, and write the capture in any case.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// With --seed: when it fails, look for a smaller world that fails in the same way and report that one.
    #[arg(long, requires = "seed")]
    shrink: bool,
    /// Go on after a failure.
    #[arg(long)]
    keep_going: bool,
    /// Threads; one per core without it.
    #[arg(long)]
    threads: Option<usize>,
    /// Where captures go.
    #[arg(long, default_value = "target/sim")]
    out: PathBuf,
    /// Print every counter of every stack, added up over all seeds: what is zero was never reached.
    #[arg(long, conflicts_with = "seed")]
    coverage: bool,
    /// With --seed: fail on purpose, to see what a failure looks like.
    #[arg(long, requires = "seed")]
    canary: bool,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let bad = || format!("'{text}' is not a range of seeds; write A..B, for example 0..1000");
    let (a, b) = text.split_once("..").ok_or_else(bad)?;
    let (a, b) = (a.trim().parse().map_err(|_| bad())?, b.trim().parse().map_err(|_| bad())?);
    if a < b { Ok((a, b)) } else { Err(bad()) }
}

/// A start for runs by the clock. The simulator itself never sees the clock.
#[allow(clippy::disallowed_methods, reason = "only the choice of seeds depends on the time of day")]
fn first_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |d| d.as_secs()) << 20
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A panic inside a world is part of its report, not of the terminal.
    std::panic::set_hook(Box::new(|info| {
        if std::env::var_os("LOWWATER_SIM_PANIC").is_some() {
            eprintln!("{info}\n{}", std::backtrace::Backtrace::force_capture());
        }
    }));
    match arguments.seed {
        Some(seed) => one(seed, &arguments),
        None => many(&arguments),
    }
}

fn one(seed: u64, arguments: &Arguments) -> ExitCode {
    let mut draw = WorldSpec::new(seed);
    if arguments.canary {
        draw.canary = Canary::Checker;
    }
    if arguments.shrink {
        draw = shrink_draw(&draw);
    }
    if arguments.trace {
        trace(&draw, &arguments.out);
    }
    match run_draw(&draw, &arguments.out).outcome {
        Ok(s) => {
            println!(
                "seed {seed}: ok, {} bytes in {} virtual seconds, {} events, {} retransmissions, {} packets dropped",
                s.bytes, s.virtual_time, s.events, s.retrans_segs, s.dropped
            );
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprint!("{}", failure.text);
            ExitCode::FAILURE
        }
    }
}

fn trace(draw: &WorldSpec, out: &Path) {
    println!("{draw:#?}");
    let mut world = swarm::build(draw, Recording { capture: true, trace: true, journal: false });
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| swarm::run(&mut world, draw)));
    println!("the last records of each host: {RECORD_LINES}");
    for (host, record) in world.last_records(usize::MAX) {
        println!("{}", record_line(host, &record));
    }
    // A world that ends well is told of by who runs it without recorders.
    match outcome {
        Ok(Ok(_)) => {}
        Ok(Err(broken)) => println!("broken: {broken}"),
        Err(_) => println!("broken: a panic"),
    }
    let path = out.join(format!("seed-{}.pcapng", draw.seed));
    let written = std::fs::create_dir_all(out)
        .and_then(|()| std::fs::write(&path, world.take_capture().unwrap_or_default()));
    match written {
        Ok(()) => println!("capture: {}", path.display()),
        Err(e) => println!("capture: {}: {e}", path.display()),
    }
}

#[derive(Default)]
struct Tally {
    ok: u64,
    failed: Vec<u64>,
    bytes: u64,
    virtual_s: f64,
    retrans: u64,
    dropped: u64,
    counters: Vec<u64>,
}

impl Tally {
    fn seeds(&self) -> u64 {
        self.ok + self.failed.len() as u64
    }

    fn add(&mut self, s: &Summary) {
        self.ok += 1;
        self.bytes += s.bytes;
        self.retrans += s.retrans_segs;
        self.dropped += s.dropped;
        self.virtual_s += s.virtual_time.as_nanos() as f64 / 1e9;
        self.counters.resize(s.counters.len(), 0);
        self.counters.iter_mut().zip(&s.counters).for_each(|(sum, n)| *sum += n);
    }

    fn print(&mut self, wall: Duration, threads: usize, coverage: bool) -> ExitCode {
        if coverage {
            for (name, value) in Summary::counter_names().iter().zip(&self.counters) {
                println!("{name:34} {value}");
            }
        }
        println!(
            "{} seeds ok, {} failed; {:.1} MB, {} packets dropped, {} segments sent again in {:.0} virtual seconds, \
             {:.1} s of wall time on {threads} threads",
            self.ok,
            self.failed.len(),
            self.bytes as f64 / 1e6,
            self.dropped,
            self.retrans,
            self.virtual_s,
            wall.as_secs_f64()
        );
        if self.failed.is_empty() {
            return ExitCode::SUCCESS;
        }
        self.failed.sort_unstable();
        println!("failed: {:?}", self.failed);
        ExitCode::FAILURE
    }
}

#[allow(clippy::disallowed_methods, reason = "wall time is what a run by the clock is about")]
fn many(arguments: &Arguments) -> ExitCode {
    let (first, end) = match (arguments.seeds, arguments.minutes) {
        (Some(range), _) => range,
        (None, Some(_)) => (first_seed(), u64::MAX),
        (None, None) => (0, 1_000),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let interrupted = Arc::new(AtomicBool::new(false));
    let on_signal = [Arc::clone(&stop), Arc::clone(&interrupted)];
    if let Err(e) =
        ctrlc::set_handler(move || on_signal.iter().for_each(|f| f.store(true, Ordering::Relaxed)))
    {
        eprintln!("Ctrl-C will not be answered: {e}");
    }
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.unwrap_or_else(cores);
    let limit = arguments.minutes.map(|m| Duration::from_secs(m * 60));
    let (begun, bar) = (Instant::now(), progress_bar(end.saturating_sub(first), limit));
    let mut tally = Tally::default();
    let mut on_report = |report: Report| {
        if limit.is_some_and(|l| begun.elapsed() >= l) {
            stop.store(true, Ordering::Relaxed);
        }
        match report.outcome {
            Ok(summary) => tally.add(&summary),
            Err(failure) => {
                tally.failed.push(report.seed);
                bar.suspend(|| eprint!("{}", failure.text));
                if failure.broken.checker == "hang" {
                    std::process::exit(1);
                }
            }
        }
        bar.set_position(if limit.is_some() { begun.elapsed().as_secs() } else { tally.seeds() });
        bar.set_message(format!("{} seeds, {} failed", tally.seeds(), tally.failed.len()));
    };
    run_seeds(first, end, &arguments.out, (threads, arguments.keep_going), &stop, &mut on_report);
    bar.finish_and_clear();
    let ended = tally.print(begun.elapsed(), threads, arguments.coverage);
    // What was not run has not passed.
    let cut = interrupted.load(Ordering::Relaxed) && tally.failed.is_empty();
    if cut { ExitCode::from(INTERRUPTED) } else { ended }
}

/// Seconds of the time that was asked for, or seeds; hidden where standard error is no terminal.
fn progress_bar(seeds: u64, limit: Option<Duration>) -> ProgressBar {
    let bar = ProgressBar::new(limit.map_or(seeds, |l| l.as_secs()));
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg} ({elapsed})") {
        bar.set_style(style);
    }
    bar
}
