//! Packets that arrive twice, and packets that arrive with flipped bits.
use super::{Effects, Stage, Through};
use crate::edit::flip_bits;
use lowwater_core::base::{Instant, Rng};
use lowwater_core::packet::Packet;

/// Duplicates and corrupts.
pub struct Mangle {
    duplicate_ppm: u32,
    corrupt_ppm: u32,
    rng: Rng,
    through: Through,
}

impl Mangle {
    /// Chances in 10^-6 per packet.
    #[must_use]
    pub fn new(duplicate_ppm: u32, corrupt_ppm: u32, rng: Rng) -> Self {
        Self { duplicate_ppm, corrupt_ppm, rng, through: Through::default() }
    }
}

impl Stage for Mangle {
    fn accept(&mut self, now: Instant, packet: Packet, effects: &mut Effects) {
        if self.rng.chance_ppm(self.duplicate_ppm) {
            effects.counts.duplicated += 1;
            self.through.push(now, packet.clone());
        }
        if self.rng.chance_ppm(self.corrupt_ppm) {
            effects.counts.corrupted += 1;
            let (position, pattern) = (self.rng.next_u64(), self.rng.next_u32() as u8);
            self.through.push(now, flip_bits(&packet, position, pattern, now));
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
        self.duplicate_ppm = 0;
        self.corrupt_ppm = 0;
    }
}
