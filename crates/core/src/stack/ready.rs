//! Who may send next: one FIFO of sockets per device, each in it at most once, so that turns go round.
use crate::base::SocketId;
use crate::socket::{Entry, Turn};
use std::collections::VecDeque;

/// A device's sockets that want a turn.
#[derive(Debug, Default)]
pub(super) struct ReadyList {
    fifo: VecDeque<SocketId>,
}

impl ReadyList {
    /// Gives `entry` a turn after all that wait already; another reason joins the ones it has.
    pub(super) fn mark(&mut self, id: SocketId, entry: &mut Entry, why: Turn) {
        if entry.turn == Turn::NONE {
            self.fifo.push_back(id);
        }
        entry.turn.0 |= why.0;
    }

    /// The next socket; it leaves the list. Sockets that are gone are for the caller to skip.
    pub(super) fn pop(&mut self) -> Option<SocketId> {
        self.fifo.pop_front()
    }

    /// Takes a socket out whose turn comes elsewhere from now on.
    pub(super) fn forget(&mut self, id: SocketId) {
        self.fifo.retain(|other| *other != id);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fifo.is_empty()
    }
}
