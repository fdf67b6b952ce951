//! A UDP socket for async programs.
use crate::coop::polled;
use crate::error::{invalid, io_error};
use crate::family::meant;
use crate::registry::Side;
use crate::sock::Sock;
use crate::stack::Stack;
use bytes::Bytes;
use lowwater_core::base::Error;
use lowwater_core::stack::Stack as Core;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::task::{Context, Poll};

/// A UDP socket. Its methods are cancel-safe: a datagram is sent or received whole, or not at all. Dropping it still sends
/// what was written.
#[derive(Debug)]
pub struct UdpSocket {
    pub(crate) sock: Sock,
}

impl UdpSocket {
    /// A socket bound to an address; port 0 takes a free one.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], [`io::ErrorKind::AddrNotAvailable`].
    #[allow(clippy::unused_async, reason = "as tokio's, so that one import changes")]
    pub async fn bind(stack: &Stack, addr: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind_first(stack, addr)
    }

    pub(crate) fn bind_first(stack: &Stack, addr: impl ToSocketAddrs) -> io::Result<Self> {
        let mut last = invalid("no address to bind to");
        for addr in addr.to_socket_addrs()? {
            match Sock::open(&stack.handle, |inner, now| {
                inner.core.udp_bind(now, meant(addr)).map_err(io_error)
            }) {
                Ok(sock) => return Ok(Self { sock }),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// Fixes the peer: only its datagrams come in, and its ICMP errors are told.
    ///
    /// # Errors
    /// [`io::ErrorKind::NetworkUnreachable`], [`io::ErrorKind::AddrInUse`].
    #[allow(clippy::unused_async, reason = "as tokio's, so that one import changes")]
    pub async fn connect(&self, addr: impl ToSocketAddrs) -> io::Result<()> {
        self.connect_first(addr)
    }

    pub(crate) fn connect_first(&self, addr: impl ToSocketAddrs) -> io::Result<()> {
        let mut last = invalid("no address to connect to");
        for addr in addr.to_socket_addrs()? {
            match self.sock.call(|core, now, id| core.udp_connect(now, id, meant(addr))) {
                Ok(()) => return Ok(()),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// Sends a datagram to the first of the addresses.
    ///
    /// # Errors
    /// [`io::ErrorKind::NetworkUnreachable`], EMSGSIZE beyond 65,507 bytes, or a pending error.
    pub async fn send_to(&self, data: &[u8], addr: impl ToSocketAddrs) -> io::Result<usize> {
        let to = first(addr)?;
        self.send_bytes_to(Bytes::copy_from_slice(data), to).await
    }

    /// [`UdpSocket::send_to`] without a copy.
    ///
    /// # Errors
    /// Those of [`UdpSocket::send_to`].
    pub async fn send_bytes_to(&self, data: Bytes, to: SocketAddr) -> io::Result<usize> {
        polled(|cx| self.poll_send_to(cx, &data, Some(to))).await
    }

    /// Sends a datagram to the connected peer.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`], [`io::ErrorKind::ConnectionRefused`] when the peer said so to an earlier datagram,
    /// and those of [`UdpSocket::send_to`].
    pub async fn send(&self, data: &[u8]) -> io::Result<usize> {
        let data = Bytes::copy_from_slice(data);
        polled(|cx| self.poll_send_to(cx, &data, None)).await
    }

    /// Receives a datagram; what does not fit `buf` is lost.
    ///
    /// # Errors
    /// A pending error.
    pub async fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (data, from) = self.recv_bytes_from().await?;
        Ok((fill(buf, &data), from))
    }

    /// Receives a datagram without a copy.
    ///
    /// # Errors
    /// A pending error.
    pub async fn recv_bytes_from(&self) -> io::Result<(Bytes, SocketAddr)> {
        polled(|cx| self.poll_recv_from(cx)).await
    }

    /// Receives a datagram of the connected peer.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`], [`io::ErrorKind::ConnectionRefused`] when the peer's host said so.
    pub async fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.check_connected()?;
        Ok(self.recv_from(buf).await?.0)
    }

    /// [`UdpSocket::send_to`] or, without an address, [`UdpSocket::send`] as a poll function; `data` shares its memory.
    ///
    /// # Errors
    /// Those of [`UdpSocket::send_to`].
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        data: &Bytes,
        to: Option<SocketAddr>,
    ) -> Poll<io::Result<usize>> {
        let send = |core: &mut Core, now, id| match to {
            Some(to) => core.udp_send_to(now, id, data.clone(), meant(to)),
            None => core.udp_send(now, id, data.clone()),
        };
        self.sock.poll_send_message(cx, data.len(), send, |_, _, error| io_error(error))
    }

    /// [`UdpSocket::recv_bytes_from`] as a poll function.
    ///
    /// # Errors
    /// A pending error.
    pub fn poll_recv_from(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Bytes, SocketAddr)>> {
        self.sock.poll(cx, Side::Read, |core, now, id| core.udp_recv_from(now, id))
    }

    /// [`UdpSocket::send_to`] if there is room now.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], and those of [`UdpSocket::send_to`].
    pub fn try_send_to(&self, data: &[u8], to: SocketAddr) -> io::Result<usize> {
        let send =
            |core: &mut Core, now, id| core.udp_send_to(now, id, Bytes::copy_from_slice(data), meant(to));
        self.sock.send_message(data.len(), send)
    }

    /// [`UdpSocket::recv_from`] if a datagram waits.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], or a pending error.
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (data, from) = self.sock.call(|core, now, id| core.udp_recv_from(now, id))?;
        Ok((fill(buf, &data), from))
    }

    /// Waits until a datagram or an error waits.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub async fn readable(&self) -> io::Result<()> {
        polled(|cx| self.sock.poll_ready(cx, Side::Read)).await
    }

    /// How many hops datagrams to groups of IPv4 may take: 1, which stays on the link, where nobody has set it (RFC 1112 section 6.1). With 0
    /// they stay within the stack, where groups have no members. (IP_MULTICAST_TTL)
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] above 255, or when the stack was shut down.
    pub fn set_multicast_ttl_v4(&self, ttl: u32) -> io::Result<()> {
        self.set_group_ttl(0, ttl)
    }

    /// What [`UdpSocket::set_multicast_ttl_v4`] has set.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn multicast_ttl_v4(&self) -> io::Result<u32> {
        self.group_ttl(0)
    }

    /// The same of groups of IPv6. (IPV6_MULTICAST_HOPS)
    ///
    /// # Errors
    /// Those of [`UdpSocket::set_multicast_ttl_v4`].
    pub fn set_multicast_hops_v6(&self, hops: u32) -> io::Result<()> {
        self.set_group_ttl(1, hops)
    }

    /// What [`UdpSocket::set_multicast_hops_v6`] has set.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn multicast_hops_v6(&self) -> io::Result<u32> {
        self.group_ttl(1)
    }

    fn set_group_ttl(&self, family: usize, ttl: u32) -> io::Result<()> {
        let ttl = u8::try_from(ttl).map_err(|_| invalid(format!("{ttl} hops: there are 0 to 255")))?;
        self.sock.call(|core, _, id| {
            let mut marks = core.udp_marks(id)?;
            marks[family].group_ttl = ttl;
            core.udp_set_marks(id, marks)
        })
    }

    fn group_ttl(&self, family: usize) -> io::Result<u32> {
        self.sock.call(|core, _, id| core.udp_marks(id)).map(|marks| marks[family].group_ttl.into())
    }

    /// Our side.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.sock.local_addr()
    }

    /// The connected peer.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`].
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.sock.peer_addr()
    }

    /// The pending error, once. (SO_ERROR)
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.sock.take_error()
    }

    pub(crate) fn check_connected(&self) -> io::Result<()> {
        self.peer_addr().map(drop).map_err(|_| io_error(Error::NotConnected))
    }
}

pub(crate) fn first(addr: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    addr.to_socket_addrs()?.next().ok_or_else(|| invalid("no address to send to"))
}

pub(crate) fn fill(buf: &mut [u8], data: &[u8]) -> usize {
    let len = data.len().min(buf.len());
    buf[..len].copy_from_slice(&data[..len]);
    len
}
