//! The retransmission timer of a path, T3-rtx (RFC 9260 sections 6.3.3, 7.2.3, 8.1, 8.2).
use crate::base::{Cx, Instant};
use crate::sctp::assoc::Assoc;
use crate::sctp::congestion::Marks;
use crate::sctp::paths::PathId;
use crate::sctp::sender::Probe;

/// T3-rtx of this path ran out: everything that is in flight there is lost, goes elsewhere if there is an elsewhere, and the path
/// backs off.
pub(in crate::sctp) fn on_timer(assoc: &mut Assoc, cx: &mut Cx<'_>, id: PathId) {
    let path = assoc.paths.get_mut(id);
    path.t3 = Instant::FAR_FUTURE;
    let (below, waits) = (path.flow.credit.below() > 0, path.flow.credit.is_throttled());
    let probes = assoc.tx.out.iter().next().is_some_and(|(_, chunk)| chunk.path == id);
    let lost = assoc.tx.out.lose_path(id);
    if lost == 0 && !waits && !assoc.skips() {
        return;
    }
    cx.count.sctp.t3_rtx_expireds += 1;
    cx.count.own.sctp_t3_in_host += u64::from(below);
    assoc.tx.peer_rwnd = assoc.tx.peer_rwnd.saturating_add(lost);
    let (held_up, marks) = (assoc.is_held_up(), Marks::of(&assoc.tx.out));
    let path = assoc.paths.get_mut(id);
    // A peer that keeps its window closed and says so lives: its path lost nothing, and the probe that it does not take is no error
    // (section 6.1 A).
    let refused = assoc.tx.closed.probe == Probe::Answered && probes && !held_up;
    // A device that takes nothing loses nothing either, but the path has failed by it.
    let stuck = lost == 0 && waits;
    path.on_t3(cx, marks, refused || stuck);
    // More than a packet may be lost, and the peer has no room for any of it.
    path.cwnd.lone |= refused;
    path.rto.back_off(&assoc.options.rto);
    path.timed = None;
    path.update_rate(cx);
    assoc.tx.burst = None;
    if !(refused || stuck) {
        assoc.suspect_length(id);
    }
    assoc.give_up(cx);
    let goes_on = refused || assoc.on_error(cx, id);
    cx.count.sctp.t3_retransmits += u64::from(goes_on && lost > 0);
}
