//! An association for async programs: one-to-one, and one among many as its socket shows it.
use super::{AssocId, ConnectOptions, all, association_calls, to_meant, why};
use crate::coop::polled;
use crate::error::IntoIo;
use crate::family::all_meant;
use crate::options;
use crate::registry::Side;
use crate::shared::Handle;
use crate::sock::Sock;
use crate::stack::Stack;
use bytes::Bytes;
use lowwater_core::base::{Error, Instant, SocketId};
use lowwater_core::sctp::{Received, SendInfo, State};
use lowwater_core::stack::Stack as Core;
use std::io;
use std::net::ToSocketAddrs;
use std::task::{Context, Poll};

/// An association with one peer (one-to-one style). `&self` is enough for everything, so tasks may share one; all futures are
/// cancel-safe: a message is queued or received whole or not at all.
///
/// Dropping it closes it in the background in good order: what was queued is delivered. With messages that were not read, or
/// [`SctpOptions::linger`](super::SctpOptions::linger) of zero, it is aborted instead.
#[derive(Debug)]
pub struct SctpAssociation {
    pub(crate) sock: Sock,
}

impl SctpAssociation {
    pub(crate) const fn new(sock: Sock) -> Self {
        Self { sock }
    }

    /// Opens an association with the peer that has this address, or these (connectx), all with one port; the first is tried
    /// first. Dropping the future gives the attempt up.
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionRefused`] when nobody listens, [`io::ErrorKind::TimedOut`],
    /// [`io::ErrorKind::NetworkUnreachable`], [`io::ErrorKind::InvalidInput`] for different ports.
    pub async fn connect(stack: &Stack, addrs: impl ToSocketAddrs) -> io::Result<Self> {
        Self::connect_with(stack, addrs, &ConnectOptions::default()).await
    }

    /// As [`connect`](Self::connect), from certain addresses or with certain options.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect), [`io::ErrorKind::AddrNotAvailable`], [`io::ErrorKind::AddrInUse`].
    pub async fn connect_with(
        stack: &Stack,
        addrs: impl ToSocketAddrs,
        options: &ConnectOptions,
    ) -> io::Result<Self> {
        let assoc = Self::open(stack, addrs, options)?;
        polled(|cx| assoc.poll_connected(cx)).await?;
        Ok(assoc)
    }

    /// Begins an association without waiting for the peer: messages may be queued at once, the first go with COOKIE ECHO.
    ///
    /// # Errors
    /// Those of [`connect_with`](Self::connect_with) that need no answer; the others come with the next call.
    pub fn open(stack: &Stack, addrs: impl ToSocketAddrs, options: &ConnectOptions) -> io::Result<Self> {
        let remotes = all(addrs)?;
        let sock = Sock::open(&stack.handle, |inner, now| {
            let own = options::sctp_or_new(options.options.as_ref(), inner.core.sysctl())?;
            let local = all_meant(&options.local);
            let opened = inner.core.sctp_connect(now, &remotes, &local, own);
            opened.map_err(|e| why::connect(e, &remotes, &local))
        })?;
        Ok(Self { sock })
    }

    /// Waits for the end of the handshake, as a poll function.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect).
    pub fn poll_connected(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sock.poll(cx, Side::Write, |core, _, id| connected(core, id))
    }

    /// Queues a message, which is copied; waits while the send buffer is full, or more is unsent than the low-water mark of the
    /// association or of the stream.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for an empty message or a stream that does not exist, EMSGSIZE where fragments are
    /// disabled, [`io::ErrorKind::BrokenPipe`] when it is closing, or what ended it.
    pub async fn send(&self, data: &[u8], info: SendInfo) -> io::Result<()> {
        self.send_bytes(Bytes::copy_from_slice(data), info).await
    }

    /// [`send`](Self::send) without a copy on the way into the queue: the stack holds `data` until it is acknowledged, and each
    /// packet is written from it once.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    pub async fn send_bytes(&self, data: Bytes, info: SendInfo) -> io::Result<()> {
        polled(|cx| self.poll_send(cx, &data, info)).await
    }

    /// [`send_bytes`](Self::send_bytes) as a poll function; `data` shares its memory.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    pub fn poll_send(&self, cx: &mut Context<'_>, data: &Bytes, info: SendInfo) -> Poll<io::Result<()>> {
        let info = to_meant(info);
        let send = |core: &mut Core, now, id| core.sctp_send(now, id, data.clone(), info).map(drop);
        let message = (data.len(), info);
        self.sock.poll_send_message(cx, data.len(), send, |core, id, e| why::send(core, id, e, message))
    }

    /// [`send_bytes`](Self::send_bytes) if there is room now.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], and those of [`send`](Self::send).
    pub fn try_send(&self, data: Bytes, info: SendInfo) -> io::Result<()> {
        let (len, info) = (data.len(), to_meant(info));
        self.sock.send_message(len, |core, now, id| {
            let sent = core.sctp_send(now, id, data, info);
            sent.map(drop).map_err(|e| why::send(core, id, e, (len, info)))
        })
    }

    /// The next message or notification, in order; `None` when the peer sends nothing more (the notification that all is over may
    /// still follow). A message comes whole and `eor` is true, unless the receive window is full of messages that nobody has read,
    /// or one outgrows [`SctpOptions::pd_point`](super::SctpOptions::pd_point): then the first that is not complete comes in parts, one after the other, and the last
    /// has `eor`. A message of one packet is a slice of it, not a copy; one of several is put together by one copy.
    ///
    /// # Errors
    /// What ended the association, once: [`io::ErrorKind::ConnectionReset`] by the peer's ABORT, [`io::ErrorKind::TimedOut`].
    pub async fn recv(&self) -> io::Result<Option<Received>> {
        self.recv_part(usize::MAX).await
    }

    /// As [`recv`](Self::recv), in parts of at most `max` bytes (one at least); `eor` ends the message.
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv).
    pub async fn recv_part(&self, max: usize) -> io::Result<Option<Received>> {
        polled(|cx| self.poll_recv(cx, max)).await
    }

    /// As [`recv`](Self::recv), a message in the pieces that came in packets: nothing is put together, so nothing is copied.
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv).
    pub async fn recv_piece(&self) -> io::Result<Option<Received>> {
        polled(|cx| self.sock.poll(cx, Side::Read, Core::sctp_recv_piece)).await
    }

    /// [`recv_part`](Self::recv_part) as a poll function.
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv).
    pub fn poll_recv(&self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Option<Received>>> {
        self.sock.poll(cx, Side::Read, |core, now, id| core.sctp_recv(now, id, max.max(1)))
    }

    /// [`recv`](Self::recv) if something waits.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], and those of [`recv`](Self::recv).
    pub fn try_recv(&self) -> io::Result<Option<Received>> {
        self.call(|core, now, id| core.sctp_recv(now, id, usize::MAX))
    }

    /// Waits until a message, a notification, the end or an error can be read.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub async fn readable(&self) -> io::Result<()> {
        polled(|cx| self.sock.poll_ready(cx, Side::Read)).await
    }

    /// Waits until it is writable by the half rule: half of the send buffer is free, and less than half of the low-water mark is
    /// unsent; or it is over.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub async fn writable(&self) -> io::Result<()> {
        polled(|cx| self.sock.poll_ready(cx, Side::Write)).await
    }

    /// Waits until a stream is writable by the half rule of [`SctpOptions::stream_lowat`](super::SctpOptions::stream_lowat), and the association as
    /// [`writable`](Self::writable) has it; or it is over.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a stream that does not exist; when the stack was shut down.
    pub async fn writable_stream(&self, stream: u16) -> io::Result<()> {
        self.call(|core, _, id| why::no_such_stream(core, id, stream).map_or(Ok(()), Err))?;
        polled(|cx| {
            self.sock.poll(cx, Side::Write, |core, now, id| match core.sctp_poll_stream(now, id, stream)? {
                true => Ok(()),
                false => Err(Error::WouldBlock),
            })
        })
        .await
    }

    /// Closes in good order and waits for the end of it: everything that was queued has been acknowledged, unless this fails.
    /// Messages that come meanwhile wait to be read. Cancel-safe: the shutdown takes its course once this was polled.
    ///
    /// # Errors
    /// What ended the association instead.
    pub async fn finish(&self) -> io::Result<()> {
        // Who is over already has nothing to close.
        self.shutdown()?;
        polled(|cx| self.poll_closed(cx)).await
    }

    /// Waits until the association is over, as a poll function.
    ///
    /// # Errors
    /// What ended it, if that was no shutdown.
    pub fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sock.poll(cx, Side::Write, |core, _, id| match core.sctp_state(id)? {
            // Somebody else may have taken the error before.
            State::Closed => core.sctp_cause(id)?.map_or(Ok(()), Err),
            _ => Err(Error::WouldBlock),
        })
    }

    association_calls!();

    fn call<R, E: IntoIo>(
        &self,
        f: impl FnOnce(&mut Core, Instant, SocketId) -> Result<R, E>,
    ) -> io::Result<R> {
        self.sock.call(f)
    }
}

/// The handshake is complete, or what it failed by.
pub(super) fn connected(core: &mut Core, id: SocketId) -> Result<(), Error> {
    match core.sctp_state(id)? {
        State::CookieWait | State::CookieEchoed => Err(Error::WouldBlock),
        State::Closed => Err(core.take_error(id).unwrap_or(Error::Refused)),
        _ => Ok(()),
    }
}

/// An association of a [`SctpSocket`](super::SctpSocket), to be asked and set. Dropping it does nothing.
#[derive(Clone, Copy)]
pub struct Association<'a> {
    pub(super) handle: &'a Handle,
    pub(super) id: AssocId,
}

impl Association<'_> {
    association_calls!();

    /// Its name.
    #[must_use]
    pub const fn id(&self) -> AssocId {
        self.id
    }

    fn call<R, E: IntoIo>(
        &self,
        f: impl FnOnce(&mut Core, Instant, SocketId) -> Result<R, E>,
    ) -> io::Result<R> {
        self.handle.enter_live(|inner, now, _| f(&mut inner.core, now, self.id.0).map_err(E::into_io))
    }
}

impl std::fmt::Debug for Association<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Association").field("id", &self.id).finish_non_exhaustive()
    }
}
