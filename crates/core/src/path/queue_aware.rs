//! The queue-aware limit: below a flow stands no more than its own queue passes on in a millisecond, whatever the pacing rate says.
//!
//! Small queues follow the pacing rate, which says what the path takes, and never go below two packets, which are large for near
//! peers: before a slow line that is tens of milliseconds. Completions tell what the line takes. Ours, beyond Linux; docs/queue-aware.md.
mod memory;
mod speed;

pub use memory::{Memory, Period};
pub use speed::Speed;

use crate::base::Instant;
use crate::base::time::{Duration, nanos};
use std::collections::VecDeque;

/// Time with something below between two marks at least: eight of these steps are 4 ms, and eight completions.
const MARK_NS: u64 = 500_000;
/// A window is eight steps between marks.
const MARKS: usize = 9;
/// Packets that wait for their time which are told apart; those behind count with the last of them.
const HELD_MAX: usize = 64;

/// Totals at one completion.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    /// Bytes that have left.
    bytes: u64,
    /// Time in which something was below.
    busy_ns: u64,
    /// Completions.
    left: u32,
    /// Those of them that left something below, and packets that met a backlog of others.
    standing: u32,
}

/// What a segment of the flow is on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Payload of a full segment in bytes.
    pub mss: u16,
    /// IP and TCP headers of one.
    pub headers: u16,
}

impl Sizes {
    /// IP bytes of a packet with so much payload, as the segments that it becomes.
    #[must_use]
    pub const fn ip_bytes(self, payload: u32) -> u64 {
        let mss = if self.mss == 0 { 1 } else { self.mss as u32 };
        let segments = payload.div_ceil(mss);
        payload as u64 + if segments == 0 { 1 } else { segments as u64 } * self.headers as u64
    }

    /// IP bytes of a full segment.
    #[must_use]
    pub const fn segment(self) -> u64 {
        self.mss as u64 + self.headers as u64
    }
}

/// A flow's queue below it: what stands there, and how fast it moves. It exists while the flow has something in flight.
#[derive(Clone, Debug)]
pub struct QueueAware {
    sizes: Sizes,
    /// Q: IP bytes handed down and not come back.
    queued: u64,
    /// The part of it that a discipline holds back until its time: when, and how much. That is pace and no queue.
    held_back: VecDeque<(Instant, u64)>,
    held_bytes: u64,
    /// Totals; `at` is when they were last true.
    total: Mark,
    marks: [Mark; MARKS],
    /// The oldest of them; it is overwritten next.
    oldest: u8,
    /// Marks that are filled.
    filled: u8,
    /// The rule has held a packet back since one last went down.
    held: bool,
    /// d: bytes a second over the window, or what was remembered of one before.
    speed: Speed,
    remembered: bool,
    news: News,
}

/// Completions of one instant, and the busy time that they end.
#[derive(Clone, Copy, Debug, Default)]
struct News {
    /// c: what completions of the device are late by.
    late_ns: u64,
    at: Instant,
    packets: u64,
    /// The total of busy time when the queue became busy, at the news before these, and at these.
    from_ns: u64,
    since_ns: u64,
    at_ns: u64,
}

impl News {
    /// The queue becomes busy.
    fn begin(&mut self, busy_ns: u64) {
        *self = Self { packets: 0, from_ns: busy_ns, since_ns: busy_ns, at_ns: busy_ns, ..*self };
    }

    /// A packet is told of.
    fn tell(&mut self, now: Instant, busy_ns: u64) {
        if now > self.at {
            *self = Self { at: now, packets: 0, since_ns: self.at_ns, at_ns: busy_ns, ..*self };
        }
        self.packets += 1;
    }

    /// How long before it is told of the last of them left: c where it comes alone, half of a packet's time where several do, for another
    /// one would be there. Since c is inferred, at most half of the time that it is taken from, of which `window_ns` are remembered.
    fn lateness_ns(&self, window_ns: u64) -> u64 {
        let most = match self.packets {
            0 | 1 => (self.at_ns - self.from_ns).min(window_ns) / 2,
            packets => (self.at_ns - self.since_ns) / (2 * packets),
        };
        self.late_ns.min(most)
    }
}

impl QueueAware {
    /// Nothing below at `now`.
    #[must_use]
    pub fn new(now: Instant, sizes: Sizes) -> Self {
        let zero = Mark { at: now, bytes: 0, busy_ns: 0, left: 0, standing: 0 };
        Self {
            sizes,
            queued: 0,
            held_back: VecDeque::new(),
            held_bytes: 0,
            total: zero,
            marks: [zero; MARKS],
            oldest: 0,
            filled: 1,
            held: false,
            speed: Speed::default(),
            remembered: false,
            news: News::default(),
        }
    }

    /// The same with an estimate from before, which holds until there is one of its own.
    #[must_use]
    pub fn remembering(now: Instant, sizes: Sizes, speed: Speed) -> Self {
        Self { speed, remembered: true, ..Self::new(now, sizes) }
    }

    /// Q, in IP bytes.
    #[must_use]
    pub const fn queued(&self) -> u64 {
        self.queued
    }

    /// IP bytes of a full segment, as the account counts.
    #[must_use]
    pub const fn segment(&self) -> u64 {
        self.sizes.segment()
    }

    /// What completions of the device below are late by.
    pub fn set_lateness(&mut self, late: Duration) {
        self.news.late_ns = nanos(late);
    }

    /// The same in nanoseconds.
    #[must_use]
    pub const fn late_ns(&self) -> u64 {
        self.news.late_ns
    }

    /// A packet that this limit admits is held back by another one.
    pub const fn on_held(&mut self) {
        self.held = true;
    }

    /// The queue of others is not empty when a packet of the flow is about to go down.
    pub const fn on_backlog(&mut self) {
        self.total.standing = self.total.standing.wrapping_add(1);
    }

    /// A packet with so much payload goes down, to leave at `departure` or later. Sizes may only change while nothing is below, or the
    /// account would not balance.
    pub fn on_sent(&mut self, now: Instant, payload: u32, sizes: Sizes, departure: Instant) {
        self.advance(now);
        if self.queued == 0 {
            self.sizes = sizes;
            self.news.begin(self.total.busy_ns);
        }
        self.held = false;
        let bytes = self.sizes.ip_bytes(payload);
        self.queued += bytes;
        if departure > now {
            self.hold_back(departure, bytes);
        }
    }

    fn hold_back(&mut self, until: Instant, bytes: u64) {
        self.held_bytes += bytes;
        let full = self.held_back.len() == HELD_MAX;
        match self.held_back.back_mut() {
            Some((_, sum)) if full => *sum += bytes,
            _ => self.held_back.push_back((until, bytes)),
        }
    }

    /// One has left. True when nothing is below any more although the rule held the next packet back: more would have been needed.
    #[must_use]
    pub fn on_left(&mut self, now: Instant, payload: u32) -> bool {
        self.advance(now);
        let bytes = self.sizes.ip_bytes(payload).min(self.queued);
        self.take(bytes);
        self.total.bytes += bytes;
        self.total.left = self.total.left.wrapping_add(1);
        self.news.tell(now, self.total.busy_ns);
        if self.queued == 0 && bytes > 0 {
            self.leave_out_lateness();
        }
        self.total.standing = self.total.standing.wrapping_add(u32::from(self.is_busy()));
        let newest = (usize::from(self.oldest) + usize::from(self.filled) - 1) % MARKS;
        if self.total.busy_ns - self.marks[newest].busy_ns >= MARK_NS {
            self.mark();
        }
        self.queued == 0 && self.held
    }

    /// The last packet left some time before it was told of, in which nothing stood in the queue.
    fn leave_out_lateness(&mut self) {
        let first_ns = self.marks[usize::from(self.oldest)].busy_ns;
        self.total.busy_ns -= self.news.lateness_ns(self.total.busy_ns - first_ns);
        for mark in &mut self.marks {
            mark.busy_ns = mark.busy_ns.min(self.total.busy_ns);
        }
    }

    /// The newest packet, of so much payload, has become pieces, which leave one by one. If it waits for its time they do, too.
    pub fn on_cut(&mut self, now: Instant, payload: u32, pieces: impl Iterator<Item = u32>) {
        let is: u64 = pieces.map(|payload| self.sizes.ip_bytes(payload)).sum();
        let was = self.sizes.ip_bytes(payload);
        self.advance(now);
        self.queued = (self.queued + is).saturating_sub(was);
        if let Some((_, sum)) = self.held_back.back_mut().filter(|(_, sum)| *sum >= was) {
            *sum = *sum - was + is;
            self.held_bytes = (self.held_bytes + is).saturating_sub(was);
        }
        self.take(0);
    }

    /// One will never leave: it says nothing of the queue's speed.
    pub fn on_dropped(&mut self, now: Instant, payload: u32) {
        self.advance(now);
        self.take(self.sizes.ip_bytes(payload).min(self.queued));
    }

    /// The newest never went down.
    pub fn on_refused(&mut self, now: Instant, payload: u32) {
        self.advance(now);
        let bytes = self.sizes.ip_bytes(payload).min(self.queued);
        if let Some((_, sum)) = self.held_back.back_mut() {
            *sum = sum.saturating_sub(bytes);
            self.held_bytes = self.held_bytes.saturating_sub(bytes);
            self.held_back.pop_back_if(|(_, sum)| *sum == 0);
        }
        self.take(bytes);
    }

    /// The oldest bytes are gone, even if their time had not come.
    fn take(&mut self, bytes: u64) {
        self.queued -= bytes;
        while self.held_bytes > self.queued {
            match self.held_back.pop_front() {
                Some((_, bytes)) => self.held_bytes = self.held_bytes.saturating_sub(bytes),
                None => self.held_bytes = 0,
            }
        }
    }

    /// The flow's account says that nothing is below.
    pub fn on_all_back(&mut self, now: Instant) {
        self.advance(now);
        self.take(self.queued);
    }

    /// Something stands below whose time has come.
    const fn is_busy(&self) -> bool {
        self.queued > self.held_bytes
    }

    fn advance(&mut self, now: Instant) {
        while let Some((at, bytes)) = self.held_back.pop_front_if(|(at, _)| *at <= now) {
            self.pass(at);
            self.held_bytes = self.held_bytes.saturating_sub(bytes);
        }
        self.pass(now);
    }

    fn pass(&mut self, until: Instant) {
        if self.is_busy() {
            self.total.busy_ns += until.nanos_since(self.total.at);
        }
        self.total.at = self.total.at.max(until);
    }

    fn mark(&mut self) {
        let next = (usize::from(self.oldest) + usize::from(self.filled)) % MARKS;
        if usize::from(self.filled) == MARKS {
            self.oldest = ((usize::from(self.oldest) + 1) % MARKS) as u8;
        } else {
            self.filled += 1;
        }
        self.marks[next] = self.total;
        if usize::from(self.filled) == MARKS {
            let first = self.marks[usize::from(self.oldest)];
            let bytes = u128::from(self.total.bytes - first.bytes) * 1_000_000_000;
            let busy = u128::from((self.total.busy_ns - first.busy_ns).max(1));
            self.speed = Speed::new(u64::try_from(bytes / busy).unwrap_or(u64::MAX), self.sizes);
            self.remembered = false;
        }
    }

    /// d, in bytes per second; `None` where there is no window, or no queue in it: it stood empty for half of the time, most packets left
    /// nothing behind, and they met no others. Then the bottleneck is elsewhere.
    #[must_use]
    pub fn rate(&self, now: Instant) -> Option<u64> {
        self.speed(now).map(Speed::rate)
    }

    fn speed(&self, now: Instant) -> Option<Speed> {
        let own = usize::from(self.filled) == MARKS;
        if !(own || self.remembered) {
            return None;
        }
        let Period { busy_ns, elapsed_ns, left, standing, .. } = self.period(now);
        // What was remembered is not judged by the first few.
        let young = !own && left < MARKS as u32;
        (young || memory::is_queue(busy_ns, elapsed_ns, standing.into(), left.into())).then_some(self.speed)
    }

    /// What was seen since the oldest mark.
    #[must_use]
    pub fn period(&self, now: Instant) -> Period {
        let first = self.marks[usize::from(self.oldest)];
        let since = if self.is_busy() { now.nanos_since(self.total.at) } else { 0 };
        Period {
            bytes: self.total.bytes - first.bytes,
            busy_ns: self.total.busy_ns - first.busy_ns + since,
            elapsed_ns: now.nanos_since(first.at),
            left: self.total.left.wrapping_sub(first.left),
            standing: self.total.standing.wrapping_sub(first.standing),
        }
    }

    /// What is to be remembered of it when nothing is in flight any more, which was so at `end`.
    pub fn forget(&self, end: Instant, memory: &mut Memory) {
        if usize::from(self.filled) < MARKS {
            memory.add(end, self.period(end));
        } else {
            *memory = self.speed(end).map_or_else(Memory::default, |speed| Memory::of(end, speed));
        }
    }

    /// Most segments that a packet may have; `None` without an estimate.
    ///
    /// A packet for which there is no room is cut to the room, as long as it keeps half its size. So the queue is refused only above
    /// three quarters of what may stand, and what stands after a packet has left is a quarter at least: late completions do not starve it.
    #[must_use]
    pub fn segments(&self, now: Instant) -> Option<u16> {
        let segment = self.sizes.segment().max(1);
        let most = self.speed(now)?.segments(self.sizes);
        let room = self.limit(now)?.saturating_sub(self.queued) / segment;
        let fits = if self.queued > 0 && 2 * room >= most { most.min(room) } else { most };
        Some(u16::try_from(fits).unwrap_or(u16::MAX))
    }

    /// IP bytes that may stand below; `None` without an estimate.
    #[must_use]
    pub fn limit(&self, now: Instant) -> Option<u64> {
        Some(self.speed(now)?.limit(self.sizes, self.news.late_ns))
    }

    /// May a packet with so much payload go down, for the first time or again? `None` without an estimate: then Linux's limit holds.
    pub fn admits(&mut self, now: Instant, payload: u32) -> Option<bool> {
        let limit = self.limit(now)?;
        let admitted = self.queued == 0 || self.queued + self.sizes.ip_bytes(payload) <= limit;
        self.held |= !admitted;
        Some(admitted)
    }
}

#[cfg(test)]
mod tests;
