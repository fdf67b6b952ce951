//! An SCTP packet on its way up: checksum, then the listener's half of a handshake, an association, or out of the blue.
use crate::base::{DropWhy, SocketId, Tuple};
use crate::ip::Ingress;
use crate::packet::Csum;
use crate::sctp::handshake::cookie::{Bad, Ticket};
use crate::sctp::handshake::init::Addresses;
use crate::sctp::handshake::restart::{Action, action};
use crate::sctp::{
    Answer, Assoc, Inbound, Known, Local, SctpOptions, State, blue, new_addresses, on_cookie_echo, on_init,
};
use crate::socket::{Holder, Socket, Turn};
use crate::stack::Stack;
use core::net::SocketAddr;
use lowwater_wire::sctp::{Checksum, Chunk, Chunks, HEADER_LEN, Init, RawChunk, SctpView, fill_checksum};

/// A packet with its flow.
struct Arrived {
    tuple: Tuple,
    inbound: Inbound,
}

impl Stack {
    pub(in crate::stack) fn sctp_input(&mut self, ingress: &Ingress) {
        self.env.count.sctp.in_sctp_packs += 1;
        // Rule 1 of section 8.4: what is not for one host is nobody's.
        if ingress.to_group {
            return self.sctp_discard(DropWhy::NotForUs);
        }
        let Ok(view) = SctpView::parse(ingress.l4()) else { return self.sctp_discard(DropWhy::Malformed) };
        let chunks = ingress.payload(HEADER_LEN);
        if !checksum_ok(ingress, &view, &chunks) {
            self.env.count.sctp.checksum_errors += 1;
            return self.sctp_discard(DropWhy::Checksum);
        }
        let tuple = Tuple {
            local_ip: ingress.dst,
            remote_ip: ingress.src,
            local_port: view.dst_port(),
            remote_port: view.src_port(),
        };
        let ce = ingress.ecn() == 3;
        let inbound = Inbound { from: ingress.src, to: ingress.dst, vtag: view.vtag(), chunks, ce };
        self.sctp_packet(&Arrived { tuple, inbound });
    }

    fn sctp_discard(&mut self, why: DropWhy) {
        self.env.count.sctp.in_pkt_discards += 1;
        self.env.count.dropped(why);
    }

    fn sctp_packet(&mut self, arrived: &Arrived) {
        let flow = self.demux.sctp.flow(arrived.tuple.local_port, arrived.tuple.remote());
        let chunks = arrived.inbound.chunks.clone();
        let mut all = Chunks::new(&chunks);
        let Some(Ok(first)) = all.next() else { return self.sctp_discard(DropWhy::Malformed) };
        match Chunk::parse(&first) {
            // Alone in its packet, without a tag (section 8.5.1 A).
            Ok(Chunk::Init(init)) => {
                // A tag of zero inside is nobody's (section 3.3.2).
                if arrived.inbound.vtag == 0 && init.initiate_tag != 0 && all.next().is_none() {
                    self.sctp_init(flow, arrived, &init);
                } else {
                    self.sctp_discard(DropWhy::SctpTag);
                }
            }
            Ok(Chunk::CookieEcho(cookie)) => self.sctp_cookie(flow, arrived, cookie),
            _ => match flow {
                Some(id) => self.sctp_assoc(id, arrived, &first),
                None => self.sctp_blue(arrived),
            },
        }
    }

    /// A packet of an association that exists.
    fn sctp_assoc(&mut self, id: SocketId, arrived: &Arrived, first: &RawChunk<'_>) {
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let Socket::Sctp(sctp) = &mut entry.socket else { return };
        let opening = matches!(sctp.assoc.state(), State::CookieWait | State::CookieEchoed);
        // Section 8.5.1 E: who sends SHUTDOWN ACK has an older association than this one, which is not there any more.
        if opening && matches!(Chunk::parse(first), Ok(Chunk::ShutdownAck)) {
            return self.sctp_blue(arrived);
        }
        let mut cx = self.env.cx(self.now, Some(id));
        if let Err(why) = sctp.assoc.input(&mut cx, &arrived.inbound) {
            return self.sctp_discard(why);
        }
        if let Some(out) = sctp.assoc.output_sack(&mut cx) {
            self.send_sctp(id, out);
        }
        self.settle_sctp(id, Turn::INPUT);
    }

    /// No association has this packet (section 8.4).
    fn sctp_blue(&mut self, arrived: &Arrived) {
        self.env.count.sctp.out_of_blues += 1;
        self.sctp_discard(DropWhy::SctpBlue);
        if let Some(answer) = blue::respond(arrived.inbound.vtag, &arrived.inbound.chunks) {
            self.send_sctp_control(&arrived.tuple, &answer);
        }
    }

    /// The options by which an INIT or a cookie is answered: the association's that there is, or the listener's. `None` where
    /// nobody listens, or the backlog is full.
    fn sctp_side(&self, known: Option<SocketId>, local: SocketAddr) -> Option<(Addresses, SctpOptions)> {
        if let Some(Socket::Sctp(sctp)) = known.and_then(|id| self.sockets.get(id)).map(|e| &e.socket) {
            return Some((sctp.assoc.locals().into(), sctp.assoc.options().clone()));
        }
        let listener = self.demux.sctp.listener(local)?;
        let Socket::SctpListener(l) = &self.sockets.get(listener)?.socket else { return None };
        if l.is_full() {
            return None;
        }
        Some((self.sctp_locals(&l.ips, local.ip()), l.options.clone()))
    }

    fn sctp_init(&mut self, flow: Option<SocketId>, arrived: &Arrived, init: &Init<'_>) {
        let tuple = &arrived.tuple;
        let Some((locals, options)) = self.sctp_side(flow, tuple.local()) else {
            return self.sctp_blue(arrived);
        };
        let assoc = flow.and_then(|id| match &self.sockets.get(id)?.socket {
            Socket::Sctp(sctp) => Some(&sctp.assoc),
            _ => None,
        });
        let known = Known {
            ports: (tuple.local_port, tuple.remote_port),
            ips: (tuple.local_ip, tuple.remote_ip),
            assoc,
        };
        let local = Local { key: &self.openers.sctp, locals: &locals, options: &options };
        match on_init(&mut self.env.cx(self.now, None), &local, &known, init) {
            Answer::Reply(answer) => self.send_sctp_control(tuple, &answer),
            Answer::Shutdown => {
                let Some(id) = flow else { return };
                if let Some(Socket::Sctp(sctp)) = self.sockets.get_mut(id).map(|e| &mut e.socket) {
                    sctp.assoc.repeat_shutdown_ack();
                }
                self.settle_sctp(id, Turn::INPUT);
            }
        }
    }

    fn sctp_cookie(&mut self, flow: Option<SocketId>, arrived: &Arrived, cookie: &[u8]) {
        let (tuple, vtag) = (&arrived.tuple, arrived.inbound.vtag);
        let ports = (tuple.local_port, tuple.remote_port);
        let Ok(ticket) = on_cookie_echo(&self.openers.sctp, ports, vtag, cookie) else {
            return self.sctp_discard(DropWhy::SctpCookie);
        };
        let mut addresses = ticket.addresses.iter();
        let known = flow.or_else(|| {
            addresses.find_map(|ip| self.demux.sctp.flow(ports.0, SocketAddr::new(*ip, ports.1)))
        });
        let what = known.and_then(|id| match &self.sockets.get(id)?.socket {
            Socket::Sctp(sctp) => Some((id, action(&sctp.assoc.known_tags(), &ticket))),
            _ => None,
        });
        // A stale cookie that only repeats what is agreed on does no harm (section 5.2.4).
        if !matches!(what, Some((_, Action::Known)))
            && let Err(Bad::Stale(late)) = ticket.check(self.now)
        {
            let late_us = u32::try_from(late.as_micros()).unwrap_or(u32::MAX);
            return self.send_sctp_control(tuple, &blue::stale_cookie(ticket.tags.1, late_us));
        }
        match what {
            None => self.sctp_open(arrived, &ticket),
            Some((id, what)) => self.sctp_again(id, what, arrived, &ticket),
        }
    }

    /// A good cookie and no association: here it is.
    fn sctp_open(&mut self, arrived: &Arrived, ticket: &Ticket) {
        let local = SocketAddr::new(ticket.local, ticket.ports.0);
        let Some((locals, options)) = self.sctp_side(None, local) else {
            self.env.count.sctp.out_of_blues += 1;
            return self.send_sctp_control(&arrived.tuple, &blue::refuse(ticket.tags.1, &[]));
        };
        let Some(listener) = self.demux.sctp.listener(local) else { return };
        let Some(Socket::SctpListener(l)) = self.sockets.get(listener).map(|e| &e.socket) else { return };
        let bound = l.ips.iter().copied().collect();
        let assoc = Assoc::accept(&mut self.env.cx(self.now, None), ticket, locals, options);
        let id = self.insert_assoc(assoc, bound, Holder::Backlog);
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
    fn sctp_again(&mut self, id: SocketId, what: Action, arrived: &Arrived, ticket: &Ticket) {
        let Some(Socket::Sctp(sctp)) = self.sockets.get_mut(id).map(|e| &mut e.socket) else { return };
        let mut cx = self.env.cx(self.now, Some(id));
        match what {
            Action::Discard => return self.sctp_discard(DropWhy::SctpCookie),
            Action::Known => sctp.assoc.on_own_cookie(&mut cx, ticket, false),
            Action::Collision => sctp.assoc.on_own_cookie(&mut cx, ticket, true),
            Action::Restart if sctp.assoc.state() == State::ShutdownAckSent => {
                sctp.assoc.on_cookie_in_shutdown();
                return self.settle_sctp(id, Turn::INPUT);
            }
            Action::Restart => {
                if let Some(causes) = new_addresses(&sctp.assoc, &ticket.addresses) {
                    let refusal = blue::refuse(ticket.tags.1, &causes);
                    return self.send_sctp_control(&arrived.tuple, &refusal);
                }
                sctp.assoc.on_restart(&mut cx, ticket);
            }
        }
        self.sctp_behind(id, arrived);
        self.settle_sctp(id, Turn::INPUT);
    }

    /// What follows COOKIE ECHO in its packet.
    fn sctp_behind(&mut self, id: SocketId, arrived: &Arrived) {
        let Some(Socket::Sctp(sctp)) = self.sockets.get_mut(id).map(|e| &mut e.socket) else { return };
        sctp.assoc.input_behind(&mut self.env.cx(self.now, Some(id)), &arrived.inbound);
    }
}

/// The CRC32c is right. A packet from a link in memory has its common header apart from its chunks.
fn checksum_ok(ingress: &Ingress, view: &SctpView<'_>, chunks: &[u8]) -> bool {
    if ingress.packet.offload.csum == Csum::Valid {
        return true;
    }
    if view.bytes().len() == HEADER_LEN && !chunks.is_empty() {
        let mut head = [0; HEADER_LEN];
        head.copy_from_slice(view.bytes());
        fill_checksum(&mut head, &[chunks]);
        return head == *view.bytes();
    }
    view.verify() == Checksum::Good
}
