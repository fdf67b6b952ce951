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

    fn is_of(&self, begun: Begun) -> bool {
        self.id == begun.id && self.piece.info.is_some_and(|info| info.tsn == begun.tsn)
    }
}

/// A message some of which was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) id: SocketId,
    /// Of its first fragment.
    pub(crate) tsn: u32,
}

/// What waits, and the turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inbox {
    held: VecDeque<Held>,
    bytes: usize,
    /// Associations of a one-to-many socket with something to read: who has waited longest is read first.
    turns: VecDeque<SocketId>,
    /// The message in the middle of which the reader is.
    reading: Option<Begun>,
    /// SCTP_FRAGMENT_INTERLEAVE: others may be read while the rest of a message has not come.
    pub(crate) interleave: bool,
}

impl Inbox {
    /// Where the next piece is: in the middle of a message its association's first, unless others may come in between.
    fn next_at(&self) -> Option<usize> {
        match self.reading.filter(|_| !self.interleave) {
            Some(begun) => self.held.iter().position(|held| held.id == begun.id),
            None => (!self.held.is_empty()).then_some(0),
        }
    }

    /// Something here can be read now.
    pub(crate) fn has_next(&self) -> bool {
        self.next_at().is_some()
    }

    pub(crate) fn pop(&mut self) -> Option<Held> {
        let held = self.held.remove(self.next_at()?)?;
        self.bytes -= held.piece.bytes.len();
        // What is put back of it lies in front of all others.
        self.reading.take_if(|begun| held.piece.eor && held.is_of(*begun));
        Some(held)
    }

    /// What was taken out comes back.
    pub(crate) fn put_back(&mut self, held: Held) {
        self.bytes += held.piece.bytes.len();
        self.held.push_front(held);
    }

    /// An association that has ended leaves this; false when `most` bytes or too many pieces are here already. The rest of a message
    /// that was begun is always taken, or its reader would take another for it.
    pub(crate) fn leave(&mut self, held: Held, most: usize) -> bool {
        let begun = self.reading.is_some_and(|begun| held.is_of(begun));
        let full = self.held.len() >= LEFT_MAX || self.bytes + held.piece.bytes.len() > most;
        if full && !begun {
            return false;
        }
        self.bytes += held.piece.bytes.len();
        self.held.push_back(held);
        true
    }

    /// The message in the middle of which the reader is.
    pub(crate) const fn begun(&self) -> Option<Begun> {
        self.reading
    }

    /// Nothing more of that message comes: it has no end, or what is here has.
    pub(crate) fn comes_no_more(&mut self) {
        let held = &self.held;
        self.reading.take_if(|begun| !held.iter().any(|held| held.is_of(*begun)));
    }

    /// Data of this association was taken out and not read.
    pub(crate) fn has_data_of(&self, id: SocketId) -> bool {
        self.held.iter().any(|held| held.id == id && held.is_data())
    }

    /// Takes out what is this association's.
    pub(crate) fn split(&mut self, id: SocketId) -> Self {
        let (own, rest) = self.held.drain(..).partition(|held| held.id == id);
        let sum = |held: &VecDeque<Held>| held.iter().map(|held| held.piece.bytes.len()).sum();
        let reading = self.reading.take_if(|begun| begun.id == id);
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
    }

    /// Whom to read, in order: in the middle of a message that association alone, unless others may come in between.
    pub(crate) fn order(&self) -> Vec<SocketId> {
        let reading = self.reading.map(|begun| begun.id);
        let others = self.turns.iter().copied().filter(|id| Some(*id) != reading);
        match reading {
            Some(id) if !self.interleave => vec![id],
            Some(id) => core::iter::once(id).chain(others).collect(),
            None => self.turns.iter().copied().collect(),
        }
    }

    /// A piece of this association was read, of the message whose first TSN is `tsn` (`None`: a notification): the reader is in the
    /// middle of a message, or others have their turn.
    pub(crate) fn was_read(&mut self, id: SocketId, tsn: Option<u32>, eor: bool, more: bool) {
        match tsn {
            Some(tsn) => self.reading = (!eor).then_some(Begun { id, tsn }),
            // It ends no message.
            None if self.reading.is_some_and(|begun| begun.id == id) => return,
            None => {}
        }
        if eor {
            self.turns.retain(|other| *other != id);
            if more {
                self.turns.push_back(id);
            }
        }
    }
}
