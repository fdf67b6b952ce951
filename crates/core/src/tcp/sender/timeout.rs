//! The retransmission timer as the connection sees it, and how long patience lasts.
use super::Sender;
use super::resend::{Resend, Share};
use crate::base::Cx;
use crate::base::time::{Duration, Instant};
use crate::path::Path;
use crate::tcp::recovery::Env;
use crate::tcp::recovery::rto::{Patience, RESOURCE_PROBE_INTERVAL, Timeout, TimerKind};

impl Sender {
    /// The RTO timer fired: enters Loss, backs off, sets the timer again. The head is to be sent again at once, whatever the
    /// window says.
    ///
    /// Whether the connection should rather give up is asked before, with [`Self::timed_out`].
    pub fn on_rto(&mut self, cx: &mut Cx<'_>, path: &mut Path, kind: Timeout) -> Option<Resend> {
        let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
        e.timer.clear();
        if e.flight.packets_out == 0 {
            return None;
        }
        self.recovery.on_rto(&mut e, kind);
        let (start, _) = self.flight.tx.first()?;
        self.resend(start, Share::Proposed)
    }

    /// When patience began to be counted: the first SYN of a handshake, or the first retransmission (`retrans_stamp`).
    #[must_use]
    pub const fn patience_began(&self) -> Option<Instant> {
        self.recovery.undo.stamp
    }

    /// Since when retransmissions have brought nothing, or the head has waited for its first.
    #[must_use]
    pub fn fruitless_since(&self) -> Option<Instant> {
        self.patience_began().or_else(|| self.flight.tx.first().map(|(_, head)| head.sent_at))
    }

    /// A router could not reach the peer: what the timeout met was no congestion, so its last doubling is taken back (RFC 6069 section 4.2;
    /// `tcp_ld_RTO_revert`). True when the timeout would have been over by now.
    pub fn revert_backoff(&mut self, cx: &mut Cx<'_>, path: &mut Path) -> bool {
        let Some((_, head)) = self.flight.tx.first() else { return false };
        if self.retransmits() == 0 || path.rtt.backoff() == 0 {
            return false;
        }
        path.rtt.revert_backoff();
        let at = head.sent_at + path.rtt.rto_of_timer(cx.sysctl);
        let over = at <= cx.now;
        if !over {
            self.timer.set(cx, TimerKind::Rto, at);
        }
        over
    }

    /// The RTO timer fires no later than `limit` after the first retransmission (`tcp_clamp_rto_to_user_timeout`).
    pub fn clamp_rto(&mut self, cx: &mut Cx<'_>, limit: Duration) {
        let latest = self.recovery.undo.stamp.unwrap_or(cx.now) + limit;
        if let Some((TimerKind::Rto, at)) = self.timer.get()
            && latest < at
        {
            let latest = latest.max(cx.now + Duration::from_millis(1));
            self.timer.set(cx, TimerKind::Rto, latest);
        }
    }

    /// What [`Self::on_rto`] proposed could not be sent for a local reason: tried again in half a second.
    pub fn defer_rto(&mut self, cx: &mut Cx<'_>) {
        let at = cx.now + RESOURCE_PROBE_INTERVAL;
        self.timer.set(cx, TimerKind::Rto, at);
    }

    /// True when retransmissions have gone on for too long: `retries` as in tcp_retries2 or tcp_syn_retries (`syn`), or
    /// TCP_USER_TIMEOUT where it is set.
    #[must_use]
    pub fn timed_out(&self, cx: &Cx<'_>, patience: &Patience) -> bool {
        self.recovery.timed_out(cx, patience)
    }
}
