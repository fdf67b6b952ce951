//! Where datagrams went lately: a router on the way there may say something of them.
use crate::base::Instant;
use crate::base::limits::{UDP_RECENT_MAX, UDP_RECENT_TIME};
use core::net::IpAddr;

/// Places that there are at first.
const PLACES_MIN: usize = 8;

/// Peers by address, each at the place that its address has, and when something was last sent there. There are twice as many places, up to
/// [`UDP_RECENT_MAX`], when one would push out another: to look and to note cost the same however many peers there are.
#[derive(Debug)]
pub(super) struct Recent {
    places: Vec<Option<(IpAddr, Instant)>>,
}

impl Recent {
    /// Nowhere so far.
    pub(super) const fn new() -> Self {
        Self { places: Vec::new() }
    }

    /// A datagram leaves for `peer`.
    pub(super) fn note(&mut self, now: Instant, peer: IpAddr) {
        if self.places.is_empty() {
            self.places = vec![None; PLACES_MIN];
        }
        while self.pushes_out(now, peer) && self.places.len() < UDP_RECENT_MAX {
            let places = vec![None; 2 * self.places.len()];
            for (old, at) in core::mem::replace(&mut self.places, places).into_iter().flatten() {
                self.put(at, old);
            }
        }
        self.put(now, peer);
    }

    /// One left for `peer` within [`UDP_RECENT_TIME`].
    pub(super) fn has(&self, now: Instant, peer: IpAddr) -> bool {
        self.at(peer).is_some_and(|(there, at)| there == peer && now.since(at) < UDP_RECENT_TIME)
    }

    fn pushes_out(&self, now: Instant, peer: IpAddr) -> bool {
        self.at(peer).is_some_and(|(there, at)| there != peer && now.since(at) < UDP_RECENT_TIME)
    }

    fn at(&self, peer: IpAddr) -> Option<(IpAddr, Instant)> {
        *self.places.get(self.place(peer))?
    }

    fn put(&mut self, now: Instant, peer: IpAddr) {
        let place = self.place(peer);
        if let Some(place) = self.places.get_mut(place) {
            *place = Some((peer, now));
        }
    }

    /// Who finds addresses that share one has peers forgotten, which is as if no router had said anything.
    fn place(&self, peer: IpAddr) -> usize {
        let bits = match peer {
            IpAddr::V4(ip) => u64::from(ip.to_bits()),
            IpAddr::V6(ip) => (ip.to_bits() >> 64) as u64 ^ (ip.to_bits() as u64).rotate_left(17),
        };
        // The golden ratio's fraction spreads neighbouring addresses.
        (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & self.places.len().wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    fn peer(n: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + n).into()
    }

    #[test]
    fn a_busy_peer_pushes_out_nobody() {
        let (mut recent, now) = (Recent::new(), Instant::from_millis(1));
        for n in 0..20 {
            recent.note(now, peer(n));
        }
        for n in 0..10_000 {
            recent.note(now, peer(n % 5));
        }
        let left = (0..20).filter(|&n| recent.has(now, peer(n))).count();
        assert!(left >= 18, "{left} of 20");
        assert!(!recent.has(now, peer(20)) && !recent.has(now + UDP_RECENT_TIME, peer(1)));
    }

    #[test]
    fn as_many_are_remembered_as_there_are_places() {
        let (mut recent, now) = (Recent::new(), Instant::from_millis(1));
        assert!(!recent.has(now, peer(0)));
        for n in 0..100_000 {
            recent.note(now, peer(n));
            assert!(recent.has(now, peer(n)) && recent.places.len() <= UDP_RECENT_MAX);
        }
        let left = (0..100_000).filter(|&n| recent.has(now, peer(n))).count();
        assert_eq!(left, UDP_RECENT_MAX);
    }
}
