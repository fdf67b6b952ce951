//! Figures that miss what must hold beside Linux's.
use super::catalog::{Bound, Shown};
use super::runs::Done;
use core::fmt;

/// A figure that misses its bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Missed {
    shown: &'static Shown,
    value: f64,
    linux: f64,
}

impl Missed {
    /// Its name.
    pub(super) const fn figure(&self) -> &'static str {
        self.shown.figure
    }
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shown, value, linux } = self;
        write!(f, "{} {value:.3} where Linux has {linux:.3} and {}", shown.figure, shown.bound)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(times) => write!(f, "at most {times} times as much is to be shown"),
            Self::AtLeast(times) => write!(f, "at least {times} times as much is to be shown"),
            Self::Near(part) => write!(f, "{} % more or less is to be shown", part * 100.0),
        }
    }
}

impl Bound {
    fn holds(self, value: f64, linux: f64) -> bool {
        match self {
            Self::AtMost(times) => value <= linux * times,
            Self::AtLeast(times) => value >= linux * times,
            Self::Near(part) => (value - linux).abs() <= linux * part,
        }
    }
}

/// What a run misses. Linux's figure of this run of the lab counts before that of the catalog.
pub(super) fn missed(done: &Done) -> Vec<Missed> {
    let Some(figures) = &done.figures else {
        return Vec::new();
    };
    let linux = |name: &str| {
        let now = done.plan.linux_now.iter().find(|(n, _)| n == name).map(|(_, value)| *value);
        now.or_else(|| done.plan.variant.linux.iter().find(|(n, _)| *n == name).map(|(_, value)| *value))
    };
    let shows = done.plan.experiment.shows.iter();
    shows
        .filter_map(|shown| {
            Some(Missed { shown, value: figures.get(shown.figure)?, linux: linux(shown.figure)? })
        })
        .filter(|missed| !missed.shown.bound.holds(missed.value, missed.linux))
        .collect()
}

/// The lines below a table: what misses its bound, and where nothing does that.
pub(super) fn lines(done: &[&Done]) -> Option<String> {
    if done.iter().all(|d| d.plan.experiment.shows.is_empty()) {
        return None;
    }
    let lines: Vec<_> = done
        .iter()
        .flat_map(|d| missed(d).into_iter().map(|missed| format!("missed: {}: {missed}", d.plan.name)))
        .collect();
    Some(if lines.is_empty() { "missed beside Linux: nothing".to_owned() } else { lines.join("\n") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::catalog::EXPERIMENTS;
    use crate::lab::runs::Plan;
    use lowwater_sim::scenario::Figures;

    fn ran(named: &[(&'static str, f64)], linux_now: &[(&str, f64)]) -> Done {
        let experiment = EXPERIMENTS.iter().find(|e| e.name == "tso-autosize").expect("it is there");
        let plan = Plan {
            experiment,
            variant: &experiment.variants[0],
            name: "default".to_owned(),
            seed: 1,
            scenario: (experiment.make)(),
            linux_now: linux_now.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        };
        let mut figures = Figures::default();
        named.iter().for_each(|(name, value)| figures.put(name, *value));
        Done { plan, figures: Some(figures), broken: None, wall_s: 0.0 }
    }

    #[test]
    fn a_figure_too_far_from_linux_is_named() {
        // Linux 6.1 has 176, and a tenth more or less may be.
        assert_eq!(missed(&ran(&[("ip_out_requests", 190.0)], &[])), []);
        let far = ran(&[("ip_out_requests", 194.0)], &[]);
        assert_eq!(missed(&far).iter().map(Missed::figure).collect::<Vec<_>>(), ["ip_out_requests"]);
        let told = lines(&[&far]).expect("bounds");
        assert!(told.contains("default") && told.contains("194") && told.contains("176"), "{told}");
        assert_eq!(missed(&ran(&[("ip_out_requests", 194.0)], &[("ip_out_requests", 180.0)])), []);
    }

    #[test]
    fn bounds_have_their_sides() {
        assert!(Bound::AtMost(1.1).holds(110.0, 100.0) && !Bound::AtMost(1.1).holds(111.0, 100.0));
        assert!(Bound::AtLeast(0.98).holds(98.0, 100.0) && !Bound::AtLeast(0.98).holds(97.0, 100.0));
        assert!(Bound::Near(0.1).holds(91.0, 100.0) && !Bound::Near(0.1).holds(89.0, 100.0));
    }

    #[test]
    fn what_is_bounded_is_measured_by_linux_too() {
        for e in EXPERIMENTS {
            for shown in e.shows {
                let known = e.variants.iter().any(|v| v.linux.iter().any(|(name, _)| *name == shown.figure));
                assert!(known, "{} {}", e.name, shown.figure);
            }
        }
    }
}
