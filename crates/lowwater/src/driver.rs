//! The loop of the thread that owns a stack and its devices: read, process, hand out, write, wait.
use crate::devices::{Attached, Devices, input, output};
use crate::events::Told;
use crate::port::BATCH_PACKETS;
use crate::registry::Wakes;
use crate::shared::{Inner, Phase, Shared};
use lowwater_core::base::{Duration, Instant, SocketId};
use lowwater_core::sctp;
use lowwater_core::tcp::State;
use lowwater_os::{BusyPoll, Idle, Poller, Ready};
use std::sync::{Arc, MutexGuard};

/// Turns in a row in which timers wait because a device still has input: after a stall news comes before timers, yet a
/// flood does not stop time.
const INPUT_FIRST_TURNS: u32 = 64;

/// How long what is left in the queues may take to leave after the end.
const EMPTY_WITHIN: Duration = Duration::from_secs(1);

/// Whether a device that was just written to is read before the driver sleeps. Bulk data is there by then; where single
/// requests are answered nothing is, and the read that would meet nothing is left out most of the time.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    unasked: u8,
}

impl Answers {
    /// After a read that met nothing, that many are left out.
    const UNASKED: u8 = 15;

    fn asks(&mut self) -> bool {
        let asks = self.unasked == 0;
        self.unasked = self.unasked.saturating_sub(1);
        asks
    }

    fn met(&mut self, something: bool) {
        self.unasked = if something { 0 } else { Self::UNASKED };
    }
}

/// What the driver does after having processed.
enum Next {
    /// There is more to do.
    Go,
    /// Nothing until then.
    Sleep(Instant),
    /// The stack has ended.
    Stop,
}

/// What a stint of the driver left.
pub(crate) enum Rest {
    /// There is more to do.
    More,
    /// Nothing until then.
    Until(Instant),
    /// The stack has ended.
    Over,
}

/// How long the driver works before others may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stint {
    /// Until there is nothing to do: the thread is its own.
    Whole,
    #[cfg_attr(not(feature = "tokio"), expect(dead_code, reason = "only a task shares its thread"))]
    /// For so many turns, or to the end of one that wakes somebody: whoever is woken may be waiting for this very thread.
    Shared(u32),
}

impl Stint {
    /// After a turn; true when it is over.
    fn ends(&mut self, woke: bool) -> bool {
        let Self::Shared(turns) = self else { return false };
        *turns = turns.saturating_sub(1);
        woke || *turns == 0
    }
}

/// The loop that serves one stack. [`Builder::build`](crate::Builder::build) runs it on a thread of its own;
/// [`Builder::build_driver`](crate::Builder::build_driver) hands it out.
pub struct Driver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) poller: Poller,
    pub(crate) input_first: u32,
    pub(crate) busy_poll: BusyPoll,
    /// The builder was told how long to look; a thread looks without being told, a task does not.
    #[cfg_attr(not(feature = "tokio"), expect(dead_code, reason = "only tasks ask"))]
    pub(crate) told_to_poll: bool,
    pub(crate) answers: Answers,
    /// The devices were read in this turn: timers come after what has arrived.
    pub(crate) looked: bool,
    /// Who hears of changes, where somebody asked.
    pub(crate) told: Option<Told>,
}

impl Driver {
    /// Serves the stack on the calling thread until [`crate::Stack::shutdown`] has ended, or until all handles are gone and
    /// what they had opened has closed.
    pub fn run(mut self) {
        // Only costs precision where it fails.
        let _ = lowwater_os::poll::precise_timers();
        self.serve();
        self.stop();
    }

    fn serve(&mut self) {
        let shared = self.shared.clone();
        let mut ready = Vec::new();
        let mut wakes = Wakes::new();
        let mut looked = None;
        loop {
            let (at, devices) = looked.take().unwrap_or_else(|| self.look(&shared, &mut ready));
            match self.work(at, devices, &mut wakes, Stint::Whole) {
                Rest::Over => return,
                Rest::More => {}
                Rest::Until(until) => {
                    looked = self.look_around(&shared, until);
                    if looked.is_none()
                        && let Err(why) = self.poller.wait(&shared.clock, Some(until), &mut ready)
                    {
                        let failure = &mut shared.lock().failure;
                        failure.get_or_insert_with(|| format!("the stack's thread cannot wait: {why}"));
                        return;
                    }
                }
            }
        }
    }

    /// The devices after a sleep that `ready` has ended, read, and the one look at the clock of a turn: timers see the time before the devices were
    /// read.
    pub(crate) fn look<'a>(
        &mut self,
        shared: &'a Shared,
        ready: &mut Vec<Ready>,
    ) -> (Instant, MutexGuard<'a, Devices>) {
        let mut devices = shared.devices();
        if ready.drain(..).any(|ready| ready.news) {
            devices.news_at = Instant::ZERO;
        }
        let at = shared.clock.now();
        self.busy_poll.on_something(at);
        self.looked = true;
        devices.read(at);
        (at, devices)
    }

    /// Turns with devices that were just read, until there is nothing to do or the stint is over; then what changed is told. Packets have left
    /// by then, whom they make ready is awake, and no lock is held: the hook is the program's code, which may be slow or panic.
    pub(crate) fn work(
        &mut self,
        at: Instant,
        devices: MutexGuard<'_, Devices>,
        wakes: &mut Wakes,
        stint: Stint,
    ) -> Rest {
        let rest = self.turns(at, devices, wakes, stint);
        if let Some(told) = &mut self.told {
            told.tell();
        }
        rest
    }

    fn turns(
        &mut self,
        mut at: Instant,
        mut devices: MutexGuard<'_, Devices>,
        wakes: &mut Wakes,
        mut stint: Stint,
    ) -> Rest {
        loop {
            let next = self.process(at, &mut devices, wakes);
            let woke = !wakes.is_empty();
            if !matches!(next, Next::Sleep(_)) {
                wakes.wake();
            }
            let wrote = devices.write(at);
            match next {
                Next::Stop => return Rest::Over,
                Next::Sleep(until) if !wrote => {
                    let until = until.min(devices.wake_at(at));
                    devices.asleep_until = until;
                    devices.watch.rest();
                    drop(devices);
                    // Only now: whoever is woken and sends finds the devices free, and need not wake the driver for it.
                    wakes.wake();
                    return Rest::Until(until);
                }
                Next::Go => {}
                Next::Sleep(_) => wakes.wake(),
            }
            if stint.ends(woke) || self.told.as_ref().is_some_and(Told::has_news) {
                return Rest::More;
            }
            at = self.shared.clock.now();
            self.busy_poll.on_something(at);
            self.looked = !wrote || devices.have_more_input() || self.answers.asks();
            if self.looked {
                let came = devices.read(at);
                if wrote {
                    self.answers.met(came);
                }
            }
        }
    }

    /// Busy polling: the time once there is something to do, and what has come by then is read; `None` when it is time to
    /// sleep. Other threads that want this processor get it at each look, and may send by themselves between two.
    fn look_around<'a>(
        &mut self,
        shared: &'a Shared,
        until: Instant,
    ) -> Option<(Instant, MutexGuard<'a, Devices>)> {
        if !self.busy_poll.is_on() {
            return None;
        }
        let mut now = shared.clock.now();
        while self.busy_poll.on_nothing(now) == Idle::Look {
            std::thread::yield_now();
            match self.glance(shared, until) {
                Ok(looked) => return Some(looked),
                Err(at) => now = at,
            }
        }
        None
    }

    /// One look at the devices: the time and what has come by then, if there is something to do; else only the time.
    pub(crate) fn glance<'a>(
        &mut self,
        shared: &'a Shared,
        until: Instant,
    ) -> Result<(Instant, MutexGuard<'a, Devices>), Instant> {
        let mut devices = shared.devices();
        // After what another thread has sent meanwhile.
        let now = shared.clock.now();
        // Before the devices: what rang after they were read is heard by the next look.
        let rung = self.poller.take_wake();
        if devices.read(now) || rung || now >= until {
            // Every device was read: what is due comes after that.
            self.looked = true;
            self.busy_poll.on_something(now);
            return Ok((now, devices));
        }
        if core::mem::take(&mut devices.sent_beside) {
            // As if it had been sent here: a new wait begins.
            self.busy_poll.on_something(now);
        }
        Err(now)
    }

    /// A turn: what came in, what is due, what goes out, who is woken.
    fn process(&mut self, at: Instant, devices: &mut Devices, wakes: &mut Wakes) -> Next {
        let timers = if self.looked { Some(&mut self.input_first) } else { None };
        // The one that goes is the program's code. Declared before the lock is taken, it goes after that is free also where this panics.
        let observer;
        let mut inner = self.shared.lock();
        observer = inner.observer.take();
        let next = turn(&mut inner, at, timers, devices, wakes);
        if let Some(told) = &mut self.told {
            told.gather(&inner.core);
        }
        drop(inner);
        if let Some(observer) = observer {
            devices.watch.observer = observer;
        }
        next
    }

    /// Nobody is left waiting for a stack that has ended, however it ended.
    fn stop(&mut self) {
        // Last, also where the program's code panics when it goes.
        let _end = End { shared: &self.shared };
        // Handles may live on; what the stack had of the system and of the program does not, before anybody hears of the end.
        let _observer = self.shared.lock().observer.take();
        let _told = self.told.take();
        let _devices = core::mem::take(&mut *self.shared.devices());
    }
}

/// The end itself, which everybody hears of.
struct End<'a> {
    shared: &'a Shared,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut wakes = Wakes::new();
        let mut inner = self.shared.lock();
        inner.phase = match inner.phase {
            Phase::Emptying(_, aborted) | Phase::Stopped(aborted) => Phase::Stopped(aborted),
            Phase::Running | Phase::Draining(_) => {
                Phase::Stopped(inner.registry.ids().filter(|&id| loses_something(&inner, id)).count())
            }
        };
        if std::thread::panicking() {
            inner.failure.get_or_insert_with(|| "who served the stack has panicked".to_owned());
        }
        inner.registry.wake_everybody(&mut wakes);
        inner.sets.wake_everybody(&mut wakes);
        inner.asks.wake_everybody(&mut wakes);
        wakes.extend(inner.mourners.drain(..));
        // One that has come meanwhile.
        let observer = inner.observer.take();
        drop(inner);
        drop(wakes);
        drop(observer);
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.stop();
    }
}

/// [`Driver::process`] under the lock. Timers have their turn where the devices were read, unless input has gone before so many times.
fn turn(
    inner: &mut Inner,
    at: Instant,
    timers: Option<&mut u32>,
    devices: &mut Devices,
    wakes: &mut Wakes,
) -> Next {
    inner.asleep = None;
    // A handle may have looked at the clock since.
    let now = at.max(inner.core.now());
    let mut more_input = false;
    for attached in &mut devices.ports {
        input(inner, now, attached);
        more_input |= attached.more_input;
    }
    inner.core.flush(now);
    match timers {
        Some(input_first) if more_input && *input_first < INPUT_FIRST_TURNS => *input_first += 1,
        Some(input_first) => {
            *input_first = 0;
            inner.core.handle_timeout(now);
        }
        None => {}
    }
    end(inner, now);
    let mut collected = false;
    for attached in &mut devices.ports {
        collected |= output(inner, now, attached, BATCH_PACKETS);
    }
    inner.dispatch(now, wakes);
    if stopped(inner, now, devices) {
        return Next::Stop;
    }
    // What closed last may have done so just now, among sockets of this stack alone.
    if more_input || collected || inner.is_drained() || devices.ports.iter().any(Attached::has_news) {
        return Next::Go;
    }
    let mut until = inner.core.next_deadline().unwrap_or(Instant::FAR_FUTURE);
    if let Phase::Draining(end) | Phase::Emptying(end, _) = inner.phase {
        until = until.min(end);
    }
    let waits = |p: &Attached| inner.core.needs_transmit(p.id) && p.outbox.is_empty();
    if until <= now || devices.ports.iter().any(waits) {
        return Next::Go;
    }
    inner.asleep = Some(until);
    Next::Sleep(until)
}

/// Ends a stack that drains, when nothing closes in the background any more or its time is over: what is left is aborted.
fn end(inner: &mut Inner, now: Instant) {
    let Phase::Draining(until) = inner.phase else { return };
    if !inner.is_drained() && now < until {
        return;
    }
    let mut aborted = inner.core.abort_orphans(now);
    let held: Vec<_> = inner.registry.ids().collect();
    for id in held {
        let lost = loses_something(inner, id);
        let ended = inner.core.peer_addr(id).is_ok() && inner.core.abort(now, id).is_ok();
        aborted += usize::from(ended && lost);
    }
    inner.phase = Phase::Emptying(now + EMPTY_WITHIN, aborted);
}

/// A connection or an association that is not over. In TIME-WAIT both directions are.
fn loses_something(inner: &Inner, id: SocketId) -> bool {
    if inner.core.is_listener(id) {
        return false;
    }
    match (inner.core.tcp_state(id), inner.core.sctp_state(id)) {
        (Ok(state), _) => !matches!(state, State::TimeWait | State::Close),
        (_, Ok(state)) => state != sctp::State::Closed,
        // A datagram socket, whose peer is but an address.
        _ => false,
    }
}

/// The end of the end: true when nothing waits to leave, or it has waited long enough.
fn stopped(inner: &Inner, now: Instant, devices: &Devices) -> bool {
    let Phase::Emptying(until, _) = inner.phase else { return false };
    let waits =
        |dev| inner.core.needs_transmit(dev) || inner.core.qdisc(dev).is_some_and(|q| q.stats.qlen > 0);
    let mut here = inner.devices.iter().any(|&dev| waits(dev));
    // Whose link address is asked for.
    inner.core.ip().neighbours().each_waiting(&mut |_| here = true);
    now >= until || !(here || devices.ports.iter().any(Attached::holds_something))
}

#[cfg(test)]
mod tests;
