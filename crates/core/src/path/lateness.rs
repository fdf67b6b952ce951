//! How late a device tells that packets have left: the queue-aware limit must cover that time as well.
//!
//! Nobody tells when a packet left, only that it has. Three observations tell how long ago that was:
//! - A packet that finds the device idle comes back after its own time on the line and the lateness, the one behind it after its own
//!   time alone: what all completions are late by.
//! - What comes back together left one after another since the last news: what some of them are late by beyond that.
//! - Where a batch leaves the device dry and a flow that was held back with nothing below, the device may have stood idle all the time
//!   since the last news: then all of it counts, as byte queue limits grow when a ring has run dry.
//!
//! docs/queue-aware.md.
use crate::base::Instant;
use crate::base::time::Duration;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Completions that are remembered.
const SAMPLES: usize = 64;
/// Of these, so many are later than the answer: the answer is their 90th percentile.
const ABOVE: usize = SAMPLES / 10;
/// Packets that found the device idle, of which the median counts.
const STARTS: usize = 8;
/// Most samples of one batch, so that it does not outweigh all others.
const BATCH_SAMPLES: u64 = 16;
/// No device is believed to be later: a driver that was stopped says nothing about its device.
const LATENESS_MAX: Duration = Duration::from_millis(10);

/// Completions of one instant.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    at: Instant,
    packets: u64,
    /// Time since the news before it, or since there was something to send.
    gap_ns: u64,
    bytes: u64,
    /// It left a flow with nothing below that wanted to send more.
    starved: bool,
    /// It left the device with nothing to send.
    dry: bool,
}

/// A packet that found the device idle.
#[derive(Clone, Copy, Debug)]
struct Start {
    bytes: u64,
    /// How long it took to come back, and whether another one was behind it then.
    took_ns: Option<u64>,
}

/// What one device's completions are late by.
#[derive(Clone, Debug)]
pub struct Lateness {
    /// Bytes of each packet in the device, oldest first: as many as it takes.
    lengths: VecDeque<u32>,
    /// The last news, or when the device last became busy.
    since: Instant,
    batch: Batch,
    start: Option<Start>,
    starts: SmallVec<[u32; STARTS]>,
    samples: [u32; SAMPLES],
    next: u8,
    /// What all are late by, and the 90th percentile of what single ones are late by beyond that.
    base_ns: u32,
    p90_ns: u32,
}

impl Default for Lateness {
    fn default() -> Self {
        Self::new()
    }
}

impl Lateness {
    /// Exact, as far as is known.
    #[must_use]
    pub fn new() -> Self {
        Self {
            lengths: VecDeque::new(),
            since: Instant::ZERO,
            batch: Batch::default(),
            start: None,
            starts: SmallVec::new(),
            samples: [0; SAMPLES],
            next: 0,
            base_ns: 0,
            p90_ns: 0,
        }
    }

    /// The 90th percentile of the last completions.
    #[must_use]
    pub fn p90(&self) -> Duration {
        Duration::from_nanos(u64::from(self.base_ns) + u64::from(self.p90_ns)).min(LATENESS_MAX)
    }

    /// Packets that the device has yet to tell of.
    #[must_use]
    pub fn untold(&self) -> usize {
        self.lengths.len()
    }

    /// The device took a packet of so many bytes that it will tell of.
    pub fn on_sent(&mut self, now: Instant, bytes: u32) {
        if self.lengths.is_empty() {
            self.batch.dry = true;
            self.close();
            self.since = now;
            self.start = Some(Start { bytes: u64::from(bytes), took_ns: None });
        }
        self.lengths.push_back(bytes);
    }

    /// The device tells of the oldest.
    pub fn on_left(&mut self, now: Instant) {
        if now > self.batch.at {
            self.close();
            self.batch = Batch { at: now, gap_ns: now.nanos_since(self.since), ..Batch::default() };
            self.since = now;
        }
        self.batch.packets += 1;
        self.batch.bytes += u64::from(self.lengths.pop_front().unwrap_or(0));
    }

    /// What was told just now left a flow with nothing below that was held back. One packet alone says nothing: it may have been larger
    /// than all that might stand below.
    pub const fn on_starved(&mut self) {
        self.batch.starved |= self.batch.packets > 1;
    }

    fn close(&mut self) {
        let at = self.batch.at;
        let batch = core::mem::replace(&mut self.batch, Batch { at, ..Batch::default() });
        let Batch { packets, gap_ns, starved, dry, .. } = batch;
        if packets == 0 {
            return;
        }
        self.begin(&batch);
        let taken = packets.min(BATCH_SAMPLES);
        for i in 0..taken {
            // The i-th of `taken` equal parts left when that part of the time was over.
            let late = if starved && dry { gap_ns } else { gap_ns / taken * (taken - 1 - i) };
            let late = late.min(LATENESS_MAX.as_nanos() as u64) as u32;
            self.samples[usize::from(self.next)] = late;
            self.next = (self.next + 1) % SAMPLES as u8;
        }
        // Exact completions, one by one, cost nothing more.
        if taken > 1 || self.p90_ns > 0 {
            let mut sorted = self.samples;
            self.p90_ns = *sorted.select_nth_unstable(SAMPLES - 1 - ABOVE).1;
        }
    }

    /// The first packets after an idle time.
    fn begin(&mut self, batch: &Batch) {
        let Batch { packets, bytes, gap_ns, dry, .. } = *batch;
        let Some(start) = &mut self.start else { return };
        match start.took_ns {
            _ if packets != 1 => self.start = None,
            None if dry => self.start = None,
            None => start.took_ns = Some(gap_ns),
            Some(took_ns) => {
                let own = u128::from(gap_ns) * u128::from(start.bytes) / u128::from(bytes.max(1));
                let late = took_ns.saturating_sub(u64::try_from(own).unwrap_or(u64::MAX));
                if self.starts.len() == STARTS {
                    self.starts.remove(0);
                }
                self.starts.push(late.min(LATENESS_MAX.as_nanos() as u64) as u32);
                let mut sorted = self.starts.clone();
                sorted.sort_unstable();
                self.base_ns = sorted[(sorted.len() - 1) / 2];
                self.start = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Instant {
        Instant::from_nanos(us * 1_000)
    }

    /// A line of one byte a nanosecond that tells of packets `late_us` later, of `batch` together or when it has nothing left; bursts of
    /// `burst` packets of 100 us and a pause, `n` times.
    fn run(late_us: u64, batch: usize, burst: u64, n: u64) -> Duration {
        let mut late = Lateness::new();
        feed(&mut late, 0..n, late_us, batch, burst);
        late.p90()
    }

    fn feed(late: &mut Lateness, times: core::ops::Range<u64>, late_us: u64, batch: usize, burst: u64) {
        for i in times {
            let start = 100_000 * i;
            let mut untold: VecDeque<u64> = VecDeque::new();
            (0..burst).for_each(|_| late.on_sent(us(start), 100_000));
            for k in 1..=burst {
                untold.push_back(k);
                if untold.len() == batch || k == burst {
                    untold.drain(..).for_each(|_| late.on_left(us(start + 100 * k + late_us)));
                }
            }
        }
    }

    #[test]
    fn completions_one_by_one_are_exact() {
        assert_eq!(run(0, 1, 4, 100), Duration::ZERO);
        assert_eq!(run(0, 1, 1, 100), Duration::ZERO);
    }

    #[test]
    fn what_all_are_late_by_shows_behind_a_pause() {
        assert_eq!(run(70, 1, 4, 100), Duration::from_micros(70));
        assert_eq!(run(70, 1, 2, 3), Duration::from_micros(70), "three bursts are enough");
        assert_eq!(run(70, 1, 1, 100), Duration::ZERO, "a packet alone may be a long one");
    }

    #[test]
    fn what_comes_back_together_left_one_after_another() {
        // Of each four, one is 300 us late.
        assert_eq!(run(0, 4, 8, 100), Duration::from_micros(300));
    }

    #[test]
    fn what_was_learnt_is_forgotten() {
        let mut late = Lateness::new();
        let step = |late: &mut Lateness, i: u64, packets: u64| {
            (0..packets).for_each(|_| late.on_sent(us(1_000 * i), 1_000));
            (0..packets).for_each(|_| late.on_left(us(1_000 * i + 400)));
        };
        (0..100).for_each(|i| step(&mut late, i, 4));
        assert_eq!(late.p90(), Duration::from_micros(300));
        (100..200).for_each(|i| step(&mut late, i, 1));
        assert_eq!(late.p90(), Duration::ZERO);
    }

    #[test]
    fn a_batch_that_starves_a_flow_counts_whole_where_the_device_ran_dry() {
        let run = |packets: u64, others: u64| {
            let mut late = Lateness::new();
            for i in 0..100 {
                (0..packets + others * u64::from(i == 0)).for_each(|_| late.on_sent(us(1_000 * i), 1_000));
                (0..packets).for_each(|_| late.on_left(us(1_000 * i + 600)));
                late.on_starved();
            }
            late.p90()
        };
        assert_eq!(run(2, 0), Duration::from_micros(600));
        assert_eq!(
            run(1, 0),
            Duration::ZERO,
            "one packet may have been larger than all that might stand below"
        );
        assert_eq!(run(2, 1), Duration::from_micros(500), "half of the time since the last news");
    }

    #[test]
    fn all_of_it_together_is_bounded() {
        let mut late = Lateness::new();
        feed(&mut late, 0..10, 8_000, 1, 4);
        assert_eq!(late.p90(), Duration::from_millis(8));
        feed(&mut late, 10..100, 8_000, 4, 4);
        assert_eq!(late.p90(), LATENESS_MAX, "and three quarters of 8.4 ms beyond that");
    }

    #[test]
    fn a_stopped_driver_is_not_believed() {
        let mut late = Lateness::new();
        for i in 0..100 {
            (0..2).for_each(|_| late.on_sent(us(1_000_000 * i), 1_000));
            (0..2).for_each(|_| late.on_left(us(1_000_000 * i + 900_000)));
        }
        assert_eq!(late.p90(), LATENESS_MAX);
    }
}
