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
use lowwater_wire::sctp::{HEADER_LEN, SctpRepr, fill_checksum};

/// A packet on its way, or several of one length that go together; the last one may be shorter.
#[derive(Debug)]
pub struct Outgoing {
    /// Where to.
    pub path: PathId,
    /// The packets, each with its common header and CRC32c, at the beginning of their page: what is left of it takes more.
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

/// What came of writing one more packet behind others.
#[derive(Debug)]
pub enum More {
    /// It goes with them.
    Joined,
    /// It goes by itself, behind them.
    Behind(Outgoing),
    /// There is none.
    Nothing,
}

impl Outgoing {
    /// The page for one more packet of `len` bytes, if it may go along: all before it are of one length, and it fits.
    fn lend(&mut self, len: usize, most: usize) -> Option<BytesMut> {
        let end = self.bytes.len() + len;
        let goes = !self.fragment && self.bytes.len().is_multiple_of(self.unit);
        (goes && end <= most && end <= self.bytes.capacity()).then(|| core::mem::take(&mut self.bytes))
    }

    /// The page comes back with one more packet, or without.
    fn give_back(&mut self, written: Result<Outgoing, BytesMut>, before: usize) -> More {
        let mut next = match written {
            Ok(next) => next,
            Err(page) => {
                self.bytes = page;
                return More::Nothing;
            }
        };
        let alike = self.path == next.path && (self.charge > 0, self.ect) == (next.charge > 0, next.ect);
        if alike && next.unit <= self.unit && !next.fragment {
            self.bytes = next.bytes;
            self.charge += next.charge;
            return More::Joined;
        }
        let own = next.bytes.split_off(before);
        self.bytes = core::mem::replace(&mut next.bytes, own);
        More::Behind(next)
    }
}

/// Where the next packet goes.
struct Target {
    path: PathId,
    /// There is nothing to say but data, and the gatekeepers have let it pass.
    data: bool,
}

/// A packet that is being written.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) path: PathId,
    pub(super) bundle: Bundle,
    /// Bytes of user data.
    pub(super) data_bytes: u32,
    /// There is nothing to say but data, and the gatekeepers have let it pass.
    pub(super) admitted: bool,
    /// It can refresh the round-trip time: DATA, INIT, COOKIE ECHO or HEARTBEAT.
    pub(super) refreshes: bool,
    /// Something in it goes again.
    pub(super) again: bool,
    /// The lowest outstanding TSN of the path does.
    pub(super) restart_t3: bool,
    pub(super) fragment: bool,
}

impl Writing {
    fn new(path: PathId, room: usize, page: BytesMut) -> Self {
        Self {
            path,
            bundle: Bundle::new(room, page),
            data_bytes: 0,
            admitted: false,
            refreshes: false,
            again: false,
            restart_t3: false,
            fragment: false,
        }
    }
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
        let target = self.target(cx)?;
        let first = self.output_to(cx, &target);
        if first.is_some() || target.data {
            return first;
        }
        // What waited to be said was settled by something else, which is no reason for data to wait.
        let path = self.data_target(cx)?;
        self.output_to(cx, &Target { path, data: true })
    }

    fn output_to(&mut self, cx: &mut Cx<'_>, target: &Target) -> Option<Outgoing> {
        let page = cx.pool.lend(self.packet_len(target.path));
        let written = self.write_packet(cx, target, page);
        written.map_err(|page| cx.pool.restore(page)).ok()
    }

    /// One more packet that may go as one of `most` bytes with those before it, or comes right behind them. What is left of the page
    /// is theirs as long as more may join.
    pub fn output_more(&mut self, cx: &mut Cx<'_>, out: &mut Outgoing, most: usize) -> More {
        if out.charge == 0 || self.paths.get(out.path).flow.train == 0 || self.wants_probe() {
            return More::Nothing;
        }
        self.drop_expired(cx);
        self.drop_abandoned(cx);
        let Some(target) = self.target(cx).filter(|target| target.path == out.path) else {
            return More::Nothing;
        };
        let Some(page) = out.lend(self.packet_len(target.path), most) else { return More::Nothing };
        let before = page.len();
        let written = self.write_packet(cx, &target, page);
        out.give_back(written, before)
    }

    /// Bytes of the longest packet to a path, from the common header on.
    fn packet_len(&self, path: PathId) -> usize {
        HEADER_LEN + self.paths.get(path).pmdcs() as usize
    }

    fn write_packet(&mut self, cx: &mut Cx<'_>, to: &Target, page: BytesMut) -> Result<Outgoing, BytesMut> {
        let (path, at) = (to.path, page.len());
        let room = self.paths.get(path).pmdcs() as usize;
        let mut writing = Writing { admitted: to.data, ..Writing::new(path, room, page) };
        let vtag = if self.pending.has(Pending::INIT) { 0 } else { self.id.tags.1 };
        if to.data || self.write_control(cx, &mut writing) {
            self.write_data(cx, &mut writing);
        }
        let fragment = writing.fragment || writing.bundle.len() > room;
        let ect = self.uses_ecn() && writing.data_bytes > 0;
        let (charge, depart_at) = self.on_packet_sent(cx, &writing);
        let bytes = self.finish_packet(cx, writing.bundle, vtag)?;
        let unit = bytes.len() - at;
        Ok(Outgoing { path, bytes, unit, charge, depart_at, fragment, ect })
    }

    /// The page with one more packet, or as it was where there are no chunks.
    pub(super) fn finish_packet(
        &mut self,
        cx: &mut Cx<'_>,
        bundle: Bundle,
        vtag: u32,
    ) -> Result<BytesMut, BytesMut> {
        let len = HEADER_LEN + bundle.len();
        let mut page = bundle.finish()?;
        cx.count.sctp.out_sctp_packs += 1;
        self.owner.counting.add(|c| c.opackets += 1);
        let at = page.len() - len;
        self.seal(&mut page[at..], vtag);
        Ok(page)
    }

    /// Writes the common header in front of the chunks, and the CRC32c.
    fn seal(&self, packet: &mut [u8], vtag: u32) {
        let (src_port, dst_port) = self.id.ports;
        SctpRepr { src_port, dst_port, vtag }.emit(packet);
        // The field is zero so far, which stands for none (RFC 9653).
        if !self.omits_crc(&packet[HEADER_LEN..]) {
            fill_checksum(packet, &[]);
        }
    }

    /// The SACK that the packet just read makes due, by itself. Each such packet has its own, however many came at once: a sender
    /// counts SACKs that miss a chunk, not what they say (section 7.2.4). `None` when it goes with an answer that waits.
    pub fn output_sack(&mut self, cx: &mut Cx<'_>) -> Option<Outgoing> {
        if !self.owes_sack_alone() {
            return None;
        }
        let path = self.sack_path();
        let page = cx.pool.lend(self.sack_packet_len(path));
        self.write_sack_packet(cx, path, page).map_err(|page| cx.pool.restore(page)).ok()
    }

    /// The same behind others, which may go as one of `most` bytes.
    pub fn output_more_sack(&mut self, cx: &mut Cx<'_>, out: &mut Outgoing, most: usize) -> More {
        if !self.owes_sack_alone() {
            return More::Nothing;
        }
        let path = self.sack_path();
        let Some(page) = out.lend(self.sack_packet_len(path), most) else {
            return self.output_sack(cx).map_or(More::Nothing, More::Behind);
        };
        let before = page.len();
        let written = self.write_sack_packet(cx, path, page);
        out.give_back(written, before)
    }

    /// Bytes of a packet that holds a SACK alone, at the most.
    fn sack_packet_len(&self, path: PathId) -> usize {
        HEADER_LEN + self.sack_len().min(self.paths.get(path).pmdcs() as usize)
    }

    fn owes_sack_alone(&self) -> bool {
        self.rx.ack.is_due() && self.state.is_up() && self.pending.is_empty()
    }

    fn write_sack_packet(
        &mut self,
        cx: &mut Cx<'_>,
        path: PathId,
        page: BytesMut,
    ) -> Result<Outgoing, BytesMut> {
        let (at, room) = (page.len(), self.paths.get(path).pmdcs() as usize);
        let mut writing = Writing::new(path, room, page);
        self.write_sack(cx, &mut writing, false);
        let bytes = self.finish_packet(cx, writing.bundle, self.id.tags.1)?;
        let unit = bytes.len() - at;
        Ok(Outgoing { path, bytes, unit, charge: 0, depart_at: cx.now, fragment: false, ect: false })
    }

    /// Timers, pacing and credit of a packet that leaves.
    fn on_packet_sent(&mut self, cx: &mut Cx<'_>, writing: &Writing) -> (u32, Instant) {
        if writing.data_bytes > 0 && self.state == State::Established {
            self.timers.set_autoclose(cx.now, self.options.autoclose_secs);
        }
        let path = self.paths.get_mut(writing.path);
        if writing.refreshes {
            path.on_transmit(cx);
        }
        if writing.data_bytes == 0 {
            return (0, cx.now);
        }
        self.note_length(writing.path, writing.bundle.len(), writing.data_bytes);
        let path = self.paths.get_mut(writing.path);
        let depart_at = path.flow.pacing.on_send(cx.now, writing.bundle.len(), 1);
        path.cwnd.last_data = cx.now;
        // With nothing else out there the timer that runs was waiting for the device, or is none of this packet's.
        if writing.restart_t3 || path.cwnd.flight() == writing.data_bytes {
            path.restart_t3(depart_at);
        } else {
            path.start_t3(depart_at);
        }
        let charge = writing.bundle.len() as u32 + PACKET_OVERHEAD;
        path.flow.credit.charge(charge);
        // What may follow at once is what the rate passes on in a millisecond, as with TCP's super-packets.
        let whole = u32::try_from(path.flow.pacing.rate() >> PACING_SHIFT).unwrap_or(u32::MAX);
        let left = if path.flow.train == 0 { whole } else { path.flow.train };
        path.flow.train = left.saturating_sub(charge);
        // The permission of section 7.2.4, rule 3, is for what goes again, not for new data that another path has room for.
        let spent = self.tx.fast && writing.again;
        if spent || self.tx.out.lost() == 0 {
            self.tx.fast = false;
        }
        if let Some(left) = &mut self.tx.burst
            && !spent
        {
            *left = left.saturating_sub(1);
        }
        (charge, depart_at)
    }

    /// One packet of what goes again may leave whatever window and pace say (RFC 9260 section 7.2.4, rule 3); for checkers.
    #[must_use]
    pub const fn may_send_fast(&self) -> bool {
        self.tx.fast
    }

    /// The turn is over: the next packets ask the pacer again.
    pub fn end_train(&mut self) {
        for (_, path) in self.paths.iter_mut() {
            path.flow.train = 0;
        }
    }

    /// Where the next packet goes, by what is most urgent.
    fn target(&mut self, cx: &mut Cx<'_>) -> Option<Target> {
        match self.control_target() {
            Some(path) => Some(Target { path, data: false }),
            None => self.data_target(cx).map(|path| Target { path, data: true }),
        }
    }

    /// Where control chunks or a SACK wait to go.
    fn control_target(&self) -> Option<PathId> {
        if !self.pending.is_empty()
            && let Some(path) = self.pending_target()
        {
            return Some(path);
        }
        if let Some((id, _)) = self.paths.iter().find(|(_, path)| path.hb.wanted) {
            return Some(id);
        }
        self.rx.ack.is_due().then(|| self.sack_path())
    }

    fn pending_target(&self) -> Option<PathId> {
        let pending = &self.pending;
        if pending.aborts() || pending.has(Pending::SHUTDOWN_COMPLETE) {
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
        if let Some(&(path, _)) = pending.next_echo() {
            return Some(path);
        }
        let replies = Pending::SHUTDOWN | Pending::SHUTDOWN_ACK | Pending::CWR | Pending::RECONF_ANSWER;
        if pending.next_error().is_some() || pending.has(replies) {
            return Some(pending.reply_path);
        }
        (self.skip_is_due() || pending.has(Pending::RECONF)).then(|| self.paths.active())
    }

    /// FORWARD TSN is to be sent: not before COOKIE ACK, for it may take another path than COOKIE ECHO and overtake it.
    const fn skip_is_due(&self) -> bool {
        self.pending.has(Pending::FORWARD_TSN) && self.state.is_up()
    }

    /// Where a SACK goes: where DATA came from, unless that path has failed or nothing was heard from there yet: the peer may have named
    /// any address (section 5.4, Linux `sctp_outq_select_transport`).
    fn sack_path(&self) -> PathId {
        let path = self.paths.get(self.rx.path);
        let good = path.usable() && path.state() != PathState::Inactive;
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
