//! Ratios of measurements that were taken in turn.
//!
//! A shared machine has phases of seconds in which everything is slower, so a ratio counts within its round, where both
//! sides stood in the same phase; of the rounds the median counts, and the quartiles say how far to trust it.
use std::fmt;

/// The middle of `values`; `NaN` of none.
#[must_use]
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    Quartiles::of(values).map_or(f64::NAN, |quartiles| quartiles.median)
}

/// How values spread: a quarter of them lies below `low`, half below `median`, a quarter above `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quartiles {
    low: f64,
    median: f64,
    high: f64,
}

impl Quartiles {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut v: Vec<f64> = values.collect();
        v.sort_by(f64::total_cmp);
        let at = |quarter: usize| v.get((v.len() * quarter / 4).min(v.len().saturating_sub(1))).copied();
        Some(Self { low: at(1)?, median: at(2)?, high: at(3)? })
    }

    /// Of `ours` beside `yardstick`, round by round; none without a round of both.
    #[must_use]
    pub fn of_ratios(ours: impl Iterator<Item = f64>, yardstick: impl Iterator<Item = f64>) -> Option<Self> {
        Self::of(ours.zip(yardstick).map(|(ours, yardstick)| ours / yardstick))
    }
}

/// `1.05 (1.03 to 1.08)`: the median and the quartiles.
impl fmt::Display for Quartiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2} to {:.2})", self.median, self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_phase_of_both_sides_leaves_the_ratio_alone() {
        let (ours, yardstick) = ([22.0, 11.0, 11.0, 22.0, 11.0], [20.0, 10.0, 10.0, 20.0, 10.0]);
        let ratio = Quartiles::of_ratios(ours.into_iter(), yardstick.into_iter()).expect("five rounds");
        assert_eq!(ratio.to_string(), "1.10 (1.10 to 1.10)");
    }

    #[test]
    fn quartiles_of_few_rounds() {
        assert_eq!(
            Quartiles::of([3.0, 1.0, 2.0, 4.0].into_iter()).unwrap().to_string(),
            "3.00 (2.00 to 4.00)"
        );
        assert_eq!(Quartiles::of([1.5].into_iter()).unwrap().to_string(), "1.50 (1.50 to 1.50)");
        assert_eq!(Quartiles::of(std::iter::empty()), None);
        assert!(median(std::iter::empty()).is_nan());
    }
}
