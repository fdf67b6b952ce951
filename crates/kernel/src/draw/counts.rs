//! TCP's counters after a step, and how those of the stack and the kernel differ.
use lowwater_drill::Target;

/// What follows a step by less than so many microseconds is not made late by what the kernel takes to tell its counters.
pub(super) const IDLE: u64 = 5_000;

/// Names as `nstat` has them, and by how much they have moved; none where there was no time to ask.
pub(super) type Counts = Vec<(String, u64)>;

/// Those after a step at `at`, behind which the next is at `next`.
///
/// # Errors
/// They cannot be read: what is not compared would seem alike.
pub(super) fn of<T: Target>(target: &mut T, (at, next): (u64, u64)) -> Result<Counts, String> {
    if next.saturating_sub(at) < IDLE {
        return Ok(Counts::new());
    }
    let told = target.counters().and_then(|told| match told.is_empty() {
        true => Err("there are none".to_owned()),
        false => Ok(told),
    });
    told.map_err(|why| format!("counters cannot be compared: {why}"))
}

/// Those that differ, of which the kernel has and say something.
pub(super) fn differ(stack: &Counts, kernel: &Counts) -> Option<String> {
    if stack.is_empty() {
        return None;
    }
    let ours = |name: &str| stack.iter().find(|(ours, _)| ours == name).map_or(0, |(_, count)| *count);
    let compared = kernel.iter().filter(|(name, _)| lowwater_drill::is_compared(name));
    let differ = compared.map(|(name, count)| (name, ours(name), count)).filter(|(_, s, k)| s != *k);
    let all: Vec<String> = differ.map(|(name, s, k)| format!("{name}: stack {s}, kernel {k}")).collect();
    (!all.is_empty()).then(|| all.join("; "))
}
