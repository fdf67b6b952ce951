//! A table under generational names that grows by a sixteenth: tables of idle sockets must not cost twice what is in them.
use core::fmt;
use core::marker::PhantomData;
use slotmap::{Key, KeyData};

/// End of the list of vacant places.
const NIL: u32 = u32::MAX;

/// Makes room for one more element, a sixteenth more at a time where `Vec` alone would double. Each element still moves at most
/// seventeen times on average however large the vector becomes.
pub fn reserve_one<T>(vec: &mut Vec<T>) {
    if vec.len() == vec.capacity() {
        vec.reserve_exact((vec.len() / 16).max(8));
    }
}

enum Place<V> {
    /// Names the next vacant place.
    Vacant(u32),
    Taken(V),
}

struct Slot<V> {
    /// Odd while the place is taken: the generation of its name.
    generation: u32,
    place: Place<V>,
}

/// Values under names that find nothing once their value is gone.
pub struct Slab<K: Key, V> {
    slots: Vec<Slot<V>>,
    vacant: u32,
    len: u32,
    key: PhantomData<fn() -> K>,
}

impl<K: Key, V> Default for Slab<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Key, V> fmt::Debug for Slab<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slab({})", self.len)
    }
}

impl<K: Key, V> Slab<K, V> {
    /// An empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self { slots: Vec::new(), vacant: NIL, len: 0, key: PhantomData }
    }

    /// Number of values.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// True when there is no value.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a value; its name. The place that was vacated last is taken first.
    ///
    /// # Panics
    /// Beyond 2^32 - 2 values; whatever peers or applications make is bounded far below.
    pub fn insert(&mut self, value: V) -> K {
        let index = if self.vacant == NIL {
            let index =
                u32::try_from(self.slots.len()).ok().filter(|&i| i < NIL - 1).expect("bounded owners");
            reserve_one(&mut self.slots);
            self.slots.push(Slot { generation: 1, place: Place::Taken(value) });
            index
        } else {
            let index = self.vacant;
            let slot = &mut self.slots[index as usize];
            if let Place::Vacant(next) = slot.place {
                self.vacant = next;
            }
            slot.generation |= 1;
            slot.place = Place::Taken(value);
            index
        };
        self.len += 1;
        name(index, self.slots[index as usize].generation)
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: K) -> Option<V> {
        let (index, generation) = parts(key)?;
        let slot = self.slots.get_mut(index).filter(|s| s.generation == generation)?;
        let Place::Taken(value) = core::mem::replace(&mut slot.place, Place::Vacant(self.vacant)) else {
            return None;
        };
        slot.generation = slot.generation.wrapping_add(1);
        self.vacant = index as u32;
        self.len -= 1;
        Some(value)
    }

    /// The value of this name.
    #[must_use]
    pub fn get(&self, key: K) -> Option<&V> {
        let (index, generation) = parts(key)?;
        match self.slots.get(index)? {
            Slot { generation: g, place: Place::Taken(value) } if *g == generation => Some(value),
            _ => None,
        }
    }

    /// The value of this name.
    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let (index, generation) = parts(key)?;
        match self.slots.get_mut(index)? {
            Slot { generation: g, place: Place::Taken(value) } if *g == generation => Some(value),
            _ => None,
        }
    }

    /// All values with their names, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> + '_ {
        self.slots.iter().enumerate().filter_map(|(index, slot)| match &slot.place {
            Place::Taken(value) => Some((name(index as u32, slot.generation), value)),
            Place::Vacant(_) => None,
        })
    }

    /// All values, in the order of their places.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> + '_ {
        self.slots.iter_mut().filter_map(|slot| match &mut slot.place {
            Place::Taken(value) => Some(value),
            Place::Vacant(_) => None,
        })
    }
}

/// Names count places from 1, since a name of 0 is nobody's.
fn name<K: Key>(index: u32, generation: u32) -> K {
    K::from(KeyData::from_ffi(u64::from(generation) << 32 | u64::from(index + 1)))
}

/// Place and generation; `None` for the name that is nobody's.
fn parts<K: Key>(key: K) -> Option<(usize, u32)> {
    let ffi = key.data().as_ffi();
    let index = (ffi as u32).checked_sub(1)?;
    Some((index as usize, (ffi >> 32) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SocketId;
    use proptest::prelude::*;
    use slotmap::SlotMap;

    #[test]
    fn a_full_table_costs_a_sixteenth_more_than_its_values() {
        let mut slab = Slab::<SocketId, [u64; 13]>::new();
        for i in 0..4_097 {
            slab.insert([i; 13]);
        }
        assert!(slab.slots.capacity() <= 4_097 * 17 / 16 + 1, "{}", slab.slots.capacity());
    }

    #[test]
    fn the_name_of_nobody_finds_nothing() {
        let mut slab = Slab::<SocketId, u32>::new();
        assert_eq!(slab.remove(SocketId::default()), None);
        slab.insert(7);
        assert_eq!(slab.get(SocketId::default()), None);
        assert_eq!(slab.get_mut(SocketId::default()), None);
    }

    proptest! {
        /// The names are those that slotmap gives, whose laws are known; journals name sockets by them.
        #[test]
        fn it_is_a_slot_map(steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..200)) {
            let (mut slab, mut model) = (Slab::<SocketId, usize>::new(), SlotMap::<SocketId, usize>::with_key());
            let mut names = Vec::new();
            for (step, (insert, pick)) in steps.into_iter().enumerate() {
                if insert || names.is_empty() {
                    let name = slab.insert(step);
                    prop_assert_eq!(name, model.insert(step));
                    names.push(name);
                } else {
                    // A name that was removed before finds nothing again.
                    let name = *pick.get(&names);
                    prop_assert_eq!(slab.remove(name), model.remove(name));
                }
                prop_assert_eq!(slab.len(), model.len());
                for &name in &names {
                    prop_assert_eq!(slab.get(name), model.get(name));
                    prop_assert_eq!(slab.get_mut(name), model.get_mut(name));
                }
                prop_assert!(slab.iter().eq(model.iter()));
            }
        }
    }
}
