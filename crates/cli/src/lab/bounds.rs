//! Figures out of the bounds that must hold beside Linux's.
use super::catalog::{Bound, Shown};
use super::runs::{Done, Given};
use core::fmt;
use serde_json::{Value, json};

/// A figure out of its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OutOfBounds {
    shown: &'static Shown,
    value: f64,
    linux: f64,
    /// Linux's by a still clock, where that is known and did not judge.
    still: Option<f64>,
}

impl OutOfBounds {
    /// As JSON has it: how little and how much would have been within them, `null` where there is no such limit.
    pub(super) fn json(&self) -> Value {
        let Self { shown, value, linux, still } = self;
        let (least, most) = shown.bound.limits(*linux);
        json!({"figure": shown.figure, "value": value, "linux": linux, "linux_still": still, "at_least": least, "at_most": most})
    }
}

impl fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shown, value, linux, still } = self;
        let text = |value: &f64| figure_text(shown.figure, *value);
        write!(f, "{} {} where Linux has {} and {}", shown.figure, text(value), text(linux), shown.bound)?;
        match still {
            Some(still) => write!(f, "; by a still clock Linux has {}", text(still)),
            None => Ok(()),
        }
    }
}

/// A figure's value; bytes are whole.
fn figure_text(figure: &str, value: f64) -> String {
    if figure.contains("bytes") {
        return format!("{value:.0}");
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(times) => write!(f, "at most {times} times as much is to be shown"),
            Self::AtLeast(times) => write!(f, "at least {times} times as much is to be shown"),
            Self::Near(part) => write!(f, "{} % more or less is to be shown", part * 100.0),
        }
    }
}

impl Bound {
    /// What is asked for, beside Linux's.
    fn words(self) -> String {
        match self {
            Self::AtMost(1.0) => "at most Linux's".to_owned(),
            Self::AtMost(times) => format!("at most {times} times Linux's"),
            Self::AtLeast(times) => format!("at least {times} times Linux's"),
            Self::Near(part) => format!("within {} % of Linux's", part * 100.0),
        }
    }

    /// The least and the most that hold beside what Linux has.
    fn limits(self, linux: f64) -> (Option<f64>, Option<f64>) {
        match self {
            Self::AtMost(times) => (None, Some(linux * times)),
            Self::AtLeast(times) => (Some(linux * times), None),
            Self::Near(part) => (Some(linux * (1.0 - part)), Some(linux * (1.0 + part))),
        }
    }

    fn holds(self, value: f64, linux: f64) -> bool {
        match self {
            Self::AtMost(times) => value <= linux * times,
            Self::AtLeast(times) => value >= linux * times,
            Self::Near(part) => (value - linux).abs() <= linux * part,
        }
    }
}

/// Least part of our goodput that this run's Linux must have brought to be compared: in queues that it cannot fill nothing stands.
const KEEPS_UP: f64 = 0.9;

/// What Linux in user mode brought in Mbit/s, and we, where that was too little.
fn behind(done: &Done) -> Option<(f64, f64)> {
    const NAME: &str = "goodput_mbps";
    let (_, linux) = done.plan.linux_now.iter().find(|(name, _)| name == NAME)?;
    let ours = done.figures.as_ref()?.get(NAME)?;
    (*linux < KEEPS_UP * ours).then_some((*linux, ours))
}

/// The figures of a run that have a bound beside Linux, which measured them too.
fn compared(done: &Done) -> Vec<OutOfBounds> {
    if behind(done).is_some() {
        return Vec::new();
    }
    let of = |shown: &'static Shown| {
        let value = done.figures.as_ref()?.get(shown.figure)?;
        let plan = &done.plan;
        let still =
            plan.variant.still.iter().find(|(name, _)| *name == shown.figure).map(|(_, value)| *value);
        let still = still.filter(|_| plan.linux_now.is_empty());
        Some(OutOfBounds { shown, value, linux: plan.linux(shown.figure)?, still })
    };
    done.plan.experiment.shows.iter().filter_map(of).collect()
}

/// What of a run is out of bounds; `None` where nothing of it can be compared.
pub(super) fn out_of_bounds(done: &Done) -> Option<Vec<OutOfBounds>> {
    let mut all = compared(done);
    let any = !all.is_empty();
    all.retain(|out| !out.shown.bound.holds(out.value, out.linux));
    any.then_some(all)
}

/// The lines below a table: what is out of bounds, and where nothing is, how much was compared; and what was not, since
/// this run's Linux was too slow, or ran something else.
pub(super) fn lines(done: &[&Done]) -> Option<String> {
    let slow = done.iter().filter_map(|d| behind(d).map(|(linux, ours)| (d.plan.called(), linux, ours)));
    let slow = slow.map(|(name, linux, ours)| {
        format!("not compared: {name}: Linux brought {linux:.0} Mbit/s of our {ours:.0} in user mode")
    });
    let all: Vec<_> =
        verdicts(done).into_iter().chain(slow).chain(others(done)).chain(aborted(done)).collect();
    (!all.is_empty()).then(|| all.join("\n"))
}

/// Runs that Linux's figures in the catalog would be of, had nobody made them others.
fn others(done: &[&Done]) -> Vec<String> {
    let known = done.iter().filter(|d| !d.plan.variant.linux.is_empty());
    let names = |given: Given| {
        let made = known.clone().filter(|d| d.plan.given == given && d.plan.linux_now.is_empty());
        made.map(|d| d.plan.called()).collect::<Vec<_>>().join(", ")
    };
    let mut lines = Vec::new();
    let (another, shorter) = (names(Given::More), names(Given::Times));
    if !another.is_empty() {
        lines.push(format!("not compared: {another}: Linux was measured without this --set"));
    }
    if !shorter.is_empty() && done.iter().any(|d| !d.plan.experiment.shows.is_empty()) {
        let name = done[0].plan.experiment.name;
        lines.push(format!(
            "not compared: Linux's figures (\"full\") are of a run with another warm-up and measured time: lowwater lab run {name}"
        ));
    }
    lines
}

/// Flows that ended within a run, as Linux's would.
fn aborted(done: &[&Done]) -> Vec<String> {
    let of = |d: &&Done| {
        let flows = d.figures.as_ref()?.get("aborted_flows").filter(|flows| *flows > 0.0)?;
        Some(format!(
            "aborted: {}: {flows} flows ended with ETIMEDOUT, since nothing of them was acknowledged for too long, as Linux ends them \
             (TCPAbortOnTimeout)",
            d.plan.called()
        ))
    };
    done.iter().filter_map(of).collect()
}

fn verdicts(done: &[&Done]) -> Option<String> {
    let count: usize = done.iter().map(|d| compared(d).len()).sum();
    let told = |d: &&Done| {
        let all = out_of_bounds(d).unwrap_or_default().into_iter();
        all.map(|out| format!("out of bounds: {}: {out}", d.plan.called())).collect::<Vec<_>>()
    };
    let lines: Vec<_> = done.iter().flat_map(told).collect();
    match lines.is_empty() {
        _ if count == 0 => None,
        true => Some(format!("out of bounds beside Linux: none of {count} figures ({})", bounds(done))),
        false => Some(lines.join("\n")),
    }
}

/// The bounds of what was compared, each with its figures: one of a single side says so, since what is far from Linux's on the other side is
/// within it.
fn bounds(done: &[&Done]) -> String {
    let mut all: Vec<(Bound, Vec<&str>)> = Vec::new();
    for OutOfBounds { shown, .. } in done.iter().flat_map(|d| compared(d)) {
        match all.iter_mut().find(|(bound, _)| *bound == shown.bound) {
            Some((_, figures)) if figures.contains(&shown.figure) => {}
            Some((_, figures)) => figures.push(shown.figure),
            None => all.push((shown.bound, vec![shown.figure])),
        }
    }
    let told = |(bound, figures): &(Bound, Vec<&str>)| format!("{} {}", figures.join(", "), bound.words());
    all.iter().map(told).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::catalog::EXPERIMENTS;
    use crate::lab::compare::Role;
    use crate::lab::runs::{Given, Plan};
    use lowwater_sim::scenario::Figures;
    use std::sync::Arc;

    fn ran(named: &[(&'static str, f64)], linux_now: &[(&str, f64)]) -> Done {
        let experiment = EXPERIMENTS.iter().find(|e| e.name == "tso-autosize").expect("it is there");
        let plan = Plan {
            experiment,
            variant: &experiment.variants[0],
            name: "default".to_owned(),
            seed: 1,
            scenario: (experiment.make)(),
            given: Given::Nothing,
            replaced: Vec::new(),
            asked: Arc::default(),
            linux_now: linux_now.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            linux_failed: None,
            role: Role::Alone,
        };
        let mut figures = Figures::default();
        named.iter().for_each(|(name, value)| figures.put(name, *value));
        Done { plan, figures: Some(figures), broken: None, runs: 1, spread: Vec::new(), wall_s: 0.0 }
    }

    #[test]
    fn a_figure_too_far_from_linux_is_named() {
        // Linux 6.1 has 176, and a tenth more or less may be.
        assert_eq!(out_of_bounds(&ran(&[("ip_out_requests", 190.0)], &[])), Some(vec![]));
        let far = ran(&[("ip_out_requests", 194.0)], &[]);
        let told = |done: &Done| {
            out_of_bounds(done).map(|all| all.iter().map(OutOfBounds::json).collect::<Vec<_>>())
        };
        let all = told(&far).expect("it is compared");
        let limit = |name: &str| all[0][name].as_f64().map(|limit| (limit * 10.0).round() / 10.0);
        assert_eq!((all.len(), &all[0]["figure"]), (1, &json!("ip_out_requests")));
        assert_eq!((&all[0]["value"], &all[0]["linux"]), (&json!(194.0), &json!(176.0)));
        assert_eq!((limit("at_least"), limit("at_most")), (Some(158.4), Some(193.6)));
        let near = told;
        let told = lines(&[&far]).expect("bounds");
        assert!(told.contains("default") && told.contains("194") && told.contains("176"), "{told}");
        assert_eq!(near(&ran(&[("ip_out_requests", 194.0)], &[("ip_out_requests", 180.0)])), Some(vec![]));
    }

    #[test]
    fn bytes_are_whole_and_no_digit_says_nothing() {
        let of = |figure: &str, value: f64| figure_text(figure, value);
        assert_eq!(of("queued_bytes_per_flow", 741_376.4), "741376");
        assert_eq!(
            (of("writable_events_per_mb", 5.160_4), of("goodput_mbps", 182.0)),
            ("5.16".into(), "182".into())
        );
        assert_eq!(
            (of("probe_rtt_ms_mean", 0.0), of("ip_out_requests", 1_000.0)),
            ("0".into(), "1000".into())
        );
    }

    #[test]
    fn a_kernel_that_cannot_fill_the_line_is_not_compared() {
        let beside = |mbps| {
            let ours = [("ip_out_requests", 1_000.0), ("goodput_mbps", 950.0)];
            let done = ran(&ours, &[("ip_out_requests", 180.0), ("goodput_mbps", mbps)]);
            (out_of_bounds(&done).map(|all| all.len()), lines(&[&done]).expect("something is said"))
        };
        assert_eq!(beside(940.0).0, Some(1));
        let (none, told) = beside(480.0);
        assert!(none.is_none() && told.starts_with("not compared: default: Linux brought 480"), "{told}");
    }

    #[test]
    fn what_linux_did_not_run_is_not_compared() {
        let far = |given, now: &[(&str, f64)]| {
            let mut done = ran(&[("ip_out_requests", 1_000.0)], now);
            done.plan.given = given;
            let told = lines(&[&done]).expect("a line");
            (out_of_bounds(&done).map(|all| all.len()), told.split(':').next().map(str::to_owned))
        };
        let now = [("ip_out_requests", 180.0)];
        let (is_out, is_not) =
            ((Some(1), Some("out of bounds".to_owned())), (None, Some("not compared".to_owned())));
        assert_eq!((far(Given::Nothing, &[]), far(Given::Times, &now)), (is_out.clone(), is_out.clone()));
        // Linux beside it ran the same.
        assert_eq!(far(Given::More, &now), is_out);
        assert_eq!((far(Given::Times, &[]), far(Given::More, &[])), (is_not.clone(), is_not));
        let of = |keys: &[&'static str]| Given::of(keys.iter().copied());
        assert_eq!((of(&[]), of(&["warmup_s"])), (Given::Nothing, Given::Times));
        assert_eq!(of(&["warmup_s", "tcp_sack"]), Given::More);
        // Nothing was compared where there is no figure.
        let mut broken = ran(&[], &[]);
        assert_eq!((out_of_bounds(&broken), lines(&[&broken])), (None, None));
        broken.figures = None;
        assert_eq!((out_of_bounds(&broken), lines(&[&broken])), (None, None));
        let given_up = lines(&[&ran(&[("aborted_flows", 29.0)], &[])]).expect("a line");
        assert!(given_up.starts_with("aborted: default: 29 flows ended with ETIMEDOUT"), "{given_up}");
        let fine = lines(&[&ran(&[("ip_out_requests", 176.0)], &[])]);
        assert_eq!(
            fine.as_deref(),
            Some("out of bounds beside Linux: none of 1 figures (ip_out_requests within 10 % of Linux's)")
        );
    }

    #[test]
    fn where_nothing_is_out_of_bounds_each_bound_says_its_side() {
        let runs = ran(&[], &[]);
        let linux = |name| runs.plan.linux(name).expect("it is known");
        let named = ["ip_out_requests", "tcp_out_segs", "elapsed_s"].map(|name| (name, linux(name)));
        let as_linux = ran(&named, &[]);
        assert_eq!(
            lines(&[&as_linux, &as_linux]).as_deref(),
            Some(
                "out of bounds beside Linux: none of 6 figures (ip_out_requests within 10 % of Linux's; \
                 tcp_out_segs within 1 % of Linux's; elapsed_s at most 1.02 times Linux's)"
            )
        );
        let words = [Bound::AtMost(1.0), Bound::AtLeast(0.98)].map(Bound::words);
        assert_eq!(words, ["at most Linux's", "at least 0.98 times Linux's"]);
    }

    #[test]
    fn bounds_have_their_sides() {
        assert_eq!(
            (Bound::AtMost(2.0).limits(5.0), Bound::AtLeast(2.0).limits(5.0)),
            ((None, Some(10.0)), (Some(10.0), None))
        );
        assert!(Bound::AtMost(1.1).holds(110.0, 100.0) && !Bound::AtMost(1.1).holds(111.0, 100.0));
        assert!(Bound::AtLeast(0.98).holds(98.0, 100.0) && !Bound::AtLeast(0.98).holds(97.0, 100.0));
        assert!(Bound::Near(0.1).holds(91.0, 100.0) && !Bound::Near(0.1).holds(89.0, 100.0));
    }

    #[test]
    fn what_is_bounded_is_measured_by_linux_too() {
        for e in EXPERIMENTS {
            for shown in e.shows {
                let known = e.variants.iter().any(|v| v.linux.iter().any(|(name, _)| *name == shown.figure));
                assert!(known, "{} {}", e.name, shown.figure);
            }
        }
    }
}
