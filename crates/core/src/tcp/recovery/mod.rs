//! Loss recovery: the Open/Disorder/CWR/Recovery/Loss machine; each algorithm that it drives has its own file.
//!
//! Control flow as in Linux's `tcp_fastretrans_alert`; sources: RFC 5681, 6582, 6675, 8985, 9937, 5682, 3522, 4015.
pub mod dupack;
pub mod frto;
pub mod prr;
pub mod rack;
pub mod rto;
pub mod sack;
mod tag;
pub mod tlp;
pub mod undo;

use super::scoreboard::Flight;
use super::sender::Rexmit;
use crate::base::Cx;
use crate::base::time::Instant;
use crate::base::trace::Ev;
use crate::path::Path;
use crate::path::congestion::{CaState, Congestion as _, Flow};
use crate::path::plpmtud::Walk;
use crate::path::rate::Sampler;
use core::ops::Range;
use rto::XmitTimer;

/// What an acknowledgement told, one bit each (Linux's FLAG_*).
pub(super) mod fact {
    /// The segment carried data.
    pub(crate) const DATA: u32 = 1;
    /// It changed the peer's window.
    pub(crate) const WIN_UPDATE: u32 = 1 << 1;
    /// Data was acknowledged cumulatively.
    pub(crate) const DATA_ACKED: u32 = 1 << 2;
    /// The SYN was.
    pub(crate) const SYN_ACKED: u32 = 1 << 3;
    /// Something that had been retransmitted was.
    pub(crate) const RETRANS_DATA_ACKED: u32 = 1 << 4;
    /// New SACKs.
    pub(crate) const DATA_SACKED: u32 = 1 << 5;
    /// ECN echo.
    pub(crate) const ECE: u32 = 1 << 6;
    /// `snd.una` advanced.
    pub(crate) const UNA_ADVANCED: u32 = 1 << 7;
    /// Something never retransmitted, sent before the recovery point, was (s)acked.
    pub(crate) const ORIG_SACK_ACKED: u32 = 1 << 8;
    /// The head of the queue is sacked: the peer reneged.
    pub(crate) const SACK_RENEGING: u32 = 1 << 9;
    /// A D-SACK for something that we had retransmitted.
    pub(crate) const DSACKING_ACK: u32 = 1 << 10;
    /// That was the tail loss probe.
    pub(crate) const DSACK_TLP: u32 = 1 << 11;
    /// The RTO or TLP timer is to be set anew.
    pub(crate) const SET_XMIT_TIMER: u32 = 1 << 12;
    /// A retransmission was found lost.
    pub(crate) const LOST_RETRANS: u32 = 1 << 13;
    /// It came too late, or with nothing in flight: no duplicate acknowledgement in either case.
    pub(crate) const OLD: u32 = 1 << 14;
    /// It may be the first for the SYN-ACK of a connection that was accepted with its SYN.
    pub(crate) const CHILD: u32 = 1 << 15;
    /// It is of a SYN that has crossed the peer's.
    pub(crate) const CROSSED: u32 = 1 << 16;

    /// Something new was acknowledged cumulatively.
    pub(crate) const ACKED: u32 = DATA_ACKED | SYN_ACKED;
    /// The segment cannot be a duplicate acknowledgement (RFC 5681 section 2).
    pub(crate) const NOT_DUP: u32 = DATA | WIN_UPDATE | ACKED;
    /// Something for the machine, even in Open.
    pub(crate) const CA_ALERT: u32 = DATA_SACKED | ECE | DSACKING_ACK;
    /// The peer has got something that it did not have.
    pub(crate) const FORWARD_PROGRESS: u32 = ACKED | DATA_SACKED;
}

/// Working set of one acknowledgement; offsets, not sequence numbers.
#[derive(Debug)]
pub(super) struct Ack {
    pub(super) facts: u32,
    pub(super) ack: u64,
    pub(super) prior_una: u64,
    /// When it reached this host.
    pub(super) at: Instant,
    pub(super) tsecr: Option<u32>,
    /// Segments delivered, and their bytes.
    pub(super) delivered: u32,
    pub(super) delivered_bytes: u32,
    /// Lowest offset that filled a hole without having been retransmitted.
    pub(super) reord: u64,
    pub(super) sampler: Sampler,
    /// First and last transmission times of what was newly sacked and never retransmitted.
    pub(super) sacked_at: Option<(Instant, Instant)>,
    /// Sequence numbers in the first SACK block, of which offsets show only those behind the ISN.
    pub(super) first_len: u32,
    pub(super) window: Offered,
}

/// The peer's window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offered {
    /// The largest that it ever offered.
    pub(super) largest: u32,
    /// End of the one of now.
    pub(super) end: u64,
}

impl Ack {
    pub(super) const fn has(&self, facts: u32) -> bool {
        self.facts & facts != 0
    }

    /// A duplicate acknowledgement as RFC 5681 counts them.
    const fn is_dup(&self) -> bool {
        !self.has(fact::UNA_ADVANCED | fact::NOT_DUP | fact::DSACKING_ACK | fact::OLD)
    }

    /// True when the timestamp that it echoes is older than `sent`.
    pub(super) fn echoes_before(&self, sent: Instant) -> bool {
        self.tsecr.is_some_and(|echo| (echo.wrapping_sub(sent.as_millis() as u32) as i32) < 0)
    }
}

/// What every algorithm works on.
#[derive(Debug)]
pub(super) struct Env<'a, 'c> {
    pub(super) cx: &'a mut Cx<'c>,
    pub(super) path: &'a mut Path,
    pub(super) flight: &'a mut Flight,
    pub(super) timer: &'a mut XmitTimer,
}

impl Env<'_, '_> {
    /// The flow as the congestion controller sees it.
    pub(super) fn flow(&self) -> Flow {
        let flight = &self.flight;
        self.path.flow(flight.mss, flight.in_flight(), flight.lost, flight.tx.nxt())
    }
}

/// Measured reordering (RFC 4653's idea, Linux's `tcp_check_sack_reordering`).
#[derive(Clone, Copy, Debug)]
pub struct Reorder {
    /// Segments by which packets were seen to overtake each other; starts at tcp_reordering.
    pub degree: u32,
    /// Events seen (`tcpi_reord_seen`).
    pub seen: u32,
}

/// State of loss recovery.
#[derive(Debug)]
pub struct Recovery {
    pub(super) ca: CaState,
    /// `snd.nxt` when the present state was entered: acknowledging it ends the episode.
    pub(super) high_seq: u64,
    pub(super) reorder: Reorder,
    pub(super) undo: undo::Undo,
    pub(super) prr: prr::Prr,
    pub(super) rack: rack::Rack,
    pub(super) tlp: tlp::Tlp,
    pub(super) frto: frto::Frto,
    /// The peer reneged in this episode: rate samples are worthless.
    pub(super) reneged: bool,
    /// Timeouts, in a row and ever.
    pub(super) timeouts: rto::Timeouts,
    /// CWR is owed to the peer with the next new data.
    pub(super) cwr_pending: bool,
}

impl Recovery {
    /// The state of a new connection.
    pub(super) fn new(reordering: u32) -> Self {
        Self {
            ca: CaState::Open,
            high_seq: 0,
            reorder: Reorder { degree: reordering, seen: 0 },
            undo: undo::Undo::default(),
            prr: prr::Prr::default(),
            rack: rack::Rack::new(),
            tlp: tlp::Tlp::default(),
            frto: frto::Frto::default(),
            reneged: false,
            timeouts: rto::Timeouts::default(),
            cwr_pending: false,
        }
    }

    /// True in CWR and Recovery, where PRR moves the window.
    pub(super) const fn in_reduction(&self) -> bool {
        matches!(self.ca, CaState::Cwr | CaState::Recovery)
    }

    pub(super) fn set_ca(&mut self, e: &mut Env<'_, '_>, state: CaState) {
        let before = core::mem::replace(&mut self.ca, state);
        if before != state {
            e.cx.trace(Ev::CaState(name(before), name(state)));
        }
        if before != state || state == CaState::Loss {
            let flow = e.flow();
            e.path.congestion.on_state(e.cx, &e.path.window, state, &flow);
        }
    }

    /// True when the machine has to look at this acknowledgement (`tcp_ack_is_dubious`).
    pub(super) fn is_dubious(&self, ack: &Ack) -> bool {
        !ack.has(fact::NOT_DUP) || ack.has(fact::CA_ALERT) || self.ca != CaState::Open
    }

    /// The machine: what to send in answer. What it does not ask for must not be sent, whoever calls next.
    pub(super) fn alert(&mut self, e: &mut Env<'_, '_>, ack: &mut Ack) -> Rexmit {
        if let Some(search) = &mut e.path.plpmtud {
            search.set_walk(None);
        }
        let rexmit = self.fast_retrans_alert(e, ack);
        self.frto.hold = self.ca >= CaState::Recovery && rexmit != Rexmit::Lost;
        self.frto.walks = rexmit == Rexmit::Lost;
        rexmit
    }

    /// `tcp_fastretrans_alert`.
    fn fast_retrans_alert(&mut self, e: &mut Env<'_, '_>, ack: &mut Ack) -> Rexmit {
        let dup = ack.is_dup();
        if e.flight.packets_out == 0 {
            e.flight.sacked_out = 0;
        }
        if ack.has(fact::ECE) {
            // A mark is a fact: this reduction is never undone.
            self.undo.prior_ssthresh = 0;
        }
        if rto::check_reneging(e, ack) {
            return Rexmit::None;
        }
        if self.leave_state(e, ack) {
            return Rexmit::None;
        }
        match self.ca {
            CaState::Recovery => {
                if self.in_recovery(e, ack, dup) {
                    return Rexmit::None;
                }
            }
            CaState::Loss => {
                let rexmit = self.process_loss(e, ack, dup);
                if self.ca != CaState::Loss {
                    self.timeouts.recovered(e.cx.now);
                }
                self.find_losses(e, ack);
                if self.ca != CaState::Open && !ack.has(fact::LOST_RETRANS) {
                    return rexmit;
                }
                match self.in_order(e, ack, dup) {
                    Verdict::Nothing => return rexmit,
                    Verdict::Resend => return Rexmit::Lost,
                    Verdict::Recover => {}
                }
            }
            _ => match self.in_order(e, ack, dup) {
                Verdict::Nothing => return Rexmit::None,
                Verdict::Resend => return Rexmit::Lost,
                Verdict::Recover => {}
            },
        }
        Rexmit::Lost
    }

    /// Leaves a state whose recovery point is acknowledged; true when nothing else is to be done.
    fn leave_state(&mut self, e: &mut Env<'_, '_>, ack: &Ack) -> bool {
        let una = e.flight.tx.una();
        match self.ca {
            CaState::Open => self.undo.stamp = None,
            // CWR holds until something above high_seq is acknowledged, so that our CWR flag has arrived.
            CaState::Cwr if una > self.high_seq => {
                self.end_reduction(e);
                self.set_ca(e, CaState::Open);
            }
            CaState::Recovery if una >= self.high_seq => {
                if !e.flight.sack_ok {
                    e.flight.sacked_out = 0;
                }
                if self.try_undo_recovery(e, ack) {
                    return true;
                }
                self.end_reduction(e);
            }
            _ => {}
        }
        false
    }

    /// Fast recovery goes on; true when nothing is to be sent for it.
    fn in_recovery(&mut self, e: &mut Env<'_, '_>, ack: &mut Ack, dup: bool) -> bool {
        if !ack.has(fact::UNA_ADVANCED) {
            if !e.flight.sack_ok {
                self.add_reno_sack(e, ack, dup);
            }
        } else if self.try_undo_partial(e, ack) {
            return true;
        }
        if self.try_undo_dsack(e) {
            // Forgets when it sent again, too: the next loss has all its time.
            self.try_to_open(e, ack.has(fact::ECE));
        }
        self.find_losses(e, ack);
        if self.ca != CaState::Recovery {
            if e.flight.lost_out == 0 {
                return true;
            }
            // The old episode was undone, but there is a loss beyond doubt.
            self.enter_recovery(e, ack.has(fact::ECE));
        }
        false
    }

    /// Open, Disorder, CWR, or a Loss that proved wrong; true when recovery begins.
    fn in_order(&mut self, e: &mut Env<'_, '_>, ack: &mut Ack, dup: bool) -> Verdict {
        if !e.flight.sack_ok {
            if ack.has(fact::UNA_ADVANCED) {
                e.flight.sacked_out = 0;
            }
            self.add_reno_sack(e, ack, dup);
        }
        if self.ca <= CaState::Disorder {
            self.try_undo_dsack(e);
        }
        self.find_losses(e, ack);
        if e.flight.lost_out == 0 {
            self.try_to_open(e, ack.has(fact::ECE));
            return Verdict::Nothing;
        }
        if self.ca < CaState::Cwr && self.probe_failed(e, ack) {
            return Verdict::Resend;
        }
        self.enter_recovery(e, ack.has(fact::ECE));
        Verdict::Recover
    }

    /// What is lost is a probe of the path's MTU: that says nothing about congestion (RFC 4821 section 7.5).
    fn probe_failed(&mut self, e: &mut Env<'_, '_>, ack: &Ack) -> bool {
        let una = e.flight.tx.una();
        let Some(search) = &mut e.path.plpmtud else { return false };
        if !search.lost(una) {
            return false;
        }
        // What an overtaken one delivers is not counted, and moves no clock.
        let counted = !ack.has(fact::OLD);
        let (rate, pacing) = (&e.path.rate, &e.path.pacing);
        search.set_walk(counted.then(|| Walk { stamp: rate.snapshot(ack.delivered), rate: pacing.rate() }));
        e.cx.count.tcp_ext.tcp_mtup_fail += 1;
        // What the probe had taken from the window comes back.
        let cwnd = e.path.window.cwnd + 1;
        e.path.window.set_cwnd(e.cx, cwnd);
        self.on_mss_reduced(e, false);
        true
    }

    /// Marks what the present evidence says is lost (`tcp_identify_packet_loss`).
    fn find_losses(&mut self, e: &mut Env<'_, '_>, ack: &mut Ack) {
        if e.flight.tx.first().is_none() {
            return;
        }
        if !e.flight.sack_ok {
            dupack::newreno_mark_lost(self.ca, &self.reorder, e, ack.has(fact::UNA_ADVANCED));
        } else {
            let prior = e.flight.retrans_out;
            if self.rack.mark_lost(e, self.ca, &self.reorder, ack.at) {
                ack.facts &= !fact::SET_XMIT_TIMER;
            }
            if prior > e.flight.retrans_out {
                ack.facts |= fact::LOST_RETRANS;
            }
        }
    }

    /// Enters fast recovery (`tcp_enter_recovery`).
    pub(super) fn enter_recovery(&mut self, e: &mut Env<'_, '_>, ece: bool) {
        if !e.flight.any_retrans_done() {
            self.undo.stamp = None;
        }
        if e.flight.sack_ok {
            e.cx.count.tcp_ext.tcp_sack_recovery += 1;
        } else {
            e.cx.count.tcp_ext.tcp_reno_recovery += 1;
        }
        self.undo.prior_ssthresh = 0;
        self.undo.begin(e.flight, &self.tlp);
        if !self.in_reduction() {
            if !ece {
                self.undo.prior_ssthresh = self.current_ssthresh(e.path);
            }
            self.init_reduction(e);
        }
        self.set_ca(e, CaState::Recovery);
    }

    /// Enters CWR: once per window, for an ECN echo or a local drop (`tcp_enter_cwr`).
    pub(super) fn enter_cwr(&mut self, e: &mut Env<'_, '_>) {
        self.undo.prior_ssthresh = 0;
        if self.ca < CaState::Cwr {
            self.undo.marker = None;
            self.init_reduction(e);
            self.set_ca(e, CaState::Cwr);
        }
    }

    fn try_to_open(&mut self, e: &mut Env<'_, '_>, ece: bool) {
        if !e.flight.any_retrans_done() {
            self.undo.stamp = None;
        }
        if ece {
            self.enter_cwr(e);
        }
        if self.ca != CaState::Cwr {
            self.keep_open(e);
        }
    }

    /// Open, or Disorder while something is sacked, lost or retransmitted (`tcp_try_keep_open`).
    pub(super) fn keep_open(&mut self, e: &mut Env<'_, '_>) {
        let disorder = e.flight.left_out() > 0 || e.flight.any_retrans_done();
        let state = if disorder { CaState::Disorder } else { CaState::Open };
        if self.ca != state {
            self.set_ca(e, state);
            self.high_seq = e.flight.tx.nxt();
        }
    }

    /// Takes note that what `late` begins with arrived after all of it, which was sent later (`tcp_check_sack_reordering`).
    pub(super) fn check_reordering(&mut self, e: &mut Env<'_, '_>, late: Range<u64>, by_timestamp: bool) {
        if late.is_empty() {
            return;
        }
        let len = late.end - late.start;
        let segs = len.div_ceil(u64::from(e.flight.mss.max(1)));
        if len > u64::from(self.reorder.degree) * u64::from(e.flight.mss) {
            self.reorder.degree = segs.min(u64::from(e.cx.sysctl.tcp_max_reordering)) as u32;
        }
        self.reorder.seen = self.reorder.seen.saturating_add(1);
        if by_timestamp {
            e.cx.count.tcp_ext.tcp_ts_reorder += 1;
        } else {
            e.cx.count.tcp_ext.tcp_sack_reorder += 1;
        }
    }
}

/// What an acknowledgement outside of recovery leads to.
enum Verdict {
    /// Nothing to send again.
    Nothing,
    /// Marks were made without a reduction.
    Resend,
    /// Recovery began.
    Recover,
}

/// A state's name in traces.
fn name(state: CaState) -> &'static str {
    match state {
        CaState::Open => "Open",
        CaState::Disorder => "Disorder",
        CaState::Cwr => "CWR",
        CaState::Recovery => "Recovery",
        CaState::Loss => "Loss",
    }
}
