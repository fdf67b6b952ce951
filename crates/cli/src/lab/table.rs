//! The tables of the lab: one per experiment with a row per run, and one of before and after.
use super::catalog::{Column, EXPERIMENTS, Experiment, Measured, Pair};
use super::compare::{self, Role};
use super::runs::Done;
use super::seeds::Spread;
use super::{notes, words};
use comfy_table::{Cell, CellAlignment, Table};

/// All tables of the runs, in the order of the catalog, none wider than `width`.
pub(super) fn all(done: &[Done], width: Option<usize>) -> String {
    let mut text = Vec::new();
    for experiment in EXPERIMENTS {
        let done: Vec<_> = done.iter().filter(|d| d.plan.experiment.name == experiment.name).collect();
        let Some(first) = done.first() else { continue };
        let mut changed = first.plan.asked.changed();
        let mut shown = Vec::new();
        for (about, done) in by_conditions(experiment, &done) {
            text.push(format!("{}: {about}", experiment.name));
            text.extend(changed.take());
            text.extend(compare::lines(experiment, &done));
            let tables = runs(experiment, &done, width);
            shown.extend(tables.iter().cloned());
            text.extend(tables);
        }
        let begin = text.len();
        text.extend(super::bounds::lines(&done));
        text.extend(notes::lines(&done));
        text.extend(rounds(&done));
        text.extend(
            pairs(experiment, &done).into_iter().flat_map(|pairs| fitted(&pairs.heads, &pairs.rows, width)),
        );
        shown.extend(text[begin..].iter().cloned());
        let told = words::below(experiment, &shown.join("\n"));
        text.extend(told.into_iter().map(str::to_owned));
    }
    if text.is_empty() {
        return "no experiment came to its end".to_owned();
    }
    text.join("\n")
}

/// The runs by what the experiment is with their parameters, where its words name some: a table has those of one kind.
pub(super) fn by_conditions<'a>(experiment: &Experiment, done: &[&'a Done]) -> Vec<(String, Vec<&'a Done>)> {
    let mut groups: Vec<(String, Vec<&Done>)> = Vec::new();
    let about = |d: &Done| d.plan.filled(experiment.about);
    for run in done {
        // A run and that of its variant as it is stand together.
        let is_pair = |d: &&&Done| d.plan.name == run.plan.name;
        let mut abouts: Vec<_> = done.iter().filter(is_pair).map(|d| about(d)).collect();
        abouts.dedup();
        let about = in_one(&abouts);
        match groups.iter_mut().find(|(known, _)| *known == about) {
            Some((_, group)) => group.push(run),
            None => groups.push((about, vec![run])),
        }
    }
    groups
}

/// What the groups are, in one sentence: of all but the first what differs.
pub(super) fn in_one(abouts: &[String]) -> String {
    let Some((first, others)) = abouts.split_first() else { return String::new() };
    let other = |about: &String| format!("; or {}", differing(about, first));
    first.clone() + &others.iter().map(other).collect::<String>()
}

/// What of a sentence is not as in another: from the first word that differs up to the part of the sentence behind which all is the same.
pub(super) fn differing<'a>(about: &'a str, from: &str) -> &'a str {
    let same = about.chars().zip(from.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum();
    let word = about[..same].rfind(' ').map_or(0, |at| at + 1);
    let (rest, other) = (&about[word..], from.get(word..).unwrap_or_default());
    let tails = rest.match_indices(", ").map(|(at, _)| at).filter(|at| *at > 0);
    let end = tails.into_iter().find(|at| other.ends_with(&rest[*at..])).unwrap_or(rest.len());
    &rest[..end]
}

/// Columns of the terminal, or what COLUMNS says; `None` where nothing bounds a table.
pub(super) fn width() -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    said.or_else(|| Table::new().width().map(usize::from)).filter(|width| *width > 0)
}

/// A table, or several below each other where it is wider than `width`, each with the first column.
fn fitted(head: &[String], rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
    let lines = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let wide = |i: usize| {
        rows.iter().filter_map(|row| row.get(i)).chain([&head[i]]).map(|t| lines(t)).max().unwrap_or(0) + 3
    };
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut room = 0;
    for i in 1..head.len() {
        if parts.is_empty() || wide(i) > room {
            parts.push(vec![0]);
            room = width.map_or(usize::MAX, |width| width.saturating_sub(wide(0) + 1));
        }
        room = room.saturating_sub(wide(i));
        if let Some(part) = parts.last_mut() {
            part.push(i);
        }
    }
    let table = |part: &Vec<usize>| {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
        table.set_header(part.iter().map(|i| &head[*i]));
        let pick =
            |row: &Vec<String>| part.iter().map(|i| row.get(*i).cloned().unwrap_or_default()).collect();
        table.add_rows(rows.iter().map(|row| aligned(pick(row), 1)));
        table.to_string()
    };
    parts.iter().map(table).collect()
}

fn runs(experiment: &Experiment, done: &[&Done], width: Option<usize>) -> Vec<String> {
    let heads = experiment.columns.iter().map(|column| column.head);
    let head: Vec<_> =
        [experiment.name].into_iter().chain(heads).chain(["wall s"]).map(str::to_owned).collect();
    let row = |d: &&Done| {
        let label =
            d.label().replace(" (", "\n(").replace(" with ", "\nwith ").replace(" as it is", "\nas it is");
        let mut row = vec![label.replace(", ", "\n")];
        let before = compare::before(done, d);
        match &d.figures {
            Some(figures) => row.extend(experiment.columns.iter().map(|column| {
                let cut = if figures.complete || column.figure != "elapsed_s" { "" } else { " (cut)" };
                let told = told(d, before, column);
                let below = told.below().into_iter().map(|line| format!("\n{line}"));
                format!("{}{cut}{}", told.ours, below.collect::<String>())
            })),
            None => row.push("broke a promise".to_owned()),
        }
        row.resize(experiment.columns.len() + 1, String::new());
        row.push(format!("{:.2}", d.wall_s));
        row
    };
    fitted(&head, &done.iter().map(row).collect::<Vec<_>>(), width)
}

/// A cell: what was measured here and by others, in the column's unit.
pub(super) struct Told {
    /// Here; empty where it was not.
    pub(super) ours: String,
    /// What became of it by `--set`.
    change: Option<String>,
    /// The least and the most of several runs, where they differ.
    spread: Option<String>,
    /// By whom, and what.
    others: Vec<(&'static str, String)>,
}

impl Told {
    /// What stands below the figure.
    pub(super) fn below(&self) -> Vec<String> {
        let others = self.others.iter().map(|(who, value)| format!("{who} {value}"));
        self.change.iter().chain(&self.spread).cloned().chain(others).collect()
    }
}

/// A figure of a run beside those of the same variant, and of it as it is.
pub(super) fn told(d: &Done, before: Option<&Done>, column: &Column) -> Told {
    let text = |value: f64| short(value / column.unit);
    let ours = d.figures.as_ref().and_then(|figures| match figures.get(column.figure) {
        // Nothing came that it could have been measured by.
        None if figures.lacks(column.figure) => Some("-".to_owned()),
        value => value.map(text),
    });
    let then = d
        .plan
        .beside()
        .into_iter()
        .filter_map(|(who, figures)| Some((who, text(of(figures, column.figure)?))));
    let now = d.plan.linux_now.iter().find(|(name, _)| name == column.figure);
    let others = then.chain(now.map(|(_, value)| ("Linux now", text(*value)))).collect();
    let spread = d.spread.iter().find(|s| s.figure == column.figure);
    let spread = spread.and_then(|s| spread_text(s, &text(s.least), &text(s.most), d.runs));
    let value = |d: &Done| d.figures.as_ref()?.get(column.figure);
    let change = before.and_then(|before| Some(compare::change(value(before)?, value(d)?)));
    Told { ours: ours.unwrap_or_default(), change, spread, others }
}

/// The least and the most where they differ, and in how many runs it was measured where that was not in all.
fn spread_text(spread: &Spread, least: &str, most: &str, runs: usize) -> Option<String> {
    let part = (spread.runs < runs).then(|| format!("in {} of {runs}", spread.runs));
    let range = (least != most).then(|| format!("{least} to {most}"));
    let all: Vec<_> = range.into_iter().chain(part).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

/// Packets of data by round trip, where they were counted.
fn rounds(done: &[&Done]) -> Vec<String> {
    let counted =
        done.iter().filter_map(|d| Some((d, d.figures.as_ref()?))).filter(|(_, f)| !f.rounds.is_empty());
    let lines = counted.map(|(d, figures)| {
        let rounds = figures.rounds.iter().map(|(packets, segs)| {
            let each = f64::from(*segs) / f64::from((*packets).max(1));
            format!(
                "{packets} x {}",
                if each.fract() == 0.0 { format!("{each}") } else { format!("{each:.1}") }
            )
        });
        format!(
            "packets x segments by round trip, {}: {}",
            d.plan.called(),
            rounds.collect::<Vec<_>>().join(", ")
        )
    });
    lines.collect()
}

/// The table of before and after: what is compared, then ours, the commit's and Linux's, as far as somebody measured.
pub(super) struct Pairs {
    /// The heads of its columns.
    pub(super) heads: Vec<String>,
    /// Its rows, a cell empty where nobody measured.
    pub(super) rows: Vec<Vec<String>>,
}

/// Before and after of the runs that are there; `None` where there are no two to compare.
pub(super) fn pairs(experiment: &Experiment, done: &[&Done]) -> Option<Pairs> {
    let both = |pair| [false, true].into_iter().filter_map(move |changed| pair_row(pair, done, changed));
    let mut rows: Vec<_> = experiment.pairs.iter().flat_map(both).collect();
    rows.dedup();
    let [linux, _, commit] = done.first()?.plan.beside().map(|(who, _)| who);
    let heads = ["", commit, linux].into_iter().flat_map(|who| ["before", "after"].map(|when| (who, when)));
    let heads =
        heads.map(|(who, when)| if who.is_empty() { when.to_owned() } else { format!("{who}\n{when}") });
    let mut heads: Vec<_> = ["before and after".to_owned()].into_iter().chain(heads).collect();
    let is_known: Vec<_> = (0..heads.len()).map(|i| rows.iter().any(|row| !row[i].is_empty())).collect();
    for row in rows.iter_mut().chain([&mut heads]) {
        let mut known = is_known.iter();
        row.retain(|_| known.next() == Some(&true));
    }
    (!rows.is_empty()).then_some(Pairs { heads, rows })
}

/// Two variants, both as they are or as far as that is so both changed by `--set`.
fn pair_row(pair: &Pair, done: &[&Done], changed: bool) -> Option<Vec<String>> {
    let (figure, unit) = pair.figure;
    let fits = |d: &Done| match d.plan.role {
        Role::Alone => true,
        Role::AsItIs => !changed,
        Role::Changed(_) => changed,
    };
    let ran = |variant: &str| done.iter().find(|d| d.plan.variant.name == variant && fits(d));
    let ours = |d: &Done| Some(short(d.figures.as_ref()?.get(figure)? / unit));
    let (before, after) = (ran(pair.before)?, ran(pair.after)?);
    let told = |(_, figures)| of(figures, figure).map_or_else(String::new, |value| short(value / unit));
    let ([linux_before, _, seed_before], [linux_after, _, seed_after]) =
        (before.plan.beside().map(told), after.plan.beside().map(told));
    let with = |d: &Done| match d.plan.role {
        Role::Alone => String::new(),
        Role::AsItIs | Role::Changed(_) => d.plan.label().split_off(d.plan.name.len()),
    };
    // A variant in which the setting changes nothing runs once, and stands in both rows.
    let (of_before, of_after) = (with(before), with(after));
    let of_before = if of_before == of_after { "" } else { &*of_before };
    let what =
        format!("{}\n{}{of_before} -> {}{of_after}", after.plan.filled(pair.what), pair.before, pair.after);
    Some(vec![what, ours(before)?, ours(after)?, seed_before, seed_after, linux_before, linux_after])
}

fn of(figures: Measured, name: &str) -> Option<f64> {
    figures.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
}

fn aligned(row: Vec<String>, left: usize) -> Vec<Cell> {
    let align = |i| if i < left { CellAlignment::Left } else { CellAlignment::Right };
    row.into_iter().enumerate().map(|(i, text)| Cell::new(text).set_alignment(align(i))).collect()
}

/// Three or four digits of a number, all of a large one.
pub(super) fn short(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 || v.fract() == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::{Done, all, by_conditions, fitted, in_one, pairs, short};
    use crate::args::LabOptions;
    use crate::lab::catalog::EXPERIMENTS;
    use crate::lab::compare::{beside, mark};
    use crate::lab::runs::Given;
    use lowwater_sim::scenario::Figures;

    /// The command line of a run with these words of `--set`.
    fn options(set: Vec<(String, String)>) -> LabOptions {
        LabOptions { set, ..LabOptions::default() }
    }

    /// A table of tso-autosize with these words of `--set`, and what that made of its runs.
    fn table(set: &[(&str, &str)]) -> (String, Given) {
        let set = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let options = options(set);
        let experiment = EXPERIMENTS.iter().find(|e| e.name == "tso-autosize").expect("it is there");
        let plans = experiment.plan(experiment.variants.iter(), &options, false).expect("a plan");
        let given = plans[0].given;
        let ran = |mut plan: crate::lab::runs::Plan| {
            plan.linux_now = vec![("ip_out_requests".to_owned(), 180.0)];
            let mut figures = Figures::default();
            figures.put("ip_out_requests", 176.0);
            Done { plan, figures: Some(figures), broken: None, runs: 1, spread: Vec::new(), wall_s: 0.0 }
        };
        (all(&plans.into_iter().map(ran).collect::<Vec<_>>(), None), given)
    }

    #[test]
    fn what_linux_did_not_run_does_not_stand_beside_it() {
        let (usual, given) = table(&[]);
        assert!(
            given == Given::Nothing && usual.contains("Linux now 180") && usual.contains("Linux 176"),
            "{usual}"
        );
        let (other, given) = table(&[("rtt_ms", "200"), ("tcp_sack", "0")]);
        // What was measured beside it is of the same.
        assert!(
            given == Given::More && !other.contains("Linux 1") && other.contains("Linux now 180"),
            "{other}"
        );
        assert!(!other.contains("not compared: ") && !other.contains("commit 2"), "{other}");
    }

    #[test]
    fn rows_of_before_and_after_say_which_run_the_setting_changed() {
        let experiment = EXPERIMENTS.iter().find(|e| e.name == "notsent-lowat").expect("it is there");
        let options = options(vec![("tcp_notsent_lowat".to_owned(), "16384".to_owned())]);
        let two = || experiment.variants.iter().filter(|v| ["cubic-unset", "cubic-262144"].contains(&v.name));
        let mut plans = experiment.plan(two(), &options, false).expect("a plan");
        mark(&mut plans, &options, false);
        let ran = |plan| {
            let mut figures = Figures::default();
            figures.put("queued_bytes_per_flow", 1_024_000.0);
            Done { plan, figures: Some(figures), broken: None, runs: 1, spread: Vec::new(), wall_s: 0.0 }
        };
        let done: Vec<_> = beside(plans, &options, false).into_iter().map(ran).collect();
        let rows = pairs(experiment, &done.iter().collect::<Vec<_>>()).expect("pairs").rows;
        let mut names: Vec<_> = rows.iter().map(|row| row[0].as_str()).collect();
        assert!(
            names.len() > 1 && names.iter().any(|name| name.contains("tcp_notsent_lowat=16384")),
            "{names:?}"
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rows.len(), "{names:?}");
    }

    #[test]
    fn figures_of_a_run_of_other_times_are_left_out_and_so_is_nobodys_column() {
        let experiment = EXPERIMENTS.iter().find(|e| e.name == "notsent-lowat").expect("it is there");
        let options = options(Vec::new());
        let table = |short: bool| {
            let quick = experiment.variants.iter().filter(|v| v.quick);
            let plans = experiment.plan(quick, &options, short).expect("a plan");
            let ran = |plan: crate::lab::runs::Plan| {
                let mut figures = Figures::default();
                figures.put("queued_bytes_per_flow", 1_024_000.0);
                Done { plan, figures: Some(figures), broken: None, runs: 1, spread: Vec::new(), wall_s: 0.0 }
            };
            all(&plans.into_iter().map(ran).collect::<Vec<_>>(), None)
        };
        let (full, shortened) = (table(false), table(true));
        assert!(full.contains("Linux 6563") && !full.contains("full"), "{full}");
        let where_from = "not compared: Linux's figures are of a run with another warm-up and measured time";
        assert!(shortened.contains(where_from) && !shortened.contains("6563"), "{shortened}");
        let heads = |text: &str| {
            text.lines().skip_while(|l| !l.contains("before and after")).take(1).collect::<String>()
        };
        assert!(heads(&full).contains("Linux") && !heads(&full).contains("commit"), "{full}");
        assert!(!heads(&shortened).contains("Linux"), "{shortened}");
    }

    /// Rows stand under the line that they had.
    #[test]
    fn runs_under_other_conditions_have_a_heading_of_their_own() {
        let experiment = EXPERIMENTS.iter().find(|e| e.name == "notsent-lowat").expect("it is there");
        let wanted = ["cubic-unset", "seed-unset", "bbr-unset"];
        let variants = experiment.variants.iter().filter(|v| wanted.contains(&v.name));
        let ran = |plan: crate::lab::runs::Plan| {
            let mut figures = Figures::default();
            figures.put("queued_bytes_per_flow", 1_024_000.0);
            Done { plan, figures: Some(figures), broken: None, runs: 1, spread: Vec::new(), wall_s: 0.0 }
        };
        let set = vec![("flows".to_owned(), "3".to_owned())];
        let plans = experiment.plan(variants, &options(set), false).expect("a plan");
        let mut done: Vec<Done> = plans.into_iter().map(ran).collect();
        // In whatever order they end.
        done.swap(1, 2);
        let text = all(&done, None);
        let (slow, fast) = text.split_once("10 Gbit/s and 100 ms\n").expect("a heading");
        let stand = |text: &str| wanted.map(|name| text.contains(&format!("│ {name}")));
        assert_eq!((stand(slow), stand(fast)), ([true, false, true], [false, true, false]), "{text}");
        assert!(
            slow.starts_with("notsent-lowat: ") && slow.contains("200 Mbit/s and 100 ms\nchanged by"),
            "{text}"
        );
        let abouts: Vec<String> = by_conditions(experiment, &done.iter().collect::<Vec<_>>())
            .into_iter()
            .map(|(about, _)| about)
            .collect();
        assert!(
            in_one(&abouts).ends_with("LOWAT, 200 Mbit/s and 100 ms; or 10 Gbit/s and 100 ms"),
            "{abouts:?}"
        );
        assert_eq!(in_one(&abouts[..1]), abouts[0]);
    }

    #[test]
    fn a_table_wider_than_the_terminal_becomes_several() {
        let texts = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let head = texts(&["name", "one\ntwo", "three", "four", "five"]);
        let rows = [texts(&["cubic-unset", "1", "2\nLinux still 3", "4", "5"])];
        let whole = fitted(&head, &rows, None);
        assert_eq!((whole.len(), fitted(&head, &rows, Some(200))), (1, whole));
        let parts = fitted(&head, &rows, Some(40));
        assert!(parts.len() > 1 && parts.iter().all(|part| part.contains("cubic-unset")), "{parts:?}");
        let lines: Vec<_> = parts.iter().flat_map(|part| part.lines()).collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 40), "{parts:?}");
        assert!(
            ["two", "three", "four", "five"]
                .iter()
                .all(|h| lines.iter().filter(|l| l.contains(h)).count() == 1)
        );
        // Where not even one column fits there is one in each.
        assert_eq!(fitted(&head, &rows, Some(3)).len(), 4);
    }

    #[test]
    fn numbers_have_as_many_digits_as_they_mean() {
        let cases = [
            (5.0, "5"),
            (1_384.0, "1384"),
            (182.44, "182"),
            (14.12, "14.1"),
            (5.04, "5.04"),
            (0.3221, "0.322"),
        ];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
    }
}
