//! Packets of a queue in places that serve again, chained by their indices: no packet that comes or goes allocates.
use super::look::Size;
use crate::base::Instant;
use crate::packet::Packet;

/// No place.
pub(super) const NIL: u32 = u32::MAX;

/// A packet that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) packet: Packet,
    pub(super) size: Size,
    /// What the discipline wants to know at its turn: when it came, or when it may go.
    pub(super) at: Instant,
}

#[derive(Debug)]
struct Slot {
    waiting: Option<Waiting>,
    prev: u32,
    next: u32,
}

/// A queue through a [`Store`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    head: u32,
    tail: u32,
    len: u32,
    bytes: u64,
}

impl Default for Chain {
    fn default() -> Self {
        Self { head: NIL, tail: NIL, len: 0, bytes: 0 }
    }
}

impl Chain {
    pub(super) const fn len(&self) -> u32 {
        self.len
    }
    /// Bytes on the wire of all its packets.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The places of all queues of one discipline. It grows to the largest number that ever waited, which the discipline bounds.
#[derive(Debug)]
pub(super) struct Store {
    slots: Vec<Slot>,
    free: u32,
}

impl Default for Store {
    fn default() -> Self {
        Self { slots: Vec::new(), free: NIL }
    }
}

impl Store {
    fn place(&mut self, waiting: Waiting) -> u32 {
        if self.free == NIL {
            self.slots.push(Slot { waiting: Some(waiting), prev: NIL, next: NIL });
            return (self.slots.len() - 1) as u32;
        }
        let at = self.free;
        let slot = &mut self.slots[at as usize];
        self.free = slot.next;
        *slot = Slot { waiting: Some(waiting), prev: NIL, next: NIL };
        at
    }

    /// Puts a packet at the end.
    pub(super) fn push_back(&mut self, chain: &mut Chain, waiting: Waiting) {
        let after = chain.tail;
        self.insert_after(chain, after, waiting);
    }

    /// Puts a packet behind the last one whose time is not later. Only packets with later times are passed on the way.
    pub(super) fn push_by_time(&mut self, chain: &mut Chain, waiting: Waiting) {
        let mut after = chain.tail;
        while after != NIL && self.time(after) > waiting.at {
            after = self.slots[after as usize].prev;
        }
        self.insert_after(chain, after, waiting);
    }

    fn time(&self, at: u32) -> Instant {
        self.slots[at as usize].waiting.as_ref().map_or(Instant::ZERO, |w| w.at)
    }

    /// `after` is [`NIL`] for the front.
    fn insert_after(&mut self, chain: &mut Chain, after: u32, waiting: Waiting) {
        chain.len += 1;
        chain.bytes += u64::from(waiting.size.len);
        let at = self.place(waiting);
        let next = if after == NIL { chain.head } else { self.slots[after as usize].next };
        self.slots[at as usize].prev = after;
        self.slots[at as usize].next = next;
        match after {
            NIL => chain.head = at,
            _ => self.slots[after as usize].next = at,
        }
        match next {
            NIL => chain.tail = at,
            _ => self.slots[next as usize].prev = at,
        }
    }

    /// The packet whose turn is next.
    pub(super) fn front(&self, chain: &Chain) -> Option<&Waiting> {
        self.slots.get(chain.head as usize)?.waiting.as_ref()
    }

    /// Takes the packet whose turn is next.
    pub(super) fn pop_front(&mut self, chain: &mut Chain) -> Option<Waiting> {
        let at = chain.head;
        let slot = self.slots.get_mut(at as usize)?;
        let waiting = slot.waiting.take()?;
        chain.head = slot.next;
        slot.next = self.free;
        self.free = at;
        match chain.head {
            NIL => chain.tail = NIL,
            head => self.slots[head as usize].prev = NIL,
        }
        chain.len -= 1;
        chain.bytes -= u64::from(waiting.size.len);
        Some(waiting)
    }

    /// Shows every packet, in the order of the places.
    pub(super) fn each(&self, f: &mut dyn FnMut(&Packet)) {
        self.slots.iter().filter_map(|s| s.waiting.as_ref()).for_each(|w| f(&w.packet));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Offload;
    use bytes::Bytes;

    fn waiting(at: u64, len: u32) -> Waiting {
        let packet = Packet::received(Bytes::from(vec![0; len as usize]), Offload::default(), Instant::ZERO);
        Waiting { size: Size::of(&packet), packet, at: Instant::from_nanos(at) }
    }

    #[test]
    fn packets_leave_by_their_time_and_places_serve_again() {
        let (mut store, mut chain) = (Store::default(), Chain::default());
        for round in 0..3 {
            for (at, len) in [(5, 1), (7, 2), (6, 3), (5, 4), (1, 5), (9, 6)] {
                store.push_by_time(&mut chain, waiting(at, len));
            }
            assert_eq!((chain.len(), chain.bytes), (6, 21));
            let order: Vec<u32> =
                core::iter::from_fn(|| store.pop_front(&mut chain)).map(|w| w.size.len).collect();
            assert_eq!(order, [5, 1, 4, 3, 2, 6], "equal times keep their order");
            assert_eq!((store.slots.len(), chain.len(), chain.bytes), (6, 0, 0), "round {round}");
        }
    }
}
