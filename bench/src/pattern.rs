//! What bulk flows carry: bytes that repeat after a prime number of them, so that a piece that is lost, doubled or out of its
//! place shows in the reader's hash, unless it is a multiple of that long. The writer need not hash anything: what it wrote is known from how
//! much it was.
use crate::hash::Hash;
use bytes::Bytes;
use std::sync::LazyLock;

/// Bytes until the pattern repeats.
const PERIOD: usize = 4_093;
/// Most bytes of one write, as iperf3's.
pub const WRITE_MAX: usize = 131_072;

/// A write from each place of the period.
static BYTES: LazyLock<Bytes> = LazyLock::new(|| {
    let byte = |at: usize| (at % PERIOD) as u8 ^ ((at % PERIOD) >> 4) as u8;
    (0..WRITE_MAX + PERIOD).map(byte).collect()
});

/// The bytes of one direction of a flow, as its writer goes through them.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Bytes written.
    pub bytes: u64,
}

impl Source {
    /// What comes next: [`WRITE_MAX`] bytes, without a copy.
    #[must_use]
    pub fn piece(&self) -> Bytes {
        let from = (self.bytes % PERIOD as u64) as usize;
        BYTES.slice(from..from + WRITE_MAX)
    }

    /// So many of them are written.
    pub const fn wrote(&mut self, n: usize) {
        self.bytes += n as u64;
    }
}

/// The reader's side: a hash of all that came, in the measured time.
#[derive(Clone, Debug, Default)]
pub struct Sink {
    hash: Hash,
    /// Bytes read.
    pub bytes: u64,
}

impl Sink {
    /// Looks at what was read.
    pub fn read(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// Compares all that came, after the clock has stopped, with what a [`Source`] writes first.
    ///
    /// # Panics
    /// When other bytes came: a benchmark of wrong bytes measures nothing.
    pub fn check(&self) {
        let (mut source, mut expected) = (Source::default(), Hash::new());
        while source.bytes < self.bytes {
            let n = (self.bytes - source.bytes).min(WRITE_MAX as u64) as usize;
            expected.update(&source.piece()[..n]);
            source.wrote(n);
        }
        assert_eq!(
            self.hash.value(),
            expected.value(),
            "other bytes came than were sent, within {}",
            self.bytes
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink(pieces: &[&[u8]]) -> Sink {
        let mut sink = Sink::default();
        pieces.iter().for_each(|piece| sink.read(piece));
        sink
    }

    #[test]
    fn what_was_written_in_any_pieces_is_right() {
        let mut source = Source::default();
        let mut sink = Sink::default();
        for n in [1, 4_092, 4_093, 70_000, WRITE_MAX, 3] {
            sink.read(&source.piece()[..n]);
            source.wrote(n);
        }
        assert_eq!(sink.bytes, source.bytes);
        sink.check();
    }

    #[test]
    #[should_panic(expected = "other bytes came")]
    fn a_piece_out_of_its_place_shows() {
        let data = Source::default().piece();
        sink(&[&data[1_448..2_896], &data[..1_448]]).check();
    }

    #[test]
    #[should_panic(expected = "other bytes came")]
    fn a_piece_that_came_twice_shows() {
        let data = Source::default().piece();
        sink(&[&data[..1_448], &data[..1_448]]).check();
    }
}
