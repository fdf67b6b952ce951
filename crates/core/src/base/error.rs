//! What can go wrong, by whose fault it is. Packets never produce errors: they are dropped with a reason.
use core::fmt;

/// Why a call on a socket or on the stack failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// Nothing to read, or no room to write, now. (EAGAIN)
    WouldBlock,
    /// No such socket, device or route: the name is stale. (EBADF)
    NoSuchSocket,
    /// The call does not fit the socket's state or kind. (EINVAL)
    Invalid,
    /// The operation is not supported on this kind of socket. (EOPNOTSUPP)
    Unsupported,
    /// Not connected yet, or no longer. (ENOTCONN)
    NotConnected,
    /// Already connected or connecting. (EISCONN)
    AlreadyConnected,
    /// The address and port are taken. (EADDRINUSE)
    AddressInUse,
    /// The address is not one of this stack's. (EADDRNOTAVAIL)
    AddressNotAvailable,
    /// Writing after `shutdown(Write)` or after the peer closed for good. (EPIPE)
    BrokenPipe,
    /// The peer refused the connection. (ECONNREFUSED)
    Refused,
    /// The peer's host said that it does not know the protocol. (ENOPROTOOPT)
    ProtocolUnreachable,
    /// A router or the peer's host did not understand the packet. (EPROTO)
    ProtocolProblem,
    /// A router said that an administrator forbids the way. (EACCES)
    Prohibited,
    /// A router said that the host is down. (EHOSTDOWN)
    HostDown,
    /// A router said that this host is isolated from the network. (ENONET)
    Isolated,
    /// The peer reset the connection. (ECONNRESET)
    Reset,
    /// The connection was aborted locally. (ECONNABORTED)
    Aborted,
    /// The peer stopped answering. (ETIMEDOUT)
    TimedOut,
    /// No route to the destination. (ENETUNREACH)
    NoRoute,
    /// A router or the peer's host said that the host is unreachable. (EHOSTUNREACH)
    HostUnreachable,
    /// The datagram is larger than the path or the protocol carries. (EMSGSIZE)
    MessageTooLong,
    /// A configured limit on memory or on the number of objects is reached. (ENOBUFS)
    NoBuffers,
    /// The option or sysctl does not exist. (ENOPROTOOPT)
    NoSuchOption,
    /// What was asked before is not answered yet.
    InProgress,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WouldBlock => "the operation would block",
            Self::NoSuchSocket => "no such socket (it was closed)",
            Self::Invalid => "the call does not fit the socket's state",
            Self::Unsupported => "the operation is not supported on this kind of socket",
            Self::NotConnected => "the socket is not connected",
            Self::AlreadyConnected => "the socket is already connected",
            Self::AddressInUse => "address already in use",
            Self::AddressNotAvailable => "the address does not belong to this stack",
            Self::BrokenPipe => "broken pipe: the sending direction is closed",
            Self::Refused => "connection refused by the peer",
            Self::ProtocolUnreachable => "protocol unreachable: the peer's host does not know it",
            Self::ProtocolProblem => "protocol error: the packet was not understood on its way",
            Self::Prohibited => "permission denied by an administrator on the way",
            Self::HostDown => "the host is down",
            Self::Isolated => "this host is isolated from the network",
            Self::Reset => "connection reset by the peer",
            Self::Aborted => "connection aborted",
            Self::TimedOut => "connection timed out: the peer stopped answering",
            Self::NoRoute => "network unreachable: no route to the destination",
            Self::HostUnreachable => "host unreachable",
            Self::MessageTooLong => "message too long for the path",
            Self::NoBuffers => "out of buffers: a configured limit is reached",
            Self::NoSuchOption => "no such option",
            Self::InProgress => "the operation before this one is still in progress",
        })
    }
}

impl std::error::Error for Error {}
