//! Proportional rate reduction (RFC 9937); RecoverFS is the congestion window, as in Linux.
use super::{Ack, Env, Recovery, fact};
use crate::path::Path;
use crate::path::congestion::{CaEvent, CaState, Congestion as _, Window};

/// Counters of one reduction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prr {
    /// Window before it (`prior_cwnd`, RecoverFS).
    pub prior_cwnd: u32,
    /// Segments delivered in it.
    pub delivered: u32,
    /// Segments sent in it.
    pub out: u32,
}

impl Recovery {
    /// `ssthresh` as it would be remembered now (`tcp_current_ssthresh`).
    pub(in crate::tcp) fn current_ssthresh(&self, path: &Path) -> u32 {
        let w = &path.window;
        if self.in_reduction() { w.ssthresh } else { w.ssthresh.max((w.cwnd >> 1) + (w.cwnd >> 2)) }
    }

    /// A reduction begins (`tcp_init_cwnd_reduction`).
    pub(super) fn init_reduction(&mut self, e: &mut Env<'_, '_>) {
        self.high_seq = e.flight.tx.nxt();
        self.tlp.high_seq = None;
        e.path.window.cwnd_cnt = 0;
        self.prr = Prr { prior_cwnd: e.path.window.cwnd, delivered: 0, out: 0 };
        let ssthresh = e.path.congestion.ssthresh(e.cx, &e.path.window);
        e.path.window.set_ssthresh(e.cx, ssthresh);
        self.cwr_pending = true;
    }

    /// One acknowledgement within it (`tcp_cwnd_reduction`).
    pub(in crate::tcp) fn reduce(
        &mut self,
        e: &mut Env<'_, '_>,
        delivered: u32,
        lost: u32,
        ack: Option<&Ack>,
    ) {
        if delivered == 0 || self.prr.prior_cwnd == 0 {
            return;
        }
        let prr = &mut self.prr;
        prr.delivered = prr.delivered.saturating_add(delivered);
        let in_flight = e.flight.in_flight();
        let ssthresh = e.path.window.ssthresh;
        let send = if in_flight > ssthresh {
            let due = (u64::from(ssthresh) * u64::from(prr.delivered)).div_ceil(u64::from(prr.prior_cwnd));
            due as i64 - i64::from(prr.out)
        } else {
            let mut send = (i64::from(prr.delivered) - i64::from(prr.out)).max(i64::from(delivered));
            // SafeACK: slow-start bound only while una moves and nothing more is lost; else the conservative one.
            if ack.is_some_and(|a| a.has(fact::UNA_ADVANCED)) && lost == 0 {
                send += 1;
            }
            send.min(i64::from(ssthresh - in_flight))
        };
        // The first acknowledgement always lets one retransmission out.
        let send = send.max(i64::from(prr.out == 0));
        let cwnd = (i64::from(in_flight) + send).clamp(0, i64::from(u32::MAX)) as u32;
        e.path.window.set_cwnd(e.cx, cwnd);
    }

    /// `segs` segments left, for the first time or again.
    pub(in crate::tcp) fn count_out(&mut self, segs: u16) {
        if self.in_reduction() {
            self.prr.out = self.prr.out.saturating_add(u32::from(segs));
        }
    }

    /// They did not.
    pub(in crate::tcp) fn uncount_out(&mut self, segs: u16) {
        if self.in_reduction() {
            self.prr.out = self.prr.out.saturating_sub(u32::from(segs));
        }
    }

    /// The reduction is complete (`tcp_end_cwnd_reduction`).
    pub(super) fn end_reduction(&mut self, e: &mut Env<'_, '_>) {
        if e.path.congestion.wishes().governs {
            return;
        }
        let ssthresh = e.path.window.ssthresh;
        if ssthresh < Window::INFINITE_SSTHRESH && (self.ca == CaState::Cwr || self.undo.marker.is_some()) {
            e.path.window.reset_cwnd(e.cx, ssthresh);
        }
        let flow = e.flow();
        e.path.tell(e.cx, CaEvent::CompleteCwr, &flow);
    }
}
