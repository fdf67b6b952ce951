//! `lowwater drill --kernel --draw`: connections drawn from seeds, on the stack and on the kernel.
use crate::args::Drill;
use crate::failure::Failure;
use crate::interrupt::{INTERRUPTED, stop_on_ctrl_c};
use crate::out;
use indicatif::{ProgressBar, ProgressStyle};
use lowwater_kernel::draw::{self, Drawn, Flavours};
use serde_json::json;
use std::io::{self, Write as _};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Runs of one seed on the kernel until both do the same: a busy machine makes some late.
const ATTEMPTS: usize = 3;
/// Seeds at a time; they sleep most of the time.
const THREADS: u64 = 8;

/// What came of the seeds so far.
#[derive(Default)]
struct Results {
    done: u64,
    bad: u64,
    disturbed: u64,
    failure: Option<io::Error>,
}

/// Draws the seeds, and tells of each that differs as soon as it is known.
pub(crate) fn run(args: &Drill, seeds: Range<u64>) -> Result<ExitCode, Failure> {
    let flavours = Flavours::parse(&args.with).map_err(Failure::usage)?;
    let total = seeds.end.saturating_sub(seeds.start);
    let next = AtomicU64::new(seeds.start);
    let results = Arc::new(Mutex::new(Results::default()));
    let told = results.clone();
    let stop = stop_on_ctrl_c(move || {
        let done = told.lock().map_or(0, |results| results.done);
        eprintln!("lowwater: {}", stopped(done, total));
    })?;
    let bar = bar(total);
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let drawn = draw::draw(seed, &flavours, ATTEMPTS);
            let Ok(mut results) = results.lock() else { return };
            results.done += 1;
            match &drawn {
                Ok(Drawn { disturbed: true, .. }) => results.disturbed += 1,
                Ok(Drawn { finding: None, .. }) => {}
                Ok(_) | Err(_) => results.bad += 1,
            }
            bar.inc(1);
            if let Err(e) = bar.suspend(|| tell(args, seed, &flavours, &drawn)) {
                results.failure.get_or_insert(e);
                return;
            }
        }
    };
    thread::scope(|s| (0..THREADS.min(total)).for_each(|_| drop(s.spawn(work))));
    bar.finish_and_clear();
    let results = results.lock().map_err(|_| Failure::other("a thread panicked"))?;
    if let Some(e) = &results.failure {
        return Err(Failure::io("writing", e));
    }
    if !args.json {
        let disturbed = match results.disturbed {
            0 => String::new(),
            n => format!(", {n} not compared: the machine was too busy, or a moment decides"),
        };
        let done = results.done;
        let alike = done - results.bad - results.disturbed;
        out::tell(&format!("{alike} of {done} connections are alike{disturbed}"))?;
    }
    if results.done < total {
        eprintln!("lowwater: {}", stopped(results.done, total));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    // Nothing compared is nothing shown.
    let compared = results.disturbed < total;
    Ok(if results.bad == 0 && compared { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn stopped(done: u64, total: u64) -> String {
    format!("stopped: {done} of {total} connections")
}

/// How far it is, on stderr where that is a terminal.
fn bar(total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} connections  {eta}") {
        bar.set_style(style);
    }
    bar
}

fn tell(args: &Drill, seed: u64, flavours: &Flavours, drawn: &Result<Drawn, String>) -> io::Result<()> {
    let with = flavours.to_string();
    let with = if with.is_empty() { String::new() } else { format!(" --with {with}") };
    let again = format!("lowwater drill --kernel --draw {seed}{with}");
    let mut out = io::stdout().lock();
    match drawn {
        Ok(Drawn { steps, finding, disturbed }) if args.json => {
            let found = finding.as_ref();
            let object = json!({
                "seed": seed, "ok": found.is_none() && !disturbed, "disturbed": disturbed, "steps": steps, "again": again,
                "step": found.map(|f| f.step), "what": found.map(|f| &f.what), "script": found.map(|f| &f.script),
            });
            writeln!(out, "{object}")
        }
        Ok(Drawn { finding: None, .. }) => Ok(()),
        Ok(Drawn { steps, finding: Some(found), .. }) => {
            writeln!(out, "FAILED seed {seed}, step {} of {steps}: {}", found.step, found.what)?;
            for line in found.script.lines() {
                writeln!(out, "    {line}")?;
            }
            writeln!(out, "  again: {again}")
        }
        Err(why) => writeln!(out, "FAILED seed {seed}: {why}\n  again: {again}"),
    }
}
