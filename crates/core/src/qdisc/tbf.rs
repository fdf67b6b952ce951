//! `tbf`: a token bucket in front of a FIFO in bytes. What waits here waits for a rate, not for the device.
//!
//! Tokens are nanoseconds at the rate, as in Linux's `sch_tbf`. A super-packet larger than the bucket is cut.
use super::look::{LinkFacts, Size};
use super::spec::{RATES, TIMES, Words};
use super::stats::{Field, Stats, Value};
use super::{Dequeued, Gone, Qdisc};
use crate::base::{Cx, Instant};
use crate::offload;
use crate::packet::Packet;
use std::collections::VecDeque;

const NS_PER_S: u64 = 1_000_000_000;

/// A rate and how much of it may be saved up.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Bytes per second.
    rate: u64,
    /// Bytes.
    size: u32,
    /// Nanoseconds at the rate that are there.
    tokens: u64,
}

impl Bucket {
    fn new(rate: u64, size: u32) -> Self {
        let mut bucket = Self { rate, size, tokens: 0 };
        bucket.tokens = bucket.time(size);
        bucket
    }

    /// Nanoseconds that so many bytes take.
    fn time(&self, bytes: u32) -> u64 {
        (u128::from(bytes) * u128::from(NS_PER_S)).div_ceil(u128::from(self.rate)) as u64
    }

    fn filled(&self, passed: u64) -> u64 {
        self.tokens.saturating_add(passed).min(self.time(self.size))
    }

    /// Nanoseconds until `bytes` may go.
    fn wait(&self, passed: u64, bytes: u32) -> u64 {
        self.time(bytes).saturating_sub(self.filled(passed))
    }

    fn spend(&mut self, passed: u64, bytes: u32) {
        self.tokens = self.filled(passed).saturating_sub(self.time(bytes));
    }
}

/// How long the queue may be.
#[derive(Clone, Copy, Debug)]
enum Depth {
    Bytes(u32),
    /// Nanoseconds at the rate.
    Latency(u64),
}

/// The discipline.
#[derive(Debug)]
pub struct Tbf {
    bucket: Bucket,
    peak: Option<Bucket>,
    depth: Depth,
    /// Bytes that may wait.
    limit: u64,
    queue: VecDeque<(Packet, Size)>,
    /// When the tokens were counted.
    counted: Instant,
    link_len: usize,
    stats: Stats,
}

impl Tbf {
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        let (mut rate, mut burst, mut peakrate, mut mtu, mut depth) = (None, None, None, None, None);
        while let Some(option) = words.option(&[
            "rate", "burst", "buffer", "maxburst", "limit", "latency", "peakrate", "mtu", "minburst",
        ])? {
            match option {
                "rate" => rate = Some(words.rate()?),
                "burst" | "buffer" | "maxburst" => burst = Some(words.bytes()?),
                "limit" => depth = Some(Depth::Bytes(words.bytes()?)),
                "latency" => depth = Some(Depth::Latency(words.time_above_zero()?)),
                "peakrate" => peakrate = Some(words.rate()?),
                _ => mtu = Some(words.bytes()?),
            }
        }
        let rate = rate.ok_or_else(|| words.lacks("rate", RATES))?;
        let burst = burst.ok_or_else(|| words.lacks("burst", "bytes, as 32kb"))?;
        let depth =
            depth.ok_or_else(|| words.lacks("limit or latency", &format!("bytes, as 32kb; {TIMES}")))?;
        let peak = match (peakrate, mtu) {
            (Some(peak), Some(mtu)) if peak > rate => Some(Bucket::new(peak, mtu)),
            (Some(_), Some(_)) => return Err(words.lacks("a peakrate above its rate", RATES)),
            (Some(_), None) => return Err(words.lacks("mtu beside peakrate", "bytes, as 1540")),
            (None, _) => None,
        };
        let bucket = Bucket::new(rate, burst);
        let limit = match depth {
            Depth::Bytes(limit) => u64::from(limit),
            // What the bucket lets through at once does not wait.
            Depth::Latency(ns) => {
                let waiting = u128::from(rate) * u128::from(ns) / u128::from(NS_PER_S);
                u64::try_from(waiting)
                    .unwrap_or(u64::MAX)
                    .saturating_add(u64::from(burst))
                    .min(u64::from(u32::MAX))
            }
        };
        let (queue, counted) = (VecDeque::new(), Instant::ZERO);
        Ok(Self { bucket, peak, depth, limit, queue, counted, link_len: 0, stats: Stats::default() })
    }

    /// Largest packet that can ever leave.
    fn largest(&self) -> u32 {
        self.peak.map_or(self.bucket.size, |peak| peak.size.min(self.bucket.size))
    }

    fn accept(&mut self, packet: Packet, gone: &mut Gone) {
        let size = Size::of(&packet);
        if size.len > self.largest() || self.stats.backlog + u64::from(size.len) > self.limit {
            self.stats.drops += 1;
            return gone.refuse(packet);
        }
        self.stats.enter(size);
        self.queue.push_back((packet, size));
    }
}

impl Qdisc for Tbf {
    fn name(&self) -> &'static str {
        "tbf"
    }

    fn attach(&mut self, cx: &mut Cx<'_>, link: &LinkFacts) {
        self.link_len = link.link_len;
        self.counted = cx.now;
    }

    fn enqueue(&mut self, _cx: &mut Cx<'_>, packet: Packet, gone: &mut Gone) {
        if packet.offload.gso_size > 0 && Size::of(&packet).len > self.largest() {
            for segment in offload::segment(packet, self.link_len, false) {
                self.accept(segment, gone);
            }
        } else {
            self.accept(packet, gone);
        }
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, _gone: &mut Gone) -> Dequeued {
        let Some(&(_, size)) = self.queue.front() else { return Dequeued::Empty };
        let passed = cx.now.nanos_since(self.counted);
        let wait = self.bucket.wait(passed, size.len);
        let wait = wait.max(self.peak.map_or(0, |peak| peak.wait(passed, size.len)));
        if wait > 0 {
            self.stats.overlimits += 1;
            return Dequeued::NotBefore(cx.now.plus_nanos(wait));
        }
        self.bucket.spend(passed, size.len);
        if let Some(peak) = &mut self.peak {
            peak.spend(passed, size.len);
        }
        self.counted = cx.now;
        let Some((packet, size)) = self.queue.pop_front() else { return Dequeued::Empty };
        self.stats.leave(size);
        Dequeued::Packet(packet)
    }

    fn take(&mut self) -> Option<Packet> {
        let (packet, size) = self.queue.pop_front()?;
        self.stats.remove(size);
        Some(packet)
    }

    fn each(&self, f: &mut dyn FnMut(&Packet)) {
        self.queue.iter().for_each(|(packet, _)| f(packet));
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn options(&self, out: &mut Vec<Field>) {
        out.push(Field::new("rate", Value::Rate(self.bucket.rate)));
        out.push(Field::new("burst", Value::Bytes(self.bucket.size.into())));
        if let Some(peak) = &self.peak {
            out.push(Field::new("peakrate", Value::Rate(peak.rate)));
            out.push(Field::new("mtu", Value::Bytes(peak.size.into())));
        }
        out.push(match self.depth {
            Depth::Bytes(limit) => Field::new("limit", Value::Bytes(limit.into())),
            Depth::Latency(ns) => Field::new("latency", Value::Time(ns)),
        });
    }
}

#[cfg(test)]
mod tests;
