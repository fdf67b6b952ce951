//! The smallest value of a sliding window of time, in constant memory (Kathleen Nichols' windowed filter).
//!
//! Three samples are kept: the best of the window, the best since that one, and the best since that one in turn; each
//! quarter and half of the window a younger candidate is taken, so that a successor is at hand when the best grows too old.

/// A value and when it was measured, in milliseconds modulo 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    at_ms: u32,
    value: u32,
}

/// Windowed minimum of `u32` values; `u32::MAX` means none yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinFilter {
    best: [Sample; 3],
}

impl Default for MinFilter {
    fn default() -> Self {
        Self::new()
    }
}

impl MinFilter {
    /// No value yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { best: [Sample { at_ms: 0, value: u32::MAX }; 3] }
    }

    /// The smallest value of the window, if there was any.
    #[must_use]
    pub const fn get(&self) -> Option<u32> {
        if self.best[0].value == u32::MAX { None } else { Some(self.best[0].value) }
    }

    /// A new value; the window is `window_ms` long.
    pub fn update(&mut self, at_ms: u32, window_ms: u32, value: u32) {
        let new = Sample { at_ms, value };
        let age = |s: &Sample| at_ms.wrapping_sub(s.at_ms);
        let [first, second, third] = &mut self.best;
        if value <= first.value || age(third) > window_ms {
            self.best = [new; 3];
            return;
        }
        if value <= second.value {
            (*second, *third) = (new, new);
        } else if value <= third.value {
            *third = new;
        }
        if age(first) > window_ms {
            (*first, *second, *third) = (*second, *third, new);
            if age(first) > window_ms {
                (*first, *second, *third) = (*second, *third, new);
            }
        } else if second.at_ms == first.at_ms && age(first) > window_ms / 4 {
            (*second, *third) = (new, new);
        } else if third.at_ms == second.at_ms && age(first) > window_ms / 2 {
            *third = new;
        }
    }
}

/// Windowed maximum of `u32` values, 0 before the first: the minimum of the complements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MaxFilter(MinFilter);

impl MaxFilter {
    /// The largest value of the window.
    #[must_use]
    pub fn get(&self) -> u32 {
        self.0.get().map_or(0, |v| !v)
    }

    /// A new value, measured at `at` in any unit that counts modulo 2^32; the window is `window` of it long.
    pub fn update(&mut self, at: u32, window: u32, value: u32) {
        self.0.update(at, window, !value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_old_minimum_makes_place_for_the_next_best() {
        let mut filter = MinFilter::new();
        assert_eq!(filter.get(), None);
        filter.update(0, 100, 10);
        filter.update(30, 100, 20);
        filter.update(60, 100, 30);
        assert_eq!(filter.get(), Some(10));
        filter.update(101, 100, 40);
        assert_eq!(filter.get(), Some(20));
        filter.update(131, 100, 50);
        assert_eq!(filter.get(), Some(30));
        filter.update(10_000, 100, 60);
        assert_eq!(filter.get(), Some(60));
    }

    #[test]
    fn the_maximum_of_ten_rounds_is_forgotten_after_them() {
        let mut filter = MaxFilter::default();
        assert_eq!(filter.get(), 0);
        for (round, value, want) in
            [(1, 50, 50), (2, 80, 80), (5, 60, 80), (9, 70, 80), (12, 40, 80), (13, 40, 70)]
        {
            filter.update(round, 10, value);
            assert_eq!(filter.get(), want, "round {round}");
        }
    }

    proptest! {
        /// Never above the newest value, never below the true minimum of the window, whatever the clock's origin.
        #[test]
        fn it_bounds_the_window(origin in any::<u32>(), steps in prop::collection::vec((0..40u32, 1..100u32), 1..200)) {
            let (mut filter, mut at, mut seen) = (MinFilter::new(), 0u32, Vec::new());
            for (step, value) in steps {
                at += step;
                filter.update(origin.wrapping_add(at), 100, value);
                seen.push((at, value));
                let got = filter.get().expect("fed");
                prop_assert!(got <= value);
                let truth = seen.iter().filter(|s| at - s.0 <= 100).map(|s| s.1).min().expect("not empty");
                prop_assert!(got >= truth);
            }
        }
    }
}
