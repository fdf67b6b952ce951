//! Checks that no connection has more below it than its own queue passes on, nor too large a packet (docs/queue-aware.md, "Rule"): by the
//! speed that the stack has seen, and by the account that it keeps, which is held against what the host knows to be below.
//!
//! How that speed is reckoned is not looked at, nor a turn in which there is none at its beginning or its end.
use lowwater_core::base::Duration;
use lowwater_core::tcp::{Bounds, OwnQueue, SentPacket};

/// Charge of a packet beside its payload, and the most that options of TCP take.
const PACKET_CHARGE: u32 = 1_280;
const OPTIONS_MOST: u64 = 40;

/// What the host knows to be below a flow: of each packet the IP bytes, as the segments that it becomes, and the charge.
#[derive(Clone, Debug, Default)]
pub struct Below {
    packets: Vec<(u32, u32)>,
    /// Those of them that have not reached the device, or need not have waited.
    held: usize,
}

impl Below {
    /// A packet of so many IP bytes is there.
    pub fn add(&mut self, bytes: u32, charge: u32) {
        self.packets.push((bytes, charge));
    }

    /// A packet is held before the device, or went there before its time as it may.
    pub fn hold(&mut self) {
        self.held += 1;
    }

    /// So many.
    #[must_use]
    pub const fn held(&self) -> usize {
        self.held
    }

    /// Charge of the largest.
    #[must_use]
    pub fn largest(&self) -> u64 {
        self.packets.iter().map(|(_, charge)| *charge).max().unwrap_or_default().into()
    }

    fn bytes(&self) -> u64 {
        self.packets.iter().map(|(bytes, _)| u64::from(*bytes)).sum()
    }

    /// Their payload, and the segments that they are where a full one has so much.
    fn in_segments_of(&self, mss: u64) -> (u64, u64) {
        let payload = self.packets.iter().map(|(_, charge)| u64::from(charge.saturating_sub(PACKET_CHARGE)));
        payload.fold((0, 0), |(sum, segs), bytes| (sum + bytes, segs + bytes.div_ceil(mss.max(1)).max(1)))
    }
}

/// What stands below takes so much of the queue's time where that passes on two segments in it.
const QUEUE_S: f64 = 0.001;
/// Bytes a second above which that time falls no further.
const RATE_MAX: f64 = (1_u64 << 48) as f64;

/// A connection before or after a turn, with its own queue.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// What bounds it.
    pub flow: &'a Bounds,
    /// How its own queue moves, where that is known.
    pub queue: Option<OwnQueue>,
    /// What completions are late by.
    pub late: Duration,
}

impl Side<'_> {
    /// Bytes that may be below, and segments of a packet.
    fn most(&self) -> Option<(f64, f64)> {
        let queue = self.queue?;
        let (rate, segment) = (queue.rate? as f64, queue.segment as f64);
        // By the eighth root of how often two segments fit in that time.
        let times = (rate.min(RATE_MAX) * QUEUE_S / (2.0 * segment)).max(1.0);
        let time = QUEUE_S / times.sqrt().sqrt().sqrt();
        let late = self.late.as_nanos() as f64 / 1e9;
        let bytes = (rate * (time + late)).max(2.0 * segment);
        Some((bytes, (rate * time / 2.0 / segment).max(1.0)))
    }
}

/// The account of a flow's own queue is of what is `below` it: as the account counts exactly, whose segment stays as long as it was when the queue was
/// last empty. On the wire there is no less, where the segments were no longer, and no more than these and selective acknowledgements explain.
///
/// Not asked above a queue that cuts packets or a device that keeps nothing, nor where the path's MTU is probed for: what is cut, and a probe, is one
/// segment below and may be several in the account, and such a device is no queue.
///
/// # Errors
/// The account is of something else.
pub fn balances(now: Side<'_>, below: &Below) -> Result<(), String> {
    let Some(queue) = now.queue else { return Ok(()) };
    let (mss, headers) = now.flow.pace.segment;
    let own_mss = queue.segment.saturating_sub(headers.into());
    let (payload, segs) = below.in_segments_of(own_mss);
    let is = payload + segs * u64::from(headers);
    if queue.bytes != is {
        return Err(format!("has {is} bytes below, in its account {}: {below:?}, {now:?}", queue.bytes));
    }
    // Segments with selective acknowledgements are shorter, so that there may be more of them.
    let (_, shorter) = below.in_segments_of(own_mss.saturating_sub(OPTIONS_MOST));
    let most = payload + shorter * (u64::from(headers) + OPTIONS_MOST);
    let wire = below.bytes();
    if own_mss == u64::from(mss) && !(is..=most).contains(&wire) {
        return Err(format!("has {wire} bytes below, in its account {is}: {below:?}, {now:?}"));
    }
    Ok(())
}

/// What a connection has handed down between `was` and `now` had room: `packets` in their order.
///
/// # Errors
/// Too much is below, or a packet is too large.
pub fn keeps(was: Side<'_>, now: Side<'_>, packets: &[SentPacket]) -> Result<(), String> {
    let (Some(before), Some(after), Some(last)) = (was.most(), now.most(), packets.last()) else {
        return Ok(());
    };
    // The root is of whole numbers there.
    let more = 1.0 + 1.0 / 4_096.0;
    let (bytes, segs) = (before.0.max(after.0) * more, before.1.max(after.1) * more);
    let fresh = |packet: &&SentPacket| packet.at >= was.flow.nxt && packet.at >= was.flow.pace.pushed_to;
    if let Some(packet) = packets.iter().filter(fresh).find(|packet| f64::from(packet.segs) > segs) {
        return Err(format!("has sent {packet:?}, its own queue takes {segs:.1} segments: {was:?}, {now:?}"));
    }
    // Who finds nothing below, or nothing that is not acknowledged, asks nobody. Neither do a timeout's first retransmission and the probe of the
    // path's MTU, which is the first of new data in its turn: what comes behind it asks.
    let alone = packets.len() == 1 && (was.flow.below == 0 || was.flow.records == 0);
    let timeout = packets.len() == 1
        && last.at < was.flow.nxt
        && was.flow.pace.due
        && was.flow.tail_probe == now.flow.tail_probe;
    let new = packets.iter().filter(|packet| packet.at >= was.flow.nxt).count();
    let probes = last.at >= was.flow.nxt && new == 1 && now.flow.probes_mtu && !was.flow.probes_mtu;
    if alone || timeout || probes {
        return Ok(());
    }
    let queued = now.queue.map_or(0, |queue| queue.bytes);
    if queued as f64 <= bytes {
        return Ok(());
    }
    Err(format!("has {queued} bytes below, its own queue takes {bytes:.0}: {was:?}, {now:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::sample::FLOW;
    use core::num::NonZeroU64;
    use lowwater_core::base::Instant;
    use lowwater_core::tcp::Pace;

    /// A queue that passes on `mbit`, by segments of 1,500 bytes.
    const fn queue(mbit: u64) -> OwnQueue {
        OwnQueue { bytes: 0, rate: Some(mbit * 125_000), limit: None, segment: 1_500 }
    }

    const fn packet(at: u64, segs: u16) -> SentPacket {
        SentPacket { at, bytes: 1_448 * segs as usize, segs, departs: Instant::ZERO, number: 41 }
    }

    const NEW: SentPacket = packet(FLOW.nxt, 1);
    const AGAIN: SentPacket = packet(FLOW.una, 1);

    /// Each a segment with timestamps.
    fn packets_of(lengths: impl IntoIterator<Item = u32>) -> Below {
        let mut below = Below::default();
        lengths.into_iter().for_each(|bytes| below.add(bytes, bytes - 52 + PACKET_CHARGE));
        below
    }

    fn held(was: &Bounds, now: &Bounds, queues: [u64; 2], packets: &[SentPacket], below: u64) -> bool {
        let [was, now] = [(was, queues[0]), (now, queues[1])].map(|(flow, mbit)| Side {
            flow,
            queue: (mbit > 0).then(|| OwnQueue { bytes: below, ..queue(mbit) }),
            late: Duration::ZERO,
        });
        keeps(was, now, packets).is_err()
    }

    #[test]
    fn two_segments_may_be_below_or_what_passes_in_less_and_less_time() {
        let most = |mbit, late| {
            let followed = Side { flow: &FLOW, queue: Some(queue(mbit)), late: Duration::from_micros(late) };
            followed.most().map(|(bytes, segs)| (bytes.round() as u64, segs as u64))
        };
        assert_eq!([1, 24].map(|mbit| most(mbit, 0)), [Some((3_000, 1)); 2]);
        // 2^8 and 2^16 times as fast: a half and a quarter of the time.
        assert_eq!(most(24 << 8, 0), Some((384_000, 128)));
        assert_eq!(most(24 << 16, 0), Some((49_152_000, 16_384)));
        let time =
            |mbit| most(mbit, 0).map(|(bytes, _)| (bytes as f64 / (mbit as f64 * 125_000.0) * 1e9) as u64);
        assert_eq!(time(1 << 32), time(1 << 33), "beyond 2 Pbit/s it falls no further");
        assert_eq!(most(24, 1_000), Some((6_000, 1)), "and what completions are late by");
    }

    #[test]
    fn what_is_below_had_room() {
        // But for the root of whole numbers.
        let two = [3_000, 3_053];
        assert_eq!(two.map(|n| held(&FLOW, &FLOW, [10, 10], &[NEW], n)), [false, true]);
        assert!(!held(&FLOW, &FLOW, [10, 10], &[], 90_000), "nothing went down");
        assert!(!held(&FLOW, &FLOW, [48, 10], &[NEW], 4_500), "the larger of both");
        let either = [[0, 10], [10, 0]];
        assert!(!either.into_iter().any(|queues| held(&FLOW, &FLOW, queues, &[NEW], 90_000)), "no estimate");
    }

    #[test]
    fn the_account_is_of_what_is_below() {
        let is = |bytes, segment, below: &Below| {
            let queue = Some(OwnQueue { bytes, segment, ..queue(10) });
            balances(Side { flow: &FLOW, queue, late: Duration::ZERO }, below).is_ok()
        };
        let of = |bytes| [bytes - 1, bytes, bytes + 1];
        let two = packets_of([1_500, 152]);
        assert_eq!(of(1_652).map(|n| is(n, 1_500, &two)), [false, true, false], "both ways");
        // A packet of two segments is as many headers; a FIN is one.
        let mut double = packets_of([52]);
        double.add(2 * 1_500, 2 * 1_448 + PACKET_CHARGE);
        assert_eq!(of(3_052).map(|n| is(n, 1_500, &double)), [false, true, false]);
        // In the account a segment is as long as it was: there are three of 1,000 bytes, or one.
        assert!(is(2 * 1_448 + 3 * 52 + 52, 1_052, &double) && is(2 * 1_448 + 52 + 52, 9_000, &double));
        // The headers on the wire are those, or have selective acknowledgements.
        let wire = |bytes| {
            let mut below = Below::default();
            below.add(bytes, 100 + PACKET_CHARGE);
            is(152, 1_500, &below)
        };
        assert_eq!([151, 152, 192, 193].map(wire), [false, true, true, false]);
        // A full segment with them is two, one of which has what found no room.
        let full = |bytes| {
            let mut below = Below::default();
            below.add(bytes, 1_448 + PACKET_CHARGE);
            is(1_500, 1_500, &below)
        };
        assert_eq!(
            [1_499, 1_448 + 2 * 64, 1_448 + 2 * 92, 1_448 + 2 * 92 + 1].map(full),
            [false, true, true, false]
        );
        assert!(is(0, 1_500, &Below::default()) && !is(1, 1_500, &Below::default()));
    }

    #[test]
    fn who_asks_nobody_is_alone() {
        let kept =
            |was: &Bounds, now: &Bounds, packets: &[SentPacket]| !held(was, now, [10, 10], packets, 90_000);
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
        assert!(!kept(&FLOW, &probes, &[NEW, packet(110_000, 1)]), "new data behind it");
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
