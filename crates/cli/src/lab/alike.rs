//! What `--set` makes of variants: which became the same experiment, and what is said where a name no longer fits.
use super::catalog::{Assigned, report};
use super::compare::Role;
use super::runs::Plan;
use super::unheard;

/// Each distinct experiment once, and a sentence for everything that somebody who gave `--set` may not expect.
pub(super) fn settle(plans: Vec<Plan>) -> (Vec<Plan>, Vec<String>) {
    let mut groups: Vec<(String, Vec<Plan>)> = Vec::new();
    for plan in plans {
        let key = match plan.asked.set.is_empty() {
            // Two of the catalog are two, whatever they have.
            true => format!("{}/{}", plan.experiment.name, plan.name),
            false => format!("{}/{}", plan.experiment.name, report(&*plan.scenario)),
        };
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, plans)) => plans.push(plan),
            None => groups.push((key, vec![plan])),
        }
    }
    let mut notes: Vec<String> = Vec::new();
    let mut kept: Vec<Plan> = Vec::new();
    for (_, mut plans) in groups {
        // The one whose name says most of what `--set` does, and nothing else.
        let best = plans.iter().enumerate().min_by_key(|(_, p)| fit(p)).map_or(0, |(at, _)| at);
        let keep = plans.remove(best);
        if !plans.is_empty() {
            let names: Vec<_> = plans.iter().map(|p| p.name.as_str()).collect();
            let set: Vec<_> = keep.asked.set.iter().map(|(key, value)| format!("{key}={value}")).collect();
            notes.push(format!(
                "{}: with {} the same experiment as {}, which runs once for all of them: {}",
                keep.experiment.name,
                set.join(" "),
                keep.name,
                names.join(", ")
            ));
        }
        kept.push(keep);
    }
    let mut experiments: Vec<_> = kept.iter().map(|p| p.experiment.name).collect();
    experiments.dedup();
    for name in experiments {
        let own: Vec<_> = kept.iter().filter(|p| p.experiment.name == name).collect();
        notes.extend(replaced(&own));
        notes.extend(unheard::told(&own));
    }
    (kept, notes)
}

/// How badly a variant's own settings fit to `--set`: those that it replaces, then fewer of those that it repeats. One that `--set` changes comes first, as
/// what it changes is asked.
fn fit(plan: &Plan) -> (bool, usize, core::cmp::Reverse<usize>) {
    let own = |same: bool| {
        let told =
            |(key, value): &&Assigned| plan.asked.set.iter().any(|(k, v)| k == key && (v == value) == same);
        plan.variant.sets.iter().filter(told).count()
    };
    (plan.role == Role::Alone, own(false), core::cmp::Reverse(own(true)))
}

/// Variants whose own settings `--set` has replaced.
fn replaced(plans: &[&Plan]) -> Vec<String> {
    let set = plans.first().map(|p| p.asked.set.clone()).unwrap_or_default();
    let of = |(key, value): &(String, String)| {
        let own = |p: &&&Plan| {
            let differs = |(k, v): &&Assigned| k == key && v != value;
            p.variant.sets.iter().find(differs).map(|(_, v)| format!("{} ({v})", p.name))
        };
        let names: Vec<_> = plans.iter().filter_map(|p| own(&p)).collect();
        (!names.is_empty()).then(|| {
            format!(
                "{}: {key}={value} takes the place of what these variants set themselves: {}",
                plans[0].experiment.name,
                names.join(", ")
            )
        })
    };
    set.iter().filter_map(of).collect()
}
