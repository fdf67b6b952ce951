//! An SCTP packet on its way up: checksum, then the listener's half of a handshake, an association, or out of the blue.
use crate::base::{Carrier, DropWhy, SocketId, Tuple};
use crate::ip::Ingress;
use crate::packet::{Csum, GsoKind};
use crate::sctp::handshake::cookie::{Bad, Ticket};
use crate::sctp::handshake::init::{Addresses, Refusal, named_addresses};
use crate::sctp::handshake::restart::{Action, action};
use crate::sctp::{
    Answer, Assoc, Inbound, Known, Local, SctpOptions, State, blue, new_addresses, on_cookie_echo, on_init,
};
use crate::socket::{Holder, Socket, Turn};
use crate::stack::Stack;
use core::net::{IpAddr, SocketAddr};
use lowwater_wire::sctp::{
    CHECKSUM_OFFSET, Cause, Checksum, Chunk, Chunks, HEADER_LEN, Init, SctpView, chunk_kind, fill_checksum,
};
use lowwater_wire::udp::HEADER_LEN as UDP_HEADER_LEN;

/// Why nobody answers an INIT or a cookie.
enum NoSide {
    /// Nobody listens.
    Nobody,
    /// The backlog is full (RFC 9260 section 3.3.10.4).
    Full,
}

/// A packet with its flow.
pub(super) struct Arrived<'a> {
    pub(super) tuple: Tuple,
    pub(super) inbound: Inbound<'a>,
    pub(super) carrier: Carrier,
}

/// Where an SCTP packet begins in what IP delivered.
pub(super) struct Behind {
    /// Bytes of the UDP header in front of it.
    pub(super) skip: usize,
    /// Its length.
    pub(super) len: usize,
    /// The UDP port that it came from; 0 without UDP.
    pub(super) encap: u16,
    /// Somebody whom we trust has checked its CRC32c.
    pub(super) checked: bool,
}

impl Stack {
    /// SCTP over IP.
    pub(in crate::stack) fn sctp_ip_input(&mut self, ingress: &Ingress) {
        if ingress.packet.offload.gso == GsoKind::Sctp {
            return self.sctp_train(ingress);
        }
        let checked = ingress.packet.offload.csum == Csum::Valid;
        self.sctp_input(ingress, &Behind { skip: 0, len: ingress.l4_len(), encap: 0, checked });
    }

    /// SCTP in a UDP datagram of `len` bytes from port `port`, whose checksum is good or was left out (RFC 6951 section 4.4).
    pub(in crate::stack) fn sctp_udp_input(&mut self, ingress: &Ingress, port: u16, len: usize) {
        let len = len - UDP_HEADER_LEN;
        self.sctp_input(ingress, &Behind { skip: UDP_HEADER_LEN, len, encap: port, checked: false });
    }

    fn sctp_input(&mut self, ingress: &Ingress, behind: &Behind) {
        let l4 = ingress.l4().get(behind.skip..).unwrap_or_default();
        let chunks = ingress.payload_bytes(behind.skip + HEADER_LEN);
        let chunks = &chunks[..chunks.len().min(behind.len.saturating_sub(HEADER_LEN))];
        if let Some(arrived) = self.sctp_arrived(ingress, behind, &l4[..l4.len().min(behind.len)], chunks) {
            self.sctp_packet(&arrived);
        }
    }

    /// A packet with its flow, if it is a good one. `l4` has its common header at least.
    pub(super) fn sctp_arrived<'a>(
        &mut self,
        ingress: &'a Ingress,
        behind: &Behind,
        l4: &[u8],
        chunks: &'a [u8],
    ) -> Option<Arrived<'a>> {
        self.env.count.sctp.in_sctp_packs += 1;
        match self.sctp_check(ingress, behind, l4, chunks) {
            Ok(arrived) => {
                self.sctp_record_in(&arrived);
                Some(arrived)
            }
            Err(why) => {
                self.sctp_discard(why);
                None
            }
        }
    }

    fn sctp_check<'a>(
        &mut self,
        ingress: &'a Ingress,
        behind: &Behind,
        l4: &[u8],
        chunks: &'a [u8],
    ) -> Result<Arrived<'a>, DropWhy> {
        // Rule 1 of section 8.4: what is not for one host is nobody's. Port 0 cannot be answered.
        if ingress.to_group || (behind.skip > 0 && behind.encap == 0) {
            return Err(DropWhy::NotForUs);
        }
        let view = SctpView::parse(l4).map_err(|_| DropWhy::Malformed)?;
        // Port 0 is nobody's (section 3.1).
        if view.src_port() == 0 || view.dst_port() == 0 {
            return Err(DropWhy::NotForUs);
        }
        let tuple = Tuple {
            local_ip: ingress.dst,
            remote_ip: ingress.src,
            local_port: view.dst_port(),
            remote_port: view.src_port(),
        };
        let carrier = self.carrier(ingress.device);
        let omitted = carrier.detects_errors() && self.may_omit_crc(&tuple, &view, chunks);
        if !behind.checked && !omitted && !checksum_ok(&view, chunks) {
            self.env.count.sctp.checksum_errors += 1;
            return Err(DropWhy::Checksum);
        }
        let (ce, vtag, encap) = (ingress.ecn() == 3, view.vtag(), behind.encap);
        let (from, to, buffer) = (ingress.src, ingress.dst, &ingress.packet.payload);
        let inbound = Inbound { from, to, vtag, chunks, buffer, ce, encap };
        Ok(Arrived { tuple, inbound, carrier })
    }

    /// The packet has no CRC32c and is of an association that has offered to do without. INIT, COOKIE ECHO and packets out of the blue
    /// must have one (RFC 9653 section 5.3).
    fn may_omit_crc(&self, tuple: &Tuple, view: &SctpView<'_>, chunks: &[u8]) -> bool {
        view.bytes()[CHECKSUM_OFFSET..HEADER_LEN] == [0; HEADER_LEN - CHECKSUM_OFFSET]
            && !matches!(chunks.first(), Some(&(chunk_kind::INIT | chunk_kind::COOKIE_ECHO)))
            && self.sctp_flow(tuple.local(), tuple.remote()).is_some()
    }

    fn sctp_discard(&mut self, why: DropWhy) {
        self.env.count.sctp.in_pkt_discards += 1;
        self.env.count.dropped(why);
    }

    pub(super) fn sctp_packet(&mut self, arrived: &Arrived<'_>) {
        let flow = self.sctp_flow(arrived.tuple.local(), arrived.tuple.remote());
        let mut all = Chunks::new(arrived.inbound.chunks);
        let Some(Ok(first)) = all.next() else { return self.sctp_discard(DropWhy::Malformed) };
        if first.kind() == chunk_kind::INIT_ACK {
            let init = match Chunk::parse(&first) {
                Ok(Chunk::InitAck(init)) => Some(init),
                _ => None,
            };
            return self.sctp_init_ack(arrived, flow, init.as_ref(), all.next().is_none());
        }
        match Chunk::parse(&first) {
            Ok(Chunk::Init(init)) => {
                // Alone in its packet (section 8.5.1 A); a tag of zero inside is nobody's (section 3.3.2).
                let good = init.initiate_tag != 0 && all.next().is_none();
                match (good, arrived.inbound.vtag, flow) {
                    (true, 0, _) => self.sctp_init(arrived, &init),
                    // No association's either, whoever listens (section 8.4, rule 8).
                    (true, _, None) => self.sctp_blue(arrived),
                    _ => self.sctp_discard(DropWhy::SctpTag),
                }
            }
            Ok(Chunk::CookieEcho(cookie)) => self.sctp_cookie(arrived, cookie),
            _ => match flow {
                Some(id) => self.sctp_assoc(id, arrived),
                None => self.sctp_blue(arrived),
            },
        }
    }

    /// An INIT ACK, `None` for one that cannot be read. It may come from an address that only itself names (section 5.1.2 D).
    fn sctp_init_ack(
        &mut self,
        arrived: &Arrived<'_>,
        flow: Option<SocketId>,
        init: Option<&Init<'_>>,
        alone: bool,
    ) {
        let Some(id) = flow.or_else(|| self.sctp_opener(&arrived.tuple, init?)) else {
            return self.sctp_blue(arrived);
        };
        // Section 6.10.
        if !alone {
            return self.sctp_discard(DropWhy::Malformed);
        }
        let Some(Socket::Sctp(sctp)) = self.sockets.get_mut(id).map(|e| &mut e.socket) else { return };
        match sctp.assoc.on_init_ack(&mut self.env.cx(self.now, Some(id)), &arrived.inbound, init) {
            Ok(None) => {}
            Ok(Some(answer)) => self.send_sctp_control(arrived, &answer),
            Err(why) => self.sctp_discard(why),
        }
        self.settle_sctp(id, Turn::INPUT);
    }

    /// Who waits for an INIT ACK from one of the addresses that this one names; its tag will show whether it is his.
    fn sctp_opener(&self, tuple: &Tuple, init: &Init<'_>) -> Option<SocketId> {
        let opens = |id: &SocketId| self.assoc(*id).is_ok_and(|assoc| assoc.state() == State::CookieWait);
        named_addresses(init)
            .filter_map(|ip| self.sctp_flow(tuple.local(), SocketAddr::new(ip, tuple.remote_port)))
            .find(opens)
    }

    /// A packet of an association that exists.
    fn sctp_assoc(&mut self, id: SocketId, arrived: &Arrived<'_>) {
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let Socket::Sctp(sctp) = &mut entry.socket else { return };
        let opening = sctp.assoc.state().is_opening();
        // Section 8.5.1 E: who sends SHUTDOWN ACK has an older association than this one, which is not there any more.
        let mut kinds = Chunks::new(arrived.inbound.chunks).map_while(Result::ok).map(|raw| raw.kind());
        if opening && kinds.any(|kind| kind == chunk_kind::SHUTDOWN_ACK) {
            return self.sctp_blue(arrived);
        }
        if self.sctp_take(id, arrived)
            && let Some(Socket::Sctp(sctp)) = self.sockets.get_mut(id).map(|e| &mut e.socket)
            && let Some(ack) = sctp.assoc.output_sack(&mut self.env.cx(self.now, Some(id)))
        {
            self.send_sctp(id, ack);
        }
        self.settle_sctp(id, Turn::INPUT);
    }

    /// Hands it the packet; false when that was not for it.
    pub(super) fn sctp_take(&mut self, id: SocketId, arrived: &Arrived<'_>) -> bool {
        let Some(Socket::Sctp(sctp)) = self.sockets.get_mut(id).map(|e| &mut e.socket) else { return false };
        let cx = &mut self.env.cx(self.now, Some(id));
        let taken = sctp.assoc.input(cx, &arrived.inbound);
        // What is acknowledged for the first time has come there, DATA and HEARTBEAT alike (RFC 4861 section 7.3.1;
        // `sctp_transport_dst_confirm`).
        let paths = sctp.assoc.paths().len();
        for path in sctp.assoc.take_heard() {
            // Paths that have come or gone with the packet have other places than their routes still have.
            if let Some(Some(way)) = sctp.routes.get(usize::from(path)).filter(|_| sctp.routes.len() == paths)
            {
                self.ip.confirm_neighbour(cx, &way.dst);
            }
        }
        taken.map_err(|why| self.sctp_discard(why)).is_ok()
    }

    /// No association has this packet (section 8.4).
    fn sctp_blue(&mut self, arrived: &Arrived<'_>) {
        self.env.count.sctp.out_of_blues += 1;
        self.sctp_discard(DropWhy::SctpBlue);
        let chunks = arrived.inbound.buffer.slice_ref(arrived.inbound.chunks);
        if let Some(answer) = blue::respond(arrived.inbound.vtag, &chunks) {
            self.send_sctp_control(arrived, &answer);
        }
    }

    /// The options by which an INIT or a cookie is answered: the association's that there is, or the listener's.
    fn sctp_side(
        &self,
        known: Option<SocketId>,
        local: SocketAddr,
        carrier: Carrier,
    ) -> Result<(Addresses, SctpOptions), NoSide> {
        if let Some(Socket::Sctp(sctp)) = known.and_then(|id| self.sockets.get(id)).map(|e| &e.socket) {
            return Ok((sctp.assoc.locals().into(), sctp.assoc.options().clone()));
        }
        let listener = self.demux.sctp.listener(local).and_then(|id| self.sockets.get(id));
        let Some(Socket::SctpListener(l)) = listener.map(|e| &e.socket) else { return Err(NoSide::Nobody) };
        if l.is_full() {
            return Err(NoSide::Full);
        }
        Ok((self.sctp_locals(&l.ips, local.ip(), carrier), l.options.clone()))
    }

    /// A listener takes no more, and says so to the peer with this tag.
    fn sctp_full(&mut self, arrived: &Arrived<'_>, tag: u32) {
        self.env.count.sctp.out_of_blues += 1;
        self.sctp_discard(DropWhy::SctpBlue);
        if tag != 0 {
            let Refusal(cause) = Refusal::new(&Cause::OutOfResource);
            self.send_sctp_control(arrived, &blue::refuse(tag, &cause));
        }
    }

    /// The association of the peer who opens one with these addresses, the first one his packet's. What another peer has only named
    /// captures nobody's INIT (RFC 5062 section 2).
    fn sctp_peer(&self, local: SocketAddr, port: u16, addresses: &[IpAddr]) -> Option<SocketId> {
        addresses.iter().find_map(|ip| {
            let id = self.sctp_flow(local, SocketAddr::new(*ip, port))?;
            self.assoc(id).is_ok_and(|assoc| assoc.has_confirmed(*ip)).then_some(id)
        })
    }

    fn sctp_init(&mut self, arrived: &Arrived<'_>, init: &Init<'_>) {
        let tuple = &arrived.tuple;
        let addresses: Addresses = core::iter::once(tuple.remote_ip).chain(named_addresses(init)).collect();
        let flow = self.sctp_peer(tuple.local(), tuple.remote_port, &addresses);
        let (locals, options) = match self.sctp_side(flow, tuple.local(), arrived.carrier) {
            Ok(side) => side,
            Err(NoSide::Nobody) => return self.sctp_blue(arrived),
            Err(NoSide::Full) => return self.sctp_full(arrived, init.initiate_tag),
        };
        let assoc = flow.and_then(|id| match &self.sockets.get(id)?.socket {
            Socket::Sctp(sctp) => Some(&sctp.assoc),
            _ => None,
        });
        let known = Known {
            ports: (tuple.local_port, tuple.remote_port),
            ips: (tuple.local_ip, tuple.remote_ip),
            encap: arrived.inbound.encap,
            assoc,
        };
        self.openers.sctp.renew(self.now);
        let (keys, carrier) = (&self.openers.sctp, arrived.carrier);
        let local = Local { keys, locals: &locals, options: &options, carrier };
        match on_init(&mut self.env.cx(self.now, None), &local, &known, init) {
            Answer::Reply(answer) => {
                let remote_ip =
                    self.init_ack_goes_to(flow, tuple.remote_ip, &addresses).unwrap_or(tuple.remote_ip);
                let arrived = Arrived { tuple: Tuple { remote_ip, ..*tuple }, ..*arrived };
                self.send_sctp_control(&arrived, &answer);
            }
            Answer::Shutdown => {
                let Some(id) = flow else { return };
                if let Some(Socket::Sctp(sctp)) = self.sockets.get_mut(id).map(|e| &mut e.socket) {
                    sctp.assoc.repeat_shutdown_ack();
                }
                self.settle_sctp(id, Turn::INPUT);
            }
        }
    }

    /// Where the answer to an INIT goes that crosses our own: to the first of the addresses that it reports, its source before the
    /// others, that the application has named too (section 5.2.1). It leaves from the address that the INIT came to, so that its family counts.
    fn init_ack_goes_to(
        &self,
        flow: Option<SocketId>,
        source: IpAddr,
        reported: &[IpAddr],
    ) -> Option<IpAddr> {
        let assoc = self.assoc(flow?).ok().filter(|assoc| assoc.state() == State::CookieWait)?;
        let fits = |ip: &IpAddr| ip.is_ipv4() == source.is_ipv4() && assoc.has_confirmed(*ip);
        reported.iter().copied().find(fits)
    }

    fn sctp_cookie(&mut self, arrived: &Arrived<'_>, cookie: &[u8]) {
        let (tuple, vtag) = (&arrived.tuple, arrived.inbound.vtag);
        let ports = (tuple.local_port, tuple.remote_port);
        self.openers.sctp.renew(self.now);
        let Ok(ticket) = on_cookie_echo(&self.openers.sctp, ports, vtag, cookie) else {
            return self.sctp_discard(DropWhy::SctpCookie);
        };
        let from = core::iter::once(tuple.remote_ip);
        let addresses: Addresses = from.chain(ticket.addresses.iter().copied()).collect();
        let known = self.sctp_peer(tuple.local(), ports.1, &addresses);
        let what = known.and_then(|id| match &self.sockets.get(id)?.socket {
            Socket::Sctp(sctp) => Some((id, action(&sctp.assoc.known_tags(), &ticket))),
            _ => None,
        });
        // A stale cookie that only repeats what is agreed on does no harm (section 5.2.4).
        if !matches!(what, Some((_, Action::Known)))
            && let Err(Bad::Stale(late)) = ticket.check(self.now)
        {
            let late_us = u32::try_from(late.as_micros()).unwrap_or(u32::MAX);
            return self.send_sctp_control(arrived, &blue::stale_cookie(ticket.tags.1, late_us));
        }
        match what {
            // A copy that was under way for longer than its association lived: who waits for the answer hears that it is over.
            None if self.openers.used.has(&ticket) => {
                self.sctp_discard(DropWhy::SctpCookie);
                self.send_sctp_control(arrived, &blue::refuse(ticket.tags.1, &[]));
            }
            None => self.sctp_open(arrived, &ticket),
            Some((id, what)) => self.sctp_again(id, what, arrived, &ticket),
        }
    }

    /// A good cookie and no association: here it is.
    fn sctp_open(&mut self, arrived: &Arrived<'_>, ticket: &Ticket) {
        let local = SocketAddr::new(ticket.local, ticket.ports.0);
        let (locals, mut options) = match self.sctp_side(None, local, arrived.carrier) {
            Ok(side) => side,
            Err(NoSide::Full) => return self.sctp_full(arrived, ticket.tags.1),
            Err(NoSide::Nobody) => {
                self.env.count.sctp.out_of_blues += 1;
                return self.send_sctp_control(arrived, &blue::refuse(ticket.tags.1, &[]));
            }
        };
        let Some(listener) = self.demux.sctp.listener(local) else { return };
        // What the peer uses on one path it uses on all of them, until their packets show otherwise.
        options.encap_port = arrived.inbound.encap;
        let assoc = Assoc::accept(&mut self.env.cx(self.now, None), ticket, locals, arrived.carrier, options);
        let id = self.insert_assoc(assoc, Holder::Backlog);
        self.openers.used.note(self.now, ticket);
        self.sctp_behind(id, arrived);
        if let Some(entry) = self.sockets.get_mut(listener)
            && let Socket::SctpListener(l) = &mut entry.socket
        {
            l.accept.push_back(id);
            self.events.push_accepted(&mut entry.pending, listener);
        }
        self.settle_sctp(id, Turn::INPUT);
    }

    /// A good cookie for an association that there is (section 5.2.4).
    fn sctp_again(&mut self, id: SocketId, what: Action, arrived: &Arrived<'_>, ticket: &Ticket) {
        let Some(Socket::Sctp(sctp)) = self.sockets.get_mut(id).map(|e| &mut e.socket) else { return };
        let mut cx = self.env.cx(self.now, Some(id));
        match what {
            Action::Discard => return self.sctp_discard(DropWhy::SctpCookie),
            Action::Known | Action::Collision => {
                if !sctp.assoc.on_own_cookie(&mut cx, ticket, what == Action::Collision) {
                    return self.sctp_discard(DropWhy::SctpCookie);
                }
            }
            Action::Restart if sctp.assoc.state() == State::ShutdownAckSent => {
                sctp.assoc.on_cookie_in_shutdown();
                return self.settle_sctp(id, Turn::INPUT);
            }
            Action::Restart => {
                if let Some(causes) = new_addresses(&sctp.assoc, &ticket.addresses) {
                    let refusal = blue::refuse(ticket.tags.1, &causes);
                    return self.send_sctp_control(arrived, &refusal);
                }
                sctp.assoc.on_restart(&mut cx, ticket);
            }
        }
        self.openers.used.note(self.now, ticket);
        self.sctp_behind(id, arrived);
        self.settle_sctp(id, Turn::INPUT);
    }

    /// What follows COOKIE ECHO in its packet.
    fn sctp_behind(&mut self, id: SocketId, arrived: &Arrived<'_>) {
        let Some(Socket::Sctp(sctp)) = self.sockets.get_mut(id).map(|e| &mut e.socket) else { return };
        sctp.assoc.input_behind(&mut self.env.cx(self.now, Some(id)), &arrived.inbound);
    }
}

/// The CRC32c is right. A packet from a link in memory has its common header apart from its chunks.
fn checksum_ok(view: &SctpView<'_>, chunks: &[u8]) -> bool {
    if view.bytes().len() == HEADER_LEN && !chunks.is_empty() {
        let mut head = [0; HEADER_LEN];
        head.copy_from_slice(view.bytes());
        fill_checksum(&mut head, &[chunks]);
        return head == *view.bytes();
    }
    view.verify() == Checksum::Good
}
