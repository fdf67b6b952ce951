//! What Linux transmits from inside of a write shapes the elements of the rest (`tcp_sendmsg_locked`). Here nothing leaves before
//! the call is over, so the same bytes are only reckoned as gone.
//!
//! Each time an element is full and the call goes on, Linux pushes: everything that the windows allow when half of the peer's
//! largest window has been written since the last push, otherwise one packet if the element is the first that waits. What it
//! has sent of the tail makes room in it. The place of PSH and the cuts between packets follow from that, and what the low-water
//! mark lets a write take in: what the pace or small queues would hold back is not gone.
use super::autosize;
use crate::base::{Cx, Duration};
use crate::credit::PACKET_CHARGE;
use crate::tcp::PathCaps;
use crate::tcp::conn::Conn;
use crate::tcp::lowat::Level;
use crate::tcp::tx_queue::BUFFER_CHARGE;

/// What is reckoned as sent.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct Ahead {
    /// Bytes from the front of what is unsent.
    pub(in crate::tcp) bytes: u64,
    /// Packets that they went in.
    packets: u64,
}

impl Ahead {
    /// `bytes` are gone altogether, those since the last time in packets of at most `size`.
    const fn grow(self, bytes: u64, size: u64) -> Self {
        let packets =
            self.packets + bytes.saturating_sub(self.bytes).div_ceil(if size == 0 { 1 } else { size });
        Self { bytes, packets }
    }
}

impl Conn {
    /// An element is full and the call goes on: what is reckoned as sent after the push that is due.
    pub(in crate::tcp) fn push_within(&mut self, cx: &Cx<'_>, before: Ahead) -> Ahead {
        let after = self.push_ahead(cx, before);
        if after.bytes == self.tx.queue_ref().unsent_bytes() {
            self.snd.gone = self.tx.snd_nxt() + after.bytes as u32;
        }
        after
    }

    fn push_ahead(&mut self, cx: &Cx<'_>, before: Ahead) -> Ahead {
        let ahead = before.bytes;
        let unsent = self.tx.queue_ref().unsent_bytes();
        let (mss, flight) = (u64::from(self.mss_now()), u64::from(self.tx.in_flight()));
        let segs = (flight + ahead / mss).min(u64::from(self.path.window.cwnd));
        let quota = u64::from(self.path.window.cwnd) - segs;
        let room = u64::from(self.send_window_room()).saturating_sub(ahead);
        let segs = self.segs_within(cx);
        let size = segs * mss;
        // A packet goes when its first segment fits, and then up to the edge of the window.
        let edge = room % size.max(1);
        let open = (quota * mss).min(room - if edge < mss { edge } else { 0 });
        let packets = self.packets_now(cx, segs as u16, size as u32).saturating_sub(before.packets);
        let open = open.min(packets.saturating_mul(size));
        if self.push_is_forced() {
            self.mark_push();
            let after = before.grow((ahead + open).min(unsent), size);
            let left = quota.saturating_sub(open.div_ceil(mss)).min(segs);
            if cx.sysctl.tcp_grow_packet && after.bytes < unsent && left > 0 {
                // What waits for the window takes what its packet lacks all the same, which makes room in the tail (`tcp_grow_skb`).
                let len = (left * mss) as usize;
                if self.tx.queue_ref().affords_copy(len) {
                    self.tx.queue().unsent.grow_behind(after.bytes, len);
                }
            }
            return after;
        }
        if ahead < unsent - self.tx.queue_ref().unsent.tail_len().min(unsent) {
            return before;
        }
        let after = before.grow((ahead + open.min(size)).min(unsent), size);
        self.snd.pushed_one = self.tx.snd_nxt() + after.bytes as u32;
        after
    }

    /// Segments of the next packet, as far as is known between two turns.
    fn segs_within(&self, cx: &Cx<'_>) -> u64 {
        let half = (u64::from(self.path.window.cwnd) / 2).max(1);
        let caps = PathCaps {
            gso_max_size: u32::from(self.snd.gso.max_bytes) + autosize::HEADER_ROOM,
            gso_max_segs: self.snd.gso.max_segs,
            fq: false,
            lateness: Duration::ZERO,
            backlog: false,
            reachable: true,
        };
        u64::from(autosize::segments(cx.sysctl, &self.path, &caps, self.mss_now())).min(half)
    }

    /// The packet that would go now takes what the congestion window has left; false where none can go.
    pub(in crate::tcp) fn next_packet_fills_window(&self, cx: &Cx<'_>) -> bool {
        let room = self.path.window.cwnd.saturating_sub(self.tx.in_flight());
        if room == 0 || !self.head_fits_window(self.mss_now()) {
            return room == 0;
        }
        let (mss, segs) = (u64::from(self.mss_now()), self.segs_within(cx));
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
        let cut = ahead.packets.saturating_sub(self.tx.queue_ref().unsent.elements_within(ahead.bytes));
        level.queued_charge += cut * BUFFER_CHARGE as u64;
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
