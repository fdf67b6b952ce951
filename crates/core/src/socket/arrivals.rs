//! In which order what can be read of many associations came, for those who read them as one: Linux has one receive queue for all
//! associations of a socket.
use crate::base::SocketId;
use std::collections::VecDeque;

/// Numbers what can be read of all associations of a stack that ask for it, in the order in which it could be read first.
#[derive(Debug, Default)]
pub struct Stamps {
    last: u64,
    /// Whose it is.
    of: Option<SocketId>,
}

impl Stamps {
    /// Nothing has come.
    #[must_use]
    pub const fn new() -> Self {
        Self { last: 0, of: None }
    }

    /// The number of what this association has got now: a new one only where another has got something since.
    fn next(&mut self, id: SocketId) -> u64 {
        self.last += u64::from(self.of != Some(id));
        self.of = Some(id);
        self.last
    }
}

/// The numbers of what can be read of one association.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// Items that can be read.
    items: usize,
    /// A number, and how many items have it; each of them a larger number than the one before.
    runs: VecDeque<(u64, usize)>,
}

/// An association at rest keeps room for so many numbers.
const KEPT: usize = 4;

impl Arrivals {
    /// So many items can be read now: if they are more than before, some came last; if they are less, the first ones were read.
    pub fn sync(&mut self, id: SocketId, items: usize, stamps: &mut Stamps) {
        if items > self.items {
            let (new, stamp) = (items - self.items, stamps.next(id));
            match self.runs.back_mut() {
                Some((last, count)) if *last == stamp => *count += new,
                _ => self.runs.push_back((stamp, new)),
            }
        }
        let mut read = self.items.saturating_sub(items);
        while let Some((_, count)) = self.runs.front_mut().filter(|_| read > 0) {
            let some = read.min(*count);
            (*count, read) = (*count - some, read - some);
            if *count == 0 {
                self.runs.pop_front();
            }
        }
        self.items = items;
        if items == 0 && self.runs.capacity() > KEPT {
            self.runs = VecDeque::new();
        }
    }

    /// The number of what is read next; none where nothing can be read.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        self.runs.front().map(|(stamp, _)| *stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Slab;

    #[test]
    fn what_came_first_has_the_least_number_however_much_is_read_at_once() {
        let mut names = Slab::<SocketId, ()>::new();
        let (a, b) = (names.insert(()), names.insert(()));
        let (mut stamps, mut one, mut other) = (Stamps::default(), Arrivals::default(), Arrivals::default());
        assert_eq!(one.first(), None);
        one.sync(a, 2, &mut stamps);
        one.sync(a, 3, &mut stamps);
        other.sync(b, 1, &mut stamps);
        one.sync(a, 5, &mut stamps);
        assert_eq!((one.first(), other.first(), one.runs.len()), (Some(1), Some(2), 2));
        one.sync(a, 2, &mut stamps);
        assert_eq!(one.first(), Some(3));
        // What was read and what came are told one by one.
        other.sync(b, 0, &mut stamps);
        other.sync(b, 1, &mut stamps);
        assert_eq!(other.first(), Some(4));
        one.sync(a, 0, &mut stamps);
        assert_eq!(one.first(), None);
        for n in 1..100 {
            one.sync(a, n, &mut stamps);
            other.sync(b, n + 1, &mut stamps);
        }
        assert_eq!(one.runs.len(), 99);
        one.sync(a, 0, &mut stamps);
        assert_eq!(one.runs.capacity(), 0);
    }
}
