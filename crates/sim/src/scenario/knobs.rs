//! Parameters of scenarios by name: what `--set` takes, what reports print, and the sentence for what is not allowed.
use lowwater_core::base::{Duration, Sysctl};
use lowwater_core::qdisc::Any;

/// A parameter of a scenario `P`.
pub(super) struct Knob<P> {
    /// Its name.
    pub(super) name: &'static str,
    /// What it means.
    pub(super) about: &'static str,
    /// The smallest and the largest value.
    pub(super) range: (f64, f64),
    /// Only whole numbers.
    pub(super) whole: bool,
    /// Reads it.
    pub(super) get: fn(&P) -> f64,
    /// Writes a value within the range.
    pub(super) put: fn(&mut P, f64),
}

/// A parameter's value.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingValue {
    /// A number.
    Number(f64),
    /// Words.
    Words(String),
}

impl core::fmt::Display for SettingValue {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Number(n) => write!(f, "{n}"),
            Self::Words(words) => f.write_str(words),
        }
    }
}

/// A parameter and its value, for lists and reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub about: &'static str,
    /// What it takes, in words.
    pub takes: String,
    /// Its value.
    pub value: SettingValue,
}

/// What the end of a name says about the unit.
const UNITS: [(&str, &str); 8] = [
    ("_mbps", " of Mbit/s"),
    ("_ms", " of milliseconds"),
    ("_us", " of microseconds"),
    ("_s", " of seconds"),
    ("bytes", " of bytes"),
    ("_percent", " of percent"),
    ("sndbuf", " of bytes"),
    ("lowat", " of bytes"),
];

/// No discipline of its own.
pub(super) const NO_QDISC: &str = "none";

/// The parameter `qdisc`, `about` saying whose.
pub(super) fn qdisc_setting(about: &'static str, words: &str) -> Setting {
    Setting {
        name: "qdisc",
        about,
        takes: "the words of tc, as 'fq_codel target 2ms' or 'tbf rate 10mbit burst 10kb latency 50ms'; none"
            .into(),
        value: SettingValue::Words(words.to_owned()),
    }
}

/// Sets the parameter `qdisc`.
pub(super) fn set_qdisc(words: &mut String, value: &str) -> Result<(), String> {
    set_words(words, value).map_err(|why| format!("qdisc: {why}"))
}

/// Sets a parameter that is a queueing discipline, or none.
pub(super) fn set_words(words: &mut String, value: &str) -> Result<(), String> {
    let read = if value == NO_QDISC { Ok(()) } else { value.parse::<Any>().map(drop) };
    read.map(|()| value.clone_into(words))
}

/// All parameters of `params` in the order of `knobs`.
pub(super) fn settings<P>(knobs: &[Knob<P>], params: &P) -> Vec<Setting> {
    let settings = knobs.iter().map(|knob| Setting {
        name: knob.name,
        about: knob.about,
        takes: knob.takes(),
        value: SettingValue::Number((knob.get)(params)),
    });
    settings.collect()
}

/// Sets the parameter `key`; `None` when there is none of that name.
pub(super) fn set<P>(
    knobs: &[Knob<P>],
    params: &mut P,
    key: &str,
    value: &str,
) -> Option<Result<(), String>> {
    let knob = knobs.iter().find(|knob| knob.name == key)?;
    let parsed: Option<f64> = value.replace('_', "").parse().ok();
    let allowed = |v: &f64| (knob.range.0..=knob.range.1).contains(v) && (!knob.whole || v.fract() == 0.0);
    Some(match parsed.filter(allowed) {
        Some(number) => {
            (knob.put)(params, number);
            Ok(())
        }
        None => Err(format!("{key}: '{value}' is not allowed; it takes {}", knob.takes())),
    })
}

/// The sysctls that differ from the defaults.
#[must_use]
pub fn changed_sysctls(sysctl: &Sysctl) -> Vec<(&'static str, String)> {
    let defaults = Sysctl::default();
    let values = Sysctl::NAMES.iter().filter_map(|(name, _)| Some((*name, sysctl.get(name)?)));
    values.filter(|(name, value)| defaults.get(name).as_ref() != Some(value)).collect()
}

impl<P> Knob<P> {
    fn takes(&self) -> String {
        let kind = if self.whole { "a whole number" } else { "a number" };
        let unit = UNITS.iter().find(|(end, _)| self.name.ends_with(end)).map_or("", |(_, unit)| unit);
        format!("{kind}{unit} from {} to {}", self.range.0, self.range.1)
    }
}

/// Milliseconds of a duration, and back.
pub(super) fn ms(d: Duration) -> f64 {
    d.as_nanos() as f64 / 1e6
}

pub(super) fn from_ms(ms: f64) -> Duration {
    Duration::from_nanos((ms * 1e6).round() as u64)
}

/// Seconds of a duration, and back.
pub(super) fn secs(d: Duration) -> f64 {
    d.as_nanos() as f64 / 1e9
}

pub(super) fn from_secs(s: f64) -> Duration {
    Duration::from_nanos((s * 1e9).round() as u64)
}

/// `knob!(name, about, whole|real lowest, highest, how to read it, how to write it)`.
macro_rules! knob {
    ($name:literal, $about:literal, whole $lo:expr, $hi:expr, |$p:ident| $get:expr, |$q:ident, $v:ident| $put:expr) => {
        $crate::scenario::knobs::Knob {
            name: $name,
            about: $about,
            range: ($lo as f64, $hi as f64),
            whole: true,
            get: |$p| $get,
            put: |$q, $v| {
                $put;
            },
        }
    };
    ($name:literal, $about:literal, real $lo:expr, $hi:expr, |$p:ident| $get:expr, |$q:ident, $v:ident| $put:expr) => {
        $crate::scenario::knobs::Knob {
            name: $name,
            about: $about,
            range: ($lo as f64, $hi as f64),
            whole: false,
            get: |$p| $get,
            put: |$q, $v| {
                $put;
            },
        }
    };
}
pub(super) use knob;
