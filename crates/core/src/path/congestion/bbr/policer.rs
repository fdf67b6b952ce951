//! Long-term sampling: two intervals in a row with much loss and the same throughput are the mark of a token-bucket policer.
//!
//! Flach et al., "An Internet-wide analysis of traffic policing" (SIGCOMM 2016); Linux's `bbr_lt_bw_sampling`. While a policer is
//! believed in, the flow is paced at what it lets through.
use super::model::{BW_UNIT, UNIT, bytes_per_second};
use crate::path::congestion::Flow;

/// Rounds of an interval at least, and a quarter of what it may last at most.
const INTERVAL_ROUNDS: u32 = 4;
/// Segments lost per delivered that make an interval count, in 256ths: 20 %.
const LOSS: u64 = 50;
/// Two throughputs are the same within an eighth, or within 4 kbit/s.
const RATIO: u64 = UNIT as u64 / 8;
const DIFF_BYTES: u64 = 4_000 / 8;
/// Rounds after which the policer is looked for anew.
const BELIEVED_ROUNDS: u32 = 48;
/// Longest interval in milliseconds: it fits 32 bits in microseconds.
const INTERVAL_MAX_MS: u64 = u32::MAX as u64 / 1_000;

/// What a sample led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing new.
    Nothing,
    /// There is a policer: no more probing.
    Found,
    /// It has been believed in for long enough.
    LookAgain,
}

/// State of the search.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    /// Throughput of the last interval; 0 for none.
    bw: u32,
    in_use: bool,
    sampling: bool,
    rounds: u32,
    since_ms: u64,
    delivered: u32,
    lost: u32,
}

impl Policer {
    /// What the policer lets through, if there is one.
    pub(super) const fn rate(&self) -> Option<u32> {
        if self.in_use { Some(self.bw) } else { None }
    }

    const fn begin_interval(&mut self, flow: &Flow) {
        self.since_ms = flow.delivered_at.as_millis();
        (self.delivered, self.lost, self.rounds) = (flow.delivered, flow.lost, 0);
    }

    /// One acknowledgement that marked `lost` segments, or one timeout. An interval begins and ends with a loss: then the tokens
    /// are used up.
    pub(super) fn sample(
        &mut self,
        flow: &Flow,
        lost: u32,
        app_limited: bool,
        round: bool,
        probing: bool,
    ) -> Verdict {
        if self.in_use {
            return self.grow_old(round && probing);
        }
        if !self.sampling {
            if lost == 0 {
                return Verdict::Nothing;
            }
            self.begin_interval(flow);
            self.sampling = true;
        }
        self.rounds += u32::from(round);
        // Without enough data to send, throughput is not the policer's; and an interval can be too long to be one.
        if app_limited || self.rounds > 4 * INTERVAL_ROUNDS {
            *self = Self::default();
        } else if self.rounds >= INTERVAL_ROUNDS && lost > 0 {
            return self.end_interval(flow);
        }
        Verdict::Nothing
    }

    fn grow_old(&mut self, round: bool) -> Verdict {
        self.rounds += u32::from(round);
        if self.rounds < BELIEVED_ROUNDS {
            return Verdict::Nothing;
        }
        *self = Self::default();
        Verdict::LookAgain
    }

    fn end_interval(&mut self, flow: &Flow) -> Verdict {
        let lost = u64::from(flow.lost.wrapping_sub(self.lost));
        let delivered = u64::from(flow.delivered.wrapping_sub(self.delivered));
        if delivered == 0 || lost * u64::from(UNIT) < LOSS * delivered {
            return Verdict::Nothing;
        }
        let ms = flow.delivered_at.as_millis().saturating_sub(self.since_ms);
        if ms == 0 {
            return Verdict::Nothing;
        }
        if ms >= INTERVAL_MAX_MS {
            *self = Self::default();
            return Verdict::Nothing;
        }
        let bw = u32::try_from(delivered * BW_UNIT / (ms * 1_000)).unwrap_or(u32::MAX);
        self.compare(bw, flow)
    }

    fn compare(&mut self, bw: u32, flow: &Flow) -> Verdict {
        let diff = u64::from(bw.abs_diff(self.bw));
        let alike = diff * u64::from(UNIT) <= RATIO * u64::from(self.bw)
            || bytes_per_second(diff, UNIT, flow.mss) <= DIFF_BYTES;
        if self.bw > 0 && alike {
            self.bw = ((u64::from(bw) + u64::from(self.bw)) >> 1) as u32;
            (self.in_use, self.rounds) = (true, 0);
            return Verdict::Found;
        }
        self.bw = bw;
        self.begin_interval(flow);
        Verdict::Nothing
    }
}
