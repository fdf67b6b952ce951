//! Sets of watched sockets: who is watched for what, and who may have something; by level, by edge, or once (epoll(7)).
//!
//! The set knows neither sockets nor time: its owner tells it of changes ([`ReadySet::wake`]) and answers what a name is ready
//! for when its turn has come ([`ReadySet::judge`]). Work is done per change and per name with something, never per name watched.
use crate::tcp::Ready;
use std::collections::{BTreeMap, VecDeque};

/// Bits of what to watch for and of what was seen, with epoll's values.
pub mod bit {
    /// Something can be read, or a connection accepted (EPOLLIN).
    pub const IN: u32 = 0x1;
    /// Urgent data (EPOLLPRI).
    pub const PRI: u32 = 0x2;
    /// A write will be taken, by the half rule (EPOLLOUT).
    pub const OUT: u32 = 0x4;
    /// An error waits (EPOLLERR); always watched for.
    pub const ERR: u32 = 0x8;
    /// Both directions are over (EPOLLHUP); always watched for.
    pub const HUP: u32 = 0x10;
    /// As [`IN`] (EPOLLRDNORM).
    pub const RDNORM: u32 = 0x40;
    /// As [`OUT`] (EPOLLWRNORM).
    pub const WRNORM: u32 = 0x100;
    /// The peer will send nothing more (EPOLLRDHUP).
    pub const RDHUP: u32 = 0x2000;
    /// Not for all sets at once (EPOLLEXCLUSIVE).
    pub const EXCLUSIVE: u32 = 1 << 28;
    /// Keeps a machine awake (EPOLLWAKEUP); nothing here.
    pub const WAKEUP: u32 = 1 << 29;
    /// Once, until it is asked for again (EPOLLONESHOT).
    pub const ONESHOT: u32 = 1 << 30;
    /// Changes only (EPOLLET).
    pub const ET: u32 = 1 << 31;
    /// Bits that say how to watch, not what for (`EP_PRIVATE_BITS`).
    pub const HOW: u32 = EXCLUSIVE | WAKEUP | ONESHOT | ET;
    /// A change after which everybody looks.
    pub const ANY: u32 = !HOW;
}

/// What a socket is ready for, in the bits of [`bit`].
#[must_use]
pub fn bits(ready: Ready) -> u32 {
    const READY: [(Ready, u32); 6] = [
        (Ready::PRI, bit::PRI),
        (Ready::IN, bit::IN | bit::RDNORM),
        (Ready::OUT, bit::OUT | bit::WRNORM),
        (Ready::ERR, bit::ERR),
        (Ready::HUP, bit::HUP),
        (Ready::RDHUP, bit::RDHUP),
    ];
    READY.iter().filter(|(of, _)| ready.contains(*of)).fold(0, |all, (_, bits)| all | bits)
}

/// What to watch a name for; also what was seen of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Bits of [`bit`].
    pub events: u32,
    /// The owner's, verbatim.
    pub data: u64,
}

/// Places on the list that nobody holds, beyond as many as are held.
const VACANT_MAX: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Item {
    watch: Watch,
    /// Where it stands on the list, if it does.
    ticket: Option<u64>,
}

/// A set of watched names.
#[derive(Debug)]
pub struct ReadySet<K> {
    items: BTreeMap<K, Item>,
    /// Names that may have something, in the order in which they got it; each at most once, but for places that nobody holds
    /// any more: those whose number is not their name's.
    list: VecDeque<(K, u64)>,
    next_ticket: u64,
    /// Names that stand on the list.
    listed: usize,
}

impl<K> Default for ReadySet<K> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), list: VecDeque::new(), next_ticket: 0, listed: 0 }
    }
}

impl<K: Ord + Copy> ReadySet<K> {
    /// What `name` is watched for.
    #[must_use]
    pub fn get(&self, name: K) -> Option<Watch> {
        self.items.get(&name).map(|item| item.watch)
    }

    /// Watches `name` from now on; errors and the end are always watched. What is ready already counts as a change, so the
    /// owner tells it next.
    pub fn watch(&mut self, name: K, watch: Watch) {
        let watch = Watch { events: watch.events | bit::ERR | bit::HUP, ..watch };
        let ticket = self.items.get(&name).and_then(|item| item.ticket);
        self.items.insert(name, Item { watch, ticket });
    }

    /// The name is gone, or is not watched any more.
    pub fn forget(&mut self, name: K) {
        self.unlist(name);
        self.items.remove(&name);
    }

    /// Takes a name off the list of those that may have something: its owner has looked, and it has nothing
    /// (`__ep_eventpoll_poll`). It is watched as before.
    pub fn unlist(&mut self, name: K) {
        if self.items.get_mut(&name).is_some_and(|item| item.ticket.take().is_some()) {
            self.listed -= 1;
            // Its place stays until they are more than half: work is done per name, not per place.
            if self.list.len() > 2 * self.listed + VACANT_MAX {
                let items = &self.items;
                self.list.retain(|(name, ticket)| items.get(name).is_some_and(|i| i.ticket == Some(*ticket)));
            }
        }
    }

    /// Puts a name that is watched at the end of the list, unless it stands there.
    fn list(&mut self, name: K) {
        if let Some(item) = self.items.get_mut(&name).filter(|item| item.ticket.is_none()) {
            item.ticket = Some(self.next_ticket);
            self.list.push_back((name, self.next_ticket));
            self.next_ticket += 1;
            self.listed += 1;
        }
    }

    /// It stands on the list of names that may have something.
    pub fn is_listed(&self, name: K) -> bool {
        self.items.get(&name).is_some_and(|item| item.ticket.is_some())
    }

    /// Something about `name` changed; true when it is watched for that.
    pub fn wake(&mut self, name: K, change: u32) -> bool {
        let Some(item) = self.items.get(&name) else { return false };
        // Disarmed by ONESHOT, or the change is none that it wants.
        if item.watch.events & !bit::HOW == 0 || item.watch.events & change == 0 {
            return false;
        }
        self.list(name);
        true
    }

    /// Names that are watched.
    pub fn names(&self) -> impl Iterator<Item = K> {
        self.items.keys().copied()
    }

    /// Number of names that are watched.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Nothing is watched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The name that may have something and stands on the list first, or next behind `after`: its place, and what it is watched for. Who looks
    /// for one that has something need not look at all.
    #[must_use]
    pub fn waiting(&self, after: Option<u64>) -> Option<(u64, K, u32)> {
        // Places are in order.
        let from = after.map_or(0, |after| self.list.partition_point(|(_, ticket)| *ticket <= after));
        self.list.range(from..).find_map(|(name, ticket)| {
            let item = self.items.get(name).filter(|item| item.ticket == Some(*ticket))?;
            Some((*ticket, *name, item.watch.events))
        })
    }

    /// How many names may have something: as many turns are one round.
    #[must_use]
    pub fn listed(&self) -> usize {
        self.listed
    }

    /// Whose turn it is: ask what it is ready for, then [`judge`](Self::judge).
    pub fn take(&mut self) -> Option<K> {
        loop {
            let (name, ticket) = self.list.pop_front()?;
            if let Some(item) = self.items.get_mut(&name).filter(|item| item.ticket == Some(ticket)) {
                item.ticket = None;
                self.listed -= 1;
                return Some(name);
            }
        }
    }

    /// `name` is ready for `ready`: what to report of it, if that is anything. Who is watched by level goes to the end of the
    /// list again (`ep_send_events`).
    pub fn judge(&mut self, name: K, ready: u32) -> Option<Watch> {
        let item = self.items.get_mut(&name)?;
        let events = ready & item.watch.events & !bit::HOW;
        if events == 0 {
            return None;
        }
        let told = Watch { events, data: item.watch.data };
        if item.watch.events & bit::ONESHOT != 0 {
            item.watch.events &= bit::HOW;
        } else if item.watch.events & bit::ET == 0 {
            self.list(name);
        }
        Some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCH: Watch = Watch { events: bit::IN | bit::OUT, data: 7 };

    /// One round: what each name on the list has, `ready` being what it is ready for.
    fn round(set: &mut ReadySet<u32>, ready: u32) -> Vec<u32> {
        let turns = set.listed();
        (0..turns)
            .filter_map(|_| set.take().and_then(|name| set.judge(name, ready)))
            .map(|w| w.events)
            .collect()
    }

    fn with(how: u32) -> ReadySet<u32> {
        let mut set = ReadySet::default();
        set.watch(1, Watch { events: WATCH.events | how, ..WATCH });
        assert!(set.wake(1, bit::IN));
        set
    }

    #[test]
    fn by_level_it_is_told_until_it_is_over() {
        let mut set = with(0);
        assert_eq!(round(&mut set, bit::IN), [bit::IN]);
        assert_eq!(round(&mut set, bit::IN | bit::OUT), [bit::IN | bit::OUT]);
        assert!(round(&mut set, 0).is_empty() && set.listed() == 0);
    }

    #[test]
    fn by_edge_only_a_change_tells_it_again() {
        let mut set = with(bit::ET);
        assert_eq!(round(&mut set, bit::IN), [bit::IN]);
        assert!(round(&mut set, bit::IN).is_empty());
        assert!(!set.wake(1, bit::PRI), "not watched for");
        assert!(set.wake(1, bit::OUT) && set.wake(1, bit::OUT));
        assert_eq!(set.listed(), 1, "a name stands on the list once");
        assert_eq!(round(&mut set, bit::IN | bit::OUT), [bit::IN | bit::OUT]);
    }

    #[test]
    fn once_means_until_it_is_asked_for_again() {
        let mut set = with(bit::ONESHOT);
        assert_eq!(round(&mut set, bit::IN), [bit::IN]);
        assert!(!set.wake(1, bit::ANY), "not even errors");
        set.watch(1, WATCH);
        assert!(set.wake(1, bit::ERR));
        assert_eq!(round(&mut set, bit::ERR), [bit::ERR]);
    }

    #[test]
    fn forgetting_does_not_walk_over_the_list() {
        let mut set = ReadySet::default();
        for name in 0..10_000 {
            set.watch(name, WATCH);
            set.wake(name, bit::IN);
        }
        // Nobody walked if the places of those who went are still there; and they do not stay for ever.
        (0..5_000).for_each(|name| set.forget(name));
        assert_eq!((set.listed(), set.list.len()), (5_000, 10_000));
        (5_000..9_990).for_each(|name| set.forget(name));
        assert!(set.listed() == 10 && set.list.len() <= 10 * 2 + VACANT_MAX, "{}", set.list.len());
        // One that comes again stands where it came again, once.
        set.watch(9_990, WATCH);
        set.forget(9_991);
        set.watch(9_991, WATCH);
        assert!(set.wake(9_991, bit::IN));
        let next = |place: &(u64, u32, u32)| set.waiting(Some(place.0));
        let waiting: Vec<u32> =
            core::iter::successors(set.waiting(None), next).map(|(_, name, _)| name).collect();
        assert_eq!(waiting, [9_990, 9_992, 9_993, 9_994, 9_995, 9_996, 9_997, 9_998, 9_999, 9_991]);
        let order: Vec<u32> = core::iter::from_fn(|| set.take()).collect();
        assert_eq!(order, [9_990, 9_992, 9_993, 9_994, 9_995, 9_996, 9_997, 9_998, 9_999, 9_991]);
    }

    #[test]
    fn who_has_nothing_leaves_the_list_and_comes_back_behind_the_others() {
        let mut set = ReadySet::default();
        for name in [1, 2] {
            set.watch(name, WATCH);
            set.wake(name, bit::IN);
        }
        set.unlist(1);
        set.unlist(1);
        assert!(!set.is_listed(1) && set.listed() == 1 && set.len() == 2);
        assert!(set.wake(1, bit::IN));
        let order: Vec<u32> = core::iter::from_fn(|| set.take()).collect();
        assert_eq!(order, [2, 1]);
    }

    #[test]
    fn who_is_forgotten_is_not_told() {
        let mut set = with(0);
        set.forget(1);
        assert!(!set.wake(1, bit::IN) && set.listed() == 0 && set.is_empty());
        assert!(round(&mut set, bit::IN).is_empty());
    }
}
