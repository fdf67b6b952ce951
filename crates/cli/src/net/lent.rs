//! Connections under hyper with few copies: slices of a body's pieces are given to the stack as the pieces they are.
use bytes::Bytes;
use lowwater::TcpStream;
use std::collections::VecDeque;
use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Pieces that a connection's body has handed to hyper and that were not written yet, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lent(Arc<Mutex<VecDeque<Bytes>>>);

impl Lent {
    /// Notes a piece before it is handed out.
    pub(crate) fn lend(&self, piece: &Bytes) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(piece.clone());
    }

    /// The piece in which `slice` lies, cut to it; pieces before it have been written.
    fn find(&self, slice: &[u8]) -> Option<Bytes> {
        let mut pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = slice.as_ptr_range();
        let at = pieces.iter().position(|piece| {
            let have = piece.as_ptr_range();
            have.start <= wanted.start && wanted.end <= have.end
        })?;
        pieces.drain(..at);
        pieces.front().map(|piece| piece.slice_ref(slice))
    }

    /// `slice` was written: its piece is given up when that was the end of it.
    fn written(&self, slice: &[u8]) {
        let mut pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pieces.front().is_some_and(|piece| piece.as_ptr_range().end == slice.as_ptr_range().end) {
            pieces.pop_front();
        }
    }
}

/// A connection as hyper drives it.
pub(crate) struct LentStream {
    stream: TcpStream,
    lent: Lent,
}

impl LentStream {
    /// Writes to `stream`; slices of pieces that `lent` knows are not copied.
    pub(crate) const fn new(stream: TcpStream, lent: Lent) -> Self {
        Self { stream, lent }
    }

    fn write(&mut self, cx: &mut Context<'_>, slice: &[u8]) -> Poll<io::Result<usize>> {
        let Some(mut piece) = self.lent.find(slice) else {
            return Pin::new(&mut self.stream).poll_write(cx, slice);
        };
        // The future holds no state of its own: a new one for each poll is as good as the old one.
        let n = ready!(pin!(self.stream.write_bytes_some(&mut piece)).poll(cx))?;
        self.lent.written(&slice[..n]);
        Poll::Ready(Ok(n))
    }
}

impl AsyncRead for LentStream {
    /// One copy, from the received packet; the buffer needs no zeros before it.
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if buf.remaining() > 0
            && let Some(piece) = ready!(self.stream.poll_read_chunk(cx, buf.remaining()))?
        {
            buf.put_slice(&piece);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for LentStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut total = 0;
        for slice in slices.iter().filter(|s| !s.is_empty()) {
            match self.write(cx, slice) {
                Poll::Ready(Ok(n)) => {
                    total += n;
                    if n < slice.len() {
                        break;
                    }
                }
                // What was written is told first; the rest comes again.
                Poll::Ready(Err(_)) | Poll::Pending if total > 0 => break,
                other => return other,
            }
        }
        Poll::Ready(Ok(total))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_recognised_by_where_they_lie() {
        let lent = Lent::default();
        let (a, b) = (Bytes::from(vec![1; 100]), Bytes::from(vec![1; 100]));
        lent.lend(&a);
        lent.lend(&b);
        assert!(lent.find(&[1; 100]).is_none(), "equal bytes elsewhere are not the piece");
        assert_eq!(lent.find(&a[10..]).map(|p| p.as_ptr()), Some(a[10..].as_ptr()));
        lent.written(&a[10..50]);
        assert!(lent.find(&a[50..]).is_some());
        lent.written(&a[50..]);
        assert!(lent.find(&a).is_none(), "a piece that is written is given up");
        assert_eq!(lent.find(&b[..1]).map(|p| p.len()), Some(1));
    }
}
