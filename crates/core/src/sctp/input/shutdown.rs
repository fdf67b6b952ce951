//! SHUTDOWN, SHUTDOWN ACK and SHUTDOWN COMPLETE (RFC 9260 section 9.2).
use crate::base::Cx;
use crate::sctp::assoc::{Assoc, Notice};
use crate::sctp::notification::{AssocChange, Notification, Why};
use crate::sctp::pending::Pending;
use crate::sctp::state::State;

impl Assoc {
    pub(super) fn on_shutdown(&mut self, cx: &mut Cx<'_>, cum: u32) {
        if !self.state.is_up() {
            return;
        }
        let known = self.tx.out.cum();
        // After a reset of all numbers that nobody has told us of the peer counts from others on. Where all is acknowledged it says nothing new.
        let mute = self.awaits_tsns() || self.state == State::ShutdownAckSent;
        let cum = if mute { known } else { known.near(cum) };
        let late = cum >= self.tx.out.next_tsn() && self.is_from_before_reset(cum);
        let cum = if late { known } else { cum };
        if cum >= self.tx.out.next_tsn() {
            return self.violation(cx, b"cumulative TSN beyond what was sent");
        }
        if cum > self.tx.out.cum() {
            let before = self.tx.out.in_flight();
            self.take_cumulative(cx, cum);
            self.grow(cx);
            self.conclude(cx);
            // It names no window: what has arrived is taken for read (Linux `SCTP_CMD_PROCESS_CTSN`).
            let arrived = before - self.tx.out.in_flight();
            self.tx.peer_rwnd = self.tx.peer_rwnd.saturating_add(arrived);
        }
        if cum == self.tx.out.cum() {
            self.take_back_first(cx);
        }
        // It acknowledges as a SACK does: what was given up behind that is to be skipped.
        self.give_up(cx);
        match self.state {
            State::Established | State::ShutdownPending => {
                self.set_state(State::ShutdownReceived);
                // The window that is closed to our data has no guard here (Linux ignores T5 in this state).
                self.timers.stop_t5();
                self.end_request(cx);
                self.end_of_data();
            }
            // Both have closed at the same time.
            State::ShutdownSent => {
                self.end_of_data();
                self.acknowledge_shutdown();
            }
            State::ShutdownAckSent => self.pending.set(Pending::SHUTDOWN_ACK),
            _ => {}
        }
        self.advance_shutdown(cx);
    }

    fn end_of_data(&mut self) {
        if !core::mem::replace(&mut self.rx.ended, true) {
            self.notify(Notification::Shutdown);
            // Nothing can be sent any more either: a writer who waits for room is to hear that.
            self.owner.notice.add(Notice::READABLE | Notice::WRITABLE);
        }
    }

    /// T5 is of SHUTDOWN alone: this has its Association.Max.Retrans tries (Linux ignores T5 here too).
    fn acknowledge_shutdown(&mut self) {
        self.set_state(State::ShutdownAckSent);
        self.end_heartbeats();
        self.pending.clear(Pending::SHUTDOWN);
        self.pending.set(Pending::SHUTDOWN_ACK);
        self.timers.stop_t5();
    }

    /// Goes on with a shutdown once all our data is acknowledged.
    pub(in crate::sctp) fn advance_shutdown(&mut self, cx: &Cx<'_>) {
        if !self.tx.is_dry() {
            return;
        }
        match self.state {
            // The peer may count from others on already, also in streams, and is not heard in SHUTDOWN-SENT.
            State::ShutdownPending if self.awaits_tsns() => {}
            State::ShutdownPending => {
                self.set_state(State::ShutdownSent);
                self.end_heartbeats();
                self.pending.set(Pending::SHUTDOWN);
                self.timers.restart_t5(cx.now, self.options.rto.max_ms);
            }
            State::ShutdownReceived => self.acknowledge_shutdown(),
            _ => {}
        }
    }

    pub(super) fn on_shutdown_ack(&mut self, cx: &mut Cx<'_>) {
        if !matches!(self.state, State::ShutdownSent | State::ShutdownAckSent) {
            return;
        }
        self.complete_shutdown(cx);
        self.pending.complete();
    }

    pub(super) fn on_shutdown_complete(&mut self, cx: &mut Cx<'_>) {
        if self.state == State::ShutdownAckSent {
            self.complete_shutdown(cx);
            self.pending = Pending::default();
        }
    }

    fn complete_shutdown(&mut self, cx: &mut Cx<'_>) {
        cx.count.sctp.shutdowns += 1;
        self.end_request(cx);
        self.finish(cx, AssocChange::ShutdownComplete, None, Why::Unsaid);
    }
}
