//! SCTP (RFC 9260): messages in streams between two sides that may have many addresses each.
//!
//! Invariants: never knows TCP, IP or a queueing discipline; sends nothing itself: a turn of [`Assoc::output`] gives one packet; a
//! listener keeps no state of a handshake, the cookie does; the heartbeat timer is not touched by sending (`heartbeat.rs`).
pub mod ack_policy;
mod assoc;
pub mod blue;
mod calls;
pub mod congestion;
mod counts;
pub mod handshake;
pub mod heartbeat;
mod info;
mod input;
mod listen;
mod message;
mod notification;
mod options;
mod output;
pub mod outstanding;
mod partial_reliability;
pub mod paths;
mod pending;
mod plpmtud;
mod receiver;
mod reconfig;
mod recovery;
pub mod rto;
mod seen;
mod sender;
mod state;
pub mod stream;
mod timers;
pub mod tsn;
pub mod tsn_map;

pub use assoc::{Assoc, Fate, Notice, Setup};
pub use calls::Readiness;
pub use counts::AssocCounts;
pub use info::{AssocInfo, PathInfo};
pub use input::Inbound;
pub use listen::{Answer, Known, Local, new_addresses, on_cookie_echo, on_init};
pub use message::{Received, RecvInfo, Reliability, SendInfo};
pub use notification::{
    AssocChange, Notification, Outcome, PathChange, ResetWhat, SendFailed, Subscriptions,
};
pub use options::{PathOptions, Reconfigurable, RtoOptions, SctpOptions};
pub use output::{More, Outgoing};
pub use partial_reliability::{Abandoned, AbandonedCounts};
pub use paths::{PathId, PathState};
pub use seen::Seen;
pub use state::State;

#[cfg(test)]
mod tests;
