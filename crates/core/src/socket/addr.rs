//! Where a listener listens and how it decides.
use crate::tcp::SocketOptions;
use core::net::{IpAddr, SocketAddr};

/// Address and port of a listener; each may be left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenAddr {
    /// The address; an unspecified one is any of its family, `None` any of either.
    pub ip: Option<IpAddr>,
    /// The port; `Some(0)` takes a free one, `None` listens on every port that no other listener has.
    pub port: Option<u16>,
}

impl ListenAddr {
    /// Any address and any port: what a transparent proxy needs.
    pub const ANY: Self = Self { ip: None, port: None };

    /// Any address, this port.
    #[must_use]
    pub const fn port(port: u16) -> Self {
        Self { ip: None, port: Some(port) }
    }
}

impl From<SocketAddr> for ListenAddr {
    /// An unspecified address listens on any address, of both families for `::` and for `0.0.0.0`.
    fn from(addr: SocketAddr) -> Self {
        Self { ip: (!addr.ip().is_unspecified()).then(|| addr.ip()), port: Some(addr.port()) }
    }
}

/// How a listener behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Connections that may wait to be accepted; bounded by `somaxconn`. As in Linux, one more fits.
    pub backlog: u32,
    /// Ask the application before the SYN is answered ([`super::Event::Incoming`]).
    pub ask: bool,
    /// Options that accepted connections inherit.
    pub options: SocketOptions,
}

impl ListenOptions {
    /// A backlog of 1,024 and no questions.
    #[must_use]
    pub const fn new(options: SocketOptions) -> Self {
        Self { backlog: 1_024, ask: false, options }
    }
}

/// The application's answer to [`super::Event::Incoming`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Answer with a SYN-ACK.
    Accept,
    /// Answer with a reset.
    Refuse,
    /// Do not answer.
    Drop,
}
