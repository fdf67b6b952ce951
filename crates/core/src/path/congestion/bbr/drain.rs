//! DRAIN: the queue that STARTUP has made is emptied before bandwidth is probed for.
use super::model::UNIT;
use super::{Bbr, Mode};
use crate::base::Cx;
use crate::path::congestion::{Flow, Window};

impl Bbr {
    /// `bbr_check_drain`. ssthresh tells others, such as TCP_INFO, where slow start ended.
    pub(super) fn check_drain(&mut self, cx: &mut Cx<'_>, window: &mut Window, flow: &Flow) {
        if self.mode == Mode::Startup && self.pipe.reached {
            self.mode = Mode::Drain;
            let pipe = self.inflight(self.model.max_bw(), UNIT, flow);
            window.set_ssthresh(cx, pipe.max(2));
        }
        if self.mode == Mode::Drain
            && self.in_network_at_departure(cx, flow.in_flight, flow)
                <= self.inflight(self.model.max_bw(), UNIT, flow)
        {
            self.enter_probe_bw(cx, flow);
        }
    }
}
