//! The credit of all flows at one instant, and what holds senders back, so that a checker can see that none is lost and none is made, and
//! that windows and small queues are kept to.
use super::Stack;
use crate::base::{DeviceId, SocketId};
use crate::packet::{Owner, Packet};
use crate::qdisc::Qdisc as _;
use crate::socket::Socket;
use crate::tcp::{Bounds, SentPacket};
use std::collections::BTreeMap;

/// The credit of one flow: what it has handed down and not got back, and how much of that has not left the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowCredit {
    /// The flow's socket.
    pub socket: SocketId,
    /// Bytes of charge in the flow's own account.
    pub below: u64,
    /// Bytes of charge in packets that this stack holds: waiting for a neighbour, in a queueing discipline, or in front of a
    /// device that said "not now". The rest is at the device, between `Submit::Sent` or `Filled` and [`Stack::complete`].
    pub held: u64,
    /// IP bytes of the same packets, as the segments that they will become.
    pub held_bytes: u64,
}

impl FlowCredit {
    /// Bytes of charge that the device must still give back; negative when credit was made from nothing.
    #[must_use]
    pub const fn at_device(&self) -> i64 {
        self.below as i64 - self.held as i64
    }
}

impl Stack {
    /// The credit of every flow that has some below it, in the order of the sockets' names. It walks over all sockets and all
    /// packets that wait, for checkers alone: nothing on the way of a packet keeps these sums.
    #[must_use]
    pub fn credits(&self) -> Vec<FlowCredit> {
        let mut held: BTreeMap<SocketId, (u64, u64)> = BTreeMap::new();
        self.each_held(&mut |_, owner, bytes| {
            let (charge, sum) = held.entry(owner.flow.socket).or_default();
            *charge += u64::from(owner.charge);
            *sum += u64::from(bytes);
        });
        let mut credits = Vec::new();
        for (socket, entry) in self.sockets.iter() {
            let below = match &entry.socket {
                Socket::Tcp(conn) => u64::from(conn.charge_below()),
                Socket::Udp(udp) => udp.charge_below(),
                Socket::Sctp(sctp) => u64::from(sctp.assoc.below()),
                Socket::Listener(_) | Socket::SctpListener(_) => 0,
            };
            let (held, held_bytes) = held.get(&socket).copied().unwrap_or_default();
            if below > 0 || held > 0 {
                credits.push(FlowCredit { socket, below, held, held_bytes });
            }
        }
        credits
    }

    /// Shows every packet with an owner that this stack holds, and its IP bytes as the segments that it will become, to `f`, first what a device has
    /// said "not now" to; for checkers alone, too.
    pub fn each_held(&self, f: &mut dyn FnMut(&Packet, Owner, u32)) {
        let mut add = |packet: &Packet, bytes: u32| {
            if let Some(owner) = packet.owner {
                f(packet, owner, bytes);
            }
        };
        for link in &self.links {
            let link_len = link.caps.link_len();
            // Of a packet that was cut only the last segment knows its owner; nothing else stands among them.
            let mut cut = 0;
            for packet in &link.held {
                cut += packet.ip_bytes(link_len);
                add(packet, cut);
                if packet.owner.is_some() {
                    cut = 0;
                }
            }
            link.qdisc.each(&mut |packet| add(packet, packet.ip_bytes(link_len)));
            link.early.each(&mut |packet| add(packet, packet.ip_bytes(link_len)));
        }
        // What waits for a neighbour has no link header yet.
        self.ip.neighbours().each_waiting(&mut |packet| add(packet, packet.ip_bytes(0)));
    }

    /// The queueing discipline before a device holds packets back until their departure time; for checkers.
    #[must_use]
    pub fn honours_departure(&self, dev: DeviceId) -> bool {
        self.links.get(usize::from(dev.0)).is_some_and(|link| link.qdisc.honours_departure())
    }

    /// What bounds each connection of TCP, in the order of the sockets' names; for checkers alone, too.
    pub fn bounds(&self) -> impl Iterator<Item = (SocketId, Bounds)> {
        self.sockets.iter().filter_map(|(socket, entry)| match &entry.socket {
            Socket::Tcp(conn) => Some((socket, conn.bounds())),
            _ => None,
        })
    }

    /// Packets of a connection that begin at or behind `offset` in its stream, and were sent; for checkers alone, too.
    pub fn sent_from(&self, socket: SocketId, offset: u64) -> impl Iterator<Item = SentPacket> {
        let conn = self.sockets.get(socket).and_then(|entry| match &entry.socket {
            Socket::Tcp(conn) => Some(conn),
            _ => None,
        });
        conn.into_iter().flat_map(move |conn| conn.sent_from(offset))
    }
}
