//! Tail loss probes (RFC 8985 section 7) as they leave (`tcp_send_loss_probe`).
use super::nagle::Hold;
use crate::base::Cx;
use crate::path::congestion::CaState;
use crate::tcp::PathCaps;
use crate::tcp::chrono::Held;
use crate::tcp::conn::Conn;
use crate::tcp::segment::Outgoing;
use crate::tcp::sender::Probe;

impl Conn {
    /// What a tail loss probe asks for: one segment past the congestion window (RFC 8985 section 7.3), or a packet of new data
    /// where the window has room.
    pub(super) fn tail_probe(&mut self, cx: &mut Cx<'_>, caps: &PathCaps, mss: u16) -> Option<Outgoing> {
        let (probe, amid_loss) = self.out.take_tail_probe()?;
        // It waited for its turn, and what has come meanwhile shows what is lost: nothing is probed for in recovery, where the answer would
        // be taken for that of a loss that nobody has noticed. Where a router has shown the loss, the timer ran on, and runs out as ever
        // (`tcp_simple_retransmit`, `tcp_send_loss_probe`).
        if !amid_loss && self.tx.ca_state() >= CaState::Recovery {
            return None;
        }
        self.tx.queue().unsent.forget_pushed();
        let (segment, retransmitted) = match probe {
            Probe::Resend(proposed) => {
                // What the peer's window no longer takes is not sent; then the timeout is due (`__tcp_retransmit_skb`).
                let (una, end) = (self.tx.snd_una(), self.window_end());
                let left =
                    self.host_queue_gate(cx, proposed.start).is_ok() && self.resend_path_gate().is_ok();
                let resend = left.then(|| self.tx.refit(proposed, end)).flatten();
                let resend = resend.filter(|r| r.seq == una || r.seq.before(end));
                let resend = resend.filter(|r| self.queue_takes(cx, r.len));
                let plan = resend.and_then(|r| self.tx.commit_tlp(cx, &mut self.path, &r));
                (plan.map(|plan| self.again(cx, &plan)), true)
            }
            // The acknowledgement of all may have come since, or one that shut the window. New data keeps to the pace and to small
            // queues.
            Probe::New if self.has_in_flight() && self.head_fits_window(mss) => {
                let max_segs = self.resend_segments(cx, caps, mss);
                (self.new_probe(cx, mss, max_segs), false)
            }
            Probe::New | Probe::Nothing => (None, false),
        };
        // A probe is no part of a burst: after one the RTO timer runs, not the next probe's (`tcp_write_xmit`, push_one = 2).
        let new = core::mem::take(&mut self.out.burst.segs);
        if new > 0 {
            let kept = self.keeps_window_behind(cx);
            let starved = self.tx.after_new_probe(cx, &mut self.path, kept);
            // The peer's window has let it leave (the end of `tcp_write_xmit`).
            self.rest.stats.chrono.stop(cx.now, Held::RecvWindow, self.tx.is_empty());
            self.keep_starved_time(cx, starved);
        }
        if segment.is_some() {
            self.tx.tlp_done(cx, &mut self.path, retransmitted);
        }
        segment
    }

    /// A tail loss probe of new data. Where its packet, which takes what it lacks from the next element, no longer fits the window, none
    /// leaves, and the timeout is due (`tcp_grow_skb` before `tcp_snd_wnd_test`).
    fn new_probe(&mut self, cx: &mut Cx<'_>, mss: u16, max_segs: u16) -> Option<Outgoing> {
        self.pacing_gate(cx.now).ok()?;
        let len = self.probe_len(cx, mss, max_segs);
        if !self.head_fits_window(mss) {
            self.rest.stats.chrono.start(cx.now, Held::RecvWindow);
            return None;
        }
        self.credit_gate(cx, len as u32, None).ok()?;
        self.commit_new(cx, len)
    }

    /// Bytes of new data in a tail loss probe: a packet as any other, of one segment where the congestion window is full
    /// (`tcp_write_xmit` with push_one = 2).
    fn probe_len(&mut self, cx: &Cx<'_>, mss: u16, max_segs: u16) -> usize {
        let Some(head) = self.tx.peek_unsent() else { return usize::from(mss) };
        let segs = self.cwnd_quota(cx, &head, mss).unwrap_or(1).min(max_segs).max(1);
        let head = self.grow_head(cx, head, usize::from(segs) * usize::from(mss));
        self.split_point(&head, mss, segs, self.send_window_room(), Hold::Push)
    }
}
