//! What all lists of waiters here share.
use std::task::Waker;

/// True when both wake one task. `Waker::will_wake` alone says "no" of a waker and its clone where the compiler has put the
/// executor's table of functions into the program twice: every poll would leave one more waiter behind, and each of them is
/// a wake-up, so a poll, later.
pub(crate) fn same_task(a: &Waker, b: &Waker) -> bool {
    a.will_wake(b) || (a.data() == b.data() && a.vtable() == b.vtable())
}
