//! CoDel (RFC 8289): what has waited too long for a whole interval is marked or dropped, at the head of the queue.
//!
//! The controller is used by `fq_codel` too. Parameters, statistics and the spacing of drops are those of Linux's `codel`, whose
//! control law comes nearer to the root with each drop.
use super::look::{LinkFacts, Reader, Size};
use super::spec::Words;
use super::stats::{Field, Stats, Value};
use super::store::{Chain, Store, Waiting};
use super::{Dequeued, Gone, Qdisc};
use crate::base::{Cx, Instant};
use crate::packet::Packet;

/// Intervals after which an episode of dropping is forgotten.
const MEMORY_INTERVALS: u64 = 16;

/// Parameters of the controller, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Params {
    /// Waiting time that is acceptable.
    pub(super) target: u64,
    /// How long it may be exceeded: about the longest RTT.
    pub(super) interval: u64,
    /// Mark instead of dropping where the transport hears it.
    pub(super) ecn: bool,
    /// Whatever waited longer is marked; `u64::MAX` for never.
    pub(super) ce_threshold: u64,
    /// Of these only: the type of service, and which bits of it count; a mask of zero is all packets.
    pub(super) ce_selector: (u8, u8),
    /// A backlog of at most this many bytes is never too much.
    pub(super) mtu: u32,
}

impl Params {
    pub(super) const fn new(ecn: bool) -> Self {
        let (ce_threshold, ce_selector) = (u64::MAX, (0, 0));
        Self { target: 5_000_000, interval: 100_000_000, ecn, ce_threshold, ce_selector, mtu: 1_500 }
    }

    /// Reads the value of an option of the controller.
    pub(super) fn read(&mut self, option: &str, words: &mut Words<'_>) -> Result<(), String> {
        match option {
            "target" => self.target = words.time()?,
            "interval" => self.interval = words.time_above_zero()?,
            "ce_threshold" => self.ce_threshold = words.time()?,
            "ce_threshold_selector" => self.ce_selector = words.value(selector, SELECTORS)?,
            "ecn" => self.ecn = true,
            _ => self.ecn = false,
        }
        Ok(())
    }

    /// `ce_threshold` is for packets of this type of service.
    const fn selects(&self, class: Option<u8>) -> bool {
        let (value, mask) = self.ce_selector;
        match class {
            Some(class) => class & mask == value || mask == 0,
            None => mask == 0,
        }
    }

    pub(super) fn show_times(&self, out: &mut Vec<Field>) {
        out.push(Field::new("target", Value::Time(self.target)));
        if self.ce_threshold != u64::MAX {
            out.push(Field::new("ce_threshold", Value::Time(self.ce_threshold)));
        }
        if self.ce_selector.1 != 0 {
            let (value, mask) = self.ce_selector;
            out.push(Field::new("ce_threshold_selector", Value::Text(format!("{value:#x}/{mask:#x}"))));
        }
        out.push(Field::new("interval", Value::Time(self.interval)));
    }
}

const SELECTORS: &str = "VALUE/MASK of the type of service, as 0x1/0x3";

/// Two bytes, each in decimal or, behind "0x", in hexadecimal.
fn selector(word: &str) -> Option<(u8, u8)> {
    let byte = |w: &str| match w.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16).ok(),
        None => w.parse().ok(),
    };
    let (value, mask) = word.split_once('/')?;
    Some((byte(value)?, byte(mask)?))
}

/// The state of one queue's controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Control {
    pub(super) count: u32,
    lastcount: u32,
    /// About 1 / sqrt(count), in 2^-16 (`rec_inv_sqrt`).
    root: u16,
    dropping: bool,
    first_above: Option<Instant>,
    /// When the next drop is due; `None` before the first one.
    drop_next: Option<Instant>,
    /// Waiting time of the last packet, in nanoseconds (`ldelay`).
    delay: u64,
}

/// Counts of one discipline's controllers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Largest packet that left.
    pub(super) maxpacket: u32,
    pub(super) ecn_mark: u64,
    pub(super) ce_mark: u64,
    /// Packets that met a full queue.
    pub(super) drop_overlimit: u64,
}

/// What a controller works with: the queue is the discipline's.
pub(super) struct Line<'a> {
    pub(super) params: &'a Params,
    pub(super) counts: &'a mut Counts,
    pub(super) stats: &'a mut Stats,
    pub(super) store: &'a mut Store,
    pub(super) chain: &'a mut Chain,
    pub(super) reader: &'a Reader,
}

impl Line<'_> {
    fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.store.pop_front(self.chain)?;
        self.stats.remove(waiting.size);
        self.counts.maxpacket = self.counts.maxpacket.max(waiting.size.len);
        Some(waiting)
    }

    fn drop(&mut self, waiting: Waiting, gone: &mut Gone) {
        self.stats.drops += 1;
        gone.drop(waiting.packet);
    }

    /// Marks instead of a drop, where that is wanted and can be heard.
    fn mark(&mut self, waiting: &mut Waiting) -> bool {
        let marked = self.params.ecn && self.reader.mark(&mut waiting.packet);
        self.counts.ecn_mark += u64::from(marked);
        marked
    }
}

impl Default for Control {
    /// Nothing dropped yet. The root is that of one drop: from zero, Newton's method leads nowhere.
    fn default() -> Self {
        Self {
            count: 0,
            lastcount: 0,
            root: u16::MAX,
            dropping: false,
            first_above: None,
            drop_next: None,
            delay: 0,
        }
    }
}

impl Control {
    /// One step of Newton's method towards 1 / sqrt(count): x (3 - count x^2) / 2 (`codel_Newton_step`). One drop more never asks for
    /// more than count x^2 = 2. Where many were counted without a step (`fq_codel` made room) the method leads nowhere from 3 on, and to
    /// nearly nothing from just below; and from so small a root back it cannot come, for want of bits.
    fn step(&mut self) {
        /// Smallest root that grows where it is too small: half of it more is rounded down.
        const ROOT_MIN: u16 = 3;
        let x = u64::from(self.root) << 16;
        let count = u64::from(self.count);
        let excess = count * ((x * x) >> 32);
        self.root = if excess <= 2 << 32 && self.root >= ROOT_MIN {
            (((((3_u64 << 32) - excess) >> 2) * x) >> 47) as u16
        } else {
            ((1_u64 << 32) / count.max(1)).isqrt().min(u64::from(u16::MAX)) as u16
        };
    }

    /// The next drop comes so much later (RFC 8289 section 3.3).
    fn law(&self, params: &Params, from: Instant) -> Instant {
        from.plus_nanos(((u128::from(params.interval) * u128::from(self.root)) >> 16) as u64)
    }

    /// True when the queue has been too slow for an interval (`dodequeue` of RFC 8289 section 5.6).
    fn too_long(&mut self, now: Instant, line: &Line<'_>, waiting: Option<&Waiting>) -> bool {
        let Some(waiting) = waiting else {
            self.first_above = None;
            return false;
        };
        self.delay = now.nanos_since(waiting.at);
        if self.delay < line.params.target || line.stats.backlog <= u64::from(line.params.mtu) {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now.plus_nanos(line.params.interval));
                false
            }
            Some(at) => now > at,
        }
    }

    /// The next packet that goes on; what is given up before it is in `gone` (RFC 8289 section 5.5).
    pub(super) fn dequeue(&mut self, now: Instant, line: &mut Line<'_>, gone: &mut Gone) -> Option<Waiting> {
        let mut next = line.pop();
        if next.is_none() {
            // What was above the target stays so: the next packet tells.
            self.dropping = false;
            return None;
        }
        let too_long = self.too_long(now, line, next.as_ref());
        if self.dropping {
            if too_long {
                next = self.keep_dropping(now, line, next, gone);
            } else {
                self.dropping = false;
            }
        } else if too_long && let Some(mut waiting) = next.take() {
            if line.mark(&mut waiting) {
                next = Some(waiting);
            } else {
                line.drop(waiting, gone);
                next = line.pop();
                self.too_long(now, line, next.as_ref());
            }
            self.begin(now, line.params);
        }
        if let Some(waiting) = &mut next
            && now.nanos_since(waiting.at) > line.params.ce_threshold
            && line.params.selects(line.reader.class(&waiting.packet))
            && line.reader.mark(&mut waiting.packet)
        {
            line.counts.ce_mark += 1;
        }
        next
    }

    fn keep_dropping(
        &mut self,
        now: Instant,
        line: &mut Line<'_>,
        mut next: Option<Waiting>,
        gone: &mut Gone,
    ) -> Option<Waiting> {
        while self.dropping
            && let Some(due) = self.drop_next.filter(|due| now >= *due)
        {
            let mut waiting = next.take()?;
            self.count = self.count.saturating_add(1);
            self.step();
            if line.mark(&mut waiting) {
                self.drop_next = Some(self.law(line.params, due));
                return Some(waiting);
            }
            line.drop(waiting, gone);
            next = line.pop();
            if self.too_long(now, line, next.as_ref()) {
                self.drop_next = Some(self.law(line.params, due));
            } else {
                self.dropping = false;
            }
        }
        next
    }

    /// An episode begins, where the last one left off if that is not long ago.
    fn begin(&mut self, now: Instant, params: &Params) {
        self.dropping = true;
        let delta = self.count.wrapping_sub(self.lastcount);
        let memory = params.interval.saturating_mul(MEMORY_INTERVALS);
        let recent = self.drop_next.is_some_and(|due| now.nanos_since(due) < memory);
        if delta > 1 && recent {
            self.count = delta;
            self.step();
        } else {
            (self.count, self.root) = (1, u16::MAX);
        }
        self.lastcount = self.count;
        self.drop_next = Some(self.law(params, now));
    }
}

/// The discipline: one queue with a controller.
#[derive(Debug)]
pub struct Codel {
    limit: u32,
    params: Params,
    control: Control,
    counts: Counts,
    reader: Reader,
    store: Store,
    chain: Chain,
    stats: Stats,
}

impl Default for Codel {
    fn default() -> Self {
        Self {
            limit: 1_000,
            params: Params::new(false),
            control: Control::default(),
            counts: Counts::default(),
            reader: Reader::default(),
            store: Store::default(),
            chain: Chain::default(),
            stats: Stats::default(),
        }
    }
}

impl Codel {
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        let mut codel = Self::default();
        while let Some(option) =
            words.option(&["limit", "target", "interval", "ecn", "noecn", "ce_threshold"])?
        {
            match option {
                "limit" => codel.limit = words.packets()?,
                _ => codel.params.read(option, words)?,
            }
        }
        Ok(codel)
    }
}

impl Qdisc for Codel {
    fn name(&self) -> &'static str {
        "codel"
    }

    fn attach(&mut self, cx: &mut Cx<'_>, link: &LinkFacts) {
        self.reader = Reader::new(link, &mut cx.rng.fork("codel"));
        self.params.mtu = link.frame();
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet, gone: &mut Gone) {
        if self.stats.qlen >= u64::from(self.limit) {
            self.counts.drop_overlimit += 1;
            self.stats.drops += 1;
            return gone.refuse(packet);
        }
        let size = Size::of(&packet);
        self.stats.enter(size);
        self.store.push_back(&mut self.chain, Waiting { packet, size, at: cx.now });
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, gone: &mut Gone) -> Dequeued {
        let mut line = Line {
            params: &self.params,
            counts: &mut self.counts,
            stats: &mut self.stats,
            store: &mut self.store,
            chain: &mut self.chain,
            reader: &self.reader,
        };
        let Some(waiting) = self.control.dequeue(cx.now, &mut line, gone) else { return Dequeued::Empty };
        self.stats.sent(waiting.size);
        Dequeued::Packet(waiting.packet)
    }

    fn take(&mut self) -> Option<Packet> {
        let waiting = self.store.pop_front(&mut self.chain)?;
        self.stats.remove(waiting.size);
        Some(waiting.packet)
    }

    fn each(&self, f: &mut dyn FnMut(&Packet)) {
        self.store.each(f);
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn stats_mut(&mut self) -> Option<&mut Stats> {
        Some(&mut self.stats)
    }

    fn options(&self, out: &mut Vec<Field>) {
        out.push(Field::new("limit", Value::Packets(self.limit.into())));
        self.params.show_times(out);
        if self.params.ecn {
            out.push(Field::new("ecn", Value::Flag));
        }
    }

    fn details(&self, out: &mut Vec<Field>) {
        let (c, k) = (&self.control, &self.counts);
        out.extend([
            Field::line("count", Value::Count(c.count.into())),
            Field::new("lastcount", Value::Count(c.lastcount.into())),
            Field::new("ldelay", Value::Time(c.delay)),
        ]);
        if c.dropping {
            out.push(Field::new("dropping", Value::Flag));
        }
        out.extend([
            Field::line("maxpacket", Value::Count(k.maxpacket.into())),
            Field::new("ecn_mark", Value::Count(k.ecn_mark)),
            Field::new("drop_overlimit", Value::Count(k.drop_overlimit)),
        ]);
        if k.ce_mark > 0 {
            out.push(Field::new("ce_mark", Value::Count(k.ce_mark)));
        }
    }
}

#[cfg(test)]
mod tests;
