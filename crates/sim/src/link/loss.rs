//! Packets that vanish: at random, in bursts (Gilbert-Elliott), in blackouts, or exactly where a test says.
use super::{Effects, Stage, Through};
use lowwater_core::base::{Instant, Rng};
use lowwater_core::packet::Packet;

/// What is lost. Chances are in 10^-6.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LossSpec {
    /// Independent loss of each packet.
    pub random_ppm: u32,
    /// Gilbert-Elliott: chance per packet of going from good to bad.
    pub to_bad_ppm: u32,
    /// Chance per packet of going back.
    pub to_good_ppm: u32,
    /// Loss in the bad state.
    pub bad_ppm: u32,
    /// Nothing passes from the first to the second instant.
    pub blackouts: Vec<(Instant, Instant)>,
    /// Ordinal numbers (from 0) of packets that are lost, ascending; for tests that want one exact loss.
    pub nth: Vec<u64>,
}

impl LossSpec {
    /// True when nothing is ever lost.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.random_ppm == 0 && self.to_bad_ppm == 0 && self.blackouts.is_empty() && self.nth.is_empty()
    }
}

/// The stage that loses packets.
pub struct Loss {
    spec: LossSpec,
    rng: Rng,
    bad: bool,
    seen: u64,
    healed: bool,
    through: Through,
}

impl Loss {
    /// A stage in the good state.
    #[must_use]
    pub fn new(spec: LossSpec, rng: Rng) -> Self {
        Self { spec, rng, bad: false, seen: 0, healed: false, through: Through::default() }
    }

    fn loses(&mut self, now: Instant) -> bool {
        let number = self.seen;
        self.seen += 1;
        if self.spec.nth.contains(&number) {
            return true;
        }
        if self.healed {
            return false;
        }
        if self.spec.blackouts.iter().any(|&(from, to)| from <= now && now < to) {
            return true;
        }
        let flip = if self.bad { self.spec.to_good_ppm } else { self.spec.to_bad_ppm };
        self.bad ^= self.rng.chance_ppm(flip);
        let ppm = if self.bad { self.spec.bad_ppm } else { self.spec.random_ppm };
        self.rng.chance_ppm(ppm)
    }
}

impl Stage for Loss {
    fn accept(&mut self, now: Instant, packet: Packet, effects: &mut Effects) {
        if self.loses(now) {
            effects.counts.lost += 1;
        } else {
            self.through.push(now, packet);
        }
    }
    fn release(&mut self, _now: Instant, _effects: &mut Effects) -> Option<Packet> {
        self.through.pop()
    }
    fn deadline(&self) -> Option<Instant> {
        self.through.deadline()
    }
    fn held(&self) -> u64 {
        self.through.held()
    }
    fn heal(&mut self) {
        self.healed = true;
    }
}
