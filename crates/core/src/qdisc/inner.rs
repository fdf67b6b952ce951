//! A discipline inside of another one, as `tc` has it by "parent": who stands outside counts what is inside.
use super::look::{LinkFacts, Size};
use super::spec::Words;
use super::stats::{Report, Stats};
use super::{Any, Dequeued, Gone, Qdisc};
use crate::base::{Cx, Instant};
use crate::packet::Packet;

/// Why there is no packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Idle {
    /// There is none.
    Empty,
    /// None may go before.
    Until(Instant),
}

impl From<Idle> for Dequeued {
    fn from(idle: Idle) -> Self {
        match idle {
            Idle::Empty => Self::Empty,
            Idle::Until(at) => Self::NotBefore(at),
        }
    }
}

/// The discipline inside.
#[derive(Debug)]
pub(super) struct Inner {
    q: Box<Any>,
    /// It was asked for, so reports show it.
    given: bool,
}

impl Inner {
    /// The one that is there where none was asked for.
    pub(super) fn own(q: Any) -> Self {
        Self { q: Box::new(q), given: false }
    }

    /// Reads the words of the discipline inside: all that follow "child".
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        words.child().map(|q| Self { q: Box::new(q), given: true })
    }

    pub(super) fn get(&self) -> &Any {
        &self.q
    }

    /// What a report shows of it.
    pub(super) fn reports(&self) -> Vec<Report> {
        self.given.then(|| self.q.report()).into_iter().collect()
    }

    pub(super) fn attach(&mut self, cx: &mut Cx<'_>, link: &LinkFacts) {
        self.q.attach(cx, link);
    }

    /// Does `f` to it; what that changed is counted in `outer` too (`qdisc_tree_reduce_backlog`).
    fn counted<T>(&mut self, outer: &mut Stats, f: impl FnOnce(&mut Any) -> T) -> T {
        let before = *self.q.stats();
        let done = f(&mut self.q);
        let after = self.q.stats();
        outer.backlog = outer.backlog + after.backlog - before.backlog;
        outer.qlen = outer.qlen + after.qlen - before.qlen;
        outer.drops += after.drops - before.drops;
        done
    }

    pub(super) fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet, gone: &mut Gone, outer: &mut Stats) {
        self.counted(outer, |q| q.enqueue(cx, packet, gone));
    }

    pub(super) fn dequeue(
        &mut self,
        cx: &mut Cx<'_>,
        gone: &mut Gone,
        outer: &mut Stats,
    ) -> Result<Packet, Idle> {
        match self.counted(outer, |q| q.dequeue(cx, gone)) {
            Dequeued::Packet(packet) => Ok(packet),
            Dequeued::NotBefore(at) => Err(Idle::Until(at)),
            Dequeued::Empty => Err(Idle::Empty),
        }
    }

    pub(super) fn take(&mut self, outer: &mut Stats) -> Option<Packet> {
        self.counted(outer, Qdisc::take)
    }

    /// Size of the packet whose turn is next, where that can be known without taking it out.
    pub(super) fn front(&self) -> Option<Size> {
        match &*self.q {
            Any::Fifo(fifo) => fifo.front(),
            _ => None,
        }
    }
}
