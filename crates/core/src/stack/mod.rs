//! The mediator: owns every object of a stack, carries values between the layers, and knows the whole path of a packet.
//!
//! The verbs that drivers call are here; `ingress` and `egress` read as diagrams of the two directions.
mod control;
mod demux;
mod egress;
mod env;
mod errors;
mod expiry;
mod fastopen;
mod flows;
mod handshake;
mod ingress;
mod ledger;
mod link;
mod lost;
mod query;
mod queue;
mod ready;
mod report;
mod sctp;
mod settle;
mod sockstat;
mod syncookie;
mod tcp;
mod udp;
mod watch;

pub use crate::socket::{Decision, Event, IcmpHeard, ListenAddr, ListenOptions, RequestId};
pub use flows::Flows;
pub use ledger::FlowCredit;
pub use query::{Queues, covers};
pub use report::{Report, SocketKind, SocketReport};
pub use sockstat::Sockstat;
pub use watch::{AssocTurn, DataPacket, Early, WITNESSED_MAX, Witnessed};

use crate::base::hash::KeyedState;
use crate::base::{DeviceId, Error, Instant, Slab, SocketId, Sysctl};
use crate::device::Device;
use crate::ip::{Ip, Outbox};
use crate::offload::{Coalesced, Gro};
use crate::packet::{Owner, Packet};
use crate::sctp::handshake::cookie::CookieKeys;
use crate::sctp::handshake::used::UsedCookies;
use crate::socket::ports::Ports;
use crate::socket::{Events, Facts, Holder, Place, RequestEntry, Table, TwEntry, TwId};
use crate::tcp::syncookie::SynCookies;
use crate::timer::Wheel;
use demux::Demux;
use env::Env;
use expiry::TimerKey;
use fastopen::FastOpenHost;
use link::{LOOPBACK, Link};
use queue::{Handing, Origin};

/// What a stack is made with.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Settings.
    pub sysctl: Sysctl,
    /// Where all chance and all secrets come from.
    pub seed: u64,
}

/// What one call of [`Stack::transmit`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Transmitted {
    /// Packets that the device took (super-packets count as one).
    pub packets: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that the device refused for good; they use up the budget as well.
    pub dropped: usize,
    /// The budget is used up and there may be more: call again after looking at the other work.
    pub more: bool,
    /// The device is full: call [`Stack::device_ready`] when there is room.
    pub stopped: bool,
}

/// Small objects that peers create: requests and TIME-WAIT, and the count of connections without an owner.
#[derive(Debug, Default)]
struct Small {
    requests: Slab<RequestId, RequestEntry>,
    time_waits: Slab<TwId, TwEntry>,
    /// Connections in TIME-WAIT that somebody still holds.
    held_time_waits: usize,
}

/// What handshakes need of the whole stack.
#[derive(Debug)]
struct Openers {
    ports: Ports,
    fastopen: FastOpenHost,
    cookies: SynCookies,
    sctp: CookieKeys,
    /// Of SCTP, those that came back.
    used: UsedCookies,
    /// Headers of the SYN at hand, for listeners that save them.
    syn_head: Vec<u8>,
}

/// What is on its way down.
#[derive(Debug, Default)]
struct Down {
    /// What the IP layer wants done.
    outbox: Outbox,
    /// The packet of a flow on its way to a queue.
    handing: Option<Handing>,
    /// What a checker will ask for; `None` where there is none.
    watch: Option<Vec<Witnessed>>,
}

/// Packets that were received and wait to be processed as one batch.
#[derive(Debug, Default)]
struct Batch {
    gro: Gro,
    /// Where the packets that wait in `gro` came in.
    device: Option<DeviceId>,
    merged: Vec<Coalesced>,
}

/// One stack: an owner, no I/O, no clock. See the crate's documentation for the order of calls.
#[derive(Debug)]
pub struct Stack {
    now: Instant,
    env: Env,
    ip: Ip,
    down: Down,
    links: Vec<Link>,
    batch: Batch,
    sockets: Table,
    small: Small,
    demux: Demux,
    wheel: Wheel<TimerKey>,
    events: Events,
    openers: Openers,
}

impl Stack {
    /// A stack without devices, at `now`.
    #[must_use]
    pub fn new(config: Config, now: Instant) -> Self {
        let env = Env::new(config.sysctl, config.seed);
        let mut keys = env.rng.fork("keys");
        let mut key = || KeyedState::new(keys.next_u64(), keys.next_u64());
        let demux = Demux::new(key());
        let openers = Openers {
            ports: Ports::new(key(), env.rng.fork("ports")),
            fastopen: FastOpenHost::new(&env.rng),
            cookies: SynCookies::new(&mut env.rng.fork("syncookies")),
            sctp: CookieKeys::new(env.rng.fork("sctp-cookies"), now),
            used: UsedCookies::default(),
            syn_head: Vec::new(),
        };
        let mut stack = Self {
            now,
            ip: Ip::new(&mut env.rng.fork("ip")),
            env,
            down: Down::default(),
            links: Vec::new(),
            batch: Batch::default(),
            sockets: Table::new(),
            small: Small::default(),
            demux,
            wheel: Wheel::new(now),
            events: Events::default(),
            openers,
        };
        stack.add_loopback();
        stack
    }

    /// A packet (or a frame, on an Ethernet device) came in. `packet.at` is when it reached this host. Packets that are
    /// received one after another may be merged; they are processed by the next verb of another kind, or by
    /// [`Stack::flush`].
    pub fn receive(&mut self, now: Instant, dev: DeviceId, packet: Packet) {
        self.advance(now);
        self.ingress_frame(dev, packet);
    }

    /// Processes what [`Stack::receive`] has gathered. Every verb that is not `receive` does this first.
    pub fn flush(&mut self, now: Instant) {
        self.enter(now);
    }

    /// A packet that the device had taken has left: its credit comes back. Never sends from inside.
    pub fn complete(&mut self, now: Instant, dev: DeviceId, owner: Owner) {
        self.enter(now);
        debug_assert!(usize::from(dev.0) < self.links.len(), "a device of this stack");
        let Some(link) = self.links.get_mut(usize::from(dev.0)) else { return };
        let aware = self.env.sysctl.tcp_queue_aware;
        link.told.on_told(self.now, aware);
        let from = if link.caps.keeps { Origin::Queue } else { Origin::Beyond };
        if self.credit_back(owner, from) && aware {
            self.links[usize::from(dev.0)].told.on_starved();
        }
    }

    /// A packet that the device had taken was dropped on the way to the wire, and will never leave: counted, and the flow that had
    /// paid for it, `owner`, gets its credit back and reduces once per window. Never sends from inside.
    pub fn dropped(&mut self, now: Instant, dev: DeviceId, owner: Option<Owner>) {
        self.enter(now);
        debug_assert!(usize::from(dev.0) < self.links.len(), "a device of this stack");
        let Some(link) = self.links.get_mut(usize::from(dev.0)) else { return };
        if owner.is_some() {
            link.told.on_told(self.now, self.env.sysctl.tcp_queue_aware);
        }
        let from = if link.caps.keeps { Origin::Queue } else { Origin::Beyond };
        self.dropped_below(owner, from);
    }

    /// The device that was full, or had said "not now", has room again.
    pub fn device_ready(&mut self, now: Instant, dev: DeviceId) {
        self.enter(now);
        if let Some(link) = self.links.get_mut(usize::from(dev.0)) {
            link.stopped = false;
        }
    }

    /// Does what is due. Input that has arrived by then must be given to [`Stack::receive`] before: after a stall of the
    /// driver a timer must not act on news that is already here.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.enter(now);
        self.expire();
        if self.links.len() == 1 {
            self.run_loopback();
        }
    }

    /// Gives `device` up to `budget` packets: flows in turn, then the queueing discipline, then the device.
    pub fn transmit(
        &mut self,
        now: Instant,
        dev: DeviceId,
        budget: usize,
        device: &mut dyn Device,
    ) -> Transmitted {
        self.enter(now);
        self.run_loopback();
        let mut done = self.run_device(dev, budget, device);
        // Datagrams have their turns there, and may all have gone to a queue that lets nothing out yet.
        done.more |= self.links[usize::from(LOOPBACK.0)].wants_transmit(self.now);
        done
    }

    /// The same for one packet of one flow, which leaves whole though a device without offload counts its segments; where no flow waits, for
    /// one of the queueing discipline. For whoever lets time pass between packets.
    pub fn transmit_one(&mut self, now: Instant, dev: DeviceId, device: &mut dyn Device) -> Transmitted {
        self.enter(now);
        self.run_loopback();
        self.run_one(dev, device)
    }

    /// When [`Stack::handle_timeout`] or, for packets with a departure time, [`Stack::transmit`] must be called at the
    /// latest. A time that has passed means "now".
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let queues = self.links.iter().filter_map(Link::wakes_at).min();
        let local = self.links.len() == 1 && self.links[0].wants_transmit(self.now);
        let local = (local || self.batch.device.is_some()).then_some(self.now);
        let all = [self.wheel.next_deadline(), self.ip.next_deadline(), queues, local];
        all.into_iter().flatten().min().filter(|&at| at <= Instant::LAST)
    }

    /// [`Stack::transmit`] has something to do for this device, or for the loopback device.
    #[must_use]
    pub fn needs_transmit(&self, dev: DeviceId) -> bool {
        let wants = |index: usize| self.links.get(index).is_some_and(|l| l.wants_transmit(self.now));
        self.batch.device.is_some() || wants(0) || wants(usize::from(dev.0))
    }

    /// The oldest event that the driver has not taken.
    pub fn next_event(&mut self) -> Option<Event> {
        self.ingress_flush();
        loop {
            let event = match self.events.pop()? {
                Place::Socket(id) => self.tell_socket(id),
                Place::Gone(id) => Some(Event::Gone(id)),
                Place::Incoming(request) => self.tell_incoming(request),
                Place::RequestGone(listener, tuple) => Some(self.tell_gone(listener, tuple)),
            };
            if event.is_some() {
                return event;
            }
        }
    }

    /// The next fact about a socket; what is left keeps its place.
    fn tell_socket(&mut self, id: SocketId) -> Option<Event> {
        let entry = self.sockets.get_mut(id)?;
        if entry.holder != Holder::Owner {
            // What was queued before its owner gave the socket up concerns nobody any more.
            entry.pending = Facts::NONE;
        }
        let event = entry.pending.take(id);
        if !entry.pending.is_empty() {
            self.events.push_front(id);
        }
        event
    }

    /// Nobody gets another socket while too many ends wait to be told.
    const fn check_events(&self) -> Result<(), Error> {
        if self.events.is_full() { Err(Error::NoBuffers) } else { Ok(()) }
    }

    /// The latest instant that a verb was called with.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Time never runs backwards: an earlier instant than the last one is counted and taken as the last one. It ends at
    /// [`Instant::LAST`], so that a deadline that saturates is none: else it would be due again as soon as it was met.
    fn advance(&mut self, now: Instant) {
        if now < self.now {
            self.env.count.own.clock_backwards += 1;
        }
        self.now = self.now.max(now).min(Instant::LAST);
        self.env.count.own.events += 1;
    }

    /// The start of every verb but `receive`: time, then what was received before.
    fn enter(&mut self, now: Instant) {
        self.advance(now);
        self.ingress_flush();
    }
}

#[cfg(test)]
mod tests;
