//! What happens on a path, told to whoever moves its window; and the pacing rate that follows.
use super::load;
use crate::base::Cx;
use crate::base::sysctl::SctpCongestionKind;
use crate::base::time::{Duration, Instant};
use crate::path::congestion::{CaState, Flow};
use crate::path::pacing::Demand;
use crate::sctp::congestion::controller::Controller;
use crate::sctp::outstanding::{Chunk, Outstanding};
use crate::sctp::paths::{Acked, Path};
use crate::sctp::tsn::Tsn;

/// What a controller knows of a path that carried no data for so long is forgotten: as long as BBR believes a round trip.
const FORGET: Duration = Duration::from_secs(10);
/// Packets that an idle window keeps (section 7.2.1).
pub(super) const IDLE_FLOOR: u32 = 4;

/// Where an association is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sctp) struct Marks {
    /// Everything up to here is acknowledged.
    pub(in crate::sctp) cum: Tsn,
    /// What is sent next for the first time.
    pub(in crate::sctp) next: Tsn,
}

impl Marks {
    pub(in crate::sctp) fn of(out: &Outstanding) -> Self {
        Self { cum: out.cum(), next: out.next_tsn() }
    }
}

/// What a SACK said about one path, in bytes of chunks with their headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sacked {
    pub(super) delivered: u32,
    /// In flight before and after it.
    pub(super) before: u32,
    pub(super) load: u32,
    /// The window may grow: what the path has waited for was there, whatever other paths wait for.
    pub(super) grows: bool,
    pub(super) marks: Marks,
}

impl Path {
    /// What a controller may ask, as far as the path knows it.
    fn facts(&self, next: Tsn) -> Flow {
        let pacing = &self.flow.pacing;
        Flow {
            mss: self.pmdcs(),
            srtt: self.rto.srtt(),
            min_rtt: self.rto.min_rtt(),
            departure: pacing.wstamp(),
            pacing_rate: pacing.rate(),
            max_pacing_rate: pacing.max_rate(),
            nxt: next.0,
            ..Flow::default()
        }
    }

    /// Data may leave here next: an idle window shrinks, and a controller that is wanted begins its work.
    pub(in crate::sctp) fn before_data(&mut self, cx: &mut Cx<'_>, next: Tsn) {
        let rto = self.rto.get();
        let Some(kind) = self.cwnd.kind.controller() else {
            let pmdcs = self.pmdcs();
            return self.cwnd.on_idle(cx, rto, pmdcs);
        };
        if self.cwnd.controller.is_none() {
            // It goes on from a window that may be of long ago.
            let pmdcs = self.pmdcs();
            self.cwnd.on_idle(cx, rto, pmdcs);
            let flow = self.facts(next);
            let window = (self.cwnd.cwnd, self.cwnd.ssthresh);
            let mut controller = Box::new(Controller::new(cx, kind, window, &flow));
            self.cwnd.partial_bytes_acked = 0;
            controller.on_load(self.cwnd.load);
            self.cwnd.controller = Some(controller);
            self.cwnd.control(&flow, |_, _| ());
            return self.update_rate(cx);
        }
        if self.cwnd.flight > 0 || self.cwnd.last_data == Instant::ZERO {
            return;
        }
        let timeouts = cx.now.nanos_since(self.cwnd.last_data).checked_div(rto.as_nanos() as u64);
        let halvings = timeouts.and_then(|n| u32::try_from(n).ok()).unwrap_or(u32::MAX);
        if halvings > 0 {
            self.cwnd.last_data = cx.now;
            let flow = self.facts(next);
            self.cwnd.control(&flow, |controller, flow| controller.restart(cx, flow, halvings));
            self.update_rate(cx);
        }
    }

    /// The heartbeat timer says that the path is idle. Who was idle for long begins anew from four packets, and nobody needs the memory
    /// of the busiest time.
    pub(in crate::sctp) fn rest(&mut self, cx: &mut Cx<'_>, next: Tsn) {
        let idle = cx.now.since(self.cwnd.last_data);
        let Some(controller) = &mut self.cwnd.controller else { return };
        controller.shrink();
        if self.cwnd.flight == 0 && idle >= FORGET {
            let governs = controller.wishes().governs;
            self.before_data(cx, next);
            self.cwnd.controller = None;
            // Also where a timeout is longer than that: nobody is left who would halve the window.
            let (cwnd, floor) = (self.cwnd.cwnd, IDLE_FLOOR * self.pmdcs());
            if cwnd > floor {
                // Slow start takes it back to where it was (as `tcp_current_ssthresh`).
                let known = if governs { 0 } else { cwnd / 4 * 3 };
                (self.cwnd.cwnd, self.cwnd.ssthresh) = (floor, self.cwnd.ssthresh.max(known));
            }
            self.update_rate(cx);
        }
    }

    /// The window holds something back.
    pub(in crate::sctp) fn on_window_full(&mut self, next: Tsn) {
        if self.cwnd.controller.is_some() {
            let flow = self.facts(next);
            self.cwnd.control(&flow, |controller, flow| controller.on_full(flow));
        }
    }

    /// The application writes something that will go here, and all that it wrote before has left.
    pub(in crate::sctp) fn mark_app_limited(&mut self, next: Tsn) {
        if self.cwnd.controller.is_some() {
            let flow = self.facts(next);
            self.cwnd.control(&flow, |controller, flow| controller.mark_app_limited(flow));
        }
    }

    /// A chunk of `len` bytes leaves here.
    pub(in crate::sctp) fn on_chunk_sent(&mut self, cx: &mut Cx<'_>, len: u32, next: Tsn) {
        if self.cwnd.controller.is_some() {
            let flow = self.facts(next);
            self.cwnd.control(&flow, |controller, flow| controller.on_sent(cx, flow));
            if self.cwnd.load == 0 {
                self.update_rate(cx);
            }
        }
        self.cwnd.add(len);
        let load = self.cwnd.load;
        if let Some(controller) = &mut self.cwnd.controller {
            controller.on_load(load);
        }
    }

    /// A SACK begins.
    pub(in crate::sctp) fn begin_sack(&mut self) {
        self.flow.acked = Acked { load: self.cwnd.load, ..Acked::default() };
        if let Some(controller) = &mut self.cwnd.controller {
            controller.begin_sack();
        }
    }

    /// A chunk that was sent here is acknowledged for the first time, and was `in_flight` until now.
    pub(in crate::sctp) fn on_chunk_acked(&mut self, now: Instant, chunk: &Chunk, in_flight: bool) {
        let len = chunk.len();
        if in_flight {
            self.cwnd.remove(len);
        }
        self.flow.acked.bytes += len;
        self.flow.acked.delivered += load(len);
        if let Some(controller) = &mut self.cwnd.controller {
            controller.on_delivered(now, chunk.sent_at, chunk.sends > 1);
        }
    }

    /// A chunk that left here `at` that time leaves again, maybe elsewhere, or is given up.
    pub(in crate::sctp) fn on_chunk_gone(&mut self, at: Instant) {
        if let Some(controller) = &mut self.cwnd.controller {
            controller.on_gone(at);
        }
    }

    /// A chunk of `len` bytes that was in flight here is lost: SACKs have missed it.
    pub(in crate::sctp) fn on_chunk_missed(&mut self, len: u32) {
        self.cwnd.remove(len);
        self.flow.acked.lost += load(len);
        if let Some(controller) = &mut self.cwnd.controller {
            controller.on_lost(load(len));
        }
    }

    /// The peer has taken back that it has a chunk of `len` bytes.
    pub(in crate::sctp) fn on_chunk_reneged(&mut self, len: u32) {
        self.cwnd.add(len);
        if let Some(controller) = &mut self.cwnd.controller {
            controller.on_reneged();
        }
    }

    /// What the SACK at work has acknowledged, for RFC 9260's own rules.
    pub(in crate::sctp) fn grow(&mut self, cx: &mut Cx<'_>) {
        let Acked { delivered, load, .. } = self.flow.acked;
        if delivered > 0 && self.cwnd.controller.is_none() {
            let (pmdcs, recovering) = (self.pmdcs(), self.cwnd.recovery.is_some());
            self.cwnd.on_ack(cx, delivered, load, pmdcs, recovering);
        }
    }

    /// What the SACK at work means for the window of a controller, and for the pacing rate.
    pub(in crate::sctp) fn end_sack(&mut self, cx: &mut Cx<'_>, marks: Marks) {
        let Acked { load: before, delivered, cumulative, overtaken, .. } = self.flow.acked;
        let grows = delivered > 0 && (cumulative || !overtaken);
        if self.cwnd.controller.is_some() {
            let flow = self.facts(marks.next);
            let sacked = Sacked { delivered, before, load: self.cwnd.load, grows, marks };
            let pacing = &self.flow.pacing;
            self.cwnd.control(&flow, |controller, flow| controller.on_sack(cx, flow, &sacked, pacing));
        }
        self.update_rate(cx);
    }

    /// Something of this path goes again fast. `fresh`: it was not in fast recovery.
    pub(in crate::sctp) fn on_fast_retransmit(&mut self, cx: &mut Cx<'_>, marks: Marks, fresh: bool) {
        if self.cwnd.controller.is_some() {
            self.on_congestion(cx, CaState::Recovery, marks);
        } else if fresh {
            let pmdcs = self.pmdcs();
            self.cwnd.on_loss(cx, pmdcs);
        }
    }

    /// The peer has seen a mark, for the first time in this window.
    pub(in crate::sctp) fn on_ecn_echo(&mut self, cx: &mut Cx<'_>, marks: Marks) {
        if self.cwnd.controller.is_some() {
            self.on_congestion(cx, CaState::Cwr, marks);
        } else {
            let pmdcs = self.pmdcs();
            self.cwnd.on_loss(cx, pmdcs);
        }
        self.update_rate(cx);
    }

    fn on_congestion(&mut self, cx: &mut Cx<'_>, state: CaState, marks: Marks) {
        let flow = self.facts(marks.next);
        self.cwnd.control(&flow, |controller, flow| controller.on_congestion(cx, flow, state, marks));
    }

    /// T3-rtx ran out for all that was in flight. Where `refused`, the peer had no room for it, and nothing was lost.
    pub(in crate::sctp) fn on_t3(&mut self, cx: &mut Cx<'_>, marks: Marks, refused: bool) {
        let lost = self.cwnd.remove_all();
        if refused {
            return;
        }
        self.cwnd.recovery = None;
        let pmdcs = self.pmdcs();
        if self.cwnd.controller.is_some() {
            let flow = self.facts(marks.next);
            self.cwnd.lone = true;
            self.cwnd.control(&flow, |controller, flow| {
                controller.on_lost(lost);
                controller.on_timeout(cx, flow, marks);
            });
        } else {
            self.cwnd.on_timeout(cx, pmdcs);
        }
    }

    /// Packets go another way, or are treated otherwise on theirs: what was learnt of the path says nothing of it (section 7.2.5).
    pub(in crate::sctp) fn reinitialize(&mut self, cx: &Cx<'_>) {
        self.cwnd.reinitialize(self.room.pmdcs(self.remote), self.remote.is_ipv6());
        self.update_rate(cx);
    }

    /// Another one moves the window, which stays; what the old one knew goes, and its pacing where the owner wants none. The new one
    /// begins with the next data, which asks the pace already if it will set one.
    pub(in crate::sctp) fn set_congestion(&mut self, cx: &Cx<'_>, kind: SctpCongestionKind, paced: bool) {
        if self.cwnd.kind != kind {
            (self.cwnd.kind, self.cwnd.controller) = (kind, None);
            if kind.paces() {
                self.flow.pacing.need();
            } else if !paced {
                self.flow.pacing.release();
            }
            self.update_rate(cx);
        }
    }

    /// The pacing rate after the window or the round-trip time has changed, unless the controller sets its own.
    pub(in crate::sctp) fn update_rate(&mut self, cx: &Cx<'_>) {
        let pmdcs = self.room.pmdcs(self.remote);
        // A packet in a round-trip time, as the least window has it: what timers send alone measures how long those wait, and a rate
        // that followed it would have them wait longer each time.
        let slowest = (u64::from(pmdcs) * 8_000_000).checked_div(self.rto.srtt8_us().into()).unwrap_or(0);
        let pacing = &mut self.flow.pacing;
        if let Some(rate) = self.cwnd.controller.as_ref().and_then(|c| c.wishes().pacing_rate) {
            pacing.need();
            return pacing.set_rate(rate.max(slowest));
        }
        let segments = |bytes: u32| if bytes == u32::MAX { u32::MAX } else { bytes.div_ceil(pmdcs).max(1) };
        let demand = Demand {
            mss: pmdcs,
            cwnd: segments(self.cwnd.cwnd),
            ssthresh: segments(self.cwnd.ssthresh),
            packets_out: self.cwnd.in_flight().div_ceil(pmdcs),
            srtt8_us: self.rto.srtt8_us(),
        };
        pacing.derive_rate(cx.sysctl, &demand);
    }
}
