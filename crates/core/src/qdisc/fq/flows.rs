//! The flows of `fq`: found by hash, chained in lists, and forgotten some time after their last packet.
use super::super::store::{Chain, NIL};
use crate::base::Instant;
use crate::base::hash::{KeyedState, Map};

/// Place of a flow.
pub(super) type Index = u32;

/// Nanoseconds after which a flow without packets may be forgotten (`FQ_GC_AGE`).
const FORGET_AFTER_NS: u64 = 3_000_000_000;
/// Flows forgotten when a new one comes: more than one, so that the table shrinks (`FQ_GC_MAX`).
const FORGET_AT_ONCE: u64 = 8;
/// Flows without packets that are remembered; beyond, the one that has been idle longest is forgotten, whatever its age.
const IDLE_MAX: u32 = 65_536;

/// A flow.
#[derive(Debug)]
pub(super) struct Flow {
    key: u64,
    pub(super) queue: Chain,
    /// Bytes that it may still send in this turn.
    pub(super) credit: i64,
    /// Nothing goes before this: its rate, and the time of its first packet when that was last looked at.
    pub(super) next: Instant,
    /// Its rate alone.
    pub(super) paced: Instant,
    /// Number of its place among those that wait; 0 where it does not.
    pub(super) waits: u64,
    /// Neighbours in the list that it stands in; of an idle flow in both directions.
    after: Index,
    before: Index,
    /// Since when it has been without a packet; `None` while it stands in a list or waits.
    idle_since: Option<Instant>,
}

/// A FIFO of flows.
#[derive(Debug)]
pub(super) struct List {
    first: Index,
    last: Index,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NIL, last: NIL }
    }
}

impl List {
    pub(super) const fn is_empty(&self) -> bool {
        self.first == NIL
    }
    pub(super) fn first(&self) -> Option<Index> {
        (self.first != NIL).then_some(self.first)
    }
}

/// All flows.
#[derive(Debug)]
pub(super) struct Flows {
    slots: Vec<Flow>,
    /// The keys are keyed hashes already; this hash needs no secret.
    table: Map<u64, Index>,
    free: Vec<Index>,
    /// Idle flows, the one that has been so longest first.
    idle: List,
    idle_len: u32,
    /// Below so many flows none is forgotten for its age.
    many: usize,
}

impl Flows {
    /// A table that looks for flows to forget once it has twice as many as `buckets`, most of them idle (`fq_classify`).
    pub(super) fn new(buckets: u32) -> Self {
        let table = Map::with_hasher(KeyedState::new(0, 0));
        Self {
            slots: Vec::new(),
            table,
            free: Vec::new(),
            idle: List::default(),
            idle_len: 0,
            many: 2 * buckets as usize,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn inactive(&self) -> u64 {
        u64::from(self.idle_len)
    }

    pub(super) fn get_mut(&mut self, index: Index) -> &mut Flow {
        &mut self.slots[index as usize]
    }

    /// The flow of `key`, made with `credit` if it is new, and how many old ones were forgotten for it.
    pub(super) fn of(&mut self, key: u64, now: Instant, credit: i64) -> (Index, u64) {
        if let Some(&index) = self.table.get(&key) {
            return (index, 0);
        }
        let forgotten = self.forget(now);
        let flow = Flow {
            key,
            queue: Chain::default(),
            credit,
            next: Instant::ZERO,
            paced: Instant::ZERO,
            waits: 0,
            after: NIL,
            before: NIL,
            idle_since: None,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = flow;
                index
            }
            None => {
                self.slots.push(flow);
                (self.slots.len() - 1) as Index
            }
        };
        self.table.insert(key, index);
        self.idle_append(index, now);
        (index, forgotten)
    }

    fn forget(&mut self, now: Instant) -> u64 {
        let mut forgotten = 0;
        let many = self.len() >= self.many && self.idle_len as usize > self.len() / 2;
        while let Some(index) = self.idle.first()
            && forgotten < FORGET_AT_ONCE
        {
            let flow = &self.slots[index as usize];
            let age = flow.idle_since.map_or(0, |since| now.nanos_since(since));
            if !(many && age > FORGET_AFTER_NS) && self.idle_len < IDLE_MAX {
                break;
            }
            let key = flow.key;
            self.idle_remove(index);
            self.table.remove(&key);
            self.free.push(index);
            forgotten += 1;
        }
        forgotten
    }

    /// A packet has come for this flow: nanoseconds that it had been idle, or `None` when it was not.
    pub(super) fn wake(&mut self, index: Index, now: Instant) -> Option<u64> {
        let since = self.slots[index as usize].idle_since.take()?;
        self.idle_remove(index);
        Some(now.nanos_since(since))
    }

    /// The flow has no packets any more.
    pub(super) fn detach(&mut self, index: Index, now: Instant) {
        self.idle_append(index, now);
    }

    /// Puts a flow at the end of a list.
    pub(super) fn append(&mut self, list: &mut List, index: Index) {
        self.slots[index as usize].after = NIL;
        match list.last {
            NIL => list.first = index,
            last => self.slots[last as usize].after = index,
        }
        list.last = index;
    }

    /// Takes the first flow out of a list.
    pub(super) fn advance(&mut self, list: &mut List) {
        let Some(flow) = self.slots.get(list.first as usize) else { return };
        list.first = flow.after;
        if list.first == NIL {
            list.last = NIL;
        }
    }

    fn idle_append(&mut self, index: Index, now: Instant) {
        let last = self.idle.last;
        let flow = &mut self.slots[index as usize];
        (flow.after, flow.before, flow.idle_since) = (NIL, last, Some(now));
        match last {
            NIL => self.idle.first = index,
            last => self.slots[last as usize].after = index,
        }
        self.idle.last = index;
        self.idle_len += 1;
    }

    fn idle_remove(&mut self, index: Index) {
        let Flow { after, before, .. } = self.slots[index as usize];
        match before {
            NIL => self.idle.first = after,
            before => self.slots[before as usize].after = after,
        }
        match after {
            NIL => self.idle.last = before,
            after => self.slots[after as usize].before = before,
        }
        self.idle_len -= 1;
    }
}
