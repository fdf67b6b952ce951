//! Loss by counting duplicate acknowledgements, for peers without SACK (RFC 6582).
use super::{Ack, Env, Recovery, Reorder};
use crate::path::congestion::CaState;
use crate::tcp::tx_queue::flag;

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
