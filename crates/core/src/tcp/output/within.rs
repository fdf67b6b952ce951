//! What Linux transmits from inside of a write shapes the elements of the rest (`tcp_sendmsg_locked`). Here nothing leaves before
//! the call is over, so the same bytes are only reckoned as gone.
//!
//! Each time an element is full and the call goes on, Linux pushes: everything that the windows allow when half of the peer's
//! largest window has been written since the last push, otherwise one packet if the element is the first that waits. What it
//! has sent of the tail makes room in it. The place of PSH and the cuts between packets follow from that.
use super::autosize;
use crate::base::{Cx, Duration};
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
        let ahead = before.bytes;
        let unsent = self.tx.queue_ref().unsent_bytes();
        let (mss, flight) = (u64::from(self.mss()), u64::from(self.tx.in_flight()));
        let segs = (flight + ahead / mss).min(u64::from(self.path.window.cwnd));
        let quota = u64::from(self.path.window.cwnd) - segs;
        let room = u64::from(self.send_window_room()).saturating_sub(ahead);
        let half = (u64::from(self.path.window.cwnd) / 2).max(1);
        let caps = PathCaps {
            gso_max_size: u32::from(self.snd.gso.max_bytes) + autosize::HEADER_ROOM,
            gso_max_segs: self.snd.gso.max_segs,
            fq: false,
            lateness: Duration::ZERO,
            backlog: false,
            reachable: true,
        };
        let size = u64::from(autosize::segments(cx.sysctl, &self.path, &caps, self.mss())).min(half) * mss;
        // A packet goes when its first segment fits, and then up to the edge of the window.
        let edge = room % size.max(1);
        let open = (quota * mss).min(room - if edge < mss { edge } else { 0 });
        if self.push_is_forced() {
            self.mark_push();
            return before.grow((ahead + open).min(unsent), size);
        }
        if ahead < unsent - self.tx.queue_ref().unsent.tail_len().min(unsent) {
            return before;
        }
        let after = before.grow((ahead + open.min(size)).min(unsent), size);
        self.snd.pushed_one = self.tx.snd_nxt() + after.bytes as u32;
        after
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
