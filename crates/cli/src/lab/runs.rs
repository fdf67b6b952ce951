//! Runs on all cores, reported in the order of the plan as soon as that is possible.
use super::asked::{Asked, filled};
use super::catalog::{Experiment, Measured, Variant};
use super::compare::Role;
use super::seeds::Spread;
use crate::failure::Failure;
use lowwater_sim::check::Broken;
use lowwater_sim::scenario::{Figures, Scenario};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

/// One run to be done.
#[derive(Clone)]
pub(crate) struct Plan {
    /// The experiment.
    pub(crate) experiment: &'static Experiment,
    /// The variant.
    pub(crate) variant: &'static Variant,
    /// The variant with what tells its runs apart.
    pub(crate) name: String,
    /// All chance.
    pub(crate) seed: u64,
    /// What to run.
    pub(crate) scenario: Box<dyn Scenario>,
    /// What Linux measured in this run of the lab (`--uml`).
    pub(crate) linux_now: Vec<(String, f64)>,
    /// It did so by a clock that stood still while it worked.
    pub(crate) linux_now_still: bool,
    /// Why it measured nothing there, where it should have.
    pub(crate) linux_failed: Option<String>,
    /// What was made of it.
    pub(crate) given: Given,
    /// What of `--set` takes the place of what the variant's name and words say.
    pub(crate) replaced: Vec<(String, String)>,
    /// What was asked of its experiment.
    pub(crate) asked: Arc<Asked>,
    /// What it is to the run that it is compared with.
    pub(crate) role: Role,
}

/// What `--set`, or running all experiments together, made of a run, as far as Linux's figures are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// Nothing: it is the run that Linux's figures of the catalog are of.
    Nothing,
    /// How long it takes, which Linux beside it follows.
    Times,
    /// Something else, which Linux in the catalog had not; Linux beside it follows, where it can.
    More,
}

impl Given {
    /// Parameters that say how long a run takes.
    pub(crate) const TIMES: [&str; 2] = ["warmup_s", "measure_s"];

    /// What these keys make of a run that knows them.
    pub(crate) fn of<'a>(mut keys: impl Iterator<Item = &'a str> + Clone) -> Self {
        match keys.clone().all(|key| Self::TIMES.contains(&key)) {
            false => Self::More,
            true if keys.next().is_some() => Self::Times,
            true => Self::Nothing,
        }
    }
}

/// Who measured, and what: Linux, Linux by a still clock, the commit.
pub(crate) type Then = [(&'static str, Measured); 3];

impl Plan {
    /// The name as tables and pictures have it: with what `--set` makes of the run, where the name says something else or the run is compared.
    pub(crate) fn label(&self) -> String {
        match &self.role {
            Role::Alone => self.name.clone() + &with(&self.replaced),
            Role::AsItIs if !self.asked.against.is_empty() => self.name.clone() + &with(&self.asked.against),
            Role::AsItIs => format!("{}{} as it is", self.name, with(&self.replaced)),
            Role::Changed(by) => self.name.clone() + &with(by),
        }
    }

    /// The name in a sentence: that of the catalog, where this alone does not tell the run from another.
    pub(crate) fn called(&self) -> String {
        if self.role == Role::Alone { self.name.clone() } else { self.label() }
    }

    /// What the variant is, with what takes the place of its own.
    pub(crate) fn about(&self) -> String {
        let about = self.variant.about;
        let own = |(key, _): &(String, String)| {
            self.variant.sets.iter().any(|(own, _)| own == key) && !about.contains(&format!("{{{key}}}"))
        };
        // What the variant is made of is not so any more, and its words, which have not the value of this run, would be of another one.
        if self.replaced.iter().any(own) {
            return format!("as {}, but{}", self.variant.name, with(&self.replaced));
        }
        self.filled(about) + &with(&self.replaced)
    }

    /// A text of the catalog with the parameters of this run.
    pub(crate) fn filled(&self, text: &str) -> String {
        filled(text, &*self.scenario)
    }

    /// What Linux measured of the same, the figure of this run of the lab before that of the catalog.
    pub(crate) fn linux(&self, figure: &str) -> Option<f64> {
        let of =
            |measured: Measured| measured.iter().find(|(name, _)| *name == figure).map(|(_, value)| *value);
        let now = self.linux_now.iter().find(|(name, _)| name == figure).map(|(_, value)| *value);
        match self.given {
            Given::Nothing => now.or_else(|| of(self.variant.linux)),
            Given::Times | Given::More => now,
        }
    }

    /// What stands in the catalog about the same experiment: Linux's figures by either clock, and those of the commit that it comes from. Where this run takes
    /// another time, each says so in its name: what grows or settles differs by that alone.
    pub(crate) fn then(&self) -> Then {
        let Variant { linux, still, seed, .. } = self.variant;
        match self.given {
            Given::More => [("Linux", &[]), ("Linux still", &[]), ("commit", &[])],
            Given::Nothing => [("Linux", linux), ("Linux still", still), ("commit", seed)],
            Given::Times => [("Linux full", linux), ("Linux still full", still), ("commit full", seed)],
        }
    }

    /// What of that tables and pictures have: what may not be compared would only be read as if it might, so that of a run that takes another time they have none
    /// (and a line below the table says where it is).
    pub(crate) fn beside(&self) -> Then {
        match self.given {
            // Those of runs beside it that are as long have the names without "full".
            Given::Times => [("Linux", &[]), ("Linux still", &[]), ("commit", &[])],
            Given::Nothing | Given::More => self.then(),
        }
    }

    /// The other is this run, but for the seed.
    pub(crate) fn is_of_the_same_as(&self, other: &Self) -> bool {
        (self.experiment.name, &self.name, &self.role) == (other.experiment.name, &other.name, &other.role)
    }

    /// `wanted` names this run or its variant.
    pub(crate) fn answers_to(&self, wanted: &str) -> bool {
        self.variant.name == wanted || self.name == wanted
    }
}

/// " with KEY=VALUE, ..."; nothing where nothing is set.
fn with(set: &[(String, String)]) -> String {
    let words: Vec<_> = set.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if words.is_empty() { String::new() } else { format!(" with {}", words.join(", ")) }
}

/// One run that ended.
#[derive(Clone)]
pub(crate) struct Done {
    /// What was run.
    pub(crate) plan: Plan,
    /// What it measured; with a broken promise nothing.
    pub(crate) figures: Option<Figures>,
    /// The promise that was broken.
    pub(crate) broken: Option<Broken>,
    /// How many runs these are, of several seeds.
    pub(crate) runs: usize,
    /// How far each figure went, where these are several runs.
    pub(crate) spread: Vec<Spread>,
    /// Seconds on the wall.
    pub(crate) wall_s: f64,
}

impl Done {
    /// The name of its row: where somebody stopped the runs, with how many of its seeds ended.
    pub(crate) fn label(&self) -> String {
        let (ended, wanted) = (self.runs as u64, self.plan.asked.seeds);
        let cut = if ended < wanted { format!(" ({ended} of {wanted} seeds)") } else { String::new() };
        self.plan.label() + &cut
    }

    /// Drops what is drawn over time: of several seeds it is that of the first.
    pub(crate) fn forget_samples(&mut self) {
        if let Some(figures) = &mut self.figures {
            figures.series = Vec::new();
            figures.departures = Vec::new();
        }
    }
}

/// What the printing side hears.
pub(crate) enum Event {
    /// How much of run number `.0` is complete, from 0 to 1.
    Progress(usize, f64),
    /// The next run, in the order of the plan.
    Done(Box<Done>),
}

/// Runs all plans; a run that `stop` cuts short is not reported.
pub(crate) fn run_all(
    plans: &[Plan],
    stop: &AtomicBool,
    mut on_event: impl FnMut(Event) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(plans.len());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (tell, hear) = mpsc::channel();
        for _ in 0..threads {
            let (tell, next) = (tell.clone(), &next);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(plan) = plans.get(index) else { return };
                    if let Some(done) = run_one(index, plan, stop, &tell) {
                        // Nobody hears it when printing has failed.
                        let _ = tell.send((index, Message::Done(Box::new(done))));
                    }
                }
            });
        }
        drop(tell);
        let mut waiting: Vec<Option<Box<Done>>> = plans.iter().map(|_| None).collect();
        let mut printed = 0;
        let mut outcome = Ok(());
        for (index, message) in hear {
            if outcome.is_err() {
                continue;
            }
            outcome = match message {
                Message::Progress(fraction) => on_event(Event::Progress(index, fraction)),
                Message::Done(done) => {
                    waiting[index] = Some(done);
                    let mut result = Ok(());
                    while let Some(done) = waiting.get_mut(printed).and_then(Option::take) {
                        printed += 1;
                        result = result.and_then(|()| on_event(Event::Done(done)));
                    }
                    result
                }
            };
            if outcome.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
        }
        // After a stop: what ended behind a run that did not.
        for done in waiting.into_iter().flatten() {
            outcome = outcome.and_then(|()| on_event(Event::Done(done)));
        }
        outcome
    })
}

enum Message {
    Progress(f64),
    Done(Box<Done>),
}

fn run_one(
    index: usize,
    plan: &Plan,
    stop: &AtomicBool,
    tell: &mpsc::Sender<(usize, Message)>,
) -> Option<Done> {
    let began = Instant::now();
    let mut told = began;
    let result = plan.scenario.run(&mut |fraction| {
        if told.elapsed().as_millis() >= 50 {
            told = Instant::now();
            let _ = tell.send((index, Message::Progress(fraction)));
        }
        !stop.load(Ordering::Relaxed)
    });
    if stop.load(Ordering::Relaxed) && !matches!(&result, Ok(f) if f.complete) {
        return None;
    }
    let (figures, broken) = match result {
        Ok(figures) => (Some(figures), None),
        Err(broken) => (None, Some(broken)),
    };
    let wall_s = began.elapsed().as_secs_f64();
    Some(Done { plan: plan.clone(), figures, broken, runs: 1, spread: Vec::new(), wall_s })
}
