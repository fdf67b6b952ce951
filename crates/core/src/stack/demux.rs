//! Which object a packet belongs to: one table of flows, one of listeners, two for UDP.
use super::sctp::SctpDemux;
use super::{Small, Stack};
use crate::base::hash::{KeyedState, Map};
use crate::base::{SocketId, Tuple};
use crate::socket::{ListenAddr, RequestId, Socket, Table, TwId};
use core::hash::{BuildHasher as _, Hasher as _};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use hashbrown::HashTable;
use smallvec::SmallVec;
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

/// TCP's flows. The tuple of a flow stands in the object behind it and is not stored a second time: at a million idle
/// connections that is a hundred megabytes.
#[derive(Debug)]
pub(super) struct Flows {
    table: HashTable<Place>,
    key: KeyedState,
}

/// A flow under the hash of its tuple.
#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u32,
    flow: Flow,
}

/// What the table wants as a hash: it takes the group from the low bits and the tag from the high ones.
const fn spread(hash: u32) -> u64 {
    (hash as u64) << 32 | hash as u64
}

impl Flows {
    /// Each packet pays for it: addresses and ports go in as the few words that they are, not field by field.
    fn hash(&self, tuple: &Tuple) -> u32 {
        let mut hasher = self.key.build_hasher();
        match (tuple.local_ip, tuple.remote_ip) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                hasher.write_u64(u64::from(local.to_bits()) << 32 | u64::from(remote.to_bits()));
            }
            (local, remote) => {
                for ip in [local, remote] {
                    let bits = match ip {
                        IpAddr::V4(ip) => ip.to_bits().into(),
                        IpAddr::V6(ip) => ip.to_bits(),
                    };
                    hasher.write_u64((bits >> 64) as u64);
                    hasher.write_u64(bits as u64);
                }
            }
        }
        hasher.write_u32(u32::from(tuple.local_port) << 16 | u32::from(tuple.remote_port));
        hasher.finish() as u32
    }

    /// The flow of this tuple, looked up in the tables of what may stand behind it.
    pub(super) fn get(&self, tuple: &Tuple, sockets: &Table, small: &Small) -> Option<Flow> {
        let hash = self.hash(tuple);
        let found = |place: &Place| place.hash == hash && tuple_of(place.flow, sockets, small) == Some(tuple);
        self.table.find(spread(hash), found).map(|place| place.flow)
    }

    /// Adds a flow; there must be none with this tuple.
    pub(super) fn insert(&mut self, tuple: &Tuple, flow: Flow) {
        let hash = self.hash(tuple);
        self.table.insert_unique(spread(hash), Place { hash, flow }, |place| spread(place.hash));
    }

    /// Removes this flow, which has this tuple, and no other.
    pub(super) fn remove(&mut self, tuple: &Tuple, flow: Flow) {
        if let Ok(place) = self.table.find_entry(spread(self.hash(tuple)), |place| place.flow == flow) {
            place.remove();
        }
    }
}

/// Port, then address, where `None` is "any": all places of one port lie together.
type BoundAt = (Option<u16>, Option<IpAddr>);

/// Bound places in order.
type Places = BTreeMap<BoundAt, SocketId>;

/// Those of UDP.
type SharedPlaces = BTreeMap<BoundAt, SharedPlace>;

/// A place that sockets may share.
#[derive(Debug, Default)]
struct SharedPlace {
    /// Who takes datagrams of any peer. The last one bound gets them (`udp_lib_get_port` adds at the head).
    open: Vec<SocketId>,
    /// So many have a peer, and are found by their flows: however many, no datagram looks at them.
    connected: usize,
}

/// The tables.
#[derive(Debug)]
pub(super) struct Demux {
    pub(super) flows: Flows,
    listeners: Places,
    /// Sockets that share a port may have one peer, too.
    udp_flows: Map<Tuple, Vec<SocketId>>,
    udp_bound: SharedPlaces,
    pub(super) sctp: SctpDemux,
}

/// How a listener on any address of one family is written.
const fn any_of(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

/// True when a place of the same port takes packets that `ip` would take too.
fn overlaps<V>(places: &BTreeMap<BoundAt, V>, port: Option<u16>, ip: Option<IpAddr>) -> bool {
    match ip {
        Some(ip) if ip.is_unspecified() => {
            let mut others = places.range((port, None)..).take_while(|(place, _)| place.0 == port);
            others.any(|(place, _)| place.1.is_none_or(|other| other.is_ipv4() == ip.is_ipv4()))
        }
        Some(one) => {
            let any = || [None, Some(any_of(one))].iter().any(|&any| places.contains_key(&(port, any)));
            places.contains_key(&(port, ip)) || (port.is_some() && any())
        }
        // Addresses sort after `None`, and the port after this one ends the search.
        None => places.range((port, None)..).next().is_some_and(|(&(p, _), _)| p == port),
    }
}

impl Demux {
    pub(super) const fn new(key: KeyedState) -> Self {
        Self {
            flows: Flows { table: HashTable::new(), key },
            listeners: Places::new(),
            udp_flows: Map::with_hasher(key),
            udp_bound: SharedPlaces::new(),
            sctp: SctpDemux::new(key),
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
        let family = Some(any_of(local.ip()));
        [(port, ip), (port, family), (port, None), (None, ip), (None, family), (None, None)]
            .iter()
            .find_map(|place| self.listeners.get(place))
            .copied()
    }

    /// True when no UDP socket is bound so that it would collide.
    pub(super) fn udp_free(&self, port: u16, ip: Option<IpAddr>) -> bool {
        !overlaps(&self.udp_bound, Some(port), ip)
    }

    pub(super) fn udp_bind(&mut self, port: u16, ip: Option<IpAddr>, id: SocketId) {
        self.udp_bound.entry((Some(port), ip)).or_default().open.push(id);
    }

    pub(super) fn udp_unbind(&mut self, port: u16, ip: Option<IpAddr>, id: SocketId) {
        let place = (Some(port), ip);
        let Some(shared) = self.udp_bound.get_mut(&place) else { return };
        match shared.open.iter().position(|other| *other == id) {
            Some(at) => {
                shared.open.remove(at);
            }
            None => shared.connected = shared.connected.saturating_sub(1),
        }
        if shared.open.is_empty() && shared.connected == 0 {
            self.udp_bound.remove(&place);
        }
    }

    /// True when another socket than `id` has this flow.
    pub(super) fn udp_flow_taken(&self, tuple: &Tuple, id: SocketId) -> bool {
        self.udp_flows.get(tuple).is_some_and(|ids| ids.iter().any(|&other| other != id))
    }

    /// A socket that was bound at `from` has a peer: it takes the datagrams of that one, before sockets that are only bound.
    pub(super) fn udp_connect(&mut self, from: Option<IpAddr>, tuple: Tuple, id: SocketId) {
        self.udp_unbind(tuple.local_port, from, id);
        let place = (Some(tuple.local_port), Some(tuple.local_ip));
        self.udp_bound.entry(place).or_default().connected += 1;
        self.udp_flows.entry(tuple).or_default().push(id);
    }

    pub(super) fn udp_disconnect(&mut self, tuple: &Tuple, id: SocketId) {
        if let Some(ids) = self.udp_flows.get_mut(tuple) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.udp_flows.remove(tuple);
            }
        }
    }

    /// All sockets without a peer that share the port and the address of this flow.
    pub(super) fn udp_open(&self, tuple: &Tuple) -> impl Iterator<Item = SocketId> {
        let (port, local) = (Some(tuple.local_port), tuple.local_ip);
        let places = [Some(local), Some(any_of(local)), None];
        let open = move |ip| self.udp_bound.get(&(port, ip)).map(|shared| shared.open.iter().copied());
        places.into_iter().filter_map(open).flatten()
    }

    /// All sockets for a datagram to a group or to all of a subnet.
    pub(super) fn udp_all(&self, tuple: &Tuple) -> SmallVec<[SocketId; 4]> {
        let connected = self.udp_flows.get(tuple).into_iter().flatten().copied();
        connected.chain(self.udp_open(tuple)).collect()
    }

    /// The socket for a datagram of this flow.
    pub(super) fn udp(&self, tuple: &Tuple) -> Option<SocketId> {
        if let Some(id) = self.udp_flows.get(tuple).and_then(|ids| ids.last()) {
            return Some(*id);
        }
        let port = Some(tuple.local_port);
        let places = [Some(tuple.local_ip), Some(any_of(tuple.local_ip)), None];
        places.iter().find_map(|ip| self.udp_bound.get(&(port, *ip))?.open.last()).copied()
    }
}

impl Stack {
    /// The TCP flow of this tuple.
    pub(super) fn flow(&self, tuple: &Tuple) -> Option<Flow> {
        self.demux.flows.get(tuple, &self.sockets, &self.small)
    }
}

fn tuple_of<'a>(flow: Flow, sockets: &'a Table, small: &'a Small) -> Option<&'a Tuple> {
    match flow {
        Flow::Conn(id) => match &sockets.get(id)?.socket {
            Socket::Tcp(conn) => Some(conn.tuple()),
            _ => None,
        },
        Flow::Request(id) => Some(small.requests.get(id)?.pending.tuple()),
        Flow::TimeWait(id) => Some(small.time_waits.get(id)?.time_wait.tuple()),
    }
}
