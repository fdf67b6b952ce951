//! Keyed hashing for tables that peers can fill, and the map type the core uses.
use core::hash::BuildHasher;
use siphasher::sip::SipHasher13;

/// Builds SipHash-1-3 hashers from a key of the stack's own, so that a peer cannot choose collisions.
#[derive(Clone, Copy, Debug)]
pub struct KeyedState {
    k0: u64,
    k1: u64,
}

impl KeyedState {
    /// A hasher state with the given key.
    #[must_use]
    pub const fn new(k0: u64, k1: u64) -> Self {
        Self { k0, k1 }
    }
}

impl BuildHasher for KeyedState {
    type Hasher = SipHasher13;
    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.k0, self.k1)
    }
}

/// A hash map with the stack's key. Iterating over it is forbidden where order could become visible.
pub type Map<K, V> = hashbrown::HashMap<K, V, KeyedState>;
