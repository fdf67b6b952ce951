//! The walk over what is in flight with the blocks of one acknowledgement (`tcp_sacktag_write_queue`).
//!
//! Blocks that the last acknowledgement had are not walked again. Which buffers are visited shows: a visited one may be joined with
//! its neighbour, and a D-SACK that is met twice counts twice.
use super::{Ack, Env, Recovery, fact};
use crate::tcp::scoreboard::{Blocks, Buffer, Fit, Join, SackedRecord};
use crate::tcp::tx_queue::flag;

/// Buffers that are sacked already and that one acknowledgement may visit for joining them, before it looks at unsacked ones alone:
/// an honest one visits few.
const SACKED_VISITS_MAX: usize = 64;

/// A block with its ends.
type Block = (u64, u64);

/// The walk; `at` is the buffer where it stands, `None` before the first and behind the last. What it knows of the buffers around spares
/// looking them up: `before` has just grown and ends where the walk goes on, `ahead` begins there.
pub(super) struct Walk<'w, 'e, 'c> {
    pub(super) recovery: &'w mut Recovery,
    pub(super) e: &'w mut Env<'e, 'c>,
    pub(super) ack: &'w mut Ack,
    at: Option<u64>,
    before: Option<Buffer>,
    ahead: Option<Buffer>,
    visits: usize,
    /// Where a D-SACK has come to of what this acknowledgement covers, above all that is sacked; 0 where none has.
    covered: u64,
}

impl<'w, 'e, 'c> Walk<'w, 'e, 'c> {
    pub(super) const fn new(recovery: &'w mut Recovery, e: &'w mut Env<'e, 'c>, ack: &'w mut Ack) -> Self {
        Self { recovery, e, ack, at: None, before: None, ahead: None, visits: SACKED_VISITS_MAX, covered: 0 }
    }

    /// All blocks in ascending order; `dup` is the place of the D-SACK. Up to where something is sacked or told of as a duplicate.
    pub(super) fn run(mut self, blocks: Blocks, dup: Option<usize>) -> u64 {
        let seen = self.e.flight.seen_blocks();
        let mut seen = seen.iter().copied().peekable();
        for (i, &block) in blocks.iter().enumerate() {
            let inner = blocks.get(i + 1).copied().filter(|_| dup == Some(i + 1));
            while seen.next_if(|(_, end)| block.0 >= *end).is_some() {}
            let mut entry = Entry::Behind(block.0);
            while let Some(&known) = seen.peek().filter(|known| dup != Some(i) && block.1 > known.0) {
                entry = self.around(block, known, inner);
                if entry == Entry::Done {
                    break;
                }
                seen.next();
                if entry == Entry::Top {
                    break;
                }
            }
            if entry == Entry::Done {
                continue;
            }
            if entry == Entry::Top || block.0 >= self.e.flight.highest_sack() {
                self.at = self.e.flight.behind_sacked();
                // Nothing is left above all that is sacked, so nothing is left for the other blocks either.
                if self.at.is_none() {
                    break;
                }
            }
            if entry != Entry::Top {
                self.skip_to(block.0);
            }
            self.walk(block, inner, dup == Some(i));
        }
        self.e.flight.remember_blocks(blocks);
        self.e.flight.highest_sack().max(self.covered)
    }

    /// A block that overlaps with a known one: its head is walked, and the D-SACK in it. Where the rest of it is entered.
    fn around(&mut self, block: Block, known: Block, inner: Option<Block>) -> Entry {
        if block.0 < known.0 {
            self.skip_to(block.0);
            self.walk((block.0, known.0), inner, false);
        }
        if block.1 <= known.1 {
            return Entry::Done;
        }
        if let Some(inner) = inner.filter(|inner| inner.0 < known.1) {
            self.skip_to(inner.0);
            self.walk(inner, None, true);
        }
        if self.e.flight.highest_sack() == known.1 {
            return Entry::Top;
        }
        self.skip_to(known.1);
        Entry::Behind(known.1)
    }

    /// Goes on at the buffer that holds `to`, but never back; from the end of the queue it may go anywhere (`tcp_sacktag_skip`).
    fn skip_to(&mut self, to: u64) {
        if self.at.is_none_or(|at| at <= to) {
            self.ahead = self.e.flight.buffer_at(to);
            self.at = self.ahead.map(|buffer| buffer.start);
        }
    }

    /// The buffer at `at`.
    fn look(&mut self, at: u64) -> Option<Buffer> {
        self.ahead.take().filter(|ahead| ahead.start == at).or_else(|| self.e.flight.buffer_at(at))
    }

    /// The buffer before `buffer`, where it is not the `known` one.
    fn look_back(&self, known: Option<Buffer>, buffer: &Buffer) -> Option<Buffer> {
        known.filter(|known| known.end == buffer.start).or_else(|| self.e.flight.buffer_before(buffer))
    }

    /// `buffer` joins the one before it, and what lies behind both where that is alike; where the walk goes on.
    fn join(&mut self, before: &Buffer, buffer: &Buffer, behind: bool) -> u64 {
        let mut whole = self.e.flight.join(before, buffer);
        if behind {
            (whole, self.ahead) = self.e.flight.join_behind(whole, buffer.seglen);
        }
        self.before = Some(whole);
        whole.end
    }

    /// Over all buffers from where it stands to the end of a block. `inner`: the D-SACK that comes next, and may lie within;
    /// `dup`: the block is a D-SACK itself (`tcp_sacktag_walk`).
    fn walk(&mut self, block: Block, inner: Option<Block>, dup: bool) {
        while let Some(buffer) = self.at.and_then(|at| self.look(at)) {
            self.at = Some(buffer.start);
            if buffer.start >= block.1 {
                // The next block may begin here.
                self.ahead = Some(buffer);
                return;
            }
            let inner = inner.filter(|inner| buffer.start < inner.1);
            let Some(next) = self.visit(buffer, block, inner, dup) else { return };
            self.at = Some(next);
        }
        self.at = None;
    }

    /// A buffer: what the block reports of it is sacked, where it is not already, and may join the buffer before; a D-SACK judges it.
    /// Where the walk goes on; `None` when it cannot.
    fn visit(&mut self, mut buffer: Buffer, block: Block, inner: Option<Block>, dup: bool) -> Option<u64> {
        if buffer.has(flag::SACKED) {
            if self.visits == 0 {
                return Some(self.e.flight.unsacked_from(buffer.end).unwrap_or(block.1).max(buffer.end));
            }
            self.visits -= 1;
        }
        let start = buffer.start;
        let known = self.before.take();
        let before = self.look_back(known, &buffer);
        if let Some(inner) = inner {
            let fits = self.e.flight.fit(&buffer, inner) == Fit::Whole;
            buffer = self.e.flight.buffer_at(start)?;
            if fits {
                return Some(self.tag(&buffer, true));
            }
        }
        let whole = buffer.end;
        match self.e.flight.joins(before.as_ref(), &buffer, block, dup) {
            Join::Nothing => return Some(buffer.end),
            Join::Front(len) if len >= whole - start || self.e.flight.cut(&buffer, len) => {
                if len < whole - start {
                    buffer = self.e.flight.buffer_at(start)?;
                }
                let end = self.tag(&buffer, dup);
                return Some(before.map_or(end, |before| self.join(&before, &buffer, end == whole)));
            }
            Join::Front(_) | Join::Alone => {}
        }
        if buffer.within(block) {
            return Some(self.tag(&buffer, dup));
        }
        let fit = self.e.flight.fit(&buffer, block);
        let buffer = self.e.flight.buffer_at(start);
        match fit {
            Fit::Fails => None,
            Fit::Whole => buffer.map(|buffer| self.tag(&buffer, dup)),
            Fit::No => buffer.map(|buffer| buffer.end),
        }
    }

    /// All of a record that is not sacked is reported (`tcp_sacktag_one`); where it ends.
    fn tag(&mut self, buffer: &Buffer, dup: bool) -> u64 {
        if dup {
            self.judge(buffer);
        }
        let fack = self.e.flight.highest_sack();
        // What this very acknowledgement covers is about to go, but counts for what is highest (`tcp_advance_highest_sack`).
        if buffer.end <= self.e.flight.tx.una() {
            if buffer.start >= fack.max(self.covered) {
                self.covered = buffer.end;
            }
            return buffer.end;
        }
        if let Some(mut record) = self.e.flight.sack_record(buffer.start) {
            self.on_sacked(&mut record, fack);
        }
        if dup {
            self.e.flight.clear_resent(buffer.start);
        }
        buffer.end
    }

    /// A D-SACK for all of a buffer: if it was sent again that was in vain, and if it was sacked before the original was late.
    fn judge(&mut self, buffer: &Buffer) {
        if !buffer.has(flag::RETRANS | flag::EVER_RETRANS) {
            return;
        }
        let undo = &mut self.recovery.undo;
        if undo.retrans > 0 && undo.marker.is_some_and(|marker| buffer.end > marker.una()) {
            undo.on_duplicate(buffer.segs);
        }
        if buffer.has(flag::SACKED) {
            self.ack.reord = self.ack.reord.min(buffer.start);
        }
    }

    /// One record is newly sacked.
    fn on_sacked(&mut self, r: &mut SackedRecord, fack: u64) {
        let (path, ack) = (&mut *self.e.path, &mut *self.ack);
        self.recovery.rack.advance(path, ack, r.flags, r.end, r.departure());
        let resent = r.had(flag::RETRANS | flag::EVER_RETRANS);
        if !resent {
            // Never retransmitted and in a hole: it was overtaken.
            if r.start < fack && r.start < ack.reord {
                ack.reord = r.start;
            }
            if r.end <= self.recovery.high_seq {
                ack.facts |= fact::ORIG_SACK_ACKED;
            }
            let first = ack.sacked_at.map_or(r.sent_at, |(first, _)| first);
            ack.sacked_at = Some((first, r.sent_at));
        }
        ack.facts |= fact::DATA_SACKED;
        ack.delivered += u32::from(r.segs);
        ack.delivered_bytes += (r.end - r.start) as u32;
        path.rate.on_delivered(&mut ack.sampler, &mut r.stamp, r.sent_at, resent);
    }
}

/// Where what is left of a block is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    /// Nothing is left.
    Done,
    /// Behind all that is sacked.
    Top,
    /// Behind this place.
    Behind(u64),
}
