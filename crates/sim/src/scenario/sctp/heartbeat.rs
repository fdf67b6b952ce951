//! sctp-heartbeat (E5): what heartbeats cost a path that is busy, and when a path that is idle has them.
//!
//! Source: Linux commit ba6f5e33bdbb, "sctp: avoid refreshing heartbeat timer too often". One association with two paths; data takes
//! the first, so that the second is idle. Figures are those of the sender.
use super::net::{A, B, Spec, address};
use super::talk::{NUMBER, Talk, Traffic};
use crate::check::Broken;
use crate::scenario::duo::seconds;
use crate::scenario::knobs::{Knob, NO_QDISC, from_ms, knob, ms};
use crate::scenario::params::{Params, has_common};
use crate::scenario::{Common, Figures};
use lowwater_core::base::{Duration, Instant};
use lowwater_core::sctp::PathOptions;

/// Time for what is under way at the end.
const REST: Duration = Duration::from_secs(60);
/// Parts of the measured time, for reports of progress.
const PARTS: u32 = 20;

/// Parameters.
#[derive(Clone, Debug)]
pub struct SctpHeartbeat {
    /// Bytes of a message.
    pub message: usize,
    /// Time between messages; zero for as many as fit.
    pub every: Duration,
    /// Round-trip time of each path.
    pub rtt: Duration,
    /// Bits per second of each path.
    pub rate: u64,
    /// MTU of both paths.
    pub mtu: u16,
    /// SO_SNDBUF and SO_RCVBUF of both sides; 0 leaves the defaults.
    pub buffer: u32,
    /// What the heartbeat interval becomes after half of the measured time, in milliseconds; 0 leaves it.
    pub becomes_ms: u32,
    /// What all scenarios have.
    pub common: Common,
}

impl Default for SctpHeartbeat {
    fn default() -> Self {
        Self {
            message: 160,
            every: Duration::from_millis(5),
            rtt: Duration::from_millis(20),
            rate: 100_000_000,
            mtu: 1_500,
            buffer: 0,
            becomes_ms: 0,
            common: Common { times: (Duration::from_secs(1), Duration::from_secs(20)), ..Common::default() },
        }
    }
}

const KNOBS: &[Knob<SctpHeartbeat>] = &[
    knob!("message_bytes", "size of a message", whole NUMBER, 65_535,
        |p| p.message as f64, |p, v| p.message = v as usize),
    knob!("every_ms", "time between messages, 0 for as many as fit", real 0, 3_600_000,
        |p| ms(p.every), |p, v| p.every = from_ms(v)),
    knob!("rtt_ms", "round-trip time of each path", real 0.01, 60_000, |p| ms(p.rtt), |p, v| p.rtt = from_ms(v)),
    knob!("rate_mbps", "10^6 bit/s of each path", real 0.001, 400_000,
        |p| p.rate as f64 / 1e6, |p, v| p.rate = (v * 1e6) as u64),
    knob!("mtu", "MTU of both paths", whole 576, 65_535, |p| f64::from(p.mtu), |p, v| p.mtu = v as u16),
    knob!("buffer", "SO_SNDBUF and SO_RCVBUF, 0 leaves the defaults", whole 0, 1e9,
        |p| f64::from(p.buffer), |p, v| p.buffer = v as u32),
    knob!("becomes_ms", "heartbeat interval after half of the measured time, 0 leaves it", whole 0, 86_400_000,
        |p| f64::from(p.becomes_ms), |p, v| p.becomes_ms = v as u32),
];

/// Counters at the beginning of the measured time.
struct Before {
    at: Instant,
    timers: u64,
    drawn: u64,
    packets: u64,
    bytes: u64,
}

impl Params for SctpHeartbeat {
    const KNOBS: &'static [Knob<Self>] = KNOBS;
    const QDISC: &'static str = "queueing discipline of the sender's devices";
    const TIMED: bool = true;

    has_common!();

    fn play(&self, on_progress: &mut dyn FnMut(f64) -> bool) -> Result<Figures, Broken> {
        let spec = Spec {
            seed: self.common.seed,
            sysctl: &self.common.sysctl,
            qdisc: Some(&*self.common.qdisc).filter(|words| *words != NO_QDISC),
            mtu: self.mtu,
            rate: self.rate,
            rtt: self.rtt,
        };
        let mut talk =
            Talk::open(&spec, &Traffic { message: self.message, every: self.every, buffer: self.buffer })?;
        talk.run(self.common.times.0)?;
        let before = Before::of(&talk);
        let (mut complete, mut changed) = (true, None);
        for part in 0..PARTS {
            if part == PARTS / 2 && self.becomes_ms > 0 {
                changed = Some(talk.net.now);
                self.change(&mut talk)?;
            }
            talk.run(self.common.times.1 / PARTS)?;
            complete &= on_progress(f64::from(part + 1) / f64::from(PARTS));
            if !complete {
                break;
            }
        }
        let mut figures = self.figures(&talk, &before, changed);
        talk.drain(REST)?;
        let (sent, lost) = talk.account.lost();
        figures.put("messages", sent as f64);
        figures.put("messages_lost", lost as f64);
        figures.put("messages_duplicated", talk.account.duplicated as f64);
        (figures.complete, figures.events) = (complete, talk.net.events);
        Ok(figures)
    }
}

impl Before {
    fn of(talk: &Talk) -> Self {
        let count = talk.net.stacks[A].counters();
        Self {
            at: talk.net.now,
            timers: count.own.timer_armed,
            drawn: count.own.sctp_hb_armed,
            packets: count.sctp.out_sctp_packs,
            bytes: talk.account.bytes,
        }
    }
}

impl SctpHeartbeat {
    /// Both paths get another interval.
    fn change(&self, talk: &mut Talk) -> Result<(), Broken> {
        let now = talk.net.now;
        let options =
            PathOptions { hb_interval_ms: self.becomes_ms, ..PathOptions::new(&self.common.sysctl) };
        for link in 0..super::net::LINKS {
            let done = talk.net.stacks[A].sctp_set_path(now, talk.a, address(link, B), options);
            done.map_err(|why| Broken { checker: "paths", at: now, message: why.to_string() })?;
        }
        Ok(())
    }

    fn figures(&self, talk: &Talk, before: &Before, changed: Option<Instant>) -> Figures {
        let net = &talk.net;
        let mut figures = Figures { virtual_s: seconds(net.now), ..Figures::default() };
        let count = net.stacks[A].counters();
        let packets = (count.sctp.out_sctp_packs - before.packets).max(1) as f64;
        let measured = |link: usize| net.heartbeats[link].iter().copied().filter(|at| *at >= before.at);
        let elapsed_s = seconds(net.now) - seconds(before.at);
        figures.put("timer_ops_per_packet", (count.own.timer_armed - before.timers) as f64 / packets);
        figures.put("hb_drawn_per_packet", (count.own.sctp_hb_armed - before.drawn) as f64 / packets);
        figures.put("heartbeats_busy", measured(0).count() as f64);
        figures.put("heartbeats_idle", measured(1).count() as f64);
        // Gaps that the change of the interval divides belong to neither.
        let end = changed.unwrap_or(net.now);
        let idle: Vec<f64> = measured(1).filter(|at| *at <= end).map(seconds).collect();
        let gaps: Vec<f64> = idle.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let longest = gaps.iter().copied().fold(0.0, f64::max);
        let bound = self.bound_s(self.common.sysctl.sctp_hb_interval);
        if !gaps.is_empty() {
            figures.put("idle_gap_s_min", gaps.iter().copied().fold(f64::INFINITY, f64::min));
            figures.put("idle_gap_s_max", longest);
            figures.put("idle_gap_over_bound", longest / bound);
        }
        if let Some(changed) = changed {
            let first = net.heartbeats[1].iter().find(|at| **at >= changed);
            let after = first.map_or(f64::INFINITY, |at| seconds(*at) - seconds(changed));
            figures.put("changed_after_s", after);
            figures.put("changed_over_bound", after / self.bound_s(self.becomes_ms));
        }
        figures.put("packets", packets);
        figures.put("goodput_mbps", (talk.account.bytes - before.bytes) as f64 * 8.0 / elapsed_s / 1e6);
        figures.put("elapsed_s", elapsed_s);
        figures
    }

    /// The longest silence that is allowed on an idle path: the interval and one and a half timeouts. The round-trip time does not
    /// vary here, so that the timeout is the least one.
    fn bound_s(&self, interval_ms: u32) -> f64 {
        (f64::from(interval_ms) + 1.5 * f64::from(self.common.sysctl.sctp_rto_min)) / 1e3
    }
}
