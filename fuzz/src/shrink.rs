//! Runs one case behind a wall that catches panics, notices hangs, and leaves out the steps that do not matter.
use crate::world::World;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What is run.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Decides everything.
    pub(crate) seed: u64,
    /// These steps alone; `None` for all.
    pub(crate) only: Option<Vec<u32>>,
    /// Print each step.
    pub(crate) trace: bool,
}

/// What went wrong.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// In which step; the end of a case counts as the step after its last one.
    pub(crate) step: u32,
    /// The broken law, or the panic's message and place.
    pub(crate) what: String,
}

/// The longest that a case may take on the wall before it counts as a hang.
const HANG: Duration = Duration::from_secs(30);
/// Attempts to leave out steps.
const ATTEMPTS: u32 = 400;

/// The case at work plus one, 0 for none; the watchdog reads it.
static AT_WORK: AtomicU64 = AtomicU64::new(0);
static CASES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps the message of a panic instead of printing it, unless asked to do both.
pub(crate) fn quiet_panics(print: bool) {
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let payload = info.payload();
        let text = payload
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        PANIC.with(|p| *p.borrow_mut() = format!("panic at {place}: {text}"));
        if print {
            default(info);
        }
    }));
}

/// Ends the program when one case takes too long: an endless loop inside of the stack cannot be caught otherwise.
pub(crate) fn watch_for_hangs() {
    std::thread::spawn(|| {
        let mut last = 0;
        loop {
            std::thread::sleep(HANG);
            let (case, seed) = (CASES.load(Ordering::Relaxed), AT_WORK.load(Ordering::Relaxed));
            if case == last && seed > 0 {
                let seed = seed - 1;
                println!("fuzz: FAILED at seed {seed}: no end after {} s", HANG.as_secs());
                println!("replay: cargo xtask fuzz --seed {seed} --trace");
                std::process::exit(1);
            }
            last = case;
        }
    });
}

/// What cases that passed have exercised, so that a fuzzer that hits nothing shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reach {
    pub(crate) steps: u64,
    pub(crate) segments: u64,
    pub(crate) connections: u64,
    pub(crate) datagrams: u64,
    pub(crate) drops: u64,
    pub(crate) associations: u64,
    pub(crate) chunks: u64,
    /// SCTP packets of no association.
    pub(crate) blue: u64,
}

impl std::ops::AddAssign for Reach {
    fn add_assign(&mut self, o: Self) {
        self.steps += o.steps;
        self.segments += o.segments;
        self.connections += o.connections;
        self.datagrams += o.datagrams;
        self.drops += o.drops;
        self.associations += o.associations;
        self.chunks += o.chunks;
        self.blue += o.blue;
    }
}

/// Runs the case; what it reached.
pub(crate) fn attempt(case: &Case) -> Result<Reach, Failure> {
    CASES.fetch_add(1, Ordering::Relaxed);
    AT_WORK.store(case.seed + 1, Ordering::Relaxed);
    let mut step = 0;
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(case.seed, case.trace);
        let chosen: Vec<u32> = match &case.only {
            Some(only) => only.clone(),
            None => (0..world.steps).collect(),
        };
        for n in &chosen {
            step = *n;
            world.step(*n)?;
        }
        step = world.steps;
        world.finish()?;
        Ok(world.reach(chosen.len()))
    }));
    AT_WORK.store(0, Ordering::Relaxed);
    match outcome {
        Ok(Ok(reach)) => Ok(reach),
        Ok(Err(what)) => Err(Failure { step, what }),
        Err(_) => Err(Failure { step, what: PANIC.with(|p| p.borrow().clone()) }),
    }
}

/// The same failure needs the same words up to the numbers in it.
pub(crate) fn alike(a: &str, b: &str) -> bool {
    let plain = |s: &str| s.chars().filter(|c| !c.is_ascii_digit()).take(60).collect::<String>();
    plain(a) == plain(b)
}

/// Steps that suffice for the failure, found by leaving out ever smaller pieces.
pub(crate) fn shrink(case: &Case, failure: &Failure) -> (Vec<u32>, Failure) {
    let mut steps: Vec<u32> = (0..=failure.step).collect();
    let (mut last, mut piece, mut left) = (failure.clone(), steps.len() / 2, ATTEMPTS);
    while piece > 0 && left > 0 {
        let mut at = 0;
        while at < steps.len() && left > 0 {
            let end = (at + piece).min(steps.len());
            let mut fewer = steps.clone();
            fewer.drain(at..end);
            left -= 1;
            match attempt(&Case { seed: case.seed, only: Some(fewer.clone()), trace: false }) {
                Err(f) if alike(&f.what, &failure.what) => (steps, last) = (fewer, f),
                _ => at = end,
            }
        }
        piece /= 2;
    }
    (steps, last)
}
