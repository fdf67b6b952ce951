//! What can be read, piece by piece in its order. Behind it, at their place already, lie the pieces of the message that is coming in,
//! which can be read when its last one is there: a piece in order is queued once and read once, and nothing is made for its message.
use super::pieces::{PIN_MAX, Pieces, spare};
use crate::sctp::message::{Received, RecvInfo};
use crate::sctp::notification::Notification;
use bytes::{Buf as _, Bytes, BytesMut};
use lowwater_wire::sctp::DataFlags;
use std::collections::VecDeque;

/// Where a piece lies.
#[derive(Debug)]
enum Place {
    /// In the buffer of the frame whose turn it is.
    Frame { at: u32, len: u32 },
    /// In one of its own.
    Own(Bytes),
}

/// A piece of a message as it came in its chunk.
#[derive(Debug)]
struct Piece {
    place: Place,
    /// Of its message.
    info: RecvInfo,
    flags: DataFlags,
}

impl Piece {
    fn len(&self) -> usize {
        match &self.place {
            Place::Frame { len, .. } => *len as usize,
            Place::Own(data) => data.len(),
        }
    }

    /// Its first bytes were read.
    fn skip(&mut self, read: usize) {
        match &mut self.place {
            Place::Frame { at, len } => (*at, *len) = (*at + read as u32, *len - read as u32),
            Place::Own(data) => data.advance(read),
        }
    }
}

#[derive(Debug)]
enum Item {
    Piece(Piece),
    Note(Notification),
}

/// A buffer with neighbouring pieces: they share one reference to it.
#[derive(Debug)]
struct Frame {
    buffer: Bytes,
    /// How many of its pieces are still there; an empty one is passed over.
    pieces: usize,
}

/// The buffers of the pieces that have none of their own, in the order of these pieces. An association at rest has no list of them.
#[derive(Debug, Default)]
struct Frames {
    list: Option<Box<List>>,
}

#[derive(Debug, Default)]
struct List(VecDeque<Frame>);

impl Frames {
    /// The place of `data`, which lies in `buffer`.
    fn place(&mut self, data: &[u8], buffer: &Bytes) -> Place {
        let frames = &mut self.list.get_or_insert_default().0;
        let last = frames.back_mut().and_then(|frame| Some((offset(data, &frame.buffer)?, frame)));
        let at = if let Some((at, frame)) = last {
            frame.pieces += 1;
            at
        } else {
            let Some(at) = offset(data, buffer) else { return Place::Own(Bytes::copy_from_slice(data)) };
            frames.push_back(Frame { buffer: buffer.clone(), pieces: 1 });
            at
        };
        Place::Frame { at, len: data.len() as u32 }
    }

    /// The frame of the first piece.
    fn first(&mut self) -> Option<&mut Frame> {
        let frames = &mut self.list.as_mut()?.0;
        while frames.pop_front_if(|frame| frame.pieces == 0).is_some() {}
        frames.front_mut()
    }

    /// The frame of the last piece.
    fn last(&mut self) -> Option<&mut Frame> {
        let frames = &mut self.list.as_mut()?.0;
        while frames.pop_back_if(|frame| frame.pieces == 0).is_some() {}
        frames.back_mut()
    }

    /// The bytes of the first piece.
    fn show(&mut self, at: u32, len: u32) -> &[u8] {
        let range = at as usize..at as usize + len as usize;
        self.first().and_then(|frame| frame.buffer.get(range)).unwrap_or_default()
    }

    /// The first piece is gone.
    fn pop_first(&mut self) {
        if let Some(frame) = self.first() {
            frame.pieces -= 1;
            self.first();
        }
    }

    /// Takes out the first piece; the last one of its frame takes the reference along.
    fn take_first(&mut self, at: u32, len: u32) -> Bytes {
        let Some(frame) = self.first() else { return Bytes::new() };
        frame.pieces -= 1;
        let (at, end) = (at as usize, at as usize + len as usize);
        if frame.pieces > 0 {
            return frame.buffer.slice(at..end);
        }
        let mut buffer = core::mem::take(&mut frame.buffer);
        self.first();
        buffer.truncate(end);
        buffer.advance(at);
        buffer
    }

    /// Takes out the last piece, copied if it would pin far more of its buffer than it is charged for; how many bytes were.
    fn take_last(&mut self, at: u32, len: u32, overhead: usize) -> (Bytes, usize) {
        let Some(frame) = self.last() else { return (Bytes::new(), 0) };
        frame.pieces -= 1;
        let mut data = frame.buffer.slice(at as usize..at as usize + len as usize);
        let copied = spare(&mut data, frame.buffer.len(), overhead);
        self.last();
        (data, copied)
    }

    /// A piece of the last frame gets a copy of its own, if it pins far more of `frame_len` than it is charged for.
    fn spare(&mut self, place: &mut Place, frame_len: usize, overhead: usize) -> usize {
        let (at, len) = match place {
            Place::Own(data) => return spare(data, frame_len, overhead),
            Place::Frame { at, len } => (*at as usize, *len as usize),
        };
        if PIN_MAX * (len + overhead) >= frame_len {
            return 0;
        }
        let Some(frame) = self.last() else { return 0 };
        *place = Place::Own(Bytes::copy_from_slice(&frame.buffer[at..at + len]));
        frame.pieces -= 1;
        self.last();
        len
    }
}

/// Where `data` begins in `buffer`, if it lies there.
fn offset(data: &[u8], buffer: &Bytes) -> Option<u32> {
    let at = (data.as_ptr() as usize).checked_sub(buffer.as_ptr() as usize)?;
    (at + data.len() <= buffer.len()).then(|| u32::try_from(at).ok()).flatten()
}

/// The message that is coming in, in order and without a hole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// The TSN behind its last fragment so far.
    pub(super) end: u64,
    pub(super) info: RecvInfo,
    pub(super) bytes: u32,
    /// The last items of the queue.
    pieces: u32,
}

impl Open {
    /// TSN of its first fragment.
    pub(super) const fn start(&self) -> u64 {
        self.end - self.pieces as u64
    }
}

/// What was read, and what that gives back.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) received: Received,
    pub(super) bytes: usize,
    pub(super) pieces: usize,
}

/// User data that comes in.
#[derive(Debug)]
pub(super) enum Data<'a> {
    /// Where it lies in a buffer.
    In(&'a [u8], &'a Bytes),
    /// By itself.
    Own(Bytes),
}

impl Data<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::In(data, _) => data.len(),
            Self::Own(data) => data.len(),
        }
    }

    /// With a reference of its own.
    pub(super) fn into_bytes(self) -> Bytes {
        match self {
            Self::In(data, buffer) => buffer.slice_ref(data),
            Self::Own(data) => data,
        }
    }
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Ready {
    items: VecDeque<Item>,
    frames: Frames,
    open: Option<Open>,
}

impl Ready {
    /// Items in it, those of the open message among them.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Items that can be read.
    pub(super) fn readable(&self) -> usize {
        self.items.len() - self.open.map_or(0, |open| open.pieces as usize)
    }

    /// Something can be read.
    pub(super) fn is_readable(&self) -> bool {
        self.readable() > 0
    }

    /// Bytes of messages that can be read.
    pub(super) fn bytes(&self) -> usize {
        let bytes = |item: &Item| match item {
            Item::Piece(piece) => piece.len(),
            Item::Note(_) => 0,
        };
        self.items.iter().take(self.readable()).map(bytes).sum()
    }

    /// The next message that can be read is the one whose first TSN is this, or what is left of that.
    pub(super) fn is_inside(&self, tsn: u32) -> bool {
        let of = |item: &Item| match item {
            Item::Piece(piece) => Some(piece.info.tsn),
            Item::Note(_) => None,
        };
        self.items.iter().take(self.readable()).find_map(of) == Some(tsn)
    }

    /// A message whose turn it is begins to come in. Nothing else may be open.
    pub(super) fn open(&mut self, start: u64, info: RecvInfo, data: Data<'_>) {
        debug_assert!(self.open.is_none(), "one at a time");
        self.open = Some(Open { end: start + 1, info, bytes: data.len() as u32, pieces: 1 });
        self.push_piece(info, data, DataFlags::BEGIN);
    }

    /// A message is coming in.
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// This TSN is of the message that is coming in.
    pub(super) fn is_open_at(&self, tsn: u64) -> bool {
        self.open.as_ref().is_some_and(|open| (open.start()..open.end).contains(&tsn))
    }

    /// The fragment at `tsn` is the next one of the open message.
    pub(super) fn goes_on(&self, tsn: u64, info: &RecvInfo) -> bool {
        self.open.as_ref().is_some_and(|open| open.end == tsn && same_message(&open.info, info))
    }

    /// The next fragment of the open message, which perhaps `ends` it.
    pub(super) fn go_on(&mut self, data: Data<'_>, ends: bool) {
        let Some(open) = &mut self.open else { return };
        let info = open.info;
        open.end += 1;
        open.bytes += data.len() as u32;
        open.pieces += 1;
        if ends {
            self.open = None;
        }
        self.push_piece(info, data, if ends { DataFlags::END } else { DataFlags::EMPTY });
    }

    fn push_piece(&mut self, info: RecvInfo, data: Data<'_>, flags: DataFlags) {
        let place = match data {
            Data::In(data, buffer) => self.frames.place(data, buffer),
            Data::Own(data) => Place::Own(data),
        };
        self.items.push_back(Item::Piece(Piece { place, info, flags }));
    }

    /// Takes out what there is of the open message, and copies those pieces that would pin far more than they are charged for: it may
    /// outlive all that came with them. How many bytes were copied.
    pub(super) fn take_open(&mut self, overhead: usize) -> Option<(Open, Pieces, usize)> {
        let open = self.open.take()?;
        let (mut pieces, mut all) = (Pieces::default(), 0);
        for _ in 0..open.pieces {
            let Some(Item::Piece(piece)) = self.items.pop_back() else { break };
            let (data, copied) = match piece.place {
                Place::Frame { at, len } => self.frames.take_last(at, len, overhead),
                Place::Own(data) => (data, 0),
            };
            pieces = Pieces::one(data).join(pieces);
            all += copied;
        }
        Some((open, pieces, all))
    }

    /// A whole message, in one chunk. Nothing may be open.
    pub(super) fn push_whole(&mut self, data: Data<'_>, info: RecvInfo) {
        debug_assert!(self.open.is_none(), "nothing goes between the pieces of a message");
        self.push_piece(info, data, DataFlags::WHOLE);
    }

    /// A message or a part of one, which `ends` it. Nothing may be open.
    pub(super) fn push(&mut self, mut pieces: Pieces, info: RecvInfo, ends: bool) {
        debug_assert!(self.open.is_none(), "nothing goes between the pieces of a message");
        while let Some(data) = pieces.pop() {
            let flags = if ends && pieces.len() == 0 { DataFlags::END } else { DataFlags::EMPTY };
            self.items.push_back(Item::Piece(Piece { place: Place::Own(data), info, flags }));
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
                copied += self.frames.spare(&mut piece.place, frame_len, overhead);
            }
        }
        copied
    }

    /// Length of the first piece of the next message; 0 before anything else.
    pub(super) fn next_piece(&self) -> usize {
        match self.items.front() {
            Some(Item::Piece(piece)) if self.is_readable() => piece.len(),
            _ => 0,
        }
    }

    /// The next item, `max` bytes of a message at the most.
    pub(super) fn recv(&mut self, max: usize) -> Option<Taken> {
        if !self.is_readable() {
            return None;
        }
        let piece = match self.items.front()? {
            Item::Piece(piece) => piece,
            Item::Note(_) => return self.recv_note(),
        };
        let (info, len, eor) = (piece.info, piece.len(), piece.flags.end());
        if len > max || (!eor && len < max) {
            return Some(self.recv_joined(&info, max));
        }
        let Some(Item::Piece(piece)) = self.items.pop_front() else { return None };
        let data = match piece.place {
            Place::Frame { at, len } => self.frames.take_first(at, len),
            Place::Own(data) => data,
        };
        Some(Taken { received: Received::Data { data, info, eor }, bytes: len, pieces: 1 })
    }

    /// Shows the next piece to `see`, where there is one in front, and takes it out; its length.
    pub(super) fn read(&mut self, see: &mut impl FnMut(&[u8], &RecvInfo, bool)) -> Option<usize> {
        if !self.is_readable() {
            return None;
        }
        let Some(Item::Piece(piece)) = self.items.front() else { return None };
        let (len, eor) = (piece.len(), piece.flags.end());
        match &piece.place {
            Place::Frame { at, len } => {
                see(self.frames.show(*at, *len), &piece.info, eor);
                self.frames.pop_first();
            }
            Place::Own(data) => see(data, &piece.info, eor),
        }
        self.items.pop_front();
        Some(len)
    }

    fn recv_note(&mut self) -> Option<Taken> {
        let Some(Item::Note(note)) = self.items.pop_front() else { return None };
        Some(Taken { received: Received::Notification(note), bytes: 0, pieces: 0 })
    }

    /// Copies `max` bytes of one message at the most, however they are cut.
    fn recv_joined(&mut self, info: &RecvInfo, max: usize) -> Taken {
        let mut want = 0;
        for item in self.items.iter().take(self.readable()) {
            let Item::Piece(piece) = item else { break };
            if piece.info.tsn != info.tsn || want >= max {
                break;
            }
            want = (want + piece.len()).min(max);
        }
        let (mut all, mut pieces, mut eor) = (BytesMut::with_capacity(want), 0, false);
        while all.len() < want {
            let Some(Item::Piece(piece)) = self.items.front_mut() else { break };
            let bytes = match &piece.place {
                Place::Frame { at, len } => self.frames.show(*at, *len),
                Place::Own(data) => data,
            };
            let part = bytes.len().min(want - all.len());
            all.extend_from_slice(&bytes[..part]);
            if part < bytes.len() {
                piece.skip(part);
                break;
            }
            eor = piece.flags.end();
            if matches!(piece.place, Place::Frame { .. }) {
                self.frames.pop_first();
            }
            self.items.pop_front();
            pieces += 1;
        }
        let received = Received::Data { data: all.freeze(), info: *info, eor };
        Taken { received, bytes: want, pieces }
    }

    /// Gives back the memory of the busiest time, where there is nothing in it.
    pub(super) fn shrink(&mut self) {
        if self.items.is_empty() {
            (self.items, self.frames) = (VecDeque::new(), Frames::default());
        }
    }
}

/// These fragments are of one message, if they are neighbours.
pub(super) fn same_message(a: &RecvInfo, b: &RecvInfo) -> bool {
    (a.stream, a.ssn, a.unordered) == (b.stream, b.ssn, b.unordered)
}
