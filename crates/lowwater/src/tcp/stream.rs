//! A TCP connection for async programs.
use super::split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use crate::coop::polled;
use crate::error::{invalid, io_error};
use crate::family::meant;
use crate::options;
use crate::registry::Side;
use crate::shared::Handle;
use crate::sock::Sock;
use crate::stack::Stack;
use bytes::Bytes;
use lowwater_core::tcp::{SocketOptions, TcpInfo, WaitReport};
use std::io;
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// How a connection is opened.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// The local address; where it is unspecified or the port is 0, that part is chosen.
    pub local: Option<SocketAddr>,
    /// Socket options from the start; `None`: the stack's defaults.
    pub options: Option<SocketOptions>,
}

/// A TCP connection.
///
/// It reads and writes by tokio's `AsyncRead` and `AsyncWrite`, and without a copy by [`TcpStream::read_chunk`] and
/// [`TcpStream::write_bytes`]. It works on any runtime.
///
/// **Dropping** it closes the connection in the background, as the kernel does: what was written is still delivered, then
/// FIN; unread data turns that into a reset (RFC 1122 section 4.2.2.13). With SO_LINGER of zero the drop resets. A drop
/// never blocks, whatever SO_LINGER says; [`Stack::shutdown`] waits for such connections.
///
/// Every method that waits is cancel-safe unless it says otherwise. Methods that state no other error fail only when the
/// stack was shut down.
#[derive(Debug)]
pub struct TcpStream {
    pub(crate) sock: Sock,
}

impl TcpStream {
    /// Opens a connection. The addresses are tried in turn; a host name would be looked up by the operating system, which
    /// blocks. Dropping the future gives the attempt up. `::ffff:a.b.c.d` is a.b.c.d, in all calls that take addresses, and
    /// [`peer_addr`](Self::peer_addr) says so.
    ///
    /// # Errors
    /// As std's: [`io::ErrorKind::ConnectionRefused`], [`io::ErrorKind::TimedOut`],
    /// [`io::ErrorKind::NetworkUnreachable`] and so on.
    pub async fn connect(stack: &Stack, addr: impl ToSocketAddrs) -> io::Result<Self> {
        Self::connect_with(stack, addr, &ConnectOptions::default()).await
    }

    /// [`TcpStream::connect`] with a local address or options.
    ///
    /// # Errors
    /// As [`TcpStream::connect`], and [`io::ErrorKind::AddrNotAvailable`] or [`io::ErrorKind::AddrInUse`] for the local
    /// address.
    pub async fn connect_with(
        stack: &Stack,
        addr: impl ToSocketAddrs,
        options: &ConnectOptions,
    ) -> io::Result<Self> {
        let mut last = invalid("no address to connect to");
        for remote in addr.to_socket_addrs()? {
            match start_connect(&stack.handle, remote, options) {
                Ok(sock) => match polled(|cx| sock.poll_connected(cx)).await {
                    Ok(()) => return Ok(Self { sock }),
                    Err(e) => last = e,
                },
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// Our side.
    ///
    /// # Errors
    /// See [`TcpStream`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.sock.local_addr()
    }

    /// The peer.
    ///
    /// # Errors
    /// See [`TcpStream`].
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.sock.peer_addr()
    }

    /// Reads into `buf` without taking the data off; 0 at the end of the stream.
    ///
    /// # Errors
    /// The connection's error.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        polled(|cx| self.sock.poll_recv(cx, buf, true)).await
    }

    /// Waits until something can be read: data, the end, or an error.
    ///
    /// # Errors
    /// See [`TcpStream`].
    pub async fn readable(&self) -> io::Result<()> {
        polled(|cx| self.sock.poll_ready(cx, Side::Read)).await
    }

    /// Waits until something can be written, by Linux's rule: a third of the buffer is free, and less than half of
    /// TCP_NOTSENT_LOWAT is unsent.
    ///
    /// # Errors
    /// See [`TcpStream`].
    pub async fn writable(&self) -> io::Result<()> {
        polled(|cx| self.sock.poll_ready(cx, Side::Write)).await
    }

    /// [`TcpStream::readable`] as a poll function.
    ///
    /// # Errors
    /// See [`TcpStream`].
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sock.poll_ready(cx, Side::Read)
    }

    /// [`TcpStream::writable`] as a poll function.
    ///
    /// # Errors
    /// See [`TcpStream`].
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sock.poll_ready(cx, Side::Write)
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], or the connection's error.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.sock.try_recv(buf, false)
    }

    /// Writes what fits.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], or the connection's error.
    pub fn try_write(&self, data: &[u8]) -> io::Result<usize> {
        self.sock.try_send(data)
    }

    /// Writes all of `data` without copying it; the stack holds it until the peer has acknowledged it, and then lets go of it under its lock:
    /// where that runs code of yours ([`Bytes::from_owner`]), it must not call the stack.
    ///
    /// Not cancel-safe: when the future is dropped, part of it may have been written. [`TcpStream::write_bytes_some`] is.
    ///
    /// # Errors
    /// The connection's error.
    pub async fn write_bytes(&self, mut data: Bytes) -> io::Result<()> {
        while !data.is_empty() {
            self.write_bytes_some(&mut data).await?;
        }
        Ok(())
    }

    /// Takes what fits off the front of `data`, without a copy, and returns its length; waits when nothing fits.
    ///
    /// # Errors
    /// The connection's error.
    pub async fn write_bytes_some(&self, data: &mut Bytes) -> io::Result<usize> {
        polled(|cx| self.sock.poll_send_bytes(cx, data)).await
    }

    /// The next piece of the stream, as it lies in the received packet, without a copy; `None` at the end.
    ///
    /// # Errors
    /// The connection's error.
    pub async fn read_chunk(&self) -> io::Result<Option<Bytes>> {
        polled(|cx| self.sock.poll_chunk(cx, usize::MAX)).await
    }

    /// [`TcpStream::read_chunk`] as a poll function, with an upper bound in bytes.
    ///
    /// # Errors
    /// The connection's error.
    pub fn poll_read_chunk(&self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Option<Bytes>>> {
        self.sock.poll_chunk(cx, max)
    }

    /// Closes one direction or both, as std's `shutdown`. (`AsyncWriteExt::shutdown` closes the writing direction.)
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`].
    pub fn shutdown_half(&self, how: Shutdown) -> io::Result<()> {
        self.sock.shutdown(how)
    }

    /// Resets the connection at once.
    pub fn abort(self) {
        self.sock.abort();
    }

    /// TCP_QUICKACK: acknowledge at once for a while, or go back to delayed acknowledgements. As in Linux it does not last.
    ///
    /// # Errors
    /// See [`TcpStream`].
    pub fn set_quickack(&self, on: bool) -> io::Result<()> {
        self.sock.set_quickack(on)
    }

    /// TCP_NODELAY.
    ///
    /// # Errors
    /// See [`TcpStream`].
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.sock.set_options(|o| o.nodelay = on)
    }

    /// TCP_NODELAY.
    ///
    /// # Errors
    /// See [`TcpStream`].
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(self.sock.options()?.nodelay)
    }

    /// SO_LINGER: `Some(ZERO)` makes the drop reset the connection.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] beyond 2^31 - 1 seconds; see [`TcpStream`].
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        self.sock.set_options(|o| o.linger = linger)
    }

    /// SO_LINGER.
    ///
    /// # Errors
    /// See [`TcpStream`].
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(self.sock.options()?.linger)
    }

    /// All options.
    ///
    /// # Errors
    /// See [`TcpStream`].
    pub fn options(&self) -> io::Result<SocketOptions> {
        self.sock.options()
    }

    /// Changes options, bounded as setsockopt() bounds them: [`SocketOptions`] names the bounds, and [`options`](Self::options) tells what came of it.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] in words for a number out of bounds, and then nothing is changed; see [`TcpStream`].
    pub fn set_options(&self, change: impl FnOnce(&mut SocketOptions)) -> io::Result<()> {
        self.sock.set_options(change)
    }

    /// The pending error, once. (SO_ERROR)
    ///
    /// # Errors
    /// See [`TcpStream`].
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.sock.take_error()
    }

    /// TCP_INFO.
    ///
    /// # Errors
    /// See [`TcpStream`].
    pub fn info(&self) -> io::Result<TcpInfo> {
        self.sock.info()
    }

    /// Why it does not send, for how long, and how often each reason was met.
    ///
    /// # Errors
    /// See [`TcpStream`].
    pub fn wait_report(&self) -> io::Result<WaitReport> {
        self.sock.wait_report()
    }

    /// Halves that borrow the stream.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        (ReadHalf(self), WriteHalf(self))
    }

    /// Halves for different tasks. Dropping the writing half sends FIN.
    #[must_use]
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        let stream = Arc::new(self);
        (OwnedReadHalf::new(stream.clone()), OwnedWriteHalf::new(stream))
    }
}

/// Sends the SYN.
pub(crate) fn start_connect(
    handle: &Handle,
    remote: SocketAddr,
    options: &ConnectOptions,
) -> io::Result<Sock> {
    Sock::open(handle, |inner, now| {
        let socket_options = options::tcp_or_new(options.options.as_ref(), inner.core.sysctl())?;
        let (remote, local) = (meant(remote), options.local.map(meant));
        inner.core.tcp_connect(now, remote, local, &socket_options).map_err(io_error)
    })
}
