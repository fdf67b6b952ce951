//! Which object a packet belongs to: one table of flows, one of listeners, two for UDP.
use crate::base::hash::{KeyedState, Map};
use crate::base::{SocketId, Tuple};
use crate::socket::{ListenAddr, RequestId, TwId};
use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;

/// What stands behind a TCP flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// A connection.
    Conn(SocketId),
    /// SYN-RECEIVED of a passive open, or a SYN about which the application has been asked.
    Request(RequestId),
    /// TIME-WAIT.
    TimeWait(TwId),
}

/// Bound places in the order port, then address, where `None` is "any": all places of one port lie together.
type Places = BTreeMap<(Option<u16>, Option<IpAddr>), SocketId>;

/// The tables.
#[derive(Debug)]
pub(super) struct Demux {
    pub(super) flows: Map<Tuple, Flow>,
    listeners: Places,
    udp_flows: Map<Tuple, SocketId>,
    udp_bound: Places,
}

/// True when a place of the same port takes packets that `ip` would take too.
fn overlaps(places: &Places, port: Option<u16>, ip: Option<IpAddr>) -> bool {
    match ip {
        Some(_) => places.contains_key(&(port, ip)) || (port.is_some() && places.contains_key(&(port, None))),
        // Addresses sort after `None`, and the port after this one ends the search.
        None => places.range((port, None)..).next().is_some_and(|(&(p, _), _)| p == port),
    }
}

impl Demux {
    pub(super) const fn new(key: KeyedState) -> Self {
        Self {
            flows: Map::with_hasher(key),
            listeners: Places::new(),
            udp_flows: Map::with_hasher(key),
            udp_bound: Places::new(),
        }
    }

    /// Registers a listener; false when its place is taken.
    pub(super) fn listen(&mut self, addr: ListenAddr, id: SocketId) -> bool {
        if overlaps(&self.listeners, addr.port, addr.ip) {
            return false;
        }
        self.listeners.insert((addr.port, addr.ip), id);
        true
    }

    /// True when no listener would take connections to this port at this address.
    pub(super) fn may_listen(&self, port: u16, ip: Option<IpAddr>) -> bool {
        !overlaps(&self.listeners, Some(port), ip)
    }

    pub(super) fn unlisten(&mut self, addr: ListenAddr) {
        self.listeners.remove(&(addr.port, addr.ip));
    }

    /// The listener for a SYN to `local`: the most special one, ports before addresses.
    pub(super) fn listener(&self, local: SocketAddr) -> Option<SocketId> {
        let (port, ip) = (Some(local.port()), Some(local.ip()));
        [(port, ip), (port, None), (None, ip), (None, None)]
            .iter()
            .find_map(|place| self.listeners.get(place))
            .copied()
    }

    /// True when no UDP socket is bound so that it would collide.
    pub(super) fn udp_free(&self, port: u16, ip: Option<IpAddr>) -> bool {
        !overlaps(&self.udp_bound, Some(port), ip)
    }

    pub(super) fn udp_bind(&mut self, port: u16, ip: Option<IpAddr>, id: SocketId) {
        self.udp_bound.insert((Some(port), ip), id);
    }

    pub(super) fn udp_unbind(&mut self, port: u16, ip: Option<IpAddr>) {
        self.udp_bound.remove(&(Some(port), ip));
    }

    /// Moves a bound socket to another address of the same port.
    pub(super) fn udp_rebind(&mut self, port: u16, from: Option<IpAddr>, to: Option<IpAddr>, id: SocketId) {
        self.udp_unbind(port, from);
        self.udp_bind(port, to, id);
    }

    /// True when another socket than `id` has this flow.
    pub(super) fn udp_flow_taken(&self, tuple: &Tuple, id: SocketId) -> bool {
        self.udp_flows.get(tuple).is_some_and(|&other| other != id)
    }

    /// Connected sockets take the datagrams of their peer before sockets that are only bound.
    pub(super) fn udp_connect(&mut self, tuple: Tuple, id: SocketId) {
        self.udp_flows.insert(tuple, id);
    }

    pub(super) fn udp_disconnect(&mut self, tuple: &Tuple) {
        self.udp_flows.remove(tuple);
    }

    /// The socket for a datagram of this flow.
    pub(super) fn udp(&self, tuple: &Tuple) -> Option<SocketId> {
        if let Some(&id) = self.udp_flows.get(tuple) {
            return Some(id);
        }
        let port = Some(tuple.local_port);
        self.udp_bound
            .get(&(port, Some(tuple.local_ip)))
            .or_else(|| self.udp_bound.get(&(port, None)))
            .copied()
    }
}
