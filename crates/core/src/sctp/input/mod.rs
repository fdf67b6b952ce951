//! A packet comes in: its verification tag, then chunk after chunk (RFC 9260 sections 8.5, 6.10, and 5 to 9 for each).
mod data;
mod ecn;
mod error;
mod forward;
mod handshake;
mod heartbeat;
pub(in crate::sctp) use heartbeat::{info as heartbeat_info, probe_info};
mod reconfig;
mod sack;
mod shutdown;

use super::assoc::{Assoc, Notice};
use super::handshake::init::Features;
use super::output::bundle::TlvList;
use super::paths::{PathId, PathState};
use super::state::State;
use crate::base::limits::SCTP_SACKS_MAX;
use crate::base::{Cx, DropWhy, Error};
use bytes::Bytes;
use core::net::IpAddr;
use lowwater_wire::Malformed;
use lowwater_wire::sctp::{Cause, Chunk, Chunks, RawChunk, chunk_kind, padded};

/// A packet of an association.
#[derive(Clone, Copy, Debug)]
pub struct Inbound<'a> {
    /// Where it came from.
    pub from: IpAddr,
    /// Where it went to.
    pub to: IpAddr,
    /// Its verification tag.
    pub vtag: u32,
    /// Its chunks.
    pub chunks: &'a [u8],
    /// The buffer in which they lie.
    pub buffer: &'a Bytes,
    /// A router marked it (ECN).
    pub ce: bool,
    /// UDP port that it came from; 0 without UDP (RFC 6951).
    pub encap: u16,
}

/// What is known while the chunks of one packet are read.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    pub(super) inbound: &'a Inbound<'a>,
    /// The path that it came by; `None` for an address that is not the peer's.
    pub(super) path: Option<PathId>,
    /// There was DATA.
    pub(super) data: bool,
    /// The TSN of the first.
    pub(super) first_tsn: Option<u32>,
    /// SACKs so far.
    pub(super) sacks: u8,
    /// Something about it must be acknowledged at once.
    pub(super) urgent: bool,
    /// Nothing behind this chunk counts.
    pub(super) stop: bool,
    /// A request of RE-CONFIG has to wait, and what stands behind it too.
    pub(super) waits: bool,
}

impl Assoc {
    /// The tag of a packet is right for its first chunk (section 8.5).
    fn tag_fits(&self, inbound: &Inbound<'_>) -> bool {
        let Some(Ok(raw)) = Chunks::new(inbound.chunks).next() else { return false };
        if !matches!(raw.kind(), chunk_kind::ABORT | chunk_kind::SHUTDOWN_COMPLETE) {
            return inbound.vtag == self.id.tags.0;
        }
        match Chunk::parse(&raw) {
            Ok(Chunk::Abort(reflected, _) | Chunk::ShutdownComplete(reflected)) => {
                self.t_bit_fits(inbound, reflected)
            }
            _ => inbound.vtag == self.id.tags.0,
        }
    }

    /// The T bit says whose tag a packet has: who answers without an association sends back the tag of what he answers, which is the
    /// peer's; with the bit clear it must be ours (sections 8.5.1 B and C).
    const fn t_bit_fits(&self, inbound: &Inbound<'_>, reflected: bool) -> bool {
        let (ours, peers) = self.id.tags;
        if reflected { inbound.vtag == peers && peers != 0 } else { inbound.vtag == ours }
    }

    /// Takes a packet. INIT, COOKIE ECHO and INIT ACK have been dealt with ([`Assoc::on_init_ack`]); [`Assoc::input_behind`] reads what
    /// follows COOKIE ECHO.
    pub fn input(&mut self, cx: &mut Cx<'_>, inbound: &Inbound<'_>) -> Result<(), DropWhy> {
        if !self.tag_fits(inbound) {
            return Err(DropWhy::SctpTag);
        }
        self.owner.counting.add(|c| c.ipackets += 1);
        self.input_behind(cx, inbound);
        Ok(())
    }

    /// Takes the chunks of a packet whose tag is good.
    pub fn input_behind(&mut self, cx: &mut Cx<'_>, inbound: &Inbound<'_>) {
        let path = self.paths.find(inbound.from);
        let mut reading = Reading {
            inbound,
            path,
            data: false,
            first_tsn: None,
            sacks: 0,
            urgent: false,
            stop: false,
            waits: false,
        };
        self.tx.burst = None;
        if let Some(path) = path {
            // The tag was good: answers go where this came from, with or without UDP (RFC 6951 section 4.4).
            self.paths.get_mut(path).set_encap(inbound.encap);
            // An address that was not confirmed may be anybody's: only HEARTBEATs are answered there (section 5.4).
            if self.state.is_answered() && self.paths.get(path).state() != PathState::Unconfirmed {
                self.pending.reply_path = path;
            }
        }
        if self.state == State::ShutdownSent {
            // Whoever talks has time to send all that it has queued; T5 bounds that (section 9.2).
            self.errors = 0;
        }
        let readable = self.rx.streams.is_readable();
        self.rx.streams.begin_packet(inbound.chunks.len(), inbound.buffer.len());
        for raw in Chunks::new(inbound.chunks) {
            // A partial chunk is dropped (section 6.10).
            if matches!(raw, Err(Malformed::Truncated)) {
                break;
            }
            match raw.map(|raw| (raw, Chunk::parse(&raw))) {
                Ok((raw, Ok(chunk))) => self.chunk(cx, &mut reading, &raw, &chunk),
                Ok((raw, Err(_))) if self.ignores(raw.kind()) => {}
                _ => self.violation(cx, b"chunk length"),
            }
            if reading.stop || self.state == State::Closed {
                break;
            }
        }
        let (copied, torn) = self.rx.streams.end_packet();
        cx.count.own.payload_copied_inside += copied as u64;
        cx.count.sctp.in_data_chunk_discards += torn;
        if reading.data && self.state != State::Closed {
            self.on_data_packet(cx, &reading);
        }
        if self.rx.streams.is_readable() && !readable {
            self.owner.notice.add(Notice::READABLE);
        }
        self.owner.counting.note_rto(&mut self.paths);
    }

    /// Chunks of this kind mean nothing now, whatever is in them (section 6).
    const fn ignores(&self, kind: u8) -> bool {
        match kind {
            chunk_kind::DATA => !self.state.may_receive_data(),
            chunk_kind::SACK => !self.state.takes_sack(),
            _ => false,
        }
    }

    fn chunk(&mut self, cx: &mut Cx<'_>, reading: &mut Reading<'_>, raw: &RawChunk<'_>, chunk: &Chunk<'_>) {
        if !matches!(chunk, Chunk::Data(..)) {
            cx.count.sctp.in_ctrl_chunks += 1;
            self.owner.counting.on_control(chunk);
        }
        match chunk {
            Chunk::Data(header, data) => self.on_data(cx, reading, header, data),
            // Each costs a walk over what is out where it takes back what the last one said.
            Chunk::Sack(_) if reading.sacks >= SCTP_SACKS_MAX => cx.count.own.sctp_sacks_ignored += 1,
            Chunk::Sack(sack) => {
                reading.sacks += 1;
                self.on_sack(cx, sack);
            }
            Chunk::Heartbeat(_) => self.on_heartbeat(reading, raw),
            Chunk::HeartbeatAck(info) => self.on_heartbeat_ack(cx, *info),
            Chunk::CookieAck => self.on_cookie_ack(cx),
            Chunk::Abort(reflected, _) | Chunk::ShutdownComplete(reflected)
                if !self.t_bit_fits(reading.inbound, *reflected) =>
            {
                cx.count.dropped(DropWhy::SctpTag);
                reading.stop = true;
            }
            // The peer has no association any more, and ended it when it had all that we have to send: else we would not be here. It says the same of
            // our SHUTDOWN ACK by SHUTDOWN COMPLETE (section 8.4, rule 5), which this answer to something older has overtaken.
            Chunk::Abort(true, _) if self.state == State::ShutdownAckSent => self.on_shutdown_complete(cx),
            Chunk::Abort(_, causes) => self.on_abort(cx, *causes),
            Chunk::Error(causes) => self.on_error_chunk(cx, *causes),
            Chunk::Shutdown(cum) => self.on_shutdown(cx, *cum),
            Chunk::ShutdownAck => self.on_shutdown_ack(cx),
            Chunk::ShutdownComplete(_) => {
                // It is alone in its packet (section 6.10), whose tag may be good for nothing else.
                if raw.bytes().len() == reading.inbound.chunks.len() {
                    self.on_shutdown_complete(cx);
                }
                reading.stop = true;
            }
            // INIT and INIT ACK are the only chunks of their packets, and a second COOKIE ECHO makes no sense (sections 5.1 and 6.10).
            Chunk::Init(_) | Chunk::InitAck(_) => reading.stop = true,
            Chunk::CookieEcho(_) | Chunk::Pad(_) => {}
            Chunk::Ecne(tsn) if self.uses_ecn() => self.on_ecne(cx, *tsn),
            Chunk::Cwr(tsn) if self.uses_ecn() => self.on_cwr(*tsn),
            Chunk::ForwardTsn(tsn, streams) if self.id.features.has(Features::FORWARD_TSN) => {
                self.on_forward_tsn(cx, reading, *tsn, streams);
            }
            Chunk::ReConfig(params) if self.id.features.has(Features::RECONF) => {
                self.on_reconfig(cx, reading, *params);
            }
            _ => self.unknown(reading, raw),
        }
    }

    /// A chunk of a type that is not known, or of an extension that was not agreed on (section 3.2).
    fn unknown(&mut self, reading: &mut Reading<'_>, raw: &RawChunk<'_>) {
        let unknown = raw.unknown();
        if unknown.reports() {
            // With its padding, as Linux quotes it (`sctp_sf_unk_chunk`); RFC 9260 section 3.3.10.6 leaves that open.
            let mut quoted = raw.bytes().to_vec();
            quoted.resize(padded(quoted.len()), 0);
            self.report(&Cause::UnrecognizedChunk(&quoted));
        }
        reading.stop = unknown.stops();
    }

    /// An ERROR with this cause will be sent, if the association is far enough.
    pub(super) fn report(&mut self, cause: &Cause<'_>) {
        if self.state.is_answered() {
            self.pending.error(one_cause(cause));
        }
    }

    /// The peer has broken the rules: the association is aborted.
    pub(super) fn violation(&mut self, cx: &mut Cx<'_>, what: &'static [u8]) {
        self.abort(cx, one_cause(&Cause::ProtocolViolation(what)), Error::Aborted);
    }
}

/// One cause as bytes.
pub(super) fn one_cause(cause: &Cause<'_>) -> Bytes {
    let mut list = TlvList::default();
    list.push(cause.stated_len(), |out| cause.emit(out));
    list.into_bytes()
}
