//! What is one buffer in Linux: a record, or several that were sacked one beside the other and joined (`tcp_shift_skb_data`).
//!
//! Here records stay as they are, since their payload is shared and cannot be joined. What can be seen of a joined buffer is that
//! all of it counts as sent again where a part of it was, that blocks are laid over it, and cut it, as a whole, and that segments count
//! from where it starts: a record in it may be none.
use super::Flight;
use crate::base::time::Instant;
use crate::ranges::RangeSet;
use crate::tcp::below::Departure;
use crate::tcp::tx_queue::{BUFFER_CHARGE, Sent, flag};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Most bytes that one buffer holds (65,535 segments of eight bytes, `tcp_skb_shift`).
const BUFFER_MAX: u64 = 65_535 * 8;
/// The marks that one buffer must share with the next (`TCPCB_TAGBITS`).
const TAGS: u16 = flag::SACKED | flag::LOST | flag::RETRANS;

/// Records at one end of a buffer that are counted anew. Only those that end within a segment of it may count otherwise.
const RECOUNTED_MAX: usize = 64;

/// Blocks of an acknowledgement, ascending.
pub type Blocks = SmallVec<[(u64, u64); 4]>;

/// What is remembered as long as something is sacked.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// What is sacked, above the last acknowledgement.
    pub(super) sacked: RangeSet,
    /// Those that hold several records, or what was cut off from such a one, by where they start.
    joined: BTreeMap<u64, Joined>,
    /// Records in them that are no buffer of their own.
    inner: u32,
    /// The blocks that are worked through already (`recv_sack_cache`).
    seen: Blocks,
    /// One past the highest sacked offset, also when it is acknowledged and about to go.
    pub(super) highest: u64,
}

impl Buffers {
    /// A record is sacked.
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        self.sacked.insert(start, end);
        self.highest = self.highest.max(end);
    }
}

/// A buffer of several records, or what was cut off from one.
#[derive(Clone, Copy, Debug)]
struct Joined {
    end: u64,
    /// The last transmission of the first of them, which all of it counts as.
    left: Departure,
    /// Bytes per segment.
    mss: u64,
    /// Where it starts; where it did before, while an acknowledgement takes its front record by record.
    from: u64,
    /// One that joined it starts within a segment: what is left of it may be fewer than the segments that its parts had.
    uneven: bool,
    /// PSH, where a part of it had that, or its end if it was cut.
    push: u16,
}

/// Segments of a buffer of `mss` bytes each that end within `from..to`. Those of a buffer that was cut are counted from where it starts
/// (`tcp_set_skb_tso_segs`), so what is left of it at any place is what can be counted up to its `end`.
const fn segs_between(from: u64, to: u64, end: u64, mss: u64) -> u64 {
    let mss = if mss == 0 { 1 } else { mss };
    let from = end.saturating_sub(from).div_ceil(mss);
    from.saturating_sub(end.saturating_sub(to).div_ceil(mss))
}

/// One buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Where it starts.
    pub start: u64,
    /// Where it ends, a FIN included.
    pub end: u64,
    /// Its marks.
    pub flags: u16,
    /// Its segments.
    pub segs: u32,
    /// Bytes per segment (`tcp_skb_seglen`).
    pub seglen: u64,
    /// Its last transmission; that of its first record, where it holds several.
    pub left: Departure,
}

impl Buffer {
    /// A record by itself.
    fn of(start: u64, sent: &Sent) -> Self {
        Self {
            start,
            end: start + sent.span(),
            flags: sent.flags,
            segs: u32::from(sent.segs),
            seglen: if sent.segs == 1 { sent.payload.len() as u64 } else { u64::from(sent.mss) },
            left: sent.departure(),
        }
    }

    /// One that goes on to `end` in segments of `mss` bytes, where a record with the marks `last` stands.
    fn grown_to(self, end: u64, last: u16, mss: u64) -> Self {
        let len = end - self.start - u64::from(last & flag::FIN != 0);
        let segs = len.div_ceil(mss.max(1)).max(1) as u32;
        let seglen = if segs == 1 { len } else { mss };
        Self { end, flags: self.flags | last & (flag::EOR | flag::FIN), segs, seglen, ..self }
    }

    /// Sacked, and nothing of it is on its way.
    const fn is_plainly_sacked(&self) -> bool {
        self.flags & TAGS == flag::SACKED
    }

    /// True when any of `bits` is set.
    #[must_use]
    pub const fn has(&self, bits: u16) -> bool {
        self.flags & bits != 0
    }

    /// True when a block reports all of it.
    #[must_use]
    pub const fn within(&self, (start, end): (u64, u64)) -> bool {
        start <= self.start && self.end <= end
    }
}

/// How a block lies over a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It reports nothing of it as it now is; the buffer behind may be what was cut off.
    No,
    /// It reports all of it, as it now is.
    Whole,
    /// It reports less than a segment of its front, or the buffer cannot be cut.
    Fails,
}

/// What becomes of a buffer beside a sacked one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// Nothing: no whole segment of it is reported.
    Nothing,
    /// It is marked by itself.
    Alone,
    /// So many bytes of its front join the one before.
    Front(u64),
}

impl Flight {
    /// What Linux would charge the send buffer with (`sk_wmem_queued`). SO_SNDBUF and the buffer's growth are reckoned in it, so that an
    /// application may write as much as there. Buffers that were joined gave back what they were charged beside their payload.
    #[must_use]
    pub fn wmem_queued(&self) -> usize {
        let inner = self.buffers.as_ref().map_or(0, |b| b.inner as usize);
        self.tx.wmem_queued().saturating_sub(inner * BUFFER_CHARGE)
    }

    /// The buffer that holds `at`.
    #[must_use]
    pub fn buffer_at(&self, at: u64) -> Option<Buffer> {
        let (start, sent) = self.tx.covering(at)?;
        let alone = Buffer::of(start, sent);
        // Only what is sacked was ever joined.
        if !alone.has(flag::SACKED) {
            return Some(alone);
        }
        let joined = self.buffers.as_ref().and_then(|b| b.joined.range(..=at).next_back());
        let Some((&start, &Joined { end, left, mss, .. })) = joined.filter(|(_, joined)| at < joined.end)
        else {
            return Some(alone);
        };
        let first = if alone.start == start { alone } else { Buffer::of(start, self.tx.get(start)?) };
        let first = Buffer { left, ..first };
        // The last of it says whether something may be joined behind.
        let last = self.tx.covering(end - 1).map_or(0, |(_, last)| last.flags);
        Some(first.grown_to(end, last, mss))
    }

    /// When the first buffer in flight was last sent.
    #[must_use]
    pub fn head_sent_at(&self) -> Option<Instant> {
        let (start, head) = self.tx.first()?;
        let joined = self.buffers.as_ref().and_then(|b| b.joined.get(&start));
        Some(joined.map_or(head.sent_at, |joined| joined.left.at))
    }

    /// The first place at or behind `at` that is in flight and not sacked.
    #[must_use]
    pub fn unsacked_from(&self, at: u64) -> Option<u64> {
        let sacked = self.buffers.as_ref().map(|b| &b.sacked);
        sacked.and_then(|sacked| sacked.first_gap(at, self.tx.nxt())).map(|(start, _)| start)
    }

    /// `at`, or where what is sacked there ends.
    #[must_use]
    pub fn not_sacked_from(&self, at: u64) -> u64 {
        let sacked = self.buffers.as_ref().and_then(|b| b.sacked.range_at(at));
        sacked.map_or(at, |(_, end)| end)
    }

    /// The buffer behind all that is sacked, or the first where nothing is (`tcp_highest_sack`).
    #[must_use]
    pub fn behind_sacked(&self) -> Option<u64> {
        if self.sacked_out == 0 {
            return self.tx.first().map(|(start, _)| start);
        }
        Some(self.highest_sack()).filter(|at| *at < self.tx.nxt())
    }

    /// Lays a block over a buffer, which is cut at the block's ends: SACKs cover whole segments only
    /// (`tcp_match_skb_to_sack`).
    pub fn fit(&mut self, buffer: &Buffer, block: (u64, u64)) -> Fit {
        let (from, to) = block;
        if buffer.within(block) {
            return Fit::Whole;
        }
        if buffer.segs < 2 || buffer.end <= from {
            return Fit::No;
        }
        let (begins, mss) = (from <= buffer.start, buffer.seglen);
        let keep = match begins {
            true => (to - buffer.start) / mss * mss,
            false => (from - buffer.start).div_ceil(mss) * mss,
        };
        if !begins && keep >= buffer.end - buffer.start - u64::from(buffer.has(flag::FIN)) {
            return Fit::No;
        }
        if keep == 0 || self.tx.splits_exhausted() || !self.cut(buffer, keep) {
            return Fit::Fails;
        }
        if begins { Fit::Whole } else { Fit::No }
    }

    /// Cuts a buffer after `len` bytes; both parts keep its time. False when it stays whole.
    pub fn cut(&mut self, buffer: &Buffer, len: u64) -> bool {
        let at = buffer.start + len;
        let joined = self.buffers.as_ref().and_then(|b| b.joined.get(&buffer.start)).copied();
        let Some(whole) = joined else { return self.split(buffer.start, len as usize) };
        let Some((start, _)) = self.tx.covering(at) else { return false };
        // Records of several lengths: the cut is where segments of the first one's length end.
        let apart = start == at;
        if !apart && (self.tx.splits_exhausted() || !self.split(start, (at - start) as usize)) {
            return false;
        }
        let buffers = self.buffers.get_or_insert_default();
        buffers.inner = buffers.inner.saturating_sub(u32::from(apart));
        // The end keeps PSH.
        buffers.joined.insert(buffer.start, Joined { end: at, uneven: false, push: 0, ..whole });
        buffers.joined.insert(at, Joined { from: at, uneven: false, ..whole });
        // Each part counts as many segments as its length makes (`tcp_fragment`).
        self.recount_joined((buffer.start, at), whole.mss, true);
        self.recount_joined((at, buffer.end), whole.mss, false);
        true
    }

    /// Counts the segments of a buffer of several records anew: of its last ones, or of its first.
    fn recount_joined(&mut self, (start, end): (u64, u64), mss: u64, last: bool) {
        let data_end = self.data_end(end);
        let mut delta = 0;
        let mut count = |(from, sent): (u64, &mut Sent)| {
            let segs = segs_between(from, from + sent.payload.len() as u64, data_end, mss);
            // A FIN that was cut off is one by itself.
            let segs = segs.max(u64::from(from >= data_end));
            let segs = u16::try_from(segs).unwrap_or(u16::MAX);
            delta += i32::from(segs) - i32::from(sent.segs);
            sent.segs = segs;
        };
        let mut records = self.tx.range_mut(start, end);
        for _ in 0..RECOUNTED_MAX {
            let Some(record) = (if last { records.next_back() } else { records.next() }) else { break };
            count(record);
        }
        drop(records);
        self.adjust(start, delta);
    }

    /// Where the payload of a buffer that ends at `end` does.
    fn data_end(&self, end: u64) -> u64 {
        let fin = self.tx.covering(end.saturating_sub(1)).is_some_and(|(_, last)| last.has(flag::FIN));
        end - u64::from(fin)
    }

    /// The buffer that ends where `buffer` starts.
    #[must_use]
    pub fn buffer_before(&self, buffer: &Buffer) -> Option<Buffer> {
        buffer.start.checked_sub(1).and_then(|at| self.buffer_at(at))
    }

    /// Whether what a block reports of `buffer` joins the sacked buffer `before` it. `dup`: the block is a D-SACK.
    #[must_use]
    pub fn joins(&self, before: Option<&Buffer>, buffer: &Buffer, block: (u64, u64), dup: bool) -> Join {
        // Without the loss a retransmission may still be on its way: that does not end as plainly sacked.
        let resent = buffer.flags & (flag::LOST | flag::RETRANS) == flag::RETRANS;
        let Some(before) = before.filter(|b| b.is_plainly_sacked() && !b.has(flag::EOR)) else {
            return Join::Alone;
        };
        if (resent && !dup) || buffer.end <= self.tx.una() || buffer.seglen == 0 {
            return Join::Alone;
        }
        let (start, end) = block;
        let len = if buffer.within(block) {
            buffer.end - buffer.start
        } else if buffer.end <= start || buffer.segs < 2 {
            return Join::Nothing;
        } else if buffer.start < start {
            return Join::Alone;
        } else {
            let len = (end - buffer.start) / buffer.seglen * buffer.seglen;
            // With its last byte goes a FIN, which the block does not report (`tcp_shifted_skb`).
            let fin = buffer.has(flag::FIN) && buffer.start + len + 1 == buffer.end;
            len + u64::from(fin)
        };
        if buffer.seglen != before.seglen {
            return Join::Alone;
        }
        if len == 0 {
            return Join::Nothing;
        }
        let fits = before.end - before.start + len < BUFFER_MAX;
        if fits && buffer.start + len > self.tx.una() { Join::Front(len) } else { Join::Alone }
    }

    /// The sacked `buffer` becomes one with the buffer `before` it; the whole.
    pub fn join(&mut self, before: &Buffer, buffer: &Buffer) -> Buffer {
        let mut whole = before.grown_to(buffer.end, buffer.flags, before.seglen);
        // What one part has been through, all of it has.
        if before.has(flag::EVER_RETRANS) != buffer.has(flag::EVER_RETRANS) {
            let side = if buffer.has(flag::EVER_RETRANS) { before } else { buffer };
            for (_, sent) in self.tx.range_mut(side.start, side.end) {
                sent.flags |= flag::EVER_RETRANS;
            }
            whole.flags |= flag::EVER_RETRANS;
        }
        let buffers = self.buffers.get_or_insert_default();
        let (end, left, mss, from) = (buffer.end, before.left, before.seglen, before.start);
        // One that has just been sacked was alone.
        let second = if buffer.has(flag::SACKED) { buffers.joined.remove(&buffer.start) } else { None };
        let parts = [buffers.joined.get(&from).copied(), second];
        let uneven =
            !(buffer.start - from).is_multiple_of(mss.max(1)) || parts.iter().flatten().any(|j| j.uneven);
        let push =
            parts.iter().zip([before, buffer]).map(|(j, b)| j.map_or(b.flags & flag::PUSH, |j| j.push));
        let push = push.fold(0, |all, push| all | push);
        buffers.joined.insert(from, Joined { end, left, mss, from, uneven, push });
        buffers.inner += 1;
        self.tx.on_changed(from, end);
        whole
    }

    /// The same for what lies behind a buffer that has just grown, where it is alike: the whole, and what lies behind that where it
    /// was looked at.
    pub fn join_behind(&mut self, grown: Buffer, seglen: u64) -> (Buffer, Option<Buffer>) {
        let Some(next) = self.buffer_at(grown.end) else { return (grown, None) };
        let alike = next.is_plainly_sacked() && next.seglen == seglen;
        if alike && !grown.has(flag::EOR) && next.end - grown.start < BUFFER_MAX {
            (self.join(&grown, &next), None)
        } else {
            (grown, Some(next))
        }
    }

    /// The blocks that earlier acknowledgements have reported, as far as one is remembered.
    #[must_use]
    pub fn seen_blocks(&self) -> Blocks {
        let seen = self.buffers.as_ref().filter(|_| self.sacked_out > 0);
        seen.map(|b| b.seen.clone()).unwrap_or_default()
    }

    /// These blocks are worked through. Only where something is sacked: else all blocks are new.
    pub fn remember_blocks(&mut self, blocks: Blocks) {
        if self.sacked_out > 0 {
            self.buffers.get_or_insert_default().seen = blocks;
        }
    }

    /// Nothing is sacked any more: what was one buffer is one record, with one time, as far as the queue can afford the copies. Its
    /// segments count from its start, and where an acknowledgement ends within it from there. What stays apart has that time, and PSH
    /// at its end.
    pub(super) fn part_buffers(&mut self) {
        let mut copied = 0;
        for (start, joined) in self.buffers.take().map(|buffers| buffers.joined).unwrap_or_default() {
            let mut last = None;
            for (_, sent) in self.tx.range_mut(start, joined.end) {
                sent.count_as(joined.left);
                sent.flags &= !flag::PUSH;
                last = Some(sent);
            }
            if let Some(last) = last {
                last.flags |= joined.push;
            }
            let mut delta = self.tx.join_range(start, joined.end, &mut copied);
            // What stays apart is sent by itself.
            for (_, sent) in self.tx.range_mut(start, joined.end).filter(|(_, sent)| sent.segs == 0) {
                sent.segs = 1;
                delta += 1;
            }
            self.packets_out = self.packets_out.saturating_add_signed(delta);
        }
    }

    /// Segments that are left of the first record when `ack` ends within it, where it stands in a buffer of several that is cut there
    /// (`tcp_tso_acked`). One of a single segment is not.
    pub(super) fn left_of_joined(&self, ack: u64) -> Option<u16> {
        let (start, sent) = self.tx.first()?;
        let joined = self.buffers.as_ref()?.joined.get(&start)?;
        let end = self.data_end(joined.end);
        if end - joined.from <= joined.mss {
            return None;
        }
        // A FIN of which all data is acknowledged is one by itself.
        let left = segs_between(ack, start + sent.span(), end, joined.mss).max(u64::from(ack >= end));
        Some(sent.segs.min(u16::try_from(left).unwrap_or(u16::MAX)))
    }

    /// `ack` takes the front of a buffer: the record at `start`, which ends at `end`, or a part of it. What is left keeps its PSH
    /// (`tcp_trim_head`).
    pub(super) fn cut_buffer(&mut self, start: u64, end: u64, ack: u64) {
        let to = end.min(ack);
        if self.sacked_out == 0 {
            self.buffers = None;
        }
        if let Some(buffers) = &mut self.buffers
            && let Some(joined) = buffers.joined.remove(&start)
            && to < joined.end
        {
            let cut = to == ack;
            let (from, uneven) = if cut { (ack, false) } else { (joined.from, joined.uneven) };
            buffers.joined.insert(to, Joined { from, uneven, ..joined });
            buffers.inner = buffers.inner.saturating_sub(u32::from(to == end));
            if cut && joined.uneven {
                self.recount_joined((to, joined.end), joined.mss, false);
            }
        }
    }
}
