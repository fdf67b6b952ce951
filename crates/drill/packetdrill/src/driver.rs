//! The thread that drives the clock, as the others see it: what it does, and when it has gone elsewhere.
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

/// Looks from outside at the driving thread, by atomics: it never waits for them.
#[derive(Debug)]
pub(crate) struct Driver {
    tid: AtomicI32,
    /// Verbs that it has begun.
    verbs: AtomicU64,
    /// When it was here last, in nanoseconds of the real clock; 0 for never.
    left: AtomicU64,
}

impl Driver {
    pub(crate) const fn new() -> Self {
        Self { tid: AtomicI32::new(0), verbs: AtomicU64::new(0), left: AtomicU64::new(0) }
    }

    /// The calling thread is it.
    pub(crate) fn is_this(&self) {
        self.tid.store(this_thread(), Ordering::Relaxed);
    }

    /// It begins a verb: how long it was elsewhere.
    pub(crate) fn comes(&self) -> Duration {
        self.verbs.fetch_add(1, Ordering::Relaxed);
        match self.left.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            left => Duration::from_nanos(real_ns().saturating_sub(left)),
        }
    }

    /// It has ended a verb.
    pub(crate) fn leaves(&self) {
        self.left.store(real_ns(), Ordering::Relaxed);
    }

    /// Verbs that it has begun.
    pub(crate) fn verbs(&self) -> u64 {
        self.verbs.load(Ordering::Relaxed)
    }

    /// It waits for another thread, in futex(2): not for a command of the script, and not for a processor. False where that cannot be seen.
    pub(crate) fn waits(&self) -> bool {
        waits_for_another(self.tid.load(Ordering::Relaxed)) == Some(true)
    }
}

/// The calling thread's number.
pub(crate) fn this_thread() -> i32 {
    gettid().as_raw_nonzero().get()
}

/// A thread of this process waits for another one, in futex(2); `None` where that cannot be seen, as of a thread that has ended.
pub(crate) fn waits_for_another(tid: i32) -> Option<bool> {
    let call = fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).ok()?;
    let number = call.split_whitespace().next()?.parse();
    Some(number == Ok(libc::SYS_futex))
}

fn real_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    #[test]
    fn a_thread_that_waits_for_another_is_seen_and_one_that_sleeps_is_not() {
        let (driver, barrier) = (Driver::new(), Barrier::new(2));
        driver.is_this();
        assert!(!driver.waits(), "it reads a file now");
        thread::scope(|s| {
            s.spawn(|| {
                // However slow the machine is, it waits at the barrier one day.
                while !driver.waits() {
                    thread::yield_now();
                }
                barrier.wait();
            });
            barrier.wait();
        });
        assert_eq!((driver.comes(), driver.verbs()), (Duration::ZERO, 1));
    }
}
