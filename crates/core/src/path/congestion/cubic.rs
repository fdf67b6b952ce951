//! CUBIC: the window as a cubic function of the time since the last congestion (RFC 9438), with Linux's parameters.
//!
//! Time runs in units of 1/1024 s, read off a clock of whole ticks, and windows in segments, as in Linux's `tcp_cubic`; beta is 717/1024
//! and C is 410/1024.
//! The window is not set to the cubic's value: the controller derives after how many acknowledged segments it grows by one.
use super::hystart::HyStart;
use super::hystart_pp::HyStartPp;
use super::{AckSample, CaEvent, CaState, Congestion, Flow, Window};
use crate::base::time::nanos;
use crate::base::{Cx, Instant};

/// Multiplicative decrease in 1/1024 (RFC 9438 section 4.6: 0.7).
const BETA: u64 = 717;
const SCALE: u64 = 1_024;
/// C in 1/1024 (RFC 9438 section 5: 0.4).
const C: u64 = 410;
/// 2^40 / C: turns segments into the cube of a time (RFC 9438 equation 2). 2^40 is 1024^3 for the time, 1024 for C.
const CUBE_FACTOR: u64 = (1 << 40) / C;
/// Eighths of a window that make Reno's estimate grow by one: 8/3 of (1 + beta)/(1 - beta) (RFC 9438 equation 4).
const RENO_SCALE: u64 = 8 * (SCALE + BETA) / 3 / (SCALE - BETA);
/// Segments per increase while the cubic's value is not above the window: practically none.
const FLAT: u64 = 100;
/// Segments per increase before the first congestion: at least five per cent per round trip.
const FIRST_EPOCH_MAX: u32 = 20;
/// Between two computations for an unchanged window, in whole ticks (`HZ / 32`).
const RECOMPUTE_NS: u64 = 1_000_000_000 / 32;
/// After recovery, delay samples are left out for this long: they still show the old queue.
const DELAY_SETTLE_NS: u64 = 1_000_000_000;

/// What congestion avoidance remembers. All of it is forgotten at a timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Curve {
    /// Acknowledged segments per increase.
    cnt: u32,
    /// Window before the last reduction, less with fast convergence (W_max).
    last_max: u32,
    /// Window and time of the last computation.
    last_cwnd: u32,
    last: Option<Instant>,
    /// Plateau of the cubic, and the time from the start of the epoch to it, in 1/1024 s (K).
    origin: u32,
    k: u32,
    /// Smallest RTT in microseconds, 0 when unknown.
    delay_min_us: u32,
    /// Segments acknowledged towards Reno's estimate, and the estimate (W_est).
    ack_cnt: u32,
    reno_cwnd: u32,
    /// When this epoch of congestion avoidance began.
    epoch: Option<Instant>,
}

/// The controller's unit of time in nanoseconds: it looks at the curve once in each (`jiffies`, sysctl `cubic_tick_us`).
#[derive(Clone, Copy, Debug)]
struct Tick(u64);

impl Tick {
    fn of(cx: &Cx<'_>) -> Self {
        Self(u64::from(cx.sysctl.cubic_tick_us.max(1)) * 1_000)
    }

    /// The beginning of the tick that `at` is in.
    const fn floor(self, at: Instant) -> Instant {
        let ns = at.as_nanos();
        Instant::from_nanos(ns - ns % self.0)
    }

    /// Ticks within which `ns` nanoseconds pass, in nanoseconds.
    const fn ceil(self, ns: u64) -> u64 {
        ns.div_ceil(self.0).saturating_mul(self.0)
    }
}

/// The way out of slow start before the first loss (sysctl `hystart`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    None,
    HyStart(HyStart),
    HyStartPp(HyStartPp),
}

/// The controller of RFC 9438.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cubic {
    curve: Curve,
    exit: Exit,
    prior_cwnd: u32,
}

impl Default for Cubic {
    fn default() -> Self {
        Self::new()
    }
}

impl Cubic {
    /// A fresh controller.
    #[must_use]
    pub const fn new() -> Self {
        let curve = Curve {
            cnt: 0,
            last_max: 0,
            last_cwnd: 0,
            last: None,
            origin: 0,
            k: 0,
            delay_min_us: 0,
            ack_cnt: 0,
            reno_cwnd: 0,
            epoch: None,
        };
        Self { curve, exit: Exit::None, prior_cwnd: 0 }
    }

    /// A round of HyStart begins now, where that is the way out.
    fn begin_round(&mut self, cx: &Cx<'_>, flow: &Flow) {
        if cx.sysctl.hystart == 1 {
            self.exit = Exit::HyStart(HyStart::new(cx.now, flow.nxt));
        }
    }

    /// The sysctl may change while connections live, as Linux's module parameter may.
    fn select_exit(&mut self, cx: &Cx<'_>, sample: &AckSample) {
        match (cx.sysctl.hystart, &self.exit) {
            (1, Exit::HyStart(_)) | (2, Exit::HyStartPp(_)) => {}
            // A round that ended before it began: the first acknowledgement that HyStart looks at opens a new one.
            (1, _) => self.exit = Exit::HyStart(HyStart::new(cx.now, 0)),
            (2, _) => self.exit = Exit::HyStartPp(HyStartPp::new(sample.flow.nxt)),
            _ => self.exit = Exit::None,
        }
    }
}

impl Curve {
    /// Acknowledged segments per increase at `now` (`bictcp_update`).
    fn update(&mut self, now: Instant, tick: Tick, cwnd: u32, acked: u32) {
        self.ack_cnt = self.ack_cnt.saturating_add(acked);
        let now = tick.floor(now);
        let age_ns = self.last.map_or(u64::MAX, |last| now.nanos_since(last));
        // After a reduction that was undone at once this is still the rate of before.
        if self.last_cwnd == cwnd && age_ns <= RECOMPUTE_NS / tick.0 * tick.0 {
            return;
        }
        // The cubic moves once per tick; Reno's estimate with every acknowledgement.
        if self.epoch.is_none() || age_ns != 0 {
            (self.last_cwnd, self.last) = (cwnd, Some(now));
            if self.epoch.is_none() {
                self.begin_epoch(cwnd, acked);
            }
            let epoch = *self.epoch.get_or_insert(now);
            self.cnt = self.cubic_cnt(now.nanos_since(epoch), tick, cwnd);
        }
        self.cnt = self.cnt.min(self.reno_cnt(cwnd)).max(2);
    }

    fn begin_epoch(&mut self, cwnd: u32, acked: u32) {
        self.ack_cnt = acked;
        self.reno_cwnd = cwnd;
        if self.last_max <= cwnd {
            (self.k, self.origin) = (0, cwnd);
        } else {
            // RFC 9438 equation 2. The product is below 2^64: 2^31.4 times 2^32.
            self.k = cube_root(CUBE_FACTOR.saturating_mul(u64::from(self.last_max - cwnd)));
            self.origin = self.last_max;
        }
    }

    /// Segments per increase so that the window is on the cubic one RTT from now (RFC 9438 equation 1, section 4.4).
    fn cubic_cnt(&self, epoch_age_ns: u64, tick: Tick, cwnd: u32) -> u32 {
        let ahead_ns = tick.ceil(u64::from(self.delay_min_us) * 1_000);
        let t_ns = u128::from(epoch_age_ns) + u128::from(ahead_ns);
        let t = t_ns * u128::from(SCALE) / 1_000_000_000;
        let k = u128::from(self.k);
        // Beyond 2^25 (nine hours) every window is reached: the bound keeps the cube in its type.
        let offset = t.abs_diff(k).min(1 << 25);
        let delta = (u128::from(C) * offset * offset * offset) >> 40;
        let delta = u32::try_from(delta).unwrap_or(u32::MAX);
        let target =
            if t < k { self.origin.saturating_sub(delta) } else { self.origin.saturating_add(delta) };
        let cnt = if target > cwnd {
            cwnd / (target - cwnd)
        } else {
            u32::try_from(u64::from(cwnd) * FLAT).unwrap_or(u32::MAX)
        };
        if self.last_max == 0 { cnt.min(FIRST_EPOCH_MAX) } else { cnt }
    }

    /// Segments per increase that keep up with Reno (RFC 9438 section 4.3).
    fn reno_cnt(&mut self, cwnd: u32) -> u32 {
        let per = (u64::from(cwnd) * RENO_SCALE) >> 3;
        let per = u32::try_from(per).unwrap_or(u32::MAX).max(1);
        // What remains is at least one, so that an estimate never steps on an acknowledgement still to come.
        let steps = self.ack_cnt.saturating_sub(1) / per;
        self.ack_cnt -= steps * per;
        self.reno_cwnd = self.reno_cwnd.saturating_add(steps);
        if self.reno_cwnd > cwnd { cwnd / (self.reno_cwnd - cwnd) } else { u32::MAX }
    }
}

impl Congestion for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    /// Beta of the window, and fast convergence: a flow that lost before it regained its old window gives way to newcomers
    /// (RFC 9438 sections 4.6 and 4.7).
    fn ssthresh(&mut self, _cx: &mut Cx<'_>, window: &Window) -> u32 {
        let cwnd = u64::from(window.cwnd);
        self.prior_cwnd = window.cwnd;
        self.curve.epoch = None;
        self.curve.last_max = if window.cwnd < self.curve.last_max {
            (cwnd * (SCALE + BETA) / (2 * SCALE)) as u32
        } else {
            window.cwnd
        };
        ((cwnd * BETA / SCALE) as u32).max(2)
    }

    fn cong_avoid(&mut self, cx: &mut Cx<'_>, window: &mut Window, sample: &AckSample) {
        if !sample.cwnd_limited {
            return;
        }
        let mut acked = sample.acked;
        if window.in_slow_start() {
            if let Exit::HyStartPp(hystart) = &mut self.exit
                && initial_slow_start(window)
            {
                acked = hystart.growth(acked, sample.paced);
            }
            acked = window.slow_start(cx, acked);
        }
        if acked > 0 {
            self.curve.update(cx.now, Tick::of(cx), window.cwnd, acked);
            window.additive_increase(cx, self.curve.cnt, acked);
        }
    }

    /// Delay samples, for the cubic's look-ahead and for HyStart (`cubictcp_acked`).
    fn on_ack(&mut self, cx: &mut Cx<'_>, window: &mut Window, sample: &AckSample) {
        let Some(rtt) = sample.rtt else { return };
        let now = Tick::of(cx).floor(cx.now);
        if self.curve.epoch.is_some_and(|epoch| now.nanos_since(epoch) < DELAY_SETTLE_NS) {
            return;
        }
        let delay_us = u32::try_from(nanos(rtt) / 1_000).unwrap_or(u32::MAX).max(1);
        let min_us = &mut self.curve.delay_min_us;
        if *min_us == 0 || *min_us > delay_us {
            *min_us = delay_us;
        }
        if !window.in_slow_start() {
            return;
        }
        let min_us = *min_us;
        self.select_exit(cx, sample);
        match &mut self.exit {
            Exit::None => {}
            Exit::HyStart(hystart) => hystart.on_ack(cx, window, sample, delay_us, min_us),
            Exit::HyStartPp(hystart) if initial_slow_start(window) => {
                hystart.on_ack(cx, window, sample, delay_us);
            }
            Exit::HyStartPp(_) => {}
        }
    }

    /// After a timeout the path may be a different one: everything learnt goes.
    fn on_state(&mut self, cx: &mut Cx<'_>, _window: &Window, state: CaState, flow: &Flow) {
        if state == CaState::Loss {
            self.curve = Curve::default();
            self.begin_round(cx, flow);
        }
    }

    /// A controller that takes over begins with nothing, and its first round ends with what has been sent by then (`cubictcp_init`).
    /// Idle time does not count as time on the curve, or the window would jump after it (RFC 9438 section 5.8).
    fn on_event(&mut self, cx: &mut Cx<'_>, _window: &mut Window, event: CaEvent, flow: &Flow) {
        if matches!(event, CaEvent::Start) {
            *self = Self::new();
            self.begin_round(cx, flow);
        }
        if let (CaEvent::TxStart { last_sent }, Some(epoch)) = (event, &mut self.curve.epoch) {
            let tick = Tick::of(cx);
            let now = tick.floor(cx.now);
            *epoch = epoch.plus_nanos(now.nanos_since(tick.floor(last_sent))).min(now);
        }
    }

    fn undo_cwnd(&mut self, window: &Window) -> u32 {
        window.cwnd.max(self.prior_cwnd)
    }
}

/// RFC 9406 section 4.3 wants HyStart++ before the first congestion only; later slow starts know where to stop.
const fn initial_slow_start(window: &Window) -> bool {
    window.ssthresh >= Window::INFINITE_SSTHRESH
}

/// The integer cube root, rounded down, by binary digits (the root of 2^64 has 22 bits).
const fn cube_root(n: u64) -> u32 {
    let mut root: u64 = 0;
    let mut bit: u64 = 1 << 21;
    while bit > 0 {
        let trial = root | bit;
        // 2^22 cubed overflows 64 bits just so.
        if (trial as u128) * (trial as u128) * (trial as u128) <= n as u128 {
            root = trial;
        }
        bit >>= 1;
    }
    root as u32
}

#[cfg(test)]
mod tests;
