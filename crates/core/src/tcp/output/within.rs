//! What Linux transmits from inside of a write shapes the elements of the rest (`tcp_sendmsg_locked`). Here nothing leaves before
//! the call is over, so the same bytes are reckoned as gone, and the push is noted: it leaves first, as if nothing had been written
//! after it (`any_new_data`).
//!
//! Each time an element is full and the call goes on, Linux pushes: everything that the windows allow when half of the peer's
//! largest window has been written since the last push, otherwise one packet if the element is the first that waits. What it
//! has sent of the tail makes room in it. The place of PSH and the cuts between packets follow from that, and what the low-water
//! mark lets a write take in: what the pace or small queues would hold back is not gone.
use super::nagle::Hold;
use super::{autosize, defer};
use crate::base::limits::PUSHES_MAX;
use crate::base::{Cx, Duration};
use crate::credit::PACKET_CHARGE;
use crate::tcp::PathCaps;
use crate::tcp::conn::Conn;
use crate::tcp::lowat::Level;
use crate::tcp::tx_queue::{BUFFER_CHARGE, HeadInfo, TxQueue, Unsent, segs_of};
use std::collections::VecDeque;

/// A push from inside of a write: what had been written by then goes before anything that came later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tcp) struct Push {
    /// Where the stream ended at that moment.
    pub(super) end: u64,
    /// Everything that the windows take goes, otherwise a single packet.
    pub(super) all: bool,
}

/// Pushes that have something to send, in order; beyond a bound they fall together with what follows.
#[derive(Clone, Debug, Default)]
pub(in crate::tcp) struct Pushes(Option<Box<VecDeque<Push>>>);

impl Pushes {
    fn note(&mut self, push: Push) {
        let due = self.0.get_or_insert_default();
        if due.len() < PUSHES_MAX {
            due.push_back(push);
        }
    }

    /// The first one that is not sent whole, where `nxt` is next.
    pub(super) fn due(&mut self, nxt: u64) -> Option<Push> {
        let due = self.0.as_mut()?;
        while let Some(push) = due.front() {
            if push.end > nxt {
                return Some(*push);
            }
            due.pop_front();
        }
        self.0 = None;
        None
    }

    /// The first one has done what it could.
    pub(super) fn end(&mut self) {
        if let Some(due) = &mut self.0 {
            due.pop_front();
        }
    }
}

/// What is reckoned as sent.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct Ahead {
    /// Bytes from the front of what is unsent.
    pub(in crate::tcp) bytes: u64,
    /// Segments that they made.
    pub(super) segs: u32,
    /// Packets that these went in.
    packets: u64,
    /// The element that the next one begins in.
    element: usize,
    /// Bytes of that element that are gone.
    gone: usize,
}

impl Ahead {
    /// Nothing is left.
    pub(in crate::tcp) fn is_all(&self, queue: &TxQueue) -> bool {
        self.bytes == queue.unsent_bytes()
    }

    /// The head of the queue once this much is sent.
    fn head(&mut self, unsent: &Unsent) -> Option<HeadInfo> {
        let head = unsent.head_at(self.element, self.gone)?;
        if head.len > 0 {
            return Some(head);
        }
        (self.element, self.gone) = (self.element + 1, 0);
        unsent.head_at(self.element, 0)
    }

    /// Another packet of `len` bytes goes.
    fn add(&mut self, unsent: &Unsent, len: usize, mss: u16) {
        self.bytes += len as u64;
        self.segs += u32::from(segs_of(len, mss));
        self.packets += 1;
        self.gone += len;
        while let Some(head) = unsent.head_at(self.element, 0)
            && head.len <= self.gone
            && !head.is_last
        {
            (self.element, self.gone) = (self.element + 1, self.gone - head.len);
        }
    }

    const fn charge(&self) -> u64 {
        self.bytes + self.packets * PACKET_CHARGE as u64
    }
}

impl Conn {
    /// An element is full and the call goes on: what is reckoned as sent after the push that is due, which is noted for the sending.
    pub(in crate::tcp) fn push_within(&mut self, cx: &Cx<'_>, before: Ahead) -> Ahead {
        let all = self.push_is_forced();
        if all {
            self.mark_push();
        }
        let mut ahead = before;
        let Some(head) = ahead.head(&self.tx.queue_ref().unsent) else { return ahead };
        if !all && !head.is_last {
            return ahead;
        }
        let mss = self.mss_now();
        let max_segs = if self.urgent_mode() { 1 } else { self.max_segs_within(cx, mss) };
        while let Some(len) = self.packet_within(cx, &mut ahead, mss, max_segs, all) {
            ahead.add(&self.tx.queue_ref().unsent, len, mss);
            if !all {
                break;
            }
        }
        if ahead.packets > before.packets {
            let end = self.tx.queue_ref().write_seq();
            self.snd.pushes.note(Push { end, all });
        }
        ahead
    }

    /// Bytes of the packet that goes next after those, if one does: what [`Conn::output`] would ask, in its order.
    fn packet_within(
        &mut self,
        cx: &Cx<'_>,
        ahead: &mut Ahead,
        mss: u16,
        max_segs: u16,
        all: bool,
    ) -> Option<usize> {
        let mut head = ahead.head(&self.tx.queue_ref().unsent)?;
        if !self.path.pacing.lets_go_after(cx.now, ahead.segs) {
            return None;
        }
        let quota = self.cwnd_quota(cx, &head, mss, ahead.segs).ok()?.min(max_segs).max(1);
        let goal = usize::from(quota) * usize::from(mss);
        let grows = !head.is_last && head.len < goal && cx.sysctl.tcp_grow_packet;
        if grows && self.tx.queue_ref().affords_copy(goal) {
            // Also where nothing leaves then: elements become fewer, and the buffer takes in more.
            let start = self.tx.queue_ref().nxt() + ahead.bytes - ahead.gone as u64;
            self.tx.queue().unsent.grow(ahead.element, start, ahead.gone + goal);
            head = ahead.head(&self.tx.queue_ref().unsent)?;
        }
        let room = self.send_window_room().saturating_sub(u32::try_from(ahead.bytes).unwrap_or(u32::MAX));
        if head.first_segment_span(mss) > room {
            return None;
        }
        let long = all && head.len > usize::from(mss);
        if long && defer::check(&self.defer_facts(cx, &head, mss, max_segs, ahead)).is_some() {
            return None;
        }
        let len = self.split_point(&head, mss, quota, room, Hold::Push);
        let ask = self.credit_ask(cx, len as u32 + PACKET_CHARGE, false);
        self.out.credit.lets_go_after(&ask, ahead.charge()).then_some(len)
    }

    /// Segments of the largest packet, as far as is known between two turns.
    fn max_segs_within(&self, cx: &Cx<'_>, mss: u16) -> u16 {
        let caps = PathCaps {
            gso_max_size: u32::from(self.snd.gso.max_bytes) + autosize::HEADER_ROOM,
            gso_max_segs: self.snd.gso.max_segs,
            fq: false,
            lateness: Duration::ZERO,
            backlog: false,
            reachable: true,
        };
        autosize::segments(cx.sysctl, &self.path, &caps, mss)
    }

    /// Segments of the next packet.
    fn segs_within(&self, cx: &Cx<'_>) -> u64 {
        let half = (u64::from(self.path.window.cwnd) / 2).max(1);
        u64::from(self.max_segs_within(cx, self.mss())).min(half)
    }

    /// The packet that would go now takes what the congestion window has left; false where none can go.
    pub(in crate::tcp) fn next_packet_fills_window(&self, cx: &Cx<'_>) -> bool {
        let room = self.path.window.cwnd.saturating_sub(self.tx.in_flight());
        if room == 0 || !self.head_fits_window(self.mss()) {
            return room == 0;
        }
        let (mss, segs) = (u64::from(self.mss()), self.segs_within(cx));
        if self.packets_now(cx, segs as u16, (segs * mss) as u32) == 0 {
            return false;
        }
        segs.min(self.tx.queue_ref().unsent_bytes().div_ceil(mss)) >= u64::from(room)
    }

    /// Packets of so many segments that the pace and small queues would let go now.
    fn packets_now(&self, cx: &Cx<'_>, segs: u16, size: u32) -> u64 {
        let paced = self.path.pacing.packets_now(cx.now, segs);
        paced.min(self.out.credit.packets_now(&self.credit_ask(cx, size + PACKET_CHARGE, false)))
    }

    /// The send queue as the writability rule would see it after that.
    pub(in crate::tcp) fn level_within(&self, cx: &Cx<'_>, ahead: Ahead) -> Level {
        let mut level = self.level(cx);
        level.unsent = level.unsent.saturating_sub(ahead.bytes);
        // Each packet is an element of its own, and so is what is left of the last one.
        let elements = ahead.packets + u64::from(ahead.gone > 0 && !ahead.is_all(self.tx.queue_ref()));
        let before = ahead.element as u64 + u64::from(ahead.gone > 0);
        level.queued_charge = (level.queued_charge + elements * BUFFER_CHARGE as u64)
            .saturating_sub(before * BUFFER_CHARGE as u64);
        level
    }

    /// Bytes that the tail may hold when so much of all that is unsent is reckoned as sent: `goal` beside those.
    pub(in crate::tcp) fn fill_goal(&self, goal: usize, ahead: Ahead) -> usize {
        let queue = self.tx.queue_ref();
        let gone = (ahead.bytes + queue.unsent.tail_len()).saturating_sub(queue.unsent_bytes());
        // A tail that is gone whole is not filled any more.
        if gone > 0 && gone == queue.unsent.tail_len() { 0 } else { goal + gone as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_are_bounded_and_forgotten_once_sent() {
        let mut pushes = Pushes::default();
        for end in 1..=2 * PUSHES_MAX as u64 {
            pushes.note(Push { end: 10 * end, all: false });
        }
        assert_eq!(pushes.due(0).map(|push| push.end), Some(10));
        assert_eq!(pushes.due(15).map(|push| push.end), Some(20));
        pushes.end();
        assert_eq!(pushes.due(15).map(|push| push.end), Some(30));
        assert_eq!(pushes.due(10 * PUSHES_MAX as u64), None, "no more than the bound");
        assert!(pushes.0.is_none(), "nothing is kept when idle");
    }
}
