//! Checks that a paced path of an association sends no faster than its rate (docs/sctp.md): by each packet with data that goes down to it.
//!
//! The rule is that of [`pace`](super::pace), reckoned anew, but that packets leave in trains: behind one that has asked the pace go, in the same
//! turn, those for which there is room in what the path sends in a millisecond. Nobody has to guess what was not looked at, since each packet is.
use lowwater_core::base::{Instant, SocketId};
use lowwater_core::path::pacing::Status;
use lowwater_core::stack::{AssocTurn, DataPacket};
use std::collections::BTreeMap;

/// The checker's name in reports.
pub const NAME: &str = "pace";

/// Packets with data that a path may begin with, whatever its rate (`TCP_INIT_CWND`).
const UNPACED: u32 = 10;
/// What a packet of a train counts beside its chunks.
const PACKET_CHARGE: u64 = 256;

/// What the packets of a path so far allow.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// The next packet that asks may leave then, at the earliest.
    earliest: Instant,
    /// What may still go in this turn behind one that has asked.
    train: u64,
    /// Packets with data.
    packets: u32,
}

/// What is known of an association.
#[derive(Clone, Debug, Default)]
struct OfAssoc {
    /// The highest TSN that it has sent.
    highest: Option<u32>,
    /// In this turn a packet of what goes again need not ask (RFC 9260 section 7.2.4, rule 3).
    fast: bool,
    /// Its paths, by their number.
    paths: BTreeMap<u8, Pace>,
}

/// The paths of all associations of a host.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    all: BTreeMap<SocketId, OfAssoc>,
}

impl Paths {
    /// Nothing is known of an association yet.
    #[must_use]
    pub fn is_new(&self, socket: SocketId) -> bool {
        !self.all.contains_key(&socket)
    }

    /// Forgets the associations that are gone.
    pub fn retain(&mut self, is_there: impl Fn(SocketId) -> bool) {
        self.all.retain(|id, _| is_there(*id));
    }

    /// An association's turn begins.
    pub fn turn(&mut self, turn: &AssocTurn) {
        let assoc = self.all.entry(turn.socket).or_default();
        assoc.fast = turn.fast;
        for pace in assoc.paths.values_mut() {
            pace.train = 0;
        }
    }

    /// A packet has gone down.
    ///
    /// # Errors
    /// It does so too early.
    pub fn keeps(&mut self, packet: &DataPacket) -> Result<(), String> {
        let at = packet.at;
        let assoc = self.all.entry(packet.socket).or_default();
        let again = assoc.highest.is_some_and(|highest| !is_later(packet.tsn, highest));
        if !again {
            assoc.highest = Some(packet.tsn);
        }
        // What is new leaves the permission to what is not.
        let excused = assoc.fast && again;
        assoc.fast &= !again;
        let start = Pace { earliest: Instant::ZERO, train: 0, packets: 0 };
        let pace = assoc.paths.entry(packet.path).or_insert(start);
        // What goes together may leave when the first of it may.
        let leaves = if packet.leads { packet.departs } else { Instant::FAR_FUTURE };
        let waits = packet.by == Status::Needed && pace.train == 0 && !excused;
        if leaves < pace.earliest || (waits && at < pace.earliest) {
            return Err(format!("has sent {packet:?}, which may leave at {}", pace.earliest));
        }
        let whole = u64::from(u32::try_from(packet.rate / 1_024).unwrap_or(u32::MAX));
        let left = if pace.train == 0 { whole } else { pace.train };
        pace.train = left.saturating_sub(u64::from(packet.bytes) + PACKET_CHARGE);
        pace.packets = pace.packets.saturating_add(1);
        let paced = packet.by != Status::None && pace.packets >= UNPACED;
        let takes = if paced { nanos(packet.rate, packet.bytes) } else { 0 };
        pace.earliest = pace.earliest.plus_nanos(takes).max(at.plus_nanos(takes / 2));
        Ok(())
    }
}

/// `tsn` is later than `other` (RFC 9260 section 1.6).
const fn is_later(tsn: u32, other: u32) -> bool {
    tsn.wrapping_sub(other) as i32 > 0
}

/// Nanoseconds that so many bytes take; none where the rate spaces nothing.
fn nanos(rate: u64, bytes: u32) -> u64 {
    if [0, u64::MAX].contains(&rate) {
        return 0;
    }
    u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Instant {
        Instant::ZERO.plus_nanos(us * 1_000)
    }

    /// A megabyte a second, of which 976 bytes go as one: a packet of 1,000 bytes takes a millisecond, and is alone.
    fn packet(tsn: u32) -> DataPacket {
        DataPacket {
            socket: SocketId::from(slotmap::KeyData::from_ffi(1 | 1 << 32)),
            at: Instant::ZERO,
            path: 0,
            bytes: 1_000,
            tsn,
            departs: Instant::FAR_FUTURE,
            leads: true,
            rate: 1_000_000,
            by: Status::Needed,
        }
    }

    impl Paths {
        /// The packet goes down at `at`.
        fn goes(&mut self, at: Instant, packet: &DataPacket) -> Result<(), String> {
            self.keeps(&DataPacket { at, ..*packet })
        }
    }

    /// A path that has sent as many as leave unpaced, the last of them at 9 ms, and begins another turn.
    fn begun(fast: bool) -> Paths {
        let mut paths = Paths::default();
        for tsn in 1..=UNPACED {
            paths.turn(&turn(false));
            let at = us(if tsn < UNPACED { 0 } else { 9_000 });
            assert!(paths.goes(at, &packet(tsn)).is_ok(), "packet {tsn} is not paced");
        }
        paths.turn(&turn(fast));
        paths
    }

    fn turn(fast: bool) -> AssocTurn {
        AssocTurn { socket: packet(0).socket, fast }
    }

    #[test]
    fn each_packet_takes_its_time() {
        let next = |at| begun(false).goes(us(at), &packet(11)).is_ok();
        assert_eq!([9_499, 9_500].map(next), [false, true], "half of the tenth may be made up for");
        let third = |at| {
            let mut paths = begun(false);
            assert!(paths.goes(us(9_500), &packet(11)).is_ok());
            paths.goes(us(at), &packet(12)).is_ok()
        };
        assert_eq!([10_499, 10_500].map(third), [false, true], "no more than once");
        let other = DataPacket { path: 1, ..packet(11) };
        assert!(begun(false).goes(us(9_000), &other).is_ok(), "each path has its own");
        let unpaced = DataPacket { by: Status::None, ..packet(11) };
        assert!(begun(false).goes(us(9_000), &unpaced).is_ok());
    }

    #[test]
    fn what_a_millisecond_takes_goes_behind_one_that_has_asked() {
        // 10,000 bytes in a millisecond: eight packets with what each counts for beside its chunks.
        let fast = |tsn| DataPacket { rate: 10_240_000, ..packet(tsn) };
        let go = |paths: &mut Paths, at, n: u32| {
            (0..n).filter(|k| paths.goes(us(at), &fast(11 + k)).is_ok()).count()
        };
        assert_eq!(go(&mut begun(false), 9_000, 8), 0, "the first asks");
        assert_eq!(go(&mut begun(false), 9_500, 9), 8);
        let mut next = begun(false);
        assert_eq!(go(&mut next, 9_500, 3), 3);
        next.turn(&turn(false));
        assert!(next.goes(us(9_500), &fast(14)).is_err(), "another turn asks anew");
    }

    #[test]
    fn one_packet_of_what_goes_again_may_not_ask() {
        let first = |fast, tsn| begun(fast).goes(us(9_100), &packet(tsn)).is_ok();
        assert_eq!([first(true, 3), first(false, 3), first(true, 11)], [true, false, false]);
        let mut paths = begun(true);
        assert!(paths.goes(us(9_100), &packet(3)).is_ok() && paths.goes(us(9_100), &packet(4)).is_err());
        let mut wraps = Paths::default();
        for tsn in [u32::MAX, 0] {
            assert!(wraps.goes(us(0), &packet(tsn)).is_ok());
        }
        assert_eq!(wraps.all.values().next().and_then(|assoc| assoc.highest), Some(0));
    }

    #[test]
    fn an_association_that_is_gone_is_forgotten() {
        let (mut paths, id) = (begun(false), packet(0).socket);
        paths.retain(|there| there == id);
        assert!(!paths.is_new(id) && paths.goes(us(9_100), &packet(11)).is_err());
        paths.retain(|_| false);
        assert!(paths.is_new(id) && paths.all.is_empty());
    }

    #[test]
    fn what_goes_down_leaves_no_sooner_than_it_may() {
        let leaves = |departs, leads| {
            let packet = DataPacket { departs: us(departs), leads, by: Status::Fq, ..packet(11) };
            begun(false).goes(us(9_000), &packet).is_ok()
        };
        assert_eq!([leaves(9_499, true), leaves(9_500, true), leaves(0, false)], [false, true, true]);
    }
}
