//! What becomes of packets at a queueing discipline: each end says something else to the flow.
use super::Stack;
use crate::base::{DeviceId, DropWhy, FlowId};
use crate::ip::{IcmpError, IcmpKind, Unreachable};
use crate::packet::Packet;
use crate::qdisc::{Fate, Qdisc as _};
use crate::socket::{Socket, Turn};
use crate::tcp::Seq;
use lowwater_wire::{ipv4, ipv6, tcp};

impl Stack {
    /// Gives a packet to the device's queueing discipline.
    pub(super) fn enqueue(&mut self, dev: DeviceId, packet: Packet) {
        let Some(link) = self.links.get_mut(usize::from(dev.0)) else {
            return self.packet_lost(&packet, DropWhy::NoRoute);
        };
        // It may go before what waits for its time.
        link.not_before = None;
        link.qdisc.enqueue(&mut self.env.cx(self.now, None), packet, &mut link.gone);
        if !link.gone.is_empty() {
            self.carry_out(dev);
        }
    }

    /// What a queueing discipline gave up or let go without its owner: counted, and told to whom it concerns.
    pub(super) fn carry_out(&mut self, dev: DeviceId) {
        let mut gone = core::mem::take(&mut self.links[usize::from(dev.0)].gone);
        for owner in gone.released.drain(..) {
            self.credit_back(owner);
        }
        for (packet, fate) in gone.packets.drain(..) {
            match fate {
                Fate::Refused => {
                    self.env.count.ip.out_discards += 1;
                    self.packet_lost(&packet, DropWhy::QueueFull);
                }
                Fate::Dropped => self.given_up(dev, &packet),
                // Its owner was released before: nobody may hear of it.
                Fate::Lost => self.packet_lost(&packet, DropWhy::Emulated),
            }
        }
        self.links[usize::from(dev.0)].gone = gone;
    }

    pub(super) fn packet_lost(&mut self, packet: &Packet, why: DropWhy) {
        self.env.count.dropped(why);
        if let Some(owner) = packet.owner {
            self.refund(owner, true);
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
        let FlowId(id) = owner.flow;
        let range = self.links.get(usize::from(dev.0)).and_then(|l| tcp_range(packet, l.caps.link_len()));
        match (range, self.sockets.get_mut(id).map(|entry| &mut entry.socket)) {
            (Some((seq, len)), Some(Socket::Tcp(conn))) => {
                conn.on_given_up(&mut self.env.cx(self.now, Some(id)), owner.charge, seq, len);
                self.settle(id, Turn::CREDIT);
            }
            _ => self.refund(owner, true),
        }
    }
}

/// First sequence number and length of the TCP segment in an outgoing packet; SYN and FIN count.
fn tcp_range(packet: &Packet, link_len: usize) -> Option<(Seq, u32)> {
    let ip = packet.head.as_slice().get(link_len..)?;
    let header = match ip.first()? >> 4 {
        4 => ipv4::Ipv4View::parse_quoted(ip).ok()?.payload(),
        _ => ipv6::Ipv6View::parse_quoted(ip).ok()?.payload(),
    };
    let view = tcp::TcpView::parse(header).ok()?;
    let marks = u32::from(view.flags().syn()) + u32::from(view.flags().fin());
    Some((Seq(view.seq()), packet.payload.len() as u32 + marks))
}
