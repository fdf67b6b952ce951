//! The thread that makes the calls, so that one of them may block while the script goes on.
use crate::calls::Sockets;
use lowwater_core::base::Instant;
use lowwater_os::Clock;
use lowwater_posix::{Call, Reply};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Between two looks at a call that has not come back.
const LOOK: Duration = Duration::from_micros(500);
/// Looks in a row at which a caller must be asleep to count as blocked.
const ASLEEP: u32 = 4;
/// Looks after which a call that is neither back nor asleep is given up.
const LOOKS_MAX: u32 = 4_000;
/// What a woken caller gets to come back.
const WAKE: Duration = Duration::from_millis(2);

/// What the thread is given to do.
enum Job {
    Call(Call),
    /// The controller of sockets made from now on.
    Congestion(String),
}

/// The thread, with the call that it carries out.
pub(crate) struct Worker {
    jobs: Sender<Job>,
    replies: Receiver<(Instant, Reply)>,
    /// Its thread id; 0 before it has taken the job, when it sleeps for another reason.
    busy: Arc<AtomicI32>,
    ready: Option<(Instant, Reply)>,
}

impl Worker {
    /// Starts in the calling thread's namespace.
    pub(crate) fn start(clock: Clock) -> Result<Self, String> {
        let (jobs, inbox) = channel::<Job>();
        let (outbox, replies) = channel();
        let busy = Arc::new(AtomicI32::new(0));
        let flag = Arc::clone(&busy);
        let run = move || {
            let mut sockets = Sockets::new();
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            for job in inbox {
                let call = match job {
                    Job::Call(call) => call,
                    Job::Congestion(name) => {
                        sockets.set_congestion(name);
                        continue;
                    }
                };
                flag.store(tid, Ordering::SeqCst);
                let reply = sockets.call(call);
                flag.store(0, Ordering::SeqCst);
                if outbox.send((clock.now(), reply)).is_err() {
                    return;
                }
            }
        };
        // A call that blocks for ever keeps its thread; the process outlives it.
        thread::Builder::new().name("calls".into()).spawn(run).map_err(|e| e.to_string())?;
        Ok(Self { jobs, replies, busy, ready: None })
    }

    /// Sockets made from now on have this controller.
    pub(crate) fn set_congestion(&self, name: &str) {
        // Without the thread every call fails, which is told then.
        let _ = self.jobs.send(Job::Congestion(name.to_owned()));
    }

    /// Makes a call; `None` when it blocks.
    pub(crate) fn call(&mut self, call: Call) -> Option<Reply> {
        self.jobs.send(Job::Call(call)).ok()?;
        let mut asleep = 0;
        for _ in 0..LOOKS_MAX {
            match self.replies.recv_timeout(LOOK) {
                Ok((_, reply)) => return Some(reply),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            asleep = if self.is_asleep() { asleep + 1 } else { 0 };
            if asleep == ASLEEP {
                break;
            }
        }
        None
    }

    /// The reply of the call that blocked, if it is over, and when it came back.
    pub(crate) fn reply(&mut self) -> Option<(Instant, Reply)> {
        self.ready.take().or_else(|| self.replies.try_recv().ok())
    }

    /// Gives a call that may have been woken a moment to come back.
    pub(crate) fn settle(&mut self) {
        if self.ready.is_none() {
            self.ready = self.replies.recv_timeout(WAKE).ok();
        }
    }

    /// Whether the thread sleeps inside of its call.
    fn is_asleep(&self) -> bool {
        let tid = self.busy.load(Ordering::SeqCst);
        let stat = fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
        tid != 0 && stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'))
    }
}
