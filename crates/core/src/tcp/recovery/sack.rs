//! What SACK blocks say: validation (RFC 2018), duplicates (RFC 2883), and the marks that follow (`tcp_sacktag_write_queue`).
use super::undo::Marker;
use super::{Ack, Env, Recovery, fact};
use crate::path::congestion::CaState;
use crate::tcp::scoreboard::SackedRecord;
use crate::tcp::sender::SACK_BLOCKS_MAX;
use crate::tcp::tx_queue::flag;

impl Recovery {
    /// Works through the blocks of one acknowledgement, `una` being already moved. Offsets, in the order of the option.
    pub(in crate::tcp) fn sack(&mut self, e: &mut Env<'_, '_>, ack: &mut Ack, blocks: &[(u64, u64)]) {
        ack.reord = e.flight.tx.nxt();
        let dup = self.check_dsack(e, ack, blocks);
        if e.flight.packets_out == 0 {
            return;
        }
        // An acknowledgement from far before the window is worth nothing.
        if ack.ack + u64::from(ack.max_window) < ack.prior_una {
            return;
        }
        // In ascending order: what one acknowledgement reports at once did not overtake itself.
        let mut sorted: smallvec::SmallVec<[(u64, u64, bool); SACK_BLOCKS_MAX]> =
            blocks.iter().take(SACK_BLOCKS_MAX).enumerate().map(|(i, b)| (b.0, b.1, dup && i == 0)).collect();
        sorted.sort_by_key(|block| block.0);
        let mut judged = false;
        for (i, &(start, end, is_dup)) in sorted.iter().enumerate() {
            if !self.is_valid(e, ack, (start, end), is_dup) {
                self.count_refused(e, ack, end, is_dup);
                continue;
            }
            if end <= ack.prior_una {
                continue;
            }
            if is_dup && !judged {
                self.mark_duplicates(e, ack, start, end);
            }
            // A duplicate inside of this block is judged by what was known before the block (`tcp_sacktag_walk`, next_dup).
            let inner = sorted.get(i + 1).filter(|next| next.2 && next.1 <= end);
            if let Some(&(start, end, _)) = inner.filter(|next| self.is_valid(e, ack, (next.0, next.1), true))
            {
                self.mark_duplicates(e, ack, start, end);
                judged = true;
            }
            // What this very acknowledgement covers is about to go.
            if end > e.flight.tx.una() {
                self.mark_sacked(e, ack, start, end);
            }
        }
        if self.ca != CaState::Loss || self.undo.marker.is_some() {
            self.check_reordering(e, ack.reord, false);
        }
    }

    /// RFC 2018 section 5 and RFC 2883 section 4, as strict as Linux (`tcp_is_sackblock_valid`).
    fn is_valid(&self, e: &Env<'_, '_>, ack: &Ack, (start, end): (u64, u64), dup: bool) -> bool {
        let (una, nxt) = (e.flight.tx.una(), e.flight.tx.nxt());
        if end > nxt || start >= end || start >= nxt {
            return false;
        }
        if start > una {
            return true;
        }
        let Some(marker) = self.undo.marker.filter(|_| dup).map(Marker::una) else { return false };
        if end > una {
            return false;
        }
        start >= marker || (end > marker && start + u64::from(ack.max_window) >= end)
    }

    /// A block that is not valid, for whatever reason.
    fn count_refused(&self, e: &mut Env<'_, '_>, ack: &Ack, end: u64, dup: bool) {
        let una = e.flight.tx.una();
        let c = &mut e.cx.count.tcp_ext;
        if dup && self.undo.marker.is_none() {
            c.tcp_dsack_ignored_no_undo += 1;
        } else if dup {
            c.tcp_dsack_ignored_old += 1;
        } else if ack.ack == una || end > una {
            // An acknowledgement that came late has old blocks; that is no fault of theirs.
            c.tcp_sack_discard += 1;
        }
    }

    fn mark_sacked(&mut self, e: &mut Env<'_, '_>, ack: &mut Ack, start: u64, end: u64) {
        let fack = e.flight.highest_sack();
        let mut told: smallvec::SmallVec<[SackedRecord; 4]> = smallvec::SmallVec::new();
        e.flight.sack(start, end, &mut |r| told.push(r));
        for r in &mut told {
            self.on_sacked(e, ack, r, fack);
        }
    }

    /// One record is newly sacked (`tcp_sacktag_one`).
    fn on_sacked(&mut self, e: &mut Env<'_, '_>, ack: &mut Ack, r: &mut SackedRecord, fack: u64) {
        self.rack.advance(e.path, ack, r.flags, r.end, r.departure());
        let resent = r.had(flag::RETRANS | flag::EVER_RETRANS);
        if !resent {
            // Never retransmitted and in a hole: it was overtaken.
            if r.start < fack && r.start < ack.reord {
                ack.reord = r.start;
            }
            if r.end <= self.high_seq {
                ack.facts |= fact::ORIG_SACK_ACKED;
            }
            let first = ack.sacked_at.map_or(r.sent_at, |(first, _)| first);
            ack.sacked_at = Some((first, r.sent_at));
        }
        ack.facts |= fact::DATA_SACKED;
        ack.delivered += u32::from(r.segs);
        e.path.rate.on_delivered(&mut ack.sampler, &mut r.stamp, r.sent_at, resent);
    }

    /// A D-SACK above `una`: retransmissions of what had been sacked are accounted for.
    fn mark_duplicates(&mut self, e: &mut Env<'_, '_>, ack: &mut Ack, start: u64, end: u64) {
        let undo = &mut self.undo;
        e.flight.dsack(start, end, &mut |r| {
            if undo.retrans > 0 && undo.marker.is_some_and(|marker| r.end > marker.una()) {
                undo.on_duplicate(u32::from(r.segs));
            }
            if r.had(flag::SACKED) && r.start < ack.reord {
                ack.reord = r.start;
            }
        });
    }

    /// True when the first block is a D-SACK for something that we did send twice (`tcp_check_dsack`, RFC 2883 section 4).
    fn check_dsack(&mut self, e: &mut Env<'_, '_>, ack: &mut Ack, blocks: &[(u64, u64)]) -> bool {
        let Some(&(start, end)) = blocks.first() else { return false };
        if start < ack.ack {
            e.cx.count.tcp_ext.tcp_dsack_recv += 1;
        } else if let Some(&(outer_start, outer_end)) = blocks.get(1)
            && start >= outer_start
            && end <= outer_end
        {
            e.cx.count.tcp_ext.tcp_dsack_ofo_recv += 1;
        } else {
            return false;
        }
        let segs = self.dsack_seen(e, ack, start, end);
        if segs == 0 {
            e.cx.count.tcp_ext.tcp_dsack_ignored_dubious += 1;
            return false;
        }
        e.cx.count.tcp_ext.tcp_dsack_recv_segs += u64::from(segs);
        // About data already forgotten: it can only be counted.
        if self.undo.retrans > 0
            && end <= ack.prior_una
            && self.undo.marker.is_some_and(|marker| end > marker.una())
        {
            self.undo.on_duplicate(segs);
        }
        true
    }

    /// How many segments a D-SACK stands for; 0 when it is not credible (`tcp_dsack_seen`).
    fn dsack_seen(&mut self, e: &mut Env<'_, '_>, ack: &mut Ack, start: u64, end: u64) -> u32 {
        let len = end.saturating_sub(start);
        if len == 0 || len > u64::from(ack.max_window) {
            return 0;
        }
        let mut segs = 1;
        if len > u64::from(e.flight.mss) {
            segs = len.div_ceil(u64::from(e.flight.mss.max(1))) as u32;
        } else if self.tlp.high_seq.is_some_and(|high| high.get() == end) {
            ack.facts |= fact::DSACK_TLP;
        }
        self.undo.dsack_dups = self.undo.dsack_dups.saturating_add(segs);
        if self.undo.dsack_dups > self.undo.total_retrans {
            return 0;
        }
        // The probe has its own way of noticing that it was in vain.
        if self.reorder.seen > 0 && !ack.has(fact::DSACK_TLP) {
            self.rack.on_dsack();
        }
        ack.facts |= fact::DSACKING_ACK;
        ack.delivered += segs;
        segs
    }
}
