//! Figures out of the bounds that must hold beside Linux's.
use super::catalog::{Bound, Column, Shown};
use super::runs::{Done, Given};
use core::fmt;
use serde_json::{Value, json};

/// A figure out of its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OutOfBounds {
    shown: &'static Shown,
    /// Where the tables have it, whose words and unit sentences take.
    column: Option<&'static Column>,
    value: f64,
    linux: f64,
    clock: Clock,
    /// Linux's by a still clock, where that is known and did not judge.
    still: Option<f64>,
}

/// By what clock the guest ran whose figure judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    /// The host's: what kept its one processor from the guest is in the figure.
    Host,
    /// One that stands still while the guest works: the figure is what Linux decides.
    Still,
}

impl OutOfBounds {
    /// As JSON has it: how little and how much would have been within them, `null` where there is no such limit; the same
    /// beside Linux by a still clock, where that is known and did not judge; and what there is to say about Linux's figure.
    pub(super) fn json(&self) -> Value {
        let Self { shown, value, linux, still, .. } = *self;
        let (least, most) = shown.bound.limits(linux);
        let by_still = still.map(|linux| {
            let (least, most) = shown.bound.limits(linux);
            json!({"linux": linux, "at_least": least, "at_most": most, "holds": shown.bound.holds(value, linux)})
        });
        json!({
            "figure": shown.figure, "value": value, "linux": linux, "linux_still": still, "at_least": least, "at_most": most,
            "by_still_clock": by_still, "about_linux": self.about_linux(),
        })
    }

    fn is_out(&self) -> bool {
        !self.shown.bound.holds(self.value, self.linux)
    }

    /// Beside the figure of a machine that other work disturbed it is out, beside the undisturbed one it is not.
    fn is_only_by_the_hosts_clock(&self) -> bool {
        self.still.is_some_and(|still| self.shown.bound.holds(self.value, still))
    }

    /// What the tables call it.
    fn name(&self) -> String {
        self.column.map_or_else(|| self.shown.figure.to_owned(), Column::title)
    }

    /// A value in the unit of the tables; bytes are whole.
    fn text(&self, value: f64) -> String {
        let unit = self.column.map_or(1.0, |column| column.unit);
        if unit == 1.0 && self.shown.figure.contains("bytes") {
            return format!("{value:.0}");
        }
        let text = format!("{:.3}", value / unit);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    /// The limits beside a figure of Linux's.
    fn asked(&self, linux: f64) -> String {
        match self.shown.bound.limits(linux) {
            (None, Some(most)) => format!("at most {}", self.text(most)),
            (Some(least), None) => format!("at least {}", self.text(least)),
            (least, most) => {
                let [least, most] = [least, most].map(|limit| self.text(limit.unwrap_or(linux)));
                format!("{least} to {most}")
            }
        }
    }

    /// Whether the machine that Linux ran on may be what the difference shows; nothing where it is not.
    fn about_linux(&self) -> Option<String> {
        let still = match (self.clock, self.still) {
            (Clock::Still, _) => return None,
            (Clock::Host, None) => {
                return Some(
                    "Linux was measured by the host's clock, not by a still one: what its machine adds to the figure is not known"
                        .to_owned(),
                );
            }
            (Clock::Host, Some(still)) => still,
        };
        let (asked, has) = (self.asked(still), self.text(still));
        Some(match self.is_only_by_the_hosts_clock() {
            true => format!(
                "by a still clock, which no machine disturbs, Linux has {has}, and ours is within the same bound of it ({asked})"
            ),
            false => format!("so it is beside Linux by a still clock ({has}: {asked})"),
        })
    }
}

impl fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shown, value, linux, .. } = *self;
        let (name, value, has) = (self.name(), self.text(value), self.text(linux));
        write!(f, "{name} {value}; asked for: {} ({} {has})", self.asked(linux), shown.bound.words())?;
        self.about_linux().map_or(Ok(()), |about| write!(f, "; {about}"))
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
        let is_now = plan.linux_now.iter().any(|(name, _)| name == shown.figure);
        let mut still = plan.variant.still.iter().filter(|(name, _)| *name == shown.figure && !is_now);
        let still = still.next().map(|(_, value)| *value);
        let column = plan.experiment.columns.iter().find(|column| column.figure == shown.figure);
        let clock = if is_now && plan.linux_now_still { Clock::Still } else { Clock::Host };
        Some(OutOfBounds { shown, column, value, linux: plan.linux(shown.figure)?, clock, still })
    };
    done.plan.experiment.shows.iter().filter_map(of).collect()
}

/// What of a run is out of bounds; `None` where nothing of it can be compared.
pub(super) fn out_of_bounds(done: &Done) -> Option<Vec<OutOfBounds>> {
    let mut all = compared(done);
    let any = !all.is_empty();
    all.retain(OutOfBounds::is_out);
    any.then_some(all)
}

/// Why a run stands without Linux's figures, though there are some, by whichever clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum NotCompared {
    /// The kernel beside it did not keep up: what it brought in Mbit/s, and we.
    Slow(f64, f64),
    /// `--set` made it another run.
    Another,
    /// It takes another time.
    Shorter,
}

impl NotCompared {
    /// The one answer, for the lines below tables and for JSON.
    pub(super) fn of(done: &Done) -> Option<Self> {
        if let Some((linux, ours)) = behind(done) {
            return Some(Self::Slow(linux, ours));
        }
        let (plan, variant) = (&done.plan, done.plan.variant);
        let is_known = !(variant.linux.is_empty() && variant.still.is_empty()) && plan.linux_now.is_empty();
        match plan.given {
            Given::More if is_known => Some(Self::Another),
            Given::Times if is_known => Some(Self::Shorter),
            _ => None,
        }
    }
}

impl fmt::Display for NotCompared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slow(linux, ours) => write!(
                f,
                "Linux brought {linux:.0} Mbit/s of our {ours:.0} in user mode, and before a line that is not full there is no queue to compare"
            ),
            Self::Another => write!(f, "Linux was measured without this --set"),
            Self::Shorter => {
                write!(f, "Linux's figures are of a run with another warm-up and measured time")
            }
        }
    }
}

/// The lines below a table: what is out of bounds, and where nothing is, how much was compared; and what was not, since
/// this run's Linux was too slow, or ran something else.
pub(super) fn lines(done: &[&Done]) -> Option<String> {
    let slow = done.iter().filter_map(|d| {
        let why = NotCompared::of(d).filter(|why| matches!(why, NotCompared::Slow(..)))?;
        Some(format!("not compared: {}: {why}", d.plan.called()))
    });
    let all: Vec<_> =
        verdicts(done).into_iter().chain(slow).chain(others(done)).chain(aborted(done)).collect();
    (!all.is_empty()).then(|| all.join("\n"))
}

/// Runs that Linux's figures in the catalog would be of, had nobody made them others.
fn others(done: &[&Done]) -> Vec<String> {
    let of = |why: NotCompared| done.iter().filter(move |d| NotCompared::of(d) == Some(why));
    let mut lines = Vec::new();
    let another: Vec<_> = of(NotCompared::Another).map(|d| d.plan.called()).collect();
    if !another.is_empty() {
        lines.push(format!("not compared: {}: {}", another.join(", "), NotCompared::Another));
    }
    if let Some(shorter) = of(NotCompared::Shorter).next() {
        let name = shorter.plan.experiment.name;
        lines.push(format!("not compared: {}: lowwater lab run {name}", NotCompared::Shorter));
    }
    lines
}

/// Flows that ended within a run, as Linux's would.
fn aborted(done: &[&Done]) -> Vec<String> {
    let of = |d: &&Done| {
        let flows = d.figures.as_ref()?.get("aborted_flows").filter(|flows| *flows > 0.0)?;
        let what = if flows == 1.0 { "flow" } else { "flows" };
        Some(format!(
            "aborted: {}: {flows} {what} ended with ETIMEDOUT, since nothing of them was acknowledged for too long, as Linux ends them \
             (TCPAbortOnTimeout)",
            d.plan.called()
        ))
    };
    done.iter().filter_map(of).collect()
}

/// What is out of bounds, those in front of which Linux's own figures do not agree; how many are not; nothing where none was compared.
fn verdicts(done: &[&Done]) -> Option<String> {
    let count: usize = done.iter().map(|d| compared(d).len()).sum();
    let of = |d: &&Done| {
        let all = out_of_bounds(d).unwrap_or_default().into_iter();
        all.map(|out| (d.plan.called(), out)).collect::<Vec<_>>()
    };
    let out: Vec<_> = done.iter().flat_map(of).collect();
    if out.is_empty() {
        return (count > 0)
            .then(|| format!("out of bounds beside Linux: none of {count} figures ({})", bounds(done)));
    }
    let (clock, real): (Vec<_>, Vec<_>) = out.iter().partition(|(_, out)| out.is_only_by_the_hosts_clock());
    let besides = match clock.len() {
        0 => String::new(),
        n => format!(", and {n} by the host's clock alone"),
    };
    let lines =
        [format!("beside Linux: {} of {count} figures are out of bounds{besides}", real.len())].into_iter();
    let told = |(what, all): (&str, Vec<&(String, OutOfBounds)>)| {
        all.into_iter().map(|(run, out)| format!("{what}: {run}: {out}")).collect::<Vec<_>>()
    };
    let kinds = [("out of bounds", real), ("out of bounds by the host's clock alone", clock)];
    Some(lines.chain(kinds.into_iter().flat_map(told)).collect::<Vec<_>>().join("\n"))
}

/// The bounds of what was compared, each with its figures: one of a single side says so, since what is far from Linux's on the other side is
/// within it.
fn bounds(done: &[&Done]) -> String {
    let mut all: Vec<(Bound, Vec<String>)> = Vec::new();
    for out in done.iter().flat_map(|d| compared(d)) {
        let (bound, name) = (out.shown.bound, out.name());
        match all.iter_mut().find(|(known, _)| *known == bound) {
            Some((_, figures)) if figures.contains(&name) => {}
            Some((_, figures)) => figures.push(name),
            None => all.push((bound, vec![name])),
        }
    }
    let told = |(bound, figures): &(Bound, Vec<String>)| format!("{} {}", figures.join(", "), bound.words());
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
            linux_now_still: true,
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

    fn out(
        experiment: &str,
        figure: &str,
        values: (f64, f64),
        clock: Clock,
        still: Option<f64>,
    ) -> OutOfBounds {
        let experiment = EXPERIMENTS.iter().find(|e| e.name == experiment).expect("it is there");
        let shown = experiment.shows.iter().find(|s| s.figure == figure).expect("it has a bound");
        let column = experiment.columns.iter().find(|c| c.figure == figure);
        OutOfBounds { shown, column, value: values.0, linux: values.1, clock, still }
    }

    #[test]
    fn bytes_are_whole_and_no_digit_says_nothing() {
        let of = |experiment, figure| out(experiment, figure, (1.0, 1.0), Clock::Still, None);
        let queued = OutOfBounds { column: None, ..of("notsent-lowat", "queued_bytes_per_flow") };
        let texts = [741_376.4, 1_000.0, 0.0].map(|value| queued.text(value));
        assert_eq!(texts, ["741376", "1000", "0"]);
        let wakes = of("notsent-lowat", "writable_events_per_mb");
        let texts = [5.160_4, 182.0, 1_000.0, 0.0].map(|value| wakes.text(value));
        assert_eq!(texts, ["5.16", "182", "1000", "0"]);
    }

    /// What a reader is told: the table's words and unit, the limit, and whose noise it may be.
    #[test]
    fn a_sentence_tells_whether_the_machine_that_linux_ran_on_may_be_why() {
        let wakes = |clock, still| {
            let out = out("notsent-lowat", "writable_events_per_mb", (5.175, 5.0), clock, still);
            assert!(out.is_out());
            (out.to_string(), out.is_only_by_the_hosts_clock())
        };
        let begin = "wakes/MB 5.175; asked for: at most 5.05 (at most 1.01 times Linux's 5)";
        assert_eq!(
            wakes(Clock::Host, Some(5.15)),
            (
                format!(
                    "{begin}; by a still clock, which no machine disturbs, Linux has 5.15, and ours is within the same bound of it (at most 5.202)"
                ),
                true
            )
        );
        assert_eq!(
            wakes(Clock::Host, Some(5.1)),
            (format!("{begin}; so it is beside Linux by a still clock (5.1: at most 5.151)"), false)
        );
        let (alone, _) = wakes(Clock::Host, None);
        assert!(
            alone.starts_with(begin) && alone.ends_with("what its machine adds to the figure is not known"),
            "{alone}"
        );
        // Nothing excuses a figure beside a kernel that nothing disturbed.
        assert_eq!(wakes(Clock::Still, None), (begin.to_owned(), false));
        let queued =
            out("notsent-lowat", "queued_bytes_per_flow", (273_172.0, 229_376.0), Clock::Still, None);
        assert_eq!(
            queued.to_string(),
            "queued KiB/flow 266.77; asked for: at most 246.4 (at most 1.1 times Linux's 224)"
        );
        let gap = out("pacing", "gap_us_p50", (970.0, 921.0), Clock::Still, None).to_string();
        assert!(gap.ends_with("970; asked for: 893.37 to 948.63 (within 3 % of Linux's 921)"), "{gap}");
    }

    /// A band is as wide as it was: what the host's clock alone has out stays in the list.
    #[test]
    fn what_only_the_hosts_clock_has_out_stands_behind_the_others_and_is_counted() {
        let experiment = EXPERIMENTS.iter().find(|e| e.name == "notsent-lowat").expect("it is there");
        let of = |variant: &str, wakes: f64| {
            let mut done = ran(&[("writable_events_per_mb", wakes)], &[]);
            done.plan.experiment = experiment;
            done.plan.variant = experiment.variants.iter().find(|v| v.name == variant).expect("it is there");
            variant.clone_into(&mut done.plan.name);
            done
        };
        let (clock, real, fine) =
            (of("cubic-262144", 5.175), of("cubic-262144-whole", 15.4), of("bbr-262144", 5.0));
        let all = [&clock, &real, &fine];
        assert_eq!(all.map(|done| out_of_bounds(done).map(|out| out.len())), [Some(1), Some(1), Some(0)]);
        let told = lines(&all).expect("lines");
        let begins: Vec<_> =
            told.lines().filter_map(|line| line.get(..line.rfind(": wakes").unwrap_or(line.len()))).collect();
        assert_eq!(
            begins,
            [
                "beside Linux: 1 of 3 figures are out of bounds, and 1 by the host's clock alone",
                "out of bounds: cubic-262144-whole",
                "out of bounds by the host's clock alone: cubic-262144"
            ]
        );
        let json = |done: &Done| out_of_bounds(done).expect("compared")[0].json();
        let (clock, real) = (json(&clock), json(&real));
        assert_eq!(
            (&clock["by_still_clock"]["holds"], &clock["by_still_clock"]["linux"]),
            (&json!(true), &json!(5.15))
        );
        assert!(clock["about_linux"].is_string() && clock["linux_still"] == json!(5.15), "{clock}");
        assert!(real["by_still_clock"].is_null() && real["about_linux"].is_string(), "{real}");
    }

    #[test]
    fn a_kernel_that_cannot_fill_the_line_is_not_compared() {
        let beside = |mbps| {
            let ours = [("ip_out_requests", 1_000.0), ("goodput_mbps", 950.0)];
            let done = ran(&ours, &[("ip_out_requests", 180.0), ("goodput_mbps", mbps)]);
            let told = lines(&[&done]).expect("something is said");
            (
                out_of_bounds(&done).map(|all| all.len()),
                told,
                NotCompared::of(&done).map(|why| why.to_string()),
            )
        };
        let (one, _, why) = beside(940.0);
        assert_eq!((one, why), (Some(1), None));
        let (none, told, why) = beside(480.0);
        assert!(none.is_none() && told.starts_with("not compared: default: Linux brought 480"), "{told}");
        assert!(why.is_some_and(|why| told.ends_with(&why)), "{told}");
    }

    #[test]
    fn tables_and_json_agree_on_what_is_not_compared() {
        let mut kinds = [0; 2];
        for experiment in EXPERIMENTS {
            for variant in experiment.variants {
                for given in [Given::Nothing, Given::Times, Given::More] {
                    let mut done = ran(&[], &[]);
                    (done.plan.experiment, done.plan.variant, done.plan.given) = (experiment, variant, given);
                    let told = lines(&[&done]).is_some_and(|told| told.starts_with("not compared: "));
                    let json = crate::lab::render::object(&done).get("not_compared").is_some();
                    assert_eq!(told, json, "{} {} {given:?}", experiment.name, variant.name);
                    kinds[usize::from(told)] += 1;
                }
            }
        }
        assert!(kinds.iter().all(|count| *count > 10), "{kinds:?}");
    }

    #[test]
    fn what_linux_did_not_run_is_not_compared() {
        let far = |given, now: &[(&str, f64)]| {
            let mut done = ran(&[("ip_out_requests", 1_000.0)], now);
            done.plan.given = given;
            let told = lines(&[&done]).expect("a line");
            assert_eq!(NotCompared::of(&done).is_some(), told.starts_with("not compared"), "{told}");
            (out_of_bounds(&done).map(|all| all.len()), told.split(':').next().map(str::to_owned))
        };
        let now = [("ip_out_requests", 180.0)];
        let (is_out, is_not) =
            ((Some(1), Some("beside Linux".to_owned())), (None, Some("not compared".to_owned())));
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
            Some("out of bounds beside Linux: none of 1 figures (IpOutRequests within 10 % of Linux's)")
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
                "out of bounds beside Linux: none of 6 figures (IpOutRequests within 10 % of Linux's; \
                 TcpOutSegs within 1 % of Linux's; seconds at most 1.02 times Linux's)"
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
