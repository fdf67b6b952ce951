//! A segment larger than the path is known to carry, out of data that waits anyway (RFC 4821 section 7; `tcp_mtu_probe`).
use crate::base::{Cx, Wait};
use crate::path::congestion::CaState;
use crate::path::plpmtud::CWND_MIN;
use crate::tcp::conn::Conn;
use crate::tcp::segment::Outgoing;
use crate::tcp::send_window::Room;

impl Conn {
    /// A probe, where the search wants one and nothing speaks against it. The error says that it is worth waiting for.
    pub(super) fn mtu_probe(&mut self, cx: &mut Cx<'_>, mss: u16) -> Result<Option<Outgoing>, Wait> {
        let cwnd = self.path.window.cwnd;
        // Options that come and go would blur what the size shows, and a small window cannot spare a segment.
        if self.tx.ca_state() != CaState::Open || cwnd < CWND_MIN || self.rx.sack_count() > 0 {
            return Ok(None);
        }
        let Some(search) = self.path.plpmtud.as_mut() else { return Ok(None) };
        let Some(size) = search.next_size(cx.sysctl, cx.now, &self.path.pmtu) else { return Ok(None) };
        // Enough behind it that its loss is noticed by duplicates.
        let behind = (self.tx.reordering().degree + 1).saturating_mul(u32::from(mss));
        let needed = u32::from(size).saturating_add(behind);
        if self.tx.queue_ref().unsent_bytes() < u64::from(needed) || self.snd.wnd < needed {
            return Ok(None);
        }
        if self.send_window_room() < needed {
            return Err(Wait::MtuProbe);
        }
        let in_flight = self.tx.in_flight();
        if in_flight + 2 > cwnd {
            return if in_flight == 0 { Ok(None) } else { Err(Wait::MtuProbe) };
        }
        // It leaves now, and would say that it has left later, before an acknowledgement that says now (RFC 7323 section 5.3). Linux stamps all by
        // the pace and does not wait (`tcp_mtu_probe` comes before `tcp_pacing_check`).
        self.pacing_gate(cx.now)?;
        let Some((plan, span)) = self.tx.commit_mtu_probe(cx, &mut self.path, size) else {
            return Ok(None);
        };
        if let Some(search) = self.path.plpmtud.as_mut() {
            search.sent(&self.path.pmtu, size, span);
        }
        // It is worth two packets.
        self.path.window.set_cwnd(cx, cwnd - 1);
        self.out.burst.segs = self.out.burst.segs.saturating_add(plan.segs);
        self.snd.room = Room::Grows;
        Ok(Some(self.data_segment(cx, &plan, false)))
    }

    /// Timeouts in a row: routers may drop what is too long without a word (`tcp_mtu_probing`).
    pub(in crate::tcp) fn suspect_black_hole(&mut self, cx: &Cx<'_>) {
        if cx.sysctl.tcp_mtu_probing == 0 {
            return;
        }
        match self.path.plpmtud.as_mut() {
            Some(search) => search.shrink(cx.sysctl, &self.path.pmtu),
            None => self.path.search_mtu(cx, self.peer.data_option_bytes()),
        }
        self.settle_mss(cx);
    }
}
