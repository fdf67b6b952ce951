//! What leaves: a decision becomes a record in flight, with its place in the pace and its timer.
use super::{Attempt, Errand, Resend, SendPlan, Sender};
use crate::base::Cx;
use crate::path::Path;
use crate::path::congestion::{CaEvent, CaState};
use crate::path::rate::Snapshot;
use crate::tcp::recovery::Env;
use crate::tcp::recovery::rack::Earlier;
use crate::tcp::recovery::rto::TimerKind;
use crate::tcp::tx_queue::flag;
use core::ops::Range;

impl Sender {
    /// Sends `len` payload bytes of the head element (all of it when `len` is larger); `None` when nothing is unsent.
    pub fn commit_send(&mut self, cx: &mut Cx<'_>, path: &mut Path, len: usize) -> Option<SendPlan> {
        let prior = self.flight.packets_out;
        if self.flight.tx.unsent.head().is_some_and(|head| head.len > 0) {
            self.tell_start(cx, path);
        }
        let departure = path.pacing.departure(cx.now);
        let stamp = path.rate.on_sent(departure, prior == 0);
        let start = self.flight.tx.send_head(len, self.flight.mss, departure, stamp)?;
        self.first_sent(cx, path, self.attempt(path, Errand::New, start), prior)
    }

    /// Data leaves, the first time or again: the controller hears of it where nothing is in flight (`tcp_event_data_sent`).
    fn tell_start(&self, cx: &mut Cx<'_>, path: &mut Path) {
        if self.flight.in_flight() == 0 {
            let last_sent = self.usage.last_sent;
            let flow = path.flow(self.flight.mss, 0, self.flight.lost, self.flight.tx.nxt());
            path.tell(cx, CaEvent::TxStart { last_sent }, &flow);
        }
    }

    /// Sends `size` payload bytes as one segment, gathered from the queue whatever the MSS; where it lies in the stream. `None`
    /// when they do not belong together (MSG_EOR).
    pub fn commit_mtu_probe(
        &mut self,
        cx: &mut Cx<'_>,
        path: &mut Path,
        size: u16,
    ) -> Option<(SendPlan, Range<u64>)> {
        let prior = self.flight.packets_out;
        if !self.flight.tx.unsent.may_gather(usize::from(size)) {
            return None;
        }
        self.tell_start(cx, path);
        let departure = path.pacing.departure(cx.now);
        let stamp = path.rate.on_sent(departure, prior == 0);
        let start = self.flight.tx.send_gathered(usize::from(size), departure, stamp)?;
        let attempt = self.attempt(path, Errand::MtuProbe, start);
        let plan = self.first_sent(cx, path, attempt, prior)?;
        Some((plan, start..start + u64::from(size)))
    }

    /// A record leaves for the first time, with `prior` segments out before it (`tcp_event_new_data_sent`).
    fn first_sent(
        &mut self,
        cx: &mut Cx<'_>,
        path: &mut Path,
        attempt: Attempt,
        prior: u32,
    ) -> Option<SendPlan> {
        self.flight.on_sent(attempt.start());
        let plan = self.depart(cx, path, attempt, None)?;
        let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
        if prior == 0 || matches!(e.timer.get(), Some((TimerKind::Tlp, _))) {
            e.rearm_rto();
        }
        // At once: a round of sending may be interrupted, and an acknowledgement come before it goes on (`tcp_write_xmit` counts at its end).
        self.recovery.count_out(plan.segs);
        cx.count.tcp_ext.tcp_orig_data_sent += u64::from(plan.segs);
        Some(plan)
    }

    /// What goes down for a record, whose place in the pace is taken.
    fn depart(
        &mut self,
        cx: &Cx<'_>,
        path: &mut Path,
        attempt: Attempt,
        again: Option<&Resend>,
    ) -> Option<SendPlan> {
        let mut plan = self.plan(attempt.start(), again.map(|resend| resend.last_sent))?;
        let clock = again.and_then(|resend| resend.clock).unwrap_or(cx.now);
        plan.attempt = Some(attempt).filter(|_| !plan.syn);
        plan.departure = path.pacing.on_send(clock, plan.payload.len(), plan.segs);
        self.note_data(cx.now, &plan);
        Some(plan)
    }

    /// Sends a retransmission that [`Self::next_lost`] or [`Self::on_rto`] proposed.
    ///
    /// `None` when an acknowledgement came in between and the record is no longer what it was: then nothing is sent.
    pub fn commit_retransmit(
        &mut self,
        cx: &mut Cx<'_>,
        path: &mut Path,
        resend: &Resend,
    ) -> Option<SendPlan> {
        if !self.holds(resend) {
            return None;
        }
        let (start, segs) = (resend.start, resend.segs);
        let at_head = self.flight.tx.first().is_some_and(|(head, _)| head == start);
        let attempt = self.attempt(path, Errand::Again, start);
        let walk = path.plpmtud.as_ref().and_then(|search| search.walk());
        self.send_again(cx, path, resend, walk.map(|walk| walk.stamp), true);
        let rate = path.pacing.rate();
        if let Some(walk) = walk {
            path.pacing.set_rate(walk.rate);
        }
        let plan = self.depart(cx, path, attempt, Some(resend));
        if walk.is_some() {
            path.pacing.set_rate(rate);
        }
        let plan = plan?;
        self.recovery.undo.on_retransmit(segs, plan.departure);
        self.recovery.count_out(segs);
        if self.recovery.ca == CaState::Loss {
            cx.count.tcp_ext.tcp_slow_start_retrans += u64::from(segs);
        } else {
            cx.count.tcp_ext.tcp_fast_retrans += u64::from(segs);
        }
        if at_head && !matches!(self.timer.get(), Some((TimerKind::Reorder, _))) {
            let at = path.deadline(cx, path.rtt.rto(cx.sysctl));
            self.timer.set(cx, TimerKind::Rto, at);
        }
        Some(plan)
    }

    /// The record is as it was when the retransmission was proposed.
    fn holds(&self, resend: &Resend) -> bool {
        self.flight.tx.get(resend.start).is_some_and(|sent| {
            sent.span() == u64::from(resend.len)
                && sent.sent_at == resend.last_sent
                && sent.segs == resend.segs
                && !sent.has(flag::SACKED)
        })
    }

    fn send_again(
        &mut self,
        cx: &mut Cx<'_>,
        path: &mut Path,
        resend: &Resend,
        walk: Option<Snapshot>,
        counted: bool,
    ) {
        if let Some(search) = &mut path.plpmtud {
            search.forget();
        }
        if self.flight.tx.get(resend.start).is_some_and(|sent| !sent.payload.is_empty()) {
            self.tell_start(cx, path);
        }
        let departure = path.pacing.departure(resend.clock.unwrap_or(cx.now));
        let stamp = walk.unwrap_or_else(|| path.rate.on_sent(departure, false));
        let earlier = self.flight.tx.get(resend.start).map(Earlier::of);
        self.recovery.rack.make_room(&self.flight);
        self.flight.on_resent(resend.start, departure, resend.clock.is_some(), stamp, counted);
        if let Some(earlier) = earlier {
            let end = resend.start + u64::from(resend.len);
            self.recovery.rack.on_resent(&self.flight, resend.start, end, earlier);
        }
        self.recovery.undo.total_retrans =
            self.recovery.undo.total_retrans.saturating_add(u32::from(resend.segs));
        cx.count.tcp.retrans_segs += u64::from(resend.segs);
        if resend.start == 0 {
            cx.count.tcp_ext.tcp_syn_retrans += 1;
        }
    }

    /// Sends what [`Self::on_rto`] proposed; `None` when an acknowledgement has overtaken it.
    pub fn commit_rto(&mut self, cx: &mut Cx<'_>, path: &mut Path, resend: &Resend) -> Option<SendPlan> {
        if !self.holds(resend) {
            return None;
        }
        if resend.crossing {
            return self.commit_crossing(cx, resend);
        }
        let attempt = self.attempt(path, Errand::Timeout, resend.start);
        self.send_again(cx, path, resend, None, true);
        let plan = self.depart(cx, path, attempt, Some(resend))?;
        self.recovery.undo.on_retransmit(resend.segs, plan.departure);
        Some(plan)
    }

    /// Sends the retransmission of [`super::Probe::Resend`]; `None` when an acknowledgement has overtaken it. [`Self::tlp_done`] still
    /// has to follow.
    pub fn commit_tlp(&mut self, cx: &mut Cx<'_>, path: &mut Path, resend: &Resend) -> Option<SendPlan> {
        if !self.holds(resend) {
            return None;
        }
        let attempt = self.attempt(path, Errand::TailProbe, resend.start);
        self.send_again(cx, path, resend, None, false);
        self.depart(cx, path, attempt, Some(resend))
    }
}
