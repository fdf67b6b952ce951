//! What the guest is asked to do, and its answer: one JSON object a line.
use crate::boot::STOPPED;
use crate::run::Run;
use crate::{Guest, SILENCE, autosize, can_stand_still, lowat, pacing, queues, sctp};
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

    /// What keeps Linux in the guest from running this, in a sentence.
    ///
    /// # Errors
    /// That sentence.
    pub fn can(self, run: &Run) -> Result<(), String> {
        let (carried, held) = self.load(run)?;
        if carried > CARRIED_MAX {
            return Err(format!("{:.0} GB are more than the guest carries in minutes", carried / 1e9));
        }
        if held > HELD_MAX {
            return Err(format!("buffers of {:.0} MB are more than its memory", held / 1e6));
        }
        Ok(())
    }

    /// Bytes that the guest is to carry, and that its sockets may hold; what Linux cannot follow is an error.
    fn load(self, run: &Run) -> Result<(f64, f64), String> {
        let seconds = run.seconds().0 + run.seconds().1;
        Ok(match self {
            Self::NotsentLowat => lowat::Setup::of(run)?.load(seconds),
            Self::SmallQueues => queues::Setup::of(run)?.load(seconds),
            Self::TsoAutosize => autosize::Setup::of(run)?.load(),
            Self::Pacing => pacing::Setup::of(run)?.load(seconds),
            Self::SctpHeartbeat => sctp::check(sctp::HEARTBEAT, run)?,
            Self::SctpFailover => sctp::check(sctp::FAILOVER, run)?,
        })
    }

    fn run(self, run: &Run) -> Result<Measured, String> {
        match self {
            Self::NotsentLowat => lowat::run(run),
            Self::SmallQueues => queues::run(run),
            Self::TsoAutosize => autosize::run(run),
            Self::Pacing => pacing::run(run),
            Self::SctpHeartbeat => sctp::heartbeat(&run.variant, run.seconds()),
            Self::SctpFailover => sctp::failover(&run.variant, run.seconds()),
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
            Self::NotsentLowat | Self::SmallQueues | Self::TsoAutosize | Self::Pacing => &[
                "veth",
                "sch_tbf",
                "sch_netem",
                "sch_fq",
                "sch_codel",
                "sch_fq_codel",
                "tcp_bbr",
                "af_packet",
            ],
            // SCTP listens only where IPv6 and HMAC came before it.
            Self::SctpHeartbeat | Self::SctpFailover => {
                &["veth", "sch_netem", "ipv6", "hmac", "sctp", "af_packet"]
            }
        }
    }
}

/// Bytes that a run may carry: the guest takes a minute for some gigabytes. And bytes that its sockets may hold of its 512 MiB.
const CARRIED_MAX: f64 = 5e9;
const HELD_MAX: f64 = 3e8;
/// Bytes that the guest carries in a second at the least, of this machine's time.
const CARRIED_PER_S: f64 = 1e7;

/// What to measure in one boot.
#[derive(Clone, Debug)]
pub struct Job {
    /// The experiment.
    pub scenario: Scenario,
    /// Its runs.
    pub runs: Vec<Run>,
    /// How often each is repeated; the median of each figure counts.
    pub repeat: u32,
}

impl Job {
    fn parse(text: &str) -> Option<Self> {
        let object: Value = serde_json::from_str(text).ok()?;
        let repeat = u32::try_from(object.get("repeat")?.as_u64()?).ok()?;
        Some(Self {
            scenario: Scenario::by_name(object.get("scenario")?.as_str()?)?,
            runs: object.get("runs")?.as_array()?.iter().map(Run::parse).collect::<Option<_>>()?,
            repeat: repeat.max(1),
        })
    }

    fn to_json(&self) -> Value {
        let runs: Vec<_> = self.runs.iter().map(Run::to_json).collect();
        json!({ "scenario": self.scenario.name(), "repeat": self.repeat, "runs": runs })
    }

    /// How long nothing may be heard of the guest, which says when each repetition begins; and how long the whole may take.
    fn patience(&self) -> Result<(Duration, Duration), String> {
        let (mut longest, mut times) = (0.0_f64, 2);
        for run in &self.runs {
            let (carried, _) = self.scenario.load(run)?;
            let (warmup, measure) = run.seconds();
            let each = 2.0 * (5.0 + warmup + measure) + self.scenario.rest().as_secs_f64();
            longest = longest.max(each + carried / CARRIED_PER_S);
            times += self.repeat;
        }
        let silence = SILENCE + Duration::from_secs_f64(longest);
        Ok((silence, silence * times))
    }
}

/// What one run measured, under the lab's names.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// The run's name.
    pub run: String,
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
            run: object.get("run")?.as_str()?.to_owned(),
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

/// What came of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ended {
    /// What its runs measured.
    pub figures: Vec<Figures>,
    /// Runs that measured nothing, and why.
    pub failed: Vec<(String, String)>,
}

/// Boots the kernel and runs the job in it, by a clock that passes only where the guest sleeps if cc is there. `program` is run inside with `words` and the job as last argument, and must
/// then call [`guest`]. A run that fails keeps none of the others: where it ended the kernel too, that is booted again for those behind it.
///
/// # Errors
/// Somebody called [`lowwater_os::program::stop`].
pub fn run(job: &Job, program: &Path, words: &[&str]) -> Result<Ended, String> {
    let mut job = job.clone();
    let mut ended = Ended::default();
    while !job.runs.is_empty() {
        let text = job.to_json().to_string();
        let args: Vec<&str> = words.iter().copied().chain([text.as_str()]).collect();
        let (silence, deadline) = job.patience()?;
        let guest =
            Guest { silence, deadline, still: can_stand_still(), ..Guest::new(job.scenario.modules()) };
        let (said, end) = guest.run_to_any_end(program, &args);
        let begun = ended.hear(&said);
        job.runs.retain(|run| !ended.has(&run.name));
        let why = match end {
            Ok(()) => "the guest said nothing of it".to_owned(),
            Err(why) if why == STOPPED => return Err(why),
            Err(why) => why,
        };
        // Without a run that it could be due to, it is the kernel or what it needs, for all of them.
        let due = |run: &Run| begun.as_ref().is_none_or(|name| *name == run.name);
        ended
            .failed
            .extend(job.runs.iter().filter(|run| due(run)).map(|run| (run.name.clone(), why.clone())));
        job.runs.retain(|run| !due(run));
    }
    Ok(ended)
}

impl Ended {
    /// Something came of this run.
    fn has(&self, run: &str) -> bool {
        self.figures.iter().any(|f| f.run == run) || self.failed.iter().any(|(name, _)| name == run)
    }

    /// Takes in what the guest said; the run that had begun and not ended, if there is one. The kernel may have ended in the middle of a line.
    fn hear(&mut self, said: &str) -> Option<String> {
        let mut begun = None;
        for line in said.lines() {
            match Said::parse(line) {
                Some(Said::Begun(run)) => begun = Some(run),
                Some(Said::Measured(figures)) => self.figures.push(figures),
                Some(Said::Failed(run, why)) => self.failed.push((run, why)),
                None => {}
            }
        }
        begun.filter(|run: &String| !self.has(run))
    }
}

/// A line of the guest.
#[derive(Debug, PartialEq)]
enum Said {
    Begun(String),
    Measured(Figures),
    Failed(String, String),
}

impl Said {
    fn parse(line: &str) -> Option<Self> {
        let object: Value = serde_json::from_str(line).ok()?;
        let run = || Some(object.get("run")?.as_str()?.to_owned());
        if object.get("begun").is_some() {
            return Some(Self::Begun(run()?));
        }
        match object.get("failed") {
            Some(why) => Some(Self::Failed(run()?, why.as_str()?.to_owned())),
            None => Figures::parse(line).map(Self::Measured),
        }
    }
}

/// The part of [`run`] that happens in the guest: runs the job in `text` and prints the figures of each variant, or why it has none.
///
/// # Errors
/// What went wrong, in a sentence.
pub fn guest(text: &str) -> Result<(), String> {
    let job = Job::parse(text).ok_or_else(|| format!("no job: {text}"))?;
    for run in &job.runs {
        let repetition = |_| {
            say(&json!({ "run": run.name, "begun": true }))?;
            job.scenario.run(run)
        };
        let runs: Result<Vec<_>, _> = (0..job.repeat).map(repetition).collect();
        say(&match runs {
            Ok(measured) => json!({ "run": run.name, "figures": medians(&measured) }),
            Err(why) => json!({ "run": run.name, "failed": why }),
        })?;
    }
    Ok(())
}

/// A line that the host has, whatever becomes of the guest after it: the guest's kernel would write it to the host's file later.
pub(crate) fn say(line: &Value) -> Result<(), String> {
    use std::os::fd::AsFd as _;
    let failed = |e: std::io::Error| format!("writing what was measured: {e}");
    println!("{line}");
    let out = std::io::stdout().as_fd().try_clone_to_owned().map_err(failed)?;
    match std::fs::File::from(out).sync_data() {
        // A pipe or a terminal keeps nothing back.
        Err(e) if e.kind() == std::io::ErrorKind::InvalidInput => Ok(()),
        other => other.map_err(failed),
    }
}

/// Name and value of what one run measured.
pub(crate) type Measured = Vec<(&'static str, f64)>;

/// The median of each figure over the runs.
fn medians(runs: &[Measured]) -> Value {
    let mut figures = serde_json::Map::new();
    for &(name, _) in runs.first().into_iter().flatten() {
        let mut values: Vec<f64> =
            runs.iter().flatten().filter(|(n, _)| *n == name).map(|(_, value)| *value).collect();
        values.retain(|value| !value.is_nan());
        values.sort_by(f64::total_cmp);
        // Per what there was nothing of: not a figure.
        if let Some(&median) = values.get(values.len() / 2) {
            figures.insert(name.to_owned(), written(median));
        }
    }
    Value::Object(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_before_a_kernel_ended_counts() {
        let mut ended = Ended::default();
        let begun = ended.hear(concat!(
            "{\"run\": \"a\", \"begun\": true}\n{\"run\": \"a\", \"figures\": {\"x\": 1.5}}\n",
            "{\"run\": \"b\", \"begun\": true}\n{\"run\": \"b\", \"failed\": \"tc: no\"}\n",
            "{\"run\": \"c\", \"begun\": true}\n{\"run\": \"c\", \"fig",
        ));
        assert_eq!(begun.as_deref(), Some("c"));
        assert_eq!(ended.figures, [Figures { run: "a".to_owned(), values: vec![("x".to_owned(), 1.5)] }]);
        assert_eq!(ended.failed, [("b".to_owned(), "tc: no".to_owned())]);
        assert!(ended.has("a") && ended.has("b") && !ended.has("c"));
    }

    /// The guest's program is a shell here, which says what [`guest`] would: the kernel goes in the first run, the program fails in the second.
    #[test]
    fn a_run_that_ends_the_kernel_ends_no_other() {
        if !crate::present() {
            return;
        }
        let run = |name: &str| {
            let name = name.to_owned();
            Run { name, variant: "rto-min-200ms".to_owned(), ..Run::default() }
        };
        let runs = vec![run("first"), run("second"), run("third")];
        let job = Job { scenario: Scenario::SctpFailover, runs, repeat: 1 };
        let script = r#"begun() { echo "{\"run\": \"$1\", \"begun\": true}"; }
            case "$0" in
            *'[{"name":"first"'*) begun first; halt -f -p; sleep 9 ;;
            *'[{"name":"second"'*) begun second; echo "no veth" >&2; exit 3 ;;
            *) begun third; echo '{"run": "third", "figures": {"x": 2}}' ;;
            esac"#;
        let ended = super::run(&job, Path::new("/bin/sh"), &["-c", script]).expect("nobody stops it");
        assert_eq!(ended.figures, [Figures { run: "third".to_owned(), values: vec![("x".to_owned(), 2.0)] }]);
        let [(first, gone), (second, code)] = &ended.failed[..] else { panic!("{ended:?}") };
        assert_eq!((first.as_str(), second.as_str()), ("first", "second"));
        assert!(gone.starts_with("the kernel ended before its command did"), "{gone}");
        assert_eq!(code, "exit code 3 in the guest: no veth");
    }

    /// Nothing says which run it is due to: it is said of all.
    #[test]
    fn what_does_not_begin_fails_for_all() {
        if !crate::present() {
            return;
        }
        let run = |name: &str| Run { name: name.to_owned(), variant: "default".to_owned(), ..Run::default() };
        let job = Job { scenario: Scenario::SctpFailover, runs: vec![run("a"), run("b")], repeat: 1 };
        let ended = super::run(&job, Path::new("/bin/false"), &[]).expect("nobody stops it");
        let why = "exit code 1 in the guest: ".to_owned();
        assert_eq!(ended.failed, [("a".to_owned(), why.clone()), ("b".to_owned(), why)]);
    }

    #[test]
    fn what_never_came_is_told_from_what_was_not_measured() {
        let figures = medians(&[vec![("a", 1.5), ("b", f64::INFINITY), ("c", f64::NAN)]]);
        let line = json!({ "run": "x", "figures": figures }).to_string();
        let figures = Figures::parse(&line).expect("as written");
        assert_eq!(
            (figures.get("a"), figures.get("b"), figures.get("c")),
            (Some(1.5), Some(f64::INFINITY), None)
        );
        assert_eq!(Figures::parse(r#"{"run": "x", "figures": {"a": null}}"#), None);
    }
}
