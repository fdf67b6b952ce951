//! Partial reliability (RFC 3758): a message that was sent and has outlived its lifetime is given up, and FORWARD TSN tells the peer
//! not to wait for it. As in Linux that is looked at when a SACK comes, when T3-rtx runs out, and before something goes again.
use super::assoc::Assoc;
use super::handshake::init::Features;
use super::notification::SendFailed;
use super::outstanding::{Chunk, Mark};
use super::pending::Pending;
use super::stream::send::{Fragment, Message};
use super::tsn::Tsn;
use crate::base::{Cx, Instant};
use bytes::Bytes;
use lowwater_wire::sctp::DataFlags;
use std::collections::VecDeque;

/// A message with a lifetime, as far as it was sent.
#[derive(Clone, Copy, Debug)]
struct Limited {
    first: Tsn,
    last: Tsn,
    expires: Instant,
    /// Its last fragment was sent.
    whole: bool,
}

/// The messages with a lifetime that are out. The queue of an association that has none costs nothing.
#[derive(Debug)]
pub(crate) struct Lifetimes {
    list: VecDeque<Limited>,
    /// No lifetime ends before.
    earliest: Instant,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self { list: VecDeque::new(), earliest: Instant::FAR_FUTURE }
    }
}

impl Lifetimes {
    /// A fragment of a message with a lifetime leaves.
    fn note(&mut self, tsn: Tsn, fragment: &Fragment) {
        let (whole, expires) = (fragment.flags.end(), fragment.expires);
        if fragment.flags.begin() {
            self.list.push_back(Limited { first: tsn, last: tsn, expires, whole });
            self.earliest = self.earliest.min(expires);
        } else if let Some(limited) = self.list.back_mut() {
            (limited.last, limited.whole) = (tsn, whole);
        }
    }

    /// Forgets what has been acknowledged up to `cum`, and takes out the messages whose lifetime is over.
    fn take_expired(&mut self, now: Instant, cum: Tsn) -> Vec<Limited> {
        while self.list.front().is_some_and(|limited| limited.last <= cum && limited.whole) {
            self.list.pop_front();
        }
        let mut expired = Vec::new();
        if now < self.earliest {
            return expired;
        }
        self.earliest = Instant::FAR_FUTURE;
        self.list.retain(|limited| {
            let lives = limited.expires > now;
            if lives {
                self.earliest = self.earliest.min(limited.expires);
            } else {
                expired.push(*limited);
            }
            lives
        });
        expired
    }

    /// Gives back the memory of the busiest time, when there is nothing in it.
    pub(crate) fn shrink(&mut self) {
        if self.list.is_empty() {
            *self = Self::default();
        }
    }
}

impl Assoc {
    /// A fragment leaves under this number.
    pub(super) fn note_lifetime(&mut self, tsn: Tsn, fragment: &Fragment) {
        if fragment.expires != Instant::FAR_FUTURE && self.id.features.has(Features::FORWARD_TSN) {
            self.tx.lifetimes.note(tsn, fragment);
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
        for limited in self.tx.lifetimes.take_expired(cx.now, self.tx.out.cum()) {
            cx.count.own.sctp_abandoned += 1;
            let mut tsn = limited.first.max(self.tx.out.cum().next());
            while tsn <= limited.last {
                self.abandon(tsn);
                tsn = tsn.next();
            }
            let rest = if limited.whole { None } else { self.tx.queue.drop_begun() };
            if let Some(rest) = rest {
                self.skip_rest(cx, &rest);
            }
        }
        cx.count.own.sctp_abandoned > before
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
        let (mut lifetimes, mut most, first) = (Lifetimes::default(), 0, Tsn::initial(7));
        for n in 0..100_000 {
            let now = Instant::from_millis(n);
            let expires = now + Duration::from_secs(3_600);
            let (data, flags) = (Bytes::from_static(b"x"), DataFlags::WHOLE);
            let fragment = Fragment { data, flags, ssn: 0, stream: 0, ppid: 0, context: 0, expires };
            lifetimes.note(first.plus(n), &fragment);
            // Ten are out.
            assert!(lifetimes.take_expired(now, first.plus(n.saturating_sub(10))).is_empty());
            most = most.max(lifetimes.list.len());
        }
        assert!(most <= 11, "{most}");
        let late = Instant::from_millis(100_000) + Duration::from_secs(3_600);
        assert_eq!(lifetimes.take_expired(late, first).len(), most);
        lifetimes.shrink();
        assert_eq!((lifetimes.list.capacity(), lifetimes.earliest), (0, Instant::FAR_FUTURE));
    }
}
