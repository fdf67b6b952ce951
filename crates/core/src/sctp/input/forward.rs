//! FORWARD TSN: the peer has given something up, and nobody waits for it any more (RFC 3758 section 3.6).
use super::Reading;
use crate::base::Cx;
use crate::base::limits::SCTP_TSN_AHEAD_MAX;
use crate::sctp::assoc::{Assoc, Notice};
use crate::sctp::notification::Subscriptions;
use lowwater_wire::sctp::ForwardStream;
use smallvec::SmallVec;

impl Assoc {
    /// Counts as DATA for what is to be acknowledged. One that skips more than can be out, or a stream that does not exist, is dropped
    /// (Linux `sctp_sf_eat_fwd_tsn`). One whose TSN has come moves nothing but the streams that it names, as in Linux: all that was
    /// sent of a message may have come before the sender gave up the rest, which never had a TSN.
    pub(super) fn on_forward_tsn(
        &mut self,
        cx: &mut Cx<'_>,
        reading: &mut Reading<'_>,
        tsn: u32,
        streams: &[ForwardStream],
    ) {
        if !self.state.may_receive_data() {
            return;
        }
        let cum = self.rx.map.cum();
        let point = cum.near(tsn);
        reading.data = true;
        reading.urgent |= point <= cum;
        let known = streams.iter().all(|stream| stream.sid() < self.rx.inbound);
        if point.0.saturating_sub(cum.0) > SCTP_TSN_AHEAD_MAX || !known {
            cx.count.sctp.in_data_chunk_discards += 1;
            return;
        }
        self.rx.map.skip(point);
        let tell = self.options.events.contains(Subscriptions::PARTIAL_DELIVERY);
        let partial = self.rx.streams.is_partial();
        // One that a network has kept must not move a stream that has begun anew since (RFC 6525).
        let now = |stream: &&ForwardStream| !self.rx.is_of_old(point, stream.sid());
        let streams: SmallVec<[ForwardStream; 8]> = streams.iter().filter(now).copied().collect();
        self.rx.streams.skip(point, &streams, tell);
        if partial && !self.rx.streams.is_partial() {
            // Whoever was in the middle of a message may have something else to read now.
            self.owner.notice.add(Notice::READABLE);
        }
    }
}
