//! What the readers of a socket have not got yet, beside what its associations hold; and whose turn it is to be read.
use bytes::Bytes;
use core::net::SocketAddr;
use lowwater_core::base::SocketId;
use lowwater_core::sctp::RecvInfo;
use std::collections::VecDeque;

/// Pieces that ended associations may leave to be read on one socket.
const LEFT_MAX: usize = 1_024;

/// A message, a notification, or what is left of one.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    /// `None` for a notification.
    pub(crate) info: Option<RecvInfo>,
    /// It ends here.
    pub(crate) eor: bool,
}

/// A piece with whose it is, which its association need not live to tell.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) id: SocketId,
    /// Its identifier.
    pub(crate) assoc: u32,
    pub(crate) peer: Option<SocketAddr>,
    /// SCTP_CONTEXT.
    pub(crate) context: u32,
    pub(crate) piece: Piece,
}

impl Held {
    const fn is_data(&self) -> bool {
        self.piece.info.is_some()
    }
}

/// What waits, and the turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inbox {
    held: VecDeque<Held>,
    bytes: usize,
    /// Associations of a one-to-many socket with something to read: who has waited longest is read first.
    turns: VecDeque<SocketId>,
    /// The message in the middle of which the reader is.
    reading: Option<SocketId>,
    /// SCTP_FRAGMENT_INTERLEAVE: others may be read while the rest of a message has not come.
    pub(crate) interleave: bool,
}

impl Inbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(crate) fn pop(&mut self) -> Option<Held> {
        let held = self.held.pop_front()?;
        self.bytes -= held.piece.bytes.len();
        Some(held)
    }

    /// What was taken out comes back.
    pub(crate) fn put_back(&mut self, held: Held) {
        self.bytes += held.piece.bytes.len();
        self.held.push_front(held);
    }

    /// What comes next, if it was taken out already.
    pub(crate) fn first(&self) -> Option<&Held> {
        self.held.front()
    }

    /// An association that has ended leaves this; false when `most` bytes or too many pieces are here already.
    pub(crate) fn leave(&mut self, held: Held, most: usize) -> bool {
        if self.held.len() >= LEFT_MAX || self.bytes + held.piece.bytes.len() > most {
            return false;
        }
        self.bytes += held.piece.bytes.len();
        self.held.push_back(held);
        true
    }

    /// Data of this association was taken out and not read.
    pub(crate) fn has_data_of(&self, id: SocketId) -> bool {
        self.held.iter().any(|held| held.id == id && held.is_data())
    }

    /// Takes out what is this association's.
    pub(crate) fn split(&mut self, id: SocketId) -> Self {
        let (own, rest) = self.held.drain(..).partition(|held| held.id == id);
        let sum = |held: &VecDeque<Held>| held.iter().map(|held| held.piece.bytes.len()).sum();
        let reading = self.reading.take_if(|reading| *reading == id);
        self.turns.retain(|other| *other != id);
        let of =
            Self { bytes: sum(&own), held: own, reading, interleave: self.interleave, ..Self::default() };
        (self.bytes, self.held) = (sum(&rest), rest);
        of
    }

    /// This association has something to read.
    pub(crate) fn note(&mut self, id: SocketId) {
        if !self.turns.contains(&id) {
            self.turns.push_back(id);
        }
    }

    /// It is over.
    pub(crate) fn forget(&mut self, id: SocketId) {
        self.turns.retain(|other| *other != id);
        self.reading = self.reading.filter(|reading| *reading != id);
    }

    /// Whom to read, in order: in the middle of a message that association alone, unless others may come in between.
    pub(crate) fn order(&self) -> Vec<SocketId> {
        let others = self.turns.iter().copied().filter(|id| Some(*id) != self.reading);
        match self.reading {
            Some(id) if !self.interleave => vec![id],
            Some(id) => core::iter::once(id).chain(others).collect(),
            None => self.turns.iter().copied().collect(),
        }
    }

    /// A piece of this association was read: the reader is in the middle of a message, or others have their turn.
    pub(crate) fn was_read(&mut self, id: SocketId, eor: bool, more: bool) {
        self.reading = (!eor).then_some(id);
        if eor {
            self.turns.retain(|other| *other != id);
            if more {
                self.turns.push_back(id);
            }
        }
    }
}
