//! What the guest is asked to do, and its answer: one JSON object a line.
use crate::{Guest, autosize, can_stand_still, lowat, pacing, queues, sctp};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// An experiment that can be translated to namespaces and `tc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// E1, memory of long flows and wake-ups of their writers.
    NotsentLowat,
    /// E2, small queues.
    SmallQueues,
    /// E3, packet sizes at transmit time.
    TsoAutosize,
    /// E4, gaps and bursts of flows held to a rate.
    Pacing,
    /// E5, HEARTBEATs of a busy and of an idle path.
    SctpHeartbeat,
    /// E5, a path that goes dark.
    SctpFailover,
}

impl Scenario {
    const ALL: [Self; 6] = [
        Self::NotsentLowat,
        Self::SmallQueues,
        Self::TsoAutosize,
        Self::Pacing,
        Self::SctpHeartbeat,
        Self::SctpFailover,
    ];

    /// Its name in the lab.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotsentLowat => "notsent-lowat",
            Self::SmallQueues => "small-queues",
            Self::TsoAutosize => "tso-autosize",
            Self::Pacing => "pacing",
            Self::SctpHeartbeat => "sctp-heartbeat",
            Self::SctpFailover => "sctp-failover",
        }
    }

    /// The scenario that the lab calls so.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.name() == name)
    }

    /// Its variants, as the lab calls them.
    #[must_use]
    pub fn variants(self) -> Vec<&'static str> {
        match self {
            Self::NotsentLowat => lowat::VARIANTS.iter().map(|v| v.name).collect(),
            Self::SmallQueues => queues::VARIANTS.iter().map(|v| v.name).collect(),
            Self::TsoAutosize => autosize::VARIANTS.iter().map(|v| v.name).collect(),
            Self::Pacing => pacing::VARIANTS.iter().map(|v| v.name).collect(),
            Self::SctpHeartbeat => sctp::HEARTBEAT.iter().map(|v| v.name).collect(),
            Self::SctpFailover => sctp::FAILOVER.iter().map(|v| v.name).collect(),
        }
    }

    /// How long a run may go on behind its seconds, until it says that something was lost.
    const fn rest(self) -> Duration {
        match self {
            Self::NotsentLowat | Self::SmallQueues | Self::TsoAutosize | Self::Pacing => Duration::ZERO,
            Self::SctpHeartbeat | Self::SctpFailover => sctp::REST,
        }
    }

    const fn modules(self) -> &'static [&'static str] {
        match self {
            Self::NotsentLowat => &["veth", "sch_tbf", "sch_netem", "tcp_bbr"],
            Self::SmallQueues => &["veth", "sch_tbf", "sch_netem"],
            Self::TsoAutosize => &["veth", "sch_netem", "sch_fq", "tcp_bbr"],
            Self::Pacing => &["veth", "sch_netem", "sch_tbf", "sch_fq", "tcp_bbr", "af_packet"],
            // SCTP listens only where IPv6 and HMAC came before it.
            Self::SctpHeartbeat | Self::SctpFailover => {
                &["veth", "sch_netem", "ipv6", "hmac", "sctp", "af_packet"]
            }
        }
    }
}

/// What to measure in one boot.
#[derive(Clone, Debug)]
pub struct Job {
    /// The experiment.
    pub scenario: Scenario,
    /// Its variants; empty for all.
    pub variants: Vec<String>,
    /// Runs of each variant; the median of each figure counts.
    pub repeat: u32,
    /// Seconds until measuring begins and seconds of measuring, where the experiment has such.
    pub seconds: (f64, f64),
}

/// What one variant measured, under the lab's names.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// The variant.
    pub variant: String,
    /// Name and value of each figure.
    pub values: Vec<(String, f64)>,
}

impl Figures {
    /// The figure of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        self.values.iter().find(|(n, _)| n == name).map(|(_, value)| *value)
    }

    fn parse(line: &str) -> Option<Self> {
        let object: Value = serde_json::from_str(line).ok()?;
        let values = object.get("figures")?.as_object()?;
        Some(Self {
            variant: object.get("variant")?.as_str()?.to_owned(),
            values: values.iter().map(|(k, v)| Some((k.clone(), read(v)?))).collect::<Option<_>>()?,
        })
    }
}

/// A figure that never came, as JSON cannot have it.
const NEVER: &str = "inf";

fn written(value: f64) -> Value {
    if value == f64::INFINITY { json!(NEVER) } else { json!(value) }
}

fn read(value: &Value) -> Option<f64> {
    if value == NEVER { Some(f64::INFINITY) } else { value.as_f64() }
}

/// Boots the kernel and runs the job in it, by a clock that passes only where the guest sleeps if cc is there. `program` is run inside with `words` and the job as last argument, and must
/// then call [`guest`].
///
/// # Errors
/// What went wrong, in a sentence.
pub fn run(job: &Job, program: &Path, words: &[&str]) -> Result<Vec<Figures>, String> {
    let all = job.scenario.variants();
    if let Some(unknown) = job.variants.iter().find(|v| !all.contains(&v.as_str())) {
        return Err(format!(
            "{} has no variant {unknown} on Linux; it has {}",
            job.scenario.name(),
            all.join(", ")
        ));
    }
    let text = json!({
        "scenario": job.scenario.name(),
        "variants": job.variants,
        "repeat": job.repeat,
        "seconds": [job.seconds.0, job.seconds.1],
    })
    .to_string();
    let runs = f64::from(job.repeat.max(1))
        * if job.variants.is_empty() { all.len() } else { job.variants.len() } as f64;
    let each = 2.0 * (5.0 + job.seconds.0 + job.seconds.1) + job.scenario.rest().as_secs_f64();
    let deadline = Duration::from_secs_f64(60.0 + runs * each);
    let guest = Guest { deadline, still: can_stand_still(), ..Guest::new(job.scenario.modules()) };
    let mut args = words.to_vec();
    args.push(&text);
    let said = guest.run(program, &args)?;
    said.lines().map(|line| Figures::parse(line).ok_or_else(|| format!("the guest said {line:?}"))).collect()
}

/// The part of [`run`] that happens in the guest: runs the job in `text` and prints the figures of each variant.
///
/// # Errors
/// What went wrong, in a sentence.
pub fn guest(text: &str) -> Result<(), String> {
    let object: Value = serde_json::from_str(text).map_err(|e| format!("the job is no JSON: {e}"))?;
    let scenario =
        object["scenario"].as_str().and_then(Scenario::by_name).ok_or("the job names no scenario")?;
    let wanted: Vec<&str> =
        object["variants"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let repeat = object["repeat"].as_u64().unwrap_or(1).max(1);
    let seconds =
        (object["seconds"][0].as_f64().unwrap_or(1.0), object["seconds"][1].as_f64().unwrap_or(2.0));
    for variant in scenario.variants() {
        if !wanted.is_empty() && !wanted.contains(&variant) {
            continue;
        }
        let mut runs = Vec::new();
        for _ in 0..repeat {
            runs.push(match scenario {
                Scenario::NotsentLowat => lowat::run(variant, seconds)?,
                Scenario::SmallQueues => queues::run(variant, seconds)?,
                Scenario::TsoAutosize => autosize::run(variant)?,
                Scenario::Pacing => pacing::run(variant, seconds)?,
                Scenario::SctpHeartbeat => sctp::heartbeat(variant, seconds)?,
                Scenario::SctpFailover => sctp::failover(variant, seconds)?,
            });
        }
        println!("{}", json!({ "variant": variant, "figures": medians(&runs) }));
    }
    Ok(())
}

/// Name and value of what one run measured.
pub(crate) type Measured = Vec<(&'static str, f64)>;

/// The median of each figure over the runs.
fn medians(runs: &[Measured]) -> Value {
    let mut figures = serde_json::Map::new();
    for &(name, _) in runs.first().into_iter().flatten() {
        let mut values: Vec<f64> =
            runs.iter().flatten().filter(|(n, _)| *n == name).map(|(_, value)| *value).collect();
        values.sort_by(f64::total_cmp);
        figures.insert(name.to_owned(), written(values[values.len() / 2]));
    }
    Value::Object(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_came_is_told_from_what_was_not_measured() {
        let figures = medians(&[vec![("a", 1.5), ("b", f64::INFINITY)]]);
        let line = json!({ "variant": "x", "figures": figures }).to_string();
        let figures = Figures::parse(&line).expect("as written");
        assert_eq!(
            (figures.get("a"), figures.get("b"), figures.get("c")),
            (Some(1.5), Some(f64::INFINITY), None)
        );
        assert_eq!(Figures::parse(r#"{"variant": "x", "figures": {"a": null}}"#), None);
    }
}
