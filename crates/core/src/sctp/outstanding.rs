//! DATA chunks that were sent and not acknowledged cumulatively: who carries them, what was said about them, what goes again.
mod lost;
mod named;
mod skip;

use super::paths::PathId;
use super::tsn::Tsn;
use crate::base::{Instant, steps};
use crate::ranges::RangeSet;
use bytes::Bytes;
pub use lost::Loss;
use lost::LostSet;
use lowwater_wire::sctp::{DataFlags, ForwardStream};
pub use named::Highest;
use named::NamedSet;
use skip::Skip;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Miss indications after which a chunk goes again (RFC 9260 section 7.2.4).
pub const MISSING_MAX: u8 = 3;

/// What is known of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// On its way, as far as is known.
    InFlight,
    /// To be sent again; it counts no longer as in flight.
    Lost,
    /// A gap block has named it. The peer may take that back.
    Acked,
    /// It was given up: the peer is told to go on without it.
    Abandoned,
}

/// One DATA chunk.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// User data.
    pub data: Bytes,
    /// When it was sent last.
    pub sent_at: Instant,
    /// Payload protocol identifier.
    pub ppid: u32,
    /// The application's own number of its message.
    pub context: u32,
    /// Stream.
    pub stream: u16,
    /// Number in the stream.
    pub ssn: u16,
    /// B, E, U and I.
    pub flags: DataFlags,
    /// Where it was sent last.
    pub path: PathId,
    /// How often, up to 255.
    pub sends: u8,
    /// Miss indications.
    pub missing: u8,
    /// What is known of it.
    pub mark: Mark,
    /// What it may not outlive.
    pub limit: Limit,
}

/// Whether a lost chunk goes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// As often as it takes.
    Full,
    /// So often.
    Times(u8),
    /// While the lifetime of its message lasts.
    Lifetime,
}

impl Chunk {
    /// Bytes that it counts in windows and in flight.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.data.len() as u32
    }

    /// What decides where it goes again, when it is lost.
    const fn loss(&self) -> Loss {
        Loss { path: self.path, missed: self.missing >= MISSING_MAX }
    }

    /// What is counted is misses in a row (section 7.2.4); after the third it has had its fast retransmission.
    const fn forget_misses(&mut self) {
        if self.missing < MISSING_MAX {
            self.missing = 0;
        }
    }

    /// Never: a DATA chunk carries something.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }
}

/// The numbers of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first that counts.
    pub first: Tsn,
    /// The last that was sent.
    pub last: Tsn,
    /// That is the last one of all.
    pub whole: bool,
}

/// The chunks behind the cumulative TSN, in order and without a hole.
#[derive(Debug)]
pub struct Outstanding {
    /// The cumulative TSN.
    cum: Tsn,
    chunks: VecDeque<Chunk>,
    /// TSNs that gap blocks have named.
    acked: NamedSet,
    /// TSNs that are marked lost.
    lost: LostSet,
    /// Bytes in flight on all paths together.
    in_flight: u32,
    /// Bytes held.
    bytes: usize,
    /// Lost chunks that may not go again, or not for ever, none of which was asked for yet.
    doubtful: Vec<Tsn>,
    /// What was given up right behind the cumulative TSN.
    skip: Skip,
    /// Everything up to here has come, as the answer to a request says, whatever SACKs say.
    heard: Tsn,
}

impl Outstanding {
    /// Nothing sent yet; `initial` will be the first TSN.
    #[must_use]
    pub const fn new(initial: Tsn) -> Self {
        Self {
            cum: initial.prev(),
            chunks: VecDeque::new(),
            acked: NamedSet::new(),
            lost: LostSet::new(),
            in_flight: 0,
            bytes: 0,
            doubtful: Vec::new(),
            skip: Skip::new(),
            heard: Tsn(0),
        }
    }

    /// Everything up to here is acknowledged.
    #[must_use]
    pub const fn cum(&self) -> Tsn {
        self.cum
    }

    /// The TSN of the next new chunk.
    #[must_use]
    pub fn next_tsn(&self) -> Tsn {
        self.cum.plus(self.chunks.len() as u64 + 1)
    }

    /// Nothing is outstanding.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Number of chunks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Bytes in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Bytes held, acknowledged by gap blocks or not.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The chunk of this TSN.
    #[must_use]
    pub fn get(&self, tsn: Tsn) -> Option<&Chunk> {
        self.chunks.get(self.index(tsn)?)
    }

    fn index(&self, tsn: Tsn) -> Option<usize> {
        (tsn > self.cum).then(|| (tsn.0 - self.cum.0 - 1) as usize)
    }

    fn get_mut(&mut self, tsn: Tsn) -> Option<&mut Chunk> {
        let index = self.index(tsn)?;
        self.chunks.get_mut(index)
    }

    /// All chunks with their TSNs.
    pub fn iter(&self) -> impl Iterator<Item = (Tsn, &Chunk)> {
        self.chunks.iter().enumerate().map(|(n, chunk)| (self.cum.plus(n as u64 + 1), chunk))
    }

    /// A new chunk leaves, marked in flight; its TSN.
    pub fn push(&mut self, chunk: Chunk) -> Tsn {
        let tsn = self.next_tsn();
        self.in_flight += chunk.len();
        self.bytes += chunk.data.len();
        self.chunks.push_back(chunk);
        tsn
    }

    /// The lowest lost chunk from `from` on of the kinds that `of` names.
    #[must_use]
    pub fn next_lost(&self, from: Tsn, of: impl Fn(Loss) -> bool) -> Option<(Tsn, Loss)> {
        self.lost.next(from, of)
    }

    /// What kinds of lost chunks there are, two of each path at the most.
    pub fn losses(&self) -> impl Iterator<Item = Loss> + '_ {
        self.lost.kinds()
    }

    /// Number of chunks that are marked lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.total()
    }

    /// Nothing below this TSN waits for an acknowledgement on `path`, where something is `in_flight` or not, or to go again there.
    #[must_use]
    pub fn is_lowest_of(&self, tsn: Tsn, path: PathId, in_flight: bool) -> bool {
        let lost = self.lost.next(self.cum.next(), |loss| loss.path == path);
        if lost.is_some_and(|(first, _)| first < tsn) {
            return false;
        }
        if !in_flight {
            return true;
        }
        let waits = |c: &Chunk| c.path == path && c.mark == Mark::InFlight;
        let mut from = self.cum.next();
        while let Some((first, end)) = self.next_unacked(from, tsn) {
            let mut run = (first.0..end.0).inspect(|_| steps::step());
            if run.any(|below| self.get(Tsn(below)).is_some_and(waits)) {
                return false;
            }
            from = end;
        }
        true
    }

    /// A lost chunk leaves again, on `path`; the chunk as it is now.
    pub fn resend(&mut self, tsn: Tsn, path: PathId, at: Instant) -> Option<&Chunk> {
        let loss = self.get(tsn)?.loss();
        self.lost.remove(tsn, loss);
        let chunk = self.get_mut(tsn)?;
        chunk.mark = Mark::InFlight;
        chunk.path = path;
        chunk.sent_at = at;
        chunk.sends = chunk.sends.saturating_add(1);
        chunk.forget_misses();
        let len = chunk.len();
        self.in_flight += len;
        self.get(tsn)
    }

    /// Marks a chunk that is in flight as lost; its path and bytes when it was.
    pub fn lose(&mut self, tsn: Tsn) -> Option<(PathId, u32)> {
        let chunk = self.get_mut(tsn).filter(|c| c.mark == Mark::InFlight)?;
        chunk.mark = Mark::Lost;
        let (loss, len) = (chunk.loss(), chunk.len());
        let doubtful = match chunk.limit {
            Limit::Full => false,
            Limit::Times(most) => chunk.sends > most,
            Limit::Lifetime => true,
        };
        self.in_flight -= len;
        self.lost.insert(tsn, loss);
        if doubtful {
            self.doubtful.push(tsn);
        }
        Some((loss.path, len))
    }

    /// A chunk that was lost since the last call and is so still, but may not go again, or not for ever; what it may not outlive.
    pub fn take_doubtful(&mut self) -> Option<(Tsn, Limit)> {
        while let Some(tsn) = self.doubtful.pop() {
            steps::step();
            if let Some(chunk) = self.get(tsn).filter(|chunk| chunk.mark == Mark::Lost) {
                return Some((tsn, chunk.limit));
            }
        }
        None
    }

    /// What has numbers of the message that this chunk is of, as far as it is not acknowledged cumulatively: its fragments are
    /// neighbours.
    #[must_use]
    pub fn message_at(&self, tsn: Tsn) -> Option<Span> {
        let flags = |tsn: Tsn| self.get(tsn).inspect(|_| steps::step()).map(|chunk| chunk.flags);
        let (mut first, mut last) = (tsn, tsn);
        let mut end = flags(tsn)?;
        while !flags(first)?.begin() && first.prev() > self.cum {
            first = first.prev();
        }
        while !end.end()
            && let Some(next) = flags(last.next())
        {
            (last, end) = (last.next(), next);
        }
        Some(Span { first, last, whole: end.end() })
    }

    /// Marks everything lost that is in flight on `path`; how many bytes.
    pub fn lose_path(&mut self, path: PathId) -> u32 {
        let mut lost = 0;
        for n in 0..self.chunks.len() as u64 {
            let tsn = self.cum.plus(n + 1);
            if self.get(tsn).is_some_and(|c| c.path == path)
                && let Some((_, len)) = self.lose(tsn)
            {
                lost += len;
            }
        }
        lost
    }

    /// The paths have new numbers, and nothing is under way: what was sent counts for `path`.
    pub fn move_to(&mut self, path: PathId) {
        debug_assert!(self.in_flight == 0, "what is in flight counts for its path");
        for chunk in &mut self.chunks {
            chunk.path = path;
        }
        self.lost.move_to(path);
        self.acked.move_to(path);
    }

    /// Everything up to `cum` is acknowledged cumulatively; `see` sees each chunk before it goes. They are dropped where they lie: moving
    /// one out costs more than all that is said of it.
    pub fn advance(&mut self, cum: Tsn, mut see: impl FnMut(Tsn, &Chunk)) {
        while self.cum < cum
            && let Some(chunk) = self.chunks.front()
        {
            self.cum = self.cum.next();
            see(self.cum, chunk);
            self.bytes -= chunk.data.len();
            if chunk.mark == Mark::InFlight {
                self.in_flight -= chunk.len();
            }
            self.chunks.pop_front();
        }
        let next = self.cum.next();
        self.lost.remove_below(next);
        self.acked.remove(Tsn(0), next);
        self.skip.remove_up_to(self.cum);
    }

    /// The first run of TSNs in `start..end` that no gap block has named: from where to where.
    #[must_use]
    pub fn next_unacked(&self, start: Tsn, end: Tsn) -> Option<(Tsn, Tsn)> {
        self.acked.ranges().first_gap(start.0, end.0).map(|(first, end)| (Tsn(first), Tsn(end)))
    }

    /// A gap block names `start..end`; `see` sees each chunk that none has named before, but for those that were given up, with what it
    /// was.
    pub fn ack(&mut self, start: Tsn, end: Tsn, mut see: impl FnMut(Tsn, Mark, &Chunk)) {
        let mut from = start;
        while let Some((first, to)) = self.next_unacked(from, end) {
            let mut highest = self.acked.highest();
            for tsn in (first.0..to.0).map(Tsn) {
                let Some(chunk) = self.get_mut(tsn) else { return };
                let (before, loss) = (chunk.mark, chunk.loss());
                if before == Mark::Abandoned {
                    continue;
                }
                chunk.mark = Mark::Acked;
                if let Some(highest) = highest.get_mut(usize::from(chunk.path)) {
                    *highest = tsn.max(*highest);
                }
                see(tsn, before, chunk);
                let len = chunk.len();
                match before {
                    Mark::InFlight => self.in_flight -= len,
                    Mark::Lost => self.lost.remove(tsn, loss),
                    Mark::Acked | Mark::Abandoned => {}
                }
            }
            self.acked.insert(first, to, highest);
            from = to;
        }
    }

    /// The highest TSN of each path that gap blocks name; those at or below the cumulative one mean nothing.
    #[must_use]
    pub fn highest_acked(&self) -> Highest {
        self.acked.highest()
    }

    /// How many TSNs gap blocks have named.
    #[must_use]
    pub fn acked(&self) -> u64 {
        self.acked.ranges().total()
    }

    /// The TSNs that gap blocks have named, as ranges.
    pub fn acked_ranges(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.acked.ranges().iter()
    }

    /// The peer names only these TSNs below `end` now, and has taken back what it said of others, which are under way again as far as
    /// anybody knows: they go again when T3-rtx runs out, or when enough SACKs miss them (section 6.2.1, D iii). `see` sees the path and
    /// bytes of each. Which they were.
    pub fn renege(&mut self, named: &RangeSet, end: Tsn, mut see: impl FnMut(PathId, u32)) -> RangeSet {
        let mut back = RangeSet::new();
        let mut from = self.cum.next();
        while let Some((hole, to)) = named.first_gap(from.0, end.0) {
            while let Some((first, last)) = self.next_acked(Tsn(hole), Tsn(to)) {
                for tsn in (first.0..last.0).map(Tsn) {
                    let Some(chunk) = self.get_mut(tsn) else { return back };
                    // What was given up since then is under way for nobody.
                    if chunk.mark == Mark::Acked {
                        chunk.mark = Mark::InFlight;
                        chunk.forget_misses();
                        let (path, len) = (chunk.path, chunk.len());
                        self.in_flight += len;
                        see(path, len);
                    }
                }
                self.acked.remove(first, last);
                back.insert(first.0, last.0);
            }
            from = Tsn(to);
        }
        let (chunks, cum) = (&self.chunks, self.cum);
        let path_of = |tsn: Tsn| {
            steps::step();
            let chunk = chunks.get((tsn.0 - cum.0 - 1) as usize)?;
            (chunk.mark == Mark::Acked).then_some(chunk.path)
        };
        self.acked.settle(path_of);
        back
    }

    /// The first run of TSNs in `start..end` that gap blocks have named: from where to where.
    fn next_acked(&self, start: Tsn, end: Tsn) -> Option<(Tsn, Tsn)> {
        let named = self.acked.ranges();
        let (first, last) = named.range_at(start.0).or_else(|| named.range_from(start.0))?;
        let (first, last) = (first.max(start.0), last.min(end.0));
        (first < last).then_some((Tsn(first), Tsn(last)))
    }

    /// What was taken back of these counts as missed once (section 6.2.1 D iii), where the same SACK has not counted it already.
    pub fn count_reneged(&mut self, start: Tsn, end: Tsn) {
        for tsn in (start.0..end.0).map(Tsn) {
            if let Some(chunk) = self.get_mut(tsn).filter(|c| c.mark == Mark::InFlight && c.missing == 0) {
                chunk.missing = 1;
            }
        }
    }

    /// Gives up a chunk, whatever was said of it; what it was, and as it was.
    pub fn abandon(&mut self, tsn: Tsn) -> Option<(Mark, Chunk)> {
        let chunk = self.get_mut(tsn).filter(|c| c.mark != Mark::Abandoned)?;
        let was = chunk.clone();
        (chunk.mark, chunk.data) = (Mark::Abandoned, Bytes::new());
        self.bytes -= was.data.len();
        match was.mark {
            Mark::InFlight => self.in_flight -= was.len(),
            Mark::Lost => self.lost.remove(tsn, was.loss()),
            Mark::Acked | Mark::Abandoned => {}
        }
        Some((was.mark, was))
    }

    /// The last TSN up to which everything was given up (the "Advanced.Peer.Ack.Point" of RFC 3758), with the last message of each
    /// stream among it.
    pub fn forward(&mut self) -> (Tsn, SmallVec<[ForwardStream; 4]>) {
        self.skip.look((self.cum, self.heard), &self.chunks)
    }

    /// The peer has everything up to here: it has had streams begin anew, which it does no sooner (RFC 6525 section 5.2.2). It waits for none
    /// of the numbers before, and by what a FORWARD TSN says of them it would take those that come now for old ones.
    pub fn hear_of(&mut self, last: Tsn) {
        self.heard = last;
        self.skip.forget_streams(last);
    }

    /// One more miss indication for a chunk that is in flight; true when it is now to be sent again. A chunk goes again fast
    /// only once.
    pub fn miss(&mut self, tsn: Tsn) -> bool {
        let Some(chunk) = self.get_mut(tsn).filter(|c| c.mark == Mark::InFlight) else { return false };
        if chunk.missing >= MISSING_MAX {
            return false;
        }
        chunk.missing += 1;
        chunk.missing == MISSING_MAX
    }

    /// Gives back the memory of the busiest time, when there is nothing in it.
    pub fn shrink(&mut self) {
        if self.chunks.is_empty() {
            (self.chunks, self.doubtful) = (VecDeque::new(), Vec::new());
        }
    }

    /// Nothing is out, and the next chunk has this TSN.
    pub fn jump(&mut self, next: Tsn) {
        debug_assert!(self.chunks.is_empty() && next > self.cum, "numbers begin anew where nothing is out");
        (self.acked, self.lost, self.skip) = (NamedSet::new(), LostSet::new(), Skip::new());
        self.cum = next.prev();
    }

    /// Forgets all chunks, as after a restart or an end; what was not acknowledged.
    pub fn drain(&mut self) -> impl Iterator<Item = Chunk> + '_ {
        (self.acked, self.lost, self.skip) = (NamedSet::new(), LostSet::new(), Skip::new());
        (self.in_flight, self.bytes) = (0, 0);
        self.doubtful.clear();
        self.chunks.drain(..)
    }
}

#[cfg(test)]
impl Chunk {
    /// A whole message that has left by this path.
    pub(in crate::sctp) fn whole(path: PathId, sent_at: Instant, data: &'static [u8]) -> Self {
        Self {
            data: Bytes::from_static(data),
            sent_at,
            ppid: 0,
            context: 0,
            stream: 0,
            ssn: 0,
            flags: DataFlags::WHOLE,
            path,
            sends: 1,
            missing: 0,
            mark: Mark::InFlight,
            limit: Limit::Full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(path: PathId) -> Chunk {
        Chunk::whole(path, Instant::ZERO, &[7; 100])
    }

    #[test]
    fn bytes_in_flight_follow_every_mark() {
        let mut out = Outstanding::new(Tsn::initial(u32::MAX));
        let tsns: Vec<Tsn> = (0..5).map(|n| out.push(chunk(n % 2))).collect();
        assert_eq!(out.in_flight(), 500);
        out.ack(tsns[2], tsns[3], |_, before, _| assert_eq!(before, Mark::InFlight));
        assert_eq!(out.lose(tsns[2]), None);
        assert_eq!(out.lose(tsns[0]), Some((0, 100)));
        let first = out.next_lost(tsns[0], |_| true).map(|(tsn, _)| tsn);
        assert_eq!((out.in_flight(), first, out.lost()), (300, Some(tsns[0]), 1));
        assert_eq!(out.resend(tsns[0], 1, Instant::ZERO).map(|c| (c.sends, c.path)), Some((2, 1)));
        assert_eq!(out.lose_path(1), 300);
        assert_eq!((out.in_flight(), out.lost()), (100, 3));
        assert_eq!(out.next_acked(tsns[0], tsns[2]), None);
        assert_eq!(out.next_acked(tsns[0], tsns[3]), Some((tsns[2], tsns[3])));
        assert_eq!(out.highest_acked()[0], tsns[2]);
        let mut back = Vec::new();
        let which = out.renege(&RangeSet::new(), out.next_tsn(), |path, len| back.push((path, len)));
        assert!(which.iter().eq([(tsns[2].0, tsns[3].0)]));
        assert_eq!((back, out.highest_acked()[0]), (vec![(0, 100)], Tsn(0)));
        assert_eq!((out.in_flight(), out.lost(), out.acked()), (200, 3, 0));
        out.advance(tsns[4], |_, _| {});
        assert_eq!((out.in_flight(), out.lost(), out.bytes(), out.cum()), (0, 0, 0, tsns[4]));
        assert_eq!(out.next_tsn(), tsns[4].next());
    }

    #[test]
    fn what_was_given_up_and_is_taken_back_is_under_way_for_nobody() {
        let mut out = Outstanding::new(Tsn::initial(1));
        let tsns: Vec<Tsn> = (0..2).map(|_| out.push(chunk(0))).collect();
        out.ack(tsns[0], tsns[1].next(), |_, _, _| {});
        assert!(out.abandon(tsns[1]).is_some());
        let mut seen = Vec::new();
        let back = out.renege(&RangeSet::new(), out.next_tsn(), |path, len| seen.push((path, len)));
        assert_eq!((seen, out.in_flight()), (vec![(0, 100)], 100));
        assert!(back.iter().eq([(tsns[0].0, tsns[1].0 + 1)]) && out.acked() == 0);
    }

    #[test]
    fn the_lowest_of_a_path_is_not_the_lowest_of_all() {
        let mut out = Outstanding::new(Tsn::initial(1));
        let tsns: Vec<Tsn> = [0, 1, 0, 1].map(|path| out.push(chunk(path))).into();
        let lowest =
            |out: &Outstanding| tsns.iter().map(|t| out.is_lowest_of(*t, 1, true)).collect::<Vec<_>>();
        assert_eq!(lowest(&out), [true, true, false, false]);
        assert!(out.lose(tsns[1]).is_some());
        assert_eq!(lowest(&out), [true, true, false, false]);
        out.ack(tsns[1], tsns[2], |_, _, _| {});
        assert_eq!(lowest(&out), [true; 4]);
    }

    #[test]
    fn an_idle_queue_gives_its_memory_back_and_a_busy_one_does_not() {
        let mut out = Outstanding::new(Tsn::initial(1));
        for _ in 0..100 {
            out.push(chunk(0));
        }
        out.shrink();
        assert!(out.chunks.capacity() >= 100);
        out.advance(Tsn::initial(100), |_, _| {});
        out.shrink();
        assert_eq!((out.chunks.capacity(), out.next_tsn()), (0, Tsn::initial(101)));
    }

    #[test]
    fn three_misses_and_then_no_more() {
        let mut out = Outstanding::new(Tsn::initial(1));
        let tsn = out.push(chunk(0));
        assert_eq!([0; 5].map(|_| out.miss(tsn)), [false, false, true, false, false]);
    }

    #[test]
    fn the_record_is_small() {
        assert!(size_of::<Chunk>() <= 64, "{}", size_of::<Chunk>());
    }
}
