//! Checks that a paced connection sends no faster than its rate (docs/transmit-path.md, "Pacing"): by the packets that went down in a turn, with
//! the departure time of each.
//!
//! Whoever was paced all along has sent each packet no sooner than the ones before it take at the rate. Time that it let pass makes up for half
//! of the one packet after it (`tcp_update_skb_after_send`). So a packet of so many bytes that departs at a time pushes the earliest departure of
//! the next one out to the later of two: the earliest of its own and its length at the rate, or its departure and half of that. A packet that
//! nobody looked at leaves that too early, never too late.
use lowwater_core::base::{Instant, SocketId};
use lowwater_core::path::pacing::Status;
use lowwater_core::tcp::{Bounds, SentPacket};
use std::collections::BTreeMap;

/// Segments with data that a connection may begin with, whatever its rate (`TCP_INIT_CWND`).
const UNPACED: u32 = 10;

/// When the next packet of each connection may depart at the earliest, as far as the turns that were looked at say.
#[derive(Clone, Debug, Default)]
pub struct Paces {
    earliest: BTreeMap<SocketId, Instant>,
}

impl Paces {
    /// Those that are no more may be forgotten.
    pub fn retain(&mut self, is_there: impl Fn(SocketId) -> bool) {
        self.earliest.retain(|id, _| is_there(*id));
    }

    /// What a connection has handed down at `at`, between `was` and `now`, keeps to its pace; `packets` are that in its order.
    ///
    /// # Errors
    /// A packet departs too early.
    pub fn keeps(
        &mut self,
        (id, at): (SocketId, Instant),
        (was, now): (&Bounds, &Bounds),
        packets: &[SentPacket],
    ) -> Result<(), String> {
        let earliest = self.earliest.entry(id).or_insert(Instant::ZERO);
        let mut segs = was.sent.0;
        for (place, packet) in packets.iter().enumerate() {
            let again = packet.at < was.nxt;
            // A timeout's first retransmission and a tail loss probe that sends again ask no pace, and leave before anything else. (Nor does a
            // probe of the window, whose timer waits for the pace too.)
            let asks = place > 0 || !again || !had_its_turn(was, now, packet);
            // What goes down leaves at this time, whatever it bears.
            let waits = now.pace.by == Status::Needed && asks;
            let leaves = if waits { packet.departs.min(at) } else { packet.departs };
            if leaves < *earliest {
                return Err(format!("has sent {packet:?}, which may leave at {earliest}: {was:?}, {now:?}"));
            }
            segs = segs.saturating_add(if packet.bytes > 0 { packet.segs.into() } else { 0 });
            let paced = now.pace.by != Status::None && segs >= UNPACED;
            let rates = [was.pace.rate, now.pace.rate, was.pace.again.filter(|_| again).unwrap_or(0)];
            let takes = if paced { nanos(rates, packet.bytes) } else { 0 };
            *earliest = earliest.plus_nanos(takes).max(packet.departs.plus_nanos(takes / 2));
        }
        Ok(())
    }
}

/// This is the retransmission that a timeout or a tail loss probe waited with: the first of all has what a timeout sends.
fn had_its_turn(was: &Bounds, now: &Bounds, packet: &SentPacket) -> bool {
    let probed = now.tail_probe.is_some() && now.tail_probe != was.tail_probe;
    was.pace.due && !now.pace.due && (probed || packet.at <= was.una)
}

/// What was handed down at `at` to depart later is among the `held` packets of its flow: by the time with which it went in.
///
/// # Errors
/// Some of it has left.
pub fn waits(at: Instant, packets: &[SentPacket], held: impl FnOnce() -> usize) -> Result<(), String> {
    let early = packets.iter().filter(|packet| packet.departs > at).count();
    let held = if early > 0 { held() } else { 0 };
    if early <= held {
        return Ok(());
    }
    Err(format!("has sent {early} packets that may not leave yet, of which {held} wait: {packets:?}"))
}

/// What of `packets` went down between the two, in the order in which it did. What has been cut since counts as its first part.
pub fn in_order(was: &Bounds, now: &Bounds, packets: impl Iterator<Item = SentPacket>) -> Vec<SentPacket> {
    let place = |packet: &SentPacket| packet.number.wrapping_sub(was.pace.handed);
    let handed = now.pace.handed.wrapping_sub(was.pace.handed);
    let mut all: Vec<_> = packets.filter(|packet| (1..=handed).contains(&place(packet))).collect();
    all.sort_by_key(|packet| (place(packet), packet.at));
    all.dedup_by_key(|packet| packet.number);
    all
}

/// Nanoseconds that so many bytes take at the largest of the rates of before, now and what goes again (0 without one); none where either of the
/// first two spaces nothing.
fn nanos([was, now, again]: [u64; 3], bytes: usize) -> u64 {
    if [was, now].iter().any(|rate| [0, u64::MAX].contains(rate)) {
        return 0;
    }
    let ns = bytes as u128 * 1_000_000_000 / u128::from(was.max(now).max(again));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::sample;
    use lowwater_core::tcp::Pace;

    /// A megabyte a second: a packet of 1,000 bytes takes a millisecond.
    const FLOW: Bounds = Bounds { pace: Pace { by: Status::Fq, ..sample::PACE }, ..sample::FLOW };

    fn id(n: u64) -> SocketId {
        SocketId::from(slotmap::KeyData::from_ffi(n | 1 << 32))
    }

    fn us(us: u64) -> Instant {
        Instant::ZERO.plus_nanos(us * 1_000)
    }

    /// A packet of new data, the `nth` of a turn.
    fn new(nth: u16, departs_us: u64) -> SentPacket {
        let at = FLOW.nxt + 1_000 * u64::from(nth);
        SentPacket {
            at,
            bytes: 1_000,
            segs: 1,
            departs: us(departs_us),
            number: FLOW.pace.handed.wrapping_add(nth),
        }
    }

    /// One that has been sent before.
    fn again(nth: u16, departs_us: u64) -> SentPacket {
        SentPacket { at: FLOW.una, ..new(nth, departs_us) }
    }

    fn by(by: Status) -> Bounds {
        Bounds { pace: Pace { by, ..FLOW.pace }, ..FLOW }
    }

    /// Such a flow sends these in a turn at `at_us`.
    fn turn(paces: &mut Paces, n: u64, flow: &Bounds, at_us: u64, packets: &[SentPacket]) -> bool {
        let handed = flow.pace.handed.wrapping_add(packets.len() as u16);
        let now = Bounds { pace: Pace { handed, due: false, ..flow.pace }, ..*flow };
        let packets = in_order(flow, &now, packets.iter().copied());
        paces.keeps((id(n), us(at_us)), (flow, &now), &packets).is_ok()
    }

    fn kept(flow: &Bounds, at_us: u64, packets: &[SentPacket]) -> bool {
        turn(&mut Paces::default(), 1, flow, at_us, packets)
    }

    #[test]
    fn each_packet_takes_its_time() {
        let leaves = |second| kept(&FLOW, 9_000, &[new(1, 9_000), new(2, second)]);
        // Half of the first may be made up for: who knows since when the flow could have sent it.
        assert_eq!([9_499, 9_500].map(leaves), [false, true]);
        let third = |third| kept(&FLOW, 9_000, &[new(1, 9_000), new(2, 9_500), new(3, third)]);
        assert_eq!([10_499, 10_500].map(third), [false, true], "no more than once");
        // After a pause it may be made up for again, and what was let pass before that is gone.
        let after = |third| kept(&FLOW, 9_000, &[new(1, 9_000), new(2, 19_500), new(3, third)]);
        assert_eq!([19_999, 20_000].map(after), [false, true]);
        let short = |third| kept(&FLOW, 9_000, &[new(1, 9_000), new(2, 9_800), new(3, third)]);
        assert_eq!([10_499, 10_500].map(short), [false, true], "300 of 500");
        assert!(
            !kept(&FLOW, 9_000, &[again(1, 9_000), new(2, 9_499)]),
            "what is sent again takes its time too"
        );
        let found_late = [new(2, 9_499), new(1, 9_000)];
        assert!(!kept(&FLOW, 9_000, &found_late), "by the order in which they went down");
        let fin = |second| kept(&FLOW, 9_000, &[SentPacket { bytes: 0, ..new(1, 9_000) }, new(2, second)]);
        assert_eq!([8_999, 9_000].map(fin), [false, true], "which they do not leave against");
    }

    #[test]
    fn it_goes_on_from_turn_to_turn_for_each_connection() {
        let mut paces = Paces::default();
        assert!(turn(&mut paces, 1, &FLOW, 9_000, &[new(1, 9_000), new(2, 9_500)]));
        assert!(turn(&mut paces, 2, &FLOW, 9_000, &[new(1, 9_000)]), "another one");
        let mut others = paces.clone();
        others.retain(|flow| flow == id(2));
        assert!(turn(&mut others, 1, &FLOW, 9_100, &[new(1, 9_100)]), "one of the same name, later");
        assert!(!turn(&mut paces.clone(), 1, &FLOW, 9_100, &[new(1, 10_499)]));
        assert!(turn(&mut paces, 1, &FLOW, 9_100, &[new(1, 10_500)]));
        let wraps = Bounds { pace: Pace { handed: u16::MAX - 1, ..FLOW.pace }, ..FLOW };
        let number =
            |nth, departs| SentPacket { number: wraps.pace.handed.wrapping_add(nth), ..new(nth, departs) };
        let leaves = |second| kept(&wraps, 9_000, &[number(1, 9_000), number(2, second)]);
        assert_eq!([9_499, 9_500].map(leaves), [false, true]);
    }

    #[test]
    fn the_rate_may_change_within_a_turn() {
        let now = |rate| Bounds { pace: Pace { rate, handed: 42, ..FLOW.pace }, ..FLOW };
        let leaves = |now: Bounds, second| {
            let packets = [new(1, 9_000), new(2, second)];
            Paces::default().keeps((id(1), us(9_000)), (&FLOW, &now), &packets).is_ok()
        };
        assert_eq!([9_499, 9_500].map(|second| leaves(now(500_000), second)), [false, true]);
        assert_eq!([9_249, 9_250].map(|second| leaves(now(2_000_000), second)), [false, true]);
        assert!(leaves(now(u64::MAX), 9_000) && leaves(now(0), 9_000), "these space nothing");
    }

    #[test]
    fn a_lost_probe_goes_again_at_the_rate_of_before_its_acknowledgement() {
        let flow = Bounds { pace: Pace { again: Some(2_000_000), ..FLOW.pace }, ..FLOW };
        let behind = |first, second| kept(&flow, 9_000, &[first, new(2, second)]);
        assert_eq!([9_249, 9_250].map(|second| behind(again(1, 9_000), second)), [false, true]);
        assert_eq!(
            [9_499, 9_500].map(|second| behind(new(1, 9_000), second)),
            [false, true],
            "nothing else does"
        );
    }

    #[test]
    fn who_is_not_paced_and_the_first_ten_segments_take_no_time() {
        let both = [new(1, 9_000), new(2, 9_000)];
        let of = |sent: u32| Bounds { sent: (sent, 5), ..FLOW };
        assert_eq!(
            [8, 9].map(|sent| kept(&of(sent), 9_000, &both)),
            [true, false],
            "the ninth and the tenth"
        );
        let empty = SentPacket { bytes: 0, ..new(1, 9_000) };
        assert!(kept(&of(8), 9_000, &[empty, new(2, 9_000), new(3, 9_000)]), "a FIN is no data");
        assert!(kept(&by(Status::None), 9_000, &both));
        assert!(!kept(&by(Status::Needed), 9_000, &both));
    }

    #[test]
    fn without_a_queue_that_holds_back_it_leaves_when_it_goes_down() {
        let (needed, fq) = (by(Status::Needed), by(Status::Fq));
        let late = [new(1, 9_000), new(2, 9_500)];
        assert_eq!([kept(&fq, 9_000, &late), kept(&needed, 9_000, &late)], [true, false]);
        // What asks no pace leaves first, and has been sent before.
        let paced = |first: &[SentPacket]| {
            let mut paces = Paces::default();
            assert!(turn(&mut paces, 1, &needed, 9_000, &[new(1, 9_000)]));
            [false, true].map(|due| {
                let flow = Bounds { pace: Pace { due, ..needed.pace }, ..needed };
                turn(&mut paces.clone(), 1, &flow, 9_100, first)
            })
        };
        assert_eq!(paced(&[again(1, 9_500)]), [false, true]);
        assert_eq!(paced(&[again(1, 9_499)]), [false; 2], "with the time that it should have");
        let lost = SentPacket { at: FLOW.una + 1_000, ..again(1, 9_500) };
        assert_eq!(paced(&[lost]), [false; 2], "another one is not a timeout's");
        // One that still waits for its turn has not left, and a tail loss probe is of the end.
        let due = Bounds { pace: Pace { due: true, ..needed.pace }, ..needed };
        let probed = Bounds { tail_probe: core::num::NonZeroU64::new(9_000), ..needed };
        assert!(!had_its_turn(&due, &due, &again(1, 0)) && had_its_turn(&due, &needed, &again(1, 0)));
        assert!(had_its_turn(&due, &probed, &lost) && !had_its_turn(&needed, &needed, &again(1, 0)));
        assert_eq!([paced(&[new(1, 9_500)]), paced(&[again(1, 9_500), again(2, 10_500)])], [[false; 2]; 2]);
    }

    #[test]
    fn what_may_not_leave_yet_waits() {
        let sent = [new(1, 9_000), new(2, 9_500), new(3, 10_000)];
        let wait = |held| waits(us(9_000), &sent, || held).is_ok();
        assert_eq!([1, 2].map(wait), [false, true]);
        assert!(waits(us(10_000), &sent, || 0).is_ok());
    }
}
