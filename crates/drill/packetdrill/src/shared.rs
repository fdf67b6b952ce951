//! The one machine of the process behind its lock: who drives the clock, who sleeps until woken, and what time the woken sees.
use crate::counted::Files;
use crate::device;
use crate::driver::{Driver, this_thread, waits_for_another};
use crate::failure::{die, say};
use crate::flags::Flags;
use crate::machine::{Blocked, Machine, Outcome, Sniffed};
use bytes::Bytes;
use core::cell::Cell;
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use lowwater_core::base::counters::Counters;
use lowwater_posix::{Call, Errno, Fd, Reply};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use std::{env, fs, thread};

/// Between two looks of a sleeping caller at the driving thread. packetdrill waits up to a second for a call that blocks, outside of this object,
/// before the next call and at the end of a script: a caller that finds it asleep twice lets that second pass.
const LOOK: Duration = Duration::from_millis(20);
/// Between two looks of the driving thread at one whose call is over, and how many there are at the most.
const BACK_LOOK: Duration = Duration::from_micros(100);
const BACK_LOOKS: usize = 5_000;
/// Steps of the clock within one call after which the stack is taken to spin.
const STEPS_MAX: usize = 10_000_000;

thread_local! {
    /// This thread made the machine. Its calls that block move the clock; those of packetdrill's second thread sleep.
    static DRIVES: Cell<bool> = const { Cell::new(false) };
    /// When this thread's last call that blocked was over, until it asks for the time.
    static WOKEN_AT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The machine, from `packetdrill_interface_init` until `free`.
#[derive(Debug)]
pub(crate) struct Shared {
    machine: Mutex<Option<Machine>>,
    /// Where the commands of the run look for the counters, once one has run.
    counted: Mutex<Option<Files>>,
    /// A call that had blocked is over.
    over: Condvar,
    /// Who drives the clock.
    driver: Driver,
    /// Machines that this process has had: packetdrill runs every script of its command line with one of its own.
    runs: AtomicUsize,
    /// Callers asleep in calls that block.
    asleep: AtomicUsize,
    /// The thread whose call that had blocked is over, while it has made no other; 0 for none.
    back: AtomicI32,
}

/// What the C functions work on: packetdrill's calls of libc that are redirected bring no pointer with them.
pub(crate) static SHARED: Shared = Shared {
    machine: Mutex::new(None),
    counted: Mutex::new(None),
    over: Condvar::new(),
    driver: Driver::new(),
    runs: AtomicUsize::new(0),
    asleep: AtomicUsize::new(0),
    back: AtomicI32::new(0),
};

impl Shared {
    /// Makes the machine; the calling thread drives its clock. Flags that do not fit end the process: the interface has no other way to
    /// refuse.
    pub(crate) fn start(&self, flags: &str, count_children: fn() -> u64) {
        let args: Vec<String> = env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        // packetdrill has read the script already, and what came through a pipe comes no second time.
        let text =
            |path: &str| fs::metadata(path).is_ok_and(|is| is.is_file()).then(|| fs::read_to_string(path));
        let flags = Flags::of_run(flags, &args, run, |path| text(path)?.ok());
        let machine = flags.and_then(|flags| {
            device::make(&flags);
            Machine::new(&flags, count_children)
        });
        match machine {
            Ok(machine) => *self.lock() = Some(machine),
            Err(what) => die(&format!("--so_flags, or packetdrill's own options: {what}")),
        }
        DRIVES.set(true);
        self.driver.is_this();
    }

    /// Ends the machine.
    pub(crate) fn end(&self) {
        let machine = self.lock().take();
        drop(self.files().take());
        self.over.notify_all();
        machine.into_iter().for_each(Machine::end);
    }

    /// What the stack did last, for a process that ends before [`Shared::end`]. Nothing where somebody holds the lock for good.
    pub(crate) fn last_words(&self) {
        let files = match self.counted.try_lock() {
            Ok(mut files) => files.take(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        };
        drop(files);
        let mut guard = match self.machine.try_lock() {
            Ok(guard) => guard,
            // The stack panicked in this very call: its records are what is asked for.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let records = guard.as_mut().map(Machine::last_records).unwrap_or_default();
        if !records.is_empty() {
            say("the run failed; what the stack did last, by its own clock:");
            records.iter().for_each(|record| say(&format!("  {record}")));
        }
    }

    /// Makes a call and waits for its end: asleep, or, in the thread that drives the clock, by letting time pass.
    pub(crate) fn call(&self, call: Call) -> Reply {
        let drives = DRIVES.get();
        if !drives {
            // Its own result, not that of another thread.
            let _ = self.back.compare_exchange(this_thread(), 0, Ordering::SeqCst, Ordering::SeqCst);
        }
        match self.with(|machine| machine.call(call, !drives)) {
            Some(Outcome::Done(reply)) => reply,
            Some(Outcome::Blocked(blocked)) if drives => self.drive(blocked),
            Some(Outcome::Blocked(blocked)) => {
                self.asleep.fetch_add(1, Ordering::SeqCst);
                let reply = self.wait(blocked);
                self.asleep.fetch_sub(1, Ordering::SeqCst);
                reply
            }
            None => Reply::fail(Errno::EBADF),
        }
    }

    /// What a shell runs before a command of the script, so that this finds the stack's counters as they are now; `None` without a machine. Where
    /// there is no place for files the process ends: the command would find the kernel's, and perhaps like them.
    pub(crate) fn before_command(&self) -> Option<Vec<u8>> {
        let counters = self.with(|machine| machine.counters().clone())?;
        let mut files = self.files();
        let exports = written(&mut files, self.runs.load(Ordering::Relaxed), &counters);
        drop(files);
        match exports {
            Ok(exports) => Some(exports),
            Err(why) => die(&format!("commands cannot see the stack's counters: {why}")),
        }
    }

    /// Lets so many microseconds pass.
    pub(crate) fn sleep(&self, us: u64) {
        self.with(|machine| machine.sleep(us));
        if DRIVES.get() {
            self.let_back();
            // What it has waited for is no command of the script.
            self.driver.leaves();
        }
    }

    /// Gives a thread whose call is over the time to go where it waits for the next one. packetdrill works on a result under its one lock, and
    /// gives that away while it sleeps: by a kernel's clock for long enough, by this one for no time at all, so that a snippet behind a sleep
    /// would not know the connection that accept() has brought before it.
    fn let_back(&self) {
        for _ in 0..BACK_LOOKS {
            if !self.comes_back() {
                break;
            }
            thread::sleep(BACK_LOOK);
        }
        self.back.store(0, Ordering::SeqCst);
    }

    fn comes_back(&self) -> bool {
        // A thread passes from the one to the other under the lock: looked at in this order it is seen in one of them.
        let woken =
            self.asleep.load(Ordering::SeqCst) > 0 && self.lock().as_ref().is_some_and(Machine::has_finished);
        let back = self.back.load(Ordering::SeqCst);
        woken || back != 0 && waits_for_another(back) == Some(false)
    }

    /// A packet comes in.
    pub(crate) fn inject(&self, packet: Bytes) {
        self.with(|machine| machine.inject(packet));
    }

    /// The next packet that was or will be sent; `None`: there will never be one.
    pub(crate) fn next_packet(&self) -> Option<Sniffed> {
        self.with(Machine::next_packet).flatten()
    }

    /// The time in microseconds, one later each time, in whatever thread: the second one too waits in a loop for the time at which its
    /// call begins. A thread whose call had blocked sees at first when that call was over, however far the clock has been driven
    /// meanwhile: packetdrill takes this time for the end of the call.
    pub(crate) fn clock(&self) -> u64 {
        WOKEN_AT.take().unwrap_or_else(|| self.with(Machine::clock).unwrap_or_default())
    }

    /// The same without the microsecond that a look takes: scripts that tests run may be exact to one.
    #[cfg(test)]
    pub(crate) fn glance(&self) -> u64 {
        WOKEN_AT.take().unwrap_or_else(|| self.with(|machine| machine.now()).unwrap_or_default())
    }

    /// The descriptor is one of the machine's.
    pub(crate) fn has(&self, fd: Fd) -> bool {
        self.lock().as_ref().is_some_and(|machine| machine.has(fd))
    }

    /// Works on the machine and wakes those whose calls are over by that; `None` without a machine.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Machine) -> T) -> Option<T> {
        let drives = DRIVES.get();
        let away = drives.then(|| self.driver.comes());
        let mut guard = self.lock();
        let machine = guard.as_mut()?;
        away.into_iter().for_each(|away| machine.slept(away));
        let result = work(machine);
        if drives {
            self.driver.leaves();
        }
        if machine.has_finished() {
            self.over.notify_all();
        }
        Some(result)
    }

    /// Nobody else lets time pass while the driving thread waits: it does so itself.
    fn drive(&self, blocked: Blocked) -> Reply {
        for _ in 0..STEPS_MAX {
            let step = self.with(|machine| match machine.take(blocked) {
                Some((_, reply)) => Ok(Some(reply)),
                None if machine.step() => Ok(None),
                None => Err(()),
            });
            match step {
                Some(Ok(Some(reply))) => return reply,
                Some(Ok(None)) => {}
                Some(Err(())) => die("this call blocks, and nothing will ever happen that could end it"),
                None => return Reply::fail(Errno::EBADF),
            }
        }
        die("this call blocks, and the stack's timers spin")
    }

    /// Sleeps interruptibly (packetdrill looks for state S in /proc) and without the lock. While nobody else moves the clock, since the
    /// driving thread waits outside for this very call, time passes by itself, as it would by a kernel's clock.
    fn wait(&self, blocked: Blocked) -> Reply {
        let mut guard = self.lock();
        // What the driving thread did when it was found asleep, and how often.
        let mut asleep = (0, 0);
        loop {
            let Some(machine) = guard.as_mut() else { return Reply::fail(Errno::EBADF) };
            if let Some((at, reply)) = machine.take(blocked) {
                WOKEN_AT.set(Some(at));
                // Before the lock is given back: one of the two is always seen.
                self.back.store(this_thread(), Ordering::SeqCst);
                return reply;
            }
            let (woken, look) = self.over.wait_timeout(guard, LOOK).unwrap_or_else(PoisonError::into_inner);
            guard = woken;
            let verbs = self.driver.verbs();
            if !(look.timed_out() && self.driver.waits()) {
                continue;
            }
            asleep = if asleep.0 == verbs { (verbs, asleep.1 + 1) } else { (verbs, 1) };
            if let (2, Some(machine)) = (asleep.1, guard.as_mut()) {
                machine.elapse();
            }
        }
    }

    fn files(&self) -> MutexGuard<'_, Option<Files>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Machine>> {
        // After a panic the process ends; until then there is nothing better than what is there.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the counters into the run's files, which are made where there are none; what a shell runs to find them.
fn written(files: &mut Option<Files>, run: usize, counters: &Counters) -> Result<Vec<u8>, String> {
    let files = match files {
        Some(files) => files,
        none => none.insert(Files::make(run)?),
    };
    files.write(counters).map_err(|e| e.to_string())?;
    Ok(files.exports())
}
