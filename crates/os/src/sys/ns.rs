//! Leaving a network namespace for a new one.
use rustix::io;
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Moves the calling thread into a new network namespace.
pub(crate) fn unshare_net() -> io::Result<()> {
    // SAFETY: the call is dangerous only with `FILES`, which splits the table of descriptors between threads; `NEWNET`
    // changes nothing but the namespace in which this thread makes sockets.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
}
