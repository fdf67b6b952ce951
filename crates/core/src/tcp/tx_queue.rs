//! The send queue: unsent elements and in-flight records, payload split without being copied.
//!
//! Positions are stream offsets counted from the ISN in 64 bits (SYN is offset 0, the first byte 1, FIN takes one), so
//! nothing wraps; [`super::sender::Sender`] converts at the border.
use super::below::{Below, Departure};
use super::moments::Moments;
use crate::base::Pool;
use crate::base::limits::{GSO_MAX_SIZE, TCP_MIN_SND_MSS};
use crate::base::time::Instant;
use crate::path::rate::Snapshot as TxStamp;
use crate::ranges::RangeSet;
use bytes::{Buf, Bytes};
use core::fmt;
use lowwater_wire::tcp::MAX_OPTIONS_LEN;
use std::collections::BTreeMap;
use trimmed::Trimmed;
pub(super) use unsent::COPY_BELOW;
use unsent::Unsent;
pub use unsent::{HeadInfo, Pushed};
mod element;
mod join;
mod trimmed;
mod unsent;

/// What Linux 6.18 charges for a buffer beside its payload where pointers have 64 bits: the descriptor and the room for headers
/// (`SKB_TRUESIZE` of `MAX_TCP_HEADER`).
pub(super) const BUFFER_CHARGE: usize = 832;
/// Charge of one in-flight record: a slot of a B-tree leaf, filled to six of eleven by appending.
const RECORD_CHARGE: usize = (size_of::<Sent>() + size_of::<u64>() + 4) * 11 / 6;
/// What records made by splitting may cost beyond twice the payload (CVE-2019-11478).
const SPLIT_ALLOWANCE: usize = 128 * 1_024;

/// State and header bits of a [`Sent`] record.
pub mod flag {
    /// Selectively acknowledged.
    pub const SACKED: u16 = 1;
    /// Believed lost; cleared only by an acknowledgement or an undo.
    pub const LOST: u16 = 2;
    /// A retransmission is believed to be in flight.
    pub const RETRANS: u16 = 4;
    /// Was retransmitted at some time: its acknowledgement is ambiguous (Karn).
    pub const EVER_RETRANS: u16 = 8;
    /// PSH on the last segment.
    pub const PUSH: u16 = 16;
    /// Ends with FIN.
    pub const FIN: u16 = 32;
    /// Starts with SYN.
    pub const SYN: u16 = 64;
    /// End of a record of the application: nothing is appended behind it (MSG_EOR).
    pub const EOR: u16 = 128;
    /// The beginning of the buffer that takes more has left: what was sent may hold it, and it cannot grow.
    pub(super) const SHARED: u16 = 256;
    /// Its last transmission counts as earlier than it was.
    pub const LATE: u16 = 512;
    /// Was sacked, and the peer took that back: RACK does not judge it before it is sent again.
    pub const RENEGED: u16 = 1_024;
    /// Its last transmission was judged lost by RACK, which does not judge that one again, not even if the mark is taken back.
    pub const JUDGED: u16 = 2_048;
}

/// One transmitted piece of the stream that is not yet cumulatively acknowledged; a super-packet or a part of one.
#[derive(Clone)]
pub struct Sent {
    /// Payload.
    pub payload: Bytes,
    /// Time of the last transmission.
    pub sent_at: Instant,
    /// Delivery-rate snapshot of the last transmission.
    pub stamp: TxStamp,
    /// Segments it counts for (`tcp_skb_pcount`).
    pub segs: u16,
    /// The MSS at which they were counted.
    pub mss: u16,
    /// Bits of [`flag`].
    pub flags: u16,
    /// Number of its last transmission among the packets handed down (`Below`).
    pub number: u16,
}

impl Sent {
    /// Length in sequence space.
    #[must_use]
    pub const fn span(&self) -> u64 {
        self.payload.len() as u64 + self.has(flag::FIN) as u64 + self.has(flag::SYN) as u64
    }

    /// True when any of `bits` is set.
    #[must_use]
    pub const fn has(&self, bits: u16) -> bool {
        self.flags & bits != 0
    }

    /// Its last transmission.
    #[must_use]
    pub const fn departure(&self) -> Departure {
        Departure { at: self.sent_at, number: self.number, late: self.has(flag::LATE) }
    }

    /// Its last transmission is that from now on.
    pub const fn count_as(&mut self, left: Departure) {
        (self.sent_at, self.number) = (left.at, left.number);
        self.flags = if left.late { self.flags | flag::LATE } else { self.flags & !flag::LATE };
    }

    fn count(&mut self, mss: u16) {
        // Options may take all of their room of the smallest MSS (`TCP_MIN_GSO_SIZE`).
        self.mss = mss.max(TCP_MIN_SND_MSS - MAX_OPTIONS_LEN as u16);
        self.segs = segs_of(self.payload.len(), self.mss);
    }
}

/// Never the payload: it is the user's, and large.
impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, segs, flags) = (self.span(), self.segs, self.flags);
        write!(f, "{len}/{segs} flags {flags:#x} at {}", self.sent_at)
    }
}

/// Segments that `len` bytes make at `mss`; at least one.
#[must_use]
pub fn segs_of(len: usize, mss: u16) -> u16 {
    len.div_ceil(usize::from(mss.max(1))).clamp(1, usize::from(u16::MAX)) as u16
}

/// What is left to know of a record, or of the front of one, that was cumulatively acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// Where it started.
    pub start: u64,
    /// Where the record ends: above the acknowledgement if only its front was acknowledged.
    pub end: u64,
    /// Segments acknowledged.
    pub segs: u16,
    /// Bits of [`flag`].
    pub flags: u16,
    /// Time of the last transmission.
    pub sent_at: Instant,
    /// Number of the last transmission.
    pub number: u16,
    /// Delivery-rate snapshot of the last transmission.
    pub stamp: TxStamp,
}

impl Acked {
    const fn of(start: u64, sent: &Sent, segs: u16) -> Self {
        Self {
            start,
            end: start + sent.span(),
            segs,
            flags: sent.flags,
            sent_at: sent.sent_at,
            number: sent.number,
            stamp: sent.stamp,
        }
    }

    /// The last transmission.
    #[must_use]
    pub const fn departure(&self) -> Departure {
        Departure { at: self.sent_at, number: self.number, late: self.has(flag::LATE) }
    }

    /// True when any of `bits` is set.
    #[must_use]
    pub const fn has(&self, bits: u16) -> bool {
        self.flags & bits != 0
    }
}

/// The send queue of a connection.
#[derive(Debug)]
pub struct TxQueue {
    /// What waits behind it, for filling it.
    pub unsent: Unsent,
    sent: BTreeMap<u64, Sent>,
    una: u64,
    /// What of it has not left this host.
    pub below: Below,
    /// What few connections need.
    rare: Option<Box<Rare>>,
}

#[derive(Debug, Default)]
struct Rare {
    /// Where records were made, sent again, cut or joined since somebody asked; `None` while nobody does.
    changed: Option<RangeSet>,
    /// What the connection was like amid its turns; `None` while nobody asks.
    moments: Option<Box<Moments>>,
    /// What probes of the path's MTU were taken from.
    trimmed: Trimmed,
}

impl TxQueue {
    /// An empty queue whose next offset is `start`: 0 before an active open's SYN, 1 when the SYN-ACK is already acknowledged.
    #[must_use]
    pub const fn new(start: u64) -> Self {
        Self {
            unsent: Unsent::new(start),
            sent: BTreeMap::new(),
            una: start,
            below: Below::new(),
            rare: None,
        }
    }

    /// First unacknowledged offset.
    #[must_use]
    pub const fn una(&self) -> u64 {
        self.una
    }

    /// Next offset to send.
    #[must_use]
    pub const fn nxt(&self) -> u64 {
        self.unsent.nxt()
    }

    /// End of what was queued.
    #[must_use]
    pub const fn write_seq(&self) -> u64 {
        self.unsent.end()
    }

    /// Offsets queued and never sent (`tcp_notsent`), FIN included.
    #[must_use]
    pub const fn unsent_bytes(&self) -> u64 {
        self.unsent.bytes()
    }

    /// True when nothing is unsent and nothing in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.unsent.is_empty() && self.sent.is_empty()
    }

    /// What Linux would charge the send buffer with if each record were a buffer: payload, and the metadata of each element and record.
    #[must_use]
    pub fn wmem_queued(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        let begin = self.sent.first_key_value().map_or(self.nxt(), |(start, _)| *start);
        let (first, last) = (self.sent.first_key_value(), self.sent.last_key_value());
        let syn = first.is_some_and(|(_, sent)| sent.has(flag::SYN));
        let fin = self.unsent.ends_with_fin();
        let fin = fin.unwrap_or_else(|| last.is_some_and(|(_, sent)| sent.has(flag::FIN)));
        let payload =
            ((self.write_seq() - begin) as usize).saturating_sub(usize::from(syn) + usize::from(fin));
        let there = |at| self.sent.contains_key(&at) || at == self.nxt();
        let trimmed = self.rare.as_ref().map_or(0, |rare| rare.trimmed.bytes(there));
        payload + trimmed + (self.unsent.len() + self.sent.len()) * BUFFER_CHARGE
    }

    /// Memory that the queue pins: buffers whole, and its own bookkeeping.
    #[must_use]
    pub fn queued_charge(&self) -> usize {
        self.unsent.pinned() + self.sent.len() * RECORD_CHARGE
    }

    /// PSH stays with the last record in flight, also when it is sent again.
    pub fn mark_last_sent_push(&mut self) {
        if let Some(mut last) = self.sent.last_entry() {
            last.get_mut().flags |= flag::PUSH;
        }
    }

    /// Moves `len` bytes of the head element (all of it when `len` is larger) into flight; where the record starts.
    ///
    /// FIN and PSH stay with the last part. `None` when nothing is unsent.
    pub fn send_head(&mut self, len: usize, mss: u16, at: Instant, stamp: TxStamp) -> Option<u64> {
        let (payload, flags) = self.unsent.take_head(len, mss)?;
        let number = self.below.hand_down();
        Some(self.record(Sent { payload, sent_at: at, stamp, segs: 1, mss, flags, number }))
    }

    /// The last record, at `start`, was not sent after all: it heads the unsent part as an element of its own. Its segments.
    pub fn take_back(&mut self, start: u64) -> u16 {
        let last = self.sent.last_entry().filter(|last| *last.key() == start);
        let Some(sent) = last.map(|last| last.remove()) else { return 0 };
        self.unsent.put_back(start, sent.payload, sent.flags & (flag::PUSH | flag::FIN | flag::EOR));
        sent.segs
    }

    /// Moves the first `len` unsent bytes into flight as one segment, copied together where they are apart; where it starts.
    /// `None` when there are fewer.
    pub fn send_gathered(&mut self, len: usize, at: Instant, stamp: TxStamp) -> Option<u64> {
        let mss = u16::try_from(len).ok()?;
        let (payload, flags, trimmed) = self.unsent.gather(len)?;
        let number = self.below.hand_down();
        let start = self.record(Sent { payload, sent_at: at, stamp, segs: 1, mss, flags, number });
        if trimmed > 0 || self.rare.is_some() {
            self.rare.get_or_insert_default().trimmed.note(start, len, trimmed);
        }
        Some(start)
    }

    /// Puts a SYN into flight: the first thing sent by an active open.
    pub fn send_syn(&mut self, at: Instant, stamp: TxStamp) -> u64 {
        self.unsent.skip_one();
        self.record(Sent {
            payload: Bytes::new(),
            sent_at: at,
            stamp,
            segs: 1,
            mss: TCP_MIN_SND_MSS,
            flags: flag::SYN,
            number: self.below.none(),
        })
    }

    /// Fills the first element that is not pushed out up to `len` bytes from the next one, as far as the copies that this takes are
    /// afforded. What is not to leave `whole` will lack as much again: room for that saves the next copy. True where the next one is
    /// freed.
    pub fn grow_head(&mut self, len: usize, whole: bool) -> bool {
        if !self.unsent.copies_to_grow(len) {
            return self.unsent.grow_head(len, 0);
        }
        if !self.affords_copy(len) {
            return false;
        }
        let spare = if whole || !self.affords_copy(2 * len) { 0 } else { len };
        self.unsent.grow_head(len, spare)
    }

    /// Bytes that [`Self::grow_head`] makes of the first element that is not pushed out.
    #[must_use]
    pub fn head_grown(&self, len: usize) -> usize {
        let own = self.unsent.head_behind().map_or(0, |head| head.len);
        let stays = self.unsent.copies_to_grow(len) && !self.affords_copy(len);
        if stays { own } else { own + self.unsent.takes_of_next(len) }
    }

    /// The queue may copy `len` bytes for a packet that ends beyond its element: copies pin a sixteenth of what is written and not
    /// acknowledged, beside the buffers of the first and the last element. Linux moves pages instead, which pins nothing more.
    const fn affords_copy(&self, len: usize) -> bool {
        let written = self.unsent.end() - self.una;
        let most = written + written / 16 + 2 * GSO_MAX_SIZE as u64;
        (self.unsent.pinned() + len) as u64 <= most
    }

    /// Number of records in flight.
    #[must_use]
    pub fn records(&self) -> usize {
        self.sent.len()
    }

    /// The first record in flight.
    #[must_use]
    pub fn first(&self) -> Option<(u64, &Sent)> {
        self.sent.first_key_value().map(|(k, v)| (*k, v))
    }

    /// The last record in flight.
    #[must_use]
    pub fn last(&self) -> Option<(u64, &Sent)> {
        self.sent.last_key_value().map(|(k, v)| (*k, v))
    }

    /// The record that starts at `start`.
    #[must_use]
    pub fn get(&self, start: u64) -> Option<&Sent> {
        self.sent.get(&start)
    }

    /// The record that starts at `start`. Its length and segment count must be changed by methods of the queue only.
    pub fn get_mut(&mut self, start: u64) -> Option<&mut Sent> {
        self.sent.get_mut(&start)
    }

    /// The record that holds `offset`.
    #[must_use]
    pub fn covering(&self, offset: u64) -> Option<(u64, &Sent)> {
        let (start, sent) = self.sent.range(..=offset).next_back()?;
        (start + sent.span() > offset).then_some((*start, sent))
    }

    /// The first record that starts at `offset` or later.
    #[must_use]
    pub fn at_or_after(&self, offset: u64) -> Option<(u64, &Sent)> {
        self.sent.range(offset..).next().map(|(k, v)| (*k, v))
    }

    /// Records that start in `from..to`, in order.
    pub fn range(&self, from: u64, to: u64) -> impl DoubleEndedIterator<Item = (u64, &Sent)> {
        self.sent.range(from..to.max(from)).map(|(k, v)| (*k, v))
    }

    /// Records that start in `from..to`, in order, for changing flags.
    pub fn range_mut(&mut self, from: u64, to: u64) -> impl DoubleEndedIterator<Item = (u64, &mut Sent)> {
        self.sent.range_mut(from..to.max(from)).map(|(k, v)| (*k, v))
    }

    /// True when a peer's SACKs have made so many records that they may not make more (CVE-2019-11478).
    #[must_use]
    pub fn splits_exhausted(&self) -> bool {
        self.sent.len() * RECORD_CHARGE > 2 * self.unsent.pinned() + SPLIT_ALLOWANCE
    }

    /// Splits the record at `start` after `len` bytes; both parts keep marks and times, and are counted at `mss`. Behind all bytes a FIN is
    /// split off. The change in the number of segments, or `None` when there is no such record or nothing to split.
    pub fn split_record(&mut self, start: u64, len: usize, mss: u16) -> Option<i32> {
        let record = self.sent.get_mut(&start)?;
        let most = record.payload.len() + usize::from(record.has(flag::FIN));
        if len == 0 || len >= most || record.has(flag::SYN) {
            return None;
        }
        let before = i32::from(record.segs);
        let mut rest = record.clone();
        rest.payload = record.payload.split_off(len);
        record.flags &= !(flag::PUSH | flag::FIN | flag::EOR);
        record.count(mss);
        rest.count(mss);
        let after = i32::from(record.segs) + i32::from(rest.segs);
        let end = start + len as u64 + rest.span();
        self.sent.insert(start + len as u64, rest);
        self.on_changed(start, end);
        Some(after - before)
    }

    /// Counts the segments of the record at `start` anew at `mss`; the change.
    pub fn recount(&mut self, start: u64, mss: u16) -> i32 {
        let Some(record) = self.sent.get_mut(&start) else { return 0 };
        let before = i32::from(record.segs);
        record.count(mss);
        i32::from(record.segs) - before
    }

    /// Removes the first record when it ends at or before `ack`.
    pub fn pop_acked(&mut self, pool: &mut Pool, ack: u64) -> Option<Acked> {
        let first = self.sent.first_entry()?;
        if first.key() + first.get().span() > ack {
            return None;
        }
        let (start, sent) = first.remove_entry();
        let acked = Acked::of(start, &sent, sent.segs);
        pool.give(sent.payload);
        Some(acked)
    }

    /// Cuts what is below `ack` off the first record, if that has several segments and ends above `ack` (`tcp_tso_acked`).
    pub fn trim_acked(&mut self, ack: u64) -> Option<Acked> {
        let (start, sent) = self.sent.first_key_value().filter(|(_, sent)| sent.segs >= 2)?;
        let len = sent.payload.len().saturating_sub(ack.saturating_sub(*start) as usize);
        let left = segs_of(len, sent.mss);
        self.trim_acked_to(ack, left)
    }

    /// The same whatever its segments, of which no more than `left` are left.
    pub fn trim_acked_to(&mut self, ack: u64, left: u16) -> Option<Acked> {
        let (start, sent) = self.sent.first_key_value()?;
        let start = *start;
        if ack <= start || ack >= start + sent.span() {
            return None;
        }
        let mut rest = self.sent.remove(&start)?;
        let mut acked = Acked::of(start, &rest, rest.segs);
        rest.payload.advance(((ack - start) as usize).min(rest.payload.len()));
        rest.segs = left.min(rest.segs);
        acked.segs -= rest.segs;
        self.on_trimmed(start, ack, rest.span());
        self.sent.insert(ack, rest);
        Some(acked)
    }

    /// Cuts what is below `una` off a first record that reaches below it, whatever its segments; where it starts then.
    pub fn drop_acked_front(&mut self) -> Option<u64> {
        let (start, sent) = self.sent.first_key_value()?;
        let start = *start;
        if start >= self.una || self.una >= start + sent.span() {
            return None;
        }
        let mut rest = self.sent.remove(&start)?;
        rest.payload.advance(((self.una - start) as usize).min(rest.payload.len()));
        self.on_trimmed(start, self.una, rest.span());
        self.sent.insert(self.una, rest);
        Some(self.una)
    }

    /// Everything before `ack` is acknowledged: gives buffers free.
    pub fn advance_una(&mut self, ack: u64) {
        let una = self.una.max(ack.min(self.nxt()));
        self.una = una;
        self.unsent.release(una);
        if let Some(changed) = self.changed() {
            changed.remove_below(una);
        }
    }

    /// Something became of what is at `start..end` that [`Self::take_changed`] is to tell.
    pub fn on_changed(&mut self, start: u64, end: u64) {
        if let Some(changed) = self.changed() {
            changed.insert(start, end);
        }
    }

    fn changed(&mut self) -> Option<&mut RangeSet> {
        self.rare.as_mut().and_then(|rare| rare.changed.as_mut())
    }

    /// The record at `start` begins at `ack` now and spans so many.
    fn on_trimmed(&mut self, start: u64, ack: u64, span: u64) {
        self.on_changed(ack, ack + span);
        if let Some(rare) = &mut self.rare {
            rare.trimmed.moved(start, ack);
        }
    }

    /// Where records were made, sent again, cut or joined since the last call, in order: no more of them than there are records. `None`
    /// tells nothing, for the first time: from then on changes are kept.
    pub fn take_changed(&mut self) -> Option<RangeSet> {
        self.rare.get_or_insert_default().changed.replace(RangeSet::new())
    }

    /// Changes are kept.
    pub fn is_followed(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.changed.is_some())
    }

    /// Nobody asks for changes any more, nor for [`Moments`].
    pub fn forget_changed(&mut self) {
        if let Some(rare) = &mut self.rare {
            (rare.changed, rare.moments) = (None, None);
        }
    }

    /// [`Moments`] are kept from now on, or no more.
    pub fn keep_moments(&mut self, keep: bool) {
        if keep {
            self.rare.get_or_insert_default().moments.get_or_insert_default();
        } else if let Some(rare) = &mut self.rare {
            rare.moments = None;
        }
    }

    /// Where they are kept.
    pub fn moments(&mut self) -> Option<&mut Moments> {
        self.rare.as_mut().and_then(|rare| rare.moments.as_deref_mut())
    }

    /// An emptied B-tree keeps a leaf, and the rings their buffers: for who asks and is answered that saves taking them anew each time,
    /// while an idle connection should pin nothing. To be called when it has been silent for a while.
    pub fn rest(&mut self) {
        if self.is_empty() {
            self.sent = BTreeMap::new();
            self.rare = self.rare.take().filter(|rare| rare.changed.is_some() || rare.moments.is_some());
            self.unsent.rest();
        }
    }

    /// Throws everything away (reset, abort).
    pub fn clear(&mut self) {
        self.unsent.clear();
        (self.sent, self.below) = (BTreeMap::new(), Below::new());
    }

    fn record(&mut self, mut sent: Sent) -> u64 {
        let mss = sent.mss;
        sent.count(mss);
        let span = sent.span();
        let start = self.unsent.sent(span);
        self.sent.insert(start, sent);
        self.on_changed(start, start + span);
        start
    }
}

#[cfg(test)]
mod tests;
