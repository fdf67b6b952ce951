//! Reno: slow start, additive increase, halving (RFC 5681).
use super::{AckSample, CaEvent, CaState, Congestion, Flow, Window};
use crate::base::Cx;

/// The controller of RFC 5681; it remembers only the window before the last reduction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reno {
    prior_cwnd: u32,
}

impl Reno {
    /// A fresh controller.
    #[must_use]
    pub const fn new() -> Self {
        Self { prior_cwnd: 0 }
    }
}

impl Congestion for Reno {
    fn name(&self) -> &'static str {
        "reno"
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

    fn on_state(&mut self, _cx: &mut Cx<'_>, _window: &Window, _state: CaState, _flow: &Flow) {}

    fn on_event(&mut self, _cx: &mut Cx<'_>, _window: &mut Window, _event: CaEvent, _flow: &Flow) {}

    fn undo_cwnd(&mut self, window: &Window) -> u32 {
        window.cwnd.max(self.prior_cwnd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Instant;
    use crate::base::testing::World;

    fn ack(reno: &mut Reno, window: &mut Window, acked: u32) {
        let sample = AckSample { acked, cwnd_limited: true, ..AckSample::default() };
        reno.cong_avoid(&mut World::new().cx(Instant::ZERO), window, &sample);
    }

    #[test]
    fn slow_start_stops_at_ssthresh_and_goes_on_additively() {
        let (mut reno, mut window) = (Reno::new(), Window::new());
        ack(&mut reno, &mut window, 10);
        assert_eq!(window.cwnd, 20);
        window.ssthresh = 25;
        // Five to the threshold; fifteen of twenty-five towards the next segment.
        ack(&mut reno, &mut window, 20);
        assert_eq!((window.cwnd, window.cwnd_cnt), (25, 15));
        ack(&mut reno, &mut window, 10);
        assert_eq!((window.cwnd, window.cwnd_cnt), (26, 0));
        // 53 segments in one acknowledgement: two windows of 26.
        ack(&mut reno, &mut window, 53);
        assert_eq!((window.cwnd, window.cwnd_cnt), (28, 1));
    }

    #[test]
    fn an_unused_window_does_not_grow_and_a_clamp_holds() {
        let (mut reno, mut window) = (Reno::new(), Window::new());
        let mut world = World::new();
        reno.cong_avoid(
            &mut world.cx(Instant::ZERO),
            &mut window,
            &AckSample { acked: 5, ..AckSample::default() },
        );
        assert_eq!(window.cwnd, 10);
        window.clamp = 12;
        ack(&mut reno, &mut window, 10);
        assert_eq!(window.cwnd, 12);
    }

    #[test]
    fn congestion_halves_and_undo_returns() {
        let (mut reno, mut window) = (Reno::new(), Window { cwnd: 21, ..Window::new() });
        let mut world = World::new();
        assert_eq!(reno.ssthresh(&mut world.cx(Instant::ZERO), &window), 10);
        window.cwnd = 10;
        assert_eq!(reno.undo_cwnd(&window), 21);
        window.cwnd = 3;
        assert_eq!(reno.ssthresh(&mut world.cx(Instant::ZERO), &window), 2);
    }
}
