//! Checks what hosts send in TCP's segments against what they were told, at the border of each host: no byte beyond the window that the
//! peer has offered (RFC 9293 section 3.8.6), no number left out, no acknowledgment or selective one of what never came, no segment larger
//! than the peer's MSS, no window taken back, no timestamp that goes back, is not that of the departure, or echoes what never came (RFC 7323),
//! nothing behind a FIN.
//!
//! It knows nothing of the stack but its packets, so that a stack which is wrong about its own numbers is seen all the same.
mod read;

use lowwater_core::base::Instant;
use lowwater_core::packet::Packet;
use read::Segment;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// The checker's name in reports.
pub const NAME: &str = "segments";

/// Whether hosts show it their packets: in the profile of the simulations, not in programs that show figures. Where they do not there is nothing to
/// compare their counters with either.
pub const WATCHED: bool = cfg!(debug_assertions);

/// Milliseconds by which a stack's clock may be behind, where it is a coarse one.
const COARSE_MS: u32 = 4;
/// MSS of a peer that has told none (RFC 9293 section 3.7.1), over IPv4 and IPv6.
const MSS_V4: u16 = 536;
const MSS_V6: u16 = 1_220;

/// What one side of a connection has said so far.
#[derive(Clone, Copy, Debug)]
struct Side {
    isn: u32,
    /// The window of its SYN.
    window: u16,
    /// Behind the last number that it has sent.
    end: u32,
    /// Behind its FIN.
    fin: Option<u32>,
    /// Behind the last number that the other side may send, by the segment that offered most, and by the last one.
    edge: u32,
    last_edge: u32,
    mss: u16,
    scale: Option<u8>,
    sack: bool,
    /// The first and the newest of its timestamps.
    stamps: Option<(u32, u32)>,
}

/// A connection as one of its hosts sees it.
#[derive(Clone, Debug, Default)]
struct Flow {
    own: Option<Side>,
    peer: Option<Side>,
    /// The SYN that came last: one that is not answered, or a copy of one that is, which may open another connection.
    syn: Option<Side>,
    /// What has left before this host's SYN, which it may have overtaken: who is accepted with his SYN may send at once (TCP Fast Open).
    early: Vec<Segment>,
    /// How far its timestamps are from the milliseconds of their departure, by the one that is least behind; data was compared with that.
    ahead: Option<(u32, bool)>,
    /// When the last ICMP error for it came, and the numbers at which data begins that has left since with a timestamp of before.
    error: Option<Instant>,
    late: BTreeSet<u32>,
    /// Timestamps that have come.
    heard: BTreeSet<u32>,
    /// Something else than a SYN has come since this host has answered one, or it has asked itself.
    hears: bool,
    /// This host has sent data before that (TCP Fast Open).
    at_once: bool,
}

/// All connections of a host.
#[derive(Debug, Default)]
pub struct Segments {
    flows: BTreeMap<(SocketAddr, SocketAddr), Flow>,
    /// Packets leave in the order in which the transport makes them.
    orderly: bool,
    /// Segments of TCP that have left, super-packets by their parts, and how many of them were a SYN-ACK again.
    sent: u64,
    answers_again: u64,
    /// The first segment that was wrong.
    wrong: Option<String>,
    /// The first before which numbers were left out: wrong where none was lost in the host.
    gap: Option<String>,
}

/// `a` comes before `b` (RFC 9293 section 3.4).
const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

const fn later(a: u32, b: u32) -> u32 {
    if before(a, b) { b } else { a }
}

impl Side {
    /// What a SYN says.
    fn of(syn: &Segment) -> Self {
        // Without ACK it is counted from 0: `Side::begins_at` adds where the other side begins.
        let edge = u32::from(syn.window).wrapping_add(if syn.flags.ack() { syn.ack } else { 0 });
        let usual = if syn.from.is_ipv4() { MSS_V4 } else { MSS_V6 };
        Self {
            isn: syn.seq,
            window: syn.window,
            end: syn.end(),
            fin: None,
            edge,
            last_edge: edge,
            mss: syn.options.mss.unwrap_or(usual),
            scale: syn.options.window_scale,
            sack: syn.options.sack_permitted,
            stamps: syn.options.timestamps.map(|stamps| (stamps.value, stamps.value)),
        }
    }

    /// This acknowledges its SYN, with some of the data in it or none (TCP Fast Open).
    const fn is_answered_by(&self, ack: u32) -> bool {
        before(self.isn, ack) && !before(self.end, ack)
    }

    /// The other side's numbers begin here, which the SYN could not know.
    const fn begins_at(&mut self, isn: u32) {
        let first = isn.wrapping_add(1);
        (self.edge, self.last_edge) = (self.edge.wrapping_add(first), self.last_edge.wrapping_add(first));
    }

    /// What it has said by now, of which a segment of it came. `shift` is what it scales windows by.
    fn hear(&mut self, segment: &Segment, shift: u8) {
        self.end = later(self.end, segment.end());
        let edge = segment.ack.wrapping_add(u32::from(segment.window) << shift);
        (self.edge, self.last_edge) = (later(self.edge, edge), edge);
        self.ticks(segment);
    }

    fn ticks(&mut self, segment: &Segment) {
        if let (Some((_, newest)), Some(stamps)) = (&mut self.stamps, segment.options.timestamps) {
            *newest = later(*newest, stamps.value);
        }
    }
}

/// Whose data this is: the two ends of a connection. The SYN has none that counts.
#[must_use]
pub fn data_of(packet: &Packet) -> Option<(SocketAddr, SocketAddr)> {
    let segment = Segment::read(packet).filter(|segment| segment.len > 0 && !segment.flags.syn())?;
    Some((segment.from, segment.to))
}

impl Segments {
    /// Of a host whose packets leave in the order in which the transport makes them, or may not.
    #[must_use]
    pub fn new(orderly: bool) -> Self {
        Self { orderly, ..Self::default() }
    }

    /// From now on packets may overtake on their way to the device.
    pub fn set_disorderly(&mut self) {
        self.orderly = false;
    }

    /// What Linux counts of the segments that have left (`TcpOutSegs` and `TcpRetransSegs`): a SYN-ACK that is sent again both as one that is made
    /// and as one that is sent again (`tcp_rtx_synack`).
    #[must_use]
    pub const fn countable(&self) -> u64 {
        self.sent + self.answers_again
    }

    /// A packet comes in. What is damaged says nothing.
    pub fn received(&mut self, packet: &Packet, now: Instant) {
        if let Some(flow) = read::quoted(packet).and_then(|flow| self.flows.get_mut(&flow)) {
            flow.error = Some(now);
            flow.late.clear();
        }
        let Some(segment) = Segment::read(packet).filter(|s| !s.flags.rst() && read::is_intact(packet))
        else {
            return;
        };
        let flow = self.flows.entry((segment.to, segment.from)).or_default();
        flow.heard.extend(segment.options.timestamps.map(|stamps| stamps.value));
        if segment.flags.syn() {
            flow.hears_syn(&segment);
            return;
        }
        let shift = flow.scaled().1;
        if let Some(peer) = flow.peer.as_mut().filter(|_| segment.flags.ack()) {
            peer.hear(&segment, shift);
            flow.hears = true;
        }
    }

    /// A packet goes out.
    pub fn sent(&mut self, packet: &Packet) {
        let Some(segment) = Segment::read(packet) else { return };
        self.sent += u64::from(segment.parts);
        // Who knows nothing of a connection says so by a reset.
        if segment.flags.rst() {
            return;
        }
        let flow = self.flows.entry((segment.from, segment.to)).or_default();
        let again = segment.flags.syn() && segment.flags.ack() && flow.begins_with(segment.seq);
        self.answers_again += u64::from(again);
        if let Some(gap) = flow.gap(&segment) {
            self.gap.get_or_insert_with(|| format!("{segment}: {gap}"));
        }
        let mut told = vec![(flow.stamps_departure(&segment, packet.at, self.orderly), segment.clone())];
        if segment.flags.syn() {
            told.push((flow.opens(&segment), segment));
            for early in core::mem::take(&mut flow.early) {
                told.push((flow.sends(&early, self.orderly), early));
            }
        } else if flow.own.is_none() && !self.orderly {
            flow.early.push(segment);
        } else {
            told.push((flow.sends(&segment, self.orderly), segment));
        }
        for (told, segment) in told {
            if let Err(what) = told {
                self.wrong.get_or_insert_with(|| format!("{segment}: {what}"));
            }
        }
    }

    /// A segment that has left of a connection whose SYN, or answer to one, never has.
    fn never_opened(&self) -> Option<String> {
        let early = self.flows.values().find_map(|flow| flow.early.first())?;
        Some(format!("{early}: there is no connection"))
    }

    /// What was wrong so far; `whole` where nothing was lost in the host.
    ///
    /// # Errors
    /// The first of it.
    pub fn wrong(&self, whole: bool) -> Result<(), String> {
        let gap = self.gap.as_ref().filter(|_| whole && self.orderly);
        self.wrong.as_ref().or(gap).map_or(Ok(()), |what| Err(what.clone()))
    }
}

impl Flow {
    /// What the windows of this host and of its peer are scaled by: by nothing where one of them has not said so (RFC 7323 section 2.2).
    fn scaled(&self) -> (u8, u8) {
        let of = |side: &Option<Side>| side.as_ref().and_then(|side| side.scale);
        of(&self.own).zip(of(&self.peer)).unwrap_or_default()
    }

    /// The peer's SYN has come, the first or again.
    fn hears_syn(&mut self, segment: &Segment) {
        let side = Side::of(segment);
        let answers = |own: &&mut Side| segment.flags.ack() && own.is_answered_by(segment.ack);
        match (&mut self.peer, self.own.as_mut().filter(answers)) {
            (Some(peer), _) if peer.isn == side.isn => {
                // Its clock has gone on.
                peer.ticks(segment);
                // Where the connection is gone by now, a copy that was late is a SYN like any other (RFC 9293 section 3.5).
                if !segment.flags.ack() {
                    self.asks(side);
                }
            }
            (None, Some(own)) => {
                own.begins_at(side.isn);
                self.peer = Some(side);
            }
            (_, None) => self.asks(side),
            (Some(_), Some(_)) => {}
        }
    }

    /// A SYN waits to be answered. Which of its copies the stack has begun with no answer says: the timestamp of each may be the one that it
    /// echoes until something comes in order (RFC 7323 section 4.3: a SYN that comes again is not acceptable, and leaves TS.Recent as it is), and
    /// the data of each may be acknowledged, which one that goes again has not (RFC 7413).
    fn asks(&mut self, mut side: Side) {
        if let Some(before) = self.syn.filter(|syn| syn.isn == side.isn) {
            side.end = later(before.end, side.end);
            let stamps = before.stamps.zip(side.stamps);
            side.stamps = stamps.map(|(old, new)| (old.0, later(old.1, new.1))).or(side.stamps);
        }
        self.syn = Some(side);
    }

    /// Data says when it leaves: of an echo that is older another transmission would be the cause (RFC 7323 section 4.1). What an ICMP error sends
    /// again, once, counts as sent when its connection last looked at the clock (`tcp_simple_retransmit`), which was no later than the error, and
    /// goes before what is sent later. Where packets overtake each other it may come behind that, and the first transmission may still wait.
    fn stamps_departure(&mut self, segment: &Segment, at: Instant, orderly: bool) -> Result<(), String> {
        if segment.flags.syn() {
            self.ahead = None;
        }
        let Some(stamps) = segment.options.timestamps else { return Ok(()) };
        let ahead = stamps.value.wrapping_sub(at.as_millis() as u32);
        let (usual, compared) = self.ahead.get_or_insert((ahead, false));
        let off = ahead.wrapping_sub(*usual) as i32;
        if off > 0 {
            *usual = ahead;
            if *compared && off > COARSE_MS as i32 {
                return Err(format!("timestamps of data before it were {off} ms off its departure"));
            }
        }
        if segment.len == 0 || segment.flags.syn() {
            return Ok(());
        }
        let by_error = self
            .error
            .is_some_and(|error| !before((error.as_millis() as u32).wrapping_add(*usual), stamps.value));
        let again = !orderly || self.own.as_ref().is_none_or(|own| before(segment.seq, own.end));
        if by_error && again && off < -(COARSE_MS as i32) && self.late.insert(segment.seq) {
            return Ok(());
        }
        if !by_error && orderly {
            self.error = None;
        }
        *compared = true;
        let late = off < -(COARSE_MS as i32);
        if late { Err(format!("its timestamp is {} ms off its departure", -off)) } else { Ok(()) }
    }

    /// Numbers that this host leaves out before this segment.
    fn gap(&self, segment: &Segment) -> Option<String> {
        let own = self.own.as_ref().filter(|own| !segment.flags.syn() && before(own.end, segment.seq))?;
        Some(format!("{} has not been sent yet", own.end))
    }

    /// This host's SYN has had this number.
    fn begins_with(&self, isn: u32) -> bool {
        self.own.as_ref().is_some_and(|own| own.isn == isn)
    }

    /// This host sends a SYN, the first or again.
    fn opens(&mut self, segment: &Segment) -> Result<(), String> {
        if !self.begins_with(segment.seq) {
            self.own = Some(Side::of(segment));
            (self.peer, self.at_once, self.hears) = (None, false, !segment.flags.ack());
        }
        if !segment.flags.ack() {
            return Ok(());
        }
        let answered = |side: &Side| side.is_answered_by(segment.ack);
        // One that is sent again is of the connection that is there, whose peer may have gone on.
        if !self.peer.as_ref().is_some_and(answered)
            && let Some(mut syn) = self.syn.take_if(|syn| answered(syn))
        {
            syn.begins_at(segment.seq);
            self.peer = Some(syn);
        }
        match &self.peer {
            Some(peer) if answered(peer) => Ok(()),
            _ => Err(String::from("it acknowledges a SYN that never came")),
        }
    }

    /// This host sends anything else.
    fn sends(&mut self, segment: &Segment, orderly: bool) -> Result<(), String> {
        let (shift, _) = self.scaled();
        let (Some(own), Some(peer)) = (&mut self.own, &self.peer) else {
            return Err(String::from("there is no connection"));
        };
        let end = segment.end();
        // A FIN behind data that fills the window leaves with it, as Linux's does (docs/linux-differences.md).
        let data = end.wrapping_sub(u32::from(segment.flags.fin()));
        if data != segment.seq && before(peer.edge, data) {
            return Err(format!("the peer's window ends at {}", peer.edge));
        }
        if own.fin.is_some_and(|fin| before(fin, end)) {
            return Err(String::from("it comes behind a FIN"));
        }
        if segment.part + segment.option_bytes > u32::from(peer.mss) {
            return Err(format!("its parts have {} bytes, and the peer's MSS is {}", segment.part, peer.mss));
        }
        acknowledges(segment, own, peer)?;
        stamps(segment, own, peer, orderly)?;
        if segment.options.timestamps.is_some_and(|stamps| !self.heard.contains(&stamps.echo)) {
            return Err(String::from("what it echoes is between what came, and has not come"));
        }
        self.at_once |= !self.hears && segment.len > 0;
        let edge = segment.ack.wrapping_add(u32::from(segment.window) << shift);
        // What is out of place before the handshake is complete hears of the SYN's window once more, though the connection that has begun with
        // it may have told more (`tcp_check_req`, `tcp_synack_window`).
        let by_request =
            self.at_once && segment.len == 0 && !segment.flags.fin() && segment.window == own.window >> shift;
        // Windows are told in units, and what is left of one is no window taken back; nor is a window that memory has closed.
        let told = segment.window > 0 && !by_request;
        if orderly && told && before(edge.wrapping_add(1 << shift), own.last_edge) {
            return Err(format!("the window ended at {} before, and ends at {edge} now", own.last_edge));
        }
        own.hear(segment, shift);
        if segment.flags.fin() {
            own.fin = Some(end);
        }
        Ok(())
    }
}

/// What a segment acknowledges has come.
fn acknowledges(segment: &Segment, own: &Side, peer: &Side) -> Result<(), String> {
    if !segment.flags.ack() {
        return Err(String::from("it acknowledges nothing"));
    }
    if before(peer.end, segment.ack) {
        return Err(format!("nothing has come from {} on", peer.end));
    }
    let blocks = segment.options.sack.as_slice();
    let asked = own.sack && peer.sack;
    if !asked && !blocks.is_empty() {
        return Err(String::from("nobody has asked for selective acknowledgments"));
    }
    for (n, &(left, right)) in blocks.iter().enumerate() {
        // The first one may be of what has come twice (RFC 2883).
        let known = n > 0 && !before(segment.ack, left);
        if !before(left, right) || before(peer.end, right) || known {
            return Err(format!("block {left} to {right}, and what came ends at {}", peer.end));
        }
    }
    Ok(())
}

/// Timestamps are in all segments or in none, do not go back, and echo what has come.
fn stamps(segment: &Segment, own: &Side, peer: &Side, orderly: bool) -> Result<(), String> {
    let agreed = own.stamps.zip(peer.stamps);
    let (Some(((_, newest), (first, last))), Some(stamps)) = (agreed, segment.options.timestamps) else {
        let wrong = agreed.is_some() != segment.options.timestamps.is_some();
        return if wrong { Err(String::from("timestamps are not as agreed")) } else { Ok(()) };
    };
    if orderly && before(stamps.value, newest) {
        return Err(format!("timestamp {} after {newest}", stamps.value));
    }
    if before(stamps.echo, first) || before(last, stamps.echo) {
        return Err(format!("it echoes {}, and {first} to {last} have come", stamps.echo));
    }
    Ok(())
}

/// Every host has counted each segment that it has sent, once (`TcpOutSegs`, `TcpRetransSegs`).
///
/// # Errors
/// The host whose counters say otherwise.
pub fn check(world: &crate::world::World) -> Result<(), String> {
    for (h, host) in world.hosts().iter().enumerate().filter(|_| WATCHED) {
        let count = host.core().stack().counters();
        let (counted, sent) = (count.tcp.out_segs + count.tcp.retrans_segs, host.segments().countable());
        if let Some(what) = host.segments().never_opened().filter(|_| host.loses_nothing()) {
            return Err(format!("host {h}: {what}"));
        }
        if host.loses_nothing() && counted != sent {
            return Err(format!(
                "host {h}: {counted} segments of TCP are counted, and it is {sent} that have left"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
