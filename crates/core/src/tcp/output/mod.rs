//! What goes out next: the one place that asks the gatekeepers in order (`tcp_write_xmit`).
pub(super) mod autosize;
mod build;
pub(super) mod defer;
mod mtu_probe;
pub(super) mod nagle;
mod probe;
mod queue;
mod refused;
mod resend;
mod tail;
pub(super) mod within;

pub(super) use queue::Followed;
pub use queue::OwnQueue;

use super::PathCaps;
use super::chrono::Held;
use super::conn::Conn;
use super::fastopen::fact;
use super::pending::Round;
use super::segment::Outgoing;
use super::send_window::{Gso, Room};
use super::sender::{Before, Rexmit, Sender};
use super::seq::Seq;
use super::state::State;
use super::tx_queue::HeadInfo;
use crate::base::time::nanos;
use crate::base::{Cx, Instant, Wait};
use crate::credit::{Admission, Ask, PACKET_CHARGE};
use crate::packet::Owner;
use crate::path::congestion::CaState;
use crate::path::pacing::PACING_SHIFT;
use lowwater_wire::tcp::MAX_OPTIONS_LEN;
use nagle::Hold;

impl Conn {
    /// The next segment, or `None` when there is nothing more to send now; the reason has been counted. Call it until it
    /// returns `None`, or come back later: nothing is lost.
    pub fn output(&mut self, cx: &mut Cx<'_>, caps: &PathCaps) -> Option<Outgoing> {
        self.on_taken(cx);
        if let Some(reset) = self.out.reset.take() {
            return Some(*reset);
        }
        self.decide_option(cx);
        self.look_below(cx, caps);
        let hold = self.out.hold();
        if self.out.tries() {
            self.look_for_new(cx, hold);
            match self.next_data(cx, caps, hold) {
                Ok(segment) => {
                    self.app.wait = None;
                    return Some(segment);
                }
                // Nothing more to send again, and nothing else was asked for.
                Err(Wait::Empty) if hold.is_none() && self.out.burst.segs == 0 => self.out.tried(),
                Err(why) => {
                    self.count_wait(cx, why);
                    self.wait(cx, why);
                }
            }
        }
        if core::mem::take(&mut self.out.probe)
            && self.needs_probe()
            && let Some(probe) = self.window_probe(cx)
        {
            return Some(probe);
        }
        if core::mem::take(&mut self.out.keepalive) {
            return Some(self.keepalive_probe(cx));
        }
        self.rx.ack_stands();
        self.acks_allowed().then(|| self.rx.ack_due()).filter(|&due| due).map(|_| self.pure_ack(cx))
    }

    /// Something still waits, and nothing is in flight that would ask as well: the peer may have answered while the probe waited for its turn
    /// (`tcp_probe_timer`).
    fn needs_probe(&self) -> bool {
        self.tx.flight().packets_out == 0 && self.tx.peek_unsent().is_some()
    }

    /// The next segment that the acknowledgement of data lets go which ends the connection, in the place of [`Self::output`]. What does not
    /// leave now never does.
    pub fn output_before_end(&mut self, cx: &mut Cx<'_>, caps: &PathCaps) -> Option<Outgoing> {
        let new = self.out.early.as_ref()?.new;
        self.look_below(cx, caps);
        let hold = self.out.hold().filter(|_| new);
        self.next_data(cx, caps, hold).ok()
    }

    /// What is below, as it is now.
    fn look_below(&mut self, cx: &mut Cx<'_>, caps: &PathCaps) {
        self.settle_below();
        self.settle_queue(cx, caps);
        // Both ways, while flows run: Linux only ever switches towards `fq`.
        self.path.pacing.stand_on(caps.fq);
        self.out.no_path = !caps.reachable;
        self.stand_above(caps);
    }

    /// Where something new may leave the clock is looked at first (`tcp_write_xmit`); what is sent again goes by the time of whoever
    /// asked for it.
    fn look_for_new(&mut self, cx: &Cx<'_>, hold: Option<Hold>) {
        let goes_on = self.out.burst.round == Round::GoesOn;
        if hold.is_some() && (goes_on || self.state == State::SynSent || self.tx.peek_unsent().is_some()) {
            self.timers.look(cx.now);
        }
    }

    /// What the device below takes, as far as it bounds what a write makes of its bytes (`sk_setup_caps`).
    pub fn stand_above(&mut self, caps: &PathCaps) {
        self.snd.gso = Gso::of(caps);
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
    pub(super) fn default_hold(&self) -> Hold {
        match (self.options.cork, self.app.push) {
            (true, true) => Hold::PushCorked,
            (true, false) => Hold::Cork,
            (false, push) if push || self.options.nodelay => Hold::Push,
            (false, _) => Hold::Nagle,
        }
    }

    /// A retransmission if one is due, else new data, where a `hold` says that it may leave.
    fn next_data(&mut self, cx: &mut Cx<'_>, caps: &PathCaps, hold: Option<Hold>) -> Result<Outgoing, Wait> {
        if self.state == State::Close {
            return Err(Wait::Empty);
        }
        // That of each retransmission by itself (`__tcp_retransmit_skb`); for new data see `new_of_burst`.
        let mss = self.mss_now();
        self.tx.set_mss(mss);
        self.tx.set_collapse(cx.sysctl.tcp_retrans_collapse);
        if self.state == State::SynSent && self.tx.queue_ref().nxt() == 0 {
            return if self.is_deferred() { Err(Wait::Handshake) } else { Ok(self.first_syn(cx)) };
        }
        let end = self.window_end();
        if let Some(resend) = self.out.take_timeout()
            && let Some(segment) = self.timeout_segment(cx, resend, end)
        {
            return Ok(segment);
        }
        if self.is_child() {
            return match self.child_resend(cx, caps, mss, hold) {
                Some(lost) => self.retransmit(cx, &lost),
                None => self.new_of_burst(cx, caps, mss, hold),
            };
        }
        if self.state == State::SynSent && self.rest.stats.fast.has(fact::DATA) {
            // Together with its data the SYN was too long for a router: it goes alone; the window is shut for the rest.
            let max_segs = self.resend_segments(cx, caps, mss);
            if let Some(lost) = self.tx.next_lost(&self.path, max_segs, end) {
                return self.retransmit(cx, &lost);
            }
        }
        if matches!(self.state, State::SynSent | State::SynRecv) {
            return Err(if self.tx.queue_ref().unsent_bytes() > 0 { Wait::Handshake } else { Wait::Empty });
        }
        if let Some(probe) = self.tail_probe(cx, caps, mss) {
            return Ok(probe);
        }
        if self.out.rexmit == Rexmit::New {
            // F-RTO: new data tells more than a retransmission (RFC 5682 section 2.1 step 2b).
            if let Ok(segment) = self.new_of_burst(cx, caps, mss, Some(Hold::Push)) {
                return Ok(segment);
            }
            // Where there is none, what is lost goes after all (`tcp_xmit_recovery`).
            self.out.rexmit = if self.tx.frto_sent() { Rexmit::Lost } else { Rexmit::None };
        }
        if self.tx.may_resend(&self.path) {
            self.pacing_gate(self.late_clock(cx.now).unwrap_or(cx.now))?;
            let max_segs = self.resend_segments(cx, caps, mss);
            if let Some(lost) = self.tx.next_lost(&self.path, max_segs, self.window_end()) {
                return match (self.retransmit(cx, &lost), hold) {
                    // It keeps nothing new back (`tcp_data_snd_check` follows `tcp_xmit_retransmit_queue`).
                    (Err(Wait::HostQueue), Some(_)) => {
                        self.new_of_burst(cx, caps, mss, hold).map_err(|_| Wait::HostQueue)
                    }
                    (answer, _) => answer,
                };
            }
        }
        if self.out.early.take_if(|early| !early.new).is_some() {
            // New data comes after the peer's, and with what that is owed (`tcp_data_snd_check`).
            self.out.burst.mss = 0;
            return self.next_data(cx, caps, hold);
        }
        self.new_of_burst(cx, caps, mss, hold)
    }

    /// Without a route a segment would be lost on this very host, and that is no sign of congestion. The timers of retransmission and probes
    /// try again.
    const fn path_gate(&self) -> Result<(), Wait> {
        if self.out.no_path { Err(Wait::NoPath) } else { Ok(()) }
    }

    /// The same for new data, past all that holds it back: it stays unsent, as one packet without a route (`ip_queue_xmit`).
    fn new_path_gate(&mut self, cx: &mut Cx<'_>) -> Result<(), Wait> {
        self.path_gate().inspect_err(|_| self.on_no_route(cx))
    }

    /// The next packet of what a write has pushed out, as it was cut then: nothing holds it back but the pace, the windows and small
    /// queues. Where one of these does, nothing is pushed out any more (`Conn::wait`).
    fn pushed_data(&mut self, cx: &mut Cx<'_>, mss: u16, max_segs: u16) -> Result<Option<Outgoing>, Wait> {
        let Some(len) = self.pushed_len(mss, max_segs) else {
            self.tx.queue().unsent.forget_pushed();
            return Ok(None);
        };
        self.pacing_gate(cx.now)?;
        self.credit_gate(cx, len as u32, None)?;
        self.new_path_gate(cx)?;
        Ok(self.commit_new(cx, len))
    }

    /// Bytes of that packet, as far as the windows allow it.
    fn pushed_len(&self, mss: u16, max_segs: u16) -> Option<usize> {
        let head = self.tx.peek_unsent().filter(|_| self.tx.queue_ref().unsent.pushed().packets > 0)?;
        let max_segs = if self.urgent_mode() { 1 } else { max_segs };
        let segs = self.tx.cwnd_room(&self.path).min(u32::from(max_segs));
        let len = head.len.min(segs as usize * usize::from(mss));
        let span = if len == head.len { head.span() } else { len as u32 };
        let fits = !(self.tx.snd_nxt() + span).after(self.window_end());
        (len > 0 && fits).then_some(len)
    }

    /// What a write has pushed out, then the rest where a `hold` says that it may leave. Most turns of a flow end here with nothing that
    /// waits, and then nobody asks how large a packet should be.
    fn new_data(
        &mut self,
        cx: &mut Cx<'_>,
        caps: &PathCaps,
        mss: u16,
        hold: Option<Hold>,
    ) -> Result<Outgoing, Wait> {
        let head = self.tx.peek_unsent().ok_or(Wait::Empty)?;
        let max_segs = self.packet_segments(cx, caps, mss);
        if let Some(packet) = self.pushed_data(cx, mss, max_segs)? {
            return Ok(packet);
        }
        let hold = hold.ok_or(Wait::Empty)?;
        if self.path.plpmtud.is_some()
            && self.out.burst.segs == 0
            && let Some(probe) = self.mtu_probe(cx, mss)?
        {
            return Ok(probe);
        }
        self.pacing_gate(cx.now)?;
        let quota = self.cwnd_quota(cx, &head, mss)?.min(max_segs);
        self.autocork_behind(cx)?;
        let len = self.new_len(cx, head, (mss, max_segs, quota), hold)?;
        if let Err(why) = self.credit_gate(cx, len as u32, None).and_then(|()| self.new_path_gate(cx)) {
            self.cut_held(cx, len);
            return Err(why);
        }
        self.commit_new(cx, len).ok_or(Wait::Empty)
    }

    /// Bytes of the next packet of what no write has pushed out, as far as the peer's window, Nagle and the wish for longer packets allow it;
    /// `(mss, max_segs, quota)` is what bounds its size.
    fn new_len(
        &mut self,
        cx: &Cx<'_>,
        head: HeadInfo,
        (mss, max_segs, quota): (u16, u16, u16),
        hold: Hold,
    ) -> Result<usize, Wait> {
        let head = self.grow_head(cx, head, usize::from(quota) * usize::from(mss));
        if !self.head_fits_window(mss) {
            return Err(Wait::RecvWindow);
        }
        let room = self.send_window_room();
        if head.len <= usize::from(mss) {
            let facts = self.nagle_facts(&head, head.len < usize::from(mss));
            if let Some(why) = nagle::check(if head.is_last { hold } else { Hold::Push }, facts) {
                return Err(why);
            }
        } else if let Some(why) = defer::check(&self.defer_facts(cx, &head, max_segs, room)) {
            return Err(why);
        }
        Ok(self.packet_len(&head, mss, quota, room, hold))
    }

    /// The head of what is not pushed out, with what its packet lacks of `len` bytes taken from the next element.
    fn grow_head(&mut self, cx: &Cx<'_>, head: HeadInfo, len: usize) -> HeadInfo {
        if head.is_last || head.len >= len || !cx.sysctl.tcp_grow_packet {
            return head;
        }
        // Urgent data leaves segment by segment, and a packet ends where the window does.
        let whole = !self.urgent_mode() && self.send_window_room() as usize >= len;
        if self.tx.queue().grow_head(len, whole) {
            self.rx.uncharge();
        }
        self.tx.queue_ref().unsent.head_behind().unwrap_or(head)
    }

    /// Takes `len` bytes off the head element and sends them for the first time.
    fn commit_new(&mut self, cx: &mut Cx<'_>, len: usize) -> Option<Outgoing> {
        let mut plan = self.tx.commit_send(cx, &mut self.path, len)?;
        if let Some(attempt) = &mut plan.attempt {
            attempt.before = Some(Before {
                sml: self.snd.sml,
                probes: self.timers.probes_out,
                backoff: self.path.rtt.backoff(),
            });
        }
        if plan.payload.len() < usize::from(plan.mss) * usize::from(plan.segs) {
            self.snd.sml = plan.seq + plan.payload.len() as u32 + u32::from(plan.fin);
        }
        if self.out.burst.segs == 0 {
            // Data that a segment beyond a hole lets go acknowledges that segment (`tcp_data_snd_check` precedes `tcp_ack_snd_check`).
            self.rx.ack.count_duplicate();
        }
        self.out.burst.segs = self.out.burst.segs.saturating_add(plan.segs);
        // In Linux what the writer had handed over before it found the buffer full has left by then, and lets it not grow.
        let grows = self.tx.queue_ref().nxt() > self.snd.full_from;
        self.snd.room = if grows { Room::Grows } else { Room::Stays };
        Some(self.data_segment(cx, &plan, false))
    }

    /// The packet that was given last is not with the flow any more: a writer hears of the room that it has left. Never before, since one
    /// that the queue below refuses leaves none (`tcp_write_xmit` ends when `tcp_transmit_skb` fails, before `tcp_event_new_data_sent`).
    pub fn on_taken(&mut self, cx: &Cx<'_>) {
        match core::mem::take(&mut self.snd.room) {
            Room::None => {}
            Room::Grows => self.check_space(cx),
            Room::Stays => self.wake_writer(cx),
        }
    }

    pub(super) fn pacing_gate(&mut self, now: Instant) -> Result<(), Wait> {
        match self.path.pacing.not_before(now) {
            Some(at) => {
                self.timers.pace = Some(at);
                Err(Wait::Pacing)
            }
            None => Ok(()),
        }
    }

    /// What the limit of small queues follows from: `len` bytes of new data as they were cut, but of what goes again all of its `record`, which is
    /// cut when small queues have let it go (`tcp_xmit_retransmit_queue`).
    fn credit_ask(&self, cx: &Cx<'_>, len: u32, record: Option<u32>) -> Ask {
        let paced = self.path.pacing.is_paced();
        Ask {
            charge: record.unwrap_or(len) + PACKET_CHARGE,
            pacing_rate: self.path.pacing.rate(),
            pacing_shift: PACING_SHIFT,
            // Until Linux 6.15 a paced flow has none.
            cap: (!paced || cx.sysctl.tcp_limit_output_all).then_some(cx.sysctl.tcp_limit_output_bytes),
            retransmission: record.is_some(),
            rtx_single: self.tx.queue_ref().records() <= 1,
        }
    }

    /// `len` bytes may go, which a `record` is cut to where they go again.
    fn credit_gate(&mut self, cx: &mut Cx<'_>, len: u32, record: Option<u32>) -> Result<(), Wait> {
        let mut ask = self.credit_ask(cx, len, record);
        let admits = self.queue_admits(cx, len);
        let (answer, why) = match admits {
            // What is acknowledged has left, whether or not it was told of; else nobody is exempt here.
            Some(false) => {
                ask.rtx_single = self.tx.queue_ref().records() == 0;
                (self.out.credit.refuse(&ask), Wait::QueueAware)
            }
            Some(true) => {
                ask = self.usual_ask(ask);
                (self.out.credit.ask(&ask), Wait::Credit)
            }
            None => (self.out.credit.ask(&ask), Wait::Credit),
        };
        match answer {
            Admission::Granted => Ok(()),
            Admission::Exempt => {
                cx.count.own.credit_exempt += 1;
                Ok(())
            }
            Admission::Throttled => {
                if admits == Some(true) {
                    self.usually_held();
                }
                let capped = why == Wait::Credit && self.out.credit.is_capped(&ask);
                cx.count.own.credit_capped += u64::from(capped);
                Err(why)
            }
        }
    }

    /// [`Self::credit_gate`] would let a packet of `len` bytes pass; nobody waits for what it says. With `tcp_queue_aware` its estimate counts the
    /// question as one of a packet.
    fn credit_admits(&mut self, cx: &Cx<'_>, len: u32, record: Option<u32>) -> bool {
        let ask = self.credit_ask(cx, len, record);
        match self.queue_admits(cx, len) {
            Some(false) => self.tx.queue_ref().records() == 0,
            Some(true) => self.out.credit.would_admit(&self.usual_ask(ask)),
            None => self.out.credit.would_admit(&ask),
        }
    }

    /// Segments that the congestion window allows in one packet: at most half the window, so that two are in flight
    /// (`tcp_cwnd_test`). Before Linux 6.10 a last segment with FIN passed whatever the window: with `tcp_grow_packet` off it does.
    fn cwnd_quota(&self, cx: &Cx<'_>, head: &HeadInfo, mss: u16) -> Result<u16, Wait> {
        if !cx.sysctl.tcp_grow_packet && head.fin && head.len <= usize::from(mss) {
            return Ok(1);
        }
        let ahead = u32::from(self.tx.queue_ref().unsent.pushed().segs);
        let (cwnd, in_flight) = (self.path.window.cwnd, self.tx.in_flight() + ahead);
        if in_flight >= cwnd {
            return Err(Wait::Cwnd);
        }
        Ok((cwnd / 2).max(1).min(cwnd - in_flight).min(u32::from(u16::MAX)) as u16)
    }

    /// Bytes between the next that is not pushed out and the end of the peer's window.
    pub(super) fn send_window_room(&self) -> u32 {
        let (next, end) = (self.tx.snd_nxt() + self.tx.queue_ref().unsent.pushed().bytes, self.window_end());
        if next.before(end) { end.since(next) } else { 0 }
    }

    /// The peer's window takes the next new segment that is not pushed out (`tcp_snd_wnd_test`).
    pub(super) fn head_fits_window(&self, mss: u16) -> bool {
        self.tx
            .queue_ref()
            .unsent
            .head_behind()
            .is_some_and(|head| head.first_segment_span(mss) <= self.send_window_room())
    }

    /// Urgent data is not acknowledged yet (`tcp_urg_mode`).
    pub(super) fn urgent_mode(&self) -> bool {
        self.snd.up != self.tx.snd_una()
    }

    /// SND.UNA + SND.WND.
    pub(super) fn window_end(&self) -> Seq {
        self.tx.snd_una() + self.snd.wnd
    }

    fn nagle_facts(&self, head: &HeadInfo, partial: bool) -> nagle::Facts {
        let sml = self.snd.sml;
        nagle::Facts {
            partial,
            fin: head.fin || self.urgent_mode(),
            in_flight: self.has_in_flight(),
            small_in_flight: sml.after(self.tx.snd_una()) && !sml.after(self.tx.snd_nxt()),
        }
    }

    /// Windows and goals count in segments without SACK blocks, however long those are that leave now (`mss_cache`).
    fn defer_facts(&self, cx: &Cx<'_>, head: &HeadInfo, max_segs: u16, room: u32) -> defer::Facts {
        let mss = u64::from(self.mss());
        // What is pushed out leaves at this moment.
        let ahead = u32::from(self.tx.queue_ref().unsent.pushed().segs);
        let (cwnd, in_flight) = (u64::from(self.path.window.cwnd), u64::from(self.tx.in_flight() + ahead));
        let oldest = self.tx.queue_ref().first().map(|(_, sent)| cx.now.nanos_since(sent.sent_at));
        let window = u64::from(self.snd.wnd).min(cwnd * mss);
        defer::Facts {
            len: head.len as u64,
            sealed: head.fin || head.eor,
            last: head.is_last,
            send_win: u64::from(room),
            cong_win: cwnd.saturating_sub(in_flight) * mss,
            worthwhile: defer::worthwhile(window, cx.sysctl.tcp_tso_win_divisor, mss),
            goal: u64::from(max_segs) * mss,
            recovering: self.tx.ca_state() >= CaState::Recovery,
            since_sent_ns: if ahead > 0 { 0 } else { cx.now.nanos_since(self.path.pacing.wstamp()) },
            oldest_ns: oldest.or((ahead > 0).then_some(0)),
            srtt_ns: self.path.rtt.srtt().map_or(0, nanos),
        }
    }

    /// How much of the head element goes in one packet. Each segment of urgent data carries an urgent pointer of its own.
    fn packet_len(&self, head: &HeadInfo, mss: u16, quota: u16, room: u32, hold: Hold) -> usize {
        if self.urgent_mode() {
            return head.len.min(usize::from(mss));
        }
        self.split_point(head, mss, quota.max(1), room, hold)
    }

    /// How much of the head element goes: whole segments, unless the rest may go too (`tcp_mss_split_point`).
    fn split_point(&self, head: &HeadInfo, mss: u16, max_segs: u16, room: u32, hold: Hold) -> usize {
        let (mss, max) = (usize::from(mss), usize::from(mss) * usize::from(max_segs));
        let room = room as usize;
        if max <= room && !head.is_last {
            return max.min(head.len);
        }
        let needed = head.len.min(room);
        if needed >= max {
            return max;
        }
        let partial = needed % mss;
        // Neither FIN nor urgent data counts here, only for a segment by itself (`tcp_nagle_check`, `tcp_nagle_test`).
        let facts = nagle::Facts { fin: false, ..self.nagle_facts(head, partial != 0) };
        if needed > mss && nagle::check(hold.of_rest(), facts).is_some() { needed - partial } else { needed }
    }

    /// What each reason for silence needs: nothing, or the one timer that would otherwise be missing.
    fn wait(&mut self, cx: &mut Cx<'_>, why: Wait) {
        // What has not left by now waits as anything else does.
        self.tx.queue().unsent.forget_pushed();
        self.offer_space(cx);
        let sent = self.out.burst.segs.into();
        // With nothing to send nobody else looks at the window.
        let full = self.out.burst.round == Round::GoesOn && self.tx.cwnd_room(&self.path) == 0;
        let limited = why == Wait::Cwnd || full;
        let kept = self.keeps_window();
        let starved = self.tx.after_write(cx, &mut self.path, sent, limited, kept);
        self.keep_time(cx, why, starved);
        self.app.nospace = self.app.nospace.call_over();
        let stuck = match why {
            Wait::RecvWindow | Wait::Nagle | Wait::Cork | Wait::Defer | Wait::NoPath | Wait::Refused => true,
            // Where the pace holds for longer than the longest timeout. Its own timer asks for none (`tcp_tsq_write`).
            Wait::Pacing => self.out.burst.round != Round::GoesOn,
            _ => false,
        };
        if stuck {
            self.arm_probe_if_stuck(cx);
        }
        let mss = self.out.burst.mss;
        self.out.tried();
        if why == Wait::Credit {
            // What comes back lets the same burst go on.
            self.out.burst.mss = mss;
        }
    }

    /// What held the sender at the end of a round (`tcp_write_xmit`, `tcp_cwnd_validate`). A round that found nothing to send and
    /// sent nothing says nothing, and neither does one that a probe of the path's MTU waits in.
    fn keep_time(&mut self, cx: &Cx<'_>, why: Wait, starved: bool) {
        if why == Wait::MtuProbe {
            return;
        }
        let chrono = &mut self.rest.stats.chrono;
        if why == Wait::RecvWindow {
            chrono.start(cx.now, Held::RecvWindow);
        } else if why != Wait::Empty || self.out.burst.segs > 0 || self.out.burst.round == Round::GoesOn {
            chrono.stop(cx.now, Held::RecvWindow, self.tx.is_empty());
        }
        self.keep_starved_time(cx, starved);
    }

    /// A round that the congestion window did not limit has sent all there is, and the writer waits for room (`tcp_cwnd_validate`).
    fn keep_starved_time(&mut self, cx: &Cx<'_>, starved: bool) {
        // What a write pushed out before it found the buffer full did not leave for lack of buffer.
        let queue = self.tx.queue_ref();
        let all_sent = queue.unsent_bytes() == 0 && queue.nxt() > self.snd.full_from;
        if starved && all_sent && self.app.nospace.is_set() && self.state.can_send() {
            self.rest.stats.chrono.start(cx.now, Held::SendBuffer);
        }
    }

    /// The application writes, and there was a gap before: rate samples show what it offered, not what the path could carry, until
    /// what is in flight now is delivered (`tcp_rate_check_app_limited`).
    pub(in crate::tcp) fn mark_app_limited(&mut self) {
        if self.tx.queue_ref().unsent_bytes() < u64::from(self.mss())
            && self.out.credit.below() == 0
            && self.tx.in_flight() < self.path.window.cwnd
            && self.tx.flight().lost_out <= self.tx.flight().retrans_out
        {
            self.path.rate.mark_app_limited(self.tx.in_flight());
        }
    }

    /// MSS less what selective acknowledgements take of each segment at the moment (`tcp_current_mss`), or did when what is sent now
    /// left in Linux.
    pub(in crate::tcp) fn mss_now(&self) -> u16 {
        let blocks =
            self.out.early.as_ref().map_or_else(|| self.rx.sack_count(), |e| e.repr.options.sack.len());
        let (blocks, room) = (blocks.min(self.sack_room()), self.option_room());
        let counters = self.out.early.as_ref().map(|early| early.repr.options.accecn());
        let bytes = match counters {
            Some(Some(_)) => {
                self.out.early.as_ref().map_or(0, |e| e.repr.options.buffer_len())
                    - usize::from(self.peer.data_option_bytes())
            }
            Some(None) if blocks == 0 => 0,
            Some(None) => 4 + 8 * blocks,
            None => self.changing_option_bytes(blocks, room),
        };
        self.mss().saturating_sub(bytes as u16).max(1)
    }

    /// Bytes of options beside timestamps.
    pub(super) const fn option_room(&self) -> usize {
        MAX_OPTIONS_LEN - self.peer.data_option_bytes() as usize
    }

    /// Blocks that fit beside the other options.
    const fn sack_room(&self) -> usize {
        if self.peer.ts { 3 } else { 4 }
    }

    /// A packet of this flow has left the device: its credit comes back, and a throttled flow may go on.
    pub fn on_complete(&mut self, cx: &mut Cx<'_>, owner: Owner) {
        if owner.is_end() && self.tx.on_left(cx, &mut self.path) {
            self.clamp_rto(cx);
        }
        self.refund(owner.charge);
    }

    /// A queue below has cut a packet into several, whose headers are charged `more` bytes together; it may be known to be the `newest`.
    pub fn on_cut(&mut self, cx: &Cx<'_>, owner: Owner, more: u32, newest: bool) {
        self.out.credit.charge(more);
        self.queue_cut(cx, owner, more, newest);
    }

    /// The pace lets the flow go on.
    pub(super) fn goes_on(&mut self) {
        self.go_on(Sender::goes_on);
    }

    /// The pace or small queues let it go on, in the states in which Linux has it do so (`tcp_tsq_write`): what a connection that was
    /// accepted with its SYN has to send waits for a write or the last ACK. `again` says what of the lost goes again.
    fn go_on(&mut self, again: fn(&mut Sender)) {
        if !self.state.is_sending() {
            return;
        }
        again(&mut self.tx);
        self.out.try_send(self.default_hold());
        self.out.burst.round = Round::GoesOn;
    }

    /// The charge of a packet that has left comes back.
    fn refund(&mut self, charge: u32) {
        self.give_back(charge, Sender::goes_on_below);
    }

    /// That of a packet that never will.
    pub(super) fn refund_lost(&mut self, charge: u32) {
        self.give_back(charge, Sender::goes_on);
    }

    fn give_back(&mut self, charge: u32, again: fn(&mut Sender)) {
        if self.out.credit.refund(charge) {
            let mss = self.out.burst.mss;
            self.go_on(again);
            self.out.burst.mss = mss;
        }
        self.settle_below();
    }

    /// The account of credit knows best when nothing is below: what no credit was taken for (data in a SYN) is not waited for.
    pub(super) fn settle_below(&mut self) {
        if self.out.credit.below() == 0 {
            self.tx.on_all_back();
        }
    }

    /// The queue below gave up a packet that it had taken (an AQM, or room for others): `len` bytes from `seq` on are lost, and
    /// the sender hears of it before any acknowledgement could tell.
    pub fn on_given_up(&mut self, cx: &mut Cx<'_>, owner: Owner, seq: Seq, len: u32) {
        self.end_below(cx, owner);
        self.tx.on_given_up(cx, &mut self.path, seq, len);
        self.refund_lost(owner.charge);
        self.out.try_send(self.default_hold());
    }

    /// The queue below had no room for a piece of a packet, and took others of it: congestion that nobody hears of (`tbf_segment`). It may be
    /// known to be the `newest`, whose older ones stay where they are.
    pub fn on_part_refused(&mut self, cx: &mut Cx<'_>, owner: Owner, newest: bool) {
        if newest {
            self.queue_part_refused(cx, owner);
            if owner.is_end() {
                self.tx.on_end_refused();
            }
        } else {
            self.end_below(cx, owner);
        }
        self.refund_lost(owner.charge);
    }

    /// A packet or a piece of one will never leave its queue.
    fn end_below(&mut self, cx: &mut Cx<'_>, owner: Owner) {
        let _ = self.leave_queue(cx, owner, true);
        if owner.is_end() {
            self.tx.on_gone();
        }
    }
}
