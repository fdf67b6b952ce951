//! The path MTU cache: what validated ICMP errors have taught about destinations, bounded and ageing (RFC 1191, RFC 8201).
use crate::base::limits::PMTU_ENTRIES_MAX;
use crate::base::{Duration, Instant};
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

/// How long a lowered MTU is believed (Linux's `mtu_expires`; RFC 1191 section 6.3 asks for 10 minutes).
pub const PMTU_EXPIRES: Duration = Duration::from_secs(600);

/// What is known about the way to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learnt {
    /// MTU in bytes of IP packet.
    pub mtu: u16,
    /// A router has less room than is believed (`ip_rt_min_pmtu`): packets of `mtu` bytes may be cut on the way, and nothing that
    /// routers say changes it any more until it expires.
    pub locked: bool,
}

/// Path MTUs below those of the routes.
#[derive(Debug, Default)]
pub struct PmtuCache {
    entries: BTreeMap<IpAddr, (Learnt, Instant)>,
    by_expiry: BTreeSet<(Instant, IpAddr)>,
}

impl PmtuCache {
    /// What was learnt for `dst`, unless it has expired.
    #[must_use]
    pub fn get(&self, dst: IpAddr, now: Instant) -> Option<Learnt> {
        self.entries.get(&dst).filter(|(_, expires)| now < *expires).map(|&(learnt, _)| learnt)
    }

    /// Lowers the MTU of `dst`; true when that changed something. An error never raises it.
    pub(super) fn lower(&mut self, dst: IpAddr, new: Learnt, now: Instant) -> bool {
        if let Some(&(old, expires)) = self.entries.get(&dst) {
            if now < expires && (old.locked || old.mtu < new.mtu || old == new) {
                return false;
            }
            self.by_expiry.remove(&(expires, dst));
        } else if self.entries.len() >= PMTU_ENTRIES_MAX {
            // The one that expires first is the one that was confirmed longest ago.
            if let Some((_, oldest)) = self.by_expiry.pop_first() {
                self.entries.remove(&oldest);
            }
        }
        let expires = now + PMTU_EXPIRES;
        self.entries.insert(dst, (new, expires));
        self.by_expiry.insert((expires, dst));
        true
    }

    /// Destinations of which something is known.
    pub(super) fn known(&self) -> impl Iterator<Item = IpAddr> {
        self.entries.keys().copied()
    }

    /// The device on the way to `dst` has another MTU, `new` instead of `old`. What is below what was learnt takes its place, and goes the way up again
    /// with the device: which router was narrower is not known any more (`fib_nhc_update_mtu`, `rt6_mtu_change_route_allowed`).
    pub(super) fn follow_device(&mut self, dst: IpAddr, (old, new): (u16, u16)) {
        let Some((learnt, _)) = self.entries.get_mut(&dst) else { return };
        let follows = if learnt.locked { new <= learnt.mtu } else { new < learnt.mtu || old == learnt.mtu };
        if follows {
            *learnt = Learnt { mtu: new, locked: false };
        }
    }

    /// When the next entry expires.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.by_expiry.first().map(|&(at, _)| at)
    }

    /// Forgets what has expired; true when anything has.
    pub(super) fn on_timeout(&mut self, now: Instant) -> bool {
        let before = self.entries.len();
        while let Some(&(at, dst)) = self.by_expiry.first() {
            if at > now {
                break;
            }
            self.by_expiry.pop_first();
            self.entries.remove(&dst);
        }
        self.entries.len() != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(mtu: u16) -> Learnt {
        Learnt { mtu, locked: false }
    }

    #[test]
    fn errors_lower_and_time_restores() {
        let mut p = PmtuCache::default();
        let a: IpAddr = "10.0.0.1".parse().expect("valid");
        let t0 = Instant::from_millis(1);
        assert!(p.lower(a, open(1400), t0));
        assert!(!p.lower(a, open(1450), t0), "an error must not raise it");
        assert!(p.lower(a, open(1300), t0) && !p.lower(a, open(1300), t0));
        assert_eq!(p.get(a, t0), Some(open(1300)));
        let locked = Learnt { mtu: 552, locked: true };
        assert!(p.lower(a, locked, t0) && !p.lower(a, open(540), t0), "the last word");
        assert_eq!(p.get(a, t0), Some(locked));
        let late = t0 + PMTU_EXPIRES;
        assert_eq!(p.get(a, late), None);
        assert_eq!(p.next_deadline(), Some(late));
        assert!(p.on_timeout(late) && !p.on_timeout(late));
        assert_eq!(p.next_deadline(), None);
    }

    #[test]
    fn what_was_learnt_goes_down_with_the_device_and_up_again() {
        let mut p = PmtuCache::default();
        let [a, b, c]: [IpAddr; 3] = [1, 2, 3].map(|n| [10, 0, 0, n].into());
        let t0 = Instant::from_millis(1);
        p.lower(a, open(1400), t0);
        p.lower(b, open(1200), t0);
        p.lower(c, Learnt { mtu: 552, locked: true }, t0);
        let mut change = |old, new| {
            [a, b, c].into_iter().for_each(|dst| p.follow_device(dst, (old, new)));
            [a, b, c].map(|dst| p.get(dst, t0).map(|l| (l.mtu, l.locked)))
        };
        let are = |a, b, c| [Some(a), Some(b), Some(c)];
        assert_eq!(change(1_500, 1_300), are((1_300, false), (1_200, false), (552, true)));
        assert_eq!(change(1_300, 1_500), are((1_500, false), (1_200, false), (552, true)));
        assert_eq!(change(1_500, 552), are((552, false), (552, false), (552, false)));
        assert_eq!(p.next_deadline(), Some(t0 + PMTU_EXPIRES), "no longer than without");
    }

    #[test]
    fn the_cache_is_bounded_and_forgets_the_oldest() {
        let mut p = PmtuCache::default();
        for n in 0..=PMTU_ENTRIES_MAX as u32 {
            p.lower(IpAddr::from(n.to_be_bytes()), open(1400), Instant::from_millis(u64::from(n)));
        }
        assert_eq!((p.entries.len(), p.by_expiry.len()), (PMTU_ENTRIES_MAX, PMTU_ENTRIES_MAX));
        assert_eq!(p.get(IpAddr::from([0, 0, 0, 0]), Instant::ZERO), None);
    }
}
