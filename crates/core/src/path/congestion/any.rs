//! Every congestion controller in one enum: chosen by name, dispatched without indirection.
use super::bbr::Bbr;
use super::cubic::Cubic;
use super::reno::Reno;
use super::{AckSample, CaEvent, CaState, Congestion, Flow, Window, Wishes};
use crate::base::Cx;
use crate::base::sysctl::CongestionKind;
use core::fmt;

/// A controller of the stack's own, or one that the application brought.
pub enum AnyCongestion {
    /// RFC 5681.
    Reno(Reno),
    /// RFC 9438.
    Cubic(Cubic),
    /// draft-cardwell-iccrg-bbr-congestion-control-00; larger than the others, and seldom used.
    Bbr(Box<Bbr>),
    /// An application's.
    Custom(Box<dyn Congestion + Send>),
}

impl AnyCongestion {
    /// A fresh controller of a kind.
    #[must_use]
    pub fn new(kind: CongestionKind) -> Self {
        match kind {
            CongestionKind::Reno => Self::Reno(Reno::new()),
            CongestionKind::Cubic => Self::Cubic(Cubic::new()),
            CongestionKind::Bbr => Self::Bbr(Box::default()),
        }
    }
}

impl fmt::Debug for AnyCongestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reno(reno) => reno.fmt(f),
            Self::Cubic(cubic) => cubic.fmt(f),
            Self::Bbr(bbr) => bbr.fmt(f),
            Self::Custom(custom) => write!(f, "Custom({})", custom.name()),
        }
    }
}

macro_rules! each {
    ($any:ident, $it:ident => $call:expr) => {
        match $any {
            AnyCongestion::Reno($it) => $call,
            AnyCongestion::Cubic($it) => $call,
            AnyCongestion::Bbr($it) => $call,
            AnyCongestion::Custom($it) => $call,
        }
    };
}

impl Congestion for AnyCongestion {
    fn name(&self) -> &'static str {
        each!(self, it => it.name())
    }

    fn wishes(&self) -> Wishes {
        each!(self, it => it.wishes())
    }

    fn ssthresh(&mut self, cx: &mut Cx<'_>, window: &Window) -> u32 {
        each!(self, it => it.ssthresh(cx, window))
    }

    fn cong_avoid(&mut self, cx: &mut Cx<'_>, window: &mut Window, sample: &AckSample) {
        each!(self, it => it.cong_avoid(cx, window, sample));
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, window: &mut Window, sample: &AckSample) {
        each!(self, it => it.on_ack(cx, window, sample));
    }

    fn on_state(&mut self, cx: &mut Cx<'_>, window: &Window, state: CaState, flow: &Flow) {
        each!(self, it => it.on_state(cx, window, state, flow));
    }

    fn on_event(&mut self, cx: &mut Cx<'_>, window: &mut Window, event: CaEvent, flow: &Flow) {
        each!(self, it => it.on_event(cx, window, event, flow));
    }

    fn undo_cwnd(&mut self, window: &Window) -> u32 {
        each!(self, it => it.undo_cwnd(window))
    }
}
