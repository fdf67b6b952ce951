//! Received bytes: in order for the application, out of order for reassembly, charged with the memory they pin.
mod chunk;
mod collapse;
mod pages;
mod ready;
mod squeeze;

use bytes::{Buf as _, Bytes};
use chunk::Feed;
pub use chunk::{CHUNK_OVERHEAD, Chunk, Pieces};
pub use collapse::Collapsed;
use core::ops::Range;
use pages::Pages;
use ready::Ready;
use std::collections::BTreeMap;
#[cfg(test)]
mod tests;

/// No FIN seen yet.
const NO_FIN: u64 = u64::MAX;

/// What became of one segment. Ranges are stream offsets; a FIN counts as one byte, as in sequence space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Enqueued {
    /// By how much the left edge of the window moved.
    pub advanced: u64,
    /// True when the FIN has been reached: nothing follows.
    pub fin: bool,
    /// For a segment beyond a hole: the maximal range now held around it (RFC 2018 section 4, first block).
    pub out_of_order: Option<Range<u64>>,
    /// The first range of the segment that was held or delivered before (RFC 2883).
    pub duplicate: Option<Range<u64>>,
    /// Buffers out of order that it swallowed, or itself where one of them had all of it (TCPOFOMerge).
    pub merged: u32,
    /// True when something of it is held now that was not before.
    pub held: bool,
    /// What the queue was charged when Linux asks whether the window may grow (`tcp_grow_window`): with data in order, but before what that lets
    /// follow; without data beyond a hole, but after what lies within it is gone.
    pub charged: u32,
    /// A FIN by itself beyond a hole needed no buffer of its own.
    pub lodged: bool,
}

impl Enqueued {
    /// Notes a duplicate; a later one only extends the first, as one block is all that can be reported.
    fn add_duplicate(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        match &mut self.duplicate {
            Some(d) if start <= d.end && d.start <= end => *d = d.start.min(start)..d.end.max(end),
            Some(_) => {}
            none => *none = Some(start..end),
        }
    }
}

/// Both receive queues of one connection. No heap while empty; every operation is amortised O(log n).
///
/// Offsets are 64 bits wide and never wrap. The number of chunks is bounded by the caller's bound on [`Self::charge`],
/// since each is charged at least [`CHUNK_OVERHEAD`].
#[derive(Debug)]
pub struct RxQueue {
    ready: Ready,
    /// What lies beyond a hole; `None` while there is no hole, as nearly always.
    held: Option<Box<Held>>,
    next: u64,
    fin_at: u64,
    ready_bytes: u32,
    charge: u32,
    /// What Linux would charge for both queues.
    truesize: u32,
    /// Overhead that the last collapse could not squeeze out; the next one waits until there is clearly more.
    floor: u32,
    /// Chunks that came since the last squeeze.
    unsqueezed: u32,
    /// The first buffer of what can be read was read in part.
    part_read: bool,
    /// Pages that Linux would have taken before a segment found its place.
    pages: Pages,
}

/// A buffer that comes into order, up to where, and whether it becomes a part of the one before it.
struct Joined {
    end: u64,
    fits: bool,
}

/// Data out of order.
#[derive(Debug, Default)]
struct Held {
    /// Pieces by offset. Those that overlap keep what they have in common, as Linux's buffers do: windows follow from their charges. Where one
    /// begins later than another it also ends later.
    chunks: BTreeMap<u64, Chunk>,
    /// Maximal contiguous ranges of `chunks` (FIN included): start to end.
    runs: BTreeMap<u64, u64>,
    /// Bytes of all pieces, twice where two have them.
    bytes: u32,
    /// What Linux would charge for a FIN by itself.
    fin: u32,
    /// The FIN is in the buffer of data that ends before it, the last one.
    with_fin: bool,
}

impl RxQueue {
    /// An empty queue whose first byte will have `offset`.
    #[must_use]
    pub const fn new(offset: u64) -> Self {
        Self {
            ready: Ready::new(),
            held: None,
            next: offset,
            fin_at: NO_FIN,
            ready_bytes: 0,
            charge: 0,
            truesize: 0,
            floor: 0,
            unsqueezed: 0,
            part_read: false,
            pages: Pages::NONE,
        }
    }

    /// Offset of the next byte in order (RCV.NXT).
    #[must_use]
    pub const fn next_offset(&self) -> u64 {
        self.next
    }

    /// Bytes that the application can read now.
    #[must_use]
    pub const fn readable_bytes(&self) -> u32 {
        self.ready_bytes
    }

    /// Nothing waits for the application, neither bytes nor a FIN by itself (`sk_receive_queue`).
    #[must_use]
    pub fn has_nothing_ready(&self) -> bool {
        self.ready.len() == 0 && (!self.fin_reached() || self.fin_read())
    }

    /// Bytes held beyond a hole.
    #[must_use]
    pub fn held_bytes(&self) -> u32 {
        self.held.as_ref().map_or(0, |held| held.bytes)
    }

    /// True while anything is held beyond a hole (data or FIN).
    #[must_use]
    pub const fn has_hole(&self) -> bool {
        self.held.is_some()
    }

    /// What Linux would charge for both queues, in bytes (`sk_rmem_alloc`): windows and limits are reckoned from that.
    #[must_use]
    pub const fn truesize(&self) -> u32 {
        self.truesize
    }

    /// What is left of the pages that Linux would have taken for that and for `beside` bytes to be sent (`sk_forward_alloc`).
    #[must_use]
    pub const fn set_aside(&self, beside: u32) -> u32 {
        self.pages.left(self.truesize as u64 + beside as u64)
    }

    /// Room is found for a segment of `truesize`, wherever it will lie (`sk_rmem_schedule`); `beside` as in [`Self::set_aside`].
    pub fn schedule(&mut self, truesize: u32, beside: u32) {
        self.pages.schedule(u64::from(self.truesize) + u64::from(beside) + u64::from(truesize));
    }

    /// A buffer of the socket has been freed: what is not needed goes back with it (`sk_mem_uncharge`).
    pub const fn uncharge(&mut self) {
        self.pages = Pages::NONE;
    }

    /// Memory that both queues really pin, metadata included, in bytes.
    #[must_use]
    pub const fn charge(&self) -> u32 {
        self.charge
    }

    /// True when the FIN is in order: after the readable bytes comes the end.
    #[must_use]
    pub const fn fin_reached(&self) -> bool {
        self.next > self.fin_at
    }

    /// True when the application has read everything up to the FIN.
    #[must_use]
    pub const fn at_eof(&self) -> bool {
        self.fin_reached() && self.ready_bytes == 0
    }

    /// The application has met the FIN, too: its buffer is gone.
    #[must_use]
    pub const fn fin_read(&self) -> bool {
        self.at_eof() && self.truesize == 0
    }

    /// The ranges held out of order, lowest first.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.held.iter().flat_map(|held| &held.runs).map(|(&start, &end)| start..end)
    }

    /// End of the furthest range held out of order.
    #[must_use]
    pub fn furthest(&self) -> Option<u64> {
        self.held.as_ref()?.runs.last_key_value().map(|(_, &end)| end)
    }

    /// Takes in a segment whose first byte has `offset`. Bytes that were there before are kept, the new copy is dropped.
    pub fn enqueue(&mut self, offset: u64, chunks: Pieces, fin: bool) -> Enqueued {
        let mut out = Enqueued::default();
        let len: u64 = chunks.iter().map(|c| c.len() as u64).sum();
        let fin_at = offset + len;
        if fin && offset <= self.next && fin_at >= self.next {
            // In order it ends the stream, whatever came from beyond it (`tcp_fin`).
            self.discard_held();
            self.fin_at = fin_at;
        } else if fin && self.fin_at == NO_FIN && fin_at >= self.next.max(self.furthest().unwrap_or(0)) {
            self.fin_at = fin_at;
        }
        // Nothing exists beyond a FIN, nor a FIN before data: a peer that says so is not believed.
        let data_end = (offset + len).min(self.fin_at);
        let end = data_end + u64::from(data_end == self.fin_at && fin);
        if end <= offset {
            return out;
        }
        if end <= self.next {
            out.add_duplicate(offset, end);
            return out;
        }
        self.unsqueezed = self.unsqueezed.saturating_add(chunks.len() as u32);
        let alone = len == 0 || data_end <= self.next;
        let bare: u32 = if alone { chunks.iter().map(Chunk::truesize).sum() } else { 0 };
        if offset < self.next || (offset == self.next && self.ready_bytes == 0) {
            // A FIN without anything new has a buffer of its own, unless it begins where one ends: until the end is read.
            self.truesize += bare;
        }
        let feed = Feed::new(offset, chunks);
        if offset <= self.next {
            self.enqueue_in_order(feed, offset..end, data_end, &mut out);
        } else {
            self.enqueue_held(feed, offset..end, data_end, &mut out);
            if out.duplicate.is_none() {
                out.lodged = bare > 0 && !self.charge_fin(offset, bare);
            }
        }
        out
    }

    /// A FIN by itself beyond the hole has a buffer of its own, unless it stands behind one; true where it has.
    fn charge_fin(&mut self, offset: u64, truesize: u32) -> bool {
        let Some(held) = self.held.as_mut() else { return false };
        if held.joins(offset, 0) {
            held.with_fin = true;
            return false;
        }
        held.fin += truesize;
        self.truesize += truesize;
        true
    }

    fn enqueue_in_order(&mut self, mut feed: Feed, new: Range<u64>, data_end: u64, out: &mut Enqueued) {
        let before = self.next;
        out.add_duplicate(new.start, self.next);
        // What was cut at the front shares no buffer (`tcp_try_coalesce` wants one to begin where the other ends).
        let mut whole = new.start == before;
        while let Some((_, chunk)) = feed.next_piece(before, data_end) {
            self.charge += chunk.charge();
            self.truesize += chunk.truesize();
            self.push_ready(chunk, core::mem::replace(&mut whole, true));
        }
        out.charged = self.truesize;
        self.next = self.next.max(data_end);
        self.deliver_held(new.end, out);
        if self.next == self.fin_at {
            self.next += 1;
            out.fin = true;
            self.discard_held();
        }
        out.advanced = self.next - before;
    }

    /// Moves what has become contiguous from `held` to `ready`; the segment that closed the hole ends at `new_end`.
    fn deliver_held(&mut self, new_end: u64, out: &mut Enqueued) {
        let Some(mut held) = self.held.take() else { return };
        while let Some(run) = held.runs.first_entry() {
            if *run.key() > self.next {
                break;
            }
            let (start, end) = run.remove_entry();
            out.add_duplicate(start, end.min(new_end));
            let mut buffer = Joined { end: 0, fits: true };
            while let Some((&at, _)) = held.chunks.first_key_value()
                && at < end
            {
                if at >= buffer.end {
                    buffer = self.join(at, held.buffer_end(at, u64::MAX));
                }
                let Some((_, mut chunk)) = held.chunks.pop_first() else { break };
                let ends = held.with_fin && held.chunks.is_empty();
                held.bytes -= chunk.len() as u32;
                self.charge -= chunk.charge();
                let known = self.next.saturating_sub(at);
                if known < chunk.len() as u64 {
                    chunk.trim_front(known as usize);
                    self.charge += chunk.charge();
                    self.next += chunk.len() as u64;
                    let (whole, before) = (!chunk.truesize.is_cut(), self.truesize);
                    self.push_ready(chunk, whole && buffer.fits);
                    if self.truesize < before {
                        self.uncharge();
                    }
                } else if !ends {
                    // With the FIN it waits until the end is read, whatever else is known of it (`tcp_ofo_queue`).
                    self.truesize -= chunk.truesize();
                    self.uncharge();
                }
            }
            self.next = self.next.max(end.min(self.fin_at));
        }
        if held.runs.is_empty() {
            self.truesize -= held.fin;
        } else {
            self.held = Some(held);
        }
        self.sink_floor();
    }

    fn enqueue_held(&mut self, mut feed: Feed, new: Range<u64>, data_end: u64, out: &mut Enqueued) {
        let mut held = self.held.take().unwrap_or_default();
        let joins = held.joins(new.start, feed.len());
        let mut run = new.clone();
        let mut cursor = new.start;
        if let Some((&start, &end)) = held.runs.range(..=new.start).next_back()
            && end >= new.start
        {
            out.add_duplicate(new.start, end.min(new.end));
            run.start = start;
            run.end = run.end.max(end);
            cursor = end;
        }
        while cursor < new.end {
            // A run that begins exactly at the end touches and is merged too.
            let Some((&start, &end)) = held.runs.range(cursor..=new.end).next() else { break };
            // What fits behind the buffer before it is not compared with what lies further on (`tcp_ooo_try_coalesce`).
            if !joins {
                out.add_duplicate(start, end.min(new.end));
            }
            held.runs.remove(&start);
            run.end = run.end.max(end);
            cursor = end;
        }
        out.charged = self.truesize;
        let mut swallowed = 0;
        while let Some((at, chunk)) = feed.next_piece(new.start, data_end) {
            let own = if joins { 0 } else { chunk.truesize() };
            let before = held.chunks.len();
            let fin = new.end > data_end && at + chunk.len() as u64 == data_end;
            let (taken, gone) = held.add(at, chunk, fin, (&mut self.charge, &mut self.truesize));
            swallowed += gone;
            if held.chunks.len() < before + usize::from(taken) {
                // What lay within it is gone.
                self.pages = Pages::NONE;
            }
            if taken && !out.held {
                out.charged = self.truesize.saturating_sub(own);
            }
            out.held |= taken;
        }
        let known = out.duplicate.as_ref() == Some(&new);
        // A FIN that comes again stands at the end of the last buffer as if it would join it.
        out.merged = if joins { 0 } else { swallowed } + u32::from(known && !out.held);
        out.held |= new.end > data_end && !known;
        held.runs.insert(run.start, run.end);
        self.held = Some(held);
        out.out_of_order = Some(run);
    }

    /// Whether the buffer over these offsets fits behind the last one that can be read, with all of its pieces (`skb_try_coalesce`).
    fn join(&mut self, at: u64, end: u64) -> Joined {
        let room = self.ready.back_mut().map_or(0, |last| last.truesize.tailroom());
        Joined { end, fits: end.saturating_sub(at) <= u64::from(room) }
    }

    fn push_ready(&mut self, mut chunk: Chunk, whole: bool) {
        self.ready_bytes += chunk.len() as u32;
        let last = self.ready.back_mut().filter(|_| whole);
        let saved = last.map_or(0, |last| last.lend_buffer(&mut chunk));
        self.truesize -= saved;
        self.ready.push_back(chunk);
    }

    /// Forgets everything beyond the hole.
    fn discard_held(&mut self) {
        if let Some(held) = self.held.take() {
            self.uncharge();
            self.truesize -= held.fin;
            for chunk in held.chunks.values() {
                self.charge -= chunk.charge();
                self.truesize -= chunk.truesize();
            }
        }
        self.sink_floor();
    }

    /// Drops the furthest buffers out of order until `goal` bytes of Linux's charge are freed, but none that begins before the offset `keep`.
    /// Returns the offset from which nothing is held; `None` when nothing was dropped.
    pub fn prune_held(&mut self, goal: u32, keep: u64) -> Option<u64> {
        let mut freed = 0;
        let mut cut = None;
        let held = self.held.as_mut()?;
        if held.fin > 0 {
            // A FIN by itself has the last buffer.
            cut = Some(self.fin_at).filter(|fin_at| *fin_at >= keep);
            cut?;
            freed = core::mem::take(&mut held.fin);
        }
        while freed < goal.max(1) {
            let Some(start) = held.last_buffer(keep) else { break };
            while let Some(last) = held.chunks.last_entry().filter(|last| *last.key() >= start) {
                let chunk = last.remove();
                freed += chunk.truesize();
                self.charge -= chunk.charge();
                held.bytes -= chunk.len() as u32;
                held.with_fin = false;
            }
            let before = held.chunks.last_key_value().map_or(0, |(start, piece)| start + piece.len() as u64);
            cut = Some(start.max(before));
        }
        let cut = cut?;
        while let Some(mut run) = held.runs.last_entry() {
            if *run.key() >= cut {
                run.remove();
                continue;
            }
            let end = run.get_mut();
            *end = (*end).min(cut);
            break;
        }
        if self.fin_at >= cut {
            self.fin_at = NO_FIN;
        }
        if held.runs.is_empty() {
            self.held = None;
        }
        self.truesize -= freed;
        self.uncharge();
        self.sink_floor();
        Some(cut)
    }

    /// Copies readable bytes into `buf` and takes them out. Returns how many.
    pub fn recv(&mut self, buf: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buf.len() {
            let Some(chunk) = self.ready.front_mut() else { break };
            let n = chunk.len().min(buf.len() - done);
            chunk.bytes_mut().copy_to_slice(&mut buf[done..done + n]);
            done += n;
            self.part_read = !chunk.is_empty();
            if chunk.is_empty() {
                self.pop_ready();
            }
        }
        if done < buf.len() {
            self.read_fin();
        }
        self.after_read(done);
        done
    }

    /// The end was read where it is next: the buffer of its FIN goes, the last there is (`tcp_eat_recv_skb`).
    const fn read_fin(&mut self) {
        if self.at_eof() && self.truesize > 0 {
            self.truesize = 0;
            self.uncharge();
        }
    }

    /// Copies readable bytes into `buf` from the `skip`-th on; they stay. Returns how many.
    pub fn peek(&self, skip: usize, buf: &mut [u8]) -> usize {
        let (mut done, mut skip) = (0, skip);
        for chunk in self.ready.iter() {
            let from = skip.min(chunk.len());
            skip -= from;
            let n = (chunk.len() - from).min(buf.len() - done);
            buf[done..done + n].copy_from_slice(&chunk.as_slice()[from..from + n]);
            done += n;
            if done == buf.len() {
                break;
            }
        }
        done
    }

    /// Throws up to `n` readable bytes away.
    pub fn skip(&mut self, n: usize) {
        let mut left = n;
        while left > 0
            && let Some(piece) = self.read_chunk(left)
        {
            left -= piece.len();
        }
    }

    /// The first buffer of what can be read was read in part.
    #[must_use]
    pub const fn is_part_read(&self) -> bool {
        self.part_read
    }

    /// Takes the next contiguous piece, at most `max` bytes, without copying.
    pub fn read_chunk(&mut self, max: usize) -> Option<Bytes> {
        let Some(chunk) = self.ready.front_mut().filter(|_| max > 0) else {
            if max > 0 {
                self.read_fin();
            }
            return None;
        };
        let n = chunk.len().min(max);
        let piece = chunk.bytes_mut().split_to(n);
        self.part_read = !chunk.is_empty();
        if chunk.is_empty() {
            self.pop_ready();
        }
        self.after_read(n);
        Some(piece)
    }

    /// Discards what waits to be read, as a connection does when nobody will read it. What lies beyond a hole stays, since the
    /// peer has been told of it (`__tcp_close`). Returns the bytes discarded.
    pub fn clear(&mut self) -> u32 {
        let bytes = self.ready_bytes;
        while let Some(chunk) = self.ready.pop_front() {
            self.charge -= chunk.charge();
            self.truesize -= chunk.truesize();
        }
        self.ready = Ready::new();
        self.uncharge();
        self.ready_bytes = 0;
        self.read_fin();
        self.part_read = false;
        self.sink_floor();
        bytes
    }

    fn pop_ready(&mut self) {
        if let Some(chunk) = self.ready.pop_front() {
            self.charge -= chunk.charge();
            self.truesize -= chunk.truesize();
            self.part_read = chunk.truesize() == 0;
            if !self.part_read {
                self.uncharge();
            }
        }
    }

    fn after_read(&mut self, bytes: usize) {
        self.ready_bytes -= bytes as u32;
        self.sink_floor();
    }

    /// Memory pinned beyond the bytes themselves. Bytes read from a chunk that is still there count as overhead.
    fn overhead(&self) -> u32 {
        self.charge - self.ready_bytes - self.held_bytes()
    }

    fn sink_floor(&mut self) {
        self.floor = self.floor.min(self.overhead());
    }
}

impl Held {
    /// `len` bytes at the offset fit behind the buffer that ends there.
    fn joins(&self, at: u64, len: usize) -> bool {
        let Some((start, before)) = self.chunks.range(..at).next_back() else { return false };
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        start + before.len() as u64 == at && before.truesize.with_tail(len).is_some()
    }

    /// Adds a piece, and its charges, ours and Linux's, unless one buffer has all of it; what lies within it goes
    /// (`tcp_data_queue_ofo`). Whether it was taken, and how many buffers went. The number of a FIN behind it, `fin`, is a part of it.
    fn add(
        &mut self,
        at: u64,
        mut chunk: Chunk,
        fin: bool,
        (charge, truesize): (&mut u32, &mut u32),
    ) -> (bool, u32) {
        let end = at + chunk.len() as u64;
        let (last, have) = self.last_piece(at, end);
        if have >= end && (!fin || self.has_fin(last)) {
            return (false, 0);
        }
        let mut gone = 0;
        // A buffer that begins before it stays whole: what both have is left out here, unless the next buffer has the rest.
        let shared =
            Some(self.shared_end(at, end)).filter(|shared| self.buffer_end(*shared, end) < end).unwrap_or(0);
        let (at, cut) = (at.max(shared), shared > at);
        chunk.trim_front((at + chunk.len() as u64 - end) as usize);
        while let Some((&inner, piece)) = self.chunks.range(at..end).next()
            && inner + piece.len() as u64 <= end
            && (fin || !self.has_fin(inner))
            && let Some(piece) = self.chunks.remove(&inner)
        {
            self.bytes -= piece.len() as u32;
            *charge -= piece.charge();
            *truesize -= piece.truesize();
            gone += u32::from(piece.truesize() > 0);
        }
        self.bytes += chunk.len() as u32;
        *charge += chunk.charge();
        *truesize += chunk.truesize();
        if let Some((start, before)) = self.chunks.range_mut(..at).next_back()
            && start + before.len() as u64 == at
            && !cut
        {
            *truesize -= before.lend_buffer(&mut chunk);
        }
        self.chunks.insert(at, chunk);
        if fin {
            // One by itself lies within.
            gone += u32::from(self.fin > 0);
            *truesize -= core::mem::take(&mut self.fin);
            self.with_fin = true;
        }
        (true, gone)
    }

    /// The FIN is in the buffer of the piece that starts there.
    fn has_fin(&self, start: u64) -> bool {
        self.with_fin && self.chunks.last_key_value().is_some_and(|(last, _)| *last == start)
    }

    /// Where a buffer of several pieces ends that begins before the offset, and has pieces from there on, as [`Self::buffer_end`]; 0 where
    /// there is none.
    fn shared_end(&self, at: u64, enough: u64) -> u64 {
        let before = self.chunks.range(..at).next_back().filter(|(_, piece)| piece.truesize() == 0);
        before.map_or(0, |(&start, _)| self.buffer_end(start, enough))
    }

    /// Where the last buffer begins, if no part of it lies before the offset `keep`.
    fn last_buffer(&self, keep: u64) -> Option<u64> {
        let mut pieces = self.chunks.iter().rev();
        let mut start = *pieces.next()?.0;
        while start >= keep
            && let Some((&at, piece)) = pieces.next()
            && piece.truesize() == 0
            && at + piece.len() as u64 == start
        {
            start = at;
        }
        Some(start).filter(|start| *start >= keep)
    }

    /// Where the last buffer ends that begins at the offset or before it, or a place in it that is at `enough` or behind: a full queue that was
    /// squeezed has thousands of pieces in one buffer, and a peer that repeats one of them does not have all the others looked at.
    fn buffer_end(&self, at: u64, enough: u64) -> u64 {
        self.last_piece(at, enough).1
    }

    /// The same, and where its last piece up to there starts.
    fn last_piece(&self, at: u64, enough: u64) -> (u64, u64) {
        let Some((&first, mut piece)) = self.chunks.range(..=at).next_back() else { return (0, 0) };
        let (mut last, mut end) = (first, first + piece.len() as u64);
        let mut chain = self.chunks.range(at + 1..);
        // Without a charge of its own it shares the buffer of the piece behind it.
        while end < enough
            && piece.truesize() == 0
            && let Some((&start, next)) = chain.next()
            && start == end
        {
            end += next.len() as u64;
            (last, piece) = (start, next);
        }
        (last, end)
    }
}
