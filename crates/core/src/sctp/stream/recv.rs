//! Reassembly, order within streams, and what waits to be read (RFC 9260 sections 6.5, 6.6, 6.9; partial delivery RFC 6458 8.1.21).
//!
//! What is incomplete is kept as runs of fragments (`runs.rs`). A complete message waits for its turn in its stream, or is read at once;
//! one that comes in order and in its turn is put where it is read (`ready.rs`). A message that is larger than the buffer is handed over
//! in parts.
use super::notes::Notes;
use super::numbers::Numbers;
use super::pieces::{PIN_MAX, Pieces};
use super::ready::{Data, Ready, same_message};
pub use super::runs::Inconsistent;
use super::runs::{Joined, Load, Run, Runs};
use crate::base::limits::{SCTP_CHUNK_OVERHEAD, SCTP_TSN_AHEAD_MAX};
use crate::base::steps;
use crate::sctp::message::{Received, RecvInfo};
use crate::sctp::notification::{Notification, SendFailed};
use crate::sctp::tsn::Tsn;
use bytes::Bytes;
use lowwater_wire::sctp::{DataFlags, DataRepr, ForwardStream};
use std::collections::{BTreeMap, VecDeque};

/// The part of its goal that a look through all that waits has to give back, or be paid for by reading.
const RENEGE_SHARE: usize = 16;

/// A complete message.
#[derive(Debug)]
struct Part {
    pieces: Pieces,
    bytes: usize,
    info: RecvInfo,
}

impl Part {
    fn load(&self) -> Load {
        Load { bytes: self.bytes, pieces: self.pieces.len() }
    }
}

/// The message that is handed over in parts.
#[derive(Clone, Copy, Debug)]
struct Partial {
    /// TSN of its next fragment.
    next: u64,
    info: RecvInfo,
}

/// The receiving side of all streams.
#[derive(Debug, Default)]
pub struct RecvStreams {
    /// Incomplete messages.
    runs: Runs,
    /// Complete messages that wait for others of their stream.
    waiting: BTreeMap<(u16, u16), Part>,
    /// The next number of each stream that has received an ordered message.
    next_ssn: Numbers,
    ready: Ready,
    partial: Option<Box<Partial>>,
    /// Complete messages that wait until the partial one is complete.
    held: VecDeque<Part>,
    /// How much is in all of these.
    load: Load,
    /// So much must be read before [`Self::renege`] looks again, since it found little the last time.
    futile: usize,
    /// What notifications cost that a peer may cause as often as it likes.
    notes: Notes,
    frame: Frame,
}

/// The packet that is read.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    /// Its length in bytes: a piece of it that is read in its turn pins so much, for the others of its buffer go when they are read.
    len: u32,
    /// The length of its buffer, which may hold a train of packets: what waits for others pins all of that.
    buffer: u32,
    /// What could be read before it.
    ready: u32,
    /// What it has brought costs so much.
    charge: u32,
    /// Bytes that were copied so that they do not pin it.
    copied: u32,
    /// Chunks that were dropped since what they belong to can never be complete.
    torn: u32,
}

impl RecvStreams {
    /// Bytes of user data that are held.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.load.bytes
    }

    /// What is held costs so much memory.
    #[must_use]
    pub const fn charge(&self) -> usize {
        self.load.charge()
    }

    /// The numbers of the streams that the peer has used cost so much. They stay.
    #[must_use]
    pub const fn stream_bytes(&self) -> usize {
        self.next_ssn.bytes()
    }

    /// A packet of this many bytes begins, in a buffer of so many.
    pub fn begin_packet(&mut self, len: usize, buffer: usize) {
        let (len, buffer, ready) = (len as u32, buffer.max(len) as u32, self.ready.len() as u32);
        // A notification may have set something aside since the last one.
        self.frame = Frame { len, buffer, ready, charge: 0, copied: self.frame.copied, torn: 0 };
    }

    /// It ends. Pieces in order leave in order, so that they pin little beside each other; but where a packet held hardly anything of
    /// use they are copied. How many bytes were copied of all of it, and how many chunks were dropped as parts of torn messages.
    pub fn end_packet(&mut self) -> (usize, u64) {
        let frame = core::mem::take(&mut self.frame);
        let mut copied = frame.copied as usize;
        if PIN_MAX * (frame.charge as usize) < frame.len as usize {
            copied += self.ready.spare(frame.ready as usize, frame.len as usize, SCTP_CHUNK_OVERHEAD);
        }
        (copied, frame.torn.into())
    }

    /// Something can be read.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.ready.is_readable()
    }

    /// Pieces and notifications that can be read.
    #[must_use]
    pub fn readable(&self) -> usize {
        self.ready.readable()
    }

    /// A message is handed over in parts.
    #[must_use]
    pub const fn is_partial(&self) -> bool {
        self.partial.is_some()
    }

    /// The message whose first TSN is this was not read to its end: more of it waits to be read, or will come.
    #[must_use]
    pub fn is_inside(&self, tsn: u32) -> bool {
        self.partial.as_ref().is_some_and(|partial| partial.info.tsn == tsn) || self.ready.is_inside(tsn)
    }

    /// Bytes of messages that can be read.
    #[must_use]
    pub fn readable_bytes(&self) -> usize {
        self.ready.bytes()
    }

    /// Notifications that were too many since the last call: those that a peer may cause, and those of messages that failed.
    pub fn take_dropped(&mut self) -> (u64, u64) {
        self.notes.take_dropped()
    }

    /// What messages cost that failed, and that are told with their data.
    #[must_use]
    pub const fn failed_charge(&self) -> usize {
        self.notes.failed_charge()
    }

    /// What a peer makes us keep beside messages costs so much: numbers of streams beyond the first ones, causes of errors.
    #[must_use]
    pub const fn peer_charge(&self) -> usize {
        self.next_ssn.bytes().saturating_sub(Numbers::PAGE_BYTES) + self.notes.bytes()
    }

    /// A message failed; its notification comes behind what is there, unless those that wait cost `most` bytes.
    pub fn notify_failed(&mut self, failed: SendFailed, most: usize) {
        if self.notes.admit_failed(&failed, most) {
            self.notify(Notification::SendFailed(failed));
        }
    }

    /// A notification comes behind what is there. Of those that a peer may cause as often as it likes some wait, and of restarts
    /// behind each other one.
    pub fn notify(&mut self, note: Notification) {
        if !self.notes.admit(&note) {
            return;
        }
        self.set_aside();
        self.ready.push_note(note);
    }

    /// A chunk that nobody could ever read: a fragment whose neighbour has come as something else, or a message whose number in its
    /// stream was delivered or skipped (no number is further ahead than a window of TSNs). Both would take room for good.
    /// `has` tells which TSNs have come already, whatever became of them.
    #[must_use]
    pub fn is_useless(&self, tsn: Tsn, header: &DataRepr, has: impl Fn(Tsn) -> bool) -> bool {
        let flags = header.flags;
        // What is asked most, and costs least, comes first.
        let held = |at: u64| self.ready.is_open_at(at) || self.runs.holds(at);
        let goes_on = || self.partial.as_ref().is_some_and(|partial| partial.next == tsn.0);
        let lone = (!flags.begin() && !held(tsn.0 - 1) && !goes_on() && has(tsn.prev()))
            || (!flags.end() && has(tsn.next()) && !held(tsn.0 + 1));
        let ahead = || header.ssn.wrapping_sub(self.next_ssn.get(header.sid));
        lone || (flags.begin() && !flags.unordered() && u64::from(ahead()) > SCTP_TSN_AHEAD_MAX)
    }

    /// A DATA chunk that has not come before; its `data` lies in `buffer`. Neighbours that it shows to be torn are dropped: a sender
    /// that gives a message up may never number the rest of it, and goes on with the next one (RFC 3758; Linux `sctp_chunk_abandoned`).
    ///
    /// # Errors
    /// When it goes on with a fragment that is of another message.
    pub fn insert(
        &mut self,
        tsn: Tsn,
        header: &DataRepr,
        data: &[u8],
        buffer: &Bytes,
    ) -> Result<bool, Inconsistent> {
        let unordered = header.flags.unordered();
        let info = RecvInfo {
            stream: header.sid,
            ssn: if unordered { 0 } else { header.ssn },
            ppid: header.ppid,
            tsn: header.tsn,
            unordered,
        };
        self.load += Load { bytes: data.len(), pieces: 1 };
        self.frame.charge += (data.len() + SCTP_CHUNK_OVERHEAD) as u32;
        if header.flags.contains(DataFlags::WHOLE) {
            self.set_aside();
            self.tear_beside(tsn.0, true, true);
            self.complete_whole(Data::In(data, buffer), info);
            return Ok(false);
        }
        let pinned =
            if self.is_in_turn(tsn, header.flags, &info) { self.frame.len } else { self.frame.buffer };
        let pins = PIN_MAX * (data.len() + SCTP_CHUNK_OVERHEAD) < pinned as usize;
        if !pins {
            return self.insert_fragment(tsn, header.flags, info, Data::In(data, buffer));
        }
        self.frame.copied += data.len() as u32;
        self.insert_fragment(tsn, header.flags, info, Data::Own(Bytes::copy_from_slice(data)))
    }

    /// A part of a message; true when the message is complete.
    fn insert_fragment(
        &mut self,
        tsn: Tsn,
        flags: DataFlags,
        info: RecvInfo,
        data: Data<'_>,
    ) -> Result<bool, Inconsistent> {
        if !flags.begin() && self.ready.goes_on(tsn.0, &info) {
            self.ready.go_on(data, flags.end());
            if flags.end() && !info.unordered {
                self.advance(info.stream, info.ssn.wrapping_add(1));
            }
            return Ok(flags.end());
        }
        self.set_aside();
        self.check_partial(tsn, flags, &info)?;
        if flags.begin() && self.runs.is_empty() && self.partial.is_none() && self.is_next(&info) {
            self.ready.open(tsn.0, info, data);
            return Ok(false);
        }
        let (begins, ends, bytes) = (flags.begin(), flags.end(), data.len());
        let pieces = Pieces::one(data.into_bytes());
        let run = Run { end: tsn.0 + 1, info, begins, ends, pieces, bytes };
        self.tear_beside(tsn.0, run.begins, run.ends);
        let (start, run) = match self.runs.join(tsn.0, run)? {
            Joined::Run(start, run) => (start, run),
            Joined::Torn(load) => {
                self.tear(load);
                return Ok(false);
            }
        };
        if run.begins && run.ends {
            self.complete(Part { pieces: run.pieces, bytes: run.bytes, info: run.info });
            return Ok(true);
        }
        self.runs.insert(start, run);
        self.continue_partial();
        Ok(false)
    }

    /// A fragment goes where it will be read, and waits for nothing but its neighbours.
    fn is_in_turn(&self, tsn: Tsn, flags: DataFlags, info: &RecvInfo) -> bool {
        if flags.begin() {
            self.runs.is_empty() && self.partial.is_none() && !self.ready.is_open() && self.is_next(info)
        } else {
            self.ready.goes_on(tsn.0, info)
        }
    }

    /// It is this message's turn to be read, once it is complete.
    fn is_next(&self, info: &RecvInfo) -> bool {
        info.unordered || self.next_ssn.get(info.stream) == info.ssn
    }

    /// The message that is coming in goes to the other incomplete ones: something else comes first.
    fn set_aside(&mut self) {
        let Some((open, pieces, copied)) = self.ready.take_open(SCTP_CHUNK_OVERHEAD) else { return };
        // What this packet brings lies where those have lain.
        self.frame.ready = self.frame.ready.min(self.ready.len() as u32);
        self.frame.copied += copied as u32;
        let (info, bytes) = (open.info, open.bytes as usize);
        let run = Run { end: open.end, info, begins: true, ends: false, pieces, bytes };
        self.runs.insert(open.start(), run);
    }

    /// What can never be complete beside this fragment goes.
    fn tear_beside(&mut self, tsn: u64, begins: bool, ends: bool) {
        let torn = self.runs.tear_beside(tsn, begins, ends);
        self.tear(torn);
    }

    /// Parts of torn messages were dropped.
    fn tear(&mut self, torn: Load) {
        self.load -= torn;
        self.frame.torn += torn.pieces as u32;
    }

    /// What goes on where the message does that is read in parts is a part of it. Another message may begin there: then nothing more
    /// comes of this one, and its reader hears of that when FORWARD TSN says so.
    fn check_partial(&self, tsn: Tsn, flags: DataFlags, info: &RecvInfo) -> Result<(), Inconsistent> {
        let wrong =
            |partial: &Partial| partial.next == tsn.0 && !flags.begin() && !same_message(&partial.info, info);
        if self.partial.as_deref().is_some_and(wrong) { Err(Inconsistent) } else { Ok(()) }
    }

    /// A message that came whole. Where it is read next and nothing is read in parts it costs no more than its place.
    fn complete_whole(&mut self, data: Data<'_>, info: RecvInfo) {
        if self.partial.is_some() || !self.is_next(&info) {
            let bytes = data.len();
            return self.complete(Part { pieces: Pieces::one(data.into_bytes()), bytes, info });
        }
        self.ready.push_whole(data, info);
        if !info.unordered {
            self.advance(info.stream, info.ssn.wrapping_add(1));
        }
    }

    /// A message is complete: it is read now, or after others of its stream.
    fn complete(&mut self, mut part: Part) {
        if part.info.unordered {
            return self.deliver(part);
        }
        let (stream, ssn) = (part.info.stream, part.info.ssn);
        let next = self.next_ssn.get(stream);
        if ssn != next {
            self.frame.copied += part.pieces.spare(self.frame.buffer as usize, SCTP_CHUNK_OVERHEAD) as u32;
            if let Some(old) = self.waiting.insert((stream, ssn), part) {
                // Two messages under one number: the peer is confused, the later one counts.
                self.load -= old.load();
            }
            return;
        }
        self.deliver(part);
        self.advance(stream, ssn.wrapping_add(1));
    }

    /// `next` is the next number of a stream; whatever has waited for that follows.
    fn advance(&mut self, stream: u16, mut next: u16) {
        while let Some(part) = self.waiting.remove(&(stream, next)) {
            self.deliver(part);
            next = next.wrapping_add(1);
        }
        self.next_ssn.set(stream, next);
    }

    fn deliver(&mut self, mut part: Part) {
        if self.partial.is_some() {
            self.frame.copied += part.pieces.spare(self.frame.buffer as usize, SCTP_CHUNK_OVERHEAD) as u32;
            self.held.push_back(part);
        } else {
            self.ready.push(part.pieces, part.info, true);
        }
    }

    /// Begins to hand over an incomplete message whose beginning is there and whose turn it is: the buffer is full of it, or it
    /// has grown to the partial delivery point. True when something can be read now.
    pub fn begin_partial(&mut self, cum: Tsn, least: usize) -> bool {
        if self.partial.is_some() {
            return false;
        }
        self.set_aside();
        // What is not acknowledged cumulatively might still be taken back. Where nothing is missing only the last message is incomplete.
        let fits = |r: &Run| r.begins && r.end <= cum.0 + 1 && r.bytes >= least && self.is_next(&r.info);
        let last = self.runs.last_up_to(cum.0);
        let Some((start, run)) = last.filter(|(_, run)| fits(run)) else { return false };
        self.partial = Some(Box::new(Partial { next: start, info: run.info }));
        self.continue_partial();
        true
    }

    /// Hands over what continues the partial message.
    fn continue_partial(&mut self) {
        let Some(partial) = &mut self.partial else { return };
        let another = |run: &Run| run.begins && run.info.tsn != partial.info.tsn;
        if self.runs.at(partial.next).is_none_or(another) {
            return;
        }
        let Some(run) = self.runs.remove(partial.next) else { return };
        let info = partial.info;
        partial.next = run.end;
        self.ready.push(run.pieces, info, run.ends);
        if !run.ends {
            return;
        }
        self.partial = None;
        if !info.unordered {
            self.advance(info.stream, info.ssn.wrapping_add(1));
        }
        self.release_held();
    }

    /// What has waited for the end of the partial message can be read.
    fn release_held(&mut self) {
        for part in self.held.drain(..) {
            self.ready.push(part.pieces, part.info, true);
        }
    }

    /// Length of the first piece of the next message; 0 before anything else.
    #[must_use]
    pub fn next_piece(&self) -> usize {
        self.ready.next_piece()
    }

    /// The next item, `max` bytes of a message at the most.
    pub fn recv(&mut self, max: usize) -> Option<Received> {
        let taken = self.ready.recv(max)?;
        let was = Load { bytes: taken.bytes, pieces: taken.pieces };
        self.load -= was;
        self.futile = self.futile.saturating_sub(was.charge());
        if let Received::Notification(note) = &taken.received {
            self.notes.release(note);
        }
        Some(taken.received)
    }

    /// Shows what can be read to `see`, piece by piece as it came, with what came with its message and whether that ends with it, up to
    /// the next notification; how many bytes.
    pub fn read(&mut self, see: &mut impl FnMut(&[u8], &RecvInfo, bool)) -> usize {
        let before = self.load.bytes;
        while let Some(bytes) = self.ready.read(see) {
            let was = Load { bytes, pieces: 1 };
            self.load -= was;
            self.futile = self.futile.saturating_sub(was.charge());
        }
        before - self.load.bytes
    }

    /// The peer has given up what is missing up to `point`, and `skipped` says up to which message of each stream. What is incomplete
    /// there is dropped, what has waited for it is delivered. `tell` of a message that ends in its middle.
    pub fn skip(&mut self, point: Tsn, skipped: &[ForwardStream], tell: bool) {
        self.set_aside();
        while let Some(run) = self.runs.pop_up_to(point.0) {
            steps::step();
            self.load -= run.load();
            self.futile = self.futile.saturating_sub(run.load().charge());
        }
        // A message is given up as a whole (RFC 3758 section 3.5 A3), so one that began there will not go on.
        let stopped = self.partial.take_if(|partial| point.near(partial.info.tsn) <= point);
        if let Some(partial) = stopped {
            self.stop_partial(&partial, tell);
        }
        for skip in skipped {
            self.skip_stream(skip.sid(), skip.ssn());
        }
    }

    /// The rest of this message does not come. The reader hears of that before what has waited behind it.
    fn stop_partial(&mut self, partial: &Partial, tell: bool) {
        if tell {
            self.notify(Notification::PartialDeliveryAborted { stream: partial.info.stream });
        }
        self.release_held();
    }

    /// The messages of this stream up to `ssn` do not come any more; those of them that are here do.
    fn skip_stream(&mut self, stream: u16, ssn: u16) {
        let next = self.next_ssn.get(stream);
        let ahead = |n: u16| n.wrapping_sub(next);
        if ahead(ssn) >= 1 << 15 {
            return;
        }
        // The numbers go round: what lies behind the last one comes first.
        if ssn < next {
            self.skip_numbers(stream, next, u16::MAX);
            self.skip_numbers(stream, 0, ssn);
        } else {
            self.skip_numbers(stream, next, ssn);
        }
        self.advance(stream, ssn.wrapping_add(1));
    }

    /// Delivers what waits under these numbers, and looks at nothing else: one chunk may skip the same stream hundreds of times.
    fn skip_numbers(&mut self, stream: u16, first: u16, last: u16) {
        while let Some((&key, _)) = self.waiting.range((stream, first)..=(stream, last)).next() {
            steps::step();
            let Some(part) = self.waiting.remove(&key) else { return };
            self.deliver(part);
        }
    }

    /// These streams begin anew at 0, or all of them where none is named: the peer has sent nothing more under their old numbers. What has
    /// waited for others of those is delivered.
    pub fn reset(&mut self, streams: &[u16]) {
        self.set_aside();
        if streams.is_empty() {
            while let Some((_, part)) = self.waiting.pop_first() {
                steps::step();
                self.deliver(part);
            }
            return self.next_ssn.clear();
        }
        for stream in streams {
            self.skip_numbers(*stream, 0, u16::MAX);
            self.next_ssn.reset(*stream);
        }
    }

    /// All numbers begin anew: nothing up to `point` is waited for, and no stream has a number. `tell` of a message that ends in its
    /// middle.
    pub fn reset_all(&mut self, point: Tsn, tell: bool) {
        self.skip(point, &[], tell);
        self.reset(&[]);
    }

    /// Takes back what lies highest above `cum`, until no more than `goal` is charged; the TSNs, first and behind the last. It looks at all
    /// that waits: where that gave back less than a sixteenth of `goal`, it does not look again before as much was read.
    pub fn renege(&mut self, cum: Tsn, goal: usize) -> Vec<(u64, u64)> {
        if self.futile > 0 {
            return Vec::new();
        }
        let before = self.charge();
        let gone = self.renege_highest(cum, goal);
        self.futile = (goal / RENEGE_SHARE).saturating_sub(before - self.charge());
        gone
    }

    fn renege_highest(&mut self, cum: Tsn, goal: usize) -> Vec<(u64, u64)> {
        self.set_aside();
        let whole = self.waiting.iter().map(|(key, part)| {
            steps::step();
            let start = cum.near(part.info.tsn).0;
            ((start, start + part.pieces.len() as u64), Some(*key))
        });
        let parts = self.runs.iter().map(|(start, run)| ((start, run.end), None));
        let mut above: Vec<_> = whole.chain(parts).filter(|((start, _), _)| *start > cum.0).collect();
        above.sort_unstable_by_key(|((start, _), _)| *start);
        let mut gone = Vec::new();
        while self.charge() > goal
            && let Some((tsns, key)) = above.pop()
        {
            gone.push(tsns);
            let left = match key {
                Some(key) => self.waiting.remove(&key).map(|part| part.load()),
                None => self.runs.remove(tsns.0).map(|run| run.load()),
            };
            self.load -= left.unwrap_or_default();
        }
        self.renege_held(cum, goal, &mut gone);
        gone
    }

    /// The same of complete messages that wait for the end of the one that is read in parts, the last first: their streams wait for
    /// them again.
    fn renege_held(&mut self, cum: Tsn, goal: usize, gone: &mut Vec<(u64, u64)>) {
        while self.charge() > goal {
            let Some(part) = self.held.pop_back_if(|part| cum.near(part.info.tsn) > cum) else { return };
            let start = cum.near(part.info.tsn).0;
            gone.push((start, start + part.pieces.len() as u64));
            if !part.info.unordered {
                self.next_ssn.set(part.info.stream, part.info.ssn);
            }
            self.load -= part.load();
        }
    }

    /// Gives back the memory of the busiest time, where there is nothing in it.
    pub fn shrink(&mut self) {
        self.ready.shrink();
        if self.held.is_empty() {
            self.held = VecDeque::new();
        }
    }

    /// Nobody waits for more: what can be read stays, what is incomplete or out of order goes.
    pub fn forget_incomplete(&mut self) {
        self.set_aside();
        self.futile = 0;
        self.load -= self.runs.clear();
        let (waiting, held) = (core::mem::take(&mut self.waiting), core::mem::take(&mut self.held));
        self.load -= waiting.values().chain(&held).map(Part::load).sum();
        self.partial = None;
    }

    /// All streams begin anew, as after a restart of the peer; what is ready stays. `tell` of a message that ends in its middle.
    pub fn restart(&mut self, tell: bool) {
        self.set_aside();
        self.futile = 0;
        self.load -= self.runs.clear();
        self.load -= core::mem::take(&mut self.waiting).values().map(Part::load).sum();
        self.next_ssn.clear();
        if let Some(partial) = self.partial.take() {
            self.stop_partial(&partial, tell);
        }
    }
}

#[cfg(test)]
mod tests;
