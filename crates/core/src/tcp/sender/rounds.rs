//! The ends of rounds of sending: whether the congestion window was what ended them (RFC 7661, `tcp_cwnd_validate`).
use super::{SendPlan, Sender};
use crate::base::{Cx, Instant};
use crate::path::Path;
use crate::tcp::recovery::Env;
use crate::tcp::tx_queue::Pushed;

impl Sender {
    /// The end of a round of sending new data: `segs` segments left, and the window was or was not what stopped it
    /// (`tcp_write_xmit`'s end). `kept` says that the window stays though it is not used: the application waits for room, or is gone. True
    /// when something was sent and the window was not the limit.
    pub fn after_write(
        &mut self,
        cx: &mut Cx<'_>,
        path: &mut Path,
        segs: u32,
        cwnd_limited: bool,
        kept: bool,
    ) -> bool {
        // With nothing to send nobody looks at the window.
        let asked = segs > 0 || self.flight.tx.unsent.head().is_some();
        let limited = cwnd_limited || (asked && self.flight.in_flight() >= path.window.cwnd);
        let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
        let starved =
            (segs > 0 || limited) && self.usage.validate(&self.recovery, &mut e, Pushed::NONE, limited, kept);
        if segs > 0 {
            self.recovery.schedule_probe(&mut e, false);
        }
        starved
    }

    /// A tail loss probe of new data left: as [`Self::after_write`], but the RTO timer stays.
    pub fn after_new_probe(&mut self, cx: &mut Cx<'_>, path: &mut Path, kept: bool) -> bool {
        let limited = self.flight.in_flight() >= path.window.cwnd;
        let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
        self.usage.validate(&self.recovery, &mut e, Pushed::NONE, limited, kept)
    }

    /// A write has pushed packets out and goes on: the end of a round for Linux, which has sent them.
    pub fn after_push_within(&mut self, cx: &mut Cx<'_>, path: &mut Path, kept: bool) {
        let pushed = self.flight.tx.unsent.pushed();
        let limited = self.flight.in_flight() + u32::from(pushed.segs) >= path.window.cwnd;
        let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
        self.usage.validate(&self.recovery, &mut e, pushed, limited, kept);
    }

    /// Data leaves, the first time or again (`tcp_event_data_sent`).
    pub(super) fn note_data(&mut self, now: Instant, plan: &SendPlan) {
        if !plan.payload.is_empty() {
            self.usage.last_sent = now;
        }
    }

    /// The window was the limit when this flow last sent, or would have been (`tcp_is_cwnd_limited`).
    #[must_use]
    pub const fn is_cwnd_limited(&self, path: &Path) -> bool {
        self.usage.is_limited(path)
    }

    /// The application writes after a pause longer than the RTO: the window is no longer proven (RFC 2861,
    /// `tcp_slow_start_after_idle_check`). To be called before an idle connection sends.
    pub fn check_idle_restart(&mut self, cx: &mut Cx<'_>, path: &mut Path) {
        if cx.sysctl.tcp_slow_start_after_idle && self.flight.packets_out == 0 {
            let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
            self.usage.restart(&self.recovery, &mut e);
        }
    }
}
