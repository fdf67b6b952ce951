//! Which epoll sets watch which files: a change of one file is for its sets alone, however many others there are.
use crate::call::Fd;
use crate::steps;
use std::collections::BTreeSet;

/// The pairs of a file and a set that watches it.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// Who is watched, and by whom.
    pairs: BTreeSet<(Fd, Fd)>,
    /// Of sets that watch sets: by whom, and who is watched.
    nested: BTreeSet<(Fd, Fd)>,
}

impl Watches {
    pub(crate) const fn new() -> Self {
        Self { pairs: BTreeSet::new(), nested: BTreeSet::new() }
    }

    /// `set` watches `fd`, which is a set itself or not.
    pub(crate) fn begin(&mut self, fd: Fd, set: Fd, is_set: bool) {
        self.pairs.insert((fd, set));
        if is_set {
            self.nested.insert((set, fd));
        }
    }

    pub(crate) fn end(&mut self, fd: Fd, set: Fd) {
        self.pairs.remove(&(fd, set));
        self.nested.remove(&(set, fd));
    }

    /// The sets that watch a file.
    pub(crate) fn sets_of(&self, fd: Fd) -> impl Iterator<Item = Fd> {
        second(&self.pairs, fd)
    }

    /// The sets that a set watches.
    pub(crate) fn sets_in(&self, set: Fd) -> impl Iterator<Item = Fd> {
        second(&self.nested, set)
    }
}

fn second(pairs: &BTreeSet<(Fd, Fd)>, first: Fd) -> impl Iterator<Item = Fd> {
    pairs.range((first, Fd::MIN)..=(first, Fd::MAX)).inspect(|_| steps::step()).map(|(_, second)| *second)
}
