//! A socket as every handle holds it: its stack, its name, and the three ways to call the core.
use crate::error::{IntoIo, io_error, stopped};
use crate::options;
use crate::registry::Side;
use crate::shared::{BRIEF_BYTES, Handle, Inner, Phase};
use bytes::Bytes;
use lowwater_core::base::{Error, Instant, SocketId};
use lowwater_core::sctp::SctpOptions;
use lowwater_core::stack::Stack as Core;
use lowwater_core::tcp::{How, Ready, SendFlags, SocketOptions, State, TcpInfo, WaitReport};
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::task::{Context, Poll};

/// Most bytes that one call copies under the lock of the stack.
const COPY_MAX: usize = 256 * 1_024;

/// One socket. Dropping it closes it in the background.
pub(crate) struct Sock {
    pub(crate) handle: Handle,
    pub(crate) id: SocketId,
}

impl Sock {
    /// Takes over a socket that the registry knows already.
    pub(crate) fn new(handle: Handle, id: SocketId) -> Self {
        Self { handle, id }
    }

    /// Makes a socket.
    pub(crate) fn open(
        handle: &Handle,
        make: impl FnOnce(&mut Inner, Instant) -> io::Result<SocketId>,
    ) -> io::Result<Self> {
        let id = handle.enter_live(|inner, now, _| {
            if inner.phase != Phase::Running {
                return Err(stopped());
            }
            inner.brief = true;
            let id = make(inner, now)?;
            inner.registry.insert(id);
            Ok(id)
        })?;
        Ok(Self::new(handle.clone(), id))
    }

    /// Calls the core.
    pub(crate) fn call<R, E: IntoIo>(
        &self,
        f: impl FnOnce(&mut Core, Instant, SocketId) -> Result<R, E>,
    ) -> io::Result<R> {
        self.handle.enter_live(|inner, now, _| f(&mut inner.core, now, self.id).map_err(E::into_io))
    }

    /// Calls the core to send a message of `len` bytes.
    pub(crate) fn send_message<R, E: IntoIo>(
        &self,
        len: usize,
        f: impl FnOnce(&mut Core, Instant, SocketId) -> Result<R, E>,
    ) -> io::Result<R> {
        self.handle.enter_live(|inner, now, _| {
            note_brief(inner, self.id, len);
            f(&mut inner.core, now, self.id).map_err(E::into_io)
        })
    }

    /// Calls the core to send a message of `len` bytes; when it would block, the task waits. `why` knows what is wrong with it.
    pub(crate) fn poll_send_message<R>(
        &self,
        cx: &mut Context<'_>,
        len: usize,
        f: impl FnOnce(&mut Core, Instant, SocketId) -> Result<R, Error>,
        why: impl FnOnce(&Core, SocketId, Error) -> io::Error,
    ) -> Poll<io::Result<R>> {
        let send = |inner: &mut Inner, now| {
            note_brief(inner, self.id, len);
            f(&mut inner.core, now, self.id)
        };
        self.poll_side_told(cx, Side::Write, send, |inner, error| why(&inner.core, self.id, error))
    }

    /// Calls the core; when it would block, the task waits.
    pub(crate) fn poll<R>(
        &self,
        cx: &mut Context<'_>,
        side: Side,
        f: impl FnOnce(&mut Core, Instant, SocketId) -> Result<R, Error>,
    ) -> Poll<io::Result<R>> {
        self.poll_side(cx, side, |inner, now| f(&mut inner.core, now, self.id))
    }

    /// As [`Sock::poll`], for what needs more than the core and waits for something to read.
    pub(crate) fn poll_inner<R>(
        &self,
        cx: &mut Context<'_>,
        f: impl FnOnce(&mut Inner, Instant) -> Result<R, Error>,
    ) -> Poll<io::Result<R>> {
        self.poll_side(cx, Side::Read, f)
    }

    fn poll_side<R>(
        &self,
        cx: &mut Context<'_>,
        side: Side,
        f: impl FnOnce(&mut Inner, Instant) -> Result<R, Error>,
    ) -> Poll<io::Result<R>> {
        self.poll_side_told(cx, side, f, |_, error| io_error(error))
    }

    /// Finding out and registering are one critical section, so that no edge gets lost between them.
    fn poll_side_told<R>(
        &self,
        cx: &mut Context<'_>,
        side: Side,
        f: impl FnOnce(&mut Inner, Instant) -> Result<R, Error>,
        why: impl FnOnce(&Inner, Error) -> io::Error,
    ) -> Poll<io::Result<R>> {
        self.handle.enter(|inner, now, wakes| {
            if inner.phase.is_over() {
                return Poll::Ready(Err(stopped()));
            }
            match f(inner, now) {
                Err(Error::WouldBlock) => {
                    inner.registry.wait(self.id, side, cx.waker(), wakes);
                    Poll::Pending
                }
                // The end of the stack closes listeners first.
                Err(Error::NoSuchSocket) if inner.phase != Phase::Running => Poll::Ready(Err(stopped())),
                other => Poll::Ready(other.map_err(|error| why(inner, error))),
            }
        })
    }

    pub(crate) fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
        peek: bool,
    ) -> Poll<io::Result<usize>> {
        self.poll(cx, Side::Read, |core, now, id| recv(core, now, id, buf, peek))
    }

    /// As [`Self::poll_recv`], for a buffer that is not initialised.
    #[cfg(feature = "tokio")]
    pub(crate) fn poll_recv_with(
        &self,
        cx: &mut Context<'_>,
        room: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        let room = room.min(COPY_MAX);
        self.poll(cx, Side::Read, |core, now, id| core.tcp_recv_with(now, id, room, take))
    }

    pub(crate) fn try_recv(&self, buf: &mut [u8], peek: bool) -> io::Result<usize> {
        self.call(|core, now, id| recv(core, now, id, buf, peek))
    }

    pub(crate) fn poll_send(&self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.poll_side(cx, Side::Write, |inner, now| send(inner, now, self.id, data))
    }

    pub(crate) fn try_send(&self, data: &[u8]) -> io::Result<usize> {
        self.handle.enter_live(|inner, now, _| send(inner, now, self.id, data).map_err(io_error))
    }

    /// Takes what fits off the front of `data`, without a copy. What is left of it is not sent.
    pub(crate) fn poll_send_bytes(&self, cx: &mut Context<'_>, data: &mut Bytes) -> Poll<io::Result<usize>> {
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.poll_side(cx, Side::Write, |inner, now| {
            note_brief(inner, self.id, data.len());
            inner.core.tcp_send_bytes(now, self.id, data, SendFlags::default())
        })
    }

    pub(crate) fn poll_chunk(&self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Option<Bytes>>> {
        self.poll(cx, Side::Read, |core, now, id| core.tcp_read_chunk(now, id, max))
    }

    /// Waits until the socket is ready in this direction, an error and an end included.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>, side: Side) -> Poll<io::Result<()>> {
        let any = match side {
            Side::Read => Ready::IN.0 | Ready::RDHUP.0 | Ready::HUP.0 | Ready::ERR.0,
            Side::Write => Ready::OUT.0 | Ready::HUP.0 | Ready::ERR.0,
        };
        self.poll(
            cx,
            side,
            |core, now, id| {
                if core.poll(now, id).0 & any == 0 { Err(Error::WouldBlock) } else { Ok(()) }
            },
        )
    }

    /// Waits for the end of the handshake.
    pub(crate) fn poll_connected(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(cx, Side::Write, |core, _, id| match core.tcp_state(id)? {
            // The first write is the SYN: nothing to wait for (TCP_FASTOPEN_CONNECT).
            State::SynSent if core.tcp_is_deferred(id) => Ok(()),
            State::SynSent | State::SynRecv => Err(Error::WouldBlock),
            State::Close => Err(core.take_error(id).unwrap_or(Error::Reset)),
            _ => Ok(()),
        })
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => How::Read,
            Shutdown::Write => How::Write,
            Shutdown::Both => How::Both,
        };
        self.handle.enter_live(|inner, now, wakes| {
            inner.brief = true;
            inner.core.shutdown(now, self.id, how).map_err(io_error)?;
            // Whoever waits for room waits for an error by now (`inet_shutdown` wakes all); readers hear of it from the core.
            if how != How::Read {
                inner.wake(self.id, Some(Side::Write), wakes);
            }
            Ok(())
        })
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.call(|core, _, id| core.local_addr(id))
    }

    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.call(|core, _, id| core.peer_addr(id))
    }

    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.call(|core, _, id| io::Result::Ok(core.take_error(id).map(io_error)))
    }

    pub(crate) fn options(&self) -> io::Result<SocketOptions> {
        self.call(|core, _, id| core.options(id).cloned())
    }

    pub(crate) fn set_options(&self, change: impl FnOnce(&mut SocketOptions)) -> io::Result<()> {
        let seen = self.options()?;
        let mut asked = seen.clone();
        change(&mut asked);
        self.handle.enter_live(|inner, now, _| {
            let was = inner.core.options(self.id).map_err(io_error)?;
            let before = was.rcvlowat;
            let changed = options::changed_tcp(&seen, &asked, was);
            let options = options::tcp(changed, was, inner.core.sysctl())?;
            let lowat = options.rcvlowat;
            inner.core.set_options(now, self.id, options).map_err(io_error)?;
            if lowat != before && !inner.core.is_listener(self.id) {
                inner.core.tcp_set_rcvlowat(now, self.id, lowat).map_err(io_error)?;
            }
            Ok(())
        })
    }

    pub(crate) fn set_sctp_options(&self, change: impl FnOnce(&mut SctpOptions)) -> io::Result<()> {
        let seen = self.call(|core, _, id| core.sctp_options(id).cloned())?;
        let mut asked = seen.clone();
        change(&mut asked);
        self.handle.enter_live(|inner, now, _| {
            let was = inner.core.sctp_options(self.id).map_err(io_error)?;
            let options = options::sctp(options::changed_sctp(&seen, &asked, was), was)?;
            inner.core.sctp_set_options(now, self.id, options).map_err(io_error)
        })
    }

    pub(crate) fn set_quickack(&self, on: bool) -> io::Result<()> {
        self.call(|core, now, id| core.tcp_set_quickack(now, id, u32::from(on)))
    }

    pub(crate) fn info(&self) -> io::Result<TcpInfo> {
        self.call(|core, now, id| core.tcp_info(now, id))
    }

    pub(crate) fn wait_report(&self) -> io::Result<WaitReport> {
        self.call(|core, now, id| core.wait_report(now, id).ok_or(Error::NoSuchSocket))
    }

    /// Resets the connection. Its name is nobody's afterwards: who waits for it, and calls to come, hear of that.
    pub(crate) fn abort(&self) {
        let _ = self.handle.enter_live(|inner, now, wakes| {
            inner.brief = true;
            inner.core.abort(now, self.id).map_err(io_error)?;
            inner.wake(self.id, None, wakes);
            // Held no more, or one that closes in the background would be taken for it.
            inner.registry.remove(self.id, wakes);
            Ok(())
        });
    }
}

fn recv(core: &mut Core, now: Instant, id: SocketId, buf: &mut [u8], peek: bool) -> Result<usize, Error> {
    let len = buf.len().min(COPY_MAX);
    core.tcp_recv(now, id, &mut buf[..len], peek)
}

/// What follows something unacknowledged is a stream: the driver makes larger packets of it, beside whoever writes.
pub(crate) fn note_brief(inner: &mut Inner, id: SocketId, len: usize) {
    inner.brief = len <= BRIEF_BYTES && inner.core.queues(id).is_ok_and(|queues| queues.send == 0);
}

fn send(inner: &mut Inner, now: Instant, id: SocketId, data: &[u8]) -> Result<usize, Error> {
    note_brief(inner, id, data.len());
    inner.core.tcp_send(now, id, &data[..data.len().min(COPY_MAX)], SendFlags::default())
}

impl Drop for Sock {
    fn drop(&mut self) {
        self.handle.enter(|inner, now, wakes| {
            inner.brief = true;
            let _ = inner.core.close(now, self.id);
            inner.forsake(now, self.id, wakes);
            for assoc in inner.endpoints.remove(self.id) {
                let _ = inner.core.close(now, assoc);
                inner.registry.remove(assoc, wakes);
            }
            inner.registry.remove(self.id, wakes);
            inner.sets.forget(self.id);
        });
    }
}

impl std::fmt::Debug for Sock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (local, peer) = (self.local_addr().ok(), self.peer_addr().ok());
        f.debug_struct("Socket").field("local", &local).field("peer", &peer).finish_non_exhaustive()
    }
}
