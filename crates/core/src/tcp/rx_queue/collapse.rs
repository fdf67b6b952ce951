//! Squeezing many small chunks into few large ones when the receive buffer is over its limit (`tcp_collapse`).
use super::ready::Ready;
use super::{CHUNK_OVERHEAD, Chunk, RxQueue};
use crate::base::truesize::Truesize;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Bytes gathered into one piece.
const PIECE_BYTES: usize = 32 * 1024;

/// Neighbouring chunks that are about to become one.
#[derive(Default)]
struct Group {
    chunks: Vec<Chunk>,
    len: usize,
    truesize: Truesize,
    done: Collapsed,
}

/// What collapsing did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collapsed {
    /// Chunks that there are fewer now.
    pub chunks: u64,
    /// Bytes copied for it.
    pub bytes: u64,
}

impl Group {
    /// True when `chunk` should be left as it is: it is large and pins little beside itself, or the charge of two of its kind would not fit.
    fn leaves(chunk: &Chunk) -> bool {
        chunk.truesize.is_large()
            || chunk.len() >= PIECE_BYTES / 2 && chunk.charge() as usize <= chunk.len() + chunk.len() / 8
    }

    fn add(&mut self, chunk: Chunk) {
        self.len += chunk.len();
        self.truesize = self.truesize.and(chunk.truesize);
        self.chunks.push(chunk);
    }

    fn is_full(&self) -> bool {
        self.len >= PIECE_BYTES || self.truesize.is_large()
    }

    /// One chunk in place of all.
    fn flush(&mut self) -> Option<Chunk> {
        let count = self.chunks.len() as u64;
        let (len, truesize) = (core::mem::take(&mut self.len), core::mem::take(&mut self.truesize));
        if count == 1 {
            let chunk = self.chunks.pop()?;
            // Alone, it is worth a copy only when it pins at least twice what it holds.
            if chunk.charge() as usize <= 2 * chunk.len() + CHUNK_OVERHEAD as usize {
                return Some(chunk);
            }
            self.chunks.push(chunk);
        }
        if count == 0 {
            return None;
        }
        let mut all = Vec::with_capacity(len);
        for chunk in self.chunks.drain(..) {
            all.extend_from_slice(chunk.as_slice());
        }
        self.done.chunks += count - 1;
        self.done.bytes += len as u64;
        Some(Chunk::gathered(Bytes::from(all), truesize))
    }
}

impl RxQueue {
    /// Merges neighbouring chunks, in order and held, by copying. Does nothing until overhead worth an eighth of `limit` has
    /// gathered since the last time, so that its cost stays proportional to what was received. Returns what that saved and cost.
    pub fn collapse(&mut self, limit: u32) -> Collapsed {
        if self.overhead() < self.floor.saturating_add(limit / 8) {
            return Collapsed::default();
        }
        let mut group = Group::default();
        self.collapse_ready(&mut group);
        self.collapse_held(&mut group);
        let held = self.held.iter().flat_map(|held| held.chunks.values());
        self.charge = self.ready.iter().chain(held).map(Chunk::charge).sum();
        self.floor = self.overhead();
        group.done
    }

    fn collapse_ready(&mut self, group: &mut Group) {
        let mut out = Ready::new();
        while let Some(chunk) = self.ready.pop_front() {
            let leave = Group::leaves(&chunk);
            if (leave || group.is_full())
                && let Some(whole) = group.flush()
            {
                out.push_back(whole);
            }
            if leave {
                out.push_back(chunk);
            } else {
                group.add(chunk);
            }
        }
        if let Some(whole) = group.flush() {
            out.push_back(whole);
        }
        self.ready = out;
    }

    fn collapse_held(&mut self, group: &mut Group) {
        let Some(held) = &mut self.held else { return };
        let mut out = BTreeMap::new();
        let mut start = 0;
        for (at, chunk) in core::mem::take(&mut held.chunks) {
            if at != start + group.len as u64 || group.is_full() || Group::leaves(&chunk) {
                if let Some(whole) = group.flush() {
                    out.insert(start, whole);
                }
                start = at;
            }
            group.add(chunk);
        }
        if let Some(whole) = group.flush() {
            out.insert(start, whole);
        }
        held.chunks = out;
    }
}
