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

/// What is kept of a flow's own queue.
#[derive(Debug, Default)]
pub(in crate::tcp) struct Followed {
    /// Exists while the flow has something in flight, from the first packet that went down behind another one.
    estimate: Option<Box<QueueAware>>,
    /// Charge of the packet below that nobody follows, as it stands there alone; 0 for none.
    alone: u32,
    /// Packets that went down before the setting was switched on.
    strangers: u16,
}

impl Conn {
    /// What the flow has below, while that is followed.
    #[must_use]
    pub fn own_queue(&self, now: Instant) -> Option<OwnQueue> {
        let queue = self.rest.queue.estimate.as_ref()?;
        Some(OwnQueue { bytes: queue.queued(), rate: queue.rate(now), limit: queue.limit(now) })
    }

    /// Segments that the next packet should hold: as many as the flow sends in a millisecond, but no more than its own queue passes
    /// on in half of one.
    pub(super) fn packet_segments(&self, cx: &Cx<'_>, caps: &PathCaps, mss: u16) -> u16 {
        let segments = autosize::segments(cx.sysctl, &self.path, caps, mss);
        match self.rest.queue.estimate.as_ref().and_then(|queue| queue.segments(cx.now)) {
            Some(most) => segments.min(most),
            None => segments,
        }
    }

    /// The answer of the queue-aware limit to a packet of so much charge; `None` where it has none, and small queues decide.
    pub(super) fn queue_admits(&mut self, cx: &Cx<'_>, charge: u32) -> Option<bool> {
        self.rest.queue.estimate.as_mut()?.admits(cx.now, charge - PACKET_CHARGE)
    }

    /// A packet goes down. Its flow is followed from the first that finds another one below: a packet alone, or one that has left
    /// before the next is made, stands in no queue.
    pub(super) fn queue_sent(&mut self, cx: &Cx<'_>, charge: u32, departure: Instant) {
        if !cx.sysctl.tcp_queue_aware {
            return;
        }
        let sizes = self.sizes();
        let Followed { estimate, alone, strangers } = &mut self.rest.queue;
        let queue = match estimate {
            Some(queue) => queue,
            None if *alone == 0 && *strangers == 0 => {
                *alone = charge;
                return;
            }
            None => {
                let mut queue = Box::new(QueueAware::new(cx.now, sizes));
                if let Some(payload) = core::mem::take(alone).checked_sub(PACKET_CHARGE) {
                    queue.on_sent(cx.now, payload, sizes, cx.now);
                }
                estimate.insert(queue)
            }
        };
        queue.on_sent(cx.now, charge - PACKET_CHARGE, sizes, departure);
    }

    /// One has left the flow's queue, or was given up in it (`dropped`); true when more should have been below. Its credit may come back
    /// later.
    pub fn leave_queue(&mut self, cx: &mut Cx<'_>, charge: u32, dropped: bool) -> bool {
        let Followed { estimate, alone, strangers } = &mut self.rest.queue;
        if *strangers > 0 {
            *strangers -= 1;
            return false;
        }
        *alone = 0;
        let payload = charge.saturating_sub(PACKET_CHARGE);
        match estimate {
            Some(queue) if dropped => {
                queue.on_dropped(cx.now, payload);
                false
            }
            Some(queue) => queue.on_left(cx.now, payload),
            None => false,
        }
    }

    /// The newest did not get into the queue.
    pub(super) fn queue_refused(&mut self, cx: &Cx<'_>, charge: u32) {
        self.rest.queue.alone = 0;
        if let Some(queue) = &mut self.rest.queue.estimate {
            queue.on_refused(cx.now, charge.saturating_sub(PACKET_CHARGE));
        }
    }

    /// The setting was switched: nothing is known, and what is below leaves before what will be counted.
    pub fn restart_queue(&mut self) {
        self.rest.queue = Followed { strangers: self.tx.packets_below(), ..Followed::default() };
    }

    /// Before a round of sending: what is known of the device, and whether the flow is still followed.
    pub(super) fn settle_queue(&mut self, cx: &Cx<'_>, caps: &PathCaps) {
        let nothing_below = self.out.credit.below() == 0;
        if nothing_below {
            (self.rest.queue.alone, self.rest.queue.strangers) = (0, 0);
        }
        let Some(queue) = &mut self.rest.queue.estimate else { return };
        queue.set_lateness(caps.lateness);
        if nothing_below {
            queue.on_all_back(cx.now);
        }
        // An idle connection remembers nothing of its queue.
        if !cx.sysctl.tcp_queue_aware || (nothing_below && self.tx.is_empty()) {
            self.rest.queue.estimate = None;
        }
    }

    fn sizes(&self) -> Sizes {
        let headers = if self.tuple.is_v6() { HEADERS_V6 } else { HEADERS_V4 };
        Sizes { mss: self.mss(), headers: headers + self.peer.data_option_bytes() }
    }
}
