//! Which SACK blocks the next acknowledgement carries (RFC 2018 section 4, RFC 2883).
use super::seq::Seq;
use smallvec::SmallVec;

/// Blocks remembered, and the most that fit beside no other option (`TCP_NUM_SACKS`).
pub const SACK_BLOCKS: usize = 4;

/// Blocks as they go into the option: left edge, right edge.
pub type Blocks = SmallVec<[(Seq, Seq); SACK_BLOCKS]>;

/// The ranges held out of order in the order of their last change, and a pending report of a duplicate. One word while there is
/// nothing to report, as nearly always.
#[derive(Debug, Default)]
pub struct SackOut {
    report: Option<Box<Report>>,
}

#[derive(Debug, Default)]
struct Report {
    blocks: SmallVec<[(Seq, Seq); SACK_BLOCKS]>,
    dsack: Option<(Seq, Seq)>,
}

impl SackOut {
    /// Nothing to report.
    #[must_use]
    pub const fn new() -> Self {
        Self { report: None }
    }

    /// A segment with `start..end` is held out of order. The block that it touches grows by it and becomes the first, and
    /// takes in those that it touches then; without one it is the first by itself. Returns true when an older block was
    /// forgotten for it. As in Linux a forgotten block stays so: later ones do not show what it held (`tcp_sack_new_ofo_skb`).
    pub fn changed(&mut self, mut start: Seq, mut end: Seq) -> bool {
        let Report { blocks, .. } = &mut **self.report.get_or_insert_default();
        let mut grown = false;
        let mut at = 0;
        while let Some(&(s, e)) = blocks.get(at) {
            if start.after(e) || s.after(end) {
                at += 1;
                continue;
            }
            (start, end) = (start.min(s), end.max(e));
            blocks.remove(at);
            grown = true;
            at = 0;
        }
        if grown {
            blocks.insert(0, (start, end));
            return false;
        }
        let forgotten = blocks.len() == SACK_BLOCKS;
        blocks.truncate(SACK_BLOCKS - 1);
        blocks.insert(0, (start, end));
        forgotten
    }

    /// Everything before `rcv_nxt` has been delivered.
    pub fn delivered(&mut self, rcv_nxt: Seq) {
        self.edit(|r| r.blocks.retain(|(start, _)| start.after(rcv_nxt)));
    }

    /// Everything from `cut` on is no longer held.
    pub fn pruned(&mut self, cut: Seq) {
        self.edit(|r| {
            r.blocks.retain(|(start, _)| start.before(cut));
            for (_, end) in &mut r.blocks {
                *end = end.min(cut);
            }
        });
    }

    /// What is held will never be delivered.
    pub fn forget_held(&mut self) {
        self.edit(|r| r.blocks.clear());
    }

    /// Nothing is held.
    pub fn clear(&mut self) {
        self.report = None;
    }

    /// The next acknowledgement reports that `start..end` arrived twice (RFC 2883 section 4).
    pub fn set_dsack(&mut self, start: Seq, end: Seq) {
        self.report.get_or_insert_default().dsack = Some((start, end));
    }

    /// The report has been sent, or is out of date.
    pub fn clear_dsack(&mut self) {
        self.edit(|r| r.dsack = None);
    }

    /// The pending report of a duplicate.
    #[must_use]
    pub fn dsack(&self) -> Option<(Seq, Seq)> {
        self.report.as_ref()?.dsack
    }

    /// The highest number that a block tells the peer, duplicates aside (`tcp_reset_check`: `selective_acks`).
    #[must_use]
    pub fn highest(&self) -> Option<Seq> {
        let ends = self.report.as_ref()?.blocks.iter().map(|(_, end)| *end);
        ends.reduce(|highest, end| if end.after(highest) { end } else { highest })
    }

    /// Number of blocks that [`Self::blocks`] can give.
    #[must_use]
    pub fn count(&self) -> usize {
        self.report.as_ref().map_or(0, |r| r.blocks.len() + usize::from(r.dsack.is_some()))
    }

    /// Up to `max` blocks for the next acknowledgement: the duplicate first, then the most recently changed.
    #[must_use]
    pub fn blocks(&self, max: usize) -> Blocks {
        let mut out = Blocks::new();
        if let Some(report) = &self.report {
            out.extend(report.dsack);
            out.extend_from_slice(&report.blocks);
            out.truncate(max);
        }
        out
    }

    /// Takes something away, and the report with it when nothing is left.
    fn edit(&mut self, change: impl FnOnce(&mut Report)) {
        if let Some(report) = &mut self.report {
            change(report);
            if report.blocks.is_empty() && report.dsack.is_none() {
                self.report = None;
            }
        }
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
        out.changed(Seq(250), Seq(300));
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
        // What the forgotten block held is not shown again when its neighbour grows down to it.
        out.changed(Seq(110), Seq(200));
        assert_eq!(out.blocks(4)[0], (Seq(110), Seq(210)));
        out.changed(Seq(500), Seq(510));
        out.changed(Seq(400), Seq(410));
        out.changed(Seq(300), Seq(310));
        out.changed(Seq(400), Seq(410));
        out.changed(Seq(500), Seq(510));
        out.set_dsack(Seq(1), Seq(2));
        assert_eq!(out.blocks(3).to_vec(), s(&[(1, 2), (500, 510), (400, 410)]));
        out.clear_dsack();
        out.delivered(Seq(310));
        assert_eq!(out.blocks(4).to_vec(), s(&[(500, 510), (400, 410)]));
        out.pruned(Seq(405));
        assert_eq!(out.blocks(4).to_vec(), s(&[(400, 405)]));
    }
}
