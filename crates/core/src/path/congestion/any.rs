//! Every congestion controller in one enum: chosen by name, dispatched without indirection.
use super::cubic::Cubic;
use super::reno::Reno;
use super::{AckSample, CaEvent, CaState, Congestion, Window};
use crate::base::Cx;
use crate::base::sysctl::CongestionKind;
use core::fmt;

/// A controller of the stack's own, or one that the application brought.
pub enum AnyCongestion {
    /// RFC 5681.
    Reno(Reno),
    /// RFC 9438.
    Cubic(Cubic),
    /// An application's.
    Custom(Box<dyn Congestion + Send>),
}

impl AnyCongestion {
    /// A fresh controller of a kind.
    #[must_use]
    pub const fn new(kind: CongestionKind) -> Self {
        match kind {
            CongestionKind::Reno => Self::Reno(Reno::new()),
            CongestionKind::Cubic => Self::Cubic(Cubic::new()),
        }
    }
}

impl fmt::Debug for AnyCongestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reno(reno) => reno.fmt(f),
            Self::Cubic(cubic) => cubic.fmt(f),
            Self::Custom(custom) => write!(f, "Custom({})", custom.name()),
        }
    }
}

macro_rules! each {
    ($any:ident, $it:ident => $call:expr) => {
        match $any {
            AnyCongestion::Reno($it) => $call,
            AnyCongestion::Cubic($it) => $call,
            AnyCongestion::Custom($it) => $call,
        }
    };
}

impl Congestion for AnyCongestion {
    fn name(&self) -> &'static str {
        each!(self, it => it.name())
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

    fn on_state(&mut self, cx: &mut Cx<'_>, window: &Window, state: CaState) {
        each!(self, it => it.on_state(cx, window, state));
    }

    fn on_event(&mut self, cx: &mut Cx<'_>, window: &Window, event: CaEvent) {
        each!(self, it => it.on_event(cx, window, event));
    }

    fn undo_cwnd(&self, window: &Window) -> u32 {
        each!(self, it => it.undo_cwnd(window))
    }

    fn pacing_rate(&self) -> Option<u64> {
        each!(self, it => it.pacing_rate())
    }

    fn sndbuf_expand(&self) -> u32 {
        each!(self, it => it.sndbuf_expand())
    }
}
