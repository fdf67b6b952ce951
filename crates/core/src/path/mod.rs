//! Everything that is true of one network path: round-trip time, congestion window, pacing rate, path MTU, ECN.
//! TCP owns one path, SCTP one per remote address. Facts come in as samples; questions go out as values.
pub mod congestion;
pub mod ecn;
pub mod lateness;
pub mod min_filter;
pub mod pacing;
pub mod plpmtud;
pub mod pmtu;
pub mod queue_aware;
pub mod rate;
pub mod rtt;

use crate::base::Cx;
use crate::base::sysctl::CongestionKind;
use crate::base::time::{Duration, Instant};
use congestion::{AnyCongestion, CaEvent, Congestion as _, Flow, Window};
use ecn::Ecn;
use pacing::{Demand, Pacing};
use plpmtud::Plpmtud;
use pmtu::Pmtu;
use rate::Rate;
use rtt::Rtt;

/// One network path.
#[derive(Debug)]
pub struct Path {
    /// Round-trip time and retransmission timeout.
    pub rtt: Rtt,
    /// Congestion window; its setters trace.
    pub window: Window,
    /// What moves the window.
    pub congestion: AnyCongestion,
    /// Pacing rate and departure times.
    pub pacing: Pacing,
    /// Delivery rate.
    pub rate: Rate,
    /// Path MTU and segment size.
    pub pmtu: Pmtu,
    /// The search for a larger MTU, or for one that passes at all; `None` while it is off, as by default.
    pub plpmtud: Option<Box<Plpmtud>>,
    /// Explicit congestion notification.
    pub ecn: Ecn,
}

impl Path {
    /// A path that nothing is known of but its MTU; congestion controller and timeouts as the sysctls say.
    #[must_use]
    pub fn new(cx: &Cx<'_>, pmtu: Pmtu) -> Self {
        Self {
            rtt: Rtt::new(),
            window: Window::new(),
            congestion: AnyCongestion::new(cx.sysctl.tcp_congestion_control),
            pacing: Pacing::new(),
            rate: Rate::new(),
            pmtu,
            plpmtud: None,
            ecn: Ecn::default(),
        }
    }

    /// Begins the search for the MTU; segments carry `options` bytes of options each.
    pub fn search_mtu(&mut self, cx: &Cx<'_>, options: u16) {
        self.plpmtud = Some(Box::new(Plpmtud::new(cx.now, &self.pmtu, options)));
    }

    /// The path's MTU changed, or what is known of it did: a search settles the size of segments anew.
    pub fn settle_mtu(&mut self) {
        if let Some(search) = &mut self.plpmtud {
            search.settle(&self.pmtu);
        }
    }

    /// Replaces the controller (TCP_CONGESTION). The window stays; what the old controller learnt is forgotten. On a connection
    /// that has begun [`CaEvent::Start`] has to follow.
    pub fn set_congestion(&mut self, kind: CongestionKind) {
        self.congestion = AnyCongestion::new(kind);
    }

    /// What the controller may ask of its flow: `mss` is the segment size in force, `in_flight` and `lost` are the transport's.
    #[must_use]
    pub fn flow(&self, mss: u16, in_flight: u32, lost: u32, nxt: u64) -> Flow {
        Flow {
            mss: u32::from(mss),
            in_flight,
            delivered: self.rate.delivered(),
            delivered_at: self.rate.delivered_at(),
            lost,
            app_limited: self.rate.is_app_limited(),
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
            departure: self.pacing.wstamp(),
            pacing_rate: self.pacing.rate(),
            max_pacing_rate: self.pacing.max_rate(),
            nxt,
        }
    }

    /// Tells the controller a fact; what it wants of pacing is done at once.
    pub fn tell(&mut self, cx: &mut Cx<'_>, event: CaEvent, flow: &Flow) {
        self.congestion.on_event(cx, &mut self.window, event, flow);
        if let Some(rate) = self.congestion.wishes().pacing_rate {
            self.pacing.need();
            self.pacing.set_rate(rate);
        }
    }

    /// When a timer of `wait` fires that counts from the next packet's departure. The longest timeout bounds both together
    /// (`tcp_reset_xmit_timer`).
    #[must_use]
    pub fn deadline(&self, cx: &Cx<'_>, wait: Duration) -> Instant {
        cx.now + (self.pacing.delay(cx.now) + wait).min(self.rtt.rto_max(cx.sysctl))
    }

    /// Derives the pacing rate anew after an acknowledgement, unless the controller sets it itself.
    /// `mss` is the segment size in force, `packets_out` the segments sent and not acknowledged.
    pub fn update_pacing_rate(&mut self, cx: &Cx<'_>, mss: u16, packets_out: u32) {
        let demand = Demand {
            mss: u32::from(mss),
            cwnd: self.window.cwnd,
            ssthresh: self.window.ssthresh,
            packets_out,
            srtt8_us: self.rtt.srtt8_us(),
        };
        match self.congestion.wishes().pacing_rate {
            Some(rate) => self.pacing.set_rate(rate),
            None => self.pacing.derive_rate(cx.sysctl, &demand),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Instant;
    use crate::base::testing::World;

    #[test]
    fn a_path_is_small() {
        assert!(size_of::<Path>() <= 400, "{}", size_of::<Path>());
        assert!(size_of::<AnyCongestion>() <= 120, "{}", size_of::<AnyCongestion>());
    }

    #[test]
    fn the_sysctl_names_the_controller_and_the_rate_follows_the_window() {
        let mut world = World::new();
        world.sysctl.tcp_congestion_control = CongestionKind::Reno;
        let mut path = Path::new(&world.cx(Instant::ZERO), Pmtu::new(1_500, false));
        assert_eq!(path.congestion.name(), "reno");
        path.set_congestion(CongestionKind::Cubic);
        assert_eq!(path.congestion.name(), "cubic");
        path.rtt.sample(&world.cx(Instant::ZERO), core::time::Duration::from_millis(100), 1, 1);
        path.update_pacing_rate(&world.cx(Instant::ZERO), 1_448, 0);
        // 10 segments per 100 ms, doubled in slow start.
        assert_eq!(path.pacing.rate(), 289_600);
    }
}
