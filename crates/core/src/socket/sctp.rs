//! SCTP's sockets: an association with the routes of its paths, and a listener.
use super::{Arrivals, Path};
use crate::base::{Cx, SocketId};
use crate::sctp::{Assoc, SctpOptions, Seen, State};
use crate::tcp::{Ready, State as TcpState};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// An association as the stack keeps it.
#[derive(Debug)]
pub struct SctpSocket {
    /// The association itself.
    pub assoc: Assoc,
    /// The route of each path, by its index; `None` while there is none.
    pub routes: SmallVec<[Option<Path>; 1]>,
    /// The generation of routes at which all of these were looked up; what had none then is not asked for again before it changes.
    pub generation: u64,
    /// When what can be read of it came, where it asks for that ([`SctpOptions::arrivals`]).
    pub arrivals: Option<Box<Arrivals>>,
    /// What the flight recorder has seen of it, where it is on.
    pub seen: Option<Box<Seen>>,
}

impl SctpSocket {
    /// Level readiness under the names that all sockets share.
    pub fn poll(&mut self, cx: &Cx<'_>) -> Ready {
        let is = self.assoc.poll(cx);
        let mut out = Ready::NONE;
        let bits = [
            (is.readable, Ready::IN),
            (is.writable, Ready::OUT),
            (is.ended, Ready::RDHUP),
            (is.closed, Ready::HUP),
            (is.error, Ready::ERR),
        ];
        for (set, bit) in bits {
            if set {
                out.insert(bit);
            }
        }
        out
    }

    /// The peer's address that is the primary one.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        let paths = self.assoc.paths();
        SocketAddr::new(paths.get(paths.primary()).remote, self.assoc.ports().1)
    }

    /// Our address on the primary path, unspecified while it has no route.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        let paths = self.assoc.paths();
        let ip = paths.get(paths.primary()).local().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        SocketAddr::new(ip, self.assoc.ports().0)
    }

    /// The state of TCP that is nearest, for tables of all sockets.
    #[must_use]
    pub const fn tcp_state(&self) -> TcpState {
        match self.assoc.state() {
            State::Closed => TcpState::Close,
            State::CookieWait | State::CookieEchoed => TcpState::SynSent,
            State::Established => TcpState::Established,
            State::ShutdownPending | State::ShutdownSent => TcpState::FinWait1,
            State::ShutdownReceived => TcpState::CloseWait,
            State::ShutdownAckSent => TcpState::LastAck,
        }
    }
}

/// Whose associations a listener at any address takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Families {
    /// Those of both.
    #[default]
    Both,
    /// Those over IPv4.
    V4,
    /// Those over IPv6.
    V6,
}

impl Families {
    /// This address is of one of them.
    #[must_use]
    pub const fn have(self, ip: IpAddr) -> bool {
        match self {
            Self::Both => true,
            Self::V4 => ip.is_ipv4(),
            Self::V6 => ip.is_ipv6(),
        }
    }
}

/// A listener.
#[derive(Debug)]
pub struct SctpListener {
    /// Its port.
    pub port: u16,
    /// Its addresses; none for any of `families`.
    pub ips: SmallVec<[IpAddr; 2]>,
    /// Of which families it takes associations, if it is at any.
    pub families: Families,
    /// Options that associations inherit.
    pub options: SctpOptions,
    /// Associations that may wait to be accepted. As in Linux, one more fits.
    pub backlog: u32,
    /// Those that do, oldest first.
    pub accept: VecDeque<SocketId>,
}

impl SctpListener {
    /// Its first address, unspecified for any.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        SocketAddr::new(self.ips.first().copied().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), self.port)
    }

    /// No further association fits.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.accept.len() > self.backlog as usize
    }
}
