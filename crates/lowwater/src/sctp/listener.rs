//! A listener of associations for async programs.
use super::assoc::SctpAssociation;
use super::{ListenOptions, all, why};
use crate::coop::polled;
use crate::family::all_meant;
use crate::options;
use crate::sock::Sock;
use crate::stack::Stack;
use lowwater_core::sctp::SctpOptions;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::task::{Context, Poll};

/// A listener of SCTP (one-to-one style). Its methods are cancel-safe. Dropping it aborts associations that nobody has accepted.
#[derive(Debug)]
pub struct SctpListener {
    pub(crate) sock: Sock,
}

impl SctpListener {
    /// Listens at an address, or at several with one port, as one side that has them all (bindx); port 0 takes a free one.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], [`io::ErrorKind::AddrNotAvailable`], [`io::ErrorKind::InvalidInput`] for different ports.
    #[allow(clippy::unused_async, reason = "as TcpListener's")]
    pub async fn bind(stack: &Stack, addrs: impl ToSocketAddrs) -> io::Result<Self> {
        Self::listen(stack, &ListenOptions { local: all(addrs)?, ..ListenOptions::default() })
    }

    /// Listens as `options` say.
    ///
    /// # Errors
    /// Those of [`SctpListener::bind`].
    pub fn listen(stack: &Stack, options: &ListenOptions) -> io::Result<Self> {
        Ok(Self { sock: listen(stack, options, false)? })
    }

    /// The next association and the peer's primary address.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub async fn accept(&self) -> io::Result<(SctpAssociation, SocketAddr)> {
        polled(|cx| self.poll_accept(cx)).await
    }

    /// [`SctpListener::accept`] as a poll function.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(SctpAssociation, SocketAddr)>> {
        let accepted = self.sock.poll_inner(cx, |inner, now| {
            let (id, peer) = inner.core.sctp_accept(now, self.sock.id)?;
            inner.registry.insert(id);
            Ok((id, peer))
        });
        accepted.map_ok(|(id, peer)| (SctpAssociation::new(Sock::new(self.sock.handle.clone(), id)), peer))
    }

    /// Its first address; unspecified for any.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.sock.local_addr()
    }

    /// Changes the options that associations get from now on.
    ///
    /// # Errors
    /// When the stack was shut down; [`io::ErrorKind::InvalidInput`] for options that no association could work with.
    pub fn set_options(&self, change: impl FnOnce(&mut SctpOptions)) -> io::Result<()> {
        self.sock.set_sctp_options(change)
    }
}

/// A listener of the core; one that collects associations is a one-to-many socket.
pub(super) fn listen(stack: &Stack, options: &ListenOptions, many: bool) -> io::Result<Sock> {
    Sock::open(&stack.handle, |inner, now| {
        let mut inherited = options::sctp_or_new(options.options.as_ref(), inner.core.sysctl())?;
        inherited.arrivals |= many;
        let local = all_meant(&options.local);
        let id = inner.core.sctp_listen(now, &local, options.backlog, inherited);
        let id = id.map_err(|e| why::listen(e, &local))?;
        if many {
            inner.endpoints.insert(id, options.associations);
        }
        Ok(id)
    })
}
