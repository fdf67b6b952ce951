//! What becomes of packets at a queueing discipline: each end says something else to the flow.
use super::Stack;
use crate::base::{DeviceId, DropWhy};
use crate::ip::{IcmpError, IcmpKind, Unreachable};
use crate::packet::{Owner, Packet};
use crate::qdisc::{Fate, Qdisc as _};
use crate::socket::{Socket, Turn};
use crate::tcp::Seq;
use lowwater_wire::{ipv4, ipv6, protocol, tcp};

impl Stack {
    /// Gives a packet to the device's queueing discipline.
    pub(super) fn enqueue(&mut self, dev: DeviceId, packet: Packet) {
        let Some(link) = self.links.get_mut(usize::from(dev.0)) else {
            return self.packet_lost(&packet, DropWhy::NoRoute);
        };
        if !link.early.is_empty() && link.early.holds_back(&packet) {
            if link.early.is_full() {
                return self.not_taken(dev, &packet);
            }
            return link.early.keep(packet);
        }
        self.hand_over(dev, packet);
    }

    /// Gives it one that passes by what waits for its time.
    pub(super) fn hand_over(&mut self, dev: DeviceId, packet: Packet) {
        let Some(link) = self.links.get_mut(usize::from(dev.0)) else { return };
        // It may go before what the discipline holds back.
        link.not_before = None;
        link.qdisc.enqueue(&mut self.env.cx(self.now, None), packet, &mut link.gone);
        if !link.gone.is_empty() {
            self.carry_out(dev);
        }
    }

    /// What a queueing discipline gave up or let go without its owner: counted, and told to whom it concerns.
    pub(super) fn carry_out(&mut self, dev: DeviceId) {
        let mut gone = core::mem::take(&mut self.links[usize::from(dev.0)].gone);
        for (owner, more) in gone.grown.drain(..) {
            let (id, newest) = (owner.flow.socket, self.hands_down(owner));
            if let Some(Socket::Tcp(conn)) = self.sockets.get_mut(id).map(|e| &mut e.socket) {
                conn.on_cut(&self.env.cx(self.now, Some(id)), owner, more, newest);
            }
        }
        for owner in gone.released.drain(..) {
            self.credit_back(owner, Origin::Queue);
        }
        for owner in gone.parts.drain(..) {
            self.part_refused(owner);
        }
        for (packet, fate) in gone.packets.drain(..) {
            match fate {
                Fate::Refused => {
                    self.env.count.ip.out_discards += 1;
                    self.not_taken(dev, &packet);
                }
                Fate::Dropped => self.given_up(dev, &packet),
                // Its owner was released before: nobody may hear of it.
                Fate::Lost => self.packet_lost(&packet, DropWhy::Emulated),
            }
        }
        self.links[usize::from(dev.0)].gone = gone;
    }

    /// It is a piece of the packet that its flow hands down now: what is told of it is told of the flow's newest.
    fn hands_down(&self, owner: Owner) -> bool {
        self.down.handing.and_then(|handing| handing.owner).is_some_and(|of| of.flow == owner.flow)
    }

    /// The queue had no room for a piece of a packet, and has others of it: no loss that its flow hears of.
    fn part_refused(&mut self, owner: Owner) {
        let (id, newest) = (owner.flow.socket, self.hands_down(owner));
        if let Some(Socket::Tcp(conn)) = self.sockets.get_mut(id).map(|entry| &mut entry.socket) {
            conn.on_part_refused(&mut self.env.cx(self.now, Some(id)), owner, newest);
            self.settle(id, Turn::CREDIT);
        } else {
            self.refund(owner, false, Origin::Queue);
        }
    }

    /// The queue had no room.
    fn not_taken(&mut self, dev: DeviceId, packet: &Packet) {
        let link_len = self.links.get(usize::from(dev.0)).map_or(0, |link| link.caps.link_len());
        let handing = self.down.handing.as_mut();
        let Some(handing) = handing.filter(|handing| handing.is(packet, link_len)) else {
            return self.packet_lost(packet, DropWhy::QueueFull);
        };
        // Whoever hands it down hears of it as the answer.
        handing.refused = true;
        self.env.count.dropped(DropWhy::QueueFull);
    }

    pub(super) fn packet_lost(&mut self, packet: &Packet, why: DropWhy) {
        self.env.count.dropped(why);
        if let Some(owner) = packet.owner {
            self.refund(owner, true, Origin::Queue);
        }
        // Nobody else will tell the flow that its next hop does not answer (RFC 4861 section 7.2.2).
        if why == DropWhy::Neighbour
            && let Some(error) = IcmpError::local(packet, 0, IcmpKind::Unreachable(Unreachable::Host))
        {
            self.icmp_error(&error);
        }
    }

    /// A packet was given up on purpose after it had been in the queue: a connection hears which bytes are lost.
    fn given_up(&mut self, dev: DeviceId, packet: &Packet) {
        self.env.count.dropped(DropWhy::Aqm);
        let Some(owner) = packet.owner else { return };
        let id = owner.flow.socket;
        let range = self.links.get(usize::from(dev.0)).and_then(|l| tcp_range(packet, l.caps.link_len()));
        match (range, self.sockets.get_mut(id).map(|entry| &mut entry.socket)) {
            (Some((seq, len)), Some(Socket::Tcp(conn))) => {
                conn.on_given_up(&mut self.env.cx(self.now, Some(id)), owner, seq, len);
                self.settle(id, Turn::CREDIT);
            }
            _ => {
                self.refund(owner, true, Origin::Queue);
            }
        }
    }
}

/// Where a packet was when its credit came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// In its flow's queue: on the way to a queueing discipline, in it, or in a device in which packets wait.
    Queue,
    /// Beyond that: in a device in which nothing waits.
    Beyond,
}

/// A packet of a flow on its way to the queue, while the flow waits for the answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handing {
    /// Whose it is, and what it paid; `None` where nobody pays, which then no packet of another flow does either.
    pub(super) owner: Option<Owner>,
    /// The queue had no room.
    pub(super) refused: bool,
}

impl Handing {
    /// What nobody pays for is the segment that is handed down, or the question for its next hop.
    fn is(&self, packet: &Packet, link_len: usize) -> bool {
        match (self.owner, packet.owner) {
            (Some(of), Some(owner)) => of.flow == owner.flow,
            (None, None) => tcp_range(packet, link_len).is_some(),
            _ => false,
        }
    }
}

/// First sequence number and length of the TCP segment in an outgoing packet; SYN and FIN count. A fragment has none: the others
/// may have left.
fn tcp_range(packet: &Packet, link_len: usize) -> Option<(Seq, u32)> {
    let ip = packet.head.as_slice().get(link_len..)?;
    let (transport, header) = match ip.first()? >> 4 {
        4 => {
            let view = ipv4::Ipv4View::parse_quoted(ip).ok().filter(|v| !v.is_fragment())?;
            (view.protocol(), view.payload())
        }
        _ => {
            let view = ipv6::Ipv6View::parse_quoted(ip).ok()?;
            (view.next_header(), view.payload())
        }
    };
    if transport != protocol::TCP {
        return None;
    }
    let view = tcp::TcpView::parse(header).ok()?;
    let marks = u32::from(view.flags().syn()) + u32::from(view.flags().fin());
    Some((Seq(view.seq()), packet.payload.len() as u32 + marks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{FlowId, Instant, SocketId};
    use crate::packet::{Head, Offload};
    use bytes::Bytes;
    use core::net::Ipv4Addr;

    fn segment(protocol: u8, more_fragments: bool, fragment_offset: u16) -> Packet {
        let mut head = Head::new();
        let repr = tcp::TcpRepr {
            src_port: 1,
            dst_port: 2,
            seq: 7,
            ack: 0,
            flags: tcp::TcpFlags::ACK,
            window: 0,
            urgent: 0,
            options: tcp::TcpOptions::EMPTY,
        };
        repr.emit(head.prepend(repr.buffer_len()));
        let ip = ipv4::Ipv4Repr {
            tos: 0,
            ident: 1,
            dont_fragment: false,
            more_fragments,
            fragment_offset,
            ttl: 64,
            protocol,
            src: Ipv4Addr::LOCALHOST,
            dst: Ipv4Addr::LOCALHOST,
            payload_len: (head.len() + 8) as u16,
        };
        ip.emit(head.prepend(ipv4::HEADER_LEN));
        let (payload, offload) = (Bytes::from_static(&[0; 8]), Offload::default());
        Packet { head, payload, offload, owner: None, at: Instant::ZERO, priority: None }
    }

    #[test]
    fn what_is_refused_beside_a_segment_is_not_the_segment() {
        let mut names = slotmap::SlotMap::<SocketId, ()>::with_key();
        let mut owner = || Some(Owner::new(FlowId::of(names.insert(())), 900));
        let segment = |owner| Packet { owner, ..segment(protocol::TCP, false, 0) };
        let (ours, other) = (owner(), owner());
        let paid = Handing { owner: ours, refused: false };
        assert!(paid.is(&segment(ours), 0), "also one of several fragments");
        assert!(!paid.is(&segment(other), 0) && !paid.is(&segment(None), 0));
        // Nobody pays for an acknowledgement, nor for the question who has its next hop.
        let free = Handing { owner: None, refused: false };
        assert!(free.is(&segment(None), 0) && !free.is(&segment(ours), 0));
        let mut question = segment(None);
        question.head = Head::new();
        question.head.prepend(14 + 28).copy_from_slice(&[
            255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1,
            10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
        ]);
        assert!(!free.is(&question, 14));
    }

    #[test]
    fn a_fragment_that_is_given_up_names_no_bytes() {
        assert_eq!(tcp_range(&segment(protocol::TCP, false, 0), 0), Some((Seq(7), 8)));
        assert_eq!(tcp_range(&segment(protocol::TCP, true, 0), 0), None, "the first one");
        assert_eq!(tcp_range(&segment(protocol::TCP, false, 1_480), 0), None, "the last one has no header");
        assert_eq!(tcp_range(&segment(protocol::UDP, false, 0), 0), None);
    }
}
