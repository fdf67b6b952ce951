//! Checks that the bytes of every stream arrive once, in order, and all of them.
use crate::app::pattern;
use lowwater_core::base::Instant;
use std::collections::BTreeMap;

/// The checker's name in reports.
pub const NAME: &str = "bytes";

/// One stream of keyed bytes in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// Bytes that the writer means to write.
    pub expected: u64,
    /// Bytes that the stack has taken from the writer.
    pub sent: u64,
    /// Bytes that the reader got.
    pub received: u64,
    /// The reader has seen the end of the stream.
    pub ended: bool,
    /// When the first byte was given to the stack.
    pub first_sent: Option<Instant>,
    /// When the last byte (or the end) was read.
    pub last_received: Option<Instant>,
}

/// All streams of a world.
#[derive(Debug, Default)]
pub struct Bytes {
    streams: BTreeMap<u64, Stream>,
}

impl Bytes {
    /// A writer announces a stream.
    pub fn open(&mut self, key: u64, expected: u64) {
        self.streams.insert(key, Stream { expected, ..Stream::default() });
    }

    /// The stack took `n` bytes.
    pub fn sent(&mut self, now: Instant, key: u64, n: usize) {
        let s = self.streams.entry(key).or_default();
        s.first_sent.get_or_insert(now);
        s.sent += n as u64;
    }

    /// The reader got the header of a stream.
    ///
    /// # Errors
    /// When no such stream was opened, or when it has begun already.
    pub fn header(&mut self, now: Instant, key: u64, header: &[u8; pattern::HEADER]) -> Result<(), String> {
        let Some(s) = self.streams.get_mut(&key) else {
            return Err(format!("a stream begins with a foreign header {header:02x?}"));
        };
        if s.received != 0 || *header != pattern::header(key, s.expected) {
            return Err(format!("stream {key:016x} begins twice or with a wrong length"));
        }
        s.received = pattern::HEADER as u64;
        s.last_received = Some(now);
        Ok(())
    }

    /// The reader got `data` next.
    ///
    /// # Errors
    /// What differs from the stream's pattern, and where.
    pub fn received(&mut self, now: Instant, key: u64, data: &[u8]) -> Result<(), String> {
        let Some(s) = self.streams.get_mut(&key) else {
            return Err(format!("stream {key:016x} was never opened"));
        };
        if s.ended {
            return Err(format!("stream {key:016x}: {} bytes after its end", data.len()));
        }
        if let Some(at) = pattern::mismatch(key, s.received, data) {
            let offset = s.received + at as u64;
            return Err(format!("stream {key:016x}: wrong byte at offset {offset} of {}", s.expected));
        }
        s.received += data.len() as u64;
        if s.received > s.sent {
            return Err(format!("stream {key:016x}: {} bytes received of {} sent", s.received, s.sent));
        }
        s.last_received = Some(now);
        Ok(())
    }

    /// The reader saw the end.
    ///
    /// # Errors
    /// When bytes are missing.
    pub fn ended(&mut self, now: Instant, key: u64) -> Result<(), String> {
        let Some(s) = self.streams.get_mut(&key) else {
            return Err(format!("stream {key:016x} ended but was never opened"));
        };
        s.ended = true;
        s.last_received = Some(now);
        if s.received == s.expected {
            return Ok(());
        }
        Err(format!("stream {key:016x} ended after {} of {} bytes ({} sent)", s.received, s.expected, s.sent))
    }

    /// The streams in the order of their keys.
    pub fn streams(&self) -> impl Iterator<Item = (u64, &Stream)> {
        self.streams.iter().map(|(k, s)| (*k, s))
    }

    /// Bytes received over all streams.
    #[must_use]
    pub fn total_received(&self) -> u64 {
        self.streams.values().map(|s| s.received).sum()
    }

    /// Every stream is complete.
    ///
    /// # Errors
    /// The first that is not.
    pub fn finish(&self) -> Result<(), String> {
        match self.streams.iter().find(|(_, s)| s.received != s.expected) {
            Some((key, s)) => {
                Err(format!("stream {key:016x}: {} of {} bytes arrived", s.received, s.expected))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_repetition_and_disorder_are_seen() {
        let mut data = vec![0u8; 100];
        pattern::fill(7, 0, &mut data);
        let open = || {
            let mut b = Bytes::default();
            b.open(7, 100);
            b.sent(Instant::ZERO, 7, 100);
            b
        };
        let mut b = open();
        assert!(b.received(Instant::ZERO, 7, &data[..40]).is_ok());
        assert!(b.ended(Instant::ZERO, 7).is_err(), "too short");
        let mut b = open();
        assert!(b.received(Instant::ZERO, 7, &data[1..]).is_err(), "a byte is missing");
        let mut b = open();
        assert!(b.received(Instant::ZERO, 7, &data).is_ok());
        assert!(b.received(Instant::ZERO, 7, &data[..1]).is_err(), "more than was sent");
        let mut b = open();
        assert!(b.received(Instant::ZERO, 7, &data).is_ok());
        assert!(b.ended(Instant::ZERO, 7).is_ok() && b.finish().is_ok());
    }
}
