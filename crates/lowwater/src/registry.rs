//! Who waits for which socket: wakers by socket and direction, taken when they are woken.
use crate::waiters::{is_spacious, overflows, same_task};
use lowwater_core::base::SocketId;
use lowwater_core::base::slab::reserve_one;
use slotmap::{Key as _, KeyData};
use smallvec::SmallVec;
use std::task::Waker;

/// Wakers that are to be woken once the lock is free. They have left the registry, so nobody else would: also where the
/// program's code panics in between (an observer, a device, another waker), this wakes them when it goes.
#[derive(Default)]
pub(crate) struct Wakes(SmallVec<[Waker; 4]>);

impl Wakes {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn push(&mut self, waker: Waker) {
        self.0.push(waker);
    }

    pub(crate) fn extend(&mut self, wakers: impl IntoIterator<Item = Waker>) {
        self.0.extend(wakers);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Wakes all of them, in their order. To be called without the stack's lock, which whoever is woken wants.
    pub(crate) fn wake(&mut self) {
        self.0.reverse();
        while let Some(waker) = self.0.pop() {
            waker.wake();
        }
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        self.wake();
    }
}

/// What a waiter waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Data, a connection to accept, an end, an error.
    Read,
    /// Room, the end of a handshake, an error.
    Write,
}

/// One place, in the order of the sockets' own table: sockets come and go there, so a place says whose it is.
#[derive(Debug, Default)]
struct Slot {
    /// The generation of the socket's name; 0 while no handle holds one here.
    generation: u32,
    /// A task that reads is usual, one that writes beside it is not.
    waiting: SmallVec<[(Side, Waker); 1]>,
}

impl Slot {
    fn wake(&mut self, side: Side, wakes: &mut Wakes) {
        let mut kept = 0;
        for i in 0..self.waiting.len() {
            if self.waiting[i].0 != side {
                self.waiting.swap(kept, i);
                kept += 1;
            }
        }
        let woken = self.waiting.len() - kept;
        wakes.extend(self.waiting.drain(kept..).map(|(_, waker)| waker));
        if is_spacious(woken + kept, self.waiting.capacity()) {
            self.waiting.shrink_to_fit();
        }
    }
}

/// The sockets that handles hold, and their waiters.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    slots: Vec<Slot>,
    len: usize,
    /// Closed by the end of the stack.
    shut: Vec<SocketId>,
}

/// Place and generation of a name.
fn parts(id: SocketId) -> (usize, u32) {
    let ffi = id.data().as_ffi();
    ((ffi as u32) as usize, (ffi >> 32) as u32)
}

impl Registry {
    /// A handle holds this socket from now on.
    pub(crate) fn insert(&mut self, id: SocketId) {
        let (index, generation) = parts(id);
        while self.slots.len() <= index {
            reserve_one(&mut self.slots);
            self.slots.push(Slot::default());
        }
        let slot = &mut self.slots[index];
        self.len += usize::from(slot.generation == 0);
        slot.generation = generation;
    }

    /// The handle is gone; whoever still waited is woken to find that out.
    pub(crate) fn remove(&mut self, id: SocketId, wakes: &mut Wakes) {
        self.wake_all(id, wakes);
        if let Some(slot) = self.slot(id) {
            *slot = Slot::default();
            self.len -= 1;
        }
    }

    /// The end of the stack has closed these, whoever still holds them.
    pub(crate) fn shut(&mut self, ids: Vec<SocketId>) {
        self.shut = ids;
    }

    /// Sockets that handles hold and that the end of the stack has not closed.
    pub(crate) fn open(&self) -> usize {
        let held = |&&id: &&SocketId| {
            let (index, generation) = parts(id);
            self.slots.get(index).is_some_and(|slot| slot.generation == generation)
        };
        self.len - self.shut.iter().filter(held).count()
    }

    /// Their names.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SocketId> + '_ {
        let held = self.slots.iter().enumerate().filter(|(_, slot)| slot.generation != 0);
        held.map(|(index, slot)| KeyData::from_ffi(u64::from(slot.generation) << 32 | index as u64).into())
    }

    fn slot(&mut self, id: SocketId) -> Option<&mut Slot> {
        let (index, generation) = parts(id);
        self.slots.get_mut(index).filter(|slot| slot.generation == generation)
    }

    /// Lets `waker` wait. To be called under the lock under which the socket was found not ready, so that no edge is lost.
    pub(crate) fn wait(&mut self, id: SocketId, side: Side, waker: &Waker, wakes: &mut Wakes) {
        let Some(slot) = self.slot(id) else { return wakes.push(waker.clone()) };
        if slot.waiting.iter().any(|(of, w)| *of == side && same_task(w, waker)) {
            return;
        }
        if let Some(more) = overflows(slot.waiting.len(), slot.waiting.capacity()) {
            wakes.extend(slot.waiting.drain(..).map(|(_, waker)| waker));
            slot.waiting.reserve(more);
        }
        slot.waiting.push((side, waker.clone()));
    }

    /// An edge: whoever waits is to be woken and must register anew.
    pub(crate) fn wake(&mut self, id: SocketId, side: Side, wakes: &mut Wakes) {
        if let Some(slot) = self.slot(id) {
            slot.wake(side, wakes);
        }
    }

    /// An edge in both directions.
    pub(crate) fn wake_all(&mut self, id: SocketId, wakes: &mut Wakes) {
        self.wake(id, Side::Read, wakes);
        self.wake(id, Side::Write, wakes);
    }

    /// The stack has stopped: nobody waits any more.
    pub(crate) fn wake_everybody(&mut self, wakes: &mut Wakes) {
        for slot in &mut self.slots {
            wakes.extend(slot.waiting.drain(..).map(|(_, waker)| waker));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiters::WAITERS;
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
        assert_eq!(wakes.0.len(), 1);
    }

    /// The root task of this runtime is one whose waker and its clone `Waker::will_wake` tells apart in some builds.
    #[cfg(feature = "tokio")]
    #[tokio::test]
    async fn a_task_that_polls_again_waits_once() {
        let mut names = SlotMap::<SocketId, ()>::with_key();
        let (mut registry, mut wakes, id) = (Registry::default(), Wakes::new(), names.insert(()));
        registry.insert(id);
        let waker = std::future::poll_fn(|cx| std::task::Poll::Ready(cx.waker().clone())).await;
        std::future::poll_fn(|cx| {
            registry.wait(id, Side::Read, &waker, &mut wakes);
            registry.wait(id, Side::Read, cx.waker(), &mut wakes);
            registry.wait(id, Side::Read, &cx.waker().clone(), &mut wakes);
            std::task::Poll::Ready(())
        })
        .await;
        registry.wake(id, Side::Read, &mut wakes);
        assert_eq!(wakes.0.len(), 1);
    }

    #[test]
    fn the_number_of_waiters_is_bounded_and_who_comes_back_may_stay() {
        let mut names = SlotMap::<SocketId, ()>::with_key();
        let (mut registry, mut wakes, id) = (Registry::default(), Wakes::new(), names.insert(()));
        registry.insert(id);
        let tasks: Vec<Waker> = (0..1_000).map(|_| Waker::from(Arc::new(Count::default()))).collect();
        for task in &tasks[..=WAITERS] {
            registry.wait(id, Side::Read, task, &mut wakes);
        }
        assert_eq!(wakes.0.len(), WAITERS);
        let (mut polls, mut polled) = (0, tasks);
        while let Some(task) = polled.pop() {
            let side = if polls % 2 == 0 { Side::Read } else { Side::Write };
            registry.wait(id, side, &task, &mut wakes);
            polled.extend(wakes.0.drain(..));
            polls += 1;
        }
        assert!(polls < 3_000, "{polls}");
        registry.wake_all(id, &mut wakes);
        assert!(wakes.0.len() >= 1_000);
        registry.wait(id, Side::Read, &wakes.0[0].clone(), &mut wakes);
        registry.wake(id, Side::Read, &mut wakes);
        assert!(!registry.slot(id).expect("it is there").waiting.spilled(), "what many needed is given back");
    }

    #[test]
    fn a_name_that_came_later_in_the_same_place_is_another_socket() {
        let (mut registry, mut wakes) = (Registry::default(), Wakes::new());
        let mut names = SlotMap::<SocketId, ()>::with_key();
        let old = names.insert(());
        registry.insert(old);
        registry.remove(old, &mut wakes);
        names.remove(old);
        let new = names.insert(());
        registry.insert(new);
        registry.wait(new, Side::Read, Waker::noop(), &mut wakes);
        registry.wake_all(old, &mut wakes);
        registry.remove(old, &mut wakes);
        assert!(wakes.is_empty() && registry.len == 1 && registry.ids().eq([new]));
    }

    #[test]
    fn a_waiter_on_a_stale_name_is_woken_at_once() {
        let mut names = SlotMap::<SocketId, ()>::with_key();
        let (mut registry, mut wakes, id) = (Registry::default(), Wakes::new(), names.insert(()));
        registry.wait(id, Side::Read, Waker::noop(), &mut wakes);
        assert_eq!(wakes.0.len(), 1);
    }

    /// A task whose waker panics.
    struct Fails;
    impl Wake for Fails {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new(()));
        }
    }

    #[test]
    fn what_unwinds_leaves_nobody_asleep() {
        let count = Arc::new(Count::default());
        let two = || [Waker::from(count.clone()), Waker::from(count.clone())];
        let woken = |f: &dyn Fn(&mut Wakes)| {
            let before = count.0.load(Ordering::Relaxed);
            let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let mut wakes = Wakes::new();
                f(&mut wakes);
            }));
            assert!(unwound.is_err());
            count.0.load(Ordering::Relaxed) - before
        };
        let before_they_are = |wakes: &mut Wakes| {
            wakes.extend(two());
            std::panic::resume_unwind(Box::new(()));
        };
        assert_eq!(woken(&before_they_are), 2);
        let meanwhile = |wakes: &mut Wakes| {
            let [first, last] = two();
            wakes.extend([first, Waker::from(Arc::new(Fails)), last]);
            wakes.wake();
        };
        assert_eq!(woken(&meanwhile), 2);
    }
}
