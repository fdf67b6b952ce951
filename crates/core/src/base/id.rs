//! Names of the stack's objects: generational keys, so that a stale name finds nothing rather than a stranger.
slotmap::new_key_type! {
    /// A socket of a stack: TCP connection, TCP listener or UDP socket.
    pub struct SocketId;
}

/// A device attached to a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u16);

/// The transport's sending identity, which owns credits: the socket for TCP and UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId(pub SocketId);
