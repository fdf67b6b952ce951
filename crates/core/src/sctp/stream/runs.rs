//! Incomplete messages (RFC 9260 section 6.9). Fragments of a message have consecutive TSNs: neighbours are kept as one run, so that each
//! costs one search.
use super::pieces::Pieces;
use super::ready::same_message;
use crate::base::limits::SCTP_CHUNK_OVERHEAD;
use crate::sctp::message::RecvInfo;
use std::collections::BTreeMap;

/// Fragments that cannot belong together: the peer has made a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inconsistent;

/// How much is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Bytes of user data.
    pub(super) bytes: usize,
    /// Pieces, for what they cost beside their bytes.
    pub(super) pieces: usize,
}

impl Load {
    /// What that costs in memory.
    pub(super) const fn charge(self) -> usize {
        self.bytes + self.pieces * SCTP_CHUNK_OVERHEAD
    }
}

impl core::ops::AddAssign for Load {
    fn add_assign(&mut self, more: Self) {
        self.bytes += more.bytes;
        self.pieces += more.pieces;
    }
}

impl core::ops::SubAssign for Load {
    fn sub_assign(&mut self, less: Self) {
        self.bytes -= less.bytes;
        self.pieces -= less.pieces;
    }
}

impl core::iter::Sum for Load {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, load| {
            sum += load;
            sum
        })
    }
}

/// Neighbouring fragments of one message.
#[derive(Debug)]
pub(super) struct Run {
    /// The TSN behind the last fragment.
    pub(super) end: u64,
    pub(super) info: RecvInfo,
    pub(super) begins: bool,
    pub(super) ends: bool,
    pub(super) pieces: Pieces,
    pub(super) bytes: usize,
}

impl Run {
    pub(super) fn load(&self) -> Load {
        Load { bytes: self.bytes, pieces: self.pieces.len() }
    }

    /// This run with the one behind it.
    fn with(mut self, right: Self) -> Result<Self, Inconsistent> {
        if !same_message(&self.info, &right.info) {
            return Err(Inconsistent);
        }
        self.pieces = self.pieces.join(right.pieces);
        self.bytes += right.bytes;
        (self.end, self.ends) = (right.end, right.ends);
        Ok(self)
    }
}

/// What became of a fragment among its neighbours.
#[derive(Debug)]
pub(super) enum Joined {
    /// It is this run now, which begins at that TSN and is in no list.
    Run(u64, Run),
    /// It was dropped with what had been joined to it, for its neighbour begins or ends another message.
    Torn(Load),
}

/// Incomplete messages by the TSN of the first fragment that has come.
#[derive(Debug, Default)]
pub(super) struct Runs(BTreeMap<u64, Run>);

impl Runs {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fragment with this TSN is in a run.
    pub(super) fn holds(&self, tsn: u64) -> bool {
        self.0.range(..=tsn).next_back().is_some_and(|(_, run)| run.end > tsn)
    }

    /// The run that begins at this TSN.
    pub(super) fn at(&self, start: u64) -> Option<&Run> {
        self.0.get(&start)
    }

    /// The last run that begins no later than `tsn`, and where.
    pub(super) fn last_up_to(&self, tsn: u64) -> Option<(u64, &Run)> {
        self.0.range(..=tsn).next_back().map(|(start, run)| (*start, run))
    }

    /// All of them with the TSNs where they begin, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Run)> {
        self.0.iter().map(|(start, run)| (*start, run))
    }

    pub(super) fn insert(&mut self, start: u64, run: Run) {
        self.0.insert(start, run);
    }

    pub(super) fn remove(&mut self, start: u64) -> Option<Run> {
        self.0.remove(&start)
    }

    /// Takes out the first one, if it begins no later than `tsn`.
    pub(super) fn pop_up_to(&mut self, tsn: u64) -> Option<Run> {
        self.0.first_entry().filter(|entry| *entry.key() <= tsn).map(|entry| entry.remove())
    }

    /// Drops all of them; how much was held.
    pub(super) fn clear(&mut self) -> Load {
        core::mem::take(&mut self.0).values().map(Run::load).sum()
    }

    /// Joins a fragment with the runs beside it, which leave the list.
    ///
    /// # Errors
    /// When a neighbour that would go on with it is of another message.
    pub(super) fn join(&mut self, tsn: u64, mut run: Run) -> Result<Joined, Inconsistent> {
        let (mut start, mut torn) = (tsn, false);
        if !run.begins
            && let Some((&at, left)) = self.0.range(..tsn).next_back()
            && left.end == tsn
        {
            torn = left.ends;
            if !torn {
                let left = self.0.remove(&at).ok_or(Inconsistent)?;
                run = left.with(run)?;
                start = at;
            }
        }
        if !run.ends
            && let Some(right) = self.0.get(&run.end)
        {
            torn |= right.begins;
            if !right.begins {
                let right = self.0.remove(&run.end).ok_or(Inconsistent)?;
                run = run.with(right)?;
            }
        }
        Ok(if torn { Joined::Torn(run.load()) } else { Joined::Run(start, run) })
    }

    /// Drops what goes on where a message begins, or has to begin before where one ends: it will never be complete, since its next TSN
    /// was another's. How much was held.
    pub(super) fn tear_beside(&mut self, tsn: u64, begins: bool, ends: bool) -> Load {
        let mut torn = Load::default();
        if begins
            && let Some((&at, left)) = self.0.range(..tsn).next_back()
            && (left.end, left.ends) == (tsn, false)
        {
            torn += self.0.remove(&at).map_or(Load::default(), |run| run.load());
        }
        if ends && self.0.get(&(tsn + 1)).is_some_and(|right| !right.begins) {
            torn += self.0.remove(&(tsn + 1)).map_or(Load::default(), |run| run.load());
        }
        torn
    }
}
