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
    /// What came out of it to be looked at. It still counts as inside (`qdisc_peek_dequeued`).
    head: Option<(Packet, Size)>,
    /// It was asked for, so reports show it.
    given: bool,
}

impl Inner {
    /// The one that is there where none was asked for.
    pub(super) fn own(q: Any) -> Self {
        Self { q: Box::new(q), head: None, given: false }
    }

    /// Reads the words of the discipline inside: all that follow "child".
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        words.child().map(|q| Self { q: Box::new(q), head: None, given: true })
    }

    pub(super) fn honours_departure(&self) -> bool {
        self.q.honours_departure()
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
        if let Some(packet) = self.let_go(outer) {
            return Ok(packet);
        }
        match self.counted(outer, |q| q.dequeue(cx, gone)) {
            Dequeued::Packet(packet) => Ok(packet),
            Dequeued::NotBefore(at) => Err(Idle::Until(at)),
            Dequeued::Empty => Err(Idle::Empty),
        }
    }

    /// Size of the packet whose turn is next. A discipline that decides only when it is asked gives the packet up for that.
    pub(super) fn peek(&mut self, cx: &mut Cx<'_>, gone: &mut Gone, outer: &mut Stats) -> Result<Size, Idle> {
        if let Some((_, size)) = self.head {
            return Ok(size);
        }
        if let Some(size) = self.q.front() {
            return Ok(size);
        }
        let packet = self.dequeue(cx, gone, outer)?;
        let size = Size::of(&packet);
        self.head = Some((packet, size));
        self.counted(outer, |q| q.stats_mut().map(|stats| stats.enter(size)));
        Ok(size)
    }

    fn let_go(&mut self, outer: &mut Stats) -> Option<Packet> {
        let (packet, size) = self.head.take()?;
        self.counted(outer, |q| q.stats_mut().map(|stats| stats.remove(size)));
        Some(packet)
    }

    pub(super) fn take(&mut self, outer: &mut Stats) -> Option<Packet> {
        self.let_go(outer).or_else(|| self.counted(outer, Qdisc::take))
    }

    pub(super) fn each(&self, f: &mut dyn FnMut(&Packet)) {
        self.head.iter().for_each(|(packet, _)| f(packet));
        self.q.each(f);
    }
}
