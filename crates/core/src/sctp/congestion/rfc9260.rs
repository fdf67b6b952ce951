//! RFC 9260 section 7.2: in bytes of chunks with headers and padding, with `partial_bytes_acked`.
use super::Cwnd;
use crate::base::Cx;
use crate::base::time::Instant;

/// Smallest path that the arithmetic assumes.
const PMDCS_MIN: u32 = 64;

/// The initial window (section 7.2.1).
pub(super) const fn initial(pmdcs: u32, v6: bool) -> u32 {
    let pmdcs = if pmdcs < PMDCS_MIN { PMDCS_MIN } else { pmdcs };
    let floor = if v6 { 4_344 } else { 4_404 };
    let two = 2 * pmdcs;
    let least = if two > floor { two } else { floor };
    let four = 4 * pmdcs;
    if four < least { four } else { least }
}

impl Cwnd {
    /// `acked` bytes of this path were newly acknowledged by a SACK, cumulatively or by gap blocks; `flight` was in flight before. Slow
    /// start asks for a window that was used and no fast recovery (section 7.2.1; RFC 4960 asked for a cumulative acknowledgement too).
    /// Duplicates that the SACK reports count for nothing: how long they were nobody knows any more (section 7.2.2 would count them).
    pub fn on_ack(&mut self, cx: &mut Cx<'_>, acked: u32, flight: u32, pmdcs: u32, recovering: bool) {
        let full = flight >= self.cwnd;
        if self.in_slow_start() {
            if full && !recovering {
                self.set(cx, self.cwnd.saturating_add(acked.min(pmdcs)));
            }
            return;
        }
        self.partial_bytes_acked = self.partial_bytes_acked.saturating_add(acked);
        if self.partial_bytes_acked >= self.cwnd {
            if full {
                self.partial_bytes_acked -= self.cwnd;
                self.set(cx, self.cwnd.saturating_add(pmdcs));
            } else {
                self.partial_bytes_acked = self.cwnd;
            }
        }
        if self.flight == 0 {
            self.partial_bytes_acked = 0;
        }
    }

    /// T3-rtx ran out (section 7.2.3).
    pub fn on_timeout(&mut self, cx: &mut Cx<'_>, pmdcs: u32) {
        self.ssthresh = (self.cwnd / 2).max(4 * pmdcs);
        self.partial_bytes_acked = 0;
        self.lone = true;
        self.set(cx, pmdcs);
    }

    /// Fast retransmission, or an ECN echo (section 7.2.4).
    pub fn on_loss(&mut self, cx: &mut Cx<'_>, pmdcs: u32) {
        self.ssthresh = (self.cwnd / 2).max(4 * pmdcs);
        self.partial_bytes_acked = 0;
        self.set(cx, self.ssthresh);
    }

    /// Nothing was sent here for some timeouts: the window halves for each, down to four packets; `ssthresh` remembers what it was
    /// (section 7.2.1).
    pub fn on_idle(&mut self, cx: &mut Cx<'_>, rto: core::time::Duration, pmdcs: u32) {
        if self.flight > 0 || self.last_data == Instant::ZERO {
            return;
        }
        let (floor, mut cwnd) = (4 * pmdcs, self.cwnd);
        while cx.now.since(self.last_data) >= rto && cwnd > floor {
            self.last_data += rto;
            cwnd = (cwnd / 2).max(floor);
        }
        if cwnd != self.cwnd {
            // Looks without sending in between belong to one idle time: what the window was before all of them counts.
            if !core::mem::replace(&mut self.decayed, true) {
                self.ssthresh = self.cwnd;
            }
            self.partial_bytes_acked = 0;
            self.set(cx, cwnd);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sysctl::SctpCongestionKind;
    use crate::base::testing::World;

    const PMDCS: u32 = 1_468;

    #[test]
    fn slow_start_grows_only_a_window_that_was_used() {
        let (mut world, mut c) = (World::new(), Cwnd::new(SctpCongestionKind::Rfc9260, PMDCS, false));
        let cx = &mut world.cx(Instant::ZERO);
        assert_eq!(c.cwnd, 4_404);
        c.on_ack(cx, 1_468, 2_936, PMDCS, false);
        assert_eq!(c.cwnd, 4_404);
        c.on_ack(cx, 2_936, 4_404, PMDCS, false);
        assert_eq!(c.cwnd, 4_404 + PMDCS);
        c.on_ack(cx, 100, 5_872, PMDCS, false);
        assert_eq!(c.cwnd, 4_404 + PMDCS + 100);
        c.on_ack(cx, 100, 7_000, PMDCS, true);
        assert_eq!(c.cwnd, 4_404 + PMDCS + 100, "not in fast recovery");
    }

    #[test]
    fn congestion_avoidance_adds_one_packet_for_a_window() {
        let (mut world, mut c) = (World::new(), Cwnd::new(SctpCongestionKind::Rfc9260, PMDCS, false));
        let cx = &mut world.cx(Instant::ZERO);
        c.cwnd = 20_000;
        c.on_loss(cx, PMDCS);
        assert_eq!((c.cwnd, c.ssthresh), (10_000, 10_000));
        c.cwnd += 1;
        c.add(10_001);
        c.on_ack(cx, 10_000, 10_001, PMDCS, false);
        assert_eq!(c.cwnd, 10_001);
        c.on_ack(cx, 1, 10_001, PMDCS, true);
        assert_eq!((c.cwnd, c.partial_bytes_acked), (10_001 + PMDCS, 0));
        c.on_timeout(cx, PMDCS);
        assert_eq!((c.cwnd, c.ssthresh), (PMDCS, 5_872));
    }

    #[test]
    fn an_idle_window_halves_with_every_timeout_down_to_four_packets() {
        let (mut world, mut c) = (World::new(), Cwnd::new(SctpCongestionKind::Rfc9260, PMDCS, false));
        c.cwnd = 40_000;
        c.last_data = Instant::from_millis(1);
        let rto = core::time::Duration::from_secs(1);
        // A look that comes again does not begin the wait anew.
        for ms in [900, 1_900, 2_101] {
            c.on_idle(&mut world.cx(Instant::from_millis(ms)), rto, PMDCS);
        }
        assert_eq!((c.cwnd, c.ssthresh), (10_000, 40_000));
        c.on_idle(&mut world.cx(Instant::from_millis(100_000)), rto, PMDCS);
        assert_eq!(c.cwnd, 4 * PMDCS);
    }
}
