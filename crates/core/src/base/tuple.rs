//! The four numbers that name a flow.
use core::fmt;
use core::net::{IpAddr, SocketAddr};

/// Local and remote address and port.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Our address.
    pub local_ip: IpAddr,
    /// The peer's address.
    pub remote_ip: IpAddr,
    /// Our port.
    pub local_port: u16,
    /// The peer's port.
    pub remote_port: u16,
}

impl Tuple {
    /// The tuple of two socket addresses.
    #[must_use]
    pub const fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            local_ip: local.ip(),
            remote_ip: remote.ip(),
            local_port: local.port(),
            remote_port: remote.port(),
        }
    }

    /// Our side.
    #[must_use]
    pub const fn local(&self) -> SocketAddr {
        SocketAddr::new(self.local_ip, self.local_port)
    }

    /// The peer's side.
    #[must_use]
    pub const fn remote(&self) -> SocketAddr {
        SocketAddr::new(self.remote_ip, self.remote_port)
    }

    /// True for IPv6 on the wire.
    #[must_use]
    pub const fn is_v6(&self) -> bool {
        self.remote_ip.is_ipv6()
    }

    /// The same flow as the peer names it.
    #[must_use]
    pub const fn reversed(&self) -> Self {
        Self {
            local_ip: self.remote_ip,
            remote_ip: self.local_ip,
            local_port: self.remote_port,
            remote_port: self.local_port,
        }
    }
}

impl fmt::Debug for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}", self.local(), self.remote())
    }
}
