//! DATA: what it is worth, where it goes, and when it is acknowledged (RFC 9260 section 6.2).
use super::Reading;
use crate::base::{Cx, Error};
use crate::sctp::assoc::Assoc;
use crate::sctp::input::one_cause;
use crate::sctp::pending::Pending;
use crate::sctp::state::State;
use crate::sctp::tsn::Tsn;
use crate::sctp::tsn_map::Arrival;
use lowwater_wire::sctp::{Cause, DataRepr};

impl Assoc {
    pub(super) fn on_data(
        &mut self,
        cx: &mut Cx<'_>,
        reading: &mut Reading<'_>,
        header: &DataRepr,
        data: &[u8],
    ) {
        let count = &mut cx.count.sctp;
        if header.flags.unordered() {
            count.in_unorder_chunks += 1;
        } else {
            count.in_order_chunks += 1;
        }
        if !self.state.may_receive_data() || self.may_have_reset() {
            count.in_data_chunk_discards += 1;
            return;
        }
        if data.is_empty() {
            return self.abort(cx, one_cause(&Cause::NoUserData(header.tsn)), Error::Aborted);
        }
        reading.data = true;
        reading.first_tsn.get_or_insert(header.tsn);
        reading.urgent |= header.flags.immediate();
        let tsn = self.rx.map.cum().near(header.tsn);
        match self.rx.map.look(tsn) {
            Arrival::New => {}
            Arrival::Duplicate => {
                self.rx.map.note_duplicate(tsn);
                reading.urgent = true;
                return;
            }
            Arrival::TooFar => {
                count.in_data_chunk_discards += 1;
                self.owner.counting.add(|c| c.outofseqtsns += 1);
                reading.urgent = true;
                return;
            }
        }
        if !self.has_room(cx, tsn, data.len()) && !self.make_room(cx, tsn) {
            cx.count.sctp.in_data_chunk_discards += 1;
            reading.urgent = true;
            return;
        }
        let unordered = u64::from(header.flags.unordered());
        self.owner.counting.add(|c| {
            (c.iuodchunks, c.iodchunks) = (c.iuodchunks + unordered, c.iodchunks + 1 - unordered);
        });
        self.rx.map.note(tsn);
        self.rx.on_data(data.len());
        if header.sid >= self.rx.inbound {
            // It counts as received, for it must not come again (section 6.5).
            return self.report(&Cause::InvalidStream(header.sid));
        }
        if self.owner.deaf {
            cx.count.own.sctp_data_unread += 1;
            return;
        }
        if self.rx.streams.is_useless(tsn, header, |other| self.rx.map.has(other)) {
            cx.count.sctp.in_data_chunk_discards += 1;
            return;
        }
        match self.rx.streams.insert(tsn, header, data, reading.inbound.buffer) {
            Ok(joined) => cx.count.sctp.reasm_usr_msgs += u64::from(joined),
            Err(_) => self.violation(cx, b"fragments that do not fit"),
        }
    }

    /// There is room for a chunk. The window may have been overrun by what was under way when it closed; what fills the first hole
    /// may take as much again, for it is what everybody waits for.
    fn has_room(&mut self, cx: &Cx<'_>, tsn: Tsn, len: usize) -> bool {
        let point = self.options.pd_point as usize;
        let window = self.rx.window(&self.options) as usize;
        let mtu = usize::from(self.paths.get(self.rx.path).mtu());
        let (charge, buffer) = (self.rx.streams.charge(), self.rcvbuf(cx) as usize);
        let full = window < len.max(2 * mtu) || charge >= buffer;
        if full || point > 0 {
            self.rx.streams.begin_partial(self.rx.map.cum(), if full { 0 } else { point });
        }
        // Even where memory is exhausted, for nothing behind a hole could be read and given back. Without a hole something can: the
        // message that is not complete was begun above, unless its peer has left out a number.
        if self.rx.map.has_gap() && tsn < self.rx.map.highest() {
            return charge < 2 * self.options.rcvbuf as usize;
        }
        window > 0 && charge < buffer
    }

    /// Everything waits for this TSN, and nobody can make room by reading: the highest that has come is taken back, half a buffer of it
    /// so that looking for it is rare, and where less is found not before as much was read (section 6.2; Linux `sctp_eat_data`, `SCTP_CMD_RENEGE`).
    fn make_room(&mut self, cx: &mut Cx<'_>, tsn: Tsn) -> bool {
        let cum = self.rx.map.cum();
        if tsn != cum.next() || !self.rx.map.has_gap() || self.rx.streams.is_readable() {
            return false;
        }
        let goal = self.options.rcvbuf as usize * 3 / 2;
        let gone = self.rx.streams.renege(cum, goal);
        for (start, end) in &gone {
            self.rx.map.take_back(*start, *end);
            cx.count.sctp.in_data_chunk_discards += end - start;
        }
        !gone.is_empty()
    }

    /// After the last chunk of a packet with DATA: is a SACK due?
    pub(super) fn on_data_packet(&mut self, cx: &mut Cx<'_>, reading: &Reading<'_>) {
        if let Some(path) = reading.path {
            self.rx.path = path;
        }
        self.on_mark(reading);
        self.timers.set_autoclose(cx.now, self.options.autoclose_secs);
        let point = self.options.pd_point as usize;
        if point > 0 {
            self.rx.streams.begin_partial(self.rx.map.cum(), point);
        }
        let urgent = reading.urgent || self.rx.map.has_gap();
        self.rx.ack.on_packet(cx.now, &self.options, urgent);
        if self.state == State::ShutdownSent {
            // The peer hears at once how far it has come, and that we have finished (section 9.2).
            self.rx.ack.demand();
            self.pending.set(Pending::SHUTDOWN);
            let rto = self.paths.get(self.pending.shutdown_path).rto.get();
            self.timers.restart_t2(cx.now, rto);
        }
    }
}
