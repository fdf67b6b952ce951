//! `lowwater drill`: runs scripts and prints what failed, as text or as a JSON object per script.
use crate::args::Drill;
use crate::failure::Failure;
use crate::interrupt::{INTERRUPTED, stop_on_ctrl_c};
use lowwater_drill::Outcome;
use serde_json::json;
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
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
    let scripts = lowwater_drill::collect(&args.paths).map_err(|e| Failure::io("looking for scripts", &e))?;
    if scripts.is_empty() {
        let places: Vec<String> = args.paths.iter().map(|path| path.display().to_string()).collect();
        return Err(Failure::usage(format!("there is no script (*.pkt) below {}", places.join(", "))));
    }
    if args.kernel
        && let Err(lack) = kernel_available()
    {
        eprintln!("skipped: needs {lack}");
        return Ok(ExitCode::from(SKIPPED));
    }
    let (mut failed, begun) = (0, Instant::now());
    let stop = stop_on_ctrl_c()?;
    let mut out = io::stdout().lock();
    let mut outcomes = Vec::new();
    for (done, script) in scripts.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            eprintln!("lowwater: stopped: {done} of {} scripts, {failed} of them failed", scripts.len());
            return Ok(ExitCode::from(INTERRUPTED));
        }
        let run = match (args.compare, args.kernel) {
            (true, _) => compared(script),
            (false, true) => against_kernel(script),
            (false, false) => lowwater_drill::drill_file(script),
        };
        let outcome = run.unwrap_or_else(|e| unreadable(script, &e));
        failed += usize::from(!outcome.as_expected());
        if args.page {
            outcomes.push(outcome);
            continue;
        }
        let text = if args.json { object(&outcome) } else { words(&outcome) };
        writeln!(out, "{text}").map_err(|e| Failure::io("writing", &e))?;
    }
    if args.page {
        let page = lowwater_drill::page(Path::new(""), &outcomes);
        out.write_all(page.as_bytes()).map_err(|e| Failure::io("writing", &e))?;
    } else if !args.json {
        let total = scripts.len();
        let seconds = begun.elapsed().as_secs_f64().max(1e-9);
        let rate = total as f64 / seconds;
        let passed = total - failed;
        // A rate below one says nothing.
        let rate = if rate >= 1.0 { format!(", {rate:.0} a second") } else { String::new() };
        writeln!(out, "{passed} of {total} scripts passed in {:.1} ms{rate}", seconds * 1e3)
            .map_err(|e| Failure::io("writing", &e))?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
fn against_kernel(script: &Path) -> io::Result<Outcome> {
    lowwater_kernel::drill_file(script, ATTEMPTS)
}

/// A script that passes, and in which the stack and the kernel still differ, fails with the differences.
#[cfg(target_os = "linux")]
fn compared(script: &Path) -> io::Result<Outcome> {
    let (mut outcome, differences) = lowwater_kernel::compare_file(script, ATTEMPTS)?;
    if !differences.is_empty() {
        outcome.failure = Some(Box::new(lowwater_drill::Failure {
            script: script.display().to_string(),
            line: 1,
            what: "the stack (-) and the kernel (+) do not send the same".to_owned(),
            packets: differences,
            on_kernel: true,
            compared: true,
            ..Default::default()
        }));
    }
    Ok(outcome)
}

#[cfg(not(target_os = "linux"))]
fn compared(script: &Path) -> io::Result<Outcome> {
    against_kernel(script)
}

#[cfg(not(target_os = "linux"))]
fn kernel_available() -> Result<(), String> {
    Err("Linux".to_owned())
}

#[cfg(not(target_os = "linux"))]
fn against_kernel(_: &Path) -> io::Result<Outcome> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A file that cannot be read fails like any other script, so that those behind it still run.
fn unreadable(script: &Path, e: &io::Error) -> Outcome {
    let what = match e.kind() {
        io::ErrorKind::InvalidData => "this is no text (UTF-8), so it is no script".to_owned(),
        _ => format!("the file cannot be read: {e}"),
    };
    let failure =
        lowwater_drill::Failure { script: script.display().to_string(), line: 1, what, ..Default::default() };
    Outcome::of(script, "", Err(Box::new(failure)))
}

fn words(outcome: &Outcome) -> String {
    match &outcome.failure {
        None if outcome.fails_because.is_some() => {
            format!("FAILED {}: passes, though its head says that it fails", outcome.script.display())
        }
        None => {
            let printed: String = outcome.printed.iter().map(|line| format!("\n  | {line}")).collect();
            format!("ok {}{printed}", outcome.script.display())
        }
        Some(failure) => match &outcome.fails_because {
            Some(why) => format!("fails, as expected, {}:{}: {why}", failure.script, failure.line),
            None => format!("FAILED {failure}"),
        },
    }
}

fn object(outcome: &Outcome) -> String {
    let script = outcome.script.display().to_string();
    let object = match &outcome.failure {
        None => json!({ "script": script, "ok": outcome.as_expected(), "printed": outcome.printed }),
        Some(f) => json!({
            "script": script, "ok": outcome.as_expected(), "line": f.line, "source": f.source, "what": f.what,
            "expected": f.expected, "actual": f.actual, "packets": f.packets, "trace": f.trace,
            "printed": f.printed, "alone": f.alone(), "fails_because": outcome.fails_because,
        }),
    };
    object.to_string()
}
