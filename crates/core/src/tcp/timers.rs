//! The deadlines of a connection and what happens when they pass: one wheel entry serves them all.
use super::conn::Conn;
use super::recovery::rto::{Patience, Timeout, TimerKind};
use super::state::State;
use super::timewait::TIME_WAIT;
use crate::base::time::{Duration, Instant, nanos};
use crate::base::{Cx, Error, Wait};
use crate::path::congestion::CaState;

/// Fewer segments in flight cannot make three duplicates (`tcp_stream_is_thin`).
const THIN_SEGMENTS: u32 = 4;
/// Timeouts of a thin stream that do not double (`TCP_THIN_LINEAR_RETRIES`).
const THIN_RETRIES: u32 = 6;

/// Shortest wait for a window probe (`TCP_RTO_MIN`).
const PROBE_MIN: Duration = Duration::from_millis(200);

/// Deadlines that belong to no other part. Retransmission has its own in the sender, delayed ACKs theirs in the receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    /// Zero-window probe, or the end of a cork's patience.
    pub(super) probe: Option<Instant>,
    /// Next keepalive check.
    pub(super) keepalive: Option<Instant>,
    /// The pacer lets the next packet go.
    pub(super) pace: Option<Instant>,
    /// Window probes without an answer (`icsk_probes_out`), shared with keepalive as in Linux.
    pub(super) probes_out: u8,
    /// Doublings before the last window probe, which one that does not leave returns to.
    pub(super) backoff_before: u8,
    /// When probing began, for TCP_USER_TIMEOUT.
    pub(super) probing_since: Option<Instant>,
    /// When the SYN-ACK of a passive open went out, until it has given an RTT sample.
    pub(super) synack_sent: Option<Instant>,
    /// When the connection last looked at the clock (`tcp_mstamp`): as a segment came, a timer fired, something new was to leave, or
    /// somebody read. In nanoseconds modulo 2^48, which is 78 hours: while anything is in flight a timer looks sooner.
    pub(super) looked_at: [u16; 3],
}

impl Timers {
    /// The connection looks at the clock.
    pub(super) const fn look(&mut self, now: Instant) {
        let ns = now.as_nanos();
        self.looked_at = [ns as u16, (ns >> 16) as u16, (ns >> 32) as u16];
    }

    /// When it last did, which is less than 78 hours ago.
    pub(super) fn looked_at(&self, now: Instant) -> Instant {
        let [low, middle, high] = self.looked_at.map(u64::from);
        let at = high << 32 | middle << 16 | low;
        let ago = now.as_nanos().wrapping_sub(at) & ((1 << 48) - 1);
        Instant::from_nanos(now.as_nanos().saturating_sub(ago))
    }

    pub(super) const fn stop_all(&mut self) {
        self.probe = None;
        self.keepalive = None;
        self.pace = None;
    }

    /// An acknowledgement opened the window again, or showed that the peer lives.
    pub(super) const fn probe_answered(&mut self) {
        self.probes_out = 0;
    }

    pub(super) const fn stop_probing(&mut self) {
        self.probe = None;
        self.probing_since = None;
    }
}

impl Conn {
    /// The earliest deadline of this connection. It may move later without notice; being called early does no harm.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let Timers { probe, keepalive, pace, .. } = self.timers;
        let earliest = Instant::earlier(self.retransmission_deadline(), self.rx.ack.deadline());
        Instant::earlier(Instant::earlier(earliest, probe), Instant::earlier(keepalive, pace))
    }

    /// When the connection itself looks after what the peer has not acknowledged: by a timeout, a tail loss probe or RACK's timer, or for a Fast
    /// Open child by that of its SYN-ACK. Neither the pace nor whatever else [`Self::next_deadline`] knows of does that.
    #[must_use]
    pub fn retransmission_deadline(&self) -> Option<Instant> {
        if self.is_child() { self.child_deadline() } else { self.tx.timer().map(|(_, at)| at) }
    }

    /// Fires what is due.
    pub fn on_timeout(&mut self, cx: &mut Cx<'_>) {
        self.settle_below();
        if self.next_deadline().is_some_and(|at| at <= cx.now) {
            self.timers.look(cx.now);
        }
        // Acknowledgements that have left since took their blocks along (`tcp_current_mss` in each timer of these).
        self.decide_option(cx);
        self.tx.set_mss(self.mss_now());
        if self.timers.pace.is_some_and(|at| at <= cx.now) {
            self.timers.pace = None;
            self.goes_on();
        }
        if self.rx.ack.deadline().is_some_and(|at| at <= cx.now) {
            let rto = self.path.rtt.rto(cx.sysctl);
            self.rx.ack.on_deadline(cx, rto);
        }
        if self.is_child() {
            self.on_child_timer(cx);
        } else if let Some((kind, at)) = self.tx.timer()
            && at <= cx.now
        {
            self.on_retransmission_timer(cx, kind);
        }
        if self.timers.probe.is_some_and(|at| at <= cx.now) {
            self.timers.probe = None;
            self.on_probe_timer(cx);
        }
        if self.timers.keepalive.is_some_and(|at| at <= cx.now) {
            self.timers.keepalive = None;
            self.on_keepalive_timer(cx);
        }
    }

    /// It has been silent for as long as a timer ran: an idle connection gives back what its queue grew to.
    pub fn rest(&mut self) {
        self.tx.queue().rest();
    }

    fn on_retransmission_timer(&mut self, cx: &mut Cx<'_>, kind: TimerKind) {
        match kind {
            TimerKind::Rto => self.on_rto(cx),
            TimerKind::Tlp => {
                self.tx.queue().unsent.forget_pushed();
                let fits = self.head_fits_window(self.mss_now());
                let amid_loss = self.tx.ca_state() == CaState::Loss;
                let probe = self.tx.on_tlp(cx, &mut self.path, fits);
                self.out.set_tail_probe(probe, amid_loss);
                self.out.try_resend();
            }
            TimerKind::Reorder => {
                self.tx.on_reorder_timeout(cx, &mut self.path);
                self.out.try_resend();
            }
        }
    }

    pub(super) fn on_rto(&mut self, cx: &mut Cx<'_>) {
        // A peer that closed its window while data was in flight still acknowledges; it is alive (`tcp_retransmit_timer`).
        let zero_window = self.snd.wnd == 0 && self.state.is_synchronized() && !self.app.orphan;
        if zero_window {
            if self.shut_for_too_long(cx) {
                self.give_up(cx);
                return;
            }
        } else {
            let expired = self.retries_spent(cx);
            if self.retries_too_much(cx) {
                cx.count.tcp_ext.tcp_timeouts += 1;
                return;
            }
            self.suspect_path(cx, expired);
            if expired {
                // The sender, which counts the others, does not hear of it.
                cx.count.tcp_ext.tcp_timeouts += 1;
                self.give_up(cx);
                return;
            }
            self.snd.label.change();
            self.tx.note_rehash();
            cx.count.tcp_ext.tcp_timeout_rehash += 1;
        }
        if self.tx.head_is_below() || self.out.timeout_waits(self.tx.snd_una()) {
            cx.count.tcp_ext.tcp_spurious_rtx_host_queues += 1;
            self.count_wait(cx, Wait::HostQueue);
            self.tx.on_rto_below(cx, &mut self.path);
            return self.clamp_rto(cx);
        }
        let kind = match (zero_window, self.timeout_kind(cx, zero_window)) {
            (true, Timeout::Thin) => Timeout::ThinProbe,
            (true, _) => Timeout::Probe,
            (false, kind) => kind,
        };
        let resend = self.tx.on_rto(cx, &mut self.path, kind);
        self.out.set_timeout(resend);
        self.clamp_rto(cx);
        self.out.try_resend();
    }

    /// A window that is shut over data in flight: patience ends when the peer says nothing more and retransmissions bring nothing for
    /// twice the longest RTO, or for TCP_USER_TIMEOUT, which does not ask what the peer says (`tcp_rtx_probe0_timed_out`).
    fn shut_for_too_long(&self, cx: &Cx<'_>) -> bool {
        let fruitless = self.tx.fruitless_since().map_or(Duration::ZERO, |since| cx.now.since(since));
        let longest = self.path.rtt.rto_max(cx.sysctl) * 2;
        let user = self.user_timeout();
        if user.is_some_and(|user| fruitless >= user) {
            return true;
        }
        let patience = user.map_or(longest, |user| user.min(longest));
        cx.now.since(self.rest.stats.last_ack_recv) > patience && fruitless > patience
    }

    /// Whether the timeout doubles. One over a shut window is not counted itself, so that one more is linear.
    fn timeout_kind(&self, cx: &Cx<'_>, zero_window: bool) -> Timeout {
        let before = u32::from(self.tx.retransmits());
        if self.state == State::SynSent && before < cx.sysctl.tcp_syn_linear_timeouts {
            return Timeout::Linear;
        }
        let thin = self.options.thin_linear_timeouts || cx.sysctl.tcp_thin_linear_timeouts;
        let counted = before + u32::from(!zero_window);
        let few = self.tx.flight().packets_out < THIN_SEGMENTS && counted <= THIN_RETRIES;
        if thin && few && self.state == State::Established { Timeout::Thin } else { Timeout::Backoff }
    }

    /// The last wait ends when TCP_USER_TIMEOUT does (`tcp_clamp_rto_to_user_timeout`).
    pub(super) fn clamp_rto(&mut self, cx: &mut Cx<'_>) {
        if let Some(limit) = self.user_timeout() {
            self.tx.clamp_rto(cx, limit);
        }
    }

    /// RFC 9293 section 3.8.3 R2, or TCP_USER_TIMEOUT where the user says so (`tcp_write_timeout`).
    fn retries_spent(&mut self, cx: &Cx<'_>) -> bool {
        let (user_timeout, max) = (self.user_timeout(), self.path.rtt.rto_max(cx.sysctl));
        if matches!(self.state, State::SynSent | State::SynRecv) {
            let own = u32::from(self.options.syncnt);
            let retries = if own != 0 { own } else { cx.sysctl.tcp_syn_retries };
            let linear = if self.state == State::SynSent { cx.sysctl.tcp_syn_linear_timeouts } else { 0 };
            let patience = Patience { retries, user_timeout, syn: true, max };
            return u32::from(self.tx.retransmits()) >= retries.saturating_add(linear)
                || self.tx.timed_out(cx, &patience);
        }
        let patience = |retries, user_timeout| Patience { retries, user_timeout, syn: false, max };
        if self.tx.timed_out(cx, &patience(cx.sysctl.tcp_retries1, None)) {
            self.suspect_black_hole(cx);
        }
        let retries = if self.app.orphan {
            self.orphan_retries(cx, self.path.rtt.rto(cx.sysctl) < self.path.rtt.rto_max(cx.sysctl))
        } else {
            cx.sysctl.tcp_retries2
        };
        self.tx.timed_out(cx, &patience(retries, user_timeout))
    }

    /// A retransmission of a connection that nobody owns is one too many, and it has ended (`tcp_write_timeout`).
    fn retries_too_much(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.app.orphan || !self.state.is_synchronized() {
            return false;
        }
        let max = self.path.rtt.rto_max(cx.sysctl);
        let alive = self.path.rtt.rto(cx.sysctl) < max;
        let retries = self.orphan_retries(cx, alive);
        let patience = Patience { retries, user_timeout: None, syn: false, max };
        let may_hear = alive || !self.tx.timed_out(cx, &patience);
        self.out_of_resources(cx, may_hear)
    }

    /// TCP_USER_TIMEOUT where it is set.
    fn user_timeout(&self) -> Option<Duration> {
        let ms = u64::from(self.options.user_timeout_ms);
        (ms != 0).then(|| Duration::from_millis(ms))
    }

    /// Retries of a connection without an owner (`tcp_orphan_retries`); `alive` says that the backoff has not reached its bound.
    fn orphan_retries(&self, cx: &Cx<'_>, alive: bool) -> u32 {
        let hopeless = self.app.soft_error.is_some() && !alive;
        match if hopeless { 0 } else { cx.sysctl.tcp_orphan_retries } {
            0 if alive => 8,
            retries => retries,
        }
    }

    /// Window probes without an answer after which the peer is given up; `None` when it is to be given up now: a peer that
    /// answers but never opens its window must not keep what nobody owns for ever (`tcp_probe_timer`).
    fn probe_limit(&self, cx: &Cx<'_>) -> Option<u32> {
        if !self.app.orphan {
            return Some(cx.sysctl.tcp_retries2);
        }
        // Whatever TCP_USER_TIMEOUT leaves of the wait (`inet_csk_rto_backoff`).
        let rtt = &self.path.rtt;
        let doubled = nanos(rtt.rto(cx.sysctl)).saturating_mul(1 << rtt.backoff().min(20));
        let alive = Duration::from_nanos(doubled) < rtt.rto_max(cx.sysctl);
        let retries = self.orphan_retries(cx, alive);
        (alive || u32::from(self.path.rtt.backoff()) < retries).then_some(retries)
    }

    /// The peer stopped answering (`tcp_write_err`).
    pub(super) fn give_up(&mut self, cx: &mut Cx<'_>) {
        cx.count.tcp_ext.tcp_abort_on_timeout += 1;
        if !self.state.is_synchronized() {
            cx.count.tcp.attempt_fails += 1;
        }
        let error = self.app.soft_error.unwrap_or(Error::TimedOut);
        self.finish(cx, Some(error));
    }

    fn on_probe_timer(&mut self, cx: &mut Cx<'_>) {
        if self.has_in_flight() || self.tx.queue_ref().unsent_bytes() == 0 {
            self.timers.stop_probing();
            return;
        }
        let since = *self.timers.probing_since.get_or_insert(cx.now);
        if self.user_timeout().is_some_and(|limit| cx.now.since(since) >= limit) {
            self.give_up(cx);
            return;
        }
        let limit = self.probe_limit(cx);
        if limit.is_some() && self.out_of_resources(cx, true) {
            return;
        }
        if limit.is_none_or(|limit| u32::from(self.timers.probes_out) >= limit) {
            self.give_up(cx);
            return;
        }
        self.out.probe = true;
        self.timers.backoff_before = self.path.rtt.backoff();
        self.path.rtt.back_off_probes(cx.sysctl.tcp_retries2.min(63) as u8);
        self.timers.probes_out = self.timers.probes_out.saturating_add(1);
        self.timers.probe = Some(self.path.deadline(cx, self.probe_delay(cx)));
    }

    /// Time to the first window probe: the RTO as timeouts have left it, at least 200 ms (RFC 9293 section 3.8.6.1; `tcp_probe0_base`).
    fn probe_base(&self, cx: &Cx<'_>) -> Duration {
        self.path.rtt.rto(cx.sysctl).max(PROBE_MIN)
    }

    /// Time to the next one: doubled per probe, and once more per timeout since the last sample (`tcp_probe0_when`).
    pub(super) fn probe_delay(&self, cx: &Cx<'_>) -> Duration {
        let max = self.path.rtt.rto_max(cx.sysctl);
        let doubled = nanos(self.probe_base(cx)).saturating_mul(1 << self.path.rtt.backoff().min(20));
        let delay = Duration::from_nanos(doubled).min(max);
        self.until_user_timeout(cx, delay)
    }

    /// The last wait of a prober ends when TCP_USER_TIMEOUT does (`tcp_clamp_probe0_to_user_timeout`).
    pub(super) fn until_user_timeout(&self, cx: &Cx<'_>, delay: Duration) -> Duration {
        match (self.user_timeout(), self.timers.probing_since) {
            (Some(limit), Some(since)) => {
                delay.min(limit.saturating_sub(cx.now.since(since)).max(Duration::from_millis(2)))
            }
            _ => delay,
        }
    }

    /// Starts probing when something waits, nothing is in flight and no other timer would wake us (`tcp_check_probe_timer`).
    pub(super) fn arm_probe_if_stuck(&mut self, cx: &Cx<'_>) {
        if self.timers.probe.is_none() && !self.has_in_flight() && self.tx.timer().is_none() {
            self.timers.probe = Some(self.path.deadline(cx, self.probe_base(cx)));
        }
    }

    fn on_keepalive_timer(&mut self, cx: &mut Cx<'_>) {
        if self.state == State::TimeWait {
            match self.rest.time_wait.as_ref().map(|tw| tw.deadline()) {
                Some(at) if at > cx.now => self.timers.keepalive = Some(at),
                _ => self.finish(cx, None),
            }
            return;
        }
        if self.state == State::FinWait2 && self.app.orphan {
            self.end_whole_fin_wait2(cx);
            return;
        }
        if !self.may_keep_alive() {
            return;
        }
        let idle = self.keepalive_idle(cx);
        let sysctl = cx.sysctl;
        let time = self.keepalive_time(cx);
        // Data in flight or unsent keeps other timers running: they find out whether the peer lives.
        if self.has_in_flight() || self.tx.queue_ref().unsent_bytes() > 0 {
            self.timers.keepalive = Some(cx.now + time);
            return;
        }
        if idle < time {
            self.timers.keepalive = Some(cx.now + (time - idle));
            return;
        }
        let probes =
            if self.options.keepcnt != 0 { self.options.keepcnt } else { sysctl.tcp_keepalive_probes };
        let spent = match self.user_timeout() {
            Some(limit) => idle >= limit && self.timers.probes_out > 0,
            None => u32::from(self.timers.probes_out) >= probes,
        };
        if spent {
            self.send_reset(cx);
            self.give_up(cx);
            return;
        }
        self.out.keepalive = true;
        self.timers.probes_out = self.timers.probes_out.saturating_add(1);
        self.timers.keepalive = Some(cx.now + own_or(self.options.keepintvl, sysctl.tcp_keepalive_intvl));
    }

    /// A small object waits from here on ([`Conn::fate`]), unless the time is shorter by now than it was (`tcp_keepalive_timer`).
    fn end_whole_fin_wait2(&mut self, cx: &mut Cx<'_>) {
        if self.fin_timeout(cx) <= TIME_WAIT {
            self.send_reset(cx);
            self.finish(cx, None);
        }
    }

    /// Silence is questioned: also that of a peer whose SYN brought data and whose acknowledgement of ours is missing (`tcp_keepalive_timer`).
    fn may_keep_alive(&self) -> bool {
        self.options.keepalive && self.state != State::SynSent && !self.is_over()
    }

    /// There is nobody whose silence could be questioned: the timer is that of TIME-WAIT, which no option moves (`tcp_set_keepalive`).
    const fn is_over(&self) -> bool {
        matches!(self.state, State::Close | State::TimeWait)
    }

    /// How long silence lasts before it is questioned.
    fn keepalive_time(&self, cx: &Cx<'_>) -> Duration {
        own_or(self.options.keepidle, cx.sysctl.tcp_keepalive_time)
    }

    /// Time since anything came from the peer.
    fn keepalive_idle(&self, cx: &Cx<'_>) -> Duration {
        cx.now.since(self.rest.stats.last_ack_recv.max(self.rx.ack.last_data_at()))
    }

    /// SO_KEEPALIVE was switched, or the connection was established with it on.
    pub(super) fn arm_keepalive(&mut self, cx: &Cx<'_>) {
        if self.is_over() {
            return;
        }
        self.timers.keepalive = self.options.keepalive.then(|| cx.now + self.keepalive_time(cx));
    }

    /// TCP_KEEPIDLE was set: the silence so far counts (`tcp_sock_set_keepidle_locked`).
    pub(super) fn change_keepidle(&mut self, cx: &Cx<'_>) {
        if !self.may_keep_alive() {
            return;
        }
        let time = self.keepalive_time(cx);
        self.timers.keepalive = Some(cx.now + time.saturating_sub(self.keepalive_idle(cx)));
    }
}

/// The socket's own number of seconds, or the system's; never none at all, or a timer would fire without end.
fn own_or(own: u32, default: u32) -> Duration {
    Duration::from_secs(u64::from(if own != 0 { own } else { default }.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_look_at_the_clock_is_known_for_three_days() {
        let mut timers = Timers::default();
        assert_eq!(timers.looked_at(Instant::from_millis(7)), Instant::ZERO);
        for at in [1, (1 << 16) - 1, (1 << 48) - 1, 1 << 48, 123_456_789_012_345_678].map(Instant::from_nanos)
        {
            timers.look(at);
            for later in [0, 1, 70_000, (1 << 48) - 1] {
                assert_eq!(timers.looked_at(at.plus_nanos(later)), at);
            }
        }
    }
}
