//! A controller of `path/congestion` on one path of an association: bytes become segments, SACKs and timers become facts.
//!
//! A loss, a mark or a timeout is one event until what was out then is acknowledged. The window falls to `ssthresh` at once, as
//! section 7.2.4 has it, where TCP spreads that over a round trip (proportional rate reduction). Nothing is undone: a SACK names
//! duplicates of TSNs, but does not say which transmission it was for.
use super::departures::Departures;
use super::on_path::{IDLE_FLOOR, Marks, Sacked};
use crate::base::Cx;
use crate::base::limits::GSO_MAX_SIZE;
use crate::base::sysctl::CongestionKind;
use crate::base::time::{Duration, Instant};
use crate::path::congestion::bbr::BbrInfo;
use crate::path::congestion::{
    AckSample, AnyCongestion, CaEvent, CaState, Congestion as _, Flow, Window, Wishes,
};
use crate::path::pacing::Pacing;
use crate::path::rate::{Rate, Sampler};
use crate::sctp::tsn::Tsn;

/// What people are told of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// State of the path's congestion machine.
    pub state: CaState,
    /// Last good sample of the delivery rate in bytes per second: chunks with their headers.
    pub delivery_rate: Option<u64>,
    /// What BBR has found out.
    pub bbr: Option<BbrInfo>,
}

/// Bytes as segments. What is left over counts with the next.
#[derive(Clone, Copy, Debug, Default)]
struct Units {
    /// Bytes of chunks in a full packet.
    unit: u32,
    delivered_rest: u32,
    lost_rest: u32,
    /// Of the window, when packets had another size.
    cwnd_rest: u32,
    /// Segments ever marked lost, modulo 2^32.
    lost: u32,
}

/// Whole units in `rest` and `bytes` together; less than one stays in `rest`.
fn whole(rest: &mut u32, bytes: u32, unit: u32) -> u32 {
    let all = u64::from(*rest) + u64::from(bytes);
    *rest = (all % u64::from(unit)) as u32;
    (all / u64::from(unit)) as u32
}

/// How the window was used, in rounds of TSNs (RFC 7661's problem; Linux `tcp_cwnd_validate`).
#[derive(Clone, Copy, Debug)]
struct Usage {
    /// Most segments out in this round.
    max_out: u32,
    /// The window, not the application, was the limit in this round.
    limited: bool,
    round_end: Tsn,
}

/// What the SACK at work has delivered so far.
#[derive(Clone, Copy, Debug, Default)]
struct News {
    sampler: Sampler,
    /// Of what was sent once and last.
    rtt: Option<Duration>,
    reneged: bool,
    /// Segments that had been lost when it began.
    lost_before: u32,
}

/// A controller with what it needs to know of its path.
#[derive(Debug)]
pub(super) struct Controller {
    algorithm: AnyCongestion,
    window: Window,
    rate: Rate,
    departures: Departures,
    state: CaState,
    /// The episode of `state` ends when this is acknowledged.
    exit: Tsn,
    usage: Usage,
    units: Units,
    last_sent: Instant,
    news: News,
}

impl Controller {
    /// A fresh one that goes on from a window in bytes.
    pub(super) fn new(
        cx: &mut Cx<'_>,
        kind: CongestionKind,
        (cwnd, ssthresh): (u32, u32),
        flow: &Flow,
    ) -> Self {
        let unit = flow.mss.max(1);
        let mut window = Window::new();
        // Not rounded up: where headers beside SCTP's make packets shorter, four of them would be more than section 7.2.1 lets go first.
        window.cwnd = (cwnd / unit).max(1);
        if ssthresh != u32::MAX {
            window.ssthresh = (ssthresh / unit).max(2);
        }
        let last = Tsn(flow.nxt).prev();
        let mut controller = Self {
            algorithm: AnyCongestion::new(kind),
            window,
            rate: Rate::new(),
            departures: Departures::default(),
            state: CaState::Open,
            exit: last,
            usage: Usage { max_out: 0, limited: false, round_end: last },
            units: Units { unit, ..Units::default() },
            last_sent: cx.now,
            news: News::default(),
        };
        controller.algorithm.on_event(cx, &mut controller.window, CaEvent::Start, flow);
        controller
    }

    /// What its side knows of the flow, `load` bytes being in flight.
    pub(super) fn complete(&self, flow: Flow, load: u32) -> Flow {
        Flow {
            in_flight: load.div_ceil(self.units.unit),
            delivered: self.rate.delivered(),
            delivered_at: self.rate.delivered_at(),
            lost: self.units.lost,
            app_limited: self.rate.is_app_limited(),
            ..flow
        }
    }

    /// A full packet holds `unit` bytes: a window of as many bytes as before has other segments (Linux `tcp_mtup_probe_success`).
    pub(super) fn set_unit(&mut self, unit: u32) {
        let (before, unit) = (self.units.unit, unit.max(1));
        if before == unit {
            return;
        }
        // Not rounded up: routers may shorten the path by four bytes as often as they like.
        let scaled = |segments: u32, rest: u32| {
            let all = u64::from(segments) * u64::from(before) + u64::from(rest);
            let rest = (all % u64::from(unit)) as u32;
            (u32::try_from(all / u64::from(unit)).unwrap_or(u32::MAX), rest)
        };
        let (cwnd, rest) = scaled(self.window.cwnd, self.units.cwnd_rest);
        (self.window.cwnd, self.units.cwnd_rest) = (cwnd.max(1), rest);
        if self.window.ssthresh < Window::INFINITE_SSTHRESH {
            self.window.ssthresh = scaled(self.window.ssthresh, 0).0.max(2);
        }
        self.window.cwnd_cnt = 0;
        self.units.unit = unit;
    }

    /// Window and threshold in bytes.
    pub(super) const fn window_bytes(&self) -> (u32, u32) {
        let unit = self.units.unit;
        let infinite = self.window.ssthresh >= Window::INFINITE_SSTHRESH;
        let ssthresh = if infinite { u32::MAX } else { self.window.ssthresh.saturating_mul(unit) };
        (self.window.cwnd.saturating_mul(unit), ssthresh)
    }

    pub(super) fn wishes(&self) -> Wishes {
        self.algorithm.wishes()
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let unit = self.units.unit;
        let bbr = match &self.algorithm {
            AnyCongestion::Bbr(bbr) => Some(bbr.info(unit)),
            _ => None,
        };
        let delivery_rate = self.rate.best().map(|sample| sample.bytes_per_second(unit));
        Snapshot { state: self.state, delivery_rate, bbr }
    }

    pub(super) fn shrink(&mut self) {
        self.departures.shrink();
    }

    /// A chunk leaves, which is not counted in flight yet.
    pub(super) fn on_sent(&mut self, cx: &mut Cx<'_>, flow: &Flow) {
        let idle = flow.in_flight == 0;
        if idle {
            let event = CaEvent::TxStart { last_sent: self.last_sent };
            self.algorithm.on_event(cx, &mut self.window, event, flow);
        }
        self.last_sent = cx.now;
        self.departures.on_sent(&mut self.rate, cx.now, idle);
    }

    /// So much is in flight now.
    pub(super) fn on_load(&mut self, load: u32) {
        self.usage.max_out = self.usage.max_out.max(load.div_ceil(self.units.unit));
    }

    /// The window holds something back.
    pub(super) const fn on_full(&mut self, flow: &Flow) {
        self.usage = Usage { max_out: flow.in_flight, limited: true, round_end: Tsn(flow.nxt).prev() };
    }

    /// In slow start a window half used may still grow (`tcp_is_cwnd_limited`).
    const fn is_limited(&self) -> bool {
        self.usage.limited || (self.window.in_slow_start() && self.window.cwnd < 2 * self.usage.max_out)
    }

    /// A SACK begins.
    pub(super) fn begin_sack(&mut self) {
        self.news = News { lost_before: self.units.lost, ..News::default() };
    }

    /// A chunk that left `at` that time is acknowledged for the first time; `again`: it had been sent before.
    pub(super) fn on_delivered(&mut self, now: Instant, at: Instant, again: bool) {
        if let Some(mut snapshot) = self.departures.take(at) {
            self.rate.on_delivered(&mut self.news.sampler, &mut snapshot, at, again);
        }
        if !again {
            let rtt = now.since(at);
            self.news.rtt = Some(self.news.rtt.map_or(rtt, |least| least.min(rtt)));
        }
    }

    /// A chunk that left `at` that time is sent again, maybe elsewhere, or given up.
    pub(super) fn on_gone(&mut self, at: Instant) {
        self.departures.take(at);
    }

    /// The peer has taken back what it had acknowledged: rates of this SACK are worth nothing.
    pub(super) const fn on_reneged(&mut self) {
        self.news.reneged = true;
    }

    /// The application writes, and there was a gap before.
    pub(super) fn mark_app_limited(&mut self, flow: &Flow) {
        if flow.in_flight < self.window.cwnd {
            self.rate.mark_app_limited(flow.in_flight);
        }
    }

    /// The end of a SACK.
    pub(super) fn on_sack(&mut self, cx: &mut Cx<'_>, flow: &Flow, sacked: &Sacked, pacing: &Pacing) {
        let unit = self.units.unit;
        let delivered = whole(&mut self.units.delivered_rest, sacked.delivered, unit);
        let News { sampler, rtt, reneged, lost_before } = core::mem::take(&mut self.news);
        self.reopen(cx, flow, sacked.marks.cum);
        let rate = self.rate.on_ack(cx.now, delivered, &sampler, flow.min_rtt, reneged);
        let flow = self.complete(*flow, sacked.load);
        let sample = AckSample {
            flow,
            state: self.state,
            delivered,
            conserved: sacked.load.saturating_add(sacked.delivered) / unit,
            acked: delivered,
            lost: self.units.lost.wrapping_sub(lost_before),
            prior_in_flight: sacked.before.div_ceil(unit),
            rtt,
            delayed: sacked.load == 0 && sacked.delivered <= unit,
            sampled: sampler.prior_delivered().is_some() && !reneged,
            rate,
            cwnd_limited: self.is_limited(),
            paced: pacing.is_paced(),
            burst_delay: pacing.burst_delay(GSO_MAX_SIZE as u32),
            ece: false,
            una: sacked.marks.cum.0 + 1,
        };
        self.algorithm.on_ack(cx, &mut self.window, &sample);
        let wishes = self.algorithm.wishes();
        if wishes.governs {
            self.algorithm.cong_avoid(cx, &mut self.window, &sample);
            if self.algorithm.wishes().app_limited {
                self.rate.mark_app_limited(flow.in_flight);
            }
        } else if sacked.grows && !self.is_reducing() {
            if sample.cwnd_limited {
                self.algorithm.cong_avoid(cx, &mut self.window, &sample);
            }
            self.window.stamp = cx.now;
        }
        if sacked.marks.cum >= self.usage.round_end {
            let round_end = sacked.marks.next.prev();
            self.usage = Usage { max_out: flow.in_flight, limited: false, round_end };
        }
    }

    /// True while the window has been cut for something that is not over.
    fn is_reducing(&self) -> bool {
        matches!(self.state, CaState::Cwr | CaState::Recovery)
    }

    /// The episode is over.
    fn reopen(&mut self, cx: &mut Cx<'_>, flow: &Flow, cum: Tsn) {
        if self.state == CaState::Open || cum < self.exit {
            return;
        }
        if self.is_reducing() && !self.wishes().governs {
            self.algorithm.on_event(cx, &mut self.window, CaEvent::CompleteCwr, flow);
        }
        self.enter(cx, flow, CaState::Open);
    }

    fn enter(&mut self, cx: &mut Cx<'_>, flow: &Flow, state: CaState) {
        self.state = state;
        self.algorithm.on_state(cx, &self.window, state, flow);
    }

    /// Congestion begins: the threshold, and the window of a controller that does not govern.
    fn reduce(&mut self, cx: &mut Cx<'_>) {
        self.window.cwnd_cnt = 0;
        let ssthresh = self.algorithm.ssthresh(cx, &self.window);
        self.window.set_ssthresh(cx, ssthresh);
    }

    /// Fast retransmission, or an echo of a router's mark (`CaState::Cwr`), outside of such an episode.
    pub(super) fn on_congestion(&mut self, cx: &mut Cx<'_>, flow: &Flow, state: CaState, marks: Marks) {
        self.reopen(cx, flow, marks.cum);
        if self.state >= state {
            return;
        }
        if self.state < CaState::Cwr {
            self.reduce(cx);
            if !self.wishes().governs {
                self.window.reset_cwnd(cx, self.window.ssthresh);
            }
        }
        self.exit = marks.next.prev();
        self.enter(cx, flow, state);
    }

    /// T3-rtx ran out, and nothing is in flight any more (`tcp_enter_loss`).
    pub(super) fn on_timeout(&mut self, cx: &mut Cx<'_>, flow: &Flow, marks: Marks) {
        if self.state <= CaState::Disorder || marks.cum >= self.exit {
            self.reduce(cx);
            self.algorithm.on_event(cx, &mut self.window, CaEvent::Loss, flow);
        }
        self.window.reset_cwnd(cx, 1);
        self.window.cwnd_cnt = 0;
        self.exit = marks.next.prev();
        self.enter(cx, flow, CaState::Loss);
    }

    /// `bytes` of chunks were marked lost.
    pub(super) fn on_lost(&mut self, bytes: u32) {
        let lost = whole(&mut self.units.lost_rest, bytes, self.units.unit);
        self.units.lost = self.units.lost.wrapping_add(lost);
    }

    /// Nothing was sent for `halvings` timeouts (`tcp_cwnd_restart`, with SCTP's floor).
    pub(super) fn restart(&mut self, cx: &mut Cx<'_>, flow: &Flow, halvings: u32) {
        if self.wishes().governs {
            return;
        }
        self.algorithm.on_event(cx, &mut self.window, CaEvent::CwndRestart, flow);
        let Window { cwnd, ssthresh, .. } = self.window;
        if self.state < CaState::Cwr {
            self.window.set_ssthresh(cx, ssthresh.max((cwnd >> 1) + (cwnd >> 2)));
        }
        let floor = IDLE_FLOOR.min(cwnd);
        self.window.reset_cwnd(cx, cwnd.checked_shr(halvings).unwrap_or(0).max(floor));
    }
}
