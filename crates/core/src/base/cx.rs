//! The context that every layer function receives: now, chance, settings, counters, trace.
use super::id::SocketId;
use super::memory::Pressure;
use super::trace::{Ev, Trace};
use super::{Counters, Instant, Pool, Rng, Sysctl};

/// Time, chance and order are arguments: this is how they travel.
#[derive(Debug)]
pub struct Cx<'a> {
    /// The instant of the input that is being processed.
    pub now: Instant,
    /// The stack's stream of chance.
    pub rng: &'a mut Rng,
    /// Settings.
    pub sysctl: &'a Sysctl,
    /// Counters.
    pub count: &'a mut Counters,
    /// The flight recorder.
    pub trace: &'a mut Trace,
    /// Spare buffers for send queues.
    pub pool: &'a mut Pool,
    /// How short memory is.
    pub pressure: Pressure,
    /// Pages from which on a connection gives way to others; no bound while memory is not short.
    pub share: u64,
    /// Connections that nobody owns.
    pub orphans: u32,
    /// The socket at work, for the trace.
    pub socket: Option<SocketId>,
}

impl Cx<'_> {
    /// Records a change in the flight recorder.
    pub fn trace(&mut self, event: Ev) {
        self.trace.record(self.now, self.socket, event);
    }
}
