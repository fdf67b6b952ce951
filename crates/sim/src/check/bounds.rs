//! Checks that a connection which sends has no more in flight than its congestion window allows (docs/tcp.md, docs/congestion.md), and no
//! more below it than small queues do, nor too large a packet among that (docs/transmit-path.md): by what the stack says of each connection before and after a turn.
//!
//! What a single segment lets go before its turn (`Stack::send_now`) leaves between two turns: it counts among what is in flight and below with the
//! next one of its flow. At its pace and size, and whether it asked its own queue, [`early`](super::early) looks.
use super::aware::{self, Below, Side};
use super::pace::{self, Paces, in_order};
use super::size::Sizes;
use crate::host::Core;
use core::fmt;
use lowwater_core::base::{Duration, Instant, SocketId};
use lowwater_core::path::pacing::Status;
use lowwater_core::tcp::{Bounds, OwnQueue, SentPacket};
use std::collections::{BTreeMap, BTreeSet};

/// The checker's name in reports.
pub const NAME: &str = "bounds";

/// Charge of a packet beside its payload, and of the largest packet.
const PACKET_CHARGE: u64 = 1_280;
const PACKET_MOST: u64 = 66_400;

/// Connections that are looked at in a turn, on average: where there are more the next turns go by, so that a turn costs the same however many
/// there are.
const LOOKS_PER_TURN: u64 = 16;

/// The turns that are looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns {
    /// So many go by first.
    pass: u64,
}

impl Turns {
    /// The next turn is looked at.
    pub const fn is_due(&mut self) -> bool {
        let due = self.pass == 0;
        self.pass = self.pass.saturating_sub(1);
        due
    }

    /// A look has cost as much as so many connections.
    pub const fn spend(&mut self, looks: u64) {
        self.pass = looks / LOOKS_PER_TURN;
    }
}

/// What bounds all connections of a host at one instant.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    flows: BTreeMap<SocketId, Bounds>,
    /// Their own queues, where those are followed.
    queues: BTreeMap<SocketId, OwnQueue>,
    rules: Rules,
    sizes: Sizes,
    /// The queue before its device holds packets back until their departure time.
    holds: bool,
}

/// What small queues go by, beside what the flow says.
#[derive(Clone, Copy, Debug, Default)]
struct Rules {
    /// `tcp_grow_packet` is off: packets are cut as before Linux 6.10, when a last segment with the FIN asked no congestion window
    /// (`tcp_cwnd_test`).
    fin_passes: bool,
    /// `tcp_limit_output_bytes`, and whether it holds for paced flows too.
    cap: u64,
    all: bool,
    /// `tcp_queue_aware`: they reckon with packets of Linux's size, and with what completions are late by.
    aware: Option<Duration>,
    /// A queue cuts packets, each part of which is charged as a packet.
    cuts: bool,
    /// The account of a flow's own queue is what the host knows to be below: not above a device that keeps nothing, which is no queue.
    balances: bool,
    /// The path's MTU is probed for.
    probes: bool,
}

impl Standing {
    /// As a host's stack stands at `at`; `cuts` says that the queue before its device cuts packets (`tbf`).
    #[must_use]
    pub fn of(core: &Core, at: Instant, cuts: bool) -> Self {
        let (stack, sysctl) = (core.stack(), core.stack().sysctl());
        let flows: BTreeMap<_, _> = stack.bounds().collect();
        let follows = sysctl.tcp_queue_aware;
        let queue = |id: &SocketId| stack.own_queue(at, *id).map(|queue| (*id, queue));
        Self {
            queues: flows.keys().filter(|_| follows).filter_map(queue).collect(),
            flows,
            sizes: Sizes::of(sysctl),
            holds: core.holds_back(),
            rules: Rules {
                fin_passes: !sysctl.tcp_grow_packet,
                cap: sysctl.tcp_limit_output_bytes.into(),
                all: sysctl.tcp_limit_output_all,
                aware: sysctl.tcp_queue_aware.then(|| core.lateness()),
                cuts,
                balances: core.keeps(),
                probes: sysctl.tcp_mtu_probing != 0,
            },
        }
    }

    /// Connections that there are.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.flows.len() as u64
    }

    /// What has been sent since `before`, in one turn at `at`, keeps to the bounds and to the `paces`. `below` says what is
    /// below a flow now, and `sent` what has left of it from an offset in its stream on.
    ///
    /// It answers how many packets it has walked over to see that.
    ///
    /// # Errors
    /// The first flow that has too much out, or in too large a packet.
    pub fn after<I: Iterator<Item = SentPacket>>(
        &self,
        before: &Self,
        at: Instant,
        paces: &mut Paces,
        below: impl Fn(SocketId) -> Below,
        sent: impl Fn(SocketId, u64) -> I,
    ) -> Result<u64, String> {
        let mut walked = 0;
        paces.retain(|id| self.flows.contains_key(&id));
        for (id, now) in &self.flows {
            let Some(was) = before.flows.get(id) else { continue };
            let named = |what| format!("{id:?} {what}");
            self.rules.in_flight(was, now).map_err(named)?;
            // A record of one segment keeps its beginning when that is acknowledged.
            let from = if was.sent.1 == now.sent.1 { was.nxt } else { 0 };
            let handed = (was.pace.handed != now.pace.handed).then(|| sent(*id, from));
            let packets = in_order(was, now, handed.into_iter().flatten().inspect(|_| walked += 1));
            for packet in packets.iter().filter(|packet| packet.at >= was.nxt) {
                self.sizes.keeps(was, now, *packet).map_err(named)?;
            }
            paces.keeps((*id, at), (was, now), &packets).map_err(named)?;
            if self.holds {
                pace::waits(at, &packets, || below(*id).held()).map_err(named)?;
            }
            let (before, after) = (before.followed(id, was), self.followed(id, now));
            aware::keeps(before, after, &packets).map_err(named)?;
            // With each eighth packet: it is a walk over all that waits, and an account that is wrong once stays so while the queue lasts.
            let eighth = was.pace.handed / 8 != now.pace.handed / 8;
            if eighth && after.queue.is_some() && self.rules.balances {
                aware::balances(after, &below(*id), self.rules.probes).map_err(named)?;
            }
            // Which packet is the largest is known by a walk over all that wait: it is asked where that matters.
            if self.rules.below(was, now, 0, Asked::default()).is_err()
                && !found_one(was, now, packets.last(), sent(*id, 0))
            {
                let behind = packets.last().and_then(|last| sent(*id, last.at + last.bytes as u64).next());
                let asked = Asked::of(was, now, &packets, behind);
                let largest = below(*id).largest();
                self.rules
                    .below(was, now, largest, asked)
                    .map_err(|over| named(format!("{over}: {was:?}, {now:?}")))?;
            }
        }
        Ok(walked)
    }

    fn followed<'a>(&self, id: &SocketId, flow: &'a Bounds) -> Side<'a> {
        let late = self.rules.aware.unwrap_or_default();
        Side { flow, queue: self.queues.get(id).copied(), late }
    }
}

impl Rules {
    /// What left has had room in the window, or is a tail loss probe, which may be one segment beyond it (RFC 8985 section 7.3). A window that
    /// falls on the way, as after a packet that the queue below has refused, counts as it was. Two lost segments that go again as one are one
    /// segment less that a duplicate acknowledgement without SACK may have stood for (`tcp_adjust_pcount`).
    fn in_flight(&self, was: &Bounds, now: &Bounds) -> Result<(), String> {
        let cwnd = was.cwnd.max(now.cwnd);
        let merged = if was.sent.1 == now.sent.1 { 0 } else { was.duplicates.saturating_sub(now.duplicates) };
        let fin = now.fin && !was.fin;
        let probed = now.tail_probe.is_some() && now.tail_probe != was.tail_probe;
        let one_again = was.nxt == now.nxt
            && (now.sent.0.wrapping_sub(was.sent.0), now.sent.1.wrapping_sub(was.sent.1)) == (1, 1);
        if probed && one_again {
            // The packet of which it is the end is counted anew, by the MSS of now (`tcp_fragment`).
            return Ok(());
        }
        let passes = u32::from(probed) + u32::from(fin && self.fin_passes);
        let most = merged + passes + if passes > 0 { cwnd.max(was.in_flight) } else { cwnd };
        if (was.sent == now.sent && !fin) || now.in_flight <= most {
            return Ok(());
        }
        Err(format!("has {} segments in flight, and its window is {cwnd}: {was:?}, {now:?}", now.in_flight))
    }

    /// Bytes of charge that may be below when a packet of `charge` is let down.
    fn limit(&self, flow: &Bounds, charge: u64) -> u64 {
        let late = self.aware.map_or(0, |late| u128::from(flow.pace.rate) * late.as_nanos() / 1_000_000);
        let rate = flow.pace.rate.saturating_add(u64::try_from(late).unwrap_or(u64::MAX)) >> 10;
        let charge = if self.aware.is_some() { charge.max(PACKET_MOST) } else { charge };
        let cap = if flow.pace.by != Status::None && !self.all { u64::MAX } else { self.cap };
        rate.max(2 * charge).min(cap)
    }

    /// Where more is below than before, the last packet that was let down found less than the limit. What is sent again has twice the room, by all of
    /// the record that it is cut from. One packet asks nobody: what a timeout or a tail loss probe sends again, and the probe of the path's MTU with
    /// which a turn may begin. Nor does one that finds the retransmit queue with one element at the most, whose completion may be late.
    fn below(&self, was: &Bounds, now: &Bounds, largest: u64, last: Asked) -> Result<(), Over> {
        let below = u64::from(now.below);
        let parts = u64::from(now.sent.0.wrapping_sub(was.sent.0));
        let charge = if self.cuts { PACKET_MOST + parts * PACKET_CHARGE } else { largest };
        let record = charge.max(last.record);
        let limit = self.limit(was, record).max(self.limit(now, record));
        let (resent, probes) = (was.sent.1 != now.sent.1, now.probes_mtu && !was.probes_mtu);
        let limit = if last.again { limit.saturating_mul(2) } else { limit };
        let free = charge * (u64::from(resent && was.pace.due) + u64::from(probes));
        // The limit may have fallen under what is below already.
        let asked = limit.saturating_add(charge).max(if probes { u64::from(was.below) + 1 } else { 0 });
        if now.below <= was.below || below < asked.saturating_add(free) {
            return Ok(());
        }
        Err(Over { below, limit, charge })
    }
}

/// What small queues were asked for the last packet that went down in a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Asked {
    /// It had been sent before.
    again: bool,
    /// Then the charge of its record, before it was cut from that.
    record: u64,
}

impl Asked {
    /// What the last of `packets` was asked for, which were handed down in their order between `was` and `now`; right `behind` it is what it was cut
    /// from, if it was cut. Then there are more records by one that nothing new makes up for, but that small ones may have become one. That was
    /// not the last itself, which is asked for and cut before it takes in what follows (`__tcp_retransmit_skb`).
    fn of(was: &Bounds, now: &Bounds, packets: &[SentPacket], behind: Option<SentPacket>) -> Self {
        let Some(last) = packets.last() else { return Self { again: was.sent.1 != now.sent.1, record: 0 } };
        if last.at >= was.nxt {
            return Self::default();
        }
        let new = packets.iter().filter(|packet| packet.at >= was.nxt).count();
        let joined = packets.iter().rev().skip(1).any(|packet| packet.at < was.nxt && packet.segs == 1);
        let cut = joined || now.records > was.records + new;
        let rest = behind.filter(|rest| cut && rest.at < was.nxt).map_or(0, |rest| rest.bytes);
        Self { again: true, record: (last.bytes + rest) as u64 + PACKET_CHARGE }
    }
}

/// More is below than may be. It becomes words where it is told, since it is asked for with each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Over {
    below: u64,
    limit: u64,
    charge: u64,
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { below, limit, charge } = self;
        write!(f, "has {below} bytes below, the limit is {limit}, and a packet {charge}")
    }
}

/// The last packet of those that went down found one element at the most in the retransmit queue, which has these `records` now: one that had never
/// been sent is itself among these, one that was sent again was cut off before it asked. What has been cut since counts once, by its number. What
/// was cut before counts as the stack counts it: records become fewer in a turn only where some are sent again as one.
fn found_one(
    was: &Bounds,
    now: &Bounds,
    last: Option<&SentPacket>,
    mut records: impl Iterator<Item = SentPacket>,
) -> bool {
    let Some(last) = last else { return false };
    let most = 1 + usize::from(last.at >= was.nxt);
    let mut numbers = BTreeSet::new();
    (was.records <= 1 || was.sent.1 != now.sent.1)
        && records.all(|record| {
            numbers.insert(record.number);
            numbers.len() <= most
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::sample;
    use core::num::NonZeroU64;
    use lowwater_core::tcp::Pace;

    const STILL: Bounds = Bounds {
        duplicates: 2,
        cwnd: 10,
        pace: Pace { rate: 0, gso: (65_536, 64), handed: 0, ..sample::PACE },
        ..sample::FLOW
    };
    const RULES: Rules = Rules {
        fin_passes: false,
        cap: 1 << 20,
        all: false,
        aware: None,
        cuts: false,
        balances: true,
        probes: false,
    };

    #[test]
    fn a_look_is_paid_for_by_turns_that_go_by() {
        let mut turns = Turns::default();
        assert!(turns.is_due() && turns.is_due());
        turns.spend(LOOKS_PER_TURN - 1);
        assert!(turns.is_due());
        turns.spend(3 * LOOKS_PER_TURN);
        assert_eq!([(); 5].map(|()| turns.is_due()), [false, false, false, true, true]);
    }

    #[test]
    fn what_excuses_one_connection_excuses_no_other() {
        let ids = [1, 2].map(|n| SocketId::from(slotmap::KeyData::from_ffi(n | 1 << 32)));
        let standing = |flows: [Bounds; 2]| Standing {
            flows: ids.into_iter().zip(flows).collect(),
            rules: RULES,
            ..Standing::default()
        };
        // Each has as many packets in the retransmit queue, of which the last has left just now.
        let kept = |flows: [Bounds; 2], records: [u64; 2]| {
            let found = Bounds { records: 1, ..STILL };
            let (before, records) = (standing([found; 2]), ids.into_iter().zip(records));
            let records: BTreeMap<_, _> = records.collect();
            let sent = |id, _| {
                (0..records[&id]).rev().map(|n| SentPacket {
                    at: STILL.nxt - 1_000 * n,
                    bytes: 1_000,
                    segs: 1,
                    departs: Instant::ZERO,
                    number: 1_u16.wrapping_sub(n as u16),
                })
            };
            let paces = &mut Paces::default();
            let below = |_| {
                let mut below = Below::default();
                below.add(760, (2_000, 2_000));
                below
            };
            standing(flows).after(&before, Instant::ZERO, paces, below, sent)
        };
        let beyond = Bounds { in_flight: 11, sent: (101, 5), ..STILL };
        let probe = Bounds { tail_probe: NonZeroU64::new(9_000), ..beyond };
        assert_eq!(kept([probe, STILL], [3; 2]), Ok(0));
        assert!(kept([probe, beyond], [3; 2]).is_err_and(|what| what.starts_with(&format!("{:?}", ids[1]))));
        let full = Bounds {
            below: 90_000,
            sent: (101, 5),
            pace: Pace { handed: 1, ..STILL.pace },
            nxt: 101_000,
            ..STILL
        };
        assert_eq!(kept([full, STILL], [2, 3]), Ok(2), "which have been walked over");
        assert_eq!(kept([full; 2], [2; 2]), Ok(4));
        assert!(kept([full; 2], [2, 3]).is_err_and(|what| what.starts_with(&format!("{:?}", ids[1]))));
    }

    #[test]
    fn what_leaves_has_had_room_in_the_window() {
        let sent = |in_flight, cwnd| Bounds { in_flight, cwnd, sent: (101, 5), ..STILL };
        assert_eq!(RULES.in_flight(&STILL, &sent(10, 10)), Ok(()));
        assert!(RULES.in_flight(&STILL, &sent(11, 10)).is_err());
        // A window that has fallen under what is out.
        let over = Bounds { cwnd: 4, ..STILL };
        assert_eq!(RULES.in_flight(&over, &over), Ok(()));
        assert!(RULES.in_flight(&over, &sent(10, 4)).is_err());
        assert!(RULES.in_flight(&over, &sent(9, 4)).is_err(), "room came and went in vain");
        // One that falls with a packet that was refused.
        assert_eq!(RULES.in_flight(&STILL, &sent(10, 5)), Ok(()));
        // Sent again is sent.
        let again = Bounds { in_flight: 11, sent: (101, 6), ..STILL };
        assert!(RULES.in_flight(&STILL, &again).is_err());
        let merged = |in_flight| Bounds { in_flight, duplicates: 1, sent: (101, 6), ..STILL };
        assert_eq!(RULES.in_flight(&STILL, &merged(11)), Ok(()));
        assert!(RULES.in_flight(&STILL, &merged(12)).is_err());
        let fresh = Bounds { sent: (101, 5), ..merged(11) };
        assert!(RULES.in_flight(&STILL, &fresh).is_err(), "nothing went again");
        // A tail loss probe is one segment beyond.
        let probed = |in_flight, cwnd| Bounds { tail_probe: NonZeroU64::new(9_000), ..sent(in_flight, cwnd) };
        assert_eq!(RULES.in_flight(&STILL, &probed(11, 10)), Ok(()));
        assert!(RULES.in_flight(&STILL, &probed(12, 10)).is_err());
        assert_eq!(RULES.in_flight(&over, &probed(10, 4)), Ok(()));
        // What it is the end of has more segments by a smaller MSS; nothing but that and one segment, again, is excused.
        let again = Bounds { sent: (101, 6), ..probed(16, 10) };
        assert_eq!(RULES.in_flight(&STILL, &again), Ok(()));
        assert!(RULES.in_flight(&STILL, &Bounds { sent: (102, 6), ..again }).is_err());
        assert!(RULES.in_flight(&STILL, &Bounds { sent: (101, 5), ..again }).is_err());
        assert!(RULES.in_flight(&STILL, &Bounds { nxt: STILL.nxt + 1, ..again }).is_err());
        let next = Bounds { sent: (102, 5), ..probed(11, 10) };
        assert!(RULES.in_flight(&probed(10, 10), &next).is_err(), "the probe was out before");
        // So was a last segment with the FIN before Linux 6.10.
        let old = Rules { fin_passes: true, ..RULES };
        let last = |in_flight| Bounds { fin: true, ..sent(in_flight, 10) };
        assert_eq!([10, 11, 12].map(|n| old.in_flight(&STILL, &last(n)).is_ok()), [true, true, false]);
        assert!(RULES.in_flight(&STILL, &last(11)).is_err());
        assert!(old.in_flight(&STILL, &sent(11, 10)).is_err(), "no FIN");
        let next = Bounds { sent: (102, 5), ..last(11) };
        assert!(old.in_flight(&last(10), &next).is_err(), "it has left before");
        // A FIN by itself is a segment too.
        let alone = Bounds { in_flight: 11, fin: true, ..STILL };
        assert_eq!([&RULES, &old].map(|rules| rules.in_flight(&STILL, &alone).is_ok()), [false, true]);
    }

    #[test]
    fn who_finds_one_in_the_queue_asks_nobody() {
        let record = |at, number| SentPacket { at, bytes: 1_000, segs: 1, departs: Instant::ZERO, number };
        let (first, second, third) = (record(90_000, 1), record(91_000, 2), record(92_000, 3));
        let one = Bounds { records: 1, ..STILL };
        let found =
            |last: SentPacket, all: &[SentPacket]| found_one(&one, &one, Some(&last), all.iter().copied());
        // New data is there itself.
        let new = |number| record(STILL.nxt, number);
        assert!(found(new(2), &[first, new(2)]) && found(new(1), &[new(1)]));
        assert!(!found(new(3), &[first, second, new(3)]));
        // What is sent again found itself.
        assert!(found(first, &[first]));
        assert!(!found(first, &[first, second]) && !found(third, &[first, second, third]));
        // One that was cut after it had gone down is one, before that it is two.
        let cut = [first, record(90_500, 1), new(2)];
        assert!(found(new(2), &cut));
        let again = Bounds { sent: (100, 6), ..STILL };
        let before = |now| found_one(&STILL, now, Some(&new(2)), cut.into_iter());
        assert_eq!([before(&STILL), before(&again)], [false, true], "three of them, or some became one");
        assert!(found(first, &[first, record(90_500, 1)]));
        assert!(!found(second, &[second, record(91_500, 1)]));
        assert!(!found_one(&one, &one, None, core::iter::once(first)), "nothing went down");
    }

    #[test]
    fn what_goes_again_asks_by_all_that_it_is_cut_from() {
        let record = |at, segs: u16, number| SentPacket {
            at,
            bytes: 1_000 * usize::from(segs),
            segs,
            departs: Instant::ZERO,
            number,
        };
        let again = |records| Bounds { sent: (100, 6), records, ..STILL };
        let (two, rest) = (record(90_000, 2, 41), record(92_000, 3, 7));
        let asked = |now: Bounds, packets: &[SentPacket], behind| {
            let asked = Asked::of(&STILL, &now, packets, behind);
            (asked.again, asked.record)
        };
        assert_eq!(asked(again(4), &[two], Some(rest)), (true, 5_000 + PACKET_CHARGE));
        assert_eq!(asked(again(3), &[two], Some(rest)), (true, 2_000 + PACKET_CHARGE), "nothing was cut");
        let new = record(STILL.nxt, 1, 42);
        assert_eq!(asked(again(4), &[new, two], Some(rest)).1, 2_000 + PACKET_CHARGE, "the fourth is new");
        // Small ones that became one may hide that another was cut.
        let one = record(89_000, 1, 40);
        assert_eq!(asked(again(3), &[one, two], Some(rest)).1, 5_000 + PACKET_CHARGE);
        let behind = record(90_000, 1, 7);
        assert_eq!(asked(again(3), &[one], Some(behind)).1, 1_000 + PACKET_CHARGE, "nor was one segment");
        assert_eq!(asked(again(4), &[one], Some(behind)).1, 2_000 + PACKET_CHARGE, "it was cut from two");
        assert_eq!(asked(again(4), &[two], Some(new)).1, 2_000 + PACKET_CHARGE, "it was never sent");
        assert_eq!(asked(again(4), &[two, new], None), (false, 0), "new data is the last");
        assert_eq!([asked(again(3), &[], None), asked(STILL, &[], None)], [(true, 0), (false, 0)]);
    }

    #[test]
    fn what_is_below_exceeds_the_limit_by_less_than_a_packet() {
        let now = |below| Bounds { below, sent: (101, 5), ..STILL };
        let asked = |was: &Bounds, now: &Bounds| Asked { again: now.sent.1 != was.sent.1, record: 2_000 };
        let below = |rules: &Rules, was: &Bounds, now: &Bounds| rules.below(was, now, 2_000, asked(was, now));
        let is = |rules: &Rules, now: &Bounds| below(rules, &STILL, now).is_ok();
        assert_eq!(
            (is(&RULES, &now(5_999)), is(&RULES, &now(6_000))),
            (true, false),
            "two packets and a third"
        );
        let capped = Rules { cap: 3_500, ..RULES };
        assert_eq!((is(&capped, &now(5_499)), is(&capped, &now(5_500))), (true, false));
        let fast = |below, paced| {
            let by = if paced { Status::Needed } else { Status::None };
            Bounds { pace: Pace { rate: 10 << 20, by, ..STILL.pace }, ..now(below) }
        };
        assert_eq!((is(&RULES, &fast(12_239, false)), is(&RULES, &fast(12_240, false))), (true, false));
        assert_eq!((is(&capped, &fast(12_239, true)), is(&capped, &fast(12_240, true))), (true, false));
        assert!(!is(&Rules { all: true, ..capped }, &fast(5_500, true)));
        let again = |below| Bounds { sent: (101, 6), ..now(below) };
        assert_eq!((is(&RULES, &again(9_999)), is(&RULES, &again(10_000))), (true, false));
        let due = Bounds { pace: Pace { due: true, ..STILL.pace }, ..STILL };
        let asks_nobody = [11_999, 12_000].map(|n| below(&RULES, &due, &again(n)).is_ok());
        assert_eq!(asks_nobody, [true, false]);
        assert!(below(&RULES, &due, &now(6_000)).is_err(), "nothing went again");
        // By all of what it was cut from; what is new behind it goes by its own size.
        let cut = Asked { again: true, record: 9_000 };
        let of = |asked, n| RULES.below(&STILL, &again(n), 2_000, asked).is_ok();
        assert_eq!([37_999, 38_000].map(|n| of(cut, n)), [true, false]);
        assert_eq!([5_999, 6_000].map(|n| of(Asked::default(), n)), [true, false]);
        let probe = |below| Bounds { probes_mtu: true, ..now(below) };
        assert_eq!((is(&RULES, &probe(7_999)), is(&RULES, &probe(8_000))), (true, false));
        let old = Bounds { below: 90_000, ..STILL };
        let most = [now(90_001), again(90_001), probe(92_000), probe(92_001)];
        let fits = most.map(|now| below(&RULES, &old, &now).is_ok());
        assert_eq!(fits, [false, false, true, false], "such a probe asks nobody, whatever is below");
        assert_eq!(below(&RULES, &old, &now(90_000)), Ok(()), "nothing was let down");
        let aware = Rules { aware: Some(Duration::from_millis(1)), ..RULES };
        assert!(is(&aware, &now(134_799)) && !is(&aware, &now(134_800)));
        let cuts = Rules { cuts: true, ..RULES };
        let three = |below| Bounds { sent: (103, 5), ..now(below) };
        assert_eq!((is(&cuts, &three(210_719)), is(&cuts, &three(210_720))), (true, false));
    }
}
