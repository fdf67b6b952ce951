//! Descriptors in the wait of a tokio runtime.
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Watches a descriptor for input.
pub(crate) fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open and stays what it is until it is dropped, which is what drops the registration too; whoever
    // has the result by reference cannot close it.
    let watched = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    watched.map_err(io::Error::from)
}
