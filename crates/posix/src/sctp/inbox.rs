//! What the readers of a socket have not got yet, beside what its associations hold; and whose turn it is to be read.
use bytes::Bytes;
use core::net::SocketAddr;
use lowwater_core::base::SocketId;
use lowwater_core::sctp::RecvInfo;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
    /// When it could be read first ([`Stack::sctp_arrival`](lowwater_core::stack::Stack::sctp_arrival)); 0 for what comes before all else.
    pub(crate) arrival: u64,
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
    turns: Turns,
    /// The message in the middle of which the reader is.
    reading: Option<Begun>,
    /// SCTP_FRAGMENT_INTERLEAVE: others may be read while the rest of a message has not come.
    pub(crate) interleave: bool,
}

impl Inbox {
    /// The message that others do not come between.
    fn alone(&self) -> Option<Begun> {
        self.reading.filter(|_| !self.interleave)
    }

    /// Where the next piece is: in the middle of a message its association's first, unless others may come in between.
    fn next_at(&self) -> Option<usize> {
        match self.alone() {
            Some(begun) => self.held.iter().position(|held| held.id == begun.id),
            None => (!self.held.is_empty()).then_some(0),
        }
    }

    /// Something here can be read now.
    pub(crate) fn has_next(&self) -> bool {
        self.next_at().is_some()
    }

    /// The next piece, unless an association that lives has one that came before.
    pub(crate) fn pop(&mut self) -> Option<Held> {
        let at = self.next_at()?;
        let later = |first| first < self.held[at].arrival;
        if self.alone().is_none() && self.turns.first().is_some_and(|(first, _)| later(first)) {
            return None;
        }
        let held = self.held.remove(at)?;
        self.bytes -= held.piece.bytes.len();
        // What is put back of it lies in front of all others.
        self.reading.take_if(|begun| held.piece.eor && held.is_of(*begun));
        Some(held)
    }

    /// What was taken out comes back, before all else.
    pub(crate) fn put_back(&mut self, held: Held) {
        self.bytes += held.piece.bytes.len();
        self.held.push_front(Held { arrival: 0, ..held });
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
        let at = self.held.partition_point(|other| other.arrival <= held.arrival);
        self.held.insert(at, held);
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
        self.turns.set(id, None);
        let of =
            Self { bytes: sum(&own), held: own, reading, interleave: self.interleave, ..Self::default() };
        (self.bytes, self.held) = (sum(&rest), rest);
        of
    }

    /// What this association has to read next came at `arrival`; none for nothing. True where something changes.
    pub(crate) fn note(&mut self, id: SocketId, arrival: Option<u64>) -> bool {
        self.turns.set(id, arrival)
    }

    /// Whom to read: in the middle of a message that association alone, unless others may come in between, else whose message has
    /// waited longest.
    pub(crate) fn first(&self) -> Option<SocketId> {
        self.alone().map(|begun| begun.id).or_else(|| self.turns.first().map(|(_, id)| id))
    }

    /// All of which that may be said, in order.
    pub(crate) fn order(&self) -> impl Iterator<Item = SocketId> + '_ {
        let alone = self.alone().map(|begun| begun.id);
        let others = self.turns.by.iter().filter(move |_| alone.is_none());
        alone.into_iter().chain(others.map(|(_, id)| *id))
    }

    /// A piece of this association was read, of the message whose first TSN is `tsn` (`None`: a notification): the reader may be in the
    /// middle of a message.
    pub(crate) fn was_read(&mut self, id: SocketId, tsn: Option<u32>, eor: bool) {
        // A notification ends no message.
        if let Some(tsn) = tsn {
            self.reading = (!eor).then_some(Begun { id, tsn });
        }
    }
}

/// Associations of a one-to-many socket with something to read, by when that came.
#[derive(Clone, Debug, Default)]
struct Turns {
    by: BTreeSet<(u64, SocketId)>,
    of: BTreeMap<SocketId, u64>,
}

impl Turns {
    fn set(&mut self, id: SocketId, arrival: Option<u64>) -> bool {
        let old = match arrival {
            Some(new) => self.of.insert(id, new),
            None => self.of.remove(&id),
        };
        if old != arrival {
            self.by.extend(arrival.map(|new| (new, id)));
            if let Some(old) = old {
                self.by.remove(&(old, id));
            }
        }
        old != arrival
    }

    fn first(&self) -> Option<(u64, SocketId)> {
        self.by.first().copied()
    }
}
