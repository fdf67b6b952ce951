//! What a unit test needs to make a context: one owner of chance, settings, counters and trace.
use super::trace::Trace;
use super::{Counters, Cx, Instant, Pool, Rng, Sysctl};

/// Owner of everything that a [`Cx`] borrows.
pub(crate) struct World {
    pub(crate) rng: Rng,
    pub(crate) sysctl: Sysctl,
    pub(crate) count: Counters,
    pub(crate) trace: Trace,
    pub(crate) pool: Pool,
}

impl World {
    /// Default settings and a fixed seed.
    pub(crate) fn new() -> Self {
        Self {
            rng: Rng::new(1),
            sysctl: Sysctl::default(),
            count: Counters::default(),
            trace: Trace::default(),
            pool: Pool::default(),
        }
    }

    /// The context at `now`.
    pub(crate) fn cx(&mut self, now: Instant) -> Cx<'_> {
        Cx {
            now,
            rng: &mut self.rng,
            sysctl: &self.sysctl,
            count: &mut self.count,
            trace: &mut self.trace,
            pool: &mut self.pool,
            pressure: crate::base::Pressure::Low,
            share: u64::MAX,
            orphans: 0,
            socket: None,
        }
    }
}
