//! Checks that no connection has more below it than its own queue passes on, nor too large a packet (docs/queue-aware.md, "Rule"): by the
//! speed that the stack has seen, and by what the host knows to be below.
//!
//! How that speed is reckoned is not looked at, nor a turn in which there is none at its beginning or its end.
use lowwater_core::base::Duration;
use lowwater_core::tcp::{Bounds, Fresh, OwnQueue};

/// What stands below takes so much of the queue's time where that passes on two segments in it.
const QUEUE_S: f64 = 0.001;

/// A connection before or after a turn, with its own queue.
#[derive(Clone, Copy, Debug)]
pub struct Followed<'a> {
    /// What bounds it.
    pub flow: &'a Bounds,
    /// How its own queue moves, where that is known.
    pub queue: Option<OwnQueue>,
    /// What completions are late by.
    pub late: Duration,
}

impl Followed<'_> {
    /// Bytes that may be below, and segments of a packet.
    fn most(&self) -> Option<(f64, f64)> {
        let queue = self.queue?;
        let (rate, segment) = (queue.rate? as f64, queue.segment as f64);
        // By the eighth root of how often two segments fit in that time.
        let times = (rate * QUEUE_S / (2.0 * segment)).max(1.0);
        let time = QUEUE_S / times.sqrt().sqrt().sqrt();
        let late = self.late.as_nanos() as f64 / 1e9;
        let bytes = (rate * (time + late)).max(2.0 * segment);
        Some((bytes, (rate * time / 2.0 / segment).max(1.0)))
    }
}

/// What a connection has handed down between `was` and `now` had room: `packets` in their order, after which `below` IP bytes are there.
///
/// # Errors
/// Too much is below, or a packet is too large.
pub fn keeps(
    was: Followed<'_>,
    now: Followed<'_>,
    packets: &[Fresh],
    below: impl FnOnce() -> u64,
) -> Result<(), String> {
    let (Some(before), Some(after), Some(last)) = (was.most(), now.most(), packets.last()) else {
        return Ok(());
    };
    // The root is of whole numbers there.
    let more = 1.0 + 1.0 / 4_096.0;
    let (bytes, segs) = (before.0.max(after.0) * more, before.1.max(after.1) * more);
    let fresh = |packet: &&Fresh| packet.at >= was.flow.nxt && packet.at >= was.flow.pace.pushed_to;
    if let Some(packet) = packets.iter().filter(fresh).find(|packet| f64::from(packet.segs) > segs) {
        return Err(format!("has sent {packet:?}, its own queue takes {segs:.1} segments: {was:?}, {now:?}"));
    }
    // Who finds nothing below, or nothing that is not acknowledged, asks nobody. So do a timeout's first retransmission and the probe of the
    // path's MTU.
    let alone = packets.len() == 1 && (was.flow.below == 0 || was.flow.records == 0);
    let timeout = packets.len() == 1
        && last.at < was.flow.nxt
        && was.flow.pace.due
        && was.flow.tail_probe == now.flow.tail_probe;
    let probes = last.at >= was.flow.nxt && now.flow.probes_mtu && !was.flow.probes_mtu;
    if alone || timeout || probes {
        return Ok(());
    }
    // The account keeps the length of a segment while anything is below, so that it has fewer headers than shorter ones that go down meanwhile.
    let below = below();
    if (below - below / 16) as f64 <= bytes {
        return Ok(());
    }
    Err(format!("has {below} bytes below, its own queue takes {bytes:.0}: {was:?}, {now:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU64;
    use lowwater_core::base::Instant;
    use lowwater_core::path::pacing::Status;
    use lowwater_core::tcp::Pace;

    const FLOW: Bounds = Bounds {
        in_flight: 9,
        duplicates: 0,
        cwnd: 200,
        sent: (100, 5),
        fin: false,
        below: 3_000,
        pace: Pace {
            rate: 1_000_000,
            by: Status::None,
            min_rtt: None,
            gso: (65_536, 60),
            two_segments_from: None,
            pushed_to: 0,
            handed: 40,
            due: false,
        },
        una: 90_000,
        nxt: 100_000,
        probes_mtu: false,
        records: 3,
        tail_probe: None,
    };

    /// A queue that passes on `mbit`, by segments of 1,500 bytes.
    const fn queue(mbit: u64) -> OwnQueue {
        OwnQueue { bytes: 0, rate: Some(mbit * 125_000), limit: None, segment: 1_500 }
    }

    const fn packet(at: u64, segs: u16) -> Fresh {
        Fresh { at, bytes: 1_448 * segs as usize, segs, departs: Instant::ZERO, number: 41 }
    }

    const NEW: Fresh = packet(FLOW.nxt, 1);
    const AGAIN: Fresh = packet(FLOW.una, 1);

    fn held(was: &Bounds, now: &Bounds, queues: [u64; 2], packets: &[Fresh], below: u64) -> bool {
        let [was, now] = [(was, queues[0]), (now, queues[1])].map(|(flow, mbit)| Followed {
            flow,
            queue: (mbit > 0).then(|| queue(mbit)),
            late: Duration::ZERO,
        });
        keeps(was, now, packets, || below).is_err()
    }

    #[test]
    fn two_segments_may_be_below_or_what_passes_in_less_and_less_time() {
        let most = |mbit, late| {
            let followed =
                Followed { flow: &FLOW, queue: Some(queue(mbit)), late: Duration::from_micros(late) };
            followed.most().map(|(bytes, segs)| (bytes.round() as u64, segs as u64))
        };
        assert_eq!([1, 24].map(|mbit| most(mbit, 0)), [Some((3_000, 1)); 2]);
        // 2^8 and 2^16 times as fast: a half and a quarter of the time.
        assert_eq!(most(24 << 8, 0), Some((384_000, 128)));
        assert_eq!(most(24 << 16, 0), Some((49_152_000, 16_384)));
        assert_eq!(most(24, 1_000), Some((6_000, 1)), "and what completions are late by");
    }

    #[test]
    fn what_is_below_had_room() {
        let two = [3_000, 3_200, 3_203];
        assert_eq!(two.map(|n| held(&FLOW, &FLOW, [10, 10], &[NEW], n)), [false, false, true]);
        assert!(!held(&FLOW, &FLOW, [10, 10], &[], 90_000), "nothing went down");
        assert!(!held(&FLOW, &FLOW, [48, 10], &[NEW], 4_500), "the larger of both");
        let either = [[0, 10], [10, 0]];
        assert!(!either.into_iter().any(|queues| held(&FLOW, &FLOW, queues, &[NEW], 90_000)), "no estimate");
    }

    #[test]
    fn who_asks_nobody_is_alone() {
        let kept = |was: &Bounds, now: &Bounds, packets: &[Fresh]| !held(was, now, [10, 10], packets, 90_000);
        for found in [Bounds { below: 0, ..FLOW }, Bounds { records: 0, ..FLOW }] {
            assert!(kept(&found, &FLOW, &[NEW]) && !kept(&found, &FLOW, &[NEW, packet(110_000, 1)]));
        }
        let due = Bounds { pace: Pace { due: true, ..FLOW.pace }, ..FLOW };
        assert!(kept(&due, &FLOW, &[AGAIN]));
        assert!(!kept(&FLOW, &FLOW, &[AGAIN]), "no timeout");
        assert!(!kept(&due, &FLOW, &[NEW]) && !kept(&due, &FLOW, &[AGAIN, NEW]), "or behind it");
        let probe = Bounds { tail_probe: NonZeroU64::new(9_000), ..FLOW };
        assert!(!kept(&due, &probe, &[AGAIN]), "a tail loss probe");
        let probes = Bounds { probes_mtu: true, ..FLOW };
        assert!(kept(&FLOW, &probes, &[NEW]) && kept(&FLOW, &probes, &[AGAIN, NEW]));
        assert!(!kept(&probes, &probes, &[NEW]), "it was out before");
        assert!(!kept(&FLOW, &probes, &[NEW, AGAIN]), "behind it");
    }

    #[test]
    fn a_packet_of_new_data_is_half_of_that() {
        let fits = |packet, mbit| !held(&FLOW, &FLOW, [mbit, mbit], &[packet], 0);
        let of = |segs| packet(FLOW.nxt, segs);
        assert_eq!([fits(of(1), 1), fits(of(2), 1)], [true, false]);
        assert_eq!([fits(of(128), 24 << 8), fits(of(129), 24 << 8)], [true, false]);
        assert!(fits(packet(FLOW.una, 2), 1), "what was cut before");
        let pushed = Bounds { pace: Pace { pushed_to: FLOW.nxt + 1, ..FLOW.pace }, ..FLOW };
        assert!(!held(&pushed, &FLOW, [1, 1], &[of(2)], 0), "or in a write");
    }
}
