//! Waits that another event loop does: that of a tokio runtime.
use super::{Poller, Ready};
use crate::clock::Clock;
use core::time::Duration;
use lowwater_core::base::Instant;
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use tokio::io::unix::AsyncFd;

/// The place of a [`Poller`] in the wait of the tokio runtime that this was made in: descriptors, wakes and deadlines are seen by
/// its one descriptor, which the runtime watches.
#[derive(Debug)]
pub struct TokioWait(AsyncFd<OwnedFd>);

impl TokioWait {
    /// # Errors
    /// When the process is out of descriptors.
    ///
    /// # Panics
    /// Outside of a tokio runtime, or where its I/O is not enabled.
    pub fn of(poller: &Poller) -> io::Result<Self> {
        Ok(Self(crate::sys::watch(poller.epoll.as_fd().try_clone_to_owned()?)?))
    }
}

impl Poller {
    /// As [`Poller::wait`], but the task waits and not its thread, in the place that was made for this poller; it may end early,
    /// where the deadline has moved.
    ///
    /// # Errors
    /// As [`Poller::wait`], and when the runtime ends.
    pub async fn wait_in(
        &mut self,
        place: &TokioWait,
        clock: &Clock,
        deadline: Option<Instant>,
        ready: &mut Vec<Ready>,
    ) -> io::Result<bool> {
        if let Some(at) = deadline {
            self.arm_for(clock, at)?;
        }
        if !self.falls_asleep() {
            return self.wait_for(Some(Duration::ZERO), ready);
        }
        // The runtime sees edges alone: what came before, and who reads need not have met the end of it, is looked for here.
        ready.clear();
        let timer = self.collect(Some(Duration::ZERO), ready)?;
        if !timer && ready.is_empty() && !self.is_rung() {
            // What comes from here on is another edge.
            place.0.readable().await?.clear_ready();
        }
        Ok(self.wakes_up())
    }
}
