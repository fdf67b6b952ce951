//! A TCP listener for async programs, with or without questions before the handshake.
use super::incoming::Incoming;
use super::stream::TcpStream;
use crate::coop::polled;
use crate::error::{invalid, io_error};
use crate::family::meant;
use crate::options;
use crate::shared::Inner;
use crate::sock::Sock;
use crate::stack::Stack;
use lowwater_core::stack::{ListenAddr, ListenOptions as CoreOptions};
use lowwater_core::tcp::SocketOptions;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::task::{Context, Poll};

/// Where and how a listener listens.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// The address; `None`: any, of both families; `::ffff:0.0.0.0`, as 0.0.0.0: any of IPv4.
    pub ip: Option<IpAddr>,
    /// The port; `Some(0)`: a free one; `None`: every port that no other listener has.
    pub port: Option<u16>,
    /// Connections that may wait to be accepted; bounded by the sysctl `somaxconn`.
    pub backlog: u32,
    /// Ask before a SYN is answered: connections come by [`TcpListener::incoming_request`] instead of `accept`.
    pub ask: bool,
    /// Options of accepted connections; `None`: the stack's defaults.
    pub options: Option<SocketOptions>,
}

impl Default for ListenOptions {
    /// Any address, any port, a backlog of 1,024, no questions.
    fn default() -> Self {
        Self { ip: None, port: None, backlog: 1_024, ask: false, options: None }
    }
}

impl From<SocketAddr> for ListenOptions {
    /// This address; an unspecified one, ::ffff:0.0.0.0 among them, stands for any of both families.
    fn from(addr: SocketAddr) -> Self {
        let ListenAddr { ip, port } = meant(addr).into();
        Self { ip, port, ..Self::default() }
    }
}

/// What `accept` says where it would wait for ever.
const ASKS: &str = "this listener asks: incoming_request() tells who wants to connect, and Incoming::accept() gives the connection";
/// What `incoming_request` says where it would wait for ever.
const DOES_NOT_ASK: &str = "this listener does not ask: accept() gives its connections (or listen with bind_any() or ListenOptions::ask)";

/// A TCP listener. Dropping it resets connections that nobody has accepted. Its methods are cancel-safe; those that state
/// no other error fail only when the stack was shut down.
#[derive(Debug)]
pub struct TcpListener {
    pub(crate) sock: Sock,
    asks: bool,
}

impl TcpListener {
    /// Listens at an address; port 0 takes a free one.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], [`io::ErrorKind::AddrNotAvailable`].
    #[allow(clippy::unused_async, reason = "as tokio's, so that one import changes")]
    pub async fn bind(stack: &Stack, addr: impl ToSocketAddrs) -> io::Result<Self> {
        bind_first(stack, addr)
    }

    /// Listens on every address and every port, the stack's own or not, and asks about each request: what a transparent
    /// proxy needs. Devices of the stack accept packets to any address from now on, as with [`Builder::any_address`](crate::Builder::any_address), also
    /// when the listener is gone: connections that it has brought live on at such addresses. What comes for nobody then is answered by a reset, and
    /// binding finds no address foreign.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] when there is such a listener.
    pub fn bind_any(stack: &Stack) -> io::Result<Self> {
        let listener = Self::listen(stack, &ListenOptions { ask: true, ..ListenOptions::default() })?;
        stack.handle.enter_live(|inner, _, _| {
            for &dev in &inner.devices {
                inner.core.set_any_address(dev, true).map_err(io_error)?;
            }
            Ok(())
        })?;
        Ok(listener)
    }

    /// Listens as `options` say.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], [`io::ErrorKind::AddrNotAvailable`]; [`io::ErrorKind::InvalidInput`] for options that no connection could work with.
    pub fn listen(stack: &Stack, options: &ListenOptions) -> io::Result<Self> {
        let sock = Sock::open(&stack.handle, |inner, now| {
            let inherited = options::tcp_or_new(options.options.as_ref(), inner.core.sysctl())?;
            let core =
                CoreOptions { backlog: options.backlog, ask: options.ask, ..CoreOptions::new(inherited) };
            let at = ListenAddr { ip: options.ip.map(|ip| ip.to_canonical()), port: options.port };
            let id = inner.core.tcp_listen(now, at, core).map_err(io_error)?;
            if options.ask {
                inner.asks.insert(id);
            }
            Ok(id)
        })?;
        Ok(Self { sock, asks: options.ask })
    }

    /// The next connection and its peer.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a listener that asks; see [`TcpListener`].
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        polled(|cx| self.poll_accept(cx)).await
    }

    /// [`TcpListener::accept`] as a poll function.
    ///
    /// # Errors
    /// See [`TcpListener`].
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        self.poll_sock(cx).map_ok(|(sock, peer)| (TcpStream { sock }, peer))
    }

    /// The next connection of a listener, as a socket that somebody holds.
    pub(crate) fn poll_sock(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Sock, SocketAddr)>> {
        if self.asks {
            return Poll::Ready(Err(invalid(ASKS)));
        }
        let sock = &self.sock;
        let accepted = sock.poll_inner(cx, |inner, now| {
            let (id, peer) = inner.core.tcp_accept(now, sock.id)?;
            inner.registry.insert(id);
            Ok((id, peer))
        });
        accepted.map_ok(|(id, peer)| (Sock::new(sock.handle.clone(), id), peer))
    }

    /// The next peer that wants to connect, before its SYN is answered.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a listener that does not ask; see [`TcpListener`].
    pub async fn incoming_request(&self) -> io::Result<Incoming> {
        polled(|cx| self.poll_incoming(cx)).await
    }

    /// [`TcpListener::incoming_request`] as a poll function.
    ///
    /// # Errors
    /// See [`TcpListener`].
    pub fn poll_incoming(&self, cx: &mut Context<'_>) -> Poll<io::Result<Incoming>> {
        use lowwater_core::base::Error::{NoSuchSocket, WouldBlock};
        if !self.asks {
            return Poll::Ready(Err(invalid(DOES_NOT_ASK)));
        }
        let sock = &self.sock;
        let next = |inner: &mut Inner, _| {
            let none = if inner.asks.knows(sock.id) { WouldBlock } else { NoSuchSocket };
            inner.asks.next(sock.id).ok_or(none)
        };
        sock.poll_inner(cx, next)
            .map_ok(|(request, tuple)| Incoming::new(sock.handle.clone(), sock.id, request, tuple))
    }

    /// Where it listens; unspecified and 0 stand for any.
    ///
    /// # Errors
    /// See [`TcpListener`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.sock.local_addr()
    }

    /// Changes the options that accepted connections get, bounded as [`TcpStream::set_options`] has it.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] in words for a number out of bounds; see [`TcpListener`].
    pub fn set_options(&self, change: impl FnOnce(&mut SocketOptions)) -> io::Result<()> {
        self.sock.set_options(change)
    }
}

/// Listens at the first address that can be had.
pub(crate) fn bind_first(stack: &Stack, addr: impl ToSocketAddrs) -> io::Result<TcpListener> {
    let mut last = invalid("no address to listen at");
    for addr in addr.to_socket_addrs()? {
        match TcpListener::listen(stack, &addr.into()) {
            Ok(listener) => return Ok(listener),
            Err(e) => last = e,
        }
    }
    Err(last)
}
