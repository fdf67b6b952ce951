//! Busy polling: looking at devices again and again for a while before sleeping (`net.core.busy_poll`, SO_BUSY_POLL).
//!
//! Linux spins whenever it is told to. Here it is worth the processor only while it pays: a wait that was longer than the
//! spin ends it, and a wait that was shorter, asleep or awake, brings it back (as the halt polling of Linux's haltpoll
//! governor does).
use core::time::Duration;
use lowwater_core::base::Instant;

/// What to do while there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Look again at once.
    Look,
    /// Sleep until something comes.
    Sleep,
}

/// Decides between looking again and sleeping. It does neither itself and knows no clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct BusyPoll {
    limit: Duration,
    /// When the current wait began.
    since: Option<Instant>,
    /// The last wait was longer than the limit.
    in_vain: bool,
}

impl BusyPoll {
    /// Spins for at most `limit` per wait; zero: never.
    #[must_use]
    pub const fn new(limit: Duration) -> Self {
        Self { limit, since: None, in_vain: false }
    }

    /// It may say [`Idle::Look`]; where not, nobody needs to ask, nor to look at a clock for it.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        !self.limit.is_zero()
    }

    /// There is nothing to do `now`.
    pub fn on_nothing(&mut self, now: Instant) -> Idle {
        let since = *self.since.get_or_insert(now);
        self.in_vain |= now.since(since) >= self.limit;
        if self.in_vain { Idle::Sleep } else { Idle::Look }
    }

    /// Something has come, or is due, `now`.
    pub fn on_something(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            self.in_vain = now.since(since) >= self.limit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Idle::{Look, Sleep};

    const fn us(us: u64) -> Instant {
        Instant::from_micros(us)
    }

    fn fifty() -> BusyPoll {
        BusyPoll::new(Duration::from_micros(50))
    }

    #[test]
    fn a_limit_of_zero_never_spins() {
        let mut busy = BusyPoll::default();
        assert!(!busy.is_on() && fifty().is_on());
        for at in 0..10 {
            assert_eq!(busy.on_nothing(us(at)), Sleep);
            busy.on_something(us(at));
        }
    }

    #[test]
    fn it_looks_until_the_limit_and_then_sleeps() {
        let mut busy = fifty();
        assert_eq!(busy.on_nothing(us(1_000)), Look);
        assert_eq!(busy.on_nothing(us(1_049)), Look);
        assert_eq!(busy.on_nothing(us(1_050)), Sleep);
        assert_eq!(busy.on_nothing(us(1_051)), Sleep, "the same wait");
    }

    #[test]
    fn after_a_long_wait_it_sleeps_at_once_until_a_wait_was_short() {
        let mut busy = fifty();
        assert_eq!(busy.on_nothing(us(0)), Look);
        assert_eq!(busy.on_nothing(us(60)), Sleep);
        busy.on_something(us(500));
        assert_eq!(busy.on_nothing(us(500)), Sleep);
        busy.on_something(us(549));
        assert_eq!(busy.on_nothing(us(600)), Look, "asleep it would have been short enough");
        busy.on_something(us(620));
        assert_eq!(busy.on_nothing(us(700)), Look);
    }

    #[test]
    fn somebody_else_on_the_processor_counts_as_a_long_wait() {
        let mut busy = fifty();
        assert_eq!(busy.on_nothing(us(0)), Look);
        // What came while the thread had given way for three milliseconds.
        busy.on_something(us(3_000));
        assert_eq!(busy.on_nothing(us(3_001)), Sleep);
    }

    #[test]
    fn work_between_waits_is_no_wait() {
        let mut busy = fifty();
        busy.on_something(us(0));
        busy.on_something(us(9_000));
        assert_eq!(busy.on_nothing(us(9_001)), Look);
    }
}
