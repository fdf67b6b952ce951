//! Partial reliability (RFC 3758, RFC 7496): a message that was sent and has outlived its lifetime, was lost once too often, or takes room
//! that a more important one needs, is given up, and FORWARD TSN tells the peer not to wait for it. Lifetimes are looked at when a SACK
//! comes, when T3-rtx runs out, and before something goes again. Unlike in Linux what is under way then stays so until it is found lost
//! (TR4): most of it arrives, and a loss slows its path down whatever became of the message (section 3.5 F5).
use super::assoc::Assoc;
use super::handshake::init::Features;
use super::message::Reliability;
use super::notification::SendFailed;
use super::outstanding::{Chunk, Mark, Outstanding, Span};
use super::pending::Pending;
use super::stream::send::{Fragment, Message};
use super::tsn::Tsn;
use crate::base::limits::SCTP_CHUNK_OVERHEAD;
use crate::base::{Cx, Instant, steps};
use bytes::Bytes;
use lowwater_wire::sctp::DataFlags;
use std::collections::{BTreeMap, VecDeque};

/// Messages that were given up by one policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abandoned {
    /// Nothing of them had been sent.
    pub unsent: u64,
    /// Some or all of them had.
    pub sent: u64,
}

/// Messages that were given up (SCTP_PR_ASSOC_STATUS, SCTP_PR_STREAM_STATUS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AbandonedCounts {
    /// By [`Reliability::Lifetime`].
    pub lifetime: Abandoned,
    /// By [`Reliability::Retransmissions`].
    pub retransmissions: Abandoned,
    /// By [`Reliability::Priority`].
    pub priority: Abandoned,
}

impl AbandonedCounts {
    fn add(&mut self, why: Why, sent: bool) {
        let count = match why {
            Why::Lifetime => &mut self.lifetime,
            Why::Retransmissions => &mut self.retransmissions,
            Why::Priority => &mut self.priority,
        };
        *if sent { &mut count.sent } else { &mut count.unsent } += 1;
    }
}

/// Why a message is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Its lifetime is over.
    Lifetime,
    /// It has gone as often as it may.
    Retransmissions,
    /// A more important one needs the room.
    Priority,
}

/// A message with a limit, as far as it was sent.
#[derive(Clone, Copy, Debug)]
struct Limited<T> {
    span: Span,
    limit: T,
}

/// Limited messages of one kind, in the order of their numbers.
#[derive(Debug)]
struct List<T>(VecDeque<Limited<T>>);

impl<T> List<T> {
    /// A fragment leaves.
    fn note(&mut self, tsn: Tsn, flags: DataFlags, limit: T) {
        let whole = flags.end();
        if flags.begin() {
            self.0.push_back(Limited { span: Span { first: tsn, last: tsn, whole }, limit });
        } else if let Some(limited) = self.0.back_mut() {
            (limited.span.last, limited.span.whole) = (tsn, whole);
        }
    }

    /// Everything up to here is acknowledged.
    fn forget(&mut self, cum: Tsn) {
        while self.0.front().is_some_and(|limited| limited.span.last <= cum && limited.span.whole) {
            self.0.pop_front();
        }
    }
}

/// What is kept for an association that has limited messages, or gave some up.
#[derive(Debug)]
struct Kept {
    lifetimes: List<Instant>,
    /// When the lost messages are looked at again: the first of their lifetimes ends.
    earliest: Instant,
    /// What had been lost when they were looked at last ([`Outstanding::losses_so_far`]).
    losses: u32,
    ranked: List<u32>,
    counts: AbandonedCounts,
    /// The same of each stream.
    streams: BTreeMap<u16, AbandonedCounts>,
}

impl Kept {
    /// Takes out the messages of which something is lost and whose lifetime is over.
    fn take_lost(&mut self, now: Instant, out: &Outstanding, expired: &mut Vec<Span>) {
        (self.earliest, self.losses) = (Instant::FAR_FUTURE, out.losses_so_far());
        let (list, mut from) = (&mut self.lifetimes.0, out.cum().next());
        while let Some((tsn, _)) = out.next_lost(from, |_| true) {
            steps::step();
            from = tsn.next();
            let at = list.partition_point(|limited| limited.span.last < tsn);
            let Some(limited) = list.get(at).filter(|limited| limited.span.first <= tsn) else { continue };
            from = limited.span.last.next();
            if limited.limit > now {
                self.earliest = self.earliest.min(limited.limit);
            } else {
                expired.push(limited.span);
            }
        }
        // Both are in the order of numbers.
        let mut gone = expired.iter().peekable();
        if gone.peek().is_some() {
            list.retain(|limited| gone.next_if(|span| span.first == limited.span.first).is_none());
        }
    }
}

/// The limited messages that are out. An association that has none pays for none.
#[derive(Debug, Default)]
pub(crate) struct Limits(Option<Box<Kept>>);

impl Limits {
    fn kept(&mut self) -> &mut Kept {
        self.0.get_or_insert_with(|| {
            Box::new(Kept {
                lifetimes: List(VecDeque::new()),
                earliest: Instant::FAR_FUTURE,
                losses: 0,
                ranked: List(VecDeque::new()),
                counts: AbandonedCounts::default(),
                streams: BTreeMap::new(),
            })
        })
    }

    /// A fragment of a limited message leaves.
    fn note(&mut self, tsn: Tsn, fragment: &Fragment) {
        match fragment.reliability {
            Reliability::Lifetime(_) => self.kept().lifetimes.note(tsn, fragment.flags, fragment.expires),
            Reliability::Priority(rank) => self.kept().ranked.note(tsn, fragment.flags, rank),
            Reliability::Full | Reliability::Retransmissions(_) => {}
        }
    }

    /// Forgets what has been acknowledged cumulatively, and takes out the messages whose lifetime is over and of which something is to be
    /// sent, again or for the first time.
    fn take_expired(&mut self, now: Instant, out: &Outstanding) -> Vec<Span> {
        let mut expired = Vec::new();
        let Some(kept) = &mut self.0 else { return expired };
        kept.lifetimes.forget(out.cum());
        kept.ranked.forget(out.cum());
        // The one that was begun is the last of which anything was sent.
        let begun = kept.lifetimes.0.pop_back_if(|last| !last.span.whole && last.limit <= now);
        if out.lost() > 0 && (now >= kept.earliest || kept.losses != out.losses_so_far()) {
            kept.take_lost(now, out, &mut expired);
        }
        expired.extend(begun.map(|limited| limited.span));
        expired
    }

    /// Takes out the first message that makes room for one of this number, and that `is` what is looked for.
    fn take_outranked(&mut self, rank: u32, is: impl Fn(&Span) -> bool) -> Option<Span> {
        let ranked = &mut self.0.as_mut()?.ranked.0;
        let mut all = ranked.iter().inspect(|_| steps::step());
        let at = all.position(|limited| limited.limit > rank && is(&limited.span))?;
        ranked.remove(at).map(|limited| limited.span)
    }

    /// A message was given up.
    fn count(&mut self, why: Why, stream: u16, sent: bool) {
        let kept = self.kept();
        kept.counts.add(why, sent);
        kept.streams.entry(stream).or_default().add(why, sent);
    }

    /// Nothing is out any more.
    pub(crate) fn forget(&mut self) {
        if let Some(kept) = &mut self.0 {
            kept.lifetimes.0.clear();
            kept.ranked.0.clear();
            kept.earliest = Instant::FAR_FUTURE;
        }
    }

    /// Gives back the memory of the busiest time, when there is nothing in it. What was counted stays.
    pub(crate) fn shrink(&mut self) {
        let Some(kept) = &mut self.0 else { return };
        if kept.lifetimes.0.is_empty() && kept.ranked.0.is_empty() {
            (kept.lifetimes, kept.ranked) = (List(VecDeque::new()), List(VecDeque::new()));
            if kept.streams.is_empty() {
                self.0 = None;
            }
        }
    }
}

impl Assoc {
    /// A fragment leaves under this number.
    pub(super) fn note_limit(&mut self, tsn: Tsn, fragment: &Fragment) {
        if fragment.reliability != Reliability::Full && self.id.features.has(Features::FORWARD_TSN) {
            self.tx.limits.note(tsn, fragment);
        }
    }

    /// How often a chunk of this message may go again.
    pub(super) fn retransmissions_of(&self, fragment: &Fragment) -> u8 {
        match fragment.reliability {
            Reliability::Retransmissions(most) if self.id.features.has(Features::FORWARD_TSN) => {
                u8::try_from(most).unwrap_or(Chunk::NO_LIMIT)
            }
            _ => Chunk::NO_LIMIT,
        }
    }

    /// Messages that were given up, of all streams or of one.
    #[must_use]
    pub fn abandoned(&self, stream: Option<u16>) -> AbandonedCounts {
        let Some(kept) = &self.tx.limits.0 else { return AbandonedCounts::default() };
        let Some(stream) = stream else { return kept.counts };
        kept.streams.get(&stream).copied().unwrap_or_default()
    }

    /// A message of which nothing was sent is given up.
    pub(super) fn give_up_unsent(&mut self, why: Why, message: &Message) {
        self.tx.limits.count(why, message.info().stream, false);
        self.notify_failed(SendFailed::unsent(message, 0));
    }

    /// A message of `len` bytes is to be queued: those that matter less make room for it, lost ones first, then those that are under
    /// way, then those that wait, each time the oldest, as in Linux (`sctp_prsctp_prune`). What was sent keeps its number, and costs as
    /// much as an empty one, until the peer knows.
    pub(super) fn make_way(&mut self, cx: &mut Cx<'_>, len: usize, rank: u32, sndbuf: u32) {
        let goal = (sndbuf as usize).saturating_sub(len + SCTP_CHUNK_OVERHEAD);
        if self.tx.charge() <= goal || !self.id.features.has(Features::FORWARD_TSN) {
            return;
        }
        let mut given_up = false;
        for lost in [true, false] {
            while self.tx.charge() > goal {
                let out = &self.tx.out;
                let is = |span: &Span| {
                    !lost || out.get(span.first.max(out.cum().next())).is_some_and(|c| c.mark == Mark::Lost)
                };
                let Some(span) = self.tx.limits.take_outranked(rank, is) else { break };
                self.give_up_message(cx, span, Why::Priority);
                given_up = true;
            }
        }
        let mut from = 0;
        while self.tx.charge() > goal
            && let Some((next, message)) = self.tx.queue.take_outranked(from, rank)
        {
            from = next;
            self.give_up_unsent(Why::Priority, &message);
        }
        // A SACK or T3-rtx says the rest, where there will be one.
        let timed = self.paths.iter().any(|(_, path)| path.t3 != Instant::FAR_FUTURE);
        if given_up && !timed && self.skips() {
            self.pending.set(Pending::FORWARD_TSN);
        }
    }

    /// Gives up what has outlived its lifetime and was lost, and tells the peer as far as nothing before it is still to come: again with each SACK
    /// and each timeout that has not heard of it (section 3.5, C3).
    pub(super) fn give_up(&mut self, cx: &mut Cx<'_>) {
        self.expire(cx);
        if self.skips() {
            self.pending.set(Pending::FORWARD_TSN);
        }
    }

    /// What is to go again, and the rest of what was begun, goes only while its lifetime lasts (TR4).
    pub(super) fn drop_abandoned(&mut self, cx: &mut Cx<'_>) {
        if self.expire(cx) && self.skips() {
            self.pending.set(Pending::FORWARD_TSN);
        }
    }

    /// True when anything was given up.
    fn expire(&mut self, cx: &mut Cx<'_>) -> bool {
        let before = cx.count.own.sctp_abandoned;
        for span in self.tx.limits.take_expired(cx.now, &self.tx.out) {
            self.give_up_message(cx, span, Why::Lifetime);
        }
        while let Some(tsn) = self.tx.out.take_spent() {
            if let Some(span) = self.tx.out.message_at(tsn) {
                self.give_up_message(cx, span, Why::Retransmissions);
            }
        }
        cx.count.own.sctp_abandoned > before
    }

    /// Gives up a message of which some was sent, and with it what was not.
    fn give_up_message(&mut self, cx: &mut Cx<'_>, span: Span, why: Why) {
        cx.count.own.sctp_abandoned += 1;
        let first = span.first.max(self.tx.out.cum().next());
        let rest = if span.whole { None } else { self.tx.queue.drop_begun() };
        let stream = self.tx.out.get(first).map(|chunk| chunk.stream);
        if let Some(stream) = stream.or(rest.as_ref().map(|rest| rest.info().stream)) {
            self.tx.limits.count(why, stream, true);
        }
        let mut tsn = first;
        while tsn <= span.last {
            self.abandon(tsn);
            tsn = tsn.next();
        }
        if let Some(rest) = rest {
            self.skip_rest(cx, &rest);
        }
    }

    /// The rest of a message of which some was sent never gets numbers of its own. One stands for all, so that there is something to
    /// skip where the peer has everything before.
    fn skip_rest(&mut self, cx: &Cx<'_>, rest: &Message) {
        let (info, ssn) = (*rest.info(), rest.ssn());
        let flags = if info.unordered { DataFlags::END | DataFlags::UNORDERED } else { DataFlags::END };
        let (stream, ppid, context) = (info.stream, info.ppid, info.context);
        let tsn = self.tx.out.push(Chunk {
            data: Bytes::new(),
            sent_at: cx.now,
            ppid,
            context,
            stream,
            ssn,
            flags,
            path: self.paths.active(),
            sends: 0,
            missing: 0,
            mark: Mark::InFlight,
            limit: Chunk::NO_LIMIT,
        });
        self.tx.out.abandon(tsn);
        self.notify_failed(SendFailed::unsent(rest, 0));
    }

    /// The peer waits for something that was given up.
    pub(super) fn skips(&self) -> bool {
        self.tx.out.get(self.tx.out.cum().next()).is_some_and(|chunk| chunk.mark == Mark::Abandoned)
    }

    fn abandon(&mut self, tsn: Tsn) {
        let Some((before, chunk)) = self.tx.out.abandon(tsn) else { return };
        let path = self.paths.get_mut(chunk.path);
        if before == Mark::InFlight {
            path.cwnd.remove(chunk.len());
            self.tx.peer_rwnd = self.tx.peer_rwnd.saturating_add(chunk.len());
        }
        if matches!(before, Mark::InFlight | Mark::Lost) {
            path.on_chunk_gone(chunk.sent_at);
        }
        path.timed = path.timed.filter(|timed| *timed != tsn);
        self.notify_failed(SendFailed::sent(&chunk, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Duration;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// A message that lives for an hour leaves, in one piece.
    fn leave(limits: &mut Limits, out: &mut Outstanding, now: Instant) {
        let (data, flags) = (Bytes::from_static(b"x"), DataFlags::WHOLE);
        let (ssn, stream, ppid, context) = (0, 0, 0, 0);
        let (expires, reliability) = (now + HOUR, Reliability::Lifetime(HOUR));
        let fragment =
            Fragment { data: data.clone(), flags, ssn, stream, ppid, context, expires, reliability };
        limits.note(out.next_tsn(), &fragment);
        let (mark, limit) = (Mark::InFlight, Chunk::NO_LIMIT);
        let (path, sends, missing) = (0, 1, 0);
        let sent_at = now;
        out.push(Chunk {
            data,
            sent_at,
            ppid,
            context,
            stream,
            ssn,
            flags,
            path,
            sends,
            missing,
            mark,
            limit,
        });
    }

    #[test]
    fn a_lifetime_is_forgotten_with_its_message() {
        let first = Tsn::initial(7);
        let (mut limits, mut out, mut most) = (Limits::default(), Outstanding::new(first), 0);
        for n in 0..100_000_u64 {
            let now = Instant::from_millis(n);
            leave(&mut limits, &mut out, now);
            // Ten are out.
            out.advance(first.plus(n.saturating_sub(10)), |_, _| {});
            assert!(limits.take_expired(now, &out).is_empty());
            most = most.max(limits.kept().lifetimes.0.len());
        }
        assert!(most <= 11, "{most}");
        let late = Instant::from_millis(100_000) + HOUR;
        assert!(limits.take_expired(late, &out).is_empty(), "all of them are under way");
        out.lose_path(0);
        assert_eq!(limits.take_expired(late, &out).len(), limits.kept().lifetimes.0.len() + out.len());
        limits.shrink();
        assert!(limits.0.is_none());
    }

    /// A turn looks at what is lost, where more was lost than at the one before or one of them has come to its end, and never at what is under way.
    #[test]
    fn a_turn_does_not_look_at_all_that_lives() {
        let (mut limits, mut out) = (Limits::default(), Outstanding::new(Tsn::initial(7)));
        let at = Instant::from_millis;
        for n in 0..3_000_u64 {
            leave(&mut limits, &mut out, at(n));
        }
        let late = at(1_500) + HOUR;
        let mut taken = Vec::new();
        assert_eq!(steps::of(|| taken = limits.take_expired(late, &out)), 0);
        for n in [100, 1_000, 2_000, 2_500] {
            out.lose(Tsn::initial(7).plus(n));
        }
        let few = steps::of(|| taken = limits.take_expired(late, &out));
        assert!(few <= 20 && taken.len() == 2, "{few} {taken:?}");
        taken.iter().for_each(|span| drop(out.abandon(span.first)));
        assert_eq!(steps::of(|| taken = limits.take_expired(at(1_999) + HOUR, &out)), 0);
        taken = limits.take_expired(at(2_000) + HOUR, &out);
        assert_eq!(taken.iter().map(|span| span.first).collect::<Vec<_>>(), [Tsn::initial(7).plus(2_000)]);
        assert_eq!(limits.kept().lifetimes.0.len(), 2_997);
    }
}
