//! Partial reliability (RFC 3758, RFC 7496): a message that was sent and has outlived its lifetime, was lost once too often, or takes room
//! that a more important one needs, is given up, and FORWARD TSN tells the peer not to wait for it. As in Linux lifetimes are looked at
//! when a SACK comes, when T3-rtx runs out, and before something goes again.
use super::assoc::Assoc;
use super::handshake::init::Features;
use super::message::Reliability;
use super::notification::SendFailed;
use super::outstanding::{Chunk, Mark, Span};
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
    /// No lifetime ends before.
    earliest: Instant,
    ranked: List<u32>,
    counts: AbandonedCounts,
    /// The same of each stream.
    streams: BTreeMap<u16, AbandonedCounts>,
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
                ranked: List(VecDeque::new()),
                counts: AbandonedCounts::default(),
                streams: BTreeMap::new(),
            })
        })
    }

    /// A fragment of a limited message leaves.
    fn note(&mut self, tsn: Tsn, fragment: &Fragment) {
        match fragment.reliability {
            Reliability::Lifetime(_) => {
                let kept = self.kept();
                kept.lifetimes.note(tsn, fragment.flags, fragment.expires);
                kept.earliest = kept.earliest.min(fragment.expires);
            }
            Reliability::Priority(rank) => self.kept().ranked.note(tsn, fragment.flags, rank),
            Reliability::Full | Reliability::Retransmissions(_) => {}
        }
    }

    /// Forgets what has been acknowledged up to `cum`, and takes out the messages whose lifetime is over.
    fn take_expired(&mut self, now: Instant, cum: Tsn) -> Vec<Span> {
        let mut expired = Vec::new();
        let Some(kept) = &mut self.0 else { return expired };
        kept.lifetimes.forget(cum);
        kept.ranked.forget(cum);
        if now < kept.earliest {
            return expired;
        }
        kept.earliest = Instant::FAR_FUTURE;
        kept.lifetimes.0.retain(|limited| {
            let lives = limited.limit > now;
            if lives {
                kept.earliest = kept.earliest.min(limited.limit);
            } else {
                expired.push(limited.span);
            }
            lives
        });
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

    /// Gives up what has outlived its lifetime, and tells the peer as far as nothing before it is still to come: again with each SACK
    /// and each timeout that has not heard of it (section 3.5, C3).
    pub(super) fn give_up(&mut self, cx: &mut Cx<'_>) {
        self.expire(cx);
        if self.skips() {
            self.pending.set(Pending::FORWARD_TSN);
        }
    }

    /// What is to go again goes only while its lifetime lasts.
    pub(super) fn drop_abandoned(&mut self, cx: &mut Cx<'_>) {
        if self.tx.out.lost() > 0 && self.expire(cx) && self.skips() {
            self.pending.set(Pending::FORWARD_TSN);
        }
    }

    /// True when anything was given up.
    fn expire(&mut self, cx: &mut Cx<'_>) -> bool {
        let before = cx.count.own.sctp_abandoned;
        for span in self.tx.limits.take_expired(cx.now, self.tx.out.cum()) {
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

    #[test]
    fn a_lifetime_is_forgotten_with_its_message() {
        let (mut limits, mut most, first) = (Limits::default(), 0, Tsn::initial(7));
        for n in 0..100_000 {
            let now = Instant::from_millis(n);
            let expires = now + Duration::from_secs(3_600);
            let (data, flags) = (Bytes::from_static(b"x"), DataFlags::WHOLE);
            let reliability = Reliability::Lifetime(Duration::from_secs(3_600));
            let fragment =
                Fragment { data, flags, ssn: 0, stream: 0, ppid: 0, context: 0, expires, reliability };
            limits.note(first.plus(n), &fragment);
            // Ten are out.
            assert!(limits.take_expired(now, first.plus(n.saturating_sub(10))).is_empty());
            most = most.max(limits.kept().lifetimes.0.len());
        }
        assert!(most <= 11, "{most}");
        let late = Instant::from_millis(100_000) + Duration::from_secs(3_600);
        assert_eq!(limits.take_expired(late, first).len(), most);
        limits.shrink();
        assert!(limits.0.is_none());
    }
}
