//! What is left of a flow's queue while it has nothing in flight, and what many short times with something below say together.
use super::{Sizes, Speed};
use crate::base::Instant;

/// Seconds that an estimate is remembered.
const AGE_MAX_S: u32 = 8;
/// An estimate needs so many completions, and so much time with something below in microseconds.
const LEFT_MIN: u16 = 8;
const BUSY_MIN_US: u32 = 4_000;

/// A time in which a flow had something below or in flight, or a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// IP bytes that left.
    pub bytes: u64,
    /// Time with something below.
    pub busy_ns: u64,
    /// All of it.
    pub elapsed_ns: u64,
    /// Packets that left.
    pub left: u32,
    /// Those that left something behind or met others.
    pub standing: u32,
}

/// The estimate of before, and what was seen since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// 1,000 bytes a second; 0 for none.
    rate: u32,
    /// When that was true: milliseconds modulo 2^32.
    at: u32,
    bytes: u32,
    busy_us: u32,
    elapsed_us: u32,
    left: u16,
    standing: u16,
}

impl Memory {
    /// Completions of one time with something in flight were enough.
    #[must_use]
    pub fn of(now: Instant, speed: Speed) -> Self {
        let rate = u32::try_from(speed.rate() / 1_000).unwrap_or(u32::MAX);
        Self { rate, at: now.as_millis() as u32, ..Self::default() }
    }

    /// Nothing is remembered.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rate == 0 && self.left == 0
    }

    /// They were not: they count together with those before. Pauses between do not.
    pub fn add(&mut self, now: Instant, period: Period) {
        let us = |ns: u64| u32::try_from(ns / 1_000).unwrap_or(u32::MAX);
        let number = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
        self.bytes = self.bytes.saturating_add(u32::try_from(period.bytes).unwrap_or(u32::MAX));
        self.busy_us = self.busy_us.saturating_add(us(period.busy_ns));
        self.elapsed_us = self.elapsed_us.saturating_add(us(period.elapsed_ns));
        self.left = self.left.saturating_add(number(period.left));
        self.standing = self.standing.saturating_add(number(period.standing));
        if period.elapsed_ns == 0
            || self.left < LEFT_MIN
            || self.busy_us.max(self.elapsed_us / 2) < BUSY_MIN_US
        {
            return;
        }
        let queue =
            is_queue(self.busy_us.into(), self.elapsed_us.into(), self.standing.into(), self.left.into());
        let rate = u64::from(self.bytes) * 1_000 / u64::from(self.busy_us.max(1));
        let rate = if queue { u32::try_from(rate).unwrap_or(u32::MAX) } else { 0 };
        *self = Self { rate, at: now.as_millis() as u32, ..Self::default() };
    }

    /// What the estimate is worth now: twice as much with each second that has passed, until Linux's limit is the smaller one.
    #[must_use]
    pub fn speed(&self, now: Instant, sizes: Sizes) -> Option<Speed> {
        let age = (now.as_millis() as u32).wrapping_sub(self.at) / 1_000;
        (self.rate > 0 && age < AGE_MAX_S).then(|| Speed::new((u64::from(self.rate) << age) * 1_000, sizes))
    }
}

/// There was a queue: something stood there for half of the time, or most packets left something behind or met others.
pub(super) const fn is_queue(busy: u64, elapsed: u64, standing: u64, left: u64) -> bool {
    2 * busy >= elapsed || 2 * standing >= left
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { mss: 1_448, headers: 52 };

    /// A packet of 3,000 bytes that was below for `busy_us`, and was acknowledged after `elapsed_us`.
    fn packet(busy_us: u64, elapsed_us: u64) -> Period {
        Period {
            bytes: 3_000,
            busy_ns: busy_us * 1_000,
            elapsed_ns: elapsed_us * 1_000,
            left: 1,
            standing: 0,
        }
    }

    #[test]
    fn packets_alone_make_an_estimate_together_whatever_is_between() {
        let mut memory = Memory::default();
        for i in 0..7 {
            memory.add(Instant::from_millis(100 * i), packet(3_000, 4_000));
            assert_eq!(memory.speed(Instant::from_millis(100 * i), SIZES), None);
        }
        memory.add(Instant::from_millis(700), packet(3_000, 4_000));
        let rate = |ms| memory.speed(Instant::from_millis(ms), SIZES).map(Speed::rate);
        assert_eq!(rate(1_600), Some(1_000_000));
        // It ages.
        assert_eq!((rate(1_700), rate(8_699), rate(8_700)), (Some(2_000_000), Some(128_000_000), None));
    }

    #[test]
    fn where_packets_wait_elsewhere_there_is_no_queue() {
        let mut memory = Memory::of(Instant::ZERO, Speed::new(1_000_000, SIZES));
        (0..8).for_each(|_| memory.add(Instant::ZERO, packet(1_000, 4_000)));
        assert_eq!((memory.speed(Instant::ZERO, SIZES), memory.is_empty()), (None, true));
        // Unless they meet those of others.
        let met = Period { standing: 1, ..packet(1_000, 4_000) };
        (0..8).for_each(|_| memory.add(Instant::ZERO, met));
        assert_eq!(memory.speed(Instant::ZERO, SIZES).map(Speed::rate), Some(3_000_000));
    }

    #[test]
    fn it_is_small() {
        assert!(size_of::<Memory>() <= 24);
    }
}
