//! The associations of a one-to-many socket: by name and in the order in which they came, however many there are.
use super::manner::Manner;
use crate::steps;
use lowwater_core::base::SocketId;
use std::collections::BTreeMap;

/// Associations, each with what it does with messages and notifications.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    by: BTreeMap<SocketId, (u64, Manner)>,
    /// By when they joined.
    order: BTreeMap<u64, SocketId>,
    joined: u64,
}

impl Members {
    pub(crate) fn join(&mut self, id: SocketId, manner: Manner) {
        self.leave(id);
        self.by.insert(id, (self.joined, manner));
        self.order.insert(self.joined, id);
        self.joined += 1;
    }

    pub(crate) fn leave(&mut self, id: SocketId) {
        if let Some((when, _)) = self.by.remove(&id) {
            self.order.remove(&when);
        }
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
