//! The contract between the stack and what carries its packets.
use crate::base::Instant;
use crate::base::limits::{GSO_MAX_SEGS, GSO_MAX_SIZE};
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
}

impl DeviceCaps {
    /// A device of IP packets that offloads nothing.
    #[must_use]
    pub const fn plain(mtu: u16) -> Self {
        Self { mtu, ethernet: None, gso_max_size: 0, gso_max_segs: 1, checksum: false }
    }

    /// A device of IP packets that takes super-packets and unfinished checksums.
    #[must_use]
    pub const fn offloading(mtu: u16) -> Self {
        Self {
            mtu,
            ethernet: None,
            gso_max_size: GSO_MAX_SIZE as u32,
            gso_max_segs: GSO_MAX_SEGS,
            checksum: true,
        }
    }

    /// Bytes of the link header.
    #[must_use]
    pub const fn link_len(&self) -> usize {
        if self.ethernet.is_some() { 14 } else { 0 }
    }
}

/// A device's answer to a packet.
#[derive(Debug)]
#[must_use]
pub enum Submit {
    /// Taken; the owner's credit comes back by `Stack::complete` when the packet has left.
    Sent,
    /// Taken and already gone (a TUN's write): the owner's credit is back.
    Completed,
    /// No room now: here it is, untouched. Never a loss. `Stack::device_ready` tells when there is room.
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
