//! An association's turn to send: the route of each path, the common header, the checksum.
use super::input::Arrived;
use crate::base::{DeviceId, DropWhy, Error, FlowId, Instant, SocketId};
use crate::ip::{Dst, OutputParams};
use crate::packet::{Head, Offload, Owner, Packet};
use crate::sctp::blue::BlueAnswer;
use crate::sctp::{Assoc, Outgoing, PathId, State};
use crate::socket::{Path, Socket, Turn};
use crate::stack::Stack;
use crate::stack::link::LOOPBACK;
use crate::stack::queue::Origin;
use crate::stack::sctp::train::sealed_packet;
use bytes::Bytes;
use core::net::{IpAddr, SocketAddr};
use lowwater_wire::protocol;
use lowwater_wire::sctp::{HEADER_LEN, SctpRepr, fill_checksum};

/// ECN-capable transport in the low bits of IPv4's TOS and IPv6's traffic class (RFC 3168).
const ECT0: u8 = 2;

impl Stack {
    pub(in crate::stack) fn sctp_turn(&mut self, id: SocketId, budget: usize) -> usize {
        self.sctp_refresh(id);
        self.watch_turn(id);
        let (mut next, mut sent) = (None, 0);
        while sent < budget {
            let Some(mut out) = next.take().or_else(|| self.sctp_next(id)) else { break };
            sent += 1;
            // With the last packet of a turn nothing goes, lest there be one more.
            if sent < budget {
                next = self.sctp_gather(id, &mut out);
            }
            self.send_sctp(id, out);
        }
        if let Some(Socket::Sctp(sctp)) = self.sockets.get_mut(id).map(|e| &mut e.socket) {
            sctp.assoc.end_train();
        }
        self.settle_sctp(id, if sent < budget { Turn::NONE } else { Turn::AGAIN });
        sent
    }

    /// The way to an address of a peer, from one of these addresses of ours; none stands for any.
    pub(super) fn sctp_route(&self, ours: &[IpAddr], remote: IpAddr) -> Result<Dst, Error> {
        let dst = self.route(None, remote);
        if ours.is_empty() || dst.as_ref().is_ok_and(|dst| ours.contains(&dst.src)) {
            return dst;
        }
        let same = ours.iter().find(|ip| ip.is_ipv4() == remote.is_ipv4());
        self.route(Some(*same.ok_or(Error::NoRoute)?), remote)
    }

    /// A way to one of the peer's addresses leads by such a device.
    pub(in crate::stack) fn sctp_leads(&self, id: SocketId, by: impl Fn(DeviceId) -> bool) -> bool {
        let Some(Socket::Sctp(sctp)) = self.sockets.get(id).map(|entry| &entry.socket) else { return false };
        let leads = |remote| self.sctp_route(sctp.assoc.locals(), remote).is_ok_and(|to| by(to.device));
        sctp.assoc.paths().iter().any(|(_, path)| leads(path.remote))
    }

    /// Finds the routes of paths that have none, or whose routes may have changed, and registers their addresses.
    pub(super) fn sctp_refresh(&mut self, id: SocketId) {
        let generation = self.ip.generation();
        let Some(Socket::Sctp(sctp)) = self.sockets.get_mut(id).map(|e| &mut e.socket) else { return };
        let (gone, ports) = (sctp.assoc.take_gone(), sctp.assoc.ports());
        if !gone.is_empty() {
            sctp.routes.clear();
        }
        let count = sctp.assoc.paths().len();
        if sctp.routes.len() == count && sctp.generation == generation {
            return;
        }
        sctp.generation = generation;
        for ip in gone {
            self.demux.sctp.remove(ports.0, SocketAddr::new(ip, ports.1), id);
        }
        for path in 0..count {
            self.sctp_refresh_path(id, path as PathId);
        }
        self.sctp_place(id);
    }

    /// Its turns come with the device that all its paths lead by. Where they lead by several, the turns come with any of them, as
    /// datagrams' do: a device that takes nothing must not keep the other paths waiting.
    fn sctp_place(&mut self, id: SocketId) {
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let Socket::Sctp(sctp) = &entry.socket else { return };
        let mut ways = sctp.routes.iter().flatten();
        let first = ways.next().copied();
        let place = first.filter(|first| ways.all(|way| way.dst.device == first.dst.device));
        let (device, turn) = (|path: Option<Path>| path.map_or(LOOPBACK, |path| path.dst.device), entry.turn);
        let (old, new) = (device(entry.path), device(place));
        entry.path = place;
        if old == new || turn == Turn::NONE {
            return;
        }
        entry.turn = Turn::NONE;
        // With routes of before it waits with the datagrams (`device_of`).
        for dev in [old, LOOPBACK] {
            if let Some(link) = self.links.get_mut(usize::from(dev.0)) {
                link.ready.forget(id);
            }
        }
        self.mark_ready(id, turn);
    }

    /// Registers an address of the peer's, unless another association has it; false then. One that its peer has only named gives it up
    /// to a peer who was heard from there (RFC 5062 section 2).
    fn sctp_register(&mut self, id: SocketId, path: PathId) -> bool {
        let Ok(assoc) = self.assoc(id) else { return false };
        let (ports, remote) = (assoc.ports(), assoc.paths().get(path).remote);
        let flow = SocketAddr::new(remote, ports.1);
        let ids = self.demux.sctp.flows(ports.0, flow);
        let shared = |other: &Assoc| {
            other.state() != State::Closed && other.locals().iter().any(|ip| assoc.locals().contains(ip))
        };
        let rival = ids.iter().find(|&&other| other != id && self.assoc(other).is_ok_and(shared)).copied();
        if let Some(rival) = rival {
            let settled = self.assoc(rival).is_ok_and(|other| other.has_confirmed(remote));
            if settled || !assoc.has_confirmed(remote) {
                return false;
            }
            self.demux.sctp.remove(ports.0, flow, rival);
            self.sctp_lose_path(rival, remote);
        }
        self.demux.sctp.insert(ports.0, flow, id);
        true
    }

    /// The peer names an address that we have too, and the association is not one with ourselves: hosts behind each other's routers
    /// have the same network inside. What went there would come back to us.
    fn sctp_mirrors(&self, id: SocketId, path: PathId) -> bool {
        let Ok(assoc) = self.assoc(id) else { return false };
        let (paths, ifaces) = (assoc.paths(), self.ip.ifaces());
        let here = |path: PathId| {
            let remote = paths.get(path).remote;
            remote.is_loopback() || ifaces.owner_of(remote).is_some()
        };
        here(path) && !here(paths.primary())
    }

    /// Another association has this address now.
    fn sctp_lose_path(&mut self, id: SocketId, remote: IpAddr) {
        let Some(Socket::Sctp(sctp)) = self.sockets.get_mut(id).map(|e| &mut e.socket) else { return };
        let Some(path) = sctp.assoc.paths().find(remote) else { return };
        if let Some(route) = sctp.routes.get_mut(usize::from(path)) {
            *route = None;
        }
        sctp.assoc.lose_route(path);
    }

    fn sctp_refresh_path(&mut self, id: SocketId, path: PathId) {
        let Some(Socket::Sctp(sctp)) = self.sockets.get(id).map(|e| &e.socket) else { return };
        let (ports, known) = (sctp.assoc.ports(), sctp.routes.len() > usize::from(path));
        let remote = SocketAddr::new(sctp.assoc.paths().get(path).remote, ports.1);
        let ours = !self.sctp_mirrors(id, path) && self.sctp_register(id, path);
        let Some(Socket::Sctp(sctp)) = self.sockets.get(id).map(|e| &e.socket) else { return };
        // To a peer any other address than those that it was told of is a stranger's (RFC 9260 section 5.1.2).
        let dst = self.sctp_route(sctp.assoc.locals(), remote.ip()).ok().filter(|_| ours);
        let old = sctp.routes.get(usize::from(path)).copied().flatten();
        let route = dst.map(|dst| {
            let fresh = || self.ip.flow_ids((dst.src, ports.0), (remote.ip(), ports.1), protocol::SCTP);
            Path { dst, ids: old.map_or_else(fresh, |old| old.ids) }
        });
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let Socket::Sctp(sctp) = &mut entry.socket else { return };
        if known {
            sctp.routes[usize::from(path)] = route;
        } else {
            sctp.routes.push(route);
        }
        match route {
            Some(route) => {
                let way = (route.dst.src, route.dst.device);
                sctp.assoc.set_route(&self.env.cx(self.now, Some(id)), path, way, route.dst.mtu);
            }
            None => sctp.assoc.lose_route(path),
        }
    }

    pub(super) fn send_sctp(&mut self, id: SocketId, out: Outgoing) {
        self.sctp_record_out(id, &out);
        self.watch_chunks(id, &out);
        let Some(Socket::Sctp(sctp)) = self.sockets.get_mut(id).map(|e| &mut e.socket) else { return };
        let flow = FlowId { socket: id, path: sctp.assoc.paths().get(out.path).number() };
        let owner = (out.charge > 0).then(|| Owner::new(flow, out.charge));
        let whole = !sctp.assoc.carrier().has_addresses();
        let (remote, encap, mtu) = {
            let path = sctp.assoc.paths().get(out.path);
            (path.remote, path.encap(), path.mtu())
        };
        let options = sctp.assoc.options();
        let (tos, ttl) = match remote {
            IpAddr::V4(_) => (options.tos, options.ttl),
            IpAddr::V6(_) => (options.tclass, options.unicast_hops),
        };
        let priority = options.priority;
        let tos = tos | if out.ect { ECT0 } else { 0 };
        let Some(route) = sctp.routes.get_mut(usize::from(out.path)).and_then(Option::as_mut) else {
            self.env.count.no_route();
            if let Some(owner) = owner {
                self.refund(owner, true, Origin::Queue);
            }
            return;
        };
        let count = out.bytes.len().div_ceil(out.unit.max(1)) as u16;
        let (mut dst, ident, label) = (route.dst, route.ids.take(count), route.ids.flow_label);
        if out.fragment {
            // A search may have found the path to carry less than the route says: over IPv6 no router cuts what is longer, and one that says
            // nothing of it would drop it for ever.
            dst.mtu = dst.mtu.min(mtu);
        }
        let may = out.fragment || dst.mtu_locked || self.env.sysctl.ip_no_pmtu_disc != 0;
        let dont_fragment = whole || !may;
        let at = out.depart_at.max(self.now);
        let mut packet = Packet { priority, ..sealed_packet(&mut self.env.pool, out, owner, at) };
        let protocol = self.sctp_encapsulate(&mut packet, (dst.src, remote), encap);
        let params = OutputParams {
            tos,
            ttl: (ttl != 0).then_some(ttl),
            dont_fragment,
            ident: Some(ident),
            flow_label: label,
            ..OutputParams::new(dst.src, remote, protocol)
        };
        self.ip.output(&mut self.env.cx(self.now, None), &dst, &params, packet, &mut self.down.outbox);
        self.dispatch();
    }

    /// A packet that no association pays for: INIT ACK, answers to what comes out of the blue. It goes back to where the other came
    /// from.
    pub(super) fn send_sctp_control(&mut self, arrived: &Arrived<'_>, answer: &BlueAnswer) {
        self.sctp_record_answer(&answer.chunks);
        let tuple = &arrived.tuple;
        let count = &mut self.env.count.sctp;
        count.out_sctp_packs += 1;
        count.out_ctrl_chunks += 1;
        let header = SctpRepr { src_port: tuple.local_port, dst_port: tuple.remote_port, vtag: answer.vtag };
        let mut packet = sctp_packet(&header, answer.chunks.clone(), true);
        packet.at = self.now;
        let protocol =
            self.sctp_encapsulate(&mut packet, (tuple.local_ip, tuple.remote_ip), arrived.inbound.encap);
        let params = OutputParams::new(tuple.local_ip, tuple.remote_ip, protocol);
        let sent = self.ip.send(&mut self.env.cx(self.now, None), &params, packet, &mut self.down.outbox);
        if sent.is_err() {
            self.env.count.dropped(DropWhy::NoRoute);
        }
        self.dispatch();
    }
}

/// The packet without its IP header. The chunks are shared, the common header is not.
fn sctp_packet(header: &SctpRepr, chunks: Bytes, crc: bool) -> Packet {
    let mut head = Head::new();
    let bytes = head.prepend(HEADER_LEN);
    header.emit(bytes);
    // The field is zero so far, which stands for none (RFC 9653).
    if crc {
        fill_checksum(bytes, &[&chunks]);
    }
    Packet {
        head,
        payload: chunks,
        offload: Offload::default(),
        owner: None,
        at: Instant::ZERO,
        priority: None,
    }
}
