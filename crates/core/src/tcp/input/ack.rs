//! The acknowledgement of a segment: window, what it covers, and where it moves the state (RFC 9293 section 3.10.7.4, fifth
//! step; `tcp_ack` and the ACK part of `tcp_rcv_state_process`).
use super::predicted::Prediction;
use crate::base::{Cx, DropWhy, Duration, Instant};
use crate::tcp::accecn::{Feedback, ace};
use crate::tcp::chrono::Held;
use crate::tcp::conn::Conn;
use crate::tcp::fastopen::fact;
use crate::tcp::ready::Notice;
use crate::tcp::segment::Segment;
use crate::tcp::sender::{AckIn, AckOut, Rexmit, SACK_BLOCKS_MAX};
use crate::tcp::seq::Seq;
use crate::tcp::state::State;
use crate::tcp::timewait::TIME_WAIT;
use crate::tcp::{Disposition, reset_for};
use lowwater_wire::tcp::TcpFlags;
use smallvec::SmallVec;

impl Conn {
    /// `None` when the segment may be processed further.
    pub(super) fn input_ack(
        &mut self,
        cx: &mut Cx<'_>,
        seg: &Segment,
        prediction: &Prediction,
    ) -> Option<Disposition> {
        let una = self.tx.snd_una();
        if self.state == State::SynRecv && !self.acks_syn_ack(seg) {
            return reset_for(&self.tuple, seg).map(Disposition::Reset);
        }
        if seg.ack.before(una) {
            return self.old_ack(cx, seg, prediction.holds());
        }
        if seg.ack.after(self.tx.snd_nxt()) {
            // Later Linux, in any state; before it, an established connection was silent (RFC 9293 section 3.10.7.4).
            self.challenge(cx);
            return Some(Disposition::Drop(DropWhy::TcpBadAck));
        }
        let child = self.is_child();
        let opens = self.state == State::SynRecv && !child;
        // A SYN of ours is still out where both sides opened: it is acknowledged first, as data is (`tcp_rcv_state_process`).
        let crossed = opens && self.tx.una_offset() == 0;
        if opens && !crossed {
            self.complete_passive_open(cx, seg);
        }
        self.store_timestamp(seg);
        if prediction.is_data_alone(seg) {
            // Linux does not look at its acknowledgement.
            self.snd.wl1 = seg.seq; // `tcp_update_wl`
            return None;
        }
        self.input_ecn_flags(seg);
        // The window of a SYN is never scaled (RFC 7323 section 2.2).
        let scale = if seg.flags.contains(TcpFlags::SYN) { 0 } else { self.peer.snd_wscale };
        let window = u32::from(seg.window) << scale;
        let update = self.snd.update(una, seg.ack, seg.seq, window);
        if update.changed && self.tx.note_window(self.snd.wnd) {
            // Half of the window bounds segments, so their size is looked at (`tcp_ack_update_window`), before the pace is set by it.
            self.path.settle_mtu();
            self.child_settled();
        }
        if update.changed {
            // A full buffer has what follows looked at (`tcp_ack_update_window`, `tcp_fast_path_check`).
            self.rx.set_foreseen(false);
            self.rx.foresee();
        }
        if update.changed && self.tx.queue_ref().unsent_bytes() > 0 {
            // What waited for the window waited for no acknowledgement: the congestion window is as old (`tcp_ack_update_window`).
            self.tx.check_idle_restart(cx, &mut self.path);
        }
        let out = self.acknowledge(cx, seg, update.taken);
        if crossed {
            self.complete_simultaneous_open(cx, seg);
        }
        if child {
            self.child_complete(cx, seg);
        }
        if self.snd.up.between(una, self.tx.snd_una()) {
            self.snd.up = self.tx.snd_una();
        }
        self.hear(cx.now);
        self.after_ack(cx, &out);
        let over = self.advance_state(cx, &out, seg);
        if over.is_some() {
            // Nothing of it is looked at any more, but it was an acknowledgement like any other.
            prediction.count(cx, seg);
        }
        over
    }

    /// In SYN-RECEIVED: acknowledges our SYN and nothing that was not sent. A passive connection begins with its SYN-ACK out of
    /// the queue, so the final ACK may name SND.UNA itself.
    fn acks_syn_ack(&self, seg: &Segment) -> bool {
        let una = self.tx.snd_una();
        let passive = self.tx.una_offset() > 0;
        (seg.ack.after(una) || (passive && seg.ack == una)) && !seg.ack.after(self.tx.snd_nxt())
    }

    /// Below SND.UNA: too old is an attack (RFC 5961 section 5.2), otherwise it still may carry selective acknowledgements.
    fn old_ack(&mut self, cx: &mut Cx<'_>, seg: &Segment, predicted: bool) -> Option<Disposition> {
        let una = self.tx.snd_una();
        // Nor can bytes be acknowledged that were never sent: the bound is no further back than the first byte, or the SYN of an active
        // open, which Linux counts (`bytes_acked`).
        let uncounted = u64::from(!self.rest.stats.fast.has(fact::ACTIVE));
        let sent = u32::try_from(self.tx.una_offset().saturating_sub(uncounted)).unwrap_or(u32::MAX);
        let refused = seg.ack.before(una - self.tx.max_window().min(sent));
        // Header prediction remembers the timestamp before it looks at the acknowledgement (`tcp_rcv_established`). Linux then takes the data,
        // too; where that is refused, its timestamp would have PAWS refuse what the peer really sends.
        if predicted && !(refused && seg.payload_len() > 0) {
            self.store_timestamp(seg);
        }
        if refused {
            self.challenge(cx);
            return Some(Disposition::Drop(DropWhy::TcpBadAck));
        }
        if !seg.options.sack.is_empty() {
            self.acknowledge(cx, seg, false);
            self.out.try_send(self.default_hold());
        }
        None
    }

    /// RFC 7323 section 4.3: TS.Recent follows segments at the left edge of what was last acknowledged.
    pub(super) fn store_timestamp(&mut self, seg: &Segment) {
        let before = self.peer.stamps.recent;
        if self.peer.ts && !seg.seq.after(self.rx.window().wup()) {
            self.peer.stamps.store(seg);
        }
        if self.peer.ecn.accurate() {
            self.note_timestamp(before);
        }
    }

    /// Hands the facts to the sender.
    pub(super) fn acknowledge(&mut self, cx: &mut Cx<'_>, seg: &Segment, window_taken: bool) -> AckOut {
        // What left with SACK blocks was shorter than the segments by which all of this counts (`mss_cache`).
        let mss = self.mss();
        self.acknowledge_by(cx, seg, window_taken, mss)
    }

    /// The same, counted by segments of `mss` bytes.
    pub(super) fn acknowledge_by(
        &mut self,
        cx: &mut Cx<'_>,
        seg: &Segment,
        window_taken: bool,
        mss: u16,
    ) -> AckOut {
        let sack: SmallVec<[(Seq, Seq); SACK_BLOCKS_MAX]> = if self.peer.sack {
            seg.options.sack.iter().map(|(left, right)| (Seq(left), Seq(right))).collect()
        } else {
            SmallVec::new()
        };
        self.tx.set_mss(mss);
        let (tsecr, child) = (self.echo_of(seg), self.is_child());
        let crossed = self.state != State::SynSent && self.tx.una_offset() == 0;
        let queued = self.tx.flight().wmem_queued();
        self.note_ack(cx, self.tx.offset(seg.ack));
        let accurate = self.peer.ecn.accurate();
        let feedback = accurate.then(|| {
            let (option, sent) = (seg.options.accecn(), self.rest.stats.bytes_sent);
            Feedback { state: self.rest.accecn(), ace: ace(seg.flags), option, sent }
        });
        let out = self.tx.on_ack_with(
            cx,
            &mut self.path,
            feedback,
            &AckIn {
                ack: seg.ack,
                sack: &sack,
                tsecr,
                at: seg.at,
                has_data: seg.seq_len() > 0,
                window_taken,
                child,
                crossed,
                ece: self.peer.ecn.classic() && seg.has(TcpFlags::ECE) && !seg.has(TcpFlags::SYN),
                wnd_end: self.tx.snd_una().max(seg.ack) + self.snd.wnd,
            },
        );
        if out.overdue {
            self.rx.ack.demand();
        }
        if self.tx.flight().wmem_queued() < queued {
            self.rx.uncharge();
        }
        // What an earlier one asked for stays asked for.
        if out.rexmit != Rexmit::None {
            self.out.rexmit = out.rexmit;
        }
        if out.rexmit == Rexmit::Lost && self.has_in_flight() {
            // The walk asks the pace before it looks for room: its timer has the flow looked at again in any case
            // (`tcp_xmit_retransmit_queue`, `tcp_pacing_check`).
            self.timers.pace = self.path.pacing.not_before(cx.now).or(self.timers.pace);
        }
        out
    }

    /// The timestamp that a segment echoes, without the connection's offset.
    pub(in crate::tcp) fn echo_of(&self, seg: &Segment) -> Option<u32> {
        let ts = seg.options.timestamps.filter(|ts| self.peer.ts && ts.echo != 0);
        ts.map(|ts| ts.echo.wrapping_sub(self.peer.stamps.offset))
    }

    /// The round trip as the receiver sees it (`tcp_rcv_rtt_measure_ts`).
    pub(super) fn measure_rcv_rtt(&mut self, seg: &Segment) {
        if let Some(ts) = seg.options.timestamps.filter(|ts| self.peer.ts && ts.echo != 0) {
            let tsecr = ts.echo.wrapping_sub(self.peer.stamps.offset);
            let ticks = (seg.at.as_millis() as u32).wrapping_sub(tsecr);
            self.rx.on_timestamp_echo(tsecr, ticks, seg.payload_len());
        }
    }

    /// The peer has answered: nobody needs to ask it, and no error explains a silence any more.
    fn hear(&mut self, now: Instant) {
        self.rest.stats.last_ack_recv = now;
        self.timers.probe_answered();
        // Nor is it asked by what waits for its turn.
        self.out.keepalive = false;
        self.app.soft_error = None;
    }

    /// Nothing is in flight any more: the sender is not busy (`tcp_clean_rtx_queue`).
    pub(super) fn note_idle(&mut self, cx: &Cx<'_>) {
        if self.tx.queue_ref().records() == 0 {
            self.rest.stats.chrono.stop(cx.now, Held::Busy, self.tx.is_empty());
        }
    }

    fn after_ack(&mut self, cx: &mut Cx<'_>, out: &AckOut) {
        if out.was_idle {
            self.after_probe_answer(cx);
        } else if out.advanced > 0 {
            self.timers.stop_probing();
        }
        self.note_idle(cx);
        if out.advanced > 0 {
            self.app.acked = true;
            // Linux sends first: what the next packet leaves of the window lets the buffer grow, before the writer is told
            // (`tcp_data_snd_check`, `tcp_new_space`).
            if self.app.nospace.is_set() && !self.next_packet_fills_window(cx) {
                self.expand_sndbuf(cx);
            }
            self.wake_writer(cx);
        }
    }

    /// Nothing was in flight: the window may have opened (`tcp_ack_probe`).
    fn after_probe_answer(&mut self, cx: &Cx<'_>) {
        let Some(head) = self.tx.peek_unsent() else {
            return;
        };
        let end = self.tx.snd_una() + self.snd.wnd;
        if !(self.tx.snd_nxt() + head.span()).after(end) {
            self.timers.stop_probing();
            self.path.rtt.end_backoff();
        } else if self.timers.probe.is_some() {
            self.timers.probe = Some(self.path.deadline(cx, self.probe_delay(cx)));
        }
    }

    /// The segment that begins a connection on the passive side: its window, its timestamp for TS.Recent (`tcp_check_req`), and its
    /// round trip, unless the SYN-ACK went twice (`tcp_synack_rtt_meas`).
    pub(in crate::tcp) fn begin_with(&mut self, cx: &Cx<'_>, seg: &Segment) {
        self.snd.wnd = u32::from(seg.window) << self.peer.snd_wscale;
        self.tx.note_window(self.snd.wnd);
        if cx.sysctl.tcp_timestamps != 0 {
            self.store_timestamp(seg);
        }
        if let Some(sent) = self.timers.synack_sent.take() {
            self.sample_handshake(cx, seg, Some(sent));
        }
    }

    /// The peer's segments are guessed to be as long as ours.
    pub(in crate::tcp) fn guess_rcv_mss(&mut self) {
        self.rx.guess_mss(self.mss());
    }

    fn complete_passive_open(&mut self, cx: &mut Cx<'_>, seg: &Segment) {
        self.set_state(cx, State::Established);
        self.path.rate.count_syn_ack();
        self.begin_with(cx, seg);
        // Where nothing was measured yet, the echoed timestamp tells which SYN-ACK was answered.
        self.sample_handshake(cx, seg, None);
        let echo = seg.options.timestamps.filter(|_| self.peer.ts).map(|ts| ts.echo);
        self.tx.undo_spurious_syn_ack(echo.map(|echo| echo.wrapping_sub(self.peer.stamps.offset)));
        self.opened(cx, seg, None);
        self.rx.expect_like(seg);
    }

    /// Our SYN is acknowledged after the peer's had crossed it.
    fn complete_simultaneous_open(&mut self, cx: &mut Cx<'_>, seg: &Segment) {
        self.set_state(cx, State::Established);
        self.path.rate.count_syn_ack();
        // The peer's SYN said which options segments have (`tcp_mtup_init` at once).
        self.opened(cx, seg, Some(self.peer.data_option_bytes()));
        self.third_ack(cx.sysctl.tcp_ecn_fallback, seg);
        // Neither `tcp_finish_connect` nor a request has said when data could come first.
        self.rx.ack.began(Instant::ZERO);
    }

    /// SYN-RECEIVED is over; `asked` as in [`Self::establish`].
    fn opened(&mut self, cx: &mut Cx<'_>, seg: &Segment, asked: Option<u16>) {
        self.snd.wl1 = seg.seq;
        self.snd.wnd = u32::from(seg.window) << self.peer.snd_wscale;
        self.establish(cx, asked);
        self.first_pacing_rate(cx);
        self.app.notice.insert(Notice::CONNECTED);
        self.app.notice.insert(Notice::WRITABLE);
        self.finish_shutdown(cx);
    }

    /// A passive open has a round trip before it has data, so its first packets are sized by the rate already; an active one has no
    /// rate before the first acknowledgement of data (Linux: `tcp_rcv_state_process` in SYN-RECEIVED).
    pub(in crate::tcp) fn first_pacing_rate(&mut self, cx: &Cx<'_>) {
        let out = self.tx.flight().packets_out;
        self.path.update_pacing_rate(cx, self.mss(), out);
    }

    /// The round trip of the SYN-ACK that left at `sent`, unless something better was measured.
    pub(in crate::tcp) fn sample_handshake(&mut self, cx: &Cx<'_>, seg: &Segment, sent: Option<Instant>) {
        let rtt = sent.map(|sent| seg.at.since(sent)).or_else(|| self.echoed_rtt(seg));
        if let Some(rtt) = rtt.filter(|_| self.path.rtt.srtt().is_none()) {
            let (una, nxt) = (self.tx.queue_ref().una(), self.tx.queue_ref().nxt());
            self.path.rtt.sample(cx, rtt, una, nxt);
            self.path.rtt.sample_min(cx, rtt);
        }
    }

    /// The round trip that the echo of our timestamp shows, in whole milliseconds.
    fn echoed_rtt(&self, seg: &Segment) -> Option<Duration> {
        let ts = seg.options.timestamps.filter(|ts| self.peer.ts && ts.echo != 0)?;
        let ms = self.peer.stamps.now(seg.at).wrapping_sub(ts.echo);
        (ms < i32::MAX as u32 / 1_000).then(|| Duration::from_millis(u64::from(ms.max(1))))
    }

    /// Nobody owns the connection, and FIN-WAIT-2 is a small object at once: what else the segment has, if it is old, is not looked at
    /// (`tcp_rcv_state_process`, `tcp_time_wait`).
    fn leaves_small_object(&self, cx: &Cx<'_>, seg: &Segment) -> bool {
        let new = (seg.seq + seg.payload_len()).after(self.rx.nxt());
        self.app.orphan && !new && !seg.has(TcpFlags::FIN) && self.fin_timeout(cx) <= TIME_WAIT
    }

    /// Our FIN may be acknowledged.
    fn advance_state(&mut self, cx: &mut Cx<'_>, out: &AckOut, seg: &Segment) -> Option<Disposition> {
        if !out.fin_acked {
            return None;
        }
        match self.state {
            State::FinWait1 => {
                self.set_state(cx, State::FinWait2);
                self.app.notice.insert(Notice::WRITABLE);
                if self.app.orphan && self.options.linger2 < 0 {
                    // The acknowledgement is answered as one to nobody (`tcp_rcv_state_process`).
                    cx.count.tcp_ext.tcp_abort_on_data += 1;
                    self.finish(cx, None);
                    return reset_for(&self.tuple, seg).map(Disposition::Reset);
                }
                if self.app.orphan {
                    self.arm_fin_wait2(cx);
                }
                self.leaves_small_object(cx, seg).then_some(Disposition::Done)
            }
            State::Closing => {
                self.enter_time_wait(cx);
                Some(Disposition::Done)
            }
            State::LastAck => {
                self.finish(cx, None);
                Some(Disposition::Done)
            }
            _ => None,
        }
    }
}
