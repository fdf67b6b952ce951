//! The calls of epoll(7) on sets of the core (`core::socket::ready_set`), for descriptors of every kind.
use crate::abi::{
    EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP,
    EPOLLIN, EPOLLOUT, EPOLLWAKEUP,
};
use crate::block::Progress;
use crate::call::{EpollEvent, Fd, Reply};
use crate::calls::Answer;
use crate::errno::Errno;
use crate::files::{FDS_MAX, File};
use crate::host::Host;
use crate::poll::timeout;
use lowwater_core::socket::ready_set::{ReadySet, Watch};
use std::collections::{BTreeSet, VecDeque};

/// What may stand beside EPOLLEXCLUSIVE (`EPOLLEXCLUSIVE_OK_BITS`).
const EXCLUSIVE_OK: u32 = EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE;
/// Most events that one call may ask for (`EP_MAX_EVENTS`).
const EVENTS_MAX: i32 = i32::MAX / 12;

/// What the sets around a set that has got something are told: as in Linux, who asks for no EPOLLIN is not woken (`ep_poll_safewake`).
const SET_READY: u32 = EPOLLIN;

/// Epoll sets that may stand within one (`EP_MAX_NESTS`).
const NESTS_MAX: usize = 4;

/// An epoll set.
pub(crate) type Epoll = ReadySet<Fd>;

impl Host {
    /// epoll_create(2), epoll_create1(2).
    pub(crate) fn epoll_create(&mut self, size: i32, flags: i32) -> Result<Reply, Errno> {
        if size <= 0 || flags & !EPOLL_CLOEXEC != 0 {
            return Err(Errno::EINVAL);
        }
        Ok(Reply::ok(self.files.add_with(File::Epoll(Epoll::default()), flags & EPOLL_CLOEXEC != 0)?.into()))
    }

    fn set(&mut self, epfd: Fd) -> Result<&mut Epoll, Errno> {
        match self.files.get_mut(epfd)? {
            File::Epoll(epoll) => Ok(epoll),
            _ => Err(Errno::EINVAL),
        }
    }

    /// epoll_ctl(2): `do_epoll_ctl`.
    pub(crate) fn epoll_ctl(
        &mut self,
        epfd: Fd,
        op: i32,
        fd: Fd,
        event: Option<EpollEvent>,
    ) -> Result<Reply, Errno> {
        // The event is read before anything else, unless none is needed.
        let event = match (op, event) {
            (EPOLL_CTL_DEL, event) => event.unwrap_or(EpollEvent { events: 0, data: 0 }),
            (_, event) => event.ok_or(Errno::EFAULT)?,
        };
        self.files.get(epfd)?;
        self.files.get(fd)?;
        // What is no set is told so before anything about what it would watch.
        self.set(epfd)?;
        if epfd == fd {
            return Err(Errno::EINVAL);
        }
        let nested = matches!(self.files.get(fd)?, File::Epoll(_));
        if event.events & EPOLLEXCLUSIVE != 0 && op != EPOLL_CTL_DEL {
            let wrong = op == EPOLL_CTL_MOD || nested || event.events & !EXCLUSIVE_OK != 0;
            if wrong {
                return Err(Errno::EINVAL);
            }
        }
        if nested && op == EPOLL_CTL_ADD && self.nests_badly(epfd, fd) {
            return Err(Errno::ELOOP);
        }
        let set = self.set(epfd)?;
        let known = set.get(fd);
        match (op, known) {
            (EPOLL_CTL_ADD, Some(_)) => return Err(Errno::EEXIST),
            (EPOLL_CTL_DEL | EPOLL_CTL_MOD, None) => return Err(Errno::ENOENT),
            (EPOLL_CTL_DEL, _) => {
                set.forget(fd);
                self.files.note_watch(fd, epfd, false);
                return Ok(Reply::ok(0));
            }
            (EPOLL_CTL_MOD, Some(old)) if old.events & EPOLLEXCLUSIVE != 0 => {
                return Err(Errno::EINVAL);
            }
            (EPOLL_CTL_ADD, None) if set.len() >= FDS_MAX => return Err(Errno::ENOMEM),
            (EPOLL_CTL_ADD | EPOLL_CTL_MOD, _) => {}
            _ => return Err(Errno::EINVAL),
        }
        set.watch(fd, Watch { events: event.events, data: event.data });
        self.files.note_watch(fd, epfd, true);
        // What is ready already counts as a change.
        let ready = self.readiness(fd).unwrap_or(0);
        let set = self.set(epfd)?;
        let stood = set.is_listed(fd);
        if set.wake(fd, ready) {
            // The sets around this one hear of what it did not have before (`ep_insert`, `ep_modify`).
            if !stood {
                self.wake_fd(epfd, SET_READY);
            }
            self.wake_blocked(&[]);
        }
        Ok(Reply::ok(0))
    }

    /// With the set `inner` in the set `outer` there would be a circle, or more sets within one another than [`NESTS_MAX`]
    /// (`ep_loop_check`). Level by level, so that sets which several others watch are looked at once per level.
    fn nests_badly(&self, outer: Fd, inner: Fd) -> bool {
        let mut nests = 1;
        for (first, up) in [(inner, false), (outer, true)] {
            let mut level = BTreeSet::from([first]);
            while !level.contains(if up { &inner } else { &outer }) {
                level = if up { self.sets_around(&level) } else { self.sets_in(&level) };
                if level.is_empty() {
                    break;
                }
                nests += 1;
                if nests > NESTS_MAX {
                    return true;
                }
            }
            if !level.is_empty() {
                return true;
            }
        }
        false
    }

    /// The sets that these watch.
    fn sets_in(&self, sets: &BTreeSet<Fd>) -> BTreeSet<Fd> {
        sets.iter().flat_map(|set| self.files.watches().sets_in(*set)).collect()
    }

    /// The sets that watch one of these.
    fn sets_around(&self, sets: &BTreeSet<Fd>) -> BTreeSet<Fd> {
        sets.iter().flat_map(|set| self.files.watches().sets_of(*set)).collect()
    }

    /// Something about `fd` changed: the sets that wait for `key` take note, and those around them. A set that has something is
    /// readable itself.
    pub(crate) fn wake_fd(&mut self, fd: Fd, key: u32) {
        let mut seen = BTreeSet::new();
        let mut woken = VecDeque::from([(fd, key)]);
        while let Some((fd, key)) = woken.pop_front() {
            let sets: Vec<Fd> = self.files.watches().sets_of(fd).collect();
            for set in sets {
                if self.set(set).is_ok_and(|epoll| epoll.wake(fd, key)) && seen.insert(set) {
                    woken.push_back((set, SET_READY));
                }
            }
        }
    }

    /// epoll_wait(2).
    pub(crate) fn epoll_wait(
        &mut self,
        epfd: Fd,
        max_events: i32,
        timeout_ms: i32,
        p: &mut Progress,
    ) -> Answer {
        // Whether there is such a file is asked first (`do_epoll_wait`).
        self.files.get(epfd)?;
        if max_events <= 0 || max_events > EVENTS_MAX {
            return Err(Errno::EINVAL);
        }
        self.set(epfd)?;
        let events = self.collect(epfd, max_events as usize)?;
        if !events.is_empty() || timeout_ms == 0 || p.expired {
            return Ok(Some(Reply { ret: events.len() as i64, events, ..Reply::default() }));
        }
        p.wait(self.now, timeout(timeout_ms))
    }

    /// Looks at everybody on the list once, in order. Who is watched by level and has something goes to its end again.
    fn collect(&mut self, epfd: Fd, max: usize) -> Result<Vec<EpollEvent>, Errno> {
        let mut events = Vec::new();
        for _ in 0..self.set(epfd)?.listed() {
            if events.len() >= max {
                break;
            }
            let Some(fd) = self.set(epfd)?.take() else { break };
            let ready = self.readiness(fd).unwrap_or(0);
            if let Some(Watch { events: seen, data }) = self.set(epfd)?.judge(fd, ready) {
                events.push(EpollEvent { events: seen, data });
            }
        }
        Ok(events)
    }
}
