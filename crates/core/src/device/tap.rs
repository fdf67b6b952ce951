//! Wrappers over any device: one that watches what passes, one that says "not now" at random.
use super::{Device, Submit};
use crate::base::{Instant, Rng};
use crate::packet::Packet;

/// Which way a packet went, as the stack sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the stack.
    In,
    /// From the stack.
    Out,
}

/// Shows every packet that really passes to an observer (a pcap writer, a counter).
#[derive(Debug)]
pub struct Observed<D, F> {
    device: D,
    observer: F,
}

impl<D, F: FnMut(Direction, &Packet)> Observed<D, F> {
    /// Watches `device`.
    pub const fn new(device: D, observer: F) -> Self {
        Self { device, observer }
    }

    /// Shows a packet that the driver is about to give to the stack.
    pub fn input(&mut self, packet: &Packet) {
        (self.observer)(Direction::In, packet);
    }

    /// The device underneath.
    pub const fn device(&mut self) -> &mut D {
        &mut self.device
    }
}

impl<D: Device, F: FnMut(Direction, &Packet)> Device for Observed<D, F> {
    fn submit(&mut self, now: Instant, packet: Packet) -> Submit {
        // The device consumes the packet, and only its answer tells whether it passes. Payload is shared, not copied.
        let seen = packet.clone();
        let answer = self.device.submit(now, packet);
        if matches!(answer, Submit::Sent | Submit::Filled | Submit::Completed) {
            (self.observer)(Direction::Out, &seen);
        }
        answer
    }
}

/// Says "not now" at random: what a stack must survive without losing a packet.
#[derive(Debug)]
pub struct Balky<D> {
    device: D,
    rng: Rng,
    not_now_ppm: u32,
}

impl<D> Balky<D> {
    /// Refuses with a probability of `not_now_ppm` / 10^6, which must be under one for anything to pass.
    #[must_use]
    pub const fn new(device: D, rng: Rng, not_now_ppm: u32) -> Self {
        Self { device, rng, not_now_ppm }
    }

    /// Refuses half the time.
    #[must_use]
    pub const fn half(device: D, rng: Rng) -> Self {
        Self::new(device, rng, 500_000)
    }

    /// The device underneath.
    pub const fn device(&mut self) -> &mut D {
        &mut self.device
    }
}

impl<D: Device> Device for Balky<D> {
    fn submit(&mut self, now: Instant, packet: Packet) -> Submit {
        if self.rng.chance_ppm(self.not_now_ppm) {
            return Submit::NotNow(packet);
        }
        self.device.submit(now, packet)
    }
}
