//! `mq`: a discipline for each queue of the device. Flows choose theirs by hash; the queues are emptied in turn.
use super::look::{LinkFacts, Reader};
use super::spec::Words;
use super::stats::{Field, Report, Stats, Value};
use super::{Any, Dequeued, Gone, PfifoFast, Qdisc};
use crate::base::Cx;
use crate::packet::Packet;

/// Most queues.
const QUEUES_MAX: u32 = 256;

/// The discipline. Each queue has what `net.core.default_qdisc` says.
#[derive(Debug)]
pub struct Mq {
    queues: Vec<Any>,
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
        let queues = (0..queues.clamp(1, QUEUES_MAX)).map(|_| PfifoFast::default().into()).collect();
        Self { queues, turn: 0, reader: Reader::default(), stats: Stats::default() }
    }

    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        let mut queues = 1;
        while words.option(&["queues"])?.is_some() {
            queues = words.count(1, QUEUES_MAX)?;
        }
        Ok(Self::new(queues))
    }

    fn counted<T>(&mut self, queue: usize, f: impl FnOnce(&mut Any) -> T) -> T {
        let before = *self.queues[queue].stats();
        let done = f(&mut self.queues[queue]);
        let (after, s) = (*self.queues[queue].stats(), &mut self.stats);
        s.bytes += after.bytes - before.bytes;
        s.packets += after.packets - before.packets;
        s.drops += after.drops - before.drops;
        s.overlimits += after.overlimits - before.overlimits;
        s.requeues += after.requeues - before.requeues;
        s.backlog = s.backlog + after.backlog - before.backlog;
        s.qlen = s.qlen + after.qlen - before.qlen;
        done
    }

    /// The queues with packets, from the one whose turn it is on.
    fn turns(&self) -> impl Iterator<Item = usize> + use<> {
        let (len, turn) = (self.queues.len(), self.turn);
        (0..len).map(move |i| (turn + i) % len)
    }
}

impl Qdisc for Mq {
    fn name(&self) -> &'static str {
        "mq"
    }

    fn attach(&mut self, cx: &mut Cx<'_>, link: &LinkFacts) {
        self.reader = Reader::new(link, &mut cx.rng.fork("mq"));
        for queue in &mut self.queues {
            *queue = cx.sysctl.default_qdisc.into();
            queue.attach(cx, link);
        }
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet, gone: &mut Gone) {
        let hash = self.reader.flow(&packet).hash;
        let queue = ((u128::from(hash) * self.queues.len() as u128) >> 64) as usize;
        self.counted(queue, |q| q.enqueue(cx, packet, gone));
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, gone: &mut Gone) -> Dequeued {
        let mut next = Dequeued::Empty;
        for queue in self.turns() {
            if self.queues[queue].is_empty() {
                continue;
            }
            match (self.counted(queue, |q| q.dequeue(cx, gone)), &next) {
                (Dequeued::Packet(packet), _) => {
                    self.turn = (queue + 1) % self.queues.len();
                    return Dequeued::Packet(packet);
                }
                (Dequeued::NotBefore(at), Dequeued::NotBefore(first)) if *first <= at => {}
                (Dequeued::NotBefore(at), _) => next = Dequeued::NotBefore(at),
                (Dequeued::Empty, _) => {}
            }
        }
        next
    }

    fn take(&mut self) -> Option<Packet> {
        let queue = self.turns().find(|&i| !self.queues[i].is_empty())?;
        self.turn = (queue + 1) % self.queues.len();
        self.counted(queue, Qdisc::take)
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
        self.queues.iter().map(Qdisc::report).collect()
    }

    fn honours_departure(&self) -> bool {
        self.queues.iter().all(Qdisc::honours_departure)
    }
}
