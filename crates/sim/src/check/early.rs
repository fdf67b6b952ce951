//! Checks of what a connection sends before its turn, when a segment that comes in lets it go (`Stack::send_now`): its pace, the size of its packets
//! and its own queue, as of what goes in a turn. What is in flight and below counts with the next turn.
use super::aware::{self, Side};
use super::pace::{self, Paces};
use super::size::Sizes;
use lowwater_core::base::Duration;
use lowwater_core::stack::Early;

/// What such packets go by, beside what the connection says.
#[derive(Clone, Copy, Debug)]
pub struct Ground {
    /// The settings of sizes.
    pub sizes: Sizes,
    /// What completions are late by.
    pub late: Duration,
    /// The queue before the device holds packets back until their departure time.
    pub holds: bool,
}

impl Ground {
    /// What has left keeps to all three, at its own time: who looks may do so later. `held` says how many packets of the connection wait below.
    ///
    /// # Errors
    /// Something has left too early, in too large a packet, or without room.
    pub fn keeps(
        &self,
        early: &Early,
        paces: &mut Paces,
        held: impl FnOnce() -> usize,
    ) -> Result<(), String> {
        let (was, now, at) = (&early.was.0, &early.now.0, early.at);
        let packets = pace::in_order(was, now, early.packets.iter().copied());
        for packet in packets.iter().filter(|packet| packet.at >= was.nxt) {
            self.sizes.keeps(was, now, *packet)?;
        }
        paces.keeps((early.socket, at), (was, now), &packets)?;
        if self.holds {
            pace::waits(at, &packets, held)?;
        }
        let side = |(flow, queue)| Side { flow, queue, late: self.late };
        aware::keeps(side((was, early.was.1)), side((now, early.now.1)), &packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::sample::{FLOW, PACE};
    use lowwater_core::base::{Instant, SocketId, Sysctl};
    use lowwater_core::path::pacing::Status;
    use lowwater_core::tcp::{Bounds, OwnQueue, Pace, SentPacket};

    fn us(us: u64) -> Instant {
        Instant::ZERO.plus_nanos(us * 1_000)
    }

    /// One packet more, at `at`.
    fn early(segs: u16, queue: Option<OwnQueue>, at: Instant) -> Early {
        let was = Bounds { pace: Pace { by: Status::Needed, ..PACE }, ..FLOW };
        let now = Bounds { pace: Pace { handed: PACE.handed + 1, ..was.pace }, ..was };
        let (bytes, number) = (1_448 * usize::from(segs), PACE.handed + 1);
        let packets = vec![
            SentPacket { at: FLOW.una, bytes, segs, departs: Instant::ZERO, number: PACE.handed },
            SentPacket { at: FLOW.nxt, bytes, segs, departs: at, number },
        ];
        let socket = SocketId::from(slotmap::KeyData::from_ffi(1 | 1 << 32));
        Early { socket, at, was: (was, queue), now: (now, queue), packets }
    }

    #[test]
    fn pace_size_and_its_own_queue_are_kept_to_before_a_turn_too() {
        let ground = Ground { sizes: Sizes::of(&Sysctl::default()), late: Duration::ZERO, holds: false };
        let paces = &mut Paces::default();
        let mut keeps = |segs, queue, at| ground.keeps(&early(segs, queue, at), paces, || 0);
        assert_eq!(keeps(1, None, us(9_000)), Ok(()));
        assert!(keeps(1, None, us(9_723)).is_err_and(|what| what.contains("may leave at")));
        assert!(keeps(3, None, us(90_000)).is_err_and(|what| what.contains("a packet has")));
        let queue = OwnQueue { bytes: 90_000, rate: Some(1_250_000), limit: None, segment: 1_500 };
        let full = keeps(1, Some(queue), us(180_000));
        assert!(full.is_err_and(|what| what.contains("its own queue takes")));
        assert_eq!(keeps(1, None, us(270_000)), Ok(()));
        let fq = Ground { holds: true, ..ground };
        let waits = Early { at: us(200_000), ..early(1, None, us(300_000)) };
        let held = |held| fq.keeps(&waits, &mut Paces::default(), || held).is_ok();
        assert_eq!([held(0), held(1)], [false, true]);
    }
}
