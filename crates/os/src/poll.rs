//! Waiting for devices, other threads and deadlines in one call.
use crate::clock::Clock;
use core::num::NonZeroU64;
use core::time::Duration;
use lowwater_core::base::Instant;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Descriptors reported by one wait at most; the rest stay ready for the next.
const EVENTS_PER_WAIT: usize = 64;
/// Token of the poller's own eventfd.
const WAKE: u64 = u64::MAX;
/// Token of the poller's own timer.
const TIMER: u64 = u64::MAX - 1;

/// From here on tokens are the poller's own, its two and this bit of those of [`Interest::News`].
const NEWS: u64 = 1 << 63;

/// What to wait for on a descriptor. Level-triggered: a wait reports what is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read.
    Read,
    /// Room to write.
    Write,
    /// Both.
    ReadWrite,
    /// Each time that room to write comes, told once: slots of a ring that the kernel gives back.
    Returns,
    /// Each time that something to read comes, told once ([`Ready::news`]), whoever reads it.
    News,
}

impl Interest {
    const fn flags(self) -> EventFlags {
        match self {
            Self::Read => EventFlags::IN,
            Self::Write => EventFlags::OUT,
            Self::ReadWrite => EventFlags::IN.union(EventFlags::OUT),
            Self::Returns => EventFlags::OUT.union(EventFlags::ET),
            Self::News => EventFlags::IN.union(EventFlags::ET),
        }
    }

    const fn data(self, token: u64) -> EventData {
        EventData::new_u64(token | if matches!(self, Self::News) { NEWS } else { 0 })
    }
}

/// A descriptor that has become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token it was added with.
    pub token: u64,
    /// There is something to read, an end, or an error to fetch by reading.
    pub readable: bool,
    /// There is room to write, or an error to fetch by writing.
    pub writable: bool,
    /// It was added with [`Interest::News`].
    pub news: bool,
}

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const NOTIFIED: u8 = 2;

#[derive(Debug)]
struct Bell {
    fd: OwnedFd,
    state: AtomicU8,
}

/// Ends a [`Poller::wait`] from any thread; the eventfd is touched only when the poller sleeps.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Bell>);

impl Waker {
    /// Makes the current wait return, or the next one not block. Calls merge.
    ///
    /// What the caller wrote before is visible to the thread that returns from `wait`.
    pub fn wake(&self) {
        if self.0.state.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP {
            // It can only fail when the counter is full, and then the poller is being woken anyway.
            let _ = rustix::io::write(&self.0.fd, &1u64.to_ne_bytes());
        }
    }
}

/// Waits for descriptors, a [`Waker`] and a deadline with nanosecond resolution.
///
/// One system call per wait: descriptors, eventfd and a timerfd sit in one epoll set, which a closed descriptor leaves by
/// itself. The timer is set only for a deadline earlier than the one it is set for already: deadlines of a busy stack move
/// later with every packet, and a timer that fires early costs less than one that is set anew each time.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    bell: Waker,
    timer: OwnedFd,
    /// What the timer is set for.
    armed: Option<Instant>,
}

impl Poller {
    /// A poller without descriptors.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &fd, EventData::new_u64(WAKE), EventFlags::IN)?;
        // Edge-triggered: it need not be read, setting it anew is enough.
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
        let bell = Waker(Arc::new(Bell { fd, state: AtomicU8::new(AWAKE) }));
        Ok(Self { epoll, bell, timer, armed: None })
    }

    /// Adds a descriptor. It leaves the set by [`Poller::remove`] or when its last duplicate is closed.
    ///
    /// # Errors
    /// When it is already there, cannot be polled, or `token` is one of the poller's own, from 2^63 on.
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        if token >= NEWS {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(epoll::add(&self.epoll, fd, interest.data(token), interest.flags())?)
    }

    /// Changes what is waited for on a descriptor.
    ///
    /// # Errors
    /// When it is not there, or `token` is the poller's own.
    pub fn modify(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        if token >= NEWS {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(epoll::modify(&self.epoll, fd, interest.data(token), interest.flags())?)
    }

    /// Removes a descriptor.
    ///
    /// # Errors
    /// When it is not there.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// A handle that ends waits; clones are equal.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.bell.clone()
    }

    /// Whether [`Waker::wake`] was called since the last wait or the last question; the next wait does not count it again.
    /// For those who look around before they sleep.
    pub fn take_wake(&mut self) -> bool {
        self.is_rung() && self.wakes_up()
    }

    /// Waits until `deadline` by `clock` (`None`: without end), a wake, or a ready descriptor; fills `ready` anew.
    /// Returns whether [`Waker::wake`] was called since the last wait. A deadline in the past polls once.
    ///
    /// # Errors
    /// None that a correct program can meet; signals are no errors and end the wait early.
    pub fn wait(
        &mut self,
        clock: &Clock,
        deadline: Option<Instant>,
        ready: &mut Vec<Ready>,
    ) -> io::Result<bool> {
        let deadline = deadline.filter(|at| *at != Instant::FAR_FUTURE);
        loop {
            if let Some(at) = deadline {
                self.arm_for(clock, at)?;
            }
            let woke = self.sleep(None, ready)?;
            // The timer alone may have fired, and for a deadline that has moved since.
            let early = woke.timer && !woke.bell && ready.is_empty();
            if !early || deadline.is_some_and(|at| clock.now() >= at) {
                return Ok(woke.bell);
            }
        }
    }

    /// [`Poller::wait`] with a delay from now instead of a deadline, for those who have no clock; it may end early. Delays
    /// that are not whole milliseconds need Linux 5.11.
    ///
    /// # Errors
    /// As [`Poller::wait`].
    pub fn wait_for(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<bool> {
        Ok(self.sleep(timeout, ready)?.bell)
    }

    /// Sets the timer where it is set for later.
    fn arm_for(&mut self, clock: &Clock, deadline: Instant) -> io::Result<()> {
        match deadline != Instant::FAR_FUTURE && self.armed.is_none_or(|armed| deadline < armed) {
            true => self.arm(clock, deadline),
            false => Ok(()),
        }
    }

    /// From here on a wake is one of the eventfd; false where it was woken before and must not sleep.
    fn falls_asleep(&self) -> bool {
        let state = &self.bell.0.state;
        state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn is_rung(&self) -> bool {
        self.bell.0.state.load(Ordering::Relaxed) == NOTIFIED
    }

    /// From here on a wake is none of the eventfd; true where there was one.
    fn wakes_up(&self) -> bool {
        self.bell.0.state.swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }

    /// A time that has passed fires at once.
    fn arm(&mut self, clock: &Clock, at: Instant) -> io::Result<()> {
        let ns = clock.monotonic_nanos(at);
        let it_value = Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            // Zero would disarm it.
            tv_nsec: (ns % 1_000_000_000).max(1) as _,
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
        self.armed = Some(at);
        Ok(())
    }

    fn sleep(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<Woke> {
        ready.clear();
        let sleeps = timeout != Some(Duration::ZERO) && self.falls_asleep();
        let timeout = if sleeps { timeout } else { Some(Duration::ZERO) };
        let timer = self.collect(timeout, ready);
        let bell = self.wakes_up();
        Ok(Woke { bell, timer: timer? })
    }

    /// Waits and fills `ready`; true when the timer has fired.
    fn collect(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<bool> {
        let timeout = timeout.map(|d| Timespec {
            tv_sec: i64::try_from(d.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: d.subsec_nanos().into(),
        });
        let none = epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [none; EVENTS_PER_WAIT];
        let count = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok(n) => n,
            Err(Errno::INTR) => 0,
            Err(e) => return Err(e.into()),
        };
        let mut timer = false;
        for event in &events[..count] {
            let (flags, data) = (event.flags, event.data);
            match data.u64() {
                WAKE => {
                    // The state says whether there was a wake; the eventfd only ends the sleep.
                    let _ = rustix::io::read(&self.bell.0.fd, &mut [0u8; 8]);
                }
                TIMER => {
                    self.armed = None;
                    timer = true;
                }
                token => {
                    let failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
                    ready.push(Ready {
                        token: token & !NEWS,
                        readable: failed || flags.contains(EventFlags::IN),
                        writable: failed || flags.contains(EventFlags::OUT),
                        news: token & NEWS != 0,
                    });
                }
            }
        }
        Ok(timer)
    }
}

/// What ended a sleep, beside descriptors.
#[derive(Clone, Copy, Debug)]
struct Woke {
    bell: bool,
    timer: bool,
}

/// Lets the calling thread's timers end within a microsecond of their deadline instead of the usual 50
/// (PR_SET_TIMERSLACK); for the thread that owns a stack.
///
/// # Errors
/// Where the kernel lacks the call; waits then only end later.
pub fn precise_timers() -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(1_000))?)
}

#[cfg(feature = "tokio")]
mod elsewhere;
#[cfg(test)]
mod tests;

#[cfg(feature = "tokio")]
pub use elsewhere::TokioWait;
