//! SCTP over UDP (RFC 6951): the UDP header in front of a packet, and ICMP errors that quote one.
use crate::base::Tuple;
use crate::ip::{IcmpError, IcmpKind, Unreachable};
use crate::packet::{Csum, Packet};
use crate::stack::Stack;
use crate::stack::egress::pseudo_header;
use core::net::IpAddr;
use lowwater_wire::protocol;
use lowwater_wire::udp::{self, UdpRepr};

impl Stack {
    /// This UDP port of ours is SCTP's.
    pub(in crate::stack) const fn is_sctp_over_udp(&self, port: u16) -> bool {
        port != 0 && self.env.sysctl.sctp_udp_port == port as u32
    }

    /// Puts a UDP header in front of an SCTP packet where the peer has a UDP port and we do too; the protocol that IP gets. The
    /// checksum is always there, over IPv4 too (RFC 6951 section 4.3).
    pub(super) fn sctp_encapsulate(
        &self,
        packet: &mut Packet,
        (src, dst): (IpAddr, IpAddr),
        peer: u16,
    ) -> u8 {
        let ours = u16::try_from(self.env.sysctl.sctp_udp_port).unwrap_or(0);
        if peer == 0 || ours == 0 {
            return protocol::SCTP;
        }
        let (len, payload_len) = (packet.len() + udp::HEADER_LEN, packet.len() as u16);
        let header = packet.head.prepend(udp::HEADER_LEN);
        UdpRepr { src_port: ours, dst_port: peer, payload_len }.emit(header);
        udp::fill_checksum_partial(header, pseudo_header(src, dst, protocol::UDP, len));
        packet.offload.csum = Csum::Partial { start: 0, offset: udp::CHECKSUM_OFFSET as u16 };
        protocol::UDP
    }

    /// An ICMP error about a datagram of ours with SCTP in it. Only the ports and the tag inside name an association; a router
    /// that quotes no more than the UDP header is not believed (RFC 6951 section 4.5).
    pub(in crate::stack) fn icmp_error_sctp_udp(&mut self, outer: &Tuple, error: &IcmpError) -> bool {
        let Some(inner) = error.embedded.sctp else { return false };
        let tuple = Tuple { local_port: inner.src_port, remote_port: inner.dst_port, ..*outer };
        // Nobody has the UDP port: the host does not speak SCTP over UDP.
        let kind = match error.kind {
            IcmpKind::Unreachable(Unreachable::Port) => IcmpKind::Unreachable(Unreachable::Protocol),
            kind => kind,
        };
        self.sctp_unreached(&tuple, &inner, kind)
    }
}
