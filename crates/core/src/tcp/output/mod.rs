//! What goes out next: the one place that asks the gatekeepers in order (`tcp_write_xmit`).
pub(super) mod autosize;
mod build;
pub(super) mod defer;
pub(super) mod nagle;
mod probe;

use super::PathCaps;
use super::conn::Conn;
use super::segment::Outgoing;
use super::sender::Probe;
use super::state::State;
use super::tx_queue::HeadInfo;
use crate::base::time::nanos;
use crate::base::{Cx, Wait};
use crate::credit::{Admission, Ask};
use crate::path::congestion::CaState;
use crate::path::pacing::Status;
use nagle::Hold;

/// Memory that a packet below us pins beside its payload: its headers, and its slots in queue and device.
const PACKET_CHARGE: u32 = 768;
/// log2 of the packets per second that one flow may have below it (`sk_pacing_shift`).
const PACING_SHIFT: u8 = 10;

impl Conn {
    /// The next segment, or `None` when there is nothing more to send now; the reason has been counted. Call it until it
    /// returns `None`, or come back later: nothing is lost.
    pub fn output(&mut self, cx: &mut Cx<'_>, caps: &PathCaps) -> Option<Outgoing> {
        if let Some(reset) = self.out.reset.take() {
            return Some(*reset);
        }
        self.delegate_pacing(caps);
        if let Some(hold) = self.out.hold() {
            match self.next_data(cx, caps, hold) {
                Ok(segment) => return Some(segment),
                Err(why) => {
                    cx.count.wait(why);
                    self.wait(cx, why);
                }
            }
        }
        if core::mem::take(&mut self.out.probe) {
            return Some(self.window_probe(cx));
        }
        if core::mem::take(&mut self.out.keepalive) {
            return Some(self.keepalive_probe(cx));
        }
        self.acks_allowed().then(|| self.rx.ack_due()).filter(|&due| due).map(|_| self.pure_ack(cx))
    }

    /// True while [`Conn::output`] may return something.
    #[must_use]
    pub fn wants_output(&self) -> bool {
        self.out.any() || (self.acks_allowed() && self.rx.ack_due())
    }

    /// ACKs make sense once the peer's SYN has come.
    const fn acks_allowed(&self) -> bool {
        !matches!(self.state, State::SynSent | State::Close)
    }

    /// Nagle's answer for pushes that no flag of a call overrides.
    pub(super) const fn default_hold(&self) -> Hold {
        match (self.options.cork, self.options.nodelay) {
            (true, _) => Hold::Cork,
            (false, true) => Hold::Push,
            (false, false) => Hold::Nagle,
        }
    }

    /// The queue below paces when it honours departure times; else this flow's own timer does. Both ways, while flows run.
    fn delegate_pacing(&mut self, caps: &PathCaps) {
        match (self.path.pacing.status(), caps.fq) {
            (Status::Needed, true) => self.path.pacing.set_status(Status::Fq),
            (Status::Fq, false) => self.path.pacing.set_status(Status::Needed),
            _ => {}
        }
    }

    /// A retransmission if one is due, else new data.
    fn next_data(&mut self, cx: &mut Cx<'_>, caps: &PathCaps, hold: Hold) -> Result<Outgoing, Wait> {
        if self.state == State::Close {
            return Err(Wait::Empty);
        }
        let mss = self.mss_now();
        let max_segs = autosize::segments(cx.sysctl, &self.path, caps, mss);
        if self.tx.syn_unsent() {
            let plan = self.tx.commit_syn(cx, &mut self.path);
            return Ok(self.syn_segment(cx, &plan));
        }
        if let Some(probe) = self.tail_probe(cx)? {
            return Ok(probe);
        }
        if self.tx.prefers_new_data() && hold_allows_new(self.state) {
            // F-RTO: new data tells more than a retransmission (RFC 5682 section 2.1 step 2b).
            if let Ok(segment) = self.new_data(cx, mss, max_segs, Hold::Push) {
                return Ok(segment);
            }
            self.tx.frto_sent();
        }
        if let Some(resend) = self.tx.next_retransmit(cx, &self.path, max_segs) {
            return self.retransmit(cx, resend);
        }
        if matches!(self.state, State::SynSent | State::SynRecv) {
            return Err(if self.tx.unsent_bytes() > 0 { Wait::Handshake } else { Wait::Empty });
        }
        self.new_data(cx, mss, max_segs, hold)
    }

    fn retransmit(&mut self, cx: &mut Cx<'_>, resend: super::sender::Resend) -> Result<Outgoing, Wait> {
        self.pacing_gate(cx)?;
        let charge = resend.len + PACKET_CHARGE;
        self.credit_gate(cx, charge, true)?;
        // Windows may have shrunk behind what is in flight (RFC 9293 section 3.8.6).
        let window_end = self.tx.snd_una() + self.snd.wnd;
        if !resend.seq.before(window_end) && resend.seq != self.tx.snd_una() {
            return Err(Wait::RecvWindow);
        }
        let plan = self.tx.commit_retransmit(cx, &mut self.path, resend);
        cx.count.tcp.retrans_segs += u64::from(plan.segs);
        self.stats.bytes_retrans += plan.payload.len() as u64;
        if plan.syn {
            cx.count.tcp_ext.tcp_syn_retrans += 1;
            return Ok(self.syn_segment(cx, &plan));
        }
        Ok(self.data_segment(cx, &plan, true))
    }

    /// What a tail loss probe asks for: one segment past the congestion window (RFC 8985 section 7.3).
    fn tail_probe(&mut self, cx: &mut Cx<'_>) -> Result<Option<Outgoing>, Wait> {
        let Some(probe) = self.out.tail_probe.take() else {
            return Ok(None);
        };
        let segment = match probe {
            Probe::Resend(resend) => Some(self.retransmit(cx, resend)),
            Probe::New => {
                let mss = self.mss_now();
                let head = self.tx.peek_unsent();
                let room = self.send_window_room();
                head.filter(|h| room >= h.len.min(u64::from(mss)) as u32).map(|h| {
                    let len = h.len.min(u64::from(mss));
                    Ok(self.commit_new(cx, len, mss))
                })
            }
            Probe::Nothing => None,
        };
        let sent = matches!(segment, Some(Ok(_)));
        self.tx.tlp_done(cx, &mut self.path, sent);
        segment.transpose()
    }

    fn new_data(
        &mut self,
        cx: &mut Cx<'_>,
        mss: u16,
        max_segs: u16,
        hold: Hold,
    ) -> Result<Outgoing, Wait> {
        let Some(head) = self.tx.peek_unsent() else {
            return Err(Wait::Empty);
        };
        self.pacing_gate(cx)?;
        let quota = self.cwnd_quota(&head, mss)?;
        let room = self.send_window_room();
        let first = head.len.min(u64::from(mss)) as u32;
        if room < first {
            return Err(Wait::RecvWindow);
        }
        let hold = if head.last { hold } else { Hold::Push };
        if max_segs == 1 || head.len <= u64::from(mss) {
            let facts = self.nagle_facts(&head, head.len < u64::from(mss));
            if let Some(why) = nagle::check(hold, facts) {
                return Err(why);
            }
        } else if hold < Hold::Cork || head.len >= u64::from(mss) {
            let facts = self.defer_facts(cx, &head, mss, max_segs, room);
            if self.tx.has_in_flight()
                && let Some(why) = defer::check(&facts)
            {
                return Err(why);
            }
        }
        let len = self.split_point(&head, mss, quota.min(max_segs).max(1), room, hold);
        self.credit_gate(cx, len as u32 + PACKET_CHARGE, false)?;
        Ok(self.commit_new(cx, len, mss))
    }

    fn commit_new(&mut self, cx: &mut Cx<'_>, len: u64, mss: u16) -> Outgoing {
        let plan = self.tx.commit_send(cx, &mut self.path, len as usize, mss);
        if plan.payload.len() < usize::from(mss) * usize::from(plan.segs) {
            self.snd.sml = plan.seq + plan.payload.len() as u32 + u32::from(plan.fin);
        }
        self.snd.last_data = cx.now;
        self.rx.on_data_sent(cx.now);
        self.check_space(cx);
        self.data_segment(cx, &plan, false)
    }

    fn pacing_gate(&mut self, cx: &Cx<'_>) -> Result<(), Wait> {
        match self.path.pacing.not_before(cx.now) {
            Some(at) => {
                self.timers.pace = Some(at);
                Err(Wait::Pacing)
            }
            None => Ok(()),
        }
    }

    fn credit_gate(&mut self, cx: &mut Cx<'_>, charge: u32, retransmission: bool) -> Result<(), Wait> {
        let paced = self.path.pacing.is_paced();
        let ask = Ask {
            charge,
            pacing_rate: self.path.pacing.rate(),
            pacing_shift: PACING_SHIFT,
            cap: (!paced).then_some(cx.sysctl.tcp_limit_output_bytes),
            retransmission,
            rtx_single: self.tx.records() <= 1,
        };
        match self.out.credit.ask(&ask) {
            Admission::Granted => Ok(()),
            Admission::Exempt => {
                cx.count.own.credit_exempt += 1;
                Ok(())
            }
            Admission::Throttled => Err(Wait::Credit),
        }
    }

    /// Segments that the congestion window allows in one packet: at most half the window, so that two are in flight
    /// (`tcp_cwnd_test`). A lone FIN always passes.
    fn cwnd_quota(&self, head: &HeadInfo, mss: u16) -> Result<u16, Wait> {
        if head.fin && head.len <= u64::from(mss) {
            return Ok(1);
        }
        let (cwnd, in_flight) = (self.path.window.cwnd, self.tx.in_flight());
        if in_flight >= cwnd {
            return Err(Wait::Cwnd);
        }
        Ok((cwnd / 2).max(1).min(cwnd - in_flight).min(u32::from(u16::MAX)) as u16)
    }

    /// Bytes between SND.NXT and the end of the peer's window.
    fn send_window_room(&self) -> u32 {
        let end = self.tx.snd_una() + self.snd.wnd;
        if self.tx.snd_nxt().before(end) { end.since(self.tx.snd_nxt()) } else { 0 }
    }

    fn nagle_facts(&self, head: &HeadInfo, partial: bool) -> nagle::Facts {
        let sml = self.snd.sml;
        nagle::Facts {
            partial,
            fin: head.fin,
            in_flight: self.tx.has_in_flight(),
            small_in_flight: sml.after(self.tx.snd_una()) && !sml.after(self.tx.snd_nxt()),
        }
    }

    fn defer_facts(&self, cx: &Cx<'_>, head: &HeadInfo, mss: u16, max_segs: u16, room: u32) -> defer::Facts {
        let mss = u64::from(mss);
        let (cwnd, in_flight) = (u64::from(self.path.window.cwnd), u64::from(self.tx.in_flight()));
        defer::Facts {
            len: head.len,
            sealed: head.fin || head.eor,
            last: head.last,
            send_win: u64::from(room),
            cong_win: cwnd.saturating_sub(in_flight) * mss,
            whole_win: u64::from(self.snd.wnd).min(cwnd * mss),
            goal: u64::from(max_segs) * mss,
            recovering: self.tx.ca_state() >= CaState::Recovery,
            since_sent_ns: cx.now.nanos_since(self.snd.last_departure),
            oldest_ns: self.tx.oldest_sent_at().map(|at| cx.now.nanos_since(at)),
            srtt_ns: self.path.rtt.srtt().map_or(0, nanos),
            win_divisor: u64::from(cx.sysctl.tcp_tso_win_divisor),
            three_mss: 3 * mss,
        }
    }

    /// How much of the head element goes: whole segments, unless the rest may go too (`tcp_mss_split_point`).
    fn split_point(&self, head: &HeadInfo, mss: u16, max_segs: u16, room: u32, hold: Hold) -> u64 {
        let (mss, max) = (u64::from(mss), u64::from(mss) * u64::from(max_segs));
        let room = u64::from(room);
        if head.len > max && max <= room {
            return max;
        }
        let needed = head.len.min(room);
        if needed >= max {
            return max;
        }
        let partial = needed % mss;
        let facts = self.nagle_facts(head, partial != 0);
        let held = nagle::check(hold, facts).is_some() || needed < head.len;
        if partial != 0 && needed > mss && held { needed - partial } else { needed }
    }

    /// What each reason for silence needs: nothing, or the one timer that would otherwise be missing.
    fn wait(&mut self, cx: &mut Cx<'_>, why: Wait) {
        let limited = why == Wait::Cwnd;
        self.tx.on_pause(cx, &mut self.path, limited);
        if why == Wait::Empty || (why == Wait::Nagle && self.tx.unsent_bytes() < u64::from(self.mss())) {
            self.mark_app_limited();
        }
        if matches!(why, Wait::RecvWindow | Wait::Nagle | Wait::Cork | Wait::Defer) {
            self.arm_probe_if_stuck(cx);
        }
        self.out.tried();
    }

    /// Rate samples taken from now on show what the application offered, not what the path could carry
    /// (`tcp_rate_check_app_limited`).
    fn mark_app_limited(&mut self) {
        if self.out.credit.below() == 0 && self.tx.in_flight() < self.path.window.cwnd && self.tx.losses_resent() {
            self.path.rate.mark_app_limited(self.tx.in_flight());
        }
    }

    /// MSS less what selective acknowledgements take of each segment at the moment (`tcp_current_mss`).
    fn mss_now(&self) -> u16 {
        let blocks = self.rx.sack_count();
        let sack_bytes = if blocks == 0 { 0 } else { 4 + 8 * blocks.min(self.sack_room()) as u16 };
        self.mss().saturating_sub(sack_bytes).max(1)
    }

    /// Blocks that fit beside the other options.
    const fn sack_room(&self) -> usize {
        if self.peer.ts { 3 } else { 4 }
    }

    /// A packet of this flow has left the device: its credit comes back, and a throttled flow may go on.
    pub fn on_complete(&mut self, _cx: &mut Cx<'_>, charge: u32) {
        if self.out.credit.refund(charge) {
            self.out.try_send(self.default_hold());
        }
    }

    /// The queue below refused a packet at enqueue: it was never sent, which says something about the queue, not about the
    /// path. One reduction per window, as Linux has it (`tcp_enter_cwr` on NET_XMIT_CN); the range is found lost by RACK.
    pub fn on_dropped(&mut self, cx: &mut Cx<'_>, charge: u32) {
        self.on_complete(cx, charge);
        self.tx.enter_cwr(cx, &mut self.path);
    }
}

const fn hold_allows_new(state: State) -> bool {
    !matches!(state, State::SynSent | State::SynRecv)
}
