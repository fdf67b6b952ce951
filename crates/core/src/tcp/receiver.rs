//! The receiving half of a connection: ties queue, window, SACK and acknowledgement policy together (`tcp_data_queue`).
use super::ack_policy::{AckFacts, AckPolicy, MAX_QUICKACKS, RttFacts, SegmentFacts, initial_rcv_mss};
use super::options::SocketOptions;
use super::rx_queue::{Chunk, Enqueued, Pieces};
use super::sack_out::SackOut;
use super::segment::Chunks;
use super::seq::Seq;
use super::window::{InitialWindow, RcvBuf, RcvWindow};
use crate::base::{Cx, Duration, Instant, Sysctl};
use bytes::Bytes;
use core::ops::Range;
use intake::Intake;
use urgent::Urgent;
mod intake;
mod urgent;

#[cfg(test)]
mod tests;

/// Payload from which a segment says something about the overhead of later ones.
const GROW_MIN_BYTES: u32 = 128;

/// Segments that are acknowledged one by one after a congestion mark.
const QUICK_AFTER_CE: u32 = 2;

/// One data segment, acceptable and stripped of its headers.
#[derive(Debug)]
pub struct Arrival {
    /// Sequence number of the first byte.
    pub seq: Seq,
    /// The payload.
    pub chunks: Chunks,
    /// Memory that each chunk pins where it is a slice of something larger, in bytes; 0 for its own length.
    pub pinned_bytes: usize,
    /// FIN was set.
    pub fin: bool,
    /// Any of FIN, SYN, URG or PSH was set.
    pub remnant: bool,
    /// PSH was set.
    pub push: bool,
    /// Payload bytes per segment of a coalesced packet; 0 for a single segment.
    pub gso_size: u32,
    /// Length of the TCP header with options, in bytes.
    pub header_bytes: u32,
    /// Length of the IP header, in bytes.
    pub ip_header_bytes: u32,
    /// Header prediction holds for it, so that Linux does not look at the limit of the buffer.
    pub predicted: bool,
    /// What Linux would charge for what is to be sent, in bytes (`sk_wmem_queued`).
    pub sending: u32,
    /// The codepoint of its IP header is news that the peer waits for (`tcp_data_ecn_check`).
    pub marked: bool,
}

/// What became of a data segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// By how much RCV.NXT moved.
    pub advanced: u32,
    /// The FIN has been reached: RCV.NXT is behind it.
    pub fin: bool,
    /// The segment (or part of it) lies beyond a hole.
    pub out_of_order: bool,
    /// Refused for lack of memory or window, or wholly old.
    pub dropped: bool,
    /// The application can now read enough to be told (`tcp_data_ready`).
    pub readable: bool,
}

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
        self.intake.window = RcvWindow::new(initial, self.intake.window.buf(), advmss);
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

    /// End of the furthest data held beyond a hole: the highest number that SACK has told the peer.
    #[must_use]
    pub fn highest_held(&self) -> Option<Seq> {
        self.intake.furthest()
    }

    /// What Linux would charge for what waits here, in bytes (`sk_rmem_alloc`).
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

    /// Whether to tell the application: enough to read, or no room for more (`tcp_epollin_ready`).
    #[must_use]
    pub fn is_readable(&self) -> bool {
        let waiting = self.intake.queue.readable_bytes();
        let buf = self.intake.window.buf().bytes;
        self.intake.queue.fin_reached()
            || (waiting > 0
                && (waiting >= self.lowat.saturating_add(self.urgent_bytes())
                    || self.intake.queue.truesize() > buf - buf / 8
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
            && self.intake.queue.truesize() < self.intake.window.buf().bytes
            && !self.urgent.is_set();
    }

    /// The options of a new connection, whose buffer has room for its low-water mark already.
    pub const fn begin_with(&mut self, options: &SocketOptions) {
        if options.rcvlowat > 0 {
            self.lowat = options.rcvlowat;
        }
        self.set_oob_inline(options.oobinline);
        self.ack.set_delay_max(options.delack_max_us);
    }

    /// A SYN that goes again offers a smaller MSS.
    pub const fn lower_advmss(&mut self, advmss: u16) {
        self.intake.window.lower_advmss(advmss);
    }

    /// SO_RCVBUF as it reads back (see [`RcvBuf::so_rcvbuf`]).
    pub fn set_rcvbuf(&mut self, bytes: u32) {
        self.intake.window.set_rcvbuf(bytes);
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

    /// Data that came with the peer's SYN or SYN-ACK, which acknowledges or is acknowledged with it; true when a FIN ends it.
    /// Says nothing about the peer's segments (`tcp_fastopen_add_skb`).
    pub fn take_syn_data(&mut self, chunks: Pieces, fin: bool) -> bool {
        let done = self.intake.enqueue(self.intake.nxt(), chunks, fin);
        self.intake.synchronize(self.intake.nxt());
        done.fin
    }

    /// Nothing waits beyond a hole but a FIN.
    #[must_use]
    pub fn holds_only_fin(&self) -> bool {
        self.intake.queue.has_hole() && self.intake.queue.held_bytes() == 0
    }

    /// A segment with data or FIN that passed the acceptability test (`tcp_data_queue`).
    pub fn on_data(&mut self, cx: &mut Cx<'_>, arrival: Arrival, rtt: RttFacts) -> Received {
        let Arrival { seq, chunks, pinned_bytes, fin, remnant, push, gso_size, header_bytes, .. } = arrival;
        let headers = header_bytes + arrival.ip_header_bytes;
        let copied = &mut cx.count.own.payload_copied_inside;
        let mut chunks: Pieces =
            chunks.into_iter().map(|bytes| Chunk::admit(bytes, pinned_bytes, headers, copied)).collect();
        if chunks.is_empty() {
            chunks.push(Chunk::bare(headers));
        }
        let payload_bytes = chunks.iter().map(|c| c.len() as u32).sum::<u32>();
        let truesize = chunks.iter().map(|c| c.truesize()).sum::<u32>();
        let end = seq + payload_bytes + u32::from(fin);
        if end == seq {
            return Received { dropped: true, ..Received::default() };
        }
        if !arrival.predicted {
            // Header prediction goes past it: what was told of as a duplicate is told again (`tcp_rcv_established`, `tcp_data_queue`).
            self.sacks.clear_dsack();
        }
        if end.at_or_before(self.intake.nxt()) {
            // A FIN that comes again comes here too: its ACK was lost.
            cx.count.tcp_ext.delayed_ack_lost += 1;
            self.set_dsack(cx, seq, end);
            return self.refuse();
        }
        if self.intake.queue.fin_reached() {
            return Received { dropped: true, ..Received::default() };
        }
        let open = self.intake.open_window();
        // A FIN alone needs no room (Linux 6.9 and later).
        let bare_fin = payload_bytes == 0 && seq == self.intake.nxt();
        if seq.at_or_before(self.intake.nxt()) && open == 0 && !bare_fin {
            if seq.before(self.intake.nxt()) {
                self.set_dsack(cx, seq, self.intake.nxt());
            }
            cx.count.tcp_ext.tcp_zero_window_drop += 1;
            return self.refuse();
        }
        if seq.at_or_after(self.intake.nxt() + open.max(1)) {
            return self.refuse();
        }
        let facts = SegmentFacts {
            payload_bytes,
            gso_size,
            header_bytes,
            truesize,
            remnant,
            push,
            marked: arrival.marked,
        };
        if seq.after(self.intake.nxt()) {
            self.queue_held(cx, seq, chunks, fin, (&facts, arrival.sending))
        } else {
            self.queue_in_order(cx, seq, chunks, fin, (&facts, rtt, arrival.predicted, arrival.sending))
        }
    }

    /// Out of the window or old: the peer needs to hear where we are, soon and repeatedly.
    fn refuse(&mut self) -> Received {
        self.ack.enter_quick(self.intake.window.wnd(), MAX_QUICKACKS);
        self.ack.schedule();
        Received { dropped: true, ..Received::default() }
    }

    fn queue_in_order(
        &mut self,
        cx: &mut Cx<'_>,
        seq: Seq,
        chunks: Pieces,
        fin: bool,
        (facts, rtt, predicted, sending): (&SegmentFacts, RttFacts, bool, u32),
    ) -> Received {
        let granted = predicted && self.intake.granted(cx, false);
        if !granted && !self.make_room(cx, self.intake.nxt()) {
            // The peer learns at once that there is no room, although its window said so (ICSK_ACK_NOMEM).
            self.intake.window.shut();
            self.ack.schedule();
            self.ack.send_now();
            // The first segment of an empty queue is taken all the same: without it nothing could ever move.
            if self.intake.queue.readable_bytes() > 0 && facts.payload_bytes > 0 {
                cx.count.tcp_ext.tcp_rcv_q_drop += 1;
                return Received { dropped: true, readable: true, ..Received::default() };
            }
        }
        if !predicted {
            self.intake.queue.schedule(facts.truesize, sending);
        }
        // A FIN fills no hole: it ends the stream before it, and what lay beyond is forgotten (`tcp_fin`).
        let had_hole = self.intake.queue.has_hole() && !fin;
        let done = self.intake.enqueue(seq, chunks, fin);
        self.ack.forget_duplicates();
        if facts.payload_bytes > 0 {
            self.event_data_recv(cx, done.charged, facts, rtt);
        }
        self.note_duplicate(cx, &done);
        self.sacks.delivered(self.intake.nxt());
        if had_hole && !self.intake.queue.has_hole() {
            self.ack.demand();
        }
        if done.fin {
            self.sacks.forget_held();
            self.ack.schedule();
        }
        self.foresee();
        Received {
            advanced: done.advanced as u32,
            fin: done.fin,
            readable: self.is_readable(),
            ..Received::default()
        }
    }

    fn queue_held(
        &mut self,
        cx: &mut Cx<'_>,
        seq: Seq,
        chunks: Pieces,
        fin: bool,
        (facts, sending): (&SegmentFacts, u32),
    ) -> Received {
        self.hurry_mark(facts);
        if !self.make_room(cx, seq) {
            cx.count.tcp_ext.tcp_ofo_drop += 1;
            return Received { dropped: true, readable: true, ..Received::default() };
        }
        self.intake.queue.schedule(facts.truesize, sending);
        self.foreseen = false;
        self.measure_rcv_mss(facts);
        self.owe_duplicates(facts);
        cx.count.tcp_ext.tcp_ofo_queue += 1;
        let done = self.intake.enqueue(seq, chunks, fin);
        self.note_duplicate(cx, &done);
        if done.out_of_order.is_some() && self.sack_ok {
            if self.sacks.changed(seq, seq + (facts.payload_bytes + u32::from(fin)))
                && self.ack.compresses_many()
            {
                self.ack.send_now();
            }
            // Without SACK a moving window would hide the duplicate ACKs. What was there already teaches nothing, and what stands in the buffer
            // of another has no overhead (`tcp_grow_window`, `truesize_adjust`).
            if done.held {
                let truesize = if done.lodged { 0 } else { facts.truesize };
                self.grow_window(cx, done.charged, &SegmentFacts { truesize, ..*facts });
            }
        }
        // Nobody reads a child that waits to be accepted, so its buffer stays as it is.
        if self.reader != Reader::Nobody {
            self.intake.grow_for_hole(cx);
        }
        Received { out_of_order: true, ..Received::default() }
    }

    /// What lies beyond a hole is acknowledged at once, without SACK each segment by itself (RFC 5681 section 4.2); not what was refused
    /// for want of room, of which nothing is said (`tcp_data_queue_ofo`).
    fn owe_duplicates(&mut self, facts: &SegmentFacts) {
        self.ack.schedule();
        if !self.sack_ok {
            // A single segment says no size.
            let size = if facts.gso_size > 0 { facts.gso_size } else { facts.payload_bytes.max(1) };
            self.ack.owe_duplicates(facts.payload_bytes.div_ceil(size).max(1));
        }
    }

    /// Everything that a segment in order teaches (`tcp_event_data_recv`).
    fn event_data_recv(&mut self, cx: &Cx<'_>, queued: u32, facts: &SegmentFacts, rtt: RttFacts) {
        self.ack.schedule();
        self.measure_rcv_mss(facts);
        self.intake.measure_rtt(cx.now);
        self.ack.on_data(cx.now, rtt, self.intake.window.wnd());
        self.hurry_mark(facts);
        if facts.payload_bytes >= GROW_MIN_BYTES {
            self.grow_window(cx, queued, facts);
        }
    }

    /// The next segments after a congestion mark are acknowledged one by one, so that the sender hears of it soon. In order that comes after the
    /// quick ACKs of a start, which it does not take away.
    fn hurry_mark(&mut self, facts: &SegmentFacts) {
        if facts.marked {
            self.enter_quickack(QUICK_AFTER_CE);
        }
    }

    fn measure_rcv_mss(&mut self, facts: &SegmentFacts) {
        let advmss = self.intake.window.advmss();
        if self.ack.measure_rcv_mss(facts, advmss, u32::from(self.header_bytes)) {
            self.intake.measure_overhead(facts);
        }
    }

    fn grow_window(&mut self, cx: &Cx<'_>, queued: u32, facts: &SegmentFacts) {
        if self.intake.grow_window(cx, queued, facts, self.ack.rcv_mss()) {
            self.ack.nudge_quick();
        }
    }

    /// Makes room for a segment at `seq`: whoever lacks it acknowledges less often, and what is given up is not reported any more.
    fn make_room(&mut self, cx: &mut Cx<'_>, seq: Seq) -> bool {
        let room = self.intake.make_room(cx, seq);
        if room.was_full {
            self.ack.stop_quick();
        }
        if let Some(cut) = room.cut {
            self.sacks.pruned(cut);
        }
        self.foreseen &= !room.is_full;
        room.found
    }

    fn note_duplicate(&mut self, cx: &mut Cx<'_>, done: &Enqueued) {
        if done.merged {
            cx.count.tcp_ext.tcp_ofo_merge += 1;
        }
        if let Some(Range { start, end }) = done.duplicate.clone() {
            let (start, end) = (self.intake.seq(start), self.intake.seq(end));
            self.set_dsack(cx, start, end);
        }
    }

    fn set_dsack(&mut self, cx: &mut Cx<'_>, start: Seq, end: Seq) {
        if !self.sack_ok || !cx.sysctl.tcp_dsack {
            return;
        }
        if start.before(self.intake.nxt()) {
            cx.count.tcp_ext.tcp_dsack_old_sent += 1;
        } else {
            cx.count.tcp_ext.tcp_dsack_ofo_sent += 1;
        }
        self.sacks.set_dsack(start, end);
    }

    /// A segment failed the acceptability test: an ACK goes out at once, with D-SACK if it carried old data
    /// (`tcp_send_dupack`). `end` is behind its last byte, FIN included.
    pub fn on_unacceptable(&mut self, cx: &mut Cx<'_>, seq: Seq, end: Seq) {
        if end != seq && seq.before(self.intake.nxt()) {
            cx.count.tcp_ext.delayed_ack_lost += 1;
            self.ack.enter_quick(self.intake.window.wnd(), MAX_QUICKACKS);
            self.set_dsack(cx, seq, end.min(self.intake.nxt()));
        }
        self.ack.send_now();
    }

    /// The SYN-ACK that completes a simultaneous open: the SYN in it has been here before, so it is old data (`tcp_data_queue`).
    pub fn on_syn_again(&mut self, cx: &mut Cx<'_>, seq: Seq) {
        cx.count.tcp_ext.delayed_ack_lost += 1;
        self.set_dsack(cx, seq, seq + 1);
        self.refuse();
    }

    /// After each segment, once all its effects are known: decides about the owed ACK (`tcp_ack_snd_check`).
    pub fn check_ack(&mut self, cx: &Cx<'_>, rtt: RttFacts) {
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
        self.ack.check(cx, rtt, &facts);
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

    /// Nothing is told of what came twice.
    pub fn forget_duplicate(&mut self) {
        self.sacks.clear_dsack();
    }

    /// A segment with ACK went out with the current window and blocks.
    pub fn on_ack_sent(&mut self, cx: &mut Cx<'_>) {
        self.sacks.clear_dsack();
        self.ack.on_ack_sent(cx);
    }

    /// Copies received bytes; with `peek` they stay. Returns how many. May make an ACK due.
    pub fn recv(&mut self, cx: &mut Cx<'_>, buf: &mut [u8], peek: bool) -> usize {
        let (step, max) = self.up_to_mark(buf.len());
        let buf = &mut buf[..max];
        if peek {
            let n = self.intake.queue.peek(usize::from(step), buf);
            cx.count.own.payload_copied_out += n as u64;
            // What waits for a reader leaves after a peek too.
            self.cleanup(cx, n > 0, self.is_shut());
            return n;
        }
        self.intake.queue.skip(usize::from(step));
        let n = self.intake.queue.recv(buf);
        cx.count.own.payload_copied_out += n as u64;
        if n > 0 || step {
            self.after_read(cx);
        }
        n
    }

    /// Takes the next piece without copying, at most `max` bytes. May make an ACK due.
    pub fn read_chunk(&mut self, cx: &Cx<'_>, max: usize) -> Option<Bytes> {
        let (step, max) = self.up_to_mark(max);
        self.intake.queue.skip(usize::from(step));
        let piece = self.intake.queue.read_chunk(max);
        if step || piece.is_some() {
            self.after_read(cx);
        }
        piece
    }

    /// Discards what waits to be read, not what is held beyond a hole; returns the bytes that nobody read.
    pub fn discard(&mut self) -> u32 {
        self.intake.queue.clear()
    }

    fn after_read(&mut self, cx: &Cx<'_>) {
        self.leave_mark();
        self.intake.grow_for_reader(cx);
        self.cleanup(cx, true, self.is_shut());
    }

    /// Nothing more will be read than what is there (`RCV_SHUTDOWN`).
    fn is_shut(&self) -> bool {
        self.reader == Reader::Gone || self.intake.queue.fin_reached()
    }

    /// After a read: acknowledges what waited for it, or tells of a window that opened widely (`tcp_cleanup_rbuf`).
    fn cleanup(&mut self, cx: &Cx<'_>, copied: bool, shut: bool) {
        let unacked = self.intake.nxt().since(self.intake.window.wup());
        if self.ack.wants_ack_after_read(unacked, copied, self.intake.queue.truesize() == 0) {
            return self.ack.send_now();
        }
        if !copied || shut {
            return;
        }
        let open = self.intake.open_window();
        if 2 * open <= self.intake.window.clamp() {
            let offer = self.offer(cx);
            if offer > 0 && offer >= 2 * open {
                self.ack.send_now();
            }
        }
    }
}
