//! `fq_codel` (RFC 8290): flows by hash, served by deficit round robin, each with a CoDel of its own.
//!
//! Parameters, defaults and statistics as Linux's. Nothing walks over all flows: when the queue is too full, a fattest flow is
//! found in a set of lists by size, exact to a quarter of a power of two.
use super::codel::{Control, Counts, Line, Params};
use super::look::{LinkFacts, Reader, Size};
use super::spec::{QUANTUM_MIN, Words};
use super::stats::{Field, Stats, Value};
use super::store::{Chain, NIL, Store, Waiting};
use super::{Dequeued, Gone, Qdisc};
use crate::base::{Cx, Instant};
use crate::packet::Packet;

/// What Linux adds to TCP's payload in a buffer of its own: the room for headers, the descriptor and the metadata.
const TCP_HEAD: u64 = 832;
/// Room in front of any other packet, and metadata behind it, in the buffer whose size is a power of two; its descriptor beside.
const FRONT: u64 = 64;
const BEHIND: u64 = 320;
const DESCRIPTOR: u64 = 256;
/// Smallest of those buffers.
const BUFFER_MIN: u64 = 512;
/// Lists of flows by size: four for each power of two of bytes.
const FAT_LISTS: usize = 160;
const FLOWS_MAX: u32 = 65_536;

/// One hash bucket.
#[derive(Clone, Debug)]
struct Flow {
    queue: Chain,
    control: Control,
    deficit: i64,
    /// The next one in the list of turns.
    next: u32,
    listed: bool,
    /// Its list by size, and its neighbours there.
    fat: Fat,
}

#[derive(Clone, Copy, Debug)]
struct Fat {
    list: u8,
    prev: u32,
    next: u32,
}

const THIN: Fat = Fat { list: u8::MAX, prev: NIL, next: NIL };

impl Flow {
    fn new() -> Self {
        let (queue, control) = (Chain::default(), Control::default());
        Self { queue, control, deficit: 0, next: NIL, listed: false, fat: THIN }
    }
}

/// Turns of flows.
#[derive(Clone, Copy, Debug)]
struct Turns {
    first: u32,
    last: u32,
    len: u64,
}

impl Turns {
    const EMPTY: Self = Self { first: NIL, last: NIL, len: 0 };

    fn append(&mut self, flows: &mut [Flow], index: u32) {
        flows[index as usize].next = NIL;
        match self.last {
            NIL => self.first = index,
            last => flows[last as usize].next = index,
        }
        self.last = index;
        self.len += 1;
    }

    fn advance(&mut self, flows: &[Flow]) {
        self.first = flows[self.first as usize].next;
        if self.first == NIL {
            self.last = NIL;
        }
        self.len -= 1;
    }
}

/// The parameters beside CoDel's.
#[derive(Clone, Debug)]
struct Config {
    limit: u32,
    flows: u32,
    /// 0 until the device says it.
    quantum: u32,
    memory_limit: u32,
    drop_batch: u32,
    codel: Params,
}

/// The discipline.
#[derive(Debug)]
pub struct FqCodel {
    config: Config,
    reader: Reader,
    store: Store,
    flows: Vec<Flow>,
    new: Turns,
    old: Turns,
    /// First flow of each list by size, and which lists have one.
    fattest: FatLists,
    memory: u64,
    counts: Counts,
    stats: Stats,
    new_flow_count: u64,
    drop_overmemory: u64,
}

#[derive(Debug)]
struct FatLists {
    first: Vec<u32>,
    used: [u64; 3],
}

impl FatLists {
    fn new() -> Self {
        Self { first: vec![NIL; FAT_LISTS], used: [0; 3] }
    }

    /// The list for so many bytes: the power of two and the two bits below it.
    const fn of(bytes: u64) -> u8 {
        if bytes == 0 {
            return u8::MAX;
        }
        let log = bytes.ilog2();
        let fraction = if log >= 2 { bytes >> (log - 2) & 3 } else { 0 };
        let list = log as usize * 4 + fraction as usize;
        (if list < FAT_LISTS { list } else { FAT_LISTS - 1 }) as u8
    }

    /// The flow has another size now.
    fn update(&mut self, flows: &mut [Flow], index: u32) {
        let list = Self::of(flows[index as usize].queue.bytes());
        let Fat { list: old, prev, next } = flows[index as usize].fat;
        if list == old {
            return;
        }
        if old != u8::MAX {
            match prev {
                NIL => self.first[usize::from(old)] = next,
                prev => flows[prev as usize].fat.next = next,
            }
            if next != NIL {
                flows[next as usize].fat.prev = prev;
            }
            if self.first[usize::from(old)] == NIL {
                self.used[usize::from(old) / 64] &= !(1 << (old % 64));
            }
        }
        if list == u8::MAX {
            flows[index as usize].fat = THIN;
            return;
        }
        let head = core::mem::replace(&mut self.first[usize::from(list)], index);
        if head != NIL {
            flows[head as usize].fat.prev = index;
        }
        flows[index as usize].fat = Fat { list, prev: NIL, next: head };
        self.used[usize::from(list) / 64] |= 1 << (list % 64);
    }

    fn fattest(&self) -> Option<u32> {
        let word = self.used.iter().rposition(|w| *w != 0)?;
        self.first.get(word * 64 + self.used[word].ilog2() as usize).copied()
    }
}

impl Default for FqCodel {
    fn default() -> Self {
        let config = Config {
            limit: 10_240,
            flows: 1_024,
            quantum: 0,
            memory_limit: 32 << 20,
            drop_batch: 64,
            codel: Params::new(true),
        };
        Self::new(config)
    }
}

impl FqCodel {
    fn new(config: Config) -> Self {
        Self {
            flows: vec![Flow::new(); config.flows as usize],
            config,
            reader: Reader::default(),
            store: Store::default(),
            new: Turns::EMPTY,
            old: Turns::EMPTY,
            fattest: FatLists::new(),
            memory: 0,
            counts: Counts::default(),
            stats: Stats::default(),
            new_flow_count: 0,
            drop_overmemory: 0,
        }
    }

    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        let mut c = Self::default().config;
        while let Some(option) = words.option(&[
            "limit",
            "flows",
            "quantum",
            "target",
            "interval",
            "ecn",
            "noecn",
            "ce_threshold",
            "ce_threshold_selector",
            "memory_limit",
            "drop_batch",
        ])? {
            match option {
                "limit" => c.limit = words.packets()?,
                "flows" => c.flows = words.count(1, FLOWS_MAX)?,
                "quantum" => c.quantum = words.quantum()?,
                "memory_limit" => c.memory_limit = words.bytes()?,
                "drop_batch" => c.drop_batch = words.count(1, u32::MAX)?,
                _ => c.codel.read(option, words)?,
            }
        }
        Ok(Self::new(c))
    }

    /// A fattest flow loses from its head: half of it, but no more than a batch (RFC 8290 section 4.1.3).
    fn drop_from_fattest(&mut self, gone: &mut Gone) {
        let Some(index) = self.fattest.fattest() else { return };
        let flow = &mut self.flows[index as usize];
        let enough = flow.queue.bytes() / 2;
        let mut dropped = 0;
        for _ in 0..self.config.drop_batch {
            let Some(waiting) = self.store.pop_front(&mut flow.queue) else { break };
            dropped += u64::from(waiting.size.len);
            flow.control.count = flow.control.count.saturating_add(1);
            self.memory -= memory(&self.reader, &waiting.packet);
            self.stats.remove(waiting.size);
            self.stats.drops += 1;
            gone.drop(waiting.packet);
            if dropped >= enough {
                break;
            }
        }
        self.fattest.update(&mut self.flows, index);
    }

    fn next_flow(&mut self) -> Option<(u32, bool)> {
        loop {
            let new = self.new.first != NIL;
            let turns = if new { &mut self.new } else { &mut self.old };
            let index = turns.first;
            let flow = self.flows.get_mut(index as usize)?;
            if flow.deficit > 0 {
                return Some((index, new));
            }
            flow.deficit += i64::from(self.config.quantum);
            turns.advance(&self.flows);
            self.old.append(&mut self.flows, index);
        }
    }

    /// The flow is empty; a new one goes round once more with the old ones, lest it starve them.
    fn retire(&mut self, index: u32, new: bool) {
        let turns = if new { &mut self.new } else { &mut self.old };
        turns.advance(&self.flows);
        if new && self.old.first != NIL {
            self.old.append(&mut self.flows, index);
        } else {
            self.flows[index as usize].listed = false;
        }
    }

    fn pop(&mut self, now: Instant, index: u32, gone: &mut Gone) -> Option<Waiting> {
        let before = gone.packets.len();
        let flow = &mut self.flows[index as usize];
        let mut line = Line {
            params: &self.config.codel,
            counts: &mut self.counts,
            stats: &mut self.stats,
            store: &mut self.store,
            chain: &mut flow.queue,
            reader: &self.reader,
        };
        let next = flow.control.dequeue(now, &mut line, gone);
        let dropped = gone.packets.iter().skip(before).map(|(packet, _)| packet);
        let left = dropped.chain(next.iter().map(|w| &w.packet));
        self.memory -= left.map(|packet| memory(&self.reader, packet)).sum::<u64>();
        self.fattest.update(&mut self.flows, index);
        next
    }
}

/// What Linux would charge for a packet (`truesize`), whatever it pins here: `memory_limit` is said in these bytes.
fn memory(reader: &Reader, packet: &Packet) -> u64 {
    if !packet.head.is_empty() && !packet.payload.is_empty() && reader.has_departure(packet) {
        return packet.payload.len() as u64 + TCP_HEAD;
    }
    let buffer = (packet.len() as u64 + FRONT + BEHIND).next_power_of_two();
    buffer.max(BUFFER_MIN) + DESCRIPTOR
}

impl Qdisc for FqCodel {
    fn name(&self) -> &'static str {
        "fq_codel"
    }

    fn attach(&mut self, cx: &mut Cx<'_>, link: &LinkFacts) {
        self.reader = Reader::new(link, &mut cx.rng.fork("fq_codel"));
        self.config.codel.mtu = link.frame();
        if self.config.quantum == 0 {
            self.config.quantum = link.frame().max(QUANTUM_MIN);
        }
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet, gone: &mut Gone) {
        let size = Size::of(&packet);
        let hash = self.reader.flow(&packet).hash;
        let index = ((u128::from(hash) * self.flows.len() as u128) >> 64) as u32;
        self.memory += memory(&self.reader, &packet);
        self.stats.enter(size);
        let flow = &mut self.flows[index as usize];
        self.store.push_back(&mut flow.queue, Waiting { packet, size, at: cx.now });
        if !core::mem::replace(&mut flow.listed, true) {
            flow.deficit = i64::from(self.config.quantum);
            self.new_flow_count += 1;
            self.new.append(&mut self.flows, index);
        }
        self.fattest.update(&mut self.flows, index);
        let over_memory = self.memory > u64::from(self.config.memory_limit);
        if self.stats.qlen <= u64::from(self.config.limit) && !over_memory {
            return;
        }
        let before = self.stats.drops;
        self.drop_from_fattest(gone);
        let dropped = self.stats.drops - before;
        self.counts.drop_overlimit += dropped;
        if over_memory {
            self.drop_overmemory += dropped;
        }
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, gone: &mut Gone) -> Dequeued {
        loop {
            let Some((index, new)) = self.next_flow() else { return Dequeued::Empty };
            match self.pop(cx.now, index, gone) {
                Some(waiting) => {
                    self.flows[index as usize].deficit -= i64::from(waiting.size.len);
                    self.stats.sent(waiting.size);
                    return Dequeued::Packet(waiting.packet);
                }
                None => self.retire(index, new),
            }
        }
    }

    fn take(&mut self) -> Option<Packet> {
        let index = self.fattest.fattest()?;
        let waiting = self.store.pop_front(&mut self.flows[index as usize].queue)?;
        self.fattest.update(&mut self.flows, index);
        self.memory -= memory(&self.reader, &waiting.packet);
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
        let c = &self.config;
        out.extend([
            Field::new("limit", Value::Packets(c.limit.into())),
            Field::new("flows", Value::Count(c.flows.into())),
            Field::new("quantum", Value::Count(c.quantum.into())),
        ]);
        c.codel.show_times(out);
        out.push(Field::new("memory_limit", Value::Bytes(c.memory_limit.into())));
        if c.codel.ecn {
            out.push(Field::new("ecn", Value::Flag));
        }
        out.push(Field::new("drop_batch", Value::Count(c.drop_batch.into())));
    }

    fn details(&self, out: &mut Vec<Field>) {
        let k = &self.counts;
        out.extend([
            Field::line("maxpacket", Value::Count(k.maxpacket.into())),
            Field::new("drop_overlimit", Value::Count(k.drop_overlimit)),
            Field::new("new_flow_count", Value::Count(self.new_flow_count)),
            Field::new("ecn_mark", Value::Count(k.ecn_mark)),
        ]);
        let rare =
            [("ce_mark", k.ce_mark), ("memory_used", self.memory), ("drop_overmemory", self.drop_overmemory)];
        out.extend(rare.into_iter().filter(|r| r.1 > 0).map(|(name, n)| Field::new(name, Value::Count(n))));
        out.extend([
            Field::line("new_flows_len", Value::Count(self.new.len)),
            Field::new("old_flows_len", Value::Count(self.old.len)),
        ]);
    }
}

#[cfg(test)]
mod tests;
