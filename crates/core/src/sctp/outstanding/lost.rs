//! The chunks that are marked lost, by what decides where they go again: a question of paths looks at each kind once, however much is
//! lost.
use crate::ranges::RangeSet;
use crate::sctp::paths::PathId;
use crate::sctp::tsn::Tsn;
use smallvec::SmallVec;

/// What decides where a lost chunk goes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Where it went last.
    pub path: PathId,
    /// SACKs have missed it; else a timer has given it up.
    pub missed: bool,
}

/// TSNs of lost chunks. Without any, as nearly always, it is one word.
#[derive(Debug, Default)]
pub(super) struct LostSet {
    some: Option<Box<Kinds>>,
}

/// None of these is empty. There are two of each path at the most.
#[derive(Debug, Default)]
struct Kinds {
    list: SmallVec<[(Loss, RangeSet); 1]>,
}

impl LostSet {
    /// Nothing is lost.
    pub(super) const fn new() -> Self {
        Self { some: None }
    }

    fn list(&self) -> &[(Loss, RangeSet)] {
        self.some.as_ref().map_or(&[], |kinds| &kinds.list)
    }

    /// How many there are.
    pub(super) fn total(&self) -> u64 {
        self.list().iter().map(|(_, tsns)| tsns.total()).sum()
    }

    /// What kinds there are.
    pub(super) fn kinds(&self) -> impl Iterator<Item = Loss> + '_ {
        self.list().iter().map(|(loss, _)| *loss)
    }

    /// The lowest one from `from` on of the kinds that `of` names.
    pub(super) fn next(&self, from: Tsn, of: impl Fn(Loss) -> bool) -> Option<(Tsn, Loss)> {
        let first = |tsns: &RangeSet| {
            let inside = tsns.contains(from.0).then_some(from);
            inside.or_else(|| tsns.range_from(from.0).map(|(start, _)| Tsn(start)))
        };
        let named = self.list().iter().filter(|(loss, _)| of(*loss));
        named.filter_map(|(loss, tsns)| Some((first(tsns)?, *loss))).min_by_key(|(tsn, _)| *tsn)
    }

    pub(super) fn insert(&mut self, tsn: Tsn, loss: Loss) {
        let list = &mut self.some.get_or_insert_default().list;
        match list.iter_mut().find(|(known, _)| *known == loss) {
            Some((_, tsns)) => {
                tsns.insert(tsn.0, tsn.0 + 1);
            }
            None => {
                let mut tsns = RangeSet::new();
                tsns.insert(tsn.0, tsn.0 + 1);
                list.push((loss, tsns));
            }
        }
    }

    pub(super) fn remove(&mut self, tsn: Tsn, loss: Loss) {
        self.edit(|(known, tsns)| {
            if *known == loss {
                tsns.remove(tsn.0, tsn.0 + 1);
            }
        });
    }

    pub(super) fn remove_below(&mut self, bound: Tsn) {
        self.edit(|(_, tsns)| {
            tsns.remove_below(bound.0);
        });
    }

    fn edit(&mut self, change: impl FnMut(&mut (Loss, RangeSet))) {
        let Some(kinds) = &mut self.some else { return };
        kinds.list.iter_mut().for_each(change);
        kinds.list.retain(|(_, tsns)| !tsns.is_empty());
        if kinds.list.is_empty() {
            self.some = None;
        }
    }

    /// All of them count for this path.
    pub(super) fn move_to(&mut self, path: PathId) {
        let Some(kinds) = self.some.take() else { return };
        for (loss, tsns) in kinds.list {
            for tsn in tsns.iter().flat_map(|(start, end)| start..end) {
                self.insert(Tsn(tsn), Loss { path, ..loss });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_of_some_kinds_is_found_and_an_empty_set_is_one_word() {
        assert!(size_of::<LostSet>() <= 8);
        let mut set = LostSet::new();
        let loss = |path, missed| Loss { path, missed };
        for (tsn, kind) in [(5, loss(0, true)), (3, loss(1, false)), (4, loss(1, false)), (9, loss(0, false))]
        {
            set.insert(Tsn(tsn), kind);
        }
        let next = |set: &LostSet, from, path| {
            set.next(Tsn(from), |l| l.path == path).map(|(tsn, l)| (tsn.0, l.missed))
        };
        assert_eq!((set.total(), set.kinds().count()), (4, 3));
        assert_eq!(set.next(Tsn(1), |_| true), Some((Tsn(3), loss(1, false))));
        assert_eq!(
            (next(&set, 1, 0), next(&set, 6, 0), next(&set, 4, 1)),
            (Some((5, true)), Some((9, false)), Some((4, false)))
        );
        set.remove(Tsn(5), loss(0, true));
        assert_eq!((next(&set, 1, 0), set.kinds().count()), (Some((9, false)), 2));
        set.move_to(7);
        assert_eq!((set.kinds().collect::<Vec<_>>(), set.total()), (vec![loss(7, false)], 3));
        set.remove_below(Tsn(9));
        assert_eq!(next(&set, 1, 7), Some((9, false)));
        set.remove(Tsn(9), loss(7, false));
        assert!(set.some.is_none() && set.next(Tsn(1), |_| true).is_none());
    }
}
