//! `lowwater drill`: runs scripts and prints what failed, as text or as a JSON object per script.
mod progress;

use crate::args::Drill;
use crate::failure::Failure;
use crate::interrupt::{INTERRUPTED, stop_on_ctrl_c};
use crate::out;
use lowwater_drill::{Family, Outcome, Overrides};
use progress::Progress;
use serde_json::json;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What test programs exit with when they cannot run.
const SKIPPED: u8 = 77;
/// Runs of a script against the kernel until it passes: a busy machine makes some fail.
#[cfg(target_os = "linux")]
const ATTEMPTS: usize = 3;

/// Runs the scripts; the exit code is 1 when one failed.
pub(crate) fn run(args: &Drill) -> Result<ExitCode, Failure> {
    if let Some(seeds) = &args.draw {
        return draw(args, seeds.clone());
    }
    over(args).check().map_err(Failure::usage)?;
    let scripts = scripts(&args.paths, args.json)?;
    if args.kernel
        && let Err(lack) = kernel_available()
    {
        eprintln!("skipped: needs {lack}");
        return Ok(ExitCode::from(SKIPPED));
    }
    let (mut tally, begun) = (Tally::default(), Instant::now());
    let progress = Arc::new(Progress::new(scripts.len()));
    let told = progress.clone();
    let stop = stop_on_ctrl_c(move || eprintln!("lowwater: {}", told.words()))?;
    let stopped = || {
        eprintln!("lowwater: {}", progress.words());
        Ok(ExitCode::from(INTERRUPTED))
    };
    let mut outcomes = Vec::new();
    let mut told_last = Told::default();
    for (script, wrong) in &scripts {
        progress.begin(script);
        let runs = match wrong {
            Some(e) => vec![unreadable(script, e)],
            None => runs(args, script).unwrap_or_else(|e| vec![unreadable(script, &e)]),
        };
        // What Ctrl-C has cut short says nothing about the script.
        if stop.load(Ordering::Relaxed) && !runs.iter().all(Outcome::as_expected) {
            return stopped();
        }
        for outcome in runs {
            tally.count(&outcome);
            if args.page {
                outcomes.push(outcome);
                continue;
            }
            let text = if args.json { object(&outcome) } else { told_last.words(&outcome) };
            if !out::tell(&text)? {
                return Ok(ExitCode::FAILURE);
            }
        }
        if !progress.end(tally.failed) && stop.load(Ordering::Relaxed) {
            return stopped();
        }
    }
    if args.page {
        let page = lowwater_drill::page(&command(&args.paths), Path::new(""), &outcomes);
        out::tell(&page)?;
    } else if !args.json {
        let seconds = begun.elapsed().as_secs_f64().max(1e-9);
        out::tell(&tally.words(seconds))?;
    }
    Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The command that runs now, on these paths; of a word that a shell would take apart it gives what it is to the shell. A '/' behind a folder,
/// as shells complete it, makes no other page.
fn command(paths: &[PathBuf]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,+:@%".contains(c);
    let words = std::env::args_os().skip(1).map(|word| {
        let word = word.to_string_lossy();
        let folder = word.trim_end_matches('/');
        let is_path = !folder.is_empty() && paths.iter().any(|path| path == Path::new(&*word));
        let word = if is_path { folder } else { &*word };
        if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    });
    std::iter::once("lowwater".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The scripts in the order of the paths. A path that cannot be had stands among them and fails when its turn comes, so that those behind
/// it still run; where there is no other, nothing runs, but who reads objects gets one of each all the same.
fn scripts(paths: &[PathBuf], json: bool) -> Result<Vec<(PathBuf, Option<io::Error>)>, Failure> {
    let mut scripts = Vec::new();
    for path in paths {
        match lowwater_drill::collect(std::slice::from_ref(path)) {
            Ok(found) => scripts.extend(found.into_iter().map(|script| (script, None))),
            Err(e) => scripts.push((path.clone(), Some(e))),
        }
    }
    if scripts.is_empty() {
        let places: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        return Err(Failure::usage(format!("there is no script (*.pkt) below {}", places.join(", "))));
    }
    if !json && scripts.iter().all(|(_, e)| e.is_some()) {
        let told = |(path, e): &(PathBuf, Option<io::Error>)| {
            let why = e.as_ref().map(|e| why_unreadable(path, e)).unwrap_or_default();
            format!("{}: {why}", path.display())
        };
        let wrong: Vec<String> = scripts.iter().map(told).collect();
        let hint = "give scripts (*.pkt), or folders which have some at any depth";
        return Err(Failure::other(format!("{}: {hint}", wrong.join("; "))));
    }
    Ok(scripts)
}

/// What became of all of them.
#[derive(Debug, Default)]
struct Tally {
    run: usize,
    failed: usize,
    left_out: usize,
    /// Each ran in modes.
    modes: bool,
}

impl Tally {
    fn count(&mut self, outcome: &Outcome) {
        let left_out = outcome.left_out.is_some();
        self.run += usize::from(!left_out);
        self.left_out += usize::from(left_out);
        self.failed += usize::from(!outcome.as_expected());
        self.modes |= outcome.mode.is_some();
    }

    fn words(&self, seconds: f64) -> String {
        let Self { run, failed, left_out, modes } = self;
        let rate = *run as f64 / seconds;
        // A rate below one says nothing, nor does that of scripts that all ended early.
        let told = rate >= 1.0 && failed < run;
        let rate = if told { format!(", {rate:.0} a second") } else { String::new() };
        let (what, rest) = match modes {
            true => ("runs of scripts", format!("; {left_out} left out")),
            false => ("scripts", String::new()),
        };
        format!("{} of {run} {what} passed in {:.1} ms{rate}{rest}", run - failed, seconds * 1e3)
    }
}

/// Runs a script as often as the arguments say.
fn runs(args: &Drill, script: &Path) -> io::Result<Vec<Outcome>> {
    let one = |script: &Path, over: Overrides| {
        let over = Overrides { options: args.options.0, ..over };
        match (args.compare, args.kernel) {
            (true, _) => compared(script, over),
            (false, true) => against_kernel(script, over),
            (false, false) => lowwater_drill::drill_file(script, over),
        }
    };
    match &args.modes {
        Some(modes) => lowwater_drill::in_modes(script, &modes.0, one),
        None if args.page => lowwater_drill::in_modes(script, &Family::ALL, one),
        None => one(script, over(args)).map(|outcome| vec![outcome]),
    }
}

/// What the command line says over each script.
fn over(args: &Drill) -> Overrides {
    Overrides { ip_version: args.ip_version, mtu: args.mtu, options: args.options.0 }
}

/// Draws connections; the exit code is 1 when one differs.
fn draw(args: &Drill, seeds: Range<u64>) -> Result<ExitCode, Failure> {
    if let Err(lack) = kernel_available() {
        eprintln!("skipped: needs {lack}");
        return Ok(ExitCode::from(SKIPPED));
    }
    drawn(args, seeds)
}

#[cfg(target_os = "linux")]
fn drawn(args: &Drill, seeds: Range<u64>) -> Result<ExitCode, Failure> {
    crate::draw::run(args, seeds)
}

#[cfg(not(target_os = "linux"))]
fn drawn(_: &Drill, _: Range<u64>) -> Result<ExitCode, Failure> {
    Ok(ExitCode::from(SKIPPED))
}

#[cfg(target_os = "linux")]
fn kernel_available() -> Result<(), String> {
    lowwater_kernel::available()
}

#[cfg(target_os = "linux")]
fn against_kernel(script: &Path, over: Overrides) -> io::Result<Outcome> {
    lowwater_kernel::drill_file(script, over, ATTEMPTS)
}

/// A script that passes, and in which the stack and the kernel still differ, fails with the differences.
#[cfg(target_os = "linux")]
fn compared(script: &Path, over: Overrides) -> io::Result<Outcome> {
    let (mut outcome, differences) = lowwater_kernel::compare_file(script, over, ATTEMPTS)?;
    if !differences.lines.is_empty() {
        let known =
            "known differences: docs/linux-differences.md; how a script says why it may: docs/drill.md";
        let apart = differences.apart.what.join(" and ");
        let (what, packets, told) = match differences.info_alone {
            true => (
                format!("the stack (-) and the kernel (+) send the same and differ in {apart} ({known})"),
                Vec::new(),
                differences.lines,
            ),
            false => (
                format!("the stack (-) and the kernel (+) do not send the same from here on ({known})"),
                differences.lines,
                Vec::new(),
            ),
        };
        let line = differences.apart.line;
        let source = lowwater_drill::read(script)?.lines().nth(line.saturating_sub(1)).map(str::to_owned);
        outcome.failure = Some(Box::new(lowwater_drill::Failure {
            script: script.display().to_string(),
            line,
            source: source.unwrap_or_default().trim().to_owned(),
            what,
            packets,
            told,
            over,
            ran: lowwater_drill::Ran::Compared,
            ..Default::default()
        }));
    }
    Ok(outcome)
}

#[cfg(not(target_os = "linux"))]
fn compared(script: &Path, over: Overrides) -> io::Result<Outcome> {
    against_kernel(script, over)
}

#[cfg(not(target_os = "linux"))]
fn kernel_available() -> Result<(), String> {
    Err("Linux".to_owned())
}

#[cfg(not(target_os = "linux"))]
fn against_kernel(_: &Path, _: Overrides) -> io::Result<Outcome> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A file that cannot be read fails like any other script, so that those behind it still run.
fn unreadable(script: &Path, e: &io::Error) -> Outcome {
    let what = why_unreadable(script, e);
    let failure =
        lowwater_drill::Failure { script: script.display().to_string(), line: 0, what, ..Default::default() };
    Outcome::of(script, "", Err(Box::new(failure)))
}

/// What is wrong with a path, without its name; with that of what lies below it, where that is wrong.
fn why_unreadable(path: &Path, e: &io::Error) -> String {
    let said = e.to_string();
    let Some(bare) = said.strip_prefix(&format!("{}: ", path.display())) else { return said };
    match e.kind() {
        io::ErrorKind::InvalidData => "this is no text (UTF-8), so it is no script".to_owned(),
        io::ErrorKind::NotFound => format!("there is no such file or directory{}", place(path)),
        io::ErrorKind::PermissionDenied => "this user may not read it".to_owned(),
        _ => format!("it cannot be read: {bare}"),
    }
}

/// Where a path that is not absolute was looked for.
fn place(path: &Path) -> String {
    let here = std::env::current_dir().ok().filter(|_| path.is_relative());
    here.map(|here| format!(" in {}", here.display())).unwrap_or_default()
}

/// What was said last: a mistake that a script shows in each mode is told once.
#[derive(Debug, Default)]
struct Told {
    failure: Option<Box<lowwater_drill::Failure>>,
}

impl Told {
    fn words(&mut self, outcome: &Outcome) -> String {
        let again = match (&self.failure, &outcome.failure, outcome.mode) {
            (Some(last), Some(now), Some(mode)) if !outcome.as_expected() && last.says_the_same(now) => {
                Some(format!("FAILED {}:{} as {}: in the same way", now.script, now.line, mode.name()))
            }
            _ => None,
        };
        self.failure = outcome.failure.clone();
        again.unwrap_or_else(|| words(outcome))
    }
}

fn words(outcome: &Outcome) -> String {
    let mode = outcome.mode.map(|mode| format!(" as {}", mode.name())).unwrap_or_default();
    let script = outcome.script.display();
    if let Some(why) = &outcome.left_out {
        return format!("left out {script}{mode}: {why}");
    }
    match &outcome.failure {
        None if outcome.by_chance => {
            let why = outcome.fails_because.as_deref().unwrap_or_default();
            format!("ok {script}{mode}, by chance: {why}")
        }
        None if outcome.fails_because.is_some() => {
            format!("FAILED {script}{mode}: passes, though its head says that it fails")
        }
        None => {
            let printed: String = outcome.printed.iter().map(|line| format!("\n  | {line}")).collect();
            format!("ok {script}{mode}{printed}")
        }
        Some(failure) => match &outcome.fails_because {
            Some(_) if outcome.is_unread() => {
                format!("FAILED {failure}\n  its head says that it fails, but it cannot even be read")
            }
            Some(why) => {
                let how = if outcome.by_chance { "as it may" } else { "as expected" };
                format!("fails, {how}, {}:{}: {why}", failure.script, failure.line)
            }
            None => format!("FAILED {failure}"),
        },
    }
}

fn object(outcome: &Outcome) -> String {
    let script = outcome.script.display().to_string();
    let mut object = match &outcome.failure {
        None => json!({
            "script": script, "ok": outcome.as_expected(), "printed": outcome.printed, "by_chance": outcome.by_chance,
        }),
        Some(f) => json!({
            "script": script, "ok": outcome.as_expected(), "line": (f.line > 0).then_some(f.line), "source": f.source, "what": f.what,
            "expected": f.expected, "actual": f.actual, "packets": f.packets, "told": f.told, "trace": f.trace,
            "printed": f.printed, "alone": f.alone(), "fails_because": outcome.fails_because,
            "by_chance": outcome.by_chance,
        }),
    };
    if let (Some(mode), Some(object)) = (outcome.mode, object.as_object_mut()) {
        object.insert("ip_version".to_owned(), mode.name().into());
        object.insert("left_out".to_owned(), outcome.left_out.clone().into());
    }
    object.to_string()
}
