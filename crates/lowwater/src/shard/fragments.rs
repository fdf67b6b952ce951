//! Fragments on their way to the shard of their flow. Only the first one of a packet has ports, so all of a packet come to one shard, by addresses and
//! identification, which learns from the first where they belong and hands them over; those that came before it wait. The stack there puts them together.
use lowwater_core::base::{Duration, Instant};
use lowwater_core::device::{Fragment, FragmentName, QueueLimit, ShardId};
use lowwater_core::packet::Packet;
use std::collections::BTreeMap;

/// Packets of which fragments are to come at a time; the oldest is forgotten first.
const PACKETS_MAX: usize = 256;
/// How long a packet may be on its way (`ipfrag_time`).
const KEPT: Duration = Duration::from_secs(30);

/// What is known of a packet.
#[derive(Debug)]
struct Parts {
    /// When the first of them came.
    since: Instant,
    home: Option<ShardId>,
    /// They came before the first fragment.
    waiting: Vec<Packet>,
    /// Bytes that have come, and of how many.
    bytes: usize,
    total: Option<usize>,
}

impl Parts {
    const fn new(since: Instant) -> Self {
        Self { since, home: None, waiting: Vec::new(), bytes: 0, total: None }
    }
}

/// Packets whose fragments meet at one shard.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    packets: BTreeMap<FragmentName, Parts>,
    /// Fragments that wait, and their bytes: bounded as a mailbox is.
    waiting: (usize, usize),
}

impl Fragments {
    /// A fragment has come here. Appends those that can go on, each with the shard that puts them together.
    pub(super) fn take(
        &mut self,
        at: Instant,
        (fragment, packet): (Fragment, Packet),
        into: &mut Vec<(ShardId, Packet)>,
    ) {
        let name = fragment.named;
        if self.packets.get(&name).is_some_and(|parts| at >= parts.since + KEPT) {
            self.forget(name);
        }
        if !self.packets.contains_key(&name) && self.packets.len() >= PACKETS_MAX {
            let oldest = self.packets.iter().min_by_key(|(_, parts)| parts.since);
            oldest.map(|(name, _)| *name).into_iter().for_each(|name| self.forget(name));
        }
        let parts = self.packets.entry(name).or_insert_with(|| Parts::new(at));
        parts.bytes += fragment.len;
        parts.total = fragment.total.or(parts.total);
        parts.home = fragment.flow.or(parts.home);
        let Some(home) = parts.home else {
            let (packets, bytes) = &mut self.waiting;
            if QueueLimit::default().admits(*packets, *bytes) {
                (*packets, *bytes) = (*packets + 1, *bytes + packet.len());
                parts.waiting.push(packet);
            }
            return;
        };
        let (count, bytes) = (parts.waiting.len(), parts.waiting.iter().map(Packet::len).sum::<usize>());
        self.waiting = (self.waiting.0 - count, self.waiting.1 - bytes);
        into.extend(parts.waiting.drain(..).chain([packet]).map(|packet| (home, packet)));
        // The next packet of this name may be another flow's. (Of one that came in part twice the rest is lost, as in a network.)
        if parts.total.is_some_and(|total| parts.bytes >= total) {
            self.packets.remove(&name);
        }
    }

    fn forget(&mut self, name: FragmentName) {
        let Some(parts) = self.packets.remove(&name) else { return };
        let bytes = parts.waiting.iter().map(Packet::len).sum::<usize>();
        self.waiting = (self.waiting.0 - parts.waiting.len(), self.waiting.1 - bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use lowwater_core::packet::Offload;

    fn part(ident: u32, flow: Option<u16>, len: usize, total: Option<usize>) -> (Fragment, Packet) {
        let named = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, ident);
        let packet = Packet::received(Bytes::from(vec![len as u8; 1_000]), Offload::default(), Instant::ZERO);
        (Fragment { named, flow: flow.map(ShardId), len, total }, packet)
    }

    fn take(all: &mut Fragments, at: u64, part: (Fragment, Packet)) -> Vec<(u16, u8)> {
        let mut into = Vec::new();
        all.take(Instant::from_millis(at), part, &mut into);
        into.iter().map(|(shard, packet)| (shard.0, packet.payload[0])).collect()
    }

    #[test]
    fn what_comes_before_the_first_waits_for_it_and_all_go_the_same_way() {
        let mut all = Fragments::default();
        assert_eq!(take(&mut all, 1, part(7, None, 3, Some(11))), []);
        assert_eq!(take(&mut all, 1, part(8, Some(1), 9, None)), [(1, 9)]);
        assert_eq!(take(&mut all, 1, part(7, Some(2), 4, None)), [(2, 3), (2, 4)]);
        assert_eq!(all.waiting, (0, 0));
        assert_eq!(take(&mut all, 1, part(7, None, 5, None)), [(2, 5)], "all of it has come");
        assert_eq!(take(&mut all, 1, part(7, None, 6, None)), [], "the next packet of the same name");
        assert_eq!(take(&mut all, 2, part(7, Some(3), 2, None)), [(3, 6), (3, 2)]);
        assert_eq!(take(&mut all, 2, part(8, None, 1, Some(9))), [(1, 1)]);
    }

    #[test]
    fn what_is_never_complete_is_forgotten() {
        let mut all = Fragments::default();
        take(&mut all, 1, part(7, Some(2), 4, None));
        assert_eq!(take(&mut all, 30_001, part(7, None, 5, None)), [], "another one by now");
        assert_eq!(all.waiting, (1, 1_000));
        take(&mut all, 60_001, part(7, Some(1), 5, None));
        assert_eq!(all.waiting, (0, 0));
        for ident in 0..1_000 {
            take(&mut all, u64::from(60_002 + ident), part(ident, None, 5, None));
        }
        assert_eq!((all.packets.len(), all.waiting), (256, (256, 256_000)));
        for _ in 0..1_000 {
            take(&mut all, 61_002, part(999, None, 5, None));
        }
        assert_eq!(all.waiting, (256, 256_000), "no more than a queue may hold");
        assert_eq!(take(&mut all, 61_003, part(999, Some(4), 5, None)), [(4, 5), (4, 5)]);
        assert_eq!(all.waiting, (255, 255_000));
    }
}
