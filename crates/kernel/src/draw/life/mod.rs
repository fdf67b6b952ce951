//! Drawn lives: the application's calls and the peer's segments in any order, from the handshake to the end.
//!
//! Where drawn connections look at recovery, these look at everything else: states, windows, timers of silence, options, answers to
//! what no peer should send. After every step what was sent is compared with its window and options, readiness, and 32 fields of
//! TCP_INFO.
mod author;
mod end;
mod moves;
mod opening;
mod peer;
mod program;
mod script;
mod trace;

use super::compare::Difference;
use super::program::Flavours;
use super::stack::Stack;
use lowwater_drill::Target;

/// A drawn life, and what the stack does.
pub(super) struct Life {
    program: program::Program,
    stack: trace::Trace,
}

/// A run on the kernel.
pub(super) struct Run(trace::Trace);

impl Life {
    /// The life of a seed.
    pub(super) fn draw(seed: u64, words: &Flavours) -> Result<Self, String> {
        let program = author::program(seed, words)?;
        let stack = trace::run(&mut Stack::new()?, &program, None)?;
        Ok(Self { program, stack })
    }

    /// How many steps it has.
    pub(super) fn steps(&self) -> usize {
        self.program.steps.len()
    }

    /// Runs it on something else, and from which step on that came too late.
    pub(super) fn run<T: Target>(&self, target: &mut T) -> Result<(Run, Option<usize>), String> {
        let run = trace::run(target, &self.program, Some(&self.stack))?;
        let disturbed = run.disturbed;
        Ok((Run(run), disturbed))
    }

    /// Where that differs from the stack.
    pub(super) fn difference(&self, run: &Run) -> Option<Difference> {
        trace::difference(&self.program, &self.stack, &run.0)
    }

    /// What was done up to a step, as a script.
    pub(super) fn script(&self, run: &Run, steps: usize) -> String {
        script::text(&self.program, &run.0, steps)
    }
}
