//! PROBE_RTT: when no small round trip was seen for ten seconds, four segments in flight for 200 ms let the queue show itself.
use super::{Bbr, MIN_CWND, Mode, micros};
use crate::base::time::Duration;
use crate::base::{Cx, Instant};
use crate::path::congestion::{AckSample, Flow, Window};

/// Age at which the smallest round trip is no longer believed.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// Time with little in flight.
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);

/// State of the probe.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProbeRtt {
    /// When the time is over; `None` until little enough is in flight.
    done_at: Option<Instant>,
    /// A round trip has passed with little in flight.
    round_done: bool,
}

impl Bbr {
    /// `bbr_update_min_rtt`.
    pub(super) fn track_min_rtt(&mut self, cx: &mut Cx<'_>, window: &mut Window, sample: &AckSample) {
        let expired = cx.now.since(self.model.min_rtt_at) > MIN_RTT_WINDOW;
        if let Some(rtt) = sample.rtt.map(micros)
            && (self.model.min_rtt_us.is_none_or(|min| rtt < min) || (expired && !sample.delayed))
        {
            self.model.min_rtt_us = Some(rtt);
            self.model.min_rtt_at = cx.now;
        }
        if expired && !self.out.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            // A window that was larger before some earlier cut is as good to come back to.
            self.save_cwnd(window);
            self.probe_rtt = ProbeRtt::default();
        }
        if self.mode == Mode::ProbeRtt {
            self.probe(cx, window, &sample.flow);
        }
        // A flow has begun again when something of it arrives, of which a D-SACK alone tells nothing.
        if sample.sampled {
            self.out.idle_restart = false;
        }
    }

    fn probe(&mut self, cx: &mut Cx<'_>, window: &mut Window, flow: &Flow) {
        self.out.app_limited = true;
        if self.probe_rtt.done_at.is_some() {
            self.probe_rtt.round_done |= self.model.round_start;
            if self.probe_rtt.round_done {
                self.end_probe_rtt(cx, window, flow);
            }
        } else if flow.in_flight <= MIN_CWND {
            self.probe_rtt = ProbeRtt { done_at: Some(cx.now + PROBE_RTT_TIME), round_done: false };
            self.model.start_round(flow.delivered);
        }
    }

    /// Back to where the flow was, if the time is over (`bbr_check_probe_rtt_done`).
    pub(super) fn end_probe_rtt(&mut self, cx: &mut Cx<'_>, window: &mut Window, flow: &Flow) {
        if self.probe_rtt.done_at.is_none_or(|at| cx.now <= at) {
            return;
        }
        self.model.min_rtt_at = cx.now;
        let cwnd = window.cwnd.max(self.restore.cwnd());
        window.set_cwnd(cx, cwnd);
        if self.pipe.reached {
            self.enter_probe_bw(cx, flow);
        } else {
            self.mode = Mode::Startup;
        }
    }
}
