//! Neighbours on Ethernet.
use crate::base::{DeviceId, DropWhy, Instant};
use crate::packet::Packet;

#[derive(Debug)]
pub(super) struct Due;

/// The neighbour table.
#[derive(Debug, Default)]
pub struct Neighbours;

impl Neighbours {
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        None
    }
    pub(super) fn on_timeout(&mut self, _now: Instant) -> Option<Due> {
        None
    }
    pub(super) fn remove_device(&mut self, _device: DeviceId, _dropped: &mut Vec<(Packet, DropWhy)>) {}
}
