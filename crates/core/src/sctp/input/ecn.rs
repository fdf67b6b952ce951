//! Explicit congestion notification: a mark, its echo, and the answer (RFC 4960 appendix A; Linux `sctp_do_ecn_ecne_work` and its kin).
use super::Reading;
use crate::base::Cx;
use crate::sctp::assoc::Assoc;
use crate::sctp::congestion::Marks;
use crate::sctp::handshake::init::Features;
use crate::sctp::pending::Pending;

impl Assoc {
    /// Both sides use it.
    pub(in crate::sctp) const fn uses_ecn(&self) -> bool {
        self.id.features.has(Features::ECN)
    }

    /// A packet with DATA was marked: ECNE goes with every SACK until the peer says that it has slowed down.
    pub(super) fn on_mark(&mut self, reading: &Reading<'_>) {
        if let Some(tsn) = reading.first_tsn.filter(|_| reading.inbound.ce && self.uses_ecn()) {
            let tsn = self.rx.map.cum().near(tsn);
            self.rx.marked = self.rx.marked.max(Some(tsn));
        }
    }

    /// The peer has seen a mark: the path of that packet slows down, once in a window, and the peer hears of it each time.
    pub(super) fn on_ecne(&mut self, cx: &mut Cx<'_>, tsn: u32) {
        if !self.state.is_up() {
            return;
        }
        let tsn = self.tx.out.cum().near(tsn);
        if tsn > self.tx.reduced_at {
            if let Some(id) = self.tx.out.get(tsn).map(|chunk| chunk.path) {
                let marks = Marks::of(&self.tx.out);
                self.paths.get_mut(id).on_ecn_echo(cx, marks);
            }
            self.tx.reduced_at = self.tx.out.next_tsn().prev();
        }
        self.pending.set(Pending::CWR);
    }

    /// The peer has slowed down for what was marked up to here.
    pub(super) fn on_cwr(&mut self, tsn: u32) {
        let tsn = self.rx.map.cum().near(tsn);
        self.rx.marked = self.rx.marked.filter(|marked| *marked > tsn);
    }
}
