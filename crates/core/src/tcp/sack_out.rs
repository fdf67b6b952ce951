//! Which SACK blocks the next acknowledgement carries (RFC 2018 section 4, RFC 2883).
use super::seq::Seq;
use smallvec::SmallVec;

/// Blocks remembered, and the most that fit beside no other option (`TCP_NUM_SACKS`).
pub const SACK_BLOCKS: usize = 4;

/// Blocks as they go into the option: left edge, right edge.
pub type Blocks = SmallVec<[(Seq, Seq); SACK_BLOCKS]>;

/// The ranges held out of order in the order of their last change, and a pending report of a duplicate.
#[derive(Clone, Copy, Debug, Default)]
pub struct SackOut {
    blocks: [(Seq, Seq); SACK_BLOCKS],
    len: u8,
    has_dsack: bool,
    dsack: (Seq, Seq),
}

impl SackOut {
    /// Nothing to report.
    #[must_use]
    pub const fn new() -> Self {
        Self { blocks: [(Seq(0), Seq(0)); SACK_BLOCKS], len: 0, has_dsack: false, dsack: (Seq(0), Seq(0)) }
    }

    /// A segment made `start..end` a maximal held range: it becomes the first block. Returns true when an older block was
    /// forgotten for it.
    pub fn changed(&mut self, start: Seq, end: Seq) -> bool {
        self.retain(|(s, e)| !(start.at_or_before(s) && e.at_or_before(end)));
        let len = usize::from(self.len);
        let forgotten = len == SACK_BLOCKS;
        self.blocks.copy_within(..len.min(SACK_BLOCKS - 1), 1);
        self.blocks[0] = (start, end);
        self.len = (len + 1).min(SACK_BLOCKS) as u8;
        forgotten
    }

    /// Everything before `rcv_nxt` has been delivered.
    pub fn delivered(&mut self, rcv_nxt: Seq) {
        self.retain(|(start, _)| start.after(rcv_nxt));
    }

    /// Everything from `cut` on is no longer held.
    pub fn pruned(&mut self, cut: Seq) {
        self.retain(|(start, _)| start.before(cut));
        for (_, end) in &mut self.blocks[..usize::from(self.len)] {
            *end = end.min(cut);
        }
    }

    /// Nothing is held.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    fn retain(&mut self, keep: impl Fn((Seq, Seq)) -> bool) {
        let mut kept = 0;
        for i in 0..usize::from(self.len) {
            let block = self.blocks[i];
            if keep(block) {
                self.blocks[kept] = block;
                kept += 1;
            }
        }
        self.len = kept as u8;
    }

    /// The next acknowledgement reports that `start..end` arrived twice (RFC 2883 section 4).
    pub const fn set_dsack(&mut self, start: Seq, end: Seq) {
        self.has_dsack = true;
        self.dsack = (start, end);
    }

    /// The report has been sent, or is out of date.
    pub const fn clear_dsack(&mut self) {
        self.has_dsack = false;
    }

    /// The pending report of a duplicate.
    #[must_use]
    pub const fn dsack(&self) -> Option<(Seq, Seq)> {
        if self.has_dsack { Some(self.dsack) } else { None }
    }

    /// Number of blocks that [`Self::blocks`] can give.
    #[must_use]
    pub fn count(&self) -> usize {
        usize::from(self.len) + usize::from(self.has_dsack)
    }

    /// Up to `max` blocks for the next acknowledgement: the duplicate first, then the most recently changed.
    #[must_use]
    pub fn blocks(&self, max: usize) -> Blocks {
        let mut out = Blocks::new();
        out.extend(self.dsack());
        out.extend_from_slice(&self.blocks[..usize::from(self.len)]);
        out.truncate(max);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(pairs: &[(u32, u32)]) -> Vec<(Seq, Seq)> {
        pairs.iter().map(|&(a, b)| (Seq(a), Seq(b))).collect()
    }

    #[test]
    fn the_most_recently_changed_range_comes_first() {
        let mut out = SackOut::new();
        out.changed(Seq(100), Seq(200));
        out.changed(Seq(300), Seq(400));
        out.changed(Seq(100), Seq(250));
        assert_eq!(out.blocks(4).to_vec(), s(&[(100, 250), (300, 400)]));
        // The hole between them is filled: one range.
        out.changed(Seq(100), Seq(400));
        assert_eq!(out.blocks(4).to_vec(), s(&[(100, 400)]));
    }

    #[test]
    fn a_fifth_range_pushes_the_oldest_out_and_a_duplicate_takes_a_place() {
        let mut out = SackOut::new();
        for i in 1..=4 {
            assert!(!out.changed(Seq(i * 100), Seq(i * 100 + 10)));
        }
        assert!(out.changed(Seq(500), Seq(510)));
        assert_eq!(out.blocks(4).to_vec(), s(&[(500, 510), (400, 410), (300, 310), (200, 210)]));
        out.set_dsack(Seq(1), Seq(2));
        assert_eq!(out.blocks(3).to_vec(), s(&[(1, 2), (500, 510), (400, 410)]));
        out.clear_dsack();
        out.delivered(Seq(310));
        assert_eq!(out.blocks(4).to_vec(), s(&[(500, 510), (400, 410)]));
        out.pruned(Seq(405));
        assert_eq!(out.blocks(4).to_vec(), s(&[(400, 405)]));
    }
}
