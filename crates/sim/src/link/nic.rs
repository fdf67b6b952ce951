//! The sending host's device: a finite transmit queue that serialises, completes, and says "not now" when it is full.
use super::{PipeCounts, serialisation_ns};
use crate::edit::{wire_bytes, wire_size};
use lowwater_core::base::{Instant, Rng};
use lowwater_core::packet::{Offload, Owner, Packet};
use std::collections::VecDeque;

/// The answer of a device to a packet.
#[derive(Debug)]
pub enum Submitted {
    /// Taken.
    Sent,
    /// Taken, and there is no room for another: the device will say when there is.
    Filled,
    /// No room now: the packet comes back, and the device will say when there is room.
    NotNow(Packet),
    /// Thrown away for good: the packet's owner gets its credit back at once.
    Dropped,
}

/// Something the device tells its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// A packet has left; its credit comes back.
    Left(Owner),
    /// There is room again.
    Ready,
}

/// How super-packets cross the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Carry {
    /// As a whole: the receiver sees what a perfect GRO would make.
    #[default]
    Whole,
    /// As bare bytes: super-packets are cut by the sending device, every checksum is complete, and the receiver must
    /// verify all of it.
    Segments,
}

/// What a device is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicSpec {
    /// Bits per second of IP bytes; 0 is unlimited.
    pub rate: u64,
    /// Packets (super-packets count as one) that fit; 0 is unlimited.
    pub packets: usize,
    /// Bytes that fit, which the last packet may exceed; 0 is unlimited.
    pub bytes: u64,
    /// How super-packets cross.
    pub carry: Carry,
    /// Chance that a packet is refused with "not now" though there is room, in 10^-6.
    pub not_now_ppm: u32,
    /// How long such a refusal lasts, in nanoseconds.
    pub not_now_ns: u64,
    /// When it tells that packets have left.
    pub telling: Telling,
}

/// When a device tells that packets have left. Room for more it has, and says so, as soon as they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telling {
    /// So many nanoseconds after each.
    pub late_ns: u64,
    /// When so many wait to be told of; 0 and 1 for each.
    pub batch: usize,
    /// At the latest so many nanoseconds after the first of them.
    pub batch_ns: u64,
}

struct Leaving {
    at: Instant,
    packet: Packet,
    owner: Option<Owner>,
    last: bool,
    bytes: u64,
}

/// A host's transmit device.
pub struct Nic {
    spec: NicSpec,
    rng: Rng,
    queue: VecDeque<Leaving>,
    packets: usize,
    bytes: u64,
    free_at: Instant,
    stopped: bool,
    refusal_ends: Option<Instant>,
    /// Packets that have left and are not told of: when each may be told, and when it left.
    untold: VecDeque<(Instant, Instant, Owner)>,
    /// How late those were that have been told of, in nanoseconds, the newest [`LATE_SAMPLES`].
    late: VecDeque<u64>,
}

/// Completions whose lateness is remembered.
const LATE_SAMPLES: usize = 4_096;

impl Nic {
    /// An idle device.
    #[must_use]
    pub fn new(spec: NicSpec, rng: Rng) -> Self {
        Self {
            spec,
            rng,
            queue: VecDeque::new(),
            packets: 0,
            bytes: 0,
            free_at: Instant::ZERO,
            stopped: false,
            refusal_ends: None,
            untold: VecDeque::new(),
            late: VecDeque::new(),
        }
    }

    fn has_room(&self) -> bool {
        (self.spec.packets == 0 || self.packets < self.spec.packets)
            && (self.spec.bytes == 0 || self.bytes < self.spec.bytes)
    }

    /// Takes a packet or refuses it.
    pub fn submit(&mut self, now: Instant, mut packet: Packet, counts: &mut PipeCounts) -> Submitted {
        let refused = self.refusal_ends.is_some();
        if refused || !self.has_room() {
            self.stopped = true;
            return Submitted::NotNow(packet);
        }
        if self.rng.chance_ppm(self.spec.not_now_ppm) {
            self.stopped = true;
            self.refusal_ends = Some(now.plus_nanos(self.spec.not_now_ns));
            return Submitted::NotNow(packet);
        }
        let owner = packet.owner.take();
        self.packets += 1;
        counts.accepted += 1;
        if self.spec.carry == Carry::Segments {
            crate::split::segment(packet, &mut |segment| {
                counts.split += 1;
                self.append(now, Packet::received(wire_bytes(&segment), Offload::default(), now));
            });
            counts.split -= 1;
        } else {
            self.append(now, packet);
        }
        if let Some(last) = self.queue.back_mut() {
            last.owner = owner;
            last.last = true;
        }
        if self.has_room() {
            return Submitted::Sent;
        }
        self.stopped = true;
        Submitted::Filled
    }

    fn append(&mut self, now: Instant, packet: Packet) {
        let (_, wire) = wire_size(&packet);
        let bytes = packet.len() as u64;
        self.bytes += bytes;
        self.free_at = self.free_at.max(now).plus_nanos(serialisation_ns(u64::from(wire), self.spec.rate));
        self.queue.push_back(Leaving { at: self.free_at, packet, owner: None, last: false, bytes });
    }

    /// The next packet on the wire at `now`.
    pub fn release(&mut self, now: Instant, completions: &mut Vec<Completion>) -> Option<Packet> {
        if self.refusal_ends.is_some_and(|t| t <= now) {
            self.refusal_ends = None;
            self.tell_room(completions);
        }
        if self.queue.front()?.at > now {
            return None;
        }
        let leaving = self.queue.pop_front()?;
        self.bytes -= leaving.bytes;
        if let Some(owner) = leaving.owner {
            if self.spec.telling == Telling::default() {
                completions.push(Completion::Left(owner));
            } else {
                self.untold.push_back((leaving.at.plus_nanos(self.spec.telling.late_ns), leaving.at, owner));
            }
        }
        if leaving.last {
            self.packets -= 1;
            self.tell_room(completions);
        }
        Some(leaving.packet)
    }

    /// Tells of what has left, where that is not told at once.
    pub fn tell(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        while self.telling_at().is_some_and(|at| at <= now) {
            // All that may be told goes together.
            while let Some((_, left, owner)) = self.untold.pop_front_if(|(at, ..)| *at <= now) {
                completions.push(Completion::Left(owner));
                if self.late.len() == LATE_SAMPLES {
                    self.late.pop_front();
                }
                self.late.push_back(now.nanos_since(left));
            }
        }
    }

    fn telling_at(&self) -> Option<Instant> {
        let Telling { batch, batch_ns, .. } = self.spec.telling;
        let first = self.untold.front()?.0;
        if batch <= 1 {
            return Some(first);
        }
        let latest = first.plus_nanos(batch_ns);
        Some(self.untold.get(batch - 1).map_or(latest, |(at, ..)| latest.min(*at)))
    }

    /// The 90th percentile of how late it told of packets, by the nearest rank, in nanoseconds.
    #[must_use]
    pub fn lateness_ns(&self) -> u64 {
        let mut sorted: Vec<u64> = self.late.iter().copied().collect();
        sorted.sort_unstable();
        let rank = (sorted.len() * 9).div_ceil(10);
        rank.checked_sub(1).map_or(0, |at| sorted[at])
    }

    fn tell_room(&mut self, completions: &mut Vec<Completion>) {
        // Half empty before it calls again, as drivers do, so that a full device is not woken per packet.
        let low = self.spec.packets == 0 || self.packets * 2 <= self.spec.packets;
        let low = low && (self.spec.bytes == 0 || self.bytes * 2 <= self.spec.bytes);
        if self.stopped && low && self.refusal_ends.is_none() {
            self.stopped = false;
            completions.push(Completion::Ready);
        }
    }

    /// When the next packet leaves or the next refusal ends.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.queue.front().map(|l| l.at).into_iter().chain(self.refusal_ends).chain(self.telling_at()).min()
    }

    /// Packets (segments, where they were cut) inside.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.queue.len() as u64
    }

    /// IP bytes inside.
    #[must_use]
    pub fn backlog_bytes(&self) -> u64 {
        self.bytes
    }

    /// Stops refusing at random.
    pub fn heal(&mut self) {
        self.spec.not_now_ppm = 0;
    }
}
