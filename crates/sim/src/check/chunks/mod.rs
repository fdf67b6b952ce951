//! Checks what hosts send in SCTP's packets against what they were told, at the border of each host: tags that somebody has chosen, addresses
//! that the peer was told of (RFC 9260 section 5.1.2), CRC32c, padding of zeros, chunks that travel alone (section 6.10), no TSN left out or
//! sent again as something else, no acknowledgment of what never came or that goes back (section 6.2), nothing beyond the peer's window but
//! one chunk (section 6.1 A), no more in flight than a window could have grown to (section 7.2), nothing given up that was still to be sent
//! (RFC 3758 section 3.5), and no data behind SHUTDOWN (section 9.2).
//!
//! Like `segments` it knows nothing of the stack but its packets.
mod read;
mod receiving;
mod sending;

use lowwater_core::packet::Packet;
use lowwater_wire::sctp::{Chunk, Chunks as Parts, Init, Param, RawChunk, SctpView, Tlvs, padded};
use read::{Around, What};
use receiving::Receiving;
use sending::{Limits, Sending};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The checker's name in reports.
pub const NAME: &str = "chunks";

/// Ports of this host and of its peer, and the peer's tag: an association for as long as it lives.
type Key = (u16, u16, u32);

/// What the associations of a host may do, as far as its packets do not say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {
    /// Its programs limit messages, which may be given up: numbers may be left out (RFC 3758).
    pub limited: bool,
    /// BBR may move its windows.
    pub bbr: bool,
}

impl Default for Habits {
    /// Nobody has said what they do not do.
    fn default() -> Self {
        Self { limited: true, bbr: true }
    }
}

/// How an association began and ended, by the packets of the host that was asked for it.
#[derive(Debug, Default)]
struct Life {
    /// INITs that came, and were not answered by INIT ACK: an ABORT may be the answer to one of these, and no end.
    asked: usize,
    /// COOKIE ECHOs that came before its end, and COOKIE ACKs. Each of these answers one of those.
    cookies: usize,
    acked: usize,
    /// SHUTDOWN ACK has left: SHUTDOWN COMPLETE ends it.
    shut: bool,
    /// It was up, and is over: the host has said so, or was told so in a way that no state leaves unheard.
    ended: bool,
}

impl Life {
    /// The host has said that it is over: by ABORT, or by SHUTDOWN COMPLETE.
    fn ends(&mut self, aborts: bool) {
        self.ended |= self.acked > 0 && (!aborts || self.asked == 0);
    }

    /// COOKIE ACK leaves. What has ended is not opened by a copy of its cookie (`handshake/used.rs`). A COOKIE ACK may have waited in the host
    /// while the association ended: each cookie that came before that may have its own.
    fn opens(&mut self) -> Result<(), String> {
        self.acked += 1;
        if self.ended && self.acked > self.cookies {
            return Err(String::from("a copy of its cookie opens an association that is over"));
        }
        Ok(())
    }
}

/// What a host says of itself in an INIT or INIT ACK.
#[derive(Clone, Debug)]
struct Said {
    tag: u32,
    tsn: u32,
    /// It knows FORWARD TSN.
    forwards: bool,
    /// Where it is: where this comes from, and what it names.
    addresses: BTreeSet<IpAddr>,
}

/// An association as one of its hosts sees it.
#[derive(Debug, Default)]
struct Talk {
    /// Tags and first TSNs that this host has chosen for it: one for each INIT that it has answered.
    ours: Vec<(u32, u32)>,
    /// This host and its peer know FORWARD TSN: numbers may be left out.
    forwards: (bool, bool),
    sending: Sending,
    receiving: Receiving,
    /// Numbers began anew (RFC 6525): they say nothing from then on.
    renumbered: bool,
    /// This host has said that it is over.
    over: bool,
    life: Life,
    /// Where this host has sent something of it to: an ABORT from there is the peer's.
    to: BTreeSet<IpAddr>,
    /// Where this host is, as far as the peer was told.
    told: BTreeSet<IpAddr>,
}

/// What has come between two ports, whoever it was for.
#[derive(Debug, Default)]
struct Heard {
    tags: BTreeSet<u32>,
    heartbeats: BTreeSet<Vec<u8>>,
    /// This host's last INIT.
    init: Option<Said>,
}

/// All associations of a host.
#[derive(Debug, Default)]
pub struct Chunks {
    talks: BTreeMap<Key, Talk>,
    heard: BTreeMap<(u16, u16), Heard>,
    /// Packets leave in the order in which the transport makes them.
    orderly: bool,
    /// Fragments of IP have come or gone: not everything was seen.
    fragments: bool,
    /// Bytes of the longest packet of IP.
    mtu: usize,
    habits: Habits,
    /// The first packet that was wrong by itself.
    wrong: Option<String>,
    /// The first that was wrong after those before it: where none was lost in the host, nor has overtaken another.
    odd: Option<String>,
}

/// What a packet that goes out breaks.
enum Breach {
    Wrong(String),
    Odd(String),
}

/// An INIT or INIT ACK says that its sender knows FORWARD TSN.
fn knows_forward(init: &Init<'_>) -> bool {
    let mut params = init.params.map_while(Result::ok);
    params.any(|tlv| matches!(Param::parse(&tlv), Ok(Param::ForwardTsnSupported)))
}

/// A RE-CONFIG asks for other TSNs, or answers that.
fn renumbers(params: Tlvs<'_>) -> bool {
    let mut params = params.map_while(Result::ok);
    params
        .any(|tlv| matches!(Param::parse(&tlv), Ok(Param::TsnReset(_) | Param::ResetResponse(_, _, Some(_)))))
}

impl Said {
    fn of(init: &Init<'_>, from: IpAddr) -> Self {
        let named = init.params.map_while(Result::ok).filter_map(|tlv| match Param::parse(&tlv) {
            Ok(Param::Ipv4(ip)) => Some(ip.into()),
            Ok(Param::Ipv6(ip)) => Some(ip.into()),
            _ => None,
        });
        let addresses = named.chain([from]).collect();
        Self { tag: init.initiate_tag, tsn: init.initial_tsn, forwards: knows_forward(init), addresses }
    }
}

impl Talk {
    /// Opened by what the peer says.
    fn new(init: &Init<'_>) -> Self {
        let forwards = (false, knows_forward(init));
        let (sending, receiving) = (Sending::new(init.a_rwnd), Receiving::new(init.initial_tsn));
        Self { forwards, sending, receiving, ..Self::default() }
    }

    /// This host has said this for it.
    fn choose(&mut self, said: &Said) {
        let ours = (said.tag, said.tsn);
        if !self.ours.contains(&ours) {
            self.ours.push(ours);
        }
        self.forwards.0 = said.forwards;
        self.told.extend(&said.addresses);
    }

    /// Its programs limit messages, and both sides know FORWARD TSN: numbers may be left out.
    fn leaves_out(&self, habits: Habits) -> bool {
        habits.limited && self.forwards == (true, true)
    }

    /// One of the peer's chunks has come.
    fn hears(&mut self, around: &Around, chunk: &Chunk<'_>) {
        match chunk {
            Chunk::Data(header, _) => self.receiving.came(header.tsn),
            Chunk::ForwardTsn(tsn, _) => self.receiving.skipped(*tsn),
            Chunk::Sack(sack) => self.sending.acknowledged(sack),
            Chunk::Shutdown(cum) => self.sending.shut_down(*cum),
            Chunk::ReConfig(params) => self.renumbered |= renumbers(*params),
            Chunk::CookieEcho(_) => self.life.cookies += usize::from(!self.life.ended),
            Chunk::Abort(..) | Chunk::ShutdownComplete(_) => {
                let ends = match chunk {
                    Chunk::Abort(false, _) => self.to.contains(&around.from),
                    chunk => matches!(chunk, Chunk::ShutdownComplete(false)) && self.life.shut,
                };
                self.life.ended |= ends && self.life.acked > 0;
            }
            _ => {}
        }
    }

    /// This host sends one; `around` for where to.
    fn sends(&mut self, around: &Around, rules: (usize, Habits), chunk: &Chunk<'_>) -> Result<(), String> {
        let ends =
            matches!(chunk, Chunk::Data(..) | Chunk::Sack(_) | Chunk::Shutdown(_) | Chunk::ForwardTsn(..));
        if self.over && ends {
            return Err(String::from("its association is over"));
        }
        self.to.insert(around.to);
        match chunk {
            Chunk::CookieAck => self.life.opens()?,
            Chunk::Abort(..) | Chunk::ShutdownComplete(_) => {
                self.life.ends(matches!(chunk, Chunk::Abort(..)));
            }
            Chunk::ShutdownAck => self.life.shut = true,
            _ => {}
        }
        match chunk {
            // What looked like its end was none, as an ABORT that answered a copy of the INIT: it goes on with its numbers.
            Chunk::CookieAck => self.over = false,
            Chunk::Abort(..) | Chunk::ShutdownComplete(_) => self.over = true,
            Chunk::ReConfig(params) => self.renumbered |= renumbers(*params),
            _ if self.renumbered => {}
            Chunk::Data(header, data) => {
                let (mtu, habits) = rules;
                let left_out = self.leaves_out(habits);
                let limits = Limits { mtu, least: if habits.bbr { 4 } else { 2 }, left_out };
                self.sending.data(around.to, (header, data.len()), &self.ours, limits)?;
            }
            Chunk::ForwardTsn(point, _) => self.sending.gives_up(*point, self.leaves_out(rules.1))?,
            Chunk::Sack(sack) => self.receiving.told(sack)?,
            Chunk::Shutdown(cum) => {
                self.receiving.told_cum(*cum)?;
                self.sending.ends()?;
            }
            Chunk::ShutdownAck => self.sending.ends()?,
            _ => {}
        }
        Ok(())
    }
}

impl Chunks {
    /// Of a host whose packets leave in the order in which the transport makes them, or may not, and are so long at the most.
    #[must_use]
    pub fn new(orderly: bool, mtu: u16, habits: Habits) -> Self {
        Self { orderly, mtu: mtu.into(), habits, ..Self::default() }
    }

    /// From now on packets may overtake on their way to the device.
    pub fn set_disorderly(&mut self) {
        self.orderly = false;
    }

    /// What was wrong so far; `whole` where nothing was lost in the host.
    ///
    /// # Errors
    /// The first of it.
    pub fn wrong(&self, whole: bool) -> Result<(), String> {
        let odd = self.odd.as_ref().filter(|_| whole && self.orderly && !self.fragments);
        self.wrong.as_ref().or(odd).map_or(Ok(()), |what| Err(what.clone()))
    }

    /// A packet comes in. What is damaged says nothing.
    pub fn received(&mut self, packet: &Packet) {
        read::packets(packet, &mut |around, what| match what {
            What::Sctp(bytes) => {
                if let Some(view) = read::intact(around, bytes) {
                    self.hears(around, &view);
                }
            }
            What::Fragment => self.fragments = true,
            What::Other => {}
        });
    }

    fn hears(&mut self, around: &Around, view: &SctpView<'_>) {
        let (own, peer, tag) = (view.dst_port(), view.src_port(), view.vtag());
        let heard = self.heard.entry((own, peer)).or_default();
        heard.tags.insert(tag);
        for raw in Parts::new(view.payload()).map_while(Result::ok) {
            let Ok(chunk) = Chunk::parse(&raw) else { continue };
            match chunk {
                Chunk::Init(init) => {
                    let key = (own, peer, init.initiate_tag);
                    self.talks.entry(key).or_insert_with(|| Talk::new(&init)).life.asked += 1;
                }
                Chunk::InitAck(init) => {
                    let Some(said) = heard.init.as_ref().filter(|said| said.tag == tag) else { continue };
                    let key = (own, peer, init.initiate_tag);
                    self.talks.entry(key).or_insert_with(|| Talk::new(&init)).choose(said);
                }
                Chunk::Heartbeat(_) => _ = heard.heartbeats.insert(raw.value().to_vec()),
                _ => {
                    // A T bit stands for the peer's own tag (section 8.5.1).
                    let reflects = |key: &Key| key.2 == tag && matches!(chunk, Chunk::Abort(true, _));
                    let all = self.talks.range_mut((own, peer, 0)..=(own, peer, u32::MAX));
                    for (_, talk) in all.filter(|(k, t)| reflects(k) || t.ours.iter().any(|o| o.0 == tag)) {
                        talk.hears(around, &chunk);
                    }
                }
            }
        }
    }

    /// A packet goes out.
    pub fn sent(&mut self, packet: &Packet) {
        let (mut told, mtu) = (Vec::new(), self.mtu);
        read::packets(packet, &mut |around, what| match what {
            What::Sctp(bytes) => {
                let long = around.len > mtu;
                let breach =
                    if long { Err(Breach::Wrong(format!("it is longer than {mtu}"))) } else { Ok(()) };
                if let Err(breach) = breach.and_then(|()| self.says(around, bytes)) {
                    told.push((describe(bytes), breach));
                }
            }
            What::Fragment => self.fragments = true,
            What::Other => {}
        });
        for (packet, breach) in told {
            match breach {
                Breach::Wrong(what) => self.wrong.get_or_insert_with(|| format!("{packet}: {what}")),
                Breach::Odd(what) => self.odd.get_or_insert_with(|| format!("{packet}: {what}")),
            };
        }
    }

    fn says(&mut self, around: &Around, bytes: &[u8]) -> Result<(), Breach> {
        let untrusted = Around { trusted: false, ..*around };
        let Some(view) = read::intact(&untrusted, bytes) else {
            return Err(Breach::Wrong(String::from("its CRC32c is wrong")));
        };
        let chunks = layout(&view).map_err(Breach::Wrong)?;
        let (own, peer, tag) = (view.src_port(), view.dst_port(), view.vtag());
        let heard = self.heard.entry((own, peer)).or_default();
        match &chunks[0].1 {
            Chunk::Init(init) if tag == 0 => {
                let mut said = Said::of(init, around.from);
                // Which of its copies the peer has answered, from wherever they came, nobody says.
                if let Some(before) = heard.init.take_if(|before| before.tag == said.tag) {
                    said.addresses.extend(before.addresses);
                }
                heard.init = Some(said);
                return Ok(());
            }
            Chunk::Abort(true, _) | Chunk::ShutdownComplete(true) if heard.tags.contains(&tag) => {
                return Ok(());
            }
            _ => {}
        }
        let nobody = || Breach::Wrong(format!("nobody has chosen the tag {tag:#x}"));
        let talk = self.talks.get_mut(&(own, peer, tag)).ok_or_else(nobody)?;
        let begins = matches!(chunks[0].1, Chunk::InitAck(_));
        if !begins && !talk.told.contains(&around.from) {
            return Err(Breach::Wrong(format!("the peer knows nothing of {}", around.from)));
        }
        for (raw, chunk) in &chunks {
            match chunk {
                Chunk::InitAck(init) => {
                    talk.choose(&Said::of(init, around.from));
                    talk.life.asked = talk.life.asked.saturating_sub(1);
                }
                Chunk::HeartbeatAck(_) if !heard.heartbeats.contains(raw.value()) => {
                    return Err(Breach::Wrong(String::from("it answers a HEARTBEAT that never came")));
                }
                _ => talk.sends(around, (self.mtu, self.habits), chunk).map_err(Breach::Odd)?,
            }
        }
        Ok(())
    }
}

/// The chunks of a packet by their kinds.
fn describe(bytes: &[u8]) -> String {
    let Ok(view) = SctpView::parse(bytes) else { return String::from("a packet without a common header") };
    let all = Parts::new(view.payload()).map_while(Result::ok).map(|raw| match Chunk::parse(&raw) {
        Ok(Chunk::Data(header, data)) => format!("DATA {}+{}", header.tsn, data.len()),
        Ok(Chunk::Sack(sack)) => format!("SACK {}", sack.cum_tsn),
        _ => format!("chunk {}", raw.kind()),
    });
    let (from, to, tag) = (view.src_port(), view.dst_port(), view.vtag());
    format!("{from} > {to} tag {tag:#x} {}", all.collect::<Vec<_>>().join(", "))
}

/// The chunks of a packet, in the order and the company that they may have.
fn layout<'a>(view: &SctpView<'a>) -> Result<Vec<(RawChunk<'a>, Chunk<'a>)>, String> {
    let mut all: Vec<(RawChunk<'_>, Chunk<'_>)> = Vec::new();
    let mut rest = view.payload();
    while !rest.is_empty() {
        let raw = Parts::new(rest).next().and_then(Result::ok).ok_or("a chunk ends behind its packet")?;
        let (len, whole) = (raw.bytes().len(), padded(raw.bytes().len()));
        let padding = rest.get(len..whole).ok_or("the last chunk has no padding")?;
        if padding.iter().any(|byte| *byte != 0) {
            return Err(String::from("padding is not zero"));
        }
        rest = &rest[whole..];
        let chunk = Chunk::parse(&raw).map_err(|_| format!("chunk {} cannot be read", raw.kind()))?;
        all.push((raw, chunk));
    }
    let count = |is: fn(&Chunk<'_>) -> bool| all.iter().filter(|(_, chunk)| is(chunk)).count();
    let lone = |c: &Chunk<'_>| matches!(c, Chunk::Init(_) | Chunk::InitAck(_) | Chunk::ShutdownComplete(_));
    if all.is_empty() || (all.len() > 1 && count(lone) > 0) {
        return Err(String::from("INIT, INIT ACK and SHUTDOWN COMPLETE are alone, and no packet is empty"));
    }
    if count(|c| matches!(c, Chunk::Sack(_))) > 1 {
        return Err(String::from("it has more than one SACK"));
    }
    let cookie = |c: &Chunk<'_>| matches!(c, Chunk::CookieEcho(_) | Chunk::CookieAck);
    if count(cookie) > usize::from(cookie(&all[0].1)) {
        return Err(String::from("COOKIE ECHO and COOKIE ACK come first"));
    }
    let first = all.iter().position(|(_, chunk)| matches!(chunk, Chunk::Data(..))).unwrap_or(all.len());
    let mut last = None;
    for (_, chunk) in &all[first..] {
        let Chunk::Data(header, data) = chunk else {
            return Err(String::from("control chunks come before DATA"));
        };
        let behind = last.is_none_or(|last: u32| (header.tsn.wrapping_sub(last) as i32) > 0);
        if data.is_empty() || !behind {
            return Err(String::from("DATA is empty, or not in the order of its numbers"));
        }
        last = Some(header.tsn);
    }
    let ends = |c: &Chunk<'_>| matches!(c, Chunk::Shutdown(_) | Chunk::ShutdownAck | Chunk::Abort(..));
    if count(ends) > 0 && first < all.len() {
        return Err(String::from("there is DATA with what ends an association"));
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
