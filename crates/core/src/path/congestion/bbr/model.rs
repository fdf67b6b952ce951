//! The model of the path: bandwidth as the maximum of ten rounds, the round trip without queues, and rounds by delivery.
use crate::base::Instant;
use crate::path::min_filter::MaxFilter;
use crate::path::rate::RateSample;

/// One segment per microsecond.
pub(super) const BW_UNIT: u64 = 1 << 24;
/// A gain of one.
pub(super) const UNIT: u32 = 256;
/// Rounds that the maximum looks back: a cycle of the pacing gain and two.
const BW_ROUNDS: u32 = 10;
/// What the pacing rate stays under the estimate, in per cent, to keep the queue at the bottleneck short.
const PACING_MARGIN_PERCENT: u128 = 1;
/// Window while no round trip was measured: the initial one.
const CWND_WITHOUT_RTT: u32 = 10;

/// Estimates.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    bw: MaxFilter,
    /// Round trips so far, counted by delivery: a round ends when something is delivered that was sent after it began.
    rounds: u32,
    next_round_delivered: u32,
    /// This acknowledgement begins a round.
    pub(super) round_start: bool,
    /// Smallest round trip of its window.
    pub(super) min_rtt_us: Option<u32>,
    pub(super) min_rtt_at: Instant,
}

impl Model {
    /// Largest bandwidth of the last ten rounds.
    pub(super) fn max_bw(&self) -> u32 {
        self.bw.get()
    }

    /// A sample of which `delivered` segments are the last of `total`: true when its newest segment left in this round.
    pub(super) const fn take_round(&mut self, total: u32, delivered: u32) -> bool {
        let prior = total.wrapping_sub(delivered);
        if (prior.wrapping_sub(self.next_round_delivered) as i32) < 0 {
            return false;
        }
        self.start_round(total);
        self.rounds = self.rounds.wrapping_add(1);
        self.round_start = true;
        true
    }

    /// The round ends with what is sent from now on.
    pub(super) const fn start_round(&mut self, delivered: u32) {
        self.next_round_delivered = delivered;
    }

    /// What the application held back says nothing about the path, unless it is faster than what is known.
    pub(super) fn take_rate(&mut self, rate: &RateSample) {
        let us = (rate.interval().as_micros() as u64).max(1);
        let bw = u32::try_from(u64::from(rate.delivered) * BW_UNIT / us).unwrap_or(u32::MAX);
        if !rate.app_limited || bw >= self.max_bw() {
            self.bw.update(self.rounds, BW_ROUNDS, bw);
        }
    }

    /// Segments that fill `gain` of the pipe, rounded up so that the estimate cannot creep down (`bbr_bdp`).
    pub(super) fn bdp(&self, bw: u32, gain: u32) -> u32 {
        let Some(rtt_us) = self.min_rtt_us else { return CWND_WITHOUT_RTT };
        let pipe = u128::from(bw) * u128::from(rtt_us) * u128::from(gain) / u128::from(UNIT);
        u32::try_from(pipe.div_ceil(u128::from(BW_UNIT))).unwrap_or(u32::MAX)
    }
}

/// `gain` of a bandwidth in bytes per second for segments of `mss` bytes, less the margin.
pub(super) fn bytes_per_second(bw: u64, gain: u32, mss: u32) -> u64 {
    let rate = u128::from(bw) * u128::from(mss) * u128::from(gain) / u128::from(UNIT);
    let rate = rate * (10_000 * (100 - PACING_MARGIN_PERCENT)) / u128::from(BW_UNIT);
    u64::try_from(rate).unwrap_or(u64::MAX)
}
