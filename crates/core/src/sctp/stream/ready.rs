//! What can be read, piece by piece in its order. Behind it, at their place already, lie the pieces of the message that is coming in,
//! which can be read when its last one is there: a piece in order is queued once and read once, and nothing is made for its message.
use super::pieces::{Pieces, spare};
use crate::sctp::message::{Received, RecvInfo};
use crate::sctp::notification::Notification;
use bytes::{Bytes, BytesMut};
use lowwater_wire::sctp::DataFlags;
use std::collections::VecDeque;

/// A piece of a message as it came in its chunk.
#[derive(Debug)]
struct Piece {
    data: Bytes,
    /// Of its message.
    info: RecvInfo,
    flags: DataFlags,
}

#[derive(Debug)]
enum Item {
    Piece(Piece),
    Note(Notification),
}

/// The message that is coming in, in order and without a hole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// TSN of its first fragment.
    pub(super) start: u64,
    /// The TSN behind its last one so far.
    pub(super) end: u64,
    pub(super) info: RecvInfo,
    pub(super) bytes: usize,
    /// The last items of the queue.
    pieces: usize,
}

/// What was read, and what that gives back.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) received: Received,
    pub(super) bytes: usize,
    pub(super) pieces: usize,
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Ready {
    items: VecDeque<Item>,
    open: Option<Open>,
}

impl Ready {
    /// Items in it, those of the open message among them.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    fn readable(&self) -> usize {
        self.items.len() - self.open.map_or(0, |open| open.pieces)
    }

    /// Something can be read.
    pub(super) fn is_readable(&self) -> bool {
        self.readable() > 0
    }

    /// Bytes of messages that can be read.
    pub(super) fn bytes(&self) -> usize {
        let bytes = |item: &Item| match item {
            Item::Piece(piece) => piece.data.len(),
            Item::Note(_) => 0,
        };
        self.items.iter().take(self.readable()).map(bytes).sum()
    }

    /// A message whose turn it is begins to come in. Nothing else may be open.
    pub(super) fn open(&mut self, start: u64, info: RecvInfo, data: Bytes) {
        debug_assert!(self.open.is_none(), "one at a time");
        self.open = Some(Open { start, end: start + 1, info, bytes: data.len(), pieces: 1 });
        self.items.push_back(Item::Piece(Piece { data, info, flags: DataFlags::BEGIN }));
    }

    /// The next fragment of the open message; gives it back when it is not that. `ends` it.
    ///
    /// # Errors
    /// The fragment that does not go on with it.
    pub(super) fn go_on(&mut self, tsn: u64, info: &RecvInfo, data: Bytes, ends: bool) -> Result<(), Bytes> {
        let Some(open) = self.open.as_mut().filter(|open| open.end == tsn && same_message(&open.info, info))
        else {
            return Err(data);
        };
        let info = open.info;
        open.end += 1;
        open.bytes += data.len();
        open.pieces += 1;
        if ends {
            self.open = None;
        }
        let flags = if ends { DataFlags::END } else { DataFlags::EMPTY };
        self.items.push_back(Item::Piece(Piece { data, info, flags }));
        Ok(())
    }

    /// Takes out what there is of the open message.
    pub(super) fn take_open(&mut self) -> Option<(Open, Pieces)> {
        let open = self.open.take()?;
        let mut pieces = Pieces::default();
        for item in self.items.drain(self.items.len() - open.pieces..) {
            if let Item::Piece(piece) = item {
                pieces = pieces.join(Pieces::one(piece.data));
            }
        }
        Some((open, pieces))
    }

    /// A whole message, in one chunk. Nothing may be open.
    pub(super) fn push_whole(&mut self, data: Bytes, info: RecvInfo) {
        debug_assert!(self.open.is_none(), "nothing goes between the pieces of a message");
        self.items.push_back(Item::Piece(Piece { data, info, flags: DataFlags::WHOLE }));
    }

    /// A message or a part of one, which `ends` it. Nothing may be open.
    pub(super) fn push(&mut self, mut pieces: Pieces, info: RecvInfo, ends: bool) {
        debug_assert!(self.open.is_none(), "nothing goes between the pieces of a message");
        while let Some(data) = pieces.pop() {
            let flags = if ends && pieces.len() == 0 { DataFlags::END } else { DataFlags::EMPTY };
            self.items.push_back(Item::Piece(Piece { data, info, flags }));
        }
    }

    /// A notification. Nothing may be open. Of restarts behind each other the last is enough.
    pub(super) fn push_note(&mut self, note: Notification) {
        debug_assert!(self.open.is_none(), "nothing goes between the pieces of a message");
        if let Some(Item::Note(last)) = self.items.back()
            && last.is_restart()
            && note.is_restart()
        {
            self.items.pop_back();
        }
        self.items.push_back(Item::Note(note));
    }

    /// Copies the whole messages behind the first `from` items which pin far more of their frame than they are charged for; how many
    /// bytes.
    pub(super) fn spare(&mut self, from: usize, frame_len: usize, overhead: usize) -> usize {
        let mut copied = 0;
        for item in self.items.range_mut(from.min(self.items.len())..) {
            if let Item::Piece(piece) = item
                && piece.flags.contains(DataFlags::WHOLE)
            {
                copied += spare(&mut piece.data, frame_len, overhead);
            }
        }
        copied
    }

    /// Length of the first piece of the next message; 0 before anything else.
    pub(super) fn next_piece(&self) -> usize {
        match self.items.front() {
            Some(Item::Piece(piece)) if self.is_readable() => piece.data.len(),
            _ => 0,
        }
    }

    /// The next item, `max` bytes of a message at the most.
    pub(super) fn recv(&mut self, max: usize) -> Option<Taken> {
        if !self.is_readable() {
            return None;
        }
        let piece = match self.items.front_mut()? {
            Item::Piece(piece) => piece,
            Item::Note(_) => return self.recv_note(),
        };
        let (info, len) = (piece.info, piece.data.len());
        if len > max {
            let data = piece.data.split_to(max);
            return Some(Taken {
                received: Received::Data { data, info, eor: false },
                bytes: max,
                pieces: 0,
            });
        }
        let eor = piece.flags.end();
        if !eor && len < max {
            return Some(self.recv_joined(&info, max));
        }
        let Some(Item::Piece(Piece { data, .. })) = self.items.pop_front() else { return None };
        Some(Taken { received: Received::Data { data, info, eor }, bytes: len, pieces: 1 })
    }

    fn recv_note(&mut self) -> Option<Taken> {
        let Some(Item::Note(note)) = self.items.pop_front() else { return None };
        Some(Taken { received: Received::Notification(note), bytes: 0, pieces: 0 })
    }

    /// Copies the pieces of one message together, `max` bytes at the most.
    fn recv_joined(&mut self, info: &RecvInfo, max: usize) -> Taken {
        let mut want = 0;
        for item in self.items.iter().take(self.readable()) {
            let Item::Piece(piece) = item else { break };
            if piece.info.tsn != info.tsn || want >= max {
                break;
            }
            want = (want + piece.data.len()).min(max);
        }
        let (mut all, mut pieces, mut eor) = (BytesMut::with_capacity(want), 0, false);
        while all.len() < want {
            let Some(Item::Piece(piece)) = self.items.front_mut() else { break };
            let left = want - all.len();
            if left < piece.data.len() {
                all.extend_from_slice(&piece.data.split_to(left));
                break;
            }
            all.extend_from_slice(&piece.data);
            eor = piece.flags.end();
            self.items.pop_front();
            pieces += 1;
        }
        let received = Received::Data { data: all.freeze(), info: *info, eor };
        Taken { received, bytes: want, pieces }
    }

    /// Gives back the memory of the busiest time, where there is nothing in it.
    pub(super) fn shrink(&mut self) {
        if self.items.is_empty() {
            self.items = VecDeque::new();
        }
    }
}

/// These fragments are of one message, if they are neighbours.
pub(super) fn same_message(a: &RecvInfo, b: &RecvInfo) -> bool {
    (a.stream, a.ssn, a.unordered) == (b.stream, b.ssn, b.unordered)
}
