//! Fragments on their way to the shard of their flow. Only the first one of a packet has ports, so all of a packet come to one shard, by addresses and
//! identification, which learns from the first where they belong and hands them over; those that came before it wait. The stack there puts them together.
use lowwater_core::base::{Duration, Instant};
use lowwater_core::device::{Fragment, FragmentName, QueueLimit, ShardId};
use lowwater_core::packet::Packet;
use std::collections::{BTreeMap, BTreeSet};

/// Packets of which the shard is known, at a time; the oldest is forgotten first. Far fewer than identifications (RFC 791), so that one that comes
/// again in its turn meets nothing.
const HOMES_MAX: usize = 1_024;
/// Packets whose first fragment is to come, at a time; the oldest is forgotten first.
const WAITING_MAX: usize = 256;
/// Fragments of one of them, and their bytes: more than an honest packet has (65,535 bytes by a way of 576, RFC 791), and half of what may wait at all.
const OF_ONE: QueueLimit = QueueLimit { packets: 128, bytes: 128 << 10 };
/// How long a packet may be on its way (`ipfrag_time`).
const KEPT: Duration = Duration::from_secs(30);

/// What is known of packets, by age.
#[derive(Debug)]
struct Table<T> {
    of: BTreeMap<FragmentName, (Instant, T)>,
    oldest: BTreeSet<(Instant, FragmentName)>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { of: BTreeMap::new(), oldest: BTreeSet::new() }
    }
}

impl<T> Table<T> {
    fn insert(&mut self, name: FragmentName, since: Instant, what: T) {
        self.remove(name);
        self.of.insert(name, (since, what));
        self.oldest.insert((since, name));
    }

    fn remove(&mut self, name: FragmentName) -> Option<T> {
        let (since, what) = self.of.remove(&name)?;
        self.oldest.remove(&(since, name));
        Some(what)
    }

    /// The oldest, where it came before that.
    fn outdated(&self, at: Instant) -> Option<FragmentName> {
        self.oldest.first().filter(|(since, _)| at >= *since + KEPT).map(|(_, name)| *name)
    }

    /// The oldest but for this one.
    fn oldest_but(&self, name: FragmentName) -> Option<FragmentName> {
        self.oldest.iter().map(|(_, other)| *other).find(|other| *other != name)
    }
}

/// Packets whose fragments meet at one shard.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    /// Where those belong whose first fragment has come. They stay when all has come, since what is repeated on the way goes there, too.
    homes: Table<ShardId>,
    /// What came before its first fragment.
    waiting: Table<Vec<Packet>>,
    /// How many fragments wait, and their bytes: bounded as a mailbox is.
    held: (usize, usize),
    /// Fragments that waited in vain, or found no room to wait.
    pub(super) dropped: u64,
}

fn held(packets: &[Packet]) -> (usize, usize) {
    (packets.len(), packets.iter().map(Packet::len).sum())
}

impl Fragments {
    /// A fragment has come here. Appends those that can go on, each with the shard that puts them together.
    pub(super) fn take(
        &mut self,
        at: Instant,
        (fragment, packet): (Fragment, Packet),
        into: &mut Vec<(ShardId, Packet)>,
    ) {
        self.expire(at);
        let name = fragment.named;
        if let Some(home) = fragment.flow {
            // Of another flow than the last packet of this name may have been.
            self.homes.insert(name, at, home);
            if self.homes.of.len() > HOMES_MAX
                && let Some(oldest) = self.homes.oldest_but(name)
            {
                self.homes.remove(oldest);
            }
        }
        let Some(home) = self.homes.of.get(&name).map(|(_, home)| *home) else {
            return self.wait(at, name, packet);
        };
        into.extend(self.release(name).into_iter().chain([packet]).map(|packet| (home, packet)));
    }

    /// Forgets what has been on its way for too long.
    pub(super) fn expire(&mut self, at: Instant) {
        while let Some(name) = self.homes.outdated(at) {
            self.homes.remove(name);
        }
        while let Some(name) = self.waiting.outdated(at) {
            self.forget(name);
        }
    }

    /// Makes room at the cost of the oldest: who fills it with what is never complete is forgotten in turn.
    fn wait(&mut self, at: Instant, name: FragmentName, packet: Packet) {
        let of_this = self.waiting.of.get(&name).map_or((0, 0), |(_, packets)| held(packets));
        if !OF_ONE.admits(of_this.0, of_this.1) {
            self.dropped += 1;
            return;
        }
        while !QueueLimit::default().admits(self.held.0, self.held.1)
            || (self.waiting.of.len() >= WAITING_MAX && of_this.0 == 0)
        {
            let Some(oldest) = self.waiting.oldest_but(name) else { break };
            self.forget(oldest);
        }
        self.held = (self.held.0 + 1, self.held.1 + packet.len());
        match self.waiting.of.get_mut(&name) {
            Some((_, packets)) => packets.push(packet),
            None => self.waiting.insert(name, at, vec![packet]),
        }
    }

    fn release(&mut self, name: FragmentName) -> Vec<Packet> {
        let packets = self.waiting.remove(name).unwrap_or_default();
        let (count, bytes) = held(&packets);
        self.held = (self.held.0 - count, self.held.1 - bytes);
        packets
    }

    fn forget(&mut self, name: FragmentName) {
        self.dropped += self.release(name).len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use lowwater_core::packet::Offload;

    fn part(ident: u32, flow: Option<u16>, mark: u8) -> (Fragment, Packet) {
        let named = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, ident);
        let packet = Packet::received(Bytes::from(vec![mark; 1_000]), Offload::default(), Instant::ZERO);
        (Fragment { named, flow: flow.map(ShardId) }, packet)
    }

    fn take(all: &mut Fragments, at: u64, part: (Fragment, Packet)) -> Vec<(u16, u8)> {
        let mut into = Vec::new();
        all.take(Instant::from_millis(at), part, &mut into);
        into.iter().map(|(shard, packet)| (shard.0, packet.payload[0])).collect()
    }

    #[test]
    fn what_comes_before_the_first_waits_for_it_and_all_go_the_same_way() {
        let mut all = Fragments::default();
        assert_eq!(take(&mut all, 1, part(7, None, 3)), []);
        assert_eq!(take(&mut all, 1, part(8, Some(1), 9)), [(1, 9)]);
        assert_eq!(take(&mut all, 1, part(7, Some(2), 4)), [(2, 3), (2, 4)]);
        assert_eq!(all.held, (0, 0));
        assert_eq!(take(&mut all, 1, part(7, None, 5)), [(2, 5)]);
        assert_eq!(take(&mut all, 1, part(7, Some(3), 2)), [(3, 2)], "the next packet of the same name");
        assert_eq!(take(&mut all, 2, part(7, None, 6)), [(3, 6)]);
        assert_eq!(take(&mut all, 2, part(8, None, 1)), [(1, 1)]);
        assert_eq!(all.dropped, 0);
    }

    /// The network repeats, and the stack takes exact repetitions: nothing of the rest is lost for them.
    #[test]
    fn what_comes_twice_goes_where_the_rest_does() {
        let mut all = Fragments::default();
        assert_eq!(take(&mut all, 1, part(7, None, 40)), []);
        assert_eq!(take(&mut all, 1, part(7, Some(2), 41)), [(2, 40), (2, 41)]);
        assert_eq!(take(&mut all, 1, part(7, Some(2), 41)), [(2, 41)]);
        assert_eq!(take(&mut all, 1, part(7, None, 39)), [(2, 39)]);
        assert_eq!(take(&mut all, 1, part(7, None, 39)), [(2, 39)], "behind all of it");
        assert_eq!((all.held, all.dropped), ((0, 0), 0));
    }

    #[test]
    fn what_is_never_complete_is_forgotten() {
        let mut all = Fragments::default();
        take(&mut all, 1, part(7, Some(2), 4));
        assert_eq!(take(&mut all, 30_001, part(7, None, 5)), [], "another one by now");
        assert_eq!(all.held, (1, 1_000));
        // Whatever comes, though not of its name.
        take(&mut all, 60_001, part(8, Some(1), 5));
        assert_eq!((all.held, all.dropped, all.waiting.of.len()), ((0, 0), 1, 0));
        for ident in 0..3_000 {
            take(&mut all, 60_002, part(ident, Some(1), 5));
            take(&mut all, 60_002, part(3_000 + ident, None, 5));
        }
        assert_eq!((all.homes.of.len(), all.waiting.of.len(), all.held), (1_024, 256, (256, 256_000)));
        assert_eq!(all.dropped, 1 + 3_000 - 256);
        all.expire(Instant::from_millis(90_002));
        assert_eq!((all.held, all.dropped), ((0, 0), 3_001));
        assert!(all.homes.of.is_empty() && all.homes.oldest.is_empty() && all.waiting.oldest.is_empty());
    }

    /// Datagrams of many fragments whose first was lost, as six of 64 KiB are: far fewer than may have a name.
    #[test]
    fn a_full_table_makes_room_for_what_comes() {
        let mut all = Fragments::default();
        for ident in 0..6 {
            (0..44).for_each(|_| assert_eq!(take(&mut all, ident.into(), part(ident, None, 5)), []));
        }
        assert_eq!((all.held.0, all.dropped), (5 * 44, 44), "the oldest went, and all of it");
        assert_eq!(take(&mut all, 9, part(9, None, 3)), []);
        assert_eq!(take(&mut all, 9, part(9, Some(1), 4)), [(1, 3), (1, 4)]);
        // One name does not take it all, and has not shut out the others.
        for _ in 0..1_000 {
            take(&mut all, 10, part(10, None, 5));
        }
        assert_eq!(all.waiting.of.values().map(|(_, packets)| packets.len()).max(), Some(128));
        assert_eq!(all.held.0, 2 * 44 + 128);
        assert_eq!(all.dropped, 4 * 44 + (1_000 - 128));
        assert_eq!(take(&mut all, 11, part(5, Some(1), 5)).len(), 45);
    }
}
