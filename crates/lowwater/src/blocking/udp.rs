//! UDP sockets that block.
use super::Mode;
use crate::stack::Stack;
use crate::udp::{self, fill, first};
use bytes::Bytes;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// A UDP socket that blocks, like `std::net::UdpSocket`.
#[derive(Debug)]
pub struct UdpSocket {
    pub(crate) socket: udp::UdpSocket,
    mode: Mode,
}

impl UdpSocket {
    /// A socket bound to an address; port 0 takes a free one.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], [`io::ErrorKind::AddrNotAvailable`].
    pub fn bind(stack: &Stack, addr: impl ToSocketAddrs) -> io::Result<Self> {
        Ok(Self { socket: udp::UdpSocket::bind_first(stack, addr)?, mode: Mode::default() })
    }

    /// Fixes the peer.
    ///
    /// # Errors
    /// [`io::ErrorKind::NetworkUnreachable`], [`io::ErrorKind::AddrInUse`].
    pub fn connect(&self, addr: impl ToSocketAddrs) -> io::Result<()> {
        self.socket.connect_first(addr)
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// As [`udp::UdpSocket::send_to`].
    pub fn send_to(&self, data: &[u8], addr: impl ToSocketAddrs) -> io::Result<usize> {
        let (data, to) = (Bytes::copy_from_slice(data), first(addr)?);
        self.mode.writing(|cx| self.socket.poll_send_to(cx, &data, Some(to)))
    }

    /// Sends a datagram to the connected peer.
    ///
    /// # Errors
    /// As [`udp::UdpSocket::send`].
    pub fn send(&self, data: &[u8]) -> io::Result<usize> {
        let data = Bytes::copy_from_slice(data);
        self.mode.writing(|cx| self.socket.poll_send_to(cx, &data, None))
    }

    /// Receives a datagram; what does not fit `buf` is lost.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] after the read timeout, or a pending error.
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (data, from) = self.mode.reading(|cx| self.socket.poll_recv_from(cx))?;
        Ok((fill(buf, &data), from))
    }

    /// Receives a datagram of the connected peer.
    ///
    /// # Errors
    /// As [`udp::UdpSocket::recv`].
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.check_connected()?;
        Ok(self.recv_from(buf)?.0)
    }

    /// How many hops datagrams to groups of IPv4 may take. (IP_MULTICAST_TTL)
    ///
    /// # Errors
    /// As [`udp::UdpSocket::set_multicast_ttl_v4`].
    pub fn set_multicast_ttl_v4(&self, ttl: u32) -> io::Result<()> {
        self.socket.set_multicast_ttl_v4(ttl)
    }

    /// What [`UdpSocket::set_multicast_ttl_v4`] has set.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn multicast_ttl_v4(&self) -> io::Result<u32> {
        self.socket.multicast_ttl_v4()
    }

    /// The same of groups of IPv6. (IPV6_MULTICAST_HOPS)
    ///
    /// # Errors
    /// As [`udp::UdpSocket::set_multicast_ttl_v4`].
    pub fn set_multicast_hops_v6(&self, hops: u32) -> io::Result<()> {
        self.socket.set_multicast_hops_v6(hops)
    }

    /// What [`UdpSocket::set_multicast_hops_v6`] has set.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn multicast_hops_v6(&self) -> io::Result<u32> {
        self.socket.multicast_hops_v6()
    }

    /// Our side.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The connected peer.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`].
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.peer_addr()
    }

    /// How long a receive blocks; then it fails with [`io::ErrorKind::WouldBlock`].
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for zero.
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.mode.read.set(limit)
    }

    /// How long a send blocks; then it fails with [`io::ErrorKind::WouldBlock`].
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for zero.
    pub fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.mode.write.set(limit)
    }

    /// Makes calls fail with [`io::ErrorKind::WouldBlock`] instead of blocking.
    ///
    /// # Errors
    /// None.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.mode.set_nonblocking(on);
        Ok(())
    }

    /// The pending error, once. (SO_ERROR)
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket.take_error()
    }
}
