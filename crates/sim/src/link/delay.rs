//! Propagation delay with jitter that keeps order, and reordering that does not.
use super::{Effects, Stage};
use lowwater_core::base::{Instant, Rng};
use lowwater_core::packet::Packet;
use std::collections::BTreeMap;

/// What a delay does, in nanoseconds and 10^-6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelaySpec {
    /// Fixed delay.
    pub delay_ns: u64,
    /// Additional delay, uniform in `0..=jitter_ns`; order is kept.
    pub jitter_ns: u64,
    /// Chance that a packet is held back so that later ones overtake it.
    pub reorder_ppm: u32,
    /// How long such a packet is held back at most.
    pub reorder_ns: u64,
}

/// Packets under way.
pub struct Delay {
    spec: DelaySpec,
    rng: Rng,
    under_way: BTreeMap<(Instant, u64), Packet>,
    number: u64,
    last: Instant,
}

impl Delay {
    /// An empty line.
    #[must_use]
    pub fn new(spec: DelaySpec, rng: Rng) -> Self {
        Self { spec, rng, under_way: BTreeMap::new(), number: 0, last: Instant::ZERO }
    }
}

impl Stage for Delay {
    fn accept(&mut self, now: Instant, packet: Packet, effects: &mut Effects) {
        let at = now.plus_nanos(self.spec.delay_ns);
        let at = if self.rng.chance_ppm(self.spec.reorder_ppm) {
            effects.counts.reordered += 1;
            at.plus_nanos(self.spec.jitter_ns + 1 + self.rng.below(self.spec.reorder_ns))
        } else {
            let jitter = if self.spec.jitter_ns == 0 { 0 } else { self.rng.below(self.spec.jitter_ns + 1) };
            self.last = at.plus_nanos(jitter).max(self.last);
            self.last
        };
        self.under_way.insert((at, self.number), packet);
        self.number += 1;
    }

    fn release(&mut self, now: Instant, _effects: &mut Effects) -> Option<Packet> {
        let first = self.under_way.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    fn deadline(&self) -> Option<Instant> {
        self.under_way.first_key_value().map(|(k, _)| k.0)
    }

    fn held(&self) -> u64 {
        self.under_way.len() as u64
    }

    fn heal(&mut self) {
        self.spec.reorder_ppm = 0;
        self.spec.jitter_ns = 0;
    }
}
