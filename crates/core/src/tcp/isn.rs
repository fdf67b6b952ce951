//! Initial sequence numbers by RFC 6528, and timestamp offsets per connection (RFC 7323 section 5.4).
use super::seq::Seq;
use crate::base::time::Instant;
use crate::base::{Rng, Tuple};
use core::hash::Hash;
use siphasher::sip::SipHasher24;

/// Secrets of a stack, drawn once from its seed.
#[derive(Clone, Debug)]
pub struct Secrets {
    isn: (u64, u64),
    ts: (u64, u64),
}

fn keyed(key: (u64, u64), value: &impl Hash) -> u32 {
    use core::hash::Hasher;
    let mut h = SipHasher24::new_with_keys(key.0, key.1);
    value.hash(&mut h);
    h.finish() as u32
}

impl Secrets {
    /// Draws the secrets.
    pub fn new(rng: &mut Rng) -> Self {
        Self { isn: (rng.next_u64(), rng.next_u64()), ts: (rng.next_u64(), rng.next_u64()) }
    }

    /// ISN = M + F(tuple, secret), where M ticks every 64 ns as in Linux, so that it grows faster than any flow sends.
    #[must_use]
    pub fn isn(&self, tuple: &Tuple, now: Instant) -> Seq {
        Seq(keyed(self.isn, tuple).wrapping_add((now.as_nanos() >> 6) as u32))
    }

    /// Offset of the timestamp clock towards this pair of addresses: it hides the uptime, and stays the same for all ports so
    /// that a later connection of the pair passes PAWS in TIME-WAIT.
    #[must_use]
    pub fn ts_offset(&self, tuple: &Tuple) -> u32 {
        keyed(self.ts, &(tuple.local_ip, tuple.remote_ip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;

    fn tuple(port: u16) -> Tuple {
        Tuple::new(SocketAddr::from(([10, 0, 0, 1], port)), SocketAddr::from(([10, 0, 0, 2], 80)))
    }

    #[test]
    fn numbers_depend_on_the_key_on_the_tuple_and_on_time() {
        let (a, b) = (Secrets::new(&mut Rng::new(1)), Secrets::new(&mut Rng::new(2)));
        assert_ne!(a.isn(&tuple(1), Instant::ZERO), b.isn(&tuple(1), Instant::ZERO));
        assert_ne!(a.isn(&tuple(1), Instant::ZERO), a.isn(&tuple(2), Instant::ZERO));
        let later = a.isn(&tuple(1), Instant::from_micros(64));
        assert_eq!(later.since(a.isn(&tuple(1), Instant::ZERO)), 1_000);
        assert_eq!(a.ts_offset(&tuple(1)), a.ts_offset(&tuple(2)));
    }

    #[test]
    fn numbers_spread_evenly() {
        let secrets = Secrets::new(&mut Rng::new(3));
        let mut buckets = [0u32; 16];
        for port in 0..16_000 {
            buckets[(secrets.isn(&tuple(port), Instant::ZERO).0 >> 28) as usize] += 1;
        }
        assert!(buckets.iter().all(|&n| (800..1_200).contains(&n)), "{buckets:?}");
    }
}
