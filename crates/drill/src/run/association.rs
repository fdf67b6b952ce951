//! SCTP associations as the script sees them: how its tags, TSNs, cookies and heartbeats map to the stack's.
use super::Runner;
use super::flow::Flow;
use super::inbound::REMOTE_PORT;
use crate::failure::Failure;
use crate::script::EndsSpec;
use crate::sctp::{Content, Item, SctpSpec, Shift, encode_item};
use crate::wire::{Body, Sctp, Wire};
use core::net::SocketAddr;
use lowwater_wire::sctp::{CHUNK_HEADER_LEN, chunk_kind as kind, param_kind};

/// The T bit of ABORT and SHUTDOWN COMPLETE.
const T: u8 = 1;

/// What the stack calls itself in one handshake, and what the script calls that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbers {
    live_tag: u32,
    live_tsn: u32,
    script_tag: u32,
    script_tsn: u32,
    /// A line has named them.
    named: bool,
}

/// One association's numbers. Those of the peer are the script's own.
#[derive(Clone, Debug, Default)]
pub(super) struct Association {
    /// The stack's numbers, from its INIT, or from its INIT ACK once the cookie has come back.
    ours: Option<Numbers>,
    /// Those of the last INIT ACK.
    offered: Option<Numbers>,
    peer_tag: Option<u32>,
    /// The cookie of the last INIT ACK.
    cookie: Vec<u8>,
    /// What the last HEARTBEAT of the stack carried.
    heartbeat: Vec<u8>,
}

fn is(item: &Item, wanted: u8) -> bool {
    item.kind() == Some(wanted.into())
}

/// A packet whose tag is the sender's own.
fn reflects(chunks: &[Item]) -> bool {
    let bits = |item: &Item| item.flags().unwrap_or_default();
    chunks.iter().any(|c| (is(c, kind::ABORT) || is(c, kind::SHUTDOWN_COMPLETE)) && bits(c) & T != 0)
}

/// The INIT or INIT ACK of a packet.
fn opening(chunks: &[Item]) -> Option<&Item> {
    chunks.first().filter(|c| is(c, kind::INIT) || is(c, kind::INIT_ACK))
}

impl Association {
    /// Takes note of a packet from the stack: what it offers, the cookie, and the heartbeat that wants an answer.
    pub(super) fn learn(&mut self, packet: &Sctp) {
        for chunk in &packet.chunks {
            if is(chunk, kind::HEARTBEAT) {
                self.heartbeat = encode_item(chunk).split_off(CHUNK_HEADER_LEN);
            }
        }
        let Some(init) = opening(&packet.chunks) else { return };
        let (Some(tag), Some(tsn)) = (init.number("tag"), init.number("tsn")) else { return };
        let known = |numbers: &Numbers| (numbers.live_tag, numbers.live_tsn) == (tag, tsn);
        let new = Numbers { live_tag: tag, live_tsn: tsn, script_tag: tag, script_tsn: tsn, named: false };
        if is(init, kind::INIT) {
            self.ours = self.ours.filter(known).or(Some(new));
            return;
        }
        self.offered = self.offered.or(self.ours).filter(known).or(Some(new));
        let cookie = init.items().iter().find(|param| param.kind() == Some(param_kind::STATE_COOKIE));
        if let Some(cookie) = cookie.and_then(Item::bytes) {
            self.cookie = cookie.to_vec();
        }
    }

    /// A line of the script stands for this INIT or INIT ACK of the stack and gives its numbers their names; what it leaves open
    /// is 0, as in packetdrill.
    pub(super) fn begin(&mut self, spec: &SctpSpec, live: &Sctp) {
        let Content::Chunks(chunks) = &spec.content else { return };
        let (Some(line), Some(init)) = (opening(chunks), opening(&live.chunks)) else { return };
        if line.kind() != init.kind() {
            return;
        }
        let numbers = if is(init, kind::INIT) { &mut self.ours } else { &mut self.offered };
        if let Some(numbers) = numbers.as_mut().filter(|n| !n.named) {
            numbers.named = true;
            numbers.script_tag = line.number("tag").unwrap_or_default();
            numbers.script_tsn = line.number("tsn").unwrap_or_default();
        }
        // The same handshake under both roles, as when two INITs cross.
        if let (Some(ours), Some(offered)) = (&mut self.ours, self.offered)
            && (ours.live_tag, ours.live_tsn) == (offered.live_tag, offered.live_tsn)
        {
            *ours = offered;
        }
    }

    /// The numbers that hold for a packet.
    fn numbers(&self, chunks: &[Item]) -> Option<Numbers> {
        let answer = opening(chunks).is_some_and(|c| is(c, kind::INIT_ACK));
        if answer { self.offered.or(self.ours) } else { self.ours.or(self.offered) }
    }

    /// A packet of the stack in the script's numbers.
    pub(super) fn to_script(&self, live: &Sctp) -> Sctp {
        let mut p = live.clone();
        let Some(n) = self.numbers(&p.chunks) else { return p };
        let by =
            Shift { own: n.script_tsn.wrapping_sub(n.live_tsn), other: 0, tag: (n.live_tag, n.script_tag) };
        p.chunks.iter_mut().for_each(|chunk| chunk.shift(by));
        if reflects(&p.chunks) && p.vtag == n.live_tag {
            p.vtag = n.script_tag;
        }
        p
    }

    /// A packet of the peer in the stack's numbers, with the cookie and the heartbeat that the line leaves open.
    pub(super) fn sent_by_peer(&mut self, spec: &SctpSpec, script: &Sctp) -> Sctp {
        let mut p = script.clone();
        for chunk in &mut p.chunks {
            self.complete(chunk);
        }
        if p.chunks.iter().any(|c| is(c, kind::COOKIE_ECHO)) && self.offered.is_some() {
            self.ours = self.offered.take();
        }
        let ours = self.numbers(&[]);
        if let Some(n) = ours {
            let by = Shift {
                own: 0,
                other: n.live_tsn.wrapping_sub(n.script_tsn),
                tag: (n.script_tag, n.live_tag),
            };
            p.chunks.iter_mut().for_each(|chunk| chunk.shift(by));
        }
        if let Some(init) = opening(&p.chunks) {
            self.peer_tag = init.number("tag").or(self.peer_tag);
        }
        let mapped = |tag: u32| match ours {
            Some(n) if tag != 0 => n.live_tag.wrapping_add(tag.wrapping_sub(n.script_tag)).max(1),
            _ => tag,
        };
        let init = p.chunks.iter().any(|c| is(c, kind::INIT));
        p.vtag = match (spec.tag, reflects(&p.chunks)) {
            (Some(tag), true) => tag,
            (Some(tag), false) => mapped(tag),
            (None, true) => self.peer_tag.unwrap_or_default(),
            (None, false) if init => 0,
            (None, false) => ours.map_or(0, |n| n.live_tag),
        };
        p
    }

    /// `COOKIE_ECHO[..., val=...]` brings back the cookie, `HEARTBEAT_ACK[..., HEARTBEAT_INFORMATION[...]]` the heartbeat.
    fn complete(&self, chunk: &mut Item) {
        if is(chunk, kind::COOKIE_ECHO) && chunk.bytes().is_none() && !self.cookie.is_empty() {
            chunk.set_bytes(&self.cookie);
        }
        let info = self.heartbeat.get(CHUNK_HEADER_LEN..);
        if let Some(info) = info.filter(|_| is(chunk, kind::HEARTBEAT_ACK)) {
            let open = chunk.items_mut().iter_mut().find(|item| item.bytes().is_none());
            open.into_iter().for_each(|item| _ = item.set_bytes(info));
        }
    }

    /// The verification tag that a packet of the stack should have, where that is known.
    pub(super) fn expected_tag(&self, spec: &SctpSpec, chunks: &[Item]) -> Option<u32> {
        let init = chunks.first().is_some_and(|c| is(c, kind::INIT));
        match spec.tag {
            Some(tag) => Some(tag),
            None if init => Some(0),
            None if reflects(chunks) => None,
            None => self.peer_tag,
        }
    }

    /// The tag of an SCTP packet of the stack that a router quotes.
    pub(super) fn quoted_tag(&self) -> u32 {
        self.peer_tag.unwrap_or_default()
    }
}

impl Runner<'_> {
    /// A packet of the peer: source, destination, and the packet in the stack's numbers and in the script's.
    pub(super) fn association(
        &mut self,
        line: usize,
        spec: &SctpSpec,
        ends: Option<EndsSpec>,
    ) -> Result<(SocketAddr, SocketAddr, Body, Body), Box<Failure>> {
        let named = ends.filter(|e| e.named).map(|e| self.ends(&e));
        self.turn_to_association(line, named)?;
        if self.flows.current().is_none() {
            self.adopt();
            let Self { flows, sniffed, .. } = self;
            let init = flows.current().and_then(|f| sniffed.waiting.iter().find(|p| f.owns(p)));
            flows.current().zip(init).into_iter().for_each(|(flow, init)| flow.learn(init));
        }
        let Some(flow) = self.flows.current() else {
            return Err(Failure::new(line, "no association that this packet could belong to"));
        };
        let (mut remote, mut local) = named.unwrap_or((flow.remote, flow.local));
        if let Some(foreign) = ends.filter(|e| !e.named) {
            remote.set_port(foreign.src.1);
            local.set_port(foreign.dst.1);
        }
        let (chunks, raw) = match &spec.content {
            Content::Chunks(chunks) => (chunks.clone(), None),
            Content::Raw(bytes) => (Vec::new(), Some(bytes.clone())),
        };
        let vtag = spec.tag.unwrap_or_default();
        let script =
            Sctp { src_port: remote.port(), dst_port: local.port(), vtag, crc: spec.crc, chunks, raw };
        let live = flow.sctp.sent_by_peer(spec, &script);
        Ok((remote, local, Body::Sctp(live), Body::Sctp(script)))
    }

    /// Turns to the association that a line names by its ports, to a new one of that name, or to the one that the first packet to a
    /// listener begins.
    fn turn_to_association(
        &mut self,
        line: usize,
        ends: Option<(SocketAddr, SocketAddr)>,
    ) -> Result<(), Box<Failure>> {
        let too_many = || Failure::new(line, "too many associations for one script");
        if let Some((src, dst)) = ends {
            if !self.flows.turn_to_ports(dst.port(), src.port()) {
                self.flows.turn_to(dst, src).ok_or_else(too_many)?;
            }
        } else if let Some(port) = self.flows.take_listener() {
            let from = REMOTE_PORT.wrapping_add(self.sniffed.children);
            self.sniffed.children = self.sniffed.children.wrapping_add(1);
            let local = SocketAddr::new(self.config.ends.local, port);
            let remote = SocketAddr::new(self.config.ends.remote, from);
            self.flows.turn_to(local, remote).ok_or_else(too_many)?.forget();
            self.fds.forget_latest();
        }
        Ok(())
    }

    /// A line names the numbers of the stack's INIT or INIT ACK.
    pub(super) fn begin_association(&mut self, spec: &SctpSpec, packet: &mut Wire) {
        let (local, remote) = packet.ends();
        let Some(flow) = self.flows.find_packet(packet, local, remote) else { return };
        let Body::Sctp(mapped) = &mut packet.body else { return };
        let live = flow.sctp.unmapped(mapped);
        flow.sctp.begin(spec, &live);
        *mapped = flow.sctp.to_script(&live);
    }

    /// A packet of the stack whose verification tag is not the one that it should have.
    pub(super) fn wrong_tag(&mut self, spec: &SctpSpec, packet: &Wire) -> Option<String> {
        let (local, remote) = packet.ends();
        let sctp = packet.sctp()?;
        let flow: &mut Flow = self.flows.find_packet(packet, local, remote)?;
        let expected = flow.sctp.expected_tag(spec, &sctp.chunks)?;
        (expected != sctp.vtag).then(|| format!("verification tag {} instead of {expected}", sctp.vtag))
    }
}

impl Association {
    /// The stack's own numbers again of what [`Self::to_script`] has given.
    fn unmapped(&self, script: &Sctp) -> Sctp {
        let mut p = script.clone();
        if let Some(n) = self.numbers(&p.chunks) {
            let by = Shift {
                own: n.live_tsn.wrapping_sub(n.script_tsn),
                other: 0,
                tag: (n.script_tag, n.live_tag),
            };
            p.chunks.iter_mut().for_each(|chunk| chunk.shift(by));
        }
        p
    }
}
