//! The first step after which two runs of a program differ.
use super::counts;
use super::pace::{self, Field, SLACK, most_late};
use super::packet::Seen;
use super::program::Program;
use super::trace::{Done, FIELDS, TIMES, Trace, Values};

/// Timers of the kernel that are due within so many microseconds may fire at once.
const TICK: u64 = 10_000;

/// A step and what differs after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) step: usize,
    pub(super) what: String,
    /// Moments decide it: where the step comes a few milliseconds earlier or later, or a timer is as late as the kernel's, both do the same.
    pub(super) border: bool,
    /// The kernel has sent less: it was waited for in vain, which made the next step late.
    pub(super) in_vain: bool,
}

/// Where a run on the kernel first does something else than `stack`.
pub(super) fn difference(program: &Program, stack: &Trace, run: &Trace) -> Option<Difference> {
    let pairs = stack.steps.iter().zip(&run.steps).zip(&program.steps);
    pairs.enumerate().find_map(|(number, ((stack, kernel), step))| {
        let now = at_once(stack, kernel);
        let border = now.is_none()
            && (may_be_late(step.at, stack, kernel, next_ns(run, number))
                || crossed(&stack.later, &kernel.later));
        let what = now.or_else(|| later(step.at, stack, kernel))?;
        let all = kernel.later.len();
        let in_vain = stack.later.len() > all && same(&stack.later[..all], &kernel.later);
        Some(Difference { step: number, what: format!("{}: {what}", step.act), border, in_vain })
    })
}

/// When the step behind `number` came, in nanoseconds.
fn next_ns(run: &Trace, number: usize) -> u64 {
    run.steps.get(number + 1).map_or(run.end_ns, |next| next.at_ns)
}

/// The kernel has sent less until the next step, but what a timer of the stack made leave is so near to that step that the kernel's timer,
/// which may be late by its share of the time that it was set for, can have come behind it.
fn may_be_late(step: u64, stack: &Done, kernel: &Done, next_ns: u64) -> bool {
    let all = kernel.later.len();
    let Some(out) = stack.later.get(all).filter(|_| same(&stack.later[..all], &kernel.later)) else {
        return false;
    };
    let waited = out.waited.unwrap_or(out.at.saturating_sub(step));
    (kernel.late + out.at + most_late(waited)) * 1_000 >= next_ns
}

/// Two timers were due one after the other, and the kernel's first was as late as the second: an acknowledgement left by itself there which
/// on the stack went with what the first timer sent.
fn crossed(stack: &[Seen], kernel: &[Seen]) -> bool {
    let bare = |seen: &Seen| !seen.is_data() && !seen.flags.rst();
    let alone =
        kernel.iter().position(bare).filter(|at| kernel.len() == stack.len() + 1 && *at < stack.len());
    alone.is_some_and(|at| {
        kernel[at].ack == stack[at].ack
            && kernel[at + 1].at.saturating_sub(kernel[at].at) <= TICK
            && same(&stack[..at], &kernel[..at])
            && same(&stack[at..], &kernel[at + 1..])
    })
}

fn at_once(stack: &Done, kernel: &Done) -> Option<String> {
    if stack.ret != kernel.ret {
        return Some(format!("result: stack {}, kernel {}", stack.ret, kernel.ret));
    }
    if !same(&stack.at_once, &kernel.at_once) {
        return Some(format!("sent: stack {}, kernel {}", list(&stack.at_once), list(&kernel.at_once)));
    }
    fields(&stack.info, &kernel.info).or_else(|| counts::differ(&stack.counts, &kernel.counts))
}

fn later(at: u64, stack: &Done, kernel: &Done) -> Option<String> {
    if !same(&stack.later, &kernel.later) {
        return Some(format!("later: stack {}, kernel {}", list(&stack.later), list(&kernel.later)));
    }
    if let Some((s, k)) = pace::off(at, &stack.later, &kernel.later) {
        return Some(format!("{s}: stack {} us, kernel {} us", s.at, k.at));
    }
    fields(&stack.info_later, &kernel.info_later)
        .map(|what| format!("later: {what}"))
        .or_else(|| times(&stack.times, &kernel.times))
}

fn same(stack: &[Seen], kernel: &[Seen]) -> bool {
    stack.len() == kernel.len() && stack.iter().zip(kernel).all(|(s, k)| s.same(k))
}

fn list(all: &[Seen]) -> String {
    let echo = |seen: &Seen| seen.echo.map_or_else(String::new, |echo| format!(" ecr {echo}"));
    let texts: Vec<String> = all.iter().map(|seen| format!("{seen}{}", echo(seen))).collect();
    format!("[{}]", texts.join(", "))
}

fn fields(stack: &Values, kernel: &Values) -> Option<String> {
    let differ = FIELDS.iter().zip(stack.iter().zip(kernel)).filter(|(_, (s, k))| s != k);
    let all: Vec<String> =
        differ.map(|((name, ..), (s, k))| format!("{name}: stack {s}, kernel {k}")).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn times(stack: &Values, kernel: &Values) -> Option<String> {
    let off = |((name, ..), (s, k)): (&Field, (&u64, &u64))| {
        let share = if *name == "rttvar" { 3 } else { 8 };
        (s.abs_diff(*k) > s / share + SLACK).then(|| format!("{name}: stack {s} us, kernel {k} us"))
    };
    TIMES.iter().zip(stack.iter().zip(kernel)).find_map(off)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Flavours;
    use crate::draw::stack::HEADERS;

    #[test]
    fn a_run_equals_itself_and_what_is_changed_shows() {
        let program = crate::draw::author::program(3, &Flavours::parse("spike").expect("a word"), HEADERS)
            .expect("a program");
        let run = || {
            let mut stack = crate::draw::stack::Stack::new(HEADERS).expect("a stack");
            crate::draw::trace::run(&mut stack, &program, None).expect("a run")
        };
        let (trace, mut other) = (run(), run());
        assert_eq!(difference(&program, &trace, &other), None);
        let cwnd = FIELDS.iter().position(|(name, ..)| *name == "snd_cwnd").expect("cwnd");
        other.steps[1].info[cwnd] += 1;
        let found = difference(&program, &trace, &other).expect("a difference");
        assert!(found.step == 1 && found.what.contains("snd_cwnd"), "{found:?}");
        let mut other = run();
        let asked = other.steps.iter().position(|step| !step.counts.is_empty()).expect("time to ask");
        let count = other.steps[asked].counts.iter_mut().find(|(name, _)| name == "TcpInSegs");
        count.expect("a counter").1 += 1;
        let found = difference(&program, &trace, &other).expect("a difference");
        assert!(found.step == asked && found.what.contains("TcpInSegs: stack "), "{found:?}");
        let mut other = run();
        let late = other.steps.iter().rposition(|step| !step.later.is_empty()).expect("a timer");
        let due_ns = other.steps[late].later.pop().expect("what it sent").at * 1_000;
        for (next_ns, border) in [(due_ns + 8_000_000, true), (due_ns + 8_000_000_000, false)] {
            other.end_ns = next_ns;
            if let Some(next) = other.steps.get_mut(late + 1) {
                next.at_ns = next_ns;
            }
            let found = difference(&program, &trace, &other).expect("a difference");
            assert_eq!((found.step, found.border), (late, border), "{found:?}");
        }
        let ours = &trace.steps[late].later;
        let mut other = ours.clone();
        assert!(!crossed(ours, &other));
        other.insert(0, Seen { len: 0, ..other[0].clone() });
        assert!(crossed(ours, &other));
        other[0].at = other[0].at.saturating_sub(TICK + 1);
        assert!(!crossed(ours, &other));
        let mut other = run();
        let sent = other.steps.iter().position(|step| !step.at_once.is_empty()).expect("something sent");
        other.steps[sent].at_once[0].echo = Some(7);
        let found = difference(&program, &trace, &other).expect("a difference");
        assert!(found.step == sent && found.what.contains(" ecr 7"), "{found:?}");
        let mut other = run();
        other.steps[0].ret += 1;
        assert_eq!(difference(&program, &trace, &other).map(|d| d.step), Some(0));
    }

    /// Whether a timer of a step is told as perhaps late, whose packet the kernel has not sent when the next step comes so many microseconds
    /// after it was due.
    fn late(seed: u64, words: &str, (step, timer): (usize, usize), us: u64) -> bool {
        let program = crate::draw::author::program(seed, &Flavours::parse(words).expect("words"), HEADERS);
        let program = program.expect("a program");
        let mut stack = crate::draw::stack::Stack::new(HEADERS).expect("a stack");
        let trace = crate::draw::trace::run(&mut stack, &program, None).expect("a run");
        let mut other = trace.clone();
        let due = other.steps[step].later[timer].at;
        other.steps[step].later.truncate(timer);
        let next = (due + us) * 1_000;
        match other.steps.get_mut(step + 1) {
            Some(next_step) => next_step.at_ns = next,
            None => other.end_ns = next,
        }
        let found = difference(&program, &trace, &other).expect("a difference");
        assert_eq!(found.step, step, "{found:?}");
        found.border
    }

    #[test]
    fn a_timer_is_late_by_its_share_of_the_time_that_it_was_set_for() {
        // A timeout of a second that was set long before the step, 21 ms before it was due.
        assert!(late(151_320, "sack,ecn", (32, 0), 100_000));
        assert!(!late(151_320, "sack,ecn", (32, 0), 400_000));
        // The third in a row is due 4.8 s behind the step, and was set for 2.75 s.
        assert!(late(36, "even,spike", (4, 2), 350_000));
        assert!(!late(36, "even,spike", (4, 2), 500_000));
    }

    #[test]
    fn a_timer_that_was_set_at_a_step_is_not_excused_for_what_was_set_before() {
        // The share of its own time and no more: 60 ms for whatever may have been set long before passed what no wheel explains.
        let program =
            crate::draw::author::program(36, &Flavours::parse("even,spike").expect("words"), HEADERS);
        let program = program.expect("a program");
        let mut stack = crate::draw::stack::Stack::new(HEADERS).expect("a stack");
        let trace = crate::draw::trace::run(&mut stack, &program, None).expect("a run");
        let own = |(step, done): (usize, &Done)| {
            let out = done.later.first()?;
            let since = out.at - program.steps[step].at;
            (out.waited? <= since && since < 250_000 && done.later.len() == 1).then_some(step)
        };
        let step = trace.steps.iter().enumerate().find_map(own).expect("a timer");
        let late = |us| {
            let mut other = trace.clone();
            other.steps[step].later[0].at += us;
            difference(&program, &trace, &other)
        };
        assert_eq!(late(30_000), None);
        let found = late(60_000).expect("a difference");
        assert!(found.step == step && found.what.contains(" us, kernel "), "{found:?}");
        // What one timer is late by, the next one may be as well.
        let many = trace.steps.iter().position(|done| done.later.len() > 1).expect("timers");
        let mut other = trace.clone();
        other.steps[many].later.iter_mut().for_each(|out| out.at += 20_000);
        assert_eq!(difference(&program, &trace, &other), None);
    }
}
