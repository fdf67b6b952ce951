//! PROBE_BW: eight phases of about a round trip each, one above the estimate to look for more, one below to pay it back.
use super::model::UNIT;
use super::{Bbr, Mode};
use crate::base::{Cx, Instant};
use crate::path::congestion::{AckSample, Flow};

/// Phases of the cycle.
const PHASES: u8 = 8;
/// Phases that a cycle may begin with: any but the one below the estimate.
const RANDOM_PHASES: u64 = 7;

/// The place in the cycle.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cycle {
    phase: u8,
    since: Instant,
}

impl Cycle {
    /// The pacing gain of the phase.
    pub(super) const fn gain(self) -> u32 {
        match self.phase {
            0 => UNIT * 5 / 4,
            1 => UNIT * 3 / 4,
            _ => UNIT,
        }
    }

    pub(super) const fn is_probing_up(self) -> bool {
        self.phase == 0
    }

    const fn advance(&mut self, now: Instant) {
        self.phase = (self.phase + 1) % PHASES;
        self.since = now;
    }
}

impl Bbr {
    /// Begins the cycle at a random phase, so that flows that share a bottleneck do not probe together.
    pub(super) fn enter_probe_bw(&mut self, cx: &mut Cx<'_>, flow: &Flow) {
        self.mode = Mode::ProbeBw;
        self.cycle.phase = PHASES - 1 - cx.rng.below(RANDOM_PHASES) as u8;
        self.cycle.advance(flow.delivered_at);
    }

    /// `bbr_update_cycle_phase`.
    pub(super) fn cycle_phase(&mut self, cx: &Cx<'_>, sample: &AckSample) {
        if self.mode == Mode::ProbeBw && self.phase_is_over(cx, sample) {
            self.cycle.advance(sample.flow.delivered_at);
        }
    }

    /// A phase lasts a round trip; the one above the estimate until what it asks for is in flight or lost, the one below only
    /// until the queue is gone (`bbr_is_next_cycle_phase`).
    fn phase_is_over(&self, cx: &Cx<'_>, sample: &AckSample) -> bool {
        let flow = &sample.flow;
        let age_us = flow.delivered_at.nanos_since(self.cycle.since) / 1_000;
        let full_length = self.model.min_rtt_us.is_some_and(|rtt| age_us > u64::from(rtt));
        let gain = self.out.pacing_gain;
        if gain == UNIT {
            return full_length;
        }
        let in_network = self.in_network_at_departure(cx, sample.prior_in_flight, flow);
        let bw = self.model.max_bw();
        if gain > UNIT {
            return full_length && (sample.lost > 0 || in_network >= self.inflight(bw, gain, flow));
        }
        full_length || in_network <= self.inflight(bw, UNIT, flow)
    }
}
