//! Linux's charge after a full queue was copied into few buffers (`tcp_collapse`): what it frees decides whether the next segment is
//! taken. What the chunks really pin is another matter, which [`RxQueue::collapse`] sees to.
//!
//! It walks over what waits. A peer that goes on filling a full buffer must not make that long for each of its segments: a queue of [`SHORT`]
//! chunks at the most is walked each time, also where that gains nothing, and a longer one again only after it has grown by a part of itself.
use super::{Chunk, RxQueue};
use crate::base::truesize::{SQUEEZED_MAX, Truesize};
use crate::tcp::window::Ratio;
use core::ops::Range;
use std::collections::BTreeMap;

/// A queue of so many chunks is walked whenever it is asked for.
const SHORT: usize = 64;
/// A longer one once it has had one more for each so many that wait: chunks looked at per chunk that came.
const WALK_PER_CHUNK: usize = 16;

/// Chunks that follow one another and could be charged as if copied.
#[derive(Clone, Copy, Default)]
struct Run {
    truesize: u32,
    /// Bytes, and where they end. What two chunks have is one.
    bytes: u32,
    end: u64,
    /// Chunks, and among them those that carry a buffer's charge: how many buffers there were.
    chunks: usize,
    buffers: u64,
    /// The first chunk from which buffers hold less than they should, or overlap, if any do.
    poor: Option<Tail>,
    /// The last buffer, and what has been met since its end.
    last: Tail,
    open: Tail,
}

/// The end of a run, from a chunk on.
#[derive(Clone, Copy, Default)]
struct Tail {
    from: usize,
    /// Bytes of the chunk before it that its first buffer has: an earlier squeeze was charged as copies, which end within chunks.
    lead: u32,
    /// What of that chunk's charge is the lead's alone: it was copied by itself.
    lead_charge: u32,
    /// Bytes of it, the lead included, and those that a second chunk has.
    bytes: u32,
    common: u32,
    truesize: u32,
    buffers: u64,
    /// Something of it is charged as it came.
    came: bool,
}

impl Tail {
    fn push(&mut self, chunk: &Chunk, common: u32) {
        self.bytes += chunk.len() as u32 - common;
        self.common += common;
        self.truesize += chunk.truesize();
        self.buffers += u64::from(chunk.truesize() > 0);
        self.came |= chunk.truesize() > 0 && !chunk.truesize.is_of_copies();
    }

    /// Begins at a chunk, with so many bytes of the one before it.
    const fn behind(from: usize, lead: u32) -> Self {
        Self { from, lead, lead_charge: 0, bytes: lead, common: 0, truesize: 0, buffers: 0, came: false }
    }

    /// Begins at a chunk, with a copy of so many bytes that lies within the one before it.
    const fn with_copy(from: usize, lead: u32, charge: u32) -> Self {
        let (bytes, truesize) = (lead, charge);
        Self { from, lead, lead_charge: charge, bytes, common: 0, truesize, buffers: 1, came: false }
    }

    /// What it has beyond the copies that its charge stands for, if it stands for full ones: the next one begins with that. Large packets that were
    /// joined to pin less may have more than such copies for such a charge.
    fn beyond_copies(&self) -> u32 {
        let full = Truesize::squeezed(SQUEEZED_MAX).bytes();
        if self.came || !self.truesize.is_multiple_of(full) {
            return 0;
        }
        self.bytes.saturating_sub(self.truesize / full * SQUEEZED_MAX)
    }

    /// Where its charge stands for full copies and a shorter one behind them: the bytes and the charge of that.
    fn last_copy(&self) -> Option<(u32, u32)> {
        let full = Truesize::squeezed(SQUEEZED_MAX).bytes();
        let (copies, charge) = (self.truesize / full, self.truesize % full);
        let bytes = self.bytes.checked_sub(copies * SQUEEZED_MAX).filter(|bytes| *bytes > 0)?;
        (!self.came && copies > 0 && Truesize::squeezed(bytes).bytes() == charge).then_some((bytes, charge))
    }

    /// This and the chunks behind it.
    const fn and(mut self, next: Self) -> Self {
        self.bytes += next.bytes - next.lead;
        self.common += next.common;
        self.truesize += next.truesize;
        self.buffers += next.buffers;
        self.came |= next.came;
        self
    }
}

impl Run {
    fn push(&mut self, at: u64, chunk: &Chunk, ratio: Ratio) {
        let len = chunk.len() as u32;
        let known = self.end.saturating_sub(at) as u32;
        self.chunks += 1;
        self.truesize += chunk.truesize();
        self.bytes += len - known;
        self.end = at + u64::from(len);
        self.buffers += u64::from(chunk.truesize() > 0);
        if (known > 0 || chunk.truesize.is_cut()) && self.poor.is_none() {
            self.poor = Some(self.last.and(self.open));
        }
        if let Some(poor) = &mut self.poor {
            return poor.push(chunk, known);
        }
        self.open.push(chunk, 0);
        if chunk.truesize() == 0 {
            return;
        }
        if let Some((bytes, charge)) = self.open.last_copy()
            && ratio.win_from_space(Truesize::squeezed(SQUEEZED_MAX).bytes()) <= SQUEEZED_MAX
        {
            // One segment has the end of a full copy and all of the last: each is a buffer.
            self.buffers += 1;
            self.last = Tail::with_copy(self.chunks, bytes, charge);
            self.open = Tail::behind(self.chunks, 0);
            if ratio.win_from_space(charge) > bytes {
                self.poor = Some(self.last);
            }
            return;
        }
        let beyond = self.open.beyond_copies();
        if ratio.win_from_space(chunk.truesize()) > self.open.bytes - beyond {
            self.poor = Some(self.open);
        }
        self.last = core::mem::replace(&mut self.open, Tail::behind(self.chunks, beyond));
    }

    /// The part that is copied, where that costs nothing. It gains something even where no buffer goes: a copy has no headers before its bytes.
    fn worth(&self) -> Option<Tail> {
        let tail = self.poor?;
        let copies = tail.bytes / SQUEEZED_MAX * Truesize::squeezed(SQUEEZED_MAX).bytes()
            + Truesize::squeezed(tail.bytes % SQUEEZED_MAX).bytes();
        (copies <= tail.truesize).then_some(tail)
    }
}

impl Tail {
    /// Cuts off the later of two chunks of the run what both have: a copy has it once.
    fn part(self, chunks: &mut BTreeMap<u64, Chunk>, run: Range<u64>) {
        if self.common == 0 {
            return;
        }
        let mut edge = run.start;
        let starts: Vec<u64> = chunks.range(run).skip(self.from).map(|(&at, _)| at).collect();
        let parts: Vec<_> = starts.into_iter().filter_map(|at| Some((at, chunks.remove(&at)?))).collect();
        for (at, mut chunk) in parts {
            let from = at.max(edge);
            chunk.trim_front((from - at) as usize);
            edge = from + chunk.len() as u64;
            // One that was beside another for its FIN alone has nothing left.
            if !chunk.is_empty() {
                chunks.insert(from, chunk);
            }
        }
    }

    /// Charges the run's `chunks` from the first of this part on as if copied. Returns how many buffers went.
    fn squeeze<'a>(self, chunks: impl Iterator<Item = &'a mut Chunk>) -> u64 {
        let mut at = self.lead;
        let own = usize::from(self.lead_charge > 0);
        let mut chunks = chunks.skip(self.from - own);
        if own > 0
            && let Some(chunk) = chunks.next()
        {
            chunk.truesize = copies(chunk.truesize() / Truesize::squeezed(SQUEEZED_MAX).bytes());
            if at == self.bytes {
                // Nothing has come behind it.
                chunk.truesize = chunk.truesize.and(Truesize::squeezed(at));
            }
        }
        for chunk in chunks {
            let full = at / SQUEEZED_MAX;
            at += chunk.len() as u32;
            chunk.truesize = copies(at / SQUEEZED_MAX - full);
            if at == self.bytes && !at.is_multiple_of(SQUEEZED_MAX) {
                chunk.truesize = chunk.truesize.and(Truesize::squeezed(at % SQUEEZED_MAX));
            }
        }
        self.buffers
    }
}

/// The charge of so many full copies.
fn copies(number: u32) -> Truesize {
    (0..number).fold(Truesize::NONE, |sum, _| sum.and(Truesize::squeezed(SQUEEZED_MAX)))
}

impl RxQueue {
    /// Charges both queues as if each had been copied into as few buffers as hold it; `limit` is the receive buffer. Returns how many
    /// buffers were freed for that (TCPRcvCollapsed).
    pub fn squeeze(&mut self, ratio: Ratio, limit: u32) -> u64 {
        let held = self.held.as_ref().map_or(0, |held| held.chunks.len());
        let waiting = self.ready.len() + held;
        if waiting > SHORT && self.unsqueezed as usize * WALK_PER_CHUNK < waiting {
            return 0;
        }
        self.unsqueezed = 0;
        let mut gone = self.squeeze_held(ratio, limit);
        // A copy leaves out what was read of the first buffer.
        let mut run = Run { poor: self.part_read.then(Tail::default), ..Run::default() };
        for chunk in self.ready.iter() {
            run.push(run.end, chunk, ratio);
        }
        if let Some(tail) = run.worth() {
            self.part_read &= tail.from > 0;
            gone += tail.squeeze(self.ready.iter_mut());
        }
        let held = self.held.iter().flat_map(|held| held.chunks.values());
        let fin = self.held.as_ref().map_or(0, |held| held.fin);
        self.truesize = if self.at_eof() { self.truesize } else { fin };
        self.charge = 0;
        for chunk in self.ready.iter().chain(held) {
            self.truesize += chunk.truesize();
            self.charge += chunk.charge();
        }
        if gone > 0 {
            self.uncharge();
        }
        gone
    }

    /// Each run by itself, until small ones of an eighth of the buffer were met (`tcp_collapse_ofo_queue`).
    fn squeeze_held(&mut self, ratio: Ratio, limit: u32) -> u64 {
        let (mut gone, mut tiny) = (0, 0);
        let Some(held) = &mut self.held else { return 0 };
        for (&start, &end) in &held.runs {
            let mut run = Run::default();
            held.chunks.range(start..end).for_each(|(&at, chunk)| run.push(at, chunk, ratio));
            if run.buffers > 1 || run.bytes >= SQUEEZED_MAX {
                if let Some(tail) = run.worth() {
                    tail.part(&mut held.chunks, start..end);
                    held.bytes -= tail.common;
                    gone += tail.squeeze(held.chunks.range_mut(start..end).map(|(_, chunk)| chunk));
                }
            } else {
                tiny += run.truesize;
                if tiny > limit / 8 {
                    break;
                }
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn joined(lens: &[usize], charge: impl Fn(u32) -> Truesize) -> Tail {
        let all = lens.iter().map(|len| charge(*len as u32)).fold(Truesize::NONE, Truesize::and);
        let mut tail = Tail::default();
        tail.push(&Chunk::gathered(Bytes::from(vec![0; lens.iter().sum()]), all), 0);
        tail
    }

    #[test]
    fn joined_packets_do_not_pass_for_copies() {
        let packets = joined(&[15_960, 11_864, 600], |len| Truesize::of_packet(len + 40));
        let full = Truesize::squeezed(SQUEEZED_MAX).bytes();
        assert_eq!((packets.truesize, packets.bytes), (7 * full, 7 * SQUEEZED_MAX + 1_992));
        assert_eq!(packets.beyond_copies(), 0);
        let mut copies = joined(&[3_776, 3_776], Truesize::squeezed);
        copies.bytes += 24;
        assert_eq!(copies.beyond_copies(), 24);
    }
}
