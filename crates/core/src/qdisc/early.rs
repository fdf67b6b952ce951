//! What a discipline that keeps departure times left to one that does not: each packet waits here until it may leave.
//!
//! Nothing of the same flow passes by it. Both kinds of work, keeping and taking, are O(log n).
use super::line::Line;
use super::look::{LinkFacts, Reader, Size};
use super::store::Waiting;
use crate::base::hash::{KeyedState, Map};
use crate::base::{Instant, Rng};
use crate::packet::Packet;

/// Packets beyond which none joins because of its flow: as many as `fq` holds by default.
const JOIN_MAX: usize = 10_000;

/// What waits of one flow.
#[derive(Debug)]
struct Flow {
    packets: u32,
    /// When the last of them leaves.
    last: Instant,
}

/// Packets between two disciplines, by time.
#[derive(Debug)]
pub(crate) struct Early {
    line: Line,
    /// The keys are keyed hashes already; this hash needs no secret.
    flows: Map<u64, Flow>,
    reader: Reader,
}

impl Default for Early {
    fn default() -> Self {
        let flows = Map::with_hasher(KeyedState::new(0, 0));
        Self { line: Line::default(), flows, reader: Reader::default() }
    }
}

impl Early {
    /// For packets of this device.
    pub(crate) fn new(link: &LinkFacts, rng: &mut Rng) -> Self {
        Self { reader: Reader::new(link, rng), ..Self::default() }
    }

    /// Nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.line.len() == 0
    }

    /// Keeps a packet until its departure time, behind what waits of its flow.
    pub(crate) fn keep(&mut self, mut packet: Packet) {
        let key = self.reader.flow(&packet).hash;
        let flow = self.flows.entry(key).or_insert(Flow { packets: 0, last: packet.at });
        flow.packets += 1;
        flow.last = flow.last.max(packet.at);
        packet.at = flow.last;
        self.line.insert(Waiting { size: Size::of(&packet), at: packet.at, packet });
    }

    /// Whether the packet must wait here, since earlier ones of its flow do.
    pub(crate) fn holds_back(&self, packet: &Packet) -> bool {
        !self.is_empty() && self.flows.contains_key(&self.reader.flow(packet).hash)
    }

    /// There is no room for another one.
    pub(crate) fn is_full(&self) -> bool {
        self.line.len() >= JOIN_MAX
    }

    /// When the next one may leave.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.line.first()
    }

    /// One that may leave now.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Packet> {
        self.first().filter(|at| *at <= now)?;
        self.take()
    }

    /// The next one, whatever its time.
    pub(crate) fn take(&mut self) -> Option<Packet> {
        let packet = self.line.pop()?.packet;
        let key = self.reader.flow(&packet).hash;
        if let Some(flow) = self.flows.get_mut(&key) {
            flow.packets -= 1;
            if flow.packets == 0 {
                self.flows.remove(&key);
            }
        }
        Some(packet)
    }

    /// Shows every packet, in any order.
    pub(crate) fn each(&self, f: &mut dyn FnMut(&Packet)) {
        self.line.each(f);
    }
}

#[cfg(test)]
mod tests {
    use super::super::law::{label, packet};
    use super::*;

    const fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn a_flow_keeps_its_order_and_others_theirs() {
        let mut early = Early::new(&LinkFacts::ip(1_500), &mut Rng::new(1));
        early.keep(packet(1, 1, 10, ms(5)));
        early.keep(packet(1, 2, 10, ms(9)));
        early.keep(packet(2, 3, 10, ms(7)));
        // Without a time of its own, yet behind what it follows.
        assert!(early.holds_back(&packet(1, 4, 10, ms(1))) && !early.holds_back(&packet(3, 5, 10, ms(1))));
        early.keep(packet(1, 4, 10, ms(1)));
        assert!(early.take_due(ms(4)).is_none());
        let order: Vec<_> = core::iter::from_fn(|| early.take())
            .map(|p| (label(&p).1, p.at.as_nanos() / 1_000_000))
            .collect();
        assert_eq!(order, [(1, 5), (3, 7), (2, 9), (4, 9)]);
        assert!(early.is_empty() && early.flows.is_empty() && !early.holds_back(&packet(1, 6, 10, ms(1))));
    }
}
