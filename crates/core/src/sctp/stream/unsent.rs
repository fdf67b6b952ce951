//! Bytes that were not sent yet: of all streams, and of each while a low-water mark per stream is set. A stream takes messages up to
//! the mark, and who was refused is told when less than half of it is unsent: TCP_NOTSENT_LOWAT's rule, stream by stream.
use std::collections::{BTreeMap, BTreeSet};

/// A low-water mark and the shift of its half rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Unsent bytes from which on a stream takes nothing more.
    pub bytes: u32,
    /// Writable again while the unsent bytes, shifted by so much, are under the mark.
    pub shift: u32,
}

impl Mark {
    /// The half rule.
    fn is_writable(self, unsent: usize) -> bool {
        (unsent as u64) << self.shift < u64::from(self.bytes).max(1)
    }
}

/// What is kept while there is a mark.
#[derive(Debug)]
struct Marked {
    mark: Mark,
    /// Streams without unsent bytes are not in it.
    each: BTreeMap<u16, usize>,
    /// Streams whose writers have seen "full".
    refused: BTreeSet<u16>,
    /// One of them takes messages again.
    freed: bool,
}

/// Unsent bytes.
#[derive(Debug, Default)]
pub struct Unsent {
    all: usize,
    marked: Option<Box<Marked>>,
}

impl Unsent {
    /// Of all streams.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.all
    }

    /// Queued.
    pub fn add(&mut self, stream: u16, len: usize) {
        self.all += len;
        if let Some(marked) = &mut self.marked {
            *marked.each.entry(stream).or_default() += len;
        }
    }

    /// Sent, or given up.
    pub fn sub(&mut self, stream: u16, len: usize) {
        self.all -= len;
        let Some(marked) = &mut self.marked else { return };
        let Some(left) = marked.each.get_mut(&stream) else { return };
        *left -= len;
        let left = *left;
        if left == 0 {
            marked.each.remove(&stream);
        }
        if marked.mark.is_writable(left) && marked.refused.remove(&stream) {
            marked.freed = true;
        }
    }

    /// Puts the mark in force that there is from now on; `waiting` are the messages that wait, if they have to be counted.
    pub fn set_mark(&mut self, mark: Option<Mark>, waiting: impl Iterator<Item = (u16, usize)>) {
        match (mark, &mut self.marked) {
            (None, _) => self.marked = None,
            (Some(mark), Some(marked)) => marked.mark = mark,
            (Some(mark), None) => {
                let mut each = BTreeMap::new();
                for (stream, len) in waiting {
                    *each.entry(stream).or_default() += len;
                }
                self.marked = Some(Box::new(Marked { mark, each, refused: BTreeSet::new(), freed: false }));
            }
        }
    }

    /// A stream takes a message: less than the mark is unsent. A writer who sees "no" will be told.
    pub fn admits(&mut self, stream: u16) -> bool {
        self.ask(stream, |mark, unsent| unsent == 0 || unsent < mark.bytes as usize)
    }

    /// A stream is writable by the half rule. A writer who sees "no" will be told.
    pub fn poll_writable(&mut self, stream: u16) -> bool {
        self.ask(stream, |mark, unsent| mark.is_writable(unsent))
    }

    /// The same for who does not wait.
    #[must_use]
    pub fn is_writable(&self, stream: u16) -> bool {
        let Some(marked) = &self.marked else { return true };
        marked.mark.is_writable(marked.each.get(&stream).copied().unwrap_or(0))
    }

    fn ask(&mut self, stream: u16, rule: impl FnOnce(Mark, usize) -> bool) -> bool {
        let Some(marked) = &mut self.marked else { return true };
        let yes = rule(marked.mark, marked.each.get(&stream).copied().unwrap_or(0));
        if !yes {
            marked.refused.insert(stream);
        }
        yes
    }

    /// A stream that had refused a message takes one again; true once.
    pub fn take_freed(&mut self) -> bool {
        self.marked.as_mut().is_some_and(|marked| core::mem::take(&mut marked.freed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_full_by_itself_and_free_under_half_of_its_mark() {
        let mut unsent = Unsent::default();
        unsent.add(1, 600);
        assert!(unsent.admits(1) && unsent.poll_writable(1), "there is no mark");
        unsent.set_mark(Some(Mark { bytes: 1_000, shift: 1 }), [(1, 600)].into_iter());
        assert!(unsent.admits(1) && !unsent.poll_writable(1) && unsent.poll_writable(2));
        unsent.add(1, 400);
        unsent.add(2, 10);
        assert!(!unsent.admits(1) && unsent.admits(2) && unsent.bytes() == 1_010);
        unsent.sub(1, 500);
        assert!(!unsent.take_freed(), "half of the mark is not less than half");
        unsent.sub(2, 10);
        unsent.sub(1, 1);
        assert!(unsent.take_freed() && !unsent.take_freed());
        unsent.sub(1, 499);
        assert!(!unsent.take_freed() && unsent.bytes() == 0);
        unsent.set_mark(None, [].into_iter());
        unsent.add(1, 5_000);
        assert!(unsent.admits(1));
    }
}
