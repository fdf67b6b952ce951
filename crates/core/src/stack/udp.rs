//! What applications call on UDP sockets, and their turn to send.
use super::egress::pseudo_header;
use super::queue::Origin;
use super::tcp::ports_of;
use super::{Flows, Stack};
use crate::base::{Error, FlowId, Instant, SocketId, Tuple};
use crate::ip::{Dst, OutputParams};
use crate::packet::{Csum, Head, Offload, Owner, Packet};
use crate::socket::{Entry, Holder, Socket, Turn};
use crate::udp::{BindManner, Bound, Datagram, Marks, MtuDiscovery, UdpSocket};
use bytes::Bytes;
use core::net::{IpAddr, SocketAddr};
use lowwater_wire::protocol;
use lowwater_wire::udp::{self as wire, UdpRepr};

/// The address of a place: `::` means any of either family, as on a socket without IPV6_V6ONLY, `0.0.0.0` any of IPv4.
fn place(addr: SocketAddr, manner: BindManner) -> Option<IpAddr> {
    Some(addr.ip()).filter(|ip| ip.is_ipv4() || manner.v6_only || !ip.is_unspecified())
}

/// The source that datagrams to `remote` must have, `None` for whatever the route says: also where the address is of the other family
/// and connecting alone has fixed it.
///
/// # Errors
/// [`Error::NoRoute`] where the address of the other family was asked for.
fn source(udp: &UdpSocket, remote: SocketAddr) -> Result<Option<IpAddr>, Error> {
    match Some(udp.local.ip()).filter(|ip| !ip.is_unspecified()) {
        Some(ip) if ip.is_ipv4() == remote.is_ipv4() => Ok(Some(ip)),
        Some(_) if !udp.bound.ip.is_unspecified() => Err(Error::NoRoute),
        _ => Ok(None),
    }
}

impl Stack {
    fn udp(&mut self, id: SocketId) -> Result<&mut UdpSocket, Error> {
        let entry = self.sockets.get_mut(id).filter(|e| e.holder == Holder::Owner);
        match &mut entry.ok_or(Error::NoSuchSocket)?.socket {
            Socket::Udp(udp) => Ok(udp),
            _ => Err(Error::Unsupported),
        }
    }

    /// A socket bound to `local`; the port that SCTP has by its setting `sctp.udp_port` is taken. `0.0.0.0` takes datagrams to any IPv4 address, `::` those of either family; port 0 takes a
    /// free one.
    ///
    /// # Errors
    /// [`Error::AddressInUse`], [`Error::AddressNotAvailable`], [`Error::NoBuffers`] as [`Stack::tcp_connect`].
    pub fn udp_bind(&mut self, now: Instant, local: SocketAddr) -> Result<SocketId, Error> {
        self.udp_bind_with(now, local, BindManner::default())
    }

    /// The same in another manner.
    ///
    /// # Errors
    /// As [`Stack::udp_bind`].
    pub fn udp_bind_with(
        &mut self,
        now: Instant,
        local: SocketAddr,
        manner: BindManner,
    ) -> Result<SocketId, Error> {
        self.enter(now);
        self.check_events()?;
        let local = self.udp_place(local, manner)?;
        let socket = Box::new(UdpSocket::new(local, manner, &self.env.sysctl));
        let id = self.sockets.insert(Entry::new(Socket::Udp(socket), None, Holder::Owner));
        self.demux.udp_bind(local.port(), place(local, manner), id);
        Ok(id)
    }

    /// The place that `local` asks for, with a free port where it names none.
    fn udp_place(&mut self, mut local: SocketAddr, manner: BindManner) -> Result<SocketAddr, Error> {
        let ip = place(local, manner);
        if let Some(ip) = ip.filter(|ip| !ip.is_unspecified() && !manner.free) {
            self.check_own(ip)?;
        }
        if local.port() == 0 {
            let (from, demux) = (ports_of(&self.env.sysctl), &self.demux);
            let sctp = |port| u32::from(port) == self.env.sysctl.sctp_udp_port;
            let port =
                self.openers.ports.for_datagrams(&from, |port| demux.udp_free(port, ip) && !sctp(port));
            local.set_port(port.ok_or(Error::AddressInUse)?);
        }
        let free = manner.shared || self.demux.udp_free(local.port(), ip);
        if !free || self.is_sctp_over_udp(local.port()) {
            return Err(Error::AddressInUse);
        }
        Ok(local)
    }

    /// A port for a datagram socket, beside those that `taken` says are not for it. The stack's own sockets are not looked at: only the caller
    /// knows which of them share.
    ///
    /// # Errors
    /// [`Error::AddressInUse`] when every port of `ip_local_port_range` is taken.
    pub fn udp_free_port(&mut self, taken: impl Fn(&Flows<'_>, u16) -> bool) -> Result<u16, Error> {
        let (from, sctp) = (ports_of(&self.env.sysctl), self.env.sysctl.sctp_udp_port);
        let flows = Flows { demux: &self.demux, sockets: &self.sockets, small: &self.small };
        let free = |port| !taken(&flows, port) && u32::from(port) != sctp;
        self.openers.ports.for_datagrams(&from, free).ok_or(Error::AddressInUse)
    }

    /// Gives up the peer and the place; what waits to be read stays (`__udp_disconnect` of a socket whose port the system chose). Until
    /// [`Stack::udp_attach`] nothing can be sent.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn udp_detach(&mut self, now: Instant, id: SocketId) -> Result<(), Error> {
        let udp = self.udp(id)?;
        let (local, remote, manner) = (udp.local, udp.part(now), udp.bound.manner);
        udp.local = SocketAddr::new(if manner.stays { local.ip() } else { udp.bound.ip }, 0);
        self.demux.udp_unbind(local.port(), place(local, manner), id);
        if let Some(remote) = remote {
            self.demux.udp_disconnect(&Tuple::new(local, remote), id);
        }
        Ok(())
    }

    /// Gives a socket that was detached a place again.
    ///
    /// # Errors
    /// As [`Stack::udp_bind`]; [`Error::Invalid`] for one that has a place.
    pub fn udp_attach(&mut self, id: SocketId, local: SocketAddr, manner: BindManner) -> Result<(), Error> {
        if self.udp(id)?.local.port() != 0 {
            return Err(Error::Invalid);
        }
        let local = self.udp_place(local, manner)?;
        self.demux.udp_bind(local.port(), place(local, manner), id);
        let udp = self.udp(id)?;
        (udp.local, udp.bound) = (local, Bound { ip: local.ip(), manner });
        Ok(())
    }

    /// Fixes the peer: only its datagrams come in, and ICMP errors about them are told. An unspecified address dissolves it.
    ///
    /// # Errors
    /// [`Error::NoRoute`], [`Error::AddressInUse`] when another socket has this flow.
    pub fn udp_connect(&mut self, now: Instant, id: SocketId, remote: SocketAddr) -> Result<(), Error> {
        self.enter(now);
        let udp = self.udp(id)?;
        let (local, old, manner) = (udp.local, udp.remote, udp.bound.manner);
        if remote.ip().is_unspecified() {
            if let Some(old) = old {
                self.demux.udp_disconnect(&Tuple::new(local, old), id);
            }
            return self.udp_dissolve(now, id);
        }
        if local.port() == 0 {
            return Err(Error::Invalid);
        }
        let src = source(self.udp(id)?, remote)?;
        let src = self.route(src, remote.ip())?.src;
        let bound = SocketAddr::new(src, local.port());
        if !manner.shared && self.demux.udp_flow_taken(&Tuple::new(bound, remote), id) {
            return Err(Error::AddressInUse);
        }
        if let Some(old) = old {
            self.demux.udp_disconnect(&Tuple::new(local, old), id);
        }
        // As in Linux, connecting fixes the local address.
        self.demux.udp_connect(place(local, manner), Tuple::new(bound, remote), id);
        let udp = self.udp(id)?;
        udp.part(now);
        udp.remote = Some(remote);
        udp.local = bound;
        Ok(())
    }

    /// Without a peer the address is again the one that was bound (`__udp_disconnect`), unless another socket has taken it meanwhile.
    fn udp_dissolve(&mut self, now: Instant, id: SocketId) -> Result<(), Error> {
        let udp = self.udp(id)?;
        udp.part(now);
        let (local, port, manner) = (udp.local, udp.local.port(), udp.bound.manner);
        // Without a place it has none to go back to ([`Stack::udp_detach`]).
        if port == 0 {
            return Ok(());
        }
        let bound = SocketAddr::new(udp.bound.ip, port);
        self.demux.udp_unbind(port, place(local, manner), id);
        let free = manner.shared || self.demux.udp_free(port, place(bound, manner));
        let to = if free && !manner.stays { bound } else { local };
        self.demux.udp_bind(port, place(to, manner), id);
        self.udp(id)?.local = to;
        Ok(())
    }

    /// What becomes of datagrams beyond the path MTU, over IPv4 and over IPv6 (IP_MTU_DISCOVER, IPV6_MTU_DISCOVER).
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn udp_set_mtu_discovery(&mut self, id: SocketId, discovery: [MtuDiscovery; 2]) -> Result<(), Error> {
        self.udp(id)?.discovery = discovery;
        Ok(())
    }

    /// Sends a datagram to `remote`.
    ///
    /// # Errors
    /// [`Error::MessageTooLong`], [`Error::WouldBlock`] when the send buffer is full, [`Error::NoRoute`], or a pending error.
    pub fn udp_send_to(
        &mut self,
        now: Instant,
        id: SocketId,
        data: Bytes,
        remote: SocketAddr,
    ) -> Result<usize, Error> {
        self.enter(now);
        let udp = self.udp(id)?;
        // Who is connected to port 0 has asked for it (`udp_sendmsg`).
        if udp.local.port() == 0 || (remote.port() == 0 && udp.remote != Some(remote)) {
            return Err(Error::Invalid);
        }
        let dst = self.udp_way(id, remote, data.len())?;
        let udp = self.udp(id)?;
        let local = udp.local;
        let sent =
            udp.send(Datagram { data, peer: remote, local: SocketAddr::new(dst.src, local.port()) })?;
        if let Some(entry) = self.sockets.get_mut(id)
            && let Some(link) = self.links.get_mut(usize::from(dst.device.0))
        {
            link.ready.mark(id, entry, Turn::APP);
        }
        Ok(sent)
    }

    /// Whether a datagram of `len` bytes to `remote`, or to the connected peer, is one that may leave: asked before a pending error is told
    /// and what was shut down (`__ip_append_data`).
    ///
    /// # Errors
    /// [`Error::MessageTooLong`] beyond the path MTU where nothing may fragment it, [`Error::NoRoute`], [`Error::NotConnected`].
    pub fn udp_fits(
        &mut self,
        now: Instant,
        id: SocketId,
        remote: Option<SocketAddr>,
        len: usize,
    ) -> Result<(), Error> {
        self.enter(now);
        let remote = remote.or(self.udp(id)?.remote).ok_or(Error::NotConnected)?;
        self.udp_way(id, remote, len).map(|_| ())
    }

    fn udp_way(&mut self, id: SocketId, remote: SocketAddr, len: usize) -> Result<Dst, Error> {
        let udp = self.udp(id)?;
        let (src, discovery) = (source(udp, remote)?, udp.discovery_to(remote.ip()));
        let dst = self.datagram_route(src, remote.ip(), discovery)?;
        let overhead = wire::HEADER_LEN + if remote.is_ipv4() { 20 } else { 40 };
        let fits = !discovery.refuses() || len + overhead <= usize::from(dst.mtu);
        if fits { Ok(dst) } else { Err(Error::MessageTooLong) }
    }

    /// Sends a datagram to the connected peer.
    ///
    /// # Errors
    /// [`Error::NotConnected`], and those of [`Stack::udp_send_to`].
    pub fn udp_send(&mut self, now: Instant, id: SocketId, data: Bytes) -> Result<usize, Error> {
        let remote = self.udp(id)?.remote.ok_or(Error::NotConnected)?;
        self.udp_send_to(now, id, data, remote)
    }

    /// The oldest datagram and where it came from.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when there is none, or a pending error.
    pub fn udp_recv_from(&mut self, now: Instant, id: SocketId) -> Result<(Bytes, SocketAddr), Error> {
        self.enter(now);
        self.udp(id)?.recv().map(|datagram| (datagram.data, datagram.peer))
    }

    /// The oldest datagram and where it came from; it stays.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when there is none, or a pending error.
    pub fn udp_peek_from(&mut self, now: Instant, id: SocketId) -> Result<(Bytes, SocketAddr), Error> {
        self.enter(now);
        self.udp(id)?.peek().map(|datagram| (datagram.data, datagram.peer))
    }

    /// What datagrams that are sent from now on carry, those of IPv4 and those of IPv6.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn udp_set_marks(&mut self, id: SocketId, marks: [Marks; 2]) -> Result<(), Error> {
        self.udp(id)?.marks = marks;
        Ok(())
    }

    /// IP_RECVERR and IPV6_RECVERR: what ICMP says is told of every datagram.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn udp_set_recverr(&mut self, id: SocketId, on: [bool; 2]) -> Result<(), Error> {
        self.udp(id)?.errors.asked = on;
        Ok(())
    }

    /// SO_RCVBUF and SO_SNDBUF as they read back, in bytes of charge.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn udp_set_buffers(&mut self, id: SocketId, rcvbuf: u32, sndbuf: u32) -> Result<(), Error> {
        self.udp(id)?.buffers = (rcvbuf, sndbuf);
        Ok(())
    }

    /// The socket for a datagram of this flow. A connected one hears its peer alone (`compute_score` in net/ipv4/udp.c).
    pub(super) fn udp_receiver(&self, tuple: &Tuple) -> Option<SocketId> {
        self.demux.udp(tuple)
    }

    pub(super) fn close_udp(&mut self, id: SocketId) {
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let Socket::Udp(udp) = &mut entry.socket else { return };
        entry.holder = Holder::Nobody;
        self.demux.udp_unbind(udp.local.port(), place(udp.local, udp.bound.manner), id);
        if let Some(remote) = udp.remote {
            self.demux.udp_disconnect(&Tuple::new(udp.local, remote), id);
        }
        // What was written still goes out; the last credit frees the socket.
        if udp.is_idle() {
            self.bury(id);
        }
    }

    /// Sends up to `budget` of a socket's datagrams.
    pub(super) fn udp_turn(&mut self, id: SocketId, budget: usize) -> usize {
        for sent in 0..budget {
            let Some(entry) = self.sockets.get_mut(id) else { return sent };
            let Socket::Udp(udp) = &mut entry.socket else { return sent };
            let Some(datagram) = udp.next_unsent() else { return sent };
            udp.leaves(self.now, datagram.peer.ip());
            let discovery = udp.discovery_to(datagram.peer.ip());
            let marks = udp.marks[usize::from(datagram.peer.is_ipv6())];
            self.send_datagram(id, datagram, discovery, marks);
        }
        if let Some(Socket::Udp(udp)) = self.sockets.get(id).map(|e| &e.socket)
            && udp.wants_output()
        {
            self.mark_ready(id, Turn::AGAIN);
        }
        budget
    }

    /// The way of a datagram, with the MTU that counts for it.
    fn datagram_route(
        &self,
        src: Option<IpAddr>,
        dst: IpAddr,
        discovery: MtuDiscovery,
    ) -> Result<Dst, Error> {
        let found = self.route(src, dst)?;
        let mtu = if discovery.goes_by_path() { found.mtu } else { self.ip.device_mtu(found.device) };
        Ok(Dst { mtu, ..found })
    }

    fn send_datagram(&mut self, id: SocketId, datagram: Datagram, discovery: MtuDiscovery, marks: Marks) {
        let owner = Owner::new(FlowId::of(id), datagram.charge());
        let (local, peer) = (datagram.local, datagram.peer);
        let Marks { tos, ttl, group_ttl, priority, unchecked } = marks;
        // `__ip_make_skb`, `ip6_sk_dst_hoplimit`.
        let ttl = if peer.ip().is_multicast() { Some(group_ttl) } else { ttl };
        let Ok(dst) = self.datagram_route(Some(local.ip()), peer.ip(), discovery) else {
            self.env.count.no_route();
            self.refund(owner, true, Origin::Queue);
            return;
        };
        self.env.count.udp.out_datagrams += 1;
        if peer.is_ipv4() && peer.ip().is_multicast() && ttl == Some(0) {
            // It is for this host alone (`ip_mc_output`), where groups have no members.
            self.refund(owner, false, Origin::Queue);
            return;
        }
        let packet = Packet { priority, ..udp_packet(&dst, (datagram, unchecked), owner, self.now) };
        let fits = packet.len() + if peer.is_ipv4() { 20 } else { 40 } <= usize::from(dst.mtu);
        let params = OutputParams {
            ttl,
            tos,
            dont_fragment: discovery.sets_df(fits, dst.mtu_locked || self.env.sysctl.ip_no_pmtu_disc != 0),
            flow_label: self.label_of(local, peer),
            ..OutputParams::new(local.ip(), peer.ip(), protocol::UDP)
        };
        self.ip.output(&mut self.env.cx(self.now, Some(id)), &dst, &params, packet, &mut self.down.outbox);
        self.dispatch();
    }
}

impl Stack {
    /// The flow label of datagrams between two addresses, of IPv6 alone (RFC 6437 section 3; `ip6_make_flowlabel`).
    fn label_of(&self, local: SocketAddr, peer: SocketAddr) -> u32 {
        if peer.is_ipv4() {
            return 0;
        }
        let (src, dst) = ((local.ip(), local.port()), (peer.ip(), peer.port()));
        self.ip.flow_ids(src, dst, protocol::UDP).flow_label
    }
}

/// The UDP packet without its IP header. The checksum of what will be fragmented must be complete before.
fn udp_packet(dst: &Dst, (datagram, unchecked): (Datagram, bool), owner: Owner, now: Instant) -> Packet {
    let (local, peer) = (datagram.local, datagram.peer);
    let len = wire::HEADER_LEN + datagram.data.len();
    let pseudo = pseudo_header(local.ip(), peer.ip(), protocol::UDP, len);
    let repr =
        UdpRepr { src_port: local.port(), dst_port: peer.port(), payload_len: datagram.data.len() as u16 };
    let mut head = Head::new();
    let header = head.prepend(wire::HEADER_LEN);
    repr.emit(header);
    let csum = if unchecked && peer.is_ipv4() {
        // 0, as the header has been written (`udp_send_skb`).
        Csum::None
    } else if len + 40 > usize::from(dst.mtu) {
        wire::fill_checksum(header, pseudo, &[&datagram.data]);
        Csum::None
    } else {
        wire::fill_checksum_partial(header, pseudo);
        Csum::Partial { start: 0, offset: wire::CHECKSUM_OFFSET as u16 }
    };
    let offload = Offload { csum, ..Offload::default() };
    Packet { head, payload: datagram.data, offload, owner: Some(owner), at: now, priority: None }
}
