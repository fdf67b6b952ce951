//! The threads that make the calls, so that one of them may block while the script goes on.
use crate::calls::Sockets;
use lowwater_core::base::Instant;
use lowwater_os::Clock;
use lowwater_posix::{Call, CallId, Reply};
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

/// The threads, one of which is idle or none: a further call beside one that waits gets a further thread.
pub(crate) struct Worker {
    sockets: Sockets,
    clock: Clock,
    callers: Vec<Caller>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.sockets.hang_up();
    }
}

impl Worker {
    /// Calls are made in the namespace of the calling thread, which must be the one that makes this.
    pub(crate) fn start(clock: Clock) -> Result<Self, String> {
        let sockets = Sockets::new();
        let callers = vec![Caller::start(sockets.clone(), clock)?];
        Ok(Self { sockets, clock, callers })
    }

    /// Sockets made from now on have this controller.
    pub(crate) fn set_congestion(&self, name: &str) {
        self.sockets.set_congestion(name);
    }

    /// Makes a call; `None` when it blocks.
    pub(crate) fn call(&mut self, id: CallId, call: Call) -> Option<Reply> {
        if matches!(call, Call::Getsockopt { .. }) {
            // It never blocks, and several are made after each line: two changes of threads for each would make the next packet late.
            return Some(self.sockets.call(call));
        }
        let idle = match self.callers.iter().position(|caller| caller.waits.is_none()) {
            Some(idle) => idle,
            None => {
                // Without a thread nothing is ever answered, as with one that cannot be woken.
                self.callers.push(Caller::start(self.sockets.clone(), self.clock).ok()?);
                self.callers.len() - 1
            }
        };
        self.callers.get_mut(idle)?.call(id, call)
    }

    /// The reply of a call that blocked, if it is over, and when it came back.
    pub(crate) fn reply(&mut self, id: CallId) -> Option<(Instant, Reply)> {
        let caller = self.callers.iter_mut().find(|caller| caller.waits == Some(id))?;
        let reply = caller.ready.take().or_else(|| caller.replies.try_recv().ok())?;
        caller.waits = None;
        Some(reply)
    }

    /// Gives calls that may have been woken a moment to come back.
    pub(crate) fn settle(&mut self) {
        for caller in self.callers.iter_mut().filter(|caller| caller.waits.is_some()) {
            if caller.ready.is_none() {
                caller.ready = caller.replies.recv_timeout(WAKE).ok();
            }
        }
    }
}

/// A thread, with the call that it carries out.
struct Caller {
    calls: Sender<Call>,
    replies: Receiver<(Instant, Reply)>,
    /// Its thread id; 0 before it has taken the call, when it sleeps for another reason.
    busy: Arc<AtomicI32>,
    /// The call that blocks, and its reply.
    waits: Option<CallId>,
    ready: Option<(Instant, Reply)>,
}

impl Caller {
    fn start(sockets: Sockets, clock: Clock) -> Result<Self, String> {
        let (calls, inbox) = channel::<Call>();
        let (outbox, replies) = channel();
        let busy = Arc::new(AtomicI32::new(0));
        let flag = Arc::clone(&busy);
        let run = move || {
            crate::hurry();
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            for call in inbox {
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
        Ok(Self { calls, replies, busy, waits: None, ready: None })
    }

    /// Makes a call; `None` when it blocks.
    fn call(&mut self, id: CallId, call: Call) -> Option<Reply> {
        self.calls.send(call).ok()?;
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
        self.waits = Some(id);
        None
    }

    /// Whether the thread sleeps inside of its call.
    fn is_asleep(&self) -> bool {
        let tid = self.busy.load(Ordering::SeqCst);
        let stat = fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
        tid != 0 && stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'))
    }
}
