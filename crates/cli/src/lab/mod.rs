//! `lowwater lab`: which runs, on which threads, and what is printed about them.
mod alike;
mod asked;
mod bounds;
mod catalog;
mod compare;
mod frames;
mod guest;
mod near;
mod notes;
mod picture;
mod render;
mod report;
mod runs;
mod seeds;
mod table;
mod unheard;
mod words;

use crate::args::{Lab, LabAction, LabOptions};
use crate::failure::Failure;
use crate::interrupt::{INTERRUPTED, stop_on_ctrl_c};
use crate::rates;
use catalog::{EXPERIMENTS, Experiment, Variant};
pub(crate) use guest::guest;
use lowwater_core::base::near::nearest;
use render::Render;
use runs::Plan;
pub(crate) use seeds::SEEDS_MAX;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Most runs of a variant that a message names.
const CELLS_MAX: usize = 6;

/// The names of all experiments.
pub(crate) fn names() -> Vec<&'static str> {
    EXPERIMENTS.iter().map(|e| e.name).collect()
}

/// Runs the command.
pub(crate) fn run(mut lab: Lab) -> Result<ExitCode, Failure> {
    let LabOptions { set, base, .. } = &mut lab.options;
    set.iter_mut().chain(base.iter_mut()).for_each(|(key, _)| *key = near::short(key).to_owned());
    let both = |(key, _): &&(String, String)| !set.iter().any(|(own, _)| own == key);
    let kept: Vec<_> = base.iter().filter(both).cloned().collect();
    set.extend(kept);
    let (experiments, short) = match lab.action {
        Some(LabAction::List { names }) => {
            let usual = LabOptions { json: lab.options.json, ..LabOptions::default() };
            if lab.options != usual {
                return Err(Failure::usage(
                    "lab list takes names and --json alone: the other options are those of `lab run NAME`",
                ));
            }
            let found = names.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>()?;
            let listed = if found.is_empty() { EXPERIMENTS.iter().collect() } else { once(found) };
            render::list(&listed, lab.options.json)?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(LabAction::Run { names }) => {
            let found = names.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>()?;
            (once(found), false)
        }
        None => (EXPERIMENTS.iter().collect(), true),
    };
    let mut plans = plan(&experiments, &lab.options, short)?;
    let shorter = short && lab.options.variant.is_empty();
    compare::mark(&mut plans, &lab.options, shorter);
    let left_out = if short { Vec::new() } else { left_out(&experiments, &plans, &lab.options) };
    let (mut plans, mut notes) = alike::settle(plans);
    notes.extend(left_out);
    notes.extend(compare::nothing_new(&plans, &lab.options));
    plans = compare::beside(plans, &lab.options, shorter);
    let words =
        lab.options.set.iter().filter(|(key, _)| ["qdisc", "router", "switch"].contains(&key.as_str()));
    notes.extend(words.filter_map(|(key, value)| rates::slow(key, value)));
    notes.iter().for_each(|note| eprintln!("lowwater: {note}"));
    let mut unreported = None;
    if short && lab.options.variant.is_empty() && lab.options.report.is_none() && !lab.options.json {
        match usual_report(lab.options.out.as_deref()) {
            Ok(path) => lab.options.report = Some(path),
            Err(e) => unreported = Some(e),
        }
    }
    let stop = stop_on_ctrl_c(|| eprintln!("lowwater: ended at once, without a table"))?;
    if lab.options.uml {
        match guest::measure(&mut plans) {
            // It was asked to end: nothing runs, and the table says so.
            Err(_) if stop.load(Ordering::Relaxed) => {}
            measured => measured?,
        }
    }
    let failed_beside = guest::failed(&plans);
    let plans = seeds::each(plans);
    let mut render = Render::start(&lab.options, plans.len())?;
    runs::run_all(&plans, &stop, |event| render.on_event(event))?;
    let done = render.finish(stop.load(Ordering::Relaxed), plans.len())?;
    if stop.load(Ordering::Relaxed) {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    match done.iter().find_map(|d| d.broken.as_ref().map(|b| (d, b))) {
        Some((d, broken)) => Err(Failure::other(format!(
            "{} {} with seed {} broke a promise: {broken}. This is a bug of lowwater: please report it with the command line",
            d.plan.experiment.name, d.plan.name, d.plan.seed
        ))),
        None => failed_beside.or(unreported).map_or(Ok(ExitCode::SUCCESS), Err),
    }
}

/// Each experiment once, and a sentence about those that were named again.
fn once(experiments: Vec<&'static Experiment>) -> Vec<&'static Experiment> {
    let mut kept: Vec<&'static Experiment> = Vec::new();
    for experiment in experiments {
        if kept.iter().any(|e| e.name == experiment.name) {
            eprintln!("lowwater: {} is named more than once, and is taken once", experiment.name);
        } else {
            kept.push(experiment);
        }
    }
    kept
}

/// A sentence about each experiment that was named and has none of the variants.
fn left_out(experiments: &[&Experiment], plans: &[Plan], options: &LabOptions) -> Vec<String> {
    let has_none = |e: &&&Experiment| !plans.iter().any(|p| p.experiment.name == e.name);
    let variants = options.variant.join(", ");
    let tell = |e: &&Experiment| format!("{} does not run: it has no variant {variants}", e.name);
    experiments.iter().filter(has_none).map(tell).collect()
}

/// Where `lowwater lab` with nothing else puts its report. Where nothing can be written the tables are shown all the same, since that is what most ask for;
/// the command fails at its end. What is there stays as it is: no run has ended yet.
fn usual_report(out: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = out.unwrap_or(Path::new("")).join("report.html");
    match out.map_or(Ok(()), std::fs::create_dir_all).and_then(|()| render::can_write(&path)) {
        Ok(()) => Ok(path),
        Err(e) => Err(Failure::io(format!("no report: writing to {}", path.display()), &e)),
    }
}

fn plan(
    experiments: &[&'static Experiment],
    options: &LabOptions,
    short: bool,
) -> Result<Vec<Plan>, Failure> {
    contradiction(&options.set)?;
    contradiction(&options.base)?;
    if let Some((key, _)) = compare::against(options).next().filter(|_| options.alone) {
        return Err(Failure::usage(format!(
            "{key} is set by --base and by --set, which compares the two; --alone compares nothing"
        )));
    }
    for (key, _) in &options.set {
        if !experiments.iter().any(|e| e.knows(key)) {
            return Err(Failure::usage(catalog::unknown(experiments, key)));
        }
    }
    let mut plans = Vec::new();
    let all = || experiments.iter().flat_map(|e| e.variants);
    let grids: Vec<_> = experiments.iter().flat_map(|e| &e.grid).chain(all().flat_map(|v| v.grid)).collect();
    if let Some(key) = compare::not_comparable(options, &grids) {
        return Err(Failure::usage(format!(
            "--base and --set give {key} two values, and both of two runs that are compared have the same: it says how large they are, or which they are"
        )));
    }
    for experiment in experiments {
        // A variant that is asked for runs, also one that is too long for all together.
        let asked = |v: &&Variant| match &options.variant[..] {
            [] => (v.quick || !short) && !v.asked,
            wanted => wanted.iter().any(|w| w.split('/').next() == Some(v.name)),
        };
        let short = short && options.variant.is_empty();
        let variants = experiment.variants.iter().filter(asked);
        if let Some(other) = compare::other(options) {
            experiment.plan(variants.clone(), &other, short).map_err(Failure::usage)?;
        }
        plans.extend(experiment.plan(variants, options, short).map_err(Failure::usage)?);
    }
    for wanted in &options.variant {
        if !plans.iter().any(|p: &Plan| p.answers_to(wanted)) {
            let have: Vec<_> = all().map(|v| v.name).collect();
            if let Some(why) = no_cell(wanted, &plans) {
                return Err(Failure::usage(why));
            }
            return Err(Failure::usage(no_variant(wanted, &have, experiments.len())));
        }
    }
    if !options.variant.is_empty() {
        plans.retain(|p| options.variant.iter().any(|v| p.answers_to(v)));
    }
    Ok(plans)
}

/// Settings of which only the last would count, and nobody would see which that is.
fn contradiction(set: &[(String, String)]) -> Result<(), Failure> {
    let value = |wanted: &str| set.iter().find(|(key, _)| key == wanted).map(|(_, value)| value);
    for (at, (key, value)) in set.iter().enumerate() {
        if let Some((_, before)) = set[..at].iter().find(|(k, _)| k == key) {
            return Err(Failure::usage(format!(
                "{key} is set twice, to {before} and to {value}; it takes one value"
            )));
        }
    }
    let Some(word) = value("completions").filter(|word| *word != "other") else { return Ok(()) };
    match ["late_us", "batch", "batch_us"].into_iter().find_map(|key| Some((key, value(key)?))) {
        None => Ok(()),
        Some((key, value)) => Err(Failure::usage(format!(
            "completions={word} says how late the device tells, and {key}={value} says it otherwise; completions=other leaves it to late_us, batch and batch_us"
        ))),
    }
}

/// A sentence about a run that is none although its variant is there: which runs that has, and by what of `--set`.
fn no_cell(wanted: &str, plans: &[Plan]) -> Option<String> {
    let (name, _) = wanted.split_once('/')?;
    let own: Vec<_> = plans.iter().filter(|p| p.variant.name == name).collect();
    let plan = own.first()?;
    let grids = plan.experiment.grid.iter().chain(plan.variant.grid);
    let given = plan.asked.set.iter().filter(|(key, _)| grids.clone().any(|grid| grid.key == key));
    let given: Vec<_> = given.map(|(key, value)| format!("{key}={value}")).collect();
    let names: Vec<_> = own.iter().map(|p| p.name.as_str()).take(CELLS_MAX).collect();
    let more = if own.len() > CELLS_MAX { " and more" } else { "" };
    let has = format!("{}{more}", names.join(", "));
    Some(match &given[..] {
        [] => format!("there is no variant {wanted}; {name} has {has}"),
        given => format!("there is no variant {wanted}; with {} it is {has}", given.join(" ")),
    })
}

/// All of one experiment are few; of all experiments only one that is near helps.
fn no_variant(wanted: &str, have: &[&str], experiments: usize) -> String {
    match nearest(wanted.split('/').next().unwrap_or(wanted), have) {
        Some(near) => format!("there is no variant {wanted}; near it: {near} (`lowwater lab list` has all)"),
        None if experiments == 1 => format!("there is no variant {wanted}; there are {}", have.join(", ")),
        None => format!("there is no variant {wanted}, and none near it (`lowwater lab list` has all)"),
    }
}

fn find(name: &str) -> Result<&'static Experiment, Failure> {
    EXPERIMENTS.iter().find(|e| e.name == name).ok_or_else(|| {
        let have: Vec<_> = EXPERIMENTS.iter().map(|e| e.name).collect();
        Failure::usage(format!(
            "there is no experiment {name}; there are {} (`lowwater lab list`)",
            have.join(", ")
        ))
    })
}
