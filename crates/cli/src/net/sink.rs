//! Received pieces on their way to a file: gathered, and written on a blocking thread while the next ones arrive.
use bytes::Bytes;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::task::JoinHandle;

/// Bytes that are written at once. Twice as much may be held.
const BATCH: usize = 512 * 1_024;

/// Writes pieces in order.
pub(crate) struct Sink<W> {
    state: State<W>,
    batch: Vec<Bytes>,
    gathered: usize,
    written: Arc<AtomicU64>,
}

enum State<W> {
    Idle(W),
    Writing(JoinHandle<io::Result<W>>),
    Failed,
}

impl<W: Write + Send + 'static> Sink<W> {
    /// Writes to `inner`.
    pub(crate) fn new(inner: W) -> Self {
        Self { state: State::Idle(inner), batch: Vec::new(), gathered: 0, written: Arc::default() }
    }

    /// Takes a piece; waits when the disk is behind. Cancel-safe: the piece was taken.
    ///
    /// # Errors
    /// Those of writing, possibly of an earlier piece.
    pub(crate) async fn push(&mut self, piece: Bytes) -> io::Result<()> {
        self.gathered += piece.len();
        self.batch.push(piece);
        if self.gathered < BATCH { Ok(()) } else { self.write().await }
    }

    /// Bytes of the pieces that were written whole.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Writes the rest and gives the writer back.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) async fn finish(mut self) -> io::Result<W> {
        self.write_rest().await?;
        self.idle().await
    }

    /// Writes what was gathered. Cancel-safe: what was not handed on before is gathered still.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) async fn write_rest(&mut self) -> io::Result<()> {
        self.write().await?;
        let inner = self.idle().await?;
        self.state = State::Idle(inner);
        Ok(())
    }

    async fn write(&mut self) -> io::Result<()> {
        let mut inner = self.idle().await?;
        let batch = std::mem::take(&mut self.batch);
        self.gathered = 0;
        let written = self.written.clone();
        self.state = State::Writing(tokio::task::spawn_blocking(move || {
            for piece in &batch {
                inner.write_all(piece)?;
                written.fetch_add(piece.len() as u64, Ordering::Relaxed);
            }
            // Of a pipe that is full, this waits, too.
            inner.flush()?;
            Ok(inner)
        }));
        Ok(())
    }

    /// Takes the writer, when it is back.
    async fn idle(&mut self) -> io::Result<W> {
        if let State::Writing(handle) = &mut self.state {
            let done = handle.await;
            self.state = State::Failed;
            return done.map_err(io::Error::other)?;
        }
        match std::mem::replace(&mut self.state, State::Failed) {
            State::Idle(inner) => Ok(inner),
            _ => Err(io::Error::other("writing has failed before")),
        }
    }
}
