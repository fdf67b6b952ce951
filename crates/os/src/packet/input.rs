//! The socket that frames come by, the MTU of its interface, and whether that is gone.
//!
//! When an interface goes down the kernel says ENETDOWN once, and nothing more when the interface is deleted behind that: such a socket is just
//! silent. But it belongs to no interface then (`packet_notifier`), which is asked once after ENETDOWN, and when rtnetlink has told of the
//! deletion: that wakes somebody up, too.
use crate::netlink::LinkWatch;
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

/// See the module.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) socket: OwnedFd,
    pub(super) watch: LinkWatch,
    /// An MTU that was heard of and not yet told.
    mtu: Option<u32>,
    /// Batches that still look whether there is news.
    doubts: u32,
    /// Whether the socket has an interface is to be asked.
    ask: bool,
    #[cfg(test)]
    pub(super) asked: u32,
}

impl Input {
    /// `socket` is bound to the interface `index`, whose MTU was `mtu`.
    pub(super) fn new(socket: OwnedFd, (index, mtu): (u32, u32)) -> io::Result<Self> {
        Ok(Self {
            socket,
            watch: LinkWatch::new(index, mtu)?,
            mtu: None,
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
        let mut fds = [look(self.socket.as_fd()), look(self.watch.fd())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let failed = retry_on_intr(|| poll(&mut fds, Some(&at_once))).is_err();
        let [waits, news] = fds.map(|fd| failed || !fd.revents().is_empty());
        if news {
            self.hear();
        }
        waits
    }

    /// Takes what rtnetlink has told.
    fn hear(&mut self) {
        let heard = self.watch.hear();
        self.mtu = heard.mtu.or(self.mtu);
        self.ask |= heard.gone || heard.missed;
    }

    /// The MTU, where it has changed since the last question; with `look` what nobody has heard yet counts.
    pub(super) fn new_mtu(&mut self, look: bool) -> Option<u32> {
        if look {
            self.hear();
        }
        self.mtu.take()
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
