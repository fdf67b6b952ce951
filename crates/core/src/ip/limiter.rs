//! Rate limits on the ICMP errors that we send: one bucket for all, and one for each group of receivers.
use crate::base::hash::KeyedState;
use crate::base::{Cx, Duration, Instant, Rng};
use core::hash::BuildHasher;
use core::net::IpAddr;

/// Errors per second to everybody together, and how many at once (`icmp_msgs_per_sec`, `icmp_msgs_burst`).
const GLOBAL: Rate = Rate { interval: Duration::from_millis(1), burst: 50 };
/// Errors to one receiver (`icmp_ratelimit`, and the burst of Linux's `inet_peer_xrlim_allow`).
const PER_HOST: Rate = Rate { interval: Duration::from_millis(1_000), burst: 6 };
/// Buckets that receivers share by a keyed hash, so that the table needs no memory per receiver.
const BUCKETS: usize = 256;

#[derive(Clone, Copy)]
struct Rate {
    interval: Duration,
    burst: u64,
}

/// A token bucket, as the time at which it would be full again.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    full_at: Instant,
}

impl Bucket {
    fn take(&mut self, rate: Rate, now: Instant) -> bool {
        let interval = rate.interval.as_nanos() as u64;
        let start = self.full_at.max(now);
        if start.nanos_since(now) + interval > rate.burst * interval {
            return false;
        }
        self.full_at = start.plus_nanos(interval);
        true
    }
}

/// Rate limit on what we send without being asked by an application.
#[derive(Debug)]
pub(super) struct Limiter {
    key: KeyedState,
    global: Bucket,
    hosts: Box<[Bucket]>,
}

impl Limiter {
    pub(super) fn new(rng: &mut Rng) -> Self {
        let key = KeyedState::new(rng.next_u64(), rng.next_u64());
        Self { key, global: Bucket::default(), hosts: vec![Bucket::default(); BUCKETS].into() }
    }

    /// True when an error may go to `to` now; false is counted.
    pub(super) fn allow(&mut self, cx: &mut Cx<'_>, to: IpAddr) -> bool {
        let host = &mut self.hosts[self.key.hash_one(to) as usize % BUCKETS];
        if !host.take(PER_HOST, cx.now) {
            cx.count.icmp.out_rate_limit_host += 1;
            return false;
        }
        // The number of tokens taken varies, so that the global limit tells nobody how many errors others have caused
        // (CVE-2020-25705).
        for _ in 0..=cx.rng.below(3) {
            if !self.global.take(GLOBAL, cx.now) {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut b = Bucket::default();
        let now = Instant::from_millis(5_000);
        assert_eq!((0..20).filter(|_| b.take(PER_HOST, now)).count(), 6);
        assert!(!b.take(PER_HOST, now + Duration::from_millis(999)));
        assert!(b.take(PER_HOST, now + Duration::from_millis(1_000)));
        let idle = now + Duration::from_secs(1_000);
        assert_eq!(
            (0..20).filter(|_| b.take(PER_HOST, idle)).count(),
            6,
            "idleness saves up no more than a burst"
        );
    }
}
