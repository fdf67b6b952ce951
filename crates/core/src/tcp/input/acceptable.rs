//! Is the segment acceptable? PAWS, sequence check, RST and SYN rules (RFC 9293 section 3.10.7.4, RFC 7323 section 5.3,
//! RFC 5961 sections 3 and 4; `tcp_validate_incoming`).
use crate::base::{Cx, DropWhy, Error};
use crate::tcp::Disposition;
use crate::tcp::conn::Conn;
use crate::tcp::segment::Segment;
use crate::tcp::state::State;
use lowwater_wire::tcp::TcpFlags;

/// `tcp_challenge_ack_limit` that sets none.
const NO_LIMIT: u32 = i32::MAX.unsigned_abs();

impl Conn {
    /// `None` when the segment may be processed further.
    pub(super) fn check_acceptable(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> Option<Disposition> {
        if self.peer.ts
            && !seg.has(TcpFlags::RST)
            && self.peer.stamps.too_old(seg)
            && !self.is_disordered_ack(cx, seg)
        {
            return Some(self.refuse_old(cx, seg));
        }
        let beyond = self.is_beyond_window(seg);
        if beyond || (seg.seq + seg.seq_len()).before(self.rx.window().wup()) {
            if seg.has(TcpFlags::RST) {
                return Some(if self.resets_after_fin(seg) {
                    self.reset_by_peer(cx)
                } else {
                    Disposition::Drop(DropWhy::TcpOutOfWindow)
                });
            }
            if seg.has(TcpFlags::SYN) {
                return Some(self.challenge_syn(cx, None));
            }
            cx.count.tcp_ext.beyond_window += u64::from(beyond);
            if !self.answer_unacceptable(cx, seg) {
                cx.count.tcp_ext.tcp_ack_skipped_seq += 1;
            }
            return Some(Disposition::Drop(DropWhy::TcpOutOfWindow));
        }
        if seg.has(TcpFlags::RST) {
            return Some(self.input_reset(cx, seg));
        }
        if seg.has(TcpFlags::SYN) && !self.completes_simultaneous_open(seg) {
            return Some(self.challenge_syn(cx, Some(seg)));
        }
        None
    }

    /// PAWS: too old to be believed. An acknowledgement that was overtaken is common and says nothing; a SYN is challenged like
    /// any other; the rest may come from a peer that is confused.
    fn refuse_old(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> Disposition {
        if seg.has(TcpFlags::SYN) {
            return self.challenge_syn(cx, None);
        }
        if seg.has(TcpFlags::ACK) && seg.seq_len() == 0 && seg.seq.before(self.rx.nxt()) {
            cx.count.tcp_ext.paws_old_ack += 1;
            return Disposition::Drop(DropWhy::TcpPaws);
        }
        cx.count.tcp_ext.paws_estab += 1;
        if !self.answer_unacceptable(cx, seg) {
            cx.count.tcp_ext.tcp_ack_skipped_paws += 1;
        }
        Disposition::Drop(DropWhy::TcpPaws)
    }

    /// A duplicate ACK overtaken on its way by a younger one: it changes nothing but what loss recovery counts, so a replay
    /// does no harm for as long as a retransmission could last (`tcp_disordered_ack`).
    fn is_disordered_ack(&self, cx: &Cx<'_>, seg: &Segment) -> bool {
        let window = u32::from(seg.window) << self.peer.snd_wscale;
        let updates = seg.seq.after(self.snd.wl1)
            || (seg.seq == self.snd.wl1 && (window > self.snd.wnd || window == 0));
        seg.has(TcpFlags::ACK)
            && seg.seq_len() == 0
            && seg.seq == self.rx.nxt()
            && seg.ack == self.tx.snd_una()
            && !updates
            && self
                .peer
                .stamps
                .lag_ms(seg)
                .is_some_and(|ms| ms <= self.path.rtt.rto(cx.sysctl).as_millis() * 6 / 5)
    }

    /// The segment begins beyond the receive window, or ends there while something waits to be read, be it a FIN alone: only into an empty queue
    /// may a peer that did not see our window shrink send more than it allows (`tcp_sequence` since Linux 6.17). Its FIN needs no room.
    fn is_beyond_window(&self, seg: &Segment) -> bool {
        let edge = self.rx.nxt() + self.rx.open_window();
        let end = seg.seq + seg.payload_len() + u32::from(seg.has(TcpFlags::SYN));
        seg.seq.after(edge) || (end.after(edge) && !self.rx.has_nothing_ready())
    }

    /// RFC 5961 section 3.2: only the exact next number resets, anything else in the window is challenged. A reset may also
    /// name the end of what was selectively acknowledged, since that is all that a peer without state for us can know.
    fn input_reset(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> Disposition {
        let nxt = self.rx.nxt();
        let told = self.peer.sack && self.rx.highest_told() == Some(seg.seq);
        if seg.seq == nxt || self.resets_after_fin(seg) || told {
            return self.reset_by_peer(cx);
        }
        self.suspect_reset();
        self.challenge(cx);
        Disposition::Drop(DropWhy::TcpOutOfWindow)
    }

    /// Some peers that die after their FIN reset with the FIN's own number, just before the window (`tcp_reset_check`).
    fn resets_after_fin(&self, seg: &Segment) -> bool {
        matches!(self.state, State::CloseWait | State::LastAck | State::Closing)
            && seg.seq + 1 == self.rx.nxt()
    }

    pub(in crate::tcp) fn reset_by_peer(&mut self, cx: &mut Cx<'_>) -> Disposition {
        let error = match self.state {
            State::SynSent => Error::Refused,
            State::CloseWait => Error::BrokenPipe,
            _ => Error::Reset,
        };
        cx.count.tcp.attempt_fails += u64::from(self.state == State::SynRecv);
        self.finish(cx, Some(error));
        Disposition::Done
    }

    /// The SYN-ACK that answers our SYN-ACK of a simultaneous open.
    fn completes_simultaneous_open(&self, seg: &Segment) -> bool {
        self.state == State::SynRecv
            && seg.has(TcpFlags::ACK)
            && seg.seq + 1 == self.rx.nxt()
            && seg.seq_len() == 1
            && seg.ack == self.tx.snd_nxt()
    }

    /// RFC 5961 section 4.2: a SYN in the window is answered with an ACK, whatever its number. In an established connection it is an error among
    /// what came in, too (`syn_inerr`). With accurate ECN the challenge, and not an ACK that is due anyway, says how it came where it is `within`.
    fn challenge_syn(&mut self, cx: &mut Cx<'_>, within: Option<&Segment>) -> Disposition {
        cx.count.tcp.in_errs += u64::from(self.state == State::Established);
        cx.count.tcp_ext.tcp_syn_challenge += 1;
        let answers = self.challenge(cx);
        if let Some(syn) = within {
            self.take_syn_again(syn, answers);
        }
        Disposition::Drop(DropWhy::TcpFlags)
    }

    /// A challenge ACK, limited per connection so that it tells an attacker nothing about others, and over all connections only
    /// where the setting asks for it (RFC 5961 section 7; `tcp_send_challenge_ack`). True where it goes out.
    pub(super) fn challenge(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.out_of_window_ack_allowed(cx) {
            cx.count.tcp_ext.tcp_ack_skipped_challenge += 1;
            return false;
        }
        let limit = cx.sysctl.tcp_challenge_ack_limit;
        let goes = limit == NO_LIMIT || cx.count.challenges.take(cx.now, limit, cx.rng);
        if goes {
            cx.count.tcp_ext.tcp_challenge_ack += 1;
            self.rx.ack.send_now();
        }
        goes
    }

    /// Answers a segment outside the window with a duplicate ACK. Segments with data are always answered, empty ones at most
    /// once per tcp_invalid_ratelimit, or two confused peers could answer each other for ever. False when it is not answered.
    fn answer_unacceptable(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> bool {
        let has_data = seg.seq_len() > 0 && !seg.has(TcpFlags::SYN);
        let answer = has_data || self.out_of_window_ack_allowed(cx);
        if answer {
            self.rx.on_unacceptable(cx, seg.seq, seg.seq + seg.seq_len());
            if seg.seq_len() > 0 && seg.seq.before(self.rx.nxt()) && self.peer.sack && cx.sysctl.tcp_dsack {
                self.follow_label(cx, seg.layout.flow_label);
            }
        }
        answer
    }

    fn out_of_window_ack_allowed(&mut self, cx: &Cx<'_>) -> bool {
        cx.sysctl.answers_out_of_place(cx.now, &mut self.rest.seldom().last_oow_ack)
    }
}
