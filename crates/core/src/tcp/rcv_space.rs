//! Dynamic right-sizing: the receive buffer follows what the application reads per round trip (`tcp_rcv_space_adjust`).
use super::seq::Seq;
use super::window::win_from_space;
use crate::base::{Duration, Instant, Sysctl};
#[cfg(test)]
mod tests;

/// Headers and metadata that a full segment is assumed to pin beside its payload.
const SEGMENT_OVERHEAD: u32 = super::rx_queue::CHUNK_OVERHEAD + 128;
/// Step in which the assumed cost of a segment is raised until its window share holds the payload.
const COST_STEP: u32 = 128;
/// Segments by which the window exceeds twice what was read.
const CUSHION_SEGMENTS: u32 = 16;
/// RFC 6928's initial window, the first estimate of what is read per round trip.
const INIT_CWND: u32 = 10;

/// Bytes read per round trip, and the round trip as the receiver sees it.
#[derive(Clone, Copy, Debug)]
pub struct RcvSpace {
    /// Bytes read in the round trip before; the next measure must exceed it (`rcvq_space.space`).
    space: u32,
    /// What had been read when this measure began.
    seq: Seq,
    at: Instant,
    /// Round-trip time in microseconds, times 8; 0 while unknown.
    rtt8_us: u32,
    /// A round trip by window ends when RCV.NXT reaches this.
    rtt_seq: Seq,
    rtt_at: Option<Instant>,
    last_tsecr: u32,
}

impl RcvSpace {
    /// Nothing measured yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            space: 0,
            seq: Seq(0),
            at: Instant::ZERO,
            rtt8_us: 0,
            rtt_seq: Seq(0),
            rtt_at: None,
            last_tsecr: 0,
        }
    }

    /// The handshake is over: the first measure begins.
    pub fn establish(&mut self, now: Instant, copied_seq: Seq, ssthresh: u32, wnd: u32, advmss: u32) {
        self.space = ssthresh.min(wnd).min(INIT_CWND * advmss);
        self.seq = copied_seq;
        self.at = now;
    }

    /// The receiver's round-trip time; zero while unknown (`tcpi_rcv_rtt`).
    #[must_use]
    pub const fn rtt(&self) -> Duration {
        Duration::from_micros(self.rtt8_us as u64 / 8)
    }

    /// Bytes read in the last measured round trip (`tcpi_rcv_space`).
    #[must_use]
    pub const fn space(&self) -> u32 {
        self.space
    }

    /// A segment of at least the MSS echoed our timestamp `tsecr`, sent `ticks_ms` milliseconds ago (RFC 7323).
    pub fn on_timestamp(&mut self, tsecr: u32, ticks_ms: u32, full_segment: bool) {
        if tsecr == self.last_tsecr {
            return;
        }
        self.last_tsecr = tsecr;
        if full_segment && ticks_ms < i32::MAX as u32 / 1_000 {
            self.update(ticks_ms.max(1) * 1_000, false);
        }
    }

    /// Data came: a window's worth takes at most one round trip to fill (`tcp_rcv_rtt_measure`).
    pub fn on_data(&mut self, now: Instant, rcv_nxt: Seq, wnd: u32) {
        if let Some(at) = self.rtt_at {
            if rcv_nxt.before(self.rtt_seq) {
                return;
            }
            let us = (now.nanos_since(at) / 1_000).clamp(1, u64::from(u32::MAX / 8));
            self.update(us as u32, true);
        }
        self.rtt_seq = rcv_nxt + wnd;
        self.rtt_at = Some(now);
    }

    /// By timestamps the estimate is smoothed. By window it can only be too long, so the minimum counts.
    fn update(&mut self, us: u32, by_window: bool) {
        let sample8 = us.saturating_mul(8);
        self.rtt8_us = if self.rtt8_us == 0 {
            sample8
        } else if by_window {
            self.rtt8_us.min(sample8)
        } else {
            (self.rtt8_us - self.rtt8_us / 8).saturating_add(us)
        };
    }

    /// The application has read up to `copied_seq`: once per round trip, the buffer that this speed deserves, in bytes.
    pub fn adjust(&mut self, sysctl: &Sysctl, now: Instant, copied_seq: Seq, advmss: u32) -> Option<u32> {
        let elapsed = now.nanos_since(self.at) / 1_000;
        if self.rtt8_us == 0 || elapsed < u64::from(self.rtt8_us / 8) {
            return None;
        }
        let copied = copied_seq.since(self.seq);
        self.seq = copied_seq;
        self.at = now;
        if copied <= self.space {
            return None;
        }
        let before = self.space.max(1);
        self.space = copied;
        (sysctl.tcp_moderate_rcvbuf && advmss > 0).then(|| Self::buffer_for(sysctl, copied, before, advmss))
    }

    /// Twice what was read, to ride out losses, and twice the growth, since a sender in slow start doubles.
    fn buffer_for(sysctl: &Sysctl, copied: u32, before: u32, advmss: u32) -> u32 {
        let base = u64::from(copied) * 2 + u64::from(CUSHION_SEGMENTS * advmss);
        let grow = u128::from(base) * u128::from(copied - before) / u128::from(before);
        let window = u128::from(base) + grow * 2;
        let mut cost = advmss + SEGMENT_OVERHEAD;
        match sysctl.tcp_adv_win_scale {
            // At most a segment more than one, in steps.
            1.. => {
                while win_from_space(sysctl, cost) < advmss {
                    cost += COST_STEP;
                }
            }
            // Up to 2^31 segments: more than there is time for steps, and than any buffer has.
            scale => {
                let least = u64::from(advmss) << scale.unsigned_abs().min(31);
                let steps = least.saturating_sub(u64::from(cost)).div_ceil(u64::from(COST_STEP));
                let steps = u32::try_from(steps).unwrap_or(u32::MAX);
                cost = cost.saturating_add(steps.saturating_mul(COST_STEP));
            }
        }
        let bytes = window / u128::from(advmss) * u128::from(cost);
        bytes.min(u128::from(sysctl.tcp_rmem.max)) as u32
    }
}

impl Default for RcvSpace {
    fn default() -> Self {
        Self::new()
    }
}
