//! Names of the stack's objects: generational keys, so that a stale name finds nothing rather than a stranger.
slotmap::new_key_type! {
    /// A socket of a stack: TCP connection, TCP listener or UDP socket.
    pub struct SocketId;
}

/// A device attached to a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u16);

/// The transport's sending identity, which owns credits: the socket for TCP and UDP, one path of an association for SCTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId {
    /// Its socket.
    pub socket: SocketId,
    /// The number of the path among those that the association ever had; 0 where there is but one way.
    pub path: u8,
}

impl FlowId {
    /// The flow of a socket that sends to one place.
    #[must_use]
    pub const fn of(socket: SocketId) -> Self {
        Self { socket, path: 0 }
    }
}
