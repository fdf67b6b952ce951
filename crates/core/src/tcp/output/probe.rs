//! Window probes and keepalives (RFC 9293 sections 3.8.6.1 and 3.8.4; `tcp_write_wakeup`).
use super::nagle::Hold;
use crate::base::Cx;
use crate::tcp::conn::Conn;
use crate::tcp::segment::{Outgoing, Question};
use crate::tcp::sender::Errand;
use lowwater_wire::tcp::TcpFlags;

impl Conn {
    /// Asks a peer whose window is closed, or pushes out what a cork held for too long.
    pub(super) fn window_probe(&mut self, cx: &mut Cx<'_>) -> Outgoing {
        let mss = self.mss_now();
        let room = self.send_window_room();
        let head = self.tx.peek_unsent().filter(|_| room > 0);
        if let Some(head) = head
            && !self.out.no_path
        {
            // Some room: send what fits, with PSH, whatever Nagle and the congestion window say.
            let len = head.len.min(room as usize).min(usize::from(mss));
            self.tx.queue().unsent.mark_head_push();
            let pushed = self.tx.snd_nxt() + head.len as u32;
            if self.snd.pushed.before(pushed) {
                self.snd.pushed = pushed;
            }
            let (burst, sml) = (self.out.burst.segs, self.snd.sml);
            if let Some(mut segment) = self.commit_new(cx, len) {
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
                return segment;
            }
        }
        // What found no route was to be data (`tcp_xmit_probe_skb` alone counts).
        cx.count.tcp_ext.tcp_win_probe += u64::from(head.is_none());
        let una = self.tx.snd_una();
        if self.snd.up.between(una + 1, una + u32::from(u16::MAX)) {
            // The pointer goes ahead of the data: one probe has it, the next asks as usual, and what becomes of that one counts.
            cx.count.tcp_ext.tcp_win_probe += 1;
            let plain = Outgoing { asks: Some(Question::Window), ..self.probe_segment(cx, false) };
            self.out.reset = Some(Box::new(plain));
            return self.probe_segment(cx, true);
        }
        Outgoing { asks: Some(Question::Window), ..self.probe_segment(cx, false) }
    }

    /// Asks a silent peer whether it is still there.
    pub(super) fn keepalive_probe(&mut self, cx: &mut Cx<'_>) -> Outgoing {
        cx.count.tcp_ext.tcp_keep_alive += 1;
        self.out.try_send(Hold::Push);
        Outgoing { asks: Some(Question::Life), ..self.probe_segment(cx, false) }
    }
}
