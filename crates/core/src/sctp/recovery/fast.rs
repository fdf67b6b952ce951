//! Miss indications and fast retransmission (RFC 9260 section 7.2.4).
use crate::base::{Cx, steps};
use crate::sctp::congestion::Marks;
use crate::sctp::outstanding::{Highest, Mark, Outstanding};
use crate::sctp::paths::{PathId, Paths};
use crate::sctp::sender::Sender;
use crate::sctp::tsn::Tsn;

/// What a SACK newly said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::sctp) struct News {
    /// The highest TSN newly acknowledged (HTNA).
    highest: Option<Tsn>,
    /// The same of each path.
    by_path: Highest,
    /// The highest TSN that a gap block names.
    pub(in crate::sctp) last_gap: Option<Tsn>,
    /// The cumulative TSN has moved.
    pub(in crate::sctp) advanced: bool,
}

impl News {
    /// This one was, for the first time, and had gone by `path`.
    pub(in crate::sctp) fn acknowledged(&mut self, tsn: Tsn, path: PathId) {
        self.highest = self.highest.max(Some(tsn));
        if let Some(highest) = self.by_path.get_mut(usize::from(path)) {
            *highest = tsn.max(*highest);
        }
    }

    /// Something that went by `path` later is there.
    fn overtakes(&self, tsn: Tsn, path: PathId) -> bool {
        self.by_path.get(usize::from(path)).is_some_and(|highest| *highest > tsn)
    }
}

/// What was out when fast recovery began is acknowledged: that is its end.
pub(in crate::sctp) fn leave(tx: &Sender, paths: &mut Paths) {
    let cum = tx.out.cum();
    for (_, path) in paths.iter_mut() {
        path.cwnd.recovery.take_if(|exit| cum >= *exit);
    }
}

/// A path is in fast recovery.
fn recovers(paths: &Paths) -> bool {
    paths.iter().any(|(_, path)| path.cwnd.recovery.is_some())
}

/// Counts miss indications of what lies below the highest TSN newly acknowledged, and marks lost what has enough of them. In
/// fast recovery a SACK that moves the cumulative TSN counts against everything that it reports missing, whenever the other came.
///
/// Only what went the same way has overtaken a chunk: after a change to a faster path the old one still has some under way, which is not
/// missing. Linux has split fast retransmission for that (SFR-CACC, `sctp_cacc_skip`), which ends with the changeover.
pub(in crate::sctp) fn on_sack(cx: &mut Cx<'_>, tx: &mut Sender, paths: &mut Paths, news: &News) {
    let whole = news.advanced && recovers(paths);
    let Some(bound) = (if whole { news.last_gap } else { news.highest }) else { return };
    let mut news = *news;
    if whole {
        // With what gap blocks had named before.
        let before = tx.out.highest_acked();
        for (id, _) in paths.iter().filter(|(_, path)| path.cwnd.recovery.is_some()) {
            let at = usize::from(id);
            news.by_path[at] = news.by_path[at].max(before[at]);
        }
    }
    let mut lost = false;
    let mut from = tx.out.cum().next();
    while let Some((first, end)) = tx.out.next_unacked(from, bound) {
        for tsn in (first.0..end.0).map(Tsn) {
            steps::step();
            let Some(id) = tx.out.get(tsn).filter(|c| c.mark != Mark::Abandoned).map(|c| c.path) else {
                continue;
            };
            let acked = &mut paths.get_mut(id).flow.acked;
            acked.behind |= tsn < acked.first;
            if news.overtakes(tsn, id) {
                acked.overtaken = true;
                lost |= miss(&mut tx.out, paths, tsn);
            }
        }
        from = end;
    }
    if lost {
        enter(cx, tx, paths);
    }
}

/// One miss indication; true when the chunk is lost by it.
fn miss(out: &mut Outstanding, paths: &mut Paths, tsn: Tsn) -> bool {
    if !out.miss(tsn) {
        return false;
    }
    let Some((id, len)) = out.lose(tsn) else { return false };
    let path = paths.get_mut(id);
    path.on_chunk_missed(len);
    if path.timed == Some(tsn) {
        path.timed = None;
    }
    true
}

/// Fast retransmission begins: outside of fast recovery each path that has lost something is slowed down, once per window. Fast recovery
/// is of all paths, for none is to be slowed down again for what was out then. One whose T3-rtx has run out since begins anew by itself.
fn enter(cx: &mut Cx<'_>, tx: &mut Sender, paths: &mut Paths) {
    cx.count.sctp.fast_retransmits += 1;
    let (all, marks) = (!recovers(paths), Marks::of(&tx.out));
    let exit = marks.next.prev();
    for (_, path) in paths.iter_mut() {
        let (lost, fresh) = (path.flow.acked.lost > 0, path.cwnd.recovery.is_none());
        if lost {
            path.on_fast_retransmit(cx, marks, fresh);
            tx.fast |= fresh;
        }
        if all || (lost && fresh) {
            path.cwnd.recovery = Some(exit);
        }
    }
}
