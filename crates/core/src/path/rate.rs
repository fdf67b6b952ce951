//! Delivery rate: how fast segments really arrive, measured from snapshots kept with every segment in flight.
//!
//! draft-cheng-iccrg-delivery-rate-estimation: each transmission remembers how much had been delivered when it left; when it
//! is delivered itself, what was delivered in between, divided by the longer of the two intervals (sending and
//! acknowledging), is one sample. The sending interval guards against ACKs that arrive compressed.
use crate::base::Instant;
use crate::base::time::{Duration, nanos};

/// State of the flow when a segment left; kept with the record of the segment. The default belongs to nothing and gives no
/// sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// When the flow's count of delivered segments last moved. `FAR_FUTURE` once used: a record counts once.
    delivered_at: Instant,
    /// When the first segment of the sampling interval left.
    first_sent_at: Instant,
    /// Segments delivered so far, modulo 2^32.
    delivered: u32,
    /// The application did not fill the window then.
    app_limited: bool,
}

impl Default for Snapshot {
    fn default() -> Self {
        Self {
            delivered_at: Instant::FAR_FUTURE,
            first_sent_at: Instant::ZERO,
            delivered: 0,
            app_limited: false,
        }
    }
}

/// What one acknowledgement collects: of all segments it delivers, the one sent last counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampler {
    /// The snapshot of the segment sent last, and when it was sent.
    newest: Option<(Snapshot, Instant)>,
    retransmitted: bool,
}

impl Sampler {
    /// What had been delivered when the newest of the delivered segments left, modulo 2^32.
    #[must_use]
    pub fn prior_delivered(&self) -> Option<u32> {
        self.newest.map(|(snapshot, _)| snapshot.delivered)
    }
}

/// One sample of the delivery rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Segments delivered in the interval.
    pub delivered: u32,
    /// See [`RateSample::interval`].
    interval_ns: u64,
    /// The application did not fill the window: the path may be faster.
    pub app_limited: bool,
    /// The segment that counts had been retransmitted.
    pub retransmitted: bool,
}

impl RateSample {
    /// `delivered` segments in `interval`, for tests of those who use samples.
    #[cfg(test)]
    pub(crate) const fn of(delivered: u32, interval_ns: u64, app_limited: bool) -> Self {
        Self { delivered, interval_ns, app_limited, retransmitted: false }
    }

    /// The longer of the sending and the acknowledging interval.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval_ns)
    }

    /// The rate in bytes per second for segments of `mss` bytes.
    #[must_use]
    pub fn bytes_per_second(&self, mss: u32) -> u64 {
        let bytes = u128::from(self.delivered) * u128::from(mss) * 1_000_000_000;
        u64::try_from(bytes / u128::from(self.interval_ns.max(1))).unwrap_or(u64::MAX)
    }

    /// At least as fast as `other`, without dividing.
    fn reaches(&self, other: &Self) -> bool {
        u128::from(self.delivered) * u128::from(other.interval_ns)
            >= u128::from(other.delivered) * u128::from(self.interval_ns)
    }
}

/// The flow's side: the counters that snapshots are taken of, and the last good sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    /// `FAR_FUTURE` before data: a SYN gives no sample.
    delivered_at: Instant,
    first_sent_at: Instant,
    delivered: u32,
    /// Of them, acknowledged with an ECN echo.
    delivered_ce: u32,
    /// The count of delivered segments until which samples are application-limited, as what leaves first is; `None` when they are not.
    app_limited_until: Option<u32>,
    best: Option<RateSample>,
}

impl Default for Rate {
    fn default() -> Self {
        Self::new()
    }
}

impl Rate {
    /// Nothing delivered yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            delivered_at: Instant::FAR_FUTURE,
            first_sent_at: Instant::ZERO,
            delivered: 0,
            delivered_ce: 0,
            app_limited_until: Some(u32::MAX),
            best: None,
        }
    }

    /// A segment leaves at `now`. `idle` says that nothing else is out: then a new interval begins (`tcp_rate_skb_sent`).
    pub fn on_sent(&mut self, now: Instant, idle: bool) -> Snapshot {
        if idle {
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        self.snapshot(0)
    }

    /// Of what leaves amid an acknowledgement that delivered `delivered` segments, before [`Self::on_ack`] hears of them: they are counted
    /// (`tcp_count_delivered`), but since when that is so, and what it ends, nobody has said yet (`tcp_rate_gen`).
    #[must_use]
    pub const fn snapshot(&self, delivered: u32) -> Snapshot {
        Snapshot {
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            delivered: self.delivered.wrapping_add(delivered),
            app_limited: self.app_limited_until.is_some(),
        }
    }

    /// A record that left at `sent_at` was delivered; its snapshot is used up (`tcp_rate_skb_delivered`).
    pub fn on_delivered(
        &mut self,
        sampler: &mut Sampler,
        snapshot: &mut Snapshot,
        sent_at: Instant,
        retransmitted: bool,
    ) {
        if snapshot.delivered_at == Instant::FAR_FUTURE {
            return;
        }
        if sampler.newest.is_none_or(|(_, at)| sent_at >= at) {
            sampler.newest = Some((*snapshot, sent_at));
            sampler.retransmitted = retransmitted;
            // The sending interval of the next sample begins where this one ends.
            self.first_sent_at = sent_at;
        }
        snapshot.delivered_at = Instant::FAR_FUTURE;
    }

    /// The end of an acknowledgement that delivered `delivered` segments: the sample, where there is a valid one
    /// (`tcp_rate_gen`). `reneged` says that the peer took back what it had acknowledged selectively.
    pub fn on_ack(
        &mut self,
        now: Instant,
        delivered: u32,
        sampler: &Sampler,
        min_rtt: Option<Duration>,
        reneged: bool,
    ) -> Option<RateSample> {
        self.delivered = self.delivered.wrapping_add(delivered);
        if self.app_limited_until.is_some_and(|until| (until.wrapping_sub(self.delivered) as i32) < 0) {
            self.app_limited_until = None;
        }
        if delivered > 0 {
            self.delivered_at = now;
        }
        let (snapshot, sent_at) = sampler.newest.filter(|_| !reneged)?;
        let sample = RateSample {
            delivered: self.delivered.wrapping_sub(snapshot.delivered),
            interval_ns: nanos(sent_at.since(snapshot.first_sent_at).max(now.since(snapshot.delivered_at))),
            app_limited: snapshot.app_limited,
            retransmitted: sampler.retransmitted,
        };
        // Shorter than any round trip, which is the longest while it is unknown: the clock stood still or a retransmission was
        // taken for the original.
        if sample.interval_ns == 0 || min_rtt.is_none_or(|min| sample.interval_ns < nanos(min)) {
            return None;
        }
        if !sample.app_limited || self.best.is_none_or(|best| sample.reaches(&best)) {
            self.best = Some(sample);
        }
        Some(sample)
    }

    /// The application has nothing more to send while the window is open and nothing waits below: samples until
    /// everything in flight is delivered do not show what the path can carry (`tcp_rate_check_app_limited`).
    pub fn mark_app_limited(&mut self, in_flight: u32) {
        // Before anything is delivered the first delivery does not end it.
        self.app_limited_until = Some(self.delivered.wrapping_add(in_flight).max(1));
    }

    /// True while samples are marked.
    #[must_use]
    pub const fn is_app_limited(&self) -> bool {
        self.app_limited_until.is_some()
    }

    /// SYN and data that left in one packet were counted as two.
    pub const fn join_syn_and_data(&mut self) {
        if self.delivered > 1 {
            self.delivered -= 1;
        }
    }

    /// Segments delivered so far, modulo 2^32 (`tcpi_delivered`).
    #[must_use]
    pub const fn delivered(&self) -> u32 {
        self.delivered
    }

    /// When the count of delivered segments last moved.
    #[must_use]
    pub fn delivered_at(&self) -> Instant {
        if self.delivered_at == Instant::FAR_FUTURE { Instant::ZERO } else { self.delivered_at }
    }

    /// Segments delivered whose acknowledgement carried an ECN echo, modulo 2^32 (`tcpi_delivered_ce`).
    #[must_use]
    pub const fn delivered_ce(&self) -> u32 {
        self.delivered_ce
    }

    /// The acknowledgement that delivered these carried an ECN echo.
    pub const fn count_marked(&mut self, delivered: u32) {
        self.delivered_ce = self.delivered_ce.wrapping_add(delivered);
    }

    /// The SYN-ACK of a passive open arrived; no record of it was in flight.
    pub const fn count_syn_ack(&mut self) {
        self.delivered = self.delivered.wrapping_add(1);
    }

    /// The last sample that was not application-limited, or a faster one that was (`tcpi_delivery_rate`).
    #[must_use]
    pub const fn best(&self) -> Option<RateSample> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    fn ack(rate: &mut Rate, now: Instant, records: &mut [(Snapshot, Instant)]) -> Option<RateSample> {
        let mut sampler = Sampler::default();
        for (snapshot, sent_at) in records.iter_mut() {
            rate.on_delivered(&mut sampler, snapshot, *sent_at, false);
        }
        rate.on_ack(now, records.len() as u32, &sampler, Some(Duration::from_millis(50)), false)
    }

    #[test]
    fn a_steady_flow_shows_its_rate() {
        assert!(size_of::<Snapshot>() <= 24);
        // One segment each 10 ms over 100 ms: 100 segments per second.
        let mut rate = Rate::new();
        let mut out: Vec<_> = (0..30).map(|_| (Snapshot::default(), ms(0))).collect();
        for i in 0..30u64 {
            out[i as usize] = (rate.on_sent(ms(10 * i), i == 0), ms(10 * i));
            if i >= 10 {
                let j = i as usize - 10;
                let sample = ack(&mut rate, ms(10 * i), &mut out[j..=j]).expect("valid");
                if j > 10 {
                    assert_eq!((sample.delivered, sample.interval()), (11, Duration::from_millis(110)));
                    assert_eq!(sample.bytes_per_second(1_000), 100_000);
                }
            }
        }
    }

    #[test]
    fn compressed_acks_do_not_raise_the_rate() {
        let mut rate = Rate::new();
        let mut out: Vec<_> = (0..11u64).map(|i| (rate.on_sent(ms(10 * i), i == 0), ms(10 * i))).collect();
        assert!(ack(&mut rate, ms(100), &mut out[..1]).is_some());
        // The others arrive all at once at 200 ms; sending them took 100 ms, acknowledging 200 ms.
        let sample = ack(&mut rate, ms(200), &mut out[1..]).expect("valid");
        assert_eq!((sample.delivered, sample.interval()), (11, Duration::from_millis(200)));
        assert_eq!(rate.best(), Some(RateSample { delivered: 11, ..sample }));
    }

    #[test]
    fn a_record_counts_once_and_a_short_interval_is_no_sample() {
        let mut rate = Rate::new();
        let mut out = [(rate.on_sent(ms(0), true), ms(0))];
        assert_eq!(ack(&mut rate, ms(10), &mut out), None);
        assert_eq!(rate.delivered(), 1);
        assert_eq!(ack(&mut rate, ms(100), &mut out), None);
    }

    /// One acknowledgement delivers several records in any order: the one sent last makes the sample.
    #[test]
    fn the_record_sent_last_counts() {
        for reversed in [false, true] {
            let mut rate = Rate::new();
            let mut first = [(rate.on_sent(ms(0), true), ms(0))];
            let old = (rate.on_sent(ms(10), false), ms(10));
            assert!(ack(&mut rate, ms(100), &mut first).is_some());
            let new = (rate.on_sent(ms(110), false), ms(110));
            let mut out = if reversed { [new, old] } else { [old, new] };
            let sample = ack(&mut rate, ms(210), &mut out).expect("valid");
            assert_eq!((sample.delivered, sample.interval()), (2, Duration::from_millis(110)));
        }
    }

    #[test]
    fn a_slower_application_limited_sample_does_not_replace_the_best() {
        let mut rate = Rate::new();
        let mut out = [(rate.on_sent(ms(0), true), ms(0)), (rate.on_sent(ms(0), false), ms(0))];
        let best = ack(&mut rate, ms(100), &mut out).expect("valid");
        rate.mark_app_limited(0);
        let mut out = [(rate.on_sent(ms(100), true), ms(100))];
        assert!(ack(&mut rate, ms(200), &mut out).expect("valid").app_limited);
        assert_eq!(rate.best(), Some(best));
        let mut out: Vec<_> = (0..3).map(|i| (rate.on_sent(ms(200), i == 0), ms(200))).collect();
        let faster = ack(&mut rate, ms(300), &mut out);
        assert_eq!((rate.best(), faster.map(|s| s.delivered)), (faster, Some(3)));
        let mut none = [(Snapshot::default(), ms(400))];
        assert_eq!(ack(&mut rate, ms(400), &mut none), None);
    }

    #[test]
    fn the_mark_lasts_until_everything_in_flight_then_is_delivered() {
        // What leaves first is limited, too, until something is delivered.
        let mut rate = Rate::new();
        let mut first = [(rate.on_sent(ms(0), true), ms(0))];
        assert!(ack(&mut rate, ms(0), &mut first).is_none() && !rate.is_app_limited());
        let mut out: Vec<_> = (0..2).map(|_| (rate.on_sent(ms(0), false), ms(0))).collect();
        rate.mark_app_limited(2);
        let mut later = [(rate.on_sent(ms(1), false), ms(1))];
        assert!(!ack(&mut rate, ms(100), &mut out).expect("valid").app_limited);
        assert!(rate.is_app_limited());
        assert!(ack(&mut rate, ms(101), &mut later).expect("valid").app_limited);
        assert!(!rate.is_app_limited());
    }
}
