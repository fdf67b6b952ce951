//! DATA: what may leave, by the gatekeepers in their order, lost chunks before new ones (RFC 9260 sections 6.1, 6.9, 7.2).
use super::Writing;
use crate::base::{Cx, Instant, Wait, steps};
use crate::credit::{Admission, Ask};
use crate::path::pacing::PACING_SHIFT;
use crate::sctp::assoc::Assoc;
use crate::sctp::message::SendInfo;
use crate::sctp::outstanding::{Chunk, Loss, Mark};
use crate::sctp::partial_reliability::Why;
use crate::sctp::paths::{PathId, PathState};
use crate::sctp::pending::Pending;
use crate::sctp::sender::Probe;
use crate::sctp::state::State;
use crate::sctp::tsn::Tsn;
use lowwater_wire::sctp::{DATA_HEADER_LEN, DataFlags, DataRepr, padded};

impl Assoc {
    /// Why nothing more is sent, from the last turn; until when, if a time decides.
    #[must_use]
    pub const fn wait(&self) -> (Wait, Option<Instant>) {
        self.tx.hold
    }

    pub(in crate::sctp) fn paced_until(&self) -> Option<Instant> {
        self.tx.hold.1
    }

    /// Where the next packet with DATA goes, if one may go at all.
    pub(super) fn data_target(&mut self, cx: &mut Cx<'_>) -> Option<PathId> {
        match self.next_data(cx) {
            Ok(id) => {
                self.tx.hold = (Wait::Empty, None);
                Some(id)
            }
            Err((why, until)) => {
                self.tx.hold = (why, until);
                cx.count.wait(why);
                None
            }
        }
    }

    fn next_data(&mut self, cx: &mut Cx<'_>) -> Result<PathId, (Wait, Option<Instant>)> {
        if self.tx.out.lost() == 0 && self.tx.queue.is_empty() {
            return Err((Wait::Empty, None));
        }
        if !self.state.may_send_data() {
            return Err((Wait::Handshake, None));
        }
        let mut held = 0;
        if let Some(found) = self.next_lost(cx, &mut held) {
            return found;
        }
        if self.tx.queue.is_empty() {
            return Err((self.held_by(held), None));
        }
        let id = self.new_data_path();
        if held & (1 << id) == 0 {
            match self.may_leave(cx, id, false) {
                Err((Wait::Credit, _)) => held |= 1 << id,
                found => return found.map(|()| id),
            }
        }
        self.overtake(cx, held)
    }

    /// Where the lowest lost chunk goes whose path leads somewhere by a device that is not full, or why not yet; `None` where all of them
    /// wait for the paths in `held`, which holds back no other path.
    fn next_lost(
        &mut self,
        cx: &mut Cx<'_>,
        held: &mut u64,
    ) -> Option<Result<PathId, (Wait, Option<Instant>)>> {
        let first = self.tx.out.cum().next();
        // Each round settles one path: there are no more rounds than paths, however much is lost.
        while let Some((_, loss)) =
            self.tx.out.next_lost(first, |loss| *held & (1 << self.rtx_path(loss)) == 0)
        {
            steps::step();
            let id = self.rtx_path(loss);
            match self.may_leave(cx, id, true) {
                // The same chunk is asked again: what a timer gave up takes a path whose device is not full.
                Err((Wait::Credit | Wait::NoPath, _)) => *held |= 1 << id,
                found => return Some(found.map(|()| id)),
            }
        }
        None
    }

    /// All that was lost and does not go by `path` waits for the devices of others, or for a route.
    fn lost_waits_elsewhere(&self, path: PathId) -> bool {
        !self.tx.out.losses().any(|loss| {
            steps::step();
            let id = self.rtx_path(loss);
            let other = self.paths.get(id);
            id == path || other.is_routed() && !other.flow.credit.is_throttled()
        })
    }

    /// The message whose turn it is waits for its path's device, which is no reason for those that go by another than the paths in
    /// `held`: the path of the first that may go instead, or when the next one's pacer lets it.
    fn overtake(&mut self, cx: &mut Cx<'_>, mut held: u64) -> Result<PathId, (Wait, Option<Instant>)> {
        let mut next: Option<Instant> = None;
        for _ in 1..self.paths.len() {
            let goes = |info: &SendInfo| held & (1 << self.path_of(info)) == 0;
            let Some(at) = self.tx.queue.find_overtaking(cx.now, goes) else { break };
            self.tx.queue.bring_forward(at);
            let id = self.new_data_path();
            let Err((_, until)) = self.may_leave(cx, id, false) else { return Ok(id) };
            self.tx.queue.put_back(at);
            held |= 1 << id;
            next = next.into_iter().chain(until).min();
        }
        Err((self.held_by(held), next))
    }

    /// What everything waits for that goes by the paths in `held`: a device, or a route where none of them has any.
    fn held_by(&self, held: u64) -> Wait {
        let routed = self.paths.iter().any(|(id, path)| held & (1 << id) != 0 && path.is_routed());
        if routed { Wait::Credit } else { Wait::NoPath }
    }

    /// The gatekeepers of a packet, in their order.
    fn may_leave(&mut self, cx: &mut Cx<'_>, id: PathId, again: bool) -> Result<(), (Wait, Option<Instant>)> {
        let path = self.paths.get_mut(id);
        if !path.is_routed() {
            return Err((Wait::NoPath, None));
        }
        let fast = again && self.tx.fast;
        if let Some(at) = path.flow.pacing.not_before(cx.now).filter(|_| !fast && path.flow.train == 0) {
            return Err((Wait::Pacing, Some(at)));
        }
        let ask = Ask {
            charge: path.pmdcs() + super::PACKET_OVERHEAD,
            pacing_rate: path.flow.pacing.rate(),
            pacing_shift: PACING_SHIFT,
            // A path with nothing below it is never held back: nothing of the association may be left to have it go on.
            cap: Some(cx.sysctl.tcp_limit_output_bytes.max(1)),
            retransmission: again,
            rtx_single: self.tx.out.len() <= 1,
        };
        if path.flow.credit.ask(&ask) == Admission::Throttled {
            // Its device takes nothing: when that lasts the path has failed, whether something of it is in flight or not.
            path.start_t3(cx.now);
            return Err((Wait::Credit, None));
        }
        let next = self.tx.out.next_tsn();
        path.before_data(cx, next);
        if !path.cwnd.has_room() && !fast {
            path.on_window_full(next);
            return Err((Wait::Cwnd, None));
        }
        self.check_burst(id, fast)?;
        if again {
            return Ok(());
        }
        let point = self.paths.fragment_point(self.options.maxseg);
        self.check_new(id, 0, point)
    }

    /// max_burst, for paths that nobody paces (section 6.1 D).
    fn check_burst(&mut self, id: PathId, fast: bool) -> Result<(), (Wait, Option<Instant>)> {
        let path = self.paths.get(id);
        let paced = path.flow.pacing.is_paced() && path.rto.srtt().is_some();
        if self.options.max_burst == 0 || paced || fast {
            return Ok(());
        }
        let left = *self.tx.burst.get_or_insert(self.options.max_burst);
        // Without anything in flight nothing would open another opportunity.
        if left == 0 && path.cwnd.flight() > 0 { Err((Wait::Cwnd, None)) } else { Ok(()) }
    }

    /// May the message whose turn it is begin or go on, `written` bytes of chunks being in the packet already and `point` in a chunk at
    /// the most? Its stream, the peer's window, then MSG_MORE and Nagle's rule.
    fn check_new(&self, id: PathId, written: usize, point: usize) -> Result<(), (Wait, Option<Instant>)> {
        let Some(message) = self.tx.queue.front() else { return Err((Wait::Empty, None)) };
        if self.is_stream_closed(message.info().stream) {
            return Err((Wait::Handshake, None));
        }
        let pmdcs = self.paths.get(id).pmdcs() as usize;
        let next = message.data().len().min(point);
        // One chunk may always be out, so that a window that has opened is heard of (rule A).
        if (self.tx.peer_rwnd as usize) < next && self.tx.out.in_flight() > 0 {
            return Err((Wait::RecvWindow, None));
        }
        let full = written + self.tx.queue.bytes() + DATA_HEADER_LEN >= pmdcs - pmdcs % 4;
        let whole = self.state == State::Established && !message.is_begun() && written == 0;
        if !whole || full {
            return Ok(());
        }
        match self.tx.queue.wants_more() {
            true => Err((Wait::Cork, None)),
            false if !self.options.nodelay && self.tx.out.in_flight() > 0 => Err((Wait::Nagle, None)),
            false => Ok(()),
        }
    }

    /// Where the message whose turn it is goes.
    fn new_data_path(&self) -> PathId {
        self.tx.queue.front().map_or(self.paths.active(), |message| self.path_of(message.info()))
    }

    /// New data goes where its message wants, while that path is well (Linux `sctp_outq_select_transport`), or where all does.
    fn path_of(&self, info: &SendInfo) -> PathId {
        let well = |id: &PathId| {
            let path = self.paths.get(*id);
            path.is_routed() && path.state() == PathState::Active
        };
        info.to.and_then(|ip| self.paths.find(ip)).filter(well).unwrap_or(self.paths.active())
    }

    /// A lost chunk goes elsewhere when a timer has given it up (section 6.4.1); what SACKs miss goes the same way again (section 7.2.4),
    /// also where that path's device is full: a timer runs for that too.
    fn rtx_path(&self, loss: Loss) -> PathId {
        let path = self.paths.get(loss.path);
        let same = loss.missed && path.errors == 0 && path.is_routed();
        if same || self.paths.len() == 1 { loss.path } else { self.paths.alternate(loss.path) }
    }

    /// Messages whose lifetime is over before they began. Where they were the last that a shutdown waited for, it goes on.
    pub(in crate::sctp) fn drop_expired(&mut self, cx: &Cx<'_>) {
        if self.tx.queue.next_expiry() > cx.now {
            return;
        }
        let before = self.tx.queue.len();
        while let Some(message) = self.tx.queue.take_expired(cx.now) {
            self.give_up_unsent(Why::Lifetime, &message);
        }
        if self.tx.queue.len() < before {
            self.after_acks(cx);
        }
    }

    /// Fills the packet: a SACK, then lost chunks, then new ones.
    pub(super) fn write_data(&mut self, cx: &mut Cx<'_>, writing: &mut Writing) {
        let early = self.state == State::CookieEchoed && writing.refreshes && self.opening.is_some();
        let target = if writing.admitted {
            Some(writing.path)
        } else if self.state.may_send_data() && !self.pending.has(Pending::SHUTDOWN) {
            self.next_data(cx).ok()
        } else {
            None
        };
        let here = target == Some(writing.path);
        self.write_sack(cx, writing, here);
        if here {
            self.write_lost(cx, writing);
        }
        if (here || early) && self.lost_waits_elsewhere(writing.path) {
            self.write_new(cx, writing);
        }
    }

    fn write_lost(&mut self, cx: &mut Cx<'_>, writing: &mut Writing) {
        let mut from = self.tx.out.cum().next();
        while let Some((tsn, _)) = self.tx.out.next_lost(from, |loss| self.rtx_path(loss) == writing.path) {
            steps::step();
            from = tsn.next();
            let Some(len) = self.tx.out.get(tsn).map(|c| c.data.len()) else { return };
            let room = self.paths.get(writing.path).cwnd.has_room_in_packet();
            if !room && !self.tx.fast {
                return;
            }
            if DATA_HEADER_LEN + padded(len) > writing.bundle.room() {
                if !writing.bundle.is_empty() {
                    return;
                }
                // The path has become narrower than the chunk is: nothing joins it.
                writing.fragment = true;
                return self.resend(cx, writing, tsn);
            }
            self.resend(cx, writing, tsn);
        }
    }

    fn resend(&mut self, cx: &mut Cx<'_>, writing: &mut Writing, tsn: Tsn) {
        // What follows it in the packet is higher.
        let in_flight = self.paths.get(writing.path).cwnd.flight() > 0;
        let lowest = writing.data_bytes == 0 && self.tx.out.is_lowest_of(tsn, writing.path, in_flight);
        if let Some(chunk) = self.tx.out.get(tsn) {
            self.paths.get_mut(chunk.path).on_chunk_gone(chunk.sent_at);
        }
        let Some(chunk) = self.tx.out.resend(tsn, writing.path, cx.now) else { return };
        writing.bundle.data(&header(tsn, chunk), &chunk.data);
        let len = chunk.len();
        if self.tx.closed.shut || self.tx.closed.probe != Probe::None {
            self.tx.closed.probe = Probe::Out;
        }
        self.owner.counting.add(|c| c.rtxchunks += 1);
        cx.count.own.sctp_chunks_again += 1;
        self.on_chunk(cx, writing, len);
        (writing.again, writing.restart_t3) = (true, writing.restart_t3 | lowest);
    }

    fn write_new(&mut self, cx: &mut Cx<'_>, writing: &mut Writing) {
        let point = self.paths.fragment_point(self.options.maxseg);
        while self.may_add(writing, point) || self.overtake_into(cx, writing, point) {
            let max = writing.bundle.room_for_data().min(point);
            let whole = self.tx.queue.front().is_some_and(|m| !m.is_begun() && m.data().len() <= max);
            let Some(fragment) = self.tx.queue.take(max) else { return };
            let count = &mut cx.count.sctp;
            count.frag_usr_msgs += u64::from(!whole && fragment.flags.begin());
            if fragment.flags.unordered() {
                count.out_unorder_chunks += 1;
                self.owner.counting.add(|c| c.ouodchunks += 1);
            } else {
                count.out_order_chunks += 1;
                self.owner.counting.add(|c| c.oodchunks += 1);
            }
            self.note_limit(self.tx.out.next_tsn(), &fragment);
            // SHUTDOWN waits for its acknowledgement, which is not to be delayed (RFC 7053 section 4.1).
            let asks = self.state == State::ShutdownPending;
            let ask = if asks { DataFlags::IMMEDIATE } else { DataFlags::EMPTY };
            let limit = self.limit_of(&fragment);
            let chunk = Chunk {
                data: fragment.data,
                sent_at: cx.now,
                ppid: fragment.ppid,
                context: fragment.context,
                stream: fragment.stream,
                ssn: fragment.ssn,
                flags: fragment.flags | ask,
                path: writing.path,
                sends: 1,
                missing: 0,
                mark: Mark::InFlight,
                limit,
            };
            let (tsn, len) = (self.tx.out.next_tsn(), chunk.len());
            writing.bundle.data(&header(tsn, &chunk), &chunk.data);
            self.tx.out.push(chunk);
            if self.tx.peer_rwnd < len {
                self.tx.closed.probe = Probe::Out;
            }
            self.owner.dry = false;
            let path = self.paths.get_mut(writing.path);
            path.timed.get_or_insert(tsn);
            self.on_chunk(cx, writing, len);
            self.drop_expired(cx);
        }
    }

    /// The message whose turn it is waits for another path's device: the next one that goes by this path joins its packet instead.
    fn overtake_into(&mut self, cx: &Cx<'_>, writing: &Writing, point: usize) -> bool {
        let Some(front) = self.tx.queue.front() else { return false };
        let id = self.path_of(front.info());
        let waits = id != writing.path && self.paths.get(id).flow.credit.is_throttled();
        if !waits || writing.data_bytes == 0 || writing.bundle.room_for_data() == 0 {
            return false;
        }
        let goes = |info: &SendInfo| self.path_of(info) == writing.path;
        let Some(at) = self.tx.queue.find_overtaking(cx.now, goes) else { return false };
        self.tx.queue.bring_forward(at);
        let joins = self.may_add(writing, point);
        if !joins {
            self.tx.queue.put_back(at);
        }
        joins
    }

    /// Another new chunk may join this packet: a message fits; a fragment of one that does not, if that costs no fragment more than
    /// beginning in the next packet; or half a packet of it and more.
    fn may_add(&self, writing: &Writing, point: usize) -> bool {
        let Some(message) = self.tx.queue.front() else { return false };
        let (room, left) = (writing.bundle.room_for_data().min(point), message.data().len());
        let no_more = left > point && (left - room).div_ceil(point) < left.div_ceil(point);
        let half = (writing.data_bytes == 0 || message.is_begun()) && room >= point / 2;
        let fits = left <= room || (room > 0 && (no_more || half));
        // What goes with COOKIE ECHO goes wherever that does.
        let here = self.state == State::CookieEchoed || self.path_of(message.info()) == writing.path;
        fits && here
            && self.paths.get(writing.path).cwnd.has_room_in_packet()
            && self
                .check_new(writing.path, writing.bundle.len().min(writing.data_bytes as usize), point)
                .is_ok()
    }

    fn on_chunk(&mut self, cx: &mut Cx<'_>, writing: &mut Writing, len: u32) {
        let next = self.tx.out.next_tsn();
        self.paths.get_mut(writing.path).on_chunk_sent(cx, len, next);
        self.tx.peer_rwnd = self.tx.peer_rwnd.saturating_sub(len);
        writing.data_bytes += len;
        writing.refreshes = true;
    }
}

/// The header of a chunk.
fn header(tsn: Tsn, chunk: &Chunk) -> DataRepr {
    DataRepr { flags: chunk.flags, tsn: tsn.wire(), sid: chunk.stream, ssn: chunk.ssn, ppid: chunk.ppid }
}
