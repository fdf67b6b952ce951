//! SCTP sockets that block.
use super::Mode;
use crate::error::IntoIo;
use crate::sctp::{self, AssocId, Association, ConnectOptions, ListenOptions, all, association_calls};
use crate::stack::Stack;
use bytes::Bytes;
use lowwater_core::base::{Instant, SocketId};
use lowwater_core::sctp::{Received, SctpOptions, SendInfo};
use lowwater_core::stack::Stack as Core;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// What a blocking socket has as std's: timeouts, and not to block at all.
macro_rules! modes {
    () => {
        /// How long a read blocks; then it fails with [`io::ErrorKind::WouldBlock`].
        ///
        /// # Errors
        /// [`io::ErrorKind::InvalidInput`] for zero.
        pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
            self.mode.read.set(limit)
        }

        /// How long a send, or the end of [`finish`](SctpAssociation::finish), blocks; then it fails with
        /// [`io::ErrorKind::WouldBlock`].
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
    };
}

/// A listener of associations that blocks; see [`sctp::SctpListener`].
#[derive(Debug)]
pub struct SctpListener {
    pub(crate) listener: sctp::SctpListener,
    mode: Mode,
}

impl SctpListener {
    /// Listens at an address, or at several with one port; port 0 takes a free one.
    ///
    /// # Errors
    /// As [`sctp::SctpListener::bind`].
    pub fn bind(stack: &Stack, addrs: impl ToSocketAddrs) -> io::Result<Self> {
        Self::listen(stack, &ListenOptions { local: all(addrs)?, ..ListenOptions::default() })
    }

    /// Listens as `options` say.
    ///
    /// # Errors
    /// As [`sctp::SctpListener::bind`].
    pub fn listen(stack: &Stack, options: &ListenOptions) -> io::Result<Self> {
        Ok(Self { listener: sctp::SctpListener::listen(stack, options)?, mode: Mode::default() })
    }

    /// The next association and the peer's primary address.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] after the timeout, and when the stack was shut down.
    pub fn accept(&self) -> io::Result<(SctpAssociation, SocketAddr)> {
        let (assoc, peer) = self.mode.reading(|cx| self.listener.poll_accept(cx))?;
        Ok((SctpAssociation::new(assoc), peer))
    }

    /// Its first address; unspecified for any.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    modes!();
}

/// An association that blocks; see [`sctp::SctpAssociation`], also on what a drop does.
#[derive(Debug)]
pub struct SctpAssociation {
    pub(crate) assoc: sctp::SctpAssociation,
    mode: Mode,
}

impl SctpAssociation {
    fn new(assoc: sctp::SctpAssociation) -> Self {
        Self { assoc, mode: Mode::default() }
    }

    /// Opens an association with the peer that has this address, or these.
    ///
    /// # Errors
    /// As [`sctp::SctpAssociation::connect`].
    pub fn connect(stack: &Stack, addrs: impl ToSocketAddrs) -> io::Result<Self> {
        Self::connect_with(stack, addrs, &ConnectOptions::default())
    }

    /// As [`connect`](Self::connect), from certain addresses or with certain options.
    ///
    /// # Errors
    /// As [`sctp::SctpAssociation::connect_with`].
    pub fn connect_with(
        stack: &Stack,
        addrs: impl ToSocketAddrs,
        options: &ConnectOptions,
    ) -> io::Result<Self> {
        let assoc = Self::new(sctp::SctpAssociation::open(stack, addrs, options)?);
        super::wait(None, |cx| assoc.assoc.poll_connected(cx))?;
        Ok(assoc)
    }

    /// Queues a message, which is copied.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] after the timeout; as [`sctp::SctpAssociation::send`].
    pub fn send(&self, data: &[u8], info: SendInfo) -> io::Result<()> {
        self.send_bytes(&Bytes::copy_from_slice(data), info)
    }

    /// [`send`](Self::send) without a copy; `data` shares its memory.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    pub fn send_bytes(&self, data: &Bytes, info: SendInfo) -> io::Result<()> {
        self.mode.writing(|cx| self.assoc.poll_send(cx, data, info))
    }

    /// The next message or notification; `None` when the peer sends nothing more.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] after the timeout; as [`sctp::SctpAssociation::recv`].
    pub fn recv(&self) -> io::Result<Option<Received>> {
        self.recv_part(usize::MAX)
    }

    /// As [`recv`](Self::recv), in parts of at most `max` bytes (one at least).
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv).
    pub fn recv_part(&self, max: usize) -> io::Result<Option<Received>> {
        self.mode.reading(|cx| self.assoc.poll_recv(cx, max))
    }

    /// Closes in good order and waits for the end of it.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] after the timeout; what ended the association instead.
    pub fn finish(&self) -> io::Result<()> {
        self.shutdown()?;
        self.mode.writing(|cx| self.assoc.poll_closed(cx))
    }

    association_calls!();
    modes!();

    fn call<R, E: IntoIo>(
        &self,
        f: impl FnOnce(&mut Core, Instant, SocketId) -> Result<R, E>,
    ) -> io::Result<R> {
        self.assoc.sock.call(f)
    }
}

/// A socket with many associations that blocks; see [`sctp::SctpSocket`].
#[derive(Debug)]
pub struct SctpSocket {
    pub(crate) socket: sctp::SctpSocket,
    mode: Mode,
}

impl SctpSocket {
    /// A socket at an address, or at several with one port; port 0 takes a free one.
    ///
    /// # Errors
    /// As [`sctp::SctpSocket::bind`].
    pub fn bind(stack: &Stack, addrs: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind_with(stack, &ListenOptions { local: all(addrs)?, ..ListenOptions::default() })
    }

    /// A socket as `options` say.
    ///
    /// # Errors
    /// As [`sctp::SctpSocket::bind`].
    pub fn bind_with(stack: &Stack, options: &ListenOptions) -> io::Result<Self> {
        Ok(Self { socket: sctp::SctpSocket::bind_with(stack, options)?, mode: Mode::default() })
    }

    /// Opens an association and waits until it is up.
    ///
    /// # Errors
    /// As [`sctp::SctpSocket::connect`].
    pub fn connect(&self, addrs: impl ToSocketAddrs) -> io::Result<AssocId> {
        let mut attempt = self.socket.attempt(addrs)?;
        super::wait(None, |cx| attempt.poll(cx))
    }

    /// Queues a message for an association, which is copied.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] after the timeout; as [`sctp::SctpSocket::send`].
    pub fn send(&self, to: AssocId, data: &[u8], info: SendInfo) -> io::Result<()> {
        self.send_bytes(to, &Bytes::copy_from_slice(data), info)
    }

    /// [`send`](Self::send) without a copy; `data` shares its memory.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    pub fn send_bytes(&self, to: AssocId, data: &Bytes, info: SendInfo) -> io::Result<()> {
        self.mode.writing(|cx| self.socket.poll_send(cx, to, data, info))
    }

    /// Queues a message for the peer at this address and opens the association if there is none. Its name.
    ///
    /// # Errors
    /// As [`sctp::SctpSocket::send_to`].
    pub fn send_to(&self, data: &[u8], peer: SocketAddr, info: SendInfo) -> io::Result<AssocId> {
        let to = self.socket.found_or_opened(peer)?;
        self.send(to, data, info)?;
        Ok(to)
    }

    /// The next message or notification of any association, with its name.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] after the timeout, and when the stack was shut down.
    pub fn recv(&self) -> io::Result<(AssocId, Received)> {
        self.recv_part(usize::MAX)
    }

    /// As [`recv`](Self::recv), in parts of at most `max` bytes (one at least).
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv).
    pub fn recv_part(&self, max: usize) -> io::Result<(AssocId, Received)> {
        self.mode.reading(|cx| self.socket.poll_recv(cx, max))
    }

    /// Its associations, in the order of their names.
    #[must_use]
    pub fn assocs(&self) -> Vec<AssocId> {
        self.socket.assocs()
    }

    /// One of its associations, to ask and to set.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`] when it is over.
    pub fn assoc(&self, id: AssocId) -> io::Result<Association<'_>> {
        self.socket.assoc(id)
    }

    /// Makes an association of this socket one of its own.
    ///
    /// # Errors
    /// As [`sctp::SctpSocket::peel_off`].
    pub fn peel_off(&self, id: AssocId) -> io::Result<SctpAssociation> {
        Ok(SctpAssociation::new(self.socket.peel_off(id)?))
    }

    /// Its first address; unspecified for any.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Changes the options of associations to come.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn set_options(&self, change: impl FnOnce(&mut SctpOptions)) -> io::Result<()> {
        self.socket.set_options(change)
    }

    modes!();
}
