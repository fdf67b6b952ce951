//! Whose an SCTP packet is: associations by our port and the peer's address, listeners by port and address.
use crate::base::SocketId;
use crate::base::hash::{KeyedState, Map};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::collections::BTreeMap;

/// The tables.
#[derive(Debug)]
pub(in crate::stack) struct SctpDemux {
    /// All addresses of a peer lead to its association.
    flows: Map<(u16, SocketAddr), SocketId>,
    /// `None` for any address of either family.
    listeners: BTreeMap<(u16, Option<IpAddr>), SocketId>,
}

impl SctpDemux {
    pub(in crate::stack) const fn new(key: KeyedState) -> Self {
        Self { flows: Map::with_hasher(key), listeners: BTreeMap::new() }
    }

    /// The association of our port with this address of a peer.
    pub(super) fn flow(&self, local: u16, remote: SocketAddr) -> Option<SocketId> {
        self.flows.get(&(local, remote)).copied()
    }

    /// Registers an address of a peer; false when another association has it.
    pub(super) fn insert(&mut self, local: u16, remote: SocketAddr, id: SocketId) -> bool {
        *self.flows.entry((local, remote)).or_insert(id) == id
    }

    /// Removes an address of a peer, if it is this association's.
    pub(super) fn remove(&mut self, local: u16, remote: SocketAddr, id: SocketId) {
        if self.flow(local, remote) == Some(id) {
            self.flows.remove(&(local, remote));
        }
    }

    /// No listener has this port at one of these addresses; none of them stands for any.
    pub(super) fn may_listen(&self, port: u16, ips: &[IpAddr]) -> bool {
        let mut there = self.listeners.range((port, None)..).take_while(|((p, _), _)| *p == port);
        if ips.is_empty() {
            return there.next().is_none();
        }
        there.all(|((_, ip), _)| ip.is_some_and(|ip| !ips.contains(&ip)))
    }

    pub(super) fn listen(&mut self, port: u16, ips: &[IpAddr], id: SocketId) {
        if ips.is_empty() {
            self.listeners.insert((port, None), id);
        }
        for ip in ips {
            self.listeners.insert((port, Some(*ip)), id);
        }
    }

    pub(super) fn unlisten(&mut self, port: u16, id: SocketId) {
        let first = (port, None);
        let last = (port, Some(IpAddr::V6(Ipv6Addr::from_bits(u128::MAX))));
        debug_assert!(
            IpAddr::V4(Ipv4Addr::BROADCAST) < IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            "families are in order"
        );
        let ours: Vec<_> =
            self.listeners.range(first..=last).filter(|(_, l)| **l == id).map(|(place, _)| *place).collect();
        for place in ours {
            self.listeners.remove(&place);
        }
    }

    /// The listener for an INIT to `local`.
    pub(super) fn listener(&self, local: SocketAddr) -> Option<SocketId> {
        let places = [(local.port(), Some(local.ip())), (local.port(), None)];
        places.iter().find_map(|place| self.listeners.get(place)).copied()
    }
}
