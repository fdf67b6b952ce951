//! A look at every packet that passes: for captures.
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
/// stack's thread without any lock: what it does slowly delays packets. Super-packets come whole and checksums that are left
/// to the device are unfinished ([`Packet::offload`] tells).
pub type Observer = Box<dyn FnMut(usize, Direction, &Packet) + Send>;
