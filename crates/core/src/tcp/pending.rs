//! What a connection still wants to hand down, and the credit of what it has handed down.
use super::output::nagle::Hold;
use super::segment::Outgoing;
use super::sender::{Probe, Resend, Rexmit};
use crate::base::Sysctl;
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
    /// A tail loss probe wants this, whatever the congestion window says.
    pub(super) tail_probe: Option<Box<Probe>>,
    /// The retransmission timer wants this, whatever the congestion window says.
    pub(super) timeout: Option<Box<Resend>>,
    /// What the last acknowledgements asked for.
    pub(super) rexmit: Rexmit,
    /// Segments of new data since the last pause.
    pub(super) burst_segs: u32,
    /// A ready-made segment that goes first: the reset of an abort, an answer in TIME-WAIT.
    pub(super) reset: Option<Box<Outgoing>>,
    /// What is below us.
    pub(super) credit: Credit,
    /// ECN: the peer must hear of a congestion mark until it answers with CWR.
    pub(super) ece: bool,
    /// ECN: our SYN asked for it.
    pub(super) ecn_asked: bool,
    /// There was no route when something was last tried.
    pub(super) no_path: bool,
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
        self.burst_segs = 0;
    }

    /// Whether the SYN asks for ECN (RFC 3168 section 6.1.1); a retransmitted one does not insist (section 6.1.1.1).
    pub(super) const fn ecn_syn(&mut self, sysctl: &Sysctl, retransmits: u8) -> bool {
        // What the first SYN asked for may still be granted after the fallback (`tcp_ecn_clear_syn`).
        let ask = sysctl.tcp_ecn == 1 && !(retransmits > 0 && sysctl.tcp_ecn_fallback);
        self.ecn_asked |= ask;
        ask
    }

    /// Drops all work but a reset that is already due.
    pub(super) fn stop(&mut self) {
        self.try_send = None;
        self.probe = false;
        self.keepalive = false;
        self.tail_probe = None;
        self.timeout = None;
        self.rexmit = Rexmit::None;
    }

    /// True while [`super::Conn::output`] may return something.
    pub(super) const fn any(&self) -> bool {
        self.try_send.is_some() || self.probe || self.keepalive || self.reset.is_some()
    }
}
