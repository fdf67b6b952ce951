//! The window: towards what the model says, packet for packet in the first round of recovery, back to what it was afterwards.
use super::{Bbr, MIN_CWND, Mode};
use crate::base::Cx;
use crate::path::congestion::{AckSample, CaState, Window};

/// Segments delivered before which the window always grows.
const FIRST_WINDOW: u32 = 10;

/// What recovery and PROBE_RTT cut for a while.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Restore {
    /// Window to come back to.
    prior_cwnd: u32,
    /// State of the machine at the acknowledgement before, or since a timeout.
    pub(super) prev: CaState,
    /// The first round of recovery: as many segments leave as arrive.
    conserving: bool,
}

impl Restore {
    pub(super) const fn end_conservation(&mut self) {
        self.conserving = false;
    }

    /// Window to come back to.
    pub(super) const fn cwnd(&self) -> u32 {
        self.prior_cwnd
    }
}

impl Bbr {
    /// Remembers the window, unless it is cut already (`bbr_save_cwnd`).
    pub(super) fn save_cwnd(&mut self, window: &Window) {
        let prior = &mut self.restore.prior_cwnd;
        let whole = self.restore.prev < CaState::Recovery && self.mode != Mode::ProbeRtt;
        *prior = if whole { window.cwnd } else { (*prior).max(window.cwnd) };
    }

    /// `bbr_set_cwnd`.
    pub(super) fn set_cwnd(&mut self, cx: &mut Cx<'_>, window: &mut Window, sample: &AckSample) {
        let mut cwnd = window.cwnd;
        if sample.delivered > 0 {
            cwnd = match self.recover_or_restore(window, sample) {
                Ok(cwnd) => cwnd,
                Err(cwnd) => self.towards_target(cwnd, sample),
            };
        }
        cwnd = cwnd.min(window.clamp);
        if self.mode == Mode::ProbeRtt {
            cwnd = cwnd.min(MIN_CWND);
        }
        window.set_cwnd(cx, cwnd);
    }

    /// `Ok` with the window in the first round of recovery, `Err` with the one to go on from otherwise.
    fn recover_or_restore(&mut self, window: &Window, sample: &AckSample) -> Result<u32, u32> {
        let mut cwnd = window.cwnd;
        if sample.lost > 0 {
            cwnd = cwnd.saturating_sub(sample.lost).max(1);
        }
        // Less than a segment of bytes is in flight, and a window has one at least.
        let conserved = sample.conserved.max(1);
        let Restore { prev, prior_cwnd, .. } = self.restore;
        let state = sample.state;
        if state == CaState::Recovery && prev != CaState::Recovery {
            self.restore.conserving = true;
            self.model.start_round(sample.flow.delivered);
            // What the window allowed and nobody used goes too.
            cwnd = conserved;
        } else if prev >= CaState::Recovery && state < CaState::Recovery {
            self.restore.conserving = false;
            cwnd = cwnd.max(prior_cwnd);
        }
        self.restore.prev = state;
        if self.restore.conserving { Ok(cwnd.max(conserved)) } else { Err(cwnd) }
    }

    fn towards_target(&self, cwnd: u32, sample: &AckSample) -> u32 {
        let bw = self.bw();
        let mut target = self.model.bdp(bw, self.out.cwnd_gain);
        if self.pipe.reached {
            target = target.saturating_add(self.aggregation.room(bw));
        }
        let target = self.with_quanta(target, &sample.flow);
        let grown = cwnd.saturating_add(sample.delivered);
        // Only a full pipe is a reason to cut.
        let cwnd = if self.pipe.reached {
            grown.min(target)
        } else if cwnd < target || sample.flow.delivered < FIRST_WINDOW {
            grown
        } else {
            cwnd
        };
        cwnd.max(MIN_CWND)
    }
}
