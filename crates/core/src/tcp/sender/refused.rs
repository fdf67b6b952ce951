//! What a queue below refuses at enqueue was never sent: the transmission is taken back (what `tcp_write_xmit`,
//! `tcp_retransmit_skb` and `tcp_retransmit_timer` do when `tcp_transmit_skb` fails).
use super::Sender;
use crate::base::{Cx, Instant};
use crate::path::Path;
use crate::path::congestion::CaState;
use crate::tcp::recovery::Env;
use crate::tcp::recovery::rto::TimerKind;
use crate::tcp::seq::Seq;

/// What a transmission was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// New data.
    New,
    /// New data in place of a window probe, or held for too long: the probe timer asked.
    WindowProbe,
    /// New data as a probe of the path's MTU.
    MtuProbe,
    /// A retransmission of loss recovery.
    Again,
    /// The retransmission of a tail loss probe.
    TailProbe,
    /// The retransmission of a timeout.
    Timeout,
}

impl Errand {
    /// The first transmission of what it carries.
    #[must_use]
    pub const fn is_new(self) -> bool {
        matches!(self, Self::New | Self::WindowProbe | Self::MtuProbe)
    }
}

/// A transmission with what it changed, to be taken back where the queue below refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// What it was for.
    pub errand: Errand,
    /// What it changed of that.
    pub before: Option<Before>,
    start: u64,
    timer: Option<(TimerKind, Instant)>,
    wstamp: Instant,
}

/// What the rest of the connection knew before a transmission of new data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// The end of the last small segment (`snd_sml`).
    pub sml: Seq,
    /// Window probes without an answer (`icsk_probes_out`).
    pub probes: u8,
    /// Doublings of the time between them (`icsk_backoff`).
    pub backoff: u8,
}

impl Attempt {
    /// Where the record starts.
    pub(in crate::tcp) const fn start(&self) -> u64 {
        self.start
    }
}

impl Sender {
    /// What the record at `start` is about to change.
    pub(super) fn attempt(&self, path: &Path, errand: Errand, start: u64) -> Attempt {
        Attempt { errand, before: None, start, timer: self.timer.get(), wstamp: path.pacing.wstamp() }
    }

    /// The packet of `attempt`, the newest below, never left; `congested` when that was for want of room. New data is unsent again;
    /// what was to be sent again still is, with the next acknowledgement, or half a second after a timeout. What a failed attempt
    /// counts in Linux stays counted. The segments that were not sent.
    pub fn take_back(&mut self, cx: &mut Cx<'_>, path: &mut Path, attempt: &Attempt, congested: bool) -> u16 {
        self.flight.tx.below.on_refused();
        // It had asked: time not used before is no credit any more (`__tcp_transmit_skb` sets `tcp_wstamp_ns` before the queue answers).
        path.pacing.take_back(attempt.wstamp.max(cx.now));
        let segs = if attempt.errand.is_new() {
            self.take_back_new(cx, path, attempt)
        } else {
            self.take_back_resent(cx, path, attempt, congested)
        };
        let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
        if e.timer.get().is_none() && e.flight.packets_out > 0 {
            e.rearm_rto();
        }
        segs
    }

    fn take_back_new(&mut self, cx: &mut Cx<'_>, path: &mut Path, attempt: &Attempt) -> u16 {
        let nxt = self.flight.tx.nxt();
        if self.recovery.tlp.high_seq.is_some_and(|high| high.get() == nxt) {
            self.no_probe(cx);
        }
        let segs = self.flight.take_back(attempt.start);
        self.recovery.uncount_out(segs);
        cx.count.tcp_ext.tcp_orig_data_sent -= u64::from(segs);
        self.timer.restore(cx, attempt.timer);
        if attempt.errand == Errand::MtuProbe {
            if let Some(search) = &mut path.plpmtud {
                search.forget();
            }
            let cwnd = path.window.cwnd + 1;
            path.window.set_cwnd(cx, cwnd);
        }
        segs
    }

    /// What was to be a tail loss probe has not left, and is none.
    fn no_probe(&mut self, cx: &mut Cx<'_>) {
        self.recovery.tlp.high_seq = None;
        cx.count.tcp_ext.tcp_loss_probes -= 1;
    }

    fn take_back_resent(
        &mut self,
        cx: &mut Cx<'_>,
        path: &mut Path,
        attempt: &Attempt,
        congested: bool,
    ) -> u16 {
        let segs = self.flight.take_back_resent(attempt.start, attempt.errand != Errand::TailProbe);
        self.recovery.rack.take_back(&mut self.flight, attempt.start);
        cx.count.tcp_ext.tcp_retrans_fail += u64::from(segs);
        match attempt.errand {
            Errand::Again => {
                let ext = &mut cx.count.tcp_ext;
                let counted = match self.recovery.ca {
                    CaState::Loss => &mut ext.tcp_slow_start_retrans,
                    _ => &mut ext.tcp_fast_retrans,
                };
                *counted -= u64::from(segs);
                self.recovery.uncount_out(segs);
                self.timer.restore(cx, attempt.timer);
            }
            // The timeout counts from the head's transmission, as if nobody had probed (`tcp_send_loss_probe`: `rearm_timer`).
            Errand::TailProbe => {
                self.no_probe(cx);
                self.timer.restore(cx, attempt.timer);
            }
            // Senders fight for local resources conservatively, and the path is not to blame: no backoff.
            Errand::Timeout if congested => {
                path.rtt.take_back_backoff();
                self.defer_rto(cx);
            }
            _ => {}
        }
        segs
    }
}
