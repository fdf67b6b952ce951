//! What applications call on SCTP sockets: listen, connect, accept, send, receive, and what they set and ask.
mod demux;
mod encap;
mod input;
mod lifecycle;
mod output;
mod record;
mod train;

pub(super) use demux::SctpDemux;

use super::Stack;
use super::tcp::ports_of;
use crate::base::limits::SCTP_PATHS_MAX;
use crate::base::{Carrier, Cx, DeviceId, Error, Instant, SocketId};
use crate::sctp::handshake::init::Addresses;
use crate::sctp::{
    AbandonedCounts, Assoc, AssocCounts, AssocInfo, PathOptions, Received, RecvInfo, SctpOptions, SendInfo,
    Setup, State,
};
use crate::socket::{Entry, Families, Holder, SctpListener, Socket, Turn};
use bytes::Bytes;
use core::net::{IpAddr, SocketAddr};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// The addresses of a call, unspecified ones left out, and their one port.
fn bound(addrs: &[SocketAddr]) -> Result<(SmallVec<[IpAddr; 2]>, u16), Error> {
    let port = addrs.first().map_or(0, SocketAddr::port);
    if addrs.iter().any(|a| a.port() != port) {
        return Err(Error::Invalid);
    }
    Ok((addrs.iter().map(SocketAddr::ip).filter(|ip| !ip.is_unspecified()).collect(), port))
}

impl Stack {
    /// Listens at `addrs`, which all have the same port; none or unspecified ones stand for any address, port 0 for a free one.
    ///
    /// # Errors
    /// [`Error::AddressInUse`], [`Error::AddressNotAvailable`], [`Error::Invalid`] for different ports, [`Error::NoBuffers`] as
    /// [`Stack::tcp_connect`].
    pub fn sctp_listen(
        &mut self,
        now: Instant,
        addrs: &[SocketAddr],
        backlog: u32,
        options: SctpOptions,
    ) -> Result<SocketId, Error> {
        self.sctp_listen_for(now, Families::Both, addrs, backlog, options)
    }

    /// The same for associations of these families alone, where the addresses stand for any: another listener may have the other family's
    /// associations of this port.
    ///
    /// # Errors
    /// Those of [`Stack::sctp_listen`].
    pub fn sctp_listen_for(
        &mut self,
        now: Instant,
        families: Families,
        addrs: &[SocketAddr],
        backlog: u32,
        options: SctpOptions,
    ) -> Result<SocketId, Error> {
        self.enter(now);
        self.check_events()?;
        let (ips, mut port) = bound(addrs)?;
        for ip in &ips {
            self.check_own(*ip)?;
        }
        if port == 0 {
            port = self.sctp_free_port(&ips, |_| false)?;
        }
        if !self.demux.sctp.may_listen(port, &ips, families) {
            return Err(Error::AddressInUse);
        }
        let backlog = backlog.min(self.env.sysctl.somaxconn);
        let accept = VecDeque::new();
        let listener = SctpListener { port, ips: ips.clone(), families, options, backlog, accept };
        let socket = Socket::SctpListener(Box::new(listener));
        let id = self.sockets.insert(Entry::new(socket, None, Holder::Owner));
        self.demux.sctp.listen(port, &ips, families, id);
        Ok(id)
    }

    /// A listener is at these addresses from now on, with the port that it had; none or unspecified ones stand for any address. The
    /// associations that it has made keep theirs.
    ///
    /// # Errors
    /// [`Error::AddressInUse`], [`Error::AddressNotAvailable`], [`Error::NoSuchSocket`], [`Error::Invalid`] when it is none.
    pub fn sctp_rebind(&mut self, listener: SocketId, addrs: &[SocketAddr]) -> Result<(), Error> {
        let (ips, _) = bound(addrs)?;
        for ip in &ips {
            self.check_own(*ip)?;
        }
        let Socket::SctpListener(l) = &mut self.sockets.get_mut(listener).ok_or(Error::NoSuchSocket)?.socket
        else {
            return Err(Error::Invalid);
        };
        let demux = &mut self.demux.sctp;
        demux.unlisten(l.port, listener);
        let free = demux.may_listen(l.port, &ips, l.families);
        if free {
            l.ips = ips;
        }
        demux.listen(l.port, &l.ips, l.families, listener);
        if free { Ok(()) } else { Err(Error::AddressInUse) }
    }

    /// A listener holds so many associations that nobody has accepted, from now on.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Invalid`] when it is none.
    pub fn sctp_set_backlog(&mut self, listener: SocketId, backlog: u32) -> Result<(), Error> {
        let most = backlog.min(self.env.sysctl.somaxconn);
        match &mut self.sockets.get_mut(listener).ok_or(Error::NoSuchSocket)?.socket {
            Socket::SctpListener(l) => l.backlog = most,
            _ => return Err(Error::Invalid),
        }
        Ok(())
    }

    /// A port at which a new listener at `ips` (none: any address) collides with no other; `taken` are those that the
    /// caller knows of.
    ///
    /// # Errors
    /// [`Error::AddressInUse`] when every port of `ip_local_port_range` is taken.
    pub fn sctp_free_port(&mut self, ips: &[IpAddr], taken: impl Fn(u16) -> bool) -> Result<u16, Error> {
        let (from, demux) = (ports_of(&self.env.sysctl), &self.demux.sctp);
        let free = |port| demux.may_listen(port, ips, Families::Both) && !taken(port);
        self.openers.ports.bind(&from, free).ok_or(Error::AddressInUse)
    }

    /// Opens an association with the peer that has the addresses `remotes`, all with one port; INIT goes to the first. `locals` are
    /// the addresses that the peer is told of; none stands for all that fit. [`Event::Connected`](super::Event::Connected) or
    /// [`Event::Closed`](super::Event::Closed) follows.
    ///
    /// # Errors
    /// [`Error::NoRoute`], [`Error::AddressNotAvailable`], [`Error::AddressInUse`] when there is such an association,
    /// [`Error::Invalid`] for addresses that nobody can have and options without a stream in either direction, [`Error::NoBuffers`] as
    /// [`Stack::tcp_connect`].
    pub fn sctp_connect(
        &mut self,
        now: Instant,
        remotes: &[SocketAddr],
        locals: &[SocketAddr],
        options: SctpOptions,
    ) -> Result<SocketId, Error> {
        self.enter(now);
        self.check_events()?;
        let port = remotes.first().ok_or(Error::Invalid)?.port();
        let wrong = |a: &SocketAddr| a.port() != port || a.ip().is_unspecified() || a.ip().is_multicast();
        if port == 0 || remotes.iter().any(wrong) || options.num_ostreams == 0 || options.max_instreams == 0 {
            return Err(Error::Invalid);
        }
        let (mine, mut local_port) = bound(locals)?;
        for ip in &mine {
            self.check_own(*ip)?;
        }
        let dst = self.sctp_route(&mine, remotes[0].ip())?;
        let (src, carrier) = (dst.src, self.carrier(dst.device));
        if !carrier.has_addresses() && remotes.len() > 1 {
            return Err(Error::Invalid);
        }
        let announced = self.sctp_locals(&mine, src, carrier);
        if local_port == 0 {
            let (from, demux) = (ports_of(&self.env.sysctl), &self.demux.sctp);
            let unused = |port| remotes.iter().all(|r| demux.flows(port, *r).is_empty());
            let free = |port| demux.may_listen(port, &[], Families::Both) && unused(port);
            let found = self.openers.ports.connect(&from, &(src, remotes[0]), free);
            local_port = found.ok_or(Error::AddressNotAvailable)?;
        }
        if remotes.iter().any(|r| self.sctp_holder(local_port, &announced, *r).is_some()) {
            return Err(Error::AddressInUse);
        }
        let mut setup = Setup {
            ports: (local_port, port),
            remotes: remotes.iter().map(SocketAddr::ip).collect(),
            locals: announced,
            carrier,
            options,
        };
        if self.env.sysctl.sctp_udp_port == 0 || !carrier.has_addresses() {
            setup.options.encap_port = 0;
        }
        let assoc = Assoc::connect(&mut self.env.cx(self.now, None), setup);
        let id = self.insert_assoc(assoc, Holder::Owner);
        self.settle_sctp(id, Turn::APP);
        Ok(id)
    }

    /// The association to which our side of a packet and the peer's belong. One that is over has no part in that, though its last word
    /// may still wait for its turn.
    pub(super) fn sctp_flow(&self, local: SocketAddr, remote: SocketAddr) -> Option<SocketId> {
        let ids = self.demux.sctp.flows(local.port(), remote);
        let ours = |assoc: &Assoc| assoc.state() != State::Closed && assoc.locals().contains(&local.ip());
        ids.iter().copied().find(|id| self.assoc(*id).is_ok_and(ours))
    }

    /// An association that has one of these addresses of ours and this one of a peer's.
    fn sctp_holder(&self, port: u16, locals: &[IpAddr], remote: SocketAddr) -> Option<SocketId> {
        locals.iter().find_map(|ip| self.sctp_flow(SocketAddr::new(*ip, port), remote))
    }

    /// What SCTP packets travel in on this device.
    fn carrier(&self, dev: DeviceId) -> Carrier {
        self.links.get(usize::from(dev.0)).map_or(Carrier::Ip, |link| link.caps.carrier)
    }

    /// The addresses that a peer is told of: those that were bound, or all of the same family and scope as `src`; that one alone where
    /// there are no others.
    fn sctp_locals(&self, bound: &[IpAddr], src: IpAddr, carrier: Carrier) -> Addresses {
        if !carrier.has_addresses() {
            return Addresses::from_slice(&[src]);
        }
        if !bound.is_empty() {
            return bound.iter().copied().collect();
        }
        let mut all = Addresses::from_slice(&[src]);
        if src.is_loopback() {
            return all;
        }
        let link_local = |ip: IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let fits = |ip: &IpAddr| {
            ip.is_ipv4() == src.is_ipv4()
                && !ip.is_loopback()
                && link_local(*ip) == link_local(src)
                && *ip != src
        };
        let candidates = self.ip.ifaces().candidates();
        let told = candidates.filter(|(dev, ..)| self.carrier(*dev).has_addresses());
        all.extend(told.map(|(_, ip, _)| ip).filter(fits));
        all.truncate(SCTP_PATHS_MAX);
        all
    }

    /// The oldest association of a listener, with the peer's address. Poll the new socket once, as after [`Stack::tcp_accept`].
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when there is none; [`Error::Invalid`] when `listener` is none; [`Error::NoBuffers`] as
    /// [`Stack::tcp_connect`].
    pub fn sctp_accept(&mut self, now: Instant, listener: SocketId) -> Result<(SocketId, SocketAddr), Error> {
        self.enter(now);
        self.check_events()?;
        let entry = self.sockets.get_mut(listener).filter(|e| e.holder == Holder::Owner);
        let Socket::SctpListener(l) = &mut entry.ok_or(Error::NoSuchSocket)?.socket else {
            return Err(Error::Invalid);
        };
        let id = l.accept.pop_front().ok_or(Error::WouldBlock)?;
        let entry = self.sockets.get_mut(id).ok_or(Error::WouldBlock)?;
        entry.holder = Holder::Owner;
        let peer = self.peer_addr(id)?;
        self.tell_readable(id);
        Ok((id, peer))
    }

    /// The association of this socket, which the application holds.
    fn assoc(&self, id: SocketId) -> Result<&Assoc, Error> {
        match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Sctp(sctp) => Ok(&sctp.assoc),
            _ => Err(Error::Unsupported),
        }
    }

    /// Calls a method of an association that the application holds, and draws the conclusions.
    fn with_assoc<R>(
        &mut self,
        now: Instant,
        id: SocketId,
        call: impl FnOnce(&mut Assoc, &mut Cx<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.with_assoc_unless(now, id, |assoc, cx, _| (call(assoc, cx), false))
    }

    /// The same for calls of which many come in a row: `call` hears whether a turn waits already, and says whether nothing follows from
    /// what it did.
    fn with_assoc_unless<R>(
        &mut self,
        now: Instant,
        id: SocketId,
        call: impl FnOnce(&mut Assoc, &mut Cx<'_>, bool) -> (Result<R, Error>, bool),
    ) -> Result<R, Error> {
        self.enter(now);
        let entry = self.sockets.get_mut(id).filter(|e| e.holder == Holder::Owner);
        let entry = entry.ok_or(Error::NoSuchSocket)?;
        let Socket::Sctp(sctp) = &mut entry.socket else { return Err(Error::Unsupported) };
        let waits = entry.turn != Turn::NONE;
        let (result, nothing) = call(&mut sctp.assoc, &mut self.env.cx(self.now, Some(id)), waits);
        if let Some(arrivals) = &mut sctp.arrivals {
            arrivals.sync(id, sctp.assoc.readable(), &mut self.demux.sctp.stamps);
        }
        let (before, after) = sctp.assoc.recharge();
        self.env.memory.account(&self.env.sysctl, &mut self.env.count, before, after);
        if !nothing {
            self.settle_sctp(id, Turn::APP);
        }
        result
    }

    /// Queues a message without a copy; its length.
    ///
    /// # Errors
    /// Those of [`Assoc::send`].
    pub fn sctp_send(
        &mut self,
        now: Instant,
        id: SocketId,
        data: Bytes,
        info: SendInfo,
    ) -> Result<usize, Error> {
        self.with_assoc_unless(now, id, |assoc, cx, waits| {
            // A lifetime is a deadline of the association.
            let waits = waits && info.reliability.lifetime().is_none();
            let corked = assoc.wants_more();
            let result = assoc.send(cx, data, info);
            let nothing = if result.is_ok() { waits } else { result == Err(Error::WouldBlock) && !corked };
            (result, nothing)
        })
    }

    /// The next message, part of one, or notification, `max` bytes at the most; `None` at the end.
    ///
    /// # Errors
    /// Those of [`Assoc::recv`].
    pub fn sctp_recv(&mut self, now: Instant, id: SocketId, max: usize) -> Result<Option<Received>, Error> {
        self.sctp_recv_with(now, id, |assoc, cx| assoc.recv(cx, max))
    }

    /// As [`Stack::sctp_recv`], one piece of a message as it came in its packet: nothing is copied.
    ///
    /// # Errors
    /// Those of [`Assoc::recv`].
    pub fn sctp_recv_piece(&mut self, now: Instant, id: SocketId) -> Result<Option<Received>, Error> {
        self.sctp_recv_with(now, id, Assoc::recv_piece)
    }

    /// Reads; something follows only from an end, or where the window has opened so far that the peer must hear of it.
    fn sctp_recv_with(
        &mut self,
        now: Instant,
        id: SocketId,
        read: impl FnOnce(&mut Assoc, &mut Cx<'_>) -> Result<Option<Received>, Error>,
    ) -> Result<Option<Received>, Error> {
        self.with_assoc_unless(now, id, |assoc, cx, _| {
            let owed = assoc.owes_sack();
            let result = read(assoc, cx);
            let quiet = matches!(result, Ok(Some(_)) | Err(Error::WouldBlock));
            (result, quiet && assoc.owes_sack() == owed)
        })
    }

    /// Shows all that can be read to `see`, up to the next notification: each piece of a message as it lies in its packet, what came
    /// with the message, and whether it ends with this piece; how many bytes. 0 tells no more than that [`Stack::sctp_recv`] is to
    /// be asked. For those who drive the stack themselves: nothing is copied, and no references are counted.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn sctp_read(
        &mut self,
        now: Instant,
        id: SocketId,
        mut see: impl FnMut(&[u8], &RecvInfo, bool),
    ) -> Result<usize, Error> {
        self.with_assoc_unless(now, id, |assoc, cx, _| {
            let owed = assoc.owes_sack();
            let read = assoc.read(cx, &mut see);
            (Ok(read), assoc.owes_sack() == owed)
        })
    }

    /// A message can be queued for this stream, by the half rule; or the association is over. Who sees "no" will be told.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn sctp_poll_stream(&mut self, now: Instant, id: SocketId, stream: u16) -> Result<bool, Error> {
        self.with_assoc(now, id, |assoc, cx| Ok(assoc.poll_stream(cx, stream)))
    }

    /// Closes in good order, keeping the socket: what was queued is sent, then SHUTDOWN.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn sctp_shutdown(&mut self, now: Instant, id: SocketId) -> Result<(), Error> {
        self.with_assoc(now, id, |assoc, cx| {
            assoc.close(cx);
            Ok(())
        })
    }

    /// Reads nothing more but what can be read now (SHUT_RD): what comes is acknowledged and forgotten.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn sctp_stop_reading(&mut self, now: Instant, id: SocketId) -> Result<(), Error> {
        self.with_assoc(now, id, |assoc, cx| {
            assoc.stop_reading(cx);
            Ok(())
        })
    }

    /// Aborts with a reason, keeping the socket.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn sctp_abort(&mut self, now: Instant, id: SocketId, reason: &[u8]) -> Result<(), Error> {
        self.with_assoc(now, id, |assoc, cx| {
            assoc.user_abort(cx, reason);
            Ok(())
        })
    }

    /// Has the numbers of messages begin anew in these streams, or in all if there are none: of those that we send on, of those that
    /// the peer does, or of both. The answer is a notification.
    ///
    /// # Errors
    /// Those of [`Assoc::reset_streams`].
    pub fn sctp_reset_streams(
        &mut self,
        now: Instant,
        id: SocketId,
        streams: &[u16],
        (outgoing, incoming): (bool, bool),
    ) -> Result<(), Error> {
        self.with_assoc(now, id, |assoc, _| assoc.reset_streams(streams, outgoing, incoming))
    }

    /// Has all numbers of an association begin anew, TSNs too. The answer is a notification.
    ///
    /// # Errors
    /// Those of [`Assoc::reset_association`].
    pub fn sctp_reset_association(&mut self, now: Instant, id: SocketId) -> Result<(), Error> {
        self.with_assoc(now, id, |assoc, _| assoc.reset_association())
    }

    /// Adds streams that we send on, and such that the peer does. The answer is a notification.
    ///
    /// # Errors
    /// Those of [`Assoc::add_streams`].
    pub fn sctp_add_streams(
        &mut self,
        now: Instant,
        id: SocketId,
        outgoing: u16,
        incoming: u16,
    ) -> Result<(), Error> {
        self.with_assoc(now, id, |assoc, _| assoc.add_streams(outgoing, incoming))
    }

    /// A snapshot of an association and its paths.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn sctp_info(&self, id: SocketId) -> Result<AssocInfo, Error> {
        self.assoc(id).map(Assoc::info)
    }

    /// How many streams we and the peer send on: what is asked for each message, so nothing is collected.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn sctp_streams(&self, id: SocketId) -> Result<(u16, u16), Error> {
        self.assoc(id).map(Assoc::streams)
    }

    /// What an association has sent and received, where its options ask for counts; the longest timeout is looked for anew from here on.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn sctp_take_counts(&mut self, id: SocketId) -> Result<Option<AssocCounts>, Error> {
        match &mut self.sockets.get_mut(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Sctp(sctp) => Ok(sctp.assoc.take_counts()),
            _ => Err(Error::Unsupported),
        }
    }

    /// Messages of an association that were given up, of all streams or of one.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn sctp_abandoned(&self, id: SocketId, stream: Option<u16>) -> Result<AbandonedCounts, Error> {
        Ok(self.assoc(id)?.abandoned(stream))
    }

    /// The state of an association.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn sctp_state(&self, id: SocketId) -> Result<State, Error> {
        self.assoc(id).map(Assoc::state)
    }

    /// What ended an association that is over, if that was no shutdown. It stays, however often errors are taken.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn sctp_cause(&self, id: SocketId) -> Result<Option<Error>, Error> {
        self.assoc(id).map(Assoc::cause)
    }

    /// A message or a notification waits to be read; an end or an error is none.
    #[must_use]
    pub fn sctp_has_input(&self, id: SocketId) -> bool {
        self.assoc(id).is_ok_and(Assoc::has_input)
    }

    /// When what is read next of an association could be read first, as a number that is less than those of all that came to others
    /// later; none where nothing can be read. Only what came while [`SctpOptions::arrivals`] asked for that has one, all else 0.
    #[must_use]
    pub fn sctp_arrival(&self, id: SocketId) -> Option<u64> {
        let Socket::Sctp(sctp) = &self.sockets.get(id)?.socket else { return None };
        match &sctp.arrivals {
            Some(arrivals) => arrivals.first(),
            None => sctp.assoc.has_input().then_some(0),
        }
    }

    /// A message of which some was read, the TSN of its first fragment `tsn`, was not read to its end: more of it waits, or will come.
    #[must_use]
    pub fn sctp_is_inside(&self, id: SocketId, tsn: u32) -> bool {
        self.assoc(id).is_ok_and(|assoc| assoc.is_inside(tsn))
    }

    /// The associations of our port with this address of a peer.
    #[must_use]
    pub fn sctp_with(&self, local_port: u16, peer: SocketAddr) -> &[SocketId] {
        self.demux.sctp.flows(local_port, peer)
    }

    /// The options of one path.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the peer has no such address, [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn sctp_path_options(&self, id: SocketId, remote: IpAddr) -> Result<PathOptions, Error> {
        let paths = self.assoc(id)?.paths();
        paths.find(remote).map(|path| paths.get(path).options).ok_or(Error::Invalid)
    }

    /// The options of an association, or those that a listener hands on.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn sctp_options(&self, id: SocketId) -> Result<&SctpOptions, Error> {
        match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Sctp(sctp) => Ok(sctp.assoc.options()),
            Socket::SctpListener(l) => Ok(&l.options),
            _ => Err(Error::Unsupported),
        }
    }

    /// Changes the options of an association, or those that a listener hands on.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn sctp_set_options(
        &mut self,
        now: Instant,
        id: SocketId,
        options: SctpOptions,
    ) -> Result<(), Error> {
        self.enter(now);
        match &mut self.sockets.get_mut(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Sctp(sctp) => sctp.assoc.set_options(&mut self.env.cx(self.now, Some(id)), options),
            Socket::SctpListener(l) => l.options = options,
            _ => return Err(Error::Unsupported),
        }
        self.settle_sctp(id, Turn::APP);
        Ok(())
    }

    /// Changes one path of an association; a changed heartbeat interval takes effect at once.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the peer has no such address.
    pub fn sctp_set_path(
        &mut self,
        now: Instant,
        id: SocketId,
        remote: IpAddr,
        options: PathOptions,
    ) -> Result<(), Error> {
        self.with_assoc(now, id, |assoc, cx| assoc.set_path_options(cx, remote, options))
    }

    /// The peer's UDP port at one of its addresses, or at all of them and those to come; 0 for packets without UDP (RFC 6951
    /// section 6.1). Only where the stack has such a port itself (`sctp.udp_port`) does it count. Of a listener it has no meaning:
    /// what a peer's packets show decides.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the peer has no such address.
    pub fn sctp_set_encap_port(
        &mut self,
        now: Instant,
        id: SocketId,
        remote: Option<IpAddr>,
        port: u16,
    ) -> Result<(), Error> {
        let port = if self.env.sysctl.sctp_udp_port == 0 { 0 } else { port };
        self.with_assoc(now, id, |assoc, _| assoc.set_encap_port(remote, port))
    }

    /// Makes an address of the peer's the primary one.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the peer has no such address, or it was not confirmed.
    pub fn sctp_set_primary(&mut self, now: Instant, id: SocketId, remote: IpAddr) -> Result<(), Error> {
        self.with_assoc(now, id, |assoc, _| assoc.set_primary(remote))
    }

    /// Asks an address of the peer's for an answer now.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the peer has no such address.
    pub fn sctp_heartbeat(&mut self, now: Instant, id: SocketId, remote: IpAddr) -> Result<(), Error> {
        self.with_assoc(now, id, |assoc, _| assoc.request_heartbeat(remote))
    }

    /// All addresses of our side (SCTP_GET_LOCAL_ADDRS), and of the peer's (SCTP_GET_PEER_ADDRS), each with its port.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn sctp_addrs(&self, id: SocketId) -> Result<(Vec<SocketAddr>, Vec<SocketAddr>), Error> {
        if let Socket::SctpListener(l) = &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            return Ok((l.ips.iter().map(|ip| SocketAddr::new(*ip, l.port)).collect(), Vec::new()));
        }
        let assoc = self.assoc(id)?;
        let (ours, theirs) = assoc.ports();
        let locals = assoc.locals().iter().map(|ip| SocketAddr::new(*ip, ours)).collect();
        let remotes = assoc.paths().iter().map(|(_, p)| SocketAddr::new(p.remote, theirs)).collect();
        Ok((locals, remotes))
    }
}
