//! File descriptors as packetdrill sees them: each is a real one of the kernel, so that numbers never collide and libc's close() of it succeeds.
use lowwater_posix::Fd;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd};
use rustix::io::fcntl_dupfd_cloexec;
use std::collections::BTreeMap;
use std::fs;

/// What the host is asked for a descriptor that it does not have: no host's table is so long.
const UNKNOWN: Fd = Fd::MAX;

/// The first number that is no standard stream's.
const FIRST: Fd = 3;
/// What the kernel calls a reserved descriptor.
const RESERVED: &str = "anon_inode:[eventfd]";

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
        let mut reserved = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        // Where a standard stream is closed, what is written to it must not come here.
        if reserved.as_raw_fd() < FIRST {
            reserved = fcntl_dupfd_cloexec(&reserved, FIRST).ok()?;
        }
        let kernel = reserved.as_raw_fd();
        // Who has had this number before was closed behind our back, and must not be closed once more: the number is another's now.
        if let Some(gone) = self.by_kernel.insert(kernel, Entry { host, reserved }) {
            _ = gone.reserved.into_raw_fd();
        }
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

    /// Gives back what is left: packetdrill closes sockets at the end of a script, but no pipes and no epoll sets. Where libc's close() could not be
    /// redirected, numbers are closed already and may be those of other files, which stay.
    pub(crate) fn end(self) {
        for (number, entry) in self.by_kernel {
            let file = fs::read_link(format!("/proc/self/fd/{number}")).unwrap_or_default();
            if file.as_os_str() != RESERVED {
                _ = entry.reserved.into_raw_fd();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem;

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

    #[test]
    fn the_end_leaves_files_of_others() {
        let mut fds = Fds::default();
        let theirs = fds.adopt(4).unwrap();
        let file = fs::File::open("/proc/self/stat").unwrap();
        // The number was closed behind our back, and is that of a file now.
        let entry = fds.by_kernel.get_mut(&theirs).unwrap();
        let old = mem::replace(&mut entry.reserved, file.into());
        let number = entry.reserved.as_raw_fd();
        drop(old);
        let entry = fds.by_kernel.remove(&theirs).unwrap();
        fds.by_kernel.insert(number, entry);
        fds.end();
        assert!(fs::read_link(format!("/proc/self/fd/{number}")).is_ok());
    }
}
