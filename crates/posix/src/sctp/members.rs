//! The associations of a one-to-many socket: by name and in the order in which they came, however many there are.
use super::manner::Manner;
use crate::steps;
use lowwater_core::base::SocketId;
use std::collections::{BTreeMap, BTreeSet};

/// Associations, each with what it does with messages and notifications.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    by: BTreeMap<SocketId, (u64, Manner)>,
    /// By when they joined.
    order: BTreeMap<u64, SocketId>,
    joined: u64,
    /// Those that had room for a message when they were asked last, and those to ask: something may have changed since.
    roomy: BTreeSet<SocketId>,
    look: BTreeSet<SocketId>,
}

impl Members {
    pub(crate) fn join(&mut self, id: SocketId, manner: Manner) {
        self.leave(id);
        self.by.insert(id, (self.joined, manner));
        self.order.insert(self.joined, id);
        self.look.insert(id);
        self.joined += 1;
    }

    pub(crate) fn leave(&mut self, id: SocketId) {
        if let Some((when, _)) = self.by.remove(&id) {
            self.order.remove(&when);
        }
        self.roomy.remove(&id);
        self.look.remove(&id);
    }

    /// Something may have changed about the room of one of them.
    pub(crate) fn look_at(&mut self, id: SocketId) {
        if self.has(id) {
            self.look.insert(id);
        }
    }

    /// Those of which something may have changed since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<SocketId> {
        core::mem::take(&mut self.look)
    }

    /// One has been asked: it has room, or will tell when it has; nothing of one that is over.
    pub(crate) fn note_room(&mut self, id: SocketId, room: bool) {
        if room {
            self.roomy.insert(id);
        } else {
            self.roomy.remove(&id);
        }
    }

    /// Some of them has room.
    pub(crate) fn has_room(&self) -> bool {
        !self.roomy.is_empty()
    }

    pub(crate) fn has(&self, id: SocketId) -> bool {
        self.by.contains_key(&id)
    }

    pub(crate) fn manner_of(&self, id: SocketId) -> Option<Manner> {
        self.by.get(&id).map(|(_, manner)| *manner)
    }

    pub(crate) fn manner_mut(&mut self, id: SocketId) -> Option<&mut Manner> {
        self.by.get_mut(&id).map(|(_, manner)| manner)
    }

    /// All of them, oldest first.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SocketId> {
        self.order.values().inspect(|_| steps::step()).copied()
    }

    /// Of some that stand at one place the one that joined first.
    pub(crate) fn oldest(&self, of: impl Iterator<Item = SocketId>) -> Option<SocketId> {
        let known = of.inspect(|_| steps::step()).filter_map(|id| Some((self.by.get(&id)?.0, id)));
        known.min().map(|(_, id)| id)
    }
}
