//! The scoreboard: which in-flight segments are sacked, lost or retransmitted, counted as Linux counts them.
use super::below::Departure;
use super::tx_queue::{Sent, TxQueue, flag};
use crate::base::time::Instant;
use crate::base::{Cx, Pool};
use crate::path::rate::Snapshot;
use crate::ranges::RangeSet;
use buffers::Buffers;
pub use buffers::{Blocks, Buffer, Fit, Join};
use smallvec::SmallVec;
mod buffers;

/// Of segments that go again: two bits of one byte, which [`Flight`] has room for.
mod together {
    /// Small ones do so together (tcp_retrans_collapse).
    pub(super) const ON: u8 = 1;
    /// Some have been joined, and their buffers freed, or one has lost the front that is acknowledged.
    pub(super) const FREED: u8 = 2;
}

/// The send queue with marks on what is in flight.
///
/// Every record is in exactly one of these states: in flight, sacked, lost and waiting for retransmission, lost and
/// retransmitted, or retransmitted and taken for lost no more (undo). The counters are sums over records; the range sets are indices into them, so that no acknowledgement walks
/// the window.
#[derive(Debug)]
pub struct Flight {
    /// The queue.
    pub tx: TxQueue,
    /// Segments in flight or believed lost: everything between `una` and `nxt` (`packets_out`).
    pub packets_out: u32,
    /// Segments sacked; for a peer without SACK, duplicate acknowledgements (`sacked_out`).
    pub sacked_out: u32,
    /// Segments believed lost (`lost_out`).
    pub lost_out: u32,
    /// Segments of which a retransmission is in flight (`retrans_out`).
    pub retrans_out: u32,
    /// Segments ever marked lost; differences tell what one event marked (`tp->lost`).
    pub lost: u32,
    /// The effective MSS (`mss_cache`).
    pub mss: u16,
    /// The peer selectively acknowledges.
    pub sack_ok: bool,
    /// Bits of [`together`].
    together: u8,
    to_resend: RangeSet,
    /// What is sacked; `None` where nothing is.
    buffers: Option<Box<Buffers>>,
}

/// What marking one record as sacked told.
#[derive(Clone, Copy, Debug)]
pub struct SackedRecord {
    /// Where the record starts.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// Marks before.
    pub flags: u16,
    /// Its segments.
    pub segs: u16,
    /// When it was last sent.
    pub sent_at: Instant,
    /// The number of that transmission.
    pub number: u16,
    /// Delivery-rate snapshot of that transmission.
    pub stamp: Snapshot,
}

impl SackedRecord {
    fn of(start: u64, sent: &Sent) -> Self {
        Self {
            start,
            end: start + sent.span(),
            flags: sent.flags,
            segs: sent.segs,
            sent_at: sent.sent_at,
            number: sent.number,
            stamp: sent.stamp,
        }
    }

    /// The last transmission.
    #[must_use]
    pub const fn departure(&self) -> Departure {
        Departure { at: self.sent_at, number: self.number, late: self.had(flag::LATE) }
    }

    /// True when any of `bits` was set before.
    #[must_use]
    pub const fn had(&self, bits: u16) -> bool {
        self.flags & bits != 0
    }
}

impl Flight {
    /// Nothing in flight; the next offset is `start`.
    #[must_use]
    pub const fn new(start: u64, mss: u16) -> Self {
        Self {
            tx: TxQueue::new(start),
            packets_out: 0,
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            lost: 0,
            mss,
            sack_ok: false,
            together: together::ON,
            to_resend: RangeSet::new(),
            buffers: None,
        }
    }

    /// Segments that the network still holds, as far as we know (`tcp_packets_in_flight`).
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        (self.packets_out + self.retrans_out).saturating_sub(self.sacked_out + self.lost_out)
    }

    /// Segments that left the network: sacked or lost (`tcp_left_out`).
    #[must_use]
    pub const fn left_out(&self) -> u32 {
        self.sacked_out + self.lost_out
    }

    /// One past the highest sacked offset, `una` when none is (`tcp_highest_sack_seq`). Where duplicates are counted as such, Linux's mark stands
    /// at the head, of which a segment may be acknowledged in part.
    #[must_use]
    pub fn highest_sack(&self) -> u64 {
        match &self.buffers {
            _ if self.sacked_out == 0 => self.tx.una(),
            Some(buffers) => buffers.highest,
            None => self.tx.first().map_or(self.tx.una(), |(start, _)| start),
        }
    }

    /// True when a retransmission may still be in flight (`tcp_any_retrans_done`).
    #[must_use]
    pub fn any_retrans_done(&self) -> bool {
        self.retrans_out > 0 || self.tx.first().is_some_and(|(_, head)| head.has(flag::EVER_RETRANS))
    }

    /// True when the peer dropped data that it had sacked: the head of the queue is sacked (RFC 2018 section 8).
    #[must_use]
    pub fn reneged(&self) -> bool {
        self.tx.first().is_some_and(|(_, head)| head.has(flag::SACKED))
    }

    /// The last offset below `bound` that is not sacked, and the record it belongs to.
    #[must_use]
    pub fn last_unsacked_below(&self, bound: u64) -> Option<(u64, &Sent)> {
        let last = bound.checked_sub(1).filter(|l| *l >= self.tx.una())?;
        let at = match self.buffers.as_ref().and_then(|b| b.sacked.range_at(last)) {
            Some((start, _)) => start.checked_sub(1)?,
            None => last,
        };
        self.tx.covering(at)
    }

    /// Takes note of a first transmission: the record at `start` is in flight.
    pub fn on_sent(&mut self, start: u64) {
        if let Some(sent) = self.tx.get(start) {
            self.packets_out += u32::from(sent.segs);
        }
    }

    /// The last record, at `start`, never left this host: it is unsent again. Its segments.
    pub fn take_back(&mut self, start: u64) -> u16 {
        let segs = self.tx.take_back(start);
        self.packets_out = self.packets_out.saturating_sub(u32::from(segs));
        segs
    }

    /// A retransmission of the record at `start` never left this host; `counted` as in [`Self::on_resent`]. Its segments.
    pub fn take_back_resent(&mut self, start: u64, counted: bool) -> u16 {
        let none = self.tx.below.none();
        let Some(sent) = self.tx.get_mut(start) else { return 0 };
        // The next packet gets its number, and this record must not wait for that one to leave.
        sent.number = none;
        let (segs, end) = (sent.segs, start + sent.span());
        if counted && sent.has(flag::RETRANS) {
            sent.flags &= !flag::RETRANS;
            self.retrans_out -= u32::from(segs);
            if sent.has(flag::LOST) {
                self.wants_resend(start, end);
            }
        }
        segs
    }

    /// What is lost is to be sent again; of a segment whose front is acknowledged the rest.
    fn wants_resend(&mut self, start: u64, end: u64) {
        self.to_resend.insert(start.max(self.tx.una()), end);
    }

    /// Marks one record lost; true when that is news (`tcp_mark_skb_lost`).
    pub fn mark_lost(&mut self, cx: &mut Cx<'_>, start: u64) -> bool {
        let Some(sent) = self.tx.get_mut(start) else { return false };
        let (segs, end) = (u32::from(sent.segs), start + sent.span());
        if sent.has(flag::SACKED) || sent.flags & (flag::LOST | flag::RETRANS) == flag::LOST {
            return false;
        }
        if sent.has(flag::LOST) {
            sent.flags &= !flag::RETRANS;
            self.retrans_out -= segs;
            cx.count.tcp_ext.tcp_lost_retransmit += u64::from(segs);
        } else {
            sent.flags |= flag::LOST;
            self.lost_out += segs;
        }
        if !sent.has(flag::RETRANS) {
            self.wants_resend(start, end);
        }
        self.lost = self.lost.wrapping_add(segs);
        true
    }

    /// The same for what a queue of our own gave up on purpose: that is no loss of the network, so controllers that look for
    /// losses do not see it (`tp->lost`). It is not below any more, whatever of what went before it is. Only of whole records: one of which a piece was given
    /// up, or that went again in this very instant, keeps its number, and does not go again before older ones have left (`on_given_up`).
    pub fn mark_given_up(&mut self, cx: &mut Cx<'_>, start: u64) -> bool {
        let (lost, none) = (self.lost, self.tx.below.none());
        let news = self.mark_lost(cx, start);
        self.lost = lost;
        if let Some(sent) = self.tx.get_mut(start) {
            sent.number = none;
        }
        news
    }

    /// Takes back every loss mark: the reduction was spurious. Walks the window; at most once per recovery. Where the first record starts
    /// that RACK has yet to judge again, since something else marked it.
    pub fn unmark_lost(&mut self) -> Option<u64> {
        let mut undecided = None;
        for (start, sent) in self.tx.range_mut(0, u64::MAX) {
            if sent.has(flag::LOST) && !sent.has(flag::JUDGED | flag::EVER_RETRANS) {
                undecided.get_or_insert(start);
            }
            sent.flags &= !flag::LOST;
        }
        self.lost_out = 0;
        self.to_resend.clear();
        undecided
    }

    /// The first record that is lost and not retransmitted.
    #[must_use]
    pub fn next_lost(&self) -> Option<(u64, &Sent)> {
        self.tx.covering(self.to_resend.first()?.0)
    }

    /// The record at `start` went out again at `at`; `counted` unless it is a tail loss probe, which does not enter
    /// `retrans_out`.
    pub fn on_resent(&mut self, start: u64, at: Instant, late: bool, stamp: Snapshot, counted: bool) {
        let Some(syn) = self.tx.get(start).map(|sent| sent.has(flag::SYN)) else { return };
        // Nobody pays for a SYN.
        let number = if syn { self.tx.below.none() } else { self.tx.below.hand_down() };
        let Some(sent) = self.tx.get_mut(start) else { return };
        sent.count_as(Departure { at, number, late });
        sent.stamp = stamp;
        sent.flags = sent.flags & !(flag::RENEGED | flag::JUDGED) | flag::EVER_RETRANS;
        let end = start + sent.span();
        if counted {
            if !sent.has(flag::RETRANS) {
                self.retrans_out += u32::from(sent.segs);
            }
            sent.flags |= flag::RETRANS;
            self.to_resend.remove(start, end);
        }
        self.tx.on_changed(start, end);
    }

    /// The last transmission of the record at `start` never left this host: it counts as the one before, with the marks `flags` that say
    /// whether RACK judges that one. False where there is none.
    pub fn count_as_before(&mut self, start: u64, left: Departure, stamp: Snapshot, flags: u16) -> bool {
        let Some(sent) = self.tx.get_mut(start) else { return false };
        sent.count_as(left);
        sent.stamp = stamp;
        sent.flags |= flags & (flag::RENEGED | flag::JUDGED);
        true
    }

    /// Splits the record at `start` after `len` bytes, where a mark ends: both parts are counted as it was. False when it stays whole.
    pub fn split(&mut self, start: u64, len: usize) -> bool {
        let Some(mss) = self.tx.get(start).map(|sent| sent.mss) else { return false };
        self.split_at(start, len, mss)
    }

    /// The same for a retransmission of either part: both are counted at the present MSS, also the one that stays (`tcp_fragment`).
    pub fn split_to_resend(&mut self, start: u64, len: usize) -> bool {
        self.split_at(start, len, self.mss)
    }

    fn split_at(&mut self, start: u64, len: usize, mss: u16) -> bool {
        let Some(delta) = self.tx.split_record(start, len, mss) else { return false };
        self.adjust(start, delta);
        true
    }

    /// Counts the record at `start` at the present MSS, as every retransmission must.
    pub fn recount(&mut self, start: u64) {
        let delta = self.tx.recount(start, self.mss);
        self.adjust(start, delta);
    }

    /// Small segments behind the record at `start` are sent again with it, up to `space` bytes in all and to `edge`, the end of the window
    /// (`tcp_retrans_try_collapse`).
    pub fn collapse(&mut self, start: u64, space: usize, edge: u64) {
        if self.together & together::ON == 0 {
            return;
        }
        let mut joined: SmallVec<[(u64, u16); 8]> = SmallVec::new();
        self.tx.join_following(start, (space, edge), &mut |_, to, flags| joined.push((to, flags)));
        let Some(&(end, _)) = joined.last() else { return };
        self.together |= together::FREED;
        for (_, flags) in joined {
            self.adjust_marked(flags, -1);
        }
        let Some(sent) = self.tx.get(start) else { return };
        let waits = sent.flags & (flag::LOST | flag::RETRANS) == flag::LOST;
        self.to_resend.remove(end - sent.span(), end);
        if waits {
            self.to_resend.insert(start, end);
        }
    }

    /// The front of a segment was freed, or not.
    pub(super) const fn note_freed(&mut self, freed: bool) {
        if freed {
            self.together |= together::FREED;
        }
    }

    /// Segments have been joined since this was last asked, so that buffers are freed, or the front of one has (`tcp_collapse_retrans`,
    /// `tcp_trim_head`).
    pub const fn take_freed(&mut self) -> bool {
        let freed = self.together & together::FREED;
        self.together ^= freed;
        freed != 0
    }

    /// Whether small segments are retransmitted together.
    pub const fn set_collapse(&mut self, on: bool) {
        self.together = (self.together & together::FREED) | on as u8;
    }

    /// The segments of a record's range changed by `delta` (`tcp_adjust_pcount`).
    fn adjust(&mut self, start: u64, delta: i32) {
        let Some(flags) = self.tx.get(start).map(|s| s.flags) else { return };
        self.adjust_marked(flags, delta);
    }

    fn adjust_marked(&mut self, flags: u16, delta: i32) {
        self.packets_out = self.packets_out.saturating_add_signed(delta);
        if flags & flag::SACKED != 0 {
            self.sacked_out = self.sacked_out.saturating_add_signed(delta);
        }
        if flags & flag::RETRANS != 0 {
            self.retrans_out = self.retrans_out.saturating_add_signed(delta);
        }
        if flags & flag::LOST != 0 {
            self.lost_out = self.lost_out.saturating_add_signed(delta);
        }
        // Duplicates without SACK stand for segments, of which there are fewer now.
        if !self.sack_ok && delta < 0 {
            self.sacked_out = self.sacked_out.saturating_add_signed(delta);
        }
    }

    /// Marks the record at `start` as sacked; what it was, where that is news (`tcp_sacktag_one`).
    pub fn sack_record(&mut self, start: u64) -> Option<SackedRecord> {
        let sent = self.tx.get_mut(start)?;
        let told = SackedRecord::of(start, sent);
        if told.had(flag::SACKED) {
            return None;
        }
        let segs = u32::from(told.segs);
        if told.had(flag::LOST) {
            // Not lost: the retransmission in flight is what arrived. Without the mark it may still be on its way.
            if told.had(flag::RETRANS) {
                sent.flags &= !flag::RETRANS;
                self.retrans_out -= segs;
            }
            sent.flags &= !flag::LOST;
            self.lost_out -= segs;
            self.to_resend.remove(start, told.end);
        }
        sent.flags |= flag::SACKED;
        self.buffers.get_or_insert_default().insert(start, told.end);
        self.sacked_out += segs;
        Some(told)
    }

    /// A D-SACK says that what the record at `start` was sent again for has arrived: nothing of it is in flight.
    pub fn clear_resent(&mut self, start: u64) {
        if let Some(sent) = self.tx.get_mut(start).filter(|sent| sent.has(flag::RETRANS)) {
            sent.flags &= !flag::RETRANS;
            self.retrans_out -= u32::from(sent.segs);
        }
    }

    /// Takes the first record, or the front of it, out of flight because `ack` covers it; counters follow.
    pub fn take_acked(&mut self, pool: &mut Pool, ack: u64) -> Option<super::tx_queue::Acked> {
        let acked = match self.tx.pop_acked(pool, ack) {
            Some(acked) => acked,
            None => match self.left_of_joined(ack) {
                Some(left) => self.tx.trim_acked_to(ack, left)?,
                None => self.tx.trim_acked(ack)?,
            },
        };
        let segs = u32::from(acked.segs);
        self.packets_out -= segs;
        if acked.has(flag::SACKED) {
            self.sacked_out -= segs;
        }
        if acked.has(flag::LOST) {
            self.lost_out -= segs;
        }
        if acked.has(flag::RETRANS) {
            self.retrans_out -= segs;
        }
        if self.buffers.is_some() {
            self.cut_buffer(acked.start, acked.end, ack);
        }
        Some(acked)
    }

    /// Everything below `ack` is gone: buffers and indices follow.
    pub fn advance_una(&mut self, ack: u64) {
        self.tx.advance_una(ack);
        let sacked = self.buffers.as_mut().map(|b| &mut b.sacked);
        for set in sacked.into_iter().chain([&mut self.to_resend]) {
            if !set.is_empty() {
                set.remove_below(ack);
            }
        }
    }

    /// Forgets every SACK: the peer reneged.
    pub fn forget_sacks(&mut self) {
        for (_, sent) in self.tx.range_mut(0, u64::MAX).filter(|(_, sent)| sent.has(flag::SACKED)) {
            sent.flags = sent.flags & !flag::SACKED | flag::RENEGED;
        }
        self.sacked_out = 0;
        self.part_buffers();
    }

    /// Counts duplicate acknowledgements as sacked segments for peers without SACK; true when they were more than can be,
    /// which shows reordering (`tcp_limit_reno_sacked`).
    pub fn limit_reno_sacked(&mut self) -> bool {
        let holes = self.lost_out.max(1).min(self.packets_out);
        if self.sacked_out + holes > self.packets_out {
            self.sacked_out = self.packets_out - holes;
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests;
