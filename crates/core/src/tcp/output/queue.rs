//! The queue-aware limit at its place among the gatekeepers: smaller packets, and less below than small queues allow
//! (`tcp_queue_aware`; path/queue_aware.rs).
use super::{PACKET_CHARGE, autosize};
use crate::base::{Cx, Instant};
use crate::path::queue_aware::{QueueAware, Sizes};
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
}

impl Conn {
    /// What the flow has below, while that is followed.
    #[must_use]
    pub fn own_queue(&self, now: Instant) -> Option<OwnQueue> {
        let queue = self.rest.queue.as_ref()?;
        Some(OwnQueue { bytes: queue.queued(), rate: queue.rate(now), limit: queue.limit(now) })
    }

    /// Segments that the next packet should hold: as many as the flow sends in a millisecond, but no more than its own queue passes
    /// on in half of one.
    pub(super) fn packet_segments(&self, cx: &Cx<'_>, caps: &PathCaps, mss: u16) -> u16 {
        let segments = autosize::segments(cx.sysctl, &self.path, caps, mss);
        match self.rest.queue.as_ref().and_then(|queue| queue.segments(cx.now)) {
            Some(most) => segments.min(most),
            None => segments,
        }
    }

    /// The answer of the queue-aware limit to a packet of so much charge; `None` where it has none, and small queues decide.
    pub(super) fn queue_admits(&mut self, cx: &Cx<'_>, charge: u32) -> Option<bool> {
        self.rest.queue.as_mut()?.admits(cx.now, charge - PACKET_CHARGE)
    }

    /// A packet goes down. Its flow is followed from the first that finds another one below: a packet alone, or one that has left
    /// before the next is made, stands in no queue.
    pub(super) fn queue_sent(&mut self, cx: &Cx<'_>, charge: u32) {
        let below = self.out.credit.below();
        if !cx.sysctl.tcp_queue_aware || (self.rest.queue.is_none() && below == 0) {
            return;
        }
        let sizes = self.sizes();
        let queue = self.rest.queue.get_or_insert_with(|| {
            let mut queue = Box::new(QueueAware::new(cx.now, sizes));
            queue.on_sent(cx.now, below - PACKET_CHARGE, sizes);
            queue
        });
        queue.on_sent(cx.now, charge - PACKET_CHARGE, sizes);
    }

    /// One has left; true when more should have been below.
    pub(super) fn queue_left(&mut self, cx: &Cx<'_>, charge: u32) -> bool {
        self.rest
            .queue
            .as_mut()
            .is_some_and(|queue| queue.on_left(cx.now, charge.saturating_sub(PACKET_CHARGE)))
    }

    /// One was given up on this side of the wire.
    pub(super) fn queue_dropped(&mut self, cx: &Cx<'_>, charge: u32) {
        if let Some(queue) = &mut self.rest.queue {
            queue.on_dropped(cx.now, charge.saturating_sub(PACKET_CHARGE));
        }
    }

    /// Before a round of sending: what is known of the device, and whether the flow is still followed.
    pub(super) fn settle_queue(&mut self, cx: &Cx<'_>, caps: &PathCaps) {
        let Some(queue) = &mut self.rest.queue else { return };
        queue.set_lateness(caps.lateness);
        let nothing_below = self.out.credit.below() == 0;
        if nothing_below {
            queue.on_all_back(cx.now);
        }
        // An idle connection remembers nothing of its queue.
        if !cx.sysctl.tcp_queue_aware || (nothing_below && self.tx.is_empty()) {
            self.rest.queue = None;
        }
    }

    fn sizes(&self) -> Sizes {
        let headers = if self.tuple.is_v6() { HEADERS_V6 } else { HEADERS_V4 };
        Sizes { mss: self.mss(), headers: headers + self.peer.data_option_bytes() }
    }
}
