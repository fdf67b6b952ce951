//! A set of numbers kept as sorted, coalesced half-open ranges.
//!
//! A B-tree rather than a sorted vector: a peer chooses where the holes are, and an insertion at the front of 100,000 ranges
//! must not move them all. The empty set, which nearly every connection has nearly always, is one word and owns no heap memory.
use crate::base::steps;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

/// Sorted, disjoint, non-adjacent ranges `start..end`. The caller bounds how many there may be ([`RangeSet::len`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// `None` is the empty set, and the only one.
    some: Option<Box<Ranges>>,
}

/// What a set is that is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ranges {
    /// Start to end.
    map: BTreeMap<u64, u64>,
    total: u64,
}

impl RangeSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { some: None }
    }

    /// True when no number is in it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.some.is_none()
    }

    /// Number of ranges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.some.as_ref().map_or(0, |r| r.map.len())
    }

    /// How many numbers are in it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.some.as_ref().map_or(0, |r| r.total)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Adds `start..end` and says how many numbers were new. O(log n) amortised: every range swallowed was inserted once.
    pub fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let ranges = self.some.get_or_insert_default();
        ranges.insert(start, end)
    }

    /// Removes `start..end` and says how many numbers went.
    pub fn remove(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let Some(ranges) = &mut self.some else { return 0 };
        let removed = ranges.remove(start, end);
        if ranges.map.is_empty() {
            self.some = None;
        }
        removed
    }

    /// Removes every number below `bound` and says how many went.
    pub fn remove_below(&mut self, bound: u64) -> u64 {
        self.remove(0, bound)
    }

    /// True when `number` is in it.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        self.range_at(number).is_some()
    }

    /// True when all of `start..end` is in it.
    #[must_use]
    pub fn covers(&self, start: u64, end: u64) -> bool {
        start >= end || self.range_at(start).is_some_and(|(_, e)| e >= end)
    }

    /// The range that holds `number`.
    #[must_use]
    pub fn range_at(&self, number: u64) -> Option<(u64, u64)> {
        let below = self.some.as_ref()?.map.range(..=number).next_back();
        below.map(|(&s, &e)| (s, e)).filter(|&(_, e)| number < e)
    }

    /// The range with the smallest start at or after `number`.
    #[must_use]
    pub fn range_from(&self, number: u64) -> Option<(u64, u64)> {
        self.some.as_ref()?.map.range((Included(number), Unbounded)).next().map(|(&s, &e)| (s, e))
    }

    /// The lowest range.
    #[must_use]
    pub fn first(&self) -> Option<(u64, u64)> {
        self.some.as_ref()?.map.first_key_value().map(|(&s, &e)| (s, e))
    }

    /// The highest range.
    #[must_use]
    pub fn last(&self) -> Option<(u64, u64)> {
        self.some.as_ref()?.map.last_key_value().map(|(&s, &e)| (s, e))
    }

    /// All ranges, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.some.iter().flat_map(|r| r.map.iter()).map(|(&s, &e)| (s, e))
    }

    /// The first maximal run of numbers in `start..end` that are *not* in the set.
    #[must_use]
    pub fn first_gap(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let from = self.range_at(start).map_or(start, |(_, e)| e);
        if from >= end {
            return None;
        }
        Some((from, self.range_from(from).map_or(end, |(s, _)| s.min(end))))
    }
}

impl Ranges {
    fn insert(&mut self, mut start: u64, mut end: u64) -> u64 {
        steps::step();
        // Usually nothing begins behind `start` up to `end`, and the last one before grows or a new one is made.
        match self.map.range_mut(..=end).next_back() {
            Some((&s, e)) if s <= start && *e >= start => {
                let more = end.saturating_sub(*e);
                *e += more;
                self.total += more;
                return more;
            }
            Some((&s, _)) if s > start => {}
            _ => {
                self.put(start, end);
                return end - start;
            }
        }
        let before = self.total;
        if let Some((&s, &e)) = self.map.range(..=start).next_back()
            && e >= start
        {
            if e >= end {
                return 0;
            }
            start = s;
            self.take(s, e);
        }
        while let Some((&s, &e)) = self.map.range((Included(start), Included(end))).next() {
            end = end.max(e);
            self.take(s, e);
        }
        self.put(start, end);
        self.total - before
    }

    fn remove(&mut self, start: u64, end: u64) -> u64 {
        steps::step();
        // Usually it is in one of them, or in none.
        match self.map.range(..end).next_back().map(|(&s, &e)| (s, e)) {
            Some((s, e)) if s <= start && e > start => {
                self.take(s, e);
                self.put(s, start);
                self.put(end.min(e), e);
                return end.min(e) - start;
            }
            Some((_, e)) if e > start => {}
            _ => return 0,
        }
        let before = self.total;
        if let Some((&s, &e)) = self.map.range(..start).next_back()
            && e > start
        {
            self.take(s, e);
            self.put(s, start);
            self.put(end.min(e), e);
        }
        while let Some((&s, &e)) = self.map.range((Included(start), Excluded(end))).next() {
            self.take(s, e);
            self.put(end.min(e), e);
        }
        before - self.total
    }

    fn take(&mut self, start: u64, end: u64) {
        self.map.remove(&start);
        self.total -= end - start;
    }

    fn put(&mut self, start: u64, end: u64) {
        if start < end {
            self.map.insert(start, end);
            self.total += end - start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neighbours_coalesce_and_the_empty_set_is_small() {
        assert!(size_of::<RangeSet>() <= 8);
        let mut set = RangeSet::new();
        assert_eq!(set.insert(10, 20), 10);
        assert_eq!(set.insert(30, 40), 10);
        assert_eq!(set.insert(20, 30), 10);
        assert_eq!(set.iter().collect::<Vec<_>>(), [(10, 40)]);
        assert_eq!(set.insert(5, 50), 15);
        assert_eq!(set.remove(7, 8), 1);
        assert_eq!(set.first_gap(5, 50), Some((7, 8)));
        assert_eq!(set.first_gap(8, 50), None);
        assert_eq!(set.remove_below(8), 2);
        assert_eq!((set.first(), set.last(), set.total()), (Some((8, 50)), Some((8, 50)), 42));
        assert_eq!(set.insert(u64::MAX - 1, u64::MAX), 1);
        set.remove(0, u64::MAX);
        assert!(set.is_empty() && set == RangeSet::new() && set.total() == 0);
    }

    /// A quadratic set would need minutes for this.
    #[test]
    fn a_hundred_thousand_holes_back_to_front_are_cheap() {
        let mut set = RangeSet::new();
        for i in (0..100_000u64).rev() {
            set.insert(i * 2, i * 2 + 1);
        }
        assert_eq!((set.len(), set.total()), (100_000, 100_000));
        assert_eq!(set.insert(0, 200_000), 100_000);
        assert_eq!(set.len(), 1);
    }

    #[derive(Clone, Debug)]
    enum Operation {
        Insert(u64, u64),
        Remove(u64, u64),
        RemoveBelow(u64),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            3 => (0..128u64, 0..20u64).prop_map(|(s, n)| Operation::Insert(s, (s + n).min(128))),
            1 => (0..128u64, 0..20u64).prop_map(|(s, n)| Operation::Remove(s, (s + n).min(128))),
            1 => (0..128u64).prop_map(Operation::RemoveBelow),
        ]
    }

    /// Bits `start..end` of a 128-bit model.
    fn mask(start: u64, end: u64) -> u128 {
        (start..end).fold(0, |m, bit| m | 1 << bit)
    }

    proptest! {
        #[test]
        fn it_is_a_bitmap(operations in prop::collection::vec(operation(), 1..100)) {
            let (mut set, mut bits) = (RangeSet::new(), 0u128);
            for operation in operations {
                let before = bits;
                let changed = match operation {
                    Operation::Insert(s, e) => { bits |= mask(s, e); set.insert(s, e) }
                    Operation::Remove(s, e) => { bits &= !mask(s, e); set.remove(s, e) }
                    Operation::RemoveBelow(b) => { bits &= !mask(0, b); set.remove_below(b) }
                };
                prop_assert_eq!(changed, u64::from((before ^ bits).count_ones()));
                prop_assert_eq!(set.total(), u64::from(bits.count_ones()));
                prop_assert_eq!(set.iter().fold(0, |m, (s, e)| m | mask(s, e)), bits);
                let ends: Vec<_> = set.iter().flat_map(|(s, e)| [s, e]).collect();
                prop_assert!(ends.windows(2).all(|w| w[0] < w[1]), "disjoint, non-adjacent, non-empty: {ends:?}");
                for n in 0..128 {
                    prop_assert_eq!(set.contains(n), bits >> n & 1 == 1);
                    let gap = (n..128).find(|&i| bits >> i & 1 == 0);
                    prop_assert_eq!(set.first_gap(n, 128).map(|g| g.0), gap);
                }
            }
        }
    }
}
