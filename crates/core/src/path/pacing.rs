//! Pacing: the rate at which a flow should leave, the departure time of each packet, and the size of a packet at that rate.
//!
//! Source: docs/transmit-path.md, "Autosizing" and "Pacing"; Linux `tcp_update_pacing_rate`, `tcp_update_skb_after_send`, `tcp_tso_autosize`.
use crate::base::Instant;
use crate::base::sysctl::Sysctl;
use crate::base::time::Duration;

/// `rate >> PACING_SHIFT` bytes are about a millisecond's worth (`sk_pacing_shift`).
pub const PACING_SHIFT: u8 = 10;
/// Segments at the start of a flow that are not paced (`TCP_INIT_CWND`).
pub const UNPACED_SEGMENTS: u8 = 10;
/// Largest time that the cushion for bursts may take (`hystart_ack_delay`).
const BURST_DELAY_MAX: Duration = Duration::from_millis(1);

/// Who holds the flow back to its rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Nobody: the rate only sizes packets and limits credit.
    #[default]
    None,
    /// The flow must be paced, and the transport does it with its own timer.
    Needed,
    /// The queueing discipline below honours departure times.
    Fq,
}

/// What the rate of a loss-based controller follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Segment size in bytes.
    pub mss: u32,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments.
    pub ssthresh: u32,
    /// Segments sent and not acknowledged.
    pub packets_out: u32,
    /// Smoothed RTT in eighths of a microsecond, 0 when unknown.
    pub srtt8_us: u32,
}

/// Rate and departure times of one flow on one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pacing {
    rate: u64,
    max_rate: u64,
    wstamp: Instant,
    status: Status,
    /// The controller or a bound wants pacing, whatever stands below.
    wanted: bool,
    /// Segments sent, up to those that are not paced.
    sent: u8,
}

impl Default for Pacing {
    fn default() -> Self {
        Self::new()
    }
}

impl Pacing {
    /// No rate yet, no bound, nobody paces.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            rate: u64::MAX,
            max_rate: u64::MAX,
            wstamp: Instant::ZERO,
            status: Status::None,
            wanted: false,
            sent: 0,
        }
    }

    /// Bytes per second; `u64::MAX` when unknown, then nothing is held back.
    #[must_use]
    pub const fn rate(&self) -> u64 {
        self.rate
    }

    /// The bound, SO_MAX_PACING_RATE; `u64::MAX` for none.
    #[must_use]
    pub const fn max_rate(&self) -> u64 {
        self.max_rate
    }

    /// Who paces.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.status
    }

    /// True when somebody does: then the flow's credit is not capped and HyStart doubles its patience.
    #[must_use]
    pub fn is_paced(&self) -> bool {
        self.status != Status::None
    }

    /// The controller wants the flow paced.
    pub fn need(&mut self) {
        self.wanted = true;
        if self.status == Status::None {
            self.status = Status::Needed;
        }
    }

    /// The controller or a bound wants it paced, or has once.
    #[must_use]
    pub const fn is_needed(&self) -> bool {
        self.wanted
    }

    /// Nobody above wants it paced any more.
    pub fn release(&mut self) {
        self.wanted = false;
        if self.status == Status::Needed {
            self.status = Status::None;
        }
    }

    /// When the next packet may leave by the packets before it; in the past when nothing holds it back (`tcp_wstamp_ns`).
    #[must_use]
    pub const fn wstamp(&self) -> Instant {
        self.wstamp
    }

    /// When a packet leaves that is handed down now.
    #[must_use]
    pub fn departure(&self, now: Instant) -> Instant {
        self.wstamp.max(now)
    }

    /// When a packet leaves that must not pass the data before it: this data may wait in a queue below that honours departure times.
    #[must_use]
    pub fn behind_data(&self, now: Instant) -> Instant {
        if self.status == Status::Fq { self.departure(now) } else { now }
    }

    /// How long after `now` the next packet leaves. Timers that wait for an acknowledgement begin to count then
    /// (`tcp_pacing_delay`).
    #[must_use]
    pub const fn delay(&self, now: Instant) -> Duration {
        self.wstamp.since(now)
    }

    /// What stands below honours departure times, or does not. If it does, it paces every flow, also those whose controller does
    /// not ask for it (`fq_classify`); otherwise the transport paces those that do.
    pub const fn stand_on(&mut self, honours_departure: bool) {
        self.status = match (honours_departure, self.wanted) {
            (true, _) => Status::Fq,
            (false, true) => Status::Needed,
            (false, false) => Status::None,
        };
    }

    /// SO_MAX_PACING_RATE in bytes per second. A bound makes pacing needed; it takes effect at once. 0 is Linux's: nothing is spaced,
    /// and packets are as small as they may be.
    pub fn set_max_rate(&mut self, bytes_per_second: u64) {
        self.max_rate = bytes_per_second;
        self.rate = self.rate.min(self.max_rate);
        if bytes_per_second != u64::MAX {
            self.need();
        }
    }

    /// The controller's own rate in bytes per second.
    pub fn set_rate(&mut self, bytes_per_second: u64) {
        self.rate = bytes_per_second.min(self.max_rate);
    }

    /// A window per round trip, times 200 % below half of `ssthresh` and 120 % above: the first to let slow start double,
    /// the second to probe for more.
    pub fn derive_rate(&mut self, sysctl: &Sysctl, demand: &Demand) {
        let percent = if demand.cwnd < demand.ssthresh / 2 {
            sysctl.tcp_pacing_ss_ratio
        } else {
            sysctl.tcp_pacing_ca_ratio
        };
        let bytes = u128::from(demand.mss) * u128::from(demand.cwnd.max(demand.packets_out));
        // Eighths of a microsecond per second, divided by a hundred per cent. Without an RTT the rate is as good as unlimited.
        let rate = bytes * u128::from(percent) * 80_000 / u128::from(demand.srtt8_us.max(1));
        self.set_rate(u64::try_from(rate).unwrap_or(u64::MAX));
    }

    /// When the next packet may leave, if that is after `now` and the transport has to wait for it itself.
    #[must_use]
    pub fn not_before(&self, now: Instant) -> Option<Instant> {
        (self.status == Status::Needed && self.wstamp > now).then_some(self.wstamp)
    }

    /// The pace lets one more packet go now, after `ahead` segments that leave now (`tcp_pacing_check`).
    #[must_use]
    pub fn lets_go_after(&self, now: Instant, ahead: u32) -> bool {
        let free = self.status != Status::Needed || !self.spaces();
        // The packet that completes the first segments is the first to be followed by a pause.
        let pause = ahead > 0 && u32::from(self.sent) + ahead >= u32::from(UNPACED_SEGMENTS);
        self.not_before(now).is_none() && (free || !pause)
    }

    /// The rate spaces packets: a rate of zero is none.
    const fn spaces(&self) -> bool {
        self.rate != u64::MAX && self.rate != 0
    }

    /// Something without data leaves now: time not used before it is no credit any more (`__tcp_transmit_skb`).
    pub fn renew(&mut self, now: Instant) {
        self.wstamp = self.wstamp.max(now);
    }

    /// A packet with `len_bytes` of payload in `segs` segments is handed down now: its departure time, after which the next one's
    /// is known (`tcp_update_skb_after_send`).
    ///
    /// Time that the flow could have sent in but did not is credit for this packet, up to half of its duration: enough to
    /// make up for a late timer, too little for a burst.
    pub fn on_send(&mut self, now: Instant, len_bytes: usize, segs: u16) -> Instant {
        if len_bytes > 0 {
            self.count(segs);
        }
        let prior = self.wstamp;
        let departure = prior.max(now);
        self.wstamp = departure;
        if self.is_paced() && self.spaces() && self.sent >= UNPACED_SEGMENTS {
            let len_ns = self.nanos_for(len_bytes as u64);
            let credit = departure.nanos_since(prior);
            self.wstamp = departure.plus_nanos(len_ns - credit.min(len_ns / 2));
        }
        departure
    }

    /// What [`Self::on_send`] was told of last was not sent: the next packet may leave at `wstamp` again.
    pub const fn take_back(&mut self, wstamp: Instant) {
        self.wstamp = wstamp;
    }

    /// Segments with data left.
    fn count(&mut self, segs: u16) {
        self.sent = (u16::from(self.sent).saturating_add(segs)).min(UNPACED_SEGMENTS.into()) as u8;
    }

    /// Nanoseconds that `len_bytes` take at the rate.
    fn nanos_for(&self, len_bytes: u64) -> u64 {
        let rate = self.rate.max(1);
        // No packet is so long that the wide division, several times as dear, were needed.
        if let Some(scaled) = len_bytes.checked_mul(1_000_000_000) {
            return scaled / rate;
        }
        let ns = u128::from(len_bytes) * 1_000_000_000 / u128::from(rate);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Payload bytes that one packet should carry: a millisecond's worth, and more for near peers, whose ACKs come back
    /// before a burst could hurt (`tcp_tso_autosize`). 0 for `tcp_tso_rtt_log` switches the second part off.
    #[must_use]
    pub fn autosize_bytes(&self, sysctl: &Sysctl, gso_max_bytes: u32, min_rtt: Option<Duration>) -> u32 {
        let mut bytes = self.rate >> PACING_SHIFT;
        if sysctl.tcp_tso_rtt_log > 0 {
            let us = min_rtt.map_or(u128::MAX, |rtt| rtt.as_micros());
            let halvings = us.checked_shr(sysctl.tcp_tso_rtt_log).unwrap_or(0);
            if halvings < 32 {
                bytes = bytes.saturating_add(u64::from(gso_max_bytes >> halvings));
            }
        }
        bytes.min(u64::from(gso_max_bytes)) as u32
    }

    /// Time that four of the largest packets take at the rate, at most a millisecond: what batching on the way may add to
    /// the spacing of acknowledgements (`hystart_ack_delay`; for [`super::congestion::AckSample::burst_delay`]).
    #[must_use]
    pub fn burst_delay(&self, gso_max_bytes: u32) -> Duration {
        if self.rate == 0 {
            return Duration::ZERO;
        }
        BURST_DELAY_MAX.min(Duration::from_nanos(self.nanos_for(4 * u64::from(gso_max_bytes))))
    }
}

#[cfg(test)]
mod tests;
