//! File descriptors as packetdrill sees them: each is a real one of the kernel, so that numbers never collide and libc's close() of it succeeds.
use lowwater_posix::Fd;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd};
use std::collections::BTreeMap;

/// What the host is asked for a descriptor that it does not have: no host's table is so long.
const UNKNOWN: Fd = Fd::MAX;

/// The descriptors of the host by the kernel's number, and back.
#[derive(Debug, Default)]
pub(crate) struct Fds {
    by_kernel: BTreeMap<Fd, Entry>,
}

#[derive(Debug)]
struct Entry {
    host: Fd,
    /// An eventfd that nobody uses: it holds the number.
    reserved: OwnedFd,
}

impl Fds {
    /// Gives a descriptor of the host a number of the kernel; `None` when the process may not have more.
    pub(crate) fn adopt(&mut self, host: Fd) -> Option<Fd> {
        let reserved = eventfd(0, EventfdFlags::CLOEXEC).ok()?;
        let kernel = reserved.as_raw_fd();
        self.by_kernel.insert(kernel, Entry { host, reserved });
        Some(kernel)
    }

    /// The same for two, or for none of them.
    pub(crate) fn adopt_both(&mut self, one: Fd, other: Fd) -> Option<(Fd, Fd)> {
        let first = self.adopt(one)?;
        let second = self.adopt(other);
        if second.is_none() {
            self.release(first);
        }
        Some((first, second?))
    }

    /// The host's descriptor. Numbers below zero stay (poll() skips them); one that is not the host's becomes one that nobody has.
    pub(crate) fn host(&self, kernel: Fd) -> Fd {
        match self.by_kernel.get(&kernel) {
            Some(entry) => entry.host,
            None if kernel < 0 => kernel,
            None => UNKNOWN,
        }
    }

    /// The number belongs to the host.
    pub(crate) fn has(&self, kernel: Fd) -> bool {
        self.by_kernel.contains_key(&kernel)
    }

    /// Gives the number back to the kernel.
    pub(crate) fn release(&mut self, kernel: Fd) {
        self.by_kernel.remove(&kernel);
    }

    /// Leaves the numbers to the end of the process. Where libc's close() could not be redirected, they are closed already and may be
    /// those of other files.
    pub(crate) fn abandon(self) {
        for entry in self.by_kernel.into_values() {
            _ = entry.reserved.into_raw_fd();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_kernels_and_go_back_to_it() {
        let mut fds = Fds::default();
        let a = fds.adopt(3).unwrap();
        let b = fds.adopt(4).unwrap();
        assert_ne!(a, b);
        assert_eq!((fds.host(a), fds.host(b)), (3, 4));
        assert!(fds.has(a));
        fds.release(a);
        assert_eq!((fds.has(a), fds.host(a)), (false, UNKNOWN));
        assert_eq!(fds.host(-1), -1);
    }
}
