//! From a plan to a segment: flags, options, window (`__tcp_transmit_skb`).
use super::nagle::Hold;
use crate::base::trace::Ev;
use crate::base::{Cx, Instant, Wait};
use crate::credit::PACKET_CHARGE;
use crate::tcp::PathCaps;
use crate::tcp::accecn::{fill_syn_ack, reflected};
use crate::tcp::conn::Conn;
use crate::tcp::negotiated::{EcnMode, Negotiated};
use crate::tcp::pending::{Asked, Early};
use crate::tcp::segment::{Ecn, Outgoing};
use crate::tcp::sender::{Rexmit, SendPlan};
use crate::tcp::seq::Seq;
use crate::tcp::state::State;
use bytes::Bytes;
use lowwater_wire::tcp::{FastOpenCookie, TcpFlags, TcpOptions, TcpRepr};

impl Conn {
    /// A header with ACK, window, timestamps and selective acknowledgements; the acknowledgement counts as sent.
    fn header(&mut self, cx: &mut Cx<'_>, seq: Seq, flags: TcpFlags) -> TcpRepr {
        self.header_at(cx, cx.now, seq, flags)
    }

    /// A header whose timestamp is the time at which the segment leaves, so that what it echoes measures the path alone. What it tells by accurate
    /// ECN is told.
    fn header_at(&mut self, cx: &mut Cx<'_>, departure: Instant, seq: Seq, flags: TcpFlags) -> TcpRepr {
        let repr = self.header_that_may_leave(cx, departure, seq, flags);
        self.note_told(cx, &repr);
        repr
    }

    /// The same of a segment of which nobody knows yet whether it leaves.
    fn header_that_may_leave(
        &mut self,
        cx: &mut Cx<'_>,
        departure: Instant,
        seq: Seq,
        flags: TcpFlags,
    ) -> TcpRepr {
        let mut options = self.peer.options(departure);
        let accurate = self.peer.ecn.accurate();
        if self.peer.sack && self.rx.sack_count() > 0 {
            let mut blocks = self.rx.sack_count().min(self.sack_room());
            if accurate {
                blocks = self.blocks_beside_counters(blocks, self.option_room());
            }
            for (left, right) in self.rx.sack_blocks(blocks) {
                options.sack.push(left.0, right.0);
            }
        }
        if accurate {
            self.add_counters(&mut options, self.option_room());
        }
        let mut flags = flags | TcpFlags::ACK;
        match self.peer.ecn {
            EcnMode::Classic if self.out.ece => flags.insert(TcpFlags::ECE),
            EcnMode::Accurate => flags.insert(self.ace_flags()),
            EcnMode::Classic | EcnMode::Off => {}
        }
        let window = self.rx.select_window(cx);
        self.rx.on_ack_sent(cx);
        if let Some(time_wait) = &mut self.rest.time_wait {
            time_wait.offered(self.rx.open_window());
        }
        self.repr(seq, flags, window, options)
    }

    /// Data comes with an acknowledgement that lets something be sent again: Linux sends that before it looks at the data
    /// (`tcp_ack`, `tcp_data_queue`), so that it acknowledges what had come until then, and the data is acknowledged by itself. What the
    /// peer's window bars, or small queues, acknowledges nothing, and what is owed stays owed (`__tcp_retransmit_skb`,
    /// `tcp_xmit_retransmit_queue`).
    pub(in crate::tcp) fn acknowledge_early(&mut self, cx: &mut Cx<'_>) {
        let may = self.path.pacing.not_before(cx.now).is_none() && !self.is_child();
        if may && self.out.early.is_none() && (self.resends_now(cx) || self.sends_instead(cx)) {
            let only_fin = self.tx.resends_only_fin();
            self.keep_header(cx, only_fin, false);
        }
    }

    /// The FIN that waited for the handshake leaves, behind what was written before it, when the segment that completes the handshake is
    /// known for that, and its data is looked at behind it (`tcp_shutdown` in `tcp_rcv_state_process`).
    pub(in crate::tcp) fn finish_early(&mut self, cx: &mut Cx<'_>) {
        if self.path.pacing.not_before(cx.now).is_none() && self.prepare_new(cx) {
            let only_fin = self.tx.peek_unsent().is_some_and(|head| head.len == 0);
            self.keep_header(cx, only_fin, true);
        }
    }

    /// What leaves next says what has come until now.
    fn keep_header(&mut self, cx: &mut Cx<'_>, only_fin: bool, new: bool) {
        let answers = self.rx.ack.would_answer(cx.now);
        let repr = self.header_that_may_leave(cx, cx.now, self.tx.snd_una(), TcpFlags::EMPTY);
        // As an answer it makes the traffic interactive before it is decided when to acknowledge the data.
        let counted = answers && !only_fin;
        self.rx.ack.on_data_sent(cx, counted);
        self.out.early = Some(Box::new(Early { repr, answers, counted, new }));
    }

    /// New data, cut by the MSS with which the burst began, or a smaller one that has come since: what leaves with its first segment alone, as the
    /// block of a D-SACK, is no room for the others (`tcp_write_xmit` is told once). `mss` is the present one.
    pub(super) fn new_of_burst(
        &mut self,
        cx: &mut Cx<'_>,
        caps: &PathCaps,
        mss: u16,
        hold: Option<Hold>,
    ) -> Result<Outgoing, Wait> {
        let of_burst = match self.out.burst.mss {
            0 => mss,
            began => began.min(mss),
        };
        self.out.burst.mss = of_burst;
        if of_burst != mss {
            self.tx.set_mss(of_burst);
        }
        self.new_data(cx, caps, of_burst, hold)
    }

    /// F-RTO sends new data in the place of a retransmission, and at the same time, or that after all where the new data does not fit the
    /// peer's window (`tcp_xmit_recovery`).
    fn sends_instead(&mut self, cx: &Cx<'_>) -> bool {
        self.out.rexmit == Rexmit::New && (self.prepare_new(cx) || self.resends_without_new(cx))
    }

    /// Makes the next packet of new data ready, however small it is: true where it leaves, as [`Self::new_data`] will find. As there, the packet
    /// takes what it lacks from the next element, whose bytes wait in it if none leaves. The pace is for the caller to ask; nobody asks for the
    /// autocorking of the rest of a write, nor for the size of a burst that credit has interrupted: what is sent for the segment at hand begins
    /// anew ([`super::super::pending::Pending::try_send`]).
    fn prepare_new(&mut self, cx: &Cx<'_>) -> bool {
        let mss = self.mss_now();
        let max_segs = self.max_segs_within(cx, mss);
        if self.path_gate().is_err() {
            return false;
        }
        let len = match self.pushed_len(mss, max_segs) {
            Some(len) => Some(len),
            None => self.tx.peek_unsent().and_then(|head| {
                let quota = self.cwnd_quota(cx, &head, mss).ok()?.min(max_segs);
                self.new_len(cx, head, (mss, max_segs, quota), Hold::Push).ok()
            }),
        };
        len.is_some_and(|len| self.credit_admits(cx, len as u32, None))
    }

    fn resends_now(&mut self, cx: &Cx<'_>) -> bool {
        self.tx.may_resend(&self.path) && self.resends_without_new(cx)
    }

    /// What is lost leaves, where F-RTO finds no new data to send in its place.
    fn resends_without_new(&mut self, cx: &Cx<'_>) -> bool {
        let mss = self.mss_now();
        let max_segs = if self.urgent_mode() { 1 } else { self.max_segs_within(cx, mss) };
        self.tx.set_mss(mss);
        let lost = self.tx.resends(&self.path, max_segs, self.window_end());
        lost.is_some_and(|lost| self.credit_admits(cx, lost.len, Some(lost.record)))
    }

    /// The header of data: with what stood before other data came, where that is what lets this one be sent again.
    fn data_header(&mut self, cx: &mut Cx<'_>, plan: &SendPlan, flags: TcpFlags, again: bool) -> TcpRepr {
        if !again && self.out.rexmit != Rexmit::New {
            self.out.early.take_if(|early| !early.new);
        }
        let Some(early) = &self.out.early else {
            return self.header_at(cx, plan.departure, plan.seq, flags);
        };
        let (window, mut options) = (early.repr.window, early.repr.options);
        // It may leave later than that: its own clock is that of any segment, or its acknowledgement would pass for the original's.
        if let Some(stamps) = &mut options.timestamps {
            stamps.value = self.peer.stamps.now(plan.departure);
        }
        let (ack, flags) = (early.repr.ack, flags | early.repr.flags);
        let repr = TcpRepr { ack, ..self.repr(plan.seq, flags, window, options) };
        self.note_told(cx, &repr);
        repr
    }

    pub(super) fn repr(&self, seq: Seq, flags: TcpFlags, window: u16, options: TcpOptions) -> TcpRepr {
        let ack = if flags.contains(TcpFlags::ACK) { self.rx.nxt().0 } else { 0 };
        let urgent = self.urgent_pointer(seq);
        let flags = if urgent.is_some() { flags | TcpFlags::URG } else { flags };
        TcpRepr {
            src_port: self.tuple.local_port,
            dst_port: self.tuple.remote_port,
            seq: seq.0,
            ack,
            flags,
            window,
            urgent: urgent.unwrap_or(0),
            options,
        }
    }

    /// The urgent pointer of a segment that begins at `seq`: the end of urgent data, where it lies ahead and within reach; just
    /// far away where what was sent ends before it (`__tcp_transmit_skb`).
    fn urgent_pointer(&self, seq: Seq) -> Option<u16> {
        if !self.urgent_mode() || !seq.before(self.snd.up) {
            return None;
        }
        match u16::try_from(self.snd.up.since(seq)) {
            Ok(ahead) => Some(ahead),
            Err(_) => (seq + u32::from(u16::MAX)).after(self.tx.snd_nxt()).then_some(u16::MAX),
        }
    }

    /// Wraps a header that nobody pays for.
    pub(super) fn control(&mut self, cx: &mut Cx<'_>, repr: TcpRepr) -> Outgoing {
        cx.trace(Ev::Out(repr.seq, 0, repr.flags.bits()));
        self.path.pacing.renew(cx.now);
        let ect = self.marks_all() && !repr.flags.contains(TcpFlags::SYN);
        self.path.ecn.left(ect);
        self.rest.stats.segs_out = self.rest.stats.segs_out.wrapping_add(1);
        cx.count.tcp.out_segs += 1;
        let mut out = Outgoing::control(repr);
        let v6 = self.tuple.is_v6();
        out.tos = self.options.tos_of(v6) | if ect { Ecn::Ect0 as u8 } else { 0 };
        out.ttl = self.options.ttl_of(v6);
        out.priority = self.options.queue_priority();
        out.whole = self.options.whole();
        out
    }

    /// An acknowledgement without data.
    pub(in crate::tcp) fn pure_ack(&mut self, cx: &mut Cx<'_>) -> Outgoing {
        self.rx.ack.count_duplicate();
        let repr = self.header(cx, self.acceptable_seq(), TcpFlags::EMPTY);
        self.control(cx, repr)
    }

    /// SND.NXT, or the end of the peer's window where it has shrunk below that: beyond it the peer would drop our ACKs
    /// (`tcp_acceptable_seq`).
    fn acceptable_seq(&self) -> Seq {
        let (nxt, end) = (self.tx.snd_nxt(), self.window_end());
        // A window that was only rounded down by its scale has not shrunk.
        let rounding = if self.peer.wscale { 1 << self.peer.rcv_wscale } else { 1 };
        if end.before(nxt) && nxt.since(end) >= rounding { end } else { nxt }
    }

    /// A probe that makes the peer answer and occupies no sequence space: one before SND.UNA (`tcp_xmit_probe_skb`).
    pub(super) fn probe_segment(&mut self, cx: &mut Cx<'_>, urgent_una: bool) -> Outgoing {
        let seq = if urgent_una { self.tx.snd_una() } else { self.tx.snd_una() - 1 };
        let repr = self.header(cx, seq, TcpFlags::EMPTY);
        self.control(cx, repr)
    }

    /// SYN, or the SYN-ACK of a simultaneous open.
    pub(in crate::tcp) fn syn_segment(
        &mut self,
        cx: &mut Cx<'_>,
        plan: &SendPlan,
        cookie: Option<FastOpenCookie>,
    ) -> Outgoing {
        // What the path has turned out to carry since (`tcp_advertise_mss`).
        let by_path = Negotiated::route_advmss(&self.tuple, self.path.pmtu.mtu(), &self.options);
        if by_path < self.peer.advmss {
            self.peer.advmss = by_path;
            self.rx.lower_advmss(by_path);
        }
        // Unacknowledged it goes again after a close, too.
        let crossed = self.state != State::SynSent;
        if !crossed {
            self.peer.reconsider(cx.sysctl);
        }
        // One that an ICMP error sends again has the time at which the clock was last looked at, as data has (`tcp_v4_mtu_reduced`).
        let at = plan.departure.min(cx.now);
        let mut options = TcpOptions { fastopen: cookie, ..self.peer.syn_options(at) };
        let mut flags = TcpFlags::SYN;
        if crossed {
            // What was offered is offered again, whether or not the crossing SYN has it (`tcp_syn_options`).
            options.timestamps = (cx.sysctl.tcp_timestamps != 0).then(|| self.peer.stamps.option(at));
            options.sack_permitted = cx.sysctl.tcp_sack;
            options.window_scale = cx.sysctl.tcp_window_scaling.then(|| self.rx.window().scale());
            flags.insert(TcpFlags::ACK);
            // It is the SYN that went last, with ACK (`tcp_ecn_send_synack`).
            match self.peer.ecn {
                EcnMode::Classic if self.out.ecn_asked == Asked::Last => flags.insert(TcpFlags::ECE),
                EcnMode::Accurate => {
                    flags.insert(reflected(self.rest.accecn().learned.syn));
                    if self.tx.retransmits() < 2 {
                        fill_syn_ack(&mut options, cx.sysctl);
                    }
                }
                EcnMode::Classic | EcnMode::Off => {}
            }
        } else {
            let again = plan.last_sent.is_some();
            let (asks, timeouts) = (self.options.asks_for_ecn(cx.sysctl), self.tx.retransmits());
            flags.insert(self.out.ecn_syn(cx.sysctl, asks, again, timeouts));
        }
        let window = self.rx.window().wnd().min(65_535) as u16;
        let repr = self.repr(plan.seq, flags, window, options);
        if crossed {
            self.rx.on_ack_sent(cx);
        }
        let mut out = self.control(cx, repr);
        if plan.last_sent.is_some() {
            cx.count.tcp.out_segs -= 1;
        }
        out.depart_at = cx.now;
        out
    }

    /// A segment or super-packet with data or FIN.
    pub(super) fn data_segment(&mut self, cx: &mut Cx<'_>, plan: &SendPlan, again: bool) -> Outgoing {
        let mut flags = TcpFlags::EMPTY;
        if plan.push || plan.segs > 1 {
            flags.insert(TcpFlags::PSH);
        }
        if plan.fin {
            flags.insert(TcpFlags::FIN);
        }
        let len = plan.payload.len() as u32;
        let ect = self.marks_all() || (self.peer.ecn.classic() && !again && len > 0);
        if ect && self.peer.ecn.classic() && self.tx.take_cwr() {
            flags.insert(TcpFlags::CWR);
        }
        self.path.ecn.left(ect);
        let repr = self.data_header(cx, plan, flags, again);
        cx.trace(Ev::Out(repr.seq, len, repr.flags.bits()));
        let charge = len + PACKET_CHARGE;
        self.queue_sent(cx, charge, plan.departure);
        self.out.credit.charge(charge);
        self.count_data(cx, plan);
        Outgoing {
            repr,
            gso_size: if plan.segs > 1 { plan.mss } else { 0 },
            segs: plan.segs,
            tos: self.options.tos_of(self.tuple.is_v6()) | if ect { Ecn::Ect0 as u8 } else { 0 },
            ttl: self.options.ttl_of(self.tuple.is_v6()),
            priority: self.options.queue_priority(),
            whole: self.options.whole(),
            charge,
            depart_at: plan.departure,
            attempt: plan.attempt,
            asks: None,
            payload: plan.payload.clone(),
        }
    }

    fn count_data(&mut self, cx: &mut Cx<'_>, plan: &SendPlan) {
        let segs = u32::from(plan.segs);
        self.rest.stats.segs_out = self.rest.stats.segs_out.wrapping_add(segs);
        self.rest.stats.bytes_sent += plan.payload.len() as u64;
        // What only repeats is not among the segments sent (RFC 4022, tcpOutSegs).
        if plan.last_sent.is_none() {
            cx.count.tcp.out_segs += u64::from(segs);
        }
        // A FIN by itself is no answer to anything.
        if plan.payload.is_empty() {
            return;
        }
        let answers = match &mut self.out.early {
            Some(early) => early.answers && !core::mem::take(&mut early.counted),
            None => self.rx.ack.would_answer(cx.now),
        };
        self.rx.ack.on_data_sent(cx, answers);
        self.rest.stats.data_segs_out = self.rest.stats.data_segs_out.wrapping_add(segs);
        self.note_left(plan);
    }

    /// Data went out with a SYN.
    pub(in crate::tcp) fn count_syn_data(&mut self, len: usize) {
        self.rest.stats.bytes_sent += len as u64;
        self.rest.stats.data_segs_out = self.rest.stats.data_segs_out.wrapping_add(1);
    }

    /// Queues the reset that ends this connection (`tcp_send_active_reset`). It stays behind the data below: one that passes it is only
    /// challenged (RFC 9293 section 3.10.7.4), and the answer may find nobody.
    pub(in crate::tcp) fn send_reset(&mut self, cx: &mut Cx<'_>) {
        if matches!(self.state, State::SynSent | State::Close) {
            return;
        }
        cx.count.tcp.out_rsts += 1;
        let depart_at = self.path.pacing.behind_data(cx.now);
        let repr = self.header_at(cx, depart_at, self.acceptable_seq(), TcpFlags::RST);
        let out = Outgoing { payload: Bytes::new(), depart_at, ..self.control(cx, repr) };
        self.out.reset = Some(Box::new(out));
    }
}
