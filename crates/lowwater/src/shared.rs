//! What a stack's driver and its handles share: the core under one lock, and the rule by which a handle wakes the driver.
//!
//! Lock order: the lock of [`Shared`] first, locks of links in memory never inside it (the driver calls ports without it);
//! wakers are woken and bells rung with no lock held. System calls and the application's code never run under it, but for what ends with the
//! last reference to a buffer (`Bytes::from_owner`), what a port says of itself (`Port::room`, `Port::needs_flush`) and the clone of a waker.
use crate::asks::Asks;
use crate::devices::{Devices, input, output};
use crate::error::stopped;
use crate::observe::Observer;
use crate::ready::Sets;
use crate::registry::{Registry, Side, Wakes};
use crate::sctp::Endpoints;
use lowwater_core::base::{DeviceId, Instant, SocketId};
use lowwater_core::socket::ready_set::bit;
use lowwater_core::stack::{Event, Stack as Core};
use lowwater_core::tcp::Ready;
use lowwater_os::{Clock, Waker as Bell};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// How long connections may still close in the background after the last handle of a stack is gone.
const LINGER_AFTER_LAST_HANDLE: Duration = Duration::from_secs(60);

/// Up to so many bytes a call is brief: handing them down takes about as long as waking the driver.
pub(crate) const BRIEF_BYTES: usize = 4_096;
/// Packets that a thread gives to a device in the place of the driver.
const BRIEF_PACKETS: usize = 4;

/// How far a stack's life is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It works.
    Running,
    /// It waits until this instant for connections that close in the background.
    Draining(Instant),
    /// So many connections were aborted. Until this instant their resets have time to leave the queues, and what the peers answer to one
    /// that has overtaken their data is answered.
    Emptying(Instant, usize),
    /// The driver has ended, after aborting this many connections.
    Stopped(usize),
}

impl Phase {
    /// Nothing can be done with the stack any more.
    pub(crate) const fn is_over(self) -> bool {
        matches!(self, Self::Emptying(..) | Self::Stopped(_))
    }
}

/// What the lock protects.
pub(crate) struct Inner {
    pub(crate) core: Core,
    pub(crate) registry: Registry,
    pub(crate) asks: Asks,
    pub(crate) endpoints: Endpoints,
    pub(crate) sets: Sets,
    pub(crate) devices: Vec<DeviceId>,
    pub(crate) phase: Phase,
    /// Until when the driver sleeps; `None` while it is awake and will look again before it sleeps.
    pub(crate) asleep: Option<Instant>,
    /// The call at hand sends so little that its thread may as well give it to the device.
    pub(crate) brief: bool,
    /// Who waits for the end of the stack.
    pub(crate) mourners: Vec<Waker>,
    /// An observer on its way to the driver.
    pub(crate) observer: Option<Option<Observer>>,
    /// The first failure of a device.
    pub(crate) failure: Option<String>,
}

impl Inner {
    /// Hands the core's events to those who wait for them.
    pub(crate) fn dispatch(&mut self, now: Instant, wakes: &mut Wakes) {
        while let Some(event) = self.core.next_event() {
            match event {
                Event::Readable(id) => self.wake(id, Some(Side::Read), wakes),
                Event::Writable(id) => self.wake(id, Some(Side::Write), wakes),
                Event::Connected(id) => self.wake(id, None, wakes),
                Event::Closed(id) => {
                    self.wake(id, None, wakes);
                    self.reap(now, id, wakes);
                }
                Event::Accepted(id) => {
                    self.adopt(now, id, wakes);
                    self.wake(id, Some(Side::Read), wakes);
                }
                Event::Incoming { listener, request, tuple } => {
                    self.asks.incoming(listener, request, tuple);
                    self.wake(listener, Some(Side::Read), wakes);
                }
                Event::RequestGone { listener, tuple } => self.asks.gone(listener, &tuple, wakes),
                Event::Gone(_) => {}
            }
        }
    }

    /// An edge on one side of a socket, or on both: those who wait for it, and sets that watch it.
    pub(crate) fn wake(&mut self, id: SocketId, side: Option<Side>, wakes: &mut Wakes) {
        let change = match side {
            Some(side) => {
                self.registry.wake(id, side, wakes);
                // Reading has its errors and its ends.
                if side == Side::Read { bit::ANY & !(bit::OUT | bit::WRNORM) } else { bit::OUT | bit::WRNORM }
            }
            None => {
                self.registry.wake_all(id, wakes);
                bit::ANY
            }
        };
        self.sets.wake(id, change, wakes);
        if let Some(endpoint) = self.endpoints.of(id) {
            self.endpoints.list(id, self.core.sctp_arrival(id));
            if side != Some(Side::Read) {
                self.endpoints.set_full(id, false);
            }
            self.wake(endpoint, side, wakes);
        }
    }

    /// An association of a one-to-many socket is given back once nothing of it is left to be told.
    pub(crate) fn reap(&mut self, now: Instant, id: SocketId, wakes: &mut Wakes) {
        if self.endpoints.is_over(&self.core, id) {
            self.endpoints.leave(id);
            let _ = self.core.close(now, id);
            self.registry.remove(id, wakes);
        }
    }

    /// Level readiness of a socket that a handle holds.
    pub(crate) fn poll(&mut self, now: Instant, id: SocketId) -> Ready {
        match self.endpoints.knows(id) {
            true => self.endpoints.poll(&self.core, id),
            false => self.core.poll(now, id),
        }
    }

    /// Associations go to their one-to-many socket at once.
    fn take_in(&mut self, now: Instant, endpoint: SocketId, wakes: &mut Wakes) {
        while let Ok((id, _)) = self.core.sctp_accept(now, endpoint) {
            if self.endpoints.is_full(endpoint) {
                let _ = self.core.abort(now, id);
                continue;
            }
            self.registry.insert(id);
            self.endpoints.join(endpoint, id, false);
            self.endpoints.list(id, self.core.sctp_arrival(id));
            // It may have ended before anybody could hear of it.
            self.reap(now, id, wakes);
        }
    }

    /// Connections of a listener that asks go to whoever decided about them.
    fn adopt(&mut self, now: Instant, listener: SocketId, wakes: &mut Wakes) {
        if self.endpoints.knows(listener) {
            return self.take_in(now, listener, wakes);
        }
        if !self.asks.knows(listener) {
            return;
        }
        while let Ok((child, peer)) = self.core.tcp_accept(now, listener) {
            let local = self.core.local_addr(child);
            if local.is_ok_and(|local| self.asks.arrived(listener, local, peer, child, wakes)) {
                self.registry.insert(child);
            } else {
                // Nobody waits for it any more.
                let _ = self.core.abort(now, child);
            }
        }
    }

    /// The core has something for the driver that should not wait until `until`.
    pub(crate) fn has_work(&self, until: Instant) -> bool {
        self.devices.iter().any(|&dev| self.core.needs_transmit(dev))
            || self.core.next_deadline().is_some_and(|at| at < until)
    }

    /// Sockets that nobody holds any more and that still close in the background.
    pub(crate) fn background(&self) -> usize {
        self.core.open_sockets().saturating_sub(self.registry.open())
    }

    /// It drains, and nothing closes in the background any more.
    pub(crate) fn is_drained(&self) -> bool {
        matches!(self.phase, Phase::Draining(_)) && self.background() == 0
    }

    /// Starts draining: listeners go at once, with what waits in their backlogs.
    pub(crate) fn drain(&mut self, now: Instant, until: Instant, wakes: &mut Wakes) {
        match self.phase {
            Phase::Running => {
                self.phase = Phase::Draining(until);
                let listeners: Vec<SocketId> =
                    self.registry.ids().filter(|&id| self.is_listener(id)).collect();
                for &id in &listeners {
                    let _ = self.core.close(now, id);
                    self.forsake(now, id, wakes);
                    // Nothing comes there any more.
                    self.wake(id, None, wakes);
                }
                self.registry.shut(listeners);
            }
            Phase::Draining(before) => self.phase = Phase::Draining(before.min(until)),
            Phase::Emptying(..) | Phase::Stopped(_) => {}
        }
    }

    /// A listener is gone, if it was one: so are connections that were accepted before they existed, and have not been fetched.
    pub(crate) fn forsake(&mut self, now: Instant, listener: SocketId, wakes: &mut Wakes) {
        for child in self.asks.remove(listener, wakes) {
            let _ = self.core.abort(now, child);
            self.registry.remove(child, wakes);
        }
    }

    fn is_listener(&self, id: SocketId) -> bool {
        self.core.is_listener(id)
    }
}

/// One stack as its driver and its handles see it.
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    /// Held by whoever serves them; taken before `inner` where both are.
    pub(crate) devices: Mutex<Devices>,
    pub(crate) clock: Clock,
    pub(crate) bell: Bell,
    handles: AtomicUsize,
}

impl Shared {
    pub(crate) fn new(inner: Inner, devices: Devices, clock: Clock, bell: Bell) -> Arc<Self> {
        let (inner, devices, handles) = (Mutex::new(inner), Mutex::new(devices), AtomicUsize::new(0));
        Arc::new(Self { inner, devices, clock, bell, handles })
    }

    /// Runs `f` under the lock and tells everybody what came of it. If the driver sleeps and has work now, little of it is done here
    /// and it is woken for more.
    pub(crate) fn enter<R>(&self, f: impl FnOnce(&mut Inner, Instant, &mut Wakes) -> R) -> R {
        let mut wakes = Wakes::new();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock, so that the core's time never runs backwards.
        let now = self.clock.now();
        inner.brief = false;
        let result = f(&mut inner, now, &mut wakes);
        inner.dispatch(now, &mut wakes);
        let sleeps = inner.asleep.is_some_and(|until| inner.has_work(until));
        if sleeps {
            // From here on somebody looks again, so that nobody else need wake anybody.
            inner.asleep = None;
        }
        // An observer on its way is to see what follows.
        let brief = inner.brief && inner.phase == Phase::Running && inner.observer.is_none();
        drop(inner);
        if sleeps && !(brief && self.send_here(&mut wakes)) {
            self.bell.wake();
        }
        wakes.wake();
        result
    }

    /// Gives the devices what there is for them, in the place of the driver, which sleeps and is spared two changes of threads. True when it
    /// may sleep on: all is sent, and nothing is due before it wakes.
    pub(crate) fn send_here(&self, wakes: &mut Wakes) -> bool {
        // Else the driver is just about to sleep, or awake again.
        let Ok(mut devices) = self.devices.try_lock() else { return false };
        if !devices.may_be_served_beside() {
            return false;
        }
        let mut inner = self.lock();
        let now = self.clock.now();
        for attached in &mut devices.ports {
            output(&mut inner, now, attached, BRIEF_PACKETS);
        }
        drop(inner);
        devices.sent_beside = devices.write(now);
        let mut inner = self.lock();
        let now = now.max(inner.core.now());
        for attached in &mut devices.ports {
            input(&mut inner, now, attached);
        }
        inner.dispatch(now, wakes);
        // The driver may have woken and gone to sleep again since it was found asleep: what counts is its last word.
        let done = devices.are_at_rest(now) && !inner.has_work(devices.asleep_until);
        if done {
            inner.asleep = Some(devices.asleep_until);
        }
        done
    }

    /// The devices, for whoever serves them.
    pub(crate) fn devices(&self) -> MutexGuard<'_, Devices> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Shared::enter`], while the stack lives.
    pub(crate) fn enter_live<R>(
        &self,
        f: impl FnOnce(&mut Inner, Instant, &mut Wakes) -> io::Result<R>,
    ) -> io::Result<R> {
        self.enter(|inner, now, wakes| match inner.phase {
            Phase::Emptying(..) | Phase::Stopped(_) => Err(stopped()),
            Phase::Running | Phase::Draining(_) => f(inner, now, wakes),
        })
    }

    /// The lock for the driver, which hands out events and wakes by itself.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the handles on a stack. The driver ends when the last one is gone and the background closes are done.
pub(crate) struct Handle(pub(crate) Arc<Shared>);

impl Handle {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        shared.handles.fetch_add(1, Ordering::Relaxed);
        Self(shared.clone())
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        Self::new(&self.0)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.0.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.enter(|inner, now, wakes| inner.drain(now, now + LINGER_AFTER_LAST_HANDLE, wakes));
            self.0.bell.wake();
        }
    }
}

impl std::ops::Deref for Handle {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}
