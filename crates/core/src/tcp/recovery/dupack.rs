//! Loss by counting: duplicate acknowledgements of peers without SACK (RFC 6582), sacked segments when RACK is off (RFC 6675).
use super::{Ack, Env, Recovery, Reorder};
use crate::path::congestion::CaState;
use crate::tcp::tx_queue::flag;

/// How far the count of sacked segments has got (`lost_skb_hint`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Dupack {
    /// Every record below was looked at.
    cursor: u64,
    /// Sacked segments below the cursor.
    below: u32,
}

impl Dupack {
    /// Starts over, after marks were taken back or everything was marked.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// `segs` segments at `start` were newly sacked.
    pub(super) fn on_sacked(&mut self, start: u64, segs: u16) {
        if start < self.cursor {
            self.below += u32::from(segs);
        }
    }

    /// `segs` segments at `start` that were sacked are acknowledged.
    pub(in crate::tcp) fn on_acked(&mut self, start: u64, segs: u16) {
        if start < self.cursor {
            self.below = self.below.saturating_sub(u32::from(segs));
        }
    }

    /// Marks every record lost that has `degree` sacked segments above it (`tcp_update_scoreboard`), or just the head on entry
    /// to recovery.
    pub(super) fn update(&mut self, e: &mut Env<'_, '_>, degree: u32, fast_rexmit: bool) {
        if !e.flight.sack_ok {
            return;
        }
        let Some(upto) = e.flight.sacked_out.checked_sub(degree) else {
            if fast_rexmit && let Some((start, _)) = e.flight.tx.first() {
                e.flight.mark_lost(e.cx, start);
            }
            return;
        };
        while let Some((start, sent)) = e.flight.tx.at_or_after(self.cursor) {
            let (end, segs) = (start + sent.span(), u32::from(sent.segs));
            if sent.has(flag::SACKED) {
                if self.below + segs > upto {
                    break;
                }
                self.below += segs;
            } else if self.below > upto {
                break;
            } else {
                e.flight.mark_lost(e.cx, start);
            }
            self.cursor = end;
        }
    }
}

/// Without SACK the head is lost after enough duplicates, and after every partial acknowledgement (RFC 6582 section 3.2,
/// `tcp_newreno_mark_lost`).
pub(super) fn newreno_mark_lost(ca: CaState, reorder: &Reorder, e: &mut Env<'_, '_>, una_advanced: bool) {
    let enough = ca < CaState::Recovery && e.flight.sacked_out >= reorder.degree;
    let partial = ca == CaState::Recovery && una_advanced;
    if !enough && !partial {
        return;
    }
    let Some((start, head)) = e.flight.tx.first() else { return };
    if head.has(flag::LOST) {
        return;
    }
    if head.segs > 1 {
        let mss = usize::from(head.mss);
        e.flight.split(start, mss);
    }
    e.flight.mark_lost(e.cx, start);
}

impl Recovery {
    /// A duplicate acknowledgement stands for a segment that arrived (`tcp_add_reno_sack`).
    pub(super) fn add_reno_sack(&mut self, e: &mut Env<'_, '_>, ack: &mut Ack, dup: bool) {
        if !dup {
            return;
        }
        let prior = e.flight.sacked_out;
        e.flight.sacked_out += 1;
        self.check_reno_reordering(e, 0);
        ack.delivered += e.flight.sacked_out.saturating_sub(prior);
    }

    /// A cumulative acknowledgement of `acked` segments takes the emulated SACKs back (`tcp_remove_reno_sacks`).
    pub(in crate::tcp) fn remove_reno_sacks(&mut self, e: &mut Env<'_, '_>, ack: &mut Ack, acked: u32) {
        if acked > 0 {
            ack.delivered += acked.saturating_sub(e.flight.sacked_out).max(1);
            e.flight.sacked_out = e.flight.sacked_out.saturating_sub(acked - 1);
        }
        self.check_reno_reordering(e, acked);
    }

    fn check_reno_reordering(&mut self, e: &mut Env<'_, '_>, addend: u32) {
        if !e.flight.limit_reno_sacked() {
            return;
        }
        self.reorder.degree = (e.flight.packets_out + addend).min(e.cx.sysctl.tcp_max_reordering);
        self.reorder.seen = self.reorder.seen.saturating_add(1);
        e.cx.count.tcp_ext.tcp_reno_reorder += 1;
    }
}
