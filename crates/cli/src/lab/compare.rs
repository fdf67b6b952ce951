//! What `--set` changes: each variant runs with it and also as it is, and what became of its figures is told.
use super::catalog::{Column, Experiment, Grid, report, value};
use super::runs::{Done, Plan};
use super::table::short;
use super::unheard::why;
use crate::args::LabOptions;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Parameters that say how long a run takes, or how much of the same it does: both runs have them, as a knob of the traffic is not asked about by them.
const SIZES: [&str; 4] = ["warmup_s", "measure_s", "limit_s", "bytes"];
/// Most variants of which each has a line above the table.
const LINES_MAX: usize = 4;
/// Figures that differ by less are told to be as before.
const LITTLE: f64 = 0.01;

/// What a run is to another of the same variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// There is no other.
    Alone,
    /// The variant without `--set`.
    AsItIs,
    /// The same with `--set`: what of it makes the difference.
    Changed(Vec<(String, String)>),
}

/// Whether both runs have this setting: it says how large they are, it names the run, or it was given by `--base`.
pub(super) fn stays<'a>(mut grids: impl Iterator<Item = &'a Grid>, base: &[String], key: &str) -> bool {
    SIZES.contains(&key) || base.iter().any(|own| own == key) || grids.any(|grid| grid.key == key)
}

/// Settings of `--base` that `--set` gives another value: the two values are compared.
pub(super) fn against(options: &LabOptions) -> impl Iterator<Item = &(String, String)> {
    options.base.iter().filter(|pair| !options.set.contains(pair))
}

/// What is compared with where `--base` and `--set` give values of their own: those of `--base`, for whoever has to see that they are ones.
pub(super) fn other(options: &LabOptions) -> Option<LabOptions> {
    against(options).next()?;
    let ours = options.set.iter().filter(|(key, _)| !options.base.iter().any(|(own, _)| own == key));
    let set = ours.chain(&options.base).cloned().collect();
    Some(LabOptions { set, base: Vec::new(), ..options.clone() })
}

/// A key of which two values cannot be compared: it says how large a run is, or names it.
pub(super) fn not_comparable<'a>(options: &'a LabOptions, grids: &[&Grid]) -> Option<&'a str> {
    let fixed = |key: &str| SIZES.contains(&key) || grids.iter().any(|grid| grid.key == key);
    against(options).map(|(key, _)| &**key).find(|key| fixed(key))
}

fn is_kept(plan: &Plan, key: &str) -> bool {
    stays(plan.experiment.grid.iter().chain(plan.variant.grid), &plan.asked.base, key)
}

/// The settings of `--set` that are asked about and that this run reads.
fn asked(plan: &Plan) -> impl Iterator<Item = &(String, String)> {
    let heard = |key: &str| why(plan.experiment.name, &*plan.scenario, key).is_none();
    plan.asked.set.iter().filter(move |(key, _)| !is_kept(plan, key) && heard(key))
}

/// The run without what is asked about, where that is another one.
fn as_it_is(plan: &Plan, options: &LabOptions, shorter: bool) -> Option<Plan> {
    let kept = options.set.iter().filter(|(key, _)| is_kept(plan, key));
    let kept = kept.chain(&plan.asked.against).cloned().collect();
    let bare = LabOptions { set: kept, ..options.clone() };
    let all = plan.experiment.plan(std::iter::once(plan.variant), &bare, shorter).ok()?;
    let mut own = all.into_iter().find(|own| own.name == plan.name)?;
    own.asked = Arc::clone(&plan.asked);
    own.role = Role::AsItIs;
    (report(&*own.scenario) != report(&*plan.scenario)).then_some(own)
}

/// Says of each run what `--set` makes of it.
pub(super) fn mark(plans: &mut [Plan], options: &LabOptions, shorter: bool) {
    for plan in plans.iter_mut().filter(|_| !options.alone) {
        let Some(before) = as_it_is(plan, options, shorter) else { continue };
        let differs =
            |(key, _): &&(String, String)| value(&*before.scenario, key) != value(&*plan.scenario, key);
        let mut by: Vec<_> = asked(plan).filter(differs).cloned().collect();
        if by.is_empty() {
            continue;
        }
        // What a setting has changed beside itself.
        let others = plan.replaced.iter().filter(|(key, _)| !is_kept(plan, key));
        let others: Vec<_> = others.filter(|pair| !by.contains(pair)).cloned().collect();
        by.extend(others);
        plan.role = Role::Changed(by);
    }
}

/// Each run that is another one by `--set`, behind that of its variant as it is.
pub(super) fn beside(plans: Vec<Plan>, options: &LabOptions, shorter: bool) -> Vec<Plan> {
    let both = |plan: Plan| {
        let before = matches!(plan.role, Role::Changed(_)).then(|| as_it_is(&plan, options, shorter));
        before.flatten().into_iter().chain([plan])
    };
    plans.into_iter().flat_map(both).collect()
}

/// A sentence about settings that a variant has anyway: it runs once, and nobody is to wonder why.
pub(super) fn nothing_new(plans: &[Plan], options: &LabOptions) -> Vec<String> {
    let mut all: Vec<(&str, String, Vec<&str>)> = Vec::new();
    for plan in plans.iter().filter(|p| p.role == Role::Alone && !options.alone) {
        let words: Vec<_> = asked(plan).map(|(key, value)| format!("{key}={value}")).collect();
        let words = words.join(", ");
        let same = |(name, known, _): &&mut (&str, String, Vec<&str>)| {
            *name == plan.experiment.name && *known == words
        };
        match all.iter_mut().find(same) {
            _ if words.is_empty() => {}
            Some((.., names)) => names.push(&plan.name),
            None => all.push((plan.experiment.name, words, vec![&plan.name])),
        }
    }
    let tell = |(experiment, words, names): (&str, String, Vec<&str>)| {
        let names = names.join(", ");
        format!(
            "{experiment}: {words} is what these variants have as they are, so there is nothing to compare: {names}"
        )
    };
    all.into_iter().map(tell).collect()
}

/// The run of the same variant as it is.
pub(super) fn before<'a>(done: &[&'a Done], of: &Done) -> Option<&'a Done> {
    let is = |d: &&&Done| {
        let (own, plan) = (&d.plan, &of.plan);
        own.role == Role::AsItIs && (own.experiment.name, &own.name) == (plan.experiment.name, &plan.name)
    };
    matches!(of.plan.role, Role::Changed(_)).then(|| done.iter().find(is).copied()).flatten()
}

/// What became of a value: "-58 %", from twice as much on "x2.1", to a tenth and less "x0.034".
pub(super) fn change(before: f64, now: f64) -> String {
    let times = now / before;
    let percent = (times - 1.0) * 100.0;
    match percent.abs() {
        _ if before == now => "same".to_owned(),
        _ if before == 0.0 => "from 0".to_owned(),
        _ if now == 0.0 => "to 0".to_owned(),
        _ if !(0.1..1.95).contains(&times) => format!("x{}", short(times)),
        size if size < 0.05 => "same".to_owned(),
        size if size < 10.0 => format!("{percent:+.1} %"),
        _ => format!("{percent:+.0} %"),
    }
}

/// A figure before and now.
pub(super) struct Changed {
    /// The head of its column.
    pub(super) what: String,
    /// As it is, by the digits of the tables.
    pub(super) before: String,
    /// With `--set`.
    pub(super) now: String,
    /// What became of it.
    pub(super) change: String,
    /// It is more than chance may be.
    pub(super) much: bool,
}

/// What became of each figure of the tables.
pub(super) fn changes(experiment: &Experiment, before: &Done, now: &Done) -> Vec<Changed> {
    let of = |column: &Column| {
        let value = |d: &Done| d.figures.as_ref()?.get(column.figure);
        let (before, now) = (value(before)?, value(now)?);
        Some(Changed {
            what: column.title(),
            before: short(before / column.unit),
            now: short(now / column.unit),
            change: change(before, now),
            much: (now - before).abs() >= LITTLE * before.abs() && now != before,
        })
    };
    experiment.columns.iter().filter_map(of).collect()
}

/// A line for each run that is another one by `--set`: what changed, and what did not. Of many the table says enough.
pub(super) fn lines(experiment: &Experiment, done: &[&Done]) -> Vec<String> {
    if done.iter().filter(|d| before(done, d).is_some()).count() > LINES_MAX {
        return Vec::new();
    }
    let of = |now: &&Done| {
        let all = changes(experiment, before(done, now)?, now);
        let (much, little): (Vec<_>, Vec<_>) = all.iter().partition(|c| c.much);
        let told: Vec<_> =
            much.iter().map(|c| format!("{} {} -> {} ({})", c.what, c.before, c.now, c.change)).collect();
        let told = if told.is_empty() { "no figure changes by 1 %".to_owned() } else { told.join("; ") };
        let same: Vec<_> = little.iter().map(|c| c.what.as_str()).collect();
        let same = match same.is_empty() || much.is_empty() {
            true => String::new(),
            false => format!("; within 1 %: {}", same.join(", ")),
        };
        Some(format!("{}: {told}{same}", now.label()))
    };
    done.iter().filter_map(of).collect()
}

/// The same for the page.
pub(super) fn tables(experiment: &Experiment, done: &[&Done]) -> Vec<Value> {
    let of = |now: &&Done| {
        let Role::Changed(by) = &now.plan.role else { return None };
        let by: Vec<_> = by.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let rows = changes(experiment, before(done, now)?, now);
        let rows = rows.iter().map(|c| json!({"cells": [c.what, c.before, c.now, c.change], "much": c.much}));
        Some(json!({"name": now.plan.name, "by": by.join(", "), "rows": rows.collect::<Vec<_>>()}))
    };
    done.iter().filter_map(of).collect()
}

/// What JSON has of a run's role: nothing of one that is alone. `earlier` are the runs before it.
pub(super) fn object(done: &Done, earlier: &[Done]) -> Map<String, Value> {
    let mut object = Map::new();
    match &done.plan.role {
        Role::Alone => {}
        Role::AsItIs => drop(object.insert("as_it_is".into(), json!(true))),
        Role::Changed(by) => {
            let by: Map<_, _> = by.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
            object.insert("as_it_is".into(), json!(false));
            object.insert("changed".into(), Value::Object(by));
            let earlier: Vec<_> = earlier.iter().filter(|d| d.plan.seed == done.plan.seed).collect();
            object.insert("times".into(), times(before(&earlier, done), done));
        }
    }
    object
}

/// How many times as much each figure is as in the run before; `null` where that had nothing.
fn times(before: Option<&Done>, now: &Done) -> Value {
    let figures = now.figures.iter().flat_map(|f| f.named());
    let of = |(name, value): &(&str, f64)| {
        let before = before?.figures.as_ref()?.get(name)?;
        let times = value / before;
        Some(((*name).to_owned(), json!(times.is_finite().then_some(times))))
    };
    Value::Object(figures.filter_map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::change;

    #[test]
    fn small_changes_are_parts_and_large_ones_are_times() {
        let cases = [
            (10.0, 10.0, "same"),
            (100.0, 100.01, "same"),
            (100.0, 99.5, "-0.5 %"),
            (229.0, 95.3, "-58 %"),
            (100.0, 190.0, "+90 %"),
            (100.0, 199.5, "x2.00"),
            (100.0, 200.0, "x2"),
            (10.0, 53.0, "x5.30"),
            (1_000.0, 34.0, "x0.034"),
            (0.0, 3.0, "from 0"),
            (3.0, 0.0, "to 0"),
            (0.0, 0.0, "same"),
        ];
        for (before, now, wanted) in cases {
            assert_eq!(change(before, now), wanted, "{before} {now}");
        }
    }
}
