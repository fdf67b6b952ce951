//! CUBIC (RFC 9438): for now with the law of Cubic; the interface stands.
use super::{AckSample, CaEvent, CaState, Congestion, Window};
use crate::base::Cx;

/// The controller of RFC 5681; it remembers only the window before the last reduction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cubic {
    prior_cwnd: u32,
}

impl Cubic {
    /// A fresh controller.
    #[must_use]
    pub const fn new() -> Self {
        Self { prior_cwnd: 0 }
    }
}

impl Congestion for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    /// Half the window, at least two segments (RFC 5681 equation 4; Linux takes cwnd for FlightSize).
    fn ssthresh(&mut self, _cx: &mut Cx<'_>, window: &Window) -> u32 {
        self.prior_cwnd = window.cwnd;
        (window.cwnd / 2).max(2)
    }

    /// RFC 5681 section 3.1; what slow start leaves over goes on in congestion avoidance.
    fn cong_avoid(&mut self, cx: &mut Cx<'_>, window: &mut Window, sample: &AckSample) {
        if !sample.cwnd_limited {
            return;
        }
        let mut acked = sample.acked;
        if window.in_slow_start() {
            acked = window.slow_start(cx, acked);
        }
        if acked > 0 {
            window.additive_increase(cx, window.cwnd, acked);
        }
    }

    fn on_ack(&mut self, _cx: &mut Cx<'_>, _window: &mut Window, _sample: &AckSample) {}

    fn on_state(&mut self, _cx: &mut Cx<'_>, _window: &Window, _state: CaState) {}

    fn on_event(&mut self, _cx: &mut Cx<'_>, _window: &Window, _event: CaEvent) {}

    fn undo_cwnd(&self, window: &Window) -> u32 {
        window.cwnd.max(self.prior_cwnd)
    }

    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    fn sndbuf_expand(&self) -> u32 {
        2
    }
}
