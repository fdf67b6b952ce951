//! `tbf`: a token bucket in front of a FIFO in bytes, or of another discipline. What waits here waits for a rate, not for the device.
//!
//! Tokens are nanoseconds at the rate, as in Linux's `sch_tbf`. A super-packet larger than the bucket is cut.
use super::inner::Inner;
use super::look::{LinkFacts, Size};
use super::spec::{CHILD, RATES, TIMES, Words};
use super::stats::{Field, Report, Stats, Value};
use super::{Dequeued, Fate, Fifo, Gone, Qdisc};
use crate::base::{Cx, Instant};
use crate::credit::PACKET_CHARGE;
use crate::offload;
use crate::packet::{GsoKind, Packet};

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

    /// Bytes that may wait so that none waits longer than `ns`: what the bucket lets through at once does not wait.
    fn within(&self, ns: u64) -> u32 {
        let waiting = u128::from(self.rate) * u128::from(ns) / u128::from(NS_PER_S);
        u32::try_from(waiting).unwrap_or(u32::MAX).saturating_add(self.size)
    }

    /// How long the last of `bytes` waits, in nanoseconds.
    fn latency(&self, bytes: u32) -> u64 {
        self.time(bytes).saturating_sub(self.time(self.size))
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
    /// Bytes that may wait, where they were said.
    limit: Option<u32>,
    /// What waits; a FIFO unless another one was given.
    inner: Inner,
    /// When the tokens were counted.
    counted: Instant,
    link_len: usize,
    stats: Stats,
}

const OPTIONS: &[&str] =
    &["rate", "burst", "buffer", "maxburst", "limit", "latency", "peakrate", "mtu", "minburst", CHILD];

impl Tbf {
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        let (mut rate, mut burst, mut peakrate, mut mtu, mut depth) = (None, None, None, None, None);
        let (mut child, mut said) = (None, Vec::new());
        while let Some(option) = words.option(OPTIONS)? {
            // Whatever is said twice is a mistake, as to `tc`.
            let twice = match option {
                "rate" => rate.replace(words.rate()?).is_some(),
                "burst" | "buffer" | "maxburst" => burst.replace(words.bytes()?).is_some(),
                "limit" => depth.replace(Depth::Bytes(words.bytes()?)).is_some(),
                "latency" => depth.replace(Depth::Latency(words.time_above_zero()?)).is_some(),
                "peakrate" => peakrate.replace(words.rate()?).is_some(),
                CHILD => child.replace(Inner::parse(words)?).is_some(),
                _ => mtu.replace(words.bytes()?).is_some(),
            };
            if twice {
                return Err(
                    words.twice(before(&said, option).as_deref(), "one of each, and limit or latency")
                );
            }
            said.push(option);
        }
        let rate = rate.ok_or_else(|| words.lacks("rate", RATES))?;
        let burst = burst.ok_or_else(|| words.lacks("burst", "bytes, as 32kb"))?;
        let peak = match (peakrate, mtu) {
            (Some(peak), Some(mtu)) if peak > rate => Some(Bucket::new(peak, mtu)),
            (Some(_), Some(_)) => return Err(words.lacks("a peakrate above its rate", RATES)),
            (Some(_), None) => return Err(words.lacks("mtu beside peakrate", "bytes, as 1540")),
            (None, _) => None,
        };
        let bucket = Bucket::new(rate, burst);
        let limit = match depth {
            Some(Depth::Bytes(limit)) => limit,
            Some(Depth::Latency(ns)) => peak.iter().map(|p| p.within(ns)).fold(bucket.within(ns), u32::min),
            None if child.is_some() => 0,
            None => return Err(words.lacks("limit, latency or child", &format!("bytes, as 32kb; {TIMES}"))),
        };
        let inner = child.unwrap_or_else(|| Inner::own(Fifo::bytes(limit.max(1)).into()));
        let (counted, stats) = (Instant::ZERO, Stats::default());
        Ok(Self { bucket, peak, limit: depth.map(|_| limit), inner, counted, link_len: 0, stats })
    }

    /// Largest packet that can ever leave.
    fn largest(&self) -> u32 {
        self.peak.map_or(self.bucket.size, |peak| peak.size.min(self.bucket.size))
    }
}

/// What `option` is to the one that took its place before; `None` where that was itself.
fn before(said: &[&str], option: &str) -> Option<String> {
    let alike = |names: &[&'static str]| names.iter().find(|n| **n != option && said.contains(n)).copied();
    match option {
        _ if said.contains(&option) => None,
        "limit" | "latency" => alike(&["limit", "latency"]).map(|other| format!("excludes {other}")),
        "mtu" | "minburst" => alike(&["mtu", "minburst"]).map(|other| format!("is {other} once more")),
        _ => alike(&["burst", "buffer", "maxburst"]).map(|other| format!("is {other} once more")),
    }
}

impl Qdisc for Tbf {
    fn name(&self) -> &'static str {
        "tbf"
    }

    fn attach(&mut self, cx: &mut Cx<'_>, link: &LinkFacts) {
        self.link_len = link.link_len;
        self.counted = cx.now;
        self.inner.attach(cx, link);
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet, gone: &mut Gone) {
        let (size, largest) = (Size::of(&packet), self.largest());
        if size.len <= largest {
            return self.inner.enqueue(cx, packet, gone, &mut self.stats);
        }
        // One whose segments cannot pass either is given up whole (`skb_gso_validate_mac_len`).
        if packet.offload.gso_size == 0 || largest_segment(&packet, size) > largest {
            self.stats.drops += 1;
            return gone.refuse(packet);
        }
        let (mut taken, before, owner) = (false, gone.packets.len(), packet.owner);
        // A train of SCTP has paid for each of its packets.
        let each = if packet.offload.gso == GsoKind::Sctp { 0 } else { PACKET_CHARGE };
        let segments = offload::segment(packet, self.link_len, false);
        let pieces = segments.len() as u32;
        let more = pieces.saturating_sub(1) * each;
        let mut owners = owner.into_iter().flat_map(|owner| owner.cut(pieces, more));
        for segment in segments {
            let from = gone.packets.len();
            let segment = Packet { owner: owners.next(), ..segment };
            self.inner.enqueue(cx, segment, gone, &mut self.stats);
            taken |= gone.packets[from..].iter().all(|(_, fate)| *fate != Fate::Refused);
        }
        if !taken {
            return gone.refuse_whole(before, owner);
        }
        gone.release_refused(before);
        // Each is charged for its own headers from now on, and gives that back by itself (`tcp_gso_segment`).
        gone.grown.extend(owner.map(|owner| (owner, more)));
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, gone: &mut Gone) -> Dequeued {
        let size = match self.inner.peek(cx, gone, &mut self.stats) {
            Ok(size) => size,
            Err(idle) => return idle.into(),
        };
        let passed = cx.now.nanos_since(self.counted);
        let wait = self.bucket.wait(passed, size.len);
        let wait = wait.max(self.peak.map_or(0, |peak| peak.wait(passed, size.len)));
        if wait > 0 {
            self.stats.overlimits += 1;
            return Dequeued::NotBefore(cx.now.plus_nanos(wait));
        }
        let packet = match self.inner.dequeue(cx, gone, &mut self.stats) {
            Ok(packet) => packet,
            Err(idle) => return idle.into(),
        };
        self.bucket.spend(passed, size.len);
        if let Some(peak) = &mut self.peak {
            peak.spend(passed, size.len);
        }
        self.counted = cx.now;
        self.stats.sent(size);
        Dequeued::Packet(packet)
    }

    fn take(&mut self) -> Option<Packet> {
        self.inner.take(&mut self.stats)
    }

    fn each(&self, f: &mut dyn FnMut(&Packet)) {
        self.inner.each(f);
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn stats_mut(&mut self) -> Option<&mut Stats> {
        Some(&mut self.stats)
    }

    fn options(&self, out: &mut Vec<Field>) {
        out.push(Field::new("rate", Value::Rate(self.bucket.rate)));
        out.push(Field::new("burst", Value::Bytes(self.bucket.size.into())));
        if let Some(peak) = &self.peak {
            out.push(Field::new("peakrate", Value::Rate(peak.rate)));
            out.push(Field::new("minburst", Value::Bytes(peak.size.into())));
        }
        // Whichever was said, `tc` shows the time.
        out.extend(self.limit.map(|limit| {
            let peak = self.peak.map_or(0, |peak| peak.latency(limit));
            Field::new("lat", Value::Time(self.bucket.latency(limit).max(peak)))
        }));
    }

    fn children(&self) -> Vec<Report> {
        self.inner.reports()
    }

    fn honours_departure(&self) -> bool {
        self.inner.honours_departure()
    }
}

/// Bytes on the wire of a super-packet's largest segment.
fn largest_segment(packet: &Packet, size: Size) -> u32 {
    match size.segs {
        0 | 1 => size.len,
        segs => (size.len - packet.len() as u32) / (segs - 1) + u32::from(packet.offload.gso_size),
    }
}

#[cfg(test)]
mod tests;
