//! The receiving half of a connection: ties queue, window, SACK and acknowledgement policy together (`tcp_data_queue`).
use super::ack_policy::{AckFacts, AckPolicy, PathFacts, initial_rcv_mss};
use super::options::SocketOptions;
use super::sack_out::SackOut;
use super::segment::Segment;
use super::seq::Seq;
use super::window::{InitialWindow, RcvBuf, RcvWindow};
use crate::base::{Cx, Duration, Instant, Pressure, Sysctl};
pub use data_queue::{Arrival, Received};
use intake::Intake;
use urgent::Urgent;
mod data_queue;
mod intake;
mod read;
mod urgent;

#[cfg(test)]
mod tests;

/// What the handshake settled, as far as receiving is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// SACK is on.
    pub sack: bool,
    /// Window scaling is on.
    pub wscale: bool,
    /// TCP header of every segment from now on: 20, or 32 with timestamps.
    pub header_bytes: u8,
    /// The MSS of what we send, for the first guess at what the peer sends.
    pub mss: u16,
    /// The connection begins with its SYN (Fast Open): its options count when the handshake is over.
    pub fast: bool,
}

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    /// A listener's child waits to be accepted.
    Nobody,
    /// The application may.
    Application,
    /// It does not want anything any more.
    Gone,
}

/// RCV.NXT, the data behind it and the window before it. No heap while both queues are empty.
///
/// Output asks [`Self::ack_due`], fills headers from [`Self::select_window`] and [`Self::sack_blocks`] and reports
/// [`Self::on_ack_sent`] for every segment that carries an ACK. [`Self::deadline`] is lazy: it may move in both directions.
#[derive(Debug)]
pub struct Receiver {
    intake: Intake,
    /// Acknowledgement policy; public for the rules that need more than receiving (ECN, FIN, handshake).
    pub ack: AckPolicy,
    sacks: SackOut,
    /// Bytes that must wait before the application is told (SO_RCVLOWAT).
    lowat: u32,
    urgent: Urgent,
    sack_ok: bool,
    reader: Reader,
    /// Header prediction is on (`pred_flags` is not 0).
    foreseen: bool,
    header_bytes: u8,
}

impl Receiver {
    /// The receiver as its own SYN offers it. `advmss` is the MSS in that SYN.
    #[must_use]
    pub const fn new(initial: InitialWindow, buf: RcvBuf, advmss: u16) -> Self {
        Self {
            intake: Intake::new(initial, buf, advmss),
            ack: AckPolicy::new(536),
            sacks: SackOut::new(),
            lowat: 1,
            urgent: Urgent::new(),
            sack_ok: false,
            reader: Reader::Application,
            foreseen: false,
            header_bytes: 20,
        }
    }

    /// A listener's child waits to be accepted.
    pub(super) const fn await_owner(&mut self) {
        self.reader = Reader::Nobody;
    }

    /// It waits no longer.
    pub(super) const fn hand_over(&mut self) {
        self.reader = Reader::Application;
    }

    /// Our SYN, which has not been sent yet, offers another window.
    pub const fn reoffer(&mut self, initial: InitialWindow, advmss: u16) {
        let errors = self.intake.window.errors();
        self.intake.window = RcvWindow::new(initial, self.intake.window.buf(), advmss);
        self.intake.window.set_errors(errors);
    }

    /// The peer's SYN has come: RCV.NXT = IRS + 1. The window of our SYN or SYN-ACK counts from there.
    pub const fn synchronize(&mut self, irs: Seq) {
        self.intake.synchronize(Seq(irs.0.wrapping_add(1)));
    }

    /// The handshake is over, or this side has all it needs from it (`tcp_init_transfer`). The acknowledgement policy starts
    /// afresh: owe the handshake's last ACK after this.
    pub fn establish(&mut self, cx: &Cx<'_>, with: Negotiated) {
        self.sack_ok = with.sack;
        self.header_bytes = with.header_bytes;
        if !with.wscale {
            self.intake.window.no_scaling();
        }
        if !with.fast {
            self.allow_for_options();
        }
        self.intake.window.establish(cx.sysctl);
        let (advmss, wnd) = (self.intake.window.advmss(), self.intake.window.wnd());
        let policy = AckPolicy::new(initial_rcv_mss(advmss, u32::from(with.mss), wnd));
        self.ack = policy.as_told(&self.ack);
        self.ack.began(cx.now);
        self.foreseen = true;
        self.intake.establish(cx.now);
    }

    /// The first guess at the peer's segments where ours have `mss` bytes (`tcp_initialize_rcv_mss`).
    pub fn guess_mss(&mut self, mss: u16) {
        let (advmss, wnd) = (self.intake.window.advmss(), self.intake.window.wnd());
        self.ack.expect(initial_rcv_mss(advmss, u32::from(mss), wnd));
    }

    /// The last segment of the handshake says how long the peer's are, where it has data.
    pub fn expect_like(&mut self, seg: &Segment) {
        self.ack.expect_like(seg.payload_len() + seg.header_bytes(), u32::from(self.header_bytes));
    }

    /// The peer selectively acknowledges, and is so acknowledged.
    pub const fn set_sack(&mut self, on: bool) {
        self.sack_ok = on;
    }

    /// Every segment has options from now on.
    pub fn allow_for_options(&mut self) {
        self.intake.window.allow_for_options(u16::from(self.header_bytes).saturating_sub(20));
    }

    /// RCV.NXT: the next sequence number expected.
    #[must_use]
    pub const fn nxt(&self) -> Seq {
        self.intake.nxt()
    }

    /// RCV.WND as the peer may still use it: bytes from RCV.NXT to the right edge.
    #[must_use]
    pub fn open_window(&self) -> u32 {
        self.intake.open_window()
    }

    /// The window's state, for reports and the acceptability test (`wup`, `wnd`, `scale`, bounds).
    #[must_use]
    pub const fn window(&self) -> &RcvWindow {
        &self.intake.window
    }

    /// Sequence number of the next byte that the application will read (`copied_seq`).
    #[must_use]
    pub fn copied_seq(&self) -> Seq {
        self.intake.copied_seq()
    }

    /// Bytes that the application can read now.
    #[must_use]
    pub const fn readable_bytes(&self) -> u32 {
        self.intake.queue.readable_bytes()
    }

    /// Nothing waits for the application, neither bytes nor a FIN by itself.
    #[must_use]
    pub fn has_nothing_ready(&self) -> bool {
        self.intake.queue.has_nothing_ready()
    }

    /// True when the peer's FIN is in order.
    #[must_use]
    pub const fn fin_reached(&self) -> bool {
        self.intake.queue.fin_reached()
    }

    /// True when everything up to the FIN has been read.
    #[must_use]
    pub const fn at_eof(&self) -> bool {
        self.intake.queue.at_eof()
    }

    /// True while data is held beyond a hole.
    #[must_use]
    pub fn has_hole(&self) -> bool {
        self.intake.queue.has_hole()
    }

    /// The highest number that the blocks of the next acknowledgement tell the peer.
    #[must_use]
    pub fn highest_told(&self) -> Option<Seq> {
        self.sacks.highest()
    }

    /// The owner's error queue holds so many bytes of charge, for which the receive buffer has that much less room (`sock_queue_err_skb`).
    pub const fn charge_errors(&mut self, bytes: u32) {
        self.intake.window.set_errors(bytes);
    }

    /// What Linux would charge for what waits here, in bytes: `sk_rmem_alloc` without the error queue.
    #[must_use]
    pub const fn truesize(&self) -> u32 {
        self.intake.queue.truesize()
    }

    /// What is left of the pages that Linux would have taken for this socket, where `sending` bytes are to be sent
    /// (`sk_forward_alloc`).
    #[must_use]
    pub const fn set_aside(&self, sending: u32) -> u32 {
        self.intake.queue.set_aside(sending)
    }

    /// Something that was sent has been acknowledged, and its buffer freed (`tcp_wmem_free_skb`).
    pub const fn uncharge(&mut self) {
        self.intake.queue.uncharge();
    }

    /// Memory that really waits here, in bytes.
    #[must_use]
    pub const fn charge(&self) -> u32 {
        self.intake.queue.charge()
    }

    /// The round trip as the receiver measures it; zero while unknown.
    #[must_use]
    pub const fn rtt(&self) -> Duration {
        self.intake.space.rtt()
    }

    /// Bytes read in the last measured round trip (`tcpi_rcv_space`).
    #[must_use]
    pub const fn rcv_space(&self) -> u32 {
        self.intake.space.space()
    }

    /// Whether to tell the application: enough to read, or no room for more, here or in the stack (`tcp_epollin_ready`).
    #[must_use]
    pub fn is_readable(&self, pressure: Pressure) -> bool {
        let waiting = self.intake.queue.readable_bytes();
        let buf = self.intake.window.buf().bytes;
        self.intake.queue.fin_reached()
            || (waiting > 0
                && (waiting >= self.lowat.saturating_add(self.urgent_bytes())
                    || pressure >= Pressure::Pressed
                    || self.intake.charged() > buf - buf / 8
                    || self.intake.open_window() <= self.ack.rcv_mss()))
    }

    /// SO_RCVLOWAT: also makes the buffer large enough for it (`tcp_set_rcvlowat`).
    pub fn set_lowat(&mut self, sysctl: &Sysctl, bytes: u32) {
        let buf = self.intake.window.buf();
        let cap = if buf.locked { buf.bytes } else { sysctl.tcp_rmem.max } / 2;
        self.lowat = bytes.min(cap).max(1);
        self.intake.window.make_room_for(self.lowat);
    }

    /// Nobody reads on, whatever is still taken (SHUT_RD): reading opens no window.
    pub const fn shut(&mut self) {
        self.reader = Reader::Gone;
    }

    /// Header prediction is on: what comes next may be as expected.
    #[must_use]
    pub const fn is_foreseen(&self) -> bool {
        self.foreseen
    }

    /// A handshake begins or ends header prediction (`tcp_finish_connect`, `tcp_rcv_state_process`).
    pub const fn set_foreseen(&mut self, on: bool) {
        self.foreseen = on;
    }

    /// Header prediction begins again once nothing is unusual, the buffer not full among that; what ends it is said where it happens
    /// (`tcp_fast_path_check`).
    pub fn foresee(&mut self) {
        self.foreseen |= !self.intake.queue.has_hole()
            && self.intake.window.wnd() > 0
            && self.intake.charged() < self.intake.window.buf().bytes
            && !self.urgent.is_set();
    }

    /// The options of a new connection, whose buffer has room for its low-water mark already.
    pub const fn begin_with(&mut self, options: &SocketOptions) {
        if options.rcvlowat > 0 {
            self.lowat = options.rcvlowat;
        }
        self.set_oob_inline(options.oobinline);
        self.ack.set_delay_max(options.delack_max_us);
        self.ack.set_pingpong(options.interactive);
    }

    /// A SYN that goes again offers a smaller MSS.
    pub const fn lower_advmss(&mut self, advmss: u16) {
        self.intake.window.lower_advmss(advmss);
    }

    /// SO_RCVBUF as it reads back (see [`RcvBuf::so_rcvbuf`]).
    pub fn set_rcvbuf(&mut self, bytes: u32) {
        self.intake.window.set_rcvbuf(bytes);
    }

    /// The receive buffer tunes itself from what it is on (SO_BUF_LOCK).
    pub const fn unlock_rcvbuf(&mut self) {
        self.intake.window.unlock_rcvbuf();
    }

    /// The bound is off.
    pub fn lift_window_clamp(&mut self) {
        self.intake.window.lift_clamp();
    }

    /// TCP_WINDOW_CLAMP.
    pub fn set_window_clamp(&mut self, bytes: u32) {
        self.intake.window.set_clamp(bytes);
    }

    /// An acceptable segment echoed our timestamp `tsecr` after `ticks_ms` milliseconds; call before [`Self::on_data`].
    pub fn on_timestamp_echo(&mut self, tsecr: u32, ticks_ms: u32, payload_bytes: u32) {
        let drained = self.intake.queue.readable_bytes() == 0;
        self.intake.space.on_timestamp(tsecr, ticks_ms, payload_bytes >= self.ack.rcv_mss(), drained);
    }

    /// After each segment, once all its effects are known: decides about the owed ACK (`tcp_ack_snd_check`).
    pub fn check_ack(&mut self, cx: &Cx<'_>, path: PathFacts) {
        let unacked_bytes = self.intake.nxt().since(self.intake.window.wup());
        // Asking for the window ends quick mode when memory is short: only where the answer counts.
        let window_moves = unacked_bytes > self.ack.rcv_mss()
            && (self.intake.queue.readable_bytes() < self.lowat
                || self.offer(cx) >= self.intake.window.wnd());
        let facts = AckFacts {
            unacked_bytes,
            rcv_nxt: self.intake.nxt(),
            window_moves,
            hole: self.intake.queue.has_hole(),
            sack: self.sack_ok,
            rcv_rtt: self.intake.space.rtt(),
        };
        self.ack.check(cx, path, &facts);
    }

    fn offer(&mut self, cx: &Cx<'_>) -> u32 {
        let offer = self.intake.offer(cx, self.ack.rcv_mss());
        if offer.tight {
            self.ack.stop_quick();
        }
        offer.wnd
    }

    /// Acknowledges the next segments one by one.
    pub fn enter_quickack(&mut self, max: u32) {
        self.ack.enter_quick(self.intake.window.wnd(), max);
    }

    /// TCP_QUICKACK (`__tcp_sock_set_quickack`); `open` says that the peer may still send.
    pub fn set_quickack(&mut self, cx: &Cx<'_>, value: u32, open: bool) {
        if value == 0 {
            return self.ack.set_pingpong(true);
        }
        self.ack.set_pingpong(false);
        if open && self.ack.owed() {
            self.ack.push();
            self.cleanup(cx, true, false);
            if value & 1 == 0 {
                self.ack.set_pingpong(true);
            }
        }
    }

    /// An ACK must go out with the next run of the output.
    #[must_use]
    pub const fn ack_due(&self) -> bool {
        self.ack.due()
    }

    /// When [`Self::on_deadline`] wants to be called (delayed or compressed ACK).
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.ack.deadline()
    }

    /// The deadline may have passed; see [`Self::ack_due`] afterwards.
    pub fn on_deadline(&mut self, cx: &mut Cx<'_>, rto: Duration) {
        self.ack.on_deadline(cx, rto);
    }

    /// The window that a segment says which goes out now: what [`Self::select_window`] has for it.
    #[must_use]
    pub fn next_window(&self, cx: &Cx<'_>) -> u32 {
        self.intake.next_window(cx, self.ack.rcv_mss())
    }

    /// The window field of a segment that goes out now, SYNs excepted. The right edge never moves left.
    pub fn select_window(&mut self, cx: &mut Cx<'_>) -> u16 {
        let (field, tight) = self.intake.select_window(cx, self.ack.rcv_mss());
        if tight {
            self.ack.stop_quick();
        }
        self.foreseen &= field > 0;
        field
    }

    /// Up to `max` SACK blocks for the header: 4, or 3 beside timestamps.
    #[must_use]
    pub fn sack_blocks(&self, max: usize) -> super::sack_out::Blocks {
        self.sacks.blocks(max)
    }

    /// Number of blocks that [`Self::sack_blocks`] has to offer.
    #[must_use]
    pub fn sack_count(&self) -> usize {
        self.sacks.count()
    }

    /// What came twice and is told of next.
    pub(super) fn dsack(&self) -> Option<(Seq, Seq)> {
        self.sacks.dsack()
    }

    /// Nothing is told of what came twice.
    pub fn forget_duplicate(&mut self) {
        self.sacks.clear_dsack();
    }

    /// What came last has let nothing leave that carries its ACK.
    pub const fn ack_stands(&mut self) {
        self.ack.stands();
    }

    /// A segment with ACK went out with the current window and blocks.
    pub fn on_ack_sent(&mut self, cx: &mut Cx<'_>) {
        self.sacks.clear_dsack();
        self.ack.on_ack_sent(cx);
    }
}
