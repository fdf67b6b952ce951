//! What a queue passes on, and how long what stands in it may take.
use super::Sizes;

/// What stands below takes at most this much of the queue's time, and what completions are late by; a packet half of it.
const QUEUE_NS: u64 = 1_000_000;
const NS_PER_S: u64 = 1_000_000_000;
/// Faster is no queue; the arithmetic ends there.
const RATE_MAX: u64 = 1 << 48;

/// The speed of a flow's own queue.
///
/// What a flow gets of a FIFO is its part of what stands there. If each let a millisecond of what it gets stand, any parts would stay as
/// they are. So the time falls with the rate, by its eighth root: of two flows the one with the larger part lets less than its part
/// stand, and a difference between them shrinks by an eighth each time that the queue has passed, however many they are and however fast
/// it is. Two segments have all of the millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speed {
    rate: u64,
    /// Time of what may stand.
    queue_ns: u32,
}

impl Speed {
    /// A queue that passes on `rate` bytes a second.
    #[must_use]
    pub fn new(rate: u64, sizes: Sizes) -> Self {
        // Two segments in a millisecond.
        let least = 2 * sizes.segment().max(1) * (NS_PER_S / QUEUE_NS);
        if rate <= least {
            return Self { rate, queue_ns: QUEUE_NS as u32 };
        }
        // The eighth root of rate / least, in 2^-16.
        let ratio = (u128::from(rate.min(RATE_MAX)) << 64) / u128::from(least);
        let root = ((ratio.isqrt().isqrt() << 16).isqrt() as u64).max(1 << 16);
        Self { rate, queue_ns: ((QUEUE_NS << 16) / root) as u32 }
    }

    /// d: bytes a second.
    #[must_use]
    pub const fn rate(self) -> u64 {
        self.rate
    }

    /// Segments of a packet, one at least.
    #[must_use]
    pub fn segments(self, sizes: Sizes) -> u64 {
        (self.in_time(u64::from(self.queue_ns / 2)) / sizes.segment().max(1)).max(1)
    }

    /// IP bytes that may stand where completions are so late, two segments at least.
    #[must_use]
    pub fn limit(self, sizes: Sizes, late_ns: u64) -> u64 {
        self.in_time(u64::from(self.queue_ns).saturating_add(late_ns)).max(2 * sizes.segment())
    }

    fn in_time(self, ns: u64) -> u64 {
        u64::try_from(u128::from(self.rate) * u128::from(ns) / u128::from(NS_PER_S)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { mss: 1_448, headers: 52 };

    #[test]
    fn two_segments_have_a_millisecond_and_more_has_less() {
        let ns = |mbit: u64| Speed::new(mbit * 125_000, SIZES).queue_ns;
        assert_eq!((ns(1), ns(24)), (1_000_000, 1_000_000));
        // 24 times 2^8 is half of the time, and 2^16 a quarter.
        assert!(ns(24 << 8).abs_diff(500_000) < 20 && ns(24 << 16).abs_diff(250_000) < 20);
        assert!((1..1_000_000).step_by(97).all(|mbit| ns(mbit) >= ns(mbit + 97)), "it never rises");
        let last = Speed::new(u64::MAX, SIZES);
        assert!(last.queue_ns > 10_000, "{last:?}");
    }

    #[test]
    fn more_speed_is_never_less_room() {
        let limit = |mbit: u64| Speed::new(mbit * 125_000, SIZES).limit(SIZES, 0);
        assert_eq!((limit(1), limit(24)), (3_000, 3_000));
        assert!((1..1_000_000).step_by(97).all(|mbit| limit(mbit) <= limit(mbit + 97)));
        assert!(
            (1..1_000_000).step_by(97).all(|mbit| limit(mbit) <= (mbit * 125).max(3_000)),
            "nor over a millisecond"
        );
    }

    /// Flows that begin with any parts of a FIFO: each learns what it got, lets stand what that allows, and gets its part of what stands.
    #[test]
    fn flows_before_one_fifo_come_together() {
        for (mbit, flows, late_ns) in
            [(1_000, 4, 0), (10_000, 64, 0), (40_000, 64, 40_000), (40_000, 4, 0), (100, 2, 100_000)]
        {
            let line: u64 = mbit * 125_000;
            let mut parts: Vec<u64> = (1..=flows as u64).map(|i| i * i).collect();
            for _ in 0..40 {
                let sum: u64 = parts.iter().sum();
                let got = |part: u64| (u128::from(line) * u128::from(part) / u128::from(sum)) as u64;
                parts =
                    parts.iter().map(|&part| Speed::new(got(part), SIZES).limit(SIZES, late_ns)).collect();
            }
            let (least, most) = (parts.iter().min().unwrap(), parts.iter().max().unwrap());
            assert!(most * 10 <= least * 11, "{mbit} Mbit/s, {flows} flows: {least} to {most}");
        }
    }
}
