//! ECN as a receiver and as a sender that is told (RFC 3168 section 6.1).
use crate::path::ecn::Codepoint;
use crate::tcp::conn::Conn;
use crate::tcp::fastopen::fact;
use crate::tcp::segment::{Ecn, Segment};
use lowwater_wire::tcp::TcpFlags;

impl Conn {
    /// CWR from the peer ends our echo; its window may be a single segment now, so it hears from us at once, also if that was a FIN
    /// (`tcp_ecn_accept_cwr`).
    pub(super) fn input_ecn_flags(&mut self, seg: &Segment) {
        if self.peer.ecn.classic() && seg.has(TcpFlags::CWR) {
            self.out.ece = false;
            if seg.seq_len() > 0 {
                self.rx.ack.demand();
            }
        }
    }

    /// The IP header's codepoint of a data segment (`tcp_data_ecn_check`). True when its sender waits to hear of it.
    pub(super) fn input_ecn_mark(&mut self, seg: &Segment) -> bool {
        if !self.peer.ecn.capable() || !self.is_news(seg) {
            return false;
        }
        if self.peer.ecn.accurate() {
            // Marks have been counted; what is not capable where other segments were is a retransmission of a sender that marks only new data.
            return seg.ecn() == Ecn::NotEct && self.rest.stats.fast.has(fact::MARKED);
        }
        let seen = self.path.ecn.ect_seen();
        self.path.ecn.on_received(Codepoint::of(seg.ecn() as u8));
        if seg.ecn() != Ecn::Ce {
            // Other segments are capable, this one is not: probably a retransmission.
            return seg.ecn() == Ecn::NotEct && seen;
        }
        !core::mem::replace(&mut self.out.ece, true)
    }

    /// What TCP_INFO tells of marks, whether ECN was agreed on or not (`tcp_ecn_received_counters`).
    pub(in crate::tcp) fn count_marks(&mut self, seg: &Segment) {
        if self.peer.ecn.accurate() {
            self.note_accurate(seg);
        }
        if seg.ecn() == Ecn::NotEct {
            return;
        }
        let [e1, e0, ce] = &mut self.rest.seldom().received_marked;
        let bytes = match seg.ecn() {
            Ecn::Ect1 => e1,
            Ecn::Ce => ce,
            Ecn::Ect0 | Ecn::NotEct => e0,
        };
        *bytes = bytes.wrapping_add(seg.payload_len());
        let stats = &mut self.rest.stats;
        stats.received_ce = stats.received_ce.wrapping_add(if seg.ecn() == Ecn::Ce { seg.segs() } else { 0 });
        stats.fast.facts |= if self.peer.ecn.classic() { 0 } else { fact::MARKED };
    }

    /// The segment has something new within the window: the marks of others say nothing (`tcp_data_queue`), nor does that of a FIN alone, unless
    /// it is out of order.
    fn is_news(&self, seg: &Segment) -> bool {
        let (nxt, open) = (self.rx.nxt(), self.rx.open_window());
        open > 0
            && seg.seq.before(nxt + open)
            && (seg.seq + seg.seq_len()).after(nxt)
            && (seg.seq.after(nxt) || seg.payload_len() > 0)
    }
}
