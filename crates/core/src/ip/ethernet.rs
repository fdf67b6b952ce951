//! Ethernet framing: strips the header of what comes in, answers ARP, finds link addresses for what goes out.
use super::iface::Iface;
use super::neigh::{Advert, Due, Resolve};
use super::{Cidr, Dst, Ip, Outbox, source};
use crate::base::{Cx, DeviceId, DropWhy};
use crate::packet::{Head, Offload, Packet};
use bytes::{Buf as _, Bytes};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use lowwater_wire::arp::{ArpOperation, ArpRepr, ArpView};
use lowwater_wire::ether::{EtherAddr, EtherRepr, EtherView, HEADER_LEN, TYPE_ARP, TYPE_IPV4, TYPE_IPV6};
use std::collections::VecDeque;

/// What became of a frame.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "the large one is the common one, and is moved once")]
pub enum FrameInput {
    /// An IP packet, for GRO or [`Ip::input`].
    Packet(Packet),
    /// One that has come to all of the link or to a group of it, for [`Ip::input_to_group`].
    ToGroup(Packet),
    /// ARP, dealt with.
    Consumed,
    /// Dropped; the caller counts the reason.
    Drop(DropWhy),
}

/// Removes the first `len` bytes of a packet; there must be as many.
fn strip(packet: &mut Packet, len: usize) {
    let in_head = len.min(packet.head.len());
    packet.head.strip(in_head);
    packet.payload.advance(len - in_head);
}

fn ethertype(addr: IpAddr) -> u16 {
    if addr.is_ipv4() { TYPE_IPV4 } else { TYPE_IPV6 }
}

impl Ip {
    /// Takes the link header off a frame. On a device without one the packet passes through.
    pub fn input_frame(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceId,
        mut frame: Packet,
        out: &mut Outbox,
    ) -> FrameInput {
        let Some(mac) = self.ifaces.get(device).and_then(Iface::mac) else {
            return FrameInput::Packet(frame);
        };
        if !frame.head.is_empty() && frame.head.len() < HEADER_LEN {
            frame = Packet { payload: frame.to_bytes(), head: Head::new(), ..frame };
        }
        let bytes = if frame.head.is_empty() { &frame.payload[..] } else { frame.head.as_slice() };
        let Ok(view) = EtherView::parse(bytes) else { return FrameInput::Drop(DropWhy::Malformed) };
        let (ethertype, dst) = (view.ethertype(), view.dst());
        if dst != mac && !dst.is_multicast() {
            return FrameInput::Drop(DropWhy::NotForUs);
        }
        strip(&mut frame, HEADER_LEN);
        match ethertype {
            TYPE_IPV4 | TYPE_IPV6 if dst.is_multicast() => FrameInput::ToGroup(frame),
            TYPE_IPV4 | TYPE_IPV6 => FrameInput::Packet(frame),
            TYPE_ARP => self.input_arp(cx, (device, mac), &frame.to_bytes(), out),
            _ => FrameInput::Drop(DropWhy::EtherType),
        }
    }

    /// RFC 826, and RFC 5227 for probes and announcements.
    fn input_arp(
        &mut self,
        cx: &mut Cx<'_>,
        (device, mac): (DeviceId, EtherAddr),
        bytes: &[u8],
        out: &mut Outbox,
    ) -> FrameInput {
        let Ok(arp) = ArpView::parse(bytes).and_then(|view| ArpRepr::parse(&view)) else {
            return FrameInput::Drop(DropWhy::Malformed);
        };
        let sender = IpAddr::V4(arp.sender_ip);
        let for_us = self.ifaces.owner_of(IpAddr::V4(arp.target_ip)).is_some();
        let probe = arp.sender_ip.is_unspecified();
        // Those of the loopback device are ours, but not on any wire (RFC 1122 section 3.2.1.3; `arp_process`).
        if arp.target_ip.is_loopback() {
            return FrameInput::Drop(DropWhy::NotForUs);
        }
        let bad_sender = arp.sender_ip.is_multicast()
            || arp.sender_ip.is_broadcast()
            || arp.sender_ip.is_loopback()
            || !arp.sender_mac.is_unicast()
            || self.ifaces.owner_of(sender).is_some();
        if bad_sender {
            return FrameInput::Drop(DropWhy::BadSource);
        }
        let asks_us = for_us && arp.operation == ArpOperation::Request;
        if !probe {
            let waiting = if asks_us {
                self.asked_by(cx, (device, sender), arp.sender_mac, out)
            } else {
                let solicited = for_us && arp.operation == ArpOperation::Reply;
                let advert = Advert { mac: Some(arp.sender_mac), solicited, override_cached: true };
                self.neigh.on_advert(cx, (device, sender), advert)
            };
            self.release(device, sender, arp.sender_mac, waiting, out);
        }
        if asks_us {
            let reply = ArpRepr {
                operation: ArpOperation::Reply,
                sender_mac: mac,
                sender_ip: arp.target_ip,
                target_mac: arp.sender_mac,
                target_ip: arp.sender_ip,
            };
            emit_arp(cx, device, &reply, arp.sender_mac, out);
        }
        FrameInput::Consumed
    }

    /// A neighbour that asks for us will be answered by IP soon, so its address is remembered. Nothing is ever sent straight to who is not on the
    /// link, so of that one nothing is. (Linux remembers both unless `rp_filter` says otherwise.) Returns what waited for it.
    pub(super) fn asked_by(
        &mut self,
        cx: &mut Cx<'_>,
        (device, asker): (DeviceId, IpAddr),
        mac: EtherAddr,
        out: &mut Outbox,
    ) -> VecDeque<Packet> {
        let way = self.routes.lookup(asker, |route| route.device == device);
        let on_link = source::scope(asker) == source::LINK
            // It may be a gateway to which a more particular route does not lead.
            || self.neigh.get(device, asker).is_some()
            || way.is_some_and(|route| route.gateway.is_none_or(|gateway| gateway == asker));
        if !on_link {
            return VecDeque::new();
        }
        self.neigh.on_solicit(cx, (device, asker), mac, &mut out.dropped)
    }

    /// Sends what waited for `addr`, in order.
    pub(super) fn release(
        &self,
        device: DeviceId,
        addr: IpAddr,
        to: EtherAddr,
        waiting: VecDeque<Packet>,
        out: &mut Outbox,
    ) {
        let Some(from) = self.ifaces.get(device).and_then(Iface::mac) else { return };
        for mut packet in waiting {
            frame(&mut packet.head, from, to, ethertype(addr));
            out.frames.push((device, packet));
        }
    }

    /// Hands `packet`, which starts with its IP header, to `device` for `next_hop`: at once, or when its address is known.
    pub(super) fn link_output(
        &mut self,
        cx: &mut Cx<'_>,
        (device, next_hop): (DeviceId, IpAddr),
        mut packet: Packet,
        out: &mut Outbox,
    ) {
        let Some(iface) = self.ifaces.get(device) else {
            out.dropped.push((packet, DropWhy::NoRoute));
            return;
        };
        let Some(mac) = iface.mac() else {
            out.frames.push((device, packet));
            return;
        };
        let group = match next_hop {
            IpAddr::V4(a) if iface.is_broadcast(a) => Some(EtherAddr::BROADCAST),
            IpAddr::V4(a) if a.is_multicast() => Some(EtherAddr::multicast_v4(a)),
            IpAddr::V6(a) if a.is_multicast() => Some(EtherAddr::multicast_v6(a)),
            _ => None,
        };
        if let Some(to) = group {
            frame(&mut packet.head, mac, to, ethertype(next_hop));
            out.frames.push((device, packet));
            return;
        }
        match self.neigh.resolve(cx.now, (device, next_hop), packet, &mut out.dropped) {
            Resolve::Ready(to, mut packet) => {
                frame(&mut packet.head, mac, to, ethertype(next_hop));
                out.frames.push((device, packet));
            }
            Resolve::Queued(true) => self.solicit(cx, device, next_hop, None, out),
            Resolve::Queued(false) => {}
        }
    }

    /// Asks for the link address of `addr`.
    fn solicit(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceId,
        addr: IpAddr,
        unicast: Option<EtherAddr>,
        out: &mut Outbox,
    ) {
        let Some(mac) = self.ifaces.get(device).and_then(Iface::mac) else { return };
        let waits = self.neigh.newest(device, addr).and_then(source_of);
        match addr {
            IpAddr::V4(target_ip) => {
                let request = ArpRepr {
                    operation: ArpOperation::Request,
                    sender_mac: mac,
                    sender_ip: self.arp_source(device, target_ip, waits),
                    target_mac: EtherAddr::ZERO,
                    target_ip,
                };
                emit_arp(cx, device, &request, unicast.unwrap_or(EtherAddr::BROADCAST), out);
            }
            IpAddr::V6(target) => {
                // An IPv6 device always has its link-local address unless its owner took it away.
                if let Some(src) = self.solicitation_source(device, addr, waits) {
                    self.neighbour_solicit(cx, (device, mac), (src, target), unicast, out);
                }
            }
        }
    }

    /// Who asks: the source of the packet that waits, where that is an address of ours on whichever device (`arp_solicit` with arp_announce 0); else
    /// the device's first address of the target's subnet, else its first, else that of another device (`inet_select_addr`). Without any the question
    /// is a probe (RFC 5227 section 1.1).
    fn arp_source(&self, device: DeviceId, target: Ipv4Addr, waits: Option<IpAddr>) -> Ipv4Addr {
        let announced = waits.filter(|src| !src.is_loopback() && self.ifaces.owner_of(*src).is_some());
        if let Some(IpAddr::V4(src)) = announced {
            return src;
        }
        let mut first = None;
        for (on, addr, prefix) in self.ifaces.candidates() {
            let IpAddr::V4(addr) = addr else { continue };
            if addr.is_loopback() {
                continue;
            }
            let shares = |c: Cidr| c.contains(IpAddr::V4(target));
            if on == device && Cidr::new(addr.into(), prefix).is_some_and(shares) {
                return addr;
            }
            // The device's own before others.
            match first {
                Some((of, _)) if of == device || on != device => {}
                _ => first = Some((on, addr)),
            }
        }
        first.map_or(Ipv4Addr::UNSPECIFIED, |(_, addr)| addr)
    }

    /// Who asks: the source of the packet that waits, where the device has that (RFC 4861 section 7.2.2), else the device's link-local address
    /// (`ndisc_solicit`). Without one any that reaches the target will do.
    fn solicitation_source(
        &self,
        device: DeviceId,
        target: IpAddr,
        waits: Option<IpAddr>,
    ) -> Option<Ipv6Addr> {
        let on_device = || self.ifaces.candidates().filter(|c| c.0 == device);
        let has = |src: &IpAddr| on_device().any(|(_, addr, _)| addr == *src);
        let link_local = || {
            let mut v6 = on_device().map(|c| c.1).filter(IpAddr::is_ipv6);
            v6.find(|addr| source::scope(*addr) == source::LINK)
        };
        let src = waits
            .filter(has)
            .or_else(link_local)
            .or_else(|| source::select(on_device(), (target, None), device));
        if let Some(IpAddr::V6(src)) = src { Some(src) } else { None }
    }

    /// The transport has heard from the peer in answer to what it sent: the neighbour works (RFC 4861 section 7.3.1).
    pub fn confirm_neighbour(&mut self, cx: &mut Cx<'_>, dst: &Dst) {
        if self.ifaces.get(dst.device).and_then(Iface::mac).is_some() {
            self.neigh.confirm(cx, (dst.device, dst.next_hop));
        }
    }

    pub(super) fn neighbour_due(&mut self, cx: &mut Cx<'_>, due: Due, out: &mut Outbox) {
        match due {
            Due::Solicit { device, addr, unicast } => self.solicit(cx, device, addr, unicast, out),
            Due::Failed { queue } => {
                out.dropped.extend(queue.into_iter().map(|p| (p, DropWhy::Neighbour)));
            }
        }
    }
}

/// The source of a packet that starts with its IP header.
fn source_of(packet: &Packet) -> Option<IpAddr> {
    let bytes = if packet.head.is_empty() { &packet.payload[..] } else { packet.head.as_slice() };
    match bytes.first()? >> 4 {
        4 => Some(IpAddr::from(*bytes.get(12..)?.first_chunk::<4>()?)),
        6 => Some(IpAddr::from(*bytes.get(8..)?.first_chunk::<16>()?)),
        _ => None,
    }
}

/// Puts an Ethernet header in front.
pub(super) fn frame(head: &mut Head, src: EtherAddr, dst: EtherAddr, ethertype: u16) {
    EtherRepr { dst, src, ethertype }.emit(head.prepend(HEADER_LEN));
}

fn emit_arp(cx: &Cx<'_>, device: DeviceId, arp: &ArpRepr, to: EtherAddr, out: &mut Outbox) {
    let mut head = Head::new();
    arp.emit(head.prepend(arp.buffer_len()));
    frame(&mut head, arp.sender_mac, to, TYPE_ARP);
    let packet = Packet {
        head,
        payload: Bytes::new(),
        offload: Offload::default(),
        owner: None,
        at: cx.now,
        priority: None,
    };
    out.frames.push((device, packet));
}

#[cfg(test)]
mod tests;
