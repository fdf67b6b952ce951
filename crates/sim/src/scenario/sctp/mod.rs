//! Experiments with SCTP (E5): two hosts with two paths between them, one association, messages that are counted.
mod failover;
mod heartbeat;
mod net;
mod talk;

pub use failover::SctpFailover;
pub use heartbeat::SctpHeartbeat;
