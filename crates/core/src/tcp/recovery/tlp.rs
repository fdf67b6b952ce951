//! Tail loss probe (RFC 8985 section 7): one segment that makes the peer tell what is missing at the end of a flight.
use super::rto::{TIMEOUT_MIN, TimerKind};
use super::{Ack, Env, Recovery, fact};
use crate::base::time::{Duration, Instant};
use crate::path::congestion::CaState;
use crate::path::rtt::RTO_INITIAL;
use core::num::NonZeroU64;

/// State of the probe.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tlp {
    /// `snd.nxt` when the probe left; at most one is out (TLP.end_seq). Never 0: a SYN is not probed for.
    pub high_seq: Option<NonZeroU64>,
    /// It was a retransmission (TLP.is_retrans).
    pub retrans: bool,
}

impl Tlp {
    /// A retransmitting probe is out.
    pub(super) const fn retrans_out(&self) -> bool {
        self.high_seq.is_some() && self.retrans
    }
}

impl Recovery {
    /// Arms the probe timer if a probe may be needed (`tcp_schedule_loss_probe`). `advancing` says that the RTO timer would be
    /// set anew at the same time; otherwise it counts from the head's transmission.
    pub(in crate::tcp) fn schedule_probe(&self, e: &mut Env<'_, '_>, advancing: bool) -> bool {
        let on = matches!(e.cx.sysctl.tcp_early_retrans, 3 | 4);
        if !on
            || e.flight.packets_out == 0
            || !e.flight.sack_ok
            || !matches!(self.ca, CaState::Open | CaState::Cwr)
        {
            return false;
        }
        let mut pto = match e.path.rtt.srtt() {
            Some(srtt) if e.flight.packets_out == 1 => {
                srtt * 2 + Duration::from_micros(u64::from(e.path.rtt.rto_min_us(e.cx.sysctl)))
            }
            Some(srtt) => srtt * 2 + TIMEOUT_MIN,
            None => RTO_INITIAL,
        };
        let rto = e.path.rtt.rto(e.cx.sysctl);
        let until_rto = if advancing { rto } else { e.head_deadline(rto).since(e.cx.now) };
        if !until_rto.is_zero() {
            pto = pto.min(until_rto);
        }
        let at = e.path.deadline(e.cx, pto);
        e.timer.set(e.cx, TimerKind::Tlp, at);
        true
    }

    /// A probe left: RTO runs from now (`tcp_send_loss_probe`).
    pub(in crate::tcp) fn on_probe(&mut self, e: &mut Env<'_, '_>, retrans: bool) {
        self.tlp = Tlp { high_seq: NonZeroU64::new(e.flight.tx.nxt()), retrans };
        e.cx.count.tcp_ext.tcp_loss_probes += 1;
        e.timer.clear();
        e.rearm_rto();
    }

    /// An acknowledgement with a probe out: was a loss repaired by it? (`tcp_process_tlp_ack`, RFC 8985 section 7.4.2)
    pub(in crate::tcp) fn process_tlp_ack(&mut self, e: &mut Env<'_, '_>, ack: &Ack) {
        let Some(high) = self.tlp.high_seq.map(NonZeroU64::get).filter(|high| ack.ack >= *high) else {
            return;
        };
        if !self.tlp.retrans || ack.has(fact::DSACK_TLP) {
            // New data arrived, or both the original and the probe did.
            self.tlp.high_seq = None;
        } else if ack.ack > high {
            // The probe repaired a loss that nobody else has noticed: answer it once.
            self.init_reduction(e);
            self.set_ca(e, CaState::Cwr);
            self.end_reduction(e);
            self.keep_open(e);
            e.cx.count.tcp_ext.tcp_loss_probe_recovery += 1;
        } else if !ack.has(fact::UNA_ADVANCED | fact::NOT_DUP | fact::DATA_SACKED) {
            // A pure duplicate: the original and the probe arrived.
            self.tlp.high_seq = None;
        }
    }
}

/// When the transmission of the head would time out.
impl Env<'_, '_> {
    pub(super) fn head_deadline(&self, rto: Duration) -> Instant {
        self.flight.head_sent_at().unwrap_or(self.cx.now) + rto
    }
}
