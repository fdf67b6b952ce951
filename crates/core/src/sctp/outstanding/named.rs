//! The TSNs that gap blocks have named, with the highest of each path.
use crate::base::limits::SCTP_PATHS_MAX;
use crate::ranges::RangeSet;
use crate::sctp::paths::PathId;
use crate::sctp::tsn::Tsn;

/// The highest TSN of each path; 0, which no chunk has, for none.
pub type Highest = [Tsn; SCTP_PATHS_MAX];

/// The set. Without any, as nearly always, it is one word.
#[derive(Debug, Default)]
pub(super) struct NamedSet {
    some: Option<Box<Named>>,
}

#[derive(Debug)]
struct Named {
    ranges: RangeSet,
    highest: Highest,
}

/// No numbers.
static NONE: RangeSet = RangeSet::new();

impl NamedSet {
    /// None was named.
    pub(super) const fn new() -> Self {
        Self { some: None }
    }

    /// The TSNs.
    pub(super) fn ranges(&self) -> &RangeSet {
        self.some.as_ref().map_or(&NONE, |named| &named.ranges)
    }

    /// The highest one of each path, some of which the cumulative TSN may have passed.
    pub(super) fn highest(&self) -> Highest {
        self.some.as_ref().map_or([Tsn(0); SCTP_PATHS_MAX], |named| named.highest)
    }

    /// Adds `start..end`; `highest` is at least what is known of each path and of these.
    pub(super) fn insert(&mut self, start: Tsn, end: Tsn, highest: Highest) {
        let fresh = || Box::new(Named { ranges: RangeSet::new(), highest });
        let named = self.some.get_or_insert_with(fresh);
        named.ranges.insert(start.0, end.0);
        named.highest = highest;
    }

    /// Removes `start..end`. What was highest there must be said anew ([`NamedSet::settle`]).
    pub(super) fn remove(&mut self, start: Tsn, end: Tsn) {
        let Some(named) = &mut self.some else { return };
        named.ranges.remove(start.0, end.0);
        if named.ranges.is_empty() {
            self.some = None;
        }
    }

    /// Where the highest of a path is no longer there, the next lower one takes its place; `path_of` knows whose each is.
    pub(super) fn settle(&mut self, path_of: impl Fn(Tsn) -> Option<PathId>) {
        let Some(named) = &mut self.some else { return };
        for (path, highest) in named.highest.iter_mut().enumerate() {
            if highest.0 == 0 || named.ranges.contains(highest.0) {
                continue;
            }
            let below = named.ranges.iter().rev().filter(|(start, _)| *start < highest.0);
            let mut below = below.flat_map(|(start, end)| (start..end.min(highest.0)).rev()).map(Tsn);
            *highest = below.find(|tsn| path_of(*tsn).map(usize::from) == Some(path)).unwrap_or(Tsn(0));
        }
    }

    /// All of them count for this path.
    pub(super) fn move_to(&mut self, path: PathId) {
        let Some(named) = &mut self.some else { return };
        let all = named.highest.into_iter().max().unwrap_or(Tsn(0));
        named.highest = [Tsn(0); SCTP_PATHS_MAX];
        named.highest[usize::from(path)] = all;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_of_a_path_is_found_again_when_it_is_taken_back() {
        assert!(size_of::<NamedSet>() <= 8);
        let mut set = NamedSet::new();
        let path_of = |tsn: Tsn| Some((tsn.0 % 3) as PathId);
        let mut highest = set.highest();
        for (path, tsn) in [(0, 18), (1, 19), (2, 17)] {
            highest[path] = Tsn(tsn);
        }
        set.insert(Tsn(10), Tsn(20), highest);
        set.remove(Tsn(18), Tsn(20));
        set.settle(path_of);
        assert_eq!(set.highest()[..4], [15, 16, 17, 0].map(Tsn));
        set.remove(Tsn(10), Tsn(17));
        set.settle(path_of);
        assert_eq!(set.highest()[..4], [0, 0, 17, 0].map(Tsn));
        set.move_to(1);
        assert_eq!(set.highest()[..4], [0, 17, 0, 0].map(Tsn));
        set.remove(Tsn(1), Tsn(30));
        assert!(set.some.is_none());
    }
}
