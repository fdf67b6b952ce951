//! Whose an SCTP packet is: associations by our port and address and the peer's, listeners by port and address.
use crate::base::SocketId;
use crate::base::hash::{KeyedState, Map};
use crate::socket::{Families, Stamps};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Any address of a family.
const ANY: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];

/// The tables.
#[derive(Debug)]
pub(in crate::stack) struct SctpDemux {
    /// All addresses of a peer lead to its association; to several where these have no address of ours in common.
    flows: Map<(u16, SocketAddr), SmallVec<[SocketId; 1]>>,
    /// By port and address; an unspecified one stands for any of its family.
    listeners: BTreeMap<(u16, IpAddr), SocketId>,
    /// When what can be read of associations came.
    pub(in crate::stack) stamps: Stamps,
}

impl SctpDemux {
    pub(in crate::stack) const fn new(key: KeyedState) -> Self {
        Self { flows: Map::with_hasher(key), listeners: BTreeMap::new(), stamps: Stamps::new() }
    }

    /// The associations of our port with this address of a peer. Which of them has a packet is decided by our address.
    pub(super) fn flows(&self, local: u16, remote: SocketAddr) -> &[SocketId] {
        self.flows.get(&(local, remote)).map_or(&[], SmallVec::as_slice)
    }

    /// Registers an address of a peer.
    pub(super) fn insert(&mut self, local: u16, remote: SocketAddr, id: SocketId) {
        let ids = self.flows.entry((local, remote)).or_default();
        if !ids.contains(&id) {
            ids.push(id);
        }
    }

    /// Removes an address of a peer, if it is this association's.
    pub(super) fn remove(&mut self, local: u16, remote: SocketAddr, id: SocketId) {
        let Some(ids) = self.flows.get_mut(&(local, remote)) else { return };
        ids.retain(|other| *other != id);
        if ids.is_empty() {
            self.flows.remove(&(local, remote));
        }
    }

    /// No listener has this port at one of these addresses; none of them stands for any of `families`.
    pub(super) fn may_listen(&self, port: u16, ips: &[IpAddr], families: Families) -> bool {
        let mut there = self.listeners.range((port, ANY[0])..).take_while(|((p, _), _)| *p == port);
        let of_any = |ip: &IpAddr| ips.iter().any(|own| own.is_ipv4() == ip.is_ipv4());
        there.all(|((_, ip), _)| match ips {
            [] => !families.have(*ip),
            _ if ip.is_unspecified() => !of_any(ip),
            _ => !ips.contains(ip),
        })
    }

    pub(super) fn listen(&mut self, port: u16, ips: &[IpAddr], families: Families, id: SocketId) {
        let any = ANY.iter().filter(|ip| ips.is_empty() && families.have(**ip));
        for ip in ips.iter().chain(any) {
            self.listeners.insert((port, *ip), id);
        }
    }

    pub(super) fn unlisten(&mut self, port: u16, id: SocketId) {
        let first = (port, ANY[0]);
        let last = (port, IpAddr::V6(Ipv6Addr::from_bits(u128::MAX)));
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
        let places = [local.ip(), ANY[usize::from(local.is_ipv6())]];
        places.iter().find_map(|ip| self.listeners.get(&(local.port(), *ip))).copied()
    }
}
