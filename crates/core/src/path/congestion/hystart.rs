//! HyStart as Linux has it: leave slow start before the first loss, when the queue begins to show.
//!
//! Two signs, either of which is enough (Ha and Rhee, "Taming the elephants: new TCP slow start", 2011): a train of closely
//! spaced acknowledgements that lasts half of the minimum RTT, so that the pipe is full; or delay samples of one round that
//! all exceed the minimum by an eighth. Below a window of 16 segments rounds are told apart, and nothing else is done.
use super::{AckSample, Window};
use crate::base::time::nanos;
use crate::base::{Cx, Instant};

/// Windows below this stay in slow start (`hystart_low_window`).
const LOW_WINDOW: u32 = 16;
/// Acknowledgements closer than this belong to one train (`hystart_ack_delta_us`).
const TRAIN_GAP_NS: u64 = 2_000_000;
/// Samples whose minimum stands for a round (`HYSTART_MIN_SAMPLES`).
const MIN_SAMPLES: u8 = 8;
/// Bounds of the delay that counts as a queue (`HYSTART_DELAY_MIN`, `HYSTART_DELAY_MAX`).
const DELAY_MIN_US: u32 = 4_000;
const DELAY_MAX_US: u32 = 16_000;

/// State of one round trip of slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HyStart {
    round_start: Instant,
    last_ack: Instant,
    /// `snd.nxt` when the round began.
    round_end: u64,
    /// Smallest RTT of the round in microseconds.
    round_min_us: u32,
    samples: u8,
    found: bool,
}

impl HyStart {
    /// A round that begins now and ends when `nxt` is acknowledged.
    #[must_use]
    pub const fn new(now: Instant, nxt: u64) -> Self {
        Self {
            round_start: now,
            last_ack: now,
            round_end: nxt,
            round_min_us: u32::MAX,
            samples: 0,
            found: false,
        }
    }

    /// One acknowledgement in slow start with an RTT of `delay_us`; `min_us` is the smallest RTT known. Sets `ssthresh` to
    /// the window when the time has come (`hystart_update`).
    pub fn on_ack(
        &mut self,
        cx: &mut Cx<'_>,
        window: &mut Window,
        sample: &AckSample,
        delay_us: u32,
        min_us: u32,
    ) {
        if self.found {
            return;
        }
        if sample.una > self.round_end {
            *self = Self::new(cx.now, sample.flow.nxt);
        }
        if window.cwnd < LOW_WINDOW {
            return;
        }
        if self.train_is_long(cx.now, sample, min_us) {
            let mib = &mut cx.count.tcp_ext;
            mib.tcp_hystart_train_detect += 1;
            mib.tcp_hystart_train_cwnd += u64::from(window.cwnd);
            self.leave(cx, window);
        }
        if self.delay_has_grown(delay_us, min_us) {
            let mib = &mut cx.count.tcp_ext;
            mib.tcp_hystart_delay_detect += 1;
            mib.tcp_hystart_delay_cwnd += u64::from(window.cwnd);
            self.leave(cx, window);
        }
    }

    fn leave(&mut self, cx: &mut Cx<'_>, window: &mut Window) {
        self.found = true;
        window.set_ssthresh(cx, window.cwnd);
    }

    /// The train has lasted half a minimum RTT; a whole one when pacing spreads the segments over up to half an RTT.
    fn train_is_long(&mut self, now: Instant, sample: &AckSample, min_us: u32) -> bool {
        if now.nanos_since(self.last_ack) > TRAIN_GAP_NS {
            return false;
        }
        self.last_ack = now;
        let whole = u64::from(min_us) * 1_000 + nanos(sample.burst_delay);
        now.nanos_since(self.round_start) > if sample.paced { whole } else { whole / 2 }
    }

    /// The first samples of the round make its minimum; each later one asks whether that is above the threshold.
    fn delay_has_grown(&mut self, delay_us: u32, min_us: u32) -> bool {
        self.round_min_us = self.round_min_us.min(delay_us);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
            return false;
        }
        let threshold = (min_us >> 3).clamp(DELAY_MIN_US, DELAY_MAX_US);
        self.round_min_us > min_us.saturating_add(threshold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::testing::World;
    use crate::base::time::Duration;
    use crate::path::congestion::Flow;

    fn sample(una: u64, nxt: u64) -> AckSample {
        AckSample { una, flow: Flow { nxt, ..Flow::default() }, ..AckSample::default() }
    }

    /// Feeds acknowledgements `gap_us` apart with the given delays; the window is 100 segments, the minimum RTT 40 ms.
    fn run(gap_us: u64, delays_us: &[u32], sample: &AckSample) -> (Window, World) {
        let (mut world, mut window) = (World::new(), Window { cwnd: 100, ..Window::new() });
        let mut hystart = HyStart::new(Instant::ZERO, 1_000);
        for (i, &delay_us) in delays_us.iter().enumerate() {
            let now = Instant::from_micros(gap_us * (i as u64 + 1));
            hystart.on_ack(&mut world.cx(now), &mut window, sample, delay_us, 40_000);
        }
        (window, world)
    }

    #[test]
    fn a_train_of_half_an_rtt_ends_slow_start() {
        let sample = sample(1, 2_000);
        // 20 ms at 1 ms spacing: the 21st acknowledgement is later than half of 40 ms.
        assert!(run(1_000, &[40_000; 20], &sample).0.ssthresh == Window::INFINITE_SSTHRESH);
        let (window, world) = run(1_000, &[40_000; 21], &sample);
        assert_eq!(window.ssthresh, 100);
        assert_eq!(world.count.tcp_ext.tcp_hystart_train_detect, 1);
        assert_eq!(world.count.tcp_ext.tcp_hystart_train_cwnd, 100);
    }

    #[test]
    fn pacing_and_batching_lengthen_the_train_that_is_tolerated() {
        let sample = AckSample { paced: true, ..sample(1, 2_000) };
        assert_eq!(run(1_000, &[40_000; 40], &sample).0.ssthresh, Window::INFINITE_SSTHRESH);
        assert_eq!(run(1_000, &[40_000; 41], &sample).0.ssthresh, 100);
        let sample = AckSample { paced: false, burst_delay: Duration::from_millis(1), ..sample };
        // (40 + 1) / 2 = 20.5 ms.
        assert_eq!(run(500, &[40_000; 41], &sample).0.ssthresh, Window::INFINITE_SSTHRESH);
        assert_eq!(run(500, &[40_000; 42], &sample).0.ssthresh, 100);
    }

    #[test]
    fn spaced_acknowledgements_are_no_train() {
        let sample = sample(1, 2_000);
        assert_eq!(run(2_001, &[40_000; 60], &sample).0.ssthresh, Window::INFINITE_SSTHRESH);
    }

    #[test]
    fn a_round_that_is_late_throughout_ends_slow_start() {
        let sample = sample(1, 2_000);
        // An eighth of 40 ms is 5 ms.
        assert_eq!(run(3_000, &[45_000; 20], &sample).0.ssthresh, Window::INFINITE_SSTHRESH);
        assert_eq!(run(3_000, &[45_001; 8], &sample).0.ssthresh, Window::INFINITE_SSTHRESH);
        let (window, world) = run(3_000, &[45_001; 9], &sample);
        assert_eq!((window.ssthresh, world.count.tcp_ext.tcp_hystart_delay_detect), (100, 1));
        // One early sample in the round clears it.
        let mut delays = [60_000; 20];
        delays[3] = 41_000;
        assert_eq!(run(3_000, &delays, &sample).0.ssthresh, Window::INFINITE_SSTHRESH);
    }

    #[test]
    fn a_round_begins_below_the_small_window_that_is_left_alone() {
        let sample = sample(1_001, 5_000);
        let mut hystart = HyStart::new(Instant::ZERO, 1_000);
        let (mut world, mut window) = (World::new(), Window { cwnd: 15, ..Window::new() });
        hystart.on_ack(&mut world.cx(Instant::from_millis(1)), &mut window, &sample, 99_000, 40_000);
        assert_eq!((hystart.samples, hystart.round_end), (0, 5_000));
        assert_eq!(hystart.round_start, Instant::from_millis(1));
        window.cwnd = 16;
        hystart.on_ack(&mut world.cx(Instant::from_millis(2)), &mut window, &sample, 99_000, 40_000);
        assert_eq!((hystart.samples, hystart.round_start), (1, Instant::from_millis(1)));
    }
}
