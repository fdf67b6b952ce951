//! What has come from a peer, and what the host says of it.
use lowwater_core::ranges::RangeSet;
use lowwater_core::sctp::tsn::Tsn;
use lowwater_wire::sctp::Sack;

/// The TSNs of a peer.
#[derive(Debug)]
pub(super) struct Receiving {
    /// Behind those that come before the first.
    first: Tsn,
    came: RangeSet,
    /// The cumulative TSN that was told last.
    told: Tsn,
}

impl Default for Receiving {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Receiving {
    /// Nothing has come; the first TSN will be this.
    pub(super) fn new(initial: u32) -> Self {
        let first = Tsn::initial(initial);
        Self { first, came: RangeSet::new(), told: first.prev() }
    }

    /// Near what came last.
    fn near(&self, wire: u32) -> Tsn {
        let last = self.came.last().map_or(self.first, |(_, end)| Tsn(end));
        last.near(wire)
    }

    pub(super) fn came(&mut self, tsn: u32) {
        let tsn = self.near(tsn);
        if tsn >= self.first {
            self.came.insert(tsn.0, tsn.0 + 1);
        }
    }

    /// The peer has given up all up to here.
    pub(super) fn skipped(&mut self, tsn: u32) {
        let tsn = self.near(tsn);
        if tsn >= self.first {
            self.came.insert(self.first.0, tsn.0 + 1);
        }
    }

    /// The host says that all has come up to here.
    pub(super) fn told_cum(&mut self, cum: u32) -> Result<(), String> {
        let cum = self.told.near(cum);
        if cum < self.told {
            return Err(format!("it acknowledges up to {}, and {} before", cum.wire(), self.told.wire()));
        }
        if cum >= self.first && !self.came.covers(self.first.0, cum.0 + 1) {
            return Err(format!("not all has come up to {}", cum.wire()));
        }
        self.told = cum;
        Ok(())
    }

    /// The host says what has come.
    pub(super) fn told(&mut self, sack: &Sack<'_>) -> Result<(), String> {
        self.told_cum(sack.cum_tsn)?;
        // The first that is missing is the one behind the cumulative one (section 3.3.4).
        let mut least = 2;
        for gap in sack.gaps {
            let (start, end) = (u32::from(gap.start()), u32::from(gap.end()));
            if start < least || end < start {
                return Err(format!("block {start} to {end} is not behind those before"));
            }
            least = end + 2;
            let at = |offset: u32| self.told.0 + u64::from(offset);
            if !self.came.covers(at(start), at(end) + 1) {
                return Err(format!("not all of block {start} to {end} has come"));
            }
        }
        let strange = sack.dups.iter().find(|dup| {
            let tsn = self.told.near(dup.get());
            tsn >= self.first && !self.came.contains(tsn.0)
        });
        strange.map_or(Ok(()), |dup| Err(format!("{dup} has not come once, and is said to have come twice")))
    }
}
