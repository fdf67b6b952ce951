//! TCP's sending side below the state machine: queue, scoreboard, recovery and retransmission timer as one object.
//!
//! Everything here is in offsets from the ISN; only this file converts to and from sequence numbers. What may be sent when
//! (peer's window, Nagle, pacing, credit) is decided by the caller between `peek_*` and `commit_*`.
use super::recovery::rto::{Patience, Timeout, TimerKind, XmitTimer};
use super::recovery::{Ack, Env, Recovery, fact};
use super::scoreboard::Flight;
use super::seq::Seq;
use super::tx_queue::{HeadInfo, Pushed, flag};
use super::usage::Usage;
use crate::base::Cx;
use crate::base::time::{Duration, Instant};
use crate::path::Path;
use crate::path::congestion::{CaEvent, CaState, Window};
use crate::path::rate::Sampler;
use bytes::Bytes;
use core::fmt;

/// Most SACK blocks that one segment's options hold.
pub const SACK_BLOCKS_MAX: usize = 4;

/// What an acceptable segment with ACK told, as far as sending is concerned.
#[derive(Clone, Copy, Debug)]
pub struct AckIn<'a> {
    /// SEG.ACK; the caller has checked that it is not above `snd_nxt` and not too old (RFC 5961 section 5).
    pub ack: Seq,
    /// SACK blocks in the order of the option.
    pub sack: &'a [(Seq, Seq)],
    /// TSecr without the connection's offset, that is in milliseconds of the stack's clock modulo 2^32; `None` without the
    /// option or when it is 0.
    pub tsecr: Option<u32>,
    /// When the packet reached this host.
    pub at: Instant,
    /// The segment carries data, SYN or FIN.
    pub has_data: bool,
    /// It changed the peer's window.
    pub window_taken: bool,
    /// It carries ECE and ECN is in use.
    pub ece: bool,
    /// The connection was accepted with its SYN, and its SYN-ACK was not acknowledged before (`fastopen_rsk`).
    pub child: bool,
    /// It acknowledges a SYN that has crossed the peer's.
    pub crossed: bool,
    /// End of the peer's window after this segment (`tcp_wnd_end`).
    pub wnd_end: Seq,
}

/// What the caller should send after an acknowledgement, beside what `peek_unsent` allows in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Rexmit {
    /// Nothing in particular.
    #[default]
    None,
    /// Ask [`Sender::next_retransmit`].
    Lost,
    /// F-RTO: try new data first, with Nagle off; then call [`Sender::frto_sent`] and ask [`Sender::next_retransmit`] if it
    /// says so.
    New,
}

/// What an acknowledgement changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AckOut {
    /// `snd.una` moved by this much sequence space.
    pub advanced: u64,
    /// Payload bytes newly acknowledged.
    pub acked_bytes: u64,
    /// Our SYN is acknowledged by this segment.
    pub syn_acked: bool,
    /// Our FIN is acknowledged by this segment.
    pub fin_acked: bool,
    /// An RTT sample was taken.
    pub rtt_sampled: bool,
    /// Data was acknowledged, cumulatively or selectively: the path is alive (`FLAG_FORWARD_PROGRESS`).
    pub progress: bool,
    /// Nothing was in flight before: only the window can have changed (`tcp_ack_probe`).
    pub was_idle: bool,
    /// What to send now.
    pub rexmit: Rexmit,
}

/// Something that goes out: the first time or again. The payload is shared with the queue.
#[derive(Clone)]
pub struct SendPlan {
    /// Sequence number of the first byte, or of the SYN.
    pub seq: Seq,
    /// Payload.
    pub payload: Bytes,
    /// SYN in front of it.
    pub syn: bool,
    /// PSH on the last segment.
    pub push: bool,
    /// FIN behind it.
    pub fin: bool,
    /// Segments.
    pub segs: u16,
    /// Payload bytes per segment when there are several.
    pub mss: u16,
    /// When the record was last sent: for telling whether it can still be below us.
    pub last_sent: Option<Instant>,
    /// When it leaves: now, or later where the queue below keeps the pace.
    pub departure: Instant,
    /// How to take it back; `None` for a SYN, which stays sent.
    pub attempt: Option<Attempt>,
}

/// Never the payload: it is the user's, and large.
impl fmt::Debug for SendPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, segs) = (self.payload.len(), self.segs);
        write!(f, "{:?}+{len}/{segs} syn {} push {} fin {}", self.seq, self.syn, self.push, self.fin)
    }
}

impl SendPlan {
    /// An empty segment.
    const fn nothing(seq: Seq) -> Self {
        let payload = Bytes::new();
        Self {
            seq,
            payload,
            syn: false,
            push: false,
            fin: false,
            segs: 1,
            mss: 0,
            last_sent: None,
            departure: Instant::ZERO,
            attempt: None,
        }
    }
}

/// A retransmission that is due; give it back to [`Sender::commit_retransmit`] to send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resend {
    pub(super) start: u64,
    /// Sequence number of its first byte.
    pub seq: Seq,
    /// Sequence space it takes.
    pub len: u32,
    /// Segments it takes.
    pub segs: u16,
    /// When it was last sent.
    pub last_sent: Instant,
    /// That transmission has not left this host.
    pub below: bool,
    /// When it counts as sent this time, where that is not now.
    pub clock: Option<Instant>,
    /// It is the SYN of a simultaneous open, as a SYN-ACK now: no retransmission (`tcp_send_synack`).
    pub crossing: bool,
}

/// What a tail loss probe should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// One segment of new data, if the peer's window takes it; else nothing. Then [`Sender::tlp_done`].
    New,
    /// This retransmission. Then [`Sender::tlp_done`].
    Resend(Resend),
    /// None now; the timer is set anew.
    Nothing,
}

/// The sending side of one connection.
#[derive(Debug)]
pub struct Sender {
    iss: Seq,
    flight: Flight,
    recovery: Recovery,
    timer: XmitTimer,
    usage: Usage,
    /// Largest window that the peer ever offered (`max_window`).
    max_window: u32,
}

impl Sender {
    /// The sending side of an active open: the SYN is offset 0 and yet to be sent.
    #[must_use]
    pub fn new(reordering: u32, iss: Seq, mss: u16) -> Self {
        Self::starting_at(reordering, iss, mss, 0)
    }

    /// The sending side of a connection whose SYN is already acknowledged (passive open).
    #[must_use]
    pub fn established(reordering: u32, iss: Seq, mss: u16) -> Self {
        Self::starting_at(reordering, iss, mss, 1)
    }

    fn starting_at(reordering: u32, iss: Seq, mss: u16, start: u64) -> Self {
        Self {
            iss,
            flight: Flight::new(start, mss),
            recovery: Recovery::new(reordering),
            timer: XmitTimer::default(),
            usage: Usage::new(),
            max_window: 0,
        }
    }

    /// The queue: for filling it (`fill_tail`, `begin_element`, `append_bytes`, `mark_push`, `mark_eor`, `queue_fin`) and for
    /// asking (`unsent_bytes`, `queued_charge`, `is_empty`).
    pub const fn queue(&mut self) -> &mut super::tx_queue::TxQueue {
        &mut self.flight.tx
    }

    /// The queue, for asking.
    #[must_use]
    pub const fn queue_ref(&self) -> &super::tx_queue::TxQueue {
        &self.flight.tx
    }

    /// The same for asking what has changed.
    pub(in crate::tcp) const fn queue_mut(&mut self) -> &mut super::tx_queue::TxQueue {
        &mut self.flight.tx
    }

    /// The scoreboard's counters.
    #[must_use]
    pub const fn flight(&self) -> &Flight {
        &self.flight
    }

    /// First unacknowledged sequence number.
    #[must_use]
    pub fn snd_una(&self) -> Seq {
        self.seq(self.flight.tx.una())
    }

    /// Next sequence number to send.
    #[must_use]
    pub fn snd_nxt(&self) -> Seq {
        self.seq(self.flight.tx.nxt())
    }

    /// End of what was queued.
    #[must_use]
    pub fn write_seq(&self) -> Seq {
        self.seq(self.flight.tx.write_seq())
    }

    /// Initial sequence number.
    #[must_use]
    pub const fn iss(&self) -> Seq {
        self.iss
    }

    /// Bytes of payload cumulatively acknowledged and sent so far, SYN and FIN counted with them.
    #[must_use]
    pub const fn una_offset(&self) -> u64 {
        self.flight.tx.una()
    }

    /// True when there is neither unsent nor unacknowledged data.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.flight.tx.is_empty()
    }

    /// Segments in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.flight.in_flight()
    }

    /// Segments that the congestion window lets out now.
    #[must_use]
    pub const fn cwnd_room(&self, path: &Path) -> u32 {
        path.window.cwnd.saturating_sub(self.flight.in_flight())
    }

    /// The congestion state (`tcpi_ca_state`).
    #[must_use]
    pub const fn ca_state(&self) -> CaState {
        self.recovery.ca
    }

    /// Consecutive timeouts without progress (`tcpi_retransmits`).
    #[must_use]
    pub const fn retransmits(&self) -> u8 {
        self.recovery.timeouts.retransmits
    }

    /// Segments ever retransmitted (`tcpi_total_retrans`).
    #[must_use]
    pub const fn total_retrans(&self) -> u32 {
        self.recovery.undo.total_retrans
    }

    /// When data was last sent, or the connection established (`lsndtime`).
    #[must_use]
    pub const fn last_data_at(&self) -> Instant {
        self.usage.last_sent
    }

    /// The handshake of a connection that began with its SYN is over: no idleness counts from before.
    pub const fn began(&mut self, now: Instant) {
        self.usage.last_sent = now;
    }

    /// Duplicates that the peer reported (`tcpi_dsack_dups`).
    #[must_use]
    pub const fn dsack_dups(&self) -> u32 {
        self.recovery.undo.dsack_dups
    }

    /// Counts of retransmission timeouts.
    #[must_use]
    pub const fn timeouts(&self) -> &super::recovery::rto::Timeouts {
        &self.recovery.timeouts
    }

    /// Measured reordering (`tcpi_reordering`, `tcpi_reord_seen`).
    #[must_use]
    pub const fn reordering(&self) -> super::recovery::Reorder {
        self.recovery.reorder
    }

    /// Whether small segments are retransmitted together.
    pub const fn set_collapse(&mut self, on: bool) {
        self.flight.collapses = on;
    }

    /// The MSS in force.
    #[must_use]
    pub const fn mss(&self) -> u16 {
        self.flight.mss
    }

    /// Sets the MSS for what is sent from now on.
    pub const fn set_mss(&mut self, mss: u16) {
        self.flight.mss = mss;
    }

    /// The handshake said whether the peer sends SACK blocks.
    pub const fn set_sack(&mut self, on: bool) {
        self.flight.sack_ok = on;
    }

    /// The peer offered this window: the largest counts. True when there was none as large.
    pub fn note_window(&mut self, window: u32) -> bool {
        let grown = window > self.max_window;
        self.max_window = self.max_window.max(window);
        grown
    }

    /// Largest window that the peer ever offered (`max_window`).
    #[must_use]
    pub const fn max_window(&self) -> u32 {
        self.max_window
    }

    /// The transmission timer: its purpose and deadline, when it is set.
    #[must_use]
    pub const fn timer(&self) -> Option<(TimerKind, Instant)> {
        self.timer.get()
    }

    /// True once after a reduction: the next new data must carry CWR, where ECN is in use (RFC 3168 section 6.1.2).
    pub fn take_cwr(&mut self) -> bool {
        core::mem::take(&mut self.recovery.cwr_pending)
    }

    /// The head of the unsent part.
    #[must_use]
    pub fn peek_unsent(&self) -> Option<HeadInfo> {
        self.flight.tx.unsent.head()
    }

    /// The end of a round of sending new data: `segs` segments left, and the window was or was not what stopped it
    /// (`tcp_write_xmit`'s end). `sndbuf_wait` says that the application waits for room, so it is not what limits the flow. True
    /// when something was sent and the window was not the limit.
    pub fn after_write(
        &mut self,
        cx: &mut Cx<'_>,
        path: &mut Path,
        segs: u32,
        cwnd_limited: bool,
        sndbuf_wait: bool,
    ) -> bool {
        // With nothing to send nobody looks at the window.
        let asked = segs > 0 || self.flight.tx.unsent.head().is_some();
        let limited = cwnd_limited || (asked && self.flight.in_flight() >= path.window.cwnd);
        let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
        let starved = (segs > 0 || limited)
            && self.usage.validate(&self.recovery, &mut e, Pushed::NONE, limited, sndbuf_wait);
        if segs > 0 {
            self.recovery.count_new(segs);
            self.recovery.schedule_probe(&mut e, false);
        }
        starved
    }

    /// A tail loss probe of new data left: as [`Self::after_write`], but the RTO timer stays.
    pub fn after_new_probe(&mut self, cx: &mut Cx<'_>, path: &mut Path, segs: u32, sndbuf_wait: bool) {
        let limited = self.flight.in_flight() >= path.window.cwnd;
        let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
        self.usage.validate(&self.recovery, &mut e, Pushed::NONE, limited, sndbuf_wait);
        self.recovery.count_new(segs);
    }

    /// A write has pushed packets out and goes on: the end of a round for Linux, which has sent them.
    pub fn after_push_within(&mut self, cx: &mut Cx<'_>, path: &mut Path, sndbuf_wait: bool) {
        let pushed = self.flight.tx.unsent.pushed();
        let limited = self.flight.in_flight() + u32::from(pushed.segs) >= path.window.cwnd;
        let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
        self.usage.validate(&self.recovery, &mut e, pushed, limited, sndbuf_wait);
    }

    /// Data leaves, the first time or again (`tcp_event_data_sent`).
    fn note_data(&mut self, now: Instant, plan: &SendPlan) {
        if !plan.payload.is_empty() {
            self.usage.last_sent = now;
        }
    }

    /// The window was the limit when this flow last sent, or would have been (`tcp_is_cwnd_limited`).
    #[must_use]
    pub const fn is_cwnd_limited(&self, path: &Path) -> bool {
        self.usage.is_limited(path)
    }

    /// The application writes after a pause longer than the RTO: the window is no longer proven (RFC 2861,
    /// `tcp_slow_start_after_idle_check`). To be called before an idle connection sends.
    pub fn check_idle_restart(&mut self, cx: &mut Cx<'_>, path: &mut Path) {
        if cx.sysctl.tcp_slow_start_after_idle && self.flight.packets_out == 0 {
            let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
            self.usage.restart(&self.recovery, &mut e);
        }
    }

    /// The next retransmission that recovery wants and the window allows: lost segments in order, at most `max_segs` of them,
    /// none beyond the peer's window. Nothing changes until [`Self::commit_retransmit`].
    pub fn next_retransmit(&mut self, path: &Path, max_segs: u16, wnd_end: Seq) -> Option<Resend> {
        if !self.may_resend(path) {
            return None;
        }
        let room = self.cwnd_room(path).min(u32::from(max_segs.max(1))) as u16;
        let (start, _) = self.flight.next_lost()?;
        let wnd_end = self.offset(wnd_end);
        self.resend(start, room, wnd_end)
    }

    /// Recovery wants retransmissions, and the congestion window allows them. What was sent again and is not lost any more counts as
    /// well (`tcp_xmit_retransmit_queue`).
    #[must_use]
    pub fn may_resend(&self, path: &Path) -> bool {
        self.cwnd_room(path) > 0 && self.flight.retrans_out < self.flight.lost_out && !self.recovery.frto.hold
    }

    /// True when [`Self::next_retransmit`] has something that has left this host.
    #[must_use]
    pub fn resends_now(&self, path: &Path) -> bool {
        self.may_resend(path)
            && self.flight.next_lost().is_some_and(|(_, sent)| !self.flight.tx.below.holds(sent.number))
    }

    /// True when what [`Self::next_retransmit`] has is a FIN by itself.
    #[must_use]
    pub fn resends_only_fin(&self) -> bool {
        self.flight.retrans_out < self.flight.lost_out
            && self.flight.next_lost().is_some_and(|(_, sent)| sent.payload.is_empty())
    }

    /// Prepares the record at `start` for retransmission: at most `segs` segments at the present MSS, within the window.
    fn resend(&mut self, start: u64, segs: u16, wnd_end: u64) -> Option<Resend> {
        let mss = usize::from(self.flight.mss);
        // What is acknowledged of a segment is not sent again. A head that is sacked stays as it is when another segment is.
        let begins_below = start < self.flight.tx.una();
        let front = begins_below.then(|| self.flight.tx.drop_acked_front()).flatten();
        let start = front.unwrap_or(start);
        let sent = self.flight.tx.get(start)?;
        let mut limit = mss * usize::from(segs);
        let room = wnd_end.saturating_sub(start) as usize;
        if room < limit && !sent.payload.is_empty() {
            // A shut window still takes the head: that is the probe (RFC 9293 section 3.8.6.1). Of an open one whole segments are taken, and
            // what is behind them is a buffer of its own though it fits, which is charged (`__tcp_retransmit_skb`).
            limit = match room {
                0 if start != self.flight.tx.una() => return None,
                0 => mss,
                room if room >= mss => room / mss * mss,
                room => room,
            };
        }
        // Of what is only proposed nobody knows yet what fits the window: it is cut once, when that is known.
        if wnd_end != u64::MAX {
            if sent.payload.len() > limit && !self.flight.split_to_resend(start, limit) {
                return None;
            }
            if self.flight.tx.get(start)?.mss != self.flight.mss {
                self.flight.recount(start);
            }
            self.flight.collapse(start, mss.min(room), wnd_end);
        }
        let sent = self.flight.tx.get(start)?;
        Some(Resend {
            start,
            seq: self.seq(start),
            len: sent.span() as u32,
            segs: sent.segs,
            last_sent: sent.sent_at,
            below: self.flight.tx.below.holds(sent.number),
            clock: None,
            crossing: false,
        })
    }

    /// A retransmission that was proposed before the present MSS was known: SACK blocks of the receiving side may have come
    /// since, and a segment that was full before them would not pass the path. None when it has been acknowledged since.
    /// Nor does it pass a window that has shrunk: what fits of it goes, and of a shut one the head as a probe (`__tcp_retransmit_skb`).
    pub fn refit(&mut self, proposed: Resend, wnd_end: Seq) -> Option<Resend> {
        if proposed.crossing {
            return Some(proposed);
        }
        self.resend(proposed.start, 1, self.offset(wnd_end))
    }

    /// The SYN of a simultaneous open, to be sent as a SYN-ACK with [`Self::commit_rto`].
    pub fn cross_syn(&mut self) -> Option<Resend> {
        let (start, _) = self.flight.tx.first()?;
        self.resend(start, 1, u64::MAX).map(|resend| Resend { crossing: true, ..resend })
    }

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
        self.resend(start, 1, u64::MAX)
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
        path.rtt.take_back_backoff();
        let at = head.sent_at + path.rtt.rto(cx.sysctl);
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
        let at = cx.now + super::recovery::rto::RESOURCE_PROBE_INTERVAL;
        self.timer.set(cx, TimerKind::Rto, at);
    }

    /// The TLP timer fired: what to send. New data if the peer's window takes a segment (`window_room`), else the last segment
    /// again. Report with [`Self::tlp_done`] or send it with [`Self::commit_tlp`].
    pub fn on_tlp(&mut self, window_room: bool) -> Probe {
        self.timer.clear();
        if self.recovery.tlp.high_seq.is_some() || self.flight.packets_out == 0 {
            return Probe::Nothing;
        }
        self.recovery.tlp.retrans = false;
        if window_room && self.flight.tx.unsent.head().is_some() {
            return Probe::New;
        }
        let Some((start, last)) = self.flight.tx.last() else { return Probe::Nothing };
        let mut start = start;
        if last.segs > 1 {
            // By the MSS of now, though it was counted by another (`tcp_send_loss_probe`).
            let front = usize::from(last.segs - 1) * usize::from(self.flight.mss);
            if self.flight.split_to_resend(start, front) {
                start += front as u64;
            }
        }
        self.resend(start, 1, u64::MAX).map_or(Probe::Nothing, Probe::Resend)
    }

    /// The end of a probe: `sent` says whether one left, and whether it was a retransmission. Sets the RTO timer.
    pub fn tlp_done(&mut self, cx: &mut Cx<'_>, path: &mut Path, sent: Option<bool>) {
        let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
        self.recovery.on_probe(&mut e, sent);
    }

    /// RACK's reordering timer fired; true when [`Self::next_retransmit`] should be asked.
    pub fn on_reorder_timeout(&mut self, cx: &mut Cx<'_>, path: &mut Path) -> bool {
        let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
        let found = self.recovery.on_reorder_timeout(&mut e);
        e.rearm_rto();
        found
    }

    /// The path's MTU shrank and [`Self::set_mss`] was told; true when [`Self::next_retransmit`] should be asked. `syn_data`: what is
    /// out is a SYN with data, and was too long together.
    pub fn on_mss_reduced(&mut self, cx: &mut Cx<'_>, path: &mut Path, syn_data: bool) -> bool {
        let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
        self.recovery.on_mss_reduced(&mut e, syn_data)
    }

    /// A queue of our own host dropped one of our packets: one reduction per window, and nothing is marked lost.
    pub fn enter_cwr(&mut self, cx: &mut Cx<'_>, path: &mut Path) {
        let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
        self.recovery.enter_cwr(&mut e);
    }

    /// F-RTO: new data was tried after [`Rexmit::New`]; true when none left, so that [`Self::next_retransmit`] is due.
    pub fn frto_sent(&mut self) -> bool {
        if self.flight.tx.nxt() > self.recovery.high_seq {
            return false;
        }
        self.recovery.frto.on = false;
        self.recovery.frto.hold = false;
        true
    }

    /// The pace or small queues let the flow go on: what is lost goes again, whatever the last acknowledgement asked for
    /// (`tcp_tsq_write`).
    pub const fn goes_on(&mut self) {
        self.recovery.frto.hold = false;
    }

    /// True when retransmissions have gone on for too long: `retries` as in tcp_retries2 or tcp_syn_retries (`syn`), or
    /// TCP_USER_TIMEOUT where it is set.
    #[must_use]
    pub fn timed_out(&self, cx: &Cx<'_>, patience: &Patience) -> bool {
        self.recovery.timed_out(cx, patience)
    }

    /// The connection is established and its first window begins: what the handshake's retransmissions did to the window is
    /// forgotten, unless the SYN was lost twice (`tcp_init_transfer`).
    pub fn init_transfer(&mut self, cx: &mut Cx<'_>, path: &mut Path, initial_cwnd: u32) {
        let lost_syn = self.recovery.undo.total_retrans > 1 && self.recovery.undo.marker.is_some();
        path.window.set_cwnd(cx, if lost_syn { 1 } else { initial_cwnd });
        // No sign of congestion has been seen by data (`tcp_init_metrics`).
        path.window.set_ssthresh(cx, Window::INFINITE_SSTHRESH);
        path.window.stamp = cx.now;
        self.usage.last_sent = cx.now;
        self.usage.round_end = self.flight.tx.nxt();
        self.start_congestion(cx, path);
    }

    /// The controller's work begins (`tcp_init_congestion_control`). Reductions of one before it are not undone.
    pub fn start_congestion(&mut self, cx: &mut Cx<'_>, path: &mut Path) {
        self.recovery.undo.prior_ssthresh = 0;
        let flight = &self.flight;
        let flow = path.flow(flight.mss, flight.in_flight(), flight.lost, flight.tx.nxt());
        path.tell(cx, CaEvent::Start, &flow);
    }

    /// An acknowledgement (`tcp_ack`).
    pub fn on_ack(&mut self, cx: &mut Cx<'_>, path: &mut Path, input: &AckIn<'_>) -> AckOut {
        let ack = self.ack_of(input);
        let mut blocks: smallvec::SmallVec<[(u64, u64); SACK_BLOCKS_MAX]> = smallvec::SmallVec::new();
        if self.flight.sack_ok {
            let base = input.sack.iter().take(SACK_BLOCKS_MAX);
            blocks.extend(base.map(|&(s, t)| (self.offset(s), self.offset(t))));
        }
        let mut work = super::ack::Work {
            e: Env { cx, path, flight: &mut self.flight, timer: &mut self.timer },
            recovery: &mut self.recovery,
            usage: &self.usage,
            ack,
            out: AckOut::default(),
        };
        work.run(&blocks);
        work.out
    }

    fn ack_of(&self, input: &AckIn<'_>) -> Ack {
        let mut facts = 0;
        let told = [
            (input.has_data, fact::DATA),
            (input.window_taken, fact::WIN_UPDATE),
            (input.ece, fact::ECE),
            (input.child, fact::CHILD),
            (input.crossed, fact::CROSSED),
        ];
        for (on, bit) in told {
            if on {
                facts |= bit;
            }
        }
        Ack {
            facts,
            ack: self.offset(input.ack).min(self.flight.tx.nxt()),
            prior_una: self.flight.tx.una(),
            at: input.at,
            tsecr: input.tsecr,
            delivered: 0,
            reord: u64::MAX,
            sampler: Sampler::default(),
            sacked_at: None,
            max_window: self.max_window,
            wnd_end: self.offset(input.wnd_end),
        }
    }

    /// Throws everything away (reset, abort).
    pub fn clear(&mut self) {
        let fresh = Flight::new(0, self.flight.mss);
        let Flight { mut tx, sack_ok, lost_out, retrans_out, sacked_out, .. } =
            core::mem::replace(&mut self.flight, fresh);
        tx.clear();
        // Reports still tell how it was at the end (`tcp_write_queue_purge`).
        self.flight.tx = tx;
        (self.flight.sack_ok, self.flight.lost_out, self.flight.retrans_out) =
            (sack_ok, lost_out, retrans_out);
        self.flight.sacked_out = sacked_out;
        self.timer.clear();
    }

    fn plan(&self, start: u64, last_sent: Option<Instant>) -> Option<SendPlan> {
        let sent = self.flight.tx.get(start)?;
        Some(SendPlan {
            seq: self.seq(start),
            payload: sent.payload.clone(),
            syn: sent.has(flag::SYN),
            push: sent.has(flag::PUSH),
            fin: sent.has(flag::FIN),
            segs: sent.segs,
            mss: sent.mss,
            last_sent,
            departure: sent.sent_at,
            attempt: None,
        })
    }

    /// The sequence number of an offset.
    pub(super) fn seq(&self, offset: u64) -> Seq {
        self.iss + offset as u32
    }

    /// The offset nearest to `una` that has this sequence number; 0 for what would be before the ISN.
    fn offset(&self, seq: Seq) -> u64 {
        let una = self.flight.tx.una();
        let delta = seq.since(self.seq(una)) as i32;
        una.saturating_add_signed(i64::from(delta))
    }
}

mod commit;
mod departures;
mod handshake;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod link;
mod refused;
pub use refused::{Attempt, Before, Errand};
#[cfg(test)]
mod tests;
