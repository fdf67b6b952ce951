//! Bodies of answers: short texts, and files read ahead in large pieces on blocking threads.
use crate::net::lent::Lent;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use rustix::buffer::spare_capacity;
use std::fs::File;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::task::JoinHandle;

/// Bytes of one piece of a file, while few are sent.
const PIECE: usize = 512 * 1_024;
/// Bytes of one piece while many files are sent.
const PIECE_MIN: usize = 64 * 1_024;
/// What the pieces of all files together are to hold, as far as [`PIECE_MIN`] allows; read-ahead doubles it.
const PIECES_TOTAL: usize = 16 << 20;
/// Buffers that are kept for the next pieces; more are freed.
const POOL_MAX: usize = 64;

/// Buffers of pieces that the peer has acknowledged. Fresh memory would cost a page fault each 4 KiB.
static POOL: OnceLock<Mutex<Vec<Vec<u8>>>> = OnceLock::new();

/// Files that are being sent.
static SENDING: AtomicUsize = AtomicUsize::new(0);

/// Bytes of the next piece.
fn piece_len() -> usize {
    (PIECES_TOTAL / SENDING.load(Ordering::Relaxed).max(1)).clamp(PIECE_MIN, PIECE)
}

/// One buffer on loan; it goes back when the last reference to the piece is dropped.
struct Loan(Vec<u8>);

impl Loan {
    fn take(len: usize) -> Self {
        if len < PIECE {
            return Self(Vec::with_capacity(len));
        }
        let pool = POOL.get_or_init(Mutex::default);
        let kept = pool.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Self(kept.unwrap_or_else(|| Vec::with_capacity(PIECE)))
    }
}

impl AsRef<[u8]> for Loan {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.0);
        if buffer.capacity() < PIECE {
            return;
        }
        buffer.clear();
        if let Some(pool) = POOL.get() {
            let mut pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
            if pool.len() < POOL_MAX {
                pool.push(buffer);
            }
        }
    }
}

/// Reads `max` bytes at `offset`, fewer at the end of the file.
fn read_piece(file: &File, offset: u64, max: usize) -> io::Result<Bytes> {
    let mut loan = Loan::take(max);
    while loan.0.len() < max {
        let at = offset + loan.0.len() as u64;
        let n = rustix::io::pread(file, spare_capacity(&mut loan.0), at)?;
        if n == 0 {
            break;
        }
    }
    if loan.0.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the file became shorter while it was sent",
        ));
    }
    let len = loan.0.len().min(max);
    Ok(Bytes::from_owner(loan).slice(..len))
}

/// A part of a file.
pub(crate) struct Part {
    file: Arc<File>,
    /// Where the next read starts.
    offset: u64,
    end: u64,
    /// Bytes that hyper has not got yet.
    left: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
    lent: Lent,
}

impl Part {
    fn read_on(&mut self) {
        if self.offset < self.end && self.reading.is_none() {
            let max = (self.end - self.offset).min(piece_len() as u64) as usize;
            let (file, offset) = (self.file.clone(), self.offset);
            self.offset += max as u64;
            self.reading = Some(tokio::task::spawn_blocking(move || read_piece(&file, offset, max)));
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.read_on();
        let Some(reading) = &mut self.reading else { return Poll::Ready(None) };
        let read = ready!(Pin::new(reading).poll(cx)).map_err(io::Error::other).flatten();
        self.reading = None;
        let piece = match read {
            Ok(piece) => piece,
            Err(e) => return Poll::Ready(Some(Err(e))),
        };
        self.left -= piece.len() as u64;
        // A short read: the next one starts where it ended.
        self.offset = self.end - self.left;
        self.read_on();
        self.lent.lend(&piece);
        Poll::Ready(Some(Ok(piece)))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        SENDING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of an answer.
pub(crate) enum Answer {
    /// Text, or nothing.
    Text(Option<Bytes>),
    /// Part of a file.
    File(Part),
}

impl Answer {
    /// A text.
    pub(crate) fn text(text: impl Into<Bytes>) -> Self {
        Self::Text(Some(text.into()).filter(|t: &Bytes| !t.is_empty()))
    }

    /// The bytes from `start` to before `end` of a file.
    pub(crate) fn file(file: File, start: u64, end: u64, lent: Lent) -> Self {
        if start >= end {
            return Self::Text(None);
        }
        SENDING.fetch_add(1, Ordering::Relaxed);
        Self::File(Part { file: Arc::new(file), offset: start, end, left: end - start, reading: None, lent })
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Text(text) => Poll::Ready(text.take().map(|t| Ok(Frame::data(t)))),
            Self::File(part) => part.poll(cx).map(|piece| piece.map(|p| p.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Text(text) => text.as_ref().map_or(0, |t| t.len() as u64),
            Self::File(part) => part.left,
        })
    }
}
