//! sctp-failover (E5): the first of two paths goes dark while messages are sent at a steady pace. For how long does the receiver wait?
use super::net::{A, Spec};
use super::talk::{NUMBER, Talk, Traffic};
use crate::check::Broken;
use crate::scenario::duo::seconds;
use crate::scenario::knobs::{Knob, NO_QDISC, from_ms, knob, ms};
use crate::scenario::params::{Params, has_common};
use crate::scenario::{Common, Figures};
use lowwater_core::base::{Duration, Instant};

/// Time for what is under way at the end.
const REST: Duration = Duration::from_secs(120);
/// Parts of the measured time, for reports of progress.
const PARTS: u32 = 20;
/// Delivery is restored when messages take no longer than so many round trips.
const RESTORED_RTTS: u32 = 2;

/// Parameters.
#[derive(Clone, Debug)]
pub struct SctpFailover {
    /// Bytes of a message.
    pub message: usize,
    /// Time between messages.
    pub every: Duration,
    /// Round-trip time of each path.
    pub rtt: Duration,
    /// Bits per second of each path.
    pub rate: u64,
    /// What all scenarios have.
    pub common: Common,
}

impl Default for SctpFailover {
    fn default() -> Self {
        Self {
            message: 160,
            every: Duration::from_millis(10),
            rtt: Duration::from_millis(20),
            rate: 100_000_000,
            common: Common { times: (Duration::from_secs(2), Duration::from_secs(10)), ..Common::default() },
        }
    }
}

const KNOBS: &[Knob<SctpFailover>] = &[
    knob!("message_bytes", "size of a message", whole NUMBER, 65_535,
        |p| p.message as f64, |p, v| p.message = v as usize),
    knob!("every_ms", "time between messages", real 0.1, 60_000, |p| ms(p.every), |p, v| p.every = from_ms(v)),
    knob!("rtt_ms", "round-trip time of each path", real 0.01, 60_000, |p| ms(p.rtt), |p, v| p.rtt = from_ms(v)),
    knob!("rate_mbps", "10^6 bit/s of each path", real 0.001, 400_000,
        |p| p.rate as f64 / 1e6, |p, v| p.rate = (v * 1e6) as u64),
];

impl Params for SctpFailover {
    const KNOBS: &'static [Knob<Self>] = KNOBS;
    const QDISC: &'static str = "queueing discipline of the sender's devices";
    const TIMED: bool = true;

    has_common!();

    fn play(&self, on_progress: &mut dyn FnMut(f64) -> bool) -> Result<Figures, Broken> {
        let spec = Spec {
            seed: self.common.seed,
            sysctl: &self.common.sysctl,
            qdisc: Some(&*self.common.qdisc).filter(|words| *words != NO_QDISC),
            mtu: 1_500,
            rate: self.rate,
            rtt: self.rtt,
        };
        let mut talk = Talk::open(&spec, &Traffic { message: self.message, every: self.every, buffer: 0 })?;
        talk.run(self.common.times.0)?;
        let dark = talk.net.now;
        talk.net.dark = Some(0);
        let mut complete = true;
        for part in 0..PARTS {
            talk.run(self.common.times.1 / PARTS)?;
            complete &= on_progress(f64::from(part + 1) / f64::from(PARTS));
            if !complete {
                break;
            }
        }
        let end = talk.net.now;
        talk.drain(REST)?;
        let mut figures = self.figures(&talk, dark, end);
        (figures.complete, figures.events) = (complete, talk.net.events);
        Ok(figures)
    }
}

impl SctpFailover {
    fn figures(&self, talk: &Talk, dark: Instant, end: Instant) -> Figures {
        let mut figures = Figures { virtual_s: seconds(talk.net.now), ..Figures::default() };
        let account = &talk.account;
        let arrivals = account.delays.iter().map(|(sent, took)| (*sent + *took, *took));
        let (mut last, mut gap, mut longest, mut restored) = (dark, 0.0, 0.0, 0.0);
        let usual = RESTORED_RTTS * self.rtt;
        for (at, took) in arrivals.filter(|(at, _)| *at >= dark) {
            gap = f64::max(gap, at.since(last).as_secs_f64());
            longest = f64::max(longest, took.as_secs_f64());
            if took > usual {
                restored = at.since(dark).as_secs_f64();
            }
            last = at;
        }
        // What never came again is as late as one knows of.
        gap = f64::max(gap, end.max(last).since(last).as_secs_f64());
        let (sent, lost) = account.lost();
        let count = talk.net.stacks[A].counters();
        let named = [
            ("delivery_gap_s_max", gap),
            ("restored_s", if lost > 0 { f64::INFINITY } else { restored }),
            ("message_delay_s_max", longest),
            ("messages", sent as f64),
            ("messages_lost", lost as f64),
            ("messages_duplicated", account.duplicated as f64),
            ("t3_rtx_expireds", count.sctp.t3_rtx_expireds as f64),
            ("t3_retransmits", count.sctp.t3_retransmits as f64),
            ("chunks_again", count.own.sctp_chunks_again as f64),
            ("elapsed_s", end.since(dark).as_secs_f64()),
        ];
        for (name, value) in named {
            figures.put(name, value);
        }
        figures
    }
}
