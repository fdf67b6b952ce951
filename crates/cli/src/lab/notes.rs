//! What a table alone does not say of its runs: that nothing came, so that zeros are no measurement, and what a default decides.
use super::catalog::Note;
use super::compare::Role;
use super::runs::Done;
use lowwater_sim::scenario::SettingValue;

/// A line for each run that no payload came of, since no flow connected or none brought anything; and one for each variant of which the catalog has a note.
pub(super) fn lines(done: &[&Done]) -> Vec<String> {
    let mut lines: Vec<_> = nothing_came(done).collect();
    for note in done.iter().filter_map(|d| note(d)) {
        if !lines.contains(&note) {
            lines.push(note);
        }
    }
    lines
}

fn note(done: &Done) -> Option<String> {
    let plan = &done.plan;
    let Note { key, matters, told } = plan.variant.note.as_ref()?;
    let is_set = |set: &[(String, String)]| set.iter().any(|(own, _)| own == key);
    let settings = plan.scenario.settings();
    let of =
        |name: &str| match settings.iter().find(|setting| setting.name == name).map(|setting| &setting.value)
        {
            Some(SettingValue::Number(value)) => *value,
            _ => f64::NAN,
        };
    // Of another controller it is not true either.
    let is_other = !plan.replaced.is_empty()
        || plan.asked.base.iter().any(|own| own == key)
        || plan.role != Role::AsItIs && is_set(&plan.asked.set);
    (!is_other && done.figures.is_some() && matters(&of)).then(|| format!("{}: {told}", plan.variant.name))
}

fn nothing_came<'a>(done: &'a [&Done]) -> impl Iterator<Item = String> + 'a {
    done.iter().filter_map(|d| Some(format!("nothing came: {}: {}", d.plan.called(), why(d)?)))
}

fn why(done: &Done) -> Option<String> {
    let figures = done.figures.as_ref()?;
    let of = |name: &str| figures.get(name);
    if of("connected_flows") == Some(0.0) {
        let seconds = figures.virtual_s;
        return Some(format!("no flow connected in {seconds:.1} s, so its figures measure nothing"));
    }
    // Associations have messages and no goodput.
    (of("connected_flows").is_some() && of("goodput_mbps") == Some(0.0))
        .then(|| "flows connected, and no payload of theirs arrived in the time that was measured".to_owned())
}
