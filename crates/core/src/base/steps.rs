//! Steps of walks whose length a peer or a loss decides. Unit tests count them, so that a bound on work is held by a number and
//! not by a time; elsewhere they cost nothing.

/// What a module counts steps with: `step()` in a walk, and in the unit tests of the crate that the module belongs to `of(work)`, which tells
/// how many there were.
#[doc(hidden)]
#[macro_export]
macro_rules! count_steps {
    () => {
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
    };
}

count_steps!();
