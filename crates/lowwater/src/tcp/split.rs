//! The two halves of a connection, borrowed or for different tasks.
use super::TcpStream;
use bytes::Bytes;
use std::fmt;
use std::io;
use std::net::Shutdown;
use std::sync::Arc;

/// The reading half of a borrowed stream.
#[derive(Debug)]
pub struct ReadHalf<'a>(pub(super) &'a TcpStream);

/// The writing half of a borrowed stream.
#[derive(Debug)]
pub struct WriteHalf<'a>(pub(super) &'a TcpStream);

/// The reading half, for a task of its own.
#[derive(Debug)]
pub struct OwnedReadHalf(pub(super) Arc<TcpStream>);

/// The writing half, for a task of its own. Dropping it sends FIN; [`OwnedWriteHalf::forget`] does not.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    pub(super) stream: Arc<TcpStream>,
    shutdown: bool,
}

impl OwnedReadHalf {
    pub(super) const fn new(stream: Arc<TcpStream>) -> Self {
        Self(stream)
    }

    /// Puts the halves together again.
    ///
    /// # Errors
    /// When they are of different connections; here they are again.
    pub fn reunite(self, other: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
        if !Arc::ptr_eq(&self.0, &other.stream) {
            return Err(ReuniteError(self, other));
        }
        other.forget();
        // Two references existed, of which one is gone.
        Ok(Arc::into_inner(self.0).expect("halves cannot be cloned"))
    }

    /// See [`TcpStream::read_chunk`].
    ///
    /// # Errors
    /// The connection's error.
    pub async fn read_chunk(&self) -> io::Result<Option<Bytes>> {
        self.0.read_chunk().await
    }

    /// See [`TcpStream::peek`].
    ///
    /// # Errors
    /// The connection's error.
    pub async fn peek(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.peek(buf).await
    }
}

impl OwnedWriteHalf {
    pub(super) const fn new(stream: Arc<TcpStream>) -> Self {
        Self { stream, shutdown: true }
    }

    /// Puts the halves together again.
    ///
    /// # Errors
    /// As [`OwnedReadHalf::reunite`].
    pub fn reunite(self, other: OwnedReadHalf) -> Result<TcpStream, ReuniteError> {
        other.reunite(self)
    }

    /// Drops the half without sending FIN.
    pub fn forget(mut self) {
        self.shutdown = false;
    }

    /// See [`TcpStream::write_bytes`].
    ///
    /// # Errors
    /// The connection's error.
    pub async fn write_bytes(&self, data: Bytes) -> io::Result<()> {
        self.stream.write_bytes(data).await
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if self.shutdown {
            let _ = self.stream.shutdown_half(Shutdown::Write);
        }
    }
}

impl AsRef<TcpStream> for OwnedReadHalf {
    fn as_ref(&self) -> &TcpStream {
        &self.0
    }
}

impl AsRef<TcpStream> for OwnedWriteHalf {
    fn as_ref(&self) -> &TcpStream {
        &self.stream
    }
}

impl AsRef<TcpStream> for ReadHalf<'_> {
    fn as_ref(&self) -> &TcpStream {
        self.0
    }
}

impl AsRef<TcpStream> for WriteHalf<'_> {
    fn as_ref(&self) -> &TcpStream {
        self.0
    }
}

/// Halves of different connections.
#[derive(Debug)]
pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

impl fmt::Display for ReuniteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these halves are not of the same connection")
    }
}

impl std::error::Error for ReuniteError {}
