//! What a connection still wants to hand down, and the credit of what it has handed down.
use super::output::nagle::Hold;
use super::segment::Outgoing;
use crate::credit::Credit;

/// Work for [`super::Conn::output`]. Verbs only mark it; nothing is sent from inside a verb.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Look for data to send or to send again, holding partial segments back this much.
    try_send: Option<Hold>,
    /// Send one window probe.
    pub(super) probe: bool,
    /// Send one keepalive probe.
    pub(super) keepalive: bool,
    /// A tail loss probe wants one segment of new data, whatever the congestion window says.
    pub(super) tail_probe: bool,
    /// The connection was aborted: this reset goes first and last.
    pub(super) reset: Option<Box<Outgoing>>,
    /// What is below us.
    pub(super) credit: Credit,
    /// ECN: the peer must hear of a congestion mark until it answers with CWR.
    pub(super) ece: bool,
    /// ECN: the next new segment tells the peer that the window was reduced.
    pub(super) cwr: bool,
}

impl Pending {
    /// Marks that sending should be tried; of several holds the weakest counts.
    pub(super) fn try_send(&mut self, hold: Hold) {
        self.try_send = Some(self.try_send.map_or(hold, |h| h.min(hold)));
    }

    /// The hold, while there is something to try.
    pub(super) const fn hold(&self) -> Option<Hold> {
        self.try_send
    }

    /// Nothing more can be sent until something happens.
    pub(super) const fn tried(&mut self) {
        self.try_send = None;
        self.tail_probe = false;
    }

    /// Drops all work but a reset that is already due.
    pub(super) const fn stop(&mut self) {
        self.try_send = None;
        self.probe = false;
        self.keepalive = false;
        self.tail_probe = false;
    }

    /// True while [`super::Conn::output`] may return something.
    pub(super) const fn any(&self) -> bool {
        self.try_send.is_some() || self.probe || self.keepalive || self.tail_probe || self.reset.is_some()
    }
}
