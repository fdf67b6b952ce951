//! Links in memory: between two stacks of the process, or between a stack and the application.
mod datagram;
mod owned;
mod pair;

pub use datagram::{Datagram, DatagramLink, datagrams};
pub use lowwater_core::base::Carrier;
pub use lowwater_core::device::QueueLimit;
pub use owned::{Link, LinkPacket, OwnedPort, owned};
pub use pair::{PairPort, pair, pair_with};
