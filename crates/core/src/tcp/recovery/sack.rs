//! What SACK blocks say: validation (RFC 2018), and duplicates (RFC 2883).
use super::tag::Walk;
use super::undo::Marker;
use super::{Ack, Env, Recovery, fact};
use crate::path::congestion::CaState;
use crate::tcp::scoreboard::Blocks;
use crate::tcp::sender::SACK_BLOCKS_MAX;

impl Recovery {
    /// Works through the blocks of one acknowledgement, `una` being already moved. Offsets, in the order of the option.
    pub(in crate::tcp) fn sack(&mut self, e: &mut Env<'_, '_>, ack: &mut Ack, blocks: &[(u64, u64)]) {
        ack.reord = e.flight.tx.nxt();
        let dup = self.check_dsack(e, ack, blocks);
        if e.flight.packets_out == 0 {
            return;
        }
        // An acknowledgement from far before the window is worth nothing.
        if ack.ack + u64::from(ack.window.largest) < ack.prior_una {
            return;
        }
        let (blocks, dup) = self.usable(e, ack, blocks, dup);
        let fack = Walk::new(self, e, ack).run(blocks, dup);
        if self.ca != CaState::Loss || self.undo.marker.is_some() {
            self.check_reordering(e, ack.reord..fack, false);
        }
    }

    /// The blocks that say something, in ascending order: what one acknowledgement reports at once did not overtake itself. And the
    /// place of the D-SACK among them.
    fn usable(
        &self,
        e: &mut Env<'_, '_>,
        ack: &Ack,
        blocks: &[(u64, u64)],
        dup: bool,
    ) -> (Blocks, Option<usize>) {
        let mut usable: smallvec::SmallVec<[(u64, u64, bool); SACK_BLOCKS_MAX]> = smallvec::SmallVec::new();
        for (i, &(start, end)) in blocks.iter().take(SACK_BLOCKS_MAX).enumerate() {
            let is_dup = dup && i == 0;
            if !self.is_valid(e, ack, (start, end), is_dup) {
                self.count_refused(e, ack, end, is_dup);
            } else if end > ack.prior_una {
                usable.push((start, end, is_dup));
            }
        }
        usable.sort_by_key(|block| block.0);
        let dup = usable.iter().position(|block| block.2);
        (usable.iter().map(|block| (block.0, block.1)).collect(), dup)
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
        start >= marker || (end > marker && start + u64::from(ack.window.largest) >= end)
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
        let segs = self.dsack_seen(e, ack, end);
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
    fn dsack_seen(&mut self, e: &mut Env<'_, '_>, ack: &mut Ack, end: u64) -> u32 {
        let (len, mss) = (ack.first_len, u32::from(e.flight.mss));
        if len == 0 || len > ack.window.largest {
            return 0;
        }
        let mut segs = 1;
        if len > mss {
            segs = len.div_ceil(mss.max(1));
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
