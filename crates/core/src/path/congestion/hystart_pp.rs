//! HyStart++ (RFC 9406): on the first sign of a queue grow at a quarter of the pace, and only then leave slow start.
use super::{AckSample, Window};
use crate::base::Cx;

/// MIN_RTT_THRESH and MAX_RTT_THRESH (section 4.3).
const MIN_RTT_THRESH_US: u32 = 4_000;
const MAX_RTT_THRESH_US: u32 = 16_000;
/// MIN_RTT_DIVISOR.
const MIN_RTT_DIVISOR: u32 = 8;
/// N_RTT_SAMPLE.
const N_RTT_SAMPLE: u8 = 8;
/// CSS_GROWTH_DIVISOR.
const CSS_GROWTH_DIVISOR: u32 = 4;
/// CSS_ROUNDS.
const CSS_ROUNDS: u8 = 5;
/// L for flows that nobody paces: segments that one acknowledgement may add.
const L: u32 = 8;

/// State over the rounds of slow start; names as in RFC 9406 section 4.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HyStartPp {
    window_end: u64,
    last_round_min_us: u32,
    current_round_min_us: u32,
    rtt_sample_count: u8,
    /// Rounds of conservative slow start; `None` outside of it.
    css_round: Option<u8>,
    css_baseline_min_us: u32,
    /// Acknowledged segments below one step of conservative growth.
    css_remainder: u8,
}

impl HyStartPp {
    /// The first round, which ends when `nxt` is acknowledged.
    #[must_use]
    pub const fn new(nxt: u64) -> Self {
        Self {
            window_end: nxt,
            last_round_min_us: u32::MAX,
            current_round_min_us: u32::MAX,
            rtt_sample_count: 0,
            css_round: None,
            css_baseline_min_us: u32::MAX,
            css_remainder: 0,
        }
    }

    /// Segments by which slow start may grow for `acked` acknowledged ones.
    pub fn growth(&mut self, acked: u32, paced: bool) -> u32 {
        let n = if paced { acked } else { acked.min(L) };
        if self.css_round.is_none() {
            return n;
        }
        let total = n.saturating_add(u32::from(self.css_remainder));
        self.css_remainder = (total % CSS_GROWTH_DIVISOR) as u8;
        total / CSS_GROWTH_DIVISOR
    }

    /// One acknowledgement in slow start with an RTT of `delay_us`; sets `ssthresh` after CSS_ROUNDS conservative rounds.
    pub fn on_ack(&mut self, cx: &mut Cx<'_>, window: &mut Window, sample: &AckSample, delay_us: u32) {
        self.current_round_min_us = self.current_round_min_us.min(delay_us);
        self.rtt_sample_count = self.rtt_sample_count.saturating_add(1);
        if self.rtt_sample_count >= N_RTT_SAMPLE {
            self.judge(cx, window);
        }
        if sample.una > self.window_end {
            self.end_round(cx, window, sample.flow.nxt);
        }
    }

    /// Enough samples of this round: is there a queue, or was the last judgement wrong?
    fn judge(&mut self, cx: &mut Cx<'_>, window: &Window) {
        if self.css_round.is_some() {
            if self.current_round_min_us < self.css_baseline_min_us {
                self.css_round = None;
                self.css_baseline_min_us = u32::MAX;
            }
            return;
        }
        let last = self.last_round_min_us;
        if last == u32::MAX {
            return;
        }
        let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH_US, MAX_RTT_THRESH_US);
        if self.current_round_min_us >= last.saturating_add(threshold) {
            self.css_round = Some(0);
            self.css_baseline_min_us = self.current_round_min_us;
            // Linux has no counters for HyStart++; its delay detection is what comes closest.
            cx.count.tcp_ext.tcp_hystart_delay_detect += 1;
            cx.count.tcp_ext.tcp_hystart_delay_cwnd += u64::from(window.cwnd);
        }
    }

    fn end_round(&mut self, cx: &mut Cx<'_>, window: &mut Window, nxt: u64) {
        self.window_end = nxt;
        self.last_round_min_us = self.current_round_min_us;
        self.current_round_min_us = u32::MAX;
        self.rtt_sample_count = 0;
        if let Some(rounds) = &mut self.css_round {
            *rounds += 1;
            if *rounds >= CSS_ROUNDS {
                self.css_round = None;
                window.set_ssthresh(cx, window.cwnd.max(2));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Instant;
    use crate::base::testing::World;
    use crate::path::congestion::Flow as Facts;

    struct Flow {
        hystart: HyStartPp,
        window: Window,
        world: World,
        una: u64,
    }

    impl Flow {
        fn new() -> Self {
            Self { hystart: HyStartPp::new(8), window: Window::new(), world: World::new(), una: 0 }
        }

        /// One round of eight acknowledgements and the one that ends it.
        fn round(&mut self, delay_us: u32) {
            for _ in 0..9 {
                self.una += 1;
                let flow = Facts { nxt: self.una + 8, ..Facts::default() };
                let sample = AckSample { una: self.una, flow, ..AckSample::default() };
                let mut cx = self.world.cx(Instant::ZERO);
                self.hystart.on_ack(&mut cx, &mut self.window, &sample, delay_us);
            }
        }
    }

    #[test]
    fn five_late_rounds_end_slow_start() {
        let mut flow = Flow::new();
        flow.round(40_000);
        flow.round(44_999);
        assert_eq!(flow.hystart.css_round, None);
        flow.round(50_624);
        // An eighth of 45 ms above it.
        assert_eq!(flow.hystart.growth(8, false), 2);
        assert_eq!(flow.window.ssthresh, Window::INFINITE_SSTHRESH);
        for _ in 0..4 {
            flow.round(60_000);
        }
        assert_eq!(flow.window.ssthresh, 10);
        assert_eq!(flow.world.count.tcp_ext.tcp_hystart_delay_detect, 1);
    }

    #[test]
    fn a_round_below_the_baseline_resumes_slow_start() {
        let mut flow = Flow::new();
        flow.round(40_000);
        flow.round(60_000);
        assert!(flow.hystart.css_round.is_some());
        flow.round(50_000);
        assert_eq!((flow.hystart.css_round, flow.window.ssthresh), (None, Window::INFINITE_SSTHRESH));
        assert_eq!(flow.hystart.growth(20, false), 8);
        assert_eq!(flow.hystart.growth(20, true), 20);
    }

    #[test]
    fn conservative_growth_loses_no_remainder() {
        let mut flow = Flow::new();
        flow.round(40_000);
        flow.round(60_000);
        assert_eq!((0..16).map(|_| flow.hystart.growth(1, false)).sum::<u32>(), 4);
    }
}
