//! TCP sockets that block.
use super::Mode;
use crate::error::invalid;
use crate::sock::Sock;
use crate::stack::Stack;
use crate::tcp::{self, ConnectOptions, ListenOptions};
use bytes::Bytes;
use lowwater_core::tcp::{SocketOptions, TcpInfo, WaitReport};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A TCP connection that blocks, like `std::net::TcpStream`. Dropping the last clone closes it in the background, as
/// [`tcp::TcpStream`] says.
#[derive(Debug)]
pub struct TcpStream(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    sock: Sock,
    mode: Mode,
}

impl TcpStream {
    pub(crate) fn from_sock(sock: Sock) -> Self {
        Self(Arc::new(Shared { sock, mode: Mode::default() }))
    }

    pub(crate) fn sock(&self) -> &Sock {
        &self.0.sock
    }

    /// Opens a connection; the addresses are tried in turn.
    ///
    /// # Errors
    /// As std's.
    pub fn connect(stack: &Stack, addr: impl ToSocketAddrs) -> io::Result<Self> {
        let mut last = invalid("no address to connect to");
        for remote in addr.to_socket_addrs()? {
            match Self::open(stack, remote, &ConnectOptions::default(), None) {
                Ok(stream) => return Ok(stream),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// Opens a connection within `timeout`.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`], [`io::ErrorKind::InvalidInput`] for a timeout of zero, and as std's.
    pub fn connect_timeout(stack: &Stack, addr: &SocketAddr, timeout: Duration) -> io::Result<Self> {
        if timeout.is_zero() {
            return Err(invalid("a timeout of zero leaves no time to connect: connect() waits without end"));
        }
        Self::open(stack, *addr, &ConnectOptions::default(), Some(timeout)).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => e,
        })
    }

    /// Opens a connection with a local address or options.
    ///
    /// # Errors
    /// As [`tcp::TcpStream::connect_with`].
    pub fn connect_with(stack: &Stack, addr: SocketAddr, options: &ConnectOptions) -> io::Result<Self> {
        Self::open(stack, addr, options, None)
    }

    fn open(
        stack: &Stack,
        addr: SocketAddr,
        options: &ConnectOptions,
        timeout: Option<Duration>,
    ) -> io::Result<Self> {
        let sock = tcp::start_connect(&stack.handle, addr, options)?;
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        super::wait(deadline, |cx| sock.poll_connected(cx))?;
        Ok(Self::from_sock(sock))
    }

    /// The same connection once more. Timeouts and the blocking mode are shared.
    ///
    /// # Errors
    /// None so far; std's can fail.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.clone()))
    }

    /// Our side.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.sock.local_addr()
    }

    /// The peer.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.sock.peer_addr()
    }

    /// Closes one direction or both.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`].
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.sock.shutdown(how)
    }

    /// Resets the connection at once. Calls on it and its clones fail from now on, those of other threads that wait among them.
    pub fn abort(&self) {
        self.0.sock.abort();
    }

    /// Reads without taking the data off.
    ///
    /// # Errors
    /// As [`Read::read`].
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.mode.reading(|cx| self.0.sock.poll_recv(cx, buf, true))
    }

    /// The next piece of the stream without a copy; `None` at the end.
    ///
    /// # Errors
    /// As [`Read::read`].
    pub fn read_chunk(&self) -> io::Result<Option<Bytes>> {
        self.0.mode.reading(|cx| self.0.sock.poll_chunk(cx, usize::MAX))
    }

    /// Writes all of `data` without copying it; the stack holds it until the peer has acknowledged it, as [`tcp::TcpStream::write_bytes`] has it.
    ///
    /// # Errors
    /// As [`Write::write`]; part of it may have been written.
    pub fn write_bytes(&self, mut data: Bytes) -> io::Result<()> {
        while !data.is_empty() {
            self.0.mode.writing(|cx| self.0.sock.poll_send_bytes(cx, &mut data))?;
        }
        Ok(())
    }

    /// How long a read blocks; then it fails with [`io::ErrorKind::WouldBlock`].
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for zero.
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.0.mode.read.set(limit)
    }

    /// How long a write blocks; then it fails with [`io::ErrorKind::WouldBlock`].
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for zero.
    pub fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.0.mode.write.set(limit)
    }

    /// As set.
    ///
    /// # Errors
    /// None.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.mode.read.get())
    }

    /// As set.
    ///
    /// # Errors
    /// None.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.mode.write.get())
    }

    /// Makes calls fail with [`io::ErrorKind::WouldBlock`] instead of blocking.
    ///
    /// # Errors
    /// None.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.0.mode.set_nonblocking(on);
        Ok(())
    }

    /// TCP_QUICKACK: acknowledge at once for a while, or go back to delayed acknowledgements. As in Linux it does not last.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn set_quickack(&self, on: bool) -> io::Result<()> {
        self.0.sock.set_quickack(on)
    }

    /// TCP_NODELAY.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.0.sock.set_options(|o| o.nodelay = on)
    }

    /// TCP_NODELAY.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(self.0.sock.options()?.nodelay)
    }

    /// SO_LINGER: `Some(ZERO)` makes the drop reset the connection.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] beyond 2^31 - 1 seconds; when the stack was shut down.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        self.0.sock.set_options(|o| o.linger = linger)
    }

    /// All options.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn options(&self) -> io::Result<SocketOptions> {
        self.0.sock.options()
    }

    /// Changes options, bounded as setsockopt() bounds them: [`SocketOptions`] names the bounds, and [`options`](Self::options) tells what came of it.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] in words for a number out of bounds, and then nothing is changed; when the stack was shut down.
    pub fn set_options(&self, change: impl FnOnce(&mut SocketOptions)) -> io::Result<()> {
        self.0.sock.set_options(change)
    }

    /// The pending error, once. (SO_ERROR)
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.sock.take_error()
    }

    /// TCP_INFO.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn info(&self) -> io::Result<TcpInfo> {
        self.0.sock.info()
    }

    /// Why it does not send, for how long, and how often each reason was met.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn wait_report(&self) -> io::Result<WaitReport> {
        self.0.sock.wait_report()
    }
}

impl Read for &TcpStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        self.0.mode.reading(|cx| self.0.sock.poll_recv(cx, buf, false))
    }
}

impl Write for &TcpStream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.mode.writing(|cx| self.0.sock.poll_send(cx, data))
    }

    /// Nothing is held back here: the stack sends on its own.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }
}

impl Write for TcpStream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        (&*self).write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A TCP listener that blocks, like `std::net::TcpListener`.
#[derive(Debug)]
pub struct TcpListener {
    pub(crate) listener: tcp::TcpListener,
    mode: Mode,
}

impl TcpListener {
    /// Listens at an address; port 0 takes a free one.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], [`io::ErrorKind::AddrNotAvailable`].
    pub fn bind(stack: &Stack, addr: impl ToSocketAddrs) -> io::Result<Self> {
        tcp::bind_first(stack, addr).map(Self::from)
    }

    /// See [`tcp::TcpListener::bind_any`].
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] when there is such a listener.
    pub fn bind_any(stack: &Stack) -> io::Result<Self> {
        tcp::TcpListener::bind_any(stack).map(Self::from)
    }

    /// Listens as `options` say.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], [`io::ErrorKind::AddrNotAvailable`].
    pub fn listen(stack: &Stack, options: &ListenOptions) -> io::Result<Self> {
        tcp::TcpListener::listen(stack, options).map(Self::from)
    }

    /// The next connection and its peer.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when nonblocking, [`io::ErrorKind::InvalidInput`] for a listener that asks; otherwise when the
    /// stack was shut down.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (sock, peer) = self.mode.reading(|cx| self.listener.poll_sock(cx))?;
        Ok((TcpStream::from_sock(sock), peer))
    }

    /// The next peer that wants to connect; decide with [`tcp::Incoming::accept_blocking`] and its siblings.
    ///
    /// # Errors
    /// As [`TcpListener::accept`], but [`io::ErrorKind::InvalidInput`] for a listener that does not ask.
    pub fn incoming_request(&self) -> io::Result<tcp::Incoming> {
        self.mode.reading(|cx| self.listener.poll_incoming(cx))
    }

    /// All connections to come.
    #[must_use]
    pub const fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Where it listens; unspecified and 0 stand for any.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Makes calls fail with [`io::ErrorKind::WouldBlock`] instead of blocking.
    ///
    /// # Errors
    /// None.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.mode.set_nonblocking(on);
        Ok(())
    }
}

impl From<tcp::TcpListener> for TcpListener {
    fn from(listener: tcp::TcpListener) -> Self {
        Self { listener, mode: Mode::default() }
    }
}

impl From<tcp::TcpStream> for TcpStream {
    fn from(stream: tcp::TcpStream) -> Self {
        Self::from_sock(stream.sock)
    }
}

/// The connections of a listener, without end.
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;
    fn next(&mut self) -> Option<Self::Item> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}
