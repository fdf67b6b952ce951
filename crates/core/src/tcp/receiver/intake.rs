//! What has been taken in, the window in front of it, and how both find and make room (`tcp_try_rmem_schedule`, `tcp_prune_queue`).
use crate::base::{Cx, Instant, Pressure};
use crate::tcp::ack_policy::SegmentFacts;
use crate::tcp::rcv_space::RcvSpace;
use crate::tcp::rx_queue::{Enqueued, Pieces, RxQueue};
use crate::tcp::seq::Seq;
use crate::tcp::window::{InitialWindow, Offer, RcvBuf, RcvWindow};

/// Stream offset of the first byte: far from zero, so that old sequence numbers have offsets too.
const FIRST_OFFSET: u64 = 1 << 32;

/// RCV.NXT with the data on both sides of it. The queue counts offsets, everything else sequence numbers: this is where they meet.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) queue: RxQueue,
    pub(super) window: RcvWindow,
    pub(super) space: RcvSpace,
    nxt: Seq,
}

/// What the search for room came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// The segment may come in.
    pub(super) found: bool,
    /// The buffer was full, whatever was done about it.
    pub(super) was_full: bool,
    /// It still is.
    pub(super) is_full: bool,
    /// What was held from here on has been given up.
    pub(super) cut: Option<Seq>,
}

impl Intake {
    pub(super) const fn new(initial: InitialWindow, buf: RcvBuf, advmss: u16) -> Self {
        Self {
            queue: RxQueue::new(FIRST_OFFSET),
            window: RcvWindow::new(initial, buf, advmss),
            space: RcvSpace::new(),
            nxt: Seq(0),
        }
    }

    /// The first number that counts is `nxt`.
    pub(super) const fn synchronize(&mut self, nxt: Seq) {
        self.nxt = nxt;
        self.window.synchronize(nxt);
    }

    /// The measuring of round trips begins.
    pub(super) fn establish(&mut self, now: Instant) {
        let window = &self.window;
        self.space.establish(now, self.copied_seq(), window.ssthresh(), window.wnd(), window.advmss());
    }

    /// What counts for the receive buffer: both queues, and the error queue beside them (`sk_rmem_alloc`).
    #[inline]
    pub(super) const fn charged(&self) -> u32 {
        self.queue.truesize().saturating_add(self.window.errors())
    }

    /// RCV.NXT.
    #[inline]
    pub(super) const fn nxt(&self) -> Seq {
        self.nxt
    }

    #[inline]
    pub(super) fn open_window(&self) -> u32 {
        self.window.open(self.nxt)
    }

    /// The next byte that the application will read.
    #[inline]
    pub(super) fn copied_seq(&self) -> Seq {
        self.nxt - self.queue.readable_bytes() - u32::from(self.queue.fin_reached())
    }

    /// From RCV.NXT to there.
    fn held_span(&self) -> u64 {
        self.queue.furthest().map_or(0, |end| end - self.queue.next_offset())
    }

    /// Sequence number of an offset.
    #[inline]
    pub(super) fn seq(&self, offset: u64) -> Seq {
        Seq(self.nxt.0.wrapping_add(offset.wrapping_sub(self.queue.next_offset()) as u32))
    }

    /// Offset of a sequence number within 2^31 of RCV.NXT.
    #[inline]
    fn offset(&self, seq: Seq) -> u64 {
        let delta = seq.0.wrapping_sub(self.nxt.0) as i32;
        self.queue.next_offset().wrapping_add_signed(i64::from(delta))
    }

    /// Takes a segment in. RCV.NXT moves as far as it has become known without a hole.
    #[inline]
    pub(super) fn enqueue(&mut self, seq: Seq, chunks: Pieces, fin: bool) -> Enqueued {
        let done = self.queue.enqueue(self.offset(seq), chunks, fin);
        self.nxt += done.advanced as u32;
        done
    }

    /// A segment in order, or one of an empty queue, that ends at `end`: what it says about round trips.
    #[inline]
    pub(super) fn measure_rtt(&mut self, now: Instant, end: Seq) {
        self.space.on_data(now, end, self.window.wnd());
    }

    /// A segment larger than any before tells how much memory full ones take.
    pub(super) fn measure_overhead(&mut self, facts: &SegmentFacts) {
        if self.window.measure(facts.payload_bytes, facts.truesize) {
            self.space.bound(self.window.clamp());
        }
    }

    /// A window that could be advertised now.
    #[inline]
    pub(super) fn offer(&self, cx: &Cx<'_>, rcv_mss: u32) -> Offer {
        self.window.offer(cx.sysctl, self.charged(), rcv_mss)
    }

    /// The window of a segment that goes out now.
    pub(super) fn next_window(&self, cx: &Cx<'_>, rcv_mss: u32) -> u32 {
        self.window.next(cx.sysctl, self.nxt, self.charged(), rcv_mss).wnd
    }

    /// The window field of a segment that goes out now, and whether less than half the buffer is free.
    #[inline]
    pub(super) fn select_window(&mut self, cx: &mut Cx<'_>, rcv_mss: u32) -> (u16, bool) {
        self.window.select(cx, self.nxt, self.charged(), rcv_mss)
    }

    /// The window after a segment of `facts` with `queued` bytes charged beside the error queue; true when it may grow (`tcp_grow_window`).
    pub(super) fn grow_window(
        &mut self,
        cx: &Cx<'_>,
        queued: u32,
        facts: &SegmentFacts,
        rcv_mss: u32,
    ) -> bool {
        if cx.pressure >= Pressure::Pressed {
            self.window.economize();
            return false;
        }
        self.window.grow(
            cx.sysctl,
            queued.saturating_add(self.window.errors()),
            facts.payload_bytes,
            facts.truesize,
            rcv_mss,
        )
    }

    /// Autotuning wants a window of `win` bytes (`tcp_rcvbuf_grow`).
    fn grow_buffer(&mut self, cx: &Cx<'_>, win: u64) {
        if cx.sysctl.tcp_moderate_rcvbuf {
            let bytes = self.window.ratio().space_from_win(win).min(u64::from(cx.sysctl.tcp_rmem.max));
            self.window.widen(bytes as u32);
        }
    }

    /// Makes the buffer large enough for what comes behind a hole, so that its repair does not stop the sender.
    pub(super) fn grow_for_hole(&mut self, cx: &Cx<'_>) {
        let win = self.space.with_hole(self.held_span() as u32);
        self.grow_buffer(cx, win);
    }

    /// The application has read: the buffer follows (`tcp_rcv_space_adjust`).
    pub(super) fn grow_for_reader(&mut self, cx: &Cx<'_>) {
        // The number of a FIN counts: it is read after what stands before it, of which this has brought some.
        let waiting = self.queue.readable_bytes() + u32::from(self.queue.fin_reached());
        if let Some(win) = self.space.adjust(cx.now, self.copied_seq(), waiting) {
            self.grow_buffer(cx, win.saturating_add(self.held_span()));
        }
    }

    /// The buffer takes another segment, which may exceed it (`tcp_can_ingest`).
    #[inline]
    fn ingests(&self) -> bool {
        self.charged() <= self.window.buf().bytes
    }

    /// The stack's memory takes more: always below the least buffer, and until it is exhausted; beyond a hole until it is short.
    #[inline]
    pub(super) fn granted(&self, cx: &Cx<'_>, held: bool) -> bool {
        let limit = if held { Pressure::Pressed } else { Pressure::Exhausted };
        cx.pressure < limit || self.queue.charge() < cx.sysctl.tcp_rmem.min
    }

    /// Where what waits pins more than the buffer and than Linux would charge for it, copies it together: the peer's window does not
    /// say what chunks cost here.
    fn spare_memory(&mut self, cx: &mut Cx<'_>) {
        let limit = self.window.buf().bytes;
        if self.queue.charge() > limit.max(self.queue.truesize()) {
            cx.count.own.payload_copied_inside += self.queue.collapse(limit).bytes;
        }
    }

    /// Makes room for a segment at `seq`: by squeezing what waits, then by giving up what lies further beyond the hole. What is nearer
    /// is worth more, so data that SACK has reported may be dropped (RFC 2018 section 8), but never for something even further away.
    pub(super) fn make_room(&mut self, cx: &mut Cx<'_>, seq: Seq) -> Room {
        let held = seq.after(self.nxt);
        self.spare_memory(cx);
        if self.ingests() && self.granted(cx, held) {
            return Room { found: true, ..Room::default() };
        }
        cx.count.tcp_ext.prune_called += 1;
        let was_full = !self.ingests();
        if was_full {
            self.window.press(cx, self.charged());
        } else {
            self.window.economize();
        }
        let limit = self.window.buf().bytes;
        if !self.ingests() {
            cx.count.tcp_ext.tcp_rcv_collapsed += self.queue.squeeze(self.window.ratio(), limit);
        }
        let cut = self.prune(cx, held, self.offset(seq));
        let full = !self.ingests();
        cx.count.tcp_ext.rcv_pruned += u64::from(full);
        Room { found: !full && self.granted(cx, held), was_full, is_full: full, cut }
    }

    /// Gives up what lies beyond the offset `at`, until there is room; from where on. At least an eighth goes at a time, so that the next
    /// segment does not come here again (`tcp_prune_ofo_queue`).
    fn prune(&mut self, cx: &mut Cx<'_>, held: bool, at: u64) -> Option<Seq> {
        let mut last = None;
        while !(self.ingests() && self.granted(cx, held)) {
            let Some(cut) = self.queue.prune_held(self.window.buf().bytes / 8, at) else { break };
            last = Some(self.seq(cut));
        }
        cx.count.tcp_ext.ofo_pruned += u64::from(last.is_some());
        last
    }
}
