//! The part of the stream that waits to be sent: elements, and the buffers that they and what was sent of them pin.
use super::element::{Data, Element, Open, Taken};
use super::{flag, segs_of};
use crate::base::Pool;
use bytes::{Buf, Bytes, BytesMut};
use core::ops::Range;
use std::collections::VecDeque;

/// Smallest buffer that an element starts with.
const ELEMENT_BYTES_MIN: usize = 512;
/// `Bytes` shorter than this are copied into the tail: pinning them apart would cost more than the copy.
pub(in crate::tcp) const COPY_BELOW: usize = 4_096;
/// Charge of one element beside its buffer: its slots in two queues and the shared handle of the buffer.
const ELEMENT_CHARGE: usize = 2 * (size_of::<Element>() + size_of::<Pin>()) + 48;

/// Elements between the next offset to send and the end of what was written, and every buffer that is not acknowledged yet.
#[derive(Debug)]
pub struct Unsent {
    elements: VecDeque<Element>,
    /// In the order of the stream, those of what is in flight first.
    pins: VecDeque<Pin>,
    pinned: usize,
    nxt: u64,
    end: u64,
    /// The elements at the front that are packets already.
    pushed: Pushed,
}

/// What a write has pushed out before it went on: packets that are as good as sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Their payload.
    pub bytes: u32,
    /// Packets, an element each.
    pub packets: u16,
    /// Segments that they make, no more than can be counted here.
    pub segs: u16,
}

impl Pushed {
    /// Nothing.
    pub const NONE: Self = Self { bytes: 0, packets: 0, segs: 0 };

    /// `len` bytes at the front leave, with which the first packet ends or does not.
    fn leave(&mut self, len: usize, segs: u16, whole: bool) {
        self.packets = self.packets.saturating_sub(u16::from(whole));
        if self.packets == 0 {
            *self = Self::NONE;
            return;
        }
        self.segs = self.segs.saturating_sub(segs);
        self.bytes = self.bytes.saturating_sub(len as u32);
    }
}

impl Unsent {
    /// Nothing, at `start`.
    pub(super) const fn new(start: u64) -> Self {
        let pushed = Pushed::NONE;
        Self { elements: VecDeque::new(), pins: VecDeque::new(), pinned: 0, nxt: start, end: start, pushed }
    }

    /// Next offset to send.
    #[inline]
    #[must_use]
    pub const fn nxt(&self) -> u64 {
        self.nxt
    }

    /// End of what was queued.
    #[inline]
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// Number of elements.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Nothing waits.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Memory of all buffers and elements, in bytes.
    #[inline]
    pub(super) const fn pinned(&self) -> usize {
        self.pinned + self.pushed.packets as usize * 2 * size_of::<Element>()
    }

    /// A FIN ends what waits; `None` when nothing does.
    pub(super) fn ends_with_fin(&self) -> Option<bool> {
        self.elements.back().map(|tail| tail.flags & flag::FIN != 0)
    }

    /// Offsets queued and never sent (`tcp_notsent`), FIN included.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.end - self.nxt
    }

    /// What a write has pushed out and is still here.
    #[inline]
    #[must_use]
    pub const fn pushed(&self) -> Pushed {
        self.pushed
    }

    /// All that waits is pushed out.
    #[must_use]
    pub fn is_pushed_out(&self) -> bool {
        self.elements.len() == usize::from(self.pushed.packets)
    }

    /// What was pushed out could not leave: it waits like anything else, in the pieces that it was cut into.
    pub const fn forget_pushed(&mut self) {
        self.pushed = Pushed::NONE;
    }

    /// The first `len` bytes behind what is pushed out are a packet from now on, which nothing joins. FIN and PSH stay with the last part.
    pub fn push_out(&mut self, len: usize, segs: u16) {
        let (index, start) = (usize::from(self.pushed.packets), self.nxt + u64::from(self.pushed.bytes));
        let Some(element) = self.elements.get_mut(index) else { return };
        if len < element.len() {
            let taken = element.split_to(len);
            self.pin_taken(start, &taken);
            self.elements.insert(index, Element { data: Data::Sealed(taken.payload), flags: 0 });
        }
        self.pushed.packets += 1;
        self.pushed.segs += segs;
        self.pushed.bytes += len as u32;
    }

    /// The first element that is not pushed out ends after `len` bytes, and what is behind them is one of its own: a packet was made of them
    /// that could not leave. Data that the caller handed over whole is cut when it leaves.
    pub fn cut_head(&mut self, len: usize) {
        let index = usize::from(self.pushed.packets);
        let Some(element) = self.elements.get_mut(index).filter(|e| len > 0 && len < e.len()) else { return };
        let Data::Open(data) = &mut element.data else { return };
        let (front, shares) = data.cut(len);
        let flags = element.flags & flag::SHARED;
        element.flags |= if shares { flag::SHARED } else { 0 };
        self.elements.insert(index, Element { data: Data::Open(front), flags });
    }

    /// Bytes that [`Unsent::fill_tail`] would take.
    #[must_use]
    pub fn tail_room(&self, goal: usize) -> usize {
        match self.elements.back() {
            Some(Element { data: Data::Open(tail), flags })
                if flags & (flag::EOR | flag::FIN) == 0 && !self.is_pushed_out() =>
            {
                goal.saturating_sub(tail.len())
            }
            _ => 0,
        }
    }

    /// Copies the front of `data` into the open tail element, up to `goal` bytes in it; the number of bytes taken.
    pub fn fill_tail(&mut self, pool: &mut Pool, data: &[u8], goal: usize) -> usize {
        let data = &data[..data.len().min(self.tail_room(goal))];
        let Some(Element { data: Data::Open(tail), flags }) = self.elements.back_mut() else { return 0 };
        if tail.spare() < data.len() && *flags & flag::SHARED == 0 {
            let before = tail.capacity();
            let holds = before - tail.spare();
            let least = holds + data.len();
            tail.grow_tail((before * 2).clamp(least, least.max(goal - tail.front_len())));
            let grown = tail.capacity() - before;
            self.pinned += grown;
            if let Some(pin) = self.pins.back_mut() {
                pin.charge += grown;
            }
        }
        let (here, behind) = data.split_at(data.len().min(tail.spare()));
        tail.append(here);
        self.extend(here.len() as u64);
        here.len() + self.fill_behind(pool, behind, goal)
    }

    /// The tail's buffer is full, and its beginning in flight: `data` goes to another one, with room for as much again as waits, so that
    /// small writes do not take a buffer each. Another element would cut the stream where Linux does not.
    fn fill_behind(&mut self, pool: &mut Pool, data: &[u8], goal: usize) -> usize {
        let Some(Element { data: Data::Open(tail), flags }) = self.elements.back_mut() else { return 0 };
        if data.is_empty() || tail.front_len() > 0 {
            return 0;
        }
        let waits = tail.len();
        let capacity = data.len().max(waits).max(ELEMENT_BYTES_MIN).min(goal - waits);
        let mut buffer = pool.take(capacity);
        trim(&mut buffer, capacity);
        tail.begin_tail(buffer);
        tail.append(data);
        *flags &= !flag::SHARED;
        let charge = tail.capacity();
        self.pinned += charge;
        self.pins.push_back(Pin { end: self.end, charge, copies: 0 });
        self.extend(data.len() as u64);
        data.len()
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
        self.push_element(Data::Open(Open::new(buffer)), take, pinned);
        take
    }

    /// Queues `data` without a copy, cut into elements of `goal` bytes; short pieces are copied into the tail instead. How many
    /// bytes were copied.
    pub fn append_bytes(&mut self, pool: &mut Pool, mut data: Bytes, goal: usize) -> usize {
        let goal = goal.max(1);
        if data.len() < COPY_BELOW {
            let mut rest = &data[..];
            rest = &rest[self.fill_tail(pool, rest, goal)..];
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
        if let Some(tail) = self.elements.back_mut() {
            tail.flags |= flag::PUSH;
        }
    }

    /// PSH after the last byte of the head.
    pub fn mark_head_push(&mut self) {
        if let Some(head) = self.elements.front_mut() {
            head.flags |= flag::PUSH;
        }
    }

    /// What is added to the tail is not pushed by what pushed it before (`tcp_sendmsg_locked`, with its first byte).
    pub fn clear_push(&mut self) {
        if let Some(tail) = self.elements.back_mut() {
            tail.flags &= !flag::PUSH;
        }
    }

    /// Ends a record: nothing is appended to the tail element any more (MSG_EOR).
    pub fn mark_eor(&mut self) {
        if let Some(tail) = self.elements.back_mut() {
            tail.flags |= flag::EOR;
        }
    }

    /// Queues FIN, once, behind everything.
    pub fn queue_fin(&mut self) {
        if let Some(tail) = self.elements.back_mut() {
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
        self.info(0)
    }

    /// The same of what is not pushed out.
    #[must_use]
    pub fn head_behind(&self) -> Option<HeadInfo> {
        self.info(usize::from(self.pushed.packets))
    }

    fn info(&self, index: usize) -> Option<HeadInfo> {
        let element = self.elements.get(index)?;
        Some(HeadInfo {
            len: element.len(),
            push: element.flags & flag::PUSH != 0,
            fin: element.flags & flag::FIN != 0,
            eor: element.flags & flag::EOR != 0,
            is_last: self.elements.len() == index + 1,
        })
    }

    /// Bytes that the first element which is not pushed out takes of the next one, and of no other, to have `len` (`tcp_grow_skb`).
    pub(super) fn takes_of_next(&self, len: usize) -> usize {
        let mut heads = self.elements.iter().skip(usize::from(self.pushed.packets));
        let (Some(head), Some(next)) = (heads.next(), heads.next()) else { return 0 };
        match (&head.data, &next.data) {
            (Data::Open(own), Data::Open(next)) if head.flags & flag::EOR == 0 => {
                len.saturating_sub(own.len()).min(next.len())
            }
            _ => 0,
        }
    }

    /// What it takes is copied with what it has, since its buffer has no room left.
    pub(super) fn copies_to_grow(&self, len: usize) -> bool {
        match self.elements.get(usize::from(self.pushed.packets)).map(|head| &head.data) {
            Some(Data::Open(head)) => head.spare() < self.takes_of_next(len),
            _ => false,
        }
    }

    /// Fills the first element that is not pushed out up to `len` bytes from the next one, so that a packet need not end where an element
    /// does (`tcp_grow_skb`). Where its buffer has no room left, what it has is copied to one with room for `spare` bytes more of the next.
    /// True where the next one is all taken, and gone.
    pub(super) fn grow_head(&mut self, len: usize, spare: usize) -> bool {
        let (index, start) = (usize::from(self.pushed.packets), self.nxt + u64::from(self.pushed.bytes));
        let take = self.takes_of_next(len);
        if take == 0 {
            return false;
        }
        let mut heads = self.elements.iter_mut().skip(index);
        let (Some(head), Some(next)) = (heads.next(), heads.next()) else { return false };
        let (Data::Open(to), Data::Open(from)) = (&mut head.data, &mut next.data) else { return false };
        let end = start + to.len() as u64;
        let (before, shared, seam) = (to.capacity(), head.flags & flag::SHARED != 0, to.front_len());
        if to.spare() < take {
            // Growing in place would take as much as the whole element once had.
            to.gather(take + spare.min(from.len() - take));
            head.flags &= !flag::SHARED;
        }
        from.give(to, take);
        let left = shared && head.flags & flag::SHARED == 0;
        let gathered = seam > 0 && to.front_len() == 0;
        let grown = Grown { head: start..end, take: take as u64, before, moved: to.capacity(), left };
        let emptied = from.is_empty().then_some(next.flags);
        if let Some(flags) = emptied {
            head.flags |= flags & (flag::PUSH | flag::EOR | flag::FIN);
            self.elements.remove(index + 1);
        }
        if gathered {
            self.leave_buffer(start + seam as u64, start);
        }
        let next = emptied.map_or(Next::Partly, |flags| Next::Whole { shared: flags & flag::SHARED != 0 });
        if let Some(own) = self.pin_grown(&grown) {
            self.join_pins(own, next);
        }
        debug_assert!(self.pins.iter().is_sorted_by_key(|pin| pin.end), "{:?}", self.pins);
        emptied.is_some()
    }

    /// Charges for the buffer of a head that has grown; the index of its pin.
    fn pin_grown(&mut self, grown: &Grown) -> Option<usize> {
        let Grown { take, before, moved, left, .. } = *grown;
        let (start, end) = (grown.head.start, grown.head.end);
        let at = self.pins.partition_point(|pin| pin.end < end);
        let pin = self.pins.get_mut(at)?;
        if pin.end > end && moved > before {
            // What was cut off behind it still holds the old buffer.
            self.pinned += moved;
            let span = (end + take - start) as u32;
            self.pins.insert(at, Pin { end: end + take, charge: moved, copies: span });
            return Some(at);
        }
        if left {
            // The old buffer is held by what was sent of it.
            pin.end = start;
            self.pinned += moved;
            self.pins.insert(at + 1, Pin { end: end + take, charge: moved, copies: 0 });
            return Some(at + 1);
        }
        pin.end += take;
        if pin.copies > 0 {
            pin.copies += take as u32;
        }
        let more = moved.saturating_sub(before);
        pin.charge += more;
        self.pinned += more;
        Some(at)
    }

    /// The next element, or the front of it, has gone into the head whose pin is `own`: what its buffers were charged goes with it, or
    /// stays for as long as the head does where what was sent or cut off may hold them. Where both ends are the same, the head's pin is
    /// the first of the two.
    fn join_pins(&mut self, own: usize, next: Next) {
        let end = self.pins[own].end;
        let passed = |pin: &Pin| pin.end < end || (pin.end == end && next != Next::Partly);
        while self.pins.get(own + 1).is_some_and(passed) {
            let Some(pin) = self.pins.remove(own + 1) else { return };
            if pin.end < end || next == (Next::Whole { shared: true }) {
                self.pins[own].charge += pin.charge;
            } else {
                self.pinned -= pin.charge;
            }
        }
    }

    /// What was taken at `start` is a copy where it reaches over the seam of two buffers.
    fn pin_taken(&mut self, start: u64, taken: &Taken) {
        let Some(seam) = &taken.seam else { return };
        self.leave_buffer(start + seam.front as u64, start);
        let (charge, end) = (taken.payload.len(), start + taken.payload.len() as u64);
        self.pinned += charge;
        let at = self.pins.partition_point(|pin| pin.end < end);
        match self.pins.get_mut(at) {
            Some(pin) if pin.end == end && seam.freed > 0 => {
                pin.charge = pin.charge + charge - seam.freed;
                self.pinned -= seam.freed;
            }
            _ => self.pins.insert(at, Pin { end, charge, copies: 0 }),
        }
        debug_assert!(self.pins.iter().is_sorted_by_key(|pin| pin.end), "{:?}", self.pins);
    }

    /// The buffer that reached to `end` is held by what was sent before `start` alone, and not by what was copied out of it there.
    fn leave_buffer(&mut self, end: u64, start: u64) {
        let at = self.pins.partition_point(|pin| pin.end < end);
        let Some(mut pin) = self.pins.get(at).copied().filter(|pin| pin.end == end) else { return };
        let (mut place, mut held) = (at, start);
        while let Some(copy) = place.checked_sub(1).and_then(|before| self.pins.get(before))
            && copy.end == held
            && copy.copies > 0
        {
            (place, held) = (place - 1, held - u64::from(copy.copies));
        }
        pin.end = held;
        self.pins.remove(at);
        self.pins.insert(place, pin);
    }

    /// Payload bytes of the last unsent element, and whether nothing may be added to it any more.
    #[must_use]
    pub fn tail(&self) -> Option<(usize, bool)> {
        self.elements.back().map(|tail| (tail.len(), tail.flags & (flag::EOR | flag::FIN) != 0))
    }

    /// Where the element begins and ends that holds what is at `place`. Looks at every element before it.
    #[must_use]
    pub fn piece(&self, place: u64) -> Option<(u64, u64)> {
        let mut start = self.nxt;
        for element in self.elements.iter().take_while(|_| place >= self.nxt) {
            let end = start + element.len() as u64;
            if place < end {
                return Some((start, end));
            }
            start = end;
        }
        None
    }

    /// True when the first `len` unsent bytes may share a segment: no record of the application ends within them.
    #[must_use]
    pub fn may_gather(&self, len: usize) -> bool {
        let mut left = len;
        for element in &self.elements {
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

    /// Takes `len` bytes of the head element, all of it when `len` is larger; with the flags that go along. FIN and PSH stay with
    /// the last part. The offsets move with [`Unsent::sent`].
    pub(super) fn take_head(&mut self, len: usize, mss: u16) -> Option<(Bytes, u16)> {
        let head = self.elements.front_mut()?;
        let (len, whole) = (len.min(head.len()), len >= head.len());
        self.pushed.leave(len, segs_of(len, mss), whole);
        if !whole {
            let taken = head.split_to(len);
            self.pin_taken(self.nxt, &taken);
            return Some((taken.payload, 0));
        }
        let Element { data, flags } = self.elements.pop_front()?;
        let taken = data.into_taken();
        self.pin_taken(self.nxt, &taken);
        Some((taken.payload, flags & (flag::PUSH | flag::FIN | flag::EOR)))
    }

    /// Takes the first `len` bytes, copied together where they are apart; with the flags that go along, and how many of them came from an
    /// element of which a rest waits.
    pub(super) fn gather(&mut self, len: usize) -> Option<(Bytes, u16, usize)> {
        self.forget_pushed();
        if self.elements.front()?.len() > len {
            return self.take_head(len, u16::MAX).map(|(payload, flags)| (payload, flags, len));
        }
        if self.bytes() < len as u64 {
            return None;
        }
        let (mut whole, mut flags, mut trimmed) = (BytesMut::with_capacity(len), 0, 0);
        while whole.len() < len {
            let head = self.elements.front_mut()?;
            let part = (len - whole.len()).min(head.len());
            head.move_to(&mut whole, part);
            if head.len() == 0 {
                flags |= head.flags & (flag::PUSH | flag::EOR | flag::FIN);
                self.elements.pop_front();
            } else {
                trimmed = part;
            }
        }
        // The copy stays as long as the buffer that holds its end.
        let end = self.nxt + len as u64;
        let at = self.pins.partition_point(|pin| pin.end < end);
        if let Some(pin) = self.pins.get_mut(at) {
            pin.charge += whole.capacity();
            self.pinned += whole.capacity();
        }
        Some((whole.freeze(), flags, trimmed))
    }

    /// What was taken last did not leave: it begins at `start` again, as an element of its own.
    pub(super) fn put_back(&mut self, start: u64, payload: Bytes, flags: u16) {
        self.forget_pushed();
        self.nxt = start;
        self.elements.push_front(Element { data: Data::Sealed(payload), flags });
    }

    /// What was taken begins at the next offset and spans so many: where that is.
    #[inline]
    pub(super) const fn sent(&mut self, span: u64) -> u64 {
        let start = self.nxt;
        self.nxt += span;
        start
    }

    /// One offset that no element has: a SYN.
    pub(super) const fn skip_one(&mut self) {
        self.end += 1;
    }

    /// Everything before `una` is acknowledged: gives buffers free.
    pub(super) fn release(&mut self, una: u64) {
        while let Some(pin) = self.pins.front()
            && pin.end <= una
        {
            self.pinned -= pin.charge;
            self.pins.pop_front();
        }
    }

    /// Nothing waits, and will not for a while.
    pub(super) fn rest(&mut self) {
        debug_assert!(self.pinned == 0, "{} bytes of {:?}", self.pinned, self.pins);
        (self.elements, self.pins, self.pinned) = (VecDeque::new(), VecDeque::new(), 0);
    }

    /// Throws away what waits; what was written stays counted (`tcp_write_queue_purge` leaves `write_seq`).
    pub(super) fn clear(&mut self) {
        *self = Self { end: self.end, ..Self::new(self.nxt) };
    }

    fn push_element(&mut self, data: Data, len: usize, pinned: usize) {
        self.elements.push_back(Element { data, flags: 0 });
        let charge = pinned + ELEMENT_CHARGE;
        self.pinned += charge;
        self.pins.push_back(Pin { end: self.end, charge, copies: 0 });
        self.extend(len as u64);
    }

    /// The stream, and with it the last buffer's reach, grew by `len`.
    fn extend(&mut self, len: u64) {
        self.end += len;
        if let Some(pin) = self.pins.back_mut() {
            pin.end = self.end;
        }
    }
}

/// How the head's buffer has changed.
struct Grown {
    /// Where the head's bytes were.
    head: Range<u64>,
    /// Bytes that it took from the next element.
    take: u64,
    /// Capacity of its buffer before and after.
    before: usize,
    moved: usize,
    /// What was sent still holds the buffer that it had.
    left: bool,
}

/// How much of the next element has gone into the head.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Its front.
    Partly,
    /// All of it. What was sent or cut off may hold its buffer where that is shared.
    Whole { shared: bool },
}

/// A buffer that stays allocated until everything before `end` is acknowledged.
#[derive(Clone, Copy, Debug)]
struct Pin {
    end: u64,
    charge: usize,
    /// So many bytes before `end` have moved to it out of the buffer of what is behind them; 0 of any other.
    copies: u32,
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

/// Gives up room beyond `capacity`. What a buffer happens to have more depends on who still holds packets below, and where
/// elements end, with it what is sent, must depend on inputs alone: a journal replays to the same bytes.
fn trim(buffer: &mut BytesMut, capacity: usize) {
    if buffer.capacity() > capacity {
        drop(buffer.split_off(capacity));
    }
}
