//! A packet that has passed the IP layer, as a transport sees it.
use crate::base::DeviceId;
use crate::packet::{Csum, Packet};
use bytes::Bytes;
use core::net::IpAddr;
use lowwater_wire::checksum;

/// A packet for a transport.
#[derive(Clone, Debug)]
pub struct Ingress {
    /// Device it came in by.
    pub device: DeviceId,
    /// Source address.
    pub src: IpAddr,
    /// Destination address: ours, or any in "any address" mode, or a group's or broadcast.
    pub dst: IpAddr,
    /// Transport protocol (`wire::protocol`).
    pub protocol: u8,
    /// Type of service or traffic class: DSCP, and ECN in the low two bits.
    pub tos: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// The destination is a broadcast or multicast address, or that of the frame was: TCP must ignore it (RFC 9293 section 3.9.2.3), and
    /// nobody answers it.
    pub to_group: bool,
    /// Offset of the transport header from the start of the IP header.
    pub l4_offset: u16,
    /// The whole packet from its IP header on, link padding removed.
    pub packet: Packet,
}

impl Ingress {
    /// Length of the transport's header and payload.
    #[must_use]
    pub fn l4_len(&self) -> usize {
        self.packet.len().saturating_sub(usize::from(self.l4_offset))
    }

    /// The transport header and what lies contiguously behind it: all of the payload in a packet from a device, none of it
    /// in one from a link in memory. Take the payload from [`Self::payload`], not from here.
    #[must_use]
    pub fn l4(&self) -> &[u8] {
        let (at, head) = (usize::from(self.l4_offset), self.packet.head.as_slice());
        match at.checked_sub(head.len()) {
            None => &head[at..],
            Some(at) => self.packet.payload.get(at..).unwrap_or_default(),
        }
    }

    /// The flow label of its header; 0 over IPv4.
    #[must_use]
    pub fn flow_label(&self) -> u32 {
        if self.src.is_ipv4() {
            return 0;
        }
        let head = self.packet.head.as_slice();
        let header = if head.is_empty() { &self.packet.payload[..] } else { head };
        header.first_chunk().map_or(0, |word| u32::from_be_bytes(*word) & 0x000f_ffff)
    }

    /// What follows the first `header_len` bytes of the transport, without a copy.
    #[must_use]
    pub fn payload(&self, header_len: usize) -> Bytes {
        self.packet.payload.slice(self.payload_at(header_len)..)
    }

    /// The same as it lies in the packet's payload, without a reference of its own.
    #[must_use]
    pub fn payload_bytes(&self, header_len: usize) -> &[u8] {
        &self.packet.payload[self.payload_at(header_len)..]
    }

    fn payload_at(&self, header_len: usize) -> usize {
        let at = (usize::from(self.l4_offset) + header_len).saturating_sub(self.packet.head.len());
        at.min(self.packet.payload.len())
    }

    /// Copies the IP header and the first `header_len` bytes of the transport to `to`, in place of what is there.
    pub fn copy_headers(&self, header_len: usize, to: &mut Vec<u8>) {
        let (len, head) = (usize::from(self.l4_offset) + header_len, self.packet.head.as_slice());
        let first = head.get(..len).unwrap_or(head);
        to.clear();
        to.extend_from_slice(first);
        to.extend_from_slice(self.packet.payload.get(..len - first.len()).unwrap_or_default());
    }

    /// The same without what lies behind the first `len` bytes of the transport (surplus of UDP, RFC 9868 section 4).
    #[must_use]
    pub fn cut(&self, len: usize) -> Self {
        let total = usize::from(self.l4_offset) + len;
        let mut packet = self.packet.clone();
        super::input::trim(&mut packet, total);
        Self { packet, ..*self }
    }

    /// ECN codepoint: 0 not-ECT, 1 ECT(1), 2 ECT(0), 3 CE (RFC 3168 section 5).
    #[must_use]
    pub const fn ecn(&self) -> u8 {
        self.tos & 3
    }

    /// Partial sum over the pseudo-header.
    #[must_use]
    pub fn pseudo(&self) -> u64 {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => checksum::pseudo_v4(src, dst, self.protocol, self.l4_len()),
            (IpAddr::V6(src), IpAddr::V6(dst)) => checksum::pseudo_v6(src, dst, self.protocol, self.l4_len()),
            _ => 0,
        }
    }

    /// True when the transport checksum adds up, or the device vouches for it, or it was never computed because the packet
    /// has not left this machine. UDP over IPv4 without a checksum is the caller's business.
    #[must_use]
    pub fn checksum_ok(&self) -> bool {
        match self.packet.offload.csum {
            Csum::Valid | Csum::Partial { .. } => true,
            Csum::None => {
                let (l4, at) = (self.l4(), usize::from(self.l4_offset));
                let sum = if at < self.packet.head.len() {
                    checksum::sum_parts(&[l4, &self.packet.payload])
                } else {
                    checksum::sum(l4)
                };
                checksum::fold(u64::from(checksum::fold(self.pseudo())) + sum) == 0xffff
            }
        }
    }
}
