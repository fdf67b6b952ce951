//! The threads that make the calls, so that one of them may block while the script goes on.
use crate::calls::Sockets;
use crate::tap::Tap;
use lowwater_core::base::{Duration, Instant};
use lowwater_os::Clock;
use lowwater_posix::{Call, CallId, Reply};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd as _, OwnedFd};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

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

    /// Makes a call; `None` when it blocks. What it lets go meanwhile is taken from the device when it leaves.
    pub(crate) fn call(&mut self, id: CallId, call: Call, tap: &mut Tap) -> Option<Reply> {
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
        self.callers.get_mut(idle)?.call(id, call, tap)
    }

    /// The reply of a call that blocked, if it is over, and when it came back.
    pub(crate) fn reply(&mut self, id: CallId) -> Option<(Instant, Reply)> {
        let caller = self.callers.iter_mut().find(|caller| caller.waits == Some(id))?;
        let reply = caller.ready.take().or_else(|| caller.replies.try_recv().ok())?;
        caller.waits = None;
        Some(reply)
    }

    /// Gives calls that may have been woken a moment to come back; what they let go is taken from the device when it leaves.
    pub(crate) fn settle(&mut self, tap: &mut Tap) {
        for caller in self.callers.iter_mut().filter(|caller| caller.waits.is_some()) {
            if caller.ready.is_none() {
                caller.ready = caller.listen(WAKE, tap).ok().flatten();
            }
        }
    }
}

/// The thread of a call is gone: no reply will come.
struct ThreadEnded;

/// A thread, with the call that it carries out.
struct Caller {
    calls: Sender<Call>,
    replies: Receiver<(Instant, Reply)>,
    /// Rings with each reply, so that one wait is enough for that and for the device.
    bell: Arc<OwnedFd>,
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
        let rings = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bell = Arc::new(rings.map_err(|e| e.to_string())?);
        let rope = Arc::clone(&bell);
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
                // Each wait empties the counter, so that it never is full.
                let _ = rustix::io::write(&rope, &1_u64.to_ne_bytes());
            }
        };
        // A call that blocks for ever keeps its thread; the process outlives it.
        thread::Builder::new().name("calls".into()).spawn(run).map_err(|e| e.to_string())?;
        Ok(Self { calls, replies, bell, busy, waits: None, ready: None })
    }

    /// Makes a call; `None` when it blocks.
    fn call(&mut self, id: CallId, call: Call, tap: &mut Tap) -> Option<Reply> {
        self.calls.send(call).ok()?;
        let mut asleep = 0;
        for _ in 0..LOOKS_MAX {
            match self.listen(LOOK, tap) {
                Ok(Some((_, reply))) => return Some(reply),
                Ok(None) => {}
                Err(ThreadEnded) => return None,
            }
            asleep = if self.is_asleep() { asleep + 1 } else { 0 };
            if asleep == ASLEEP {
                break;
            }
        }
        self.waits = Some(id);
        None
    }

    /// The reply, if it is there until `most` has passed.
    fn listen(&mut self, most: Duration, tap: &mut Tap) -> Result<Option<(Instant, Reply)>, ThreadEnded> {
        let until = tap.now() + most;
        loop {
            // Silent before the reply is looked for, so that it rings for one that comes behind that.
            let _ = rustix::io::read(&self.bell, &mut [0_u8; 8]);
            match self.replies.try_recv() {
                Ok(reply) => {
                    // What the call let go last is there by now.
                    tap.gather();
                    return Ok(Some(reply));
                }
                Err(TryRecvError::Disconnected) => return Err(ThreadEnded),
                Err(TryRecvError::Empty) => {}
            }
            if tap.now() >= until {
                return Ok(None);
            }
            tap.wait(until, Some(self.bell.as_fd()));
        }
    }

    /// Whether the thread sleeps inside of its call.
    fn is_asleep(&self) -> bool {
        let tid = self.busy.load(Ordering::SeqCst);
        let stat = fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
        tid != 0 && stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'))
    }
}
