//! Which runs of an experiment share a picture, what stands above it, and where its axis ends.
use super::catalog::Experiment;
use super::compare::{self, Role};
use super::picture::{Line, Of, Picture, draw, is_of};
use super::runs::Done;
use super::table::{by_conditions, differing, in_one, short};
use serde_json::{Value, json};

/// Most variants beside themselves as they are in one picture of lines.
const PAIRS_MAX: usize = 2;
/// A line so many times as long as all but a few others is cut where they end.
const MUCH_LONGER: f64 = 2.0;
/// A little of it behind their end shows that it goes on.
const JUST_BEHIND: f64 = 1.05;

/// A picture of these runs, and one for each kind of those that were asked for and that it does not name: other lines have other scales.
pub(super) fn frames(experiment: &Experiment, picture: &Picture, done: &[&Done]) -> Vec<Value> {
    let own = |d: &&&Done| is_of(picture, d);
    let runs: Vec<&Done> = done.iter().filter(own).filter(|d| d.figures.is_some()).copied().collect();
    let (named, others): (Vec<&Done>, Vec<&Done>) = runs.into_iter().partition(|d| picture.is_about(d));
    let mut kinds = by_conditions(experiment, &others);
    if let Some((about, _)) = by_conditions(experiment, &named).into_iter().next() {
        let same = kinds.iter().position(|(kind, _)| *kind == about).map(|at| kinds.remove(at).1);
        kinds.insert(0, (about, named.into_iter().chain(same.unwrap_or_default()).collect()));
    }
    let kind_of = |at: usize| {
        let other = kinds.get(usize::from(at == 0))?;
        Some(differing(&kinds[at].0, &other.0))
    };
    let all = kinds.iter().enumerate();
    all.flat_map(|(at, (_, runs))| of_kind(picture, runs, kind_of(at))).collect()
}

/// One of these runs; of more pairs than can be told apart in it, one for each variant. `kind` is what they have in common and others have not.
fn of_kind(picture: &Picture, runs: &[&Done], kind: Option<&str>) -> Vec<Value> {
    let title = |runs: &[&Done]| {
        let kind = kind.map_or_else(String::new, |kind| format!("; {kind}"));
        title(picture, runs) + &kind
    };
    let pairs = runs.iter().filter(|d| d.plan.role == Role::AsItIs).count();
    if pairs <= PAIRS_MAX || matches!(picture.of, Of::Bars { .. } | Of::Curve { .. }) {
        return draw(picture, runs, &title(runs)).into_iter().collect();
    }
    let of_one = |runs: &[&Done]| {
        let name = &runs[0].plan.name;
        let mut drawn = draw(picture, runs, &format!("{name}: {}", title(runs)))?;
        drawn["small"] = json!(true);
        for line in drawn["lines"].as_array_mut().into_iter().flatten() {
            let label = line["name"].as_str().unwrap_or_default();
            let rest = label.strip_prefix(name).map_or(label, str::trim_start).to_owned();
            line["name"] = json!(if rest.is_empty() { name } else { &rest });
        }
        Some(drawn)
    };
    runs.chunk_by(|a, b| a.plan.name == b.plan.name).filter_map(of_one).collect()
}

/// The title with the parameters of the runs, where `--set` changes them with both.
fn title(picture: &Picture, runs: &[&Done]) -> String {
    let changed = runs.iter().find(|d| compare::before(runs, d).is_some());
    let mut titles: Vec<_> =
        runs.iter().take(1).chain(changed).map(|d| d.plan.filled(picture.title)).collect();
    titles.dedup();
    in_one(&titles)
}

/// Cuts off what few lines have where all others, and more than half, have long ended, which would be squeezed by it; says which lines go on. Of what is
/// compared by `--set` neither side is cut off as a whole.
pub(super) fn cut(lines: &mut [Line]) -> Option<String> {
    let end = |line: &Line| line.at.last().map_or(0.0, |(x, _)| *x);
    let mut ends: Vec<f64> = lines.iter().map(end).collect();
    // Two are compared with each other.
    if ends.len() < 3 {
        return None;
    }
    ends.sort_by(f64::total_cmp);
    let majority = ends.len() / 2 + 1;
    let ended_long = |at: &usize| ends[at - 1] > 0.0 && ends[*at] >= MUCH_LONGER * ends[at - 1];
    let last = (majority..ends.len()).find(ended_long).map(|at| ends[at - 1])?;
    let goes_on = |is_of: fn(&Line) -> bool| {
        let mut side = lines.iter().filter(|line| is_of(line)).peekable();
        side.peek().is_some() && side.all(|line| end(line) > last)
    };
    if goes_on(|line| line.is_before) || goes_on(|line| line.is_changed) {
        return None;
    }
    let longer = lines.iter().filter(|line| end(line) > last);
    let told: Vec<_> = longer.map(|line| format!("{} ends at {} s", line.name, short(end(line)))).collect();
    for line in lines {
        line.at.retain(|(x, _)| *x <= last * JUST_BEHIND);
    }
    Some(format!("cut where the others have ended: {}", told.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::picture::all;
    use lowwater_sim::scenario::Point;

    /// What a line is to `--set`, and where it ends.
    fn lines(of: &[(&str, f64)]) -> Vec<Line> {
        let line = |(role, end): &(&str, f64)| Line {
            name: (*role).to_owned(),
            is_before: *role == "as it is",
            is_changed: *role == "changed",
            at: vec![(0.0, 1.0), (*end, 1.0)],
        };
        of.iter().map(line).collect()
    }

    #[test]
    fn few_lines_are_cut_where_most_have_ended_and_never_what_is_asked_about() {
        let told = |of: &[(&str, f64)]| cut(&mut lines(of));
        let (before, now) = ("as it is", "changed");
        // Half of the lines are what was asked about.
        assert_eq!(told(&[(before, 5.0), (now, 11.0), (before, 5.0), (now, 11.0)]), None);
        assert_eq!(told(&[(before, 11.0), (now, 5.0), (before, 11.0), (now, 5.0)]), None);
        assert_eq!(told(&[(before, 5.0), (now, 5.0), (before, 11.0), (now, 11.0)]), None);
        // Few they may be, and are all of it.
        assert_eq!(told(&[("", 5.0), (before, 5.0), (now, 11.0)]), None);
        assert_eq!(told(&[("", 5.0), (before, 11.0), (now, 5.0)]), None);
        // Nothing is nothing to cut at.
        assert_eq!(told(&[("", 0.0), ("", 0.0), ("", 0.0), ("", 11.0)]), None);
        let one_of = [(before, 5.0), (now, 5.0), (before, 5.0), (now, 11.0)];
        assert_eq!(told(&one_of).as_deref(), Some("cut where the others have ended: changed ends at 11 s"));
        let mut few = lines(&one_of);
        cut(&mut few);
        assert_eq!(few.iter().map(|line| line.at.len()).collect::<Vec<_>>(), [2, 2, 2, 1]);
    }

    /// Runs over other lines have pictures of their own, whose titles say which.
    #[test]
    fn runs_that_were_asked_for_beside_others_stand_by_their_kind() {
        use crate::args::LabOptions;
        use crate::lab::catalog::EXPERIMENTS;
        use lowwater_sim::scenario::Figures;
        let experiment = EXPERIMENTS.iter().find(|e| e.name == "notsent-lowat").expect("it is there");
        let pictures = |wanted: &[&str]| {
            let variant = wanted.iter().map(|name| (*name).to_owned()).collect();
            let options = LabOptions { variant, ..LabOptions::default() };
            let variants = experiment.variants.iter().filter(|v| wanted.contains(&v.name));
            let done: Vec<Done> = experiment
                .plan(variants, &options, false)
                .expect("a plan")
                .into_iter()
                .map(|plan| {
                    let series = vec![Point { unsent_bytes: 1, at_s: 5.0, ..Point::default() }];
                    let mut figures = Figures::default();
                    figures.series = series;
                    Done {
                        plan,
                        figures: Some(figures),
                        broken: None,
                        runs: 1,
                        spread: Vec::new(),
                        wall_s: 0.0,
                    }
                })
                .collect();
            let all = all(experiment, &done.iter().collect::<Vec<_>>());
            let told = |picture: &Value| {
                let names = picture["lines"].as_array().into_iter().flatten();
                let names: Vec<_> = names.filter_map(|line| line["name"].as_str()).collect();
                format!("{}: {}", picture["title"].as_str().unwrap_or_default(), names.join(" "))
            };
            all.iter().map(told).collect::<Vec<_>>()
        };
        let title = "Written and not sent, by flow";
        assert_eq!(
            pictures(&["seed-unset", "bbr-unset", "cubic-unset"]),
            [
                format!("{title}; 200 Mbit/s and 100 ms: cubic-unset bbr-unset"),
                format!("{title}; 10 Gbit/s and 100 ms: seed-unset")
            ]
        );
        assert_eq!(pictures(&["seed-unset"]), [format!("{title}: seed-unset")]);
        // Under the same conditions they stand with the others.
        assert_eq!(pictures(&["cubic-unset", "cubic-16384"]), [format!("{title}: cubic-unset cubic-16384")]);
    }
}
