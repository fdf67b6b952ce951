//! Window probes and keepalives (RFC 9293 sections 3.8.6.1 and 3.8.4; `tcp_write_wakeup`).
use super::nagle::Hold;
use crate::base::{Cx, Wait};
use crate::tcp::conn::Conn;
use crate::tcp::segment::{Outgoing, Question};
use crate::tcp::sender::Errand;
use crate::tcp::tx_queue::HeadInfo;
use lowwater_wire::tcp::TcpFlags;

impl Conn {
    /// Asks a peer whose window is closed, or pushes out what a cork held for too long; none where that finds no route.
    pub(super) fn window_probe(&mut self, cx: &mut Cx<'_>) -> Option<Outgoing> {
        if self.send_window_room() > 0
            && let Some(head) = self.tx.peek_unsent()
        {
            return self.probe_with_data(cx, &head);
        }
        cx.count.tcp_ext.tcp_win_probe += 1;
        let una = self.tx.snd_una();
        if self.snd.up.between(una + 1, una + u32::from(u16::MAX)) {
            // The pointer goes ahead of the data: one probe has it, the next asks as usual, and what becomes of that one counts.
            cx.count.tcp_ext.tcp_win_probe += 1;
            let plain = Outgoing { asks: Some(Question::Window), ..self.probe_segment(cx, false) };
            self.out.reset = Some(Box::new(plain));
            return Some(self.probe_segment(cx, true));
        }
        Some(Outgoing { asks: Some(Question::Window), ..self.probe_segment(cx, false) })
    }

    /// Some room: what fits goes, with PSH, whatever Nagle and the congestion window say. It is data, and no window probe where it finds no route
    /// either (`tcp_xmit_probe_skb` alone counts as one).
    fn probe_with_data(&mut self, cx: &mut Cx<'_>, head: &HeadInfo) -> Option<Outgoing> {
        let len = head.len.min(self.send_window_room() as usize).min(usize::from(self.mss_now()));
        self.tx.queue().unsent.mark_head_push();
        let pushed = self.tx.snd_nxt() + head.len as u32;
        if self.snd.pushed.before(pushed) {
            self.snd.pushed = pushed;
        }
        if self.out.no_path {
            self.on_no_route(cx);
            self.count_wait(cx, Wait::NoPath);
            return None;
        }
        let (burst, sml) = (self.out.burst.segs, self.snd.sml);
        let mut segment = self.commit_new(cx, len)?;
        // It is no part of a burst: it shows nothing of how the window is used, and no tail loss probe follows it. Nor does Nagle's rule
        // know it: what is written next does not wait for it (`tcp_minshall_update`).
        (self.out.burst.segs, self.snd.sml) = (burst, sml);
        if let Some(attempt) = &mut segment.attempt {
            attempt.errand = Errand::WindowProbe;
        }
        // What is in flight has timers of its own (`tcp_send_probe0`).
        self.timers.probe = None;
        self.timers.probes_out = 0;
        self.path.rtt.end_backoff();
        self.tx.queue().mark_last_sent_push();
        segment.repr.flags.insert(TcpFlags::PSH);
        Some(segment)
    }

    /// What was to leave finds no route, of which nobody below need be told: the acknowledgement that it would have borne counts as sent
    /// (`__tcp_transmit_skb`), and the timer asks again.
    pub(super) fn on_no_route(&mut self, cx: &mut Cx<'_>) {
        let _ = self.rx.select_window(cx);
        self.rx.on_ack_sent(cx);
        cx.count.no_route();
    }

    /// Asks a silent peer whether it is still there.
    pub(super) fn keepalive_probe(&mut self, cx: &mut Cx<'_>) -> Outgoing {
        cx.count.tcp_ext.tcp_keep_alive += 1;
        self.out.try_send(Hold::Push);
        Outgoing { asks: Some(Question::Life), ..self.probe_segment(cx, false) }
    }
}
