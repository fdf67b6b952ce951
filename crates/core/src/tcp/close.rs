//! The ways to end: shutdown, close, linger, abort, orphans (RFC 9293 sections 3.6 and 3.10.4 to 3.10.5; `tcp_close`).
use super::chrono::Held;
use super::conn::Conn;
use super::output::nagle::Hold;
use super::ready::{How, Notice};
use super::state::State;
use super::timewait::TIME_WAIT;
use crate::base::{Cx, Error};

impl Conn {
    /// Ends one or both directions for the application.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when there is no connection.
    pub fn shutdown(&mut self, cx: &mut Cx<'_>, how: How) -> Result<(), Error> {
        if matches!(self.state, State::SynSent | State::Close) {
            return Err(Error::NotConnected);
        }
        if how != How::Write && !self.app.rcv_shutdown {
            self.app.rcv_shutdown = true;
            self.rx.shut();
            self.app.notice.insert(Notice::READABLE);
        }
        if how != How::Read {
            // SYN-RECEIVED has no way back from FIN-WAIT-1: the FIN waits for the handshake (`tcp_shutdown`).
            if self.state == State::SynRecv {
                self.app.snd_shutdown = true;
            } else {
                self.send_fin(cx);
            }
        }
        Ok(())
    }

    /// The FIN that was asked for before the handshake was complete.
    pub(super) fn finish_shutdown(&mut self, cx: &mut Cx<'_>) {
        if self.app.snd_shutdown && self.state == State::Established {
            self.send_fin(cx);
            self.finish_early(cx);
        }
    }

    /// A FIN follows what is queued, if it has not done so before: true where it does now.
    fn send_fin(&mut self, cx: &mut Cx<'_>) -> bool {
        self.app.snd_shutdown = true;
        let next = match self.state {
            State::Established | State::SynRecv => State::FinWait1,
            State::CloseWait => State::LastAck,
            _ => return false,
        };
        self.tx.queue().unsent.queue_fin();
        self.rest.stats.chrono.start(cx.now, Held::Busy);
        self.set_state(cx, next);
        self.out.try_send(Hold::Push);
        true
    }

    /// The application lets go. What is queued still goes out in the background, unless it left data unread (RFC 2525
    /// section 2.17) or lingers for zero seconds: then the peer is told by a reset.
    pub fn close(&mut self, cx: &mut Cx<'_>) {
        if core::mem::replace(&mut self.app.orphan, true) {
            return;
        }
        self.app.rcv_shutdown = true;
        let at_once = self.options.linger.is_some_and(|d| d.is_zero());
        match self.state {
            State::SynSent | State::Close => {
                // There is nobody to tell of it (`__tcp_close`).
                cx.count.tcp_ext.tcp_abort_on_data += u64::from(at_once && self.state == State::SynSent);
                self.finish(cx, None);
                return;
            }
            State::TimeWait => return,
            _ => {}
        }
        let unread = self.rx.discard() > 0;
        if unread {
            cx.count.tcp_ext.tcp_abort_on_close += 1;
        } else if at_once {
            cx.count.tcp_ext.tcp_abort_on_data += 1;
        } else {
            // What was asked for before is the owner's, too: Linux has sent it within those calls.
            let asked = self.out.tries();
            self.out.burst.closes = self.send_fin(cx) || asked;
            if self.state == State::FinWait2 {
                self.orphan_in_fin_wait2(cx);
            }
            return;
        }
        if unread || self.needs_reset() {
            self.send_reset(cx);
        }
        self.finish(cx, None);
    }

    /// Ends the connection at once; the peer gets a reset where it could wait for more.
    pub fn abort(&mut self, cx: &mut Cx<'_>) {
        self.app.orphan = true;
        if self.needs_reset() {
            self.send_reset(cx);
        }
        self.finish(cx, Some(Error::Aborted));
    }

    /// Nothing leads to the peer any more, nor will: it is over at once, and nobody could hear a reset.
    pub fn cut_off(&mut self, cx: &mut Cx<'_>, error: Error) {
        if matches!(self.state, State::Close | State::TimeWait) {
            return;
        }
        cx.count.tcp.attempt_fails += u64::from(!self.state.is_synchronized());
        self.finish(cx, Some(error));
    }

    /// The peer does not know yet that nothing more will come (`tcp_need_reset`; `tcp_disconnect` for the last two states).
    #[must_use]
    pub fn needs_reset(&self) -> bool {
        match self.state {
            State::Established | State::CloseWait | State::FinWait1 | State::FinWait2 | State::SynRecv => {
                true
            }
            State::Closing | State::LastAck => !self.tx.queue_ref().unsent.is_empty(),
            _ => false,
        }
    }

    /// A timer of a connection that nobody owns: where there are too many of them it ends at once, one that has long sent nothing, may have no
    /// hope to, or of which ICMP has said something bad, earlier than others. The peer gets a reset where it `may_hear` one
    /// (`tcp_out_of_resources`).
    pub(super) fn out_of_resources(&mut self, cx: &mut Cx<'_>, may_hear: bool) -> bool {
        let idle = cx.now.since(self.tx.last_data_at());
        let stuck = idle > self.path.rtt.rto_max(cx.sysctl) * 2 || !may_hear;
        let penalty = u32::from(stuck) + u32::from(self.app.soft_error.is_some());
        if !self.app.orphan || !self.is_one_too_many(cx, penalty) {
            return false;
        }
        cx.count.tcp_ext.tcp_abort_on_memory += 1;
        let shut = self.snd.wnd == 0 && !self.has_in_flight();
        if may_hear || idle <= TIME_WAIT || shut {
            self.send_reset(cx);
        }
        self.finish(cx, None);
        true
    }

    /// Closed when our side was done: a small object waits for the peer's (see [`Conn::fate`]), the connection itself in front of it where that
    /// is for longer than TIME-WAIT, or with TCP_LINGER2 below zero nobody at all.
    fn orphan_in_fin_wait2(&mut self, cx: &mut Cx<'_>) {
        if self.options.linger2 < 0 {
            cx.count.tcp_ext.tcp_abort_on_linger += 1;
            self.send_reset(cx);
            self.finish(cx, None);
            return;
        }
        self.arm_fin_wait2(cx);
    }
}
