//! The send queue: unsent elements and in-flight records, payload split without being copied.
//!
//! Positions are stream offsets counted from the ISN in 64 bits (SYN is offset 0, the first byte 1, FIN takes one), so
//! nothing wraps; [`super::sender::Sender`] converts at the border.
use super::below::{Below, Departure};
use crate::base::Pool;
use crate::base::limits::TCP_MIN_SND_MSS;
use crate::base::time::Instant;
use crate::path::rate::Snapshot as TxStamp;
use bytes::{Buf, Bytes, BytesMut};
use core::fmt;
use std::collections::{BTreeMap, VecDeque};

/// Smallest buffer that an element starts with.
const ELEMENT_BYTES_MIN: usize = 512;
/// `Bytes` shorter than this are copied into the tail: pinning them apart would cost more than the copy.
const COPY_BELOW: usize = 4_096;
/// What Linux 6.18 charges for a buffer beside its payload where pointers have 64 bits: the descriptor and the room for headers
/// (`SKB_TRUESIZE` of `MAX_TCP_HEADER`).
pub(super) const BUFFER_CHARGE: usize = 832;
/// Charge of one element beside its buffer: its slots in two queues and the shared handle of the buffer.
const ELEMENT_CHARGE: usize = 2 * (size_of::<Element>() + size_of::<Pin>()) + 48;
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
    /// A part of the element was sent already: its buffer is shared and cannot grow.
    pub(super) const SHARED: u16 = 256;
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
        Departure { at: self.sent_at, number: self.number }
    }

    fn count(&mut self, mss: u16) {
        self.mss = mss.max(TCP_MIN_SND_MSS);
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
        Departure { at: self.sent_at, number: self.number }
    }

    /// True when any of `bits` is set.
    #[must_use]
    pub const fn has(&self, bits: u16) -> bool {
        self.flags & bits != 0
    }
}

enum Data {
    Open(BytesMut),
    Sealed(Bytes),
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(b) => write!(f, "Open({})", b.len()),
            Self::Sealed(b) => write!(f, "Sealed({})", b.len()),
        }
    }
}

/// One contiguous piece of the unsent stream.
#[derive(Debug)]
struct Element {
    data: Data,
    flags: u16,
}

impl Element {
    fn len(&self) -> usize {
        match &self.data {
            Data::Open(b) => b.len(),
            Data::Sealed(b) => b.len(),
        }
    }
}

/// A buffer that stays allocated until everything before `end` is acknowledged.
#[derive(Clone, Copy, Debug)]
struct Pin {
    end: u64,
    charge: usize,
}

/// What the head of the unsent part looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadInfo {
    /// Payload bytes of the head element.
    pub len: usize,
    /// The element carries PSH.
    pub push: bool,
    /// A FIN follows its last byte.
    pub fin: bool,
    /// It ends a record of the application.
    pub eor: bool,
    /// Nothing unsent follows it.
    pub is_last: bool,
}

impl HeadInfo {
    /// Sequence space of the first segment that it makes; a FIN needs room in the peer's window too.
    #[must_use]
    pub fn first_segment_span(&self, mss: u16) -> u32 {
        let mss = usize::from(mss);
        if self.len > mss { mss as u32 } else { self.span() }
    }

    /// Its sequence space.
    #[must_use]
    pub const fn span(&self) -> u32 {
        self.len as u32 + self.fin as u32
    }
}

/// The send queue of a connection.
#[derive(Debug)]
pub struct TxQueue {
    unsent: VecDeque<Element>,
    sent: BTreeMap<u64, Sent>,
    pins: VecDeque<Pin>,
    pinned: usize,
    una: u64,
    nxt: u64,
    end: u64,
    /// What of it has not left this host.
    pub below: Below,
}

impl TxQueue {
    /// An empty queue whose next offset is `start`: 0 before an active open's SYN, 1 when the SYN-ACK is already acknowledged.
    #[must_use]
    pub const fn new(start: u64) -> Self {
        Self {
            unsent: VecDeque::new(),
            sent: BTreeMap::new(),
            pins: VecDeque::new(),
            pinned: 0,
            una: start,
            nxt: start,
            end: start,
            below: Below::new(),
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
        self.nxt
    }

    /// End of what was queued.
    #[must_use]
    pub const fn write_seq(&self) -> u64 {
        self.end
    }

    /// Offsets queued and never sent (`tcp_notsent`), FIN included.
    #[must_use]
    pub const fn unsent_bytes(&self) -> u64 {
        self.end - self.nxt
    }

    /// Bytes of the last element that waits.
    #[must_use]
    pub fn tail_len(&self) -> u64 {
        self.unsent.back().map_or(0, |element| element.len() as u64)
    }

    /// Elements that end within the first `bytes` that wait.
    #[must_use]
    pub fn elements_within(&self, bytes: u64) -> u64 {
        let mut end = 0;
        let ends = self.unsent.iter().map(|element| {
            end += element.len() as u64;
            end
        });
        ends.take_while(|end| *end <= bytes).count() as u64
    }

    /// True when nothing is unsent and nothing in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.unsent.is_empty() && self.sent.is_empty()
    }

    /// What Linux would charge the send buffer with: payload, and the metadata of each element and record (`sk_wmem_queued`).
    /// SO_SNDBUF and the buffer's growth are reckoned in it, so that an application may write as much as there.
    #[must_use]
    pub fn wmem_queued(&self) -> usize {
        let begin = self.sent.first_key_value().map_or(self.nxt, |(start, _)| *start);
        let (first, last) = (self.sent.first_key_value(), self.sent.last_key_value());
        let syn = first.is_some_and(|(_, sent)| sent.has(flag::SYN));
        let fin = match self.unsent.back() {
            Some(tail) => tail.flags & flag::FIN != 0,
            None => last.is_some_and(|(_, sent)| sent.has(flag::FIN)),
        };
        let payload = ((self.end - begin) as usize).saturating_sub(usize::from(syn) + usize::from(fin));
        payload + (self.unsent.len() + self.sent.len()) * BUFFER_CHARGE
    }

    /// Memory that the queue pins: buffers whole, and its own bookkeeping.
    #[must_use]
    pub fn queued_charge(&self) -> usize {
        self.pinned + self.sent.len() * RECORD_CHARGE
    }

    /// Copies the front of `data` into the open tail element, up to `goal` bytes in it; the number of bytes taken.
    pub fn fill_tail(&mut self, data: &[u8], goal: usize) -> usize {
        let Some(Element { data: Data::Open(tail), flags }) = self.unsent.back_mut() else { return 0 };
        if *flags & (flag::EOR | flag::FIN) != 0 {
            return 0;
        }
        let want = data.len().min(goal.saturating_sub(tail.len()));
        let spare = tail.capacity() - tail.len();
        if spare < want && *flags & flag::SHARED != 0 {
            // Its front is in flight and holds the buffer. The rest moves to one of its own with as much room again, so that each
            // byte is copied once more at the most; another element would cut the stream where Linux does not.
            let room = want.max(tail.len()).min(goal.max(want));
            let mut own = BytesMut::with_capacity(tail.len() + room.max(ELEMENT_BYTES_MIN.min(goal)));
            own.extend_from_slice(tail);
            *tail = own;
            *flags &= !flag::SHARED;
            let charge = tail.capacity();
            self.pinned += charge;
            // The old buffer is held by what was sent of it.
            if let Some(pin) = self.pins.back_mut() {
                pin.end = self.nxt;
            }
            self.pins.push_back(Pin { end: self.end, charge });
        } else if spare < want && *flags & flag::SHARED == 0 {
            let before = tail.capacity();
            let target = (before * 2).clamp(tail.len() + want, goal.max(tail.len() + want));
            // Exactly as much as is charged: growing in place would take up to twice that.
            let mut larger = BytesMut::with_capacity(target);
            larger.extend_from_slice(tail);
            *tail = larger;
            trim(tail, target);
            let grown = tail.capacity() - before;
            self.pinned += grown;
            if let Some(pin) = self.pins.back_mut() {
                pin.charge += grown;
            }
        }
        let take = want.min(tail.capacity() - tail.len());
        tail.extend_from_slice(&data[..take]);
        self.extend(take as u64);
        take
    }

    /// Begins an element with the front of `data` (at most `goal` bytes); `hint` bytes are expected in all. The number taken.
    pub fn begin_element(&mut self, pool: &mut Pool, data: &[u8], hint: usize, goal: usize) -> usize {
        let take = data.len().min(goal);
        if take == 0 {
            return 0;
        }
        let capacity = hint.max(take).max(ELEMENT_BYTES_MIN.min(goal)).min(goal);
        let mut buffer = pool.take(capacity);
        trim(&mut buffer, capacity);
        buffer.extend_from_slice(&data[..take]);
        let pinned = buffer.capacity();
        self.push_element(Data::Open(buffer), take, pinned);
        take
    }

    /// Queues `data` without a copy, cut into elements of `goal` bytes; short pieces are copied into the tail instead. How many
    /// bytes were copied.
    pub fn append_bytes(&mut self, pool: &mut Pool, mut data: Bytes, goal: usize) -> usize {
        let goal = goal.max(1);
        if data.len() < COPY_BELOW {
            let mut rest = &data[..];
            rest = &rest[self.fill_tail(rest, goal)..];
            while !rest.is_empty() {
                rest = &rest[self.begin_element(pool, rest, rest.len(), goal)..];
            }
            return data.len();
        }
        while data.has_remaining() {
            let piece = data.split_to(data.len().min(goal));
            let len = piece.len();
            self.push_element(Data::Sealed(piece), len, len);
        }
        0
    }

    /// PSH after the last byte queued so far.
    pub fn mark_push(&mut self) {
        if let Some(tail) = self.unsent.back_mut() {
            tail.flags |= flag::PUSH;
        }
    }

    /// PSH stays with the last record in flight, also when it is sent again.
    pub fn mark_last_sent_push(&mut self) {
        if let Some(mut last) = self.sent.last_entry() {
            last.get_mut().flags |= flag::PUSH;
        }
    }

    /// Ends a record: nothing is appended to the tail element any more (MSG_EOR).
    pub fn mark_eor(&mut self) {
        if let Some(tail) = self.unsent.back_mut() {
            tail.flags |= flag::EOR;
        }
    }

    /// Queues FIN, once, behind everything.
    pub fn queue_fin(&mut self) {
        if let Some(tail) = self.unsent.back_mut() {
            if tail.flags & flag::FIN == 0 {
                tail.flags |= flag::FIN;
                self.extend(1);
            }
            return;
        }
        self.push_element(Data::Sealed(Bytes::new()), 0, 0);
        self.queue_fin();
    }

    /// The head of the unsent part.
    #[must_use]
    pub fn head(&self) -> Option<HeadInfo> {
        let head = self.unsent.front()?;
        Some(HeadInfo {
            len: head.len(),
            push: head.flags & flag::PUSH != 0,
            fin: head.flags & flag::FIN != 0,
            eor: head.flags & flag::EOR != 0,
            is_last: self.unsent.len() == 1,
        })
    }

    /// Fills the head element up to `len` bytes from the next one, so that a packet need not end where an element does. Only what
    /// was copied in before is copied again, at most a packet for each element (`tcp_grow_skb`).
    pub fn grow_head(&mut self, len: usize) {
        let (head_end, mut heads) = (self.nxt, self.unsent.iter_mut());
        let (Some(head), Some(next)) = (heads.next(), heads.next()) else { return };
        let (Data::Open(to), Data::Open(from)) = (&mut head.data, &mut next.data) else { return };
        let take = len.saturating_sub(to.len()).min(from.len());
        if take == 0 || head.flags & flag::EOR != 0 {
            return;
        }
        let end = head_end + to.len() as u64;
        let (before, shared) = (to.capacity(), head.flags & flag::SHARED != 0);
        if before - to.len() < take {
            // Exactly as much as the packet needs: growing in place would take as much as the whole element once had.
            let mut own = BytesMut::with_capacity(to.len() + take);
            own.extend_from_slice(to);
            *to = own;
            head.flags &= !flag::SHARED;
        }
        to.extend_from_slice(&from[..take]);
        from.advance(take);
        let (moved, left) = (to.capacity(), shared && head.flags & flag::SHARED == 0);
        if from.is_empty() {
            head.flags |= next.flags & (flag::PUSH | flag::EOR | flag::FIN);
            self.unsent.remove(1);
        }
        let at = self.pins.partition_point(|pin| pin.end < end);
        let Some(pin) = self.pins.get_mut(at) else { return };
        if left {
            // The old buffer is held by what was sent of it.
            pin.end = head_end;
            self.pinned += moved;
            self.pins.insert(at + 1, Pin { end: end + take as u64, charge: moved });
        } else if moved > before {
            pin.end += take as u64;
            pin.charge += moved - before;
            self.pinned += moved - before;
        } else {
            pin.end += take as u64;
        }
    }

    /// Payload bytes of the last unsent element, and whether nothing may be added to it any more.
    #[must_use]
    pub fn tail(&self) -> Option<(usize, bool)> {
        self.unsent.back().map(|tail| (tail.len(), tail.flags & (flag::EOR | flag::FIN) != 0))
    }

    /// Moves `len` bytes of the head element (all of it when `len` is larger) into flight; where the record starts.
    ///
    /// FIN and PSH stay with the last part. `None` when nothing is unsent.
    pub fn send_head(&mut self, len: usize, mss: u16, at: Instant, stamp: TxStamp) -> Option<u64> {
        let head = self.unsent.front_mut()?;
        let whole = len >= head.len();
        let mut flags = 0;
        let payload = if whole {
            let Element { data, flags: of } = self.unsent.pop_front()?;
            flags = of & (flag::PUSH | flag::FIN | flag::EOR);
            match data {
                Data::Open(b) => b.freeze(),
                Data::Sealed(b) => b,
            }
        } else {
            head.flags |= flag::SHARED;
            match &mut head.data {
                Data::Open(b) => b.split_to(len).freeze(),
                Data::Sealed(b) => b.split_to(len),
            }
        };
        let number = self.below.hand_down();
        Some(self.record(Sent { payload, sent_at: at, stamp, segs: 1, mss, flags, number }))
    }

    /// True when the first `len` unsent bytes may share a segment: no record of the application ends within them.
    #[must_use]
    pub fn may_gather(&self, len: usize) -> bool {
        let mut left = len;
        for element in &self.unsent {
            if left <= element.len() {
                return len > 0;
            }
            if element.flags & flag::EOR != 0 {
                return false;
            }
            left -= element.len();
        }
        false
    }

    /// Moves the first `len` unsent bytes into flight as one segment, copied together where they are apart; where it starts.
    /// `None` when there are fewer.
    pub fn send_gathered(&mut self, len: usize, at: Instant, stamp: TxStamp) -> Option<u64> {
        let mss = u16::try_from(len).ok()?;
        if self.unsent.front()?.len() > len {
            return self.send_head(len, mss, at, stamp);
        }
        if self.unsent_bytes() < len as u64 {
            return None;
        }
        let (mut whole, mut flags) = (BytesMut::with_capacity(len), 0);
        while whole.len() < len {
            let head = self.unsent.front_mut()?;
            let part = (len - whole.len()).min(head.len());
            match &mut head.data {
                Data::Open(b) => whole.extend_from_slice(&b.split_to(part)),
                Data::Sealed(b) => whole.extend_from_slice(&b.split_to(part)),
            }
            if head.len() == 0 {
                flags |= head.flags & (flag::PUSH | flag::EOR | flag::FIN);
                self.unsent.pop_front();
            } else {
                head.flags |= flag::SHARED;
                break;
            }
        }
        // The copy stays as long as the buffer that holds its end.
        let end = self.nxt + len as u64;
        if let Some(pin) = self.pins.iter_mut().find(|pin| pin.end >= end) {
            pin.charge += whole.capacity();
            self.pinned += whole.capacity();
        }
        let payload = whole.freeze();
        let number = self.below.hand_down();
        Some(self.record(Sent { payload, sent_at: at, stamp, segs: 1, mss, flags, number }))
    }

    /// Puts a SYN into flight: the first thing sent by an active open.
    pub fn send_syn(&mut self, at: Instant, stamp: TxStamp) -> u64 {
        self.end += 1;
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
    pub fn range_mut(&mut self, from: u64, to: u64) -> impl Iterator<Item = (u64, &mut Sent)> {
        self.sent.range_mut(from..to.max(from)).map(|(k, v)| (*k, v))
    }

    /// True when a peer's SACKs have made so many records that they may not make more (CVE-2019-11478).
    #[must_use]
    pub fn splits_exhausted(&self) -> bool {
        self.sent.len() * RECORD_CHARGE > 2 * self.pinned + SPLIT_ALLOWANCE
    }

    /// Splits the record at `start` after `len` bytes; both parts keep marks and times. The change in the number of segments,
    /// or `None` when there is no such record or nothing to split.
    pub fn split_record(&mut self, start: u64, len: usize) -> Option<i32> {
        let record = self.sent.get_mut(&start)?;
        if len == 0 || len >= record.payload.len() || record.has(flag::SYN) {
            return None;
        }
        let before = i32::from(record.segs);
        let mut rest = record.clone();
        rest.payload = record.payload.split_off(len);
        record.flags &= !(flag::PUSH | flag::FIN | flag::EOR);
        let mss = record.mss;
        record.count(mss);
        rest.count(mss);
        let after = i32::from(record.segs) + i32::from(rest.segs);
        self.sent.insert(start + len as u64, rest);
        Some(after - before)
    }

    /// Joins to the record at `start` the one behind it, if both are single segments, together at most `space` bytes, and nothing
    /// forbids it: marks of the former, a SACK of the latter. Where it started and its marks (`tcp_collapse_retrans`).
    pub fn join_next(&mut self, start: u64, space: usize) -> Option<(u64, u64, u16)> {
        let record = self.sent.get(&start)?;
        let at = start + record.span();
        let next = self.sent.get(&at)?;
        let len = record.payload.len() + next.payload.len();
        if record.has(flag::SYN | flag::FIN | flag::EOR)
            || next.has(flag::SACKED)
            || record.segs > 1
            || next.segs > 1
            || len > space
        {
            return None;
        }
        let next = self.sent.remove(&at)?;
        let record = self.sent.get_mut(&start)?;
        let mut both = BytesMut::with_capacity(len);
        both.extend_from_slice(&record.payload);
        both.extend_from_slice(&next.payload);
        record.payload = both.freeze();
        record.flags |= next.flags & (flag::EVER_RETRANS | flag::PUSH | flag::FIN | flag::EOR);
        Some((at, at + next.span(), next.flags))
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
        let (start, sent) = self.sent.first_key_value()?;
        if start + sent.span() > ack {
            return None;
        }
        let (start, sent) = self.sent.pop_first()?;
        if self.sent.is_empty() && self.unsent.is_empty() {
            // An emptied B-tree keeps a leaf, and the rings their buffers: an idle connection should pin nothing.
            self.sent = BTreeMap::new();
            self.unsent = VecDeque::new();
        }
        let acked = Acked::of(start, &sent, sent.segs);
        pool.give(sent.payload);
        Some(acked)
    }

    /// Cuts what is below `ack` off the first record, if that has several segments and ends above `ack` (`tcp_tso_acked`).
    pub fn trim_acked(&mut self, ack: u64) -> Option<Acked> {
        let (start, sent) = self.sent.first_key_value()?;
        let start = *start;
        if sent.segs < 2 || ack <= start || ack >= start + sent.span() {
            return None;
        }
        let mut rest = self.sent.remove(&start)?;
        let mut acked = Acked::of(start, &rest, rest.segs);
        rest.payload.advance(((ack - start) as usize).min(rest.payload.len()));
        let mss = rest.mss;
        rest.count(mss);
        acked.segs -= rest.segs.min(acked.segs);
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
        self.sent.insert(self.una, rest);
        Some(self.una)
    }

    /// Everything before `ack` is acknowledged: gives buffers free.
    pub fn advance_una(&mut self, ack: u64) {
        self.una = self.una.max(ack.min(self.nxt));
        while let Some(pin) = self.pins.front()
            && pin.end <= self.una
        {
            self.pinned -= pin.charge;
            self.pins.pop_front();
        }
        if self.pins.is_empty() {
            self.pins = VecDeque::new();
        }
    }

    /// Throws everything away (reset, abort).
    pub fn clear(&mut self) {
        *self = Self { una: self.una, nxt: self.nxt, end: self.nxt, ..Self::new(0) };
    }

    fn push_element(&mut self, data: Data, len: usize, pinned: usize) {
        self.unsent.push_back(Element { data, flags: 0 });
        let charge = pinned + ELEMENT_CHARGE;
        self.pinned += charge;
        self.pins.push_back(Pin { end: self.end, charge });
        self.extend(len as u64);
    }

    /// The stream, and with it the last buffer's reach, grew by `len`.
    fn extend(&mut self, len: u64) {
        self.end += len;
        if let Some(pin) = self.pins.back_mut() {
            pin.end = self.end;
        }
    }

    fn record(&mut self, mut sent: Sent) -> u64 {
        let mss = sent.mss;
        sent.count(mss);
        let start = self.nxt;
        self.nxt += sent.span();
        self.sent.insert(start, sent);
        start
    }
}

/// Gives up room beyond `capacity`. What a buffer happens to have more depends on who still holds packets below, and where
/// elements end, with it what is sent, must depend on inputs alone: a journal replays to the same bytes.
fn trim(buffer: &mut BytesMut, capacity: usize) {
    if buffer.capacity() > capacity {
        drop(buffer.split_off(capacity));
    }
}

#[cfg(test)]
mod tests;
