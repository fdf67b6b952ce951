//! What leaves again: a timeout's first segment, and what is lost, each past its gatekeepers (`__tcp_retransmit_skb`).
use super::nagle::Hold;
use crate::base::{Cx, Error, Instant, Wait};
use crate::tcp::PathCaps;
use crate::tcp::conn::Conn;
use crate::tcp::segment::Outgoing;
use crate::tcp::sender::{Lost, Resend, Rexmit, SendPlan};
use crate::tcp::seq::Seq;

impl Conn {
    /// Segments that one packet may hold of what is sent again, or of a probe. Each segment carries an urgent pointer of its own.
    pub(super) fn resend_segments(&mut self, cx: &Cx<'_>, caps: &PathCaps, mss: u16) -> u16 {
        if self.urgent_mode() { 1 } else { self.packet_segments(cx, caps, mss) }
    }

    /// Before the SYN-ACK is acknowledged nothing is sent again but what is too long for a router (`tcp_simple_retransmit`): what the
    /// SYN-ACK's timer found lost is no write's to send (`tcp_fastopen_synack_timer`).
    pub(super) fn child_resend(
        &mut self,
        cx: &Cx<'_>,
        caps: &PathCaps,
        mss: u16,
        hold: Option<Hold>,
    ) -> Option<Lost> {
        if hold.is_some() {
            return None;
        }
        let max_segs = self.resend_segments(cx, caps, mss);
        self.tx.next_lost(&self.path, max_segs, self.window_end())
    }

    /// Whether it goes is asked of the record as it is; cut for it, it would be two to whoever asks next (`__tcp_retransmit_skb`).
    pub(super) fn retransmit(&mut self, cx: &mut Cx<'_>, lost: &Lost) -> Result<Outgoing, Wait> {
        let clock = self.late_clock(cx.now);
        self.host_queue_gate(cx, lost.start)?;
        self.pacing_gate(clock.unwrap_or(cx.now))?;
        self.credit_gate(cx, lost.len, Some(lost.record))?;
        self.resend_path_gate()?;
        let resend = self.tx.fit(lost).ok_or(Wait::Empty)?.counted_from(clock);
        if self.out.rexmit != Rexmit::Lost
            && let Some(search) = &mut self.path.plpmtud
        {
            // The walk of the acknowledgement is over: the pace or small queues have it go on (`tcp_tsq_write`).
            search.set_walk(None);
        }
        let plan = self.tx.commit_retransmit(cx, &mut self.path, &resend).ok_or(Wait::Empty)?;
        if (resend.seq + resend.len).before(self.tx.snd_nxt()) {
            // The walk goes on behind it and asks the pace first, whose timer has the flow go on (`tcp_xmit_retransmit_queue`).
            self.timers.pace = self.path.pacing.not_before(cx.now).or(self.timers.pace);
        }
        Ok(self.again(cx, &plan))
    }

    /// When what an ICMP error sends again counts as sent.
    pub(super) fn late_clock(&self, now: Instant) -> Option<Instant> {
        self.out.resends_late().then(|| self.timers.looked_at(now))
    }

    /// What has not left this host is not sent again; the flow goes on when something of it has left.
    pub(super) fn host_queue_gate(&mut self, cx: &mut Cx<'_>, start: u64) -> Result<(), Wait> {
        if !self.tx.is_below(start) {
            return Ok(());
        }
        // Once in a burst, however many new packets pass by it.
        let told = core::mem::replace(&mut self.out.burst.held, true);
        cx.count.tcp_ext.tcp_spurious_rtx_host_queues += u64::from(!told);
        let _ = self.out.credit.throttle(); // the next refund wakes it in any case
        Err(Wait::HostQueue)
    }

    /// What goes again finds its way before anything is made of it: without one nothing is counted, and SO_ERROR tells why
    /// (`inet_sk_rebuild_header`).
    pub(super) fn resend_path_gate(&mut self) -> Result<(), Wait> {
        let way = self.path_gate();
        if way.is_err() {
            self.app.soft_error = Some(Error::NoRoute);
        }
        way
    }

    /// The first retransmission of a timeout is neither paced nor held back.
    pub(super) fn timeout_segment(
        &mut self,
        cx: &mut Cx<'_>,
        proposed: Resend,
        end: Seq,
    ) -> Option<Outgoing> {
        self.host_queue_gate(cx, proposed.start).ok()?;
        self.resend_path_gate().ok()?;
        let resend = self.tx.refit(proposed, end)?;
        let plan = self.tx.commit_rto(cx, &mut self.path, &resend)?;
        Some(self.again(cx, &plan))
    }

    pub(super) fn again(&mut self, cx: &mut Cx<'_>, plan: &SendPlan) -> Outgoing {
        if self.tx.take_freed() {
            self.rx.uncharge();
        }
        self.rest.stats.bytes_retrans += plan.payload.len() as u64;
        if plan.syn { self.syn_segment(cx, plan, None) } else { self.data_segment(cx, plan, true) }
    }
}
