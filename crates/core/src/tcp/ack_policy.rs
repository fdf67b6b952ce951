//! When to acknowledge: quick, delayed and compressed ACKs (RFC 9293 section 3.8.6.3, RFC 5681 section 4.2).
use super::seq::Seq;
use crate::base::time::nanos;
use crate::base::{Cx, Duration, Instant, Sysctl};
#[cfg(test)]
mod tests;

/// Most segments acknowledged one by one when the delayed-ACK engine (re)starts (`TCP_MAX_QUICKACKS`).
pub const MAX_QUICKACKS: u32 = 16;
/// Shortest delay of an acknowledgement, and the start of the estimate (`TCP_ATO_MIN`, `TCP_DELACK_MIN`).
pub const ATO_MIN: Duration = Duration::from_millis(40);
/// Longest delay while data comes in bulk, before the sysctl's maximum is applied.
const ATO_BULK_MAX: u64 = 500_000_000;
const ATO_MIN_NS: u64 = 40_000_000;
/// Linux's jiffy, by which a delay is shorter than the smallest timeout.
const TICK_US: u32 = 1_000;
const TICK_NS: u64 = 1_000_000;
/// Duplicate ACKs that are never compressed, since the sender's fast retransmit counts them (`TCP_FASTRETRANS_THRESH`).
const FAST_RETRANS_DUPACKS: u8 = 3;
/// `TCP_MSS_DEFAULT`, `TCP_MIN_MSS` and the bare TCP header.
const MSS_DEFAULT: u32 = 536;
const MSS_MIN: u32 = 88;
const TCP_HEADER: u32 = 20;

/// An ACK is owed (`ICSK_ACK_SCHED`).
const OWED: u8 = 1;
/// The delayed-ACK deadline is set (`ICSK_ACK_TIMER`).
const TIMER: u8 = 2;
/// A segment smaller than usual came, twice for the second bit (`ICSK_ACK_PUSHED`, `ICSK_ACK_PUSHED2`).
const PUSHED: u8 = 4;
const PUSHED2: u8 = 8;
/// The protocol demands an ACK at the next check (`ICSK_ACK_NOW`).
const DEMANDED: u8 = 16;
/// The decision has fallen: send it with the next run of the output.
const DUE: u8 = 32;
/// What came last has counted as a duplicate, and as one that is held.
const COUNTED: u8 = 64;
const HELD: u8 = 128;

/// What the policy needs to know about the path.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathFacts {
    /// Smoothed round-trip time; zero when unknown.
    pub srtt: Duration,
    /// Retransmission timeout.
    pub rto: Duration,
    /// The smallest that it can be, in microseconds.
    pub rto_min_us: u32,
    /// The route wants every segment acknowledged at once (`RTAX_QUICKACK`).
    pub quickack: bool,
}

/// One data segment: sizes for the estimate of the peer's MSS, and what its sender waits for.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentFacts {
    /// Payload bytes, all segments of a coalesced packet together.
    pub payload_bytes: u32,
    /// Payload bytes per segment of a coalesced packet; 0 for a single segment.
    pub gso_size: u32,
    /// TCP header with options, in bytes.
    pub header_bytes: u32,
    /// What Linux would charge for it, in bytes.
    pub truesize: u32,
    /// Any of FIN, SYN, URG or PSH: the segment may be shorter than the peer could make it.
    pub remnant: bool,
    /// PSH: the application's write ends here.
    pub push: bool,
    /// Its congestion mark is to be told soon.
    pub marked: bool,
}

/// The state that `__tcp_ack_snd_check` looks at beside the policy's own.
#[derive(Clone, Copy, Debug)]
pub struct AckFacts {
    /// Bytes in order that are not acknowledged yet: RCV.NXT - rcv_wup.
    pub unacked_bytes: u32,
    /// RCV.NXT.
    pub rcv_nxt: Seq,
    /// True when the window's right edge would move, or too little waits for the application to be woken.
    pub window_moves: bool,
    /// Data is held out of order.
    pub hole: bool,
    /// SACK is on.
    pub sack: bool,
    /// Round trip as the receiver measures it; zero when unknown.
    pub rcv_rtt: Duration,
}

/// Duplicate ACKs that are held together (`tcp_comp_sack_nr`).
#[derive(Clone, Debug)]
struct Compression {
    /// When they go out as one; `FAR_FUTURE` while none is held.
    deadline: Instant,
    /// RCV.NXT for which they are counted.
    rcv_nxt: Seq,
    /// Sent or held for this RCV.NXT.
    dup_acks: u8,
    /// Held.
    held: u8,
}

/// Decides when acknowledgements go out. Holds at most one deadline, in no timer.
#[derive(Clone, Debug)]
pub struct AckPolicy {
    /// When the delayed ACK goes out, while `TIMER` is set.
    deadline: Instant,
    /// When data was received last.
    last_data_at: Instant,
    /// Estimate of the delay that piggybacks most ACKs, in nanoseconds; 0 before the first data (`icsk_ack.ato`).
    ato: u32,
    rcv_mss: u16,
    last_seg_size: u16,
    quick: u8,
    pending: u8,
    pingpong: bool,
    /// Answers within the delay, up to `tcp_pingpong_thresh`.
    answers: u8,
    comp: Compression,
    /// TCP_DELACK_MAX_US in units of 4 us; 0 takes tcp_delack_max_us.
    delay_max: u16,
    /// Duplicate ACKs that a peer without SACK still has to count.
    duplicates: u8,
}

impl AckPolicy {
    /// The policy before any data; `rcv_mss` as from [`initial_rcv_mss`].
    #[must_use]
    pub const fn new(rcv_mss: u16) -> Self {
        Self {
            deadline: Instant::FAR_FUTURE,
            last_data_at: Instant::ZERO,
            ato: 0,
            rcv_mss,
            last_seg_size: 0,
            quick: 0,
            pending: 0,
            pingpong: false,
            answers: 0,
            comp: Compression { deadline: Instant::FAR_FUTURE, rcv_nxt: Seq(0), dup_acks: 0, held: 0 },
            delay_max: 0,
            duplicates: 0,
        }
    }

    /// The socket's own longest delay in microseconds; 0 for the system's.
    pub const fn set_delay_max(&mut self, us: u32) {
        self.delay_max = if us > 200_000 { 50_000 } else { us.div_ceil(4) as u16 };
    }

    /// With what the application has asked of `other`: the longest delay, and to wait for an answer to ride on.
    pub const fn as_told(self, other: &Self) -> Self {
        Self { delay_max: other.delay_max, pingpong: other.pingpong, ..self }
    }

    /// The longest delay in microseconds: what is asked for, and less than the smallest timeout, which would take the delay for a loss
    /// (`tcp_delack_max`).
    #[must_use]
    pub fn delay_max_us(&self, sysctl: &Sysctl, rto_min_us: u32) -> u32 {
        let asked = if self.delay_max != 0 { self.delay_max as u32 * 4 } else { sysctl.tcp_delack_max_us };
        asked.min(rto_min_us.max(2 * TICK_US) - TICK_US)
    }

    /// The connection is established: silence counts from here (`lrcvtime`).
    pub const fn began(&mut self, now: Instant) {
        self.last_data_at = now;
    }

    /// What the peer's segments may be like, before any has come.
    pub const fn expect(&mut self, rcv_mss: u16) {
        self.rcv_mss = rcv_mss;
    }

    /// The handshake ended with a segment of `whole` bytes, its header included, that one of this size behind it may confirm
    /// (`tcp_create_openreq_child`).
    pub fn expect_like(&mut self, whole: u32, fixed_header: u32) {
        if whole >= MSS_DEFAULT + fixed_header {
            self.last_seg_size = (whole - fixed_header).min(u32::from(u16::MAX)) as u16;
        }
    }

    /// Estimate of the payload of the peer's full segments, in bytes.
    #[must_use]
    pub const fn rcv_mss(&self) -> u32 {
        self.rcv_mss as u32
    }

    /// True when traffic is interactive: the application's answer is expected to carry the ACK.
    #[must_use]
    pub const fn pingpong(&self) -> bool {
        self.pingpong
    }

    /// Segments that will still be acknowledged one by one.
    #[must_use]
    pub const fn quick(&self) -> u32 {
        self.quick as u32
    }

    /// The estimated delay (`tcpi_ato`).
    #[must_use]
    pub const fn ato(&self) -> Duration {
        Duration::from_nanos(self.ato as u64)
    }

    /// When data was received last (`tcpi_last_data_recv` is the time since).
    #[must_use]
    pub const fn last_data_at(&self) -> Instant {
        self.last_data_at
    }

    /// An ACK must go out with the next run of the output.
    #[must_use]
    pub const fn due(&self) -> bool {
        self.pending & DUE != 0
    }

    /// An ACK is owed, now or later.
    #[must_use]
    pub const fn owed(&self) -> bool {
        self.pending & (OWED | DUE) != 0
    }

    /// When [`Self::on_deadline`] wants to be called.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let delayed = if self.pending & TIMER != 0 { self.deadline } else { Instant::FAR_FUTURE };
        let first = delayed.min(self.comp.deadline);
        (first != Instant::FAR_FUTURE && !self.due()).then_some(first)
    }

    /// Owes an ACK without deciding when (`inet_csk_schedule_ack`).
    pub const fn schedule(&mut self) {
        self.pending |= OWED;
    }

    /// Decides that an ACK goes out with the next run of the output (`tcp_send_ack`). One that nobody owed, as a challenge or the news
    /// of a window, takes nothing of the quick budget (`tcp_dec_quickack_mode`).
    pub const fn send_now(&mut self) {
        self.pending |= DUE;
    }

    /// Owes one ACK for each of `segments` beyond a hole, however few packets and turns they came in: without SACK their number
    /// is all that tells the peer of the loss (RFC 5681 sections 3.2 and 4.2).
    pub const fn owe_duplicates(&mut self, segments: u32) {
        let more = if segments > u8::MAX as u32 { u8::MAX } else { segments as u8 };
        self.duplicates = self.duplicates.saturating_add(more);
    }

    /// RCV.NXT has moved: an ACK would be no duplicate any more.
    pub const fn forget_duplicates(&mut self) {
        self.duplicates = 0;
    }

    /// A segment without data, which the peer counts, is about to go out.
    pub const fn count_duplicate(&mut self) {
        self.duplicates = self.duplicates.saturating_sub(1);
    }

    /// Demands an ACK at the next check: a gap was filled (RFC 5681 section 4.2).
    pub const fn demand(&mut self) {
        self.pending |= DEMANDED;
    }

    /// Delays the owed ACK by `delay` whatever the estimate says: the final ACK of a handshake that waits for data.
    pub fn delay_by(&mut self, now: Instant, delay: Duration) {
        self.pending |= OWED | TIMER;
        self.deadline = now + delay;
    }

    /// Leaves quick mode: the buffer fills up.
    pub const fn stop_quick(&mut self) {
        self.quick = 0;
    }

    /// The window may have grown: let the next segment be acknowledged at once (`tcp_grow_window`).
    pub const fn nudge_quick(&mut self) {
        self.quick |= 1;
    }

    /// Raises the quick budget to half a window of segments, at most `max` (`tcp_incr_quickack`).
    pub fn raise_quick(&mut self, rcv_wnd: u32, max: u32) {
        let half_window = match rcv_wnd / (2 * self.rcv_mss()).max(1) {
            0 => 2,
            n => n,
        };
        self.quick = self.quick.max(half_window.min(max).min(255) as u8);
    }

    /// Acknowledges the next segments one by one: something is wrong or new (`tcp_enter_quickack_mode`).
    pub fn enter_quick(&mut self, rcv_wnd: u32, max: u32) {
        self.raise_quick(rcv_wnd, max);
        self.set_pingpong(false);
        self.ato = ATO_MIN_NS as u32;
    }

    /// Enters or leaves interactive mode (`inet_csk_enter_pingpong_mode`).
    pub const fn set_pingpong(&mut self, on: bool) {
        self.pingpong = on;
        self.answers = 0;
    }

    /// Data arrived in order: adapts the delay to the time since the data before (`tcp_event_data_recv`).
    pub fn on_data(&mut self, now: Instant, path: PathFacts, rcv_wnd: u32) {
        self.measure_ato(now, path, rcv_wnd);
        self.last_data_at = now;
    }

    fn measure_ato(&mut self, now: Instant, path: PathFacts, rcv_wnd: u32) {
        if self.ato == 0 {
            self.raise_quick(rcv_wnd, MAX_QUICKACKS);
            self.ato = ATO_MIN_NS as u32;
            return;
        }
        let gap = now.nanos_since(self.last_data_at);
        let ato = u64::from(self.ato);
        let rto = nanos(path.rto);
        if gap <= ATO_MIN_NS / 2 {
            self.set_ato(ato / 2 + ATO_MIN_NS / 2);
        } else if gap < ato {
            self.set_ato((ato / 2 + gap).min(rto));
        } else if gap > rto {
            // The peer has been silent so long that its window restarts: help it grow.
            self.raise_quick(rcv_wnd, MAX_QUICKACKS);
        }
    }

    fn set_ato(&mut self, ns: u64) {
        self.ato = ns.clamp(1, u64::from(u32::MAX)) as u32;
    }

    /// Estimates the payload of a full segment despite options that come and go (`tcp_measure_rcv_mss`). `advmss` is the MSS we
    /// offered, `fixed_header` the TCP header of every segment of this connection (20, or 32 with timestamps). True when the segment
    /// is larger than any before.
    pub fn measure_rcv_mss(&mut self, seg: &SegmentFacts, advmss: u32, fixed_header: u32) -> bool {
        let last = core::mem::take(&mut self.last_seg_size);
        let len = if seg.gso_size > 0 { seg.gso_size } else { seg.payload_bytes };
        if len >= self.rcv_mss() {
            let larger = len != self.rcv_mss();
            self.rcv_mss = len.min(advmss).min(u32::from(u16::MAX)) as u16;
            // A whole segment may also be the last of a write, and its sender may wait for the ACK.
            if seg.push {
                self.pending |= PUSHED;
            }
            return larger;
        }
        // Header and payload together are the same for every full segment, however much of it SACK takes.
        let whole = len + seg.header_bytes;
        if whole >= MSS_DEFAULT + TCP_HEADER || (whole >= MSS_MIN + TCP_HEADER && !seg.remnant) {
            self.last_seg_size = whole.saturating_sub(fixed_header).min(u32::from(u16::MAX)) as u16;
            if self.last_seg_size == last {
                self.rcv_mss = last;
                return false;
            }
        }
        if self.pending & PUSHED != 0 {
            self.pending |= PUSHED2;
        }
        self.pending |= PUSHED;
        false
    }

    /// After a segment has been processed: now, later, or not at all (`__tcp_ack_snd_check`).
    pub fn check(&mut self, cx: &Cx<'_>, path: PathFacts, facts: &AckFacts) {
        self.stands();
        if self.pending & OWED == 0 || self.due() {
            return;
        }
        let two_segments = facts.unacked_bytes > self.rcv_mss() && facts.window_moves;
        let quick = path.quickack || (self.quick > 0 && !self.pingpong);
        if two_segments || quick || self.pending & DEMANDED != 0 {
            self.send_now();
        } else if facts.hole {
            self.compress(cx, path, facts);
        } else {
            self.delay(cx, path);
        }
    }

    /// Duplicate ACKs beyond the third wait a little, so that one carries the news of many (`tcp_comp_sack_*`).
    fn compress(&mut self, cx: &Cx<'_>, path: PathFacts, facts: &AckFacts) {
        if !facts.sack || u32::from(self.comp.held) >= cx.sysctl.tcp_comp_sack_nr.min(255) {
            return self.send_now();
        }
        if self.comp.rcv_nxt != facts.rcv_nxt {
            self.comp.rcv_nxt = facts.rcv_nxt;
            self.comp.dup_acks = 0;
        }
        if self.comp.dup_acks < FAST_RETRANS_DUPACKS {
            self.comp.dup_acks += 1;
            self.pending |= COUNTED;
            return self.send_now();
        }
        self.comp.held += 1;
        self.pending |= HELD;
        if self.comp.deadline != Instant::FAR_FUTURE {
            return;
        }
        let mut round_trip = facts.rcv_rtt;
        if !path.srtt.is_zero() && path.srtt < round_trip {
            round_trip = path.srtt;
        }
        let delay = (nanos(round_trip) / 20).min(u64::from(cx.sysctl.tcp_comp_sack_delay_ns));
        self.comp.deadline = cx.now.plus_nanos(delay);
    }

    /// True when enough ACKs are compressed that losing a SACK block would hide a range from the sender.
    #[must_use]
    pub const fn compresses_many(&self) -> bool {
        self.comp.held > FAST_RETRANS_DUPACKS
    }

    fn delay(&mut self, cx: &Cx<'_>, path: PathFacts) {
        let mut ato = u64::from(self.ato);
        let max = u64::from(self.delay_max_us(cx.sysctl, path.rto_min_us)) * 1_000;
        if ato > ATO_MIN_NS {
            let mut bound = if self.pingpong || self.pending & PUSHED != 0 { max } else { ATO_BULK_MAX };
            if !path.srtt.is_zero() {
                bound = bound.min(nanos(path.srtt).max(ATO_MIN_NS));
            }
            ato = ato.min(bound);
        }
        ato = ato.min(max);
        let mut soon = ato / 4;
        if ato == 0 {
            // No data has set a delay yet: the timer runs out with the next tick, and what the application says until then, as a close
            // that answers a FIN, carries the ACK.
            (ato, soon) = (TICK_NS, TICK_NS);
        }
        let mut at = cx.now.plus_nanos(ato);
        if self.pending & TIMER != 0 {
            if self.deadline <= cx.now.plus_nanos(soon) {
                return self.send_now();
            }
            at = at.min(self.deadline);
        }
        self.pending |= OWED | TIMER;
        self.deadline = at;
    }

    /// The deadline may have passed: decides about the ACK (`tcp_delack_timer_handler`).
    pub fn on_deadline(&mut self, cx: &mut Cx<'_>, rto: Duration) {
        self.stands();
        if self.comp.deadline <= cx.now {
            // One of them is about to be sent after all.
            self.comp.held = self.comp.held.saturating_sub(1);
            return self.send_now();
        }
        if self.pending & TIMER == 0 || self.deadline > cx.now {
            return;
        }
        self.pending &= !TIMER;
        if self.pending & OWED == 0 {
            return;
        }
        if self.pingpong {
            // The answer that should have carried the ACK did not come.
            self.set_pingpong(false);
            self.ato = ATO_MIN_NS as u32;
        } else {
            self.set_ato((u64::from(self.ato) * 2).min(nanos(rto)));
        }
        self.send_now();
        cx.count.tcp_ext.delayed_acks += 1;
    }

    /// What came last has let nothing leave that would have carried its ACK: Linux looks for that first, and does not owe the ACK any more where
    /// something has left (`tcp_data_snd_check`, `tcp_ack_snd_check`).
    pub const fn stands(&mut self) {
        self.pending &= !(COUNTED | HELD);
    }

    /// A segment with ACK went out: nothing is owed any more (`tcp_event_ack_sent`), duplicates excepted.
    pub fn on_ack_sent(&mut self, cx: &mut Cx<'_>) {
        self.comp.dup_acks = self.comp.dup_acks.saturating_sub(u8::from(self.pending & COUNTED != 0));
        self.comp.held = self.comp.held.saturating_sub(u8::from(self.pending & HELD != 0));
        if self.comp.held > 0 {
            cx.count.tcp_ext.tcp_ack_compressed += u64::from(self.comp.held);
            self.comp.held = 0;
        }
        self.comp.deadline = Instant::FAR_FUTURE;
        if self.quick > 0 && self.pending & OWED != 0 {
            self.quick -= 1;
            if self.quick == 0 {
                self.ato = ATO_MIN_NS as u32;
            }
        }
        self.pending = if self.duplicates > 0 { OWED | DUE } else { 0 };
    }

    /// Data that goes out now answers what came last: it came within the delay.
    #[must_use]
    pub const fn would_answer(&self, now: Instant) -> bool {
        now.nanos_since(self.last_data_at) < self.ato as u64
    }

    /// Data went out, as an answer or not: answers make the traffic interactive (`tcp_event_data_sent`).
    pub fn on_data_sent(&mut self, cx: &Cx<'_>, answer: bool) {
        if answer {
            self.answers = self.answers.saturating_add(1);
            self.pingpong |= u32::from(self.answers) >= cx.sysctl.tcp_pingpong_thresh;
        }
    }

    /// The application has read: must the owed ACK go now (first half of `tcp_cleanup_rbuf`)?
    #[must_use]
    pub const fn wants_ack_after_read(&self, unacked_bytes: u32, copied: bool, drained: bool) -> bool {
        if self.pending & OWED == 0 {
            return false;
        }
        let small_tail = self.pending & PUSHED2 != 0 || (self.pending & PUSHED != 0 && !self.pingpong);
        unacked_bytes > self.rcv_mss() || (copied && drained && small_tail)
    }

    /// Marks the last segment as small, as TCP_QUICKACK does before it looks whether to acknowledge.
    pub const fn push(&mut self) {
        self.pending |= PUSHED;
    }
}

/// First guess at the peer's MSS, before any data (`tcp_initialize_rcv_mss`): `mss` is what we send.
#[must_use]
pub fn initial_rcv_mss(advmss: u32, mss: u32, rcv_wnd: u32) -> u16 {
    advmss.min(mss).min(rcv_wnd / 2).clamp(MSS_MIN, MSS_DEFAULT) as u16
}
