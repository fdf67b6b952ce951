//! Frames into the ring, and slots back from it.
use super::PacketDevice;
use crate::sys::{SlotState, TxRing};
use crate::vnet::{self, VNET_HDR_SHORT};
use lowwater_core::base::Instant;
use lowwater_core::device::{Device, QueueLimit, Submit};
use lowwater_core::packet::{Owner, Packet};
use rustix::io::retry_on_intr;
use rustix::net::{SendFlags, send};
use std::collections::VecDeque;

/// Length of an Ethernet header.
pub(super) const ETHERNET_HEADER: usize = 14;

/// What lies in the slots that the kernel has, oldest first. They are consecutive: the kernel takes slots in order, though it may
/// give them back in another.
#[derive(Debug)]
pub(super) struct Outstanding {
    slots: usize,
    /// The slot after the newest.
    next: usize,
    frames: VecDeque<Sent>,
    /// Those of `frames` that have come back already.
    returned: usize,
    /// The kernel has not taken all of them over: its queueing discipline was full, or the socket's send buffer.
    refused: bool,
    /// Owners get their credit back on entry.
    orphan: bool,
}

/// One frame.
#[derive(Clone, Copy, Debug)]
struct Sent {
    owner: Option<Owner>,
    bytes: u32,
    /// Its slot has come back, before an older one.
    returned: bool,
}

/// What has come back at one look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Returned {
    pub(super) frames: u64,
    pub(super) bytes: u64,
}

impl Outstanding {
    pub(super) fn new(slots: usize, orphan: bool) -> Self {
        Self { slots, next: 0, frames: VecDeque::with_capacity(slots), returned: 0, refused: false, orphan }
    }

    /// Frames that the kernel has.
    pub(super) fn len(&self) -> usize {
        self.frames.len() - self.returned
    }

    /// Slots into which frames can go now.
    fn room(&self) -> usize {
        self.slots - self.frames.len()
    }

    /// The slot that was filled last.
    const fn newest(&self) -> usize {
        (self.next + self.slots - 1) % self.slots
    }

    fn push(&mut self, owner: Option<Owner>, bytes: u32) {
        self.frames.push_back(Sent { owner, bytes, returned: false });
        self.next = (self.next + 1) % self.slots;
    }

    /// Gives up all that has not come back.
    pub(super) fn abandon(&mut self, into: &mut Vec<Owner>) {
        into.extend(self.frames.iter_mut().filter_map(|frame| frame.owner.take()));
    }

    /// Looks at all slots that the kernel has, since a fair queue below gives them back in any order; they are few.
    pub(super) fn take_returned(&mut self, ring: &TxRing, into: &mut Vec<Owner>) -> Returned {
        let mut sum = Returned::default();
        let oldest = (self.next + self.slots - self.frames.len()) % self.slots;
        for (i, frame) in self.frames.iter_mut().enumerate().filter(|(_, f)| !f.returned) {
            if ring.state((oldest + i) % self.slots) == SlotState::Kernels {
                continue;
            }
            frame.returned = true;
            into.extend(frame.owner.take());
            sum.frames += 1;
            sum.bytes += u64::from(frame.bytes);
        }
        self.returned += sum.frames as usize;
        while self.frames.front().is_some_and(|f| f.returned) {
            self.frames.pop_front();
            self.returned -= 1;
        }
        sum
    }
}

impl PacketDevice {
    /// Starts the kernel's work on what was submitted, in one system call. What its queueing discipline refuses stays in
    /// the ring, in order, and goes with the next call: no frame is lost here.
    pub fn flush(&mut self) {
        if self.sent.len() == 0 {
            self.sent.refused = false;
            return;
        }
        self.counters.kicks += 1;
        let taken = retry_on_intr(|| send(&self.output, &[], SendFlags::DONTWAIT));
        // Whatever the reason, a full queue or an interface that is down: what is in the ring waits there. Where the socket's send buffer
        // is full behind the first frame the call is none that failed, but the last frame is still on offer (`tpacket_snd`).
        self.sent.refused = taken.is_err() || self.ring.is_offered(self.sent.newest());
    }

    /// The kernel has not taken over all that is in the ring.
    #[must_use]
    pub const fn needs_flush(&self) -> bool {
        self.sent.refused
    }

    /// What it would take now; with byte queue limits one frame may exceed the bytes.
    #[must_use]
    pub fn room(&self) -> QueueLimit {
        let packets = self.sent.room();
        match &self.bql {
            None => QueueLimit { packets, bytes: usize::MAX },
            Some(bql) if bql.admits() => QueueLimit { packets, bytes: bql.available() as usize },
            Some(_) => QueueLimit { packets: 0, bytes: 0 },
        }
    }
}

impl Device for PacketDevice {
    /// Copies the frame into a slot of the ring; it leaves with [`PacketDevice::flush`] at the latest. After
    /// [`Submit::Filled`] the output descriptor tells when slots have come back.
    fn submit(&mut self, now: Instant, packet: Packet) -> Submit {
        self.now = now;
        if self.room().packets == 0 {
            self.counters.not_now += 1;
            return Submit::NotNow(packet);
        }
        // What `tpacket_snd` passes over: no link header, or more than the MTU. With virtio-net headers it lets the latter leave, for the card or the
        // next host to drop, so it is refused here unless it is cut on the way.
        let most = usize::from(self.mtu) + ETHERNET_HEADER;
        if packet.len() < ETHERNET_HEADER || (packet.offload.gso_size == 0 && packet.len() > most) {
            self.counters.dropped += 1;
            return Submit::Dropped;
        }
        let mut header = vnet::encode(&packet, ETHERNET_HEADER);
        let header = &mut header[..if self.offload { VNET_HDR_SHORT } else { 0 }];
        vnet::turn(header, vnet::Order::HERE);
        if !self.ring.fill(self.sent.next, [header, packet.head.as_slice(), &packet.payload]) {
            self.counters.dropped += 1;
            return Submit::Dropped;
        }
        let bytes = packet.len();
        self.sent.push(packet.owner.filter(|_| !self.sent.orphan), bytes as u32);
        self.counters.frames_out += 1;
        self.counters.bytes_out += bytes as u64;
        if let Some(bql) = &mut self.bql {
            bql.on_queued(bytes as u64);
        }
        if self.sent.orphan {
            return Submit::Completed;
        }
        if self.room().packets == 0 { Submit::Filled } else { Submit::Sent }
    }
}
