//! How late a device tells that packets have left: the queue-aware limit must cover that time as well.
//!
//! Nobody tells when a packet left, only that it has. Three observations tell how long ago that was:
//! - A packet that finds the device idle comes back after its own time on the line and the lateness, the one behind it after its own
//!   time alone: what packets that come back alone are late by.
//! - What comes back together left one after another since the last news, and the last of it no longer ago than a packet takes, or
//!   another one would be there: what several are late by, the last by half of that.
//!   The larger of the two counts, not both: where a timer collects news, a packet alone waits for all of it, as the first of several
//!   does.
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
    /// Packets that it tells of first, and of which nothing is known.
    unknown: u32,
    /// The first part of a packet was taken by an idle device.
    begun: bool,
    /// The last news, or when the device last became busy.
    since: Instant,
    batch: Batch,
    start: Option<Start>,
    starts: SmallVec<[u32; STARTS]>,
    /// What packets that come back alone are late by.
    alone_ns: u32,
    /// What packets that came back together were late by, and 0 for those that came back alone.
    samples: [u32; SAMPLES],
    next: u8,
    /// The 90th percentile of the samples.
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
            unknown: 0,
            begun: false,
            since: Instant::ZERO,
            batch: Batch::default(),
            start: None,
            starts: SmallVec::new(),
            alone_ns: 0,
            samples: [0; SAMPLES],
            next: 0,
            p90_ns: 0,
        }
    }

    /// The same of a device that has taken so many packets before.
    fn behind(unknown: u32) -> Self {
        Self { unknown, ..Self::new() }
    }

    /// The 90th percentile of the last completions.
    #[must_use]
    pub fn p90(&self) -> Duration {
        // What a packet alone waits for, the first of several has waited for as well.
        Duration::from_nanos(self.p90_ns.max(self.alone_ns).into()).min(LATENESS_MAX)
    }

    /// The device took a part of a packet of whose last part it will tell.
    pub fn on_part(&mut self, now: Instant) {
        if !self.lengths.is_empty() || self.unknown > 0 || self.begun {
            return;
        }
        self.begun = true;
        self.batch.dry = true;
        self.close();
        self.since = now;
    }

    /// The device took a packet of so many bytes that it will tell of.
    pub fn on_sent(&mut self, now: Instant, bytes: u32) {
        self.on_part(now);
        if core::mem::take(&mut self.begun) {
            self.start = Some(Start { bytes: u64::from(bytes), took_ns: None });
        }
        self.lengths.push_back(bytes);
    }

    /// The device tells of the oldest.
    pub fn on_left(&mut self, now: Instant) {
        if self.unknown > 0 {
            self.unknown -= 1;
            self.since = now;
            return;
        }
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
        let part = gap_ns / taken;
        for i in 0..taken {
            // The i-th of `taken` equal parts left when that part of the time was over, and the last was followed by the half of another.
            let late = match taken {
                1 => 0,
                _ if starved && dry => gap_ns,
                _ => part * (taken - 1 - i) + part / 2,
            };
            self.samples[usize::from(self.next)] = late.min(LATENESS_MAX.as_nanos() as u64) as u32;
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
                self.alone_ns = sorted[(sorted.len() - 1) / 2];
                self.start = None;
            }
        }
    }
}

/// What a device owes news of: the packets that somebody waits for. Only their number is kept while nobody asks how late the news is
/// (`tcp_queue_aware`), and of a device in which nothing waits not even that.
#[derive(Clone, Debug)]
pub struct Told {
    keeps: bool,
    untold: u32,
    /// Bytes of the packet whose segments the device is taking, of which it tells with the last: 0 for none.
    cut: u32,
    lateness: Lateness,
}

impl Told {
    /// Of a device in which packets wait, or nothing does.
    #[must_use]
    pub fn new(keeps: bool) -> Self {
        Self { keeps, untold: 0, cut: 0, lateness: Lateness::new() }
    }

    /// What its completions are late by.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        self.lateness.p90()
    }

    /// Packets that it has yet to tell of.
    #[must_use]
    pub const fn untold(&self) -> u32 {
        self.untold
    }

    /// Forgets all but that packets are under way.
    pub fn restart(&mut self) {
        self.cut = 0;
        self.lateness = Lateness::behind(self.untold);
    }

    /// All segments of what was cut have come to the device's door, whatever became of them.
    pub const fn on_cut_over(&mut self) {
        self.cut = 0;
    }

    /// A packet of so many bytes is cut into segments, which the device takes next.
    pub const fn on_cut(&mut self, bytes: u32, aware: bool) {
        self.cut = if aware { bytes } else { 0 };
    }

    /// The device took a packet; it tells of those that somebody waits for (`owned`).
    pub fn on_sent(&mut self, now: Instant, owned: bool, bytes: u32, aware: bool) {
        if !self.keeps {
            return;
        }
        if owned {
            self.untold += 1;
            if aware {
                let cut = core::mem::take(&mut self.cut);
                self.lateness.on_sent(now, if cut > 0 { cut } else { bytes });
            }
        } else if self.cut > 0 {
            self.lateness.on_part(now);
        }
    }

    /// It tells of the oldest.
    pub fn on_told(&mut self, now: Instant, aware: bool) {
        if !self.keeps {
            return;
        }
        self.untold = self.untold.saturating_sub(1);
        if aware {
            self.lateness.on_left(now);
        }
    }

    /// As [`Lateness::on_starved`].
    pub const fn on_starved(&mut self) {
        self.lateness.on_starved();
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
        // Of each four, one is 300 us late; that the last was told of at once nobody knows.
        assert_eq!(run(0, 4, 8, 100), Duration::from_micros(350));
    }

    /// A timer of a millisecond that begins with the first packet that leaves, as in interrupt coalescing: packets of 2 ms are told of
    /// one by one, each a millisecond late, those of 0.5 ms three at a time, of which only the first is.
    #[test]
    fn what_packets_alone_are_late_by_is_no_part_of_what_several_are() {
        let mut late = Lateness::new();
        (0..4).for_each(|_| late.on_sent(us(0), 6_000));
        (1..=4).for_each(|n| late.on_left(us(2_000 * n + 1_000)));
        assert_eq!(late.p90(), Duration::from_millis(1));
        (0..4).for_each(|_| late.on_sent(us(30_000), 1_500));
        for batch in 1..=40 {
            let now = us(30_000 + 1_500 * batch);
            (0..3).for_each(|_| late.on_left(now));
            (0..3).for_each(|_| late.on_sent(now, 1_500));
        }
        assert_eq!(late.p90(), Duration::from_micros(1_250), "not more than two");
    }

    /// Four of 0.4 ms each below, by the same timer: what is told of together left 1.0, 0.6 and 0.2 ms before.
    #[test]
    fn the_last_of_several_is_late_by_half_of_its_time() {
        let mut late = Lateness::new();
        (0..4).for_each(|_| late.on_sent(us(0), 1_500));
        for batch in 0..40 {
            let now = us(1_400 + 1_200 * batch);
            (0..3).for_each(|_| late.on_left(now));
            (0..3).for_each(|_| late.on_sent(now, 1_500));
        }
        assert_eq!(late.p90(), Duration::from_millis(1));
    }

    #[test]
    fn what_was_learnt_is_forgotten() {
        let mut late = Lateness::new();
        let step = |late: &mut Lateness, i: u64, packets: u64| {
            (0..packets).for_each(|_| late.on_sent(us(1_000 * i), 1_000));
            (0..packets).for_each(|_| late.on_left(us(1_000 * i + 400)));
        };
        (0..100).for_each(|i| step(&mut late, i, 4));
        assert_eq!(late.p90(), Duration::from_micros(350));
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
        assert_eq!(run(2, 1), Duration::from_micros(750), "three quarters of the time since the last news");
    }

    #[test]
    fn all_of_it_together_is_bounded() {
        let mut late = Lateness::new();
        feed(&mut late, 0..10, 8_000, 1, 4);
        assert_eq!(late.p90(), Duration::from_millis(8));
        feed(&mut late, 10..100, 8_000, 4, 4);
        assert_eq!(late.p90(), Duration::from_millis(8), "seven eighths of 8.4 ms are less");
        feed(&mut late, 100..200, 12_000, 4, 4);
        assert_eq!(late.p90(), LATENESS_MAX, "seven eighths of 12.4 ms are more");
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

    #[test]
    fn a_packet_that_is_cut_is_told_of_as_a_whole() {
        let news = |cut: bool| {
            let mut told = Told::new(true);
            for i in 0..100 {
                let at = us(1_000 * i);
                // Three segments and one packet, each of 100 us and news of it 70 us later.
                if cut {
                    told.on_cut(300_000, true);
                    (0..2).for_each(|_| told.on_sent(at, false, 100_000, true));
                    told.on_sent(at, true, 100_000, true);
                } else {
                    told.on_sent(at, true, 300_000, true);
                }
                told.on_sent(at, true, 100_000, true);
                told.on_told(us(1_000 * i + 370), true);
                told.on_told(us(1_000 * i + 470), true);
            }
            told.lateness()
        };
        assert_eq!((news(true), news(false)), (Duration::from_micros(70), Duration::from_micros(70)));
    }

    #[test]
    fn a_packet_whose_last_segment_was_dropped_is_not_taken_for_the_next_one() {
        let news = |cut: bool| {
            let mut told = Told::new(true);
            for i in 0..100 {
                let at = us(1_000 * i);
                if cut {
                    told.on_cut(300_000, true);
                    told.on_cut_over();
                }
                (0..2).for_each(|_| told.on_sent(at, true, 100_000, true));
                told.on_told(us(1_000 * i + 170), true);
                told.on_told(us(1_000 * i + 270), true);
            }
            told.lateness()
        };
        assert_eq!((news(true), news(false)), (Duration::from_micros(70), Duration::from_micros(70)));
    }

    /// Whatever was under way: after a restart nothing of before is left, and what is learnt is what a device that was never followed
    /// shows, once that has told of what it had taken.
    #[test]
    fn a_restart_at_any_time_begins_from_nothing() {
        use crate::base::Rng;
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let (mut told, mut fresh) = (Told::new(true), None::<Lateness>);
            let (mut now, mut taken, mut old, mut aware) = (us(0), 0u32, 0u32, seed % 2 == 0);
            for step in 0..400 {
                now = now.plus_nanos(rng.below(300_000));
                if step == 200 {
                    aware = !aware || rng.below(2) == 0;
                    told.restart();
                    (old, fresh) = (taken, aware.then(|| Lateness::behind(taken)));
                    assert_eq!((told.lateness(), told.untold()), (Duration::ZERO, taken));
                } else if rng.below(2) == 0 && taken < 20 {
                    let bytes = 1 + rng.next_u32() % 60_000;
                    taken += 1;
                    told.on_sent(now, true, bytes, aware);
                    fresh.iter_mut().for_each(|fresh| fresh.on_sent(now, bytes));
                } else {
                    for _ in 0..(1 + rng.below(4)).min(u64::from(taken)) {
                        taken -= 1;
                        told.on_told(now, aware);
                        old = old.saturating_sub(1);
                        fresh.iter_mut().for_each(|fresh| fresh.on_left(now));
                    }
                }
                if let Some(fresh) = &fresh {
                    assert_eq!(fresh.unknown, old, "seed {seed}: those of before are not taken for others");
                    assert_eq!(fresh.lengths.len() as u32 + old, taken, "seed {seed}");
                    assert_eq!(told.lateness(), fresh.p90(), "seed {seed}");
                }
            }
        }
    }
}
