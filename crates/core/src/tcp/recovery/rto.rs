//! The retransmission timeout (RFC 6298): one timer shared with TLP and RACK, entry into Loss, backoff and giving up.
use super::{Ack, Env, Recovery, fact};
use crate::base::Cx;
use crate::base::time::{Duration, Instant};
use crate::base::trace::Ev;
use crate::path::congestion::Window;
use crate::path::congestion::{CaEvent, CaState, Congestion as _};
use crate::path::rtt::RTO_INITIAL;
use crate::tcp::tx_queue::flag;
use core::num::NonZeroU32;

/// Smallest delay of a timer that waits for an acknowledgement, against timers that fire between packets of one burst
/// (`TCP_TIMEOUT_MIN`).
pub(in crate::tcp) const TIMEOUT_MIN: Duration = Duration::from_millis(2);
/// Wait after a retransmission that could not be sent for local reasons (`TCP_RESOURCE_PROBE_INTERVAL`).
pub(in crate::tcp) const RESOURCE_PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// The first of the timeouts that tcp_retries1, tcp_retries2 and tcp_orphan_retries count (`TCP_RTO_MIN`, whatever
/// tcp_rto_min_us says).
const RETRIES_BASE: Duration = Duration::from_millis(200);
/// Shortest wait before a peer that reneged is treated like a timeout.
const RENEGE_DELAY_MIN: Duration = Duration::from_millis(10);

/// What a retransmission timeout means for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// It doubles (RFC 6298 section 5.5).
    Backoff,
    /// One of the first of a SYN: it stays (`tcp_syn_linear_timeouts`).
    Linear,
    /// The stream is thin: doubling would only make it wait (`tcp_thin_linear_timeouts`).
    Thin,
    /// The peer's window is shut: it doubles, and the retransmission is a probe that does not count as a failure.
    Probe,
    /// As [`Self::Probe`] of a thin stream: it stays.
    ThinProbe,
}

/// What the transmission timer is set for (`icsk_pending`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerKind {
    /// Retransmission timeout.
    Rto,
    /// Tail loss probe.
    Tlp,
    /// RACK's reordering timer.
    Reorder,
}

/// Counts of retransmission timeouts (`tcp_update_rto_stats`, `tcp_update_rto_time`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// In a row without progress (`icsk_retransmits`).
    pub retransmits: u8,
    /// Ever, modulo 2^16 (`tcpi_total_rto`).
    pub total: u16,
    /// Rows of them, modulo 2^16 (`tcpi_total_rto_recoveries`).
    pub recoveries: u16,
    /// Those that gave the flow another label, modulo 2^16 (`tcpi_rehash`).
    pub rehashes: u16,
    spent_ms: u32,
    /// When the present row began, in milliseconds of the stack's clock modulo 2^32.
    since_ms: Option<NonZeroU32>,
}

impl Timeouts {
    pub(in crate::tcp) fn count(&mut self, now: Instant) {
        if self.retransmits == 0 {
            self.recoveries = self.recoveries.wrapping_add(1);
            self.since_ms = NonZeroU32::new(now.as_millis() as u32);
        }
        self.retransmits = self.retransmits.saturating_add(1);
        self.total = self.total.wrapping_add(1);
    }

    /// The SYN-ACK of a passive open timed out so often, first sent `since` ago (`tcp_create_openreq_child`).
    pub(in crate::tcp) fn note_syn_acks(&mut self, timeouts: u8, since: Duration) {
        (self.total, self.recoveries) = (u16::from(timeouts), 1);
        self.spent_ms = since.as_millis() as u32;
    }

    /// A timeout for what has not left this host: it uses up patience, but nothing recovers from it.
    pub(in crate::tcp) const fn attempt(&mut self) {
        self.retransmits = self.retransmits.saturating_add(1);
    }

    /// Loss recovery after a timeout is over.
    pub(in crate::tcp) fn recovered(&mut self, now: Instant) {
        self.spent_ms = self.time_ms(now);
        self.since_ms = None;
    }

    /// Milliseconds spent in recoveries from timeouts, the present one included (`tcpi_total_rto_time`).
    #[must_use]
    pub fn time_ms(&self, now: Instant) -> u32 {
        let running = self.since_ms.map_or(0, |since| (now.as_millis() as u32).wrapping_sub(since.get()));
        self.spent_ms.wrapping_add(running)
    }
}

/// How long unanswered retransmissions may go on.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Timeouts whose time it is.
    pub retries: u32,
    /// TCP_USER_TIMEOUT, which counts instead where it is set.
    pub user_timeout: Option<Duration>,
    /// They are of a SYN, and began at [`RTO_INITIAL`].
    pub syn: bool,
    /// The longest timeout.
    pub max: Duration,
}

/// The transmission timer: at most one of the three purposes at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct XmitTimer {
    set: Option<(TimerKind, Instant)>,
}

impl XmitTimer {
    /// Kind and deadline, when it is set.
    #[must_use]
    pub const fn get(&self) -> Option<(TimerKind, Instant)> {
        self.set
    }

    pub(in crate::tcp) fn set(&mut self, cx: &mut Cx<'_>, kind: TimerKind, at: Instant) {
        if self.set != Some((kind, at)) {
            self.set = Some((kind, at));
            let name = match kind {
                TimerKind::Rto => "rto",
                TimerKind::Tlp => "tlp",
                TimerKind::Reorder => "reorder",
            };
            cx.trace(Ev::Timer(name, at));
        }
    }

    /// It is set as it was before.
    pub(in crate::tcp) fn restore(&mut self, cx: &mut Cx<'_>, prior: Option<(TimerKind, Instant)>) {
        match prior {
            Some((kind, at)) => self.set(cx, kind, at),
            None => self.clear(),
        }
    }

    pub(in crate::tcp) fn clear(&mut self) {
        self.set = None;
    }

    fn is(&self, kind: TimerKind) -> bool {
        self.set.is_some_and(|(k, _)| k == kind)
    }
}

impl Env<'_, '_> {
    /// Sets the RTO timer (`tcp_rearm_rto`): from now, but from the head's transmission when TLP or RACK held the timer; and later
    /// by the time that the next packet has to wait for its departure.
    pub(in crate::tcp) fn rearm_rto(&mut self) {
        if self.flight.packets_out == 0 {
            self.timer.clear();
            return;
        }
        let rto = self.path.rtt.rto(self.cx.sysctl);
        let wait = if self.timer.is(TimerKind::Tlp) || self.timer.is(TimerKind::Reorder) {
            self.head_deadline(rto).since(self.cx.now).max(Duration::from_micros(1))
        } else {
            rto
        };
        let at = self.path.deadline(self.cx, wait);
        self.timer.set(self.cx, TimerKind::Rto, at);
    }

    /// After a timeout the next one counts from now, whatever the pace holds back (the end of `tcp_retransmit_timer`).
    pub(in crate::tcp) fn restart_rto(&mut self) {
        let rto = self.path.rtt.rto_of_timer(self.cx.sysctl);
        self.timer.set(self.cx, TimerKind::Rto, self.cx.now + rto);
    }
}

/// The head of the queue is sacked though `una` reached it: the peer threw away what it had sacked (RFC 2018 section 8).
/// Only a short timer tells that from reordered acknowledgements (`tcp_check_sack_reneging`); true when it was set.
pub(super) fn check_reneging(e: &mut Env<'_, '_>, ack: &mut Ack) -> bool {
    if !(ack.has(fact::SACK_RENEGING) && ack.has(fact::UNA_ADVANCED)) {
        return false;
    }
    let delay = e.path.rtt.srtt().map_or(RENEGE_DELAY_MIN, |srtt| (srtt / 2).max(RENEGE_DELAY_MIN));
    e.timer.set(e.cx, TimerKind::Rto, e.cx.now + delay);
    ack.facts &= !fact::SET_XMIT_TIMER;
    true
}

impl Recovery {
    /// Arms TLP, or RTO where TLP does not apply (`tcp_set_xmit_timer`).
    pub(in crate::tcp) fn set_xmit_timer(&mut self, e: &mut Env<'_, '_>) {
        if !self.schedule_probe(e, true) {
            e.rearm_rto();
        }
    }

    /// The timeout is real as far as we know: everything out is lost (`tcp_enter_loss`, RFC 5681 section 3.1).
    pub(in crate::tcp) fn enter_loss(&mut self, e: &mut Env<'_, '_>) {
        let new_recovery = self.ca < CaState::Recovery;
        self.mark_all_lost(e);
        let una = e.flight.tx.una();
        if self.ca <= CaState::Disorder
            || self.high_seq <= una
            || (self.ca == CaState::Loss && self.timeouts.retransmits == 0)
        {
            self.undo.prior_ssthresh = self.current_ssthresh(e.path);
            self.prr.prior_cwnd = e.path.window.cwnd;
            let ssthresh = e.path.congestion.ssthresh(e.cx, &e.path.window);
            e.path.window.set_ssthresh(e.cx, ssthresh);
            let flow = e.flow();
            e.path.tell(e.cx, CaEvent::Loss, &flow);
            self.undo.begin(e.flight, &self.tlp);
        }
        let cwnd = e.flight.in_flight() + 1;
        e.path.window.reset_cwnd(e.cx, cwnd);
        e.path.window.cwnd_cnt = 0;
        // Many duplicates and still a timeout: reordering was overestimated.
        let reordering = e.cx.sysctl.tcp_reordering;
        if self.ca <= CaState::Disorder && e.flight.sacked_out >= reordering {
            self.reorder.degree = self.reorder.degree.min(reordering);
        }
        self.set_ca(e, CaState::Loss);
        self.high_seq = e.flight.tx.nxt();
        self.cwr_pending = true;
        // What a lost probe of the MTU leaves open is no sign of a spurious timeout.
        let probing = e.path.plpmtud.as_ref().is_some_and(|search| search.is_probing());
        self.frto.on =
            e.cx.sysctl.tcp_frto > 0 && (new_recovery || self.timeouts.retransmits > 0) && !probing;
    }

    /// Marks everything lost but what RACK knows to be younger than a round trip (`tcp_timeout_mark_lost`). Walks the window,
    /// once per timeout.
    fn mark_all_lost(&mut self, e: &mut Env<'_, '_>) {
        let reneged = e.flight.reneged();
        if reneged {
            e.cx.count.tcp_ext.tcp_sack_reneging += 1;
            e.flight.forget_sacks();
            self.reneged = true;
        } else if !e.flight.sack_ok {
            e.flight.sacked_out = 0;
        }
        let rack = e.flight.sack_ok && !reneged;
        let mut next = e.flight.tx.first().map(|(start, sent)| (start, sent.span(), false));
        while let Some((start, span, recent)) = next {
            if !recent {
                e.flight.mark_lost(e.cx, start);
            }
            let (from, to) = (start + span, e.flight.tx.nxt());
            next = e.flight.tx.range(from, to).next().map(|(start, sent)| {
                // What has not left this host cannot be lost.
                let below = e.flight.tx.below.holds(sent.number);
                (start, sent.span(), below || (rack && self.rack.is_recent(sent.sent_at, e.cx.now)))
            });
        }
    }

    /// The RTO timer fired: counts, enters Loss, backs off, and sets the timer again (`tcp_retransmit_timer`).
    pub(in crate::tcp) fn on_rto(&mut self, e: &mut Env<'_, '_>, kind: Timeout) {
        let probe = matches!(kind, Timeout::Probe | Timeout::ThinProbe);
        if !probe {
            self.count_timeout(e);
        }
        self.enter_loss(e);
        self.tlp.high_seq = None;
        self.frto.hold = false;
        if !probe {
            self.timeouts.count(e.cx.now);
        }
        match kind {
            Timeout::Linear => {}
            // A stream is not thin in its first slow start (`tcp_stream_is_thin`), where controllers without a threshold stay.
            Timeout::Thin | Timeout::ThinProbe if e.path.window.ssthresh < Window::INFINITE_SSTHRESH => {
                e.path.rtt.reset_backoff();
            }
            _ => e.path.rtt.back_off(),
        }
        e.restart_rto();
    }

    fn count_timeout(&self, e: &mut Env<'_, '_>) {
        let c = &mut e.cx.count.tcp_ext;
        c.tcp_timeouts += 1;
        if self.timeouts.retransmits > 0 {
            return;
        }
        match self.ca {
            CaState::Recovery if e.flight.sack_ok => c.tcp_sack_recovery_fail += 1,
            CaState::Recovery => c.tcp_reno_recovery_fail += 1,
            CaState::Loss => c.tcp_loss_failures += 1,
            CaState::Open | CaState::Cwr if e.flight.sacked_out == 0 => {}
            _ if e.flight.sack_ok => c.tcp_sack_failures += 1,
            _ => c.tcp_reno_failures += 1,
        }
    }

    /// The reordering timer fired (`tcp_rack_reo_timeout`); true when there is something to retransmit.
    pub(in crate::tcp) fn on_reorder_timeout(&mut self, e: &mut Env<'_, '_>) -> bool {
        let (prior, lost) = (e.flight.in_flight(), e.flight.lost);
        self.rack.detect(e, self.ca, &self.reorder, e.cx.now);
        self.frto.hold = false;
        let found = prior != e.flight.in_flight();
        self.frto.walks = found;
        if found && self.ca != CaState::Recovery {
            self.enter_recovery(e, false);
            if !e.path.congestion.wishes().governs {
                self.reduce(e, 1, e.flight.lost.wrapping_sub(lost), None);
            }
        }
        found
    }

    /// The path's MTU shrank: what is too long for it is lost, without being a sign of congestion (`tcp_simple_retransmit`).
    /// True when something is to be sent again.
    pub(in crate::tcp) fn on_mss_reduced(&mut self, e: &mut Env<'_, '_>, syn_data: bool) -> bool {
        let mss = e.flight.mss;
        let mut next = e.flight.tx.first().map(|(start, _)| start);
        while let Some(start) = next {
            let Some(sent) = e.flight.tx.get(start) else { break };
            let end = start + sent.span();
            let long = sent.mss > mss && sent.payload.len() > usize::from(mss);
            if (syn_data || long) && !sent.has(flag::SACKED) {
                e.flight.mark_lost(e.cx, start);
            }
            next = e.flight.tx.range(end, u64::MAX).next().map(|(start, _)| start);
        }
        if e.flight.lost_out == 0 {
            return false;
        }
        if !e.flight.sack_ok {
            e.flight.limit_reno_sacked();
        }
        self.retransmit_without_congestion(e);
        true
    }

    /// What is marked lost goes again, though the path is not to blame (`tcp_non_congestion_loss_retransmit`).
    pub(in crate::tcp) fn retransmit_without_congestion(&mut self, e: &mut Env<'_, '_>) {
        if self.ca != CaState::Loss {
            self.high_seq = e.flight.tx.nxt();
            let ssthresh = self.current_ssthresh(e.path);
            e.path.window.set_ssthresh(e.cx, ssthresh);
            self.undo.prior_ssthresh = 0;
            self.undo.marker = None;
            self.set_ca(e, CaState::Loss);
        }
        (self.frto.hold, self.frto.walks) = (false, true);
    }

    /// True when retransmissions have gone on for longer than so many of them would take at exponential backoff, or for
    /// as long as the user says (RFC 9293 section 3.8.3, `retransmits_timed_out`).
    pub(in crate::tcp) fn timed_out(&self, cx: &Cx<'_>, patience: &Patience) -> bool {
        let Some(since) = self.undo.stamp.filter(|_| self.timeouts.retransmits > 0) else { return false };
        let base = if patience.syn { RTO_INITIAL } else { RETRIES_BASE };
        let limit =
            patience.user_timeout.unwrap_or_else(|| model_timeout(patience.retries, base, patience.max));
        cx.now.since(since) >= limit
    }
}

/// Time until `retries` retransmissions have timed out, doubling from `base` up to `max` (`tcp_model_timeout`).
fn model_timeout(retries: u32, base: Duration, max: Duration) -> Duration {
    let doublings = (max.as_millis() / base.as_millis().max(1)).checked_ilog2().unwrap_or(0).min(20);
    let doubled = base * ((2u32 << retries.min(doublings)) - 1);
    doubled + max * retries.saturating_sub(doublings)
}
