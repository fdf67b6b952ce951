//! The I/O traits of tokio and of futures for streams and their halves.
#![cfg_attr(
    not(any(feature = "tokio", feature = "futures-io")),
    allow(unused, reason = "no trait to implement")
)]
use super::TcpStream;
use super::split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll};

impl TcpStream {
    /// As tokio has it, what is not connected any more is closed already.
    fn poll_close_write(&self) -> Poll<io::Result<()>> {
        match self.shutdown_half(Shutdown::Write) {
            Err(e) if e.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            other => Poll::Ready(other),
        }
    }
}

macro_rules! read {
    ($type:ty) => {
        #[cfg(feature = "tokio")]
        impl tokio::io::AsyncRead for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut tokio::io::ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let room = buf.remaining();
                if room == 0 {
                    return Poll::Ready(Ok(()));
                }
                // A task that always finds data must let others run: tokio's budget, as its own sockets spend it.
                let budget = std::task::ready!(tokio::task::coop::poll_proceed(cx));
                let sock = &self.as_ref().get_ref().as_stream().sock;
                let polled = sock.poll_recv_with(cx, room, &mut |piece| buf.put_slice(piece));
                if polled.is_ready() {
                    budget.made_progress();
                }
                polled.map_ok(|_| ())
            }
        }

        #[cfg(feature = "futures-io")]
        impl futures_io::AsyncRead for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                if buf.is_empty() {
                    return Poll::Ready(Ok(0));
                }
                self.as_ref().get_ref().as_stream().sock.poll_recv(cx, buf, false)
            }
        }
    };
}

macro_rules! write {
    ($type:ty) => {
        #[cfg(feature = "tokio")]
        impl tokio::io::AsyncWrite for $type {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                data: &[u8],
            ) -> Poll<io::Result<usize>> {
                let budget = std::task::ready!(tokio::task::coop::poll_proceed(cx));
                let polled = self.as_ref().get_ref().as_stream().sock.poll_send(cx, data);
                if polled.is_ready() {
                    budget.made_progress();
                }
                polled
            }

            /// Nothing is held back here: the stack sends on its own.
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.as_ref().get_ref().as_stream().poll_close_write()
            }
        }

        #[cfg(feature = "futures-io")]
        impl futures_io::AsyncWrite for $type {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                data: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.as_ref().get_ref().as_stream().sock.poll_send(cx, data)
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.as_ref().get_ref().as_stream().poll_close_write()
            }
        }
    };
}

/// Whose connection it is.
trait AsStream {
    fn as_stream(&self) -> &TcpStream;
}

impl AsStream for TcpStream {
    fn as_stream(&self) -> &TcpStream {
        self
    }
}

impl AsStream for ReadHalf<'_> {
    fn as_stream(&self) -> &TcpStream {
        self.0
    }
}

impl AsStream for WriteHalf<'_> {
    fn as_stream(&self) -> &TcpStream {
        self.0
    }
}

impl AsStream for OwnedReadHalf {
    fn as_stream(&self) -> &TcpStream {
        &self.0
    }
}

impl AsStream for OwnedWriteHalf {
    fn as_stream(&self) -> &TcpStream {
        &self.stream
    }
}

read!(TcpStream);
read!(ReadHalf<'_>);
read!(OwnedReadHalf);
write!(TcpStream);
write!(WriteHalf<'_>);
write!(OwnedWriteHalf);
