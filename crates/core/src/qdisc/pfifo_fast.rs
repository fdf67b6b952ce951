//! `pfifo_fast`: three FIFOs, of which a lower one is served only when the higher ones are empty.
use super::look::{LinkFacts, Reader, Size};
use super::stats::{Field, Stats, Value};
use super::{Dequeued, Gone, Qdisc};
use crate::base::Cx;
use crate::packet::Packet;
use std::collections::VecDeque;

/// The band of each priority, Linux's.
const PRIOMAP: [u8; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];
const PRIOMAP_TEXT: &str = "1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1";

/// The discipline.
#[derive(Debug)]
pub struct PfifoFast {
    bands: [VecDeque<(Packet, Size)>; 3],
    /// Packets of each band.
    limit: u32,
    reader: Reader,
    stats: Stats,
}

impl Default for PfifoFast {
    fn default() -> Self {
        Self {
            bands: Default::default(),
            limit: LinkFacts::TX_QUEUE_LEN,
            reader: Reader::default(),
            stats: Stats::default(),
        }
    }
}

impl PfifoFast {
    /// Size of the packet whose turn is next.
    pub(super) fn front(&self) -> Option<Size> {
        self.bands.iter().find_map(|band| band.front()).map(|(_, size)| *size)
    }

    fn pop(&mut self) -> Option<(Packet, Size)> {
        self.bands.iter_mut().find_map(VecDeque::pop_front)
    }
}

impl Qdisc for PfifoFast {
    fn name(&self) -> &'static str {
        "pfifo_fast"
    }

    fn attach(&mut self, cx: &mut Cx<'_>, link: &LinkFacts) {
        self.limit = link.tx_queue_len.max(1);
        self.reader = Reader::new(link, &mut cx.rng.fork("pfifo_fast"));
    }

    fn enqueue(&mut self, _cx: &mut Cx<'_>, packet: Packet, gone: &mut Gone) {
        let size = Size::of(&packet);
        let band = PRIOMAP[usize::from(self.reader.priority(&packet) & 15)];
        let queue = &mut self.bands[usize::from(band)];
        if queue.len() >= self.limit as usize {
            self.stats.drops += 1;
            return gone.refuse(packet);
        }
        self.stats.enter(size);
        queue.push_back((packet, size));
    }

    fn dequeue(&mut self, _cx: &mut Cx<'_>, _gone: &mut Gone) -> Dequeued {
        let Some((packet, size)) = self.pop() else { return Dequeued::Empty };
        self.stats.leave(size);
        Dequeued::Packet(packet)
    }

    fn take(&mut self) -> Option<Packet> {
        let (packet, size) = self.pop()?;
        self.stats.remove(size);
        Some(packet)
    }

    fn each(&self, f: &mut dyn FnMut(&Packet)) {
        self.bands.iter().flatten().for_each(|(packet, _)| f(packet));
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn stats_mut(&mut self) -> Option<&mut Stats> {
        Some(&mut self.stats)
    }

    fn options(&self, out: &mut Vec<Field>) {
        out.push(Field::new("bands", Value::Count(3)));
        out.push(Field::new("priomap", Value::Text(PRIOMAP_TEXT.into())));
    }
}

#[cfg(test)]
mod tests {
    use super::super::law::{label, packet};
    use super::*;
    use crate::base::Instant;
    use crate::base::testing::World;
    use crate::packet::Offload;

    #[test]
    fn the_type_of_service_chooses_the_band() {
        let (mut world, mut gone) = (World::new(), Gone::default());
        let mut q = PfifoFast::default();
        let cx = &mut world.cx(Instant::ZERO);
        q.attach(cx, &LinkFacts::ip(1_500));
        // Bulk (throughput), best effort, interactive (low delay), and with both ECN bits on.
        for (number, tos) in [(1, 0x08), (2, 0x00), (3, 0x10), (4, 0x13), (5, 0x0b)] {
            let mut packet = packet(1, number, 10, Instant::ZERO);
            packet.head.as_mut_slice()[1] = tos;
            q.enqueue(cx, packet, &mut gone);
        }
        let mut order = Vec::new();
        while let Dequeued::Packet(packet) = q.dequeue(cx, &mut gone) {
            order.push(label(&packet).1);
        }
        assert_eq!(order, [3, 4, 2, 1, 5]);
    }

    #[test]
    fn the_traffic_class_of_ipv6_says_nothing() {
        let reader = Reader::default();
        // Low delay, to 2001:db8::1; then a neighbour's solicitation.
        let mut ip = [0; 48];
        (ip[0], ip[1], ip[6]) = (0x61, 0, 17);
        let packet = |ip: &[u8]| {
            let bytes = bytes::Bytes::copy_from_slice(ip);
            Packet::received(bytes, Offload::default(), Instant::ZERO)
        };
        assert_eq!(reader.priority(&packet(&ip)), 0);
        (ip[5], ip[6], ip[40]) = (8, 58, 135);
        assert_eq!(reader.priority(&packet(&ip)), 7);
    }

    #[test]
    fn a_socket_s_priority_goes_before_the_type_of_service() {
        let (mut world, mut gone) = (World::new(), Gone::default());
        let mut q = PfifoFast::default();
        let cx = &mut world.cx(Instant::ZERO);
        q.attach(cx, &LinkFacts::ip(1_500));
        // All are interactive by their type of service; the last four bits of what is asked for count.
        for (number, asked) in
            [(1, Some(2)), (2, Some(0)), (3, None), (4, Some(6)), (5, Some(16)), (6, Some(7))]
        {
            let mut packet = packet(1, number, 10, Instant::ZERO);
            packet.head.as_mut_slice()[1] = 0x10;
            packet.priority = asked;
            q.enqueue(cx, packet, &mut gone);
        }
        let mut order = Vec::new();
        while let Dequeued::Packet(packet) = q.dequeue(cx, &mut gone) {
            order.push(label(&packet).1);
        }
        assert_eq!(order, [3, 4, 6, 2, 5, 1]);
    }
}
