//! What applications call on TCP sockets, and what sockets of every kind share: close, poll, addresses, errors.
use super::demux::Flow;
use super::{Flows, Small, Stack};
use crate::base::{Cx, Error, Instant, SocketId, Sysctl, Tuple};
use crate::socket::ports::PortRange;
use crate::socket::{
    Entry, Holder, ListenAddr, ListenOptions, Listener, Path, RequestEntry, Socket, Table, Told, Turn,
};
use crate::tcp::{
    Conn, How, Inq, Notice, Ready, Reusable, SendFlags, Setup, SocketOptions, State, TcpInfo, TimeWait,
};
use bytes::Bytes;
use core::net::{IpAddr, SocketAddr};

impl Stack {
    /// Opens a connection to `remote`, from `local` where given (an unspecified address or port 0 leaves that to the stack).
    /// [`Event::Connected`](super::Event::Connected) or [`Event::Closed`](super::Event::Closed) follows.
    ///
    /// # Errors
    /// [`Error::NoRoute`], [`Error::AddressNotAvailable`], [`Error::AddressInUse`], [`Error::Invalid`] for a destination
    /// that cannot be connected to, [`Error::NoBuffers`] while [`GONE_EVENTS_MAX`](crate::base::limits::GONE_EVENTS_MAX)
    /// events about ended sockets wait for the driver.
    pub fn tcp_connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        options: &SocketOptions,
    ) -> Result<SocketId, Error> {
        self.enter(now);
        self.check_events()?;
        let (setup, path, old) = self.prepare_connect(remote, local, options)?;
        let mut conn = if options.fastopen_connect {
            let cx = self.env.cx(self.now, None);
            let plan = self.openers.fastopen.cache.plan(&cx, &setup.tuple, setup.options.no_cookie());
            Conn::connect_fast(&mut self.env.cx(self.now, None), setup, &plan, true)
        } else {
            Conn::connect(&mut self.env.cx(self.now, None), setup)
        };
        conn.follow(&self.env.sysctl, old.as_ref());
        let id = self.insert_conn(conn, Some(path), Holder::Owner);
        self.settle(id, Turn::APP);
        Ok(id)
    }

    /// Chooses addresses, port, path and initial numbers of an active open.
    pub(super) fn prepare_connect(
        &mut self,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        options: &SocketOptions,
    ) -> Result<(Setup, Path, Option<Reusable>), Error> {
        let src = self.source(remote, local.map(|l| l.ip()))?;
        let port = self.local_port(src, remote, local.map_or(0, |l| l.port()), |_, _| false)?;
        let tuple = Tuple::new(SocketAddr::new(src, port), remote);
        let path = self.path(Some(src), &tuple)?;
        let old = self.take_time_wait(&tuple);
        let options = self.env.option_sets.share(options);
        let setup = Setup {
            tuple,
            mtu: path.dst.mtu,
            isn: old.as_ref().map_or_else(|| self.env.secrets.isn(&tuple, self.now), |old| old.isn),
            ts_offset: self.env.secrets.ts_offset(&tuple),
            options: self.over_route(&options, &tuple),
            saved_syn: None,
        };
        Ok((setup, path, old))
    }

    /// The port that [`Stack::tcp_connect`] would choose for a connection from `local` to `remote`, none that is `taken` with the flows that
    /// there are: descriptors have ports that the stack does not know of. Asked are the ports whose turn it is, one after the other.
    ///
    /// # Errors
    /// Those of [`Stack::tcp_connect`].
    pub fn tcp_source_port(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local: Option<IpAddr>,
        taken: impl FnMut(&Flows<'_>, u16) -> bool,
    ) -> Result<u16, Error> {
        self.enter(now);
        let src = self.source(remote, local)?;
        self.local_port(src, remote, 0, taken)
    }

    /// The address that a connection to `remote` begins at.
    fn source(&self, remote: SocketAddr, local: Option<IpAddr>) -> Result<IpAddr, Error> {
        if remote.port() == 0 || remote.ip().is_unspecified() {
            return Err(Error::Invalid);
        }
        if remote.ip().is_multicast() {
            return Err(Error::NoRoute);
        }
        let bound = local.filter(|ip| !ip.is_unspecified());
        if let Some(ip) = bound {
            self.check_own(ip)?;
        }
        let way = self.route(bound, remote.ip())?;
        // A connection has one peer (`tcp_v4_connect`).
        if self.ip.is_broadcast(way.device, remote.ip()) {
            return Err(Error::NoRoute);
        }
        Ok(way.src)
    }

    /// The port of an active open: the one asked for, if the flow is free, or an ephemeral one.
    fn local_port(
        &mut self,
        src: IpAddr,
        remote: SocketAddr,
        port: u16,
        mut taken: impl FnMut(&Flows<'_>, u16) -> bool,
    ) -> Result<u16, Error> {
        let (demux, sockets, small) = (&self.demux, &self.sockets, &self.small);
        let flows = Flows { demux, sockets, small };
        let cx = self.env.cx(self.now, None);
        let free = |port, chosen| {
            let tuple = Tuple::new(SocketAddr::new(src, port), remote);
            match demux.flows.get(&tuple, sockets, small) {
                None => true,
                Some(flow) => {
                    time_wait_of(flow, sockets, small).is_some_and(|tw| tw.reusable(&cx, chosen).is_some())
                }
            }
        };
        if port != 0 {
            return if free(port, false) { Ok(port) } else { Err(Error::AddressNotAvailable) };
        }
        let from = ports_of(cx.sysctl);
        let free = |port| !taken(&flows, port) && demux.may_listen(port, Some(src)) && free(port, true);
        self.openers.ports.connect(&from, &(src, remote), free).ok_or(Error::AddressNotAvailable)
    }

    /// Removes what is left of an older connection of this flow, which a new one may follow (RFC 6191).
    fn take_time_wait(&mut self, tuple: &Tuple) -> Option<Reusable> {
        let flow = self.demux.flows.get(tuple, &self.sockets, &self.small)?;
        let cx = self.env.cx(self.now, None);
        let old = time_wait_of(flow, &self.sockets, &self.small)?.reusable(&cx, false);
        match flow {
            Flow::TimeWait(id) => self.remove_time_wait(id),
            Flow::Conn(id) => {
                if let Some(Entry { socket: Socket::Tcp(conn), .. }) = self.sockets.get_mut(id) {
                    conn.yield_flow(&mut self.env.cx(self.now, Some(id)));
                    self.settle(id, Turn::APP);
                }
            }
            Flow::Request(_) => {}
        }
        self.env.count.tcp_ext.tw_recycled += 1;
        old
    }

    /// An address that a socket may be bound to: ours, or any one on a stack that accepts any.
    pub(super) fn check_own(&self, ip: IpAddr) -> Result<(), Error> {
        let ifaces = self.ip.ifaces();
        let ours = ifaces.owner_of(ip).is_some() || ifaces.iter().any(|(_, iface)| iface.any_address);
        if ours { Ok(()) } else { Err(Error::AddressNotAvailable) }
    }

    /// Listens at `local`.
    ///
    /// # Errors
    /// [`Error::AddressInUse`], [`Error::AddressNotAvailable`], [`Error::NoBuffers`] as [`Stack::tcp_connect`].
    pub fn tcp_listen(
        &mut self,
        now: Instant,
        local: ListenAddr,
        options: ListenOptions,
    ) -> Result<SocketId, Error> {
        self.enter(now);
        self.check_events()?;
        let mut addr = local;
        if let Some(ip) = addr.ip.filter(|ip| !ip.is_unspecified()) {
            self.check_own(ip)?;
        }
        if addr.port == Some(0) {
            addr.port = Some(self.tcp_free_port(addr.ip, |_, _| false)?);
        }
        let listener = Listener::new(addr, options, &self.env.sysctl);
        let id = self.sockets.insert(Entry::new(Socket::Listener(Box::new(listener)), None, Holder::Owner));
        if !self.demux.listen(addr, id) {
            self.sockets.remove(id);
            return Err(Error::AddressInUse);
        }
        self.env.memory.open();
        Ok(id)
    }

    /// The oldest complete connection of a listener, with the peer's address. Poll the new socket once: what came in before
    /// is told by an event, but only if there was something.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when there is none; [`Error::Invalid`] when `listener` is none; [`Error::NoBuffers`] as
    /// [`Stack::tcp_connect`].
    pub fn tcp_accept(&mut self, now: Instant, listener: SocketId) -> Result<(SocketId, SocketAddr), Error> {
        self.enter(now);
        self.check_events()?;
        let entry = self.sockets.get_mut(listener).filter(|e| e.holder == Holder::Owner);
        let Socket::Listener(l) = &mut entry.ok_or(Error::NoSuchSocket)?.socket else {
            return Err(Error::Invalid);
        };
        let id = l.accept.pop_front().ok_or(Error::WouldBlock)?;
        let entry = self.sockets.get_mut(id).ok_or(Error::WouldBlock)?;
        entry.holder = Holder::Owner;
        let Socket::Tcp(conn) = &mut entry.socket else { return Err(Error::Invalid) };
        conn.hand_over();
        if conn.poll(&self.env.cx(self.now, Some(id))).contains(Ready::IN) {
            self.events.push_notice(&mut entry.pending, id, Notice::READABLE);
        }
        Ok((id, conn.tuple().remote()))
    }

    /// Calls a method of a connection that the application holds, and draws the conclusions.
    pub(super) fn with_conn<R>(
        &mut self,
        now: Instant,
        id: SocketId,
        call: impl FnOnce(&mut Conn, &mut Cx<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.enter(now);
        let entry = self.sockets.get_mut(id).filter(|e| e.holder == Holder::Owner);
        let Socket::Tcp(conn) = &mut entry.ok_or(Error::NoSuchSocket)?.socket else {
            return Err(Error::Unsupported);
        };
        let result = call(conn, &mut self.env.cx(self.now, Some(id)));
        self.settle(id, Turn::APP);
        result
    }

    /// Queues a copy of `data` for sending; how much of it found room.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when nothing did, [`Error::BrokenPipe`], [`Error::NotConnected`], or the connection's error. [`Error::Aborted`] where
    /// the first write behind a deferred connect finds no route: the connection is over.
    pub fn tcp_send(
        &mut self,
        now: Instant,
        id: SocketId,
        data: &[u8],
        flags: SendFlags,
    ) -> Result<usize, Error> {
        self.enter(now);
        self.route_deferred(id)?;
        self.with_conn(now, id, |conn, cx| conn.send(cx, data, flags))
    }

    /// Whether a write with these flags finds room.
    ///
    /// # Errors
    /// Those of [`Stack::tcp_send`].
    pub fn tcp_find_room(&mut self, now: Instant, id: SocketId, flags: SendFlags) -> Result<(), Error> {
        self.with_conn(now, id, |conn, cx| conn.find_room(cx, flags))
    }

    /// A write is refused before anything of it is taken, for what comes with its data.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] where it is no connection.
    pub fn tcp_refuse_write(&mut self, now: Instant, id: SocketId) -> Result<(), Error> {
        self.with_conn(now, id, |conn, _| {
            conn.refuse_write();
            Ok(())
        })
    }

    /// A write that waited for room comes back with what it has taken in, which is pushed once more.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] where it is no connection.
    pub fn tcp_end_write(&mut self, now: Instant, id: SocketId, flags: SendFlags) -> Result<(), Error> {
        self.with_conn(now, id, |conn, cx| {
            conn.end_write(cx, flags);
            Ok(())
        })
    }

    /// Queues the front of `data` for sending without a copy and takes it off.
    ///
    /// # Errors
    /// Those of [`Stack::tcp_send`].
    pub fn tcp_send_bytes(
        &mut self,
        now: Instant,
        id: SocketId,
        data: &mut Bytes,
        flags: SendFlags,
    ) -> Result<usize, Error> {
        self.enter(now);
        self.route_deferred(id)?;
        self.with_conn(now, id, |conn, cx| conn.send_bytes(cx, data, flags))
    }

    /// Copies received data to `buf`; 0 at the end of the stream. With `peek` it stays.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when there is none, [`Error::NotConnected`], or the connection's error.
    pub fn tcp_recv(
        &mut self,
        now: Instant,
        id: SocketId,
        buf: &mut [u8],
        peek: bool,
    ) -> Result<usize, Error> {
        self.with_conn(now, id, |conn, cx| if peek { conn.peek(cx, 0, buf) } else { conn.recv(cx, buf) })
    }

    /// Copies received data from `skip` bytes on, which stays: behind the urgent byte, too, where that has been looked at (SO_PEEK_OFF).
    ///
    /// # Errors
    /// As [`Stack::tcp_recv`].
    pub fn tcp_peek(
        &mut self,
        now: Instant,
        id: SocketId,
        skip: u32,
        buf: &mut [u8],
    ) -> Result<usize, Error> {
        self.with_conn(now, id, |conn, cx| conn.peek(cx, skip, buf))
    }

    /// TCP_QUICKACK: 1 acknowledges every segment for a while, 0 goes back to delayed acknowledgements.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] on anything but a connection.
    pub fn tcp_set_quickack(&mut self, now: Instant, id: SocketId, value: u32) -> Result<(), Error> {
        self.with_conn(now, id, |conn, cx| {
            conn.set_quickack(cx, value);
            Ok(())
        })
    }

    /// Hands up to `max` received bytes to `take`, piece by piece; 0 at the end of the stream.
    ///
    /// # Errors
    /// Those of [`Stack::tcp_recv`].
    pub fn tcp_recv_with(
        &mut self,
        now: Instant,
        id: SocketId,
        max: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, Error> {
        self.with_conn(now, id, |conn, cx| conn.recv_with(cx, max, take))
    }

    /// Up to `max` bytes of received data without a copy; `None` at the end of the stream.
    ///
    /// # Errors
    /// Those of [`Stack::tcp_recv`].
    pub fn tcp_read_chunk(&mut self, now: Instant, id: SocketId, max: usize) -> Result<Option<Bytes>, Error> {
        self.with_conn(now, id, |conn, cx| conn.read_chunk(cx, max))
    }

    /// MSG_OOB: the urgent byte, which `peek` leaves; `None` at the end of the stream.
    ///
    /// # Errors
    /// Those of [`Conn::recv_oob`].
    pub fn tcp_recv_oob(&mut self, now: Instant, id: SocketId, peek: bool) -> Result<Option<u8>, Error> {
        self.with_conn(now, id, |conn, _| conn.recv_oob(peek))
    }

    /// What waits to be read, as SIOCINQ, SIOCATMARK and TCP_INQ tell it.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] on anything but a connection.
    pub fn tcp_inq(&self, id: SocketId) -> Result<Inq, Error> {
        match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => Ok(conn.inq()),
            _ => Err(Error::Unsupported),
        }
    }

    /// Closes one direction or both, keeping the socket.
    ///
    /// # Errors
    /// [`Error::NotConnected`]; [`Error::Unsupported`] on anything but a connection.
    pub fn shutdown(&mut self, now: Instant, id: SocketId, how: How) -> Result<(), Error> {
        self.with_conn(now, id, |conn, cx| conn.shutdown(cx, how))
    }

    /// Gives a socket of any kind up. A connection closes in the background; [`Event::Gone`](super::Event::Gone) tells when it is over.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`].
    pub fn close(&mut self, now: Instant, id: SocketId) -> Result<(), Error> {
        self.enter(now);
        self.give_up(id, false)
    }

    /// As [`Stack::close`], but a connection is reset.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`].
    pub fn abort(&mut self, now: Instant, id: SocketId) -> Result<(), Error> {
        self.enter(now);
        self.give_up(id, true)
    }

    fn give_up(&mut self, id: SocketId, abort: bool) -> Result<(), Error> {
        let entry = self.sockets.get_mut(id).filter(|e| e.holder == Holder::Owner);
        let entry = entry.ok_or(Error::NoSuchSocket)?;
        match &mut entry.socket {
            Socket::Tcp(_) => self.orphan(id, abort),
            Socket::Listener(_) => self.close_listener(id),
            Socket::Udp(_) => self.close_udp(id),
            Socket::Sctp(_) => self.release_sctp(id, abort),
            Socket::SctpListener(_) => self.close_sctp_listener(id),
        }
        Ok(())
    }

    /// Resets every connection that closes in the background; how many there were. For the end of a stack.
    pub fn abort_orphans(&mut self, now: Instant) -> usize {
        self.enter(now);
        let orphan = |(id, e): (SocketId, &Entry)| (e.holder == Holder::Nobody && e.bound).then_some(id);
        let ids: Vec<SocketId> = self.sockets.iter().filter_map(orphan).collect();
        for &id in &ids {
            if let Some(Entry { socket: Socket::Tcp(conn), .. }) = self.sockets.get_mut(id) {
                conn.abort(&mut self.env.cx(self.now, Some(id)));
                self.settle(id, Turn::APP);
            } else {
                self.release_sctp(id, true);
            }
        }
        ids.len()
    }

    /// Nobody holds this connection any more.
    fn orphan(&mut self, id: SocketId, abort: bool) {
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let Socket::Tcp(conn) = &mut entry.socket else { return };
        entry.holder = Holder::Nobody;
        self.env.memory.orphan();
        let mut cx = self.env.cx(self.now, Some(id));
        // What is over, or has but the peer's FIN to wait for and not for long, becomes a small object at once and is none too many (`__tcp_close`).
        let small = conn.is_nearly_over(&cx);
        // Beyond the bound, or with much to send where memory is exhausted, nobody waits for it (`tcp_check_oom`).
        let too_many = !small && conn.is_one_too_many(&cx, 0);
        cx.count.tcp_ext.tcp_abort_on_memory += u64::from(too_many);
        if abort || too_many {
            conn.abort(&mut cx);
        } else {
            conn.close(&mut cx);
        }
        self.settle(id, Turn::APP);
    }

    fn close_listener(&mut self, id: SocketId) {
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let Socket::Listener(l) = &mut entry.socket else { return };
        entry.holder = Holder::Nobody;
        self.demux.unlisten(l.addr);
        let (waiting, requests) = (core::mem::take(&mut l.accept), l.requests);
        if requests > 0 {
            let ours = |(request, r): (_, &RequestEntry)| (r.listener == id).then_some(request);
            let gone: Vec<_> = self.small.requests.iter().filter_map(ours).collect();
            for request in gone {
                let told = self.small.requests.get(request).map_or(Told::Never, |r| r.told);
                self.events.forget_request(told);
                self.remove_request(request);
            }
            self.events.forget_listener(id);
        }
        for child in waiting {
            self.orphan(child, true);
        }
        self.bury(id);
    }

    /// Level readiness of a socket of any kind. A stale name is [`Ready::HUP`] with [`Ready::ERR`].
    pub fn poll(&mut self, now: Instant, id: SocketId) -> Ready {
        self.enter(now);
        let cx = self.env.cx(self.now, Some(id));
        match self.sockets.get_mut(id).filter(|e| e.holder == Holder::Owner) {
            Some(entry) => entry.poll(&cx),
            None => Ready(Ready::HUP.0 | Ready::ERR.0),
        }
    }

    /// Level readiness of a connection, for who reads and does not ask for room: [`Stack::poll`] would count as having seen "full". A stale name
    /// is as there, and so is whatever is no connection of TCP.
    pub fn tcp_ready(&mut self, now: Instant, id: SocketId) -> Ready {
        self.enter(now);
        let cx = self.env.cx(self.now, Some(id));
        match self.sockets.get(id).filter(|e| e.holder == Holder::Owner).map(|e| &e.socket) {
            Some(Socket::Tcp(conn)) => conn.ready(&cx),
            _ => Ready(Ready::HUP.0 | Ready::ERR.0),
        }
    }

    /// The pending error, once (SO_ERROR).
    pub fn take_error(&mut self, id: SocketId) -> Option<Error> {
        match &mut self.sockets.get_mut(id)?.socket {
            Socket::Tcp(conn) => conn.take_error(),
            Socket::Udp(udp) => udp.errors.pending.take(),
            Socket::Sctp(sctp) => sctp.assoc.take_error(),
            Socket::Listener(_) | Socket::SctpListener(_) => None,
        }
    }

    /// Our side; of a listener, an unspecified address stands for any and port 0 for any.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`].
    pub fn local_addr(&self, id: SocketId) -> Result<SocketAddr, Error> {
        self.tcp_flows().local_addr(id)
    }

    /// The peer.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::NotConnected`] where there is no peer.
    pub fn peer_addr(&self, id: SocketId) -> Result<SocketAddr, Error> {
        match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => Ok(conn.tuple().remote()),
            Socket::Udp(udp) => udp.remote.ok_or(Error::NotConnected),
            Socket::Sctp(sctp) => Ok(sctp.remote()),
            Socket::Listener(_) | Socket::SctpListener(_) => Err(Error::NotConnected),
        }
    }

    /// The options of a connection, or those that a listener hands on.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] on a UDP socket.
    pub fn options(&self, id: SocketId) -> Result<&SocketOptions, Error> {
        match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => Ok(conn.options()),
            Socket::Listener(l) => Ok(&l.options.options),
            _ => Err(Error::Unsupported),
        }
    }

    /// Changes the options of a connection, or those that a listener hands on.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] on a UDP socket.
    pub fn set_options(&mut self, now: Instant, id: SocketId, options: SocketOptions) -> Result<(), Error> {
        self.enter(now);
        let entry = self.sockets.get_mut(id).ok_or(Error::NoSuchSocket)?;
        match &mut entry.socket {
            Socket::Tcp(conn) => {
                let options = SocketOptions { route: conn.options().route, ..options };
                let options = self.env.option_sets.share(&options);
                conn.set_options(&mut self.env.cx(self.now, Some(id)), options);
            }
            Socket::Listener(l) => l.set_options(options, &self.env.sysctl),
            _ => return Err(Error::Unsupported),
        }
        self.settle(id, Turn::APP);
        Ok(())
    }

    /// TCP_INFO as of `now`: asking changes nothing, and times go on where nothing else happens.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] on anything but a connection.
    pub fn tcp_info(&mut self, now: Instant, id: SocketId) -> Result<TcpInfo, Error> {
        match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => Ok(conn.info(&self.env.cx(now.max(self.now), Some(id)))),
            _ => Err(Error::Unsupported),
        }
    }

    /// The state of a connection.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] on a UDP socket.
    pub fn tcp_state(&self, id: SocketId) -> Result<State, Error> {
        self.tcp_flows().state(id)
    }

    /// It listens, whatever its protocol.
    #[must_use]
    pub fn is_listener(&self, id: SocketId) -> bool {
        let listens = |s: &Socket| matches!(s, Socket::Listener(_) | Socket::SctpListener(_));
        self.sockets.get(id).is_some_and(|entry| listens(&entry.socket))
    }
}

/// Where ephemeral ports come from.
pub(super) const fn ports_of(sysctl: &Sysctl) -> PortRange<'_> {
    PortRange { range: sysctl.ip_local_port_range, reserved: &sysctl.ip_local_reserved_ports }
}

/// The TIME-WAIT of a flow, held by its application still or not.
fn time_wait_of<'a>(flow: Flow, sockets: &'a Table, small: &'a Small) -> Option<&'a TimeWait> {
    match flow {
        Flow::TimeWait(id) => small.time_waits.get(id).map(|entry| &entry.time_wait),
        Flow::Conn(id) => match sockets.get(id).map(|e| &e.socket) {
            Some(Socket::Tcp(conn)) => conn.time_wait(),
            _ => None,
        },
        Flow::Request(_) => None,
    }
}
