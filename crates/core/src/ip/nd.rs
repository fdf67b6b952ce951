//! Neighbour Discovery on Ethernet (RFC 4861): asking, answering and learning. Routers are configured, not discovered.
use super::ethernet::frame;
use super::iface::{ALL_NODES, Iface, solicited_node};
use super::neigh::Advert;
use super::{Ingress, Input, Ip, Outbox};
use crate::base::{Cx, DeviceId, DropWhy};
use crate::packet::{Head, Offload, Packet};
use bytes::Bytes;
use core::net::{IpAddr, Ipv6Addr};
use lowwater_wire::ether::{EtherAddr, TYPE_IPV6};
use lowwater_wire::icmp6::{Icmp6Repr, NdRepr};
use lowwater_wire::ipv6::Ipv6Repr;
use lowwater_wire::protocol;

/// Only a neighbour can send this: routers would have lowered it (RFC 4861 section 11.2).
const HOP_LIMIT: u8 = 255;

impl Ip {
    pub(super) fn input_nd(
        &mut self,
        cx: &mut Cx<'_>,
        ingress: &Ingress,
        nd: &NdRepr,
        out: &mut Outbox,
    ) -> Input {
        let device = ingress.device;
        let Some(mac) = self.ifaces.get(device).and_then(Iface::mac) else {
            return Input::Drop(DropWhy::IcmpIgnored);
        };
        let (IpAddr::V6(src), IpAddr::V6(dst)) = (ingress.src, ingress.dst) else {
            return Input::Drop(DropWhy::Malformed);
        };
        if ingress.ttl != HOP_LIMIT {
            return Input::Drop(DropWhy::Malformed);
        }
        match *nd {
            NdRepr::NeighbourSolicit { target, source_link } => {
                // RFC 4861 section 7.1.1: a probe for duplicates names no link address and goes to the group.
                if src.is_unspecified() && (source_link.is_some() || dst != solicited_node(target)) {
                    return Input::Drop(DropWhy::Malformed);
                }
                self.input_solicit(cx, (device, mac), (src, target), source_link, out);
                Input::Consumed
            }
            NdRepr::NeighbourAdvert { solicited, override_cached, target, target_link, .. } => {
                // RFC 4861 section 7.1.2; and nobody else may speak for our addresses.
                if (solicited && dst.is_multicast()) || self.ifaces.owner_of(target.into()).is_some() {
                    return Input::Drop(DropWhy::Malformed);
                }
                if target_link.is_some_and(|mac| !mac.is_unicast()) {
                    return Input::Drop(DropWhy::Malformed);
                }
                let advert = Advert { mac: target_link, solicited, override_cached };
                let waiting = self.neigh.on_advert(cx, (device, target.into()), advert);
                if let Some(to) = target_link {
                    self.release(device, target.into(), to, waiting, out);
                }
                Input::Consumed
            }
            NdRepr::RouterSolicit { .. } | NdRepr::RouterAdvert(_) => Input::Drop(DropWhy::IcmpIgnored),
        }
    }

    fn input_solicit(
        &mut self,
        cx: &mut Cx<'_>,
        (device, mac): (DeviceId, EtherAddr),
        (src, target): (Ipv6Addr, Ipv6Addr),
        source_link: Option<EtherAddr>,
        out: &mut Outbox,
    ) {
        if self.ifaces.owner_of(target.into()) != Some(device) {
            return;
        }
        let asker = source_link.filter(|mac| mac.is_unicast());
        if let Some(to) = asker {
            let waiting = self.asked_by(cx, (device, src.into()), to, out);
            self.release(device, src.into(), to, waiting, out);
        }
        let to = if src.is_unspecified() { ALL_NODES } else { src };
        let advert = Icmp6Repr::Nd(NdRepr::NeighbourAdvert {
            router: false,
            solicited: !src.is_unspecified(),
            override_cached: true,
            target,
            target_link: Some(mac),
        });
        let mut packet = nd_packet(cx, target, to, &advert);
        // Who has said where it is need not be looked for; and its question makes no neighbour in use of it, as none over ARP does.
        if let Some(at) = asker {
            frame(&mut packet.head, mac, at, TYPE_IPV6);
            out.frames.push((device, packet));
        } else {
            self.link_output(cx, (device, to.into()), packet, out);
        }
    }

    /// Asks for the link address of `target`: the group of its possible owners, or a known address.
    pub(super) fn neighbour_solicit(
        &mut self,
        cx: &mut Cx<'_>,
        (device, mac): (DeviceId, EtherAddr),
        (src, target): (Ipv6Addr, Ipv6Addr),
        unicast: Option<EtherAddr>,
        out: &mut Outbox,
    ) {
        let group = solicited_node(target);
        let dst = if unicast.is_some() { target } else { group };
        let solicit = Icmp6Repr::Nd(NdRepr::NeighbourSolicit { target, source_link: Some(mac) });
        let mut packet = nd_packet(cx, src, dst, &solicit);
        let to = unicast.unwrap_or(EtherAddr::multicast_v6(group));
        frame(&mut packet.head, mac, to, TYPE_IPV6);
        out.frames.push((device, packet));
    }
}

fn nd_packet(cx: &Cx<'_>, src: Ipv6Addr, dst: Ipv6Addr, message: &Icmp6Repr<'_>) -> Packet {
    let mut head = Head::new();
    message.emit(src, dst, head.prepend(message.buffer_len()));
    let ip = Ipv6Repr {
        src,
        dst,
        next_header: protocol::ICMPV6,
        hop_limit: HOP_LIMIT,
        traffic_class: 0,
        flow_label: 0,
        payload_len: message.buffer_len() as u16,
    };
    ip.emit(head.prepend(ip.buffer_len()));
    Packet {
        head,
        payload: Bytes::new(),
        offload: Offload::default(),
        owner: None,
        at: cx.now,
        priority: None,
    }
}
