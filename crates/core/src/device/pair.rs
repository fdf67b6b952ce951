//! An in-process link between two stacks: two bounded queues, packets handed over without copying.
use super::{Device, DeviceCaps, QueueLimit, Submit};
use crate::base::Instant;
use crate::packet::{Owner, Packet};
use std::collections::VecDeque;

/// One end of a [`Pair`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first end.
    A,
    /// The second end.
    B,
}

impl Side {
    /// The other end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// Packets on their way from one side.
#[derive(Debug, Default)]
struct Lane {
    queue: VecDeque<Packet>,
    bytes: usize,
    done: Vec<Owner>,
    /// It was filled, and has not told of room since.
    full: bool,
    room: bool,
}

impl Lane {
    fn admits(&self, limit: &QueueLimit) -> bool {
        limit.admits(self.queue.len(), self.bytes)
    }
}

/// Both directions of the link. The driver owns it, lends each stack its end as a device, and carries packets to the far side.
///
/// Checksums are not computed: a packet keeps its `Partial` mark across, as between two virtio devices on one host, and
/// super-packets stay whole.
#[derive(Debug)]
pub struct Pair {
    caps: DeviceCaps,
    limit: QueueLimit,
    lanes: [Lane; 2],
}

impl Pair {
    /// A link of IP packets with the given MTU; `limit` bounds each direction.
    #[must_use]
    pub fn new(mtu: u16, limit: QueueLimit) -> Self {
        Self::with_caps(DeviceCaps::offloading(mtu).keeping_nothing().repeating_cwr(), limit)
    }

    /// A link whose ends do only what `caps` says, so that the stacks do the rest in software.
    #[must_use]
    pub fn with_caps(caps: DeviceCaps, limit: QueueLimit) -> Self {
        Self { caps, limit, lanes: Default::default() }
    }

    /// What either end can do.
    #[must_use]
    pub const fn caps(&self) -> DeviceCaps {
        self.caps
    }

    /// The device of the stack on `side`.
    pub const fn end(&mut self, side: Side) -> PairEnd<'_> {
        PairEnd { caps: self.caps, limit: self.limit, lane: &mut self.lanes[side.index()] }
    }

    /// The next packet for the stack on `side`, as having arrived at `now`. It leaves the other side's device with this, so that
    /// its owner is among the [`Self::completions`] there.
    pub fn take(&mut self, side: Side, now: Instant) -> Option<Packet> {
        let lane = &mut self.lanes[side.other().index()];
        let mut packet = lane.queue.pop_front()?;
        lane.bytes -= packet.len();
        lane.room |= lane.admits(&self.limit) && core::mem::take(&mut lane.full);
        lane.done.extend(packet.owner.take());
        packet.at = now;
        Some(packet)
    }

    /// Appends the owners of packets that have left `side` since the last call: each is for `Stack::complete`.
    pub fn completions(&mut self, side: Side, into: &mut Vec<Owner>) {
        into.append(&mut self.lanes[side.index()].done);
    }

    /// The stack on the other side has ended: what `side` has sent and nobody took is lost, and its owners are among the
    /// [`Self::completions`].
    pub fn abandon(&mut self, side: Side) {
        while self.take(side.other(), Instant::ZERO).is_some() {}
    }

    /// What the end of `side` would take now.
    #[must_use]
    pub fn room(&self, side: Side) -> QueueLimit {
        let lane = &self.lanes[side.index()];
        self.limit.room(lane.queue.len(), lane.bytes)
    }

    /// True once after `side` had no room and packets have been taken since: call `Stack::device_ready`.
    pub const fn became_ready(&mut self, side: Side) -> bool {
        core::mem::replace(&mut self.lanes[side.index()].room, false)
    }

    /// Packets on their way to `side`.
    #[must_use]
    pub fn waiting(&self, side: Side) -> usize {
        self.lanes[side.other().index()].queue.len()
    }

    /// True when nothing is on its way and no completion waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.lanes.iter().all(|lane| lane.queue.is_empty() && lane.done.is_empty())
    }
}

/// One end of a [`Pair`], borrowed for a run of its stack.
#[derive(Debug)]
pub struct PairEnd<'a> {
    caps: DeviceCaps,
    limit: QueueLimit,
    lane: &'a mut Lane,
}

impl Device for PairEnd<'_> {
    fn submit(&mut self, _now: Instant, packet: Packet) -> Submit {
        if !self.caps.carries(&packet) {
            return Submit::Dropped;
        }
        if !self.lane.admits(&self.limit) {
            self.lane.full = true;
            return Submit::NotNow(packet);
        }
        self.lane.bytes += packet.len();
        self.lane.queue.push_back(packet);
        self.lane.full = !self.lane.admits(&self.limit);
        if self.lane.full { Submit::Filled } else { Submit::Sent }
    }
}
