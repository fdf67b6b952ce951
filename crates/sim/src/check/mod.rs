//! The checkers: what must hold in every world, one file each, and the ledger that programs write their facts to.
pub mod aware;
pub mod bounds;
pub mod bytes;
pub mod chunks;
pub mod clock;
pub mod conservation;
pub mod credit;
pub mod early;
pub mod liveness;
pub mod lowat;
pub mod memory;
pub mod messages;
pub mod pace;
pub mod paths;
#[cfg(test)]
mod sample;
pub mod segments;
pub mod size;
pub mod timers;

use crate::host::Core;
use lowwater_core::base::{Duration, Instant, SocketId};
use std::fmt;
use std::net::SocketAddr;

/// A broken promise: which checker, when, and what it saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The checker's name.
    pub checker: &'static str,
    /// Virtual time.
    pub at: Instant,
    /// What was wrong, with the numbers.
    pub message: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.checker, self.at, self.message)
    }
}

/// A packet as a host handed it to its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When.
    pub at: Instant,
    /// By which host.
    pub host: usize,
    /// Of which flow, where one pays for it.
    pub flow: Option<SocketId>,
    /// Payload.
    pub bytes: u32,
    /// Segments.
    pub segs: u32,
}

/// Facts that programs and drivers report while a world runs. The first broken promise is kept.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Byte streams by their key.
    pub bytes: bytes::Bytes,
    /// Messages of associations.
    pub messages: messages::Messages,
    /// Events of kind `Writable` that programs received.
    pub writable_events: u64,
    /// Connections of writers that came to be.
    pub connected: u64,
    /// Addresses of writers whose connection ended with ETIMEDOUT, where that is a figure and no broken promise.
    pub given_up: Vec<SocketAddr>,
    /// Packets of all hosts, for scenarios that ask for them.
    pub departures: Option<Vec<Departure>>,
    /// When each datagram that came back was sent, and after how long it came, for scenarios that ask for them.
    pub round_trips: Option<Vec<(Instant, Duration)>>,
    broken: Option<Broken>,
}

impl Ledger {
    /// Notes a writer that was given up. Its reader may be reset for it, and no other, so that one without an address is a broken promise.
    pub fn give_up(&mut self, core: &Core, at: Instant, writer: Option<SocketId>) {
        match writer.and_then(|id| core.stack().local_addr(id).ok()) {
            Some(addr) => self.given_up.push(addr),
            None => self.fail("ledger", at, "a writer was given up that has no address"),
        }
    }

    /// Notes a broken promise; only the first one counts.
    pub fn fail(&mut self, checker: &'static str, at: Instant, message: impl Into<String>) {
        if self.broken.is_none() {
            self.broken = Some(Broken { checker, at, message: message.into() });
        }
    }

    /// Notes a result of a check.
    pub fn check(&mut self, checker: &'static str, at: Instant, result: Result<(), String>) {
        if let Err(message) = result {
            self.fail(checker, at, message);
        }
    }

    /// The first broken promise.
    #[must_use]
    pub fn broken(&self) -> Option<&Broken> {
        self.broken.as_ref()
    }
}
