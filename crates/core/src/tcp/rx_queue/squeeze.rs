//! Linux's charge after a full queue was copied into few buffers (`tcp_collapse`): what it frees decides whether the next segment is
//! taken. What the chunks really pin is another matter, which [`RxQueue::collapse`] sees to.
use super::{Chunk, RxQueue};
use crate::tcp::truesize::{SQUEEZED_MAX, Truesize};
use crate::tcp::window::Ratio;

/// Chunks that follow one another and are about to be charged as if copied.
#[derive(Default)]
struct Run<'a> {
    chunks: Vec<&'a mut Chunk>,
    truesize: u32,
    bytes: u32,
    /// Buffers that there were.
    buffers: u64,
}

impl<'a> Run<'a> {
    fn push(&mut self, chunk: &'a mut Chunk) {
        self.truesize += chunk.truesize();
        self.bytes += chunk.len() as u32;
        self.buffers += u64::from(chunk.truesize() > 0);
        self.chunks.push(chunk);
    }

    /// Charges all from the first on that holds less than `ratio` says. Returns how many buffers went.
    fn squeeze(mut self, ratio: Ratio) -> u64 {
        let mut from = self.chunks.len();
        let (mut len, mut first) = (0, 0);
        for (i, chunk) in self.chunks.iter().enumerate() {
            len += chunk.len() as u32;
            if chunk.truesize() == 0 {
                continue;
            }
            if ratio.win_from_space(chunk.truesize()) > len {
                from = first;
                break;
            }
            (len, first) = (0, i + 1);
        }
        let chunks = &mut self.chunks[from..];
        let gone = chunks.iter().filter(|chunk| chunk.truesize() > 0).count() as u64;
        let len: u32 = chunks.iter().map(|chunk| chunk.len() as u32).sum();
        let copies = len / SQUEEZED_MAX * Truesize::squeezed(SQUEEZED_MAX).bytes()
            + Truesize::squeezed(len % SQUEEZED_MAX).bytes();
        if copies >= chunks.iter().map(|chunk| chunk.truesize()).sum() {
            return 0;
        }
        let last = chunks.len().saturating_sub(1);
        let mut at = 0;
        for (i, chunk) in chunks.iter_mut().enumerate() {
            let full = at / SQUEEZED_MAX;
            at += chunk.len() as u32;
            chunk.truesize = (full..at / SQUEEZED_MAX)
                .fold(Truesize::NONE, |sum, _| sum.and(Truesize::squeezed(SQUEEZED_MAX)));
            if i == last && at % SQUEEZED_MAX > 0 {
                chunk.truesize = chunk.truesize.and(Truesize::squeezed(at % SQUEEZED_MAX));
            }
        }
        gone
    }
}

impl RxQueue {
    /// Charges both queues as if each had been copied into as few buffers as hold it; `limit` is the receive buffer. Returns how many
    /// buffers were freed for that (TCPRcvCollapsed).
    pub fn squeeze(&mut self, ratio: Ratio, limit: u32) -> u64 {
        let mut gone = self.squeeze_held(ratio, limit);
        let mut run = Run::default();
        self.ready.iter_mut().for_each(|chunk| run.push(chunk));
        gone += run.squeeze(ratio);
        let held = self.held.iter().flat_map(|held| held.chunks.values());
        self.truesize = self.ready.iter().chain(held).map(Chunk::truesize).sum();
        gone
    }

    /// Each run by itself, until small ones of an eighth of the buffer were met (`tcp_collapse_ofo_queue`).
    fn squeeze_held(&mut self, ratio: Ratio, limit: u32) -> u64 {
        let (mut gone, mut tiny) = (0, 0);
        let Some(held) = &mut self.held else { return 0 };
        let mut chunks = held.chunks.iter_mut().peekable();
        while chunks.peek().is_some() {
            let mut run = Run::default();
            let mut end = None;
            while let Some((&at, chunk)) = chunks.next_if(|(at, _)| end.is_none_or(|end| **at == end)) {
                end = Some(at + chunk.len() as u64);
                run.push(chunk);
            }
            if run.buffers > 1 || run.bytes >= SQUEEZED_MAX {
                gone += run.squeeze(ratio);
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
