//! Buffers of the send queues that were acknowledged and serve again: bulk senders allocate nothing and touch warm memory.
use super::limits::POOL_BYTES_MAX;
use bytes::{Bytes, BytesMut};

/// A buffer smaller than this is cheaper to allocate than to keep.
const KEEP_FROM: usize = 16 * 1_024;

/// A larger one was somebody else's, lent to the queue without copying.
const KEEP_UP_TO: usize = 128 * 1_024;

/// Bytes of the page in which packets are written.
const PAGE: usize = 64 * 1_024;

/// Spare buffers of one stack, bounded by [`POOL_BYTES_MAX`].
#[derive(Debug, Default)]
pub struct Pool {
    spare: Vec<BytesMut>,
    bytes: usize,
    /// Where small packets are written one behind the other.
    page: BytesMut,
}

impl Pool {
    /// An empty buffer with room for at least `capacity` bytes, and at most an eighth more: what is charged for it is what was
    /// asked for. A spare one that does not fit is given up, so that none stays that nobody wants.
    pub fn take(&mut self, capacity: usize) -> BytesMut {
        if capacity >= KEEP_FROM
            && let Some(buffer) = self.spare.pop()
        {
            self.bytes -= buffer.capacity();
            if (capacity..=capacity + capacity / 8).contains(&buffer.capacity()) {
                return buffer;
            }
        }
        BytesMut::with_capacity(capacity)
    }

    /// An empty buffer with room for a packet of `capacity` bytes, a piece of a page that serves many: what is not written goes back
    /// by [`Pool::restore`].
    pub fn lend(&mut self, capacity: usize) -> BytesMut {
        let mut page = core::mem::take(&mut self.page);
        if page.capacity() < capacity {
            page.reserve(capacity.max(PAGE));
        }
        page
    }

    /// What is left of the page that was lent. Of two that were lent at a time the longer one stays.
    pub fn restore(&mut self, rest: BytesMut) {
        if rest.capacity() >= self.page.capacity() {
            self.page = rest;
        }
    }

    /// Keeps the buffer behind `bytes`, if nobody else holds a part of it and it is worth it.
    pub fn give(&mut self, bytes: Bytes) {
        if self.bytes >= POOL_BYTES_MAX {
            return;
        }
        let Ok(mut buffer) = bytes.try_into_mut() else { return };
        buffer.clear();
        // What lies in front of the last piece is ours again too; asking for more than there is behind it finds it.
        let behind = buffer.capacity();
        let _ = buffer.try_reclaim(behind + 1);
        if (KEEP_FROM..=KEEP_UP_TO).contains(&buffer.capacity()) {
            self.bytes += buffer.capacity();
            self.spare.push(buffer);
        }
    }

    /// Bytes kept.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_whole_when_its_last_piece_does() {
        let mut pool = Pool::default();
        let mut buffer = pool.take(65_160);
        buffer.extend_from_slice(&[7; 65_160]);
        let at = buffer.as_ptr();
        let (first, second) = (buffer.split_to(30_000).freeze(), buffer.freeze());
        pool.give(first);
        assert_eq!(pool.bytes(), 0, "the second piece still lives");
        pool.give(second);
        assert!(pool.bytes() >= 65_160);
        let again = pool.take(65_160);
        assert_eq!((again.as_ptr(), again.len()), (at, 0));
    }

    #[test]
    fn a_buffer_that_pins_more_than_was_asked_for_is_not_handed_out() {
        let mut pool = Pool::default();
        for spare in [100_000, 20_000] {
            pool.give(Bytes::from(vec![0; spare]));
            assert!((65_160..=73_305).contains(&pool.take(65_160).capacity()));
            assert_eq!(pool.bytes(), 0, "what does not fit is given up");
        }
    }

    #[test]
    fn the_pool_is_bounded_and_small_buffers_are_not_kept() {
        let mut pool = Pool::default();
        pool.give(Bytes::from(vec![0; 1_000]));
        assert_eq!(pool.bytes(), 0);
        for _ in 0..200 {
            pool.give(Bytes::from(vec![0; 65_536]));
        }
        assert!(pool.bytes() <= POOL_BYTES_MAX + 65_536);
    }
}
