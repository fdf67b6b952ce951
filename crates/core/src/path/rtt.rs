//! Round-trip time: the smoothed estimate, its deviation, the retransmission timeout and the windowed minimum.
//!
//! RFC 6298 with Linux's refinements (`tcp_rtt_estimator`): the variance falls only once per round trip, so that many samples
//! per round do not forget the peaks, and a sample below the average moves the deviation by an eighth of its usual weight.
//! Fixed point: `srtt` in eighths, `mdev` in quarters of a microsecond.
use super::min_filter::MinFilter;
use crate::base::Cx;
use crate::base::sysctl::Sysctl;
use crate::base::time::{Duration, nanos};

/// Timeout before the first sample (RFC 6298 section 2.1, `TCP_TIMEOUT_INIT`).
pub const RTO_INITIAL: Duration = Duration::from_secs(1);
/// Timeout when data begins after a handshake whose SYN had to be repeated (RFC 6298 section 5.7, `TCP_TIMEOUT_FALLBACK`).
pub const RTO_FALLBACK: Duration = Duration::from_secs(3);
/// Longest sample that counts, in microseconds: what still fits the fixed point with room for its deviation.
const SAMPLE_MAX_US: u64 = 200_000_000;
/// Doublings beyond which the timeout is at its bound in any case.
const BACKOFF_MAX: u8 = 30;

/// Bounds of the timeout that a socket has of its own, in four bytes: whoever has none pays for them too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtoBounds {
    /// TCP_RTO_MIN_US in units of 4 us, or of 4 ms where it is too large for these; 0 takes tcp_rto_min_us.
    min: u16,
    /// TCP_RTO_MAX_MS in units of 4 ms, as in a kernel of 250 Hz; 0 takes tcp_rto_max_ms. The first bit tells the unit of the other.
    max: u16,
}

/// The other bound is in units of 4 ms.
const COARSE: u16 = 1 << 15;

impl RtoBounds {
    /// Least addition to the round trip in microseconds, longest timeout in milliseconds; 0 for the system's.
    #[must_use]
    pub const fn new(min_us: u32, max_ms: u32) -> Self {
        let max = quarter(max_ms) & !COARSE;
        if min_us > u16::MAX as u32 * 4 {
            return Self { min: quarter(min_us.div_ceil(1_000)), max: max | COARSE };
        }
        Self { min: quarter(min_us), max }
    }

    const fn min_us(self) -> u32 {
        self.min as u32 * if self.max & COARSE == 0 { 4 } else { 4_000 }
    }

    const fn max_ms(self) -> u32 {
        (self.max & !COARSE) as u32 * 4
    }
}

/// A fourth, rounded up.
const fn quarter(n: u32) -> u16 {
    let n = n.div_ceil(4);
    if n > u16::MAX as u32 { u16::MAX } else { n as u16 }
}

/// The estimator of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rtt {
    /// Smoothed RTT in eighths of a microsecond; 0 before the first sample.
    srtt8: u32,
    /// Mean deviation in quarters of a microsecond.
    mdev4: u32,
    /// Largest `mdev4` of this round trip.
    mdev_max4: u32,
    /// What the timeout adds to the RTT, in microseconds: four deviations, smoothed once per round trip. Before the first
    /// sample it is the whole timeout.
    rttvar: u32,
    /// `snd.nxt` when this round trip of the deviation began.
    round_end: u64,
    min: MinFilter,
    /// Doublings in force.
    shift: u8,
    /// Doublings of this timeout and of window probes, one count for both (`icsk_backoff`): it may end while the timeout stays doubled.
    backoff: u8,
    bounds: RtoBounds,
    /// The bound that the timeout was computed with, where another has been set since, in milliseconds by 4; 0 is none.
    old_max: u16,
}

impl Default for Rtt {
    fn default() -> Self {
        Self::new()
    }
}

impl Rtt {
    /// No sample yet.
    #[must_use]
    pub const fn new() -> Self {
        let initial = RTO_INITIAL.as_micros() as u32;
        Self {
            srtt8: 0,
            mdev4: initial,
            mdev_max4: initial,
            rttvar: initial,
            round_end: 0,
            min: MinFilter::new(),
            shift: 0,
            backoff: 0,
            bounds: RtoBounds::new(0, 0),
            old_max: 0,
        }
    }

    /// The socket's own bounds; what was measured stays, so the lower one counts from the next samples on, and the upper one for the timeout
    /// from the next sample or doubling on (`icsk_rto`; timers are bound at once).
    pub const fn set_bounds(&mut self, bounds: RtoBounds) {
        if self.bounds.max_ms() != bounds.max_ms() && self.old_max == 0 {
            self.old_max = self.bounds.max & !COARSE;
        }
        self.bounds = bounds;
    }

    /// The least that the timeout adds to the round trip, in microseconds (`tcp_rto_min_us`).
    #[must_use]
    pub const fn rto_min_us(&self, sysctl: &Sysctl) -> u32 {
        if self.bounds.min != 0 { self.bounds.min_us() } else { sysctl.tcp_rto_min_us }
    }

    /// The longest timeout (`tcp_rto_max`).
    #[must_use]
    pub const fn rto_max(&self, sysctl: &Sysctl) -> Duration {
        Duration::from_millis(self.rto_max_ms(sysctl) as u64)
    }

    const fn rto_max_ms(&self, sysctl: &Sysctl) -> u32 {
        if self.bounds.max_ms() != 0 { self.bounds.max_ms() } else { sysctl.tcp_rto_max_ms }
    }

    /// What bounds the timeout as it is, in microseconds.
    const fn bound_us(&self, sysctl: &Sysctl) -> u64 {
        let ms = if self.old_max != 0 { self.old_max as u32 * 4 } else { self.rto_max_ms(sysctl) };
        ms as u64 * 1_000
    }

    /// A sample for the timeout, never from an ambiguous retransmission (Karn's rule). Ends the backoff.
    /// `una` and `nxt` count bytes from the ISN, after the acknowledgement.
    pub fn sample(&mut self, cx: &Cx<'_>, rtt: Duration, una: u64, nxt: u64) {
        let m = sample_us(cx.sysctl, rtt);
        let floor = self.rto_min_us(cx.sysctl);
        self.reset_backoff();
        if self.srtt8 == 0 {
            self.srtt8 = (m << 3).max(1);
            // Half the sample, in quarters: RFC 6298 section 2.2.
            self.mdev4 = m << 1;
            self.rttvar = self.mdev4.max(floor);
            self.mdev_max4 = self.rttvar;
            self.round_end = nxt;
            return;
        }
        let error = i64::from(m) - i64::from(self.srtt8 >> 3);
        self.srtt8 = (i64::from(self.srtt8) + error).max(1) as u32;
        let mut growth = error.abs() - i64::from(self.mdev4 >> 2);
        if error < 0 && growth > 0 {
            // The RTT fell: that is no reason for a longer timeout (the Eifel fix).
            growth >>= 3;
        }
        self.mdev4 = (i64::from(self.mdev4) + growth).max(0) as u32;
        if self.mdev4 > self.mdev_max4 {
            self.mdev_max4 = self.mdev4;
            self.rttvar = self.rttvar.max(self.mdev_max4);
        }
        if una > self.round_end {
            self.rttvar -= self.rttvar.saturating_sub(self.mdev_max4) >> 2;
            self.round_end = nxt;
            self.mdev_max4 = floor;
        }
    }

    /// A sample for the minimum: also from selective acknowledgements (`tcp_update_rtt_min`).
    pub fn sample_min(&mut self, cx: &Cx<'_>, rtt: Duration) {
        let window_ms = cx.sysctl.tcp_min_rtt_wlen.saturating_mul(1_000);
        self.min.update(cx.now.as_millis() as u32, window_ms, sample_us(cx.sysctl, rtt));
    }

    /// Data begins, and the handshake gave no sample because its SYN was repeated (RFC 6298 section 5.7).
    pub fn fall_back(&mut self) {
        if self.srtt8 == 0 {
            let fallback = RTO_FALLBACK.as_micros() as u32;
            (self.rttvar, self.mdev4, self.mdev_max4) = (fallback, fallback, fallback);
            self.shift = 0;
        }
    }

    /// The retransmission timer ran out: the timeout doubles (RFC 6298 section 5.5).
    pub fn back_off(&mut self) {
        self.old_max = 0;
        self.shift = (self.shift + 1).min(BACKOFF_MAX);
        self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
    }

    /// A window probe left: the next one waits twice as long, up to `limit` times.
    pub fn back_off_probes(&mut self, limit: u8) {
        if self.backoff < limit {
            self.backoff += 1;
        }
    }

    /// The window has opened, or a probe was data: the count begins anew, the timeout stays as it is.
    pub const fn end_backoff(&mut self) {
        self.backoff = 0;
    }

    /// A window probe did not leave: the next one waits as it would have before.
    pub const fn set_probe_backoff(&mut self, backoff: u8) {
        self.backoff = backoff;
    }

    /// The retransmission of the last timeout could not leave this host: that one does not double.
    pub const fn take_back_backoff(&mut self) {
        self.shift = self.shift.saturating_sub(1);
        self.backoff = self.backoff.saturating_sub(1);
    }

    /// One doubling less than have been counted, those of window probes among them, whatever the timeout was (RFC 6069 section 4.2;
    /// `tcp_ld_RTO_revert`).
    pub fn revert_backoff(&mut self) {
        self.backoff = self.backoff.saturating_sub(1);
        self.shift = self.backoff.min(BACKOFF_MAX);
        self.old_max = 0;
    }

    /// The timeout returns to what the estimate says.
    pub const fn reset_backoff(&mut self) {
        (self.shift, self.backoff) = (0, 0);
        self.old_max = 0;
    }

    /// Doublings since the last sample, probes of the window counted (`icsk_backoff`).
    #[must_use]
    pub const fn backoff(&self) -> u8 {
        self.backoff
    }

    /// The retransmission timeout with the doublings in force (`icsk_rto`). Before the first of samples and doublings nothing bounds it
    /// (`TCP_TIMEOUT_FALLBACK`).
    #[must_use]
    pub fn rto(&self, sysctl: &Sysctl) -> Duration {
        if self.srtt8 == 0 && self.shift == 0 {
            return Duration::from_micros(u64::from(self.rttvar));
        }
        Duration::from_micros((self.base_us(sysctl) << self.shift).min(self.bound_us(sysctl)))
    }

    /// The same as a timer counts it: by the bound in force.
    #[must_use]
    pub fn rto_of_timer(&self, sysctl: &Sysctl) -> Duration {
        self.rto(sysctl).min(self.rto_max(sysctl))
    }

    /// The retransmission timeout without doublings (`__tcp_set_rto`).
    #[must_use]
    pub fn base_rto(&self, sysctl: &Sysctl) -> Duration {
        Duration::from_micros(self.base_us(sysctl))
    }

    fn base_us(&self, sysctl: &Sysctl) -> u64 {
        // RFC 6298 section 2.3: at least one tick of the clock is added.
        let granularity = sysctl.clock_resolution_ns.div_ceil(1_000);
        let us = u64::from(self.srtt8 >> 3) + u64::from(self.rttvar.max(granularity));
        us.min(self.bound_us(sysctl))
    }

    /// Smoothed RTT (`tcpi_rtt`).
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        (self.srtt8 != 0).then(|| Duration::from_micros(u64::from(self.srtt8 >> 3)))
    }

    /// Smoothed RTT in eighths of a microsecond, 0 when unknown.
    #[must_use]
    pub const fn srtt8_us(&self) -> u32 {
        self.srtt8
    }

    /// Mean deviation (`tcpi_rttvar`).
    #[must_use]
    pub const fn mdev(&self) -> Duration {
        Duration::from_micros((self.mdev4 >> 2) as u64)
    }

    /// What the timeout adds to the smoothed RTT (`rttvar_us`).
    #[must_use]
    pub const fn rttvar(&self) -> Duration {
        Duration::from_micros(self.rttvar as u64)
    }

    /// Smallest RTT of the last seconds, as many as tcp_min_rtt_wlen says (`tcpi_min_rtt`).
    #[must_use]
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min.get().map(|us| Duration::from_micros(u64::from(us)))
    }
}

/// A sample in whole microseconds: at least one, and at least one tick of a coarse clock.
fn sample_us(sysctl: &Sysctl, rtt: Duration) -> u32 {
    let ns = nanos(rtt).max(u64::from(sysctl.clock_resolution_ns));
    (ns / 1_000).clamp(1, SAMPLE_MAX_US) as u32
}

#[cfg(test)]
mod tests;
