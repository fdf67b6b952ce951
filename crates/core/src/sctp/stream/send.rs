//! Messages that wait to be sent, first come first served, and the numbers of their streams (RFC 9260 sections 6.5, 6.6, 6.9).
use super::numbers::Numbers;
use super::unsent::{Mark, Unsent};
use crate::base::{Instant, steps};
use crate::sctp::message::{Reliability, SendInfo};
use bytes::Bytes;
use lowwater_wire::sctp::DataFlags;
use std::collections::{BTreeSet, VecDeque};

/// Messages behind one that waits for its path that are looked at.
const OVERTAKE_MAX: usize = 64;

/// One message.
#[derive(Clone, Debug)]
pub struct Message {
    /// What is left of it.
    data: Bytes,
    info: SendInfo,
    /// It is given up at this instant if nothing of it was sent; [`Instant::FAR_FUTURE`] for never.
    expires: Instant,
    /// Its number in the stream once its first fragment has left.
    ssn: Option<u16>,
    /// Where it stands in the queue: not before those with lower ones, but for the first, which may have been brought forward.
    seq: u64,
}

impl Message {
    /// What is left of it.
    #[must_use]
    pub const fn data(&self) -> &Bytes {
        &self.data
    }

    /// How it is to be sent.
    #[must_use]
    pub const fn info(&self) -> &SendInfo {
        &self.info
    }

    /// Its number in the stream, 0 before any of it was sent.
    #[must_use]
    pub fn ssn(&self) -> u16 {
        self.ssn.unwrap_or(0)
    }

    /// Flags of a DATA chunk with all that is left of it.
    #[must_use]
    pub fn flags(&self) -> DataFlags {
        self.cut(true)
    }

    /// Flags of the next DATA chunk, which takes all that is left or not.
    fn cut(&self, end: bool) -> DataFlags {
        let bit = |set: bool, flag: DataFlags| if set { flag } else { DataFlags::EMPTY };
        bit(!self.is_begun(), DataFlags::BEGIN)
            | bit(end, DataFlags::END)
            | bit(self.info.unordered, DataFlags::UNORDERED)
            | bit(self.info.immediate && end, DataFlags::IMMEDIATE)
    }

    /// Some of it was sent.
    #[must_use]
    pub const fn is_begun(&self) -> bool {
        self.ssn.is_some()
    }
}

/// A fragment on its way into a DATA chunk.
#[derive(Clone, Debug)]
pub struct Fragment {
    /// User data.
    pub data: Bytes,
    /// B, E, U and I.
    pub flags: DataFlags,
    /// Number in the stream.
    pub ssn: u16,
    /// Its stream.
    pub stream: u16,
    /// Payload protocol identifier.
    pub ppid: u32,
    /// The application's own number of its message.
    pub context: u32,
    /// When its message's lifetime ends; [`Instant::FAR_FUTURE`] for never.
    pub expires: Instant,
    /// What ends it.
    pub reliability: Reliability,
}

/// What limits messages of which nothing was sent. A queue that never had such a message has none of this.
#[derive(Debug, Default)]
struct Limits {
    /// When lifetimes end.
    ends: BTreeSet<(Instant, u64)>,
    /// The last message's place.
    seq: u64,
    /// How many may have to give way.
    ranked: usize,
    /// None of them has a higher number.
    worst: u32,
}

/// The queue of one association.
#[derive(Debug, Default)]
pub struct SendQueue {
    messages: VecDeque<Message>,
    unsent: Unsent,
    /// The next number of each stream that has sent an ordered message.
    next_ssn: Numbers,
    limits: Option<Box<Limits>>,
}

impl SendQueue {
    /// Queues a message.
    pub fn push(&mut self, data: Bytes, info: SendInfo, now: Instant) {
        let expires = info.reliability.lifetime().map_or(Instant::FAR_FUTURE, |lifetime| now + lifetime);
        self.unsent.add(info.stream, data.len());
        let lives = expires != Instant::FAR_FUTURE;
        let ranked = matches!(info.reliability, Reliability::Priority(_));
        let mut seq = 0;
        if lives || ranked || self.limits.is_some() {
            let limits = self.limits.get_or_insert_default();
            limits.seq += 1;
            seq = limits.seq;
            if lives {
                limits.ends.insert((expires, seq));
            }
            if ranked {
                limits.ranked += 1;
                limits.worst = limits.worst.max(info.reliability.rank());
            }
        }
        self.messages.push_back(Message { data, info, expires, ssn: None, seq });
    }

    /// The last message was not to leave alone, and is still there (Linux `force_delay`).
    #[must_use]
    pub fn wants_more(&self) -> bool {
        self.messages.back().is_some_and(|message| message.info.more)
    }

    /// Nothing can come behind the last message: it leaves without more.
    pub fn let_go(&mut self) {
        if let Some(last) = self.messages.back_mut() {
            last.info.more = false;
        }
    }

    /// Bytes that were not sent yet.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.unsent.bytes()
    }

    /// Less is unsent than the low-water mark; `u32::MAX` is none.
    #[must_use]
    pub const fn is_small(&self, mark: u32) -> bool {
        mark == u32::MAX || self.bytes() == 0 || self.bytes() < mark as usize
    }

    /// The low-water mark of each stream, `u32::MAX` for none, and the shift of its half rule; then what the streams say to it.
    pub fn streams(&mut self, mark: u32, shift: u32) -> &mut Unsent {
        let mark = (mark != u32::MAX).then_some(Mark { bytes: mark, shift });
        self.unsent.set_mark(mark, self.messages.iter().map(|m| (m.info.stream, m.data.len())));
        &mut self.unsent
    }

    /// A stream that had refused a message takes one again; true once.
    pub fn take_freed(&mut self) -> bool {
        self.unsent.take_freed()
    }

    /// Number of messages that were not sent completely.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Everything was sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The message whose turn it is.
    #[must_use]
    pub fn front(&self) -> Option<&Message> {
        self.messages.front()
    }

    /// Which message may go before the one whose turn it is, when that has to wait: nothing of that one has left, `goes` says yes, no
    /// message of its own stream waits before it, and its lifetime is not over. Looks only so far (`OVERTAKE_MAX`).
    pub fn find_overtaking(&self, now: Instant, goes: impl Fn(&SendInfo) -> bool) -> Option<usize> {
        self.front().filter(|first| !first.is_begun())?;
        let free = |at: usize, info: &SendInfo| {
            let before = |m: &Message| !m.info.unordered && m.info.stream == info.stream;
            info.unordered || !self.messages.iter().take(at).any(before)
        };
        let mut ahead = self.messages.iter().enumerate().take(OVERTAKE_MAX).skip(1);
        ahead.find(|(at, m)| m.expires > now && goes(&m.info) && free(*at, &m.info)).map(|(at, _)| at)
    }

    /// Gives this message the next turn.
    pub fn bring_forward(&mut self, at: usize) {
        if let Some(message) = self.messages.remove(at) {
            self.messages.push_front(message);
        }
    }

    /// Gives the message whose turn it is this place instead.
    pub fn put_back(&mut self, at: usize) {
        if let Some(message) = self.messages.pop_front() {
            self.messages.insert(at.min(self.messages.len()), message);
        }
    }

    /// When the first lifetime ends of a message of which nothing was sent; [`Instant::FAR_FUTURE`] for never.
    #[must_use]
    pub fn next_expiry(&self) -> Instant {
        let first = self.limits.as_ref().and_then(|limits| limits.ends.first());
        first.map_or(Instant::FAR_FUTURE, |(end, _)| *end)
    }

    /// Takes out a message whose lifetime was over before any of it was sent, wherever it stands (RFC 9260 section 11.1.5).
    pub fn take_expired(&mut self, now: Instant) -> Option<Message> {
        loop {
            let limits = self.limits.as_mut()?;
            let (_, seq) = limits.ends.first().filter(|(end, _)| *end <= now).copied()?;
            limits.ends.pop_first();
            if let Some(message) = self.place(seq).and_then(|at| self.messages.remove(at)) {
                self.unsent.sub(message.info.stream, message.data.len());
                return Some(message);
            }
        }
    }

    /// Where this message stands. What overtakes comes from the first places, so that those behind are in order.
    fn place(&self, seq: u64) -> Option<usize> {
        let is = |at: &usize| self.messages.get(*at).is_some_and(|message| message.seq == seq);
        let (mut low, mut high) = (self.messages.len().min(OVERTAKE_MAX + 1), self.messages.len());
        if let Some(at) = (0..low).find(is) {
            return Some(at);
        }
        while low < high {
            let middle = low.midpoint(high);
            if self.messages[middle].seq < seq { low = middle + 1 } else { high = middle }
        }
        Some(low).filter(is)
    }

    /// Takes out the first message from place `from` on of which nothing was sent, and that makes room for one of this number; where
    /// the next one may stand.
    pub fn take_outranked(&mut self, from: usize, rank: u32) -> Option<(usize, Message)> {
        self.limits.as_ref().filter(|limits| limits.ranked > 0 && limits.worst > rank)?;
        let yields = |m: &Message| !m.is_begun() && m.info.reliability.gives_way_to(rank);
        let ahead = self.messages.iter().skip(from).inspect(|_| steps::step()).position(yields)?;
        let message = self.messages.remove(from + ahead)?;
        Self::forget_limit(&mut self.limits, &message);
        self.unsent.sub(message.info.stream, message.data.len());
        Some((from + ahead, message))
    }

    /// What limits this message, which begins or goes, counts no more here.
    fn forget_limit(limits: &mut Option<Box<Limits>>, message: &Message) {
        let Some(limits) = limits.as_mut().filter(|_| !message.is_begun()) else { return };
        limits.ends.remove(&(message.expires, message.seq));
        if matches!(message.info.reliability, Reliability::Priority(_)) {
            limits.ranked -= 1;
            limits.worst = if limits.ranked == 0 { 0 } else { limits.worst };
        }
    }

    /// Takes out what is left of the message that was begun, if one was.
    pub fn drop_begun(&mut self) -> Option<Message> {
        let message = self.messages.pop_front_if(|message| message.is_begun())?;
        self.unsent.sub(message.info.stream, message.data.len());
        Some(message)
    }

    /// Takes out the messages for streams from `streams` on, which the peer does not take (RFC 9260 section 6.5).
    pub fn take_beyond(&mut self, streams: u16) -> VecDeque<Message> {
        self.take_those(|info| info.stream >= streams)
    }

    /// Takes out the messages that `goes` names.
    pub fn take_those(&mut self, goes: impl Fn(&SendInfo) -> bool) -> VecDeque<Message> {
        let (gone, kept): (VecDeque<Message>, _) = self.messages.drain(..).partition(|m| goes(&m.info));
        self.messages = kept;
        for message in &gone {
            Self::forget_limit(&mut self.limits, message);
            self.unsent.sub(message.info.stream, message.data.len());
        }
        gone
    }

    /// Takes the next fragment, `max` bytes at the most. The fragments of a message follow each other without another's between.
    pub fn take(&mut self, max: usize) -> Option<Fragment> {
        let message = self.messages.front_mut()?;
        let (stream, ppid, context) = (message.info.stream, message.info.ppid, message.info.context);
        let unordered = message.info.unordered;
        let (expires, reliability) = (message.expires, message.info.reliability);
        let end = message.data.len() <= max;
        Self::forget_limit(&mut self.limits, message);
        let flags = message.cut(end);
        let ssn = *message.ssn.get_or_insert_with(|| {
            if unordered {
                return 0;
            }
            let ssn = self.next_ssn.get(stream);
            self.next_ssn.set(stream, ssn.wrapping_add(1));
            ssn
        });
        let data = if end { core::mem::take(&mut message.data) } else { message.data.split_to(max) };
        self.unsent.sub(stream, data.len());
        if end {
            self.messages.pop_front();
        }
        Some(Fragment { data, flags, ssn, stream, ppid, context, expires, reliability })
    }

    /// Gives back the memory of the busiest time, when there is nothing in it.
    pub fn shrink(&mut self) {
        if self.messages.is_empty() {
            (self.messages, self.limits) = (VecDeque::new(), None);
        }
    }

    /// Forgets everything; the messages as far as they were not sent.
    pub fn drain(&mut self) -> impl Iterator<Item = Message> + '_ {
        self.unsent = Unsent::default();
        self.next_ssn.clear();
        self.limits = None;
        self.messages.drain(..)
    }

    /// A message of one of these streams waits, or of any stream where none is named.
    #[must_use]
    pub fn has_any_of(&self, streams: &[u16]) -> bool {
        let named: BTreeSet<u16> = streams.iter().copied().collect();
        let waits = |m: &Message| named.is_empty() || named.contains(&m.info.stream);
        self.messages.iter().inspect(|_| steps::step()).any(waits)
    }

    /// These streams begin anew at 0, or all of them where none is named.
    pub fn reset_streams(&mut self, streams: &[u16]) {
        if streams.is_empty() {
            return self.restart_streams();
        }
        for stream in streams {
            self.next_ssn.reset(*stream);
        }
    }

    /// All streams begin anew at 0, as after a restart of the peer.
    pub fn restart_streams(&mut self) {
        self.next_ssn.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Duration;

    fn info(stream: u16) -> SendInfo {
        SendInfo { stream, ..SendInfo::default() }
    }

    #[test]
    fn streams_count_by_themselves_and_unordered_messages_do_not() {
        let mut queue = SendQueue::default();
        let unordered = SendInfo { unordered: true, ..info(7) };
        for info in [info(7), info(9), unordered, info(7)] {
            queue.push(Bytes::from_static(b"x"), info, Instant::ZERO);
        }
        let taken: Vec<(u16, u16)> =
            core::iter::from_fn(|| queue.take(100)).map(|f| (f.stream, f.ssn)).collect();
        assert_eq!(taken, [(7, 0), (9, 0), (7, 0), (7, 1)]);
    }

    #[test]
    fn a_long_message_is_cut_with_its_flags() {
        let mut queue = SendQueue::default();
        queue.push(Bytes::from_static(&[1; 250]), SendInfo { immediate: true, ..info(0) }, Instant::ZERO);
        let parts: Vec<_> =
            core::iter::from_fn(|| queue.take(100)).map(|f| (f.data.len(), f.flags.bits(), f.ssn)).collect();
        assert_eq!(parts, [(100, 2, 0), (100, 0, 0), (50, 9, 0)]);
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn a_message_overtakes_others_but_none_of_its_stream_and_none_that_has_begun() {
        let mut queue = SendQueue::default();
        let unordered = SendInfo { unordered: true, ..info(1) };
        for (info, len) in [(info(1), 300), (info(1), 20), (info(2), 30), (unordered, 40)] {
            queue.push(Bytes::from(vec![0; len]), info, Instant::ZERO);
        }
        assert_eq!(queue.find_overtaking(Instant::ZERO, |info| info.stream == 1), Some(3));
        assert_eq!(queue.find_overtaking(Instant::ZERO, |_| true), Some(2));
        queue.bring_forward(2);
        queue.put_back(2);
        queue.bring_forward(3);
        let len = |queue: &mut SendQueue| queue.take(100).map(|f| f.data.len());
        assert_eq!(len(&mut queue), Some(40));
        assert_eq!(len(&mut queue), Some(100));
        assert_eq!(queue.find_overtaking(Instant::ZERO, |_| true), None);
        assert_eq!([0; 4].map(|_| len(&mut queue)), [Some(100), Some(100), Some(20), Some(30)]);
        for _ in 0..2 * OVERTAKE_MAX {
            queue.push(Bytes::from_static(b"x"), info(1), Instant::ZERO);
        }
        queue.push(Bytes::from_static(b"x"), info(2), Instant::ZERO);
        assert_eq!(queue.find_overtaking(Instant::ZERO, |info| info.stream == 2), None, "too far behind");
    }

    #[test]
    fn only_what_has_not_begun_expires() {
        let mut queue = SendQueue::default();
        let short = SendInfo { reliability: Reliability::Lifetime(Duration::from_millis(5)), ..info(0) };
        queue.push(Bytes::from_static(&[1; 10]), short, Instant::ZERO);
        queue.push(Bytes::from_static(&[2; 10]), short, Instant::ZERO);
        assert!(queue.take(4).is_some());
        let late = Instant::from_millis(5);
        assert_eq!(queue.take_expired(late).map(|m| m.data().len()), Some(10));
        assert!(queue.take_expired(late).is_none());
        assert_eq!(queue.take(10).map(|f| f.data.len()), Some(6));
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn a_lifetime_ends_wherever_its_message_stands() {
        let mut queue = SendQueue::default();
        let lived = |ms, stream| SendInfo {
            reliability: Reliability::Lifetime(Duration::from_millis(ms)),
            ..info(stream)
        };
        let all = [info(0), lived(9, 1), info(2), lived(5, 3), lived(7, 4), info(5)];
        for (n, info) in all.into_iter().enumerate() {
            queue.push(Bytes::from(vec![0; n + 1]), info, Instant::ZERO);
        }
        assert_eq!(queue.next_expiry(), Instant::from_millis(5));
        queue.bring_forward(4);
        let expired = |queue: &mut SendQueue, ms| {
            core::iter::from_fn(|| queue.take_expired(Instant::from_millis(ms)))
                .map(|m| m.info().stream)
                .collect::<Vec<_>>()
        };
        assert_eq!(expired(&mut queue, 4), []);
        assert_eq!(expired(&mut queue, 6), [3]);
        queue.put_back(3);
        assert_eq!(expired(&mut queue, 20), [4, 1]);
        assert_eq!((queue.next_expiry(), queue.bytes()), (Instant::FAR_FUTURE, 10));
        let left: Vec<u16> = core::iter::from_fn(|| queue.take(100)).map(|f| f.stream).collect();
        assert_eq!(left, [0, 2, 5]);
    }

    #[test]
    fn a_lifetime_ends_also_of_what_has_been_overtaken_twice() {
        let mut queue = SendQueue::default();
        for stream in 1..=100 {
            let lived =
                SendInfo { reliability: Reliability::Lifetime(Duration::from_millis(5)), ..info(stream) };
            queue.push(Bytes::from_static(&[1; 10]), lived, Instant::ZERO);
        }
        queue.bring_forward(64);
        queue.bring_forward(4);
        assert!(queue.take(4).is_some());
        let late = Instant::from_millis(6);
        let expired = core::iter::from_fn(|| queue.take_expired(late)).count();
        assert_eq!((expired, queue.bytes()), (99, 6));
    }
}
