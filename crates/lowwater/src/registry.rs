//! Who waits for which socket: wakers by socket and direction, taken when they are woken.
use lowwater_core::base::SocketId;
use slotmap::SecondaryMap;
use smallvec::SmallVec;
use std::task::Waker;

/// Wakers that are to be woken once the lock is free.
pub(crate) type Wakes = SmallVec<[Waker; 4]>;

/// Waiters per socket and direction. Beyond it all are woken, so that those of dropped futures go; the others return.
const WAITERS_MAX: usize = 64;

/// What a waiter waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Data, a connection to accept, an end, an error.
    Read,
    /// Room, the end of a handshake, an error.
    Write,
}

#[derive(Debug, Default)]
struct Slot {
    read: SmallVec<[Waker; 1]>,
    write: SmallVec<[Waker; 1]>,
}

impl Slot {
    fn side(&mut self, side: Side) -> &mut SmallVec<[Waker; 1]> {
        match side {
            Side::Read => &mut self.read,
            Side::Write => &mut self.write,
        }
    }
}

/// The sockets that handles hold, and their waiters.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    slots: SecondaryMap<SocketId, Slot>,
}

impl Registry {
    /// A handle holds this socket from now on.
    pub(crate) fn insert(&mut self, id: SocketId) {
        self.slots.insert(id, Slot::default());
    }

    /// The handle is gone; whoever still waited is woken to find that out.
    pub(crate) fn remove(&mut self, id: SocketId, wakes: &mut Wakes) {
        self.wake_all(id, wakes);
        self.slots.remove(id);
    }

    /// Sockets that handles hold.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Their names.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SocketId> + '_ {
        self.slots.keys()
    }

    /// Lets `waker` wait. To be called under the lock under which the socket was found not ready, so that no edge is lost.
    pub(crate) fn wait(&mut self, id: SocketId, side: Side, waker: &Waker, wakes: &mut Wakes) {
        let Some(slot) = self.slots.get_mut(id) else { return wakes.push(waker.clone()) };
        let waiters = slot.side(side);
        if waiters.iter().any(|w| w.will_wake(waker)) {
            return;
        }
        if waiters.len() >= WAITERS_MAX {
            wakes.extend(waiters.drain(..));
        }
        waiters.push(waker.clone());
    }

    /// An edge: whoever waits is to be woken and must register anew.
    pub(crate) fn wake(&mut self, id: SocketId, side: Side, wakes: &mut Wakes) {
        if let Some(slot) = self.slots.get_mut(id) {
            wakes.extend(slot.side(side).drain(..));
        }
    }

    /// An edge in both directions.
    pub(crate) fn wake_all(&mut self, id: SocketId, wakes: &mut Wakes) {
        self.wake(id, Side::Read, wakes);
        self.wake(id, Side::Write, wakes);
    }

    /// The stack has stopped: nobody waits any more.
    pub(crate) fn wake_everybody(&mut self, wakes: &mut Wakes) {
        for slot in self.slots.values_mut() {
            wakes.extend(slot.read.drain(..).chain(slot.write.drain(..)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slotmap::SlotMap;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn waiters_merge_and_are_taken_once() {
        let mut names = SlotMap::<SocketId, ()>::with_key();
        let (mut registry, mut wakes, id) = (Registry::default(), Wakes::new(), names.insert(()));
        registry.insert(id);
        let count = Arc::new(Count::default());
        let waker = Waker::from(count);
        registry.wait(id, Side::Read, &waker, &mut wakes);
        registry.wait(id, Side::Read, &waker, &mut wakes);
        registry.wake(id, Side::Write, &mut wakes);
        assert!(wakes.is_empty());
        registry.wake_all(id, &mut wakes);
        registry.wake_all(id, &mut wakes);
        assert_eq!(wakes.len(), 1);
    }

    #[test]
    fn the_number_of_waiters_is_bounded() {
        let mut names = SlotMap::<SocketId, ()>::with_key();
        let (mut registry, mut wakes, id) = (Registry::default(), Wakes::new(), names.insert(()));
        registry.insert(id);
        for _ in 0..=WAITERS_MAX {
            registry.wait(id, Side::Read, &Waker::from(Arc::new(Count::default())), &mut wakes);
        }
        assert_eq!(wakes.len(), WAITERS_MAX);
    }

    #[test]
    fn a_waiter_on_a_stale_name_is_woken_at_once() {
        let mut names = SlotMap::<SocketId, ()>::with_key();
        let (mut registry, mut wakes, id) = (Registry::default(), Wakes::new(), names.insert(()));
        registry.wait(id, Side::Read, Waker::noop(), &mut wakes);
        assert_eq!(wakes.len(), 1);
    }
}
