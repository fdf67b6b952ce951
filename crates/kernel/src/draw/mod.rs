//! Drawn connections: a program of writes and acknowledgements comes from a seed, runs on the stack and on the kernel, and after
//! every step what was sent, the times and TCP_INFO are compared.
//!
//! The peer of a program is a receiver behind a link that loses, reorders, duplicates and delays; it is drawn against the stack,
//! whose clock is virtual, so the same seed makes the same program. Acknowledgements keep away from the stack's timers, since
//! the kernel's are late.
mod author;
mod compare;
mod network;
mod packet;
mod peer;
mod program;
mod receiver;
mod script;
mod stack;
mod trace;

pub use program::{FLAVOURS, Flavours};

use crate::Kernel;
use compare::Difference;
use trace::Trace;

/// Runs on the kernel that may be disturbed for each that counts.
const DISTURBED_MAX: usize = 4;

/// What a seed showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Steps of the program.
    pub steps: usize,
    /// Where the stack and the kernel differ first, if they do.
    pub finding: Option<Finding>,
    /// No run on the kernel came through in time, so nothing is known.
    pub disturbed: bool,
}

/// A step after which the stack and the kernel differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its number.
    pub step: usize,
    /// What differs, in a line.
    pub what: String,
    /// What the kernel did up to there, as a script; the stack fails it.
    pub script: String,
}

/// Draws the program of a seed and runs it on the stack and on the kernel, up to `attempts` times until both do the same. A run in
/// which a step came late, since the machine was busy, counts only where both did the same.
///
/// # Errors
/// What the kernel lacks, in a sentence.
pub fn draw(seed: u64, flavours: &Flavours, attempts: usize) -> Result<Drawn, String> {
    let program = author::program(seed, flavours)?;
    let stack = trace::run(&mut stack::Stack::new()?, &program, None)?;
    let steps = program.steps.len();
    let mut best: Option<(Difference, Trace)> = None;
    let (mut left, mut counted) = (attempts.max(1) * DISTURBED_MAX, 0);
    while left > 0 && counted < attempts.max(1) {
        left -= 1;
        let kernel = on_kernel(&program, &stack)?;
        let Some(found) = compare::difference(&program, &stack, &kernel) else {
            return Ok(Drawn { steps, finding: None, disturbed: false });
        };
        if kernel.disturbed.is_some_and(|from| from <= found.step + 1) {
            continue;
        }
        counted += 1;
        // The run that agrees longest says most.
        if best.as_ref().is_none_or(|(last, _)| last.step < found.step) {
            best = Some((found, kernel));
        }
    }
    let finding = best.map(|(found, kernel)| {
        let script = script::text(&program, &kernel, found.step + 1);
        Finding { step: found.step, what: found.what, script }
    });
    Ok(Drawn { steps, disturbed: finding.is_none(), finding })
}

/// On a thread of its own, since that moves into a namespace.
fn on_kernel(program: &program::Program, like: &Trace) -> Result<Trace, String> {
    let run = || trace::run(&mut Kernel::new(&stack::world())?, program, Some(like));
    std::thread::scope(|s| match s.spawn(run).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

#[cfg(test)]
mod tests;
