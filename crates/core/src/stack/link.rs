//! A device as the stack drives it: capabilities, queueing discipline, ready list, and what it gave back.
use super::ready::ReadyList;
use crate::base::limits::{GSO_MAX_SEGS, GSO_MAX_SIZE};
use crate::base::{DeviceId, Instant};
use crate::device::DeviceCaps;
use crate::packet::Packet;
use crate::path::lateness::Told;
use crate::qdisc::{Any, Early, Gone, LinkFacts, Qdisc as _};
use crate::tcp::PathCaps;
use std::collections::VecDeque;

/// The device that leads back to this stack.
pub(super) const LOOPBACK: DeviceId = DeviceId(0);
/// MTU of the loopback device: the largest packet (Linux's `lo` has one byte more, which IPv4 cannot say).
pub(super) const LOOPBACK_MTU: u16 = u16::MAX;

/// One device.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) caps: DeviceCaps,
    pub(super) qdisc: Any,
    /// What the queueing discipline gives up, between its answer and what follows; empty otherwise.
    pub(super) gone: Gone,
    /// What left the queueing discipline and not yet the stack: the rest of a super-packet that was segmented here, and the packet that
    /// met "not now" at a device whose room nobody knows before it is asked (`gso_skb` of a Linux discipline is both).
    pub(super) held: VecDeque<Packet>,
    pub(super) ready: ReadyList,
    /// What the device owes news of, and how late that comes.
    pub(super) told: Told,
    /// The device is full, or said "not now", and has not called since.
    pub(super) stopped: bool,
    /// The device gave its last packet back at once.
    pub(super) at_once: bool,
    /// Packets that the device gave back since this discipline stands here (`dev_requeue_skb`).
    pub(super) requeues: u64,
    /// The queueing discipline lets nothing go before this.
    pub(super) not_before: Option<Instant>,
    /// What a discipline that keeps departure times left to one that does not: each packet comes to it when it may leave.
    pub(super) early: Early,
}

impl Link {
    pub(super) fn new(caps: DeviceCaps, qdisc: Any) -> Self {
        Self {
            caps,
            qdisc,
            gone: Gone::default(),
            held: VecDeque::new(),
            ready: ReadyList::default(),
            told: Told::new(caps.keeps),
            stopped: false,
            at_once: false,
            requeues: 0,
            not_before: None,
            early: Early::default(),
        }
    }

    /// What a transport may ask of this device. Super-packets are made even for a device that takes none: segmenting
    /// them at its door is cheaper than making the segments one by one above.
    pub(super) fn path_caps(&self) -> PathCaps {
        let gso = self.caps.gso_max_size > 0;
        PathCaps {
            // The length of a packet is a number of 16 bits, whatever a device says that it takes.
            gso_max_size: if gso {
                self.caps.gso_max_size.min(GSO_MAX_SIZE as u32)
            } else {
                SOFTWARE_GSO_SIZE
            },
            gso_max_segs: if gso { self.caps.gso_max_segs } else { GSO_MAX_SEGS },
            fq: self.qdisc.honours_departure(),
            lateness: self.told.lateness(),
            // What waits in `fq` while the device has room waits for its time. A full device alone is no backlog.
            backlog: !self.held.is_empty()
                || (!self.qdisc.is_empty() && (self.stopped || !self.qdisc.honours_departure())),
            reachable: true,
        }
    }

    /// Packets pass to the device without a stay: none is below when the next is made.
    pub(super) const fn passes(&self) -> bool {
        self.at_once && matches!(self.qdisc, Any::PfifoFast(_) | Any::Noqueue(_))
    }

    /// What a queueing discipline must know of this device.
    pub(super) fn facts(&self) -> LinkFacts {
        Self::facts_of(&self.caps)
    }

    /// The same of a device that is about to be attached.
    pub(super) fn facts_of(caps: &DeviceCaps) -> LinkFacts {
        let tx_queue_len = LinkFacts::TX_QUEUE_LEN;
        LinkFacts { link_len: caps.link_len(), mtu: caps.mtu, tx_queue_len }
    }

    /// When the discipline, or what is kept from it, has to be looked at again.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        [self.not_before, self.early.first()].into_iter().flatten().min().filter(|_| !self.stopped)
    }

    /// Something could be handed to the device, or some flow has a turn.
    pub(super) fn wants_transmit(&self, now: Instant) -> bool {
        if !self.ready.is_empty() {
            return true;
        }
        if self.stopped {
            return false;
        }
        let due = || self.not_before.is_none_or(|at| at <= now);
        !self.held.is_empty()
            || (!self.qdisc.is_empty() && due())
            || (!self.early.is_empty() && self.early.first().is_some_and(|at| at <= now))
    }

    /// Nothing at all stands between the flows and the device. Of a discipline that may hold packets back only its answer tells.
    pub(super) fn is_clear(&self) -> bool {
        matches!(self.qdisc, Any::PfifoFast(_) | Any::Noqueue(_))
            && self.qdisc.is_empty()
            && self.held.is_empty()
            && self.early.is_empty()
    }
}

/// Size of super-packets for a device that takes none (`GSO_LEGACY_MAX_SIZE`).
const SOFTWARE_GSO_SIZE: u32 = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::Noqueue;

    #[test]
    fn no_device_is_given_more_than_a_packets_length_can_tell() {
        let caps = DeviceCaps { gso_max_size: 524_280, ..DeviceCaps::offloading(1_500) };
        let link = Link::new(caps, Any::Noqueue(Noqueue::default()));
        assert_eq!(link.path_caps().gso_max_size, 65_536);
    }
}
