//! Reproducible chance: value-stable streams forked by name from one seed.
use core::hash::Hasher;
use rand_core::{Rng as _, SeedableRng};
use siphasher::sip::SipHasher24;

/// A stream of pseudo-random numbers (PCG XSL RR 128/64, whose output is stable across releases).
///
/// Streams forked under different names are independent: a draw added in one place does not shift another.
#[derive(Clone, Debug)]
pub struct Rng {
    pcg: rand_pcg::Pcg64,
    seed: u64,
}

impl Rng {
    /// The stream of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { pcg: rand_pcg::Pcg64::seed_from_u64(seed), seed }
    }

    /// An independent stream, a function of this stream's seed and of `name` alone.
    #[must_use]
    pub fn fork(&self, name: &str) -> Self {
        let mut h = SipHasher24::new_with_keys(self.seed, 0x6c6f_7777_6174_6572);
        h.write(name.as_bytes());
        Self::new(h.finish())
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.pcg.next_u64()
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        self.pcg.next_u32()
    }

    /// Uniform in `0..bound` (0 when `bound` is 0); the bias is below 2^-32 for bounds under 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True with probability `parts_per_million` / 10^6.
    pub fn chance_ppm(&mut self, parts_per_million: u32) -> bool {
        parts_per_million > 0 && self.below(1_000_000) < u64::from(parts_per_million)
    }
}
