//! Checks that a packet of new data is no larger than autosizing lets it be (docs/transmit-path.md): what the flow sends in a millisecond, more near
//! the peer, and half of the congestion window at the most.
use lowwater_core::base::sysctl::Sysctl;
use lowwater_core::tcp::{Bounds, Pace, SentPacket};

/// The settings that it goes by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// `tcp_min_tso_segs`.
    least: u32,
    /// `tcp_tso_rtt_log`.
    rtt_log: u32,
    /// What the largest packet leaves for headers (`max_tcp_header`, and a byte).
    headers: u32,
}

impl Sizes {
    /// Those of a host.
    #[must_use]
    pub fn of(sysctl: &Sysctl) -> Self {
        Self {
            least: sysctl.tcp_min_tso_segs,
            rtt_log: sysctl.tcp_tso_rtt_log,
            headers: sysctl.max_tcp_header + 1,
        }
    }

    /// Bytes of the largest packet.
    fn most(self, pace: &Pace) -> u64 {
        pace.gso.0.saturating_sub(self.headers).into()
    }

    /// Bytes that a packet may have at such a pace.
    fn bytes(self, pace: &Pace) -> u64 {
        let most = self.most(pace);
        let halvings = match pace.min_rtt {
            Some(rtt) if self.rtt_log > 0 => rtt.as_micros().checked_shr(self.rtt_log).unwrap_or(0),
            _ => u128::MAX,
        };
        let near = if halvings < 32 { most >> halvings } else { 0 };
        (pace.rate / 1_024).saturating_add(near).min(most)
    }

    /// Segments that it may have however slow the flow is.
    fn least(self, pace: &Pace) -> u32 {
        pace.two_segments_from.map_or(self.least, |from| if pace.rate < from { 1 } else { 2 })
    }

    /// A packet that has left between `was` and `now` is one segment, or no larger than either of them allows.
    ///
    /// # Errors
    /// It is larger.
    pub fn keeps(self, was: &Bounds, now: &Bounds, packet: SentPacket) -> Result<(), String> {
        let segs = u32::from(packet.segs);
        let takes = |flow: &Bounds| {
            let (pace, bytes) = (&flow.pace, packet.bytes as u64);
            let sized = bytes <= self.bytes(pace) || segs <= self.least(pace);
            sized && bytes <= self.most(pace) && packet.segs <= pace.gso.1
        };
        // What a write has pushed was cut before the end of it made the window smaller (`tcp_cwnd_application_limited`).
        let half = segs <= was.cwnd.max(now.cwnd) / 2 || packet.at < was.pace.pushed_to;
        if segs <= 1 || ((takes(was) || takes(now)) && half) {
            return Ok(());
        }
        let bytes = self.bytes(&was.pace).max(self.bytes(&now.pace));
        Err(format!("has sent {packet:?}, and a packet has {bytes} bytes: {was:?}, {now:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::sample;
    use lowwater_core::base::{Duration, Instant};

    const PACE: Pace = Pace { rate: 10_240_000, ..sample::PACE };
    const FLOW: Bounds = Bounds { pace: PACE, ..sample::FLOW };
    const SIZES: Sizes = Sizes { least: 2, rtt_log: 9, headers: 321 };

    fn takes(sizes: Sizes, was: &Bounds, now: &Bounds, bytes: usize, segs: u16) -> bool {
        sizes
            .keeps(was, now, SentPacket { at: was.nxt, bytes, segs, departs: Instant::ZERO, number: 1 })
            .is_ok()
    }

    #[test]
    fn a_packet_is_a_millisecond_and_what_nearness_adds() {
        let alone = |bytes, segs| takes(SIZES, &FLOW, &FLOW, bytes, segs);
        assert_eq!([alone(10_000, 10), alone(10_001, 11)], [true, false]);
        let near = Bounds { pace: Pace { min_rtt: Some(Duration::from_micros(1_024)), ..PACE }, ..FLOW };
        // 65,215 bytes halved twice.
        let most = 10_000 + 16_303;
        assert_eq!([most, most + 1].map(|n| takes(SIZES, &near, &near, n, 30)), [true, false]);
        let off = Sizes { rtt_log: 0, ..SIZES };
        assert_eq!([10_000, 10_001].map(|n| takes(off, &near, &near, n, 30)), [true, false]);
        // The rate may change within the turn.
        assert!(takes(SIZES, &near, &FLOW, most, 30) && takes(SIZES, &FLOW, &near, most, 30));
    }

    #[test]
    fn a_slow_flow_sends_the_least_and_a_fast_one_what_window_and_device_take() {
        let at = |rate, two_segments_from| Bounds { pace: Pace { rate, two_segments_from, ..PACE }, ..FLOW };
        let slow = at(0, None);
        let fits = |flow: &Bounds, segs: u16| takes(SIZES, flow, flow, 1_000 * usize::from(segs), segs);
        assert_eq!([1, 2, 3].map(|n| fits(&slow, n)), [true, true, false]);
        let (few, two) = (at(100, Some(101)), at(101, Some(101)));
        assert_eq!([fits(&few, 1), fits(&few, 2), fits(&two, 2), fits(&two, 3)], [true, false, true, false]);
        let fast = at(u64::MAX, None);
        assert_eq!([60, 61].map(|n| fits(&fast, n)), [true, false], "segments of the device");
        assert_eq!([65_215, 65_216].map(|n| takes(SIZES, &fast, &fast, n, 50)), [true, false], "its bytes");
        let narrow = Bounds { cwnd: 21, ..fast };
        assert_eq!([10, 11].map(|n| fits(&narrow, n)), [true, false], "half of the window");
        assert!(takes(SIZES, &fast, &narrow, 11_000, 11), "which was larger");
        let pushed = |to| Bounds { pace: Pace { pushed_to: to, ..narrow.pace }, ..narrow };
        assert_eq!(
            [0, 1].map(|n| fits(&pushed(narrow.nxt + n), 11)),
            [false, true],
            "when a write pushed it"
        );
        assert!(fits(&Bounds { cwnd: 1, ..slow }, 1), "one segment always");
    }
}
