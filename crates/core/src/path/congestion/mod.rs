//! The contract between a transport and its congestion controller: facts in, window out.
//!
//! Windows count segments, as Linux does, because packetdrill and TCP_INFO show them so. The transport keeps what is in
//! flight; the controller keeps only what its algorithm needs.
pub mod any;
pub mod bbr;
pub mod cubic;
pub mod hystart;
pub mod hystart_pp;
#[cfg(test)]
mod law;
pub mod reno;

pub use any::AnyCongestion;

use super::rate::RateSample;
use crate::base::Cx;
use crate::base::time::{Duration, Instant};
use crate::base::trace::Ev;

/// The congestion window and what moderates it. Only setters that trace change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments; [`Window::INFINITE_SSTHRESH`] until the first congestion.
    pub ssthresh: u32,
    /// Segments acknowledged towards the next increase of `cwnd` in congestion avoidance.
    pub cwnd_cnt: u32,
    /// Bound for `cwnd`.
    pub clamp: u32,
    /// When the window was last full, changed, or might have grown (`snd_cwnd_stamp`).
    pub stamp: Instant,
}

impl Window {
    /// `ssthresh` before any congestion (`TCP_INFINITE_SSTHRESH`).
    pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;
    /// Initial window in segments (RFC 6928, `TCP_INIT_CWND`).
    pub const INITIAL: u32 = 10;

    /// The window of a new connection.
    #[must_use]
    pub const fn new() -> Self {
        let (cwnd, ssthresh) = (Self::INITIAL, Self::INFINITE_SSTHRESH);
        Self { cwnd, ssthresh, cwnd_cnt: 0, clamp: u32::MAX, stamp: Instant::ZERO }
    }

    /// True below `ssthresh`.
    #[must_use]
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Sets the window; it never closes altogether, for then nothing could open it.
    pub fn set_cwnd(&mut self, cx: &mut Cx<'_>, segments: u32) {
        let segments = segments.max(1);
        if self.cwnd != segments {
            self.cwnd = segments;
            cx.trace(Ev::Cwnd(self.cwnd, self.ssthresh));
        }
    }

    /// Sets the window to what an event made of it, now.
    pub fn reset_cwnd(&mut self, cx: &mut Cx<'_>, segments: u32) {
        self.set_cwnd(cx, segments);
        self.stamp = cx.now;
    }

    /// Sets the slow-start threshold.
    pub fn set_ssthresh(&mut self, cx: &mut Cx<'_>, segments: u32) {
        if self.ssthresh != segments {
            self.ssthresh = segments;
            cx.trace(Ev::Cwnd(self.cwnd, self.ssthresh));
        }
    }

    /// Slow start for `acked` segments, up to `ssthresh`; returns those left for congestion avoidance (`tcp_slow_start`).
    #[must_use]
    pub fn slow_start(&mut self, cx: &mut Cx<'_>, acked: u32) -> u32 {
        let grown = self.cwnd.saturating_add(acked).min(self.ssthresh).max(self.cwnd);
        let left = acked - (grown - self.cwnd);
        self.grow_to(cx, grown);
        left
    }

    /// Additive increase: one segment for every `per` acknowledged, remembered across calls (`tcp_cong_avoid_ai`).
    pub fn additive_increase(&mut self, cx: &mut Cx<'_>, per: u32, acked: u32) {
        let per = per.max(1);
        let mut cwnd = self.cwnd;
        // The rate grew since the credit was earned: it is worth one segment, not several.
        if self.cwnd_cnt >= per {
            self.cwnd_cnt = 0;
            cwnd = cwnd.saturating_add(1);
        }
        self.cwnd_cnt = self.cwnd_cnt.saturating_add(acked);
        cwnd = cwnd.saturating_add(self.cwnd_cnt / per);
        self.cwnd_cnt %= per;
        self.grow_to(cx, cwnd);
    }

    /// Grows to `cwnd` within the clamp; a clamp that was lowered meanwhile takes effect here.
    fn grow_to(&mut self, cx: &mut Cx<'_>, cwnd: u32) {
        self.set_cwnd(cx, cwnd.min(self.clamp));
    }
}

impl Default for Window {
    fn default() -> Self {
        Self::new()
    }
}

/// State of the congestion control machine; names and order as in Linux (`tcpi_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum CaState {
    /// Nothing unusual.
    #[default]
    Open = 0,
    /// Duplicate or selective acknowledgements were seen.
    Disorder = 1,
    /// The window is being reduced for a local drop or an ECN echo.
    Cwr = 2,
    /// Fast recovery.
    Recovery = 3,
    /// A retransmission timeout.
    Loss = 4,
}

/// Single facts that a controller may want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaEvent {
    /// The connection is established, or was handed to this controller: its work begins (`tcp_init_congestion_control`).
    Start,
    /// First transmission when nothing was in flight; carries when the last one was.
    TxStart {
        /// When the flow last sent data.
        last_sent: Instant,
    },
    /// The window was restarted after idleness (RFC 2861).
    CwndRestart,
    /// The reduction of a CWR episode is complete.
    CompleteCwr,
    /// A retransmission timeout was declared.
    Loss,
}

/// What a controller may ask of its flow at any moment, beside the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flow {
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Segments delivered so far, modulo 2^32.
    pub delivered: u32,
    /// When that count last moved.
    pub delivered_at: Instant,
    /// Segments ever marked lost, modulo 2^32.
    pub lost: u32,
    /// What is sent now would give samples of the rate that show the application, not the path.
    pub app_limited: bool,
    /// Smoothed RTT, if known.
    pub srtt: Option<Duration>,
    /// Smallest RTT of the last minutes, if known.
    pub min_rtt: Option<Duration>,
    /// When the next packet may leave by its pacing; in the past when it may leave now.
    pub departure: Instant,
    /// Pacing rate in force, in bytes per second.
    pub pacing_rate: u64,
    /// SO_MAX_PACING_RATE; `u64::MAX` for none.
    pub max_pacing_rate: u64,
    /// Next sequence number to send, counted from the ISN without wrapping.
    pub nxt: u64,
}

/// What one acknowledgement told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AckSample {
    /// The flow after it.
    pub flow: Flow,
    /// The machine's state after it.
    pub state: CaState,
    /// Segments newly delivered, cumulatively or selectively.
    pub delivered: u32,
    /// Those and what is in flight after it: what may be in flight where as many leave as came. Of bytes, whole segments alone: a sender that
    /// may fill up what is begun of a packet would have more in flight at each acknowledgement.
    pub conserved: u32,
    /// Segments newly acknowledged cumulatively.
    pub acked: u32,
    /// Segments newly marked lost.
    pub lost: u32,
    /// Segments in flight before this acknowledgement.
    pub prior_in_flight: u32,
    /// Round-trip time sample, never from an ambiguous retransmission (Karn).
    pub rtt: Option<Duration>,
    /// The peer may have delayed it: `rtt` is perhaps too long.
    pub delayed: bool,
    /// Something was delivered whose transmission is known, and nothing was taken back, whether or not that made a valid sample of the rate:
    /// a duplicate report alone is none.
    pub sampled: bool,
    /// Delivery rate sample, if one is valid.
    pub rate: Option<RateSample>,
    /// The flow used its whole window when it last sent (`is_cwnd_limited`).
    pub cwnd_limited: bool,
    /// Somebody paces the flow: spacing of acknowledgements is then no sign of a queue.
    pub paced: bool,
    /// Time that batching on the way may add to the spacing of acknowledgements ([`super::pacing::Pacing::burst_delay`]).
    pub burst_delay: Duration,
    /// The acknowledgement carried ECE.
    pub ece: bool,
    /// First unacknowledged sequence number after it, counted from the ISN without wrapping.
    pub una: u64,
}

/// What a controller wants of its transport at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// It moves the window at every acknowledgement, in recovery too: [`Congestion::cong_avoid`] is called for each, and the
    /// transport neither reduces the window by proportional rate reduction nor after idleness (`cong_control`).
    pub governs: bool,
    /// Pacing rate in bytes per second where the controller sets it itself, and wants the flow paced; `None` lets the transport
    /// derive a rate from the window.
    pub pacing_rate: Option<u64>,
    /// Pacing rate in bytes per second from which on a packet has two segments at least, and below it one, instead of
    /// `tcp_min_tso_segs` (`bbr_min_tso_segs`).
    pub two_segments_from: Option<u64>,
    /// Multiple of the window that the send buffer grows to (2; 3 for BBR).
    pub sndbuf_expand: u32,
    /// The controller keeps the flow slow on purpose: what is in flight says nothing about the path's rate.
    pub app_limited: bool,
}

impl Wishes {
    /// Those of a controller that leaves everything but the window to the transport.
    pub const NONE: Self = Self {
        governs: false,
        pacing_rate: None,
        two_segments_from: None,
        sndbuf_expand: 2,
        app_limited: false,
    };
}

/// A congestion controller. The laws in `law.rs` hold for every implementation.
pub trait Congestion {
    /// The name in TCP_CONGESTION.
    fn name(&self) -> &'static str;
    /// What it wants of the transport; asked after each call that may have changed it.
    fn wishes(&self) -> Wishes {
        Wishes::NONE
    }
    /// The new `ssthresh` when congestion is declared; may remember the window for [`Congestion::undo_cwnd`].
    fn ssthresh(&mut self, cx: &mut Cx<'_>, window: &Window) -> u32;
    /// Moves the window for an acknowledgement. Called after [`Congestion::on_ack`] of the same acknowledgement: outside recovery
    /// and if [`AckSample::cwnd_limited`] says that the window was used, or for each where [`Wishes::governs`].
    fn cong_avoid(&mut self, cx: &mut Cx<'_>, window: &mut Window, sample: &AckSample);
    /// Learns from every acknowledgement, whether or not the window may grow (HyStart's delay samples; `pkts_acked`). TCP calls it
    /// before its machine moves: what the acknowledgement loses or undoes, and the rate, are told by [`Congestion::cong_avoid`].
    fn on_ack(&mut self, cx: &mut Cx<'_>, window: &mut Window, sample: &AckSample);
    /// The machine is in `state` from now on; Loss is told at every timeout.
    fn on_state(&mut self, cx: &mut Cx<'_>, window: &Window, state: CaState, flow: &Flow);
    /// A single fact.
    fn on_event(&mut self, cx: &mut Cx<'_>, window: &mut Window, event: CaEvent, flow: &Flow);
    /// The window to return to when a reduction proved spurious.
    fn undo_cwnd(&mut self, window: &Window) -> u32;
}
