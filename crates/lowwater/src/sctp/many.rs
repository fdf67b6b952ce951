//! A one-to-many socket for async programs: one port, many associations.
use super::assoc::{Association, SctpAssociation, connected};
use super::listener::listen;
use super::{AssocId, ListenOptions, all, bound, to_meant, why};
use crate::coop::polled;
use crate::error::{io_error, stopped};
use crate::family::{all_meant, meant};
use crate::registry::Side;
use crate::shared::{Inner, Phase};
use crate::sock::{Sock, note_brief};
use crate::stack::Stack;
use bytes::Bytes;
use lowwater_core::base::{Error, Instant, SocketId};
use lowwater_core::sctp::{Received, SctpOptions, SendInfo};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::task::{Context, Poll};

/// A socket with many associations (one-to-many style): those that peers open, and those that it opens by sending. It always
/// listens. All futures are cancel-safe: a message is queued or received whole or not at all.
///
/// How associations begin and end is told by notifications, if [`SctpOptions::events`] asks for them
/// ([`Subscriptions::ASSOC`](super::Subscriptions::ASSOC)); one that has ended and whose messages were read is forgotten.
/// Dropping the socket closes all of them as dropping a [`SctpAssociation`] does.
#[derive(Debug)]
pub struct SctpSocket {
    pub(crate) sock: Sock,
}

impl SctpSocket {
    /// A socket at an address, or at several with one port (bindx); port 0 takes a free one.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], [`io::ErrorKind::AddrNotAvailable`], [`io::ErrorKind::InvalidInput`] for different ports.
    #[allow(clippy::unused_async, reason = "as SctpListener's")]
    pub async fn bind(stack: &Stack, addrs: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind_with(stack, &ListenOptions { local: all(addrs)?, ..ListenOptions::default() })
    }

    /// A socket as `options` say. Associations are taken in at once: the backlog has nothing to hold.
    ///
    /// # Errors
    /// Those of [`bind`](Self::bind).
    pub fn bind_with(stack: &Stack, options: &ListenOptions) -> io::Result<Self> {
        Ok(Self { sock: listen(stack, options, true)? })
    }

    /// Opens an association with the peer that has this address, or these (connectx), and waits until it is up. Dropping the
    /// future gives the attempt up.
    ///
    /// # Errors
    /// Those of [`SctpAssociation::connect`]; [`io::ErrorKind::AddrInUse`] when there is one with this peer.
    pub async fn connect(&self, addrs: impl ToSocketAddrs) -> io::Result<AssocId> {
        let mut attempt = self.attempt(addrs)?;
        polled(|cx| attempt.poll(cx)).await
    }

    /// Begins to open an association, for who waits for it.
    pub(crate) fn attempt(&self, addrs: impl ToSocketAddrs) -> io::Result<Attempt<'_>> {
        let remotes = all(addrs)?;
        let id = self.sock.handle.enter_live(|inner, now, _| self.open(inner, now, &remotes, true))?;
        Ok(Attempt { socket: self, id, up: false })
    }

    /// The association with the peer at this address.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] when there is none.
    pub fn assoc_with(&self, peer: SocketAddr) -> io::Result<AssocId> {
        self.sock.handle.enter_live(|inner, _, _| {
            self.find(inner, peer).map(AssocId).ok_or_else(|| io_error(Error::NotConnected))
        })
    }

    /// Its associations, in the order of their names.
    #[must_use]
    pub fn assocs(&self) -> Vec<AssocId> {
        self.sock.handle.enter(|inner, _, _| inner.endpoints.assocs(self.sock.id).map(AssocId).collect())
    }

    /// One of its associations, to ask and to set.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`] when it is over.
    pub fn assoc(&self, id: AssocId) -> io::Result<Association<'_>> {
        self.sock.handle.enter_live(|inner, _, _| self.check(inner, id).map_err(io_error))?;
        Ok(Association { handle: &self.sock.handle, id })
    }

    /// Makes an association of this socket one of its own. What was not read of it comes there.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`] when it is over.
    pub fn peel_off(&self, id: AssocId) -> io::Result<SctpAssociation> {
        self.sock.handle.enter_live(|inner, _, _| {
            self.check(inner, id).map_err(io_error)?;
            inner.endpoints.leave(id.0);
            Ok(())
        })?;
        Ok(SctpAssociation::new(Sock::new(self.sock.handle.clone(), id.0)))
    }

    /// Queues a message for an association, which is copied; waits while there is no room for it.
    ///
    /// # Errors
    /// Those of [`SctpAssociation::send`].
    pub async fn send(&self, to: AssocId, data: &[u8], info: SendInfo) -> io::Result<()> {
        self.send_bytes(to, Bytes::copy_from_slice(data), info).await
    }

    /// [`send`](Self::send) without a copy.
    ///
    /// # Errors
    /// Those of [`SctpAssociation::send`].
    pub async fn send_bytes(&self, to: AssocId, data: Bytes, info: SendInfo) -> io::Result<()> {
        polled(|cx| self.poll_send(cx, to, &data, info)).await
    }

    /// Queues a message for the peer at this address and opens the association if there is none: the message goes with the
    /// handshake. Its name. An association that was opened stays when the future is dropped.
    ///
    /// # Errors
    /// Those of [`SctpAssociation::send`], [`io::ErrorKind::NetworkUnreachable`].
    pub async fn send_to(&self, data: &[u8], peer: SocketAddr, info: SendInfo) -> io::Result<AssocId> {
        let to = self.found_or_opened(peer)?;
        self.send(to, data, info).await?;
        Ok(to)
    }

    /// The association with the peer at this address; it is opened if there is none.
    pub(crate) fn found_or_opened(&self, peer: SocketAddr) -> io::Result<AssocId> {
        self.sock.handle.enter_live(|inner, now, _| match self.find(inner, peer) {
            Some(id) => Ok(AssocId(id)),
            None => self.open(inner, now, &[peer], false).map(AssocId),
        })
    }

    /// [`send_bytes`](Self::send_bytes) as a poll function.
    ///
    /// # Errors
    /// Those of [`SctpAssociation::send`].
    pub fn poll_send(
        &self,
        cx: &mut Context<'_>,
        to: AssocId,
        data: &Bytes,
        info: SendInfo,
    ) -> Poll<io::Result<()>> {
        let message = (data.len(), to_meant(info));
        let why = |inner: &Inner, e| why::send(&inner.core, to.0, e, message);
        self.poll_assoc_told(cx, to, |inner, now| send(inner, now, to, data, info), why)
    }

    /// [`send_bytes`](Self::send_bytes) if there is room now.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], and those of [`SctpAssociation::send`].
    pub fn try_send(&self, to: AssocId, data: &Bytes, info: SendInfo) -> io::Result<()> {
        self.sock.handle.enter_live(|inner, now, _| {
            let sent = self.check(inner, to).and_then(|()| send(inner, now, to, data, info));
            sent.map_err(|e| why::send(&inner.core, to.0, e, (data.len(), to_meant(info))))
        })
    }

    /// Waits until an association is writable by the half rule, or over.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`] when it is over.
    pub async fn writable(&self, to: AssocId) -> io::Result<()> {
        use lowwater_core::tcp::Ready;
        polled(|cx| {
            self.poll_assoc(cx, to, |inner, now| match inner.core.poll(now, to.0).0 & Ready::OUT.0 {
                0 => Err(Error::WouldBlock),
                _ => Ok(()),
            })
        })
        .await
    }

    /// The next message or notification of any association, in the order in which they could be read, with its name. See
    /// [`SctpAssociation::recv`] on messages in parts: those of different associations may alternate.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub async fn recv(&self) -> io::Result<(AssocId, Received)> {
        self.recv_part(usize::MAX).await
    }

    /// As [`recv`](Self::recv), in parts of at most `max` bytes (one at least).
    ///
    /// # Errors
    /// When the stack was shut down.
    pub async fn recv_part(&self, max: usize) -> io::Result<(AssocId, Received)> {
        polled(|cx| self.poll_recv(cx, max)).await
    }

    /// [`recv_part`](Self::recv_part) as a poll function.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn poll_recv(&self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<(AssocId, Received)>> {
        self.sock.handle.enter(|inner, now, wakes| {
            if inner.phase.is_over() {
                return Poll::Ready(Err(stopped()));
            }
            match inner.endpoints.next(&mut inner.core, now, (self.sock.id, max.max(1))) {
                Ok((id, received)) => {
                    inner.reap(now, id, wakes);
                    Poll::Ready(Ok((AssocId(id), received)))
                }
                Err(_) => {
                    inner.registry.wait(self.sock.id, Side::Read, cx.waker(), wakes);
                    Poll::Pending
                }
            }
        })
    }

    /// [`recv`](Self::recv) if something waits.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`].
    pub fn try_recv(&self) -> io::Result<(AssocId, Received)> {
        self.sock.handle.enter_live(|inner, now, wakes| {
            let next = inner.endpoints.next(&mut inner.core, now, (self.sock.id, usize::MAX));
            let (id, received) = next.map_err(io_error)?;
            inner.reap(now, id, wakes);
            Ok((AssocId(id), received))
        })
    }

    /// Its first address; unspecified for any.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.sock.local_addr()
    }

    /// Changes the options of associations to come; those that there are have their own ([`Association::set_options`]).
    ///
    /// # Errors
    /// When the stack was shut down; [`io::ErrorKind::InvalidInput`] for options that no association could work with.
    pub fn set_options(&self, change: impl FnOnce(&mut SctpOptions)) -> io::Result<()> {
        self.sock.set_sctp_options(|options| {
            change(options);
            options.arrivals = true;
        })
    }

    fn poll_assoc<R>(
        &self,
        cx: &mut Context<'_>,
        id: AssocId,
        f: impl FnOnce(&mut Inner, Instant) -> Result<R, Error>,
    ) -> Poll<io::Result<R>> {
        self.poll_assoc_told(cx, id, f, |_, error| io_error(error))
    }

    /// Calls the core about an association of this socket; the task waits when it would block.
    fn poll_assoc_told<R>(
        &self,
        cx: &mut Context<'_>,
        id: AssocId,
        f: impl FnOnce(&mut Inner, Instant) -> Result<R, Error>,
        why: impl FnOnce(&Inner, Error) -> io::Error,
    ) -> Poll<io::Result<R>> {
        self.sock.handle.enter(|inner, now, wakes| {
            if inner.phase.is_over() {
                return Poll::Ready(Err(stopped()));
            }
            match self.check(inner, id).and_then(|()| f(inner, now)) {
                Err(Error::WouldBlock) => {
                    inner.registry.wait(id.0, Side::Write, cx.waker(), wakes);
                    Poll::Pending
                }
                other => Poll::Ready(other.map_err(|error| why(inner, error))),
            }
        })
    }

    fn check(&self, inner: &Inner, id: AssocId) -> Result<(), Error> {
        if inner.endpoints.of(id.0) == Some(self.sock.id) { Ok(()) } else { Err(Error::BrokenPipe) }
    }

    fn find(&self, inner: &Inner, peer: SocketAddr) -> Option<SocketId> {
        let local = inner.core.local_addr(self.sock.id).ok()?.port();
        let with_peer = inner.core.sctp_with(local, meant(peer));
        with_peer.iter().copied().find(|id| inner.endpoints.of(*id) == Some(self.sock.id))
    }

    fn open(
        &self,
        inner: &mut Inner,
        now: Instant,
        remotes: &[SocketAddr],
        awaited: bool,
    ) -> io::Result<SocketId> {
        let endpoint = self.sock.id;
        let open = |inner: &mut Inner| {
            let (local, _) = inner.core.sctp_addrs(endpoint)?;
            let local = bound(&local, inner.core.local_addr(endpoint)?.port());
            let options = inner.core.sctp_options(endpoint)?.clone();
            inner.core.sctp_connect(now, &all_meant(remotes), &local, options)
        };
        if inner.phase != Phase::Running {
            return Err(stopped());
        }
        let id = open(inner).map_err(|e| why::connect(e, &all_meant(remotes), &[]))?;
        inner.registry.insert(id);
        inner.endpoints.join(endpoint, id, awaited);
        Ok(id)
    }
}

fn send(inner: &mut Inner, now: Instant, to: AssocId, data: &Bytes, info: SendInfo) -> Result<(), Error> {
    note_brief(inner, to.0, data.len());
    let sent = inner.core.sctp_send(now, to.0, data.clone(), to_meant(info));
    inner.endpoints.set_full(to.0, sent == Err(Error::WouldBlock));
    sent.map(drop)
}

/// An association whose handshake somebody waits for; who gives up waiting gives it up.
pub(crate) struct Attempt<'a> {
    socket: &'a SctpSocket,
    id: SocketId,
    up: bool,
}

impl Attempt<'_> {
    /// Waits until it is up; its name.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<AssocId>> {
        let id = AssocId(self.id);
        let polled = self.socket.poll_assoc(cx, id, |inner, _| connected(&mut inner.core, id.0));
        self.up = matches!(polled, Poll::Ready(Ok(())));
        polled.map_ok(|()| id)
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.socket.sock.handle.enter(|inner, now, wakes| {
            inner.endpoints.set_met(self.id);
            if !self.up && inner.endpoints.of(self.id).is_some() {
                let _ = inner.core.sctp_abort(now, self.id, b"");
            }
            inner.reap(now, self.id, wakes);
        });
    }
}
