//! The queue-aware limit at its place among the gatekeepers: smaller packets, and less below than small queues allow
//! (`tcp_queue_aware`; path/queue_aware.rs).
use super::autosize;
use crate::base::{Cx, Instant};
use crate::credit::{Ask, PACKET_CHARGE};
use crate::packet::Owner;
use crate::path::queue_aware::{Memory, Period, QueueAware, Sizes};
use crate::tcp::PathCaps;
use crate::tcp::conn::Conn;

/// IP and TCP headers without options.
const HEADERS_V4: u16 = 40;
const HEADERS_V6: u16 = 60;

/// A flow's own queue, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnQueue {
    /// IP bytes below.
    pub bytes: u64,
    /// Bytes a second that it passes on; `None` while there is no estimate.
    pub rate: Option<u64>,
    /// Bytes that may be below; `None` while there is no estimate.
    pub limit: Option<u64>,
    /// IP bytes of a full segment.
    pub segment: u64,
}

/// What is kept of a flow's own queue, from its first packet with the setting on.
#[derive(Debug, Default)]
pub(in crate::tcp) struct Followed {
    /// Exists while the flow has something in flight, from the first packet that went down behind another one.
    estimate: Option<Box<QueueAware>>,
    /// What is left of the last.
    memory: Memory,
    /// When the last packet that found nothing below could leave.
    since: Instant,
    /// Its charge while it stands there alone, without the pieces that have left, and nobody follows it; 0 for none.
    alone: u32,
    /// IP bytes of it that have left: pieces that found no room have not.
    passed: u32,
    /// Packets that it is now, where it was cut; with those of its pieces that have left it becomes fewer.
    pieces: u16,
    /// What its segments were then: the MSS may have changed since.
    sizes: Sizes,
    /// Packets that went down before the setting was switched on.
    strangers: u16,
    /// Segments of a packet by Linux's rule, when one was last made.
    usual: u16,
    /// Others stood in the queue when this round of sending began, and when the packet alone went down.
    backlog: bool,
    met: bool,
    /// The time since it went down has yet to be counted.
    open: bool,
}

impl Followed {
    /// From now on the queue is followed, the packet that stands alone included.
    fn begin(&mut self, queue: QueueAware, now: Instant) {
        let queue = self.estimate.insert(Box::new(queue));
        self.open = false;
        if let Some(payload) = core::mem::take(&mut self.alone).checked_sub(PACKET_CHARGE) {
            let (at, pieces) = (self.since.min(now), u32::from(self.pieces.max(1)));
            queue.on_sent(at, payload, self.sizes, self.since);
            // The shares of `Owner::cut`: what is left of equal ones that differ by a byte is such ones again.
            queue.on_cut(at, payload, (0..pieces).map(|piece| (payload + piece) / pieces));
        }
    }

    /// A packet became several, each of which counts as what it is: they were cut where the MSS of then says, and the account's segments may be
    /// longer or shorter. It is the `newest`, which is no stranger, but where another discipline takes over what waits, or what waited for its time
    /// comes to one. Nobody knows then, while strangers stand there, whether it is one of them, and it stays counted as it was.
    fn cut(&mut self, now: Instant, owner: Owner, more: u32, newest: bool) {
        if self.strangers > 0 && !newest {
            return;
        }
        let cuts = more / PACKET_CHARGE;
        if let Some(queue) = &mut self.estimate {
            let pieces = owner.cut(cuts + 1, more).map(|piece| piece.charge.saturating_sub(PACKET_CHARGE));
            queue.on_cut(now, owner.charge.saturating_sub(PACKET_CHARGE), pieces);
        } else if self.alone > 0 {
            self.pieces = self.pieces.saturating_add(u16::try_from(cuts).unwrap_or(u16::MAX));
        }
    }

    /// What is followed has left, or was given up; true when more should have been below.
    fn leave(&mut self, now: Instant, owner: Owner, dropped: bool) -> bool {
        // Each piece has its part of the payload, and is charged as a packet.
        let payload = owner.charge.saturating_sub(PACKET_CHARGE);
        match &mut self.estimate {
            Some(queue) if dropped => queue.on_dropped(now, payload),
            Some(queue) => return queue.on_left(now, payload),
            None => self.left_alone(now, owner, dropped),
        }
        false
    }

    /// A packet that stood alone has left, or a piece of it, and with the last what it was below for is known. Any piece may be given up
    /// before (`dropped`): the last that leaves need not be the packet's end.
    fn left_alone(&mut self, now: Instant, owner: Owner, dropped: bool) {
        if self.alone == 0 {
            return;
        }
        let payload = owner.charge.saturating_sub(PACKET_CHARGE);
        if !dropped {
            self.passed += self.sizes.ip_bytes(payload) as u32;
        }
        // What is there still is its rest.
        self.alone = self.alone.saturating_sub(payload);
        self.pieces = self.pieces.saturating_sub(1);
        if self.alone > PACKET_CHARGE {
            return;
        }
        self.alone = 0;
        let bytes = u64::from(core::mem::take(&mut self.passed));
        if bytes == 0 {
            return;
        }
        let busy_ns = now.nanos_since(self.since);
        let standing = u32::from(self.met);
        self.memory.add(now, Period { bytes, busy_ns, left: 1, standing, elapsed_ns: 0 });
    }

    /// The time since a packet alone went down is over at `end`: the next one goes, or nothing is in flight.
    fn close(&mut self, end: Instant) {
        if core::mem::take(&mut self.open) {
            let elapsed_ns = end.nanos_since(self.since).max(1);
            self.memory.add(end, Period { elapsed_ns, ..Period::default() });
        }
    }
}

impl Conn {
    /// What the flow has below, while that is followed.
    #[must_use]
    pub fn own_queue(&self, now: Instant) -> Option<OwnQueue> {
        let queue = self.rest.queue.as_ref()?.estimate.as_ref()?;
        Some(OwnQueue {
            bytes: queue.queued(),
            rate: queue.rate(now),
            limit: queue.limit(now),
            segment: queue.segment(),
        })
    }

    /// Segments that the next packet should hold: as many as the flow sends in a millisecond, but no more than its own queue passes
    /// on in half of one.
    pub(super) fn packet_segments(&mut self, cx: &Cx<'_>, caps: &PathCaps, mss: u16) -> u16 {
        let segments = autosize::segments(cx.sysctl, &self.path, caps, mss);
        if self.rest.queue.is_none() {
            return segments;
        }
        let sizes = self.sizes();
        let Some(followed) = &mut self.rest.queue else { return segments };
        followed.usual = segments;
        let most = match &followed.estimate {
            Some(queue) => queue.segments(cx.now),
            None => followed
                .memory
                .speed(cx.now, sizes)
                .map(|speed| u16::try_from(speed.segments(sizes)).unwrap_or(u16::MAX)),
        };
        most.map_or(segments, |most| segments.min(most))
    }

    /// The answer of the queue-aware limit to a packet of so much payload; `None` where it has none, and small queues decide.
    pub(super) fn queue_admits(&mut self, cx: &Cx<'_>, payload: u32) -> Option<bool> {
        self.rest.queue.as_ref()?;
        let sizes = self.sizes();
        let followed = self.rest.queue.as_deref_mut()?;
        if followed.estimate.is_none() && followed.alone > 0 {
            let speed = followed.memory.speed(cx.now, sizes)?;
            followed.begin(QueueAware::remembering(followed.since.min(cx.now), sizes, speed), cx.now);
        }
        followed.estimate.as_mut()?.admits(cx.now, payload)
    }

    /// Its own queue has room for a probe of so much payload. Where it has none, what stands there asks the peer as well when it leaves.
    pub(super) fn queue_takes(&mut self, cx: &Cx<'_>, payload: u32) -> bool {
        self.queue_admits(cx, payload) != Some(false)
    }

    /// What small queues are asked for a packet that its own queue can use: they know the pace, which may be far less than what the queue
    /// passes on. Their limit is as for packets of Linux's size, and has the time that completions are late by.
    pub(super) fn usual_ask(&self, ask: Ask) -> Ask {
        let Some(followed) = self.rest.queue.as_ref() else { return ask };
        let usual = u32::from(followed.usual) * u32::from(self.mss());
        let late = followed.estimate.as_ref().map_or(0, |queue| queue.late_ns());
        let more = u128::from(ask.pacing_rate) * u128::from(late) / 1_000_000;
        let pacing_rate = ask.pacing_rate.saturating_add(u64::try_from(more).unwrap_or(u64::MAX));
        Ask { charge: ask.charge.max(usual + PACKET_CHARGE), pacing_rate, ..ask }
    }

    /// They have let nothing more down.
    pub(super) fn usually_held(&mut self) {
        if let Some(queue) = self.rest.queue.as_mut().and_then(|followed| followed.estimate.as_mut()) {
            queue.on_held();
        }
    }

    /// A packet goes down. Its flow is followed from the first that finds another one below: of a packet alone only the time is noted.
    pub(super) fn queue_sent(&mut self, cx: &Cx<'_>, charge: u32, departure: Instant) {
        if !cx.sysctl.tcp_queue_aware {
            return;
        }
        let sizes = self.sizes();
        let followed = self.rest.queue.get_or_insert_default();
        if followed.estimate.is_none() {
            if followed.alone == 0 && followed.strangers == 0 {
                followed.close(cx.now);
                (followed.alone, followed.sizes, followed.since) = (charge, sizes, departure.max(cx.now));
                (followed.open, followed.met) = (true, followed.backlog);
                (followed.passed, followed.pieces) = (0, 1);
                return;
            }
            let since = if followed.alone > 0 { followed.since.min(cx.now) } else { cx.now };
            followed.begin(QueueAware::new(since, sizes), cx.now);
        }
        if let Some(queue) = &mut followed.estimate {
            queue.on_sent(cx.now, charge - PACKET_CHARGE, sizes, departure);
            if core::mem::take(&mut followed.backlog) {
                queue.on_backlog();
            }
        }
    }

    /// A packet or a piece of one has left the flow's queue, or was given up in it (`dropped`); true when more should have been below. Its
    /// credit may come back later.
    #[inline]
    pub fn leave_queue(&mut self, cx: &mut Cx<'_>, owner: Owner, dropped: bool) -> bool {
        self.rest.queue.is_some() && self.leave_followed(cx, owner, dropped)
    }

    fn leave_followed(&mut self, cx: &Cx<'_>, owner: Owner, dropped: bool) -> bool {
        let Some(followed) = &mut self.rest.queue else { return false };
        if followed.strangers > 0 {
            followed.strangers -= u16::from(owner.is_end());
            return false;
        }
        followed.leave(cx.now, owner, dropped)
    }

    /// A packet there became several, charged `more` together.
    pub(super) fn queue_cut(&mut self, cx: &Cx<'_>, owner: Owner, more: u32, newest: bool) {
        if let Some(followed) = &mut self.rest.queue {
            followed.cut(cx.now, owner, more, newest);
        }
    }

    /// A piece of the newest did not get into the queue: it is none of the strangers that stand there.
    pub(super) fn queue_part_refused(&mut self, cx: &Cx<'_>, owner: Owner) {
        if let Some(followed) = &mut self.rest.queue {
            let _ = followed.leave(cx.now, owner, true);
        }
    }

    /// The newest did not get into the queue.
    pub(super) fn queue_refused(&mut self, cx: &Cx<'_>, charge: u32) {
        let Some(followed) = &mut self.rest.queue else { return };
        followed.alone = 0;
        if let Some(queue) = &mut followed.estimate {
            queue.on_refused(cx.now, charge.saturating_sub(PACKET_CHARGE));
        }
    }

    /// The setting was switched: nothing is known, and what is below leaves before what will be counted.
    pub fn restart_queue(&mut self, on: bool) {
        let strangers = self.tx.packets_below();
        self.rest.queue =
            (on && strangers > 0).then(|| Box::new(Followed { strangers, ..Followed::default() }));
    }

    /// Before a round of sending: what is known of the device, and whether the flow is still followed.
    pub(super) fn settle_queue(&mut self, cx: &Cx<'_>, caps: &PathCaps) {
        let nothing_below = self.out.credit.below() == 0;
        let acked = self.rest.stats.last_ack_recv;
        let Some(followed) = &mut self.rest.queue else { return };
        if nothing_below {
            (followed.alone, followed.strangers) = (0, 0);
        }
        followed.backlog = caps.backlog;
        if let Some(queue) = &mut followed.estimate {
            queue.set_lateness(caps.lateness);
            if nothing_below {
                queue.on_all_back(cx.now);
            }
        }
        // An idle connection keeps what little can be said in a few bytes, and one whose packets leave at once nothing.
        if nothing_below && self.tx.is_empty() {
            if let Some(queue) = followed.estimate.take() {
                queue.forget(acked.min(cx.now), &mut followed.memory);
            }
            followed.close(acked.clamp(followed.since.min(cx.now), cx.now));
            if followed.memory.is_empty() {
                self.rest.queue = None;
            }
        }
    }

    fn sizes(&self) -> Sizes {
        let headers = if self.tuple.is_v6() { HEADERS_V6 } else { HEADERS_V4 };
        Sizes { mss: self.mss(), headers: headers + self.peer.data_option_bytes() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{FlowId, SocketId};

    /// Three segments stand alone, and have been cut.
    fn alone() -> (Followed, [Owner; 3]) {
        let sizes = Sizes { mss: 1_000, headers: 40 };
        let charge = 3_000 + PACKET_CHARGE;
        let flow = FlowId::of(SocketId::default());
        let mut pieces = Owner::new(flow, charge).cut(3, 2 * PACKET_CHARGE);
        let pieces = core::array::from_fn(|_| pieces.next().expect("three"));
        (Followed { alone: charge, sizes, met: true, ..Followed::default() }, pieces)
    }

    #[test]
    fn a_packet_alone_is_what_stands_of_it_whichever_piece_found_no_room() {
        for refused in 0..3 {
            let (mut followed, pieces) = alone();
            followed.left_alone(Instant::ZERO, pieces[refused], true);
            let mut stands = 2_000 + PACKET_CHARGE;
            for (i, piece) in pieces.into_iter().enumerate().filter(|(i, _)| *i != refused) {
                assert_eq!((followed.alone, followed.memory), (stands, Memory::default()), "before {i}");
                followed.left_alone(Instant::from_millis(5), piece, false);
                stands -= 1_000;
            }
            let mut memory = Memory::default();
            let busy_ns = 5_000_000;
            let period = Period { bytes: 2_080, busy_ns, left: 1, standing: 1, elapsed_ns: 0 };
            memory.add(Instant::from_millis(5), period);
            assert_eq!((followed.alone, followed.memory), (0, memory), "without {refused}, which never left");
        }
    }

    /// What the account holds of a packet alone of 2,800 bytes, which was cut into three, when it begins after so many of them have left.
    fn account(left: usize, departure: Instant) -> (Followed, [Owner; 3]) {
        let sizes = Sizes { mss: 1_448, headers: 52 };
        let owner = Owner::new(FlowId::of(SocketId::default()), 2_800 + PACKET_CHARGE);
        let alone =
            Followed { alone: owner.charge, pieces: 1, sizes, since: departure, ..Followed::default() };
        let (mut followed, more) = (alone, 2 * PACKET_CHARGE);
        followed.cut(Instant::ZERO, owner, more, true);
        let mut pieces = owner.cut(3, more);
        let pieces = core::array::from_fn(|_| pieces.next().expect("three"));
        for piece in &pieces[..left] {
            followed.left_alone(Instant::ZERO, *piece, false);
        }
        followed.begin(QueueAware::new(Instant::ZERO, sizes), Instant::ZERO);
        (followed, pieces)
    }

    #[test]
    fn a_packet_alone_that_was_cut_comes_into_the_account_as_its_pieces() {
        let sizes = Sizes { mss: 1_448, headers: 52 };
        for (left, stands) in [(0, 2_800 + 3 * 52), (1, 1_867 + 2 * 52), (2, 934 + 52)] {
            let (mut followed, pieces) = account(left, Instant::ZERO);
            let queue = followed.estimate.as_mut().expect("begun");
            assert_eq!(queue.queued(), stands, "{left} have left");
            // A FIN goes behind it.
            queue.on_sent(Instant::ZERO, 0, sizes, Instant::ZERO);
            for piece in &pieces[left..] {
                assert!(!queue.on_left(Instant::from_millis(1), piece.charge - PACKET_CHARGE));
            }
            assert_eq!(queue.queued(), 52, "it stands there still");
        }
        // Before its time it is no queue, however many it has become.
        let (followed, _) = account(0, Instant::from_millis(10));
        let queue = followed.estimate.expect("begun");
        assert_eq!((queue.queued(), queue.period(Instant::from_millis(9)).busy_ns), (2_956, 0));
    }

    #[test]
    fn while_strangers_stand_there_only_the_newest_is_known_to_be_none() {
        for (newest, segments) in [(true, 3), (false, 2)] {
            let sizes = Sizes { mss: 1_448, headers: 52 };
            let owner = Owner::new(FlowId::of(SocketId::default()), 2_800 + PACKET_CHARGE);
            let mut followed = Followed { strangers: 1, ..Followed::default() };
            followed.begin(QueueAware::new(Instant::ZERO, sizes), Instant::ZERO);
            let queue = followed.estimate.as_mut().expect("begun");
            queue.on_sent(Instant::ZERO, 2_800, sizes, Instant::ZERO);
            followed.cut(Instant::ZERO, owner, 2 * PACKET_CHARGE, newest);
            let queued = followed.estimate.map(|queue| queue.queued());
            assert_eq!(queued, Some(2_800 + segments * 52), "newest: {newest}");
        }
    }

    #[test]
    fn what_passed_of_a_packet_alone_has_the_headers_of_each_piece() {
        let sizes = Sizes { mss: 1_448, headers: 52 };
        let owner = Owner::new(FlowId::of(SocketId::default()), 2_800 + PACKET_CHARGE);
        let mut followed = Followed { alone: owner.charge, pieces: 1, sizes, ..Followed::default() };
        let more = 2 * PACKET_CHARGE;
        followed.cut(Instant::ZERO, owner, more, true);
        owner.cut(3, more).for_each(|piece| followed.left_alone(Instant::from_millis(5), piece, false));
        let mut memory = Memory::default();
        let period = Period { bytes: 2_956, busy_ns: 5_000_000, left: 1, ..Period::default() };
        memory.add(Instant::from_millis(5), period);
        assert_eq!((followed.alone, followed.memory), (0, memory));
    }

    #[test]
    fn of_what_never_left_nothing_is_remembered() {
        let (mut followed, pieces) = alone();
        pieces.into_iter().for_each(|piece| followed.left_alone(Instant::from_millis(5), piece, true));
        assert_eq!((followed.alone, followed.memory), (0, Memory::default()));
        // A FIN by itself.
        let owner = Owner::new(FlowId::of(SocketId::default()), PACKET_CHARGE);
        let sizes = Sizes { mss: 1_448, headers: 52 };
        let mut followed = Followed { alone: PACKET_CHARGE, sizes, ..Followed::default() };
        followed.left_alone(Instant::from_millis(5), owner, false);
        assert!(followed.alone == 0 && !followed.memory.is_empty());
    }
}
