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
    queue: VecDeque<Packet>,
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
    /// One deadline per entry.
    deadlines: BTreeSet<(Instant, Key)>,
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
            let entry = self.create(key, State::Incomplete, now + RETRANS_TIME, dropped);
            entry.tries = 1;
            entry.queue.push_back(packet);
            return Resolve::Queued(true);
        };
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
                rearm(&mut self.deadlines, key, entry, now + DELAY_FIRST_PROBE);
            }
            State::Reachable | State::Delay | State::Probe => {}
        }
        Resolve::Ready(entry.mac, packet)
    }

    fn create(
        &mut self,
        key: Key,
        state: State,
        deadline: Instant,
        dropped: &mut Vec<(Packet, DropWhy)>,
    ) -> &mut Entry {
        if self.entries.len() >= NEIGHBOURS_MAX
            && let Some((_, victim)) = self.deadlines.pop_first()
            && let Some(entry) = self.entries.remove(&victim)
        {
            // Unanswered ones have the nearest deadlines, so a scan of addresses does not push out neighbours in use.
            dropped.extend(entry.queue.into_iter().map(|p| (p, DropWhy::NeighbourTable)));
        }
        self.deadlines.insert((deadline, key));
        self.entries.entry(key).or_insert(Entry {
            state,
            mac: EtherAddr::ZERO,
            tries: 0,
            deadline,
            confirmed: Instant::ZERO,
            queue: VecDeque::new(),
        })
    }

    /// A neighbour asked for us and told its address: created or updated as stale (RFC 4861 section 7.2.3, RFC 826).
    /// Returns what waited for it.
    pub(super) fn on_solicit(
        &mut self,
        cx: &mut Cx<'_>,
        key: Key,
        mac: EtherAddr,
        dropped: &mut Vec<(Packet, DropWhy)>,
    ) -> VecDeque<Packet> {
        let deadline = cx.now + GC_STALE_TIME;
        let entry = match self.entries.get_mut(&key) {
            None => self.create(key, State::Stale, deadline, dropped),
            Some(entry) if entry.state == State::Incomplete || entry.mac != mac => {
                entry.state = State::Stale;
                rearm(&mut self.deadlines, key, entry, deadline);
                entry
            }
            Some(_) => return VecDeque::new(),
        };
        entry.mac = mac;
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
                rearm(&mut self.deadlines, key, entry, cx.now + GC_STALE_TIME);
            }
            return VecDeque::new();
        }
        entry.mac = advert.mac.unwrap_or(entry.mac);
        if advert.solicited {
            entry.state = State::Reachable;
            entry.confirmed = cx.now;
            rearm(&mut self.deadlines, key, entry, cx.now + reachable_time(cx));
        } else if changed || entry.state == State::Incomplete {
            entry.state = State::Stale;
            rearm(&mut self.deadlines, key, entry, cx.now + GC_STALE_TIME);
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
                rearm(&mut self.deadlines, key, entry, cx.now + reachable_time(cx));
            }
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// The next thing that is due, until `None`.
    pub(super) fn on_timeout(&mut self, cx: &mut Cx<'_>) -> Option<Due> {
        let now = cx.now;
        while let Some(&(_, key)) = self.deadlines.first().filter(|(at, _)| *at <= now) {
            let entry = self.entries.get_mut(&key)?;
            match entry.state {
                State::Reachable => {
                    // Confirmations move nothing but `confirmed`; the deadline is corrected here.
                    let again = entry.confirmed + reachable_time(cx);
                    let stale = again <= now;
                    entry.state = if stale { State::Stale } else { State::Reachable };
                    rearm(&mut self.deadlines, key, entry, if stale { now + GC_STALE_TIME } else { again });
                }
                State::Stale => {
                    self.remove(&key);
                }
                State::Delay => {
                    (entry.state, entry.tries) = (State::Probe, 0);
                    return Some(solicit(&mut self.deadlines, key, entry, now));
                }
                State::Incomplete | State::Probe if entry.tries < SOLICITATIONS => {
                    return Some(solicit(&mut self.deadlines, key, entry, now));
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
        self.deadlines.remove(&(entry.deadline, *key));
        Some(entry)
    }

    /// Forgets the neighbours of a device. What waits for them has no way any more, which is told by who takes the device away.
    pub(super) fn remove_device(&mut self, device: DeviceId, dropped: &mut Vec<(Packet, DropWhy)>) {
        let gone: Vec<Key> = self.entries.keys().filter(|key| key.0 == device).copied().collect();
        for entry in gone.iter().filter_map(|key| self.remove(key)).collect::<Vec<_>>() {
            dropped.extend(entry.queue.into_iter().map(|p| (p, DropWhy::NoRoute)));
        }
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

fn rearm(deadlines: &mut BTreeSet<(Instant, Key)>, key: Key, entry: &mut Entry, deadline: Instant) {
    deadlines.remove(&(entry.deadline, key));
    entry.deadline = deadline;
    deadlines.insert((deadline, key));
}

fn solicit(deadlines: &mut BTreeSet<(Instant, Key)>, key: Key, entry: &mut Entry, now: Instant) -> Due {
    entry.tries += 1;
    rearm(deadlines, key, entry, now + RETRANS_TIME);
    let unicast = (entry.state == State::Probe).then_some(entry.mac);
    Due::Solicit { device: key.0, addr: key.1, unicast }
}

#[cfg(test)]
mod tests;
