//! Identification fields of what we send: IPv4 IDs and IPv6 flow labels, unguessable from outside the flow.
use crate::base::Rng;
use crate::base::hash::KeyedState;
use core::hash::BuildHasher;
use core::net::IpAddr;

/// Buckets of ID counters for packets that no flow numbers (`ip_idents`).
const BUCKETS: usize = 2_048;

/// A flow's own identification: an IPv4 ID counter and an IPv6 flow label (RFC 6437), which another one follows where the flow fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FlowIds {
    /// The next IPv4 ID.
    pub ident: u16,
    /// IPv6 flow label, 20 bits.
    pub flow_label: u32,
}

impl FlowIds {
    /// Takes `segments` consecutive IPv4 IDs, as many as a super-packet becomes packets; returns the first.
    pub const fn take(&mut self, segments: u16) -> u16 {
        let first = self.ident;
        self.ident = self.ident.wrapping_add(if segments == 0 { 1 } else { segments });
        first
    }

    /// The flow label after so many changes of it: routers that choose among ways by labels send the flow another one (RFC 6438;
    /// `sk_rethink_txhash`).
    #[must_use]
    pub const fn label(&self, turn: u16) -> u32 {
        // The upper bits of an odd multiple: two in a row are never the same.
        let label = self.flow_label ^ ((turn as u32).wrapping_mul(0x9e37_79b1) >> 12);
        if label == 0 { 1 } else { label }
    }
}

/// Sources of identification fields.
#[derive(Debug)]
pub struct Idents {
    key: KeyedState,
    counters: Box<[u16]>,
}

impl Idents {
    pub(super) fn new(rng: &mut Rng) -> Self {
        let key = KeyedState::new(rng.next_u64(), rng.next_u64());
        Self { key, counters: (0..BUCKETS).map(|_| rng.next_u32() as u16).collect() }
    }

    /// The identification of a flow, a keyed hash of its tuple.
    #[must_use]
    pub fn of_flow(&self, src: (IpAddr, u16), dst: (IpAddr, u16), protocol: u8) -> FlowIds {
        let hash = self.key.hash_one((src, dst, protocol));
        // A zero label means "none" (RFC 6437 section 2).
        FlowIds { ident: (hash >> 32) as u16, flow_label: ((hash & 0xf_ffff) as u32).max(1) }
    }

    /// The next ID for packets from `src` to `dst` that no flow numbers, and `count - 1` more after it.
    ///
    /// Counters are shared by many destinations and move by random steps, so that they tell an observer nothing about
    /// traffic to others (RFC 7739 section 5.3).
    pub(super) fn next(&mut self, src: IpAddr, dst: IpAddr, protocol: u8, rng: &mut Rng, count: u16) -> u16 {
        let hash = self.key.hash_one((src, dst, protocol));
        let counter = &mut self.counters[hash as usize % BUCKETS];
        let first = counter.wrapping_add(rng.below(8) as u16);
        *counter = first.wrapping_add(count.max(1));
        first.wrapping_add((hash >> 32) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_stable_and_ids_consecutive_within_a_packet() {
        let mut rng = Rng::new(7);
        let mut ids = Idents::new(&mut rng);
        let (a, b) = ("fd00::1".parse().expect("valid"), "fd00::2".parse().expect("valid"));
        let f = ids.of_flow((a, 1), (b, 2), 6);
        assert_eq!(f, ids.of_flow((a, 1), (b, 2), 6));
        assert_ne!(f, ids.of_flow((a, 3), (b, 2), 6));
        assert!(f.flow_label > 0 && f.flow_label < 1 << 20);
        let first = ids.next(a, b, 17, &mut rng, 4);
        let second = ids.next(a, b, 17, &mut rng, 1);
        assert!((4..12).contains(&second.wrapping_sub(first)));
        for turn in 0..u16::MAX {
            let (label, next) = (f.label(turn), f.label(turn + 1));
            assert!(label != next && label > 0 && label < 1 << 20);
        }
        assert_eq!(f.label(0), f.flow_label);
        let mut f = FlowIds { ident: 0xffff, flow_label: 1 };
        assert_eq!((f.take(2), f.take(0), f.take(1)), (0xffff, 1, 2));
    }
}
