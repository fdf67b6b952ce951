//! Payload and FIN of an acceptable segment (RFC 9293 section 3.10.7.4, seventh and eighth step; `tcp_data_queue`, `tcp_fin`).
use crate::base::{Cx, Error};
use crate::path::congestion::CaState;
use crate::tcp::ack_policy::PathFacts;
use crate::tcp::conn::Conn;
use crate::tcp::ready::Notice;
use crate::tcp::receiver::Arrival;
use crate::tcp::segment::Segment;
use crate::tcp::sender::Rexmit;
use crate::tcp::state::State;
use crate::tcp::{Disposition, reset_for};
use lowwater_wire::tcp::TcpFlags;

/// Flags that say a segment may be shorter than the peer could make it.
const REMNANT: TcpFlags = TcpFlags::FIN.union(TcpFlags::SYN).union(TcpFlags::URG).union(TcpFlags::PSH);

impl Conn {
    /// `Some` when the segment ended the connection. `before` is what was known of the path before the acknowledgement of data that was predicted.
    pub(super) fn input_data(
        &mut self,
        cx: &mut Cx<'_>,
        seg: &mut Segment,
        before: Option<PathFacts>,
    ) -> Option<Disposition> {
        if !self.state.can_receive() && !seg.seq.before(self.rx.nxt()) {
            return None;
        }
        let fin = seg.has(TcpFlags::FIN);
        let end = seg.seq + seg.payload_len();
        // A FIN beyond a hole tells of data that nobody will read, too.
        let new = seg.seq_len() > 0 && end.after(self.rx.nxt());
        if self.is_read_by_nobody() && new {
            cx.count.tcp_ext.tcp_abort_on_data += 1;
            if fin {
                self.suspect_lost_data();
            }
            let error = if self.state == State::CloseWait { Error::BrokenPipe } else { Error::Reset };
            return Some(self.reset_by_data(cx, seg, (!self.app.orphan).then_some(error)));
        }
        let before_mark = self.peer.ecn.capable().then_some((self.out.ece, self.path.ecn));
        let marked = self.input_ecn_mark(seg);
        let in_order = !seg.seq.after(self.rx.nxt());
        let (segs, has_data) = (seg.segs(), end != seg.seq);
        let rtt = before.unwrap_or_else(|| self.path_facts(cx));
        let received = self.rx.on_data(
            cx,
            Arrival {
                seq: seg.seq,
                fin,
                remnant: seg.flags.intersects(REMNANT),
                push: seg.has(TcpFlags::PSH),
                gso_size: u32::from(seg.layout.gso_size),
                header_bytes: seg.header_bytes(),
                ip_header_bytes: self.ip_header_bytes(),
                predicted: before.is_some(),
                sending: self.tx.flight().wmem_queued() as u32,
                marked,
                pinned_bytes: seg.layout.pinned_bytes as usize,
                chunks: core::mem::take(&mut seg.payload),
            },
            rtt,
        );
        if let Some((ece, ecn)) = before_mark.filter(|_| received.dropped && in_order) {
            // What is old or finds no room in order goes before Linux looks at its mark (`tcp_event_data_recv`).
            (self.out.ece, self.path.ecn) = (ece, ecn);
        }
        if received.again {
            self.suspect_option(seg);
            self.follow_label(cx, seg.layout.flow_label);
        } else if received.out_of_order || (has_data && !received.dropped) {
            self.snd.label.peer_changed(seg.layout.flow_label);
        }
        if received.out_of_order {
            self.rest.stats.rcv_ooopack = self.rest.stats.rcv_ooopack.wrapping_add(segs);
        }
        self.rest.stats.bytes_received += u64::from(received.advanced);
        if received.readable {
            self.app.notice.insert(Notice::READABLE);
        }
        if received.fin { self.input_fin(cx) } else { None }
    }

    /// Data came again: under another flow label than what came before, its sender may have run into a timeout, so that the way of our
    /// acknowledgements may be broken. They try another, unless our own timeouts do (`tcp_rcv_spurious_retrans`).
    pub(super) fn follow_label(&mut self, cx: &mut Cx<'_>, label: u32) {
        if self.snd.label.peer_changed(label) && self.tuple.is_v6() && self.tx.ca_state() != CaState::Loss {
            self.snd.label.change();
            cx.count.tcp_ext.tcp_duplicate_data_rehash += 1;
        }
    }

    /// Nobody is left to read: new data is answered with a reset so that the peer learns it was lost (RFC 2525 2.17).
    fn is_read_by_nobody(&self) -> bool {
        let both_shut = self.app.rcv_shutdown && matches!(self.state, State::FinWait1 | State::FinWait2);
        // The same holds for data behind the peer's own FIN (`tcp_rcv_state_process`).
        both_shut || self.app.orphan || !self.state.can_receive()
    }

    /// What the segments before `seg` have let go leaves before it is looked at, though the flow has had no turn: in Linux each sends at once
    /// (`tcp_xmit_recovery`, `tcp_data_snd_check`). What it asks for decides what the next one is taken for, and that may be the end. A timer that
    /// is due waits: a driver that has slept has its timers before its packets, and these may say that nothing need go again.
    #[must_use]
    pub fn sends_before(&self, seg: &Segment) -> bool {
        let ends = || seg.has(TcpFlags::RST) || (seg.seq_len() > 0 && self.is_read_by_nobody());
        self.out.tries() && self.state.is_synchronized() && (self.out.rexmit != Rexmit::None || ends())
    }

    /// What the segment's acknowledgement lets go leaves before its data is looked at (`tcp_ack` in `tcp_rcv_state_process`).
    fn reset_by_data(&mut self, cx: &mut Cx<'_>, seg: &Segment, error: Option<Error>) -> Disposition {
        let answer = reset_for(&self.tuple, seg);
        if self.out.early.is_some()
            && let Some(reset) = answer
        {
            return Disposition::ResetBehind { reset, error };
        }
        self.finish(cx, error);
        answer.map_or(Disposition::Done, Disposition::Reset)
    }

    /// Data that nobody will read ends the connection, as [`Disposition::ResetBehind`] has it.
    pub fn end_by_data(&mut self, cx: &mut Cx<'_>, error: Option<Error>) {
        self.finish(cx, error);
    }

    /// RCV.NXT has passed the peer's FIN.
    pub(in crate::tcp) fn input_fin(&mut self, cx: &mut Cx<'_>) -> Option<Disposition> {
        self.app.notice.insert(Notice::READABLE);
        self.rx.ack.schedule();
        match self.state {
            State::Established | State::SynRecv => {
                self.set_state(cx, State::CloseWait);
                self.rx.ack.set_pingpong(true);
                // Its acknowledgement waits, and what SACK had to tell does not wait with it (`tcp_fin`, `tcp_sack_reset`).
                self.rx.forget_duplicate();
                None
            }
            State::FinWait1 => {
                self.rx.ack.send_now();
                let shuts = self.out.early.as_ref().is_some_and(|early| early.new);
                if self.tx.queue_ref().unsent_bytes() > 0 && !shuts {
                    // It leaves before what the same segment lets go (`tcp_fin`), and behind a FIN that waited for the handshake alone
                    // (`tcp_shutdown` in `tcp_rcv_state_process`).
                    let ack = self.pure_ack(cx);
                    self.out.reset = Some(Box::new(ack));
                }
                self.set_state(cx, State::Closing);
                None
            }
            State::FinWait2 => {
                self.rx.ack.send_now();
                self.enter_time_wait(cx);
                Some(Disposition::Done)
            }
            _ => {
                self.rx.forget_duplicate();
                None
            }
        }
    }
}
