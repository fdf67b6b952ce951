//! A look at every packet that passes: for captures.
use crate::capture::Tap;
use lowwater_core::packet::Packet;

/// Which way a packet went, as the stack sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the device to the stack.
    In,
    /// From the stack to the device, which has taken it.
    Out,
}

/// Sees every packet that passes, with the number of its device in order of the builder's calls from 0. It runs on the
/// stack's thread with the devices held: what it does slowly delays packets. Super-packets come whole and checksums that are left
/// to the device are unfinished ([`Packet::offload`] tells).
pub type Observer = Box<dyn FnMut(usize, Direction, &Packet) + Send>;

/// All that see packets.
#[derive(Default)]
pub(crate) struct Watch {
    /// Those of captures, which last as long as the stack: a capture that said it had all would be wrong else.
    pub(crate) captures: Vec<Tap>,
    /// The program's own, which may change.
    pub(crate) observer: Option<Observer>,
}

impl Watch {
    pub(crate) fn is_on(&self) -> bool {
        self.observer.is_some() || !self.captures.is_empty()
    }

    pub(crate) fn see(&mut self, device: usize, direction: Direction, packet: &Packet) {
        self.captures.iter().for_each(|tap| tap.see(device, direction, packet));
        if let Some(see) = &mut self.observer {
            see(device, direction, packet);
        }
    }

    /// Nothing more comes for now.
    pub(crate) fn rest(&self) {
        self.captures.iter().for_each(Tap::rest);
    }
}
