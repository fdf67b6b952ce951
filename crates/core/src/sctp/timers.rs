//! The deadlines of an association and what their end means (RFC 9260 sections 5.1, 6.3.3, 8.3, 9.2).
use super::assoc::{Assoc, Notice};
use super::heartbeat::Fired;
use super::notification::{AssocChange, Why};
use super::paths::{PathId, PathState};
use super::pending::Pending;
use super::recovery::t3;
use super::state::State;
use crate::base::time::Duration;
use crate::base::trace::Ev;
use crate::base::{Cx, Error, Instant};
use bytes::Bytes;

/// Deadlines beside those of the paths; [`Instant::FAR_FUTURE`] for a timer that is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timers {
    /// T1-init and T1-cookie, which never run at once.
    t1: Instant,
    /// T2-shutdown.
    t2: Instant,
    /// T5-shutdown-guard.
    t5: Instant,
    autoclose: Instant,
}

impl Default for Timers {
    fn default() -> Self {
        let never = Instant::FAR_FUTURE;
        Self { t1: never, t2: never, t5: never, autoclose: never }
    }
}

impl Timers {
    pub(super) fn start_t1(&mut self, now: Instant, timeout: Duration) {
        self.t1 = now + timeout;
    }

    pub(super) const fn stop_handshake(&mut self) {
        self.t1 = Instant::FAR_FUTURE;
    }

    pub(super) fn start_t2(&mut self, now: Instant, timeout: Duration) {
        self.t2 = now + timeout;
    }

    /// Starts the guard of a shutdown, unless it runs.
    pub(super) fn start_t5(&mut self, now: Instant, rto_max_ms: u32) {
        if self.t5 == Instant::FAR_FUTURE {
            self.restart_t5(now, rto_max_ms);
        }
    }

    /// The guard of a shutdown has all its time before it (section 9.2: five times RTO.Max).
    pub(super) fn restart_t5(&mut self, now: Instant, rto_max_ms: u32) {
        self.t5 = now + 5 * Duration::from_millis(rto_max_ms.into());
    }

    /// Data comes or goes: the idle time begins anew. 0 for never.
    pub(super) fn set_autoclose(&mut self, now: Instant, secs: u32) {
        let idle = Duration::from_secs(secs.into());
        self.autoclose = if secs == 0 { Instant::FAR_FUTURE } else { now + idle };
    }

    /// The peer sends data while SHUTDOWN is out: it has as long as before to finish. Section 9.2 says so of any packet; but who sends
    /// nothing but HEARTBEATs, more often than this timer runs out, has not heard of the SHUTDOWN and never would.
    pub(super) fn restart_t2(&mut self, now: Instant, timeout: Duration) {
        if self.t2 != Instant::FAR_FUTURE {
            self.start_t2(now, timeout);
        }
    }

    /// The guard is of SHUTDOWN, and of a closed window before it, alone.
    pub(super) const fn stop_t5(&mut self) {
        self.t5 = Instant::FAR_FUTURE;
    }

    /// The peer has started anew while we were closing.
    pub(super) const fn stop_shutdown(&mut self) {
        (self.t2, self.t5) = (Instant::FAR_FUTURE, Instant::FAR_FUTURE);
    }

    fn min(&self) -> Instant {
        self.t1.min(self.t2).min(self.t5).min(self.autoclose)
    }
}

impl Assoc {
    /// When [`Assoc::on_timeout`] wants to be called next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let mut next = self.timers.min().min(self.rx.ack.deadline()).min(self.tx.queue.next_expiry());
        for (_, path) in self.paths.iter() {
            next = next.min(path.t3).min(path.hb.deadline());
            if let Some(plpmtud) = &path.room.plpmtud {
                next = next.min(plpmtud.deadline());
            }
        }
        if let Some(reconf) = &self.pending.reconf {
            next = next.min(reconf.deadline());
        }
        if let Some(at) = self.paced_until() {
            next = next.min(at);
        }
        (next != Instant::FAR_FUTURE).then_some(next)
    }

    /// Does what is due.
    pub fn on_timeout(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let due = |at: Instant| at <= now;
        let (t1, t2, t5) = (due(self.timers.t1), due(self.timers.t2), due(self.timers.t5));
        if t5 {
            self.timers.t5 = Instant::FAR_FUTURE;
            cx.trace(Ev::Fired("T5", None));
            cx.count.sctp.t5_shutdown_guard_expireds += 1;
            return self.abort(cx, Bytes::new(), Error::TimedOut);
        }
        if due(self.timers.autoclose) {
            self.on_autoclose(cx);
        }
        if t1 {
            cx.trace(Ev::Fired("T1", None));
            self.on_t1(cx);
        }
        if t2 {
            cx.trace(Ev::Fired("T2", None));
            self.on_t2(cx);
        }
        // The pacer's time has come: the turn that follows asks it again.
        if self.tx.hold.1.is_some_and(due) {
            self.tx.hold.1 = None;
        }
        if self.pending.reconf.as_ref().is_some_and(|reconf| due(reconf.deadline())) {
            self.on_reconf_timer(cx);
        }
        self.drop_expired(cx);
        cx.count.sctp.delay_sack_expireds += u64::from(self.rx.ack.on_timer(cx.now));
        for id in 0..self.paths.len() as PathId {
            if self.paths.get(id).t3 <= cx.now {
                cx.trace(Ev::Fired("T3", Some(id)));
                t3::on_timer(self, cx, id);
            }
            if self.paths.get(id).hb.deadline() <= cx.now {
                self.on_heartbeat_timer(cx, id);
            }
            if self.paths.get(id).room.plpmtud.as_ref().is_some_and(|plpmtud| plpmtud.deadline() <= cx.now) {
                self.on_probe_timer(cx, id);
            }
        }
        self.owner.counting.note_rto(&mut self.paths);
    }

    /// INIT or COOKIE ECHO stayed without answer (sections 5.1 and 4, notes 2 and 3).
    fn on_t1(&mut self, cx: &mut Cx<'_>) {
        self.timers.t1 = Instant::FAR_FUTURE;
        let Some(opening) = &mut self.opening else { return };
        let (bit, count) = match self.state {
            State::CookieWait => (Pending::INIT, &mut cx.count.sctp.t1_init_expireds),
            _ => (Pending::COOKIE_ECHO, &mut cx.count.sctp.t1_cookie_expireds),
        };
        *count += 1;
        if opening.tries >= self.options.max_init_retransmits {
            cx.count.sctp.aborteds += 1;
            return self.finish(cx, AssocChange::CannotStart, Some(Error::TimedOut), Why::Unsaid);
        }
        opening.tries += 1;
        opening.sent_at = None;
        // The next address may answer (section 6.4.1), but not one that the peer alone has named: a COOKIE ECHO may be long
        // (section 5.4).
        let (last, count) = (usize::from(opening.path), self.paths.len());
        let after = (1..count).map(|n| ((last + n) % count) as PathId);
        let next = after.into_iter().find(|id| self.paths.get(*id).state() != PathState::Unconfirmed);
        opening.path = next.unwrap_or(opening.path);
        opening.timeout = (opening.timeout * 2).min(Duration::from_millis(self.options.rto.max_ms.into()));
        self.pending.set(bit);
    }

    /// SHUTDOWN or SHUTDOWN ACK stayed without answer (section 9.2).
    fn on_t2(&mut self, cx: &mut Cx<'_>) {
        self.timers.t2 = Instant::FAR_FUTURE;
        cx.count.sctp.t2_shutdown_expireds += 1;
        let last = self.pending.shutdown_path;
        self.paths.get_mut(last).rto.back_off(&self.options.rto);
        if !self.on_error(cx, last) {
            return;
        }
        self.pending.reply_path = self.paths.alternate(last);
        match self.state {
            State::ShutdownSent => self.pending.set(Pending::SHUTDOWN),
            State::ShutdownAckSent => self.pending.set(Pending::SHUTDOWN_ACK),
            _ => {}
        }
    }

    fn on_autoclose(&mut self, cx: &mut Cx<'_>) {
        self.timers.autoclose = Instant::FAR_FUTURE;
        cx.count.sctp.autoclose_expireds += 1;
        if self.state == State::Established {
            self.begin_shutdown(cx);
            self.owner.notice.add(Notice::READABLE | Notice::WRITABLE);
        }
    }

    /// The heartbeat timer of a path fired: early, or the path is idle and must be asked.
    fn on_heartbeat_timer(&mut self, cx: &mut Cx<'_>, id: PathId) {
        let path = self.paths.get_mut(id);
        let cadence = path.cadence();
        if path.hb.on_timer(cx, &cadence) == Fired::Early {
            return;
        }
        cx.trace(Ev::Fired("heartbeat", Some(id)));
        if !self.state.beats() || !path.beats() {
            return path.hb.stop();
        }
        // Idle for so long: nobody needs the memory of the busiest time.
        self.tx.out.shrink();
        self.tx.queue.shrink();
        self.tx.limits.shrink();
        self.rx.streams.shrink();
        let next = self.tx.out.next_tsn();
        let path = self.paths.get_mut(id);
        path.rest(cx, next);
        // The last one was not answered: that is an error of the path (section 8.3), and of the association only where its data goes
        // (section 8.1).
        if path.hb.nonce != 0 {
            path.rto.back_off(&self.options.rto);
            if id == self.paths.active() {
                if !self.on_error(cx, id) {
                    return;
                }
            } else {
                let change = self.paths.on_error(cx, id);
                self.path_change(id, change);
            }
        }
        let path = self.paths.get_mut(id);
        path.hb.wanted = true;
        let cadence = path.cadence();
        path.hb.arm(cx, &cadence);
    }
}
