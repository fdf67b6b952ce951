//! SCTP associations as the script sees them: how its tags, TSNs, cookies and heartbeats map to the stack's.
use super::Runner;
use super::flow::Flow;
use super::inbound::REMOTE_PORT;
use crate::failure::Failure;
use crate::script::EndsSpec;
use crate::sctp::{Content, Crc, Item, SctpSpec, Shift, encode_item};
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

/// What an INIT ACK of the stack offers: it holds once its cookie has come back. Until then a further INIT ACK changes nothing, as in
/// packetdrill.
#[derive(Clone, Debug)]
struct Offer {
    numbers: Numbers,
    cookie: Vec<u8>,
    /// The tag of the INIT that it answers.
    peer_tag: Option<u32>,
}

/// One association's numbers. Those of the peer are the script's own.
#[derive(Clone, Debug, Default)]
pub(super) struct Association {
    /// The stack's numbers, from its INIT, or from its INIT ACK once the cookie has come back.
    ours: Option<Numbers>,
    offer: Option<Offer>,
    /// The tag of the association, and that of the peer's last INIT or INIT ACK, which its answer has.
    peer_tag: Option<u32>,
    asked_tag: Option<u32>,
    /// The cookie that came back last: it may come again.
    cookie: Vec<u8>,
    /// What the last HEARTBEAT of the stack carried.
    heartbeat: Vec<u8>,
}

fn is(item: &Item, wanted: u8) -> bool {
    item.kind() == Some(wanted.into())
}

fn has(chunks: &[Item], wanted: u8) -> bool {
    chunks.iter().any(|chunk| is(chunk, wanted))
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

impl Numbers {
    const fn new(tag: u32, tsn: u32) -> Self {
        Self { live_tag: tag, live_tsn: tsn, script_tag: tag, script_tsn: tsn, named: false }
    }

    fn is(&self, live: Self) -> bool {
        (self.live_tag, self.live_tsn) == (live.live_tag, live.live_tsn)
    }

    /// What the script calls a verification tag, as the stack knows it.
    fn live(&self, tag: u32) -> u32 {
        if tag == 0 { 0 } else { self.live_tag.wrapping_add(tag.wrapping_sub(self.script_tag)).max(1) }
    }
}

/// The stack's numbers in its own INIT or INIT ACK, before a line has named them.
fn opened(init: &Item) -> Option<Numbers> {
    Some(Numbers::new(init.number("tag")?, init.number("tsn")?))
}

impl Association {
    /// Takes note of a packet from the stack: what it offers, the cookie, and the heartbeat that wants an answer.
    pub(super) fn learn(&mut self, packet: &Sctp) {
        for chunk in &packet.chunks {
            if is(chunk, kind::HEARTBEAT) {
                self.heartbeat = encode_item(chunk).split_off(CHUNK_HEADER_LEN);
            }
        }
        // By this the stack has taken the peer's INIT ACK.
        if has(&packet.chunks, kind::COOKIE_ECHO) && self.asked_tag == Some(packet.vtag) {
            self.peer_tag = self.asked_tag;
        }
        let Some(init) = opening(&packet.chunks) else { return };
        let Some(new) = opened(init) else { return };
        let known = self.ours.filter(|numbers| numbers.is(new));
        if is(init, kind::INIT) {
            self.ours = known.or(Some(new));
        } else if self.offer.is_none() {
            let cookie = init.items().iter().find(|param| param.kind() == Some(param_kind::STATE_COOKIE));
            let cookie = cookie.and_then(Item::bytes).unwrap_or_default().to_vec();
            self.offer = Some(Offer { numbers: known.unwrap_or(new), cookie, peer_tag: self.asked_tag });
        }
    }

    /// A line of the script stands for this INIT or INIT ACK of the stack and gives its numbers their names, once; what it leaves open
    /// is 0, as in packetdrill. True if it did.
    pub(super) fn begin(&mut self, spec: &SctpSpec, packet: &Sctp) -> bool {
        let Content::Chunks(chunks) = &spec.content else { return false };
        let (Some(line), Some(init)) = (opening(chunks), opening(&packet.chunks)) else { return false };
        let Some(live) = opened(init).filter(|_| line.kind() == init.kind()) else { return false };
        let offered = self.offer.as_mut().map(|offer| &mut offer.numbers);
        let numbers = if is(init, kind::INIT) { self.ours.as_mut() } else { offered };
        // Before they are named they are the stack's own.
        let Some(numbers) = numbers.filter(|n| !n.named && n.is(live)) else { return false };
        numbers.named = true;
        numbers.script_tag = line.number("tag").unwrap_or_default();
        numbers.script_tsn = line.number("tsn").unwrap_or_default();
        // The same handshake under both roles, as when two INITs cross.
        let named = *numbers;
        self.ours.iter_mut().filter(|ours| ours.is(named)).for_each(|ours| *ours = named);
        true
    }

    /// The numbers that hold now.
    fn numbers(&self) -> Option<Numbers> {
        self.ours.or(self.offer.as_ref().map(|offer| offer.numbers))
    }

    /// The numbers that hold for a packet of the stack; an INIT ACK that changes nothing is shown as it is.
    fn numbers_of(&self, chunks: &[Item]) -> Option<Numbers> {
        let Some(live) = opening(chunks).and_then(opened) else { return self.numbers() };
        let offered = self.offer.as_ref().map(|offer| offer.numbers);
        [offered, self.ours].into_iter().flatten().find(|numbers| numbers.is(live))
    }

    /// A packet of the stack in the script's numbers.
    pub(super) fn to_script(&self, live: &Sctp) -> Sctp {
        let mut p = live.clone();
        let Some(n) = self.numbers_of(&p.chunks) else { return p };
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
        let echo = self.offer.as_ref().filter(|_| has(&p.chunks, kind::COOKIE_ECHO)).map(|o| o.numbers);
        let numbers = echo.or(self.numbers());
        let right = if has(&p.chunks, kind::INIT) { 0 } else { numbers.map_or(0, |n| n.live_tag) };
        p.vtag = match (spec.tag, reflects(&p.chunks)) {
            (Some(tag), true) => tag,
            (Some(tag), false) => numbers.map_or(tag, |n| n.live(tag)),
            (None, true) => self.peer_tag.unwrap_or_default(),
            (None, false) => right,
        };
        // What the stack drops for its header changes nothing.
        if spec.crc != Crc::Bad && p.vtag == right {
            self.taken(&p.chunks);
        }
        if let Some(n) = self.numbers() {
            // The tags of the peer are the script's own.
            let by = Shift { own: 0, other: n.live_tsn.wrapping_sub(n.script_tsn), tag: (0, 0) };
            p.chunks.iter_mut().for_each(|chunk| chunk.shift(by));
        }
        p
    }

    /// The stack looks at chunks of the peer: a cookie that comes back makes its offer hold, an INIT or INIT ACK wants an answer under its tag.
    fn taken(&mut self, chunks: &[Item]) {
        let echo = has(chunks, kind::COOKIE_ECHO);
        if let Some(offer) = if echo { self.offer.take() } else { None } {
            (self.ours, self.cookie) = (Some(offer.numbers), offer.cookie);
            self.peer_tag = offer.peer_tag.or(self.peer_tag);
        }
        if let Some(tag) = opening(chunks).and_then(|init| init.number("tag")) {
            self.asked_tag = Some(tag);
            self.peer_tag = self.peer_tag.or(Some(tag));
        }
    }

    /// `COOKIE_ECHO[..., val=...]` brings back the cookie, `HEARTBEAT_ACK[..., HEARTBEAT_INFORMATION[...]]` the heartbeat.
    fn complete(&self, chunk: &mut Item) {
        let cookie = self.offer.as_ref().map_or(&self.cookie, |offer| &offer.cookie);
        if is(chunk, kind::COOKIE_ECHO) && chunk.bytes().is_none() && !cookie.is_empty() {
            chunk.set_bytes(cookie);
        }
        let info = self.heartbeat.get(CHUNK_HEADER_LEN..);
        if let Some(info) = info.filter(|_| is(chunk, kind::HEARTBEAT_ACK)) {
            let open = chunk.items_mut().iter_mut().find(|item| item.bytes().is_none());
            open.into_iter().for_each(|item| _ = item.set_bytes(info));
        }
    }

    /// The verification tags that a packet of the stack may have; none where nothing is known.
    pub(super) fn expected_tags(&self, spec: &SctpSpec, chunks: &[Item]) -> Vec<u32> {
        let first = |kind| chunks.first().is_some_and(|c| is(c, kind));
        let answers = first(kind::ABORT) || first(kind::COOKIE_ECHO);
        let tags = match spec.tag {
            Some(tag) => [Some(tag), None],
            None if first(kind::INIT) => [Some(0), None],
            None if reflects(chunks) => [None, None],
            None if first(kind::INIT_ACK) => [self.asked_tag, None],
            // Until the association has the tag of the peer's last INIT or INIT ACK, what answers that has it alone.
            None => [self.peer_tag, self.asked_tag.filter(|_| answers)],
        };
        tags.into_iter().flatten().collect()
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
        if self.flows.current().is_none() {
            self.out_of_the_blue();
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
        let (src_port, dst_port) = (remote.port(), local.port());
        let script = Sctp { src_port, dst_port, vtag, udp: spec.udp, crc: spec.crc, chunks, raw };
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
        if flow.sctp.begin(spec, mapped) {
            *mapped = flow.sctp.to_script(mapped);
            self.note_again(packet);
        }
    }

    /// A packet of the stack whose verification tag is not the one that it should have.
    pub(super) fn wrong_tag(&mut self, spec: &SctpSpec, packet: &Wire) -> Option<String> {
        let (local, remote) = packet.ends();
        let sctp = packet.sctp()?;
        let flow: &mut Flow = self.flows.find_packet(packet, local, remote)?;
        let expected = flow.sctp.expected_tags(spec, &sctp.chunks);
        let first = expected.first().filter(|_| !expected.contains(&sctp.vtag))?;
        Some(format!("verification tag {} instead of {first}", sctp.vtag))
    }
}
