//! Everything that is true of one network path: round-trip time, congestion window, pacing rate, path MTU, ECN.
//! TCP owns one path, SCTP one per remote address. Facts come in as samples; questions go out as values.
pub mod congestion;
