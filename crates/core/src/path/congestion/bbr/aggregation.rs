//! Aggregated acknowledgements: what arrives in one go beyond the estimated rate is added to the window, so that the silence
//! before the next lot does not stop the flow (`bbr_update_ack_aggregation`).
use super::model::BW_UNIT;
use crate::base::Instant;
use crate::path::congestion::Flow;

/// Rounds that each half of the maximum's window covers.
const WINDOW_ROUNDS: u8 = 5;
/// Segments after which an epoch is too old to go on.
const EPOCH_SEGMENTS_MAX: u32 = 1 << 20;
/// Longest silence that is provided for, in microseconds.
const SILENCE_MAX_US: u64 = 100_000;

/// Degree of aggregation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Aggregation {
    /// An epoch lasts as long as acknowledgements come faster than expected.
    epoch: Instant,
    epoch_acked: u32,
    /// Most segments beyond expectation, of this half of the window and the one before.
    extra: [u32; 2],
    rounds: u8,
    half: u8,
}

impl Aggregation {
    /// An epoch begins: nothing is expected yet.
    pub(super) const fn restart(&mut self, now: Instant) {
        (self.epoch, self.epoch_acked) = (now, 0);
    }

    /// An acknowledgement with a valid sample of the rate.
    pub(super) fn update(&mut self, flow: &Flow, delivered: u32, bw: u32, cwnd: u32, round: bool) {
        if delivered == 0 {
            return;
        }
        if round {
            self.rounds += 1;
            if self.rounds >= WINDOW_ROUNDS {
                self.rounds = 0;
                self.half ^= 1;
                self.extra[usize::from(self.half)] = 0;
            }
        }
        let epoch_us = flow.delivered_at.nanos_since(self.epoch) / 1_000;
        let expected = u64::from(bw).saturating_mul(epoch_us) / BW_UNIT;
        let mut expected = u32::try_from(expected).unwrap_or(u32::MAX);
        let acked = self.epoch_acked.saturating_add(delivered);
        if self.epoch_acked <= expected || acked >= EPOCH_SEGMENTS_MAX {
            self.restart(flow.delivered_at);
            expected = 0;
        }
        self.epoch_acked = self.epoch_acked.saturating_add(delivered).min(EPOCH_SEGMENTS_MAX - 1);
        let extra = self.epoch_acked.saturating_sub(expected).min(cwnd);
        let most = &mut self.extra[usize::from(self.half)];
        *most = (*most).max(extra);
    }

    /// Segments to add to the window.
    pub(super) fn room(&self, bw: u32) -> u32 {
        let most = u64::from(bw) * SILENCE_MAX_US / BW_UNIT;
        self.extra[0].max(self.extra[1]).min(u32::try_from(most).unwrap_or(u32::MAX))
    }
}
