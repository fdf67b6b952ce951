//! A link of SCTP packets in datagrams that the application carries, in DTLS for example (RFC 8261): what WebRTC gateways need.
use super::owned::{self, Link, LinkPacket, OwnedPort};
use crate::coop::polled;
use bytes::Bytes;
use lowwater_core::base::{Carrier, Instant};
use lowwater_core::device::{DeviceCaps, QueueLimit, datagram};
use std::io;
use std::net::Ipv4Addr;
use std::ops::Deref;
use std::task::{Context, Poll, Waker};

/// A link of datagrams of at most `largest` bytes, one SCTP packet in each: the stack's end, to be given to
/// [`crate::Builder::device`], and the application's. `limit` bounds each direction, as in [`owned`](super::owned()).
///
/// Associations are opened and accepted by addresses as everywhere, but no packet carries them: they are names, `local` for this side
/// and one of the application's choice for each peer, so that one link serves many. Give the device `local` with a subnet around
/// the peers' names. With [`Carrier::Dtls`] CRC32c is left out for peers who agree (RFC 9653).
#[must_use]
pub fn datagrams(
    largest: u16,
    carrier: Carrier,
    local: Ipv4Addr,
    limit: QueueLimit,
) -> (OwnedPort, DatagramLink) {
    let (port, link) = owned::of(DeviceCaps::datagrams(largest, carrier), limit);
    (port, DatagramLink { link, local })
}

/// A datagram of the stack, in the hands of the application. Drop it when it has really left: only then its association may send more.
#[derive(Debug)]
pub struct Datagram {
    peer: Ipv4Addr,
    bytes: Bytes,
    _credit: LinkPacket,
}

impl Datagram {
    /// The name of whom it is for.
    #[must_use]
    pub const fn peer(&self) -> Ipv4Addr {
        self.peer
    }

    /// The SCTP packet; a cheap clone that may outlive the credit.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }
}

impl Deref for Datagram {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The application's end. Clones share it; its methods may be called from any thread and are cancel-safe.
#[derive(Clone, Debug)]
pub struct DatagramLink {
    link: Link,
    local: Ipv4Addr,
}

impl DatagramLink {
    /// The next datagram of the stack; `None` when the stack is gone.
    pub async fn recv(&self) -> Option<Datagram> {
        polled(|cx| self.poll_recv(cx)).await
    }

    /// [`DatagramLink::recv`] for programs without async.
    #[must_use]
    pub fn recv_blocking(&self) -> Option<Datagram> {
        crate::blocking::wait(None, |cx| self.poll_recv(cx).map(Ok)).ok().flatten()
    }

    /// The next datagram of the stack, if one waits.
    #[must_use]
    pub fn try_recv(&self) -> Option<Datagram> {
        match self.poll_recv(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(datagram) => datagram,
            Poll::Pending => None,
        }
    }

    /// [`DatagramLink::recv`] as a poll function. What the stack sends there beside SCTP is dropped.
    pub fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<Option<Datagram>> {
        loop {
            let Poll::Ready(packet) = self.link.poll_recv(cx) else { return Poll::Pending };
            let Some(packet) = packet else { return Poll::Ready(None) };
            if let Some((peer, bytes)) = datagram::unwrap(&packet.bytes()) {
                return Poll::Ready(Some(Datagram { peer, bytes, _credit: packet }));
            }
        }
    }

    /// Gives the stack a datagram that came from the peer of this name; waits while the link is full.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for what cannot be an SCTP packet, or the stack is gone.
    pub async fn send(&self, peer: Ipv4Addr, datagram: Bytes) -> io::Result<()> {
        polled(|cx| self.poll_send(cx, peer, &datagram)).await
    }

    /// [`DatagramLink::send`] for programs without async.
    ///
    /// # Errors
    /// Those of [`DatagramLink::send`].
    pub fn send_blocking(&self, peer: Ipv4Addr, datagram: &Bytes) -> io::Result<()> {
        crate::blocking::wait(None, |cx| self.poll_send(cx, peer, datagram))
    }

    /// Gives the stack a datagram if there is room; who reads from DTLS drops it otherwise.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], or those of [`DatagramLink::send`].
    pub fn try_send(&self, peer: Ipv4Addr, datagram: &Bytes) -> io::Result<()> {
        match self.poll_send(&mut Context::from_waker(Waker::noop()), peer, datagram) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// [`DatagramLink::send`] as a poll function; `datagram` shares its memory.
    ///
    /// # Errors
    /// Those of [`DatagramLink::send`].
    pub fn poll_send(&self, cx: &mut Context<'_>, peer: Ipv4Addr, datagram: &Bytes) -> Poll<io::Result<()>> {
        match datagram::wrap(datagram.clone(), peer, self.local, Instant::ZERO) {
            Some(packet) => self.link.poll_send_packet(cx, &packet),
            None => Poll::Ready(Err(io::ErrorKind::InvalidInput.into())),
        }
    }
}
