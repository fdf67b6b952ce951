//! What the sending side has to do with SYNs and SYN-ACKs.
use super::{AckIn, Resend, SendPlan, Sender};
use crate::base::{Cx, Instant};
use crate::path::Path;
use crate::path::congestion::CaState;
use crate::path::rate::Snapshot;
use crate::tcp::recovery::Env;
use crate::tcp::recovery::rto::{TIMEOUT_MIN, TimerKind};
use crate::tcp::recovery::undo::Marker;
use crate::tcp::request::SynAcks;

impl Sender {
    /// Puts a SYN into flight and sets the timer.
    pub fn commit_syn(&mut self, cx: &mut Cx<'_>, path: &mut Path) -> SendPlan {
        // A SYN gives no sample of the delivery rate: nothing was delivered before it (`tcp_rate_skb_sent`).
        let start = self.flight.tx.send_syn(cx.now, Snapshot::default());
        // The patience with a handshake counts from its first SYN (`tcp_connect`), with data from the first retransmission.
        self.recovery.undo.stamp = Some(cx.now);
        self.flight.on_sent(start);
        let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
        e.rearm_rto();
        self.plan(start, None).unwrap_or_else(|| SendPlan::nothing(self.snd_nxt()))
    }

    /// Our SYN and the peer's have crossed: it goes as a SYN-ACK, which counts from now on and is no retransmission (`tcp_send_synack`).
    pub(super) fn commit_crossing(&mut self, cx: &Cx<'_>, resend: &Resend) -> Option<SendPlan> {
        self.flight.tx.get_mut(resend.start)?.sent_at = cx.now;
        self.plan(resend.start, Some(resend.last_sent))
    }

    /// The peer confuses our SYN with an older connection's; its reset is on the way, so the SYN goes again soon
    /// (`tcp_rcv_synsent_state_process`).
    pub fn hurry_syn(&mut self, cx: &mut Cx<'_>) {
        if self.recovery.timeouts.retransmits == 0 {
            self.timer.set(cx, TimerKind::Rto, cx.now + TIMEOUT_MIN);
        }
    }

    /// What the request of a passive open had sent (`tcp_create_openreq_child`): a SYN-ACK that was lost twice is a loss.
    pub(in crate::tcp) fn note_syn_acks(&mut self, now: Instant, sent: &SynAcks) {
        self.recovery.undo.total_retrans = u32::from(sent.again);
        if sent.timeouts > 0 {
            self.recovery.timeouts.note_syn_acks(sent.timeouts, now.since(sent.first));
            self.recovery.undo.marker = Some(Marker::at(self.flight.tx.una()));
            self.recovery.undo.stamp = Some(sent.first);
        }
    }

    /// The final ACK of a passive open echoes the timestamp `echo`, without offset: that of the first SYN-ACK shows that only
    /// patience was lacking (`tcp_try_undo_spurious_syn`).
    pub fn undo_spurious_syn_ack(&mut self, echo: Option<u32>) {
        self.undo_spurious_syn(echo);
        self.recovery.undo.stamp = None;
    }

    /// The SYN-ACK echoes the timestamp of the first SYN, which was not lost then.
    pub fn undo_spurious_syn(&mut self, echo: Option<u32>) {
        let undo = &mut self.recovery.undo;
        if undo.stamp.is_some_and(|first| echo == Some(first.as_millis() as u32)) {
            undo.marker = None;
        }
    }

    /// The SYN-ACK acknowledges our SYN without the data that went along: the data is lost, without being a sign of congestion.
    pub fn on_syn_data_refused(&mut self, cx: &mut Cx<'_>, path: &mut Path) {
        let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
        // A SYN carries one record.
        if let Some((start, _)) = e.flight.tx.first() {
            e.flight.mark_lost(e.cx, start);
        }
        self.recovery.retransmit_without_congestion(&mut e);
    }

    /// The SYN-ACK of a connection that began with data has to go again (`tcp_fastopen_synack_timer`).
    pub fn on_syn_ack_timeout(&mut self, cx: &mut Cx<'_>, path: &mut Path) {
        if self.recovery.timeouts.retransmits == 1 {
            let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
            self.recovery.enter_loss(&mut e);
        }
        self.recovery.timeouts.count(cx.now);
        self.recovery.undo.stamp.get_or_insert(cx.now);
    }

    /// It went again, for whatever reason.
    pub fn count_syn_ack_again(&mut self) {
        self.recovery.undo.total_retrans = self.recovery.undo.total_retrans.saturating_add(1);
    }

    /// That SYN-ACK is acknowledged: its loss is over, and was none where the echoed timestamp `tsecr` is that of the first; from now on the timer is
    /// for data (`tcp_rcv_synrecv_state_fastopen`).
    pub fn on_handshake_complete(&mut self, cx: &mut Cx<'_>, path: &mut Path, tsecr: Option<u32>) {
        if self.recovery.ca == CaState::Loss && self.flight.packets_out == 0 {
            let una = self.snd_una();
            let ack = self.ack_of(&AckIn {
                ack: una,
                sack: &[],
                tsecr,
                at: cx.now,
                has_data: false,
                window_taken: false,
                ece: false,
                child: true,
                crossed: false,
                wnd_end: una,
            });
            let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
            self.recovery.try_undo_recovery(&mut e, &ack);
        }
        self.recovery.timeouts.recovered(cx.now);
        self.recovery.timeouts.retransmits = 0;
        // What this acknowledgement sends again has gone by now in Linux (`tcp_xmit_recovery` in `tcp_ack`, `tcp_retrans_stamp_cleanup`).
        if !self.flight.any_retrans_done() && !self.may_resend(path) {
            self.recovery.undo.stamp = None;
        }
        let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
        // Before this nothing but RACK has set the timer, by this very acknowledgement.
        if !matches!(e.timer.get(), Some((TimerKind::Reorder, _))) {
            e.timer.clear();
        }
        e.rearm_rto();
    }
}
