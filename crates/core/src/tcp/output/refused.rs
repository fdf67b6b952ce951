//! What becomes of a packet that did not get past the queue below.
use crate::base::time::Duration;
use crate::base::{Cx, Wait};
use crate::packet::Owner;
use crate::path::congestion::CaState;
use crate::tcp::conn::Conn;
use crate::tcp::recovery::rto::RESOURCE_PROBE_INTERVAL;
use crate::tcp::segment::{Handed, Question};
use crate::tcp::send_window::Room;
use crate::tcp::sender::{Errand, Rexmit};

/// Shortest wait before a refused retransmission is tried again where nothing of the flow is below: a queue of packets drains in this time
/// on a fast line, and a timeout (`tcp_rto_min_us`) is as far away as twenty attempts.
const RESEND_WAIT_MIN: Duration = Duration::from_millis(10);

impl Conn {
    /// The packet that [`Conn::output`] has just given never left: the queue below had no room (`congested`), or there was no way.
    /// It is as if it had not been sent, and the flow is silent until an acknowledgement, a write or a timer, which for a retransmission comes
    /// soon. Want of room halves the window, once per window (`tcp_transmit_skb`: `tcp_enter_cwr`). True where something that waited for this
    /// very packet to leave may go once more.
    pub fn on_refused(&mut self, cx: &mut Cx<'_>, handed: &Handed, congested: bool) -> bool {
        let charge = handed.charge;
        self.snd.room = Room::None;
        let Some(attempt) = &handed.attempt else {
            // An acknowledgement counts as congestion too, and is not repeated.
            if congested && self.state.is_synchronized() {
                self.tx.enter_cwr(cx, &mut self.path);
                self.question_refused(cx, handed.asks);
            }
            // Of two segments that leave together the second is tried as well, as in Linux, where each is a call of its own.
            return self.out.reset.is_some();
        };
        let segs = self.tx.take_back(cx, &mut self.path, attempt, congested);
        if let Some(before) = attempt.before {
            self.snd.sml = before.sml;
        }
        if attempt.errand.is_new() {
            self.out.burst.segs = self.out.burst.segs.saturating_sub(segs);
        }
        self.queue_refused(cx, charge);
        // A flow that waits for a completion still does.
        let mut again = self.out.credit.refund(charge);
        if again && self.out.credit.below() > 0 {
            let _ = self.out.credit.throttle();
            again = false;
        }
        self.settle_below();
        if congested {
            self.tx.enter_cwr(cx, &mut self.path);
        }
        self.out.rexmit = Rexmit::None;
        let why = if congested { Wait::Refused } else { Wait::NoPath };
        self.count_wait(cx, why);
        self.wait(cx, why);
        if let Some(before) = attempt.before
            && congested
            && attempt.errand == Errand::WindowProbe
        {
            self.timers.probes_out = before.probes;
            self.path.rtt.set_probe_backoff(before.backoff);
            self.window_probe_refused(cx);
        }
        // A throttled flow goes on when the packet ends, however it ends (`tcp_wfree`); refused once more, it is not throttled.
        if again {
            self.out.try_send(self.default_hold());
        } else if congested && attempt.errand == Errand::Again {
            self.resend_soon(cx);
        }
        again
    }

    /// What is lost in the network has now been refused here. No further acknowledgement may come, above all without SACK, and a timeout would
    /// take the full queue of this host for one more sign of congestion. So it goes as soon as something of the flow leaves, or after a
    /// part of a round trip, until the timeout: Linux waits for that (`tcp_xmit_retransmit_queue` ends when `tcp_retransmit_skb` fails). A queue
    /// that stays full for so long is tried by the timer alone.
    fn resend_soon(&mut self, cx: &Cx<'_>) {
        if self.tx.ca_state() == CaState::Loss {
            return;
        }
        if self.out.credit.below() > 0 {
            let _ = self.out.credit.throttle();
        }
        let part = self.path.rtt.srtt().unwrap_or_default() / 4;
        let at = cx.now + part.clamp(RESEND_WAIT_MIN, RESOURCE_PROBE_INTERVAL);
        self.timers.pace = Some(self.timers.pace.map_or(at, |pace| pace.max(at)));
    }

    /// The peer was not asked: it is the timer's turn again, as soon as for data (`tcp_send_probe0`, `tcp_keepalive_timer`).
    fn question_refused(&mut self, cx: &Cx<'_>, asks: Option<Question>) {
        match asks {
            Some(Question::Window) if self.timers.probe.is_some() => self.window_probe_refused(cx),
            Some(Question::Life) => {
                self.timers.probes_out = self.timers.probes_out.saturating_sub(1);
                self.timers.keepalive = Some(cx.now + RESOURCE_PROBE_INTERVAL);
            }
            _ => {}
        }
    }

    /// Senders fight for local resources conservatively, and without a doubling: the peer had nothing to answer.
    fn window_probe_refused(&mut self, cx: &Cx<'_>) {
        let backoff = self.path.rtt.backoff().min(self.timers.backoff_before);
        self.path.rtt.set_probe_backoff(backoff);
        let delay = self.until_user_timeout(cx, RESOURCE_PROBE_INTERVAL);
        self.timers.probe = Some(self.path.deadline(cx, delay));
    }

    /// A packet that the queue had taken was lost on the way to the wire: one reduction per window, and nothing is marked lost: RACK
    /// finds it.
    pub fn on_dropped(&mut self, cx: &mut Cx<'_>, owner: Owner) {
        if owner.is_end() {
            self.tx.on_gone();
        }
        self.tx.enter_cwr(cx, &mut self.path);
        self.refund_lost(owner.charge);
    }
}
