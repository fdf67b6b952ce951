//! The socket that frames come by, and whether its interface is gone.
//!
//! When an interface goes down the kernel says ENETDOWN once, and nothing more when the interface is deleted behind that: such a socket is just
//! silent. But it belongs to no interface then (`packet_notifier`), which is asked once after ENETDOWN, and when rtnetlink has told of the
//! deletion: that wakes somebody up, too.
use crate::sys::socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::retry_on_intr;
use std::io;

/// Batches with frames after ENETDOWN until nobody doubts any more that the interface has come back: what it had received before may
/// come behind the error.
const DOUBTS: u32 = 64;
/// Where `struct sockaddr_ll` has the interface.
const INDEX_AT: usize = 4;
/// Where a message of rtnetlink about an interface has its type, the family that speaks and the interface (`struct nlmsghdr`,
/// `struct ifinfomsg`).
const TYPE_AT: u32 = 4;
const FAMILY_AT: u32 = 16;
const LINK_AT: u32 = 20;

/// See the module.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) socket: OwnedFd,
    /// Readable when an interface of this number has left the namespace.
    pub(super) watch: OwnedFd,
    /// Batches that still look whether there is news.
    doubts: u32,
    /// Whether the socket has an interface is to be asked.
    ask: bool,
    #[cfg(test)]
    pub(super) asked: u32,
}

impl Input {
    /// `socket` is bound to the interface `index`.
    pub(super) fn new(socket: OwnedFd, index: u32) -> io::Result<Self> {
        Ok(Self {
            socket,
            watch: watch(index)?,
            doubts: 0,
            ask: false,
            #[cfg(test)]
            asked: 0,
        })
    }

    /// ENETDOWN was read.
    pub(super) const fn went_down(&mut self) {
        // The first question is for what happened before there was a watch.
        (self.doubts, self.ask) = (DOUBTS, true);
    }

    /// False when reading would meet nothing. Where nobody doubts that there is an interface, reading says so itself; else it is one call in the
    /// place of that one, which sees news as well.
    pub(super) fn may_wait(&mut self) -> bool {
        if self.doubts == 0 {
            return true;
        }
        let look = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut fds = [look(self.socket.as_fd()), look(self.watch.as_fd())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let failed = retry_on_intr(|| poll(&mut fds, Some(&at_once))).is_err();
        let [waits, news] = fds.map(|fd| failed || !fd.revents().is_empty());
        self.ask |= news;
        waits
    }

    /// Nothing waits any more; some frames came before that, or none. True when nothing ever will.
    pub(super) fn is_gone(&mut self, came: bool) -> bool {
        self.doubts = self.doubts.saturating_sub(u32::from(came));
        if !core::mem::take(&mut self.ask) {
            return false;
        }
        #[cfg(test)]
        {
            self.asked += 1;
        }
        let mut address = [0; size_of::<libc::sockaddr_ll>()];
        let told = socket::name_into(Some(self.socket.as_fd()), false, &mut address);
        let index = address.get(INDEX_AT..).and_then(|rest| rest.first_chunk::<4>());
        told.is_ok() && index.is_some_and(|index| i32::from_ne_bytes(*index) == -1)
    }
}

/// A socket that gets a message when the interface is deleted, or goes to another namespace, and no other message: nobody empties it.
fn watch(index: u32) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let fd = socket::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE)?;
    socket::attach_filter(Some(fd.as_fd()), &deletions(index))?;
    // `struct sockaddr_nl`: family, padding, port (the kernel chooses), groups.
    let mut address = [0; 12];
    address[..2].copy_from_slice(&(libc::AF_NETLINK as u16).to_ne_bytes());
    address[8..].copy_from_slice(&(libc::RTMGRP_LINK as u32).to_ne_bytes());
    socket::bind(Some(fd.as_fd()), socket::Address::Bytes(&address))?;
    Ok(fd)
}

/// RTM_DELLINK of this interface passes, where no family speaks of it: that of bridges says so of an interface that leaves one
/// (`br_ifinfo_notify`). Filters load numbers as the network has them, rtnetlink has the host's.
const fn deletions(index: u32) -> [libc::sock_filter; 8] {
    const fn step(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter { code: code as u16, jt, jf, k }
    }
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    [
        step(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, TYPE_AT),
        step(equal, 0, 5, libc::RTM_DELLINK.to_be() as u32),
        step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, FAMILY_AT),
        step(equal, 0, 3, libc::AF_UNSPEC as u32),
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, LINK_AT),
        step(equal, 0, 1, index.to_be()),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ]
}
