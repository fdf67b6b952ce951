//! A hop with a smaller MTU: what does not fit and may not be fragmented is dropped, and the sender is told.
use super::{Effects, Stage, Through};
use crate::edit::{dont_fragment, header_len, too_big};
use lowwater_core::base::Instant;
use lowwater_core::packet::Packet;

/// The stage that enforces an MTU. Packets that a router would fragment (IPv4 without DF) pass whole.
pub struct Mtu {
    mtu: u16,
    silent: bool,
    through: Through,
}

impl Mtu {
    /// `mtu` in bytes of IP packet; a `silent` hop sends no ICMP error (a black hole).
    #[must_use]
    pub fn new(mtu: u16, silent: bool) -> Self {
        Self { mtu, silent, through: Through::default() }
    }
}

impl Stage for Mtu {
    fn accept(&mut self, now: Instant, packet: Packet, effects: &mut Effects) {
        let size = match usize::from(packet.offload.gso_size) {
            0 => packet.len(),
            segment => packet.len().min(header_len(&packet) + segment),
        };
        if size <= usize::from(self.mtu) || !dont_fragment(&packet) {
            self.through.push(now, packet);
            return;
        }
        effects.counts.too_big += 1;
        if !self.silent {
            let told = too_big(&packet, self.mtu, now);
            effects.counts.told += u64::from(told.is_some());
            effects.back.extend(told);
        }
    }
    fn release(&mut self, _now: Instant, _effects: &mut Effects) -> Option<Packet> {
        self.through.pop()
    }
    fn deadline(&self) -> Option<Instant> {
        self.through.deadline()
    }
    fn held(&self) -> u64 {
        self.through.held()
    }
}
