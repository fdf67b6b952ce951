//! Checks that no connection has more below it than its own queue passes on, nor too large a packet (docs/queue-aware.md, "Rule"): by the
//! speed that the stack has seen, and by the account that it keeps, which is held against what the host knows to be below.
//!
//! How that speed is reckoned is not looked at, nor a turn in which there is none at its beginning or its end.
use lowwater_core::base::Duration;
use lowwater_core::tcp::{Bounds, OwnQueue, SentPacket};

/// Charge of a packet beside its payload, and the most that options of TCP take.
const PACKET_CHARGE: u32 = 1_280;
const OPTIONS_MOST: u64 = 40;

/// A packet below a flow, or a piece of one that a queue has cut.
#[derive(Clone, Copy, Debug)]
struct Packet {
    /// IP bytes, as the segments that it becomes.
    bytes: u32,
    charge: u32,
    /// What the flow paid for the packet that ends with this; 0 where more pieces of it follow.
    whole: u32,
}

impl Packet {
    /// Payload; that of a piece is its share of the packet's.
    fn payload(self) -> u64 {
        self.charge.saturating_sub(PACKET_CHARGE).into()
    }

    /// Segments of it where a full one has so much.
    fn segs(self, mss: u64) -> u64 {
        self.payload().div_ceil(mss.max(1)).max(1)
    }

    /// It has not been cut: a piece is charged less than its packet was.
    const fn is_one(self) -> bool {
        self.charge == self.whole
    }
}

/// What the host knows to be below a flow, in the order in which it leaves.
#[derive(Clone, Debug, Default)]
pub struct Below {
    packets: Vec<Packet>,
    /// Those of them that have not reached the device, or need not have waited.
    held: usize,
}

impl Below {
    /// A packet of so many IP bytes is there. `paid` is its charge, and what the flow paid for the packet that ends with it.
    pub fn add(&mut self, bytes: u32, (charge, whole): (u32, u32)) {
        self.packets.push(Packet { bytes, charge, whole });
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
        self.packets.iter().map(|packet| packet.charge).max().unwrap_or_default().into()
    }

    /// Their bytes where a full segment has so much payload, and each so much of headers.
    fn in_segments_of(&self, (mss, headers): (u64, u64)) -> u64 {
        self.packets.iter().map(|packet| packet.payload() + packet.segs(mss) * headers).sum()
    }

    /// Packets that stand here whole, each with its pieces; pieces of others are told by themselves.
    fn runs(&self) -> impl Iterator<Item = &[Packet]> {
        let all = self.packets.chunk_by(|one, next| one.whole == 0 && !next.is_one());
        all.flat_map(|run| {
            let charge: u32 = run.iter().map(|packet| packet.charge).sum();
            let paid = run.last().map_or(0, |last| last.whole) + (run.len() as u32 - 1) * PACKET_CHARGE;
            run.chunks(if charge == paid { run.len() } else { 1 })
        })
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
/// last empty, and in which what was cut is so many segments of equal shares. On the wire each packet has no less, where the segments were no longer,
/// and no more than these and selective acknowledgements explain. But for two:
///
/// - the `probe` of the path's MTU, which has no such acknowledgements but may have the counters of accurate ECN, is one segment there and several in the account;
/// - a piece whose packet is not all here is one segment, whatever its share.
///
/// Not asked above a device that keeps nothing, which is no queue.
///
/// # Errors
/// The account is of something else.
pub fn balances(now: Side<'_>, below: &Below, probes: bool) -> Result<(), String> {
    let Some(queue) = now.queue else { return Ok(()) };
    let (mss, headers) = (u64::from(now.flow.pace.segment.0), u64::from(now.flow.pace.segment.1));
    let (own_mss, counters_most) = (queue.segment.saturating_sub(headers), u64::from(now.flow.pace.counters));
    let is = below.in_segments_of((own_mss, headers));
    if queue.bytes != is {
        return Err(format!("has {is} bytes below, in its account {}: {below:?}, {now:?}", queue.bytes));
    }
    if own_mss != mss {
        return Ok(());
    }
    // Segments with selective acknowledgements are shorter, so that there may be more of them.
    let shorter = (own_mss.saturating_sub(OPTIONS_MOST), headers + OPTIONS_MOST);
    let of =
        |run: &[Packet], (mss, headers)| run.iter().map(|one| one.payload() + one.segs(mss) * headers).sum();
    for run in below.runs() {
        let wire: u64 = run.iter().map(|one| u64::from(one.bytes)).sum();
        let [least, most]: [u64; 2] = [of(run, (own_mss, headers)), of(run, shorter)];
        let explained = match run {
            [one] if one.is_one() => {
                let counters = wire.checked_sub(one.payload() + headers);
                let told = counters.is_some_and(|more| more.is_multiple_of(4) && more <= counters_most);
                let probe = probes && one.payload() > own_mss && told;
                probe || (least..=most).contains(&wire)
            }
            [_] => (headers..=own_mss + headers).contains(&wire),
            _ => (least..=most).contains(&wire),
        };
        if !explained {
            return Err(format!("has {run:?} below, in its account {least} bytes: {below:?}, {now:?}"));
        }
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

    /// For a packet of so much payload.
    const fn paid(payload: u32) -> (u32, u32) {
        (payload + PACKET_CHARGE, payload + PACKET_CHARGE)
    }

    /// Each a segment with timestamps.
    fn packets_of(lengths: impl IntoIterator<Item = u32>) -> Below {
        let mut below = Below::default();
        lengths.into_iter().for_each(|bytes| below.add(bytes, paid(bytes - 52)));
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
            balances(Side { flow: &FLOW, queue, late: Duration::ZERO }, below, false).is_ok()
        };
        let of = |bytes| [bytes - 1, bytes, bytes + 1];
        let two = packets_of([1_500, 152]);
        assert_eq!(of(1_652).map(|n| is(n, 1_500, &two)), [false, true, false], "both ways");
        // A packet of two segments is as many headers; a FIN is one.
        let mut double = packets_of([52]);
        double.add(2 * 1_500, paid(2 * 1_448));
        assert_eq!(of(3_052).map(|n| is(n, 1_500, &double)), [false, true, false]);
        // In the account a segment is as long as it was: there are three of 1,000 bytes, or one.
        assert!(is(2 * 1_448 + 3 * 52 + 52, 1_052, &double) && is(2 * 1_448 + 52 + 52, 9_000, &double));
        // The headers on the wire are those, or have selective acknowledgements.
        let wire = |bytes| {
            let mut below = Below::default();
            below.add(bytes, paid(100));
            is(152, 1_500, &below)
        };
        assert_eq!([151, 152, 192, 193].map(wire), [false, true, true, false]);
        // A full segment with them is two, one of which has what found no room.
        let full = |bytes| {
            let mut below = Below::default();
            below.add(bytes, paid(1_448));
            is(1_500, 1_500, &below)
        };
        assert_eq!(
            [1_499, 1_448 + 2 * 64, 1_448 + 2 * 92, 1_448 + 2 * 92 + 1].map(full),
            [false, true, true, false]
        );
        assert!(is(0, 1_500, &Below::default()) && !is(1, 1_500, &Below::default()));
    }

    #[test]
    fn what_was_cut_is_its_pieces_and_a_probe_one_segment() {
        let of = |flow: &Bounds, bytes, probes, packets: &[(u32, (u32, u32))]| {
            let mut below = Below::default();
            packets.iter().for_each(|(wire, paid)| below.add(*wire, *paid));
            let queue = Some(OwnQueue { bytes, ..queue(10) });
            balances(Side { flow, queue, late: Duration::ZERO }, &below, probes).is_ok()
        };
        let is = |bytes, probes, packets: &[_]| of(&FLOW, bytes, probes, packets);
        // Two segments and 100 bytes, whose shares are equal.
        let (whole, shares) = (2_996 + PACKET_CHARGE, [998, 999, 999].map(|share| share + PACKET_CHARGE));
        let pieces = |last| [(1_500, (shares[0], 0)), (1_500, (shares[1], 0)), (last, (shares[2], whole))];
        assert_eq!([3_151, 3_152].map(|bytes| is(bytes, false, &pieces(152))), [false, true]);
        assert_eq!([151, 192, 273].map(|last| is(3_152, false, &pieces(last))), [false, true, false]);
        // Of some that have left or found no room the lengths are not known, but that each is a segment.
        let rest = |bytes, last| is(bytes, false, &pieces(last)[1..]);
        assert!(rest(1_998 + 104, 152) && !rest(1_998 + 52, 152) && !rest(1_998 + 104, 1_501));
        let two = [pieces(152)[0], (300, paid(248))];
        assert!(is(998 + 52 + 300, false, &two), "the end that found no room is not another packet");
        // A segment that is longer than one.
        let probe = |wire, probes| is(2_000 + 104, probes, &[(wire, paid(2_000))]);
        assert_eq!([probe(2_052, true), probe(2_052, false), probe(2_053, true)], [true, false, false]);
        assert!(!probe(2_064, true), "counters of marks, on which nobody has agreed");
        let accurate = Bounds { pace: Pace { counters: 12, ..FLOW.pace }, ..FLOW };
        let counted = |wire| of(&accurate, 2_000 + 104, true, &[(wire, paid(2_000))]);
        assert_eq!(
            [2_051, 2_052, 2_056, 2_058, 2_064, 2_068].map(counted),
            [false, true, true, false, true, false]
        );
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
