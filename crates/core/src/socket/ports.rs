//! Ephemeral ports: hard to guess, rarely reused soon (RFC 6056 section 3.3.3, double use of a secret left out).
use crate::base::hash::KeyedState;
use core::hash::BuildHasher;
use core::hash::Hash;

/// Chooses source ports: a keyed hash of the destination gives the start, a counter moves on from there.
#[derive(Debug)]
pub struct Ports {
    key: KeyedState,
    next: u32,
}

impl Ports {
    /// A chooser with a secret.
    #[must_use]
    pub const fn new(key: KeyedState) -> Self {
        Self { key, next: 0 }
    }

    /// The first port of `range` (inclusive) that `free` accepts, starting at a place that depends on `flow` and on the secret.
    /// `None` when every port is taken.
    pub fn choose(&mut self, range: (u16, u16), flow: &impl Hash, free: impl Fn(u16) -> bool) -> Option<u16> {
        let (low, high) = (u32::from(range.0), u32::from(range.1));
        let count = high.checked_sub(low)? + 1;
        let offset = self.key.hash_one(flow) as u32 % count;
        let start = offset.wrapping_add(self.next) % count;
        let step = (0..count).find(|i| free((low + (start + i) % count) as u16))?;
        self.next = (self.next + step + 1) % count;
        Some((low + (start + step) % count) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_is_found_once_and_then_none() {
        let mut ports = Ports::new(KeyedState::new(1, 2));
        let mut taken = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let p = ports.choose((1_000, 1_099), &"peer", |p| !taken.contains(&p)).expect("one is free");
            assert!((1_000..=1_099).contains(&p) && taken.insert(p));
        }
        assert_eq!(ports.choose((1_000, 1_099), &"peer", |p| !taken.contains(&p)), None);
    }
}
