//! Steps of walks whose length the number of sockets might decide. Unit tests count them; elsewhere they cost nothing.

/// One step of a walk.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn step() {}

#[cfg(test)]
pub(crate) use counted::{of, step};

#[cfg(test)]
mod counted {
    use core::cell::Cell;

    thread_local! {
        static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    /// One step of a walk.
    pub(crate) fn step() {
        STEPS.set(STEPS.get() + 1);
    }

    /// Steps that `work` takes.
    pub(crate) fn of<T>(work: impl FnOnce() -> T) -> u64 {
        let before = STEPS.get();
        work();
        STEPS.get() - before
    }
}
