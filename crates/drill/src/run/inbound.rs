//! What the peer sends: lines of the script as packets.
use super::net::Whose;
use super::{Runner, seconds};
use crate::failure::Failure;
use crate::script::{
    BodySpec, EndsSpec, IcmpSpec, IpSpec, Marks, Numbered, PacketSpec, Quoted, TcpSpec, TosSpec,
};
use crate::wire::{Body, Handed, Icmp, Ip, Line, Quote, Shown, Tcp, Udp, Wire};
use core::net::SocketAddr;
use lowwater_posix::{Call, Started};
use lowwater_wire::protocol;

/// The peer's first port; what comes first to a listener comes from another.
pub(super) const REMOTE_PORT: u16 = 40_000;
/// TTL of what the peer sends when the line does not say.
const TTL: u8 = 255;

impl Runner<'_> {
    /// The peer sends a packet.
    pub(super) fn inbound(&mut self, line: usize, spec: &PacketSpec) -> Result<(), Box<Failure>> {
        let ends = spec.ends.map(|ends| self.ends(&ends));
        let (src, dst, body, shown) = match &spec.body {
            BodySpec::Tcp(tcp) => self.segment(line, tcp, spec.ends)?,
            BodySpec::Udp(len) => {
                let (src, dst) = ends.unwrap_or_else(|| self.datagram_ends());
                self.sniffed.datagram = Some((dst, src));
                let udp = Body::Udp(Udp { src_port: src.port(), dst_port: dst.port(), len: *len });
                (src, dst, udp.clone(), udp)
            }
            BodySpec::Icmp(icmp) => self.message(line, icmp, ends)?,
            BodySpec::Sctp(sctp) => self.association(line, sctp, spec.ends)?,
        };
        let ip = Ip {
            src: src.ip(),
            dst: dst.ip(),
            tos: spec.ip.tos.map_or(0, |tos| tos.byte()),
            // 0 says nothing, as in packetdrill.
            ttl: spec.ip.ttl.filter(|ttl| *ttl != 0).unwrap_or(TTL),
            flow_label: spec.ip.flow_label.unwrap_or_default(),
        };
        let live = Wire { at: self.host.now(), ip, body, handed: Handed::default() };
        let now = self.now();
        self.sniffed.came = Some(now);
        let bytes = live.write();
        let script = Wire { body: shown, ..live };
        let shown = Shown { window: true, ..Shown::of(&spec.ip) };
        self.sniffed.note(format!("{} < {}", seconds(now), Line(&script, shown)));
        self.host.inject(bytes);
        self.host.refused().map_or(Ok(()), |why| Err(Failure::new(line, why)))
    }

    /// The ends of a line, source first.
    pub(super) fn ends(&self, spec: &EndsSpec) -> (SocketAddr, SocketAddr) {
        let ends = &self.config.ends;
        let src = SocketAddr::new(spec.src.0.unwrap_or(ends.remote), spec.src.1);
        (src, SocketAddr::new(spec.dst.0.unwrap_or(ends.local), spec.dst.1))
    }

    fn segment(
        &mut self,
        line: usize,
        spec: &TcpSpec,
        ends: Option<EndsSpec>,
    ) -> Result<(SocketAddr, SocketAddr, Body, Body), Box<Failure>> {
        let named = ends.filter(|e| e.named).map(|e| self.ends(&e));
        let foreign = ends.filter(|e| !e.named);
        self.turn_to_named(line, spec, named)?;
        if self.flows.current().is_none() {
            // Without a line for our SYN (a simultaneous open), it still tells the flow's numbers.
            self.adopt();
            let Self { flows, sniffed, .. } = self;
            let syn = flows.current().and_then(|f| sniffed.waiting.iter().find(|p| f.owns(p)));
            flows.current().zip(syn).into_iter().for_each(|(flow, syn)| flow.learn(syn));
        }
        if self.flows.current().is_none() && self.out_of_the_blue() {
            self.flows.current().into_iter().for_each(|flow| flow.peer_begins(spec.seq));
        }
        let Some(flow) = self.flows.current() else {
            return Err(Failure::new(line, "no connection that this packet could belong to"));
        };
        // packetdrill's `5 > 6`: other ports around the numbers of the connection under test.
        let (mut remote, mut local) = (flow.remote, flow.local);
        if let Some(foreign) = foreign {
            remote.set_port(foreign.src.1);
            local.set_port(foreign.dst.1);
        }
        if spec.flags.syn() && spec.flags.ack() {
            flow.peer_begins(spec.seq);
        }
        let script = Tcp {
            src_port: remote.port(),
            dst_port: local.port(),
            seq: spec.seq,
            ack: spec.ack,
            flags: spec.flags,
            window: spec.window.unwrap_or_default(),
            urgent: spec.urgent,
            options: spec.options.clone().unwrap_or_default(),
            len: spec.len,
        };
        let mut live = flow
            .to_live(&script, self.config.judge.ts_ecr_scaled)
            .map_err(|what| Failure::new(line, what))?;
        if spec.numbered == Numbered::Wire {
            live.seq = spec.seq;
        }
        Ok((remote, local, Body::Tcp(live), Body::Tcp(script)))
    }

    /// Turns to the connection that a line names, or to the one that the first packet to a listener begins.
    fn turn_to_named(
        &mut self,
        line: usize,
        spec: &TcpSpec,
        ends: Option<(SocketAddr, SocketAddr)>,
    ) -> Result<(), Box<Failure>> {
        let too_many = || Failure::new(line, "too many connections for one script");
        if let Some((src, dst)) = ends {
            let flow = self.flows.turn_to(dst, src).ok_or_else(too_many)?;
            if spec.flags.syn() && !spec.flags.ack() {
                flow.peer_opens(spec.seq);
                // What a line with ends has begun is what lines without them speak of.
                self.flows.take_listener();
                self.fds.forget_latest();
            }
        } else if let Some(port) = self.flows.take_listener() {
            let from = REMOTE_PORT.wrapping_add(self.sniffed.children);
            self.sniffed.children = self.sniffed.children.wrapping_add(1);
            let local = SocketAddr::new(self.config.ends.local, port);
            let remote = SocketAddr::new(self.config.ends.remote, from);
            let flow = self.flows.turn_to(local, remote).ok_or_else(too_many)?;
            flow.forget();
            flow.peer_begins(spec.seq);
            self.fds.forget_latest();
        }
        Ok(())
    }

    /// What comes to a socket that has neither listened nor connected comes from a new port, as in nplab's packetdrill, and so does what comes
    /// before there is any socket. False after other sockets.
    pub(super) fn out_of_the_blue(&mut self) -> bool {
        if !self.fds.unasked() {
            return false;
        }
        let name = self.fds.latest().map(|fd| self.host.call(Call::Getsockname { fd }));
        let bound = match name {
            Some(Started::Done(reply)) => reply.addr.map(|a| a.port()).filter(|port| *port != 0),
            _ => None,
        };
        let ends = self.config.ends;
        let local = SocketAddr::new(ends.local, bound.unwrap_or(ends.bind_port));
        let from = REMOTE_PORT.wrapping_add(self.sniffed.children);
        self.sniffed.children = self.sniffed.children.wrapping_add(1);
        self.flows.turn_to(local, SocketAddr::new(ends.remote, from)).is_some()
    }

    fn message(
        &mut self,
        line: usize,
        spec: &IcmpSpec,
        ends: Option<(SocketAddr, SocketAddr)>,
    ) -> Result<(SocketAddr, SocketAddr, Body, Body), Box<Failure>> {
        let world = &self.config.ends;
        let (src, dst) = ends.unwrap_or((SocketAddr::new(world.remote, 0), SocketAddr::new(world.local, 0)));
        let udp = |(local, remote): (SocketAddr, SocketAddr), len: u16| Quote {
            src: local,
            dst: remote,
            protocol: protocol::UDP,
            seq: 0,
            len: len.into(),
            // As in packetdrill: the whole datagram, of zeros.
            kept: 8 + u32::from(len),
        };
        let (quoted, len) = match spec.quoted {
            Quoted::Any => (None, 8),
            Quoted::Raw(len) => (None, u32::from(len)),
            Quoted::Udp(len) => {
                let (remote, local) = self.datagram_ends();
                (Some(udp((local, remote), len)), 0)
            }
            Quoted::Sctp(_) => {
                let known = self.find_current();
                let Some(flow) = self.flows.current().filter(|_| known) else {
                    return Err(Failure::new(line, "no association that this message could be about"));
                };
                let tag = flow.sctp.quoted_tag();
                let (src, dst) = (flow.local, flow.remote);
                (Some(Quote { src, dst, protocol: protocol::SCTP, seq: tag, len: 0, kept: 8 }), 0)
            }
            Quoted::Tcp { seq, len } => {
                let known = self.find_current();
                let Some(flow) = self.flows.current().filter(|_| known) else {
                    return Err(Failure::new(line, "no connection that this message could be about"));
                };
                (Some(flow.quote(seq, len)), 0)
            }
        };
        let rest = spec.mtu.unwrap_or_else(|| u32::from(spec.id.unwrap_or_default()) << 16);
        let live = Icmp { kind: spec.kind, code: spec.code, rest, quoted, len };
        let script_quote = quoted.map(|q| match spec.quoted {
            Quoted::Tcp { seq, .. } | Quoted::Sctp(seq) => Quote { seq, ..q },
            _ => q,
        });
        Ok((src, dst, Body::Icmp(live), Body::Icmp(Icmp { quoted: script_quote, ..live })))
    }

    /// True when there is a connection under test, if need be by its first SYN.
    fn find_current(&mut self) -> bool {
        if self.flows.current().is_none() {
            self.adopt();
        }
        self.flows.current().is_some()
    }

    /// The ends of a datagram without ends of its own, the peer's first: those of the last one, else what the sockets say.
    fn datagram_ends(&mut self) -> (SocketAddr, SocketAddr) {
        if let Some((local, remote)) = self.sniffed.datagram {
            return (remote, local);
        }
        let world = self.config.ends;
        let (local, remote) = self.datagram_socket().unwrap_or((world.bind_port, None));
        let remote = remote.unwrap_or(if self.config.anyip { world.connect_port } else { REMOTE_PORT });
        (SocketAddr::new(world.remote, remote), SocketAddr::new(world.local, local))
    }

    /// Whose packets a line speaks of.
    pub(super) fn whose(&self, spec: &PacketSpec) -> Whose {
        match (&spec.body, &spec.ends) {
            (body, Some(ends)) if ends.named || !matches!(body, BodySpec::Tcp(_) | BodySpec::Sctp(_)) => {
                let world = &self.config.ends;
                let local = SocketAddr::new(ends.src.0.unwrap_or(world.local), ends.src.1);
                Whose::Between(local, SocketAddr::new(ends.dst.0.unwrap_or(world.remote), ends.dst.1))
            }
            (BodySpec::Sctp(sctp), _) if sctp.opens() => Whose::Opening,
            // Without an address the ports of a segment say nothing about whose it is, as in packetdrill.
            (BodySpec::Tcp(_) | BodySpec::Sctp(_), _) => Whose::Current,
            (BodySpec::Udp(_), _) => Whose::Loose,
            (BodySpec::Icmp(icmp), _) => {
                if matches!(icmp.quoted, Quoted::Any | Quoted::Tcp { .. } | Quoted::Sctp(_)) {
                    Whose::Message
                } else {
                    Whose::Loose
                }
            }
        }
    }
}

impl Shown {
    /// What a line of the script speaks of.
    pub(crate) const fn of(spec: &IpSpec) -> Self {
        let tos = matches!(spec.tos, Some(TosSpec::Tos(_) | TosSpec::Dscp(_)));
        Self {
            window: false,
            tos,
            ttl: spec.ttl.is_some(),
            flow_label: spec.flow_label.is_some(),
            ports: false,
            vtag: false,
            marks: Marks::NONE,
        }
    }
}
