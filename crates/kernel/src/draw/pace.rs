//! Steps at their times on any target, which may be late: what runs of programs and of lives have in common.
use lowwater_core::base::{Duration, Instant};
use lowwater_drill::Target;

/// A step that comes later than this, in microseconds, comes to something else than the program meant: acknowledgements leave too
/// little between them, and the reordering timer is as near.
pub(super) const DISTURBED: u64 = 4_000;
/// For how much longer than a timer of the kernel may take it is waited for, in microseconds, so that one that is too late shows as that.
const PATIENCE: u64 = 40_000;
/// The kernel may be so early or late, in microseconds, beyond a share of the time.
pub(super) const SLACK: u64 = 12_000;
/// A timer of which nobody knows when it was set may be so late, in microseconds, beyond a seventh of the time since the step.
const TIMER_SLACK: u64 = 60_000;

/// How late a timer of the kernel may be, in microseconds, beyond a share of its time: two ticks at 250 Hz.
const TICKS: u64 = 8_000;

/// Packets that one step may make leave: more is a storm.
const STORM: usize = 5_000;

/// What happens when, in microseconds since the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step<A> {
    pub(super) at: u64,
    pub(super) act: A,
}

/// Something that was sent.
pub(super) trait Timed {
    /// Microseconds since the beginning.
    fn at(&self) -> u64;

    /// For how many microseconds the timer had been set that sent it, where that is known.
    fn waited(&self) -> Option<u64>;

    /// The timer that sent it had been set for so long.
    fn note(&mut self, waited: Option<u64>);
}

/// A target on which steps run.
pub(super) trait Paced {
    type Out: Timed;

    /// The target, and when its first step was due.
    fn parts(&mut self) -> (&mut dyn Target, &mut Instant);

    /// What is sent next, until then.
    fn next_until(&mut self, limit: Instant) -> Option<Self::Out>;

    /// Everything that was sent until now.
    fn collect(&mut self) -> Vec<Self::Out> {
        let now = self.parts().0.now();
        core::iter::from_fn(|| self.next_until(now)).take(STORM).collect()
    }
}

/// Waits until `at`; true when that was missed by so much that what follows shows nothing.
pub(super) fn reach(on: &mut impl Paced, at: u64) -> bool {
    let (target, base) = on.parts();
    let at = *base + Duration::from_micros(at);
    target.advance_until(at);
    target.now().nanos_since(at) > DISTURBED * 1_000
}

/// Lets the time between a step and the next one pass: what timers make leave. As much as is `expected`, which another run showed, is waited
/// for, and everything behind it is as late as that was.
pub(super) fn pass<P: Paced>(on: &mut P, (step, next): (u64, u64), expected: &[P::Out]) -> Vec<P::Out> {
    let (mut late, mut got) = (0, Vec::new());
    for like in expected {
        let patience = like.at() + late + allowance(step, like) + PATIENCE;
        let limit = *on.parts().1 + Duration::from_micros(patience);
        if let Some(out) = on.next_until(limit) {
            late = out.at().saturating_sub(like.at());
            got.push(out);
        }
    }
    let (target, base) = on.parts();
    target.advance_until(*base + Duration::from_micros(next + late));
    got.extend(on.collect());
    *on.parts().1 += Duration::from_micros(late);
    got
}

/// Everything behind the next step is later by so many microseconds: what timers make leave in that time.
pub(super) fn linger<P: Paced>(on: &mut P, next: u64, late: u64) -> Vec<P::Out> {
    let (target, base) = on.parts();
    target.advance_until(*base + Duration::from_micros(next + late));
    let got = on.collect();
    *on.parts().1 += Duration::from_micros(late);
    got
}

/// How late the kernel may send what a timer of the stack's has sent after a step, in microseconds: a share of the time for which that was set,
/// and no more than for one of which nobody knows that.
fn allowance(step: u64, out: &impl Timed) -> u64 {
    let most = most(step, out);
    out.waited().map_or(most, |waited| (most_late(waited) + SLACK).min(most))
}

/// However late others were before.
fn most(step: u64, out: &impl Timed) -> u64 {
    out.at().saturating_sub(step) / 7 + TIMER_SLACK
}

/// The first of what both sent after a step that the kernel sent at another time than timers that are late explain; what is late makes
/// everything behind it as late.
pub(super) fn off<'a, O: Timed>(step: u64, stack: &'a [O], kernel: &'a [O]) -> Option<(&'a O, &'a O)> {
    let mut late = 0;
    stack.iter().zip(kernel).find(|(s, k)| {
        let most = (late + allowance(step, *s)).min(most(step, *s));
        late = k.at().saturating_sub(s.at());
        k.at() + SLACK < s.at() || late > most
    })
}

/// How much later than due, in microseconds, the kernel's timer may have sent what left so many microseconds after a step.
pub(super) const fn most_late(since: u64) -> u64 {
    TICKS + since / 7
}

/// How late, in microseconds, a timer of the kernel usually is that was so far away: its wheel rounds up to a tick, or an eighth.
pub(super) const fn usual_delay(away: u64) -> u64 {
    TICKS / 2 + away / 16
}

/// A field of a structure: name, offset and length.
pub(super) type Field = (&'static str, usize, usize);

/// The value of a field, 0 where the structure is too short.
pub(super) fn value(info: &[u8], (_, at, len): Field) -> u64 {
    let mut word = [0; 8];
    if let Some(bytes) = info.get(at..at + len) {
        word[..len].copy_from_slice(bytes);
    }
    u64::from_le_bytes(word)
}
