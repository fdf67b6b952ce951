//! Tail loss probes (RFC 8985 section 7) as the sender makes them.
use super::Sender;
use super::resend::{Resend, Share};
use crate::base::Cx;
use crate::path::Path;
use crate::tcp::recovery::Env;
use core::num::NonZeroU64;

/// What a tail loss probe should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// One segment of new data, if the peer's window takes it; else nothing. Then [`Sender::tlp_done`].
    New,
    /// This retransmission. Then [`Sender::tlp_done`].
    Resend(Resend),
    /// None now.
    Nothing,
}

impl Sender {
    /// The TLP timer fired: what to send. New data if the peer's window takes a segment (`window_room`), else the last segment
    /// again. Report with [`Self::tlp_done`] or send it with [`Self::commit_tlp`]. Its turn may be long in coming: until then the RTO
    /// timer runs as if no probe could be sent.
    pub fn on_tlp(&mut self, cx: &mut Cx<'_>, path: &mut Path, window_room: bool) -> Probe {
        Env { cx, path, flight: &mut self.flight, timer: &mut self.timer }.rearm_rto();
        if self.recovery.tlp.high_seq.is_some() || self.flight.packets_out == 0 {
            return Probe::Nothing;
        }
        self.recovery.tlp.retrans = false;
        if window_room && self.flight.tx.unsent.head().is_some() {
            return Probe::New;
        }
        let Some((start, last)) = self.flight.tx.last() else { return Probe::Nothing };
        if self.flight.tx.below.holds(last.number) {
            // What has not left this host is not probed for: the timeout is set (`skb_still_in_host_queue`).
            cx.count.tcp_ext.tcp_spurious_rtx_host_queues += 1;
            return Probe::Nothing;
        }
        let mut start = start;
        // By the MSS of now, though it was counted by another (`tcp_send_loss_probe`).
        let front = usize::from(last.segs.saturating_sub(1)) * usize::from(self.flight.mss);
        if front < last.payload.len() && self.flight.split_to_resend(start, front) {
            start += front as u64;
        }
        self.resend(start, Share::Proposed).map_or(Probe::Nothing, Probe::Resend)
    }

    /// A probe left, as a retransmission or not: the RTO timer runs from now on.
    pub fn tlp_done(&mut self, cx: &mut Cx<'_>, path: &mut Path, retrans: bool) {
        let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
        self.recovery.on_probe(&mut e, retrans);
    }

    /// Where the sequence space ended when the probe that is out left.
    #[must_use]
    pub const fn tail_probe(&self) -> Option<NonZeroU64> {
        self.recovery.tlp.high_seq
    }
}
