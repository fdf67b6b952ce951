//! Rate limits on the ICMP errors that we send: one bucket for all, and one for each group of receivers.
use crate::base::hash::KeyedState;
use crate::base::{Cx, Duration, Instant, Rng, Sysctl};
use core::hash::BuildHasher;
use core::net::IpAddr;

/// Errors to one receiver at once (`XRLIM_BURST_FACTOR`).
const BURST: u64 = 6;
/// Buckets that receivers share by a keyed hash, so that the table needs no memory per receiver.
const BUCKETS: usize = 256;

/// How far apart errors are, and how many may go at once.
#[derive(Clone, Copy)]
struct Rate {
    interval: Duration,
    burst: u64,
}

impl Rate {
    /// Of errors to one receiver (`inet_peer_xrlim_allow`).
    fn to_one(sysctl: &Sysctl, v6: bool) -> Self {
        let ms = if v6 { sysctl.icmp6_ratelimit } else { sysctl.icmp_ratelimit };
        Self { interval: Duration::from_millis(ms.into()), burst: BURST }
    }

    /// Of errors to everybody together; none where there are none (`icmp_global_allow`).
    fn to_all(sysctl: &Sysctl) -> Option<Self> {
        let interval = Duration::from_secs(1).checked_div(sysctl.icmp_msgs_per_sec)?;
        Some(Self { interval, burst: sysctl.icmp_msgs_burst.into() })
    }
}

/// A token bucket. Tokens are nanoseconds, so that a rate that changes counts from then on; one that was never asked is full.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    tokens: u64,
    last: Option<Instant>,
}

impl Bucket {
    fn take(&mut self, rate: Rate, now: Instant) -> bool {
        let interval = rate.interval.as_nanos() as u64;
        let come = self.last.map_or(u64::MAX, |last| now.nanos_since(last));
        let tokens = self.tokens.saturating_add(come).min(rate.burst.saturating_mul(interval));
        let enough = tokens >= interval;
        (self.tokens, self.last) = (tokens - if enough { interval } else { 0 }, Some(now));
        enough
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

    /// True when an error, over IPv4 of this type, may go to `to` now; false is counted.
    pub(super) fn allow(&mut self, cx: &mut Cx<'_>, to: IpAddr, kind: u8) -> bool {
        if to.is_ipv4() && cx.sysctl.icmp_ratemask & 1_u32.checked_shl(kind.into()).unwrap_or(0) == 0 {
            return true;
        }
        let host = &mut self.hosts[self.key.hash_one(to) as usize % BUCKETS];
        if !host.take(Rate::to_one(cx.sysctl, to.is_ipv6()), cx.now) {
            cx.count.icmp.out_rate_limit_host += 1;
            return false;
        }
        let Some(all) = Rate::to_all(cx.sysctl) else { return false };
        // The number of tokens taken varies, so that the global limit tells nobody how many errors others have caused
        // (CVE-2020-25705).
        (0..=cx.rng.below(3)).all(|_| self.global.take(all, cx.now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::testing::World;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let rate = Rate::to_one(&Sysctl::default(), false);
        let mut b = Bucket::default();
        let now = Instant::from_millis(5_000);
        assert_eq!((0..20).filter(|_| b.take(rate, now)).count(), 6);
        assert!(!b.take(rate, now + Duration::from_millis(999)));
        assert!(b.take(rate, now + Duration::from_millis(1_000)));
        let idle = now + Duration::from_secs(1_000);
        assert_eq!(
            (0..20).filter(|_| b.take(rate, idle)).count(),
            6,
            "idleness saves up no more than a burst"
        );
    }

    #[test]
    fn settings_say_how_many_errors_go() {
        let mut world = World::new();
        let mut limiter = Limiter::new(&mut Rng::new(1));
        let mut now = Instant::from_millis(5_000);
        let mut sent = |set: &dyn Fn(&mut Sysctl), to: &str, kind| {
            world.sysctl = Sysctl::default();
            set(&mut world.sysctl);
            now += Duration::from_secs(10);
            let to = to.parse().expect("an address");
            (0..40).filter(|_| limiter.allow(&mut world.cx(now), to, kind)).count()
        };
        let (v4, v6) = ("192.0.2.1", "2001:db8::1");
        assert_eq!(sent(&|_| {}, v4, 3), 6);
        assert_eq!(sent(&|s| s.icmp_ratelimit = 0, v6, 1), 6, "another family's");
        assert_eq!(sent(&|s| s.icmp_ratemask = 0, v4, 3), 40, "not limited at all");
        assert_eq!(sent(&|s| s.icmp_ratemask = 1 << 11, v4, 11), 6);
        let free = |s: &mut Sysctl| (s.icmp_ratelimit, s.icmp6_ratelimit) = (0, 0);
        let all = sent(&free, v4, 3);
        assert!((16..40).contains(&all), "one to three tokens each of fifty: {all}");
        assert_eq!(sent(&|s| (free(s), s.icmp_msgs_burst = 1_000).1, v6, 1), 40);
        assert_eq!(sent(&|s| (free(s), s.icmp_msgs_per_sec = 0).1, v6, 1), 0);
    }
}
