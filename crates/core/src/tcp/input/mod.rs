//! A segment arrives: the steps of RFC 9293 section 3.10.7 in their order.
mod acceptable;
mod ack;
mod data;
mod ecn;
mod predicted;
mod syn_sent;

use super::Disposition;
use super::ack_policy::PathFacts;
use super::conn::Conn;
use super::fastopen::fact;
use super::ready::Notice;
use super::receiver::Negotiated as Receiving;
use super::segment::Segment;
use super::state::State;
use super::timewait::TimeWaitVerdict;
use crate::base::trace::Ev;
use crate::base::{Cx, DropWhy, Duration};
use lowwater_wire::tcp::TcpFlags;

impl Conn {
    /// Processes a segment of this flow whose checksum is right, and takes its payload.
    pub fn input(&mut self, cx: &mut Cx<'_>, seg: &mut Segment) -> Disposition {
        cx.trace(Ev::In(seg.seq.0, seg.payload_len(), seg.flags.bits()));
        // A connection in TIME-WAIT is a smaller object in Linux, which counts nothing.
        if self.state != State::TimeWait {
            self.count_in(seg);
            // Whatever becomes of it (`tcp_rcv_established`, `tcp_rcv_state_process`).
            self.timers.look(cx.now);
        }
        self.decide_option(cx);
        match self.state {
            State::SynSent => self.input_syn_sent(cx, seg),
            State::TimeWait => self.input_time_wait(cx, seg),
            State::Close | State::Listen => super::reset_for(&self.tuple, seg)
                .map_or(Disposition::Drop(DropWhy::TcpClosed), Disposition::Reset),
            _ => self.input_synchronized(cx, seg),
        }
    }

    /// `tcp_segs_in`: whatever becomes of it.
    fn count_in(&mut self, seg: &Segment) {
        let (stats, segs) = (&mut self.rest.stats, seg.segs());
        stats.segs_in = stats.segs_in.wrapping_add(segs);
        if seg.payload_len() > 0 {
            stats.data_segs_in = stats.data_segs_in.wrapping_add(segs);
        }
    }

    fn input_synchronized(&mut self, cx: &mut Cx<'_>, seg: &mut Segment) -> Disposition {
        if let Some(answer) = self.check_child(cx, seg) {
            return answer;
        }
        // Before anybody asks where it lies (`tcp_rcv_established`, `tcp_rcv_state_process`).
        if !seg.flags.intersects(TcpFlags::ACK.union(TcpFlags::RST).union(TcpFlags::SYN)) {
            return Disposition::Drop(DropWhy::TcpFlags);
        }
        if let Some(answer) = self.check_acceptable(cx, seg) {
            return answer;
        }
        if !seg.has(TcpFlags::ACK) {
            return Disposition::Drop(DropWhy::TcpFlags);
        }
        let established = self.state == State::Established;
        let prediction = self.predict(seg);
        // Neither the handshake's last segment nor any after our FIN (`tcp_rcv_established`).
        if established {
            self.count_marks(seg);
        }
        let data_alone = prediction.is_data_alone(seg);
        let known = prediction.holds();
        // Predicted data is taken before its acknowledgement, by whose round trip the timeout may change (`tcp_rcv_established`).
        let before = prediction.is_data(seg).then(|| self.path_facts(cx));
        if let Some(answer) = self.input_ack(cx, seg, &prediction) {
            return answer;
        }
        prediction.count(cx, seg);
        if self.state == State::Close {
            return Disposition::Done;
        }
        // Not with the handshake's last segment, nor when we have closed.
        if established {
            self.measure_rcv_rtt(seg);
        }
        if self.rx.on_urgent(cx.sysctl, seg) {
            self.app.notice.insert(Notice::READABLE);
        }
        if seg.has(TcpFlags::SYN) {
            self.rx.on_syn_again(cx, seg.seq);
            self.follow_label(cx, seg.layout.flow_label);
            let rtt = self.path_facts(cx);
            self.rx.check_ack(cx, rtt);
        }
        if seg.payload_len() > 0 || seg.has(TcpFlags::FIN) {
            if before.is_none() {
                self.acknowledge_early(cx);
            }
            if let Some(answer) = self.input_data(cx, seg, before) {
                return answer;
            }
            let rtt = self.path_facts(cx);
            self.rx.check_ack(cx, rtt);
        } else if !known {
            // What is owed may be due by now, whatever came (`tcp_ack_snd_check`).
            let rtt = self.path_facts(cx);
            self.rx.check_ack(cx, rtt);
        }
        // Where nothing but data came, Linux does not look for something to send (`tcp_rcv_established`).
        if data_alone {
            self.rx.ack_stands();
        } else {
            // Whoever waits for room is looked after at the end, whatever was acknowledged: buffers that SACK joins give room back
            // (`tcp_data_snd_check`).
            self.app.acked |= self.app.nospace.is_set();
            self.out.try_send(self.default_hold());
        }
        Disposition::Done
    }

    /// The application still holds a connection that is in TIME-WAIT: its small object answers.
    fn input_time_wait(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> Disposition {
        let Some(time_wait) = self.rest.time_wait.as_mut() else {
            return Disposition::Drop(DropWhy::TcpClosed);
        };
        match time_wait.input(cx, seg) {
            TimeWaitVerdict::Drop(why) => Disposition::Drop(why),
            TimeWaitVerdict::Reply(out) => {
                // As of one that the stack answers by itself (`tcp_v4_send_ack`). Several in a row before the flow's turn get one answer.
                cx.count.tcp.out_segs += u64::from(self.out.reset.is_none());
                self.out.reset = Some(Box::new(out));
                Disposition::Done
            }
            TimeWaitVerdict::Reset(out) => {
                self.finish(cx, None);
                Disposition::Reset(out)
            }
            TimeWaitVerdict::Reopen { isn } => Disposition::Reopen { isn },
            TimeWaitVerdict::Gone => {
                self.finish(cx, None);
                Disposition::Done
            }
        }
    }

    /// The handshake is complete: the parts learn what it settled. `asked` where a SYN of ours began it: bytes of options that
    /// segments were to have when the search for the MTU began.
    pub(super) fn establish(&mut self, cx: &mut Cx<'_>, asked: Option<u16>) {
        self.path.pmtu.set_peer_mss(Some(self.peer.mss_clamp));
        self.path.pmtu.set_base_mss(cx.sysctl.tcp_base_mss);
        self.path.ecn.set_negotiated(self.peer.ecn.capable());
        // Also where a SYN that crossed ours has begun a search: this one is another (`tcp_mtup_init` in `tcp_init_transfer`).
        if cx.sysctl.tcp_mtu_probing > 1 {
            self.path.search_mtu(cx, self.peer.data_option_bytes());
        }
        if let (Some(search), Some(asked)) = (&mut self.path.plpmtud, asked) {
            search.begun_with_syn(asked);
        }
        self.tx.set_sack(self.peer.sack);
        if self.tx.max_window() == 0 {
            self.tx.note_window(self.snd.wnd);
        }
        // Many connections are opened long before they are used.
        self.tx.queue().rest();
        // As [`Conn::mss`] has it once the child is known for one. A controller that paces from now on does so by this size (`bbr_init`).
        let fast = self.rest.stats.fast.has(fact::CHILD);
        let scale = if fast { self.peer.snd_wscale } else { 0 };
        let mss = self.mss_within(self.tx.max_window() << scale);
        self.tx.set_mss(mss);
        self.tx.init_transfer(cx, &mut self.path, self.options.initial_cwnd());
        self.rx.establish(
            cx,
            Receiving {
                sack: self.peer.sack,
                wscale: self.peer.wscale,
                header_bytes: 20 + self.peer.data_option_bytes() as u8,
                mss,
                fast,
            },
        );
        // RFC 6298 section 5.7, where the handshake gave no sample.
        self.path.rtt.fall_back();
        // The first packets have the size for the rate that the handshake showed (`tcp_rcv_state_process`). What was accepted with its SYN has
        // none until its handshake is complete, unless the controller sets it (`tcp_fastopen_create_child`).
        if !fast {
            self.path.update_pacing_rate(cx, mss, 0);
        }
        self.expand_sndbuf(cx);
        self.arm_keepalive(cx);
    }

    pub(super) fn path_facts(&self, cx: &Cx<'_>) -> PathFacts {
        let rtt = &self.path.rtt;
        PathFacts {
            srtt: rtt.srtt().unwrap_or(Duration::ZERO),
            rto: rtt.rto(cx.sysctl),
            rto_min_us: rtt.rto_min_us(cx.sysctl),
            quickack: self.options.route.quickack,
        }
    }
}
