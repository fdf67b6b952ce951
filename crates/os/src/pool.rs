//! Read buffers that serve again once the last slice of a received frame is dropped, without an allocation per frame.
//!
//! A buffer is split: the front goes out as the frame, the handle on the rest stays here and finds out by the reference count
//! that the frame is gone. Nothing is locked and nothing is told; `Bytes::from_owner` would cost an allocation per frame.
use bytes::{Buf as _, Bytes, BytesMut};

/// Sizes of buffers: the smallest, and how many doublings of it.
const SMALLEST: usize = 256;
const SIZES: usize = 8;
/// Buffers of one size that are remembered while their frames are out: 8 MiB of the largest, about one receive window in
/// flight. Those beyond belong to their frames alone.
const REMEMBERED_MAX: usize = 128;
/// Buffers taken anew before the next search, after one that found nothing.
const PAUSE: u32 = 16;

/// Buffers for whole reads, and smaller ones for frames that would fill less than half of such a buffer.
#[derive(Debug)]
pub(crate) struct Pool {
    whole: Ring,
    small: [Ring; SIZES],
}

impl Pool {
    /// An empty pool of buffers that hold at least `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { whole: Ring::new(capacity), small: core::array::from_fn(|i| Ring::new(SMALLEST << i)) }
    }

    /// An empty buffer for a read. It is the one that came back last, because that is still in the cache.
    pub(crate) fn take(&mut self) -> BytesMut {
        self.whole.take()
    }

    /// What was read into `buffer` from `skip` on, as a frame that pins at most twice its size (or 256 bytes): a frame that
    /// fills less than half of the buffer is copied into a smaller one, which takes under a microsecond, and the buffer, warm
    /// in the cache, stays where it is. Says whether it was copied.
    pub(crate) fn freeze(&mut self, buffer: &mut BytesMut, skip: usize) -> (Bytes, bool) {
        let len = buffer.len().saturating_sub(skip);
        if len * 2 < self.whole.capacity {
            let mut small = match self.small.iter_mut().find(|ring| ring.capacity >= len) {
                Some(ring) => ring.take(),
                None => BytesMut::with_capacity(len),
            };
            small.extend_from_slice(&buffer[skip..]);
            buffer.clear();
            let frame = small.split_to(len).freeze();
            if let Some(ring) = self.small.iter_mut().find(|ring| ring.capacity >= len) {
                ring.remember(small);
            }
            return (frame, true);
        }
        let mut frame = buffer.split();
        let next = self.whole.take();
        self.whole.remember(core::mem::replace(buffer, next));
        frame.advance(skip);
        (frame.freeze(), false)
    }
}

/// Buffers of one size.
#[derive(Debug)]
struct Ring {
    capacity: usize,
    /// Free; the warmest is the last.
    free: Vec<BytesMut>,
    /// The rests of buffers whose fronts went out as frames.
    out: Vec<BytesMut>,
    /// Which of them is forgotten next, when there are too many.
    oldest: usize,
    pause: u32,
}

impl Ring {
    const fn new(capacity: usize) -> Self {
        Self { capacity, free: Vec::new(), out: Vec::new(), oldest: 0, pause: 0 }
    }

    fn take(&mut self) -> BytesMut {
        if self.free.is_empty() {
            self.search();
        }
        // One byte more than is asked for: what is split off must never be all, or the rest would lose the buffer.
        self.free.pop().unwrap_or_else(|| BytesMut::with_capacity(self.capacity + 1))
    }

    fn remember(&mut self, rest: BytesMut) {
        if self.out.len() < REMEMBERED_MAX {
            self.out.push(rest);
        } else {
            self.oldest = (self.oldest + 1) % REMEMBERED_MAX;
            self.out[self.oldest] = rest;
        }
    }

    /// Takes back those that nobody holds any more. The latest comes to lie on top.
    fn search(&mut self) {
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        let mut kept = 0;
        for i in 0..self.out.len() {
            if self.out[i].try_reclaim(self.capacity + 1) {
                self.free.push(core::mem::take(&mut self.out[i]));
            } else {
                self.out.swap(kept, i);
                kept += 1;
            }
        }
        self.out.truncate(kept);
        if self.free.is_empty() {
            self.pause = PAUSE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(pool: &mut Pool, buffer: &mut BytesMut, bytes: &[u8]) -> Bytes {
        buffer.extend_from_slice(bytes);
        pool.freeze(buffer, 4).0
    }

    #[test]
    fn a_buffer_returns_with_the_last_slice_from_any_thread_and_frames_outlive_the_pool() {
        let mut pool = Pool::new(1_000);
        let mut buffer = pool.take();
        let at = buffer.as_ptr();
        let first = frame(&mut pool, &mut buffer, &[7; 1_000]);
        assert_eq!((first.len(), first.as_ptr()), (996, at.wrapping_add(4)));
        let tail = first.slice(3..);
        drop(first);
        let second = frame(&mut pool, &mut buffer, &[8; 1_000]);
        assert_ne!(buffer.as_ptr(), at, "a slice still holds it");
        std::thread::spawn(move || drop(tail)).join().unwrap();
        pool.whole.pause = 0;
        let third = frame(&mut pool, &mut buffer, &[9; 1_000]);
        assert_eq!((buffer.as_ptr(), buffer.len()), (at, 0));
        drop(pool);
        assert_eq!((second[0], third[0]), (8, 9));
    }

    #[test]
    fn the_buffer_that_came_back_last_is_the_next_one() {
        let mut pool = Pool::new(1_000);
        let mut buffer = pool.take();
        let frames: Vec<Bytes> = (0..4).map(|_| frame(&mut pool, &mut buffer, &[7; 1_000])).collect();
        let last = frames[3].as_ptr();
        drop(frames);
        pool.whole.pause = 0;
        frame(&mut pool, &mut buffer, &[7; 1_000]);
        assert_eq!(buffer.as_ptr(), last.wrapping_sub(4));
    }

    #[test]
    fn a_small_frame_pins_at_most_twice_its_size() {
        let mut pool = Pool::new(65_600);
        let mut buffer = pool.take();
        let at = buffer.as_ptr();
        for len in [1, 60, 256, 257, 1_500, 9_000, 32_700] {
            buffer.extend_from_slice(&vec![1; len + 4]);
            let (frame, copied) = pool.freeze(&mut buffer, 4);
            assert!(copied && frame.len() == len && buffer.as_ptr() == at, "{len}");
            let pinned = frame.try_into_mut().map_or_else(
                |shared| {
                    drop(shared);
                    pool.small.iter().find(|ring| ring.capacity >= len).map_or(len, |ring| ring.capacity)
                },
                |own| own.capacity(),
            );
            assert!(pinned <= (2 * len).max(SMALLEST), "{len} pins {pinned}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut pool = Pool::new(64);
        let mut buffer = pool.take();
        let held: Vec<_> = (0..1_000).map(|_| frame(&mut pool, &mut buffer, &[7; 64])).collect();
        drop(held);
        pool.whole.pause = 0;
        drop(pool.take());
        assert!(pool.whole.out.len() + pool.whole.free.len() <= REMEMBERED_MAX);
    }
}
