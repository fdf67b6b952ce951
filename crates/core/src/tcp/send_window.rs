//! The window that the peer offers, and what was sent into it (RFC 9293 section 3.3.1: SND.WND, SND.WL1).
use super::seq::Seq;
use crate::base::time::Instant;

/// Send-side variables that belong neither to loss recovery nor to the path.
#[derive(Clone, Debug)]
pub(super) struct SendWindow {
    /// SND.WND in bytes, unscaled.
    pub(super) wnd: u32,
    /// SND.WL1: sequence number of the segment that updated the window last.
    pub(super) wl1: Seq,
    /// End of the last small segment sent, for Minshall's form of Nagle's algorithm.
    pub(super) sml: Seq,
    /// Write sequence number of the last PSH that was set because half of the largest window was filled.
    pub(super) pushed: Seq,
    /// End of what a write has pushed out by single packets, which neither Nagle nor deferral holds (`tcp_push_one`).
    pub(super) pushed_one: Seq,
    /// SND.UP: one behind the last urgent byte (`snd_up`); SND.UNA when there is none.
    pub(super) up: Seq,
    /// Departure of the last segment with data (`tcp_wstamp_ns`).
    pub(super) last_departure: Instant,
}

impl SendWindow {
    pub(super) const fn new(wnd: u32, wl1: Seq, iss: Seq) -> Self {
        Self { wnd, wl1, sml: iss, pushed: iss, pushed_one: iss, up: iss, last_departure: Instant::ZERO }
    }

    /// Takes the window of an acceptable ACK (RFC 9293 section 3.10.7.4; `tcp_ack_update_window`). True when it changed.
    pub(super) fn update(&mut self, una: Seq, ack: Seq, seq: Seq, wnd: u32) -> bool {
        let newer =
            ack.after(una) || seq.after(self.wl1) || (seq == self.wl1 && (wnd > self.wnd || wnd == 0));
        if !newer {
            return false;
        }
        self.wl1 = seq;
        if self.wnd == wnd {
            return false;
        }
        self.wnd = wnd;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_segment_does_not_change_the_window() {
        let mut w = SendWindow::new(1_000, Seq(10), Seq(0));
        assert!(!w.update(Seq(5), Seq(5), Seq(9), 2_000), "seq before wl1, nothing new acknowledged");
        assert!(w.update(Seq(5), Seq(5), Seq(10), 2_000), "same segment, larger window");
        assert!(!w.update(Seq(5), Seq(5), Seq(10), 500), "same segment, smaller window: reordered");
        assert!(w.update(Seq(5), Seq(6), Seq(10), 500), "new data acknowledged");
        assert_eq!(w.wnd, 500);
        assert!(
            w.update(Seq(6), Seq(6), Seq(10), 0),
            "same segment, closed: probes find out (`tcp_may_update_window`)"
        );
    }
}
