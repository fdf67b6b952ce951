//! A link that the application owns: packets in memory, bounded, with credits that the consumer gives back (tunnels, sandboxes).
use super::{Device, DeviceCaps, QueueLimit, Submit};
use crate::base::Instant;
use crate::packet::{Offload, Owner, Packet};
use bytes::Bytes;
use std::collections::VecDeque;

/// What a popped packet holds of the link's bound. Give it back with [`OwnedLink::complete`] once the packet has really left;
/// until then it counts as in the device, and flows see the tunnel's backlog as their own queue.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a credit that is not given back narrows the link for good"]
pub struct LinkCredit {
    owner: Option<Owner>,
    bytes: usize,
}

impl LinkCredit {
    /// Bytes that it stands for.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A packet on its way out of the stack.
#[derive(Debug)]
pub struct OwnedPacket {
    /// The IP packet, contiguous.
    pub bytes: Bytes,
    /// What is left to do; nothing on a link made by [`OwnedLink::new`].
    pub offload: Offload,
    /// To be given back when the packet has left.
    pub credit: LinkCredit,
}

/// The link. The stack sees a device; the application pops packets from it and brings others to the stack.
#[derive(Debug)]
pub struct OwnedLink {
    caps: DeviceCaps,
    limit: QueueLimit,
    queue: VecDeque<Packet>,
    /// Packets and bytes accepted and not completed, popped ones included.
    packets: usize,
    bytes: usize,
    done: Vec<Owner>,
    /// It was filled, and has not told of room since.
    full: bool,
}

impl OwnedLink {
    /// A link of finished IP packets: segmented, with all checksums in place.
    #[must_use]
    pub fn new(mtu: u16, limit: QueueLimit) -> Self {
        Self::with_caps(DeviceCaps::plain(mtu), limit)
    }

    /// A link whose consumer takes super-packets or unfinished checksums, as `caps` says.
    #[must_use]
    pub fn with_caps(caps: DeviceCaps, limit: QueueLimit) -> Self {
        Self { caps, limit, queue: VecDeque::new(), packets: 0, bytes: 0, done: Vec::new(), full: false }
    }

    /// What the stack may leave to the consumer.
    #[must_use]
    pub const fn caps(&self) -> DeviceCaps {
        self.caps
    }

    /// From now on it takes packets of so many bytes, whole; what it has taken stays. The MTU before.
    pub const fn set_mtu(&mut self, mtu: u16) -> u16 {
        core::mem::replace(&mut self.caps.mtu, mtu)
    }

    /// The next packet as one piece. Copies it where headers and payload lie apart.
    pub fn pop(&mut self) -> Option<OwnedPacket> {
        let (packet, credit) = self.pop_parts()?;
        Some(OwnedPacket { bytes: packet.to_bytes(), offload: packet.offload, credit })
    }

    /// The next packet as the stack made it, headers and payload apart: for consumers that gather or encrypt into their own
    /// buffer anyway.
    pub fn pop_parts(&mut self) -> Option<(Packet, LinkCredit)> {
        let mut packet = self.queue.pop_front()?;
        let credit = LinkCredit { owner: packet.owner.take(), bytes: packet.len() };
        Some((packet, credit))
    }

    /// The packet of this credit has left. True when the link was full before and there is room again: call
    /// `Stack::device_ready`.
    #[allow(clippy::needless_pass_by_value, reason = "a credit is spent once")]
    pub fn complete(&mut self, credit: LinkCredit) -> bool {
        let LinkCredit { owner, bytes } = credit;
        self.packets = self.packets.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.done.extend(owner);
        self.limit.admits(self.packets, self.bytes) && core::mem::take(&mut self.full)
    }

    /// Appends the owners of packets completed since the last call: each is for `Stack::complete`.
    pub fn completions(&mut self, into: &mut Vec<Owner>) {
        into.append(&mut self.done);
    }

    /// A packet for the stack, as having arrived at `now`.
    #[must_use]
    pub fn received(bytes: Bytes, now: Instant) -> Packet {
        Packet::received(bytes, Offload::default(), now)
    }

    /// Packets that wait to be popped.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// What it would take now.
    #[must_use]
    pub const fn room(&self) -> QueueLimit {
        self.limit.room(self.packets, self.bytes)
    }

    /// Packets and bytes in the link: waiting, or popped with their credit still out.
    #[must_use]
    pub const fn outstanding(&self) -> (usize, usize) {
        (self.packets, self.bytes)
    }
}

impl Device for OwnedLink {
    fn submit(&mut self, _now: Instant, packet: Packet) -> Submit {
        if !self.caps.carries(&packet) {
            return Submit::Dropped;
        }
        if !self.limit.admits(self.packets, self.bytes) {
            self.full = true;
            return Submit::NotNow(packet);
        }
        self.packets += 1;
        self.bytes += packet.len();
        self.queue.push_back(packet);
        self.full = !self.limit.admits(self.packets, self.bytes);
        if self.full { Submit::Filled } else { Submit::Sent }
    }
}
