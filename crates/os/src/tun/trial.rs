//! Which of two ways carries more: the other one is tried now and then, and stays where it does.
use lowwater_core::base::Instant;

/// How long a way is measured, in nanoseconds: long beside a round trip over a device of this host, short beside the time in between.
const WINDOW_NS: u64 = 50_000_000;
/// Windows from one trial to the next.
const WINDOWS_BETWEEN: u8 = 20;
/// The way on trial stays when it carries so many per cent of what the present one did in the window before.
const WORTH_PERCENT: u64 = 110;

/// Two ways for the same bytes.
#[derive(Debug)]
pub(super) struct Trial {
    /// The second is in use.
    second: bool,
    /// Windows since the last trial.
    windows: u8,
    /// While the other one is on trial: bytes a second by the one before.
    before: Option<u64>,
    /// The present window, and the bytes that it has brought.
    since: Instant,
    bytes: u64,
}

impl Trial {
    /// By the first way, to be measured from `now` on; the second is tried next.
    pub(super) const fn new(now: Instant) -> Self {
        Self { second: false, windows: WINDOWS_BETWEEN, before: None, since: now, bytes: 0 }
    }

    /// So many `bytes` have come by `now`. True when the second way is to be used from now on.
    pub(super) fn on_bytes(&mut self, now: Instant, bytes: u64) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        let ns = now.nanos_since(self.since);
        if ns >= WINDOW_NS {
            let rate = u128::from(self.bytes) * 1_000_000_000 / u128::from(ns);
            self.on_window(u64::try_from(rate).unwrap_or(u64::MAX));
            (self.since, self.bytes) = (now, 0);
        }
        self.second
    }

    fn on_window(&mut self, rate: u64) {
        match self.before.take() {
            Some(before) => {
                self.windows = 0;
                if rate.saturating_mul(100) < before.saturating_mul(WORTH_PERCENT) {
                    self.second = !self.second;
                }
            }
            None if self.windows >= WINDOWS_BETWEEN => {
                self.before = Some(rate);
                self.second = !self.second;
            }
            None => self.windows += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the second way carries `second` when the first carries `first`, the windows of a minute that go by it.
    fn by_second(first: u64, second: u64) -> usize {
        let mut at = Instant::from_millis(1_000);
        let mut trial = Trial::new(at);
        let mut now_second = false;
        (0..1_200)
            .filter(|_| {
                let was = now_second;
                at = at.plus_nanos(WINDOW_NS);
                now_second = trial.on_bytes(at, if was { second } else { first });
                was
            })
            .count()
    }

    #[test]
    fn what_carries_more_is_used_but_for_a_window_in_a_second() {
        assert!((1_130..1_150).contains(&by_second(1_000, 1_200)), "{}", by_second(1_000, 1_200));
        assert!((50..60).contains(&by_second(1_200, 1_000)), "{}", by_second(1_200, 1_000));
        assert!((50..60).contains(&by_second(1_000, 1_050)), "a little more is no reason");
    }

    #[test]
    fn what_changes_is_found_in_a_second() {
        let mut at = Instant::from_millis(1_000);
        let mut trial = Trial::new(at);
        let mut second = false;
        let mut windows = |trial: &mut Trial, n: u32, better: bool| {
            for _ in 0..n {
                at = at.plus_nanos(WINDOW_NS);
                second = trial.on_bytes(at, if second == better { 2_000 } else { 1_000 });
            }
            second
        };
        assert!(windows(&mut trial, 2, true));
        assert!(!windows(&mut trial, u32::from(WINDOWS_BETWEEN) + 2, false));
    }

    #[test]
    fn a_window_of_any_length_or_number_of_bytes_overflows_nothing() {
        let mut trial = Trial::new(Instant::ZERO);
        let _ = trial.on_bytes(Instant::LAST, u64::MAX / 2);
        let _ = trial.on_bytes(Instant::LAST, u64::MAX / 2);
        let _ = trial.on_bytes(Instant::LAST.plus_nanos(1), 0);
    }
}
