//! The experiments that the program knows: scenarios with their variants, and what the seeds and Linux measured.
mod bulk;
mod notsent_lowat;
mod pacing;
mod queue_aware;
mod sctp_failover;
mod sctp_heartbeat;
mod small_queues;
mod tso_autosize;

use super::asked::{Asked, filled};
use super::compare::{Role, against, stays};
use super::near::near;
use super::picture::Picture;
use super::runs::{Given, Plan};
use super::unheard::why;
use crate::args::LabOptions;
use lowwater_core::base::{RouteMetrics, Sysctl};
use lowwater_sim::scenario::{Scenario, SettingValue, changed_sysctls};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Figures by name that somebody else measured.
pub(crate) type Measured = &'static [(&'static str, f64)];
/// A parameter or a sysctl with its value.
pub(crate) type Assigned = (&'static str, &'static str);
/// Several of them.
pub(crate) type Settings = &'static [(&'static str, &'static str)];

/// Linux's default is named where a variant's name says it, so that `--set` in its place is told.
const CUBIC: Assigned = ("tcp_congestion_control", "cubic");

/// A column of several experiments.
const GOODPUT: Column = Column {
    figure: "goodput_mbps",
    head: "Mbit/s",
    unit: 1.0,
    means: "Mbit/s: payload acknowledged per second",
};

/// A column of several experiments.
const SEGS_PER_PACKET: Column = Column {
    figure: "segs_per_packet",
    head: "segments/\npacket",
    unit: 1.0,
    means: "segments/packet: segments in a packet handed to IP, before offloads cut it",
};

/// One way to run an experiment.
pub(crate) struct Variant {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// What it is, with the parameters of a run in braces.
    pub(crate) about: &'static str,
    /// What makes it.
    pub(crate) sets: Settings,
    /// The same on Linux 6.1, by the clock of the host that it ran on: what is to be shown is told beside these.
    pub(crate) linux: Measured,
    /// The same by a clock that stands still while the guest works, as `--uml` measures it: without the noise of one busy processor.
    pub(crate) still: Measured,
    /// The same in the commit that the experiment comes from.
    pub(crate) seed: Measured,
    /// It belongs to what `lowwater lab` runs without a name.
    pub(crate) quick: bool,
    /// It runs in full there too: in less time it would not settle, or be chance.
    pub(crate) full: bool,
    /// It runs only when it is asked for by name.
    pub(crate) asked: bool,
    /// It runs once for each value of each parameter here.
    pub(crate) grid: &'static [Grid],
    /// What is to be said of its figures below a table.
    pub(crate) note: Option<Note>,
}

/// The number that a run has for a parameter.
pub(crate) type Numbers<'a> = &'a dyn Fn(&str) -> f64;

/// What a default decides of figures.
pub(crate) struct Note {
    /// The setting whose default it is: as long as that is not set.
    pub(crate) key: &'static str,
    /// Whether it does, by a run's numbers.
    pub(crate) matters: fn(Numbers<'_>) -> bool,
    /// What is said.
    pub(crate) told: &'static str,
}

impl Variant {
    /// A variant to which nobody has figures, and that always runs.
    const PLAIN: Self = Self {
        name: "",
        about: "",
        sets: &[],
        linux: &[],
        still: &[],
        seed: &[],
        quick: true,
        full: false,
        asked: false,
        grid: &[],
        note: None,
    };
}

impl Variant {
    /// What of `set` makes its name and words untrue: what it sets itself, and where it says that these are Linux's defaults any sysctl; and what of its
    /// own another parameter has changed.
    fn replaced<'a>(
        &self,
        set: &(impl Iterator<Item = &'a (String, String)> + Clone),
        before: &dyn Scenario,
        now: &dyn Scenario,
    ) -> Vec<(String, String)> {
        let defaults = self.about.contains("Linux's defaults");
        let own = |key: &str| self.sets.iter().any(|(k, _)| *k == key);
        let said = |key: &str| own(key) || defaults && now.boxed().sysctl().get(key).is_some();
        let is_set = |key: &str| set.clone().any(|(k, _)| k == key);
        let changed = |key: &str| value(before, key) != value(now, key);
        let given = set.clone().filter(|(key, _)| said(key) && changed(key)).cloned();
        let beside = self.sets.iter().filter(|(key, _)| !is_set(key) && changed(key));
        let beside = beside.filter_map(|(key, _)| Some(((*key).to_owned(), value(now, key)?)));
        given.chain(beside).collect()
    }
}

/// The value of a parameter or a sysctl.
pub(crate) fn value(scenario: &dyn Scenario, key: &str) -> Option<String> {
    let own = scenario.settings().into_iter().find(|s| s.name == key).map(|s| s.value.to_string());
    own.or_else(|| scenario.boxed().sysctl().get(key))
}

/// A column of the table.
#[derive(Debug, PartialEq)]
pub(crate) struct Column {
    /// The figure.
    pub(crate) figure: &'static str,
    /// Its head.
    pub(crate) head: &'static str,
    /// What the figure is divided by: 1024 for KiB.
    pub(crate) unit: f64,
    /// What the words of its head mean, with those of columns that are told together; empty where one before tells it.
    pub(crate) means: &'static str,
}

impl Column {
    /// Its head in one line.
    pub(crate) fn title(&self) -> String {
        self.head.replace("/\n", "/").replace('\n', " ")
    }
}

/// A figure that must hold beside Linux's, in every variant of which Linux's is known.
#[derive(Debug, PartialEq)]
pub(crate) struct Shown {
    /// The figure.
    pub(crate) figure: &'static str,
    /// How far it may be from Linux's.
    pub(crate) bound: Bound,
}

/// How far a figure may be from Linux's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    /// So many times as much, or less.
    AtMost(f64),
    /// So many times as much, or more.
    AtLeast(f64),
    /// This part more or less.
    Near(f64),
}

/// Two variants that differ in one mechanism.
pub(crate) struct Pair {
    /// The mechanism and what is compared.
    pub(crate) what: &'static str,
    /// The figure, and what it is divided by.
    pub(crate) figure: (&'static str, f64),
    /// The variant without the mechanism.
    pub(crate) before: &'static str,
    /// The variant with it.
    pub(crate) after: &'static str,
}

/// A parameter in which each variant runs several times.
pub(crate) struct Grid {
    /// Its name.
    pub(crate) key: &'static str,
    /// Its values.
    pub(crate) values: &'static [&'static str],
    /// What follows the value in the name of a run.
    pub(crate) unit: &'static str,
}

/// One experiment.
pub(crate) struct Experiment {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// The question that it answers, with the parameters of a run in braces.
    pub(crate) about: &'static str,
    /// The scenario with its own parameters.
    pub(crate) make: fn() -> Box<dyn Scenario>,
    /// Its variants.
    pub(crate) variants: &'static [Variant],
    /// Each variant runs once for each value.
    pub(crate) grid: Option<Grid>,
    /// The table.
    pub(crate) columns: &'static [Column],
    /// What must hold beside Linux.
    pub(crate) shows: &'static [Shown],
    /// The table of before and after.
    pub(crate) pairs: &'static [Pair],
    /// The pictures of the report.
    pub(crate) pictures: &'static [Picture],
    /// What makes it short enough for all together to take less than a minute.
    pub(crate) short: Settings,
}

/// All experiments.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    notsent_lowat::EXPERIMENT,
    small_queues::EXPERIMENT,
    tso_autosize::EXPERIMENT,
    pacing::EXPERIMENT,
    queue_aware::EXPERIMENT,
    sctp_heartbeat::EXPERIMENT,
    sctp_failover::EXPERIMENT,
    bulk::EXPERIMENT,
];

impl Experiment {
    /// The runs of `variants`, `set` applied on top of each as far as the experiment knows it; `short` for all experiments
    /// together.
    pub(crate) fn plan(
        &'static self,
        variants: impl Iterator<Item = &'static Variant>,
        options: &LabOptions,
        short: bool,
    ) -> Result<Vec<Plan>, String> {
        let shorter = if short { self.short } else { &[] };
        let variants: Vec<_> = variants.collect();
        let full = variants.iter().filter(|v| v.full && !shorter.is_empty()).map(|v| v.name).collect();
        let asked = Arc::new(Asked { full, ..self.asked(&variants, options, shorter) });
        let (seed, set) = (asked.seed, &asked.set);
        let mut plans = Vec::new();
        for variant in variants {
            let shorter = if variant.full { &[] } else { shorter };
            for (name, values) in self.cells(variant, set) {
                let mut scenario = (self.make)();
                *scenario.seed() = seed;
                let own = shorter.iter().chain(variant.sets).copied().chain(values);
                let given = set.iter().map(|(key, value)| (key.as_str(), value.as_str()));
                for (key, value) in own {
                    apply(&mut *scenario, key, value)?;
                }
                let before = scenario.boxed();
                for (key, value) in given {
                    apply(&mut *scenario, key, value)?;
                }
                let heard = set.iter().filter(|(key, _)| why(self.name, &*scenario, key).is_none());
                let keys = heard.clone().map(|(key, _)| key.as_str());
                let of_linux = Given::of(shorter.iter().map(|(key, _)| *key).chain(keys));
                let replaced = variant.replaced(&heard, &*before, &*scenario);
                plans.push(Plan {
                    experiment: self,
                    variant,
                    name,
                    seed,
                    scenario,
                    linux_now: Vec::new(),
                    linux_now_still: false,
                    linux_failed: None,
                    given: of_linux,
                    replaced,
                    asked: Arc::clone(&asked),
                    role: Role::Alone,
                });
            }
        }
        Ok(plans)
    }

    /// What of the command line is for this experiment.
    fn asked(&self, variants: &[&Variant], options: &LabOptions, shorter: Settings) -> Asked {
        let own = |name: &&String| self.variants.iter().any(|v| name.split('/').next() == Some(v.name));
        let against: Vec<_> = against(options).filter(|(key, _)| self.knows(key)).cloned().collect();
        let base = options.base.iter().filter(|pair| options.set.contains(pair));
        let base: Vec<_> = base.map(|(key, _)| key.clone()).collect();
        // What names the runs of one variant may be what another is asked about.
        let both = |key: &&String| variants.iter().all(|v| stays(self.grid.iter().chain(v.grid), &base, key));
        Asked {
            set: options.set.iter().filter(|(key, _)| self.knows(key)).cloned().collect(),
            variants: options.variant.iter().filter(own).cloned().collect(),
            shorter,
            full: Vec::new(),
            both: options.set.iter().map(|(key, _)| key).filter(both).cloned().collect(),
            alone: options.alone,
            base: base.clone(),
            against,
            seed: options.seed,
            seeds: options.seeds,
        }
    }

    /// What it is, and what each variant is, as the catalog has them.
    pub(crate) fn abouts(&self) -> (String, Vec<String>) {
        let of = |variant: &Variant| {
            let mut scenario = (self.make)();
            for (key, value) in variant.sets {
                // A test applies them all.
                let _ = apply(&mut *scenario, key, value);
            }
            filled(variant.about, &*scenario)
        };
        (filled(self.about, &*(self.make)()), self.variants.iter().map(of).collect())
    }

    /// The runs of a variant by name, each with the values that make it: one for each value of each grid.
    fn cells(&self, variant: &Variant, set: &[(String, String)]) -> Vec<(String, Vec<Assigned>)> {
        let mut cells = vec![(variant.name.to_owned(), Vec::new())];
        for grid in self.grid.iter().chain(variant.grid) {
            let given = set.iter().rfind(|(key, _)| key == grid.key);
            let longer = |(name, values): &(String, Vec<Assigned>)| -> Vec<(String, Vec<Assigned>)> {
                if let Some((_, value)) = given {
                    return vec![(format!("{name}/{value}{}", grid.unit), values.clone())];
                }
                let with = |value: &&'static str| {
                    let values = values.iter().copied().chain([(grid.key, *value)]).collect();
                    (format!("{name}/{value}{}", grid.unit), values)
                };
                grid.values.iter().map(with).collect()
            };
            cells = cells.iter().flat_map(longer).collect();
        }
        cells
    }

    /// It has a parameter or a sysctl of this name.
    pub(crate) fn knows(&self, key: &str) -> bool {
        let mut scenario = (self.make)();
        scenario.sysctl().get(key).is_some() || scenario.settings().iter().any(|s| s.name == key)
    }
}

/// A sentence about a setting that none of the experiments knows.
pub(crate) fn unknown(experiments: &[&Experiment], key: &str) -> String {
    let own: BTreeSet<_> = experiments
        .iter()
        .flat_map(|e| (e.make)().settings().iter().map(|s| s.name).collect::<Vec<_>>())
        .collect();
    let own: Vec<_> = own.into_iter().collect();
    let others: Vec<_> = EXPERIMENTS.iter().filter(|e| e.knows(key)).map(|e| e.name).collect();
    if !others.is_empty() {
        let asked: Vec<_> = experiments.iter().map(|e| e.name).collect();
        return format!(
            "{key} is no parameter of {}: {} {} it (`lowwater lab list` has all parameters)",
            asked.join(", "),
            others.join(", "),
            if others.len() == 1 { "has" } else { "have" }
        );
    }
    let of_sctp = format!("sctp.{key}");
    if Sysctl::knows(&of_sctp) {
        let of_tcp = near(&own, key).into_iter().find(|name| *name == format!("tcp_{key}"));
        let of_tcp = of_tcp.map(|name| format!("TCP's is {name}, ")).unwrap_or_default();
        return format!(
            "there is no parameter and no sysctl {key}; {of_tcp}SCTP's is {of_sctp} (docs/sysctl.md)"
        );
    }
    if RouteMetrics::WORDS.contains(&key) {
        return format!(
            "{key} is asked of a route, and the lab's hosts have no routes of their own: in scripts `ip route replace default dev tun0 {key} ...` sets it, \
             in programs Builder::route_metrics (docs/ip.md)"
        );
    }
    match &near(&own, key)[..] {
        [] => format!(
            "there is no parameter and no sysctl {key}, and none near it; parameters are {} (`lowwater lab list` says where), sysctls \
             are in docs/sysctl.md",
            own.join(", ")
        ),
        near => format!(
            "there is no parameter and no sysctl {key}; near it: {} (`lowwater lab list` has all parameters, docs/sysctl.md all sysctls)",
            near.join(", ")
        ),
    }
}

/// Sets a parameter or a sysctl.
fn apply(scenario: &mut dyn Scenario, key: &str, value: &str) -> Result<(), String> {
    scenario.set(key, value).unwrap_or_else(|| scenario.sysctl().set(key, value))
}

/// All parameters of a run, and the sysctls that differ from the defaults.
pub(crate) fn report(scenario: &dyn Scenario) -> Value {
    let mut report = Map::new();
    for setting in scenario.settings() {
        report.insert(setting.name.into(), setting_value(&setting.value));
    }
    for (name, value) in changed_sysctls(scenario.boxed().sysctl()) {
        report.insert(name.into(), json!(value));
    }
    Value::Object(report)
}

/// A parameter's value as JSON.
pub(crate) fn setting_value(value: &SettingValue) -> Value {
    match value {
        SettingValue::Number(n) => number(*n),
        SettingValue::Words(words) => json!(words),
    }
}

/// Whole numbers are to look like it.
pub(crate) fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_in_the_catalog_means_something() {
        for e in EXPERIMENTS {
            for variant in e.variants {
                let mut scenario = (e.make)();
                for (key, value) in variant.sets.iter().chain(e.short) {
                    assert_eq!(apply(&mut *scenario, key, value), Ok(()), "{} {}", e.name, variant.name);
                }
            }
            for pair in e.pairs {
                let is_there = |name| e.variants.iter().any(|v| v.name == name);
                assert!(is_there(pair.before) && is_there(pair.after), "{}", pair.what);
            }
            let names: Vec<_> = e.variants.iter().map(|v| v.name).collect();
            assert!(names.iter().enumerate().all(|(i, n)| !names[..i].contains(n)), "{names:?}");
        }
    }

    #[test]
    fn every_column_is_told_and_every_head_stands_by_itself() {
        for e in EXPERIMENTS {
            let mut told = String::new();
            let mut heads = Vec::new();
            for column in e.columns {
                told += column.means;
                let title = column.title();
                let word = title.trim_start_matches("Linux's ").split([' ', '/']).next().unwrap_or_default();
                let is_told = [word, "twice", "lost"].iter().any(|w| title.contains(w) && told.contains(w));
                assert!(is_told, "{} {title}", e.name);
                assert!(!heads.contains(&title), "{} {title}", e.name);
                heads.push(title);
            }
        }
    }

    #[test]
    fn parameters_in_texts_are_known() {
        for e in EXPERIMENTS {
            let (about, variants) = e.abouts();
            assert!(variants.iter().chain([&about]).all(|text| !text.contains('{')), "{about} {variants:?}");
            let titles = e.pictures.iter().map(|p| p.title).chain(e.pairs.iter().map(|p| p.what));
            titles.for_each(|text| assert!(!filled(text, &*(e.make)()).contains('{'), "{text}"));
        }
    }

    #[test]
    fn what_names_the_runs_of_all_variants_is_in_both() {
        let small_queues = EXPERIMENTS.iter().find(|e| e.name == "small-queues").expect("it is there");
        let key = "tcp_limit_output_bytes";
        let both = |names: &[&str]| {
            let options =
                LabOptions { set: vec![(key.to_owned(), "131072".to_owned())], ..LabOptions::default() };
            let variants = small_queues.variants.iter().filter(|v| names.contains(&v.name));
            let plans = small_queues.plan(variants, &options, false).expect("a plan");
            plans[0].asked.both.clone()
        };
        assert_eq!(both(&["caps"]), [key]);
        assert_eq!(both(&["caps", "tsq-1gbit"]), [""; 0]);
    }

    #[test]
    fn mistakes_are_answered_with_what_is_allowed() {
        let bulk = EXPERIMENTS.iter().find(|e| e.name == "bulk").expect("it is there");
        let refused = |key: &str, value: &str| {
            let set = vec![(key.to_owned(), value.to_owned())];
            let options = LabOptions { set, ..LabOptions::default() };
            bulk.plan(bulk.variants.iter(), &options, false).err()
        };
        assert!(refused("mtu", "5").is_some_and(|e| e.contains("576")));
        assert!(refused("loss_percent", "nan").is_some_and(|e| e.contains("100")));
        let lowat = unknown(&[bulk], "lowat");
        assert!(lowat.starts_with("lowat is no parameter of bulk: notsent-lowat has it"), "{lowat}");
        assert!(unknown(&[bulk], "path_max_retrans").contains("SCTP's is sctp.path_max_retrans"));
        let congestion = unknown(&[bulk], "congestion_control");
        let both = "TCP's is tcp_congestion_control, SCTP's is sctp.congestion_control";
        assert!(congestion.contains(both), "{congestion}");
        assert!(unknown(&[bulk], "tcp_congestion").contains("near it: tcp_congestion_control"));
        assert!(!bulk.knows("los") && unknown(&[bulk], "los").contains("loss_percent"));
    }
}
