//! What the report shows as pictures: which figures and samples of an experiment's runs, over what.
use super::catalog::Experiment;
use super::compare::{self, Role};
use super::frames::{cut, frames};
use super::runs::Done;
use super::table::short;
use core::mem::discriminant;
use lowwater_sim::check::Departure;
use lowwater_sim::scenario::{Point, SettingValue};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// Least and greatest of this many parts of a line are drawn: more than a picture has columns of pixels.
const PARTS: usize = 500;
/// Most packets of a run that are drawn, the first ones.
const PACKETS_MAX: usize = 5_000;
/// The parameter of runs that measure later than they begin.
const WARM_UP: &str = "warmup_s";
/// How many milliseconds at the end of a run [`Of::Leaving`] shows.
const LEAVING_MS: u64 = 200;

/// A picture of an experiment.
pub(crate) struct Picture {
    /// What it shows.
    pub(crate) title: &'static str,
    /// What is drawn.
    pub(crate) of: Of,
    /// How values are measured: the name of the unit.
    pub(crate) unit: &'static str,
    /// What values are divided by: 1024 for KiB.
    pub(crate) per: f64,
    /// Only runs of these variants; of all where none is named.
    pub(crate) variants: &'static [&'static str],
    /// Values span orders of magnitude.
    pub(crate) log: bool,
}

impl Picture {
    /// A picture of all variants, with a linear scale.
    pub(crate) const PLAIN: Self =
        Self { title: "", of: Of::PacketSizes, unit: "", per: 1.0, variants: &[], log: false };

    /// It names the variant of this run, or is of all.
    pub(super) fn is_about(&self, done: &Done) -> bool {
        self.variants.is_empty() || self.variants.contains(&done.plan.variant.name)
    }
}

/// What is drawn of each run.
pub(crate) enum Of {
    /// A sample over time, the mean over the flows under way: a line.
    OverTime(fn(&Point) -> f64),
    /// A sample over time, all flows together, those that have ended with their last: a line.
    Together(fn(&Point) -> f64),
    /// Segments of each packet of data over time: points.
    PacketSizes,
    /// Payload that the sender's device takes in each of the last milliseconds: a line.
    Leaving,
    /// How many in a hundred of the gaps between two packets of a flow are at most so long, in the second half of the run: a line.
    Gaps,
    /// A figure over a parameter of the runs: one line of all.
    Curve {
        /// The parameter.
        key: &'static str,
        /// The figure.
        figure: &'static str,
        /// What stands at the axis of the parameter.
        axis: &'static str,
    },
    /// A figure as bars, with what others measured beside.
    Bars {
        /// The figure.
        figure: &'static str,
        /// Another figure of the same run that is shown beside it, and its name in the picture.
        beside: Option<(&'static str, &'static str)>,
    },
}

/// One line, or points.
pub(super) struct Line {
    /// As the legend has it.
    pub(super) name: String,
    /// It is of a variant as it is, beside which one with `--set` stands.
    pub(super) is_before: bool,
    /// It is of one with `--set`.
    pub(super) is_changed: bool,
    /// Its points.
    pub(super) at: Vec<(f64, f64)>,
}

impl Line {
    fn json(&self, per: f64) -> Value {
        let (x, y): (Vec<_>, Vec<_>) = self.at.iter().map(|(x, y)| (rounded(*x), rounded(*y / per))).unzip();
        let mut line = json!({"name": self.name, "x": x, "y": y});
        if self.is_before {
            line["before"] = json!(true);
        }
        line
    }
}

/// The pictures of an experiment's runs as the page takes them. Those of a grid have pictures for each of its cells, which may differ by much.
pub(super) fn all(experiment: &Experiment, done: &[&Done]) -> Vec<Value> {
    let cell = |d: &Done| d.plan.name.rsplit_once('/').map(|(_, cell)| cell.to_owned());
    let mut groups: Vec<(Option<String>, Vec<&Done>)> = Vec::new();
    for run in done {
        let of = experiment.grid.as_ref().and_then(|_| cell(run));
        match groups.iter_mut().find(|(cell, _)| *cell == of) {
            Some((_, group)) => group.push(run),
            None => groups.push((of, vec![run])),
        }
    }
    groups
        .iter()
        .flat_map(|(_, group)| {
            experiment.pictures.iter().flat_map(|picture| frames(experiment, picture, group))
        })
        .collect()
}

/// A picture of these runs as the page takes it; `None` where nothing of them is to be seen.
pub(super) fn draw(picture: &Picture, runs: &[&Done], title: &str) -> Option<Value> {
    let of_each = |line: &dyn Fn(&Done) -> Vec<(f64, f64)>| {
        let of = |d: &&Done| Line {
            name: d.plan.label(),
            is_before: d.plan.role == Role::AsItIs,
            is_changed: is_changed(d),
            at: line(d),
        };
        let lines = runs.iter().map(of);
        lines.filter(|line| !line.at.is_empty()).collect::<Vec<_>>()
    };
    let (kind, x, mut lines) = match &picture.of {
        Of::OverTime(value) => ("lines", seconds(runs), of_each(&|d| measured(d, over_time(d, *value)))),
        Of::Together(value) => ("lines", seconds(runs), of_each(&|d| measured(d, together(d, *value)))),
        Of::PacketSizes => ("points", "s", of_each(&packet_sizes)),
        Of::Leaving => ("lines", "ms from the end", of_each(&leaving)),
        Of::Gaps => ("curve", "us", of_each(&gaps)),
        Of::Curve { key, figure, axis } => ("curve", *axis, curves(runs, key, figure, picture.title)),
        Of::Bars { figure, beside } => return bars(picture, runs, figure, *beside, title),
    };
    if lines.is_empty() {
        return None;
    }
    let is_time = matches!(picture.of, Of::OverTime(_) | Of::Together(_));
    let cut = if is_time { cut(&mut lines) } else { None };
    let lines: Vec<_> = lines.iter().map(|line| line.json(picture.per)).collect();
    let title = title.to_owned() + of_flows(picture, runs);
    let mut drawn = json!({
        "title": title, "kind": kind, "x": x, "unit": picture.unit, "log": picture.log, "lines": lines
    });
    if let Some(note) = cut {
        drawn["note"] = json!(note);
    }
    Some(drawn)
}

/// What a line over time is of, where a run has several flows.
fn of_flows(picture: &Picture, runs: &[&Done]) -> &'static str {
    let several = runs.iter().filter_map(|d| d.figures.as_ref()).any(|f| f.series.iter().any(|p| p.flow > 0));
    match picture.of {
        Of::OverTime(_) if several => "; mean of the flows under way",
        Of::Together(_) if several => "; all flows together",
        _ => "",
    }
}

/// A run stands in a picture that names its variant, or none. A variant that was asked for and that no picture of this kind names stands in all of them, but
/// for curves, which are over one parameter.
pub(super) fn is_of(picture: &Picture, done: &Done) -> bool {
    let (plan, kind) = (&done.plan, discriminant(&picture.of));
    let names = |p: &Picture| p.variants.contains(&plan.variant.name);
    let curve = matches!(picture.of, Of::Curve { .. });
    let asked = !plan.asked.variants.is_empty() && !curve;
    let elsewhere = || plan.experiment.pictures.iter().any(|p| discriminant(&p.of) == kind && names(p));
    picture.variants.is_empty() || names(picture) || asked && !elsewhere()
}

/// Six digits: a page need not be long.
fn rounded(value: f64) -> f64 {
    let digits = 5 - value.abs().max(1e-9).log10().floor() as i32;
    let scale = 10_f64.powi(digits.clamp(0, 9));
    (value * scale).round() / scale
}

fn over_time(done: &Done, value: fn(&Point) -> f64) -> Vec<(f64, f64)> {
    // Points of one instant follow each other, one for each flow.
    let series = done.figures.iter().flat_map(|f| &f.series);
    let mut at: Vec<(f64, f64, u32)> = Vec::new();
    for point in series {
        match at.last_mut().filter(|(at_s, ..)| *at_s == point.at_s) {
            Some((_, sum, flows)) => (*sum, *flows) = (*sum + value(point), *flows + 1),
            None => at.push((point.at_s, value(point), 1)),
        }
    }
    let means: Vec<_> = at.into_iter().map(|(at_s, sum, flows)| (at_s, sum / f64::from(flows))).collect();
    extremes(&means)
}

/// The same, with its time from the beginning of the measured time on: some runs begin to measure later than others.
fn measured(done: &Done, mut line: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let began = parameter(done, WARM_UP).unwrap_or(0.0);
    line.iter_mut().for_each(|(at_s, _)| *at_s -= began);
    line
}

/// What stands at the axis of time.
fn seconds(runs: &[&Done]) -> &'static str {
    if runs.iter().any(|d| parameter(d, WARM_UP).is_some()) { "s of the measured time" } else { "s" }
}

fn together(done: &Done, value: fn(&Point) -> f64) -> Vec<(f64, f64)> {
    let series = done.figures.iter().flat_map(|f| &f.series);
    let (mut last, mut sum) = (HashMap::new(), 0.0);
    let mut sums: Vec<(f64, f64)> = Vec::new();
    for point in series {
        sum += value(point) - last.insert(point.flow, value(point)).unwrap_or(0.0);
        match sums.last_mut().filter(|(at_s, _)| *at_s == point.at_s) {
            Some((_, of_instant)) => *of_instant = sum,
            None => sums.push((point.at_s, sum)),
        }
    }
    extremes(&sums)
}

/// The least and the greatest value of each part of a line, so that no peak is lost.
fn extremes(line: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let part = line.len().div_ceil(PARTS).max(1);
    if part <= 2 {
        return line.to_vec();
    }
    let ends = |points: &[(f64, f64)]| {
        let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let (low, high) = (points.iter().min_by(by_value).copied(), points.iter().max_by(by_value).copied());
        let mut both: Vec<_> = low.into_iter().chain(high).collect();
        both.sort_by(|a, b| a.0.total_cmp(&b.0));
        both.dedup();
        both
    };
    line.chunks(part).flat_map(ends).collect()
}

/// Packets of data of the first host.
fn data(done: &Done) -> impl Iterator<Item = &Departure> {
    done.figures.iter().flat_map(|f| &f.departures).filter(|d| d.host == 0 && d.bytes > 0)
}

fn packet_sizes(done: &Done) -> Vec<(f64, f64)> {
    let at = data(done).map(|d| (d.at.as_nanos() as f64 / 1e9, f64::from(d.segs)));
    at.take(PACKETS_MAX).collect()
}

fn leaving(done: &Done) -> Vec<(f64, f64)> {
    let ms = |d: &Departure| d.at.as_nanos() / 1_000_000;
    // The last one may not be a whole millisecond.
    let Some(end) = data(done).map(ms).max() else { return Vec::new() };
    let first = end.saturating_sub(LEAVING_MS);
    let mut bytes: BTreeMap<u64, f64> = (first..end).map(|at| (at, 0.0)).collect();
    for d in data(done) {
        if let Some(sum) = bytes.get_mut(&ms(d)) {
            *sum += f64::from(d.bytes);
        }
    }
    bytes.into_iter().map(|(at, bytes)| (at as f64 - end as f64, bytes)).collect()
}

fn gaps(done: &Done) -> Vec<(f64, f64)> {
    let Some(middle) = data(done).map(|d| d.at.as_nanos() / 2).max() else { return Vec::new() };
    let mut last = HashMap::new();
    let mut all = Vec::new();
    for d in data(done).filter(|d| d.at.as_nanos() >= middle) {
        let at = d.at.as_nanos();
        all.extend(last.insert(d.flow, at).map(|before| (at - before) as f64 / 1e3));
    }
    all.sort_by(f64::total_cmp);
    steps(&all)
}

/// How many in a hundred of sorted values are at most so large: the corners of a stair, thinned to steps that can be told apart.
fn steps(sorted: &[f64]) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    let (mut told, mut seen) = (0.0, 0);
    for same in sorted.chunk_by(|a, b| a == b) {
        seen += same.len();
        let part = seen as f64 * 100.0 / sorted.len() as f64;
        if part - told >= 100.0 / PARTS as f64 || seen == sorted.len() {
            // A picture whose scale is logarithmic has no 0.
            let value = same[0].max(0.1);
            corners.extend([(value * 0.9999, told), (value, part)]);
            told = part;
        }
    }
    corners
}

fn parameter(done: &Done, key: &str) -> Option<f64> {
    let setting = done.plan.scenario.settings().into_iter().find(|s| s.name == key)?;
    match setting.value {
        SettingValue::Number(n) => Some(n),
        SettingValue::Words(words) => words.parse().ok(),
    }
}

/// A line of all runs; of those that are compared one as they are, and one with what `--set` changes.
fn curves(runs: &[&Done], key: &str, figure: &str, title: &str) -> Vec<Line> {
    let is_compared = runs.iter().any(|d| d.plan.role == Role::AsItIs);
    if !is_compared {
        return curve(runs, key, figure, title).into_iter().collect();
    }
    let of = |changed: bool| {
        let own = |d: &&&Done| d.plan.role != Role::AsItIs || !changed;
        let own: Vec<_> = runs.iter().filter(own).filter(|d| changed || !is_changed(d)).copied().collect();
        let with = own.iter().find(|d| is_changed(d)).map(|d| d.plan.label().split_off(d.plan.name.len()));
        let name = with.unwrap_or_else(|| " as it is".to_owned());
        Some(Line { is_before: !changed, is_changed: changed, ..curve(&own, key, figure, name.trim())? })
    };
    [false, true].into_iter().filter_map(of).collect()
}

fn is_changed(d: &Done) -> bool {
    matches!(d.plan.role, Role::Changed(_))
}

fn curve(runs: &[&Done], key: &str, figure: &str, name: &str) -> Option<Line> {
    let mut at: Vec<_> = runs
        .iter()
        .filter_map(|d| Some((parameter(d, key)?, d.figures.as_ref()?.get(figure)?)))
        .filter(|(x, _)| *x > 0.0)
        .collect();
    at.sort_by(|a, b| a.0.total_cmp(&b.0));
    at.dedup_by_key(|(x, _)| *x);
    // Two points are no curve.
    (at.len() >= 3).then(|| Line { name: name.to_owned(), is_before: false, is_changed: false, at })
}

fn bars(
    picture: &Picture,
    runs: &[&Done],
    figure: &str,
    beside: Option<(&str, &str)>,
    title: &str,
) -> Option<Value> {
    let row = |d: &&Done| {
        let figures = d.figures.as_ref()?;
        let of = |measured: &[(&str, f64)]| measured.iter().find(|(n, _)| *n == figure).map(|(_, v)| *v);
        let [linux, still, commit] = d.plan.beside().map(|(who, measured)| Some((who, of(measured)?)));
        let others = [
            beside.and_then(|(name, other)| Some((name, figures.get(other)?))),
            linux,
            still,
            commit,
            d.plan.linux_now.iter().find(|(n, _)| n == figure).map(|(_, v)| ("Linux now", *v)),
        ];
        let before = compare::before(runs, d).and_then(|before| before.figures.as_ref());
        let change = |who: &str, value: f64| {
            let name = match who {
                "lowwater" => figure,
                _ => beside.filter(|(name, _)| *name == who)?.1,
            };
            Some(compare::change(before?.get(name)?, value))
        };
        let values = [Some(("lowwater", figures.get(figure)?))].into_iter().chain(others).flatten();
        let values: Vec<_> = values
            .map(|(who, value)| {
                let change = change(who, value);
                let value = value / picture.per;
                // The digits are those of the table.
                let mut bar = json!({"who": who, "value": rounded(value), "text": short(value)});
                if let Some(change) = change {
                    bar["change"] = json!(change);
                }
                bar
            })
            .collect();
        Some(json!({"name": d.plan.label(), "values": values}))
    };
    let rows: Vec<_> = runs.iter().filter_map(row).collect();
    if rows.is_empty() {
        return None;
    }
    Some(json!({"title": title, "kind": "bars", "unit": picture.unit, "log": picture.log, "rows": rows}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_survive_thinning() {
        let line: Vec<_> =
            (0..10_000).map(|i| (f64::from(i), if i == 7_777 { 9.0 } else { f64::from(i % 2) })).collect();
        let drawn = extremes(&line);
        assert!(drawn.len() <= 2 * PARTS, "{}", drawn.len());
        assert!(drawn.contains(&(7_777.0, 9.0)) && drawn.windows(2).all(|w| w[0].0 < w[1].0));
        assert_eq!(extremes(&line[..10]), line[..10]);
    }

    #[test]
    fn a_stair_has_a_corner_for_each_value_that_counts() {
        assert_eq!(steps(&[10.0, 10.0, 20.0, 40.0])[1..4], [(10.0, 50.0), (19.998, 50.0), (20.0, 75.0)]);
        assert_eq!(steps(&[5.0; 9]), [(4.9995, 0.0), (5.0, 100.0)]);
        let many: Vec<_> = (1..100_000).map(f64::from).collect();
        assert!(steps(&many).len() <= 2 * PARTS + 2);
    }

    #[test]
    fn six_digits_are_kept() {
        let cases = [
            (0.0, 0.0),
            (1.234_567_89, 1.234_57),
            (123_456_789.0, 123_456_789.0),
            (0.000_123_456_789, 0.000_123_457),
        ];
        for (value, kept) in cases {
            assert_eq!(rounded(value), kept);
        }
    }
}
