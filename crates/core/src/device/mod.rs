//! The contract between the stack and what carries its packets.
//!
//! Invariants: a device knows packets, never flows, routes or sockets; it answers at once and calls nobody back. Laws, run over
//! every implementor by the `law` tests:
//! 1. [`Submit::NotNow`] gives the packet back as it was. It is never a loss, and a device that says it will accept again.
//! 2. The owner of an accepted packet gets its credit back exactly once: after [`Submit::Sent`] and [`Submit::Filled`] by
//!    `Stack::complete`, when the packet has left; with [`Submit::Completed`] at once.
//! 3. A dropped packet neither leaves nor completes.
//! 4. Packets leave in the order in which they were accepted, with payload shared, headers and offload state untouched.
//! 5. A device holds a bounded number of packets and bytes.
//! 6. What a device has to say of its room it says with the packet that fills it: after [`Submit::Filled`] it takes nothing until it
//!    has told of room, after [`Submit::Sent`] it takes the next. (Those that can be short of room at any time say "not now" then.)
pub mod bql;
pub mod datagram;
pub mod owned;
pub mod pair;
pub mod steer;
pub mod tap;

#[cfg(test)]
mod law;

pub use owned::{LinkCredit, OwnedLink, OwnedPacket};
pub use pair::{Pair, PairEnd, Side};
pub use steer::{Fragment, FragmentName, Place, ShardId, Steering};
pub use tap::{Balky, Direction, Observed};

use crate::base::limits::{GSO_MAX_SEGS, GSO_MAX_SIZE, MAX_PACKET_BYTES};
use crate::base::{Carrier, Instant};
use crate::packet::Packet;

/// What a device can do, told once when it is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCaps {
    /// Largest IP packet in bytes, link header not counted.
    pub mtu: u16,
    /// Its Ethernet address; `None` where frames start with the IP header.
    pub ethernet: Option<[u8; 6]>,
    /// Largest TCP super-packet in bytes of IP packet that it takes (TSO4 and TSO6); 0 for none.
    pub gso_max_size: u32,
    /// Most segments in one super-packet.
    pub gso_max_segs: u16,
    /// It completes partial checksums, or does not need them complete.
    pub checksum: bool,
    /// Packets wait in it until it tells that they have left. Where nothing waits (a TUN's write, a link in memory) a packet has left
    /// its flow's queue when it leaves the queueing discipline, however late the device tells.
    pub keeps: bool,
    /// What SCTP packets travel in there. Where that is not IP, nothing but SCTP leaves by this device; its IP headers, which name the
    /// sides to the stack, stay behind ([`datagram`]).
    pub carrier: Carrier,
    /// It takes several packets of SCTP as one, like a super-packet of TCP. No real device does.
    pub sctp: bool,
    /// A super-packet's CWR goes with each of its segments where the packet says so ([`Offload::repeats_cwr`]). A kernel's segmentation leaves it on the
    /// first.
    ///
    /// [`Offload::repeats_cwr`]: crate::packet::Offload::repeats_cwr
    pub repeats_cwr: bool,
}

impl DeviceCaps {
    /// A device of IP packets that offloads nothing.
    #[must_use]
    pub const fn plain(mtu: u16) -> Self {
        Self {
            mtu,
            ethernet: None,
            gso_max_size: 0,
            gso_max_segs: 1,
            checksum: false,
            keeps: true,
            carrier: Carrier::Ip,
            sctp: false,
            repeats_cwr: false,
        }
    }

    /// A device of IP packets that takes super-packets and unfinished checksums. The CWR of a super-packet is taken to go with its first segment alone, as
    /// kernels and network cards have it; of a device that copies it to each say [`Self::repeating_cwr`].
    #[must_use]
    pub const fn offloading(mtu: u16) -> Self {
        Self {
            mtu,
            ethernet: None,
            gso_max_size: GSO_MAX_SIZE as u32,
            gso_max_segs: GSO_MAX_SEGS,
            checksum: true,
            keeps: true,
            carrier: Carrier::Ip,
            sctp: false,
            repeats_cwr: false,
        }
    }

    /// The same device, if it takes several packets of SCTP as one.
    #[must_use]
    pub const fn taking_sctp(self) -> Self {
        Self { sctp: true, ..self }
    }

    /// The same device, if each segment of a super-packet has its CWR where the packet says so.
    #[must_use]
    pub const fn repeating_cwr(self) -> Self {
        Self { repeats_cwr: true, ..self }
    }

    /// The same device, if nothing waits in it.
    #[must_use]
    pub const fn keeping_nothing(self) -> Self {
        Self { keeps: false, ..self }
    }

    /// A device of SCTP packets in datagrams of at most `most` bytes.
    #[must_use]
    pub const fn datagrams(most: u16, carrier: Carrier) -> Self {
        Self { carrier, ..Self::plain(most.saturating_add(datagram::NAMES_LEN as u16)) }
    }

    /// Bytes of the link header.
    #[must_use]
    pub const fn link_len(&self) -> usize {
        if self.ethernet.is_some() { 14 } else { 0 }
    }

    /// True when a device with these abilities can carry `packet`: its size fits, whole or as a super-packet.
    #[must_use]
    pub fn carries(&self, packet: &Packet) -> bool {
        let gso = packet.offload.gso_size > 0 && self.gso_max_size > 0;
        let max = if gso { self.gso_max_size as usize } else { usize::from(self.mtu) };
        packet.len().saturating_sub(self.link_len()) <= max.min(MAX_PACKET_BYTES)
    }
}

/// A device's answer to a packet.
#[derive(Debug)]
#[must_use]
pub enum Submit {
    /// Taken; the owner's credit comes back by `Stack::complete` when the packet has left.
    Sent,
    /// Taken like [`Submit::Sent`], and the device is full with it: `Stack::device_ready` tells when there is room. Nothing is taken
    /// out of the queueing discipline before, so that what comes in the meantime may still be first (`netif_tx_stop_queue`).
    Filled,
    /// Taken and already gone (a TUN's write): the owner's credit is back.
    Completed,
    /// No room now: here it is, untouched. Never a loss. `Stack::device_ready` tells when there is room. The packet stands before all
    /// others then, for devices whose room nobody knows before they are asked: a system call that would block, a kernel short of memory.
    NotNow(Packet),
    /// Refused for good: it was not sent, and the owner's credit is back.
    Dropped,
}

/// Takes the packets that `Stack::transmit` hands over.
pub trait Device {
    /// Takes a packet or refuses it. Never blocks.
    #[allow(clippy::result_large_err, reason = "a packet moves by value")]
    fn submit(&mut self, now: Instant, packet: Packet) -> Submit;
}

impl<F: FnMut(Instant, Packet) -> Submit> Device for F {
    fn submit(&mut self, now: Instant, packet: Packet) -> Submit {
        self(now, packet)
    }
}

/// Bound of a queue in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimit {
    /// Packets.
    pub packets: usize,
    /// Bytes, headers included. The last packet may exceed them, as in byte queue limits: whether another one is taken does not depend
    /// on its size, and can be said before it comes.
    pub bytes: usize,
}

impl Default for QueueLimit {
    /// Room for sixteen super-packets, or as many small packets as a small network card holds (256 descriptors).
    fn default() -> Self {
        Self { packets: 256, bytes: 16 * GSO_MAX_SIZE }
    }
}

impl QueueLimit {
    /// True when another packet may join `packets` packets of `bytes` bytes.
    #[must_use]
    pub const fn admits(&self, packets: usize, bytes: usize) -> bool {
        packets == 0 || (packets < self.packets && bytes < self.bytes)
    }

    /// What may join them: as many packets, and bytes. A packet that has more of these than are left is the last.
    #[must_use]
    pub const fn room(&self, packets: usize, bytes: usize) -> Self {
        if !self.admits(packets, bytes) {
            return Self { packets: 0, bytes: 0 };
        }
        let left = self.packets.saturating_sub(packets);
        Self {
            packets: if left == 0 { 1 } else { left },
            bytes: self.bytes.saturating_sub(bytes).saturating_sub(1),
        }
    }
}
