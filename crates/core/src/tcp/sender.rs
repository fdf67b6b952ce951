//! TCP's sending side below the state machine: queue, scoreboard, recovery and retransmission timer as one object.
//!
//! Everything here is in offsets from the ISN; only `seq` and `offset` convert to and from sequence numbers. What may be sent when
//! (peer's window, Nagle, pacing, credit) is decided by the caller between `peek_*` and `commit_*`.
use super::recovery::rto::{TimerKind, XmitTimer};
use super::recovery::{Env, Recovery};
use super::scoreboard::Flight;
use super::seq::Seq;
use super::tx_queue::HeadInfo;
use super::usage::Usage;
use crate::base::Cx;
use crate::base::time::Instant;
use crate::path::Path;
use crate::path::congestion::{CaEvent, CaState, Window};

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

    /// A timeout that the flow survives has given it another label (`tcp_write_timeout`).
    pub(in crate::tcp) const fn note_rehash(&mut self) {
        let timeouts = &mut self.recovery.timeouts;
        timeouts.rehashes = timeouts.rehashes.wrapping_add(1);
    }

    /// Measured reordering (`tcpi_reordering`, `tcpi_reord_seen`).
    #[must_use]
    pub const fn reordering(&self) -> super::recovery::Reorder {
        self.recovery.reorder
    }

    /// Whether small segments are retransmitted together.
    pub const fn set_collapse(&mut self, on: bool) {
        self.flight.set_collapse(on);
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

    /// Small segments were joined to go again since this was last asked, or the front of one was left out, and that memory is freed.
    pub const fn take_freed(&mut self) -> bool {
        self.flight.take_freed()
    }

    /// The head of the unsent part.
    #[must_use]
    pub fn peek_unsent(&self) -> Option<HeadInfo> {
        self.flight.tx.unsent.head()
    }

    /// RACK's reordering timer fired; true when [`Self::next_lost`] should be asked.
    pub fn on_reorder_timeout(&mut self, cx: &mut Cx<'_>, path: &mut Path) -> bool {
        let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
        let found = self.recovery.on_reorder_timeout(&mut e);
        e.rearm_rto();
        found
    }

    /// The path's MTU shrank and [`Self::set_mss`] was told; true when [`Self::next_lost`] should be asked. `syn_data`: what is
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

    /// F-RTO: new data was tried after [`Rexmit::New`]; true when none left, so that [`Self::next_lost`] is due.
    pub fn frto_sent(&mut self) -> bool {
        if self.flight.tx.nxt() > self.recovery.high_seq {
            return false;
        }
        self.recovery.frto = super::recovery::frto::Frto { on: false, hold: false, walks: true };
        true
    }

    /// The pace lets the flow go on: what is lost goes again, whatever the last acknowledgement asked for
    /// (`tcp_tsq_write`).
    pub const fn goes_on(&mut self) {
        (self.recovery.frto.hold, self.recovery.frto.walks) = (false, true);
    }

    /// The same of small queues, as something of the flow has left. Only F-RTO whose new data is under way still waits for an acknowledgement:
    /// what throttled the flow was the length of that burst (RFC 5682 section 3.1 step 2.b), and this says nothing of a loss.
    pub fn goes_on_below(&mut self) {
        let frto = self.recovery.frto;
        let tries_new_data =
            self.ca_state() == CaState::Loss && self.flight.tx.nxt() > self.recovery.high_seq;
        self.goes_on();
        self.recovery.frto.hold = frto.on && frto.hold && tries_new_data;
    }

    /// The connection is established and its first window begins: what the handshake's retransmissions did to the window is
    /// forgotten, unless the SYN was lost twice (`tcp_init_transfer`).
    pub fn init_transfer(&mut self, cx: &mut Cx<'_>, path: &mut Path, initial_cwnd: u32) {
        let lost_syn = self.recovery.undo.total_retrans > 1 && self.recovery.undo.marker.is_some();
        self.set_initial_cwnd(initial_cwnd);
        path.window.set_cwnd(cx, if lost_syn { 1 } else { self.usage.initial.into() });
        // No sign of congestion has been seen by data (`tcp_init_metrics`).
        path.window.set_ssthresh(cx, Window::INFINITE_SSTHRESH);
        path.window.stamp = cx.now;
        self.usage.last_sent = cx.now;
        self.usage.round_end = self.flight.tx.nxt();
        // One that was set during the handshake keeps what it has learnt from that.
        if !self.usage.begun {
            self.start_congestion(cx, path);
        }
    }

    /// The window that a pause leads back to, in segments.
    pub fn set_initial_cwnd(&mut self, segments: u32) {
        self.usage.initial = u16::try_from(segments).unwrap_or(u16::MAX);
    }

    /// The controller's work begins (`tcp_init_congestion_control`). Reductions of one before it are not undone.
    pub fn start_congestion(&mut self, cx: &mut Cx<'_>, path: &mut Path) {
        self.usage.begun = true;
        self.recovery.undo.prior_ssthresh = 0;
        path.ecn.left(false);
        let flight = &self.flight;
        let flow = path.flow(flight.mss, flight.in_flight(), flight.lost, flight.tx.nxt());
        path.tell(cx, CaEvent::Start, &flow);
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

    /// The sequence number of an offset.
    pub(super) fn seq(&self, offset: u64) -> Seq {
        self.iss + offset as u32
    }

    /// The offset nearest to `una` that has this sequence number; 0 for what would be before the ISN.
    pub(super) fn offset(&self, seq: Seq) -> u64 {
        let una = self.flight.tx.una();
        let delta = seq.since(self.seq(una)) as i32;
        una.saturating_add_signed(i64::from(delta))
    }
}

mod commit;
mod departures;
mod handshake;
mod heard;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod link;
mod plan;
mod probe;
mod refused;
mod resend;
mod rounds;
#[cfg(test)]
mod tests;
mod timeout;
pub use heard::{AckIn, AckOut, Rexmit, SACK_BLOCKS_MAX};
pub use plan::SendPlan;
pub use probe::Probe;
pub use refused::{Attempt, Before, Errand};
pub use resend::{Lost, Resend};
