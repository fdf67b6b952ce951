//! What all scenarios have beside their own numbers, and how tables of parameters make a [`Scenario`].
use super::knobs::{
    Knob, NO_QDISC, Setting, SettingValue, from_secs, knob, qdisc_setting, secs, set, set_qdisc, settings,
};
use super::{Figures, Scenario};
use crate::check::Broken;
use lowwater_core::base::{Duration, Sysctl};

/// The part that is alike.
#[derive(Clone, Debug)]
pub struct Common {
    /// A queueing discipline in the words of `tc`; "none" for the stack's own.
    pub qdisc: String,
    /// Time before the measured time, and that; nothing of both where a run ends with its transfers.
    pub times: (Duration, Duration),
    /// Settings of both hosts.
    pub sysctl: Sysctl,
    /// All chance.
    pub seed: u64,
}

impl Default for Common {
    fn default() -> Self {
        let times = (Duration::ZERO, Duration::ZERO);
        Self { qdisc: NO_QDISC.into(), times, sysctl: Sysctl::default(), seed: 1 }
    }
}

/// A parameter in words.
pub(super) struct Words<P> {
    /// Name, what it means and what it takes.
    pub(super) texts: [&'static str; 3],
    /// Reads it.
    pub(super) get: fn(&P) -> &str,
    /// Writes it.
    pub(super) put: fn(&mut P, &str) -> Result<(), String>,
}

/// A scenario given by tables.
pub(super) trait Params: Clone + Send + Sync + core::fmt::Debug + 'static {
    /// Its numbers.
    const KNOBS: &'static [Knob<Self>];
    /// Its words, beside the discipline.
    const WORDS: &'static [Words<Self>] = &[];
    /// Whose discipline it is.
    const QDISC: &'static str = "queueing discipline of the sender's device";
    /// A discipline that the scenario gives its parameters, where it is named alone.
    const BARE: Option<&'static str> = None;
    /// It has a warm-up and a measured time.
    const TIMED: bool;

    fn common(&self) -> &Common;
    fn common_mut(&mut self) -> &mut Common;
    /// [`Scenario::run`].
    fn play(&self, on_progress: &mut dyn FnMut(f64) -> bool) -> Result<Figures, Broken>;
}

const TIMES: &[Knob<Common>] = &[
    knob!("warmup_s", "virtual seconds before the measured time", real 0.1, 1e4,
        |p| secs(p.times.0), |p, v| p.times.0 = from_secs(v)),
    knob!("measure_s", "virtual seconds that are measured", real 0.1, 1e4,
        |p| secs(p.times.1), |p, v| p.times.1 = from_secs(v)),
];

const fn times(timed: bool) -> &'static [Knob<Common>] {
    if timed { TIMES } else { &[] }
}

impl<P: Params> Scenario for P {
    fn settings(&self) -> Vec<Setting> {
        let mut all = settings(P::KNOBS, self);
        all.extend(settings(times(P::TIMED), self.common()));
        all.push(qdisc_setting(P::QDISC, &self.common().qdisc));
        all.extend(P::WORDS.iter().map(|words| Setting {
            name: words.texts[0],
            about: words.texts[1],
            takes: words.texts[2].to_owned(),
            value: SettingValue::Words((words.get)(self).to_owned()),
        }));
        all
    }

    fn set(&mut self, key: &str, value: &str) -> Option<Result<(), String>> {
        if key == "qdisc" {
            let qdisc = &mut self.common_mut().qdisc;
            if P::BARE == Some(value) {
                value.clone_into(qdisc);
                return Some(Ok(()));
            }
            return Some(set_qdisc(qdisc, value));
        }
        if let Some(words) = P::WORDS.iter().find(|words| words.texts[0] == key) {
            return Some((words.put)(self, value).map_err(|why| format!("{key}: {why}")));
        }
        set(P::KNOBS, self, key, value).or_else(|| set(times(P::TIMED), self.common_mut(), key, value))
    }

    fn sysctl(&mut self) -> &mut Sysctl {
        &mut self.common_mut().sysctl
    }

    fn seed(&mut self) -> &mut u64 {
        &mut self.common_mut().seed
    }

    fn run(&self, on_progress: &mut dyn FnMut(f64) -> bool) -> Result<Figures, Broken> {
        self.play(on_progress)
    }

    fn boxed(&self) -> Box<dyn Scenario> {
        Box::new(self.clone())
    }
}

/// The two methods of [`Params`] that only say where [`Common`] is.
macro_rules! has_common {
    () => {
        fn common(&self) -> &$crate::scenario::Common {
            &self.common
        }

        fn common_mut(&mut self) -> &mut $crate::scenario::Common {
            &mut self.common
        }
    };
}
pub(super) use has_common;

/// The router's own discipline, in a scenario with such a field.
macro_rules! router_words {
    () => {
        $crate::scenario::params::Words {
            texts: [
                "router",
                "queueing discipline of the router, instead of its line and queue",
                "the words of tc, as 'tbf rate 100mbit burst 68000 limit 500000'; none",
            ],
            get: |p| &p.router,
            put: |p, value| $crate::scenario::knobs::set_words(&mut p.router, value),
        }
    };
}
pub(super) use router_words;
