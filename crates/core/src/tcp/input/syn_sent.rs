//! SYN-SENT (RFC 9293 section 3.10.7.3; `tcp_rcv_synsent_state_process`).
use crate::base::{Cx, DropWhy, Duration, Error};
use crate::tcp::accecn::{ace, is_asked_for};
use crate::tcp::ack_policy::MAX_QUICKACKS;
use crate::tcp::conn::Conn;
use crate::tcp::fastopen::fact;
use crate::tcp::negotiated::EcnMode;
use crate::tcp::output::nagle::Hold;
use crate::tcp::ready::Notice;
use crate::tcp::segment::Segment;
use crate::tcp::state::State;
use crate::tcp::{Disposition, reset_for};
use lowwater_wire::tcp::TcpFlags;

/// Longest that the handshake's last ACK waits for data (`TCP_DELACK_MAX`).
const DELACK_MAX: Duration = Duration::from_millis(200);

impl Conn {
    /// This may end the wait for an answer to our SYN: a SYN, or the acknowledgement after SYNs have crossed. What a listener began has its
    /// route from the request, or from its SYN.
    pub(crate) fn is_answered_by(&self, seg: &Segment) -> bool {
        match self.state {
            State::SynSent => seg.has(TcpFlags::SYN),
            State::SynRecv => seg.has(TcpFlags::ACK) && self.tx.una_offset() == 0 && !self.is_child(),
            _ => false,
        }
    }

    pub(super) fn input_syn_sent(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> Disposition {
        self.peer.reconsider(cx.sysctl);
        if seg.has(TcpFlags::ACK) {
            if !self.acks_our_syn(cx, seg) {
                return reset_for(&self.tuple, seg)
                    .map_or(Disposition::Drop(DropWhy::TcpBadAck), Disposition::Reset);
            }
            if seg.has(TcpFlags::RST) {
                cx.count.tcp.attempt_fails += 1;
                self.finish(cx, Some(Error::Refused));
                return Disposition::Done;
            }
        }
        if seg.has(TcpFlags::RST) {
            return Disposition::Drop(DropWhy::TcpBadAck);
        }
        // Only a connection that follows a TIME-WAIT knows of a timestamp by now.
        if !seg.has(TcpFlags::ACK) && self.peer.stamps.reject(seg) {
            return Disposition::Drop(DropWhy::TcpPaws);
        }
        if !seg.has(TcpFlags::SYN) {
            return Disposition::Drop(DropWhy::TcpFlags);
        }
        if seg.has(TcpFlags::ACK) {
            self.complete_active_open(cx, seg);
        } else {
            self.cross(cx, seg);
        }
        Disposition::Done
    }

    /// Our SYN is acknowledged, and the echoed timestamp is one that we sent.
    fn acks_our_syn(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> bool {
        if !seg.ack.after(self.tx.snd_una()) || seg.ack.after(self.tx.snd_nxt()) {
            self.tx.hurry_syn(cx);
            return false;
        }
        let echo = seg.options.timestamps.map_or(0, |ts| ts.echo);
        let Some(began) = self.tx.patience_began().filter(|_| self.peer.ts && echo != 0) else { return true };
        let (first, last) = (self.peer.stamps.now(began), self.peer.stamps.now(cx.now));
        let ours = echo.wrapping_sub(first) <= last.wrapping_sub(first);
        cx.count.tcp_ext.paws_active += u64::from(!ours);
        ours
    }

    fn settle(&mut self, cx: &Cx<'_>, seg: &Segment) {
        self.peer.accept(seg, self.options.maxseg);
        // The floor is the one of now (`tcp_sync_mss`).
        self.path.pmtu.set_min_mss(cx.sysctl.tcp_min_snd_mss);
        self.rest.stats.fast.facts |= fact::HANDSHAKE;
        self.rx.synchronize(seg.seq);
        self.snd.wl1 = seg.seq;
        self.snd.wnd = u32::from(seg.window);
    }

    fn complete_active_open(&mut self, cx: &mut Cx<'_>, seg: &Segment) {
        self.settle(cx, seg);
        self.rest.stats.last_ack_recv = cx.now;
        // Of a connection before this one (`tcp_ack`).
        self.app.soft_error = None;
        self.peer.ecn = self.granted(seg);
        if self.peer.ecn.accurate() {
            self.accurate_granted(cx.sysctl.tcp_ecn_fallback, seg);
        }
        // The answer to the first SYN: only patience was lacking (`tcp_try_undo_spurious_syn`).
        let echo = seg.options.timestamps.filter(|_| self.peer.ts).map(|ts| ts.echo);
        self.tx.undo_spurious_syn(echo.map(|echo| echo.wrapping_sub(self.peer.stamps.offset)));
        // The window counts before what is acknowledged does, which a D-SACK is judged by (`tcp_ack_update_window`).
        self.tx.note_window(self.snd.wnd);
        // Without SACK, Loss after a timeout of the SYN would hold until more than the SYN is acknowledged.
        self.tx.set_sack(self.peer.sack);
        let mss = self.mss_of_answer(cx);
        self.acknowledge_by(cx, seg, true, mss);
        self.note_idle(cx);
        self.snd.up = self.tx.snd_una();
        self.set_state(cx, State::Established);
        let cwnd = self.path.window.cwnd;
        self.establish(cx, Some(self.syn_option_bytes()));
        self.rate_of_answer(cx, cwnd, mss);
        // The window of a SYN is not scaled, that of what follows may be (`tcp_finish_connect`).
        self.rx.set_foreseen(self.peer.snd_wscale == 0);
        let refused = self.fast_syn_answered(cx, seg);
        let wait =
            self.options.defer_accept > 0 || self.rest.stats.fast.has(fact::MORE) || self.rx.ack.pingpong();
        if !wait || refused {
            self.rx.ack.send_now();
            self.reflect_next();
            // Linux looks at the urgent pointer in this case alone (`tcp_rcv_state_process`).
            if self.rx.on_urgent(cx.sysctl, seg) {
                self.app.notice.insert(Notice::READABLE);
            }
        } else {
            // The data that the server waits for, or that the application is about to write, may carry it.
            self.rx.enter_quickack(MAX_QUICKACKS);
            self.rx.ack.delay_by(cx.now, DELACK_MAX);
        }
        self.app.notice.insert(Notice::CONNECTED);
        self.app.notice.insert(Notice::WRITABLE);
        self.out.try_send(self.default_hold());
    }

    /// What a SYN-ACK grants (RFC 9768 section 3.1.2, table 2; `tcp_ecn_rcv_synack`). That to an ECN-setup SYN of the classic kind carries ECE and not
    /// CWR (RFC 3168 section 6.1.1).
    fn granted(&self, seg: &Segment) -> EcnMode {
        let asked = self.out.ecn_asked;
        match ace(seg.flags) {
            0b001 if asked.ever() => EcnMode::Classic,
            0b010..=0b110 if asked.accurate() => EcnMode::Accurate,
            0b101 if asked.ever() => EcnMode::Classic,
            _ => EcnMode::Off,
        }
    }

    /// What both SYNs have asked for where they cross (`tcp_ecn_rcv_syn`).
    fn asked_alike(&self, seg: &Segment) -> EcnMode {
        let asked = self.out.ecn_asked;
        if asked.accurate() && is_asked_for(seg.flags) {
            EcnMode::Accurate
        } else if asked.ever() && seg.has(TcpFlags::ECE) && seg.has(TcpFlags::CWR) {
            EcnMode::Classic
        } else {
            EcnMode::Off
        }
    }

    /// The size of segments by which the acknowledgement of our SYN counts, and by which a controller sets its first rate: the peer has named
    /// the largest that it takes, and the options are those that our SYN asked for, since what the peer takes of these is looked at later. As
    /// long as its window is shut, segments are the ones that the SYN was sent with (`tcp_ack_update_window`, `tcp_sync_mss`).
    fn mss_of_answer(&self, cx: &Cx<'_>) -> u16 {
        let (asked, max_window) = (self.syn_option_bytes(), self.tx.max_window());
        let mut pmtu = self.path.pmtu;
        pmtu.set_base_mss(cx.sysctl.tcp_base_mss);
        let mss = if max_window == 0 {
            pmtu.mss(asked)
        } else {
            pmtu.set_peer_mss(Some(self.peer.mss_clamp));
            pmtu.mss_within(asked, max_window)
        };
        // The search for the MTU has begun with the SYN (`tcp_connect_init`).
        let searches = cx.sysctl.tcp_mtu_probing > 1;
        if searches { mss.min(pmtu.mss_at(pmtu.mtu_of(pmtu.base_mss(), asked), asked)) } else { mss }
    }

    /// The rate is that of the window `cwnd` in which our SYN was acknowledged, and of segments of `mss` bytes, as then.
    fn rate_of_answer(&mut self, cx: &Cx<'_>, cwnd: u32, mss: u16) {
        // Below what the route asks for where SYNs were lost; the route itself counts from here on.
        let now = self.path.window.cwnd;
        self.path.window.cwnd = if now < self.options.initial_cwnd() { cwnd.min(now) } else { cwnd };
        self.path.update_pacing_rate(cx, mss, 0);
        self.path.window.cwnd = now;
    }

    /// Simultaneous open: the peer's SYN crossed ours (RFC 9293 section 3.5, figure 8).
    fn cross(&mut self, cx: &mut Cx<'_>, seg: &Segment) {
        self.settle(cx, seg);
        // Only what we asked for ourselves (`tcp_ecn_rcv_syn`).
        self.peer.ecn = self.asked_alike(seg);
        if self.peer.ecn.accurate() {
            self.accurate_crossed(seg);
        }
        // What comes before our SYN is acknowledged is answered, and probed for, by what both sides have agreed on already.
        self.tx.set_sack(self.peer.sack);
        self.rx.set_sack(self.peer.sack);
        self.path.pmtu.set_peer_mss(Some(self.peer.mss_clamp));
        // The window of the SYN, never scaled, is the largest so far (RFC 7323 section 2.2).
        self.tx.note_window(self.snd.wnd);
        // Segments are settled by what surely passes at once, not with the first window that is wider than the SYN's (`tcp_mtup_init`,
        // `tcp_sync_mss`).
        self.path.pmtu.set_base_mss(cx.sysctl.tcp_base_mss);
        if cx.sysctl.tcp_mtu_probing > 1 {
            self.path.search_mtu(cx, self.peer.data_option_bytes());
            self.path.settle_mtu();
        }
        let mss = self.mss();
        self.tx.set_mss(mss);
        self.rx.guess_mss(mss);
        self.set_state(cx, State::SynRecv);
        self.out.set_timeout(self.tx.cross_syn());
        self.out.try_send(Hold::Push);
    }
}
