//! A hash of many messages that does not depend on how their streams take turns: a sum of SHA-256.
use sha2::{Digest as _, Sha256};
use std::fmt;

/// The hash of one message, with its stream and its number there, if its place counts.
pub(super) struct Digest(Sha256);

impl Digest {
    pub(super) fn new(stream: u16, place: Option<u64>) -> Self {
        let mut hash = Sha256::new();
        hash.update(stream.to_be_bytes());
        hash.update(place.unwrap_or(u64::MAX).to_be_bytes());
        Self(hash)
    }

    pub(super) fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }
}

/// The sum of hashes, modulo 2^256.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum([u8; 32]);

impl Sum {
    pub(super) fn add(&mut self, digest: Digest) {
        let mut carry = 0;
        for (own, other) in self.0.iter_mut().zip(digest.0.finalize()).rev() {
            let sum = u16::from(*own) + u16::from(other) + carry;
            (*own, carry) = (sum as u8, sum >> 8);
        }
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(messages: &[(u16, Option<u64>, &[u8])]) -> Sum {
        let mut sum = Sum::default();
        for (stream, place, data) in messages {
            let mut digest = Digest::new(*stream, *place);
            digest.update(data);
            sum.add(digest);
        }
        sum
    }

    #[test]
    fn the_order_of_streams_does_not_count_but_that_in_a_stream_does() {
        let (a, b, c) = ((0, Some(0), &b"a"[..]), (0, Some(1), &b"b"[..]), (1, Some(0), &b"c"[..]));
        assert_eq!(sum(&[a, b, c]), sum(&[c, a, b]));
        assert_ne!(sum(&[a, b]), sum(&[(0, Some(0), b"b"), (0, Some(1), b"a")]));
        assert_ne!(sum(&[a, b]), sum(&[a]));
        assert_ne!(sum(&[c]), sum(&[(2, Some(0), b"c")]));
    }
}
