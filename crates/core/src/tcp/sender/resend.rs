//! What is sent again: which record, and how much of it fits.
use super::Sender;
use crate::base::Instant;
use crate::path::Path;
use crate::tcp::scoreboard::Flight;
use crate::tcp::seq::Seq;

/// What is lost and may go again, as it stands in the queue: nothing is cut before it is known that it goes ([`Sender::fit`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its offset.
    pub(in crate::tcp) start: u64,
    /// Bytes of it that fit.
    pub len: u32,
    /// Bytes of all of it, what is acknowledged included where that has not been taken off.
    pub record: u32,
    share: Share,
}

/// A retransmission that is due; give it back to [`Sender::commit_retransmit`] to send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resend {
    /// Its offset.
    pub(in crate::tcp) start: u64,
    /// Sequence number of its first byte.
    pub seq: Seq,
    /// Sequence space it takes.
    pub len: u32,
    /// Segments it takes.
    pub segs: u16,
    /// When it was last sent.
    pub last_sent: Instant,
    /// When it counts as sent this time, where that is not now.
    pub clock: Option<Instant>,
    /// It is the SYN of a simultaneous open, as a SYN-ACK now: no retransmission (`tcp_send_synack`).
    pub crossing: bool,
}

impl Resend {
    /// The same, that counts as sent at `clock` where there is one, and otherwise when it leaves.
    #[must_use]
    pub const fn counted_from(self, clock: Option<Instant>) -> Self {
        Self { clock, ..self }
    }
}

/// How much of a record goes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// It is only proposed: nobody knows yet what fits. It is cut once, when that is known ([`Sender::refit`]).
    Proposed,
    /// At most so many segments of the present MSS, and none beyond the peer's window.
    Fitting {
        /// Segments.
        segs: u16,
        /// Offset at which the window ends.
        wnd_end: u64,
    },
}

impl Flight {
    /// Where the record at `start` begins without what is acknowledged of it, which is not sent again. A head that is sacked stays as it is
    /// when another segment is.
    fn without_acked(&mut self, start: u64) -> u64 {
        if start >= self.tx.una() {
            return start;
        }
        let cut = self.tx.drop_acked_front();
        self.note_freed(cut.is_some());
        cut.unwrap_or(start)
    }

    /// Makes the record at `start` what may be sent again of it: cut to the window and to `segs` segments, counted at the present MSS, with
    /// small ones behind it. None where that is nothing.
    fn cut_to_resend(&mut self, start: u64, segs: u16, wnd_end: u64) -> Option<()> {
        let mss = usize::from(self.mss);
        if self.bars(start, wnd_end) {
            return None;
        }
        let room = wnd_end.saturating_sub(start) as usize;
        let len = self.tx.get(start)?.payload.len();
        let limit = self.resend_limit(start, segs, wnd_end);
        if len > limit && !self.split_to_resend(start, limit) {
            return None;
        }
        if self.tx.get(start)?.mss != self.mss {
            self.recount(start);
        }
        self.collapse(start, mss.min(room), wnd_end);
        Some(())
    }

    /// Bytes that may be sent again from `start` on, where the window bars nothing.
    fn resend_limit(&self, start: u64, segs: u16, wnd_end: u64) -> usize {
        let mss = usize::from(self.mss);
        let room = wnd_end.saturating_sub(start) as usize;
        match (room, mss * usize::from(segs)) {
            (room, most) if room >= most => most,
            // Of an open window whole segments are taken, and what is behind them is a buffer of its own though it fits, which is charged
            // (`__tcp_retransmit_skb`).
            (0, _) => mss,
            (room, _) if room >= mss => room / mss * mss,
            (room, _) => room,
        }
    }

    /// The peer's window takes nothing of the record at `start`. A shut one still takes the head: that is the probe (RFC 9293 section
    /// 3.8.6.1). Nothing else, not even a FIN.
    fn bars(&self, start: u64, wnd_end: u64) -> bool {
        start >= wnd_end && start > self.tx.una()
    }
}

impl Sender {
    /// The next retransmission that recovery wants and the window allows: lost segments in order, at most `max_segs` of them,
    /// none beyond the peer's window.
    pub fn next_lost(&mut self, path: &Path, max_segs: u16, wnd_end: Seq) -> Option<Lost> {
        if !self.may_resend(path) {
            return None;
        }
        let lost = self.lost(path, max_segs, wnd_end);
        if lost.is_none() {
            self.note_barred();
        }
        lost
    }

    fn lost(&self, path: &Path, max_segs: u16, wnd_end: Seq) -> Option<Lost> {
        let wnd_end = self.offset(wnd_end);
        let segs = self.cwnd_room(path).min(u32::from(max_segs.max(1))) as u16;
        let (start, sent) = self.flight.next_lost()?;
        // What is acknowledged of it does not go again.
        let from = start.max(self.flight.tx.una());
        // Whether it has left this host is asked before the window is (`__tcp_retransmit_skb`).
        if self.flight.bars(from, wnd_end) && !self.flight.tx.below.holds(sent.number) {
            return None;
        }
        let len = sent.payload.len().saturating_sub((from - start) as usize);
        let len = len.min(self.flight.resend_limit(from, segs, wnd_end)) as u32;
        let record = sent.payload.len() as u32;
        Some(Lost { start, len, record, share: Share::Fitting { segs, wnd_end } })
    }

    /// It goes: its record is cut and joined for that, and stays so; all else changes with [`Self::commit_retransmit`].
    pub fn fit(&mut self, lost: &Lost) -> Option<Resend> {
        self.resend(lost.start, lost.share)
    }

    /// The last transmission of the record at `start` has not left this host.
    #[must_use]
    pub fn is_below(&self, start: u64) -> bool {
        self.flight.tx.get(start).is_some_and(|sent| self.flight.tx.below.holds(sent.number))
    }

    /// What is lost does not fit the peer's window, and the walk over it ends. Linux counts the attempt all the same, once in a walk: no D-SACK
    /// can then show that all was sent again in vain, nor an echo that nothing was (`tcp_retransmit_skb`).
    fn note_barred(&mut self) {
        if core::mem::take(&mut self.recovery.frto.walks)
            && let Some((_, lost)) = self.flight.next_lost()
        {
            self.recovery.undo.on_retransmit(lost.segs, lost.sent_at);
        }
    }

    /// Recovery wants retransmissions, and the congestion window allows them. What was sent again and is not lost any more counts as
    /// well (`tcp_xmit_retransmit_queue`).
    #[must_use]
    pub fn may_resend(&self, path: &Path) -> bool {
        self.has_lost(path) && !self.recovery.frto.hold
    }

    /// The congestion window allows retransmissions, and there are some.
    fn has_lost(&self, path: &Path) -> bool {
        self.cwnd_room(path) > 0 && self.flight.retrans_out < self.flight.lost_out
    }

    /// What [`Self::next_lost`] has, where that has left this host and recovery, which may want new data first, lets it go.
    #[must_use]
    pub fn resends(&self, path: &Path, max_segs: u16, wnd_end: Seq) -> Option<Lost> {
        let lost = self.lost(path, max_segs, wnd_end).filter(|_| self.has_lost(path))?;
        (!self.is_below(lost.start)).then_some(lost)
    }

    /// True when what [`Self::next_lost`] has is a FIN by itself.
    #[must_use]
    pub fn resends_only_fin(&self) -> bool {
        self.flight.retrans_out < self.flight.lost_out
            && self.flight.next_lost().is_some_and(|(_, sent)| sent.payload.is_empty())
    }

    /// The record at `start` as a retransmission, of which `share` goes; none where it has been acknowledged or none of it may go.
    pub(super) fn resend(&mut self, start: u64, share: Share) -> Option<Resend> {
        let start = self.flight.without_acked(start);
        if let Share::Fitting { segs, wnd_end } = share {
            self.flight.cut_to_resend(start, segs, wnd_end)?;
        }
        let sent = self.flight.tx.get(start)?;
        Some(Resend {
            start,
            seq: self.seq(start),
            len: sent.span() as u32,
            segs: sent.segs,
            last_sent: sent.sent_at,
            clock: None,
            crossing: false,
        })
    }

    /// A retransmission that was proposed before the present MSS was known: SACK blocks of the receiving side may have come
    /// since, and a segment that was full before them would not pass the path. None when it has been acknowledged since.
    /// Nor does it pass a window that has shrunk: what fits of it goes, and of a shut one the head as a probe (`__tcp_retransmit_skb`).
    pub fn refit(&mut self, proposed: Resend, wnd_end: Seq) -> Option<Resend> {
        if proposed.crossing {
            return Some(proposed);
        }
        self.resend(proposed.start, Share::Fitting { segs: 1, wnd_end: self.offset(wnd_end) })
    }

    /// The SYN of a simultaneous open, to be sent as a SYN-ACK with [`Self::commit_rto`].
    pub fn cross_syn(&mut self) -> Option<Resend> {
        let (start, _) = self.flight.tx.first()?;
        self.resend(start, Share::Proposed).map(|resend| Resend { crossing: true, ..resend })
    }
}
