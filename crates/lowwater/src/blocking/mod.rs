//! Sockets that block, like those of `std::net`.
mod sctp;
mod tcp;
mod udp;

pub use sctp::{SctpAssociation, SctpListener, SctpSocket};
pub use tcp::{Incoming, TcpListener, TcpStream};
pub use udp::UdpSocket;

use crate::error::{io_error, no_time};
use lowwater_core::base::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// A thread that waits for a socket.
struct Parked {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.thread.unpark();
        }
    }
}

thread_local! {
    /// One per thread, so that a call that blocks allocates nothing.
    static PARKED: (Arc<Parked>, Waker) = {
        let parked = Arc::new(Parked { thread: thread::current(), woken: AtomicBool::new(false) });
        (parked.clone(), Waker::from(parked))
    };
}

/// Blocks the thread until `poll` is ready, or gives [`io::ErrorKind::WouldBlock`] at the deadline, as std's timeouts do.
pub(crate) fn wait<R>(
    deadline: Option<Instant>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<io::Result<R>>,
) -> io::Result<R> {
    PARKED.with(|(parked, waker)| {
        let mut cx = Context::from_waker(waker);
        loop {
            parked.woken.store(false, Ordering::Release);
            if let Poll::Ready(result) = poll(&mut cx) {
                return result;
            }
            while !parked.woken.load(Ordering::Acquire) {
                match deadline.map(|at| at.saturating_duration_since(Instant::now())) {
                    None => thread::park(),
                    Some(Duration::ZERO) => return Err(io_error(Error::WouldBlock)),
                    Some(left) => thread::park_timeout(left),
                }
            }
        }
    })
}

/// How long calls in one direction block: nanoseconds, 0 for ever.
#[derive(Debug, Default)]
struct Limit(AtomicU64);

impl Limit {
    /// As std: zero is refused.
    fn set(&self, limit: Option<Duration>) -> io::Result<()> {
        let nanos = match limit {
            Some(Duration::ZERO) => return Err(no_time()),
            Some(limit) => u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX),
            None => 0,
        };
        self.0.store(nanos, Ordering::Relaxed);
        Ok(())
    }

    fn get(&self) -> Option<Duration> {
        let nanos = self.0.load(Ordering::Relaxed);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }
}

/// What std keeps in the kernel: timeouts, and whether calls block at all.
#[derive(Debug, Default)]
struct Mode {
    read: Limit,
    write: Limit,
    nonblocking: AtomicBool,
}

impl Mode {
    fn wait<R>(
        &self,
        limit: &Limit,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<io::Result<R>>,
    ) -> io::Result<R> {
        if self.nonblocking.load(Ordering::Relaxed) {
            return match poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(result) => result,
                Poll::Pending => Err(io_error(Error::WouldBlock)),
            };
        }
        wait(limit.get().and_then(|limit| Instant::now().checked_add(limit)), poll)
    }

    fn reading<R>(&self, poll: impl FnMut(&mut Context<'_>) -> Poll<io::Result<R>>) -> io::Result<R> {
        self.wait(&self.read, poll)
    }

    fn writing<R>(&self, poll: impl FnMut(&mut Context<'_>) -> Poll<io::Result<R>>) -> io::Result<R> {
        self.wait(&self.write, poll)
    }

    fn set_nonblocking(&self, on: bool) {
        self.nonblocking.store(on, Ordering::Relaxed);
    }
}
