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
    step: usize,
    written: Arc<AtomicU64>,
}

enum State<W> {
    Idle(W),
    Writing(JoinHandle<io::Result<W>>),
    Failed,
}

impl<W: Write + Send + 'static> Sink<W> {
    /// Writes to `inner`, a piece at once.
    pub(crate) fn new(inner: W) -> Self {
        Self::in_steps(inner, usize::MAX)
    }

    /// Writes to `inner` at most `step` bytes at once.
    pub(crate) fn in_steps(inner: W, step: usize) -> Self {
        Self { state: State::Idle(inner), batch: Vec::new(), gathered: 0, step, written: Arc::default() }
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

    /// Bytes that `inner` has taken, also of a piece of which it took no more.
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
        let (step, written) = (self.step, self.written.clone());
        self.state = State::Writing(tokio::task::spawn_blocking(move || {
            for part in batch.iter().flat_map(|piece| piece.chunks(step)) {
                write_counted(&mut inner, part, &written)?;
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

/// Writes all of it; what was taken counts also where an error follows.
fn write_counted(to: &mut impl Write, mut rest: &[u8], written: &AtomicU64) -> io::Result<()> {
    while !rest.is_empty() {
        match to.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                written.fetch_add(n as u64, Ordering::Relaxed);
                rest = &rest[n..];
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk of ten bytes, of which a call takes at most four.
    struct Disk(Vec<u8>);

    impl Write for Disk {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            let n = data.len().min(4).min(10 - self.0.len());
            if n == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0.extend(&data[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_was_taken_of_a_piece_before_the_disk_was_full_is_counted() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        for (step, pieces, written) in
            [(usize::MAX, &[6, 7][..], 10), (3, &[6, 7], 10), (3, &[10], 10), (3, &[2, 3], 5)]
        {
            let mut sink = Sink::in_steps(Disk(Vec::new()), step);
            let end = runtime.block_on(async {
                for len in pieces {
                    sink.push(vec![0; *len].into()).await?;
                }
                sink.write_rest().await
            });
            let all: usize = pieces.iter().sum();
            assert_eq!((sink.written(), end.is_ok()), (written, all <= 10), "{pieces:?} by {step}");
        }
    }
}
