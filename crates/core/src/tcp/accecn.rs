//! Accurate ECN (RFC 9768): feedback that counts marks instead of telling that there was one.
//!
//! Of the counters of section 3.2 `r.cep` and `s.cep` are what `Stats::received_ce` and the path's `delivered_ce` count, behind [`CEP_INIT`]: there
//! is one count for TCP_INFO and for the header. What else such a connection needs is here, in memory that others do not have.
mod counters;

use super::conn::Conn;
use super::segment::{Ecn, Segment};
use super::seq::Seq;
use crate::base::time::{Duration, nanos};
use crate::base::{Cx, Instant, Sysctl};
use counters::{Counters, counter, initial, order};
use lowwater_wire::tcp::{AccEcnOption, MAX_OPTIONS_LEN, TcpFlags, TcpOptions, TcpRepr};

/// Initial value of `r.cep` and `s.cep`, so that a field that somebody has zeroed shows (section 3.2.1).
pub(super) const CEP_INIT: u32 = 5;
/// The flags that are the ACE field (section 3.1.1, figure 2).
pub(super) const ACE: TcpFlags = TcpFlags::AE.union(TcpFlags::CWR).union(TcpFlags::ECE);
/// The ACE field has three bits.
const ACE_MASK: u32 = 7;
/// Where they are in the header.
const ACE_SHIFT: u16 = 6;
/// Marks that wait to be told of before an acknowledgement is due at once (section 3.2.2.5.1; `TCP_ACCECN_ACE_MAX_DELTA`).
const PENDING_MAX: u8 = 6;

/// `tcp_ecn_option` by value: only where there is news, in whatever has room, and though some of it seems to be lost.
const FULL: u32 = 2;
const PERSIST: u32 = 3;
/// Bytes by which the peer's option must have been seen once (half of what its counters can tell).
const BEGINS_BY: u64 = (1 << 23) - 1;
/// Segments per acknowledgement, in 64ths, beyond which acknowledgements are taken to be thinned out (`ACK_COMP_THRESH`).
const THINNED: u32 = 4 << 6;
/// A counter of bytes has passed another multiple of this: the option is due (section 3.2.3.3).
const TELL_EACH_SHIFT: u32 = 22;

/// What is wrong with the path of the feedback (`tcpi_accecn_fail_mode`).
pub(super) mod fail {
    /// What we send in the ACE field does not arrive.
    pub(in crate::tcp) const ACE_SEND: u8 = 1;
    /// What the peer sends there does not.
    pub(in crate::tcp) const ACE_RECV: u8 = 2;
    /// What has our option does not arrive.
    pub(in crate::tcp) const OPT_SEND: u8 = 4;
    /// The option of the peer does not arrive as it was sent.
    pub(in crate::tcp) const OPT_RECV: u8 = 8;
}

/// The ACE field.
pub(super) const fn ace(flags: TcpFlags) -> u8 {
    (flags.bits() >> ACE_SHIFT & ACE_MASK as u16) as u8
}

/// The flags of a value.
const fn flags(ace: u8) -> TcpFlags {
    TcpFlags::from_bits_truncate((ace as u16 & ACE_MASK as u16) << ACE_SHIFT)
}

/// The flags of a counter.
pub(super) const fn counted(cep: u32) -> TcpFlags {
    flags((cep & ACE_MASK) as u8)
}

/// What a SYN-ACK says of the SYN's codepoint, and the last ACK of the SYN-ACK's (tables 2 and 3).
pub(super) const fn reflected(mark: Ecn) -> TcpFlags {
    flags(match mark {
        Ecn::NotEct => 0b010,
        Ecn::Ect1 => 0b011,
        Ecn::Ect0 => 0b100,
        Ecn::Ce => 0b110,
    })
}

/// The codepoint that an ACE field of the handshake reflects; those without a meaning are taken for what future versions may have sent with them
/// (section 3.1.2; `tcp_accecn_extract_syn_ect`).
const fn reflects(ace: u8) -> Ecn {
    match ace {
        0b010 => Ecn::NotEct,
        0b000 | 0b100 => Ecn::Ect0,
        0b110 => Ecn::Ce,
        _ => Ecn::Ect1,
    }
}

/// A SYN with these flags asks for accurate ECN: any but none, and those of the classic one (section 3.1.2).
pub(super) const fn is_asked_for(flags: TcpFlags) -> bool {
    !matches!(ace(flags), 0b000 | 0b011)
}

/// A packet that was sent with one codepoint may have the other: routers mark what is capable and do nothing else (section 3.2.2.3).
const fn may_become(sent: Ecn, came: Ecn) -> bool {
    sent as u8 == came as u8 || !matches!((sent, came), (Ecn::NotEct | Ecn::Ce, _) | (_, Ecn::NotEct))
}

/// What a request learns of the path before there is a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Learned {
    /// Codepoint of the peer's last SYN, or of its SYN-ACK.
    pub(super) syn: Ecn,
    /// See [`fail`].
    pub(super) failed: u8,
    pub(super) seen: Seen,
}

impl Learned {
    /// The first options of a peer show whether somebody zeroes them (section 3.2.3.2.4); true where this one was looked at for that.
    pub(super) fn look(&mut self, option: Option<&AccEcnOption>) -> bool {
        let Some(option) = option.filter(|_| self.seen < Seen::Counters) else { return false };
        self.seen = Seen::of(option);
        if self.seen == Seen::Zeroed {
            self.failed |= fail::OPT_RECV;
        }
        true
    }
}

/// What has been seen of the peer's option (`tcpi_accecn_opt_seen`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Seen {
    /// None.
    #[default]
    Nothing,
    /// One without counters.
    Empty,
    /// Counters.
    Counters,
    /// Counters that have no value which they could have begun with.
    Zeroed,
}

impl Seen {
    fn of(option: &AccEcnOption) -> Self {
        let mut counters = option.counters();
        match (counters.next(), counters.nth(1)) {
            (None, _) => Self::Empty,
            (Some(0), _) | (_, Some(0)) => Self::Zeroed,
            _ => Self::Counters,
        }
    }
}

/// When the option goes out (section 3.2.3.3).
#[derive(Clone, Copy, Debug, Default)]
struct Sending {
    /// Segments that are to have it whatever else is said (`accecn_opt_demand`).
    demand: u8,
    /// Counters without which it would not tell what has changed (`accecn_minlen`).
    least: u8,
    /// The next segment has it. Asked once for what leaves together, so that its size and its header agree.
    next: bool,
    /// Where the D-SACK begins that went with it last; lost with it, the same comes again.
    dsack: Option<Seq>,
    /// Where that begins which is in the same header as the option, as long as nobody knows whether that leaves.
    beside: Option<Seq>,
    at: Instant,
}

/// What a connection with accurate ECN has beside its counters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AccEcn {
    pub(super) learned: Learned,
    /// Codepoint of the last packet (`prev_ecnfield`).
    last: Ecn,
    /// Marks since the peer was last told (`received_ce_pending`).
    pending: u8,
    /// The next acknowledgement reflects the codepoint of the SYN or SYN-ACK instead of counting.
    reflects: bool,
    /// The segment at hand has moved TS.Recent on (`FLAG_TS_PROGRESS`).
    newer: bool,
    sending: Sending,
    /// What the peer's option says that arrived.
    told: Counters,
    /// Segments that an acknowledgement covers, as a moving average in 64ths (`pkts_acked_ewma`).
    acked: u32,
}

impl AccEcn {
    /// Bytes that the peer has got with ECT(1), ECT(0) and CE, by its option.
    pub(super) const fn delivered(&self) -> [u32; 3] {
        self.told.bytes()
    }

    /// Packets may be marked: what is known of the path does not speak against it (section 3.2.2.3; `tcp_ecn_send`).
    pub(super) const fn marks(&self) -> bool {
        self.learned.failed & (fail::ACE_SEND | fail::ACE_RECV) == 0
    }

    /// Whether the next segment has the option (section 3.2.3.3; `tcp_established_options`): not before the peer has shown its own.
    /// Without news it goes several times in a round trip, so that a peer that has lost some sees the rest.
    fn decide(&mut self, sysctl: &Sysctl, now: Instant, srtt: Option<Duration>) {
        let (when, each) = (sysctl.tcp_ecn_option, u64::from(sysctl.tcp_ecn_option_beacon));
        let sending = &mut self.sending;
        let passed = now.nanos_since(sending.at).saturating_mul(each);
        let beacon = each > 0 && passed >= srtt.map_or(0, nanos);
        sending.next = when > 0
            && self.learned.seen > Seen::Nothing
            && (when >= PERSIST || self.learned.failed & fail::OPT_SEND == 0)
            && (when >= FULL || sending.demand > 0 || beacon);
    }

    /// What the peer's option says (`tcp_accecn_process_option`); true where the bytes delivered with a mark are known by it. `bytes` have been
    /// delivered, `sent` were sent in all.
    fn take(&mut self, option: Option<&AccEcnOption>, bytes: u32, sent: u64) -> bool {
        if self.learned.failed & fail::OPT_RECV != 0 {
            return false;
        }
        let Some(option) = option else {
            if self.learned.seen == Seen::Nothing {
                if sent >= BEGINS_BY {
                    // Nobody knows any more how often its counters have wrapped.
                    (self.learned.seen, self.learned.failed) =
                        (Seen::Zeroed, self.learned.failed | fail::OPT_RECV);
                }
                return false;
            }
            return self.told.go_on(bytes);
        };
        self.learned.look(Some(option));
        self.told.take(option)
    }

    /// Peers and networks that thin acknowledgements out have each cover many segments (appendix A.2.1).
    fn average(&mut self, segs: u32) {
        if segs > 0 {
            let sample = segs << 6;
            self.acked =
                if self.acked == 0 { sample } else { ((self.acked << 6) - self.acked + sample) >> 6 }
                    .min(u32::from(u16::MAX));
        }
    }
}

/// The option of a SYN-ACK, as long as it fits (`tcp_options_fit_accecn`).
pub(super) fn fill_syn_ack(options: &mut TcpOptions, sysctl: &Sysctl) {
    if sysctl.tcp_ecn_option == 0 {
        return;
    }
    let counters = order(true).map(initial);
    let used = options.buffer_len();
    let fits = |n: &usize| used + options.accecn_len(2 + 3 * n) <= MAX_OPTIONS_LEN;
    if let Some(n) = (0..=3).rev().find(fits) {
        options.set_accecn(AccEcnOption::new(true, &counters[..n]));
    }
}

/// How many counters go out and beside how many SACK blocks, with `room` for both: at least those that say what has changed, to which SACK blocks
/// but two give way (`tcp_options_fit_accecn`).
fn fit(least: u8, blocks: usize, room: usize) -> Option<(usize, usize)> {
    let least = usize::from(least);
    // Beside four blocks Linux may have one counter more.
    let blocks = blocks.min(3);
    let fewest = if least > 0 { blocks.min(2) } else { blocks };
    (fewest..=blocks).rev().find_map(|kept| {
        let sack = if kept == 0 { 0 } else { 4 + 8 * kept };
        let fields = (least..=3).rev().find(|n| sack + option_bytes(*n, kept) <= room)?;
        Some((fields, kept))
    })
}

/// Bytes that so many counters take of the header beside so many SACK blocks.
const fn option_bytes(fields: usize, blocks: usize) -> usize {
    let len = 2 + 3 * fields;
    if blocks > 0 && len % 4 <= 2 { len - len % 4 } else { len.next_multiple_of(4) }
}

/// What a segment tells the sender of marks.
#[derive(Debug)]
pub(super) struct Feedback<'a> {
    pub(super) state: &'a mut AccEcn,
    pub(super) ace: u8,
    pub(super) option: Option<AccEcnOption>,
    /// Bytes sent in all.
    pub(super) sent: u64,
}

/// What an acknowledgement has delivered, as far as its feedback is judged by it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivered {
    pub(super) segs: u32,
    /// Something was acknowledged or sacked that was not before.
    pub(super) progress: bool,
    /// Our SYN was.
    pub(super) syn: bool,
    pub(super) bytes: u32,
    /// Payload bytes of a full segment.
    pub(super) mss: u32,
    /// Segments that are not acknowledged are known to be lost or not.
    pub(super) sure: bool,
}

impl Feedback<'_> {
    /// By how much `s.cep` has grown (section 3.2.2.5.2, appendix A.2): of an ACE field that may have wrapped the safe side is taken. `told` is
    /// `s.cep` without its initial value. The second is true where marks that came here have waited for too long.
    pub(super) fn delta(&mut self, told: u32, delivered: Delivered) -> (u32, bool) {
        // It may have been overtaken: it acknowledges nothing new, and has no newer timestamp.
        if !delivered.progress && !self.state.newer {
            return (0, false);
        }
        let before = self.state.told.marked();
        let known = self.state.take(self.option.as_ref(), delivered.bytes, self.sent);
        self.state.average(delivered.segs);
        if delivered.syn {
            // In the handshake the field has another meaning.
            return (0, false);
        }
        let overdue = self.state.pending >= PENDING_MAX;
        let delta = u32::from(self.ace).wrapping_sub(CEP_INIT).wrapping_sub(told) & ACE_MASK;
        if delivered.segs <= ACE_MASK {
            return (delta, overdue);
        }
        let safe = delivered.segs - (delivered.segs.wrapping_sub(delta) & ACE_MASK);
        let marked = known.then(|| self.state.told.marked().wrapping_sub(before));
        (self.judge(delta, safe, marked, &delivered), overdue)
    }

    /// Which of the two it is that the field tells: `delta`, or `safe` if it has wrapped as often as it can have. The bytes `marked`, where they are
    /// known, nearly always say it (appendix A.2.2).
    fn judge(&self, delta: u32, safe: u32, marked: Option<u32>, delivered: &Delivered) -> u32 {
        let Some(marked) = marked else {
            return if self.state.acked > THINNED { delta } else { safe };
        };
        if marked == 0 {
            return delta;
        }
        if delivered.segs >= 2 * (ACE_MASK + 1) && delivered.sure {
            if delivered.bytes <= marked {
                return safe;
            }
            let share = u64::from(marked) * u64::from(delivered.segs);
            let estimate = share.div_ceil(u64::from(delivered.bytes)) as u32;
            return safe.min(delta + (estimate & !ACE_MASK));
        }
        let bytes = |segs: u32| u64::from(segs) * u64::from(delivered.mss);
        let marked = u64::from(marked);
        if marked <= bytes(delta) && marked < bytes(safe) / 2 { delta } else { safe }
    }
}

impl Conn {
    /// What accurate ECN keeps, if it is in use.
    pub(super) fn accurate(&self) -> Option<&AccEcn> {
        self.rest.seldom.as_ref()?.accecn.as_deref()
    }

    /// Accurate ECN is in use, and nothing speaks against marking whatever leaves.
    pub(super) fn marks_all(&self) -> bool {
        self.peer.ecn.accurate() && self.accurate().is_none_or(AccEcn::marks)
    }

    /// What is agreed on about ECN lets a super-packet's segments all carry its CWR, which is a bit of the ACE field.
    #[must_use]
    pub const fn repeats_cwr(&self) -> bool {
        self.peer.ecn.accurate()
    }

    /// The flags of the next segment (`tcp_accecn_set_ace`).
    pub(super) fn ace_flags(&self) -> TcpFlags {
        match self.accurate() {
            Some(state) if state.reflects => reflected(state.learned.syn),
            _ => counted(CEP_INIT.wrapping_add(self.rest.stats.received_ce)),
        }
    }

    /// A segment with this header leaves, and what it says need not be said again. One that has been made and waits may never leave.
    pub(super) fn note_told(&mut self, cx: &Cx<'_>, repr: &TcpRepr) {
        if !self.peer.ecn.accurate() {
            return;
        }
        let srtt = self.path.rtt.srtt();
        let state = self.rest.accecn();
        if !core::mem::take(&mut state.reflects) {
            state.pending = 0;
        }
        if repr.options.accecn().is_none() {
            state.sending.dsack = None;
            return;
        }
        let demand = state.sending.demand.saturating_sub(1);
        let dsack = state.sending.beside;
        state.sending = Sending { demand, least: 0, next: true, dsack, beside: dsack, at: cx.now };
        state.decide(cx.sysctl, cx.now, srtt);
    }

    /// The ACE field that says nothing new.
    pub(super) fn ace_expected(&self) -> TcpFlags {
        counted(CEP_INIT.wrapping_add(self.path.rate.delivered_ce()))
    }

    /// The peer's SYN-ACK grants it (`tcp_ecn_rcv_synack_accecn`); our SYN is never marked as capable.
    pub(super) fn accurate_granted(&mut self, fallback: bool, seg: &Segment) {
        let reserved = ace(seg.flags) == 0b101;
        let state = self.rest.accecn();
        state.learned.syn = seg.ecn();
        if state.learned.look(seg.options.accecn().as_ref()) {
            state.sending.demand = 2;
        }
        if seg.ecn() == Ecn::Ce && (reserved || self.heard_as_sent(fallback, seg)) {
            self.rest.stats.received_ce = self.rest.stats.received_ce.wrapping_add(1);
            self.rest.accecn().pending += 1;
        }
    }

    /// The peer's SYN has crossed ours and asks for the same (`tcp_ecn_rcv_syn`).
    pub(super) fn accurate_crossed(&mut self, seg: &Segment) {
        let state = self.rest.accecn();
        (state.learned.syn, state.last) = (seg.ecn(), seg.ecn());
    }

    /// The next acknowledgement reflects how the peer's SYN or SYN-ACK came (section 3.2.2.1, table 3).
    pub(super) fn reflect_next(&mut self) {
        if self.peer.ecn.accurate() {
            self.rest.accecn().reflects = true;
        }
    }

    /// A SYN within the window of a connection with accurate ECN: the challenge reflects it, if one `answers` (section 3.1.5;
    /// `tcp_validate_incoming`).
    pub(super) fn take_syn_again(&mut self, seg: &Segment, answers: bool) {
        if self.peer.ecn.accurate() {
            let state = self.rest.accecn();
            state.learned.syn = seg.ecn();
            state.reflects |= answers;
            if state.learned.look(seg.options.accecn().as_ref()) {
                state.sending.demand = state.sending.demand.max(1);
            }
        }
    }

    /// A passive open begins with what its request has learned, and with the segment at hand (`tcp_ecn_openreq_child`).
    pub(super) fn begin_accurate(&mut self, learned: Learned, fallback: bool, seg: &Segment) {
        if !self.peer.ecn.accurate() {
            return;
        }
        let state = self.rest.accecn();
        (state.learned, state.last) = (learned, learned.syn);
        state.sending.demand = 1;
        self.third_ack(fallback, seg);
        self.count_marks(seg);
    }

    /// The ACE field of the handshake's last ACK (section 3.2.2.1, tables 3 and 4; `tcp_accecn_third_ack`).
    pub(super) fn third_ack(&mut self, fallback: bool, seg: &Segment) {
        if !self.peer.ecn.accurate() {
            return;
        }
        let (bare, sacks) = (seg.seq_len() == 0, !seg.options.sack.is_empty());
        match ace(seg.flags) {
            0 if !sacks => self.rest.accecn().learned.failed |= fail::ACE_RECV | fail::OPT_RECV,
            0b000 | 0b001 | 0b101 | 0b111 => {}
            heard => {
                let counts = bare && !sacks && self.heard_as_sent(fallback, seg);
                if counts && reflects(heard) == Ecn::Ce && self.path.rate.delivered_ce() == 0 {
                    self.path.rate.count_marked(1);
                }
            }
        }
    }

    /// What the peer says of the codepoint of our SYN or SYN-ACK, which had none, can be true; else the network plays with it, and nothing more is
    /// marked (section 3.2.2.3; `tcp_accecn_validate_syn_feedback`).
    fn heard_as_sent(&mut self, fallback: bool, seg: &Segment) -> bool {
        let sane = !fallback || may_become(Ecn::NotEct, reflects(ace(seg.flags)));
        if !sane {
            self.rest.accecn().learned.failed |= fail::ACE_RECV;
        }
        sane
    }

    /// A segment came, with data or without: `r.cep` counts all, and a change of codepoint is told at once (section 3.2.2.5.1;
    /// `tcp_ecn_received_counters`).
    pub(super) fn note_accurate(&mut self, seg: &Segment) {
        let (mark, len) = (seg.ecn(), seg.payload_len());
        let before = counter(&mut self.rest.seldom().received_marked, mark).map_or(0, |bytes| *bytes);
        let state = self.rest.accecn();
        if mark == Ecn::Ce {
            state.pending = state.pending.saturating_add(u8::try_from(seg.segs()).unwrap_or(u8::MAX)).min(15);
        }
        if mark != Ecn::NotEct && len > 0 {
            let place = order(true).iter().position(|other| *other == mark).unwrap_or(0);
            state.sending.least = state.sending.least.max(place as u8 + 1);
            if before >> TELL_EACH_SHIFT != before.wrapping_add(len) >> TELL_EACH_SHIFT {
                state.sending.demand = state.sending.demand.max(1);
            }
        }
        let edge = core::mem::replace(&mut state.last, mark) != mark;
        if edge || mark == Ecn::Ce {
            // The second of two says what the codepoint is now.
            state.sending.demand = 2;
        }
        if edge {
            self.rx.ack.demand();
        }
    }

    /// Whether what leaves next has the option.
    pub(super) fn decide_option(&mut self, cx: &Cx<'_>) {
        if !self.peer.ecn.accurate() {
            return;
        }
        let srtt = self.path.rtt.srtt();
        self.rest.accecn().decide(cx.sysctl, cx.now, srtt);
    }

    /// Counters in the next segment, and SACK blocks beside them, of `blocks` with `room` for both; `None` where it has no counters.
    fn next_option(&self, blocks: usize, room: usize) -> Option<(usize, usize)> {
        let sending = self.accurate()?.sending;
        if sending.next { fit(sending.least, blocks, room) } else { None }
    }

    /// Bytes of SACK blocks and counters in the next segment (`tcp_current_mss`).
    pub(super) fn changing_option_bytes(&self, blocks: usize, room: usize) -> usize {
        let sack = |blocks| if blocks == 0 { 0 } else { 4 + 8 * blocks };
        if !self.peer.ecn.accurate() {
            return sack(blocks);
        }
        self.next_option(blocks, room)
            .map_or_else(|| sack(blocks), |(fields, kept)| sack(kept) + option_bytes(fields, kept))
    }

    /// Blocks that leave room for the counters.
    pub(super) fn blocks_beside_counters(&self, blocks: usize, room: usize) -> usize {
        self.next_option(blocks, room).map_or(blocks, |(_, kept)| kept)
    }

    /// Adds the counters to the options of a segment, of which `room` bytes are for them and the SACK blocks (`tcp_options_write`).
    pub(super) fn add_counters(&mut self, options: &mut TcpOptions, room: usize) {
        let Some((fields, _)) = self.next_option(options.sack.len(), room) else { return };
        let dsack = self.rx.dsack().map(|(start, _)| start);
        let mut received = self.rest.seldom().received_marked;
        self.rest.accecn().sending.beside = dsack;
        let counters = order(true)
            .map(|mark| counter(&mut received, mark).map_or(0, |bytes| bytes.wrapping_add(initial(mark))));
        options.set_accecn(AccEcnOption::new(true, &counters[..fields]));
    }

    /// Data came again that a D-SACK has told of: what carried that and our option was lost, perhaps for the option
    /// (section 3.2.3.2.2; `tcp_rcv_spurious_retrans`).
    pub(super) fn suspect_option(&mut self, seg: &Segment) {
        if self.peer.ecn.accurate() {
            let state = self.rest.accecn();
            if state.sending.dsack == Some(seg.seq) {
                state.learned.failed |= fail::OPT_SEND;
            }
        }
    }

    /// TS.Recent was `before`, and may have moved on with the segment at hand.
    pub(super) fn note_timestamp(&mut self, before: u32) {
        let newer = self.peer.stamps.recent.wrapping_sub(before) as i32 > 0;
        self.rest.accecn().newer = newer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1_000;

    fn of(segs: u32) -> Delivered {
        Delivered { segs, progress: true, syn: false, bytes: segs * MSS, mss: MSS, sure: true }
    }

    fn told(state: &mut AccEcn, ace: u8, told: u32, delivered: Delivered) -> (u32, bool) {
        Feedback { state, ace, option: None, sent: 0 }.delta(told, delivered)
    }

    fn delta(ace: u8, cep: u32, segs: u32) -> u32 {
        // Acknowledgements have covered a segment each.
        told(&mut AccEcn { acked: 1 << 6, ..AccEcn::default() }, ace, cep, of(segs)).0
    }

    #[test]
    fn a_field_of_the_handshake_has_its_own_code() {
        for (mark, want) in [(Ecn::NotEct, 2), (Ecn::Ect1, 3), (Ecn::Ect0, 4), (Ecn::Ce, 6)] {
            assert_eq!((ace(reflected(mark)), reflects(want)), (want, mark));
            assert_eq!(reflected(mark) - ACE, TcpFlags::EMPTY);
        }
        let asks = |ace: u8| is_asked_for(flags(ace) | TcpFlags::SYN);
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(asks), [false, true, true, false, true, true, true, true]);
    }

    #[test]
    fn routers_mark_what_is_capable_and_do_nothing_else() {
        assert!(may_become(Ecn::NotEct, Ecn::NotEct) && may_become(Ecn::Ect0, Ecn::Ce));
        assert!(!may_become(Ecn::NotEct, Ecn::Ce) && !may_become(Ecn::Ect0, Ecn::NotEct));
        assert!(!may_become(Ecn::Ce, Ecn::Ect1) && may_become(Ecn::Ect1, Ecn::Ect0));
    }

    #[test]
    fn of_a_field_that_may_have_wrapped_the_safe_side_is_taken() {
        // From 5 on: none, one, and seven, of as many segments at the most.
        assert_eq!([5, 6, 4].map(|ace| delta(ace, 0, 7)), [0, 1, 7]);
        // The field is behind by three bits of what was told before.
        assert_eq!(delta(6, 9, 2), 0);
        // Nine segments, and one mark or nine of them.
        assert_eq!(delta(6, 0, 9), 9);
        assert_eq!(delta(6, 0, 8), 1);
        assert_eq!(delta(5, 0, 8), 8);
        assert_eq!(delta(5, 0, 100), 96);
    }

    #[test]
    fn what_is_overtaken_says_nothing() {
        let mut state = AccEcn { pending: PENDING_MAX, ..AccEcn::default() };
        let none = Delivered { progress: false, ..of(0) };
        assert_eq!(told(&mut state, 6, 0, none), (0, false));
        state.newer = true;
        assert_eq!(told(&mut state, 6, 0, none), (1, true));
        assert_eq!(told(&mut state, 6, 0, Delivered { syn: true, ..of(1) }), (0, false));
    }

    #[test]
    fn counters_of_bytes_say_how_often_the_field_has_wrapped() {
        let delta = |segs: u32, sure: bool, marked: u32| {
            let mut state = AccEcn { told: Counters::only(Ecn::Ect0), ..AccEcn::default() };
            state.learned.seen = Seen::Counters;
            let option = AccEcnOption::new(false, &[1 + segs * MSS - marked, marked]);
            let mut heard = Feedback { state: &mut state, ace: 6, option: Some(option), sent: 0 };
            heard.delta(0, Delivered { sure, ..of(segs) }).0
        };
        // Twenty segments; the field moves by one, which is one, nine or seventeen.
        assert_eq!([0, 1_000, 9_000, 17_000].map(|marked| delta(20, true, marked)), [1, 1, 9, 17]);
        // All bytes are marked: as many as the field can tell.
        assert_eq!(delta(20, true, 20_000), 17);
        // What has not arrived may have been marked as well: not one, so the most of them.
        assert_eq!([0, 1_000, 1_001, 9_000].map(|marked| delta(20, false, marked)), [1, 1, 17, 17]);
        // From sixteen segments on marks are estimated; of fewer it is one or the most, nine.
        assert_eq!([1_000, 1_001, 2_000, 9_000].map(|marked| delta(16, true, marked)), [1, 1, 1, 9]);
        for segs in [9, 15] {
            assert_eq!([0, 1_000, 1_001, 9_000].map(|marked| delta(segs, true, marked)), [1, 1, 9, 9]);
        }
        // Where acknowledgements are thinned out nothing but the field counts.
        let mut state = AccEcn::default();
        assert_eq!(told(&mut state, 6, 0, of(20)).0, 1);
    }

    #[test]
    fn the_setting_says_which_segments_have_the_option() {
        let (at, srtt) = (Instant::from_millis, Some(Duration::from_millis(90)));
        let sends = |option, beacon, state: &mut AccEcn, ms| {
            let sysctl =
                Sysctl { tcp_ecn_option: option, tcp_ecn_option_beacon: beacon, ..Sysctl::default() };
            state.decide(&sysctl, at(ms), srtt);
            state.sending.next
        };
        let mut state = AccEcn::default();
        assert!(!sends(3, 3, &mut state, 1_000), "not before the peer has shown its own");
        state.learned.seen = Seen::Counters;
        state.sending.at = at(1_000);
        assert_eq!(
            [0, 1, 2, 3].map(|option| sends(option, 3, &mut state, 1_000)),
            [false, false, true, true]
        );
        // Thrice in a round trip.
        assert_eq!([1_029, 1_030].map(|ms| sends(1, 3, &mut state, ms)), [false, true]);
        assert_eq!([1_089, 1_090].map(|ms| sends(1, 1, &mut state, ms)), [false, true]);
        assert!(!sends(1, 0, &mut state, 9_000));
        state.sending.demand = 1;
        assert!(sends(1, 0, &mut state, 1_000) && !sends(0, 0, &mut state, 1_000));
        state.learned.failed = fail::OPT_SEND;
        assert_eq!([1, 2, 3].map(|option| sends(option, 3, &mut state, 9_000)), [false, false, true]);
    }

    #[test]
    fn zeroed_counters_are_not_believed() {
        for (option, want) in [
            (AccEcnOption::new(false, &[]), (Seen::Empty, 0)),
            (AccEcnOption::new(false, &[1]), (Seen::Counters, 0)),
            (AccEcnOption::new(false, &[0]), (Seen::Zeroed, fail::OPT_RECV)),
            (AccEcnOption::new(true, &[1, 0, 0]), (Seen::Zeroed, fail::OPT_RECV)),
            (AccEcnOption::new(true, &[1, 0, 1]), (Seen::Counters, 0)),
        ] {
            let mut learned = Learned::default();
            assert!(learned.look(Some(&option)));
            assert_eq!((learned.seen, learned.failed), want);
        }
    }

    #[test]
    fn blocks_give_way_to_the_counters_that_have_changed() {
        // All of it beside timestamps; with three blocks there is room for none, and the option stands in the place of their NOPs.
        assert_eq!([fit(0, 0, 28), fit(0, 1, 28), fit(0, 3, 28)], [Some((3, 0)), Some((3, 1)), Some((0, 3))]);
        // Two counters stand in the room of a block and the NOPs of the others.
        assert_eq!([fit(0, 2, 28), fit(2, 3, 28), fit(3, 2, 28)], [Some((2, 2)), Some((2, 2)), None]);
        assert_eq!(
            [0, 1, 2, 3].map(|n| (option_bytes(n, 0), option_bytes(n, 1))),
            [(4, 0), (8, 4), (8, 8), (12, 12)]
        );
    }
}
