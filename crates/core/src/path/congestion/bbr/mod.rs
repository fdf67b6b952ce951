//! BBR version 1: a model of the path, its bandwidth and its round trip without queues, sets both the pacing rate and the window.
//!
//! Cardwell et al., "BBR: congestion-based congestion control" (ACM Queue 14, 2016); draft-cardwell-iccrg-bbr-congestion-control-00;
//! where they leave a choice, Linux 6.1 (`tcp_bbr.c`): the estimate of long-term rates behind a policer, room for aggregated
//! acknowledgements, inflight reckoned at the departure of the next packet. Fixed point throughout: bandwidths are segments per
//! microsecond times 2^24, gains are in 256ths.
mod aggregation;
mod drain;
mod model;
mod policer;
mod probe_bw;
mod probe_rtt;
mod startup;
mod window;

use super::{AckSample, CaEvent, CaState, Congestion, Flow, Window, Wishes};
use crate::base::Cx;
use crate::base::time::Duration;
use crate::path::pacing::PACING_SHIFT;
use aggregation::Aggregation;
use model::{BW_UNIT, Model, UNIT, bytes_per_second};
use policer::{Policer, Verdict};
use probe_bw::Cycle;
use probe_rtt::ProbeRtt;
use startup::FullPipe;
use window::Restore;

/// The rate must double each round trip, and ln 2 of a window is out on average: 2/ln 2 in 256ths, rounded up.
const HIGH_GAIN: u32 = UNIT * 2_885 / 1_000 + 1;
/// A queue of one round trip at the high gain drains in one.
const DRAIN_GAIN: u32 = UNIT * 1_000 / 2_885;
/// Room for delayed and stretched acknowledgements: two estimated windows.
const CWND_GAIN: u32 = 2 * UNIT;
/// Fewest segments in flight that keep a peer acknowledging that delays every other acknowledgement.
const MIN_CWND: u32 = 4;
/// Round trip for the first pacing rate where none was measured, in microseconds.
const NOMINAL_RTT_US: u64 = 1_000;
/// Below this rate in bytes per second a packet is one segment: 1.2 Mbit/s (`bbr_min_tso_rate`).
const MIN_TSO_RATE: u64 = 1_200_000 / 8;
/// Payload of the largest super-packet, whatever the device takes.
const GSO_PAYLOAD_MAX: u64 = 65_536 - 321;
/// Most segments that the goal for one packet can be.
const TSO_SEGS_MAX: u64 = 0x7f;

/// The phase that a flow is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Doubling until the bandwidth grows no more.
    #[default]
    Startup,
    /// Emptying the queue that this has made.
    Drain,
    /// Cycling the pacing gain around the estimate.
    ProbeBw,
    /// A short time with next to nothing in flight, to see the round trip without queues.
    ProbeRtt,
}

/// What follows from mode and model, and goes to the transport.
#[derive(Clone, Copy, Debug, Default)]
struct Output {
    /// Pacing rate in bytes per second; `None` before the connection began.
    rate: Option<u64>,
    pacing_gain: u32,
    cwnd_gain: u32,
    /// The rate follows from a measured round trip.
    has_seen_rtt: bool,
    /// The flow begins again after a pause of the application: no reason for PROBE_RTT.
    idle_restart: bool,
    /// The last acknowledgement was judged in PROBE_RTT.
    app_limited: bool,
}

/// The controller's state.
#[derive(Clone, Debug, Default)]
pub struct Bbr {
    mode: Mode,
    model: Model,
    pipe: FullPipe,
    cycle: Cycle,
    probe_rtt: ProbeRtt,
    policer: Policer,
    aggregation: Aggregation,
    restore: Restore,
    out: Output,
}

/// What TCP_CC_INFO tells of BBR (`struct tcp_bbr_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BbrInfo {
    /// Estimated bandwidth in bytes per second.
    pub bw: u64,
    /// Smallest RTT of its window in microseconds, `u32::MAX` while unknown.
    pub min_rtt: u32,
    /// Pacing gain in 256ths.
    pub pacing_gain: u32,
    /// Window gain in 256ths.
    pub cwnd_gain: u32,
}

impl BbrInfo {
    /// The 20 bytes of the struct.
    #[must_use]
    pub fn emit(&self) -> [u8; 20] {
        let words = [self.bw as u32, (self.bw >> 32) as u32, self.min_rtt, self.pacing_gain, self.cwnd_gain];
        let mut out = [0; 20];
        for (place, word) in out.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }
}

impl Bbr {
    /// TCP_CC_INFO for segments of `mss` bytes.
    #[must_use]
    pub fn info(&self, mss: u32) -> BbrInfo {
        let bytes = u128::from(self.bw()) * u128::from(mss) * 1_000_000 / u128::from(BW_UNIT);
        BbrInfo {
            bw: u64::try_from(bytes).unwrap_or(u64::MAX),
            min_rtt: self.model.min_rtt_us.unwrap_or(u32::MAX),
            pacing_gain: self.out.pacing_gain,
            cwnd_gain: self.out.cwnd_gain,
        }
    }

    /// The bandwidth in force: the largest of the last rounds, or what a policer lets through.
    fn bw(&self) -> u32 {
        self.policer.rate().unwrap_or_else(|| self.model.max_bw())
    }

    /// `bbr_init`.
    fn start(&mut self, cx: &mut Cx<'_>, window: &mut Window, flow: &Flow) {
        *self = Self::default();
        self.model.start_round(flow.delivered);
        window.set_ssthresh(cx, Window::INFINITE_SSTHRESH);
        self.model.min_rtt_us = flow.min_rtt.map(micros);
        self.model.min_rtt_at = cx.now;
        self.aggregation.restart(cx.now);
        self.rate_from_rtt(window, flow);
    }

    /// The first rate: the window per round trip at the high gain (`bbr_init_pacing_rate_from_rtt`).
    fn rate_from_rtt(&mut self, window: &Window, flow: &Flow) {
        self.out.has_seen_rtt = flow.srtt.is_some();
        let rtt_us = flow.srtt.map_or(NOMINAL_RTT_US, |srtt| u64::from(micros(srtt)).max(1));
        let bw = u64::from(window.cwnd) * BW_UNIT / rtt_us;
        self.out.rate = Some(paced(bw, HIGH_GAIN, flow));
    }

    /// A bound lowers the rate at once, and the rate does not come back with the end of the bound (`sk_setsockopt`; `sk_pacing_rate`
    /// is all that BBR remembers of it).
    fn follow_bound(&mut self, flow: &Flow) {
        self.out.rate = self.out.rate.map(|rate| rate.min(flow.pacing_rate));
    }

    /// In bytes per second; 0 before the connection began.
    fn rate(&self) -> u64 {
        self.out.rate.unwrap_or(0)
    }

    /// `bbr_set_pacing_rate`: before the pipe is full the rate only grows.
    fn set_rate(&mut self, window: &Window, gain: u32, flow: &Flow) {
        let rate = paced(u64::from(self.bw()), gain, flow);
        if !self.out.has_seen_rtt && flow.srtt.is_some() {
            self.rate_from_rtt(window, flow);
        }
        if self.pipe.reached || rate > self.rate() {
            self.out.rate = Some(rate);
        }
    }

    /// Segments that a packet should hold at the rate (`bbr_tso_segs_goal`).
    fn tso_segs_goal(&self, flow: &Flow) -> u32 {
        let bytes = (self.rate() >> PACING_SHIFT).min(GSO_PAYLOAD_MAX);
        let segs = (bytes / u64::from(flow.mss.max(1))).max(u64::from(self.min_tso_segs()));
        segs.min(TSO_SEGS_MAX) as u32
    }

    fn min_tso_segs(&self) -> u32 {
        if self.rate() < MIN_TSO_RATE { 1 } else { 2 }
    }

    /// Adds what is on its way inside of both hosts (`bbr_quantization_budget`).
    fn with_quanta(&self, cwnd: u32, flow: &Flow) -> u32 {
        let cwnd = cwnd.saturating_add(3 * self.tso_segs_goal(flow));
        // An even number, for acknowledgements of every other segment.
        let even = cwnd.saturating_add(cwnd & 1);
        let probing = self.mode == Mode::ProbeBw && self.cycle.is_probing_up();
        even.saturating_add(if probing { 2 } else { 0 })
    }

    /// Segments in flight that `gain` of the estimated pipe makes (`bbr_inflight`).
    fn inflight(&self, bw: u32, gain: u32, flow: &Flow) -> u32 {
        self.with_quanta(self.model.bdp(bw, gain), flow)
    }

    /// Segments in the network when the next packet leaves: what was handed down with a later departure time is not there yet, and
    /// what arrives until then is there no more (`bbr_packets_in_net_at_edt`).
    fn in_network_at_departure(&self, cx: &Cx<'_>, in_flight: u32, flow: &Flow) -> u32 {
        let until_us = flow.departure.nanos_since(cx.now) / 1_000;
        let delivered = u64::from(self.bw()).saturating_mul(until_us) / BW_UNIT;
        let growing = self.out.pacing_gain > UNIT;
        let at_departure =
            u64::from(in_flight) + if growing { u64::from(self.tso_segs_goal(flow)) } else { 0 };
        u32::try_from(at_departure.saturating_sub(delivered)).unwrap_or(u32::MAX)
    }

    /// Everything that an acknowledgement tells about the path, and the phase that follows (`bbr_update_model`).
    fn update(&mut self, cx: &mut Cx<'_>, window: &mut Window, sample: &AckSample) {
        self.out.app_limited = false;
        self.model.round_start = false;
        if let Some(rate) = &sample.rate {
            if self.model.take_round(sample.flow.delivered, rate.delivered) {
                self.restore.end_conservation();
            }
            self.look_for_policer(cx, &sample.flow, sample.lost, rate.app_limited);
            self.model.take_rate(rate);
            let (bw, cwnd) = (self.bw(), window.cwnd);
            self.aggregation.update(&sample.flow, sample.delivered, bw, cwnd, self.model.round_start);
        }
        self.cycle_phase(cx, sample);
        if self.model.round_start
            && let Some(rate) = &sample.rate
            && !rate.app_limited
        {
            self.pipe.take_round(self.model.max_bw());
        }
        self.check_drain(cx, window, &sample.flow);
        self.track_min_rtt(cx, window, sample);
        self.set_gains();
    }

    fn look_for_policer(&mut self, cx: &mut Cx<'_>, flow: &Flow, lost: u32, app_limited: bool) {
        let round = self.model.round_start;
        match self.policer.sample(flow, lost, app_limited, round, self.mode == Mode::ProbeBw) {
            Verdict::Nothing => {}
            Verdict::Found => self.out.pacing_gain = UNIT,
            Verdict::LookAgain => self.enter_probe_bw(cx, flow),
        }
    }

    const fn set_gains(&mut self) {
        (self.out.pacing_gain, self.out.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.policer.rate().is_some() => (UNIT, CWND_GAIN),
            Mode::ProbeBw => (self.cycle.gain(), CWND_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }
}

impl Congestion for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn wishes(&self) -> Wishes {
        Wishes {
            governs: true,
            pacing_rate: self.out.rate,
            two_segments_from: Some(MIN_TSO_RATE),
            // It may send a window per round trip even in recovery.
            sndbuf_expand: 3,
            app_limited: self.out.app_limited,
        }
    }

    /// A loss is no reason to slow down; the window is remembered for the end of recovery (`bbr_ssthresh`).
    fn ssthresh(&mut self, _cx: &mut Cx<'_>, window: &Window) -> u32 {
        self.save_cwnd(window);
        window.ssthresh
    }

    /// `bbr_main`.
    fn cong_avoid(&mut self, cx: &mut Cx<'_>, window: &mut Window, sample: &AckSample) {
        self.follow_bound(&sample.flow);
        self.update(cx, window, sample);
        self.set_rate(window, self.out.pacing_gain, &sample.flow);
        self.set_cwnd(cx, window, sample);
    }

    fn on_ack(&mut self, _cx: &mut Cx<'_>, _window: &mut Window, _sample: &AckSample) {}

    /// A timeout ends a round, and what was believed of the pipe's size (`bbr_set_state`).
    fn on_state(&mut self, cx: &mut Cx<'_>, _window: &Window, state: CaState, flow: &Flow) {
        if state == CaState::Loss {
            self.restore.prev = CaState::Loss;
            self.pipe.forget_bw();
            self.model.round_start = true;
            self.look_for_policer(cx, flow, 1, false);
        }
    }

    /// `bbr_init`, `bbr_cwnd_event`.
    fn on_event(&mut self, cx: &mut Cx<'_>, window: &mut Window, event: CaEvent, flow: &Flow) {
        self.follow_bound(flow);
        match event {
            CaEvent::Start => self.start(cx, window, flow),
            CaEvent::TxStart { .. } if flow.app_limited => {
                self.out.idle_restart = true;
                self.aggregation.restart(cx.now);
                match self.mode {
                    // The estimate is speed enough for a flow that did not use it.
                    Mode::ProbeBw => self.set_rate(window, UNIT, flow),
                    Mode::ProbeRtt => self.end_probe_rtt(cx, window, flow),
                    Mode::Startup | Mode::Drain => {}
                }
            }
            _ => {}
        }
    }

    /// The window was not cut for good; what was learnt from losses that were none is forgotten (`bbr_undo_cwnd`).
    fn undo_cwnd(&mut self, window: &Window) -> u32 {
        self.pipe.forget();
        self.policer = Policer::default();
        window.cwnd
    }
}

/// Pacing rate in bytes per second for `gain` of `bw`, within SO_MAX_PACING_RATE (`bbr_bw_to_pacing_rate`). It is rounded down: of less than
/// 2^-24 segments a microsecond it is 0, which spaces nothing (`tcp_update_skb_after_send`).
fn paced(bw: u64, gain: u32, flow: &Flow) -> u64 {
    bytes_per_second(bw, gain, flow.mss).min(flow.max_pacing_rate)
}

/// Whole microseconds.
fn micros(d: Duration) -> u32 {
    u32::try_from(d.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
