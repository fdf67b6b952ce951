//! Drawn connections: a program of writes and acknowledgements comes from a seed, runs on the stack and on the kernel, and after
//! every step what was sent, the times and TCP_INFO are compared.
//!
//! The peer of a program is a receiver behind a link that loses, reorders, duplicates and delays; it is drawn against the stack,
//! whose clock is virtual, so the same seed makes the same program. Acknowledgements keep away from the stack's timers, since
//! the kernel's are late.
mod author;
mod compare;
mod counts;
mod headers;
mod life;
mod network;
mod pace;
mod packet;
mod peer;
mod program;
mod receiver;
mod script;
mod stack;
mod trace;

pub use program::{FLAVOURS, Flavours, LIVES};

use crate::Kernel;
use compare::Difference;
use program::{Act, Program};
use trace::{Moved, Trace};

/// Runs on the kernel that may be disturbed for each that counts.
const DISTURBED_MAX: usize = 4;

/// By how much a step may be earlier or later on the kernel than it was seen to be, in microseconds.
const MOMENTS: [i64; 4] = [-300, -100, 100, 300];
/// How far apart, in microseconds, what one step lets out may leave on the kernel.
const APART: [u64; 5] = [5, 15, 40, 100, 200];

/// What a seed showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Steps of the program.
    pub steps: usize,
    /// Where the stack and the kernel differ first, if they do.
    pub finding: Option<Finding>,
    /// No run on the kernel came through in time, or moments decided what it did, so nothing is known.
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
/// which a step came late, since the machine was busy, or in which a moment decided what happened, counts only where both did the same.
///
/// # Errors
/// What the kernel lacks, in a sentence.
pub fn draw(seed: u64, flavours: &Flavours, attempts: usize) -> Result<Drawn, String> {
    let headers = headers::of_host()?;
    if flavours.is_life() {
        let life = life::Life::draw(seed, flavours, headers)?;
        let run = |kernel: &mut Kernel| life.run(kernel);
        let best = search(life.place(), attempts, run, |run| life.difference(run))?;
        let script = |run: &life::Run, steps| life.script(run, steps);
        return Ok(drawn(life.steps(), best, script));
    }
    let program = author::program(seed, flavours, headers)?;
    let stack = trace::run(&mut stack::Stack::new(headers)?, &program, None)?;
    let run = |kernel: &mut Kernel| {
        let mut run = trace::run(kernel, &program, Some(&stack))?;
        (run.tick_ns, run.past_tick_ns) = (Kernel::tick_ns(), kernel.past_tick_ns(run.begun));
        let disturbed = run.disturbed;
        Ok((run, disturbed))
    };
    let best = search(stack::Place::default(), attempts, run, |run| different(&program, &stack, run))?;
    Ok(drawn(program.steps.len(), best, |run, steps| script::text(&program, run, steps)))
}

/// Where a run on the kernel first differs from `stack`, and from what the stack does at the times at which the kernel's steps and timers really
/// came.
fn different(program: &Program, stack: &Trace, run: &Trace) -> Option<Difference> {
    let found = compare::difference(program, stack, run)?;
    let Ok(again) = trace::replay(program, run, Moved::default(), None) else { return Some(found) };
    let found = compare::difference(program, &again, run)?;
    let border = found.border || is_border(program, &again, run, found.step);
    Some(Difference { border, ..found })
}

/// Whether the time that code takes decides what a step does: the stack does as that run did where the step, or one before it, comes by that
/// much earlier or later (RACK compares the round trip of a retransmission with the least one); or what a step let out leaves some microseconds
/// apart, as on the kernel (RACK's reordering window is as short after a SACK of what had just left). `plain` is the replay without either.
fn is_border(program: &Program, plain: &Trace, run: &Trace, step: usize) -> bool {
    let alike = |moment| {
        trace::replay(program, run, moment, Some(plain)).is_ok_and(|moved| {
            compare::difference(program, &moved, run).is_none_or(|other| other.step > step)
        })
    };
    let apart = |apart, only| Moved { apart, only, ..Moved::default() };
    let moved = |from| MOMENTS.map(|by| Moved { from, by, ..Moved::default() });
    let pushes = pushes(program, plain, step).flat_map(|only| APART.map(|us| apart(us, Some(only))));
    let all = APART.map(|us| apart(us, None)).into_iter().chain((0..=step).rev().flat_map(moved));
    all.chain(pushes).any(alike)
}

/// Each packet behind the first of each write up to a step: a push may have begun there (`tcp_sendmsg_locked`).
fn pushes(program: &Program, plain: &Trace, step: usize) -> impl Iterator<Item = (usize, usize)> {
    let steps = program.steps.iter().zip(&plain.steps).enumerate().take(step + 1);
    let writes = steps.filter(|(_, (step, _))| matches!(step.act, Act::Write(_)));
    writes.flat_map(|(number, (_, done))| (1..done.parts.0).map(move |packet| (number, packet)))
}

/// What runs on the kernel came to.
enum Best<R> {
    /// One did the same.
    Alike,
    /// The run that agrees longest, which says most; none where all were disturbed.
    Differs(Option<(Difference, R)>),
}

/// Runs on the kernel until one does the same; each tells from which step on it came late.
fn search<R: Send>(
    place: stack::Place,
    attempts: usize,
    run: impl Fn(&mut Kernel) -> Result<(R, Option<usize>), String> + Sync,
    difference: impl Fn(&R) -> Option<Difference>,
) -> Result<Best<R>, String> {
    let mut best: Option<(Difference, R)> = None;
    let (mut left, mut counted) = (attempts.max(1) * DISTURBED_MAX, 0);
    while left > 0 && counted < attempts.max(1) {
        left -= 1;
        let (kernel, disturbed) = on_kernel(place, &run)?;
        let Some(found) = difference(&kernel) else {
            return Ok(Best::Alike);
        };
        let needed = if found.in_vain { found.step } else { found.step + 1 };
        if found.border || disturbed.is_some_and(|from| from <= needed) {
            continue;
        }
        counted += 1;
        if best.as_ref().is_none_or(|(last, _)| last.step < found.step) {
            best = Some((found, kernel));
        }
    }
    Ok(Best::Differs(best))
}

fn drawn<R>(steps: usize, best: Best<R>, script: impl Fn(&R, usize) -> String) -> Drawn {
    let Best::Differs(best) = best else {
        return Drawn { steps, finding: None, disturbed: false };
    };
    let finding = best.map(|(found, kernel)| {
        let script = script(&kernel, found.step + 1);
        Finding { step: found.step, what: found.what, script }
    });
    Drawn { steps, disturbed: finding.is_none(), finding }
}

/// On a thread of its own, since that moves into a namespace.
fn on_kernel<R: Send>(
    place: stack::Place,
    run: impl Fn(&mut Kernel) -> Result<R, String> + Sync,
) -> Result<R, String> {
    let run = || run(&mut Kernel::new(&place.world())?);
    std::thread::scope(|s| match s.spawn(run).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

#[cfg(test)]
mod tests;
