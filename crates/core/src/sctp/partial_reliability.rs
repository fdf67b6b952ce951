//! Partial reliability (RFC 3758, RFC 7496): a message that was sent and has outlived its lifetime, was lost once too often, or takes room
//! that a more important one needs, is given up, and FORWARD TSN tells the peer not to wait for it. Lifetimes are looked at when a SACK
//! comes, when T3-rtx runs out, and before something goes again. Unlike in Linux what is under way then stays so until it is found lost
//! (TR4): most of it arrives, and a loss slows its path down whatever became of the message (section 3.5 F5).
use super::assoc::Assoc;
use super::handshake::init::Features;
use super::message::Reliability;
use super::notification::SendFailed;
use super::outstanding::{Chunk, Limit, Mark, Outstanding, Span};
use super::pending::Pending;
use super::stream::send::{Fragment, Message};
use super::tsn::Tsn;
use crate::base::limits::SCTP_CHUNK_OVERHEAD;
use crate::base::{Cx, Instant, steps};
use bytes::Bytes;
use lowwater_wire::sctp::DataFlags;
use std::collections::{BTreeMap, BTreeSet};

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

/// Limited messages of one kind by their first numbers.
#[derive(Debug)]
struct List<T>(BTreeMap<Tsn, Limited<T>>);

impl<T> List<T> {
    /// A fragment leaves.
    fn note(&mut self, tsn: Tsn, flags: DataFlags, limit: T) {
        let whole = flags.end();
        if flags.begin() {
            self.0.insert(tsn, Limited { span: Span { first: tsn, last: tsn, whole }, limit });
        } else if let Some(mut last) = self.0.last_entry() {
            let span = &mut last.get_mut().span;
            (span.last, span.whole) = (tsn, whole);
        }
    }

    /// Takes out the first one, if all of it is acknowledged that is up to here.
    fn pop_up_to(&mut self, cum: Tsn) -> Option<Limited<T>> {
        let first = self.0.first_entry().filter(|entry| {
            let span = entry.get().span;
            span.last <= cum && span.whole
        });
        first.map(|entry| entry.remove())
    }

    /// The one that has this number.
    fn at(&self, tsn: Tsn) -> Option<&Limited<T>> {
        self.0.range(..=tsn).next_back().map(|(_, limited)| limited).filter(|l| l.span.last >= tsn)
    }
}

/// What is kept for an association that has limited messages, or gave some up.
#[derive(Debug)]
struct Kept {
    lifetimes: List<Instant>,
    /// When the lifetimes end of those of which something was lost, with their first numbers.
    lost: BTreeSet<(Instant, Tsn)>,
    ranked: List<u32>,
    counts: AbandonedCounts,
    /// The same of each stream.
    streams: BTreeMap<u16, AbandonedCounts>,
}

impl Kept {
    /// Forgets what is acknowledged up to here.
    fn forget(&mut self, cum: Tsn) {
        while let Some(limited) = self.lifetimes.pop_up_to(cum) {
            self.lost.remove(&(limited.limit, limited.span.first));
        }
        while self.ranked.pop_up_to(cum).is_some() {}
    }

    /// The message that was begun, which is the last of which anything was sent, where its lifetime is over.
    fn take_begun(&mut self, now: Instant) -> Option<Span> {
        let begun = self.lifetimes.0.last_entry().filter(|last| {
            let last = last.get();
            !last.span.whole && last.limit <= now
        })?;
        let Limited { span, limit } = begun.remove();
        self.lost.remove(&(limit, span.first));
        Some(span)
    }

    /// A message whose lifetime is over and of which something is lost still.
    fn take_lost(&mut self, now: Instant, out: &Outstanding) -> Option<Span> {
        loop {
            let &(_, first) = self.lost.first().filter(|(end, _)| *end <= now)?;
            steps::step();
            self.lost.pop_first();
            let Some(span) = self.lifetimes.0.get(&first).map(|limited| limited.span) else { continue };
            // What has gone again is under way until it is lost once more.
            let lost = out.next_lost(first.max(out.cum().next()), |_| true);
            if lost.is_some_and(|(tsn, _)| tsn <= span.last) {
                self.lifetimes.0.remove(&first);
                return Some(span);
            }
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
                lifetimes: List(BTreeMap::new()),
                lost: BTreeSet::new(),
                ranked: List(BTreeMap::new()),
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

    /// Something of a message with a lifetime was lost.
    fn on_lost(&mut self, tsn: Tsn) {
        let Some(kept) = &mut self.0 else { return };
        if let Some(limited) = kept.lifetimes.at(tsn) {
            kept.lost.insert((limited.limit, limited.span.first));
        }
    }

    /// Forgets what has been acknowledged cumulatively, and takes out the messages whose lifetime is over and of which something is to be
    /// sent, again or for the first time.
    fn take_expired(&mut self, now: Instant, out: &Outstanding) -> Vec<Span> {
        let Some(kept) = &mut self.0 else { return Vec::new() };
        kept.forget(out.cum());
        // The one that was begun comes last: what is left of it has no numbers yet.
        let begun = kept.take_begun(now);
        core::iter::from_fn(|| kept.take_lost(now, out)).chain(begun).collect()
    }

    /// Takes out the first message that makes room for one of this number, and that `is` what is looked for.
    fn take_outranked(&mut self, rank: u32, is: impl Fn(&Span) -> bool) -> Option<Span> {
        let ranked = &mut self.0.as_mut()?.ranked.0;
        let mut all = ranked.values().inspect(|_| steps::step());
        let first = all.find(|limited| limited.limit > rank && is(&limited.span))?.span.first;
        ranked.remove(&first).map(|limited| limited.span)
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
            kept.lost.clear();
        }
    }

    /// Gives back the memory of the busiest time, when there is nothing in it. What was counted stays.
    pub(crate) fn shrink(&mut self) {
        let Some(kept) = &mut self.0 else { return };
        if kept.lifetimes.0.is_empty() && kept.ranked.0.is_empty() && kept.streams.is_empty() {
            self.0 = None;
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

    /// What a chunk of this message may not outlive.
    pub(super) fn limit_of(&self, fragment: &Fragment) -> Limit {
        if !self.id.features.has(Features::FORWARD_TSN) {
            return Limit::Full;
        }
        match fragment.reliability {
            Reliability::Lifetime(_) => Limit::Lifetime,
            Reliability::Retransmissions(most) if most < u8::MAX.into() => Limit::Times(most as u8),
            Reliability::Retransmissions(_) | Reliability::Priority(_) | Reliability::Full => Limit::Full,
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
        while let Some((tsn, limit)) = self.tx.out.take_doubtful() {
            if limit == Limit::Lifetime {
                self.tx.limits.on_lost(tsn);
            } else if let Some(span) = self.tx.out.message_at(tsn) {
                self.give_up_message(cx, span, Why::Retransmissions);
            }
        }
        for span in self.tx.limits.take_expired(cx.now, &self.tx.out) {
            self.give_up_message(cx, span, Why::Lifetime);
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
            limit: Limit::Full,
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
        let (mark, limit) = (Mark::InFlight, Limit::Lifetime);
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

    /// What an association does at each turn.
    fn take(limits: &mut Limits, out: &mut Outstanding, now: Instant) -> Vec<Span> {
        while let Some((tsn, _)) = out.take_doubtful() {
            limits.on_lost(tsn);
        }
        limits.take_expired(now, out)
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
            assert!(take(&mut limits, &mut out, now).is_empty());
            most = most.max(limits.kept().lifetimes.0.len());
        }
        assert!(most <= 11, "{most}");
        let late = Instant::from_millis(100_000) + HOUR;
        assert!(take(&mut limits, &mut out, late).is_empty(), "all of them are under way");
        out.lose_path(0);
        let all = out.len();
        assert_eq!(take(&mut limits, &mut out, late).len(), limits.kept().lifetimes.0.len() + all);
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
        assert_eq!(steps::of(|| taken = take(&mut limits, &mut out, late)), 0);
        for n in [100, 1_000, 2_000, 2_500] {
            out.lose(Tsn::initial(7).plus(n));
        }
        let few = steps::of(|| taken = take(&mut limits, &mut out, late));
        assert!(few <= 20 && taken.len() == 2, "{few} {taken:?}");
        taken.iter().for_each(|span| drop(out.abandon(span.first)));
        assert_eq!(steps::of(|| taken = take(&mut limits, &mut out, at(1_999) + HOUR)), 0);
        taken = take(&mut limits, &mut out, at(2_000) + HOUR);
        assert_eq!(taken.iter().map(|span| span.first).collect::<Vec<_>>(), [Tsn::initial(7).plus(2_000)]);
        assert_eq!(limits.kept().lifetimes.0.len(), 2_997);
    }
    /// A peer may have one more message lost with each SACK, and one of them come to its end.
    #[test]
    fn one_more_loss_does_not_look_at_all_that_was_lost() {
        let (mut limits, mut out) = (Limits::default(), Outstanding::new(Tsn::initial(7)));
        let at = Instant::from_millis;
        for n in 0..3_000_u64 {
            leave(&mut limits, &mut out, at(n));
        }
        for n in 0..2_000 {
            out.lose(Tsn::initial(7).plus(n));
        }
        assert!(take(&mut limits, &mut out, at(3_000)).is_empty());
        let mut taken = Vec::new();
        for n in 2_000..2_100_u64 {
            out.lose(Tsn::initial(7).plus(n));
            let now = at(n - 2_000) + HOUR;
            let few = steps::of(|| taken = take(&mut limits, &mut out, now));
            let first: Vec<Tsn> = taken.iter().map(|span| span.first).collect();
            assert!(few <= 10 && first == [Tsn::initial(7).plus(n - 2_000)], "{few} {taken:?}");
        }
    }

    /// What has gone again is under way for as long as nobody knows better, and is forgotten with its acknowledgement.
    #[test]
    fn what_went_again_in_time_is_given_up_when_it_is_lost_once_more() {
        let (mut limits, mut out) = (Limits::default(), Outstanding::new(Tsn::initial(7)));
        let (first, late) = (Tsn::initial(7), Instant::from_millis(9) + HOUR);
        for n in 0..3 {
            leave(&mut limits, &mut out, Instant::from_millis(n));
            out.lose(first.plus(n));
        }
        assert!(take(&mut limits, &mut out, Instant::from_millis(5)).is_empty());
        for n in 0..2 {
            assert!(out.resend(first.plus(n), 0, Instant::from_millis(5)).is_some());
        }
        assert_eq!(take(&mut limits, &mut out, late).len(), 1);
        out.advance(first, |_, _| {});
        out.lose(first.plus(1));
        assert_eq!(
            take(&mut limits, &mut out, late).iter().map(|s| s.first).collect::<Vec<_>>(),
            [first.plus(1)]
        );
        assert!(limits.kept().lifetimes.0.is_empty() && limits.kept().lost.is_empty());
    }
}
