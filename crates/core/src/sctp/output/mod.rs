//! What leaves, packet by packet: first where to, then control chunks, a SACK, lost data, new data (RFC 9260 sections 6.1, 6.10).
pub(super) mod bundle;
mod control;
mod data;

use super::assoc::Assoc;
use super::paths::{PathId, PathState};
use super::pending::Pending;
use super::state::State;
use crate::base::{Cx, Instant};
use crate::path::pacing::PACING_SHIFT;
use bundle::Bundle;
use bytes::BytesMut;
use lowwater_wire::sctp::HEADER_LEN;

/// A packet on its way, or several of one length that go together; the last one may be shorter.
#[derive(Debug)]
pub struct Outgoing {
    /// Where to.
    pub path: PathId,
    /// Its verification tag.
    pub vtag: u32,
    /// Its chunks behind room for the common header.
    pub bytes: BytesMut,
    /// Length of the first one.
    pub unit: usize,
    /// Credit that it holds; 0 for what nobody pays for.
    pub charge: u32,
    /// When it may leave.
    pub depart_at: Instant,
    /// It is longer than the path: IP may fragment it.
    pub fragment: bool,
    /// Routers may mark it instead of dropping it.
    pub ect: bool,
}

impl Outgoing {
    /// Takes in the packet that comes next, whose common header is written, where both may go as one of `most` bytes; gives it back
    /// where not.
    ///
    /// # Errors
    /// The packet that was not taken.
    #[allow(clippy::result_large_err, reason = "a packet moves by value")]
    pub fn join(&mut self, next: Self, most: usize) -> Result<(), Self> {
        let alike = self.path == next.path
            && self.vtag == next.vtag
            && (self.charge > 0, self.ect) == (next.charge > 0, next.ect);
        let full = self.bytes.len().is_multiple_of(self.unit) && next.bytes.len() <= self.unit;
        let fits = self.bytes.len() + next.bytes.len() <= most;
        if !(alike && full && fits) || self.fragment || next.fragment {
            return Err(next);
        }
        // They are neighbours in their page, so that this copies nothing.
        self.bytes.unsplit(next.bytes);
        self.charge += next.charge;
        Ok(())
    }
}

/// A packet that is being written.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) path: PathId,
    pub(super) bundle: Bundle,
    /// Bytes of user data.
    pub(super) data_bytes: u32,
    /// It can refresh the round-trip time: DATA, INIT, COOKIE ECHO or HEARTBEAT.
    pub(super) refreshes: bool,
    /// The lowest outstanding TSN of the path goes again.
    pub(super) restart_t3: bool,
    pub(super) fragment: bool,
}

impl Writing {
    fn new(path: PathId, room: usize, page: BytesMut) -> Self {
        Self {
            path,
            bundle: Bundle::new(room, page),
            data_bytes: 0,
            refreshes: false,
            restart_t3: false,
            fragment: false,
        }
    }
}

/// The packet that was written, if anything was; the rest of the page goes back.
fn finish(cx: &mut Cx<'_>, writing: Writing) -> Option<BytesMut> {
    let (packet, rest) = writing.bundle.finish();
    cx.pool.restore(rest);
    cx.count.sctp.out_sctp_packs += u64::from(packet.is_some());
    packet
}

/// What a packet costs beside its bytes, for the credit ledger.
const PACKET_OVERHEAD: u32 = 256;

impl Assoc {
    /// The next packet, or `None` when there is nothing to say; then [`Assoc::wait`] tells why.
    pub fn output(&mut self, cx: &mut Cx<'_>) -> Option<Outgoing> {
        self.drop_expired(cx);
        self.drop_abandoned(cx);
        if let Some(probe) = self.output_probe(cx) {
            return Some(probe);
        }
        let id = self.target(cx)?;
        let room = self.paths.get(id).pmdcs() as usize;
        let mut writing = Writing::new(id, room, cx.pool.lend(HEADER_LEN + room));
        let vtag = if self.pending.has(Pending::INIT) { 0 } else { self.id.tags.1 };
        if self.write_control(cx, &mut writing) {
            self.write_data(cx, &mut writing);
        }
        let fragment = writing.fragment || writing.bundle.len() > room;
        let ect = self.uses_ecn() && writing.data_bytes > 0;
        let (charge, depart_at) = self.on_packet_sent(cx, &writing);
        let bytes = finish(cx, writing)?;
        let unit = bytes.len();
        Some(Outgoing { path: id, vtag, bytes, unit, charge, depart_at, fragment, ect })
    }

    /// The SACK that the packet just read makes due, by itself. Each such packet has its own, however many came at once: a sender
    /// counts SACKs that miss a chunk, not what they say (section 7.2.4). `None` when it goes with an answer that waits.
    pub fn output_sack(&mut self, cx: &mut Cx<'_>) -> Option<Outgoing> {
        if !self.rx.ack.is_due() || !self.state.is_up() || !self.pending.is_empty() {
            return None;
        }
        let path = self.sack_path();
        let room = self.paths.get(path).pmdcs() as usize;
        let mut writing = Writing::new(path, room, cx.pool.lend(HEADER_LEN + room));
        self.write_sack(cx, &mut writing, false);
        let bytes = finish(cx, writing)?;
        let (vtag, depart_at, unit) = (self.id.tags.1, cx.now, bytes.len());
        Some(Outgoing { path, vtag, bytes, unit, charge: 0, depart_at, fragment: false, ect: false })
    }

    /// Timers, pacing and credit of a packet that leaves.
    fn on_packet_sent(&mut self, cx: &mut Cx<'_>, writing: &Writing) -> (u32, Instant) {
        let path = self.paths.get_mut(writing.path);
        if writing.refreshes {
            path.on_transmit(cx);
        }
        if writing.data_bytes == 0 {
            return (0, cx.now);
        }
        let depart_at = path.flow.pacing.on_send(cx.now, writing.bundle.len(), 1);
        path.cwnd.last_data = cx.now;
        if writing.restart_t3 {
            path.restart_t3(depart_at);
        } else {
            path.start_t3(depart_at);
        }
        let charge = writing.bundle.len() as u32 + PACKET_OVERHEAD;
        self.credit.charge(charge);
        // What may follow at once is what the rate passes on in a millisecond, as with TCP's super-packets.
        let whole = u32::try_from(path.flow.pacing.rate() >> PACING_SHIFT).unwrap_or(u32::MAX);
        let left = if path.flow.train == 0 { whole } else { path.flow.train };
        path.flow.train = left.saturating_sub(charge);
        if self.tx.fast {
            self.tx.fast = false;
        } else if let Some(left) = &mut self.tx.burst {
            *left = left.saturating_sub(1);
        }
        (charge, depart_at)
    }

    /// The next packet may go together with the one before: [`Outgoing::join`].
    #[must_use]
    pub fn goes_on(&self, path: PathId) -> bool {
        self.paths.get(path).flow.train > 0
    }

    /// The turn is over: the next packets ask the pacer again.
    pub fn end_train(&mut self) {
        for (_, path) in self.paths.iter_mut() {
            path.flow.train = 0;
        }
    }

    /// Where the next packet goes, by what is most urgent.
    fn target(&mut self, cx: &mut Cx<'_>) -> Option<PathId> {
        let pending = &self.pending;
        if pending.abort.is_some() || pending.has(Pending::SHUTDOWN_COMPLETE) {
            return Some(pending.reply_path);
        }
        if let Some(opening) = &self.opening
            && pending.has(Pending::INIT | Pending::COOKIE_ECHO)
        {
            return Some(opening.path);
        }
        if pending.has(Pending::COOKIE_ACK) {
            return Some(pending.reply_path);
        }
        if let Some(&(path, _)) = pending.echoes.front() {
            return Some(path);
        }
        let replies = Pending::SHUTDOWN | Pending::SHUTDOWN_ACK | Pending::CWR;
        if !pending.errors.is_empty() || pending.has(replies) {
            return Some(pending.reply_path);
        }
        if pending.has(Pending::FORWARD_TSN) {
            return Some(self.paths.active());
        }
        if let Some((id, _)) = self.paths.iter().find(|(_, path)| path.hb.wanted) {
            return Some(id);
        }
        if self.rx.ack.is_due() {
            return Some(self.sack_path());
        }
        self.data_target(cx)
    }

    /// Where a SACK goes: where DATA came from, unless that path has failed.
    fn sack_path(&self) -> PathId {
        let path = self.paths.get(self.rx.path);
        let good = path.local.is_some() && path.state() != PathState::Inactive;
        if good { self.rx.path } else { self.paths.active() }
    }

    /// Asking [`Assoc::output`] may be worth it.
    #[must_use]
    pub fn wants_output(&self) -> bool {
        let data = (self.state.may_send_data() || self.state == State::CookieEchoed)
            && (self.tx.out.lost() > 0 || !self.tx.queue.is_empty());
        !self.pending.is_empty()
            || (self.rx.ack.is_due() && self.state.is_up())
            || data
            || self.paths.iter().any(|(_, path)| path.hb.wanted)
            || self.wants_probe()
    }
}
