//! Epoll sets: who is watched, who has something, level and edge (epoll(7), `ep_poll_callback`, `ep_send_events`).
use crate::abi::{
    EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP,
    EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLRDNORM, EPOLLWAKEUP, EPOLLWRNORM,
};
use crate::block::Progress;
use crate::call::{EpollEvent, Fd, Reply};
use crate::calls::Answer;
use crate::errno::Errno;
use crate::files::{FDS_MAX, File};
use crate::host::Host;
use crate::poll::{READING, timeout};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bits that say how to watch, not what for (`EP_PRIVATE_BITS`).
const PRIVATE: u32 = EPOLLWAKEUP | EPOLLONESHOT | EPOLLET | EPOLLEXCLUSIVE;
/// What may stand beside EPOLLEXCLUSIVE (`EPOLLEXCLUSIVE_OK_BITS`).
const EXCLUSIVE_OK: u32 = EPOLLIN
    | EPOLLOUT
    | EPOLLERR
    | EPOLLHUP
    | EPOLLRDNORM
    | EPOLLWRNORM
    | EPOLLWAKEUP
    | EPOLLET
    | EPOLLEXCLUSIVE;
/// Most events that one call may ask for (`EP_MAX_EVENTS`).
const EVENTS_MAX: i32 = i32::MAX / 12;

/// Epoll sets that may stand within one (`EP_MAX_NESTS`).
const NESTS_MAX: usize = 4;

/// One watched file.
#[derive(Clone, Copy, Debug)]
struct Item {
    event: EpollEvent,
    /// It stands on the list.
    listed: bool,
}

/// An epoll set.
#[derive(Debug, Default)]
pub(crate) struct Epoll {
    items: BTreeMap<Fd, Item>,
    /// Files that may have something, in the order in which they got it.
    list: VecDeque<Fd>,
}

impl Epoll {
    /// Something about `fd` changed; true when it is watched for it.
    pub(crate) fn wake(&mut self, fd: Fd, key: u32) -> bool {
        let Some(item) = self.items.get_mut(&fd) else { return false };
        // Disarmed by EPOLLONESHOT, or the change is none that it wants.
        if item.event.events & !PRIVATE == 0 || item.event.events & key == 0 {
            return false;
        }
        if !item.listed {
            item.listed = true;
            self.list.push_back(fd);
        }
        true
    }

    /// The file is gone.
    pub(crate) fn forget(&mut self, fd: Fd) {
        self.items.remove(&fd);
        self.list.retain(|listed| *listed != fd);
    }

    /// Files on the list, with what they are watched for.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (Fd, u32)> {
        self.list.iter().filter_map(|fd| Some((*fd, self.items.get(fd)?.event.events)))
    }
}

impl Host {
    /// epoll_create(2), epoll_create1(2).
    pub(crate) fn epoll_create(&mut self, size: i32, flags: i32) -> Result<Reply, Errno> {
        if size <= 0 || flags & !EPOLL_CLOEXEC != 0 {
            return Err(Errno::EINVAL);
        }
        Ok(Reply::ok(self.files.add(File::Epoll(Epoll::default()))?.into()))
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
        if epfd == fd {
            self.set(epfd)?;
            return Err(Errno::EINVAL);
        }
        let nested = matches!(self.files.get(fd)?, File::Epoll(_));
        if event.events & EPOLLEXCLUSIVE != 0 && op != EPOLL_CTL_DEL {
            let wrong = op == EPOLL_CTL_MOD || nested || event.events & !EXCLUSIVE_OK != 0;
            if wrong {
                self.set(epfd)?;
                return Err(Errno::EINVAL);
            }
        }
        if nested && op == EPOLL_CTL_ADD && self.nests_badly(epfd, fd) {
            return Err(Errno::ELOOP);
        }
        let set = self.set(epfd)?;
        let known = set.items.get(&fd).copied();
        match (op, known) {
            (EPOLL_CTL_ADD, Some(_)) => return Err(Errno::EEXIST),
            (EPOLL_CTL_DEL | EPOLL_CTL_MOD, None) => return Err(Errno::ENOENT),
            (EPOLL_CTL_DEL, _) => {
                set.forget(fd);
                return Ok(Reply::ok(0));
            }
            (EPOLL_CTL_MOD, Some(old)) if old.event.events & EPOLLEXCLUSIVE != 0 => {
                return Err(Errno::EINVAL);
            }
            (EPOLL_CTL_ADD, None) if set.items.len() >= FDS_MAX => return Err(Errno::ENOMEM),
            (EPOLL_CTL_ADD | EPOLL_CTL_MOD, _) => {}
            _ => return Err(Errno::EINVAL),
        }
        // Errors and the end are always watched.
        let event = EpollEvent { events: event.events | EPOLLERR | EPOLLHUP, ..event };
        let listed = known.is_some_and(|item| item.listed);
        set.items.insert(fd, Item { event, listed });
        // What is ready already counts as a change.
        let ready = self.readiness(fd).unwrap_or(0);
        if ready & event.events != 0 {
            self.set(epfd)?.wake(fd, ready);
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
        let watched = |set: &Fd| match self.files.get(*set) {
            Ok(File::Epoll(epoll)) => epoll.items.keys().copied().collect(),
            _ => Vec::new(),
        };
        let is_set = |fd: &Fd| matches!(self.files.get(*fd), Ok(File::Epoll(_)));
        sets.iter().flat_map(watched).filter(is_set).collect()
    }

    /// The sets that watch one of these.
    fn sets_around(&self, sets: &BTreeSet<Fd>) -> BTreeSet<Fd> {
        let watches = |file: &File| match file {
            File::Epoll(epoll) => sets.iter().any(|set| epoll.items.contains_key(set)),
            _ => false,
        };
        self.files.iter().filter(|(_, file)| watches(file)).map(|(fd, _)| fd).collect()
    }

    /// Something about `fd` changed: the sets that wait for `key` take note, and those around them. A set that has something is
    /// readable itself.
    pub(crate) fn wake_fd(&mut self, fd: Fd, key: u32) {
        let mut seen = BTreeSet::new();
        let mut woken = VecDeque::from([(fd, key)]);
        while let Some((fd, key)) = woken.pop_front() {
            let sets = self.files.each_epoll(|epoll| epoll.wake(fd, key));
            woken.extend(sets.into_iter().filter(|set| seen.insert(*set)).map(|set| (set, READING)));
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
        for _ in 0..self.set(epfd)?.list.len() {
            if events.len() >= max {
                break;
            }
            let Some(fd) = self.set(epfd)?.list.pop_front() else { break };
            let ready = self.readiness(fd).unwrap_or(0);
            let set = self.set(epfd)?;
            let Some(item) = set.items.get_mut(&fd) else { continue };
            let revents = ready & item.event.events & !PRIVATE;
            item.listed = false;
            if revents == 0 {
                continue;
            }
            events.push(EpollEvent { events: revents, data: item.event.data });
            if item.event.events & EPOLLONESHOT != 0 {
                item.event.events &= PRIVATE;
            } else if item.event.events & EPOLLET == 0 {
                item.listed = true;
                set.list.push_back(fd);
            }
        }
        Ok(events)
    }
}
