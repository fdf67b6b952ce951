//! Received pieces on their way to a file: gathered, and written on a blocking thread while the next ones arrive.
use bytes::Bytes;
use std::io::{self, Write};
use tokio::task::JoinHandle;

/// Bytes that are written at once. Twice as much may be held.
const BATCH: usize = 512 * 1_024;

/// Writes pieces in order.
pub(crate) struct Sink<W> {
    state: State<W>,
    batch: Vec<Bytes>,
    gathered: usize,
}

enum State<W> {
    Idle(W),
    Writing(JoinHandle<io::Result<W>>),
    Failed,
}

impl<W: Write + Send + 'static> Sink<W> {
    /// Writes to `inner`.
    pub(crate) fn new(inner: W) -> Self {
        Self { state: State::Idle(inner), batch: Vec::new(), gathered: 0 }
    }

    /// Takes a piece; waits when the disk is behind.
    ///
    /// # Errors
    /// Those of writing, possibly of an earlier piece.
    pub(crate) async fn push(&mut self, piece: Bytes) -> io::Result<()> {
        self.gathered += piece.len();
        self.batch.push(piece);
        if self.gathered < BATCH { Ok(()) } else { self.write().await }
    }

    /// Writes the rest and gives the writer back.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) async fn finish(mut self) -> io::Result<W> {
        self.write().await?;
        let mut inner = self.idle().await?;
        inner.flush()?;
        Ok(inner)
    }

    async fn write(&mut self) -> io::Result<()> {
        let mut inner = self.idle().await?;
        let batch = std::mem::take(&mut self.batch);
        self.gathered = 0;
        self.state = State::Writing(tokio::task::spawn_blocking(move || {
            for piece in &batch {
                inner.write_all(piece)?;
            }
            Ok(inner)
        }));
        Ok(())
    }

    async fn idle(&mut self) -> io::Result<W> {
        match std::mem::replace(&mut self.state, State::Failed) {
            State::Idle(inner) => Ok(inner),
            State::Writing(handle) => handle.await.map_err(io::Error::other)?,
            State::Failed => Err(io::Error::other("writing has failed before")),
        }
    }
}
