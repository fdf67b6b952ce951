//! Neighbours on Ethernet: the states of RFC 4861 section 7.3 for ARP and ND alike, with bounded queues of waiting packets.
use crate::base::limits::{NEIGHBOUR_QUEUE_PACKETS, NEIGHBOURS_MAX};
use crate::base::{Cx, DeviceId, DropWhy, Duration, Instant};
use crate::packet::Packet;
use core::net::IpAddr;
use lowwater_wire::ether::EtherAddr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Time between solicitations (`retrans_time_ms`).
pub const RETRANS_TIME: Duration = Duration::from_secs(1);
/// Solicitations before giving up (`mcast_solicit`, `ucast_solicit`).
pub const SOLICITATIONS: u8 = 3;
/// Base of the time for which a neighbour is believed reachable (`base_reachable_time_ms`); each time 0.5 to 1.5 of it.
pub const BASE_REACHABLE_TIME: Duration = Duration::from_secs(30);
/// How long upper layers may confirm a stale neighbour before it is probed (`delay_first_probe_time`).
pub const DELAY_FIRST_PROBE: Duration = Duration::from_secs(5);
/// How long an unused stale neighbour is remembered (`gc_stale_time`).
pub const GC_STALE_TIME: Duration = Duration::from_secs(60);

type Key = (DeviceId, IpAddr);

/// What is known of a neighbour (RFC 4861 section 7.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Asked for, not answered: packets wait.
    Incomplete,
    /// Confirmed not long ago.
    Reachable,
    /// Known, but not confirmed for a while; used until something is sent.
    Stale,
    /// Something was sent to a stale one: an upper layer may confirm it.
    Delay,
    /// Being asked by unicast.
    Probe,
}

#[derive(Debug)]
struct Entry {
    state: State,
    mac: EtherAddr,
    /// Solicitations sent in this state.
    tries: u8,
    deadline: Instant,
    /// When an upper layer last confirmed it.
    confirmed: Instant,
    /// Something has been sent to it, or waits to be.
    used: bool,
    /// Its place in the order of eviction.
    worth: Worth,
    queue: VecDeque<Packet>,
}

impl Entry {
    const fn new(state: State, deadline: Instant) -> Self {
        Self {
            state,
            mac: EtherAddr::ZERO,
            tries: 0,
            deadline,
            confirmed: Instant::ZERO,
            used: false,
            worth: Worth::Unasked,
            queue: VecDeque::new(),
        }
    }

    const fn worth(&self) -> Worth {
        match self.state {
            _ if !self.used => Worth::Unasked,
            State::Incomplete => Worth::Unanswered,
            State::Stale => Worth::Idle,
            State::Reachable | State::Delay | State::Probe => Worth::InUse,
        }
    }
}

/// What a neighbour is worth when the table is full: the least goes first, and of equals the one with the nearest deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    /// It has told its address, and nothing was ever sent to it: anybody can make as many as there are addresses.
    Unasked,
    /// It has not answered yet: a scan of addresses pushes out its own.
    Unanswered,
    /// It was sent to, but not lately.
    Idle,
    /// It is being sent to.
    InUse,
}

/// Where a packet goes.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "the large one is the common one, and is moved once")]
pub enum Resolve {
    /// To this link address, now.
    Ready(EtherAddr, Packet),
    /// It waits for the neighbour; with `true` the neighbour must be asked now.
    Queued(bool),
}

/// What the passage of time asks for.
#[derive(Debug)]
pub(super) enum Due {
    /// Ask: by multicast or broadcast, or the known address by unicast.
    Solicit { device: DeviceId, addr: IpAddr, unicast: Option<EtherAddr> },
    /// No answer came: these packets will not leave.
    Failed { queue: VecDeque<Packet> },
}

/// What a neighbour said about itself, in the terms of RFC 4861 section 7.2.5.
#[derive(Clone, Copy, Debug)]
pub(super) struct Advert {
    pub(super) mac: Option<EtherAddr>,
    pub(super) solicited: bool,
    pub(super) override_cached: bool,
}

/// The neighbour table of all devices.
#[derive(Debug, Default)]
pub struct Neighbours {
    entries: BTreeMap<Key, Entry>,
    order: Order,
}

/// Every entry twice: by what is due first, and by what goes first.
#[derive(Debug, Default)]
struct Order {
    deadlines: BTreeSet<(Instant, Key)>,
    worths: BTreeSet<(Worth, Instant, Key)>,
}

impl Order {
    fn insert(&mut self, key: Key, entry: &Entry) {
        self.deadlines.insert((entry.deadline, key));
        self.worths.insert((entry.worth, entry.deadline, key));
    }

    fn remove(&mut self, key: Key, entry: &Entry) {
        self.deadlines.remove(&(entry.deadline, key));
        self.worths.remove(&(entry.worth, entry.deadline, key));
    }

    /// After each change of an entry.
    fn rearm(&mut self, key: Key, entry: &mut Entry, deadline: Instant) {
        self.remove(key, entry);
        (entry.deadline, entry.worth) = (deadline, entry.worth());
        self.insert(key, entry);
    }
}

fn reachable_time(cx: &mut Cx<'_>) -> Duration {
    let base = BASE_REACHABLE_TIME.as_millis() as u64;
    Duration::from_millis(base / 2 + cx.rng.below(base))
}

impl Neighbours {
    /// The link address for `packet`, or a place in the queue. What no longer fits goes to `dropped`.
    pub(super) fn resolve(
        &mut self,
        now: Instant,
        (device, addr): (DeviceId, IpAddr),
        packet: Packet,
        dropped: &mut Vec<(Packet, DropWhy)>,
    ) -> Resolve {
        let key = (device, addr);
        let Some(entry) = self.entries.get_mut(&key) else {
            self.make_room(Worth::InUse, dropped);
            let mut entry = Entry::new(State::Incomplete, now + RETRANS_TIME);
            (entry.tries, entry.used) = (1, true);
            entry.queue.push_back(packet);
            self.insert(key, entry);
            return Resolve::Queued(true);
        };
        let first = !core::mem::replace(&mut entry.used, true);
        match entry.state {
            State::Incomplete => {
                if entry.queue.len() >= NEIGHBOUR_QUEUE_PACKETS {
                    // It may be answered yet: nobody is told (`__neigh_event_send`).
                    dropped.extend(entry.queue.pop_front().map(|p| (p, DropWhy::NeighbourQueue)));
                }
                entry.queue.push_back(packet);
                return Resolve::Queued(false);
            }
            State::Stale => {
                entry.state = State::Delay;
                self.order.rearm(key, entry, now + DELAY_FIRST_PROBE);
            }
            State::Reachable | State::Delay | State::Probe if first => {
                self.order.rearm(key, entry, entry.deadline);
            }
            State::Reachable | State::Delay | State::Probe => {}
        }
        Resolve::Ready(entry.mac, packet)
    }

    /// A place for one more. The table is full: one of at most this worth goes; false when none is. (Linux spares whatever has changed in
    /// the last five seconds and refuses the new one: `neigh_forced_gc`.)
    fn make_room(&mut self, worth: Worth, dropped: &mut Vec<(Packet, DropWhy)>) -> bool {
        if self.entries.len() < NEIGHBOURS_MAX {
            return true;
        }
        let Some(&(_, _, victim)) = self.order.worths.first().filter(|(least, ..)| *least <= worth) else {
            return false;
        };
        let gone = self.remove(&victim).map(|entry| entry.queue).unwrap_or_default();
        dropped.extend(gone.into_iter().map(|p| (p, DropWhy::NeighbourTable)));
        true
    }

    fn insert(&mut self, key: Key, mut entry: Entry) {
        entry.worth = entry.worth();
        self.order.insert(key, &entry);
        self.entries.insert(key, entry);
    }

    /// A neighbour asked for us and told its address: created or updated as stale (RFC 4861 section 7.2.3, RFC 826). In a full table it
    /// takes the place of one that has only asked, too. Returns what waited for it.
    pub(super) fn on_solicit(
        &mut self,
        cx: &mut Cx<'_>,
        key: Key,
        mac: EtherAddr,
        dropped: &mut Vec<(Packet, DropWhy)>,
    ) -> VecDeque<Packet> {
        let deadline = cx.now + GC_STALE_TIME;
        let Some(entry) = self.entries.get_mut(&key) else {
            if self.make_room(Worth::Unasked, dropped) {
                self.insert(key, Entry { mac, ..Entry::new(State::Stale, deadline) });
            }
            return VecDeque::new();
        };
        if entry.state != State::Incomplete && entry.mac == mac {
            return VecDeque::new();
        }
        (entry.state, entry.mac) = (State::Stale, mac);
        self.order.rearm(key, entry, deadline);
        core::mem::take(&mut entry.queue)
    }

    /// A neighbour told its address, asked or unasked: only existing entries learn (RFC 4861 section 7.2.5). Returns what
    /// waited for it.
    pub(super) fn on_advert(&mut self, cx: &mut Cx<'_>, key: Key, advert: Advert) -> VecDeque<Packet> {
        let Some(entry) = self.entries.get_mut(&key) else { return VecDeque::new() };
        let changed = advert.mac.is_some_and(|mac| mac != entry.mac);
        if entry.state == State::Incomplete {
            if advert.mac.is_none() {
                return VecDeque::new();
            }
        } else if changed && !advert.override_cached {
            if entry.state == State::Reachable {
                entry.state = State::Stale;
                self.order.rearm(key, entry, cx.now + GC_STALE_TIME);
            }
            return VecDeque::new();
        }
        entry.mac = advert.mac.unwrap_or(entry.mac);
        if advert.solicited {
            entry.state = State::Reachable;
            entry.confirmed = cx.now;
            self.order.rearm(key, entry, cx.now + reachable_time(cx));
        } else if changed || entry.state == State::Incomplete {
            entry.state = State::Stale;
            self.order.rearm(key, entry, cx.now + GC_STALE_TIME);
        }
        core::mem::take(&mut entry.queue)
    }

    /// An upper layer has had an answer from the neighbour (RFC 4861 section 7.3.1). Cheap enough for every ACK.
    pub(super) fn confirm(&mut self, cx: &mut Cx<'_>, key: Key) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        match entry.state {
            State::Incomplete => {}
            State::Reachable => entry.confirmed = cx.now,
            State::Stale | State::Delay | State::Probe => {
                entry.state = State::Reachable;
                entry.confirmed = cx.now;
                self.order.rearm(key, entry, cx.now + reachable_time(cx));
            }
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.order.deadlines.first().map(|&(at, _)| at)
    }

    /// The next thing that is due, until `None`.
    pub(super) fn on_timeout(&mut self, cx: &mut Cx<'_>) -> Option<Due> {
        let now = cx.now;
        while let Some(&(_, key)) = self.order.deadlines.first().filter(|(at, _)| *at <= now) {
            let entry = self.entries.get_mut(&key)?;
            match entry.state {
                State::Reachable => {
                    // Confirmations move nothing but `confirmed`; the deadline is corrected here.
                    let again = entry.confirmed + reachable_time(cx);
                    let stale = again <= now;
                    entry.state = if stale { State::Stale } else { State::Reachable };
                    self.order.rearm(key, entry, if stale { now + GC_STALE_TIME } else { again });
                }
                State::Stale => {
                    self.remove(&key);
                }
                State::Delay => {
                    (entry.state, entry.tries) = (State::Probe, 0);
                    return Some(solicit(&mut self.order, key, entry, now));
                }
                State::Incomplete | State::Probe if entry.tries < SOLICITATIONS => {
                    return Some(solicit(&mut self.order, key, entry, now));
                }
                State::Incomplete | State::Probe => {
                    let queue = self.remove(&key).map(|e| e.queue).unwrap_or_default();
                    return Some(Due::Failed { queue });
                }
            }
        }
        None
    }

    fn remove(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.order.remove(*key, &entry);
        Some(entry)
    }

    /// Forgets the neighbours of a device. What waits for them has no way any more, which is told by who takes the device away.
    pub(super) fn remove_device(&mut self, device: DeviceId, dropped: &mut Vec<(Packet, DropWhy)>) {
        let gone: Vec<Key> = self.entries.keys().filter(|key| key.0 == device).copied().collect();
        for entry in gone.iter().filter_map(|key| self.remove(key)).collect::<Vec<_>>() {
            dropped.extend(entry.queue.into_iter().map(|p| (p, DropWhy::NoRoute)));
        }
    }

    /// The last packet that waits for a neighbour: who asks, asks for its sake (`neigh_probe`).
    pub(super) fn newest(&self, device: DeviceId, addr: IpAddr) -> Option<&Packet> {
        self.entries.get(&(device, addr))?.queue.back()
    }

    /// Shows every packet that waits for a neighbour to `f`.
    pub fn each_waiting(&self, f: &mut dyn FnMut(&Packet)) {
        self.entries.values().flat_map(|e| &e.queue).for_each(f);
    }

    /// What is known of a neighbour.
    #[must_use]
    pub fn get(&self, device: DeviceId, addr: IpAddr) -> Option<(State, EtherAddr)> {
        self.entries.get(&(device, addr)).map(|e| (e.state, e.mac))
    }

    /// All neighbours with device, address, state and link address, in the order of their addresses (`ip neigh`).
    pub fn iter(&self) -> impl Iterator<Item = (DeviceId, IpAddr, State, EtherAddr)> {
        self.entries.iter().map(|(key, e)| (key.0, key.1, e.state, e.mac))
    }
}

fn solicit(order: &mut Order, key: Key, entry: &mut Entry, now: Instant) -> Due {
    entry.tries += 1;
    order.rearm(key, entry, now + RETRANS_TIME);
    let unicast = (entry.state == State::Probe).then_some(entry.mac);
    Due::Solicit { device: key.0, addr: key.1, unicast }
}

#[cfg(test)]
mod tests;
