//! Data as it comes in (`tcp_data_queue`): in order, beyond a hole, old, or without room, and what each teaches.
use super::{Reader, Receiver};
use crate::base::Cx;
use crate::tcp::ack_policy::{MAX_QUICKACKS, PathFacts, SegmentFacts};
use crate::tcp::rx_queue::{Chunk, Enqueued, Pieces};
use crate::tcp::segment::Chunks;
use crate::tcp::seq::Seq;
use core::ops::Range;

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
    /// It was wholly old.
    pub again: bool,
    /// The application can now read enough to be told (`tcp_data_ready`).
    pub readable: bool,
}

/// A segment on its way into the queue.
struct Taken {
    seq: Seq,
    chunks: Pieces,
    fin: bool,
    facts: SegmentFacts,
    /// See [`Arrival::predicted`] and [`Arrival::sending`].
    predicted: bool,
    sending: u32,
}

impl Taken {
    /// The payload becomes chunks, small ones of large buffers by a copy, whose bytes are added to `copied`.
    fn of(arrival: Arrival, copied: &mut u64) -> Self {
        let Arrival { seq, pinned_bytes, fin, remnant, push, gso_size, header_bytes, marked, .. } = arrival;
        let headers = header_bytes + arrival.ip_header_bytes;
        let admit = |bytes| Chunk::admit(bytes, pinned_bytes, headers, copied);
        let mut chunks: Pieces = arrival.chunks.into_iter().map(admit).collect();
        if chunks.is_empty() {
            chunks.push(Chunk::bare(headers));
        }
        let payload_bytes = chunks.iter().map(|c| c.len() as u32).sum::<u32>();
        let truesize = chunks.iter().map(|c| c.truesize()).sum::<u32>();
        let facts = SegmentFacts { payload_bytes, gso_size, header_bytes, truesize, remnant, push, marked };
        Self { seq, chunks, fin, facts, predicted: arrival.predicted, sending: arrival.sending }
    }

    /// Behind its last byte, FIN included.
    fn end(&self) -> Seq {
        self.seq + (self.facts.payload_bytes + u32::from(self.fin))
    }
}

impl Receiver {
    /// Data that came with the peer's SYN or SYN-ACK, which acknowledges or is acknowledged with it; true when a FIN ends it.
    /// Says nothing about the peer's segments (`tcp_fastopen_add_skb`).
    pub fn take_syn_data(&mut self, chunks: Pieces, fin: bool) -> bool {
        self.intake.enqueue(self.intake.nxt(), chunks, fin).fin
    }

    /// The window of our SYN-ACK counts from behind what came with the SYN (`tcp_fastopen_create_child`); that of a SYN counts from its answer.
    pub const fn answer_syn_data(&mut self) {
        self.intake.synchronize(self.intake.nxt());
    }

    /// Nothing waits beyond a hole but a FIN.
    #[must_use]
    pub fn holds_only_fin(&self) -> bool {
        self.intake.queue.has_hole() && self.intake.queue.held_bytes() == 0
    }

    /// A segment with data or FIN that passed the acceptability test (`tcp_data_queue`).
    pub fn on_data(&mut self, cx: &mut Cx<'_>, arrival: Arrival, path: PathFacts) -> Received {
        let taken = Taken::of(arrival, &mut cx.count.own.payload_copied_inside);
        let (seq, end) = (taken.seq, taken.end());
        if end == seq {
            return Received { dropped: true, ..Received::default() };
        }
        if !taken.predicted {
            // Header prediction goes past it: what was told of as a duplicate is told again (`tcp_rcv_established`, `tcp_data_queue`).
            self.sacks.clear_dsack();
        }
        if end.at_or_before(self.intake.nxt()) {
            // A FIN that comes again comes here too: its ACK was lost.
            cx.count.tcp_ext.delayed_ack_lost += 1;
            self.set_dsack(cx, seq, end);
            return Received { again: true, ..self.refuse() };
        }
        // The same data with a FIN one byte further on is a second end of the stream (`tcp_fin`).
        let moved_fin = taken.fin && end == self.intake.nxt() + 1;
        if self.intake.queue.fin_reached() && !moved_fin {
            return Received { dropped: true, ..Received::default() };
        }
        let open = self.intake.open_window();
        // A FIN alone needs no room (Linux 6.9 and later).
        let bare_fin = taken.facts.payload_bytes == 0 && seq == self.intake.nxt();
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
        if seq.after(self.intake.nxt()) {
            self.queue_held(cx, taken)
        } else {
            self.queue_in_order(cx, taken, path)
        }
    }

    /// Out of the window or old: the peer needs to hear where we are, soon and repeatedly.
    fn refuse(&mut self) -> Received {
        self.ack.enter_quick(self.intake.window.wnd(), MAX_QUICKACKS);
        self.ack.schedule();
        Received { dropped: true, ..Received::default() }
    }

    fn queue_in_order(&mut self, cx: &mut Cx<'_>, taken: Taken, path: PathFacts) -> Received {
        let end = taken.end();
        let Taken { seq, chunks, fin, facts, predicted, sending } = taken;
        let granted = predicted && self.intake.granted(cx, false);
        if !granted && !self.make_room(cx, self.intake.nxt()) {
            // The peer learns at once that there is no room, although its window said so (ICSK_ACK_NOMEM).
            self.intake.window.shut();
            self.ack.schedule();
            self.ack.send_now();
            // The first segment of an empty queue is taken all the same: without it nothing could ever move.
            if !self.intake.queue.has_nothing_ready() && facts.payload_bytes > 0 {
                cx.count.tcp_ext.tcp_rcv_q_drop += 1;
                if seq.before(self.intake.nxt()) {
                    // What is old of it was sent in vain all the same (RFC 2883).
                    self.set_dsack(cx, seq, self.intake.nxt());
                }
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
            self.event_data_recv(cx, (end, done.charged), &facts, path);
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
            readable: self.is_readable(cx.pressure),
            ..Received::default()
        }
    }

    fn queue_held(&mut self, cx: &mut Cx<'_>, taken: Taken) -> Received {
        let end = taken.end();
        let Taken { seq, chunks, fin, facts, sending, .. } = taken;
        self.hurry_mark(&facts);
        if !self.make_room(cx, seq) {
            cx.count.tcp_ext.tcp_ofo_drop += 1;
            return Received { dropped: true, readable: true, ..Received::default() };
        }
        self.intake.queue.schedule(facts.truesize, sending);
        self.foreseen = false;
        self.measure_rcv_mss(&facts);
        self.owe_duplicates(&facts);
        cx.count.tcp_ext.tcp_ofo_queue += 1;
        let done = self.intake.enqueue(seq, chunks, fin);
        self.note_duplicate(cx, &done);
        if done.out_of_order.is_some() && self.sack_ok {
            if self.sacks.changed(seq, end) && self.ack.compresses_many() {
                self.ack.send_now();
            }
            // Without SACK a moving window would hide the duplicate ACKs. What was there already teaches nothing, and what stands in the buffer
            // of another has no overhead (`tcp_grow_window`, `truesize_adjust`).
            if done.held {
                let truesize = if done.lodged { 0 } else { facts.truesize };
                self.grow_window(cx, done.charged, &SegmentFacts { truesize, ..facts });
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

    /// Everything that a segment in order teaches, which ends at `end`: what it leads on to beyond a hole has come before
    /// (`tcp_event_data_recv`, ahead of `tcp_ofo_queue`).
    fn event_data_recv(
        &mut self,
        cx: &Cx<'_>,
        (end, queued): (Seq, u32),
        facts: &SegmentFacts,
        path: PathFacts,
    ) {
        self.ack.schedule();
        self.measure_rcv_mss(facts);
        self.intake.measure_rtt(cx.now, end);
        self.ack.on_data(cx.now, path, self.intake.window.wnd());
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
        cx.count.tcp_ext.tcp_ofo_merge += u64::from(done.merged);
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
}
