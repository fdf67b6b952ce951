//! What a connection still wants to hand down, and the credit of what it has handed down.
use super::accecn::ACE;
use super::negotiated::EcnMode;
use super::output::nagle::Hold;
use super::segment::Outgoing;
use super::sender::{Probe, Resend, Rexmit};
use super::seq::Seq;
use crate::base::Sysctl;
use crate::credit::Credit;
use lowwater_wire::tcp::{TcpFlags, TcpRepr};

/// Work for [`super::Conn::output`]. Verbs only mark it; nothing is sent from inside a verb.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Look for something to send.
    look: Option<Look>,
    /// Send one window probe.
    pub(super) probe: bool,
    /// Send one keepalive probe.
    pub(super) keepalive: bool,
    /// The transmission timer wants this, whatever the congestion window says.
    due: Option<Box<Due>>,
    /// What the last acknowledgements asked for.
    pub(super) rexmit: Rexmit,
    /// What leaves for an acknowledgement with data, before that data is taken in.
    pub(super) early: Option<Box<Early>>,
    /// What went since the last pause.
    pub(super) burst: Burst,
    /// A ready-made segment that goes first: the reset of an abort, an answer in TIME-WAIT, the second of two window probes, the SYN-ACK of a
    /// Fast Open child.
    pub(super) reset: Option<Box<Outgoing>>,
    /// What is below us.
    pub(super) credit: Credit,
    /// ECN: the peer must hear of a congestion mark until it answers with CWR.
    pub(super) ece: bool,
    /// ECN: whether our SYN asked for it.
    pub(super) ecn_asked: Asked,
    /// There was no route when something was last tried.
    pub(super) no_path: bool,
}

/// Whether a SYN asked for ECN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Asked {
    /// None did.
    #[default]
    Never,
    /// One did, but the last one did not (RFC 3168 section 6.1.1.1).
    Before,
    /// The last one did.
    Last,
    /// One asked for accurate ECN, but the last one did not (RFC 9768 section 3.1.4.1).
    AccurateBefore,
    /// The last one asked for accurate ECN.
    AccurateLast,
}

impl Asked {
    /// One of them did.
    pub(super) const fn ever(self) -> bool {
        !matches!(self, Self::Never)
    }

    /// One of them asked for accurate ECN.
    pub(super) const fn accurate(self) -> bool {
        matches!(self, Self::AccurateBefore | Self::AccurateLast)
    }
}

/// What is sent as if the data that came with an acknowledgement were not there yet.
#[derive(Debug)]
pub(super) struct Early {
    /// Acknowledgement, window and options.
    pub(super) repr: TcpRepr,
    /// It answers data that came before.
    pub(super) answers: bool,
    /// The first of it is counted as an answer or not, before it leaves.
    pub(super) counted: bool,
    /// It is for new data, too: for a FIN that waited for the handshake (RFC 9293 section 3.10.4), and what was written before it.
    pub(super) new: bool,
}

/// What went since the last pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Burst {
    /// Segments of new data; who asks wants to know whether there were any.
    pub(super) segs: u16,
    /// The MSS with which its new data began, 0 before that: options that only the first packets carry make all of them shorter
    /// (`tcp_write_xmit`). Retransmissions go by their own.
    pub(super) mss: u16,
    /// A retransmission was held back, since a copy has not left this host.
    pub(super) held: bool,
    /// Who asked for it.
    pub(super) round: Round,
    /// close() has let go what waited, and the FIN, and nothing has asked for more since, nor has the burst been tried.
    pub(super) closes: bool,
}

/// What has the flow looked at, where that makes a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Round {
    /// Whatever else it was.
    #[default]
    Usual,
    /// A write that has pushed out all but its end, which waits where that, once it has gone down, is still below (autocorking).
    CorksBehind,
    /// The pace or small queues let it go on, and it is looked at whether or not anything waits (`tcp_tsq_write`).
    GoesOn,
}

impl Burst {
    /// The end of a write waits behind what it has pushed out.
    pub(super) const fn corks_behind(&self) -> bool {
        matches!(self.round, Round::CorksBehind)
    }

    /// It does, or not any more.
    pub(super) fn cork_behind(&mut self, on: bool) {
        if on {
            self.round = Round::CorksBehind;
        } else if self.round == Round::CorksBehind {
            self.round = Round::Usual;
        }
    }
}

/// What to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Data to send again, and nothing else: a timer of loss recovery fired.
    Resend,
    /// The same by the clock as it was last looked at: an ICMP error does not look at the time.
    ResendLate,
    /// Data to send or to send again, holding partial segments back this much.
    Send(Hold),
}

/// What the one timer for retransmissions asks for.
#[derive(Debug)]
enum Due {
    /// A tail loss probe, and whether the timer ran out amid a loss.
    Tail(Probe, bool),
    /// The retransmission of a timeout.
    Timeout(Resend),
}

impl Pending {
    /// A timeout is due. It takes the place of a probe that waits, unless it has nothing to send again.
    pub(super) fn set_timeout(&mut self, resend: Option<Resend>) {
        if let Some(resend) = resend {
            self.due = Some(Box::new(Due::Timeout(resend)));
        }
    }

    /// A tail loss probe is due, unless a timeout is; whether its timer ran out `amid_loss`.
    pub(super) fn set_tail_probe(&mut self, probe: Probe, amid_loss: bool) {
        self.due.get_or_insert_with(|| Box::new(Due::Tail(probe, amid_loss)));
    }

    /// What a timeout asks for, once.
    pub(super) fn take_timeout(&mut self) -> Option<Resend> {
        match *self.due.take_if(|due| matches!(**due, Due::Timeout(_)))? {
            Due::Timeout(resend) => Some(resend),
            Due::Tail(..) => None,
        }
    }

    /// A timeout or a tail loss probe waits for its turn.
    pub(super) const fn is_due(&self) -> bool {
        self.due.is_some()
    }

    /// The retransmission of the head at `una` that a timeout has asked for has not had its turn.
    pub(super) fn timeout_waits(&self, una: Seq) -> bool {
        matches!(self.due.as_deref(), Some(Due::Timeout(resend)) if resend.seq == una)
    }

    /// The tail loss probe that is due, once, and whether its timer ran out amid a loss.
    pub(super) fn take_tail_probe(&mut self) -> Option<(Probe, bool)> {
        match *self.due.take_if(|due| matches!(**due, Due::Tail(..)))? {
            Due::Tail(probe, amid_loss) => Some((probe, amid_loss)),
            Due::Timeout(_) => None,
        }
    }

    /// Marks that sending should be tried; of several holds the weakest counts.
    pub(super) fn try_send(&mut self, hold: Hold) {
        self.look = Some(Look::Send(self.hold().map_or(hold, |h| h.min(hold))));
        // Who asks after the write does not wait for what is below.
        self.burst.cork_behind(false);
        // What an acknowledgement lets go after close() has no owner any more.
        self.burst.closes = false;
        self.burst.mss = 0;
    }

    /// Marks that sending again should be tried. What a timer finds lost makes no room for new data: that waits for the next
    /// acknowledgement or write (`tcp_retransmit_timer`, `tcp_rack_reo_timeout` and `tcp_send_loss_probe` do not ask
    /// `tcp_write_xmit` for more).
    pub(super) fn try_resend(&mut self) {
        self.look.get_or_insert(Look::Resend);
    }

    /// The same for an ICMP error, whose retransmissions count as sent at [`super::timers::Timers::looked_at`].
    pub(super) fn try_resend_late(&mut self) {
        self.look.get_or_insert(Look::ResendLate);
    }

    /// Only what an ICMP error asked for is to be tried.
    pub(super) const fn resends_late(&self) -> bool {
        matches!(self.look, Some(Look::ResendLate))
    }

    /// There is something to try.
    pub(super) const fn tries(&self) -> bool {
        self.look.is_some()
    }

    /// The hold for new data, while that is to be tried.
    pub(super) const fn hold(&self) -> Option<Hold> {
        match self.look {
            Some(Look::Send(hold)) => Some(hold),
            _ => None,
        }
    }

    /// Nothing more can be sent until something happens.
    pub(super) fn tried(&mut self) {
        (self.look, self.early) = (None, None);
        if self.rexmit == Rexmit::Lost {
            self.rexmit = Rexmit::None;
        }
        self.burst = Burst::default();
    }

    /// The flags by which a SYN asks for ECN (RFC 3168 section 6.1.1, RFC 9768 section 3.1.1). One that goes again does not insist (RFC 3168 section
    /// 6.1.1.1), but for the first that asks for accurate ECN (RFC 9768 section 3.1.4.1); `timeouts` are those of SYNs so far.
    pub(super) const fn ecn_syn(
        &mut self,
        sysctl: &Sysctl,
        asks: EcnMode,
        again: bool,
        timeouts: u8,
    ) -> TcpFlags {
        // What the first SYN asked for may still be granted after the fallback (`tcp_ecn_clear_syn`).
        let late = if asks.accurate() { timeouts > 1 } else { again };
        let asks = if late && sysctl.tcp_ecn_fallback { EcnMode::Off } else { asks };
        self.ecn_asked = match (asks, self.ecn_asked) {
            (EcnMode::Classic, _) => Asked::Last,
            (EcnMode::Accurate, _) => Asked::AccurateLast,
            (EcnMode::Off, Asked::Never) => Asked::Never,
            (EcnMode::Off, Asked::Before | Asked::Last) => Asked::Before,
            (EcnMode::Off, Asked::AccurateBefore | Asked::AccurateLast) => Asked::AccurateBefore,
        };
        match asks {
            EcnMode::Off => TcpFlags::EMPTY,
            EcnMode::Classic => TcpFlags::ECE.union(TcpFlags::CWR),
            EcnMode::Accurate => ACE,
        }
    }

    /// Drops all work but a reset that is already due.
    pub(super) fn stop(&mut self) {
        self.look = None;
        self.probe = false;
        self.keepalive = false;
        self.due = None;
        self.rexmit = Rexmit::None;
    }

    /// True while [`super::Conn::output`] may return something.
    pub(super) const fn any(&self) -> bool {
        self.tries() || self.probe || self.keepalive || self.reset.is_some()
    }
}
