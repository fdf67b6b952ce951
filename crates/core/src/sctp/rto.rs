//! Round-trip time and retransmission timeout of one path (RFC 9260 section 6.3.1), with Linux's arithmetic.
//!
//! Apart from TCP's estimator: the smoothing, the bounds and the rule for the minimum are SCTP's own and settable per socket.
use super::options::RtoOptions;
use crate::base::time::{Duration, nanos};

/// Estimate and timeout of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rto {
    /// Smoothed round-trip time in nanoseconds; 0 before the first sample.
    srtt_ns: u64,
    rttvar_ns: u64,
    rto_ns: u64,
    /// Smallest sample, for the pacer; `u64::MAX` before the first.
    min_ns: u64,
    /// It was set since somebody last asked ([`Rto::take_set`]).
    set: bool,
    /// There was a sample of an answer that nobody delays.
    prompt: bool,
}

/// Linux's clock granularity (`SCTP_CLOCK_GRANULARITY`, a jiffy at 1,000 Hz).
const GRANULARITY_NS: u64 = 1_000_000;

impl Rto {
    /// Nothing measured yet: RTO.Initial.
    #[must_use]
    pub const fn new(options: &RtoOptions) -> Self {
        let rto_ns = options.initial_ms as u64 * 1_000_000;
        Self { srtt_ns: 0, rttvar_ns: 0, rto_ns, min_ns: u64::MAX, set: true, prompt: false }
    }

    /// A sample, never of a chunk that was sent twice (rule C5). Ends the backoff.
    pub fn sample(&mut self, options: &RtoOptions, rtt: Duration) {
        let rtt = nanos(rtt).max(1);
        self.min_ns = self.min_ns.min(rtt);
        if self.srtt_ns == 0 {
            (self.srtt_ns, self.rttvar_ns) = (rtt, rtt / 2);
        } else {
            let (alpha, beta) = (options.alpha, options.beta);
            let error = self.srtt_ns.abs_diff(rtt);
            self.rttvar_ns = self.rttvar_ns - (self.rttvar_ns >> beta) + (error >> beta);
            self.srtt_ns = (self.srtt_ns - (self.srtt_ns >> alpha) + (rtt >> alpha)).max(1);
        }
        self.rttvar_ns = self.rttvar_ns.max(GRANULARITY_NS);
        self.rto_ns = options.bounded(self.srtt_ns.saturating_add(self.rttvar_ns.saturating_mul(4)));
        self.set = true;
    }

    /// A sample of what is answered at once: the handshake, a HEARTBEAT. SACKs may be late (RFC 9260 section 6.2).
    pub fn sample_prompt(&mut self, options: &RtoOptions, rtt: Duration) {
        self.prompt = true;
        self.sample(options, rtt);
    }

    /// T3-rtx ran out, or a HEARTBEAT stayed without answer: rule E2 and section 8.3.
    pub fn back_off(&mut self, options: &RtoOptions) {
        self.rto_ns = self.rto_ns.saturating_mul(2).min(options.max_ms as u64 * 1_000_000);
        self.set = true;
    }

    /// The timeout, if a sample or an expiry has set it since this was last asked.
    pub fn take_set(&mut self) -> Option<Duration> {
        core::mem::take(&mut self.set).then(|| self.get())
    }

    /// New bounds (SCTP_RTOINFO); before the first sample the initial value takes effect too.
    pub fn rebound(&mut self, options: &RtoOptions) {
        if self.srtt_ns == 0 {
            self.rto_ns = options.initial_ms as u64 * 1_000_000;
        }
    }

    /// The timeout in force.
    #[must_use]
    pub const fn get(&self) -> Duration {
        Duration::from_nanos(self.rto_ns)
    }

    /// The smoothed round-trip time, once measured.
    #[must_use]
    pub const fn srtt(&self) -> Option<Duration> {
        if self.srtt_ns == 0 { None } else { Some(Duration::from_nanos(self.srtt_ns)) }
    }

    /// What a round trip takes as far as is known: the timeout while nothing was measured.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        self.srtt().unwrap_or(self.get())
    }

    /// The variation, as `spinfo` and /proc show it.
    #[must_use]
    pub const fn rttvar(&self) -> Duration {
        Duration::from_nanos(self.rttvar_ns)
    }

    /// The smallest sample.
    #[must_use]
    pub const fn min_rtt(&self) -> Option<Duration> {
        if self.min_ns == u64::MAX { None } else { Some(Duration::from_nanos(self.min_ns)) }
    }

    /// What a round trip has taken at least, as far as is known: nothing while each sample may be one of a delayed SACK.
    #[must_use]
    pub const fn least(&self) -> Duration {
        if self.prompt { Duration::from_nanos(self.min_ns) } else { Duration::ZERO }
    }

    /// Smoothed round-trip time in eighths of a microsecond, 0 when unknown: what the pacer wants.
    #[must_use]
    pub fn srtt8_us(&self) -> u32 {
        u32::try_from(self.srtt_ns / 125).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Sysctl;

    #[test]
    fn the_divisors_say_how_much_a_sample_counts() {
        let sysctl =
            Sysctl { sctp_rto_alpha_exp_divisor: 1, sctp_rto_beta_exp_divisor: 1, ..Sysctl::default() };
        let options = RtoOptions::new(&sysctl);
        let mut rto = Rto::new(&options);
        rto.sample(&options, Duration::from_secs(1));
        rto.sample(&options, Duration::from_secs(3));
        assert_eq!(rto.srtt(), Some(Duration::from_secs(2)));
        // (0.5 + 2) / 2
        assert_eq!(rto.rttvar(), Duration::from_millis(1_250));
    }

    #[test]
    fn what_may_be_late_says_nothing_of_the_least() {
        let options = RtoOptions::new(&Sysctl::default());
        let mut rto = Rto::new(&options);
        let ms = Duration::from_millis;
        let mut least = |prompt: bool, rtt| {
            if prompt {
                rto.sample_prompt(&options, rtt);
            } else {
                rto.sample(&options, rtt);
            }
            rto.least()
        };
        assert_eq!(least(false, ms(210)), Duration::ZERO);
        assert_eq!(
            (least(true, ms(20)), least(false, ms(10)), least(true, ms(30))),
            (ms(20), ms(10), ms(10))
        );
    }

    #[test]
    fn the_first_sample_gives_three_times_itself_and_the_bounds_hold() {
        let mut options = RtoOptions::new(&Sysctl::default());
        let mut rto = Rto::new(&options);
        assert_eq!(rto.get(), Duration::from_secs(3));
        rto.sample(&options, Duration::from_millis(600));
        assert_eq!(rto.get(), Duration::from_millis(1_800));
        rto.sample(&options, Duration::from_millis(600));
        // rttvar falls by a quarter: 600 + 4 * 225.
        assert_eq!(rto.get(), Duration::from_millis(1_500));
        for _ in 0..20 {
            rto.back_off(&options);
        }
        assert_eq!(rto.get(), Duration::from_secs(60));
        for _ in 0..100 {
            rto.sample(&options, Duration::from_millis(10));
        }
        assert_eq!(rto.get(), Duration::from_secs(1));
        options.min_ms = 20;
        rto.sample(&options, Duration::from_millis(10));
        assert!(rto.get() < Duration::from_millis(50), "{:?}", rto.get());
    }
}
