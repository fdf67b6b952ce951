//! The driver as a task of tokio, beside those of the application: a round trip then changes no threads.
use crate::driver::{Driver, Rest, Stint};
use crate::registry::Wakes;
use crate::shared::Shared;
use core::future::poll_fn;
use core::task::Poll;
use lowwater_core::base::Instant;
use lowwater_os::{BusyPoll, Idle, Ready, TokioWait};
use std::io;

/// Turns in a row before the other tasks of the thread have theirs.
const TURNS_PER_STINT: u32 = 16;

impl Driver {
    /// Serves the stack as a task, until [`crate::Stack::shutdown`] has ended, or until all handles are gone and what they had
    /// opened has closed. When the task is dropped, the stack has ended.
    ///
    /// The devices and the stack's timer are in the runtime's own wait, to the nanosecond; it busy polls only if
    /// [`crate::Builder::busy_poll`] said so. What blocks this thread of the runtime blocks the stack.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    ///
    /// # Panics
    /// Outside of a tokio runtime, or where its I/O is not enabled, as sockets of tokio do.
    pub async fn run_on_tokio(mut self) -> io::Result<()> {
        let ended = self.serve_as_task().await;
        if let Err(why) = &ended {
            self.shared.lock().failure.get_or_insert_with(|| format!("the stack's task: {why}"));
        }
        ended
    }

    async fn serve_as_task(&mut self) -> io::Result<()> {
        let shared = self.shared.clone();
        let place = TokioWait::of(&self.poller)?;
        let (mut ready, mut wakes) = (Vec::new(), Wakes::new());
        if !self.told_to_poll {
            self.busy_poll = BusyPoll::default();
        }
        let mut rest = self.stint(&shared, &mut ready, &mut wakes);
        loop {
            rest = match rest {
                Rest::Over => return Ok(()),
                Rest::More => {
                    others_first().await;
                    self.stint(&shared, &mut ready, &mut wakes)
                }
                Rest::Until(until) => match self.look_between_others(&shared, until, &mut wakes).await {
                    Some(rest) => rest,
                    None => {
                        self.poller.wait_in(&place, &shared.clock, Some(until), &mut ready).await?;
                        self.stint(&shared, &mut ready, &mut wakes)
                    }
                },
            };
        }
    }

    fn stint(&mut self, shared: &Shared, ready: &mut Vec<Ready>, wakes: &mut Wakes) -> Rest {
        let (at, devices) = self.look(shared, ready);
        self.work(at, devices, wakes, Stint::Shared(TURNS_PER_STINT))
    }

    /// Busy polling among tasks: what is left to do once there was something, `None` when it is time to sleep. At each look the
    /// runtime looks at its own I/O, the tasks run that are ready, and other threads that want this processor.
    async fn look_between_others(
        &mut self,
        shared: &Shared,
        until: Instant,
        wakes: &mut Wakes,
    ) -> Option<Rest> {
        if !self.busy_poll.is_on() {
            return None;
        }
        let mut now = shared.clock.now();
        while self.busy_poll.on_nothing(now) == Idle::Look {
            std::thread::yield_now();
            tokio::task::yield_now().await;
            match self.glance(shared, until) {
                Ok((at, devices)) => {
                    return Some(self.work(at, devices, wakes, Stint::Shared(TURNS_PER_STINT)));
                }
                Err(at) => now = at,
            }
        }
        None
    }
}

/// Lets the tasks run that are ready now; the runtime looks at its I/O when it does between tasks anyway.
async fn others_first() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
