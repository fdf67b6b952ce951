//! UDP sockets (RFC 768): bounded queues of datagrams both ways, and the errors that belong to a connected peer.
mod recent;
mod socket;

pub use socket::{BindManner, Bound, Datagram, Marks, MtuDiscovery, UdpSocket};
