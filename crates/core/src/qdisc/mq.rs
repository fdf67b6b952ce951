//! `mq`: a discipline for each queue of the device. Flows choose theirs by hash; the queues are emptied in turn.
use super::look::{LinkFacts, Reader};
use super::spec::Words;
use super::stats::{Field, Report, Stats, Value};
use super::{Dequeued, Gone, PfifoFast, Qdisc};
use crate::base::Cx;
use crate::packet::Packet;

/// Most queues.
const QUEUES_MAX: u32 = 256;

/// The discipline. Each queue has a `pfifo_fast`, as by `net.core.default_qdisc`.
#[derive(Debug)]
pub struct Mq {
    queues: Vec<PfifoFast>,
    /// Whose turn it is.
    turn: usize,
    reader: Reader,
    /// Sums over the queues.
    stats: Stats,
}

impl Mq {
    /// One discipline for each of `queues`, at least one.
    #[must_use]
    pub fn new(queues: u32) -> Self {
        let queues = (0..queues.clamp(1, QUEUES_MAX)).map(|_| PfifoFast::default()).collect();
        Self { queues, turn: 0, reader: Reader::default(), stats: Stats::default() }
    }

    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        let mut queues = 1;
        while words.option(&["queues"])?.is_some() {
            queues = words.count(1, QUEUES_MAX)?;
        }
        Ok(Self::new(queues))
    }

    fn sum(&mut self, queue: usize, change: impl FnOnce(&mut PfifoFast)) {
        let before = *self.queues[queue].stats();
        change(&mut self.queues[queue]);
        let (after, s) = (*self.queues[queue].stats(), &mut self.stats);
        s.bytes += after.bytes - before.bytes;
        s.packets += after.packets - before.packets;
        s.drops += after.drops - before.drops;
        s.backlog = s.backlog + after.backlog - before.backlog;
        s.qlen = s.qlen + after.qlen - before.qlen;
    }

    /// The next queue with a packet.
    fn next(&mut self) -> Option<usize> {
        let len = self.queues.len();
        let queue = (0..len).map(|i| (self.turn + i) % len).find(|&i| !self.queues[i].is_empty())?;
        self.turn = (queue + 1) % len;
        Some(queue)
    }
}

impl Qdisc for Mq {
    fn name(&self) -> &'static str {
        "mq"
    }

    fn attach(&mut self, cx: &mut Cx<'_>, link: &LinkFacts) {
        self.reader = Reader::new(link, &mut cx.rng.fork("mq"));
        self.queues.iter_mut().for_each(|q| q.attach(cx, link));
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet, gone: &mut Gone) {
        let hash = self.reader.flow(&packet).hash;
        let queue = ((u128::from(hash) * self.queues.len() as u128) >> 64) as usize;
        self.sum(queue, |q| q.enqueue(cx, packet, gone));
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, gone: &mut Gone) -> Dequeued {
        let Some(queue) = self.next() else { return Dequeued::Empty };
        let mut next = Dequeued::Empty;
        self.sum(queue, |q| next = q.dequeue(cx, gone));
        next
    }

    fn take(&mut self) -> Option<Packet> {
        let queue = self.next()?;
        let mut packet = None;
        self.sum(queue, |q| packet = q.take());
        packet
    }

    fn each(&self, f: &mut dyn FnMut(&Packet)) {
        self.queues.iter().for_each(|q| q.each(f));
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn options(&self, out: &mut Vec<Field>) {
        out.push(Field::new("queues", Value::Count(self.queues.len() as u64)));
    }

    fn children(&self) -> Vec<Report> {
        self.queues.iter().map(PfifoFast::report).collect()
    }
}
