//! A connection that was accepted with its SYN (RFC 7413 section 4.2.2): it may read, write and close before the peer has shown
//! that it is where it says (`tcp_fastopen_create_child`, `tcp_rcv_synrecv_state_fastopen`).
use super::{Child, News, Open, fact};
use crate::base::{Cx, Instant, SocketId};
use crate::tcp::Disposition;
use crate::tcp::conn::Conn;
use crate::tcp::negotiated::Negotiated;
use crate::tcp::ready::Notice;
use crate::tcp::request::{Request, RequestVerdict};
use crate::tcp::rx_queue::{Chunk, Pieces};
use crate::tcp::segment::{Ecn, Outgoing, Segment};
use crate::tcp::state::State;
use lowwater_wire::tcp::TcpFlags;

impl Conn {
    /// The connection of a request whose SYN was accepted with its data. The SYN-ACK is the caller's to send.
    #[must_use]
    pub fn open_fast(cx: &mut Cx<'_>, request: Request, listener: SocketId, syn: &Segment) -> Self {
        let mut conn = Self::accept(cx, request.accepted());
        conn.rest.stats.fast.facts |= fact::CHILD | fact::SCALED;
        conn.establish(cx, None);
        conn.rest.stats.data_segs_in = u32::from(syn.payload_len() > 0);
        conn.take_syn_data(cx, syn);
        conn.rx.answer_syn_data();
        conn.begin_accurate(request.learned(), cx.sysctl.tcp_ecn_fallback, syn);
        let child = Child { request, listener };
        conn.rest.fast = Some(Box::new(Open::Child(Box::new(child))));
        conn
    }

    fn child(&self) -> Option<&Child> {
        match self.rest.fast.as_deref() {
            Some(Open::Child(child)) => Some(child),
            _ => None,
        }
    }

    /// The flow label of what it hands down, after so many others. Each of a child's SYN-ACKs has one of its own, and the connection keeps the
    /// first one's (`tcp_rtx_synack`).
    #[must_use]
    pub fn label_of(&self, out: &Outgoing) -> u16 {
        let child = self.child().filter(|_| out.repr.flags.contains(TcpFlags::SYN));
        child.map_or_else(|| self.label(), |child| child.request.label())
    }

    /// Accepted with its SYN, it takes the window there for a scaled one until the size of segments is settled anew
    /// (`tcp_create_openreq_child`), which the end of the handshake does not do (`tcp_rcv_synrecv_state_fastopen`).
    pub(in crate::tcp) const fn takes_window_for_scaled(&self) -> bool {
        self.rest.stats.fast.has(fact::SCALED)
    }

    /// The size of segments is settled anew (`tcp_sync_mss`).
    pub(in crate::tcp) const fn child_settled(&mut self) {
        self.rest.stats.fast.facts &= !fact::SCALED;
    }

    /// The handshake of a connection that was accepted with its SYN is not complete (`fastopen_rsk`).
    pub(in crate::tcp) fn is_child(&self) -> bool {
        self.child().is_some()
    }

    /// Data in a SYN or SYN-ACK (`tcp_fastopen_add_skb`): what is acknowledged with it needs no acknowledgement of its own.
    pub(super) fn take_syn_data(&mut self, cx: &mut Cx<'_>, seg: &Segment) {
        let len = seg.payload_len();
        if len == 0 && !seg.has(TcpFlags::FIN) {
            return;
        }
        let headers = seg.header_bytes() + self.ip_header_bytes();
        let copied = &mut cx.count.own.payload_copied_inside;
        let mut chunks: Pieces = seg
            .payload
            .iter()
            .map(|bytes| Chunk::admit(bytes.clone(), seg.layout.pinned_bytes as usize, headers, copied))
            .collect();
        if len == 0 {
            // A FIN by itself waits in a buffer of its own until it is read.
            chunks.push(Chunk::bare(headers));
        }
        let fin = self.rx.take_syn_data(chunks, seg.has(TcpFlags::FIN));
        self.rest.stats.fast.facts |= fact::DATA_ACKED;
        self.rest.stats.bytes_received = u64::from(len);
        self.app.notice.insert(Notice::READABLE);
        if fin {
            self.input_fin(cx);
        }
    }

    /// What the request says to a segment comes first (`tcp_check_req` with `fastopen`). `None` lets it pass.
    pub(in crate::tcp) fn check_child(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> Option<Disposition> {
        let nxt = self.tx.snd_nxt();
        let Some(Open::Child(child)) = self.rest.fast.as_deref_mut() else { return None };
        let before = child.request.sent().again;
        let verdict = child.request.input_child(cx, seg, nxt);
        if child.request.sent().again > before {
            // The SYN came again, and so did its answer.
            self.count_syn_ack_again();
        }
        match verdict {
            RequestVerdict::Drop(why) => Some(Disposition::Drop(why)),
            RequestVerdict::Reply(out) => {
                self.give_for_request(cx, out);
                Some(Disposition::Done)
            }
            // A SYN that does not belong here is told so, but does not end what a cookie has begun.
            RequestVerdict::Reset(out) | RequestVerdict::Gone(Some(out)) => Some(Disposition::Reset(out)),
            RequestVerdict::Gone(None) => {
                self.release(true);
                Some(self.reset_by_peer(cx))
            }
            RequestVerdict::Spawn => None,
        }
    }

    /// The SYN-ACK is acknowledged: a connection like any other from now on.
    pub(in crate::tcp) fn child_complete(&mut self, cx: &mut Cx<'_>, seg: &Segment) {
        let Some(child) = self.child() else { return };
        let sent = child.request.sent();
        let sent = (sent.again == 0).then_some(sent.first);
        let opens = self.state == State::SynRecv;
        if opens {
            self.set_state(cx, State::Established);
            self.sample_handshake(cx, seg, sent);
            self.snd.wl1 = seg.seq;
            self.snd.wnd = u32::from(seg.window) << self.peer.snd_wscale;
            if self.tx.note_window(self.snd.wnd) {
                self.path.settle_mtu();
                self.child_settled();
            }
            self.path.rate.count_syn_ack();
            self.rx.allow_for_options();
            // Anew, since the window may be another than the SYN's (`tcp_rcv_state_process`).
            self.guess_rcv_mss();
            self.third_ack(cx.sysctl.tcp_ecn_fallback, seg);
            self.rx.set_foreseen(true);
            self.tx.began(cx.now);
            self.app.notice.insert(Notice::WRITABLE);
        }
        self.release(false);
        let echo = self.echo_of(seg);
        self.tx.on_handshake_complete(cx, &mut self.path, echo);
        if opens {
            // With the window that it has now, which a loss that was none has given back.
            self.first_pacing_rate(cx);
        }
        // A FIN that shutdown asked for waited for this; that of close does not wait.
        self.finish_shutdown(cx);
    }

    /// When the SYN-ACK goes again: nothing else is sent again before it is acknowledged.
    pub(in crate::tcp) fn child_deadline(&self) -> Option<Instant> {
        self.child().map(|child| child.request.deadline())
    }

    /// The SYN-ACK's timer (`tcp_fastopen_synack_timer`).
    pub(in crate::tcp) fn on_child_timer(&mut self, cx: &mut Cx<'_>) {
        let own = u32::from(self.options.syncnt);
        let retries = if own == 0 { cx.sysctl.tcp_synack_retries.saturating_add(1) } else { own };
        let Some(Open::Child(child)) = self.rest.fast.as_deref_mut() else { return };
        if child.request.deadline() > cx.now {
            return;
        }
        let Some(out) = child.request.resend(cx, retries, self.options.rto_max_ms) else {
            return self.give_up(cx);
        };
        self.give_for_request(cx, out);
        self.tx.on_syn_ack_timeout(cx, &mut self.path);
        self.count_syn_ack_again();
    }

    /// What the request says leaves with the connection's turn, and counts as any segment: a SYN-ACK again both as one that is made and as one that
    /// goes again (`tcp_rtx_synack`). Several in a row before that turn are one, and a SYN-ACK says all that an acknowledgement does.
    fn give_for_request(&mut self, cx: &mut Cx<'_>, out: Outgoing) {
        let is_syn_ack = |out: &Outgoing| out.repr.flags.contains(TcpFlags::SYN);
        let syn_ack_waits = self.out.reset.as_deref().is_some_and(is_syn_ack);
        if syn_ack_waits && !is_syn_ack(&out) {
            return;
        }
        cx.count.tcp.out_segs += u64::from(self.out.reset.is_none());
        cx.count.tcp.retrans_segs -= u64::from(syn_ack_waits);
        self.out.reset = Some(Box::new(self.as_own(cx, out)));
    }

    /// A SYN-ACK that goes again is this connection's: by its options and path as they are by now, and with ECT where data was the last
    /// to leave. Only what `tcp_reflect_tos` has taken from the SYN stays (`tcp_rtx_synack`, `tcp_v4_send_synack`).
    fn as_own(&self, cx: &Cx<'_>, mut out: Outgoing) -> Outgoing {
        if !out.repr.flags.contains(TcpFlags::SYN) {
            return out;
        }
        let v6 = self.tuple.is_v6();
        let tos = if cx.sysctl.tcp_reflect_tos { out.tos } else { self.options.tos_of(v6) };
        out.tos = tos | if self.last_left_capable() { Ecn::Ect0 as u8 } else { 0 };
        (out.ttl, out.priority) = (self.options.ttl_of(v6), self.options.queue_priority());
        out.repr.options.mss = Some(Negotiated::advertise(&self.tuple, self.path.pmtu.mtu(), &self.options));
        out
    }

    /// The SYN-ACK went again: a retransmission of this connection's as long as it has not been closed meanwhile (`tcp_rtx_synack` asks
    /// `tcp_passive_fastopen`, which asks for the state).
    fn count_syn_ack_again(&mut self) {
        if self.state == State::SynRecv {
            self.tx.count_syn_ack_again();
        }
    }

    /// The request is no longer needed; the stack tells the listener.
    pub(in crate::tcp) fn release(&mut self, reset: bool) {
        if let Some(child) = self.child() {
            let news = News::Released { listener: child.listener, reset };
            self.rest.fast = Some(Box::new(Open::News(news)));
        }
    }
}
