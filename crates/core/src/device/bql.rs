//! Byte queue limits: how much may lie in a device's ring, found by watching when the ring runs dry.
//!
//! A ring that is longer than needed is a queue out of every discipline's sight; one that is too short starves the device. The
//! limit rises when the device ran dry while more was waiting, and falls by what was never needed over a second.
//! A ring is full from the packet that exceeds the limit until as much has left; a limit that falls below what is there fills no ring that
//! was not full, for whoever was told of room has taken a packet out of its queue for it.
//! Source: Linux `lib/dynamic_queue_limits.c` (Tom Herbert, 2011), behind `netdev_tx_sent_queue`.
use crate::base::{Duration, Instant};

/// How long an excess must have shown before the limit falls by it.
pub const HOLD_TIME: Duration = Duration::from_secs(1);
/// Bytes that it never exceeds: more than any ring holds.
pub const LIMIT_MAX: u64 = 1 << 28;

/// The limit of one ring. Counts are totals since the start.
#[derive(Clone, Copy, Debug)]
pub struct Bql {
    limit: u64,
    queued: u64,
    completed: u64,
    /// Bytes of the packet queued last.
    packet: u64,
    /// The packet queued last exceeded the limit, and not enough has left since (`__QUEUE_STATE_STACK_XOFF`).
    full: bool,
    /// As the last completion found it.
    last: Seen,
    /// The least excess since `slack_since`.
    lowest_slack: u64,
    slack_since: Instant,
}

/// What a completion remembers for the next one.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Total bytes queued then.
    queued: u64,
    /// How far the ring was filled beyond the limit then; 0 where the limit has changed since, which takes it into account.
    over: u64,
    /// Bytes of the packet queued last before it.
    packet: u64,
}

impl Default for Bql {
    fn default() -> Self {
        Self::new()
    }
}

impl Bql {
    /// A limit that has seen nothing: one packet at a time, as an empty ring takes one at any limit.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            limit: 0,
            queued: 0,
            completed: 0,
            packet: 0,
            full: false,
            last: Seen { queued: 0, over: 0, packet: 0 },
            lowest_slack: u64::MAX,
            slack_since: Instant::ZERO,
        }
    }

    /// Bytes that the ring may hold; it may exceed this by one packet.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes in the ring.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.queued - self.completed
    }

    /// Bytes up to the limit.
    #[must_use]
    pub const fn available(&self) -> u64 {
        self.limit.saturating_sub(self.in_flight())
    }

    /// Another packet may go into the ring.
    #[must_use]
    pub const fn admits(&self) -> bool {
        !self.full
    }

    /// A packet of `bytes` goes into the ring.
    pub const fn on_queued(&mut self, bytes: u64) {
        self.queued += bytes;
        self.packet = bytes;
        self.full = self.in_flight() > self.limit;
    }

    /// So many `bytes` have left the ring together.
    pub fn on_completed(&mut self, now: Instant, bytes: u64) {
        let (before, limit) = (self.completed, self.limit);
        let completed = (before + bytes).min(self.queued);
        let over = (self.queued - before).saturating_sub(self.limit);
        let drained = completed == self.queued;
        // What was there at the last look has all left since.
        let last_drained = completed >= self.last.queued;
        let was_busy = self.last.queued > before;
        if (over > 0 && drained) || (self.last.over > 0 && last_drained) {
            // It ran dry although the limit held more back: so much more would have been needed.
            self.limit += completed.saturating_sub(self.last.queued) + self.last.over;
            self.restart(now);
        } else if !drained && was_busy && !last_drained {
            // Busy all the time: twice what left in between is needed, and no less than the last packet.
            let needed = 2 * (completed - before);
            let slack = (self.limit + self.last.over).saturating_sub(needed);
            let packet = if self.last.over > 0 { self.last.packet.saturating_sub(self.last.over) } else { 0 };
            self.lowest_slack = self.lowest_slack.min(slack.max(packet));
            if now.since(self.slack_since) > HOLD_TIME {
                self.limit = self.limit.saturating_sub(self.lowest_slack);
                self.restart(now);
            }
        }
        self.limit = self.limit.min(LIMIT_MAX);
        self.completed = completed;
        let over = if self.limit == limit { over } else { 0 };
        self.last = Seen { queued: self.queued, over, packet: self.packet };
        self.full = self.full && self.in_flight() > self.limit;
    }

    const fn restart(&mut self, now: Instant) {
        self.slack_since = now;
        self.lowest_slack = u64::MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// A wire of so many bytes a microsecond with completions every `coalesce` microseconds, fed without end by packets of
    /// `packet` bytes; the limit after `micros`, and the share of the second half of the time in which the wire was idle.
    fn run(rate: u64, packet: u64, coalesce: u64, micros: u64) -> (Bql, f64) {
        let (mut bql, mut ring, mut gone) = (Bql::new(), VecDeque::new(), 0);
        let (mut credit, mut idle) = (0, 0);
        for t in 0..micros {
            while bql.admits() {
                bql.on_queued(packet);
                ring.push_back(packet);
            }
            credit += rate;
            while let Some(&bytes) = ring.front()
                && credit >= bytes
            {
                credit -= bytes;
                gone += bytes;
                ring.pop_front();
            }
            if ring.is_empty() {
                credit = 0;
                idle += u64::from(t > micros / 2);
            }
            if t % coalesce == 0 && gone > 0 {
                bql.on_completed(Instant::from_nanos(t * 1_000), core::mem::take(&mut gone));
            }
        }
        (bql, idle as f64 / (micros / 2) as f64)
    }

    #[test]
    fn one_packet_passes_at_first() {
        let mut bql = Bql::new();
        assert!(bql.admits());
        bql.on_queued(1_514);
        assert!(!bql.admits());
        bql.on_completed(Instant::ZERO, 1_514);
        assert!(bql.admits() && bql.in_flight() == 0);
    }

    #[test]
    fn the_limit_grows_until_the_wire_is_busy() {
        // 1 Gbit/s with completions every 50 us: 6,250 bytes leave between two, twice that keeps the wire busy.
        let (bql, idle) = run(125, 1_514, 50, 100_000);
        assert!(idle < 0.01, "{idle}");
        assert!((6_250..40_000).contains(&bql.limit()), "{}", bql.limit());
        // Ten times the rate needs about ten times as much.
        let (fast, idle) = run(1_250, 1_514, 50, 100_000);
        assert!(idle < 0.01 && fast.limit() > 4 * bql.limit(), "{idle} {}", fast.limit());
    }

    #[test]
    fn an_excess_goes_after_a_second() {
        let (mut bql, _) = run(1_250, 1_514, 50, 100_000);
        let high = bql.limit();
        // The wire becomes ten times slower and stays busy.
        let mut now = Instant::from_nanos(100_000_000);
        for _ in 0..60_000 {
            while bql.admits() {
                bql.on_queued(1_514);
            }
            now += Duration::from_micros(50);
            bql.on_completed(now, 6_250);
        }
        assert!(bql.limit() < high / 2, "{high} {}", bql.limit());
    }

    #[test]
    fn what_the_limit_has_grown_by_is_not_added_again() {
        let mut bql = Bql::new();
        let step = |bql: &mut Bql, packets: u64| {
            (0..packets).for_each(|_| bql.on_queued(1_000));
            bql.on_completed(Instant::ZERO, packets * 1_000);
            bql.limit()
        };
        // The ring ran dry with 1,000 bytes more in it than the limit: so much is needed.
        assert_eq!(step(&mut bql, 1), 1_000);
        // One packet within the limit says nothing new.
        assert_eq!(step(&mut bql, 1), 1_000);
        // Dry again: all that left since the completion before was needed.
        assert_eq!(step(&mut bql, 2), 3_000);
        assert_eq!(step(&mut bql, 2), 3_000);
    }

    #[test]
    fn a_limit_that_falls_fills_no_ring() {
        let mut bql = Bql { limit: 10_000, ..Bql::new() };
        let (mut now, mut limit) = (Instant::ZERO, bql.limit);
        // Four packets within the limit, one of which leaves every 100 ms: after a second 8,000 bytes were never needed.
        (0..4).for_each(|_| bql.on_queued(1_000));
        while bql.limit == limit {
            bql.on_queued(1_000);
            now += Duration::from_millis(100);
            bql.on_completed(now, 1_000);
        }
        limit = bql.limit;
        assert_eq!((limit, bql.in_flight()), (2_000, 4_000));
        assert!(bql.admits(), "it was not full, and whoever was told so has a packet for it");
        bql.on_queued(1_000);
        assert!(!bql.admits());
        bql.on_completed(now, 2_000);
        assert!(!bql.admits(), "3,000 are still there");
        bql.on_completed(now, 1_000);
        assert!(bql.admits());
    }

    #[test]
    fn completions_never_exceed_what_was_queued() {
        let mut bql = Bql::new();
        bql.on_queued(100);
        bql.on_completed(Instant::ZERO, 1_000);
        assert_eq!(bql.in_flight(), 0);
    }
}
