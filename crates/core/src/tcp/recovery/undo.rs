//! Undoing reductions that proved spurious: by D-SACK, by timestamps (Eifel, RFC 3522, RFC 4015), by F-RTO.
use super::tlp::Tlp;
use super::{Ack, Env, Recovery, fact};
use crate::base::time::Instant;
use crate::path::congestion::{CaState, Congestion as _};
use crate::tcp::scoreboard::Flight;
use core::num::NonZeroU64;

/// A place in the stream, in one word also where it is optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker(NonZeroU64);

impl Marker {
    /// At `una`, in bytes from the ISN.
    pub(in crate::tcp) const fn at(una: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(una))
    }

    /// Where it stands.
    pub(super) const fn una(self) -> u64 {
        self.0.get() - 1
    }
}

/// What an undo needs to know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Undo {
    /// `snd.una` when the reduction began; `None` when there is nothing to undo (`undo_marker`).
    pub marker: Option<Marker>,
    /// Retransmitted segments not yet reported as duplicates; -1 before the first (`undo_retrans`).
    pub retrans: i32,
    /// When the first retransmission of this episode left (`retrans_stamp`).
    pub stamp: Option<Instant>,
    /// `ssthresh` to return to; 0 forbids (`prior_ssthresh`).
    pub prior_ssthresh: u32,
    /// Segments ever retransmitted (`total_retrans`).
    pub total_retrans: u32,
    /// Duplicates ever reported (`dsack_dups`).
    pub dsack_dups: u32,
}

impl Undo {
    /// A reduction begins (`tcp_init_undo`).
    pub(super) fn begin(&mut self, flight: &Flight, tlp: &Tlp) {
        self.marker = Some(Marker::at(flight.tx.una()));
        // A tail loss probe that is out is a retransmission too, though retrans_out does not count it.
        let out = flight.retrans_out as i32 + i32::from(tlp.retrans_out());
        self.retrans = if out > 0 { out } else { -1 };
    }

    /// `segs` segments were retransmitted at `at`.
    pub(in crate::tcp) fn on_retransmit(&mut self, segs: u16, at: Instant) {
        if self.stamp.is_none() {
            self.stamp = Some(at);
        }
        self.retrans = self.retrans.max(0).saturating_add(i32::from(segs));
    }

    /// `segs` retransmitted segments were reported as duplicates.
    pub(super) fn on_duplicate(&mut self, segs: u32) {
        self.retrans = (self.retrans - segs as i32).max(0);
    }
}

impl Recovery {
    /// The acknowledgement was caused by an original, not by a retransmission (`tcp_packet_delayed`).
    fn packet_delayed(&self, e: &Env<'_, '_>, ack: &Ack) -> bool {
        match self.undo.stamp {
            Some(sent) => ack.echoes_before(sent),
            // A state that is held for a peer without SACK has forgotten when it sent again.
            None if !e.flight.sack_ok && e.flight.tx.una() >= self.high_seq => false,
            // Recovery began, but nothing was retransmitted yet: it was an original. Linux takes the SYN of a simultaneous open for
            // one, too, whose acknowledgement forgets when it went again.
            None => ack.prior_una > 0 || ack.has(fact::CROSSED),
        }
    }

    fn may_undo(&self, e: &Env<'_, '_>, ack: &Ack) -> bool {
        self.undo.marker.is_some() && (self.undo.retrans == 0 || self.packet_delayed(e, ack))
    }

    /// Returns to the window before the reduction (`tcp_undo_cwnd_reduction`).
    fn undo_reduction(&mut self, e: &mut Env<'_, '_>, unmark: bool) {
        if unmark {
            let undecided = e.flight.unmark_lost();
            self.rack.on_unmarked(e.flight, undecided);
        }
        if self.undo.prior_ssthresh != 0 {
            let cwnd = e.path.congestion.undo_cwnd(&e.path.window);
            e.path.window.set_cwnd(e.cx, cwnd);
            if self.undo.prior_ssthresh > e.path.window.ssthresh {
                e.path.window.set_ssthresh(e.cx, self.undo.prior_ssthresh);
                self.cwr_pending = false;
            }
        }
        e.path.window.stamp = e.cx.now;
        self.undo.marker = None;
        self.rack.look_again();
    }

    /// The recovery point is acknowledged: undo if all was in vain, and leave; true when the state must be held for a peer
    /// without SACK, whose late duplicates would start the next recovery (RFC 6582 section 4).
    pub(in crate::tcp) fn try_undo_recovery(&mut self, e: &mut Env<'_, '_>, ack: &Ack) -> bool {
        if self.may_undo(e, ack) {
            if self.ca == CaState::Loss {
                e.cx.count.tcp_ext.tcp_loss_undo += 1;
            } else {
                e.cx.count.tcp_ext.tcp_full_undo += 1;
            }
            self.undo_reduction(e, false);
        } else {
            self.rack.end_of_recovery();
        }
        if self.holds_for_reno(e) {
            return true;
        }
        self.set_ca(e, CaState::Open);
        self.reneged = false;
        false
    }

    fn holds_for_reno(&mut self, e: &Env<'_, '_>) -> bool {
        if e.flight.sack_ok || e.flight.tx.una() != self.high_seq {
            return false;
        }
        if !e.flight.any_retrans_done() {
            self.undo.stamp = None;
        }
        true
    }

    /// Every retransmission was reported as a duplicate: nothing had been lost (`tcp_try_undo_dsack`).
    pub(super) fn try_undo_dsack(&mut self, e: &mut Env<'_, '_>) -> bool {
        if self.undo.marker.is_none() || self.undo.retrans != 0 {
            return false;
        }
        self.rack.persist_more();
        self.undo_reduction(e, false);
        e.cx.count.tcp_ext.tcp_dsack_undo += 1;
        true
    }

    /// A hole was filled in the middle of recovery; true when the filler was a delayed original and no retransmission is
    /// out that could tell more: then nothing further is marked or sent (`tcp_try_undo_partial`).
    pub(super) fn try_undo_partial(&mut self, e: &mut Env<'_, '_>, ack: &Ack) -> bool {
        if self.undo.marker.is_none() || !self.packet_delayed(e, ack) {
            return false;
        }
        let late = ack.prior_una..e.flight.highest_sack();
        self.check_reordering(e, late, true);
        if e.flight.retrans_out > 0 {
            return true;
        }
        if !e.flight.any_retrans_done() {
            self.undo.stamp = None;
        }
        self.undo_reduction(e, true);
        e.cx.count.tcp_ext.tcp_partial_undo += 1;
        self.keep_open(e);
        false
    }

    /// The timeout was spurious, by F-RTO (`by_frto`) or by the usual tests (`tcp_try_undo_loss`).
    pub(super) fn try_undo_loss(&mut self, e: &mut Env<'_, '_>, ack: &Ack, by_frto: bool) -> bool {
        if !by_frto && !self.may_undo(e, ack) {
            return false;
        }
        self.undo_reduction(e, true);
        e.cx.count.tcp_ext.tcp_loss_undo += 1;
        if by_frto {
            e.cx.count.tcp_ext.tcp_spurious_rtos += 1;
        }
        self.timeouts.retransmits = 0;
        if !self.holds_for_reno(e) && (by_frto || e.flight.sack_ok) {
            self.set_ca(e, CaState::Open);
            self.reneged = false;
        }
        true
    }
}
