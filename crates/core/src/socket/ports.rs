//! Ephemeral ports: hard to guess, rarely reused soon (RFC 6056 section 3.3.4, the double hash of `__inet_hash_connect`).
use crate::base::Rng;
use crate::base::hash::KeyedState;
use crate::base::sysctl::PortList;
use core::hash::BuildHasher;
use core::hash::Hash;

/// Counters that flows share by their hash: the more there are, the less a port tells of other flows.
const COUNTERS: usize = 1_024;
/// Random steps that a counter skips after a port was chosen, so that the next one cannot be told.
const SKIP: u64 = 8;

/// Chooses source ports: a keyed hash of the destination gives the start and a counter, the counter moves on from there.
#[derive(Debug)]
pub struct Ports {
    key: KeyedState,
    rng: Rng,
    /// Filled at the first use: most stacks of a test never connect.
    counters: Vec<u32>,
}

/// Which ports may be chosen.
#[derive(Clone, Copy, Debug)]
pub struct PortRange<'a> {
    /// `ip_local_port_range`, both ends included.
    pub range: (u16, u16),
    /// `ip_local_reserved_ports`.
    pub reserved: &'a PortList,
}

impl PortRange<'_> {
    /// First port, and how many there are: an even number, so that both parities have the same share.
    fn span(&self) -> Option<(u32, u32)> {
        let (low, high) = (u32::from(self.range.0), u32::from(self.range.1));
        let count = (high + 1).checked_sub(low).filter(|&count| count > 0)?;
        Some((low, if count > 1 { count & !1 } else { count }))
    }

    /// The first of the ports that `free` accepts, every second one from `low + offset` on, then the others. How many were
    /// passed over comes with it.
    fn search(&self, offset: u32, mut free: impl FnMut(u16) -> bool) -> Option<(u16, u32)> {
        let (low, count) = self.span()?;
        for start in [offset, offset ^ 1] {
            if start >= count.max(1) {
                continue;
            }
            for step in (0..count).step_by(2) {
                let port = (low + (start + step) % count) as u16;
                if !self.reserved.contains(port) && free(port) {
                    return Some((port, step));
                }
            }
        }
        None
    }
}

impl Ports {
    /// A chooser with a secret.
    #[must_use]
    pub const fn new(key: KeyedState, rng: Rng) -> Self {
        Self { key, rng, counters: Vec::new() }
    }

    /// A port for an active open of `flow`, which `free` accepts: those of the parity of the lowest first, since `bind` prefers
    /// the others. `None` when every port is taken.
    pub fn connect(
        &mut self,
        from: &PortRange<'_>,
        flow: &impl Hash,
        free: impl FnMut(u16) -> bool,
    ) -> Option<u16> {
        let (_, count) = from.span()?;
        if self.counters.is_empty() {
            let rng = &mut self.rng;
            self.counters = (0..COUNTERS).map(|_| rng.next_u32()).collect();
        }
        let hash = self.key.hash_one(flow);
        let skip = self.rng.below(SKIP) as u32 * 2;
        let counter = &mut self.counters[hash as usize % COUNTERS];
        let offset = (counter.wrapping_add((hash >> 32) as u32) % count) & !1;
        let (port, passed) = from.search(offset, free)?;
        *counter = counter.wrapping_add(passed.max(skip) + 2);
        Some(port)
    }

    /// A port for `bind`, which `free` accepts: any, but of the parity that `connect` likes less (`inet_csk_find_open_port`).
    pub fn bind(&mut self, from: &PortRange<'_>, free: impl FnMut(u16) -> bool) -> Option<u16> {
        let (_, count) = from.span()?;
        let offset = self.rng.below(u64::from(count)) as u32 | 1;
        from.search(if offset < count { offset } else { 0 }, free).map(|(port, _)| port)
    }

    /// A port for datagrams, which `free` accepts: any of the range, the last of an odd number too (`udp_lib_get_port`).
    pub fn for_datagrams(&mut self, from: &PortRange<'_>, mut free: impl FnMut(u16) -> bool) -> Option<u16> {
        let (low, high) = (u32::from(from.range.0), u32::from(from.range.1));
        let count = high.checked_sub(low)? + 1;
        let start = self.rng.below(count.into()) as u32;
        let mut ports = (0..count).map(|step| (low + (start + step) % count) as u16);
        ports.find(|&port| !from.reserved.contains(port) && free(port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn ports(seed: u64) -> Ports {
        Ports::new(KeyedState::new(seed, 2), Rng::new(seed))
    }

    #[test]
    fn every_port_is_found_once_and_then_none() {
        let (mut ports, reserved) = (ports(1), PortList::default());
        for range in [(1_000, 1_099), (1_001, 1_100), (7, 7), (1, 65_534)] {
            let from = PortRange { range, reserved: &reserved };
            let mut taken = BTreeSet::new();
            let count = usize::from(range.1 - range.0) + 1;
            for _ in 0..count.min(200) {
                let p = ports.connect(&from, &"peer", |p| !taken.contains(&p)).expect("one is free");
                assert!((range.0..=range.1).contains(&p) && taken.insert(p));
            }
            if count <= 200 {
                assert_eq!(ports.connect(&from, &"peer", |p| !taken.contains(&p)), None);
                assert_eq!(ports.bind(&from, |p| !taken.contains(&p)), None);
            }
        }
    }

    #[test]
    fn connect_and_bind_prefer_different_parities_and_take_the_other_at_last() {
        let (mut ports, reserved) = (ports(2), PortList::default());
        let from = PortRange { range: (1_000, 1_019), reserved: &reserved };
        for _ in 0..50 {
            assert_eq!(ports.connect(&from, &1, |_| true).expect("free") % 2, 0);
            assert_eq!(ports.bind(&from, |_| true).expect("free") % 2, 1);
        }
        assert_eq!(ports.connect(&from, &1, |p| p % 2 == 1).expect("odd") % 2, 1);
        assert_eq!(ports.bind(&from, |p| p % 2 == 0).expect("even") % 2, 0);
    }

    #[test]
    fn datagrams_have_every_port_of_an_odd_range_too() {
        let mut ports = ports(7);
        let reserved = PortList::parse("1001,1003").expect("a list");
        let from = PortRange { range: (1_000, 1_004), reserved: &reserved };
        let mut taken = BTreeSet::new();
        while let Some(port) = ports.for_datagrams(&from, |p| !taken.contains(&p)) {
            taken.insert(port);
        }
        assert_eq!(taken, BTreeSet::from([1_000, 1_002, 1_004]));
        for range in [(7, 7), (0, 65_535)] {
            let from = PortRange { range, reserved: &reserved };
            assert!(
                ports.for_datagrams(&from, |_| true).is_some_and(|port| (range.0..=range.1).contains(&port))
            );
            assert_eq!(ports.for_datagrams(&from, |_| false), None);
        }
    }

    #[test]
    fn a_range_that_ends_before_it_begins_has_no_port() {
        let (mut ports, reserved) = (ports(6), PortList::default());
        for range in [(1_000, 999), (1_000, 1), (u16::MAX, 0)] {
            let from = PortRange { range, reserved: &reserved };
            assert_eq!((ports.connect(&from, &1, |_| true), ports.bind(&from, |_| true)), (None, None));
            assert_eq!(ports.for_datagrams(&from, |_| true), None);
        }
    }

    #[test]
    fn reserved_ports_are_never_chosen() {
        let mut ports = ports(3);
        let reserved = PortList::parse("1000-1007, 1009").expect("a list");
        let from = PortRange { range: (1_000, 1_009), reserved: &reserved };
        for _ in 0..20 {
            assert_eq!(ports.connect(&from, &1, |_| true), Some(1_008));
            assert_eq!(ports.bind(&from, |_| true), Some(1_008));
        }
    }

    #[test]
    fn flows_to_one_destination_move_on_by_unforeseeable_steps_and_others_do_not_tell() {
        let (mut ports, reserved) = (ports(4), PortList::default());
        let from = PortRange { range: (32_768, 60_999), reserved: &reserved };
        let mut chosen = |flow: &str| i32::from(ports.connect(&from, &flow, |_| true).expect("free"));
        let mine: Vec<i32> = (0..200).map(|_| chosen("a")).collect();
        let steps: BTreeSet<i32> = mine.windows(2).map(|w| w[1] - w[0]).filter(|s| *s > 0).collect();
        assert!(steps.len() > 4 && steps.iter().all(|s| (2..=16).contains(s)), "{steps:?}");
        // Twice the same port to one destination takes a whole round.
        assert_eq!(mine.iter().collect::<BTreeSet<_>>().len(), mine.len());
        let others: BTreeSet<i32> = (0..50).map(|n| chosen(&format!("peer {n}")) / 256).collect();
        assert!(others.len() > 20, "destinations begin at places of their own");
    }

    #[test]
    fn other_secrets_choose_other_ports() {
        let reserved = PortList::default();
        let from = PortRange { range: (32_768, 60_999), reserved: &reserved };
        let first = |seed| ports(seed).connect(&from, &"peer", |_| true);
        assert_ne!(first(5), first(6));
    }
}
