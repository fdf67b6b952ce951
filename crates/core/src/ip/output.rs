//! The output path of IP: header, fragmentation where it must be, link header.
use super::{Dst, Ip, Outbox};
use crate::base::{Cx, Error};
use crate::packet::Packet;
use core::net::IpAddr;

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
    /// TTL or hop limit.
    pub ttl: u8,
    /// IPv4: set DF. IPv6: refuse to fragment here.
    pub dont_fragment: bool,
    /// IPv4 ID of the first packet, from [`super::FlowIds::take`]; `None` draws one from IP's own counters.
    pub ident: Option<u16>,
    /// IPv6 flow label, 20 bits; 0 for none.
    pub flow_label: u32,
}

impl OutputParams {
    /// A packet that no flow numbers: DF unset, `ttl` 64, no label.
    #[must_use]
    pub const fn new(src: IpAddr, dst: IpAddr, protocol: u8) -> Self {
        Self { src, dst, protocol, tos: 0, ttl: 64, dont_fragment: false, ident: None, flow_label: 0 }
    }
}

impl Ip {
    /// Puts an IP header in front of `packet`, whose head starts with the transport header, and hands the frame to
    /// `out.frames`: whole, in fragments, or after the neighbour has answered. A super-packet stays one packet.
    ///
    /// `packet.offload.csum`, where partial, must be [`Csum::Partial`](crate::packet::Csum::Partial) with `start` 0: the
    /// length of the IP header is added here.
    pub fn output(
        &mut self,
        cx: &mut Cx<'_>,
        dst: &Dst,
        params: &OutputParams,
        packet: Packet,
        out: &mut Outbox,
    ) {
        let _ = (cx, dst, params, packet, out);
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
        let dst = self.lookup(Some(params.src), params.dst, cx.now)?;
        self.output(cx, &dst, params, packet, out);
        Ok(())
    }

    /// The identification of a flow between two sockets; the flow keeps it.
    #[must_use]
    pub fn flow_ids(&self, src: (IpAddr, u16), dst: (IpAddr, u16), protocol: u8) -> super::FlowIds {
        self.idents.of_flow(src, dst, protocol)
    }
}
