//! What all lists of waiters here share.
use std::task::Waker;

/// How many may wait for one thing before all are woken, so that those of dropped futures go and the others come back: at first, and
/// at most. Each time it happens twice as many may, since those who come back would wake each other for ever.
pub(crate) const WAITERS: usize = 64;
pub(crate) const WAITERS_MAX: usize = 4_096;

/// True when both wake one task. `Waker::will_wake` alone says "no" of a waker and its clone where the compiler has put the
/// executor's table of functions into the program twice: every poll would leave one more waiter behind, and each of them is
/// a wake-up, so a poll, later.
pub(crate) fn same_task(a: &Waker, b: &Waker) -> bool {
    a.will_wake(b) || (a.data() == b.data() && a.vtable() == b.vtable())
}

/// How many more there must be room for in a list of `len` with this capacity, where all of it are to be woken now: the capacity is what
/// remembers how many may wait.
pub(crate) fn overflows(len: usize, capacity: usize) -> Option<usize> {
    (len >= capacity.clamp(WAITERS, WAITERS_MAX)).then(|| (2 * capacity).clamp(WAITERS, WAITERS_MAX))
}

/// So few have waited that a list of this capacity need not remember that there were more.
pub(crate) const fn is_spacious(woken: usize, capacity: usize) -> bool {
    capacity > WAITERS && woken <= WAITERS / 2
}

/// Who waits for one thing.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Vec<Waker>);

impl Waiters {
    /// Lets `waker` wait. Whom it gives are to be woken once no lock is held.
    #[must_use]
    pub(crate) fn wait(&mut self, waker: &Waker) -> Vec<Waker> {
        if self.0.iter().any(|waiting| same_task(waiting, waker)) {
            return Vec::new();
        }
        let more = overflows(self.0.len(), self.0.capacity());
        let woken = if more.is_some() { self.0.drain(..).collect() } else { Vec::new() };
        self.0.reserve(more.unwrap_or(1));
        self.0.push(waker.clone());
        woken
    }

    /// All of them, who do not wait any more.
    #[must_use]
    pub(crate) fn take(&mut self) -> Vec<Waker> {
        let woken: Vec<Waker> = self.0.drain(..).collect();
        if is_spacious(woken.len(), self.0.capacity()) {
            self.0 = Vec::new();
        }
        woken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::task::Wake;

    /// Each is somebody else.
    struct Task;
    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    fn tasks(count: usize) -> Vec<Waker> {
        (0..count).map(|_| Waker::from(Arc::new(Task))).collect()
    }

    #[test]
    fn however_many_wait_they_do_not_wake_each_other_for_ever() {
        let mut waiters = Waiters::default();
        let (mut polls, mut polled) = (0, tasks(WAITERS_MAX));
        while let Some(task) = polled.pop() {
            polled.extend(waiters.wait(&task));
            polls += 1;
        }
        assert!(polls < 3 * WAITERS_MAX, "{polls}");
        assert_eq!(waiters.take().len(), WAITERS_MAX);
        // What they left behind is not kept for those few who come later.
        assert!(waiters.wait(Waker::noop()).is_empty());
        assert_eq!(waiters.take().len(), 1);
        assert_eq!(waiters.0.capacity(), 0);
    }

    #[test]
    fn those_who_never_come_back_are_bounded() {
        let mut waiters = Waiters::default();
        for task in tasks(5 * WAITERS_MAX) {
            let _ = waiters.wait(&task);
            assert!(waiters.0.len() <= WAITERS_MAX && waiters.0.capacity() <= 2 * WAITERS_MAX);
        }
    }
}
