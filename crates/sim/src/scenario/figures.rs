//! The figures of a run under the names in which the lab reports them.

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
    /// Smoothed RTT in milliseconds.
    pub srtt_ms: f64,
    /// Bytes in the bottleneck's queue, all flows together.
    pub backlog_bytes: u64,
    /// Bytes that the peer has acknowledged.
    pub acked_bytes: u64,
    /// Segments retransmitted so far.
    pub retrans: u32,
}

/// What a run measured. Names as in the lab's reports.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "the lab's documentation explains each figure under its name")]
pub struct Figures {
    pub complete: bool,
    pub bytes: u64,
    pub elapsed_s: f64,
    pub virtual_s: f64,
    pub events: u64,
    pub goodput_mbps: f64,
    pub queued_bytes_per_flow: f64,
    pub unsent_bytes_per_flow: f64,
    pub in_flight_bytes_per_flow: f64,
    pub writable_events_per_mb: f64,
    pub acks_per_mb: f64,
    pub backlog_bytes_mean: f64,
    pub backlog_bytes_p95: f64,
    pub backlog_bytes_max: f64,
    pub srtt_ms: f64,
    pub ip_out_requests: u64,
    pub ip_in_receives: u64,
    pub tcp_out_segs: u64,
    pub retrans_segs: u64,
    pub segs_per_packet: f64,
    pub dropped_packets: u64,
    /// Samples over time, for pictures.
    pub series: Vec<Point>,
}

impl Figures {
    /// Name and value of every figure, in a fixed order.
    #[must_use]
    pub fn named(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("goodput_mbps", self.goodput_mbps),
            ("elapsed_s", self.elapsed_s),
            ("queued_bytes_per_flow", self.queued_bytes_per_flow),
            ("unsent_bytes_per_flow", self.unsent_bytes_per_flow),
            ("in_flight_bytes_per_flow", self.in_flight_bytes_per_flow),
            ("writable_events_per_mb", self.writable_events_per_mb),
            ("acks_per_mb", self.acks_per_mb),
            ("backlog_bytes_mean", self.backlog_bytes_mean),
            ("backlog_bytes_p95", self.backlog_bytes_p95),
            ("backlog_bytes_max", self.backlog_bytes_max),
            ("srtt_ms", self.srtt_ms),
            ("ip_out_requests", self.ip_out_requests as f64),
            ("ip_in_receives", self.ip_in_receives as f64),
            ("tcp_out_segs", self.tcp_out_segs as f64),
            ("retrans_segs", self.retrans_segs as f64),
            ("segs_per_packet", self.segs_per_packet),
            ("dropped_packets", self.dropped_packets as f64),
        ]
    }
}
