//! Forward RTO recovery (RFC 5682, SACK-enhanced), inside the handling of acknowledgements in Loss (`tcp_process_loss`).
use super::{Ack, Env, Recovery, fact};
use crate::tcp::sender::Rexmit;

/// State of F-RTO.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frto {
    /// It watches the acknowledgements after a timeout.
    pub(in crate::tcp) on: bool,
    /// The last acknowledgement asked for new data, or for nothing: retransmissions wait for the next one.
    pub(in crate::tcp) hold: bool,
    /// What is lost is walked over for the first time since something asked for it (`tcp_xmit_retransmit_queue`).
    pub(in crate::tcp) walks: bool,
}

impl Recovery {
    /// An acknowledgement in Loss; what to send for it.
    pub(super) fn process_loss(&mut self, e: &mut Env<'_, '_>, ack: &mut Ack, dup: bool) -> Rexmit {
        let advanced = ack.has(fact::UNA_ADVANCED);
        let recovered = e.flight.tx.una() >= self.high_seq;
        // The loss may have been that of a SYN-ACK alone (RFC 7413).
        if (advanced || ack.has(fact::CHILD)) && self.try_undo_loss(e, ack, false) {
            return Rexmit::None;
        }
        if self.frto.on {
            // Step 3.b: something sent before the timeout arrived without having been retransmitted.
            if ack.has(fact::ORIG_SACK_ACKED) && self.try_undo_loss(e, ack, true) {
                return Rexmit::None;
            }
            if e.flight.tx.nxt() > self.high_seq {
                // Step 3.a: new data went out and duplicates come back: the loss was real.
                if ack.has(fact::DATA_SACKED) || dup {
                    self.frto.on = false;
                }
            } else if advanced && !recovered {
                self.high_seq = e.flight.tx.nxt();
                // Step 2.b: new data, if there is any that the peer's window takes, tells more than a retransmission.
                if e.flight.tx.unsent_bytes() > 0 && ack.window.end > e.flight.tx.nxt() {
                    return Rexmit::New;
                }
                self.frto.on = false;
            }
        }
        if recovered {
            // Steps 2.a and 3.a.
            self.try_undo_recovery(e, ack);
            return Rexmit::None;
        }
        if !e.flight.sack_ok {
            // A duplicate from a peer without SACK says that new data of step 2.b arrived.
            if e.flight.tx.nxt() > self.high_seq && dup {
                self.add_reno_sack(e, ack, dup);
            } else if advanced {
                e.flight.sacked_out = 0;
            }
        }
        Rexmit::Lost
    }
}
