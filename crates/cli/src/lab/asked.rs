//! What the command line asked of an experiment: what is said of it, and the command that asks for the same again.
use crate::rates;
use lowwater_sim::scenario::{Scenario, SettingValue};

/// What was asked of one experiment.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// `--set`, as far as the experiment knows the names.
    pub(crate) set: Vec<(String, String)>,
    /// `--variant`, as far as the experiment has it.
    pub(crate) variants: Vec<String>,
    /// What made it short enough for all experiments together.
    pub(crate) shorter: &'static [(&'static str, &'static str)],
    /// Variants that are as long as by themselves all the same.
    pub(crate) full: Vec<&'static str>,
    /// Names that `--base` gave.
    pub(crate) base: Vec<String>,
    /// What `--base` gave beside another value of `--set`.
    pub(crate) against: Vec<(String, String)>,
    /// Names of settings that runs as they are have too.
    pub(crate) both: Vec<String>,
    /// `--alone`.
    pub(crate) alone: bool,
    /// `--seed`.
    pub(crate) seed: u64,
    /// `--seeds`.
    pub(crate) seeds: u64,
}

impl Default for Asked {
    /// Nothing but the catalog's, once.
    fn default() -> Self {
        Self {
            set: Vec::new(),
            variants: Vec::new(),
            shorter: &[],
            full: Vec::new(),
            base: Vec::new(),
            against: Vec::new(),
            both: Vec::new(),
            alone: false,
            seed: 1,
            seeds: 1,
        }
    }
}

impl Asked {
    /// The command that runs this again, an experiment that was shortened in full.
    pub(crate) fn command(&self, experiment: &str) -> String {
        let mut words = vec![format!("lowwater lab run {experiment}")];
        words.extend(self.variants.iter().map(|v| format!("--variant {}", quoted(v))));
        let option = |key: &String| if self.base.contains(key) { "--base" } else { "--set" };
        words.extend(
            self.set
                .iter()
                .map(|(key, value)| format!("{} {}", option(key), quoted(&format!("{key}={value}")))),
        );
        words.extend(
            self.against.iter().map(|(key, value)| format!("--base {}", quoted(&format!("{key}={value}")))),
        );
        if self.alone {
            words.push("--alone".to_owned());
        }
        if self.seed != 1 {
            words.push(format!("--seed {}", self.seed));
        }
        if self.seeds != 1 {
            words.push(format!("--seeds {}", self.seeds));
        }
        words.join(" ")
    }

    /// All chance: "seed 1", or "seeds 1 to 3". Behind the largest comes 0.
    pub(crate) fn seeds_text(&self) -> String {
        match self.seeds {
            1 => format!("seed {}", self.seed),
            n => format!("seeds {} to {}", self.seed, self.seed.wrapping_add(n - 1)),
        }
    }

    /// What is not as in the catalog.
    pub(crate) fn changed(&self) -> Option<String> {
        let list = |pairs: &mut dyn Iterator<Item = (&str, &str)>| {
            pairs.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
        };
        // Where nothing is compared nothing is told apart, but `--base` is what it is.
        let whole = self.alone || self.set.iter().all(|(key, _)| self.both.contains(key));
        let in_both = |key: &String| self.both.contains(key) && (!whole || self.base.contains(key));
        let words = |both: bool| {
            let own = self.set.iter().filter(|(key, _)| in_both(key) == both);
            list(&mut own.map(|(key, value)| (key.as_str(), value.as_str())))
        };
        let (set, both) = (words(false), words(true));
        let mut shorter = list(&mut self.shorter.iter().copied());
        if !self.full.is_empty() {
            shorter.push_str(&format!(" (in full: {})", self.full.join(", ")));
        }
        let (first, last) = (self.seed, self.seed.wrapping_add(self.seeds - 1));
        let repeated = if self.seeds == 1 {
            String::new()
        } else {
            format!(
                "{} seeds, {first} to {last}; below each the least and the most; samples over time are of the first",
                self.seeds
            )
        };
        let parts = [
            ("changed by --set: ", set),
            (
                "compared with ",
                list(&mut self.against.iter().map(|(key, value)| (key.as_str(), value.as_str()))),
            ),
            ("in all runs: ", both),
            ("shortened: ", shorter),
            ("medians of ", repeated),
        ];
        let parts: Vec<_> =
            parts.iter().filter(|(_, l)| !l.is_empty()).map(|(w, l)| format!("{w}{l}")).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "=_-./%+:,".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// A text of the catalog with the parameters of a run: `{rtt_ms}` is its value there, and `{line}` the rate of the slowest line.
pub(crate) fn filled(text: &str, scenario: &dyn Scenario) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, (key, after))) =
        rest.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        out.push_str(before);
        out.push_str(&value(scenario, key).unwrap_or_else(|| format!("{{{key}}}")));
        rest = after;
    }
    out + rest
}

/// The slowest line of a run: that of its parameter, or of a discipline which holds it to less. Before a router with a discipline there is no other.
fn line(scenario: &dyn Scenario) -> String {
    let settings = scenario.settings();
    let words = |key: &str| match &settings.iter().find(|s| s.name == key)?.value {
        SettingValue::Words(words) if words != "none" => Some(words.clone()),
        _ => None,
    };
    let (qdisc, router) = (words("qdisc"), words("router"));
    let own = settings.iter().find_map(|s| match s.value {
        SettingValue::Number(mbps) if s.name == "rate_mbps" && mbps > 0.0 => Some(mbps),
        _ => None,
    });
    let shaped = [&qdisc, &router].into_iter().flatten().filter_map(|words| rates::shaped(words));
    let shaped = shaped.map(|bytes| bytes as f64 * 8.0 / 1e6);
    match own.filter(|_| router.is_none()).into_iter().chain(shaped).min_by(f64::total_cmp) {
        None => "a line without a rate".to_owned(),
        Some(mbps) if mbps >= 1e3 && mbps % 1e3 == 0.0 => format!("{} Gbit/s", grouped(mbps / 1e3)),
        Some(mbps) => format!("{} Mbit/s", grouped(mbps)),
    }
}

fn value(scenario: &dyn Scenario, key: &str) -> Option<String> {
    if key == "line" {
        return Some(line(scenario));
    }
    match scenario.settings().into_iter().find(|s| s.name == key).map(|s| s.value) {
        Some(SettingValue::Number(0.0)) if key == "lowat" => Some("none".to_owned()),
        Some(SettingValue::Number(n)) => Some(grouped(n)),
        Some(SettingValue::Words(words)) => Some(words),
        None => {
            let words = scenario.boxed().sysctl().get(key)?;
            Some(words.parse::<f64>().map_or_else(|_| words.clone(), grouped))
        }
    }
}

/// 4000000 as 4,000,000.
fn grouped(n: f64) -> String {
    let text = format!("{n}");
    let (whole, part) = text.split_once('.').map_or((text.as_str(), None), |(w, p)| (w, Some(p)));
    let digits = whole.len();
    let mut out = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (digits - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    part.map_or(out.clone(), |part| format!("{out}.{part}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowwater_sim::scenario::NotsentLowat;

    #[test]
    fn the_command_says_what_was_asked_and_a_shell_can_read_it() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let asked = Asked {
            set: vec![pair("flows", "8"), pair("qdisc", "fq maxrate 48mbit")],
            variants: vec!["reno/0%".into()],
            seed: 7,
            ..Asked::default()
        };
        assert_eq!(
            asked.command("bulk"),
            "lowwater lab run bulk --variant reno/0% --set flows=8 --set 'qdisc=fq maxrate 48mbit' --seed 7"
        );
        assert_eq!(asked.changed().as_deref(), Some("changed by --set: flows=8, qdisc=fq maxrate 48mbit"));
        assert_eq!(Asked::default().changed(), None);
        let based = Asked { base: vec!["flows".into()], both: vec!["flows".into()], ..asked };
        let said = "changed by --set: qdisc=fq maxrate 48mbit; in all runs: flows=8";
        assert_eq!(based.changed().as_deref(), Some(said));
        let alone = Asked { set: vec![pair("flows", "8")], ..based };
        assert_eq!(alone.changed().as_deref(), Some("in all runs: flows=8"));
        let often = Asked { seed: 4, seeds: 3, ..Asked::default() };
        assert_eq!(often.command("bulk"), "lowwater lab run bulk --seed 4 --seeds 3");
        assert_eq!(
            (often.seeds_text(), Asked::default().seeds_text()),
            ("seeds 4 to 6".into(), "seed 1".into())
        );
        let said = "medians of 3 seeds, 4 to 6; below each the least and the most; samples over time are of the first";
        assert_eq!(often.changed().as_deref(), Some(said));
        let short = Asked { shorter: &[("warmup_s", "3")], ..Asked::default() };
        assert_eq!(short.changed().as_deref(), Some("shortened: warmup_s=3"));
        let short = Asked { full: vec!["off-1gbit"], ..short };
        assert_eq!(short.changed().as_deref(), Some("shortened: warmup_s=3 (in full: off-1gbit)"));
    }

    #[test]
    fn texts_have_the_parameters_of_the_run() {
        let mut scenario = NotsentLowat::default();
        let text =
            "{flows} flows, {rate_mbps} Mbit/s, SO_SNDBUF {sndbuf}, limit {lowat}, {tcp_congestion_control}";
        assert_eq!(filled(text, &scenario), "10 flows, 200 Mbit/s, SO_SNDBUF 4,000,000, limit none, cubic");
        (scenario.flows, scenario.lowat, scenario.rate) = (8, 16_384, 1_500_000);
        assert_eq!(filled("{flows} {lowat} {rate_mbps}", &scenario), "8 16,384 1.5");
    }

    #[test]
    fn the_line_is_the_slowest_one_that_a_run_has() {
        let cases = [
            ("50", "none", "none", "50 Mbit/s"),
            ("40000", "none", "none", "40 Gbit/s"),
            ("50", "none", "tbf rate 100mbit burst 68000 limit 500000", "100 Mbit/s"),
            ("50", "none", "fq_codel", "a line without a rate"),
            ("50", "tbf rate 990753kbit burst 67371 limit 100mb child pfifo limit 9", "none", "50 Mbit/s"),
            (
                "2000",
                "tbf rate 990753kbit burst 67371 limit 100mb child pfifo limit 9",
                "none",
                "990.753 Mbit/s",
            ),
            ("50", "fq maxrate 1mbit", "none", "50 Mbit/s"),
        ];
        for (rate, qdisc, router, wanted) in cases {
            let mut scenario = NotsentLowat::default();
            for (key, value) in [("rate_mbps", rate), ("qdisc", qdisc), ("router", router)] {
                assert_eq!(scenario.set(key, value), Some(Ok(())));
            }
            assert_eq!(filled("{line}", &scenario), wanted, "{rate} {qdisc} {router}");
        }
    }
}
