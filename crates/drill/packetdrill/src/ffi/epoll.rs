//! poll and epoll.
use super::User;
use super::calls::{make, simple};
use super::memory;
use super::system::give;
use core::ffi::c_int;
use core::ptr::addr_of_mut;
use libc::{epoll_event, nfds_t, pollfd};
use lowwater_posix::abi::EPOLL_CTL_DEL;
use lowwater_posix::{Call, EpollEvent, PollFd};

/// Entries of one poll(): above, Linux refuses as beyond the usual RLIMIT_NOFILE.
const POLL_MAX: usize = 1_024;

pub(super) unsafe extern "C" fn poll(_: User, fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
    give(|| {
        let count = usize::try_from(count).ok().filter(|n| *n <= POLL_MAX).ok_or(libc::EINVAL)?;
        // SAFETY: poll(2) demands an array of so many.
        let entries = unsafe { memory::array(fds.cast_const(), count) }?;
        let entries = entries.iter().map(|p| PollFd { fd: p.fd, events: p.events }).collect();
        let reply = make(Call::Poll { fds: entries, timeout_ms })?;
        for (i, revents) in reply.revents.iter().take(count).enumerate() {
            let entry = fds.wrapping_add(i);
            // SAFETY: the entry is one of the caller's; its field is within it.
            unsafe { memory::put(addr_of_mut!((*entry).revents), *revents) }?;
        }
        Ok(reply.ret)
    })
}

pub(super) extern "C" fn epoll_create(_: User, size: c_int) -> c_int {
    give(|| simple(Call::EpollCreate { size, flags: 0 }))
}

pub(super) unsafe extern "C" fn epoll_ctl(
    _: User,
    epfd: c_int,
    op: c_int,
    fd: c_int,
    event: *const epoll_event,
) -> c_int {
    give(|| {
        let event = match op {
            EPOLL_CTL_DEL => None,
            // SAFETY: epoll_ctl(2) demands an event of everything but EPOLL_CTL_DEL.
            _ => unsafe { memory::value(event) }.ok(),
        };
        let event = event.map(|e| EpollEvent { events: e.events, data: e.u64 });
        simple(Call::EpollCtl { epfd, op, fd, event })
    })
}

pub(super) unsafe extern "C" fn epoll_wait(
    _: User,
    epfd: c_int,
    events: *mut epoll_event,
    max_events: c_int,
    timeout_ms: c_int,
) -> c_int {
    give(|| {
        let reply = make(Call::EpollWait { epfd, max_events, timeout_ms })?;
        // Entries beyond those that happened stay as they are: packetdrill compares them.
        let room = usize::try_from(max_events).unwrap_or(0);
        for (i, e) in reply.events.iter().take(room).enumerate() {
            let event = epoll_event { events: e.events, u64: e.data };
            // SAFETY: epoll_wait(2) demands room for `max_events`.
            unsafe { memory::put(events.wrapping_add(i), event) }?;
        }
        Ok(reply.ret)
    })
}
