//! Dynamic right-sizing: the receive buffer follows what the application reads per round trip (`tcp_rcv_space_adjust`).
use super::seq::Seq;
use crate::base::{Duration, Instant};
#[cfg(test)]
mod tests;

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

    /// The window cannot hold more than `clamp` bytes, so that no more can have been read (`tcp_measure_rcv_mss`).
    pub fn bound(&mut self, clamp: u32) {
        self.space = self.space.min(clamp);
    }

    /// Bytes read in the last measured round trip (`tcpi_rcv_space`).
    #[must_use]
    pub const fn space(&self) -> u32 {
        self.space
    }

    /// A segment of at least the MSS echoed our timestamp `tsecr`, sent `ticks_ms` milliseconds ago (RFC 7323). While something
    /// waits to be read the sender may be held back by our window, and only a shorter round trip counts.
    pub fn on_timestamp(&mut self, tsecr: u32, ticks_ms: u32, full_segment: bool, drained: bool) {
        if tsecr == self.last_tsecr {
            return;
        }
        self.last_tsecr = tsecr;
        if full_segment && ticks_ms > 0 && ticks_ms < i32::MAX as u32 / 1_000 {
            self.update(ticks_ms * 1_000, drained);
        }
    }

    /// Data came: a window's worth takes at most one round trip to fill (`tcp_rcv_rtt_measure`).
    pub fn on_data(&mut self, now: Instant, rcv_nxt: Seq, wnd: u32) {
        if let Some(at) = self.rtt_at {
            if rcv_nxt.before(self.rtt_seq) {
                return;
            }
            let us = (now.nanos_since(at) / 1_000).clamp(1, u64::from(u32::MAX / 8));
            self.update(us as u32, false);
        }
        self.rtt_seq = rcv_nxt + wnd;
        self.rtt_at = Some(now);
    }

    /// The minimum counts; a longer sample is mixed in where `smooth` says that it is one of the path
    /// (`tcp_rcv_rtt_update`).
    fn update(&mut self, us: u32, smooth: bool) {
        let sample8 = us.saturating_mul(8);
        if self.rtt8_us == 0 || sample8 < self.rtt8_us {
            self.rtt8_us = sample8;
        } else if smooth {
            self.rtt8_us = (self.rtt8_us - self.rtt8_us / 8).saturating_add(us);
        }
    }

    /// The application has read up to `copied_seq`, and `waiting` bytes wait: once per round trip, whether the buffer should grow
    /// to what `window` says (`tcp_rcv_space_adjust`).
    pub fn adjust(&mut self, now: Instant, copied_seq: Seq, waiting: u32) -> Option<u64> {
        let elapsed = now.nanos_since(self.at) / 1_000;
        if self.rtt8_us == 0 || elapsed < u64::from(self.rtt8_us / 8) {
            return None;
        }
        // What waits was not read in time: a larger window would only make more wait.
        let copied = copied_seq.since(self.seq).saturating_sub(waiting);
        self.seq = copied_seq;
        self.at = now;
        if copied <= self.space {
            return None;
        }
        let before = core::mem::replace(&mut self.space, copied).max(1);
        Some(Self::window(copied, before))
    }

    /// The window that data beyond a hole deserves, which ends `span` bytes ahead.
    #[must_use]
    pub fn with_hole(&self, span: u32) -> u64 {
        Self::window(self.space, self.space.max(1)) + u64::from(span)
    }

    /// Twice what was read, since the measure is a round trip late, and twice the growth, since a sender in slow start doubles
    /// (`tcp_rcvbuf_grow`).
    fn window(read: u32, before: u32) -> u64 {
        let window = u64::from(read) * 2;
        let growth = u128::from(window) * u128::from(read.saturating_sub(before)) / u128::from(before);
        window.saturating_add(u64::try_from(growth * 2).unwrap_or(u64::MAX))
    }
}

impl Default for RcvSpace {
    fn default() -> Self {
        Self::new()
    }
}
