//! A hierarchical timing wheel over nanoseconds that fires every entry exactly at its deadline, in order.
//!
//! Eleven levels of 64 slots cover all 64 bits. An entry lives on the level of the highest 6-bit digit in which its deadline
//! differs from the wheel's time, in the slot of that digit (Varghese and Lauck, "Hashed and hierarchical timing wheels",
//! scheme 7). It follows that no slot ever wraps, that everything on a lower level is due before anything on a higher one,
//! and that a slot of level 0 holds one single deadline. When time enters a slot of a higher level its entries move down in
//! list order, so equal deadlines stay in order of insertion.
use crate::base::Instant;
use crate::base::slab::reserve_one;
use core::num::NonZeroU32;

const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 11;
const NIL: u32 = u32::MAX;
const FIRST_GENERATION: NonZeroU32 = NonZeroU32::MIN;

/// The name of an entry. A name that outlived its entry finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    index: u32,
    generation: NonZeroU32,
}

/// One entry, or one link of the free list (then `slot` is `FREE`).
#[derive(Debug)]
struct Node<K> {
    deadline: u64,
    key: K,
    next: u32,
    prev: u32,
    generation: NonZeroU32,
    slot: u16,
}

const FREE: u16 = u16::MAX;

/// The list of one slot; `min` is at or before the earliest deadline in it.
#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    tail: u32,
    min: u64,
}

const EMPTY: Slot = Slot { head: NIL, tail: NIL, min: u64::MAX };

/// Deadlines with a key each. All operations cost O(levels) or less, amortised.
#[derive(Debug)]
pub struct Wheel<K: Copy> {
    nodes: Vec<Node<K>>,
    free: u32,
    len: u32,
    /// The wheel's time in nanoseconds; nothing armed is earlier.
    elapsed: u64,
    /// Bit per level that holds an entry.
    levels: u16,
    /// Bit per slot that holds an entry.
    occupied: [u64; LEVELS],
    slots: Box<[Slot]>,
}

impl<K: Copy> Default for Wheel<K> {
    fn default() -> Self {
        Self::new(Instant::ZERO)
    }
}

impl<K: Copy> Wheel<K> {
    /// An empty wheel at `now`.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            nodes: Vec::new(),
            free: NIL,
            len: 0,
            elapsed: now.as_nanos(),
            levels: 0,
            occupied: [0; LEVELS],
            slots: vec![EMPTY; LEVELS * SLOTS].into_boxed_slice(),
        }
    }

    /// Number of entries armed.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// True when nothing is armed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The wheel's time: the last `now` it was advanced to, or the deadline of the entry that fired last.
    #[must_use]
    pub const fn time(&self) -> Instant {
        Instant::from_nanos(self.elapsed)
    }

    /// Arms `key` for `deadline`. A deadline before [`Wheel::time`] counts as being at that time.
    ///
    /// # Panics
    /// Beyond 2^32 - 1 entries; owners (sockets, requests, neighbours) are bounded far below.
    pub fn insert(&mut self, deadline: Instant, key: K) -> Entry {
        let deadline = deadline.as_nanos().max(self.elapsed);
        let index = if self.free == NIL {
            let index = u32::try_from(self.nodes.len()).ok().filter(|&i| i != NIL).expect("bounded owners");
            reserve_one(&mut self.nodes);
            self.nodes.push(Node {
                deadline,
                key,
                next: NIL,
                prev: NIL,
                generation: FIRST_GENERATION,
                slot: FREE,
            });
            index
        } else {
            let index = self.free;
            let node = &mut self.nodes[index as usize];
            self.free = node.next;
            node.deadline = deadline;
            node.key = key;
            index
        };
        self.len += 1;
        self.link(index);
        Entry { index, generation: self.nodes[index as usize].generation }
    }

    /// Disarms `entry`; its key and deadline, or `None` when it has fired or was removed before. O(1).
    pub fn remove(&mut self, entry: Entry) -> Option<(K, Instant)> {
        let node = self.nodes.get(entry.index as usize)?;
        if node.generation != entry.generation || node.slot == FREE {
            return None;
        }
        let found = (node.key, Instant::from_nanos(node.deadline));
        self.unlink(entry.index);
        self.release(entry.index);
        Some(found)
    }

    /// When `entry` will fire; `None` when its name is stale.
    #[must_use]
    pub fn deadline(&self, entry: Entry) -> Option<Instant> {
        let node = self.nodes.get(entry.index as usize)?;
        (node.generation == entry.generation && node.slot != FREE).then(|| Instant::from_nanos(node.deadline))
    }

    /// When to call [`Wheel::pop_expired`] next; never later than the earliest deadline.
    ///
    /// Exact as long as nothing was removed. After a removal it may name the deadline of the removed entry: the call at that
    /// instant returns nothing and makes the answer exact again.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.first_slot().map(|(_, slot)| Instant::from_nanos(self.slots[slot].min))
    }

    /// The earliest entry with `deadline <= now`, disarmed; `None` moves the wheel's time to `now`.
    ///
    /// Entries come in the order of their deadlines, equal ones in order of insertion, those inserted between two calls
    /// included.
    pub fn pop_expired(&mut self, now: Instant) -> Option<(K, Instant)> {
        let now = now.as_nanos();
        while let Some((level, slot)) = self.first_slot() {
            let start = self.slot_start(level, slot);
            if start > now {
                break;
            }
            // A later start than the wheel's time means that time enters this slot; on level 0 it may be there already.
            self.elapsed = self.elapsed.max(start);
            if level == 0 {
                let index = self.slots[slot].head;
                self.unlink(index);
                let node = &self.nodes[index as usize];
                let fired = (node.key, Instant::from_nanos(node.deadline));
                self.release(index);
                return Some(fired);
            }
            self.cascade(slot);
        }
        self.elapsed = self.elapsed.max(now);
        None
    }

    /// The lowest level in use with its first slot in use, the latter as an index into `slots`.
    fn first_slot(&self) -> Option<(usize, usize)> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        Some((level, level * SLOTS + self.occupied[level].trailing_zeros() as usize))
    }

    /// The first nanosecond of a slot: the wheel's time with that digit replaced and the lower ones cleared.
    const fn slot_start(&self, level: usize, slot: usize) -> u64 {
        let shift = DIGIT_BITS * level as u32;
        let digit = ((slot % SLOTS) as u64) << shift;
        match self.elapsed.checked_shr(shift + DIGIT_BITS) {
            // The top level has no digit above it.
            None => digit,
            Some(above) => (above << (shift + DIGIT_BITS)) | digit,
        }
    }

    /// Moves the entries of a slot that time has entered to lower levels.
    fn cascade(&mut self, slot: usize) {
        let mut index = self.slots[slot].head;
        self.clear(slot);
        while index != NIL {
            let next = self.nodes[index as usize].next;
            self.link(index);
            index = next;
        }
    }

    /// Appends a node to the slot that its deadline belongs to at the wheel's time.
    fn link(&mut self, index: u32) {
        let deadline = self.nodes[index as usize].deadline;
        let differing = deadline ^ self.elapsed;
        let level = (63 - (differing | 1).leading_zeros()) / DIGIT_BITS;
        let digit = (deadline >> (level * DIGIT_BITS)) as usize % SLOTS;
        let level = level as usize;
        let slot = level * SLOTS + digit;
        let tail = self.slots[slot].tail;
        {
            let node = &mut self.nodes[index as usize];
            node.slot = slot as u16;
            node.prev = tail;
            node.next = NIL;
        }
        if tail == NIL {
            self.slots[slot].head = index;
        } else {
            self.nodes[tail as usize].next = index;
        }
        self.slots[slot].tail = index;
        self.slots[slot].min = self.slots[slot].min.min(deadline);
        self.occupied[level] |= 1 << digit;
        self.levels |= 1 << level;
    }

    fn unlink(&mut self, index: u32) {
        let node = &self.nodes[index as usize];
        let (prev, next, slot) = (node.prev, node.next, usize::from(node.slot));
        if prev == NIL {
            self.slots[slot].head = next;
        } else {
            self.nodes[prev as usize].next = next;
        }
        if next == NIL {
            self.slots[slot].tail = prev;
        } else {
            self.nodes[next as usize].prev = prev;
        }
        if self.slots[slot].head == NIL {
            self.clear(slot);
        }
    }

    fn clear(&mut self, slot: usize) {
        let level = slot / SLOTS;
        self.slots[slot] = EMPTY;
        self.occupied[level] &= !(1 << (slot % SLOTS));
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
        }
    }

    /// Puts an unlinked node on the free list and makes its name stale.
    fn release(&mut self, index: u32) {
        let node = &mut self.nodes[index as usize];
        node.slot = FREE;
        node.generation = node.generation.checked_add(1).unwrap_or(FIRST_GENERATION);
        node.next = self.free;
        self.free = index;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests;
