//! Which flows of TCP there are, for who chooses a port among them: a view that is there while the stack chooses, too.
use super::demux::{Demux, Flow};
use super::{Small, Stack};
use crate::base::{Error, SocketId, Tuple};
use crate::socket::{Socket, Table};
use crate::tcp::State;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The connections of a stack, in TIME-WAIT too.
#[derive(Clone, Copy, Debug)]
pub struct Flows<'a> {
    pub(super) demux: &'a Demux,
    pub(super) sockets: &'a Table,
    pub(super) small: &'a Small,
}

impl Flows<'_> {
    /// State of a connection, or [`State::Listen`].
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`] for sockets of other protocols.
    pub fn state(&self, id: SocketId) -> Result<State, Error> {
        match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => Ok(conn.state()),
            Socket::Listener(_) => Ok(State::Listen),
            _ => Err(Error::Unsupported),
        }
    }

    /// As [`Stack::local_addr`], of sockets of every protocol.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`].
    pub fn local_addr(&self, id: SocketId) -> Result<SocketAddr, Error> {
        Ok(match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => conn.tuple().local(),
            Socket::Udp(udp) => udp.local,
            Socket::Sctp(sctp) => sctp.local(),
            Socket::SctpListener(l) => l.local(),
            Socket::Listener(l) => {
                let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
                SocketAddr::new(l.addr.ip.unwrap_or(any), l.addr.port.unwrap_or(0))
            }
        })
    }

    /// The connection of this flow, if it has one that was not only asked for.
    #[must_use]
    pub fn lookup(&self, flow: &Tuple) -> Option<SocketId> {
        match self.demux.flows.get(flow, self.sockets, self.small)? {
            Flow::Conn(id) => Some(id),
            Flow::Request(_) | Flow::TimeWait(_) => None,
        }
    }

    /// A connection of this flow is there, or waits in TIME-WAIT.
    #[must_use]
    pub fn has(&self, flow: &Tuple) -> bool {
        let there = self.demux.flows.get(flow, self.sockets, self.small);
        matches!(there, Some(Flow::Conn(_) | Flow::TimeWait(_)))
    }
}

impl Stack {
    /// The flows of TCP.
    #[must_use]
    pub const fn tcp_flows(&self) -> Flows<'_> {
        Flows { demux: &self.demux, sockets: &self.sockets, small: &self.small }
    }
}
