//! Reassembly, order within streams, and what waits to be read (RFC 9260 sections 6.5, 6.6, 6.9; partial delivery RFC 6458 8.1.21).
//!
//! Fragments of a message have consecutive TSNs: neighbours are kept as one run, so that each costs one search. A complete message
//! waits for its turn in its stream, or is read at once. A message that is larger than the buffer is handed over in parts.
use super::numbers::Numbers;
use super::pieces::{PIN_MAX, Pieces};
use crate::base::limits::SCTP_CHUNK_OVERHEAD;
use crate::sctp::message::{Received, RecvInfo};
use crate::sctp::notification::{Notification, Subscriptions};
use crate::sctp::tsn::Tsn;
use bytes::Bytes;
use lowwater_wire::sctp::{DataFlags, DataRepr, ForwardStream};
use std::collections::{BTreeMap, VecDeque};

/// Neighbouring fragments of one message.
#[derive(Debug)]
struct Run {
    /// The TSN behind the last fragment.
    end: u64,
    info: RecvInfo,
    begins: bool,
    ends: bool,
    pieces: Pieces,
    bytes: usize,
}

/// A message, or a part of one, that can be read.
#[derive(Debug)]
struct Part {
    pieces: Pieces,
    bytes: usize,
    info: RecvInfo,
    eor: bool,
}

#[derive(Debug)]
enum Item {
    Part(Part),
    Note(Notification),
}

/// The message that is handed over in parts.
#[derive(Clone, Copy, Debug)]
struct Partial {
    /// TSN of its next fragment.
    next: u64,
    info: RecvInfo,
}

/// Fragments that cannot belong together: the peer has made a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inconsistent;

/// The receiving side of all streams.
#[derive(Debug, Default)]
pub struct RecvStreams {
    /// Incomplete messages by the TSN of the first fragment that has come.
    runs: BTreeMap<u64, Run>,
    /// Complete messages that wait for others of their stream.
    waiting: BTreeMap<(u16, u16), Part>,
    /// The next number of each stream that has received an ordered message.
    next_ssn: Numbers,
    ready: VecDeque<Item>,
    partial: Option<Box<Partial>>,
    /// Complete messages that wait until the partial one is complete.
    held: VecDeque<Part>,
    /// Bytes of user data in all of these.
    bytes: usize,
    /// Pieces in all of these, for what they cost beside their bytes.
    pieces: usize,
    /// Notifications of ERROR chunks that wait to be read.
    remote_errors: usize,
    frame: Frame,
}

/// The packet that is read.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    /// Its length in bytes: a piece of it pins so much.
    len: usize,
    /// What could be read before it.
    ready: usize,
    /// What it has brought costs so much.
    charge: usize,
    /// Bytes that were copied so that they do not pin it.
    copied: usize,
}

impl RecvStreams {
    /// Bytes of user data that are held.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// What is held costs so much memory.
    #[must_use]
    pub const fn charge(&self) -> usize {
        self.bytes + self.pieces * SCTP_CHUNK_OVERHEAD
    }

    /// The numbers of the streams that the peer has used cost so much. They stay.
    #[must_use]
    pub const fn stream_bytes(&self) -> usize {
        self.next_ssn.bytes()
    }

    /// A packet of this many bytes begins.
    pub fn begin_packet(&mut self, len: usize) {
        self.frame = Frame { len, ready: self.ready.len(), charge: 0, copied: 0 };
    }

    /// It ends. Pieces in order leave in order, so that they pin little beside each other; but where a packet held hardly anything of
    /// use they are copied. How many bytes were copied of all of it.
    pub fn end_packet(&mut self) -> usize {
        let frame = core::mem::take(&mut self.frame);
        let mut copied = frame.copied;
        if PIN_MAX * frame.charge < frame.len {
            for item in self.ready.range_mut(frame.ready.min(self.ready.len())..) {
                if let Item::Part(part) = item {
                    copied += part.pieces.spare(frame.len, SCTP_CHUNK_OVERHEAD);
                }
            }
        }
        copied
    }

    /// Something can be read.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Bytes of messages that can be read.
    #[must_use]
    pub fn readable_bytes(&self) -> usize {
        let bytes = |item: &Item| match item {
            Item::Part(part) => part.bytes,
            Item::Note(_) => 0,
        };
        self.ready.iter().map(bytes).sum()
    }

    /// Notifications of ERROR chunks that wait to be read.
    #[must_use]
    pub const fn remote_errors(&self) -> usize {
        self.remote_errors
    }

    /// A notification comes behind what is there.
    pub fn notify(&mut self, note: Notification) {
        self.remote_errors += usize::from(note.kind() == Subscriptions::REMOTE_ERROR);
        self.ready.push_back(Item::Note(note));
    }

    /// A DATA chunk that has not come before.
    ///
    /// # Errors
    /// When it does not fit the fragments beside it.
    pub fn insert(&mut self, tsn: Tsn, header: &DataRepr, data: Bytes) -> Result<bool, Inconsistent> {
        let unordered = header.flags.unordered();
        let info = RecvInfo {
            stream: header.sid,
            ssn: if unordered { 0 } else { header.ssn },
            ppid: header.ppid,
            tsn: header.tsn,
            unordered,
        };
        self.bytes += data.len();
        self.pieces += 1;
        self.frame.charge += data.len() + SCTP_CHUNK_OVERHEAD;
        if header.flags.contains(DataFlags::WHOLE) {
            let bytes = data.len();
            self.complete(Part { pieces: Pieces::one(data), bytes, info, eor: true });
            return Ok(false);
        }
        let (begins, ends, bytes) = (header.flags.begin(), header.flags.end(), data.len());
        let mut pieces = Pieces::one(data);
        self.frame.copied += pieces.spare(self.frame.len, SCTP_CHUNK_OVERHEAD);
        let run = Run { end: tsn.0 + 1, info, begins, ends, pieces, bytes };
        let (start, run) = self.join(tsn.0, run)?;
        if run.begins && run.ends {
            self.complete(Part { pieces: run.pieces, bytes: run.bytes, info: run.info, eor: true });
            return Ok(true);
        }
        self.runs.insert(start, run);
        self.continue_partial();
        Ok(false)
    }

    /// Joins a fragment with the runs beside it, which leave the map.
    fn join(&mut self, tsn: u64, mut run: Run) -> Result<(u64, Run), Inconsistent> {
        let mut start = tsn;
        let left = self.runs.range(..tsn).next_back().filter(|(_, left)| left.end == tsn);
        if let Some((&at, left)) = left {
            if left.ends != run.begins {
                return Err(Inconsistent);
            }
            if !left.ends {
                let left = self.runs.remove(&at).ok_or(Inconsistent)?;
                run = left.with(run)?;
                start = at;
            }
        }
        if let Some(right) = self.runs.get(&run.end) {
            if right.begins != run.ends {
                return Err(Inconsistent);
            }
            if !right.begins {
                let right = self.runs.remove(&run.end).ok_or(Inconsistent)?;
                run = run.with(right)?;
            }
        }
        Ok((start, run))
    }

    /// A message is complete: it is read now, or after others of its stream.
    fn complete(&mut self, mut part: Part) {
        if part.info.unordered {
            return self.deliver(part);
        }
        let (stream, ssn) = (part.info.stream, part.info.ssn);
        let next = self.next_ssn.get(stream);
        if ssn != next {
            self.frame.copied += part.pieces.spare(self.frame.len, SCTP_CHUNK_OVERHEAD);
            if let Some(old) = self.waiting.insert((stream, ssn), part) {
                // Two messages under one number: the peer is confused, the later one counts.
                self.forget(&old);
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
            self.frame.copied += part.pieces.spare(self.frame.len, SCTP_CHUNK_OVERHEAD);
            self.held.push_back(part);
        } else {
            self.ready.push_back(Item::Part(part));
        }
    }

    fn forget(&mut self, part: &Part) {
        self.bytes -= part.bytes;
        self.pieces -= part.pieces.len();
    }

    /// Begins to hand over an incomplete message whose beginning is there and whose turn it is: the buffer is full of it, or it
    /// has grown to the partial delivery point. True when something can be read now.
    pub fn begin_partial(&mut self, cum: Tsn, least: usize) -> bool {
        if self.partial.is_some() {
            return false;
        }
        let turn = |run: &Run| run.info.unordered || self.next_ssn.get(run.info.stream) == run.info.ssn;
        // What is not acknowledged cumulatively might still be taken back.
        let found =
            self.runs.iter().find(|(_, r)| r.begins && r.end <= cum.0 + 1 && r.bytes >= least && turn(r));
        let Some((&start, run)) = found else { return false };
        self.partial = Some(Box::new(Partial { next: start, info: run.info }));
        self.continue_partial();
        true
    }

    /// Hands over what continues the partial message.
    fn continue_partial(&mut self) {
        let Some(partial) = &mut self.partial else { return };
        let Some(run) = self.runs.remove(&partial.next) else { return };
        let info = partial.info;
        partial.next = run.end;
        self.ready.push_back(Item::Part(Part { pieces: run.pieces, bytes: run.bytes, info, eor: run.ends }));
        if !run.ends {
            return;
        }
        self.partial = None;
        if !info.unordered {
            self.advance(info.stream, info.ssn.wrapping_add(1));
        }
        // Those before came first.
        let later = self.ready.len();
        self.ready.extend(self.held.drain(..).map(Item::Part));
        debug_assert!(later <= self.ready.len(), "nothing is lost");
    }

    /// Length of the first piece of the next message; 0 before anything else.
    #[must_use]
    pub fn next_piece(&self) -> usize {
        match self.ready.front() {
            Some(Item::Part(part)) => part.pieces.first_len(),
            _ => 0,
        }
    }

    /// The next item, `max` bytes of a message at the most.
    pub fn recv(&mut self, max: usize) -> Option<Received> {
        let Item::Part(part) = self.ready.front_mut()? else {
            let Some(Item::Note(note)) = self.ready.pop_front() else { return None };
            self.remote_errors -= usize::from(note.kind() == Subscriptions::REMOTE_ERROR);
            return Some(Received::Notification(note));
        };
        let info = part.info;
        let want = part.bytes.min(max);
        let (data, gone) = part.pieces.take(want);
        part.bytes -= want;
        let eor = part.bytes == 0 && part.eor;
        if part.bytes == 0 {
            self.ready.pop_front();
        }
        self.bytes -= want;
        self.pieces -= gone;
        Some(Received::Data { data, info, eor })
    }

    /// The peer has given up what is missing up to `point`, and `skipped` says up to which message of each stream. What is incomplete
    /// there is dropped, what has waited for it is delivered. `tell` of a message that ends in its middle.
    pub fn skip(&mut self, point: Tsn, skipped: &[ForwardStream], tell: bool) {
        let behind = self.runs.split_off(&(point.0 + 1));
        for run in core::mem::replace(&mut self.runs, behind).into_values() {
            self.bytes -= run.bytes;
            self.pieces -= run.pieces.len();
        }
        let stopped = self.partial.take_if(|partial| partial.next <= point.0);
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
        self.ready.extend(self.held.drain(..).map(Item::Part));
    }

    /// The messages of this stream up to `ssn` do not come any more; those of them that are here do.
    fn skip_stream(&mut self, stream: u16, ssn: u16) {
        let next = self.next_ssn.get(stream);
        let ahead = |n: u16| n.wrapping_sub(next);
        if ahead(ssn) >= 1 << 15 {
            return;
        }
        let waiting = self.waiting.range((stream, 0)..=(stream, u16::MAX)).map(|(key, _)| key.1);
        let mut here: Vec<u16> = waiting.filter(|n| ahead(*n) <= ahead(ssn)).collect();
        here.sort_unstable_by_key(|n| ahead(*n));
        for n in here {
            if let Some(part) = self.waiting.remove(&(stream, n)) {
                self.deliver(part);
            }
        }
        self.advance(stream, ssn.wrapping_add(1));
    }

    /// Gives back the memory of the busiest time, where there is nothing in it.
    pub fn shrink(&mut self) {
        if self.ready.is_empty() {
            self.ready = VecDeque::new();
        }
        if self.held.is_empty() {
            self.held = VecDeque::new();
        }
    }

    /// All streams begin anew, as after a restart of the peer; what is ready stays. `tell` of a message that ends in its middle.
    pub fn restart(&mut self, tell: bool) {
        let runs = core::mem::take(&mut self.runs);
        let waiting = core::mem::take(&mut self.waiting);
        let (bytes, pieces) = runs.values().fold((0, 0), |(b, p), r| (b + r.bytes, p + r.pieces.len()));
        self.bytes -= bytes;
        self.pieces -= pieces;
        for part in waiting.values() {
            self.forget(part);
        }
        self.next_ssn.clear();
        if let Some(partial) = self.partial.take() {
            self.stop_partial(&partial, tell);
        }
    }
}

impl Run {
    /// This run with the one behind it.
    fn with(mut self, right: Self) -> Result<Self, Inconsistent> {
        let same =
            |a: &RecvInfo, b: &RecvInfo| (a.stream, a.ssn, a.unordered) == (b.stream, b.ssn, b.unordered);
        if !same(&self.info, &right.info) {
            return Err(Inconsistent);
        }
        self.pieces = self.pieces.join(right.pieces);
        self.bytes += right.bytes;
        (self.end, self.ends) = (right.end, right.ends);
        Ok(self)
    }
}

#[cfg(test)]
mod tests;
