//! The figures of a run under the names in which the lab reports them.
use crate::check::Departure;
use lowwater_core::tcp::TcpInfo;

/// One sample of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Virtual seconds since the start.
    pub at_s: f64,
    /// Number of the flow.
    pub flow: usize,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments.
    pub ssthresh: u32,
    /// Bytes in flight (segments sent and not acknowledged, times MSS).
    pub in_flight_bytes: u64,
    /// Bytes written and not sent.
    pub unsent_bytes: u64,
    /// Smoothed RTT in milliseconds; none before the first measurement, when TCP_INFO has 0.
    pub srtt_ms: Option<f64>,
    /// Bytes in the bottleneck's queue, all flows together.
    pub backlog_bytes: u64,
    /// Bytes that the peer has acknowledged.
    pub acked_bytes: u64,
    /// Segments retransmitted so far.
    pub retrans: u32,
}

impl Point {
    /// What TCP_INFO says of a flow.
    #[must_use]
    pub fn of(at_s: f64, flow: usize, info: &TcpInfo, backlog_bytes: u64) -> Self {
        Self {
            at_s,
            flow,
            cwnd: info.snd_cwnd,
            ssthresh: info.snd_ssthresh,
            in_flight_bytes: u64::from(info.unacked) * u64::from(info.snd_mss),
            unsent_bytes: u64::from(info.notsent_bytes),
            srtt_ms: (info.rtt > 0).then(|| f64::from(info.rtt) / 1e3),
            backlog_bytes,
            acked_bytes: info.bytes_acked,
            retrans: info.total_retrans,
        }
    }
}

/// What a run measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// It came to its end.
    pub complete: bool,
    /// Virtual seconds.
    pub virtual_s: f64,
    /// Events of the simulator.
    pub events: u64,
    /// Samples over time, for pictures.
    pub series: Vec<Point>,
    /// Packets and segments of data by round trip, where the scenario counts them.
    pub rounds: Vec<(u32, u32)>,
    /// Packets as they were handed to devices, where the scenario notes them.
    pub departures: Vec<Departure>,
    pub(super) values: Vec<(&'static str, f64)>,
}

impl Figures {
    /// The value of a figure that nothing came for: 0 would be the best of all times.
    pub const NONE: f64 = f64::NAN;

    /// The mean of the smoothed RTT over all samples that have one, and no time where none has.
    pub(super) fn srtt_ms(series: &[Point]) -> f64 {
        let (sum, samples) =
            series.iter().filter_map(|p| p.srtt_ms).fold((0.0, 0), |(s, n), ms| (s + ms, n + 1));
        if samples == 0 { Self::NONE } else { sum / f64::from(samples) }
    }

    /// Adds a figure; docs/lab.md explains each name.
    pub fn put(&mut self, name: &'static str, value: f64) {
        self.values.push((name, value));
    }

    /// The same, with another value of each figure; [`Figures::NONE`] for one that could not be measured.
    #[must_use]
    pub fn with_values(mut self, value: impl Fn(&str) -> f64) -> Self {
        self.values.iter_mut().for_each(|(name, old)| *old = value(name));
        self
    }

    /// A figure by name, where it was measured.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        self.values
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, value)| *value)
            .filter(|value| value.is_finite())
    }

    /// The run would have measured it, and nothing came that it could have been measured by.
    #[must_use]
    pub fn lacks(&self, name: &str) -> bool {
        self.values.iter().any(|(n, value)| *n == name && !value.is_finite())
    }

    /// Name and value of every figure, in a fixed order; [`Figures::NONE`] for what could not be measured.
    #[must_use]
    pub fn named(&self) -> &[(&'static str, f64)] {
        &self.values
    }
}
