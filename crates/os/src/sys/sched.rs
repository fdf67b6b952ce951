//! The scheduling policy of the calling thread.
use rustix::io::{Errno, Result};

/// Gives the calling thread SCHED_FIFO with the lowest of its priorities; what it starts has the usual policy.
pub(crate) fn first_in_first_out() -> Result<()> {
    let param = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the kernel reads one `sched_param` during the call, and 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const param) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::PERM)),
    }
}
