//! What Linux transmits from inside of a write shapes the elements of the rest (`tcp_sendmsg_locked`). Here nothing leaves before
//! the call is over, so the same bytes are only reckoned as gone.
//!
//! Each time an element is full and the call goes on, Linux pushes: everything that the windows allow when half of the peer's
//! largest window has been written since the last push, otherwise one packet if the element is the first that waits. What it
//! has sent of the tail makes room in it. The place of PSH and the cuts between packets follow from that.
use super::autosize;
use crate::base::Cx;
use crate::base::limits::GSO_MAX_SIZE;
use crate::tcp::PathCaps;
use crate::tcp::conn::Conn;

/// The device is not known before it asks: the largest that one takes.
const CAPS: PathCaps =
    PathCaps { gso_max_size: GSO_MAX_SIZE as u32, gso_max_segs: u16::MAX, fq: false, reachable: true };

impl Conn {
    /// An element is full and the call goes on. `ahead` bytes are reckoned as sent; how many are after the push that is due.
    pub(in crate::tcp) fn push_within(&mut self, cx: &Cx<'_>, ahead: u64) -> u64 {
        let unsent = self.tx.queue_ref().unsent_bytes();
        let (mss, flight) = (u64::from(self.mss()), u64::from(self.tx.in_flight()));
        let segs = (flight + ahead / mss).min(u64::from(self.path.window.cwnd));
        let quota = u64::from(self.path.window.cwnd) - segs;
        let room = u64::from(self.send_window_room()).saturating_sub(ahead);
        let open = (quota * mss).min(room / mss * mss);
        if self.push_is_forced() {
            self.mark_push();
            return (ahead + open).min(unsent);
        }
        if ahead < unsent - self.tx.queue_ref().tail_len().min(unsent) {
            return ahead;
        }
        let half = (u64::from(self.path.window.cwnd) / 2).max(1);
        let size = u64::from(autosize::segments(cx.sysctl, &self.path, &CAPS, self.mss())).min(half);
        (ahead + open.min(size * mss)).min(unsent)
    }

    /// Bytes that the tail may hold when `ahead` of all that is unsent are reckoned as sent: `goal` beside those.
    pub(in crate::tcp) fn fill_goal(&self, goal: usize, ahead: u64) -> usize {
        let queue = self.tx.queue_ref();
        let gone = (ahead + queue.tail_len()).saturating_sub(queue.unsent_bytes());
        // A tail that is gone whole is not filled any more.
        if gone > 0 && gone == queue.tail_len() { 0 } else { goal + gone as usize }
    }
}
