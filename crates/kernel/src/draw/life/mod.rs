//! Drawn lives: the application's calls and the peer's segments in any order, from the handshake to the end.
//!
//! Where drawn connections look at recovery, these look at everything else: states, windows, timers of silence, options, answers to
//! what no peer should send. After every step what was sent is compared with its window and options, readiness, and 32 fields of
//! TCP_INFO.
mod author;
mod client;
mod end;
mod moves;
mod opening;
mod peer;
mod program;
mod script;
mod trace;

pub(super) use end::sndbuf;

use super::compare::Difference;
use super::program::Flavours;
use super::stack::{Place, Stack};
use lowwater_drill::Target;

/// A drawn life, and what the stack does.
pub(super) struct Life {
    program: program::Program,
    stack: trace::Trace,
}

/// A jiffy.
const JIFFY: i64 = trace::JIFFY.cast_signed();
/// By how much a step may be earlier or later than meant, in microseconds.
const MOMENTS: [i64; 5] = [0, -JIFFY, -2_000, 2_000, JIFFY];

/// For how many steps an estimate may remember a moment.
const REMEMBERED: usize = 16;

/// A run on the kernel.
pub(super) struct Run(trace::Trace);

#[cfg(test)]
impl Run {
    /// What stands for a kernel whose timers were late by so many microseconds after a step.
    pub(super) fn delay(&mut self, step: usize, us: u64) {
        self.0.steps[step].late = us;
    }

    /// What stands for a kernel that does not send what the last timer sent here; the step that it came after.
    pub(super) fn leave_out(&mut self) -> Option<usize> {
        let step = self.0.steps.iter().rposition(|done| !done.later.is_empty())?;
        self.0.steps[step].later.pop().map(|_| step)
    }

    /// The first that was sent has this TOS and TTL; the step that sent it.
    pub(super) fn mark(&mut self, header: (u8, u8)) -> Option<usize> {
        let step = self.0.steps.iter().position(|done| !done.at_once.is_empty())?;
        self.0.steps[step].at_once.first_mut()?.header = header;
        Some(step)
    }

    /// The first call that waited came back so many microseconds later, and with this, where something is said; the step.
    pub(super) fn wake(&mut self, later: u64, with: Option<&str>) -> Option<usize> {
        let step = self.0.steps.iter().position(|done| done.woken.is_some())?;
        let (at, what) = self.0.steps[step].woken.as_mut()?;
        *at += later;
        *what = with.map_or_else(|| what.clone(), str::to_owned);
        Some(step)
    }

    /// From a step on it did, at its own times, what another run did.
    pub(super) fn does_as(&mut self, step: usize, other: &Self) {
        for (own, other) in self.0.steps.iter_mut().zip(&other.0.steps).skip(step) {
            *own = trace::Done { at: own.at, ..other.clone() };
        }
    }

    /// The same with what they made leave, which came as much later.
    pub(super) fn put_off(&mut self, step: usize, us: u64) {
        self.0.steps[step].later.iter_mut().for_each(|out| out.at += us);
        self.delay(step, us);
    }
}

impl Life {
    /// The life of a seed, beside a kernel that reserves so much for headers.
    pub(super) fn draw(seed: u64, words: &Flavours, headers: u32) -> Result<Self, String> {
        let program = author::program(seed, words, headers)?;
        let stack = trace::run(&mut Stack::at(program.place)?, &program, None, None)?;
        Ok(Self { program, stack })
    }

    /// Where it is.
    pub(super) const fn place(&self) -> Place {
        self.program.place
    }

    /// How many steps it has.
    pub(super) fn steps(&self) -> usize {
        self.program.steps.len()
    }

    /// Runs it on something else, and from which step on that came too late.
    pub(super) fn run<T: Target>(&self, target: &mut T) -> Result<(Run, Option<usize>), String> {
        let run = trace::run(target, &self.program, Some(&self.stack), None)?;
        let disturbed = run.disturbed;
        Ok((Run(run), disturbed))
    }

    /// Where that differs from the stack.
    pub(super) fn difference(&self, run: &Run) -> Option<Difference> {
        let found = trace::difference(&self.program, &self.stack, &run.0)?;
        let border = self.is_border(found.step, run);
        Some(Difference { border, ..found })
    }

    /// Whether the moment of a step decides what it does: the stack does as that run did where pauses are as long as they were there, since
    /// its timers were late, or its timers are as late, and the step, or one before it, comes a little earlier or later (what the kernel
    /// estimates in jiffies shows later), a write after a silence of about the timeout by two jiffies; or a timer that was late let another one go
    /// first. Nor is what follows compared once the kernel has taken a byte of a header for the urgent one.
    fn is_border(&self, step: usize, run: &Run) -> bool {
        let alike = |moved: Run| {
            let other = trace::difference(&self.program, &moved.0, &run.0);
            other.is_none_or(|other| other.step > step)
        };
        let from = step.saturating_sub(REMEMBERED);
        let idle = trace::is_hardly_idle(&self.program, &self.stack, step).then_some((step, -2 * JIFFY));
        let moved = (from..=step).rev().flat_map(|at| MOMENTS.iter().map(move |by| (at, *by)));
        let mut moved = moved.chain(idle);
        trace::crossed(&self.program, &self.stack, &run.0, step)
            || trace::takes_header(&self.program, &self.stack, &run.0, step)
            || moved.any(|(at, by)| {
                self.moved(at, by, Some(run)).is_ok_and(alike) || self.replayed(at, by, run).is_ok_and(alike)
            })
    }

    /// What the stack does where a step and all behind it come earlier or later by so many microseconds, and pauses are as in another run.
    pub(super) fn moved(&self, step: usize, by: i64, late: Option<&Run>) -> Result<Run, String> {
        let program = self.program.moved(step, by);
        trace::run(&mut Stack::at(program.place)?, &program, None, late.map(|late| &late.0)).map(Run)
    }

    /// The same life with a step and all behind it earlier or later by so many microseconds.
    #[cfg(test)]
    pub(super) fn shifted(&self, step: usize, by: i64) -> Self {
        let program = self.program.moved(step, by);
        let stack =
            trace::run(&mut Stack::at(program.place).expect("a stack"), &program, None, None).expect("a run");
        Self { program, stack }
    }

    /// What the stack does at the times of another run, where a step and all behind it come earlier or later than there by so many microseconds.
    pub(super) fn replayed(&self, step: usize, by: i64, like: &Run) -> Result<Run, String> {
        trace::replay(&self.program, &like.0, (step, by)).map(Run)
    }

    /// What was done up to a step, as a script.
    pub(super) fn script(&self, run: &Run, steps: usize) -> String {
        script::text(&self.program, &run.0, steps)
    }
}
