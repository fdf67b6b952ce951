//! Congestion window validation: a window that was not used is not proven (RFC 2861, RFC 7661's problem, `tcp_cwnd_validate`).
use super::recovery::{Env, Recovery};
use super::tx_queue::Pushed;
use crate::base::time::Instant;
use crate::path::Path;
use crate::path::congestion::{CaEvent, CaState, Congestion as _, Window};

/// How the window was used.
#[derive(Debug)]
pub(super) struct Usage {
    /// Most segments out in this round.
    max_packets_out: u32,
    /// Most segments out since the window was last full.
    cwnd_used: u32,
    /// End of the round (`cwnd_usage_seq`).
    pub(super) round_end: u64,
    /// The window, not the application, was the limit in this round.
    limited: bool,
    /// The window that the connection began with.
    pub(super) initial: u16,
    /// When data was last sent (`lsndtime`).
    pub(super) last_sent: Instant,
    /// The controller has begun (`icsk_ca_initialized`).
    pub(super) begun: bool,
}

impl Usage {
    pub(super) const fn new() -> Self {
        Self {
            max_packets_out: 0,
            cwnd_used: 0,
            round_end: 0,
            limited: false,
            initial: Window::INITIAL as u16,
            last_sent: Instant::ZERO,
            begun: false,
        }
    }

    /// `tcp_is_cwnd_limited`: in slow start a window half used may still grow.
    pub(super) const fn is_limited(&self, path: &Path) -> bool {
        self.limited || (path.window.in_slow_start() && path.window.cwnd < 2 * self.max_packets_out)
    }

    /// A round of sending ended; true when the window was not what limited it. `pushed` is what a write has pushed out before it goes
    /// on, which has left for Linux.
    pub(super) fn validate(
        &mut self,
        recovery: &Recovery,
        e: &mut Env<'_, '_>,
        pushed: Pushed,
        limited: bool,
        kept: bool,
    ) -> bool {
        let out = e.flight.packets_out + u32::from(pushed.segs);
        if e.flight.tx.una() >= self.round_end || limited || (!self.limited && out > self.max_packets_out) {
            self.limited = limited;
            self.max_packets_out = out;
            self.round_end = e.flight.tx.nxt() + u64::from(pushed.bytes);
        }
        if self.is_limited(e.path) {
            self.cwnd_used = 0;
            e.path.window.stamp = e.cx.now;
            return false;
        }
        self.cwnd_used = self.cwnd_used.max(out);
        if e.cx.sysctl.tcp_slow_start_after_idle
            && e.cx.now.since(e.path.window.stamp) >= e.path.rtt.rto(e.cx.sysctl)
            && !e.path.congestion.wishes().governs
        {
            self.application_limited(recovery, e, kept);
        }
        true
    }

    /// The application has not used the window for an RTO: it shrinks halfway to what was used (RFC 2861 section 3.2).
    fn application_limited(&mut self, recovery: &Recovery, e: &mut Env<'_, '_>, kept: bool) {
        if recovery.ca == CaState::Open && !kept {
            let used = self.cwnd_used.max(self.initial.into());
            let cwnd = e.path.window.cwnd;
            if used < cwnd {
                let ssthresh = recovery.current_ssthresh(e.path);
                e.path.window.set_ssthresh(e.cx, ssthresh);
                e.path.window.set_cwnd(e.cx, (cwnd + used) >> 1);
            }
            self.cwnd_used = 0;
        }
        e.path.window.stamp = e.cx.now;
    }

    /// Nothing was sent for longer than an RTO: the window halves for every RTO, down to the initial one
    /// (`tcp_cwnd_restart`).
    pub(super) fn restart(&mut self, recovery: &Recovery, e: &mut Env<'_, '_>) {
        if e.path.congestion.wishes().governs {
            return;
        }
        let flow = e.flow();
        let Env { cx, path, .. } = e;
        // In ticks of a millisecond, as Linux has it: a nanosecond more than two timeouts is no third, and a timeout below a tick is one
        // (`usecs_to_jiffies`).
        let rto = path.rtt.rto(cx.sysctl).as_nanos().div_ceil(1_000_000).max(1);
        let mut idle = u128::from(cx.now.as_millis().saturating_sub(self.last_sent.as_millis()));
        if idle <= rto {
            return;
        }
        path.tell(cx, CaEvent::CwndRestart, &flow);
        let ssthresh = recovery.current_ssthresh(path);
        path.window.set_ssthresh(cx, ssthresh);
        let mut cwnd = path.window.cwnd;
        let floor = u32::from(self.initial).min(cwnd);
        while cwnd > floor && idle > rto {
            idle -= rto;
            cwnd >>= 1;
        }
        path.window.reset_cwnd(cx, cwnd.max(floor));
        self.cwnd_used = 0;
    }
}
