//! Linux's charge after a full queue was copied into few buffers (`tcp_collapse`): what it frees decides whether the next segment is
//! taken. What the chunks really pin is another matter, which [`RxQueue::collapse`] sees to.
//!
//! It walks over what waits. A peer that goes on filling a full buffer must not make that happen for each of its segments, so a
//! long queue is walked again only after it has grown by a part of itself.
use super::{Chunk, RxQueue};
use crate::tcp::truesize::{SQUEEZED_MAX, Truesize};
use crate::tcp::window::Ratio;

/// A queue of so many chunks is walked whenever it is asked for.
const SHORT: usize = 64;
/// A longer one once it has had one more for each so many that wait: chunks looked at per chunk that came.
const WALK_PER_CHUNK: usize = 16;

/// Chunks that follow one another and could be charged as if copied.
#[derive(Clone, Copy, Default)]
struct Run {
    truesize: u32,
    bytes: u32,
    /// Chunks, and among them those that carry a buffer's charge: how many buffers there were.
    chunks: usize,
    buffers: u64,
    /// The first chunk from which buffers hold less than they should, if any do.
    poor: Option<Tail>,
    /// What has been met since the last buffer's end.
    open: Tail,
}

/// The end of a run, from a chunk on.
#[derive(Clone, Copy, Default)]
struct Tail {
    from: usize,
    bytes: u32,
    truesize: u32,
    buffers: u64,
}

impl Tail {
    fn push(&mut self, chunk: &Chunk) {
        self.bytes += chunk.len() as u32;
        self.truesize += chunk.truesize();
        self.buffers += u64::from(chunk.truesize() > 0);
    }
}

impl Run {
    fn push(&mut self, chunk: &Chunk, ratio: Ratio) {
        self.chunks += 1;
        self.truesize += chunk.truesize();
        self.bytes += chunk.len() as u32;
        self.buffers += u64::from(chunk.truesize() > 0);
        if let Some(poor) = &mut self.poor {
            return poor.push(chunk);
        }
        self.open.push(chunk);
        if chunk.truesize() == 0 {
            return;
        }
        if ratio.win_from_space(chunk.truesize()) > self.open.bytes {
            self.poor = Some(self.open);
        }
        self.open = Tail { from: self.chunks, ..Tail::default() };
    }

    /// The part that is worth copying.
    fn worth(&self) -> Option<Tail> {
        let tail = self.poor?;
        let copies = tail.bytes / SQUEEZED_MAX * Truesize::squeezed(SQUEEZED_MAX).bytes()
            + Truesize::squeezed(tail.bytes % SQUEEZED_MAX).bytes();
        (copies < tail.truesize).then_some(tail)
    }
}

impl Tail {
    /// Charges the run's `chunks` from the first of this part on as if copied. Returns how many buffers went.
    fn squeeze<'a>(self, chunks: impl Iterator<Item = &'a mut Chunk>) -> u64 {
        let mut at = 0;
        for chunk in chunks.skip(self.from) {
            let full = at / SQUEEZED_MAX;
            at += chunk.len() as u32;
            chunk.truesize = (full..at / SQUEEZED_MAX)
                .fold(Truesize::NONE, |sum, _| sum.and(Truesize::squeezed(SQUEEZED_MAX)));
            if at == self.bytes && !at.is_multiple_of(SQUEEZED_MAX) {
                chunk.truesize = chunk.truesize.and(Truesize::squeezed(at % SQUEEZED_MAX));
            }
        }
        self.buffers
    }
}

impl RxQueue {
    /// Charges both queues as if each had been copied into as few buffers as hold it; `limit` is the receive buffer. Returns how many
    /// buffers were freed for that (TCPRcvCollapsed).
    pub fn squeeze(&mut self, ratio: Ratio, limit: u32) -> u64 {
        let held = self.held.as_ref().map_or(0, |held| held.chunks.len());
        let waiting = self.ready.len() + held;
        if waiting > SHORT && self.unsqueezed as usize * WALK_PER_CHUNK < waiting {
            return 0;
        }
        self.unsqueezed = 0;
        let mut gone = self.squeeze_held(ratio, limit);
        let mut run = Run::default();
        self.ready.iter().for_each(|chunk| run.push(chunk, ratio));
        if let Some(tail) = run.worth() {
            gone += tail.squeeze(self.ready.iter_mut());
        }
        let held = self.held.iter().flat_map(|held| held.chunks.values());
        let fin = self.held.as_ref().map_or(0, |held| held.fin);
        self.truesize = fin + self.ready.iter().chain(held).map(Chunk::truesize).sum::<u32>();
        gone
    }

    /// Each run by itself, until small ones of an eighth of the buffer were met (`tcp_collapse_ofo_queue`).
    fn squeeze_held(&mut self, ratio: Ratio, limit: u32) -> u64 {
        let (mut gone, mut tiny) = (0, 0);
        let Some(held) = &mut self.held else { return 0 };
        for (&start, &end) in &held.runs {
            let mut run = Run::default();
            held.chunks.range(start..end).for_each(|(_, chunk)| run.push(chunk, ratio));
            if run.buffers > 1 || run.bytes >= SQUEEZED_MAX {
                if let Some(tail) = run.worth() {
                    gone += tail.squeeze(held.chunks.range_mut(start..end).map(|(_, chunk)| chunk));
                }
            } else {
                tiny += run.truesize;
                if tiny > limit / 8 {
                    break;
                }
            }
        }
        gone
    }
}
