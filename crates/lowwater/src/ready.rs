//! Readiness of many sockets at once, in the manner of epoll(7), for event loops that are no async runtime.
//!
//! A [`Set`] watches sockets of one stack, blocking or not, by level, by edge ([`Events::ET`]) or once ([`Events::ONESHOT`]), with
//! Linux's rules: a stream is writable while less than *half* of TCP_NOTSENT_LOWAT is unsent and a third of its buffer is free,
//! and a writer by edges is told again after a write that took only a part, no error needed.
//!
//! ```
//! use lowwater::blocking::{TcpListener, TcpStream};
//! use lowwater::ready::{Events, Set};
//! use std::io::{Read, Write};
//!
//! # fn main() -> std::io::Result<()> {
//! let (a, b) = lowwater::link::pair(1500);
//! let server = lowwater::Stack::builder().device(a).address("10.0.0.1/24").build()?;
//! let client = lowwater::Stack::builder().device(b).address("10.0.0.2/24").build()?;
//! let listener = TcpListener::bind(&server, "10.0.0.1:7")?;
//! listener.set_nonblocking(true)?;
//!
//! const LISTENER: u64 = 0;
//! let set = Set::new(&server)?;
//! set.add(&listener, LISTENER, Events::IN)?;
//! let mut streams = Vec::new();
//!
//! let mut asking = TcpStream::connect(&client, "10.0.0.1:7")?;
//! asking.write_all(b"hello")?;
//! 'serving: loop {
//!     for seen in set.wait(16, None)? {
//!         if seen.token == LISTENER {
//!             let (stream, _) = listener.accept()?;
//!             stream.set_nonblocking(true)?;
//!             set.add(&stream, 1 + streams.len() as u64, Events::IN | Events::ET)?;
//!             streams.push(stream);
//!         } else {
//!             let stream = &mut streams[seen.token as usize - 1];
//!             let mut data = [0; 64];
//!             let n = stream.read(&mut data)?;
//!             stream.write_all(&data[..n])?;
//!             break 'serving;
//!         }
//!     }
//! }
//! let mut answer = [0; 5];
//! asking.read_exact(&mut answer)?;
//! assert_eq!(&answer, b"hello");
//! # Ok(())
//! # }
//! ```
use crate::error::stopped;
use crate::registry::Wakes;
use crate::shared::{Handle, Inner};
use crate::sock::Sock;
use crate::waiters::Waiters;
use crate::{SctpAssociation, SctpListener, SctpSocket, Stack, TcpListener, TcpStream, UdpSocket, blocking};
use lowwater_core::base::SocketId;
use lowwater_core::socket::ready_set::{ReadySet, Watch, bit, bits};
use std::io::{self, ErrorKind};
use std::ops::{BitOr, BitOrAssign};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Most sets of one stack: each event looks into all of them.
const SETS_MAX: usize = 64;

/// What to watch for, how, and what was seen: epoll's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Events(u32);

impl Events {
    /// Nothing but errors and the end.
    pub const NONE: Self = Self(0);
    /// EPOLLIN: data, a connection to accept, the end of the stream.
    pub const IN: Self = Self(bit::IN);
    /// EPOLLOUT: a write will be taken.
    pub const OUT: Self = Self(bit::OUT);
    /// EPOLLPRI: urgent data.
    pub const PRI: Self = Self(bit::PRI);
    /// EPOLLRDHUP: the peer will send nothing more.
    pub const RDHUP: Self = Self(bit::RDHUP);
    /// EPOLLHUP: both directions are over. Always watched for.
    pub const HUP: Self = Self(bit::HUP);
    /// EPOLLERR: an error waits. Always watched for.
    pub const ERR: Self = Self(bit::ERR);
    /// EPOLLET: tell changes only.
    pub const ET: Self = Self(bit::ET);
    /// EPOLLONESHOT: tell once, then nothing until [`Set::modify`].
    pub const ONESHOT: Self = Self(bit::ONESHOT);

    /// All of `other`'s bits are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// No bit is set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Events {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Events {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// What was seen of a watched socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// As given when it was added.
    pub token: u64,
    /// Those of the bits that it is watched for, and errors and the end.
    pub events: Events,
}

/// Sockets that a [`Set`] can watch: those of this crate.
pub trait Source: private::Named {}

mod private {
    /// A socket whose name nobody else needs to know.
    #[derive(Debug)]
    pub struct Name<'a>(pub(super) &'a crate::sock::Sock);

    /// Whose readiness it is.
    pub trait Named {
        fn name(&self) -> Name<'_>;
    }
}

macro_rules! source {
    ($($type:ty: $this:ident $sock:expr),*) => {$(
        impl Source for $type {}
        impl private::Named for $type {
            fn name(&self) -> private::Name<'_> {
                let $this = self;
                private::Name($sock)
            }
        }
    )*};
}

source!(
    TcpStream: s &s.sock,
    TcpListener: s &s.sock,
    UdpSocket: s &s.sock,
    SctpAssociation: s &s.sock,
    SctpListener: s &s.sock,
    SctpSocket: s &s.sock,
    blocking::TcpStream: s s.sock(),
    blocking::TcpListener: s &s.listener.sock,
    blocking::UdpSocket: s &s.socket.sock,
    blocking::SctpAssociation: s &s.assoc.sock,
    blocking::SctpListener: s &s.listener.sock,
    blocking::SctpSocket: s &s.socket.sock
);

/// One set under the stack's lock.
#[derive(Debug, Default)]
struct Slot {
    set: ReadySet<SocketId>,
    waiters: Waiters,
}

/// All sets of a stack.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    slots: Vec<Option<Slot>>,
}

impl Sets {
    /// Something about a socket changed: sets that watch it for that wake who waits for them.
    pub(crate) fn wake(&mut self, id: SocketId, change: u32, wakes: &mut Wakes) {
        for slot in self.slots.iter_mut().flatten() {
            if slot.set.wake(id, change) {
                wakes.extend(slot.waiters.take());
            }
        }
    }

    /// The socket is gone.
    pub(crate) fn forget(&mut self, id: SocketId) {
        for slot in self.slots.iter_mut().flatten() {
            slot.set.forget(id);
        }
    }

    /// The stack has stopped: nobody waits any more.
    pub(crate) fn wake_everybody(&mut self, wakes: &mut Wakes) {
        for slot in self.slots.iter_mut().flatten() {
            wakes.extend(slot.waiters.take());
        }
    }

    fn open(&mut self) -> io::Result<usize> {
        let free = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if free >= SETS_MAX {
            return Err(io::Error::new(
                ErrorKind::OutOfMemory,
                format!("a stack has {SETS_MAX} sets at the most"),
            ));
        }
        if free == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[free] = Some(Slot::default());
        Ok(free)
    }
}

/// Watches sockets of one stack. It holds none of them: one that is dropped is watched no more. Threads and tasks may share a
/// set; what is told to one is not told to another, unless it is watched by level.
pub struct Set {
    handle: Handle,
    index: usize,
}

impl Set {
    /// An empty set.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] when the stack has 64 of them; when the stack was shut down.
    pub fn new(stack: &Stack) -> io::Result<Self> {
        let handle = stack.handle.clone();
        let index = handle.enter_live(|inner, _, _| inner.sets.open())?;
        Ok(Self { handle, index })
    }

    /// Watches a socket for `events`. What it is ready for already will be told.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`]; [`ErrorKind::InvalidInput`] for a socket of another stack.
    pub fn add(&self, socket: &impl Source, token: u64, events: Events) -> io::Result<()> {
        self.change(socket.name().0, token, events, false)
    }

    /// Watches a socket of the set for something else from now on; that is how one of [`Events::ONESHOT`] is armed again.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when it is not in the set.
    pub fn modify(&self, socket: &impl Source, token: u64, events: Events) -> io::Result<()> {
        self.change(socket.name().0, token, events, true)
    }

    /// Watches a socket no more.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when it is not in the set.
    pub fn remove(&self, socket: &impl Source) -> io::Result<()> {
        let id = self.name(socket.name().0)?;
        self.with(|slot| {
            slot.set.get(id).ok_or(ErrorKind::NotFound)?;
            slot.set.forget(id);
            Ok(())
        })
    }

    /// What there is to tell, at most `max` sockets (one at least); waits for something until `timeout` has passed, for ever without
    /// one. Nothing when it has passed.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn wait(&self, max: usize, timeout: Option<Duration>) -> io::Result<Vec<Seen>> {
        if timeout == Some(Duration::ZERO) {
            return match self.poll_wait(&mut Context::from_waker(Waker::noop()), max) {
                Poll::Ready(result) => result,
                Poll::Pending => Ok(Vec::new()),
            };
        }
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        match blocking::wait(deadline, |cx| self.poll_wait(cx, max)) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(Vec::new()),
            other => other,
        }
    }

    /// As [`wait`](Self::wait), for a task.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn poll_wait(&self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Vec<Seen>>> {
        self.handle.enter(|inner, now, wakes| {
            if inner.phase.is_over() {
                return Poll::Ready(Err(stopped()));
            }
            let Inner { core, sets, endpoints, .. } = inner;
            let Some(Some(slot)) = sets.slots.get_mut(self.index) else {
                return Poll::Ready(Err(stopped()));
            };
            let mut ready = |id| match endpoints.knows(id) {
                true => endpoints.poll(core, id),
                false => core.poll(now, id),
            };
            let mut seen = Vec::new();
            for _ in 0..slot.set.listed() {
                let Some(id) = slot.set.take() else { break };
                let told = slot.set.judge(id, bits(ready(id)));
                seen.extend(told.map(|Watch { events, data }| Seen { token: data, events: plain(events) }));
                if seen.len() >= max.max(1) {
                    break;
                }
            }
            if !seen.is_empty() {
                return Poll::Ready(Ok(seen));
            }
            wakes.extend(slot.waiters.wait(cx.waker()));
            Poll::Pending
        })
    }

    fn change(&self, sock: &Sock, token: u64, events: Events, known: bool) -> io::Result<()> {
        let id = self.name(sock)?;
        self.handle.enter_live(|inner, now, wakes| {
            let ready = bits(inner.poll(now, id));
            let slot = inner.sets.slots.get_mut(self.index).and_then(Option::as_mut).ok_or_else(stopped)?;
            match (slot.set.get(id).is_some(), known) {
                (true, false) => return Err(ErrorKind::AlreadyExists.into()),
                (false, true) => return Err(ErrorKind::NotFound.into()),
                _ => {}
            }
            slot.set.watch(id, Watch { events: events.0, data: token });
            if slot.set.wake(id, ready) {
                wakes.extend(slot.waiters.take());
            }
            Ok(())
        })
    }

    fn name(&self, sock: &Sock) -> io::Result<SocketId> {
        if Arc::ptr_eq(&self.handle.0, &sock.handle.0) {
            return Ok(sock.id);
        }
        Err(io::Error::new(ErrorKind::InvalidInput, "the socket belongs to another stack than the set"))
    }

    fn with<R>(&self, f: impl FnOnce(&mut Slot) -> io::Result<R>) -> io::Result<R> {
        self.handle.enter_live(|inner, _, _| match inner.sets.slots.get_mut(self.index) {
            Some(Some(slot)) => f(slot),
            _ => Err(stopped()),
        })
    }
}

/// Without the bits that only repeat others.
const fn plain(events: u32) -> Events {
    Events(events & !(bit::RDNORM | bit::WRNORM))
}

impl Drop for Set {
    fn drop(&mut self) {
        self.handle.enter(|inner, _, wakes| {
            if let Some(mut slot) = inner.sets.slots.get_mut(self.index).and_then(Option::take) {
                wakes.extend(slot.waiters.take());
            }
        });
    }
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let watched = self.with(|slot| Ok(slot.set.len())).ok();
        f.debug_struct("Set").field("watched", &watched).finish_non_exhaustive()
    }
}
