//! Which TSNs have arrived: the cumulative one, those above it, and duplicates for the next SACK (RFC 9260 section 6.2).
use super::tsn::Tsn;
use crate::base::limits::{SCTP_DUPS_MAX, SCTP_TSN_AHEAD_MAX, SCTP_TSN_HOLES_MAX};
use crate::ranges::RangeSet;
use lowwater_wire::sctp::GapBlock;
use smallvec::SmallVec;

/// What a TSN is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It has not come before.
    New,
    /// It has.
    Duplicate,
    /// It lies so far ahead, or would make so many holes, that it is not kept.
    TooFar,
}

/// The map.
#[derive(Debug)]
pub struct TsnMap {
    cum: Tsn,
    above: RangeSet,
    dups: SmallVec<[u32; 2]>,
}

impl TsnMap {
    /// Nothing has come; `initial` will be the first TSN.
    #[must_use]
    pub fn new(initial: Tsn) -> Self {
        Self { cum: initial.prev(), above: RangeSet::new(), dups: SmallVec::new() }
    }

    /// Everything up to here has come.
    #[must_use]
    pub const fn cum(&self) -> Tsn {
        self.cum
    }

    /// The highest TSN that has come.
    #[must_use]
    pub fn highest(&self) -> Tsn {
        self.above.last().map_or(self.cum, |(_, end)| Tsn(end - 1))
    }

    /// How many TSNs are missing below the highest that has come (`sctp_tsnmap_pending`).
    #[must_use]
    pub fn missing(&self) -> u64 {
        let here: u64 = self.above.iter().map(|(start, end)| end - start).sum();
        self.highest().0 - self.cum.0 - here
    }

    /// Something is missing below what has come.
    #[must_use]
    pub const fn has_gap(&self) -> bool {
        !self.above.is_empty()
    }

    /// This TSN has come, or is waited for no longer.
    #[must_use]
    pub fn has(&self, tsn: Tsn) -> bool {
        tsn <= self.cum || self.above.contains(tsn.0)
    }

    /// What this TSN is, without noting it.
    #[must_use]
    pub fn look(&self, tsn: Tsn) -> Arrival {
        if self.has(tsn) {
            Arrival::Duplicate
        } else if tsn.0 - self.cum.0 > SCTP_TSN_AHEAD_MAX
            || (self.above.len() >= SCTP_TSN_HOLES_MAX && tsn != self.cum.next())
        {
            Arrival::TooFar
        } else {
            Arrival::New
        }
    }

    /// Notes a TSN that is new.
    pub fn note(&mut self, tsn: Tsn) {
        if tsn == self.cum.next() {
            self.cum = tsn;
            if let Some((start, end)) = self.above.first()
                && start == tsn.0 + 1
            {
                self.above.remove(start, end);
                self.cum = Tsn(end - 1);
            }
        } else {
            self.above.insert(tsn.0, tsn.0 + 1);
        }
    }

    /// Everything up to `point` is waited for no longer.
    pub fn skip(&mut self, point: Tsn) {
        self.cum = self.cum.max(point);
        self.above.remove_below(self.cum.0 + 1);
        if let Some((start, end)) = self.above.first()
            && start == self.cum.0 + 1
        {
            self.above.remove(start, end);
            self.cum = Tsn(end - 1);
        }
    }

    /// These TSNs, all above the cumulative one, have not come after all.
    pub fn take_back(&mut self, start: u64, end: u64) {
        debug_assert!(start > self.cum.0, "what is acknowledged cumulatively stays so");
        self.above.remove(start, end);
    }

    /// Notes a duplicate for the next SACK, as far as there is room.
    pub fn note_duplicate(&mut self, tsn: Tsn) {
        if self.dups.len() < SCTP_DUPS_MAX {
            self.dups.push(tsn.wire());
        }
    }

    /// The duplicates since the last SACK; they are told once.
    pub fn take_dups(&mut self) -> SmallVec<[u32; 2]> {
        core::mem::take(&mut self.dups)
    }

    /// Gap blocks and duplicates that the next SACK could list.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.above.len() + self.dups.len()
    }

    /// The first `max` gap blocks.
    #[must_use]
    pub fn gaps(&self, max: usize) -> SmallVec<[GapBlock; 8]> {
        let offset = |tsn: u64| (tsn - self.cum.0) as u16;
        self.above
            .iter()
            .take(max)
            .map(|(start, end)| GapBlock::new(offset(start), offset(end - 1)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cumulative_number_jumps_when_a_hole_is_filled() {
        let first = Tsn::initial(u32::MAX);
        let mut map = TsnMap::new(first);
        for n in [1, 2, 4, 0] {
            assert_eq!(map.look(first.plus(n)), Arrival::New);
            map.note(first.plus(n));
        }
        assert_eq!((map.cum(), map.highest(), map.has_gap()), (first.plus(2), first.plus(4), true));
        assert_eq!((map.gaps(9).as_slice(), map.missing()), (&[GapBlock::new(2, 2)][..], 1));
        for n in [0, 4] {
            assert_eq!(map.look(first.plus(n)), Arrival::Duplicate);
            map.note_duplicate(first.plus(n));
        }
        assert_eq!(map.take_dups().as_slice(), [u32::MAX, 3]);
        assert!(map.take_dups().is_empty());
        assert_eq!(map.look(first.plus(1 << 20)), Arrival::TooFar);
    }
}
