//! Network namespaces of their own for tests and experiments, and the question whether they can be had.
use crate::error::SetupError;
use crate::netlink::Link;
use crate::sys;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::io;
use std::thread;

/// Set to 1 where tests must not skip what needs privileges.
pub const REQUIRE_NET: &str = "LOWWATER_REQUIRE_NET";

/// A fresh network namespace with `lo` up. It ends, with its devices, when the `NetNs` is dropped and nothing that was
/// started or opened in it is left.
#[derive(Debug)]
pub struct NetNs {
    fd: OwnedFd,
}

impl NetNs {
    /// A new namespace; the calling thread stays where it is.
    ///
    /// # Errors
    /// [`SetupError::NotPermitted`] without CAP_SYS_ADMIN; [`SetupError::Os`] when no thread or descriptor is to be had.
    pub fn new() -> Result<Self, SetupError> {
        // The thread ends inside the new namespace, so that no other code ever runs there by accident.
        let fd = on_thread(|| {
            sys::unshare_net().map_err(refused)?;
            Link::by_name("lo")?.up()?;
            own_namespace()
        })?;
        Ok(Self { fd })
    }

    /// Runs `f` on a thread inside the namespace and returns its result; a panic passes through. Sockets, devices,
    /// threads and processes that `f` makes belong to the namespace and stay in it.
    ///
    /// Note that /sys shows the namespace in which it was mounted, and /proc/net that of the process's first thread:
    /// read /proc/thread-self/net.
    ///
    /// # Panics
    /// When no thread can be started or the namespace cannot be entered.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        on_thread(|| {
            self.enter().expect("enter a network namespace that this process made");
            f()
        })
    }

    /// Moves the calling thread into the namespace, for good.
    ///
    /// # Errors
    /// When the process has lost CAP_SYS_ADMIN.
    pub fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.fd.as_fd(), Some(LinkNameSpaceType::Network))?)
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether this process can make namespaces and devices in them; otherwise what it lacks, to follow "needs".
///
/// # Errors
/// The missing thing as text, for example "root (making a network namespace needs CAP_SYS_ADMIN: ...)".
pub fn can_net_admin() -> Result<(), String> {
    let ns = NetNs::new().map_err(|e| format!("root ({e})"))?;
    ns.run(|| crate::tun::Tun::open(&crate::tun::TunOptions::new("")))
        .map(drop)
        .map_err(|e| format!("root and /dev/net/tun ({e})"))
}

/// The guard of tests that need namespaces: true when they can run; otherwise prints "skipped: needs ...", and panics
/// when the environment says `LOWWATER_REQUIRE_NET=1`.
///
/// # Panics
/// When skipping is forbidden.
#[must_use]
pub fn net_admin() -> bool {
    let Err(lack) = can_net_admin() else { return true };
    assert!(
        std::env::var_os(REQUIRE_NET).is_none_or(|v| v != "1"),
        "{REQUIRE_NET}=1, but this test needs {lack}"
    );
    eprintln!("skipped: needs {lack}");
    false
}

fn refused(errno: Errno) -> SetupError {
    let doing = "making a network namespace";
    match errno {
        Errno::PERM => SetupError::NotPermitted { doing: doing.into(), capability: "CAP_SYS_ADMIN" },
        e => SetupError::from_errno(doing, e),
    }
}

fn own_namespace() -> Result<OwnedFd, SetupError> {
    open("/proc/thread-self/ns/net", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| SetupError::from_errno("opening a network namespace", e))
}

fn on_thread<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    thread::scope(|s| match s.spawn(f).join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_namespace_is_separate_and_ends() {
        if !net_admin() {
            return;
        }
        let (a, b) = (NetNs::new().unwrap(), NetNs::new().unwrap());
        let listener = a.run(|| TcpListener::bind("127.0.0.1:0")).unwrap();
        let at = listener.local_addr().unwrap();
        a.run(|| TcpStream::connect(at)).unwrap();
        b.run(|| TcpStream::connect(at)).unwrap_err();
        TcpStream::connect(at).unwrap_err();
        let child = a.run(|| std::process::Command::new("cat").arg("/proc/self/net/tcp").output()).unwrap();
        assert!(String::from_utf8_lossy(&child.stdout).contains(&format!(":{:04X}", at.port())));
    }

    #[test]
    #[should_panic(expected = "passes through")]
    fn panics_pass_through() {
        if !net_admin() {
            panic!("passes through");
        }
        NetNs::new().unwrap().run(|| panic!("passes through"));
    }
}
