//! Counts what Linux's header prediction would have recognized (`tcp_rcv_established`, `tcp_fast_path_check`).
//!
//! There is no second path here: these counters tell how regular the traffic is, as they do there. What is seen of it elsewhere is that
//! a predicted segment is taken into a buffer that is full, lets a duplicate be told of again, and is taken before its acknowledgement: before
//! anything is sent again for that, and before that changes the timeout.
use crate::base::Cx;
use crate::base::truesize::Truesize;
use crate::tcp::conn::Conn;
use crate::tcp::segment::Segment;
use crate::tcp::seq::Seq;
use crate::tcp::state::State;
use lowwater_wire::tcp::TcpFlags;

/// What was known before a segment was processed.
pub(super) struct Prediction {
    /// Everything about it is as expected.
    holds: bool,
    una: Seq,
}

impl Conn {
    /// Compares a segment with what the peer would send next if nothing changed.
    pub(super) fn predict(&self, seg: &Segment) -> Prediction {
        Prediction {
            holds: self.state == State::Established && self.is_expected(seg) && self.has_set_aside(seg),
            una: self.tx.snd_una(),
        }
    }

    fn is_expected(&self, seg: &Segment) -> bool {
        seg.flags - TcpFlags::PSH == self.expected_flags()
            && seg.seq == self.rx.nxt()
            && !seg.ack.after(self.tx.snd_nxt())
            && u32::from(seg.window) == self.snd.wnd >> self.peer.snd_wscale
            && seg.layout.usual
            && self.has_expected_timestamp(seg)
            && self.rx.is_foreseen()
            && !self.rx.has_hole()
            && !self.rx.has_mark()
            && seg.payload_len() <= self.rx.open_window()
    }

    /// ACK, and an ACE field that tells of no mark (`__tcp_fast_path_on`).
    fn expected_flags(&self) -> TcpFlags {
        if self.peer.ecn.accurate() { TcpFlags::ACK | self.ace_expected() } else { TcpFlags::ACK }
    }

    /// A timestamp where both sides agreed on that, and not even one older than the last by as little as PAWS forgives.
    fn has_expected_timestamp(&self, seg: &Segment) -> bool {
        match seg.options.timestamps {
            Some(ts) => self.peer.ts && ts.value.wrapping_sub(self.peer.stamps.recent) as i32 >= 0,
            None => !self.peer.ts,
        }
    }

    /// The socket has memory left for the segment from what it took before, in whole pages.
    fn has_set_aside(&self, seg: &Segment) -> bool {
        let headers = seg.header_bytes() + self.ip_header_bytes();
        let truesize = |len| Truesize::of_packet(len as u32 + headers).bytes();
        let needed: u32 = seg.payload.iter().map(|piece| truesize(piece.len())).sum();
        needed == 0 || needed <= self.rx.set_aside(self.tx.flight().wmem_queued() as u32)
    }
}

impl Prediction {
    /// As expected, but for what it acknowledges.
    pub(super) const fn holds(&self) -> bool {
        self.holds
    }

    /// Data as expected.
    pub(super) fn is_data(&self, seg: &Segment) -> bool {
        self.holds && seg.payload_len() > 0
    }

    /// Data as expected that acknowledges nothing.
    pub(super) fn is_data_alone(&self, seg: &Segment) -> bool {
        self.is_data(seg) && seg.ack == self.una
    }

    /// The acknowledgement of the segment was taken, or old.
    pub(super) fn count(&self, cx: &mut Cx<'_>, seg: &Segment) {
        let ext = &mut cx.count.tcp_ext;
        ext.tcp_hp_hits += u64::from(self.is_data(seg));
        if seg.ack.before(self.una) {
            return;
        }
        if self.holds && seg.ack.after(self.una) {
            ext.tcp_hp_acks += 1;
        } else if seg.seq_len() == 0 {
            ext.tcp_pure_acks += 1;
        }
    }
}
