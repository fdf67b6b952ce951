//! Which numbers descriptors may have: the lowest that is free, and no more than a process may have.
use crate::call::Fd;
use crate::errno::Errno;
use crate::files::FDS_MAX;
use std::collections::BTreeSet;

/// Numbers of descriptors. One may be taken before there is a file for it, by a call that waits.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// The lowest number that was never taken, and those below it that are free.
    unused: Fd,
    holes: BTreeSet<Fd>,
    /// So many are taken; at most [`FDS_MAX`].
    taken: usize,
}

impl Numbers {
    pub(crate) const fn new(first: Fd) -> Self {
        Self { unused: first, holes: BTreeSet::new(), taken: 0 }
    }

    /// The lowest number that is free (`get_unused_fd_flags`).
    ///
    /// # Errors
    /// EMFILE where none is left.
    pub(crate) fn take(&mut self) -> Result<Fd, Errno> {
        if self.taken >= FDS_MAX {
            return Err(Errno::EMFILE);
        }
        let fd = match self.holes.pop_first() {
            Some(hole) => hole,
            None => {
                let next = self.unused.checked_add(1).ok_or(Errno::EMFILE)?;
                core::mem::replace(&mut self.unused, next)
            }
        };
        self.taken += 1;
        Ok(fd)
    }

    /// A number that was taken is free again (`put_unused_fd`).
    pub(crate) fn give_back(&mut self, fd: Fd) {
        if fd < self.unused && self.holes.insert(fd) {
            self.taken = self.taken.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowwater_core::base::Rng;

    #[test]
    fn the_lowest_number_that_is_free_is_taken() {
        let (mut numbers, mut rng) = (Numbers::new(3), Rng::new(1));
        let mut open = BTreeSet::new();
        let mut full = 0;
        for _ in 0..5_000 {
            let fd = 3 + rng.below(FDS_MAX as u64 * 2) as Fd;
            if rng.below(3) == 0 {
                if open.remove(&fd) {
                    numbers.give_back(fd);
                }
                continue;
            }
            let lowest = (3..).find(|fd| !open.contains(fd)).filter(|_| open.len() < FDS_MAX);
            let taken = numbers.take().ok();
            assert_eq!(taken, lowest);
            full += usize::from(taken.is_none());
            open.extend(taken);
        }
        assert!(full > 100, "{full}");
        assert_eq!(open.len() + numbers.holes.len(), FDS_MAX, "it was full");
        let mut last = Numbers::new(Fd::MAX - 1);
        assert_eq!(last.take(), Ok(Fd::MAX - 1));
        assert_eq!(last.take(), Err(Errno::EMFILE), "numbers end");
    }
}
