//! The output path of IP: header, fragmentation where it must be, link header.
use super::{Dst, FlowIds, Ip, Outbox, frag};
use crate::base::limits::MAX_PACKET_BYTES;
use crate::base::{Cx, DropWhy, Error};
use crate::packet::{Csum, GsoKind, Packet};
use core::net::IpAddr;
use lowwater_wire::{ipv4, ipv6};

/// The fields of an IP header that its sender decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputParams {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Transport protocol (`wire::protocol`).
    pub protocol: u8,
    /// Type of service or traffic class, ECN included.
    pub tos: u8,
    /// TTL or hop limit; `None` takes the route's, or the default.
    pub ttl: Option<u8>,
    /// IPv4: set DF. IPv6: refuse to fragment here.
    pub dont_fragment: bool,
    /// IPv4 ID of the first packet, from [`FlowIds::take`]; `None` draws one from IP's own counters.
    pub ident: Option<u16>,
    /// IPv6 flow label, 20 bits; 0 for none.
    pub flow_label: u32,
}

impl OutputParams {
    /// A packet that no flow numbers: DF unset, no `ttl` of its own, no label.
    #[must_use]
    pub const fn new(src: IpAddr, dst: IpAddr, protocol: u8) -> Self {
        Self { src, dst, protocol, tos: 0, ttl: None, dont_fragment: false, ident: None, flow_label: 0 }
    }

    /// Length of the IP header.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        if self.dst.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN }
    }

    /// Puts the header in front of `packet`; its length must fit, and both addresses be of one family.
    fn prepend(&self, packet: &mut Packet, ttl: u8, ident: u16) -> bool {
        let payload_len = packet.len() as u16;
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let repr = ipv4::Ipv4Repr {
                    src,
                    dst,
                    protocol: self.protocol,
                    ttl,
                    tos: self.tos,
                    ident,
                    dont_fragment: self.dont_fragment,
                    more_fragments: false,
                    fragment_offset: 0,
                    payload_len,
                };
                repr.emit(packet.head.prepend(repr.buffer_len()));
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let repr = ipv6::Ipv6Repr {
                    src,
                    dst,
                    next_header: self.protocol,
                    hop_limit: ttl,
                    traffic_class: self.tos,
                    flow_label: self.flow_label,
                    payload_len,
                };
                repr.emit(packet.head.prepend(repr.buffer_len()));
            }
            _ => return false,
        }
        if let Csum::Partial { start, .. } = &mut packet.offload.csum {
            *start += self.header_len() as u16;
        }
        true
    }
}

impl Ip {
    /// Puts an IP header in front of `packet`, whose head starts with the transport header, and hands the frame to
    /// `out.frames`: whole, in fragments, or once the neighbour has answered. A super-packet stays one packet.
    ///
    /// `packet.offload.csum`, where partial, must be [`Csum::Partial`] with `start` 0: the length of the IP header is added
    /// here. What is too big for `dst.mtu` and may not be fragmented goes to `out.dropped` with [`DropWhy::TooBig`].
    pub fn output(
        &mut self,
        cx: &mut Cx<'_>,
        dst: &Dst,
        params: &OutputParams,
        mut packet: Packet,
        out: &mut Outbox,
    ) {
        cx.count.ip.out_requests += 1;
        let header_len = params.header_len();
        let total = header_len + packet.len();
        let (largest, packets) = match packet.offload.gso {
            GsoKind::None => (total, 1),
            _ => {
                let size = usize::from(packet.offload.gso_size).max(1);
                let unit = packet.payload.len().min(size);
                (header_len + packet.head.len() + unit, packet.payload.len().div_ceil(size))
            }
        };
        let fragments = largest > usize::from(dst.mtu);
        let room = frag::room(params.dst.is_ipv4(), dst.mtu.into());
        let may_fragment = !params.dont_fragment && packet.offload.gso == GsoKind::None && room > 0;
        // The length of IPv4 counts its header, that of IPv6 does not.
        let counted = if params.dst.is_ipv4() { total } else { packet.len() };
        if counted > MAX_PACKET_BYTES || (fragments && !may_fragment) {
            cx.count.ip.frag_fails += u64::from(fragments);
            out.dropped.push((packet, DropWhy::TooBig));
            return;
        }
        let ident = match params.ident {
            Some(ident) => ident,
            None if params.dst.is_ipv6() => 0,
            None => self.idents.next(params.src, params.dst, params.protocol, cx.rng, packets as u16),
        };
        let of_route = || Some(dst.hops).filter(|&hops| hops != 0);
        let ttl = params.ttl.or_else(of_route).unwrap_or_else(|| cx.sysctl.default_ttl(params.dst.is_ipv6()));
        if !params.prepend(&mut packet, ttl, ident) {
            out.dropped.push((packet, DropWhy::NoRoute));
            return;
        }
        let to = (dst.device, dst.next_hop);
        if !fragments {
            cx.count.ip.out_transmits += 1;
            cx.count.ip_ext.out_octets += total as u64;
            self.link_output(cx, to, packet, out);
            return;
        }
        cx.count.ip.frag_oks += 1;
        let ident = cx.rng.next_u32();
        for piece in frag::split(packet, room, ident) {
            cx.count.ip.frag_creates += 1;
            cx.count.ip.out_transmits += 1;
            cx.count.ip_ext.out_octets += piece.len() as u64;
            self.link_output(cx, to, piece, out);
        }
    }

    /// [`Ip::lookup`] and [`Ip::output`] in one, for packets outside any flow (RST, ICMP).
    ///
    /// # Errors
    /// Those of [`Ip::lookup`]; the packet is gone, since nobody pays for it.
    pub fn send(
        &mut self,
        cx: &mut Cx<'_>,
        params: &OutputParams,
        packet: Packet,
        out: &mut Outbox,
    ) -> Result<(), Error> {
        let dst = self.lookup(Some(params.src), params.dst, cx.now);
        let dst = dst.inspect_err(|_| cx.count.ip.out_no_routes += 1)?;
        self.output(cx, &dst, params, packet, out);
        Ok(())
    }

    /// The identification of a flow between two sockets, for its [`OutputParams`]; the flow keeps it.
    #[must_use]
    pub fn flow_ids(&self, src: (IpAddr, u16), dst: (IpAddr, u16), protocol: u8) -> FlowIds {
        self.idents.of_flow(src, dst, protocol)
    }
}
