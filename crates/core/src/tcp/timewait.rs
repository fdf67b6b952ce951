//! TIME-WAIT as a small object (RFC 9293 section 3.10.7.4, RFC 6191, RFC 1337), and FIN-WAIT-2 without an owner.
use super::negotiated::Negotiated;
use super::segment::{ECN_BITS, Outgoing, Segment};
use super::seq::Seq;
use super::state::State;
use crate::base::time::{Duration, Instant};
use crate::base::{Cx, DropWhy, Tuple};
use lowwater_wire::tcp::{TcpFlags, TcpRepr};

/// Length of TIME-WAIT (`TCP_TIMEWAIT_LEN`; RFC 9293 asks for 2 MSL, Linux waits 60 s).
pub const TIME_WAIT: Duration = Duration::from_secs(60);
/// Distance of a reopened connection's ISN from the old one's last number (`tcp_timewait_state_process`).
const ISN_STEP: u32 = 65_535 + 2;

/// What is left of a connection: enough to answer old segments and to tell new connections from them.
#[derive(Clone, Debug)]
pub struct TimeWait {
    tuple: Tuple,
    peer: Negotiated,
    snd_nxt: Seq,
    rcv_nxt: Seq,
    rcv_wnd: u32,
    fin_wait2: bool,
    entered: Instant,
    deadline: Instant,
    last_ack: Option<Instant>,
    /// With ECT where data was the last to leave before.
    tos: u8,
    priority: Option<u8>,
    /// The label in use, after so many others.
    label: u16,
}

/// What to do with a segment for an object in TIME-WAIT.
#[derive(Debug)]
pub enum TimeWaitVerdict {
    /// Nothing.
    Drop(DropWhy),
    /// Answer with this.
    Reply(Outgoing),
    /// Answer with this reset, and remove the object.
    Reset(Outgoing),
    /// A new SYN that is safely newer (RFC 9293 section 3.6.1, RFC 6191): remove the object and give the SYN to the listener,
    /// with this ISN.
    Reopen {
        /// First ISN that cannot be taken for the old connection's.
        isn: Seq,
    },
    /// The peer reset it: remove the object.
    Gone,
}

/// What a new connection of the same flow goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reusable {
    /// First ISN that cannot be taken for the old connection's.
    pub isn: Seq,
    /// TS.Recent of the old one, and when it was taken.
    pub recent: u32,
    /// See `recent`.
    pub recent_at: Instant,
}

/// What a connection hands over at its end.
pub(super) struct Remains {
    pub(super) tuple: Tuple,
    pub(super) peer: Negotiated,
    pub(super) snd_nxt: Seq,
    pub(super) rcv_nxt: Seq,
    pub(super) rcv_wnd: u32,
    pub(super) tos: u8,
    pub(super) priority: Option<u8>,
    pub(super) label: u16,
}

impl TimeWait {
    /// The object of a connection that has seen both FINs, or, with `fin_wait2`, one that nobody owns any more and that only
    /// waits for the peer's FIN.
    /// `times`: now, and when it ends.
    pub(super) fn new(remains: Remains, fin_wait2: bool, times: (Instant, Instant)) -> Self {
        let Remains { tuple, peer, snd_nxt, rcv_nxt, rcv_wnd, tos, priority, label } = remains;
        let (entered, deadline) = times;
        Self {
            tuple,
            peer,
            snd_nxt,
            rcv_nxt,
            rcv_wnd,
            fin_wait2,
            entered,
            deadline,
            last_ack: None,
            tos,
            priority,
            label,
        }
    }

    /// What a new active open of this flow may go on from: timestamps tell old segments from new ones, so the sequence numbers
    /// need not (RFC 6191; `tcp_twsk_unique`). `chosen` says that the port is the stack's choice: then tcp_tw_reuse decides.
    #[must_use]
    pub fn reusable(&self, cx: &Cx<'_>, chosen: bool) -> Option<Reusable> {
        let local = self.tuple.local_ip.is_loopback() || self.tuple.remote_ip.is_loopback();
        let wanted = cx.sysctl.tcp_tw_reuse == 1 || (cx.sysctl.tcp_tw_reuse == 2 && local);
        let delay = Duration::from_millis(u64::from(cx.sysctl.tcp_tw_reuse_delay));
        if chosen && (!wanted || self.fin_wait2 || cx.now.since(self.entered) <= delay) {
            return None;
        }
        let recent_at = self.peer.stamps.recent_at.filter(|_| self.peer.ts)?;
        Some(Reusable { isn: self.snd_nxt + ISN_STEP, recent: self.peer.stamps.recent, recent_at })
    }

    /// The last acknowledgement once more: for a SYN that could follow if anybody listened.
    #[must_use]
    pub fn last_ack(&self, cx: &Cx<'_>) -> Outgoing {
        self.ack(cx)
    }

    /// The label in use, after so many others (`tw_txhash`).
    #[must_use]
    pub const fn label(&self) -> u16 {
        self.label
    }

    /// When the object may be forgotten.
    #[must_use]
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// TIME-WAIT, or FIN-WAIT-2 while the peer's FIN is missing: what reports show (`tw_substate`).
    #[must_use]
    pub const fn state(&self) -> State {
        if self.fin_wait2 { State::FinWait2 } else { State::TimeWait }
    }

    /// The flow.
    #[must_use]
    pub const fn tuple(&self) -> &Tuple {
        &self.tuple
    }

    /// Answers a segment (`tcp_timewait_state_process`).
    pub fn input(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> TimeWaitVerdict {
        let paws = self.reads_timestamps(cx) && self.peer.stamps.reject(seg);
        if self.fin_wait2 { self.input_fin_wait2(cx, seg, paws) } else { self.input_time_wait(cx, seg, paws) }
    }

    fn input_fin_wait2(&mut self, cx: &mut Cx<'_>, seg: &Segment, paws: bool) -> TimeWaitVerdict {
        let end = seg.seq + seg.seq_len();
        if paws || !in_window(seg.seq, end, self.rcv_nxt, self.rcv_nxt + self.rcv_wnd) {
            return self.ack_limited(cx, seg, DropWhy::TcpOutOfWindow);
        }
        if seg.has(TcpFlags::RST) {
            return TimeWaitVerdict::Gone;
        }
        if seg.has(TcpFlags::SYN) && !seg.seq.before(self.rcv_nxt) {
            return self.reset(seg);
        }
        if !seg.has(TcpFlags::ACK) || !end.after(self.rcv_nxt) || end == seg.seq {
            return TimeWaitVerdict::Drop(DropWhy::TcpClosed);
        }
        // Nobody is left to read new data, so it is answered with a reset (RFC 9293 section 3.6).
        if !seg.has(TcpFlags::FIN) || end != self.rcv_nxt + 1 {
            return self.reset(seg);
        }
        self.fin_wait2 = false;
        self.rcv_nxt = end;
        // The wait before the flow may be reused counts from when this began, where the FIN has no timestamp (`tw_entry_stamp`).
        if self.reads_timestamps(cx) && seg.options.timestamps.is_some() {
            self.entered = cx.now;
            self.peer.stamps.store(seg);
        }
        self.deadline = cx.now + TIME_WAIT;
        TimeWaitVerdict::Reply(self.ack(cx))
    }

    fn input_time_wait(&mut self, cx: &mut Cx<'_>, seg: &Segment, paws: bool) -> TimeWaitVerdict {
        let empty = seg.seq_len() == 0;
        if !paws && seg.seq == self.rcv_nxt && (empty || seg.has(TcpFlags::RST)) {
            if seg.has(TcpFlags::RST) {
                if !cx.sysctl.tcp_rfc1337 {
                    return TimeWaitVerdict::Gone;
                }
            } else {
                self.deadline = cx.now + TIME_WAIT;
            }
            if self.reads_timestamps(cx) {
                self.peer.stamps.store(seg);
            }
            return TimeWaitVerdict::Drop(DropWhy::TcpClosed);
        }
        let new_syn = seg.has(TcpFlags::SYN) && !seg.has(TcpFlags::RST) && !seg.has(TcpFlags::ACK);
        if new_syn && !paws && (seg.seq.after(self.rcv_nxt) || self.timestamp_is_newer(cx, seg)) {
            return TimeWaitVerdict::Reopen { isn: self.snd_nxt + ISN_STEP };
        }
        if paws {
            cx.count.tcp_ext.paws_timewait += 1;
        }
        if seg.has(TcpFlags::RST) {
            return TimeWaitVerdict::Drop(DropWhy::TcpOutOfWindow);
        }
        // A retransmitted FIN or a stray segment: acknowledge, and start the wait anew (RFC 9293 section 3.10.7.4).
        if paws || seg.has(TcpFlags::ACK) {
            self.deadline = cx.now + TIME_WAIT;
        }
        self.ack_limited(cx, seg, DropWhy::TcpOutOfWindow)
    }

    /// Whoever has switched timestamps off meanwhile reads none here; connections go on with them (`tcp_timewait_state_process`).
    const fn reads_timestamps(&self, cx: &Cx<'_>) -> bool {
        self.peer.ts && cx.sysctl.tcp_timestamps != 0
    }

    fn timestamp_is_newer(&self, cx: &Cx<'_>, seg: &Segment) -> bool {
        let ts = if self.reads_timestamps(cx) { seg.options.timestamps } else { None };
        ts.is_some_and(|ts| (self.peer.stamps.recent.wrapping_sub(ts.value) as i32) < 0)
    }

    /// Data is no part of a loop of acknowledgements, so it is always answered (`tcp_oow_rate_limited`).
    fn ack_limited(&mut self, cx: &mut Cx<'_>, seg: &Segment, why: DropWhy) -> TimeWaitVerdict {
        if seg.seq_len() > 0 && !seg.has(TcpFlags::SYN) {
            return TimeWaitVerdict::Reply(self.ack_again(cx));
        }
        if !cx.sysctl.answers_out_of_place(cx.now, &mut self.last_ack) {
            cx.count.tcp_ext.tcp_ack_skipped_fin_wait2 += u64::from(self.fin_wait2);
            cx.count.tcp_ext.tcp_ack_skipped_time_wait += u64::from(!self.fin_wait2);
            return TimeWaitVerdict::Drop(why);
        }
        TimeWaitVerdict::Reply(self.ack_again(cx))
    }

    /// To what is out of place: nobody may mark it (`tcp_v4_timewait_ack`).
    fn ack_again(&self, cx: &Cx<'_>) -> Outgoing {
        let out = self.ack(cx);
        Outgoing { tos: out.tos & !ECN_BITS, ..out }
    }

    /// The answer to the FIN has left with this window, for which something may have been read since the FIN came.
    pub(super) const fn offered(&mut self, rcv_wnd: u32) {
        if rcv_wnd > self.rcv_wnd {
            self.rcv_wnd = rcv_wnd;
        }
    }

    fn ack(&self, cx: &Cx<'_>) -> Outgoing {
        let mut out = Outgoing::control(TcpRepr {
            src_port: self.tuple.local_port,
            dst_port: self.tuple.remote_port,
            seq: self.snd_nxt.0,
            ack: self.rcv_nxt.0,
            flags: TcpFlags::ACK,
            window: (self.rcv_wnd >> self.peer.rcv_wscale).min(65_535) as u16,
            urgent: 0,
            options: self.peer.options(cx.now),
        });
        (out.tos, out.priority) = (self.tos, self.priority);
        out
    }

    fn reset(&self, seg: &Segment) -> TimeWaitVerdict {
        let Some(mut out) = super::reset::reset_for(&self.tuple, seg) else { return TimeWaitVerdict::Gone };
        out.priority = self.priority;
        TimeWaitVerdict::Reset(out)
    }
}

/// A segment touches the window (`tcp_in_window`).
fn in_window(seq: Seq, end: Seq, win: Seq, win_end: Seq) -> bool {
    if seq == win {
        return true;
    }
    if end.after(win) && seq.before(win_end) {
        return true;
    }
    seq == win_end && seq == end
}

const _: () = assert!(size_of::<TimeWait>() <= 176);
