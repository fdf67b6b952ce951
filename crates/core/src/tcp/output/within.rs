//! What Linux transmits from inside of a write (`tcp_sendmsg_locked`): packets that know nothing of what is written after them.
//!
//! Each time an element is full and the call goes on, Linux pushes: everything that the windows allow when half of the peer's
//! largest window has been written since the last push, otherwise one packet if the element is the first that waits. Here nothing
//! leaves before the call is over: the packets are cut at that moment and leave first (`Conn::pushed_data`). The place of PSH and the
//! cuts between packets follow from that, and what the low-water mark lets a write take in: what the pace or small queues would hold
//! back is not pushed out.
use super::defer;
use super::nagle::Hold;
use crate::base::{Cx, Duration};
use crate::credit::{Ask, PACKET_CHARGE};
use crate::tcp::PathCaps;
use crate::tcp::conn::Conn;
use crate::tcp::lowat::Level;
use crate::tcp::tx_queue::segs_of;

impl Conn {
    /// An element is full and the call goes on: the push that is due.
    pub(in crate::tcp) fn push_within(&mut self, cx: &mut Cx<'_>) {
        if self.push_is_forced() {
            self.mark_push();
            self.push_all_within(cx);
        } else if self.tx.queue_ref().unsent.head_behind().is_some_and(|head| head.is_last) {
            self.push_out_within(cx, false);
        }
    }

    /// Everything that the windows allow (`__tcp_push_pending_frames`).
    pub(in crate::tcp) fn push_all_within(&mut self, cx: &mut Cx<'_>) {
        self.push_out_within(cx, true);
    }

    fn push_out_within(&mut self, cx: &mut Cx<'_>, all: bool) {
        let mss = self.mss_now();
        let max_segs = self.max_segs_within(cx, mss);
        let before = self.tx.queue_ref().unsent.pushed().segs;
        while let Some(len) = self.packet_within(cx, mss, max_segs, all) {
            self.tx.queue().unsent.push_out(len, segs_of(len, mss));
            if !all {
                break;
            }
        }
        if self.tx.queue_ref().unsent.pushed().segs > before {
            // A push that does not fill the window shows that it is not needed (`tcp_cwnd_validate`), though the next one may fill it.
            let kept = self.keeps_window();
            self.tx.after_push_within(cx, &mut self.path, kept);
        }
    }

    /// Bytes of the packet that goes next, if one does: what [`Conn::output`] would ask after those that are pushed out, in its order.
    fn packet_within(&mut self, cx: &Cx<'_>, mss: u16, max_segs: u16, all: bool) -> Option<usize> {
        let ahead = self.tx.queue_ref().unsent.pushed();
        let head = self.tx.queue_ref().unsent.head_behind()?;
        if !self.path.pacing.lets_go_after(cx.now, ahead.segs.into()) {
            return None;
        }
        let quota = self.cwnd_quota(cx, &head, mss).ok()?.min(max_segs).min(u16::MAX - ahead.segs);
        if quota == 0 {
            return None;
        }
        // Also where nothing leaves then: elements become fewer, and the buffer takes in more.
        let head = self.grow_head(cx, head, usize::from(quota) * usize::from(mss));
        let room = self.send_window_room();
        if head.first_segment_span(mss) > room {
            return None;
        }
        let long = all && head.len > usize::from(mss);
        if long && defer::check(&self.defer_facts(cx, &head, max_segs, room)).is_some() {
            return None;
        }
        let len = self.packet_len(&head, mss, quota, room, Hold::Push);
        let charge = u64::from(ahead.bytes) + u64::from(ahead.packets) * u64::from(PACKET_CHARGE);
        let single = self.tx.queue_ref().records() + usize::from(ahead.packets) <= 1;
        let ask = Ask { rtx_single: single, ..self.credit_ask(cx, len as u32, None) };
        if self.out.credit.lets_go_after(&ask, charge) {
            return Some(len);
        }
        self.cut_held(cx, len);
        None
    }

    /// Small queues hold back a packet of `len` bytes: Linux has cut it before it asks them (`tso_fragment`), and what was behind it is the
    /// tail now, which takes more without a question for room. Since 6.10 the packet grows again, so that the cut does not last.
    pub(super) fn cut_held(&mut self, cx: &Cx<'_>, len: usize) {
        if !cx.sysctl.tcp_grow_packet {
            self.tx.queue().unsent.cut_head(len);
        }
    }

    /// The send queue as the writability rule sees it while a write goes on: what it has pushed out is sent.
    pub(in crate::tcp) fn level_within(&self, cx: &Cx<'_>) -> Level {
        let level = self.level(cx);
        let pushed = self.tx.queue_ref().unsent.pushed().bytes;
        Level { unsent: level.unsent.saturating_sub(pushed.into()), ..level }
    }

    /// Segments of the largest packet, as far as is known between two turns.
    pub(super) fn max_segs_within(&mut self, cx: &Cx<'_>, mss: u16) -> u16 {
        let caps = PathCaps {
            gso_max_size: self.snd.gso.max_size(),
            gso_max_segs: self.snd.gso.max_segs,
            fq: false,
            lateness: Duration::ZERO,
            backlog: false,
            reachable: true,
        };
        self.packet_segments(cx, &caps, mss)
    }

    /// The packet that would go now takes what the congestion window, and what goes again, have left, or that is nothing; false where something
    /// else keeps it.
    pub(in crate::tcp) fn next_packet_fills_window(&mut self, cx: &Cx<'_>) -> bool {
        let flight = self.tx.flight();
        // What is lost goes again before it (`tcp_xmit_recovery`).
        let again = flight.lost_out.saturating_sub(flight.retrans_out);
        let again = if self.path.pacing.lets_go_after(cx.now, 0) { again } else { 0 };
        let room = self.path.window.cwnd.saturating_sub(flight.in_flight() + again);
        let mss = self.mss_now();
        if room == 0 || !self.head_fits_window(mss) {
            return room == 0;
        }
        let half = (self.path.window.cwnd / 2).max(1);
        let segs = if self.urgent_mode() { 1 } else { u32::from(self.max_segs_within(cx, mss)).min(half) };
        let ask = self.credit_ask(cx, segs * u32::from(mss), None);
        if !self.path.pacing.lets_go_after(cx.now, 0) || !self.out.credit.lets_go_after(&ask, 0) {
            return false;
        }
        let queue = self.tx.queue_ref();
        let most = if cx.sysctl.tcp_grow_packet { segs as usize * usize::from(mss) } else { 0 };
        let len = queue.head_grown(most);
        segs.min(len.div_ceil(usize::from(mss)) as u32) >= room
    }
}
