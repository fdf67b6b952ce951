//! What every layer function is given: settings, chance, counters, the trace, and the secrets of handshakes.
use crate::base::trace::Trace;
use crate::base::{Counters, Cx, Instant, Memory, Pool, Rng, SocketId, Sysctl};
use crate::tcp::isn::Secrets;
use crate::tcp::options::OptionSets;

/// The environment of one stack.
#[derive(Debug)]
pub(super) struct Env {
    pub(super) sysctl: Sysctl,
    pub(super) rng: Rng,
    pub(super) count: Counters,
    pub(super) trace: Trace,
    pub(super) pool: Pool,
    /// What all connections hold.
    pub(super) memory: Memory,
    pub(super) secrets: Secrets,
    pub(super) option_sets: OptionSets,
}

impl Env {
    pub(super) fn new(sysctl: Sysctl, seed: u64) -> Self {
        let rng = Rng::new(seed);
        let secrets = Secrets::new(&mut rng.fork("isn"));
        Self {
            sysctl,
            rng: rng.fork("stack"),
            count: Counters::default(),
            trace: Trace::default(),
            pool: Pool::default(),
            memory: Memory::default(),
            secrets,
            option_sets: OptionSets::default(),
        }
    }

    pub(super) fn cx(&mut self, now: Instant, socket: Option<SocketId>) -> Cx<'_> {
        Cx {
            now,
            rng: &mut self.rng,
            sysctl: &self.sysctl,
            count: &mut self.count,
            trace: &mut self.trace,
            pool: &mut self.pool,
            pressure: self.memory.level(),
            share: self.memory.share(&self.sysctl),
            orphans: self.memory.orphans(),
            socket,
        }
    }
}
