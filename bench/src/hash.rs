//! The hash over the payload: XXH3 of 64 bits, so that every byte is looked at and a wrong one shows. It is among the quickest that do,
//! because the reader computes it while the clock runs: what is measured is the stack, not the check.
use core::hash::Hasher as _;
use twox_hash::XxHash3_64;

/// XXH3 (64 bits, no seed) of everything fed to it.
#[derive(Clone)]
pub struct Hash(XxHash3_64);

impl Hash {
    /// Of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self(XxHash3_64::new())
    }

    /// Goes on with `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The hash so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.finish()
    }
}

impl Default for Hash {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hash({:016x})", self.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(pieces: &[&[u8]]) -> u64 {
        let mut hash = Hash::new();
        pieces.iter().for_each(|piece| hash.update(piece));
        hash.value()
    }

    #[test]
    fn of_nothing_it_is_what_xxh3_says() {
        assert_eq!(hash(&[]), 0x2d06_8005_38d3_94c2);
    }

    #[test]
    fn it_is_the_same_however_it_is_cut() {
        let bytes: Vec<u8> = (0..5_000).map(|i| (i * 31) as u8).collect();
        let whole = hash(&[&bytes]);
        for at in (0..=bytes.len()).step_by(7) {
            assert_eq!(hash(&[&bytes[..at], &bytes[at..]]), whole, "cut at {at}");
        }
    }

    #[test]
    fn every_byte_counts() {
        let bytes = vec![7; 2_000];
        let whole = hash(&[&bytes]);
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert_ne!(hash(&[&wrong]), whole, "byte {at}");
        }
    }
}
